/* The lease of a session: what keeps it, who is told that it runs out, what may be granted on it. */
#include "script.h"

/* The reply that would renew a lease comes when it has ended, and nobody woke before: lost is final. */
TEST_IN_SCRIPT(test_a_reply_behind_the_end)
{
    script_hold(&me);
    int64_t until = zkl__core_lease_until(script.core);
    while (script.now < until - 1000 * MS) {
        script_wait(200 * MS);
        while (script.op_count > 0) { /* shows that a server is there, and proves nothing */
            script_answer_with(ZKL__RC_NOTAPPLIED);
        }
    }
    script_reconnect(0);
    script_answer_until(ZKL__OP_CHECK);
    CU_ASSERT_EQUAL(me.lost, 0);
    script.now = until + 1;
    script_answer_all();
    CU_ASSERT(zkl__core_lease_until(script.core) > until);
    CU_ASSERT_EQUAL(me.lost, 1);
    script_release(&me);
}

/* Its time may be up before: then it is told why it was not granted. */
TEST_IN_SCRIPT(test_time_is_up_in_doubt)
{
    script_wait(20000 * MS);
    script_contend(&me, NULL);
    script_start(&me, script.now + 5000 * MS, false);
    script_answer_all();
    script_run(5000 * MS);
    CU_ASSERT_EQUAL(me.code, ZKL_ETIMEOUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(me.why, "no server was reached for a session timeout"));
}

/* A connect that took its time has used up much of the first lease: no grant that would be in jeopardy before it is renewed. */
TEST(test_young_grant)
{
    for (int64_t took = 0; took < 10000; took += 500) {
        script_init();
        script.connecting = took * MS;
        script_connect();
        script_acquire(&me);
        script_answer_all();
        script_run(6000 * MS + (took < 7500 ? 0 : script.timeout)); /* its first chain is late then: in doubt */
        CU_ASSERT_EQUAL(me.granted, 1);
        CU_ASSERT_EQUAL(me.jeopardy + me.lost, 0);
        script_finish();
    }
}

#define CONFIG "/zookeeper/config"
#define VOTERS "server.1=h:2888:3888:participant;2181\nversion=0"
#define OBSERVERS "server.4=h:2888:3888:observer;2181\nversion=0"

static enum zkl__hops hops_with(const char *config, bool hidden)
{
    script_init_masters(ZKL__MASTERS_ASK);
    if (config) {
        struct zkl__memory_node *node = script_put(CONFIG, 0);
        script_write(CONFIG, config);
        if (hidden) {
            script_forbid(node, ZKL_PERM_READ);
        }
    }
    script_connect();
    CU_ASSERT_EQUAL(zkl__core_hops(script.core), ZKL__HOPS_TWO); /* until it is known */
    script_answer();
    enum zkl__hops hops = zkl__core_hops(script.core);
    int warnings = script.warnings;
    script_finish();
    CU_ASSERT_EQUAL(warnings, hidden);
    return hops;
}

TEST(test_hops)
{
    CU_ASSERT_EQUAL(hops_with(VOTERS, false), ZKL__HOPS_ONE);
    CU_ASSERT_EQUAL(hops_with(NULL, false), ZKL__HOPS_ONE); /* servers before 3.5 */
    CU_ASSERT_EQUAL(hops_with("", false), ZKL__HOPS_ONE);   /* one server alone */
    CU_ASSERT_EQUAL(hops_with(OBSERVERS, false), ZKL__HOPS_TWO);
    CU_ASSERT_EQUAL(hops_with(VOTERS, true), ZKL__HOPS_TWO);
}

/* The first thing on each connection; once more when the server did not apply it; never when the owner knows. */
TEST(test_roles_are_read_first)
{
    script_init_masters(ZKL__MASTERS_ASK);
    script_connect();
    OPS("get sync");
    script_answer_with(ZKL__RC_NOTAPPLIED);
    script_answer_all();
    script_wait(script.timeout / 12);
    OPS("get sync");
    script_answer_all();
    CU_ASSERT_EQUAL(zkl__core_hops(script.core), ZKL__HOPS_ONE);
    script_put(CONFIG, 0);
    script_write(CONFIG, OBSERVERS);
    script_reconnect(0);
    OPS("get sync");
    script_answer_all();
    CU_ASSERT_EQUAL(zkl__core_hops(script.core), ZKL__HOPS_TWO);
    script_finish();
    for (int some = 0; some < 2; some++) {
        script_init_masters(some ? ZKL__MASTERS_SOME : ZKL__MASTERS_NONE);
        script_connect();
        OPS("sync");
        script_answer_all();
        CU_ASSERT_EQUAL(zkl__core_hops(script.core), some ? ZKL__HOPS_TWO : ZKL__HOPS_ONE);
        script_finish();
    }
}

/* Two hops leave nothing of four seconds: no grant, and a word about it. */
TEST(test_two_hops_and_a_short_timeout)
{
    script_init_masters(ZKL__MASTERS_ASK);
    script_put(CONFIG, 0);
    script_write(CONFIG, OBSERVERS);
    script.timeout = 4000 * MS;
    script_connect();
    script_acquire(&me);
    script_run(20000 * MS);
    CU_ASSERT_EQUAL(me.granted, 0);
    CU_ASSERT_EQUAL(script.warnings, 1);
    script_finish();
}

/* Connections that are lost within a second, one after the other, while something is watched: an operator hears of it once, until one
 * lasts. Without watches, or with longer connections, there is nothing to say. */
TEST_IN_SCRIPT(test_broken_by_watches)
{
    for (int i = 0; i < 20; i++) {
        script_reconnect(0);
    }
    CU_ASSERT_EQUAL(script.warnings, 0);
    script_put(SCRIPT_BLOCKER, SCRIPT_STRANGER);
    script_acquire(&me);
    script_answer_all();
    for (int i = 0; i < 20; i++) {
        script_run(1000 * MS);
        script_reconnect(0);
    }
    CU_ASSERT_EQUAL(script.warnings, 0);
    for (int round = 1; round <= 2; round++) {
        for (int i = 0; i < 20; i++) {
            CU_ASSERT_EQUAL(script.warnings, round - (i < 5));
            script_reconnect(0);
        }
        CU_ASSERT_PTR_NOT_NULL(strstr(script.warned, "jute.maxbuffer"));
        script_run(1000 * MS);
        script_reconnect(0);
    }
    script_answer_all();
}

TESTS("session_lease")
