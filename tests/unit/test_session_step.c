/* What a session decides beside its contenders: lease, heartbeat, jeopardy and loss, requests, watches, names. */
#include "script.h"

#include <string.h>

static struct script s;
static struct script_owner me, you;

#define BLOCKER "/q/_c_11111111-1111-4111-8111-111111111111-lock-0000000000"

static int64_t lease_left(void)
{
    return zkl__core_lease_until(s.core) - s.now;
}

/* --- facts --------------------------------------------------------------------------------------------------------- */

static void test_facts(void)
{
    script_init(&s);
    CU_ASSERT_EQUAL(zkl__core_session_id(s.core), 0);
    CU_ASSERT_EQUAL(zkl__core_timeout(s.core), 0);
    CU_ASSERT_FALSE(zkl__core_connected(s.core));
    CU_ASSERT_EQUAL(zkl__core_next(s.core), INT64_MAX);
    script_step(&s, (struct zkl__event){.kind = ZKL__EV_SUSPENDED}); /* never was connected: no news */
    CU_ASSERT_EQUAL(s.state, ZKL_SESSION_CONNECTED);
    CU_ASSERT_EQUAL(s.state_code, 0);
    script_connect(&s);
    CU_ASSERT_EQUAL(zkl__core_session_id(s.core), s.session_id);
    CU_ASSERT_EQUAL(zkl__core_timeout(s.core), s.timeout);
    CU_ASSERT_TRUE(zkl__core_connected(s.core));
    CU_ASSERT_EQUAL(lease_left(), s.timeout - 10 * MS - s.timeout / 1000);
    CU_ASSERT_EQUAL(zkl__core_least_lease(s.core), zkl__lease_least(s.timeout, 1500 * MS));
    script_suspend(&s, 0);
    CU_ASSERT_EQUAL(s.state, ZKL_SESSION_SUSPENDED);
    CU_ASSERT_EQUAL(s.state_code, ZKL_ECONNECT);
    CU_ASSERT_FALSE(zkl__core_connected(s.core));
    script_expire(&s);
    CU_ASSERT_EQUAL(s.state, ZKL_SESSION_LOST);
    CU_ASSERT_EQUAL(zkl__core_session_id(s.core), 0);
    CU_ASSERT_EQUAL(zkl__core_lease_until(s.core), 0);
    script_finish(&s);
}

static void test_uuids(void)
{
    static char seen[3000][ZKL__UUID_LENGTH + 1];
    script_begin(&s);
    for (int i = 0; i < 3000; i++) {
        zkl__core_uuid(s.core, seen[i]);
        CU_ASSERT_EQUAL(strlen(seen[i]), ZKL__UUID_LENGTH);
        CU_ASSERT_EQUAL(seen[i][14], '4');
        for (int j = 0; j < i; j++) {
            CU_ASSERT_FATAL(strcmp(seen[i], seen[j]) != 0);
        }
    }
    script_finish(&s);
}

static int submit_nothing(void *ctx, uint64_t id, const struct zkl__op *op)
{
    (void)ctx, (void)id, (void)op;
    return ZKL_ECONNECT;
}

static void no_news(void *ctx, zkl_session_state state, int code)
{
    (void)ctx, (void)state, (void)code;
}

static void test_nobody_listens(void)
{
    script_init(&s);
    struct zkl__port port = {.ctx = &s, .submit = submit_nothing, .state = no_news};
    struct zkl__core_config config = {.heap = test_heap(&s.heap), .tick_ns = 2000 * MS};
    struct zkl__core *core = zkl__core_new(&config, &port);
    struct zkl__contender_config queue = {.rule = &zkl__rule_mutex,
                                          .path = "/q"}; /* no metadata, no notify, no trace */
    struct zkl__contender *contender = zkl__contender_new(core, &queue);
    CU_ASSERT_EQUAL(zkl__contender_state(contender), ZKL__NEW);
    zkl__session_step(core,
                      &(struct zkl__event){.kind = ZKL__EV_START, .now = 5, .contender = contender, .deadline = 7});
    CU_ASSERT_EQUAL(zkl__core_next(core), 7);
    zkl__session_step(core, &(struct zkl__event){.kind = ZKL__EV_TIME, .now = 9});
    CU_ASSERT_EQUAL(zkl__core_next(core), INT64_MAX);
    CU_ASSERT_TRUE(zkl__core_idle(core));
    (void)zkl__contender_new(core, &queue);
    zkl__session_step(core,
                      &(struct zkl__event){.kind = ZKL__EV_CONNECTED, .now = 9, .timeout = 10000 * MS, .fresh = true});
    zkl__core_free(core); /* whatever is left is dropped without a word */
    script_deinit(&s);
}

static void test_state_names(void)
{
    CU_ASSERT_STRING_EQUAL(zkl__contender_state_name(ZKL__NEW), "new");
    CU_ASSERT_STRING_EQUAL(zkl__contender_state_name(ZKL__GONE), "gone");
    CU_ASSERT_STRING_EQUAL(zkl__contender_state_name(ZKL__CONTENDER_STATES), "?");
}

/* --- the lease ----------------------------------------------------------------------------------------------------- */

static void test_sync_when_nothing_is_held(void)
{
    script_begin(&s);
    int before = s.submits;
    for (int i = 0; i < 40; i++) {
        script_wait(&s, 2500 * MS);
        OPS(&s, "sync");
        script_answer_all(&s);
    }
    CU_ASSERT_EQUAL(s.submits - before, 40);
    script_finish(&s);
}

static void test_heartbeats_keep_the_lease(void)
{
    script_begin(&s);
    script_hold(&s, &me);
    int before = s.submits;
    for (int i = 0; i < 600; i++) {
        script_run(&s, 100 * MS);
        CU_ASSERT_FATAL(i < 60 || lease_left() >= zkl__core_least_lease(s.core));
    }
    CU_ASSERT_EQUAL(me.jeopardy + me.safe + me.lost, 0);
    CU_ASSERT(s.submits - before <= 60 * 12 / 10 + 2); /* one every twelfth of the timeout, and no syncs beside them */
    CU_ASSERT_TRUE(zkl__contender_holds(s.core, me.contender, s.now));
    CU_ASSERT_FALSE(zkl__contender_holds(s.core, me.contender, zkl__core_lease_until(s.core)));
    script_finish(&s);
}

static void test_heartbeats_in_rotation(void)
{
    static struct script_owner many[5];
    char path[16];
    int beats[5] = {0};
    script_begin(&s);
    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "/q%d", i);
        script_put(&s, path, 0);
        struct zkl__contender_config config = script_config(&many[i], path);
        script_contend(&s, &many[i], &config);
        script_start(&s, &many[i], INT64_MAX, false);
    }
    script_answer_all(&s);
    for (int i = 0; i < 50; i++) {
        script_wait(&s, s.timeout / 12);
        while (s.op_count > 0) {
            struct script_op op = script_answer(&s);
            beats[op.path[2] - '0'] += op.kind == ZKL__OP_CHECK;
        }
    }
    for (int i = 0; i < 5; i++) {
        CU_ASSERT_EQUAL(beats[i], 10);
    }
    script_finish(&s);
}

/* The heartbeat that is sent while the node changes its kind must not ask for the node that goes with it. */
static void test_heartbeat_during_a_downgrade(void)
{
    static const struct zkl__rule reader = {"__READ__", 0};
    script_begin(&s);
    script_hold(&s, &me);
    script_step(&s, (struct zkl__event){.kind = ZKL__EV_DOWNGRADE, .contender = me.contender, .rule = &reader});
    script_wait(&s, s.timeout / 12);
    OPS(&s, "multi(create,delete) check");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.lost, 0);
    CU_ASSERT_STRING_EQUAL(zkl__contender_node(me.contender), script_our_path(&s) + 3);
    script_suspend(&s, 0);
    script_connect(&s);
    script_run(&s, 5000 * MS);
    CU_ASSERT_EQUAL(me.lost, 0);
    script_finish(&s);
}

/* Behind a server that does not answer heartbeats do not pile up. */
static void test_heartbeats_without_answers(void)
{
    script_begin(&s);
    script_hold(&s, &me);
    int before = s.submits;
    script_wait(&s, 9000 * MS);
    CU_ASSERT_EQUAL(s.submits - before, 4 + 2); /* and the syncs of an idle session */
    CU_ASSERT_EQUAL(me.jeopardy, 1);
    CU_ASSERT_EQUAL(me.lost, 0);
    script_answer_all(&s);
    script_run(&s, 5000 * MS);
    CU_ASSERT_EQUAL(me.lost, 1); /* too late for this one: no chain was left in time */
    script_release(&s, &me);
    script_finish(&s);
}

static void test_suspended(void)
{
    script_begin(&s);
    script_hold(&s, &me);
    script_run(&s, 5000 * MS);
    script_suspend(&s, 0);
    CU_ASSERT_EQUAL(me.jeopardy, 1);
    CU_ASSERT_TRUE(zkl__contender_holds(s.core, me.contender, s.now));
    CU_ASSERT_EQUAL(zkl__core_next(s.core), zkl__core_lease_until(s.core));
    int64_t until = zkl__core_lease_until(s.core);
    script_wait(&s, until - s.now - 1);
    CU_ASSERT_EQUAL(me.lost, 0);
    CU_ASSERT_FALSE(zkl__contender_holds(s.core, me.contender, until)); /* without any message */
    script_wait(&s, 1);
    CU_ASSERT_EQUAL(me.lost, 1);
    STATE(&me, "lost");
    CU_ASSERT_EQUAL(script_ours(&s), 1); /* the node stays and keeps others out until the release */
    script_connect(&s);
    script_run(&s, 8000 * MS);
    CU_ASSERT_EQUAL(me.safe, 0);
    CU_ASSERT_EQUAL(script_ours(&s), 1); /* final: it is not given back */
    script_release(&s, &me);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.released, 1);
    CU_ASSERT_EQUAL(script_ours(&s), 0);
    script_finish(&s);
}

static void test_suspended_for_a_moment(void)
{
    script_begin(&s);
    script_hold(&s, &me);
    for (int i = 1; i <= 3; i++) {
        script_run(&s, 5000 * MS);
        script_suspend(&s, 0);
        CU_ASSERT_EQUAL(me.jeopardy, i);
        script_wait(&s, 1000 * MS);
        script_connect(&s);
        script_run(&s, 1000 * MS);
        CU_ASSERT_EQUAL(me.safe, i);
    }
    CU_ASSERT_EQUAL(me.lost, 0);
    script_finish(&s);
}

/* The loss is told before the event that brought the step. */
static void test_time_comes_first(void)
{
    script_begin(&s);
    script_hold(&s, &me);
    script_suspend(&s, 0);
    s.now += 20000 * MS; /* nobody woke in time */
    CU_ASSERT_FALSE(zkl__contender_holds(s.core, me.contender, s.now));
    script_connect(&s);
    CU_ASSERT_EQUAL(me.lost, 1);
    CU_ASSERT_EQUAL(me.safe, 0);
    script_release(&s, &me);
    script_finish(&s);
}

static void test_time_never_goes_back(void)
{
    script_begin(&s);
    script_hold(&s, &me);
    int64_t until = zkl__core_lease_until(s.core);
    s.now += 5000 * MS;
    zkl__session_step(s.core, &(struct zkl__event){.kind = ZKL__EV_TIME, .now = s.now});
    zkl__session_step(s.core, &(struct zkl__event){.kind = ZKL__EV_TIME, .now = s.now - 4000 * MS});
    CU_ASSERT(zkl__core_next(s.core) > s.now - 1);
    CU_ASSERT_EQUAL(zkl__core_lease_until(s.core), until);
    script_finish(&s);
}

/* After a long wait the create is old: one check more, and no round trip but that. */
static void test_grant_after_a_long_wait(void)
{
    script_begin(&s);
    script_put(&s, BLOCKER, SCRIPT_STRANGER);
    s.next_sequence = 1;
    script_acquire(&s, &me);
    script_run(&s, 3600 * 1000 * MS);
    script_remove(&s, BLOCKER);
    OPS(&s, "list");
    script_answer(&s);
    CU_ASSERT_EQUAL(me.granted, 0);
    OPS(&s, "check");
    script_answer(&s);
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT(lease_left() > zkl__core_least_lease(s.core) / 3);
    script_finish(&s);
}

/* No lease, no grant, however often the list says that nobody is before us. */
static void test_no_grant_without_a_lease(void)
{
    script_begin(&s);
    script_wait(&s, 20000 * MS);
    script_acquire(&s, &me);
    script_answer_all(&s);
    STATE(&me, "proving");
    CU_ASSERT_EQUAL(me.granted, 0);
    script_run(&s, 600 * MS);
    CU_ASSERT_EQUAL(me.granted, 0); /* the gap is not over */
    script_run(&s, 3000 * MS);
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT(lease_left() > zkl__core_least_lease(s.core) / 3);
    script_finish(&s);
}

/* A check that is refused here, or put off by the server, is sent again. */
static void test_proof_put_off(void)
{
    for (int refused = 0; refused < 2; refused++) {
        script_begin(&s);
        script_wait(&s, 20000 * MS);
        script_acquire(&s, &me);
        s.refuse_kind = ZKL__OP_CHECK;
        s.refuse_code = ZKL_ECONNECT;
        s.refuse_count = refused;
        while (strcmp(script_state(&me), "proving") != 0) {
            script_answer(&s);
        }
        if (!refused) {
            OPS(&s, "check");
            script_answer_with(&s, ZKL__RC_NOTAPPLIED);
        }
        OPS(&s, "");
        script_wait(&s, 50 * MS);
        OPS(&s, "check");
        script_suspend(&s, 0);
        script_connect(&s);
        script_run(&s, 8000 * MS);
        CU_ASSERT_EQUAL(me.granted, 1);
        script_finish(&s);
    }
}

static void test_max_hold(void)
{
    for (int connected = 0; connected < 2; connected++) {
        script_begin(&s);
        struct zkl__contender_config config = script_config(&me, "/q");
        config.max_hold = 3000 * MS;
        script_contend(&s, &me, &config);
        script_start(&s, &me, INT64_MAX, false);
        script_answer_all(&s);
        CU_ASSERT_EQUAL(me.granted, 1);
        int64_t granted = s.now;
        script_acquire(&s, &you);
        script_run(&s, 2900 * MS);
        CU_ASSERT_TRUE(zkl__contender_holds(s.core, me.contender, s.now));
        CU_ASSERT_FALSE(zkl__contender_holds(s.core, me.contender, granted + 3000 * MS));
        if (!connected) {
            script_suspend(&s, 0);
            script_wait(&s, 200 * MS);
            CU_ASSERT_EQUAL(me.lost, 1);
            script_connect(&s);
        }
        script_run(&s, 2000 * MS);
        CU_ASSERT_EQUAL(me.lost, 1);
        CU_ASSERT_EQUAL(you.granted, 1); /* nobody waits for the owner's release */
        script_release(&s, &me);
        CU_ASSERT_EQUAL(me.released, 1);
        script_finish(&s);
    }
}

/* The owner releases while the node that was held too long is still on its way out. */
static void test_release_while_discarded(void)
{
    script_begin(&s);
    struct zkl__contender_config config = script_config(&me, "/q");
    config.max_hold = 3000 * MS;
    script_contend(&s, &me, &config);
    script_start(&s, &me, INT64_MAX, false);
    script_answer_all(&s);
    script_wait(&s, 3000 * MS);
    CU_ASSERT_EQUAL(me.lost, 1);
    script_release(&s, &me);
    CU_ASSERT_EQUAL(me.released, 0);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.released, 1);
    script_finish(&s);
}

static void test_expiry_between_grant_and_first_use(void)
{
    script_begin(&s);
    script_acquire(&s, &me);
    script_do(&s);
    script_do(&s);
    script_deliver(&s);
    script_deliver(&s);
    CU_ASSERT_EQUAL(me.granted, 1);
    script_expire(&s);
    CU_ASSERT_EQUAL(me.lost, 1);
    CU_ASSERT_FALSE(zkl__contender_holds(s.core, me.contender, s.now));
    script_release(&s, &me);
    CU_ASSERT_EQUAL(me.released, 1);
    script_finish(&s);
}

/* --- starts and ends out of season --------------------------------------------------------------------------------- */

static void test_start_after_close(void)
{
    for (int connected = 0; connected < 2; connected++) {
        script_begin(&s);
        if (!connected) {
            script_suspend(&s, 0);
        }
        script_close(&s);
        script_acquire(&s, &me);
        CU_ASSERT_EQUAL(me.failed, 1);
        CU_ASSERT_EQUAL(me.code, ZKL_ECLOSED);
        script_finish(&s);
    }
}

static void test_start_after_the_credentials_were_refused(void)
{
    script_init(&s);
    script_end(&s, ZKL_EAUTH);
    script_acquire(&s, &me);
    CU_ASSERT_EQUAL(me.failed, 1);
    CU_ASSERT_EQUAL(me.code, ZKL_EAUTH);
    script_finish(&s);
}

static void test_cancel_out_of_season(void)
{
    script_begin(&s);
    struct zkl__contender_config config = script_config(&me, "/q");
    script_contend(&s, &me, &config);
    script_cancel(&s, &me); /* not started */
    STATE(&me, "new");
    CU_ASSERT_EQUAL(me.failed, 0);
    zkl__contender_let_go(s.core, me.contender, s.now); /* never started: dropped */
    CU_ASSERT_TRUE(zkl__core_idle(s.core));
    script_hold(&s, &me);
    script_cancel(&s, &me); /* held: nothing to cancel */
    STATE(&me, "held");
    CU_ASSERT_EQUAL(me.failed, 0);
    script_finish(&s);
}

static void test_late_and_unknown_replies(void)
{
    static const uint64_t ids[] = {0, 1, 15, 400, UINT64_MAX, UINT64_C(1) << 32, UINT64_C(77) << 32};
    const struct zkl__reply reply = {.rc = ZKL__RC_OK};
    script_begin(&s);
    script_hold(&s, &me);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        script_step(&s, (struct zkl__event){.kind = ZKL__EV_REPLY, .id = ids[i], .reply = &reply});
    }
    script_step(&s, (struct zkl__event){.kind = ZKL__EV_WATCH, .path = "/nobody/asked"});
    STATE(&me, "held");
    script_release(&s, &me);
    uint64_t earlier = s.ops[0].id - (UINT64_C(1) << 32); /* the same slot, the use before */
    script_step(&s, (struct zkl__event){.kind = ZKL__EV_REPLY, .id = earlier, .reply = &reply});
    STATE(&me, "removing");
    script_finish(&s);
}

/* --- requests and watches ------------------------------------------------------------------------------------------ */

static struct asked {
    struct zkl__request request;
    int count;
    enum zkl__rc rc;
} asked;

static void on_done(struct zkl__request *request, const struct zkl__reply *reply)
{
    struct asked *a = request->owner;
    a->count++;
    a->rc = reply->rc;
}

static void ask(enum zkl__op_kind kind, const char *dir, bool watch)
{
    struct zkl__op op = {.kind = kind, .dir = dir, .version = -1, .watch = watch};
    asked = (struct asked){.request = {.done = on_done, .owner = &asked}};
    script_step(&s, (struct zkl__event){.kind = ZKL__EV_REQUEST, .request = &asked.request, .op = &op});
}

static void expect_asked(int count, enum zkl__rc rc)
{
    CU_ASSERT_EQUAL(asked.count, count);
    CU_ASSERT_EQUAL(asked.rc, rc);
}

static void test_requests(void)
{
    script_begin(&s);
    ask(ZKL__OP_GET, "/q", false);
    expect_asked(0, ZKL__RC_OK);
    script_answer(&s);
    expect_asked(1, ZKL__RC_OK);
    ask(ZKL__OP_SET, "/nothing", false);
    script_answer_with(&s, ZKL__RC_NONODE);
    expect_asked(1, ZKL__RC_NONODE);
    ask(ZKL__OP_MULTI, "/q", false);
    script_suspend(&s, 0);
    expect_asked(1, ZKL__RC_UNKNOWN);
    ask(ZKL__OP_GET, "/q", false); /* not connected: answered before the step ends */
    expect_asked(1, ZKL__RC_UNSENT);
    script_connect(&s);
    script_answer_all(&s);
    ask(ZKL__OP_GET, "/q", false);
    script_expire(&s);
    expect_asked(1, ZKL__RC_UNKNOWN);
    script_finish(&s);
}

static void test_request_forgotten(void)
{
    script_begin(&s);
    ask(ZKL__OP_GET, "/q", false);
    zkl__request_forget(s.core, &asked.request);
    script_answer_all(&s);
    expect_asked(0, ZKL__RC_OK);
    script_finish(&s);
}

static void test_request_without_memory(void)
{
    script_init(&s);
    test_heap_fail(&s.heap, 1, true);
    ask(ZKL__OP_GET, "/q", false);
    expect_asked(1, ZKL__RC_UNSENT);
    script_connect(&s); /* not even the sync finds room: later */
    OPS(&s, "");
    test_heap_fail(&s.heap, 0, false);
    script_wait(&s, 2500 * MS);
    OPS(&s, "sync");
    script_finish(&s);
}

static struct heard {
    struct zkl__watch watch;
    int count;
    enum zkl__watch_event event;
} heard[2];

static void on_fired(struct zkl__watch *watch, enum zkl__watch_event event)
{
    struct heard *h = watch->owner;
    CU_ASSERT_FALSE(watch->on);
    h->count++;
    h->event = event;
}

static void watch(int i, const char *path)
{
    heard[i] = (struct heard){.watch = {.fired = on_fired, .owner = &heard[i], .path = path}};
    CU_ASSERT_EQUAL(zkl__watch_add(s.core, &heard[i].watch), ZKL_OK);
    ask(ZKL__OP_EXISTS, path, true);
    script_answer_all(&s);
}

static void test_watches(void)
{
    script_begin(&s);
    watch(0, "/q");
    watch(1, "/q");
    CU_ASSERT_EQUAL(s.watch_count, 1);
    script_change(&s, "/q");
    CU_ASSERT_EQUAL(heard[0].count, 1); /* told once, and both hear of it */
    CU_ASSERT_EQUAL(heard[1].count, 1);
    CU_ASSERT_EQUAL(heard[0].event, ZKL__WATCH_CHANGED);
    script_change(&s, "/q");
    CU_ASSERT_EQUAL(heard[0].count, 1);
    watch(0, "/q");
    watch(1, "/q");
    zkl__watch_remove(s.core, &heard[0].watch);
    OPS(&s, ""); /* somebody else watches it still */
    zkl__watch_remove(s.core, &heard[1].watch);
    OPS(&s, "unwatch");
    zkl__watch_remove(s.core, &heard[1].watch);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(s.watch_count, 0);
    CU_ASSERT_EQUAL(heard[0].count + heard[1].count, 0);
    watch(0, "/new");
    script_put(&s, "/new", 0);
    script_change(&s, "/q");
    CU_ASSERT_EQUAL(heard[0].count, 1);
    CU_ASSERT_EQUAL(heard[0].event, ZKL__WATCH_CREATED);
    script_finish(&s);
}

static void test_watches_outlive_a_reconnect_and_not_the_session(void)
{
    script_begin(&s);
    watch(0, "/q");
    script_suspend(&s, 0);
    script_change(&s, "/q");
    CU_ASSERT_EQUAL(heard[0].count, 0);
    script_connect(&s);
    CU_ASSERT_EQUAL(heard[0].count, 1);
    script_answer_all(&s);
    watch(0, "/q");
    watch(1, "/new");
    script_suspend(&s, 0);
    zkl__watch_remove(s.core, &heard[1].watch); /* not connected: nobody to tell */
    script_expire(&s);
    CU_ASSERT_EQUAL(heard[0].count, 1);
    CU_ASSERT_EQUAL(heard[0].event, ZKL__WATCH_CHANGED);
    CU_ASSERT_EQUAL(heard[1].count, 0);
    script_finish(&s);
}

TESTS("session step", T(test_facts), T(test_uuids), T(test_nobody_listens), T(test_state_names),
      T(test_sync_when_nothing_is_held), T(test_heartbeats_keep_the_lease), T(test_heartbeats_in_rotation),
      T(test_heartbeat_during_a_downgrade), T(test_heartbeats_without_answers), T(test_suspended),
      T(test_suspended_for_a_moment), T(test_time_comes_first), T(test_time_never_goes_back),
      T(test_grant_after_a_long_wait), T(test_no_grant_without_a_lease), T(test_proof_put_off), T(test_max_hold),
      T(test_release_while_discarded), T(test_expiry_between_grant_and_first_use), T(test_start_after_close),
      T(test_start_after_the_credentials_were_refused), T(test_cancel_out_of_season), T(test_late_and_unknown_replies),
      T(test_requests), T(test_request_forgotten), T(test_request_without_memory), T(test_watches),
      T(test_watches_outlive_a_reconnect_and_not_the_session))
