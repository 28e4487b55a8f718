/* slot.h - time cut into slots for jobs that run once in each.
 *
 * A slot is named by its round time (a multiple of its length, plus the phase) and reaches half a
 * length to each side of it: cron fires at round times, on each host a little early or late, and
 * all of that falls into one slot. */
#ifndef ZKL_CORE_SLOT_H
#define ZKL_CORE_SLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Round time, ms since 1970, of the slot that time_ms is in. length_ms > 0; 0 <= phase_ms <
 * length_ms. */
int64_t zkl__slot_of(int64_t time_ms, int64_t length_ms, int64_t phase_ms);

/* The round time of the last slot done, as it is stored: decimal text. False: it is something else.
 * Nothing stored: INT64_MIN. */
bool zkl__slot_parse(const void *data, size_t size, int64_t *out);

#endif
