/* play.c - a script under way: its sessions, what each was asked and told, and that as lines of text. */
#include "play.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FENCE = -1 };

/* Where the order of watches is free: records of one session, [from, to). */
struct loose {
    size_t from, to;
    struct loose *next;
};

struct refusal {
    long op;
    int code;
};

struct player {
    struct world_session *session;
    int slot;
    bool closed, cut;
    long *ops; /* by id of the reply: index of the op, or FENCE */
    size_t ops_room;
    struct refusal *refused;
    size_t refused_count;
    uint64_t last_id;
    struct loose *loose;
    const struct record **records;
    size_t record_count;
};

struct moment {
    int64_t zxid, time_ms;
};

struct stage {
    struct world *world;
    const struct script *script;
    const bool *drop;
    const char *chroot;
    struct player players[PLAY_SESSIONS];
    int count;
    int in_slot[SCRIPT_SLOTS]; /* which player, -1: none */
    struct moment *moments;    /* every zxid seen and the time that goes with it */
    size_t moment_count, moment_room;
};

/* Room for so many; ends the program when there is none. block may be NULL. */
static void *stage_room(void *block, size_t count, size_t size)
{
    void *bigger = realloc(block, count * size);
    if (!bigger) {
        abort();
    }
    return bigger;
}

/* How much the session has been told so far. */
static size_t stage_told(struct stage *stage, const struct player *player)
{
    static const struct record *seen[65536];
    return stage->world->told(player->session, seen, sizeof seen / sizeof *seen);
}

/* --- operations in words, for the people who read what went wrong ------------------------------------------------------- */

static const char *step_name(enum step_kind kind)
{
    static const char *const step_names[] = {"burst", "open", "close", "cut", "heal"};
    return step_names[kind];
}

static size_t put(char *out, size_t size, size_t at, const char *text)
{
    int length = at < size ? snprintf(out + at, size - at, "%s", text) : 0;
    return at + (size_t)(length > 0 ? length : 0);
}

static size_t put_acl(char *out, size_t size, size_t at, const zkl_acl *acl)
{
    char text[128];
    at = put(out, size, at, " acl=[");
    for (size_t i = 0; i < acl->count; i++) {
        const zkl_acl_entry *entry = &acl->entries[i];
        snprintf(text, sizeof text, "%s%d:%s:%s", i > 0 ? " " : "", entry->perms, entry->scheme, entry->id);
        at = put(out, size, at, text);
    }
    return put(out, size, at, "]");
}

static void op_text(char *out, size_t size, const struct zkl__op *op)
{
    static const char *const mode_names[] = {"persistent", "ephemeral", "ephemeral-seq", "persistent-seq", "container"};
    char text[SCRIPT_PATH + 64];
    size_t at = put(out, size, 0, zkl__op_name(op->kind));
    if (op->kind == ZKL__OP_MULTI) {
        for (size_t i = 0; i < op->part_count && at < size; i++) {
            at = put(out, size, at, i == 0 ? " { " : "; ");
            op_text(out + at, size - at, &op->parts[i]);
            at += strlen(out + at);
        }
        put(out, size, at, " }");
        return;
    }
    snprintf(text, sizeof text, " %s%s%s", op->dir, op->name ? " + " : "", op->name ? op->name : "");
    at = put(out, size, at, text);
    if (op->kind == ZKL__OP_CREATE) {
        snprintf(text, sizeof text, " %s size=%zu", mode_names[op->mode], op->size);
        at = put(out, size, at, text);
        at = op->acl ? put_acl(out, size, at, op->acl) : at;
    } else if (op->kind == ZKL__OP_DELETE || op->kind == ZKL__OP_SET || op->kind == ZKL__OP_CHECK) {
        snprintf(text, sizeof text, " version=%d", op->version);
        at = put(out, size, at, text);
    }
    put(out, size, at, op->watch ? " watch" : "");
}

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

/* When all is collected: sorts the moments, one for each zxid. False: times contradict. */
static bool stage_settle_moments(struct stage *stage)
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
        op_text(text, sizeof text, op);
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
        op_text(text, sizeof text, &stage->script->ops[player->refused[i].op]);
        add(&line, "#%ld %s refused by submit: %s", player->refused[i].op, text, zkl_strerror(player->refused[i].code));
        without_base(line.text, stage->script->base);
        push_line(out, line.text);
    }
}

/* The lines of one session. */
static void stage_write(struct play_lines *out, const struct stage *stage, const struct player *player)
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

/* Once all was told: keeps what the player was told, and the moments in it. */
static void stage_collect(struct stage *stage, struct player *player)
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

static struct player *player_of(struct stage *stage, int slot)
{
    return stage->in_slot[slot] < 0 ? NULL : &stage->players[stage->in_slot[slot]];
}

/* --- acting -------------------------------------------------------------------------------------------------------- */

static bool open_session(struct stage *stage, int slot)
{
    static const zkl_acl_entry anyone = {ZKL_PERM_ALL, "world", "anyone"};
    static const zkl_acl open = {1, &anyone};
    bool sealed = stage->script->features & SCRIPT_SEALS;
    struct world_plan plan = {.chroot = (stage->script->features & SCRIPT_CHROOT) ? stage->chroot : "",
                              .identity = sealed ? NULL : script_identity(slot),
                              .seal = sealed ? script_seal(slot) : NULL,
                              .acl = stage->script->default_acl ? NULL : &open,
                              .cuts = stage->script->features & SCRIPT_CUTS};
    if (stage->count == PLAY_SESSIONS) {
        fprintf(stderr, "play: more than %d sessions\n", PLAY_SESSIONS);
        return false;
    }
    struct player *player = &stage->players[stage->count];
    memset(player, 0, sizeof *player);
    player->slot = slot;
    player->session = stage->world->open(stage->world, &plan);
    if (!player->session) {
        return false;
    }
    stage->in_slot[slot] = stage->count++;
    return true;
}

static void submit(struct stage *stage, struct player *player, const struct zkl__op *op, long index)
{
    uint64_t id;
    int code = ZKL_OK;
    stage->world->submit(player->session, op, &id, &code);
    if (id == 0) {
        player->refused = stage_room(player->refused, player->refused_count + 1, sizeof *player->refused);
        player->refused[player->refused_count].op = index;
        player->refused[player->refused_count++].code = code;
    } else {
        if (id >= player->ops_room) {
            player->ops = stage_room(player->ops, id * 2 + 16, sizeof *player->ops);
            player->ops_room = id * 2 + 16;
        }
        player->ops[id] = index;
        player->last_id = id;
    }
}

static void raise_fence(struct stage *stage, struct player *player)
{
    struct zkl__op op = {.kind = stage->world->lags ? ZKL__OP_CHECK : ZKL__OP_SYNC, .dir = "/", .version = -1};
    submit(stage, player, &op, FENCE);
}

/* Returns when the session has been told all that happened before the call. */
static bool fence(struct stage *stage, struct player *player)
{
    raise_fence(stage, player);
    return stage->world->wait(player->session, player->last_id);
}

static bool fence_all(struct stage *stage)
{
    for (int slot = 0; slot < SCRIPT_SLOTS; slot++) {
        struct player *player = player_of(stage, slot);
        if (player && !player->cut && !fence(stage, player)) {
            return false;
        }
    }
    return true;
}

static void loosen_from(struct stage *stage, struct player *player)
{
    struct loose *loose = calloc(1, sizeof *loose);
    loose->from = loose->to = stage_told(stage, player);
    loose->next = player->loose;
    player->loose = loose;
}

static void loosen_to(struct stage *stage, struct player *player)
{
    player->loose->to = stage_told(stage, player);
}

static bool burst(struct stage *stage, struct player *player, const struct step *step)
{
    bool any = false;
    if (stage->world->lags) {
        raise_fence(stage, player);
    }
    for (size_t i = step->first; i < step->first + step->count; i++) {
        if (!stage->drop || !stage->drop[i]) {
            submit(stage, player, &stage->script->ops[i], (long)i);
            any = true;
        }
    }
    return !any || player->last_id == 0 || stage->world->wait(player->session, player->last_id);
}

/* Its ephemeral nodes go in an order that is the server's own affair. */
static bool close_session(struct stage *stage, struct player *player)
{
    if (!fence_all(stage)) {
        return false;
    }
    stage->in_slot[player->slot] = -1;
    player->closed = true;
    for (int slot = 0; slot < SCRIPT_SLOTS; slot++) {
        if (player_of(stage, slot)) {
            loosen_from(stage, player_of(stage, slot));
        }
    }
    if (!stage->world->close(player->session) || !fence_all(stage)) {
        return false;
    }
    for (int slot = 0; slot < SCRIPT_SLOTS; slot++) {
        if (player_of(stage, slot)) {
            loosen_to(stage, player_of(stage, slot));
        }
    }
    return true;
}

/* The client sets its watches again in an order of its own, and the server looks at them in another. */
static bool heal(struct stage *stage, struct player *player)
{
    loosen_from(stage, player);
    if (!stage->world->heal(player->session)) {
        return false;
    }
    player->cut = false;
    bool ok = fence(stage, player);
    loosen_to(stage, player);
    return ok;
}

static bool cut(struct stage *stage, struct player *player)
{
    if (!fence(stage, player)) {
        return false;
    }
    player->cut = true;
    return stage->world->cut(player->session);
}

static bool act(struct stage *stage, const struct step *step)
{
    struct player *player = player_of(stage, step->slot);
    switch (step->kind) {
    case STEP_OPEN:
        return open_session(stage, step->slot);
    case STEP_BURST:
        return burst(stage, player, step);
    case STEP_CLOSE:
        return close_session(stage, player);
    case STEP_CUT:
        return cut(stage, player);
    case STEP_HEAL:
        return heal(stage, player);
    }
    return false;
}

/* --- the whole ----------------------------------------------------------------------------------------------------- */

static void player_free(struct world *world, struct player *player)
{
    while (player->loose) {
        struct loose *loose = player->loose;
        player->loose = loose->next;
        free(loose);
    }
    free(player->ops);
    free(player->refused);
    free(player->records);
    world->free(player->session);
}

static bool perform(struct stage *stage)
{
    for (size_t i = 0; i < stage->script->step_count; i++) {
        if (!act(stage, &stage->script->steps[i])) {
            fprintf(stderr, "%s: seed %llu, step %zu (%s)\n", stage->world->name,
                    (unsigned long long)stage->script->seed, i, step_name(stage->script->steps[i].kind));
            return false;
        }
    }
    return fence_all(stage);
}

/* Once all was told: what the last one to close leaves behind is nobody's to watch. */
static bool close_all(struct stage *stage)
{
    bool ok = true;
    for (int i = 0; i < stage->count; i++) {
        if (!stage->players[i].closed) {
            ok = stage->world->close(stage->players[i].session) && ok;
        }
    }
    return ok;
}

bool play(struct transcript *out, struct world *world, const struct script *script, const bool *drop,
          const char *chroot)
{
    static struct stage stage;
    memset(&stage, 0, sizeof stage);
    memset(out, 0, sizeof *out);
    stage.world = world;
    stage.script = script;
    stage.drop = drop;
    stage.chroot = chroot;
    for (int slot = 0; slot < SCRIPT_SLOTS; slot++) {
        stage.in_slot[slot] = -1;
    }
    bool ok = perform(&stage);
    for (int i = 0; ok && i < stage.count; i++) {
        stage_collect(&stage, &stage.players[i]);
    }
    ok = close_all(&stage) && ok && stage_settle_moments(&stage);
    for (int i = 0; ok && i < stage.count; i++) {
        stage_write(&out->sessions[i], &stage, &stage.players[i]);
    }
    out->session_count = stage.count;
    for (int i = 0; i < stage.count; i++) {
        player_free(world, &stage.players[i]);
    }
    free(stage.moments);
    return ok;
}
