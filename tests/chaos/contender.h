/* contender.h - the threads of one contender, and what they share: who it is, its session, where it writes what it does, and what it contends
 * for. */
#ifndef ZKL_CHAOS_CONTENDER_H
#define ZKL_CHAOS_CONTENDER_H

#include <pthread.h>

#include "history.h"
#include "wait.h"

#include <zklock/zklock.h>

/* --- what a word of the command line names: a lock of some recipe, of which a contender takes a part --------------------- */

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
    const char *client;             /* who contends for it, in the history, */
    const atomic_llong *session_id; /* and in which session; NULL: in the process's */
    void *owner;
};

/* word: "PATH" is a lock; "rw:PATH", "sem:PATH", "elect:PATH", "multi:PATH,PATH" are the others, and "recover:PATH" a lock with that option
 * and the options' revoke_fn. The callbacks' payload is o, whose client, session_id and owner are the caller's to set. Results: as
 * zkl_lock_new. */
int object_new(struct object *o, zkl_session *session, const char *word, const zkl_lock_options *options,
               zkl_error *err);
void object_free(struct object *o);
/* Some part of it for the next acquire. */
void object_roll(struct object *o, uint64_t *dice);
/* As zkl_lock_acquire and, without a deadline, zkl_lock_acquire_async, for that part. */
int object_acquire(struct object *o, int64_t timeout_ms, zkl_grant *grant, zkl_error *err);
int object_acquire_async(struct object *o, zkl_acquired_fn done, zkl_error *err);

struct history_line object_line(const struct object *o, enum history_op op);
/* One line for each path of the object: a multi-lock is judged as that many locks, of clients of their own. line->path is ignored. */
void object_write_line(const struct object *o, const struct history_line *line);
void object_note(const struct object *o, enum history_op op, const char *result, int64_t token, int64_t lease);
/* Releases the grant of that token. */
void object_release(const struct object *o, int64_t token);
/* What it takes, "1/3", as the result. */
void object_note_part(const struct object *o, enum history_op op, int64_t deadline);
/* A grant or another end of an acquire. The lease is asked for after the time was read: it runs at least so long from then. What a server
 * refused for good (ZKL_EUNSUPPORTED) goes to stderr with its reason. */
void object_note_done(const struct object *o, int code, const zkl_grant *grant, const zkl_error *why);
/* Until when it is held, if it is. */
bool object_note_held(const struct object *o);
/* The thread of that delay (run_delay_open) was kept from a processor since it was `before`. */
void object_note_starved(const struct object *o, int delay, int64_t before);
/* A write to the resource. One of several that hold at once cannot be told from them by its token: it says that it is there, and nothing is
 * fenced. */
void object_write(const struct object *o, int64_t token, bool stays);

/* --- the process -------------------------------------------------------------------------------------------------------- */

#define LATE INT64_C(5000000) /* ns: what is worth a line */

struct process {
    const char *name;
    int number; /* of its place among the contenders */
    const char *servers;
    int64_t tick_ms, timeout_ms;
    const char *root; /* all paths are below it */
    int word_count;
    char **words; /* object_new */
    int record, resource;
    struct page *page;
    zkl_session *session;
    atomic_bool enough;
};
extern struct process process;

/* What cannot be had ends the process with a core. */
void process_give_up(const char *what, const zkl_error *err);
/* Servers may be down just now: tries until there is one. state_fn may be NULL. NULL: enough of it. */
zkl_session *process_open_session(int64_t connect_timeout_ms, zkl_session_state_fn state_fn, void *payload);

/* --- the threads --------------------------------------------------------------------------------------------------------- */

#define CLIENT_OBJECTS 8

/* One that contends: for one thing after the other, and holds it for a while. */
struct client {
    char name[HISTORY_WORD];
    uint64_t dice;
    struct object objects[CLIENT_OBJECTS][2]; /* of each word of the process, without and with max_hold_ms */
    atomic_bool completed;                    /* the acquire that is pending, with: */
    int code;
    int64_t token;
    atomic_int told;
    atomic_bool asked; /* to give way */
    int delay;         /* run_delay_open of the thread */
    atomic_llong
        cancelled_delay; /* run_delay_ns of the callbacks' thread when the pending acquire was cancelled; -1: it was not */
};

void client_init(struct client *c, int number, uint64_t seed);
/* Until the process has enough. */
void *client_run(void *client);
void client_deinit(struct client *c);

/* The others, until the process has enough. seed: a uint64_t. */

/* With sessions of its own, one after the other: each asks for a few things, and is closed in the middle of it. */
void *guest_run(void *seed);
/* Is a member of a group, now and then not, and sees who else is. */
void *member_run(void *seed);
/* Takes part in a partition, now and then not, and says which pieces it owns. */
void *pieces_run(void *seed);

#endif
