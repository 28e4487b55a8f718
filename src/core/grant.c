#include "contender_moves.h"

#include "lease.h"

/* --- the gate -------------------------------------------------------------------------------- */

/* Why it is not granted yet. */
enum gate {
    GATE_MARK = 1,   /* the directory does not carry our mark yet */
    GATE_TOKEN = 2,  /* the czxid of our node is not known */
    GATE_OTHERS = 4, /* another place of the joint is not first yet */
    GATE_LEASE = 8,
    GATE_SHOWN = 16 /* nothing has shown our node lately */
};

/* Somebody may remove our node by hand, and others of this session learn of that and are granted
 * before us: so what shows it is not to be older than a heartbeat, within which a holder would
 * learn of it, too. A multi-contender has a rule of its own (joint.c, look_again). */
static bool is_shown(const struct zkl__contender *c, const struct zkl__contender_event *ev)
{
    return c->joint || ev->now - c->shown_at <= zkl__lease_heartbeat(zkl__core_timeout(c->core)) ||
           (ev->kind == ZKL__CE_REPLY && ev->role == ZKL__ROLE_PROVE);
}

static unsigned own_gate(const struct zkl__contender *c)
{
    return (zkl__marker_done(c) ? 0u : GATE_MARK) | (zkl__node_czxid(&c->node) ? 0u : GATE_TOKEN);
}

static unsigned gate(const struct zkl__contender *c, const struct zkl__contender_event *ev)
{
    return own_gate(c) | (ev->grant_waits ? GATE_OTHERS : 0u) |
           (zkl__core_leased(c->core) ? 0u : GATE_LEASE) | (is_shown(c, ev) ? 0u : GATE_SHOWN);
}

bool zkl__contender_ready(const struct zkl__contender *c, int64_t now)
{
    return c->state == ZKL__PROVING && c->retry_at <= now && !own_gate(c);
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

void zkl__grant_advance(struct zkl__contender *c, const struct zkl__contender_event *ev,
                        struct zkl__contender_actions *out)
{
    unsigned shut = gate(c, ev);
    if (!shut) {
        zkl__grant_give(c, ev, out);
    } else if (shut & GATE_MARK) {
        zkl__marker_ask(c, out);
    } else if (!(c->under_way & UNDER_WAY(ZKL__ROLE_PROVE)) &&
               (shut & GATE_LEASE ? !c->grant.proved : shut & GATE_SHOWN)) {
        c->grant.proved = true;
        zkl__ask_node(c, out, ZKL__ROLE_PROVE, ZKL__OP_CHECK, zkl__node_name(&c->node));
    }
}

void zkl__grant_give(struct zkl__contender *c, const struct zkl__contender_event *ev,
                     struct zkl__contender_actions *out)
{
    zkl__contender_move(c, ZKL__HELD, "nobody before us, and a lease");
    zkl__announcement_hold(c, ev);
    zkl__own_watch_hold(c);
    c->grant.hold_until = c->config.max_hold > 0 ? ev->now + c->config.max_hold : INT64_MAX;
    zkl__contender_tell(out, ev->now, ZKL__GRANTED, ZKL_OK, 0, "granted");
    out->outcome.token = zkl__node_czxid(&c->node);
    out->outcome.unclean = zkl__marker_unclean(&c->marker);
    zkl__contender_advance(c, ev, out);
}

/* --- its end --------------------------------------------------------------------------------- */

int64_t zkl__grant_wake(const struct zkl__contender *c)
{
    bool owed =
        c->state == ZKL__HELD || (c->state == ZKL__LOST && c->grant.end != ZKL__GRANT_OVERSTAYED);
    return owed ? c->grant.hold_until : INT64_MAX;
}

void zkl__grant_overstay(struct zkl__contender *c, const struct zkl__contender_event *ev,
                         struct zkl__contender_actions *out)
{
    c->grant.end = ZKL__GRANT_OVERSTAYED;
    zkl__replacement_forget(c);
    if (c->state == ZKL__HELD) {
        zkl__grant_lose(c, ev, out, "held for longer than max_hold_ms");
    }
}

void zkl__grant_lose(struct zkl__contender *c, const struct zkl__contender_event *ev,
                     struct zkl__contender_actions *out, const char *why)
{
    zkl__contender_tell(out, ev->now, ZKL__LOSS, ZKL_ELOST, 0, why);
    zkl__own_watch_stop(c, out);
    zkl__contender_move(c, ZKL__LOST, why);
}

void zkl__grant_on_release(struct zkl__contender *c, const struct zkl__contender_event *ev,
                           struct zkl__contender_actions *out)
{
    ZKL__ENSURE(c->state == ZKL__HELD || c->state == ZKL__LOST);
    bool hands_over = c->state == ZKL__HELD && !c->config.mark && !zkl__replacing(&c->replacement);
    c->grant.end = hands_over ? ZKL__GRANT_HANDED_OVER : ZKL__GRANT_RELEASED;
    zkl__marker_release(c);
    zkl__announcement_release(c);
    zkl__replacement_forget(c);
    zkl__node_remember_duplicate(&c->node);
    zkl__own_watch_stop(c, out); /* our delete uses the watch up */
    zkl__contender_move(c, ZKL__REMOVING, "released");
    zkl__contender_advance(c, ev, out);
}
