#include "facts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "record.h"

static bool no_memory(void)
{
    cli_error("out of memory");
    return false;
}

/* A new one at the end, without its texts; NULL without memory. */
static struct fact *add(struct facts *facts)
{
    struct fact *all = realloc(facts->all, (facts->count + 1) * sizeof *all);
    if (!all) {
        return NULL;
    }
    facts->all = all;
    all[facts->count] = (struct fact){.name = NULL};
    return &all[facts->count++];
}

/* The fact of this znode; a new one when nothing is known of it yet. NULL without memory. */
static struct fact *find(struct facts *facts, const char *name, const char *who)
{
    for (size_t i = 0; *name && i < facts->count; i++) {
        if (strcmp(facts->all[i].name, name) == 0) {
            return &facts->all[i];
        }
    }
    struct fact *fact = add(facts);
    if (fact) {
        fact->name = strdup(name);
        fact->who = strdup(who);
    }
    if (!fact || !fact->name || !fact->who) {
        no_memory(); /* which ends it all: facts_free frees what there is */
        return NULL;
    }
    return fact;
}

/* Two records bound a change from both sides. */
static void narrow(struct history_time *known, struct history_time other)
{
    if (other.at_ms && (!known->at_ms || other.at_ms < known->at_ms)) {
        known->at_ms = other.at_ms;
    }
    if (other.at_ms && other.after_ms > known->after_ms && other.after_ms <= known->at_ms) {
        known->after_ms = other.after_ms;
    }
}

/* --- records --------------------------------------------------------------------------------- */

/* A znode was created before the look that first shows it, and after the look before that. */
static void note_skew(struct facts *facts, const struct history_track *track)
{
    int64_t early_ms = track->seen.after_ms ? track->created_ms - track->seen.after_ms : 0;
    int64_t late_ms = track->created_ms - track->seen.at_ms;
    int64_t skew_ms = late_ms > 0 ? late_ms : early_ms < 0 ? early_ms : 0;
    if (track->created_ms && llabs(skew_ms) > llabs(facts->skew_ms)) {
        facts->skew_ms = skew_ms;
    }
}

static bool add_track(struct facts *facts, const struct history_track *track)
{
    struct fact *fact = find(facts, track->name, track->who);
    if (!fact) {
        return false;
    }
    bool first = !fact->recorded || track->seen.after_ms;
    fact->recorded = true;
    fact->token = track->token ? track->token : fact->token;
    fact->queued_ms = track->created_ms ? track->created_ms : track->seen.at_ms;
    narrow(&fact->granted, track->held);
    narrow(&fact->ended, track->ended);
    narrow(&fact->stopped, track->stopped);
    narrow(&fact->gone, track->gone);
    fact->process = track->process;
    if (first) {
        fact->behind = track->behind;
        fact->predecessor = track->predecessor;
    }
    note_skew(facts, track);
    return true;
}

static bool read_lines(struct history *history, struct record_reader *reader,
                       struct record_line *line)
{
    while (record_next(reader, line)) {
        if (line->path && strcmp(line->path, history->path) == 0) {
            if (!history_look(history, line->time_ms, line->object)) {
                cli_error("%s: line %zu: this is no queue, or memory ran out", reader->file,
                          reader->line);
                return false;
            }
        } else if (line->event == RECORD_LOOKED && history->looked) {
            history_look(history, line->time_ms, history->looked);
        } else if (line->event != RECORD_QUEUE && line->event != RECORD_LOOKED) {
            history_blind(history, line->time_ms);
        }
    }
    return true;
}

bool facts_add_record(struct facts *facts, const char *file)
{
    struct record_reader reader;
    struct record_line line = {0};
    struct history **all = realloc(facts->histories, (facts->history_count + 1) * sizeof *all);
    if (!all) {
        return no_memory();
    }
    facts->histories = all;
    struct history *history = history_new(facts->path, NULL, NULL);
    if (!history) {
        return no_memory();
    }
    facts->histories[facts->history_count++] = history;
    if (!record_read(&reader, file)) {
        return false;
    }
    bool fine = read_lines(history, &reader, &line);
    fine = record_read_close(&reader, &line) && fine;
    for (size_t i = 0; fine && i < history->count; i++) {
        fine = add_track(facts, history->tracks[i]);
    }
    return fine;
}

/* --- reports --------------------------------------------------------------------------------- */

static char *plain(const json_t *object, const char *key, char *text, size_t size)
{
    const char *value = history_text_in(object, key, "");
    cli_printable(value, strlen(value), text, size);
    return text;
}

/* Its own process wrote it: nothing is known better. */
static bool add_report(struct facts *facts, json_t *report)
{
    char who[256];
    char node[1200];
    plain(report, "who", who, sizeof who);
    plain(report, "node", node, sizeof node);
    const char *slash = strrchr(node, '/');
    struct fact *fact = find(facts, slash ? slash + 1 : node, *who ? who : "?");
    if (!fact) {
        return false;
    }
    int64_t granted_ms = history_time_in(report, "granted_at_ms");
    int64_t ended_ms = history_time_in(report, "ended_at_ms");
    fact->report = json_incref(report);
    fact->token = fact->token ? fact->token : history_number_in(report, "token");
    fact->queued_ms = fact->queued_ms ? fact->queued_ms : history_time_in(report, "queued_at_ms");
    if (granted_ms > 0) {
        fact->granted = (struct history_time){granted_ms, granted_ms};
        fact->ended = (struct history_time){ended_ms, ended_ms};
    }
    return true;
}

bool facts_add_report(struct facts *facts, const char *file)
{
    json_error_t error;
    json_t *report = json_load_file(file, JSON_DISABLE_EOF_CHECK, &error);
    const char *path = json_string_value(json_object_get(report, "path"));
    bool fine = true;
    if (!path || !json_is_string(json_object_get(report, "outcome"))) {
        cli_error("--report %s: %s", file,
                  report ? "no report; 'zklock run --report FILE' writes one" : error.text);
        fine = false;
    } else if (strcmp(path, facts->path) != 0) {
        cli_error("--report %s: this is about %s and was left out", file, path);
        facts->foreign_reports++;
    } else {
        fine = add_report(facts, report);
    }
    json_decref(report);
    return fine;
}

/* --- now ------------------------------------------------------------------------------------- */

bool facts_add_now(struct facts *facts, json_t *queue, int64_t now_ms)
{
    struct history *history = history_new(facts->path, NULL, NULL);
    bool fine = history && history_look(history, now_ms, queue);
    facts->now = json_incref(queue);
    facts->now_ms = now_ms;
    for (size_t i = 0; fine && i < history->count; i++) {
        const struct history_track *track = history->tracks[i];
        struct fact *fact = find(facts, track->name, track->who);
        fine = fact != NULL;
        if (fine) {
            fact->there = true;
            fact->holds = track->held.at_ms != 0;
            fact->token = track->token;
            fact->queued_ms = track->created_ms ? track->created_ms : fact->queued_ms;
            fact->behind = fact->recorded ? fact->behind : track->behind;
            fact->predecessor = fact->recorded ? fact->predecessor : track->predecessor;
            fact->process = track->process;
            fact->ended = (struct history_time){0, 0};
            narrow(&fact->granted, track->held);
            narrow(&fact->stopped, track->stopped);
            narrow(&fact->gone, track->gone);
        }
    }
    for (size_t i = 0; fine && i < facts->count; i++) {
        if (!facts->all[i].there && !facts->all[i].ended.at_ms && *facts->all[i].name) {
            facts->all[i].ended.at_ms = now_ms; /* it stood in a record, and is gone */
        }
    }
    if (history) {
        history_free(history);
    }
    return fine || no_memory();
}

/* --- all of them ----------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const struct fact *left = a, *right = b;
    return left->token != right->token
               ? (left->token > right->token) - (left->token < right->token)
               : (left->queued_ms > right->queued_ms) - (left->queued_ms < right->queued_ms);
}

void facts_sort(struct facts *facts)
{
    if (facts->count > 0) {
        qsort(facts->all, facts->count, sizeof *facts->all, compare);
    }
}

const struct fact *facts_with_token(const struct facts *facts, int64_t token)
{
    for (size_t i = 0; token && i < facts->count; i++) {
        if (facts->all[i].token == token) {
            return &facts->all[i];
        }
    }
    return NULL;
}

void facts_free(struct facts *facts)
{
    for (size_t i = 0; i < facts->count; i++) {
        free(facts->all[i].name);
        free(facts->all[i].who);
        json_decref(facts->all[i].report);
    }
    for (size_t i = 0; i < facts->history_count; i++) {
        history_free(facts->histories[i]);
    }
    free(facts->all);
    free(facts->histories);
    json_decref(facts->now);
}

enum fact_end fact_end(const struct fact *fact)
{
    bool ended = !fact->there && fact->ended.at_ms;
    if (fact->report) {
        return FACT_REPORTED;
    }
    if (fact->there || !ended) {
        return fact->holds || (!fact->there && fact->granted.at_ms) ? FACT_HOLDS : FACT_WAITS;
    }
    if (fact->process == HISTORY_PROCESS_GONE && fact->gone.at_ms < fact->ended.after_ms) {
        return FACT_KILLED; /* a look after that still showed its znode: it was not released first
                             */
    }
    if (fact->process == HISTORY_PROCESS_STOPPED && fact->stopped.at_ms < fact->ended.after_ms) {
        return FACT_STOPPED;
    }
    return fact->granted.at_ms ? FACT_UNKNOWN : FACT_LEFT;
}

bool fact_is_loss(const struct fact *fact)
{
    const char *outcome = json_string_value(json_object_get(fact->report, "outcome"));
    enum fact_end end = fact_end(fact);
    return (outcome && strcmp(outcome, "lost") == 0) ||
           (fact->granted.at_ms && (end == FACT_KILLED || end == FACT_STOPPED));
}
