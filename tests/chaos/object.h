/* object.h - locks, read/write locks, semaphores, elections and multi-locks as one: an object that asks for a part of what a path has, holds it by
 * lease, and gives it back. */
#ifndef ZKL_CHAOS_OBJECT_H
#define ZKL_CHAOS_OBJECT_H

#include <zklock/zklock.h>

#include "history.h"

#define OBJECT_PATHS 2

enum object_kind { OBJECT_LOCK, OBJECT_RWLOCK, OBJECT_SEMAPHORE, OBJECT_ELECTION, OBJECT_MULTILOCK };

struct object {
    enum object_kind kind;
    union {
        zkl_lock *lock;
        zkl_rwlock *rwlock;
        zkl_semaphore *semaphore;
        zkl_election *election;
        zkl_multilock *multilock;
    } as;
    char paths[OBJECT_PATHS][HISTORY_WORD];
    int path_count; /* 1, but for a multi-lock */
    bool recovers;  /* a lock that tells of crashes, and hears when it is asked to give way */
    int of;         /* how much there is of it */
    int takes; /* of that, the next acquire, or the grant: 1 .. of; of a read/write lock 1 (reads) or all (writes) */
    /* On the thread of callbacks. */
    void (*asked)(struct object *o); /* to give way */
    void (*lost)(struct object *o);
    void (*done)(struct object *o, int code, const zkl_grant *grant); /* of object_acquire_async */
    void *payload;
};

struct object_options {
    int64_t max_hold_ms; /* of locks and read/write locks */
    zkl_on_expiry on_expiry;
};

/* word: "PATH" is a lock; "rw:PATH", "sem:PATH", "elect:PATH", "multi:PATH,PATH" are the others, and "recover:PATH" a lock with that option
 * and a revoke_fn. asked, lost, done and payload are the caller's to set. Results: as zkl_lock_new. */
int object_new(struct object *o, zkl_session *session, const char *word, const struct object_options *options,
               zkl_error *err);
void object_free(struct object *o);
/* Some part of it for the next acquire. */
void object_roll(struct object *o, uint64_t *dice);

/* As of a lock. */
int object_acquire(struct object *o, int64_t timeout_ms, zkl_grant *grant, zkl_error *err);
int object_acquire_async(struct object *o, zkl_error *err); /* without a deadline */
int object_cancel(struct object *o);
int object_release(struct object *o);
bool object_is_held(const struct object *o);
int64_t object_remaining_ms(const struct object *o);

#endif
