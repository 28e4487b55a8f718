/* lock_async.c - acquires that nobody waits for: one call of the user for each. */
#include "lock_internal.h"

#include "heap.h"

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
    int code = zkl__acquisition_conclude(acquisition, completion->again, &grant, &err);
    zkl__session_leave(session);
    completion->done(lock, code, code == ZKL_OK ? &grant : NULL, &err, completion->payload);
    if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
        return;
    }
    completion_unlink(completion);
    zkl__free(zkl__session_heap(session), completion);
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
        zkl__callbacks_post(zkl__session_callbacks(lock->session), &completion->callback);
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
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "done is NULL");
    }
    int rc = zkl__lock_enter(lock, timeout_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = lock->session;
    struct zkl__completion *completion =
        zkl__zalloc(zkl__session_heap(session), sizeof *completion);
    if (zkl__callbacks_want(zkl__session_callbacks(session)) != ZKL_OK) {
        rc = zkl__fail(err, ZKL_ELIMIT, 0, lock->path, "no thread for callbacks");
    } else if (!completion) {
        rc = zkl__fail(err, ZKL_ENOMEM, 0, lock->path, "no memory for an acquire");
    } else {
        completion->done = done;
        completion->payload = payload;
        rc = begin_async(completion, lock, count, timeout_ms, err);
    }
    if (rc != ZKL_OK) {
        zkl__free(zkl__session_heap(session), completion);
    }
    zkl__session_leave(session);
    return rc;
}

int zkl_lock_acquire_async(zkl_lock *lock, int64_t timeout_ms, zkl_acquired_fn done, void *payload,
                           zkl_error *err)
{
    return zkl__lock_acquire_async(lock, 1, timeout_ms, done, payload, err);
}

void zkl__lock_finish(zkl_lock *lock)
{
    struct zkl__callbacks *callbacks = zkl__session_callbacks(lock->session);
    struct zkl__completion *completion = lock->completions;
    while (completion) {
        if (zkl__callbacks_inside(callbacks, &completion->callback)) {
            completion = completion->next;
        } else {
            zkl__callbacks_finish(callbacks, &completion->callback);
            completion = lock->completions;
        }
    }
}
