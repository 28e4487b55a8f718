/* runner.h - a lock, from the words of the command line to the report: the engine of run, elect,
 * once and hold, each of which is a policy. */
#ifndef CLI_RUNNER_H
#define CLI_RUNNER_H

#include "contend.h"
#include "job.h"
#include "metrics.h"
#include "supervise/hook.h"

/* Each function returns CLI_GO_ON, or the exit code to end with after a message. NULL: nothing to
 * do. */
struct runner_policy {
    const char *name;     /* the subcommand's */
    int (*opened)(void);  /* there is a session, and no znode of ours in the queue */
    int (*granted)(void); /* before CMD is started */
    int (*held)(void);    /* instead of a CMD. When it returns, the lock is released */
    int (*ended)(void);   /* CMD has ended, and the lock is still held */
    /* After each grant, or the failure to get one, with the exit code it gave: CLI_GO_ON to queue
     * again, or the exit code to end with. NULL: end. */
    int (*next)(int code);
    void (*closing)(void); /* before the session is closed */
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
int runner_main(const struct runner_policy *policy, int count, const char **words);

#endif
