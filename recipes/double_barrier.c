/* double_barrier.c - members that begin together and end together: Curator's
 * DistributedDoubleBarrier. Its children are the members, and a persistent one, the sign, lets in
 * those who look too late to see all members at once.
 *
 * A sign is for members that are older than its last write: nobody takes it down while they stand,
 * and those who see all members at once renew one that is older. Only members that live with a
 * session count (protocol/own.h). */
#include "lock.h"

#include "call.h"

#include "error.h"
#include "heap.h"
#include "name.h"
#include "path.h"

#include <zklock/barrier.h>

#include <string.h>

#define SIGN "ready"

/* Waits for nobody: a member is there as soon as its node is. */
static const struct zkl__rule member = {"lock-", 0};

struct zkl_double_barrier {
    zkl_lock place; /* first: our membership */
    size_t count;
};

static const struct zkl__recipe recipe = {
    .object = {.noun = "double barrier",
               .give_up = zkl__lock_give_up,
               .describe = zkl__lock_describe},
    .size = sizeof(zkl_double_barrier),
    .rule = &member,
    .internal = true,
};

int zkl_double_barrier_new(zkl_double_barrier **out, zkl_session *session, const char *path,
                           size_t count, zkl_error *err)
{
    ZKL__CLEAR(out);
    if (!out || count == 0) {
        return zkl__fail(err, ZKL_EINVAL, 0, path, out ? "count is 0" : "out is NULL");
    }
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.on_expiry = ZKL_ON_EXPIRY_FAIL;
    zkl_lock *place;
    int rc = zkl__lock_make(&place, &recipe, session, &path, 1, &options, err);
    if (rc == ZKL_OK) {
        *out = (zkl_double_barrier *)place;
        (*out)->count = count;
    }
    return rc;
}

/* --- in, or out ------------------------------------------------------------------------------ */

struct passage {
    struct zkl__call call;                     /* first */
    zkl_lock *place;                           /* with a reference */
    size_t count;                              /* members that are awaited */
    bool in;                                   /* entered: the place stays */
    struct zkl__acquisition *acquisition;      /* what it enters or leaves with; with a reference */
    bool releases;                             /* and the place's reference, too */
    char own[ZKL__NAME_MAX];                   /* our znode */
    char sign[ZKL_PATH_MAX + sizeof SIGN + 1]; /* its path */
    struct zkl__part listing, checking, reading;
    struct zkl__children *members; /* of the last list */
    bool ready;                    /* the sign was in it */
    bool renew;                    /* a sign stands that is too old, of this version: */
    int32_t version;
};

static bool is_member(const char *name)
{
    return strcmp(name, SIGN) != 0;
}

static void take_list(struct zkl__call *call, const struct zkl__reply *reply)
{
    struct passage *p = (struct passage *)call;
    const zkl_heap *heap = zkl__session_heap(p->place->session);
    if (reply->rc == ZKL__RC_OK || reply->rc == ZKL__RC_NONODE) {
        bool listed = zkl__children_renew(heap, &p->members, reply, is_member);
        p->ready = listed && p->members->count < reply->child_count;
    }
}

/* The members, with a watch. */
static int list(struct passage *p)
{
    struct zkl__call *call = &p->call;
    const char *path = p->place->path;
    p->listing.call = call;
    CALL_BEGIN(&p->listing);
    AWAIT_REPLY(&p->listing, take_list, {.kind = ZKL__OP_CHILDREN, .dir = path, .watch = true});
    if (call->answer.rc != ZKL__RC_OK && call->answer.rc != ZKL__RC_NONODE) {
        RETURN(&p->listing, zkl__call_refused(call, path, "its members may not be listed"));
    }
    if (!p->members) {
        RETURN(&p->listing, zkl__fail(call->err, ZKL_ENOMEM, 0, path, "no memory for the members"));
    }
    CALL_END(&p->listing);
}

/* Which of them live with a session; only where the names leave it open. */
static int check_live(struct passage *p)
{
    p->checking.call = &p->call;
    CALL_BEGIN(&p->checking);
    AWAIT_CHILDREN(&p->checking, p->members, zkl__judge_child,
                   {.kind = ZKL__OP_EXISTS, .dir = p->place->path});
    CALL_END(&p->checking);
}

/* The sign, with a watch, which tells when it is renewed. */
static int read_sign(struct passage *p)
{
    struct zkl__call *call = &p->call;
    p->reading.call = call;
    CALL_BEGIN(&p->reading);
    AWAIT(&p->reading, {.kind = ZKL__OP_EXISTS, .dir = p->sign, .watch = true});
    if (call->answer.rc != ZKL__RC_OK && call->answer.rc != ZKL__RC_NONODE) {
        RETURN(&p->reading, zkl__call_refused(call, p->sign, "the sign may not be read"));
    }
    CALL_END(&p->reading);
}

/* --- enter ----------------------------------------------------------------------------------- */

static int lost(const struct passage *p)
{
    const zkl_lock *place = p->place;
    zkl_error *err = p->call.err;
    if (place->freed) {
        return zkl__fail(err, ZKL_ECANCELED, 0, place->path, "the object is being freed");
    }
    if (zkl__session_status(place->session)->closing) {
        return zkl__fail(err, ZKL_ECLOSED, 0, place->path, "the session was closed meanwhile");
    }
    return zkl__fail(err, ZKL_ELOST, 0, place->path,
                     "our place was lost while we waited for the others");
}

static int begin_acquire(struct passage *p)
{
    int rc = zkl__acquisition_begin(&p->acquisition, p->place, 1, p->call.err);
    if (rc != ZKL_OK) {
        p->acquisition = NULL;
        return rc;
    }
    zkl__acquisition_start(p->acquisition, ZKL_WAIT_FOREVER); /* the call has a deadline */
    return ZKL_OK;
}

/* Readers and writers have names that no member has. A mutex's contenders look as members do. */
static int check_use(const struct passage *p)
{
    for (size_t i = 0; i < p->members->count; i++) {
        const struct zkl__child *child = &p->members->all[i];
        zkl_kind kind = zkl__name_parse(child->name).kind;
        if (child->verdict == ZKL__CHILD_LIVES && kind != ZKL_KIND_FOREIGN &&
            kind != ZKL_KIND_LOCK) {
            return zkl__fail(p->call.err, ZKL_ECONFLICT, 0, p->place->path,
                             "the path is in use as a lock: %.80s", child->name);
        }
    }
    return ZKL_OK;
}

/* zxid of the youngest member. */
static int64_t last_of(const struct passage *p)
{
    int64_t last = 0;
    for (size_t i = 0; i < p->members->count; i++) {
        const struct zkl__child *child = &p->members->all[i];
        last = child->verdict == ZKL__CHILD_LIVES && child->czxid > last ? child->czxid : last;
    }
    return last;
}

/* Who may put up the sign: the sign of one who lost its place, put up when all have gone, would let
 * in the next one alone. */
static bool has_place(struct passage *p)
{
    struct zkl__standing now = zkl__lock_look(p->place);
    zkl__name_copy(p->own, now.node);
    return now.token != 0;
}

static int run_enter(struct zkl__call *call)
{
    struct passage *p = (struct passage *)call;
    const char *path = p->place->path;
    CALL_BEGIN(call);
    AWAIT_CALL(call, begin_acquire(p));
    AWAIT_UNTIL(call, p->acquisition->settled); /* our znode is there, and the lease */
    AWAIT_CALL(call, zkl__acquisition_conclude(p->acquisition, false, NULL, call->err));
    for (;;) {
        AWAIT_CALL(call, list(p));
        if (!zkl__state_holds(zkl__lock_look(p->place).state)) {
            RETURN(call, lost(p));
        }
        if (p->members->count >= p->count) {
            AWAIT_CALL(call, check_live(p));
            AWAIT_CALL(call, check_use(p));
        }
        if (p->members->count >= p->count && zkl__children_living(p->members) >= p->count) {
            p->renew = false;
            if (p->ready) {
                AWAIT_CALL(call, read_sign(p));
                p->renew = call->answer.rc == ZKL__RC_OK;
                p->version = call->answer.stat.version;
                p->in = p->renew && call->answer.stat.mzxid > last_of(p);
                if (p->in) {
                    RETURN(call, ZKL_OK);
                }
            }
            if (!has_place(p)) {
                RETURN(call, lost(p));
            }
            /* A second copy, sent for a lost answer, does nothing: the sign is there, or has
             * another version, for as long as we are in nobody takes it down. */
            AWAIT(call, {.kind = ZKL__OP_CHECK, .dir = path, .name = p->own, .version = -1},
                  {.kind = p->renew ? ZKL__OP_SET : ZKL__OP_CREATE,
                   .dir = path,
                   .name = SIGN,
                   .mode = ZKL__PERSISTENT,
                   .version = p->renew ? p->version : -1});
            enum zkl__rc sign = call->answer.parts[1];
            if (call->answer.parts[0] == ZKL__RC_NONODE) {
                RETURN(call, lost(p));
            }
            p->in = sign == ZKL__RC_OK || (!p->renew && sign == ZKL__RC_NODEEXISTS);
            if (p->in) {
                RETURN(call, ZKL_OK);
            }
            if (sign == ZKL__RC_ROLLEDBACK ||
                (p->renew && (sign == ZKL__RC_BADVERSION || sign == ZKL__RC_NONODE))) {
                continue; /* the world has changed, and is to be looked at again */
            }
            RETURN(call, zkl__fail(call->err, zkl__rc_code(sign), 0, p->sign,
                                   "the sign cannot be put up: %s", zkl__rc_name(sign)));
        }
        /* Not all are there any more, or not yet: a sign that is younger than our place says that
         * they were. */
        if (p->ready) {
            AWAIT_CALL(call, read_sign(p));
            int64_t token = zkl__lock_look(p->place).token;
            p->in = call->answer.rc == ZKL__RC_OK && token > 0 && call->answer.stat.mzxid > token;
            if (p->in) {
                RETURN(call, ZKL_OK);
            }
        }
        AWAIT_CHANGE(call);
    }
    CALL_END(call);
}

/* --- leave ----------------------------------------------------------------------------------- */

/* Whose znode is the first by its name goes last: Curator's members, once out, watch that one
 * alone. */
static bool goes_last(const struct passage *p)
{
    bool in = zkl__children_find(p->members, p->own) != NULL;
    return in && strcmp(p->members->all[0].name, p->own) == 0 && p->members->count > 1;
}

/* Lost or not: we are out. */
static int begin_release(struct passage *p)
{
    if (p->place->acquisition != p->acquisition) {
        return zkl__lock_not_granted(p->place, p->call.err); /* another call has left meanwhile */
    }
    p->releases = zkl__acquisition_send_release(p->place) != NULL;
    return ZKL_OK;
}

static int run_leave(struct zkl__call *call)
{
    struct passage *p = (struct passage *)call;
    const char *path = p->place->path;
    CALL_BEGIN(call);
    while (p->own[0]) { /* else it is lost, and its znode with it: we may go */
        AWAIT_CALL(call, list(p));
        if (!goes_last(p)) {
            break;
        }
        AWAIT_CALL(call, check_live(p));
        if (zkl__children_standing(p->members) == 1) {
            break;
        }
        AWAIT_CHANGE(call);
    }
    AWAIT_CALL(call, begin_release(p));
    AWAIT_UNTIL(call, !p->releases || p->acquisition->released);
    for (;;) {
        AWAIT_CALL(call, list(p));
        if (p->members->count == 0) {
            break;
        }
        AWAIT_CALL(call, check_live(p));
        if (zkl__children_standing(p->members) == 0) {
            break;
        }
        AWAIT_CHANGE(call);
    }
    if (p->ready) {
        /* The last ones take the sign down, for the next time, and the directory with it, for a
         * directory is deleted only when it is empty (PrepRequestProcessor: NotEmpty): while a
         * member of the next time stands, its sign stays, however late this arrives. What is left
         * in any case is older than the members of the next time, and is renewed by them. */
        AWAIT(call, {.kind = ZKL__OP_DELETE, .dir = path, .name = SIGN, .version = -1},
              {.kind = ZKL__OP_DELETE, .dir = path, .version = -1});
    }
    CALL_END(call);
}

/* --- the calls ------------------------------------------------------------------------------- */

/* Whoever did not come in, or was to leave, is out: the znode is being deleted. A call that is
 * refused has changed nothing. */
static void let_place_go(struct passage *p)
{
    struct zkl__acquisition *acquisition = p->acquisition;
    bool begun = p->call.blocking || p->call.done;
    bool ours = p->place->acquisition == acquisition && !p->in && begun;
    if (!acquisition) {
        return;
    }
    if (ours && acquisition->settled) {
        zkl__acquisition_drop(p->place);
    } else if (ours) {
        zkl__acquisition_cancel(acquisition, ZKL_ECANCELED);
    }
    if (p->releases) {
        zkl__acquisition_let_go(acquisition);
    }
    zkl__acquisition_unref(acquisition);
}

static void end(struct zkl__call *call)
{
    struct passage *p = (struct passage *)call;
    zkl__free(zkl__session_heap(call->session), p->members);
    let_place_go(p);
    zkl__lock_unref(p->place);
}

static int begin_enter(struct zkl__call *call, zkl_error *err)
{
    struct passage *p = (struct passage *)call;
    (void)err;
    zkl__lock_ref(p->place);
    call->owner = &p->place->object;
    zkl__name_copy(p->own, zkl__lock_look(p->place).node);
    zkl__path_join(p->sign, sizeof p->sign, p->place->path, SIGN);
    return ZKL_OK;
}

static int begin_leave(struct zkl__call *call, zkl_error *err)
{
    struct passage *p = (struct passage *)call;
    if (!p->place->acquisition || !p->place->acquisition->granted) {
        return zkl__lock_not_granted(p->place, err);
    }
    p->acquisition = p->place->acquisition;
    p->acquisition->refs++;
    return begin_enter(call, err);
}

static int go(const struct zkl__call_kind *kind, zkl_double_barrier *barrier, int64_t timeout_ms,
              const struct zkl__later *later, zkl_error *err)
{
    if (!barrier) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "barrier is NULL");
    }
    zkl_lock *place = &barrier->place;
    const struct passage given = {.place = place, .count = barrier->count};
    return zkl__call_go(kind, &given, place->session, place->path, timeout_ms, later, err);
}

static const struct zkl__call_kind entering = {
    sizeof(struct passage), run_enter, NULL, begin_enter, end, false};
static const struct zkl__call_kind leaving = {
    sizeof(struct passage), run_leave, NULL, begin_leave, end, true};

int zkl_double_barrier_enter(zkl_double_barrier *barrier, int64_t timeout_ms, zkl_error *err)
{
    return go(&entering, barrier, timeout_ms, NULL, err);
}

int zkl_double_barrier_enter_async(zkl_double_barrier *barrier, int64_t timeout_ms,
                                   zkl_done_fn done, void *payload, zkl_error *err)
{
    return go(&entering, barrier, timeout_ms, &(struct zkl__later){done, payload}, err);
}

int zkl_double_barrier_leave(zkl_double_barrier *barrier, int64_t timeout_ms, zkl_error *err)
{
    return go(&leaving, barrier, timeout_ms, NULL, err);
}

int zkl_double_barrier_leave_async(zkl_double_barrier *barrier, int64_t timeout_ms,
                                   zkl_done_fn done, void *payload, zkl_error *err)
{
    return go(&leaving, barrier, timeout_ms, &(struct zkl__later){done, payload}, err);
}

void zkl_double_barrier_free(zkl_double_barrier *barrier)
{
    zkl_lock_free((zkl_lock *)barrier);
}
