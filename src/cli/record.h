/* record.h - looks at queues, in a file: one JSON object a line, each with the time of the look.
 *
 * A line has a queue as `zklock watch` prints it into a pipe, or an event: "began", "looked"
 * (nothing has changed until then), "blind" (the servers did not respond), "ended". A record that
 * ends without "ended" was cut off: nothing is known from its last line on. */
#ifndef CLI_RECORD_H
#define CLI_RECORD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum record_event { RECORD_QUEUE, RECORD_BEGAN, RECORD_LOOKED, RECORD_BLIND, RECORD_ENDED };

struct record {
    const char *file; /* NULL: there is none, and every function does nothing */
    int fd;
    int64_t written_ms; /* time of the last line */
    bool torn;          /* the last line is not whole */
    bool failed;        /* which was said */
};

/* Opens a new file, or goes on with a record that is there. A symbolic link is refused, and a file
 * that has something else in it. False after it was said why. */
bool record_open(struct record *record, const char *file, int64_t time_ms);
/* Adds a queue, which stays the caller's. after_ms: the look before, which showed none of the
 * change; 0: there was none. */
void record_queue(struct record *record, int64_t time_ms, int64_t after_ms, json_t *queue);
/* Adds an event, not a queue. */
void record_event(struct record *record, int64_t time_ms, enum record_event event);
/* Adds "looked" when the last line is old. */
void record_looked(struct record *record, int64_t time_ms);
/* False when a line is missing, which was said. */
bool record_close(struct record *record, int64_t time_ms);

/* Reading. */
struct record_reader {
    const char *file;
    FILE *stream;
    size_t line, skipped; /* skipped: lines that are no part of a record */
};
struct record_line {
    int64_t time_ms;
    enum record_event event;
    const char *path; /* of a queue */
    json_t *object;   /* record_next drops the one before */
};

/* False after it was said why. */
bool record_read(struct record_reader *reader, const char *file);
/* The next line. False at the end. */
bool record_next(struct record_reader *reader, struct record_line *line);
/* Says how many lines were skipped. False when the file could not be read to its end, or is no
 * record. */
bool record_read_close(struct record_reader *reader, struct record_line *line);

#endif
