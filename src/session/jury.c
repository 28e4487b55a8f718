#include "jury.h"

static void on_done(struct zkl__request *request, const struct zkl__reply *reply)
{
    struct zkl__juror *juror = request->owner;
    struct zkl__jury *jury = juror->jury;
    bool answered = zkl__rc_answered(reply->rc) && reply->rc != ZKL__RC_NOTAPPLIED;
    juror->busy = false;
    jury->busy--;
    jury->unanswered = jury->unanswered || !answered;
    if (answered) {
        zkl__child_judge(&jury->children->all[juror->index], reply);
    }
    if (jury->busy == 0) {
        bool all = !jury->unanswered;
        jury->unanswered = false;
        jury->done(jury->owner, all);
    }
}

static void forget(struct zkl__jury *jury)
{
    for (int i = 0; i < ZKL__JURORS; i++) {
        if (jury->jurors[i].busy) {
            zkl__request_forget(zkl__session_core(jury->session), &jury->jurors[i].request);
            jury->jurors[i].busy = false;
        }
    }
    jury->busy = 0;
    jury->unanswered = false;
}

bool zkl__jury_take(struct zkl__jury *jury, const struct zkl__reply *list,
                    bool (*counts)(const char *name))
{
    const zkl_heap *heap = zkl__session_heap(jury->session);
    struct zkl__children *fresh = zkl__children_copy(heap, list, jury->children, counts);
    if (fresh) {
        forget(jury);
        zkl__free(heap, jury->children);
        jury->children = fresh;
    }
    return fresh != NULL;
}

bool zkl__jury_sit(struct zkl__jury *jury)
{
    if (jury->busy > 0 || !jury->children) {
        return jury->busy > 0;
    }
    size_t at = zkl__children_unknown(jury->children, 0), count = jury->children->count;
    size_t todo[ZKL__JURORS], sent = 0;
    for (; at < count && sent < ZKL__JURORS; at = zkl__children_unknown(jury->children, at + 1)) {
        todo[sent++] = at;
    }
    jury->busy = sent; /* before the first can be refused */
    for (size_t i = 0; i < sent; i++) {
        struct zkl__juror *juror = &jury->jurors[i];
        *juror = (struct zkl__juror){.request = {.done = on_done, .owner = juror},
                                     .jury = jury,
                                     .index = todo[i],
                                     .busy = true};
        const struct zkl__op op = {
            .kind = ZKL__OP_EXISTS, .dir = jury->dir, .name = jury->children->all[todo[i]].name};
        zkl__session_event(
            jury->session,
            (struct zkl__event){.kind = ZKL__EV_REQUEST, .request = &juror->request, .op = &op});
    }
    return sent > 0;
}

void zkl__jury_dismiss(struct zkl__jury *jury)
{
    forget(jury);
    zkl__free(zkl__session_heap(jury->session), jury->children);
    jury->children = NULL;
}
