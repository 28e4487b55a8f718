/* group.c - a membership as its user sees it: made, joined, left, its data changed. */
#include "group_inside.h"

#include "acl.h"
#include "error.h"
#include "heap.h"
#include "path.h"
#include "sized.h"
#include "text.h"

#include <string.h>

ZKL__SIZED(sized, zkl_group_options, ZKL_GROUP_OPTIONS_INIT, payload, payload);

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
    group->m = (struct zkl__membership){.path = path,
                                        .id = group->id,
                                        .data = group->data,
                                        .acl = group->acl,
                                        .make_path = group->make_path};
    group->leave_timeout_ms = o->leave_timeout_ms;
    group->state_fn = o->state_fn;
    group->payload = o->payload;
    return group->id && group->data && group->make_path && !group->acl == !o->acl &&
           zkl__group_begin(group);
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
    bool made = fill_in((struct zkl_group *)agent, id, &o);
    *out = made ? (struct zkl_group *)agent : NULL;
    return zkl__agent_made(agent, made, err);
}

/* Inside. It is no member any more, by its user's will: a join or an update that is waited for has
 * ended. */
static void withdraw(struct zkl_group *group)
{
    zkl__membership_leave(&group->m);
    group->told = ZKL_STATE_IDLE;
    for (struct zkl__change *change = group->changes; change; change = change->next) {
        if (change->kind != ZKL__LEAVE) {
            change->step = ZKL__CHANGE_WITHDRAWN;
        }
    }
    zkl__group_changed(group);
    zkl__agent_wake(&group->agent, &group->m.watcher);
}

void zkl_group_free(zkl_group *group)
{
    if (!group || zkl__session_enter_even_closed(group->agent.session, NULL) != ZKL_OK) {
        return;
    }
    zkl_session *session = group->agent.session;
    withdraw(group);
    zkl__procedures_end(session, &group->agent.object, ZKL_ECANCELED);
    zkl__procedures_deliver(session, &group->agent.object);
    group->remains = group->m.watcher.core && !zkl__group_has_left(group);
    bool goes_on = group->remains;
    group->agent.refs += goes_on;
    zkl__session_leave(session);
    zkl__agent_free(&group->agent, goes_on);
}

/* --- joining, leaving, updating: as procedures ----------------------------------------------- */

/* Sets the target of the membership, a machine that sends its own requests from then on. */
static void begin_change(struct zkl__change *change)
{
    struct zkl_group *group = change->group;
    change->step = ZKL__CHANGE_BEGUN;
    switch (change->kind) {
    case ZKL__JOIN:
        zkl__membership_join(&group->m);
        break;
    case ZKL__LEAVE:
        withdraw(group);
        break;
    case ZKL__UPDATE:
        zkl__free(zkl__group_heap(group), group->data);
        group->data = change->data;
        change->data = NULL;
        zkl__membership_update(&group->m, group->data);
        break;
    }
    zkl__agent_wake(&group->agent, &group->m.watcher);
}

static bool is_so(const struct zkl__change *change)
{
    const struct zkl_group *group = change->group;
    switch (change->kind) {
    case ZKL__JOIN:
        return group->m.joined;
    case ZKL__LEAVE:
        return zkl__group_has_left(group) || group->m.wanted;
    default:
        return zkl__member_settled(&group->m);
    }
}

static int advance(struct zkl__procedure *procedure, zkl_error *err)
{
    struct zkl__change *change = (struct zkl__change *)procedure;
    const struct zkl_group *group = change->group;
    if (change->step == ZKL__CHANGE_NEW) {
        begin_change(change);
    }
    if (change->step == ZKL__CHANGE_WITHDRAWN) {
        return zkl__fail(err, ZKL_ECANCELED, 0, group->agent.path, "it left meanwhile");
    }
    if (is_so(change)) {
        return ZKL_OK;
    }
    if (change->kind == ZKL__JOIN && group->m.code != ZKL_OK) {
        return zkl__fail(err, group->m.code, group->m.zk_code, group->agent.path, "%s",
                         group->m.why);
    }
    procedure->late = group->m.step == ZKL__MEMBER_WAIT
                          ? "the time is up: another member has this id"
                          : "the time is up: no answer from the servers";
    return ZKL__PENDING;
}

/* A join that has failed is not tried on. A leave goes on, whatever ends the wait for it. */
static int explain(struct zkl__procedure *procedure, int rc, const zkl_error *why, zkl_error *err)
{
    struct zkl__change *change = (struct zkl__change *)procedure;
    if (change->kind == ZKL__LEAVE) {
        return ZKL_OK;
    }
    if (change->kind == ZKL__JOIN && change->step == ZKL__CHANGE_BEGUN) {
        withdraw(change->group);
    }
    return zkl__fail(err, rc, why->zk_code, change->group->agent.path, "%s", why->text);
}

static void end(struct zkl__procedure *procedure)
{
    struct zkl__change *change = (struct zkl__change *)procedure;
    struct zkl_group *group = change->group;
    struct zkl__change **at = &group->changes;
    while (*at != change) {
        at = &(*at)->next;
    }
    *at = change->next;
    zkl__free(zkl__group_heap(group), change->data);
    zkl__agent_unref(&group->agent);
}

/* Inside. A call that waits needs no memory but that of an update's data, which it takes. */
static int change_membership(struct zkl_group *group, enum zkl__change_kind kind, char *data,
                             int64_t timeout_ms, const struct zkl__later *later, zkl_error *err)
{
    static const struct zkl__procedure_ops ops = {advance, explain, end};
    zkl_session *session = group->agent.session;
    struct zkl__change own = {.procedure = {.session = session}};
    struct zkl__change *change = later ? zkl__procedure_new(session, sizeof *change) : &own;
    if (!change) {
        zkl__free(zkl__group_heap(group), data);
        return zkl__fail(err, ZKL_ENOMEM, 0, group->agent.path, "no memory");
    }
    change->procedure.ops = &ops;
    change->procedure.owner = &group->agent.object;
    change->procedure.path = group->agent.path;
    change->procedure.finishes = kind == ZKL__LEAVE;
    zkl__procedure_limit(&change->procedure, timeout_ms);
    change->kind = kind;
    change->data = data;
    change->group = group;
    change->next = group->changes;
    group->changes = change;
    group->agent.refs++; /* it may be freed meanwhile */
    return later ? zkl__procedure_start(&change->procedure, later->done, later->payload, err)
                 : zkl__procedure_run(&change->procedure, err);
}

/* --- joining, leaving, updating: the calls --------------------------------------------------- */

static int enter(zkl_group *group, int64_t timeout_ms, zkl_error *err)
{
    if (!group) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "group is NULL");
    }
    int rc = zkl__timeout_check(timeout_ms, err);
    return rc == ZKL_OK ? zkl__session_enter(group->agent.session, err) : rc;
}

static int join(zkl_group *group, int64_t timeout_ms, const struct zkl__later *later,
                zkl_error *err)
{
    int rc = enter(group, timeout_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = group->agent.session;
    if (group->m.wanted) {
        rc = zkl__fail(err, ZKL_EDEADLK, 0, group->agent.path, "joined already, or about to");
    } else if (zkl__membership_has_rival(&group->m, false)) {
        rc = zkl__fail(err, ZKL_ECONFLICT, 0, group->agent.path,
                       "another object of this session has the id");
    } else {
        rc = change_membership(group, ZKL__JOIN, NULL, timeout_ms, later, err);
    }
    zkl__session_leave(session);
    return rc;
}

static int leave(zkl_group *group, const struct zkl__later *later, zkl_error *err)
{
    int rc = enter(group, 0, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = group->agent.session;
    if (group->m.wanted) {
        rc = change_membership(group, ZKL__LEAVE, NULL, group->leave_timeout_ms, later, err);
        if (rc != ZKL_OK && !later) { /* nothing to wait with: it leaves all the same */
            withdraw(group);
            rc = ZKL_OK;
        }
    } else {
        rc = zkl__fail(err, ZKL_ENOTHELD, 0, group->agent.path, "has not joined");
    }
    zkl__session_leave(session);
    return rc;
}

/* Inside. */
static int begin_update(zkl_group *group, const char *data, int64_t timeout_ms,
                        const struct zkl__later *later, zkl_error *err)
{
    if (!group->m.wanted) {
        return zkl__fail(err, ZKL_ENOTHELD, 0, group->agent.path, "has not joined");
    }
    char *copy = zkl__copy(zkl__group_heap(group), data, strlen(data));
    return copy ? change_membership(group, ZKL__UPDATE, copy, timeout_ms, later, err)
                : zkl__fail(err, ZKL_ENOMEM, 0, group->agent.path, "no memory");
}

static int update(zkl_group *group, const char *data, int64_t timeout_ms,
                  const struct zkl__later *later, zkl_error *err)
{
    int rc = data ? zkl__text_check("data", data, err)
                  : zkl__fail(err, ZKL_EINVAL, 0, NULL, "data is NULL");
    rc = rc == ZKL_OK ? enter(group, timeout_ms, err) : rc;
    if (rc == ZKL_OK) {
        zkl_session *session = group->agent.session;
        rc = begin_update(group, data, timeout_ms, later, err);
        zkl__session_leave(session);
    }
    return rc;
}

int zkl_group_join(zkl_group *group, int64_t timeout_ms, zkl_error *err)
{
    return join(group, timeout_ms, NULL, err);
}

int zkl_group_join_async(zkl_group *group, int64_t timeout_ms, zkl_done_fn done, void *payload,
                         zkl_error *err)
{
    const struct zkl__later later = {done, payload};
    return join(group, timeout_ms, &later, err);
}

int zkl_group_leave(zkl_group *group, zkl_error *err)
{
    return leave(group, NULL, err);
}

int zkl_group_leave_async(zkl_group *group, zkl_done_fn done, void *payload, zkl_error *err)
{
    const struct zkl__later later = {done, payload};
    return leave(group, &later, err);
}

int zkl_group_update(zkl_group *group, const char *data, int64_t timeout_ms, zkl_error *err)
{
    return update(group, data, timeout_ms, NULL, err);
}

int zkl_group_update_async(zkl_group *group, const char *data, int64_t timeout_ms, zkl_done_fn done,
                           void *payload, zkl_error *err)
{
    const struct zkl__later later = {done, payload};
    return update(group, data, timeout_ms, &later, err);
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
