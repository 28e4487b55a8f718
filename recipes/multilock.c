/* multilock.c - several locks, all or none: one place in several queues. */
#include "place.h"

#include "error.h"
#include "path.h"
#include "sized.h"

#include <zklock/multilock.h>

#include <string.h>

struct zkl_multilock {
    struct zkl__place place; /* first */
    zkl_multilock_state_fn state_fn;
    void *state_payload;
};

static void tell(struct zkl__place *place, zkl_state state)
{
    zkl_multilock *lock = (zkl_multilock *)place;
    lock->state_fn(lock, state, lock->state_payload);
}

static void complete(struct zkl__place *place, zkl__any_fn done, void *payload, int code, const zkl_grant *grant,
                     const zkl_error *err)
{
    ((zkl_multilock_acquired_fn)done)((zkl_multilock *)place, code, grant, err, payload);
}

static const struct zkl__place_ops ops = {
    .object = {.noun = "multilock", .give_up = zkl__place_give_up, .describe = zkl__place_describe},
    .tell = tell,
    .complete = complete,
};

/* The same path twice would wait for itself. */
static int check_paths(const char *const *paths, size_t count, zkl_error *err)
{
    if (!paths || count == 0) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "paths: at least one is needed");
    }
    if (count > ZKL_MULTILOCK_MAX) {
        return zkl__fail(err, ZKL_ELIMIT, 0, NULL, "paths: %zu are more than %d", count, ZKL_MULTILOCK_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        int rc = zkl__path_check(paths[i], err);
        for (size_t j = 0; rc == ZKL_OK && j < i; j++) {
            if (strcmp(paths[i], paths[j]) == 0) {
                rc = zkl__fail(err, ZKL_EINVAL, 0, paths[i], "paths: %.200s is there twice", paths[i]);
            }
        }
        if (rc != ZKL_OK) {
            return rc;
        }
    }
    return ZKL_OK;
}

ZKL__SIZED(sized, zkl_multilock_options, ZKL_MULTILOCK_OPTIONS_INIT, state_payload, state_payload);

int zkl_multilock_new(zkl_multilock **out, zkl_session *session, const char *const *paths, size_t count,
                      const zkl_multilock_options *options, zkl_error *err)
{
    ZKL__CLEAR(out);
    zkl_multilock_options o;
    if (!out) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "out is NULL");
    }
    int rc = zkl__sized_take(&o, options, &sized, err);
    rc = rc == ZKL_OK ? check_paths(paths, count, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    const struct zkl__place_config config = {
        .metadata = o.metadata,
        .acl = o.acl,
        .listens = o.state_fn != NULL,
        .on_expiry = o.on_expiry,
        .release_timeout_ms = o.release_timeout_ms,
        .paths = paths,
        .path_count = count,
    };
    struct zkl__place *place;
    rc = zkl__place_new(&place, sizeof(zkl_multilock), &ops, session, paths[0], &config, err);
    if (rc == ZKL_OK) {
        zkl_multilock *lock = (zkl_multilock *)place;
        lock->state_fn = o.state_fn;
        lock->state_payload = o.state_payload;
        *out = lock;
    }
    return rc;
}

void zkl_multilock_free(zkl_multilock *lock)
{
    zkl__place_free((struct zkl__place *)lock);
}

int zkl_multilock_acquire(zkl_multilock *lock, int64_t timeout_ms, zkl_grant *grant, zkl_error *err)
{
    return zkl__place_acquire((struct zkl__place *)lock, &zkl__rule_mutex, timeout_ms, grant, err);
}

int zkl_multilock_acquire_async(zkl_multilock *lock, int64_t timeout_ms, zkl_multilock_acquired_fn done, void *payload,
                                zkl_error *err)
{
    return zkl__place_acquire_async((struct zkl__place *)lock, &zkl__rule_mutex, timeout_ms, (zkl__any_fn)done, payload,
                                    err);
}

int zkl_multilock_cancel(zkl_multilock *lock)
{
    return zkl__place_cancel((struct zkl__place *)lock);
}

int zkl_multilock_release(zkl_multilock *lock, zkl_error *err)
{
    return zkl__place_release((struct zkl__place *)lock, err);
}

bool zkl_multilock_is_held(const zkl_multilock *lock)
{
    return zkl__place_holds((const struct zkl__place *)lock);
}

zkl_state zkl_multilock_state(const zkl_multilock *lock)
{
    return zkl__place_standing((const struct zkl__place *)lock).state;
}

int64_t zkl_multilock_remaining_ms(const zkl_multilock *lock)
{
    return zkl__place_standing((const struct zkl__place *)lock).remaining_ns / ZKL__MS;
}

int64_t zkl_multilock_token(const zkl_multilock *lock)
{
    return zkl__place_standing((const struct zkl__place *)lock).token;
}

size_t zkl_multilock_count(const zkl_multilock *lock)
{
    return lock ? lock->place.config.path_count : 0;
}

const char *zkl_multilock_path(const zkl_multilock *lock, size_t index)
{
    return index < zkl_multilock_count(lock) ? lock->place.config.paths[index] : NULL;
}

size_t zkl_multilock_node(const zkl_multilock *lock, size_t index, char *name, size_t size)
{
    bool there = index < zkl_multilock_count(lock);
    return zkl__place_node_at(there ? &lock->place : NULL, index, name, size);
}
