/* barrier.c - a barrier: a znode that many wait to see gone. */
#include "directories.h"
#include "judgement.h"
#include "remove.h"
#include "steps.h"
#include "vigil.h"

#include "error.h"
#include "heap.h"
#include "name.h"
#include "path.h"

#include <zklock/barrier.h>

enum state {
    ABOVE = 1, /* set: what is above it is made */
    CREATE,
    LOOK,   /* it is up already: is it a barrier? */
    SYNC,   /* wait: a follower may lag */
    GET,    /* with a watch */
    LIST,   /* it has children: are they contenders of a queue? */
    JUDGE,  /* those that live with no session are nobody's */
    CHANGE, /* wait: until the watch fires */
    REMOVE  /* lift */
};

struct barrier {
    struct zkl__steps steps; /* first */
    bool waits;
    struct zkl__directories above;
    struct zkl__removal removal;
    struct zkl__vigil vigil;
    struct zkl__judgement judgement;
    struct zkl__children *contenders;
};

static const char *path_of(const struct zkl__steps *steps)
{
    return steps->procedure.path;
}

/* --- is the path somebody's queue? ----------------------------------------------------------- */

static void take_contenders(struct zkl__steps *steps, const struct zkl__reply *reply)
{
    struct barrier *barrier = (struct barrier *)steps;
    const zkl_heap *heap = zkl__session_heap(steps->procedure.session);
    if (steps->at == LIST && reply->rc == ZKL__RC_OK) {
        (void)zkl__children_renew(heap, &barrier->contenders, reply, zkl__name_contends);
    }
}

static int begin_list(struct zkl__steps *steps, zkl_error *err)
{
    (void)err;
    return zkl__steps_send(steps,
                           &(struct zkl__op){.kind = ZKL__OP_CHILDREN, .dir = path_of(steps)});
}

/* Nobody queues there. */
static int after_children(const struct zkl__steps *steps)
{
    return ((const struct barrier *)steps)->waits ? CHANGE : ZKL_OK;
}

/* Without a list, because the servers refused it or memory ran out, the path is assumed to be a
 * barrier: a wait then goes on, and a set reports success. */
static int after_list(struct zkl__steps *steps, zkl_error *err)
{
    (void)err;
    return ((struct barrier *)steps)->contenders ? JUDGE : after_children(steps);
}

static int begin_judgement(struct zkl__steps *steps, zkl_error *err)
{
    struct barrier *barrier = (struct barrier *)steps;
    zkl__judgement_end(&barrier->judgement);
    return zkl__judgement_begin(&barrier->judgement, &steps->procedure, path_of(steps),
                                barrier->contenders, err);
}

static int await_judgement(struct zkl__steps *steps, zkl_error *err)
{
    return zkl__judgement_advance(&((struct barrier *)steps)->judgement, err);
}

static int check_use(struct zkl__steps *steps, zkl_error *err)
{
    const struct barrier *barrier = (const struct barrier *)steps;
    for (size_t i = 0; i < barrier->contenders->count; i++) {
        const struct zkl__child *child = &barrier->contenders->all[i];
        if (child->verdict == ZKL__CHILD_LIVES && child->czxid != 0) {
            return zkl__fail(err, ZKL_ECONFLICT, 0, path_of(steps),
                             "the path is in use as a lock or an election: %.80s", child->name);
        }
    }
    return after_children(steps);
}

/* --- up -------------------------------------------------------------------------------------- */

/* A child would keep a barrier up for as long as it stands: a znode that has one is not deleted. So
 * nobody may create one. With credentials, or a list of the session's own, those say who may. */
static const zkl_acl *acl_of(const zkl_session *session)
{
    static const zkl_acl_entry childless[] = {{ZKL_PERM_READ, "world", "anyone"}};
    static const zkl_acl acl = {1, childless};
    const zkl_session_options *options = &zkl__session_settings(session)->options;
    return options->acl || options->auth_scheme ? NULL : &acl;
}

static int begin_above(struct zkl__steps *steps, zkl_error *err)
{
    (void)err;
    zkl__directories_begin(&((struct barrier *)steps)->above, &steps->procedure, path_of(steps));
    return ZKL_OK;
}

static int await_above(struct zkl__steps *steps, zkl_error *err)
{
    return zkl__directories_advance(&((struct barrier *)steps)->above, err);
}

static int begin_create(struct zkl__steps *steps, zkl_error *err)
{
    (void)err;
    return zkl__steps_send(steps, &(struct zkl__op){.kind = ZKL__OP_CREATE,
                                                    .dir = path_of(steps),
                                                    .mode = ZKL__PERSISTENT,
                                                    .acl = acl_of(steps->procedure.session)});
}

static int after_create(struct zkl__steps *steps, zkl_error *err)
{
    if (steps->answer.rc == ZKL__RC_NODEEXISTS) {
        return LOOK;
    }
    return steps->answer.rc == ZKL__RC_OK
               ? ZKL_OK
               : zkl__steps_refused(steps, path_of(steps), "create", err);
}

static int begin_look(struct zkl__steps *steps, zkl_error *err)
{
    (void)err;
    return zkl__steps_send(steps, &(struct zkl__op){.kind = ZKL__OP_EXISTS, .dir = path_of(steps)});
}

/* Only a barrier that has children is looked at closely: it has none. */
static int after_look(struct zkl__steps *steps, zkl_error *err)
{
    (void)err;
    bool children = steps->answer.rc == ZKL__RC_OK && steps->answer.stat.child_count > 0;
    return children ? LIST : ZKL_OK;
}

/* --- down ------------------------------------------------------------------------------------ */

/* Exactly: a barrier that somebody puts up again while we wait for an answer stays. */
static int begin_removal(struct zkl__steps *steps, zkl_error *err)
{
    struct barrier *barrier = (struct barrier *)steps;
    (void)err;
    barrier->removal = (struct zkl__removal){.dir = path_of(steps)};
    zkl__removal_begin(&barrier->removal, &steps->procedure);
    return ZKL_OK;
}

static int await_removal(struct zkl__steps *steps, zkl_error *err)
{
    return zkl__removal_advance(&((struct barrier *)steps)->removal, err);
}

static int after_removal(struct zkl__steps *steps, zkl_error *err)
{
    const struct zkl__removal *removal = &((struct barrier *)steps)->removal;
    if (removal->rc == ZKL__RC_OK || removal->rc == ZKL__RC_NONODE) {
        return ZKL_OK;
    }
    return zkl__fail(err, zkl__rc_code(removal->rc), removal->zk_code, path_of(steps),
                     "the barrier may not be lifted: %s", zkl__rc_name(removal->rc));
}

/* --- until it is down ------------------------------------------------------------------------ */

/* A follower may lag: what it shows first may be older than the barrier. Later looks follow an
 * event of this very path. */
static int begin_sync(struct zkl__steps *steps, zkl_error *err)
{
    struct barrier *barrier = (struct barrier *)steps;
    (void)err;
    zkl__vigil_begin(&barrier->vigil, &steps->procedure, path_of(steps), NULL);
    return zkl__steps_send(steps, &(struct zkl__op){.kind = ZKL__OP_SYNC, .dir = path_of(steps)});
}

/* get, not exists: a watch on a node that is not there would stay behind */
static int begin_get(struct zkl__steps *steps, zkl_error *err)
{
    int rc = zkl__vigil_watch(&((struct barrier *)steps)->vigil, 0, err);
    return rc == ZKL_OK ? zkl__steps_send(steps, &(struct zkl__op){.kind = ZKL__OP_GET,
                                                                   .dir = path_of(steps),
                                                                   .watch = true})
                        : rc;
}

static int after_get(struct zkl__steps *steps, zkl_error *err)
{
    if (steps->answer.rc == ZKL__RC_NONODE) {
        return ZKL_OK;
    }
    if (steps->answer.rc != ZKL__RC_OK) {
        return zkl__steps_refused(steps, path_of(steps), "the barrier cannot be read", err);
    }
    return steps->answer.stat.child_count > 0 ? LIST : CHANGE;
}

static int await_change(struct zkl__steps *steps, zkl_error *err)
{
    return zkl__vigil_advance(&((struct barrier *)steps)->vigil, err);
}

/* --- the calls ------------------------------------------------------------------------------- */

static const struct zkl__step table[] = {
    [ABOVE] = {begin_above, await_above, NULL, 1 << CREATE},
    [CREATE] = {begin_create, NULL, after_create, 1 << LOOK},
    [LOOK] = {begin_look, NULL, after_look, 1 << LIST},
    [SYNC] = {begin_sync, NULL, NULL, 1 << GET},
    [GET] = {begin_get, NULL, after_get, 1 << LIST | 1 << CHANGE},
    [LIST] = {begin_list, NULL, after_list, 1 << JUDGE | 1 << CHANGE},
    [JUDGE] = {begin_judgement, await_judgement, check_use, 1 << CHANGE},
    [CHANGE] = {NULL, await_change, NULL, 1 << GET},
    [REMOVE] = {begin_removal, await_removal, after_removal, 0},
};

static void end(struct zkl__procedure *procedure)
{
    struct barrier *barrier = (struct barrier *)procedure;
    zkl__steps_end(&barrier->steps);
    zkl__directories_end(&barrier->above);
    zkl__removal_end(&barrier->removal);
    zkl__vigil_end(&barrier->vigil);
    zkl__judgement_end(&barrier->judgement);
    zkl__free(zkl__session_heap(procedure->session), barrier->contenders);
}

static int call(zkl_session *session, enum state first, const char *path, int64_t timeout_ms,
                const struct zkl__later *later, zkl_error *err)
{
    static const struct zkl__procedure_ops ops = {.advance = zkl__steps_advance, .end = end};
    int rc = zkl__session_enter_at(session, path, timeout_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    struct barrier *barrier =
        zkl__procedure_make(session, sizeof *barrier, &ops, path, timeout_ms, err);
    rc = ZKL_ENOMEM;
    if (barrier) {
        barrier->waits = first == SYNC;
        barrier->steps.table = table;
        barrier->steps.first = first;
        barrier->steps.look = take_contenders;
        barrier->steps.procedure.finishes = first == REMOVE;
        rc = zkl__procedure_go(&barrier->steps.procedure, later, err);
    }
    zkl__session_leave(session);
    return rc;
}

int zkl_barrier_set(zkl_session *session, const char *path, int64_t timeout_ms, zkl_error *err)
{
    return call(session, ABOVE, path, timeout_ms, NULL, err);
}

int zkl_barrier_set_async(zkl_session *session, const char *path, int64_t timeout_ms,
                          zkl_done_fn done, void *payload, zkl_error *err)
{
    return call(session, ABOVE, path, timeout_ms, &(struct zkl__later){done, payload}, err);
}

int zkl_barrier_lift(zkl_session *session, const char *path, int64_t timeout_ms, zkl_error *err)
{
    return call(session, REMOVE, path, timeout_ms, NULL, err);
}

int zkl_barrier_lift_async(zkl_session *session, const char *path, int64_t timeout_ms,
                           zkl_done_fn done, void *payload, zkl_error *err)
{
    return call(session, REMOVE, path, timeout_ms, &(struct zkl__later){done, payload}, err);
}

int zkl_barrier_wait(zkl_session *session, const char *path, int64_t timeout_ms, zkl_error *err)
{
    return call(session, SYNC, path, timeout_ms, NULL, err);
}

int zkl_barrier_wait_async(zkl_session *session, const char *path, int64_t timeout_ms,
                           zkl_done_fn done, void *payload, zkl_error *err)
{
    return call(session, SYNC, path, timeout_ms, &(struct zkl__later){done, payload}, err);
}
