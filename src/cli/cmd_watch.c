/* cmd_watch.c - queues live, or from a record: a time line on a terminal, lines otherwise. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "contend.h"
#include "options.h"
#include "queues.h"
#include "record.h"
#include "signals.h"
#include "view.h"

#define LOOK_MS 1000
#define SPAN_MS 60000

enum { OPTION_RECORD = OPTION_FIRST_OWN, OPTION_REPLAY, OPTION_SPEED, OPTION_SPAN };

static const struct poptOption options[] = {
    OPTION_VALUE("record", '\0', OPTION_RECORD, "add what is seen to FILE, with its times", "FILE"),
    OPTION_VALUE("replay", '\0', OPTION_REPLAY, "show what FILE has recorded; needs no server",
                 "FILE"),
    OPTION_VALUE("speed", '\0', OPTION_SPEED, "replay N times as fast as it happened (1)", "N"),
    OPTION_VALUE("span", '\0', OPTION_SPAN, "time that the time line covers (1m)", "DUR"),
    OPTION_END,
};

struct watch {
    struct cli *cli;
    const char *record_file, *replay_file;
    int speed; /* 0: not given */
    int64_t span_ms;
    int count;
    char **paths;
    struct view view;
    struct record record;
    /* Live: */
    zkl_session *session;
    int root;          /* of the paths, the one that is looked at */
    int64_t time_ms;   /* of this look */
    int64_t looked_ms; /* of the last one that succeeded; 0: none did */
    int64_t offset_ms; /* from CLOCK_BOOTTIME: nobody who sets the clock makes the time go back */
    bool blind;
};

static bool take_span(struct watch *watch, const char *value)
{
    if (!cli_take_duration("--span", value, &watch->span_ms)) {
        return false;
    }
    if (watch->span_ms < LOOK_MS) {
        cli_error("--span: '%s' is less than a second", value);
    }
    return watch->span_ms >= LOOK_MS;
}

static bool take(void *into, int option, const char *value)
{
    struct watch *watch = into;
    switch (option) {
    case OPTION_RECORD:
        watch->record_file = value;
        return true;
    case OPTION_REPLAY:
        watch->replay_file = value;
        return true;
    case OPTION_SPEED:
        return cli_take_number("--speed", value, 1, 1000000, &watch->speed);
    default:
        return take_span(watch, value);
    }
}

/* Waits for that long. CLI_GO_ON, or the exit code to end with: a signal came, or the reader of
 * standard output has gone. */
static int wait_for(int64_t time_ms)
{
    struct pollfd fds[] = {{.fd = signals_fd(), .events = POLLIN}, {.fd = STDOUT_FILENO}};
    poll(fds, 2, (int)time_ms); /* the window's size changes by a signal, too */
    int number = signals_next();
    if (signals_is_end(number)) {
        return EXIT_SIGNAL + number;
    }
    return fds[1].revents & (POLLERR | POLLHUP) ? EXIT_DONE : CLI_GO_ON;
}

/* --- live ------------------------------------------------------------------------------------ */

static int show(struct watch *watch, const char *path, json_t *queue)
{
    enum view_result result = VIEW_FAILED;
    if (queue && watch->record.file) {
        history_add_processes(queue);
    }
    if (queue) {
        result = view_look(&watch->view, path, watch->root, watch->time_ms, queue);
    }
    if (result == VIEW_CHANGED) {
        record_queue(&watch->record, watch->time_ms, watch->looked_ms, queue);
    }
    json_decref(queue);
    return result == VIEW_FAILED ? EXIT_FAILED : CLI_GO_ON;
}

static int see(const char *path, const zkl_queue *queue, void *payload)
{
    return show(payload, path, queues_json(path, queue));
}

/* A queue below the path that nobody visited has nobody in it: only those in use are. */
static int show_unused(struct watch *watch)
{
    int code = CLI_GO_ON;
    for (size_t i = 0; code == CLI_GO_ON && i < watch->view.count; i++) {
        const struct view_queue *queue = &watch->view.queues[i];
        const char *path = queue->history->path;
        if (queue->root == watch->root && queue->history->looked_ms != watch->time_ms) {
            code = show(watch, path,
                        json_pack("{s:i, s:s, s:[], s:i}", "v", QUEUES_VERSION, "path", path,
                                  "contenders", "foreign", 0));
        }
    }
    return code;
}

/* CLI_GO_ON or the exit code. */
static int look(struct watch *watch)
{
    int code = CLI_GO_ON;
    watch->time_ms = watch->offset_ms + clock_ms(CLOCK_BOOTTIME);
    for (watch->root = 0; code == CLI_GO_ON && watch->root < watch->count; watch->root++) {
        code = queues_visit(watch->session, watch->paths[watch->root], see, watch);
        code = code == CLI_GO_ON ? show_unused(watch) : code;
    }
    if (code == EXIT_UNREACHABLE && !watch->blind) {
        view_blind(&watch->view, watch->time_ms);
        record_event(&watch->record, watch->time_ms, RECORD_BLIND);
    }
    watch->blind = code == EXIT_UNREACHABLE;
    if (code == CLI_GO_ON) {
        record_looked(&watch->record, watch->time_ms);
        watch->looked_ms = watch->time_ms;
    }
    view_draw(&watch->view, watch->time_ms);
    return watch->blind ? CLI_GO_ON : code; /* that passes, and was said */
}

static int look_until_signal(struct watch *watch)
{
    int code = CLI_GO_ON;
    watch->offset_ms = clock_ms(CLOCK_REALTIME) - clock_ms(CLOCK_BOOTTIME);
    while (code == CLI_GO_ON) {
        signals_end_at_once(!watch->record.file); /* a record has an end to be written */
        code = look(watch);
        signals_end_at_once(false);
        code = code == CLI_GO_ON ? wait_for(LOOK_MS) : code;
    }
    return code;
}

static int watch_live(struct watch *watch)
{
    int code = EXIT_FAILED;
    int64_t now_ms = clock_ms(CLOCK_REALTIME);
    if (watch->record_file && !record_open(&watch->record, watch->record_file, now_ms)) {
        return EXIT_FAILED;
    }
    code = cli_connect(watch->cli, QUEUES_LIST_MS, &watch->session);
    if (code == CLI_GO_ON) {
        code = look_until_signal(watch);
        zkl_session_close(watch->session, LOOK_MS); /* it leaves nothing */
    }
    now_ms = watch->time_ms > now_ms ? watch->time_ms : now_ms;
    return record_close(&watch->record, now_ms) ? code : EXIT_FAILED;
}

/* --- from a record --------------------------------------------------------------------------- */

/* The named paths and what is below them; all, when none is named. */
static bool is_wanted(const struct watch *watch, const char *path)
{
    bool wanted = watch->count == 0;
    for (int i = 0; !wanted && i < watch->count; i++) {
        size_t length = strlen(watch->paths[i]);
        wanted = strncmp(path, watch->paths[i], length) == 0 &&
                 (path[length] == '\0' || path[length] == '/');
    }
    return wanted;
}

/* Lets the time pass until the next line, drawing. A clock that was set back costs no wait. */
static int pass_time(struct watch *watch, int64_t until_ms)
{
    int code = CLI_GO_ON;
    int speed = watch->speed > 0 ? watch->speed : 1;
    bool paced = watch->view.mode == VIEW_SCREEN || watch->speed > 0;
    watch->time_ms = watch->time_ms > 0 && paced ? watch->time_ms : until_ms;
    while (code == CLI_GO_ON && watch->time_ms < until_ms) {
        int64_t left_ms = until_ms - watch->time_ms, most_ms = (int64_t)LOOK_MS * speed;
        int64_t step_ms = left_ms < most_ms ? left_ms : most_ms;
        view_draw(&watch->view, watch->time_ms);
        code = wait_for(step_ms / speed);
        watch->time_ms += step_ms;
    }
    watch->time_ms = until_ms;
    return code;
}

static int replay_line(struct watch *watch, const struct record_line *line)
{
    if (line->event == RECORD_BEGAN) { /* nobody looked before that */
        watch->time_ms = line->time_ms;
    }
    int code = pass_time(watch, line->time_ms);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (line->path && is_wanted(watch, line->path)) {
        return view_look(&watch->view, line->path, 0, line->time_ms, line->object) == VIEW_FAILED
                   ? EXIT_FAILED
                   : code;
    }
    if (line->event == RECORD_LOOKED) {
        view_looked(&watch->view, line->time_ms);
    } else if (line->event != RECORD_QUEUE) {
        view_blind(&watch->view, line->time_ms + 1); /* also between one recording and the next */
    }
    return code;
}

static int replay(struct watch *watch)
{
    struct record_reader reader;
    struct record_line line = {0};
    int code = CLI_GO_ON;
    if (!record_read(&reader, watch->replay_file)) {
        return EXIT_FAILED;
    }
    while (code == CLI_GO_ON && record_next(&reader, &line)) {
        code = replay_line(watch, &line);
    }
    view_draw(&watch->view, watch->time_ms);
    bool read = record_read_close(&reader, &line);
    return code != CLI_GO_ON ? code : read ? EXIT_DONE : EXIT_FAILED;
}

/* --- the subcommand -------------------------------------------------------------------------- */

static bool take_locks(struct watch *watch, int count, const char **locks)
{
    watch->paths = calloc((size_t)count + 1, sizeof *watch->paths);
    if (!watch->paths) {
        cli_error("out of memory");
        return false;
    }
    for (int i = 0; i < count; i++) {
        watch->paths[i] = cli_lock_path(locks[i]);
        watch->count += watch->paths[i] != NULL;
    }
    return watch->count == count;
}

static int watch_all(struct watch *watch)
{
    if (!signals_catch()) {
        cli_error("cannot catch signals: %s", strerror(errno));
        return EXIT_FAILED;
    }
    view_init(&watch->view, watch->cli->json);
    return watch->replay_file ? replay(watch) : watch_live(watch);
}

static int run(struct cli *cli, const struct cli_command *self, int argc, const char **argv)
{
    struct watch watch = {.cli = cli, .span_ms = SPAN_MS};
    int count;
    const char **locks;
    int code = cli_parse(cli, self, argc, argv, take, &watch, &count, &locks);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (count == 0 && !watch.replay_file) {
        return cli_usage("watch", "watch: which lock?");
    }
    if (watch.record_file && watch.replay_file) {
        return cli_usage("watch", "watch: --record and --replay exclude each other");
    }
    if (watch.speed && !watch.replay_file) {
        return cli_usage("watch", "watch: --speed goes with --replay only");
    }
    watch.view.span_ms = watch.span_ms;
    code = take_locks(&watch, count, locks) ? watch_all(&watch) : EXIT_FAILED;
    view_free(&watch.view);
    for (int i = 0; i < watch.count; i++) {
        free(watch.paths[i]);
    }
    free(watch.paths);
    return code;
}

const struct cli_command cmd_watch = {
    .name = "watch",
    .run = run,
    .arguments = "[LOCK...]",
    .summary = "holder and queue, live",
    .examples = "  zklock watch backup deploy        # a time line, until Ctrl-C\n"
                "  zklock watch backup | logger      # piped: one JSON object for every change\n"
                "  zklock watch --record day.jsonl backup\n"
                "  zklock watch --replay day.jsonl --speed 60\n",
    .notes = "Looks once a second, and goes on when servers were away. A row shows one contender: "
             "'.' while it waits,\n"
             "'#' while it holds, '?' while the servers did not respond. What happens between two "
             "looks is not seen.\n"
             "Honours NO_COLOR; where TERM is dumb, it prints a line for every change. The lease "
             "of somebody else's\n"
             "session is known to nobody but that session and the servers, and so is not shown.\n"
             "--record goes on with a record that is there. 'zklock explain' tells what a record "
             "means.\n",
    .options = options,
};
