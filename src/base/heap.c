#include "heap.h"

#include <string.h>

void *zkl__zalloc(const zkl_heap *heap, size_t size)
{
    void *ptr = zkl__alloc(heap, size);
    if (ptr) {
        memset(ptr, 0, size);
    }
    return ptr;
}

char *zkl__copy(const zkl_heap *heap, const void *data, size_t size)
{
    char *copy = zkl__alloc(heap, size + 1);
    if (copy) {
        if (size > 0) {
            memcpy(copy, data, size);
        }
        copy[size] = '\0';
    }
    return copy;
}

const char *zkl__text_put(char **end, const char *text)
{
    char *here = *end;
    size_t size = strlen(text) + 1;
    memcpy(here, text, size);
    *end += size;
    return here;
}
