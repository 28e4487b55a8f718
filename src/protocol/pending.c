#include "pending.h"

#include <string.h>

#define ROOM_LEAST 16

static bool grow(struct zkl__pendings *pendings)
{
    size_t room = pendings->room ? pendings->room * 2 : ROOM_LEAST;
    struct zkl__pending *grown = zkl__resize(pendings->heap, pendings->slots, room * sizeof *grown);
    if (!grown) {
        return false;
    }
    memset(grown + pendings->room, 0, (room - pendings->room) * sizeof *grown);
    for (size_t i = pendings->room; i < room; i++) {
        grown[i].next = pendings->free;
        pendings->free = i + 1;
    }
    pendings->slots = grown;
    pendings->room = room;
    return true;
}

struct zkl__pending *zkl__pending_take(struct zkl__pendings *pendings)
{
    if (pendings->free == 0 && !grow(pendings)) {
        return NULL;
    }
    struct zkl__pending *p = &pendings->slots[pendings->free - 1];
    pendings->free = p->next;
    p->on = true;
    p->uses++;
    pendings->on_count++;
    return p;
}

void zkl__pending_own(struct zkl__pendings *pendings, struct zkl__pending *p,
                      struct zkl__machine *owner)
{
    p->owner = owner;
    if (owner) {
        size_t at = (size_t)(p - pendings->slots) + 1;
        p->prev_owned = 0;
        p->next_owned = owner->pending;
        if (p->next_owned) {
            pendings->slots[p->next_owned - 1].prev_owned = at;
        }
        owner->pending = at;
    }
}

void zkl__pending_disown(struct zkl__pendings *pendings, struct zkl__pending *p)
{
    if (!p->owner) {
        return;
    }
    *(p->prev_owned ? &pendings->slots[p->prev_owned - 1].next_owned : &p->owner->pending) =
        p->next_owned;
    if (p->next_owned) {
        pendings->slots[p->next_owned - 1].prev_owned = p->prev_owned;
    }
    p->owner = NULL;
}

void zkl__pending_drop(struct zkl__pendings *pendings, struct zkl__pending *p)
{
    zkl__pending_disown(pendings, p);
    p->on = false;
    p->next = pendings->free;
    pendings->free = (size_t)(p - pendings->slots) + 1;
    pendings->on_count--;
}

uint64_t zkl__pending_id(const struct zkl__pendings *pendings, const struct zkl__pending *p)
{
    return (uint64_t)p->uses << 32 | (uint64_t)(p - pendings->slots);
}

struct zkl__pending *zkl__pending_find(const struct zkl__pendings *pendings, uint64_t id)
{
    size_t slot = (size_t)(id & UINT32_MAX);
    if (slot >= pendings->room || !pendings->slots[slot].on ||
        pendings->slots[slot].uses != id >> 32) {
        return NULL;
    }
    return &pendings->slots[slot];
}
