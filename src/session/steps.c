#include "steps.h"

#include "error.h"

static int enter(struct zkl__steps *steps, int state, zkl_error *err)
{
    ZKL__ENSURE(steps->at == 0 || (steps->table[steps->at].moves & 1u << state));
    steps->at = state;
    const struct zkl__step *step = &steps->table[state];
    return step->begin ? step->begin(steps, err) : ZKL_OK;
}

static int follow(struct zkl__steps *steps, zkl_error *err)
{
    const struct zkl__step *step = &steps->table[steps->at];
    if (step->next) {
        return step->next(steps, err);
    }
    ZKL__ENSURE((step->moves & (step->moves - 1)) == 0);
    return step->moves ? __builtin_ctz(step->moves) : ZKL_OK;
}

static int await(struct zkl__steps *steps, zkl_error *err)
{
    const struct zkl__step *step = &steps->table[steps->at];
    return step->await ? step->await(steps, err) : zkl__run_advance(&steps->single.run, err);
}

int zkl__steps_advance(struct zkl__procedure *procedure, zkl_error *err)
{
    struct zkl__steps *steps = (struct zkl__steps *)procedure;
    int rc = steps->at ? ZKL_OK : enter(steps, steps->first, err);
    while (rc == ZKL_OK) {
        rc = await(steps, err);
        if (rc != ZKL_OK) {
            return rc;
        }
        int state = follow(steps, err);
        if (state <= 0) {
            return state;
        }
        rc = enter(steps, state, err);
    }
    return rc;
}

void zkl__steps_end(struct zkl__steps *steps)
{
    zkl__run_end(&steps->single.run);
}

/* --- requests -------------------------------------------------------------------------------- */

static void take_answer(void *arg, const struct zkl__reply *reply)
{
    struct zkl__steps *steps = arg;
    bool both = reply->part_count == 2;
    steps->answer = (struct zkl__answer){
        reply->rc,
        reply->zk_code,
        reply->stat,
        reply->size == 0,
        {both ? reply->parts[0].rc : reply->rc, both ? reply->parts[1].rc : reply->rc}};
    if (steps->look) {
        steps->look(steps, reply);
    }
}

int zkl__steps_send(struct zkl__steps *steps, const struct zkl__op *op)
{
    steps->op = *op;
    zkl__single_begin(&steps->single, &steps->procedure, ZKL__INSIST, &steps->op, take_answer,
                      steps);
    return ZKL_OK;
}

int zkl__steps_send_both(struct zkl__steps *steps, const struct zkl__op *first,
                         const struct zkl__op *second)
{
    steps->parts[0] = *first;
    steps->parts[1] = *second;
    return zkl__steps_send(
        steps, &(struct zkl__op){.kind = ZKL__OP_MULTI, .parts = steps->parts, .part_count = 2});
}

int zkl__steps_refused(const struct zkl__steps *steps, const char *path, const char *what,
                       zkl_error *err)
{
    const struct zkl__answer *answer = &steps->answer;
    return zkl__fail(err, zkl__rc_code(answer->rc), answer->zk_code, path, "%s: %s", what,
                     zkl__rc_name(answer->rc));
}
