/* Seals: znodes that their session alone may write, on real servers, also when the connection moves, and where the servers do not
 * take a seal. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "contest.h"
#include "digest.h"
#include "on_servers.h"
#include "recorder.h"
#include "store_client.h"
#include "wait.h"

#define SEAL "zklock:secret"

static struct recorder *open_sealed(const char *addresses, const char *seal)
{
    struct zkl__store_config config = recorder_config(addresses);
    config.seal = seal;
    return recorder_open(&zkl__store_zookeeper, &config, NULL, NULL);
}

static enum zkl__rc create(struct recorder *r, const char *path, const zkl_acl *acl)
{
    struct zkl__op op = op_create(path, NULL, ZKL__EPHEMERAL);
    op.acl = acl;
    return recorder_rc(r, op);
}

/* A znode that SEAL alone may write. */
static enum zkl__rc create_sealed(struct recorder *r, const char *path)
{
    char identity[sizeof SEAL + ZKL__DIGEST_ROOM];
    zkl__digest_identity(identity, SEAL, strlen(SEAL));
    const zkl_acl_entry entries[] = {{ZKL_PERM_READ | ZKL_PERM_CREATE | ZKL_PERM_DELETE, "world", "anyone"},
                                     {ZKL_PERM_WRITE, "digest", identity}};
    return create(r, path, &(zkl_acl){2, entries});
}

/* --- the store ----------------------------------------------------------------------------------------------------- */

static int server_of(int64_t session_id)
{
    char id[32];
    snprintf(id, sizeof id, "0x%" PRIx64, session_id);
    for (int i = 0; i < ensemble_size(server); i++) {
        char *connections = ensemble_ask(server, i, "cons");
        bool there = connections && strstr(connections, id);
        free(connections);
        if (there) {
            return i;
        }
    }
    return -1;
}

/* The seal goes out again, before anything else, to the next server. */
TEST(test_another_server)
{
    struct recorder *r = open_sealed(ensemble_servers(server), SEAL);
    const struct record *connected = recorder_nth(r, RECORD_CONNECTED, 0, SOON);
    CU_ASSERT_PTR_NOT_NULL_FATAL(connected);
    CU_ASSERT_EQUAL(create_sealed(r, "/moved"), ZKL__RC_OK);
    int which = server_of(connected->connection.session_id);
    CU_ASSERT_FATAL(which >= 0);
    ensemble_kill(server, which);
    CU_ASSERT_PTR_NOT_NULL_FATAL(recorder_nth(r, RECORD_CONNECTED, 1, SOON));
    CU_ASSERT_EQUAL(recorder_rc(r, op_set("/moved", "x", 0)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(recorder_count(r, RECORD_EXPIRED), 0);
    recorder_free(r);
    CU_ASSERT(ensemble_restart(server, which));
    CU_ASSERT(ensemble_wait(server, 4 * SOON));
}

/* --- servers that do not take it ----------------------------------------------------------------------------------- */

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
    queue_up(&queue, &(struct field){{ensemble_servers(other)}, 1, 6000, 500, 0}, "/other/lock", 3);
    queue_drain(&queue);
    ensemble_stop(other);
}

TESTS_ON_SERVERS("seal", (&(struct ensemble_options){.servers = 3}))
