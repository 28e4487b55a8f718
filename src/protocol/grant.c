#include "contender_moves.h"

#include "lease.h"

/* --- the gate -------------------------------------------------------------------------------- */

/* Why it is not granted yet. */
enum gate {
    GATE_MARK = 1,   /* how the last holder ended is not known, or the delay is not over */
    GATE_TOKEN = 2,  /* the czxid of our znode is not known */
    GATE_OTHERS = 4, /* another contender of the multi-contender is not first yet */
    GATE_LEASE = 8,  /* the session has no lease */
    GATE_SHOWN = 16  /* no response within a heartbeat has shown our znode */
};

/* Somebody may delete our znode by hand, and another contender of this session may notice that and
 * be granted before us. So a response that shows our znode counts for one heartbeat, the time in
 * which a holder would notice the delete. A multi-contender has a rule of its own (joint.c,
 * look_again). */
static bool is_shown(const struct zkl__contender *c)
{
    return c->joint ||
           c->event->now - c->shown_at <= zkl__lease_heartbeat(zkl__core_timeout(c->core)) ||
           (c->event->kind == ZKL__CE_REPLY && c->event->role == ZKL__ROLE_PROVE);
}

static unsigned own_gate(const struct zkl__contender *c)
{
    return (zkl__mark_permits(c) ? 0u : GATE_MARK) | (zkl__node_czxid(&c->node) ? 0u : GATE_TOKEN);
}

static unsigned gate(const struct zkl__contender *c)
{
    return own_gate(c) | (c->event->grant_waits ? GATE_OTHERS : 0u) |
           (zkl__core_leased(c->core) ? 0u : GATE_LEASE) | (is_shown(c) ? 0u : GATE_SHOWN);
}

bool zkl__contender_ready(const struct zkl__contender *c, int64_t now)
{
    return c->state == ZKL__PROVING && c->retry.at <= now && !own_gate(c);
}

void zkl__grant_prove(struct zkl__contender *c, const char *why)
{
    c->grant.proved = false;
    zkl__contender_move(c, ZKL__PROVING, why);
}

void zkl__grant_unproved(struct zkl__contender *c)
{
    c->grant.proved = false;
}

void zkl__grant_advance(struct zkl__contender *c)
{
    unsigned shut = gate(c);
    if (!shut) {
        zkl__grant_give(c);
    } else if (shut & GATE_MARK) {
        zkl__mark_ask(c);
    } else if (!(c->under_way & UNDER_WAY(ZKL__ROLE_PROVE)) &&
               (shut & GATE_LEASE ? !c->grant.proved : shut & GATE_SHOWN)) {
        c->grant.proved = true;
        zkl__ask_node(c, ZKL__ROLE_PROVE, ZKL__OP_CHECK, zkl__node_name(&c->node));
    }
}

static void tell_granted(struct zkl__contender *c)
{
    c->grant.least_until = c->config.least > 0 ? c->event->now + c->config.least : 0;
    c->grant.hold_until = c->config.max_hold > 0 ? c->event->now + c->config.max_hold : INT64_MAX;
    zkl__contender_tell(c, ZKL__GRANTED, ZKL_OK, 0, "granted");
    c->out->outcome.token = zkl__node_czxid(&c->node);
    c->out->outcome.serial = zkl__linger_count(c);
    c->out->outcome.contender = c;
    c->out->outcome.unclean = zkl__mark_unclean(&c->mark);
}

void zkl__grant_give(struct zkl__contender *c)
{
    zkl__contender_move(c, ZKL__HELD, "nobody before us, and a lease");
    zkl__announcement_hold(c);
    zkl__own_watch_hold(c);
    tell_granted(c);
}

void zkl__grant_again(struct zkl__contender *c)
{
    zkl__contender_move(c, ZKL__HELD, "it lingered");
    zkl__mark_clean(c);
    c->grant.end = ZKL__GRANT_KEPT;
    tell_granted(c);
}

/* --- its end --------------------------------------------------------------------------------- */

int64_t zkl__grant_wake(const struct zkl__contender *c)
{
    bool owed =
        c->state == ZKL__HELD || (c->state == ZKL__LOST && c->grant.end != ZKL__GRANT_OVERSTAYED);
    return owed ? c->grant.hold_until : INT64_MAX;
}

void zkl__grant_overstay(struct zkl__contender *c)
{
    c->grant.end = ZKL__GRANT_OVERSTAYED;
    zkl__replacement_forget(c);
    if (c->state == ZKL__HELD) {
        zkl__grant_lose(c, "held for longer than max_hold_ms");
    }
}

void zkl__grant_lose(struct zkl__contender *c, const char *why)
{
    zkl__contender_tell(c, ZKL__LOSS, ZKL_ELOST, 0, why);
    zkl__own_watch_stop(c);
    zkl__contender_move(c, ZKL__LOST, why);
}

/* Whoever has it is told now that it is released: nobody waits for the delete. Nobody is handed the
 * lock when that is sent, for its node may have been removed by hand in the meantime. */
static void stay(struct zkl__contender *c)
{
    c->grant.end = ZKL__GRANT_RELEASED;
    c->grant.stay_until = c->grant.least_until;
    zkl__contender_tell(c, ZKL__RELEASED, ZKL_OK, 0, "released, and its znode stays");
}

void zkl__grant_on_release(struct zkl__contender *c)
{
    ZKL__ENSURE(c->state == ZKL__HELD || c->state == ZKL__LOST);
    bool hands_over = c->state == ZKL__HELD && !zkl__replacing(&c->replacement);
    c->grant.end = hands_over ? ZKL__GRANT_HANDED_OVER : ZKL__GRANT_RELEASED;
    if (hands_over && zkl__linger_keep(c)) {
        return;
    }
    if (hands_over && c->event->now < c->grant.least_until) {
        stay(c);
    }
    zkl__mark_leave(c);
    zkl__announcement_release(c);
    zkl__replacement_forget(c);
    zkl__node_remember_duplicate(&c->node);
    zkl__own_watch_stop(c); /* our delete uses the watch up */
    zkl__contender_move(c, ZKL__REMOVING, "released");
}
