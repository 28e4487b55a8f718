/* semaphore.c - permits, in Curator's layout (InterProcessSemaphoreV2): a queue in PATH/locks,
 * whose head alone makes its permits' nodes in PATH/leases, and waits there until no more than the
 * limit stand, its own included. An acquire is a machine of the core (protocol/semaphore.h). */
#include "semaphore.h"

#include "error.h"
#include "lock_internal.h"
#include "path.h"

#include <zklock/semaphore.h>

#include <stdlib.h>
#include <string.h>

struct semaphore {
    zkl_lock lock; /* first; its path is PATH */
    int limit;
    char *locks, *leases;
    char conflict[ZKL__CONFLICT_MAX]; /* words of the last ZKL_ECONFLICT */
};

static struct zkl__semaphore *make(zkl_lock *lock, int count,
                                   const struct zkl__contender_config *config)
{
    struct semaphore *it = (struct semaphore *)lock;
    const struct zkl__semaphore_config whole = {.path = lock->path,
                                                .locks = it->locks,
                                                .leases = it->leases,
                                                .conflict = it->conflict,
                                                .limit = it->limit,
                                                .count = count,
                                                .contender = *config};
    return zkl__semaphore_new(zkl__session_core(lock->session), &whole);
}

/* The first permit's before all others. */
static size_t nodes(const zkl_lock *lock, const struct zkl__semaphore *semaphore,
                    struct zkl__held_node *nodes, size_t room)
{
    const struct semaphore *it = (const struct semaphore *)lock;
    int64_t first = zkl__semaphore_token(semaphore), token;
    size_t count = 0, others = 0;
    if (!zkl__semaphore_granted(semaphore)) {
        nodes[0] = (struct zkl__held_node){it->locks, zkl__semaphore_place(semaphore)};
        return 1;
    }
    for (int i = 0; i < zkl__semaphore_count(semaphore); i++) {
        const char *name = zkl__semaphore_permit(semaphore, i, &token);
        if (name) {
            size_t at = token == first ? 0 : ++others;
            if (at < room) {
                nodes[at] = (struct zkl__held_node){it->leases, name};
            }
            count++;
        }
    }
    return count;
}

static void destroy(zkl_lock *lock)
{
    const zkl_heap *heap = zkl__session_heap(lock->session);
    zkl__free(heap, ((struct semaphore *)lock)->locks);
    zkl__free(heap, ((struct semaphore *)lock)->leases);
}

static const struct zkl__semaphore_ops ops = {make, nodes};

static const struct zkl__recipe semaphore = {
    .object = {"semaphore", zkl__lock_give_up, zkl__lock_describe},
    .id = ZKL_RECIPE_SEMAPHORE,
    .size = sizeof(struct semaphore),
    .rule = &zkl__semaphore_queue,
    .semaphore = &ops,
    .destroy = destroy,
};

static int check_arguments(const char *path, int limit, zkl_error *err)
{
    char longest[ZKL_PATH_MAX + 1];
    int rc = zkl__range_check("limit", limit, 0, ZKL_PERMITS_MAX, err);
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
    struct semaphore *made = (struct semaphore *)*out;
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
    int limit = rc == ZKL_OK ? ((const struct semaphore *)lock)->limit : 0;
    return rc == ZKL_OK
               ? zkl__range_check("count", count, 1, limit > 0 ? limit : ZKL_PERMITS_MAX, err)
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

/* Inside. *all: there would be none left, so that is another matter. */
static int release_some(zkl_lock *lock, int count, bool *all, zkl_error *err)
{
    struct zkl__semaphore *it = lock->acquisition ? lock->acquisition->semaphore : NULL;
    zkl_state state = zkl__lock_look(lock).state;
    int held = it ? zkl__semaphore_held(it) : 0;
    *all = state == ZKL_STATE_IDLE || state == ZKL_STATE_WAITING || count == held || held == 0;
    if (*all) {
        return ZKL_OK;
    }
    if (count < 0 || count > held) {
        return zkl__fail(err, ZKL_EINVAL, 0, lock->path, "count is %d, of %d permits held", count,
                         held);
    }
    zkl__session_event(
        lock->session,
        (struct zkl__event){.kind = ZKL__EV_GIVE_BACK, .semaphore = it, .count = count});
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
    const struct zkl__semaphore *it =
        zkl__lock_look(lock).token ? lock->acquisition->semaphore : NULL;
    for (int i = 0; it && i < zkl__semaphore_count(it); i++) {
        int64_t token;
        if (zkl__semaphore_permit(it, i, &token)) {
            held++;
            if (put < room) {
                tokens[put++] = token;
            }
        }
    }
    zkl__session_leave(lock->session);
    if (put > 0) {
        qsort(tokens, (size_t)put, sizeof *tokens, by_value);
    }
    return held;
}
