/* group.c - a membership: one ephemeral znode with a name of its own, made again whenever it is gone.
 *
 * The name does not tell whose it is, its owner does: a node of another session is waited for, even if that was ours, since it is about
 * to vanish. One of this session is ours when we made it, or when a create of ours in this session lost its answer. */
#include "agent.h"

#include "acl.h"
#include "error.h"
#include "heap.h"
#include "path.h"

#include <zklock/group.h>

#include <string.h>

#define AGAIN_NS (2000 * ZKL__MS) /* before a join that the server refused is tried again */

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
    enum step {
        CREATE,
        LOOK, /* who has our name? and hear when that changes */
        WAIT, /* somebody else has */
        MEMBER,
        MAKE, /* the directory */
        /* under way only: */
        WRITE,
        BARRIER, /* leaving, and a create of ours may yet come: nothing does behind a committed write */
        LAST_LOOK,
        REMOVE
    } step,       /* of one who is wanted */
        doing;    /* what the operation under way is for */
    bool mine;    /* the node stands, and is ours */
    bool asked;   /* a create was sent and not answered */
    bool unsure;  /* one of this session lost its answer */
    bool stale;   /* the node's data is older than ours */
    bool passed;  /* the barrier */
    bool remains; /* freed, and keeps itself until it has left */
    int code, zk_code;
    const char *why;
    char *make_path; /* as long as path; cut to what is made now */
};

static const zkl_heap *heap_of(const struct zkl_group *group)
{
    return zkl__session_heap(group->agent.session);
}

/* --- what comes of it ---------------------------------------------------------------------------------------------- */

static zkl_state state_of(const struct zkl_group *group)
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
    zkl__session_enter(agent->session, true, NULL);
    zkl_state now = state_of(group);
    bool news = !agent->freed && now != group->told && (now == ZKL_STATE_HELD || group->told == ZKL_STATE_HELD);
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
    refuse(group, zkl__rc_code(reply->rc), reply->zk_code,
           reply->rc == ZKL__RC_NOAUTH ? "the access list does not permit it" : "the server refused it");
}

/* --- answers: inside a step ---------------------------------------------------------------------------------------- */

static void on_create(struct zkl_group *group, const struct zkl__reply *reply)
{
    group->asked = false;
    if (reply->rc == ZKL__RC_OK) {
        group->mine = true;
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
        refuse(group, ZKL_ECONFLICT, reply->zk_code, "a part of the path is an ephemeral znode, which has no children");
    } else if (reply->rc != ZKL__RC_NOTAPPLIED) {
        refuse_by_reply(group, reply);
    }
}

static void on_make(struct zkl_group *group, const struct zkl__reply *reply)
{
    size_t made = strlen(group->make_path);
    const char *path = group->agent.path;
    if (reply->rc == ZKL__RC_NONODE) {
        char *slash = strrchr(group->make_path, '/');
        if (slash == group->make_path) {
            refuse(group, ZKL_ENOENT, reply->zk_code, "the chroot of the connect string does not exist");
        } else {
            *slash = '\0';
        }
    } else if (reply->rc == ZKL__RC_OK || reply->rc == ZKL__RC_NODEEXISTS) {
        if (path[made] == '\0') {
            group->step = CREATE;
            return;
        }
        size_t next = made + 1 + strcspn(path + made + 1, "/");
        memcpy(group->make_path, path, next);
        group->make_path[next] = '\0';
    } else if (reply->rc != ZKL__RC_NOTAPPLIED) {
        refuse_by_reply(group, reply);
    }
}

static void on_look(struct zkl_group *group, const struct zkl__reply *reply)
{
    int64_t session_id = zkl__core_session_id(zkl__session_core(group->agent.session));
    bool stands = reply->rc == ZKL__RC_OK;
    if (!stands && reply->rc != ZKL__RC_NONODE) {
        refuse_by_reply(group, reply);
        return;
    }
    group->mine = stands && reply->stat.ephemeral_owner == session_id && (group->mine || group->unsure);
    if (group->mine) {
        group->unsure = false;
        group->stale = reply->size != strlen(group->data) || memcmp(reply->data, group->data, reply->size) != 0;
        group->step = MEMBER;
        group->joined = group->joined || group->wanted;
        note(group);
    } else if (!stands) {
        group->step = CREATE;
        note(group);
    } else if (reply->stat.ephemeral_owner == 0) {
        refuse(group, ZKL_ECONFLICT, 0, "a znode of that name is there, and lives with no session");
    } else {
        group->step = WAIT;
        note(group);
    }
}

/* Behind the barrier: what is not there now will not come. */
static void on_last_look(struct zkl_group *group, const struct zkl__reply *reply)
{
    int64_t session_id = zkl__core_session_id(zkl__session_core(group->agent.session));
    if (reply->rc == ZKL__RC_OK || reply->rc == ZKL__RC_NONODE) {
        group->mine = reply->rc == ZKL__RC_OK && reply->stat.ephemeral_owner == session_id;
        group->unsure = false;
        note(group);
    } else {
        zkl__agent_put_off(&group->agent, AGAIN_NS);
    }
}

static void on_write(struct zkl_group *group, const struct zkl__reply *reply)
{
    if (reply->rc != ZKL__RC_OK && reply->rc != ZKL__RC_NONODE && reply->rc != ZKL__RC_NOTAPPLIED) {
        refuse_by_reply(group, reply);
    }
}

static void on_remove(struct zkl_group *group, const struct zkl__reply *reply)
{
    if (reply->rc == ZKL__RC_OK || reply->rc == ZKL__RC_NONODE) {
        group->mine = false;
        note(group);
    } else {
        zkl__agent_put_off(&group->agent, AGAIN_NS); /* never forgotten: until it is gone, or the session is */
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
        group->passed = reply->rc != ZKL__RC_NOTAPPLIED;
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
        group->mine = group->unsure = group->asked = false;
    }
    group->step = session_over ? CREATE : LOOK;
    note(group);
}

/* --- acts: after a step -------------------------------------------------------------------------------------------- */

static bool has_left(const struct zkl_group *group)
{
    return !group->mine && !group->unsure && !group->asked;
}

static const struct zkl__agent_ops ops;

/* The next object of this session, from this one on, with our path and id; NULL: there is none. */
static struct zkl_group *next_twin(const struct zkl_group *group, struct zkl__object *object)
{
    for (; object; object = object->next) {
        struct zkl_group *other = (struct zkl_group *)object;
        if (object->ops == &ops.object && other != group && strcmp(other->id, group->id) == 0 &&
            strcmp(other->agent.path, group->agent.path) == 0) {
            return other;
        }
    }
    return NULL;
}

/* Another object of this session is a member under our id, or about to be; or (leaving) is on its way out. The two would take each
 * other's node for their own. */
static bool has_rival(const struct zkl_group *group, bool leaving)
{
    struct zkl_group *twin = next_twin(group, zkl__session_objects(group->agent.session));
    for (; twin; twin = next_twin(group, twin->agent.object.next)) {
        if (leaving ? !twin->wanted && !has_left(twin) : twin->wanted) {
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

static void ask(struct zkl_group *group, enum step doing, struct zkl__op op)
{
    group->doing = doing;
    op.version = -1;
    op.dir = op.dir ? op.dir : group->agent.path;
    zkl__agent_ask(&group->agent, &op);
}

static void act_leaving(struct zkl_group *group)
{
    zkl__agent_unwatch(&group->agent);
    if (group->mine) {
        ask(group, REMOVE, (struct zkl__op){.kind = ZKL__OP_DELETE, .name = group->id});
    } else if (group->unsure && !group->passed) {
        ask(group, BARRIER, (struct zkl__op){.kind = ZKL__OP_CHECK});
    } else if (group->unsure) {
        ask(group, LAST_LOOK, (struct zkl__op){.kind = ZKL__OP_EXISTS, .name = group->id});
    } else {
        wake_rivals(group);
    }
    if (has_left(group) && group->remains) {
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
        if (has_rival(group, true)) {
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
            (struct zkl__op){
                .kind = ZKL__OP_CREATE, .dir = group->make_path, .mode = ZKL__CONTAINER, .acl = group->acl});
        break;
    case MEMBER:
        if (group->stale) {
            group->step = LOOK; /* whatever comes of it */
            ask(group, WRITE,
                (struct zkl__op){
                    .kind = ZKL__OP_SET, .name = group->id, .data = group->data, .size = strlen(group->data)});
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
    if (group->wanted) {
        act_wanted(group);
    } else {
        act_leaving(group);
    }
}

/* --- life ---------------------------------------------------------------------------------------------------------- */

static void destroy(struct zkl__agent *agent)
{
    struct zkl_group *group = (struct zkl_group *)agent;
    zkl__free(heap_of(group), group->id);
    zkl__free(heap_of(group), group->data);
    zkl__free(heap_of(group), group->acl);
    zkl__free(heap_of(group), group->make_path);
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

static const struct zkl__agent_ops ops = {
    .object = {"group", give_up, zkl__agent_describe, zkl__agent_session_changed},
    .act = act,
    .answer = answer,
    .stir = stir,
    .tell = tell,
    .destroy = destroy,
};

static int check_arguments(zkl_group **out, const char *path, const char *id, const zkl_group_options *o,
                           zkl_error *err)
{
    char whole[ZKL_PATH_MAX + 1];
    if (!out || !id) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", out ? "id" : "out");
    }
    if (o->size != sizeof *o) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "options.size is %zu, not %zu: start from ZKL_GROUP_OPTIONS_INIT",
                         o->size, sizeof *o);
    }
    int rc = zkl__path_check(path, err);
    if (rc == ZKL_OK && (strchr(id, '/') || zkl__path_join(whole, sizeof whole, path, id) == 0)) {
        rc = zkl__fail(err, ZKL_EINVAL, 0, NULL, "the id is no component of a path, or too long for this one");
    }
    rc = rc == ZKL_OK ? zkl__path_check(whole, err) : rc;
    if (rc == ZKL_OK && o->data) {
        rc = zkl__text_check(o->data, err);
    }
    rc = rc == ZKL_OK ? zkl__acl_check(o->acl, err) : rc;
    return rc == ZKL_OK ? zkl__range_check("leave_timeout_ms", o->leave_timeout_ms, 0, ZKL__DAY_MS, err) : rc;
}

/* Inside. False: no memory. */
static bool fill_in(struct zkl_group *group, const char *id, const zkl_group_options *o)
{
    const zkl_heap *heap = heap_of(group);
    const char *path = group->agent.path;
    const char *data = o->data ? o->data : zkl__session_whoami(group->agent.session);
    group->id = zkl__copy(heap, id, strlen(id));
    group->data = zkl__copy(heap, data, strlen(data));
    group->make_path = zkl__copy(heap, path, strlen(path));
    group->acl = o->acl ? zkl__acl_copy(heap, o->acl) : NULL;
    group->leave_timeout_ms = o->leave_timeout_ms;
    group->state_fn = o->state_fn;
    group->state_payload = o->state_payload;
    return group->id && group->data && group->make_path && !group->acl == !o->acl;
}

int zkl_group_new(zkl_group **out, zkl_session *session, const char *path, const char *id,
                  const zkl_group_options *options, zkl_error *err)
{
    static const zkl_group_options defaults = ZKL_GROUP_OPTIONS_INIT;
    const zkl_group_options *o = options ? options : &defaults;
    struct zkl__agent *agent;
    int rc = check_arguments(out, path, id, o, err);
    rc = rc == ZKL_OK ? zkl__agent_new(&agent, sizeof(zkl_group), &ops, session, path, o->state_fn != NULL, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    if (fill_in((struct zkl_group *)agent, id, o)) {
        *out = (struct zkl_group *)agent;
    } else {
        zkl__agent_unref(agent);
        rc = zkl__fail(err, ZKL_ENOMEM, 0, path, "no memory");
    }
    zkl__session_leave(session);
    return rc;
}

/* Inside. */
static void withdraw(struct zkl_group *group)
{
    group->wanted = group->joined = group->passed = false;
    group->told = ZKL_STATE_IDLE;
    zkl__signal_raise(&group->agent.changed);
    zkl__agent_wake(&group->agent);
}

void zkl_group_free(zkl_group *group)
{
    if (!group || zkl__session_enter(group->agent.session, true, NULL) != ZKL_OK) {
        return;
    }
    zkl_session *session = group->agent.session;
    withdraw(group);
    group->remains = !group->agent.stopped && !has_left(group);
    bool goes_on = group->remains;
    group->agent.refs += goes_on;
    zkl__session_leave(session);
    zkl__agent_free(&group->agent, goes_on);
}

/* --- joining and leaving ------------------------------------------------------------------------------------------- */

static int enter(zkl_group *group, int64_t timeout_ms, zkl_error *err)
{
    if (!group) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "group is NULL");
    }
    if (timeout_ms < ZKL_WAIT_FOREVER) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "timeout_ms is %lld; ZKL_WAIT_FOREVER is -1", (long long)timeout_ms);
    }
    return zkl__session_enter(group->agent.session, false, err);
}

static bool is_in(const struct zkl_group *group)
{
    return group->joined || group->code != ZKL_OK || !group->wanted;
}

static bool is_out(const struct zkl_group *group)
{
    return has_left(group) || group->wanted;
}

static bool is_written(const struct zkl_group *group)
{
    return !group->wanted || (group->step == MEMBER && !group->stale);
}

/* Inside. ZKL_OK: it is so. */
static int wait_until(struct zkl_group *group, bool (*so)(const struct zkl_group *group), int64_t deadline,
                      zkl_error *err)
{
    zkl_session *session = group->agent.session;
    bool more = true;
    while (!so(group) && more && !group->agent.stopped) {
        more = zkl__session_wait(session, &group->agent.changed, deadline);
    }
    if (so(group)) {
        return ZKL_OK;
    }
    if (group->agent.stopped) {
        return zkl__fail(err, ZKL_ECLOSED, 0, group->agent.path, "the session was closed meanwhile");
    }
    return zkl__fail(err, ZKL_ETIMEOUT, 0, group->agent.path, "the time is up: %s",
                     group->step == WAIT ? "another member has this id" : "no answer from the servers");
}

static int join(struct zkl_group *group, int64_t deadline, zkl_error *err)
{
    group->code = ZKL_OK;
    group->step = CREATE;
    group->wanted = true;
    zkl__agent_wake(&group->agent);
    int rc = wait_until(group, is_in, deadline, err);
    if (rc == ZKL_OK && !group->wanted) {
        return zkl__fail(err, ZKL_ECANCELED, 0, group->agent.path, "it left meanwhile");
    }
    if (rc == ZKL_OK && !group->joined) {
        rc = zkl__fail(err, group->code, group->zk_code, group->agent.path, "%s", group->why);
    }
    if (rc != ZKL_OK) {
        withdraw(group);
    }
    return rc;
}

int zkl_group_join(zkl_group *group, int64_t timeout_ms, zkl_error *err)
{
    int rc = enter(group, timeout_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = group->agent.session;
    if (group->wanted) {
        rc = zkl__fail(err, ZKL_EDEADLK, 0, group->agent.path, "joined already, or about to");
    } else if (has_rival(group, false)) {
        rc = zkl__fail(err, ZKL_ECONFLICT, 0, group->agent.path, "another object of this session has the id");
    } else {
        rc = join(group, zkl__deadline(zkl__session_now(session), timeout_ms), err);
    }
    zkl__session_leave(session);
    return rc;
}

int zkl_group_leave(zkl_group *group, zkl_error *err)
{
    int rc = enter(group, 0, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = group->agent.session;
    if (group->wanted) {
        int64_t deadline = zkl__deadline(zkl__session_now(session), group->leave_timeout_ms);
        withdraw(group);
        (void)wait_until(group, is_out, deadline, NULL); /* if not: it goes on */
    } else {
        rc = zkl__fail(err, ZKL_ENOTHELD, 0, group->agent.path, "has not joined");
    }
    zkl__session_leave(session);
    return rc;
}

int zkl_group_update(zkl_group *group, const char *data, int64_t timeout_ms, zkl_error *err)
{
    int rc = data ? zkl__text_check(data, err) : zkl__fail(err, ZKL_EINVAL, 0, NULL, "data is NULL");
    rc = rc == ZKL_OK ? enter(group, timeout_ms, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = group->agent.session;
    char *copy = zkl__copy(heap_of(group), data, strlen(data));
    if (!copy || !group->wanted) {
        rc = copy ? zkl__fail(err, ZKL_ENOTHELD, 0, group->agent.path, "has not joined")
                  : zkl__fail(err, ZKL_ENOMEM, 0, group->agent.path, "no memory");
        zkl__free(heap_of(group), copy);
    } else {
        zkl__free(heap_of(group), group->data);
        group->data = copy;
        group->stale = true;
        zkl__agent_wake(&group->agent);
        rc = wait_until(group, is_written, zkl__deadline(zkl__session_now(session), timeout_ms), err);
        if (rc == ZKL_OK && !group->wanted) {
            rc = zkl__fail(err, ZKL_ECANCELED, 0, group->agent.path, "it left meanwhile");
        }
    }
    zkl__session_leave(session);
    return rc;
}

/* --- what is so now ------------------------------------------------------------------------------------------------ */

zkl_state zkl_group_state(const zkl_group *group)
{
    zkl_state state = ZKL_STATE_IDLE;
    if (group && zkl__session_enter(group->agent.session, false, NULL) == ZKL_OK) {
        zkl_session *session = group->agent.session;
        state = state_of(group);
        zkl__session_leave(session);
    }
    return state;
}

bool zkl_group_is_member(const zkl_group *group)
{
    return zkl_group_state(group) == ZKL_STATE_HELD;
}

const char *zkl_group_path(const zkl_group *group)
{
    return group ? group->agent.path : "";
}

const char *zkl_group_id(const zkl_group *group)
{
    return group ? group->id : "";
}
