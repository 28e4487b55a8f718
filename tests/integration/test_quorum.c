/* Three servers lose their majority, and all of them: nobody is granted, everybody's time ends, and whoever's lease lasts goes on. */
#include <inttypes.h>
#include <stdio.h>

#include "contest.h"
#include "on_servers.h"

#define TICK 500
#define SHORT 4000
#define LONG 60000 /* the longest that is granted: servers on a busy machine take long to come back */

struct pair {
    zkl_session *first, *second;
    zkl_lock *holder, *late;
    struct heard heard;
    struct waiter waiter;
};

/* One holds, one waits behind it. */
static void begin(struct pair *p, const char *path, int64_t timeout_ms, int64_t wait_ms)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    *p = (struct pair){.heard = HEARD_INIT};
    options.state_fn = heard_fn;
    options.payload = &p->heard;
    p->first = contest_session(ensemble_servers(server), timeout_ms, TICK);
    p->second = contest_session(ensemble_servers(server), timeout_ms, TICK);
    p->holder = contest_lock(p->first, path, &options);
    ASSERT_OK_FATAL(zkl_lock_acquire(p->holder, SOON, NULL, NULL));
    p->late = contest_lock(p->second, path, NULL);
    waiter_queue(&p->waiter, p->late, wait_ms);
}

static void end(struct pair *p)
{
    zkl_lock_free(p->holder);
    zkl_lock_free(p->late);
    zkl_session_close(p->first, SOON);
    zkl_session_close(p->second, SOON);
}

TEST(test_no_majority)
{
    struct pair p;
    begin(&p, "/no-majority", SHORT, 2 * SHORT);
    int leader = ensemble_leader(server);
    CU_ASSERT_FATAL(leader >= 0);
    int64_t killed = boot_ns();
    ensemble_kill(server, leader);
    ensemble_kill(server, (leader + 1) % 3);
    /* By the clock: a committed write was sent before the kill, at the latest. A second for a busy machine's thread. */
    int64_t lost = heard_when(&p.heard, ZKL_STATE_LOST, SOON);
    CU_ASSERT(lost > 0);
    CU_ASSERT(lost - killed < (SHORT + 1000) * MS);
    CU_ASSERT_FALSE(zkl_lock_is_held(p.holder));
    CU_ASSERT_EQUAL(waiter_end(&p.waiter), ZKL_ETIMEOUT);
    CU_ASSERT(p.waiter.ended_ns - p.waiter.began_ns >= 2 * SHORT * MS);
    printf("lost %" PRId64 " ms after the kill, of a session timeout of %d; ", (lost - killed) / MS, SHORT);
    CU_ASSERT_EQUAL(zkl_lock_release(p.holder, NULL), ZKL_ELOST);
    CU_ASSERT(ensemble_restart(server, leader));
    CU_ASSERT(ensemble_restart(server, (leader + 1) % 3));
    CU_ASSERT_FATAL(ensemble_wait(server, 4 * SOON));
    ASSERT_OK(zkl_lock_acquire(p.late, 4 * SOON, NULL, NULL)); /* and life goes on */
    end(&p);
}

/* All are killed, and come back with what was committed within the session timeout: the sessions live, and the queue stands as it was. */
TEST(test_all_restarted)
{
    struct pair p;
    begin(&p, "/all-restarted", LONG, ZKL_WAIT_FOREVER);
    int64_t token = zkl_lock_token(p.holder);
    for (int i = 0; i < 3; i++) {
        ensemble_kill(server, i);
    }
    CU_ASSERT(heard_when(&p.heard, ZKL_STATE_JEOPARDY, SOON) > 0);
    for (int i = 0; i < 3; i++) {
        CU_ASSERT(ensemble_restart(server, i));
    }
    CU_ASSERT_FATAL(ensemble_wait(server, 4 * SOON));
    int64_t end_ms = now_ms() + 4 * SOON;
    while (zkl_lock_state(p.holder) == ZKL_STATE_JEOPARDY && look_again(end_ms)) {
    }
    CU_ASSERT_EQUAL(zkl_lock_state(p.holder), ZKL_STATE_HELD);
    CU_ASSERT_EQUAL(zkl_lock_token(p.holder), token);
    CU_ASSERT_FALSE(atomic_load(&p.waiter.done));
    ASSERT_OK(zkl_lock_release(p.holder, NULL));
    int64_t released = boot_ns();
    ASSERT_OK(waiter_end(&p.waiter));
    CU_ASSERT(p.waiter.grant.token > token);
    printf("granted %" PRId64 " ms after the release; ", (p.waiter.ended_ns - released) / MS);
    end(&p);
}

TESTS_ON_SERVERS("quorum", (&(struct ensemble_options){.servers = 3, .tick_ms = TICK}))
