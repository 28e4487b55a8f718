/* heap.c - memory of a simulated process: size classes in one block, counted, failing when told to. Under a sanitizer every
 * block is malloc's own, so that the sanitizer sees it. */

#include "client.h"

#if defined(__SANITIZE_ADDRESS__)
#define PLAIN_MALLOC 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PLAIN_MALLOC 1
#endif
#endif
#ifndef PLAIN_MALLOC
#define PLAIN_MALLOC 0
#endif

enum { LEAST_CLASS = 4 };

struct block {
    uint32_t class;
    uint32_t size;
    char data[];
};

void sim_heap_init(struct sim_heap *heap)
{
    *heap = (struct sim_heap){.size = 1u << 20, .fail_from = -1};
    heap->base = malloc(heap->size);
}

void sim_heap_deinit(struct sim_heap *heap)
{
    free(heap->base);
    free(heap->starts);
}

void sim_heap_reset(struct sim_heap *heap)
{
    *heap = (struct sim_heap){.base = heap->base, .size = heap->size, .starts = heap->starts, .fail_from = -1};
}

bool sim_heap_mapped(struct sim_heap *heap)
{
    if (!heap->starts) {
        heap->starts = calloc(heap->size >> LEAST_CLASS, sizeof *heap->starts);
    }
    return heap->starts;
}

static void *sim_alloc(void *payload, size_t size)
{
    struct sim_heap *heap = payload;
    long number = heap->allocations++;
    if (heap->fail_from >= 0 && number >= heap->fail_from && number < heap->fail_from + heap->fail_count) {
        return NULL;
    }
    size_t whole = sizeof(struct block) + size, room = 1 << LEAST_CLASS;
    unsigned class = LEAST_CLASS;
    struct block *block = NULL;
    for (; room < whole; room *= 2) {
        class ++;
    }
    if (PLAIN_MALLOC && !heap->starts) {
        block = malloc(whole);
    } else if (class < SIM_HEAP_CLASSES && heap->spare[class]) {
        block = heap->spare[class];
        memcpy(&heap->spare[class], block->data, sizeof(void *));
    } else if (heap->used + room <= heap->size) {
        block = (struct block *)(heap->base + heap->used);
        size_t first = heap->used >> LEAST_CLASS;
        heap->used += room;
        for (size_t i = first; heap->starts && i < heap->used >> LEAST_CLASS; i++) {
            heap->starts[i] = (uint32_t)first;
        }
    }
    if (!block) {
        return NULL;
    }
    block->class = class;
    block->size = (uint32_t)size;
    heap->live++;
    if (heap->starts) {
        memset(block->data, 0, size);
    }
    return block->data;
}

static void sim_release(void *payload, void *ptr)
{
    struct sim_heap *heap = payload;
    if (!ptr) {
        return;
    }
    struct block *block = (struct block *)((char *)ptr - offsetof(struct block, data));
    heap->live--;
    if (PLAIN_MALLOC && !heap->starts) {
        free(block);
        return;
    }
    block->size = 0;
    memcpy(block->data, &heap->spare[block->class], sizeof(void *));
    heap->spare[block->class] = block;
}

static void *sim_resize(void *payload, void *ptr, size_t size)
{
    void *grown = sim_alloc(payload, size);
    if (grown && ptr) {
        uint32_t old = ((struct block *)((char *)ptr - offsetof(struct block, data)))->size;
        memcpy(grown, ptr, old < size ? old : size);
        sim_release(payload, ptr);
    }
    return grown;
}

int32_t sim_heap_find(const struct sim_heap *heap, uint64_t word, uint32_t *offset)
{
    uint64_t at = word - (uintptr_t)heap->base;
    if (at >= heap->used) {
        return -1;
    }
    uint32_t start = heap->starts[at >> LEAST_CLASS];
    *offset = (uint32_t)(at - (start << LEAST_CLASS));
    return start;
}

const void *sim_heap_block(const struct sim_heap *heap, uint32_t start, size_t *size)
{
    const struct block *block = (const void *)(heap->base + ((size_t)start << LEAST_CLASS));
    *size = block->size;
    return block->data;
}

zkl_heap sim_heap_api(struct sim_heap *heap)
{
    return (zkl_heap){.alloc = sim_alloc, .resize = sim_resize, .release = sim_release, .payload = heap};
}
