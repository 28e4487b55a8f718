#include "core_internal.h"

#include <string.h>

#define LEAST_US 128

void zkl__stats_init(struct zkl__stats *stats)
{
    *stats = (struct zkl__stats){.all = {.size = sizeof stats->all, .lease_slack_min_us = -1}};
}

void zkl__stats_deinit(struct zkl__stats *stats, const zkl_heap *heap)
{
    while (stats->paths) {
        struct zkl__path_stats *row = stats->paths;
        stats->paths = row->next;
        zkl__free(heap, row->path);
        zkl__free(heap, row);
    }
}

struct zkl__path_stats *zkl__stats_path(struct zkl__stats *stats, const zkl_heap *heap,
                                        const char *path)
{
    for (struct zkl__path_stats *row = stats->paths; row; row = row->next) {
        if (strcmp(row->path, path) == 0) {
            return row;
        }
    }
    struct zkl__path_stats *row =
        stats->path_count < ZKL_STATS_PATHS_MAX ? zkl__zalloc(heap, sizeof *row) : NULL;
    if (row) {
        row->path = zkl__copy_text(heap, path);
    }
    if (!row || !row->path) {
        zkl__free(heap, row);
        return &stats->others;
    }
    row->next = stats->paths;
    stats->paths = row;
    stats->path_count++;
    return row;
}

uint64_t zkl__histogram_bound_us(size_t bucket)
{
    return bucket < ZKL_HISTOGRAM_BUCKETS - 1 ? (uint64_t)LEAST_US << bucket : 0;
}

static uint64_t microseconds(int64_t ns)
{
    return ns > 0 ? (uint64_t)ns / 1000 : 0;
}

void zkl__histogram_add(zkl_histogram *histogram, int64_t ns)
{
    uint64_t us = microseconds(ns);
    size_t bucket = 0;
    while (bucket < ZKL_HISTOGRAM_BUCKETS - 1 && us > zkl__histogram_bound_us(bucket)) {
        bucket++;
    }
    histogram->count++;
    histogram->sum_us += us;
    histogram->buckets[bucket]++;
}

void zkl__stats_slack(struct zkl__stats *stats, int64_t left)
{
    int64_t us = (int64_t)microseconds(left);
    zkl__histogram_add(&stats->all.slack, left);
    if (stats->all.lease_slack_min_us < 0 || us < stats->all.lease_slack_min_us) {
        stats->all.lease_slack_min_us = us;
    }
}

/* --- one contender's step -------------------------------------------------------------------- */

/* Into the sums of one row: the session's, or a path's. lasted: what came to its end. */
static void count(zkl_contender_stats *counts, const struct zkl__contender *c,
                  enum zkl__contender_state before, int64_t lasted)
{
    bool started = c->event->kind == ZKL__CE_START;
    bool lost = c->out->has_outcome && c->out->outcome.kind == ZKL__LOSS;
    counts->waits += started;
    counts->waiting += started;
    counts->requeues += c->requeued;
    counts->removing += (uint64_t)((c->state == ZKL__REMOVING) - (before == ZKL__REMOVING));
    if (c->out->has_outcome && c->out->outcome.kind == ZKL__GRANTED) {
        counts->grants++;
        counts->waiting--;
        counts->held++;
        counts->wait_us += microseconds(lasted);
    } else if (lost || (before == ZKL__HELD && c->event->kind == ZKL__CE_RELEASE)) {
        counts->losses += lost;
        counts->releases += !lost;
        counts->held--;
        counts->hold_us += microseconds(lasted);
    } else if (c->out->has_outcome && c->out->outcome.kind == ZKL__FAILED) {
        counts->waiting--;
        switch (c->out->outcome.code) {
        case ZKL_ETIMEOUT:
            counts->timeouts++;
            break;
        case ZKL_EBUSY:
            counts->busy++;
            break;
        case ZKL_ECANCELED:
        case ZKL_ECLOSED:
            counts->cancels++;
            break;
        default:
            counts->failures++;
        }
    }
}

void zkl__stats_step(struct zkl__stats *stats, struct zkl__contender *c,
                     enum zkl__contender_state before)
{
    int64_t now = c->core->now, lasted = now - c->since;
    bool started = c->event->kind == ZKL__CE_START;
    if (started || c->state != before || c->requeued || c->out->has_outcome) {
        count(&stats->all.contenders, c, before, lasted);
        count(&c->path_stats->counts, c, before, lasted);
        c->requeued = false;
    }
    if (started) {
        c->since = now;
    } else if (before != ZKL__HELD && c->state == ZKL__HELD) {
        zkl__histogram_add(&stats->all.wait, lasted);
        c->since = now;
    } else if (before == ZKL__HELD && c->state != ZKL__HELD) {
        zkl__histogram_add(&stats->all.hold, lasted);
    }
}
