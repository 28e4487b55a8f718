/* core_facts.h - what unit tests and the simulator ask of the core's structs and nobody else does. */
#ifndef ZKL_TESTS_CORE_FACTS_H
#define ZKL_TESTS_CORE_FACTS_H

#include "op.h"

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

#endif
