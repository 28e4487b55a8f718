#include "runner.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "report.h"
#include "signals.h"

void runner_init(struct runner *runner, struct cli *cli, const char *subcommand)
{
    *runner = (struct runner){
        .subcommand = subcommand,
        .what = "lock",
        .contend = {.cli = cli, .wait_ms = ZKL_WAIT_FOREVER, .not_granted = EXIT_NOT_GRANTED},
        .job = {.cli = cli, .grace_ms = JOB_UNSET, .max_run_ms = JOB_UNSET},
    };
}

bool runner_take(struct runner *runner, int option, const char *value, bool *taken)
{
    bool fine = contend_take(&runner->contend, option, value, taken);
    if (*taken) {
        return fine;
    }
    *taken = true;
    switch (option) {
    case RUNNER_GRACE:
        return cli_take_duration("--grace", value, &runner->job.grace_ms);
    case RUNNER_MAX_RUN:
        return cli_take_duration("--max-run", value, &runner->job.max_run_ms);
    case 'c':
        runner->shell = value;
        return true;
    case RUNNER_REPORT:
        runner->report_file = value;
        return true;
    case RUNNER_HOOK:
        runner->job.hook.program = value;
        return true;
    case RUNNER_METRICS:
        runner->contend.metrics.file = value;
        return true;
    default:
        *taken = false;
        return true;
    }
}

/* LOCK and CMD from what follows the options. CLI_GO_ON or the exit code. */
static int take_words(struct runner *runner, int count, const char **words)
{
    static const char *shell[] = {"/bin/sh", "-c", NULL, NULL};
    if (count == 0) {
        return cli_usage(runner->subcommand, "%s: which %s?", runner->subcommand, runner->what);
    }
    bool dashes = count > 1 && strcmp(words[1], "--") == 0;
    const char **command = words + 1 + dashes;
    runner->contend.name = words[0];
    if (runner->shell && *command) {
        return cli_usage(runner->subcommand, "%s: '%s': -c STRING takes the place of CMD",
                         runner->subcommand, *command);
    }
    if (!runner->shell && !*command) {
        return cli_usage(runner->subcommand, "%s: which command?", runner->subcommand);
    }
    shell[2] = runner->shell;
    runner->job.command = runner->shell ? shell : command;
    runner->job.name = runner->shell ? runner->shell : *command;
    return CLI_GO_ON;
}

static int hook(struct runner *runner, int (*function)(struct runner *))
{
    return function ? function(runner) : CLI_GO_ON;
}

/* CMD is over, and the lock still ours if it ever was to the end. */
static int before_release(struct job *job)
{
    struct runner *runner = job->owner;
    return hook(runner, runner->ended);
}

static int queue_and_run(struct runner *runner)
{
    const struct contend *contend = &runner->contend;
    runner->granted_ms = runner->ended_ms = 0;
    job_begin(&runner->job);
    int code = contend_acquire(&runner->contend);
    if (code != CLI_GO_ON) {
        return code;
    }
    runner->granted_ms = clock_ms(CLOCK_MONOTONIC);
    cli_detail(contend->cli, "\"%s\": granted after %" PRId64 "ms, token %" PRId64 ", znode %s",
               contend->name, runner->granted_ms - contend->begun_ms, contend->grant.token,
               contend->node);
    code = hook(runner, runner->granted);
    if (code == CLI_GO_ON) {
        runner->job.owner = runner;
        runner->job.before_release = before_release;
        code = job_run(&runner->job);
    } else {
        contend_release(&runner->contend);
    }
    runner->ended_ms = clock_ms(CLOCK_MONOTONIC);
    cli_detail(contend->cli, "\"%s\": given back after %" PRId64 "ms, exit code %d", contend->name,
               runner->ended_ms - runner->granted_ms, code);
    return code;
}

static int queue_and_run_all(struct runner *runner)
{
    int code = job_fit(&runner->job, &runner->contend);
    if (code == CLI_GO_ON) {
        code = hook(runner, runner->opened);
    }
    while (code == CLI_GO_ON) {
        code = queue_and_run(runner);
        code = runner->next ? runner->next(runner, code) : code;
        if (code == CLI_GO_ON) {
            contend_begin(&runner->contend);
        }
    }
    return code;
}

static const char *outcome(const struct runner *runner, int code)
{
    if (runner->job.lost) {
        return "lost";
    }
    if (runner->job.ran) {
        return runner->job.stop == JOB_REVOKED ? "revoked" : "ran";
    }
    if (runner->skipped) {
        return runner->skipped;
    }
    if (runner->contend.signal) {
        return "signal";
    }
    if (runner->contend.result == ZKL_EBUSY || runner->contend.result == ZKL_ETIMEOUT) {
        return "busy";
    }
    return code == EXIT_UNREACHABLE ? "unreachable" : code == EXIT_DENIED ? "denied" : "error";
}

static int report(const struct runner *runner, int code)
{
    const struct contend *contend = &runner->contend;
    int64_t offset_ms = clock_ms(CLOCK_REALTIME) - clock_ms(CLOCK_MONOTONIC);
    bool well = runner->job.ran && !runner->job.lost && !runner->job.unkept;
    struct report report = {
        .outcome = outcome(runner, code),
        .reason = well || !*cli_last_error() ? NULL : cli_last_error(),
        .queued_at_ms = offset_ms + contend->begun_ms,
        .granted_at_ms = offset_ms + runner->granted_ms,
        .ended_at_ms = offset_ms + runner->ended_ms,
        .lock = contend->name,
        .path = contend->path,
        .node = runner->granted_ms ? contend->node : NULL,
        .token = contend->grant.token,
        .wait_ms = (runner->granted_ms ? runner->granted_ms : clock_ms(CLOCK_MONOTONIC)) -
                   contend->begun_ms,
        .held_ms = runner->ended_ms - runner->granted_ms,
        .ran = runner->job.ran,
        .status = runner->job.status,
        .exit_code = code,
    };
    return report_write(&report, runner->report_file) ? code : EXIT_FAILED;
}

/* The keeper comes first: it must know nothing of a session, its threads or its connection. */
static int prepare(struct runner *runner)
{
    if (runner->report_file && !report_check(runner->report_file)) {
        return EXIT_FAILED;
    }
    if (!job_prepare(&runner->job, runner->contend.path)) {
        return EXIT_FAILED;
    }
    if (!signals_catch()) {
        cli_error("cannot catch signals: %s", strerror(errno));
        job_close(&runner->job);
        return EXIT_FAILED;
    }
    return CLI_GO_ON;
}

static int prepare_and_run(struct runner *runner)
{
    int code = prepare(runner);
    if (code != CLI_GO_ON) {
        return code;
    }
    code = contend_open(&runner->contend);
    if (code == CLI_GO_ON) {
        code = queue_and_run_all(runner);
    }
    if (runner->closing) {
        runner->closing(runner);
    }
    contend_close(&runner->contend);
    job_close(&runner->job);
    return runner->report_file ? report(runner, code) : code;
}

int runner_main(struct runner *runner, const struct cli_command *self, int argc, const char **argv,
                cli_take_fn take, void *into)
{
    int count;
    const char **words;
    int code = cli_parse(runner->contend.cli, self, argc, argv, take, into, &count, &words);
    if (code == CLI_GO_ON) {
        code = hook(runner, runner->taken);
    }
    if (code == CLI_GO_ON) {
        code = runner->instead ? runner->instead(runner, count, words)
                               : take_words(runner, count, words);
    }
    if (code != CLI_GO_ON) {
        return code;
    }
    runner->contend.path = cli_lock_path(runner->contend.name);
    if (!runner->contend.path) {
        return EXIT_FAILED;
    }
    const char *twice = contend_twice(&runner->contend);
    if (twice) {
        cli_error("%s: '%s' is named twice", runner->subcommand, twice);
    }
    code = twice ? EXIT_FAILED : prepare_and_run(runner);
    free(runner->contend.path);
    return code;
}
