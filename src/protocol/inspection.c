#include "inspection.h"

#include "heap.h"
#include "local_queue.h"
#include "queue_list.h"

#include <string.h>

#define FIRST 8 /* two have been read alone */
#define GROWTH 8
#define MOST 500

struct zkl__inspection {
    size_t count, nearest;
    size_t batch, under_way;
    bool broken, stale;
    bool dropped; /* its last replies are due */
    struct candidate {
        const char *name;
        enum verdict { UNSEEN, EXCLUDED, STANDS } verdict;
    } candidates[]; /* nearest first; their names stand behind them */
};

/* --- life ------------------------------------------------------------------------------------ */

static struct zkl__inspection *new_inspection(struct zkl__contender *c,
                                              const struct zkl__list_index *index)
{
    size_t before = zkl__list_before(c, index), count = 0, bytes = 0;
    for (size_t i = before; i > 0; i--) {
        if (zkl__list_blocks(c, index->entries[i - 1].name)) {
            bytes += strlen(index->entries[i - 1].name) + 1;
            count++;
        }
    }
    struct zkl__inspection *inspection =
        zkl__zalloc(c->heap, sizeof *inspection + count * sizeof *inspection->candidates + bytes);
    if (!inspection) {
        return NULL;
    }
    inspection->batch = FIRST;
    char *names = (char *)&inspection->candidates[count];
    for (size_t i = before; i > 0; i--) {
        if (zkl__list_blocks(c, index->entries[i - 1].name)) {
            inspection->candidates[inspection->count++].name =
                zkl__text_put(&names, index->entries[i - 1].name);
        }
    }
    return inspection;
}

void zkl__inspection_free(struct zkl__contender *c)
{
    zkl__free(c->heap, c->suspicion.inspection);
    c->suspicion.inspection = NULL;
}

void zkl__inspection_drop(struct zkl__contender *c)
{
    if (c->suspicion.inspection && c->suspicion.inspection->under_way > 0) {
        c->suspicion.inspection->dropped = true;
    } else {
        zkl__inspection_free(c);
    }
}

/* --- whether there is one -------------------------------------------------------------------- */

void zkl__suspect(struct zkl__contender *c, bool forged)
{
    c->suspicion.state = forged ? ZKL__SUSPICION_ARISEN : ZKL__SUSPICION_NONE;
}

bool zkl__suspected(const struct zkl__contender *c)
{
    return c->suspicion.state == ZKL__SUSPICION_ARISEN;
}

bool zkl__inspection_begin(struct zkl__contender *c)
{
    bool suspected = zkl__suspected(c);
    zkl__inspection_drop(c);
    c->suspicion.state = ZKL__SUSPICION_NONE;
    if (!suspected || c->suspicion.inspection) {
        return false;
    }
    struct zkl__list_index *own =
        c->event->index ? NULL
                        : zkl__list_index_new(c->heap, c->event->reply,
                                              zkl__name_sequence(zkl__node_name(&c->node)));
    const struct zkl__list_index *index = c->event->index ? c->event->index : own;
    c->suspicion.inspection = index ? new_inspection(c, index) : NULL;
    zkl__free(c->heap, own);
    return c->suspicion.inspection;
}

void zkl__inspection_go_on(struct zkl__contender *c)
{
    c->suspicion.state = ZKL__SUSPICION_INSPECTED;
}

void zkl__inspection_pause(struct zkl__contender *c)
{
    if (zkl__inspection_goes_on(c)) {
        c->suspicion.state = ZKL__SUSPICION_NONE;
    }
}

bool zkl__inspected(const struct zkl__contender *c)
{
    return c->suspicion.inspection && !c->suspicion.inspection->dropped;
}

bool zkl__inspection_goes_on(const struct zkl__contender *c)
{
    return c->suspicion.state == ZKL__SUSPICION_INSPECTED;
}

/* --- what is known --------------------------------------------------------------------------- */

const char *zkl__inspection_nearest(const struct zkl__contender *c, bool *seen)
{
    struct zkl__inspection *inspection = c->suspicion.inspection;
    while (inspection->nearest < inspection->count &&
           inspection->candidates[inspection->nearest].verdict == EXCLUDED) {
        inspection->nearest++;
    }
    if (inspection->nearest == inspection->count) {
        return NULL;
    }
    *seen = inspection->candidates[inspection->nearest].verdict == STANDS;
    return inspection->candidates[inspection->nearest].name;
}

void zkl__inspection_exclude(const struct zkl__contender *c)
{
    struct zkl__inspection *inspection = c->suspicion.inspection;
    inspection->candidates[inspection->nearest].verdict = EXCLUDED;
}

bool zkl__inspection_broken(const struct zkl__contender *c)
{
    return c->suspicion.inspection->broken;
}

bool zkl__inspection_stale(const struct zkl__contender *c)
{
    return c->suspicion.inspection->stale;
}

/* --- requests and replies -------------------------------------------------------------------- */

static enum verdict verdict_of(struct zkl__contender *c, const char *name,
                               const struct zkl__reply *reply)
{
    struct zkl__inspection *inspection = c->suspicion.inspection;
    switch (reply->rc) {
    case ZKL__RC_OK:
        if (!zkl__list_forged(c, name, &reply->stat)) {
            return STANDS;
        }
        (void)zkl__list_pass_over(c, name,
                                  &reply->stat); /* no memory: the next one reads it again */
        return EXCLUDED;
    case ZKL__RC_NONODE:
        inspection->stale = true;
        return EXCLUDED;
    case ZKL__RC_NOTAPPLIED:
    case ZKL__RC_UNKNOWN:
        inspection->broken = true;
        return UNSEEN;
    case ZKL__RC_UNSENT:
        inspection->broken = inspection->broken || reply->unsent != ZKL_EINVAL;
        return reply->unsent == ZKL_EINVAL ? STANDS : UNSEEN;
    default:
        return STANDS; /* NOAUTH does not prove absence: the watch on it will say more */
    }
}

static void end_batch(struct zkl__contender *c)
{
    struct zkl__inspection *inspection = c->suspicion.inspection;
    if (inspection->dropped) {
        zkl__inspection_free(c);
    } else if (!inspection->broken) {
        inspection->batch = inspection->batch * GROWTH < MOST ? inspection->batch * GROWTH : MOST;
    }
    zkl__contender_post(c, ZKL__CE_INSPECTED);
}

void zkl__inspection_answered(struct zkl__contender *c, size_t which,
                              const struct zkl__reply *reply)
{
    struct zkl__inspection *inspection = c->suspicion.inspection;
    struct candidate *candidate = &inspection->candidates[which];
    if (!inspection->dropped) {
        candidate->verdict = verdict_of(c, candidate->name, reply);
    }
    if (--inspection->under_way == 0) {
        end_batch(c);
    }
}

void zkl__inspection_send(struct zkl__core *core, struct zkl__contender *c)
{
    struct zkl__inspection *inspection = c->suspicion.inspection;
    if (!inspection || inspection->under_way > 0) {
        return;
    }
    inspection->under_way = 1; /* until all are sent */
    inspection->broken = false;
    for (size_t i = inspection->nearest, sent = 0;
         i < inspection->count && sent < inspection->batch; i++) {
        if (inspection->candidates[i].verdict == UNSEEN) {
            const struct zkl__op op = {.kind = ZKL__OP_EXISTS,
                                       .dir = c->config.path,
                                       .name = inspection->candidates[i].name};
            sent++;
            inspection->under_way++;
            c->in_flight++;
            zkl__core_send(core, &c->machine, ZKL__ROLES + (int)i, &op);
        }
    }
    if (--inspection->under_way == 0) {
        end_batch(c);
    }
}
