#include "watches.h"

#include "path.h"

#include <string.h>

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
static void grow(struct zkl__watches *watches)
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
        grow(watches);
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
