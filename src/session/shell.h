/* shell.h - the shell around the core, as recipes see it: mutex, waiting, callbacks, the clock. Nothing is decided here.
 *
 * The simulator has an implementation of its own of this header (one thread, virtual time), so that it runs the recipes' object
 * code too: a recipe calls nothing of pthread or time by itself. */
#ifndef ZKL_SESSION_SHELL_H
#define ZKL_SESSION_SHELL_H

#include <pthread.h>

#include "session_step.h"

/* Takes the session's mutex. On any result but ZKL_OK it is not taken: ZKL_EFORKED, ZKL_ECLOSED (unless closed_too), with words
 * in err. */
int zkl__session_enter(zkl_session *session, bool closed_too, zkl_error *err);
/* Arms the timer for what the steps want next and drops the mutex. */
void zkl__session_leave(zkl_session *session);

/* CLOCK_BOOTTIME, ns. */
int64_t zkl__session_now(const zkl_session *session);
/* now + timeout_ms, saturating; ZKL_WAIT_FOREVER gives INT64_MAX. */
int64_t zkl__deadline(int64_t now, int64_t timeout_ms);
/* A step with the time filled in. Inside enter/leave only. */
void zkl__session_event(zkl_session *session, struct zkl__event event);
struct zkl__core *zkl__session_core(zkl_session *session);
const zkl_heap *zkl__session_heap(const zkl_session *session);
int64_t zkl__session_connect_timeout_ms(const zkl_session *session);
/* "host:pid" of this process: the default metadata. Static for the session. */
const char *zkl__session_whoami(const zkl_session *session);

/* What was made from a session keeps its memory alive. Inside enter/leave, or before anyone else knows it. */
void zkl__session_retain(zkl_session *session);
/* Not inside enter/leave. */
void zkl__session_drop(zkl_session *session);

/* --- waiting: one thread or several wait for one thing ------------------------------------------------------------- */

struct zkl__signal {
    pthread_cond_t cond;
};
int zkl__signal_init(struct zkl__signal *signal); /* ZKL_OK, ZKL_ENOMEM */
void zkl__signal_deinit(struct zkl__signal *signal);
/* Inside enter/leave: wakes all that wait on it. */
void zkl__signal_raise(struct zkl__signal *signal);
/* Inside enter/leave: sleeps until raised or the deadline (CLOCK_BOOTTIME ns; waited for on CLOCK_MONOTONIC); false at the deadline.
 * Wakes without cause happen: look again. */
bool zkl__session_wait(zkl_session *session, struct zkl__signal *signal, int64_t deadline);

/* --- callbacks: user code, outside every lock ---------------------------------------------------------------------- */

/* Part of the object it belongs to, so that a notice never needs memory. */
struct zkl__callback {
    void (*run)(void *owner); /* outside the mutex, on the callback thread or in dispatch */
    void *owner;
    struct zkl__callback *next;
    bool queued;
};
/* Starts what callbacks need (thread); called when a callback is asked for. ZKL_OK, ZKL_ELIMIT. Inside enter/leave. */
int zkl__session_want_callbacks(zkl_session *session);
/* Inside enter/leave. Queued already: once is enough. */
void zkl__session_post(zkl_session *session, struct zkl__callback *callback);
/* Inside enter/leave: takes it out of the queue; if it is running on another thread, waits (dropping the mutex) until it is done. */
void zkl__session_unpost(zkl_session *session, struct zkl__callback *callback);

/* --- objects of a session: told when it closes, listed for operators ------------------------------------------------ */

struct zkl__object;
struct zkl__object_ops {
    const char *noun; /* "lock" */
    /* Inside the mutex, before the core is closed: give up what is pending (its owner is told ZKL_ECLOSED) and held. Returns
     * whether there was anything. code: ZKL_ECLOSED, or ZKL_ECANCELED for zkl_session_release_all. */
    bool (*give_up)(struct zkl__object *object, int code);
    /* Inside the mutex: path, state and token, for zkl_session_locks. */
    void (*describe)(const struct zkl__object *object, const char **path, zkl_state *state, int64_t *token);
};
struct zkl__object {
    const struct zkl__object_ops *ops;
    struct zkl__object *next, *prev;
};
void zkl__session_add(zkl_session *session, struct zkl__object *object);    /* inside enter/leave */
void zkl__session_remove(zkl_session *session, struct zkl__object *object); /* inside enter/leave */

/* --- single operations --------------------------------------------------------------------------------------------- */

/* Submits op and waits for the answer until the deadline. look is called with the reply, inside the mutex (its pointers end with it); may be
 * NULL. Inside enter/leave. ZKL_OK when the server answered, whatever it said; ZKL_ETIMEOUT, ZKL_ECONNECT (the connection went first: the
 * fate of a write is unknown), ZKL_ECLOSED, ZKL_ENOMEM, ZKL_ELIMIT, with words in err. */
int zkl__session_call(zkl_session *session, const struct zkl__op *op, int64_t deadline,
                      void (*look)(void *arg, const struct zkl__reply *reply), void *arg, zkl_error *err);

#endif
