/* object.h - what a word of the command line names: a lock of some recipe, of which a contender takes a part. */
#ifndef ZKL_CHAOS_OBJECT_H
#define ZKL_CHAOS_OBJECT_H

#include <zklock/zklock.h>

#include "history.h"

#define OBJECT_PATHS 2

enum object_kind { OBJECT_LOCK, OBJECT_RWLOCK, OBJECT_SEMAPHORE, OBJECT_ELECTION, OBJECT_MULTILOCK };

struct object {
    enum object_kind kind;
    zkl_lock *lock;   /* for the next acquire, or the grant */
    zkl_lock *writer; /* all there is, but for: */
    zkl_lock *reader; /* of a read/write lock; else NULL */
    char paths[OBJECT_PATHS][HISTORY_WORD];
    int path_count; /* 1, but for a multi-lock */
    bool recovers;  /* a lock that tells of crashes, and hears when it is asked to give way */
    int of;         /* how much there is of it */
    int takes; /* of that, the next acquire, or the grant: 1 .. of; of a read/write lock 1 (reads) or all (writes) */
    void *owner;
};

/* word: "PATH" is a lock; "rw:PATH", "sem:PATH", "elect:PATH", "multi:PATH,PATH" are the others, and "recover:PATH" a lock with that option
 * and the options' revoke_fn. The callbacks' payload is o, whose owner is the caller's to set. Results: as zkl_lock_new. */
int object_new(struct object *o, zkl_session *session, const char *word, const zkl_lock_options *options,
               zkl_error *err);
void object_free(struct object *o);
/* Some part of it for the next acquire. */
void object_roll(struct object *o, uint64_t *dice);
/* As zkl_lock_acquire and, without a deadline, zkl_lock_acquire_async, for that part. */
int object_acquire(struct object *o, int64_t timeout_ms, zkl_grant *grant, zkl_error *err);
int object_acquire_async(struct object *o, zkl_acquired_fn done, zkl_error *err);

#endif
