#include "record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "history.h"
#include "newfile.h"
#include "queues.h"

#define LOOKED_MS 10000

static const char *const events[] = {[RECORD_BEGAN] = "began",
                                     [RECORD_LOOKED] = "looked",
                                     [RECORD_BLIND] = "blind",
                                     [RECORD_ENDED] = "ended"};

static bool complain(struct record *record)
{
    cli_error("--record %s: %s", record->file, newfile_reason());
    record->failed = true;
    return false;
}

/* One write, so that a reader sees whole lines. The rest of a line that a full disk cut off becomes
 * a line of its own. */
static void put(struct record *record, json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    char *line = NULL;
    int size = text ? asprintf(&line, "%s%s\n", record->torn ? "\n" : "", text) : -1;
    ssize_t put = size > 0 ? write(record->fd, line, (size_t)size) : -1;
    bool whole = size > 0 && put == size;
    errno = size <= 0 ? ENOMEM : put >= 0 && !whole ? ENOSPC : errno;
    if (!whole && !record->failed) {
        complain(record);
    }
    record->torn = whole ? false : record->torn || put > 0;
    free(size > 0 ? line : NULL);
    free(text);
}

void record_queue(struct record *record, int64_t time_ms, int64_t after_ms, json_t *queue)
{
    if (record->file) {
        json_t *line = json_pack("{s:i, s:I, s:I}", "v", QUEUES_VERSION, "time_ms",
                                 (json_int_t)time_ms, "after_ms", (json_int_t)after_ms);
        json_object_update_missing(line, queue);
        put(record, line);
        record->written_ms = time_ms;
        json_decref(line);
    }
}

void record_event(struct record *record, int64_t time_ms, enum record_event event)
{
    if (record->file) {
        json_t *line = json_pack("{s:i, s:I, s:s}", "v", QUEUES_VERSION, "time_ms",
                                 (json_int_t)time_ms, "event", events[event]);
        put(record, line);
        record->written_ms = time_ms;
        json_decref(line);
    }
}

void record_looked(struct record *record, int64_t time_ms)
{
    if (record->file && time_ms - record->written_ms >= LOOKED_MS) {
        record_event(record, time_ms, RECORD_LOOKED);
    }
}

/* Takes a line of a record. False when it is none. */
static bool parse(struct record_line *line, const char *text, size_t size)
{
    line->object = json_loadb(text, size, 0, NULL);
    line->time_ms = history_time_in(line->object, "time_ms");
    line->path = json_string_value(json_object_get(line->object, "path"));
    line->event = RECORD_QUEUE;
    const char *event = json_string_value(json_object_get(line->object, "event"));
    if (event && !line->path) {
        line->event = RECORD_BLIND; /* what a later release may say shows no queue either */
        for (enum record_event at = RECORD_BEGAN; at <= RECORD_ENDED; at++) {
            line->event = strcmp(event, events[at]) == 0 ? at : line->event;
        }
    }
    return line->time_ms > 0 && (line->path || event);
}

/* An empty file, or a record of ours. */
static bool is_record(const char *file, bool *torn)
{
    struct record_line line = {0};
    char *text = NULL;
    size_t room = 0;
    FILE *stream = fopen(file, "re");
    ssize_t size = stream ? getline(&text, &room, stream) : -1;
    bool ours = !stream || size <= 0 || parse(&line, text, (size_t)size);
    *torn = stream && size > 0 && fseek(stream, -1, SEEK_END) == 0 && fgetc(stream) != '\n';
    if (stream) {
        fclose(stream);
    }
    json_decref(line.object);
    free(text);
    return ours;
}

bool record_open(struct record *record, const char *file, int64_t time_ms)
{
    bool regular = false;
    *record = (struct record){.file = file, .fd = newfile_append(file, &regular)};
    if (record->fd < 0) {
        return complain(record);
    }
    if (regular && !is_record(file, &record->torn)) {
        cli_error("--record %s: there is something else in it; name another file", file);
        close(record->fd);
        return false;
    }
    record_event(record, time_ms, RECORD_BEGAN);
    return !record->failed;
}

bool record_close(struct record *record, int64_t time_ms)
{
    record_event(record, time_ms, RECORD_ENDED);
    if (record->file && close(record->fd) != 0 && !record->failed) {
        complain(record);
    }
    return !record->failed;
}

bool record_read(struct record_reader *reader, const char *file)
{
    *reader = (struct record_reader){.file = file, .stream = fopen(file, "re")};
    if (!reader->stream) {
        cli_error("%s: %s", file, strerror(errno));
    }
    return reader->stream != NULL;
}

bool record_next(struct record_reader *reader, struct record_line *line)
{
    char *text = NULL;
    size_t room = 0;
    ssize_t size;
    bool parsed = false;
    while (!parsed && (size = getline(&text, &room, reader->stream)) > 0) {
        json_decref(line->object);
        reader->line++;
        parsed = parse(line, text, (size_t)size);
        reader->skipped += !parsed && size > 1; /* an empty line is none */
    }
    free(text);
    return parsed;
}

bool record_read_close(struct record_reader *reader, struct record_line *line)
{
    bool fine = !ferror(reader->stream);
    json_decref(line->object);
    line->object = NULL;
    if (!fine) {
        cli_error("%s: %s", reader->file, strerror(errno));
    } else if (reader->skipped == reader->line) {
        cli_error("%s: no record; 'zklock watch --record %s LOCK' makes one", reader->file,
                  reader->file);
        fine = false;
    } else if (reader->skipped > 0) {
        cli_error("%s: %zu lines are no part of a record and were skipped", reader->file,
                  reader->skipped);
    }
    fclose(reader->stream);
    return fine;
}
