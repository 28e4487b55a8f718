#include "history.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "identity.h"

#define WHO_MAX 256
#define TIME_END_MS 253402300800000 /* the year 10000 */

static const char *const processes[] = {"", "runs", "stopped", "gone"};

struct history *history_new(const char *path, history_fn tell, void *payload)
{
    struct history *history = calloc(1, sizeof *history);
    if (history) {
        *history = (struct history){
            .path = strdup(path), .index = json_object(), .tell = tell, .payload = payload};
    }
    if (history && (!history->path || !history->index)) {
        history_free(history);
        return NULL;
    }
    return history;
}

static void free_track(struct history_track *track)
{
    free(track->name);
    free(track->who);
    free(track->session);
    free(track);
}

void history_free(struct history *history)
{
    for (size_t i = 0; i < history->count; i++) {
        free_track(history->tracks[i]);
    }
    free(history->tracks);
    free(history->gaps);
    json_decref(history->index);
    json_decref(history->looked);
    free(history->path);
    free(history);
}

static bool grow(struct history *history)
{
    size_t size = history->size ? 2 * history->size : 16;
    struct history_track **tracks = realloc(history->tracks, size * sizeof *tracks);
    if (tracks) {
        history->tracks = tracks;
        history->size = size;
    }
    return tracks != NULL;
}

static char *printable(const char *text)
{
    char plain[WHO_MAX];
    cli_printable(text, strlen(text), plain, sizeof plain);
    return strdup(plain);
}

const char *history_text_in(const json_t *object, const char *key, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text && *text ? text : otherwise;
}

int64_t history_number_in(const json_t *object, const char *key)
{
    return (int64_t)json_integer_value(json_object_get(object, key));
}

int64_t history_time_in(const json_t *object, const char *key)
{
    int64_t time_ms = (int64_t)json_integer_value(json_object_get(object, key));
    return time_ms > 0 && time_ms < TIME_END_MS ? time_ms : 0;
}

/* The track of a contender that no look has shown before. NULL without memory. */
static struct history_track *add(struct history *history, json_t *contender, const char *name)
{
    struct history_track *track = calloc(1, sizeof *track);
    if (!track || (history->count == history->size && !grow(history))) {
        free(track);
        return NULL;
    }
    track->name = strdup(name);
    track->who = printable(history_text_in(contender, "identity", name));
    track->session = printable(history_text_in(contender, "session", "-"));
    track->token = history_number_in(contender, "token");
    track->created_ms = history_time_in(contender, "created_ms");
    json_t *place = json_integer((json_int_t)history->count);
    if (!track->name || !track->who || !track->session ||
        json_object_set_new(history->index, name, place) != 0) {
        free_track(track);
        return NULL;
    }
    history->tracks[history->count++] = track;
    return track;
}

struct history_track *history_find(const struct history *history, const char *name)
{
    json_t *place = json_object_get(history->index, name);
    return place ? history->tracks[json_integer_value(place)] : NULL;
}

static void tell(struct history *history, const struct history_track *track,
                 enum history_change change)
{
    if (history->tell) {
        history->tell(history, track, change, history->payload);
    }
}

static bool is_form(json_t *queue)
{
    size_t i;
    json_t *contender, *contenders = json_object_get(queue, "contenders");
    json_array_foreach(contenders, i, contender)
    {
        if (!json_is_string(json_object_get(contender, "name"))) {
            return false;
        }
    }
    return json_is_array(contenders);
}

static enum history_process process_of(json_t *contender)
{
    const char *text = history_text_in(contender, "process", "");
    enum history_process process = HISTORY_PROCESS_GONE;
    while (process > HISTORY_PROCESS_UNKNOWN && strcmp(text, processes[process]) != 0) {
        process--;
    }
    return process;
}

/* A process that goes on after a stop, and is stopped again, counts by the last stop. */
static void note_process(struct history_track *track, json_t *contender, struct history_time now)
{
    enum history_process process = process_of(contender);
    if (process != track->process && process == HISTORY_PROCESS_STOPPED) {
        track->stopped = now;
    }
    if (process != track->process && process == HISTORY_PROCESS_GONE) {
        track->gone = now;
    }
    track->process = process;
}

/* Contenders that the look does not show have ended. No name comes back: its number is used up. */
static void end_missing(struct history *history, json_t *present, struct history_time now)
{
    void *next;
    const char *name;
    json_t *place;
    json_object_foreach_safe(history->index, next, name, place)
    {
        struct history_track *track = history->tracks[json_integer_value(place)];
        if (!json_object_get(present, name)) {
            track->ended = now;
            json_object_del(history->index, name);
            tell(history, track, track->held.at_ms ? HISTORY_RELEASED : HISTORY_LEFT);
        }
    }
}

static json_t *names_of(json_t *contenders)
{
    size_t i;
    json_t *contender, *names = json_object();
    json_array_foreach(contenders, i, contender)
    {
        json_object_set_new(names, history_text_in(contender, "name", ""), json_true());
    }
    return names;
}

static void grant(struct history *history, struct history_track *track, struct history_time now)
{
    track->held = now;
    history->handovers += track->seen.at_ms != now.at_ms;
    tell(history, track, HISTORY_GRANTED);
}

/* One contender of the look, which stands at `position`. */
static bool follow(struct history *history, json_t *contender, size_t position, int64_t before,
                   struct history_time now)
{
    const char *name = history_text_in(contender, "name", "");
    struct history_track *track = history_find(history, name);
    bool fresh = !track;
    if (fresh && !(track = add(history, contender, name))) {
        return false;
    }
    note_process(track, contender, now);
    if (fresh) {
        track->seen = now;
        track->behind = position;
        track->predecessor = before;
        tell(history, track, HISTORY_QUEUED);
    }
    if (json_is_true(json_object_get(contender, "holds")) && !track->held.at_ms) {
        grant(history, track, now);
    }
    return true;
}

static void end_gap(struct history *history, int64_t time_ms)
{
    if (history->gap_count > 0 && history->gaps[history->gap_count - 1].to_ms == 0) {
        history->gaps[history->gap_count - 1].to_ms = time_ms;
    }
}

bool history_look(struct history *history, int64_t time_ms, json_t *queue)
{
    int64_t after_ms =
        history_time_in(queue, "after_ms"); /* a record has only the looks that showed a change */
    struct history_time now = {.at_ms = time_ms, .after_ms = history->looked_ms};
    if (after_ms > now.after_ms && after_ms < time_ms && now.after_ms) {
        now.after_ms = after_ms;
    }
    json_t *contenders = json_object_get(queue, "contenders");
    json_t *contender, *names;
    size_t i;
    int64_t before = 0;
    if (!is_form(queue) || !(names = names_of(contenders))) {
        return false;
    }
    end_gap(history, time_ms);
    end_missing(history, names, now);
    json_decref(names);
    json_array_foreach(contenders, i, contender)
    {
        if (!follow(history, contender, i, before, now)) {
            return false;
        }
        before = history_number_in(contender, "token");
    }
    history->began_ms = history->began_ms ? history->began_ms : time_ms;
    history->looked_ms = time_ms;
    json_t *last = history->looked;
    history->looked = json_incref(queue);
    json_decref(last);
    return true;
}

void history_blind(struct history *history, int64_t time_ms)
{
    bool blind = history->gap_count > 0 && history->gaps[history->gap_count - 1].to_ms == 0;
    struct history_gap *gaps =
        blind ? NULL : realloc(history->gaps, (history->gap_count + 1) * sizeof *history->gaps);
    if (gaps) {
        gaps[history->gap_count++] = (struct history_gap){.from_ms = time_ms};
        history->gaps = gaps;
    }
}

bool history_is_blind(const struct history *history, int64_t from_ms, int64_t to_ms)
{
    for (size_t i = 0; i < history->gap_count; i++) {
        const struct history_gap *gap = &history->gaps[i];
        if (gap->from_ms < to_ms && (gap->to_ms == 0 || gap->to_ms > from_ms)) {
            return true;
        }
    }
    return false;
}

void history_forget(struct history *history, int64_t before_ms)
{
    size_t kept = 0, gaps = 0;
    for (size_t i = 0; i < history->count; i++) {
        struct history_track *track = history->tracks[i];
        if (track->ended.at_ms && track->ended.at_ms < before_ms) {
            free_track(track);
            continue;
        }
        if (!track->ended.at_ms) {
            json_object_set_new(history->index, track->name, json_integer((json_int_t)kept));
        }
        history->tracks[kept++] = track;
    }
    history->count = kept;
    for (size_t i = 0; i < history->gap_count; i++) {
        if (history->gaps[i].to_ms == 0 || history->gaps[i].to_ms >= before_ms) {
            history->gaps[gaps++] = history->gaps[i];
        }
    }
    history->gap_count = gaps;
}

bool history_is_idle(const struct history *history)
{
    return json_array_size(json_object_get(history->looked, "contenders")) == 0;
}

/* The state that the kernel shows: the letter behind the name, which may have parentheses in it. */
static enum history_process look_at_process(int pid)
{
    char file[64];
    char line[512] = "";
    snprintf(file, sizeof file, "/proc/%d/stat", pid);
    if (pid <= 0) {
        return HISTORY_PROCESS_UNKNOWN;
    }
    FILE *stat = fopen(file, "re");
    if (!stat) { /* /proc may hide others' processes; kill() does not */
        return kill(pid, 0) != 0 && errno == ESRCH ? HISTORY_PROCESS_GONE : HISTORY_PROCESS_UNKNOWN;
    }
    bool read = fgets(line, sizeof line, stat) != NULL;
    fclose(stat);
    const char *end = read ? strrchr(line, ')') : NULL;
    char state = end && end[1] ? end[2] : '\0';
    return state == 'T' || state == 't'   ? HISTORY_PROCESS_STOPPED
           : state == 'Z' || state == 'X' ? HISTORY_PROCESS_GONE
           : state                        ? HISTORY_PROCESS_RUNS
                                          : HISTORY_PROCESS_UNKNOWN;
}

void history_add_processes(json_t *queue)
{
    size_t i;
    json_t *contender, *contenders = json_object_get(queue, "contenders");
    struct identity own;
    identity_own(&own);
    json_array_foreach(contenders, i, contender)
    {
        if (strcmp(history_text_in(contender, "host", ""), own.host) == 0) {
            enum history_process process =
                look_at_process((int)history_number_in(contender, "pid"));
            json_t *text =
                process == HISTORY_PROCESS_UNKNOWN ? NULL : json_string(processes[process]);
            json_object_set_new(contender, "process", text); /* NULL: nothing is set */
        }
    }
}
