/* double_barrier.c - members that begin together and end together: Curator's
 * DistributedDoubleBarrier. Its children are the members, and a persistent one, the sign, lets in
 * those who look too late to see all members at once.
 *
 * A sign is for members that are older than its last write: nobody takes it down while they stand,
 * and those who see all members at once renew one that is older. Only members that live with a
 * session count (core/own.h). */
#include "lock.h"

#include "await.h"
#include "children.h"
#include "error.h"
#include "heap.h"
#include "name.h"
#include "path.h"

#include <zklock/barrier.h>

#include <string.h>

#define SIGN "ready"
#define RELEASE_MS 1000 /* at most, of the timeout of a call */

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
    options.release_timeout_ms = RELEASE_MS;
    zkl_lock *place;
    int rc = zkl__lock_make(&place, &recipe, session, &path, 1, &options, err);
    if (rc == ZKL_OK) {
        *out = (zkl_double_barrier *)place;
        (*out)->count = count;
    }
    return rc;
}

/* --- the children ---------------------------------------------------------------------------- */

/* One call's view of them. Everything here inside enter/leave. */
struct crowd {
    zkl_lock *place;
    size_t count; /* members that are awaited */
    int64_t deadline;
    struct zkl__vigil vigil;
    char sign[ZKL_PATH_MAX + sizeof SIGN + 1]; /* its path */
    struct zkl__children *members;             /* of the last list */
    bool ready;                                /* the sign was in it */
    enum zkl__rc rc;
    int zk_code;
};

static int begin(struct crowd *crowd, zkl_double_barrier *barrier, int64_t deadline, zkl_error *err)
{
    zkl_lock *place = &barrier->place;
    *crowd = (struct crowd){.place = place, .count = barrier->count, .deadline = deadline};
    zkl__path_join(crowd->sign, sizeof crowd->sign, place->path, SIGN);
    return zkl__vigil_begin(&crowd->vigil, place->session, place->path, crowd->sign, err);
}

static void end(struct crowd *crowd)
{
    zkl__vigil_end(&crowd->vigil);
    zkl__free(zkl__session_heap(crowd->place->session), crowd->members);
}

static bool is_member(const char *name)
{
    return strcmp(name, SIGN) != 0;
}

static void take_list(void *arg, const struct zkl__reply *reply)
{
    static const struct zkl__reply nobody = {.rc = ZKL__RC_OK};
    struct crowd *crowd = arg;
    const zkl_heap *heap = zkl__session_heap(crowd->place->session);
    struct zkl__children *old = crowd->members;
    crowd->rc = reply->rc;
    crowd->zk_code = reply->zk_code;
    if (reply->rc != ZKL__RC_OK && reply->rc != ZKL__RC_NONODE) {
        return;
    }
    const struct zkl__reply *list = reply->rc == ZKL__RC_OK ? reply : &nobody;
    crowd->members = zkl__children_copy(heap, list, old, is_member);
    zkl__free(heap, old);
    crowd->ready = crowd->members && crowd->members->count < list->child_count;
}

/* With a watch. */
static int list_members(struct crowd *crowd, zkl_error *err)
{
    const struct zkl__op list = {.kind = ZKL__OP_CHILDREN, .dir = crowd->place->path};
    int rc = zkl__vigil_read(&crowd->vigil, 0, &list, crowd->deadline, take_list, crowd, err);
    if (rc == ZKL_OK && crowd->rc != ZKL__RC_OK && crowd->rc != ZKL__RC_NONODE) {
        return zkl__fail(err, zkl__rc_code(crowd->rc), crowd->zk_code, crowd->place->path,
                         "its members may not be listed: %s", zkl__rc_name(crowd->rc));
    }
    return rc == ZKL_OK && !crowd->members
               ? zkl__fail(err, ZKL_ENOMEM, 0, crowd->place->path, "no memory for the members")
               : rc;
}

/* Asked for only where the names alone leave it open. */
static int judge(struct crowd *crowd, zkl_error *err)
{
    return zkl__session_judge(crowd->place->session, crowd->place->path, crowd->members,
                              crowd->deadline, err);
}

/* --- the sign -------------------------------------------------------------------------------- */

struct sign {
    enum zkl__rc rc;
    int zk_code;
    struct zkl__stat stat;
};

static void look_at_sign(void *arg, const struct zkl__reply *reply)
{
    *(struct sign *)arg = (struct sign){reply->rc, reply->zk_code, reply->stat};
}

/* With a watch, which tells when it is renewed. */
static int read_sign(struct crowd *crowd, struct sign *sign, zkl_error *err)
{
    const struct zkl__op op = {.kind = ZKL__OP_EXISTS, .dir = crowd->place->path, .name = SIGN};
    int rc = zkl__vigil_read(&crowd->vigil, 1, &op, crowd->deadline, look_at_sign, sign, err);
    if (rc == ZKL_OK && sign->rc != ZKL__RC_OK && sign->rc != ZKL__RC_NONODE) {
        return zkl__fail(err, zkl__rc_code(sign->rc), sign->zk_code, crowd->sign,
                         "the sign may not be read: %s", zkl__rc_name(sign->rc));
    }
    return rc;
}

/* zxid of the youngest member. */
static int64_t last_of(const struct crowd *crowd)
{
    int64_t last = 0;
    for (size_t i = 0; i < crowd->members->count; i++) {
        const struct zkl__child *child = &crowd->members->all[i];
        last = child->verdict == ZKL__CHILD_LIVES && child->czxid > last ? child->czxid : last;
    }
    return last;
}

static int lost(const struct crowd *crowd, zkl_error *err)
{
    if (zkl__session_status(crowd->place->session)->closing) {
        return zkl__fail(err, ZKL_ECLOSED, 0, crowd->place->path,
                         "the session was closed meanwhile");
    }
    return zkl__fail(err, ZKL_ELOST, 0, crowd->place->path,
                     "our place was lost while we waited for the others");
}

struct written {
    enum zkl__rc check, sign;
};

static void look_at_parts(void *arg, const struct zkl__reply *reply)
{
    struct written *written = arg;
    bool parts = reply->part_count == 2;
    *written = (struct written){parts ? reply->parts[0].rc : reply->rc,
                                parts ? reply->parts[1].rc : reply->rc};
}

/* Only while we are in: the sign of one who lost its place, put up when all have gone, would let in
 * the next one alone. A second copy, sent for a lost answer, does nothing: the sign is there, or
 * has another version, for as long as we are in nobody takes it down. */
static int write_sign(struct crowd *crowd, const struct sign *old, struct written *written,
                      zkl_error *err)
{
    const zkl_lock *place = crowd->place;
    struct zkl__standing now = zkl__lock_look(place);
    const struct zkl__op parts[] = {
        {.kind = ZKL__OP_CHECK, .dir = place->path, .name = now.node, .version = -1},
        {.kind = old ? ZKL__OP_SET : ZKL__OP_CREATE,
         .dir = place->path,
         .name = SIGN,
         .mode = ZKL__PERSISTENT,
         .version = old ? old->stat.version : -1},
    };
    const struct zkl__op op = {.kind = ZKL__OP_MULTI, .parts = parts, .part_count = 2};
    if (now.token == 0) {
        return lost(crowd, err);
    }
    int rc = zkl__session_insist(place->session, &op, crowd->deadline, look_at_parts, written, err);
    return rc == ZKL_OK && written->check == ZKL__RC_NONODE ? lost(crowd, err) : rc;
}

/* All are there. *done: and there is a sign that says so; else the world has changed, and is to be
 * looked at again. */
static int put_sign(struct crowd *crowd, bool *done, zkl_error *err)
{
    struct sign sign = {.rc = ZKL__RC_NONODE};
    struct written written;
    int rc = crowd->ready ? read_sign(crowd, &sign, err) : ZKL_OK;
    bool old = sign.rc == ZKL__RC_OK;
    *done = rc == ZKL_OK && old && sign.stat.mzxid > last_of(crowd);
    if (rc != ZKL_OK || *done) {
        return rc;
    }
    rc = write_sign(crowd, old ? &sign : NULL, &written, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    *done = written.sign == ZKL__RC_OK || (!old && written.sign == ZKL__RC_NODEEXISTS);
    bool again = written.sign == ZKL__RC_ROLLEDBACK ||
                 (old && (written.sign == ZKL__RC_BADVERSION || written.sign == ZKL__RC_NONODE));
    return *done || again ? ZKL_OK
                          : zkl__fail(err, zkl__rc_code(written.sign), 0, crowd->sign,
                                      "the sign cannot be put up: %s", zkl__rc_name(written.sign));
}

/* --- enter ----------------------------------------------------------------------------------- */

/* Readers and writers have names that no member has. A mutex's contenders look as members do. */
static int check_use(const struct crowd *crowd, zkl_error *err)
{
    for (size_t i = 0; i < crowd->members->count; i++) {
        const struct zkl__child *child = &crowd->members->all[i];
        zkl_kind kind = zkl__name_parse(child->name).kind;
        if (child->verdict == ZKL__CHILD_LIVES && kind != ZKL_KIND_FOREIGN &&
            kind != ZKL_KIND_LOCK) {
            return zkl__fail(err, ZKL_ECONFLICT, 0, crowd->place->path,
                             "the path is in use as a lock: %.80s", child->name);
        }
    }
    return ZKL_OK;
}

/* One look. *in: we are; *again: look once more without waiting. */
static int look_around(struct crowd *crowd, bool *in, bool *again, zkl_error *err)
{
    size_t members = 0;
    struct sign sign;
    int rc = list_members(crowd, err);
    struct zkl__standing now = zkl__lock_look(crowd->place);
    *in = *again = false;
    if (rc == ZKL_OK && !zkl__state_holds(now.state)) {
        return lost(crowd, err);
    }
    if (rc == ZKL_OK && crowd->members->count >= crowd->count) {
        rc = judge(crowd, err);
        rc = rc == ZKL_OK ? check_use(crowd, err) : rc;
        members = zkl__children_living(crowd->members);
    }
    if (rc != ZKL_OK) {
        return rc;
    }
    if (members >= crowd->count) {
        rc = put_sign(crowd, in, err);
        *again = !*in;
    } else if (crowd->ready) {
        rc = read_sign(crowd, &sign, err);
        *in = rc == ZKL_OK && sign.rc == ZKL__RC_OK && now.token > 0 && sign.stat.mzxid > now.token;
    }
    return rc;
}

static int wait_for_all(zkl_double_barrier *barrier, int64_t deadline, zkl_error *err)
{
    zkl_session *session = barrier->place.session;
    struct crowd crowd;
    bool in = false, again = false;
    int rc = zkl__session_enter(session, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    rc = begin(&crowd, barrier, deadline, err);
    if (rc == ZKL_OK) {
        do {
            rc = look_around(&crowd, &in, &again, err);
            rc = rc == ZKL_OK && !in && !again ? zkl__vigil_wait(&crowd.vigil, deadline, err) : rc;
        } while (rc == ZKL_OK && !in);
        end(&crowd);
    }
    zkl__session_leave(session);
    return rc;
}

static int enter_and_wait(zkl_double_barrier *barrier, int64_t timeout_ms, zkl_error *err)
{
    int64_t deadline = zkl__deadline(zkl__session_now(barrier->place.session), timeout_ms);
    int rc = zkl_lock_acquire(&barrier->place, timeout_ms == 0 ? 1 : timeout_ms, NULL, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    rc = wait_for_all(barrier, deadline, err);
    if (rc != ZKL_OK) {
        zkl__lock_release_by(&barrier->place, deadline, NULL);
    }
    return rc;
}

int zkl_double_barrier_enter(zkl_double_barrier *barrier, int64_t timeout_ms, zkl_error *err)
{
    if (!barrier) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "barrier is NULL");
    }
    int rc = zkl__lock_keep(&barrier->place, err);
    if (rc == ZKL_OK) {
        rc = enter_and_wait(barrier, timeout_ms, err);
        zkl__lock_let_go(&barrier->place);
    }
    return rc;
}

/* --- leave ----------------------------------------------------------------------------------- */

/* Whose znode is the first by its name goes last: Curator's members, once out, watch that one
 * alone. */
static int may_go(struct crowd *crowd, const char *own, bool *enough, zkl_error *err)
{
    int rc = list_members(crowd, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    bool in = zkl__children_find(crowd->members, own) != NULL;
    bool first = in && strcmp(crowd->members->all[0].name, own) == 0;
    *enough = !first || crowd->members->count == 1;
    if (!*enough) {
        rc = judge(crowd, err);
        *enough = rc == ZKL_OK && zkl__children_standing(crowd->members) == 1;
    }
    return rc;
}

static int all_out(struct crowd *crowd, bool *enough, zkl_error *err)
{
    int rc = list_members(crowd, err);
    *enough = rc == ZKL_OK && crowd->members->count == 0;
    if (rc == ZKL_OK && !*enough) {
        rc = judge(crowd, err);
        *enough = rc == ZKL_OK && zkl__children_standing(crowd->members) == 0;
    }
    return rc;
}

static int wait_for_turn(struct crowd *crowd, const char *own, zkl_error *err)
{
    bool enough = false;
    int rc = may_go(crowd, own, &enough, err);
    while (rc == ZKL_OK && !enough) {
        rc = zkl__vigil_wait(&crowd->vigil, crowd->deadline, err);
        rc = rc == ZKL_OK ? may_go(crowd, own, &enough, err) : rc;
    }
    return rc;
}

static int wait_for_end(struct crowd *crowd, zkl_error *err)
{
    bool enough = false;
    int rc = all_out(crowd, &enough, err);
    while (rc == ZKL_OK && !enough) {
        rc = zkl__vigil_wait(&crowd->vigil, crowd->deadline, err);
        rc = rc == ZKL_OK ? all_out(crowd, &enough, err) : rc;
    }
    return rc;
}

/* The last ones take the sign down, for the next time, and the directory with it, for a directory
 * is deleted only when it is empty (PrepRequestProcessor: NotEmpty): while a member of the next
 * time stands, its sign stays, however late this arrives. What is left in any case is older than
 * the members of the next time, and is renewed by them. */
static int clear(struct crowd *crowd, zkl_error *err)
{
    const struct zkl__op parts[] = {
        {.kind = ZKL__OP_DELETE, .dir = crowd->place->path, .name = SIGN, .version = -1},
        {.kind = ZKL__OP_DELETE, .dir = crowd->place->path, .version = -1},
    };
    const struct zkl__op op = {.kind = ZKL__OP_MULTI, .parts = parts, .part_count = 2};
    return crowd->ready
               ? zkl__session_insist(crowd->place->session, &op, crowd->deadline, NULL, NULL, err)
               : ZKL_OK;
}

/* Inside, and a part of it is not: the release. */
static int leave_inside(zkl_double_barrier *barrier, struct crowd *crowd, zkl_error *err)
{
    zkl_session *session = barrier->place.session;
    struct zkl__standing now = zkl__lock_look(&barrier->place);
    zkl_error last;
    int turn = now.node[0] ? wait_for_turn(crowd, now.node, err)
                           : ZKL_OK; /* not entered: the release says so */
    zkl__session_leave(session);
    int rc = zkl__lock_release_by(&barrier->place, crowd->deadline,
                                  &last); /* lost or not, in time or not: we are out */
    zkl__session_enter_even_closed(session, NULL);
    if (turn != ZKL_OK) {
        return turn;
    }
    if (rc != ZKL_OK && rc != ZKL_ELOST) {
        if (err) {
            *err = last;
        }
        return rc;
    }
    rc = wait_for_end(crowd, err);
    return rc == ZKL_OK ? clear(crowd, err) : rc;
}

static int leave_and_wait(zkl_double_barrier *barrier, int64_t timeout_ms, zkl_error *err)
{
    zkl_session *session = barrier->place.session;
    struct crowd crowd;
    int rc = zkl__session_enter(session, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    rc = begin(&crowd, barrier, zkl__deadline(zkl__session_now(session), timeout_ms), err);
    if (rc == ZKL_OK) {
        rc = leave_inside(barrier, &crowd, err);
        end(&crowd);
    }
    zkl__session_leave(session);
    return rc;
}

int zkl_double_barrier_leave(zkl_double_barrier *barrier, int64_t timeout_ms, zkl_error *err)
{
    if (!barrier) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "barrier is NULL");
    }
    int rc = zkl__timeout_check(timeout_ms, err);
    rc = rc == ZKL_OK ? zkl__lock_keep(&barrier->place, err) : rc;
    if (rc == ZKL_OK) {
        rc = leave_and_wait(barrier, timeout_ms, err);
        zkl__lock_let_go(&barrier->place);
    }
    return rc;
}

void zkl_double_barrier_free(zkl_double_barrier *barrier)
{
    zkl_lock_free((zkl_lock *)barrier);
}
