/* page.h - what the resource lets the nemesis see while it works. */
#ifndef ZKL_CHAOS_PAGE_H
#define ZKL_CHAOS_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>

#define PAGE_PATHS 8

struct page {
    atomic_bool ready;
    atomic_long taken[PAGE_PATHS]; /* writes, of each path */
    atomic_int
        stayer[PAGE_PATHS]; /* number + 1 of the contender that wrote last, if it holds for long; 0: it does not */
    atomic_long session[PAGE_PATHS]; /* of whoever wrote last */
};

#endif
