#include "runner.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cli.h"
#include "clock.h"
#include "identity.h"
#include "newfile.h"
#include "signals.h"

/* --- --report FILE ---------------------------------------------------------------------------- */

#define REPORT_VERSION 1

struct report {
    const char *outcome; /* ran, revoked, done, busy, lost, unreachable, denied, signal, error */
    const char *lock;    /* as it was typed */
    const char *path;
    const char *node; /* NULL: never granted; then no token, no times of holding */
    int64_t token;
    int64_t queued_at_ms; /* this and the next two: ms since 1970, by the clock here */
    int64_t granted_at_ms, ended_at_ms;
    int64_t wait_ms;
    int64_t held_ms;
    bool ran; /* CMD did; status is its wait status */
    int status;
    int exit_code;
    const char *reason; /* why it did not end well; NULL: it did */
};

static bool complain(const char *file)
{
    cli_error("--report %s: %s", file, newfile_reason());
    return false;
}

static bool report_check(const char *file)
{
    return newfile_check(file) || complain(file);
}

static json_t *number(bool known, int64_t value)
{
    return known ? json_integer(value) : json_null();
}

static json_t *child(const struct report *report)
{
    bool killed = WIFSIGNALED(report->status);
    return json_pack("{s:o, s:o}", "exit",
                     number(report->ran && !killed, WEXITSTATUS(report->status)), "signal",
                     number(report->ran && killed, WTERMSIG(report->status)));
}

static void add_circumstances(json_t *object, const struct report *report)
{
    char who[512];
    struct identity own;
    bool granted = report->node != NULL;
    identity_own(&own);
    identity_format(&own, who, sizeof who);
    json_object_set_new(object, "who", json_string(who));
    json_object_set_new(object, "queued_at_ms", number(true, report->queued_at_ms));
    json_object_set_new(object, "granted_at_ms", number(granted, report->granted_at_ms));
    json_object_set_new(object, "ended_at_ms", number(granted, report->ended_at_ms));
    json_object_set_new(object, "reason",
                        report->reason ? json_string(report->reason) : json_null());
}

static bool report_write(const struct report *report, const char *file)
{
    bool granted = report->node != NULL;
    json_t *object = json_pack(
        "{s:i, s:s, s:i, s:s, s:s?, s:s?, s:o, s:o, s:I, s:o}", "v", REPORT_VERSION, "outcome",
        report->outcome, "exit_code", report->exit_code, "lock", report->lock, "path", report->path,
        "node", report->node, "token", number(granted, report->token), "child", child(report),
        "wait_ms", (json_int_t)report->wait_ms, "held_ms", number(granted, report->held_ms));
    add_circumstances(object, report);
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    char *line = NULL;
    bool made = text && asprintf(&line, "%s\n", text) > 0;
    errno = made ? 0 : ENOMEM;
    bool written = (made && newfile_write(file, line)) || complain(file);
    free(made ? line : NULL);
    free(text);
    json_decref(object);
    return written;
}

/* --- CMD under a lock ------------------------------------------------------------------------- */

void runner_init(struct runner *runner, const char *subcommand)
{
    *runner = (struct runner){
        .subcommand = subcommand,
        .what = "lock",
        .contend = {.wait_ms = ZKL_WAIT_FOREVER, .not_granted = EXIT_NOT_GRANTED},
        .job = {.grace_ms = JOB_UNSET, .max_run_ms = JOB_UNSET},
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
    cli_detail("\"%s\": granted after %" PRId64 "ms, token %" PRId64 ", znode %s", contend->name,
               runner->granted_ms - contend->begun_ms, contend->grant.token, contend->node);
    code = hook(runner, runner->granted);
    if (code == CLI_GO_ON) {
        runner->job.owner = runner;
        runner->job.before_release = before_release;
        code = job_run(&runner->job);
    } else {
        contend_release(&runner->contend);
    }
    runner->ended_ms = clock_ms(CLOCK_MONOTONIC);
    cli_detail("\"%s\": given back after %" PRId64 "ms, exit code %d", contend->name,
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
    int code = cli_parse(self, argc, argv, take, into, &count, &words);
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
