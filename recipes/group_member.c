/* group_member.c - what a membership says by itself: protocol/membership.h decides, an agent tells
 * its user. */
#include "group_inside.h"

#include "heap.h"

/* --- what comes of it ------------------------------------------------------------------------ */

zkl_state zkl__group_state(const struct zkl_group *group)
{
    if (!group->m.wanted) {
        return ZKL_STATE_IDLE;
    }
    return zkl__member_stands(&group->m) ? ZKL_STATE_HELD : ZKL_STATE_WAITING;
}

/* In a step, as the next one. */
static void note(void *owner)
{
    struct zkl_group *group = owner;
    zkl__group_changed(group);
    if (group->state_fn) {
        zkl__agent_post(&group->agent);
    }
}

/* Left, it does not keep itself any more. */
static void rests(void *owner)
{
    struct zkl_group *group = owner;
    if (group->remains) {
        group->remains = false;
        zkl__agent_unref(&group->agent);
    }
}

bool zkl__group_begin(struct zkl_group *group)
{
    group->m.note = note;
    group->m.rests = rests;
    return zkl__membership_begin(&group->m, zkl__session_core(group->agent.session), group);
}

/* Called with no lock: each state once, and only members hear that they are none any more. */
static void tell(struct zkl__agent *agent)
{
    struct zkl_group *group = (struct zkl_group *)agent;
    zkl__session_enter_even_closed(agent->session, NULL);
    zkl_state now = zkl__group_state(group);
    bool news = !agent->freed && now != group->told &&
                (now == ZKL_STATE_HELD || group->told == ZKL_STATE_HELD);
    group->told = now;
    zkl__session_leave(agent->session);
    if (news && now != ZKL_STATE_IDLE) {
        group->state_fn(group, now, group->payload);
    }
}

/* --- its end --------------------------------------------------------------------------------- */

static void stop(struct zkl__agent *agent)
{
    zkl__membership_end(&((struct zkl_group *)agent)->m);
}

static void destroy(struct zkl__agent *agent)
{
    struct zkl_group *group = (struct zkl_group *)agent;
    zkl__free(zkl__group_heap(group), group->id);
    zkl__free(zkl__group_heap(group), group->data);
    zkl__free(zkl__group_heap(group), group->acl);
    zkl__free(zkl__group_heap(group), group->make_path);
}

static bool give_up(struct zkl__object *object, int code)
{
    struct zkl_group *group = (struct zkl_group *)object;
    zkl__agent_give_up(object, code);
    if (code == ZKL_ECLOSED) {
        zkl__group_changed(group);
    }
    if (code == ZKL_ECLOSED && group->remains) {
        group->remains = false;
        zkl__agent_unref(&group->agent);
    }
    return false;
}

const struct zkl__agent_ops zkl__group_ops = {
    .object = {"group", give_up, zkl__agent_describe},
    .tell = tell,
    .stop = stop,
    .destroy = destroy,
};
