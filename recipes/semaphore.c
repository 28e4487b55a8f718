/* semaphore.c - permits, in Curator's layout (InterProcessSemaphoreV2): a queue in PATH/locks,
 * whose head alone makes its permits' nodes in PATH/leases, and waits there until no more than the
 * limit stand, its own included. What its lock waits for and holds is its permits (permits.h). */
#include "permits.h"

#include "error.h"
#include "path.h"

#include <stdlib.h>
#include <string.h>

static void session_changed(struct zkl__object *object, zkl_session_state state)
{
    const struct zkl__semaphore *semaphore = (const struct zkl__semaphore *)object;
    if (semaphore->permits && state == ZKL_SESSION_CONNECTED) {
        zkl__permits_wake(semaphore->permits);
    }
}

static void destroy(zkl_lock *lock)
{
    const zkl_heap *heap = zkl__session_heap(lock->session);
    zkl__free(heap, ((struct zkl__semaphore *)lock)->locks);
    zkl__free(heap, ((struct zkl__semaphore *)lock)->leases);
}

static const struct zkl__recipe semaphore = {
    .object = {"semaphore", zkl__lock_give_up, zkl__lock_describe, session_changed},
    .id = ZKL_RECIPE_SEMAPHORE,
    .size = sizeof(struct zkl__semaphore),
    .rule = &zkl__permits_queue,
    .claims = &zkl__permits_claims,
    .destroy = destroy,
};

static int check_arguments(const char *path, int limit, zkl_error *err)
{
    char longest[ZKL_PATH_MAX + 1];
    int rc = zkl__range_check("limit", limit, 1, ZKL_PERMITS_MAX, err);
    rc = rc == ZKL_OK ? zkl__path_check(path, err) : rc;
    if (rc == ZKL_OK && zkl__path_join(longest, sizeof longest, path, "leases") == 0) {
        rc = zkl__fail(err, ZKL_EINVAL, 0, NULL, "the path is too long for \"/leases\" behind it");
    }
    return rc;
}

static char *join(const zkl_heap *heap, const char *path, const char *name)
{
    char whole[ZKL_PATH_MAX + 1];
    size_t length = zkl__path_join(whole, sizeof whole, path, name);
    return zkl__copy(heap, whole, length);
}

int zkl_semaphore_new(zkl_lock **out, zkl_session *session, const char *path, int limit,
                      const zkl_lock_options *options, zkl_error *err)
{
    ZKL__CLEAR(out);
    int rc = check_arguments(path, limit, err);
    rc = rc == ZKL_OK ? zkl__lock_make(out, &semaphore, session, &path, 1, options, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    struct zkl__semaphore *made = (struct zkl__semaphore *)*out;
    made->limit = limit;
    made->locks = join(zkl__session_heap(session), path, "locks");
    made->leases = join(zkl__session_heap(session), path, "leases");
    if (!made->locks || !made->leases) {
        zkl_lock_free(*out);
        *out = NULL;
        return zkl__fail(err, ZKL_ENOMEM, 0, path, "no memory");
    }
    return ZKL_OK;
}

static int check_count(const zkl_lock *lock, int count, zkl_error *err)
{
    int rc = zkl__lock_check(lock, &semaphore, err);
    return rc == ZKL_OK ? zkl__range_check("count", count, 1,
                                           ((const struct zkl__semaphore *)lock)->limit, err)
                        : rc;
}

int zkl_semaphore_acquire(zkl_lock *lock, int count, int64_t timeout_ms, zkl_grant *grant,
                          zkl_error *err)
{
    int rc = check_count(lock, count, err);
    return rc == ZKL_OK ? zkl__lock_acquire(lock, count, timeout_ms, grant, err) : rc;
}

int zkl_semaphore_acquire_async(zkl_lock *lock, int count, int64_t timeout_ms, zkl_acquired_fn done,
                                void *payload, zkl_error *err)
{
    int rc = check_count(lock, count, err);
    return rc == ZKL_OK ? zkl__lock_acquire_async(lock, count, timeout_ms, done, payload, err) : rc;
}

/* --- giving back ----------------------------------------------------------------------------- */

static int count_held(const struct zkl__permits *p)
{
    int held = 0;
    for (int i = 0; i < p->count; i++) {
        held += p->permits[i].contender != NULL;
    }
    return held;
}

static struct zkl__permit *last_permit(struct zkl__permits *p)
{
    struct zkl__permit *last = NULL;
    for (int i = 0; i < p->count; i++) {
        struct zkl__permit *permit = &p->permits[i];
        last = permit->contender && (!last || permit->token > last->token) ? permit : last;
    }
    return last;
}

/* Inside. *all: there would be none left, so that is another matter. */
static int release_some(zkl_lock *lock, int count, bool *all, zkl_error *err)
{
    struct zkl__permits *p = ((struct zkl__semaphore *)lock)->permits;
    zkl_state state = zkl__lock_look(lock).state;
    *all = state == ZKL_STATE_IDLE || state == ZKL_STATE_WAITING || count == count_held(p) ||
           count_held(p) == 0;
    if (*all) {
        return ZKL_OK;
    }
    if (count < 0 || count > count_held(p)) {
        return zkl__fail(err, ZKL_EINVAL, 0, lock->path, "count is %d, of %d permits held", count,
                         count_held(p));
    }
    while (count-- > 0) {
        zkl__permits_drop(p, &last_permit(p)->contender);
    }
    return state == ZKL_STATE_LOST
               ? zkl__fail(err, ZKL_ELOST, 0, lock->path, "lost while they were held")
               : ZKL_OK;
}

int zkl_semaphore_release(zkl_lock *lock, int count, zkl_error *err)
{
    bool all = count == 0;
    int rc = zkl__lock_check(lock, &semaphore, err);
    if (rc == ZKL_OK && !all) {
        zkl_session *session = lock->session;
        rc = zkl__session_enter(session, err);
        if (rc != ZKL_OK) {
            return rc;
        }
        rc = release_some(lock, count, &all, err);
        zkl__session_leave(session);
    }
    return rc == ZKL_OK && all ? zkl_lock_release(lock, err) : rc;
}

/* --- what is so now -------------------------------------------------------------------------- */

static int by_value(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

int zkl_semaphore_tokens(const zkl_lock *lock, int64_t *tokens, int room)
{
    int held = 0, put = 0;
    if (zkl__lock_check(lock, &semaphore, NULL) != ZKL_OK ||
        zkl__session_enter(lock->session, NULL) != ZKL_OK) {
        return 0;
    }
    const struct zkl__permits *p =
        zkl__lock_look(lock).token ? ((const struct zkl__semaphore *)lock)->permits : NULL;
    for (int i = 0; p && i < p->count; i++) {
        if (p->permits[i].contender) {
            held++;
            if (put < room) {
                tokens[put++] = p->permits[i].token;
            }
        }
    }
    zkl__session_leave(lock->session);
    if (put > 0) {
        qsort(tokens, (size_t)put, sizeof *tokens, by_value);
    }
    return held;
}
