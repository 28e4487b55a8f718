/* election.c - leader election: candidates queue, and the first one leads. A candidate, a function
 * that runs while its candidate leads, the published value, and observers of the leader. */

#include "handle.h"
#include "name.h"

#include <zklock/election.h>

#include <string.h>

/* === the election ============================================================================= */

/* Curator's LeaderLatch: _c_<uuid>-latch-<ten digits>. */
static const struct zkl__rule rule = {"latch-", ZKL__KIND_ANY};

struct candidate {
    zkl_lock lock;     /* first */
    int64_t published; /* the number of the call that made its metadata; 0: zkl_election_new */
    bool publishing;   /* a call writes a value */
};

static const struct zkl__recipe election = {
    .noun = "election",
    .id = ZKL_RECIPE_ELECTION,
    .size = sizeof(struct candidate),
    .rule = &rule,
};

int zkl_election_new(zkl_lock **out, zkl_session *session, const char *path,
                     const zkl_lock_options *options, zkl_error *err)
{
    return zkl__lock_make(out, &election, session, &path, 1, options, err);
}

/* === the campaign ============================================================================= */

/* zkl_election_stand: a candidate that acquires, leads, loses, and acquires again.
 *
 * Every change posts one callback, which acts on the current state. It calls the user, and goes on
 * only when the user's function has returned. So no two terms of one candidate overlap, and an
 * event loop that dispatches callbacks runs the whole campaign in its one thread. */

struct zkl__campaign {
    int line; /* where it goes on */
    zkl_lock *lock;
    zkl_election_state_fn changed;
    void *payload;
    struct zkl__callback callback;
    struct zkl__retry next; /* of an acquire that failed */
    struct zkl__stops stops;
    struct zkl__acquisition *acquisition;     /* with a reference; NULL between two acquires */
    enum { CAMPAIGNS, LEAVES, ENDED } target; /* ENDED: the user had the last call */
    int code;                                 /* of the last call, when it leaves */
    const char *why;                          /* and its text */
    /* The user's function is to be called, or runs, with these: */
    bool reports;
    zkl_state state; /* HELD or JEOPARDY while the user leads */
    int64_t token;
    zkl_error err;
};

void zkl__campaign_wake(zkl_lock *lock)
{
    if (lock->campaign) {
        zkl__callbacks_post(&lock->session->callbacks, &lock->campaign->callback);
    }
}

static void on_next(void *owner)
{
    zkl__campaign_wake(((struct zkl__campaign *)owner)->lock);
}

bool zkl__campaign_end(zkl_lock *lock, int code, const char *why)
{
    struct zkl__campaign *campaign = lock->campaign;
    if (!campaign || campaign->target == ENDED) {
        return false;
    }
    if (campaign->target == CAMPAIGNS || code == ZKL_OK) {
        campaign->target = LEAVES;
        campaign->code = code;
        campaign->why = why;
    }
    zkl__campaign_wake(lock);
    return true;
}

static void on_stop(void *owner)
{
    const struct zkl__campaign *campaign = owner;
    zkl__campaign_end(campaign->lock, ZKL_ECANCELED, "the stop token is raised");
}

/* --- decisions: session mutex held ----------------------------------------------------------- */

/* Cancels a pending acquire, and releases a held lock. */
static void withdraw(struct zkl__campaign *campaign)
{
    struct zkl__acquisition *acquisition = campaign->acquisition;
    campaign->acquisition = NULL;
    if (acquisition) {
        zkl__acquisition_withdraw(acquisition);
        zkl__acquisition_unref(acquisition);
    }
}

/* ZKL_STATE_IDLE: the end of the campaign. */
static void report(struct zkl__campaign *campaign, zkl_state state)
{
    campaign->reports = true;
    campaign->state = state;
    campaign->token = state == ZKL_STATE_IDLE ? 0 : campaign->acquisition->token;
    campaign->err = (zkl_error){.code = ZKL_OK};
}

static void report_end(struct zkl__campaign *campaign, int code, int zk_code, const char *why)
{
    report(campaign, ZKL_STATE_IDLE);
    campaign->target = ENDED;
    if (code != ZKL_OK) {
        zkl__fail(&campaign->err, code, zk_code, campaign->lock->path, "%s", why);
    }
}

/* After a failed acquire: schedules another one, or ends the campaign. */
static void try_again(struct zkl__campaign *campaign, int code, int zk_code, const char *why)
{
    zkl_class class = zkl_error_class(code);
    if (code == ZKL_ECANCELED || (class != ZKL_CLASS_RETRY && class != ZKL_CLASS_LOST)) {
        report_end(campaign, code, zk_code, why);
    } else {
        zkl__retry_later(campaign->lock->session, &campaign->next);
    }
}

/* Of the acquire that was granted. */
static zkl_state term_state(const struct zkl__campaign *campaign)
{
    const struct zkl__acquisition *acquisition = campaign->acquisition;
    zkl_state held = acquisition->jeopardy ? ZKL_STATE_JEOPARDY : ZKL_STATE_HELD;
    return zkl__acquisition_holds(acquisition) ? held : ZKL_STATE_LOST;
}

/* Term after term: until there is something to report, or to wait for (call.h). */
static int campaign_on(struct zkl__campaign *it)
{
    zkl_lock *lock = it->lock;
    zkl_error err;
    int rc;
    CALL_BEGIN(it);
    for (;;) {
        AWAIT_UNTIL(it, it->target == CAMPAIGNS && !it->next.alarm.timer.set);
        it->state = ZKL_STATE_WAITING;
        lock->campaign_acquires = true; /* any other acquire of this object is refused now */
        rc = zkl__acquisition_begin(&it->acquisition, lock, 1, ZKL_WAIT_FOREVER, NULL, &err);
        lock->campaign_acquires = false;
        if (rc != ZKL_OK) {
            try_again(it, rc, 0, err.text);
            continue;
        }
        AWAIT_UNTIL(it, it->acquisition->settled);
        if (!it->acquisition->granted) {
            try_again(it, it->acquisition->code, it->acquisition->zk_code, it->acquisition->why);
            withdraw(it);
            continue;
        }
        it->next.pause = 0;
        for (;;) {
            AWAIT_UNTIL(it, !it->reports && term_state(it) != it->state);
            if (term_state(it) == ZKL_STATE_LOST) {
                break;
            }
            report(it, term_state(it));
        }
        /* Lost, and not released by the user, who has led. */
        if (lock->acquisition == it->acquisition && it->state != ZKL_STATE_WAITING) {
            report(it, ZKL_STATE_LOST);
            zkl__fail_at(&it->err, ZKL_ELOST, lock->path, "%s", it->acquisition->why);
        }
        /* It is released when the user's call has returned. */
        AWAIT_UNTIL(it, !it->reports);
        withdraw(it);
    }
    CALL_END(it);
}

/* --- reports: session mutex not held --------------------------------------------------------- */

static void run(void *owner)
{
    struct zkl__campaign *campaign = owner;
    zkl_lock *lock = campaign->lock;
    zkl_session *session = lock->session;
    if (!zkl__session_enter_if_ours(session)) {
        return;
    }
    if (campaign->reports) { /* a free within the user's function: the outer call goes on */
        zkl__session_leave(session);
        return;
    }
    lock->object.refs++;
    for (;;) {
        campaign->reports = false;
        if (campaign->target == CAMPAIGNS) {
            campaign_on(campaign);
        } else if (campaign->target != ENDED) {
            report_end(campaign, campaign->code, 0, campaign->why);
        }
        if (!campaign->reports) {
            break;
        }
        zkl__session_leave(session);
        campaign->changed(lock, campaign->state, campaign->token, &campaign->err,
                          campaign->payload);
        if (!zkl__session_enter_if_ours(session)) {
            return;
        }
    }
    if (campaign->target == ENDED) {
        lock->campaign = NULL; /* what follows must not wake it */
        withdraw(campaign);
        zkl__callbacks_unpost(&session->callbacks, &campaign->callback);
        zkl__stops_end(&campaign->stops);
        zkl__alarms_set(&session->alarms, &campaign->next.alarm, INT64_MAX);
        zkl__free(&session->heap, campaign);
    }
    zkl__object_unref(&lock->object);
    zkl__session_leave(session);
}

/* --- public calls ---------------------------------------------------------------------------- */

int zkl_election_stand(zkl_lock *lock, zkl_election_state_fn changed, void *payload, zkl_error *err)
{
    struct zkl__campaign *campaign = NULL;
    int rc = zkl__lock_check(lock, &election, err);
    if (rc == ZKL_OK && !changed) {
        rc = zkl__fail_null(err, "changed");
    }
    rc = rc == ZKL_OK ? zkl__session_enter(lock->session, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = lock->session;
    if (lock->object.freed) {
        rc = zkl__fail_freed(err, lock->path);
    } else if (lock->campaign || lock->acquisition || lock->run) {
        rc = zkl__fail_at(err, ZKL_EDEADLK, lock->path,
                          "this object stands already, or an acquire or a run of it is under way");
    } else {
        rc = zkl__session_want_callbacks(session, lock->path, err);
    }
    if (rc == ZKL_OK) {
        campaign = zkl__alloc(&session->heap, sizeof *campaign);
        rc = campaign
                 ? ZKL_OK
                 : zkl__fail_at(err, ZKL_ENOMEM, lock->path, "no memory to stand for election");
    }
    if (rc == ZKL_OK) {
        *campaign = (struct zkl__campaign){.lock = lock,
                                           .changed = changed,
                                           .payload = payload,
                                           .callback = {.run = run, .owner = campaign},
                                           .next.alarm = {.ring = on_next, .owner = campaign}};
        rc = zkl__stops_begin(session, &campaign->stops, lock->object.stop, on_stop, campaign, err);
    }
    if (rc == ZKL_OK) {
        lock->campaign = campaign;
        zkl__campaign_wake(lock);
    } else {
        zkl__free(&session->heap, campaign);
    }
    zkl__session_leave(session);
    return rc;
}

int zkl_election_leave(zkl_lock *lock, zkl_error *err)
{
    int rc = zkl__lock_check(lock, &election, err);
    rc = rc == ZKL_OK ? zkl__session_enter(lock->session, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    if (!zkl__campaign_end(lock, ZKL_OK, NULL)) {
        rc = zkl__fail_at(err, ZKL_ENOTWAITING, lock->path, "this candidate does not stand");
    }
    zkl__session_leave(lock->session);
    return rc;
}

void zkl__campaign_finish(zkl_lock *lock)
{
    struct zkl__campaign *campaign = lock->campaign;
    zkl__campaign_end(lock, ZKL_OK, NULL);
    if (campaign) {
        zkl__callbacks_finish(&lock->session->callbacks, &campaign->callback);
    }
}

/* === a term, as its leader sees it =============================================================
 */

/* --- run while leader ------------------------------------------------------------------------ */

/* Runs term after term, until the function returns a result or no further term can follow. */
int zkl_election_run(zkl_lock *lock, int64_t margin_ms, zkl_section_fn lead, void *payload,
                     int *result, zkl_error *err)
{
    zkl_cancel cancel;
    int rc = zkl__lock_check(lock, &election, err);
    if (rc == ZKL_OK && !lead) {
        rc = zkl__fail_null(err, "lead");
    }
    rc = rc == ZKL_OK ? zkl__section_init(&cancel, lock, margin_ms, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    rc = zkl__session_enter(lock->session, err);
    if (rc == ZKL_OK) {
        if (lock->run || lock->acquisition || lock->campaign) {
            rc = zkl__fail_at(err, ZKL_EDEADLK, lock->path,
                              "an acquire or a run of this object is under way");
        } else {
            // cppcheck-suppress autoVariables ; it is NULL again before this returns
            lock->run = &cancel;
        }
        zkl__session_leave(lock->session);
    }
    if (rc == ZKL_OK) {
        bool keeps_on = lock->options.on_expiry == ZKL_ON_EXPIRY_REQUEUE;
        zkl_error last;
        int value = 0;
        do {
            rc = zkl__section_run(&cancel, ZKL_WAIT_FOREVER, lead, payload, &value, &last);
        } while (value == 0 && (cancel.ran || (rc == ZKL_ELOST && keeps_on)));
        if (value != 0 && result) {
            *result = value;
        }
        if (rc != ZKL_OK && err) {
            *err = last;
        }
        if (zkl__session_enter_if_ours(lock->session)) {
            lock->run = NULL;
            lock->refuses_acquires = false;
            zkl__session_leave(lock->session);
        }
    }
    zkl__section_deinit(&cancel);
    return rc;
}

/* --- the value ------------------------------------------------------------------------------- */

struct publishing {
    struct zkl__call call; /* first */
    const char *given;     /* the user's memory, until the call has begun */
    /* The call's block is our copy; later acquires of the candidate publish it, too. */
    char node[ZKL__NAME_MAX];
    int64_t token;
    bool writes;
};

/* A request to release that stands in the znode is reported before the value is written over it. */
static void on_own_node(struct zkl__call *call, const struct zkl__reply *reply)
{
    const struct publishing *publishing = (const struct publishing *)call;
    zkl_lock *lock = (zkl_lock *)call->owner;
    if (reply->rc == ZKL__RC_OK && zkl__lock_status_locked(lock).token == publishing->token &&
        zkl__contender_revoked((struct zkl__contender *)lock->acquisition->machine, reply)) {
        lock->revoked = true;
        zkl__object_post(&lock->object);
    }
}

/* A value is written again when the reply is lost, or when the servers ask for that, also behind
 * the end of the call. So one call of a candidate writes at a time: the next one's request is
 * answered behind whatever was sent before it. */
static int run_publish(struct zkl__call *call)
{
    struct publishing *publishing = (struct publishing *)call;
    zkl_lock *lock = (zkl_lock *)call->owner;
    struct candidate *candidate = (struct candidate *)lock;
    const struct zkl__answer *answer = &call->answer;
    CALL_BEGIN(call);
    AWAIT_UNTIL(call, !candidate->publishing);
    if (call->number < candidate->published) {
        return ZKL_OK; /* a later call's value stands */
    }
    candidate->publishing = publishing->writes = true;
    do {
        if (lock->options.revoke_fn) {
            AWAIT_REPLY(call, on_own_node, {.kind = ZKL__OP_GET, .name = publishing->node});
        }
        AWAIT(call,
              {.kind = ZKL__OP_SET,
               .name = publishing->node,
               .data = call->block,
               .size = strlen(call->block),
               .version = lock->options.revoke_fn && answer->rc == ZKL__RC_OK ? answer->stat.version
                                                                              : -1});
    } while (answer->rc == ZKL__RC_BADVERSION); /* a request to release has come meanwhile */
    if (answer->rc == ZKL__RC_NONODE || zkl__lock_status_locked(lock).token != publishing->token) {
        FAIL_REPLY(call, ZKL_ELOST, "leadership was lost meanwhile");
    }
    if (answer->rc != ZKL__RC_OK) {
        FAIL_REPLY(call, zkl__rc_code(answer->rc), "%s", zkl__rc_why(answer->rc));
    }
    candidate->published = call->number;
    zkl__free(&call->session->heap, lock->options.metadata);
    lock->options.metadata = call->block;
    call->block = NULL;
    CALL_END(call);
}

static int end_publish(struct zkl__call *call, int rc)
{
    if (((struct publishing *)call)->writes) {
        ((struct candidate *)call->owner)->publishing = false;
        zkl__calls_poke(call->owner);
    }
    return rc;
}

static int begin_publish(struct zkl__call *call)
{
    struct publishing *publishing = (struct publishing *)call;
    struct zkl__lock_status now = zkl__lock_status_locked((zkl_lock *)call->owner);
    if (now.token == 0) {
        FAIL(call, ZKL_ENOTHELD, "only the leader publishes a value");
    }
    call->block = zkl__copy_text(&call->session->heap, publishing->given);
    if (!call->block) {
        FAIL(call, ZKL_ENOMEM, "no memory for the value");
    }
    publishing->token = now.token;
    zkl__name_copy(publishing->node, now.node);
    return ZKL_OK;
}

int zkl_election_publish_async(zkl_lock *lock, const char *value, int64_t timeout_ms,
                               zkl_done_fn done, void *payload, zkl_error *err)
{
    struct publishing given = {.call = {.run = run_publish,
                                        .begin = begin_publish,
                                        .end = end_publish,
                                        .owner = (struct zkl__object *)lock},
                               .given = value};
    int rc = zkl__lock_check(lock, &election, err);
    if (rc == ZKL_OK && !value) {
        rc = zkl__fail_null(err, "value");
    }
    rc = rc == ZKL_OK ? zkl__text_check("value", value, err) : rc;
    return rc == ZKL_OK ? zkl__call_go(&given, sizeof given, lock->session, lock->path, timeout_ms,
                                       done, payload, err)
                        : rc;
}

int zkl_election_publish(zkl_lock *lock, const char *value, int64_t timeout_ms, zkl_error *err)
{
    return zkl_election_publish_async(lock, value, timeout_ms, zkl__caller_waits, NULL, err);
}

/* === observing ================================================================================ */

/* Reports each change of the leader. protocol/watcher.c reads the leader. */

struct view {
    zkl_leader leader; /* its strings follow */
    bool has_leader;
};

struct zkl_election_observer {
    struct zkl__object object; /* first */
    struct zkl__observer machine;
    zkl_election_changed_fn changed;
    void *payload;
};

static bool same(const void *some, const void *other)
{
    const struct view *a = some, *b = other;
    const zkl_leader *x = &a->leader, *y = &b->leader;
    return a->has_leader == b->has_leader && x->token == y->token && x->readable == y->readable &&
           strcmp(x->node, y->node) == 0 && x->value_size == y->value_size &&
           memcmp(x->value, y->value, x->value_size) == 0;
}

/* In a step. */
static bool on_leader(void *owner, const struct zkl__leader *leader)
{
    struct zkl_election_observer *observer = owner;
    const char *name = leader->node ? leader->node : "";
    size_t size = leader->size < ZKL_DATA_MAX ? leader->size : ZKL_DATA_MAX;
    struct view *view =
        zkl__zalloc(&observer->object.session->heap, sizeof *view + strlen(name) + 1 + size + 1);
    if (!view) {
        return false;
    }
    char *value = (char *)(view + 1);
    const char *node = zkl__text_put(&value, name);
    if (size > 0) {
        memcpy(value, leader->data, size);
    }
    view->has_leader = leader->node;
    view->leader = (zkl_leader){.node = node,
                                .token = leader->stat.czxid,
                                .session_id = leader->stat.ephemeral_owner,
                                .value = value,
                                .value_size = size,
                                .readable = leader->readable};
    zkl__object_see(&observer->object, view);
    return true;
}

static void on_change(struct zkl__object *object)
{
    struct zkl_election_observer *observer = (struct zkl_election_observer *)object;
    const struct view *news = zkl__object_news(object, same);
    if (news) {
        observer->changed(observer, news->has_leader ? &news->leader : NULL, observer->payload);
    }
}

static const struct zkl__object_ops ops = {.report = on_change};

int zkl_election_observe(zkl_election_observer **out, zkl_session *session, const char *path,
                         zkl_election_changed_fn changed, void *payload, zkl_error *err)
{
    ZKL__CLEAR(out);
    if (!out || !changed) {
        return zkl__fail_null(err, out ? "changed" : "out");
    }
    struct zkl__object *object;
    int rc =
        zkl__object_new(&object, sizeof(zkl_election_observer), &ops, session, path, true, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_election_observer *observer = (zkl_election_observer *)object;
    observer->changed = changed;
    observer->payload = payload;
    observer->machine.watcher.dir = object->path;
    observer->machine.show = on_leader;
    object->watcher = &observer->machine.watcher;
    zkl__watcher_begin(object->watcher, session->core, &zkl__observer_ops, observer);
    *out = observer; /* before changed can be called with it */
    zkl__object_wake(object);
    zkl__session_leave(session);
    return ZKL_OK;
}

void zkl_election_observer_free(zkl_election_observer *observer)
{
    zkl__object_free((struct zkl__object *)observer, false);
}
