/* memory_tree.h - znodes of the in-process store and their access lists: what a data tree of the
 * server does, without sessions, watches, locks. */
#ifndef ZKL_STORE_MEMORY_TREE_H
#define ZKL_STORE_MEMORY_TREE_H

#include "base.h"
#include "collections.h"
#include "store.h"

enum { ZKL__MEMORY_DIGITS = 11 }; /* "-2147483648" */

/* What marks a container inside, as in the server. */
#define ZKL__MEMORY_CONTAINER_OWNER INT64_MIN

struct zkl__memory_node {
    struct zkl__map_entry entry; /* first of all in it */
    struct zkl__link sibling;
    struct zkl__memory_node *parent;
    struct zkl__list children;
    zkl_acl *acl; /* NULL: open */
    void *data;
    struct zkl__stat stat; /* clients see it through zkl__memory_stat */
    int32_t
        creates; /* of children, ever: the server's own cversion, and the next sequence number */
    bool own;    /* a new server has it, and refuses to delete it */
    char path[];
};

struct zkl__memory_tree {
    zkl_heap heap;
    int64_t zxid, time_ms; /* of the latest transaction */
    struct zkl__memory_node *root;
    struct zkl__map nodes;
};

/* On whose behalf. */
struct zkl__memory_who {
    int64_t session_id; /* 0: a stranger */
    char *auth;         /* by its credentials: what entries of scheme "auth" mean; NULL: none */
    const zkl_acl *acl; /* default of creates; NULL: open */
};

/* What a session learns of a znode that it may not READ. Two things changed in ZooKeeper 3.8.4 and
 * 3.9.2; Debian has added only one of them to its 3.8.0. */
enum zkl__memory_rules {
    ZKL__RULES_EVENTS_NEED_READ,   /* the default, as Debian's 3.8.0-11+deb12u2: its stat, but no
                                      watch event (CVE-2024-23944) */
    ZKL__RULES_NOTHING_NEEDS_READ, /* before that, as 3.8.0: both */
    ZKL__RULES_EXISTS_NEEDS_READ   /* as 3.8.4 and 3.9.2: neither (ZOOKEEPER-2590) */
};

/* One write. It is applied, and then kept or undone. */
struct zkl__memory_change {
    const struct zkl__op *op;
    struct zkl__memory_node *node; /* the one made, set or taken out; NULL: nothing changed */
    void *old_data;                /* of a set */
    /* As they were: of a set the node's, else its parent's. */
    struct zkl__stat old_stat;
    int32_t old_creates;
};

/* False: no memory. */
bool zkl__memory_tree_init(struct zkl__memory_tree *tree, const zkl_heap *heap, int64_t zxid);
void zkl__memory_tree_deinit(struct zkl__memory_tree *tree);

struct zkl__memory_node *zkl__memory_find(const struct zkl__memory_tree *tree, const char *path);
void zkl__memory_stat(struct zkl__stat *out, const struct zkl__memory_node *node);
/* Last component of a path; "" for the root. */
const char *zkl__memory_base(const char *path);

/* "user:base64(sha1(user:password))" from "user:password", as the digest scheme has it; NULL: no
 * memory. */
char *zkl__memory_identity(const zkl_heap *heap, const void *auth, size_t size);
bool zkl__memory_permits(const struct zkl__memory_node *node, const struct zkl__memory_who *who,
                         int perm);

/* Begins a transaction, whose parts are of one time (TxnHeader). */
void zkl__memory_begin(struct zkl__memory_tree *tree);
/* Carries out a valid op that is none of several. ZKL__RC_UNSENT: no memory, and nothing was done.
 */
enum zkl__rc zkl__memory_apply(struct zkl__memory_change *change, struct zkl__memory_tree *tree,
                               const struct zkl__memory_who *who, const struct zkl__op *op);
/* Ends a change: keeps it, or undoes it. Changes are undone in the reverse of the order applied. */
void zkl__memory_settle(struct zkl__memory_change *change, struct zkl__memory_tree *tree,
                        bool keep);

/* Takes a childless node out, as a transaction of the server's own: no check. The caller frees it;
 * its parent field stays for the watches. */
void zkl__memory_take_out(struct zkl__memory_tree *tree, struct zkl__memory_node *node);
void zkl__memory_node_free(const struct zkl__memory_tree *tree, struct zkl__memory_node *node);

#endif
