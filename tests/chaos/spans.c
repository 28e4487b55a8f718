#include "spans.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

void spans_add(struct spans *s, int owner, int64_t from, int64_t to)
{
    if (s->count == s->size) {
        s->size = s->size ? 2 * s->size : 64;
        s->all = realloc(s->all, s->size * sizeof *s->all);
        if (!s->all) {
            fprintf(stderr, "spans: out of memory\n");
            abort();
        }
    }
    if (from < to) {
        s->all[s->count++] = (struct span){.owner = owner, .from = from, .to = to};
    }
}

static int compare(const void *left, const void *right)
{
    const struct span *a = left, *b = right;
    if (a->owner != b->owner) {
        return a->owner < b->owner ? -1 : 1;
    }
    return (a->from > b->from) - (a->from < b->from);
}

void spans_settle(struct spans *s)
{
    size_t kept = 0;
    if (s->count > 0) {
        qsort(s->all, s->count, sizeof *s->all, compare);
    }
    for (size_t i = 0; i < s->count; i++) {
        struct span *last = kept > 0 ? &s->all[kept - 1] : NULL, *next = &s->all[i];
        bool same = last && last->owner == next->owner;
        if (same && next->from <= last->to) {
            last->to = next->to > last->to ? next->to : last->to;
        } else {
            next->before = same ? last->before + last->to - last->from : 0;
            s->all[kept++] = *next;
        }
    }
    s->count = kept;
}

/* How much of the time before t they cover. */
static int64_t cover_before(const struct spans *s, int owner, int64_t t)
{
    size_t low = 0, high = s->count; /* the last one that begins before t is before high */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct span *span = &s->all[middle];
        if (span->owner < owner || (span->owner == owner && span->from < t)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0 || s->all[low - 1].owner != owner) {
        return 0;
    }
    const struct span *span = &s->all[low - 1];
    return span->before + (t < span->to ? t : span->to) - span->from;
}

int64_t spans_cover(const struct spans *s, int owner, int64_t from, int64_t to)
{
    return from < to ? cover_before(s, owner, to) - cover_before(s, owner, from) : 0;
}

void spans_free(struct spans *s)
{
    free(s->all);
}
