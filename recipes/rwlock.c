/* rwlock.c - the read/write lock: readers wait for what is no reader, writers for everybody. */
#include "place.h"

#include "error.h"
#include "sized.h"

#include <zklock/rwlock.h>

struct zkl_rwlock {
    struct zkl__place place; /* first */
    zkl_rwlock_state_fn state_fn;
    void *state_payload;
};

static const struct zkl__rule writer = {"__WRIT__", ZKL__KIND_ANY};
static const struct zkl__rule reader = {"__READ__",
                                        ZKL__KIND_ANY & ~(ZKL__KIND(ZKL_KIND_READ) | ZKL__KIND(ZKL_KIND_KAZOO_READ))};

static void tell(struct zkl__place *place, zkl_state state)
{
    zkl_rwlock *lock = (zkl_rwlock *)place;
    lock->state_fn(lock, state, lock->state_payload);
}

static void complete(struct zkl__place *place, zkl__any_fn done, void *payload, int code, const zkl_grant *grant,
                     const zkl_error *err)
{
    ((zkl_rwlock_acquired_fn)done)((zkl_rwlock *)place, code, grant, err, payload);
}

static const struct zkl__place_ops ops = {
    .object = {.noun = "rwlock", .give_up = zkl__place_give_up, .describe = zkl__place_describe},
    .tell = tell,
    .complete = complete,
};

ZKL__SIZED(sized, zkl_rwlock_options, ZKL_RWLOCK_OPTIONS_INIT, state_payload, state_payload);

int zkl_rwlock_new(zkl_rwlock **out, zkl_session *session, const char *path, const zkl_rwlock_options *options,
                   zkl_error *err)
{
    ZKL__CLEAR(out);
    zkl_rwlock_options o;
    if (!out) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "out is NULL");
    }
    int rc = zkl__sized_take(&o, options, &sized, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    const struct zkl__place_config config = {
        .metadata = o.metadata,
        .acl = o.acl,
        .recursive = o.recursive,
        .listens = o.state_fn != NULL,
        .announces = true,
        .on_expiry = o.on_expiry,
        .max_hold_ms = o.max_hold_ms,
        .release_timeout_ms = o.release_timeout_ms,
    };
    struct zkl__place *place;
    rc = zkl__place_new(&place, sizeof(zkl_rwlock), &ops, session, path, &config, err);
    if (rc == ZKL_OK) {
        zkl_rwlock *lock = (zkl_rwlock *)place;
        lock->state_fn = o.state_fn;
        lock->state_payload = o.state_payload;
        *out = lock;
    }
    return rc;
}

void zkl_rwlock_free(zkl_rwlock *lock)
{
    zkl__place_free((struct zkl__place *)lock);
}

static int rule_of(const struct zkl__rule **out, zkl_rwmode mode, zkl_error *err)
{
    int rc = zkl__range_check("mode", (int64_t)mode, ZKL_RW_READ, ZKL_RW_WRITE, err);
    *out = mode == ZKL_RW_READ ? &reader : &writer;
    return rc;
}

int zkl_rwlock_acquire(zkl_rwlock *lock, zkl_rwmode mode, int64_t timeout_ms, zkl_grant *grant, zkl_error *err)
{
    const struct zkl__rule *rule;
    int rc = rule_of(&rule, mode, err);
    return rc == ZKL_OK ? zkl__place_acquire((struct zkl__place *)lock, rule, timeout_ms, grant, err) : rc;
}

int zkl_rwlock_acquire_async(zkl_rwlock *lock, zkl_rwmode mode, int64_t timeout_ms, zkl_rwlock_acquired_fn done,
                             void *payload, zkl_error *err)
{
    const struct zkl__rule *rule;
    int rc = rule_of(&rule, mode, err);
    return rc == ZKL_OK
               ? zkl__place_acquire_async((struct zkl__place *)lock, rule, timeout_ms, (zkl__any_fn)done, payload, err)
               : rc;
}

int zkl_rwlock_cancel(zkl_rwlock *lock)
{
    return zkl__place_cancel((struct zkl__place *)lock);
}

int zkl_rwlock_downgrade(zkl_rwlock *lock, zkl_error *err)
{
    return zkl__place_downgrade((struct zkl__place *)lock, &reader, err);
}

int zkl_rwlock_release(zkl_rwlock *lock, zkl_error *err)
{
    return zkl__place_release((struct zkl__place *)lock, err);
}

zkl_rwmode zkl_rwlock_mode(const zkl_rwlock *lock)
{
    const struct zkl__rule *rule = zkl__place_standing((const struct zkl__place *)lock).rule;
    return rule == &writer ? ZKL_RW_WRITE : rule == &reader ? ZKL_RW_READ : ZKL_RW_NONE;
}

bool zkl_rwlock_is_held(const zkl_rwlock *lock)
{
    return zkl__place_holds((const struct zkl__place *)lock);
}

zkl_state zkl_rwlock_state(const zkl_rwlock *lock)
{
    return zkl__place_standing((const struct zkl__place *)lock).state;
}

int64_t zkl_rwlock_remaining_ms(const zkl_rwlock *lock)
{
    return zkl__place_standing((const struct zkl__place *)lock).remaining_ns / ZKL__MS;
}

int64_t zkl_rwlock_token(const zkl_rwlock *lock)
{
    return zkl__place_standing((const struct zkl__place *)lock).token;
}

const char *zkl_rwlock_path(const zkl_rwlock *lock)
{
    return lock ? lock->place.path : "";
}

size_t zkl_rwlock_node(const zkl_rwlock *lock, char *name, size_t size)
{
    return zkl__place_node((const struct zkl__place *)lock, name, size);
}
