/* contender.c - a contender: its states and moves, what each state requests, and what each event
 * and each reply means. */
#include "backoff.h"
#include "contender_inside.h"
#include "path.h"

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
    [ZKL__HELD] = {"held", S(ZKL__LOST) | S(ZKL__LINGERING) | S(ZKL__REMOVING)},
    [ZKL__LOST] = {"lost", S(ZKL__REMOVING)},
    [ZKL__LINGERING] = {"lingering", S(ZKL__HELD) | S(ZKL__REMOVING) | S(ZKL__GONE)},
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

/* What each state says about our node. */
static void check_sound(const struct zkl__contender *c)
{
    bool node = zkl__node_known(&c->node);
    switch (c->state) {
    case ZKL__NEW:
        ZKL__ENSURE(!node && !zkl__node_unsure(&c->node) && c->node.czxid == 0);
        break;
    case ZKL__LISTING:
        ZKL__ENSURE(node);
        break;
    case ZKL__WATCHING:
        ZKL__ENSURE(node && c->node.fate < ZKL__FATE_TWICE);
        break;
    case ZKL__PROVING:
        ZKL__ENSURE(node && !zkl__node_unsure(&c->node));
        break;
    case ZKL__HELD:
    case ZKL__LINGERING:
        ZKL__ENSURE(node && !zkl__node_unsure(&c->node) && c->node.czxid != 0);
        break;
    case ZKL__GONE:
        ZKL__ENSURE(!node && !zkl__node_unsure(&c->node));
        break;
    default:
        break;
    }
}

void zkl__contender_move(struct zkl__contender *c, enum zkl__contender_state state, const char *why)
{
    enum zkl__contender_state before = c->state;
    ZKL__ENSURE(states[c->state].next & S(state));
    zkl__core_trace(c->core, c, "%s -> %s: %s", states[c->state].name, states[state].name, why);
    c->state = state;
    if (state != ZKL__WATCHING) {
        zkl__inspection_drop(c);
        zkl__inspection_pause(c);
    }
    if (zkl__linger_cares(&c->linger)) {
        zkl__linger_moved(c, before);
    }
    check_sound(c);
}

/* --- moves that several events make ---------------------------------------------------------- */

void zkl__contender_tell(struct zkl__contender *c, enum zkl__outcome_kind kind, int code,
                         int zk_code, const char *why)
{
    ZKL__ENSURE(!c->out->told);
    c->out->told = true;
    c->out->outcome = (struct zkl__outcome){
        .kind = kind, .code = code, .zk_code = zk_code, .why = why, .now = c->event->now};
}

void zkl__contender_put_off(struct zkl__contender *c)
{
    c->retry.pause = zkl__backoff(c->retry.pause, PATIENCE_LEAST, PATIENCE_MOST);
    c->retry.at = c->event->now + c->retry.pause;
}

/* Where it begins anew, with a znode of its own. */
static void new_attempt(struct zkl__contender *c)
{
    zkl__node_new_attempt(c);
    zkl__predecessor_new_attempt(c);
    zkl__mark_new_attempt(c);
    zkl__linger_new_attempt(c);
    zkl__announcement_listed(c);
    c->conflict = (struct zkl__path_conflict){.stage = ZKL__CONFLICT_UNSEEN};
}

void zkl__contender_withdraw(struct zkl__contender *c, const char *why)
{
    zkl__predecessor_unwatch(c, ZKL__WATCH_OFF);
    zkl__own_watch_stop(c);
    c->started = false;
    c->retry.at = 0;
    zkl__node_remember_duplicate(&c->node);
    zkl__mark_leave(c);
    zkl__contender_move(c, ZKL__REMOVING, why);
}

/* Never granted: told at once; what is left of it is removed in the background. */
void zkl__contender_fail(struct zkl__contender *c, int code, int zk_code, const char *why)
{
    zkl__contender_tell(c, ZKL__FAILED, code, zk_code, why);
    zkl__contender_withdraw(c, why);
}

void zkl__contender_finish(struct zkl__contender *c, int code, const char *why)
{
    zkl__contender_move(c, ZKL__GONE, why);
    if (c->grant.end >= ZKL__GRANT_RELEASED) {
        zkl__contender_tell(c, ZKL__RELEASED, code, 0, why);
    }
}

/* The place is gone through no wish of ours: once more at the tail, or an end. */
void zkl__contender_queue_again(struct zkl__contender *c, const char *why)
{
    new_attempt(c);
    if (c->config.fail_on_expiry) {
        zkl__contender_fail(c, ZKL_ELOST, 0, why);
        return;
    }
    c->requeued = true;
    zkl__predecessor_unwatch(c, ZKL__WATCH_OFF);
    zkl__own_watch_stop(c);
    zkl__contender_move(c, ZKL__NEW, why);
}

/* What an error of the server means to one who waits. */
void zkl__contender_fail_by_reply(struct zkl__contender *c)
{
    const struct zkl__reply *reply = c->event->reply;
    switch (reply->rc) {
    case ZKL__RC_NOTAPPLIED:
        zkl__contender_put_off(c);
        break;
    case ZKL__RC_UNSENT:
        if (reply->unsent == ZKL_EINVAL) {
            zkl__contender_fail(c, ZKL_EINVAL, 0,
                                "the path is too long under the session's chroot");
        } else if (reply->unsent == ZKL_ENOMEM || reply->unsent == ZKL_ELIMIT) {
            zkl__contender_fail(c, reply->unsent, 0,
                                reply->unsent == ZKL_ENOMEM ? "out of memory"
                                                            : "too many watches in this session");
        } else {
            zkl__contender_put_off(c);
        }
        break;
    case ZKL__RC_UNKNOWN:
        break; /* the connection went: `connected` comes, or `expired` */
    case ZKL__RC_NODEEXISTS:
        zkl__contender_fail(c, ZKL_EEXHAUSTED, reply->zk_code, EXHAUSTED);
        break;
    case ZKL__RC_EPHEMERALPARENT:
        zkl__contender_fail(c, ZKL_ECONFLICT, reply->zk_code,
                            "a part of the path is an ephemeral znode, which has no children");
        break;
    default:
        zkl__contender_fail(c, zkl__rc_code(reply->rc), reply->zk_code, zkl__rc_why(reply->rc));
    }
}

/* === what it asks for ========================================================================= */

/* What a contender asks of the store next, in each state. */

/* --- what it asks for ------------------------------------------------------------------------ */

void zkl__ask(struct zkl__contender *c, enum zkl__role role, struct zkl__op op)
{
    ZKL__ENSURE(c->out->op_count < (int)(sizeof c->out->ops / sizeof *c->out->ops));
    ZKL__ENSURE(!(c->under_way & UNDER_WAY(role)));
    c->under_way |= UNDER_WAY(role);
    c->out->ops[c->out->op_count].role = role;
    c->out->ops[c->out->op_count].op = op;
    c->out->op_count++;
}

/* The watch is set by the request that shows the predecessor still there: whatever happens to that
 * later fires it. */
void zkl__ask_list(struct zkl__contender *c)
{
    struct zkl__op list = {.kind = ZKL__OP_CHILDREN, .dir = c->config.path};
    list.watch = zkl__predecessor_list_watches(c);
    if (c->config.linger > 0) {
        list.watch = zkl__linger_list_watches(c) || list.watch;
    }
    zkl__ask(c, ZKL__ROLE_LIST, list);
}

void zkl__ask_node(struct zkl__contender *c, enum zkl__role role, enum zkl__op_kind kind,
                   const char *name)
{
    zkl__ask(c, role,
             (struct zkl__op){.kind = kind, .dir = c->config.path, .name = name, .version = -1});
}

bool zkl__child_path(const struct zkl__contender *c, char **path, size_t *room, const char *name)
{
    size_t need = strlen(c->config.path) + strlen(name) + 2;
    if (need > *room) {
        char *grown = zkl__resize(c->heap, *path, need);
        if (!grown) {
            return false;
        }
        *path = grown;
        *room = need;
    }
    return zkl__path_join(*path, *room, c->config.path, name) > 0;
}

/* --- what is next ---------------------------------------------------------------------------- */

static bool waits_in_line(struct zkl__contender *c)
{
    return zkl__linger_cares(&c->linger) && zkl__linger_waits(c);
}

static void advance_waiting(struct zkl__contender *c)
{
    bool lists = c->under_way & UNDER_WAY(ZKL__ROLE_LIST);
    /* Who follows a contender of its own session, or waits for the list of its create, needs no
     * czxid yet. Everybody else asks before it looks at its predecessor: who is older than we are
     * can only be said when our own czxid is known. */
    bool follows = c->state == ZKL__WATCHING && c->local.ahead;
    if (!follows && !(c->state == ZKL__CREATING && lists)) {
        zkl__node_ask_czxid(c);
    }
    switch (c->state) {
    case ZKL__NEW:
        if (!lists && !waits_in_line(c)) { /* one of the last attempt: its answer comes first */
            zkl__node_ask(c);
        }
        break;
    case ZKL__CREATING:
        if (!lists && !(c->under_way & UNDER_WAY(ZKL__ROLE_CREATE))) {
            zkl__node_ask(c);
        }
        break;
    case ZKL__MAKING:
        zkl__directory_ask(c);
        break;
    case ZKL__LISTING:
        if (!zkl__path_conflict_ask(c) && !lists) {
            zkl__ask_list(c);
            zkl__mark_ask(c);
        }
        break;
    case ZKL__WATCHING:
        if (zkl__inspection_goes_on(c)) {
            c->out->inspect = true;
        } else if (!c->local.ahead) {
            zkl__predecessor_look(c);
        }
        break;
    default: /* ZKL__PROVING: the others do not wait */
        zkl__grant_advance(c);
        break;
    }
}

void zkl__contender_advance(struct zkl__contender *c)
{
    if (c->state == ZKL__REMOVING && zkl__farewell_done(c)) {
        zkl__contender_finish(c, ZKL_OK, "nothing of ours is left");
        return;
    }
    if (!c->event->connected || c->retry.at > c->event->now) {
        return;
    }
    if (zkl__contender_waits(c)) {
        advance_waiting(c);
    } else if (c->state == ZKL__REMOVING ||
               (c->state == ZKL__LOST && c->grant.end == ZKL__GRANT_OVERSTAYED)) {
        zkl__farewell_advance(c);
    } else if (zkl__contender_keeps(c)) {
        zkl__replacement_ask(c);
        zkl__own_watch_advance(c);
    }
}

/* === what the replies mean ==================================================================== */

/* Passes each reply to the part of the contender that sent the request, and decides what a list
 * means for a contender that waits. */

static void decide_by_list(struct zkl__contender *c)
{
    c->retry.pause = 0;
    zkl__announcement_listed(c);
    if (!zkl__node_in_list(c)) {
        return;
    }
    if (zkl__sequence_used_up(zkl__name_sequence(c->node.name))) {
        zkl__contender_fail(c, ZKL_EEXHAUSTED, 0, EXHAUSTED);
        return;
    }
    if (zkl__path_conflict_seen(c)) {
        return;
    }
    if (!zkl__predecessor_position(c)) {
        zkl__contender_fail(c, ZKL_EBUSY, 0, "more are before us than max_ahead");
        return;
    }
    bool seen;
    const char *before = zkl__list_blocker(c, c->event->reply, c->event->index);
    if (!before) {
        zkl__predecessor_none(c);
        if (c->watches[ZKL__WATCHED_LINGER].on) {
            zkl__linger_listed(c);
        }
    } else {
        zkl__announcement_expect(c);
        before = zkl__inspection_begin(c) ? zkl__inspection_nearest(c, &seen) : before;
        zkl__predecessor_wait_for(c, before);
    }
}

static void on_list(struct zkl__contender *c)
{
    if (c->state == ZKL__REMOVING || c->state == ZKL__LOST) {
        zkl__farewell_on_list(c);
    } else if (c->linger.state == ZKL__LINGER_GATHERING) {
        zkl__linger_on_list(c);
    } else if (c->state == ZKL__HELD) {
        zkl__announcement_on_list(c);
    } else if ((c->state != ZKL__CREATING && c->state != ZKL__LISTING) ||
               !zkl__node_known(&c->node)) {
        return; /* of the last attempt, or the create before it was not applied: the next one
                   waited for it, and is sent below */
    } else if (c->event->reply->rc == ZKL__RC_OK) {
        decide_by_list(c);
    } else if (c->event->reply->rc == ZKL__RC_NONODE) {
        zkl__contender_queue_again(c, "the directory was removed by somebody");
    } else {
        if (c->state == ZKL__CREATING) {
            zkl__contender_move(c, ZKL__LISTING, "we have a place, but no list");
        }
        zkl__contender_fail_by_reply(c);
    }
}

static void contender_on_reply(struct zkl__contender *c)
{
    static void (*const answers[ZKL__ROLES])(struct zkl__contender *) = {
        [ZKL__ROLE_CREATE] = zkl__node_on_create,
        [ZKL__ROLE_LIST] = on_list,
        [ZKL__ROLE_WATCH] = zkl__predecessor_on_reply,
        [ZKL__ROLE_STAT] = zkl__node_on_stat,
        [ZKL__ROLE_PROVE] = zkl__node_on_check,
        [ZKL__ROLE_BEAT] = zkl__node_on_check,
        [ZKL__ROLE_DELETE] = zkl__farewell_on_reply,
        [ZKL__ROLE_BARRIER] = zkl__farewell_on_barrier,
        [ZKL__ROLE_MAKE] = zkl__directory_on_reply,
        [ZKL__ROLE_SWAP] = zkl__replacement_on_reply,
        [ZKL__ROLE_READ] = zkl__mark_on_read,
        [ZKL__ROLE_OWN_WATCH] = zkl__own_watch_on_reply,
        [ZKL__ROLE_CONFLICT] = zkl__path_conflict_on_reply,
    };
    c->under_way &= ~UNDER_WAY(c->event->role);
    answers[c->event->role](c);
}

/* === its mail ================================================================================= */

/* What is posted to a contender, and the order in which it is read. */

/* All from START on: orders, and the time. */
#define ORDERS (~(ZKL__MAIL(ZKL__CE_START) - 1))

void zkl__contender_post(struct zkl__contender *c, enum zkl__contender_event_kind kind)
{
    c->mail.kinds |= ZKL__MAIL(kind);
    zkl__core_post(c->core, &c->machine);
}

void zkl__contender_leave(struct zkl__contender *c)
{
    c->config.notify = NULL;
    if (c->state == ZKL__NEW && !c->started) {
        zkl__core_bury(c->core, &c->machine);
    } else {
        c->mail.code = ZKL_ECANCELED;
        zkl__contender_post(c, ZKL__CE_END);
    }
}

void zkl__contender_start(struct zkl__contender *c, int64_t deadline, bool try_only)
{
    c->deadline = deadline;
    c->try_only = try_only;
    zkl__contender_post(c, ZKL__CE_START);
}

void zkl__contender_post_reply(struct zkl__contender *c, enum zkl__role role,
                               const struct zkl__reply *reply)
{
    if (reply->rc == ZKL__RC_UNKNOWN) {
        c->mail.unknown |= UNDER_WAY(role);
    } else {
        ZKL__ENSURE(!c->mail.reply); /* a step brings one reply, and deals it out once */
        c->mail.role = role;
        c->mail.reply = reply;
    }
    zkl__contender_post(c, ZKL__CE_REPLY);
}

void zkl__contender_post_refusal(struct zkl__contender *c, enum zkl__role role, int code)
{
    c->mail.unsent |= UNDER_WAY(role);
    c->mail.why_unsent[role] = (signed char)code;
    zkl__contender_post(c, ZKL__CE_REPLY);
}

/* --- reading --------------------------------------------------------------------------------- */

static enum zkl__role take_role(uint32_t *roles)
{
    enum zkl__role role = (enum zkl__role)__builtin_ctz(*roles);
    *roles &= *roles - 1;
    return role;
}

static void next_reply(struct zkl__mail *mail, struct zkl__contender_event *event,
                       struct zkl__reply *refusal)
{
    static const struct zkl__reply unknown = {.rc = ZKL__RC_UNKNOWN};
    if (mail->reply) {
        event->role = mail->role;
        event->reply = mail->reply;
        mail->reply = NULL;
    } else if (mail->unknown) {
        event->role = take_role(&mail->unknown);
        event->reply = &unknown;
    } else {
        event->role = take_role(&mail->unsent);
        *refusal =
            (struct zkl__reply){.rc = ZKL__RC_UNSENT, .unsent = mail->why_unsent[event->role]};
        event->reply = refusal;
    }
}

bool zkl__mail_next(struct zkl__mail *mail, struct zkl__contender_event *event,
                    struct zkl__reply *refusal)
{
    if (mail->kinds == 0) {
        return false;
    }
    *event = (struct zkl__contender_event){
        .kind = (enum zkl__contender_event_kind)__builtin_ctz(mail->kinds),
        .watch = mail->watch,
        .code = mail->code,
        .rule = mail->rule};
    if (event->kind == ZKL__CE_REPLY) {
        next_reply(mail, event, refusal);
    }
    if (event->kind != ZKL__CE_REPLY || !(mail->reply || mail->unknown || mail->unsent)) {
        mail->kinds &= ~ZKL__MAIL(event->kind);
    }
    if (event->kind == ZKL__CE_EXPIRED) {
        /* The rest was the old session's, but for what is to be seen here, on no server. */
        mail->kinds &= ZKL__MAIL(ZKL__CE_LOOK) | ORDERS;
    }
    return true;
}

/* === events and the step ====================================================================== */

static void on_connected(struct zkl__contender *c)
{
    c->retry.at = 0;
    zkl__node_on_connected(&c->node);
    zkl__predecessor_on_connected(c);
    if (c->state == ZKL__WATCHING || c->state == ZKL__PROVING ||
        (c->state == ZKL__CREATING && zkl__node_known(&c->node))) {
        zkl__predecessor_unwatch(c, ZKL__WATCH_FORGET);
        zkl__own_watch_stop(c);
        zkl__contender_move(c, ZKL__LISTING, "connected again: look again");
    }
}

static void on_expired(struct zkl__contender *c)
{
    c->under_way = 0;
    c->retry.at = 0;
    if (zkl__contender_waits(c)) {
        if (c->state == ZKL__NEW) {
            return;
        }
        zkl__contender_queue_again(c, "the session ended");
        return;
    }
    zkl__node_ended(&c->node);
    c->replacement.state = ZKL__REPLACING_NOT;
    if (c->state == ZKL__HELD) {
        zkl__grant_lose(c, "the session ended");
    } else if (c->state == ZKL__REMOVING || c->state == ZKL__LINGERING) {
        zkl__contender_finish(c, ZKL_ELOST, "the session ended");
    }
}

static void on_time_of_holder(struct zkl__contender *c)
{
    if (zkl__contender_keeps(c)) {
        zkl__own_watch_on_time(c);
    }
    if (c->state == ZKL__LINGERING) {
        zkl__linger_on_time(c);
    } else if (zkl__grant_wake(c) <= c->event->now) {
        zkl__grant_overstay(c);
    } else if (c->state == ZKL__HELD) {
        zkl__announcement_on_time(c);
    }
}

static void on_time(struct zkl__contender *c)
{
    if (c->retry.at && c->retry.at <= c->event->now) {
        c->retry.at = 0;
    }
    if (c->grant.stay_until <= c->event->now) {
        c->grant.stay_until = 0;
    }
    zkl__mark_on_time(c);
    if (zkl__contender_waits(c) && c->deadline <= c->event->now) {
        zkl__contender_fail(
            c, ZKL_ETIMEOUT, 0,
            !c->event->connected ? "the time is up, and no server is reached"
            : c->mark.state == ZKL__MARK_DELAYS
                ? "the time is up before delay_after_crash_ms: the last holder did not release"
            : c->state == ZKL__PROVING && zkl__core_doubted(c->core)
                ? "the time is up: no server was reached for a session timeout, and "
                  "nothing is granted until another one has passed"
                : "the time is up");
    } else {
        on_time_of_holder(c);
    }
}

static void on_start(struct zkl__contender *c)
{
    ZKL__ENSURE(c->state == ZKL__NEW && !c->started);
    c->started = true;
    new_attempt(c);
}

static void on_handed(struct zkl__contender *c)
{
    zkl__mark_clean(c);
    zkl__announcement_expect(c);
    zkl__grant_prove(c, "released by another one of this session, and we are next");
    zkl__grant_give(c);
}

static void on_lapsed(struct zkl__contender *c)
{
    if (c->state == ZKL__HELD) {
        zkl__grant_lose(c, "the lease ended");
    } else if (c->state == ZKL__LINGERING) {
        zkl__linger_end(c, "the lease ended");
    }
}

static void on_inspected(struct zkl__contender *c)
{
    if (zkl__inspection_goes_on(c) && c->state == ZKL__HELD) {
        zkl__announcement_on_inspected(c);
    } else if (zkl__inspection_goes_on(c)) {
        zkl__predecessor_on_inspected(c);
    }
}

static void on_list_wanted(struct zkl__contender *c)
{
    if (c->state == ZKL__PROVING) {
        zkl__contender_move(c, ZKL__LISTING, "our list is older than the others'");
    }
}

static void on_end(struct zkl__contender *c)
{
    zkl__linger_end(c, "nobody is to have it any more");
}

static void on_cancel(struct zkl__contender *c)
{
    if (zkl__contender_waits(c)) {
        zkl__contender_fail(c, c->event->code, 0,
                            c->event->code == ZKL_ECLOSED ? "the session is closed"
                            : c->event->code == ZKL_EAUTH ? "the servers refuse our credentials"
                            : c->event->code == ZKL_ELOST
                                ? "one of our nodes was removed by somebody"
                            : c->event->code == ZKL_ETIMEOUT ? "the time is up"
                                                             : "cancelled");
    }
}

void zkl__contender_step(struct zkl__contender *c, const struct zkl__contender_event *ev,
                         struct zkl__contender_actions *out)
{
    static void (*const read[])(struct zkl__contender *) = {
        [ZKL__CE_START] = on_start,
        [ZKL__CE_REPLY] = contender_on_reply,
        [ZKL__CE_WATCH] = zkl__predecessor_on_event,
        [ZKL__CE_OWN_WATCH] = zkl__own_watch_on_event,
        [ZKL__CE_QUEUE_WATCH] = zkl__predecessor_on_queue_event,
        [ZKL__CE_HANDED] = on_handed,
        [ZKL__CE_CONNECTED] = on_connected,
        [ZKL__CE_EXPIRED] = on_expired,
        [ZKL__CE_LAPSED] = on_lapsed,
        [ZKL__CE_TIME] = on_time,
        [ZKL__CE_TAKEN] = zkl__linger_on_taken,
        [ZKL__CE_LINGER_WATCH] = zkl__linger_on_event,
        [ZKL__CE_YIELD] = zkl__linger_on_yield,
        [ZKL__CE_INSPECTED] = on_inspected,
        [ZKL__CE_LIST] = on_list_wanted,
        [ZKL__CE_CANCEL] = on_cancel,
        [ZKL__CE_RELEASE] = zkl__grant_on_release,
        [ZKL__CE_DOWNGRADE] = zkl__replacement_on_downgrade,
        [ZKL__CE_LOOK] = NULL,  /* what it comes to is another event */
        [ZKL__CE_END] = on_end, /* so is this, unless it lingers */
    };
    ZKL__ENSURE(!c->event);
    c->event = ev;
    c->out = out;
    out->op_count = 0;
    memset(out->watches, 0, sizeof out->watches); /* ZKL__WATCH_KEEP */
    out->told = out->inspect = false;
    if (read[ev->kind]) {
        enum zkl__contender_state before;
        read[ev->kind](c);
        do { /* to send the next request may be a move, and the next state needs another one */
            before = c->state;
            zkl__contender_advance(c);
        } while (c->state != before);
    }
    if (c->watches[ZKL__WATCHED_LINGER].on) {
        zkl__linger_stepped(c);
    }
    c->event = NULL;
    c->out = NULL;
}

static int64_t earlier(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

int64_t zkl__contender_wake(const struct zkl__contender *c)
{
    int64_t wake = earlier(c->retry.at ? c->retry.at : INT64_MAX, zkl__grant_wake(c));
    if (c->state == ZKL__GONE) {
        return INT64_MAX; /* nothing of it is read any more: a time that has passed would ring for
                             ever */
    }
    if (zkl__contender_waits(c)) {
        wake = earlier(wake, earlier(c->deadline, zkl__mark_wake(c)));
    } else if (c->state == ZKL__HELD) {
        wake = earlier(wake, earlier(zkl__announcement_wake(c), zkl__own_watch_wake(c)));
    } else if (c->state == ZKL__LINGERING) {
        wake = earlier(wake, earlier(zkl__linger_wake(c), zkl__own_watch_wake(c)));
    } else if (c->state == ZKL__REMOVING) {
        wake = earlier(wake, c->grant.stay_until ? c->grant.stay_until : INT64_MAX);
    }
    return wake;
}

void zkl__contender_free(struct zkl__contender *c)
{
    const zkl_heap *heap = c->heap;
    zkl__inspection_free(c);
    zkl__node_free(c);
    zkl__predecessor_free(c);
    zkl__own_watch_free(c);
    zkl__linger_free(c);
    zkl__free(heap, c->make_path);
    zkl__free(heap, (void *)(uintptr_t)c->config.metadata);
    zkl__free(heap, c);
}
