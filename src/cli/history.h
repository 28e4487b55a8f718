/* history.h - what became of each contender of one queue, from one look at the queue to the next.
 *
 * A look is the JSON object that queues_json() makes, or one that a record has: so the live view, a
 * replay and a post-mortem are the same. Between two looks nothing is known: each change therefore
 * has two times, the look that shows it and the look before that. */
#ifndef CLI_HISTORY_H
#define CLI_HISTORY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A change that a look showed. */
struct history_time {
    int64_t at_ms;    /* the look that shows it; 0: it did not happen yet */
    int64_t after_ms; /* the look before that, which did not; 0: there was none */
};

enum history_process {
    HISTORY_PROCESS_UNKNOWN, /* of another host, or of a client that does not say */
    HISTORY_PROCESS_RUNS,
    HISTORY_PROCESS_STOPPED,
    HISTORY_PROCESS_GONE
};

/* One contender: it queues, may be granted, and ends. */
struct history_track {
    char *name;         /* of its znode */
    char *who;          /* printable */
    char *session;      /* as ZooKeeper writes it; "-": not readable */
    int64_t token;      /* 0: not readable */
    int64_t created_ms; /* by the servers' clock; 0: not readable */
    struct history_time seen, held, ended;
    struct history_time stopped, gone; /* its process, where that can be seen */
    enum history_process process;
    size_t behind;       /* contenders ahead of it when it was first seen */
    int64_t predecessor; /* token of the one directly ahead then; 0: none, or not readable */
};

struct history_gap {
    int64_t from_ms, to_ms; /* to_ms 0: it lasts */
};

enum history_change { HISTORY_QUEUED, HISTORY_GRANTED, HISTORY_RELEASED, HISTORY_LEFT };

struct history;
/* Called for each change that a look shows, in the order of ends, grants, arrivals. */
typedef void (*history_fn)(const struct history *history, const struct history_track *track,
                           enum history_change change, void *payload);

struct history {
    char *path;
    struct history_track **tracks; /* in the order in which they were first seen */
    size_t count, size;
    json_t *index;  /* name to place in tracks, of those that are there */
    json_t *looked; /* the last look */
    int64_t began_ms, looked_ms;
    struct history_gap *gaps; /* when nobody could look */
    size_t gap_count;
    size_t handovers; /* grants after another contender's end */
    history_fn tell;
    void *payload;
};

/* NULL without memory. */
struct history *history_new(const char *path, history_fn tell, void *payload);
void history_free(struct history *history);
/* Takes a look. False when the object has another form, or there is no memory. */
bool history_look(struct history *history, int64_t time_ms, json_t *queue);
/* From this time on nobody could look, until the next look. */
void history_blind(struct history *history, int64_t time_ms);
/* Nothing was seen from the last look until this time, by the record's own word. */
bool history_is_blind(const struct history *history, int64_t from_ms, int64_t to_ms);
/* Drops those that ended before this time. */
void history_forget(struct history *history, int64_t before_ms);
/* The one with this name that is there, or NULL. */
struct history_track *history_find(const struct history *history, const char *name);
/* The last look had nobody in it. */
bool history_is_idle(const struct history *history);

/* A time in a JSON object, ms since 1970; 0 when there is none, or one that no calendar has. */
int64_t history_time_in(const json_t *object, const char *key);
/* A number in a JSON object, or 0; a text, or otherwise where there is none or an empty one. */
int64_t history_number_in(const json_t *object, const char *key);
const char *history_text_in(const json_t *object, const char *key, const char *otherwise);

/* Writes "process" into each contender of this host: "runs", "stopped" or "gone". Names of hosts
 * may be equal in two containers, whose processes are not the same. */
void history_add_processes(json_t *queue);

#endif
