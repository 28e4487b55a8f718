/* job.h - CMD under a lock: started when granted, told of signals, stopped before the lease ends.
 */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include "contend.h"
#include "supervise/hook.h"
#include "supervise/keeper.h"

#define JOB_UNSET (-1)

/* Why CMD was stopped by our order. */
enum job_stop { JOB_NOT_STOPPED, JOB_TOO_LONG, JOB_UNHEALTHY, JOB_REVOKED };

struct job {
    /* From the options. */
    const char **command;
    const char *name;   /* of CMD, for messages */
    int64_t grace_ms;   /* JOB_UNSET: half of what the lease leaves */
    int64_t max_run_ms; /* JOB_UNSET: no limit */
    bool again;         /* job_run may be called more than once */
    struct hook hook;
    /* Called when CMD is over, before the lock is given back: CLI_GO_ON, or the exit code instead.
     * NULL: nothing to do. */
    int (*before_release)(struct job *job);
    void *owner;
    /* How it went. */
    bool ran;
    enum job_stop stop;
    bool lost;
    bool proved; /* by before_release: the servers said, after CMD's end, that the lock was still
                    ours */
    bool told;   /* TERM, INT or QUIT came for it, through us */
    bool unkept; /* the keeper is dead: nothing can be run any more */
    int status;  /* CMD's wait status, if it ran */
    int code;    /* exit code */
    /* Its own. */
    struct contend *contend;
    struct keeper keeper;
    struct keeper_command keeper_command;
    bool over;
    pid_t group;
    int terminal;         /* the one that controls us; -1: none */
    bool lends_terminal;  /* CMD's group has it, or had it when CMD was stopped */
    bool wants_terminal;  /* CMD is stopped until it has it */
    int64_t lease_end_ns; /* CLOCK_BOOTTIME, as last told to the keeper */
    int64_t stop_ms;      /* CLOCK_MONOTONIC, of max_run_ms */
    int64_t linger_ms;    /* CLOCK_MONOTONIC: when to mention who lingers */
};

/* Starts the keeper; to be called before there is a session or a thread. False after it was said
 * why. */
bool job_prepare(struct job *job, const char *path);
/* Refuses a grace that no lease of this session has room for. CLI_GO_ON or the exit code. */
int job_fit(struct job *job, struct contend *contend);
/* Forgets how it went, before each wait for a grant. */
void job_begin(struct job *job);
/* Runs CMD under the lock just granted, until nobody of it is left, and releases the lock. Returns
 * the exit code. */
int job_run(struct job *job);
void job_close(struct job *job);

#endif
