/* contend.h - one lock, of whatever recipe, from the connection to the release.
 *
 * Everything happens in the calling thread: the library's callbacks are dispatched from the loops
 * here. */
#ifndef CLI_CONTEND_H
#define CLI_CONTEND_H

#include "session.h"

extern struct contend {
    /* The caller's. */
    const char *name; /* LOCK as it was typed */
    const char *paths[ZKL_MULTILOCK_MAX];
    size_t path_count;
    int64_t wait_ms;      /* over everything; ZKL_WAIT_FOREVER; 0: a try */
    int not_granted;      /* exit code for that */
    zkl_recipe recipe;    /* of its lock; of an election metadata is what it publishes */
    int limit;            /* of a semaphore; 0: what the path says */
    const char *metadata; /* on our znode; NULL: host, process and user */
    bool reloads;         /* HUP does not end the wait */
    bool revocable;       /* notices requests to release */
    int64_t delay_ms;     /* after a holder that did not release */
    /* Results. */
    int64_t begun_ms; /* CLOCK_MONOTONIC */
    zkl_session *session;
    zkl_lock *lock; /* NULL: not made */
    bool decided;   /* the acquire ended: */
    int result;     /* ZKL_ECANCELED: canceled, because this host is not healthy */
    zkl_grant grant;
    zkl_error error;
    int signal;                   /* which ended the wait; 0: none */
    bool revoked;                 /* another client requests that we release */
    char node[ZKL_PATH_MAX + 64]; /* path of our znode, once granted */
} contend;

/* These return CLI_GO_ON, or the exit code to end with after a message. */
int contend_open(void);
int contend_acquire(void);
/* Of an asynchronous call: its done, and the wait for that, which a signal ends. begun, error: what
 * the call itself returned. */
void contend_answered(int code, const zkl_error *error, void *payload);
int contend_await(int begun, const zkl_error *error);
/* Waits, out of the queue; a signal ends that. */
int contend_pause(int64_t pause_ms);
/* The same until this host is healthy. */
int contend_await_health(void);

/* Clears the results, before another contend_acquire. */
void contend_begin(void);
/* Releases the lock: ZKL_OK, or ZKL_ELOST when it was not held to the end; error has the reason. */
int contend_release(void);
/* Another client holds it, or did until the time was up. With silent servers a try knows nothing.
 */
bool contend_is_busy(void);
/* Reports why a call for this lock failed, and what to do about it. Returns the exit code. */
int contend_complain(int result, const zkl_error *error);
/* Closes the session and frees all, in whatever state they are. */
void contend_close(void);

/* Runs the callbacks that are due, and notifies the watchdog. */
void contend_dispatch(void);

#endif
