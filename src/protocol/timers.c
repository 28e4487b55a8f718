#include "timers.h"

bool zkl__timers_reserve(struct zkl__timers *timers, const zkl_heap *heap)
{
    /* Room is counted by live timers: each machine sets one at the most. */
    if (timers->machines + 1 > timers->room) {
        size_t room = timers->room ? timers->room * 2 : 8;
        struct zkl__machine **grown = zkl__resize(heap, timers->heap, room * sizeof *grown);
        if (!grown) {
            return false;
        }
        timers->heap = grown;
        timers->room = room;
    }
    timers->machines++;
    return true;
}

void zkl__timers_deinit(struct zkl__timers *timers, const zkl_heap *heap)
{
    zkl__free(heap, timers->heap);
}

static void put(struct zkl__timers *timers, size_t at, struct zkl__machine *machine)
{
    timers->heap[at] = machine;
    machine->timer = at + 1;
}

static void up(struct zkl__timers *timers, size_t at)
{
    struct zkl__machine *machine = timers->heap[at];
    while (at > 0 && timers->heap[(at - 1) / 2]->wake > machine->wake) {
        put(timers, at, timers->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    put(timers, at, machine);
}

static void down(struct zkl__timers *timers, size_t at)
{
    struct zkl__machine *machine = timers->heap[at];
    for (size_t child; (child = 2 * at + 1) < timers->count; at = child) {
        if (child + 1 < timers->count &&
            timers->heap[child + 1]->wake < timers->heap[child]->wake) {
            child++;
        }
        if (timers->heap[child]->wake >= machine->wake) {
            break;
        }
        put(timers, at, timers->heap[child]);
    }
    put(timers, at, machine);
}

static void take_out(struct zkl__timers *timers, struct zkl__machine *machine)
{
    size_t at = machine->timer - 1;
    machine->timer = 0;
    timers->count--;
    if (at < timers->count) {
        put(timers, at, timers->heap[timers->count]);
        down(timers, at);
        up(timers, at);
    }
}

void zkl__timers_set(struct zkl__timers *timers, struct zkl__machine *machine, int64_t wake)
{
    if (machine->timer && machine->wake == wake) {
        return;
    }
    if (machine->timer) {
        take_out(timers, machine);
    }
    machine->wake = wake;
    if (wake != INT64_MAX) {
        timers->heap[timers->count] = machine;
        timers->count++;
        up(timers, timers->count - 1);
    }
}

void zkl__timers_remove(struct zkl__timers *timers, struct zkl__machine *machine)
{
    zkl__timers_set(timers, machine, INT64_MAX);
    timers->machines--;
}

struct zkl__machine *zkl__timers_due(struct zkl__timers *timers, int64_t now)
{
    if (timers->count == 0 || timers->heap[0]->wake > now) {
        return NULL;
    }
    struct zkl__machine *machine = timers->heap[0];
    take_out(timers, machine);
    return machine;
}

int64_t zkl__timers_next(const struct zkl__timers *timers)
{
    return timers->count > 0 ? timers->heap[0]->wake : INT64_MAX;
}
