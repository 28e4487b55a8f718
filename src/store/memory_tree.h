/* memory_tree.h - znodes of the in-process store: what a data tree of the server does, without
 * sessions, watches, locks. */
#ifndef ZKL_STORE_MEMORY_TREE_H
#define ZKL_STORE_MEMORY_TREE_H

#include "heap.h"
#include "memory_acl.h"
#include "op.h"

enum {
    ZKL__MEMORY_PATH = 4096,    /* longest path, NUL included */
    ZKL__MEMORY_BUCKETS = 4096, /* of the table of nodes */
    ZKL__MEMORY_DIGITS = 11     /* "-2147483648" */
};

#define ZKL__MEMORY_CONTAINER_OWNER                              \
    INT64_MIN /* what marks a container inside, as in the server \
               */

struct zkl__memory_node {
    struct zkl__memory_node *next; /* in its bucket */
    struct zkl__memory_node *parent;
    struct zkl__memory_node *children;
    struct zkl__memory_node *left, *right; /* siblings */
    zkl_acl *acl;                          /* NULL: open */
    void *data;
    struct zkl__stat stat; /* clients see it through zkl__memory_stat */
    int64_t pzxid;         /* last create or delete of a child */
    int32_t
        creates; /* of children, ever: the server's own cversion, and the next sequence number */
    bool doomed; /* a sweep's mark */
    char path[];
};

struct zkl__memory_tree {
    zkl_heap heap;
    int64_t zxid;
    struct zkl__memory_node *root;
    struct zkl__memory_node *buckets[ZKL__MEMORY_BUCKETS];
};

/* On whose behalf. */
struct zkl__memory_who {
    int64_t session_id; /* 0: a stranger */
    struct zkl__memory_ids ids;
    const zkl_acl *acl; /* default of creates; NULL: open */
};

/* One write: prepared (all memory taken), applied (cannot fail for lack of it), perhaps undone,
 * then dropped. */
struct zkl__memory_change {
    const struct zkl__op *op;
    enum zkl__rc rc;
    bool applied;
    struct zkl__memory_node
        *node;  /* create: the new one; set: the one set; delete, once applied: the one taken out */
    void *data; /* set: the new data; once applied, the old */
    struct zkl__stat stat; /* set, once applied: as it was. Likewise the next two, of the parent */
    int64_t pzxid;
    int32_t creates;
    struct zkl__stat after; /* set, once applied: what it answers */
};

/* False: no memory. */
bool zkl__memory_tree_init(struct zkl__memory_tree *tree, const zkl_heap *heap, int64_t zxid);
void zkl__memory_tree_deinit(struct zkl__memory_tree *tree);

uint32_t zkl__memory_hash(const char *path, size_t length);
struct zkl__memory_node *zkl__memory_find(const struct zkl__memory_tree *tree, const char *path);
void zkl__memory_stat(struct zkl__stat *out, const struct zkl__memory_node *node);
/* Last component of a path; "" for the root. */
const char *zkl__memory_base(const char *path);

/* ZKL_OK; ZKL_ENOMEM, ZKL_EINVAL (form of the path, kind) with nothing to drop. */
int zkl__memory_prepare(struct zkl__memory_change *change, struct zkl__memory_tree *tree,
                        const struct zkl__memory_who *who, const struct zkl__op *op);
/* The answer is in change->rc. */
void zkl__memory_apply(struct zkl__memory_change *change, struct zkl__memory_tree *tree,
                       const struct zkl__memory_who *who);
/* Changes are undone in the reverse of the order applied. */
void zkl__memory_undo(struct zkl__memory_change *change, struct zkl__memory_tree *tree);
void zkl__memory_drop(struct zkl__memory_change *change, struct zkl__memory_tree *tree);

/* Takes a childless node out, as a transaction of the server's own: no check. The caller frees it;
 * its parent field stays for the watches. */
void zkl__memory_take_out(struct zkl__memory_tree *tree, struct zkl__memory_node *node);
void zkl__memory_node_free(const struct zkl__memory_tree *tree, struct zkl__memory_node *node);

/* The path of an op into out (ZKL__MEMORY_PATH bytes); false when its form is bad: relative, empty
 * or dotted component, slash at the end (a sequential create may end so). */
bool zkl__memory_path(char *out, const struct zkl__op *op);

#endif
