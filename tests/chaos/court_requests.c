#include "court.h"

#include <inttypes.h>
#include <stdlib.h>

int court_compare_grants(const void *left, const void *right)
{
    const struct act *a = left, *b = right;
    if (a->path != b->path) {
        return a->path < b->path ? -1 : 1;
    }
    return (a->token > b->token) - (a->token < b->token);
}

static int compare_times(const void *left, const void *right)
{
    const struct act *a = left, *b = right;
    int order = court_compare_grants(a, b);
    return order != 0 ? order : (a->at > b->at) - (a->at < b->at);
}

struct act *court_collect(const struct court *c, enum history_op op, bool all, size_t *count)
{
    struct act *acts = court_make(c->h->count, sizeof *acts);
    *count = 0;
    for (size_t i = 0; i < c->h->count; i++) {
        const struct history_event *e = &c->h->events[i];
        if (e->op == op && e->path >= 0 && (e->good || all)) {
            acts[(*count)++] = (struct act){e->path, e->token, e->at, e->lease};
        }
    }
    qsort(acts, *count, sizeof *acts, compare_times);
    return acts;
}

void court_end_removed(struct court *c)
{
    size_t count;
    struct act *removed = court_collect(c, HISTORY_removed, true, &count);
    for (size_t i = 0; i < c->hold_count; i++) {
        struct hold *hold = &c->holds[i];
        const struct act key = {hold->path, hold->token, 0, 0};
        const struct act *at = bsearch(&key, removed, count, sizeof *removed, court_compare_grants);
        for (; at; at = at > removed && court_compare_grants(at - 1, &key) == 0 ? at - 1 : NULL) {
            court_end_hold(hold, at->at);
        }
    }
    free(removed);
}

/* Something not before it, by the same holder. */
static bool is_heard(const struct act *heard, size_t count, const struct act *asked)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_times(&heard[middle], asked) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && court_compare_grants(&heard[low], asked) == 0;
}

/* Until when their holders saw that they held. */
static struct act *collect_holds(const struct court *c)
{
    struct act *holds = court_make(c->hold_count, sizeof *holds);
    for (size_t i = 0; i < c->hold_count; i++) {
        holds[i] = (struct act){c->holds[i].path, c->holds[i].token, c->holds[i].seen, 0};
    }
    qsort(holds, c->hold_count, sizeof *holds, compare_times);
    return holds;
}

void court_judge_requests(struct court *c)
{
    size_t asked_count, heard_count;
    struct act *asked = court_collect(c, HISTORY_asked, false, &asked_count);
    struct act *heard = court_collect(c, HISTORY_heard, true, &heard_count);
    struct act *holds = collect_holds(c);
    c->v->heard = heard_count;
    for (size_t i = 0; i < asked_count; i++) {
        const struct act *hold = bsearch(&asked[i], holds, c->hold_count, sizeof *holds, court_compare_grants);
        if (hold && hold->at >= asked[i].until && !is_heard(heard, heard_count, &asked[i])) {
            court_accuse(c, VERDICT_UNHEARD,
                         "%s: the holder under %" PRId64 " was asked at %" PRId64
                         " to give way, and held until %" PRId64,
                         PATH(hold->path), hold->token, asked[i].at, hold->at);
        }
    }
    free(asked);
    free(heard);
    free(holds);
}
