/* own.h - whose a znode is, by its stat. A name proves nothing: whoever may create can take any. */
#ifndef ZKL_PROTOCOL_OWN_H
#define ZKL_PROTOCOL_OWN_H

#include "op.h"

/* A child counts (as a member, a lease, a candidate) only if it lives with a session. One without
 * would never go: a server deletes an ephemeral znode at the end of its session, and no other
 * (DataTree.killSession). Containers and znodes with a time to live have no owner for a client
 * (DataNode.getClientEphemeralOwner). */
static inline bool zkl__lives(const struct zkl__stat *stat)
{
    return stat->ephemeral_owner != 0;
}

/* Made by this session: then it may delete it. */
static inline bool zkl__is_own(const struct zkl__stat *stat, int64_t session_id)
{
    return zkl__lives(stat) && stat->ephemeral_owner == session_id;
}

#endif
