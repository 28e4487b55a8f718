/* timers.h - which machine's time comes next: a binary heap, with room made when a machine is, so
 * that setting never fails. */
#ifndef ZKL_PROTOCOL_TIMERS_H
#define ZKL_PROTOCOL_TIMERS_H

#include "machine.h"

struct zkl__timers {
    struct zkl__machine **heap;
    size_t count, room, machines;
};

/* Room for one more machine; false: no memory. */
bool zkl__timers_reserve(struct zkl__timers *timers, const zkl_heap *heap);
void zkl__timers_deinit(struct zkl__timers *timers, const zkl_heap *heap);
/* Out, and its room given back. */
void zkl__timers_remove(struct zkl__timers *timers, struct zkl__machine *machine);
/* INT64_MAX: none. */
void zkl__timers_set(struct zkl__timers *timers, struct zkl__machine *machine, int64_t wake);
/* The earliest one that is due, no longer set; NULL: none is. */
struct zkl__machine *zkl__timers_due(struct zkl__timers *timers, int64_t now);
int64_t zkl__timers_next(const struct zkl__timers *timers);

#endif
