#include "runner.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "clock.h"
#include "identity.h"
#include "newfile.h"
#include "signals.h"

#define REPORT_VERSION 1

struct runner runner;
static const struct runner_policy *policy;

bool runner_take_try(const char *value)
{
    (void)value;
    contend.wait_ms = 0;
    return true;
}

/* --- the report ------------------------------------------------------------------------------ */

static int complain_of_report(void)
{
    cli_error("--report %s: %s", runner.report_file, newfile_reason());
    return EXIT_FAILED;
}

static const char *outcome(int code)
{
    if (job.lost) {
        return "lost";
    }
    if (job.ran) {
        return job.stop == JOB_REVOKED ? "revoked" : "ran";
    }
    if (runner.skipped) {
        return runner.skipped;
    }
    if (contend.signal) {
        return "signal";
    }
    if (contend_is_busy()) {
        return "busy";
    }
    return code == EXIT_UNREACHABLE ? "unreachable" : code == EXIT_DENIED ? "denied" : "error";
}

/* NULL, which is null in JSON, where it is not known. */
static json_t *number(bool known, int64_t value)
{
    return known ? json_integer(value) : NULL;
}

/* One JSON object, for wrappers that must not guess from an exit code. */
static json_t *report_json(int code)
{
    char who[512];
    struct identity own;
    int64_t offset_ms =
        clock_ms(CLOCK_REALTIME) - now_ms(); /* to ms since 1970, by the clock here */
    bool granted = runner.granted_ms > 0, killed = WIFSIGNALED(job.status);
    bool ended_well =
        job.ran && !job.lost && !job.unkept && !job.overruled && job.stop == JOB_NOT_STOPPED;
    identity_own(&own);
    identity_format(&own, who, sizeof who);
    return json_pack("{s:i, s:s, s:i, s:s, s:s, s:s?, s:o?, s:{s:o?, s:o?}, s:I, s:o?, s:s, s:I, "
                     "s:o?, s:o?, s:s?}",
                     "v", REPORT_VERSION, "outcome", outcome(code), "exit_code", code, "lock",
                     contend.name, "path", contend.paths[0], "node", granted ? contend.node : NULL,
                     "token", number(granted, contend.grant.token), "child", "exit",
                     number(job.ran && !killed, WEXITSTATUS(job.status)), "signal",
                     number(job.ran && killed, WTERMSIG(job.status)), "wait_ms",
                     (json_int_t)((granted ? runner.granted_ms : now_ms()) - contend.begun_ms),
                     "held_ms", number(granted, runner.ended_ms - runner.granted_ms), "who", who,
                     "queued_at_ms", (json_int_t)(offset_ms + contend.begun_ms), "granted_at_ms",
                     number(granted, offset_ms + runner.granted_ms), "ended_at_ms",
                     number(granted, offset_ms + runner.ended_ms), "reason",
                     ended_well || runner.skipped || !*cli_last_words() ? NULL : cli_last_words());
}

static int write_report(int code)
{
    json_t *object = report_json(code);
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    char *line = NULL;
    bool made = text && asprintf(&line, "%s\n", text) > 0;
    errno = made ? 0 : ENOMEM;
    if (!made || !newfile_write(runner.report_file, line)) {
        complain_of_report();
        code = code == EXIT_DONE ? EXIT_FAILED : code; /* CMD's own, or what was lost, says more */
    }
    free(made ? line : NULL);
    free(text);
    json_decref(object);
    return code;
}

/* --- from the words to the release ----------------------------------------------------------- */

static int call(int (*function)(void))
{
    return function ? function() : CLI_GO_ON;
}

/* CMD from what follows LOCK. CLI_GO_ON or the exit code. */
static int take_command(int count, const char **words)
{
    static const char *shell[] = {"/bin/sh", "-c", NULL, NULL};
    bool dashes = count > 1 && strcmp(words[1], "--") == 0;
    const char **command = words + 1 + dashes;
    if (runner.shell && *command) {
        return cli_usage(policy->name, "%s: '%s': -c STRING takes the place of CMD", policy->name,
                         *command);
    }
    if (!runner.shell && !*command) {
        return cli_usage(policy->name, "%s: which command?", policy->name);
    }
    shell[2] = runner.shell;
    job.command = runner.shell ? shell : command;
    job.name = runner.shell ? runner.shell : *command;
    job.ended = policy->ended;
    job.again = policy->next != NULL;
    return CLI_GO_ON;
}

/* The keeper comes first: it must know nothing of a session, its threads or its connection. */
static int prepare(void)
{
    if (runner.report_file && !newfile_check(runner.report_file)) {
        return complain_of_report();
    }
    int code = policy->held ? CLI_GO_ON : job_prepare();
    return code == CLI_GO_ON ? signals_catch() : code;
}

/* Whether it was ours to the end decides what `held` has given. */
static int hold(void)
{
    int code = policy->held();
    if (contend_release() != ZKL_ELOST) {
        return code;
    }
    cli_error("\"%s\": %s", contend.name, contend.error.text);
    return EXIT_LOST;
}

static int queue_and_run(void)
{
    runner.granted_ms = runner.ended_ms = 0;
    if (!policy->held) {
        job_begin();
    }
    int code = contend_acquire();
    if (code != CLI_GO_ON) {
        return code;
    }
    runner.granted_ms = now_ms();
    cli_detail("\"%s\": granted after %" PRId64 "ms, token %" PRId64 ", znode %s", contend.name,
               runner.granted_ms - contend.begun_ms, contend.grant.token, contend.node);
    code = call(policy->granted);
    if (code != CLI_GO_ON) {
        contend_release();
    } else {
        code = policy->held ? hold() : job_run();
    }
    runner.ended_ms = now_ms();
    cli_detail("\"%s\": given back after %" PRId64 "ms, exit code %d", contend.name,
               runner.ended_ms - runner.granted_ms, code);
    return code;
}

static int open_and_queue(void)
{
    int code = contend_open();
    if (code == CLI_GO_ON && !policy->held) {
        code = job_fit();
    }
    if (code == CLI_GO_ON) {
        code = call(policy->opened);
    }
    while (code == CLI_GO_ON) {
        code = queue_and_run();
        code = policy->next ? policy->next(code) : code;
        if (code == CLI_GO_ON) {
            contend_begin();
        }
    }
    return code;
}

static const char *named_twice(void)
{
    for (size_t i = 1; i < contend.path_count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (strcmp(contend.paths[i], contend.paths[j]) == 0) {
                return contend.paths[i];
            }
        }
    }
    return NULL;
}

int runner_main(const struct runner_policy *own, int count, const char **words)
{
    policy = own;
    int code = policy->held ? CLI_GO_ON : take_command(count, words);
    if (code != CLI_GO_ON) {
        return code;
    }
    contend.name = words[0];
    contend.paths[0] = cli_lock_path(contend.name);
    if (!contend.paths[0]) {
        return EXIT_FAILED;
    }
    contend.path_count = contend.path_count ? contend.path_count : 1;
    const char *twice = named_twice();
    if (twice) {
        cli_error("%s: '%s' is named twice", policy->name, twice);
        return EXIT_FAILED;
    }
    code = prepare();
    if (code != CLI_GO_ON) {
        return code;
    }
    code = open_and_queue();
    if (policy->closing) {
        policy->closing();
    }
    contend_close();
    if (!policy->held) {
        job_close();
    }
    return runner.report_file ? write_report(code) : code;
}
