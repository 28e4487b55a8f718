/* watches.h - which watches are set on which paths: a hash table that links the owners' own
 * structs, so adding one needs no memory. */
#ifndef ZKL_PROTOCOL_WATCHES_H
#define ZKL_PROTOCOL_WATCHES_H

#include "core.h"

struct zkl__watches {
    const zkl_heap *heap;
    struct zkl__watch **buckets;
    size_t bucket_count;
    size_t count;
    size_t bytes; /* of all paths. After a reconnect the client library sets all watches again in
                     one packet, and a server closes the connection if that is too long */
};

bool zkl__watches_init(struct zkl__watches *watches, const zkl_heap *heap);
void zkl__watches_deinit(struct zkl__watches *watches, const zkl_heap *heap);
/* ZKL_OK, also when watch is in the table already. ZKL_ELIMIT: with it the paths would have more
 * than bytes_max bytes (0: no limit). */
int zkl__watches_add(struct zkl__watches *watches, struct zkl__watch *watch, size_t bytes_max);
void zkl__watches_remove(struct zkl__watches *watches, struct zkl__watch *watch);
/* Takes all watches of path out of the table. They are chained by next. */
struct zkl__watch *zkl__watches_take(struct zkl__watches *watches, const char *path);
/* Takes one watch of any path out of the table. NULL: the table is empty. */
struct zkl__watch *zkl__watches_take_any(struct zkl__watches *watches);
bool zkl__watches_any(const struct zkl__watches *watches, const char *path);

#endif
