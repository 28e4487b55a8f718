/* core_facts.h - what tests ask of the core and nobody else does: its sums, names of operations, and a heap for it. */
#ifndef ZKL_TESTS_CORE_FACTS_H
#define ZKL_TESTS_CORE_FACTS_H

#include "op.h"

#include <stdlib.h>

#include <zklock/stats.h>

/* What zklock/stats.h says of the sums of contenders. */
static inline bool stats_sound(const zkl_contender_stats *c)
{
    return c->waits == c->grants + c->timeouts + c->busy + c->cancels + c->failures + c->waiting &&
           c->grants == c->releases + c->losses + c->held;
}

/* "create", "delete", ... */
static inline const char *op_name(enum zkl__op_kind kind)
{
    static const char *const names[] = {"none", "create", "delete", "set",    "check",  "multi",
                                        "sync", "list",   "get",    "exists", "unwatch"};
    return names[kind];
}

/* The heap of the C library. */
static inline void *plain_alloc(void *payload, size_t size)
{
    return malloc(size);
}

static inline void *plain_resize(void *payload, void *ptr, size_t size)
{
    return realloc(ptr, size);
}

static inline void plain_release(void *payload, void *ptr)
{
    free(ptr);
}

static const zkl_heap plain_heap = {plain_alloc, plain_resize, plain_release, NULL};

#endif
