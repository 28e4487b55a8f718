/* requests.c - operations under way, room for them, and watches. */

#include "core.h"
#include "core_internal.h"

#include <string.h>

/* === operations under way ===================================================================== */

#define ROOM_LEAST 16
#define ROOM_KEPT 256

static bool add_slots(struct zkl__pendings *pendings)
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
    if (pendings->free == 0 && !add_slots(pendings)) {
        return NULL;
    }
    struct zkl__pending *p = &pendings->slots[pendings->free - 1];
    pendings->free = p->next;
    p->on = true;
    p->use = ++pendings->uses;
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

void zkl__pendings_shrink(struct zkl__pendings *pendings)
{
    if (pendings->on_count == 0 && pendings->room > ROOM_KEPT) {
        zkl__free(pendings->heap, pendings->slots);
        pendings->slots = NULL;
        pendings->room = pendings->free = 0;
    }
}

uint64_t zkl__pending_id(const struct zkl__pendings *pendings, const struct zkl__pending *p)
{
    return (uint64_t)p->use << 32 | (uint64_t)(p - pendings->slots);
}

struct zkl__pending *zkl__pending_find(const struct zkl__pendings *pendings, uint64_t id)
{
    size_t slot = (size_t)(id & UINT32_MAX);
    if (slot >= pendings->room || !pendings->slots[slot].on ||
        pendings->slots[slot].use != id >> 32) {
        return NULL;
    }
    return &pendings->slots[slot];
}

/* === room for operations ====================================================================== */

#define FIRST 256
#define LEAST 32 /* a server that is slow by itself, or far away, gets no faster by less */
#define PART 8   /* of a heartbeat: what the answers may take */

void zkl__window_init(struct zkl__window *window, size_t most)
{
    *window = (struct zkl__window){.size = most && most < FIRST ? most : FIRST, .most = most};
}

bool zkl__window_has_room(const struct zkl__window *window)
{
    return window->under_way < window->size;
}

void zkl__window_sent(struct zkl__window *window)
{
    window->under_way++;
}

static void widen(struct zkl__window *window)
{
    window->credit++;
    if ((!window->slowed || window->credit >= window->size) &&
        (window->most == 0 || window->size < window->most)) {
        window->size++;
        window->credit = 0;
    }
}

/* Once for all that was under way together. */
static void narrow(struct zkl__window *window, int64_t sent, int64_t now)
{
    if (sent >= window->slowed_at && window->size > LEAST) {
        window->size = window->size / 2 > LEAST ? window->size / 2 : LEAST;
        window->slowed = true;
        window->slowed_at = now;
        window->credit = 0;
    }
}

void zkl__window_ended(struct zkl__window *window, bool answered, int64_t sent, int64_t now,
                       int64_t heartbeat)
{
    bool used = 2 * window->under_way > window->size; /* else its size is not what is measured */
    window->under_way--;
    if (answered && used && now - sent > heartbeat / PART) {
        narrow(window, sent, now);
    } else if (answered && used) {
        widen(window);
    }
}

/* === watches ================================================================================== */

int zkl__watches_add(struct zkl__watches *watches, struct zkl__watch *watch, size_t bytes_max)
{
    if (watch->entry.link) {
        return ZKL_OK;
    }
    size_t length = strlen(watch->entry.path);
    if (bytes_max && watches->bytes + length > bytes_max) {
        return ZKL_ELIMIT;
    }
    zkl__map_add(&watches->map, &watch->entry);
    watches->bytes += length;
    return ZKL_OK;
}

void zkl__watches_remove(struct zkl__watches *watches, struct zkl__watch *watch)
{
    if (watch->entry.link) {
        zkl__map_remove(&watches->map, &watch->entry);
        watches->bytes -= strlen(watch->entry.path);
    }
}

struct zkl__watch *zkl__watches_take(struct zkl__watches *watches, const char *path)
{
    struct zkl__map_entry *taken = NULL, *entry;
    while ((entry = zkl__map_find(&watches->map, path))) {
        zkl__watches_remove(watches, (struct zkl__watch *)entry);
        entry->next = taken;
        taken = entry;
    }
    return (struct zkl__watch *)taken;
}
