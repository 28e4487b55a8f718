/* partition_piece.c - one piece of a partition: its lock, the calls of assigned and revoked, and
 * zkl_partition_done.
 *
 * Callbacks run everything but zkl_partition_done, one at a time. Any thread may call that. It ends
 * the work and releases the lock in one section of the session's mutex, so a piece with work always
 * has the lock that protects the work. */
#include "partition_inside.h"

/* Enough of a lease to begin with, or to go on. */
static bool lease_suffices(const struct zkl__piece *piece, const struct zkl__standing *now)
{
    const zkl_partition *partition = piece->partition;
    return zkl__session_left(partition->agent.session, now->until) >
           partition->options.margin_ms * ZKL__MS;
}

static void set_work(struct zkl__piece *piece, enum zkl__work work)
{
    zkl_partition *partition = piece->partition;
    partition->busy += (size_t)(work != ZKL__WORK_NONE) - (size_t)(piece->work != ZKL__WORK_NONE);
    partition->running +=
        (size_t)(work == ZKL__WORK_RUNS) - (size_t)(piece->work == ZKL__WORK_RUNS);
    piece->work = work;
}

void zkl__piece_end_work(struct zkl__piece *piece)
{
    zkl_partition *partition = piece->partition;
    if (piece->work == ZKL__WORK_NONE) {
        return;
    }
    set_work(piece, ZKL__WORK_NONE);
    zkl__lock_give_up(&piece->place.object, ZKL_ECANCELED);
    if (partition->held_up) {
        partition->held_up = false;
        zkl__agent_post(&partition->agent);
    }
}

/* --- its user's functions -------------------------------------------------------------------- */

/* False: the user has freed the partition, and hears no more; or he has answered meanwhile. */
static bool begin_call(struct zkl__piece *piece, enum zkl__work from, enum zkl__work to,
                       zkl_state told)
{
    zkl_partition *partition = piece->partition;
    zkl__session_enter_even_closed(partition->agent.session, NULL);
    bool calls = !partition->orphan && piece->work == from;
    if (calls) {
        set_work(piece, to);
        piece->told = told;
        piece->calling = true;
    } else if (partition->orphan) {
        zkl__piece_end_work(piece);
    }
    zkl__session_leave(partition->agent.session);
    return calls;
}

static void assign(struct zkl__piece *piece, int64_t token)
{
    const zkl_partition_options *o = &piece->partition->options;
    if (begin_call(piece, ZKL__WORK_NONE, ZKL__WORK_RUNS, ZKL_STATE_HELD)) {
        o->assigned_fn(piece->partition, piece->name, token, o->payload);
        piece->calling = false;
    }
}

static void revoke(struct zkl__piece *piece, bool lost)
{
    zkl_partition *partition = piece->partition;
    const zkl_partition_options *o = &partition->options;
    if (!begin_call(piece, ZKL__WORK_RUNS, ZKL__WORK_ENDS, lost ? ZKL_STATE_LOST : piece->told)) {
        return;
    }
    o->revoked_fn(partition, piece->name, lost, o->payload);
    piece->calling = false;
    if (!o->done_later) {
        zkl__session_enter_even_closed(partition->agent.session, NULL);
        zkl__piece_end_work(piece);
        zkl__session_leave(partition->agent.session);
    }
}

/* True: look again. */
static bool tell_state(struct zkl__piece *piece, zkl_state state, enum zkl__work work)
{
    const zkl_partition_options *o = &piece->partition->options;
    zkl_state now = zkl__state_holds(state) ? state : ZKL_STATE_LOST;
    if (now == piece->told || !o->state_fn) {
        return false;
    }
    if (begin_call(piece, work, work, now)) {
        o->state_fn(piece->partition, piece->name, now, o->payload);
        piece->calling = false;
    }
    return true;
}

/* --- what is missing ------------------------------------------------------------------------- */

/* Whoever ends its work first looks again. */
static bool has_room(zkl_partition *partition)
{
    size_t cap = partition->options.cap;
    zkl__session_enter_even_closed(partition->agent.session, NULL);
    bool room = cap == 0 || partition->busy < cap;
    partition->held_up = partition->held_up || !room;
    zkl__session_leave(partition->agent.session);
    return room;
}

/* The next four: one thing that is missing. True: look again. */
static bool begin_work(struct zkl__piece *piece, const struct zkl__standing *now)
{
    if (!lease_suffices(piece, now)) {
        zkl__partition_try_later(piece->partition);
        return false;
    }
    if (!has_room(piece->partition)) {
        return false;
    }
    assign(piece, now->token);
    return true;
}

static bool settle_idle(struct zkl__piece *piece, const struct zkl__standing *now)
{
    bool held = zkl__state_holds(now->state);
    if (now->state == ZKL_STATE_LOST || (held && !piece->wanted)) {
        zkl_lock_release(&piece->place, NULL);
        return true;
    }
    if (held) {
        return begin_work(piece, now);
    }
    if (now->state == ZKL_STATE_WAITING && !piece->wanted) {
        zkl_lock_cancel(&piece->place);
    } else if (now->state == ZKL_STATE_IDLE && piece->wanted &&
               zkl_lock_is_held(&piece->partition->member->place)) {
        zkl__partition_acquire(piece->partition, &piece->place, zkl__piece_completed,
                               &piece->refused);
    }
    return false;
}

static bool settle_running(struct zkl__piece *piece, const struct zkl__standing *now)
{
    bool held = zkl__state_holds(now->state);
    bool ends = !held || !piece->wanted || !lease_suffices(piece, now);
    if (ends) {
        revoke(piece, !held);
        return true;
    }
    return tell_state(piece, now->state, ZKL__WORK_RUNS);
}

/* Both in one: the answer changes both. Nothing is held in a closed session. */
static enum zkl__work look(const struct zkl__piece *piece, struct zkl__standing *now)
{
    zkl_session *session = piece->partition->agent.session;
    *now = (struct zkl__standing){.state = ZKL_STATE_IDLE};
    if (zkl__session_enter(session, NULL) == ZKL_OK) {
        *now = zkl__lock_look(&piece->place);
    } else {
        zkl__session_enter_even_closed(session, NULL);
    }
    enum zkl__work work = piece->work;
    zkl__session_leave(session);
    return work;
}

static bool settle_once(struct zkl__piece *piece)
{
    struct zkl__standing now;
    enum zkl__work work = look(piece, &now);
    if (piece->calling) {
        return false; /* whoever calls goes on afterwards */
    }
    switch (work) {
    case ZKL__WORK_RUNS:
        return settle_running(piece, &now);
    case ZKL__WORK_ENDS:
        return tell_state(piece, now.state, ZKL__WORK_ENDS);
    default:
        return settle_idle(piece, &now);
    }
}

void zkl__piece_settle(struct zkl__piece *piece)
{
    while (settle_once(piece)) {
    }
}
