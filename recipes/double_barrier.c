/* double_barrier.c - members that begin together and end together: Curator's
 * DistributedDoubleBarrier. Its children are the members, and a persistent one, the sign, lets in
 * those who look too late to see all members at once.
 *
 * A sign is for members that are older than its last write: nobody takes it down while they stand,
 * and those who see all members at once renew one that is older. Only members that live with a
 * session count (protocol/own.h). */
#include "lock_internal.h"

#include "judgement.h"
#include "steps.h"
#include "vigil.h"

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

/* --- a call ---------------------------------------------------------------------------------- */

enum state {
    /* enter: */
    ACQUIRE = 1,  /* until our znode is there, and the lease */
    ALL_IN,       /* a list, with a watch: are all there? */
    JUDGE_IN,     /* which of them live with a session; only where the names leave it open */
    SIGN_OF_ALL,  /* all are there: is there a sign that says so? */
    WRITE,        /* no: it is put up */
    SIGN_OF_SOME, /* not all are there: does a sign let us in? */
    WAIT_IN,
    /* leave: */
    MAY_GO, /* a list, with a watch: is it our turn to go? */
    JUDGE_GO,
    WAIT_GO,
    RELEASE,
    ALL_OUT, /* a list, with a watch: have all gone? */
    JUDGE_OUT,
    WAIT_OUT,
    CLEAR
};

struct call {
    struct zkl__steps steps;                   /* first */
    zkl_lock *place;                           /* with a reference */
    size_t count;                              /* members that are awaited */
    bool in;                                   /* entered: the place stays */
    struct zkl__acquisition *acquisition;      /* what it enters or leaves with; with a reference */
    bool releases;                             /* and the place's reference, too */
    char own[ZKL__NAME_MAX];                   /* of a leave: our znode */
    char sign[ZKL_PATH_MAX + sizeof SIGN + 1]; /* its path */
    struct zkl__vigil vigil;
    struct zkl__judgement judgement;
    struct zkl__children *members; /* of the last list */
    bool ready;                    /* the sign was in it */
    bool renew;                    /* a sign stands that is too old, of this version: */
    int32_t version;
};

static struct call *call_of(struct zkl__steps *steps)
{
    return (struct call *)steps;
}

/* --- the children ---------------------------------------------------------------------------- */

static bool is_member(const char *name)
{
    return strcmp(name, SIGN) != 0;
}

static bool lists(const struct zkl__steps *steps)
{
    return steps->at == ALL_IN || steps->at == MAY_GO || steps->at == ALL_OUT;
}

static void take_list(struct zkl__steps *steps, const struct zkl__reply *reply)
{
    struct call *call = call_of(steps);
    const zkl_heap *heap = zkl__session_heap(call->place->session);
    if (lists(steps) && (reply->rc == ZKL__RC_OK || reply->rc == ZKL__RC_NONODE)) {
        bool listed = zkl__children_renew(heap, &call->members, reply, is_member);
        call->ready = listed && call->members->count < reply->child_count;
    }
}

static int begin_list(struct zkl__steps *steps, zkl_error *err)
{
    struct call *call = call_of(steps);
    int rc = zkl__vigil_watch(&call->vigil, 0, err);
    return rc == ZKL_OK ? zkl__steps_send(steps, &(struct zkl__op){.kind = ZKL__OP_CHILDREN,
                                                                   .dir = call->place->path,
                                                                   .watch = true})
                        : rc;
}

static int check_list(struct zkl__steps *steps, zkl_error *err)
{
    const struct call *call = call_of(steps);
    if (steps->answer.rc != ZKL__RC_OK && steps->answer.rc != ZKL__RC_NONODE) {
        return zkl__steps_refused(steps, call->place->path, "its members may not be listed", err);
    }
    return call->members
               ? ZKL_OK
               : zkl__fail(err, ZKL_ENOMEM, 0, call->place->path, "no memory for the members");
}

static int begin_judgement(struct zkl__steps *steps, zkl_error *err)
{
    struct call *call = call_of(steps);
    zkl__judgement_end(&call->judgement);
    return zkl__judgement_begin(&call->judgement, &steps->procedure, call->place->path,
                                call->members, err);
}

static int await_judgement(struct zkl__steps *steps, zkl_error *err)
{
    return zkl__judgement_advance(&call_of(steps)->judgement, err);
}

static int await_change(struct zkl__steps *steps, zkl_error *err)
{
    return zkl__vigil_advance(&call_of(steps)->vigil, err);
}

/* --- the sign -------------------------------------------------------------------------------- */

/* With a watch, which tells when it is renewed. */
static int begin_sign(struct zkl__steps *steps, zkl_error *err)
{
    struct call *call = call_of(steps);
    int rc = zkl__vigil_watch(&call->vigil, 1, err);
    return rc == ZKL_OK ? zkl__steps_send(steps, &(struct zkl__op){.kind = ZKL__OP_EXISTS,
                                                                   .dir = call->place->path,
                                                                   .name = SIGN,
                                                                   .watch = true})
                        : rc;
}

static int check_sign(struct zkl__steps *steps, zkl_error *err)
{
    return steps->answer.rc == ZKL__RC_OK || steps->answer.rc == ZKL__RC_NONODE
               ? ZKL_OK
               : zkl__steps_refused(steps, call_of(steps)->sign, "the sign may not be read", err);
}

/* zxid of the youngest member. */
static int64_t last_of(const struct call *call)
{
    int64_t last = 0;
    for (size_t i = 0; i < call->members->count; i++) {
        const struct zkl__child *child = &call->members->all[i];
        last = child->verdict == ZKL__CHILD_LIVES && child->czxid > last ? child->czxid : last;
    }
    return last;
}

static int lost(const struct call *call, zkl_error *err)
{
    if (call->place->freed) {
        return zkl__fail(err, ZKL_ECANCELED, 0, call->place->path, "the object is being freed");
    }
    if (zkl__session_status(call->place->session)->closing) {
        return zkl__fail(err, ZKL_ECLOSED, 0, call->place->path,
                         "the session was closed meanwhile");
    }
    return zkl__fail(err, ZKL_ELOST, 0, call->place->path,
                     "our place was lost while we waited for the others");
}

/* Only while we are in: the sign of one who lost its place, put up when all have gone, would let in
 * the next one alone. A second copy, sent for a lost answer, does nothing: the sign is there, or
 * has another version, for as long as we are in nobody takes it down. */
static int begin_write(struct zkl__steps *steps, zkl_error *err)
{
    struct call *call = call_of(steps);
    const zkl_lock *place = call->place;
    struct zkl__standing now = zkl__lock_look(place);
    if (now.token == 0) {
        return lost(call, err);
    }
    zkl__name_copy(call->own, now.node);
    const struct zkl__op check = {
        .kind = ZKL__OP_CHECK, .dir = place->path, .name = call->own, .version = -1};
    const struct zkl__op write = {.kind = call->renew ? ZKL__OP_SET : ZKL__OP_CREATE,
                                  .dir = place->path,
                                  .name = SIGN,
                                  .mode = ZKL__PERSISTENT,
                                  .version = call->renew ? call->version : -1};
    return zkl__steps_send_both(steps, &check, &write);
}

/* In, when there is a sign that says so; else the world has changed, and is to be looked at again.
 */
static int after_write(struct zkl__steps *steps, zkl_error *err)
{
    struct call *call = call_of(steps);
    enum zkl__rc check = steps->answer.parts[0], sign = steps->answer.parts[1];
    if (check == ZKL__RC_NONODE) {
        return lost(call, err);
    }
    call->in = sign == ZKL__RC_OK || (!call->renew && sign == ZKL__RC_NODEEXISTS);
    bool again = sign == ZKL__RC_ROLLEDBACK ||
                 (call->renew && (sign == ZKL__RC_BADVERSION || sign == ZKL__RC_NONODE));
    if (call->in || again) {
        return call->in ? ZKL_OK : ALL_IN;
    }
    return zkl__fail(err, zkl__rc_code(sign), 0, call->sign, "the sign cannot be put up: %s",
                     zkl__rc_name(sign));
}

/* All are there. */
static int after_sign_of_all(struct zkl__steps *steps, zkl_error *err)
{
    struct call *call = call_of(steps);
    int rc = check_sign(steps, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    call->renew = steps->answer.rc == ZKL__RC_OK;
    call->version = steps->answer.stat.version;
    call->in = call->renew && steps->answer.stat.mzxid > last_of(call);
    return call->in ? ZKL_OK : WRITE;
}

/* Not all are there any more, or not yet: a sign that is younger than our place says that they
 * were. */
static int after_sign_of_some(struct zkl__steps *steps, zkl_error *err)
{
    struct call *call = call_of(steps);
    int rc = check_sign(steps, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    struct zkl__standing now = zkl__lock_look(call->place);
    call->in =
        steps->answer.rc == ZKL__RC_OK && now.token > 0 && steps->answer.stat.mzxid > now.token;
    return call->in ? ZKL_OK : WAIT_IN;
}

/* --- enter ----------------------------------------------------------------------------------- */

static int begin_acquire(struct zkl__steps *steps, zkl_error *err)
{
    struct call *call = call_of(steps);
    int rc = zkl__acquisition_begin(&call->acquisition, call->place, 1, err);
    if (rc != ZKL_OK) {
        call->acquisition = NULL;
        return rc;
    }
    zkl__acquisition_start(call->acquisition, ZKL_WAIT_FOREVER); /* the call has a deadline */
    return ZKL_OK;
}

static int await_acquire(struct zkl__steps *steps, zkl_error *err)
{
    (void)err;
    return call_of(steps)->acquisition->settled ? ZKL_OK : ZKL__PENDING;
}

static int after_acquire(struct zkl__steps *steps, zkl_error *err)
{
    int rc = zkl__acquisition_conclude(call_of(steps)->acquisition, false, NULL, err);
    return rc == ZKL_OK ? ALL_IN : rc;
}

/* Readers and writers have names that no member has. A mutex's contenders look as members do. */
static int check_use(const struct call *call, zkl_error *err)
{
    for (size_t i = 0; i < call->members->count; i++) {
        const struct zkl__child *child = &call->members->all[i];
        zkl_kind kind = zkl__name_parse(child->name).kind;
        if (child->verdict == ZKL__CHILD_LIVES && kind != ZKL_KIND_FOREIGN &&
            kind != ZKL_KIND_LOCK) {
            return zkl__fail(err, ZKL_ECONFLICT, 0, call->place->path,
                             "the path is in use as a lock: %.80s", child->name);
        }
    }
    return ZKL_OK;
}

static int some_are_in(const struct call *call)
{
    return call->ready ? SIGN_OF_SOME : WAIT_IN;
}

static int after_all_in(struct zkl__steps *steps, zkl_error *err)
{
    struct call *call = call_of(steps);
    int rc = check_list(steps, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    if (!zkl__state_holds(zkl__lock_look(call->place).state)) {
        return lost(call, err);
    }
    return call->members->count >= call->count ? JUDGE_IN : some_are_in(call);
}

static int after_judge_in(struct zkl__steps *steps, zkl_error *err)
{
    struct call *call = call_of(steps);
    int rc = check_use(call, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    call->renew = false;
    if (zkl__children_living(call->members) >= call->count) {
        return call->ready ? SIGN_OF_ALL : WRITE;
    }
    return some_are_in(call);
}

/* --- leave ----------------------------------------------------------------------------------- */

/* Whose znode is the first by its name goes last: Curator's members, once out, watch that one
 * alone. */
static int after_may_go(struct zkl__steps *steps, zkl_error *err)
{
    const struct call *call = call_of(steps);
    int rc = check_list(steps, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    bool in = zkl__children_find(call->members, call->own) != NULL;
    bool first = in && strcmp(call->members->all[0].name, call->own) == 0;
    return !first || call->members->count == 1 ? RELEASE : JUDGE_GO;
}

static int after_judge_go(struct zkl__steps *steps, zkl_error *err)
{
    (void)err;
    return zkl__children_standing(call_of(steps)->members) == 1 ? RELEASE : WAIT_GO;
}

/* Lost or not: we are out. */
static int begin_release(struct zkl__steps *steps, zkl_error *err)
{
    struct call *call = call_of(steps);
    if (call->place->acquisition != call->acquisition) {
        return zkl__lock_not_granted(call->place, err); /* another call has left meanwhile */
    }
    call->releases = zkl__acquisition_send_release(call->place) != NULL;
    return ZKL_OK;
}

static int await_release(struct zkl__steps *steps, zkl_error *err)
{
    const struct call *call = call_of(steps);
    (void)err;
    return !call->releases || call->acquisition->released ? ZKL_OK : ZKL__PENDING;
}

static int all_are_out(const struct call *call)
{
    return call->ready ? CLEAR : ZKL_OK;
}

static int after_all_out(struct zkl__steps *steps, zkl_error *err)
{
    const struct call *call = call_of(steps);
    int rc = check_list(steps, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    return call->members->count == 0 ? all_are_out(call) : JUDGE_OUT;
}

static int after_judge_out(struct zkl__steps *steps, zkl_error *err)
{
    const struct call *call = call_of(steps);
    (void)err;
    return zkl__children_standing(call->members) == 0 ? all_are_out(call) : WAIT_OUT;
}

/* The last ones take the sign down, for the next time, and the directory with it, for a directory
 * is deleted only when it is empty (PrepRequestProcessor: NotEmpty): while a member of the next
 * time stands, its sign stays, however late this arrives. What is left in any case is older than
 * the members of the next time, and is renewed by them. */
static int begin_clear(struct zkl__steps *steps, zkl_error *err)
{
    const char *path = call_of(steps)->place->path;
    const struct zkl__op sign = {.kind = ZKL__OP_DELETE, .dir = path, .name = SIGN, .version = -1};
    const struct zkl__op directory = {.kind = ZKL__OP_DELETE, .dir = path, .version = -1};
    (void)err;
    return zkl__steps_send_both(steps, &sign, &directory);
}

/* --- the calls ------------------------------------------------------------------------------- */

static const struct zkl__step table[] = {
    [ACQUIRE] = {begin_acquire, await_acquire, after_acquire, 1 << ALL_IN},
    [ALL_IN] = {begin_list, NULL, after_all_in, 1 << JUDGE_IN | 1 << SIGN_OF_SOME | 1 << WAIT_IN},
    [JUDGE_IN] = {begin_judgement, await_judgement, after_judge_in,
                  1 << SIGN_OF_ALL | 1 << WRITE | 1 << SIGN_OF_SOME | 1 << WAIT_IN},
    [SIGN_OF_ALL] = {begin_sign, NULL, after_sign_of_all, 1 << WRITE},
    [WRITE] = {begin_write, NULL, after_write, 1 << ALL_IN},
    [SIGN_OF_SOME] = {begin_sign, NULL, after_sign_of_some, 1 << WAIT_IN},
    [WAIT_IN] = {NULL, await_change, NULL, 1 << ALL_IN},
    [MAY_GO] = {begin_list, NULL, after_may_go, 1 << RELEASE | 1 << JUDGE_GO},
    [JUDGE_GO] = {begin_judgement, await_judgement, after_judge_go, 1 << RELEASE | 1 << WAIT_GO},
    [WAIT_GO] = {NULL, await_change, NULL, 1 << MAY_GO},
    [RELEASE] = {begin_release, await_release, NULL, 1 << ALL_OUT},
    [ALL_OUT] = {begin_list, NULL, after_all_out, 1 << CLEAR | 1 << JUDGE_OUT},
    [JUDGE_OUT] = {begin_judgement, await_judgement, after_judge_out, 1 << CLEAR | 1 << WAIT_OUT},
    [WAIT_OUT] = {NULL, await_change, NULL, 1 << ALL_OUT},
    [CLEAR] = {begin_clear, NULL, NULL, 0},
};

/* Whoever did not come in, or was to leave, is out: the znode is being deleted. A call that is
 * refused has changed nothing. */
static void let_place_go(struct call *call)
{
    struct zkl__acquisition *acquisition = call->acquisition;
    bool begun = call->steps.procedure.blocking || call->steps.procedure.done;
    bool ours = call->place->acquisition == acquisition && !call->in && begun;
    if (!acquisition) {
        return;
    }
    if (ours && acquisition->settled) {
        zkl__acquisition_drop(call->place);
    } else if (ours) {
        zkl__acquisition_cancel(acquisition, ZKL_ECANCELED);
    }
    if (call->releases) {
        zkl__acquisition_let_go(acquisition);
    }
    zkl__acquisition_unref(acquisition);
}

static void end(struct zkl__procedure *procedure)
{
    struct call *call = (struct call *)procedure;
    zkl__steps_end(&call->steps);
    zkl__vigil_end(&call->vigil);
    zkl__judgement_end(&call->judgement);
    zkl__free(zkl__session_heap(procedure->session), call->members);
    let_place_go(call);
    zkl__lock_unref(call->place);
}

/* Inside. */
static int begin(zkl_double_barrier *barrier, enum state first, int64_t timeout_ms,
                 const struct zkl__later *later, zkl_error *err)
{
    static const struct zkl__procedure_ops ops = {.advance = zkl__steps_advance, .end = end};
    zkl_lock *place = &barrier->place;
    struct call *call =
        zkl__procedure_make(place->session, sizeof *call, &ops, place->path, timeout_ms, err);
    if (!call) {
        return ZKL_ENOMEM;
    }
    call->steps.table = table;
    call->steps.first = first;
    call->steps.look = take_list;
    call->steps.procedure.owner = &place->object;
    call->steps.procedure.finishes = first != ACQUIRE;
    zkl__lock_ref(place);
    call->place = place;
    call->count = barrier->count;
    if (first != ACQUIRE) {
        call->acquisition = place->acquisition;
        call->acquisition->refs++;
    }
    zkl__name_copy(call->own, zkl__lock_look(place).node);
    zkl__path_join(call->sign, sizeof call->sign, place->path, SIGN);
    zkl__vigil_begin(&call->vigil, &call->steps.procedure, place->path, call->sign);
    return zkl__procedure_go(&call->steps.procedure, later, err);
}

static int enter(zkl_double_barrier *barrier, int64_t timeout_ms, const struct zkl__later *later,
                 zkl_error *err)
{
    if (!barrier) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "barrier is NULL");
    }
    zkl_session *session = barrier->place.session;
    int rc = zkl__lock_enter(&barrier->place, timeout_ms, err);
    if (rc == ZKL_OK) {
        rc = begin(barrier, ACQUIRE, timeout_ms, later, err);
        zkl__session_leave(session);
    }
    return rc;
}

static int leave(zkl_double_barrier *barrier, int64_t timeout_ms, const struct zkl__later *later,
                 zkl_error *err)
{
    if (!barrier) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "barrier is NULL");
    }
    zkl_lock *place = &barrier->place;
    zkl_session *session = place->session;
    int rc = zkl__lock_enter(&barrier->place, timeout_ms, err);
    if (rc == ZKL_OK) {
        bool entered = place->acquisition && place->acquisition->granted;
        rc = entered ? ZKL_OK : zkl__lock_not_granted(place, err);
        /* lost, and its znode with it: there is nothing to wait for before we are out */
        enum state first = zkl__lock_look(place).node[0] ? MAY_GO : RELEASE;
        rc = rc == ZKL_OK ? begin(barrier, first, timeout_ms, later, err) : rc;
        zkl__session_leave(session);
    }
    return rc;
}

int zkl_double_barrier_enter(zkl_double_barrier *barrier, int64_t timeout_ms, zkl_error *err)
{
    return enter(barrier, timeout_ms, NULL, err);
}

int zkl_double_barrier_enter_async(zkl_double_barrier *barrier, int64_t timeout_ms,
                                   zkl_done_fn done, void *payload, zkl_error *err)
{
    return enter(barrier, timeout_ms, &(struct zkl__later){done, payload}, err);
}

int zkl_double_barrier_leave(zkl_double_barrier *barrier, int64_t timeout_ms, zkl_error *err)
{
    return leave(barrier, timeout_ms, NULL, err);
}

int zkl_double_barrier_leave_async(zkl_double_barrier *barrier, int64_t timeout_ms,
                                   zkl_done_fn done, void *payload, zkl_error *err)
{
    return leave(barrier, timeout_ms, &(struct zkl__later){done, payload}, err);
}

void zkl_double_barrier_free(zkl_double_barrier *barrier)
{
    zkl_lock_free((zkl_lock *)barrier);
}
