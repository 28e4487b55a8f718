/* suspicion.h - whether who is before us may be forged: inspection.c's. */
#ifndef ZKL_PROTOCOL_SUSPICION_H
#define ZKL_PROTOCOL_SUSPICION_H

struct zkl__suspicion {
    enum {
        ZKL__SUSPICION_NONE,
        ZKL__SUSPICION_ARISEN,   /* who was before us was forged: the next list is for an inspection
                                  */
        ZKL__SUSPICION_INSPECTED /* a batch is wanted, or under way */
    } state;
    struct zkl__inspection *inspection; /* of all that stand before it; NULL: it did not meet two
                                           forged ones */
};

#endif
