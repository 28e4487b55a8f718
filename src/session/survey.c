#include "survey.h"

#include "error.h"
#include "heap.h"

static void take_list(void *arg, const struct zkl__reply *reply)
{
    struct zkl__survey *survey = arg;
    survey->rc = reply->rc == ZKL__RC_NONODE ? ZKL__RC_OK : reply->rc;
    survey->zk_code = reply->zk_code;
    if (survey->rc == ZKL__RC_OK) {
        survey->no_memory = !zkl__children_renew(zkl__session_heap(survey->by->session),
                                                 &survey->names, reply, survey->counts) ||
                            !survey->listed(survey, reply);
    }
}

static void make_read(void *arg, size_t index, struct zkl__op *op)
{
    const struct zkl__survey *survey = arg;
    *op = (struct zkl__op){
        .kind = ZKL__OP_GET, .dir = survey->dir, .name = survey->names->all[index].name};
}

static void take_read(void *arg, size_t index, const struct zkl__reply *reply)
{
    struct zkl__survey *survey = arg;
    survey->read(survey, index, reply);
}

void zkl__survey_begin(struct zkl__survey *survey, struct zkl__procedure *by)
{
    survey->by = by;
    survey->step = ZKL__SURVEY_LIST;
    survey->op = (struct zkl__op){.kind = ZKL__OP_CHILDREN, .dir = survey->dir};
    zkl__single_begin(&survey->list, by, ZKL__INSIST, &survey->op, take_list, survey);
}

/* The list is there: the reads begin. */
static int begin_reads(struct zkl__survey *survey, zkl_error *err)
{
    if (survey->rc != ZKL__RC_OK) {
        return zkl__fail(err, zkl__rc_code(survey->rc), survey->zk_code, survey->dir, "%s",
                         survey->refused);
    }
    if (survey->no_memory) {
        return zkl__fail(err, ZKL_ENOMEM, 0, survey->dir, "no memory for its children");
    }
    survey->step = ZKL__SURVEY_READ;
    survey->reads = (struct zkl__reads){survey->names->count, make_read, take_read, survey};
    zkl__run_begin(&survey->run, survey->by, ZKL__READS, &survey->reads, survey->slots,
                   ZKL__WINDOW);
    return ZKL_OK;
}

int zkl__survey_advance(struct zkl__survey *survey, zkl_error *err)
{
    int rc = ZKL_OK;
    if (survey->step == ZKL__SURVEY_LIST) {
        rc = zkl__run_advance(&survey->list.run, err);
        rc = rc == ZKL_OK ? begin_reads(survey, err) : rc;
    }
    return rc == ZKL_OK ? zkl__run_advance(&survey->run, err) : rc;
}

void zkl__survey_end(struct zkl__survey *survey)
{
    if (survey->by) {
        zkl__run_end(&survey->list.run);
        zkl__run_end(&survey->run);
        zkl__free(zkl__session_heap(survey->by->session), survey->names);
        survey->by = NULL;
    }
}
