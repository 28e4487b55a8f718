/* stats.h - counting: what the steps decide, in the units of zklock/stats.h. */
#ifndef ZKL_PROTOCOL_STATS_H
#define ZKL_PROTOCOL_STATS_H

#include <zklock/stats.h>

#include "contender.h"
#include "base.h"

/* The contenders of one path. Lives as long as the core. */
struct zkl__path_stats {
    zkl_contender_stats counts;
    char *path; /* NULL: of all that had no row of their own */
    bool warned_of_delete, warned_of_write,
        warned_of_read; /* an operator was warned that we lack this permission: once for a path */
    struct zkl__path_stats *next;
};

struct zkl__stats {
    zkl_stats all;                 /* contenders, lease_slack_min_us */
    struct zkl__path_stats *paths; /* the latest first */
    size_t path_count;
    struct zkl__path_stats others;
};

void zkl__stats_init(struct zkl__stats *stats);
void zkl__stats_deinit(struct zkl__stats *stats, const zkl_heap *heap);
/* The row of a path; that of the others when there are too many, or no memory. */
struct zkl__path_stats *zkl__stats_path(struct zkl__stats *stats, const zkl_heap *heap,
                                        const char *path);

/* A contender is at the end of a step. before: the state in which it began. */
void zkl__stats_step(struct zkl__stats *stats, struct zkl__contender *contender,
                     enum zkl__contender_state before);
/* What zklock/stats.h says of the sums: for tests and the simulator. */
static inline bool zkl__stats_sound(const zkl_contender_stats *c)
{
    return c->waits == c->grants + c->timeouts + c->busy + c->cancels + c->failures + c->waiting &&
           c->grants == c->releases + c->losses + c->held;
}

/* What a holder had left of its lease, ns. */
void zkl__stats_slack(struct zkl__stats *stats, int64_t left);
void zkl__histogram_add(zkl_histogram *histogram, int64_t ns);
/* Upper bound of a bucket; 0: the last one has none. */
uint64_t zkl__histogram_bound_us(size_t bucket);

#endif
