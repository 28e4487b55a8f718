/* barrier.c - barriers: a znode that many wait to see gone; and members that begin and end together. */
#include "place.h"

#include "await.h"
#include "error.h"
#include "path.h"
#include "remove.h"

#include <zklock/barrier.h>

#include <string.h>

/* --- a barrier ----------------------------------------------------------------------------------------------------- */

static int enter(zkl_session *session, const char *path, int64_t timeout_ms, zkl_error *err)
{
    if (!session) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "session is NULL");
    }
    int rc = zkl__timeout_check(timeout_ms, err);
    rc = rc == ZKL_OK ? zkl__path_check(path, err) : rc;
    return rc == ZKL_OK ? zkl__session_enter(session, err) : rc;
}

int zkl_barrier_set(zkl_session *session, const char *path, int64_t timeout_ms, zkl_error *err)
{
    int rc = enter(session, path, timeout_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    rc = zkl__session_make(session, path, zkl__deadline(zkl__session_now(session), timeout_ms), err);
    zkl__session_leave(session);
    return rc;
}

int zkl_barrier_lift(zkl_session *session, const char *path, int64_t timeout_ms, zkl_error *err)
{
    int rc = enter(session, path, timeout_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    /* exactly: a barrier that somebody puts up again while we wait for an answer stays */
    struct zkl__removal removal = {.dir = path};
    int64_t deadline = zkl__deadline(zkl__session_now(session), timeout_ms);
    rc = zkl__session_remove_exactly(session, &removal, deadline, err);
    zkl__session_leave(session);
    if (rc == ZKL_OK && removal.rc != ZKL__RC_OK && removal.rc != ZKL__RC_NONODE) {
        rc = zkl__fail(err, zkl__rc_code(removal.rc), removal.zk_code, path, "the barrier may not be lifted: %s",
                       zkl__rc_name(removal.rc));
    }
    return rc;
}

static bool is_gone(void *arg, const struct zkl__reply *reply)
{
    (void)arg;
    return reply->rc == ZKL__RC_NONODE;
}

int zkl_barrier_wait(zkl_session *session, const char *path, int64_t timeout_ms, zkl_error *err)
{
    int rc = enter(session, path, timeout_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    /* get, not exists: a watch on a node that is not there would stay behind */
    const struct zkl__op op = {.kind = ZKL__OP_GET, .dir = path};
    rc = zkl__session_await(session, &op, is_gone, NULL, zkl__deadline(zkl__session_now(session), timeout_ms), err);
    zkl__session_leave(session);
    return rc;
}

/* --- a double barrier ---------------------------------------------------------------------------------------------- */

/* Curator's: whoever sees it is in, however few are left by then. Nobody takes it down when the last ones crash or give up
 * waiting, so a sign that is older than our own node was not meant for us: it goes, or is renewed by those who are complete. */
#define READY "ready"

/* Waits for nobody: a member is there as soon as its node is. */
static const struct zkl__rule member = {"lock-", 0};

struct zkl_double_barrier {
    struct zkl__place place; /* first: our membership */
    size_t count;
};

static void tell(struct zkl__place *place, zkl_state state)
{
    (void)place;
    (void)state; /* nobody listens */
}

static void complete(struct zkl__place *place, zkl__any_fn done, void *payload, int code, const zkl_grant *grant,
                     const zkl_error *err)
{
    (void)place, (void)done, (void)payload, (void)code, (void)grant, (void)err; /* nobody asks without waiting */
}

static const struct zkl__place_ops ops = {
    .object = {.noun = "double barrier", .give_up = zkl__place_give_up, .describe = zkl__place_describe},
    .tell = tell,
    .complete = complete,
};

int zkl_double_barrier_new(zkl_double_barrier **out, zkl_session *session, const char *path, size_t count,
                           zkl_error *err)
{
    if (!out || count == 0) {
        return zkl__fail(err, ZKL_EINVAL, 0, path, out ? "count is 0" : "out is NULL");
    }
    const struct zkl__place_config config = {.on_expiry = ZKL_ON_EXPIRY_FAIL, .release_timeout_ms = 1000};
    struct zkl__place *place;
    int rc = zkl__place_new(&place, sizeof(zkl_double_barrier), &ops, session, path, &config, err);
    if (rc == ZKL_OK) {
        *out = (zkl_double_barrier *)place;
        (*out)->count = count;
    }
    return rc;
}

struct crowd {
    const zkl_double_barrier *barrier;
    char own[ZKL__NAME_MAX];
    size_t members;
    bool ready, lost;
};

static void count_them(struct crowd *crowd, const struct zkl__reply *reply)
{
    crowd->members = 0;
    crowd->ready = false;
    for (size_t i = 0; reply->rc == ZKL__RC_OK && i < reply->child_count; i++) {
        bool ready = strcmp(reply->children[i], READY) == 0;
        crowd->ready = crowd->ready || ready;
        crowd->members += !ready;
    }
}

static bool is_complete(const struct crowd *crowd)
{
    return crowd->members >= crowd->barrier->count;
}

static bool all_in(void *arg, const struct zkl__reply *reply)
{
    struct crowd *crowd = arg;
    count_them(crowd, reply);
    crowd->lost = !zkl__state_holds(zkl__place_look(&crowd->barrier->place).state);
    return crowd->lost || crowd->ready || is_complete(crowd);
}

static bool all_out(void *arg, const struct zkl__reply *reply)
{
    struct crowd *crowd = arg;
    count_them(crowd, reply);
    return crowd->members == 0;
}

/* Whose znode is the first by its name goes last: Curator's members, once out, watch that one alone. */
static bool may_go(void *arg, const struct zkl__reply *reply)
{
    struct crowd *crowd = arg;
    bool in = false, first = true;
    count_them(crowd, reply);
    for (size_t i = 0; reply->rc == ZKL__RC_OK && i < reply->child_count; i++) {
        int order = strcmp(crowd->own, reply->children[i]);
        in = in || order == 0;
        first = first && order <= 0;
    }
    return !in || !first || crowd->members == 1;
}

static int wait_until(zkl_double_barrier *barrier, bool (*enough)(void *, const struct zkl__reply *),
                      struct crowd *crowd, int64_t deadline, zkl_error *err)
{
    const struct zkl__op list = {.kind = ZKL__OP_CHILDREN, .dir = barrier->place.path};
    return zkl__session_await(barrier->place.session, &list, enough, crowd, deadline, err);
}

struct sign {
    enum zkl__rc rc;
    struct zkl__stat stat;
};

static void look_at_sign(void *arg, const struct zkl__reply *reply)
{
    *(struct sign *)arg = (struct sign){reply->rc, reply->stat};
}

/* Inside. One that is older than our node is taken down, unless somebody renews it just now. */
static int take_down(zkl_double_barrier *barrier, const struct sign *old, int64_t deadline, zkl_error *err)
{
    const struct zkl__op op = {
        .kind = ZKL__OP_DELETE, .dir = barrier->place.path, .name = READY, .version = old->stat.version};
    struct sign answer;
    int rc = zkl__session_insist(barrier->place.session, &op, deadline, look_at_sign, &answer, err);
    if (rc == ZKL_OK && answer.rc == ZKL__RC_NOAUTH) {
        rc = zkl__fail(err, ZKL_EAUTH, 0, barrier->place.path, "the old sign may not be taken down");
    }
    return rc;
}

/* Inside. *ours: the sign was put up, or renewed, after our node was made. */
static int read_sign(zkl_double_barrier *barrier, bool *ours, int64_t deadline, zkl_error *err)
{
    const struct zkl__op op = {.kind = ZKL__OP_EXISTS, .dir = barrier->place.path, .name = READY};
    struct sign sign;
    int rc = zkl__session_insist(barrier->place.session, &op, deadline, look_at_sign, &sign, err);
    int64_t token = zkl__place_look(&barrier->place).token;
    bool stands = rc == ZKL_OK && sign.rc == ZKL__RC_OK && token > 0;
    *ours = stands && sign.stat.mzxid > token;
    return stands && !*ours ? take_down(barrier, &sign, deadline, err) : rc;
}

struct written {
    enum zkl__rc check, sign;
};

static void look_at_parts(void *arg, const struct zkl__reply *reply)
{
    struct written *written = arg;
    bool parts = reply->part_count == 2;
    *written = (struct written){parts ? reply->parts[0].rc : reply->rc, parts ? reply->parts[1].rc : reply->rc};
}

static int lost(const zkl_double_barrier *barrier, zkl_error *err)
{
    return zkl__fail(err, ZKL_ELOST, 0, barrier->place.path, "our place was lost while we waited for the others");
}

/* Inside. Only while we are in: the sign of one who lost its place, put up when all have gone, would let in the next one alone. */
static int write_sign(zkl_double_barrier *barrier, enum zkl__op_kind kind, struct written *written, int64_t deadline,
                      zkl_error *err)
{
    const struct zkl__place *place = &barrier->place;
    struct zkl__standing now = zkl__place_look(place);
    const struct zkl__op parts[] = {
        {.kind = ZKL__OP_CHECK, .dir = place->path, .name = now.node, .version = -1},
        {.kind = kind, .dir = place->path, .name = READY, .mode = ZKL__PERSISTENT, .version = -1},
    };
    const struct zkl__op op = {.kind = ZKL__OP_MULTI, .parts = parts, .part_count = 2};
    if (now.token == 0) {
        return lost(barrier, err);
    }
    int rc = zkl__session_insist(place->session, &op, deadline, look_at_parts, written, err);
    return rc == ZKL_OK && written->check == ZKL__RC_NONODE ? lost(barrier, err) : rc;
}

/* Inside. For those who look too late to see all of us at once. */
static int put_sign(zkl_double_barrier *barrier, bool renew, int64_t deadline, zkl_error *err)
{
    enum zkl__op_kind kind = renew ? ZKL__OP_SET : ZKL__OP_CREATE;
    for (;;) {
        struct written written;
        int rc = write_sign(barrier, kind, &written, deadline, err);
        if (rc != ZKL_OK || written.sign == ZKL__RC_OK ||
            (kind == ZKL__OP_CREATE && written.sign == ZKL__RC_NODEEXISTS)) {
            return rc;
        }
        if (kind == ZKL__OP_SET && written.sign == ZKL__RC_NONODE) {
            kind = ZKL__OP_CREATE; /* taken down just now */
        } else if (written.sign != ZKL__RC_NOTAPPLIED) {
            return zkl__fail(err, zkl__rc_code(written.sign), 0, barrier->place.path, "the sign cannot be put up: %s",
                             zkl__rc_name(written.sign));
        }
    }
}

static int wait_for_all(zkl_double_barrier *barrier, int64_t deadline, zkl_error *err)
{
    zkl_session *session = barrier->place.session;
    struct crowd crowd = {.barrier = barrier};
    int rc = zkl__session_enter(session, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    bool in = false;
    do {
        rc = wait_until(barrier, all_in, &crowd, deadline, err);
        in = rc == ZKL_OK && is_complete(&crowd);
        if (rc == ZKL_OK && !crowd.lost && !in) {
            rc = read_sign(barrier, &in, deadline, err);
        }
    } while (rc == ZKL_OK && !crowd.lost && !in);
    if (rc == ZKL_OK && crowd.lost && zkl__session_status(session)->closing) {
        rc = zkl__fail(err, ZKL_ECLOSED, 0, barrier->place.path, "the session was closed meanwhile");
    } else if (rc == ZKL_OK && crowd.lost) {
        rc = lost(barrier, err);
    } else if (rc == ZKL_OK && is_complete(&crowd)) {
        rc = put_sign(barrier, crowd.ready, deadline, err);
    }
    zkl__session_leave(session);
    return rc;
}

static int enter_and_wait(zkl_double_barrier *barrier, int64_t timeout_ms, zkl_error *err)
{
    int64_t deadline = zkl__deadline(zkl__session_now(barrier->place.session), timeout_ms);
    int rc = zkl__place_acquire(&barrier->place, &member, timeout_ms == 0 ? 1 : timeout_ms, NULL, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    rc = wait_for_all(barrier, deadline, err);
    if (rc != ZKL_OK) {
        zkl__place_release(&barrier->place, NULL);
    }
    return rc;
}

int zkl_double_barrier_enter(zkl_double_barrier *barrier, int64_t timeout_ms, zkl_error *err)
{
    if (!barrier) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "barrier is NULL");
    }
    int rc = zkl__place_keep(&barrier->place, err);
    if (rc == ZKL_OK) {
        rc = enter_and_wait(barrier, timeout_ms, err);
        zkl__place_let_go(&barrier->place);
    }
    return rc;
}

static int wait_for_turn(zkl_double_barrier *barrier, int64_t deadline, zkl_error *err)
{
    struct crowd crowd = {.barrier = barrier};
    if (zkl__place_node(&barrier->place, crowd.own, sizeof crowd.own) == 0) {
        return ZKL_OK; /* has not entered: the release says so */
    }
    int rc = zkl__session_enter(barrier->place.session, err);
    if (rc == ZKL_OK) {
        rc = wait_until(barrier, may_go, &crowd, deadline, err);
        zkl__session_leave(barrier->place.session);
    }
    return rc;
}

static int leave_and_wait(zkl_double_barrier *barrier, int64_t timeout_ms, zkl_error *err)
{
    zkl_session *session = barrier->place.session;
    int64_t deadline = zkl__deadline(zkl__session_now(session), timeout_ms);
    zkl_error last;
    int turn = wait_for_turn(barrier, deadline, err);
    /* Lost or not, in time or not: we are out. */
    int rc = zkl__place_release(&barrier->place, &last);
    if (turn != ZKL_OK) {
        return turn;
    }
    if (rc != ZKL_OK && rc != ZKL_ELOST) {
        if (err) {
            *err = last;
        }
        return rc;
    }
    rc = zkl__session_enter(session, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    struct crowd crowd = {.barrier = barrier};
    rc = wait_until(barrier, all_out, &crowd, deadline, err);
    if (rc == ZKL_OK && crowd.ready) { /* the last ones take the sign down, for the next time */
        const struct zkl__op op = {.kind = ZKL__OP_DELETE, .dir = barrier->place.path, .name = READY, .version = -1};
        rc = zkl__session_change(session, &op, ZKL__RC_NONODE, deadline, err);
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
    rc = rc == ZKL_OK ? zkl__place_keep(&barrier->place, err) : rc;
    if (rc == ZKL_OK) {
        rc = leave_and_wait(barrier, timeout_ms, err);
        zkl__place_let_go(&barrier->place);
    }
    return rc;
}

void zkl_double_barrier_free(zkl_double_barrier *barrier)
{
    zkl__place_free((struct zkl__place *)barrier);
}
