#include "collections.h"

#include "name.h"

#include <string.h>

/* === maps ===================================================================================== */

#define BUCKETS_LEAST 16

/* Nobody can follow it without the key. */
static struct zkl__map_entry **bucket_of(const struct zkl__map *map, const char *path)
{
    size_t length = strlen(path);
    uint64_t hash = map->key + UINT64_C(0x9e3779b97f4a7c15) * (length + 1);
    for (size_t i = 0; i < length; i += sizeof hash) {
        uint64_t word = 0;
        memcpy(&word, path + i, length - i < sizeof word ? length - i : sizeof word);
        hash = zkl__mix(hash ^ word) + map->key;
    }
    return &map->buckets[zkl__mix(hash) & (map->bucket_count - 1)];
}

static void link_at(struct zkl__map_entry **link, struct zkl__map_entry *entry)
{
    *link = entry;
    if (entry) {
        entry->link = link;
    }
}

static void push(struct zkl__map *map, struct zkl__map_entry *entry)
{
    struct zkl__map_entry **bucket = bucket_of(map, entry->path);
    link_at(&entry->next, *bucket);
    link_at(bucket, entry);
}

/* False: no memory. */
static bool grow(struct zkl__map *map)
{
    struct zkl__map grown = *map;
    grown.bucket_count = map->bucket_count ? 2 * map->bucket_count : BUCKETS_LEAST;
    grown.buckets = zkl__zalloc(map->heap, grown.bucket_count * sizeof *grown.buckets);
    if (!grown.buckets) {
        return false;
    }
    for (size_t i = 0; i < map->bucket_count; i++) {
        for (struct zkl__map_entry *entry = map->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            push(&grown, entry);
        }
    }
    zkl__free(map->heap, map->buckets);
    *map = grown;
    return true;
}

bool zkl__map_init(struct zkl__map *map, const zkl_heap *heap)
{
    *map = (struct zkl__map){.heap = heap};
    return grow(map);
}

void zkl__map_deinit(struct zkl__map *map)
{
    zkl__free(map->heap, map->buckets);
    *map = (struct zkl__map){.heap = map->heap, .key = map->key};
}

void zkl__map_add(struct zkl__map *map, struct zkl__map_entry *entry)
{
    if (map->count >= map->bucket_count) {
        (void)grow(map);
    }
    push(map, entry);
    map->count++;
}

void zkl__map_remove(struct zkl__map *map, struct zkl__map_entry *entry)
{
    link_at(entry->link, entry->next);
    entry->next = NULL;
    entry->link = NULL;
    map->count--;
}

struct zkl__map_entry *zkl__map_find(const struct zkl__map *map, const char *path)
{
    struct zkl__map_entry *entry = map->count > 0 ? *bucket_of(map, path) : NULL;
    while (entry && strcmp(entry->path, path) != 0) {
        entry = entry->next;
    }
    return entry;
}

struct zkl__map_entry *zkl__map_any(const struct zkl__map *map)
{
    for (size_t i = 0; map->count > 0; i++) {
        if (map->buckets[i]) {
            return map->buckets[i];
        }
    }
    return NULL;
}

/* --- sets of names --------------------------------------------------------------------------- */

struct named {
    struct zkl__map_entry entry; /* first */
    int64_t value;
    char name[];
};

const int64_t *zkl__names_find(const struct zkl__map *names, const char *name)
{
    struct named *found = (struct named *)zkl__map_find(names, name);
    return found ? &found->value : NULL;
}

bool zkl__names_put(struct zkl__map *names, const char *name, int64_t value)
{
    struct named *named = (struct named *)zkl__map_find(names, name);
    if (!named) {
        size_t size = strlen(name) + 1;
        named =
            names->buckets || grow(names) ? zkl__alloc(names->heap, sizeof *named + size) : NULL;
        if (!named) {
            return false;
        }
        named->entry.path = memcpy(named->name, name, size);
        zkl__map_add(names, &named->entry);
    }
    named->value = value;
    return true;
}

void zkl__names_keep(struct zkl__map *names, const char *const *these, size_t count)
{
    struct zkl__map kept = {.heap = names->heap, .key = names->key};
    for (size_t i = 0; i < count; i++) {
        const int64_t *value = zkl__names_find(names, these[i]);
        if (value && !zkl__names_put(&kept, these[i], *value)) {
            break; /* no memory: those are looked at again */
        }
    }
    zkl__names_clear(names);
    *names = kept;
}

void zkl__names_clear(struct zkl__map *names)
{
    for (size_t i = 0; i < names->bucket_count; i++) {
        for (struct zkl__map_entry *entry = names->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            zkl__free(names->heap, entry);
        }
    }
    zkl__map_deinit(names);
}

/* === timers =================================================================================== */

/* The nodes are numbered from 1, level by level. The bits of a number below its first one say where
 * to turn on the way down from the root. */
static struct zkl__timer **link_of(struct zkl__timers *timers, size_t number,
                                   struct zkl__timer **parent)
{
    struct zkl__timer **at = &timers->root;
    size_t bit = 1;
    while (bit <= number / 2) {
        bit *= 2;
    }
    *parent = NULL;
    for (bit /= 2; bit > 0; bit /= 2) {
        *parent = *at;
        at = &(*at)->child[(number & bit) != 0];
    }
    return at;
}

static struct zkl__timer **link_to(struct zkl__timers *timers, const struct zkl__timer *timer)
{
    struct zkl__timer *parent = timer->parent;
    return parent ? &parent->child[parent->child[1] == timer] : &timers->root;
}

static void adopt_children(struct zkl__timer *timer)
{
    for (int side = 0; side < 2; side++) {
        if (timer->child[side]) {
            timer->child[side]->parent = timer;
        }
    }
}

/* The child and its parent change places. */
static void swap_with_parent(struct zkl__timers *timers, struct zkl__timer *child)
{
    struct zkl__timer *parent = child->parent, was = *child;
    int side = parent->child[1] == child;
    *link_to(timers, parent) = child;
    child->parent = parent->parent;
    child->child[side] = parent;
    child->child[!side] = parent->child[!side];
    parent->child[0] = was.child[0];
    parent->child[1] = was.child[1];
    adopt_children(parent);
    adopt_children(child);
}

static void move_up(struct zkl__timers *timers, struct zkl__timer *timer)
{
    while (timer->parent && timer->parent->at > timer->at) {
        swap_with_parent(timers, timer);
    }
}

static void move_down(struct zkl__timers *timers, struct zkl__timer *timer)
{
    while (timer->child[0]) {
        struct zkl__timer *least = timer->child[0];
        if (timer->child[1] && timer->child[1]->at < least->at) {
            least = timer->child[1];
        }
        if (least->at >= timer->at) {
            return;
        }
        swap_with_parent(timers, least);
    }
}

/* The last one takes its place. */
static void take_out(struct zkl__timers *timers, struct zkl__timer *timer)
{
    struct zkl__timer *parent, **end = link_of(timers, timers->count, &parent), *last = *end;
    *end = NULL;
    timers->count--;
    timer->set = false;
    if (last != timer) {
        *link_to(timers, timer) = last;
        last->parent = timer->parent;
        last->child[0] = timer->child[0];
        last->child[1] = timer->child[1];
        adopt_children(last);
        move_down(timers, last);
        move_up(timers, last);
    }
}

void zkl__timers_set(struct zkl__timers *timers, struct zkl__timer *timer, int64_t at)
{
    if (timer->set && timer->at == at) {
        return;
    }
    if (timer->set) {
        take_out(timers, timer);
    }
    timer->at = at;
    if (at != INT64_MAX) {
        timers->count++;
        timer->set = true;
        timer->child[0] = timer->child[1] = NULL;
        *link_of(timers, timers->count, &timer->parent) = timer;
        move_up(timers, timer);
    }
}

struct zkl__timer *zkl__timers_due(struct zkl__timers *timers, int64_t now)
{
    struct zkl__timer *timer = timers->root;
    if (!timer || timer->at > now) {
        return NULL;
    }
    take_out(timers, timer);
    return timer;
}

int64_t zkl__timers_next(const struct zkl__timers *timers)
{
    return timers->root ? timers->root->at : INT64_MAX;
}

/* === sorting ================================================================================== */

struct sorting {
    char *base;
    size_t size;
    int (*compare)(const void *one, const void *other);
};

static bool is_less(const struct sorting *s, size_t one, size_t other)
{
    return s->compare(s->base + one * s->size, s->base + other * s->size) < 0;
}

static void swap_items(const struct sorting *s, size_t one, size_t other)
{
    char *a = s->base + one * s->size, *b = s->base + other * s->size;
    for (size_t i = 0; i < s->size; i += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, a + i, sizeof word);
        memcpy(a + i, b + i, sizeof word);
        memcpy(b + i, &word, sizeof word);
    }
}

/* Below `at` the greatest stands on top already; from here on at `at`, too. */
static void sift(const struct sorting *s, size_t at, size_t count)
{
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && is_less(s, child, child + 1);
        if (!is_less(s, at, child)) {
            return;
        }
        swap_items(s, at, child);
    }
}

/* Heapsort. */
void zkl__sort(void *base, size_t count, size_t size,
               int (*compare)(const void *one, const void *other))
{
    const struct sorting s = {base, size, compare};
    size_t at = count / 2, left = count;
    while (left > 1) {
        if (at > 0) {
            at--; /* it is no heap yet */
        } else {
            swap_items(&s, 0, --left);
        }
        sift(&s, at, left);
    }
}
