#include "contender_moves.h"

#include "own.h"
#include "path.h"
#include "queue_list.h"

#include <string.h>

static void say_empty(const struct zkl__contender *c)
{
    zkl__core_warn(c->core, c,
                   "the path has the folders of a semaphore or a partition, with nobody who lives "
                   "in them and no limit: "
                   "it is a lock");
}

/* A limit, or somebody who lives: then it is a semaphore. What stands there with no session, or may
 * not be looked at, is anybody's, and would deny the lock for ever. One is looked at in each
 * folder, the last to come: a lock beside a semaphore is a mistake to be told of, and endangers
 * neither. */
static bool shows_use(const struct zkl__contender *c, const struct zkl__reply *reply)
{
    if (c->folders.stage == ZKL__FOLDERS_LIMIT) {
        return reply->rc == ZKL__RC_OK && zkl__limit_parse(reply->data, reply->size) > 0;
    }
    bool looked = c->folders.stage == ZKL__FOLDERS_WAITER || c->folders.stage == ZKL__FOLDERS_LEASE;
    return looked && reply->rc == ZKL__RC_OK && zkl__lives(&reply->stat);
}

/* Whoever is the last in a folder is looked at; nobody there, or no memory: the next folder. */
static void look_at_last(struct zkl__contender *c, const struct zkl__reply *reply)
{
    char name[sizeof "members/" + ZKL__NAME_LONGEST];
    bool locks = c->folders.stage == ZKL__FOLDERS_LOCKS,
         listed = locks || c->folders.stage == ZKL__FOLDERS_LEASES;
    const char *last = listed && reply->rc == ZKL__RC_OK ? zkl__list_last(reply) : NULL;
    if (last) {
        zkl__path_join(name, sizeof name,
                       c->folders.partition ? (locks ? "members" : "pieces")
                                            : (locks ? "locks" : "leases"),
                       last);
    }
    bool nobody = listed && !(last && zkl__predecessor_set(c, name));
    c->folders.stage += nobody ? 2 : 1;
}

void zkl__folders_on_reply(struct zkl__contender *c, const struct zkl__contender_event *ev,
                           struct zkl__contender_actions *out)
{
    const struct zkl__reply *reply = ev->reply;
    if (c->state != ZKL__LISTING || c->folders.stage == ZKL__FOLDERS_UNSEEN) {
        zkl__contender_advance(c, ev, out);
        return;
    }
    if (!zkl__rc_answered(reply->rc) || reply->rc == ZKL__RC_NOTAPPLIED) {
        zkl__contender_fail_by_reply(c, ev, out);
        return;
    }
    if (shows_use(c, reply)) {
        zkl__contender_fail(c, ev, out, ZKL_ECONFLICT, reply->zk_code,
                            c->folders.partition
                                ? "the path is in use as a partition, with members and pieces below"
                                : "the path is in use as a semaphore, with locks and leases below");
        return;
    }
    look_at_last(c, reply);
    if (c->folders.stage == ZKL__FOLDERS_EMPTY) {
        say_empty(c);
    }
    zkl__contender_advance(c, ev,
                           out); /* the list once more: what stands before us may have changed */
}

/* --- what is asked --------------------------------------------------------------------------- */

bool zkl__folders_asked(const struct zkl__contender *c)
{
    return c->folders.stage != ZKL__FOLDERS_UNSEEN && c->folders.stage != ZKL__FOLDERS_EMPTY;
}

/* Who waits already was there before the semaphore, which is refused for that by its own look at
 * the list. */
bool zkl__folders_seen(struct zkl__contender *c, const struct zkl__contender_event *ev,
                       struct zkl__contender_actions *out)
{
    if (zkl__announcement_expected(c) || c->folders.stage == ZKL__FOLDERS_EMPTY) {
        return false;
    }
    enum zkl__list_user user = zkl__list_user(ev->reply, ev->index);
    if (user == ZKL__USER_NONE) {
        c->folders.stage = ZKL__FOLDERS_UNSEEN; /* they went while we looked */
        return false;
    }
    bool partition = user == ZKL__USER_PARTITION;
    if (c->folders.stage == ZKL__FOLDERS_UNSEEN || c->folders.partition != partition) {
        c->folders.partition = partition;
        c->folders.stage = partition ? ZKL__FOLDERS_LOCKS : ZKL__FOLDERS_LIMIT;
    }
    if (c->state != ZKL__LISTING) {
        zkl__contender_move(c, ZKL__LISTING,
                            "the path has the folders of a semaphore or a partition: is it one?");
    }
    zkl__contender_advance(c, ev, out);
    return true;
}

void zkl__folders_ask(struct zkl__contender *c, struct zkl__contender_actions *out)
{
    if (c->under_way & UNDER_WAY(ZKL__ROLE_FOLDERS)) {
        return;
    }
    const char *first = c->folders.partition ? "members" : "locks",
               *second = c->folders.partition ? "pieces" : "leases";
    if (c->folders.stage == ZKL__FOLDERS_LIMIT) {
        zkl__ask(c, out, ZKL__ROLE_FOLDERS,
                 (struct zkl__op){.kind = ZKL__OP_GET, .dir = c->config.path});
    } else if (c->folders.stage == ZKL__FOLDERS_LOCKS || c->folders.stage == ZKL__FOLDERS_LEASES) {
        zkl__ask_node(c, out, ZKL__ROLE_FOLDERS, ZKL__OP_CHILDREN,
                      c->folders.stage == ZKL__FOLDERS_LOCKS ? first : second);
    } else {
        zkl__ask_node(c, out, ZKL__ROLE_FOLDERS, ZKL__OP_EXISTS, zkl__predecessor_name(c));
    }
}
