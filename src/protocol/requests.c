/* requests.c - machines that are ready, operations under way, room for them, and watches. */

#include "core.h"
#include "path.h"
#include "session_inside.h"

#include <string.h>

/* === machines that are ready ================================================================== */

static bool take_out(struct zkl__ready *ready, struct zkl__machine *machine, enum zkl__rank rank)
{
    struct zkl__machine *before = NULL, *at = ready->first[rank];
    while (at && at != machine) {
        before = at;
        at = at->next;
    }
    if (at) {
        *(before ? &before->next : &ready->first[rank]) = at->next;
        ready->last[rank] = at->next ? ready->last[rank] : before;
        at->next = NULL;
        at->ready = false;
    }
    return at;
}

void zkl__ready_remove(struct zkl__ready *ready, struct zkl__machine *machine)
{
    for (int rank = 0; machine->ready && rank < ZKL__RANKS; rank++) {
        (void)take_out(ready, machine, (enum zkl__rank)rank);
    }
}

/* === operations under way ===================================================================== */

#define ROOM_LEAST 16

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

#define BUCKETS_LEAST 16

bool zkl__watches_init(struct zkl__watches *watches, const zkl_heap *heap)
{
    watches->heap = heap;
    watches->bucket_count = BUCKETS_LEAST;
    watches->buckets = zkl__zalloc(heap, BUCKETS_LEAST * sizeof(struct zkl__watch *));
    return watches->buckets != NULL;
}

void zkl__watches_deinit(struct zkl__watches *watches, const zkl_heap *heap)
{
    zkl__free(heap, watches->buckets);
}

static struct zkl__watch **bucket_of(const struct zkl__watches *watches, uint32_t hash)
{
    return &watches->buckets[hash & (watches->bucket_count - 1)];
}

/* Without memory the table keeps its buckets, and the chains become longer. */
static void add_buckets(struct zkl__watches *watches)
{
    struct zkl__watch **old = watches->buckets;
    size_t old_count = watches->bucket_count;
    struct zkl__watch **grown = zkl__zalloc(watches->heap, 2 * old_count * sizeof *grown);
    if (!grown) {
        return;
    }
    watches->buckets = grown;
    watches->bucket_count = 2 * old_count;
    for (size_t i = 0; i < old_count; i++) {
        while (old[i]) {
            struct zkl__watch *watch = old[i];
            struct zkl__watch **bucket = bucket_of(watches, watch->hash);
            old[i] = watch->next;
            watch->next = *bucket;
            *bucket = watch;
        }
    }
    zkl__free(watches->heap, old);
}

int zkl__watches_add(struct zkl__watches *watches, struct zkl__watch *watch, size_t bytes_max)
{
    if (watch->on) {
        return ZKL_OK;
    }
    size_t length = strlen(watch->path);
    if (bytes_max && watches->bytes + length > bytes_max) {
        return ZKL_ELIMIT;
    }
    if (watches->count >= 2 * watches->bucket_count) {
        add_buckets(watches);
    }
    watch->hash = zkl__path_hash(watch->path);
    struct zkl__watch **bucket = bucket_of(watches, watch->hash);
    watch->next = *bucket;
    watch->on = true;
    *bucket = watch;
    watches->count++;
    watches->bytes += length;
    return ZKL_OK;
}

static struct zkl__watch *unlink_at(struct zkl__watches *watches, struct zkl__watch **at)
{
    struct zkl__watch *watch = *at;
    *at = watch->next;
    watch->next = NULL;
    watch->on = false;
    watches->count--;
    watches->bytes -= strlen(watch->path);
    return watch;
}

void zkl__watches_remove(struct zkl__watches *watches, struct zkl__watch *watch)
{
    if (!watch->on) {
        return;
    }
    struct zkl__watch **at = bucket_of(watches, watch->hash);
    while (*at != watch) {
        at = &(*at)->next;
    }
    unlink_at(watches, at);
}

struct zkl__watch *zkl__watches_take(struct zkl__watches *watches, const char *path)
{
    uint32_t hash = zkl__path_hash(path);
    struct zkl__watch *taken = NULL;
    for (struct zkl__watch **at = bucket_of(watches, hash); *at;) {
        if ((*at)->hash == hash && strcmp((*at)->path, path) == 0) {
            struct zkl__watch *watch = unlink_at(watches, at);
            watch->next = taken;
            taken = watch;
        } else {
            at = &(*at)->next;
        }
    }
    return taken;
}

struct zkl__watch *zkl__watches_take_any(struct zkl__watches *watches)
{
    for (size_t i = 0; watches->count > 0 && i < watches->bucket_count; i++) {
        if (watches->buckets[i]) {
            return unlink_at(watches, &watches->buckets[i]);
        }
    }
    return NULL;
}

bool zkl__watches_any(const struct zkl__watches *watches, const char *path)
{
    uint32_t hash = zkl__path_hash(path);
    for (const struct zkl__watch *watch = *bucket_of(watches, hash); watch; watch = watch->next) {
        if (watch->hash == hash && strcmp(watch->path, path) == 0) {
            return true;
        }
    }
    return false;
}
