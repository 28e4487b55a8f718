#include "script.h"

#include <string.h>

#include "script_store.h"
#include "stats.h"

/* --- the port ------------------------------------------------------------------------------------------------------ */

static void put_path(char path[SCRIPT_PATH], const struct zkl__op *op)
{
    bool root = strcmp(op->dir, "/") == 0;
    snprintf(path, SCRIPT_PATH, "%s%s%s", root && op->name ? "" : op->dir, op->name ? "/" : "",
             op->name ? op->name : "");
}

static void put_data(char data[SCRIPT_DATA], const struct zkl__op *op)
{
    CU_ASSERT_FATAL(op->size < SCRIPT_DATA);
    if (op->size > 0) {
        memcpy(data, op->data, op->size);
    }
}

static void put_list(struct script_op *slot, const zkl_acl *acl)
{
    for (size_t i = 0; acl && i < acl->count; i++) {
        size_t length = strlen(slot->lists);
        snprintf(slot->lists + length, sizeof slot->lists - length, "%s ", acl->entries[i].id);
    }
}

static void put_parts(struct script_op *slot, const struct zkl__op *op)
{
    CU_ASSERT_FATAL(op->part_count <= SCRIPT_PARTS);
    slot->part_count = (int)op->part_count;
    for (size_t i = 0; i < op->part_count; i++) {
        slot->parts[i].kind = op->parts[i].kind;
        slot->parts[i].mode = op->parts[i].mode;
        put_path(slot->parts[i].path, &op->parts[i]);
        put_data(slot->parts[i].data, &op->parts[i]);
        put_list(slot, op->parts[i].acl);
    }
}

static int port_submit(void *ctx, uint64_t id, const struct zkl__op *op)
{
    struct script *s = ctx;
    if (s->refuse_count > 0 && (s->refuse_kind == ZKL__OP_NONE || s->refuse_kind == op->kind)) {
        if (s->refuse_skip == 0) {
            s->refuse_count--;
            return s->refuse_code;
        }
        s->refuse_skip--;
    }
    CU_ASSERT(s->connected);
    if (s->op_count == SCRIPT_OPS) {
        return ZKL_ELIMIT;
    }
    struct script_op *slot = &s->ops[s->op_count++];
    *slot = (struct script_op){.id = id, .kind = op->kind, .mode = op->mode, .watch = op->watch, .at = s->now};
    if (op->kind == ZKL__OP_MULTI) {
        put_parts(slot, op);
    } else {
        put_path(slot->path, op);
        put_data(slot->data, op);
        put_list(slot, op->acl);
    }
    s->submits++;
    return ZKL_OK;
}

static void port_state(void *ctx, zkl_connection_state state, int code)
{
    struct script *s = ctx;
    s->state = state;
    s->state_code = code;
}

static void port_trace(void *ctx, const char *who, const char *what)
{
    struct script *s = ctx;
    if (getenv("ZKL_TRACE")) {
        fprintf(stderr, "%9.3f %s: %s\n", (double)s->now / 1e9, who, what);
    }
}

static void port_warn(void *ctx, const char *who, const char *what)
{
    struct script *s = ctx;
    snprintf(s->warned, sizeof s->warned, "%s: %s", who, what);
    s->warnings += what[0] != '\0';
}

/* --- the session --------------------------------------------------------------------------------------------------- */

/* For contenders that ask for it. The world takes no notice of access lists. */
static const zkl_acl_entry seal_entry = {ZKL_PERM_WRITE, "digest", "ours"};
static const zkl_acl seal = {1, &seal_entry};

static bool init(struct script *s, long nth, bool on, enum zkl__observer_masters masters)
{
    memset(s, 0, sizeof *s);
    s->heap = (struct test_heap)TEST_HEAP_INIT;
    s->now = 1000 * 1000 * MS;
    s->timeout = 10000 * MS;
    s->zxid = 100;
    const struct zkl__port port = {
        .ctx = s, .submit = port_submit, .state = port_state, .trace = port_trace, .warn = port_warn};
    struct zkl__core_config config = {.heap = test_heap(&s->heap),
                                      .tick_ns = 2000 * MS,
                                      .pause_ns = 500 * MS,
                                      .masters = masters,
                                      .watch_bytes_max = 100000,
                                      .ops_max = 400,
                                      .seal = &seal,
                                      .seed = "fifteen letters"};
    test_heap_fail(&s->heap, nth, on);
    s->core = zkl__core_new(&config, &port);
    script_put(s, "/q", 0);
    return s->core != NULL;
}

bool script_init_failing(struct script *s, long nth, bool on)
{
    return init(s, nth, on, ZKL__MASTERS_NONE);
}

void script_init_masters(struct script *s, enum zkl__observer_masters masters)
{
    CU_ASSERT_TRUE_FATAL(init(s, 0, false, masters));
}

void script_init(struct script *s)
{
    script_init_masters(s, ZKL__MASTERS_NONE);
}

void script_deinit(struct script *s)
{
    script_store_forget(s);
    if (s->core) {
        zkl__core_free(s->core);
    }
    CU_ASSERT_EQUAL(test_heap_live(&s->heap), 0);
}

void script_begin(struct script *s)
{
    script_init(s);
    script_connect(s);
    script_answer_all(s);
    OPS(s, "");
}

void script_begin_blocked(struct script *s)
{
    script_begin(s);
    script_put(s, SCRIPT_BLOCKER, SCRIPT_STRANGER);
    s->next_sequence = 1;
}

void script_begin_proving(struct script *s, struct script_owner *owner)
{
    script_begin(s);
    script_wait(s, 12000 * MS); /* nothing is answered */
    script_acquire(s, owner);
    while (s->op_count > 0 && strcmp(script_state(owner), "proving") != 0) {
        script_answer(s);
    }
    STATE(owner, "proving");
    CU_ASSERT_EQUAL(owner->granted, 0);
}

void script_finish_failed(struct script *s, const struct script_owner *owner, int code)
{
    CU_ASSERT_EQUAL(owner->failed, 1);
    CU_ASSERT_EQUAL(owner->code, code);
    script_finish(s);
}

void script_finish(struct script *s)
{
    if (!s->connected && s->state != ZKL_SESSION_CLOSED) {
        script_connect(s);
    }
    script_close(s);
    for (int i = 0; i < 200 && !zkl__core_idle(s->core) && s->connected; i++) {
        script_answer_all(s);
        script_wait(s, 3000 * MS);
    }
    CU_ASSERT_TRUE(zkl__core_idle(s->core));
    CU_ASSERT_EQUAL(script_ours(s), 0);
    CU_ASSERT_EQUAL(s->watch_count, 0);
    script_deinit(s);
}

void script_step(struct script *s, struct zkl__event event)
{
    event.now = s->now;
    zkl__session_step(s->core, &event);
    if (zkl__core_next(s->core) <= s->now) {
        CU_FAIL("the core asks for a time that has passed");
    }
    if (!zkl__stats_sound(&zkl__core_stats(s->core)->all.contenders)) {
        CU_FAIL("the sums of the statistics do not agree");
    }
}

void script_connect(struct script *s)
{
    bool fresh = s->session_id == 0;
    static int64_t sessions = 1000;
    s->connected = true;
    s->session_id = fresh ? ++sessions : s->session_id;
    script_store_connect(s);
    script_step(s, (struct zkl__event){.kind = ZKL__EV_CONNECTED,
                                       .session_id = s->session_id,
                                       .timeout = s->timeout,
                                       .fresh = fresh,
                                       .began = s->now - (s->connecting ? s->connecting : 10 * MS)});
    script_store_deliver_all(s);
}

/* As store.h has it: the state first, then a word about each operation (which the core has given up by then). */
static void answer_unknown(struct script *s, const uint64_t *ids, int count)
{
    for (int i = 0; i < count; i++) {
        const struct zkl__reply unknown = {.rc = ZKL__RC_UNKNOWN};
        script_step(s, (struct zkl__event){.kind = ZKL__EV_REPLY, .id = ids[i], .reply = &unknown});
    }
}

void script_suspend(struct script *s, int done)
{
    uint64_t ids[SCRIPT_OPS];
    int count = 0;
    for (int i = 0; i < s->op_count; i++) {
        ids[count++] = s->ops[i].id;
    }
    for (int i = 0; i < done && s->op_count > 0; i++) {
        script_do(s);
    }
    script_store_disconnect(s);
    script_step(s, (struct zkl__event){.kind = ZKL__EV_SUSPENDED});
    answer_unknown(s, ids, count);
}

void script_end(struct script *s, int code)
{
    uint64_t ids[SCRIPT_OPS];
    int count = 0;
    for (int i = 0; i < s->op_count; i++) {
        ids[count++] = s->ops[i].id;
    }
    script_store_disconnect(s);
    script_store_end_session(s);
    script_step(s, (struct zkl__event){.kind = ZKL__EV_EXPIRED, .code = code});
    answer_unknown(s, ids, count);
}

void script_expire(struct script *s)
{
    script_end(s, ZKL_ELOST);
}

void script_close(struct script *s)
{
    script_step(s, (struct zkl__event){.kind = ZKL__EV_CLOSE});
}

static void wait_for(struct script *s, int64_t duration, bool answered)
{
    int64_t until = s->now + duration;
    int steps = 0;
    while (s->now < until) {
        int64_t next = zkl__core_next(s->core);
        s->now = next < until ? (next > s->now ? next : s->now + 1) : until;
        script_step(s, (struct zkl__event){.kind = ZKL__EV_TIME});
        if (answered) {
            script_answer_all(s);
        }
        CU_ASSERT_FATAL(++steps < 100000);
    }
}

void script_wait(struct script *s, int64_t duration)
{
    wait_for(s, duration, false);
}

void script_run(struct script *s, int64_t duration)
{
    wait_for(s, duration, true);
}

/* --- contenders ---------------------------------------------------------------------------------------------------- */

static void hear(void *payload, const struct zkl__outcome *outcome)
{
    struct script_owner *owner = payload;
    CU_ASSERT_FATAL(owner->contender || owner->joint);
    switch (outcome->kind) {
    case ZKL__GRANTED:
        owner->granted++;
        owner->token = outcome->token;
        owner->serial = outcome->serial;
        owner->contender = owner->contender ? outcome->contender : NULL; /* another one, if the lock lingered */
        CU_ASSERT(outcome->token > 0);
        owner->unclean = outcome->unclean;
        CU_ASSERT(zkl__core_holds(owner->script->core, owner->contender, owner->joint, NULL, outcome->now));
        break;
    case ZKL__FAILED:
        CU_ASSERT_EQUAL(owner->granted, 0);
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
        owner->contender = NULL;
        owner->joint = NULL;
    }
    owner->why = outcome->why;
    CU_ASSERT(owner->granted + owner->failed <= 1);
    CU_ASSERT(owner->lost <= 1);
    CU_ASSERT(owner->granted || !(owner->jeopardy || owner->safe || owner->lost || owner->released ||
                                  owner->downgraded || owner->revoked));
    CU_ASSERT_EQUAL(outcome->now, owner->script->now);
    CU_ASSERT_PTR_NOT_NULL(outcome->why);
}

struct zkl__contender_config script_config(struct script_owner *owner, const char *path)
{
    return (struct zkl__contender_config){
        .rule = &zkl__rule_mutex, .path = path, .metadata = "me", .notify = hear, .owner = owner};
}

bool script_contend(struct script *s, struct script_owner *owner, const struct zkl__contender_config *config)
{
    *owner = (struct script_owner){.script = s};
    snprintf(owner->path, sizeof owner->path, "%s", config->path);
    owner->contender = zkl__contender_new(s->core, config);
    return owner->contender != NULL;
}

bool script_contend_jointly(struct script *s, struct script_owner *owner, const struct zkl__contender_config *config,
                            const char *const *paths, size_t count)
{
    *owner = (struct script_owner){.script = s};
    snprintf(owner->path, sizeof owner->path, "%s", paths[0]);
    owner->joint = zkl__joint_new(s->core, config, paths, count);
    return owner->joint != NULL;
}

static void step_for(struct script *s, struct script_owner *owner, struct zkl__event event)
{
    event.contender = owner->contender;
    event.joint = owner->joint;
    script_step(s, event);
}

void script_start(struct script *s, struct script_owner *owner, int64_t deadline, bool try_only)
{
    step_for(s, owner, (struct zkl__event){.kind = ZKL__EV_START, .deadline = deadline, .try_only = try_only});
}

void script_acquire(struct script *s, struct script_owner *owner)
{
    struct zkl__contender_config config = script_config(owner, "/q");
    CU_ASSERT_TRUE_FATAL(script_contend(s, owner, &config));
    script_start(s, owner, INT64_MAX, false);
}

void script_cancel(struct script *s, struct script_owner *owner)
{
    step_for(s, owner, (struct zkl__event){.kind = ZKL__EV_CANCEL, .code = ZKL_ECANCELED});
}

void script_let_go(struct script *s, struct script_owner *owner)
{
    struct script_owner none = *owner;
    owner->contender = NULL; /* an outcome from here on is a failure */
    owner->joint = NULL;
    step_for(s, &none, (struct zkl__event){.kind = ZKL__EV_LET_GO});
}
void script_release(struct script *s, struct script_owner *owner)
{
    CU_ASSERT_FATAL(owner->contender || owner->joint);
    step_for(s, owner, (struct zkl__event){.kind = ZKL__EV_RELEASE});
}

void script_hold(struct script *s, struct script_owner *owner)
{
    if (!s->connected) {
        script_connect(s);
    }
    script_acquire(s, owner);
    script_answer_all(s);
    CU_ASSERT_EQUAL_FATAL(owner->granted, 1);
}

const char *script_state(const struct script_owner *owner)
{
    return owner->contender ? zkl__contender_state_name(zkl__contender_state(owner->contender)) : "told";
}

void script_expect(const char *file, int line, const char *is, const char *should)
{
    if (strcmp(is, should) != 0) {
        fprintf(stderr, "\n    %s:%d: '%s', not '%s'\n", file, line, is, should);
        CU_FAIL("see above");
    }
}
