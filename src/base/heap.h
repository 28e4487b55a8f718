/* heap.h - the allocator everything inside uses; never malloc by name. */
#ifndef ZKL_BASE_HEAP_H
#define ZKL_BASE_HEAP_H

#include <zklock/types.h>

static inline void *zkl__alloc(const zkl_heap *heap, size_t size)
{
    return heap->alloc(heap->payload, size);
}
static inline void *zkl__resize(const zkl_heap *heap, void *ptr, size_t size)
{
    return heap->resize(heap->payload, ptr, size);
}
/* NULL: nothing. */
static inline void zkl__free(const zkl_heap *heap, void *ptr)
{
    if (ptr) {
        heap->release(heap->payload, ptr);
    }
}

/* Zeroed; NULL when there is no memory. */
void *zkl__zalloc(const zkl_heap *heap, size_t size);
/* Copy of size bytes with a NUL behind; NULL when there is no memory. */
char *zkl__copy(const zkl_heap *heap, const void *data, size_t size);
/* For one block with several texts in it: copies text to *end, moves *end behind it, returns the
 * copy. */
const char *zkl__text_put(char **end, const char *text);

#endif
