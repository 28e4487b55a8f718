/* zklock/types.h - the plain structs that several headers share.
 *
 * Options. A struct of options starts from its _INIT, which sets its size and the defaults; NULL
 * means all defaults. It is copied by whatever takes it. A program may run with a later library
 * than it was built with: what its struct lacks is at its default. It may also run with an earlier
 * one, as long as it leaves alone what that one does not have: an option that the library does not
 * know, or a size that cannot be right, is refused with ZKL_EINVAL; where the call takes a
 * zkl_error, its text names the struct and both sizes. */
#ifndef ZKLOCK_TYPES_H
#define ZKLOCK_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zklock/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZKL_WAIT_FOREVER ((int64_t)-1) /* as a timeout_ms: no deadline */
#define ZKL_PATH_MAX 1024              /* bytes of a znode path, chroot included, without the NUL */
#define ZKL_DATA_MAX 4096              /* bytes of metadata on a contender's znode */

typedef struct zkl_session zkl_session;
typedef struct zkl_lock zkl_lock;

/* Checks whether path can be the path of a lock, or of another recipe. ZKL_OK; or ZKL_EINVAL, and
 * err says what is wrong with it: not absolute; a component that is empty, "." or "..", or looks
 * like a contender (ten digits behind '-', or behind a tag such as "__READ__"); not UTF-8;
 * characters that the servers refuse; more than ZKL_PATH_MAX bytes; "/" itself; below /zookeeper.
 * Every function that takes a path checks it like this; call this one to know before there is a
 * session. A recipe with znodes below its path (a semaphore's "/leases") needs room for them. Any
 * thread. */
ZKL_API int zkl_path_check(const char *path, zkl_error *err);

/* The one completion of a call whose name ends in _async. Such a call takes the arguments of the
 * blocking one, then done and payload, and returns without waiting for a server. If it returns
 * ZKL_OK, done is called exactly once, as callbacks run (zklock/session.h); else never. code: as
 * the blocking call returns; err: its text, until done returns. What the call writes for its caller
 * (results, lists, grants) is the caller's memory until done is called, and is written by then. The
 * other arguments are copied. Such calls of one session are sent, and after a lost connection sent
 * again, in the order in which they were made. Most take several requests, and one may overtake
 * another: where that matters, make the second in the done of the first. The call ends early with
 * ZKL_ECANCELED by zkl_lock_cancel, by the free of its object or by a stop token (zklock/stop.h),
 * and with ZKL_ECLOSED by zkl_session_close. Errors of the call itself, for which done is never
 * called: ZKL_EINVAL, ZKL_ECANCELED (a stop token is raised), ZKL_ELIMIT (no thread for callbacks),
 * ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM. */
typedef void (*zkl_done_fn)(int code, const zkl_error *err, void *payload);

/* Permissions of an ACL entry, ZooKeeper's own bits. */
enum {
    ZKL_PERM_READ = 1,
    ZKL_PERM_WRITE = 2,
    ZKL_PERM_CREATE = 4,
    ZKL_PERM_DELETE = 8,
    ZKL_PERM_ADMIN = 16,
    ZKL_PERM_ALL = 31
};

typedef struct zkl_acl_entry {
    int perms;          /* ZKL_PERM_... */
    const char *scheme; /* "world", "auth", "digest", "ip", "sasl", "x509" */
    const char *id;     /* "anyone", "", "user:base64(sha1)", ... */
} zkl_acl_entry;

/* An access list. Copied by whatever takes it. */
typedef struct zkl_acl {
    size_t count;
    const zkl_acl_entry *entries;
} zkl_acl;

/* The allocator a session and everything made from it uses. All three or none. They are called with
 * locks held and from several threads: they must not call back into the library. */
typedef struct zkl_heap {
    void *(*alloc)(void *payload, size_t size);             /* like malloc */
    void *(*resize)(void *payload, void *ptr, size_t size); /* like realloc */
    void (*release)(void *payload, void *ptr);              /* like free; ptr may be NULL */
    void *payload;
} zkl_heap;

/* Where an acquire, and later its grant, stands. */
typedef enum zkl_state {
    ZKL_STATE_IDLE,     /* not acquired yet, or released */
    ZKL_STATE_WAITING,  /* in the queue, or on the way there */
    ZKL_STATE_HELD,     /* granted, the lease runs and is renewed */
    ZKL_STATE_JEOPARDY, /* granted, the lease runs, but the connection is lost or less than a
                         * quarter of the least lease is left: finish or stop. May become HELD again
                         */
    ZKL_STATE_LOST /* was granted; protection has ended. Final for this grant: release it to go on
                    */
} zkl_state;

/* "idle", "waiting", "held", "jeopardy", "lost". Static. */
ZKL_API const char *zkl_state_name(zkl_state state);

/* What becomes of a waiter whose session ended. */
typedef enum zkl_on_expiry {
    ZKL_ON_EXPIRY_REQUEUE, /* it queues again, at the tail, within its deadline */
    ZKL_ON_EXPIRY_FAIL     /* its acquire ends with ZKL_ELOST */
} zkl_on_expiry;

/* What a grant brings. Written only on success. */
typedef struct zkl_grant {
    /* Fencing token: the czxid of our znode. Each exclusive grant has a higher token than the one
     * before it. With linger_ms, a session that is granted its own lingering znode again gets the
     * same token (see serial). Readers, and semaphores with a limit above 1, are not ordered by it
     */
    int64_t token;
    int64_t queued_ms; /* from the call to the grant */
    bool unclean;      /* nothing shows that the last holder released (only with the options recover
                        * and delay_after_crash_ms: zklock/lock.h) */
    /* Which grant under this token it is, from 1: higher only with the option linger_ms, by which
     * the same znode is granted again, with the same token. Storage refuses lower tokens, not equal
     * ones; grants inside one session are kept apart by the session, not by the fence. A storage
     * that compares (token, serial) distinguishes them, too */
    int64_t serial;
    int64_t reserved[3]; /* zero */
} zkl_grant;

#ifdef __cplusplus
}
#endif
#endif
