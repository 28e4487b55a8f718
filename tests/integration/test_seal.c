/* Seals, znodes that their session alone may write, where the servers do not take one. Where they do: conformance. */
#include <stdatomic.h>
#include <string.h>

#include "contest.h"
#include "on_servers.h"

static void count_reasons(const zkl_log_record *record, void *payload)
{
    if (record->level == ZKL_LOG_INFO && strstr(record->text, "no digest credentials")) {
        atomic_fetch_add((atomic_int *)payload, 1);
    }
}

static void count_changes(zkl_session *session, zkl_connection_state state, void *payload)
{
    (void)session;
    (void)state;
    atomic_fetch_add((atomic_int *)payload, 1);
}

/* A session there goes without, and its user hears of nothing but in the log. */
TEST(test_session_refused)
{
    struct ensemble *without =
        ensemble_start(&(struct ensemble_options){.java = "-Dzookeeper.DigestAuthenticationProvider.enabled=false"});
    CU_ASSERT_PTR_NOT_NULL_FATAL(without);
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    atomic_int reasons = 0, changes = 0;
    options.log_fn = count_reasons;
    options.log_payload = &reasons;
    options.state_fn = count_changes;
    options.state_payload = &changes;
    zkl_session *session;
    ASSERT_OK_FATAL(zkl_session_open(&session, ensemble_servers(without), &options, NULL));
    contest_once(session, "/refused/lock");
    CU_ASSERT_EQUAL(atomic_load(&reasons), 1);
    CU_ASSERT_EQUAL(atomic_load(&changes), 0);
    ASSERT_OK(zkl_session_close(session, SOON));
    ensemble_stop(without);
}

/* Those who wait are granted all the same. */
TEST(test_session_another_algorithm)
{
    struct ensemble *other = ensemble_start(
        &(struct ensemble_options){.java = "-Dzookeeper.DigestAuthenticationProvider.digestAlg=SHA-256"});
    CU_ASSERT_PTR_NOT_NULL_FATAL(other);
    struct queue_of queue;
    queue_up(&queue, &(struct field){{ensemble_servers(other)}, 1, 60000, 500, 0}, "/other/lock", 3);
    queue_drain(&queue);
    ensemble_stop(other);
}

int main(int argc, char **argv)
{
    return ensemble_available() ? check_main("seal", argc, argv) : 77;
}
