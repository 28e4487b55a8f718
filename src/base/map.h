/* map.h - what belongs to which path: a hash table that links its owners' own structs, so that
 * adding one needs no memory. */
#ifndef ZKL_BASE_MAP_H
#define ZKL_BASE_MAP_H

#include "heap.h"

#include <stdbool.h>

struct zkl__map_entry {
    struct zkl__map_entry *next;  /* in its bucket */
    struct zkl__map_entry **link; /* what points to it there; NULL: it is in no map */
    const char *path;             /* the owner's to set, before it is added; its memory */
};

struct zkl__map {
    const zkl_heap *heap;
    struct zkl__map_entry **buckets;
    size_t bucket_count, count;
};

/* False: no memory. */
bool zkl__map_init(struct zkl__map *map, const zkl_heap *heap);
/* Drops what is in it. */
void zkl__map_deinit(struct zkl__map *map);
/* Several entries may have the same path. Without memory for more buckets the chains become longer,
 * and that is all. */
void zkl__map_add(struct zkl__map *map, struct zkl__map_entry *entry);
/* It has to be in the map. Its cost is the same however many there are of its path. */
void zkl__map_remove(struct zkl__map *map, struct zkl__map_entry *entry);
/* Of this path, the latest one; NULL: there is none. */
struct zkl__map_entry *zkl__map_find(const struct zkl__map *map, const char *path);
/* Of any path; NULL: the map is empty. */
struct zkl__map_entry *zkl__map_any(const struct zkl__map *map);
#endif
