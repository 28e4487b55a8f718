#include "map.h"

#include "path.h"

#include <string.h>

#define BUCKETS_LEAST 16

static struct zkl__map_entry **bucket_of(const struct zkl__map *map, const char *path)
{
    return &map->buckets[zkl__path_hash(path) & (map->bucket_count - 1)];
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

bool zkl__map_init(struct zkl__map *map, const zkl_heap *heap)
{
    *map = (struct zkl__map){.heap = heap, .bucket_count = BUCKETS_LEAST};
    map->buckets = zkl__zalloc(heap, BUCKETS_LEAST * sizeof *map->buckets);
    return map->buckets != NULL;
}

void zkl__map_deinit(struct zkl__map *map)
{
    zkl__free(map->heap, map->buckets);
}

static void grow(struct zkl__map *map)
{
    struct zkl__map grown = *map;
    grown.bucket_count *= 2;
    grown.buckets = zkl__zalloc(map->heap, grown.bucket_count * sizeof *grown.buckets);
    if (!grown.buckets) {
        return;
    }
    for (size_t i = 0; i < map->bucket_count; i++) {
        for (struct zkl__map_entry *entry = map->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            push(&grown, entry);
        }
    }
    zkl__free(map->heap, map->buckets);
    *map = grown;
}

void zkl__map_add(struct zkl__map *map, struct zkl__map_entry *entry)
{
    if (map->count >= map->bucket_count) {
        grow(map);
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
    struct zkl__map_entry *entry = *bucket_of(map, path);
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
