/* shell.h - the shell around the core, as the public functions and the recipes see it: mutex,
 * threads, waiting, the clock. Nothing is decided here.
 *
 * The simulator runs this object code and the recipes' on one thread in virtual time: it has
 * an implementation of its own of thread.h. So a recipe calls nothing of pthread or time
 * by itself. */
#ifndef ZKL_SESSION_SHELL_H
#define ZKL_SESSION_SHELL_H

#include "thread.h"
#include "options.h"
#include "core.h"
#include "watcher.h"

#include <stdatomic.h>
#include <sys/types.h>

/* === stop tokens ============================================================================== */

/* Stop tokens, as what waits sees them.
 *
 * A token is raised where no lock may be taken. So it only sets its flag and writes to a descriptor
 * of each session that waits under it; the alarms' thread of the session reads that, takes the
 * mutex, and ends the waits. Session mutex held in these functions. */

/* One wait under one token. */
struct zkl__stop_wait {
    zkl_stop *stop; /* NULL: it does not wait under any */
    int slot;       /* of the session in the token */
    void (*raised)(void *owner);
    void *owner;
    struct zkl__link link;
    struct zkl__list *in; /* of the session: waits, or those that are to be called now */
};

/* A wait under the session's token and one of its object's. Zeroed: it has not begun. */
struct zkl__stops {
    struct zkl__stop_wait waits[2];
};

/* Begins the wait. When a token is raised before its end, `raised` is called once or twice, after a
 * step and with the session mutex held. own: the object's token; NULL: it has none. Errors:
 * ZKL_ECANCELED (a token is raised already), ZKL_ELIMIT; then the wait has not begun. */
int zkl__stops_begin(zkl_session *session, struct zkl__stops *stops, zkl_stop *own,
                     void (*raised)(void *owner), void *owner, zkl_error *err);
/* From then on its tokens are not looked at. Not begun, or ended already: nothing. */
void zkl__stops_end(struct zkl__stops *stops);
/* All waits of the session. */
void zkl__stops_end_all(zkl_session *session);

/* === the shell ================================================================================ */

/* --- life: close.c --------------------------------------------------------------------------- */

/* Session mutex not held, and not from a callback. Ends the alarms, the store, the callbacks, and
 * this reference to the memory. ZKL_OK: nothing of ours is left on a server. */
int zkl__session_stop(zkl_session *session, int64_t deadline);

/* How a session stands; its mutex guards it. */
struct zkl__status {
    zkl_connection_state state; /* closed: for good */
    int why;                    /* code of the last change of state */
    zkl_error open_error;       /* of the last try to open a store; code ZKL_OK: it was begun */
    bool without;               /* no descriptor was left at the last look: logged */
    bool reports_changes;       /* to the user's state_fn */
    bool stopping;              /* zkl_session_close waits for tasks: no acquire begins any more */
    bool closing;               /* set by zkl_session_close: no call begins any more */
    bool closed;                /* nothing will happen any more */
    struct zkl__signal
        changed; /* raised with every change of state, and while closing with every step */
};

/* --- the session mutex ----------------------------------------------------------------------- */

/* Takes the session mutex, and keeps its memory until leave; the thread is not cancelled meanwhile.
 * On any result but ZKL_OK it is not taken: ZKL_EFORKED, ZKL_ECLOSED, with the text in err. */
int zkl__session_enter(zkl_session *session, zkl_error *err);
/* The same for what sends no request (free, callbacks, facts): the session may be closed.
 * ZKL_EFORKED. */
int zkl__session_enter_even_closed(zkl_session *session, zkl_error *err);
/* The same without words: false in a child of fork, and it is not taken. */
bool zkl__session_enter_if_ours(zkl_session *session);
/* Sets the alarm for what the steps want next, and drops the mutex. In a child of fork: nothing. */
void zkl__session_leave(zkl_session *session);
/* In a child of fork, where nothing may be touched? */
bool zkl__session_forked(const zkl_session *session);

/* CLOCK_BOOTTIME, ns: now and timeout_ms. ZKL_WAIT_FOREVER and more than a century give INT64_MAX,
 * so that any other deadline may be moved without an overflow. */
int64_t zkl__session_deadline(int64_t timeout_ms);
/* ns until then, at least 0. */
int64_t zkl__session_left(int64_t until);
/* A step with the time filled in. Session mutex held. */
void zkl__session_event(zkl_session *session, struct zkl__event event);
/* Sets the alarm for what the steps want next, after a step that no leave follows: one in the ring
 * of an alarm. */
void zkl__session_arm(zkl_session *session);
/* Into the user's log: what happened to an object, by its noun and path. path NULL: to the session,
 * or what else source says. contender: its number; 0: the object itself. */
void zkl__session_log(const zkl_session *session, zkl_log_level level, const char *source,
                      const char *path, unsigned contender, const char *what);
/* Before the session calls the user: it needs a thread for that. ZKL_ELIMIT. Session mutex held. */
int zkl__session_want_callbacks(zkl_session *session, const char *path, zkl_error *err);
/* The client library does not say that it got no socket: whether this process gets a descriptor,
 * and what to say when it gets none. */
#define ZKL__NO_DESCRIPTOR \
    "no file descriptor is left for a connection: raise the limit (ulimit -n), or close some"
bool zkl__out_of_descriptors(void);

/* References of the objects of a session to its memory. Session mutex held. */
void zkl__session_retain(zkl_session *session);
void zkl__session_drop(zkl_session *session);

/* --- waiting, being called at a time, calling the user --------------------------------------- */

/* Session mutex held. Sleeps until raised or the deadline (CLOCK_BOOTTIME ns; waited for on
 * CLOCK_MONOTONIC). False at the deadline, and immediately when the session is closed, because
 * nothing will happen any more. It may return without a cause, for instance at a change of the
 * session's state. */
bool zkl__session_wait(zkl_session *session, struct zkl__signal *signal, int64_t deadline);

/* Retries what failed: calls the owner's `ring` after a pause of 100 ms to 5 s, which is longer
 * each time. */
struct zkl__retry {
    struct zkl__alarm alarm;
    int64_t pause; /* ns: the last one; 0: nothing has failed since */
};
void zkl__retry_later(zkl_session *session, struct zkl__retry *retry);

/* Calls `reached` when no more than so much is left of a lease, which most often grows meanwhile.
 */
struct zkl__margin {
    struct zkl__alarm alarm;
    zkl_session *session;
    int64_t ns;
    int64_t (*until)(const void *owner); /* the end of the lease; INT64_MAX: no matter when */
    void (*reached)(void *owner);
    void *owner;
};
void zkl__margin_watch(struct zkl__margin *margin);

/* --- functions of the user's that run, or wait to run, under a grant ------------------------- */

/* Close requests that they end, and waits until they have. Session mutex held. */
struct zkl__task {
    void (*stop)(void *owner); /* requests that it end */
    void *owner;
    pthread_t thread;
    struct zkl__link link;
};
void zkl__session_task_begin(zkl_session *session, struct zkl__task *task);
void zkl__session_task_end(zkl_session *session, struct zkl__task *task);

/* --- objects of a session: they end when it closes ------------------------------------------- */

/* What its user constructs, has a handle of, and frees: its struct begins with this. Session mutex
 * held, unless a comment says otherwise. */
struct zkl__object;
struct zkl__object_ops {
    /* Its watcher has ended. When the session closes, before the core is closed: gives up what is
     * pending, which ends with ZKL_ECLOSED, and what is held. At the end of the object, too. Also
     * in a step, and more than once. NULL: there is nothing else. */
    void (*stop)(struct zkl__object *object);
    /* Whether an acquire of it is pending. NULL: it acquires nothing. */
    bool (*is_waiting)(const struct zkl__object *object);
    /* Session mutex not held: calls the user, if there is something to report. */
    void (*report)(struct zkl__object *object);
    /* After stop: frees what the recipe allocated, but not the object. NULL: nothing. */
    void (*destroy)(struct zkl__object *object);
};
struct zkl__object {
    const struct zkl__object_ops *ops;
    zkl_session *session;
    const char *path;       /* NULL: the recipe's struct has it */
    zkl_stop *stop;         /* its waits end with it, besides the session's; NULL: none */
    unsigned refs;          /* the user's handle, its calls, a callback that runs, and what the
                               recipe adds */
    bool freed;             /* the user has freed the handle */
    struct zkl__link link;  /* in session->objects */
    struct zkl__list calls; /* calls that end with it */
    struct zkl__callback notice;
    struct zkl__watcher *watcher; /* its machine, which is in its memory; NULL: it has none */
    void *seen, *shown;           /* by its machine; to the user. NULL: nothing yet */
};

/* Session mutex not held. Checks path (ZKL_EINVAL), enters the session, makes memory of size bytes,
 * zeroed, with the object at its beginning. On ZKL_OK the caller holds the session mutex, fills in
 * the rest, and leaves. Errors: as zkl_lock_new. */
int zkl__object_new(struct zkl__object **out, size_t size, const struct zkl__object_ops *ops,
                    zkl_session *session, const char *path, bool has_callback, zkl_error *err);
/* Session mutex not held. The user frees the handle (NULL: nothing): no callback afterwards. Stops
 * its machine, unless goes_on (the recipe then keeps a reference of its own). */
void zkl__object_free(struct zkl__object *object, bool goes_on);
/* Also in a step. */
void zkl__object_unref(struct zkl__object *object);
/* Ends its watcher, and stops. Also in a step. */
void zkl__object_stop(struct zkl__object *object);

/* Not in a step: its watcher acts, if that has not ended. */
void zkl__object_wake(struct zkl__object *object);
/* Posts the callback, which calls `report`. Also in a step. */
void zkl__object_post(struct zkl__object *object);

/* In a step. What its machine sees now, a block of the session's heap, which `report` reports. */
void zkl__object_see(struct zkl__object *object, void *seen);
/* From `report`. What to report now; NULL: nothing, or the same as before. */
const void *zkl__object_news(struct zkl__object *object,
                             bool (*same)(const void *a, const void *b));

/* === the session ============================================================================== */

#define ZKL__NOTICES 16 /* changes of state kept for a state_fn that is slow */

/* A thread in zkl__session_wait. */
struct zkl__sleeper {
    struct zkl__signal *signal;
    struct zkl__link link;
};

/* zkl_session_close, or its asynchronous form. */
struct zkl__closing {
    int line;         /* where it goes on */
    int64_t deadline; /* 0: it has not begun */
    zkl_done_fn done; /* NULL: it blocks. Else: */
    void *payload;
    struct zkl__alarm alarm;
    struct zkl__callback callback; /* the last one of the session */
    bool parting;                  /* store is no more the session's, and being closed: */
    struct zkl__store *store;
    bool nothing_left; /* the servers have ended the last session, and the next one, if it comes to
                          be, has made nothing */
    int code;
};

struct zkl_session {
    /* written at open, then only read */
    zkl_heap heap;
    pid_t pid;
    uint64_t process; /* zkl__process */
    struct zkl__settings settings;
    const struct zkl__store_ops *store_ops;
    char whoami[128]; /* "host:pid" of this process: the default metadata */

    atomic_uint refs;
    pthread_mutex_t mutex; /* guards everything below; taken before any lock of a store's */
    struct zkl__core *core;
    struct zkl__alarms alarms;
    struct zkl__alarm core_alarm; /* the core's next time */
    struct zkl__alarm tick_alarm; /* the store's */
    struct zkl__retry open;       /* a store has to be opened */
    struct zkl__alarm stop_alarm; /* a stop token was raised */
    struct zkl__list stop_waits, stop_raised;
    struct zkl__stops stops; /* the session's own: wakes who sleeps */
    struct zkl__callbacks callbacks;
    struct zkl__list sleepers, objects, tasks; /* the latest first */
    struct zkl__list calls;   /* in their order; asynchronous ones until their done has returned */
    int64_t call_count;       /* that were made */
    struct zkl__timers turns; /* the asynchronous ones to which something happened, by number */
    struct zkl__alarm turns_alarm;
    struct zkl__status status;
    struct zkl__closing closing;

    struct zkl__store *store; /* changed by the alarms' thread alone, while that runs */
    atomic_bool opening;      /* events of a new store wait until it is in its place */

    struct zkl__callback notice;
    zkl_connection_state notices[ZKL__NOTICES];
    unsigned notice_count;
};

/* call.c; session mutex held: every sleeper and every call looks again. Also in a step. */
void zkl__session_wake(zkl_session *session);
/* call.c; session mutex held: the calls that have a turn go on, in the order in which they were
 * made. owner: the session. */
void zkl__calls_go_on(void *owner);

/* shell.c; session mutex held */
int zkl__stop_watch(zkl_session *session, zkl_error *err);

/* close.c; session mutex held: what close waits for may have happened. */
void zkl__session_poke_close(zkl_session *session);

/* session.c; session mutex held */
void zkl__session_set_state(zkl_session *session, zkl_connection_state state, int why);
/* Nobody has the session any more. */
void zkl__session_free(zkl_session *session);

#endif
