/* What a session decides beside its contenders and its lease: names, states, starts and ends out of season, requests, watches. */
#include "script.h"

#include <string.h>

/* --- facts --------------------------------------------------------------------------------------------------------- */

static void test_facts(void)
{
    script_init();
    CU_ASSERT_EQUAL(zkl__core_session_id(script.core), 0);
    CU_ASSERT_EQUAL(zkl__core_timeout(script.core), 0);
    CU_ASSERT_FALSE(zkl__core_connected(script.core));
    CU_ASSERT_EQUAL(zkl__core_next(script.core), INT64_MAX);
    script_step((struct zkl__event){.kind = ZKL__EV_SUSPENDED}); /* never was connected: no news */
    CU_ASSERT_EQUAL(script.state, ZKL_SESSION_CONNECTED);
    CU_ASSERT_EQUAL(script.state_code, 0);
    script_connect();
    CU_ASSERT_EQUAL(zkl__core_session_id(script.core), script.session_id);
    CU_ASSERT_EQUAL(zkl__core_timeout(script.core), script.timeout);
    CU_ASSERT_TRUE(zkl__core_connected(script.core));
    CU_ASSERT_EQUAL(zkl__core_lease_until(script.core) - script.now, script.timeout - 10 * MS - script.timeout / 1000);
    CU_ASSERT_EQUAL(zkl__core_least_lease(script.core), zkl__lease_least(script.timeout, 1500 * MS, ZKL__HOPS_ONE));
    script_suspend(0);
    CU_ASSERT_EQUAL(script.state, ZKL_SESSION_SUSPENDED);
    CU_ASSERT_EQUAL(script.state_code, ZKL_ECONNECT);
    CU_ASSERT_FALSE(zkl__core_connected(script.core));
    script_expire();
    CU_ASSERT_EQUAL(script.state, ZKL_SESSION_LOST);
    CU_ASSERT_EQUAL(zkl__core_session_id(script.core), 0);
    CU_ASSERT_EQUAL(zkl__core_lease_until(script.core), 0);
    script_finish();
}

static void test_uuids(void)
{
    static char seen[3000][ZKL__UUID_LENGTH + 1];
    script_begin();
    for (int i = 0; i < 3000; i++) {
        zkl__core_uuid(script.core, seen[i]);
        CU_ASSERT_EQUAL(strlen(seen[i]), ZKL__UUID_LENGTH);
        CU_ASSERT_EQUAL(seen[i][14], '4');
        for (int j = 0; j < i; j++) {
            CU_ASSERT_FATAL(strcmp(seen[i], seen[j]) != 0);
        }
    }
    script_finish();
}

static int submit_nothing(void *ctx, uint64_t id, const struct zkl__op *op)
{
    (void)ctx, (void)id, (void)op;
    return ZKL_ECONNECT;
}

static void no_news(void *ctx, zkl_connection_state state, int code)
{
    (void)ctx, (void)state, (void)code;
}

static void test_nobody_listens(void)
{
    script_init();
    struct zkl__port port = {.submit = submit_nothing, .state = no_news};
    struct zkl__core_config config = {.heap = test_heap(&script.heap), .tick_ns = 2000 * MS};
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
    script_deinit();
}

static void test_state_names(void)
{
    CU_ASSERT_STRING_EQUAL(zkl__contender_state_name(ZKL__NEW), "new");
    CU_ASSERT_STRING_EQUAL(zkl__contender_state_name(ZKL__GONE), "gone");
    CU_ASSERT_STRING_EQUAL(zkl__contender_state_name(ZKL__CONTENDER_STATES), "?");
}

/* --- starts and ends out of season --------------------------------------------------------------------------------- */

static void test_start_after_close(void)
{
    for (int connected = 0; connected < 2; connected++) {
        script_begin();
        if (!connected) {
            script_suspend(0);
        }
        script_close();
        script_acquire(&me);
        CU_ASSERT_EQUAL(me.failed, 1);
        CU_ASSERT_EQUAL(me.code, ZKL_ECLOSED);
        script_finish();
    }
}

static void test_start_after_the_credentials_were_refused(void)
{
    script_init();
    script_end(ZKL_EAUTH);
    script_acquire(&me);
    CU_ASSERT_EQUAL(me.failed, 1);
    CU_ASSERT_EQUAL(me.code, ZKL_EAUTH);
    script_finish();
}

static void test_cancel_out_of_season(void)
{
    script_begin();
    struct zkl__contender_config config = script_config(&me, "/q");
    script_contend(&me, &config);
    script_cancel(&me); /* not started */
    STATE(&me, "new");
    CU_ASSERT_EQUAL(me.failed, 0);
    script_let_go(&me); /* never started: dropped */
    CU_ASSERT_TRUE(zkl__core_idle(script.core));
    script_hold(&me);
    script_cancel(&me); /* held: nothing to cancel */
    STATE(&me, "held");
    CU_ASSERT_EQUAL(me.failed, 0);
    script_finish();
}

static void test_late_and_unknown_replies(void)
{
    static const uint64_t ids[] = {0, 1, 15, 400, UINT64_MAX, UINT64_C(1) << 32, UINT64_C(77) << 32};
    const struct zkl__reply reply = {.rc = ZKL__RC_OK};
    script_begin();
    script_hold(&me);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        script_step((struct zkl__event){.kind = ZKL__EV_REPLY, .id = ids[i], .reply = &reply});
    }
    script_step((struct zkl__event){.kind = ZKL__EV_WATCH, .path = "/nobody/asked"});
    STATE(&me, "held");
    script_release(&me);
    uint64_t earlier = script.ops[0].id - (UINT64_C(1) << 32); /* the same slot, the use before */
    script_step((struct zkl__event){.kind = ZKL__EV_REPLY, .id = earlier, .reply = &reply});
    STATE(&me, "removing");
    script_finish();
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
    script_step((struct zkl__event){.kind = ZKL__EV_REQUEST, .request = &asked.request, .op = &op});
}

static void expect_asked(int count, enum zkl__rc rc)
{
    CU_ASSERT_EQUAL(asked.count, count);
    CU_ASSERT_EQUAL(asked.rc, rc);
}

static void test_requests(void)
{
    script_begin();
    ask(ZKL__OP_GET, "/q", false);
    expect_asked(0, ZKL__RC_OK);
    script_answer();
    expect_asked(1, ZKL__RC_OK);
    ask(ZKL__OP_SET, "/nothing", false);
    script_answer_with(ZKL__RC_NONODE);
    expect_asked(1, ZKL__RC_NONODE);
    ask(ZKL__OP_MULTI, "/q", false);
    script_suspend(0);
    expect_asked(1, ZKL__RC_UNKNOWN);
    ask(ZKL__OP_GET, "/q", false); /* not connected: answered before the step ends */
    expect_asked(1, ZKL__RC_UNSENT);
    script_connect();
    script_answer_all();
    ask(ZKL__OP_GET, "/q", false);
    script_expire();
    expect_asked(1, ZKL__RC_UNKNOWN);
    script_finish();
}

static void test_request_forgotten(void)
{
    script_begin();
    ask(ZKL__OP_GET, "/q", false);
    zkl__request_forget(script.core, &asked.request);
    script_answer_all();
    expect_asked(0, ZKL__RC_OK);
    script_finish();
}

static void test_request_without_memory(void)
{
    script_init();
    test_heap_fail(&script.heap, 1, true);
    ask(ZKL__OP_GET, "/q", false);
    expect_asked(1, ZKL__RC_UNSENT);
    script_connect(); /* not even the sync finds room: later */
    OPS("");
    test_heap_fail(&script.heap, 0, false);
    script_wait(2500 * MS);
    OPS("sync");
    script_finish();
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
    CU_ASSERT_EQUAL(zkl__watch_add(script.core, &heard[i].watch), ZKL_OK);
    ask(ZKL__OP_EXISTS, path, true);
    script_answer_all();
}

static void test_watches(void)
{
    script_begin();
    watch(0, "/q");
    watch(1, "/q");
    CU_ASSERT_EQUAL(script.watch_count, 1);
    script_change("/q");
    CU_ASSERT_EQUAL(heard[0].count, 1); /* told once, and both hear of it */
    CU_ASSERT_EQUAL(heard[1].count, 1);
    CU_ASSERT_EQUAL(heard[0].event, ZKL__WATCH_CHANGED);
    script_change("/q");
    CU_ASSERT_EQUAL(heard[0].count, 1);
    watch(0, "/q");
    watch(1, "/q");
    zkl__watch_remove(script.core, &heard[0].watch);
    OPS(""); /* somebody else watches it still */
    zkl__watch_remove(script.core, &heard[1].watch);
    OPS("unwatch");
    zkl__watch_remove(script.core, &heard[1].watch);
    script_answer_all();
    CU_ASSERT_EQUAL(script.watch_count, 0);
    CU_ASSERT_EQUAL(heard[0].count + heard[1].count, 0);
    watch(0, "/new");
    script_put("/new", 0);
    script_change("/q");
    CU_ASSERT_EQUAL(heard[0].count, 1);
    CU_ASSERT_EQUAL(heard[0].event, ZKL__WATCH_CREATED);
    script_finish();
}

static void test_watches_outlive_a_reconnect_and_not_the_session(void)
{
    script_begin();
    watch(0, "/q");
    script_suspend(0);
    script_change("/q");
    CU_ASSERT_EQUAL(heard[0].count, 0);
    script_connect();
    CU_ASSERT_EQUAL(heard[0].count, 1);
    script_answer_all();
    watch(0, "/q");
    watch(1, "/new");
    script_suspend(0);
    zkl__watch_remove(script.core, &heard[1].watch); /* not connected: nobody to tell */
    script_expire();
    CU_ASSERT_EQUAL(heard[0].count, 1);
    CU_ASSERT_EQUAL(heard[0].event, ZKL__WATCH_CHANGED);
    CU_ASSERT_EQUAL(heard[1].count, 0);
    script_finish();
}

static bool is_sent(enum zkl__op_kind kind)
{
    int i = 0;
    while (i < script.op_count && script.ops[i].kind != kind) {
        i++;
    }
    return i < script.op_count;
}

/* A request that has waited for room may be done as soon as it is sent. */
static void test_request_forgotten_after_its_wait_for_room(void)
{
    static struct script_owner many[450];
    script_begin();
    for (int i = 0; i < 450; i++) {
        script_acquire(&many[i]);
    }
    ask(ZKL__OP_SET, "/q", false);
    CU_ASSERT_FALSE(is_sent(ZKL__OP_SET));
    for (int i = 0; i < 2000 && !is_sent(ZKL__OP_SET); i++) {
        script_answer();
    }
    CU_ASSERT_TRUE_FATAL(is_sent(ZKL__OP_SET));
    CU_ASSERT_TRUE(zkl__request_forget(script.core, &asked.request));
    script_answer_all();
    expect_asked(0, ZKL__RC_OK);
    script_deinit();
}

TESTS("session step", T(test_facts), T(test_uuids), T(test_nobody_listens), T(test_state_names),
      T(test_start_after_close), T(test_start_after_the_credentials_were_refused), T(test_cancel_out_of_season),
      T(test_late_and_unknown_replies), T(test_requests), T(test_request_forgotten), T(test_request_without_memory),
      T(test_watches), T(test_watches_outlive_a_reconnect_and_not_the_session),
      T(test_request_forgotten_after_its_wait_for_room))
