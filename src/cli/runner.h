/* runner.h - a lock, from the words of the command line to the report: the engine of run, elect,
 * once and hold, each of which is a policy. */
#ifndef CLI_RUNNER_H
#define CLI_RUNNER_H

#include <stdatomic.h>

#include "queues.h"
#include "supervise/supervise.h"

/* --- the lock, of whatever recipe, from the connection to the release ------------------------- */

/* Everything happens in the calling thread: the library's callbacks are dispatched from the loops
 * here. */

extern struct contend {
    /* The caller's. */
    const char *name; /* LOCK as it was typed */
    const char *paths[ZKL_MULTILOCK_MAX];
    size_t path_count;
    int64_t wait_ms;      /* over everything; ZKL_WAIT_FOREVER; 0: a try */
    int not_granted;      /* exit code for that */
    zkl_recipe recipe;    /* of its lock; of an election metadata is what it publishes */
    int limit;            /* of a semaphore; 0: what the path says; -1: it is none */
    const char *metadata; /* on our znode; NULL: host, process and user */
    bool revocable;       /* notices requests to release */
    int64_t delay_ms;     /* after a holder that did not release */
    /* Results. */
    int64_t begun_ms; /* CLOCK_MONOTONIC */
    zkl_lock *lock;   /* NULL: not made */
    bool decided;     /* the acquire ended: */
    int result;       /* ZKL_ECANCELED: canceled, because this host is not healthy */
    zkl_grant grant;
    zkl_error error;
    int signal;                   /* which ended the wait; 0: none */
    bool revoked;                 /* another client requests that we release */
    char node[ZKL_PATH_MAX + 64]; /* path of our znode, once granted */
} contend;

/* These return CLI_GO_ON, or the exit code to end with after a message. */
/* Of an asynchronous call: its done, and the wait for that, which a signal ends. begun: what the
 * call itself returned. */
void contend_answered(int code, const zkl_error *error, void *payload);
int contend_await(int begun);
/* Waits for callbacks, news of the host's health, a signal or the time (CLOCK_MONOTONIC; INT64_MAX:
 * no matter when). A signal may mean an exit code. */
int contend_wait_or_end(int64_t end_ms);

/* Releases the lock: ZKL_OK, or ZKL_ELOST when it was not held to the end; error has the reason. */
int contend_release(void);
/* Waits for callbacks, the time, a signal, or news in fd (-1: there is none; those of the host's
 * health instead). Runs the callbacks that are due, and notifies the watchdog. True: fd is
 * readable. */
bool contend_wait(int fd, int64_t end_ms);

/* --- CMD under the lock ----------------------------------------------------------------------- */

/* Started at the grant, sent the signals that zklock gets, stopped before the lease ends. */

#define JOB_UNSET (-1)

/* Why CMD was stopped by our order. */
enum job_stop { JOB_NOT_STOPPED, JOB_TOO_LONG, JOB_UNHEALTHY, JOB_REVOKED };

extern struct job {
    /* From the options. */
    const char *name;   /* of CMD, for messages */
    int64_t grace_ms;   /* JOB_UNSET: half of what the lease leaves */
    int64_t max_run_ms; /* JOB_UNSET: no limit */
    int terminal;       /* the one that controls us; -1: none */
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
 * lock. Returns the exit code. `ended` is called before the release: CLI_GO_ON, or the exit code
 * instead of CMD's. NULL: nothing to do. */
int job_run(int (*ended)(void));

/* --- the engine ------------------------------------------------------------------------------- */

/* Each function returns CLI_GO_ON, or the exit code to end with after a message. NULL: nothing to
 * do. */
struct runner_policy {
    const char *name; /* the subcommand's */
    /* There is a session, and no znode of ours in the queue. NULL, if there is no `next` either: we
     * queue while it is opened. */
    int (*opened)(void);
    int (*granted)(void); /* before CMD is started */
    int (*held)(void);    /* instead of a CMD. When it returns, the lock is released */
    int (*ended)(void);   /* CMD has ended, and the lock is still held */
    /* After each grant, or the failure to get one, with the exit code it gave: CLI_GO_ON to queue
     * again, or the exit code to end with. NULL: end. */
    int (*next)(int code);
};

extern struct runner {
    const char *shell; /* -c */
    const char *report_file;
    const char *skipped; /* outcome to be reported when `granted` ended it */
    /* Results. */
    int64_t granted_ms; /* CLOCK_MONOTONIC; 0: never */
    int64_t ended_ms;
} runner;

/* -n: a wait that is over at once. */
bool runner_take_try(const char *value);

/* The options of each subcommand that waits for a lock. */
#define OPTIONS_WAIT                                                                   \
    OPTION_DURATION("wait", 'w', &contend.wait_ms, 0, CLI_LONGEST_MS,                  \
                    "give up after this long in the queue (never)"),                   \
        OPTION_TAKEN("try", 'n', NULL, runner_take_try,                                \
                     "do not queue: if another client holds it, exit with 124"),       \
        OPTION_NUMBER("conflict-exit-code", 'E', "CODE", &contend.not_granted, 0, 255, \
                      "exit code when not granted (124)")
#define OPTION_DELAY_AFTER_CRASH                                               \
    OPTION_DURATION("delay-after-crash", '\0', &contend.delay_ms, 0, 86400000, \
                    "wait this long behind a holder that did not release (0)")
#define OPTIONS_JOB                                                                \
    OPTION_DURATION("grace", '\0', &job.grace_ms, 0, CLI_LONGEST_MS,               \
                    "time between TERM and KILL (half of what the lease leaves)"), \
        OPTION_TEXT("command", 'c', "STRING", &runner.shell,                       \
                    "run STRING with the shell, instead of CMD"),                  \
        OPTION_TEXT("report", '\0', "FILE", &runner.report_file,                   \
                    "write what happened to FILE, as JSON"),                       \
        OPTION_TEXT("metrics", '\0', "FILE", &metrics_file,                        \
                    "keep FILE filled with counters, for Prometheus"),             \
        OPTION_TEXT("hook", '\0', "PROG", &hook_program,                           \
                    "run PROG when granted, in jeopardy, safe again, lost, released")
#define OPTION_MAX_RUN                                                   \
    OPTION_DURATION("max-run", '\0', &job.max_run_ms, 0, CLI_LONGEST_MS, \
                    "stop CMD when it has run for this long")

/* Queues, runs, reports: everything. words: LOCK, and CMD unless the policy has `held`. Returns the
 * exit code. */
int runner_main(const struct runner_policy *policy, const char **words);

/* --- --metrics FILE --------------------------------------------------------------------------- */

/* What the session counts, as text for Prometheus, in a file that the node exporter collects. */

extern const char *metrics_file;       /* NULL: none wanted */
extern _Atomic unsigned metrics_stops; /* of CMD, for the lock's sake: exit code 120 */
/* Writes the file anew, whole or not at all. False when it could not; the first time with a
 * message. */
bool metrics_write(void);

/* --- the service manager ---------------------------------------------------------------------- */

/* Messages of sd_notify(3), one datagram each. */

/* Takes $NOTIFY_SOCKET and the watchdog's variables out of the environment, so that CMD sends none
 * in our name. False after a message about it. */
bool notify_open(void);
/* -1: no service manager wants messages. */
extern int notify_socket;
/* One or more lines KEY=VALUE. Dropped if it cannot be sent: no lock depends on it. */
void notify_send(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes the metrics and notifies the watchdog, each when it is due; to be called from every loop
 * that waits. The watchdog is not notified when the session is connected and has sent nothing for a
 * session timeout: its thread hangs then, and a restart helps. */
void publish_due(void);
/* How long a poll may wait that has to end then: no longer than until the next of both. */
int publish_timeout(int64_t end_ms);

/* --- elect --listen --------------------------------------------------------------------------- */

/* Who leads, whether this candidate takes part, and its metrics, by HTTP.
 *
 * libmicrohttpd responds in a thread of its own, so a slow client does not delay heartbeats. That
 * thread reads what zklock has published here, and calls functions of the library that any thread
 * may call. It listens on the loopback address unless another one is named. */

/* The state of the candidate, as /healthz names it; elect says it. */
extern _Atomic enum http_state {
    HTTP_QUEUED,
    HTTP_LEADING,
    HTTP_PAUSED,
    HTTP_UNHEALTHY,
    HTTP_ENDING
} http_standing;

/* Takes the address, "[ADDR:]PORT". False after a message about it. */
bool http_take_address(const char *value);
/* Without an address these do nothing. */
/* Begins to listen, once there is a session. False after a message. */
bool http_open(void);
void http_close(void);

#endif
