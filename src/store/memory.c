/* memory.c - the in-process store: the tree, the operations on it and the watches that they set and
 * fire; spaces by name, sessions, and the events that each gets.
 *
 * "memory:NAME" opens a session with the tree of that name, which all sessions of the process
 * share. A tree lives from the first session's open until the last one is closed: then all its
 * znodes are deleted, persistent ones too. Its memory comes from the heap of the session that made
 * it, which must therefore outlive the others; tests give all of them the same one. zxids never
 * restart within a process, so a fencing token rises across trees of one name, too.
 *
 * It responds as a standalone ZooKeeper 3.8 does, with the same order of checks. These are all
 * differences:
 *  - sessions end by close or by zkl__memory_expire only; the requested timeout is granted (100 ms
 *    at least);
 *  - the schemes of access lists are world, auth and digest; every other one is
 *    ZKL__RC_INVALIDACL. There is no quota;
 *  - the characters of a path are not checked (the core has), its form is;
 *  - a counter at its end sticks, as the server's does when no create is under way at that moment;
 *    names below zero, which the server gives to creates that wait in its pipeline just then,
 *    never come;
 *  - while a connection is suspended, submit returns ZKL_ECONNECT; nothing waits for the
 *    reconnect. */
#include "memory_store.h"

#include <stdio.h>
#include <string.h>

#define SWEEP_NS (60 * INT64_C(1000000000)) /* znode.container.checkIntervalMs of the server */
#define LEAST_TIMEOUT_MS 100
enum { DIGITS = 11 }; /* "-2147483648" */

/* --- access lists: world, auth, digest ------------------------------------------------------- */

static bool is_world(const zkl_acl_entry *entry)
{
    return strcmp(entry->scheme, "world") == 0 && strcmp(entry->id, "anyone") == 0;
}

/* "user:hash", as DigestAuthenticationProvider.isValid has it: two pieces when split at colons,
 * empty ones at the end not counted. */
static bool is_digest_id(const char *id)
{
    size_t length = strlen(id), colons = 0;
    while (length > 0 && id[length - 1] == ':') {
        length--;
    }
    for (size_t i = 0; i < length; i++) {
        colons += id[i] == ':';
    }
    return colons == 1;
}

/* Whether a server takes the list from this session: not empty, known schemes only. */
static bool is_valid(const zkl_acl *acl, const struct zkl__store *store)
{
    bool valid = acl->count > 0;
    for (size_t i = 0; i < acl->count && valid; i++) {
        const zkl_acl_entry *entry = &acl->entries[i];
        valid = (is_world(entry) || (strcmp(entry->scheme, "auth") == 0 && store->auth) ||
                 (strcmp(entry->scheme, "digest") == 0 && is_digest_id(entry->id)));
    }
    return valid;
}

/* A known scheme that is not "world" has an identity: entries of scheme "auth" that of the session
 * which made the node. */
static bool permits(const struct zkl__memory_node *node, const struct zkl__store *store, int perm)
{
    bool permitted = !node->acl;
    for (size_t i = 0; node->acl && i < node->acl->count && !permitted; i++) {
        const zkl_acl_entry *entry = &node->acl->entries[i];
        const char *identity = strcmp(entry->scheme, "auth") == 0 ? node->auth : entry->id;
        bool named = store->auth && strcmp(identity, store->auth) == 0;
        permitted = (entry->perms & perm) != 0 && (is_world(entry) || named);
    }
    return permitted;
}

/* --- nodes ----------------------------------------------------------------------------------- */

struct zkl__memory_node *zkl__memory_find(const struct zkl__memory_space *space, const char *path)
{
    return (struct zkl__memory_node *)zkl__map_find(&space->nodes, path);
}

static struct zkl__memory_node *find_parent(const struct zkl__memory_space *space, const char *path)
{
    char parent[ZKL__STORE_PATH + DIGITS];
    memcpy(parent, path, strlen(path) + 1);
    return zkl__memory_find(space, zkl__path_shorten(parent) ? parent : "/");
}

static const char *base_of(const struct zkl__memory_node *node)
{
    return strrchr(node->path, '/') + 1;
}

/* As DataNode.copyStat shows a node: "cversion" counts creates and deletes of children, worked out
 * from the creates that the server keeps; a container has no owner. */
static void show_stat(struct zkl__stat *out, const struct zkl__memory_node *node)
{
    *out = node->stat;
    out->cversion = (int32_t)(2u * (uint32_t)out->cversion - (uint32_t)out->child_count);
    if (out->ephemeral_owner == ZKL__MEMORY_CONTAINER_OWNER) {
        out->ephemeral_owner = 0;
    }
}

/* NULL: no memory. */
static struct zkl__memory_node *node_new(const struct zkl__memory_space *space, const char *path,
                                         struct zkl__memory_node *parent)
{
    size_t size = strlen(path) + 1;
    struct zkl__memory_node *node = zkl__zalloc(&space->heap, sizeof *node + size);
    if (node) {
        node->entry.path = memcpy(node->path, path, size);
        node->parent = parent; /* NULL: it is the root */
    }
    return node;
}

static void node_free(const struct zkl__memory_space *space, struct zkl__memory_node *node)
{
    zkl__free(&space->heap, node->acl);
    zkl__free(&space->heap, node->auth);
    zkl__free(&space->heap, node->data);
    zkl__free(&space->heap, node);
}

/* A server lists children in no order. Newest first here, so that nobody comes to rely on one. */
static void link_in(struct zkl__memory_space *space, struct zkl__memory_node *node)
{
    zkl__map_add(&space->nodes, &node->entry);
    if (node->parent) {
        zkl__list_prepend(&node->parent->children, &node->sibling);
        node->parent->stat.child_count++;
    }
}

static void link_out(struct zkl__memory_space *space, struct zkl__memory_node *node)
{
    zkl__map_remove(&space->nodes, &node->entry);
    zkl__list_remove(&node->parent->children, &node->sibling);
    node->parent->stat.child_count--;
    node->parent->stat.pzxid = space->zxid;
}

bool zkl__memory_space_init(struct zkl__memory_space *space, const zkl_heap *heap, int64_t zxid)
{
    static const char *const own[] = {"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"};
    static const zkl_acl_entry read = {ZKL_PERM_READ, "world", "anyone"};
    static const zkl_acl read_only = {1, &read};
    struct zkl__memory_node *node = NULL;
    space->heap = *heap;
    space->zxid = zxid;
    pthread_mutex_init(&space->mutex, NULL);
    if (!zkl__map_init(&space->nodes, &space->heap) ||
        !zkl__map_init(&space->watches, &space->heap)) {
        return false;
    }
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        node = node_new(space, own[i], find_parent(space, own[i]));
        if (!node) {
            return false;
        }
        node->own = true;
        link_in(space, node);
    }
    /* Nobody may write the configuration (ZooDefs.Ids.READ_ACL_UNSAFE). */
    node->acl = zkl__acl_copy(heap, &read_only);
    return node->acl != NULL;
}

void zkl__memory_space_deinit(struct zkl__memory_space *space)
{
    for (size_t i = 0; space->nodes.buckets && i < space->nodes.bucket_count; i++) {
        for (struct zkl__map_entry *entry = space->nodes.buckets[i], *next; entry; entry = next) {
            next = entry->next;
            node_free(space, (struct zkl__memory_node *)entry);
        }
    }
    zkl__map_deinit(&space->nodes);
    zkl__map_deinit(&space->watches);
    pthread_mutex_destroy(&space->mutex);
}

/* --- watches: one-shot, as the server keeps them and as the C client sets them again after a
 * reconnect ---------------------------------------------------------------------------------- */

/* The next one of its path from this entry on; NULL: there is none. */
static struct zkl__memory_watch *watch_from(const struct zkl__map_entry *entry, const char *path)
{
    while (entry && strcmp(entry->path, path) != 0) {
        entry = entry->next;
    }
    return ZKL__OWNER(entry, struct zkl__memory_watch, entry);
}

/* Frees an armed one without an event. */
static void forget(struct zkl__memory_watch *watch)
{
    zkl__map_remove(&watch->store->space->watches, &watch->entry);
    zkl__list_remove(&watch->store->watches, &watch->of_session);
    zkl__free(&watch->store->heap, watch);
}

/* Frees a watch that another one of its session makes unneeded. */
static void arm(struct zkl__memory_watch *watch)
{
    struct zkl__store *store = watch->store;
    struct zkl__map *map = &store->space->watches;
    struct zkl__memory_watch *other = watch_from(zkl__map_find(map, watch->path), watch->path);
    while (other && (other->store != store || other->table != watch->table)) {
        other = watch_from(other->entry.next, watch->path);
    }
    if (other) {
        zkl__free(&store->heap, watch);
        return;
    }
    zkl__map_add(map, &watch->entry);
    zkl__list_append(&store->watches, &watch->of_session);
}

void zkl__memory_fire(struct zkl__memory_watch *watch, enum zkl__watch_event event)
{
    struct zkl__store *store = watch->store;
    zkl__map_remove(&store->space->watches, &watch->entry);
    zkl__list_remove(&store->watches, &watch->of_session);
    watch->event = event;
    zkl__memory_enqueue(store, &watch->item);
}

static void trigger(struct zkl__memory_space *space, enum zkl__memory_table table,
                    enum zkl__watch_event event, const struct zkl__memory_node *node)
{
    struct zkl__map_entry *first = zkl__map_find(&space->watches, node->path);
    for (struct zkl__memory_watch *watch = watch_from(first, node->path), *next; watch;
         watch = next) {
        const struct zkl__store *store = watch->store;
        const struct zkl__memory_watch *last = (const struct zkl__memory_watch *)store->queue.last;
        next = watch_from(watch->entry.next, node->path);
        /* No server keeps the watches of a session without a connection. */
        if (watch->table != table || store->link_state == ZKL__LINK_DOWN) {
            continue;
        }
        /* The last thing put to the session is that this path is deleted. */
        bool again = table == ZKL__WATCHES_CHILD && event == ZKL__WATCH_DELETED && last &&
                     last->item.kind == ZKL__ITEM_WATCH && last->event == ZKL__WATCH_DELETED &&
                     strcmp(last->path, node->path) == 0;
        /* A watch that fires on a node which its session may not read is removed without an event
         * (WatchManager.triggerWatch). */
        bool may_know =
            space->rules == ZKL__RULES_NOTHING_NEEDS_READ || permits(node, store, ZKL_PERM_READ);
        if (again || !may_know) {
            forget(watch);
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

void zkl__memory_discard_watches(struct zkl__store *store, uint64_t after)
{
    ZKL__EACH_LEAVING (struct zkl__memory_watch, watch, &store->watches, of_session) {
        if (watch->number > after) {
            forget(watch);
        }
    }
}

bool zkl__memory_unwatch(struct zkl__store *store, const char *path)
{
    bool any = false;
    struct zkl__map_entry *first = zkl__map_find(&store->space->watches, path);
    for (struct zkl__memory_watch *watch = watch_from(first, path), *next; watch; watch = next) {
        next = watch_from(watch->entry.next, path);
        if (watch->store == store) {
            forget(watch);
            any = true;
        }
    }
    return any;
}

/* --- replies --------------------------------------------------------------------------------- */

struct zkl__memory_reply *zkl__memory_reply_new(struct zkl__store *store, size_t room)
{
    struct zkl__memory_reply *reply = zkl__zalloc(&store->heap, sizeof *reply + room);
    if (reply) {
        reply->item.kind = ZKL__ITEM_REPLY;
        reply->seen.number = store->numbers + 1;
    }
    return reply;
}

static struct zkl__reply reply_of(enum zkl__rc rc)
{
    return (struct zkl__reply){.rc = rc, .zk_code = zkl__store_code(rc)};
}

/* --- writes ---------------------------------------------------------------------------------- */

/* One of the writes, or a multi, which has at least one (a lone check is none). */
static bool writes(const struct zkl__op *op)
{
    return op->kind == ZKL__OP_CREATE || op->kind == ZKL__OP_DELETE || op->kind == ZKL__OP_SET ||
           op->kind == ZKL__OP_MULTI;
}

/* One write. It is applied, and then kept or undone. */
struct change {
    struct zkl__memory_node *node; /* the one made, set or taken out; NULL: nothing changed */
    struct zkl__stat old_stat;     /* of a set the node's, else its parent's */
    void *old_data;                /* of a set */
};

/* The order of checks is that of PrepRequestProcessor.pRequest2TxnCreate. A sequential path gets
 * its digits. */
static enum zkl__rc apply_create(struct change *change, struct zkl__store *store,
                                 const struct zkl__op *op, char *path)
{
    struct zkl__memory_space *space = store->space;
    const zkl_acl *acl = op->acl ? op->acl : store->acl;
    const char *auth = store->auth;
    bool ephemeral = op->mode == ZKL__EPHEMERAL || op->mode == ZKL__EPHEMERAL_SEQUENTIAL;
    struct zkl__memory_node *parent = find_parent(space, path);
    if (acl && !is_valid(acl, store)) {
        return ZKL__RC_INVALIDACL;
    }
    if (!parent) {
        return ZKL__RC_NONODE;
    }
    if (!permits(parent, store, ZKL_PERM_CREATE)) {
        return ZKL__RC_NOAUTH;
    }
    if (zkl__store_is_sequential(op)) {
        snprintf(path + strlen(path), DIGITS + 1, "%010d", parent->stat.cversion);
    }
    if (zkl__memory_find(space, path)) {
        return ZKL__RC_NODEEXISTS;
    }
    if (parent->stat.ephemeral_owner != 0 &&
        parent->stat.ephemeral_owner != ZKL__MEMORY_CONTAINER_OWNER) {
        return ZKL__RC_EPHEMERALPARENT;
    }
    struct zkl__memory_node *node = node_new(space, path, parent);
    if (!node) {
        return ZKL__RC_UNSENT;
    }
    node->acl = acl ? zkl__acl_copy(&space->heap, acl) : NULL;
    node->auth = auth ? zkl__copy_text(&space->heap, auth) : NULL;
    node->data = zkl__copy(&space->heap, op->data, op->size);
    if ((acl && !node->acl) || (auth && !node->auth) || !node->data) {
        node_free(space, node);
        return ZKL__RC_UNSENT;
    }
    *change = (struct change){node, parent->stat, NULL};
    node->stat.data_size = (int32_t)op->size;
    node->stat.czxid = node->stat.mzxid = node->stat.pzxid = space->zxid;
    node->stat.ctime_ms = node->stat.mtime_ms = space->time_ms;
    node->stat.ephemeral_owner = ephemeral                    ? store->session_id
                                 : op->mode == ZKL__CONTAINER ? ZKL__MEMORY_CONTAINER_OWNER
                                                              : 0;
    link_in(space, node);
    /* DataTree.createNode takes over a larger cversion only, so the counter sticks at its end, and
     * pzxid with it. */
    if (parent->stat.cversion < INT32_MAX) {
        parent->stat.cversion++;
        parent->stat.pzxid = space->zxid;
    }
    return ZKL__RC_OK;
}

/* A delete is permitted by the parent's list, not by the node's own. */
static enum zkl__rc apply_delete(struct change *change, struct zkl__store *store,
                                 const struct zkl__op *op, const char *path)
{
    struct zkl__memory_node *node = zkl__memory_find(store->space, path);
    struct zkl__memory_node *parent = find_parent(store->space, path);
    if (node && node->own) {
        return ZKL__RC_REFUSED;
    }
    if (parent && !permits(parent, store, ZKL_PERM_DELETE)) {
        return ZKL__RC_NOAUTH;
    }
    if (!node) {
        return ZKL__RC_NONODE;
    }
    if (op->version != -1 && op->version != node->stat.version) {
        return ZKL__RC_BADVERSION;
    }
    if (node->children.first) {
        return ZKL__RC_NOTEMPTY;
    }
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): only nodes of the server's own have none
    *change = (struct change){node, parent->stat, NULL};
    link_out(store->space, node);
    return ZKL__RC_OK;
}

/* A set, or the check that comes before it. */
static enum zkl__rc apply_set(struct change *change, struct zkl__store *store,
                              const struct zkl__op *op, const char *path)
{
    struct zkl__memory_space *space = store->space;
    bool set = op->kind == ZKL__OP_SET;
    struct zkl__memory_node *node = zkl__memory_find(space, path);
    if (!node) {
        return ZKL__RC_NONODE;
    }
    if (!permits(node, store, set ? ZKL_PERM_WRITE : ZKL_PERM_READ)) {
        return ZKL__RC_NOAUTH;
    }
    if (op->version != -1 && op->version != node->stat.version) {
        return ZKL__RC_BADVERSION;
    }
    if (!set) {
        return ZKL__RC_OK;
    }
    void *data = zkl__copy(&space->heap, op->data, op->size);
    if (!data) {
        return ZKL__RC_UNSENT;
    }
    *change = (struct change){node, node->stat, node->data};
    node->data = data;
    node->stat.data_size = (int32_t)op->size;
    node->stat.version = (int32_t)((uint32_t)node->stat.version + 1);
    node->stat.mzxid = space->zxid;
    node->stat.mtime_ms = space->time_ms;
    return ZKL__RC_OK;
}

/* One write, or all of a multi, or none of it: then it has the code of the part that failed. What
 * each part replies is in the reply's room, with the names behind. */
static struct zkl__memory_reply *perform_write(struct zkl__store *store, const struct zkl__op *op)
{
    static const enum zkl__watch_event events[] = {[ZKL__OP_CREATE] = ZKL__WATCH_CREATED,
                                                   [ZKL__OP_DELETE] = ZKL__WATCH_DELETED,
                                                   [ZKL__OP_SET] = ZKL__WATCH_CHANGED};
    struct zkl__memory_space *space = store->space;
    bool multi = op->kind == ZKL__OP_MULTI;
    bool refused = store->faults.refusals > 0 && writes(op);
    const struct zkl__op *ops = multi ? op->parts : op;
    size_t count = multi ? op->part_count : 1, size = count * sizeof(struct zkl__reply);
    size_t applied = 0;
    for (size_t i = 0; i < count; i++) {
        size += strlen(ops[i].name ? ops[i].name : ops[i].dir) + DIGITS + 1;
    }
    struct zkl__memory_reply *reply = zkl__memory_reply_new(store, size);
    struct change *changes = zkl__zalloc(&store->heap, count * sizeof *changes);
    if (!reply || !changes) {
        zkl__free(&store->heap, reply);
        zkl__free(&store->heap, changes);
        return NULL;
    }
    struct zkl__reply *parts = (struct zkl__reply *)reply->room;
    char *room = (char *)(parts + count);
    enum zkl__rc rc = refused ? store->faults.refusal : ZKL__RC_OK;
    store->faults.refusals -= refused;
    /* A failed write is a transaction, too; its parts are of one time (TxnHeader). */
    space->zxid++;
    space->time_ms = zkl__clock_read(CLOCK_REALTIME) / ZKL__MS;
    while (rc == ZKL__RC_OK && applied < count) {
        const struct zkl__op *each = &ops[applied];
        struct change *change = &changes[applied];
        struct zkl__reply *part = &parts[applied];
        bool create = each->kind == ZKL__OP_CREATE;
        char path[ZKL__STORE_PATH + DIGITS];
        zkl__store_path(path, each);
        rc = create                         ? apply_create(change, store, each, path)
             : each->kind == ZKL__OP_DELETE ? apply_delete(change, store, each, path)
                                            : apply_set(change, store, each, path);
        if (rc == ZKL__RC_OK) {
            part->name = create ? zkl__text_put(&room, base_of(change->node)) : NULL;
            if (create ? !multi : each->kind == ZKL__OP_SET) {
                show_stat(&part->stat, change->node);
            }
            applied++;
        }
    }
    for (size_t i = applied; rc != ZKL__RC_OK && i > 0; i--) {
        const struct change *change = &changes[i - 1];
        struct zkl__memory_node *node = change->node;
        if (!node) {
            continue;
        }
        if (ops[i - 1].kind == ZKL__OP_CREATE) {
            link_out(space, node);
            node->parent->stat = change->old_stat;
            node_free(space, node);
        } else if (ops[i - 1].kind == ZKL__OP_DELETE) {
            link_in(space, node);
            node->parent->stat = change->old_stat;
        } else {
            zkl__free(&space->heap, node->data);
            node->data = change->old_data;
            node->stat = change->old_stat;
        }
    }
    for (size_t i = 0; i < count; i++) {
        struct zkl__memory_node *node = changes[i].node;
        if (rc != ZKL__RC_OK) {
            /* Before the part that failed, the server's error record says 0. */
            parts[i] = reply_of(i == applied ? rc : ZKL__RC_ROLLEDBACK);
            parts[i].zk_code = i < applied ? 0 : parts[i].zk_code;
        } else if (node) {
            fire(space, events[ops[i].kind], node);
            zkl__free(&space->heap, changes[i].old_data);
            if (ops[i].kind == ZKL__OP_DELETE) {
                node_free(space, node);
            }
        }
    }
    zkl__free(&store->heap, changes);
    if (rc == ZKL__RC_UNSENT) {
        zkl__free(&store->heap, reply);
        return NULL;
    }
    reply->reply = multi ? reply_of(rc) : parts[0];
    reply->reply.parts = multi ? parts : NULL;
    reply->reply.part_count = multi ? count : 0;
    return reply;
}

/* --- reads ----------------------------------------------------------------------------------- */

/* A watch stays where the client keeps one: on success, and for `exists` also where there is
 * nothing yet. */
static struct zkl__memory_reply *perform_read(struct zkl__store *store, const struct zkl__op *op)
{
    char path[ZKL__STORE_PATH];
    zkl__store_path(path, op);
    const struct zkl__memory_space *space = store->space;
    const struct zkl__memory_node *node = zkl__memory_find(space, path);
    bool exists = op->kind == ZKL__OP_EXISTS, list = op->kind == ZKL__OP_CHILDREN;
    enum zkl__rc rc = node ? ZKL__RC_OK : ZKL__RC_NONODE;
    if (node && (!exists || space->rules == ZKL__RULES_EXISTS_NEEDS_READ) &&
        !permits(node, store, ZKL_PERM_READ)) {
        rc = ZKL__RC_NOAUTH;
    }
    size_t size = rc == ZKL__RC_OK && op->kind == ZKL__OP_GET ? (size_t)node->stat.data_size : 0;
    size_t room = size, path_size = strlen(path) + 1;
    if (rc == ZKL__RC_OK && list) {
        ZKL__EACH (const struct zkl__memory_node, child, &node->children, sibling) {
            room += sizeof(char *) + strlen(base_of(child)) + 1;
        }
    }
    bool watched = op->watch && (rc == ZKL__RC_OK || (exists && !node));
    struct zkl__memory_watch *watch = NULL;
    if (watched) {
        watch = zkl__zalloc(&store->heap, sizeof *watch + path_size);
    }
    struct zkl__memory_reply *reply = zkl__memory_reply_new(store, room);
    if (!reply || (watched && !watch)) {
        zkl__free(&store->heap, watch);
        zkl__free(&store->heap, reply);
        return NULL;
    }
    struct zkl__reply *out = &reply->reply;
    *out = reply_of(rc);
    if (rc == ZKL__RC_OK) {
        show_stat(&out->stat, node);
    }
    if (rc == ZKL__RC_OK && list) {
        const char **names = (const char **)reply->room;
        char *end = (char *)(names + node->stat.child_count);
        ZKL__EACH (const struct zkl__memory_node, child, &node->children, sibling) {
            names[out->child_count++] = zkl__text_put(&end, base_of(child));
        }
        out->children = names;
    } else if (size > 0) {
        out->size = size;
        out->data = memcpy(reply->room, node->data, size);
    }
    if (watch) {
        watch->item.kind = ZKL__ITEM_WATCH;
        watch->store = store;
        watch->table = list ? ZKL__WATCHES_CHILD : ZKL__WATCHES_DATA;
        watch->entry.path = memcpy(watch->path, path, path_size);
        watch->absent = !node;
        watch->number = reply->seen.number;
        arm(watch);
    }
    return reply;
}

struct zkl__memory_reply *zkl__memory_perform(struct zkl__store *store, const struct zkl__op *op)
{
    char path[ZKL__STORE_PATH];
    struct zkl__memory_reply *reply;
    switch (op->kind) {
    case ZKL__OP_CHILDREN:
    case ZKL__OP_GET:
    case ZKL__OP_EXISTS:
        return perform_read(store, op);
    case ZKL__OP_SYNC: /* has nothing to wait for */
        return zkl__memory_reply_new(store, 0);
    case ZKL__OP_UNWATCH:
        reply = zkl__memory_reply_new(store, 0);
        if (reply && !(zkl__store_path(path, op) && zkl__memory_unwatch(store, path))) {
            reply->reply = reply_of(ZKL__RC_NOWATCH);
        }
        return reply;
    default:
        return perform_write(store, op);
    }
}

/* --- transactions of the server's own -------------------------------------------------------- */

void zkl__memory_delete_nodes(struct zkl__memory_space *space, int64_t owner)
{
    int64_t began = space->zxid;
    bool containers = owner == ZKL__MEMORY_CONTAINER_OWNER;
    for (size_t i = 0; i < space->nodes.bucket_count; i++) {
        for (struct zkl__map_entry *entry = space->nodes.buckets[i], *next; entry; entry = next) {
            struct zkl__memory_node *node = (struct zkl__memory_node *)entry;
            bool used =
                node->stat.cversion > 0 && !node->children.first && node->stat.pzxid <= began;
            next = entry->next;
            if (node->stat.ephemeral_owner == owner && (used || !containers)) {
                space->zxid += containers;
                link_out(space, node);
                fire(space, ZKL__WATCH_DELETED, node);
                node_free(space, node);
            }
        }
    }
}

void zkl__memory_end(struct zkl__store *store)
{
    store->ended = true;
    zkl__memory_discard_watches(store, 0);
    store->space->zxid++;
    zkl__memory_delete_nodes(store->space, store->session_id);
}

/* --- events of a session --------------------------------------------------------------------- */

struct zkl__memory_notice *zkl__memory_notice_new(const struct zkl__store *store,
                                                  enum zkl__memory_item_kind kind)
{
    struct zkl__memory_notice *notice = zkl__zalloc(&store->heap, sizeof *notice);
    if (notice) {
        notice->item.kind = kind;
        notice->end = ZKL__END_EXPIRED;
        notice->connection.session_id = store->session_id;
        notice->connection.timeout_ms = store->timeout_ms;
    }
    return notice;
}

void zkl__memory_wake(struct zkl__store *store)
{
    if (store->alarms.started) {
        zkl__alarms_set(&store->alarms, &store->delivery, 0);
    }
}

void zkl__memory_enqueue(struct zkl__store *store, struct zkl__memory_item *item)
{
    zkl__list_append(store->faults.broken ? &store->faults.lost : &store->queue, &item->link);
    zkl__memory_wake(store);
}

static void free_items(const zkl_heap *heap, struct zkl__list *list)
{
    while (list->first) {
        struct zkl__link *item = list->first;
        zkl__list_remove(list, item);
        zkl__free(heap, item);
    }
}

/* A reply that a server sent, not one that was lost. */
static bool was_answered(const struct zkl__memory_item *item)
{
    return item->kind == ZKL__ITEM_REPLY &&
           ((const struct zkl__memory_reply *)item)->reply.rc != ZKL__RC_UNKNOWN;
}

bool zkl__memory_deliver_next(struct zkl__store *store)
{
    struct zkl__memory_item *item = (struct zkl__memory_item *)store->queue.first;
    if (!item || store->closing || store->held) {
        return false;
    }
    zkl__list_remove(&store->queue, &item->link);
    store->outstanding -= item->kind == ZKL__ITEM_REPLY;
    if (was_answered(item)) {
        store->told = ((struct zkl__memory_reply *)item)->seen;
    }
    pthread_mutex_unlock(&store->space->mutex);
    const struct zkl__memory_notice *notice = (const struct zkl__memory_notice *)item;
    const struct zkl__memory_reply *reply = (const struct zkl__memory_reply *)item;
    const struct zkl__memory_watch *watch = (const struct zkl__memory_watch *)item;
    switch (item->kind) {
    case ZKL__ITEM_CONNECTED:
        store->events.connected(store->ctx, &notice->connection);
        break;
    case ZKL__ITEM_SUSPENDED:
        store->events.suspended(store->ctx);
        break;
    case ZKL__ITEM_EXPIRED:
        store->events.expired(store->ctx, notice->end);
        break;
    case ZKL__ITEM_REPLY:
        store->events.reply(store->ctx, reply->id, &reply->reply);
        break;
    case ZKL__ITEM_WATCH:
        store->events.watch(store->ctx, watch->event, watch->path);
        break;
    }
    zkl__free(&store->heap, item);
    pthread_mutex_lock(&store->space->mutex);
    return true;
}

/* The alarm of each store: on a thread of its own, or in the loop. */
static void deliver(void *owner)
{
    while (zkl__memory_deliver_next(owner)) {
    }
}

/* --- lost connections ------------------------------------------------------------------------ */

void zkl__memory_go_down(struct zkl__store *store, struct zkl__memory_notice *suspension, bool all)
{
    struct zkl__list *queue = &store->queue, *lost = &store->faults.lost;
    struct zkl__link *at;
    while (all && (at = queue->last) &&
           ((struct zkl__memory_item *)at)->kind != ZKL__ITEM_CONNECTED) {
        zkl__list_remove(queue, at);
        zkl__list_prepend(lost, at);
    }
    store->sure = store->told;
    for (at = queue->first; at; at = at->next) {
        if (was_answered((struct zkl__memory_item *)at)) {
            store->sure = ((struct zkl__memory_reply *)at)->seen;
        }
    }
    store->link_state = ZKL__LINK_DOWN;
    store->held = store->faults.broken = false;
    store->faults.plan = (struct zkl__memory_plan){0};
    zkl__memory_discard_watches(store, store->sure.number);
    zkl__memory_enqueue(store, &suspension->item);
    while ((at = lost->first)) {
        struct zkl__memory_item *item = (struct zkl__memory_item *)at;
        zkl__list_remove(lost, at);
        if (item->kind == ZKL__ITEM_REPLY) {
            ((struct zkl__memory_reply *)item)->reply = (struct zkl__reply){.rc = ZKL__RC_UNKNOWN};
            zkl__memory_enqueue(store, item);
        } else {
            /* A watch that was fired and not told is armed again if the client knows of it, for a
             * client registers a watch when the reply comes. */
            struct zkl__memory_watch *watch = (struct zkl__memory_watch *)item;
            if (watch->number > store->sure.number) {
                zkl__free(&store->heap, watch);
            } else {
                arm(watch);
            }
        }
    }
}

struct zkl__memory_registry zkl__memory_registry = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void lock_registry(void)
{
    pthread_mutex_lock(&zkl__memory_registry.mutex);
}

static void unlock_registry(void)
{
    pthread_mutex_unlock(&zkl__memory_registry.mutex);
}

/* The trees are the parent's, with mutexes that its threads may hold. */
static void forget_spaces(void)
{
    zkl__memory_registry.spaces = (struct zkl__list){0};
    unlock_registry();
}

__attribute__((constructor)) static void begin_registry(void)
{
    pthread_atfork(lock_registry, unlock_registry, forget_spaces);
}

/* --- spaces ---------------------------------------------------------------------------------- */

static void space_free(struct zkl__memory_space *space)
{
    zkl_heap heap = space->heap;
    zkl__memory_space_deinit(space);
    zkl__free(&heap, space->servers);
    zkl__free(&heap, space);
}

struct zkl__memory_space *zkl__memory_find_space(const char *servers)
{
    ZKL__EACH (struct zkl__memory_space, space, &zkl__memory_registry.spaces, link) {
        if (strcmp(space->servers, servers) == 0) {
            return space;
        }
    }
    return NULL;
}

/* Sets store->space, unless there is no memory. */
static void space_join(struct zkl__store *store, const char *servers)
{
    lock_registry();
    struct zkl__memory_space *space = zkl__memory_find_space(servers);
    if (!space && (space = zkl__zalloc(&store->heap, sizeof *space))) {
        space->servers = zkl__copy_text(&store->heap, servers);
        if (zkl__memory_space_init(space, &store->heap, zkl__memory_registry.zxid) &&
            space->servers) {
            zkl__list_append(&zkl__memory_registry.spaces, &space->link);
        } else {
            space_free(space);
            space = NULL;
        }
    }
    if (space) {
        pthread_mutex_lock(&space->mutex);
        store->session_id = (INT64_C(1) << 48) + ++zkl__memory_registry.sessions;
        store->space = space;
        zkl__list_append(&space->sessions, &store->link);
        space->zxid++;
        pthread_mutex_unlock(&space->mutex);
    }
    unlock_registry();
}

/* --- open and close -------------------------------------------------------------------------- */

static void store_free(struct zkl__store *store)
{
    struct zkl__memory_space *space = store->space;
    zkl_heap heap = store->heap;
    if (space) {
        zkl__alarms_stop(&store->alarms);
        zkl__alarms_join(&store->alarms);
        lock_registry();
        pthread_mutex_lock(&space->mutex);
        zkl__list_remove(&space->sessions, &store->link);
        bool last = !space->sessions.first;
        if (last) {
            zkl__list_remove(&zkl__memory_registry.spaces, &space->link);
            if (space->zxid > zkl__memory_registry.zxid) {
                zkl__memory_registry.zxid = space->zxid;
            }
        }
        pthread_mutex_unlock(&space->mutex);
        unlock_registry();
        if (last) {
            space_free(space);
        }
    }
    free_items(&heap, &store->queue);
    free_items(&heap, &store->faults.lost);
    zkl__free(&heap, store->auth);
    zkl__free(&heap, store);
}

static int memory_open(struct zkl__store **out, const struct zkl__store_config *config,
                       const struct zkl__store_events *events, void *ctx, zkl_error *err)
{
    struct zkl__store *store = zkl__zalloc(&config->heap, sizeof *store);
    int64_t timeout_ms = config->timeout_ms;
    int code = ZKL_ENOMEM;
    bool digest = config->auth_scheme && strcmp(config->auth_scheme, "digest") == 0;
    if (store) {
        store->heap = config->heap;
        store->events = *events;
        store->ctx = ctx;
        store->timeout_ms = timeout_ms > LEAST_TIMEOUT_MS ? timeout_ms : LEAST_TIMEOUT_MS;
        if (digest &&
            (store->auth = zkl__alloc(&store->heap, config->auth_size + ZKL__DIGEST_ROOM))) {
            zkl__digest_identity(store->auth, config->auth, config->auth_size);
        }
        store->acl = config->acl ? config->acl : store->auth ? &zkl__store_creator_only : NULL;
        if (store->auth || !digest) {
            space_join(store, config->servers);
        }
    }
    if (store && store->space) {
        /* A scheme that the server does not know ends the session, as there. */
        bool refused = config->auth_scheme && !digest;
        struct zkl__memory_notice *hello = zkl__memory_notice_new(store, ZKL__ITEM_CONNECTED);
        struct zkl__memory_notice *refusal =
            refused ? zkl__memory_notice_new(store, ZKL__ITEM_EXPIRED) : NULL;
        store->delivery = (struct zkl__alarm){.ring = deliver, .owner = store};
        code = zkl__alarms_start(&store->alarms, &store->space->mutex);
        code = hello && (refusal || !refused) ? code : ZKL_ENOMEM;
        pthread_mutex_lock(&store->space->mutex); /* its id is known already */
        if (hello) {
            hello->connection.fresh = true;
            hello->connection.began_ns = zkl__clock_now();
            zkl__memory_enqueue(store, &hello->item);
        }
        if (refusal) {
            refusal->end = ZKL__END_AUTH;
            zkl__memory_enqueue(store, &refusal->item);
            store->link_state = ZKL__LINK_OVER;
            store->ended = true;
        }
        *out = code == ZKL_OK ? store : NULL;
        store->closing = code != ZKL_OK;
        pthread_mutex_unlock(&store->space->mutex);
    }
    if (code == ZKL_OK) {
        return ZKL_OK;
    }
    if (store) {
        store_free(store);
    }
    return zkl__fail_at(err, code, NULL, "%s: %s", config->servers,
                        code == ZKL_ELIMIT ? "no thread or no descriptor for it" : "out of memory");
}

static int memory_close(struct zkl__store *store, int64_t timeout_ms, int64_t *again_ms)
{
    (void)timeout_ms, (void)again_ms; /* nothing here takes time but a callback under way, which is
                         waited for in any case */
    pthread_mutex_lock(&store->space->mutex);
    bool unreachable = store->link_state == ZKL__LINK_DOWN && !store->ended;
    if (!store->ended) {
        zkl__memory_end(store);
    }
    store->link_state = ZKL__LINK_OVER;
    store->closing = true;
    pthread_mutex_unlock(&store->space->mutex);
    store_free(store);
    return unreachable ? ZKL_ECONNECT : ZKL_OK;
}

/* --- operations ------------------------------------------------------------------------------ */

int zkl__memory_take_reply(struct zkl__store *store, uint64_t id, struct zkl__memory_reply *reply)
{
    if (!reply) {
        return ZKL_ENOMEM;
    }
    reply->id = id;
    reply->seen.zxid = store->space->zxid;
    store->numbers++;
    store->outstanding++;
    zkl__memory_enqueue(store, &reply->item);
    return ZKL_OK;
}

/* Carries it out, or whatever else is planned for it. */
static int accept(struct zkl__store *store, uint64_t id, const struct zkl__op *op)
{
    struct zkl__memory_faults *faults = &store->faults;
    struct zkl__memory_plan *plan = &faults->plan;
    /* How many more operations of this one's fate the plan has; NULL: it says nothing of this one.
     */
    size_t *left = &plan->lost;
    if (plan->whole > 0) {
        left = &plan->whole;
    } else if (plan->half > 0) {
        left = &plan->half;
    }
    if (*left == 0 || (plan->write && !writes(op))) {
        left = NULL;
    }
    bool last = left && plan->whole + plan->half + plan->lost == 1;
    bool was_broken = faults->broken;
    struct zkl__memory_notice *suspension =
        last ? zkl__memory_notice_new(store, ZKL__ITEM_SUSPENDED) : NULL;
    struct zkl__memory_reply *reply = NULL;
    faults->broken = was_broken || (left && left != &plan->whole);
    if (suspension || !last) {
        reply =
            left == &plan->lost ? zkl__memory_reply_new(store, 0) : zkl__memory_perform(store, op);
    }
    if (zkl__memory_take_reply(store, id, reply) != ZKL_OK) {
        faults->broken = was_broken;
        zkl__free(&store->heap, suspension);
        return ZKL_ENOMEM;
    }
    if (left) {
        --*left;
    }
    if (last) {
        zkl__memory_go_down(store, suspension, false);
    }
    return ZKL_OK;
}

static int memory_submit(struct zkl__store *store, uint64_t id, const struct zkl__op *op)
{
    int code = zkl__store_check(op, 0);
    if (code != ZKL_OK) {
        return code;
    }
    pthread_mutex_lock(&store->space->mutex);
    if (store->link_state != ZKL__LINK_UP) {
        code = ZKL_ECONNECT;
    } else if (store->outstanding >= zkl__store_memory.ops_max) {
        code = ZKL_ELIMIT;
    } else {
        code = accept(store, id, op);
    }
    pthread_mutex_unlock(&store->space->mutex);
    return code;
}

static int64_t memory_tick(struct zkl__store *store, int64_t now_ns)
{
    struct zkl__memory_space *space = store->space;
    pthread_mutex_lock(&space->mutex);
    if (now_ns >= space->sweep_ns) {
        if (space->sweep_ns != 0) {
            zkl__memory_delete_nodes(space, ZKL__MEMORY_CONTAINER_OWNER);
        }
        space->sweep_ns = now_ns + SWEEP_NS;
    }
    int64_t next = space->sweep_ns;
    pthread_mutex_unlock(&space->mutex);
    return next;
}

const struct zkl__store_ops zkl__store_memory = {
    .watch_bytes_max = 700000,
    .ops_max = 10000,
    .open = memory_open,
    .submit = memory_submit,
    .tick = memory_tick,
    .close = memory_close,
};
