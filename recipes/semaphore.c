/* semaphore.c - n permits, in Curator's layout (InterProcessSemaphoreV2): a queue in PATH/locks, whose head alone makes its permits' nodes in
 * PATH/leases, and waits there until no more than the limit stand, its own included. The object is a place (place.h), what it waits
 * for and holds is its permits (permits.h). */
#include "permits.h"

#include "error.h"
#include "heap.h"
#include "path.h"
#include "sized.h"

#include <stdlib.h>
#include <string.h>

static void tell_user(struct zkl__place *place, zkl_state state)
{
    zkl_semaphore *semaphore = (zkl_semaphore *)place;
    semaphore->state_fn(semaphore, state, semaphore->state_payload);
}

static void complete(struct zkl__place *place, zkl__any_fn done, void *payload, int code, const zkl_grant *grant,
                     const zkl_error *err)
{
    ((zkl_permitted_fn)done)((zkl_semaphore *)place, code, grant, err, payload);
}

static void session_changed(struct zkl__object *object, zkl_session_state state)
{
    zkl_semaphore *semaphore = (zkl_semaphore *)object;
    if (semaphore->permits && state == ZKL_SESSION_CONNECTED) {
        zkl__permits_wake(semaphore->permits);
    }
}

static void destroy(struct zkl__place *place)
{
    const zkl_heap *heap = zkl__session_heap(place->session);
    zkl__free(heap, ((zkl_semaphore *)place)->locks);
    zkl__free(heap, ((zkl_semaphore *)place)->leases);
}

static const struct zkl__place_ops ops = {
    .object = {"semaphore", zkl__place_give_up, zkl__place_describe, session_changed},
    .tell = tell_user,
    .complete = complete,
    .claims = &zkl__permits_claims,
    .destroy = destroy,
};

ZKL__SIZED(sized, zkl_semaphore_options, ZKL_SEMAPHORE_OPTIONS_INIT, state_payload, state_payload);

static int check_arguments(zkl_semaphore **out, const char *path, int limit, zkl_error *err)
{
    char longest[ZKL_PATH_MAX + 1];
    if (!out) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "out is NULL");
    }
    int rc = zkl__range_check("limit", limit, 1, ZKL_PERMITS_MAX, err);
    if (rc == ZKL_OK) {
        rc = zkl__path_check(path, err);
    }
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

int zkl_semaphore_new(zkl_semaphore **out, zkl_session *session, const char *path, int limit,
                      const zkl_semaphore_options *options, zkl_error *err)
{
    ZKL__CLEAR(out);
    zkl_semaphore_options o;
    int rc = zkl__sized_take(&o, options, &sized, err);
    rc = rc == ZKL_OK ? check_arguments(out, path, limit, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    const struct zkl__place_config config = {
        .metadata = o.metadata,
        .acl = o.acl,
        .listens = o.state_fn != NULL,
        .on_expiry = o.on_expiry,
        .release_timeout_ms = o.release_timeout_ms,
    };
    struct zkl__place *place;
    rc = zkl__place_new(&place, sizeof(zkl_semaphore), &ops, session, path, &config, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_semaphore *semaphore = (zkl_semaphore *)place;
    semaphore->limit = limit;
    semaphore->locks = join(zkl__session_heap(session), path, "locks");
    semaphore->leases = join(zkl__session_heap(session), path, "leases");
    semaphore->state_fn = o.state_fn;
    semaphore->state_payload = o.state_payload;
    if (!semaphore->locks || !semaphore->leases) {
        zkl__place_free(place);
        return zkl__fail(err, ZKL_ENOMEM, 0, path, "no memory");
    }
    *out = semaphore;
    return ZKL_OK;
}

void zkl_semaphore_free(zkl_semaphore *semaphore)
{
    zkl__place_free((struct zkl__place *)semaphore);
}

static int check_count(const zkl_semaphore *semaphore, int count, zkl_error *err)
{
    return semaphore ? zkl__range_check("count", count, 1, semaphore->limit, err)
                     : zkl__fail(err, ZKL_EINVAL, 0, NULL, "semaphore is NULL");
}

int zkl_semaphore_acquire(zkl_semaphore *semaphore, int count, int64_t timeout_ms, zkl_grant *grant, zkl_error *err)
{
    const struct zkl__permits_request request = {zkl__permits_queue, count};
    int rc = check_count(semaphore, count, err);
    return rc == ZKL_OK ? zkl__place_acquire(&semaphore->place, &request.rule, timeout_ms, grant, err) : rc;
}

int zkl_semaphore_acquire_async(zkl_semaphore *semaphore, int count, int64_t timeout_ms, zkl_permitted_fn done,
                                void *payload, zkl_error *err)
{
    const struct zkl__permits_request request = {zkl__permits_queue, count};
    int rc = check_count(semaphore, count, err);
    return rc == ZKL_OK
               ? zkl__place_acquire_async(&semaphore->place, &request.rule, timeout_ms, (zkl__any_fn)done, payload, err)
               : rc;
}

int zkl_semaphore_cancel(zkl_semaphore *semaphore)
{
    return zkl__place_cancel((struct zkl__place *)semaphore);
}

/* --- giving back --------------------------------------------------------------------------------------------------- */

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
static int release_some(zkl_semaphore *semaphore, int count, bool *all, zkl_error *err)
{
    struct zkl__permits *p = semaphore->permits;
    zkl_state state = zkl__place_look(&semaphore->place).state;
    *all = state == ZKL_STATE_IDLE || state == ZKL_STATE_WAITING || count == count_held(p);
    if (*all) {
        return ZKL_OK;
    }
    if (count < 0 || count > count_held(p)) {
        return zkl__fail(err, ZKL_EINVAL, 0, semaphore->place.path, "count is %d, of %d permits held", count,
                         count_held(p));
    }
    while (count-- > 0) {
        zkl__permits_drop(p, &last_permit(p)->contender);
    }
    return state == ZKL_STATE_LOST ? zkl__fail(err, ZKL_ELOST, 0, semaphore->place.path, "lost while they were held")
                                   : ZKL_OK;
}

int zkl_semaphore_release(zkl_semaphore *semaphore, int count, zkl_error *err)
{
    bool all = count == 0;
    if (semaphore && !all) {
        zkl_session *session = semaphore->place.session;
        int rc = zkl__session_enter(session, err);
        if (rc != ZKL_OK) {
            return rc;
        }
        rc = release_some(semaphore, count, &all, err);
        zkl__session_leave(session);
        if (!all) {
            return rc;
        }
    }
    return zkl__place_release((struct zkl__place *)semaphore, err);
}

/* --- what is so now ------------------------------------------------------------------------------------------------ */

zkl_state zkl_semaphore_state(const zkl_semaphore *semaphore)
{
    return zkl__place_standing((const struct zkl__place *)semaphore).state;
}

bool zkl_semaphore_is_held(const zkl_semaphore *semaphore)
{
    return zkl__place_holds((const struct zkl__place *)semaphore);
}

int64_t zkl_semaphore_remaining_ms(const zkl_semaphore *semaphore)
{
    return zkl__place_standing((const struct zkl__place *)semaphore).remaining_ns / ZKL__MS;
}

int64_t zkl_semaphore_token(const zkl_semaphore *semaphore)
{
    return zkl__place_standing((const struct zkl__place *)semaphore).token;
}

static int by_value(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

int zkl_semaphore_tokens(const zkl_semaphore *semaphore, int64_t *tokens, int room)
{
    int held = 0, put = 0;
    if (!semaphore || zkl__session_enter(semaphore->place.session, NULL) != ZKL_OK) {
        return 0;
    }
    zkl_session *session = semaphore->place.session;
    const struct zkl__permits *p = zkl__place_look(&semaphore->place).token ? semaphore->permits : NULL;
    for (int i = 0; p && i < p->count; i++) {
        if (p->permits[i].contender) {
            held++;
            if (put < room) {
                tokens[put++] = p->permits[i].token;
            }
        }
    }
    zkl__session_leave(session);
    if (put > 0) {
        qsort(tokens, (size_t)put, sizeof *tokens, by_value);
    }
    return held;
}

int zkl_semaphore_held(const zkl_semaphore *semaphore)
{
    return zkl_semaphore_tokens(semaphore, NULL, 0);
}

const char *zkl_semaphore_path(const zkl_semaphore *semaphore)
{
    return semaphore ? semaphore->place.path : "";
}

int zkl_semaphore_limit(const zkl_semaphore *semaphore)
{
    return semaphore ? semaphore->limit : 0;
}
