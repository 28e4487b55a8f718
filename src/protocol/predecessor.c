#include "contender_moves.h"

#include "local_queue.h"
#include "queue_list.h"

#include <string.h>

/* --- who it is ------------------------------------------------------------------------------- */

void zkl__predecessor_free(struct zkl__contender *c)
{
    zkl__free(c->heap, c->predecessor.path);
}

void zkl__predecessor_new_attempt(struct zkl__contender *c)
{
    c->predecessor.armed = false;
    c->predecessor.sight = ZKL__SIGHT_READ;
}

void zkl__predecessor_on_connected(struct zkl__contender *c)
{
    c->predecessor.sight = ZKL__SIGHT_READ;
}

void zkl__predecessor_unwatch(struct zkl__contender *c, enum zkl__watch_change how)
{
    if (c->watches[ZKL__WATCHED_PREDECESSOR].on) {
        c->out->watches[ZKL__WATCHED_PREDECESSOR] = how;
    }
    if (c->watches[ZKL__WATCHED_QUEUE].on) {
        c->out->watches[ZKL__WATCHED_QUEUE] = how;
    }
    c->predecessor.armed = false;
}

bool zkl__predecessor_set(struct zkl__contender *c, const char *name)
{
    bool done = zkl__child_path(c, &c->predecessor.path, &c->predecessor.room, name);
    c->watches[ZKL__WATCHED_PREDECESSOR].path = c->predecessor.path;
    return done;
}

const char *zkl__predecessor_name(const struct zkl__contender *c)
{
    return c->predecessor.path + strlen(c->config.path) + 1;
}

void zkl__predecessor_wait_for(struct zkl__contender *c, const char *name)
{
    bool hidden =
        c->predecessor.sight != ZKL__SIGHT_READ && strcmp(zkl__predecessor_name(c), name) == 0;
    if (hidden) { /* the one that may not be read: this list watches the queue */
        c->predecessor.armed = c->watches[ZKL__WATCHED_QUEUE].on && !c->predecessor.changed;
        zkl__contender_move(c, ZKL__WATCHING, name);
        return;
    }
    zkl__predecessor_unwatch(c, ZKL__WATCH_OFF);
    c->predecessor.sight = ZKL__SIGHT_READ;
    c->predecessor.believed = zkl__announcement_believed(c, name);
    if (zkl__local_follow(c, name)) {
        zkl__mark_behind(c, name);
        zkl__contender_move(c, ZKL__WATCHING, name);
        if (c->try_only) {
            zkl__contender_fail(c, ZKL_EBUSY, 0, "somebody is before us");
        }
        return;
    }
    if (!zkl__predecessor_set(c, name)) {
        zkl__contender_fail(c, ZKL_ENOMEM, 0, "out of memory");
        return;
    }
    zkl__contender_move(c, ZKL__WATCHING, zkl__predecessor_name(c));
}

/* Who does not want to know does not count: a queue may be long. */
bool zkl__predecessor_position(struct zkl__contender *c)
{
    if (!c->config.position && c->config.max_ahead == 0) {
        return true;
    }
    size_t ahead = zkl__list_blockers(c, c->event->reply, c->event->index);
    if (c->config.max_ahead > 0 && ahead > c->config.max_ahead) {
        return false;
    }
    if (c->config.position && ahead + 1 != c->predecessor.told) {
        c->predecessor.told = ahead + 1;
        c->config.position(c->config.owner, ahead);
    }
    return true;
}

void zkl__predecessor_none(struct zkl__contender *c)
{
    zkl__predecessor_unwatch(c, ZKL__WATCH_OFF);
    c->predecessor.sight = ZKL__SIGHT_READ;
    zkl__grant_prove(c, "nobody is before us");
    zkl__contender_advance(c); /* the grant comes before what its list means to a lingering lock */
}

/* --- what is asked of it --------------------------------------------------------------------- */

bool zkl__predecessor_list_watches(struct zkl__contender *c)
{
    bool watch = c->predecessor.sight != ZKL__SIGHT_READ && !c->try_only && zkl__contender_waits(c);
    if (watch) {
        c->out->watches[ZKL__WATCHED_QUEUE] = ZKL__WATCH_ON;
    }
    c->predecessor.changed = false;
    return watch;
}

static void watch_predecessor(struct zkl__contender *c)
{
    if (!c->try_only) {
        c->out->watches[ZKL__WATCHED_PREDECESSOR] = ZKL__WATCH_ON;
        if (c->predecessor.believed) {
            zkl__own_watch_ask(
                c); /* before the other one, whose answer says that both watches are set */
        }
    }
    struct zkl__op get = {
        .kind = ZKL__OP_GET, .dir = c->config.path, .name = zkl__predecessor_name(c)};
    get.watch = !c->try_only;
    zkl__ask(c, ZKL__ROLE_WATCH, get);
}

void zkl__predecessor_look(struct zkl__contender *c)
{
    bool asked = c->under_way & UNDER_WAY(ZKL__ROLE_WATCH);
    if (c->predecessor.sight == ZKL__SIGHT_STAT && !asked) {
        zkl__ask_node(c, ZKL__ROLE_WATCH, ZKL__OP_EXISTS, zkl__predecessor_name(c));
        asked = true;
    }
    if (c->predecessor.sight == ZKL__SIGHT_READ && !c->predecessor.armed && !asked) {
        watch_predecessor(c);
    } else if (c->predecessor.sight != ZKL__SIGHT_READ && !c->predecessor.armed && !c->try_only) {
        zkl__contender_move(c, ZKL__LISTING,
                            "who is before us may not be read: the queue is watched");
        zkl__ask_list(c);
    }
}

/* --- its watch ------------------------------------------------------------------------------- */

void zkl__predecessor_on_event(struct zkl__contender *c)
{
    if (c->state != ZKL__WATCHING) {
        return; /* it went on by what else it read */
    }
    bool announced = c->event->watch == ZKL__WATCH_CHANGED && c->predecessor.believed &&
                     c->predecessor.armed && zkl__own_watch_armed(&c->own);
    c->predecessor.armed = false;
    if (announced) {
        zkl__announcement_heard(c);
    } else {
        zkl__contender_move(c, ZKL__LISTING, "who was before us went or changed");
    }
}

/* The queue's list changed, and of the one before us we know no more than that it is in it. */
void zkl__predecessor_on_queue_event(struct zkl__contender *c)
{
    if (c->state == ZKL__WATCHING && !zkl__local_follows(&c->local)) {
        c->predecessor.armed = false;
        zkl__contender_move(c, ZKL__LISTING,
                            "the queue changed, and who is before us may not be read");
    } else if (c->state == ZKL__LISTING && (c->under_way & UNDER_WAY(ZKL__ROLE_LIST))) {
        c->predecessor.changed =
            true; /* a watch that another one of the session had set: ours comes with the list */
        c->out->watches[ZKL__WATCHED_QUEUE] = ZKL__WATCH_ON;
    }
}

/* --- many that may be forged ----------------------------------------------------------------- */

/* The nearest ones of the inspection, until one stands. Its list still holds: the places before
 * ours only become fewer. */
static void look_further(struct zkl__contender *c)
{
    bool seen = false;
    const char *nearest = zkl__inspection_nearest(c, &seen);
    bool watched = c->out->watches[ZKL__WATCHED_PREDECESSOR] !=
                   ZKL__WATCH_KEEP; /* one after the other: its path is in use in this step */
    zkl__inspection_pause(c);
    if (!nearest) {
        zkl__predecessor_none(c);
    } else if (seen && !watched) {
        zkl__predecessor_wait_for(c, nearest);
    } else {
        zkl__inspection_go_on(c);
    }
}

/* For another inspection. */
static void list_again(struct zkl__contender *c, const char *why)
{
    zkl__suspect(c, true);
    zkl__contender_move(c, ZKL__LISTING, why);
}

/* Whoever we wanted to watch is no contender. */
static void on_forged(struct zkl__contender *c)
{
    if (!zkl__list_pass_over(c, zkl__predecessor_name(c), &c->event->reply->stat)) {
        zkl__contender_fail(c, ZKL_ENOMEM, 0, "out of memory");
    } else if (c->state != ZKL__WATCHING) {
        zkl__suspect(c, true); /* the list under way is read without it */
    } else {
        zkl__predecessor_unwatch(c, ZKL__WATCH_OFF);
        if (zkl__inspected(c)) {
            zkl__inspection_exclude(c);
            look_further(c);
        } else {
            list_again(c, "what is before us is no contender");
        }
    }
}

void zkl__predecessor_on_inspected(struct zkl__contender *c)
{
    if (zkl__inspection_broken(c)) {
        zkl__contender_put_off(c);
    } else if (zkl__inspection_stale(c)) {
        list_again(c, "one of those before us is gone");
    } else {
        c->retry.pause = 0;
        look_further(c);
    }
}

/* --- what it answers ------------------------------------------------------------------------- */

static void gone_already(struct zkl__contender *c)
{
    zkl__contender_move(c, ZKL__LISTING, "who was before us is gone already");
}

/* It may not be read. The exists goes before the list, so its answer is here when that is read. */
static void on_hidden(struct zkl__contender *c)
{
    c->predecessor.sight = ZKL__SIGHT_STAT;
    zkl__predecessor_unwatch(c, ZKL__WATCH_FORGET); /* the refused get has set none */
}

/* The answer to the exists of one that may not be read. What is not permitted, or refused, may be a
 * contender: so it is one. */
static void on_stat_of_hidden(struct zkl__contender *c)
{
    enum zkl__rc rc = c->event->reply->rc;
    if (rc == ZKL__RC_OK && zkl__list_forged(c, zkl__predecessor_name(c), &c->event->reply->stat)) {
        on_forged(c);
    } else if (rc == ZKL__RC_NONODE && c->state == ZKL__WATCHING) {
        gone_already(c);
    } else if (!zkl__rc_answered(rc) || rc == ZKL__RC_NOTAPPLIED) {
        zkl__contender_fail_by_reply(c);
    } else if (c->try_only && rc != ZKL__RC_NONODE) {
        zkl__contender_fail(c, ZKL_EBUSY, 0, "somebody is before us");
    } else {
        c->predecessor.sight = ZKL__SIGHT_NOTHING;
    }
}

/* To a get, for an exists leaves its watch on a missing node (DataTree: statNode adds the watch
 * before it looks whether the node is there, getData after that). */
void zkl__predecessor_on_reply(struct zkl__contender *c)
{
    enum zkl__rc rc = c->event->reply->rc;
    if (c->state == ZKL__HELD) {
        zkl__announcement_on_predecessor(c);
    } else if (c->predecessor.sight == ZKL__SIGHT_STAT &&
               (c->state == ZKL__WATCHING || c->state == ZKL__LISTING)) {
        on_stat_of_hidden(c);
    } else if (c->state != ZKL__WATCHING) {
        return; /* it went meanwhile */
    } else if (rc == ZKL__RC_OK &&
               zkl__list_forged(c, zkl__predecessor_name(c), &c->event->reply->stat)) {
        on_forged(c);
    } else if (rc == ZKL__RC_OK && c->try_only) {
        zkl__contender_fail(c, ZKL_EBUSY, 0, "somebody is before us");
    } else if (rc == ZKL__RC_OK) {
        c->predecessor.armed = true;
        zkl__mark_behind(c, zkl__predecessor_name(c));
    } else if (rc == ZKL__RC_NONODE) {
        zkl__predecessor_unwatch(c, ZKL__WATCH_FORGET);
        gone_already(c);
    } else if (rc == ZKL__RC_NOAUTH) {
        on_hidden(c);
    } else {
        zkl__contender_fail_by_reply(c);
    }
}
