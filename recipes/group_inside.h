/* group_inside.h - a membership: group.c is what its user calls, group_member.c what it does by
 * itself. */
#ifndef ZKL_RECIPES_GROUP_INSIDE_H
#define ZKL_RECIPES_GROUP_INSIDE_H

#include "agent.h"

#include <zklock/group.h>

struct zkl_group {
    struct zkl__agent agent; /* first */
    char *id, *data;
    zkl_acl *acl;
    int64_t leave_timeout_ms;
    zkl_group_state_fn state_fn;
    void *state_payload;
    zkl_state told;

    bool wanted; /* joined by its user */
    bool joined; /* a join has succeeded: no error ends it any more */
    enum zkl__group_step {
        CREATE,
        LOOK, /* who has our name? and hear when that changes */
        WAIT, /* somebody else has */
        MEMBER,
        MAKE, /* the directory */
        /* under way only: */
        WRITE,
        BARRIER, /* leaving, and a create of ours may yet come: nothing does behind a committed
                    write */
        LAST_LOOK,
        REMOVE
    } step,       /* of one who is wanted */
        doing;    /* what the operation under way is for */
    bool mine;    /* the node stands, and is ours */
    bool asked;   /* a create was sent and not answered */
    bool leaving; /* a delete was sent and not answered */
    /* one of this session lost its answer: what has our name may be ours, or may not */
    bool unsure;
    bool stale;      /* the node's data is older than ours */
    bool passed;     /* the barrier */
    bool remains;    /* freed, and keeps itself until it has left */
    int32_t version; /* of the node, when it was known to be ours */
    int code, zk_code;
    const char *why;
    char *make_path; /* as long as path; cut to what is made now */
};

static inline const zkl_heap *zkl__group_heap(const struct zkl_group *group)
{
    return zkl__session_heap(group->agent.session);
}

/* Nothing of ours stands, and nothing can come any more. */
static inline bool zkl__group_has_left(const struct zkl_group *group)
{
    return !group->mine && !group->unsure && !group->asked;
}

/* --- group_member.c -------------------------------------------------------------------------- */

extern const struct zkl__agent_ops zkl__group_ops;

zkl_state zkl__group_state(const struct zkl_group *group);
/* Another object of this session is a member under our id, or about to be; or (leaving) is on its
 * way out. The two would take each other's node for their own. */
bool zkl__group_has_rival(const struct zkl_group *group, bool leaving);

#endif
