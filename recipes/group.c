/* group.c - the members of a group, each an ephemeral znode that is created again whenever it is
 * deleted. protocol/watcher.c decides which requests a membership sends and what a lost reply
 * means; this file has the public calls and the reports to the user. */

#include "call.h"
#include "name.h"
#include "options.h"

#include <zklock/group.h>

#include <string.h>

/* === observing ================================================================================ */

/* Reports each change of the members. protocol/watcher.c reads them. */

struct zkl_group_observer {
    struct zkl__object object; /* first */
    struct zkl__member_list list;
    bool warned; /* the log says that the path is in use as a lock */
    zkl_group_changed_fn changed;
    void *payload;
};

static bool same(const void *some, const void *others)
{
    const struct zkl__names *a = some, *b = others;
    bool so = a->count == b->count;
    for (size_t i = 0; so && i < a->count; i++) {
        so = strcmp(a->all[i], b->all[i]) == 0;
    }
    return so;
}

/* In a step. */
static void on_members(void *owner, struct zkl__names *ids)
{
    struct zkl_group_observer *watcher = owner;
    for (size_t i = 0; i < ids->count && !watcher->warned; i++) {
        watcher->warned = zkl__name_parse(ids->all[i]).uuid;
        if (watcher->warned) {
            zkl__session_log(watcher->object.session, ZKL_LOG_WARN, "group", watcher->object.path,
                             0,
                             "the path is in use as a lock or an election, too: whoever queues is "
                             "shown as a member");
        }
    }
    zkl__object_see(&watcher->object, ids);
}

static void report_members(struct zkl__object *object)
{
    struct zkl_group_observer *watcher = (struct zkl_group_observer *)object;
    const struct zkl__names *news = zkl__object_news(object, same);
    if (news) {
        watcher->changed(watcher, news->all, news->count, watcher->payload);
    }
}

static const struct zkl__object_ops ops = {.report = report_members};

int zkl_group_observe(zkl_group_observer **out, zkl_session *session, const char *path,
                      zkl_group_changed_fn changed, void *payload, zkl_error *err)
{
    ZKL__CLEAR(out);
    if (!out || !changed) {
        return zkl__fail_null(err, out ? "changed" : "out");
    }
    struct zkl__object *object;
    int rc = zkl__object_new(&object, sizeof(zkl_group_observer), &ops, session, path, true, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_group_observer *watcher = (zkl_group_observer *)object;
    watcher->changed = changed;
    watcher->payload = payload;
    watcher->list.watcher.dir = object->path;
    watcher->list.show = on_members;
    object->watcher = &watcher->list.watcher;
    zkl__watcher_begin(object->watcher, session->core, &zkl__member_list_ops, watcher);
    *out = watcher; /* before changed can be called with it */
    zkl__object_wake(object);
    zkl__session_leave(session);
    return ZKL_OK;
}

void zkl_group_observer_free(zkl_group_observer *watcher)
{
    zkl__object_free((struct zkl__object *)watcher, false);
}

/* === members ================================================================================== */

struct zkl_group {
    struct zkl__object object; /* first */
    int64_t leave_timeout_ms;
    zkl_group_state_fn state_fn;
    void *payload;
    zkl_state reported;
    unsigned departures;      /* how often it has left */
    struct zkl__membership m; /* what it wants, and what the servers have of it. Its strings and its
                                 acl are ours */
    bool outlives_handle;     /* the user has freed it; it lives on until it has left */
};

static zkl_state group_state(const struct zkl_group *group)
{
    if (!group->m.wanted) {
        return ZKL_STATE_IDLE;
    }
    return zkl__member_stands(&group->m) ? ZKL_STATE_HELD : ZKL_STATE_WAITING;
}

/* --- events of the membership ---------------------------------------------------------------- */

/* In a step, as the next one. */
static void on_membership_changed(void *owner)
{
    struct zkl_group *group = owner;
    zkl__calls_poke(&group->object);
    if (group->state_fn) {
        zkl__object_post(&group->object);
    }
}

/* It has left: the reference of a freed group ends. */
static void on_left(void *owner)
{
    struct zkl_group *group = owner;
    if (group->outlives_handle) {
        group->outlives_handle = false;
        zkl__object_unref(&group->object);
    }
}

/* Session mutex not held. Reports each state once; the end of a membership only to a member. */
static void report_state(struct zkl__object *object)
{
    struct zkl_group *group = (struct zkl_group *)object;
    zkl__session_enter_if_ours(object->session);
    zkl_state now = group_state(group);
    bool news = !object->freed && now != group->reported &&
                (now == ZKL_STATE_HELD || group->reported == ZKL_STATE_HELD);
    group->reported = now;
    zkl__session_leave(object->session);
    if (news && now != ZKL_STATE_IDLE) {
        group->state_fn(group, now, group->payload);
    }
}

static void stop_membership(struct zkl__object *object)
{
    struct zkl_group *group = (struct zkl_group *)object;
    zkl__calls_poke(&group->object);
    on_left(group);
}

static void destroy(struct zkl__object *object)
{
    const struct zkl_group *group = (const struct zkl_group *)object;
    const zkl_heap *heap = &object->session->heap;
    zkl__free(heap, group->m.id);
    zkl__free(heap, group->m.data);
    zkl__free(heap, group->m.acl);
    zkl__free(heap, group->m.make_path);
}

static const struct zkl__object_ops group_ops = {
    .stop = stop_membership,
    .report = report_state,
    .destroy = destroy,
};

/* --- new and free ---------------------------------------------------------------------------- */

ZKL__SIZED(sized, zkl_group_options, ZKL_GROUP_OPTIONS_INIT, payload, payload);

int zkl_group_new(zkl_group **out, zkl_session *session, const char *path, const char *id,
                  const zkl_group_options *options, zkl_error *err)
{
    ZKL__CLEAR(out);
    zkl_group_options o;
    struct zkl__object *object;
    char whole[ZKL_PATH_MAX + 1];
    int rc = zkl__sized_take(&o, options, &sized, err);
    if (rc == ZKL_OK && (!out || !id)) {
        rc = zkl__fail_null(err, out ? "id" : "out");
    }
    rc = rc == ZKL_OK ? zkl__path_check(path, err) : rc;
    if (rc == ZKL_OK && (strchr(id, '/') || zkl__path_join(whole, sizeof whole, path, id) == 0)) {
        rc = zkl__fail_at(err, ZKL_EINVAL, NULL,
                          "the id is no component of a path, or too long for this one");
    }
    rc = rc == ZKL_OK ? zkl__path_check(whole, err) : rc;
    if (rc == ZKL_OK && o.data) {
        rc = zkl__text_check("data", o.data, err);
    }
    rc = rc == ZKL_OK ? zkl__acl_check(o.acl, err) : rc;
    rc = rc == ZKL_OK
             ? zkl__range_check("leave_timeout_ms", o.leave_timeout_ms, 0, ZKL__DAY_MS, err)
             : rc;
    rc = rc == ZKL_OK ? zkl__object_new(&object, sizeof(zkl_group), &group_ops, session, path,
                                        o.state_fn != NULL, err)
                      : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_group *group = (zkl_group *)object;
    const zkl_heap *heap = &session->heap;
    struct zkl__membership *m = &group->m;
    *m = (struct zkl__membership){.note = on_membership_changed,
                                  .rests = on_left,
                                  .path = object->path,
                                  .id = zkl__copy_text(heap, id),
                                  .data = zkl__copy_text(heap, o.data ? o.data : session->whoami),
                                  .acl = o.acl ? zkl__acl_copy(heap, o.acl) : NULL,
                                  .make_path = zkl__copy_text(heap, path)};
    object->watcher = &m->watcher;
    group->leave_timeout_ms = o.leave_timeout_ms;
    group->state_fn = o.state_fn;
    group->payload = o.payload;
    if (m->id && m->data && m->make_path && !m->acl == !o.acl) {
        m->queue = zkl__peers_enroll(session->core, whole, &m->peer);
    }
    if (m->queue) {
        zkl__watcher_begin(&m->watcher, session->core, &zkl__membership_ops, group);
        *out = group;
    } else {
        rc = zkl__fail_at(err, ZKL_ENOMEM, path, "no memory");
        zkl__object_unref(object);
    }
    zkl__session_leave(session);
    return rc;
}

/* Session mutex held. The user wants no membership any more, so a pending join or update ends. */
static void begin_leaving(struct zkl_group *group)
{
    zkl__membership_leave(&group->m);
    group->reported = ZKL_STATE_IDLE;
    group->departures++;
    zkl__calls_poke(&group->object);
    zkl__object_wake(&group->object);
}

void zkl_group_free(zkl_group *group)
{
    if (!group || !zkl__session_enter_if_ours(group->object.session)) {
        return;
    }
    zkl_session *session = group->object.session;
    group->object.freed = true; /* what is called back below may not join again */
    begin_leaving(group);
    zkl__calls_finish(&group->object);
    group->outlives_handle = group->m.watcher.core && group->m.node != ZKL__MEMBER_NONE;
    bool goes_on = group->outlives_handle;
    group->object.refs += goes_on;
    zkl__session_leave(session);
    zkl__object_free(&group->object, goes_on);
}

/* --- joining, leaving, updating -------------------------------------------------------------- */

/* Each call changes what the membership wants, and waits until the servers have it. The membership
 * sends the requests, also again after a lost reply, and also when no call waits any more
 * (protocol/watcher.c). */
struct change {
    struct zkl__call call; /* first */
    /* An update's data in the user's memory, until the call has begun. Then the call's block is our
     * copy, until the membership has it. */
    const char *given;
    unsigned departures; /* the group's, when the call began */
    bool joining;        /* a join that has not succeeded yet */
};

/* Waits until is_so, until the servers refuse it, or until the group has left. */
static int await_member(struct change *change, bool is_so)
{
    struct zkl__call *call = &change->call;
    const zkl_group *group = (const zkl_group *)call->owner;
    const struct zkl__membership *m = &group->m;
    if (change->departures != group->departures) {
        FAIL(call, ZKL_ECANCELED, "it left meanwhile");
    }
    if (!is_so && m->code != ZKL_OK) {
        return zkl__fail(call->err, m->code, m->zk_code, NULL, "%s", m->why);
    }
    if (!is_so && change->joining && call->session->status.stopping) {
        FAIL(call, ZKL_ECLOSED, "the session is being closed");
    }
    call->late = m->step == ZKL__MEMBER_WAIT ? "the time is up: another member has this id"
                                             : "the time is up: no response from the servers";
    return is_so ? ZKL_OK : ZKL__PENDING;
}

static int run_join(struct zkl__call *call)
{
    struct change *change = (struct change *)call;
    zkl_group *group = (zkl_group *)call->owner;
    CALL_BEGIN(call);
    change->departures = group->departures;
    change->joining = true;
    zkl__membership_join(&group->m);
    zkl__object_wake(&group->object);
    AWAIT_CALL(call, await_member(change, group->m.joined));
    change->joining = false;
    CALL_END(call);
}

/* Until it has left, or has joined again. When the call ends before, the membership goes on
 * deleting its znode. */
static int run_leave(struct zkl__call *call)
{
    zkl_group *group = (zkl_group *)call->owner;
    CALL_BEGIN(call);
    begin_leaving(group);
    AWAIT_UNTIL(call, group->m.node == ZKL__MEMBER_NONE || group->m.wanted);
    CALL_END(call);
}

static int run_update(struct zkl__call *call)
{
    struct change *change = (struct change *)call;
    zkl_group *group = (zkl_group *)call->owner;
    struct zkl__membership *m = &group->m;
    CALL_BEGIN(call);
    change->departures = group->departures;
    zkl__free(&call->session->heap, m->data);
    m->data = call->block;
    call->block = NULL;
    m->stale = true;
    m->code = ZKL_OK;
    zkl__object_wake(&group->object);
    AWAIT_CALL(call, await_member(change, zkl__member_settled(m)));
    CALL_END(call);
}

static int begin_join(struct zkl__call *call)
{
    const zkl_group *group = (const zkl_group *)call->owner;
    if (group->object.freed) {
        return zkl__fail_freed(call->err, NULL);
    }
    if (group->m.wanted) {
        FAIL(call, ZKL_EDEADLK, "joined already, or about to");
    }
    if (zkl__membership_has_rival(&group->m, false)) {
        FAIL(call, ZKL_ECONFLICT, "another object of this session has the id");
    }
    return ZKL_OK;
}

/* The departure goes on, whatever ends the wait for it. */
static int end_leave(struct zkl__call *call, int rc)
{
    (void)call, (void)rc;
    return ZKL_OK;
}

/* Of a leave or an update. */
static int begin_change(struct zkl__call *call)
{
    struct change *change = (struct change *)call;
    const zkl_group *group = (const zkl_group *)call->owner;
    if (!group->m.wanted) {
        FAIL(call, ZKL_ENOTHELD, "has not joined");
    }
    if (change->given) {
        call->block = zkl__copy_text(&call->session->heap, change->given);
    }
    if (!change->given != !call->block) {
        FAIL(call, ZKL_ENOMEM, "no memory");
    }
    return ZKL_OK;
}

/* A join that has failed is not tried again. */
static int end_join(struct zkl__call *call, int rc)
{
    const struct change *change = (const struct change *)call;
    zkl_group *group = (zkl_group *)call->owner;
    if (change->joining && change->departures == group->departures) {
        begin_leaving(group);
    }
    return rc;
}

static int change_membership(struct change *given, int64_t timeout_ms, zkl_done_fn done,
                             void *payload, zkl_error *err)
{
    const struct zkl__object *object = given->call.owner;
    return object ? zkl__call_go(given, sizeof *given, object->session, object->path, timeout_ms,
                                 done, payload, err)
                  : zkl__fail_null(err, "group");
}

int zkl_group_join_async(zkl_group *group, int64_t timeout_ms, zkl_done_fn done, void *payload,
                         zkl_error *err)
{
    struct change given = {.call = {.run = run_join,
                                    .begin = begin_join,
                                    .end = end_join,
                                    .owner = (struct zkl__object *)group}};
    return change_membership(&given, timeout_ms, done, payload, err);
}

int zkl_group_leave_async(zkl_group *group, zkl_done_fn done, void *payload, zkl_error *err)
{
    struct change given = {.call = {.run = run_leave,
                                    .begin = begin_change,
                                    .end = end_leave,
                                    .owner = (struct zkl__object *)group,
                                    .finishes = true}};
    return change_membership(&given, group ? group->leave_timeout_ms : 0, done, payload, err);
}

int zkl_group_update_async(zkl_group *group, const char *data, int64_t timeout_ms, zkl_done_fn done,
                           void *payload, zkl_error *err)
{
    struct change given = {
        .call = {.run = run_update, .begin = begin_change, .owner = (struct zkl__object *)group},
        .given = data};
    int rc = data ? zkl__text_check("data", data, err) : zkl__fail_null(err, "data");
    return rc == ZKL_OK ? change_membership(&given, timeout_ms, done, payload, err) : rc;
}

int zkl_group_join(zkl_group *group, int64_t timeout_ms, zkl_error *err)
{
    return zkl_group_join_async(group, timeout_ms, zkl__caller_waits, NULL, err);
}

int zkl_group_leave(zkl_group *group, zkl_error *err)
{
    return zkl_group_leave_async(group, zkl__caller_waits, NULL, err);
}

int zkl_group_update(zkl_group *group, const char *data, int64_t timeout_ms, zkl_error *err)
{
    return zkl_group_update_async(group, data, timeout_ms, zkl__caller_waits, NULL, err);
}

/* --- queries of the current state ------------------------------------------------------------- */

zkl_state zkl_group_state(const zkl_group *group)
{
    zkl_state state = ZKL_STATE_IDLE;
    if (group && zkl__session_enter(group->object.session, NULL) == ZKL_OK) {
        state = group_state(group);
        zkl__session_leave(group->object.session);
    }
    return state;
}
