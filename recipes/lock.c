/* lock.c - the lock: whoever stands first in the queue holds it. */
#include "section.h"

#include "error.h"
#include "path.h"
#include "sized.h"

#include <zklock/lock.h>

struct zkl_lock {
    struct zkl__place place; /* first */
    zkl_lock_state_fn state_fn;
    void *state_payload;
    zkl_lock_revoke_fn revoke_fn;
    void *revoke_payload;
};

static void tell(struct zkl__place *place, zkl_state state)
{
    zkl_lock *lock = (zkl_lock *)place;
    lock->state_fn(lock, state, lock->state_payload);
}

static void revoked(struct zkl__place *place)
{
    zkl_lock *lock = (zkl_lock *)place;
    lock->revoke_fn(lock, lock->revoke_payload);
}

static void complete(struct zkl__place *place, zkl__any_fn done, void *payload, int code, const zkl_grant *grant,
                     const zkl_error *err)
{
    ((zkl_acquired_fn)done)((zkl_lock *)place, code, grant, err, payload);
}

static const struct zkl__place_ops ops = {
    .object = {.noun = "lock", .give_up = zkl__place_give_up, .describe = zkl__place_describe},
    .tell = tell,
    .revoked = revoked,
    .complete = complete,
};

ZKL__SIZED(sized, zkl_lock_options, ZKL_LOCK_OPTIONS_INIT, revoke_payload, revoke_payload);

int zkl_lock_new(zkl_lock **out, zkl_session *session, const char *path, const zkl_lock_options *options,
                 zkl_error *err)
{
    ZKL__CLEAR(out);
    zkl_lock_options o;
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
        .recover = o.recover,
        .listens = o.state_fn != NULL,
        .revocable = o.revoke_fn != NULL,
        .announces = true,
        .on_expiry = o.on_expiry,
        .max_hold_ms = o.max_hold_ms,
        .release_timeout_ms = o.release_timeout_ms,
    };
    struct zkl__place *place;
    rc = zkl__place_new(&place, sizeof(zkl_lock), &ops, session, path, &config, err);
    if (rc == ZKL_OK) {
        zkl_lock *lock = (zkl_lock *)place;
        lock->state_fn = o.state_fn;
        lock->state_payload = o.state_payload;
        lock->revoke_fn = o.revoke_fn;
        lock->revoke_payload = o.revoke_payload;
        *out = lock;
    }
    return rc;
}

void zkl_lock_free(zkl_lock *lock)
{
    zkl__place_free((struct zkl__place *)lock);
}

int zkl_lock_acquire(zkl_lock *lock, int64_t timeout_ms, zkl_grant *grant, zkl_error *err)
{
    return zkl__place_acquire((struct zkl__place *)lock, &zkl__rule_mutex, timeout_ms, grant, err);
}

int zkl_lock_acquire_async(zkl_lock *lock, int64_t timeout_ms, zkl_acquired_fn done, void *payload, zkl_error *err)
{
    return zkl__place_acquire_async((struct zkl__place *)lock, &zkl__rule_mutex, timeout_ms, (zkl__any_fn)done, payload,
                                    err);
}

int zkl_lock_cancel(zkl_lock *lock)
{
    bool runs = lock && zkl__section_cancel(
                            &lock->place); /* first: what is pending becomes what runs, not the other way round */
    int rc = zkl__place_cancel((struct zkl__place *)lock);
    return rc == ZKL_ENOTWAITING && runs ? ZKL_OK : rc;
}

int zkl_lock_release(zkl_lock *lock, zkl_error *err)
{
    return zkl__place_release((struct zkl__place *)lock, err);
}

zkl_state zkl_lock_state(const zkl_lock *lock)
{
    return zkl__place_standing((const struct zkl__place *)lock).state;
}

bool zkl_lock_is_held(const zkl_lock *lock)
{
    return zkl__place_holds((const struct zkl__place *)lock);
}

int64_t zkl_lock_remaining_ms(const zkl_lock *lock)
{
    return zkl__place_standing((const struct zkl__place *)lock).remaining_ns / ZKL__MS;
}

int64_t zkl_lock_token(const zkl_lock *lock)
{
    return zkl__place_standing((const struct zkl__place *)lock).token;
}

const char *zkl_lock_path(const zkl_lock *lock)
{
    return lock ? lock->place.path : "";
}

size_t zkl_lock_node(const zkl_lock *lock, char *name, size_t size)
{
    return zkl__place_node((const struct zkl__place *)lock, name, size);
}

int zkl_path_check(const char *path, zkl_error *err)
{
    return zkl__path_check(path, err);
}

const char *zkl_state_name(zkl_state state)
{
    static const char *const names[] = {"idle", "waiting", "held", "jeopardy", "lost"};
    return (unsigned)state < sizeof names / sizeof *names ? names[state] : "?";
}

int zkl_session_release_all(zkl_session *session)
{
    return zkl__places_release_all(session, &ops);
}

int zkl_session_locks(zkl_session *session, zkl_lock_visit_fn visit, void *payload)
{
    return zkl__places_visit(session, visit, payload);
}
