/* wish.h - what can be contended for: a lock, several of them, a reader's share of one, a slot of a
 * semaphore, leadership; asked the same questions. */
#ifndef CLI_WISH_H
#define CLI_WISH_H

#include <zklock/zklock.h>

/* The one completion of a wish_acquire; as zkl_acquired_fn. */
typedef void (*wish_decided_fn)(int code, const zkl_grant *grant, const zkl_error *error, void *payload);

struct wish_kind;
extern const struct wish_kind wish_lock, wish_several, wish_read, wish_slot, wish_leader;

struct wish {
    const struct wish_kind *kind;
    int limit;                               /* of wish_slot: how many slots there are */
    const char *more[ZKL_MULTILOCK_MAX - 1]; /* of wish_several: the paths besides the first; the caller's */
    size_t more_count;
    void *object; /* a zkl_lock, zkl_multilock, zkl_rwlock, zkl_semaphore or zkl_election; NULL: not made */
    wish_decided_fn decided;
    zkl_lock_revoke_fn revoke_fn; /* of wish_lock: a request to give way; NULL: it does not listen */
    void *payload;
};

/* The library's functions, by kind: see zklock/lock.h. */
int wish_make(struct wish *wish, zkl_session *session, const char *path, const char *metadata, zkl_error *error);
int wish_acquire(struct wish *wish, int64_t timeout_ms, zkl_error *error);
int wish_cancel(struct wish *wish);
int wish_release(struct wish *wish, zkl_error *error);
zkl_state wish_state(const struct wish *wish);
int64_t wish_remaining_ms(const struct wish *wish);
void wish_free(struct wish *wish);

/* Path of our znode, once granted; of a slot only as far as a list of them can be had. */
void wish_node(const struct wish *wish, zkl_session *session, char *path, size_t size);
/* A path that is there twice, path included; NULL: none is. */
const char *wish_twice(const struct wish *wish, const char *path);
/* Where its queue stands: path, or below it. */
const char *wish_queue(const struct wish *wish, const char *path, char *room, size_t size);

#endif
