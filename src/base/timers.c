#include "timers.h"

/* The nodes are numbered from 1, level by level. The bits of a number below its first one say where
 * to turn on the way down from the root. */
static struct zkl__timer **link_of(struct zkl__timers *timers, size_t number,
                                   struct zkl__timer **parent)
{
    struct zkl__timer **at = &timers->root;
    size_t bit = 1;
    while (bit <= number / 2) {
        bit *= 2;
    }
    *parent = NULL;
    for (bit /= 2; bit > 0; bit /= 2) {
        *parent = *at;
        at = &(*at)->child[(number & bit) != 0];
    }
    return at;
}

static struct zkl__timer **link_to(struct zkl__timers *timers, const struct zkl__timer *timer)
{
    struct zkl__timer *parent = timer->parent;
    return parent ? &parent->child[parent->child[1] == timer] : &timers->root;
}

static void adopt_children(struct zkl__timer *timer)
{
    for (int side = 0; side < 2; side++) {
        if (timer->child[side]) {
            timer->child[side]->parent = timer;
        }
    }
}

/* The child and its parent change places. */
static void swap(struct zkl__timers *timers, struct zkl__timer *child)
{
    struct zkl__timer *parent = child->parent, was = *child;
    int side = parent->child[1] == child;
    *link_to(timers, parent) = child;
    child->parent = parent->parent;
    child->child[side] = parent;
    child->child[!side] = parent->child[!side];
    parent->child[0] = was.child[0];
    parent->child[1] = was.child[1];
    adopt_children(parent);
    adopt_children(child);
}

static void move_up(struct zkl__timers *timers, struct zkl__timer *timer)
{
    while (timer->parent && timer->parent->at > timer->at) {
        swap(timers, timer);
    }
}

static void move_down(struct zkl__timers *timers, struct zkl__timer *timer)
{
    while (timer->child[0]) {
        struct zkl__timer *least = timer->child[0];
        if (timer->child[1] && timer->child[1]->at < least->at) {
            least = timer->child[1];
        }
        if (least->at >= timer->at) {
            return;
        }
        swap(timers, least);
    }
}

static void insert(struct zkl__timers *timers, struct zkl__timer *timer)
{
    timers->count++;
    timer->set = true;
    timer->child[0] = timer->child[1] = NULL;
    *link_of(timers, timers->count, &timer->parent) = timer;
    move_up(timers, timer);
}

/* The last one takes its place. */
static void take_out(struct zkl__timers *timers, struct zkl__timer *timer)
{
    struct zkl__timer *parent, **end = link_of(timers, timers->count, &parent), *last = *end;
    *end = NULL;
    timers->count--;
    timer->set = false;
    if (last != timer) {
        *link_to(timers, timer) = last;
        last->parent = timer->parent;
        last->child[0] = timer->child[0];
        last->child[1] = timer->child[1];
        adopt_children(last);
        move_down(timers, last);
        move_up(timers, last);
    }
}

void zkl__timers_set(struct zkl__timers *timers, struct zkl__timer *timer, int64_t at)
{
    if (timer->set && timer->at == at) {
        return;
    }
    if (timer->set) {
        take_out(timers, timer);
    }
    timer->at = at;
    if (at != INT64_MAX) {
        insert(timers, timer);
    }
}

struct zkl__timer *zkl__timers_due(struct zkl__timers *timers, int64_t now)
{
    struct zkl__timer *timer = timers->root;
    if (!timer || timer->at > now) {
        return NULL;
    }
    take_out(timers, timer);
    return timer;
}

int64_t zkl__timers_next(const struct zkl__timers *timers)
{
    return timers->root ? timers->root->at : INT64_MAX;
}
