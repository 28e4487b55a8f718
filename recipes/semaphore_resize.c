/* semaphore_resize.c - changes the limit of a semaphore that is in use. It reads the data of the
 * path, and writes the limit at the version that it read. Waiters and later contenders read the new
 * limit (protocol/semaphore.c).
 *
 * When the response to a write is lost, the next read decides by the version. Our write can only
 * have made the version that follows the one we had read:
 *  - The version is the same: the write was not carried out, or this server lags. Write again.
 *  - The version is the next one: the write was ours if the limit is ours, else another client's.
 *    In the second case write again.
 *  - The version is a later one: others have written since, and one of the writes may have been
 *    ours. They may have seen our limit, so writing again would undo a later decision. Done. */
#include "call.h"
#include "lock.h"

#include "error.h"
#include "heap.h"
#include "name.h"

#include <zklock/semaphore.h>

#include <stdio.h>
#include <string.h>

struct resize {
    struct zkl__procedure procedure; /* first */
    struct zkl__single single;
    enum { READ, WRITE } step;
    struct zkl__op op;
    int limit;
    char text[16];   /* the limit, as it is stored */
    int32_t version; /* the version that was read last */
    bool unknown;    /* a write at that version was sent, and its response was lost */
    bool finished;   /* with this result: */
    int code, zk_code;
    const char *why;
};

static void finish(struct resize *resize, int code, const struct zkl__reply *reply, const char *why)
{
    resize->finished = true;
    resize->code = code;
    resize->zk_code = reply->zk_code;
    resize->why = why;
}

static void on_read(struct resize *resize, const struct zkl__reply *reply)
{
    int limit = reply->rc == ZKL__RC_OK ? zkl__limit_parse(reply->data, reply->size) : 0;
    int64_t later = (int64_t)reply->stat.version - resize->version;
    if (reply->rc == ZKL__RC_NONODE) {
        finish(resize, ZKL_ENOENT, reply, "there is no semaphore: the path does not exist");
    } else if (reply->rc != ZKL__RC_OK) {
        finish(resize, zkl__rc_code(reply->rc), reply, "the limit of the path cannot be read");
    } else if (resize->unknown && (later > 1 || (later == 1 && limit == resize->limit))) {
        finish(resize, ZKL_OK, reply, NULL);
    } else if (limit == 0) {
        finish(resize, ZKL_ECONFLICT, reply,
               reply->size > 0 ? "the data of the path is no limit: is it a lock with recovery?"
                               : "nobody has set a limit: the data of the path is empty");
    } else {
        resize->unknown = resize->unknown && later == 0; /* a server may lag behind */
        resize->version = reply->stat.version;
        resize->step = WRITE;
    }
}

static void on_write(struct resize *resize, const struct zkl__reply *reply)
{
    if (reply->rc == ZKL__RC_OK) {
        finish(resize, ZKL_OK, reply, NULL);
    } else if (reply->rc == ZKL__RC_BADVERSION || reply->rc == ZKL__RC_NONODE) {
        resize->step = READ;
    } else {
        finish(resize, zkl__rc_code(reply->rc), reply, "the limit cannot be written to the path");
    }
}

static void look(void *arg, const struct zkl__reply *reply)
{
    struct resize *resize = arg;
    (resize->step == READ ? on_read : on_write)(resize, reply);
}

static void send(struct resize *resize)
{
    resize->op = (struct zkl__op){.kind = ZKL__OP_GET, .dir = resize->procedure.path};
    if (resize->step == WRITE) {
        resize->op = (struct zkl__op){.kind = ZKL__OP_SET,
                                      .dir = resize->procedure.path,
                                      .data = resize->text,
                                      .size = strlen(resize->text),
                                      .version = resize->version};
    }
    zkl__single_begin(&resize->single, &resize->procedure,
                      resize->step == READ ? ZKL__INSIST : ZKL__WHILE_KNOWN, &resize->op, look,
                      resize);
}

static int conclude(const struct resize *resize, zkl_error *err)
{
    return resize->code == ZKL_OK ? ZKL_OK
                                  : zkl__fail(err, resize->code, resize->zk_code,
                                              resize->procedure.path, "%s", resize->why);
}

static int advance(struct zkl__procedure *procedure, zkl_error *err)
{
    struct resize *resize = (struct resize *)procedure;
    for (;;) {
        if (!resize->single.run.by) {
            send(resize);
        }
        int rc = zkl__run_advance(&resize->single.run, err);
        if (rc == ZKL_ECONNECT && resize->step == WRITE) {
            resize->unknown = true;
            resize->step = READ;
        } else if (rc != ZKL_OK) {
            return rc;
        }
        zkl__run_end(&resize->single.run);
        if (resize->finished) {
            return conclude(resize, err);
        }
    }
}

static int explain(struct zkl__procedure *procedure, int rc, const zkl_error *why, zkl_error *err)
{
    struct resize *resize = (struct resize *)procedure;
    bool sent = zkl__run_end(&resize->single.run);
    sent = resize->unknown || (resize->step == WRITE && sent);
    return zkl__fail(err, rc, why->zk_code, procedure->path, "%s%s",
                     sent && !resize->finished ? "it may be done, or not: " : "", why->text);
}

static void end(struct zkl__procedure *procedure)
{
    zkl__run_end(&((struct resize *)procedure)->single.run);
}

/* Inside. */
static int begin(zkl_session *session, const char *path, int limit, int64_t timeout_ms,
                 const struct zkl__later *later, zkl_error *err)
{
    static const struct zkl__procedure_ops ops = {advance, explain, end};
    struct resize *resize =
        zkl__procedure_make(session, sizeof *resize, &ops, path, timeout_ms, err);
    if (!resize) {
        return ZKL_ENOMEM;
    }
    resize->limit = limit;
    snprintf(resize->text, sizeof resize->text, "%d", limit);
    return zkl__procedure_go(&resize->procedure, later, err);
}

static int resize_to(zkl_session *session, const char *path, int limit, int64_t timeout_ms,
                     const struct zkl__later *later, zkl_error *err)
{
    int rc = zkl__range_check("limit", limit, 1, ZKL_PERMITS_MAX, err);
    rc = rc == ZKL_OK ? zkl__session_enter_at(session, path, timeout_ms, err) : rc;
    if (rc == ZKL_OK) {
        rc = begin(session, path, limit, timeout_ms, later, err);
        zkl__session_leave(session);
    }
    return rc;
}

int zkl_semaphore_resize(zkl_session *session, const char *path, int limit, int64_t timeout_ms,
                         zkl_error *err)
{
    return resize_to(session, path, limit, timeout_ms, NULL, err);
}

int zkl_semaphore_resize_async(zkl_session *session, const char *path, int limit,
                               int64_t timeout_ms, zkl_done_fn done, void *payload, zkl_error *err)
{
    const struct zkl__later later = {done, payload};
    return resize_to(session, path, limit, timeout_ms, &later, err);
}
