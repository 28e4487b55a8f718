#include "memory_tree.h"
#include "acl.h"
#include "name.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* --- access lists: world, auth, digest ------------------------------------------------------- */

char *zkl__memory_identity(const zkl_heap *heap, const void *auth, size_t size)
{
    char *identity = zkl__alloc(heap, size + ZKL__DIGEST_ROOM);
    if (identity) {
        zkl__digest_identity(identity, auth, size);
    }
    return identity;
}

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
static bool is_valid(const zkl_acl *acl, const struct zkl__memory_who *who)
{
    bool valid = acl->count > 0;
    for (size_t i = 0; i < acl->count && valid; i++) {
        const zkl_acl_entry *entry = &acl->entries[i];
        valid = (is_world(entry) || (strcmp(entry->scheme, "auth") == 0 && who->auth) ||
                 (strcmp(entry->scheme, "digest") == 0 && is_digest_id(entry->id)));
    }
    return valid;
}

/* As it is stored: entries of scheme "auth" become the session's identity. NULL: no memory. */
static zkl_acl *resolve(const zkl_heap *heap, const zkl_acl *acl, const struct zkl__memory_who *who)
{
    zkl_acl_entry *entries = zkl__alloc(heap, acl->count * sizeof *entries);
    if (!entries) {
        return NULL;
    }
    for (size_t i = 0; i < acl->count; i++) {
        entries[i] = acl->entries[i];
        if (strcmp(entries[i].scheme, "auth") == 0) {
            entries[i] = (zkl_acl_entry){entries[i].perms, "digest", who->auth};
        }
    }
    zkl_acl *copy = zkl__acl_copy(heap, &(zkl_acl){acl->count, entries});
    zkl__free(heap, entries);
    return copy;
}

static bool names(const zkl_acl_entry *entry, const char *identity)
{
    return identity && strcmp(entry->scheme, "digest") == 0 && strcmp(entry->id, identity) == 0;
}

bool zkl__memory_permits(const struct zkl__memory_node *node, const struct zkl__memory_who *who,
                         int perm)
{
    bool permitted = !node->acl;
    for (size_t i = 0; node->acl && i < node->acl->count && !permitted; i++) {
        const zkl_acl_entry *entry = &node->acl->entries[i];
        permitted = (entry->perms & perm) != 0 && (is_world(entry) || names(entry, who->auth));
    }
    return permitted;
}

/* --- nodes ----------------------------------------------------------------------------------- */

struct zkl__memory_node *zkl__memory_find(const struct zkl__memory_tree *tree, const char *path)
{
    return (struct zkl__memory_node *)zkl__map_find(&tree->nodes, path);
}

static struct zkl__memory_node *find_parent(const struct zkl__memory_tree *tree, const char *path)
{
    char parent[ZKL__STORE_PATH + ZKL__MEMORY_DIGITS];
    memcpy(parent, path, strlen(path) + 1);
    return zkl__path_shorten(parent) ? zkl__memory_find(tree, parent) : tree->root;
}

const char *zkl__memory_base(const char *path)
{
    return strrchr(path, '/') + 1;
}

/* As DataNode.copyStat shows a node: "cversion" counts creates and deletes of children, worked out
 * from the creates that the server keeps; a container has no owner. */
void zkl__memory_stat(struct zkl__stat *out, const struct zkl__memory_node *node)
{
    *out = node->stat;
    out->cversion = (int32_t)(2u * (uint32_t)node->creates - (uint32_t)node->stat.child_count);
    if (out->ephemeral_owner == ZKL__MEMORY_CONTAINER_OWNER) {
        out->ephemeral_owner = 0;
    }
}

/* NULL: no memory. */
static struct zkl__memory_node *node_new(const struct zkl__memory_tree *tree, const char *path)
{
    size_t size = strlen(path) + 1;
    struct zkl__memory_node *node = zkl__zalloc(&tree->heap, sizeof *node + size);
    if (node) {
        node->entry.path = memcpy(node->path, path, size);
        node->parent = find_parent(tree, path); /* NULL: it is the root */
    }
    return node;
}

void zkl__memory_node_free(const struct zkl__memory_tree *tree, struct zkl__memory_node *node)
{
    zkl__free(&tree->heap, node->acl);
    zkl__free(&tree->heap, node->data);
    zkl__free(&tree->heap, node);
}

/* A server lists children in no order. Newest first here, so that nobody comes to rely on one. */
static void link_in(struct zkl__memory_tree *tree, struct zkl__memory_node *node)
{
    zkl__map_add(&tree->nodes, &node->entry);
    if (node->parent) {
        zkl__list_prepend(&node->parent->children, &node->sibling);
        node->parent->stat.child_count++;
    }
}

static void link_out(struct zkl__memory_tree *tree, struct zkl__memory_node *node)
{
    zkl__map_remove(&tree->nodes, &node->entry);
    zkl__list_remove(&node->parent->children, &node->sibling);
    node->parent->stat.child_count--;
}

void zkl__memory_take_out(struct zkl__memory_tree *tree, struct zkl__memory_node *node)
{
    assert(!node->children.first);
    link_out(tree, node);
    node->parent->stat.pzxid = tree->zxid;
}

bool zkl__memory_tree_init(struct zkl__memory_tree *tree, const zkl_heap *heap, int64_t zxid)
{
    static const char *const own[] = {"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"};
    static const zkl_acl_entry read = {ZKL_PERM_READ, "world", "anyone"};
    static const zkl_acl read_only = {1, &read};
    struct zkl__memory_node *node = NULL;
    memset(tree, 0, sizeof *tree);
    tree->heap = *heap;
    tree->zxid = zxid;
    if (!zkl__map_init(&tree->nodes, &tree->heap)) {
        return false;
    }
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        node = node_new(tree, own[i]);
        if (!node) {
            return false;
        }
        node->own = true;
        link_in(tree, node);
        tree->root = tree->root ? tree->root : node;
    }
    /* Nobody may write the configuration (ZooDefs.Ids.READ_ACL_UNSAFE). */
    node->acl = zkl__acl_copy(heap, &read_only);
    return node->acl != NULL;
}

void zkl__memory_tree_deinit(struct zkl__memory_tree *tree)
{
    for (size_t i = 0; tree->nodes.buckets && i < tree->nodes.bucket_count; i++) {
        for (struct zkl__map_entry *entry = tree->nodes.buckets[i], *next; entry; entry = next) {
            next = entry->next;
            zkl__memory_node_free(tree, (struct zkl__memory_node *)entry);
        }
    }
    zkl__map_deinit(&tree->nodes);
}

/* --- writes ---------------------------------------------------------------------------------- */

static bool other_version(const struct zkl__memory_node *node, int32_t version)
{
    return version != -1 && version != node->stat.version;
}

static bool is_ephemeral(const struct zkl__memory_node *node)
{
    return node->stat.ephemeral_owner != 0 &&
           node->stat.ephemeral_owner != ZKL__MEMORY_CONTAINER_OWNER;
}

static int64_t owner_of(const struct zkl__op *op, const struct zkl__memory_who *who)
{
    bool ephemeral = op->mode == ZKL__EPHEMERAL || op->mode == ZKL__EPHEMERAL_SEQUENTIAL;
    return ephemeral                    ? who->session_id
           : op->mode == ZKL__CONTAINER ? ZKL__MEMORY_CONTAINER_OWNER
                                        : 0;
}

/* The order of checks is that of PrepRequestProcessor.pRequest2TxnCreate. A sequential path gets
 * its digits. */
static enum zkl__rc check_create(const struct zkl__memory_tree *tree,
                                 const struct zkl__memory_who *who, const struct zkl__op *op,
                                 const zkl_acl *acl, char *path)
{
    const struct zkl__memory_node *parent = find_parent(tree, path);
    if (acl && !is_valid(acl, who)) {
        return ZKL__RC_INVALIDACL;
    }
    if (!parent) {
        return ZKL__RC_NONODE;
    }
    if (!zkl__memory_permits(parent, who, ZKL_PERM_CREATE)) {
        return ZKL__RC_NOAUTH;
    }
    if (zkl__store_is_sequential(op)) {
        snprintf(path + strlen(path), ZKL__MEMORY_DIGITS + 1, "%010d", parent->creates);
    }
    if (zkl__memory_find(tree, path)) {
        return ZKL__RC_NODEEXISTS;
    }
    return is_ephemeral(parent) ? ZKL__RC_EPHEMERALPARENT : ZKL__RC_OK;
}

static enum zkl__rc apply_create(struct zkl__memory_change *change, struct zkl__memory_tree *tree,
                                 const struct zkl__memory_who *who, char *path)
{
    const struct zkl__op *op = change->op;
    const zkl_acl *acl = op->acl ? op->acl : who->acl;
    enum zkl__rc rc = check_create(tree, who, op, acl, path);
    if (rc != ZKL__RC_OK) {
        return rc;
    }
    struct zkl__memory_node *node = node_new(tree, path);
    if (!node) {
        return ZKL__RC_UNSENT;
    }
    node->acl = acl ? resolve(&tree->heap, acl, who) : NULL;
    node->data = zkl__copy(&tree->heap, op->data, op->size);
    if ((acl && !node->acl) || !node->data) {
        zkl__memory_node_free(tree, node);
        return ZKL__RC_UNSENT;
    }
    struct zkl__memory_node *parent = node->parent;
    change->node = node;
    change->old_creates = parent->creates;
    change->old_stat = parent->stat;
    node->stat.data_size = (int32_t)op->size;
    node->stat.czxid = node->stat.mzxid = node->stat.pzxid = tree->zxid;
    node->stat.ctime_ms = node->stat.mtime_ms = tree->time_ms;
    node->stat.ephemeral_owner = owner_of(op, who);
    link_in(tree, node);
    /* DataTree.createNode takes over a larger cversion only, so the counter sticks at its end, and
     * pzxid with it. */
    if (parent->creates < INT32_MAX) {
        parent->creates++;
        parent->stat.pzxid = tree->zxid;
    }
    return ZKL__RC_OK;
}

/* A delete is permitted by the parent's list, not by the node's own. */
static enum zkl__rc apply_delete(struct zkl__memory_change *change, struct zkl__memory_tree *tree,
                                 const struct zkl__memory_who *who, const char *path)
{
    struct zkl__memory_node *node = zkl__memory_find(tree, path);
    if (node && node->own) {
        return ZKL__RC_REFUSED;
    }
    const struct zkl__memory_node *parent = find_parent(tree, path);
    if (parent && !zkl__memory_permits(parent, who, ZKL_PERM_DELETE)) {
        return ZKL__RC_NOAUTH;
    }
    if (!node) {
        return ZKL__RC_NONODE;
    }
    if (other_version(node, change->op->version)) {
        return ZKL__RC_BADVERSION;
    }
    if (node->children.first) {
        return ZKL__RC_NOTEMPTY;
    }
    change->node = node;
    change->old_creates = node->parent->creates;
    change->old_stat = node->parent->stat;
    zkl__memory_take_out(tree, node);
    return ZKL__RC_OK;
}

/* A set, or the check that comes before it. */
static enum zkl__rc apply_set(struct zkl__memory_change *change, struct zkl__memory_tree *tree,
                              const struct zkl__memory_who *who, const char *path)
{
    const struct zkl__op *op = change->op;
    bool set = op->kind == ZKL__OP_SET;
    struct zkl__memory_node *node = zkl__memory_find(tree, path);
    if (!node) {
        return ZKL__RC_NONODE;
    }
    if (!zkl__memory_permits(node, who, set ? ZKL_PERM_WRITE : ZKL_PERM_READ)) {
        return ZKL__RC_NOAUTH;
    }
    if (other_version(node, op->version)) {
        return ZKL__RC_BADVERSION;
    }
    if (!set) {
        return ZKL__RC_OK;
    }
    void *data = zkl__copy(&tree->heap, op->data, op->size);
    if (!data) {
        return ZKL__RC_UNSENT;
    }
    change->node = node;
    change->old_stat = node->stat;
    change->old_data = node->data;
    node->data = data;
    node->stat.data_size = (int32_t)op->size;
    node->stat.version = (int32_t)((uint32_t)node->stat.version + 1);
    node->stat.mzxid = tree->zxid;
    node->stat.mtime_ms = tree->time_ms;
    return ZKL__RC_OK;
}

void zkl__memory_begin(struct zkl__memory_tree *tree)
{
    tree->zxid++;
    tree->time_ms = zkl__store_now(CLOCK_REALTIME) / 1000000;
}

enum zkl__rc zkl__memory_apply(struct zkl__memory_change *change, struct zkl__memory_tree *tree,
                               const struct zkl__memory_who *who, const struct zkl__op *op)
{
    char path[ZKL__STORE_PATH + ZKL__MEMORY_DIGITS];
    *change = (struct zkl__memory_change){.op = op};
    zkl__store_path(path, op);
    return op->kind == ZKL__OP_CREATE   ? apply_create(change, tree, who, path)
           : op->kind == ZKL__OP_DELETE ? apply_delete(change, tree, who, path)
                                        : apply_set(change, tree, who, path);
}

void zkl__memory_settle(struct zkl__memory_change *change, struct zkl__memory_tree *tree, bool keep)
{
    struct zkl__memory_node *node = change->node;
    if (!node) {
        return;
    }
    if (change->op->kind == ZKL__OP_SET) {
        void *unused = keep ? change->old_data : node->data;
        node->data = keep ? node->data : change->old_data;
        node->stat = keep ? node->stat : change->old_stat;
        zkl__free(&tree->heap, unused);
        return;
    }
    bool created = change->op->kind == ZKL__OP_CREATE;
    if (!keep) {
        (created ? link_out : link_in)(tree, node);
        node->parent->creates = change->old_creates;
        node->parent->stat = change->old_stat;
    }
    if (created != keep) {
        zkl__memory_node_free(tree, node);
    }
}
