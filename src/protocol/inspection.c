#include "inspection.h"

#include "heap.h"
#include "local_queue.h"
#include "queue_list.h"

#include <string.h>

#define FIRST 8 /* two have been looked at alone */
#define GROWTH 8
#define MOST \
    500 /* requests under way: their answers take some milliseconds, far less than a heartbeat */
#define TOGETHER_LEAST 300    /* a transaction is a write: not for a few */
#define TOGETHER_MOST 1000    /* parts */
#define TOGETHER_BYTES 400000 /* of a request, which servers refuse above 1 MB (jute.maxbuffer) */
#define PART_BYTES 60         /* of a part, besides its path */
#define GUARDS 2

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
    bool together;             /* the batch is, or the next one will be, one transaction */
    size_t picked, persistent; /* in the batch, and of these: found to live with no session */
    struct look *looks;        /* of the batch */
    char *names;
    struct candidate candidates[]; /* nearest first */
};

/* --- life ------------------------------------------------------------------------------------ */

static void free_inspection(struct zkl__inspection *inspection)
{
    const zkl_heap *heap = inspection->heap;
    zkl__free(heap, inspection->looks);
    zkl__free(heap, inspection->names);
    zkl__free(heap, inspection);
}

static struct zkl__inspection *of_index(struct zkl__contender *c,
                                        const struct zkl__list_index *index)
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
    *inspection =
        (struct zkl__inspection){.heap = c->heap, .contender = c, .batch = FIRST, .names = names};
    for (size_t i = before; i > 0; i--) {
        if (zkl__list_blocks(c, index->entries[i - 1].name)) {
            inspection->candidates[inspection->count++].name =
                zkl__text_put(&names, index->entries[i - 1].name);
        }
    }
    return inspection;
}

static struct zkl__inspection *new_inspection(struct zkl__contender *c,
                                              const struct zkl__reply *list,
                                              const struct zkl__list_index *index)
{
    struct zkl__list_index *own =
        index ? NULL
              : zkl__list_index_new(c->heap, list, zkl__name_sequence(zkl__node_name(&c->node)));
    struct zkl__inspection *inspection = index || own ? of_index(c, index ? index : own) : NULL;
    zkl__free(c->heap, own);
    return inspection;
}

void zkl__inspection_drop(struct zkl__contender *c)
{
    struct zkl__inspection *inspection = c->suspicion.inspection;
    c->suspicion.inspection = NULL;
    if (inspection && inspection->under_way == 0) {
        free_inspection(inspection);
    } else if (inspection) {
        inspection->contender = NULL;
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

bool zkl__inspection_begin(struct zkl__contender *c, const struct zkl__contender_event *ev)
{
    zkl__inspection_drop(c);
    c->suspicion.inspection = zkl__suspected(c) ? new_inspection(c, ev->reply, ev->index) : NULL;
    c->suspicion.state = ZKL__SUSPICION_NONE;
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
    return c->suspicion.inspection;
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
    const struct zkl__inspection *inspection = c->suspicion.inspection;
    return inspection->broken;
}

bool zkl__inspection_stale(const struct zkl__contender *c)
{
    const struct zkl__inspection *inspection = c->suspicion.inspection;
    return inspection->stale;
}

/* --- answers --------------------------------------------------------------------------------- */

/* Without memory for its name the next one looks again. */
static enum verdict pass_over(struct zkl__inspection *inspection, const char *name,
                              const struct zkl__stat *stat)
{
    (void)zkl__list_pass_over(inspection->contender, name, stat);
    inspection->persistent += stat->ephemeral_owner == 0;
    return EXCLUDED;
}

static enum verdict verdict_of(struct zkl__inspection *inspection, const char *name,
                               const struct zkl__reply *reply)
{
    switch (reply->rc) {
    case ZKL__RC_OK:
        return zkl__list_forged(inspection->contender, name, &reply->stat)
                   ? pass_over(inspection, name, &reply->stat)
                   : STANDS;
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

/* What the next batch is. A transaction is worth its write when it judges many: after one that
 * judged few, all in this queue are looked at each, so that nobody can make us send more
 * transactions than looks. */
static void plan_next(struct zkl__inspection *inspection)
{
    bool all = inspection->persistent == inspection->picked;
    bool *apart = zkl__local_looks_apart(inspection->contender);
    if (inspection->together && !all) {
        *apart = *apart || 2 * inspection->persistent < inspection->picked;
        inspection->batch = FIRST;
    } else if (!inspection->together) {
        inspection->batch = inspection->batch * GROWTH < MOST ? inspection->batch * GROWTH : MOST;
    }
    inspection->together =
        all && !*apart && inspection->count - inspection->nearest >= TOGETHER_LEAST;
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
        plan_next(inspection);
    }
    zkl__contender_post(inspection->contender, ZKL__CE_INSPECTED);
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

/* Those before the part that failed might have had a child, so they live with no session. The one
 * at which it failed is looked at next, with its czxid. */
static void judge_together(struct zkl__inspection *inspection, const struct zkl__reply *reply)
{
    const struct zkl__stat persistent = {.ephemeral_owner = 0};
    for (size_t i = 0; i < inspection->picked && i < reply->part_count; i++) {
        if (reply->parts[i].rc != ZKL__RC_ROLLEDBACK) {
            return;
        }
        struct candidate *candidate = inspection->looks[i].at;
        candidate->verdict = pass_over(inspection, candidate->name, &persistent);
    }
}

/* A transaction that the servers answer by closing the connection (jute.maxbuffer is set lower), or
 * not at all, is not sent again: nor is one that is never done, and done all the same. */
static void on_together(struct zkl__request *request, const struct zkl__reply *reply)
{
    struct zkl__inspection *inspection = ((struct look *)request->owner)->inspection;
    bool failed =
        zkl__rc_answered(reply->rc) && reply->rc != ZKL__RC_OK && reply->rc != ZKL__RC_NOTAPPLIED;
    if (inspection->contender && failed) {
        judge_together(inspection, reply);
    } else if (inspection->contender) {
        inspection->together = false;
        *zkl__local_looks_apart(inspection->contender) = true;
        inspection->broken = reply->rc != ZKL__RC_OK && reply->rc != ZKL__RC_UNSENT;
    }
    if (--inspection->under_way == 0) {
        end_batch(inspection);
    }
}

/* --- sending --------------------------------------------------------------------------------- */

/* The nearest ones that nobody has looked at. */
static void pick(struct zkl__inspection *inspection, size_t most)
{
    size_t left = inspection->count - inspection->nearest;
    size_t room = left < most ? left : most;
    inspection->picked = inspection->persistent = 0;
    inspection->looks = zkl__zalloc(inspection->heap, room * sizeof *inspection->looks);
    for (size_t i = inspection->nearest;
         inspection->looks && i < inspection->count && inspection->picked < room; i++) {
        struct candidate *candidate = &inspection->candidates[i];
        if (candidate->verdict == UNSEEN) {
            inspection->looks[inspection->picked++] =
                (struct look){.inspection = inspection, .at = candidate};
        }
    }
    inspection->broken = !inspection->looks;
}

static void send_one(struct zkl__core *core, struct zkl__inspection *inspection, struct look *look,
                     void (*done)(struct zkl__request *request, const struct zkl__reply *reply),
                     const struct zkl__op *op)
{
    look->request = (struct zkl__request){.done = done, .owner = look};
    inspection->under_way++;
    zkl__core_request(core, &look->request, op);
}

static void send_each(struct zkl__core *core, struct zkl__inspection *inspection)
{
    pick(inspection, inspection->batch);
    for (size_t i = 0; i < inspection->picked; i++) {
        struct look *look = &inspection->looks[i];
        const struct zkl__op op = {.kind = ZKL__OP_EXISTS,
                                   .dir = inspection->contender->config.path,
                                   .name = look->at->name};
        send_one(core, inspection, look, on_answer, &op);
    }
}

static size_t most_together(const struct zkl__inspection *inspection)
{
    size_t longest =
        strlen(inspection->contender->config.path) + ZKL__NAME_LONGEST + ZKL__UUID_LENGTH + 2;
    size_t most = TOGETHER_BYTES / (longest + PART_BYTES);
    return most < TOGETHER_MOST ? most : TOGETHER_MOST;
}

/* A child with the name of our uuid below each; nobody else has one of that name. At the end, the
 * directory's version is to be one number and another one. So the transaction fails, wherever:
 * nothing is ever made. */
static struct zkl__op *make_parts(const struct zkl__inspection *inspection, char *names)
{
    const char *path = inspection->contender->config.path;
    struct zkl__op *parts =
        zkl__zalloc(inspection->heap, (inspection->picked + GUARDS) * sizeof *parts);
    for (size_t i = 0; parts && i < inspection->picked; i++) {
        parts[i] = (struct zkl__op){
            .kind = ZKL__OP_CREATE, .dir = path, .name = names, .mode = ZKL__PERSISTENT};
        zkl__text_put(&names, inspection->looks[i].at->name);
        names[-1] = '/';
        zkl__text_put(&names, zkl__node_uuid(&inspection->contender->node));
    }
    for (int i = 0; parts && i < GUARDS; i++) {
        parts[inspection->picked + i] =
            (struct zkl__op){.kind = ZKL__OP_CHECK, .dir = path, .version = INT32_MIN + i};
    }
    return parts;
}

static void send_together(struct zkl__core *core, struct zkl__inspection *inspection)
{
    pick(inspection, most_together(inspection));
    size_t bytes = 1;
    for (size_t i = 0; i < inspection->picked; i++) {
        bytes += strlen(inspection->looks[i].at->name) + ZKL__UUID_LENGTH + 2;
    }
    char *names = zkl__alloc(inspection->heap, bytes);
    struct zkl__op *parts = names ? make_parts(inspection, names) : NULL;
    if (parts && inspection->picked > 0) {
        const struct zkl__op op = {
            .kind = ZKL__OP_MULTI, .parts = parts, .part_count = inspection->picked + GUARDS};
        send_one(core, inspection, &inspection->looks[0], on_together, &op);
    } else {
        inspection->broken = inspection->broken || !parts;
    }
    zkl__free(inspection->heap, parts);
    zkl__free(inspection->heap, names);
}

void zkl__inspection_send(struct zkl__core *core, struct zkl__contender *c)
{
    struct zkl__inspection *inspection = c->suspicion.inspection;
    if (!inspection || inspection->under_way > 0) {
        return;
    }
    inspection->under_way = 1; /* until all are sent */
    (inspection->together ? send_together : send_each)(core, inspection);
    if (--inspection->under_way == 0) {
        end_batch(inspection);
    }
}

bool zkl__inspection_abandon(const struct zkl__request *request)
{
    if (request->done != on_answer && request->done != on_together) {
        return false;
    }
    struct zkl__inspection *inspection = ((struct look *)request->owner)->inspection;
    if (inspection->contender) {
        inspection->contender->suspicion.inspection = NULL;
        inspection->contender = NULL;
    }
    if (--inspection->under_way == 0) {
        free_inspection(inspection);
    }
    return true;
}
