/* Operations of the in-process store, and the watches that they set and fire. */
#include "memory_session.h"
#include "name.h"

#include <string.h>

/* --- kinds of ops ---------------------------------------------------------------------------- */

bool zkl__memory_writes(const struct zkl__op *op)
{
    return op->kind == ZKL__OP_CREATE || op->kind == ZKL__OP_DELETE || op->kind == ZKL__OP_SET ||
           op->kind == ZKL__OP_MULTI;
}

/* --- watches: one-shot, as the server keeps them and as the C client sets them again after a
 * reconnect ---------------------------------------------------------------------------------- */

static struct zkl__memory_watch **bucket_of(struct zkl__memory_space *space, const char *path)
{
    return &space->watches[zkl__path_hash(path) % ZKL__MEMORY_WATCH_BUCKETS];
}

static struct zkl__memory_watch *watch_new(struct zkl__store *store, const char *path,
                                           enum zkl__op_kind kind)
{
    size_t size = strlen(path) + 1;
    struct zkl__memory_watch *watch = zkl__zalloc(&store->heap, sizeof *watch + size);
    if (watch) {
        watch->item.kind = ZKL__ITEM_WATCH;
        watch->store = store;
        watch->table = kind == ZKL__OP_CHILDREN ? ZKL__WATCHES_CHILD : ZKL__WATCHES_DATA;
        memcpy(watch->path, path, size);
    }
    return watch;
}

void zkl__memory_arm(struct zkl__memory_watch *watch)
{
    struct zkl__memory_watch **bucket = bucket_of(watch->store->space, watch->path);
    for (struct zkl__memory_watch *other = *bucket; other; other = other->next) {
        if (other->store == watch->store && other->table == watch->table &&
            strcmp(other->path, watch->path) == 0) {
            zkl__free(&watch->store->heap, watch);
            return;
        }
    }
    watch->next = *bucket;
    *bucket = watch;
}

void zkl__memory_fire(struct zkl__memory_watch *watch, enum zkl__watch_event event)
{
    watch->next = NULL;
    watch->event = event;
    zkl__memory_enqueue(watch->store, &watch->item);
}

/* The last thing put to the session is that this path is deleted. */
static bool was_just_enqueued(const struct zkl__store *store, const char *path)
{
    const struct zkl__memory_watch *last = (const struct zkl__memory_watch *)store->queue.last;
    return last && last->item.kind == ZKL__ITEM_WATCH && last->event == ZKL__WATCH_DELETED &&
           strcmp(last->path, path) == 0;
}

/* A watch that fires on a node which its session may not read is removed without an event
 * (WatchManager.triggerWatch). */
static bool may_know(const struct zkl__memory_watch *watch, const struct zkl__memory_node *node)
{
    return watch->store->space->rules == ZKL__RULES_NOTHING_NEEDS_READ ||
           zkl__memory_permits(node, &watch->store->who, ZKL_PERM_READ);
}

static void trigger(struct zkl__memory_space *space, enum zkl__memory_table table,
                    enum zkl__watch_event event, const struct zkl__memory_node *node)
{
    struct zkl__memory_watch **at = bucket_of(space, node->path);
    while (*at) {
        struct zkl__memory_watch *watch = *at;
        /* No server keeps the watches of a session without a connection. */
        if (watch->table != table || watch->store->link_state == ZKL__LINK_DOWN ||
            strcmp(watch->path, node->path) != 0) {
            at = &watch->next;
            continue;
        }
        *at = watch->next;
        bool again = table == ZKL__WATCHES_CHILD && event == ZKL__WATCH_DELETED &&
                     was_just_enqueued(watch->store, node->path);
        if (again || !may_know(watch, node)) {
            zkl__free(&watch->store->heap, watch);
        } else {
            zkl__memory_fire(watch, event);
        }
    }
}

/* Who watches data and children of a node hears of its end once (DataTree.deleteNode: "processed").
 */
static void fire(struct zkl__memory_space *space, enum zkl__watch_event event,
                 const struct zkl__memory_node *node)
{
    trigger(space, ZKL__WATCHES_DATA, event, node);
    if (event == ZKL__WATCH_DELETED) {
        trigger(space, ZKL__WATCHES_CHILD, event, node);
    }
    if (event != ZKL__WATCH_CHANGED) {
        trigger(space, ZKL__WATCHES_CHILD, ZKL__WATCH_CHILDREN, node->parent);
    }
}

bool zkl__memory_discard_watches(struct zkl__store *store, const char *path, uint64_t after)
{
    struct zkl__memory_space *space = store->space;
    struct zkl__memory_watch **bucket = path ? bucket_of(space, path) : space->watches;
    bool any = false;
    for (size_t count = path ? 1 : ZKL__MEMORY_WATCH_BUCKETS; count > 0; count--, bucket++) {
        struct zkl__memory_watch **at = bucket;
        while (*at) {
            struct zkl__memory_watch *watch = *at;
            if (watch->store != store || watch->number <= after ||
                (path && strcmp(watch->path, path) != 0)) {
                at = &watch->next;
                continue;
            }
            *at = watch->next;
            any = true;
            zkl__free(&store->heap, watch);
        }
    }
    return any;
}

/* --- replies --------------------------------------------------------------------------------- */

struct zkl__memory_reply *zkl__memory_reply_new(struct zkl__store *store, uint64_t id, size_t room)
{
    struct zkl__memory_reply *reply = zkl__zalloc(&store->heap, sizeof *reply + room);
    if (reply) {
        reply->item.kind = ZKL__ITEM_REPLY;
        reply->id = id;
        reply->seen.number = store->numbers + 1;
    }
    return reply;
}

static struct zkl__reply reply_of(enum zkl__rc rc)
{
    return (struct zkl__reply){.rc = rc, .zk_code = zkl__store_code(rc)};
}

/* --- writes ---------------------------------------------------------------------------------- */

static const enum zkl__watch_event events[] = {[ZKL__OP_CREATE] = ZKL__WATCH_CREATED,
                                               [ZKL__OP_DELETE] = ZKL__WATCH_DELETED,
                                               [ZKL__OP_SET] = ZKL__WATCH_CHANGED};

/* Applies the writes of a valid op, all or none. parts: what each replies, with names in the room
 * behind them. The rc of the first that fails; ZKL__RC_UNSENT: no memory, and nothing was done. */
static enum zkl__rc apply_all(struct zkl__store *store, const struct zkl__op *ops, size_t count,
                              bool multi, struct zkl__memory_change *changes,
                              struct zkl__reply *parts, enum zkl__rc refused)
{
    struct zkl__memory_space *space = store->space;
    char *room = (char *)(parts + count);
    enum zkl__rc rc = refused;
    size_t applied = 0;
    zkl__memory_begin(&space->tree); /* a failed write is a transaction, too */
    while (rc == ZKL__RC_OK && applied < count) {
        struct zkl__memory_change *change = &changes[applied];
        struct zkl__reply *part = &parts[applied];
        bool create = ops[applied].kind == ZKL__OP_CREATE;
        rc = zkl__memory_apply(change, &space->tree, &store->who, &ops[applied]);
        if (rc == ZKL__RC_OK) {
            part->name = create ? zkl__text_put(&room, zkl__memory_base(change->node->path)) : NULL;
            if (create ? !multi : ops[applied].kind == ZKL__OP_SET) {
                zkl__memory_stat(&part->stat, change->node);
            }
            applied++;
        }
    }
    for (size_t i = applied; rc != ZKL__RC_OK && i > 0; i--) {
        zkl__memory_settle(&changes[i - 1], &space->tree, false);
    }
    for (size_t i = 0; i < count; i++) {
        if (rc != ZKL__RC_OK) {
            /* Before the part that failed, the server's error record says 0. */
            parts[i] = reply_of(i == applied ? rc : ZKL__RC_ROLLEDBACK);
            parts[i].zk_code = i < applied ? 0 : parts[i].zk_code;
        } else if (changes[i].node) {
            fire(space, events[ops[i].kind], changes[i].node);
            zkl__memory_settle(&changes[i], &space->tree, true);
        }
    }
    return rc;
}

/* One write, or all of a multi. A multi has the code of the part that failed. */
static struct zkl__memory_reply *perform_write(struct zkl__store *store, uint64_t id,
                                               const struct zkl__op *op, enum zkl__rc refused)
{
    bool multi = op->kind == ZKL__OP_MULTI;
    const struct zkl__op *ops = multi ? op->parts : op;
    size_t count = multi ? op->part_count : 1, size = count * sizeof(struct zkl__reply);
    for (size_t i = 0; i < count; i++) {
        /* For the name that it makes, its digits and a NUL. */
        size += strlen(ops[i].name ? ops[i].name : ops[i].dir) + ZKL__MEMORY_DIGITS + 1;
    }
    struct zkl__memory_reply *reply = zkl__memory_reply_new(store, id, size);
    struct zkl__memory_change *changes = zkl__alloc(&store->heap, count * sizeof *changes);
    enum zkl__rc rc = ZKL__RC_UNSENT;
    if (reply && changes) {
        struct zkl__reply *parts = (struct zkl__reply *)reply->room;
        rc = apply_all(store, ops, count, multi, changes, parts, refused);
        reply->reply = multi ? reply_of(rc) : parts[0];
        reply->reply.parts = multi ? parts : NULL;
        reply->reply.part_count = multi ? count : 0;
    }
    zkl__free(&store->heap, changes);
    if (rc == ZKL__RC_UNSENT) {
        zkl__free(&store->heap, reply);
        return NULL;
    }
    return reply;
}

/* --- reads ----------------------------------------------------------------------------------- */

static enum zkl__rc check_read(const struct zkl__store *store, const struct zkl__op *op,
                               const struct zkl__memory_node *node)
{
    if (!node) {
        return ZKL__RC_NONODE;
    }
    bool needed = op->kind != ZKL__OP_EXISTS || store->space->rules == ZKL__RULES_EXISTS_NEEDS_READ;
    bool permitted = !needed || zkl__memory_permits(node, &store->who, ZKL_PERM_READ);
    return permitted ? ZKL__RC_OK : ZKL__RC_NOAUTH;
}

static size_t read_size(const struct zkl__op *op, const struct zkl__memory_node *node)
{
    size_t size = op->kind == ZKL__OP_GET ? (size_t)node->stat.data_size : 0;
    if (op->kind == ZKL__OP_CHILDREN) {
        ZKL__EACH (const struct zkl__memory_node, child, &node->children, sibling) {
            size += sizeof(char *) + strlen(zkl__memory_base(child->path)) + 1;
        }
    }
    return size;
}

static void answer_read(struct zkl__memory_reply *reply, const struct zkl__op *op,
                        const struct zkl__memory_node *node)
{
    struct zkl__reply *out = &reply->reply;
    zkl__memory_stat(&out->stat, node);
    if (op->kind == ZKL__OP_CHILDREN) {
        const char **names = (const char **)reply->room;
        char *end = (char *)(names + node->stat.child_count);
        ZKL__EACH (const struct zkl__memory_node, child, &node->children, sibling) {
            names[out->child_count++] = zkl__text_put(&end, zkl__memory_base(child->path));
        }
        out->children = names;
    } else if (op->kind == ZKL__OP_GET && node->data) {
        out->size = (size_t)node->stat.data_size;
        out->data = memcpy(reply->room, node->data, out->size);
    }
}

/* A watch stays where the client keeps one: on success, and for `exists` also where there is
 * nothing yet. */
static struct zkl__memory_reply *perform_read(struct zkl__store *store, uint64_t id,
                                              const struct zkl__op *op)
{
    char path[ZKL__STORE_PATH];
    zkl__store_path(path, op);
    const struct zkl__memory_node *node = zkl__memory_find(&store->space->tree, path);
    enum zkl__rc rc = check_read(store, op, node);
    bool watched = op->watch && (rc == ZKL__RC_OK || (op->kind == ZKL__OP_EXISTS && !node));
    size_t room = rc == ZKL__RC_OK ? read_size(op, node) : 0;
    struct zkl__memory_watch *watch = watched ? watch_new(store, path, op->kind) : NULL;
    struct zkl__memory_reply *reply = zkl__memory_reply_new(store, id, room);
    if (!reply || (watched && !watch)) {
        zkl__free(&store->heap, watch);
        zkl__free(&store->heap, reply);
        return NULL;
    }
    reply->reply = reply_of(rc);
    if (rc == ZKL__RC_OK) {
        answer_read(reply, op, node);
    }
    if (watch) {
        watch->absent = !node;
        watch->number = reply->seen.number;
        zkl__memory_arm(watch);
    }
    return reply;
}

/* An unwatch; or a sync, which has nothing to wait for. */
static struct zkl__memory_reply *perform_other(struct zkl__store *store, uint64_t id,
                                               const struct zkl__op *op)
{
    char path[ZKL__STORE_PATH];
    struct zkl__memory_reply *reply = zkl__memory_reply_new(store, id, 0);
    zkl__store_path(path, op);
    if (reply && op->kind == ZKL__OP_UNWATCH && !zkl__memory_discard_watches(store, path, 0)) {
        reply->reply = reply_of(ZKL__RC_NOWATCH);
    }
    return reply;
}

struct zkl__memory_reply *zkl__memory_perform(struct zkl__store *store, uint64_t id,
                                              const struct zkl__op *op, enum zkl__rc refused)
{
    switch (op->kind) {
    case ZKL__OP_CHILDREN:
    case ZKL__OP_GET:
    case ZKL__OP_EXISTS:
        return perform_read(store, id, op);
    case ZKL__OP_SYNC:
    case ZKL__OP_UNWATCH:
        return perform_other(store, id, op);
    default:
        return perform_write(store, id, op, refused);
    }
}

/* --- transactions of the server's own -------------------------------------------------------- */

/* Deletes the nodes of a session that ends, or the empty containers (ContainerManager): a container
 * is deleted if it ever had a child; one that this empties is deleted the next time. */
static void delete_nodes(struct zkl__memory_space *space, int64_t owner)
{
    struct zkl__memory_tree *tree = &space->tree;
    int64_t began = tree->zxid;
    bool containers = owner == ZKL__MEMORY_CONTAINER_OWNER;
    for (size_t i = 0; i < tree->nodes.bucket_count; i++) {
        for (struct zkl__map_entry *entry = tree->nodes.buckets[i], *next; entry; entry = next) {
            struct zkl__memory_node *node = (struct zkl__memory_node *)entry;
            bool used = node->creates > 0 && !node->children.first && node->stat.pzxid <= began;
            next = entry->next;
            if (node->stat.ephemeral_owner == owner && (used || !containers)) {
                tree->zxid += containers;
                zkl__memory_take_out(tree, node);
                fire(space, ZKL__WATCH_DELETED, node);
                zkl__memory_node_free(tree, node);
            }
        }
    }
}

void zkl__memory_end(struct zkl__store *store)
{
    store->ended = true;
    zkl__memory_discard_watches(store, NULL, 0);
    store->space->tree.zxid++;
    delete_nodes(store->space, store->who.session_id);
}

void zkl__memory_sweep(struct zkl__memory_space *space)
{
    delete_nodes(space, ZKL__MEMORY_CONTAINER_OWNER);
}
