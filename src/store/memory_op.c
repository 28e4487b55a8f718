/* Operations of the in-process store, and the watches that they set and fire. */
#include "memory_session.h"
#include "path.h"

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
                                           enum zkl__memory_table table)
{
    size_t size = strlen(path) + 1;
    struct zkl__memory_watch *watch = zkl__zalloc(&store->heap, sizeof *watch + size);
    if (watch) {
        watch->item.kind = ZKL__TELL_WATCH;
        watch->store = store;
        watch->table = table;
        memcpy(watch->path, path, size);
    }
    return watch;
}

static void arm(struct zkl__memory_watch *watch)
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

static void tell(struct zkl__memory_watch *watch, enum zkl__watch_event event)
{
    watch->next = NULL;
    watch->event = event;
    zkl__memory_tell(watch->store, &watch->item);
}

/* The last thing put to the session is that this path is deleted. */
static bool just_told(const struct zkl__store *store, const char *path)
{
    const struct zkl__memory_watch *last = (const struct zkl__memory_watch *)store->queue.last;
    return last && last->item.kind == ZKL__TELL_WATCH && last->event == ZKL__WATCH_DELETED &&
           strcmp(last->path, path) == 0;
}

/* A watch that fires on a node which its session may not read is used up without a word
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
        if (watch->table != table || strcmp(watch->path, node->path) != 0) {
            at = &watch->next;
            continue;
        }
        *at = watch->next;
        bool again = table == ZKL__WATCHES_CHILD && event == ZKL__WATCH_DELETED &&
                     just_told(watch->store, node->path);
        if (again || !may_know(watch, node)) {
            zkl__free(&watch->store->heap, watch);
        } else {
            tell(watch, event);
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

/* Takes the session's watches out of one bucket and gives each to then(). */
static bool each_of(struct zkl__memory_watch **at, const struct zkl__store *store, const char *path,
                    void (*then)(struct zkl__memory_watch *watch))
{
    bool any = false;
    while (*at) {
        struct zkl__memory_watch *watch = *at;
        if (watch->store != store || (path && strcmp(watch->path, path) != 0)) {
            at = &watch->next;
            continue;
        }
        *at = watch->next;
        any = true;
        then(watch);
    }
    return any;
}

static void discard(struct zkl__memory_watch *watch)
{
    zkl__free(&watch->store->heap, watch);
}

/* The session's armed watches, of path or (NULL) of all paths; false: there was none. */
static bool each_armed(struct zkl__store *store, const char *path,
                       void (*then)(struct zkl__memory_watch *watch))
{
    if (path) {
        return each_of(bucket_of(store->space, path), store, path, then);
    }
    bool any = false;
    for (size_t i = 0; i < ZKL__MEMORY_WATCH_BUCKETS; i++) {
        any |= each_of(&store->space->watches[i], store, NULL, then);
    }
    return any;
}

/* A client registers a watch when the reply comes: "a lost reply = no watch". */
void zkl__memory_take_back(struct zkl__memory_watch *watch)
{
    struct zkl__store *store = watch->store;
    if (watch->number > store->sure_number) {
        discard(watch);
        return;
    }
    watch->next = store->aside;
    store->aside = watch;
}

void zkl__memory_lay_aside(struct zkl__store *store)
{
    each_armed(store, NULL, zkl__memory_take_back);
}

/* What DataTree.setWatches makes of a watch, given the zxid of the last reply that the client saw.
 */
static bool missed(const struct zkl__memory_watch *watch, enum zkl__watch_event *event)
{
    const struct zkl__memory_node *node = zkl__memory_find(&watch->store->space->tree, watch->path);
    int64_t seen = watch->store->sure_zxid;
    if (watch->absent) {
        *event = ZKL__WATCH_CREATED;
        return node != NULL;
    }
    if (!node) {
        *event = ZKL__WATCH_DELETED;
        return true;
    }
    *event = watch->table == ZKL__WATCHES_CHILD ? ZKL__WATCH_CHILDREN : ZKL__WATCH_CHANGED;
    return (watch->table == ZKL__WATCHES_CHILD ? node->stat.pzxid : node->stat.mzxid) > seen;
}

void zkl__memory_rearm(struct zkl__store *store)
{
    while (store->aside) {
        struct zkl__memory_watch *watch = store->aside;
        enum zkl__watch_event event;
        store->aside = watch->next;
        if (!missed(watch, &event)) {
            arm(watch);
            continue;
        }
        if (event == ZKL__WATCH_DELETED) {
            /* The client drops its other watches of the path with the first notice. */
            each_of(&store->aside, store, watch->path, discard);
        }
        tell(watch, event);
    }
}

void zkl__memory_forget_aside(struct zkl__store *store)
{
    each_of(&store->aside, store, NULL, discard);
}

/* --- replies --------------------------------------------------------------------------------- */

struct zkl__memory_reply *zkl__memory_reply_new(struct zkl__store *store, uint64_t id, size_t room)
{
    struct zkl__memory_reply *reply = zkl__alloc(&store->heap, sizeof *reply + room);
    if (reply) {
        memset(reply, 0, sizeof *reply);
        reply->item.kind = ZKL__TELL_REPLY;
        reply->id = id;
        reply->number = store->numbers + 1;
    }
    return reply;
}

static void set_rc(struct zkl__reply *reply, enum zkl__rc rc)
{
    *reply = (struct zkl__reply){.rc = rc, .zk_code = zkl__store_code(rc)};
}

/* --- writes ---------------------------------------------------------------------------------- */

static void fire_change(struct zkl__memory_space *space, const struct zkl__memory_change *change)
{
    if (change->applied) {
        fire(space,
             change->op->kind == ZKL__OP_CREATE   ? ZKL__WATCH_CREATED
             : change->op->kind == ZKL__OP_DELETE ? ZKL__WATCH_DELETED
                                                  : ZKL__WATCH_CHANGED,
             change->node);
    }
}

/* The part at failed has failed, and so all others: before it, the server's error record says 0. */
static void fail_others(struct zkl__reply *replies, size_t count, size_t failed)
{
    for (size_t i = 0; i < count; i++) {
        if (i != failed) {
            set_rc(&replies[i], ZKL__RC_ROLLEDBACK);
            replies[i].zk_code = i < failed ? 0 : replies[i].zk_code;
        }
    }
}

/* A created part of a multi answers its name alone. A multi has the code of the part that failed.
 */
static void answer_write(struct zkl__reply *reply, struct zkl__reply *parts,
                         const struct zkl__op *ops, size_t count, bool multi)
{
    if (!multi) {
        *reply = parts[0];
        return;
    }
    set_rc(reply, ZKL__RC_OK);
    for (size_t i = 0; i < count; i++) {
        if (ops[i].kind == ZKL__OP_CREATE) {
            memset(&parts[i].stat, 0, sizeof parts[i].stat);
        }
        if (parts[i].rc != ZKL__RC_OK && parts[i].rc != ZKL__RC_ROLLEDBACK) {
            set_rc(reply, parts[i].rc);
        }
    }
    reply->parts = parts;
    reply->part_count = count;
}

/* Takes the first count changes back. */
static void roll_back(struct zkl__memory_space *space, struct zkl__memory_change *changes,
                      size_t count)
{
    while (count > 0) {
        zkl__memory_undo(&changes[--count], &space->tree);
        zkl__memory_drop(&changes[count], &space->tree);
    }
}

int zkl__memory_write(struct zkl__memory_space *space, const struct zkl__memory_who *who,
                      const struct zkl__op *ops, size_t count, struct zkl__memory_change *changes,
                      struct zkl__reply *replies, char **room)
{
    space->tree.zxid++; /* a failed write is a transaction, too */
    for (size_t i = 0; i < count; i++) {
        struct zkl__memory_change *change = &changes[i];
        if (zkl__memory_apply(change, &space->tree, who, &ops[i]) != ZKL_OK) {
            roll_back(space, changes, i);
            space->tree.zxid--;
            return ZKL_ENOMEM;
        }
        set_rc(&replies[i], change->rc);
        if (change->rc != ZKL__RC_OK) {
            roll_back(space, changes, i);
            fail_others(replies, count, i);
            return ZKL_OK;
        }
        if (ops[i].kind == ZKL__OP_CREATE) {
            replies[i].name = zkl__text_put(room, zkl__memory_base(change->node->path));
        }
        if (ops[i].kind == ZKL__OP_CREATE || ops[i].kind == ZKL__OP_SET) {
            zkl__memory_stat(&replies[i].stat, change->node);
        }
    }
    for (size_t i = 0; i < count; i++) {
        fire_change(space, &changes[i]);
    }
    for (size_t i = 0; i < count; i++) {
        zkl__memory_drop(&changes[i], &space->tree);
    }
    return ZKL_OK;
}

/* One write, or all of a multi. */
static int perform_write(struct zkl__memory_reply **out, struct zkl__store *store, uint64_t id,
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
    struct zkl__memory_change *changes = zkl__alloc(&store->heap, (count + 1) * sizeof *changes);
    int code = reply && changes ? ZKL_OK : ZKL_ENOMEM;
    if (code == ZKL_OK) {
        struct zkl__reply *parts = (struct zkl__reply *)reply->room;
        char *room = (char *)(parts + count);
        if (refused == ZKL__RC_OK) {
            code = zkl__memory_write(store->space, &store->who, ops, count, changes, parts, &room);
        } else {
            store->space->tree.zxid++; /* a transaction that failed is one, too */
            set_rc(&parts[0], refused);
            fail_others(parts, count, 0);
        }
        if (code == ZKL_OK) {
            answer_write(&reply->reply, parts, ops, count, multi);
        }
    }
    zkl__free(&store->heap, changes);
    if (code != ZKL_OK) {
        zkl__free(&store->heap, reply);
        return code;
    }
    *out = reply;
    return ZKL_OK;
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
        for (const struct zkl__link *child = node->children.first; child; child = child->next) {
            const char *path = ((const struct zkl__memory_node *)child)->path;
            size += sizeof(char *) + strlen(zkl__memory_base(path)) + 1;
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
        for (const struct zkl__link *child = node->children.first; child; child = child->next) {
            const char *path = ((const struct zkl__memory_node *)child)->path;
            names[out->child_count++] = zkl__text_put(&end, zkl__memory_base(path));
        }
        out->children = names;
    } else if (op->kind == ZKL__OP_GET && node->data) {
        out->size = (size_t)node->stat.data_size;
        out->data = memcpy(reply->room, node->data, out->size);
    }
}

/* A watch stays where the client keeps one: on success, and for `exists` also where there is
 * nothing yet. */
static void settle_watch(struct zkl__memory_watch *watch, const struct zkl__memory_reply *reply,
                         enum zkl__op_kind kind)
{
    enum zkl__rc rc = reply->reply.rc;
    watch->absent = rc == ZKL__RC_NONODE;
    watch->number = reply->number;
    if (rc == ZKL__RC_OK || (kind == ZKL__OP_EXISTS && watch->absent)) {
        arm(watch);
    } else {
        zkl__free(&watch->store->heap, watch);
    }
}

static int perform_read(struct zkl__memory_reply **out, struct zkl__store *store, uint64_t id,
                        const struct zkl__op *op)
{
    char path[ZKL__STORE_PATH];
    zkl__store_path(path, op);
    const struct zkl__memory_node *node = zkl__memory_find(&store->space->tree, path);
    enum zkl__rc rc = check_read(store, op, node);
    size_t room = rc == ZKL__RC_OK ? read_size(op, node) : 0;
    enum zkl__memory_table table =
        op->kind == ZKL__OP_CHILDREN ? ZKL__WATCHES_CHILD : ZKL__WATCHES_DATA;
    struct zkl__memory_watch *watch = op->watch ? watch_new(store, path, table) : NULL;
    struct zkl__memory_reply *reply = zkl__memory_reply_new(store, id, room);
    if (!reply || (op->watch && !watch)) {
        zkl__free(&store->heap, watch);
        zkl__free(&store->heap, reply);
        return ZKL_ENOMEM;
    }
    set_rc(&reply->reply, rc);
    if (rc == ZKL__RC_OK) {
        answer_read(reply, op, node);
    }
    if (watch) {
        settle_watch(watch, reply, op->kind);
    }
    *out = reply;
    return ZKL_OK;
}

static int perform_unwatch(struct zkl__memory_reply **out, struct zkl__store *store, uint64_t id,
                           const struct zkl__op *op)
{
    char path[ZKL__STORE_PATH];
    *out = zkl__memory_reply_new(store, id, 0);
    if (!*out) {
        return ZKL_ENOMEM;
    }
    zkl__store_path(path, op);
    set_rc(&(*out)->reply, each_armed(store, path, discard) ? ZKL__RC_OK : ZKL__RC_NOWATCH);
    return ZKL_OK;
}

int zkl__memory_perform(struct zkl__memory_reply **out, struct zkl__store *store, uint64_t id,
                        const struct zkl__op *op, enum zkl__rc refused)
{
    switch (op->kind) {
    case ZKL__OP_CREATE:
    case ZKL__OP_DELETE:
    case ZKL__OP_SET:
    case ZKL__OP_CHECK:
    case ZKL__OP_MULTI:
        return perform_write(out, store, id, op, refused);
    case ZKL__OP_CHILDREN:
    case ZKL__OP_GET:
    case ZKL__OP_EXISTS:
        return perform_read(out, store, id, op);
    case ZKL__OP_UNWATCH:
        return perform_unwatch(out, store, id, op);
    default: /* a sync has nothing to wait for */
        *out = zkl__memory_reply_new(store, id, 0);
        return *out ? ZKL_OK : ZKL_ENOMEM;
    }
}

/* --- transactions of the server's own -------------------------------------------------------- */

static void remove_node(struct zkl__memory_space *space, struct zkl__memory_node *node)
{
    zkl__memory_take_out(&space->tree, node);
    fire(space, ZKL__WATCH_DELETED, node);
    zkl__memory_node_free(&space->tree, node);
}

void zkl__memory_end(struct zkl__store *store)
{
    struct zkl__memory_tree *tree = &store->space->tree;
    store->ended = true;
    each_armed(store, NULL, discard);
    tree->zxid++;
    for (size_t i = 0; i < ZKL__MEMORY_BUCKETS; i++) {
        for (struct zkl__memory_node *node = tree->buckets[i], *next; node; node = next) {
            next = node->next;
            if (node->stat.ephemeral_owner == store->who.session_id) {
                remove_node(store->space, node);
            }
        }
    }
}

/* ContainerManager: an empty container goes once it ever had a child. Looked for first, removed
 * then, so that a container in a container takes two sweeps. */
void zkl__memory_sweep(struct zkl__memory_space *space)
{
    for (size_t i = 0; i < ZKL__MEMORY_BUCKETS; i++) {
        for (struct zkl__memory_node *node = space->tree.buckets[i]; node; node = node->next) {
            node->doomed = node->stat.ephemeral_owner == ZKL__MEMORY_CONTAINER_OWNER &&
                           node->creates > 0 && !node->children.first;
        }
    }
    for (size_t i = 0; i < ZKL__MEMORY_BUCKETS; i++) {
        for (struct zkl__memory_node *node = space->tree.buckets[i], *next; node; node = next) {
            next = node->next;
            if (node->doomed) {
                space->tree.zxid++;
                remove_node(space, node);
            }
        }
    }
}
