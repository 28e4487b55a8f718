#include "test_heap.h"

#include <stdlib.h>
#include <string.h>

union block {
    size_t size;
    max_align_t aligned;
};

static bool refuses(struct test_heap *heap)
{
    heap->taken++;
    bool fails = heap->fail_at > 0 && (heap->taken == heap->fail_at || (heap->fail_on && heap->taken > heap->fail_at));
    heap->failures += fails;
    return fails;
}

static void *heap_resize(void *payload, void *ptr, size_t size)
{
    struct test_heap *heap = payload;
    union block *old = ptr ? (union block *)ptr - 1 : NULL;
    size_t before = old ? old->size : 0;
    pthread_mutex_lock(&heap->mutex);
    union block *block = refuses(heap) ? NULL : realloc(old, sizeof *block + size);
    if (block) {
        heap->live += !old;
        heap->bytes += (long)size - (long)before;
        block->size = size;
    }
    pthread_mutex_unlock(&heap->mutex);
    return block ? block + 1 : NULL;
}

static void *heap_alloc(void *payload, size_t size)
{
    return heap_resize(payload, NULL, size);
}

static void heap_release(void *payload, void *ptr)
{
    struct test_heap *heap = payload;
    if (ptr) {
        union block *block = (union block *)ptr - 1;
        pthread_mutex_lock(&heap->mutex);
        heap->live--;
        heap->bytes -= (long)block->size;
        pthread_mutex_unlock(&heap->mutex);
        memset(block + 1, 0xa5, block->size);           /* who uses it now, notices */
        __asm__ volatile("" : : "r"(block) : "memory"); /* the compiler would leave that out */
        free(block);
    }
}

zkl_heap test_heap(struct test_heap *heap)
{
    return (zkl_heap){.alloc = heap_alloc, .resize = heap_resize, .release = heap_release, .payload = heap};
}

void test_heap_fail(struct test_heap *heap, long nth, bool on)
{
    pthread_mutex_lock(&heap->mutex);
    heap->taken = 0;
    heap->failures = 0;
    heap->fail_at = nth;
    heap->fail_on = on;
    pthread_mutex_unlock(&heap->mutex);
}

static long read_field(struct test_heap *heap, const long *field)
{
    pthread_mutex_lock(&heap->mutex);
    long value = *field;
    pthread_mutex_unlock(&heap->mutex);
    return value;
}

long test_heap_live(struct test_heap *heap)
{
    return read_field(heap, &heap->live);
}
long test_heap_bytes(struct test_heap *heap)
{
    return read_field(heap, &heap->bytes);
}
long test_heap_failures(struct test_heap *heap)
{
    return read_field(heap, &heap->failures);
}
