#include "await.h"

#include "backoff.h"
#include "error.h"
#include "heap.h"

#include <string.h>

#define WINDOW 64 /* requests on their way at a time: hides the round trip, crowds nobody out */
#define RETRY_NS (100 * ZKL__MS) /* for what was refused here though connected, by a limit */
#define PAUSE_LEAST (20 * ZKL__MS)
#define PAUSE_MOST (2000 * ZKL__MS)

static bool end_requests(struct zkl__call *call);

static int advance(struct zkl__procedure *procedure, zkl_error *err)
{
    struct zkl__call *call = (struct zkl__call *)procedure;
    call->err = err;
    return call->kind->run(call);
}

static int explain(struct zkl__procedure *procedure, int rc, const zkl_error *why, zkl_error *err)
{
    struct zkl__call *call = (struct zkl__call *)procedure;
    const char *before = !end_requests(call) && call->unsent ? call->unsent : call->doubt;
    return zkl__fail(err, rc, why->zk_code, why->path[0] ? why->path : procedure->path, "%s%s",
                     before ? before : "", why->text);
}

static void end(struct zkl__procedure *procedure)
{
    struct zkl__call *call = (struct zkl__call *)procedure;
    end_requests(call);
    for (size_t i = 0; i < sizeof call->watches / sizeof *call->watches; i++) {
        zkl__watch_remove(zkl__session_core(procedure->session), &call->watches[i]);
    }
    if (call->kind && call->kind->end) {
        call->kind->end(call);
    }
}

static const struct zkl__procedure_ops procedure_ops = {advance, explain, end};

static int begin(const struct zkl__call_kind *kind, struct zkl__call *call, zkl_error *err)
{
    call->call = call;
    call->procedure.finishes = kind->finishes;
    int rc = kind->begin ? kind->begin(call, err) : ZKL_OK;
    call->kind = rc == ZKL_OK ? kind : NULL;
    return rc;
}

int zkl__call_begin(const struct zkl__call_kind *kind, const void *given, zkl_session *session,
                    const char *path, int64_t timeout_ms, const struct zkl__later *later,
                    zkl_error *err)
{
    const size_t base = sizeof(struct zkl__call);
    struct zkl__call *call =
        zkl__procedure_make(session, kind->size, &procedure_ops, path, timeout_ms, err);
    if (!call) {
        return ZKL_ENOMEM;
    }
    memcpy((char *)call + base, (const char *)given + base, kind->size - base);
    int rc = begin(kind, call, err);
    return rc == ZKL_OK ? zkl__procedure_go(&call->procedure, later, err)
                        : zkl__procedure_drop(&call->procedure, rc);
}

int zkl__call_wait(const struct zkl__call_kind *kind, struct zkl__call *call, zkl_session *session,
                   const char *path, int64_t timeout_ms, zkl_error *err)
{
    call->procedure.ops = &procedure_ops;
    call->procedure.session = session;
    call->procedure.path = path;
    zkl__procedure_limit(&call->procedure, timeout_ms);
    int rc = begin(kind, call, err);
    return rc == ZKL_OK ? zkl__procedure_run(&call->procedure, err) : rc;
}

int zkl__call_go(const struct zkl__call_kind *kind, const void *given, zkl_session *session,
                 const char *path, int64_t timeout_ms, const struct zkl__later *later,
                 zkl_error *err)
{
    int rc = zkl__session_enter_at(session, path, timeout_ms, err);
    if (rc == ZKL_OK) {
        rc = zkl__call_begin(kind, given, session, path, timeout_ms, later, err);
        zkl__session_leave(session);
    }
    return rc;
}

int zkl__call_refused(const struct zkl__call *call, const char *path, const char *what)
{
    const struct zkl__answer *answer = &call->answer;
    bool unsent = answer->rc == ZKL__RC_UNSENT;
    if (unsent || answer->rc == ZKL__RC_UNKNOWN) {
        return zkl__fail(call->err, ZKL_ECONNECT, 0, path, "%s: %s", what,
                         unsent ? "there is no connection"
                                : "the connection went before the answer came");
    }
    return zkl__fail(call->err, zkl__rc_code(answer->rc), answer->zk_code, path, "%s: %s", what,
                     zkl__rc_name(answer->rc));
}

/* --- requests -------------------------------------------------------------------------------- */

void zkl__call_pause(struct zkl__call *call, int64_t *last)
{
    *last = zkl__backoff(*last, PAUSE_LEAST, PAUSE_MOST);
    call->requests.pause_to = zkl__clock_now() + *last;
}

static void take_reply(struct zkl__call *call, struct zkl__child *child,
                       const struct zkl__reply *reply)
{
    const struct zkl__requests *requests = &call->requests;
    bool both = reply->part_count == 2;
    if (!child) {
        call->answer = (struct zkl__answer){
            reply->rc,
            reply->zk_code,
            reply->stat,
            reply->size == 0,
            {both ? reply->parts[0].rc : reply->rc, both ? reply->parts[1].rc : reply->rc}};
    }
    if (requests->on_reply) {
        requests->on_reply(requests->it, child, reply);
    } else if (call->kind->look) {
        call->kind->look(call, reply);
    }
}

static void on_done(struct zkl__request *request, const struct zkl__reply *reply)
{
    struct zkl__sent *sent = request->owner;
    struct zkl__call *call = sent->call;
    struct zkl__requests *requests = &call->requests;
    struct zkl__child *child = requests->children ? &requests->children->all[sent->index] : NULL;
    requests->flying--;
    requests->unsent = reply->rc == ZKL__RC_UNSENT ? reply->unsent : ZKL_OK;
    sent->state = ZKL__SENT_UNANSWERED;
    call->answer.rc = child ? call->answer.rc : reply->rc;
    bool never = child && requests->unsent == ZKL_EINVAL; /* no request has room for its path */
    if (reply->rc == ZKL__RC_NOTAPPLIED && !requests->once) {
        if (zkl__clock_now() >= requests->pause_to) { /* all on their way lengthen it once */
            zkl__call_pause(call, &requests->pause);
        }
    } else if (zkl__rc_answered(reply->rc) || never) {
        requests->pause = 0;
        sent->state = ZKL__SENT_NONE;
        take_reply(call, child, reply);
    }
    /* What is refused while it is sent is tried again when RETRY_NS says. Immediately would be for
     * ever on the alarms' thread, which has the mutex that news of the connection waits for. */
    bool refused = requests->sending && reply->rc == ZKL__RC_UNSENT;
    if (requests->flying <= (child ? WINDOW / 2 : 0) && !refused) {
        zkl__procedure_poke(&call->procedure);
    }
}

static void send(struct zkl__call *call, struct zkl__sent *sent)
{
    struct zkl__requests *requests = &call->requests;
    if (requests->children) {
        call->op.name = requests->children->all[sent->index].name;
    }
    sent->request = (struct zkl__request){.done = on_done, .owner = sent};
    sent->state = ZKL__SENT_FLYING;
    requests->flying++;
    requests->sending = true;
    zkl__session_event(
        call->procedure.session,
        (struct zkl__event){.kind = ZKL__EV_REQUEST, .request = &sent->request, .op = &call->op});
    requests->sending = false;
}

/* The next child to be read, from this one on. */
static size_t next_from(const struct zkl__requests *requests, size_t index)
{
    return requests->children ? zkl__children_unknown(requests->children, index) : index;
}

/* Sends what there is room for, but in a pause. True when something is still not on its way for
 * lack of an answer or a connection. */
static bool send_some(struct zkl__call *call, bool paused)
{
    struct zkl__requests *requests = &call->requests;
    const struct zkl__core *core = zkl__session_core(call->procedure.session);
    bool over = paused || (requests->once && requests->tried), waiting = false;
    for (size_t i = 0; i < requests->window; i++) {
        struct zkl__sent *sent = &requests->sent[i];
        if (sent->state == ZKL__SENT_NONE && requests->next < requests->count) {
            sent->index = requests->next;
            requests->next = next_from(requests, requests->next + 1);
            sent->state = ZKL__SENT_UNANSWERED;
        }
        if (sent->state == ZKL__SENT_UNANSWERED && !over && zkl__core_connected(core)) {
            send(call, sent);
        }
        waiting = waiting || sent->state == ZKL__SENT_UNANSWERED;
    }
    requests->tried = requests->tried || !paused;
    return waiting;
}

static void begin_requests(struct zkl__call *call, bool once, zkl__reply_fn on_reply, void *it)
{
    end_requests(call);
    call->requests = (struct zkl__requests){.on_reply = on_reply,
                                            .it = it,
                                            .once = once,
                                            .count = 1,
                                            .window = 1,
                                            .pause_to = call->requests.pause_to};
    call->requests.one = (struct zkl__sent){.call = call};
    call->requests.sent = &call->requests.one;
}

/* Hears of the next change of the path. */
static int watch(struct zkl__call *call, const char *path);

void zkl__call_send(struct zkl__call *call, bool once, zkl__reply_fn on_reply, void *it,
                    const struct zkl__op *ops, size_t count)
{
    ZKL__ENSURE(count == 1 || count == 2);
    begin_requests(call, once, on_reply, it);
    call->answer.rc = ZKL__RC_UNSENT;
    memcpy(call->parts, ops, count * sizeof *ops);
    call->op =
        count == 1
            ? *ops
            : (struct zkl__op){.kind = ZKL__OP_MULTI, .parts = call->parts, .part_count = count};
    call->requests.failed = call->op.watch ? watch(call, call->op.dir) : ZKL_OK;
}

void zkl__call_send_each(struct zkl__call *call, struct zkl__children *children,
                         zkl__reply_fn on_reply, void *it, struct zkl__op op)
{
    struct zkl__requests *requests = &call->requests;
    zkl_session *session = call->procedure.session;
    begin_requests(call, false, on_reply, it);
    call->op = op;
    requests->children = children;
    requests->sent = NULL;
    requests->window = 0;
    requests->count = children->count;
    requests->next = next_from(requests, 0);
    if (requests->next == requests->count) {
        return;
    }
    size_t window = children->count < WINDOW ? children->count : WINDOW;
    requests->sent = zkl__zalloc(zkl__session_heap(session), window * sizeof *requests->sent);
    if (!requests->sent) {
        requests->failed = zkl__fail(call->err, ZKL_ENOMEM, 0, op.dir, "no memory for %zu children",
                                     children->count);
        return;
    }
    requests->window = window;
    for (size_t i = 0; i < window; i++) {
        requests->sent[i].call = call;
    }
}

int zkl__call_answered(struct zkl__call *call)
{
    struct zkl__requests *requests = &call->requests;
    zkl_session *session = call->procedure.session;
    const struct zkl__status *status = zkl__session_status(session);
    if (requests->failed != ZKL_OK) {
        return requests->failed;
    }
    int64_t now = zkl__clock_now();
    bool paused = now < requests->pause_to;
    bool waiting = send_some(call, paused);
    if (!waiting && requests->flying == 0) {
        return ZKL_OK;
    }
    /* When the session is closed, that is the reason. */
    bool open = !status->closing && status->state != ZKL_SESSION_CLOSED;
    if (waiting && !requests->children && open) {
        if (requests->unsent != ZKL_OK && requests->unsent != ZKL_ECONNECT) {
            return zkl__fail(call->err, requests->unsent, 0, NULL, "not sent: %s",
                             zkl_strerror(requests->unsent));
        }
        if (requests->once && requests->tried) {
            return ZKL_OK;
        }
    }
    if (waiting && zkl__core_connected(zkl__session_core(session))) {
        call->procedure.again = paused ? requests->pause_to : now + RETRY_NS;
    }
    call->procedure.late = paused || requests->pause > 0
                               ? "the servers asked to try again until the time was up"
                               : NULL;
    return ZKL__PENDING;
}

/* True: what is sent once was sent, and has no reply. */
static bool end_requests(struct zkl__call *call)
{
    struct zkl__requests *requests = &call->requests;
    zkl_session *session = call->procedure.session;
    bool sent = call->answer.rc == ZKL__RC_UNKNOWN;
    for (size_t i = 0; i < requests->window; i++) {
        if (requests->sent[i].state == ZKL__SENT_FLYING) {
            sent = zkl__request_forget(zkl__session_core(session), &requests->sent[i].request);
        }
    }
    if (requests->children) {
        zkl__free(zkl__session_heap(session), requests->sent);
    }
    requests->window = 0;
    requests->children = NULL;
    return sent && requests->once;
}

void zkl__judge_child(void *it, struct zkl__child *child, const struct zkl__reply *reply)
{
    (void)it;
    zkl__child_judge(child, reply);
}

/* --- changes --------------------------------------------------------------------------------- */

static void fired(struct zkl__watch *watch, enum zkl__watch_event event)
{
    struct zkl__call *call = watch->owner;
    (void)event;
    call->changed = true;
    zkl__procedure_poke(&call->procedure);
}

static int watch(struct zkl__call *call, const char *path)
{
    struct zkl__watch *watch = call->watches;
    if (watch->path && strcmp(watch->path, path) != 0) {
        watch++;
    }
    if (!watch->path) {
        *watch = (struct zkl__watch){.fired = fired, .owner = call, .path = path};
    }
    ZKL__ENSURE(strcmp(watch->path, path) == 0 && !call->op.name);
    int rc = watch->on ? ZKL_OK : zkl__watch_add(zkl__session_core(call->procedure.session), watch);
    return rc == ZKL_OK ? ZKL_OK
                        : zkl__fail(call->err, rc, 0, path, "the session watches too much already");
}

int zkl__call_changed(struct zkl__call *call)
{
    if (call->changed) {
        call->changed = false;
        return ZKL_OK;
    }
    if (zkl__session_status(call->procedure.session)->stopping) {
        return zkl__fail(call->err, ZKL_ECLOSED, 0, NULL, "the session is being closed");
    }
    call->procedure.late = "the time is up";
    return ZKL__PENDING;
}
