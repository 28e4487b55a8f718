/* use_partition.c - members that share pieces. */
#include "world.h"

#include "shell.h"

static const char *const names[PIECES] = {"x", "y", "z"};

/* By the local clock, of the session that is this one. */
static bool is_used(const void *object)
{
    const struct used *used = object;
    const struct zkl__core *core = used->member->turn->session->core;
    return zkl__core_facts(core).session_id == used->session_id && zkl__core_facts(core).lease_until > zkl__clock_now();
}

static int index_of(const char *piece)
{
    int index = 0;
    while (strcmp(names[index], piece) != 0) {
        index++;
    }
    return index;
}

static void assigned(zkl_partition *partition, const char *piece, int64_t token, void *payload)
{
    struct member *me = payload;
    struct turn *turn = me->turn;
    int index = index_of(piece);
    turn_told(turn, piece, ZKL_OK);
    if (turn->claims[index] >= 0) {
        sim_fail_of(turn, "outcome", "is told %s twice", piece);
        return;
    }
    if (me->used[index].due > 0) {
        sim_fail_of(turn, "outcome", "is told %s, and owes an answer for it", piece);
        return;
    }
    if (!zkl_partition_owns(partition, piece)) {
        return; /* its lease has ended meanwhile */
    }
    me->used[index] = (struct used){.member = me, .session_id = zkl__core_facts(turn->session->core).session_id};
    struct claim claim = turn_claim_of(turn, claim_piece(turn->plan->path, index), token, &me->used[index]);
    claim.holds = is_used;
    turn->claims[index] = claim_make(claim);
    me->count++;
    if (me->cap && (size_t)me->count > me->cap) {
        sim_fail_of(turn, "cap", "has %d pieces, its cap is %zu", me->count, me->cap);
    }
}

/* For a while already in which the process ran: not only since whoever tells looked at it. */
static bool was_lost(const struct turn *turn, int64_t session_id)
{
    const struct zkl__core *core = turn->session->core;
    int64_t until = sim_true(world, turn->client, zkl__core_facts(core).lease_until);
    if (zkl__core_facts(core).session_id != session_id) {
        until = world->clients[turn->client].expired_at;
    }
    return sim_max(until, world->clients[turn->client].paused_until) + 5 * SIM_MS < sim_now(world);
}

static void put_down(struct member *me, int index)
{
    struct turn *turn = me->turn;
    me->count -= turn->claims[index] >= 0;
    claim_drop(turn->claims[index]);
    turn->claims[index] = -1;
}

static void revoked(zkl_partition *partition, const char *piece, bool lost, void *payload)
{
    struct member *me = payload;
    struct turn *turn = me->turn;
    int index = index_of(piece);
    turn_told(turn, piece, lost ? ZKL_ELOST : ZKL_ENOTHELD);
    if (!lost && turn->claims[index] >= 0 && was_lost(turn, me->used[index].session_id)) {
        sim_fail_of(turn, "told", "is told that %s is given up, and it was lost before", piece);
    }
    if (me->later) {
        me->used[index].due = sim_now(world) + 1 + turn_dice(turn, 7 + index, world->plan->tick);
        return;
    }
    if (!lost) {
        fiber_sleep(world->plan->tick / 8); /* still at work */
    }
    put_down(me, index);
}

static void changed(zkl_partition *partition, const char *piece, zkl_state state, void *payload)
{
    struct member *me = payload;
    if (state != ZKL_STATE_HELD && state != ZKL_STATE_JEOPARDY && state != ZKL_STATE_LOST) {
        sim_fail_of(me->turn, "outcome", "is told that %s is %s", piece, zkl_state_name(state));
    }
}

/* --- answers ------------------------------------------------------------------------------------------------------------ */

/* What is due, or all of it. */
static void answer_those(struct member *me, bool all)
{
    struct turn *turn = me->turn;
    for (int i = 0; i < PIECES; i++) {
        if (me->used[i].due > 0 && (all || me->used[i].due <= sim_now(world))) {
            put_down(me, i);
            me->used[i].due = 0;
            int code = turn_told(turn, "done", zkl_partition_done(me->partition, names[i], NULL));
            if (code != ZKL_OK) {
                sim_fail_of(turn, "outcome", "may not answer for %s: %s", names[i], zkl_error_name(code));
            }
        }
    }
}

/* So long, or until all is quiet. */
static bool work_on(struct member *me, int64_t until, bool ends_when_quiet)
{
    while (sim_now(world) < until && !(ends_when_quiet && is_quiet())) {
        fiber_sleep(world->plan->tick / 4);
        answer_those(me, false);
    }
    return is_quiet();
}

static bool work_until_quiet(struct member *me)
{
    if (!me->later || world->plan->slow_once_in > 0) {
        return await_quiet();
    }
    world->judge.unrest = sim_now(world);
    return work_on(me, sim_now(world) + world->plan->heal + 4 * quiet_time(), true);
}

/* --- when all is quiet: every piece that cap allows is somebody's, evenly; unless a member leaves in that very moment ------- */

static void check_shares(struct turn *turn, const struct member *me)
{
    int path = turn->plan->path, running = 0, most = 0, allowed = 0;
    SIM_EACH (process, processes, SIM_CLIENTS) {
        SIM_EACH (it, process->members, SIM_THREADS) {
            if (!it->turn || it->turn->plan->path != path) {
                continue;
            }
            if (it->leaves) {
                return;
            }
            running++;
            most = (int)sim_max(most, it->count);
            allowed = it->cap ? running * (int)it->cap : PIECES;
        }
    }
    for (int i = 0; i < PIECES; i++) {
        if (turn->claims[i] >= 0 && !zkl_partition_owns(me->partition, names[i])) {
            sim_fail_of(turn, "shares", "was not told that it lost %s, and all is quiet", names[i]);
        }
    }
    if (!is_quiet()) {
        return; /* one has left while we asked what is owned */
    }
    int expected = (int)sim_min(allowed, PIECES);
    int owned = claims_held(path);
    if (owned < expected) {
        sim_fail(world, "shares", "all is quiet, and %d members own %d pieces, not %d", running, owned, expected);
    }
    if (most > (PIECES + running - 1) / running) {
        sim_fail(world, "shares", "one of %d members owns %d of %d pieces", running, most, PIECES);
    }
}

void use_partition(struct turn *turn)
{
    struct member *me = &processes[turn->client].members[turn->thread];
    zkl_partition_options options = ZKL_PARTITION_OPTIONS_INIT;
    options.cap = dice_at(world->seed, 99, turn->plan->path) % 3;
    options.assigned_fn = assigned;
    options.revoked_fn = revoked;
    options.state_fn = changed;
    options.payload = me;
    options.done_later = turn_dice(turn, 48, 2) == 1;
    options.margin_ms = turn_dice(turn, 5, 2) * world->plan->tick / 4 / SIM_MS;
    *me = (struct member){.cap = options.cap, .later = options.done_later};
    if (zkl_partition_new(&me->partition, turn->session, turn->path, names, PIECES, &options, NULL) != ZKL_OK) {
        return;
    }
    me->turn = turn;
    turn_told(turn, "start", zkl_partition_start(me->partition, NULL));
    if (me->later) {
        work_on(me, sim_now(world) + turn->plan->hold, false);
    } else {
        turn_hold(turn);
    }
    if (turn_dice(turn, 6, 2) && work_until_quiet(me)) {
        check_shares(turn, me);
    }
    me->leaves = true;
    world->judge.unrest = sim_now(world);
    world->judge.completions++;
    /* Without waiting it ends when all is answered, which this user does afterwards; and the call that waits needs no memory. */
    int code = me->later ? ZKL_ENOMEM : EITHER(turn, "stop", zkl_partition_stop, me->partition);
    turn_told(turn, "stop", code == ZKL_ENOMEM ? zkl_partition_stop(me->partition, NULL) : code);
    answer_those(me, true);
    for (int i = 0; i < PIECES; i++) {
        if (turn->claims[i] >= 0) {
            sim_fail_of(turn, "outcome", "has stopped, and %s was not revoked", names[i]);
        }
    }
    zkl_partition_free(me->partition);
    me->turn = NULL;
}
