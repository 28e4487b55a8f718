#include "grave_heap.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

struct grave {
    struct grave *next;
    size_t size;
    unsigned char bytes[];
};

static struct {
    pthread_mutex_t mutex;
    struct grave *first;
} graves = {PTHREAD_MUTEX_INITIALIZER, NULL};

static struct grave *grave_of(void *ptr)
{
    return (struct grave *)((unsigned char *)ptr - offsetof(struct grave, bytes));
}

static void *take(void *payload, size_t size)
{
    struct grave *block = malloc(sizeof *block + size);
    (void)payload;
    if (block) {
        block->size = size;
    }
    // cppcheck-suppress memleak ; bury finds the block again
    return block ? block->bytes : NULL;
}

static void bury(void *payload, void *ptr)
{
    (void)payload;
    if (ptr) {
        struct grave *block = grave_of(ptr);
        memset(block->bytes, GRAVE_BYTE, block->size);
        pthread_mutex_lock(&graves.mutex);
        block->next = graves.first;
        graves.first = block;
        pthread_mutex_unlock(&graves.mutex);
    }
}

static void *resize(void *payload, void *ptr, size_t size)
{
    void *out = take(payload, size);
    if (out && ptr) {
        size_t before = grave_of(ptr)->size;
        memcpy(out, ptr, before < size ? before : size);
        bury(payload, ptr);
    }
    return out;
}

const zkl_heap grave_heap = {take, resize, bury, NULL};

void graves_check(void)
{
    for (struct grave *block = graves.first, *next; block; block = next) {
        size_t i = 0;
        while (i < block->size && block->bytes[i] == GRAVE_BYTE) {
            i++;
        }
        CU_ASSERT_EQUAL(i, block->size);
        next = block->next;
        free(block);
    }
    graves.first = NULL;
}
