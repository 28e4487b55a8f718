/* group_member.c - a membership: one ephemeral znode with a name of its own, made again whenever it
 * is gone.
 *
 * The name does not tell whose it is, its owner does: a node of another session is waited for, even
 * if that was ours, since it is about to vanish. One of this session is ours when we made it, or
 * when a create of ours in this session lost its answer. */
#include "group_inside.h"

#include "heap.h"
#include "own.h"
#include "path.h"

#include <string.h>

#define AGAIN_NS (2000 * ZKL__MS) /* before a join that the server refused is tried again */

/* --- what comes of it ------------------------------------------------------------------------ */

zkl_state zkl__group_state(const struct zkl_group *group)
{
    if (!group->wanted) {
        return ZKL_STATE_IDLE;
    }
    return group->mine ? ZKL_STATE_HELD : ZKL_STATE_WAITING;
}

static void note(struct zkl_group *group)
{
    zkl__signal_raise(&group->agent.changed);
    if (group->state_fn) {
        zkl__agent_post(&group->agent);
    }
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
        group->state_fn(group, now, group->state_payload);
    }
}

static void refuse(struct zkl_group *group, int code, int zk_code, const char *why)
{
    group->code = code;
    group->zk_code = zk_code;
    group->why = why;
    if (group->wanted) { /* who leaves meanwhile does not wait */
        zkl__agent_put_off(&group->agent, AGAIN_NS);
    }
    note(group);
}

static void refuse_by_reply(struct zkl_group *group, const struct zkl__reply *reply)
{
    refuse(group, zkl__rc_code(reply->rc), reply->zk_code, zkl__rc_why(reply->rc));
}

/* --- answers: inside a step ------------------------------------------------------------------ */

static void on_create(struct zkl_group *group, const struct zkl__reply *reply)
{
    group->asked = false;
    if (reply->rc == ZKL__RC_OK) {
        group->mine = true;
        group->version = 0;
        group->unsure = group->stale = false;
        group->joined = group->joined || group->wanted;
        group->step = LOOK;
        note(group);
    } else if (reply->rc == ZKL__RC_NODEEXISTS) {
        group->step = LOOK;
    } else if (reply->rc == ZKL__RC_NONODE) {
        group->unsure = false; /* no directory: nothing of ours in it either */
        strcpy(group->make_path, group->agent.path);
        group->step = MAKE;
    } else if (reply->rc == ZKL__RC_EPHEMERALPARENT) {
        refuse(group, ZKL_ECONFLICT, reply->zk_code,
               "a part of the path is an ephemeral znode, which has no children");
    } else {
        refuse_by_reply(group, reply);
    }
}

static void on_make(struct zkl_group *group, const struct zkl__reply *reply)
{
    if (reply->rc == ZKL__RC_NONODE) {
        if (!zkl__path_shorten(group->make_path)) {
            refuse(group, ZKL_ENOENT, reply->zk_code,
                   "the chroot of the connect string does not exist");
        }
    } else if (reply->rc == ZKL__RC_OK || reply->rc == ZKL__RC_NODEEXISTS) {
        if (!zkl__path_lengthen(group->make_path, group->agent.path)) {
            group->step = CREATE;
        }
    } else {
        refuse_by_reply(group, reply);
    }
}

static bool is_of_this_session(const struct zkl_group *group, const struct zkl__reply *reply)
{
    return zkl__is_own(&reply->stat, zkl__core_session_id(zkl__session_core(group->agent.session)));
}

static void on_look(struct zkl_group *group, const struct zkl__reply *reply)
{
    bool stands = reply->rc == ZKL__RC_OK;
    if (!stands && reply->rc != ZKL__RC_NONODE) {
        refuse_by_reply(group, reply);
        return;
    }
    group->mine = stands && is_of_this_session(group, reply) && (group->mine || group->unsure);
    if (group->mine) {
        group->unsure = false;
        group->version = reply->stat.version;
        size_t size = strlen(group->data); /* data may be NULL where there is none */
        group->stale =
            reply->size != size || (size > 0 && memcmp(reply->data, group->data, size) != 0);
        group->step = MEMBER;
        group->joined = group->joined || group->wanted;
        note(group);
    } else if (!stands) {
        group->step = CREATE;
        note(group);
    } else if (!zkl__lives(&reply->stat)) {
        refuse(group, ZKL_ECONFLICT, 0, "a znode of that name is there, and lives with no session");
    } else {
        group->step = WAIT;
        note(group);
    }
}

/* Behind the barrier: what is not there now will not come. */
static void on_last_look(struct zkl_group *group, const struct zkl__reply *reply)
{
    if (reply->rc == ZKL__RC_OK || reply->rc == ZKL__RC_NONODE) {
        group->mine = reply->rc == ZKL__RC_OK && is_of_this_session(group, reply);
        group->version = reply->stat.version;
        group->unsure = false;
        note(group);
    } else {
        zkl__agent_put_off(&group->agent, AGAIN_NS);
    }
}

static void on_write(struct zkl_group *group, const struct zkl__reply *reply)
{
    bool changed = reply->rc == ZKL__RC_NONODE ||
                   reply->rc == ZKL__RC_BADVERSION; /* by others: looked at next */
    if (reply->rc != ZKL__RC_OK && !changed) {
        refuse_by_reply(group, reply);
    }
}

/* What has our name now may be somebody else's, and names are all that a delete knows. ZooKeeper
 * has no check of an owner, so: a committed write, behind which no earlier delete of ours comes any
 * more (a server answers reads behind what it has committed for the same session); then a look at
 * whose it is. */
static void doubt(struct zkl_group *group)
{
    group->mine = group->passed = false;
    group->unsure = true;
}

static void on_remove(struct zkl_group *group, const struct zkl__reply *reply)
{
    group->leaving = false;
    if (reply->rc == ZKL__RC_OK || reply->rc == ZKL__RC_NONODE) {
        group->mine = false;
        note(group);
    } else if (reply->rc == ZKL__RC_BADVERSION) {
        doubt(group); /* written, or another one */
    } else {
        zkl__agent_put_off(&group->agent,
                           AGAIN_NS); /* never forgotten: until it is gone, or the session is */
    }
}

static void answer(struct zkl__agent *agent, const struct zkl__reply *reply)
{
    struct zkl_group *group = (struct zkl_group *)agent;
    switch (group->doing) {
    case CREATE:
        on_create(group, reply);
        break;
    case MAKE:
        on_make(group, reply);
        break;
    case LOOK:
        on_look(group, reply);
        break;
    case WRITE:
        on_write(group, reply);
        break;
    case BARRIER:
        group->passed = true;
        break;
    case LAST_LOOK:
        on_last_look(group, reply);
        break;
    case REMOVE:
        on_remove(group, reply);
        break;
    case WAIT:
    case MEMBER:
        break;
    }
}

static void stir(struct zkl__agent *agent, bool session_over)
{
    struct zkl_group *group = (struct zkl_group *)agent;
    if (session_over) {
        group->mine = group->unsure = group->asked = group->leaving = false;
    }
    group->step = session_over ? CREATE : LOOK;
    note(group);
}

/* --- acts: after a step ---------------------------------------------------------------------- */

/* The next object of this session, from this one on, with our path and id; NULL: there is none. */
static struct zkl_group *next_twin(const struct zkl_group *group, struct zkl__object *object)
{
    for (; object; object = object->next) {
        struct zkl_group *other = (struct zkl_group *)object;
        if (object->ops == &zkl__group_ops.object && other != group &&
            strcmp(other->id, group->id) == 0 &&
            strcmp(other->agent.path, group->agent.path) == 0) {
            return other;
        }
    }
    return NULL;
}

bool zkl__group_has_rival(const struct zkl_group *group, bool leaving)
{
    struct zkl_group *twin = next_twin(group, zkl__session_objects(group->agent.session));
    for (; twin; twin = next_twin(group, twin->agent.object.next)) {
        if (leaving ? !twin->wanted && !zkl__group_has_left(twin) : twin->wanted) {
            return true;
        }
    }
    return false;
}

static void wake_rivals(const struct zkl_group *group)
{
    struct zkl_group *twin = next_twin(group, zkl__session_objects(group->agent.session));
    for (; twin; twin = next_twin(group, twin->agent.object.next)) {
        if (twin->wanted) {
            zkl__agent_wake(&twin->agent);
        }
    }
}

static void ask(struct zkl_group *group, enum zkl__group_step doing, struct zkl__op op)
{
    group->doing = doing;
    op.version = op.kind == ZKL__OP_CHECK ? -1 : group->version;
    op.dir = op.dir ? op.dir : group->agent.path;
    zkl__agent_ask(&group->agent, &op);
}

static void act_leaving(struct zkl_group *group)
{
    zkl__agent_unwatch(&group->agent);
    if (group->mine) {
        group->leaving = true;
        ask(group, REMOVE, (struct zkl__op){.kind = ZKL__OP_DELETE, .name = group->id});
    } else if (group->unsure && !group->passed) {
        ask(group, BARRIER, (struct zkl__op){.kind = ZKL__OP_CHECK});
    } else if (group->unsure) {
        ask(group, LAST_LOOK, (struct zkl__op){.kind = ZKL__OP_EXISTS, .name = group->id});
    } else {
        wake_rivals(group);
    }
    if (zkl__group_has_left(group) && group->remains) {
        group->remains = false;
        zkl__agent_unref(&group->agent); /* not the last: who acts has one */
    }
}

static void act_wanted(struct zkl_group *group)
{
    switch (group->step) {
    case LOOK:
        ask(group, LOOK, (struct zkl__op){.kind = ZKL__OP_GET, .name = group->id, .watch = true});
        break;
    case CREATE:
        if (zkl__group_has_rival(group, true)) {
            break; /* who wakes us when it has left */
        }
        group->asked = true;
        ask(group, CREATE,
            (struct zkl__op){.kind = ZKL__OP_CREATE,
                             .name = group->id,
                             .data = group->data,
                             .size = strlen(group->data),
                             .mode = ZKL__EPHEMERAL,
                             .acl = group->acl});
        break;
    case MAKE:
        ask(group, MAKE,
            (struct zkl__op){.kind = ZKL__OP_CREATE,
                             .dir = group->make_path,
                             .mode = ZKL__CONTAINER,
                             .acl = group->acl});
        break;
    case MEMBER:
        if (group->stale) {
            group->step = LOOK; /* whatever comes of it */
            ask(group, WRITE,
                (struct zkl__op){.kind = ZKL__OP_SET,
                                 .name = group->id,
                                 .data = group->data,
                                 .size = strlen(group->data)});
        }
        break;
    default:
        break;
    }
}

static void act(struct zkl__agent *agent)
{
    struct zkl_group *group = (struct zkl_group *)agent;
    group->unsure = group->unsure || group->asked;
    group->asked = false;
    if (group->leaving) { /* no answer: done or not, and if it was, the name is free for anybody */
        group->leaving = false;
        doubt(group);
    }
    if (group->wanted) {
        act_wanted(group);
    } else {
        act_leaving(group);
    }
}

/* --- its end --------------------------------------------------------------------------------- */

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
        zkl__signal_raise(&group->agent.changed);
    }
    if (code == ZKL_ECLOSED && group->remains) {
        group->remains = false;
        zkl__agent_unref(&group->agent);
    }
    return false;
}

const struct zkl__agent_ops zkl__group_ops = {
    .object = {"group", give_up, zkl__agent_describe, zkl__agent_session_changed},
    .act = act,
    .answer = answer,
    .stir = stir,
    .tell = tell,
    .destroy = destroy,
};
