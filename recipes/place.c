#include "place.h"

#include "acl.h"
#include "error.h"
#include "path.h"

#include <string.h>

/* One acquire and what came of it, until its release. Guarded by the session's mutex, as everything here. */
struct zkl__turn {
    struct zkl__place *place;
    struct zkl__contender *contender; /* NULL after its last word, or when it was let go */
    struct zkl__signal changed;
    unsigned refs;  /* the place while it is its turn, threads and completions that look at it */
    unsigned depth; /* acquires not yet released */
    bool settled;   /* the acquire has its result: */
    bool granted, jeopardy, released;
    int code, zk_code;
    const char *why;
    int64_t token;
    int64_t asked_at, settled_at, deadline;
    struct zkl__completion *completion; /* of the acquire that began it; NULL: a thread waits */
};

/* The one call of the user for an asynchronous acquire. */
struct zkl__completion {
    struct zkl__callback callback;
    struct zkl__turn *turn;
    struct zkl__completion *next;
    bool again; /* of a lock held already */
    zkl__any_fn done;
    void *payload;
};

/* --- memory -------------------------------------------------------------------------------------------------------- */

static void place_unref(struct zkl__place *place)
{
    zkl_session *session = place->session;
    const zkl_heap *heap = zkl__session_heap(session);
    if (--place->refs > 0) {
        return;
    }
    zkl__free(heap, (void *)(uintptr_t)place->config.metadata);
    zkl__free(heap, (void *)(uintptr_t)place->config.acl);
    zkl__free(heap, place->path);
    zkl__free(heap, place);
    zkl__session_drop(session);
}

static void turn_unref(struct zkl__turn *turn)
{
    struct zkl__place *place = turn->place;
    if (--turn->refs == 0) {
        zkl__signal_deinit(&turn->changed);
        zkl__free(zkl__session_heap(place->session), turn);
        place_unref(place);
    }
}

static struct zkl__turn *turn_new(struct zkl__place *place)
{
    const zkl_heap *heap = zkl__session_heap(place->session);
    struct zkl__turn *turn = zkl__zalloc(heap, sizeof *turn);
    if (turn && zkl__signal_init(&turn->changed) != ZKL_OK) {
        zkl__free(heap, turn);
        turn = NULL;
    }
    if (turn) {
        turn->place = place;
        turn->refs = turn->depth = 1;
        place->refs++;
    }
    return turn;
}

static bool copy_config(struct zkl__place *place, const zkl_heap *heap, const struct zkl__place_config *config)
{
    place->config = *config;
    if (config->metadata) {
        place->config.metadata = zkl__copy(heap, config->metadata, strlen(config->metadata));
    }
    if (config->acl) {
        place->config.acl = zkl__acl_copy(heap, config->acl);
    }
    return !config->metadata == !place->config.metadata && !config->acl == !place->config.acl;
}

/* --- what the user is told ----------------------------------------------------------------------------------------- */

static void note(struct zkl__place *place, zkl_state state)
{
    if (!place->config.listens || place->freed) {
        return;
    }
    if (state == ZKL_STATE_LOST) {
        place->losses++;
        place->latest = place->told = ZKL_STATE_IDLE;
    } else {
        place->latest = state;
    }
    zkl__callbacks_post(zkl__session_callbacks(place->session), &place->notice);
}

/* The next state to be told; ZKL_STATE_IDLE: none is. */
static zkl_state next_note(struct zkl__place *place)
{
    zkl_state state = place->latest;
    if (place->freed) {
        return ZKL_STATE_IDLE;
    }
    if (place->losses > 0) {
        place->losses--;
        return ZKL_STATE_LOST;
    }
    place->latest = ZKL_STATE_IDLE;
    if (state == place->told) { /* there and back again, before anybody heard of it */
        return ZKL_STATE_IDLE;
    }
    place->told = state;
    return state;
}

static void run_notes(void *owner)
{
    struct zkl__place *place = owner;
    zkl_session *session = place->session;
    if (zkl__session_enter(session, true, NULL) != ZKL_OK) {
        return;
    }
    place->refs++;
    for (zkl_state state; (state = next_note(place)) != ZKL_STATE_IDLE;) {
        zkl__session_leave(session);
        place->ops->tell(place, state);
        zkl__session_enter(session, true, NULL);
    }
    place_unref(place);
    zkl__session_leave(session);
}

static void end_heard(struct zkl__place *place)
{
    for (struct zkl__ear *ear = place->ears; ear; ear = ear->next) {
        ear->ended(ear->owner);
    }
}

void zkl__place_listen(struct zkl__place *place, struct zkl__ear *ear)
{
    ear->next = place->ears;
    place->ears = ear;
}

void zkl__place_unlisten(struct zkl__place *place, struct zkl__ear *ear)
{
    struct zkl__ear **at = &place->ears;
    while (*at != ear) {
        at = &(*at)->next;
    }
    *at = ear->next;
}

/* --- what the core tells: inside a step ---------------------------------------------------------------------------- */

static void settle(struct zkl__turn *turn, const struct zkl__outcome *outcome)
{
    turn->settled = true;
    turn->granted = outcome->kind == ZKL__GRANTED;
    turn->code = turn->granted ? ZKL_OK : outcome->code;
    turn->zk_code = outcome->zk_code;
    turn->why = turn->granted ? "the lease ended" : outcome->why; /* until we hear why it was lost */
    turn->token = outcome->token;
    turn->settled_at = outcome->now;
    zkl__signal_raise(&turn->changed);
    if (turn->completion) {
        zkl__callbacks_post(zkl__session_callbacks(turn->place->session), &turn->completion->callback);
    }
}

static void on_outcome(void *owner, const struct zkl__outcome *outcome)
{
    struct zkl__turn *turn = owner;
    struct zkl__place *place = turn->place;
    bool current = place->turn == turn;
    switch (outcome->kind) {
    case ZKL__GRANTED:
        settle(turn, outcome);
        note(place, ZKL_STATE_HELD);
        break;
    case ZKL__FAILED:
        turn->contender = NULL;
        settle(turn, outcome);
        place->turn = NULL;
        turn_unref(turn); /* not the last: a thread or a completion waits for the result */
        break;
    case ZKL__JEOPARDY:
    case ZKL__SAFE:
        turn->jeopardy = outcome->kind == ZKL__JEOPARDY;
        if (current) {
            note(place, turn->jeopardy ? ZKL_STATE_JEOPARDY : ZKL_STATE_HELD);
        }
        break;
    case ZKL__LOSS:
        if (current) {
            turn->why = outcome->why;
            end_heard(place);
            note(place, ZKL_STATE_LOST);
        }
        break;
    case ZKL__RELEASED:
        turn->contender = NULL;
        turn->released = true;
        zkl__signal_raise(&turn->changed);
        break;
    }
}

/* --- ending a turn ------------------------------------------------------------------------------------------------- */

static bool holds(const struct zkl__turn *turn)
{
    zkl_session *session = turn->place->session;
    return turn->granted && turn->contender && turn->place->turn == turn &&
           zkl__contender_holds(zkl__session_core(session), turn->contender, zkl__session_now(session));
}

/* The core removes what there is, and tells us no more. */
static void let_go(struct zkl__turn *turn)
{
    zkl_session *session = turn->place->session;
    if (turn->contender) {
        zkl__contender_let_go(zkl__session_core(session), turn->contender, zkl__session_now(session));
        turn->contender = NULL;
    }
}

/* The object is idle again. The reference it had to the turn goes to the caller. */
static struct zkl__turn *take_turn(struct zkl__place *place)
{
    struct zkl__turn *turn = place->turn;
    place->turn = NULL;
    place->latest = place->told = ZKL_STATE_IDLE; /* a loss that was not told yet still will be */
    end_heard(place);
    return turn;
}

static void drop_turn(struct zkl__place *place)
{
    struct zkl__turn *turn = take_turn(place);
    let_go(turn);
    turn_unref(turn);
}

static void cancel(struct zkl__turn *turn, int code)
{
    zkl__session_event(turn->place->session,
                       (struct zkl__event){.kind = ZKL__EV_CANCEL, .contender = turn->contender, .code = code});
}

bool zkl__place_give_up(struct zkl__object *object, int code)
{
    struct zkl__place *place = (struct zkl__place *)object;
    if (!place->turn) {
        return false;
    }
    if (place->turn->settled) {
        place->turn->code = code; /* for whom the grant has not reached yet */
        place->turn->why = "given up before the grant could be used";
        drop_turn(place);
    } else {
        cancel(place->turn, code);
    }
    return true;
}

/* --- acquire ------------------------------------------------------------------------------------------------------- */

static int64_t max_hold_ns(const struct zkl__place *place)
{
    return place->config.max_hold_ms * ZKL__MS;
}

/* What one acquire came to, for its caller: who looks at the clock once more, since he may have slept since the grant. */
static int conclude(struct zkl__turn *turn, bool again, zkl_grant *grant, zkl_error *err)
{
    struct zkl__place *place = turn->place;
    long long queued_ms = (long long)((turn->settled_at - turn->asked_at) / ZKL__MS);
    if (turn->code != ZKL_OK) {
        return zkl__fail(err, turn->code, turn->zk_code, place->path, "%s (after %lld ms)", turn->why, queued_ms);
    }
    if (place->turn == turn && !holds(turn)) {
        if (--turn->depth == 0) {
            drop_turn(place);
        }
        return zkl__fail(err, ZKL_ELOST, 0, place->path, "granted, and lost before the grant could be used");
    }
    if (grant) {
        *grant = (zkl_grant){.token = turn->token, .queued_ms = again ? 0 : queued_ms};
    }
    return ZKL_OK;
}

static int acquire_again(struct zkl__place *place, zkl_error *err)
{
    struct zkl__turn *turn = place->turn;
    if (!turn->granted) {
        return zkl__fail(err, ZKL_EDEADLK, 0, place->path, "an acquire of this object is pending");
    }
    if (!place->config.recursive) {
        return zkl__fail(err, ZKL_EDEADLK, 0, place->path, "this object holds it, and is not recursive");
    }
    if (!holds(turn)) {
        return zkl__fail(err, ZKL_ELOST, 0, place->path, "held and lost: %s; release it first", turn->why);
    }
    turn->depth++;
    return ZKL_OK;
}

/* A turn that is not started yet, or one that is held already and counts; with a reference for the caller. */
static int begin(struct zkl__turn **out, struct zkl__place *place, const struct zkl__rule *rule, zkl_error *err)
{
    if (place->freed) {
        return zkl__fail(err, ZKL_ECANCELED, 0, place->path, "the object is being freed");
    }
    if (place->turn) {
        int rc = acquire_again(place, err);
        if (rc == ZKL_OK) {
            place->turn->refs++;
            *out = place->turn;
        }
        return rc;
    }
    struct zkl__turn *turn = turn_new(place);
    if (!turn) {
        return zkl__fail(err, ZKL_ENOMEM, 0, place->path, "no memory for an acquire");
    }
    struct zkl__contender_config config = {
        .rule = rule,
        .path = place->path,
        .metadata = place->config.metadata ? place->config.metadata : zkl__session_whoami(place->session),
        .acl = place->config.acl,
        .fail_on_expiry = place->config.fail_on_expiry,
        .max_hold = max_hold_ns(place),
        .notify = on_outcome,
        .owner = turn,
    };
    turn->contender = zkl__contender_new(zkl__session_core(place->session), &config);
    if (!turn->contender) {
        turn_unref(turn);
        return zkl__fail(err, ZKL_ENOMEM, 0, place->path, "no memory for an acquire");
    }
    place->turn = turn;
    turn->refs++;
    *out = turn;
    return ZKL_OK;
}

static void start(struct zkl__turn *turn, int64_t timeout_ms)
{
    zkl_session *session = turn->place->session;
    int64_t connect_timeout_ms = zkl__session_settings(session)->options.connect_timeout_ms;
    turn->asked_at = zkl__session_now(session);
    turn->deadline = zkl__deadline(turn->asked_at, timeout_ms == 0 ? connect_timeout_ms : timeout_ms);
    zkl__session_event(session, (struct zkl__event){.kind = ZKL__EV_START,
                                                    .contender = turn->contender,
                                                    .deadline = turn->deadline,
                                                    .try_only = timeout_ms == 0});
}

static void await(struct zkl__turn *turn)
{
    zkl_session *session = turn->place->session;
    while (!turn->settled) {
        if (zkl__session_wait(session, &turn->changed, turn->deadline)) {
            continue;
        }
        /* Not left to the alarms' thread: one more wake-up would make this call late. */
        zkl__session_event(session, (struct zkl__event){.kind = ZKL__EV_TIME});
        if (!turn->settled) {
            cancel(turn, ZKL_ETIMEOUT);
        }
    }
}

static int enter_to_acquire(struct zkl__place *place, int64_t timeout_ms, zkl_error *err)
{
    if (!place) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "the object is NULL");
    }
    if (timeout_ms < ZKL_WAIT_FOREVER) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "timeout_ms is %lld; ZKL_WAIT_FOREVER is -1", (long long)timeout_ms);
    }
    return zkl__session_enter(place->session, false, err);
}

int zkl__place_acquire(struct zkl__place *place, const struct zkl__rule *rule, int64_t timeout_ms, zkl_grant *grant,
                       zkl_error *err)
{
    int rc = enter_to_acquire(place, timeout_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = place->session;
    struct zkl__turn *turn;
    rc = begin(&turn, place, rule, err);
    if (rc == ZKL_OK) {
        bool again = turn->granted;
        if (!again) {
            start(turn, timeout_ms);
        }
        await(turn);
        rc = conclude(turn, again, grant, err);
        turn_unref(turn);
    }
    zkl__session_leave(session);
    return rc;
}

/* --- asynchronous -------------------------------------------------------------------------------------------------- */

static void completion_unlink(struct zkl__completion *completion)
{
    struct zkl__completion **at = &completion->turn->place->completions;
    while (*at != completion) {
        at = &(*at)->next;
    }
    *at = completion->next;
}

static void run_completion(void *owner)
{
    struct zkl__completion *completion = owner;
    struct zkl__turn *turn = completion->turn;
    struct zkl__place *place = turn->place;
    zkl_session *session = place->session;
    zkl_error err = {.code = ZKL_OK};
    zkl_grant grant;
    if (zkl__session_enter(session, true, NULL) != ZKL_OK) {
        return;
    }
    int code = conclude(turn, completion->again, &grant, &err);
    zkl__session_leave(session);
    place->ops->complete(place, completion->done, completion->payload, code, code == ZKL_OK ? &grant : NULL, &err);
    zkl__session_enter(session, true, NULL);
    completion_unlink(completion);
    zkl__free(zkl__session_heap(session), completion);
    turn_unref(turn);
    zkl__session_leave(session);
}

static int begin_async(struct zkl__completion *completion, struct zkl__place *place, const struct zkl__rule *rule,
                       int64_t timeout_ms, zkl_error *err)
{
    struct zkl__turn *turn;
    int rc = begin(&turn, place, rule, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    completion->callback = (struct zkl__callback){.run = run_completion, .owner = completion};
    completion->turn = turn;
    completion->again = turn->granted;
    completion->next = place->completions;
    place->completions = completion;
    if (turn->granted) {
        zkl__callbacks_post(zkl__session_callbacks(place->session), &completion->callback);
    } else {
        turn->completion = completion;
        start(turn, timeout_ms);
    }
    return ZKL_OK;
}

int zkl__place_acquire_async(struct zkl__place *place, const struct zkl__rule *rule, int64_t timeout_ms,
                             zkl__any_fn done, void *payload, zkl_error *err)
{
    if (!done) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "done is NULL");
    }
    int rc = enter_to_acquire(place, timeout_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = place->session;
    struct zkl__completion *completion = zkl__zalloc(zkl__session_heap(session), sizeof *completion);
    if (zkl__callbacks_want(zkl__session_callbacks(session)) != ZKL_OK) {
        rc = zkl__fail(err, ZKL_ELIMIT, 0, place->path, "no thread for callbacks");
    } else if (!completion) {
        rc = zkl__fail(err, ZKL_ENOMEM, 0, place->path, "no memory for an acquire");
    } else {
        completion->done = done;
        completion->payload = payload;
        rc = begin_async(completion, place, rule, timeout_ms, err);
    }
    if (rc != ZKL_OK) {
        zkl__free(zkl__session_heap(session), completion);
    }
    zkl__session_leave(session);
    return rc;
}

/* The completions that are owed, but for those that this very thread is running. */
static void finish_completions(struct zkl__place *place)
{
    struct zkl__callbacks *callbacks = zkl__session_callbacks(place->session);
    struct zkl__completion *completion = place->completions;
    while (completion) {
        if (zkl__callbacks_inside(callbacks, &completion->callback)) {
            completion = completion->next;
        } else {
            zkl__callbacks_finish(callbacks, &completion->callback);
            completion = place->completions;
        }
    }
}

/* --- cancel and release -------------------------------------------------------------------------------------------- */

int zkl__place_cancel(struct zkl__place *place)
{
    if (!place) {
        return ZKL_EINVAL;
    }
    int rc = zkl__session_enter(place->session, false, NULL);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = place->session;
    rc = ZKL_ENOTWAITING;
    if (place->turn && !place->turn->settled) {
        cancel(place->turn, ZKL_ECANCELED);
        rc = ZKL_OK;
    }
    zkl__session_leave(session);
    return rc;
}

/* Tells the server, waits for its word as long as the options say, and leaves the rest to the core. */
static void hand_back(struct zkl__place *place)
{
    zkl_session *session = place->session;
    int64_t deadline = zkl__deadline(zkl__session_now(session), place->config.release_timeout_ms);
    struct zkl__turn *turn = take_turn(place);
    bool more = turn->contender != NULL;
    if (more) {
        zkl__session_event(session, (struct zkl__event){.kind = ZKL__EV_RELEASE, .contender = turn->contender});
    }
    while (more && !turn->released) {
        more = zkl__session_wait(session, &turn->changed, deadline);
    }
    let_go(turn);
    turn_unref(turn);
}

int zkl__place_release(struct zkl__place *place, zkl_error *err)
{
    if (!place) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "the object is NULL");
    }
    int rc = zkl__session_enter(place->session, false, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = place->session;
    struct zkl__turn *turn = place->turn;
    if (!turn || !turn->granted) {
        rc = zkl__fail(err, ZKL_ENOTHELD, 0, place->path,
                       turn ? "still waiting; cancel it" : "never granted, or released");
    } else {
        if (!holds(turn)) {
            rc = zkl__fail(err, ZKL_ELOST, 0, place->path, "lost while it was held: %s", turn->why);
        }
        if (--turn->depth == 0) {
            hand_back(place);
        }
    }
    zkl__session_leave(session);
    return rc;
}

/* --- the object ---------------------------------------------------------------------------------------------------- */

static int check_config(const char *path, const struct zkl__place_config *config, zkl_error *err)
{
    int rc = zkl__path_check(path, err);
    if (rc == ZKL_OK && config->metadata) {
        rc = zkl__text_check(config->metadata, err);
    }
    if (rc == ZKL_OK) {
        rc = zkl__acl_check(config->acl, err);
    }
    if (rc == ZKL_OK) {
        rc = zkl__range_check("max_hold_ms", config->max_hold_ms, 0, 10000 * ZKL__DAY_MS, err);
    }
    if (rc == ZKL_OK) {
        rc = zkl__range_check("release_timeout_ms", config->release_timeout_ms, 0, ZKL__DAY_MS, err);
    }
    if (rc == ZKL_OK && config->recover) {
        rc = zkl__fail(err, ZKL_EUNSUPPORTED, 0, NULL, "the option recover is not there yet");
    }
    return rc;
}

static int make(struct zkl__place **out, size_t size, zkl_session *session, const char *path,
                const struct zkl__place_config *config, zkl_error *err)
{
    const zkl_heap *heap = zkl__session_heap(session);
    if (config->listens && zkl__callbacks_want(zkl__session_callbacks(session)) != ZKL_OK) {
        return zkl__fail(err, ZKL_ELIMIT, 0, path, "no thread for callbacks");
    }
    struct zkl__place *place = zkl__zalloc(heap, size);
    if (!place) {
        return zkl__fail(err, ZKL_ENOMEM, 0, path, "no memory");
    }
    zkl__session_retain(session);
    place->session = session;
    place->refs = 1;
    place->path = zkl__copy(heap, path, strlen(path));
    if (!copy_config(place, heap, config) || !place->path) {
        place_unref(place);
        return zkl__fail(err, ZKL_ENOMEM, 0, path, "no memory");
    }
    *out = place;
    return ZKL_OK;
}

int zkl__place_new(struct zkl__place **out, size_t size, const struct zkl__place_ops *ops, zkl_session *session,
                   const char *path, const struct zkl__place_config *config, zkl_error *err)
{
    if (!session) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "session is NULL");
    }
    int rc = check_config(path, config, err);
    rc = rc == ZKL_OK ? zkl__session_enter(session, false, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    struct zkl__place *place = NULL;
    rc = make(&place, size, session, path, config, err);
    if (rc == ZKL_OK) {
        place->ops = ops;
        place->object.ops = &ops->object;
        place->notice = (struct zkl__callback){.run = run_notes, .owner = place};
        zkl__session_add(session, &place->object);
        *out = place;
    }
    zkl__session_leave(session);
    return rc;
}

void zkl__place_free(struct zkl__place *place)
{
    if (!place || zkl__session_enter(place->session, true, NULL) != ZKL_OK) {
        return; /* in a child of fork the parent's memory stays as it is */
    }
    zkl_session *session = place->session;
    place->freed = true;
    zkl__place_give_up(&place->object, ZKL_ECANCELED);
    finish_completions(place);
    zkl__callbacks_unpost(zkl__session_callbacks(session), &place->notice);
    zkl__session_remove(session, &place->object);
    place_unref(place);
    zkl__session_leave(session);
}

/* --- what is so now ------------------------------------------------------------------------------------------------ */

struct zkl__standing zkl__place_look(const struct zkl__place *place)
{
    struct zkl__standing now = {.state = ZKL_STATE_IDLE};
    const struct zkl__turn *turn = place->turn;
    if (!turn) {
        return now;
    }
    if (turn->contender) {
        strcpy(now.node, zkl__contender_node(turn->contender));
    }
    if (!turn->granted || !holds(turn)) {
        now.state = turn->granted ? ZKL_STATE_LOST : ZKL_STATE_WAITING;
        return now;
    }
    int64_t until = zkl__core_lease_until(zkl__session_core(place->session));
    if (place->config.max_hold_ms > 0 && turn->settled_at + max_hold_ns(place) < until) {
        until = turn->settled_at + max_hold_ns(place);
    }
    now.state = turn->jeopardy ? ZKL_STATE_JEOPARDY : ZKL_STATE_HELD;
    now.token = turn->token;
    now.remaining_ns = until - zkl__session_now(place->session);
    return now;
}

struct zkl__standing zkl__place_standing(const struct zkl__place *place)
{
    struct zkl__standing now = {.state = ZKL_STATE_IDLE};
    if (place && zkl__session_enter(place->session, false, NULL) == ZKL_OK) {
        zkl_session *session = place->session;
        now = zkl__place_look(place);
        zkl__session_leave(session);
    }
    return now;
}

void zkl__place_describe(const struct zkl__object *object, const char **path, zkl_state *state, int64_t *token)
{
    const struct zkl__place *place = (const struct zkl__place *)object;
    struct zkl__standing now = zkl__place_look(place);
    *path = place->path;
    *state = now.state;
    *token = now.token;
}

int zkl__places_release_all(zkl_session *session, const struct zkl__place_ops *ops)
{
    if (!session) {
        return ZKL_EINVAL;
    }
    int count = zkl__session_enter(session, false, NULL);
    if (count != ZKL_OK) {
        return count;
    }
    for (struct zkl__object *object = zkl__session_objects(session); object; object = object->next) {
        count += object->ops == &ops->object && object->ops->give_up(object, ZKL_ECANCELED);
    }
    zkl__session_leave(session);
    return count;
}

int zkl__places_visit(zkl_session *session, const struct zkl__place_ops *ops,
                      void (*visit)(const char *path, zkl_state state, int64_t token, void *payload), void *payload)
{
    if (!session || !visit) {
        return ZKL_EINVAL;
    }
    int count = zkl__session_enter(session, false, NULL);
    if (count != ZKL_OK) {
        return count;
    }
    for (struct zkl__object *object = zkl__session_objects(session); object; object = object->next) {
        const char *path;
        zkl_state state;
        int64_t token;
        object->ops->describe(object, &path, &state, &token);
        if (object->ops == &ops->object && state != ZKL_STATE_IDLE) {
            visit(path, state, token, payload);
            count++;
        }
    }
    zkl__session_leave(session);
    return count;
}
