#include "script.h"

#include "stats.h"

#include <string.h>

/* --- the tree ------------------------------------------------------------------------------------------------------ */

static void push_watch_news(struct script *s, const char *path, enum zkl__watch_event event)
{
    struct script_news *news = &s->news[s->news_count++];
    memset(news, 0, sizeof *news);
    news->is_watch = true;
    news->watch = event;
    strcpy(news->path, path);
}

static void fire(struct script *s, const char *path, enum zkl__watch_event event, bool missing)
{
    int kept = 0;
    for (int i = 0; i < s->watch_count; i++) {
        if (strcmp(s->watches[i].path, path) == 0 && s->watches[i].missing == missing) {
            push_watch_news(s, path, event);
        } else {
            s->watches[kept++] = s->watches[i];
        }
    }
    s->watch_count = kept;
}

struct script_node *script_find(struct script *s, const char *path)
{
    for (int i = 0; i < s->node_count; i++) {
        if (strcmp(s->nodes[i].path, path) == 0) {
            return &s->nodes[i];
        }
    }
    return NULL;
}

static int64_t next_zxid(struct script *s)
{
    s->zxid += !s->in_multi;
    return s->zxid;
}

struct script_node *script_put(struct script *s, const char *path, int64_t owner)
{
    struct script_node *node = &s->nodes[s->node_count++];
    if (s->node_count > SCRIPT_NODES) {
        abort();
    }
    *node = (struct script_node){.czxid = next_zxid(s), .owner = owner};
    node->mzxid = node->czxid;
    strcpy(node->path, path);
    fire(s, path, ZKL__WATCH_CREATED, true);
    return node;
}

static void drop(struct script *s, struct script_node *node)
{
    char path[SCRIPT_PATH];
    strcpy(path, node->path);
    *node = s->nodes[--s->node_count];
    next_zxid(s);
    fire(s, path, ZKL__WATCH_DELETED, false);
}

static void deliver_all(struct script *s)
{
    while (s->connected && s->news_count > 0) {
        script_deliver(s);
    }
}

void script_remove(struct script *s, const char *path)
{
    struct script_node *node = script_find(s, path);
    CU_ASSERT_PTR_NOT_NULL_FATAL(node);
    drop(s, node);
    deliver_all(s);
}

static void write_node(struct script *s, struct script_node *node, const char *data)
{
    node->mzxid = next_zxid(s);
    snprintf(node->data, sizeof node->data, "%s", data);
    fire(s, node->path, ZKL__WATCH_CHANGED, false);
}

void script_write(struct script *s, const char *path, const char *data)
{
    struct script_node *node = script_find(s, path);
    CU_ASSERT_PTR_NOT_NULL_FATAL(node);
    write_node(s, node, data);
    deliver_all(s);
}

void script_change(struct script *s, const char *path)
{
    script_write(s, path, "changed");
}

int script_ours(const struct script *s)
{
    int count = 0;
    for (int i = 0; i < s->node_count; i++) {
        count += s->session_id && s->nodes[i].owner == s->session_id;
    }
    return count;
}

const char *script_our_path(const struct script *s)
{
    const char *path = "";
    int64_t newest = 0;
    for (int i = 0; i < s->node_count; i++) {
        if (s->nodes[i].owner == s->session_id && s->nodes[i].czxid > newest) {
            newest = s->nodes[i].czxid;
            path = s->nodes[i].path;
        }
    }
    return path;
}

/* --- what the store does ------------------------------------------------------------------------------------------- */

static bool parent_missing(struct script *s, const char *path)
{
    char parent[SCRIPT_PATH];
    strcpy(parent, path);
    *strrchr(parent, '/') = '\0';
    return s->chroot_missing || (parent[0] && !script_find(s, parent));
}

static struct zkl__stat stat_of(const struct script_node *node)
{
    return (struct zkl__stat){.czxid = node->czxid, .mzxid = node->mzxid, .ephemeral_owner = node->owner};
}

static enum zkl__rc do_create(struct script *s, const struct script_part *part, char name[SCRIPT_PATH],
                              struct zkl__stat *stat)
{
    char path[SCRIPT_PATH];
    if (parent_missing(s, part->path)) {
        return ZKL__RC_NONODE;
    }
    if (part->mode == ZKL__EPHEMERAL_SEQUENTIAL) {
        if (s->next_sequence > INT32_MAX) {
            return ZKL__RC_NODEEXISTS;
        }
        snprintf(path, sizeof path, "%.300s%010d", part->path, (int)s->next_sequence++);
    } else {
        strcpy(path, part->path);
    }
    if (script_find(s, path)) {
        return ZKL__RC_NODEEXISTS;
    }
    bool lives =
        part->mode == ZKL__PERSISTENT || part->mode == ZKL__PERSISTENT_SEQUENTIAL || part->mode == ZKL__CONTAINER;
    struct script_node *node = script_put(s, path, lives ? 0 : s->session_id);
    strcpy(node->data, part->data);
    strcpy(name, strrchr(path, '/') + 1);
    *stat = stat_of(node);
    return ZKL__RC_OK;
}

/* A write, alone or in a multi. */
static enum zkl__rc do_write(struct script *s, const struct script_part *part, char name[SCRIPT_PATH],
                             struct zkl__stat *stat)
{
    struct script_node *node = script_find(s, part->path);
    if (part->kind == ZKL__OP_CREATE) {
        return do_create(s, part, name, stat);
    }
    if (!node && !(part->kind == ZKL__OP_CHECK && strcmp(part->path, "/") == 0)) {
        return ZKL__RC_NONODE;
    }
    if (part->kind == ZKL__OP_DELETE) {
        if (node->fixed) {
            return ZKL__RC_NOAUTH;
        }
        drop(s, node);
    } else if (part->kind == ZKL__OP_SET) {
        write_node(s, node, part->data);
        *stat = stat_of(node);
    }
    return ZKL__RC_OK;
}

/* All or nothing; a created part answers its name and no stat. */
static void do_multi(struct script *s, const struct script_op *op, struct script_news *news)
{
    static struct script before;
    before = *s;
    s->zxid++;
    s->in_multi = true;
    for (int i = 0; i < op->part_count; i++) {
        struct zkl__reply *mine = &news->parts[i];
        struct zkl__stat stat;
        mine->rc = do_write(s, &op->parts[i], news->part_names[i], &stat);
        if (mine->rc != ZKL__RC_OK && news->reply.rc == ZKL__RC_OK) {
            news->reply.rc = mine->rc;
            for (int j = 0; j < op->part_count; j++) {
                news->parts[j].rc = j == i ? mine->rc : ZKL__RC_ROLLEDBACK;
            }
            *s = before;
            s->zxid++; /* a failed multi is a transaction, too */
            break;
        }
    }
    s->in_multi = false;
    news->reply.part_count = (size_t)op->part_count;
}

static void do_children(struct script *s, const struct script_op *op, struct script_news *news)
{
    if (s->chroot_missing || (strcmp(op->path, "/") != 0 && !script_find(s, op->path))) {
        news->reply.rc = ZKL__RC_NONODE;
        return;
    }
    size_t length = strcmp(op->path, "/") == 0 ? 0 : strlen(op->path);
    news->names = calloc((size_t)s->node_count + 1, SCRIPT_PATH);
    news->children = calloc((size_t)s->node_count + 1, sizeof *news->children);
    for (int i = 0; i < s->node_count; i++) {
        const char *path = s->nodes[i].path;
        if (strncmp(path, op->path, length) == 0 && path[length] == '/' && !strchr(path + length + 1, '/')) {
            char *name = news->names + news->reply.child_count * SCRIPT_PATH;
            strcpy(name, path + length + 1);
            news->children[news->reply.child_count++] = name;
        }
    }
}

static void set_watch(struct script *s, const struct script_op *op, bool missing, int64_t mzxid)
{
    for (int i = 0; op->watch && i < s->watch_count; i++) {
        if (strcmp(s->watches[i].path, op->path) == 0 && s->watches[i].missing == missing) {
            return;
        }
    }
    if (op->watch) {
        struct script_watch *watch = &s->watches[s->watch_count++];
        *watch = (struct script_watch){.missing = missing, .mzxid = mzxid};
        strcpy(watch->path, op->path);
    }
}

static void do_look(struct script *s, const struct script_op *op, struct script_news *news)
{
    struct script_node *node = script_find(s, op->path);
    if (!node) {
        news->reply.rc = ZKL__RC_NONODE;
        if (op->kind == ZKL__OP_EXISTS) {
            set_watch(s, op, true, 0);
        }
    } else if (op->kind == ZKL__OP_GET && node->hidden) {
        news->reply.rc = ZKL__RC_NOAUTH;
    } else {
        news->reply.stat = stat_of(node);
        if (op->kind == ZKL__OP_GET) {
            strcpy(news->data, node->data);
            news->reply.size = strlen(news->data);
        }
        set_watch(s, op, false, node->mzxid);
    }
}

static void do_unwatch(struct script *s, const struct script_op *op, struct script_news *news)
{
    int kept = 0;
    for (int i = 0; i < s->watch_count; i++) {
        if (strcmp(s->watches[i].path, op->path) != 0) {
            s->watches[kept++] = s->watches[i];
        }
    }
    news->reply.rc = kept == s->watch_count ? ZKL__RC_NOWATCH : ZKL__RC_OK;
    s->watch_count = kept;
}

static void carry_out(struct script *s, const struct script_op *op, struct script_news *news)
{
    struct script_part part = {.kind = op->kind, .mode = op->mode};
    switch (op->kind) {
    case ZKL__OP_CREATE:
    case ZKL__OP_DELETE:
    case ZKL__OP_SET:
    case ZKL__OP_CHECK:
        strcpy(part.path, op->path);
        strcpy(part.data, op->data);
        news->reply.rc = do_write(s, &part, news->name, &news->reply.stat);
        break;
    case ZKL__OP_MULTI:
        do_multi(s, op, news);
        break;
    case ZKL__OP_CHILDREN:
        do_children(s, op, news);
        break;
    case ZKL__OP_GET:
    case ZKL__OP_EXISTS:
        do_look(s, op, news);
        break;
    case ZKL__OP_UNWATCH:
        do_unwatch(s, op, news);
        break;
    case ZKL__OP_NONE:
    case ZKL__OP_SYNC:
        break;
    }
}

static struct script_op take_op(struct script *s)
{
    CU_ASSERT_FATAL(s->op_count > 0);
    struct script_op op = s->ops[0];
    memmove(s->ops, s->ops + 1, (size_t)(s->op_count - 1) * sizeof op);
    s->op_count--;
    return op;
}

static void free_news(struct script_news *news)
{
    free(news->names);
    free(news->children);
}

/* Done into a place of its own first: the watches it fires are told before its reply. */
static void do_one(struct script *s, const enum zkl__rc *refusal)
{
    struct script_op op = take_op(s);
    struct script_news *news = calloc(1, sizeof *news);
    news->op = op;
    if (refusal) {
        news->reply.rc = *refusal;
        news->reply.zk_code = -100;
    } else {
        carry_out(s, &op, news);
    }
    s->news[s->news_count++] = *news;
    free(news);
}

void script_do(struct script *s)
{
    do_one(s, NULL);
}

void script_deliver(struct script *s)
{
    CU_ASSERT_FATAL(s->news_count > 0);
    struct script_news news = s->news[0];
    memmove(s->news, s->news + 1, (size_t)(s->news_count - 1) * sizeof news);
    s->news_count--;
    if (news.is_watch) {
        script_step(s, (struct zkl__event){.kind = ZKL__EV_WATCH, .watch = news.watch, .path = news.path});
        return;
    }
    for (int i = 0; i < s->watch_count; i++) {
        if (news.op.watch && strcmp(s->watches[i].path, news.op.path) == 0) {
            s->watches[i].known = true;
        }
    }
    news.reply.name = news.name;
    news.reply.data = news.data;
    news.reply.children = news.children;
    news.reply.parts = news.parts;
    for (int i = 0; i < SCRIPT_PARTS; i++) {
        news.parts[i].name = news.part_names[i];
    }
    script_step(s, (struct zkl__event){.kind = ZKL__EV_REPLY, .id = news.op.id, .reply = &news.reply});
    free_news(&news);
}

struct script_op script_answer(struct script *s)
{
    CU_ASSERT_FATAL(s->op_count > 0);
    struct script_op op = s->ops[0];
    do_one(s, NULL);
    deliver_all(s);
    return op;
}

struct script_op script_answer_with(struct script *s, enum zkl__rc rc)
{
    CU_ASSERT_FATAL(s->op_count > 0);
    struct script_op op = s->ops[0];
    do_one(s, &rc);
    deliver_all(s);
    return op;
}

void script_answer_all(struct script *s)
{
    int answered = 0;
    deliver_all(s);
    while (s->connected && s->op_count > 0) {
        script_answer(s);
        CU_ASSERT_FATAL(++answered < 10000);
    }
}

const char *script_ops(struct script *s)
{
    s->line[0] = '\0';
    for (int i = 0; i < s->op_count; i++) {
        const struct script_op *op = &s->ops[i];
        strcat(s->line, i ? " " : "");
        strcat(s->line, zkl__op_name(op->kind));
        for (int j = 0; j < op->part_count; j++) {
            strcat(s->line, j ? "," : "(");
            strcat(s->line, zkl__op_name(op->parts[j].kind));
        }
        strcat(s->line, op->part_count > 0 ? ")" : "");
    }
    return s->line;
}

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

static void put_parts(struct script_op *slot, const struct zkl__op *op)
{
    CU_ASSERT_FATAL(op->part_count <= SCRIPT_PARTS);
    slot->part_count = (int)op->part_count;
    for (size_t i = 0; i < op->part_count; i++) {
        slot->parts[i].kind = op->parts[i].kind;
        slot->parts[i].mode = op->parts[i].mode;
        put_path(slot->parts[i].path, &op->parts[i]);
        put_data(slot->parts[i].data, &op->parts[i]);
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
    }
    s->submits++;
    return ZKL_OK;
}

static void port_state(void *ctx, zkl_session_state state, int code)
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

/* --- the session --------------------------------------------------------------------------------------------------- */

bool script_init_failing(struct script *s, long nth, bool on)
{
    memset(s, 0, sizeof *s);
    s->heap = (struct test_heap)TEST_HEAP_INIT;
    s->now = 1000 * 1000 * MS;
    s->timeout = 10000 * MS;
    s->zxid = 100;
    const struct zkl__port port = {.ctx = s, .submit = port_submit, .state = port_state, .trace = port_trace};
    struct zkl__core_config config = {.heap = test_heap(&s->heap),
                                      .tick_ns = 2000 * MS,
                                      .pause_ns = 500 * MS,
                                      .watch_bytes_max = 100000,
                                      .ops_max = 400,
                                      .seed = "fifteen letters"};
    test_heap_fail(&s->heap, nth, on);
    s->core = zkl__core_new(&config, &port);
    script_put(s, "/q", 0);
    return s->core != NULL;
}

void script_init(struct script *s)
{
    CU_ASSERT_TRUE_FATAL(script_init_failing(s, 0, false));
}

void script_deinit(struct script *s)
{
    for (int i = 0; i < s->news_count; i++) {
        free_news(&s->news[i]);
    }
    s->news_count = 0;
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

static void again(struct script *s)
{
    int kept = 0;
    for (int i = 0; i < s->watch_count; i++) {
        struct script_watch *watch = &s->watches[i];
        struct script_node *node = script_find(s, watch->path);
        if (!watch->known) {
            continue;
        }
        if (!node == watch->missing && (!node || node->mzxid == watch->mzxid)) {
            s->watches[kept++] = *watch;
        } else {
            push_watch_news(s, watch->path,
                            watch->missing ? ZKL__WATCH_CREATED
                            : node         ? ZKL__WATCH_CHANGED
                                           : ZKL__WATCH_DELETED);
        }
    }
    s->watch_count = kept;
}

void script_connect(struct script *s)
{
    bool fresh = s->session_id == 0;
    static int64_t sessions = 1000;
    s->connected = true;
    s->session_id = fresh ? ++sessions : s->session_id;
    again(s);
    script_step(s, (struct zkl__event){.kind = ZKL__EV_CONNECTED,
                                       .session_id = s->session_id,
                                       .timeout = s->timeout,
                                       .fresh = fresh,
                                       .began = s->now - 10 * MS});
    deliver_all(s);
}

static void lose_connection(struct script *s)
{
    s->connected = false;
    s->op_count = 0;
    for (int i = 0; i < s->news_count; i++) {
        if (s->news[i].is_watch) { /* the client has not heard: it sets the watch again, and hears then */
            struct script_watch *watch = &s->watches[s->watch_count++];
            *watch = (struct script_watch){.known = true, .missing = s->news[i].watch == ZKL__WATCH_CREATED};
            strcpy(watch->path, s->news[i].path);
        }
        free_news(&s->news[i]);
    }
    s->news_count = 0;
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
    lose_connection(s);
    script_step(s, (struct zkl__event){.kind = ZKL__EV_SUSPENDED});
    answer_unknown(s, ids, count);
}

void script_end(struct script *s, int code)
{
    uint64_t ids[SCRIPT_OPS];
    int count = 0;
    int64_t session = s->session_id;
    for (int i = 0; i < s->op_count; i++) {
        ids[count++] = s->ops[i].id;
    }
    lose_connection(s);
    s->watch_count = 0;
    for (int i = s->node_count - 1; i >= 0 && session; i--) {
        if (s->nodes[i].owner == session) {
            drop(s, &s->nodes[i]);
        }
    }
    s->session_id = 0;
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
        CU_ASSERT(outcome->token > 0);
        owner->unclean = outcome->unclean;
        CU_ASSERT(owner->joint ? zkl__joint_holds(owner->script->core, owner->joint, outcome->now)
                               : zkl__contender_holds(owner->script->core, owner->contender, outcome->now));
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
