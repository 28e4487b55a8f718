/* barrier.c - barriers: a znode that many wait to see gone; and members that begin and end together. */
#include "place.h"

#include "await.h"
#include "error.h"
#include "path.h"

#include <zklock/barrier.h>

#include <string.h>

/* --- a barrier ----------------------------------------------------------------------------------------------------- */

static int enter(zkl_session *session, const char *path, int64_t timeout_ms, zkl_error *err)
{
    if (!session) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "session is NULL");
    }
    if (timeout_ms < ZKL_WAIT_FOREVER) {
        return zkl__fail(err, ZKL_EINVAL, 0, path, "timeout_ms is %lld; ZKL_WAIT_FOREVER is -1", (long long)timeout_ms);
    }
    int rc = zkl__path_check(path, err);
    return rc == ZKL_OK ? zkl__session_enter(session, false, err) : rc;
}

int zkl_barrier_set(zkl_session *session, const char *path, int64_t timeout_ms, zkl_error *err)
{
    int rc = enter(session, path, timeout_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    int64_t deadline = zkl__deadline(zkl__session_now(session), timeout_ms);
    const struct zkl__op op = {.kind = ZKL__OP_CREATE, .dir = path, .mode = ZKL__PERSISTENT};
    rc = zkl__session_make_above(session, path, deadline, err);
    if (rc == ZKL_OK) {
        rc = zkl__session_change(session, &op, ZKL__RC_NODEEXISTS, deadline, err);
    }
    zkl__session_leave(session);
    return rc;
}

int zkl_barrier_lift(zkl_session *session, const char *path, int64_t timeout_ms, zkl_error *err)
{
    int rc = enter(session, path, timeout_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    const struct zkl__op op = {.kind = ZKL__OP_DELETE, .dir = path, .version = -1};
    rc = zkl__session_change(session, &op, ZKL__RC_NONODE, zkl__deadline(zkl__session_now(session), timeout_ms), err);
    zkl__session_leave(session);
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

#define READY "ready" /* Curator's: whoever sees it is in, however few are left by then */

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
    const struct zkl__place_config config = {.fail_on_expiry = true, .release_timeout_ms = 1000};
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

static bool all_in(void *arg, const struct zkl__reply *reply)
{
    struct crowd *crowd = arg;
    count_them(crowd, reply);
    zkl_state state = zkl__place_look(&crowd->barrier->place).state;
    crowd->lost = state != ZKL_STATE_HELD && state != ZKL_STATE_JEOPARDY;
    return crowd->lost || crowd->ready || crowd->members >= crowd->barrier->count;
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

static int wait_for_all(zkl_double_barrier *barrier, int64_t deadline, zkl_error *err)
{
    zkl_session *session = barrier->place.session;
    struct crowd crowd = {.barrier = barrier};
    int rc = zkl__session_enter(session, false, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    rc = wait_until(barrier, all_in, &crowd, deadline, err);
    if (rc == ZKL_OK && crowd.lost && zkl__session_status(session)->closing) {
        rc = zkl__fail(err, ZKL_ECLOSED, 0, barrier->place.path, "the session was closed meanwhile");
    } else if (rc == ZKL_OK && crowd.lost) {
        rc = zkl__fail(err, ZKL_ELOST, 0, barrier->place.path, "our place was lost while we waited for the others");
    } else if (rc == ZKL_OK && !crowd.ready) {
        const struct zkl__op op = {
            .kind = ZKL__OP_CREATE, .dir = barrier->place.path, .name = READY, .mode = ZKL__PERSISTENT};
        rc = zkl__session_change(session, &op, ZKL__RC_NODEEXISTS, deadline, err);
    }
    zkl__session_leave(session);
    return rc;
}

int zkl_double_barrier_enter(zkl_double_barrier *barrier, int64_t timeout_ms, zkl_error *err)
{
    if (!barrier) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "barrier is NULL");
    }
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

static int wait_for_turn(zkl_double_barrier *barrier, int64_t deadline, zkl_error *err)
{
    struct crowd crowd = {.barrier = barrier};
    if (zkl__place_node(&barrier->place, crowd.own, sizeof crowd.own) == 0) {
        return ZKL_OK; /* has not entered: the release says so */
    }
    int rc = zkl__session_enter(barrier->place.session, false, err);
    if (rc == ZKL_OK) {
        rc = wait_until(barrier, may_go, &crowd, deadline, err);
        zkl__session_leave(barrier->place.session);
    }
    return rc;
}

int zkl_double_barrier_leave(zkl_double_barrier *barrier, int64_t timeout_ms, zkl_error *err)
{
    if (!barrier) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "barrier is NULL");
    }
    zkl_session *session = barrier->place.session;
    int64_t deadline = zkl__deadline(zkl__session_now(session), timeout_ms);
    int turn = wait_for_turn(barrier, deadline, err);
    /* Lost or not, in time or not: we are out. */
    int rc = zkl__place_release(&barrier->place, turn == ZKL_OK ? err : NULL);
    if (turn != ZKL_OK) {
        return turn;
    }
    if (rc != ZKL_OK && rc != ZKL_ELOST) {
        return rc;
    }
    rc = zkl__session_enter(session, false, err);
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

void zkl_double_barrier_free(zkl_double_barrier *barrier)
{
    zkl__place_free((struct zkl__place *)barrier);
}
