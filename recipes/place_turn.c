/* place_turn.c - one acquire: from its beginning to its release. */
#include "place_inside.h"

#include <stdio.h>

void zkl__turn_unref(struct zkl__turn *turn)
{
    struct zkl__place *place = turn->place;
    if (--turn->refs == 0) {
        zkl__signal_deinit(&turn->changed);
        zkl__free(zkl__session_heap(place->session), turn);
        zkl__place_unref(place);
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

static bool alive(const struct zkl__turn *turn)
{
    return turn->contender || turn->joint || turn->claim;
}

void zkl__turn_event(struct zkl__turn *turn, struct zkl__event event)
{
    event.contender = turn->contender;
    event.joint = turn->joint;
    if (turn->claim) {
        turn->place->ops->claims->event(turn->claim, &event);
    } else {
        zkl__session_event(turn->place->session, event);
    }
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
    turn->unclean = outcome->unclean;
    turn->settled_at = outcome->now;
    zkl__signal_raise(&turn->changed);
    if (turn->completion) {
        zkl__callbacks_post(zkl__session_callbacks(turn->place->session), &turn->completion->callback);
    }
}

/* What its holder has to know stands in the log, also when nobody listens for states. */
static void log_change(const struct zkl__place *place, const struct zkl__outcome *outcome)
{
    bool lost = outcome->kind == ZKL__LOSS, safe = outcome->kind == ZKL__SAFE;
    char text[160];
    snprintf(text, sizeof text, "%s: %s", lost ? "lost" : safe ? "held" : "in jeopardy", outcome->why);
    zkl__session_log(place->session,
                     lost   ? ZKL_LOG_ERROR
                     : safe ? ZKL_LOG_INFO
                            : ZKL_LOG_WARN,
                     place->ops->object.noun, place->path, text);
}

static void on_outcome(void *owner, const struct zkl__outcome *outcome)
{
    struct zkl__turn *turn = owner;
    struct zkl__place *place = turn->place;
    bool current = place->turn == turn;
    switch (outcome->kind) {
    case ZKL__GRANTED:
        settle(turn, outcome);
        zkl__place_note(place, ZKL_STATE_HELD);
        break;
    case ZKL__FAILED:
        turn->contender = NULL;
        turn->joint = NULL;
        turn->claim = NULL;
        settle(turn, outcome);
        place->turn = NULL;
        zkl__turn_unref(turn); /* not the last: a thread or a completion waits for the result */
        break;
    case ZKL__JEOPARDY:
    case ZKL__SAFE:
        turn->jeopardy = outcome->kind == ZKL__JEOPARDY;
        if (current) {
            log_change(place, outcome);
            zkl__place_note(place, turn->jeopardy ? ZKL_STATE_JEOPARDY : ZKL_STATE_HELD);
        }
        break;
    case ZKL__LOSS:
        if (current) {
            log_change(place, outcome);
            turn->why = outcome->why;
            zkl__signal_raise(&turn->changed); /* somebody may wait for a downgrade */
            zkl__place_tell_end(place);
            zkl__place_note(place, ZKL_STATE_LOST);
        }
        break;
    case ZKL__DOWNGRADED:
        turn->downgraded = true;
        zkl__signal_raise(&turn->changed);
        break;
    case ZKL__REVOKED:
        if (current) {
            zkl__place_note_revoked(place);
        }
        break;
    case ZKL__RELEASED:
        turn->contender = NULL;
        turn->joint = NULL;
        turn->released = true;
        zkl__signal_raise(&turn->changed);
        break;
    }
}

/* --- its beginning ------------------------------------------------------------------------------------------------- */

static int acquire_again(struct zkl__place *place, const struct zkl__rule *rule, zkl_error *err)
{
    struct zkl__turn *turn = place->turn;
    if (!turn->granted) {
        return zkl__fail(err, ZKL_EDEADLK, 0, place->path, "an acquire of this object is pending");
    }
    if (!zkl__turn_holds(turn)) {
        return zkl__fail(err, place->config.recursive ? ZKL_ELOST : ZKL_EDEADLK, 0, place->path,
                         "this object held it and lost it: %s; release it first", turn->why);
    }
    if (!place->config.recursive && turn->rule && (rule->waits_for & ~turn->rule->waits_for)) {
        return zkl__fail(err, ZKL_EDEADLK, 0, place->path,
                         "this object holds it in another mode; an upgrade would wait for itself: release it first");
    }
    if (!place->config.recursive) {
        return zkl__fail(err, ZKL_EDEADLK, 0, place->path, "this object holds it, and is not recursive");
    }
    if (rule->waits_for & ~turn->rule->waits_for) {
        return zkl__fail(err, ZKL_EDEADLK, 0, place->path,
                         "an upgrade would wait for this very object: release it first");
    }
    turn->depth++;
    return ZKL_OK;
}

int zkl__turn_begin(struct zkl__turn **out, struct zkl__place *place, const struct zkl__rule *rule, zkl_error *err)
{
    if (place->freed) {
        return zkl__fail(err, ZKL_ECANCELED, 0, place->path, "the object is being freed");
    }
    if (place->barred) {
        return zkl__fail(err, ZKL_ECANCELED, 0, place->path, "cancelled");
    }
    if (zkl__session_status(place->session)->stopping) {
        return zkl__fail(err, ZKL_ECLOSED, 0, place->path, "the session is being closed");
    }
    if (place->turn) {
        int rc = acquire_again(place, rule, err);
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
        .fail_on_expiry = place->config.on_expiry == ZKL_ON_EXPIRY_FAIL,
        .mark = place->config.recover,
        .revocable = place->config.revocable,
        .announces = place->config.announces,
        .max_hold = zkl__place_max_hold(place),
        .notify = on_outcome,
        .owner = turn,
    };
    struct zkl__core *core = zkl__session_core(place->session);
    turn->rule = rule;
    turn->downgraded = true;
    if (place->config.paths) {
        turn->joint = zkl__joint_new(core, &config, place->config.paths, place->config.path_count);
    } else if (place->ops->claims) {
        turn->claim = place->ops->claims->make(place, &config);
        turn->rule = NULL; /* may be gone when the call returns */
    } else {
        turn->contender = zkl__contender_new(core, &config);
    }
    if (!alive(turn)) {
        zkl__turn_unref(turn);
        return zkl__fail(err, ZKL_ENOMEM, 0, place->path, "no memory for an acquire");
    }
    place->turn = turn;
    turn->refs++;
    *out = turn;
    return ZKL_OK;
}

void zkl__turn_start(struct zkl__turn *turn, int64_t timeout_ms)
{
    zkl_session *session = turn->place->session;
    int64_t connect_timeout_ms = zkl__session_settings(session)->options.connect_timeout_ms;
    turn->asked_at = zkl__session_now(session);
    turn->deadline = zkl__deadline(turn->asked_at, timeout_ms == 0 ? connect_timeout_ms : timeout_ms);
    zkl__turn_event(
        turn, (struct zkl__event){.kind = ZKL__EV_START, .deadline = turn->deadline, .try_only = timeout_ms == 0});
}

void zkl__turn_await(struct zkl__turn *turn)
{
    zkl_session *session = turn->place->session;
    while (!turn->settled) {
        if (zkl__session_wait(session, &turn->changed, turn->deadline)) {
            continue;
        }
        /* Not left to the alarms' thread: one more wake-up would make this call late. */
        zkl__session_event(session, (struct zkl__event){.kind = ZKL__EV_TIME});
        if (!turn->settled) {
            zkl__turn_cancel(turn, ZKL_ETIMEOUT);
        }
    }
}

/* --- its end ------------------------------------------------------------------------------------------------------- */

bool zkl__turn_holds(const struct zkl__turn *turn)
{
    const struct zkl__core *core = zkl__session_core(turn->place->session);
    int64_t now = zkl__session_now(turn->place->session);
    if (!turn->granted || !alive(turn) || turn->place->turn != turn) {
        return false;
    }
    if (turn->claim) {
        return turn->place->ops->claims->holds(turn->claim);
    }
    return turn->joint ? zkl__joint_holds(core, turn->joint, now) : zkl__contender_holds(core, turn->contender, now);
}

/* The core removes what there is, and tells us no more. */
static void let_go(struct zkl__turn *turn)
{
    struct zkl__core *core = zkl__session_core(turn->place->session);
    int64_t now = zkl__session_now(turn->place->session);
    if (turn->contender) {
        zkl__contender_let_go(core, turn->contender, now);
    } else if (turn->joint) {
        zkl__joint_let_go(core, turn->joint, now);
    } else if (turn->claim) {
        turn->place->ops->claims->let_go(turn->claim);
    }
    turn->contender = NULL;
    turn->joint = NULL;
    turn->claim = NULL;
}

/* The object is idle again. The reference it had to the turn goes to the caller. */
static struct zkl__turn *take_turn(struct zkl__place *place)
{
    struct zkl__turn *turn = place->turn;
    place->turn = NULL;
    place->revoked = false;
    place->latest = place->told = ZKL_STATE_IDLE; /* a loss that was not told yet still will be */
    zkl__place_tell_end(place);
    return turn;
}

void zkl__turn_drop(struct zkl__place *place)
{
    struct zkl__turn *turn = take_turn(place);
    let_go(turn);
    zkl__turn_unref(turn);
}

void zkl__turn_cancel(struct zkl__turn *turn, int code)
{
    zkl__turn_event(turn, (struct zkl__event){.kind = ZKL__EV_CANCEL, .code = code});
}

void zkl__turn_hand_back(struct zkl__place *place, int64_t deadline)
{
    zkl_session *session = place->session;
    int64_t usual = zkl__deadline(zkl__session_now(session), place->config.release_timeout_ms);
    deadline = deadline < usual ? deadline : usual;
    struct zkl__turn *turn = take_turn(place);
    bool more = alive(turn);
    if (more) {
        zkl__turn_event(turn, (struct zkl__event){.kind = ZKL__EV_RELEASE});
    }
    while (more && !turn->released) {
        more = zkl__session_wait(session, &turn->changed, deadline);
    }
    let_go(turn);
    zkl__turn_unref(turn);
}

int zkl__turn_conclude(struct zkl__turn *turn, bool again, zkl_grant *grant, zkl_error *err)
{
    struct zkl__place *place = turn->place;
    long long queued_ms = (long long)((turn->settled_at - turn->asked_at) / ZKL__MS);
    if (turn->code != ZKL_OK) {
        return zkl__fail(err, turn->code, turn->zk_code, place->path, "%s (after %lld ms)", turn->why, queued_ms);
    }
    if (place->turn == turn && !zkl__turn_holds(turn)) {
        if (--turn->depth == 0) {
            zkl__turn_drop(place);
        }
        return zkl__fail(err, ZKL_ELOST, 0, place->path, "granted, and lost before the grant could be used");
    }
    if (grant) {
        *grant =
            (zkl_grant){.token = turn->token, .queued_ms = again ? 0 : queued_ms, .unclean = !again && turn->unclean};
    }
    return ZKL_OK;
}
