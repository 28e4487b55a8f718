/* slot.h - the arithmetic of time slots, for jobs that run once in each.
 *
 * A slot is named by its round time, which is a multiple of its length, plus the phase. It reaches
 * half a length to each side of the round time. Cron starts a job at a round time, a little earlier
 * or later on each host, and all these starts fall into one slot. */
#ifndef ZKL_BASE_SLOT_H
#define ZKL_BASE_SLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Round time, ms since 1970, of the slot that time_ms is in. length_ms > 0; 0 <= phase_ms <
 * length_ms. */
int64_t zkl__slot_of(int64_t time_ms, int64_t length_ms, int64_t phase_ms);

/* Reads the stored round time of the last slot that was done, which is decimal text. *out is
 * INT64_MIN if nothing is stored. False: the data is something else. */
bool zkl__slot_parse(const void *data, size_t size, int64_t *out);

#endif
