/* A lock whose node an operator removes, or whose session ends, on one real server. */
#include "one_server.h"

/* --- an operator removes our node ------------------------------------------------------------------------------------ */

static void remove_node_of(zkl_lock *lock)
{
    char node[128];
    CU_ASSERT(zkl_lock_node(lock, node, sizeof node) > 0);
    CU_ASSERT(queue_remove(eye, zkl_lock_path(lock), node));
}

#define MANY 2000
#define REMOVED 30
#define BEAT (TIMEOUT / 12)

static void held_too(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    (void)lock;
    (void)grant;
    (void)err;
    atomic_fetch_add((atomic_int *)payload, code == ZKL_OK ? 1 : MANY + 1);
}

/* ms until the lock is not held any more, from when its node was removed by hand. */
static int64_t removed_for(zkl_lock *lock)
{
    int64_t began = now_ms();
    remove_node_of(lock);
    while (zkl_lock_is_held(lock) && look_again(began + SOON)) {
    }
    return zkl_lock_is_held(lock) ? SOON : now_ms() - began;
}

/* One session holds so many that a heartbeat on each of them would take minutes. Any of them is removed: that is observed within a heartbeat
 * or so, and not by the round of the heartbeats. */
TEST(test_removed_among_many)
{
    static zkl_lock *locks[MANY];
    zkl_session *session = open_one();
    atomic_int held = 0;
    int in_time = 0;
    int64_t worst = 0;
    for (int i = 0; i < MANY; i++) {
        char path[32];
        snprintf(path, sizeof path, "/many%d", i);
        locks[i] = contest_lock(session, path, NULL);
        ASSERT_OK_FATAL(zkl_lock_acquire_async(locks[i], SOON, held_too, &held, NULL));
    }
    ASSERT_EVENTUALLY_FATAL(atomic_load(&held) == MANY);
    for (int i = 0; i < REMOVED; i++) {
        int64_t took = removed_for(locks[(i * 377) % MANY]);
        worst = took > worst ? took : worst;
        in_time += took <= 2 * BEAT;
    }
    printf("%d of %d observed within two heartbeats, the slowest in %lld ms, a heartbeat is %d ms; ", in_time, REMOVED,
           (long long)worst, BEAT);
    CU_ASSERT(worst < (int64_t)MANY * BEAT / 20); /* a twentieth of the round; and before SOON */
    CU_ASSERT(worst < SOON);
    for (int i = 0; i < MANY; i++) {
        zkl_lock_free(locks[i]);
    }
    close_one(session);
}

/* --- the end of a session ---------------------------------------------------------------------------------------------- */

/* A waiter that was told to fails then. One that queues again in a new session: golden expiry-while-waiting, test_lost_reply.c. */
TEST(test_expiry_while_waiting)
{
    struct proxy *proxy;
    zkl_session *session = open_behind(&proxy);
    zkl_session *other = open_one();
    zkl_lock *holder = contest_holder(other, "/expiry-waits");
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.on_expiry = ZKL_ON_EXPIRY_FAIL;
    zkl_lock *fails = contest_lock(session, "/expiry-waits", &options);
    struct waiter strict;
    waiter_queue(&strict, fails, ZKL_WAIT_FOREVER);
    proxy_down(proxy);
    CU_ASSERT(queue_becomes(eye, "/expiry-waits", 1)); /* the server has ended the session */
    proxy_refuse(proxy, false);
    CU_ASSERT_EQUAL(waiter_end(&strict), ZKL_ELOST);
    CU_ASSERT_EQUAL(queue_length(eye, "/expiry-waits"), 1);
    zkl_lock_free(fails);
    zkl_lock_free(holder);
    close_one(other);
    close_behind(session, proxy);
}

TESTS_ON_ONE_SERVER("lock lost")
