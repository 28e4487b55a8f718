/* acquisition.c - one acquire: from its beginning to its release. */
#include "handle.h"

#include <stdio.h>
#include <string.h>

static void end_stops(struct zkl__acquisition *acquisition)
{
    zkl_session *session = acquisition->lock->session;
    if (acquisition->stops) {
        zkl__stops_end(acquisition->stops);
        zkl__free(&session->heap, acquisition->stops);
        acquisition->stops = NULL;
    }
}

void zkl__acquisition_unref(struct zkl__acquisition *acquisition)
{
    zkl_lock *lock = acquisition->lock;
    if (--acquisition->refs == 0) {
        end_stops(acquisition); /* of an acquisition that was never started */
        zkl__signal_deinit(&acquisition->changed);
        zkl__free(&lock->session->heap, acquisition);
        zkl__object_unref(&lock->object);
    }
}

void zkl__acquisition_event(struct zkl__acquisition *acquisition, struct zkl__event event)
{
    event.machine = acquisition->machine;
    if (event.machine) {
        zkl__session_event(acquisition->lock->session, event);
    }
}

/* --- reports to the user --------------------------------------------------------------------- */

/* The user is called for each loss, for the latest state, and for a request to release. */

static void notify_state(zkl_lock *lock, zkl_state state)
{
    if (!lock->options.state_fn) {
        return;
    }
    if (state == ZKL_STATE_LOST) {
        lock->losses++;
        lock->latest = lock->reported = ZKL_STATE_IDLE;
    } else {
        lock->latest = state;
    }
    zkl__object_post(&lock->object);
}

/* ZKL_STATE_IDLE: no state is left to report. */
static zkl_state next_state(zkl_lock *lock)
{
    zkl_state state = lock->latest;
    if (lock->losses > 0) {
        lock->losses--;
        return ZKL_STATE_LOST;
    }
    lock->latest = ZKL_STATE_IDLE;
    if (state == ZKL_STATE_IDLE ||
        state == lock->reported) { /* it changed and changed back before the callback ran */
        return ZKL_STATE_IDLE;
    }
    lock->reported = state;
    return state;
}

void zkl__lock_run_notice(void *owner)
{
    zkl_lock *lock = owner;
    zkl_session *session = lock->session;
    if (!zkl__session_enter_if_ours(session)) {
        return;
    }
    lock->object.refs++;
    while (!lock->object.freed) {
        const zkl_lock_options *o = &lock->options;
        size_t position = lock->position;
        bool moved = lock->position_changed && lock->acquisition && !lock->acquisition->settled;
        lock->position_changed = false;
        zkl_state state = moved ? ZKL_STATE_IDLE : next_state(lock);
        if (!moved && state == ZKL_STATE_IDLE) {
            if (!lock->revoked) {
                break;
            }
            lock->revoked = false;
        }
        zkl__session_leave(session);
        if (moved) {
            o->position_fn(lock, position, o->payload);
        } else if (state != ZKL_STATE_IDLE) {
            o->state_fn(lock, state, o->payload);
        } else {
            o->revoke_fn(lock, o->payload);
        }
        if (!zkl__session_enter_if_ours(session)) {
            return;
        }
    }
    zkl__object_unref(&lock->object);
    zkl__session_leave(session);
}

/* --- outcomes from the core: in a step ------------------------------------------------------- */

static void settle(struct zkl__acquisition *acquisition, const struct zkl__outcome *outcome)
{
    zkl_lock *lock = acquisition->lock;
    end_stops(acquisition);
    acquisition->settled = true;
    acquisition->granted = outcome->kind == ZKL__GRANTED;
    acquisition->code = acquisition->granted ? ZKL_OK : outcome->code;
    acquisition->zk_code = outcome->zk_code;
    acquisition->why =
        acquisition->granted ? "the lease ended" : outcome->why; /* until a loss names its reason */
    for (uint8_t i = 1; !acquisition->granted && i < lock->path_count; i++) {
        if (strcmp(outcome->path, lock->paths[i]) == 0) {
            acquisition->failed = i;
        }
    }
    acquisition->token = outcome->token;
    acquisition->serial = outcome->serial > 0 ? outcome->serial : 1;
    acquisition->unclean = outcome->unclean;
    acquisition->settled_at = outcome->now;
    zkl__campaign_wake(lock);
    zkl__calls_poke(&lock->object);
    if (acquisition->completion) {
        zkl__callbacks_post(&lock->session->callbacks, &acquisition->completion->callback);
    }
}

/* Logged also when the user has no state_fn. */
static void log_change(const zkl_lock *lock, const struct zkl__outcome *outcome)
{
    bool lost = outcome->kind == ZKL__LOSS, safe = outcome->kind == ZKL__SAFE;
    char text[160];
    snprintf(text, sizeof text, "%s: %s",
             lost   ? "lost"
             : safe ? "held"
                    : "in jeopardy",
             outcome->why);
    zkl__session_log(lock->session,
                     lost   ? ZKL_LOG_ERROR
                     : safe ? ZKL_LOG_INFO
                            : ZKL_LOG_WARN,
                     lock->recipe->noun, lock->path, 0, text);
}

static void on_outcome(void *owner, const struct zkl__outcome *outcome)
{
    struct zkl__acquisition *acquisition = owner;
    zkl_lock *lock = acquisition->lock;
    bool current = lock->acquisition == acquisition;
    zkl__signal_raise(&acquisition->changed); /* a thread may wait for it, or for a downgrade */
    switch (outcome->kind) {
    case ZKL__GRANTED:
        if (outcome->contender) { /* another one, if the lock lingered */
            acquisition->machine = (struct zkl__machine *)outcome->contender;
        }
        settle(acquisition, outcome);
        notify_state(lock, ZKL_STATE_HELD);
        break;
    case ZKL__FAILED:
        acquisition->machine = NULL;
        settle(acquisition, outcome);
        lock->acquisition = NULL;
        /* Not the last reference: a thread or a completion waits for the result. */
        zkl__acquisition_unref(acquisition);
        break;
    case ZKL__JEOPARDY:
    case ZKL__SAFE:
        acquisition->jeopardy = outcome->kind == ZKL__JEOPARDY;
        if (current) {
            log_change(lock, outcome);
            zkl__campaign_wake(lock);
            notify_state(lock, acquisition->jeopardy ? ZKL_STATE_JEOPARDY : ZKL_STATE_HELD);
        }
        break;
    case ZKL__LOSS:
        if (current) {
            log_change(lock, outcome);
            acquisition->why = outcome->why;
            zkl__campaign_wake(lock);
            zkl__sections_raise(lock);
            zkl__calls_poke(&lock->object);
            notify_state(lock, ZKL_STATE_LOST);
        }
        break;
    case ZKL__DOWNGRADED:
        acquisition->downgraded = true;
        break;
    case ZKL__NOT_DOWNGRADED:
        acquisition->rule = lock->recipe->rule;
        break;
    case ZKL__REVOKED:
        if (current) {
            lock->revoked = true;
            zkl__object_post(&lock->object);
        }
        break;
    case ZKL__RELEASED:
        acquisition->machine = NULL;
        zkl__calls_poke(&lock->object);
        break;
    }
}

static void on_position(void *owner, size_t position)
{
    zkl_lock *lock = ((struct zkl__acquisition *)owner)->lock;
    lock->position_changed = true;
    lock->position = position;
    zkl__object_post(&lock->object);
}

/* --- the acquire ----------------------------------------------------------------------------- */

static void on_stop(void *owner)
{
    zkl__acquisition_cancel(owner, ZKL_ECANCELED);
}

int zkl__acquisition_begin(struct zkl__acquisition **out, zkl_lock *lock, int count,
                           int64_t timeout_ms, struct zkl__completion *completion, zkl_error *err)
{
    zkl_session *session = lock->session;
    const zkl_lock_options *o = &lock->options;
    if (lock->object.freed) {
        return zkl__fail_freed(err, lock->path);
    }
    if (lock->refuses_acquires) {
        return zkl__fail_at(err, ZKL_ECANCELED, lock->path, "cancelled");
    }
    if (lock->campaign && !lock->campaign_acquires) {
        return zkl__fail_at(err, ZKL_EDEADLK, lock->path, "this candidate stands for election");
    }
    if (session->status.stopping) {
        return zkl__fail_at(err, ZKL_ECLOSED, lock->path, "the session is being closed");
    }
    struct zkl__acquisition *acquisition = lock->acquisition;
    const struct zkl__rule *asked = lock->recipe->rule;
    if (acquisition) {
        const struct zkl__rule *has = acquisition->rule;
        if (!acquisition->granted) {
            return zkl__fail_at(err, ZKL_EDEADLK, lock->path,
                                "an acquire of this object is pending");
        }
        if (!zkl__acquisition_holds(acquisition)) {
            return zkl__fail_at(err, o->recursive ? ZKL_ELOST : ZKL_EDEADLK, lock->path,
                                "this object held it and lost it: %s; release it first",
                                acquisition->why);
        }
        if (asked->waits_for & ~has->waits_for) {
            return zkl__fail_at(
                err, ZKL_EDEADLK, lock->path,
                "this object was downgraded; an upgrade would wait for itself: release it first");
        }
        if (!o->recursive) {
            return zkl__fail_at(err, ZKL_EDEADLK, lock->path,
                                "this object holds it, and is not recursive");
        }
        acquisition->depth++;
        acquisition->refs++;
        *out = acquisition;
        return ZKL_OK;
    }
    acquisition = zkl__zalloc(&session->heap, sizeof *acquisition);
    if (!acquisition) {
        return zkl__fail_at(err, ZKL_ENOMEM, lock->path, "no memory for an acquire");
    }
    zkl__signal_init(&acquisition->changed);
    acquisition->lock = lock;
    acquisition->refs = acquisition->depth = 1;
    lock->object.refs++;
    int rc = ZKL_OK;
    /* A stop token ends waits, not objects: what an object acquires by itself (a partition's
     * pieces) goes on. */
    if (!lock->recipe->internal && (session->settings.options.stop || lock->object.stop)) {
        acquisition->stops = zkl__zalloc(&session->heap, sizeof *acquisition->stops);
        rc = acquisition->stops ? zkl__stops_begin(session, acquisition->stops, lock->object.stop,
                                                   on_stop, acquisition, err)
                                : ZKL_ENOMEM;
    }
    if (rc == ZKL_OK) {
        const struct zkl__contender_config config = {
            .rule = asked,
            .path = lock->path,
            .metadata = o->metadata ? o->metadata : session->whoami,
            .acl = o->acl,
            .fail_on_expiry = o->on_expiry == ZKL_ON_EXPIRY_FAIL,
            .mark = o->recover || o->delay_after_crash_ms > 0,
            .revocable = o->revoke_fn != NULL,
            .max_hold = o->max_hold_ms * ZKL__MS,
            .linger = o->linger_ms * ZKL__MS,
            .least = o->hold_at_least_ms * ZKL__MS,
            .delay = o->delay_after_crash_ms * ZKL__MS,
            .max_ahead = (size_t)o->max_ahead,
            .position = o->position_fn ? on_position : NULL,
            .notify = on_outcome,
            .owner = acquisition,
        };
        acquisition->rule = asked;
        acquisition->downgraded = true;
        if (lock->recipe->several) {
            acquisition->machine = (struct zkl__machine *)zkl__multi_new(
                session->core, &config, lock->paths, lock->path_count);
        } else if (lock->recipe->make) {
            acquisition->machine = (struct zkl__machine *)lock->recipe->make(lock, count, &config);
        } else {
            acquisition->machine =
                (struct zkl__machine *)zkl__contender_new(session->core, &config);
        }
        rc = acquisition->machine ? ZKL_OK : ZKL_ENOMEM;
    }
    if (rc != ZKL_OK) {
        zkl__acquisition_unref(acquisition);
        return rc == ZKL_ENOMEM ? zkl__fail_at(err, rc, lock->path, "no memory for an acquire")
                                : rc;
    }
    lock->acquisition = *out = acquisition;
    acquisition->refs++;
    acquisition->completion = completion;
    acquisition->deadline = zkl__session_deadline(
        timeout_ms == 0 ? session->settings.options.connect_timeout_ms : timeout_ms);
    zkl__acquisition_event(acquisition, (struct zkl__event){.kind = ZKL__EV_START,
                                                            .deadline = acquisition->deadline,
                                                            .try_only = timeout_ms == 0});
    acquisition->requested_at = zkl__core_facts(session->core).now;
    return ZKL_OK;
}

/* Its reference to the acquisition goes to the caller: the lock object is idle again. */
static struct zkl__acquisition *detach_acquisition(zkl_lock *lock)
{
    struct zkl__acquisition *acquisition = lock->acquisition;
    lock->acquisition = NULL;
    lock->revoked = false;
    lock->latest = lock->reported = ZKL_STATE_IDLE; /* a loss that was not reported yet will be */
    zkl__sections_raise(lock);
    zkl__campaign_wake(lock);
    zkl__signal_raise(&acquisition->changed); /* for a downgrade */
    return acquisition;
}

int zkl__acquisition_result(struct zkl__acquisition *acquisition, bool again, zkl_grant *grant,
                            zkl_error *err)
{
    zkl_lock *lock = acquisition->lock;
    long long queued_ms =
        (long long)((acquisition->settled_at - acquisition->requested_at) / ZKL__MS);
    if (acquisition->code != ZKL_OK) {
        bool late = acquisition->code == ZKL_ETIMEOUT || acquisition->code == ZKL_ECONNECT;
        bool away = lock->session->status.state == ZKL_SESSION_SUSPENDED;
        bool without = late && away && zkl__out_of_descriptors();
        return zkl__fail(err, acquisition->code, acquisition->zk_code,
                         lock->paths[acquisition->failed], "%s (after %lld ms)%s%s",
                         acquisition->why, queued_ms, without ? ": " : "",
                         without ? ZKL__NO_DESCRIPTOR : "");
    }
    if (lock->acquisition == acquisition && !zkl__acquisition_holds(acquisition)) {
        if (--acquisition->depth == 0) {
            zkl__acquisition_let_go(detach_acquisition(lock));
        }
        return zkl__fail_at(err, ZKL_ELOST, lock->path,
                            "granted, and lost before the grant could be used");
    }
    if (grant) {
        *grant = (zkl_grant){.token = acquisition->token,
                             .serial = acquisition->serial,
                             .queued_ms = again ? 0 : queued_ms,
                             .unclean = !again && acquisition->unclean};
    }
    return ZKL_OK;
}

int zkl__lock_acquire(zkl_lock *lock, int count, int64_t timeout_ms, zkl_grant *grant,
                      zkl_error *err)
{
    /* A caller that is granted a lingering lock again and again never waits. In libzklock_st a wait
     * drives the loop, so the events of other contenders have to be read here. */
    if (lock && lock->options.linger_ms > 0 && !zkl__session_forked(lock->session)) {
        zkl__loop_go_on();
    }
    int rc = zkl__lock_enter(lock, timeout_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): zkl__lock_enter refuses NULL
    zkl_session *session = lock->session;
    struct zkl__acquisition *acquisition;
    bool again = lock->acquisition;
    rc = zkl__acquisition_begin(&acquisition, lock, count, timeout_ms, NULL, err);
    if (rc == ZKL_OK) {
        while (!acquisition->settled) {
            if (zkl__session_wait(session, &acquisition->changed, acquisition->deadline)) {
                continue;
            }
            /* Not left to the thread of the alarms: another wake-up would make this call late. */
            zkl__session_event(session, (struct zkl__event){.kind = ZKL__EV_TIME});
            if (!acquisition->settled) {
                zkl__acquisition_cancel(acquisition, ZKL_ETIMEOUT);
            }
        }
        rc = zkl__acquisition_result(acquisition, again, grant, err);
        zkl__acquisition_unref(acquisition);
    }
    zkl__session_leave(session);
    return rc;
}

int zkl_lock_acquire(zkl_lock *lock, int64_t timeout_ms, zkl_grant *grant, zkl_error *err)
{
    return zkl__lock_acquire(lock, 1, timeout_ms, grant, err);
}

/* --- acquire without waiting ----------------------------------------------------------------- */

static void run_completion(void *owner)
{
    struct zkl__completion *completion = owner;
    struct zkl__acquisition *acquisition = completion->acquisition;
    zkl_lock *lock = acquisition->lock;
    zkl_session *session = lock->session;
    zkl_error err = {.code = ZKL_OK};
    zkl_grant grant;
    if (!zkl__session_enter_if_ours(session)) {
        return;
    }
    int code = zkl__acquisition_result(acquisition, completion->again, &grant, &err);
    zkl__session_leave(session);
    completion->done(lock, code, code == ZKL_OK ? &grant : NULL, &err, completion->payload);
    if (!zkl__session_enter_if_ours(session)) {
        return;
    }
    zkl__list_remove(&lock->completions, &completion->link);
    zkl__free(&session->heap, completion);
    zkl__acquisition_unref(acquisition);
    zkl__session_leave(session);
}

int zkl__lock_acquire_async(zkl_lock *lock, int count, int64_t timeout_ms, zkl_acquired_fn done,
                            void *payload, zkl_error *err)
{
    if (!done) {
        return zkl__fail_null(err, "done");
    }
    int rc = zkl__lock_enter(lock, timeout_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = lock->session;
    struct zkl__completion *completion = zkl__zalloc(&session->heap, sizeof *completion);
    bool again = lock->acquisition;
    rc = zkl__session_want_callbacks(session, lock->path, err);
    if (rc == ZKL_OK && !completion) {
        rc = zkl__fail_at(err, ZKL_ENOMEM, lock->path, "no memory for an acquire");
    }
    if (rc == ZKL_OK) {
        *completion =
            (struct zkl__completion){.callback = {.run = run_completion, .owner = completion},
                                     .again = again,
                                     .done = done,
                                     .payload = payload};
        rc = zkl__acquisition_begin(&completion->acquisition, lock, count, timeout_ms, completion,
                                    err);
    }
    if (rc != ZKL_OK) {
        zkl__free(&session->heap, completion);
    } else {
        zkl__list_prepend(&lock->completions, &completion->link);
        if (again) {
            zkl__callbacks_post(&session->callbacks, &completion->callback);
        }
    }
    zkl__session_leave(session);
    return rc;
}

int zkl_lock_acquire_async(zkl_lock *lock, int64_t timeout_ms, zkl_acquired_fn done, void *payload,
                           zkl_error *err)
{
    return zkl__lock_acquire_async(lock, 1, timeout_ms, done, payload, err);
}

/* --- the release ----------------------------------------------------------------------------- */

bool zkl__acquisition_holds(const struct zkl__acquisition *acquisition)
{
    const struct zkl__machine *machine = acquisition->machine;
    const zkl_lock *lock = acquisition->lock;
    return acquisition->granted && machine && lock->acquisition == acquisition &&
           machine->ops->holds(machine, zkl__clock_now());
}

void zkl__acquisition_let_go(struct zkl__acquisition *acquisition)
{
    zkl__acquisition_event(acquisition, (struct zkl__event){.kind = ZKL__EV_LET_GO});
    acquisition->machine = NULL;
    zkl__acquisition_unref(acquisition);
}

void zkl__acquisition_cancel(struct zkl__acquisition *acquisition, int code)
{
    zkl__acquisition_event(acquisition, (struct zkl__event){.kind = ZKL__EV_CANCEL, .code = code});
}

void zkl__acquisition_withdraw(struct zkl__acquisition *acquisition)
{
    bool current = acquisition->lock->acquisition == acquisition;
    if (current && acquisition->settled) {
        zkl__acquisition_let_go(detach_acquisition(acquisition->lock));
    } else if (current) {
        zkl__acquisition_cancel(acquisition, ZKL_ECANCELED);
    }
}

struct zkl__acquisition *zkl__acquisition_send_release(zkl_lock *lock)
{
    struct zkl__acquisition *acquisition = detach_acquisition(lock);
    zkl__acquisition_event(acquisition, (struct zkl__event){.kind = ZKL__EV_RELEASE});
    return acquisition;
}

void zkl__lock_give_up(zkl_lock *lock, int code)
{
    zkl__campaign_end(lock, code, "the session is closed"); /* between two acquires, too */
    if (!lock->acquisition) {
        return;
    }
    if (lock->acquisition->settled) {
        lock->acquisition->code = code; /* for a thread that the grant has not reached yet */
        lock->acquisition->why = "given up before the grant could be used";
        zkl__acquisition_let_go(detach_acquisition(lock));
    } else {
        zkl__acquisition_cancel(lock->acquisition, code);
    }
}

int zkl__lock_not_granted(const zkl_lock *lock, zkl_error *err)
{
    return zkl__fail_at(err, ZKL_ENOTHELD, lock->path,
                        lock->acquisition ? "still waiting; cancel it"
                                          : "never granted, or released");
}

/* It waits for the server's response. */
struct releasing {
    struct zkl__call call;  /* first */
    const zkl_grant *grant; /* which one ends, until the call has begun. NULL: the current one */
    int64_t deadline;
    struct zkl__acquisition *acquisition; /* NULL: the lock stays held, it was acquired again */
    const char *lost; /* why the lease did not cover the hold, known at the call; NULL: it did */
};

static int run_release(struct zkl__call *call)
{
    const struct releasing *releasing = (const struct releasing *)call;
    CALL_BEGIN(call);
    AWAIT_UNTIL(call, !releasing->acquisition || !releasing->acquisition->machine);
    CALL_END(call);
}

/* The grant ends here. The contender sends the delete again until its znode is deleted, so a lost
 * reply does not matter. */
static int begin_release(struct zkl__call *call)
{
    struct releasing *releasing = (struct releasing *)call;
    zkl_lock *lock = (zkl_lock *)call->owner;
    struct zkl__acquisition *held = lock->acquisition;
    const zkl_grant *grant = releasing->grant;
    if (!held || !held->granted ||
        (grant && (held->token != grant->token || held->serial != grant->serial))) {
        return zkl__lock_not_granted(lock, call->err);
    }
    releasing->lost = zkl__acquisition_holds(held) ? NULL : held->why;
    if (--held->depth == 0) {
        releasing->acquisition = zkl__acquisition_send_release(lock);
    }
    if (releasing->deadline < call->deadline) {
        call->deadline = releasing->deadline;
    }
    return ZKL_OK;
}

/* The response does not change the result, nor does what ends the wait for it. */
static int end_release(struct zkl__call *call, int rc)
{
    const struct releasing *releasing = (const struct releasing *)call;
    (void)rc;
    if (releasing->acquisition) {
        zkl__acquisition_let_go(releasing->acquisition);
    }
    if (releasing->lost) {
        FAIL(call, ZKL_ELOST, "lost while it was held: %s", releasing->lost);
    }
    return ZKL_OK;
}

int zkl__lock_release_grant(zkl_lock *lock, const zkl_grant *grant, int64_t deadline,
                            zkl_done_fn done, void *payload, zkl_error *err)
{
    struct releasing given = {.call = {.run = run_release,
                                       .begin = begin_release,
                                       .end = end_release,
                                       .owner = (struct zkl__object *)lock,
                                       .finishes = true},
                              .grant = grant,
                              .deadline = deadline};
    return lock ? zkl__call_go(&given, sizeof given, lock->session, lock->path,
                               lock->options.release_timeout_ms, done, payload, err)
                : zkl__fail_null(err, "lock");
}

int zkl_lock_release_async(zkl_lock *lock, zkl_done_fn done, void *payload, zkl_error *err)
{
    return zkl__lock_release_grant(lock, NULL, INT64_MAX, done, payload, err);
}

int zkl_lock_release(zkl_lock *lock, zkl_error *err)
{
    return zkl_lock_release_async(lock, zkl__caller_waits, NULL, err);
}
