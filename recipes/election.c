/* election.c - the candidate: the first in the queue leads. */

#include "agent.h"
#include "error.h"
#include "heap.h"
#include "lock.h"
#include "name.h"
#include "observer.h"
#include "section.h"
#include "text.h"

#include <zklock/election.h>

#include <string.h>

/* Defined below. */
static int election_check(const zkl_lock *lock, zkl_error *err);

/* === standing ================================================================================= */

/* A candidate that stands again and again: campaign, lead, lost, campaign.
 *
 * What happens is noted inside a step, and one callback follows, which acts on the present state:
 * it calls the user, and only when that call has returned it goes on. So no two terms of one
 * candidate overlap, and an event loop that dispatches callbacks does all of it in its one
 * thread. */

struct zkl__stand {
    zkl_lock *lock;
    zkl_election_state_fn told;
    void *payload;
    struct zkl__callback callback;
    struct zkl__retry next; /* campaign, after a failed one */
    struct zkl__stops stops;
    struct zkl__acquisition *acquisition; /* with a reference; NULL between two campaigns */
    zkl_state said;                       /* HELD or JEOPARDY while the user leads, else WAITING */
    enum { STANDS, LEAVES, STOPPED, ENDED } wish; /* ENDED: the last call was made */
    bool runs;                                    /* its callback is in the user's function */
};

/* The state that the next callback reports to the user. */
struct saying {
    zkl_state state;
    int64_t token;
    zkl_error err;
};

void zkl__stand_poke(zkl_lock *lock)
{
    if (lock->stand) {
        zkl__callbacks_post(zkl__session_callbacks(lock->session), &lock->stand->callback);
    }
}

static void on_next(void *owner)
{
    zkl__stand_poke(((struct zkl__stand *)owner)->lock);
}

static void on_stop(void *owner)
{
    struct zkl__stand *stand = owner;
    stand->wish = stand->wish == STANDS ? STOPPED : stand->wish;
    zkl__stand_poke(stand->lock);
}

/* --- deciding: inside ------------------------------------------------------------------------ */

/* What is pending is cancelled, what is held released. */
static void withdraw(struct zkl__stand *stand)
{
    zkl_lock *lock = stand->lock;
    struct zkl__acquisition *acquisition = stand->acquisition;
    if (!acquisition) {
        return;
    }
    stand->acquisition = NULL;
    if (lock->acquisition == acquisition && acquisition->settled) {
        zkl__acquisition_drop(lock);
    } else if (lock->acquisition == acquisition) {
        zkl__acquisition_cancel(acquisition, ZKL_ECANCELED);
    }
    zkl__acquisition_unref(acquisition);
}

static bool say_end(struct zkl__stand *stand, struct saying *saying, int code, int zk_code,
                    const char *why)
{
    saying->state = ZKL_STATE_IDLE;
    saying->err = (zkl_error){.code = ZKL_OK};
    if (code != ZKL_OK) {
        zkl__fail(&saying->err, code, zk_code, stand->lock->path, "%s", why);
    }
    stand->wish = ENDED;
    return true;
}

/* Ends the candidacy, or schedules another acquire, after one that failed. */
static bool campaign_failed(struct zkl__stand *stand, struct saying *saying, int code, int zk_code,
                            const char *why)
{
    zkl_class class = zkl_error_class(code);
    if (code == ZKL_ECANCELED || (class != ZKL_CLASS_RETRY && class != ZKL_CLASS_LOST)) {
        return say_end(stand, saying, code, zk_code, why);
    }
    zkl__retry_later(stand->lock->session, &stand->next);
    return false;
}

static bool campaign(struct zkl__stand *stand, struct saying *saying)
{
    zkl_error err;
    stand->said = ZKL_STATE_WAITING;
    if (stand->next.alarm.timer.set) {
        return false;
    }
    stand->lock->standing = true; /* else an acquire of this object is refused while it stands */
    int rc = zkl__acquisition_begin(&stand->acquisition, stand->lock, 1, &err);
    stand->lock->standing = false;
    if (rc != ZKL_OK) {
        stand->acquisition = NULL;
        return campaign_failed(stand, saying, rc, 0, err.text);
    }
    zkl__acquisition_start(stand->acquisition, ZKL_WAIT_FOREVER);
    return false; /* its end posts the callback */
}

/* It was granted, and is held no longer. */
static bool term_over(struct zkl__stand *stand, struct saying *saying)
{
    struct zkl__acquisition *acquisition = stand->acquisition;
    bool lost = stand->lock->acquisition == acquisition;
    if (lost && stand->said != ZKL_STATE_WAITING) {
        stand->said = ZKL_STATE_WAITING; /* released when this call has returned */
        saying->state = ZKL_STATE_LOST;
        saying->token = acquisition->token;
        zkl__fail(&saying->err, ZKL_ELOST, 0, stand->lock->path, "%s", acquisition->why);
        return true;
    }
    int code = lost ? ZKL_OK : acquisition->code;
    withdraw(stand);
    return code == ZKL_OK ? campaign(stand, saying) /* lost, or released by its user */
                          : say_end(stand, saying, code, 0, "given up with all of the session");
}

/* True: there is something to say. */
static bool decide(struct zkl__stand *stand, struct saying *saying)
{
    const struct zkl__acquisition *acquisition = stand->acquisition;
    *saying = (struct saying){.state = ZKL_STATE_IDLE};
    if (stand->wish == LEAVES) {
        return say_end(stand, saying, ZKL_OK, 0, NULL);
    }
    if (stand->wish == STOPPED) {
        return say_end(stand, saying, ZKL_ECANCELED, 0, "the stop token is raised");
    }
    if (!acquisition) {
        return campaign(stand, saying);
    }
    if (!acquisition->settled) {
        return false;
    }
    if (!acquisition->granted) {
        int code = acquisition->code, zk_code = acquisition->zk_code;
        const char *why = acquisition->why;
        withdraw(stand);
        return campaign_failed(stand, saying, code, zk_code, why);
    }
    if (!zkl__acquisition_holds(acquisition)) {
        return term_over(stand, saying);
    }
    stand->next.pause = 0;
    saying->state = acquisition->jeopardy ? ZKL_STATE_JEOPARDY : ZKL_STATE_HELD;
    saying->token = acquisition->token;
    bool news = saying->state != stand->said;
    stand->said = saying->state;
    return news;
}

/* --- telling: not inside --------------------------------------------------------------------- */

static void destroy(struct zkl__stand *stand)
{
    zkl_lock *lock = stand->lock;
    lock->stand = NULL; /* what follows is no news to it */
    withdraw(stand);
    zkl__callbacks_unpost(zkl__session_callbacks(lock->session), &stand->callback);
    zkl__stops_end(lock->session, &stand->stops);
    zkl__retry_stop(lock->session, &stand->next);
    zkl__free(zkl__session_heap(lock->session), stand);
}

static void run(void *owner)
{
    struct zkl__stand *stand = owner;
    zkl_lock *lock = stand->lock;
    zkl_session *session = lock->session;
    struct saying saying;
    if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
        return;
    }
    if (stand->runs) { /* called again inside itself, by a free: who is in it goes on */
        zkl__session_leave(session);
        return;
    }
    zkl__lock_ref(lock);
    while (stand->wish != ENDED && decide(stand, &saying)) {
        stand->runs = true;
        zkl__session_leave(session);
        stand->told(lock, saying.state, saying.token, &saying.err, stand->payload);
        if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
            return;
        }
        stand->runs = false;
    }
    if (stand->wish == ENDED) {
        destroy(stand);
    }
    zkl__lock_unref(lock);
    zkl__session_leave(session);
}

/* --- what the user calls --------------------------------------------------------------------- */

/* Inside. */
static int make(zkl_lock *lock, zkl_election_state_fn told, void *payload, zkl_error *err)
{
    zkl_session *session = lock->session;
    if (lock->stand || lock->acquisition || lock->run) {
        return zkl__fail(err, ZKL_EDEADLK, 0, lock->path,
                         "this object stands already, or an acquire or a run of it is under way");
    }
    if (zkl__callbacks_want(zkl__session_callbacks(session)) != ZKL_OK) {
        return zkl__fail(err, ZKL_ELIMIT, 0, lock->path, "no thread for callbacks");
    }
    struct zkl__stand *stand = zkl__zalloc(zkl__session_heap(session), sizeof *stand);
    if (!stand) {
        return zkl__fail(err, ZKL_ENOMEM, 0, lock->path, "no memory to stand for election");
    }
    stand->lock = lock;
    stand->told = told;
    stand->payload = payload;
    stand->said = ZKL_STATE_WAITING;
    stand->callback = (struct zkl__callback){.run = run, .owner = stand};
    stand->next.alarm.ring = on_next;
    stand->next.alarm.owner = stand;
    int rc = zkl__stops_begin(session, &stand->stops, lock->options.stop, on_stop, stand, err);
    if (rc != ZKL_OK) {
        zkl__free(zkl__session_heap(session), stand);
        return rc;
    }
    lock->stand = stand;
    zkl__stand_poke(lock);
    return ZKL_OK;
}

int zkl_election_stand(zkl_lock *lock, zkl_election_state_fn told, void *payload, zkl_error *err)
{
    int rc = election_check(lock, err);
    if (rc == ZKL_OK && !told) {
        rc = zkl__fail(err, ZKL_EINVAL, 0, NULL, "told is NULL");
    }
    rc = rc == ZKL_OK ? zkl__session_enter(lock->session, err) : rc;
    if (rc == ZKL_OK) {
        rc = make(lock, told, payload, err);
        zkl__session_leave(lock->session);
    }
    return rc;
}

int zkl_election_leave(zkl_lock *lock, zkl_error *err)
{
    int rc = election_check(lock, err);
    rc = rc == ZKL_OK ? zkl__session_enter(lock->session, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    if (lock->stand && lock->stand->wish != ENDED) {
        lock->stand->wish = LEAVES;
        zkl__stand_poke(lock);
    } else {
        rc = zkl__fail(err, ZKL_ENOTWAITING, 0, lock->path, "this candidate does not stand");
    }
    zkl__session_leave(lock->session);
    return rc;
}

void zkl__stand_finish(zkl_lock *lock)
{
    struct zkl__stand *stand = lock->stand;
    if (!stand) {
        return;
    }
    stand->wish = stand->wish == ENDED ? ENDED : LEAVES;
    zkl__stand_poke(lock);
    if (!zkl__callbacks_inside(zkl__session_callbacks(lock->session), &stand->callback)) {
        zkl__callbacks_finish(zkl__session_callbacks(lock->session), &stand->callback);
    }
}

/* === the election ============================================================================= */

/* Curator's LeaderLatch: _c_<uuid>-latch-<ten digits>. */
static const struct zkl__rule rule = {"latch-", ZKL__KIND_ANY};

static const struct zkl__recipe election = {
    .object = {.noun = "election", .give_up = zkl__lock_give_up, .describe = zkl__lock_describe},
    .id = ZKL_RECIPE_ELECTION,
    .size = sizeof(zkl_lock),
    .takes = ZKL__TAKES_RECURSIVE | ZKL__TAKES_RECOVER | ZKL__TAKES_REVOKE_FN |
             ZKL__TAKES_POSITION | ZKL__TAKES_DELAY,
    .rule = &rule,
};

int zkl_election_new(zkl_lock **out, zkl_session *session, const char *path,
                     const zkl_lock_options *options, zkl_error *err)
{
    return zkl__lock_make(out, &election, session, &path, 1, options, err);
}

/* election.c: ZKL_EINVAL when it is no election. */
static int election_check(const zkl_lock *lock, zkl_error *err)
{
    return zkl__lock_check(lock, &election, err);
}

/* --- run while leader ------------------------------------------------------------------------ */

static int begin_run(zkl_lock *lock, zkl_cancel *cancel, zkl_error *err)
{
    int rc = zkl__session_enter(lock->session, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    if (lock->run || lock->acquisition || lock->stand) {
        rc = zkl__fail(err, ZKL_EDEADLK, 0, lock->path,
                       "an acquire or a run of this object is under way");
    } else {
        lock->run = cancel;
    }
    zkl__session_leave(lock->session);
    return rc;
}

static void end_run(zkl_lock *lock)
{
    if (zkl__session_enter_even_closed(lock->session, NULL) == ZKL_OK) {
        lock->run = NULL;
        lock->barred = false;
        zkl__session_leave(lock->session);
    }
}

/* Terms, until one ends it or no campaign can follow. */
static int run_terms(zkl_lock *lock, zkl_section_fn lead, void *payload, int *result,
                     zkl_error *err)
{
    zkl_cancel *cancel = lock->run;
    bool keeps_on = lock->options.on_expiry == ZKL_ON_EXPIRY_REQUEUE;
    zkl_error last;
    int rc, value = 0;
    do {
        rc = zkl__section_run(cancel, ZKL_WAIT_FOREVER, lead, payload, &value, &last);
    } while (value == 0 && (cancel->ran || (rc == ZKL_ELOST && keeps_on)));
    if (value != 0 && result) {
        *result = value;
    }
    if (rc != ZKL_OK && err) {
        *err = last;
    }
    return rc;
}

int zkl_election_run(zkl_lock *lock, int64_t margin_ms, zkl_section_fn lead, void *payload,
                     int *result, zkl_error *err)
{
    zkl_cancel cancel;
    int rc = zkl__lock_check(lock, &election, err);
    if (rc == ZKL_OK && !lead) {
        rc = zkl__fail(err, ZKL_EINVAL, 0, NULL, "lead is NULL");
    }
    rc = rc == ZKL_OK ? zkl__section_init(&cancel, lock, margin_ms, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    rc = begin_run(lock, &cancel, err);
    if (rc == ZKL_OK) {
        rc = run_terms(lock, lead, payload, result, err);
        end_run(lock);
    }
    zkl__section_deinit(&cancel);
    return rc;
}

/* --- the value ------------------------------------------------------------------------------- */

struct publishing {
    struct zkl__call call; /* first */
    zkl_lock *lock;
    const char *given; /* the user's memory, until it has begun */
    char *value;       /* ours; of later campaigns, too, once it is published */
    char node[ZKL__NAME_MAX];
    int64_t token;
};

/* When the reply is lost, the same value is written again: the znode is the leader's own, and
 * nobody else writes to it. */
static int run_publish(struct zkl__call *call)
{
    struct publishing *publishing = (struct publishing *)call;
    zkl_lock *lock = publishing->lock;
    CALL_BEGIN(call);
    AWAIT(call, {.kind = ZKL__OP_SET,
                 .dir = lock->path,
                 .name = publishing->node,
                 .data = publishing->value,
                 .size = strlen(publishing->value),
                 .version = -1});
    if (call->answer.rc == ZKL__RC_NONODE || zkl__lock_look(lock).token != publishing->token) {
        RETURN(call, zkl__fail(call->err, ZKL_ELOST, call->answer.zk_code, NULL,
                               "leadership was lost meanwhile"));
    }
    if (call->answer.rc != ZKL__RC_OK) {
        RETURN(call, zkl__fail(call->err, zkl__rc_code(call->answer.rc), call->answer.zk_code, NULL,
                               "%s", zkl__rc_why(call->answer.rc)));
    }
    zkl__free(zkl__session_heap(lock->session), (void *)(uintptr_t)lock->options.metadata);
    lock->options.metadata = publishing->value;
    publishing->value = NULL;
    CALL_END(call);
}

static int begin_publish(struct zkl__call *call, zkl_error *err)
{
    struct publishing *publishing = (struct publishing *)call;
    zkl_lock *lock = publishing->lock;
    struct zkl__standing now = zkl__lock_look(lock);
    if (now.token == 0) {
        return zkl__fail(err, ZKL_ENOTHELD, 0, lock->path, "only the leader publishes a value");
    }
    publishing->value =
        zkl__copy(zkl__session_heap(lock->session), publishing->given, strlen(publishing->given));
    if (!publishing->value) {
        return zkl__fail(err, ZKL_ENOMEM, 0, lock->path, "no memory for the value");
    }
    publishing->token = now.token;
    zkl__name_copy(publishing->node, now.node);
    zkl__call_bind(call, lock);
    return ZKL_OK;
}

static void end_publish(struct zkl__call *call)
{
    const struct publishing *publishing = (const struct publishing *)call;
    zkl__free(zkl__session_heap(call->session), publishing->value);
    zkl__lock_unref(publishing->lock);
}

static int publish(zkl_lock *lock, const char *value, int64_t timeout_ms,
                   const struct zkl__later *later, zkl_error *err)
{
    static const struct zkl__call_kind kind = {
        sizeof(struct publishing), run_publish, NULL, begin_publish, end_publish, false};
    const struct publishing given = {.lock = lock, .given = value};
    int rc = zkl__lock_check(lock, &election, err);
    if (rc == ZKL_OK && !value) {
        rc = zkl__fail(err, ZKL_EINVAL, 0, NULL, "value is NULL");
    }
    rc = rc == ZKL_OK ? zkl__text_check("value", value, err) : rc;
    return rc == ZKL_OK ? zkl__lock_call(&kind, &given, lock, NULL, timeout_ms, later, err) : rc;
}

int zkl_election_publish(zkl_lock *lock, const char *value, int64_t timeout_ms, zkl_error *err)
{
    return publish(lock, value, timeout_ms, NULL, err);
}

int zkl_election_publish_async(zkl_lock *lock, const char *value, int64_t timeout_ms,
                               zkl_done_fn done, void *payload, zkl_error *err)
{
    return publish(lock, value, timeout_ms, &(struct zkl__later){done, payload}, err);
}

/* === observing ================================================================================ */

/* Who leads, told on every change of it: protocol/observer.h finds out. */

struct sight {
    zkl_leader leader; /* its strings follow */
    bool somebody;
};

struct zkl_election_observer {
    struct zkl__agent agent; /* first */
    struct zkl__observer machine;
    zkl_election_changed_fn told;
    void *payload;
};

static bool same(const void *some, const void *other)
{
    const struct sight *a = some, *b = other;
    const zkl_leader *x = &a->leader, *y = &b->leader;
    return a->somebody == b->somebody && x->token == y->token && x->readable == y->readable &&
           strcmp(x->node, y->node) == 0 && x->value_size == y->value_size &&
           memcmp(x->value, y->value, x->value_size) == 0;
}

/* Inside a step. */
static bool show(void *owner, const struct zkl__leader *leader)
{
    struct zkl_election_observer *observer = owner;
    const char *name = leader->node ? leader->node : "";
    size_t size = leader->size < ZKL_DATA_MAX ? leader->size : ZKL_DATA_MAX;
    struct sight *sight = zkl__zalloc(zkl__session_heap(observer->agent.session),
                                      sizeof *sight + strlen(name) + 1 + size + 1);
    if (!sight) {
        return false;
    }
    char *value = (char *)(sight + 1);
    const char *node = zkl__text_put(&value, name);
    if (size > 0) {
        memcpy(value, leader->data, size);
    }
    sight->somebody = leader->node;
    sight->leader = (zkl_leader){.node = node,
                                 .token = leader->stat.czxid,
                                 .session_id = leader->stat.ephemeral_owner,
                                 .value = value,
                                 .value_size = size,
                                 .readable = leader->readable};
    zkl__agent_see(&observer->agent, sight);
    return true;
}

static void tell(struct zkl__agent *agent)
{
    struct zkl_election_observer *observer = (struct zkl_election_observer *)agent;
    const struct sight *news = zkl__agent_news(agent, same);
    if (news) {
        observer->told(observer, news->somebody ? &news->leader : NULL, observer->payload);
    }
}

static void stop(struct zkl__agent *agent)
{
    zkl__observer_end(&((struct zkl_election_observer *)agent)->machine);
}

static const struct zkl__agent_ops ops = {
    .object = {"election observer", zkl__agent_give_up, zkl__agent_describe},
    .tell = tell,
    .stop = stop,
};

int zkl_election_observe(zkl_election_observer **out, zkl_session *session, const char *path,
                         zkl_election_changed_fn told, void *payload, zkl_error *err)
{
    ZKL__CLEAR(out);
    if (!out || !told) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", out ? "told" : "out");
    }
    struct zkl__agent *agent;
    int rc = zkl__agent_new(&agent, sizeof(zkl_election_observer), &ops, session, path, true, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_election_observer *observer = (zkl_election_observer *)agent;
    observer->told = told;
    observer->payload = payload;
    observer->machine.dir = agent->path;
    observer->machine.show = show;
    bool made = zkl__observer_begin(&observer->machine, zkl__session_core(session), observer);
    if (made) {
        *out = observer; /* before told can be called with it */
        zkl__agent_wake(agent, &observer->machine.watcher);
    }
    return zkl__agent_made(agent, made, err);
}

void zkl_election_observer_free(zkl_election_observer *observer)
{
    if (observer) {
        zkl__agent_free(&observer->agent, false);
    }
}
