/* zookeeper_ops.c - the table of operations, and completions into replies. */
#include <string.h>

#include "zookeeper_store.h"

/* --- the table of operations ----------------------------------------------------------------- */

static void list_append(struct zk_list *list, struct zk_op *op)
{
    op->next = NULL;
    op->prev = list->tail;
    *(list->tail ? &list->tail->next : &list->head) = op;
    list->tail = op;
}

static void list_remove(struct zk_list *list, struct zk_op *op)
{
    *(op->prev ? &op->prev->next : &list->head) = op->next;
    *(op->next ? &op->next->prev : &list->tail) = op->prev;
}

void zkl__zk_op_free(struct zk_op *op)
{
    const zkl_heap *heap = &op->store->heap;
    for (size_t i = 0; op->parts && i < op->part_count; i++) {
        zkl__free(heap, op->parts[i].path);
        zkl__free(heap, op->parts[i].made);
    }
    zkl__free(heap, op->parts);
    zkl__free(heap, op->results);
    zkl__free(heap, op->replies);
    zkl__free(heap, op);
}

void zkl__zk_op_add(struct zkl__store *store, struct zk_op *op)
{
    list_append(&store->waiting, op);
    store->op_count++;
}

void zkl__zk_op_remove(struct zk_op *op)
{
    struct zkl__store *store = op->store;
    list_remove(op->told ? &store->told : &store->waiting, op);
    store->op_count--;
    pthread_cond_broadcast(&store->changed);
}

static void op_forget(struct zk_op *op)
{
    zkl__zk_op_remove(op);
    zkl__zk_op_free(op);
}

void zkl__zk_op_mark_told(struct zk_op *op)
{
    list_remove(&op->store->waiting, op);
    list_append(&op->store->told, op);
    op->told = true;
}

/* --- between the library and the session ----------------------------------------------------- */

bool zkl__zk_enter(struct zkl__store *store, const zhandle_t *zh)
{
    pthread_mutex_lock(&store->mutex);
    bool ours = zh == store->zh;
    store->inside = ours || store->inside;
    pthread_mutex_unlock(&store->mutex);
    return ours;
}

void zkl__zk_leave(struct zkl__store *store)
{
    pthread_mutex_lock(&store->mutex);
    store->inside = false;
    if (store->phase == ZK_CLOSED) {
        pthread_cond_broadcast(&store->changed);
    }
    pthread_mutex_unlock(&store->mutex);
}

/* The library's last word on op. */
static void op_done(struct zk_op *op, int zk_code, struct zkl__reply *reply)
{
    struct zkl__store *store = op->store;
    reply->zk_code = zk_code;
    reply->rc = zkl__zk_rc(zk_code);
    pthread_mutex_lock(&store->mutex);
    store->inside = true;
    bool tell = !op->told && store->phase != ZK_CLOSED;
    zkl__zk_op_remove(op);
    if (store->linked && zkl__rc_answered(reply->rc)) {
        store->answered_ns = op->sent_ns;
    }
    if (op->container && zk_code == ZUNIMPLEMENTED) {
        /* A server before 3.5.1 (ZooDefs.OpCode): done again, it becomes a persistent node. */
        store->no_containers = true;
        reply->rc = ZKL__RC_NOTAPPLIED;
    }
    pthread_mutex_unlock(&store->mutex);
    if (tell) {
        store->events.reply(store->ctx, op->id, reply);
    }
    zkl__zk_op_free(op);
    zkl__zk_leave(store);
}

/* Ops in the list are freed on this thread only, or after it was joined; told moves them, so the
 * head is looked at anew. */
void zkl__zk_tell_unknown(struct zkl__store *store)
{
    struct zkl__reply reply = {.rc = ZKL__RC_UNKNOWN};
    for (;;) {
        pthread_mutex_lock(&store->mutex);
        struct zk_op *op = store->waiting.head;
        uint64_t id = op ? op->id : 0;
        bool quiet = store->phase == ZK_CLOSED;
        if (op) {
            zkl__zk_op_mark_told(op);
            pthread_cond_broadcast(&store->changed);
        }
        pthread_mutex_unlock(&store->mutex);
        if (!op || quiet) {
            return;
        }
        store->events.reply(store->ctx, id, &reply);
    }
}

void zkl__zk_drop_all(struct zkl__store *store)
{
    while (store->waiting.head) {
        op_forget(store->waiting.head);
    }
    while (store->told.head) {
        op_forget(store->told.head);
    }
}

/* --- completions, on the library's completion thread ----------------------------------------- */

static struct zkl__stat stat_of(const struct Stat *stat)
{
    struct zkl__stat out = {0};
    if (stat) {
        out = (struct zkl__stat){.czxid = stat->czxid,
                                 .mzxid = stat->mzxid,
                                 .pzxid = stat->pzxid,
                                 .ctime_ms = stat->ctime,
                                 .mtime_ms = stat->mtime,
                                 .ephemeral_owner = stat->ephemeralOwner,
                                 .version = stat->version,
                                 .cversion = stat->cversion,
                                 .child_count = stat->numChildren,
                                 .data_size = stat->dataLength};
    }
    return out;
}

/* The name alone: so no chroot is in it. */
static const char *name_of(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path;
}

static struct zk_op *op_of(const void *data)
{
    return (struct zk_op *)(uintptr_t)data; /* const in the library's prototypes only */
}

void zkl__zk_created(int rc, const char *path, const struct Stat *stat, const void *data)
{
    struct zkl__reply reply = {.name = name_of(path), .stat = stat_of(stat)};
    op_done(op_of(data), rc, &reply);
}

void zkl__zk_done(int rc, const void *data)
{
    struct zkl__reply reply = {0};
    op_done(op_of(data), rc, &reply);
}

void zkl__zk_synced(int rc, const char *path, const void *data)
{
    (void)path;
    zkl__zk_done(rc, data);
}

void zkl__zk_stat_came(int rc, const struct Stat *stat, const void *data)
{
    struct zkl__reply reply = {.stat = stat_of(stat)};
    op_done(op_of(data), rc, &reply);
}

void zkl__zk_data_came(int rc, const char *value, int length, const struct Stat *stat,
                       const void *data)
{
    struct zkl__reply reply = {.stat = stat_of(stat)};
    if (value && length > 0) {
        reply.data = value;
        reply.size = (size_t)length;
    }
    op_done(op_of(data), rc, &reply);
}

/* The library takes a reply that ends too early for a whole one: the names that are missing are
 * NULL. */
static bool is_whole(const struct String_vector *names)
{
    for (int32_t i = 0; names && i < names->count; i++) {
        if (!names->data[i]) {
            return false;
        }
    }
    return true;
}

void zkl__zk_children_came(int rc, const struct String_vector *names, const struct Stat *stat,
                           const void *data)
{
    struct zkl__reply reply = {.stat = stat_of(stat)};
    if (rc == ZOK && !is_whole(names)) {
        rc = ZTHROTTLEDOP; /* as if the server had put it off: it is sent again later */
        names = NULL;
    }
    if (names && names->count > 0) {
        reply.children = (const char *const *)names->data;
        reply.child_count = (size_t)names->count;
    }
    op_done(op_of(data), rc, &reply);
}

/* A failed multi tells the reason at one part; the others say ZRUNTIMEINCONSISTENCY or nothing. */
static enum zkl__rc part_rc(int multi_code, int part_code)
{
    enum zkl__rc rc = zkl__zk_rc(multi_code);
    if (rc == ZKL__RC_OK || !zkl__rc_answered(rc)) {
        return rc;
    }
    return part_code == ZOK || part_code == ZRUNTIMEINCONSISTENCY ? ZKL__RC_ROLLEDBACK
                                                                  : zkl__zk_rc(part_code);
}

void zkl__zk_multi_done(int rc, const void *data)
{
    struct zk_op *op = op_of(data);
    struct zkl__reply reply = {0};
    for (size_t i = 0; i < op->part_count; i++) {
        struct zkl__reply *part = &op->replies[i];
        part->zk_code = op->results[i].err;
        part->rc = part_rc(rc, op->results[i].err);
        if (part->rc == ZKL__RC_OK) {
            part->name = name_of(op->parts[i].made);
            part->stat = stat_of(op->parts[i].kind == ZKL__OP_SET ? &op->parts[i].stat : NULL);
        }
    }
    if (op->kind == ZKL__OP_MULTI) {
        reply.parts = op->replies;
        reply.part_count = op->part_count;
    }
    op_done(op, rc, &reply);
}

static void probed(int rc, const struct Stat *stat, const void *data)
{
    struct zkl__store *store = (struct zkl__store *)(uintptr_t)data;
    (void)stat;
    (void)zkl__zk_enter(store, store->zh);
    zkl__zk_probed(store, rc);
    zkl__zk_leave(store);
}

bool zkl__zk_probe(struct zkl__store *store)
{
    if (zoo_aexists(store->zh, "/", 0, probed, store) != ZOK) {
        return false;
    }
    store->probe_count++;
    return true;
}
