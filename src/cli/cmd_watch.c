/* cmd_watch.c - queues live: a table on a terminal, a stream of JSON lines otherwise. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "contend.h"
#include "options.h"
#include "queues.h"
#include "signals.h"

static const struct poptOption options[] = {OPTION_END};

#define LOOK_MS 1000

struct watch {
    struct cli *cli;
    zkl_session *session;
    int count;
    char **paths;
    char **seen; /* per path: what was last told, as JSON; NULL: nothing yet */
    bool table;  /* for people; else JSON lines */
    bool bold;
};

/* What is seen at one of the paths in one look. */
struct sight {
    FILE *screen;   /* the table */
    json_t *queues; /* the lines */
    json_t *
        content; /* what makes a queue another one: who stands in it and in which order, not how old they have become */
};

static int see(const char *path, const zkl_queue *queue, void *payload)
{
    struct sight *sight = payload;
    queues_print(sight->screen, path, queue);
    json_array_append_new(sight->queues, queues_json(path, queue));
    json_array_append_new(sight->content, json_string(path));
    for (size_t i = 0; i < queue->count; i++) {
        json_array_append_new(sight->content, json_string(queue->entries[i].name));
    }
    json_array_append_new(sight->content, json_integer((json_int_t)queue->foreign));
    return CLI_GO_ON;
}

/* JSON lines when the queues are not as they were told last. */
static bool tell_change(struct watch *watch, int index, const struct sight *sight)
{
    char *now = json_dumps(sight->content, JSON_COMPACT);
    bool same = now && watch->seen[index] && strcmp(now, watch->seen[index]) == 0;
    bool told = true;
    free(watch->seen[index]);
    watch->seen[index] = now;
    for (size_t i = 0; told && !same && i < json_array_size(sight->queues); i++) {
        told = queues_print_json(json_incref(json_array_get(sight->queues, i)));
    }
    return told;
}

static int look_at(struct watch *watch, int index, FILE *screen)
{
    struct sight sight = {.screen = screen, .queues = json_array(), .content = json_array()};
    int code = queues_visit(watch->session, watch->paths[index], see, &sight);
    if (code == CLI_GO_ON && !watch->table && !tell_change(watch, index, &sight)) {
        code = EXIT_FAILED;
    }
    json_decref(sight.queues);
    json_decref(sight.content);
    return code;
}

/* Prints the lines that fit the screen, each as far as it fits; the holder in bold. */
static void print_screen(const struct watch *watch, char *text)
{
    struct winsize size;
    int rows = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1 ? size.ws_row : 24;
    size_t columns = (size_t)cli_columns(STDOUT_FILENO);
    fputs("\033[H", stdout);
    for (char *line = strsep(&text, "\n"); text && rows > 1; line = strsep(&text, "\n"), rows--) {
        bool bold = watch->bold && strncmp(line, "  holds", 7) == 0;
        cli_cut(line, columns);
        printf("%s%s%s\033[K\n", bold ? "\033[1m" : "", line, bold ? "\033[0m" : "");
    }
    fputs("\033[J", stdout);
    fflush(stdout);
}

/* CLI_GO_ON or the exit code. */
static int look(struct watch *watch)
{
    char *text = NULL;
    size_t size = 0;
    FILE *screen = open_memstream(&text, &size);
    int code = screen ? CLI_GO_ON : EXIT_FAILED;
    for (int i = 0; code == CLI_GO_ON && i < watch->count; i++) {
        code = look_at(watch, i, screen);
    }
    if (screen && fclose(screen) == 0 && code == CLI_GO_ON && watch->table) {
        print_screen(watch, text);
    }
    free(text);
    return code;
}

static int look_until_signal(struct watch *watch)
{
    struct pollfd fds[] = {{.fd = signals_fd(), .events = POLLIN}, {.fd = STDOUT_FILENO}};
    if (watch->table) {
        fputs("\033[2J", stdout);
    }
    for (;;) {
        signals_end_at_once(true);
        int code = look(watch);
        signals_end_at_once(false);
        if (code != CLI_GO_ON && code != EXIT_UNREACHABLE) { /* that passes, and was said */
            return code;
        }
        poll(fds, 2, LOOK_MS); /* the window's size changes by a signal too */
        int number = signals_next();
        if (signals_is_end(number)) {
            return EXIT_SIGNAL + number;
        }
        if (fds[1].revents & (POLLERR | POLLHUP)) {
            return EXIT_DONE; /* nobody reads any more */
        }
    }
}

static bool take_locks(struct watch *watch, int count, const char **locks)
{
    watch->paths = calloc((size_t)count, sizeof *watch->paths);
    watch->seen = calloc((size_t)count, sizeof *watch->seen);
    if (!watch->paths || !watch->seen) {
        cli_error("out of memory");
        return false;
    }
    for (int i = 0; i < count; i++) {
        watch->paths[i] = cli_lock_path(locks[i]);
        watch->count += watch->paths[i] != NULL;
    }
    return watch->count == count;
}

static void forget(struct watch *watch)
{
    for (int i = 0; i < watch->count; i++) {
        free(watch->paths[i]);
        free(watch->seen[i]);
    }
    free(watch->paths);
    free(watch->seen);
}

static bool wants_color(void)
{
    const char *no = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    return !(no && *no) && terminal && strcmp(terminal, "dumb") != 0;
}

static int watch_all(struct watch *watch)
{
    if (!signals_catch()) {
        cli_error("cannot catch signals: %s", strerror(errno));
        return EXIT_FAILED;
    }
    int code = cli_connect(watch->cli, QUEUES_LIST_MS, &watch->session);
    if (code == CLI_GO_ON) {
        code = look_until_signal(watch);
        zkl_session_close(watch->session, LOOK_MS); /* it leaves nothing */
    }
    return code;
}

static int run(struct cli *cli, const struct cli_command *self, int argc, const char **argv)
{
    struct watch watch = {.cli = cli, .table = !cli->json && isatty(STDOUT_FILENO), .bold = wants_color()};
    int count;
    const char **locks;
    int code = cli_parse(cli, self, argc, argv, NULL, NULL, &count, &locks);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (count == 0) {
        return cli_usage("watch", "watch: which lock?");
    }
    watch.table = !cli->json && isatty(STDOUT_FILENO);
    code = take_locks(&watch, count, locks) ? watch_all(&watch) : EXIT_FAILED;
    forget(&watch);
    return code;
}

const struct cli_command cmd_watch = {
    .name = "watch",
    .run = run,
    .arguments = "LOCK...",
    .summary = "holder and queue, live",
    .examples = "  zklock watch backup deploy        # a table, until Ctrl-C\n"
                "  zklock watch backup | logger      # piped: one JSON object for every change\n",
    .notes = "Looks once a second, and goes on when servers were away. Honours NO_COLOR.\n",
    .options = options,
};
