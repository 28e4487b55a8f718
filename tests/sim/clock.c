/* clock.c - virtual time: a tree over the slots whose nodes are the least of what is below, so that arming costs seven comparisons without
 * a branch, and the next event none. */
#include "sim.h"

/* What is due first is the least; of equal times, the slot with the least tie. */
static uint64_t key_of(const struct sim_clock *clock, int slot)
{
    uint64_t due = clock->due[slot] == SIM_NEVER ? UINT64_MAX >> 7 : (uint64_t)clock->due[slot];
    return due << 7 | clock->tie[slot];
}

void sim_clock_init(struct sim_clock *clock, uint64_t seed)
{
    clock->now = 0;
    uint8_t twist = (uint8_t)dice_at(seed, 1, 1);
    for (int i = 0; i < SIM_LEAVES; i++) {
        clock->due[i] = SIM_NEVER;
        /* An odd factor permutes 0..127, the twist makes the permutation the run's own. */
        clock->tie[i] = ((uint8_t)((i * 77 + twist) & (SIM_LEAVES - 1)) ^ (twist >> 1));
        clock->slot[clock->tie[i]] = (uint8_t)i;
        clock->first[SIM_LEAVES + i] = key_of(clock, i);
    }
    for (int place = SIM_LEAVES - 1; place > 0; place--) {
        uint64_t left = clock->first[2 * place], right = clock->first[2 * place + 1];
        clock->first[place] = right < left ? right : left;
    }
}

void sim_clock_set(struct sim_clock *clock, int slot, int64_t due)
{
    if (clock->due[slot] == due) {
        return;
    }
    clock->due[slot] = due;
    /* The least goes up in a register: only the other side is read, which waits for nothing. */
    size_t place = SIM_LEAVES + (size_t)slot;
    uint64_t least = key_of(clock, slot);
    clock->first[place] = least;
    for (int level = 0; level < 7; level++) {
        uint64_t other = clock->first[place ^ 1];
        place /= 2;
        least = other < least ? other : least;
        clock->first[place] = least;
    }
}

/* Whose event it is: of which process nothing happens while that is paused. */
static int64_t paused_until(const struct sim *s, int slot)
{
    int server = -1, client = -1;
    if (slot < SLOT_TO_CLIENT) {
        server = s->conns[slot].server;
    } else if (slot < SLOT_TO_LEADER) {
        client = s->conns[slot - SLOT_TO_CLIENT].client;
    } else if (slot < SLOT_FROM_LEADER) {
        server = sim_master_of(s, slot - SLOT_TO_LEADER);
    } else if (slot < SLOT_EXPIRY) {
        server = (slot - SLOT_FROM_LEADER) % SIM_SERVERS;
    } else if (slot == SLOT_EXPIRY) {
        server = s->leader;
    } else if (slot >= SLOT_PING) {
        server = slot - SLOT_PING;
    } else if (slot >= SLOT_FIBER) {
        client = (slot - SLOT_FIBER) / 2;
    } else if (slot >= SLOT_THREAD) {
        client = (slot - SLOT_THREAD) / SIM_THREADS;
    } else if (slot >= SLOT_LIBRARY && slot < SLOT_PROCESS) {
        client = (slot - SLOT_LIBRARY) % SIM_CLIENTS;
    }
    return server >= 0 ? s->servers[server].paused_until : client >= 0 ? s->clients[client].paused_until : 0;
}

void sim_arm(struct sim *s, int slot, int64_t due)
{
    int64_t until = due < s->last_pause ? paused_until(s, slot) : 0;
    if (due < until) {
        /* What piled up is taken up within a millisecond, in no particular order. */
        due = until + (dice_at(s->seed, slot, until) % SIM_MS);
    }
    sim_clock_set(&s->clock, slot, sim_max(due, s->clock.now));
}

void sim_process_pause(struct sim *s, int64_t *until, int64_t duration)
{
    *until = sim_max(*until, sim_now(s) + duration);
    s->last_pause = sim_max(s->last_pause, *until);
    for (int slot = 0; slot < SLOTS; slot++) {
        if (s->clock.due[slot] != SIM_NEVER) {
            sim_arm(s, slot, s->clock.due[slot]);
        }
    }
}
