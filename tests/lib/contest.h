/* contest.h - sessions, locks, threads that wait for them and an eye on the queue: for tests of the public API on real servers. */
#ifndef ZKL_TESTS_CONTEST_H
#define ZKL_TESTS_CONTEST_H

#include <pthread.h>
#include <stdatomic.h>

#include <zklock/zklock.h>

#include "recorder.h"
#include "wait.h"

/* --- sessions and locks: what cannot be had ends the program --------------------------------------------------------- */

/* On servers whose tickTime is tick_ms. */
zkl_session_options contest_options(int64_t timeout_ms, int64_t tick_ms);
zkl_session *contest_session(const char *servers, int64_t timeout_ms, int64_t tick_ms);
zkl_lock *contest_lock(zkl_session *session, const char *path, const zkl_lock_options *options);
/* A lock, held. */
zkl_lock *contest_holder(zkl_session *session, const char *path);
/* Held, and released. */
void contest_once(zkl_session *session, const char *path);

/* --- a thread that waits --------------------------------------------------------------------------------------------- */

struct waiter {
    zkl_lock *lock;
    int64_t timeout_ms;
    pthread_t thread;
    atomic_bool done;
    int code; /* what acquire returned, with: */
    zkl_grant grant;
    zkl_error err;
    int64_t began_ns, ended_ns; /* CLOCK_BOOTTIME, around the call */
};

void waiter_start(struct waiter *waiter, zkl_lock *lock, int64_t timeout_ms);
/* Starts, and waits until it has a znode. */
void waiter_queue(struct waiter *waiter, zkl_lock *lock, int64_t timeout_ms);
/* Waits until the acquire has returned; its code. A wait without end ends the program. */
int waiter_end(struct waiter *waiter);

/* --- what the state callback of a queue's first lock was told ---------------------------------------------------------- */

/* When each state was told first, CLOCK_BOOTTIME; 0: never. */
struct heard {
    atomic_llong first_ns[ZKL_STATE_LOST + 1];
};

/* When it was told first; 0: not within timeout_ms. */
int64_t heard_when(struct heard *heard, zkl_state state, int64_t timeout_ms);

/* --- the queue as a session of nobody's sees it -------------------------------------------------------------------------- */

/* A session that outlives what the tests do to servers. */
struct recorder *queue_eye(const char *servers);
/* The list of path, behind a sync; a path that does not exist has none. Lives as long as the eye. */
const struct zkl__reply *queue_look(struct recorder *eye, const char *path);
size_t queue_length(struct recorder *eye, const char *path);
/* Whether it has that many within SOON. */
bool queue_becomes(struct recorder *eye, const char *path, size_t length);

/* --- contenders in a known order, each in a session of its own ----------------------------------------------------------- */

/* Where they come from: session i is connected to servers[i % count]. */
struct field {
    const char *servers[4];
    int count;
    int64_t timeout_ms, tick_ms;
    int64_t wait_ms; /* of those behind the first; 0: without an end */
};

#define QUEUE_MAX 21

struct queue_of {
    struct field field;
    const char *path;
    int count;
    zkl_session *sessions[QUEUE_MAX];
    zkl_lock *locks[QUEUE_MAX]; /* the first one is held */
    struct heard heard;         /* by the first one */
    struct waiter waiters[QUEUE_MAX];
};

void queue_up(struct queue_of *queue, const struct field *field, const char *path, int count);
/* Each is granted when it is the first, and none before; frees all. */
void queue_drain(struct queue_of *queue);
void queue_free(struct queue_of *queue);

#endif
