/* cmd_once.c - cron's form: once per time slot over all hosts. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <zklock/once.h>

#include "duration.h"
#include "once_status.h"
#include "runner.h"

#define SERVER_MS 10000 /* for the servers' word on the record */

enum { OPTION_SLOT = RUNNER_FIRST_OWN, OPTION_STATUS };

static const struct poptOption options[] = {
    OPTION_VALUE("slot", '\0', OPTION_SLOT,
                 "length of a slot, and where its round times are (from 00:00 UTC)", "DUR[@PHASE]"),
    OPTION_FLAG("status", '\0', OPTION_STATUS,
                "run nothing: was the last slot done? (without --slot: any?)"),
    OPTIONS_RUNNER,
    OPTION_END,
};

struct once {
    struct runner runner;        /* first */
    int64_t length_ms, phase_ms; /* length 0: no --slot */
    bool status;
    zkl_once_slot slot;
};

/* "15m", "15m@5m" */
static bool take_slot(struct once *once, const char *value)
{
    char text[64];
    char *at;
    if (snprintf(text, sizeof text, "%s", value) >= (int)sizeof text) {
        cli_error("--slot: '%s' is no duration", value);
        return false;
    }
    at = strchr(text, '@');
    if (at) {
        *at++ = '\0';
    }
    if (!cli_take_duration("--slot", text, &once->length_ms) ||
        (at && !cli_take_duration("--slot, behind the @", at, &once->phase_ms))) {
        return false;
    }
    if (once->length_ms < 1000 || once->phase_ms >= once->length_ms) {
        cli_error("--slot: '%s': %s", value,
                  once->length_ms < 1000 ? "a slot is a second at the least"
                                         : "the phase is less than the slot");
        return false;
    }
    return true;
}

static bool take(void *into, int option, const char *value)
{
    struct once *once = into;
    bool taken;
    bool fine = runner_take(&once->runner, option, value, &taken);
    if (option == OPTION_STATUS) {
        return once->status = true;
    }
    return taken ? fine : take_slot(once, value);
}

static bool is_for_a_run(const struct runner *runner)
{
    return runner->shell || runner->report_file || runner->job.hook.program ||
           runner->contend.metrics.file || runner->job.grace_ms != JOB_UNSET ||
           runner->job.max_run_ms != JOB_UNSET || runner->contend.wait_ms != ZKL_WAIT_FOREVER ||
           runner->contend.not_granted != EXIT_NOT_GRANTED;
}

static int show_status(struct runner *runner, int count, const char **words)
{
    const struct once *once = (const struct once *)runner;
    if (is_for_a_run(runner)) {
        return cli_usage("once",
                         "once: --status runs nothing: of the options, only --slot goes with it");
    }
    if (count == 0) {
        return cli_usage("once", "once: which job?");
    }
    if (count > 1) {
        return cli_usage("once", "once: '%s': --status runs nothing, and tells of one JOB",
                         words[1]);
    }
    return once_status(runner->contend.cli, words[0], once->length_ms, once->phase_ms);
}

/* --slot has no default. */
static int check_slots(struct runner *runner)
{
    const struct once *once = (const struct once *)runner;
    bool given = once->length_ms > 0;
    if (once->status) {
        runner->instead = show_status;
        return CLI_GO_ON;
    }
    return given ? CLI_GO_ON : cli_usage(runner->subcommand, "once: which slots? --slot 15m");
}

static int opened(struct runner *runner)
{
    zkl_error error;
    int result = zkl_once_prepare(runner->contend.session, runner->contend.path, SERVER_MS, &error);
    return result == ZKL_OK ? CLI_GO_ON : contend_complain(&runner->contend, result, &error);
}

static int granted(struct runner *runner)
{
    struct once *once = (struct once *)runner;
    zkl_error error;
    int result = zkl_once_look(runner->contend.lock, once->length_ms, once->phase_ms, SERVER_MS,
                               &once->slot, &error);
    if (result != ZKL_OK) {
        return contend_complain(&runner->contend, result, &error);
    }
    if (once->slot.done) {
        runner->skipped = "done";
        if (runner->contend.cli->verbose ||
            isatty(STDERR_FILENO)) { /* cron would mail it, every time */
            cli_note(runner->contend.cli, "\"%s\" was done in this slot already",
                     runner->contend.name);
        }
        return 0;
    }
    return CLI_GO_ON;
}

/* Recorded only when CMD succeeded: else another host, or the next call, may try in this slot. */
static int ended(struct runner *runner)
{
    struct once *once = (struct once *)runner;
    zkl_error error;
    if (!runner->job.ran || runner->job.lost || runner->job.code != 0) {
        return CLI_GO_ON;
    }
    int result = zkl_once_record(runner->contend.lock, &once->slot, SERVER_MS, &error);
    if (result == ZKL_OK) {
        runner->job.proved = true;
        return CLI_GO_ON;
    }
    cli_error("\"%s\": CMD succeeded, but the slot could not be recorded: %s", runner->contend.name,
              error.text);
    return result == ZKL_ELOST ? EXIT_LOST : EXIT_FAILED;
}

static int once_command(struct cli *cli, const struct cli_command *self, int argc,
                        const char **argv)
{
    struct once once = {.length_ms = 0};
    runner_init(&once.runner, cli, self->name);
    once.runner.what = "job";
    once.runner.taken = check_slots;
    once.runner.opened = opened;
    once.runner.granted = granted;
    once.runner.ended = ended;
    return runner_main(&once.runner, self, argc, argv, take, &once);
}

const struct cli_command cmd_once = {
    .name = "once",
    .run = once_command,
    .arguments = "--slot DUR[@PHASE] JOB [--] CMD [ARG...]",
    .summary = "run CMD once per time slot over all hosts",
    .examples = "  # the same line in every host's crontab\n"
                "  */15 * * * * zklock once --slot 15m report -- ./report\n"
                "  # round times five minutes past the hour\n"
                "  5 * * * *    zklock once --slot 1h@5m rotate -- ./rotate\n"
                "  # did it? for people and monitoring\n"
                "  zklock once --status --slot 15m report\n",
    .notes = "All hosts that fire in a slot queue for JOB, in order. The first runs CMD; when it "
             "succeeds, the slot is\n"
             "recorded, in one transaction with the proof that JOB is still held, and the others "
             "end with 0 without\n"
             "running it. When the winner dies or fails, the next one in the queue runs it. So "
             "there is at most one\n"
             "recorded success in a slot. Slots go by the servers' clock and reach half a slot to "
             "each side of the round\n"
             "time: hosts whose clocks differ a little neither skip one nor run one twice. Use the "
             "same --slot "
             "everywhere.\n\n"
             "JOB is a znode of its own, not to be used as a LOCK. Exit codes as of 'zklock run'; "
             "0 also when the slot was\n"
             "done already (the report says \"done\").\n\n"
             "--status tells the last slot recorded, and who is at it now. It ends with 0 when the "
             "last slot whose round\n"
             "time is past, by the clock here, is recorded, and with 1 when not.\n",
    .options = options,
};
