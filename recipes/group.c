/* group.c - a membership as its user sees it: made, joined, left, its data changed. */
#include "group_inside.h"

#include "acl.h"
#include "error.h"
#include "heap.h"
#include "path.h"
#include "sized.h"

#include <string.h>

ZKL__SIZED(sized, zkl_group_options, ZKL_GROUP_OPTIONS_INIT, state_payload, state_payload);

static int check_arguments(zkl_group **out, const char *path, const char *id,
                           const zkl_group_options *o, zkl_error *err)
{
    char whole[ZKL_PATH_MAX + 1];
    if (!out || !id) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", out ? "id" : "out");
    }
    int rc = zkl__path_check(path, err);
    if (rc == ZKL_OK && (strchr(id, '/') || zkl__path_join(whole, sizeof whole, path, id) == 0)) {
        rc = zkl__fail(err, ZKL_EINVAL, 0, NULL,
                       "the id is no component of a path, or too long for this one");
    }
    rc = rc == ZKL_OK ? zkl__path_check(whole, err) : rc;
    if (rc == ZKL_OK && o->data) {
        rc = zkl__text_check("data", o->data, err);
    }
    rc = rc == ZKL_OK ? zkl__acl_check(o->acl, err) : rc;
    return rc == ZKL_OK
               ? zkl__range_check("leave_timeout_ms", o->leave_timeout_ms, 0, ZKL__DAY_MS, err)
               : rc;
}

/* Inside. False: no memory. */
static bool fill_in(struct zkl_group *group, const char *id, const zkl_group_options *o)
{
    const zkl_heap *heap = zkl__group_heap(group);
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
    ZKL__CLEAR(out);
    zkl_group_options o;
    struct zkl__agent *agent;
    int rc = zkl__sized_take(&o, options, &sized, err);
    rc = rc == ZKL_OK ? check_arguments(out, path, id, &o, err) : rc;
    rc = rc == ZKL_OK ? zkl__agent_new(&agent, sizeof(zkl_group), &zkl__group_ops, session, path,
                                       o.state_fn != NULL, err)
                      : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    if (fill_in((struct zkl_group *)agent, id, &o)) {
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
    if (!group || zkl__session_enter_even_closed(group->agent.session, NULL) != ZKL_OK) {
        return;
    }
    zkl_session *session = group->agent.session;
    withdraw(group);
    group->remains = !group->agent.stopped && !zkl__group_has_left(group);
    bool goes_on = group->remains;
    group->agent.refs += goes_on;
    zkl__session_leave(session);
    zkl__agent_free(&group->agent, goes_on);
}

/* --- joining and leaving --------------------------------------------------------------------- */

static int enter(zkl_group *group, int64_t timeout_ms, zkl_error *err)
{
    if (!group) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "group is NULL");
    }
    int rc = zkl__timeout_check(timeout_ms, err);
    return rc == ZKL_OK ? zkl__session_enter(group->agent.session, err) : rc;
}

static bool is_in(const struct zkl_group *group)
{
    return group->joined || group->code != ZKL_OK || !group->wanted;
}

static bool is_out(const struct zkl_group *group)
{
    return zkl__group_has_left(group) || group->wanted;
}

static bool is_written(const struct zkl_group *group)
{
    return !group->wanted || (group->step == MEMBER && !group->stale);
}

/* Inside. ZKL_OK: it is so. */
static int wait_until(struct zkl_group *group, bool (*so)(const struct zkl_group *group),
                      int64_t deadline, zkl_error *err)
{
    zkl_session *session = group->agent.session;
    bool more = true, stoppable = so != is_out; /* a leave goes on */
    while (!so(group) && more && !group->agent.stopped &&
           !(stoppable && zkl__session_stopped(session))) {
        more = zkl__session_wait(session, &group->agent.changed, deadline);
    }
    if (so(group)) {
        return ZKL_OK;
    }
    if (group->agent.stopped) {
        return zkl__fail(err, ZKL_ECLOSED, 0, group->agent.path,
                         "the session was closed meanwhile");
    }
    if (stoppable && zkl__session_stopped(session)) {
        return zkl__fail(err, ZKL_ECANCELED, 0, group->agent.path, "the stop token is raised");
    }
    return zkl__fail(err, ZKL_ETIMEOUT, 0, group->agent.path, "the time is up: %s",
                     group->step == WAIT ? "another member has this id"
                                         : "no answer from the servers");
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
    } else if (zkl__group_has_rival(group, false)) {
        rc = zkl__fail(err, ZKL_ECONFLICT, 0, group->agent.path,
                       "another object of this session has the id");
    } else {
        group->agent.refs++; /* it may be freed meanwhile */
        rc = join(group, zkl__deadline(zkl__session_now(session), timeout_ms), err);
        zkl__agent_unref(&group->agent);
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
        group->agent.refs++;
        (void)wait_until(group, is_out, deadline, NULL); /* if not: it goes on */
        zkl__agent_unref(&group->agent);
    } else {
        rc = zkl__fail(err, ZKL_ENOTHELD, 0, group->agent.path, "has not joined");
    }
    zkl__session_leave(session);
    return rc;
}

int zkl_group_update(zkl_group *group, const char *data, int64_t timeout_ms, zkl_error *err)
{
    int rc = data ? zkl__text_check("data", data, err)
                  : zkl__fail(err, ZKL_EINVAL, 0, NULL, "data is NULL");
    rc = rc == ZKL_OK ? enter(group, timeout_ms, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = group->agent.session;
    char *copy = zkl__copy(zkl__group_heap(group), data, strlen(data));
    if (!copy || !group->wanted) {
        rc = copy ? zkl__fail(err, ZKL_ENOTHELD, 0, group->agent.path, "has not joined")
                  : zkl__fail(err, ZKL_ENOMEM, 0, group->agent.path, "no memory");
        zkl__free(zkl__group_heap(group), copy);
    } else {
        zkl__free(zkl__group_heap(group), group->data);
        group->data = copy;
        group->stale = true;
        zkl__agent_wake(&group->agent);
        group->agent.refs++;
        rc = wait_until(group, is_written, zkl__deadline(zkl__session_now(session), timeout_ms),
                        err);
        if (rc == ZKL_OK && !group->wanted) {
            rc = zkl__fail(err, ZKL_ECANCELED, 0, group->agent.path, "it left meanwhile");
        }
        zkl__agent_unref(&group->agent);
    }
    zkl__session_leave(session);
    return rc;
}

/* --- what is so now -------------------------------------------------------------------------- */

zkl_state zkl_group_state(const zkl_group *group)
{
    zkl_state state = ZKL_STATE_IDLE;
    if (group && zkl__session_enter(group->agent.session, NULL) == ZKL_OK) {
        zkl_session *session = group->agent.session;
        state = zkl__group_state(group);
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
