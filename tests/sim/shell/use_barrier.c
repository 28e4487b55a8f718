/* use_barrier.c - one who puts a barrier up and takes it away, others who wait; and members who begin and end together. */
#include "turn.h"

#include <string.h>

/* What a process may believe is what was so at some time since it last looked. */
static void check_there(struct turn *turn, int64_t since, int code)
{
    turn_told(turn, "set", code);
    if (code == ZKL_OK && !past_there(turn->s, turn->path, since, sim_committed_zxid(turn->s))) {
        sim_fail(turn->s, "barrier", "%d.%d has put the barrier up, and it never was", turn->client, turn->thread);
    }
}

static void check_missing(struct turn *turn, int64_t since, const char *what, int code)
{
    turn_told(turn, what, code);
    if (code == ZKL_OK && !past_missing(turn->s, turn->path, since, sim_committed_zxid(turn->s))) {
        sim_fail(turn->s, "barrier", "%d.%d: %s, and the barrier was there all the time", turn->client, turn->thread,
                 what);
    }
}

static bool may_fail(const struct turn *turn, int code)
{
    const struct sim_plan *plan = turn->s->plan;
    return code == ZKL_OK || code == ZKL_ETIMEOUT || plan->fault_count > 0 || plan->slow_once_in > 0;
}

void use_barrier(struct turn *turn)
{
    /* whatever this process has seen: a wait asks for what is so now */
    int64_t since = turn_dice(turn, 10, 3) > 0 ? sim_committed_zxid(turn->s) : turn_seen(turn);
    int64_t timeout = turn_short_timeout(turn);
    turn->s->judge.completions++;
    if (turn_dice(turn, 10, 3) > 0) {
        int code = turn_back(turn, zkl_barrier_wait(turn->session, turn->path, turn_within(turn, timeout), NULL));
        check_missing(turn, since, "wait", code);
        if (!may_fail(turn, code)) {
            sim_fail(turn->s, "outcome", "wait fails with %s", zkl_error_name(code));
        }
        return;
    }
    check_there(turn, since,
                turn_back(turn, zkl_barrier_set(turn->session, turn->path, turn_within(turn, timeout), NULL)));
    turn_hold(turn);
    since = turn_seen(turn);
    check_missing(turn, since, "lift",
                  turn_back(turn, zkl_barrier_lift(turn->session, turn->path, turn_within(turn, timeout), NULL)));
}

/* --- double barrier ------------------------------------------------------------------------------------------------------ */

enum { COUNT = 2 };

/* Nobody is in before all were there at once, and nobody out before all had gone. */
static void check_enter(struct turn *turn, int64_t since, int code)
{
    int most = past_members(turn->s, turn->path, since, sim_committed_zxid(turn->s)).most;
    turn_told(turn, "enter", code);
    if (code == ZKL_OK && most < COUNT) {
        sim_fail(turn->s, "early", "%d.%d is in, and there never were more than %d of %d", turn->client, turn->thread,
                 most, COUNT);
    }
}

static void check_leave(struct turn *turn, int64_t since, int code)
{
    int fewest = past_members(turn->s, turn->path, since, sim_committed_zxid(turn->s)).fewest;
    turn_told(turn, "leave", code);
    if (code == ZKL_OK && fewest > 0) {
        sim_fail(turn->s, "early", "%d.%d is out, and %d were in all the time", turn->client, turn->thread, fewest);
    }
    if (code != ZKL_OK && !may_fail(turn, code)) {
        sim_fail(turn->s, "outcome", "leave fails with %s", zkl_error_name(code));
    }
}

void use_double_barrier(struct turn *turn)
{
    zkl_double_barrier *barrier;
    int64_t timeout = turn_short_timeout(turn), since = turn_seen(turn);
    if (zkl_double_barrier_new(&barrier, turn->session, turn->path, COUNT, NULL) != ZKL_OK) {
        return;
    }
    turn->s->judge.completions++;
    int code = zkl_double_barrier_enter(barrier, timeout, NULL);
    check_enter(turn, since, code);
    if (code == ZKL_OK) {
        turn->s->judge.grants++;
        turn_hold(turn);
        since = turn_seen(turn);
        if (!turn_frees(turn)) {
            check_leave(turn, since, zkl_double_barrier_leave(barrier, timeout, NULL));
        }
    }
    zkl_double_barrier_free(barrier);
}
