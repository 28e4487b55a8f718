#include "call.h"

#include <string.h>

/* === calls ==================================================================================== */

#define WINDOW 64 /* requests on their way at a time: hides the round trip, crowds nobody out */
#define RETRY_NS (100 * ZKL__MS) /* for what was refused here though connected, by a limit */
#define PAUSE_LEAST (20 * ZKL__MS)
#define PAUSE_MOST (2000 * ZKL__MS)
#define CLOSED "the session was closed meanwhile"

static bool end_requests(struct zkl__call *call);

/* --- it goes on, and ends -------------------------------------------------------------------- */

/* Something has changed. Also in a step. */
static void call_poke(struct zkl__call *call)
{
    zkl_session *session = call->session;
    if (call->blocking) {
        zkl__signal_raise(&call->news);
    } else if (call->done && !call->over) {
        zkl__timers_set(&session->turns, &call->turn, call->number);
        zkl__alarms_set(&session->alarms, &session->turns_alarm, 0);
    }
}

/* Gives back what every call has. True: as of end_requests. */
static bool clean_up(struct zkl__call *call)
{
    zkl__stops_end(&call->stops);
    for (size_t i = 0; i < sizeof call->watches / sizeof *call->watches; i++) {
        zkl__watch_remove(call->session->core, &call->watches[i]);
    }
    zkl__free(&call->session->heap, call->children);
    zkl__free(&call->session->heap, call->block);
    return end_requests(call);
}

/* The call's result. The text of an error begins with what is in doubt, and names a path. */
static int conclude(struct zkl__call *call, int rc)
{
    bool sent = clean_up(call);
    const char *before = !sent && call->unsent ? call->unsent : call->doubt;
    if (call->end) {
        rc = call->end(call, rc);
    }
    if (rc == ZKL_OK) {
        *call->err = (zkl_error){.code = ZKL_OK};
        return ZKL_OK;
    }
    const zkl_error why = *call->err;
    return zkl__fail(call->err, rc, why.zk_code, why.path[0] ? why.path : call->path, "%s%s",
                     before ? before : "", why.text);
}

/* ZKL__PENDING, or what it comes to, with words in call->err. */
static int go_on(struct zkl__call *call)
{
    const struct zkl__status *status = &call->session->status;
    call->again = call->deadline;
    int rc = call->run(call);
    if (rc != ZKL__PENDING) {
        return rc;
    }
    if (status->closing || status->state == ZKL_SESSION_CLOSED) {
        return zkl__fail_at(call->err, ZKL_ECLOSED, NULL, CLOSED);
    }
    if (call->ended) {
        return zkl__fail_at(call->err, ZKL_ECANCELED, NULL, "%s", call->ended);
    }
    if (zkl__clock_now() >= call->deadline) {
        return zkl__fail_at(call->err, call->late_code != ZKL_OK ? call->late_code : ZKL_ETIMEOUT,
                            NULL, "%s",
                            call->late ? call->late : "no response from the servers in time");
    }
    return ZKL__PENDING;
}

static void on_stop(void *owner)
{
    struct zkl__call *call = owner;
    call->ended = "the stop token is raised";
    call_poke(call);
}

static void unlink_call(struct zkl__call *call)
{
    zkl__list_remove(&call->session->calls, &call->in_session);
    if (call->owner) {
        zkl__list_remove(&call->owner->calls, &call->in_owner);
        zkl__object_unref(call->owner);
    }
}

/* --- asynchronous ---------------------------------------------------------------------------- */

/* Its result is in call->err then. */
static void finish(struct zkl__call *call, int rc)
{
    conclude(call, rc);
    call->over = true;
    zkl__alarms_set(&call->session->alarms, &call->alarm, INT64_MAX);
    zkl__timers_set(&call->session->turns, &call->turn, INT64_MAX);
    zkl__callbacks_post(&call->session->callbacks, &call->callback);
}

/* The ring of its alarm. */
static void go_on_later(void *owner)
{
    struct zkl__call *call = owner;
    zkl_session *session = call->session;
    int rc = go_on(call);
    if (rc != ZKL__PENDING) {
        finish(call, rc);
    } else {
        zkl__alarms_set(&session->alarms, &call->alarm, call->again);
    }
    zkl__session_arm(session);
}

/* Each once: what one of them brings to an earlier one, or to itself, rings the alarm again. */
void zkl__calls_go_on(void *owner)
{
    zkl_session *session = owner;
    int64_t last = 0, next = 0;
    while ((next = zkl__timers_next(&session->turns)) > last && next <= session->call_count) {
        struct zkl__timer *turn = zkl__timers_due(&session->turns, next);
        go_on_later(ZKL__OWNER(turn, struct zkl__call, turn));
        last = next;
    }
}

/* Session mutex not held. */
static void run_done(void *owner)
{
    struct zkl__call *call = owner;
    zkl_session *session = call->session;
    call->done(call->err->code, call->err, call->payload);
    if (zkl__session_enter_if_ours(session)) {
        unlink_call(call);
        zkl__free(&session->heap, call);
        zkl__session_drop(session);
        zkl__session_leave(session);
    }
}

/* --- a call begins --------------------------------------------------------------------------- */

void zkl__caller_waits(int code, const zkl_error *err, void *payload)
{
    (void)code, (void)err, (void)payload;
}

int zkl__call_begin(void *given, size_t size, zkl_session *session, const char *path,
                    int64_t timeout_ms, zkl_done_fn done, void *payload, zkl_error *err)
{
    struct zkl__call *call = given;
    bool waits = done == zkl__caller_waits;
    if (!waits) {
        const size_t length = strlen(path);
        call = zkl__alloc(&session->heap, size + length + 1);
        if (!call) {
            return zkl__fail_at(err, ZKL_ENOMEM, path, "no memory for the call");
        }
        memcpy(call, given, size);
        path = memcpy((char *)call + size, path, length + 1);
    }
    zkl__calls_go_on(session); /* those that were called before come first */
    call->session = session;
    call->number = ++session->call_count;
    call->path = path;
    call->call = call->part.call = call;
    call->deadline = zkl__session_deadline(timeout_ms);
    zkl__list_append(&session->calls, &call->in_session);
    if (call->owner) {
        call->owner->refs++;
        zkl__list_append(&call->owner->calls, &call->in_owner);
    }
    int rc = waits  ? ZKL_OK
             : done ? zkl__session_want_callbacks(session, NULL, call->err)
                    : zkl__fail_null(call->err, "done");
    rc = rc == ZKL_OK && call->begin ? call->begin(call) : rc;
    if (rc == ZKL_OK && !call->finishes) {
        rc = zkl__stops_begin(session, &call->stops, call->owner ? call->owner->stop : NULL,
                              on_stop, call, call->err);
    }
    if (rc == ZKL_OK && !waits) { /* the rest where alarms ring, and in run_done */
        call->done = done;
        call->payload = payload;
        call->alarm = (struct zkl__alarm){.ring = go_on_later, .owner = call};
        call->callback = (struct zkl__callback){.run = run_done, .owner = call};
        zkl__session_retain(session);
        go_on_later(call);
        return ZKL_OK;
    }
    if (rc == ZKL_OK) {
        zkl__signal_init(&call->news);
        call->blocking = true;
        while ((rc = go_on(call)) == ZKL__PENDING) {
            zkl__session_wait(session, &call->news, call->again);
        }
        rc = conclude(call, rc);
        zkl__signal_deinit(&call->news);
    } else {
        clean_up(call);
    }
    if (rc != ZKL_OK) {
        const zkl_error *why = call->err;
        zkl__fail(err, rc, why->zk_code, why->path[0] ? why->path : path, "%s", why->text);
    }
    unlink_call(call);
    if (!waits) {
        zkl__free(&session->heap, call);
    }
    return rc;
}

int zkl__call_go(void *given, size_t size, zkl_session *session, const char *path,
                 int64_t timeout_ms, zkl_done_fn done, void *payload, zkl_error *err)
{
    const struct zkl__call *call = given;
    int rc = session ? zkl__timeout_check(timeout_ms, err) : zkl__fail_null(err, "session");
    rc = rc == ZKL_OK && !call->owner && !call->any_path ? zkl__path_check(path, err) : rc;
    rc = rc == ZKL_OK ? zkl__session_enter(session, err) : rc;
    if (rc == ZKL_OK) {
        rc = zkl__call_begin(given, size, session, path, timeout_ms, done, payload, err);
        zkl__session_leave(session);
    }
    return rc;
}

/* --- from outside ---------------------------------------------------------------------------- */

void zkl__session_wake(zkl_session *session)
{
    ZKL__EACH (struct zkl__sleeper, sleeper, &session->sleepers, link) {
        zkl__signal_raise(sleeper->signal);
    }
    ZKL__EACH (struct zkl__call, call, &session->calls, in_session) {
        call_poke(call);
    }
}

void zkl__calls_poke(const struct zkl__object *owner)
{
    ZKL__EACH (struct zkl__call, call, &owner->calls, in_owner) {
        call_poke(call);
    }
}

bool zkl__calls_end(const struct zkl__object *owner, bool all)
{
    bool any = false;
    ZKL__EACH (struct zkl__call, call, &owner->calls, in_owner) {
        if (!call->over && !call->blocking && (all || !call->finishes)) {
            finish(call, zkl__fail_at(call->err, ZKL_ECANCELED, NULL, "cancelled"));
            any = true;
        } else if (call->blocking && all) { /* its caller's thread ends it */
            call->ended = "cancelled";
            zkl__stops_end(&call->stops);
            call_poke(call);
        }
    }
    return any;
}

void zkl__calls_close(zkl_session *session)
{
    ZKL__EACH (struct zkl__call, call, &session->calls, in_session) {
        if (!call->over && !call->blocking) {
            finish(call, zkl__fail_at(call->err, ZKL_ECLOSED, NULL, CLOSED));
        }
    }
}

void zkl__calls_finish(const struct zkl__object *owner)
{
    zkl_session *session = owner->session;
    struct zkl__callbacks *callbacks = &session->callbacks;
    if (!zkl__session_forked(session)) {
        zkl__calls_end(owner, true);
    }
    struct zkl__link *at = owner->calls.first;
    while (at && !zkl__session_forked(session)) {
        struct zkl__call *call = ZKL__OWNER(at, struct zkl__call, in_owner);
        at = at->next;
        if (call->over && !zkl__callbacks_inside(callbacks, &call->callback)) {
            zkl__callbacks_finish(callbacks, &call->callback);
            at = owner->calls.first;
        }
    }
}

/* --- requests -------------------------------------------------------------------------------- */

int zkl__call_refused(struct zkl__call *call, const char *what)
{
    const struct zkl__answer *answer = &call->answer;
    const char *path = call->parts[call->op.parts ? 1 : 0].dir;
    bool unsent = answer->rc == ZKL__RC_UNSENT;
    if (unsent || answer->rc == ZKL__RC_UNKNOWN) {
        return zkl__fail_at(call->err, ZKL_ECONNECT, path, "%s: %s", what,
                            unsent ? "there is no connection"
                                   : "the connection went before the answer came");
    }
    return zkl__fail(call->err, zkl__rc_code(answer->rc), answer->zk_code, path, "%s: %s", what,
                     zkl__rc_name(answer->rc));
}

void zkl__call_pause(struct zkl__call *call, int64_t *last)
{
    *last = zkl__backoff(*last, PAUSE_LEAST, PAUSE_MOST);
    call->requests.pause_to = zkl__clock_now() + *last;
}

static void on_done(struct zkl__request *request, const struct zkl__reply *reply)
{
    struct zkl__sent *sent = request->owner;
    struct zkl__call *call = sent->call;
    struct zkl__requests *requests = &call->requests;
    bool one = !sent->child;
    requests->flying--;
    requests->unsent = reply->rc == ZKL__RC_UNSENT ? reply->unsent : ZKL_OK;
    sent->state = ZKL__SENT_UNANSWERED;
    call->child = sent->child;
    if (one) {
        bool both = reply->part_count == 2;
        call->answer = (struct zkl__answer){reply->rc, reply->zk_code, reply->stat, reply->size,
                                            .parts = {both ? reply->parts[0].rc : reply->rc,
                                                      both ? reply->parts[1].rc : reply->rc}};
        if (reply->size > 0 && reply->size <= sizeof call->answer.data) {
            memcpy(call->answer.data, reply->data, reply->size);
        }
    }
    bool never = !one && requests->unsent == ZKL_EINVAL; /* no request has room for its path */
    if (reply->rc == ZKL__RC_NOTAPPLIED && !requests->once) {
        if (zkl__clock_now() >= requests->pause_to) { /* all on their way lengthen it once */
            zkl__call_pause(call, &requests->pause);
        }
    } else if (zkl__rc_is_response(reply->rc) || never) {
        requests->pause = 0;
        sent->state = ZKL__SENT_NONE;
        if (!one) {
            requests->some = true;
            zkl__child_judge(sent->child, reply);
        } else if (call->op.kind == ZKL__OP_CHILDREN &&
                   (reply->rc == ZKL__RC_OK || reply->rc == ZKL__RC_NONODE)) {
            (void)zkl__children_renew(&call->session->heap, &call->children, reply, call->counts);
        }
        if (requests->on_reply) {
            requests->on_reply(call, reply);
        }
    }
    /* A request that is refused while it is sent is tried again after RETRY_NS. An immediate retry
     * would go on for ever on the alarms' thread, which has the mutex that a new connection needs.
     */
    bool refused = requests->sending && reply->rc == ZKL__RC_UNSENT;
    if (requests->flying <= (one ? 0 : WINDOW / 2) && !refused) {
        call_poke(call);
    }
}

/* True: what is sent once was sent, and has no reply. */
static bool end_requests(struct zkl__call *call)
{
    struct zkl__requests *requests = &call->requests;
    bool sent = call->answer.rc == ZKL__RC_UNKNOWN;
    for (size_t i = 0; i < requests->window; i++) {
        if (requests->sent[i].state == ZKL__SENT_FLYING) {
            sent = zkl__request_forget(&requests->sent[i].request);
        }
    }
    if (requests->children) {
        zkl__free(&call->session->heap, requests->sent);
    }
    requests->window = 0;
    requests->children = NULL;
    return sent && requests->once;
}

/* Sends what there is room for, but in a pause. ZKL__PENDING, or the result of the AWAIT. */
static int go_on_sending(struct zkl__call *call)
{
    zkl_session *session = call->session;
    const struct zkl__status *status = &session->status;
    struct zkl__requests *requests = &call->requests;
    struct zkl__children *children = requests->children;
    int64_t now = zkl__clock_now();
    bool paused = now < requests->pause_to, over = paused || (requests->once && requests->tried);
    bool waiting = false; /* something is not on its way, for lack of an answer or a connection */
    for (size_t i = 0; i < requests->window;) {
        struct zkl__sent *sent = &requests->sent[i];
        if (sent->state == ZKL__SENT_NONE && children && requests->next < children->count) {
            sent->child = &children->all[requests->next];
            requests->next = zkl__children_unknown(children, requests->next + 1);
            sent->state = ZKL__SENT_UNANSWERED;
        }
        if (sent->state == ZKL__SENT_UNANSWERED && !over &&
            zkl__core_facts(session->core).connected) {
            if (sent->child) {
                call->op.name = sent->child->name;
            }
            sent->request = (struct zkl__request){.done = on_done, .owner = sent};
            sent->state = ZKL__SENT_FLYING;
            requests->flying++;
            requests->sending = true;
            zkl__session_event(session, (struct zkl__event){.kind = ZKL__EV_REQUEST,
                                                            .request = &sent->request,
                                                            .op = &call->op});
            requests->sending = false;
        }
        waiting = waiting || sent->state == ZKL__SENT_UNANSWERED;
        /* A name that no request has room for leaves its place to the next one. */
        bool unused = sent->state == ZKL__SENT_NONE && children;
        i += !unused || requests->next == children->count;
    }
    requests->tried |= !paused;
    /* When the session is closed, that is the reason. */
    bool open = !status->closing && status->state != ZKL_SESSION_CLOSED;
    bool one = waiting && !children && open;
    if (one && requests->unsent != ZKL_OK && requests->unsent != ZKL_ECONNECT) {
        FAIL(call, requests->unsent, "not sent: %s", zkl_strerror(requests->unsent));
    }
    if ((!waiting && requests->flying == 0) || (one && requests->once && requests->tried)) {
        end_requests(call);
        return ZKL_OK;
    }
    if (waiting && zkl__core_facts(session->core).connected) {
        int64_t again = paused ? requests->pause_to : now + RETRY_NS;
        call->again = again < call->deadline ? again : call->deadline;
    }
    call->late = paused || requests->pause > 0
                     ? "the servers asked to try again until the time was up"
                 : requests->some ? "the time was up before all of its children were read"
                                  : NULL;
    return ZKL__PENDING;
}

static void on_change(struct zkl__watch *watch, enum zkl__watch_event event)
{
    struct zkl__call *call = watch->owner;
    (void)event;
    call->changed = true;
    call_poke(call);
}

int zkl__call_send(struct zkl__call *call, struct zkl__children *children, bool once,
                   zkl__reply_fn on_reply, const struct zkl__op *ops, size_t count)
{
    struct zkl__requests *requests = &call->requests;
    struct zkl__op both = {.kind = ZKL__OP_MULTI, .parts = call->parts, .part_count = count};
    struct zkl__sent *sent = &requests->one;
    size_t window = 1, first = 0;
    if (requests->window > 0) {
        return go_on_sending(call);
    }
    if (children) {
        first = zkl__children_unknown(children, 0);
        if (first == children->count) {
            return ZKL_OK;
        }
        window = children->count < WINDOW ? children->count : WINDOW;
        sent = zkl__zalloc(&call->session->heap, window * sizeof *sent);
    } else {
        call->answer.rc = ZKL__RC_UNSENT;
    }
    if (!sent) {
        FAIL(call, ZKL_ENOMEM, "no memory for %zu children", children->count);
    }
    ZKL__ENSURE(count == 1 || count == 2);
    for (size_t i = 0; i < count; i++) {
        call->parts[i] = ops[i];
        call->parts[i].dir = ops[i].dir ? ops[i].dir : call->path;
    }
    call->op = count == 1 ? call->parts[0] : both;
    *requests = (struct zkl__requests){.children = children,
                                       .on_reply = on_reply,
                                       .once = once,
                                       .next = first,
                                       .sent = sent,
                                       .one = {.state = ZKL__SENT_UNANSWERED},
                                       .window = window,
                                       .pause_to = requests->pause_to};
    for (size_t i = 0; i < window; i++) {
        sent[i].call = call;
    }
    if (call->op.watch) { /* hears of the next change of the path, which lives until the end */
        const char *path = call->op.dir;
        struct zkl__watch *watch = call->watches;
        ZKL__ENSURE(!call->op.name);
        if (watch->entry.path && strcmp(watch->entry.path, path) != 0) {
            watch++;
        }
        if (!watch->entry.path) {
            *watch = (struct zkl__watch){.fired = on_change, .owner = call, .entry.path = path};
        }
        ZKL__ENSURE(strcmp(watch->entry.path, path) == 0);
        int rc = zkl__watch_add(call->session->core, watch, false);
        if (rc != ZKL_OK) {
            return zkl__fail_at(call->err, rc, path, "the session watches too much already");
        }
    }
    return go_on_sending(call);
}

/* --- changes --------------------------------------------------------------------------------- */

int zkl__call_changed(struct zkl__call *call)
{
    if (call->changed) {
        call->changed = false;
        return ZKL_OK;
    }
    if (call->session->status.stopping) {
        FAIL(call, ZKL_ECLOSED, "the session is being closed");
    }
    call->late = "the time is up";
    return ZKL__PENDING;
}

/* === a znode that the servers do not delete =================================================== */

/* When the reply to a create is lost, the copy finds the znode or the directory there. */
int zkl__make_persistent(struct zkl__call *call, char *level, const struct zkl__op *znode,
                         const char *keeper)
{
    const struct zkl__answer *answer = &call->answer;
    struct zkl__part *it = &call->part;
    CALL_BEGIN(it);
    do {
        /* The directories above, from below, since most often nothing is missing: up when the level
         * above is, then down. */
        zkl__path_join(level, ZKL_PATH_MAX + 1, call->path, NULL);
        zkl__path_shorten(level);
        while (strcmp(level, call->path) != 0) {
            AWAIT(it, {.kind = ZKL__OP_CREATE, .dir = level, .mode = ZKL__CONTAINER});
            if (answer->rc == ZKL__RC_OK || answer->rc == ZKL__RC_NODEEXISTS) {
                zkl__path_lengthen(level, call->path);
            } else if (answer->rc != ZKL__RC_NONODE) {
                RETURN(it, zkl__fail(call->err, zkl__rc_code(answer->rc), answer->zk_code, level,
                                     "cannot be created: %s", zkl__rc_why(answer->rc)));
            } else if (!zkl__path_shorten(level)) {
                FAIL_REPLY(it, ZKL_ENOENT, ZKL__NO_CHROOT);
            }
        }
        AWAIT(it, *znode);
        if (answer->rc == ZKL__RC_OK) {
            RETURN(it, ZKL_OK);
        }
        if (answer->rc == ZKL__RC_NONODE) {
            if (!zkl__path_shorten(level)) {
                FAIL_REPLY(it, ZKL_ENOENT, ZKL__NO_CHROOT);
            }
            continue; /* the directory above was deleted meanwhile */
        }
        if (answer->rc != ZKL__RC_NODEEXISTS) {
            REFUSED(it, "create");
        }
        AWAIT(it, {.kind = ZKL__OP_GET});
        if (answer->rc == ZKL__RC_OK && zkl__is_ephemeral(&answer->stat)) {
            FAIL(it, ZKL_ECONFLICT, "the znode there ends with its session");
        }
        if (answer->rc != ZKL__RC_OK || answer->size > 0) {
            continue;
        }
        /* It may be a container. */
        if (keeper) {
            AWAIT(it, {.kind = ZKL__OP_CREATE, .name = keeper, .mode = ZKL__PERSISTENT});
            /* Whoever made it may have made one that ends. */
            if (answer->rc == ZKL__RC_NODEEXISTS) {
                AWAIT(it, {.kind = ZKL__OP_DELETE, .name = keeper, .version = -1},
                      {.kind = ZKL__OP_CREATE, .name = keeper, .mode = ZKL__PERSISTENT});
            }
            if (answer->rc == ZKL__RC_NOTEMPTY) {
                FAIL(it, ZKL_ECONFLICT, "its child %s has children", keeper);
            }
        } else if (answer->stat.child_count == 0 && answer->stat.cversion != 0) {
            /* A delete takes whatever has its version, and a znode that somebody has made anew, or
             * a first copy of this transaction, has version 0. So another one is given first. */
            AWAIT(it, {.kind = ZKL__OP_SET, .version = answer->stat.version});
            if (answer->rc == ZKL__RC_OK && answer->stat.cversion != 0) {
                AWAIT(it, {.kind = ZKL__OP_DELETE, .version = answer->stat.version}, *znode);
            }
        }
        /* deleted or written meanwhile */
    } while (answer->rc == ZKL__RC_NONODE || answer->rc == ZKL__RC_BADVERSION);
    CHECK_REPLY(it, "the znode there may not be read, or not be made to last");
    CALL_END(it);
}

/* === the deletion of one znode ================================================================ */

/* ZooKeeper's delete knows a name and a version, and neither says which znode it is: any write
 * raises the version without making it another znode. So the znode is looked at before each delete,
 * and a delete is sent once. */
int zkl__remove(struct zkl__call *call, struct zkl__removal *removal)
{
    struct zkl__answer *answer = &call->answer;
    struct zkl__part *it = &call->part;
    CALL_BEGIN(it);
    for (;;) {
        AWAIT(it, {.kind = ZKL__OP_EXISTS, .name = removal->name});
        if (answer->rc != ZKL__RC_OK) {
            break;
        }
        removal->czxid = removal->czxid ? removal->czxid : answer->stat.czxid;
        if (answer->stat.czxid != removal->czxid) {
            answer->rc = ZKL__RC_NONODE;
            break;
        }
        AWAIT_ONCE(
            it, NULL,
            {.kind = ZKL__OP_DELETE, .name = removal->name, .version = answer->stat.version});
        if (!zkl__rc_is_response(answer->rc)) {
            removal->sent |= answer->rc == ZKL__RC_UNKNOWN;
            /* The reply is lost: the delete was carried out, or will be, or never. Behind a
             * committed write no earlier request of this session comes any more, so the next look
             * decides. A check is one, whatever its reply is: ZooKeeper commits a transaction that
             * failed as well (PrepRequestProcessor). */
            AWAIT(it, {.kind = ZKL__OP_CHECK, .version = -1});
        } else if (answer->rc == ZKL__RC_NOTAPPLIED) {
            zkl__call_pause(call, &removal->pause);
        } else if (answer->rc != ZKL__RC_BADVERSION) {
            break;
        }
    }
    if (removal->sent && answer->rc == ZKL__RC_NONODE) {
        answer->rc = ZKL__RC_OK;
    }
    CALL_END(it);
}
