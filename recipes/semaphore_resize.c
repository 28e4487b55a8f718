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
#include "name.h"

#include <zklock/semaphore.h>

#include <stdio.h>
#include <string.h>

struct resize {
    struct zkl__call call; /* first */
    int limit;
    char text[16];   /* the limit, as it is stored */
    int stored;      /* the limit that was read; 0: the data is none */
    int32_t version; /* of the data that was read before the last write */
    bool unknown;    /* a write at that version was sent, and its reply was lost */
    int64_t pause;   /* the last one */
};

/* In a step. */
static void take_limit(struct zkl__call *call, const struct zkl__reply *reply)
{
    ((struct resize *)call)->stored =
        reply->rc == ZKL__RC_OK ? zkl__limit_parse(reply->data, reply->size) : 0;
}

/* Of a write whose reply was lost. */
static bool is_done(const struct resize *resize)
{
    int64_t later = (int64_t)resize->call.answer.stat.version - resize->version;
    return later > 1 || (later == 1 && resize->stored == resize->limit);
}

static int run(struct zkl__call *call)
{
    struct resize *resize = (struct resize *)call;
    const struct zkl__answer *answer = &call->answer;
    const char *path = call->path;
    CALL_BEGIN(call);
    snprintf(resize->text, sizeof resize->text, "%d", resize->limit);
    call->doubt = "it may be done, or not: ";
    call->unsent = "";
    for (;;) {
        AWAIT_REPLY(call, take_limit, {.kind = ZKL__OP_GET, .dir = path});
        if (answer->rc == ZKL__RC_NONODE) {
            RETURN(call, zkl__fail(call->err, ZKL_ENOENT, answer->zk_code, path,
                                   "there is no semaphore: the path does not exist"));
        }
        if (answer->rc != ZKL__RC_OK) {
            RETURN(call, zkl__call_refused(call, path, "the limit of the path cannot be read"));
        }
        if (resize->unknown && is_done(resize)) {
            RETURN(call, ZKL_OK);
        }
        if (resize->stored == 0) {
            RETURN(call,
                   zkl__fail(call->err, ZKL_ECONFLICT, 0, path,
                             answer->empty ? "nobody has set a limit: the data of the path is empty"
                                           : "the data of the path is no limit: is it a lock with "
                                             "recovery?"));
        }
        resize->unknown = resize->unknown && answer->stat.version == resize->version;
        resize->version = answer->stat.version;
        call->unsent = resize->unknown ? NULL : "";
        AWAIT_ONCE(call, NULL,
                   {.kind = ZKL__OP_SET,
                    .dir = path,
                    .data = resize->text,
                    .size = strlen(resize->text),
                    .version = resize->version});
        switch (answer->rc) {
        case ZKL__RC_OK:
            RETURN(call, ZKL_OK);
        case ZKL__RC_UNKNOWN: /* the next read shows what became of it */
            resize->unknown = true;
            call->unsent = NULL;
            break;
        case ZKL__RC_NOTAPPLIED:
            zkl__call_pause(call, &resize->pause);
            break;
        case ZKL__RC_UNSENT:
        case ZKL__RC_BADVERSION: /* others have written since the read */
        case ZKL__RC_NONODE:
            break;
        default:
            RETURN(call, zkl__call_refused(call, path, "the limit cannot be written to the path"));
        }
    }
    CALL_END(call);
}

static int resize_to(zkl_session *session, const char *path, int limit, int64_t timeout_ms,
                     const struct zkl__later *later, zkl_error *err)
{
    static const struct zkl__call_kind kind = {.size = sizeof(struct resize), .run = run};
    const struct resize given = {.limit = limit};
    int rc = zkl__range_check("limit", limit, 1, ZKL_PERMITS_MAX, err);
    return rc == ZKL_OK ? zkl__call_go(&kind, &given, session, path, timeout_ms, later, err) : rc;
}

int zkl_semaphore_resize(zkl_session *session, const char *path, int limit, int64_t timeout_ms,
                         zkl_error *err)
{
    return resize_to(session, path, limit, timeout_ms, NULL, err);
}

int zkl_semaphore_resize_async(zkl_session *session, const char *path, int limit,
                               int64_t timeout_ms, zkl_done_fn done, void *payload, zkl_error *err)
{
    return resize_to(session, path, limit, timeout_ms, &(struct zkl__later){done, payload}, err);
}
