#include "judgement.h"

#include "await.h"
#include "error.h"
#include "heap.h"

static struct zkl__child *child_at(const struct zkl__judgement *judgement, size_t index)
{
    return &judgement->children->all[judgement->which[index]];
}

static void make_look(void *arg, size_t index, struct zkl__op *op)
{
    const struct zkl__judgement *judgement = arg;
    *op = (struct zkl__op){
        .kind = ZKL__OP_EXISTS, .dir = judgement->dir, .name = child_at(judgement, index)->name};
}

static void take_look(void *arg, size_t index, const struct zkl__reply *reply)
{
    zkl__child_judge(child_at(arg, index), reply);
}

static int begin_judgement(struct zkl__judgement *judgement, struct zkl__procedure *by,
                           const char *dir, struct zkl__children *children, zkl_error *err)
{
    const zkl_heap *heap = zkl__session_heap(by->session);
    size_t first = zkl__children_unknown(children, 0), count = children->count;
    judgement->by = by;
    judgement->dir = dir;
    judgement->children = children;
    judgement->which = NULL;
    judgement->reads = (struct zkl__reads){0, make_look, take_look, judgement};
    if (first < count) {
        judgement->which = zkl__alloc(heap, count * sizeof *judgement->which);
        if (!judgement->which) {
            judgement->by = NULL;
            return zkl__fail(err, ZKL_ENOMEM, 0, dir, "no memory for %zu children", count);
        }
    }
    for (size_t i = first; i < count; i = zkl__children_unknown(children, i + 1)) {
        judgement->which[judgement->reads.count++] = i;
    }
    zkl__run_begin(&judgement->run, by, ZKL__READS, &judgement->reads, judgement->slots,
                   ZKL__WINDOW);
    return ZKL_OK;
}

void zkl__judgement_end(struct zkl__judgement *judgement)
{
    if (judgement->by) {
        zkl__run_end(&judgement->run);
        zkl__free(zkl__session_heap(judgement->by->session), judgement->which);
        judgement->by = NULL;
    }
}

int zkl__judge(struct zkl__judgement *judgement, struct zkl__call *call, const char *dir,
               struct zkl__children *children)
{
    CALL_BEGIN(judgement);
    AWAIT_CALL(judgement, begin_judgement(judgement, &call->procedure, dir, children, call->err));
    AWAIT_CALL(judgement, zkl__run_advance(&judgement->run, call->err));
    zkl__judgement_end(judgement);
    CALL_END(judgement);
}
