/* contender_answer.c - whose each answer is, and what a list means to one who waits. */
#include "contender_moves.h"

#include "farewell.h"
#include "queue_list.h"

static void decide_by_list(struct zkl__contender *c)
{
    c->retry.pause = 0;
    zkl__announcement_listed(c);
    if (!zkl__node_in_list(c)) {
        return;
    }
    if (zkl__sequence_used_up(zkl__name_sequence(zkl__node_name(&c->node)))) {
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
    } else if (zkl__linger_gathers(&c->linger)) {
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

void zkl__contender_on_reply(struct zkl__contender *c)
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
