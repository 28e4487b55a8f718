/* Operations of the in-process store. All memory is taken before anything is changed. */
#include "memory_session.h"
#include "memory_acl.h"

#include <string.h>

/* --- valid ops ------------------------------------------------------------------------------- */

static bool path_valid(const struct zkl__op *op)
{
    char path[ZKL__MEMORY_PATH];
    return zkl__memory_path(path, op) && (op->size == 0 || op->data);
}

/* The C client aborts on the answer to a container made in a multi, so the port has none. */
static bool parts_valid(const struct zkl__op *op)
{
    for (size_t i = 0; i < op->part_count; i++) {
        const struct zkl__op *part = &op->parts[i];
        bool kind = part->kind == ZKL__OP_CREATE || part->kind == ZKL__OP_DELETE ||
                    part->kind == ZKL__OP_SET || part->kind == ZKL__OP_CHECK;
        if (!kind || !path_valid(part) ||
            (part->kind == ZKL__OP_CREATE && part->mode == ZKL__CONTAINER)) {
            return false;
        }
    }
    return op->part_count == 0 || op->parts;
}

bool zkl__memory_op_valid(const struct zkl__op *op)
{
    if (op->kind == ZKL__OP_MULTI) {
        return parts_valid(op);
    }
    return op->kind > ZKL__OP_NONE && op->kind <= ZKL__OP_UNWATCH && path_valid(op);
}

/* About what the request takes on the wire. */
size_t zkl__memory_op_size(const struct zkl__op *op)
{
    size_t size =
        op->size + (op->dir ? strlen(op->dir) : 0) + (op->name ? strlen(op->name) : 0) + 64;
    for (size_t i = 0; op->kind == ZKL__OP_MULTI && i < op->part_count; i++) {
        size += zkl__memory_op_size(&op->parts[i]);
    }
    return size;
}

/* --- replies --------------------------------------------------------------------------------- */

static int zk_code_of(enum zkl__rc rc)
{
    static const int codes[] = {
        [ZKL__RC_NONODE] = -101,          [ZKL__RC_NODEEXISTS] = -110, [ZKL__RC_NOTEMPTY] = -111,
        [ZKL__RC_BADVERSION] = -103,      [ZKL__RC_NOAUTH] = -102,     [ZKL__RC_INVALIDACL] = -114,
        [ZKL__RC_EPHEMERALPARENT] = -108, [ZKL__RC_NOWATCH] = -121,    [ZKL__RC_ROLLEDBACK] = -2,
        [ZKL__RC_REFUSED] = -8,           [ZKL__RC_QUOTA] = -125,      [ZKL__RC_LOCAL] = -120,
        [ZKL__RC_UNIMPLEMENTED] = -6,
    };
    return (size_t)rc < sizeof codes / sizeof *codes ? codes[rc] : 0;
}

static void answer(struct zkl__reply *reply, enum zkl__rc rc)
{
    reply->rc = rc;
    reply->zk_code = zk_code_of(rc);
}

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

/* --- writes ---------------------------------------------------------------------------------- */

static void fire_change(struct zkl__memory_space *space, const struct zkl__memory_change *change)
{
    const struct zkl__memory_node *node = change->node;
    if (change->op->kind == ZKL__OP_CREATE) {
        zkl__memory_fire(space, ZKL__WATCH_CREATED, node);
    } else if (change->op->kind == ZKL__OP_DELETE) {
        zkl__memory_fire(space, ZKL__WATCH_DELETED, node);
    } else if (change->op->kind == ZKL__OP_SET) {
        zkl__memory_fire(space, ZKL__WATCH_CHANGED, node);
    }
}

static int prepare_all(struct zkl__memory_space *space, const struct zkl__memory_who *who,
                       const struct zkl__op *ops, size_t count, struct zkl__memory_change *changes)
{
    for (size_t i = 0; i < count; i++) {
        int code = zkl__memory_prepare(&changes[i], &space->tree, who, &ops[i]);
        if (code != ZKL_OK) {
            while (i > 0) {
                zkl__memory_drop(&changes[--i], &space->tree);
            }
            return code;
        }
    }
    return ZKL_OK;
}

static void roll_back(struct zkl__memory_space *space, size_t failed, size_t count,
                      struct zkl__memory_change *changes)
{
    for (size_t i = failed; i > 0; i--) {
        zkl__memory_undo(&changes[i - 1], &space->tree);
    }
    for (size_t i = 0; i < count; i++) {
        changes[i].rc = i == failed ? changes[i].rc : ZKL__RC_ROLLEDBACK;
    }
}

int zkl__memory_write(struct zkl__memory_space *space, const struct zkl__memory_who *who,
                      const struct zkl__op *ops, size_t count, struct zkl__memory_change *changes)
{
    int code = prepare_all(space, who, ops, count, changes);
    if (code != ZKL_OK) {
        return code;
    }
    space->tree.zxid++; /* a failed write is a transaction, too */
    for (size_t i = 0; i < count; i++) {
        zkl__memory_apply(&changes[i], &space->tree, who);
        if (changes[i].rc != ZKL__RC_OK) {
            roll_back(space, i, count, changes);
            return ZKL_OK;
        }
    }
    for (size_t i = 0; i < count; i++) {
        fire_change(space, &changes[i]);
    }
    return ZKL_OK;
}

static void drop_all(struct zkl__memory_space *space, struct zkl__memory_change *changes,
                     size_t count)
{
    for (size_t i = 0; i < count; i++) {
        zkl__memory_drop(&changes[i], &space->tree);
    }
}

/* Room for the name that a create answers. */
static size_t name_room(const struct zkl__op *op)
{
    return op->kind == ZKL__OP_CREATE
               ? strlen(op->name ? op->name : op->dir) + ZKL__MEMORY_DIGITS + 1
               : 0;
}

static const char *put_name(char **room, const char *path)
{
    const char *base = zkl__memory_base(path);
    size_t size = strlen(base) + 1;
    char *at = memcpy(*room, base, size);
    *room += size;
    return at;
}

static void answer_write(struct zkl__reply *reply, char **room,
                         const struct zkl__memory_change *change)
{
    answer(reply, change->rc);
    if (change->rc == ZKL__RC_OK && change->op->kind == ZKL__OP_CREATE) {
        reply->name = put_name(room, change->node->path);
    } else if (change->rc == ZKL__RC_OK && change->op->kind == ZKL__OP_SET) {
        reply->stat = change->after;
    }
}

static int perform_one(struct zkl__memory_reply **out, struct zkl__store *store, uint64_t id,
                       const struct zkl__op *op)
{
    struct zkl__memory_change change;
    struct zkl__memory_reply *reply = zkl__memory_reply_new(store, id, name_room(op));
    int code = reply ? zkl__memory_write(store->space, &store->who, op, 1, &change) : ZKL_ENOMEM;
    if (code != ZKL_OK) {
        zkl__free(&store->heap, reply);
        return code;
    }
    char *room = reply->room;
    answer_write(&reply->reply, &room, &change);
    if (change.rc == ZKL__RC_OK && op->kind == ZKL__OP_CREATE) {
        zkl__memory_stat(&reply->reply.stat, change.node);
    }
    zkl__memory_drop(&change, &store->space->tree);
    *out = reply;
    return ZKL_OK;
}

static void answer_multi(struct zkl__memory_reply *reply, const struct zkl__op *op,
                         const struct zkl__memory_change *changes)
{
    struct zkl__reply *parts = (struct zkl__reply *)reply->room;
    char *room = (char *)(parts + op->part_count);
    memset(parts, 0, op->part_count * sizeof *parts);
    answer(&reply->reply, ZKL__RC_OK);
    for (size_t i = 0; i < op->part_count; i++) {
        answer_write(&parts[i], &room, &changes[i]);
        if (parts[i].rc != ZKL__RC_OK && parts[i].rc != ZKL__RC_ROLLEDBACK) {
            answer(&reply->reply, parts[i].rc);
        } else if (reply->reply.rc == ZKL__RC_OK) {
            parts[i].zk_code =
                0; /* before the part that failed, the server's error record says 0 */
        }
    }
    reply->reply.parts = parts;
    reply->reply.part_count = op->part_count;
}

static int perform_multi(struct zkl__memory_reply **out, struct zkl__store *store, uint64_t id,
                         const struct zkl__op *op)
{
    size_t room = op->part_count * sizeof(struct zkl__reply);
    for (size_t i = 0; i < op->part_count; i++) {
        room += name_room(&op->parts[i]);
    }
    struct zkl__memory_reply *reply = zkl__memory_reply_new(store, id, room);
    struct zkl__memory_change *changes =
        zkl__alloc(&store->heap, (op->part_count + 1) * sizeof *changes);
    int code = reply && changes ? zkl__memory_write(store->space, &store->who, op->parts,
                                                    op->part_count, changes)
                                : ZKL_ENOMEM;
    if (code == ZKL_OK) {
        answer_multi(reply, op, changes);
        drop_all(store->space, changes, op->part_count);
        *out = reply;
    } else {
        zkl__free(&store->heap, reply);
    }
    zkl__free(&store->heap, changes);
    return code;
}

bool zkl__memory_writes(const struct zkl__op *op)
{
    return op->kind == ZKL__OP_CREATE || op->kind == ZKL__OP_DELETE || op->kind == ZKL__OP_SET ||
           op->kind == ZKL__OP_MULTI;
}

bool zkl__memory_creates(const struct zkl__op *op)
{
    bool creates = op->kind == ZKL__OP_CREATE;
    for (size_t i = 0; op->kind == ZKL__OP_MULTI && i < op->part_count; i++) {
        creates = creates || op->parts[i].kind == ZKL__OP_CREATE;
    }
    return creates;
}

/* A multi as the server refuses it: its first part, and so all others. */
int zkl__memory_refused(struct zkl__memory_reply **out, struct zkl__store *store, uint64_t id,
                        const struct zkl__op *op)
{
    size_t count = op->kind == ZKL__OP_MULTI ? op->part_count : 0;
    struct zkl__memory_reply *reply =
        zkl__memory_reply_new(store, id, count * sizeof(struct zkl__reply));
    if (!reply) {
        return ZKL_ENOMEM;
    }
    struct zkl__reply *parts = (struct zkl__reply *)reply->room;
    memset(parts, 0, count * sizeof *parts);
    for (size_t i = 0; i < count; i++) {
        answer(&parts[i], i == 0 ? store->refusal : ZKL__RC_ROLLEDBACK);
    }
    answer(&reply->reply, store->refusal);
    reply->reply.parts = count > 0 ? parts : NULL;
    reply->reply.part_count = count;
    store->space->tree.zxid++; /* a transaction that failed is one, too */
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
    bool permitted = !needed || zkl__memory_acl_permits(node->acl, &store->who.ids, ZKL_PERM_READ);
    return permitted ? ZKL__RC_OK : ZKL__RC_NOAUTH;
}

static size_t children_room(const struct zkl__memory_node *node)
{
    size_t room = 0;
    for (const struct zkl__memory_node *child = node->children; child; child = child->right) {
        room += sizeof(char *) + strlen(zkl__memory_base(child->path)) + 1;
    }
    return room;
}

static void answer_children(struct zkl__memory_reply *reply, const struct zkl__memory_node *node)
{
    const char **names = (const char **)reply->room;
    size_t count = (size_t)node->stat.child_count;
    char *room = (char *)(names + count);
    const struct zkl__memory_node *child = node->children;
    for (size_t i = 0; i < count; i++, child = child->right) {
        names[i] = put_name(&room, child->path);
    }
    reply->reply.children = names;
    reply->reply.child_count = count;
}

static void answer_data(struct zkl__memory_reply *reply, const struct zkl__memory_node *node)
{
    reply->reply.size = (size_t)node->stat.data_size;
    if (reply->reply.size > 0) {
        reply->reply.data = memcpy(reply->room, node->data, reply->reply.size);
    }
}

static void answer_read(struct zkl__memory_reply *reply, const struct zkl__op *op,
                        const struct zkl__memory_node *node)
{
    zkl__memory_stat(&reply->reply.stat, node);
    if (op->kind == ZKL__OP_CHILDREN) {
        answer_children(reply, node);
    } else if (op->kind == ZKL__OP_GET) {
        answer_data(reply, node);
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
        zkl__memory_arm(watch);
    } else {
        zkl__free(&watch->store->heap, watch);
    }
}

static int perform_read(struct zkl__memory_reply **out, struct zkl__store *store, uint64_t id,
                        const struct zkl__op *op)
{
    char path[ZKL__MEMORY_PATH];
    zkl__memory_path(path, op);
    const struct zkl__memory_node *node = zkl__memory_find(&store->space->tree, path);
    enum zkl__rc rc = check_read(store, op, node);
    size_t room = rc != ZKL__RC_OK               ? 0
                  : op->kind == ZKL__OP_CHILDREN ? children_room(node)
                  : op->kind == ZKL__OP_GET      ? (size_t)node->stat.data_size
                                                 : 0;
    enum zkl__memory_table table =
        op->kind == ZKL__OP_CHILDREN ? ZKL__WATCHES_CHILD : ZKL__WATCHES_DATA;
    struct zkl__memory_watch *watch = op->watch ? zkl__memory_watch_new(store, path, table) : NULL;
    struct zkl__memory_reply *reply = zkl__memory_reply_new(store, id, room);
    if (!reply || (op->watch && !watch)) {
        zkl__free(&store->heap, watch);
        zkl__free(&store->heap, reply);
        return ZKL_ENOMEM;
    }
    answer(&reply->reply, rc);
    if (rc == ZKL__RC_OK) {
        answer_read(reply, op, node);
    }
    if (watch) {
        settle_watch(watch, reply, op->kind);
    }
    *out = reply;
    return ZKL_OK;
}

static int perform_other(struct zkl__memory_reply **out, struct zkl__store *store, uint64_t id,
                         const struct zkl__op *op)
{
    struct zkl__memory_reply *reply = zkl__memory_reply_new(store, id, 0);
    if (!reply) {
        return ZKL_ENOMEM;
    }
    if (op->kind == ZKL__OP_UNWATCH) {
        char path[ZKL__MEMORY_PATH];
        zkl__memory_path(path, op);
        answer(&reply->reply, zkl__memory_disarm(store, path) ? ZKL__RC_OK : ZKL__RC_NOWATCH);
    }
    *out = reply;
    return ZKL_OK;
}

int zkl__memory_perform(struct zkl__memory_reply **out, struct zkl__store *store, uint64_t id,
                        const struct zkl__op *op)
{
    switch (op->kind) {
    case ZKL__OP_CREATE:
    case ZKL__OP_DELETE:
    case ZKL__OP_SET:
    case ZKL__OP_CHECK:
        return perform_one(out, store, id, op);
    case ZKL__OP_MULTI:
        return perform_multi(out, store, id, op);
    case ZKL__OP_CHILDREN:
    case ZKL__OP_GET:
    case ZKL__OP_EXISTS:
        return perform_read(out, store, id, op);
    default:
        return perform_other(out, store, id, op);
    }
}

/* --- transactions of the server's own -------------------------------------------------------- */

static void remove_node(struct zkl__memory_space *space, struct zkl__memory_node *node)
{
    zkl__memory_take_out(&space->tree, node);
    zkl__memory_fire(space, ZKL__WATCH_DELETED, node);
    zkl__memory_node_free(&space->tree, node);
}

void zkl__memory_end(struct zkl__store *store)
{
    struct zkl__memory_tree *tree = &store->space->tree;
    store->ended = true;
    zkl__memory_disarm(store, NULL);
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
                           node->creates > 0 && !node->children;
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
