/* grave_heap.h - an allocator that keeps what is freed, filled with GRAVE_BYTE: a read of it is of no use, and a write to it shows,
 * without a sanitizer. Any thread. */
#ifndef ZKL_TESTS_GRAVE_HEAP_H
#define ZKL_TESTS_GRAVE_HEAP_H

#include <zklock/types.h>

#define GRAVE_BYTE 0xa5

extern const zkl_heap grave_heap;
/* Nobody wrote to what was freed. Frees it. */
void graves_check(void);

#endif
