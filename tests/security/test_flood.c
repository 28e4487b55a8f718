/* What thousands of forged places before a lock cost whoever wants it, counted in requests. Times are printed only. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "one_server.h"
#include "name.h"
#include "store_client.h"
#include "wait.h"

#define LONG_TIMEOUT 20000 /* ms, of sessions: few heartbeats among what is counted */
#define MANY 20000
#define SOME 3000
#define AT_ONCE 500

static void forged_name(char name[ZKL__NAME_MAX], int i)
{
    snprintf(name, ZKL__NAME_MAX, "x%d-lock-%010d", i, i);
}

static void put(const char *path, enum zkl__create_mode mode)
{
    struct zkl__op op = op_create(path, NULL, mode);
    CU_ASSERT_EQUAL_FATAL(recorder_do(intruder, &op)->reply.rc, ZKL__RC_OK);
}

/* Numbers from 0 on; the queue's own numbers begin behind them. */
static void flood(const char *queue, int count)
{
    static char names[AT_ONCE][ZKL__NAME_MAX];
    static struct zkl__op parts[AT_ONCE];
    put(queue, ZKL__PERSISTENT);
    for (int i = 0; i < count; i += AT_ONCE) {
        for (int j = 0; j < AT_ONCE; j++) {
            forged_name(names[j], i + j);
            parts[j] =
                (struct zkl__op){.kind = ZKL__OP_CREATE, .dir = queue, .name = names[j], .mode = ZKL__PERSISTENT};
        }
        struct zkl__op multi = op_multi(parts, AT_ONCE);
        CU_ASSERT_EQUAL_FATAL(recorder_do(intruder, &multi)->reply.rc, ZKL__RC_OK);
    }
}

static zkl_session *open_long(void)
{
    return contest_session(ensemble_servers(server), LONG_TIMEOUT, TICK);
}

static uint64_t requests_of(zkl_session *session)
{
    zkl_stats stats = ZKL_STATS_INIT;
    CU_ASSERT_EQUAL(zkl_session_stats(session, &stats), ZKL_OK);
    return stats.requests;
}

/* Acquires and releases. How many requests that took. */
static uint64_t cost_of_a_grant(zkl_session *session, const char *queue)
{
    zkl_lock *lock = contest_lock(session, queue, NULL);
    uint64_t before = requests_of(session);
    int64_t begin = now_ms();
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 2 * SOON, NULL, NULL), ZKL_OK);
    uint64_t requests = requests_of(session) - before;
    printf("%s: granted after %lld ms and %llu requests\n", queue, (long long)(now_ms() - begin),
           (unsigned long long)requests);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    zkl_lock_free(lock);
    return requests;
}

/* All still there, and none was ever given a child. */
static void check_untouched(const char *queue, int count)
{
    CU_ASSERT(queue_becomes(eye, queue, (size_t)count));
    for (int i = 0; i < count; i += count / 100) {
        char name[ZKL__NAME_MAX];
        forged_name(name, i);
        struct zkl__op look = {.kind = ZKL__OP_EXISTS, .dir = queue, .name = name};
        const struct zkl__reply *reply = &recorder_do(eye, &look)->reply;
        CU_ASSERT_EQUAL(reply->rc, ZKL__RC_OK);
        CU_ASSERT_EQUAL(reply->stat.cversion, 0);
        CU_ASSERT_EQUAL(reply->stat.child_count, 0);
    }
}

static void test_many(void)
{
    zkl_session *session = open_long();
    flood("/many", MANY);
    uint64_t requests = cost_of_a_grant(session, "/many");
    CU_ASSERT(requests >= MANY && requests <= MANY + 20);
    CU_ASSERT(cost_of_a_grant(session, "/many") <= 5); /* it remembers them */
    check_untouched("/many", MANY);
    CU_ASSERT_EQUAL(zkl_session_close(session, SOON), ZKL_OK);
}

/* Another lock of the session is granted in the middle of it. */
static void test_no_other_lock_waits(void)
{
    zkl_session *session = open_long();
    zkl_lock *flooded = contest_lock(session, "/beside", NULL), *other = contest_lock(session, "/quiet", NULL);
    struct waiter waiter;
    flood("/beside", MANY);
    uint64_t before = requests_of(session);
    waiter_start(&waiter, flooded, 2 * SOON);
    for (int64_t end = now_ms() + SOON; requests_of(session) - before < 3 * AT_ONCE && now_ms() < end;) {
        sched_yield();
    }
    CU_ASSERT(requests_of(session) - before >= 3 * AT_ONCE);
    CU_ASSERT_EQUAL(zkl_lock_acquire(other, SOON, NULL, NULL), ZKL_OK);
    CU_ASSERT(requests_of(session) - before < MANY);
    CU_ASSERT_EQUAL(waiter_end(&waiter), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(other, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(flooded, NULL), ZKL_OK);
    zkl_lock_free(other);
    zkl_lock_free(flooded);
    CU_ASSERT_EQUAL(zkl_session_close(session, SOON), ZKL_OK);
}

/* One that lives with a session stands among them: waited for, however many are on either side. */
static void test_a_contender_among_them(void)
{
    zkl_session *session = open_long();
    zkl_lock *lock = contest_lock(session, "/among", NULL);
    struct waiter waiter;
    flood("/among", SOME);
    put("/among/real-lock-0000001500", ZKL__EPHEMERAL);
    uint64_t before = requests_of(session);
    waiter_start(&waiter, lock, 2 * SOON);
    CU_ASSERT(ensemble_ask_until(server, 0, "wchp", "/among/real-lock-0000001500", true, SOON));
    CU_ASSERT(requests_of(session) - before <= SOME / 2 + AT_ONCE + 20); /* nearest first */
    CU_ASSERT_FALSE(zkl_lock_is_held(lock));
    CU_ASSERT(queue_remove(eye, "/among", "real-lock-0000001500"));
    CU_ASSERT_EQUAL(waiter_end(&waiter), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    zkl_lock_free(lock);
    check_untouched("/among", SOME);
    CU_ASSERT_EQUAL(zkl_session_close(session, SOON), ZKL_OK);
}

TESTS_ON_ONE_SERVER("flood", T(test_many), T(test_no_other_lock_waits), T(test_a_contender_among_them))
