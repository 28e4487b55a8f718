/* world.h - what the files of this folder know of each other.
 *
 * Beside those of invariants.h, these must hold for the recipes. They are judged where a user
 * stands, or afterwards from the log of the servers (claims.c):
 *
 *  exclusion   an object whose is_held is true holds alone, with readers only, or within the limit;
 *              a piece of a partition has one owner, from `assigned` to the end of `revoked`, or to
 *              zkl_partition_done
 *  token       rises; the list behind a semaphore's grant shows its lease
 *  guard       no guarded transaction under an older token after one under a newer, even when an
 *              operator takes the lock away
 *  revoked     a holder receives a request to release
 *  observed    an observer is notified of candidates that stood first, with what they published;
 *              only leaders publish
 *  told        the flag of an election's run is up when the lease ends; `revoked` says so when a
 *              piece was lost
 *  cap         a member never works on more pieces than cap
 *  shares      when all is quiet every piece that cap allows is owned, evenly
 *  member      when all is quiet each that joined is a member, and the last report to every watcher
 *              is the present list
 *  barrier     nobody continues while the barrier was there all the time
 *  early       into a double barrier only when all were in together, out only when all had left
 *  enter       once all were in together, or the sign says so, each waiting member is let in within
 *              ten round trips of a calm network
 *  once        one recorded success for each slot; the slot is that of the servers' clock; a slot
 *              behind the recorded one is done
 *  completion  a call without waiting is called back exactly once, before the close is
 *
 * Quiet: faults are healed, everybody is connected, and nothing has changed for two session
 * timeouts and five seconds. */
#ifndef SIM_SHELL_WORLD_H
#define SIM_SHELL_WORLD_H

#include <zklock/zklock.h>
#include <zklock/zookeeper.h>
#include "invariants.h"

/* --- fiber.c: the threads of a simulated process: run one at a time, switched where they wait and, now and then, where they take a
 * mutex. So the library's session room and recipes run here as they are; thread.h is ours. --- */

/* The world that runs, and the process whose code does: -1 in between. */
extern struct sim *world;
int fiber_client(void);
void fiber_begin(struct sim *s);
/* For a look at the library's objects from outside of their process: nobody is switched away meanwhile. -1: that is over. */
void fiber_act_for(int client);

/* Begins at the slot's next due time. Its index. */
int fiber_start(int client, int slot, void *(*run)(void *), void *arg);
/* The slot is due: goes on, if it is not finished. */
void fiber_due(int slot);
/* All of the process's: dropped where they stand. */
void fiber_drop(int client);

/* From inside a fiber. */
void fiber_sleep(int64_t ns);
/* Until somebody wakes it by `what`, or the time (by the process's clock). */
void fiber_wait(const void *what, int64_t deadline);
void fiber_wake(const void *what);

/* store.c */
void store_inbox_due(int client);
void store_event(struct sim *s, int client, const struct zkl__event *event);

/* actors.c */
extern const struct sim_shell actors_shell;

/* claims.c: what was so, by the log. Zxids up to the last one committed. */
/* The most members of the double barrier at dir, at any time since a zxid: every child that lives with a session. */
int past_most_members(const char *dir, int64_t from);
/* How many that were members then are so now. */
int past_staying(const char *dir, int64_t from);
/* Was path there, or missing, at any time since? */
bool past_was(const char *path, bool there, int64_t from);
/* Was the sign of the double barrier at dir put up, or renewed, after this zxid? */
bool past_sign(const char *dir, int64_t after);
/* The node that was made by this transaction, -1: none. */
int past_node_of(int64_t czxid);
/* Of the numbers that were written to path one after the other, one that is lower than that before it (strictly: or the same); -1: none. */
int64_t past_fall(const char *path, int base, bool strictly);

/* claims.c: who says that he holds what. */
enum { PIECES = 3, RESOURCES = 16 };
struct claim {
    int client, thread;
    int resource; /* a path's index, or a piece's (claim_piece) */
    int count;    /* permits; an exclusive claim takes all */
    int limit;    /* of the resource, the highest since the last lease was made; 1 for an exclusive claim */
    bool shared;
    int64_t permits;    /* of a semaphore: the last lease's czxid; 0: it is none */
    const void *object; /* NULL: there is no claim here */
    bool (*holds)(const void *object);
    int64_t token, serial;
    int session; /* filled in: whose node has the token */
};
static inline int claim_piece(int path, int piece)
{
    return 4 + path * PIECES + piece;
}
void claims_begin(void);
/* The grant is checked against earlier ones. Its number. */
int claim_make(struct claim claim);
void claim_drop(int number); /* -1: nothing */
void claims_drop_all(int client);
void claims_check(void);
/* How many of the pieces at this path are held. */
int claims_held(int path);

/* Did this contender ever stand before all others (of_others: of other sessions), at any time until that zxid? */
bool sim_was_first(int node, int64_t to, bool of_others);

/* --- turn.c: one use of one recipe, by one thread of a simulated process: what a line `acquire` of the plan becomes. --- */

struct turn {
    struct sim *s;
    int client, thread;
    const struct sim_acquire *plan;
    const char *path;
    zkl_session *session;
    int claims[PIECES];       /* -1: none */
    void *object;             /* for callbacks */
    bool observes;            /* an election that it stands for */
    char seen[ZKL__NAME_MAX]; /* who leads, as it was told last; "": nobody */
    bool listens, asked;      /* for requests to give way; it was told of one */
    int64_t serial;           /* of the last grant; 0: the recipe has none */
    int64_t due;              /* true time: by when the call is to be back */
    int64_t owed_since;       /* entering: true time; 0: nothing is owed */
    unsigned asyncs;          /* calls that were either blocking or not, so far */
    struct async_call *async; /* of EITHER, and of LET_BE */
};

/* The recipes: whole turns. */
typedef void use_fn(struct turn *turn);
use_fn use_lock, use_rwlock, use_semaphore, use_multilock, use_election, use_partition, use_group, use_barrier,
    use_double_barrier, use_once;
void onces_begin(void);
/* Whoever waits to enter a double barrier, and must be let in, is let in. */
void entries_check(void);

/* A call that may wait for so many ms, and what it came to: it is back by then, but for what its process stood still. */
int64_t turn_within(struct turn *turn, int64_t timeout_ms);
int turn_back(struct turn *turn, int code);
/* A call that does not block, by the dice; NULL: make the blocking one. async_done and what is returned are the done and
 * the payload of the call of C. */
struct async_call {
    struct sim *s;
    int client, thread;
    const char *what;
    bool refused;
    int times; /* it was called back */
    int code;
    /* What it writes for its caller, until the session is closed. */
    zkl_queue *queue;
    zkl_data *data;
    zkl_grant grant;
    int64_t last_ms, recorded_ms;
    struct turn *turn; /* of a candidate that stands */
};
struct async_call *turn_async(struct turn *turn, const char *what);
void async_done(int code, const zkl_error *err, void *call);
/* rc: what the call of C returned. Waits until it was called back; its code. Not in a callback. */
int async_wait(struct turn *turn, struct async_call *call, int rc);
/* The code of a call of C with these arguments and an err, in either form. */
#define EITHER(turn, what, function, ...)                                                                  \
    (((turn)->async = turn_async(turn, what))                                                              \
         ? async_wait(turn, (turn)->async, function##_async(__VA_ARGS__, async_done, (turn)->async, NULL)) \
         : function(__VA_ARGS__, NULL))
/* The same of what may wait for the turn's short timeout, its last argument: it is back by then; and told. */
#define EITHER_IN_TIME(turn, what, function, ...) \
    turn_told(turn, what,                         \
              turn_back(turn, EITHER(turn, what, function, __VA_ARGS__, turn_within(turn, turn_short_timeout(turn)))))
/* Does not wait: its object's end, or its session's, may come before. */
void async_let_be(struct async_call *call, int rc);
/* Such a call of C, by the dice; what it writes is turn->async's. */
#define LET_BE(turn, what, function, ...)                                                                \
    do {                                                                                                 \
        if (((turn)->async = turn_async(turn, what))) {                                                  \
            async_let_be((turn)->async, function##_async(__VA_ARGS__, async_done, (turn)->async, NULL)); \
        }                                                                                                \
    } while (0)
/* The close of the session is back, or has been called back: all calls have been before. */
void asyncs_close(int client);

/* Random, and the same in every run. */
int64_t turn_dice(const struct turn *turn, unsigned what, int64_t bound);
int turn_told(const struct turn *turn, const char *what, int code); /* returns it */
/* The result of what may wait: one that nothing explains is a violation. Returns it. */
int turn_got(const struct turn *turn, const char *what, int code);
int64_t turn_timeout(const struct turn *turn);       /* ms; as the plan says: for ever, too */
int64_t turn_short_timeout(const struct turn *turn); /* the same, but never for ever */
/* Of a lock that is held exclusively; and made, of the turn's own path. */
struct claim turn_claim_of(const struct turn *turn, int resource, int64_t token, const void *lock);
void turn_claim(struct turn *turn, int64_t token, const void *lock);
void turn_drop(struct turn *turn);
/* zkl_lock_acquire by the plan's timeout, and what it came to; and zkl_lock_release; in either form. */
int turn_acquire(struct turn *turn, const char *what, zkl_lock *lock, zkl_grant *grant);
/* Unless it is to be freed as it is. */
void turn_release(struct turn *turn, zkl_lock *lock, const char *what);
zkl_lock_options turn_options(const struct turn *turn);
void turn_hold(struct turn *turn);
/* The object is freed as it is, without a release. */
bool turn_frees(const struct turn *turn);
/* Faults are healed, everybody is connected, and nothing has changed on the servers for so long. */
bool is_quiet_for(int64_t ns);
/* Long enough for whatever follows from the last change; and so long. */
int64_t quiet_time(void);
bool is_quiet(void);
/* Waits until it is so. False: it does not become so. */
bool await_quiet(void);
/* The last zxid that the process has seen: older it sees nothing. */
int64_t turn_seen(const struct turn *turn);

/* --- what the files here keep of a process: forgotten when it is gone ------------------------------------------------ */

/* A piece is used from the beginning of `assigned` to the end of `revoked`, or to its answer, or until the lease ends. */
struct used {
    const struct member *member;
    int64_t session_id;
    int64_t due; /* true time: when it is to be answered; 0: it is not revoked */
};
struct member {
    struct turn *turn; /* NULL: none */
    zkl_partition *partition;
    size_t cap;
    bool later; /* answers later */
    bool leaves;
    int count; /* of those it works on */
    struct used used[PIECES];
};
extern struct process {
    bool threads;                       /* the library has started one */
    bool running, busy;                 /* the store's completion thread */
    int calls;                          /* without waiting, so far */
    bool closed;                        /* none of them may be called back any more */
    int semaphores[4];                  /* threads at it, by path */
    struct turn *entering[SIM_THREADS]; /* a double barrier; NULL: not */
    struct member members[SIM_THREADS];
} processes[SIM_CLIENTS];

#endif
