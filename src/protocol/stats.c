#include "stats.h"
#include "contender_inside.h"

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
        row->path = zkl__copy(heap, path, strlen(path));
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

/* What a step comes to. */
struct counted {
    enum { COUNT_NONE, COUNT_GRANT, COUNT_LOSS, COUNT_RELEASE, COUNT_FAILURE } kind;
    bool started, requeued;
    int64_t removing; /* one more, or one less */
    int code;         /* of the failure */
    uint64_t lasted_us;
};

static struct counted judge(const struct zkl__contender *c, enum zkl__contender_state before,
                            const struct zkl__contender_event *ev,
                            const struct zkl__contender_actions *out)
{
    struct counted counted = {.kind = COUNT_NONE,
                              .started = ev->kind == ZKL__CE_START,
                              .requeued = c->requeued,
                              .removing = (c->state == ZKL__REMOVING) - (before == ZKL__REMOVING)};
    if (out->told && out->outcome.kind == ZKL__GRANTED) {
        counted.kind = COUNT_GRANT;
    } else if (out->told && out->outcome.kind == ZKL__LOSS) {
        counted.kind = COUNT_LOSS;
    } else if (before == ZKL__HELD && ev->kind == ZKL__CE_RELEASE) {
        counted.kind = COUNT_RELEASE;
    } else if (out->told && out->outcome.kind == ZKL__FAILED) {
        counted.kind = COUNT_FAILURE;
        counted.code = out->outcome.code;
    }
    return counted;
}

static void count_failure(zkl_contender_stats *counts, int code)
{
    counts->waiting--;
    switch (code) {
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

/* Into the sums of one row: the session's, or a path's. */
static void count(zkl_contender_stats *counts, const struct counted *counted)
{
    counts->waits += counted->started;
    counts->waiting += counted->started;
    counts->requeues += counted->requeued;
    counts->removing += (uint64_t)counted->removing;
    switch (counted->kind) {
    case COUNT_NONE:
        break;
    case COUNT_GRANT:
        counts->grants++;
        counts->waiting--;
        counts->held++;
        counts->wait_us += counted->lasted_us;
        break;
    case COUNT_LOSS:
    case COUNT_RELEASE:
        counts->losses += counted->kind == COUNT_LOSS;
        counts->releases += counted->kind == COUNT_RELEASE;
        counts->held--;
        counts->hold_us += counted->lasted_us;
        break;
    case COUNT_FAILURE:
        count_failure(counts, counted->code);
    }
}

void zkl__stats_step(struct zkl__stats *stats, struct zkl__contender *c,
                     enum zkl__contender_state before, const struct zkl__contender_event *ev,
                     const struct zkl__contender_actions *out)
{
    int64_t lasted = ev->now - c->since; /* what came to its end */
    struct counted counted = judge(c, before, ev, out);
    if (counted.kind != COUNT_NONE || counted.started || counted.requeued || counted.removing) {
        counted.lasted_us = microseconds(lasted);
        count(&stats->all.contenders, &counted);
        count(&c->path_stats->counts, &counted);
        c->requeued = false;
    }
    if (ev->kind == ZKL__CE_START) {
        c->since = ev->now;
    } else if (before != ZKL__HELD && c->state == ZKL__HELD) {
        zkl__histogram_add(&stats->all.wait, lasted);
        c->since = ev->now;
    } else if (before == ZKL__HELD && c->state != ZKL__HELD) {
        zkl__histogram_add(&stats->all.hold, lasted);
    }
}
