/* watches.h - who waits to hear of which path: a hash table of the owners' own structs, so that
 * adding one cannot fail for memory. */
#ifndef ZKL_CORE_WATCHES_H
#define ZKL_CORE_WATCHES_H

#include "core.h"

struct zkl__watches {
    const zkl_heap *heap;
    struct zkl__watch **buckets;
    size_t bucket_count;
    size_t count;
    size_t bytes; /* of all paths: re-set in one packet after a reconnect, which the server drops
                     when it is too long */
};

bool zkl__watches_init(struct zkl__watches *watches, const zkl_heap *heap);
void zkl__watches_deinit(struct zkl__watches *watches, const zkl_heap *heap);
/* ZKL_OK, also when it is on already; ZKL_ELIMIT. */
int zkl__watches_add(struct zkl__watches *watches, struct zkl__watch *watch, size_t bytes_max);
void zkl__watches_remove(struct zkl__watches *watches, struct zkl__watch *watch);
/* All that wait for path, chained by next, out of the table. */
struct zkl__watch *zkl__watches_take(struct zkl__watches *watches, const char *path);
struct zkl__watch *zkl__watches_take_any(struct zkl__watches *watches);
bool zkl__watches_any(const struct zkl__watches *watches, const char *path);

#endif
