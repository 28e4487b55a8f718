#include "contender_moves.h"

#include "backoff.h"
#include "inspection.h"

#include <string.h>

#define MILLISECOND INT64_C(1000000)
#define PATIENCE_LEAST (20 * MILLISECOND)
#define PATIENCE_MOST (2000 * MILLISECOND)

const struct zkl__rule zkl__rule_mutex = {"lock-", ZKL__KIND_ANY};

/* --- states ---------------------------------------------------------------------------------- */

#define S(state) (1u << (state))

static const struct {
    const char *name;
    uint32_t next; /* where it may go from here */
} states[ZKL__CONTENDER_STATES] = {
    [ZKL__NEW] = {"new", S(ZKL__CREATING) | S(ZKL__REMOVING) | S(ZKL__GONE)},
    [ZKL__CREATING] = {"creating", S(ZKL__NEW) | S(ZKL__MAKING) | S(ZKL__LISTING) |
                                       S(ZKL__WATCHING) | S(ZKL__PROVING) | S(ZKL__REMOVING)},
    [ZKL__MAKING] = {"making", S(ZKL__NEW) | S(ZKL__CREATING) | S(ZKL__REMOVING)},
    [ZKL__LISTING] = {"listing",
                      S(ZKL__NEW) | S(ZKL__WATCHING) | S(ZKL__PROVING) | S(ZKL__REMOVING)},
    [ZKL__WATCHING] = {"watching", S(ZKL__NEW) | S(ZKL__LISTING) | S(ZKL__WATCHING) |
                                       S(ZKL__PROVING) | S(ZKL__REMOVING)},
    [ZKL__PROVING] = {"proving", S(ZKL__NEW) | S(ZKL__LISTING) | S(ZKL__HELD) | S(ZKL__REMOVING)},
    [ZKL__HELD] = {"held", S(ZKL__LOST) | S(ZKL__REMOVING)},
    [ZKL__LOST] = {"lost", S(ZKL__REMOVING)},
    [ZKL__REMOVING] = {"removing", S(ZKL__GONE)},
    [ZKL__GONE] = {"gone", 0},
};

const char *zkl__contender_state_name(enum zkl__contender_state state)
{
    return (unsigned)state < ZKL__CONTENDER_STATES ? states[state].name : "?";
}

bool zkl__contender_waits(const struct zkl__contender *c)
{
    return c->started && c->state < ZKL__HELD;
}

bool zkl__contender_ready(const struct zkl__contender *c, int64_t now)
{
    return c->state == ZKL__PROVING && c->czxid && c->retry_at <= now &&
           (!c->config.mark || c->marked);
}

/* What each state says about our node. */
static void check_sound(const struct zkl__contender *c)
{
    bool node = c->node[0] != '\0';
    switch (c->state) {
    case ZKL__NEW:
        ZKL__ENSURE(!node && !c->unsure && c->czxid == 0);
        break;
    case ZKL__LISTING:
        ZKL__ENSURE(node);
        break;
    case ZKL__WATCHING:
        ZKL__ENSURE(node && !c->doubled);
        break;
    case ZKL__PROVING:
        ZKL__ENSURE(node && !c->doubled && !c->unsure);
        break;
    case ZKL__HELD:
        ZKL__ENSURE(node && !c->unsure && c->czxid != 0);
        break;
    case ZKL__GONE:
        ZKL__ENSURE(!node && !c->unsure);
        break;
    default:
        break;
    }
}

static void end_inspection(struct zkl__contender *c)
{
    zkl__inspection_drop(c);
    c->inspects = false;
}

void zkl__contender_move(struct zkl__contender *c, enum zkl__contender_state state, const char *why)
{
    ZKL__ENSURE(states[c->state].next & S(state));
    zkl__core_trace(c->core, c, "%s -> %s: %s", states[c->state].name, states[state].name, why);
    c->state = state;
    if (state != ZKL__WATCHING) {
        end_inspection(c);
    }
    check_sound(c);
}

/* --- moves that several events make ---------------------------------------------------------- */

void zkl__contender_tell(struct zkl__contender_actions *out, int64_t now,
                         enum zkl__outcome_kind kind, int code, int zk_code, const char *why)
{
    ZKL__ENSURE(!out->told);
    out->told = true;
    out->outcome = (struct zkl__outcome){
        .kind = kind, .code = code, .zk_code = zk_code, .why = why, .now = now};
}

void zkl__contender_put_off(struct zkl__contender *c, int64_t now)
{
    c->patience = zkl__backoff(c->patience, PATIENCE_LEAST, PATIENCE_MOST);
    c->retry_at = now + c->patience;
}

static void new_mark(struct zkl__contender *c)
{
    if (c->mark_sent) {
        strcpy(c->marks->older, c->marks->own);
        c->mark_sent = c->marked = false;
    }
    strcpy(c->marks->own, ZKL__MARK);
    strcat(c->marks->own, c->uuid);
}

void zkl__contender_new_attempt(struct zkl__contender *c)
{
    zkl__core_uuid(c->core, c->uuid);
    c->node[0] = c->twin[0] = '\0';
    c->czxid = 0;
    c->unsure = c->doubled = c->twin_stays = c->armed = c->proved = c->was_read = c->unlisted =
        false;
    c->sight = ZKL__SIGHT_READ;
    c->folders = ZKL__FOLDERS_UNSEEN;
    if (c->marks) {
        new_mark(c);
    }
}

void zkl__contender_stop_watching(struct zkl__contender *c, struct zkl__contender_actions *out,
                                  enum zkl__watch_change how)
{
    if (c->watch.on) {
        out->watch = how;
    }
    if (c->queue_watch.on) {
        out->queue_watch = how;
    }
    c->armed = false;
}

void zkl__contender_stop_own_watch(struct zkl__contender *c, struct zkl__contender_actions *out)
{
    if (c->own_watch.on) {
        out->own_watch = ZKL__WATCH_FORGET;
    }
    c->own_armed = false;
}

/* What we could not delete while it was only a double must go too: the list will show it. */
static void remember_twin(struct zkl__contender *c)
{
    c->unsure = c->unsure || c->twin_stays;
    c->twin_stays = false;
}

/* Never granted: told at once; what is left of it is removed in the background. */
void zkl__contender_fail(struct zkl__contender *c, const struct zkl__contender_event *ev,
                         struct zkl__contender_actions *out, int code, int zk_code, const char *why)
{
    zkl__contender_tell(out, ev->now, ZKL__FAILED, code, zk_code, why);
    zkl__contender_stop_watching(c, out, ZKL__WATCH_OFF);
    zkl__contender_stop_own_watch(c, out);
    c->started = false;
    c->retry_at = 0;
    remember_twin(c);
    /* Who never held leaves things as they were. While our node stands, nobody behind us has
     * marked. */
    c->clear = c->mark_sent && !c->unclean;
    zkl__contender_move(c, ZKL__REMOVING, why);
    zkl__contender_advance(c, ev, out);
}

/* The place is gone through no wish of ours: once more at the tail, or an end. */
void zkl__contender_queue_again(struct zkl__contender *c, const struct zkl__contender_event *ev,
                                struct zkl__contender_actions *out, const char *why)
{
    zkl__contender_new_attempt(c);
    if (c->config.fail_on_expiry) {
        zkl__contender_fail(c, ev, out, ZKL_ELOST, 0, why);
        return;
    }
    c->requeued = true;
    zkl__contender_stop_watching(c, out, ZKL__WATCH_OFF);
    zkl__contender_stop_own_watch(c, out);
    zkl__contender_move(c, ZKL__NEW, why);
    zkl__contender_advance(c, ev, out);
}

void zkl__contender_lose(struct zkl__contender *c, const struct zkl__contender_event *ev,
                         struct zkl__contender_actions *out, const char *why)
{
    zkl__contender_tell(out, ev->now, ZKL__LOSS, ZKL_ELOST, 0, why);
    zkl__contender_stop_own_watch(c, out);
    zkl__contender_move(c, ZKL__LOST, why);
}

void zkl__contender_node_removed(struct zkl__contender *c, const struct zkl__contender_event *ev,
                                 struct zkl__contender_actions *out)
{
    const char *why = "our node was removed by somebody";
    if (c->state == ZKL__HELD) {
        c->node[0] = '\0';
        zkl__contender_lose(c, ev, out, why);
    } else {
        zkl__contender_queue_again(c, ev, out, why);
    }
}

void zkl__contender_finish(struct zkl__contender *c, const struct zkl__contender_event *ev,
                           struct zkl__contender_actions *out, int code, const char *why)
{
    zkl__contender_move(c, ZKL__GONE, why);
    if (c->releasing) {
        zkl__contender_tell(out, ev->now, ZKL__RELEASED, code, 0, why);
    }
}

void zkl__contender_look_later(struct zkl__contender *c, const struct zkl__contender_event *ev)
{
    c->look_at = ev->now + zkl__lease_heartbeat(zkl__core_timeout(c->core));
}

void zkl__contender_grant(struct zkl__contender *c, const struct zkl__contender_event *ev,
                          struct zkl__contender_actions *out)
{
    zkl__contender_move(c, ZKL__HELD, "nobody before us, and a lease");
    c->own_armed = c->own_armed && !c->config.revocable; /* asked while it waited: told now */
    if (c->unlisted) {
        zkl__contender_look_later(c, ev);
    }
    c->guards = false;
    c->guard_at = zkl__core_guard_at(c->core);
    c->hold_until = c->config.max_hold > 0 ? ev->now + c->config.max_hold : INT64_MAX;
    zkl__contender_tell(out, ev->now, ZKL__GRANTED, ZKL_OK, 0, "granted");
    out->outcome.token = c->czxid;
    out->outcome.unclean = c->unclean;
    zkl__contender_advance(c, ev, out);
}

/* What an error of the server means to one who waits. */
void zkl__contender_fail_by_reply(struct zkl__contender *c, const struct zkl__contender_event *ev,
                                  struct zkl__contender_actions *out)
{
    const struct zkl__reply *reply = ev->reply;
    switch (reply->rc) {
    case ZKL__RC_NOTAPPLIED:
        zkl__contender_put_off(c, ev->now);
        break;
    case ZKL__RC_UNSENT:
        if (reply->unsent == ZKL_EINVAL) {
            zkl__contender_fail(c, ev, out, ZKL_EINVAL, 0,
                                "the path is too long under the session's chroot");
        } else if (reply->unsent == ZKL_ENOMEM || reply->unsent == ZKL_ELIMIT) {
            zkl__contender_fail(c, ev, out, reply->unsent, 0,
                                reply->unsent == ZKL_ENOMEM ? "out of memory"
                                                            : "too many watches in this session");
        } else {
            zkl__contender_put_off(c, ev->now);
        }
        break;
    case ZKL__RC_UNKNOWN:
        break; /* the connection went: `connected` comes, or `expired` */
    case ZKL__RC_NODEEXISTS:
        zkl__contender_fail(c, ev, out, ZKL_EEXHAUSTED, reply->zk_code, EXHAUSTED);
        break;
    case ZKL__RC_EPHEMERALPARENT:
        zkl__contender_fail(c, ev, out, ZKL_ECONFLICT, reply->zk_code,
                            "a part of the path is an ephemeral znode, which has no children");
        break;
    default:
        zkl__contender_fail(c, ev, out, zkl__rc_code(reply->rc), reply->zk_code,
                            zkl__rc_why(reply->rc));
    }
}

/* --- events ---------------------------------------------------------------------------------- */

static void on_connected(struct zkl__contender *c, const struct zkl__contender_event *ev,
                         struct zkl__contender_actions *out)
{
    c->retry_at = 0;
    c->twin[0] = '\0';
    c->sight = ZKL__SIGHT_READ;
    if (c->state == ZKL__WATCHING || c->state == ZKL__PROVING ||
        (c->state == ZKL__CREATING && c->node[0])) {
        zkl__contender_stop_watching(c, out, ZKL__WATCH_FORGET);
        zkl__contender_stop_own_watch(c, out);
        zkl__contender_move(c, ZKL__LISTING, "connected again: look again");
    }
    zkl__contender_advance(c, ev, out);
}

static void on_expired(struct zkl__contender *c, const struct zkl__contender_event *ev,
                       struct zkl__contender_actions *out)
{
    c->under_way = 0;
    c->retry_at = 0;
    if (zkl__contender_waits(c)) {
        if (c->state == ZKL__NEW) {
            return;
        }
        zkl__contender_queue_again(c, ev, out, "the session ended");
        return;
    }
    c->node[0] = c->twin[0] = c->swap[0] = '\0';
    c->unsure = c->doubled = c->twin_stays = false;
    if (c->state == ZKL__HELD) {
        zkl__contender_lose(c, ev, out, "the session ended");
    } else if (c->state == ZKL__REMOVING) {
        zkl__contender_finish(c, ev, out, ZKL_ELOST, "the session ended");
    }
}

/* Not wanted any more: one that was sent and lost its answer leaves two names to look for. */
static void forget_swap(struct zkl__contender *c)
{
    if (c->swap[0] && !(c->under_way & UNDER_WAY(ZKL__ROLE_SWAP))) {
        c->unsure = true;
        c->swap[0] = '\0';
    }
}

static void look_whether_first(struct zkl__contender *c, const struct zkl__contender_event *ev,
                               struct zkl__contender_actions *out)
{
    if (ev->connected) {
        c->look_at = 0;
        zkl__ask_list(c, out);
    } else {
        zkl__contender_look_later(c, ev);
    }
}

static void on_time(struct zkl__contender *c, const struct zkl__contender_event *ev,
                    struct zkl__contender_actions *out)
{
    if (c->retry_at && c->retry_at <= ev->now) {
        c->retry_at = 0;
    }
    if (c->state == ZKL__HELD && c->guard_at && c->guard_at <= ev->now) {
        c->guard_at = 0;
        c->guards = true;
    }
    if (zkl__contender_waits(c) && c->deadline <= ev->now) {
        zkl__contender_fail(c, ev, out, ZKL_ETIMEOUT, 0,
                            ev->connected ? "the time is up"
                                          : "the time is up, and no server is reached");
    } else if ((c->state == ZKL__HELD || c->state == ZKL__LOST) && c->hold_until <= ev->now) {
        c->discard = true; /* also of an owner that lost before, and hangs */
        forget_swap(c);
        if (c->state == ZKL__HELD) {
            zkl__contender_lose(c, ev, out, "held for longer than max_hold_ms");
        }
        zkl__contender_advance(c, ev, out);
    } else if (c->state == ZKL__HELD && c->look_at && c->look_at <= ev->now) {
        look_whether_first(c, ev, out);
        zkl__contender_advance(c, ev, out);
    } else {
        zkl__contender_advance(c, ev, out);
    }
}

static void on_release(struct zkl__contender *c, const struct zkl__contender_event *ev,
                       struct zkl__contender_actions *out)
{
    ZKL__ENSURE(c->state == ZKL__HELD || c->state == ZKL__LOST);
    c->releasing = true;
    c->clear = c->marked && c->state == ZKL__HELD;
    c->hands_over = c->state == ZKL__HELD && !c->config.mark && !c->swap[0];
    c->announce = c->hands_over && c->sealed && c->waited && !c->behind;
    forget_swap(c);
    remember_twin(c);
    zkl__contender_stop_own_watch(c, out); /* our delete uses the watch up */
    zkl__contender_move(c, ZKL__REMOVING, "released");
    zkl__contender_advance(c, ev, out);
}

static void on_downgrade(struct zkl__contender *c, const struct zkl__contender_event *ev,
                         struct zkl__contender_actions *out)
{
    ZKL__ENSURE((c->state == ZKL__HELD || c->state == ZKL__LOST) && !c->swap[0] &&
                !c->config.revocable);
    if (c->state == ZKL__LOST) {
        return; /* the lease ended between the owner's look and this step */
    }
    c->config.rule = ev->rule;
    zkl__contender_stop_own_watch(c, out); /* the transaction uses the watch up */
    zkl__name_with_number(c->swap, c->uuid, ev->rule->tag, zkl__name_parse(c->node).sequence);
    zkl__core_trace(c->core, c, "downgrades to %s", c->swap);
    zkl__contender_advance(c, ev, out);
}

static void on_watch(struct zkl__contender *c, const struct zkl__contender_event *ev,
                     struct zkl__contender_actions *out)
{
    if (c->state != ZKL__WATCHING) {
        return; /* it went on by what else it read */
    }
    bool announced = ev->watch == ZKL__WATCH_CHANGED && c->believed && c->armed && c->own_armed;
    c->armed = false;
    if (announced) {
        c->proved = false;
        c->unlisted = true;
        c->shown_at =
            ev->now; /* on this ordered connection our own watch would have fired before */
        zkl__contender_move(c, ZKL__PROVING, "who was before us announces its release");
    } else {
        zkl__contender_move(c, ZKL__LISTING, "who was before us went or changed");
    }
    zkl__contender_advance(c, ev, out);
}

/* The queue's list changed, and of the one before us we know no more than that it is in it. */
static void on_queue_watch(struct zkl__contender *c, const struct zkl__contender_event *ev,
                           struct zkl__contender_actions *out)
{
    if (c->state == ZKL__WATCHING && !c->ahead) {
        c->armed = false;
        zkl__contender_move(c, ZKL__LISTING,
                            "the queue changed, and who is before us may not be read");
        zkl__contender_advance(c, ev, out);
    } else if (c->state == ZKL__LISTING && (c->under_way & UNDER_WAY(ZKL__ROLE_LIST))) {
        c->changed =
            true; /* a watch that another one of the session had set: ours comes with the list */
        out->queue_watch = ZKL__WATCH_ON;
    }
}

/* Our own node went, most likely. */
static void on_own_watch(struct zkl__contender *c, const struct zkl__contender_event *ev,
                         struct zkl__contender_actions *out)
{
    c->own_armed = false;
    if (c->state == ZKL__HELD && ev->watch == ZKL__WATCH_DELETED) {
        zkl__contender_node_removed(c, ev, out);
    } else if (c->state == ZKL__WATCHING || c->state == ZKL__PROVING) {
        zkl__contender_stop_watching(c, out, ZKL__WATCH_OFF);
        zkl__contender_move(c, ZKL__LISTING, "our own node went or changed");
    }
    zkl__contender_advance(c, ev, out);
}

static void on_start(struct zkl__contender *c, const struct zkl__contender_event *ev,
                     struct zkl__contender_actions *out)
{
    ZKL__ENSURE(c->state == ZKL__NEW && !c->started);
    c->started = true;
    zkl__contender_new_attempt(c);
    zkl__contender_advance(c, ev, out);
}

static void on_handed(struct zkl__contender *c, const struct zkl__contender_event *ev,
                      struct zkl__contender_actions *out)
{
    zkl__contender_move(c, ZKL__PROVING,
                        "released by another one of this session, and we are next");
    zkl__contender_grant(c, ev, out);
}

static void on_lapsed(struct zkl__contender *c, const struct zkl__contender_event *ev,
                      struct zkl__contender_actions *out)
{
    if (c->state == ZKL__HELD) {
        zkl__contender_lose(c, ev, out, "the lease ended");
    }
}

static void on_inspected(struct zkl__contender *c, const struct zkl__contender_event *ev,
                         struct zkl__contender_actions *out)
{
    if (c->inspects) {
        zkl__contender_on_inspected(c, ev, out);
    }
}

static void on_list(struct zkl__contender *c, const struct zkl__contender_event *ev,
                    struct zkl__contender_actions *out)
{
    if (c->state == ZKL__PROVING) {
        zkl__contender_move(c, ZKL__LISTING, "our list is older than the others'");
        zkl__contender_advance(c, ev, out);
    }
}

static void on_cancel(struct zkl__contender *c, const struct zkl__contender_event *ev,
                      struct zkl__contender_actions *out)
{
    if (zkl__contender_waits(c)) {
        zkl__contender_fail(c, ev, out, ev->code, 0,
                            ev->code == ZKL_ECLOSED    ? "the session is closed"
                            : ev->code == ZKL_EAUTH    ? "the servers refuse our credentials"
                            : ev->code == ZKL_ELOST    ? "one of our nodes was removed by somebody"
                            : ev->code == ZKL_ETIMEOUT ? "the time is up"
                                                       : "cancelled");
    }
}

void zkl__contender_step(struct zkl__contender *c, const struct zkl__contender_event *ev,
                         struct zkl__contender_actions *out)
{
    static void (*const read[])(struct zkl__contender *, const struct zkl__contender_event *,
                                struct zkl__contender_actions *) = {
        [ZKL__CE_START] = on_start,
        [ZKL__CE_REPLY] = zkl__contender_on_reply,
        [ZKL__CE_WATCH] = on_watch,
        [ZKL__CE_OWN_WATCH] = on_own_watch,
        [ZKL__CE_QUEUE_WATCH] = on_queue_watch,
        [ZKL__CE_HANDED] = on_handed,
        [ZKL__CE_CONNECTED] = on_connected,
        [ZKL__CE_EXPIRED] = on_expired,
        [ZKL__CE_LAPSED] = on_lapsed,
        [ZKL__CE_TIME] = on_time,
        [ZKL__CE_INSPECTED] = on_inspected,
        [ZKL__CE_LIST] = on_list,
        [ZKL__CE_CANCEL] = on_cancel,
        [ZKL__CE_RELEASE] = on_release,
        [ZKL__CE_DOWNGRADE] = on_downgrade,
        [ZKL__CE_LOOK] = NULL, /* what these two come to is another event */
        [ZKL__CE_END] = NULL,
    };
    out->op_count = 0;
    out->watch = out->own_watch = out->queue_watch = ZKL__WATCH_KEEP;
    out->told = out->inspect = false;
    if (read[ev->kind]) {
        read[ev->kind](c, ev, out);
    }
}

int64_t zkl__contender_wake(const struct zkl__contender *c)
{
    int64_t wake = c->retry_at ? c->retry_at : INT64_MAX;
    if (c->state == ZKL__GONE) {
        return INT64_MAX; /* nothing of it is read any more: a time that has passed would ring for
                             ever */
    }
    if (zkl__contender_waits(c) && c->deadline < wake) {
        wake = c->deadline;
    } else if (c->state == ZKL__HELD) {
        wake = c->hold_until < wake ? c->hold_until : wake;
        wake = c->look_at && c->look_at < wake ? c->look_at : wake;
        wake = c->guard_at && c->guard_at < wake ? c->guard_at : wake;
    } else if (c->state == ZKL__LOST && !c->discard) {
        wake = c->hold_until < wake ? c->hold_until : wake;
    }
    return wake;
}

void zkl__contender_free(struct zkl__contender *c)
{
    const zkl_heap *heap = c->heap;
    zkl__inspection_drop(c);
    zkl__name_set_clear(&c->strangers, heap);
    zkl__free(heap, c->watch_path);
    zkl__free(heap, c->own_path);
    zkl__free(heap, c->make_path);
    zkl__free(heap, c->marks);
    zkl__free(heap, (void *)(uintptr_t)c->config.metadata);
    zkl__free(heap, c);
}
