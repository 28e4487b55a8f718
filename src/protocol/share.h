/* share.h - who gets which piece: the same answer for everybody who knows the same names.
 *
 * Even: nobody has two pieces more than somebody else. Capped: nobody has more than cap; what is
 * left over then is nobody's. Steady: a pair of a member and a piece has a number that depends on
 * their names alone (rendezvous hashing), and the highest numbers are served first, so that a
 * member that comes or goes moves little more than its own part. */
#ifndef ZKL_PROTOCOL_SHARE_H
#define ZKL_PROTOCOL_SHARE_H

#include "heap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* === shares =================================================================================== */

#define ZKL__NOBODY SIZE_MAX

struct zkl__share {
    const char *const *members; /* different names, in any order */
    size_t member_count;
    const char *const *pieces; /* different names, in any order */
    size_t piece_count;
    size_t cap; /* 0: none */
};

/* owners[i] becomes the index of the member that has piece i, or ZKL__NOBODY. False: no memory (16
 * bytes are wanted for each pair, for a moment). */
bool zkl__share_out(size_t *owners, const struct zkl__share *share, const zkl_heap *heap);

/* === the slot of a piece ====================================================================== */

/* The arithmetic of time slots, for jobs that run once in each.
 *
 * A slot is named by its round time, which is a multiple of its length, plus the phase. It reaches
 * half a length to each side of the round time. Cron starts a job at a round time, a little earlier
 * or later on each host, and all these starts fall into one slot. */

/* Round time, ms since 1970, of the slot that time_ms is in. length_ms > 0; 0 <= phase_ms <
 * length_ms. */
int64_t zkl__slot_of(int64_t time_ms, int64_t length_ms, int64_t phase_ms);

/* Reads the stored round time of the last slot that was done, which is decimal text. *out is
 * INT64_MIN if nothing is stored. False: the data is something else. */
bool zkl__slot_parse(const void *data, size_t size, int64_t *out);

#endif
