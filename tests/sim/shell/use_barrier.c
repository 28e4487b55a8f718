/* use_barrier.c - one who puts a barrier up and takes it away, others who wait; and members who begin and end together. */
#include "world.h"

#include "handle.h"

/* What a process may believe is what was so at some time since it last looked. */
static void check_was(struct turn *turn, bool there, int64_t since, const char *what, int code)
{
    if (code == ZKL_OK && !past_was(turn->path, there, since)) {
        sim_fail_of(turn, "barrier", "%s, and the barrier was %s all the time", what, there ? "missing" : "there");
    }
}

static void check_code(const struct turn *turn, const char *what, int code)
{
    const struct sim_plan *plan = world->plan;
    if (code != ZKL_OK && code != ZKL_ETIMEOUT && plan->fault_count == 0 && plan->slow_once_in == 0) {
        sim_fail_of(turn, "outcome", "%s fails with %s", what, zkl_error_name(code));
    }
}

void use_barrier(struct turn *turn)
{
    /* whatever this process has seen: a wait asks for what is so now */
    int64_t since = turn_dice(turn, 10, 3) > 0 ? sim_committed_zxid(world) : turn_seen(turn);
    world->judge.completions++;
    if (turn_dice(turn, 10, 3) > 0) {
        int code = EITHER_IN_TIME(turn, "wait", zkl_barrier_wait, turn->session, turn->path);
        check_was(turn, false, since, "wait", code);
        check_code(turn, "wait", code);
        return;
    }
    check_was(turn, true, since, "set", EITHER_IN_TIME(turn, "set", zkl_barrier_set, turn->session, turn->path));
    /* the close of the session ends it, if nothing else does */
    LET_BE(turn, "a wait that nobody waits for", zkl_barrier_wait, turn->session, turn->path, ZKL_WAIT_FOREVER);
    turn_hold(turn);
    since = turn_seen(turn);
    check_was(turn, false, since, "lift", EITHER_IN_TIME(turn, "lift", zkl_barrier_lift, turn->session, turn->path));
}

/* --- double barrier ------------------------------------------------------------------------------------------------------ */

enum { COUNT = 2 };

/* Nobody is out before all have gone that were in. */
static void check_leave(struct turn *turn, int64_t since, int code)
{
    int staying = past_staying(turn->path, since);
    if (code == ZKL_OK && staying > 0) {
        sim_fail_of(turn, "early", "is out, and %d were in all the time", staying);
    }
    check_code(turn, "leave", code);
}

/* From the moment on at which all are in at once, or a sign that is younger than it stands or stood, whoever waits in enter is to be let in,
 * whoever leaves. */
static bool is_owed(const struct turn *turn)
{
    int64_t now = sim_committed_zxid(world);
    int64_t token = zkl__lock_status_locked(turn->object).token;
    int node = token > 0 ? past_node_of(token) : -1;
    return node >= 0 && world->nodes[node].dzxid > now &&
           (past_most_members(turn->path, now) >= COUNT || past_sign(turn->path, token));
}

/* A lease that is long enough to be granted on is there a timeout after a connect, at the latest. */
static void check_entry(struct turn *turn)
{
    int client = turn->client;
    int64_t calm = sim_calm_since(world, client);
    if (calm == SIM_NEVER || !is_owed(turn)) {
        turn->owed_since = 0;
        return;
    }
    turn->owed_since = turn->owed_since ? turn->owed_since : sim_now(world);
    calm = sim_max(calm, world->clients[client].connected_at + world->plan->timeout);
    int64_t owed = sim_now(world) - sim_max(calm, turn->owed_since);
    if (owed > 10 * sim_round_trip(world)) {
        sim_fail_of(turn, "enter", "waits to enter, and could be in since %.3f ms", (double)owed / 1e6);
    }
}

static uint64_t last_run; /* in which anybody entered */

void entries_check(void)
{
    SIM_EACH (process, processes, last_run == world->seed ? world->client_count : 0) {
        SIM_EACH (turn, process->entering, SIM_THREADS) {
            /* What is refused is tried again later, and operators may delete a sign. */
            if (*turn && !sim_is_hindered(world) && !world->faults.stranger) {
                check_entry(*turn);
            }
        }
    }
}

void use_double_barrier(struct turn *turn)
{
    zkl_double_barrier *barrier;
    int64_t since = turn_seen(turn);
    if (zkl_double_barrier_new(&barrier, turn->session, turn->path, COUNT, NULL) != ZKL_OK) {
        return;
    }
    world->judge.completions++;
    struct turn **entering = &processes[turn->client].entering[turn->thread];
    last_run = world->seed;
    turn->object = barrier;
    *entering = turn;
    int code = EITHER_IN_TIME(turn, "enter", zkl_double_barrier_enter, barrier);
    *entering = NULL;
    int most = past_most_members(turn->path, since);
    if (code == ZKL_OK) {
        if (most < COUNT) { /* nobody is in before all were there at once */
            sim_fail_of(turn, "early", "is in, and there never were more than %d of %d", most, COUNT);
        }
        world->judge.grants++;
        turn_hold(turn);
        since = turn_seen(turn);
        if (!turn_frees(turn)) {
            check_leave(turn, since, EITHER_IN_TIME(turn, "leave", zkl_double_barrier_leave, barrier));
        }
    }
    zkl_double_barrier_free(barrier);
}
