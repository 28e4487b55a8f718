#include "stage.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_TEXT = 8192 };

/* --- what may differ and what may not ------------------------------------------------------------------------------ */

static void see_moment(struct stage *stage, int64_t zxid, int64_t time_ms)
{
    if (stage->moment_count == stage->moment_room) {
        stage->moment_room = stage->moment_room * 2 + 64;
        stage->moments = stage_room(stage->moments, stage->moment_room, sizeof *stage->moments);
    }
    stage->moments[stage->moment_count].zxid = zxid;
    stage->moments[stage->moment_count++].time_ms = time_ms;
}

static bool has_stat(const struct zkl__stat *stat)
{
    static const struct zkl__stat none;
    return memcmp(stat, &none, sizeof none) != 0;
}

static void see_stat(struct stage *stage, const struct zkl__stat *stat)
{
    if (has_stat(stat)) {
        see_moment(stage, stat->czxid, stat->ctime_ms);
        see_moment(stage, stat->mzxid, stat->mtime_ms);
    }
}

static int by_moment(const void *a, const void *b)
{
    const struct moment *left = a, *right = b;
    return left->zxid != right->zxid ? (left->zxid > right->zxid) - (left->zxid < right->zxid)
                                     : (left->time_ms > right->time_ms) - (left->time_ms < right->time_ms);
}

bool stage_settle_moments(struct stage *stage)
{
    size_t kept = 0;
    if (stage->moment_count > 0) {
        qsort(stage->moments, stage->moment_count, sizeof *stage->moments, by_moment);
    }
    for (size_t i = 0; i < stage->moment_count; i++) {
        struct moment *last = kept > 0 ? &stage->moments[kept - 1] : NULL, now = stage->moments[i];
        bool same = last && last->zxid == now.zxid;
        if (last && (same ? last->time_ms != now.time_ms : last->time_ms > now.time_ms)) {
            fprintf(stderr, "%s: time goes wrong: zxid %#llx at %lld ms, zxid %#llx at %lld ms\n", stage->world->name,
                    (unsigned long long)last->zxid, (long long)last->time_ms, (unsigned long long)now.zxid,
                    (long long)now.time_ms);
            return false;
        }
        kept += !same;
        stage->moments[kept - 1] = now;
    }
    stage->moment_count = kept;
    return true;
}

static size_t rank(const struct stage *stage, int64_t zxid)
{
    size_t low = 0, high = stage->moment_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (stage->moments[middle].zxid < zxid) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void owner_text(char *out, size_t size, const struct stage *stage, int64_t owner)
{
    for (int i = 0; i < stage->count; i++) {
        if (owner != 0 && stage->world->id(stage->players[i].session) == owner) {
            snprintf(out, size, "session%d", i);
            return;
        }
    }
    snprintf(out, size, "%lld", (long long)owner);
}

/* --- lines --------------------------------------------------------------------------------------------------------- */

struct line {
    char text[LINE_TEXT];
    size_t at;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line->text + line->at, sizeof line->text - line->at, format, args);
    va_end(args);
    line->at += length > 0 ? (size_t)length : 0;
    line->at = line->at < sizeof line->text ? line->at : sizeof line->text - 1;
}

static void add_stat(struct line *line, const struct stage *stage, const struct zkl__stat *stat)
{
    char owner[32];
    if (!has_stat(stat)) {
        return;
    }
    owner_text(owner, sizeof owner, stage, stat->ephemeral_owner);
    add(line, " stat{c#%zu m#%zu p#%zu v%d cv%d children=%d size=%d owner=%s}", rank(stage, stat->czxid),
        rank(stage, stat->mzxid), rank(stage, stat->pzxid), stat->version, stat->cversion, stat->child_count,
        stat->data_size, owner);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void add_children(struct line *line, const struct zkl__reply *reply)
{
    const char **sorted = stage_room(NULL, reply->child_count + 1, sizeof *sorted);
    for (size_t i = 0; i < reply->child_count; i++) {
        sorted[i] = reply->children[i];
    }
    qsort(sorted, reply->child_count, sizeof *sorted, by_text);
    add(line, " [");
    for (size_t i = 0; i < reply->child_count; i++) {
        add(line, "%s%s", i > 0 ? " " : "", sorted[i]);
    }
    add(line, "]");
    free(sorted);
}

static void add_data(struct line *line, const struct zkl__reply *reply)
{
    const unsigned char *bytes = reply->data;
    add(line, " data='");
    for (size_t i = 0; i < reply->size; i++) {
        add(line, bytes[i] >= ' ' && bytes[i] < 0x7f ? "%c" : "\\x%02x", bytes[i]);
    }
    add(line, "'");
}

static void add_reply(struct line *line, const struct stage *stage, const struct zkl__op *op,
                      const struct zkl__reply *reply, bool in_multi)
{
    add(line, " %s(%d)", zkl__rc_name(reply->rc), reply->zk_code);
    if (reply->name) {
        add(line, " name=%s", reply->name);
    }
    if (reply->size > 0 || reply->data || op->kind == ZKL__OP_GET) {
        add_data(line, reply);
    }
    if (reply->child_count > 0 || op->kind == ZKL__OP_CHILDREN) {
        add_children(line, reply);
    }
    if (!in_multi || (stage->script->features & SCRIPT_PARTS_STAT)) {
        add_stat(line, stage, &reply->stat);
    }
    for (size_t i = 0; i < reply->part_count; i++) {
        add(line, " {");
        add_reply(line, stage, op->kind == ZKL__OP_MULTI ? &op->parts[i] : op, &reply->parts[i], true);
        add(line, " }");
    }
}

/* The base differs between runs of one script. */
static void without_base(char *text, const char *base)
{
    size_t length = strlen(base);
    for (char *at = strstr(text, base); at && length > 1; at = strstr(at, base)) {
        memmove(at + 1, at + length, strlen(at + length) + 1);
        *at = '@';
    }
}

static void write_line(struct line *line, const struct stage *stage, const struct player *player,
                       const struct record *record)
{
    static const char *const events[] = {"created", "changed", "deleted", "children"};
    static const char *const kinds[] = {"connected", "suspended", "expired"};
    char text[LINE_TEXT / 2];
    line->at = 0;
    line->text[0] = '\0';
    if (record->kind == RECORD_WATCH) {
        add(line, "watch: %s %s", events[record->watch], record->path);
    } else if (record->kind == RECORD_REPLY) {
        const struct zkl__op *op = &stage->script->ops[player->ops[record->id]];
        script_op_text(text, sizeof text, op);
        add(line, "#%ld %s ->", player->ops[record->id], text);
        add_reply(line, stage, op, &record->reply, false);
    } else {
        add(line, "%s", kinds[record->kind]);
    }
    without_base(line->text, stage->script->base);
}

static void push_line(struct play_lines *lines, const char *text)
{
    lines->lines = stage_room(lines->lines, lines->count + 1, sizeof *lines->lines);
    lines->lines[lines->count++] = strdup(text);
}

static bool is_fence(const struct player *player, const struct record *record)
{
    return record->kind == RECORD_REPLY && player->ops[record->id] == FENCE;
}

static bool is_loose(const struct player *player, size_t i)
{
    for (const struct loose *loose = player->loose; loose; loose = loose->next) {
        if (i >= loose->from && i < loose->to) {
            return player->records[i]->kind == RECORD_WATCH;
        }
    }
    return false;
}

static void write_refusals(struct play_lines *out, const struct stage *stage, const struct player *player)
{
    char text[LINE_TEXT / 2];
    for (size_t i = 0; i < player->refused_count; i++) {
        struct line line = {.at = 0};
        script_op_text(text, sizeof text, &stage->script->ops[player->refused[i].op]);
        add(&line, "#%ld %s refused by submit: %s", player->refused[i].op, text, zkl_strerror(player->refused[i].code));
        without_base(line.text, stage->script->base);
        push_line(out, line.text);
    }
}

void stage_write(struct play_lines *out, const struct stage *stage, const struct player *player)
{
    struct line line;
    size_t free_from = 0; /* first line of a run whose order is free */
    bool free_run = false;
    for (size_t i = 0; i < player->record_count; i++) {
        bool loose = is_loose(player, i);
        if (loose && !free_run) {
            free_from = out->count;
        } else if (!loose && free_run) {
            qsort(out->lines + free_from, out->count - free_from, sizeof *out->lines, by_text);
        }
        free_run = loose;
        if (!is_fence(player, player->records[i])) {
            write_line(&line, stage, player, player->records[i]);
            push_line(out, line.text);
        }
    }
    if (free_run) {
        qsort(out->lines + free_from, out->count - free_from, sizeof *out->lines, by_text);
    }
    write_refusals(out, stage, player);
}

/* --- what was told ------------------------------------------------------------------------------------------------ */

void stage_collect(struct stage *stage, struct player *player)
{
    size_t count = stage_told(stage, player);
    player->records = stage_room(NULL, count + 1, sizeof *player->records);
    player->record_count = stage->world->told(player->session, player->records, count);
    for (size_t i = 0; i < player->record_count; i++) {
        const struct zkl__reply *reply = &player->records[i]->reply;
        if (player->records[i]->kind == RECORD_REPLY) {
            see_stat(stage, &reply->stat);
            for (size_t k = 0; k < reply->part_count; k++) {
                see_stat(stage, &reply->parts[k].stat);
            }
        }
    }
}

void transcript_free(struct transcript *transcript)
{
    for (int i = 0; i < transcript->session_count; i++) {
        struct play_lines *lines = &transcript->sessions[i];
        for (size_t k = 0; k < lines->count; k++) {
            free(lines->lines[k]);
        }
        free(lines->lines);
    }
    memset(transcript, 0, sizeof *transcript);
}

static const char *line_at(const struct play_lines *lines, size_t i)
{
    return i < lines->count ? lines->lines[i] : "(nothing)";
}

bool transcript_differs(const struct transcript *a, const char *a_name, const struct transcript *b, const char *b_name,
                        bool print)
{
    for (int s = 0; s < a->session_count || s < b->session_count; s++) {
        const struct play_lines *left = &a->sessions[s], *right = &b->sessions[s];
        for (size_t i = 0; i < left->count || i < right->count; i++) {
            if (strcmp(line_at(left, i), line_at(right, i)) == 0) {
                continue;
            }
            for (size_t k = i < 8 ? 0 : i - 8; print && k < i; k++) {
                printf("    session%d %s\n", s, line_at(left, k));
            }
            if (print) {
                printf("  %-10s %s\n  %-10s %s\n", a_name, line_at(left, i), b_name, line_at(right, i));
            }
            return true;
        }
    }
    return false;
}
