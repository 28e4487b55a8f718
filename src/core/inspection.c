#include "inspection.h"

#include "local_queue.h"
#include "queue_list.h"

#include <string.h>

#define FIRST 8 /* two have been looked at alone */
#define GROWTH 8
#define MOST 500 /* requests under way: their answers take some milliseconds, far less than a heartbeat */

enum verdict { UNSEEN, EXCLUDED, STANDS };

struct candidate {
    const char *name;
    enum verdict verdict;
};

struct look {
    struct zkl__request request;
    struct zkl__inspection *inspection;
    struct candidate *at;
};

struct zkl__inspection {
    const zkl_heap *heap;
    struct zkl__contender *contender; /* NULL: not wanted any more, it waits for its last answer */
    size_t count, nearest;
    size_t batch, under_way;
    bool broken, stale;
    struct look *looks; /* of the batch */
    char *names;
    struct candidate candidates[]; /* nearest first */
};

/* --- life ---------------------------------------------------------------------------------------------------------- */

static void free_inspection(struct zkl__inspection *inspection)
{
    const zkl_heap *heap = inspection->heap;
    zkl__free(heap, inspection->looks);
    zkl__free(heap, inspection->names);
    zkl__free(heap, inspection);
}

static struct zkl__inspection *of_index(struct zkl__contender *c, const struct zkl__list_index *index)
{
    size_t before = zkl__list_before(c, index), count = 0, bytes = 1;
    for (size_t i = before; i > 0; i--) {
        if (zkl__list_blocks(c, index->entries[i - 1].name)) {
            bytes += strlen(index->entries[i - 1].name) + 1;
            count++;
        }
    }
    struct zkl__inspection *inspection =
        zkl__zalloc(c->heap, sizeof *inspection + count * sizeof *inspection->candidates);
    char *names = zkl__alloc(c->heap, bytes);
    if (!inspection || !names) {
        zkl__free(c->heap, inspection);
        zkl__free(c->heap, names);
        return NULL;
    }
    *inspection = (struct zkl__inspection){.heap = c->heap, .contender = c, .batch = FIRST, .names = names};
    for (size_t i = before; i > 0; i--) {
        if (zkl__list_blocks(c, index->entries[i - 1].name)) {
            inspection->candidates[inspection->count++].name = zkl__text_put(&names, index->entries[i - 1].name);
        }
    }
    return inspection;
}

struct zkl__inspection *zkl__inspection_new(struct zkl__contender *c, const struct zkl__reply *list,
                                            const struct zkl__list_index *index)
{
    struct zkl__list_index *own = index ? NULL : zkl__list_index_new(c->heap, list, zkl__name_sequence(c->node));
    struct zkl__inspection *inspection = index || own ? of_index(c, index ? index : own) : NULL;
    zkl__free(c->heap, own);
    return inspection;
}

void zkl__inspection_drop(struct zkl__contender *c)
{
    struct zkl__inspection *inspection = c->inspection;
    c->inspection = NULL;
    if (inspection && inspection->under_way == 0) {
        free_inspection(inspection);
    } else if (inspection) {
        inspection->contender = NULL;
    }
}

/* --- what is known ------------------------------------------------------------------------------------------------- */

const char *zkl__inspection_nearest(struct zkl__inspection *inspection, bool *seen)
{
    while (inspection->nearest < inspection->count && inspection->candidates[inspection->nearest].verdict == EXCLUDED) {
        inspection->nearest++;
    }
    if (inspection->nearest == inspection->count) {
        return NULL;
    }
    *seen = inspection->candidates[inspection->nearest].verdict == STANDS;
    return inspection->candidates[inspection->nearest].name;
}

void zkl__inspection_exclude(struct zkl__inspection *inspection)
{
    inspection->candidates[inspection->nearest].verdict = EXCLUDED;
}

bool zkl__inspection_broken(const struct zkl__inspection *inspection)
{
    return inspection->broken;
}

bool zkl__inspection_stale(const struct zkl__inspection *inspection)
{
    return inspection->stale;
}

/* --- answers ------------------------------------------------------------------------------------------------------- */

static enum verdict verdict_of(struct zkl__inspection *inspection, const char *name, const struct zkl__reply *reply)
{
    switch (reply->rc) {
    case ZKL__RC_OK:
        if (!zkl__list_forged(inspection->contender, name, &reply->stat)) {
            return STANDS;
        }
        (void)zkl__list_pass_over(inspection->contender, name,
                                  &reply->stat); /* without memory: the next one looks again */
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
        return STANDS; /* as far as we may see: the watch on it will say more */
    }
}

static void end_batch(struct zkl__inspection *inspection)
{
    const zkl_heap *heap = inspection->heap;
    zkl__free(heap, inspection->looks);
    inspection->looks = NULL;
    if (!inspection->contender) {
        free_inspection(inspection);
        return;
    }
    if (!inspection->broken) {
        inspection->batch = inspection->batch * GROWTH < MOST ? inspection->batch * GROWTH : MOST;
    }
    zkl__core_feed(inspection->contender->core, inspection->contender,
                   (struct zkl__contender_event){.kind = ZKL__CE_INSPECTED});
}

static void on_answer(struct zkl__request *request, const struct zkl__reply *reply)
{
    struct look *look = request->owner;
    struct zkl__inspection *inspection = look->inspection;
    if (inspection->contender) {
        look->at->verdict = verdict_of(inspection, look->at->name, reply);
    }
    if (--inspection->under_way == 0) {
        end_batch(inspection);
    }
}

/* --- sending ------------------------------------------------------------------------------------------------------- */

void zkl__inspection_send(struct zkl__core *core, struct zkl__inspection *inspection)
{
    if (inspection->under_way > 0) {
        return;
    }
    size_t left = inspection->count - inspection->nearest;
    size_t room = left < inspection->batch ? left : inspection->batch;
    inspection->broken = false;
    inspection->looks = zkl__zalloc(inspection->heap, room * sizeof *inspection->looks);
    inspection->under_way = 1; /* until all are sent */
    for (size_t i = inspection->nearest, sent = 0; inspection->looks && i < inspection->count && sent < room; i++) {
        struct candidate *candidate = &inspection->candidates[i];
        if (candidate->verdict != UNSEEN) {
            continue;
        }
        struct look *look = &inspection->looks[sent++];
        struct zkl__op op = {
            .kind = ZKL__OP_EXISTS, .dir = inspection->contender->config.path, .name = candidate->name};
        *look = (struct look){{on_answer, look}, inspection, candidate};
        inspection->under_way++;
        if (zkl__core_send(core, NULL, &look->request, ZKL__ROLE_NONE, &op) != ZKL_OK) {
            inspection->under_way--;
            inspection->broken = true;
        }
    }
    inspection->broken = inspection->broken || !inspection->looks;
    if (--inspection->under_way == 0) {
        end_batch(inspection);
    }
}

bool zkl__inspection_abandon(const struct zkl__request *request)
{
    if (request->done != on_answer) {
        return false;
    }
    struct zkl__inspection *inspection = ((struct look *)request->owner)->inspection;
    if (--inspection->under_way == 0) {
        free_inspection(inspection);
    }
    return true;
}
