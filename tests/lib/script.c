#include "script.h"

#include "core_facts.h"
#include "script_store.h"

struct script script;
struct script_owner me, you, third;
const struct zkl__rule script_writer = {"__WRIT__", ZKL__KIND_ANY};
const struct zkl__rule script_reader = {"__READ__", ZKL__KIND_ANY & ~ZKL__KIND(ZKL_KIND_READ)};

/* --- the port ------------------------------------------------------------------------------------------------------ */

static int port_submit(void *ctx, uint64_t id, const struct zkl__op *op)
{
    if (script.refuse_count > 0 && (script.refuse_kind == ZKL__OP_NONE || script.refuse_kind == op->kind)) {
        if (script.refuse_skip == 0) {
            script.refuse_count--;
            return script.refuse_code;
        }
        script.refuse_skip--;
    }
    CU_ASSERT_TRUE(script_store_is_connected());
    CU_ASSERT_FATAL(script.op_count < SCRIPT_OPS);
    script.ops[script.op_count++] = (struct script_op){id, zkl__op_copy(&plain_heap, op)};
    script.submits++;
    return ZKL_OK;
}

static void port_state(void *ctx, zkl_connection_state state, int code)
{
    script.state = state;
}

static void port_log(void *ctx, zkl_log_level level, const char *path, unsigned number, const char *what)
{
    if (level == ZKL_LOG_WARN) {
        snprintf(script.warned, sizeof script.warned, "%s#%u: %s", path ? path : "", number, what);
        script.warnings++;
    } else if (getenv("ZKL_TRACE")) {
        fprintf(stderr, "%9.3f %s#%u: %s\n", (double)script.now / 1e9, path ? path : "", number, what);
    }
}

/* --- the session --------------------------------------------------------------------------------------------------- */

static bool init(long nth, bool on, enum zkl__observer_masters masters)
{
    memset(&script, 0, sizeof script);
    script.heap = (struct test_heap)TEST_HEAP_INIT;
    script.now = 1000 * 1000 * MS;
    script.timeout = 10000 * MS;
    const struct zkl__port port = {
        .submit = port_submit, .state = port_state, .log = port_log, .log_level = ZKL_LOG_DEBUG};
    struct zkl__core_config config = {.heap = test_heap(&script.heap),
                                      .tick_ns = 2000 * MS,
                                      .pause_ns = 500 * MS,
                                      .masters = masters,
                                      .watch_bytes_max = 100000,
                                      .ops_max = 400,
                                      .seed = "fifteen letters"};
    test_heap_fail(&script.heap, nth, on);
    script.core = zkl__core_new(&config, &port);
    script_store_init();
    return script.core != NULL;
}

bool script_init_failing(long nth, bool on)
{
    return init(nth, on, ZKL__MASTERS_NONE);
}

void script_init_masters(enum zkl__observer_masters masters)
{
    CU_ASSERT_TRUE_FATAL(init(0, false, masters));
}

void script_init(void)
{
    script_init_masters(ZKL__MASTERS_NONE);
}

void script_deinit(void)
{
    if (script.core) {
        zkl__core_free(script.core);
    }
    script_store_deinit();
    CU_ASSERT_EQUAL(test_heap_live(&script.heap), 0);
}

void script_begin(void)
{
    script_init();
    script_connect();
    script_answer_all();
    OPS("");
}

void script_begin_blocked(void)
{
    script_begin();
    script_put(SCRIPT_BLOCKER, SCRIPT_STRANGER);
}

void script_begin_proving(struct script_owner *owner)
{
    script_begin();
    script_wait(12000 * MS); /* nothing is answered */
    script_acquire(owner);
    while (script.op_count > 0 && strcmp(script_state(owner), "proving") != 0) {
        script_answer();
    }
    STATE(owner, "proving");
    CU_ASSERT_EQUAL(owner->granted, 0);
}

void script_finish_failed(const struct script_owner *owner, int code)
{
    CU_ASSERT_EQUAL(owner->failed, 1);
    CU_ASSERT_EQUAL(owner->code, code);
    script_finish();
}

void script_finish(void)
{
    if (!script_store_is_connected() && script.state != ZKL_SESSION_CLOSED) {
        script_connect();
    }
    script_close();
    for (int i = 0; i < 200 && !zkl__core_idle(script.core) && script_store_is_connected(); i++) {
        script_answer_all();
        script_wait(3000 * MS);
    }
    CU_ASSERT_TRUE(zkl__core_idle(script.core));
    CU_ASSERT_EQUAL(script_ours(), 0);
    CU_ASSERT_EQUAL(script_watches(), 0);
    script_deinit();
}

void script_step(struct zkl__event event)
{
    event.now = script.now;
    zkl__session_step(script.core, &event);
    if (zkl__core_next(script.core) <= script.now) {
        CU_FAIL("the core asks for a time that has passed");
    }
    if (!stats_sound(&script.core->stats.all.contenders)) {
        CU_FAIL("the sums of the statistics do not agree");
    }
}

void script_reconnect(int done)
{
    script_suspend(done);
    script_connect();
}

void script_expire(void)
{
    script_end(ZKL_ELOST);
}

void script_close(void)
{
    script_step((struct zkl__event){.kind = ZKL__EV_CLOSE});
}

static void wait_for(int64_t duration, bool answered)
{
    int64_t until = script.now + duration;
    int steps = 0;
    while (script.now < until) {
        int64_t next = zkl__core_next(script.core);
        script.now = next < until ? (next > script.now ? next : script.now + 1) : until;
        script_step((struct zkl__event){.kind = ZKL__EV_TIME});
        if (answered) {
            script_answer_all();
        }
        CU_ASSERT_FATAL(++steps < 100000);
    }
}

void script_wait(int64_t duration)
{
    wait_for(duration, false);
}

void script_run(int64_t duration)
{
    wait_for(duration, true);
}

/* --- contenders ---------------------------------------------------------------------------------------------------- */

static void hear(void *payload, const struct zkl__outcome *outcome)
{
    struct script_owner *owner = payload;
    CU_ASSERT_PTR_NOT_NULL_FATAL(owner->machine);
    switch (outcome->kind) {
    case ZKL__GRANTED:
        owner->granted++;
        owner->token = outcome->token;
        owner->serial = outcome->serial;
        owner->contender =
            outcome->contender ? outcome->contender : owner->contender; /* another one, if the lock lingered */
        CU_ASSERT(outcome->token > 0);
        owner->unclean = outcome->unclean;
        CU_ASSERT(owner->machine->ops->holds(owner->machine, outcome->now));
        break;
    case ZKL__FAILED:
        owner->failed++;
        break;
    case ZKL__JEOPARDY:
        owner->jeopardy++;
        break;
    case ZKL__SAFE:
        owner->safe++;
        break;
    case ZKL__LOSS:
        owner->lost++;
        break;
    case ZKL__DOWNGRADED:
        owner->downgraded++;
        break;
    case ZKL__NOT_DOWNGRADED:
        owner->not_downgraded++;
        break;
    case ZKL__REVOKED:
        owner->revoked++;
        break;
    case ZKL__RELEASED:
        owner->released++;
        break;
    }
    if (outcome->kind == ZKL__FAILED || outcome->kind == ZKL__RELEASED) {
        owner->code = outcome->code;
        owner->zk_code = outcome->zk_code;
        owner->machine = NULL;
    }
    owner->why = outcome->why;
    CU_ASSERT(owner->granted + owner->failed <= 1);
    CU_ASSERT(owner->lost <= 1);
    CU_ASSERT(owner->granted || !(owner->jeopardy || owner->safe || owner->lost || owner->released || owner->revoked));
    CU_ASSERT_EQUAL(outcome->now, script.now);
    CU_ASSERT_PTR_NOT_NULL(outcome->why);
}

static struct zkl__contender_config complete(struct script_owner *owner, const struct zkl__contender_config *config)
{
    struct zkl__contender_config full = config ? *config : (struct zkl__contender_config){.rule = NULL};
    full.rule = full.rule ? full.rule : &zkl__rule_mutex;
    full.path = full.path ? full.path : "/q";
    full.metadata = full.metadata ? full.metadata : "me";
    full.notify = hear;
    full.owner = owner;
    *owner = (struct script_owner){.granted = 0};
    return full;
}

bool script_contend(struct script_owner *owner, const struct zkl__contender_config *config)
{
    struct zkl__contender_config full = complete(owner, config);
    owner->contender = zkl__contender_new(script.core, &full);
    return owner->contender != NULL;
}

bool script_contend_jointly(struct script_owner *owner, const char *const *paths, size_t count)
{
    struct zkl__contender_config full = complete(owner, CONTENDER_CONFIG(.path = paths[0]));
    owner->joint = zkl__multi_new(script.core, &full, paths, count);
    return owner->joint != NULL;
}

void script_start(struct script_owner *owner, int64_t deadline, bool try_only)
{
    script_step((struct zkl__event){
        .kind = ZKL__EV_START, .machine = owner->machine, .deadline = deadline, .try_only = try_only});
}

void script_enter(struct script_owner *owner, const struct zkl__contender_config *config)
{
    CU_ASSERT_TRUE_FATAL(script_contend(owner, config));
    script_start(owner, INT64_MAX, false);
}

void script_acquire(struct script_owner *owner)
{
    script_enter(owner, NULL);
}

void script_cancel(struct script_owner *owner)
{
    script_step((struct zkl__event){.kind = ZKL__EV_CANCEL, .machine = owner->machine, .code = ZKL_ECANCELED});
}

void script_release(struct script_owner *owner)
{
    CU_ASSERT_PTR_NOT_NULL_FATAL(owner->machine);
    script_step((struct zkl__event){.kind = ZKL__EV_RELEASE, .machine = owner->machine});
}

void script_hold(struct script_owner *owner)
{
    if (!script_store_is_connected()) {
        script_connect();
    }
    script_acquire(owner);
    script_answer_all();
    CU_ASSERT_EQUAL_FATAL(owner->granted, 1);
}

const char *script_state(const struct script_owner *owner)
{
    return owner->contender ? zkl__contender_state_name(owner->contender->state) : "told";
}

void script_expect(const char *file, int line, const char *is, const char *should)
{
    if (strcmp(is, should) != 0) {
        fprintf(stderr, "\n    %s:%d: '%s', not '%s'\n", file, line, is, should);
        CU_FAIL("see above");
    }
}
