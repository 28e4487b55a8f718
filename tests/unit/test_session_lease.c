/* The lease of a session: what keeps it, who is told that it runs out, what may be granted on it. */
#include "script.h"

#include <string.h>

static int64_t lease_left(void)
{
    return zkl__core_lease_until(script.core) - script.now;
}

static void test_sync_when_nothing_is_held(void)
{
    script_begin();
    int before = script.submits;
    for (int i = 0; i < 40; i++) {
        script_wait(script.timeout / 6);
        OPS("sync");
        script_answer_all();
    }
    CU_ASSERT_EQUAL(script.submits - before, 40);
    script_finish();
}

/* A response is late now and then, by almost an eighth of the timeout: an idle session is not in doubt, and is granted at once. */
static void test_idle_with_slow_servers(void)
{
    script_begin();
    for (int i = 0; i < 40; i++) {
        script_run(7490 * MS);
        script_wait(script.timeout * 3 / 25);
        script_answer_all();
        CU_ASSERT_FALSE_FATAL(zkl__core_doubted(script.core));
    }
    script_acquire(&me);
    script_answer_all();
    script_run(3000 * MS);
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

static void test_heartbeats_keep_the_lease(void)
{
    script_begin();
    script_hold(&me);
    int before = script.submits;
    for (int i = 0; i < 600; i++) {
        script_run(100 * MS);
        CU_ASSERT_FATAL(i < 60 || lease_left() >= zkl__core_least_lease(script.core));
    }
    CU_ASSERT_EQUAL(me.jeopardy + me.safe + me.lost, 0);
    CU_ASSERT(script.submits - before <=
              60 * 12 / 10 + 2); /* one every twelfth of the timeout, and no syncs beside them */
    CU_ASSERT_TRUE(zkl__contender_holds(script.core, me.contender, script.now));
    CU_ASSERT_FALSE(zkl__contender_holds(script.core, me.contender, zkl__core_lease_until(script.core)));
    script_finish();
}

static void test_heartbeats_in_rotation(void)
{
    static struct script_owner many[5];
    char path[16];
    int beats[5] = {0};
    script_begin();
    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "/q%d", i);
        script_put(path, 0);
        struct zkl__contender_config config = script_config(&many[i], path);
        script_contend(&many[i], &config);
        script_start(&many[i], INT64_MAX, false);
    }
    script_answer_all();
    for (int i = 0; i < 50; i++) {
        script_wait(script.timeout / 12);
        while (script.op_count > 0) {
            struct script_op op = script_answer();
            beats[op.path[2] - '0'] += op.kind == ZKL__OP_CHECK;
        }
    }
    for (int i = 0; i < 5; i++) {
        CU_ASSERT_EQUAL(beats[i], 10);
    }
    script_finish();
}

/* The heartbeat that is sent while the node changes its kind must not ask for the node that goes with it. */
static void test_heartbeat_during_a_downgrade(void)
{
    static const struct zkl__rule reader = {"__READ__", 0};
    script_begin();
    script_hold(&me);
    script_step((struct zkl__event){.kind = ZKL__EV_DOWNGRADE, .contender = me.contender, .rule = &reader});
    script_wait(script.timeout / 12);
    OPS("multi(create,delete) check");
    script_answer_all();
    CU_ASSERT_EQUAL(me.lost, 0);
    CU_ASSERT_STRING_EQUAL(zkl__contender_node(me.contender), script_our_path() + 3);
    script_suspend(0);
    script_connect();
    script_run(5000 * MS);
    CU_ASSERT_EQUAL(me.lost, 0);
    script_finish();
}

/* Behind a server that does not answer heartbeats do not pile up. */
static void test_heartbeats_without_answers(void)
{
    script_begin();
    script_hold(&me);
    int before = script.submits;
    script_wait(9000 * MS);
    CU_ASSERT_EQUAL(script.submits - before, 4 + 3 + 1); /* and syncs, and one look at its own node */
    CU_ASSERT_EQUAL(me.jeopardy, 1);
    CU_ASSERT_EQUAL(me.lost, 0);
    script_answer_all();
    script_run(5000 * MS);
    CU_ASSERT_EQUAL(me.lost, 1); /* too late for this one: no chain was left in time */
    script_release(&me);
    script_finish();
}

static void test_suspended(void)
{
    script_begin();
    script_hold(&me);
    script_run(5000 * MS);
    script_suspend(0);
    CU_ASSERT_EQUAL(me.jeopardy, 1);
    CU_ASSERT_TRUE(zkl__contender_holds(script.core, me.contender, script.now));
    CU_ASSERT_EQUAL(zkl__core_next(script.core), zkl__core_lease_until(script.core));
    int64_t until = zkl__core_lease_until(script.core);
    script_wait(until - script.now - 1);
    CU_ASSERT_EQUAL(me.lost, 0);
    CU_ASSERT_FALSE(zkl__contender_holds(script.core, me.contender, until)); /* without any message */
    script_wait(1);
    CU_ASSERT_EQUAL(me.lost, 1);
    STATE(&me, "lost");
    CU_ASSERT_EQUAL(script_ours(), 1); /* the node stays and keeps others out until the release */
    script_connect();
    script_run(8000 * MS);
    CU_ASSERT_EQUAL(me.safe, 0);
    CU_ASSERT_EQUAL(script_ours(), 1); /* final: it is not given back */
    script_release(&me);
    script_answer_all();
    CU_ASSERT_EQUAL(me.released, 1);
    CU_ASSERT_EQUAL(script_ours(), 0);
    script_finish();
}

static void test_suspended_for_a_moment(void)
{
    script_begin();
    script_hold(&me);
    for (int i = 1; i <= 3; i++) {
        script_run(5000 * MS);
        script_suspend(0);
        CU_ASSERT_EQUAL(me.jeopardy, i);
        script_wait(1000 * MS);
        script_connect();
        script_run(1000 * MS);
        CU_ASSERT_EQUAL(me.safe, i);
    }
    CU_ASSERT_EQUAL(me.lost, 0);
    script_finish();
}

/* The loss is told before the event that brought the step. */
static void test_time_comes_first(void)
{
    script_begin();
    script_hold(&me);
    script_suspend(0);
    script.now += 20000 * MS; /* nobody woke in time */
    CU_ASSERT_FALSE(zkl__contender_holds(script.core, me.contender, script.now));
    script_connect();
    CU_ASSERT_EQUAL(me.lost, 1);
    CU_ASSERT_EQUAL(me.safe, 0);
    script_release(&me);
    script_finish();
}

/* The reply that would renew a lease comes when it has ended, and nobody woke before: lost is final. */
static void test_a_reply_behind_the_end(void)
{
    script_begin();
    script_hold(&me);
    int64_t until = zkl__core_lease_until(script.core);
    while (script.now < until - 1000 * MS) {
        script_wait(200 * MS);
        while (script.op_count > 0) { /* shows that a server is there, and proves nothing */
            script_answer_with(ZKL__RC_NOTAPPLIED);
        }
    }
    script_suspend(0);
    script_connect();
    while (script.ops[0].kind != ZKL__OP_CHECK) {
        script_answer();
    }
    CU_ASSERT_EQUAL(me.lost, 0);
    script.now = until + 1;
    script_answer_all();
    CU_ASSERT(zkl__core_lease_until(script.core) > until);
    CU_ASSERT_EQUAL(me.lost, 1);
    script_release(&me);
    script_finish();
}

static void test_time_never_goes_back(void)
{
    script_begin();
    script_hold(&me);
    int64_t until = zkl__core_lease_until(script.core);
    script.now += 5000 * MS;
    zkl__session_step(script.core, &(struct zkl__event){.kind = ZKL__EV_TIME, .now = script.now});
    zkl__session_step(script.core, &(struct zkl__event){.kind = ZKL__EV_TIME, .now = script.now - 4000 * MS});
    CU_ASSERT(zkl__core_next(script.core) > script.now - 1);
    CU_ASSERT_EQUAL(zkl__core_lease_until(script.core), until);
    script_finish();
}

/* After a long wait the create is old: one check more, and no round trip but that. */
static void test_grant_after_a_long_wait(void)
{
    script_begin();
    script_put(SCRIPT_BLOCKER, SCRIPT_STRANGER);
    script.next_sequence = 1;
    script_acquire(&me);
    script_run(3600 * 1000 * MS);
    script_remove(SCRIPT_BLOCKER);
    OPS("list");
    script_answer();
    CU_ASSERT_EQUAL(me.granted, 0);
    OPS("check");
    script_answer();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT(lease_left() > zkl__core_least_lease(script.core) / 3);
    script_finish();
}

/* No lease, no grant, however often the list says that nobody is before us. */
static void test_no_grant_without_a_lease(void)
{
    script_init();
    script.connecting = 7000 * MS;
    script_connect();
    script_acquire(&me);
    script_answer_all();
    STATE(&me, "proving");
    script_run(600 * MS);
    CU_ASSERT_EQUAL(me.granted, 0); /* the gap is not over */
    script_run(3000 * MS);
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT(lease_left() > zkl__core_least_lease(script.core) / 3);
    script_finish();
}

/* The servers have not heard of the session for its timeout, and may have begun to expire it. It is granted nothing until they would
 * have done that, keeps its position meanwhile, and is woken when it may be granted. */
static void test_no_grant_in_doubt(void)
{
    script_begin();
    script_wait(20000 * MS);
    int64_t back = script.now;
    script_acquire(&me);
    script_answer_all();
    script_run(script.timeout);
    STATE(&me, "proving");
    CU_ASSERT_EQUAL(me.granted, 0);
    CU_ASSERT_EQUAL(script_ours(), 1);
    script_run(5000 * MS);
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT(script.now >= back + script.timeout);
    CU_ASSERT(lease_left() > zkl__core_least_lease(script.core) / 3);
    script_finish();
}

/* Its time may be up before: then it is told why it was not granted. */
static void test_time_is_up_in_doubt(void)
{
    script_begin();
    script_wait(20000 * MS);
    struct zkl__contender_config config = script_config(&me, "/q");
    script_contend(&me, &config);
    script_start(&me, script.now + 5000 * MS, false);
    script_answer_all();
    script_run(5000 * MS);
    CU_ASSERT_EQUAL(me.code, ZKL_ETIMEOUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(me.why, "no server was reached for a session timeout"));
    script_finish();
}

/* A check that is refused here, or put off by the server, is sent again. */
static void test_proof_put_off(void)
{
    for (int refused = 0; refused < 2; refused++) {
        script_begin();
        script_wait(20000 * MS);
        script_acquire(&me);
        script.refuse_kind = ZKL__OP_CHECK;
        script.refuse_code = ZKL_ECONNECT;
        script.refuse_count = refused;
        while (strcmp(script_state(&me), "proving") != 0) {
            script_answer();
        }
        if (!refused) {
            OPS("check");
            script_answer_with(ZKL__RC_NOTAPPLIED);
        }
        OPS("");
        script_wait(50 * MS);
        OPS("check");
        script_suspend(0);
        script_connect();
        script_run(8000 * MS + script.timeout);
        CU_ASSERT_EQUAL(me.granted, 1);
        script_finish();
    }
}

static void test_max_hold(void)
{
    for (int connected = 0; connected < 2; connected++) {
        script_begin();
        struct zkl__contender_config config = script_config(&me, "/q");
        config.max_hold = 3000 * MS;
        script_contend(&me, &config);
        script_start(&me, INT64_MAX, false);
        script_answer_all();
        CU_ASSERT_EQUAL(me.granted, 1);
        int64_t granted = script.now;
        script_acquire(&you);
        script_run(2900 * MS);
        CU_ASSERT_TRUE(zkl__contender_holds(script.core, me.contender, script.now));
        CU_ASSERT_FALSE(zkl__contender_holds(script.core, me.contender, granted + 3000 * MS));
        if (!connected) {
            script_suspend(0);
            script_wait(200 * MS);
            CU_ASSERT_EQUAL(me.lost, 1);
            script_connect();
        }
        script_run(2000 * MS);
        CU_ASSERT_EQUAL(me.lost, 1);
        CU_ASSERT_EQUAL(you.granted, 1); /* nobody waits for the owner's release */
        script_release(&me);
        CU_ASSERT_EQUAL(me.released, 1);
        script_finish();
    }
}

/* The owner releases while the node that was held too long is still on its way out. */
static void test_release_while_discarded(void)
{
    script_begin();
    struct zkl__contender_config config = script_config(&me, "/q");
    config.max_hold = 3000 * MS;
    script_contend(&me, &config);
    script_start(&me, INT64_MAX, false);
    script_answer_all();
    script_wait(3000 * MS);
    CU_ASSERT_EQUAL(me.lost, 1);
    script_release(&me);
    CU_ASSERT_EQUAL(me.released, 0);
    script_answer_all();
    CU_ASSERT_EQUAL(me.released, 1);
    script_finish();
}

static void test_expiry_between_grant_and_first_use(void)
{
    script_begin();
    script_acquire(&me);
    script_do();
    script_do();
    script_deliver();
    script_deliver();
    CU_ASSERT_EQUAL(me.granted, 1);
    script_expire();
    CU_ASSERT_EQUAL(me.lost, 1);
    CU_ASSERT_FALSE(zkl__contender_holds(script.core, me.contender, script.now));
    script_release(&me);
    CU_ASSERT_EQUAL(me.released, 1);
    script_finish();
}

/* A connect that took its time has used up much of the first lease: no grant that would be in jeopardy before it is renewed. */
static void test_young_grant(void)
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

/* One that did not is granted with the answer of its create. */
static void test_young_grant_at_once(void)
{
    script_init();
    script.connecting = 2000 * MS;
    script_connect();
    script_acquire(&me);
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

/* Nor is the rest of an old lease enough behind a new connection, whose chain begins again. */
static void test_grant_after_a_reconnect(void)
{
    for (int64_t away = 0; away < 10000; away += 250) {
        script_begin();
        script_run(20000 * MS);
        script_suspend(0);
        script_wait(away * MS);
        script_connect();
        script_acquire(&me);
        script_answer_all();
        script_run(6000 * MS);
        CU_ASSERT_EQUAL(me.granted,
                        away < 5000); /* idle: the last chain began five seconds before the connection was lost */
        script_run(script.timeout);
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
        struct script_node *node = script_put(CONFIG, 0);
        strcpy(node->data, config);
        node->hidden = hidden;
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

static void test_hops(void)
{
    CU_ASSERT_EQUAL(hops_with(VOTERS, false), ZKL__HOPS_ONE);
    CU_ASSERT_EQUAL(hops_with(NULL, false), ZKL__HOPS_ONE); /* servers before 3.5 */
    CU_ASSERT_EQUAL(hops_with("", false), ZKL__HOPS_ONE);   /* one server alone */
    CU_ASSERT_EQUAL(hops_with(OBSERVERS, false), ZKL__HOPS_TWO);
    CU_ASSERT_EQUAL(hops_with(VOTERS, true), ZKL__HOPS_TWO);
}

/* The first thing on each connection; once more when the server did not apply it; never when the owner knows. */
static void test_roles_are_read_first(void)
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
    strcpy(script_find(CONFIG)->data, OBSERVERS);
    script_suspend(0);
    script_connect();
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

static void test_two_hops_keep_the_lease(void)
{
    script_init_masters(ZKL__MASTERS_SOME);
    script_connect();
    script_run(60000 * MS);
    script_acquire(&me);
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1); /* the create is the end of a chain: an idle session keeps the others up */
    for (int i = 0; i < 300; i++) {
        script_run(100 * MS);
        CU_ASSERT_FATAL(i < 60 || lease_left() >= zkl__core_least_lease(script.core));
    }
    CU_ASSERT_EQUAL(me.jeopardy + me.lost, 0);
    script_finish();
}

/* Two hops leave nothing of four seconds: no grant, and a word about it. */
static void test_two_hops_and_a_short_timeout(void)
{
    script_init_masters(ZKL__MASTERS_ASK);
    strcpy(script_put(CONFIG, 0)->data, OBSERVERS);
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
static void test_broken_by_watches(void)
{
    script_begin();
    for (int i = 0; i < 20; i++) {
        script_suspend(0);
        script_connect();
    }
    CU_ASSERT_EQUAL(script.warnings, 0);
    script_put(SCRIPT_BLOCKER, SCRIPT_STRANGER);
    script_acquire(&me);
    script_answer_all();
    for (int i = 0; i < 20; i++) {
        script_run(1000 * MS);
        script_suspend(0);
        script_connect();
    }
    CU_ASSERT_EQUAL(script.warnings, 0);
    for (int round = 1; round <= 2; round++) {
        for (int i = 0; i < 20; i++) {
            CU_ASSERT_EQUAL(script.warnings, round - (i < 5));
            script_suspend(0);
            script_connect();
        }
        CU_ASSERT_PTR_NOT_NULL(strstr(script.warned, "jute.maxbuffer"));
        script_run(1000 * MS);
        script_suspend(0);
        script_connect();
    }
    script_answer_all();
    script_finish();
}

TESTS("session lease", T(test_sync_when_nothing_is_held), T(test_idle_with_slow_servers),
      T(test_heartbeats_keep_the_lease), T(test_heartbeats_in_rotation), T(test_heartbeat_during_a_downgrade),
      T(test_heartbeats_without_answers), T(test_suspended), T(test_suspended_for_a_moment), T(test_time_comes_first),
      T(test_a_reply_behind_the_end), T(test_time_never_goes_back), T(test_grant_after_a_long_wait),
      T(test_no_grant_without_a_lease), T(test_no_grant_in_doubt), T(test_time_is_up_in_doubt), T(test_proof_put_off),
      T(test_max_hold), T(test_release_while_discarded), T(test_expiry_between_grant_and_first_use),
      T(test_young_grant), T(test_young_grant_at_once), T(test_grant_after_a_reconnect), T(test_hops),
      T(test_roles_are_read_first), T(test_two_hops_keep_the_lease), T(test_two_hops_and_a_short_timeout),
      T(test_broken_by_watches))
