/* cmd_once.c - cron's form: once per time slot over all hosts; and what is recorded of a job. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zklock/once.h>

#include "clock.h"
#include "contend.h"
#include "options.h"
#include "queues.h"
#include "runner.h"

/* --- --status --------------------------------------------------------------------------------- */

#define UNKNOWN INT64_MIN
#define UTC_MAX 40

struct status {
    const char *path;
    int64_t last_ms, recorded_ms; /* UNKNOWN: nothing is recorded */
    int64_t due_ms;               /* round time of the slot that was to be recorded; UNKNOWN */
    bool done;
    const zkl_queue *queue;
};

/* The last round time that is past. Nobody is late before it, though his slot began half a slot
 * earlier: a job of every night has not failed at noon. */
static int64_t last_round(int64_t now_ms, int64_t length_ms, int64_t phase_ms)
{
    int64_t since = now_ms - phase_ms;
    return since - (since % length_ms + length_ms) % length_ms + phase_ms;
}

/* How long ago, by the clock here, as the ages of a queue are. */
static int64_t ago_ms(int64_t time_ms)
{
    int64_t ago;
    bool fits = !__builtin_sub_overflow(clock_ms(CLOCK_REALTIME), time_ms, &ago);
    return fits && ago > 0 ? ago : 0;
}

static void add_time(json_t *object, const char *text_name, const char *ms_name, int64_t time_ms)
{
    char text[UTC_MAX];
    bool known = time_ms != UNKNOWN;
    queues_utc(known ? time_ms : 0, text, sizeof text);
    json_object_set_new(object, text_name, known ? json_string(text) : json_null());
    json_object_set_new(object, ms_name, known ? json_integer((json_int_t)time_ms) : json_null());
}

static bool print_json(const struct status *status)
{
    json_t *object = queues_json(status->path, status->queue);
    bool known = status->recorded_ms != UNKNOWN;
    add_time(object, "slot", "slot_ms", status->last_ms);
    add_time(object, "recorded", "recorded_ms", status->recorded_ms);
    json_object_set_new(object, "age_ms",
                        known ? json_integer((json_int_t)ago_ms(status->recorded_ms))
                              : json_null());
    add_time(object, "due", "due_ms", status->due_ms);
    json_object_set_new(object, "done", json_boolean(status->done));
    return queues_print_json(object);
}

static bool print_record(const struct status *status)
{
    char slot[UTC_MAX], recorded[UTC_MAX], age[32];
    if (status->last_ms == UNKNOWN) {
        return cli_line(stdout, CLI_FOLD, "%s: nothing is recorded", status->path);
    }
    queues_utc(status->last_ms, slot, sizeof slot);
    queues_utc(status->recorded_ms, recorded, sizeof recorded);
    queues_age(ago_ms(status->recorded_ms), age, sizeof age);
    return cli_line(stdout, CLI_FOLD, "%s: last recorded slot %s, at %s, %s ago", status->path,
                    slot, recorded, age);
}

static bool print_due(const struct status *status)
{
    char due[UTC_MAX];
    if (status->due_ms == UNKNOWN) {
        return true;
    }
    queues_utc(status->due_ms, due, sizeof due);
    return cli_line(stdout, CLI_FOLD, "%s: slot %s is %s", status->path, due,
                    status->done ? "done" : "not done");
}

static bool print_queue(const struct status *status)
{
    char who[256];
    size_t holder = queues_holder(status->queue);
    if (holder == status->queue->count) {
        return cli_line(stdout, CLI_FOLD, "%s: nobody is at it", status->path);
    }
    queues_who(&status->queue->entries[holder], who, sizeof who);
    return cli_line(stdout, CLI_FOLD, "%s: at it now: %s; %zu behind", status->path, who,
                    status->queue->count - holder - 1);
}

static bool print(const struct status *status)
{
    if (cli.json) {
        return print_json(status);
    }
    return cli.quiet || (print_record(status) && print_due(status) && print_queue(status));
}

/* CLI_GO_ON, or the exit code after it was said why. */
static int read_record(zkl_session *session, struct status *status, int64_t length_ms)
{
    zkl_error error;
    if (queues_is_semaphore(status->queue)) { /* whose data is a number as well */
        cli_error("%s: used as a semaphore, not as a job", status->path);
        return EXIT_FAILED;
    }
    int result = zkl_once_last(session, status->path, length_ms, QUEUES_LIST_MS, &status->last_ms,
                               &status->recorded_ms, &error);
    return result == ZKL_OK ? CLI_GO_ON : queues_complain(status->path, result, &error);
}

/* The queue is read before the record: so a job that ends in between is seen as recorded, and not
 * as neither recorded nor under way. */
static int ask(zkl_session *session, const char *path, int64_t length_ms, int64_t phase_ms)
{
    struct status status = {.path = path, .due_ms = UNKNOWN};
    zkl_queue *queue;
    int code = queues_list(&queue, session, path);
    if (code != CLI_GO_ON) {
        return code;
    }
    status.queue = queue;
    code = read_record(session, &status, length_ms);
    if (code == CLI_GO_ON) {
        status.due_ms =
            length_ms > 0 ? last_round(clock_ms(CLOCK_REALTIME), length_ms, phase_ms) : UNKNOWN;
        status.done = status.last_ms != UNKNOWN && status.last_ms >= status.due_ms;
        code = !print(&status) ? EXIT_FAILED : status.done ? EXIT_DONE : EXIT_NOT_DONE;
    }
    zkl_queue_free(queue);
    return code;
}

static int once_status(const char *job, int64_t length_ms, int64_t phase_ms)
{
    zkl_session *session;
    char *path = cli_lock_path(job);
    if (!path) {
        return EXIT_FAILED;
    }
    int code = cli_connect(QUEUES_LIST_MS, &session);
    if (code == CLI_GO_ON) {
        code = ask(session, path, length_ms, phase_ms);
        zkl_session_close(session, QUEUES_LIST_MS);
    }
    free(path);
    return code;
}

/* --- running it ------------------------------------------------------------------------------- */

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
    return once_status(words[0], once->length_ms, once->phase_ms);
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
        if (cli.verbose || isatty(STDERR_FILENO)) { /* cron would mail it, every time */
            cli_note("\"%s\" was done in this slot already", runner->contend.name);
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

static int once_command(const struct cli_command *self, int argc, const char **argv)
{
    struct once once = {.length_ms = 0};
    runner_init(&once.runner, self->name);
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
