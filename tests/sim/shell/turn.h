/* turn.h - one use of one recipe, by one thread of a simulated process: what a line `acquire` of the plan becomes. */
#ifndef SIM_SHELL_TURN_H
#define SIM_SHELL_TURN_H

#include <zklock/zklock.h>
#include <zklock/zookeeper.h>

#include "world.h"

struct turn {
    struct sim *s;
    int client, thread;
    const struct sim_acquire *plan;
    const char *path;
    zkl_session *session;
    int claims[PIECES];
    const void *object;       /* for callbacks */
    int64_t serial;           /* of the last grant; 0: the recipe has none */
    int64_t due;              /* true time: by when the call is to be back */
    unsigned asyncs;          /* calls that were either blocking or not, so far */
    struct async_call *async; /* of EITHER */
};

/* The recipes: whole turns. */
void use_lock(struct turn *turn);
void use_rwlock(struct turn *turn);
void use_semaphore(struct turn *turn);
void use_multilock(struct turn *turn);
void use_election(struct turn *turn);
void use_partition(struct turn *turn);
void use_group(struct turn *turn);
void use_barrier(struct turn *turn);
void use_double_barrier(struct turn *turn);
void use_once(struct turn *turn);
void partitions_begin(void);
void partitions_forget(int client);
void onces_begin(void);
void entries_begin(void);
void entries_forget(int client);
/* Whoever waits to enter a double barrier, and must be let in, is let in. */
void entries_check(struct sim *s);
void semaphores_forget(int client);

/* A call that may wait for so many ms, and what it came to: it is back by then, but for what its process stood still. */
int64_t turn_within(struct turn *turn, int64_t timeout_ms);
int turn_back(struct turn *turn, int code);
/* async.c: a call that does not block, by the dice; NULL: make the blocking one. async_done, or async_acquired, and what is returned
 * are the done and the payload of the call of C. */
struct async_call;
struct async_call *turn_async(struct turn *turn, const char *what);
void async_done(int code, const zkl_error *err, void *call);
void async_acquired(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *call);
/* rc: what the call of C returned. Waits until it was called back; its code. Not in a callback. */
int async_wait(struct turn *turn, struct async_call *call, int rc);
/* The code of a call of C with these arguments and an err, in either form. */
#define EITHER(turn, what, function, ...)                                                                  \
    (((turn)->async = turn_async(turn, what))                                                              \
         ? async_wait(turn, (turn)->async, function##_async(__VA_ARGS__, async_done, (turn)->async, NULL)) \
         : function(__VA_ARGS__, NULL))
/* Does not wait: its object's end, or its session's, may come before. */
void async_let_be(struct async_call *call, int rc);
/* What such a call writes for its caller, until it was waited for or the session is closed. */
struct async_written {
    zkl_queue *queue, *above;
    zkl_data *data;
    zkl_grant grant;
    zkl_once_slot slot;
    int64_t last_ms, recorded_ms;
    struct turn *turn; /* of a candidate that stands */
};
struct async_written *async_writes(struct async_call *call);
void asyncs_begin(void);
void asyncs_forget(int client);
/* The close of the session is back, or has been called back: all calls have been before. */
void asyncs_close(struct sim *s, int client);
/* The choice by itself. */
bool turn_is_async(struct turn *turn);

/* Random, and the same in every run. */
int64_t turn_dice(const struct turn *turn, unsigned what, int64_t bound);
void turn_told(const struct turn *turn, const char *what, int code);
/* The result of what may wait: one that nothing explains is a violation. Returns it. */
int turn_got(const struct turn *turn, const char *what, int code);
int64_t turn_timeout(const struct turn *turn);       /* ms; as the plan says: for ever, too */
int64_t turn_short_timeout(const struct turn *turn); /* the same, but never for ever */
zkl_on_expiry turn_expiry(const struct turn *turn);
int turn_claim(struct turn *turn, int resource, int64_t token, bool (*holds)(const void *), const void *object);
void turn_drop(struct turn *turn);
/* zkl_lock_acquire by the plan's timeout, and zkl_lock_release, in either form. */
int turn_acquire(struct turn *turn, zkl_lock *lock, zkl_grant *grant);
int turn_release(struct turn *turn, zkl_lock *lock);
void turn_hold(struct turn *turn);
/* The object is freed as it is, without a release. */
bool turn_frees(const struct turn *turn);
/* Faults are healed, everybody is connected, and nothing has changed on the servers for so long. */
bool is_quiet(const struct sim *s, int64_t ns);
/* Long enough for whatever follows from the last change. */
int64_t quiet_time(const struct sim *s);
/* Waits until it is so. False: it does not become so. */
bool turn_await_quiet(struct turn *turn);
/* The last zxid that the process has seen: older it sees nothing. */
int64_t turn_seen(const struct turn *turn);
/* By the local clock, of the session that is this one. */
bool lease_lasts(const zkl_session *session, int64_t session_id);

#endif
