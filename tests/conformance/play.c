/* play.c - a script under way: its sessions, what each was asked and told, and that as lines of text. */
#include "play.h"
#include "core_facts.h"

/* Of what the player itself asks, so that it knows when all was told. Behind the second one watches may be told in any order, until the
 * next of either. */
enum { FENCE = -1, LOOSE_FENCE = -2 };

struct player {
    struct world_session *session;
    int64_t id;
    int slot;
    bool closed, cut;
    long *ops; /* by id of the reply: index of the op, or a fence */
    uint64_t last_id;
    size_t told; /* before the last sessions were closed */
};

struct moment {
    int64_t zxid, time_ms;
};

struct stage {
    struct world *world;
    const struct script *script;
    const bool *drop;
    const char *chroot;
    struct transcript *out;
    struct player players[PLAY_SESSIONS];
    int count;
    int in_slot[SCRIPT_SLOTS]; /* which player, -1: none */
    struct moment *moments;    /* every zxid seen and the time that goes with it */
    size_t moment_count;
};

/* Room for so many; ends the program when there is none. block may be NULL. */
static void *room_for(void *block, size_t count, size_t size)
{
    void *bigger = realloc(block, count * size);
    if (!bigger) {
        abort();
    }
    return bigger;
}

/* --- what may differ and what may not ------------------------------------------------------------------------------ */

static void see_moment(struct stage *stage, int64_t zxid, int64_t time_ms)
{
    stage->moments = room_for(stage->moments, stage->moment_count + 1, sizeof *stage->moments);
    stage->moments[stage->moment_count++] = (struct moment){zxid, time_ms};
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

static int by_zxid(const void *a, const void *b)
{
    const struct moment *left = a, *right = b;
    return (left->zxid > right->zxid) - (left->zxid < right->zxid);
}

/* When all is collected: sorts the moments. False: times contradict. */
static bool settle_moments(struct stage *stage)
{
    if (stage->moment_count > 0) {
        qsort(stage->moments, stage->moment_count, sizeof *stage->moments, by_zxid);
    }
    for (size_t i = 1; i < stage->moment_count; i++) {
        struct moment last = stage->moments[i - 1], now = stage->moments[i];
        if (last.zxid == now.zxid ? last.time_ms != now.time_ms : last.time_ms > now.time_ms) {
            fprintf(stderr, "%s: time goes wrong: zxid %#llx at %lld ms, zxid %#llx at %lld ms\n", stage->world->name,
                    (unsigned long long)last.zxid, (long long)last.time_ms, (unsigned long long)now.zxid,
                    (long long)now.time_ms);
            return false;
        }
    }
    return true;
}

/* How many different ones were before it. */
static size_t rank(const struct stage *stage, int64_t zxid)
{
    size_t count = 0;
    for (size_t i = 0; i < stage->moment_count && stage->moments[i].zxid < zxid; i++) {
        count += i == 0 || stage->moments[i].zxid != stage->moments[i - 1].zxid;
    }
    return count;
}

/* --- lines --------------------------------------------------------------------------------------------------------- */

static void write_acl(FILE *out, const zkl_acl *acl)
{
    fputs(" acl=[", out);
    for (size_t i = 0; i < acl->count; i++) {
        const zkl_acl_entry *entry = &acl->entries[i];
        fprintf(out, "%s%d:%s:%s", i > 0 ? " " : "", entry->perms, entry->scheme, entry->id);
    }
    fputs("]", out);
}

static void write_op(FILE *out, const struct zkl__op *op)
{
    static const char *const mode_names[] = {"persistent", "ephemeral", "ephemeral-seq", "persistent-seq", "container"};
    fputs(op_name(op->kind), out);
    for (size_t i = 0; i < op->part_count; i++) {
        fputs(i == 0 ? " { " : "; ", out);
        write_op(out, &op->parts[i]);
    }
    if (op->kind == ZKL__OP_MULTI) {
        fputs(" }", out);
        return;
    }
    fprintf(out, " %s%s%s", op->dir, op->name ? " + " : "", op->name ? op->name : "");
    if (op->kind == ZKL__OP_CREATE) {
        fprintf(out, " %s size=%zu", mode_names[op->mode], op->size);
    } else if (op->kind == ZKL__OP_DELETE || op->kind == ZKL__OP_SET || op->kind == ZKL__OP_CHECK) {
        fprintf(out, " version=%d", op->version);
    }
    if (op->acl) {
        write_acl(out, op->acl);
    }
    fputs(op->watch ? " watch" : "", out);
}

static void write_owner(FILE *out, const struct stage *stage, int64_t owner)
{
    for (int i = 0; i < stage->count; i++) {
        if (owner != 0 && stage->players[i].id == owner) {
            fprintf(out, " owner=session%d}", i);
            return;
        }
    }
    fprintf(out, " owner=%lld}", (long long)owner);
}

static void write_stat(FILE *out, const struct stage *stage, const struct zkl__stat *stat)
{
    if (has_stat(stat)) {
        fprintf(out, " stat{c#%zu m#%zu p#%zu v%d cv%d children=%d size=%d", rank(stage, stat->czxid),
                rank(stage, stat->mzxid), rank(stage, stat->pzxid), stat->version, stat->cversion, stat->child_count,
                stat->data_size);
        write_owner(out, stage, stat->ephemeral_owner);
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void write_children(FILE *out, const struct zkl__reply *reply)
{
    const char **sorted = room_for(NULL, reply->child_count + 1, sizeof *sorted);
    for (size_t i = 0; i < reply->child_count; i++) {
        sorted[i] = reply->children[i];
    }
    qsort(sorted, reply->child_count, sizeof *sorted, by_text);
    fputs(" [", out);
    for (size_t i = 0; i < reply->child_count; i++) {
        fprintf(out, "%s%s", i > 0 ? " " : "", sorted[i]);
    }
    fputs("]", out);
    free(sorted);
}

static void write_data(FILE *out, const struct zkl__reply *reply)
{
    const unsigned char *bytes = reply->data;
    fputs(" data='", out);
    for (size_t i = 0; i < reply->size; i++) {
        fprintf(out, bytes[i] >= ' ' && bytes[i] < 0x7f ? "%c" : "\\x%02x", bytes[i]);
    }
    fputs("'", out);
}

static void write_reply(FILE *out, const struct stage *stage, const struct zkl__op *op, const struct zkl__reply *reply,
                        bool in_multi)
{
    fprintf(out, " %s(%d)", zkl__rc_name(reply->rc), reply->zk_code);
    if (reply->name) {
        fprintf(out, " name=%s", reply->name);
    }
    if (reply->size > 0 || reply->data || op->kind == ZKL__OP_GET) {
        write_data(out, reply);
    }
    if (reply->child_count > 0 || op->kind == ZKL__OP_CHILDREN) {
        write_children(out, reply);
    }
    if (!in_multi || (stage->script->options.features & SCRIPT_PARTS_STAT)) {
        write_stat(out, stage, &reply->stat);
    }
    for (size_t i = 0; i < reply->part_count; i++) {
        fputs(" {", out);
        write_reply(out, stage, op->kind == ZKL__OP_MULTI ? &op->parts[i] : op, &reply->parts[i], true);
        fputs(" }", out);
    }
}

/* The base differs between runs of one script. */
static void without_base(char *text, const char *base)
{
    size_t length = strlen(base);
    for (char *at = strstr(text, base); at; at = strstr(at, base)) {
        memmove(at + 1, at + length, strlen(at + length) + 1);
        *at = '@';
    }
}

/* One more line of a player: of a record, or (NULL) that submit has refused the op. */
static void add_line(struct stage *stage, const struct player *player, const struct record *record, long index,
                     int code)
{
    static const char *const events[] = {"created", "changed", "deleted", "children"};
    static const char *const kinds[] = {"connected", "suspended", "expired"};
    struct play_lines *lines = &stage->out->sessions[player - stage->players];
    const struct zkl__op *op = &stage->script->ops[index];
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (record && record->kind == RECORD_WATCH) {
        fprintf(out, "watch: %s %s", events[record->watch], record->path);
    } else if (record && record->kind != RECORD_REPLY) {
        fputs(kinds[record->kind], out);
    } else {
        fprintf(out, "#%ld ", index);
        write_op(out, op);
        fputs(record ? " ->" : " refused by submit: ", out);
    }
    if (record && record->kind == RECORD_REPLY) {
        write_reply(out, stage, op, &record->reply, false);
    }
    fputs(record ? "" : zkl_strerror(code), out);
    fclose(out);
    without_base(text, stage->script->options.base);
    lines->lines = room_for(lines->lines, lines->count + 1, sizeof *lines->lines);
    lines->lines[lines->count++] = text;
}

/* Those from there on, whose order is free. */
static void sort_lines(struct play_lines *lines, size_t from)
{
    if (lines->count > from) {
        qsort(lines->lines + from, lines->count - from, sizeof *lines->lines, by_text);
    }
}

/* All that a session was told. */
static void add_lines(struct stage *stage, const struct player *player)
{
    struct play_lines *lines = &stage->out->sessions[player - stage->players];
    size_t free_from = lines->count;
    bool loose = false;
    for (size_t i = 0; i < player->told; i++) {
        const struct record *record = stage->world->told(player->session, i);
        long index = record->kind == RECORD_REPLY ? player->ops[record->id] : 0;
        bool free = loose && record->kind == RECORD_WATCH;
        if (!free) {
            sort_lines(lines, free_from);
        }
        if (index < 0) {
            loose = index == LOOSE_FENCE;
        } else {
            add_line(stage, player, record, index, ZKL_OK);
        }
        free_from = free ? free_from : lines->count;
    }
    sort_lines(lines, free_from);
}

/* Once all was told: the moments in what the player was told. */
static void see_moments(struct stage *stage, struct player *player)
{
    const struct record *record;
    for (; (record = stage->world->told(player->session, player->told)); player->told++) {
        const struct zkl__reply *reply = &record->reply; /* of all else: of nothing */
        see_stat(stage, &reply->stat);
        for (size_t k = 0; k < reply->part_count; k++) {
            see_stat(stage, &reply->parts[k].stat);
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

/* --- acting -------------------------------------------------------------------------------------------------------- */

static struct player *player_of(struct stage *stage, int slot)
{
    return stage->in_slot[slot] < 0 ? NULL : &stage->players[stage->in_slot[slot]];
}

static bool open_session(struct stage *stage, int slot)
{
    static const zkl_acl_entry anyone = {ZKL_PERM_ALL, "world", "anyone"};
    static const zkl_acl open = {1, &anyone};
    struct world_plan plan = {.chroot = (stage->script->options.features & SCRIPT_CHROOT) ? stage->chroot : "",
                              .identity = script_identity(slot),
                              .acl = stage->script->default_acl ? NULL : &open,
                              .cuts = stage->script->options.features & SCRIPT_CUTS};
    if (stage->count == PLAY_SESSIONS) {
        fprintf(stderr, "play: more than %d sessions\n", PLAY_SESSIONS);
        return false;
    }
    struct player *player = &stage->players[stage->count];
    player->slot = slot;
    player->session = stage->world->open(stage->world, &plan, &player->id);
    if (player->session) {
        stage->in_slot[slot] = stage->count++;
    }
    return player->session;
}

static void submit(struct stage *stage, struct player *player, const struct zkl__op *op, long index)
{
    uint64_t id;
    int code = ZKL_OK;
    stage->world->submit(player->session, op, &id, &code);
    if (id == 0) {
        add_line(stage, player, NULL, index, code);
        return;
    }
    player->ops = room_for(player->ops, id + 1, sizeof *player->ops);
    player->ops[id] = index;
    player->last_id = id;
}

static void raise_fence(struct stage *stage, struct player *player, long kind)
{
    struct zkl__op op = {.kind = stage->world->lags ? ZKL__OP_CHECK : ZKL__OP_SYNC, .dir = "/", .version = -1};
    submit(stage, player, &op, kind);
}

/* Returns when the session has been told all that happened before the call. */
static bool fence(struct stage *stage, struct player *player, long kind)
{
    raise_fence(stage, player, kind);
    return stage->world->wait(player->session, player->last_id);
}

static bool fence_all(struct stage *stage, long kind)
{
    for (int slot = 0; slot < SCRIPT_SLOTS; slot++) {
        struct player *player = player_of(stage, slot);
        if (player && !player->cut && !fence(stage, player, kind)) {
            return false;
        }
    }
    return true;
}

static bool burst(struct stage *stage, struct player *player, const struct step *step)
{
    bool any = false;
    if (stage->world->lags) {
        raise_fence(stage, player, FENCE);
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
    bool told = fence_all(stage, LOOSE_FENCE);
    stage->in_slot[player->slot] = -1;
    player->closed = true;
    return told && stage->world->close(player->session) && fence_all(stage, FENCE);
}

/* The client sets its watches again in an order of its own, and the server looks at them in another. */
static bool cut(struct stage *stage, struct player *player)
{
    player->cut = fence(stage, player, LOOSE_FENCE);
    return player->cut && stage->world->cut(player->session);
}

static bool heal(struct stage *stage, struct player *player)
{
    player->cut = false;
    return stage->world->heal(player->session) && fence(stage, player, FENCE);
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

static bool perform(struct stage *stage)
{
    static const char *const step_names[] = {"burst", "open", "close", "cut", "heal"};
    for (size_t i = 0; i < stage->script->step_count; i++) {
        const struct step *step = &stage->script->steps[i];
        if (!act(stage, step)) {
            fprintf(stderr, "%s: seed %llu, step %zu (%s)\n", stage->world->name,
                    (unsigned long long)stage->script->options.seed, i, step_names[step->kind]);
            return false;
        }
    }
    return fence_all(stage, FENCE);
}

bool play(struct transcript *out, struct world *world, const struct script *script, const bool *drop,
          const char *chroot)
{
    static struct stage stage;
    stage = (struct stage){.world = world, .script = script, .drop = drop, .chroot = chroot, .out = out};
    memset(stage.in_slot, 0xff, sizeof stage.in_slot); /* -1 */
    bool ok = perform(&stage);
    for (int i = 0; ok && i < stage.count; i++) {
        see_moments(&stage, &stage.players[i]);
    }
    for (int i = 0; i < stage.count; i++) { /* what the last one to close leaves behind is nobody's to watch */
        ok = (stage.players[i].closed || world->close(stage.players[i].session)) && ok;
    }
    ok = ok && settle_moments(&stage);
    out->session_count = stage.count;
    for (int i = 0; i < stage.count; i++) {
        struct player *player = &stage.players[i];
        if (ok) {
            add_lines(&stage, player);
        }
        free(player->ops);
        world->free(player->session);
    }
    free(stage.moments);
    return ok;
}
