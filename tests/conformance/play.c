#include "stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *stage_room(void *block, size_t count, size_t size)
{
    void *bigger = realloc(block, count * size);
    if (!bigger) {
        abort();
    }
    return bigger;
}

size_t stage_told(struct stage *stage, const struct player *player)
{
    static const struct record *seen[65536];
    return stage->world->told(player->session, seen, sizeof seen / sizeof *seen);
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
                    (unsigned long long)stage->script->seed, i, script_step_name(stage->script->steps[i].kind));
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
