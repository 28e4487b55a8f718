/* contend.h - one lock, of whatever recipe, from the connection to the release: what run, hold and
 * their like share.
 *
 * Everything happens in the calling thread: the library's callbacks are dispatched from the loops
 * here. */
#ifndef CLI_CONTEND_H
#define CLI_CONTEND_H

#include <zklock/zklock.h>

#include "session.h"
#include "supervise/health.h"
#include "metrics.h"

struct contend {
    /* The caller's. */
    const char *name; /* LOCK as it was typed */
    char *path;
    int64_t wait_ms;   /* over everything; ZKL_WAIT_FOREVER; 0: a try */
    int not_granted;   /* exit code for that */
    zkl_recipe recipe; /* of its lock; of an election metadata is what it publishes */
    int limit;         /* of a semaphore; 0: what the path says */
    const char *more[ZKL_MULTILOCK_MAX - 1]; /* of a multi-lock: the paths besides the first */
    size_t more_count;
    const char *metadata;  /* on our znode; NULL: who we are */
    struct notify *notify; /* who is told how the wait goes; NULL: nobody */
    struct metrics metrics;
    struct health *health; /* a wait ends when it is not good, with result ZKL_ECANCELED; NULL:
                              nobody checks */
    bool reloads;          /* HUP is no end of the wait */
    bool revocable;        /* notices requests to give way */
    int64_t delay_ms;      /* after a holder that did not release */
    /* How it went. */
    int64_t begun_ms; /* CLOCK_MONOTONIC */
    zkl_session *session;
    zkl_lock *lock; /* NULL: not made */
    bool decided;   /* the acquire ended: */
    int result;
    zkl_grant grant;
    zkl_error error;
    int signal;                   /* that ended the wait; 0: none */
    bool revoked;                 /* somebody asks us to give way */
    char node[ZKL_PATH_MAX + 64]; /* path of our znode, once granted */
};

/* Takes one of OPTIONS_WAIT, or OPTION_DELAY; *taken is false when it is none of them. */
bool contend_take(struct contend *contend, int option, const char *value, bool *taken);

/* These return CLI_GO_ON, or the exit code to end with after it was said why. */
int contend_open(struct contend *contend);
int contend_acquire(struct contend *contend);
/* Waits, out of the queue; a signal ends that. */
int contend_pause(struct contend *contend, int64_t pause_ms);
/* The same until this host is healthy. */
int contend_await_health(struct contend *contend);
/* No check says otherwise. */
bool contend_is_healthy(struct contend *contend);

/* A path that is there twice among a multi-lock's; NULL: none is. */
const char *contend_twice(const struct contend *contend);
/* Forgets how it went, before another contend_acquire. */
void contend_begin(struct contend *contend);
/* Gives the lock back: ZKL_OK, or ZKL_ELOST when it was not ours to the end; error says why. */
int contend_release(struct contend *contend);
/* Says what became of a call for this lock, and what to do about it. Returns the exit code. */
int contend_complain(const struct contend *contend, int result, const zkl_error *error);
/* Ends the session and frees all; to be called however far it came. */
void contend_close(struct contend *contend);

/* Runs callbacks that wait, and tells the watchdog. */
void contend_dispatch(struct contend *contend);

#endif
