/* share.h - who gets which piece: the same answer for everybody who knows the same names.
 *
 * Even: nobody has two pieces more than somebody else. Capped: nobody has more than cap; what is
 * left over then is nobody's. Steady: a pair of a member and a piece has a number that depends on
 * their names alone (rendezvous hashing), and the highest numbers are served first, so that a
 * member that comes or goes moves little more than its own part. */
#ifndef ZKL_PROTOCOL_SHARE_H
#define ZKL_PROTOCOL_SHARE_H

#include "base.h"

#define ZKL__NOBODY SIZE_MAX

struct zkl__share {
    const char *const *members; /* different names, in any order */
    size_t member_count;
    const char *const *pieces; /* different names, in any order */
    size_t piece_count;
    size_t cap; /* 0: none */
};

/* owners[i] becomes the index of the member that has piece i, or ZKL__NOBODY. False: no memory (16
 * bytes are wanted for each piece and each member, for a moment). */
bool zkl__share_out(size_t *owners, const struct zkl__share *share, const zkl_heap *heap);

#endif
