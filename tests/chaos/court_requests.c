#include "court.h"

#include <inttypes.h>
#include <stdlib.h>

/* About one grant. */
struct request {
    int path;
    int64_t token, at, until;
};

static int compare_grants(const void *left, const void *right)
{
    const struct request *a = left, *b = right;
    if (a->path != b->path) {
        return a->path < b->path ? -1 : 1;
    }
    return (a->token > b->token) - (a->token < b->token);
}

static int compare_times(const void *left, const void *right)
{
    const struct request *a = left, *b = right;
    int order = compare_grants(a, b);
    return order != 0 ? order : (a->at > b->at) - (a->at < b->at);
}

/* All events of that kind, in the order of their grants. */
static struct request *collect(const struct court *c, enum history_op op, size_t *count)
{
    struct request *all = court_make(c->h->count, sizeof *all);
    *count = 0;
    for (size_t i = 0; i < c->h->count; i++) {
        const struct history_event *e = &c->h->events[i];
        if (e->op == op && e->path >= 0 && (op != HISTORY_asked || e->good)) {
            all[(*count)++] = (struct request){e->path, e->token, e->at, e->lease};
        }
    }
    qsort(all, *count, sizeof *all, compare_times);
    return all;
}

/* Something not before it, by the same holder. */
static bool is_heard(const struct request *heard, size_t count, const struct request *asked)
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
    return low < count && compare_grants(&heard[low], asked) == 0;
}

/* Until when their holders saw that they held. */
static struct request *collect_holds(const struct court *c)
{
    struct request *holds = court_make(c->hold_count, sizeof *holds);
    for (size_t i = 0; i < c->hold_count; i++) {
        holds[i] = (struct request){c->holds[i].path, c->holds[i].token, c->holds[i].seen, 0};
    }
    qsort(holds, c->hold_count, sizeof *holds, compare_times);
    return holds;
}

void court_judge_requests(struct court *c)
{
    size_t asked_count, heard_count;
    struct request *asked = collect(c, HISTORY_asked, &asked_count), *heard = collect(c, HISTORY_heard, &heard_count);
    struct request *holds = collect_holds(c);
    c->v->heard = heard_count;
    for (size_t i = 0; i < asked_count; i++) {
        const struct request *hold = bsearch(&asked[i], holds, c->hold_count, sizeof *holds, compare_grants);
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
