/* nemesis.h - kinds of faults: each strikes once, and mends what it did before it returns. */
#ifndef ZKL_CHAOS_NEMESIS_H
#define ZKL_CHAOS_NEMESIS_H

#include "arena.h"

struct nemesis {
    const char *name;
    const char *words;
    void (*strike)(struct arena *a);
    bool cuts;  /* needs cut_prepare */
    bool links; /* contenders connect through proxies */
};

/* NULL: there is none of that name. */
const struct nemesis *nemesis_find(const char *name);
/* The nth; NULL behind the last. */
const struct nemesis *nemesis_nth(int n);

#endif
