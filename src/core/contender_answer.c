/* contender_answer.c - what each answer means to a contender. */
#include "contender_moves.h"
#include "inspection.h"
#include "local_queue.h"
#include "own.h"
#include "path.h"
#include "queue_list.h"
#include "stats.h"

#include <string.h>

/* --- the list -------------------------------------------------------------------------------- */

/* Whether "changed" is the word of one that held, and that waited for everybody before it. */
static bool believed(const char *blocker)
{
    zkl_kind kind = zkl__name_parse(blocker).kind;
    return (kind == ZKL_KIND_LOCK || kind == ZKL_KIND_WRITE) && zkl__name_sealed(blocker);
}

static void wait_for(struct zkl__contender *c, const struct zkl__contender_event *ev,
                     struct zkl__contender_actions *out, const char *blocker)
{
    bool hidden = c->sight != ZKL__SIGHT_READ && strcmp(zkl__contender_watched(c), blocker) == 0;
    c->waited = true;
    if (hidden) { /* the one that may not be read: this list watches the queue */
        c->armed = c->queue_watch.on && !c->changed;
        zkl__contender_move(c, ZKL__WATCHING, blocker);
        zkl__contender_advance(c, ev, out);
        return;
    }
    zkl__contender_stop_watching(c, out, ZKL__WATCH_OFF);
    c->sight = ZKL__SIGHT_READ;
    c->believed = believed(blocker) && zkl__core_seals(c->core) && !c->joint && !c->config.mark;
    if (zkl__local_follow(c, blocker)) {
        zkl__contender_move(c, ZKL__WATCHING, blocker);
        if (c->try_only) {
            zkl__contender_fail(c, ev, out, ZKL_EBUSY, 0, "somebody is before us");
        }
        return;
    }
    if (!zkl__contender_watch(c, blocker)) {
        zkl__contender_fail(c, ev, out, ZKL_ENOMEM, 0, "out of memory");
        return;
    }
    zkl__contender_move(c, ZKL__WATCHING, zkl__contender_watched(c));
    zkl__contender_advance(c, ev, out);
}

/* The create was sent twice: keep the lowest node, delete what else carries our uuid. True when one
 * is left. */
static bool settle_double(struct zkl__contender *c, const struct zkl__contender_event *ev,
                          struct zkl__contender_actions *out)
{
    const char *lowest, *other;
    zkl__list_mine(c, ev->reply, &lowest, &other);
    if (!lowest) {
        zkl__contender_node_removed(c, ev, out);
        return false;
    }
    if (strcmp(lowest, c->node) != 0) {
        strcpy(c->node, lowest);
        c->czxid = 0;
    }
    if (!other || c->twin_stays) {
        c->unsure = c->doubled = false;
        return true;
    }
    if (c->state == ZKL__CREATING) {
        zkl__contender_move(c, ZKL__LISTING, "the lost create was applied: its double is removed");
    }
    strcpy(c->twin, other);
    zkl__ask_node(c, out, ZKL__ROLE_DELETE, ZKL__OP_DELETE, c->twin);
    zkl__ask_list(c, out);
    return false;
}

static void admit(struct zkl__contender *c, const struct zkl__contender_event *ev,
                  struct zkl__contender_actions *out)
{
    c->proved = false;
    zkl__contender_stop_watching(c, out, ZKL__WATCH_OFF);
    c->sight = ZKL__SIGHT_READ;
    zkl__contender_move(c, ZKL__PROVING, "nobody is before us");
    zkl__contender_advance(c, ev, out);
}

/* Without memory they are looked at one by one. */
static void begin_inspection(struct zkl__contender *c, const struct zkl__contender_event *ev)
{
    zkl__inspection_drop(c);
    c->inspection = c->suspicious ? zkl__inspection_new(c, ev->reply, ev->index) : NULL;
    c->suspicious = false;
}

static void ask_whose_folders(struct zkl__contender *c, const struct zkl__contender_event *ev,
                              struct zkl__contender_actions *out)
{
    bool partition = zkl__list_user(ev->reply, ev->index) == ZKL__USER_PARTITION;
    if (c->folders == ZKL__FOLDERS_UNSEEN || c->partition != partition) {
        c->partition = partition;
        c->folders = partition ? ZKL__FOLDERS_LOCKS : ZKL__FOLDERS_LIMIT;
    }
    if (c->state != ZKL__LISTING) {
        zkl__contender_move(c, ZKL__LISTING,
                            "the path has the folders of a semaphore or a partition: is it one?");
    }
    zkl__contender_advance(c, ev, out);
}

static void decide_by_list(struct zkl__contender *c, const struct zkl__contender_event *ev,
                           struct zkl__contender_actions *out)
{
    c->patience = 0;
    c->unlisted = false;
    if (c->doubled) {
        if (!settle_double(c, ev, out)) {
            return;
        }
    } else if (!zkl__list_has(ev->reply, ev->index, c->node)) {
        zkl__contender_node_removed(c, ev, out);
        return;
    }
    if (zkl__sequence_used_up(zkl__name_sequence(c->node))) {
        zkl__contender_fail(c, ev, out, ZKL_EEXHAUSTED, 0, EXHAUSTED);
        return;
    }
    /* Who waits already was there before the semaphore, which is refused for that by its own look
     * at the list. */
    if (!c->waited && c->folders != ZKL__FOLDERS_EMPTY) {
        if (zkl__list_user(ev->reply, ev->index) != ZKL__USER_NONE) {
            ask_whose_folders(c, ev, out);
            return;
        }
        c->folders = ZKL__FOLDERS_UNSEEN; /* they went while we looked */
    }
    const char *blocker = zkl__list_blocker(c, ev->reply, ev->index);
    if (blocker) {
        bool seen;
        begin_inspection(c, ev);
        wait_for(c, ev, out,
                 c->inspection ? zkl__inspection_nearest(c->inspection, &seen) : blocker);
    } else {
        admit(c, ev, out);
    }
}

static void on_list_while_removing(struct zkl__contender *c, const struct zkl__contender_event *ev,
                                   struct zkl__contender_actions *out)
{
    if (ev->reply->rc == ZKL__RC_NONODE && c->barrier_passed) {
        c->unsure = false;
    } else if (ev->reply->rc == ZKL__RC_OK && c->barrier_passed && c->unsure && !c->node[0]) {
        const char *lowest, *other;
        zkl__list_mine(c, ev->reply, &lowest, &other);
        if (lowest) {
            strcpy(c->node, lowest);
        } else {
            c->unsure = false;
        }
    } else if (ev->reply->rc != ZKL__RC_OK && ev->reply->rc != ZKL__RC_NONODE &&
               ev->reply->rc != ZKL__RC_UNKNOWN) {
        zkl__contender_put_off(c, ev->now);
    }
    c->barrier_passed = false;
    zkl__contender_advance(c, ev, out);
}

/* We hold, on the word of whoever was before us, and asked whether that is true: a lie is found out
 * as a removal by hand is. */
static void on_list_while_held(struct zkl__contender *c, const struct zkl__contender_event *ev,
                               struct zkl__contender_actions *out)
{
    const char *blocker =
        ev->reply->rc == ZKL__RC_OK ? zkl__list_blocker(c, ev->reply, ev->index) : NULL;
    if (blocker && c->suspicious) {
        begin_inspection(c, ev);
        if (c->inspection) {
            c->inspects = out->inspect = true;
            return;
        }
    }
    if (ev->reply->rc != ZKL__RC_OK || (blocker && !zkl__contender_watch(c, blocker))) {
        zkl__contender_look_later(c, ev);
    } else if (blocker) {
        zkl__ask_node(c, out, ZKL__ROLE_WATCH, ZKL__OP_EXISTS, zkl__contender_watched(c));
    } else {
        c->unlisted = false;
    }
}

#define LIE "somebody is before us: a release was announced that was none"

static void on_inspected_while_held(struct zkl__contender *c, const struct zkl__contender_event *ev,
                                    struct zkl__contender_actions *out)
{
    bool seen = false;
    const char *nearest = zkl__inspection_nearest(c->inspection, &seen);
    c->inspects = false;
    if (!nearest && !zkl__inspection_stale(c->inspection)) {
        c->unlisted = false;
    } else if (zkl__inspection_broken(c->inspection)) {
        zkl__contender_look_later(c, ev);
    } else if (zkl__inspection_stale(c->inspection)) {
        c->suspicious = true;
        zkl__ask_list(c, out);
    } else if (seen) {
        zkl__contender_lose(c, ev, out, LIE);
        return;
    } else {
        c->inspects = out->inspect = true;
        return;
    }
    zkl__inspection_drop(c);
}

static void on_blocker_while_held(struct zkl__contender *c, const struct zkl__contender_event *ev,
                                  struct zkl__contender_actions *out)
{
    const char *name = zkl__contender_watched(c);
    c->suspicious = ev->reply->rc == ZKL__RC_OK && zkl__list_forged(c, name, &ev->reply->stat);
    if ((ev->reply->rc == ZKL__RC_OK && !c->suspicious) || ev->reply->rc == ZKL__RC_NOAUTH) {
        zkl__contender_lose(c, ev, out, LIE);
    } else if (ev->reply->rc == ZKL__RC_NONODE ||
               (c->suspicious && zkl__list_pass_over(c, name, &ev->reply->stat))) {
        zkl__ask_list(c, out);
    } else {
        zkl__contender_look_later(c, ev);
    }
}

static void on_list(struct zkl__contender *c, const struct zkl__contender_event *ev,
                    struct zkl__contender_actions *out)
{
    if (c->state == ZKL__REMOVING || c->state == ZKL__LOST) {
        on_list_while_removing(c, ev, out);
    } else if (c->state == ZKL__HELD) {
        on_list_while_held(c, ev, out);
    } else if ((c->state != ZKL__CREATING && c->state != ZKL__LISTING) || !c->node[0]) {
        /* of the last attempt, or the create before it was not applied: the next was waiting for it
         */
        zkl__contender_advance(c, ev, out);
    } else if (ev->reply->rc == ZKL__RC_OK) {
        decide_by_list(c, ev, out);
    } else if (ev->reply->rc == ZKL__RC_NONODE) {
        zkl__contender_queue_again(c, ev, out, "the directory was removed by somebody");
    } else {
        if (c->state == ZKL__CREATING) {
            zkl__contender_move(c, ZKL__LISTING, "we have a place, but no list");
        }
        zkl__contender_fail_by_reply(c, ev, out);
    }
}

/* --- other answers --------------------------------------------------------------------------- */

/* Our prefix and a number. A damaged reply may have no name, an empty one, or another's. */
static bool is_created_name(const struct zkl__contender *c, const char *name)
{
    size_t length = strlen(c->prefix);
    return name && strncmp(name, c->prefix, length) == 0 && name[length] &&
           strlen(name) < ZKL__NAME_MAX;
}

/* The server refused this copy of the create, and says nothing of an earlier one whose answer was
 * lost: that may have been applied, by a server that took the seal. So the uuid stays, and the list
 * behind the next create shows what carries it. */
static void create_unsealed(struct zkl__contender *c)
{
    c->sealed = false;
    zkl__uuid_unseal(c->uuid);
    zkl__name_prefix(c->prefix, c->uuid, c->config.rule->tag);
    zkl__core_trace(c->core, c, "the servers take no seal: again without one");
}

static void on_create(struct zkl__contender *c, const struct zkl__contender_event *ev,
                      struct zkl__contender_actions *out)
{
    const struct zkl__reply *reply = ev->reply;
    if (reply->rc == ZKL__RC_OK) {
        if (!is_created_name(c, reply->name)) {
            c->unsure =
                true; /* the reply names no node of ours: whether there is one, the list shows */
            zkl__core_trace(c->core, c,
                            "the create's reply names no node of ours: its fate is unknown");
            zkl__contender_put_off(c, ev->now);
            return;
        }
        strcpy(c->node, reply->name);
        c->czxid = reply->stat.czxid;
        c->patience = 0;
        zkl__core_trace(c->core, c, "our node is %s", c->node);
    } else if (reply->rc == ZKL__RC_UNKNOWN) {
        c->unsure = true;
        zkl__core_trace(c->core, c, "fate of the create unknown");
    } else if (reply->rc == ZKL__RC_NONODE) {
        c->unsure = c->doubled = false; /* no directory: no earlier copy in it either */
    }
    if (c->state != ZKL__CREATING) {
        zkl__contender_advance(c, ev, out); /* not wanted any more */
    } else if (reply->rc == ZKL__RC_NONODE) {
        c->make_path = c->make_path ? c->make_path
                                    : zkl__copy(c->heap, c->config.path, strlen(c->config.path));
        if (!c->make_path) {
            zkl__contender_fail(c, ev, out, ZKL_ENOMEM, 0, "out of memory");
            return;
        }
        strcpy(c->make_path, c->config.path);
        zkl__contender_move(c, ZKL__MAKING, "no such directory");
        zkl__contender_advance(c, ev, out);
    } else if (reply->rc == ZKL__RC_INVALIDACL && c->sealed) {
        zkl__core_seal_off(c->core); /* no digest scheme there: as the others do it */
        create_unsealed(c);
        zkl__contender_advance(c, ev, out);
    } else if (reply->rc != ZKL__RC_OK) {
        zkl__contender_fail_by_reply(c, ev, out);
    } else if (!c->config.rule->waits_for && !c->doubled &&
               !zkl__sequence_used_up(zkl__name_sequence(c->node))) {
        admit(c, ev, out);
    } else if (!(c->under_way & UNDER_WAY(ZKL__ROLE_LIST))) {
        zkl__contender_move(c, ZKL__LISTING, "we have a place, but no list");
        zkl__contender_advance(c, ev, out);
    }
}

static void on_make(struct zkl__contender *c, const struct zkl__contender_event *ev,
                    struct zkl__contender_actions *out)
{
    if (c->state != ZKL__MAKING) {
        return;
    }
    if (ev->reply->rc == ZKL__RC_NONODE) {
        if (!zkl__path_shorten(c->make_path)) {
            zkl__contender_fail(c, ev, out, ZKL_ENOENT, ev->reply->zk_code,
                                "the chroot of the connect string does not exist");
            return;
        }
    } else if (ev->reply->rc == ZKL__RC_OK || ev->reply->rc == ZKL__RC_NODEEXISTS) {
        if (!zkl__path_lengthen(c->make_path, c->config.path)) {
            zkl__contender_move(c, ZKL__CREATING, "the directory is there");
        }
    } else {
        zkl__contender_fail_by_reply(c, ev, out);
        return;
    }
    zkl__contender_advance(c, ev, out);
}

/* Held: is that Curator's request? A write of anything else is none. */
static void on_own_watched_held(struct zkl__contender *c, const struct zkl__contender_event *ev,
                                struct zkl__contender_actions *out)
{
    const struct zkl__reply *reply = ev->reply;
    if (reply->rc == ZKL__RC_OK) {
        if (c->config.revocable && reply->size == sizeof ZKL__REVOKE - 1 &&
            memcmp(reply->data, ZKL__REVOKE, reply->size) == 0 && reply->stat.mzxid > c->revoked) {
            c->revoked = reply->stat.mzxid;
            zkl__contender_tell(out, ev->now, ZKL__REVOKED, ZKL_OK, 0, "asked to release");
        }
    } else if (reply->rc == ZKL__RC_NONODE) {
        zkl__contender_node_removed(c, ev, out);
    } else if (!c->config.revocable && reply->rc != ZKL__RC_NOTAPPLIED &&
               reply->rc != ZKL__RC_UNKNOWN) {
        c->guards = false; /* it may not be read, or too much is watched: the heartbeats go round */
        zkl__contender_stop_own_watch(c, out);
        zkl__core_trace(
            c->core, c,
            "our node is not watched (%s): a removal by hand is noticed by a heartbeat on it",
            zkl__rc_name(reply->rc));
    } else if (reply->rc != ZKL__RC_UNKNOWN) {
        zkl__contender_put_off(c, ev->now);
    }
    zkl__contender_advance(c, ev, out);
}

/* Our own node. */
static void on_own_watched(struct zkl__contender *c, const struct zkl__contender_event *ev,
                           struct zkl__contender_actions *out)
{
    c->own_armed =
        ev->reply->rc == ZKL__RC_OK && c->own_watch.on; /* the event may have been here first */
    if (c->state == ZKL__HELD) {
        on_own_watched_held(c, ev, out);
    } else if (ev->reply->rc == ZKL__RC_NONODE && c->state == ZKL__WATCHING && c->node[0]) {
        zkl__contender_node_removed(c, ev, out);
    }
}

/* The nearest ones of the inspection, until one stands. Its list still holds: the places before
 * ours only become fewer. */
static void look_further(struct zkl__contender *c, const struct zkl__contender_event *ev,
                         struct zkl__contender_actions *out)
{
    bool seen = false;
    const char *nearest = zkl__inspection_nearest(c->inspection, &seen);
    bool watched =
        out->watch != ZKL__WATCH_KEEP; /* one after the other: its path is in use in this step */
    c->inspects = nearest && (!seen || watched);
    if (!nearest) {
        admit(c, ev, out);
    } else if (!c->inspects) {
        wait_for(c, ev, out, nearest);
    } else {
        zkl__contender_advance(c, ev, out);
    }
}

/* For another inspection. */
static void list_again(struct zkl__contender *c, const struct zkl__contender_event *ev,
                       struct zkl__contender_actions *out, const char *why)
{
    c->suspicious = true;
    zkl__contender_move(c, ZKL__LISTING, why);
    zkl__contender_advance(c, ev, out);
}

/* Whoever we wanted to watch is no contender. */
static void on_forged(struct zkl__contender *c, const struct zkl__contender_event *ev,
                      struct zkl__contender_actions *out)
{
    if (!zkl__list_pass_over(c, zkl__contender_watched(c), &ev->reply->stat)) {
        zkl__contender_fail(c, ev, out, ZKL_ENOMEM, 0, "out of memory");
    } else if (c->state != ZKL__WATCHING) {
        c->suspicious = true; /* the list under way is read without it */
    } else {
        zkl__contender_stop_watching(c, out, ZKL__WATCH_OFF);
        if (c->inspection) {
            zkl__inspection_exclude(c->inspection);
            look_further(c, ev, out);
        } else {
            list_again(c, ev, out, "what is before us is no contender");
        }
    }
}

void zkl__contender_on_inspected(struct zkl__contender *c, const struct zkl__contender_event *ev,
                                 struct zkl__contender_actions *out)
{
    if (c->state == ZKL__HELD) {
        on_inspected_while_held(c, ev, out);
    } else if (zkl__inspection_broken(c->inspection)) {
        zkl__contender_put_off(c, ev->now);
    } else if (zkl__inspection_stale(c->inspection)) {
        list_again(c, ev, out, "one of those before us is gone");
    } else {
        c->patience = 0;
        look_further(c, ev, out);
    }
}

/* It may not be read. The exists goes before the list, so its answer is here when that is read. */
static void on_hidden(struct zkl__contender *c, const struct zkl__contender_event *ev,
                      struct zkl__contender_actions *out)
{
    c->sight = ZKL__SIGHT_STAT;
    zkl__contender_stop_watching(c, out, ZKL__WATCH_FORGET); /* the refused get has set none */
    zkl__contender_advance(c, ev, out);
}

/* The answer to the exists of one that may not be read. What is not permitted, or refused, may be a
 * contender: so it is one. */
static void on_stat_of_hidden(struct zkl__contender *c, const struct zkl__contender_event *ev,
                              struct zkl__contender_actions *out)
{
    enum zkl__rc rc = ev->reply->rc;
    if (rc == ZKL__RC_OK && zkl__list_forged(c, zkl__contender_watched(c), &ev->reply->stat)) {
        on_forged(c, ev, out);
    } else if (rc == ZKL__RC_NONODE && c->state == ZKL__WATCHING) {
        zkl__contender_move(c, ZKL__LISTING, "who was before us is gone already");
        zkl__contender_advance(c, ev, out);
    } else if (!zkl__rc_answered(rc) || rc == ZKL__RC_NOTAPPLIED) {
        zkl__contender_fail_by_reply(c, ev, out);
    } else if (c->try_only && rc != ZKL__RC_NONODE) {
        zkl__contender_fail(c, ev, out, ZKL_EBUSY, 0, "somebody is before us");
    } else {
        c->sight = ZKL__SIGHT_NOTHING;
    }
}

static void on_watched(struct zkl__contender *c, const struct zkl__contender_event *ev,
                       struct zkl__contender_actions *out)
{
    enum zkl__rc rc = ev->reply->rc;
    if (c->state == ZKL__HELD) {
        on_blocker_while_held(c, ev, out);
    } else if (c->sight == ZKL__SIGHT_STAT &&
               (c->state == ZKL__WATCHING || c->state == ZKL__LISTING)) {
        on_stat_of_hidden(c, ev, out);
    } else if (c->state != ZKL__WATCHING) {
        return; /* it went meanwhile */
    } else if (rc == ZKL__RC_OK &&
               zkl__list_forged(c, zkl__contender_watched(c), &ev->reply->stat)) {
        on_forged(c, ev, out);
    } else if (rc == ZKL__RC_OK && c->try_only) {
        zkl__contender_fail(c, ev, out, ZKL_EBUSY, 0, "somebody is before us");
    } else if (rc == ZKL__RC_OK) {
        c->armed = true;
    } else if (rc == ZKL__RC_NONODE) {
        zkl__contender_stop_watching(
            c, out, ZKL__WATCH_FORGET); /* a get leaves no watch on a missing node */
        zkl__contender_move(c, ZKL__LISTING, "who was before us is gone already");
        zkl__contender_advance(c, ev, out);
    } else if (rc == ZKL__RC_NOAUTH) {
        on_hidden(c, ev, out);
    } else {
        zkl__contender_fail_by_reply(c, ev, out);
    }
}

/* We may not delete it: because it only carries our uuid, and is somebody else's? */
static void on_stat_while_removing(struct zkl__contender *c, const struct zkl__contender_event *ev,
                                   struct zkl__contender_actions *out)
{
    if (ev->reply->rc == ZKL__RC_OK && c->node[0] &&
        ev->reply->stat.ephemeral_owner != ev->session_id &&
        zkl__name_set_add(&c->strangers, c->heap, c->node)) {
        c->node[0] = '\0';
        c->retry_at = 0;
    }
    zkl__contender_advance(c, ev, out);
}

static void on_stat(struct zkl__contender *c, const struct zkl__contender_event *ev,
                    struct zkl__contender_actions *out)
{
    if (c->state == ZKL__REMOVING && c->unsure) {
        on_stat_while_removing(c, ev, out);
        return;
    }
    if (!zkl__contender_waits(c) || c->czxid || !c->node[0]) {
        return;
    }
    if (ev->reply->rc == ZKL__RC_OK) {
        if (ev->reply->stat.ephemeral_owner != ev->session_id) {
            /* carries our uuid and is not ours: a forgery, and our own node is elsewhere, or gone
             */
            zkl__contender_queue_again(c, ev, out, "the node with our uuid is a stranger's");
            return;
        }
        c->czxid = ev->reply->stat.czxid;
        zkl__contender_advance(c, ev, out);
    } else if (ev->reply->rc == ZKL__RC_NONODE) {
        zkl__contender_node_removed(c, ev, out);
    } else if (ev->reply->rc == ZKL__RC_NOAUTH) {
        zkl__contender_fail(
            c, ev, out, ZKL_EAUTH, ev->reply->zk_code,
            "its access list hides our own znode from us, and so the token: let us read it");
    } else {
        zkl__contender_fail_by_reply(c, ev, out);
    }
}

/* Once for each path: who contends there has the same credentials the next time. */
static void warn_of_read(const struct zkl__contender *c)
{
    if (!c->path_stats->told_read) {
        c->path_stats->told_read = true;
        zkl__core_warn(c->core, c,
                       "READ on our own znode %s is missing: the lock is held, but a removal by "
                       "hand is noticed late, "
                       "and nobody sees who holds. Let the access list of what is created "
                       "(zkl_acl) give READ to us",
                       c->node);
    }
}

/* DELETE is a permission on the parent (PrepRequestProcessor, OpCode.delete: checkACL of the
 * parent's record). What may be another one's, as our uuid in a name of unknown fate, is not warned
 * of. */
static void warn_of_delete(const struct zkl__contender *c)
{
    if (!c->unsure && !c->path_stats->told_delete) {
        c->path_stats->told_delete = true;
        zkl__core_warn(
            c->core, c,
            "DELETE on the directory is missing: our znode %s cannot be removed, and keeps its "
            "place until "
            "the session ends. Give DELETE on the directory to those who contend there (setAcl)",
            c->node);
    }
}

/* A node that we may not read is there all the same: the leader looks for the session, then for the
 * node, then at its access list (PrepRequestProcessor.pRequest2Txn, OpCode.check), so NOAUTH says
 * that both are there. */
static void on_check(struct zkl__contender *c, const struct zkl__contender_event *ev,
                     struct zkl__contender_actions *out)
{
    enum zkl__rc rc = ev->reply->rc;
    if (rc == ZKL__RC_NOAUTH && ev->role == ZKL__ROLE_BEAT && c->state == ZKL__HELD &&
        !c->swap[0]) {
        warn_of_read(c);
    }
    if (rc == ZKL__RC_NONODE && c->node[0] && !c->swap[0]) {
        if (c->state == ZKL__HELD || c->state == ZKL__PROVING) {
            zkl__contender_node_removed(c, ev, out);
        }
    } else if (c->state == ZKL__PROVING && ev->role == ZKL__ROLE_PROVE && rc != ZKL__RC_OK &&
               rc != ZKL__RC_NOAUTH) {
        c->proved = false;
        zkl__contender_fail_by_reply(c, ev, out);
    } else {
        zkl__contender_advance(c, ev, out);
    }
}

static void on_delete(struct zkl__contender *c, const struct zkl__contender_event *ev,
                      struct zkl__contender_actions *out)
{
    enum zkl__rc rc = ev->reply->rc;
    if (c->twin[0]) { /* of a double; the list sent with it says what is left */
        if (zkl__rc_answered(rc) && rc != ZKL__RC_OK && rc != ZKL__RC_NONODE &&
            rc != ZKL__RC_NOTAPPLIED) {
            c->twin_stays = true; /* it stands behind us: it can wait until we go */
        }
        c->twin[0] = '\0';
    } else if (rc == ZKL__RC_OK || rc == ZKL__RC_NONODE) {
        c->node[0] = '\0';
        c->announce = false; /* a double of it would say nothing */
        c->clear = false;    /* the mark went with it: what is there when a double goes is the next
                                holder's */
        c->patience = 0;
    } else if (c->announce && rc != ZKL__RC_UNKNOWN && rc != ZKL__RC_NOTAPPLIED &&
               rc != ZKL__RC_UNSENT) {
        c->announce = false; /* it may not be written: then it just goes */
        if (rc == ZKL__RC_NOAUTH) {
            zkl__core_seal_off(c->core);
        }
    } else if (rc != ZKL__RC_UNKNOWN) {
        if (rc == ZKL__RC_NOAUTH &&
            !c->clear) { /* with the mark, it may be WRITE that is missing */
            warn_of_delete(c);
            c->delete_refused = true;
        }
        /* A directory that may not be written must not keep the node alive. */
        c->clear = c->clear && (rc == ZKL__RC_NOTAPPLIED || rc == ZKL__RC_UNSENT);
        zkl__contender_put_off(c,
                               ev->now); /* never forgotten: until it is gone, or the session is */
        if (rc == ZKL__RC_NOAUTH && c->unsure && !(c->under_way & UNDER_WAY(ZKL__ROLE_STAT))) {
            zkl__ask_node(c, out, ZKL__ROLE_STAT, ZKL__OP_EXISTS, c->node);
        }
    }
    zkl__contender_advance(c, ev, out);
}

static void on_swap(struct zkl__contender *c, const struct zkl__contender_event *ev,
                    struct zkl__contender_actions *out)
{
    enum zkl__rc rc = ev->reply->rc;
    if (rc == ZKL__RC_NODEEXISTS && !c->swap_unsure) {
        c->swap[0] =
            '\0'; /* somebody made it by hand, for the name is no secret: we hold as what we were */
    } else if (rc == ZKL__RC_OK || rc == ZKL__RC_NODEEXISTS) {
        strcpy(c->node, c->swap);
        c->swap[0] = '\0';
        c->patience = 0;
        if (c->state == ZKL__HELD) {
            zkl__contender_tell(out, ev->now, ZKL__DOWNGRADED, ZKL_OK, 0, "downgraded");
        }
    } else if (rc == ZKL__RC_NONODE) {
        c->swap[0] = c->node[0] = '\0';
        if (c->state == ZKL__HELD) {
            zkl__contender_node_removed(c, ev, out);
        }
    } else if (c->state != ZKL__HELD) {
        c->unsure =
            c->unsure || rc == ZKL__RC_UNKNOWN; /* then the list tells which of the two is there */
        c->swap[0] = '\0';
    } else if (rc != ZKL__RC_UNKNOWN) {
        zkl__contender_put_off(c, ev->now);
    }
    c->swap_unsure = c->swap[0] && (c->swap_unsure || rc == ZKL__RC_UNKNOWN);
    zkl__contender_advance(c, ev, out);
}

static bool is_mark(const struct zkl__reply *reply, const char *mark, size_t length)
{
    return reply->size >= length && memcmp(reply->data, mark, length) == 0;
}

static void on_read(struct zkl__contender *c, const struct zkl__contender_event *ev,
                    struct zkl__contender_actions *out)
{
    const struct zkl__reply *reply = ev->reply;
    if (c->state != ZKL__PROVING) {
        return;
    }
    if (reply->rc != ZKL__RC_OK && reply->rc != ZKL__RC_NONODE) {
        zkl__contender_fail_by_reply(c, ev, out);
        return;
    }
    /* No directory: our node is gone with it, which the check beside the mark will tell. */
    if (reply->rc == ZKL__RC_OK && !is_mark(reply, c->marks->own, strlen(c->marks->own)) &&
        !(c->marks->older[0] && is_mark(reply, c->marks->older, strlen(c->marks->older)))) {
        c->unclean = is_mark(reply, ZKL__MARK, sizeof ZKL__MARK - 1);
    }
    c->was_read = true;
    zkl__contender_advance(c, ev, out);
}

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
    if (c->folders == ZKL__FOLDERS_LIMIT) {
        return reply->rc == ZKL__RC_OK && zkl__limit_parse(reply->data, reply->size) > 0;
    }
    bool looked = c->folders == ZKL__FOLDERS_WAITER || c->folders == ZKL__FOLDERS_LEASE;
    return looked && reply->rc == ZKL__RC_OK && zkl__lives(&reply->stat);
}

/* Whoever is the last in a folder is looked at; nobody there, or no memory: the next folder. */
static void look_at_last(struct zkl__contender *c, const struct zkl__reply *reply)
{
    char name[sizeof "members/" + ZKL__NAME_LONGEST];
    bool locks = c->folders == ZKL__FOLDERS_LOCKS,
         listed = locks || c->folders == ZKL__FOLDERS_LEASES;
    const char *last = listed && reply->rc == ZKL__RC_OK ? zkl__list_last(reply) : NULL;
    if (last) {
        strcpy(name,
               c->partition ? (locks ? "members/" : "pieces/") : (locks ? "locks/" : "leases/"));
        strcat(name, last);
    }
    bool nobody = listed && !(last && zkl__contender_watch(c, name));
    c->folders += nobody ? 2 : 1;
}

static void on_folders(struct zkl__contender *c, const struct zkl__contender_event *ev,
                       struct zkl__contender_actions *out)
{
    const struct zkl__reply *reply = ev->reply;
    if (c->state != ZKL__LISTING || c->folders == ZKL__FOLDERS_UNSEEN) {
        zkl__contender_advance(c, ev, out);
        return;
    }
    if (!zkl__rc_answered(reply->rc) || reply->rc == ZKL__RC_NOTAPPLIED) {
        zkl__contender_fail_by_reply(c, ev, out);
        return;
    }
    if (shows_use(c, reply)) {
        zkl__contender_fail(c, ev, out, ZKL_ECONFLICT, reply->zk_code,
                            c->partition
                                ? "the path is in use as a partition, with members and pieces below"
                                : "the path is in use as a semaphore, with locks and leases below");
        return;
    }
    look_at_last(c, reply);
    if (c->folders == ZKL__FOLDERS_EMPTY) {
        say_empty(c);
    }
    zkl__contender_advance(c, ev,
                           out); /* the list once more: what stands before us may have changed */
}

static void on_mark(struct zkl__contender *c, const struct zkl__contender_event *ev,
                    struct zkl__contender_actions *out)
{
    c->marked = c->marked || ev->reply->rc == ZKL__RC_OK;
    if (c->state == ZKL__PROVING && ev->reply->rc == ZKL__RC_NONODE) {
        zkl__contender_node_removed(c, ev, out);
        return;
    } else if (c->state == ZKL__PROVING && ev->reply->rc != ZKL__RC_OK) {
        zkl__contender_fail_by_reply(c, ev, out);
        return;
    }
    zkl__contender_advance(c, ev, out);
}

static void on_barrier(struct zkl__contender *c, const struct zkl__contender_event *ev,
                       struct zkl__contender_actions *out)
{
    c->barrier_passed = zkl__rc_answered(ev->reply->rc) && ev->reply->rc != ZKL__RC_NOTAPPLIED;
    if (!c->barrier_passed && ev->reply->rc != ZKL__RC_UNKNOWN) {
        zkl__contender_put_off(c, ev->now);
    }
    zkl__contender_advance(c, ev, out); /* its list may not have been sent */
}

void zkl__contender_on_reply(struct zkl__contender *c, const struct zkl__contender_event *ev,
                             struct zkl__contender_actions *out)
{
    static void (*const answers[ZKL__ROLES])(struct zkl__contender *,
                                             const struct zkl__contender_event *,
                                             struct zkl__contender_actions *) = {
        [ZKL__ROLE_CREATE] = on_create,
        [ZKL__ROLE_LIST] = on_list,
        [ZKL__ROLE_WATCH] = on_watched,
        [ZKL__ROLE_STAT] = on_stat,
        [ZKL__ROLE_PROVE] = on_check,
        [ZKL__ROLE_BEAT] = on_check,
        [ZKL__ROLE_DELETE] = on_delete,
        [ZKL__ROLE_BARRIER] = on_barrier,
        [ZKL__ROLE_MAKE] = on_make,
        [ZKL__ROLE_SWAP] = on_swap,
        [ZKL__ROLE_READ] = on_read,
        [ZKL__ROLE_MARK] = on_mark,
        [ZKL__ROLE_OWN_WATCH] = on_own_watched,
        [ZKL__ROLE_FOLDERS] = on_folders,
    };
    c->under_way &= ~UNDER_WAY(ev->role);
    answers[ev->role](c, ev, out);
}
