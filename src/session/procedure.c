#include "procedure.h"

#include "inside.h"

#include "error.h"
#include "heap.h"

#include <string.h>

static void on_stop(void *owner)
{
    struct zkl__procedure *procedure = owner;
    procedure->stopped = true;
    zkl__procedure_poke(procedure);
}

/* What ends any procedure that has no result of its own yet. */
static int end_from_outside(const struct zkl__procedure *procedure, zkl_error *err)
{
    const struct zkl__status *status = zkl__session_status(procedure->session);
    if (status->closing || status->state == ZKL_SESSION_CLOSED) {
        return zkl__fail(err, ZKL_ECLOSED, 0, NULL, "the session was closed meanwhile");
    }
    if (procedure->stopped) {
        return zkl__fail(err, ZKL_ECANCELED, 0, NULL, "the stop token is raised");
    }
    if (zkl__clock_now() >= procedure->deadline) {
        int code = procedure->late_code != ZKL_OK ? procedure->late_code : ZKL_ETIMEOUT;
        return zkl__fail(err, code, 0, NULL, "%s",
                         procedure->late ? procedure->late : "no answer from the servers in time");
    }
    return ZKL__PENDING;
}

static int explain(struct zkl__procedure *procedure, int rc, const zkl_error *why, zkl_error *err)
{
    if (rc == ZKL_OK || rc == ZKL__PENDING) {
        return rc;
    }
    if (procedure->goes_on) {
        return ZKL_OK;
    }
    if (procedure->ops->explain) {
        return procedure->ops->explain(procedure, rc, why, err);
    }
    return zkl__fail(err, rc, why->zk_code, why->path[0] ? why->path : procedure->path, "%s",
                     why->text);
}

static int advance(struct zkl__procedure *procedure, zkl_error *err)
{
    zkl_error why = {.code = ZKL_OK};
    procedure->again = INT64_MAX;
    int rc = procedure->ops->advance(procedure, &why);
    rc = rc == ZKL__PENDING ? end_from_outside(procedure, &why) : rc;
    return explain(procedure, rc, &why, err);
}

static int64_t next_look(const struct zkl__procedure *procedure)
{
    return procedure->again < procedure->deadline ? procedure->again : procedure->deadline;
}

static int begin_stops(struct zkl__procedure *procedure, zkl_error *err)
{
    zkl_error why = {.code = ZKL_OK};
    int rc = procedure->finishes ? ZKL_OK
                                 : zkl__stops_begin(procedure->session, &procedure->stops,
                                                    procedure->stop, on_stop, procedure, &why);
    return rc == ZKL_OK ? ZKL_OK : zkl__fail(err, rc, why.zk_code, procedure->path, "%s", why.text);
}

/* --- blocking -------------------------------------------------------------------------------- */

static void link_procedure(struct zkl__procedure *procedure)
{
    zkl__list_prepend(&procedure->session->procedures, &procedure->in_session);
    if (procedure->owner) {
        zkl__list_prepend(&procedure->owner->procedures, &procedure->in_owner);
    }
}

static void leave_owner(struct zkl__procedure *procedure)
{
    if (procedure->owner) {
        zkl__list_remove(&procedure->owner->procedures, &procedure->in_owner);
        procedure->owner = NULL;
    }
}

static void unlink_procedure(struct zkl__procedure *procedure)
{
    zkl__list_remove(&procedure->session->procedures, &procedure->in_session);
    leave_owner(procedure);
}

/* Of this owner; NULL: of the session. */
static struct zkl__procedure *first_of(const zkl_session *session, const struct zkl__object *owner)
{
    struct zkl__link *at = owner ? owner->procedures.first : session->procedures.first;
    return !at     ? NULL
           : owner ? ZKL__OWNER(at, struct zkl__procedure, in_owner)
                   : ZKL__OWNER(at, struct zkl__procedure, in_session);
}

static struct zkl__procedure *next_of(const struct zkl__procedure *procedure,
                                      const struct zkl__object *owner)
{
    struct zkl__link *at = owner ? procedure->in_owner.next : procedure->in_session.next;
    return !at     ? NULL
           : owner ? ZKL__OWNER(at, struct zkl__procedure, in_owner)
                   : ZKL__OWNER(at, struct zkl__procedure, in_session);
}

int zkl__procedure_run(struct zkl__procedure *procedure, zkl_error *err)
{
    int rc = zkl__signal_init(&procedure->changed);
    if (rc != ZKL_OK) {
        procedure->ops->end(procedure);
        return zkl__fail(err, rc, 0, NULL, "no memory to wait with");
    }
    procedure->blocking = true;
    link_procedure(procedure);
    rc = begin_stops(procedure, err);
    rc = rc == ZKL_OK ? advance(procedure, err) : rc;
    while (rc == ZKL__PENDING) {
        zkl__session_wait(procedure->session, &procedure->changed, next_look(procedure));
        rc = advance(procedure, err);
    }
    zkl__stops_end(procedure->session, &procedure->stops);
    unlink_procedure(procedure); /* its owner may go with its end */
    procedure->ops->end(procedure);
    zkl__signal_deinit(&procedure->changed);
    return rc;
}

/* --- memory ---------------------------------------------------------------------------------- */

void *zkl__procedure_new(zkl_session *session, size_t size)
{
    struct zkl__procedure *procedure = zkl__alloc(&session->heap, size);
    if (procedure) {
        const size_t before = offsetof(struct zkl__procedure, err);
        const size_t behind = before + sizeof procedure->err;
        memset(procedure, 0, before);
        memset((char *)procedure + behind, 0, size - behind);
        procedure->session = session;
    }
    return procedure;
}

static void free_procedure(struct zkl__procedure *procedure)
{
    const zkl_heap *heap = &procedure->session->heap;
    zkl__free(heap, procedure->path_copy);
    zkl__free(heap, procedure);
}

void *zkl__procedure_make(zkl_session *session, size_t size, const struct zkl__procedure_ops *ops,
                          const char *path, int64_t timeout_ms, zkl_error *err)
{
    struct zkl__procedure *procedure = zkl__procedure_new(session, size);
    char *copy = procedure ? zkl__copy(&session->heap, path, strlen(path)) : NULL;
    if (!copy) {
        zkl__free(&session->heap, procedure);
        (void)zkl__fail(err, ZKL_ENOMEM, 0, path, "no memory for the call");
        return NULL;
    }
    procedure->ops = ops;
    procedure->path = procedure->path_copy = copy;
    zkl__procedure_limit(procedure, timeout_ms);
    return procedure;
}

void zkl__procedure_limit(struct zkl__procedure *procedure, int64_t timeout_ms)
{
    procedure->deadline = zkl__session_deadline(procedure->session, timeout_ms);
}

int zkl__procedure_drop(struct zkl__procedure *procedure, int rc)
{
    procedure->ops->end(procedure);
    free_procedure(procedure);
    return rc;
}

/* --- asynchronous ---------------------------------------------------------------------------- */

static void finish(struct zkl__procedure *procedure, int rc)
{
    zkl_session *session = procedure->session;
    procedure->over = true;
    procedure->code = rc;
    if (rc == ZKL_OK) {
        procedure->err = (zkl_error){.code = ZKL_OK};
    }
    zkl__stops_end(session, &procedure->stops);
    zkl__alarms_unset(&session->alarms, &procedure->alarm);
    procedure->ops->end(procedure);
    zkl__callbacks_post(&session->callbacks, &procedure->callback);
}

static void go_on(void *owner)
{
    struct zkl__procedure *procedure = owner;
    zkl_session *session = procedure->session;
    int rc = advance(procedure, &procedure->err);
    if (rc != ZKL__PENDING) {
        finish(procedure, rc);
    } else if (!procedure->alarm.timer.set) { /* else something came of the steps just made */
        zkl__alarms_set(&session->alarms, &procedure->alarm, next_look(procedure));
    }
    zkl__session_arm(session);
}

/* Not inside. */
static void run_done(void *owner)
{
    struct zkl__procedure *procedure = owner;
    zkl_session *session = procedure->session;
    procedure->done(procedure->code, &procedure->err, procedure->payload);
    if (zkl__session_enter_even_closed(session, NULL) == ZKL_OK) {
        unlink_procedure(procedure);
        free_procedure(procedure);
        zkl__session_drop(session);
        zkl__session_leave(session);
    }
}

int zkl__procedure_start(struct zkl__procedure *procedure, zkl_done_fn done, void *payload,
                         zkl_error *err)
{
    zkl_session *session = procedure->session;
    int rc = done ? ZKL_OK : zkl__fail(err, ZKL_EINVAL, 0, NULL, "done is NULL");
    if (rc == ZKL_OK && zkl__callbacks_want(&session->callbacks) != ZKL_OK) {
        rc = zkl__fail(err, ZKL_ELIMIT, 0, NULL, "no thread for callbacks");
    }
    rc = rc == ZKL_OK ? begin_stops(procedure, err) : rc;
    if (rc != ZKL_OK) {
        return zkl__procedure_drop(procedure, rc);
    }
    procedure->done = done;
    procedure->payload = payload;
    procedure->alarm = (struct zkl__alarm){.ring = go_on, .owner = procedure};
    procedure->callback = (struct zkl__callback){.run = run_done, .owner = procedure};
    link_procedure(procedure);
    zkl__session_retain(session);
    go_on(procedure);
    return ZKL_OK;
}

int zkl__procedure_go(struct zkl__procedure *procedure, const struct zkl__later *later,
                      zkl_error *err)
{
    if (later) {
        return zkl__procedure_start(procedure, later->done, later->payload, err);
    }
    int rc = zkl__procedure_run(procedure, err);
    free_procedure(procedure);
    return rc;
}

void zkl__procedure_poke(struct zkl__procedure *procedure)
{
    if (procedure->blocking) {
        zkl__signal_raise(&procedure->changed);
    } else if (procedure->done && !procedure->over) {
        zkl__alarms_set(&procedure->session->alarms, &procedure->alarm, 0);
    }
}

void zkl__procedures_poke(zkl_session *session, const struct zkl__object *owner)
{
    struct zkl__procedure *at = first_of(session, owner);
    for (; at; at = next_of(at, owner)) {
        zkl__procedure_poke(at);
    }
}

static int end_some(zkl_session *session, const struct zkl__object *owner, int code, bool all)
{
    int count = 0;
    struct zkl__procedure *at = first_of(session, owner);
    for (; at; at = next_of(at, owner)) {
        if (!at->over && !at->blocking && (all || !at->finishes)) {
            zkl_error why;
            int rc =
                zkl__fail(&why, code, 0, NULL,
                          code == ZKL_ECLOSED ? "the session was closed meanwhile" : "cancelled");
            finish(at, explain(at, rc, &why, &at->err));
            count++;
        }
    }
    return count;
}

int zkl__procedures_end(zkl_session *session, const struct zkl__object *owner, int code)
{
    return end_some(session, owner, code, true);
}

int zkl__procedures_cancel(zkl_session *session, const struct zkl__object *owner)
{
    return end_some(session, owner, ZKL_ECANCELED, false);
}

void zkl__procedures_deliver(zkl_session *session, struct zkl__object *owner)
{
    struct zkl__callbacks *callbacks = &session->callbacks;
    struct zkl__procedure *at = first_of(session, owner);
    while (at) {
        struct zkl__procedure *next = next_of(at, owner);
        if (at->over && zkl__callbacks_inside(callbacks, &at->callback)) {
            leave_owner(at);
        } else if (at->over) {
            zkl__callbacks_finish(callbacks, &at->callback);
            next = first_of(session, owner);
        }
        at = next;
    }
}
