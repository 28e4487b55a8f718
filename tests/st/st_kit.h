/* st_kit.h - what tests of libzklock_st share. */
#ifndef ZKL_TESTS_ST_KIT_H
#define ZKL_TESTS_ST_KIT_H

#include "lock_kit.h"

/* As a loop of the user's does it, which has nothing else to do: only when the descriptor says so. False after ten seconds. */
static inline bool dispatch_once(zkl_session *session)
{
    return kit_readable(session, 10000) && zkl_session_dispatch(session) >= 0;
}

/* True as soon as the condition is, which only this loop can bring about. */
#define DISPATCHED(session, condition)    \
    __extension__({                       \
        bool on_ = true;                  \
        while (!(condition) && on_) {     \
            on_ = dispatch_once(session); \
        }                                 \
        on_;                              \
    })

#endif
