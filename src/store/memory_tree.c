#include "memory_tree.h"
#include "path.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* FNV-1a. */
uint32_t zkl__memory_hash(const char *path, size_t length)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (uint8_t)path[i]) * 16777619u;
    }
    return hash;
}

static struct zkl__memory_node **bucket_of(struct zkl__memory_tree *tree, const char *path,
                                           size_t length)
{
    return &tree->buckets[zkl__memory_hash(path, length) % ZKL__MEMORY_BUCKETS];
}

static struct zkl__memory_node *find(const struct zkl__memory_tree *tree, const char *path,
                                     size_t length)
{
    struct zkl__memory_node *node = *bucket_of((struct zkl__memory_tree *)tree, path, length);
    while (node && (strncmp(node->path, path, length) != 0 || node->path[length] != '\0')) {
        node = node->next;
    }
    return node;
}

struct zkl__memory_node *zkl__memory_find(const struct zkl__memory_tree *tree, const char *path)
{
    return find(tree, path, strlen(path));
}

static struct zkl__memory_node *find_parent(const struct zkl__memory_tree *tree, const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == path ? tree->root : find(tree, path, (size_t)(slash - path));
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
    out->pzxid = node->pzxid;
    out->cversion = (int32_t)(2u * (uint32_t)node->creates - (uint32_t)node->stat.child_count);
    out->ephemeral_owner =
        node->stat.ephemeral_owner == ZKL__MEMORY_CONTAINER_OWNER ? 0 : node->stat.ephemeral_owner;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --- nodes ----------------------------------------------------------------------------------- */

static struct zkl__memory_node *node_new(const struct zkl__memory_tree *tree, const char *path)
{
    size_t length = strlen(path);
    struct zkl__memory_node *node =
        zkl__zalloc(&tree->heap, sizeof *node + length + ZKL__MEMORY_DIGITS + 1);
    if (node) {
        memcpy(node->path, path, length);
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
static void link_in(struct zkl__memory_tree *tree, struct zkl__memory_node *node,
                    struct zkl__memory_node *parent)
{
    struct zkl__memory_node **bucket = bucket_of(tree, node->path, strlen(node->path));
    node->next = *bucket;
    *bucket = node;
    node->parent = parent;
    if (parent) {
        node->left = NULL;
        node->right = parent->children;
        if (node->right) {
            node->right->left = node;
        }
        parent->children = node;
        parent->stat.child_count++;
    }
}

static void link_out(struct zkl__memory_tree *tree, struct zkl__memory_node *node)
{
    struct zkl__memory_node **at = bucket_of(tree, node->path, strlen(node->path));
    while (*at != node) {
        at = &(*at)->next;
    }
    *at = node->next;
    if (node->left) {
        node->left->right = node->right;
    } else {
        node->parent->children = node->right;
    }
    if (node->right) {
        node->right->left = node->left;
    }
    node->parent->stat.child_count--;
}

void zkl__memory_take_out(struct zkl__memory_tree *tree, struct zkl__memory_node *node)
{
    assert(!node->children);
    link_out(tree, node);
    node->parent->pzxid = tree->zxid;
}

/* What a new server has, and what it refuses to delete. */
static const char *const own_paths[] = {"/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"};
enum { OWN_PATHS = sizeof own_paths / sizeof *own_paths };

static bool is_own(const char *path)
{
    for (size_t i = 0; i < OWN_PATHS; i++) {
        if (strcmp(path, own_paths[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Nobody may write the configuration (ZooDefs.Ids.READ_ACL_UNSAFE). False: no memory. */
static bool protect_config(struct zkl__memory_tree *tree)
{
    static const zkl_acl_entry read = {ZKL_PERM_READ, "world", "anyone"};
    static const zkl_acl list = {1, &read};
    struct zkl__memory_node *config = zkl__memory_find(tree, "/zookeeper/config");
    config->acl = zkl__memory_acl_copy(&tree->heap, &list, NULL);
    return config->acl != NULL;
}

bool zkl__memory_tree_init(struct zkl__memory_tree *tree, const zkl_heap *heap, int64_t zxid)
{
    memset(tree, 0, sizeof *tree);
    tree->heap = *heap;
    tree->zxid = zxid;
    for (size_t i = 0; i < OWN_PATHS; i++) {
        struct zkl__memory_node *node = node_new(tree, own_paths[i]);
        if (!node) {
            zkl__memory_tree_deinit(tree);
            return false;
        }
        link_in(tree, node, tree->root ? find_parent(tree, node->path) : NULL);
        tree->root = tree->root ? tree->root : node;
    }
    if (!protect_config(tree)) {
        zkl__memory_tree_deinit(tree);
        return false;
    }
    return true;
}

void zkl__memory_tree_deinit(struct zkl__memory_tree *tree)
{
    for (size_t i = 0; i < ZKL__MEMORY_BUCKETS; i++) {
        while (tree->buckets[i]) {
            struct zkl__memory_node *node = tree->buckets[i];
            tree->buckets[i] = node->next;
            zkl__memory_node_free(tree, node);
        }
    }
    tree->root = NULL;
}

/* --- paths ----------------------------------------------------------------------------------- */

static bool is_sequential(const struct zkl__op *op)
{
    return op->kind == ZKL__OP_CREATE &&
           (op->mode == ZKL__EPHEMERAL_SEQUENTIAL || op->mode == ZKL__PERSISTENT_SEQUENTIAL);
}

bool zkl__memory_path(char *out, const struct zkl__op *op)
{
    return op->dir && zkl__path_join(out, ZKL__MEMORY_PATH, op->dir, op->name) > 0 &&
           zkl__path_form(out, is_sequential(op));
}

/* --- writes ---------------------------------------------------------------------------------- */

/* False: no memory. */
static bool copy_data(void **out, const struct zkl__memory_tree *tree, const struct zkl__op *op)
{
    *out = op->size > 0 ? zkl__copy(&tree->heap, op->data, op->size) : NULL;
    return op->size == 0 || *out;
}

static int prepare_create(struct zkl__memory_change *change, struct zkl__memory_tree *tree,
                          const struct zkl__memory_who *who, const char *path)
{
    const zkl_acl *acl = change->op->acl ? change->op->acl : who->acl;
    struct zkl__memory_node *node = node_new(tree, path);
    if (!node) {
        return ZKL_ENOMEM;
    }
    bool bad_acl = acl && !zkl__memory_acl_valid(acl, who->ids.auth);
    if (acl && !bad_acl) {
        node->acl = zkl__memory_acl_copy(&tree->heap, acl, who->ids.auth);
    }
    if ((acl && !bad_acl && !node->acl) || !copy_data(&node->data, tree, change->op)) {
        zkl__memory_node_free(tree, node);
        return ZKL_ENOMEM;
    }
    node->stat.data_size = (int32_t)change->op->size;
    change->rc = bad_acl ? ZKL__RC_INVALIDACL : ZKL__RC_OK;
    change->node = node;
    return ZKL_OK;
}

int zkl__memory_prepare(struct zkl__memory_change *change, struct zkl__memory_tree *tree,
                        const struct zkl__memory_who *who, const struct zkl__op *op)
{
    char path[ZKL__MEMORY_PATH];
    memset(change, 0, sizeof *change);
    change->op = op;
    if (!zkl__memory_path(path, op)) {
        return ZKL_EINVAL;
    }
    switch (op->kind) {
    case ZKL__OP_CREATE:
        return prepare_create(change, tree, who, path);
    case ZKL__OP_SET:
        return copy_data(&change->data, tree, op) ? ZKL_OK : ZKL_ENOMEM;
    case ZKL__OP_DELETE:
    case ZKL__OP_CHECK:
        return ZKL_OK;
    default:
        return ZKL_EINVAL;
    }
}

static bool permits(const struct zkl__memory_node *node, const struct zkl__memory_who *who,
                    int perm)
{
    return zkl__memory_acl_permits(node->acl, &who->ids, perm);
}

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

/* The order of checks is that of PrepRequestProcessor.pRequest2TxnCreate. */
static enum zkl__rc check_create(struct zkl__memory_change *change,
                                 const struct zkl__memory_tree *tree,
                                 const struct zkl__memory_who *who,
                                 struct zkl__memory_node **parent)
{
    struct zkl__memory_node *node = change->node;
    *parent = find_parent(tree, node->path);
    if (change->rc == ZKL__RC_INVALIDACL) {
        return ZKL__RC_INVALIDACL;
    }
    if (!*parent) {
        return ZKL__RC_NONODE;
    }
    if (!permits(*parent, who, ZKL_PERM_CREATE)) {
        return ZKL__RC_NOAUTH;
    }
    if (is_sequential(change->op)) {
        snprintf(node->path + strlen(node->path), ZKL__MEMORY_DIGITS + 1, "%010d",
                 (*parent)->creates);
    }
    if (zkl__memory_find(tree, node->path)) {
        return ZKL__RC_NODEEXISTS;
    }
    return is_ephemeral(*parent) ? ZKL__RC_EPHEMERALPARENT : ZKL__RC_OK;
}

static enum zkl__rc apply_create(struct zkl__memory_change *change, struct zkl__memory_tree *tree,
                                 const struct zkl__memory_who *who)
{
    struct zkl__memory_node *node = change->node;
    struct zkl__memory_node *parent;
    enum zkl__rc rc = check_create(change, tree, who, &parent);
    if (rc != ZKL__RC_OK) {
        return rc;
    }
    change->creates = parent->creates;
    change->pzxid = parent->pzxid;
    node->stat.czxid = node->stat.mzxid = node->pzxid = tree->zxid;
    node->stat.ctime_ms = node->stat.mtime_ms = now_ms();
    node->stat.ephemeral_owner = owner_of(change->op, who);
    link_in(tree, node, parent);
    /* DataTree.createNode takes over a larger cversion only, so the counter sticks at its end, and
     * pzxid with it. */
    if (parent->creates < INT32_MAX) {
        parent->creates++;
        parent->pzxid = tree->zxid;
    }
    return ZKL__RC_OK;
}

/* A delete is permitted by the parent's list, not by the node's own. */
static enum zkl__rc apply_delete(struct zkl__memory_change *change, struct zkl__memory_tree *tree,
                                 const struct zkl__memory_who *who, const char *path)
{
    if (is_own(path)) {
        return ZKL__RC_REFUSED;
    }
    struct zkl__memory_node *parent = find_parent(tree, path);
    if (parent && !permits(parent, who, ZKL_PERM_DELETE)) {
        return ZKL__RC_NOAUTH;
    }
    struct zkl__memory_node *node = zkl__memory_find(tree, path);
    if (!parent || !node) {
        return ZKL__RC_NONODE;
    }
    if (other_version(node, change->op->version)) {
        return ZKL__RC_BADVERSION;
    }
    if (node->children) {
        return ZKL__RC_NOTEMPTY;
    }
    change->node = node;
    change->pzxid = parent->pzxid;
    change->creates = parent->creates;
    zkl__memory_take_out(tree, node);
    return ZKL__RC_OK;
}

static enum zkl__rc apply_set(struct zkl__memory_change *change, struct zkl__memory_tree *tree,
                              const struct zkl__memory_who *who, const char *path)
{
    struct zkl__memory_node *node = zkl__memory_find(tree, path);
    if (!node) {
        return ZKL__RC_NONODE;
    }
    if (!permits(node, who, ZKL_PERM_WRITE)) {
        return ZKL__RC_NOAUTH;
    }
    if (other_version(node, change->op->version)) {
        return ZKL__RC_BADVERSION;
    }
    void *old = node->data;
    change->node = node;
    change->stat = node->stat;
    node->data = change->data;
    change->data = old;
    node->stat.data_size = (int32_t)change->op->size;
    node->stat.version = (int32_t)((uint32_t)node->stat.version + 1);
    node->stat.mzxid = tree->zxid;
    node->stat.mtime_ms = now_ms();
    zkl__memory_stat(&change->after, node);
    return ZKL__RC_OK;
}

static enum zkl__rc apply_check(const struct zkl__memory_change *change,
                                const struct zkl__memory_tree *tree,
                                const struct zkl__memory_who *who, const char *path)
{
    const struct zkl__memory_node *node = zkl__memory_find(tree, path);
    if (!node) {
        return ZKL__RC_NONODE;
    }
    if (!permits(node, who, ZKL_PERM_READ)) {
        return ZKL__RC_NOAUTH;
    }
    return other_version(node, change->op->version) ? ZKL__RC_BADVERSION : ZKL__RC_OK;
}

void zkl__memory_apply(struct zkl__memory_change *change, struct zkl__memory_tree *tree,
                       const struct zkl__memory_who *who)
{
    char path[ZKL__MEMORY_PATH];
    zkl__memory_path(path, change->op);
    switch (change->op->kind) {
    case ZKL__OP_CREATE:
        change->rc = apply_create(change, tree, who);
        break;
    case ZKL__OP_DELETE:
        change->rc = apply_delete(change, tree, who, path);
        break;
    case ZKL__OP_SET:
        change->rc = apply_set(change, tree, who, path);
        break;
    default:
        change->rc = apply_check(change, tree, who, path);
        break;
    }
    change->applied = change->rc == ZKL__RC_OK;
}

static void undo_set(struct zkl__memory_change *change)
{
    void *data = change->node->data;
    change->node->data = change->data;
    change->data = data;
    change->node->stat.version = change->stat.version;
    change->node->stat.data_size = change->stat.data_size;
    change->node->stat.mzxid = change->stat.mzxid;
    change->node->stat.mtime_ms = change->stat.mtime_ms;
}

void zkl__memory_undo(struct zkl__memory_change *change, struct zkl__memory_tree *tree)
{
    assert(change->applied);
    struct zkl__memory_node *node = change->node;
    if (change->op->kind == ZKL__OP_CREATE) {
        link_out(tree, node);
    } else if (change->op->kind == ZKL__OP_DELETE) {
        link_in(tree, node, node->parent);
        change->node = NULL;
    } else if (change->op->kind == ZKL__OP_SET) {
        undo_set(change);
    }
    if (change->op->kind == ZKL__OP_CREATE || change->op->kind == ZKL__OP_DELETE) {
        node->parent->creates = change->creates;
        node->parent->pzxid = change->pzxid;
    }
    change->applied = false;
}

void zkl__memory_drop(struct zkl__memory_change *change, struct zkl__memory_tree *tree)
{
    bool unused = change->op->kind == ZKL__OP_CREATE && !change->applied;
    bool gone = change->op->kind == ZKL__OP_DELETE && change->applied;
    if (change->node && (unused || gone)) {
        zkl__memory_node_free(tree, change->node);
    }
    zkl__free(&tree->heap, change->data);
}
