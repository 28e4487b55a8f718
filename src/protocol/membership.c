#include "core_internal.h"

#include <stdio.h>
#include <string.h>

/* --- states ---------------------------------------------------------------------------------- */

#define N(node) (1u << (ZKL__MEMBER_##node))

/* Where it may go from here; to NONE from everywhere, when the session is over. */
static const uint32_t next_nodes[ZKL__MEMBER_NODES] = {
    [ZKL__MEMBER_NONE] = N(NONE) | N(ASKED),
    [ZKL__MEMBER_ASKED] = N(NONE) | N(STANDS) | N(UNSURE),
    [ZKL__MEMBER_STANDS] = N(NONE) | N(STANDS) | N(DELETING) | N(UNSURE),
    [ZKL__MEMBER_DELETING] = N(NONE) | N(UNSURE),
    [ZKL__MEMBER_UNSURE] = N(NONE) | N(STANDS) | N(UNSURE) | N(SYNCED),
    [ZKL__MEMBER_SYNCED] = N(NONE) | N(STANDS) | N(UNSURE),
};

static void move(struct zkl__membership *m, enum zkl__member_node node)
{
    ZKL__ENSURE(next_nodes[m->node] & (1u << node));
    m->node = node;
}

/* A settled membership has a node. A create and a delete are never under way together. Only a
 * membership that leaves deletes. */
static void check_sound(const struct zkl__membership *m)
{
    ZKL__ENSURE(!m->wanted || m->step != ZKL__MEMBER_SETTLED || m->node == ZKL__MEMBER_STANDS ||
                m->node == ZKL__MEMBER_DELETING);
    ZKL__ENSURE((m->node == ZKL__MEMBER_DELETING) == (m->doing == ZKL__MEMBER_REMOVING));
    ZKL__ENSURE(m->node != ZKL__MEMBER_ASKED || m->doing == ZKL__MEMBER_CREATING);
    ZKL__ENSURE(m->wanted || !m->joined);
}

/* --- what its user wants --------------------------------------------------------------------- */

void zkl__membership_join(struct zkl__membership *m)
{
    m->code = ZKL_OK;
    m->step = ZKL__MEMBER_CREATE;
    m->wanted = true;
    check_sound(m);
}

/* Names are all that a delete knows: what changed may be another's by now. What was passed before
 * says nothing of creates sent since. */
static void doubt(struct zkl__membership *m)
{
    if (m->node == ZKL__MEMBER_SYNCED || (m->node == ZKL__MEMBER_STANDS && m->changed)) {
        move(m, ZKL__MEMBER_UNSURE);
    }
}

void zkl__membership_leave(struct zkl__membership *m)
{
    m->wanted = m->joined = false;
    doubt(m);
    check_sound(m);
}

void zkl__membership_update(struct zkl__membership *m, const char *data)
{
    m->data = data;
    m->stale = true;
}

/* --- what is sent ---------------------------------------------------------------------------- */

static bool send(struct zkl__membership *m, enum zkl__member_doing doing, struct zkl__op *out,
                 struct zkl__op op)
{
    m->doing = doing;
    *out = op;
    out->dir = op.dir ? op.dir : m->path;
    out->version = op.kind == ZKL__OP_CHECK ? -1 : m->version;
    return true;
}

static bool next(struct zkl__watcher *watcher, struct zkl__op *op, int *look)
{
    struct zkl__membership *m = (struct zkl__membership *)watcher;
    (void)look;
    m->doing = ZKL__MEMBER_IDLE;
    /* No answer: done or not, and if it was, the name is free for anybody. */
    if (m->node == ZKL__MEMBER_ASKED || m->node == ZKL__MEMBER_DELETING) {
        move(m, ZKL__MEMBER_UNSURE);
    }
    check_sound(m);
    if (!m->wanted) {
        zkl__watcher_unwatch(watcher);
        switch (m->node) {
        case ZKL__MEMBER_STANDS:
            move(m, ZKL__MEMBER_DELETING);
            return send(m, ZKL__MEMBER_REMOVING, op,
                        (struct zkl__op){.kind = ZKL__OP_DELETE, .name = m->id});
        case ZKL__MEMBER_UNSURE:
            return send(m, ZKL__MEMBER_SYNC_POINT, op, (struct zkl__op){.kind = ZKL__OP_CHECK});
        case ZKL__MEMBER_SYNCED:
            return send(m, ZKL__MEMBER_LAST_LOOK, op,
                        (struct zkl__op){.kind = ZKL__OP_EXISTS, .name = m->id});
        default:
            return false;
        }
    }
    bool looks = m->step == ZKL__MEMBER_LOOK;
    switch (m->step) {
    case ZKL__MEMBER_CREATE:
        if (zkl__member_stands(m)) { /* of a leave that was not answered yet */
            looks = true;
            break;
        }
        if (zkl__membership_has_rival(m, true)) {
            return false;
        }
        move(m, m->node == ZKL__MEMBER_NONE ? ZKL__MEMBER_ASKED : ZKL__MEMBER_UNSURE);
        return send(m, ZKL__MEMBER_CREATING, op,
                    (struct zkl__op){.kind = ZKL__OP_CREATE,
                                     .name = m->id,
                                     .data = m->data,
                                     .size = strlen(m->data),
                                     .mode = ZKL__EPHEMERAL,
                                     .acl = m->acl});
    case ZKL__MEMBER_MAKE:
        return send(m, ZKL__MEMBER_MAKING, op,
                    (struct zkl__op){.kind = ZKL__OP_CREATE,
                                     .dir = m->make_path,
                                     .mode = ZKL__CONTAINER,
                                     .acl = m->acl});
    case ZKL__MEMBER_SETTLED:
        if (m->stale) {
            m->step = ZKL__MEMBER_LOOK; /* whatever comes of it */
            return send(
                m, ZKL__MEMBER_WRITING, op,
                (struct zkl__op){
                    .kind = ZKL__OP_SET, .name = m->id, .data = m->data, .size = strlen(m->data)});
        }
        break;
    default:
        break;
    }
    return looks && send(m, ZKL__MEMBER_LOOKING, op,
                         (struct zkl__op){.kind = ZKL__OP_GET, .name = m->id, .watch = true});
}

/* --- what the answers mean ------------------------------------------------------------------- */

static void refuse(struct zkl__membership *m, int code, int zk_code, const char *why)
{
    m->code = code;
    m->zk_code = zk_code;
    m->why = why;
    if (m->wanted) { /* who leaves goes on */
        zkl__watcher_retry(&m->watcher);
    }
    m->note(m->watcher.owner);
}

static void refuse_by_reply(struct zkl__membership *m, const struct zkl__reply *reply)
{
    refuse(m, zkl__rc_code(reply->rc), reply->zk_code, zkl__rc_why(reply->rc));
}

static void on_create(struct zkl__membership *m, const struct zkl__reply *reply)
{
    if (reply->rc == ZKL__RC_OK) {
        move(m, ZKL__MEMBER_STANDS);
        m->version = 0;
        m->stale = m->changed = false;
        m->joined = m->joined || m->wanted;
        m->step = ZKL__MEMBER_LOOK;
        m->note(m->watcher.owner);
        return;
    }
    if (m->node == ZKL__MEMBER_ASKED || reply->rc == ZKL__RC_NONODE) {
        move(m, ZKL__MEMBER_NONE); /* no directory: nothing of ours in it either */
    }
    switch (reply->rc) {
    case ZKL__RC_NODEEXISTS:
        m->step = ZKL__MEMBER_LOOK;
        break;
    case ZKL__RC_NONODE:
        memcpy(m->make_path, m->path, strlen(m->path) + 1);
        m->step = ZKL__MEMBER_MAKE;
        break;
    case ZKL__RC_EPHEMERALPARENT:
        refuse(m, ZKL_ECONFLICT, reply->zk_code,
               "a part of the path is an ephemeral znode, which has no children");
        break;
    default:
        refuse_by_reply(m, reply);
    }
}

static void on_look(struct zkl__membership *m, const struct zkl__reply *reply, bool ours)
{
    bool stands = reply->rc == ZKL__RC_OK;
    if (!stands && reply->rc != ZKL__RC_NONODE) {
        refuse_by_reply(m, reply);
        return;
    }
    m->changed = false;
    if (ours && m->node != ZKL__MEMBER_NONE) {
        move(m, ZKL__MEMBER_STANDS);
        m->version = reply->stat.version;
        size_t size = strlen(m->data); /* data may be NULL where there is none */
        m->stale = reply->size != size || (size > 0 && memcmp(reply->data, m->data, size) != 0);
        m->step = ZKL__MEMBER_SETTLED;
        m->joined = m->joined || m->wanted;
    } else {
        if (m->node == ZKL__MEMBER_STANDS) {
            move(m, ZKL__MEMBER_NONE);
        }
        if (stands && !zkl__is_ephemeral(&reply->stat)) {
            refuse(m, ZKL_ECONFLICT, 0, "a znode of that name is there, and lives with no session");
            return;
        }
        m->step = stands ? ZKL__MEMBER_WAIT : ZKL__MEMBER_CREATE;
    }
    m->note(m->watcher.owner);
}

static void answered(struct zkl__watcher *watcher, const struct zkl__reply *reply)
{
    struct zkl__membership *m = (struct zkl__membership *)watcher;
    enum zkl__member_doing doing = m->doing;
    bool done = reply->rc == ZKL__RC_OK, missing = reply->rc == ZKL__RC_NONODE;
    bool differs = reply->rc == ZKL__RC_BADVERSION;
    bool ours = done && zkl__is_own(&reply->stat, watcher->core->session_id);
    m->doing = ZKL__MEMBER_IDLE;
    switch (doing) {
    case ZKL__MEMBER_CREATING:
        on_create(m, reply);
        break;
    case ZKL__MEMBER_MAKING:
        if (missing && !zkl__path_shorten(m->make_path)) {
            refuse(m, ZKL_ENOENT, reply->zk_code,
                   "the chroot of the connect string does not exist");
        } else if (!missing && !done && reply->rc != ZKL__RC_NODEEXISTS) {
            refuse_by_reply(m, reply);
        } else if (!missing && !zkl__path_lengthen(m->make_path, m->path)) {
            m->step = ZKL__MEMBER_CREATE;
        }
        break;
    case ZKL__MEMBER_LOOKING:
        on_look(m, reply, ours);
        break;
    case ZKL__MEMBER_WRITING:
        if (!done && !missing && !differs) { /* changed by others: looked at next */
            refuse_by_reply(m, reply);
        }
        break;
    case ZKL__MEMBER_SYNC_POINT:
        move(m, ZKL__MEMBER_SYNCED);
        break;
    case ZKL__MEMBER_LAST_LOOK:
        /* Behind the barrier: what is not there now will not come. */
        if (done || missing) {
            move(m, ours ? ZKL__MEMBER_STANDS : ZKL__MEMBER_NONE);
            m->version = reply->stat.version;
            m->note(watcher->owner);
        } else {
            zkl__watcher_retry(watcher);
        }
        break;
    case ZKL__MEMBER_REMOVING:
        /* What has our name now may be somebody else's, and names are all that a delete knows.
         * ZooKeeper has no check of an owner, so when the version differs: a committed write,
         * behind which no earlier delete of ours comes any more (a server answers reads behind what
         * it has committed for the same session); then a look at whose it is. */
        if (done || missing) {
            move(m, ZKL__MEMBER_NONE);
            m->note(watcher->owner);
            break;
        }
        move(m, ZKL__MEMBER_UNSURE); /* written, or another one, or so when it is sent again */
        if (!differs) { /* refused, never forgotten: until it is gone, or the session is */
            zkl__watcher_retry(watcher);
        }
        break;
    default:
        break;
    }
    check_sound(m);
}

/* --- what is noticed ------------------------------------------------------------------------- */

/* When the session is over, its znodes are deleted, and nothing that it sent comes any more. */
static void changed(struct zkl__watcher *watcher, bool session_over)
{
    struct zkl__membership *m = (struct zkl__membership *)watcher;
    if (session_over) {
        m->node = ZKL__MEMBER_NONE;
        m->doing = ZKL__MEMBER_IDLE;
    }
    m->step = session_over ? ZKL__MEMBER_CREATE : ZKL__MEMBER_LOOK;
    m->changed = !session_over;
    if (!m->wanted) {
        doubt(m);
    }
    check_sound(m);
    m->note(watcher->owner);
}

bool zkl__membership_has_rival(const struct zkl__membership *m, bool leaving)
{
    ZKL__EACH (const struct zkl__membership, other, &m->queue->members, peer) {
        bool is_one = leaving ? !other->wanted && other->node != ZKL__MEMBER_NONE : other->wanted;
        if (is_one && other != m) {
            return true;
        }
    }
    return false;
}

static void rests(struct zkl__watcher *watcher)
{
    struct zkl__membership *m = (struct zkl__membership *)watcher;
    if (!m->wanted) {
        ZKL__EACH (struct zkl__membership, other, &m->queue->members, peer) {
            if (other->wanted) {
                zkl__watcher_wake(&other->watcher);
            }
        }
    }
    m->rests(watcher->owner);
}

const struct zkl__watcher_ops zkl__membership_ops = {
    .next = next, .answered = answered, .changed = changed, .rests = rests};

bool zkl__membership_begin(struct zkl__membership *m, struct zkl__core *core, void *owner)
{
    char path[ZKL_PATH_MAX + ZKL__NAME_MAX + 2];
    snprintf(path, sizeof path, "%s/%s", m->path, m->id);
    m->queue = zkl__peers_enroll(&core->queues, path, &m->peer);
    if (m->queue) {
        zkl__watcher_begin(&m->watcher, core, &zkl__membership_ops, owner);
    }
    return m->queue;
}

void zkl__membership_end(struct zkl__membership *m)
{
    struct zkl__core *core = m->watcher.core;
    if (core) {
        zkl__watcher_end(&m->watcher);
        zkl__peers_resign(&core->queues, m->queue, &m->peer);
        m->queue = NULL;
    }
}
