#include "call.h"

#include "backoff.h"
#include "error.h"

#define WINDOW 64 /* on their way at a time: hides the round trip, crowds nobody out */
#define RETRY_NS \
    (100 * ZKL__MS) /* for a read that was not sent though connected: a limit was reached */
#define PAUSE_LEAST (20 * ZKL__MS)
#define PAUSE_MOST (2000 * ZKL__MS)

struct slot {
    struct zkl__request request;
    struct run *run;
    size_t index;
    enum { FREE, FLYING, UNANSWERED } state;
};

/* Some reads under way; or one operation that is sent once. */
struct run {
    zkl_session *session;
    const struct zkl__reads *reads;
    struct zkl__signal answered;
    size_t next, done, flying;
    bool once;
    bool finishes;    /* no stop token ends it */
    int unsent;       /* why the last one was not sent; ZKL_OK: it was */
    int64_t pause;    /* since the server put reads off: the last one, and */
    int64_t pause_to; /* its end */
    struct slot slots[WINDOW];
};

int64_t zkl__session_longer(int64_t pause)
{
    return zkl__backoff(pause, PAUSE_LEAST, PAUSE_MOST);
}

/* All that are under way together lengthen the pause once. */
static void put_off(struct run *run)
{
    int64_t now = zkl__session_now(run->session);
    if (now >= run->pause_to) {
        run->pause = zkl__session_longer(run->pause);
        run->pause_to = now + run->pause;
    }
}

static void on_done(struct zkl__request *request, const struct zkl__reply *reply)
{
    struct slot *slot = request->owner;
    struct run *run = slot->run;
    run->flying--;
    slot->state = UNANSWERED;
    run->unsent = reply->rc == ZKL__RC_UNSENT ? reply->unsent : ZKL_OK;
    bool never =
        run->unsent == ZKL_EINVAL && !run->once; /* a path that no request has room for stays one */
    if (reply->rc == ZKL__RC_NOTAPPLIED && !run->once) {
        put_off(run);
    } else if (zkl__rc_answered(reply->rc) || never) {
        run->pause = 0;
        slot->state = FREE;
        run->done++;
        run->reads->look(run->reads->arg, slot->index, reply);
    }
    if (run->flying <= WINDOW / 2) {
        zkl__signal_raise(&run->answered);
    }
}

static void send_one(zkl_session *session, struct run *run, struct slot *slot)
{
    struct zkl__op op = {.kind = ZKL__OP_NONE};
    run->reads->make(run->reads->arg, slot->index, &op);
    slot->run = run;
    slot->request = (struct zkl__request){.done = on_done, .owner = slot};
    slot->state = FLYING;
    run->flying++;
    zkl__session_event(session, (struct zkl__event){
                                    .kind = ZKL__EV_REQUEST, .request = &slot->request, .op = &op});
}

/* Sends what there is room for. True when something is still not on its way for lack of an answer
 * or a connection. */
static bool send_some(zkl_session *session, struct run *run)
{
    bool waiting = false, paused = zkl__session_now(session) < run->pause_to;
    for (int i = 0; i < WINDOW; i++) {
        struct slot *slot = &run->slots[i];
        if (slot->state == FREE && run->next < run->reads->count) {
            slot->index = run->next++;
            slot->state = UNANSWERED;
        }
        if (slot->state == UNANSWERED && !paused &&
            zkl__core_connected(zkl__session_core(session))) {
            send_one(session, run, slot);
        }
        waiting = waiting || slot->state == UNANSWERED;
    }
    return waiting;
}

/* Of one that is sent once. */
static int not_answered(const struct run *run, zkl_error *err)
{
    if (run->unsent == ZKL_OK) {
        return zkl__fail(err, ZKL_ECONNECT, 0, NULL, "the connection went before the answer came");
    }
    return zkl__fail(err, run->unsent, 0, NULL, "not sent: %s", zkl_strerror(run->unsent));
}

static bool is_stopped(const struct run *run)
{
    return !run->finishes && zkl__session_stopped(run->session);
}

static int run_all(zkl_session *session, struct run *run, int64_t deadline, zkl_error *err)
{
    const struct zkl__status *status = zkl__session_status(session);
    if (is_stopped(run)) {
        return zkl__fail(err, ZKL_ECANCELED, 0, NULL, "not sent: the stop token is raised");
    }
    bool waiting = send_some(session, run);
    while (run->done < run->reads->count) {
        if (status->closing || status->state == ZKL_SESSION_CLOSED) {
            return zkl__fail(err, ZKL_ECLOSED, 0, NULL, "the session was closed meanwhile");
        }
        if (is_stopped(run)) {
            return zkl__fail(err, ZKL_ECANCELED, 0, NULL, "the stop token is raised");
        }
        if (run->once && run->slots[0].state == UNANSWERED) {
            return not_answered(run, err);
        }
        int64_t now = zkl__session_now(session);
        if (now >= deadline) {
            return zkl__fail(err, ZKL_ETIMEOUT, 0, NULL, "no answer from the servers in time");
        }
        int64_t again = run->pause_to > now ? run->pause_to : now + RETRY_NS;
        bool soon = waiting && zkl__core_connected(zkl__session_core(session)) && deadline > again;
        zkl__session_wait(session, &run->answered, soon ? again : deadline);
        if (!run->once) {
            waiting = send_some(session, run);
        }
    }
    return ZKL_OK;
}

static int start_run(zkl_session *session, const struct zkl__reads *reads, bool once, bool finishes,
                     int64_t deadline, zkl_error *err)
{
    struct run run = {.session = session,
                      .reads = reads,
                      .once = once,
                      .finishes = finishes,
                      .unsent = ZKL_ECONNECT};
    int rc = zkl__signal_init(&run.answered);
    if (rc != ZKL_OK) {
        return zkl__fail(err, rc, 0, NULL, "no memory to wait with");
    }
    rc = run_all(session, &run, deadline, err);
    for (int i = 0; i < WINDOW; i++) {
        if (run.slots[i].state == FLYING) {
            zkl__request_forget(zkl__session_core(session), &run.slots[i].request);
        }
    }
    zkl__signal_deinit(&run.answered);
    return rc;
}

int zkl__session_read(zkl_session *session, const struct zkl__reads *reads, int64_t deadline,
                      zkl_error *err)
{
    return start_run(session, reads, false, false, deadline, err);
}

struct call {
    const struct zkl__op *op;
    void (*look)(void *arg, const struct zkl__reply *reply);
    void *arg;
};

static void make_one(void *arg, size_t index, struct zkl__op *op)
{
    (void)index;
    *op = *((const struct call *)arg)->op;
}

static void look_one(void *arg, size_t index, const struct zkl__reply *reply)
{
    const struct call *call = arg;
    (void)index;
    if (call->look) {
        call->look(call->arg, reply);
    }
}

int zkl__session_call(zkl_session *session, const struct zkl__op *op, int64_t deadline,
                      void (*look)(void *arg, const struct zkl__reply *reply), void *arg,
                      zkl_error *err)
{
    struct call call = {op, look, arg};
    struct zkl__reads reads = {1, make_one, look_one, &call};
    return start_run(session, &reads, true, false, deadline, err);
}

int zkl__session_finish(zkl_session *session, const struct zkl__op *op, int64_t deadline,
                        void (*look)(void *arg, const struct zkl__reply *reply), void *arg,
                        zkl_error *err)
{
    struct call call = {op, look, arg};
    struct zkl__reads reads = {1, make_one, look_one, &call};
    return start_run(session, &reads, true, true, deadline, err);
}
