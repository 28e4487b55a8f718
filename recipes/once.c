/* once.c - once per time slot: a lock, and the last slot done in the data of its path. */
#include "section.h"

#include "await.h"
#include "error.h"
#include "path.h"
#include "slot.h"

#include <zklock/once.h>

#include <stdio.h>
#include <string.h>

#define LENGTH_MIN 1000
#define LENGTH_MAX (3660 * ZKL__DAY_MS)
#define CLOCKS_DIFFER ZKL__DAY_MS /* of servers that lead one after the other, at most */

struct directory {
    enum zkl__rc rc;
    struct zkl__stat stat;
    bool empty;
};

static void look_at_directory(void *arg, const struct zkl__reply *reply)
{
    *(struct directory *)arg = (struct directory){reply->rc, reply->stat, reply->size == 0};
}

static void take_rc(void *arg, const struct zkl__reply *reply)
{
    *(enum zkl__rc *)arg = reply->rc;
}

/* A path that was a lock's before is a container, which servers remove when it is empty
 * (ContainerManager), with the record in it. No stat tells it from a persistent znode. So one that
 * had children, has none now and holds no record is made anew. *got: ZKL__RC_NONODE, try again; all
 * else will do, also what stands because somebody queues there. */
static int make_lasting(zkl_session *session, const char *path, int64_t deadline, enum zkl__rc *got,
                        zkl_error *err)
{
    const struct zkl__op get = {.kind = ZKL__OP_GET, .dir = path};
    struct directory directory;
    int rc = zkl__session_insist(session, &get, deadline, look_at_directory, &directory, err);
    *got = directory.rc;
    if (rc != ZKL_OK || directory.rc != ZKL__RC_OK || !directory.empty ||
        directory.stat.child_count > 0 || directory.stat.cversion == 0) {
        return rc;
    }
    const struct zkl__op parts[] = {
        {.kind = ZKL__OP_DELETE, .dir = path, .version = directory.stat.version},
        {.kind = ZKL__OP_CREATE, .dir = path, .mode = ZKL__PERSISTENT},
    };
    const struct zkl__op op = {.kind = ZKL__OP_MULTI, .parts = parts, .part_count = 2};
    return zkl__session_insist(session, &op, deadline, take_rc, got, err);
}

int zkl_once_prepare(zkl_session *session, const char *path, int64_t timeout_ms, zkl_error *err)
{
    if (!session) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "session is NULL");
    }
    int rc = zkl__path_check(path, err);
    rc = rc == ZKL_OK ? zkl__timeout_check(timeout_ms, err) : rc;
    rc = rc == ZKL_OK ? zkl__session_enter(session, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    int64_t deadline = zkl__deadline(zkl__session_now(session), timeout_ms);
    enum zkl__rc got;
    do {
        got = ZKL__RC_OK;
        rc = zkl__session_make(session, path, deadline, err);
        rc = rc == ZKL_OK ? make_lasting(session, path, deadline, &got, err) : rc;
    } while (rc == ZKL_OK && got == ZKL__RC_NONODE);
    zkl__session_leave(session);
    return rc;
}

/* --- looking --------------------------------------------------------------------------------- */

static bool is_held(const zkl_lock *lock, char node[ZKL__NAME_MAX])
{
    struct zkl__standing now = zkl__lock_look(lock);
    strcpy(node, now.node);
    return zkl__state_holds(now.state);
}

static int check_held(const zkl_lock *lock, char node[ZKL__NAME_MAX], zkl_error *err)
{
    if (is_held(lock, node)) {
        return ZKL_OK;
    }
    bool lost = zkl__lock_look(lock).state == ZKL_STATE_LOST;
    return zkl__fail(err, lost ? ZKL_ELOST : ZKL_ENOTHELD, 0, lock->path,
                     lost ? "the lock was lost" : "the lock is not held");
}

struct answer {
    enum zkl__rc rc;
    struct zkl__stat stat;
    int64_t last_ms;
    bool is_record;
};

static void look(void *arg, const struct zkl__reply *reply)
{
    struct answer *answer = arg;
    answer->rc = reply->rc;
    answer->stat = reply->stat;
    answer->is_record =
        reply->rc == ZKL__RC_OK && zkl__slot_parse(reply->data, reply->size, &answer->last_ms);
}

static int read_record(zkl_session *session, const char *path, struct answer *record,
                       int64_t deadline, zkl_error *err)
{
    const struct zkl__op op = {.kind = ZKL__OP_GET, .dir = path};
    int rc = zkl__session_insist(session, &op, deadline, look, record, err);
    if (rc == ZKL_OK && record->rc != ZKL__RC_OK) {
        return zkl__fail(err, zkl__rc_code(record->rc), 0, path, "the record: %s",
                         zkl__rc_name(record->rc));
    }
    if (rc == ZKL_OK && !record->is_record) {
        return zkl__fail(err, ZKL_ECONFLICT, 0, path,
                         "its data is not the number of a slot: used as something else");
    }
    return rc;
}

/* When our node was made, by the servers' clock. */
static int read_arrival(zkl_lock *lock, const char *node, int64_t *arrival_ms, int64_t deadline,
                        zkl_error *err)
{
    struct answer own;
    const struct zkl__op op = {.kind = ZKL__OP_EXISTS, .dir = lock->path, .name = node};
    int rc = zkl__session_insist(lock->session, &op, deadline, look, &own, err);
    if (rc == ZKL_OK && own.rc != ZKL__RC_OK) {
        return zkl__fail(err, own.rc == ZKL__RC_NONODE ? ZKL_ELOST : zkl__rc_code(own.rc), 0,
                         lock->path, "our znode: %s", zkl__rc_name(own.rc));
    }
    *arrival_ms = own.stat.ctime_ms;
    return rc;
}

/* A record is written by one whose znode was made in that slot, so not before the slot began. One
 * that is later than the servers' clock was when it was written, by more than these clocks may
 * differ, is nobody's of ours, and would keep the job from ever running again. */
static void check_time(zkl_session *session, const char *path, struct answer *record,
                       int64_t length_ms)
{
    int64_t last =
        zkl__slot_of(record->stat.mtime_ms, length_ms, 0) + 2 * length_ms + CLOCKS_DIFFER;
    if (record->last_ms > last) {
        zkl__session_log(session, ZKL_LOG_WARN, "once", path,
                         "its record is of a slot that had not begun when it was written: ignored, "
                         "and overwritten");
        record->last_ms = INT64_MIN;
    }
}

static int look_inside(zkl_lock *lock, int64_t length_ms, int64_t phase_ms, int64_t deadline,
                       zkl_once_slot *slot, zkl_error *err)
{
    char node[ZKL__NAME_MAX];
    struct answer record;
    int64_t arrival_ms = 0;
    int rc = check_held(lock, node, err);
    rc = rc == ZKL_OK ? read_arrival(lock, node, &arrival_ms, deadline, err) : rc;
    rc = rc == ZKL_OK ? read_record(lock->session, lock->path, &record, deadline, err) : rc;
    if (rc == ZKL_OK) {
        check_time(lock->session, lock->path, &record, length_ms);
        slot->round_ms = zkl__slot_of(arrival_ms, length_ms, phase_ms);
        slot->last_ms = record.last_ms;
        slot->done = record.last_ms >= slot->round_ms;
        slot->version = record.stat.version;
    }
    return rc;
}

/* One contender alone holds, and its node says when it queued: so it is with a lock, and not with
 * readers or permits. */
static int check(const zkl_lock *lock, bool given, const char *what, zkl_error *err)
{
    int rc = zkl__lock_check(lock, &zkl__plain_lock, err);
    return rc == ZKL_OK && !given ? zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", what) : rc;
}

int zkl_once_look(zkl_lock *lock, int64_t length_ms, int64_t phase_ms, int64_t timeout_ms,
                  zkl_once_slot *slot, zkl_error *err)
{
    int rc = check(lock, slot, "slot", err);
    rc = rc == ZKL_OK ? zkl__range_check("length_ms", length_ms, LENGTH_MIN, LENGTH_MAX, err) : rc;
    rc = rc == ZKL_OK ? zkl__range_check("phase_ms", phase_ms, 0, length_ms - 1, err) : rc;
    rc = rc == ZKL_OK ? zkl__timeout_check(timeout_ms, err) : rc;
    rc = rc == ZKL_OK ? zkl__session_enter(lock->session, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = lock->session;
    zkl__lock_ref(lock);
    rc = look_inside(lock, length_ms, phase_ms,
                     zkl__deadline(zkl__session_now(session), timeout_ms), slot, err);
    zkl__lock_unref(lock);
    zkl__session_leave(session);
    return rc;
}

/* Nothing is created: a job that never ran has no znode, and no record. The record's mtime is the
 * time of its transaction, by the clock of the leader (PrepRequestProcessor). */
static int read_last(zkl_session *session, const char *path, int64_t length_ms, int64_t deadline,
                     struct answer *record, zkl_error *err)
{
    int rc = read_record(session, path, record, deadline, err);
    if (rc == ZKL_ENOENT && record->rc == ZKL__RC_NONODE) {
        record->last_ms = INT64_MIN;
        return ZKL_OK;
    }
    if (rc == ZKL_OK && length_ms > 0) {
        check_time(session, path, record, length_ms);
    }
    return rc;
}

int zkl_once_last(zkl_session *session, const char *path, int64_t length_ms, int64_t timeout_ms,
                  int64_t *last_ms, int64_t *recorded_ms, zkl_error *err)
{
    if (!session || !last_ms || !recorded_ms) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL",
                         !session   ? "session"
                         : !last_ms ? "last_ms"
                                    : "recorded_ms");
    }
    int rc = zkl__path_check(path, err);
    rc = rc == ZKL_OK && length_ms != 0
             ? zkl__range_check("length_ms", length_ms, LENGTH_MIN, LENGTH_MAX, err)
             : rc;
    rc = rc == ZKL_OK ? zkl__timeout_check(timeout_ms, err) : rc;
    rc = rc == ZKL_OK ? zkl__session_enter(session, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_error last = {.code = ZKL_OK};
    struct answer record;
    rc = read_last(session, path, length_ms, zkl__deadline(zkl__session_now(session), timeout_ms),
                   &record, &last);
    zkl__session_leave(session);
    if (rc == ZKL_OK) {
        *last_ms = record.last_ms;
        *recorded_ms = record.last_ms == INT64_MIN ? INT64_MIN : record.stat.mtime_ms;
    } else if (err) {
        *err = last;
    }
    return rc;
}

/* --- recording ------------------------------------------------------------------------------- */

struct written {
    enum zkl__rc rc, check;
};

static void look_at_parts(void *arg, const struct zkl__reply *reply)
{
    struct written *written = arg;
    written->rc = reply->rc;
    written->check = reply->part_count > 0 ? reply->parts[0].rc : reply->rc;
}

/* *recorded: it says this slot, and was written once since it was looked at. */
static int read_back(zkl_lock *lock, const zkl_once_slot *slot, int64_t deadline, bool *recorded,
                     zkl_error *err)
{
    struct answer record;
    int rc = read_record(lock->session, lock->path, &record, deadline, err);
    *recorded = rc == ZKL_OK && record.last_ms == slot->round_ms &&
                record.stat.version == slot->version + 1;
    return rc;
}

/* Our node is gone: but the transaction may have been applied before that, and its answer lost.
 * Then the record says so; it cannot say whether it was we, or who was granted since. */
static int lost(zkl_lock *lock, const zkl_once_slot *slot, int64_t deadline, bool *recorded,
                zkl_error *err)
{
    zkl_error last;
    int rc = read_back(lock, slot, deadline, recorded, &last);
    if (rc != ZKL_OK && rc != ZKL_ENOENT) {
        return zkl__fail(err, rc, last.zk_code, lock->path,
                         "the lock was lost, and whether the slot is recorded: %s", last.text);
    }
    return zkl__fail(err, ZKL_ELOST, 0, lock->path,
                     *recorded
                         ? "the lock was lost; the slot is recorded, by us or by the next holder"
                         : "the lock was lost before the slot could be recorded");
}

/* Sent again when the answer is lost: if it was done already, the record says so. */
static int write_record(zkl_lock *lock, const char *node, const zkl_once_slot *slot,
                        int64_t deadline, bool *recorded, zkl_error *err)
{
    char text[24];
    int length = snprintf(text, sizeof text, "%lld", (long long)slot->round_ms);
    const struct zkl__op parts[] = {
        {.kind = ZKL__OP_CHECK, .dir = lock->path, .name = node, .version = -1},
        {.kind = ZKL__OP_SET,
         .dir = lock->path,
         .data = text,
         .size = (size_t)length,
         .version = slot->version},
    };
    const struct zkl__op op = {.kind = ZKL__OP_MULTI, .parts = parts, .part_count = 2};
    struct written written;
    int rc = zkl__session_insist_to_end(lock->session, &op, deadline, look_at_parts, &written, err);
    *recorded = rc == ZKL_OK && written.rc == ZKL__RC_OK;
    if (rc != ZKL_OK || *recorded) {
        return rc;
    }
    if (written.check == ZKL__RC_NONODE) {
        return lost(lock, slot, deadline, recorded, err);
    }
    rc = read_back(lock, slot, deadline, recorded, err);
    if (rc != ZKL_OK || *recorded) {
        return rc; /* by us: nobody else may write while our node stands first */
    }
    return zkl__fail(err, ZKL_ECONFLICT, 0, lock->path, "the record was changed by somebody else");
}

static int record_slot(zkl_lock *lock, const zkl_once_slot *slot, int64_t timeout_ms,
                       bool *recorded, zkl_error *err)
{
    char node[ZKL__NAME_MAX];
    int rc = zkl__session_enter(lock->session, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = lock->session;
    zkl__lock_ref(lock);
    rc = check_held(lock, node, err);
    if (rc == ZKL_OK) {
        rc = write_record(lock, node, slot, zkl__deadline(zkl__session_now(session), timeout_ms),
                          recorded, err);
    }
    zkl__lock_unref(lock);
    zkl__session_leave(session);
    return rc;
}

int zkl_once_record(zkl_lock *lock, const zkl_once_slot *slot, int64_t timeout_ms, zkl_error *err)
{
    bool recorded = false;
    int rc = check(lock, slot, "slot", err);
    if (rc == ZKL_OK && slot->done) {
        rc = zkl__fail(err, ZKL_EINVAL, 0, NULL, "the slot is done");
    }
    rc = rc == ZKL_OK ? zkl__timeout_check(timeout_ms, err) : rc;
    return rc == ZKL_OK ? record_slot(lock, slot, timeout_ms, &recorded, err) : rc;
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
    int64_t now = zkl__session_now(whole->lock->session);
    return whole->deadline > now ? (whole->deadline - now) / ZKL__MS : 0;
}

static int run_if_due(const zkl_cancel *cancel, int64_t token, void *payload)
{
    struct whole *whole = payload;
    int64_t lease_ms = zkl_cancel_remaining_ms(cancel), left_ms = rest_ms(whole);
    zkl_once_slot slot;
    whole->code = zkl_once_look(whole->lock, whole->length_ms, whole->phase_ms,
                                lease_ms < left_ms ? lease_ms : left_ms, &slot, &whole->err);
    if (whole->code != ZKL_OK) {
        whole->cancel.release_by = whole->deadline;
    }
    whole->done = whole->code == ZKL_OK && slot.done;
    if (whole->code == ZKL_OK && !slot.done) {
        whole->ran = true;
        whole->result = whole->section(cancel, token, whole->payload);
        if (whole->result ==
            0) { /* written only while our node stands: so it may be tried beyond the lease */
            whole->code =
                record_slot(whole->lock, &slot, patience_ms(whole), &whole->done, &whole->err);
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
    whole.deadline = zkl__deadline(zkl__session_now(lock->session), most_ms);
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
