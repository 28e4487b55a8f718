#include "script_store.h"
#include "memory.h"
#include "core_facts.h"

static char servers[] = "memory:script";

/* --- what the store tells the core --------------------------------------------------------------------------------- */

static void on_connected(void *ctx, const struct zkl__connection *connection)
{
    script_step((struct zkl__event){.kind = ZKL__EV_CONNECTED,
                                    .session_id = connection->session_id,
                                    .timeout = script.timeout,
                                    .fresh = connection->fresh,
                                    .began = script.now - (script.connecting ? script.connecting : 10 * MS)});
}

static void on_suspended(void *ctx)
{
    script_step((struct zkl__event){.kind = ZKL__EV_SUSPENDED});
}

static void on_reply(void *ctx, uint64_t id, const struct zkl__reply *reply)
{
    script_step((struct zkl__event){.kind = ZKL__EV_REPLY, .id = id, .reply = reply});
}

static void on_watch(void *ctx, enum zkl__watch_event event, const char *path)
{
    script_step((struct zkl__event){.kind = ZKL__EV_WATCH, .watch = event, .path = path});
}

void script_store_init(void)
{
    script.space.servers = servers;
    CU_ASSERT_TRUE_FATAL(zkl__memory_space_init(&script.space, &plain_heap, 100));
    script.store = (struct zkl__store){
        .space = &script.space,
        .heap = plain_heap,
        .events = {.connected = on_connected, .suspended = on_suspended, .reply = on_reply, .watch = on_watch},
        .link_state = ZKL__LINK_DOWN};
    zkl__list_append(&script.space.sessions, &script.store.link);
    zkl__list_append(&zkl__memory_registry.spaces, &script.space.link);
    script_find("/zookeeper/config")->own = false;
    script_remove("/zookeeper/config"); /* servers before 3.5 */
    script_put("/q", 0);
}

void script_deliver(void)
{
    pthread_mutex_lock(&script.space.mutex);
    CU_ASSERT_TRUE_FATAL(zkl__memory_deliver_next(&script.store));
    pthread_mutex_unlock(&script.space.mutex);
}

void script_store_deliver_all(void)
{
    while (script.store.queue.first) {
        script_deliver();
    }
}

/* --- operations ---------------------------------------------------------------------------------------------------- */

static struct script_op take_op(void)
{
    CU_ASSERT_FATAL(script.op_count > 0);
    struct script_op op = script.ops[0];
    memmove(script.ops, script.ops + 1, (size_t)(--script.op_count) * sizeof op);
    return op;
}

/* The world takes no notice of access lists that are asked for. */
static void forget_lists(struct zkl__op *op)
{
    op->acl = NULL;
    for (size_t i = 0; i < op->part_count; i++) {
        ((struct zkl__op *)op->parts)[i].acl = NULL;
    }
}

/* What it deletes may not be deleted. */
static bool is_kept(const struct zkl__op *op)
{
    char path[ZKL__STORE_PATH];
    zkl__store_path(path, op);
    const struct zkl__memory_node *node = script_find(path);
    return node && node->own;
}

/* ZKL__RC_OK: the oldest is done; else it is refused with this. */
static enum zkl__op_kind do_one(enum zkl__rc refusal)
{
    struct script_op oldest = take_op();
    enum zkl__op_kind kind = oldest.op->kind;
    struct zkl__memory_reply *reply;
    if (refusal == ZKL__RC_OK && kind == ZKL__OP_DELETE && is_kept(oldest.op)) {
        refusal = ZKL__RC_NOAUTH;
    }
    if (refusal != ZKL__RC_OK) {
        reply = zkl__memory_reply_new(&script.store, 0);
        reply->reply = (struct zkl__reply){.rc = refusal, .zk_code = -100};
    } else {
        forget_lists(oldest.op);
        reply = zkl__memory_perform(&script.store, oldest.op);
    }
    ASSERT_OK_FATAL(zkl__memory_take_reply(&script.store, oldest.id, reply));
    free(oldest.op);
    return kind;
}

void script_do(void)
{
    do_one(ZKL__RC_OK);
}

void script_answer_named(const char *of)
{
    do_one(ZKL__RC_OK);
    ((struct zkl__memory_reply *)script.store.queue.last)->reply.name = of;
    script_store_deliver_all();
}

enum zkl__op_kind script_answer(void)
{
    enum zkl__op_kind kind = do_one(ZKL__RC_OK);
    script_store_deliver_all();
    return kind;
}

void script_answer_some(int count)
{
    while (count-- > 0) {
        script_answer();
    }
}

void script_answer_with(enum zkl__rc rc)
{
    do_one(rc);
    script_store_deliver_all();
}

void script_answer_until(enum zkl__op_kind kind)
{
    while (script.op_count > 0 && script.ops[0].op->kind != kind) {
        script_answer();
    }
    CU_ASSERT_FATAL(script.op_count > 0);
}

void script_answer_all(void)
{
    int answered = 0;
    script_store_deliver_all();
    while (script.op_count > 0) {
        script_answer();
        CU_ASSERT_FATAL(++answered < 10000);
    }
}

void script_answer_granted(const struct script_owner *owner)
{
    script_answer_all();
    CU_ASSERT_EQUAL(owner->granted, 1);
}

int script_count(enum zkl__op_kind kind)
{
    int count = 0;
    for (int i = 0; i < script.op_count; i++) {
        count += script.ops[i].op->kind == kind;
    }
    return count;
}

const char *script_ops(void)
{
    script.line[0] = '\0';
    for (int i = 0; i < script.op_count; i++) {
        const struct zkl__op *op = script.ops[i].op;
        strcat(script.line, i ? " " : "");
        strcat(script.line, op_name(op->kind));
        for (size_t j = 0; j < op->part_count; j++) {
            strcat(script.line, j ? "," : "(");
            strcat(script.line, op_name(op->parts[j].kind));
        }
        strcat(script.line, op->part_count > 0 ? ")" : "");
    }
    return script.line;
}

/* --- connections and sessions -------------------------------------------------------------------------------------- */

bool script_store_is_connected(void)
{
    return script.store.link_state == ZKL__LINK_UP;
}

void script_connect(void)
{
    static int64_t sessions = 1000;
    if (script.store.session_id) {
        ASSERT_OK(zkl__memory_resume(script.store.session_id));
    } else {
        script.store.session_id = ++sessions;
        script.store.ended = false;
        script.store.link_state = ZKL__LINK_UP;
        struct zkl__memory_notice *notice = zkl__memory_notice_new(&script.store, ZKL__ITEM_CONNECTED);
        notice->connection.fresh = true;
        zkl__memory_enqueue(&script.store, &notice->item);
    }
    script_store_deliver_all();
}

void script_suspend(int done)
{
    while (done-- > 0 && script.op_count > 0) {
        script_do();
    }
    while (script.op_count > 0) { /* never arrives */
        struct script_op lost = take_op();
        zkl__memory_take_reply(&script.store, lost.id, zkl__memory_reply_new(&script.store, 0));
        free(lost.op);
    }
    ASSERT_OK(zkl__memory_suspend(script.store.session_id));
    script_store_deliver_all();
}

void script_end(int code)
{
    if (script_store_is_connected()) {
        script_suspend(0);
    }
    if (script.store.session_id) {
        zkl__memory_end(&script.store);
        script.store.session_id = 0;
    }
    script_step((struct zkl__event){.kind = ZKL__EV_EXPIRED, .code = code});
}

void script_store_deinit(void)
{
    while (script.op_count > 0) {
        free(take_op().op);
    }
    for (struct zkl__link *item; (item = script.store.queue.first);) {
        zkl__list_remove(&script.store.queue, item);
        free(item);
    }
    zkl__memory_discard_watches(&script.store, 0);
    zkl__list_remove(&zkl__memory_registry.spaces, &script.space.link);
    zkl__memory_space_deinit(&script.space);
}

/* --- other people -------------------------------------------------------------------------------------------------- */

struct zkl__memory_node *script_find(const char *path)
{
    return zkl__memory_find(&script.space, path);
}

void script_forbid(struct zkl__memory_node *node, int perm)
{
    const zkl_acl_entry rest = {ZKL_PERM_ALL & ~perm, "world", "anyone"};
    free(node->acl);
    node->acl = zkl__acl_copy(&plain_heap, &(const zkl_acl){1, &rest});
}

void script_number_from(int32_t number)
{
    script_find("/q")->stat.cversion = number;
}

int script_watches(void)
{
    return (int)script.space.watches.count;
}

static void meddle(enum zkl__op_kind kind, const char *path, const char *data)
{
    const struct zkl__op op = {.kind = kind, .dir = path, .data = data, .size = strlen(data), .version = -1};
    enum zkl__rc rc = ZKL__RC_UNKNOWN;
    ASSERT_OK(zkl__memory_meddle(servers, &op, &rc));
    CU_ASSERT_EQUAL_FATAL(rc, ZKL__RC_OK);
}

struct zkl__memory_node *script_put(const char *path, int64_t owner)
{
    meddle(ZKL__OP_CREATE, path, "");
    struct zkl__memory_node *node = script_find(path);
    node->stat.ephemeral_owner = owner;
    return node;
}

void script_remove(const char *path)
{
    meddle(ZKL__OP_DELETE, path, "");
    script_store_deliver_all();
}

void script_remove_node(const struct script_owner *owner)
{
    char path[SCRIPT_PATH];
    snprintf(path, sizeof path, "/q/%s", zkl__contender_node(owner->contender));
    script_remove(path);
}

void script_write(const char *path, const char *data)
{
    meddle(ZKL__OP_SET, path, data);
    script_store_deliver_all();
}

/* The newest node of our session, and how many there are. */
static const struct zkl__memory_node *newest_of_ours(int *count)
{
    const struct zkl__map *nodes = &script.space.nodes;
    const struct zkl__memory_node *newest = NULL;
    *count = 0;
    for (size_t i = 0; i < nodes->bucket_count && script.store.session_id; i++) {
        for (const struct zkl__map_entry *entry = nodes->buckets[i]; entry; entry = entry->next) {
            const struct zkl__memory_node *node = (const struct zkl__memory_node *)entry;
            bool ours = node->stat.ephemeral_owner == script.store.session_id;
            *count += ours;
            newest = ours && (!newest || node->stat.czxid > newest->stat.czxid) ? node : newest;
        }
    }
    return newest;
}

int script_ours(void)
{
    int count;
    newest_of_ours(&count);
    return count;
}

const char *script_our_path(void)
{
    int count;
    const struct zkl__memory_node *newest = newest_of_ours(&count);
    return newest ? newest->path : "";
}
