#include "await.h"

#include "children.h"
#include "error.h"
#include "heap.h"
#include "path.h"

#define RECONNECT_NS (100 * ZKL__MS)

bool zkl__session_pause(zkl_session *session, int64_t ns, int64_t deadline)
{
    struct zkl__status *status = zkl__session_status(session);
    if (status->closing || status->state == ZKL_SESSION_CLOSED) {
        return false;
    }
    int64_t soon = zkl__session_now(session) + ns;
    zkl__session_wait(session, &status->changed, soon < deadline ? soon : deadline);
    return zkl__session_now(session) < deadline;
}

static int failed(zkl_error *err, int rc, const zkl_error *last)
{
    if (rc != ZKL_OK && err) {
        *err = *last;
    }
    return rc;
}

struct insistence {
    void (*look)(void *arg, const struct zkl__reply *reply);
    void *arg;
    bool put_off;
};

static void look_unless_put_off(void *arg, const struct zkl__reply *reply)
{
    struct insistence *insistence = arg;
    insistence->put_off = reply->rc == ZKL__RC_NOTAPPLIED;
    if (!insistence->put_off && insistence->look) {
        insistence->look(insistence->arg, reply);
    }
}

/* send: zkl__session_call, or zkl__session_finish. */
static int insist(int (*send)(zkl_session *session, const struct zkl__op *op, int64_t deadline,
                              void (*look)(void *arg, const struct zkl__reply *reply), void *arg,
                              zkl_error *err),
                  zkl_session *session, const struct zkl__op *op, int64_t deadline,
                  void (*look)(void *arg, const struct zkl__reply *reply), void *arg,
                  zkl_error *err)
{
    struct insistence insistence = {look, arg, false};
    zkl_error last; /* of a try that another one follows, the caller hears nothing */
    int64_t pause = 0;
    int rc;
    do {
        insistence.put_off = false;
        rc = send(session, op, deadline, look_unless_put_off, &insistence, &last);
        if (insistence.put_off) {
            rc = zkl__fail(&last, ZKL_ECONNECT, 0, op->dir, "the servers ask to try again");
            pause = zkl__session_longer(pause);
        }
    } while (rc == ZKL_ECONNECT &&
             zkl__session_pause(session, insistence.put_off ? pause : RECONNECT_NS, deadline));
    if (rc == ZKL_ECONNECT && zkl__session_now(session) >= deadline) {
        return zkl__fail(err, ZKL_ETIMEOUT, 0, op->dir,
                         insistence.put_off ? "the servers asked to try again until the time was up"
                                            : "no answer from the servers in time");
    }
    return failed(err, rc, &last);
}

int zkl__session_insist(zkl_session *session, const struct zkl__op *op, int64_t deadline,
                        void (*look)(void *arg, const struct zkl__reply *reply), void *arg,
                        zkl_error *err)
{
    return insist(zkl__session_call, session, op, deadline, look, arg, err);
}

int zkl__session_insist_to_end(zkl_session *session, const struct zkl__op *op, int64_t deadline,
                               void (*look)(void *arg, const struct zkl__reply *reply), void *arg,
                               zkl_error *err)
{
    return insist(zkl__session_finish, session, op, deadline, look, arg, err);
}

static void take_rc(void *arg, const struct zkl__reply *reply)
{
    *(enum zkl__rc *)arg = reply->rc;
}

int zkl__session_change(zkl_session *session, const struct zkl__op *op, enum zkl__rc as_good,
                        int64_t deadline, zkl_error *err)
{
    enum zkl__rc got;
    int rc = zkl__session_insist(session, op, deadline, take_rc, &got, err);
    if (rc != ZKL_OK || got == ZKL__RC_OK || got == as_good) {
        return rc;
    }
    return zkl__fail(err, zkl__rc_code(got), 0, op->dir, "%s: %s", zkl__op_name(op->kind),
                     zkl__rc_name(got));
}

/* One level; ZKL_ENOENT: the one above is missing. */
static int make_level(zkl_session *session, const char *path, int64_t deadline, zkl_error *err)
{
    enum zkl__rc got = ZKL__RC_UNKNOWN;
    const struct zkl__op op = {.kind = ZKL__OP_CREATE, .dir = path, .mode = ZKL__CONTAINER};
    int rc = zkl__session_insist(session, &op, deadline, take_rc, &got, err);
    if (rc != ZKL_OK || got == ZKL__RC_OK || got == ZKL__RC_NODEEXISTS) {
        return rc;
    }
    return zkl__fail(err, zkl__rc_code(got), 0, path, "cannot be created: %s", zkl__rc_why(got));
}

static int make_directories(zkl_session *session, const char *path, int64_t deadline,
                            zkl_error *err)
{
    char part[ZKL_PATH_MAX + 1];
    zkl_error last; /* a level that is missing is no news to the caller */
    int rc;
    bool more;
    zkl__path_join(part, sizeof part, path, NULL);
    do {
        rc = make_level(session, part, deadline, &last);
        more = rc == ZKL_ENOENT ? zkl__path_shorten(part)
                                : rc == ZKL_OK && zkl__path_lengthen(part, path);
    } while (more);
    return failed(err, rc, &last);
}

int zkl__session_make_above(zkl_session *session, const char *path, int64_t deadline,
                            zkl_error *err)
{
    char above[ZKL_PATH_MAX + 1];
    zkl__path_join(above, sizeof above, path, NULL);
    return zkl__path_shorten(above) ? make_directories(session, above, deadline, err) : ZKL_OK;
}

int zkl__session_make(zkl_session *session, const char *path, int64_t deadline, zkl_error *err)
{
    const struct zkl__op op = {.kind = ZKL__OP_CREATE, .dir = path, .mode = ZKL__PERSISTENT};
    int rc = zkl__session_make_above(session, path, deadline, err);
    return rc == ZKL_OK ? zkl__session_change(session, &op, ZKL__RC_NODEEXISTS, deadline, err) : rc;
}

/* --- waiting for a change -------------------------------------------------------------------- */

static void fired(struct zkl__watch *watch, enum zkl__watch_event event)
{
    struct zkl__vigil *vigil = watch->owner;
    (void)event;
    vigil->changed = true;
    zkl__signal_raise(&vigil->signal);
}

int zkl__vigil_begin(struct zkl__vigil *vigil, zkl_session *session, const char *first,
                     const char *second, zkl_error *err)
{
    *vigil = (struct zkl__vigil){.session = session};
    vigil->watches[0] = (struct zkl__watch){.fired = fired, .owner = vigil, .path = first};
    vigil->watches[1] = (struct zkl__watch){.fired = fired, .owner = vigil, .path = second};
    int rc = zkl__signal_init(&vigil->signal);
    return rc == ZKL_OK ? ZKL_OK : zkl__fail(err, rc, 0, first, "no memory to wait with");
}

void zkl__vigil_end(struct zkl__vigil *vigil)
{
    zkl__watch_remove(zkl__session_core(vigil->session), &vigil->watches[0]);
    zkl__watch_remove(zkl__session_core(vigil->session), &vigil->watches[1]);
    zkl__signal_deinit(&vigil->signal);
}

int zkl__vigil_read(struct zkl__vigil *vigil, int number, const struct zkl__op *op,
                    int64_t deadline, void (*look)(void *arg, const struct zkl__reply *reply),
                    void *arg, zkl_error *err)
{
    struct zkl__watch *watch = &vigil->watches[number];
    struct zkl__op watching = *op;
    int rc = watch->on ? ZKL_OK : zkl__watch_add(zkl__session_core(vigil->session), watch);
    if (rc != ZKL_OK) {
        return zkl__fail(err, rc, 0, watch->path, "the session watches too much already");
    }
    watching.watch = true;
    return zkl__session_insist(vigil->session, &watching, deadline, look, arg, err);
}

int zkl__vigil_wait(struct zkl__vigil *vigil, int64_t deadline, zkl_error *err)
{
    const char *path = vigil->watches[0].path;
    while (!vigil->changed) {
        if (zkl__session_status(vigil->session)->stopping) {
            return zkl__fail(err, ZKL_ECLOSED, 0, path, "the session is being closed");
        }
        if (zkl__session_stopped(vigil->session)) {
            return zkl__fail(err, ZKL_ECANCELED, 0, path, "the stop token is raised");
        }
        if (!zkl__session_wait(vigil->session, &vigil->signal, deadline)) {
            bool late = zkl__session_now(vigil->session) >= deadline;
            return late ? zkl__fail(err, ZKL_ETIMEOUT, 0, path, "the time is up")
                        : zkl__fail(err, ZKL_ECLOSED, 0, path, "the session was closed meanwhile");
        }
    }
    vigil->changed = false;
    return ZKL_OK;
}

/* --- children -------------------------------------------------------------------------------- */

struct judgement {
    const char *dir;
    struct zkl__children *children;
    size_t *which;
};

static void ask_child(void *arg, size_t index, struct zkl__op *op)
{
    const struct judgement *judgement = arg;
    *op = (struct zkl__op){.kind = ZKL__OP_EXISTS,
                           .dir = judgement->dir,
                           .name = judgement->children->all[judgement->which[index]].name};
}

static void judge_child(void *arg, size_t index, const struct zkl__reply *reply)
{
    const struct judgement *judgement = arg;
    zkl__child_judge(&judgement->children->all[judgement->which[index]], reply);
}

int zkl__session_judge(zkl_session *session, const char *dir, struct zkl__children *children,
                       int64_t deadline, zkl_error *err)
{
    const zkl_heap *heap = zkl__session_heap(session);
    struct judgement judgement = {dir, children, NULL};
    struct zkl__reads reads = {0, ask_child, judge_child, &judgement};
    size_t first = zkl__children_unknown(children, 0);
    if (first == children->count) {
        return ZKL_OK;
    }
    judgement.which = zkl__alloc(heap, children->count * sizeof *judgement.which);
    if (!judgement.which) {
        return zkl__fail(err, ZKL_ENOMEM, 0, dir, "no memory for %zu children", children->count);
    }
    for (size_t i = first; i < children->count; i = zkl__children_unknown(children, i + 1)) {
        judgement.which[reads.count++] = i;
    }
    int rc = zkl__session_read(session, &reads, deadline, err);
    zkl__free(heap, judgement.which);
    return rc;
}
