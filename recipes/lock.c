/* lock.c - the handle of every recipe: its options, its acquires, releases and reads, the reports
 * to its user, and its current state. And the plain lock, which the first contender in the queue
 * holds. */

#include "acl.h"
#include "call.h"
#include "base.h"
#include "lock.h"
#include "name.h"
#include "options.h"

#include <zklock/multilock.h>
#include <zklock/zookeeper.h>

#include <stdio.h>
#include <string.h>

/* Defined below. */
static void finish_completions(zkl_lock *lock);

/* === the lock ================================================================================= */

/* --- options --------------------------------------------------------------------------------- */

ZKL__SIZED(sized, zkl_lock_options, ZKL_LOCK_OPTIONS_INIT, payload, delay_after_crash_ms);

#define R(recipe) (1u << ZKL_RECIPE_##recipe)

/* Options that not every recipe has, and the recipes that have them. */
static int check_applies(const struct zkl__recipe *recipe, const zkl_lock_options *o,
                         zkl_error *err)
{
    const struct {
        const char *name;
        bool set;
        unsigned recipes;
    } options[] = {
        {"recursive", o->recursive, ~R(SEMAPHORE)},
        {"recover", o->recover, R(LOCK) | R(ELECTION)},
        {"revoke_fn", o->revoke_fn != NULL, ~R(SEMAPHORE)},
        {"max_ahead", o->max_ahead != 0, ~(R(MULTILOCK) | R(SEMAPHORE))},
        {"position_fn", o->position_fn != NULL, ~(R(MULTILOCK) | R(SEMAPHORE))},
        {"linger_ms", o->linger_ms != 0, R(LOCK) | R(WRITE_LOCK)},
        {"hold_at_least_ms", o->hold_at_least_ms != 0, R(LOCK)},
        {"delay_after_crash_ms", o->delay_after_crash_ms != 0, R(LOCK) | R(ELECTION)},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (options[i].set && !(options[i].recipes & 1u << recipe->id)) {
            return zkl__fail_at(err, ZKL_EINVAL, NULL,
                                "the option %s does not apply to the recipe \"%s\"",
                                options[i].name, recipe->noun);
        }
    }
    return ZKL_OK;
}

static int check_linger(const zkl_lock_options *o, zkl_error *err)
{
    if (o->linger_ms != 0 && o->revoke_fn) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL,
                            "the options linger_ms and revoke_fn exclude each other: a lock that "
                            "lingers is not deleted at its release");
    }
    return zkl__range_check("linger_ms", o->linger_ms, 0, ZKL__DAY_MS, err);
}

/* A lingering lock is given up as soon as another session queues. */
static int check_least(const zkl_lock_options *o, zkl_error *err)
{
    if (o->hold_at_least_ms != 0 && o->linger_ms != 0) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL,
                            "the options hold_at_least_ms and linger_ms exclude each other");
    }
    if (o->max_hold_ms > 0 && o->hold_at_least_ms > o->max_hold_ms) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL,
                            "hold_at_least_ms is %lld, more than max_hold_ms, which is %lld",
                            (long long)o->hold_at_least_ms, (long long)o->max_hold_ms);
    }
    return zkl__range_check("hold_at_least_ms", o->hold_at_least_ms, 0, ZKL__DAY_MS, err);
}

static int check_values(const zkl_lock_options *o, zkl_error *err)
{
    int rc = o->metadata ? zkl__text_check("metadata", o->metadata, err) : ZKL_OK;
    rc = rc == ZKL_OK ? zkl__acl_check(o->acl, err) : rc;
    if (rc == ZKL_OK) {
        rc = zkl__range_check("on_expiry", (int64_t)o->on_expiry, ZKL_ON_EXPIRY_REQUEUE,
                              ZKL_ON_EXPIRY_FAIL, err);
    }
    if (rc == ZKL_OK) {
        rc = zkl__range_check("max_ahead", o->max_ahead, 0, INT32_MAX, err);
    }
    if (rc == ZKL_OK) {
        rc = zkl__range_check("max_hold_ms", o->max_hold_ms, 0, 10000 * ZKL__DAY_MS, err);
    }
    if (rc == ZKL_OK) {
        rc = zkl__range_check("release_timeout_ms", o->release_timeout_ms, 0, ZKL__DAY_MS, err);
    }
    rc = rc == ZKL_OK ? check_linger(o, err) : rc;
    rc = rc == ZKL_OK ? check_least(o, err) : rc;
    if (rc == ZKL_OK) {
        rc = zkl__range_check("delay_after_crash_ms", o->delay_after_crash_ms, 0, ZKL__DAY_MS, err);
    }
    return rc;
}

static int64_t max_hold_ns(const zkl_lock *lock)
{
    return lock->options.max_hold_ms * ZKL__MS;
}

struct zkl__contender_config zkl__lock_config(const zkl_lock *lock)
{
    const zkl_lock_options *o = &lock->options;
    return (struct zkl__contender_config){
        .rule = lock->recipe->rule,
        .path = lock->path,
        .metadata = o->metadata ? o->metadata : lock->session->whoami,
        .acl = o->acl,
        .fail_on_expiry = o->on_expiry == ZKL_ON_EXPIRY_FAIL,
        .mark = o->recover || o->delay_after_crash_ms > 0,
        .revocable = o->revoke_fn != NULL,
        .max_hold = max_hold_ns(lock),
        .linger = o->linger_ms * ZKL__MS,
        .least = o->hold_at_least_ms * ZKL__MS,
        .delay = o->delay_after_crash_ms * ZKL__MS,
        .max_ahead = (size_t)o->max_ahead,
    };
}

/* --- memory ---------------------------------------------------------------------------------- */

void zkl__lock_ref(zkl_lock *lock)
{
    lock->refs++;
}

void zkl__lock_unref(zkl_lock *lock)
{
    zkl_session *session = lock->session;
    const zkl_heap *heap = &session->heap;
    if (--lock->refs > 0) {
        return;
    }
    if (lock->recipe->destroy) {
        lock->recipe->destroy(lock);
    }
    zkl__free(heap, (void *)(uintptr_t)lock->options.metadata);
    zkl__free(heap, (void *)(uintptr_t)lock->options.acl);
    zkl__free(heap, lock->paths);
    zkl__free(heap, lock);
    zkl__session_drop(session);
}

int zkl__lock_keep(zkl_lock *lock, zkl_error *err)
{
    int rc = zkl__session_enter(lock->session, err);
    if (rc == ZKL_OK) {
        zkl__lock_ref(lock);
        zkl__session_leave(lock->session);
    }
    return rc;
}

void zkl__lock_let_go(zkl_lock *lock)
{
    zkl_session *session = lock->session;
    if (zkl__session_enter_even_closed(session, NULL) == ZKL_OK) {
        zkl__lock_unref(lock);
        zkl__session_leave(session);
    }
}

/* All of them in one block; NULL: no memory. */
static char **copy_paths(const zkl_heap *heap, const char *const *paths, size_t count)
{
    size_t size = count * sizeof(char *);
    for (size_t i = 0; i < count; i++) {
        size += strlen(paths[i]) + 1;
    }
    char **copies = zkl__alloc(heap, size);
    if (!copies) {
        return NULL;
    }
    char *end = (char *)(copies + count);
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(paths[i]) + 1;
        copies[i] = memcpy(end, paths[i], length);
        end += length;
    }
    return copies;
}

/* False: no memory. */
static bool copy(zkl_lock *lock, const char *const *paths, size_t count,
                 const zkl_lock_options *options)
{
    const zkl_heap *heap = &lock->session->heap;
    lock->options = *options;
    lock->options.metadata = NULL;
    lock->options.acl = NULL;
    lock->paths = copy_paths(heap, paths, count);
    lock->path_count = count;
    if (options->metadata) {
        lock->options.metadata = zkl__copy(heap, options->metadata, strlen(options->metadata));
    }
    if (options->acl) {
        lock->options.acl = zkl__acl_copy(heap, options->acl);
    }
    return lock->paths && !options->metadata == !lock->options.metadata &&
           !options->acl == !lock->options.acl;
}

static bool is_waiting(const struct zkl__object *object)
{
    return zkl__lock_status_locked((const zkl_lock *)object).state == ZKL_STATE_WAITING;
}

static const struct zkl__object_ops lock_ops = {zkl__lock_give_up, is_waiting};

static int make(zkl_lock **out, const struct zkl__recipe *recipe, zkl_session *session,
                const char *const *paths, size_t count, const zkl_lock_options *options,
                zkl_error *err)
{
    bool calls = options->state_fn || options->revoke_fn || options->position_fn;
    if (calls && zkl__callbacks_want(&session->callbacks) != ZKL_OK) {
        return zkl__fail_at(err, ZKL_ELIMIT, paths[0], "no thread for callbacks");
    }
    zkl_lock *lock = zkl__zalloc(&session->heap, recipe->size);
    if (!lock) {
        return zkl__fail_at(err, ZKL_ENOMEM, paths[0], "no memory");
    }
    zkl__session_retain(session);
    lock->session = session;
    lock->recipe = recipe;
    lock->refs = 1;
    bool made = copy(lock, paths, count, options);
    if (made && options->linger_ms > 0) {
        lock->lingers = zkl__linger_enroll(session->core, paths[0]);
        made = lock->lingers != NULL;
    }
    if (!made) {
        zkl__lock_unref(lock);
        return zkl__fail_at(err, ZKL_ENOMEM, paths[0], "no memory");
    }
    lock->path = lock->paths[0];
    lock->object.ops = &lock_ops;
    lock->notice = (struct zkl__callback){.run = zkl__lock_run_notice, .owner = lock};
    zkl__session_add(session, &lock->object);
    *out = lock;
    return ZKL_OK;
}

int zkl__lock_make(zkl_lock **out, const struct zkl__recipe *recipe, zkl_session *session,
                   const char *const *paths, size_t count, const zkl_lock_options *options,
                   zkl_error *err)
{
    zkl_lock_options own;
    ZKL__CLEAR(out);
    if (!out || !session) {
        return zkl__fail_null(err, out ? "session" : "out");
    }
    int rc = zkl__sized_take(&own, options, &sized, err);
    rc = rc == ZKL_OK ? check_applies(recipe, &own, err) : rc;
    for (size_t i = 0; rc == ZKL_OK && i < count; i++) {
        rc = zkl__path_check(paths[i], err);
    }
    rc = rc == ZKL_OK ? check_values(&own, err) : rc;
    rc = rc == ZKL_OK ? zkl__session_enter(session, err) : rc;
    if (rc == ZKL_OK) {
        rc = make(out, recipe, session, paths, count, &own, err);
        zkl__session_leave(session);
    }
    return rc;
}

/* The last lock object that could be granted a lingering znode deletes it. */
static void leave_lingering(zkl_lock *lock)
{
    struct zkl__peer_queue *lingers = lock->lingers;
    lock->lingers = NULL;
    if (lingers && zkl__linger_resign(lock->session->core, lingers)) {
        zkl__lock_stop_lingering(lock);
    }
}

void zkl_lock_free(zkl_lock *lock)
{
    if (!lock || zkl__session_enter_even_closed(lock->session, NULL) != ZKL_OK) {
        return; /* in a child of fork the parent's memory stays as it is */
    }
    zkl_session *session = lock->session;
    /* First nothing new begins, then what is under way ends, then its callbacks run, and only then
     * the memory goes: each step may call the user, who may use this lock until its last callback.
     */
    lock->freed = true;
    zkl__lock_give_up(&lock->object, ZKL_ECANCELED);
    leave_lingering(lock);
    zkl__campaign_finish(lock);
    if (!zkl__session_forked(session)) {
        zkl__calls_end(session, &lock->object, ZKL_ECANCELED);
        finish_completions(lock);
        zkl__calls_deliver(session, &lock->object);
    }
    if (!zkl__session_forked(session)) { /* else a callback forked, and this is the child */
        zkl__callbacks_unpost(&session->callbacks, &lock->notice);
        zkl__session_remove(session, &lock->object);
        zkl__lock_unref(lock);
    }
    zkl__session_leave(session);
}

/* --- the plain lock -------------------------------------------------------------------------- */

const struct zkl__recipe zkl__plain_lock = {
    .noun = "lock",
    .id = ZKL_RECIPE_LOCK,
    .size = sizeof(zkl_lock),
    .rule = &zkl__rule_mutex,
};

int zkl_lock_new(zkl_lock **out, zkl_session *session, const char *path,
                 const zkl_lock_options *options, zkl_error *err)
{
    return zkl__lock_make(out, &zkl__plain_lock, session, &path, 1, options, err);
}

int zkl_path_check(const char *path, zkl_error *err)
{
    return zkl__path_check(path, err);
}

/* === reading under a grant ==================================================================== */

/* A read carries no check of our znode, because a transaction cannot read data. It needs none: the
 * server that has shown us our grant replies, and it had applied by then what earlier holders wrote
 * (ZooKeeper Programmer's Guide, Consistency Guarantees: single system image, and updates in
 * order). The lease says afterwards whether another holder may have written in between. */

/* The caller gets a pointer to the first member. */
struct data {
    zkl_data public;
    zkl_heap heap;
};

struct reading {
    struct zkl__call call; /* first */
    zkl_lock *lock;
    int64_t token; /* of the grant that it began under */
    bool fresh;
    zkl_data **out;
    struct data *data; /* NULL: not read, or no memory */
};

void zkl_data_free(zkl_data *data)
{
    if (data) {
        zkl_heap heap = ((struct data *)data)->heap;
        zkl__free(&heap, (void *)(uintptr_t)data->data);
        zkl__free(&heap, data);
    }
}

/* In a step. */
static void take_data(struct zkl__call *call, const struct zkl__reply *reply)
{
    struct reading *reading = (struct reading *)call;
    const zkl_heap *heap = &reading->call.session->heap;
    if (reply->rc != ZKL__RC_OK) {
        return;
    }
    struct data *data = zkl__zalloc(heap, sizeof *data);
    char *bytes = data ? zkl__copy(heap, reply->data, reply->size) : NULL;
    if (!bytes) {
        zkl__free(heap, data);
        return;
    }
    data->heap = *heap;
    data->public = (zkl_data){.data = bytes,
                              .size = reply->size,
                              .version = reply->stat.version,
                              .mzxid = reply->stat.mzxid};
    reading->data = data;
}

/* Requests that change nothing: when a reply is lost, the request is sent again. */
static int read_run(struct zkl__call *call)
{
    struct reading *reading = (struct reading *)call;
    const char *path = call->path;
    CALL_BEGIN(call);
    if (reading->fresh) {
        AWAIT(call, {.kind = ZKL__OP_SYNC, .dir = path});
    }
    if (call->answer.rc == ZKL__RC_OK) { /* of the sync, if there was one */
        AWAIT_REPLY(call, take_data, {.kind = ZKL__OP_GET, .dir = path});
    }
    if (zkl__lock_status_locked(reading->lock).token != reading->token) {
        FAIL(call, ZKL_ELOST, "the lock was lost or released before the response came");
    }
    if (call->answer.rc != ZKL__RC_OK) {
        RETURN(call, zkl__call_refused(call, path, "read"));
    }
    if (!reading->data) {
        FAIL(call, ZKL_ENOMEM, "no memory for the data");
    }
    *reading->out = &reading->data->public;
    reading->data = NULL;
    CALL_END(call);
}

static int read_begin(struct zkl__call *call, zkl_error *err)
{
    struct reading *reading = (struct reading *)call;
    zkl_lock *lock = reading->lock;
    struct zkl__lock_status held = zkl__lock_status_locked(lock);
    if (held.state == ZKL_STATE_LOST) {
        return zkl__fail_at(err, ZKL_ELOST, lock->path, "not read: the lock was lost");
    }
    if (!zkl__state_holds(held.state)) {
        return zkl__fail_at(err, ZKL_ENOTHELD, lock->path, "not read: the lock is not held");
    }
    reading->token = held.token;
    zkl__call_bind_lease(call, lock, &held);
    return ZKL_OK;
}

static void read_end(struct zkl__call *call)
{
    const struct reading *reading = (const struct reading *)call;
    zkl_data_free(reading->data ? &reading->data->public : NULL);
    zkl__lock_unref(reading->lock);
}

static int read_znode(zkl_data **out, zkl_lock *lock, const char *path, bool fresh,
                      int64_t timeout_ms, const struct zkl__later *later, zkl_error *err)
{
    static const struct zkl__call_kind kind = {
        .size = sizeof(struct reading), .run = read_run, .begin = read_begin, .end = read_end};
    const struct reading given = {.lock = lock, .fresh = fresh, .out = out};
    ZKL__CLEAR(out);
    if (!lock || !out) {
        return zkl__fail_null(err, lock ? "out" : "lock");
    }
    if (!path || strlen(path) > ZKL_PATH_MAX || !zkl__path_form(path, false)) {
        return zkl__fail_at(err, ZKL_EINVAL, path, "not an absolute znode path");
    }
    return zkl__lock_call(&kind, &given, lock, path, timeout_ms, later, err);
}

int zkl_lock_read(zkl_data **out, zkl_lock *lock, const char *path, bool fresh, int64_t timeout_ms,
                  zkl_error *err)
{
    return read_znode(out, lock, path, fresh, timeout_ms, NULL, err);
}

int zkl_lock_read_async(zkl_data **out, zkl_lock *lock, const char *path, bool fresh,
                        int64_t timeout_ms, zkl_done_fn done, void *payload, zkl_error *err)
{
    return read_znode(out, lock, path, fresh, timeout_ms, &(struct zkl__later){done, payload}, err);
}

/* === release without waiting ================================================================== */

struct releasing {
    struct zkl__call call;                /* first */
    zkl_lock *lock;                       /* with a reference */
    struct zkl__acquisition *acquisition; /* NULL: the lock stays held, it was acquired again */
    const char *lost; /* why the lease did not cover the hold, known at the call; NULL: it did */
};

/* The call waits for the server's response, but the response does not change the result. */
static int release_conclude(struct zkl__call *call, int rc)
{
    const struct releasing *releasing = (const struct releasing *)call;
    (void)rc;
    return releasing->lost ? zkl__fail_at(call->err, ZKL_ELOST, NULL, "lost while it was held: %s",
                                          releasing->lost)
                           : ZKL_OK;
}

static int release_run(struct zkl__call *call)
{
    const struct releasing *releasing = (const struct releasing *)call;
    CALL_BEGIN(call);
    AWAIT_UNTIL(call, !releasing->acquisition || releasing->acquisition->released);
    RETURN(call, release_conclude(call, ZKL_OK));
    CALL_END(call);
}

/* The grant ends here. The contender sends the delete again until its znode is deleted, so a lost
 * reply does not matter. */
static int release_begin(struct zkl__call *call, zkl_error *err)
{
    struct releasing *releasing = (struct releasing *)call;
    zkl_lock *lock = releasing->lock;
    (void)err;
    zkl__lock_ref(lock);
    call->owner = &lock->object;
    releasing->lost = zkl__acquisition_holds(lock->acquisition) ? NULL : lock->acquisition->why;
    if (--lock->acquisition->depth == 0) {
        releasing->acquisition = zkl__acquisition_send_release(lock);
    }
    return ZKL_OK;
}

static void release_end(struct zkl__call *call)
{
    struct releasing *releasing = (struct releasing *)call;
    if (releasing->acquisition) {
        zkl__acquisition_let_go(releasing->acquisition);
    }
    zkl__lock_unref(releasing->lock);
}

/* Session mutex held. After this check the release can fail only with ZKL_ENOMEM. */
static int check_granted(const zkl_lock *lock, zkl_error *err)
{
    if (!lock->acquisition || !lock->acquisition->granted) {
        return zkl__lock_not_granted(lock, err);
    }
    return zkl__callbacks_want(&lock->session->callbacks) == ZKL_OK
               ? ZKL_OK
               : zkl__fail_at(err, ZKL_ELIMIT, lock->path, "no thread for callbacks");
}

int zkl_lock_release_async(zkl_lock *lock, zkl_done_fn done, void *payload, zkl_error *err)
{
    static const struct zkl__call_kind kind = {.size = sizeof(struct releasing),
                                               .run = release_run,
                                               .conclude = release_conclude,
                                               .begin = release_begin,
                                               .end = release_end,
                                               .finishes = true};
    const struct releasing given = {.lock = lock};
    if (!lock || !done) {
        return zkl__fail_null(err, lock ? "done" : "lock");
    }
    zkl_session *session = lock->session; /* the lock may be freed meanwhile */
    int rc = zkl__session_enter(session, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    rc = check_granted(lock, err);
    if (rc == ZKL_OK) {
        rc = zkl__call_begin(&kind, &given, session, lock->path, lock->options.release_timeout_ms,
                             &(struct zkl__later){done, payload}, err);
    }
    zkl__session_leave(session);
    return rc;
}

/* === reports to the user ====================================================================== */

/* The user is called for each loss, for the latest state, and for a request to release. */

void zkl__lock_notify_state(zkl_lock *lock, zkl_state state)
{
    if (!lock->options.state_fn || lock->freed) {
        return;
    }
    if (state == ZKL_STATE_LOST) {
        lock->losses++;
        lock->latest = lock->reported = ZKL_STATE_IDLE;
    } else {
        lock->latest = state;
    }
    zkl__callbacks_post(&lock->session->callbacks, &lock->notice);
}

void zkl__lock_notify_revoked(zkl_lock *lock)
{
    if (!lock->freed) {
        lock->revoked = true;
        zkl__callbacks_post(&lock->session->callbacks, &lock->notice);
    }
}

/* ZKL_STATE_IDLE: no state is left to report. */
static zkl_state next_state(zkl_lock *lock)
{
    zkl_state state = lock->latest;
    if (lock->freed) {
        return ZKL_STATE_IDLE;
    }
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
    if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
        return;
    }
    lock->refs++;
    bool position_changed =
        lock->position_changed && !lock->freed && lock->acquisition && !lock->acquisition->settled;
    lock->position_changed = false;
    if (position_changed) {
        size_t position = lock->position;
        zkl__session_leave(session);
        lock->options.position_fn(lock, position, lock->options.payload);
        if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
            return;
        }
    }
    for (zkl_state state; (state = next_state(lock)) != ZKL_STATE_IDLE;) {
        zkl__session_leave(session);
        lock->options.state_fn(lock, state, lock->options.payload);
        if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
            return;
        }
    }
    if (lock->revoked && !lock->freed) {
        lock->revoked = false;
        zkl__session_leave(session);
        lock->options.revoke_fn(lock, lock->options.payload);
        if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
            return;
        }
    }
    zkl__lock_unref(lock);
    zkl__session_leave(session);
}

/* === acquire without waiting ================================================================== */

/* One completion is one call of the user. */

static void completion_unlink(struct zkl__completion *completion)
{
    struct zkl__completion **at = &completion->acquisition->lock->completions;
    while (*at != completion) {
        at = &(*at)->next;
    }
    *at = completion->next;
}

static void run_completion(void *owner)
{
    struct zkl__completion *completion = owner;
    struct zkl__acquisition *acquisition = completion->acquisition;
    zkl_lock *lock = acquisition->lock;
    zkl_session *session = lock->session;
    zkl_error err = {.code = ZKL_OK};
    zkl_grant grant;
    if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
        return;
    }
    int code = zkl__acquisition_result(acquisition, completion->again, &grant, &err);
    zkl__session_leave(session);
    completion->done(lock, code, code == ZKL_OK ? &grant : NULL, &err, completion->payload);
    if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
        return;
    }
    completion_unlink(completion);
    zkl__free(&session->heap, completion);
    zkl__acquisition_unref(acquisition);
    zkl__session_leave(session);
}

static int begin_async(struct zkl__completion *completion, zkl_lock *lock, int count,
                       int64_t timeout_ms, zkl_error *err)
{
    struct zkl__acquisition *acquisition;
    int rc = zkl__acquisition_begin(&acquisition, lock, count, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    completion->callback = (struct zkl__callback){.run = run_completion, .owner = completion};
    completion->acquisition = acquisition;
    completion->again = acquisition->granted;
    completion->next = lock->completions;
    lock->completions = completion;
    if (acquisition->granted) {
        zkl__callbacks_post(&lock->session->callbacks, &completion->callback);
    } else {
        acquisition->completion = completion;
        zkl__acquisition_start(acquisition, timeout_ms);
    }
    return ZKL_OK;
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
    if (zkl__callbacks_want(&session->callbacks) != ZKL_OK) {
        rc = zkl__fail_at(err, ZKL_ELIMIT, lock->path, "no thread for callbacks");
    } else if (!completion) {
        rc = zkl__fail_at(err, ZKL_ENOMEM, lock->path, "no memory for an acquire");
    } else {
        completion->done = done;
        completion->payload = payload;
        rc = begin_async(completion, lock, count, timeout_ms, err);
    }
    if (rc != ZKL_OK) {
        zkl__free(&session->heap, completion);
    }
    zkl__session_leave(session);
    return rc;
}

int zkl_lock_acquire_async(zkl_lock *lock, int64_t timeout_ms, zkl_acquired_fn done, void *payload,
                           zkl_error *err)
{
    return zkl__lock_acquire_async(lock, 1, timeout_ms, done, payload, err);
}

/* Runs the outstanding completions, or waits for them, but for those that this very thread runs.
 * When one of them forks, no other runs in the child. */
static void finish_completions(zkl_lock *lock)
{
    struct zkl__callbacks *callbacks = &lock->session->callbacks;
    struct zkl__completion *completion = lock->completions;
    while (completion && !zkl__session_forked(lock->session)) {
        if (zkl__callbacks_inside(callbacks, &completion->callback)) {
            completion = completion->next;
        } else {
            zkl__callbacks_finish(callbacks, &completion->callback);
            completion = lock->completions;
        }
    }
}

/* === calls on a lock ========================================================================== */

int zkl__lock_call(const struct zkl__call_kind *kind, const void *given, zkl_lock *lock,
                   const char *path, int64_t timeout_ms, const struct zkl__later *later,
                   zkl_error *err)
{
    int rc = zkl__lock_enter(lock, timeout_ms, err);
    if (rc == ZKL_OK) {
        zkl_session *session = lock->session; /* the lock may be freed while the call waits */
        rc =
            zkl__call_begin(kind, given, session, path ? path : lock->path, timeout_ms, later, err);
        zkl__session_leave(session);
    }
    return rc;
}

void zkl__call_bind(struct zkl__call *call, zkl_lock *lock)
{
    zkl__lock_ref(lock);
    call->owner = &lock->object;
    call->stop = lock->options.stop;
}

void zkl__call_bind_lease(struct zkl__call *call, zkl_lock *lock,
                          const struct zkl__lock_status *held)
{
    zkl__call_bind(call, lock);
    if (held->until <= call->deadline) {
        call->deadline = held->until;
        call->late_code = ZKL_ECONNECT;
    }
}

/* === acquire, cancel and release ============================================================== */

int zkl__lock_check(const zkl_lock *lock, const struct zkl__recipe *recipe, zkl_error *err)
{
    if (!lock) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL, "lock is NULL; the recipe needed is \"%s\"",
                            recipe->noun);
    }
    return lock->recipe == recipe
               ? ZKL_OK
               : zkl__fail_at(err, ZKL_EINVAL, lock->path,
                              "this function is for the recipe \"%s\", the lock's recipe is \"%s\"",
                              recipe->noun, lock->recipe->noun);
}

int zkl__lock_enter(zkl_lock *lock, int64_t timeout_ms, zkl_error *err)
{
    if (!lock) {
        return zkl__fail_null(err, "lock");
    }
    int rc = zkl__timeout_check(timeout_ms, err);
    return rc == ZKL_OK ? zkl__session_enter(lock->session, err) : rc;
}

/* A caller that is granted a lingering lock again and again never waits. In libzklock_st a wait
 * drives the loop, so the events of other contenders have to be read here. */
static void drive_loop(const zkl_lock *lock)
{
    if (lock && lock->options.linger_ms > 0 && !zkl__session_forked(lock->session)) {
        zkl__loop_go_on();
    }
}

int zkl__lock_acquire(zkl_lock *lock, int count, int64_t timeout_ms, zkl_grant *grant,
                      zkl_error *err)
{
    drive_loop(lock);
    int rc = zkl__lock_enter(lock, timeout_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = lock->session;
    struct zkl__acquisition *acquisition;
    rc = zkl__acquisition_begin(&acquisition, lock, count, err);
    if (rc == ZKL_OK) {
        bool again = acquisition->granted;
        if (!again) {
            zkl__acquisition_start(acquisition, timeout_ms);
        }
        zkl__acquisition_await(acquisition);
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

static int cancel_waits(zkl_lock *lock)
{
    int rc = zkl__session_enter(lock->session, NULL);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = lock->session;
    rc = ZKL_ENOTWAITING;
    if (lock->acquisition && !lock->acquisition->settled) {
        zkl__acquisition_cancel(lock->acquisition, ZKL_ECANCELED);
        rc = ZKL_OK;
    }
    if (zkl__calls_cancel(session, &lock->object) > 0) {
        rc = ZKL_OK;
    }
    zkl__session_leave(session);
    return rc;
}

int zkl_lock_cancel(zkl_lock *lock)
{
    if (!lock) {
        return ZKL_EINVAL;
    }
    /* The section first: a pending acquire may become a running section, never the reverse. */
    bool runs = zkl__section_cancel(lock);
    int rc = cancel_waits(lock);
    return rc == ZKL_ENOTWAITING && runs ? ZKL_OK : rc;
}

int zkl_lock_set_stop(zkl_lock *lock, zkl_stop *stop, zkl_error *err)
{
    if (!lock) {
        return zkl__fail_null(err, "lock");
    }
    int rc = zkl__session_enter(lock->session, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    if (lock->acquisition || lock->sections || lock->campaign) {
        rc = zkl__fail_at(
            err, ZKL_EDEADLK, lock->path,
            "this object stands for election, an acquire of it is pending, or it holds "
            "the lock");
    } else {
        lock->options.stop = stop;
    }
    zkl__session_leave(lock->session);
    return rc;
}

int zkl__lock_not_granted(const zkl_lock *lock, zkl_error *err)
{
    return zkl__fail_at(err, ZKL_ENOTHELD, lock->path,
                        lock->acquisition ? "still waiting; cancel it"
                                          : "never granted, or released");
}

int zkl_lock_release(zkl_lock *lock, zkl_error *err)
{
    return zkl__lock_release_grant(lock, NULL, INT64_MAX, err);
}

static bool is_of(const struct zkl__acquisition *acquisition, const zkl_grant *grant)
{
    return acquisition->token == grant->token && acquisition->serial == grant->serial;
}

int zkl__lock_release_grant(zkl_lock *lock, const zkl_grant *grant, int64_t deadline,
                            zkl_error *err)
{
    if (!lock) {
        return zkl__fail_null(err, "lock");
    }
    int rc = zkl__session_enter(lock->session, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = lock->session;
    struct zkl__acquisition *acquisition = lock->acquisition;
    if (!acquisition || !acquisition->granted || (grant && !is_of(acquisition, grant))) {
        rc = zkl__lock_not_granted(lock, err);
    } else {
        if (!zkl__acquisition_holds(acquisition)) {
            rc = zkl__fail_at(err, ZKL_ELOST, lock->path, "lost while it was held: %s",
                              acquisition->why);
        }
        if (--acquisition->depth == 0) {
            zkl__acquisition_release(lock, deadline);
        }
    }
    zkl__session_leave(session);
    return rc;
}

void zkl__lock_give_up(struct zkl__object *object, int code)
{
    zkl_lock *lock = (zkl_lock *)object;
    if (!lock->acquisition) {
        return;
    }
    if (lock->acquisition->settled) {
        lock->acquisition->code = code; /* for a thread that the grant has not reached yet */
        lock->acquisition->why = "given up before the grant could be used";
        zkl__acquisition_drop(lock);
    } else {
        zkl__acquisition_cancel(lock->acquisition, code);
    }
}

/* --- queries of the current state ------------------------------------------------------------ */

struct zkl__lock_status zkl__lock_status_locked(const zkl_lock *lock)
{
    struct zkl__lock_status now = {.state = ZKL_STATE_IDLE};
    const struct zkl__acquisition *acquisition = lock->acquisition;
    if (!acquisition) {
        return now;
    }
    if (acquisition->contender) {
        zkl__name_copy(now.node, zkl__contender_node(acquisition->contender));
    }
    if (!acquisition->granted || !zkl__acquisition_holds(acquisition)) {
        now.state = acquisition->granted ? ZKL_STATE_LOST : ZKL_STATE_WAITING;
        return now;
    }
    int64_t until = zkl__core_lease_until(lock->session->core);
    if (lock->options.max_hold_ms > 0 && acquisition->settled_at + max_hold_ns(lock) < until) {
        until = acquisition->settled_at + max_hold_ns(lock);
    }
    now.state = acquisition->jeopardy ? ZKL_STATE_JEOPARDY : ZKL_STATE_HELD;
    now.token = acquisition->token;
    now.serial = acquisition->serial;
    now.until = until;
    return now;
}

struct zkl__lock_status zkl__lock_status(const zkl_lock *lock)
{
    struct zkl__lock_status now = {.state = ZKL_STATE_IDLE};
    if (lock && zkl__session_enter(lock->session, NULL) == ZKL_OK) {
        zkl_session *session = lock->session;
        now = zkl__lock_status_locked(lock);
        zkl__session_leave(session);
    }
    return now;
}

size_t zkl__lock_nodes(const zkl_lock *lock, struct zkl__held_node *nodes, size_t room)
{
    const struct zkl__acquisition *acquisition = lock->acquisition;
    if (acquisition && acquisition->semaphore) {
        return lock->recipe->semaphore->nodes(lock, acquisition->semaphore, nodes, room);
    }
    if (!acquisition || (!acquisition->contender && !acquisition->multi)) {
        return 0;
    }
    for (size_t i = 0; i < lock->path_count && i < room; i++) {
        nodes[i].dir = lock->paths[i];
        nodes[i].name = acquisition->multi ? zkl__multi_node(acquisition->multi, i)
                                           : zkl__contender_node(acquisition->contender);
    }
    return lock->path_count;
}

bool zkl_lock_is_held(const zkl_lock *lock)
{
    return zkl__state_holds(zkl__lock_status(lock).state);
}

zkl_state zkl_lock_state(const zkl_lock *lock)
{
    return zkl__lock_status(lock).state;
}

int64_t zkl_lock_remaining_ms(const zkl_lock *lock)
{
    int64_t until = zkl__lock_status(lock).until;
    return until > 0 ? zkl__session_left(lock->session, until) / ZKL__MS : 0;
}

int64_t zkl_lock_token(const zkl_lock *lock)
{
    return zkl__lock_status(lock).token;
}

zkl_recipe zkl_lock_recipe(const zkl_lock *lock)
{
    return lock ? lock->recipe->id : ZKL_RECIPE_LOCK;
}

const char *zkl_lock_path(const zkl_lock *lock)
{
    return lock ? lock->path : "";
}

/* The name relative to the lock's path: a semaphore's znodes have a directory in between. */
static void write_node(const char *path, const struct zkl__held_node *node,
                       char out[ZKL__NAME_MAX + 8])
{
    size_t length = strlen(path);
    const char *directory = strlen(node->dir) > length ? node->dir + length + 1 : "";
    snprintf(out, ZKL__NAME_MAX + 8, "%s%s%s", node->name[0] ? directory : "",
             node->name[0] && *directory ? "/" : "", node->name);
}

size_t zkl_lock_node(const zkl_lock *lock, char *name, size_t size)
{
    struct zkl__held_node first;
    char node[ZKL__NAME_MAX + 8] = "";
    if (lock && zkl__session_enter(lock->session, NULL) == ZKL_OK) {
        if (zkl__lock_nodes(lock, &first, 1) > 0) {
            write_node(lock->path, &first, node);
        }
        zkl__session_leave(lock->session);
    }
    size_t length = strlen(node);
    if (size > 0) {
        size_t fits = length < size ? length : size - 1;
        memcpy(name, node, fits);
        name[fits] = '\0';
    }
    return length;
}

const char *zkl_state_name(zkl_state state)
{
    static const char *const names[] = {"idle", "waiting", "held", "jeopardy", "lost"};
    return (unsigned)state < sizeof names / sizeof *names ? names[state] : "?";
}

/* --- all locks of a session ------------------------------------------------------------------ */

int zkl_session_locks(zkl_session *session, zkl_session_locks_fn visit, void *payload)
{
    int count = session && visit ? zkl__session_enter(session, NULL) : ZKL_EINVAL;
    if (count != ZKL_OK) {
        return count;
    }
    ZKL__EACH (struct zkl__object, object, &session->objects, link) {
        if (object->ops != &lock_ops) {
            continue; /* no lock */
        }
        const zkl_lock *lock = (const zkl_lock *)object;
        struct zkl__lock_status now = zkl__lock_status_locked(lock);
        for (size_t i = 0; now.state != ZKL_STATE_IDLE && i < lock->path_count; i++) {
            visit(lock->paths[i], now.state, now.token, payload);
            count++;
        }
    }
    zkl__session_leave(session);
    return count;
}
