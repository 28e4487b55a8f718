/* page.h - what the processes of an arena let each other see while they work. */
#ifndef ZKL_CHAOS_PAGE_H
#define ZKL_CHAOS_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>

#define PAGE_PATHS 8
#define PAGE_CONTENDERS 8
#define PAGE_BYTES 4096

/* What of a contender has to settle when it is calm. */
enum page_part { PAGE_MEMBER = 1, PAGE_PIECES = 2, PAGE_ALL = 3 };

struct page {
    /* The resource: */
    atomic_bool ready;
    atomic_long taken[PAGE_PATHS]; /* writes, of each path */
    atomic_int
        stayer[PAGE_PATHS]; /* number + 1 of the contender that wrote last, if it holds for long; 0: it does not */
    atomic_long session[PAGE_PATHS]; /* of whoever wrote last */
    /* The nemesis is at rest: members stay members from now on. */
    atomic_bool calm;
    /* The contenders, since then: */
    atomic_int settled[PAGE_CONTENDERS];
};

#endif
