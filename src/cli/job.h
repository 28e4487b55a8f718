/* job.h - CMD under a lock: started at the grant, sent the signals that zklock gets, stopped before
 * the lease ends. */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include <stdbool.h>
#include <stdint.h>

#define JOB_UNSET (-1)

/* Why CMD was stopped by our order. */
enum job_stop { JOB_NOT_STOPPED, JOB_TOO_LONG, JOB_UNHEALTHY, JOB_REVOKED };

extern struct job {
    /* From the options. */
    const char **command;
    const char *name;   /* of CMD, for messages */
    int64_t grace_ms;   /* JOB_UNSET: half of what the lease leaves */
    int64_t max_run_ms; /* JOB_UNSET: no limit */
    bool again;         /* job_run may be called more than once */
    /* Called when CMD has ended, before the lock is released: CLI_GO_ON, or the exit code instead
     * of CMD's. NULL: nothing to do. */
    int (*ended)(void);
    /* How it went. */
    bool ran;
    enum job_stop stop;
    bool lost;
    bool
        proved; /* by `ended`: the servers confirmed after CMD's end that the lock was still held */
    bool stop_requested; /* zklock got TERM, INT or QUIT, and passed it on */
    bool overruled;      /* `ended` gave another exit code than CMD */
    bool unkept;         /* the keeper has died: nothing can be run any more */
    int status;          /* CMD's wait status, if it ran */
    int code;            /* exit code */
} job;

/* Starts the keeper; to be called before there is a session or a thread. CLI_GO_ON, or the exit
 * code after a message. */
int job_prepare(void);
/* Refuses a grace that is longer than what a lease of this session leaves. CLI_GO_ON or the exit
 * code. */
int job_fit(void);
/* Clears the results, before each wait for a grant. */
void job_begin(void);
/* Runs CMD under the lock just granted, until CMD and its descendants have ended, and releases the
 * lock. Returns the exit code. */
int job_run(void);
void job_close(void);

#endif
