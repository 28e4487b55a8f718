/* runner.h - CMD under a lock, from the words of the command line to the report: what run, elect
 * and once share. */
#ifndef CLI_RUNNER_H
#define CLI_RUNNER_H

#include "job.h"
#include "options.h"

struct runner {
    /* The subcommand's: */
    const char *subcommand;
    const char *what; /* LOCK is: "lock", "job", "election" */
    /* Before anything is started, with the options taken; before the queue; after the grant; after
     * CMD, with the lock still held. Each returns CLI_GO_ON, or the exit code to end with after it
     * was said why; NULL: nothing to do. */
    int (*taken)(struct runner *runner);
    int (*opened)(struct runner *runner);
    int (*granted)(struct runner *runner);
    int (*ended)(struct runner *runner);
    /* After each grant, or the failure to get one, with the exit code it gave: CLI_GO_ON to queue
     * again, or the exit code to end with. NULL: end. */
    int (*next)(struct runner *runner, int code);
    /* Before the session is closed. NULL: nothing to do. */
    void (*closing)(struct runner *runner);
    const char *skipped; /* outcome to be reported when `granted` ended it */
    /* Set by `taken`: instead of all that, with the words that follow the options. Returns the exit
     * code. */
    int (*instead)(struct runner *runner, int count, const char **words);
    /* From the options. */
    const char *shell; /* -c */
    const char *report_file;
    struct job job;
    struct contend contend;
    /* How it went. */
    int64_t granted_ms; /* CLOCK_MONOTONIC; 0: never */
    int64_t ended_ms;
};

enum {
    RUNNER_GRACE = OPTION_FIRST_OWN,
    RUNNER_MAX_RUN,
    RUNNER_REPORT,
    RUNNER_METRICS,
    RUNNER_HOOK,
    RUNNER_FIRST_OWN
};

#define OPTIONS_JOB                                                                               \
    OPTION_VALUE("grace", '\0', RUNNER_GRACE,                                                     \
                 "time between TERM and KILL (half of what the lease leaves)", "DUR"),            \
        OPTION_VALUE("command", 'c', 'c', "run STRING with the shell, instead of CMD", "STRING"), \
        OPTION_VALUE("report", '\0', RUNNER_REPORT, "write what happened to FILE, as JSON",       \
                     "FILE"),                                                                     \
        OPTION_VALUE("metrics", '\0', RUNNER_METRICS,                                             \
                     "keep FILE filled with counters, for Prometheus", "FILE"),                   \
        OPTION_VALUE("hook", '\0', RUNNER_HOOK,                                                   \
                     "run PROG when granted, in jeopardy, safe again, lost, released", "PROG")
#define OPTIONS_RUNNER                                                                          \
    OPTIONS_WAIT,                                                                               \
        OPTION_VALUE("max-run", '\0', RUNNER_MAX_RUN, "stop CMD when it has run for this long", \
                     "DUR"),                                                                    \
        OPTIONS_JOB

void runner_init(struct runner *runner, const char *subcommand);
/* Takes one of OPTIONS_RUNNER; *taken is false when it is none of them. */
bool runner_take(struct runner *runner, int option, const char *value, bool *taken);
/* Parses, queues, runs, reports: everything. into: what take is given. Returns the exit code. */
int runner_main(struct runner *runner, const struct cli_command *self, int argc, const char **argv,
                cli_take_fn take, void *into);

#endif
