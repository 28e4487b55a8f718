/* plain_heap.h - the heap of the C library, for tests of what takes one. */
#ifndef ZKL_TESTS_PLAIN_HEAP_H
#define ZKL_TESTS_PLAIN_HEAP_H

#include <stdlib.h>

#include <zklock/types.h>

static inline void *plain_alloc(void *payload, size_t size)
{
    (void)payload;
    return malloc(size);
}

static inline void *plain_resize(void *payload, void *ptr, size_t size)
{
    (void)payload;
    return realloc(ptr, size);
}

static inline void plain_release(void *payload, void *ptr)
{
    (void)payload;
    free(ptr);
}

static const zkl_heap plain_heap = {plain_alloc, plain_resize, plain_release, NULL};

#endif
