#include "call.h"

#include "backoff.h"
#include "error.h"

#define RETRY_NS \
    (100 * ZKL__MS) /* for a read that was not sent though connected: a limit was reached */
#define PAUSE_LEAST (20 * ZKL__MS)
#define PAUSE_MOST (2000 * ZKL__MS)

int64_t zkl__session_longer(int64_t pause)
{
    return zkl__backoff(pause, PAUSE_LEAST, PAUSE_MOST);
}

/* All that are under way together lengthen the pause once. */
static void put_off(struct zkl__run *run)
{
    int64_t now = zkl__clock_now();
    if (now >= run->pause_to) {
        run->pause = zkl__session_longer(run->pause);
        run->pause_to = now + run->pause;
    }
}

static void on_done(struct zkl__request *request, const struct zkl__reply *reply)
{
    struct zkl__slot *slot = request->owner;
    struct zkl__run *run = slot->run;
    bool once = run->mode == ZKL__ONCE;
    run->flying--;
    slot->state = ZKL__UNANSWERED;
    run->unsent = reply->rc == ZKL__RC_UNSENT ? reply->unsent : ZKL_OK;
    run->lost = reply->rc == ZKL__RC_UNKNOWN;
    /* a path that no request has room for stays one */
    bool never = run->unsent == ZKL_EINVAL && run->mode == ZKL__READS;
    if (reply->rc == ZKL__RC_NOTAPPLIED && !once) {
        put_off(run);
    } else if (zkl__rc_answered(reply->rc) || never) {
        run->pause = 0;
        slot->state = ZKL__FREE;
        run->done++;
        run->reads->look(run->reads->arg, slot->index, reply);
    }
    /* What is refused while it is sent is tried again when RETRY_NS says. Immediately would be for
     * ever on the alarms' thread, which has the mutex that news of the connection waits for. */
    bool refused = run->sending && reply->rc == ZKL__RC_UNSENT;
    if (run->flying <= run->window / 2 && !refused) {
        zkl__procedure_poke(run->by);
    }
}

static void send_one(struct zkl__run *run, struct zkl__slot *slot)
{
    struct zkl__op op = {.kind = ZKL__OP_NONE};
    run->reads->make(run->reads->arg, slot->index, &op);
    slot->run = run;
    slot->request = (struct zkl__request){.done = on_done, .owner = slot};
    slot->state = ZKL__FLYING;
    run->flying++;
    zkl__session_event(
        run->by->session,
        (struct zkl__event){.kind = ZKL__EV_REQUEST, .request = &slot->request, .op = &op});
}

/* Sends what there is room for. True when something is still not on its way for lack of an answer
 * or a connection. */
static bool send_some(struct zkl__run *run)
{
    zkl_session *session = run->by->session;
    bool waiting = false, paused = zkl__clock_now() < run->pause_to;
    for (size_t i = 0; i < run->window; i++) {
        struct zkl__slot *slot = &run->slots[i];
        if (slot->state == ZKL__FREE && run->next < run->reads->count) {
            slot->index = run->next++;
            slot->state = ZKL__UNANSWERED;
        }
        if (slot->state == ZKL__UNANSWERED && !paused &&
            zkl__core_connected(zkl__session_core(session))) {
            run->sending = true;
            send_one(run, slot);
            run->sending = false;
        }
        waiting = waiting || slot->state == ZKL__UNANSWERED;
    }
    return waiting;
}

/* Of one operation that is not sent again. */
static int not_answered(const struct zkl__run *run, zkl_error *err)
{
    if (run->unsent == ZKL_OK) {
        return zkl__fail(err, ZKL_ECONNECT, 0, NULL, "the connection went before the answer came");
    }
    return zkl__fail(err, run->unsent, 0, NULL, "not sent: %s", zkl_strerror(run->unsent));
}

/* Refused here for good, or for another reason than the connection. When the session is closed,
 * that is the reason. */
static bool is_hopeless(const struct zkl__run *run)
{
    bool missing = run->unsent == ZKL_OK || run->unsent == ZKL_ECONNECT;
    const struct zkl__status *status = zkl__session_status(run->by->session);
    return run->slots[0].state == ZKL__UNANSWERED && !status->closing &&
           status->state != ZKL_SESSION_CLOSED &&
           (run->mode == ZKL__ONCE || (run->mode == ZKL__WHILE_KNOWN && run->lost) ||
            (run->mode != ZKL__READS && !missing));
}

static bool may_send(const struct zkl__run *run)
{
    return run->mode == ZKL__ONCE          ? run->next == 0
           : run->mode == ZKL__WHILE_KNOWN ? !run->lost
                                           : true;
}

void zkl__run_begin(struct zkl__run *run, struct zkl__procedure *by, enum zkl__run_mode mode,
                    const struct zkl__reads *reads, struct zkl__slot *slots, size_t window)
{
    *run = (struct zkl__run){.by = by,
                             .mode = mode,
                             .reads = reads,
                             .slots = slots,
                             .window = window,
                             .unsent = ZKL_ECONNECT};
    for (size_t i = 0; i < window; i++) {
        slots[i].state = ZKL__FREE;
    }
}

int zkl__run_advance(struct zkl__run *run, zkl_error *err)
{
    zkl_session *session = run->by->session;
    bool waiting = may_send(run) && send_some(run);
    int64_t now = zkl__clock_now();
    if (run->done == run->reads->count) {
        return ZKL_OK;
    }
    if (is_hopeless(run)) {
        return not_answered(run, err);
    }
    if (waiting && zkl__core_connected(zkl__session_core(session))) {
        run->by->again = run->pause_to > now ? run->pause_to : now + RETRY_NS;
    }
    run->by->late = run->pause > 0 ? "the servers asked to try again until the time was up" : NULL;
    return ZKL__PENDING;
}

bool zkl__run_end(struct zkl__run *run)
{
    bool sent = run->lost;
    for (size_t i = 0; run->by && i < run->window; i++) {
        if (run->slots[i].state == ZKL__FLYING) {
            struct zkl__core *core = zkl__session_core(run->by->session);
            sent = zkl__request_forget(core, &run->slots[i].request) || sent;
        }
    }
    run->by = NULL;
    return sent;
}

/* --- one operation --------------------------------------------------------------------------- */

static void make_one(void *arg, size_t index, struct zkl__op *op)
{
    (void)index;
    *op = *((const struct zkl__single *)arg)->op;
}

static void look_one(void *arg, size_t index, const struct zkl__reply *reply)
{
    const struct zkl__single *single = arg;
    (void)index;
    if (single->look) {
        single->look(single->arg, reply);
    }
}

void zkl__single_begin(struct zkl__single *single, struct zkl__procedure *by,
                       enum zkl__run_mode mode, const struct zkl__op *op,
                       void (*look)(void *arg, const struct zkl__reply *reply), void *arg)
{
    single->op = op;
    single->look = look;
    single->arg = arg;
    single->reads = (struct zkl__reads){1, make_one, look_one, single};
    zkl__run_begin(&single->run, by, mode, &single->reads, &single->slot, 1);
}
