#include "timeline.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "queues.h"

#define LABELS 19     /* columns of position and time, with the spaces between */
#define WHO_MOST 32   /* columns of who it is */
#define DRAWN_LEAST 8 /* with less there is no time line */
#define CLOCK 8       /* columns of 14:03:59 */
#define ENDED_MOST 5  /* rows of those that ended */

struct layout {
    size_t who, drawn; /* columns */
};

static struct layout lay_out(size_t columns)
{
    size_t left = columns > LABELS ? columns - LABELS : 1;
    size_t who = left * 2 / 5 < WHO_MOST ? left * 2 / 5 : WHO_MOST;
    size_t drawn = left > who + 2 ? left - who - 2 : 0;
    if (drawn < DRAWN_LEAST) {
        return (struct layout){.who = left};
    }
    return (struct layout){.who = who, .drawn = drawn};
}

void timeline_clock(int64_t time_ms, char *text, size_t size)
{
    time_t seconds = (time_t)(time_ms / 1000);
    struct tm local;
    if (!localtime_r(&seconds, &local) || strftime(text, size, "%H:%M:%S", &local) == 0) {
        snprintf(text, size, "?");
    }
}

/* Was it so at some time from..to? An end that has not come is later than all. */
static bool overlaps(int64_t begin_ms, int64_t end_ms, int64_t from_ms, int64_t to_ms)
{
    return begin_ms != 0 && begin_ms < to_ms && (end_ms == 0 || end_ms > from_ms);
}

static char cell(const struct history *history, const struct history_track *track, int64_t from_ms,
                 int64_t to_ms)
{
    if (overlaps(track->seen.at_ms, track->ended.at_ms, from_ms, to_ms) &&
        history_is_blind(history, from_ms, to_ms)) {
        return TIMELINE_BLIND;
    }
    if (overlaps(track->held.at_ms, track->ended.at_ms, from_ms, to_ms)) {
        return TIMELINE_HOLDS;
    }
    return overlaps(track->seen.at_ms, track->ended.at_ms, from_ms, to_ms) ? TIMELINE_WAITS : ' ';
}

/* Cells begin at multiples of their length, so that a bar moves and does not flicker. */
static void draw(FILE *out, const struct history *history, const struct history_track *track,
                 const struct timeline *timeline, size_t columns)
{
    int64_t length = (timeline->to_ms - timeline->from_ms) / (int64_t)columns;
    length = length > 0 ? length : 1;
    int64_t from_ms = (timeline->to_ms / length + 1 - (int64_t)columns) * length;
    fputc(TIMELINE_BEGIN, out);
    for (size_t i = 0; i < columns; i++, from_ms += length) {
        int64_t to_ms = from_ms + length < timeline->to_ms ? from_ms + length : timeline->to_ms;
        fputc(cell(history, track, from_ms, to_ms), out);
    }
}

/* How long it holds or waits, or did. It began when a look first showed that, or, if no look came
 * before, when the znode was created. */
static int64_t duration_of(const struct history_track *track, int64_t now_ms)
{
    struct history_time since = track->held.at_ms ? track->held : track->seen;
    int64_t begin_ms = since.after_ms || !track->created_ms ? since.at_ms : track->created_ms;
    return (track->ended.at_ms ? track->ended.at_ms : now_ms) - begin_ms;
}

static void print_row(FILE *out, const struct history *history, const struct history_track *track,
                      const char *position, const struct timeline *timeline)
{
    struct layout layout = lay_out(timeline->columns);
    char who[256];
    char age[32];
    queues_age(duration_of(track, timeline->to_ms), age, sizeof age);
    snprintf(who, sizeof who, "%s", track->who);
    cli_cut(who, layout.who);
    fprintf(out, "  %-5s  %-8s  %s", position, age, who);
    if (layout.drawn > 0) {
        fprintf(out, "%*s", (int)(layout.who - cli_width(who) + 2), "");
        draw(out, history, track, timeline, layout.drawn);
    }
    fputc('\n', out);
}

static void print_titles(FILE *out, const struct timeline *timeline)
{
    struct layout layout = lay_out(timeline->columns);
    char from[16], to[16];
    timeline_clock(timeline->from_ms, from, sizeof from);
    timeline_clock(timeline->to_ms, to, sizeof to);
    fprintf(out, "  %-5s  %-8s  ", "queue", "for");
    if (layout.drawn > (size_t)2 * CLOCK) {
        fprintf(out, "%-*s  %s%*s\n", (int)layout.who, "who", from, (int)(layout.drawn - CLOCK),
                to);
    } else if (layout.drawn > 0) {
        fprintf(out, "%-*s  %*s\n", (int)layout.who, "who", (int)layout.drawn, to);
    } else {
        fprintf(out, "%.*s\n", (int)layout.who, "who");
    }
}

/* Contenders, in queue order. Returns the lines that it printed. */
static size_t print_queue(FILE *out, const struct history *history, const struct timeline *timeline,
                          size_t rows)
{
    size_t i;
    json_t *contender, *contenders = json_object_get(history->looked, "contenders");
    size_t count = json_array_size(contenders), shown = count <= rows ? count
                                                        : rows > 0    ? rows - 1
                                                                      : 0;
    json_array_foreach(contenders, i, contender)
    {
        char position[24];
        const struct history_track *track =
            history_find(history, json_string_value(json_object_get(contender, "name")));
        if (i == shown) {
            fprintf(out, "  and %zu more\n", count - shown);
            return shown + 1;
        }
        bool stray = json_is_true(json_object_get(contender, "stray"));
        snprintf(position, sizeof position,
                 track->held.at_ms ? "holds"
                 : stray           ? "stray"
                                   : "%zu",
                 i);
        print_row(out, history, track, position, timeline);
    }
    return shown;
}

/* The last ones that ended, the newest first. */
static void print_ended(FILE *out, const struct history *history, const struct timeline *timeline,
                        size_t rows)
{
    size_t left = rows < ENDED_MOST ? rows : ENDED_MOST;
    for (size_t i = history->count; i > 0 && left > 0; i--) {
        const struct history_track *track = history->tracks[i - 1];
        if (track->ended.at_ms > timeline->from_ms) {
            print_row(out, history, track, track->held.at_ms ? "ended" : "left", timeline);
            left--;
        }
    }
}

void timeline_print(FILE *out, const struct history *history, const struct timeline *timeline)
{
    char path[1100];
    cli_printable(history->path, strlen(history->path), path, sizeof path);
    fprintf(out, "%s", path);
    if (history->handovers > 0) {
        fprintf(out, ": %zu hand-over%s", history->handovers, history->handovers > 1 ? "s" : "");
    }
    fputc('\n', out);
    print_titles(out, timeline);
    size_t used = 3;
    if (history_is_idle(history)) {
        fputs("  nobody\n", out);
    } else {
        used = 2 + print_queue(out, history, timeline, timeline->rows > 2 ? timeline->rows - 2 : 1);
    }
    print_ended(out, history, timeline, timeline->rows > used ? timeline->rows - used : 0);
}
