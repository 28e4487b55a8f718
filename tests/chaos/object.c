#include "object.h"

#include <stdio.h>
#include <string.h>

#include "dice.h"

#define READERS 1000 /* more than there can be at once */
#define PERMITS 3
#define RECOVER "recover:"

static const struct {
    const char *prefix;
    int of;
} kinds[] = {
    [OBJECT_LOCK] = {"", 1},           [OBJECT_RWLOCK] = {"rw:", READERS}, [OBJECT_SEMAPHORE] = {"sem:", PERMITS},
    [OBJECT_ELECTION] = {"elect:", 1}, [OBJECT_MULTILOCK] = {"multi:", 1},
};
#define COUNT ((int)(sizeof kinds / sizeof *kinds))

/* Kind and paths. */
static void parse(struct object *o, const char *word)
{
    o->kind = OBJECT_LOCK;
    o->recovers = strncmp(word, RECOVER, strlen(RECOVER)) == 0;
    word += o->recovers ? strlen(RECOVER) : 0;
    for (int i = 0; i < COUNT; i++) {
        size_t length = strlen(kinds[i].prefix);
        if (length > 0 && strncmp(word, kinds[i].prefix, length) == 0) {
            o->kind = (enum object_kind)i;
            word += length;
        }
    }
    o->path_count = 0;
    while (*word && o->path_count < OBJECT_PATHS) {
        size_t length = strcspn(word, ",");
        snprintf(o->paths[o->path_count++], HISTORY_WORD, "%.*s", (int)length, word);
        word += length + (word[length] == ',' ? 1 : 0);
    }
}

/* --- what the library calls ------------------------------------------------------------------------------------------ */

static void tell(struct object *o, zkl_state state)
{
    if (state == ZKL_STATE_LOST) {
        o->lost(o);
    }
}

static void on_lock(zkl_lock *lock, zkl_state state, void *payload)
{
    (void)lock;
    tell(payload, state);
}
static void on_request(zkl_lock *lock, void *payload)
{
    struct object *o = payload;
    (void)lock;
    o->asked(o);
}
static void on_rwlock(zkl_rwlock *lock, zkl_state state, void *payload)
{
    (void)lock;
    tell(payload, state);
}
static void on_semaphore(zkl_semaphore *semaphore, zkl_state state, void *payload)
{
    (void)semaphore;
    tell(payload, state);
}
static void on_election(zkl_election *election, zkl_state state, void *payload)
{
    (void)election;
    tell(payload, state);
}

static void on_multilock(zkl_multilock *lock, zkl_state state, void *payload)
{
    (void)lock;
    tell(payload, state);
}

static void complete(struct object *o, int code, const zkl_grant *grant)
{
    o->done(o, code, grant);
}

static void lock_done(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    (void)lock;
    (void)err;
    complete(payload, code, grant);
}
static void rwlock_done(zkl_rwlock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    (void)lock;
    (void)err;
    complete(payload, code, grant);
}
static void semaphore_done(zkl_semaphore *semaphore, int code, const zkl_grant *grant, const zkl_error *err,
                           void *payload)
{
    (void)semaphore;
    (void)err;
    complete(payload, code, grant);
}
static void election_done(zkl_election *election, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    (void)election;
    (void)err;
    complete(payload, code, grant);
}
static void multilock_done(zkl_multilock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    (void)lock;
    (void)err;
    complete(payload, code, grant);
}

/* --- life ------------------------------------------------------------------------------------------------------------ */

int object_new(struct object *o, zkl_session *session, const char *word, const struct object_options *options,
               zkl_error *err)
{
    zkl_lock_options lock = ZKL_LOCK_OPTIONS_INIT;
    zkl_rwlock_options rwlock = ZKL_RWLOCK_OPTIONS_INIT;
    zkl_semaphore_options semaphore = ZKL_SEMAPHORE_OPTIONS_INIT;
    zkl_election_options election = ZKL_ELECTION_OPTIONS_INIT;
    zkl_multilock_options multilock = ZKL_MULTILOCK_OPTIONS_INIT;
    const char *paths[OBJECT_PATHS] = {o->paths[0], o->paths[1]};
    parse(o, word);
    o->of = kinds[o->kind].of;
    o->takes = 1;
    lock.state_payload = rwlock.state_payload = semaphore.state_payload = election.state_payload =
        multilock.state_payload = o;
    lock.on_expiry = rwlock.on_expiry = semaphore.on_expiry = election.on_expiry = multilock.on_expiry =
        options->on_expiry;
    lock.max_hold_ms = rwlock.max_hold_ms = options->max_hold_ms;
    switch (o->kind) {
    case OBJECT_LOCK:
        lock.state_fn = on_lock;
        lock.recover = o->recovers;
        lock.revoke_fn = o->recovers ? on_request : NULL;
        lock.revoke_payload = o;
        return zkl_lock_new(&o->as.lock, session, o->paths[0], &lock, err);
    case OBJECT_RWLOCK:
        rwlock.state_fn = on_rwlock;
        return zkl_rwlock_new(&o->as.rwlock, session, o->paths[0], &rwlock, err);
    case OBJECT_SEMAPHORE:
        semaphore.state_fn = on_semaphore;
        return zkl_semaphore_new(&o->as.semaphore, session, o->paths[0], o->of, &semaphore, err);
    case OBJECT_ELECTION:
        election.state_fn = on_election;
        return zkl_election_new(&o->as.election, session, o->paths[0], &election, err);
    case OBJECT_MULTILOCK:
        multilock.state_fn = on_multilock;
        return zkl_multilock_new(&o->as.multilock, session, paths, (size_t)o->path_count, &multilock, err);
    }
    return ZKL_EINVAL;
}

void object_free(struct object *o)
{
    switch (o->kind) {
    case OBJECT_LOCK:
        zkl_lock_free(o->as.lock);
        break;
    case OBJECT_RWLOCK:
        zkl_rwlock_free(o->as.rwlock);
        break;
    case OBJECT_SEMAPHORE:
        zkl_semaphore_free(o->as.semaphore);
        break;
    case OBJECT_ELECTION:
        zkl_election_free(o->as.election);
        break;
    case OBJECT_MULTILOCK:
        zkl_multilock_free(o->as.multilock);
        break;
    }
}

void object_roll(struct object *o, uint64_t *dice)
{
    bool whole = o->kind == OBJECT_RWLOCK && dice_once_in(dice, 3);
    o->takes = whole ? o->of : o->kind == OBJECT_RWLOCK ? 1 : (int)dice_between(dice, 1, o->of);
}

/* --- use ------------------------------------------------------------------------------------------------------------- */

static zkl_rwmode mode_of(const struct object *o)
{
    return o->takes == o->of ? ZKL_RW_WRITE : ZKL_RW_READ;
}

int object_acquire(struct object *o, int64_t timeout_ms, zkl_grant *grant, zkl_error *err)
{
    switch (o->kind) {
    case OBJECT_LOCK:
        return zkl_lock_acquire(o->as.lock, timeout_ms, grant, err);
    case OBJECT_RWLOCK:
        return zkl_rwlock_acquire(o->as.rwlock, mode_of(o), timeout_ms, grant, err);
    case OBJECT_SEMAPHORE:
        return zkl_semaphore_acquire(o->as.semaphore, o->takes, timeout_ms, grant, err);
    case OBJECT_ELECTION:
        return zkl_election_campaign(o->as.election, timeout_ms, grant, err);
    case OBJECT_MULTILOCK:
        return zkl_multilock_acquire(o->as.multilock, timeout_ms, grant, err);
    }
    return ZKL_EINVAL;
}

int object_acquire_async(struct object *o, zkl_error *err)
{
    switch (o->kind) {
    case OBJECT_LOCK:
        return zkl_lock_acquire_async(o->as.lock, ZKL_WAIT_FOREVER, lock_done, o, err);
    case OBJECT_RWLOCK:
        return zkl_rwlock_acquire_async(o->as.rwlock, mode_of(o), ZKL_WAIT_FOREVER, rwlock_done, o, err);
    case OBJECT_SEMAPHORE:
        return zkl_semaphore_acquire_async(o->as.semaphore, o->takes, ZKL_WAIT_FOREVER, semaphore_done, o, err);
    case OBJECT_ELECTION:
        return zkl_election_campaign_async(o->as.election, ZKL_WAIT_FOREVER, election_done, o, err);
    case OBJECT_MULTILOCK:
        return zkl_multilock_acquire_async(o->as.multilock, ZKL_WAIT_FOREVER, multilock_done, o, err);
    }
    return ZKL_EINVAL;
}

int object_cancel(struct object *o)
{
    switch (o->kind) {
    case OBJECT_LOCK:
        return zkl_lock_cancel(o->as.lock);
    case OBJECT_RWLOCK:
        return zkl_rwlock_cancel(o->as.rwlock);
    case OBJECT_SEMAPHORE:
        return zkl_semaphore_cancel(o->as.semaphore);
    case OBJECT_ELECTION:
        return zkl_election_cancel(o->as.election);
    case OBJECT_MULTILOCK:
        return zkl_multilock_cancel(o->as.multilock);
    }
    return ZKL_EINVAL;
}

int object_release(struct object *o)
{
    switch (o->kind) {
    case OBJECT_LOCK:
        return zkl_lock_release(o->as.lock, NULL);
    case OBJECT_RWLOCK:
        return zkl_rwlock_release(o->as.rwlock, NULL);
    case OBJECT_SEMAPHORE:
        return zkl_semaphore_release(o->as.semaphore, 0, NULL);
    case OBJECT_ELECTION:
        return zkl_election_resign(o->as.election, NULL);
    case OBJECT_MULTILOCK:
        return zkl_multilock_release(o->as.multilock, NULL);
    }
    return ZKL_EINVAL;
}

bool object_is_held(const struct object *o)
{
    switch (o->kind) {
    case OBJECT_LOCK:
        return zkl_lock_is_held(o->as.lock);
    case OBJECT_RWLOCK:
        return zkl_rwlock_is_held(o->as.rwlock);
    case OBJECT_SEMAPHORE:
        return zkl_semaphore_is_held(o->as.semaphore);
    case OBJECT_ELECTION:
        return zkl_election_is_leader(o->as.election);
    case OBJECT_MULTILOCK:
        return zkl_multilock_is_held(o->as.multilock);
    }
    return false;
}

int64_t object_remaining_ms(const struct object *o)
{
    switch (o->kind) {
    case OBJECT_LOCK:
        return zkl_lock_remaining_ms(o->as.lock);
    case OBJECT_RWLOCK:
        return zkl_rwlock_remaining_ms(o->as.rwlock);
    case OBJECT_SEMAPHORE:
        return zkl_semaphore_remaining_ms(o->as.semaphore);
    case OBJECT_ELECTION:
        return zkl_election_remaining_ms(o->as.election);
    case OBJECT_MULTILOCK:
        return zkl_multilock_remaining_ms(o->as.multilock);
    }
    return 0;
}
