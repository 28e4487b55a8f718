/* partition.c - pieces of work, assigned to the members of a partition.
 *
 * A partition is a list of members that is watched, a lock for its own membership, and a lock for
 * each piece. The members and the pieces alone decide the assignment (share.h), so all members
 * compute the same one. A member works on a piece only while it holds the lock of the piece.
 *
 * All decisions run in callbacks, which run one at a time: `reconcile` when the members or our
 * membership changed, `reconcile_piece` for the piece whose lock changed. Both compare the current
 * state with the assignment and do what is missing. The order of events does not matter, and an
 * event may be missed. The session's mutex guards what other threads read. */

#include "handle.h"
#include "name.h"
#include "share.h"
#include "options.h"

#include <zklock/partition.h>
#include <zklock/zookeeper.h>

#include <stdio.h>
#include <string.h>

enum zkl__partition_phase {
    ZKL__PARTITION_IDLE, /* not started, or stopped: no callback of the user starts */
    ZKL__PARTITION_RUNNING,
    ZKL__PARTITION_STOPPING, /* the next callback revokes all pieces */
    ZKL__PARTITION_UNWINDING /* all are revoked; callbacks or work have not ended yet */
};

/* The user's work on a piece. */
enum zkl__work {
    ZKL__WORK_NONE,
    ZKL__WORK_RUNS, /* assigned */
    ZKL__WORK_ENDS  /* revoked; we keep the lock until the user says that the work has ended */
};

/* The lock of a piece, and the work on it. Our membership is one, too, and has no work. */
struct zkl__piece {
    zkl_lock lock; /* first */
    zkl_partition *partition;
    const char *name;    /* the last component of its path */
    enum zkl__work work; /* guarded by the session's mutex */
    bool wanted;         /* assigned to us, by the members that we know */
    zkl_state reported;  /* the last state that the user was given, while there is work */
    bool in_callback;    /* a function of the user runs for this piece */
    bool refusal_logged; /* the servers refuse it, and the log says so */
};

struct zkl_partition {
    struct zkl__object
        object; /* first. Freed: the outermost callback frees the rest. It has seen lists of
                   members, and shown is the one by which the pieces are assigned now */
    zkl_partition_options options;
    size_t count;
    struct zkl__piece **pieces;
    const char **names;    /* of the pieces */
    struct zkl__map index; /* from a name to the position in pieces */
    size_t *owners;        /* room for an assignment: the member that owns each piece */
    struct zkl__piece *member;
    struct zkl__member_list list;
    /* Guarded by the session's mutex: */
    enum zkl__partition_phase phase;
    struct zkl__retry retry;   /* of what was refused */
    bool list_refusal_logged;  /* the servers refuse the list of members, and the log says so */
    char node[ZKL__NAME_MAX];  /* our member node */
    unsigned callback_depth;   /* how many callbacks run, one inside the other */
    bool being_freed;          /* it may not be started again */
    size_t busy, running;      /* pieces with any work, and with running work */
    bool waits_for_cap;        /* a piece begins when the work on another one has ended */
    struct zkl__margin margin; /* of the lease, while there is work */
};

static bool enter(const zkl_partition *partition)
{
    return zkl__session_enter(partition->object.session, NULL) == ZKL_OK;
}

static void leave(const zkl_partition *partition)
{
    zkl__session_leave(partition->object.session);
}

/* === phases =================================================================================== */

/* Session mutex held. RUNNING may follow any phase; the others follow it in their order. */
static void enter_phase(zkl_partition *partition, enum zkl__partition_phase phase)
{
    static const enum zkl__partition_phase before[] = {
        [ZKL__PARTITION_STOPPING] = ZKL__PARTITION_RUNNING,
        [ZKL__PARTITION_UNWINDING] = ZKL__PARTITION_STOPPING,
        [ZKL__PARTITION_IDLE] = ZKL__PARTITION_UNWINDING,
    };
    ZKL__ENSURE(phase == ZKL__PARTITION_RUNNING || before[phase] == partition->phase);
    partition->phase = phase;
}

/* === acquires, and refusals =================================================================== */

/* Schedules another attempt, with exponential backoff. */
static void retry_later(zkl_partition *partition)
{
    if (enter(partition)) {
        if (!partition->retry.alarm.timer.set) {
            zkl__retry_later(partition->object.session, &partition->retry);
        }
        leave(partition);
    }
}

/* Session mutex held. Logs a refusal once, until the servers accept again. */
static void log_refusal(const zkl_partition *partition, const char *path, bool *logged, int code,
                        const char *what)
{
    if (!*logged) {
        char text[ZKL_ERROR_TEXT_MAX + 160];
        snprintf(text, sizeof text, "refused: %s%s; it is tried again", what,
                 code == ZKL_EAUTH
                     ? ". Let this session read, create and delete there, or give it credentials"
                     : "");
        zkl__session_log(partition->object.session, ZKL_LOG_WARN, "partition", path, 0, text);
        *logged = true;
    }
}

static void on_refused(struct zkl__piece *piece, const zkl_error *err)
{
    zkl_partition *partition = piece->partition;
    if (enter(partition)) {
        log_refusal(partition, piece->lock.path, &piece->refusal_logged, err->code, err->text);
        leave(partition);
    }
    retry_later(partition);
}

static void on_acquired(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err,
                        void *payload)
{
    struct zkl__piece *piece = (struct zkl__piece *)lock;
    zkl_session *session = lock->session;
    (void)payload, (void)grant;
    if (code != ZKL_OK && code != ZKL_ECANCELED && code != ZKL_ELOST) {
        on_refused(piece, err); /* the servers would refuse the next one, too */
        return;
    }
    if (code == ZKL_OK && zkl__session_enter(session, NULL) == ZKL_OK) {
        if (piece->refusal_logged) {
            zkl__session_log(session, ZKL_LOG_INFO, "partition", lock->path, 0,
                             "not refused any more");
        }
        piece->refusal_logged = false;
        piece->partition->retry.pause = 0;
        zkl__session_leave(session);
    }
    lock->options.state_fn(lock, ZKL_STATE_HELD, NULL);
}

/* Begins an acquire. A refusal is logged, and tried again later. */
static void begin_acquire(struct zkl__piece *piece)
{
    zkl_error err;
    int rc = zkl_lock_acquire_async(&piece->lock, ZKL_WAIT_FOREVER, on_acquired, NULL, &err);
    if (rc != ZKL_OK && rc != ZKL_ECLOSED && rc != ZKL_EFORKED) {
        on_refused(piece, &err);
    }
}

/* === one piece ================================================================================ */

/* Callbacks run everything but zkl_partition_done, which any thread may call. It ends the work and
 * releases the lock without leaving the session's mutex, so a piece with work always has the lock
 * that protects the work. */

static void set_work(struct zkl__piece *piece, enum zkl__work work)
{
    zkl_partition *partition = piece->partition;
    partition->busy += (size_t)(work != ZKL__WORK_NONE) - (size_t)(piece->work != ZKL__WORK_NONE);
    partition->running +=
        (size_t)(work == ZKL__WORK_RUNS) - (size_t)(piece->work == ZKL__WORK_RUNS);
    piece->work = work;
}

/* Session mutex held. The user's work has ended: releases the lock of the piece. */
static void end_work(struct zkl__piece *piece)
{
    zkl_partition *partition = piece->partition;
    if (piece->work == ZKL__WORK_NONE) {
        return;
    }
    set_work(piece, ZKL__WORK_NONE);
    zkl__lock_give_up(&piece->lock, ZKL_ECANCELED);
    if (partition->waits_for_cap) {
        partition->waits_for_cap = false;
        zkl__object_post(&partition->object);
    }
}

/* --- the user's functions -------------------------------------------------------------------- */

/* Returns false when the user's function must not be called: the user has freed the partition, or
 * has ended the work meanwhile. */
static bool begin_call(struct zkl__piece *piece, enum zkl__work from, enum zkl__work to,
                       zkl_state reported)
{
    zkl_partition *partition = piece->partition;
    zkl__session_enter_if_ours(partition->object.session);
    bool calls = !partition->object.freed && piece->work == from;
    if (calls) {
        set_work(piece, to);
        piece->reported = reported;
        piece->in_callback = true;
    } else if (partition->object.freed) {
        end_work(piece);
    }
    leave(partition);
    return calls;
}

/* Returns true if something changed. */
static bool report_state(struct zkl__piece *piece, zkl_state state, enum zkl__work work)
{
    const zkl_partition_options *o = &piece->partition->options;
    if (state == piece->reported || !o->state_fn) {
        return false;
    }
    if (begin_call(piece, work, work, state)) {
        o->state_fn(piece->partition, piece->name, state, o->payload);
        piece->in_callback = false;
    }
    return true;
}

/* --- from the current state to the assigned one ---------------------------------------------- */

/* Returns true if something changed, so that the piece is to be looked at again. */
static bool reconcile_piece_once(struct zkl__piece *piece)
{
    zkl_partition *partition = piece->partition;
    zkl_session *session = partition->object.session;
    const zkl_partition_options *o = &partition->options;
    struct zkl__lock_status now = {.state = ZKL_STATE_IDLE};
    if (zkl__session_forked(session)) {
        return false; /* a function of the user has forked, and this is the child */
    }
    /* The state of the lock and of the work together, because zkl_partition_done changes both. In a
     * closed session nothing is held. */
    if (zkl__session_enter(session, NULL) == ZKL_OK) {
        now = zkl__lock_status_locked(&piece->lock);
    } else {
        zkl__session_enter_if_ours(session);
    }
    enum zkl__work work = piece->work;
    zkl__session_leave(session);
    if (piece->in_callback) {
        return false; /* the caller of that function goes on when it returns */
    }
    bool held = now.token != 0;
    /* The rest of the lease is long enough to begin, or to go on with, the work. */
    bool suffices = zkl__session_left(now.until) > partition->margin.ns;

    if (work == ZKL__WORK_ENDS) {
        return report_state(piece, held ? now.state : ZKL_STATE_LOST, ZKL__WORK_ENDS);
    }
    if (work == ZKL__WORK_RUNS) {
        bool ends = !held || !piece->wanted || !suffices;
        if (!ends) {
            return report_state(piece, now.state, ZKL__WORK_RUNS);
        }
        if (begin_call(piece, ZKL__WORK_RUNS, ZKL__WORK_ENDS,
                       held ? piece->reported : ZKL_STATE_LOST)) {
            o->revoked_fn(partition, piece->name, !held, o->payload);
            piece->in_callback = false;
            if (!o->done_later && zkl__session_enter_if_ours(session)) {
                end_work(piece);
                leave(partition);
            }
        }
        return true;
    }

    if (now.state == ZKL_STATE_LOST || (held && !piece->wanted)) {
        zkl_lock_release(&piece->lock, NULL);
        return true;
    }
    if (held && !suffices) {
        retry_later(partition);
        return false;
    }
    if (held) {
        /* Without room, the end of the work on another piece starts the next attempt (end_work). */
        zkl__session_enter_if_ours(session);
        bool room = o->cap == 0 || partition->busy < o->cap;
        partition->waits_for_cap |= !room;
        leave(partition);
        if (room && begin_call(piece, ZKL__WORK_NONE, ZKL__WORK_RUNS, ZKL_STATE_HELD)) {
            o->assigned_fn(partition, piece->name, now.token, o->payload);
            piece->in_callback = false;
        }
        return room;
    }
    if (now.state == ZKL_STATE_WAITING && !piece->wanted) {
        zkl_lock_cancel(&piece->lock);
    } else if (now.state == ZKL_STATE_IDLE && piece->wanted &&
               zkl_lock_is_held(&partition->member->lock)) {
        begin_acquire(piece);
    }
    return false;
}

/* From a callback, session mutex not held. Acquires or releases the lock, and calls the user's
 * functions, until the piece is in the state that the assignment wants. */
static void reconcile_piece(struct zkl__piece *piece)
{
    while (reconcile_piece_once(piece)) {
    }
}

/* === the assignment =========================================================================== */

/* A member is granted as soon as its node exists: no rule makes it wait. */
static const struct zkl__rule member_rule = {"lock-", 0};

/* --- a lease that becomes too short ---------------------------------------------------------- */

static int64_t lease_until(const void *owner)
{
    const zkl_partition *partition = owner;
    return partition->running > 0 ? zkl__core_facts(partition->object.session->core).lease_until
                                  : INT64_MAX;
}

/* --- callbacks begin and end ----------------------------------------------------------------- */

static void free_locks(zkl_partition *partition)
{
    zkl_lock_free((zkl_lock *)partition->member);
    for (size_t i = 0; i < partition->count; i++) {
        zkl_lock_free(&partition->pieces[i]->lock);
    }
}

/* Session mutex not held, no callback runs. Stops what would call reconcile, then frees the locks
 * that it uses. */
static void dismantle(zkl_partition *partition)
{
    zkl_session *session = partition->object.session;
    if (!zkl__session_enter_if_ours(session)) {
        return; /* in a child of fork the parent's memory stays as it is */
    }
    partition->callback_depth++; /* the callbacks of the locks do not come here again */
    partition->object.freed = true;
    zkl__object_stop(&partition->object);
    zkl__alarms_set(&session->alarms, &partition->margin.alarm, INT64_MAX);
    zkl__callbacks_unpost(&session->callbacks, &partition->object.notice);
    zkl__session_leave(session);
    free_locks(partition);
    zkl__object_free(&partition->object, false);
}

static void reconcile(zkl_partition *partition)
{
    struct zkl__object *object = &partition->object;
    zkl_session *session = object->session;
    zkl_lock *membership = &partition->member->lock;

    /* Takes over the newest list of members, and reads the state of our membership. */
    zkl__session_enter_if_ours(session);
    struct zkl__lock_status now = zkl__lock_status_locked(membership);
    bool member = now.token != 0, running = partition->phase == ZKL__PARTITION_RUNNING;
    if (object->seen) {
        zkl__free(&session->heap, object->shown);
        object->shown = object->seen;
        object->seen = NULL;
    }
    if (running && member && strcmp(now.node, partition->node) != 0) {
        zkl__name_copy(partition->node, now.node);
        zkl__member_list_renew(&partition->list);
        zkl__object_wake(object);
    }
    if (partition->phase == ZKL__PARTITION_STOPPING) {
        enter_phase(partition, ZKL__PARTITION_UNWINDING);
    }
    zkl__session_leave(session);

    if (now.state == ZKL_STATE_LOST || (member && !running)) {
        zkl_lock_release(membership, NULL);
    } else if (now.state == ZKL_STATE_WAITING && !running) {
        zkl_lock_cancel(membership);
    }
    if (running && (now.state == ZKL_STATE_IDLE || now.state == ZKL_STATE_LOST)) {
        begin_acquire(partition->member);
    }

    /* No piece is ours if we are no member, or not one of those that we know. */
    const struct zkl__names *view = object->shown;
    size_t us = ZKL__NOBODY;
    for (size_t i = 0; running && member && view && i < view->count; i++) {
        us = strcmp(view->all[i], now.node) == 0 ? i : us;
    }
    bool assigned = true;
    if (us != ZKL__NOBODY) {
        const struct zkl__share share = {view->all, view->count, partition->names, partition->count,
                                         partition->options.cap};
        assigned = zkl__share_out(partition->owners, &share, &session->heap);
    }
    if (!assigned) { /* no memory: the assignment stays as it was */
        retry_later(partition);
    }
    for (size_t i = 0; assigned && i < partition->count; i++) {
        partition->pieces[i]->wanted = us != ZKL__NOBODY && partition->owners[i] == us;
    }
    for (size_t i = 0; i < partition->count; i++) { /* revoke first, so cap is never exceeded */
        if (!partition->pieces[i]->wanted) {
            reconcile_piece(partition->pieces[i]);
        }
    }
    for (size_t i = 0; i < partition->count; i++) {
        reconcile_piece(partition->pieces[i]);
    }
}

/* Everything that runs in callbacks: the state of this lock has changed. */
static void on_state(zkl_lock *lock, zkl_state state, void *payload)
{
    struct zkl__piece *piece = (struct zkl__piece *)lock;
    zkl_partition *partition = piece->partition;
    (void)state, (void)payload;
    zkl__session_enter_if_ours(partition->object.session);
    partition->callback_depth++;
    leave(partition);
    if (piece == partition->member) {
        reconcile(partition);
    } else {
        reconcile_piece(piece);
    }
    if (partition->margin.ns > 0 && enter(partition)) {
        zkl__margin_watch(&partition->margin);
        leave(partition);
    }
    if (!zkl__session_enter_if_ours(partition->object.session)) {
        return;
    }
    bool outermost = --partition->callback_depth == 0;
    bool last = outermost && partition->object.freed;
    if (outermost && partition->phase == ZKL__PARTITION_UNWINDING && partition->busy == 0) {
        enter_phase(partition, ZKL__PARTITION_IDLE);
        zkl__calls_poke(&partition->object);
    }
    leave(partition);
    if (last) {
        dismantle(partition);
    }
}

/* The list of members has changed, or something else that matters to all pieces. */
static void report(struct zkl__object *object)
{
    on_state(&((zkl_partition *)object)->member->lock, ZKL_STATE_IDLE, NULL);
}

static void destroy(struct zkl__object *object)
{
    zkl_partition *partition = (zkl_partition *)object;
    const zkl_heap *heap = &object->session->heap;
    zkl__free(heap, partition->pieces);
    zkl__free(heap, partition->names);
    zkl__free(heap, partition->owners);
    zkl__names_clear(&partition->index);
}

/* --- callbacks of the list ------------------------------------------------------------------- */

/* In a step, as the next two. */
static void on_members(void *owner, struct zkl__names *members)
{
    zkl_partition *partition = owner;
    partition->list_refusal_logged = false;
    zkl__object_see(&partition->object, members);
}

static void on_list_refused(void *owner, enum zkl__rc rc)
{
    zkl_partition *partition = owner;
    log_refusal(partition, partition->list.watcher.dir, &partition->list_refusal_logged,
                zkl__rc_code(rc), "its members cannot be listed");
}

static bool is_member(void *owner)
{
    const zkl_partition *partition = owner;
    return partition->phase == ZKL__PARTITION_RUNNING &&
           zkl__lock_status_locked(&partition->member->lock).token != 0;
}

static void post_change(void *owner)
{
    zkl__object_post(&((zkl_partition *)owner)->object);
}

/* Session mutex held. The callback that follows revokes every piece. */
static void begin_stop(zkl_partition *partition)
{
    if (partition->phase == ZKL__PARTITION_RUNNING) {
        enter_phase(partition, ZKL__PARTITION_STOPPING);
    }
    if (partition->list.watcher.core) {
        zkl__watcher_unwatch(&partition->list.watcher);
    }
    zkl__object_post(&partition->object);
}

/* When the session closes, too. */
static void stop_watching(struct zkl__object *object)
{
    zkl_partition *partition = (zkl_partition *)object;
    begin_stop(partition);
    zkl__alarms_set(&object->session->alarms, &partition->retry.alarm, INT64_MAX);
}

static const struct zkl__object_ops partition_ops = {
    .stop = stop_watching,
    .report = report,
    .destroy = destroy,
};

static const struct zkl__recipe piece_recipe = {
    .noun = "piece",
    .size = sizeof(struct zkl__piece),
    .rule = &zkl__rule_mutex,
    .internal = true,
};

static const struct zkl__recipe member_recipe = {
    .noun = "member",
    .size = sizeof(struct zkl__piece),
    .rule = &member_rule,
    .internal = true,
};

/* === the partition ============================================================================ */

ZKL__SIZED(sized, zkl_partition_options, ZKL_PARTITION_OPTIONS_INIT, acl, state_fn);

/* The lock of a piece, at PATH/pieces/NAME. name NULL: our membership, at PATH/members. */
static int make_lock(struct zkl__piece **out, const zkl_partition *made, const char *path,
                     const char *name, zkl_error *err)
{
    char directory[ZKL_PATH_MAX + 1], whole[ZKL_PATH_MAX + 1];
    const char *const paths[] = {whole};
    zkl_lock_options own = ZKL_LOCK_OPTIONS_INIT;
    own.metadata = made->options.metadata;
    own.acl = made->options.acl;
    own.release_timeout_ms = 0;
    own.state_fn = on_state;
    if (zkl__path_join(directory, sizeof directory, path, name ? "pieces" : "members") == 0 ||
        zkl__path_join(whole, sizeof whole, directory, name) == 0) {
        return zkl__fail_at(err, ZKL_EINVAL, path, "too long with the names of its pieces");
    }
    zkl_lock *lock;
    int rc = zkl__lock_make(&lock, name ? &piece_recipe : &member_recipe, made->object.session,
                            paths, 1, &own, err);
    *out = (struct zkl__piece *)lock;
    return rc;
}

/* Makes all but the object, in a partition that has none yet. */
static int make_parts(zkl_partition *made, const char *path, const char *const *pieces,
                      size_t count, zkl_error *err)
{
    const zkl_heap *heap = &made->object.session->heap;
    made->index.heap = heap;
    made->pieces = zkl__zalloc(heap, count * sizeof *made->pieces);
    made->names = zkl__zalloc(heap, count * sizeof *made->names);
    made->owners = zkl__zalloc(heap, count * sizeof *made->owners);
    if (!made->pieces || !made->names || !made->owners) {
        return zkl__fail_at(err, ZKL_ENOMEM, path, "no memory");
    }
    int rc = make_lock(&made->member, made, path, NULL, err);
    for (size_t i = 0; rc == ZKL_OK && i < count; i++) {
        const int64_t *same = zkl__names_find(&made->index, pieces[i]);
        if (same) {
            return zkl__fail_at(err, ZKL_EINVAL, NULL, "pieces %zu and %zu are the same: %.80s",
                                (size_t)*same, i, pieces[i]);
        }
        if (!zkl__names_put(&made->index, pieces[i], (int64_t)i)) {
            return zkl__fail_at(err, ZKL_ENOMEM, NULL, "no memory");
        }
        struct zkl__piece *piece;
        rc = make_lock(&piece, made, path, pieces[i], err);
        if (rc == ZKL_OK) {
            made->pieces[i] = piece;
            made->names[i] = piece->name = strrchr(piece->lock.path, '/') + 1;
            made->count++;
        }
    }
    return rc;
}

int zkl_partition_new(zkl_partition **out, zkl_session *session, const char *path,
                      const char *const *pieces, size_t count, const zkl_partition_options *options,
                      zkl_error *err)
{
    ZKL__CLEAR(out);
    if (!out || !session) {
        return zkl__fail_null(err, out ? "session" : "out");
    }
    zkl_partition made = {.object.session = session};
    struct zkl__object *object;
    const zkl_partition_options *o = &made.options;
    int rc = zkl__sized_take(&made.options, options, &sized, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    if (!o->assigned_fn || !o->revoked_fn) {
        return zkl__fail_null(err, o->assigned_fn ? "revoked_fn" : "assigned_fn");
    }
    if (!pieces || count == 0 || count > ZKL_PARTITION_PIECES_MAX) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL, "%zu pieces; from 1 to %d", pieces ? count : 0,
                            ZKL_PARTITION_PIECES_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        if (!pieces[i] || !*pieces[i] || strchr(pieces[i], '/')) {
            return zkl__fail_at(err, ZKL_EINVAL, NULL, "piece %zu is not one component of a path",
                                i);
        }
    }
    rc = zkl__margin_check(session, o->margin_ms, err);
    rc = rc == ZKL_OK ? zkl__path_check(path, err) : rc;
    rc = rc == ZKL_OK ? make_parts(&made, path, pieces, count, err) : rc;
    rc = rc == ZKL_OK ? zkl__object_new(&object, sizeof(zkl_partition), &partition_ops, session,
                                        path, true, err)
                      : rc;
    if (rc != ZKL_OK) {
        free_locks(&made);
        destroy(&made.object);
        return rc;
    }
    zkl_partition *partition = (zkl_partition *)object;
    made.object = *object;
    made.options.metadata = NULL; /* the locks have copies */
    made.options.acl = NULL;
    *partition = made;
    partition->member->partition = partition;
    for (size_t i = 0; i < count; i++) {
        partition->pieces[i]->partition = partition;
    }
    partition->retry.alarm.ring = post_change;
    partition->retry.alarm.owner = partition;
    partition->margin = (struct zkl__margin){.session = session,
                                             .ns = o->margin_ms * ZKL__MS,
                                             .until = lease_until,
                                             .reached = post_change,
                                             .owner = partition};
    partition->list = (struct zkl__member_list){.watcher.dir = partition->member->lock.path,
                                                .counts = zkl__name_contends,
                                                .wanted = is_member,
                                                .show = on_members,
                                                .refused = on_list_refused};
    partition->object.watcher = &partition->list.watcher;
    zkl__watcher_begin(&partition->list.watcher, session->core, &zkl__member_list_ops, partition);
    *out = partition;
    zkl__session_leave(session);
    return ZKL_OK;
}

/* --- calls ----------------------------------------------------------------------------------- */

int zkl_partition_start(zkl_partition *partition, zkl_error *err)
{
    if (!partition) {
        return zkl__fail_null(err, "partition");
    }
    int rc = zkl__session_enter(partition->object.session, err);
    if (rc == ZKL_OK) {
        if (partition->being_freed) {
            rc = zkl__fail_freed(err, partition->object.path);
        } else if (partition->phase != ZKL__PARTITION_RUNNING) {
            enter_phase(partition, ZKL__PARTITION_RUNNING);
            zkl__member_list_renew(&partition->list);
            zkl__object_wake(&partition->object); /* a stop that was quick has taken the watch */
            zkl__calls_poke(&partition->object);
            zkl__object_post(&partition->object);
        }
        leave(partition);
    }
    return rc;
}

/* frees: the callbacks that follow may not start it again. */
static int stop(zkl_partition *partition, bool frees, zkl_error *err)
{
    zkl_session *session = partition->object.session;
    int rc = zkl__session_enter_even_closed(session, err);
    if (rc == ZKL_OK) {
        partition->being_freed |= frees;
        begin_stop(partition);
        zkl__callbacks_finish(&session->callbacks, &partition->object.notice);
        if (zkl__session_forked(session)) {
            rc = zkl__fail_at(err, ZKL_EFORKED, NULL, "a callback forked, and this is the child");
        }
        zkl__session_leave(session);
    }
    return rc;
}

int zkl_partition_stop(zkl_partition *partition, zkl_error *err)
{
    return partition ? stop(partition, false, err) : zkl__fail_null(err, "partition");
}

/* --- zkl_partition_stop_async ---------------------------------------------------------------- */

static int run_stop(struct zkl__call *call)
{
    zkl_partition *partition = (zkl_partition *)call->owner;
    CALL_BEGIN(call);
    begin_stop(partition);
    AWAIT_UNTIL(call, partition->phase == ZKL__PARTITION_IDLE ||
                          partition->phase == ZKL__PARTITION_RUNNING);
    if (partition->phase == ZKL__PARTITION_RUNNING) {
        FAIL(call, ZKL_ECANCELED, "it was started again meanwhile");
    }
    CALL_END(call);
}

/* zkl_partition_free cancels this call, and has stopped the partition before. */
static int end_stop(struct zkl__call *call, int rc)
{
    const zkl_partition *partition = (zkl_partition *)call->owner;
    return rc == ZKL_ECANCELED && partition->phase == ZKL__PARTITION_IDLE ? ZKL_OK : rc;
}

static int begin_stop_call(struct zkl__call *call)
{
    return ((zkl_partition *)call->owner)->being_freed ? zkl__fail_freed(call->err, NULL) : ZKL_OK;
}

int zkl_partition_stop_async(zkl_partition *partition, zkl_done_fn done, void *payload,
                             zkl_error *err)
{
    struct zkl__call given = {.run = run_stop,
                              .begin = begin_stop_call,
                              .end = end_stop,
                              .owner = (struct zkl__object *)partition,
                              .finishes = true};
    if (!partition) {
        return zkl__fail_null(err, "partition");
    }
    return zkl__call_go(&given, sizeof given, partition->object.session, partition->object.path,
                        ZKL_WAIT_FOREVER, done, payload, err);
}

void zkl_partition_free(zkl_partition *partition)
{
    if (!partition || stop(partition, true, NULL) != ZKL_OK) {
        return;
    }
    zkl_session *session = partition->object.session;
    zkl__session_enter_if_ours(session);
    for (size_t i = 0; i < partition->count; i++) {
        if (partition->pieces[i]->work == ZKL__WORK_ENDS) { /* by the free the user ends it */
            end_work(partition->pieces[i]);
        }
        /* Its commits, while all that their callbacks may ask for is there. */
        zkl__calls_finish(&partition->pieces[i]->lock.object);
    }
    if (partition->callback_depth == 0 && partition->phase == ZKL__PARTITION_UNWINDING) {
        enter_phase(partition, ZKL__PARTITION_IDLE);
    }
    zkl__calls_finish(&partition->object);
    bool in_callback =
        partition->callback_depth > 0 && zkl__callbacks_inside(&session->callbacks, NULL);
    partition->object.freed = in_callback; /* then the outermost callback does the rest */
    zkl__session_leave(session);
    if (!in_callback) {
        dismantle(partition);
    }
}

/* --- the end of the work --------------------------------------------------------------------- */

static int require_piece(struct zkl__piece **piece, const zkl_partition *partition,
                         const char *name, zkl_error *err)
{
    if (!partition || !name) {
        return zkl__fail_null(err, partition ? "piece" : "partition");
    }
    const int64_t *at = zkl__names_find(&partition->index, name);
    *piece = at ? partition->pieces[*at] : NULL;
    return at ? ZKL_OK
              : zkl__fail_at(err, ZKL_EINVAL, partition->object.path,
                             "no piece of this partition: %.80s", name);
}

int zkl_partition_done(zkl_partition *partition, const char *name, zkl_error *err)
{
    struct zkl__piece *piece;
    int rc = require_piece(&piece, partition, name, err);
    rc = rc == ZKL_OK ? zkl__session_enter_even_closed(partition->object.session, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    if (!partition->options.done_later || piece->work != ZKL__WORK_ENDS) {
        rc =
            zkl__fail_at(err, ZKL_ENOTHELD, partition->object.path,
                         partition->options.done_later
                             ? "revoked was not called for %.80s, or is answered"
                             : "without the option done_later the return of revoked answers: %.80s",
                         name);
    } else {
        end_work(piece);
        zkl__object_post(&partition->object);
    }
    leave(partition);
    return rc;
}

/* --- queries of the current state ------------------------------------------------------------ */

size_t zkl_partition_owned(const zkl_partition *partition, const char **names, size_t room)
{
    size_t owned = 0;
    if (!partition || !enter(partition)) {
        return 0;
    }
    for (size_t i = 0; i < partition->count; i++) {
        const struct zkl__piece *piece = partition->pieces[i];
        if (piece->work == ZKL__WORK_RUNS && zkl__lock_status_locked(&piece->lock).token != 0) {
            if (owned < room) {
                names[owned] = piece->name;
            }
            owned++;
        }
    }
    leave(partition);
    return owned;
}

/* The state of a piece's lock, while there is work on the piece; runs: that has not been revoked.
 */
static struct zkl__lock_status piece_standing(const zkl_partition *partition, const char *name,
                                              bool runs)
{
    struct zkl__lock_status now = {.state = ZKL_STATE_IDLE};
    struct zkl__piece *piece;
    if (require_piece(&piece, partition, name, NULL) == ZKL_OK && enter(partition)) {
        if (piece->work == ZKL__WORK_RUNS || (piece->work == ZKL__WORK_ENDS && !runs)) {
            now = zkl__lock_status_locked(&piece->lock);
        }
        leave(partition);
    }
    return now;
}

int64_t zkl_partition_remaining_ms(const zkl_partition *partition, const char *name)
{
    return zkl__session_left(piece_standing(partition, name, false).until) / ZKL__MS;
}

bool zkl_partition_owns(const zkl_partition *partition, const char *piece)
{
    return piece_standing(partition, piece, true).token != 0;
}

/* --- a transaction under a piece's lock ------------------------------------------------------ */

/* ZKL_ENOTHELD: there is no work on the piece. */
int zkl_partition_commit_async(zkl_partition *partition, const char *name, const zkl_op *ops,
                               size_t count, int64_t timeout_ms, zkl_op_result *results,
                               zkl_done_fn done, void *payload, zkl_error *err)
{
    struct zkl__piece *piece;
    int rc = require_piece(&piece, partition, name, err);
    rc = rc == ZKL_OK ? zkl__timeout_check(timeout_ms, err) : rc;
    rc = rc == ZKL_OK ? zkl__session_enter(partition->object.session, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    if (piece->work == ZKL__WORK_NONE) {
        rc = zkl__fail_at(err, ZKL_ENOTHELD, piece->lock.path,
                          "not done: the piece is not assigned to this member");
    }
    leave(partition);
    return rc == ZKL_OK ? zkl_lock_commit_async(&piece->lock, ops, count, timeout_ms, results, done,
                                                payload, err)
                        : rc;
}

int zkl_partition_commit(zkl_partition *partition, const char *piece, const zkl_op *ops,
                         size_t count, int64_t timeout_ms, zkl_op_result *results, zkl_error *err)
{
    return zkl_partition_commit_async(partition, piece, ops, count, timeout_ms, results,
                                      zkl__caller_waits, NULL, err);
}
