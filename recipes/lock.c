/* lock.c - makes and frees the handle of every recipe. And the plain lock, which the first
 * contender in the queue holds. */
#include "lock_internal.h"

#include "acl.h"
#include "contender_inside.h"
#include "call.h"
#include "path.h"
#include "sized.h"
#include "text.h"

#include <string.h>

/* --- options --------------------------------------------------------------------------------- */

ZKL__SIZED(sized, zkl_lock_options, ZKL_LOCK_OPTIONS_INIT, payload, delay_after_crash_ms);

static int check_applies(const struct zkl__recipe *recipe, const zkl_lock_options *o,
                         zkl_error *err)
{
    const struct {
        const char *name;
        bool set;
        unsigned takes;
    } options[] = {
        {"recursive", o->recursive, ZKL__TAKES_RECURSIVE},
        {"recover", o->recover, ZKL__TAKES_RECOVER},
        {"revoke_fn", o->revoke_fn != NULL, ZKL__TAKES_REVOKE_FN},
        {"max_ahead", o->max_ahead != 0, ZKL__TAKES_POSITION},
        {"position_fn", o->position_fn != NULL, ZKL__TAKES_POSITION},
        {"linger_ms", o->linger_ms != 0, ZKL__TAKES_LINGER},
        {"hold_at_least_ms", o->hold_at_least_ms != 0, ZKL__TAKES_LEAST},
        {"delay_after_crash_ms", o->delay_after_crash_ms != 0, ZKL__TAKES_DELAY},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (options[i].set && !(recipe->takes & options[i].takes)) {
            return zkl__fail(err, ZKL_EINVAL, 0, NULL,
                             "the option %s does not apply to the recipe \"%s\"", options[i].name,
                             recipe->object.noun);
        }
    }
    return ZKL_OK;
}

/* A lingering lock does not delete its znode at a release. But that delete is the response to a
 * request to release. */
static int check_linger(const zkl_lock_options *o, zkl_error *err)
{
    if (o->linger_ms != 0 && o->revoke_fn) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL,
                         "the options linger_ms and revoke_fn exclude each other: a lock that "
                         "lingers is not deleted at its release");
    }
    return zkl__range_check("linger_ms", o->linger_ms, 0, ZKL__DAY_MS, err);
}

/* A lock that lingers is given up as soon as somebody queues. */
static int check_least(const zkl_lock_options *o, zkl_error *err)
{
    if (o->hold_at_least_ms != 0 && o->linger_ms != 0) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL,
                         "the options hold_at_least_ms and linger_ms exclude each other");
    }
    if (o->max_hold_ms > 0 && o->hold_at_least_ms > o->max_hold_ms) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL,
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

/* --- memory ---------------------------------------------------------------------------------- */

void zkl__lock_ref(zkl_lock *lock)
{
    lock->refs++;
}

void zkl__lock_unref(zkl_lock *lock)
{
    zkl_session *session = lock->session;
    const zkl_heap *heap = zkl__session_heap(session);
    if (--lock->refs > 0) {
        return;
    }
    if (lock->recipe->destroy) {
        lock->recipe->destroy(lock);
    }
    zkl__free(heap, (void *)(uintptr_t)lock->options.metadata);
    zkl__free(heap, (void *)(uintptr_t)lock->options.acl);
    for (size_t i = 0; lock->paths && i < lock->path_count; i++) {
        zkl__free(heap, lock->paths[i]);
    }
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

/* False: no memory. */
static bool copy(zkl_lock *lock, const char *const *paths, size_t count,
                 const zkl_lock_options *options)
{
    const zkl_heap *heap = zkl__session_heap(lock->session);
    bool whole = true;
    lock->options = *options;
    lock->options.metadata = NULL;
    lock->options.acl = NULL;
    lock->paths = zkl__zalloc(heap, count * sizeof *lock->paths);
    lock->path_count = count;
    for (size_t i = 0; lock->paths && i < count; i++) {
        lock->paths[i] = zkl__copy(heap, paths[i], strlen(paths[i]));
        whole = whole && lock->paths[i];
    }
    if (options->metadata) {
        lock->options.metadata = zkl__copy(heap, options->metadata, strlen(options->metadata));
    }
    if (options->acl) {
        lock->options.acl = zkl__acl_copy(heap, options->acl);
    }
    return whole && lock->paths && !options->metadata == !lock->options.metadata &&
           !options->acl == !lock->options.acl;
}

static int make(zkl_lock **out, const struct zkl__recipe *recipe, zkl_session *session,
                const char *const *paths, size_t count, const zkl_lock_options *options,
                zkl_error *err)
{
    bool calls = options->state_fn || options->revoke_fn || options->position_fn;
    if (calls && zkl__callbacks_want(zkl__session_callbacks(session)) != ZKL_OK) {
        return zkl__fail(err, ZKL_ELIMIT, 0, paths[0], "no thread for callbacks");
    }
    zkl_lock *lock = zkl__zalloc(zkl__session_heap(session), recipe->size);
    if (!lock) {
        return zkl__fail(err, ZKL_ENOMEM, 0, paths[0], "no memory");
    }
    zkl__session_retain(session);
    lock->session = session;
    lock->recipe = recipe;
    lock->refs = 1;
    bool made = copy(lock, paths, count, options);
    if (made && options->linger_ms > 0) {
        lock->lingers = zkl__linger_enroll(zkl__session_core(session), paths[0]);
        made = lock->lingers != NULL;
    }
    if (!made) {
        zkl__lock_unref(lock);
        return zkl__fail(err, ZKL_ENOMEM, 0, paths[0], "no memory");
    }
    lock->path = lock->paths[0];
    lock->object.ops = &recipe->object;
    lock->notice = (struct zkl__callback){.run = zkl__lock_run_notes, .owner = lock};
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
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", out ? "session" : "out");
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

/* The last lock object that can be granted a lingering znode takes it along. */
static void end_lingering(zkl_lock *lock)
{
    struct zkl__local_queue *lingers = lock->lingers;
    lock->lingers = NULL;
    if (lingers && zkl__linger_resign(zkl__session_core(lock->session), lingers)) {
        zkl__lock_stop_lingering(lock);
    }
}

void zkl_lock_free(zkl_lock *lock)
{
    if (!lock || zkl__session_enter_even_closed(lock->session, NULL) != ZKL_OK) {
        return; /* in a child of fork the parent's memory stays as it is */
    }
    zkl_session *session = lock->session;
    lock->freed = true;
    zkl__lock_give_up(&lock->object, ZKL_ECANCELED);
    end_lingering(lock);
    zkl__stand_finish(lock);
    zkl__calls_end(session, &lock->object, ZKL_ECANCELED);
    zkl__lock_finish(lock);
    zkl__calls_deliver(session, &lock->object);
    zkl__callbacks_unpost(zkl__session_callbacks(session), &lock->notice);
    zkl__session_remove(session, &lock->object);
    zkl__lock_unref(lock);
    zkl__session_leave(session);
}

/* --- the plain lock -------------------------------------------------------------------------- */

const struct zkl__recipe zkl__plain_lock = {
    .object = {.noun = "lock", .give_up = zkl__lock_give_up, .describe = zkl__lock_describe},
    .id = ZKL_RECIPE_LOCK,
    .size = sizeof(zkl_lock),
    .takes = ZKL__TAKES_RECURSIVE | ZKL__TAKES_RECOVER | ZKL__TAKES_REVOKE_FN |
             ZKL__TAKES_POSITION | ZKL__TAKES_LINGER | ZKL__TAKES_LEAST | ZKL__TAKES_DELAY,
    .rule = &zkl__rule_mutex,
    .announces = true,
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
