/* Ensembles: observers, local sessions, and ensembles that change while a lock is held. */
#include <zookeeper/zookeeper.h>

#include "workout.h"

#define TICK 500
#define TIMEOUT 15000 /* ms: on a loaded machine, leases behind observers would end in shorter ones */
/* Of a lock that is to be held through restarts. ms */
#define LONG_TIMEOUT 30000

/* From behind each of the servers: who is behind an observer is behind nobody else. */
static void work_out(const struct ensemble *e)
{
    struct field field = {.count = ensemble_size(e), .timeout_ms = TIMEOUT, .tick_ms = TICK};
    for (int i = 0; i < field.count; i++) {
        field.servers[i] = ensemble_address(e, i);
    }
    workout(&field, "/workout");
}

/* --- who votes ------------------------------------------------------------------------------- */

/* The last of the four observes. */
static void observe(const struct ensemble_options *options, const char *name)
{
    struct ensemble *e = begin(options);
    CU_ASSERT(ensemble_ask_until(e, 3, "srvr", "Mode: observer", true, SOON));
    if (options->extra) {
        int leader = ensemble_leader(e), one = (leader + 1) % 3, other = (leader + 2) % 3;
        ASSERT_EVENTUALLY(counted(e, one, "synced_observers") || counted(e, other, "synced_observers"));
    }
    work_out(e);
    ensemble_stop(e);
    holds(name, "acquire, hand over, from behind each of the four");
}

TEST(test_observer)
{
    observe(&(struct ensemble_options){.servers = 4, .observers = 1}, "three servers and an observer");
}

/* The observer is fed by a follower instead of the leader. */
TEST(test_observer_master)
{
    char extra[64]; /* one port on three hosts: no other program's, while PIDs differ */
    snprintf(extra, sizeof extra, "observerMasterPort=%d", 20000 + getpid() % 10000);
    observe(&(struct ensemble_options){.servers = 4, .observers = 1, .own_hosts = true, .extra = extra},
            "observer master (`observerMasterPort`)");
}

/* --- local sessions --------------------------------------------------------------------------- */

TEST(test_local_sessions_upgraded)
{
    struct ensemble *e = begin(&(struct ensemble_options){
        .servers = 3, .extra = "localSessionsEnabled=true\nlocalSessionsUpgradingEnabled=true"});
    work_out(e);
    ensemble_stop(e);
    holds("local sessions that are upgraded", "acquire, hand over");
}

/* A local session has no ephemeral znodes: refused at the first acquire, behind whichever server. */
TEST(test_local_sessions)
{
    struct ensemble *e = begin(&(struct ensemble_options){
        .servers = 3, .extra = "localSessionsEnabled=true\nlocalSessionsUpgradingEnabled=false"});
    for (int i = 0; i < 3; i++) {
        zkl_session *session = contest_session(ensemble_address(e, i), TIMEOUT, TICK);
        zkl_lock *lock = contest_lock(session, "/local", NULL);
        zkl_error err;
        CU_ASSERT_NOT_EQUAL(zkl_lock_acquire(lock, SOON, NULL, &err), ZKL_OK);
        CU_ASSERT_EQUAL(err.zk_code, ZEPHEMERALONLOCALSESSION);
        zkl_lock_free(lock);
        kit_close(session);
    }
    ensemble_stop(e);
    holds("local sessions that are not upgraded", "no lock: the first acquire is refused");
}

/* --- ensembles that change ---------------------------------------------------------------------- */

/* Each server ends and begins, a follower first and the leader last, while a lock is held; jars NULL: as the same version. */
static void restart_all(struct ensemble *e, const char *jars)
{
    struct queue_of queue;
    int leader = ensemble_leader(e);
    queue_up(&queue, &(struct field){{ensemble_servers(e)}, 1, LONG_TIMEOUT, TICK, 0}, "/rolling", QUEUE_MAX);
    for (int n = 1; n <= ensemble_size(e); n++) {
        int i = (leader + n) % ensemble_size(e);
        ASSERT_EVENTUALLY(zkl_lock_remaining_ms(queue.locks[0]) >= LONG_TIMEOUT / 2);
        ensemble_kill(e, i);
        bool up = jars ? ensemble_restart_with_jars(e, i, jars) : ensemble_restart(e, i);
        CU_ASSERT(up && ensemble_wait(e, 120000));
        CU_ASSERT(zkl_lock_is_held(queue.locks[0]));
    }
    ASSERT_EVENTUALLY(zkl_lock_remaining_ms(queue.locks[0]) >= LONG_TIMEOUT / 2);
    queue_drain(&queue);
}

TEST(test_rolling_restart)
{
    struct ensemble *e = begin(&(struct ensemble_options){.servers = 3});
    restart_all(e, NULL);
    ensemble_stop(e);
    holds("rolling restart", "held throughout, 20 queued, granted in their order");
}

TEST(test_rolling_upgrade)
{
    const char *newer = getenv("ZKLOCK_NEWER_JARS");
    char text[64];
    if (!newer) {
        printf("left out: no newer server, or Debian's archive is out of reach ... ");
        return;
    }
    struct ensemble *e = begin(&(struct ensemble_options){.servers = 3});
    int before = ensemble_version(e, 0), after = 0;
    restart_all(e, newer);
    for (int i = 0; i < 3; i++) {
        after = ensemble_version(e, i);
        CU_ASSERT(after > 0 && after != before);
    }
    ensemble_stop(e);
    snprintf(text, sizeof text, "rolling upgrade to %d.%d.%d", after / 10000, after / 100 % 100, after % 100);
    holds(text, "held throughout, 20 queued, granted in their order");
}

static void ignore_event(zhandle_t *zh, int type, int state, const char *path, void *context) {}

/* zoo_reconfig, until the ensemble takes it. */
static bool reconfigure(zhandle_t *zh, const char *joining, const char *leaving)
{
    char config[4096];
    struct Stat stat;
    int64_t end = now_ms() + 2 * SOON;
    int length, code;
    do {
        length = sizeof config;
        code = zoo_reconfig(zh, joining, leaving, NULL, -1, config, &length, &stat);
    } while (code != ZOK && look_again(end));
    if (code != ZOK) {
        fprintf(stderr, "reconfig: %s\n", zerror(code));
    }
    return code == ZOK;
}

/* A follower leaves the ensemble and joins it again. */
TEST(test_reconfiguration)
{
    struct ensemble *e = begin(&(struct ensemble_options){.servers = 3, .extra = "reconfigEnabled=true\nskipACL=yes"});
    struct queue_of queue;
    queue_up(&queue, &(struct field){{ensemble_servers(e)}, 1, LONG_TIMEOUT, TICK, 0}, "/reconfigured", 6);
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    zhandle_t *zh = zookeeper_init(ensemble_servers(e), ignore_event, LONG_TIMEOUT, NULL, NULL, 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(zh);
    int leader = ensemble_leader(e), i = leader == 0 ? 1 : 0;
    char leaving[8], joining[128];
    snprintf(leaving, sizeof leaving, "%d", i + 1);
    snprintf(joining, sizeof joining, "server.%d=127.0.0.1:%d:%d:participant;127.0.0.1:%d", i + 1,
             ensemble_quorum_port(e, i), ensemble_election_port(e, i), ensemble_port(e, i));
    CU_ASSERT(reconfigure(zh, NULL, leaving));
    ASSERT_EVENTUALLY(zkl_lock_remaining_ms(queue.locks[0]) >= LONG_TIMEOUT / 2);
    CU_ASSERT(reconfigure(zh, joining, NULL));
    ASSERT_EVENTUALLY(zkl_lock_remaining_ms(queue.locks[0]) >= LONG_TIMEOUT / 2);
    zookeeper_close(zh);
    queue_drain(&queue);
    ensemble_stop(e);
    holds("reconfiguration: a server leaves and joins", "held throughout, granted in order");
}

int main(int argc, char **argv)
{
    if (!ensemble_available()) {
        return 77;
    }
    return check_main("ensembles", argc, argv);
}
