/* once.c - once per time slot: a lock, and the last slot done in the data of its path. */
#include "handle.h"
#include "name.h"

#include <zklock/once.h>

#include <stdio.h>
#include <string.h>

#define LENGTH_MIN 1000
#define LENGTH_MAX (3660 * ZKL__DAY_MS)
#define CLOCKS_DIFFER ZKL__DAY_MS /* of servers that lead one after the other, at most */
/* A record of nothing. It is longer than the limit of a semaphore, for which contenders would take
 * the path if it had the children of one. */
#define NO_SLOT "000000"

struct once {
    struct zkl__call call;  /* first */
    const zkl_grant *grant; /* the grant under which the lock must be held; NULL: under any */
    char node[ZKL__NAME_MAX];
    int64_t length_ms, phase_ms;
    int64_t arrival_ms; /* when our znode was created, by the servers' clock */
    int64_t last_ms;    /* the record; INT64_MIN: there is none, -1: it is something else */
    char level[ZKL_PATH_MAX + 1]; /* of zkl_once_prepare */
    /* For the caller: */
    zkl_once_slot *slot;
    int64_t *last, *recorded;
    /* What is recorded: */
    zkl_once_slot to_record;
    char text[24];
    bool written;               /* it is, also when the lock was lost */
    bool lost;                  /* our znode is deleted */
    struct zkl__answer refusal; /* of the write */
};

/* --- prepare --------------------------------------------------------------------------------- */

/* The first record says that the znode lasts. */
static int run_prepare(struct zkl__call *call)
{
    static const struct zkl__op job = {.kind = ZKL__OP_CREATE,
                                       .mode = ZKL__PERSISTENT,
                                       .data = NO_SLOT,
                                       .size = sizeof NO_SLOT - 1};
    return zkl__make_persistent(call, ((struct once *)call)->level, &job, "keeps-the-record");
}

int zkl_once_prepare_async(zkl_session *session, const char *path, int64_t timeout_ms,
                           zkl_done_fn done, void *payload, zkl_error *err)
{
    struct once given = {.call = {.run = run_prepare}};
    return zkl__call_go(&given, sizeof given, session, path, timeout_ms, done, payload, err);
}

int zkl_once_prepare(zkl_session *session, const char *path, int64_t timeout_ms, zkl_error *err)
{
    return zkl_once_prepare_async(session, path, timeout_ms, zkl__caller_waits, NULL, err);
}

/* --- the record ------------------------------------------------------------------------------ */

static int take_record(struct zkl__call *call)
{
    struct once *once = (struct once *)call;
    const struct zkl__answer *answer = &call->answer;
    const int64_t length = once->length_ms; /* 0: not known */
    if (answer->rc != ZKL__RC_OK) {
        return zkl__call_refused(call, "the record");
    }
    bool none = answer->size == 0 || (answer->size == sizeof NO_SLOT - 1 &&
                                      memcmp(answer->data, NO_SLOT, answer->size) == 0);
    once->last_ms = none ? INT64_MIN : zkl__decimal_parse(answer->data, answer->size);
    if (once->last_ms == -1) {
        FAIL(call, ZKL_ECONFLICT,
             "its data is not the number of a slot, but a release mark or another program's: use "
             "another path, or clear the data if nobody needs it");
    }
    /* The writer of a record created its znode in that slot, so the slot had begun. A record of a
     * slot that begins later than its own mtime, or than our own znode's ctime, by more than the
     * servers' clocks may differ, is not written by zklock, or the leader's clock was wrong. It
     * would keep the job from running until then. */
    int64_t known_ms = answer->stat.mtime_ms;
    if (once->arrival_ms > 0 && once->arrival_ms < known_ms) {
        known_ms = once->arrival_ms;
    }
    if (length > 0 &&
        once->last_ms > zkl__slot_of(known_ms, length, 0) + 2 * length + CLOCKS_DIFFER) {
        zkl__session_log(
            call->session, ZKL_LOG_WARN, "once", call->path, 0,
            "its record is of a slot that has not begun yet: ignored, and overwritten");
        once->last_ms = INT64_MIN;
    }
    return ZKL_OK;
}

static int begin_held(struct zkl__call *call)
{
    struct once *once = (struct once *)call;
    struct zkl__lock_status now;
    int rc = zkl__lock_check_held((zkl_lock *)call->owner, &now, "", call->err);
    zkl__name_copy(once->node, now.node);
    if (now.state != ZKL_STATE_LOST && once->grant && !zkl__is_held_under(&now, once->grant)) {
        FAIL(call, ZKL_ELOST, "somebody else released the lock while the job ran");
    }
    return rc;
}

/* Once needs a single holder, a znode whose ctime says when it queued, and the data of the path.
 * Readers and permits are no single holder, a znode that lingers queued before, and a dirty marker
 * is written to the data of the path. */
static int check(const zkl_lock *lock, bool given, const char *what, zkl_error *err)
{
    int rc = zkl__lock_check(lock, &zkl__plain_lock, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    const zkl_lock_options *o = &lock->options;
    if (o->linger_ms > 0 || o->recover || o->delay_after_crash_ms > 0) {
        return zkl__fail_at(
            err, ZKL_EINVAL, lock->path,
            "once needs a lock without linger_ms, recover and delay_after_crash_ms");
    }
    return given ? ZKL_OK : zkl__fail_null(err, what);
}

static int check_slots(int64_t length_ms, int64_t phase_ms, zkl_error *err)
{
    int rc = zkl__range_check("length_ms", length_ms, LENGTH_MIN, LENGTH_MAX, err);
    return rc == ZKL_OK ? zkl__range_check("phase_ms", phase_ms, 0, length_ms - 1, err) : rc;
}

/* --- look ------------------------------------------------------------------------------------ */

static int run_look(struct zkl__call *call)
{
    struct once *once = (struct once *)call;
    CALL_BEGIN(call);
    AWAIT(call, {.kind = ZKL__OP_EXISTS, .name = once->node});
    if (call->answer.rc != ZKL__RC_OK) {
        enum zkl__rc rc = call->answer.rc;
        FAIL_REPLY(call, rc == ZKL__RC_NONODE ? ZKL_ELOST : zkl__rc_code(rc), "our znode: %s",
                   zkl__rc_name(rc));
    }
    once->arrival_ms = call->answer.stat.ctime_ms; /* by the servers' clock */
    AWAIT(call, {.kind = ZKL__OP_GET});
    AWAIT_CALL(call, take_record(call));
    int64_t round_ms = zkl__slot_of(once->arrival_ms, once->length_ms, once->phase_ms);
    *once->slot = (zkl_once_slot){.round_ms = round_ms,
                                  .last_ms = once->last_ms,
                                  .done = once->last_ms >= round_ms,
                                  .version = call->answer.stat.version};
    CALL_END(call);
}

static int look(zkl_lock *lock, const zkl_grant *grant, int64_t length_ms, int64_t phase_ms,
                int64_t timeout_ms, zkl_once_slot *slot, zkl_done_fn done, void *payload,
                zkl_error *err)
{
    struct once given = {
        .call = {.run = run_look, .begin = begin_held, .owner = (struct zkl__object *)lock},
        .grant = grant,
        .length_ms = length_ms,
        .phase_ms = phase_ms,
        .slot = slot};
    int rc = check(lock, slot, "slot", err);
    rc = rc == ZKL_OK ? check_slots(length_ms, phase_ms, err) : rc;
    return rc == ZKL_OK ? zkl__call_go(&given, sizeof given, lock->session, lock->path, timeout_ms,
                                       done, payload, err)
                        : rc;
}

int zkl_once_look(zkl_lock *lock, int64_t length_ms, int64_t phase_ms, int64_t timeout_ms,
                  zkl_once_slot *slot, zkl_error *err)
{
    return zkl_once_look_async(lock, length_ms, phase_ms, timeout_ms, slot, zkl__caller_waits, NULL,
                               err);
}

int zkl_once_look_async(zkl_lock *lock, int64_t length_ms, int64_t phase_ms, int64_t timeout_ms,
                        zkl_once_slot *slot, zkl_done_fn done, void *payload, zkl_error *err)
{
    return look(lock, NULL, length_ms, phase_ms, timeout_ms, slot, done, payload, err);
}

/* --- last ------------------------------------------------------------------------------------ */

/* Creates nothing: a job that never ran has no znode and no record. The record's mtime is the time
 * of its transaction, by the leader's clock (PrepRequestProcessor). */
static int run_last(struct zkl__call *call)
{
    struct once *once = (struct once *)call;
    CALL_BEGIN(call);
    AWAIT(call, {.kind = ZKL__OP_GET});
    if (call->answer.rc == ZKL__RC_NONODE) {
        once->last_ms = INT64_MIN;
    } else {
        AWAIT_CALL(call, take_record(call));
    }
    *once->last = once->last_ms;
    *once->recorded = once->last_ms == INT64_MIN ? INT64_MIN : call->answer.stat.mtime_ms;
    CALL_END(call);
}

int zkl_once_last_async(zkl_session *session, const char *path, int64_t length_ms,
                        int64_t timeout_ms, int64_t *last_ms, int64_t *recorded_ms,
                        zkl_done_fn done, void *payload, zkl_error *err)
{
    struct once given = {.call = {.run = run_last},
                         .length_ms = length_ms,
                         .last = last_ms,
                         .recorded = recorded_ms};
    if (!last_ms || !recorded_ms) {
        return zkl__fail_null(err, last_ms ? "recorded_ms" : "last_ms");
    }
    int rc = length_ms == 0 ? ZKL_OK
                            : zkl__range_check("length_ms", length_ms, LENGTH_MIN, LENGTH_MAX, err);
    return rc == ZKL_OK
               ? zkl__call_go(&given, sizeof given, session, path, timeout_ms, done, payload, err)
               : rc;
}

int zkl_once_last(zkl_session *session, const char *path, int64_t length_ms, int64_t timeout_ms,
                  int64_t *last_ms, int64_t *recorded_ms, zkl_error *err)
{
    return zkl_once_last_async(session, path, length_ms, timeout_ms, last_ms, recorded_ms,
                               zkl__caller_waits, NULL, err);
}

/* --- record ---------------------------------------------------------------------------------- */

/* When the reply to the write is lost, the servers refuse the second copy. The record then says
 * whether the first one was carried out. */
static int run_record(struct zkl__call *call)
{
    struct once *once = (struct once *)call;
    CALL_BEGIN(call);
    snprintf(once->text, sizeof once->text, "%lld", (long long)once->to_record.round_ms);
    AWAIT(call, {.kind = ZKL__OP_CHECK, .name = once->node, .version = -1},
          {.kind = ZKL__OP_SET,
           .data = once->text,
           .size = strlen(once->text),
           .version = once->to_record.version});
    if (call->answer.rc == ZKL__RC_OK) {
        once->written = true;
        return ZKL_OK;
    }
    once->refusal = call->answer;
    once->lost = call->answer.parts[0] == ZKL__RC_NONODE;
    call->doubt =
        once->lost ? "the lock was lost, and it is unknown whether the slot is recorded: " : NULL;
    AWAIT(call, {.kind = ZKL__OP_GET});
    int rc = take_record(call);
    if (rc != ZKL_OK && !(once->lost && rc == ZKL_ENOENT)) {
        return rc;
    }
    /* Ours names this slot, and was written once since zkl_once_look. */
    once->written = rc == ZKL_OK && once->last_ms == once->to_record.round_ms &&
                    call->answer.stat.version == once->to_record.version + 1;
    call->doubt = NULL;
    if (once->lost) { /* the record cannot tell our write from the next holder's */
        FAIL(call, ZKL_ELOST,
             once->written ? "the lock was lost; the slot is recorded, by us or by the "
                             "next holder"
                           : "the lock was lost before the slot could be recorded");
    }
    if (once->written) {
        return ZKL_OK;
    }
    call->answer = once->refusal;
    enum zkl__rc refused = call->answer.rc; /* of the part that was refused */
    if (refused == ZKL__RC_BADVERSION || refused == ZKL__RC_NONODE) {
        /* nobody else may write while our znode is first */
        FAIL(call, ZKL_ECONFLICT, "the record was changed by somebody else");
    }
    FAIL_REPLY(call, zkl__rc_code(refused), "the record may not be written: %s",
               zkl__rc_why(refused));
    CALL_END(call);
}

static int record_slot(zkl_lock *lock, const zkl_grant *grant, const zkl_once_slot *slot,
                       int64_t timeout_ms, bool *written, zkl_done_fn done, void *payload,
                       zkl_error *err)
{
    struct once given = {
        .call = {.run = run_record, .begin = begin_held, .owner = &lock->object, .finishes = true},
        .grant = grant,
        .to_record = *slot};
    int rc = zkl__call_go(&given, sizeof given, lock->session, lock->path, timeout_ms, done,
                          payload, err);
    if (written) { /* the caller waits, so the call ran in this very struct */
        *written = given.written;
    }
    return rc;
}

int zkl_once_record_async(zkl_lock *lock, const zkl_once_slot *slot, int64_t timeout_ms,
                          zkl_done_fn done, void *payload, zkl_error *err)
{
    int rc = check(lock, slot, "slot", err);
    if (rc == ZKL_OK && slot->done) {
        rc = zkl__fail_at(err, ZKL_EINVAL, NULL, "the slot is done");
    } else if (rc == ZKL_OK && (slot->last_ms >= slot->round_ms || /* as in a struct of zeros */
                                slot->reserved[0] != 0 || slot->reserved[1] != 0)) {
        rc = zkl__fail_at(err, ZKL_EINVAL, NULL,
                          "slot is not filled: give the one that zkl_once_look has written");
    }
    return rc == ZKL_OK ? record_slot(lock, NULL, slot, timeout_ms, NULL, done, payload, err) : rc;
}

int zkl_once_record(zkl_lock *lock, const zkl_once_slot *slot, int64_t timeout_ms, zkl_error *err)
{
    return zkl_once_record_async(lock, slot, timeout_ms, zkl__caller_waits, NULL, err);
}

/* --- run ------------------------------------------------------------------------------------- */

struct once_run {
    zkl_cancel cancel;
    int64_t deadline; /* of everything but the section */
    int64_t length_ms, phase_ms;
    zkl_section_fn section;
    void *payload;
    bool ran, done; /* the section; the slot */
    int result, code;
    zkl_error err; /* of the code; the release that follows has its own */
};

static int run_if_due(const zkl_cancel *cancel, int64_t token, void *payload)
{
    struct once_run *run = payload;
    int64_t lease_ms = zkl_cancel_remaining_ms(cancel);
    int64_t left_ms = zkl__session_left(run->deadline) / ZKL__MS;
    zkl_once_slot slot = {0};
    run->code =
        look(cancel->lock, &cancel->grant, run->length_ms, run->phase_ms,
             lease_ms < left_ms ? lease_ms : left_ms, &slot, zkl__caller_waits, NULL, &run->err);
    if (run->code != ZKL_OK) {
        run->cancel.release_by = run->deadline;
    }
    run->done = run->code == ZKL_OK && slot.done;
    if (run->code == ZKL_OK && !slot.done) {
        run->ran = true;
        run->result = run->section(cancel, token, run->payload);
        /* The write is guarded by our znode, so it may be tried beyond the lease. */
        if (run->result == 0) {
            int64_t timeout_ms = cancel->lock->session->settings.options.connect_timeout_ms;
            run->code = record_slot(cancel->lock, &cancel->grant, &slot, timeout_ms, &run->done,
                                    zkl__caller_waits, NULL, &run->err);
        }
    }
    return 0;
}

int zkl_once_run(zkl_lock *lock, int64_t length_ms, int64_t phase_ms, int64_t timeout_ms,
                 zkl_section_fn section, void *payload, bool *ran, int *result, zkl_error *err)
{
    struct once_run run = {
        .length_ms = length_ms, .phase_ms = phase_ms, .section = section, .payload = payload};
    zkl_error last;
    if (ran) {
        *ran = false;
    }
    int rc = check(lock, section, "section", err);
    rc = rc == ZKL_OK ? check_slots(length_ms, phase_ms, err) : rc;
    rc = rc == ZKL_OK ? zkl__timeout_check(timeout_ms, err) : rc;
    rc = rc == ZKL_OK ? zkl__section_init(&run.cancel, lock, 0, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    int64_t most_ms =
        timeout_ms == 0 ? lock->session->settings.options.connect_timeout_ms : timeout_ms;
    run.deadline = zkl__session_deadline(most_ms);
    rc = zkl_once_prepare(lock->session, lock->path, most_ms, &last);
    if (rc == ZKL_OK) {
        int64_t left_ms = zkl__session_left(run.deadline) / ZKL__MS;
        if (timeout_ms > 0) {
            timeout_ms = left_ms > 0 ? left_ms : 1; /* 0 would mean a try */
        }
        rc = zkl__section_run(&run.cancel, timeout_ms, run_if_due, &run, NULL, &last);
    }
    zkl__section_deinit(&run.cancel);
    if (ran) {
        *ran = run.ran;
    }
    if (result && run.ran) {
        *result = run.result;
    }
    /* Once the slot is recorded, a lock that is lost or closed afterwards is no error for the
     * caller. */
    if (run.done) {
        return ZKL_OK;
    }
    if (run.code != ZKL_OK) {
        rc = run.code;
        last = run.err;
    }
    if (rc != ZKL_OK && err) {
        *err = last;
    }
    return rc;
}
