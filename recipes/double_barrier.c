/* double_barrier.c - members that begin together and end together: Curator's
 * DistributedDoubleBarrier. The children of its path are the member nodes and a persistent znode
 * called "ready". The ready node lets in a member that lists too late to see all members at once.
 *
 * A ready node counts for the members up to the youngest one that its writer saw, whose czxid is
 * its data: a member that comes between the writer's look and its write does not enter with those
 * who have given up meanwhile. Curator's has other data, and counts for the members that are older
 * than its last write. Nobody deletes it while their nodes exist, and members that see all others
 * renew a ready node that does not count for them all. Only members that live with a session count
 * (protocol/op.h). */
#include "handle.h"

#include "name.h"

#include <zklock/barrier.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define READY "ready"

/* A member is granted as soon as its node exists: no rule makes it wait. */
static const struct zkl__rule member = {"lock-", 0};

struct zkl_double_barrier {
    zkl_lock lock; /* first; its znode is our member node */
    size_t count;
    bool entered;                     /* with that node */
    struct zkl__acquisition *leaving; /* of the last member node: it is gone when this has no
                                         machine. With a reference; NULL: it is */
};

static const struct zkl__recipe recipe = {
    .noun = "double barrier",
    .size = sizeof(zkl_double_barrier),
    .rule = &member,
    .internal = true,
};

int zkl_double_barrier_new(zkl_double_barrier **out, zkl_session *session, const char *path,
                           size_t count, zkl_error *err)
{
    ZKL__CLEAR(out);
    if (!out || count == 0) {
        return zkl__fail_at(err, ZKL_EINVAL, path, out ? "count is 0" : "out is NULL");
    }
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.on_expiry = ZKL_ON_EXPIRY_FAIL;
    zkl_lock *lock;
    int rc = zkl__lock_make(&lock, &recipe, session, &path, 1, &options, err);
    if (rc == ZKL_OK) {
        *out = (zkl_double_barrier *)lock;
        (*out)->count = count;
    }
    return rc;
}

/* --- what enter and leave share -------------------------------------------------------------- */

struct passage {
    struct zkl__call call;                /* first */
    bool entered;                         /* the member node stays */
    struct zkl__acquisition *acquisition; /* of the member node; with a reference */
    char own[ZKL__NAME_MAX];              /* our member node */
    char ready_path[ZKL_PATH_MAX + sizeof READY + 1];
    int64_t youngest; /* czxid of the youngest member; a leave waits for no younger one */
    char data[ZKL__ANSWER_ROOM + 3]; /* the same, as the data of the ready node */
    bool renew;                      /* the ready node is too old, and has this version: */
    int32_t version;
};

static bool is_member(const char *name)
{
    return strcmp(name, READY) != 0;
}

/* Lists the members, with a watch. The others among the children may be the ready node. Which
 * members live with a session is read where the name does not say it, and where it matters. */
static int list(struct zkl__call *call)
{
    struct passage *p = (struct passage *)call;
    struct zkl__part *it = &call->part;
    CALL_BEGIN(it);
    AWAIT(it, {.kind = ZKL__OP_CHILDREN, .watch = true});
    CHECK_REPLY(it, "its members may not be listed");
    if (!call->children) {
        FAIL(it, ZKL_ENOMEM, "no memory for the members");
    }
    if (p->youngest == INT64_MAX) {            /* of a leave that begins */
        p->youngest = call->answer.stat.pzxid; /* the last child that came or went */
    }
    CALL_END(it);
}

/* Reads the ready node, with a watch that fires when it is renewed. */
static int read_ready(struct passage *p)
{
    struct zkl__part *it = &p->call.part;
    CALL_BEGIN(it);
    AWAIT(it, {.kind = ZKL__OP_GET, .dir = p->ready_path, .watch = true});
    CHECK_REPLY(it, "the ready node may not be read");
    CALL_END(it);
}

/* Whether the ready node that was read lets in the member of that czxid. */
static bool is_ready_for(const struct zkl__answer *answer, int64_t czxid)
{
    int64_t youngest = zkl__decimal_parse(answer->data, answer->size);
    return (youngest > 0 ? youngest : answer->stat.mzxid) >= czxid;
}

/* --- enter ----------------------------------------------------------------------------------- */

static int membership_lost(struct zkl__call *call)
{
    if (call->session->status.closing || call->ended) {
        return ZKL__PENDING; /* that is the reason */
    }
    FAIL(call, ZKL_ELOST, "our membership was lost while we waited for the others");
}

static void forget_leaving(zkl_double_barrier *barrier)
{
    if (barrier->leaving) {
        zkl__acquisition_let_go(barrier->leaving);
        barrier->leaving = NULL;
    }
}

static int begin_enter(struct zkl__call *call)
{
    struct passage *p = (struct passage *)call;
    if (call->owner->freed) {
        return zkl__fail_freed(call->err, NULL);
    }
    zkl__name_copy(p->own, zkl__lock_status_locked((zkl_lock *)call->owner).node);
    zkl__path_join(p->ready_path, sizeof p->ready_path, call->path, READY);
    return ZKL_OK;
}

static int run_enter(struct zkl__call *call)
{
    struct passage *p = (struct passage *)call;
    const struct zkl__answer *answer = &call->answer;
    zkl_double_barrier *barrier = (zkl_double_barrier *)call->owner;
    zkl_lock *lock = &barrier->lock;
    const size_t count = barrier->count;
    struct zkl__lock_status now = zkl__lock_status_locked(lock);
    CALL_BEGIN(call);
    /* Servers that put a delete off do the next create: we would count twice. */
    AWAIT_UNTIL(call, !barrier->leaving || !barrier->leaving->machine);
    forget_leaving(barrier);
    /* the call itself has a deadline */
    AWAIT_CALL(call,
               zkl__acquisition_begin(&p->acquisition, lock, 1, ZKL_WAIT_FOREVER, NULL, call->err));
    barrier->entered = false;
    AWAIT_UNTIL(call,
                p->acquisition->settled); /* our member node exists, and the lease covers it */
    AWAIT_CALL(call, zkl__acquisition_result(p->acquisition, false, NULL, call->err));
    for (;;) {
        AWAIT_CALL(call, list(call));
        if (now.token == 0) {
            return membership_lost(call);
        }
        if (call->children->count >= count) {
            AWAIT_CHILDREN(call, call->children, NULL, {.kind = ZKL__OP_EXISTS});
            /* Readers and writers have names that no member has. The contenders of a mutex look
             * like members. */
            p->youngest = 0;
            for (size_t i = 0; i < call->children->count; i++) {
                const struct zkl__child *child = &call->children->all[i];
                zkl_kind kind = zkl__name_parse(child->name).kind;
                if (child->verdict != ZKL__CHILD_EPHEMERAL) {
                    continue;
                }
                if (kind != ZKL_KIND_FOREIGN && kind != ZKL_KIND_LOCK) {
                    FAIL(call, ZKL_ECONFLICT, "the path is in use as a lock: %.80s", child->name);
                }
                p->youngest = child->czxid > p->youngest ? child->czxid : p->youngest;
            }
        }
        if (zkl__children_count(call->children, ZKL__CHILD_EPHEMERAL) >= count) {
            p->renew = false;
            if (call->children->others > 0) {
                AWAIT_CALL(call, read_ready(p));
                p->renew = answer->rc == ZKL__RC_OK;
                p->version = answer->stat.version;
                if (p->renew && is_ready_for(answer, p->youngest)) {
                    break;
                }
            }
            /* Only a member may write the ready node. Curator's members take one that is written
             * after all have left for theirs. */
            zkl__name_copy(p->own, now.node);
            snprintf(p->data, sizeof p->data, "%" PRId64, p->youngest);
            if (now.token == 0) {
                return membership_lost(call);
            }
            /* After a lost reply, a second copy changes nothing: the ready node exists or has
             * another version, and nobody deletes it while our member node exists. */
            AWAIT(call, {.kind = ZKL__OP_CHECK, .name = p->own, .version = -1},
                  {.kind = p->renew ? ZKL__OP_SET : ZKL__OP_CREATE,
                   .dir = p->ready_path,
                   .mode = ZKL__PERSISTENT,
                   .data = p->data,
                   .size = strlen(p->data),
                   .version = p->version});
            enum zkl__rc ready = answer->parts[1];
            if (answer->parts[0] == ZKL__RC_NONODE) {
                return membership_lost(call);
            }
            if (ready == ZKL__RC_OK) {
                break;
            }
            if (ready == ZKL__RC_NODEEXISTS || ready == ZKL__RC_BADVERSION ||
                ready == ZKL__RC_NONODE) {
                continue; /* the ready node has changed: list again */
            }
            /* The answer's code is that of the part that was refused, which may be the check of our
             * member node. */
            REFUSED(call, "the ready node cannot be written");
        }
        /* Some members are missing, still or again. The ready node may say that all were there at
         * once. */
        if (call->children->others > 0) {
            AWAIT_CALL(call, read_ready(p));
            if (answer->rc == ZKL__RC_OK && now.token > 0 && is_ready_for(answer, now.token)) {
                break;
            }
        }
        AWAIT_CALL(call, now.token == 0 ? membership_lost(call) : zkl__call_changed(call));
    }
    p->entered = barrier->entered = true;
    CALL_END(call);
}

/* --- leave ----------------------------------------------------------------------------------- */

static int begin_leave(struct zkl__call *call)
{
    const zkl_lock *lock = (const zkl_lock *)call->owner;
    if (!lock->acquisition || !((const zkl_double_barrier *)lock)->entered) {
        return zkl__lock_not_granted(lock, call->err);
    }
    return begin_enter(call);
}

/* Whether another member may be in that was in when we began to leave. Whoever learns earlier than
 * we that all have left may enter again, and then waits for us. */
static bool others_are_in(const struct passage *p)
{
    const struct zkl__children *children = p->call.children;
    for (size_t i = 0; i < children->count; i++) {
        const struct zkl__child *child = &children->all[i];
        if (child->verdict != ZKL__CHILD_PERSISTENT && child->czxid <= p->youngest &&
            strcmp(child->name, p->own) != 0) {
            return true;
        }
    }
    return false;
}

static int run_leave(struct zkl__call *call)
{
    struct passage *p = (struct passage *)call;
    zkl_double_barrier *barrier = (zkl_double_barrier *)call->owner;
    zkl_lock *lock = &barrier->lock;
    CALL_BEGIN(call);
    AWAIT_CALL(call, begin_leave(call)); /* an earlier call may have left since */
    p->acquisition = lock->acquisition;
    p->acquisition->refs++;
    p->youngest = INT64_MAX;
    while (p->own[0]) { /* without a member node, which was lost, nobody waits for us */
        AWAIT_CALL(call, list(call));
        /* The member whose node has the first name leaves last: Curator's members watch that node
         * alone. */
        if (call->children->count < 2 || strcmp(call->children->all[0].name, p->own) != 0) {
            break;
        }
        AWAIT_CHILDREN(call, call->children, NULL, {.kind = ZKL__OP_EXISTS});
        if (!others_are_in(p)) {
            break;
        }
        AWAIT_CHANGE(call);
    }
    if (lock->acquisition != p->acquisition) { /* another call has left meanwhile */
        return zkl__lock_not_granted(lock, call->err);
    }
    barrier->leaving = zkl__acquisition_send_release(lock);
    AWAIT_UNTIL(call, !p->acquisition->machine);
    for (;;) {
        AWAIT_CALL(call, list(call));
        AWAIT_CHILDREN(call, call->children, NULL, {.kind = ZKL__OP_EXISTS});
        if (!others_are_in(p)) {
            break;
        }
        AWAIT_CHANGE(call);
    }
    if (call->children->others > 0) {
        /* The last members delete the ready node, in one transaction with its directory. A
         * directory is deleted only when it is empty (PrepRequestProcessor: NotEmpty), so the
         * transaction fails while a member of the next round exists, however late it arrives. A
         * ready node that stays is older than the members of the next round, and they renew it. */
        AWAIT(call, {.kind = ZKL__OP_DELETE, .name = READY, .version = -1},
              {.kind = ZKL__OP_DELETE, .version = -1});
    }
    CALL_END(call);
}

/* --- the calls ------------------------------------------------------------------------------- */

/* Deletes our member node, unless the call has entered. A call that was refused changes nothing. */
static int end(struct zkl__call *call, int rc)
{
    struct passage *p = (struct passage *)call;
    struct zkl__acquisition *acquisition = p->acquisition;
    zkl_double_barrier *barrier = (zkl_double_barrier *)call->owner;
    zkl_lock *lock = &barrier->lock;
    if (acquisition) {
        bool ours = !p->entered && lock->acquisition == acquisition;
        if (ours && acquisition->settled && !lock->object.freed) {
            barrier->leaving = zkl__acquisition_send_release(lock);
        } else if (ours) {
            zkl__acquisition_withdraw(acquisition);
        }
        zkl__acquisition_unref(acquisition);
    }
    return rc;
}

static int call_go(struct passage *given, zkl_double_barrier *barrier, int64_t timeout_ms,
                   zkl_done_fn done, void *payload, zkl_error *err)
{
    if (!barrier) {
        return zkl__fail_null(err, "barrier");
    }
    const zkl_lock *lock = &barrier->lock;
    given->call.owner = &barrier->lock.object;
    given->call.counts = is_member;
    return zkl__call_go(given, sizeof *given, lock->session, lock->path, timeout_ms, done, payload,
                        err);
}

int zkl_double_barrier_enter_async(zkl_double_barrier *barrier, int64_t timeout_ms,
                                   zkl_done_fn done, void *payload, zkl_error *err)
{
    struct passage given = {.call = {.run = run_enter, .begin = begin_enter, .end = end}};
    return call_go(&given, barrier, timeout_ms, done, payload, err);
}

int zkl_double_barrier_enter(zkl_double_barrier *barrier, int64_t timeout_ms, zkl_error *err)
{
    return zkl_double_barrier_enter_async(barrier, timeout_ms, zkl__caller_waits, NULL, err);
}

int zkl_double_barrier_leave_async(zkl_double_barrier *barrier, int64_t timeout_ms,
                                   zkl_done_fn done, void *payload, zkl_error *err)
{
    struct passage given = {
        .call = {.run = run_leave, .begin = begin_leave, .end = end, .finishes = true}};
    return call_go(&given, barrier, timeout_ms, done, payload, err);
}

int zkl_double_barrier_leave(zkl_double_barrier *barrier, int64_t timeout_ms, zkl_error *err)
{
    return zkl_double_barrier_leave_async(barrier, timeout_ms, zkl__caller_waits, NULL, err);
}

void zkl_double_barrier_free(zkl_double_barrier *barrier)
{
    if (barrier && zkl__session_enter_if_ours(barrier->lock.session)) {
        barrier->lock.object.freed = true; /* what ends now is not remembered */
        forget_leaving(barrier);
        zkl__session_leave(barrier->lock.session);
    }
    zkl_lock_free((zkl_lock *)barrier);
}
