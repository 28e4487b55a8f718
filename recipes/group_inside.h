/* group_inside.h - a membership: group.c is what its user calls, group_member.c what it does by
 * itself. */
#ifndef ZKL_RECIPES_GROUP_INSIDE_H
#define ZKL_RECIPES_GROUP_INSIDE_H

#include "agent.h"
#include "membership.h"
#include "procedure.h"

#include <zklock/group.h>

/* What a user waits for: a join, a leave or an update. */
struct zkl__change {
    struct zkl__procedure procedure; /* first */
    zkl_group *group;
    enum zkl__change_kind { ZKL__JOIN, ZKL__LEAVE, ZKL__UPDATE } kind;
    enum {
        ZKL__CHANGE_NEW,      /* nothing of it has happened yet */
        ZKL__CHANGE_BEGUN,    /* the membership was told */
        ZKL__CHANGE_WITHDRAWN /* the membership ended first */
    } step;
    char *data; /* of an update, until it has begun */
    struct zkl__change *next;
};

struct zkl_group {
    struct zkl__agent agent; /* first */
    char *id, *data, *make_path;
    zkl_acl *acl;
    int64_t leave_timeout_ms;
    zkl_group_state_fn state_fn;
    void *payload;
    zkl_state told;
    struct zkl__change *changes;

    struct zkl__membership m; /* what it does, and what the servers have of it */
    bool remains;             /* freed, and keeps itself until it has left */
};

static inline const zkl_heap *zkl__group_heap(const struct zkl_group *group)
{
    return zkl__session_heap(group->agent.session);
}

/* What is waited for may be so now. Also in a step. */
static inline void zkl__group_changed(const struct zkl_group *group)
{
    for (struct zkl__change *change = group->changes; change; change = change->next) {
        zkl__procedure_poke(&change->procedure);
    }
}

/* Nothing of ours stands, and nothing can come any more. */
static inline bool zkl__group_has_left(const struct zkl_group *group)
{
    return group->m.node == ZKL__MEMBER_NONE;
}

/* --- group_member.c -------------------------------------------------------------------------- */

extern const struct zkl__agent_ops zkl__group_ops;
/* Inside. What it does by itself begins; false: no memory. */
bool zkl__group_begin(struct zkl_group *group);

zkl_state zkl__group_state(const struct zkl_group *group);
#endif
