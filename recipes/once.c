/* once.c - once per time slot: a lock, and the last slot done in the data of its path. */
#include "section.h"

#include "directories.h"
#include "steps.h"

#include "error.h"
#include "name.h"
#include "slot.h"

#include <zklock/once.h>

#include <stdio.h>
#include <string.h>

#define LENGTH_MIN 1000
#define LENGTH_MAX (3660 * ZKL__DAY_MS)
#define CLOCKS_DIFFER ZKL__DAY_MS /* of servers that lead one after the other, at most */

/* --- a call ---------------------------------------------------------------------------------- */

enum state {
    /* prepare: */
    ABOVE = 1, /* what is above the path is made */
    CREATE,
    LOOK,   /* is it a container? */
    REMAKE, /* it may be: made anew */
    /* look and last: */
    ARRIVAL, /* our znode */
    RECORD,
    /* record: */
    WRITE,
    READ_BACK, /* refused: was it done by a copy of which the answer was lost? */
    READ_LOST  /* our znode is gone: was it done before? */
};

struct call {
    struct zkl__steps steps; /* first */
    struct zkl__directories above;
    zkl_lock *lock; /* with a reference; NULL: it is about none */
    char node[ZKL__NAME_MAX];
    int64_t length_ms, phase_ms;
    int64_t arrival_ms; /* of our znode, by the servers' clock */
    /* the record: */
    bool is_record;
    int64_t last_ms;
    /* for the caller: */
    zkl_once_slot *slot;
    int64_t *last, *recorded;
    /* to be recorded: */
    zkl_once_slot done;
    char text[24];
    bool *written;
};

static struct call *call_of(struct zkl__steps *steps)
{
    return (struct call *)steps;
}

static const char *path_of(const struct zkl__steps *steps)
{
    return steps->procedure.path;
}

static void take_record(struct zkl__steps *steps, const struct zkl__reply *reply)
{
    struct call *call = call_of(steps);
    call->is_record =
        reply->rc == ZKL__RC_OK && zkl__slot_parse(reply->data, reply->size, &call->last_ms);
}

static int begin_get(struct zkl__steps *steps, zkl_error *err)
{
    (void)err;
    return zkl__steps_send(steps, &(struct zkl__op){.kind = ZKL__OP_GET, .dir = path_of(steps)});
}

/* --- prepare --------------------------------------------------------------------------------- */

static int begin_above(struct zkl__steps *steps, zkl_error *err)
{
    (void)err;
    zkl__directories_end(&call_of(steps)->above);
    zkl__directories_begin(&call_of(steps)->above, &steps->procedure, path_of(steps));
    return ZKL_OK;
}

static int await_above(struct zkl__steps *steps, zkl_error *err)
{
    return zkl__directories_advance(&call_of(steps)->above, err);
}

static int begin_create(struct zkl__steps *steps, zkl_error *err)
{
    (void)err;
    return zkl__steps_send(
        steps,
        &(struct zkl__op){.kind = ZKL__OP_CREATE, .dir = path_of(steps), .mode = ZKL__PERSISTENT});
}

static int after_create(struct zkl__steps *steps, zkl_error *err)
{
    if (steps->answer.rc == ZKL__RC_OK || steps->answer.rc == ZKL__RC_NODEEXISTS) {
        return LOOK;
    }
    return zkl__steps_refused(steps, path_of(steps), "create", err);
}

/* A path that was a lock's before is a container, which servers remove when it is empty
 * (ContainerManager), with the record in it. No stat tells it from a persistent znode. So one that
 * had children, has none now and holds no record is made anew. */
static int after_look(struct zkl__steps *steps, zkl_error *err)
{
    const struct zkl__answer *directory = &steps->answer;
    (void)err;
    if (directory->rc == ZKL__RC_NONODE) {
        return ABOVE;
    }
    if (directory->rc != ZKL__RC_OK || !directory->empty || directory->stat.child_count > 0 ||
        directory->stat.cversion == 0) {
        return ZKL_OK;
    }
    return REMAKE;
}

static int begin_remake(struct zkl__steps *steps, zkl_error *err)
{
    const struct zkl__op remove = {
        .kind = ZKL__OP_DELETE, .dir = path_of(steps), .version = steps->answer.stat.version};
    const struct zkl__op create = {
        .kind = ZKL__OP_CREATE, .dir = path_of(steps), .mode = ZKL__PERSISTENT};
    (void)err;
    return zkl__steps_send_both(steps, &remove, &create);
}

/* The directory was deleted between the look and the transaction: begin again. After any other
 * refusal, as when somebody queues there by now, the directory stays as it is. */
static int after_remake(struct zkl__steps *steps, zkl_error *err)
{
    (void)err;
    return steps->answer.rc == ZKL__RC_NONODE ? ABOVE : ZKL_OK;
}

/* --- looking --------------------------------------------------------------------------------- */

/* grant: under which the lock has to be held; NULL: under any. */
static int check_held(const zkl_lock *lock, const zkl_grant *grant, char node[ZKL__NAME_MAX],
                      zkl_error *err)
{
    struct zkl__standing now = zkl__lock_look(lock);
    zkl__name_copy(node, now.node);
    if (now.state == ZKL_STATE_LOST) {
        return zkl__fail(err, ZKL_ELOST, 0, lock->path, "the lock was lost");
    }
    if (grant && !zkl__stands_under(&now, grant)) {
        return zkl__fail(err, ZKL_ELOST, 0, lock->path,
                         "somebody else released the lock while the job ran");
    }
    return zkl__state_holds(now.state)
               ? ZKL_OK
               : zkl__fail(err, ZKL_ENOTHELD, 0, lock->path, "the lock is not held");
}

static int check_record(const struct zkl__steps *steps, zkl_error *err)
{
    const struct call *call = (const struct call *)steps;
    if (steps->answer.rc != ZKL__RC_OK) {
        return zkl__fail(err, zkl__rc_code(steps->answer.rc), 0, path_of(steps), "the record: %s",
                         zkl__rc_name(steps->answer.rc));
    }
    return call->is_record
               ? ZKL_OK
               : zkl__fail(err, ZKL_ECONFLICT, 0, path_of(steps),
                           "its data is not the number of a slot: used as something else");
}

/* A record is written by one whose znode was made in that slot, so not before the slot began. One
 * that is later than the servers' clock was when it was written, by more than these clocks may
 * differ, is nobody's of ours, and would keep the job from ever running again. */
static void check_time(struct zkl__steps *steps)
{
    struct call *call = call_of(steps);
    int64_t last = zkl__slot_of(steps->answer.stat.mtime_ms, call->length_ms, 0) +
                   2 * call->length_ms + CLOCKS_DIFFER;
    if (call->last_ms > last) {
        zkl__session_log(steps->procedure.session, ZKL_LOG_WARN, "once", path_of(steps),
                         "its record is of a slot that had not begun when it was written: ignored, "
                         "and overwritten");
        call->last_ms = INT64_MIN;
    }
}

static int begin_arrival(struct zkl__steps *steps, zkl_error *err)
{
    (void)err;
    return zkl__steps_send(steps, &(struct zkl__op){.kind = ZKL__OP_EXISTS,
                                                    .dir = path_of(steps),
                                                    .name = call_of(steps)->node});
}

/* When our node was made, by the servers' clock. */
static int after_arrival(struct zkl__steps *steps, zkl_error *err)
{
    enum zkl__rc rc = steps->answer.rc;
    if (rc != ZKL__RC_OK) {
        return zkl__fail(err, rc == ZKL__RC_NONODE ? ZKL_ELOST : zkl__rc_code(rc), 0,
                         path_of(steps), "our znode: %s", zkl__rc_name(rc));
    }
    call_of(steps)->arrival_ms = steps->answer.stat.ctime_ms;
    return RECORD;
}

static void give_slot(struct zkl__steps *steps)
{
    struct call *call = call_of(steps);
    int64_t round_ms = zkl__slot_of(call->arrival_ms, call->length_ms, call->phase_ms);
    *call->slot = (zkl_once_slot){.round_ms = round_ms,
                                  .last_ms = call->last_ms,
                                  .done = call->last_ms >= round_ms,
                                  .version = steps->answer.stat.version};
}

/* The record's mtime is the time of its transaction, by the clock of the leader
 * (PrepRequestProcessor). */
static void give_last(struct zkl__steps *steps)
{
    struct call *call = call_of(steps);
    *call->last = call->last_ms;
    *call->recorded = call->last_ms == INT64_MIN ? INT64_MIN : steps->answer.stat.mtime_ms;
}

/* Nothing is created by who only asks: a job that never ran has no znode, and no record. */
static int after_record(struct zkl__steps *steps, zkl_error *err)
{
    struct call *call = call_of(steps);
    bool none = !call->slot && steps->answer.rc == ZKL__RC_NONODE;
    int rc = none ? ZKL_OK : check_record(steps, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    if (none) {
        call->last_ms = INT64_MIN;
    } else if (call->length_ms > 0) {
        check_time(steps);
    }
    if (call->slot) {
        give_slot(steps);
    } else {
        give_last(steps);
    }
    return ZKL_OK;
}

/* --- recording ------------------------------------------------------------------------------- */

/* Sent again when the answer is lost: if it was done already, the record says so. */
static int begin_write(struct zkl__steps *steps, zkl_error *err)
{
    struct call *call = call_of(steps);
    int length = snprintf(call->text, sizeof call->text, "%lld", (long long)call->done.round_ms);
    const struct zkl__op check = {
        .kind = ZKL__OP_CHECK, .dir = path_of(steps), .name = call->node, .version = -1};
    const struct zkl__op write = {.kind = ZKL__OP_SET,
                                  .dir = path_of(steps),
                                  .data = call->text,
                                  .size = (size_t)length,
                                  .version = call->done.version};
    (void)err;
    return zkl__steps_send_both(steps, &check, &write);
}

static int after_write(struct zkl__steps *steps, zkl_error *err)
{
    (void)err;
    if (steps->answer.rc == ZKL__RC_OK) {
        *call_of(steps)->written = true;
        return ZKL_OK;
    }
    return steps->answer.parts[0] == ZKL__RC_NONODE ? READ_LOST : READ_BACK;
}

/* It says this slot, and was written once since it was looked at. */
static bool is_ours(const struct zkl__steps *steps)
{
    const struct call *call = (const struct call *)steps;
    return call->last_ms == call->done.round_ms &&
           steps->answer.stat.version == call->done.version + 1;
}

/* By us, if it is: nobody else may write while our node stands first. */
static int after_read_back(struct zkl__steps *steps, zkl_error *err)
{
    int rc = check_record(steps, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    *call_of(steps)->written = is_ours(steps);
    return is_ours(steps) ? ZKL_OK
                          : zkl__fail(err, ZKL_ECONFLICT, 0, path_of(steps),
                                      "the record was changed by somebody else");
}

/* The transaction may have been applied before our node was gone, and its answer lost. Then the
 * record says so; it cannot say whether it was we, or who was granted since. */
static int after_read_lost(struct zkl__steps *steps, zkl_error *err)
{
    int rc = check_record(steps, err);
    if (rc != ZKL_OK && rc != ZKL_ENOENT) {
        return rc;
    }
    bool recorded = rc == ZKL_OK && is_ours(steps);
    *call_of(steps)->written = recorded;
    return zkl__fail(err, ZKL_ELOST, 0, path_of(steps),
                     recorded
                         ? "the lock was lost; the slot is recorded, by us or by the next holder"
                         : "the lock was lost before the slot could be recorded");
}

static int explain(struct zkl__procedure *procedure, int rc, const zkl_error *why, zkl_error *err)
{
    const struct zkl__steps *steps = (const struct zkl__steps *)procedure;
    bool unknown = steps->at == READ_LOST && rc != ZKL_ELOST;
    return zkl__fail(err, rc, why->zk_code, why->path[0] ? why->path : procedure->path, "%s%s",
                     unknown ? "the lock was lost, and whether the slot is recorded: " : "",
                     why->text);
}

/* --- the calls ------------------------------------------------------------------------------- */

static const struct zkl__step table[] = {
    [ABOVE] = {begin_above, await_above, NULL, 1 << CREATE},
    [CREATE] = {begin_create, NULL, after_create, 1 << LOOK},
    [LOOK] = {begin_get, NULL, after_look, 1 << ABOVE | 1 << REMAKE},
    [REMAKE] = {begin_remake, NULL, after_remake, 1 << ABOVE},
    [ARRIVAL] = {begin_arrival, NULL, after_arrival, 1 << RECORD},
    [RECORD] = {begin_get, NULL, after_record, 0},
    [WRITE] = {begin_write, NULL, after_write, 1 << READ_BACK | 1 << READ_LOST},
    [READ_BACK] = {begin_get, NULL, after_read_back, 0},
    [READ_LOST] = {begin_get, NULL, after_read_lost, 0},
};

static void end(struct zkl__procedure *procedure)
{
    struct call *call = (struct call *)procedure;
    zkl__steps_end(&call->steps);
    zkl__directories_end(&call->above);
    if (call->lock) {
        zkl__lock_unref(call->lock);
    }
}

/* Inside. NULL: no memory, with words. */
static struct call *make(zkl_session *session, enum state first, const char *path,
                         int64_t timeout_ms, zkl_error *err)
{
    static const struct zkl__procedure_ops ops = {zkl__steps_advance, explain, end};
    struct call *call = zkl__procedure_make(session, sizeof *call, &ops, path, timeout_ms, err);
    if (call) {
        call->steps.table = table;
        call->steps.first = first;
        call->steps.look = take_record;
    }
    return call;
}

/* The same about a lock that is held. */
static struct call *make_held(zkl_lock *lock, const zkl_grant *grant, enum state first,
                              int64_t timeout_ms, zkl_error *err)
{
    char node[ZKL__NAME_MAX];
    struct call *call = check_held(lock, grant, node, err) == ZKL_OK
                            ? make(lock->session, first, lock->path, timeout_ms, err)
                            : NULL;
    if (call) {
        zkl__lock_ref(lock);
        call->lock = lock;
        zkl__name_copy(call->node, node);
        call->steps.procedure.owner = &lock->object;
        call->steps.procedure.stop = lock->options.stop;
    }
    return call;
}

static int go(struct call *call, const struct zkl__later *later, zkl_error *err)
{
    return zkl__procedure_go(&call->steps.procedure, later, err);
}

static int prepare(zkl_session *session, const char *path, int64_t timeout_ms,
                   const struct zkl__later *later, zkl_error *err)
{
    int rc = zkl__session_enter_at(session, path, timeout_ms, err);
    if (rc == ZKL_OK) {
        struct call *call = make(session, ABOVE, path, timeout_ms, err);
        rc = call ? go(call, later, err) : ZKL_ENOMEM;
        zkl__session_leave(session);
    }
    return rc;
}

int zkl_once_prepare(zkl_session *session, const char *path, int64_t timeout_ms, zkl_error *err)
{
    return prepare(session, path, timeout_ms, NULL, err);
}

int zkl_once_prepare_async(zkl_session *session, const char *path, int64_t timeout_ms,
                           zkl_done_fn done, void *payload, zkl_error *err)
{
    return prepare(session, path, timeout_ms, &(struct zkl__later){done, payload}, err);
}

/* One contender alone holds, and its node says when it queued: so it is with a lock, and not with
 * readers or permits. */
static int check(const zkl_lock *lock, bool given, const char *what, zkl_error *err)
{
    int rc = zkl__lock_check(lock, &zkl__plain_lock, err);
    return rc == ZKL_OK && !given ? zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", what) : rc;
}

/* Inside. */
static int begin_look(zkl_lock *lock, const zkl_grant *grant, int64_t length_ms, int64_t phase_ms,
                      int64_t timeout_ms, zkl_once_slot *slot, const struct zkl__later *later,
                      zkl_error *err)
{
    zkl_error why = {.code = ZKL_OK};
    struct call *call = make_held(lock, grant, ARRIVAL, timeout_ms, &why);
    if (!call) {
        return zkl__fail(err, why.code, 0, lock->path, "%s", why.text);
    }
    call->length_ms = length_ms;
    call->phase_ms = phase_ms;
    call->slot = slot;
    return go(call, later, err);
}

static int look(zkl_lock *lock, const zkl_grant *grant, int64_t length_ms, int64_t phase_ms,
                int64_t timeout_ms, zkl_once_slot *slot, const struct zkl__later *later,
                zkl_error *err)
{
    int rc = check(lock, slot, "slot", err);
    rc = rc == ZKL_OK ? zkl__range_check("length_ms", length_ms, LENGTH_MIN, LENGTH_MAX, err) : rc;
    rc = rc == ZKL_OK ? zkl__range_check("phase_ms", phase_ms, 0, length_ms - 1, err) : rc;
    rc = rc == ZKL_OK ? zkl__timeout_check(timeout_ms, err) : rc;
    rc = rc == ZKL_OK ? zkl__session_enter(lock->session, err) : rc;
    if (rc == ZKL_OK) {
        zkl_session *session = lock->session;
        rc = begin_look(lock, grant, length_ms, phase_ms, timeout_ms, slot, later, err);
        zkl__session_leave(session);
    }
    return rc;
}

int zkl_once_look(zkl_lock *lock, int64_t length_ms, int64_t phase_ms, int64_t timeout_ms,
                  zkl_once_slot *slot, zkl_error *err)
{
    return look(lock, NULL, length_ms, phase_ms, timeout_ms, slot, NULL, err);
}

int zkl_once_look_async(zkl_lock *lock, int64_t length_ms, int64_t phase_ms, int64_t timeout_ms,
                        zkl_once_slot *slot, zkl_done_fn done, void *payload, zkl_error *err)
{
    return look(lock, NULL, length_ms, phase_ms, timeout_ms, slot,
                &(struct zkl__later){done, payload}, err);
}

static int last(zkl_session *session, const char *path, int64_t length_ms, int64_t timeout_ms,
                int64_t *last_ms, int64_t *recorded_ms, const struct zkl__later *later,
                zkl_error *err)
{
    if (!session || !last_ms || !recorded_ms) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL",
                         !session   ? "session"
                         : !last_ms ? "last_ms"
                                    : "recorded_ms");
    }
    int rc = length_ms == 0 ? ZKL_OK
                            : zkl__range_check("length_ms", length_ms, LENGTH_MIN, LENGTH_MAX, err);
    rc = rc == ZKL_OK ? zkl__session_enter_at(session, path, timeout_ms, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    struct call *call = make(session, RECORD, path, timeout_ms, err);
    rc = ZKL_ENOMEM;
    if (call) {
        call->length_ms = length_ms;
        call->last = last_ms;
        call->recorded = recorded_ms;
        rc = go(call, later, err);
    }
    zkl__session_leave(session);
    return rc;
}

int zkl_once_last(zkl_session *session, const char *path, int64_t length_ms, int64_t timeout_ms,
                  int64_t *last_ms, int64_t *recorded_ms, zkl_error *err)
{
    return last(session, path, length_ms, timeout_ms, last_ms, recorded_ms, NULL, err);
}

int zkl_once_last_async(zkl_session *session, const char *path, int64_t length_ms,
                        int64_t timeout_ms, int64_t *last_ms, int64_t *recorded_ms,
                        zkl_done_fn done, void *payload, zkl_error *err)
{
    return last(session, path, length_ms, timeout_ms, last_ms, recorded_ms,
                &(struct zkl__later){done, payload}, err);
}

/* Inside. *written: it is recorded, whatever became of the lock; NULL: the caller does not ask. */
static int begin_record(zkl_lock *lock, const zkl_grant *grant, const zkl_once_slot *slot,
                        int64_t timeout_ms, bool *written, const struct zkl__later *later,
                        zkl_error *err)
{
    zkl_error why = {.code = ZKL_OK};
    struct call *call = make_held(lock, grant, WRITE, timeout_ms, &why);
    if (!call) {
        return zkl__fail(err, why.code, 0, lock->path, "%s", why.text);
    }
    call->done = *slot;
    call->written = written ? written : &call->done.done;
    call->steps.procedure.finishes = true; /* a job that is done is recorded */
    return go(call, later, err);
}

static int record_slot(zkl_lock *lock, const zkl_grant *grant, const zkl_once_slot *slot,
                       int64_t timeout_ms, bool *written, const struct zkl__later *later,
                       zkl_error *err)
{
    int rc = zkl__session_enter(lock->session, err);
    if (rc == ZKL_OK) {
        zkl_session *session = lock->session;
        rc = begin_record(lock, grant, slot, timeout_ms, written, later, err);
        zkl__session_leave(session);
    }
    return rc;
}

static int record(zkl_lock *lock, const zkl_once_slot *slot, int64_t timeout_ms,
                  const struct zkl__later *later, zkl_error *err)
{
    int rc = check(lock, slot, "slot", err);
    if (rc == ZKL_OK && slot->done) {
        rc = zkl__fail(err, ZKL_EINVAL, 0, NULL, "the slot is done");
    } else if (rc == ZKL_OK && (slot->last_ms >= slot->round_ms || /* as in a struct of zeros */
                                slot->reserved[0] != 0 || slot->reserved[1] != 0)) {
        rc = zkl__fail(err, ZKL_EINVAL, 0, NULL,
                       "slot is not filled: give the one that zkl_once_look has written");
    }
    rc = rc == ZKL_OK ? zkl__timeout_check(timeout_ms, err) : rc;
    return rc == ZKL_OK ? record_slot(lock, NULL, slot, timeout_ms, NULL, later, err) : rc;
}

int zkl_once_record(zkl_lock *lock, const zkl_once_slot *slot, int64_t timeout_ms, zkl_error *err)
{
    return record(lock, slot, timeout_ms, NULL, err);
}

int zkl_once_record_async(zkl_lock *lock, const zkl_once_slot *slot, int64_t timeout_ms,
                          zkl_done_fn done, void *payload, zkl_error *err)
{
    return record(lock, slot, timeout_ms, &(struct zkl__later){done, payload}, err);
}

/* --- all of it ------------------------------------------------------------------------------- */

struct whole {
    zkl_lock *lock;
    zkl_cancel cancel;
    int64_t deadline; /* by when the section has begun, or all has ended */
    int64_t length_ms, phase_ms;
    zkl_section_fn section;
    void *payload;
    bool ran, done; /* the section; the slot */
    int result, code;
    zkl_error err; /* of the code: the release that follows has words of its own */
};

/* How long servers may be away. */
static int64_t patience_ms(const struct whole *whole)
{
    zkl_session *session = whole->lock->session;
    return zkl__session_settings(session)->options.connect_timeout_ms;
}

/* In ms, at least 0. */
static int64_t rest_ms(const struct whole *whole)
{
    return zkl__session_left(whole->lock->session, whole->deadline) / ZKL__MS;
}

static int run_if_due(const zkl_cancel *cancel, int64_t token, void *payload)
{
    struct whole *whole = payload;
    int64_t lease_ms = zkl_cancel_remaining_ms(cancel), left_ms = rest_ms(whole);
    zkl_once_slot slot = {0};
    whole->code = look(whole->lock, &cancel->grant, whole->length_ms, whole->phase_ms,
                       lease_ms < left_ms ? lease_ms : left_ms, &slot, NULL, &whole->err);
    if (whole->code != ZKL_OK) {
        whole->cancel.release_by = whole->deadline;
    }
    whole->done = whole->code == ZKL_OK && slot.done;
    if (whole->code == ZKL_OK && !slot.done) {
        whole->ran = true;
        whole->result = whole->section(cancel, token, whole->payload);
        if (whole->result ==
            0) { /* written only while our node stands: so it may be tried beyond the lease */
            whole->code = record_slot(whole->lock, &cancel->grant, &slot, patience_ms(whole),
                                      &whole->done, NULL, &whole->err);
        }
    }
    return 0;
}

static int run_under_lock(struct whole *whole, int64_t timeout_ms, zkl_error *err)
{
    int rc = zkl__section_init(&whole->cancel, whole->lock, 0, err);
    if (rc == ZKL_OK) {
        rc = zkl__section_run(&whole->cancel, timeout_ms, run_if_due, whole, NULL, err);
        zkl__section_deinit(&whole->cancel);
    }
    return rc;
}

/* Once the slot is done, how the lock ended after that is no concern of the caller's: lost, closed,
 * or given back. */
static int run_whole(struct whole *whole, int64_t timeout_ms, zkl_error *err)
{
    zkl_error last;
    int64_t left_ms = rest_ms(whole);
    if (timeout_ms > 0) {
        timeout_ms = left_ms > 0 ? left_ms : 1; /* 0 would be another thing: a try */
    }
    int rc = run_under_lock(whole, timeout_ms, &last);
    if (whole->done) {
        return ZKL_OK;
    }
    if (whole->code != ZKL_OK) {
        rc = whole->code;
        last = whole->err;
    }
    if (rc != ZKL_OK && err) {
        *err = last;
    }
    return rc;
}

int zkl_once_run(zkl_lock *lock, int64_t length_ms, int64_t phase_ms, int64_t timeout_ms,
                 zkl_section_fn section, void *payload, bool *ran, int *result, zkl_error *err)
{
    struct whole whole = {.lock = lock,
                          .length_ms = length_ms,
                          .phase_ms = phase_ms,
                          .section = section,
                          .payload = payload};
    int rc = check(lock, section, "section", err);
    rc = rc == ZKL_OK ? zkl__timeout_check(timeout_ms, err) : rc;
    rc = rc == ZKL_OK ? zkl__lock_keep(lock, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    int64_t most_ms = timeout_ms == 0 ? patience_ms(&whole) : timeout_ms;
    whole.deadline = zkl__session_deadline(lock->session, most_ms);
    rc = zkl_once_prepare(lock->session, lock->path, most_ms, err);
    rc = rc == ZKL_OK ? run_whole(&whole, timeout_ms, err) : rc;
    zkl__lock_let_go(lock);
    if (ran) {
        *ran = whole.ran;
    }
    if (result && whole.ran) {
        *result = whole.result;
    }
    return rc;
}
