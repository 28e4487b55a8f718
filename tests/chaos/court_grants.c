#include "court.h"

#include <inttypes.h>
#include <stdlib.h>

#define WEIGHTS_MAX 16 /* different ones that are asked for at one path */

static int compare_starts(const void *left, const void *right)
{
    const struct hold *a = left, *b = right;
    if (a->path != b->path) {
        return a->path < b->path ? -1 : 1;
    }
    if (a->start != b->start) {
        return a->start < b->start ? -1 : 1;
    }
    return (a->token > b->token) - (a->token < b->token);
}

static int compare_tokens(const void *left, const void *right)
{
    const struct hold *a = left, *b = right;
    if (a->path != b->path) {
        return a->path < b->path ? -1 : 1;
    }
    return (a->token > b->token) - (a->token < b->token);
}

static void accuse_double(struct court *c, const struct hold *first, const struct hold *second)
{
    if (spans_cover(&c->spans, EVERYBODY, second->start, second->start + 1) > 0) {
        c->v->excused++;
        return;
    }
    court_accuse(c, VERDICT_DOUBLE_HOLD,
                 "%s: %s, token %" PRId64 ", was granted at %" PRId64 ", while %s, token %" PRId64
                 ", held until %" PRId64 ", %" PRId64 " us longer",
                 PATH(second->path), CLIENT(second->client), second->token, second->start, CLIENT(first->client),
                 first->token, first->end, (first->end - second->start) / 1000);
}

/* The grants of one path that are seen while a sweep goes over them in the order of their starts. */
struct scene {
    int path;
    const struct hold **active; /* they hold now */
    size_t active_count;
    const struct hold *highest[WEIGHTS_MAX]; /* by its token, of all that take as much as it does */
    int weight_count;
};

/* Room beside those that hold when this one is granted. */
static void check_room(struct court *c, struct scene *scene, const struct hold *hold)
{
    const struct hold *longest = NULL;
    size_t kept = 0;
    int taken = 0;
    for (size_t i = 0; i < scene->active_count; i++) {
        const struct hold *other = scene->active[i];
        if (other->end > hold->start) {
            scene->active[kept++] = other;
            taken += other->takes;
            longest = !longest || other->end > longest->end ? other : longest;
        }
    }
    if (longest && taken + hold->takes > c->paths[hold->path].of) {
        accuse_double(c, longest, hold);
    }
    scene->active[kept++] = hold;
    scene->active_count = kept;
}

/* Those before it that had to go first have lower tokens. Others may have asked later and be known earlier. */
static void check_token(struct court *c, struct scene *scene, const struct hold *hold)
{
    int mine = -1;
    for (int i = 0; i < scene->weight_count; i++) {
        const struct hold *highest = scene->highest[i];
        mine = highest->takes == hold->takes ? i : mine;
        if (highest->takes + hold->takes > c->paths[hold->path].of && hold->token <= highest->token &&
            !(hold->downgraded && hold->client == highest->client && hold->token == highest->token)) {
            court_accuse(c, VERDICT_TOKEN_ORDER, "%s: %s was granted %" PRId64 " after %s was granted %" PRId64,
                         PATH(hold->path), CLIENT(hold->client), hold->token, CLIENT(highest->client), highest->token);
        }
    }
    if (mine < 0 && scene->weight_count == WEIGHTS_MAX) {
        court_accuse(c, VERDICT_GARBLED, "more than %d different parts of %s are asked for", WEIGHTS_MAX,
                     PATH(hold->path));
    } else if (mine < 0) {
        scene->highest[scene->weight_count++] = hold;
    } else if (hold->token > scene->highest[mine]->token) {
        scene->highest[mine] = hold;
    }
}

/* A grant that was over before its holder could look (it was stopped in between) is known too late to have a place in this order. */
static void sweep_starts(struct court *c)
{
    struct scene scene = {.path = -1, .active = court_make(c->hold_count, sizeof *scene.active)};
    qsort(c->holds, c->hold_count, sizeof *c->holds, compare_starts);
    for (size_t i = 0; i < c->hold_count; i++) {
        const struct hold *hold = &c->holds[i];
        if (hold->end <= hold->start) {
            continue;
        }
        if (hold->path != scene.path) {
            scene.path = hold->path;
            scene.active_count = 0;
            scene.weight_count = 0;
        }
        check_room(c, &scene, hold);
        check_token(c, &scene, hold);
    }
    free(scene.active);
}

static void sweep_tokens(struct court *c)
{
    qsort(c->holds, c->hold_count, sizeof *c->holds, compare_tokens);
    for (size_t i = 1; i < c->hold_count; i++) {
        const struct hold *a = &c->holds[i - 1], *b = &c->holds[i];
        if (a->path == b->path && a->token == b->token &&
            !(a->client == b->client && (a->downgraded || b->downgraded))) {
            court_accuse(c, VERDICT_TOKEN_ORDER, "%s: %s and %s were both granted %" PRId64, PATH(a->path),
                         CLIENT(a->client), CLIENT(b->client), a->token);
        }
    }
}

void court_judge_grants(struct court *c)
{
    sweep_starts(c);
    sweep_tokens(c);
}
