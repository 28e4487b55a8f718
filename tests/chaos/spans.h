/* spans.h - sets of spans of time, each set with a number: when a process was kept from running, when an assumption did not hold. */
#ifndef ZKL_CHAOS_SPANS_H
#define ZKL_CHAOS_SPANS_H

#include <stddef.h>
#include <stdint.h>

struct spans {
    struct span {
        int owner;
        int64_t from, to;
        int64_t before; /* length of this owner's spans before this one */
    } * all;
    size_t count, size;
};

void spans_add(struct spans *s, int owner, int64_t from, int64_t to);
/* After the last add: sorts, and makes one of those that touch. */
void spans_settle(struct spans *s);
/* How much of [from, to) the owner's spans cover. */
int64_t spans_cover(const struct spans *s, int owner, int64_t from, int64_t to);
void spans_free(struct spans *s);

#endif
