/* partition.c - a partition as its user sees it: made of its pieces and its member, started,
 * stopped, asked what it owns. */

#include "agent.h"
#include "lock.h"
#include "member_list.h"
#include "name_set.h"
#include "call.h"
#include <zklock/partition.h>
#include "error.h"
#include "heap.h"
#include "name.h"
#include "path.h"
#include "share.h"
#include "sized.h"

#include <zklock/zookeeper.h>

#include <stdio.h>
#include <string.h>

/* Whether it takes part. */
enum zkl__partition_life {
    ZKL__PARTITION_IDLE, /* not started, or stopped: no callback of its user's starts */
    ZKL__PARTITION_RUNNING,
    ZKL__PARTITION_STOPPING, /* what it has is to be revoked */
    ZKL__PARTITION_UNWINDING /* that was done, but for the callbacks that are running */
};

/* The work of our user on a piece. */
enum zkl__work {
    ZKL__WORK_NONE,
    ZKL__WORK_RUNS, /* assigned */
    ZKL__WORK_ENDS  /* revoked, and that was not answered yet: the piece stays under our lock */
};

struct zkl__piece {
    zkl_lock place; /* first */
    zkl_partition *partition;
    const char *name;    /* the end of its path */
    enum zkl__work work; /* guarded */
    bool wanted;         /* by our share of the members we know */
    zkl_state told;      /* what its user knows of its lease, while there is work */
    bool calling;        /* its user's function runs */
    bool refused;        /* by the servers, and that was said */
};

struct zkl__member {
    zkl_lock place; /* first */
    zkl_partition *partition;
    bool refused;
};

struct zkl_partition {
    struct zkl__agent agent; /* first */
    zkl_partition_options options;
    size_t count;
    struct zkl__piece **pieces;
    const char **names;         /* of pieces */
    struct zkl__name_set index; /* by name */
    size_t *owners;             /* room for a result */
    struct zkl__member *member;
    struct zkl__names *view; /* what is acted upon: those that live with a session */
    struct zkl__member_list list;
    /* guarded: */
    struct zkl__names *news; /* NULL, or a newer one */
    enum zkl__partition_life life;
    struct zkl__retry retry;   /* something was refused */
    bool unread;               /* the members could not be listed, and that was said */
    char node[ZKL__NAME_MAX];  /* ours among the members, the last one */
    unsigned depth;            /* of callbacks, one inside the other */
    bool orphan;               /* freed from inside */
    size_t busy, running;      /* pieces that there is work on, and those whose work runs */
    bool held_up;              /* a piece waits until the work on another one has ended: cap */
    struct zkl__margin margin; /* of the lease, while there is work */
};

/* Defined below. */
static const struct zkl__agent_ops partition_ops;
static const struct zkl__recipe piece_recipe, member_recipe;
static void partition_live(zkl_partition *partition, enum zkl__partition_life life);
static void partition_acquire(zkl_partition *partition, zkl_lock *place, zkl_acquired_fn done,
                              bool *said);
static void partition_try_later(zkl_partition *partition);
static void piece_completed(zkl_lock *place, int code, const zkl_grant *grant, const zkl_error *err,
                            void *payload);

/* === one piece ================================================================================ */

/* One piece of a partition: its lock, the calls of assigned and revoked, and
 * zkl_partition_done.
 *
 * Callbacks run everything but zkl_partition_done, one at a time. Any thread may call that. It ends
 * the work and releases the lock in one section of the session's mutex, so a piece with work always
 * has the lock that protects the work. */

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

/* Inside. The work has ended: the piece is released, and nothing is owed for it any more. */
static void piece_end_work(struct zkl__piece *piece)
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
        piece_end_work(piece);
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
        piece_end_work(piece);
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
        partition_try_later(piece->partition);
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
        partition_acquire(piece->partition, &piece->place, piece_completed, &piece->refused);
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
static enum zkl__work look_at_piece(const struct zkl__piece *piece, struct zkl__standing *now)
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
    enum zkl__work work = look_at_piece(piece, &now);
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

/* From a callback, without the session's mutex. Acquires or releases the lock, and calls the user,
 * until the piece is in the state that the assignment wants. */
static void piece_settle(struct zkl__piece *piece)
{
    while (settle_once(piece)) {
    }
}

/* === who works on what ======================================================================== */

/* Pieces of work shared over members: a list of members that is watched, and a
 * lock for each piece.
 *
 * An agent reads the members and watches them. All that decides runs in callbacks, which run one at
 * a time: `reconcile` when the members or our membership changed, `settle` for the one piece whose
 * lock did. Both compare the current state with the wanted one and do what is missing, so that the
 * order of events does not matter, and no event has to be seen. What other threads look at is
 * guarded by the mutex. */

/* A member is there as soon as its node is: waits for nobody. */
static const struct zkl__rule member_rule = {"lock-", 0};

static void member_completed(zkl_lock *place, int code, const zkl_grant *grant,
                             const zkl_error *err, void *payload);

/* --- what is refused ------------------------------------------------------------------------- */

/* Looks again in a while, each time a longer one. */
static void partition_try_later(zkl_partition *partition)
{
    if (zkl__session_enter(partition->agent.session, NULL) == ZKL_OK) {
        if (!partition->retry.alarm.timer.set) {
            zkl__retry_later(partition->agent.session, &partition->retry);
        }
        zkl__session_leave(partition->agent.session);
    }
}

/* Inside. Said once, until it is not so any more. */
static void say(const zkl_partition *partition, const char *path, bool *said, int code,
                const char *what)
{
    if (!*said) {
        char text[ZKL_ERROR_TEXT_MAX + 160];
        snprintf(text, sizeof text, "refused: %s%s; it is tried again", what,
                 code == ZKL_EAUTH
                     ? ". Let this session read, create and delete there, or give it credentials"
                     : "");
        zkl__session_log(partition->agent.session, ZKL_LOG_WARN, "partition", path, text);
        *said = true;
    }
}

static void on_refused(zkl_partition *partition, const zkl_lock *place, bool *said,
                       const zkl_error *err)
{
    if (zkl__session_enter(partition->agent.session, NULL) == ZKL_OK) {
        say(partition, place->path, said, err->code, err->text);
        zkl__session_leave(partition->agent.session);
    }
    partition_try_later(partition);
}

static void on_taken(zkl_partition *partition, const zkl_lock *place, bool *said)
{
    if (zkl__session_enter(partition->agent.session, NULL) == ZKL_OK) {
        if (*said) {
            zkl__session_log(partition->agent.session, ZKL_LOG_INFO, "partition", place->path,
                             "not refused any more");
        }
        *said = false;
        partition->retry.pause = 0;
        zkl__session_leave(partition->agent.session);
    }
}

/* Begins an acquire, or says why not, and tries again later. */
static void partition_acquire(zkl_partition *partition, zkl_lock *place, zkl_acquired_fn done,
                              bool *said)
{
    zkl_error err;
    int rc = zkl_lock_acquire_async(place, ZKL_WAIT_FOREVER, done, NULL, &err);
    if (rc != ZKL_OK && rc != ZKL_ECLOSED && rc != ZKL_EFORKED) {
        on_refused(partition, place, said, &err);
    }
}

/* Notes the result of an acquire. False: the server refused it, and would refuse the next one, too.
 */
static bool note_result(zkl_partition *partition, const zkl_lock *place, bool *said, int code,
                        const zkl_error *err)
{
    if (code == ZKL_OK) {
        on_taken(partition, place, said);
    } else if (code != ZKL_ECANCELED && code != ZKL_ELOST) {
        on_refused(partition, place, said, err);
        return false;
    }
    return true;
}

/* --- the lease becomes short ----------------------------------------------------------------- */

static int64_t lease_until(const void *owner)
{
    const zkl_partition *partition = owner;
    return partition->running > 0
               ? zkl__core_lease_until(zkl__session_core(partition->agent.session))
               : INT64_MAX;
}

static void watch_lease(zkl_partition *partition)
{
    if (partition->options.margin_ms > 0 &&
        zkl__session_enter(partition->agent.session, NULL) == ZKL_OK) {
        partition->margin.ns = partition->options.margin_ms * ZKL__MS;
        zkl__margin_watch(&partition->margin);
        zkl__session_leave(partition->agent.session);
    }
}

/* --- the shares ------------------------------------------------------------------------------ */

/* Our index in the view; ZKL__NOBODY: we are not in it. */
static size_t find_us(const zkl_partition *partition, const char *node)
{
    const struct zkl__names *view = partition->view;
    for (size_t i = 0; view && i < view->count; i++) {
        if (strcmp(view->all[i], node) == 0) {
            return i;
        }
    }
    return ZKL__NOBODY;
}

/* node NULL: we are no member, and want nothing. */
static void want(zkl_partition *partition, const char *node)
{
    size_t us = node ? find_us(partition, node) : ZKL__NOBODY;
    const struct zkl__names *view = partition->view;
    if (us != ZKL__NOBODY) {
        const struct zkl__share share = {view->all, view->count, partition->names, partition->count,
                                         partition->options.cap};
        if (!zkl__share_out(partition->owners, &share,
                            zkl__session_heap(partition->agent.session))) {
            partition_try_later(partition);
            return; /* as before */
        }
    }
    for (size_t i = 0; i < partition->count; i++) {
        partition->pieces[i]->wanted = us != ZKL__NOBODY && partition->owners[i] == us;
    }
}

/* What became of our membership, and of the others. Returns whether it runs. */
static bool look_at_member(zkl_partition *partition, struct zkl__standing *now)
{
    zkl_session *session = partition->agent.session;
    zkl__session_enter_even_closed(session, NULL);
    *now = zkl__lock_look(&partition->member->place);
    if (partition->news) {
        zkl__free(zkl__session_heap(session), partition->view);
        partition->view = partition->news;
        partition->news = NULL;
    }
    if (partition->life == ZKL__PARTITION_RUNNING && zkl__state_holds(now->state) &&
        strcmp(now->node, partition->node) != 0) {
        zkl__name_copy(partition->node, now->node);
        zkl__member_list_renew(&partition->list);
        zkl__agent_wake(&partition->agent, &partition->list.watcher);
    }
    bool running = partition->life == ZKL__PARTITION_RUNNING;
    if (partition->life == ZKL__PARTITION_STOPPING) {
        partition_live(partition, ZKL__PARTITION_UNWINDING);
    }
    zkl__session_leave(session);
    return running;
}

static void keep_membership(zkl_partition *partition, zkl_state state, bool running)
{
    zkl_lock *place = &partition->member->place;
    if (state == ZKL_STATE_LOST || (zkl__state_holds(state) && !running)) {
        zkl_lock_release(place, NULL);
    } else if (state == ZKL_STATE_WAITING && !running) {
        zkl_lock_cancel(place);
    }
    if (running && (state == ZKL_STATE_IDLE || state == ZKL_STATE_LOST)) {
        partition_acquire(partition, place, member_completed, &partition->member->refused);
    }
}

static void reconcile(zkl_partition *partition)
{
    struct zkl__standing now;
    bool running = look_at_member(partition, &now);
    keep_membership(partition, now.state, running);
    want(partition, running && zkl__state_holds(now.state) ? now.node : NULL);
    for (size_t i = 0; i < partition->count; i++) { /* first what goes: cap is never exceeded */
        if (!partition->pieces[i]->wanted) {
            piece_settle(partition->pieces[i]);
        }
    }
    for (size_t i = 0; i < partition->count; i++) {
        piece_settle(partition->pieces[i]);
    }
    watch_lease(partition);
}

/* --- its end --------------------------------------------------------------------------------- */

/* Not inside. The end of it: no callback runs, and none will. First what calls reconcile, then the
 * pieces that it looks at. */
static void partition_dismantle(zkl_partition *partition)
{
    zkl_session *session = partition->agent.session;
    if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
        return; /* in a child of fork the parent's memory stays as it is */
    }
    partition->agent.freed = true;
    zkl__agent_stop(&partition->agent);
    zkl__margin_stop(&partition->margin);
    zkl__callbacks_unpost(zkl__session_callbacks(session), &partition->agent.notice);
    zkl__session_leave(session);
    zkl_lock_free(&partition->member->place);
    for (size_t i = 0; i < partition->count; i++) {
        zkl_lock_free(&partition->pieces[i]->place);
    }
    zkl__agent_free(&partition->agent, false);
}

/* Inside. Another life: it may go from any to RUNNING, and from there through the others in their
 * order. */
static void partition_live(zkl_partition *partition, enum zkl__partition_life life)
{
    static const enum zkl__partition_life before[] = {
        [ZKL__PARTITION_STOPPING] = ZKL__PARTITION_RUNNING,
        [ZKL__PARTITION_UNWINDING] = ZKL__PARTITION_STOPPING,
        [ZKL__PARTITION_IDLE] = ZKL__PARTITION_UNWINDING,
    };
    ZKL__ENSURE(life == ZKL__PARTITION_RUNNING || before[life] == partition->life);
    partition->life = life;
}

/* Around all that runs in callbacks. */
static void begin(zkl_partition *partition)
{
    zkl__session_enter_even_closed(partition->agent.session, NULL);
    partition->depth++;
    zkl__session_leave(partition->agent.session);
}

static void end(zkl_partition *partition)
{
    zkl__session_enter_even_closed(partition->agent.session, NULL);
    bool outermost = --partition->depth == 0, last = outermost && partition->orphan;
    if (outermost && partition->life == ZKL__PARTITION_UNWINDING && partition->busy == 0) {
        partition_live(partition, ZKL__PARTITION_IDLE);
        zkl__calls_poke(partition->agent.session, &partition->agent.object);
    }
    if (last) {
        partition->orphan = false; /* what is called from there does not come here again */
    }
    zkl__session_leave(partition->agent.session);
    if (last) {
        partition_dismantle(partition);
    }
}

static void destroy(struct zkl__agent *agent)
{
    zkl_partition *partition = (zkl_partition *)agent;
    const zkl_heap *heap = zkl__session_heap(agent->session);
    zkl__free(heap, partition->pieces);
    zkl__free(heap, partition->names);
    zkl__free(heap, partition->owners);
    zkl__name_set_clear(&partition->index, heap);
    zkl__free(heap, partition->view);
    zkl__free(heap, partition->news);
}

/* --- what places and the agent tell ---------------------------------------------------------- */

/* The state_fn of the pieces' locks and of the member's. */
static void piece_told(zkl_lock *place, zkl_state state, void *payload)
{
    struct zkl__piece *piece = (struct zkl__piece *)place;
    zkl_partition *partition = piece->partition;
    (void)state, (void)payload;
    begin(partition);
    piece_settle(piece);
    watch_lease(partition);
    end(partition);
}

static void piece_completed(zkl_lock *place, int code, const zkl_grant *grant, const zkl_error *err,
                            void *payload)
{
    struct zkl__piece *piece = (struct zkl__piece *)place;
    (void)payload, (void)grant;
    if (note_result(piece->partition, place, &piece->refused, code, err)) {
        piece_told(place, ZKL_STATE_HELD, NULL);
    }
}

static void member_told(zkl_lock *place, zkl_state state, void *payload)
{
    zkl_partition *partition = ((struct zkl__member *)place)->partition;
    (void)state, (void)payload;
    begin(partition);
    reconcile(partition);
    end(partition);
}

static void member_completed(zkl_lock *place, int code, const zkl_grant *grant,
                             const zkl_error *err, void *payload)
{
    struct zkl__member *member = (struct zkl__member *)place;
    (void)payload, (void)grant;
    if (note_result(member->partition, place, &member->refused, code, err)) {
        member_told(place, ZKL_STATE_HELD, NULL);
    }
}

static void tell(struct zkl__agent *agent)
{
    zkl_partition *partition = (zkl_partition *)agent;
    begin(partition);
    reconcile(partition);
    end(partition);
}

/* --- the list of the members ----------------------------------------------------------------- */

/* Inside a step, as the next two. */
static void show(void *owner, struct zkl__names *members)
{
    zkl_partition *partition = owner;
    zkl__free(zkl__session_heap(partition->agent.session), partition->news);
    partition->news = members;
    partition->unread = false;
    zkl__agent_post(&partition->agent);
}

static void unlisted(void *owner, enum zkl__rc rc)
{
    zkl_partition *partition = owner;
    say(partition, partition->list.dir, &partition->unread, zkl__rc_code(rc),
        "its members cannot be listed");
}

static bool takes_part(void *owner)
{
    const zkl_partition *partition = owner;
    return partition->life == ZKL__PARTITION_RUNNING &&
           zkl__state_holds(zkl__lock_look(&partition->member->place).state);
}

static void look_again(void *owner)
{
    zkl__agent_post(&((zkl_partition *)owner)->agent);
}

/* Inside. Begins the list of its members; false: no memory. */
static bool partition_list(zkl_partition *partition, const char *members)
{
    partition->retry.alarm.ring = look_again;
    partition->retry.alarm.owner = partition;
    partition->margin = (struct zkl__margin){.session = partition->agent.session,
                                             .until = lease_until,
                                             .reached = look_again,
                                             .owner = partition};
    partition->list = (struct zkl__member_list){.dir = members,
                                                .counts = zkl__name_contends,
                                                .wanted = takes_part,
                                                .show = show,
                                                .refused = unlisted};
    return zkl__member_list_begin(&partition->list, zkl__session_core(partition->agent.session),
                                  partition);
}

static void stop(struct zkl__agent *agent)
{
    zkl_partition *partition = (zkl_partition *)agent;
    zkl__member_list_end(&partition->list);
    zkl__retry_stop(agent->session, &partition->retry);
}

/* Ends the partition with its session: the callback reports every piece as revoked. */
static bool give_up(struct zkl__object *object, int code)
{
    zkl_partition *partition = (zkl_partition *)object;
    if (code == ZKL_ECLOSED && partition->life == ZKL__PARTITION_RUNNING) {
        partition_live(partition, ZKL__PARTITION_STOPPING);
        zkl__agent_post(&partition->agent);
    }
    return zkl__agent_give_up(object, code);
}

static const struct zkl__agent_ops partition_ops = {
    .object = {"partition", give_up, zkl__agent_describe},
    .tell = tell,
    .stop = stop,
    .destroy = destroy,
};

static const struct zkl__recipe piece_recipe = {
    .object = {.noun = "piece", .give_up = zkl__lock_give_up, .describe = zkl__lock_describe},
    .size = sizeof(struct zkl__piece),
    .rule = &zkl__rule_mutex,
    .internal = true,
};

static const struct zkl__recipe member_recipe = {
    .object = {.noun = "member", .give_up = zkl__lock_give_up, .describe = zkl__lock_describe},
    .size = sizeof(struct zkl__member),
    .rule = &member_rule,
    .internal = true,
};

/* === the partition ============================================================================ */

static int check_pieces(const char *const *pieces, size_t count, zkl_error *err)
{
    if (!pieces || count == 0 || count > ZKL_PARTITION_PIECES_MAX) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%zu pieces; from 1 to %d", pieces ? count : 0,
                         ZKL_PARTITION_PIECES_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        if (!pieces[i] || !*pieces[i] || strchr(pieces[i], '/')) {
            return zkl__fail(err, ZKL_EINVAL, 0, NULL, "piece %zu is not one component of a path",
                             i);
        }
    }
    return ZKL_OK;
}

ZKL__SIZED(sized, zkl_partition_options, ZKL_PARTITION_OPTIONS_INIT, acl, state_fn);

/* A longer one than the lease can be would never let a piece be assigned. */
static int check_margin(const zkl_partition_options *options, const zkl_session *session,
                        zkl_error *err)
{
    return zkl__range_check("margin_ms", options->margin_ms, 0,
                            zkl__session_settings(session)->options.session_timeout_ms - 1, err);
}

static int check(const char *const *pieces, size_t count, const zkl_partition_options *options,
                 zkl_error *err)
{
    if (!options->assigned_fn || !options->revoked_fn) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL",
                         options->assigned_fn ? "revoked_fn" : "assigned_fn");
    }
    return check_pieces(pieces, count, err);
}

/* A place at PATH/folder[/name]. */
static int make_place(zkl_lock **out, const struct zkl__recipe *recipe, zkl_lock_state_fn told,
                      zkl_session *session, const char *path, const char *folder, const char *name,
                      const zkl_partition_options *options, zkl_error *err)
{
    char above[ZKL_PATH_MAX + 1], whole[ZKL_PATH_MAX + 1];
    const char *const paths[] = {whole};
    zkl_lock_options own = ZKL_LOCK_OPTIONS_INIT;
    own.metadata = options->metadata;
    own.acl = options->acl;
    own.release_timeout_ms = 0;
    own.state_fn = told;
    if (zkl__path_join(above, sizeof above, path, folder) == 0 ||
        zkl__path_join(whole, sizeof whole, above, name) == 0) {
        return zkl__fail(err, ZKL_EINVAL, 0, path, "too long with the names of its pieces");
    }
    return zkl__lock_make(out, recipe, session, paths, 1, &own, err);
}

/* What has no partition yet. */
struct parts {
    struct zkl__piece **pieces;
    const char **names;
    size_t *owners;
    struct zkl__name_set index; /* of names */
    struct zkl__member *member;
    size_t count;
};

static int add_to_index(struct parts *parts, const zkl_heap *heap, const char *name, size_t at,
                        zkl_error *err)
{
    const int64_t *same = zkl__name_set_find(&parts->index, name);
    if (same) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "pieces %zu and %zu are the same: %.80s",
                         (size_t)*same, at, name);
    }
    return zkl__name_set_put(&parts->index, heap, name, (int64_t)at)
               ? ZKL_OK
               : zkl__fail(err, ZKL_ENOMEM, 0, NULL, "no memory");
}

static int make_parts(struct parts *parts, zkl_session *session, const char *path,
                      const char *const *pieces, size_t count, const zkl_partition_options *options,
                      zkl_error *err)
{
    const zkl_heap *heap = zkl__session_heap(session);
    parts->pieces = zkl__zalloc(heap, count * sizeof *parts->pieces);
    parts->names = zkl__zalloc(heap, count * sizeof *parts->names);
    parts->owners = zkl__zalloc(heap, count * sizeof *parts->owners);
    if (!parts->pieces || !parts->names || !parts->owners) {
        return zkl__fail(err, ZKL_ENOMEM, 0, path, "no memory");
    }
    zkl_lock *place;
    int rc = make_place(&place, &member_recipe, member_told, session, path, "members", NULL,
                        options, err);
    if (rc == ZKL_OK) {
        parts->member = (struct zkl__member *)place;
    }
    for (size_t i = 0; rc == ZKL_OK && i < count; i++) {
        rc = add_to_index(parts, heap, pieces[i], i, err);
        if (rc == ZKL_OK) {
            rc = make_place(&place, &piece_recipe, piece_told, session, path, "pieces", pieces[i],
                            options, err);
        }
        if (rc == ZKL_OK) {
            parts->pieces[parts->count++] = (struct zkl__piece *)place;
            parts->names[i] = parts->pieces[i]->name = strrchr(place->path, '/') + 1;
        }
    }
    return rc;
}

static void free_parts(struct parts *parts, zkl_session *session)
{
    const zkl_heap *heap = zkl__session_heap(session);
    zkl_lock_free((zkl_lock *)parts->member);
    for (size_t i = 0; i < parts->count; i++) {
        zkl_lock_free(&parts->pieces[i]->place);
    }
    zkl__free(heap, parts->pieces);
    zkl__free(heap, parts->names);
    zkl__free(heap, parts->owners);
    zkl__name_set_clear(&parts->index, heap);
}

/* Inside. */
static void assemble(zkl_partition *partition, const struct parts *parts,
                     const zkl_partition_options *options)
{
    partition->options = *options;
    partition->options.metadata = NULL; /* the places have copies */
    partition->options.acl = NULL;
    partition->count = parts->count;
    partition->pieces = parts->pieces;
    partition->names = parts->names;
    partition->index = parts->index;
    partition->owners = parts->owners;
    partition->member = parts->member;
    partition->member->partition = partition;
    for (size_t i = 0; i < parts->count; i++) {
        partition->pieces[i]->partition = partition;
    }
}

int zkl_partition_new(zkl_partition **out, zkl_session *session, const char *path,
                      const char *const *pieces, size_t count, const zkl_partition_options *options,
                      zkl_error *err)
{
    ZKL__CLEAR(out);
    if (!out || !session) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", out ? "session" : "out");
    }
    zkl_partition_options o;
    int rc = zkl__sized_take(&o, options, &sized, err);
    rc = rc == ZKL_OK ? check(pieces, count, &o, err) : rc;
    rc = rc == ZKL_OK ? check_margin(&o, session, err) : rc;
    rc = rc == ZKL_OK ? zkl__path_check(path, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    struct parts parts = {0};
    struct zkl__agent *agent;
    rc = make_parts(&parts, session, path, pieces, count, &o, err);
    if (rc == ZKL_OK) {
        rc =
            zkl__agent_new(&agent, sizeof(zkl_partition), &partition_ops, session, path, true, err);
    }
    if (rc != ZKL_OK) {
        free_parts(&parts, session);
        return rc;
    }
    bool made = partition_list((zkl_partition *)agent, parts.member->place.path);
    if (made) {
        assemble((zkl_partition *)agent, &parts, &o);
        *out = (zkl_partition *)agent;
    }
    rc = zkl__agent_made(agent, made, err);
    if (rc != ZKL_OK) {
        free_parts(&parts, session);
    }
    return rc;
}

/* --- calls ----------------------------------------------------------------------------------- */

int zkl_partition_start(zkl_partition *partition, zkl_error *err)
{
    if (!partition) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "partition is NULL");
    }
    int rc = zkl__session_enter(partition->agent.session, err);
    if (rc == ZKL_OK) {
        if (partition->life != ZKL__PARTITION_RUNNING) {
            partition_live(partition, ZKL__PARTITION_RUNNING);
            zkl__member_list_renew(&partition->list);
            zkl__calls_poke(partition->agent.session, &partition->agent.object);
            zkl__agent_post(&partition->agent);
        }
        zkl__session_leave(partition->agent.session);
    }
    return rc;
}

/* Inside. What it has is revoked in callbacks, which follow. */
static void begin_stop(zkl_partition *partition)
{
    if (partition->life == ZKL__PARTITION_RUNNING) {
        partition_live(partition, ZKL__PARTITION_STOPPING);
    }
    if (partition->list.watcher.core) {
        zkl__watcher_unwatch(&partition->list.watcher);
    }
    zkl__agent_post(&partition->agent);
}

int zkl_partition_stop(zkl_partition *partition, zkl_error *err)
{
    if (!partition) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "partition is NULL");
    }
    zkl_session *session = partition->agent.session;
    int rc = zkl__session_enter_even_closed(session, err);
    if (rc == ZKL_OK) {
        begin_stop(partition);
        zkl__callbacks_finish(zkl__session_callbacks(session), &partition->agent.notice);
        zkl__session_leave(session);
    }
    return rc;
}

/* --- a stop that nobody waits for ------------------------------------------------------------ */

struct stopping {
    struct zkl__call call; /* first */
    zkl_partition *partition;
};

static int run_stop(struct zkl__call *call)
{
    zkl_partition *partition = ((struct stopping *)call)->partition;
    CALL_BEGIN(call);
    begin_stop(partition);
    AWAIT_UNTIL(call, partition->life == ZKL__PARTITION_IDLE ||
                          partition->life == ZKL__PARTITION_RUNNING);
    if (partition->life == ZKL__PARTITION_RUNNING) {
        RETURN(call,
               zkl__fail(call->err, ZKL_ECANCELED, 0, NULL, "it was started again meanwhile"));
    }
    CALL_END(call);
}

/* Its free stops it, too. */
static int conclude_stop(struct zkl__call *call, int rc)
{
    const zkl_partition *partition = ((struct stopping *)call)->partition;
    return rc == ZKL_ECANCELED && partition->life == ZKL__PARTITION_IDLE ? ZKL_OK : rc;
}

static int bind_stop(struct zkl__call *call, zkl_error *err)
{
    zkl_partition *partition = ((struct stopping *)call)->partition;
    (void)err;
    call->owner = &partition->agent.object;
    partition->agent.refs++;
    return ZKL_OK;
}

static void end_stop(struct zkl__call *call)
{
    zkl__agent_unref(&((struct stopping *)call)->partition->agent);
}

int zkl_partition_stop_async(zkl_partition *partition, zkl_done_fn done, void *payload,
                             zkl_error *err)
{
    static const struct zkl__call_kind kind = {
        sizeof(struct stopping), run_stop, conclude_stop, bind_stop, end_stop, true};
    const struct stopping given = {.partition = partition};
    if (!partition) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "partition is NULL");
    }
    return zkl__call_go(&kind, &given, partition->agent.session, partition->agent.path,
                        ZKL_WAIT_FOREVER, &(struct zkl__later){done, payload}, err);
}

/* Inside, after a stop. Its user says by the free that the work has ended. */
static void end_all_work(zkl_partition *partition)
{
    for (size_t i = 0; i < partition->count; i++) {
        if (partition->pieces[i]->work == ZKL__WORK_ENDS) {
            piece_end_work(partition->pieces[i]);
        }
    }
    if (partition->depth == 0 && partition->life == ZKL__PARTITION_UNWINDING) {
        partition_live(partition, ZKL__PARTITION_IDLE);
    }
}

void zkl_partition_free(zkl_partition *partition)
{
    if (!partition || zkl_partition_stop(partition, NULL) != ZKL_OK) {
        return;
    }
    zkl_session *session = partition->agent.session;
    zkl__session_enter_even_closed(session, NULL);
    end_all_work(partition);
    zkl__calls_end(session, &partition->agent.object, ZKL_ECANCELED);
    zkl__calls_deliver(session, &partition->agent.object);
    bool inside =
        partition->depth > 0 && zkl__callbacks_inside(zkl__session_callbacks(session), NULL);
    partition->orphan = inside; /* then the outermost callback does the rest */
    zkl__session_leave(session);
    if (!inside) {
        partition_dismantle(partition);
    }
}

/* --- the answer to revoked ------------------------------------------------------------------- */

static struct zkl__piece *find_piece(const zkl_partition *partition, const char *name)
{
    const int64_t *at = zkl__name_set_find(&partition->index, name);
    return at ? partition->pieces[*at] : NULL;
}

/* ZKL_EINVAL: there is no such piece. */
static int take_piece(struct zkl__piece **piece, const zkl_partition *partition, const char *name,
                      zkl_error *err)
{
    if (!partition || !name) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", partition ? "piece" : "partition");
    }
    *piece = find_piece(partition, name);
    return *piece ? ZKL_OK
                  : zkl__fail(err, ZKL_EINVAL, 0, partition->agent.path,
                              "no piece of this partition: %.80s", name);
}

int zkl_partition_done(zkl_partition *partition, const char *name, zkl_error *err)
{
    struct zkl__piece *piece;
    int rc = take_piece(&piece, partition, name, err);
    rc = rc == ZKL_OK ? zkl__session_enter_even_closed(partition->agent.session, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    if (!partition->options.done_later || piece->work != ZKL__WORK_ENDS) {
        rc = zkl__fail(err, ZKL_ENOTHELD, 0, partition->agent.path,
                       partition->options.done_later
                           ? "revoked was not called for %.80s, or is answered"
                           : "without the option done_later the return of revoked answers: %.80s",
                       name);
    } else {
        piece_end_work(piece);
        zkl__agent_post(&partition->agent);
    }
    zkl__session_leave(partition->agent.session);
    return rc;
}

/* --- what is so now -------------------------------------------------------------------------- */

size_t zkl_partition_owned(const zkl_partition *partition, const char **names, size_t room)
{
    size_t owned = 0;
    if (!partition || zkl__session_enter(partition->agent.session, NULL) != ZKL_OK) {
        return 0;
    }
    for (size_t i = 0; i < partition->count; i++) {
        const struct zkl__piece *piece = partition->pieces[i];
        if (piece->work == ZKL__WORK_RUNS &&
            zkl__state_holds(zkl__lock_look(&piece->place).state)) {
            if (owned < room) {
                names[owned] = piece->name;
            }
            owned++;
        }
    }
    zkl__session_leave(partition->agent.session);
    return owned;
}

/* How the lock of a piece stands, while there is work on it. */
static struct zkl__standing standing_of(const zkl_partition *partition, const char *name,
                                        enum zkl__work *work)
{
    struct zkl__standing now = {.state = ZKL_STATE_IDLE};
    *work = ZKL__WORK_NONE;
    const struct zkl__piece *piece = partition && name ? find_piece(partition, name) : NULL;
    if (piece && zkl__session_enter(partition->agent.session, NULL) == ZKL_OK) {
        *work = piece->work;
        now = *work == ZKL__WORK_NONE ? now : zkl__lock_look(&piece->place);
        zkl__session_leave(partition->agent.session);
    }
    return now;
}

int64_t zkl_partition_remaining_ms(const zkl_partition *partition, const char *name)
{
    enum zkl__work work;
    int64_t until = standing_of(partition, name, &work).until;
    return until > 0 ? zkl__session_left(partition->agent.session, until) / ZKL__MS : 0;
}

bool zkl_partition_owns(const zkl_partition *partition, const char *piece)
{
    enum zkl__work work;
    struct zkl__standing now = standing_of(partition, piece, &work);
    return work == ZKL__WORK_RUNS && zkl__state_holds(now.state);
}

/* --- a transaction under a piece's lock ------------------------------------------------------ */

/* The lock of a piece that there is work on. */
static int take_lock(zkl_lock **lock, zkl_partition *partition, const char *name,
                     int64_t timeout_ms, zkl_error *err)
{
    struct zkl__piece *piece;
    int rc = take_piece(&piece, partition, name, err);
    rc = rc == ZKL_OK ? zkl__timeout_check(timeout_ms, err) : rc;
    rc = rc == ZKL_OK ? zkl__session_enter(partition->agent.session, err) : rc;
    if (rc == ZKL_OK) {
        *lock = &piece->place;
        if (piece->work == ZKL__WORK_NONE) {
            rc = zkl__fail(err, ZKL_ENOTHELD, 0, piece->place.path,
                           "not done: the piece is not assigned to this member");
        }
        zkl__session_leave(partition->agent.session);
    }
    return rc;
}

int zkl_partition_commit(zkl_partition *partition, const char *piece, const zkl_op *ops,
                         size_t count, int64_t timeout_ms, zkl_op_result *results, zkl_error *err)
{
    zkl_lock *lock;
    int rc = take_lock(&lock, partition, piece, timeout_ms, err);
    return rc == ZKL_OK ? zkl_lock_commit(lock, ops, count, timeout_ms, results, err) : rc;
}

int zkl_partition_commit_async(zkl_partition *partition, const char *piece, const zkl_op *ops,
                               size_t count, int64_t timeout_ms, zkl_op_result *results,
                               zkl_done_fn done, void *payload, zkl_error *err)
{
    zkl_lock *lock;
    int rc = take_lock(&lock, partition, piece, timeout_ms, err);
    return rc == ZKL_OK
               ? zkl_lock_commit_async(lock, ops, count, timeout_ms, results, done, payload, err)
               : rc;
}
