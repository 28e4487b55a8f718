/* rwlock.c - the read/write lock: a reader waits for everything but readers, a writer for
 * everything. */
#include "lock.h"

#include <zklock/rwlock.h>

static const struct zkl__rule writer = {"__WRIT__", ZKL__KIND_ANY};
static const struct zkl__rule reader = {"__READ__", ZKL__KIND_ANY & ~ZKL__KIND_READERS};

static const struct zkl__recipe read_lock = {
    .noun = "read lock",
    .id = ZKL_RECIPE_READ_LOCK,
    .size = sizeof(zkl_lock),
    .rule = &reader,
};

static const struct zkl__recipe write_lock = {
    .noun = "write lock",
    .id = ZKL_RECIPE_WRITE_LOCK,
    .size = sizeof(zkl_lock),
    .rule = &writer,
};

int zkl_read_lock_new(zkl_lock **out, zkl_session *session, const char *path,
                      const zkl_lock_options *options, zkl_error *err)
{
    return zkl__lock_make(out, &read_lock, session, &path, 1, options, err);
}

int zkl_write_lock_new(zkl_lock **out, zkl_session *session, const char *path,
                       const zkl_lock_options *options, zkl_error *err)
{
    return zkl__lock_make(out, &write_lock, session, &path, 1, options, err);
}

/* --- from a writer to a reader --------------------------------------------------------------- */

/* Until the server has released the write side or refused that, the lock is lost, or the time is
 * up. */
static int await_downgrade(zkl_lock *lock, struct zkl__acquisition *acquisition, zkl_error *err)
{
    zkl_session *session = lock->session;
    int64_t deadline = zkl__session_deadline(session, lock->options.release_timeout_ms);
    bool more = true;
    while (more && !acquisition->downgraded && acquisition->rule == &reader &&
           zkl__acquisition_holds(acquisition)) {
        more = zkl__session_wait(session, &acquisition->changed, deadline);
    }
    if (!zkl__acquisition_holds(acquisition)) {
        return zkl__fail_at(err, ZKL_ELOST, lock->path, "lost or released meanwhile: %s",
                            acquisition->why);
    }
    if (acquisition->rule != &reader) {
        return zkl__fail_at(
            err, ZKL_ECONFLICT, lock->path,
            "still a write lock: another znode has the name that the reader's would get");
    }
    if (!acquisition->downgraded) {
        return zkl__fail_at(err, ZKL_ETIMEOUT, lock->path,
                            "the servers have not answered yet; it goes on");
    }
    return ZKL_OK;
}

static int downgrade(zkl_lock *lock, zkl_error *err)
{
    struct zkl__acquisition *acquisition = lock->acquisition;
    if (!acquisition || !acquisition->granted) {
        return zkl__lock_not_granted(lock, err);
    }
    if (!zkl__acquisition_holds(acquisition)) {
        return zkl__fail_at(err, ZKL_ELOST, lock->path, "lost while it was held: %s",
                            acquisition->why);
    }
    if (acquisition->rule != &reader && acquisition->depth > 1) {
        return zkl__fail_at(err, ZKL_EDEADLK, lock->path,
                            "acquired %u times: all but one must be released first",
                            acquisition->depth);
    }
    acquisition->refs++;
    if (acquisition->rule != &reader) {
        acquisition->rule = &reader;
        acquisition->downgraded = false;
        zkl__acquisition_event(acquisition,
                               (struct zkl__event){.kind = ZKL__EV_DOWNGRADE, .rule = &reader});
    }
    int rc = await_downgrade(lock, acquisition, err);
    zkl__acquisition_unref(acquisition);
    return rc;
}

int zkl_write_lock_downgrade(zkl_lock *lock, zkl_error *err)
{
    int rc = zkl__lock_check(lock, &write_lock, err);
    if (rc == ZKL_OK && lock->options.revoke_fn) {
        rc = zkl__fail_at(err, ZKL_EINVAL, lock->path,
                          "a write lock with the option revoke_fn cannot be downgraded");
    }
    rc = rc == ZKL_OK ? zkl__session_enter(lock->session, err) : rc;
    if (rc == ZKL_OK) {
        zkl_session *session = lock->session;
        rc = downgrade(lock, err);
        zkl__session_leave(session);
    }
    return rc;
}
