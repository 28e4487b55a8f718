#include "contender_moves.h"

#include "text.h"

#include <string.h>

void zkl__own_watch_free(struct zkl__contender *c)
{
    zkl__free(c->heap, c->own.path);
}

void zkl__own_watch_stop(struct zkl__contender *c)
{
    if (c->watches[ZKL__WATCHED_OWN].on) {
        c->out->watches[ZKL__WATCHED_OWN] = ZKL__WATCH_FORGET;
    }
    c->own.armed = false;
}

void zkl__own_watch_ask(struct zkl__contender *c)
{
    struct zkl__watch *watch = &c->watches[ZKL__WATCHED_OWN];
    if (c->own.armed || (c->under_way & UNDER_WAY(ZKL__ROLE_OWN_WATCH)) ||
        (!watch->on && !zkl__child_path(c, &c->own.path, &c->own.room, zkl__node_name(&c->node)))) {
        return; /* no memory: with the next heartbeat's answer, or never */
    }
    watch->path = c->own.path;
    c->out->watches[ZKL__WATCHED_OWN] = ZKL__WATCH_ON;
    zkl__ask(c, ZKL__ROLE_OWN_WATCH,
             (struct zkl__op){.kind = ZKL__OP_GET,
                              .dir = c->config.path,
                              .name = zkl__node_name(&c->node),
                              .watch = true});
}

/* --- while it is held ------------------------------------------------------------------------ */

void zkl__own_watch_hold(struct zkl__contender *c)
{
    c->own.armed = c->own.armed && !c->config.revocable; /* asked while it waited: told now */
    c->own.guard = ZKL__GUARD_LATER;
    c->own.guard_at = zkl__core_guard_at(c->core);
}

void zkl__own_watch_on_time(struct zkl__contender *c)
{
    if (c->own.guard == ZKL__GUARD_LATER && c->own.guard_at <= c->event->now) {
        c->own.guard = ZKL__GUARD_NOW;
    }
}

int64_t zkl__own_watch_wake(const struct zkl__contender *c)
{
    return c->own.guard == ZKL__GUARD_LATER ? c->own.guard_at : INT64_MAX;
}

void zkl__own_watch_advance(struct zkl__contender *c)
{
    if ((c->config.revocable || c->own.guard == ZKL__GUARD_NOW) &&
        !zkl__replacing(&c->replacement)) {
        zkl__own_watch_ask(c);
    }
}

/* Is that Curator's request? A write of anything else is none. */
static bool asks_to_release(const struct zkl__contender *c, const struct zkl__reply *reply)
{
    return c->config.revocable && reply->size == sizeof ZKL__REVOKE - 1 &&
           memcmp(reply->data, ZKL__REVOKE, reply->size) == 0 && reply->stat.mzxid > c->own.revoked;
}

static void on_reply_while_held(struct zkl__contender *c)
{
    const struct zkl__reply *reply = c->event->reply;
    if (reply->rc == ZKL__RC_OK) {
        if (asks_to_release(c, reply)) {
            c->own.revoked = reply->stat.mzxid;
            zkl__contender_tell(c, ZKL__REVOKED, ZKL_OK, 0, "asked to release");
        }
    } else if (reply->rc == ZKL__RC_NONODE) {
        zkl__node_removed(c);
    } else if (!c->config.revocable && reply->rc != ZKL__RC_NOTAPPLIED &&
               reply->rc != ZKL__RC_UNKNOWN) {
        if (c->own.guard == ZKL__GUARD_NOW) { /* it may not be read, or too much is watched: the
                                                 heartbeats go round */
            c->own.guard = ZKL__GUARD_NOT;
        }
        zkl__own_watch_stop(c);
        zkl__core_trace(
            c->core, c,
            "our node is not watched (%s): a removal by hand is noticed by a heartbeat on it",
            zkl__rc_name(reply->rc));
    } else if (reply->rc != ZKL__RC_UNKNOWN) {
        zkl__contender_put_off(c);
    }
}

/* --- what comes of it ------------------------------------------------------------------------ */

/* Our own node went, most likely. */
void zkl__own_watch_on_event(struct zkl__contender *c)
{
    c->own.armed = false;
    if (zkl__contender_keeps(c) && c->event->watch == ZKL__WATCH_DELETED) {
        zkl__node_removed(c);
    } else if (c->state == ZKL__WATCHING || c->state == ZKL__PROVING) {
        zkl__predecessor_unwatch(c, ZKL__WATCH_OFF);
        zkl__contender_move(c, ZKL__LISTING, "our own node went or changed");
    }
}

void zkl__own_watch_on_reply(struct zkl__contender *c)
{
    c->own.armed = c->event->reply->rc == ZKL__RC_OK &&
                   c->watches[ZKL__WATCHED_OWN].on; /* the event may have been here first */
    if (zkl__contender_keeps(c)) {
        on_reply_while_held(c);
    } else if (c->event->reply->rc == ZKL__RC_NONODE && c->state == ZKL__WATCHING &&
               zkl__node_known(&c->node)) {
        zkl__node_removed(c);
    }
}
