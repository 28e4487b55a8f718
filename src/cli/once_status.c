#include "once_status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <zklock/once.h>

#include "clock.h"
#include "contend.h"
#include "options.h"
#include "queues.h"

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

static bool print(const struct cli *cli, const struct status *status)
{
    if (cli->json) {
        return print_json(status);
    }
    return cli->quiet || (print_record(status) && print_due(status) && print_queue(status));
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
static int ask(struct cli *cli, zkl_session *session, const char *path, int64_t length_ms,
               int64_t phase_ms)
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
        code = !print(cli, &status) ? EXIT_FAILED : status.done ? EXIT_DONE : EXIT_NOT_DONE;
    }
    zkl_queue_free(queue);
    return code;
}

int once_status(struct cli *cli, const char *job, int64_t length_ms, int64_t phase_ms)
{
    zkl_session *session;
    char *path = cli_lock_path(job);
    if (!path) {
        return EXIT_FAILED;
    }
    int code = cli_connect(cli, QUEUES_LIST_MS, &session);
    if (code == CLI_GO_ON) {
        code = ask(cli, session, path, length_ms, phase_ms);
        zkl_session_close(session, QUEUES_LIST_MS);
    }
    free(path);
    return code;
}
