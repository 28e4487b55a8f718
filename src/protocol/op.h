/* op.h - the few things a znode store can do, and its answers: the language between the core and a
 * store.
 *
 * Pointers in an op live until submit returns; pointers in a reply live until the reply function
 * returns. */
#ifndef ZKL_PROTOCOL_OP_H
#define ZKL_PROTOCOL_OP_H

#include "base.h"

enum zkl__op_kind {
    ZKL__OP_NONE,
    ZKL__OP_CREATE,   /* answers name and stat (create2), so the czxid comes for free. As the next
                         four a transaction */
    ZKL__OP_DELETE,   /* at `version`, -1: any */
    ZKL__OP_SET,      /* data, at `version` */
    ZKL__OP_CHECK,    /* multi of this one check: a committed write that changes nothing */
    ZKL__OP_MULTI,    /* `parts` of the four kinds above, all or nothing; a created part answers its
                         name, no stat */
    ZKL__OP_SYNC,     /* no transaction; passes the leader */
    ZKL__OP_CHILDREN, /* names and the directory's stat; may watch */
    ZKL__OP_GET,      /* data and stat; may watch (only when the node is there) */
    ZKL__OP_EXISTS,   /* stat; may watch, also a node that is not there */
    ZKL__OP_UNWATCH   /* takes back every watch of ours on the path, here and on the server */
};

/* As zkl_create_mode, and one more. */
enum zkl__create_mode {
    ZKL__PERSISTENT,
    ZKL__EPHEMERAL,
    ZKL__PERSISTENT_SEQUENTIAL,
    ZKL__EPHEMERAL_SEQUENTIAL,
    ZKL__CONTAINER
};

struct zkl__op {
    enum zkl__op_kind kind;
    const char *dir;  /* absolute path under the session's chroot, "/" alone for the root */
    const char *name; /* child of dir, or NULL: dir itself. A sequential create gives the part
                         before the digits */
    const void *data; /* NULL with size 0: empty */
    size_t size;
    int32_t version;
    enum zkl__create_mode mode;
    const zkl_acl *acl; /* NULL: the store's default */
    bool watch;
    bool outside; /* dir is an absolute path of the servers', not under the chroot */
    const struct zkl__op *parts;
    size_t part_count;
};

/* What became of an op. */
enum zkl__rc {
    ZKL__RC_OK,
    /* the server's own word: it was looked at and not done */
    ZKL__RC_NONODE,
    ZKL__RC_NODEEXISTS, /* on a sequential create: the counter is used up (it sticks at 2147483647)
                         */
    ZKL__RC_NOTEMPTY,
    ZKL__RC_BADVERSION,
    ZKL__RC_NOAUTH,
    ZKL__RC_INVALIDACL,
    ZKL__RC_EPHEMERALPARENT, /* an ephemeral node has no children */
    ZKL__RC_NOWATCH,
    ZKL__RC_ROLLEDBACK, /* part of a multi that failed elsewhere */
    ZKL__RC_QUOTA,      /* the path's quota, where servers enforce it */
    ZKL__RC_LOCAL,      /* an ephemeral node in a local session that the servers do not upgrade */
    ZKL__RC_UNIMPLEMENTED, /* a server before 3.5 knows no create2, and before 3.5.1 no containers
                            */
    ZKL__RC_REFUSED,       /* the server's word, any other: zk_code has it (bad arguments) */
    ZKL__RC_NOTAPPLIED,    /* the server's word: not done, try again (session moved, throttled) */
    /* no word of the server's */
    ZKL__RC_UNSENT, /* refused here, never sent (memory, limits, not connected) */
    ZKL__RC_UNKNOWN /* done, or not, or not yet: the connection or the session ended first */
};

struct zkl__stat {
    int64_t czxid;
    int64_t mzxid;
    int64_t pzxid; /* of the last create or delete of a child */
    int64_t ctime_ms;
    int64_t mtime_ms;
    int64_t ephemeral_owner;
    int32_t version;
    int32_t cversion;
    int32_t child_count;
    int32_t data_size;
};

struct zkl__reply {
    enum zkl__rc rc;
    int zk_code; /* ZooKeeper's number, 0 when there is none */
    int unsent;  /* ZKL__RC_UNSENT: why, ZKL_E... */
    struct zkl__stat stat;
    const char *name; /* created: last component of the path */
    const void *data;
    size_t size;
    const char *const *children;
    size_t child_count;
    const struct zkl__reply *parts;
    size_t part_count;
};

/* A loop over the names of the children that a reply lists. Without any, children may be NULL. */
#define ZKL__EACH_NAME(name, reply)                                           \
    for (const char *const *name##_at = (reply)->children, *name;             \
         name##_at && name##_at < (reply)->children + (reply)->child_count && \
         ((name) = *name##_at, 1);                                            \
         name##_at++)

/* A one-shot watch that fired. */
enum zkl__watch_event {
    ZKL__WATCH_CREATED,
    ZKL__WATCH_CHANGED,
    ZKL__WATCH_DELETED,
    ZKL__WATCH_CHILDREN
};

/* The operation and all that it points to, in one block: free it with zkl__free. NULL: no memory.
 */
struct zkl__op *zkl__op_copy(const zkl_heap *heap, const struct zkl__op *op);

static inline bool zkl__op_commits(enum zkl__op_kind kind)
{
    return kind >= ZKL__OP_CREATE && kind <= ZKL__OP_MULTI;
}

/* True for the server's own word, whatever it was. */
static inline bool zkl__rc_is_response(enum zkl__rc rc)
{
    return rc < ZKL__RC_UNSENT;
}

/* The same, but for "try again", which decides nothing. */
static inline bool zkl__rc_decides(enum zkl__rc rc)
{
    return rc < ZKL__RC_NOTAPPLIED;
}

/* "ok", "no node", ...: for traces and logs. */
const char *zkl__rc_name(enum zkl__rc rc);
/* What a refusal means to whoever has to mend it. */
const char *zkl__rc_why(enum zkl__rc rc);
/* The text of the error when not even the highest directory can be made: no chroot is made here. */
#define ZKL__NO_CHROOT "the chroot of the connect string does not exist"

/* The public code for a reply that ends a call (NOAUTH -> ZKL_EAUTH, ...). */
int zkl__rc_code(enum zkl__rc rc);

/* === whether a session owns it ================================================================ */

/* Whose a znode is, by its stat. A name proves nothing: whoever may create can take any. */

/* A child counts (as a member, a lease, a candidate) only if it lives with a session. One without
 * would never go: a server deletes an ephemeral znode at the end of its session, and no other
 * (DataTree.killSession). Containers and znodes with a time to live have no owner for a client
 * (DataNode.getClientEphemeralOwner). */
static inline bool zkl__is_ephemeral(const struct zkl__stat *stat)
{
    return stat->ephemeral_owner != 0;
}

/* Made by this session: then it may delete it. */
static inline bool zkl__is_own(const struct zkl__stat *stat, int64_t session_id)
{
    return zkl__is_ephemeral(stat) && stat->ephemeral_owner == session_id;
}

#endif
