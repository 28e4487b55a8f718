#include "await.h"

#include "error.h"

#include <string.h>

static int advance(struct zkl__procedure *procedure, zkl_error *err)
{
    struct zkl__call *call = (struct zkl__call *)procedure;
    call->err = err;
    return call->kind->run(call);
}

static int explain(struct zkl__procedure *procedure, int rc, const zkl_error *why, zkl_error *err)
{
    struct zkl__call *call = (struct zkl__call *)procedure;
    bool sent = zkl__run_end(&call->single.run) && call->single.run.mode == ZKL__ONCE;
    const char *before = !sent && call->unsent ? call->unsent : call->doubt;
    return zkl__fail(err, rc, why->zk_code, why->path[0] ? why->path : procedure->path, "%s%s",
                     before ? before : "", why->text);
}

static void end(struct zkl__procedure *procedure)
{
    struct zkl__call *call = (struct zkl__call *)procedure;
    zkl__run_end(&call->single.run);
    if (call->kind && call->kind->end) {
        call->kind->end(call);
    }
}

int zkl__call_begin(const struct zkl__call_kind *kind, const void *given, zkl_session *session,
                    const char *path, int64_t timeout_ms, const struct zkl__later *later,
                    zkl_error *err)
{
    static const struct zkl__procedure_ops ops = {advance, explain, end};
    const size_t base = sizeof(struct zkl__call);
    struct zkl__call *call = zkl__procedure_make(session, kind->size, &ops, path, timeout_ms, err);
    if (!call) {
        return ZKL_ENOMEM;
    }
    memcpy((char *)call + base, (const char *)given + base, kind->size - base);
    call->call = call;
    call->procedure.finishes = kind->finishes;
    int rc = kind->begin ? kind->begin(call, err) : ZKL_OK;
    if (rc != ZKL_OK) {
        return zkl__procedure_drop(&call->procedure, rc);
    }
    call->kind = kind;
    return zkl__procedure_go(&call->procedure, later, err);
}

int zkl__call_go(const struct zkl__call_kind *kind, const void *given, zkl_session *session,
                 const char *path, int64_t timeout_ms, const struct zkl__later *later,
                 zkl_error *err)
{
    int rc = zkl__session_enter_at(session, path, timeout_ms, err);
    if (rc == ZKL_OK) {
        rc = zkl__call_begin(kind, given, session, path, timeout_ms, later, err);
        zkl__session_leave(session);
    }
    return rc;
}

int zkl__call_refused(const struct zkl__call *call, const char *path, const char *what)
{
    const struct zkl__answer *answer = &call->answer;
    bool unsent = answer->rc == ZKL__RC_UNSENT;
    if (unsent || answer->rc == ZKL__RC_UNKNOWN) {
        return zkl__fail(call->err, ZKL_ECONNECT, 0, path, "%s: %s", what,
                         unsent ? "there is no connection"
                                : "the connection went before the answer came");
    }
    return zkl__fail(call->err, zkl__rc_code(answer->rc), answer->zk_code, path, "%s: %s", what,
                     zkl__rc_name(answer->rc));
}

/* --- requests -------------------------------------------------------------------------------- */

void zkl__call_pause(struct zkl__call *call, int64_t *last)
{
    *last = zkl__session_longer(*last);
    call->pause_to = zkl__clock_now() + *last;
}

static void take_answer(void *arg, const struct zkl__reply *reply)
{
    struct zkl__call *call = arg;
    bool both = reply->part_count == 2;
    call->answer = (struct zkl__answer){
        reply->rc,
        reply->zk_code,
        reply->stat,
        reply->size == 0,
        {both ? reply->parts[0].rc : reply->rc, both ? reply->parts[1].rc : reply->rc}};
    if (call->kind->look) {
        call->kind->look(call, reply);
    }
}

void zkl__call_send(struct zkl__call *call, enum zkl__run_mode mode, const struct zkl__op *ops,
                    size_t count)
{
    ZKL__ENSURE(count == 1 || count == 2);
    memcpy(call->parts, ops, count * sizeof *ops);
    call->op =
        count == 1
            ? *ops
            : (struct zkl__op){.kind = ZKL__OP_MULTI, .parts = call->parts, .part_count = count};
    zkl__single_begin(&call->single, &call->procedure, mode, &call->op, take_answer, call);
}

int zkl__call_answered(struct zkl__call *call)
{
    if (zkl__clock_now() < call->pause_to) {
        call->procedure.again = call->pause_to;
        call->procedure.late = "the servers asked to try again until the time was up";
        return ZKL__PENDING;
    }
    int rc = zkl__run_advance(&call->single.run, call->err);
    if (rc == ZKL_ECONNECT) { /* of a request that is sent once */
        call->answer.rc = call->single.run.lost ? ZKL__RC_UNKNOWN : ZKL__RC_UNSENT;
        rc = ZKL_OK;
    }
    return rc;
}
