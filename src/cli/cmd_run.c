/* cmd_run.c - queue, run CMD while holding, release. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "job.h"
#include "options.h"
#include "report.h"
#include "signals.h"

enum { OPTION_GRACE = OPTION_FIRST_OWN, OPTION_MAX_RUN, OPTION_REPORT };

static const struct poptOption options[] = {
    OPTIONS_WAIT,
    OPTION_VALUE("grace", '\0', OPTION_GRACE, "time between TERM and KILL (half of what the lease leaves)", "DUR"),
    OPTION_VALUE("max-run", '\0', OPTION_MAX_RUN, "stop CMD when it ran for this long", "DUR"),
    OPTION_VALUE("command", 'c', 'c', "run STRING by the shell, instead of CMD", "STRING"),
    OPTION_VALUE("report", '\0', OPTION_REPORT, "write what happened to FILE, as JSON", "FILE"),
    OPTION_FLAG("shared", 'r', 'r', "as one of many readers (not in this version)"),
    OPTION_VALUE("slots", 'j', 'j', "as one of K at a time (not in this version)", "K"),
    OPTION_END,
};

struct run {
    const char *shell; /* -c */
    const char *report_file;
    struct job job;
    struct contend contend;
    int64_t granted_ms; /* CLOCK_MONOTONIC; 0: never */
    int64_t ended_ms;
};

static bool take(void *into, int option, const char *value)
{
    struct run *run = into;
    bool taken;
    bool fine = contend_take(&run->contend, option, value, &taken);
    if (taken) {
        return fine;
    }
    switch (option) {
    case OPTION_GRACE:
        return cli_take_duration("--grace", value, &run->job.grace_ms);
    case OPTION_MAX_RUN:
        return cli_take_duration("--max-run", value, &run->job.max_run_ms);
    case 'c':
        run->shell = value;
        return true;
    case OPTION_REPORT:
        run->report_file = value;
        return true;
    default:
        cli_error("run: %s does not exist in this version", option == 'r' ? "-r/--shared" : "-j/--slots");
        return false;
    }
}

/* LOCK and CMD from what follows the options. CLI_GO_ON or the exit code. */
static int take_words(struct run *run, int count, const char **words)
{
    static const char *shell[] = {"/bin/sh", "-c", NULL, NULL};
    if (count == 0) {
        return cli_usage("run", "run: which lock?");
    }
    bool dashes = count > 1 && strcmp(words[1], "--") == 0;
    const char **command = words + 1 + dashes;
    run->contend.name = words[0];
    if (run->shell && *command) {
        return cli_usage("run", "run: '%s': -c STRING takes the place of CMD", *command);
    }
    if (!run->shell && !*command) {
        return cli_usage("run", "run: which command?");
    }
    shell[2] = run->shell;
    run->job.command = run->shell ? shell : command;
    run->job.name = run->shell ? run->shell : *command;
    return CLI_GO_ON;
}

static int queue_and_run(struct run *run)
{
    int code = job_fit(&run->job, &run->contend);
    if (code == CLI_GO_ON) {
        code = contend_acquire(&run->contend);
    }
    if (code != CLI_GO_ON) {
        return code;
    }
    run->granted_ms = clock_ms(CLOCK_MONOTONIC);
    code = job_run(&run->job);
    run->ended_ms = clock_ms(CLOCK_MONOTONIC);
    return code;
}

static const char *outcome(const struct run *run, int code)
{
    if (run->job.lost) {
        return "lost";
    }
    if (run->job.ran) {
        return "ran";
    }
    if (run->contend.signal) {
        return "signal";
    }
    if (run->contend.result == ZKL_EBUSY || run->contend.result == ZKL_ETIMEOUT) {
        return "busy";
    }
    return code == EXIT_UNREACHABLE ? "unreachable" : code == EXIT_DENIED ? "denied" : "error";
}

static int report(const struct run *run, int code)
{
    const struct contend *contend = &run->contend;
    struct report report = {
        .outcome = outcome(run, code),
        .lock = contend->name,
        .path = contend->path,
        .node = run->granted_ms ? contend->node : NULL,
        .token = contend->grant.token,
        .wait_ms = (run->granted_ms ? run->granted_ms : clock_ms(CLOCK_MONOTONIC)) - contend->begun_ms,
        .held_ms = run->ended_ms - run->granted_ms,
        .ran = run->job.ran,
        .status = run->job.status,
        .exit_code = code,
    };
    return report_write(&report, run->report_file) ? code : EXIT_FAILED;
}

/* The keeper comes first: it must know nothing of a session, its threads or its connection. */
static int prepare(struct run *run)
{
    if (run->report_file && !report_check(run->report_file)) {
        return EXIT_FAILED;
    }
    if (!job_prepare(&run->job, run->contend.path)) {
        return EXIT_FAILED;
    }
    if (!signals_catch()) {
        cli_error("cannot catch signals: %s", strerror(errno));
        job_close(&run->job);
        return EXIT_FAILED;
    }
    return CLI_GO_ON;
}

static int prepare_and_run(struct run *run)
{
    int code = prepare(run);
    if (code != CLI_GO_ON) {
        return code;
    }
    code = contend_open(&run->contend);
    if (code == CLI_GO_ON) {
        code = queue_and_run(run);
    }
    contend_close(&run->contend);
    job_close(&run->job);
    return run->report_file ? report(run, code) : code;
}

static int run_command(struct cli *cli, const struct cli_command *self, int argc, const char **argv)
{
    struct run run = {
        .contend = {.cli = cli, .wait_ms = ZKL_WAIT_FOREVER, .not_granted = EXIT_NOT_GRANTED},
        .job = {.cli = cli, .grace_ms = JOB_UNSET, .max_run_ms = JOB_UNSET},
    };
    int count;
    const char **words;
    int code = cli_parse(cli, self, argc, argv, take, &run, &count, &words);
    if (code == CLI_GO_ON) {
        code = take_words(&run, count, words);
    }
    if (code != CLI_GO_ON) {
        return code;
    }
    run.contend.path = cli_lock_path(run.contend.name);
    if (!run.contend.path) {
        cli_error("out of memory");
        return EXIT_FAILED;
    }
    code = prepare_and_run(&run);
    free(run.contend.path);
    return code;
}

const struct cli_command cmd_run = {
    .name = "run",
    .run = run_command,
    .arguments = "LOCK [--] CMD [ARG...]",
    .summary = "queue, run CMD while holding LOCK, release",
    .examples = "  zklock run backup -- pg_dump shop           # one host at a time, the others wait their turn\n"
                "  zklock run -n nightly -- ./job              # if another host is at it, do not: exit code 124\n"
                "  zklock run -w 5m -E 0 report -- ./report    # wait five minutes at most, then call it done\n"
                "  zklock run -c 'dump | gzip >f.gz' backup    # by the shell\n",
    .notes =
        "CMD is stopped before anybody else can be granted LOCK, whatever happens to the network or to zklock. It is\n"
        "sent TERM, and KILL after the grace. LOCK is released when CMD and everything it started is gone. Nothing\n"
        "after LOCK is taken as an option of zklock.\n\n"
        "CMD finds ZKLOCK_PATH, ZKLOCK_NODE, ZKLOCK_TOKEN (rises with every grant: let the resource refuse older\n"
        "ones) and ZKLOCK_SERVERS. TERM INT HUP QUIT USR1 USR2 CONT WINCH reach its whole process group.\n\n"
        "Exit codes: CMD's own, or 128+n when signal n killed it; 120 lock lost, CMD stopped; 121 access refused;\n"
        "122 no ensemble reached; 124 not granted in time; 125 usage or own failure; 126, 127 as shells do.\n",
    .options = options,
};
