#include "contender_moves.h"

#include "own.h"
#include "queue_list.h"

#include <stdio.h>

#define LIMIT_LONGEST 5 /* bytes: of ZKL_PERMITS_MAX */

static bool is_semaphore(const struct zkl__contender *c)
{
    return c->conflict.directory[0] == 'l';
}

static void refuse(struct zkl__contender *c)
{
    zkl__contender_fail(c, ZKL_ECONFLICT, c->event->reply->zk_code,
                        is_semaphore(c)
                            ? "the path is in use as a semaphore, with locks and leases below"
                            : "the path is in use as a partition, with members and pieces below");
}

/* Who waits already was there before the semaphore, which is refused for that by its own look at
 * the list. */
bool zkl__path_conflict_seen(struct zkl__contender *c)
{
    if (zkl__announcement_expected(c) || c->conflict.stage == ZKL__CONFLICT_NONE) {
        return false;
    }
    const char *directory = zkl__list_user(c->event->reply, c->event->index);
    int32_t size = c->event->reply->stat.data_size;
    if (!directory || directory != c->conflict.directory) {
        c->conflict.stage = ZKL__CONFLICT_UNSEEN;
        c->conflict.directory = directory;
    }
    if (!directory) {
        return false;
    }
    if (is_semaphore(c) && size > 0 && size <= LIMIT_LONGEST) {
        refuse(c);
        return true;
    }
    if (c->conflict.stage == ZKL__CONFLICT_UNSEEN) {
        c->conflict.stage = ZKL__CONFLICT_LISTS;
    }
    if (c->state != ZKL__LISTING) {
        zkl__contender_move(c, ZKL__LISTING,
                            "the path has the directories of a semaphore or a partition");
    }
    return true;
}

bool zkl__path_conflict_ask(struct zkl__contender *c)
{
    bool lists = c->conflict.stage == ZKL__CONFLICT_LISTS;
    if (!lists && c->conflict.stage != ZKL__CONFLICT_STATS) {
        return false;
    }
    if (!(c->under_way & UNDER_WAY(ZKL__ROLE_CONFLICT))) {
        zkl__ask_node(c, ZKL__ROLE_CONFLICT, lists ? ZKL__OP_CHILDREN : ZKL__OP_EXISTS,
                      lists ? c->conflict.directory : zkl__predecessor_name(c));
    }
    return true;
}

/* What no session owns, or may not be read, is anybody's. */
void zkl__path_conflict_on_reply(struct zkl__contender *c)
{
    const struct zkl__reply *reply = c->event->reply;
    bool lists = c->conflict.stage == ZKL__CONFLICT_LISTS,
         stats = c->conflict.stage == ZKL__CONFLICT_STATS;
    if (c->state != ZKL__LISTING || !(lists || stats)) {
    } else if (!zkl__rc_answered(reply->rc) || reply->rc == ZKL__RC_NOTAPPLIED) {
        zkl__contender_fail_by_reply(c);
    } else if (stats && reply->rc == ZKL__RC_OK && zkl__lives(&reply->stat)) {
        refuse(c);
    } else {
        char name[sizeof "members/" + ZKL__NAME_LONGEST];
        const char *newest = lists && reply->rc == ZKL__RC_OK ? zkl__list_last(reply) : NULL;
        if (newest) {
            snprintf(name, sizeof name, "%s/%s", c->conflict.directory, newest);
        }
        c->conflict.stage =
            newest && zkl__predecessor_set(c, name) ? ZKL__CONFLICT_STATS : ZKL__CONFLICT_NONE;
        /* At the end the list once more: what stands before us may have changed. */
    }
}
