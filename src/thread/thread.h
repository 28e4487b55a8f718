/* thread.h - which process this is, and stop tokens; threads, the clock, and waiting; alarms;
 * callbacks. Nothing in this folder knows of sessions or locks. */
#ifndef ZKL_THREAD_THREAD_H
#define ZKL_THREAD_THREAD_H

#include "collections.h"

#include <zklock/stop.h>

#include <pthread.h>
#include <time.h>

/* === which process this is ==================================================================== */

/* Which process this is, as cheaply as a load: a call of a lock that lingers takes less
 * time than a system call. */

/* Not 0; another one in every child of fork. For a session that is made. 1: no process before this
 * one has made a session. */
uint64_t zkl__process(void);
/* The same; 0 when this process has made no session. A signal handler may call it. */
uint64_t zkl__process_known(void);

/* === stop tokens ============================================================================== */

/* Whoever waits under a token takes a slot of it. The mutex that guards what waits with the
 * descriptor is held. */

/* Takes the slot of the descriptor, to which a raise writes: one more wait is in it. process: of
 * zkl__process, whose descriptor it is. Returns the slot; -1: all are others'. */
int zkl__stop_take(zkl_stop *stop, uint64_t process, int descriptor);
/* One wait less. Behind the last one, nobody writes to the descriptor by way of this token. */
void zkl__stop_give_back(zkl_stop *stop, int slot);

/* === threads, the clock, waiting ============================================================== */

#define ZKL__MS ((int64_t)1000000) /* in ns */

int64_t zkl__clock_read(clockid_t clock); /* ns */
/* CLOCK_BOOTTIME, ns: goes on while the machine sleeps, as the servers' clocks do. */
int64_t zkl__clock_now(void);

/* Between the two the calling thread takes no signal of the program's, but those of its own faults,
 * and a thread that it starts never does. */
void zkl__signals_hold(void);
void zkl__signals_allow(void);
/* A thread that takes no signal of the program's, but those of its own faults. ZKL_OK, ZKL_ELIMIT.
 */
int zkl__thread_start(pthread_t *thread, void *(*run)(void *), void *arg);
/* The end of a thread of the session: behind the mutex, left (NULL: nobody) may free all of it. */
void zkl__unlock_and_leave(pthread_mutex_t *mutex, void (*left)(void *owner), void *owner);

/* Between the two, which nest, the calling thread is not cancelled (pthread_cancel): so no call
 * that has a mutex, or owes something, ends in the middle. It is by the next cancellation point of
 * its own. */
void zkl__cancel_hold(void);
void zkl__cancel_allow(void);

/* Something that threads wait for. */
struct zkl__signal {
    pthread_cond_t cond;
};
void zkl__signal_init(struct zkl__signal *signal);
void zkl__signal_deinit(struct zkl__signal *signal);
/* With the mutex of those who wait: wakes them all. */
void zkl__signal_raise(struct zkl__signal *signal);
/* Sleeps until raised, the deadline (CLOCK_BOOTTIME ns, INT64_MAX: none), or for no reason. */
void zkl__signal_wait(struct zkl__signal *signal, pthread_mutex_t *mutex, int64_t deadline);

/* === where there is no thread but the caller's (libzklock_st): src/loop ======================= */

/* Nothing here starts a thread then, and who waits for a signal drives a loop until something has
 * happened. In libzklock, false, and the functions do nothing. */
extern const bool zkl__threadless;

/* Goes on with what is due, and waits for nothing. Not with a mutex of the library's held. */
void zkl__loop_go_on(void);

/* A descriptor to poll: it is readable when fd is, or when the loop has something to do. The
 * caller's to close; -1: there is none left. */
int zkl__loop_descriptor(int fd);

/* Something that would have a thread of its own elsewhere. The owner's memory between add and
 * remove. */
struct zkl__source {
    /* Before the loop sleeps: sets what it is to be woken for (zkl__source_watch), and returns when
     * it wants to go on in any case, CLOCK_BOOTTIME ns. */
    int64_t (*prepare)(struct zkl__source *source, int64_t now);
    /* Goes on. events: what its descriptor is ready for (EPOLLIN, ...), 0: the time has come.
     * Neither this nor prepare waits, or adds or removes a source. */
    void (*go_on)(struct zkl__source *source, uint32_t events);
    int fd; /* a copy of the descriptor that it watches; -1: none */
    uint32_t wanted, ready;
    int64_t due;
    struct zkl__link link;
};

/* Somebody who wants to be called in waits, outside every mutex. The owner's memory between invite
 * and dismiss. */
struct zkl__visitor {
    bool (*waiting)(void *owner); /* has something to do now */
    void (*run)(void *owner);     /* does it; may wait, and call anything */
    void *owner;
    uint64_t round;
    struct zkl__link link;
};
void zkl__loop_invite(struct zkl__visitor *visitor);
void zkl__loop_dismiss(struct zkl__visitor *visitor);

/* === alarms =================================================================================== */

/* One thread that does things at their time, on a timer that goes on while the machine
 * sleeps. */

/* Something to do at a time. The owner's memory while it is set. */
struct zkl__alarm {
    struct zkl__timer timer; /* first. CLOCK_BOOTTIME ns */
    /* With the mutex held, on the alarms' thread; may drop the mutex meanwhile. No longer set then,
     * may be set again. */
    void (*ring)(void *owner);
    void *owner;
};

struct zkl__alarms {
    struct zkl__source poke; /* first: where there is no thread, hears of writes to poke_fd */
    pthread_mutex_t *mutex;  /* guards everything here */
    pthread_t thread;
    bool started, stop;
    bool ringing;             /* the mutex may be free meanwhile */
    int fd;                   /* timerfd */
    int64_t armed;            /* when fd fires; INT64_MAX: not before somebody sets an alarm */
    int poke_fd;              /* eventfd; -1: nobody has asked for it */
    struct zkl__alarm *poked; /* rings when somebody has written to it */
    struct zkl__timers timers;
    void (*left)(void *owner); /* see zkl__alarms_retire */
    void *owner;
    struct zkl__link link; /* among those that the loop rings, where there is no thread */
};

/* Takes zeroed memory, but for alarms that are set already. ZKL_OK, ZKL_ELIMIT; stop in either
 * case. */
int zkl__alarms_start(struct zkl__alarms *alarms, pthread_mutex_t *mutex);
/* Without the mutex. Nothing rings afterwards. */
void zkl__alarms_stop(struct zkl__alarms *alarms);
/* Behind stop, without the mutex: the thread, which was told to end then, has ended. */
void zkl__alarms_join(struct zkl__alarms *alarms);
void zkl__alarms_close(struct zkl__alarms *alarms);
/* The same during a ring, with the mutex, and nobody waits: nothing rings any more behind this one.
 * left: called without the mutex when the memory is not looked at any more, by the thread as its
 * last act; where there is none, at once. */
void zkl__alarms_retire(struct zkl__alarms *alarms, void (*left)(void *owner), void *owner);

/* With the mutex. A descriptor (an eventfd that never blocks) for who can take no mutex, as a
 * signal handler: a write to it sets the alarm, which is the same in every call, for now. -1: there
 * is no descriptor. It stays open until zkl__alarms_close, for who still writes to it. */
int zkl__alarms_poke_descriptor(struct zkl__alarms *alarms, struct zkl__alarm *poked);

/* With the mutex. Set already: moves it. INT64_MAX: it is not set any more. */
void zkl__alarms_set(struct zkl__alarms *alarms, struct zkl__alarm *alarm, int64_t at);

/* With the mutex; between the list of alarms and what rings them. Somebody is to call ring at this
 * time, or earlier. INT64_MAX: no matter when. */
void zkl__alarms_arm(struct zkl__alarms *alarms, int64_t at);
void zkl__alarms_ring(struct zkl__alarms *alarms); /* what is due */
/* A timerfd on CLOCK_BOOTTIME fires at this time, unless it fires earlier. *armed: when it does;
 * INT64_MAX: it does not. */
void zkl__timerfd_arm(int fd, int64_t *armed, int64_t at);

/* === callbacks ================================================================================ */

/* A queue of calls to user code: one at a time, with no lock held, on a thread of its
 * own or in dispatch; where there is no thread, in whatever waits, or in dispatch. */

/* Part of the object it belongs to, so that a notice never needs memory. */
struct zkl__callback {
    void (*run)(void *owner); /* without the mutex; may free the callback */
    void *owner;
    struct zkl__link link;
    uint64_t queued; /* the number of the post; 0: it is not queued */
};

struct zkl__callbacks {
    pthread_mutex_t *mutex; /* guards everything here */
    pthread_t thread;
    bool dispatched, started, stop;
    int fd;      /* eventfd when dispatched, else -1; where there is no thread, once it is wanted */
    int poll_fd; /* what the user polls: see zkl__callbacks_fd */
    bool hushed; /* a dispatch with nothing to do emptied fd: it is set again when the callback that
                    runs is done */
    struct zkl__list queue;
    uint64_t posts;
    struct zkl__frame *running; /* the callbacks that run, each inside the next one */
    pthread_t runner;           /* while running */
    struct zkl__signal posted, done;
    struct zkl__visitor visitor; /* where there is no thread, and */
    bool visited;                /* it runs them just now */
    void (*left)(void *owner);   /* see zkl__callbacks_retire */
    void *owner;
};

/* ZKL_OK, ZKL_ELIMIT; deinit in either case. */
int zkl__callbacks_init(struct zkl__callbacks *callbacks, pthread_mutex_t *mutex, bool dispatched);
void zkl__callbacks_deinit(struct zkl__callbacks *callbacks);
/* Without the mutex, not from a callback: runs what waits, joins the thread. A callback may fork:
 * in the child nothing is touched then. */
void zkl__callbacks_stop(struct zkl__callbacks *callbacks);

/* The rest with the mutex. */

/* The same from a callback, the last one, and nobody waits. left: called without the mutex when the
 * memory is not looked at any more, by the thread as its last act; in a dispatch of the user's, who
 * keeps the memory, at once. */
void zkl__callbacks_retire(struct zkl__callbacks *callbacks, void (*left)(void *owner),
                           void *owner);

/* Starts the thread if one is needed and there is none. ZKL_OK, ZKL_ELIMIT. */
int zkl__callbacks_want(struct zkl__callbacks *callbacks);
/* Queued already: once is enough. */
void zkl__callbacks_post(struct zkl__callbacks *callbacks, struct zkl__callback *callback);
/* Takes it out of the queue. Running on another thread: waits until it is done, dropping the mutex.
 */
void zkl__callbacks_unpost(struct zkl__callbacks *callbacks, struct zkl__callback *callback);
/* The callback, if it was queued or running, has run when this returns, unless this is called from
 * it. Waits for the thread; where there is none, or this is it, runs it here. Drops the mutex. It
 * may fork: in the child this returns without the mutex. */
void zkl__callbacks_finish(struct zkl__callbacks *callbacks, struct zkl__callback *callback);
/* What is readable while something waits; where there is no thread, also when there is anything
 * else to go on with. -1: there is none. With the mutex. */
int zkl__callbacks_fd(struct zkl__callbacks *callbacks);
/* Runs what waits now; how many. None when another thread is at it, or this one: callbacks run one
 * at a time; fd is silent then until that callback is done. ZKL_EFORKED: one of them has forked,
 * and this is the child; then without the mutex. */
int zkl__callbacks_dispatch(struct zkl__callbacks *callbacks);
/* Is this thread running this callback (NULL: any)? */
bool zkl__callbacks_inside(const struct zkl__callbacks *callbacks,
                           const struct zkl__callback *callback);

#endif
