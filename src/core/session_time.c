/* session_time.c - a session's own times: how much lease is left, the heartbeat that renews it, who has to be told. */
#include "session_inside.h"

#define BEATS_MOST 4 /* heartbeats under way: more would only pile up behind a server that does not answer */

static int64_t lease_left(const struct zkl__core *core)
{
    return core->lease.until - core->now;
}

/* A grant on the last crumbs of a lease would be lost again at once. */
bool zkl__core_leased(const struct zkl__core *core)
{
    return lease_left(core) > 0 && lease_left(core) >= zkl__core_least_lease(core) / 3;
}

bool zkl__core_grants(const struct zkl__core *core, int64_t *now)
{
    *now = core->now;
    return core->connected && zkl__core_leased(core);
}

static void beat(struct zkl__core *core)
{
    struct zkl__contender *c = core->holders;
    core->beat_at = core->now + zkl__lease_heartbeat(core->timeout);
    if (!c || core->beats_under_way >= BEATS_MOST) {
        return;
    }
    zkl__holders_rotate(core);
    /* A node that is being replaced may be gone when its answer comes: then the directory's will do. */
    struct zkl__op op = {
        .kind = ZKL__OP_CHECK, .dir = c->config.path, .name = c->swap[0] ? NULL : c->node, .version = -1};
    if (zkl__core_send(core, c, NULL, ZKL__ROLE_BEAT, &op) == ZKL_OK) {
        core->beats_under_way++;
    }
}

static void tell_jeopardy(struct zkl__core *core)
{
    for (struct zkl__contender *c = core->holders; c; c = c->next_holder) {
        if (c->state == ZKL__HELD && c->jeopardy_told != core->jeopardy) {
            struct zkl__outcome outcome = {.kind = core->jeopardy ? ZKL__JEOPARDY : ZKL__SAFE,
                                           .now = core->now,
                                           .why = core->connected ? "the servers do not answer" : "not connected"};
            if (!core->jeopardy) {
                outcome.why = "the lease is renewed";
            }
            c->jeopardy_told = core->jeopardy;
            zkl__owner_tell(c, &outcome);
        }
    }
}

static void lapse(struct zkl__core *core)
{
    for (struct zkl__contender *c = core->holders, *next; c; c = next) {
        next = c->next_holder;
        if (c->state == ZKL__HELD) {
            zkl__core_feed(core, c, (struct zkl__contender_event){.kind = ZKL__CE_LAPSED});
        }
    }
}

void zkl__core_look_at_lease(struct zkl__core *core)
{
    if (core->held == 0) {
        core->jeopardy = false; /* that was the last holder's: the next one is warned in its own time */
        return;
    }
    if (lease_left(core) <= 0) {
        zkl__stats_slack(&core->stats, 0);
        lapse(core);
        return;
    }
    core->jeopardy = !core->connected || lease_left(core) < zkl__core_least_lease(core) / 4;
    tell_jeopardy(core);
}

void zkl__core_look_at_time(struct zkl__core *core)
{
    struct zkl__contender *c;
    while ((c = zkl__timers_due(&core->timers, core->now))) {
        zkl__core_feed(core, c, (struct zkl__contender_event){.kind = ZKL__CE_TIME});
    }
    if (!core->connected || core->closing) {
        return;
    }
    if (core->holders && core->beat_at <= core->now) {
        beat(core);
    }
    if (core->proof_at <= core->now) {
        struct zkl__op op = {.kind = ZKL__OP_SYNC, .dir = "/"};
        core->proof_at = core->now + zkl__lease_keepalive(core->timeout);
        (void)zkl__core_send(core, NULL, NULL, ZKL__ROLE_NONE, &op);
    }
}

int64_t zkl__core_next(const struct zkl__core *core)
{
    int64_t next = zkl__timers_next(&core->timers);
    if (core->held > 0) {
        int64_t warn = core->lease.until - zkl__core_least_lease(core) / 4 + 1;
        int64_t look = core->jeopardy ? core->lease.until : warn;
        next = look < next ? look : next;
    }
    if (core->connected && !core->closing) {
        next = core->proof_at < next ? core->proof_at : next;
        if (core->holders && core->beat_at < next) {
            next = core->beat_at;
        }
    }
    return next;
}
