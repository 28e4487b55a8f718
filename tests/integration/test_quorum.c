/* Three servers lose their majority, and all of them: nobody is granted, everybody's time ends, and whoever's lease lasts goes on. */
#include <inttypes.h>

#include "contest.h"
#include "on_servers.h"

#define TICK 500
#define SHORT 4000
#define LONG 60000 /* the longest that is granted: servers on a busy machine take long to come back */

/* One holds, one waits behind it. */
static void begin(struct queue_of *q, const char *path, int64_t timeout_ms, int64_t wait_ms)
{
    queue_up(q, &(struct field){{ensemble_servers(server)}, 1, timeout_ms, TICK, wait_ms}, path, 2);
}

TEST(test_no_majority)
{
    struct queue_of q;
    begin(&q, "/no-majority", SHORT, 2 * SHORT);
    int leader = ensemble_leader(server);
    CU_ASSERT_FATAL(leader >= 0);
    int64_t killed = boot_ns();
    ensemble_kill(server, leader);
    ensemble_kill(server, (leader + 1) % 3);
    /* By the clock: a committed write was sent before the kill, at the latest. It is seen to hold no longer; the word of it may come late
     * on a busy machine. */
    int64_t seen = killed, at = killed;
    for (int64_t end = now_ms() + SOON; zkl_lock_is_held(q.locks[0]) && look_again(end); at = boot_ns()) {
        seen = at;
    }
    CU_ASSERT(seen - killed < SHORT * MS);
    int64_t lost = heard_when(&q.heard, ZKL_STATE_LOST, SOON);
    CU_ASSERT(lost > 0);
    CU_ASSERT_FALSE(zkl_lock_is_held(q.locks[0]));
    CU_ASSERT_EQUAL(waiter_end(&q.waiters[1]), ZKL_ETIMEOUT);
    CU_ASSERT(q.waiters[1].ended_ns - q.waiters[1].began_ns >= 2 * SHORT * MS);
    printf("lost %" PRId64 " ms after the kill, of a session timeout of %d; ", (lost - killed) / MS, SHORT);
    CU_ASSERT_EQUAL(zkl_lock_release(q.locks[0], NULL), ZKL_ELOST);
    CU_ASSERT(ensemble_restart(server, leader));
    CU_ASSERT(ensemble_restart(server, (leader + 1) % 3));
    CU_ASSERT_FATAL(ensemble_wait(server, 4 * SOON));
    ASSERT_OK(zkl_lock_acquire(q.locks[1], 4 * SOON, NULL, NULL)); /* and life goes on */
    queue_free(&q);
}

/* All are killed, and come back with what was committed within the session timeout: the sessions live, and the queue stands as it was. */
TEST(test_all_restarted)
{
    struct queue_of q;
    begin(&q, "/all-restarted", LONG, 0);
    int64_t token = zkl_lock_token(q.locks[0]);
    for (int i = 0; i < 3; i++) {
        ensemble_kill(server, i);
    }
    CU_ASSERT(heard_when(&q.heard, ZKL_STATE_JEOPARDY, SOON) > 0);
    for (int i = 0; i < 3; i++) {
        CU_ASSERT(ensemble_restart(server, i));
    }
    CU_ASSERT_FATAL(ensemble_wait(server, 4 * SOON));
    ASSERT_EVENTUALLY(zkl_lock_state(q.locks[0]) != ZKL_STATE_JEOPARDY);
    CU_ASSERT_EQUAL(zkl_lock_state(q.locks[0]), ZKL_STATE_HELD);
    CU_ASSERT_EQUAL(zkl_lock_token(q.locks[0]), token);
    CU_ASSERT_FALSE(q.waiters[1].done);
    kit_release(q.locks[0]);
    ASSERT_OK(waiter_end(&q.waiters[1]));
    CU_ASSERT(q.waiters[1].grant.token > token);
    queue_free(&q);
}

TESTS_ON_SERVERS("quorum", (&(struct ensemble_options){.servers = 3, .tick_ms = TICK}))
