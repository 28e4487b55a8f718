/* cmd_once.c - cron's form: once per time slot over all hosts; and what is recorded of a job. */
#include "runner.h"

#define LENGTH_MAX_MS (3660 * CLI_DAY_MS) /* the library's limit */

static int64_t length_ms, phase_ms; /* length 0: no --slot */
static bool want_status;

/* A semaphore's limit is a number as well: a slot in the first seconds of 1970. CLI_GO_ON, or the
 * exit code after it was said that there is one. */
static int check_record(const char *path, int64_t last_ms)
{
    if (last_ms <= 0 || last_ms > ZKL_PERMITS_MAX) {
        return CLI_GO_ON;
    }
    cli_error("%s: used as a semaphore, not as a job", path);
    return EXIT_FAILED;
}

/* --- --status --------------------------------------------------------------------------------- */

#define UNKNOWN INT64_MIN

/* Reads the queue before the record: a job that ends in between shows as recorded, and not as
 * neither recorded nor running. */
static int show_status(const char *path)
{
    zkl_queue *queue;
    int64_t last_ms, recorded_ms; /* UNKNOWN: nothing is recorded */
    int64_t due_ms = UNKNOWN;     /* round time of the slot that was to be recorded */
    int code = queues_list(&queue, path);
    if (code != CLI_GO_ON) {
        return code;
    }
    int result = zkl_once_last(cli_session, path, length_ms, CLI_CALL_MS, &last_ms, &recorded_ms,
                               &cli_failure);
    code = queues_outcome(path, result);
    code = code == CLI_GO_ON ? check_record(path, last_ms) : code;
    if (code != CLI_GO_ON) {
        zkl_queue_free(queue);
        return code;
    }
    if (length_ms > 0) {
        /* The last round time that is past. A job is not due before its round time, though its slot
         * began half a slot earlier: a nightly job has not failed at noon. */
        int64_t since_ms = clock_ms(CLOCK_REALTIME) - phase_ms;
        due_ms = since_ms - (since_ms % length_ms + length_ms) % length_ms + phase_ms;
    }
    bool known = last_ms != UNKNOWN, due = due_ms != UNKNOWN, printed = true;
    bool done = known && last_ms >= due_ms;
    if (cli.json) {
        json_t *object = queues_json(path, queue);
        json_object_update_new(object,
                               json_pack("{s:s?, s:o?, s:s?, s:o?, s:o?, s:s?, s:o?, s:b}", "slot",
                                         known ? queues_utc(last_ms).bytes : NULL, "slot_ms",
                                         queues_number(known, last_ms), "recorded",
                                         known ? queues_utc(recorded_ms).bytes : NULL,
                                         "recorded_ms", queues_number(known, recorded_ms), "age_ms",
                                         queues_number(known, queues_age_ms(recorded_ms)), "due",
                                         due ? queues_utc(due_ms).bytes : NULL, "due_ms",
                                         queues_number(due, due_ms), "done", done));
        printed = queues_print_json(object);
    } else if (!cli.quiet) {
        size_t holder = queues_holder(queue);
        if (known) {
            cli_line(stdout, CLI_FOLD, "%s: last recorded slot %s, at %s, %s ago", path,
                     queues_utc(last_ms).bytes, queues_utc(recorded_ms).bytes,
                     queues_age(queues_age_ms(recorded_ms)).bytes);
        } else {
            cli_line(stdout, CLI_FOLD, "%s: nothing is recorded", path);
        }
        if (due) {
            cli_line(stdout, CLI_FOLD, "%s: slot %s is %s", path, queues_utc(due_ms).bytes,
                     done ? "done" : "not done");
        }
        if (holder == queue->count) {
            cli_line(stdout, CLI_FOLD, "%s: nobody is at it", path);
        } else {
            cli_line(stdout, CLI_FOLD, "%s: at it now: %s; %zu behind", path,
                     queues_who(&queue->entries[holder]).bytes, queue->count - holder - 1);
        }
    }
    zkl_queue_free(queue);
    return !printed ? EXIT_FAILED : done ? EXIT_DONE : EXIT_NOT_DONE;
}

/* --- running it ------------------------------------------------------------------------------ */

static zkl_once_slot slot;

/* "15m", "15m@5m" */
static bool take_slot(const char *value)
{
    char text[64];
    char *at;
    if (snprintf(text, sizeof text, "%s", value) >= (int)sizeof text) {
        cli_error("--slot: '%s' is no duration", value);
        return false;
    }
    phase_ms = 0; /* the last --slot counts */
    at = strchr(text, '@');
    if (at) {
        *at++ = '\0';
    }
    if (!cli_take_duration("--slot", text, 0, LENGTH_MAX_MS, &length_ms) ||
        (at && !cli_take_duration("--slot, behind the @", at, 0, INT64_MAX, &phase_ms))) {
        return false;
    }
    if (length_ms < 1000 || phase_ms >= length_ms) {
        cli_error("--slot: '%s': %s", value,
                  length_ms < 1000 ? "a slot is a second at the least"
                                   : "the phase is less than the slot");
        return false;
    }
    return true;
}

static const struct cli_option options[] = {
    OPTION_TAKEN("slot", '\0', "DUR[@PHASE]", take_slot,
                 "length of a slot, and where its round times are (from 00:00 UTC)"),
    OPTION_FLAG("status", '\0', &want_status,
                "run nothing: was the last slot done? (without --slot: any?)"),
    OPTIONS_WAIT,
    OPTION_MAX_RUN,
    OPTIONS_JOB,
    {0},
};

static int opened(void)
{
    return contend_await(zkl_once_prepare_async(cli_session, contend.paths[0], CLI_CALL_MS,
                                                contend_answered, NULL, &cli_failure));
}

static int granted(void)
{
    int code = contend_await(zkl_once_look_async(contend.lock, length_ms, phase_ms, CLI_CALL_MS,
                                                 &slot, contend_answered, NULL, &cli_failure));
    code = code == CLI_GO_ON ? check_record(zkl_lock_path(contend.lock), slot.last_ms) : code;
    if (code != CLI_GO_ON || !slot.done) {
        return code;
    }
    runner.skipped = "done";
    if (cli.verbose || isatty(STDERR_FILENO)) { /* cron would mail it, every time */
        cli_note("\"%s\" was done in this slot already", contend.name);
    }
    return EXIT_DONE;
}

/* Recorded only when CMD succeeded: else another host, or the next call, may try in this slot. */
static int ended(void)
{
    if (!job.ran || job.lost || job.code != 0) {
        return CLI_GO_ON;
    }
    if (job.stop != JOB_NOT_STOPPED || job.stop_requested) {
        /* A job that was stopped did not finish, though it may exit with 0. */
        cli_error("\"%s\": CMD was stopped by %s: the slot is not recorded", contend.name,
                  job.stop_requested ? "a signal" : "--max-run");
        return EXIT_FAILED;
    }
    int result = zkl_once_record(contend.lock, &slot, CLI_CALL_MS, &cli_failure);
    if (result == ZKL_OK) {
        job.proved = true;
        return CLI_GO_ON;
    }
    cli_error("\"%s\": CMD succeeded, but the slot could not be recorded: %s", contend.name,
              cli_failure.text);
    return result == ZKL_ELOST ? EXIT_LOST : EXIT_FAILED;
}

static int run(const char **words)
{
    static const struct runner_policy policy = {
        .name = "once", .opened = opened, .granted = granted, .ended = ended};
    if (!want_status && length_ms == 0) {
        return cli_usage("once", "once: which slots? --slot 15m");
    }
    if (!want_status) {
        return runner_main(&policy, words);
    }
    if (runner.shell || runner.report_file || hook_program || metrics_file ||
        job.grace_ms != JOB_UNSET || job.max_run_ms != JOB_UNSET ||
        contend.wait_ms != ZKL_WAIT_FOREVER || contend.not_granted != EXIT_NOT_GRANTED) {
        return cli_usage("once",
                         "once: --status runs nothing: of the options, only --slot goes with it");
    }
    if (words[1]) {
        return cli_usage("once", "once: '%s': --status runs nothing, and shows one JOB", words[1]);
    }
    return queues_act(words[0], show_status);
}

const struct cli_command cmd_once = {
    .name = "once",
    .run = run,
    .arguments = "--slot DUR[@PHASE] JOB [--] CMD [ARG...]",
    .wanted = "which job?",
    .summary = "run CMD once per time slot over all hosts",
    .examples = "  # the same line in every host's crontab\n"
                "  */15 * * * * zklock once --slot 15m report -- ./report\n"
                "  # round times five minutes past the hour\n"
                "  5 * * * *    zklock once --slot 1h@5m rotate -- ./rotate\n"
                "  # did it? for people and monitoring\n"
                "  zklock once --status --slot 15m report\n",
    .notes = "All hosts that fire in a slot queue for JOB, in order. The first runs CMD; when\n"
             "it succeeds, the slot is recorded, in one transaction with the proof that JOB\n"
             "is still held, and the others end with 0 without running it. When the winner\n"
             "dies or fails, the next one in the queue runs it. So there is at most one\n"
             "recorded success in a slot. Slots go by the servers' clock and reach half a\n"
             "slot to each side of the round time: hosts whose clocks differ a little neither\n"
             "skip one nor run one twice. Use the same --slot everywhere.\n\n"
             "A CMD that --max-run, or a TERM, INT or QUIT sent to zklock, stopped is not\n"
             "recorded, whatever its exit code.\n\n"
             "JOB is a znode of its own, not to be used as a LOCK. Exit codes as of 'zklock\n"
             "run'; 0 also when the slot was done already (the report says \"done\"), 125 for\n"
             "0 of a CMD that was stopped.\n\n"
             "--status shows the last slot recorded, and who is at it now. It ends with 0\n"
             "when the last slot whose round time is past, by the clock here, is recorded,\n"
             "and with 1 when not.\n",
    .options = options,
};
