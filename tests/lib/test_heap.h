/* test_heap.h - an allocator that counts what is out and fails when told to. Any thread. */
#ifndef ZKL_TESTS_TEST_HEAP_H
#define ZKL_TESTS_TEST_HEAP_H

#include <pthread.h>

#include <zklock/types.h>

struct test_heap {
    pthread_mutex_t mutex;
    long live;     /* blocks out */
    long bytes;    /* asked for, in these */
    long taken;    /* allocations asked for */
    long fail_at;  /* the one of this number (from 1) fails; 0: none */
    bool fail_on;  /* and all behind it */
    long failures; /* that were made */
};

#define TEST_HEAP_INIT                     \
    {                                      \
        .mutex = PTHREAD_MUTEX_INITIALIZER \
    }

zkl_heap test_heap(struct test_heap *heap);
/* Counts from now on: the nth allocation fails (0: none does), and with `on` all behind it. */
void test_heap_fail(struct test_heap *heap, long nth, bool on);
long test_heap_live(struct test_heap *heap);
long test_heap_bytes(struct test_heap *heap);
long test_heap_failures(struct test_heap *heap);

#endif
