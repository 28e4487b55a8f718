/* use_once.c - jobs that run once per slot. */
#include "world.h"

enum { RECORDS = 64, LENGTH_MS = 1000 };
static struct record {
    int path;
    int64_t round_ms;
} records[RECORDS];
static int record_count;

void onces_begin(void)
{
    record_count = 0;
}

/* At most one success of a slot over all processes. */
static void note_success(struct turn *turn, int64_t round_ms)
{
    SIM_EACH (it, records, record_count) {
        if (it->path == turn->plan->path && it->round_ms == round_ms) {
            sim_fail_of(turn, "once", "records slot %lld, which is done", (long long)round_ms);
        }
    }
    records[record_count++] = (struct record){turn->plan->path, round_ms};
}

/* The slot is that of the moment when our node was made, by the servers' clock. The first one reaches back to 1970. */
static void check_slot(struct turn *turn, int64_t token, const zkl_once_slot *slot)
{
    int node = past_node_of(token);
    int64_t arrival_ms = node < 0 ? 0 : world->values[node].time / SIM_MS;
    bool early = slot->round_ms < LENGTH_MS && arrival_ms < slot->round_ms;
    if (node >= 0 && !early && llabs(slot->round_ms - arrival_ms) > LENGTH_MS / 2) {
        sim_fail_of(turn, "once", "came at %lld, and is given slot %lld", (long long)arrival_ms,
                    (long long)slot->round_ms);
    }
}

static void do_job(struct turn *turn, zkl_lock *lock, int64_t token)
{
    int64_t phase_ms = dice_at(world->seed, 98, turn->plan->path) % LENGTH_MS;
    zkl_once_slot slot;
    int code = turn_told(turn, "look",
                         turn_back(turn, EITHER(turn, "look", zkl_once_look, lock, LENGTH_MS, phase_ms,
                                                turn_within(turn, turn_short_timeout(turn)), &slot)));
    if (code != ZKL_OK) {
        return;
    }
    check_slot(turn, token, &slot);
    /* Where the record is at a later slot, ours is done as well: servers' clocks differ, and who leads changes. */
    if (slot.last_ms >= slot.round_ms && !slot.done) {
        sim_fail_of(turn, "once", "slot %lld is done, with %lld recorded, and is given out", (long long)slot.round_ms,
                    (long long)slot.last_ms);
    }
    turn_hold(turn);
    if (!slot.done) {
        code = EITHER_IN_TIME(turn, "record", zkl_once_record, lock, &slot);
        if (code == ZKL_OK) {
            note_success(turn, slot.round_ms);
        }
    }
    int64_t round_ms = past_fall(turn->path, 10, true);
    if (round_ms >= 0) {
        sim_fail(world, "once", "slot %lld was recorded, and was not later than the one before", (long long)round_ms);
    }
}

void use_once(struct turn *turn)
{
    zkl_lock *lock;
    zkl_grant grant;
    zkl_lock_options options = turn_options(turn);
    options.acl = NULL;
    if (zkl_lock_new(&lock, turn->session, turn->path, &options, NULL) != ZKL_OK) {
        return;
    }
    int code = EITHER_IN_TIME(turn, "prepare", zkl_once_prepare, turn->session, turn->path);
    LET_BE(turn, "last", zkl_once_last, turn->session, turn->path, LENGTH_MS, turn_short_timeout(turn),
           &turn->async->last_ms, &turn->async->recorded_ms);
    if (code == ZKL_OK && turn_acquire(turn, "acquire", lock, &grant) == ZKL_OK) {
        turn_claim(turn, grant.token, lock);
        do_job(turn, lock, grant.token);
        turn_drop(turn);
        turn_release(turn, lock, "release");
    }
    zkl_lock_free(lock);
}
