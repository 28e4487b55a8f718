#include "remove.h"

#include "error.h"

static void look(void *arg, const struct zkl__reply *reply)
{
    struct zkl__removal *removal = arg;
    removal->rc = reply->rc;
    removal->zk_code = reply->zk_code;
    removal->stat = reply->stat;
}

static void move(struct zkl__removal *removal, enum zkl__removal_step step)
{
    static const bool allowed[ZKL__REMOVAL_DONE][ZKL__REMOVAL_DONE + 1] = {
        [ZKL__REMOVAL_LOOK] = {[ZKL__REMOVAL_DELETE] = true, [ZKL__REMOVAL_DONE] = true},
        [ZKL__REMOVAL_DELETE] = {[ZKL__REMOVAL_LOOK] = true,
                                 [ZKL__REMOVAL_BARRIER] = true,
                                 [ZKL__REMOVAL_PAUSE] = true,
                                 [ZKL__REMOVAL_DONE] = true},
        [ZKL__REMOVAL_BARRIER] = {[ZKL__REMOVAL_LOOK] = true},
        [ZKL__REMOVAL_PAUSE] = {[ZKL__REMOVAL_LOOK] = true},
    };
    ZKL__ENSURE(allowed[removal->step][step]);
    removal->step = step;
}

/* Sends what the step asks. */
static void send(struct zkl__removal *removal)
{
    struct zkl__op op = {.dir = removal->dir, .name = removal->name};
    enum zkl__run_mode mode = ZKL__INSIST;
    if (removal->step == ZKL__REMOVAL_LOOK) {
        op.kind = ZKL__OP_EXISTS;
    } else if (removal->step == ZKL__REMOVAL_BARRIER) {
        /* A check of the parent, whatever its answer is: ZooKeeper commits a transaction that
         * failed as well. */
        op = (struct zkl__op){.kind = ZKL__OP_CHECK, .dir = removal->dir, .version = -1};
    } else {
        op.kind = ZKL__OP_DELETE;
        op.version = removal->stat.version;
        mode = ZKL__ONCE;
        removal->sent = true;
    }
    removal->op = op;
    zkl__single_begin(&removal->single, removal->by, mode, &removal->op, look, removal);
}

static void go(struct zkl__removal *removal, enum zkl__removal_step step)
{
    move(removal, step);
    if (step == ZKL__REMOVAL_PAUSE) {
        removal->pause = zkl__session_longer(removal->pause);
        removal->pause_to = zkl__clock_now() + removal->pause;
    } else if (step != ZKL__REMOVAL_DONE) {
        send(removal);
    }
}

/* What the look showed. */
static enum zkl__removal_step after_look(struct zkl__removal *removal)
{
    if (removal->rc != ZKL__RC_OK) {
        return ZKL__REMOVAL_DONE;
    }
    removal->czxid = removal->czxid ? removal->czxid : removal->stat.czxid;
    if (removal->stat.czxid != removal->czxid) {
        removal->rc = ZKL__RC_NONODE;
        return ZKL__REMOVAL_DONE;
    }
    return ZKL__REMOVAL_DELETE;
}

/* A version is checked too, and any write raises it without making it another znode: then it is
 * looked at again. */
static enum zkl__removal_step after_delete(const struct zkl__removal *removal)
{
    switch (removal->rc) {
    case ZKL__RC_BADVERSION:
        return ZKL__REMOVAL_LOOK;
    case ZKL__RC_NOTAPPLIED:
        return ZKL__REMOVAL_PAUSE;
    default:
        return ZKL__REMOVAL_DONE;
    }
}

static int advance_pause(struct zkl__removal *removal)
{
    if (zkl__clock_now() < removal->pause_to) {
        removal->by->again = removal->pause_to;
        removal->by->late = "the servers asked to try again until the time was up";
        return ZKL__PENDING;
    }
    go(removal, ZKL__REMOVAL_LOOK);
    return ZKL_OK;
}

static int advance_step(struct zkl__removal *removal, zkl_error *err)
{
    if (removal->step == ZKL__REMOVAL_PAUSE) {
        return advance_pause(removal);
    }
    zkl_error why = {.code = ZKL_OK};
    int rc = zkl__run_advance(&removal->single.run, &why);
    if (rc == ZKL_ECONNECT && removal->step == ZKL__REMOVAL_DELETE) {
        go(removal, ZKL__REMOVAL_BARRIER);
        return ZKL_OK;
    }
    if (rc != ZKL_OK) {
        *err = why;
        return rc;
    }
    switch (removal->step) {
    case ZKL__REMOVAL_LOOK:
        go(removal, after_look(removal));
        break;
    case ZKL__REMOVAL_DELETE:
        go(removal, after_delete(removal));
        break;
    default:
        go(removal, ZKL__REMOVAL_LOOK);
        break;
    }
    return ZKL_OK;
}

void zkl__removal_begin(struct zkl__removal *removal, struct zkl__procedure *by)
{
    removal->by = by;
    removal->step = ZKL__REMOVAL_LOOK;
    removal->sent = false;
    removal->pause = removal->pause_to = 0;
    send(removal);
}

int zkl__removal_advance(struct zkl__removal *removal, zkl_error *err)
{
    int rc = ZKL_OK;
    while (rc == ZKL_OK && removal->step != ZKL__REMOVAL_DONE) {
        rc = advance_step(removal, err);
    }
    if (rc == ZKL_OK && removal->sent && removal->rc == ZKL__RC_NONODE) {
        removal->rc = ZKL__RC_OK;
    }
    return rc;
}

void zkl__removal_end(struct zkl__removal *removal)
{
    if (removal->by) {
        zkl__run_end(&removal->single.run);
        removal->by = NULL;
    }
}
