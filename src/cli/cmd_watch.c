/* cmd_watch.c - queues, live: the table of ls on a terminal, a JSON object for each change into a
 * pipe. */
#include <sys/ioctl.h>

#include "queues.h"

#define LOOK_MS 1000

/* A queue that was seen at or below one of the paths. One below is forgotten when it was shown to
 * be free: locks come and go for as long as we watch. */
struct watched {
    struct watched *next;
    char *content; /* what was last shown, but for times */
    size_t root;   /* of the paths, the last one at or below which it was seen */
    bool in_use;   /* as this look shows it */
    char path[];
};

static struct {
    const char **paths; /* with NULL behind them */
    enum { WATCH_SCREEN, WATCH_TEXT, WATCH_JSON } form;
    size_t root;  /* of the paths, the one that is looked at */
    FILE *screen; /* what this look will show, when the form is a screen */
    struct watched *queues;
} watch;

static int show(const char *path, const zkl_queue *queue)
{
    struct watched *known = watch.queues;
    char *content = NULL;
    size_t size = strlen(path) + 1;
    while (known && strcmp(known->path, path) != 0) {
        known = known->next;
    }
    if (!known && (known = calloc(1, sizeof *known + size))) {
        known->next = watch.queues;
        memcpy(known->path, path, size);
        watch.queues = known;
    }
    /* A queue has changed when its contenders or their order have, and not when they became older.
     */
    FILE *out = known ? open_memstream(&content, &size) : NULL;
    for (size_t i = 0; out && i < queue->count; i++) {
        fprintf(out, "%s %d\n", queue->entries[i].name, queue->entries[i].holds);
    }
    bool whole = out && fprintf(out, "%zu", queue->foreign) >= 0;
    if (!out || fclose(out) != 0 || !whole) {
        free(content);
        cli_error("out of memory");
        return EXIT_FAILED;
    }
    bool same = known->content && strcmp(known->content, content) == 0;
    free(known->content);
    known->content = content;
    known->root = watch.root;
    known->in_use = true;
    if (watch.form == WATCH_SCREEN) {
        queues_print(watch.screen, path, queue);
    } else if (!same && watch.form == WATCH_TEXT) {
        queues_print(stdout, path, queue);
    } else if (!same && !queues_print_json(queues_json(path, queue))) {
        return EXIT_FAILED; /* which is said at the end, for all output alike */
    }
    return CLI_GO_ON;
}

static int look(void)
{
    static const zkl_queue nobody = {0};
    int code = CLI_GO_ON;
    for (struct watched *known = watch.queues; known; known = known->next) {
        known->in_use = false;
    }
    for (watch.root = 0; code == CLI_GO_ON && watch.paths[watch.root]; watch.root++) {
        code = queues_visit(watch.paths[watch.root], show);
        /* Only queues in use are visited below a path, so one that was not visited has nobody in
         * it. */
        struct watched *known, **at = &watch.queues;
        while (code == CLI_GO_ON && (known = *at)) {
            bool used = known->root != watch.root || known->in_use;
            code = used ? CLI_GO_ON : show(known->path, &nobody);
            if (used || strcmp(known->path, watch.paths[watch.root]) == 0) {
                at = &known->next;
            } else {
                *at = known->next;
                free(known->content);
                free(known);
            }
        }
    }
    return code;
}

/* Draws over the last screen, as many lines as the window has. A list that failed half way is not
 * drawn: the last screen stays, and the reason below it. */
static int list_and_draw(void)
{
    char *text = NULL;
    size_t size;
    struct winsize window;
    watch.screen = open_memstream(&text, &size);
    if (!watch.screen) {
        cli_error("out of memory");
        return EXIT_FAILED;
    }
    int code = look();
    if (fclose(watch.screen) == 0 && code == CLI_GO_ON) {
        bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_row > 1;
        size_t rows = (known ? window.ws_row : 24u) - 1u;
        char *rest = text;
        fputs("\033[H", stdout);
        for (char *line; rows > 0 && (line = strsep(&rest, "\n")) && rest; rows--) {
            cli_cut(line, cli_columns(STDOUT_FILENO));
            printf("%s\033[K\n", rows == 1 && *rest ? "..." : line);
        }
        fputs("\033[J", stdout);
        fflush(stdout);
    }
    free(text);
    return code;
}

static int run(const char **locks)
{
    const char *terminal = getenv("TERM");
    bool has_cursor = terminal && *terminal && strcmp(terminal, "dumb") != 0;
    bool piped = cli.json || !isatty(STDOUT_FILENO);
    watch.form = piped ? WATCH_JSON : has_cursor ? WATCH_SCREEN : WATCH_TEXT;
    watch.paths = locks;
    int code = queues_paths(locks) ? signals_catch() : EXIT_FAILED;
    code = code == CLI_GO_ON ? cli_connect(CLI_CALL_MS, NULL) : code;
    if (code != CLI_GO_ON) {
        return code;
    }
    if (watch.form == WATCH_SCREEN) {
        fputs("\033[2J", stdout);
    }
    /* Until a signal comes, or the reader of standard output has gone. */
    while (code == CLI_GO_ON) {
        signals_end_at_once = true;
        code = watch.form == WATCH_SCREEN ? list_and_draw() : look();
        signals_end_at_once = false;
        if (code == CLI_GO_ON || code == EXIT_UNREACHABLE) { /* which passes, and was reported */
            struct pollfd fds[] = {{.fd = signals_pipe[0], .events = POLLIN},
                                   {.fd = STDOUT_FILENO}};
            poll(fds, 2, LOOK_MS); /* the window's size changes by a signal, too */
            int number = signals_next();
            code = signals_is_end(number)                 ? EXIT_SIGNAL + number
                   : fds[1].revents & (POLLERR | POLLHUP) ? EXIT_DONE
                                                          : CLI_GO_ON;
        }
    }
    zkl_session_close(cli_session, LOOK_MS); /* it leaves nothing */
    return code;
}

const struct cli_command cmd_watch = {
    .name = "watch",
    .run = run,
    .arguments = "LOCK...",
    .wanted = "which lock?",
    .summary = "holder and queue, live",
    .examples = "  zklock watch backup deploy        # the table of ls, until Ctrl-C\n"
                "  zklock watch backup | logger      # piped: one JSON object for every change\n",
    .notes = "Lists once a second, and goes on when servers were away. What happens between\n"
             "two lists is not seen. Where TERM is dumb, it prints the table at every change.\n",
};
