/* timers.h - which contender's time comes next: a binary heap, with room made when a contender is, so that setting never fails. */
#ifndef ZKL_CORE_TIMERS_H
#define ZKL_CORE_TIMERS_H

#include "contender_step.h"

struct zkl__timers {
    struct zkl__contender **heap;
    size_t count, room, contenders;
};

/* Room for one more contender; false: no memory. */
bool zkl__timers_reserve(struct zkl__timers *timers, const zkl_heap *heap);
void zkl__timers_deinit(struct zkl__timers *timers, const zkl_heap *heap);
/* Out, and its room given back. */
void zkl__timers_remove(struct zkl__timers *timers, struct zkl__contender *contender);
/* INT64_MAX: none. */
void zkl__timers_set(struct zkl__timers *timers, struct zkl__contender *contender, int64_t wake);
/* The earliest one that is due, no longer set; NULL: none is. */
struct zkl__contender *zkl__timers_due(struct zkl__timers *timers, int64_t now);
int64_t zkl__timers_next(const struct zkl__timers *timers);

#endif
