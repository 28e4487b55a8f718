#include "view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli.h"
#include "queues.h"
#include "timeline.h"

#define ROWS_LEAST 4 /* of a queue: its path, the titles, two contenders */

void view_init(struct view *view, bool json)
{
    const char *no = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    bool has_cursor = terminal && *terminal && strcmp(terminal, "dumb") != 0;
    bool piped = json || !isatty(STDOUT_FILENO);
    view->mode = piped ? VIEW_JSON : has_cursor ? VIEW_SCREEN : VIEW_TEXT;
    view->colour = !(no && *no);
    if (view->mode == VIEW_SCREEN) {
        fputs("\033[2J", stdout);
    }
}

void view_free(struct view *view)
{
    for (size_t i = 0; i < view->count; i++) {
        history_free(view->queues[i].history);
        free(view->queues[i].content);
    }
    free(view->queues);
}

/* A line for a terminal that has no cursor. */
static void tell(const struct history *history, const struct history_track *track,
                 enum history_change change, void *payload)
{
    static const char *const words[] = {"queues", "holds", "ended", "left"};
    const struct view *view = payload;
    char clock[16];
    timeline_clock(change == HISTORY_QUEUED    ? track->seen.at_ms
                   : change == HISTORY_GRANTED ? track->held.at_ms
                                               : track->ended.at_ms,
                   clock, sizeof clock);
    if (view->mode == VIEW_TEXT) {
        cli_line(stdout, CLI_FOLD, "%s  %s  %-6s  %s, token %" PRId64, clock, history->path,
                 words[change], track->who, track->token);
    }
}

static void tell_idle(const struct history *history, int64_t time_ms)
{
    char clock[16];
    timeline_clock(time_ms, clock, sizeof clock);
    cli_line(stdout, CLI_FOLD, "%s  %s  nobody", clock, history->path);
}

static struct view_queue *find(struct view *view, const char *path, int root)
{
    for (size_t i = 0; i < view->count; i++) {
        if (strcmp(view->queues[i].history->path, path) == 0) {
            return &view->queues[i];
        }
    }
    struct view_queue *queues = realloc(view->queues, (view->count + 1) * sizeof *queues);
    if (!queues) {
        return NULL;
    }
    view->queues = queues;
    queues[view->count] =
        (struct view_queue){.history = history_new(path, tell, view), .root = root};
    return queues[view->count].history ? &queues[view->count++] : NULL;
}

/* A queue has changed when its contenders or their order have, and not when they became older. */
static char *content_of(json_t *queue)
{
    static const char *const keys[] = {"name", "holds", "process"};
    json_t *content = json_array(), *contender;
    size_t i;
    json_array_foreach(json_object_get(queue, "contenders"), i, contender)
    {
        for (size_t key = 0; key < sizeof keys / sizeof *keys; key++) {
            json_array_append(content, json_object_get(contender, keys[key]));
        }
    }
    json_array_append(content, json_object_get(queue, "foreign"));
    char *text = json_dumps(content, JSON_COMPACT);
    json_decref(content);
    return text;
}

enum view_result view_look(struct view *view, const char *path, int root, int64_t time_ms,
                           json_t *queue)
{
    struct view_queue *found = find(view, path, root);
    char *content = found ? content_of(queue) : NULL;
    if (!content) {
        cli_error("out of memory");
        return VIEW_FAILED;
    }
    bool same = found->content && strcmp(found->content, content) == 0;
    free(found->content);
    found->content = content;
    if (!history_look(found->history, time_ms, queue)) {
        cli_error("%s: this is no queue, or memory ran out", path);
        return VIEW_FAILED;
    }
    if (!same && view->mode == VIEW_TEXT && history_is_idle(found->history)) {
        tell_idle(found->history, time_ms);
    }
    if (!same && view->mode == VIEW_JSON && !queues_print_json(json_incref(queue))) {
        return VIEW_FAILED; /* which is said at the end, for all output alike */
    }
    return same ? VIEW_SAME : VIEW_CHANGED;
}

void view_looked(struct view *view, int64_t time_ms)
{
    for (size_t i = 0; i < view->count; i++) {
        struct history *history = view->queues[i].history;
        if (history->looked) {
            history_look(history, time_ms, history->looked);
        }
    }
}

void view_blind(struct view *view, int64_t time_ms)
{
    for (size_t i = 0; i < view->count; i++) {
        history_blind(view->queues[i].history, time_ms);
    }
}

/* What is drawn, in colours. */
static void print_drawn(const char *drawn)
{
    for (char last = ' '; *drawn; last = *drawn++) {
        if (*drawn != last) {
            const char *colour = *drawn == TIMELINE_HOLDS   ? "\033[0;32m"
                                 : *drawn == TIMELINE_WAITS ? "\033[0;33m"
                                 : *drawn == TIMELINE_BLIND ? "\033[0;31m"
                                                            : "\033[0m";
            fputs(colour, stdout);
        }
        putchar(*drawn);
    }
    fputs("\033[0m", stdout);
}

static void print_line(const struct view *view, char *line, size_t columns)
{
    char *drawn = strchr(line, TIMELINE_BEGIN);
    bool bold = view->colour && strncmp(line, "  holds", 7) == 0;
    if (drawn) {
        *drawn++ = '\0';
    }
    cli_cut(line, columns);
    printf("%s%s%s", bold ? "\033[1m" : "", line, bold ? "\033[0m" : "");
    if (drawn && view->colour) {
        print_drawn(drawn);
    } else if (drawn) {
        fputs(drawn, stdout);
    }
    fputs("\033[K\n", stdout);
}

static void draw_all(struct view *view, FILE *out, size_t rows, size_t columns, int64_t now_ms)
{
    struct timeline timeline = {
        .columns = columns, .from_ms = now_ms - view->span_ms, .to_ms = now_ms + 1};
    timeline.rows = view->count > 0 ? rows / view->count : rows;
    timeline.rows = timeline.rows < ROWS_LEAST ? ROWS_LEAST : timeline.rows;
    for (size_t i = 0; i < view->count; i++) {
        if (view->queues[i].history->looked) {
            timeline_print(out, view->queues[i].history, &timeline);
        }
    }
}

/* Also where nothing is drawn: a recording may go on for months. */
static void forget_old(struct view *view, int64_t now_ms)
{
    for (size_t i = 0; i < view->count; i++) {
        history_forget(view->queues[i].history, now_ms - view->span_ms);
    }
}

void view_draw(struct view *view, int64_t now_ms)
{
    char *text = NULL;
    size_t size = 0;
    struct winsize window;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_row > 1;
    size_t rows = (known ? window.ws_row : 24u) - 1u, columns = (size_t)cli_columns(STDOUT_FILENO);
    forget_old(view, now_ms);
    FILE *out = view->mode == VIEW_SCREEN ? open_memstream(&text, &size) : NULL;
    if (out) {
        draw_all(view, out, rows, columns, now_ms);
    }
    if (out && fclose(out) == 0) {
        char *rest = text;
        fputs("\033[H", stdout);
        for (char *line = strsep(&rest, "\n"); rest && rows > 0;
             line = strsep(&rest, "\n"), rows--) {
            print_line(view, line, columns);
        }
        fputs("\033[J", stdout);
        fflush(stdout);
    }
    free(text);
}
