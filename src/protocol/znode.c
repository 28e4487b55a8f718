/* znode.c - the znode of a contender: its create and its fate, its directory, the znode that
 * replaces it, the watch on it, its delete. */

#include "core_internal.h"
#include "name.h"
#include "base.h"

#include <string.h>

/* Defined below. */
static void cleanup_on_stat(struct zkl__contender *c);
static void directory_missing(struct zkl__contender *c);

/* === the znode, and the fate of its create ==================================================== */

/* A create whose response was lost is sent again with the same uuid. So a name that carries the
 * uuid is ours, and a list behind a committed write shows all copies that were created. */

/* --- what is known of the znode --------------------------------------------------------------- */

void zkl__node_new_attempt(struct zkl__contender *c)
{
    struct zkl__node *node = &c->node;
    char uuid[ZKL__UUID_LENGTH + 1];
    zkl__core_uuid(c->core, uuid);
    if (!c->config.revocable) {
        zkl__uuid_refuse_requests(uuid);
    }
    zkl__name_prefix(node->prefix, uuid, c->config.rule->tag);
    zkl__node_ended(node);
    node->czxid = 0;
    node->stays = false;
}

/* A response was lost. */
static void node_doubt(struct zkl__node *node)
{
    node->fate = zkl__node_unsure(node) ? node->fate : ZKL__FATE_UNKNOWN;
}

void zkl__node_ended(struct zkl__node *node)
{
    node->name[0] = '\0';
    node->removes_duplicate = false;
    node->fate = ZKL__FATE_KNOWN;
}

void zkl__node_remember_duplicate(struct zkl__node *node)
{
    if (node->fate == ZKL__FATE_DUPLICATE_STAYS) {
        node->fate = ZKL__FATE_UNKNOWN;
    }
}

void zkl__node_removed(struct zkl__contender *c)
{
    const char *why = "our node was removed by somebody";
    if (c->state == ZKL__HELD) {
        c->node.name[0] = '\0';
        zkl__grant_lose(c, why);
    } else if (c->state == ZKL__LINGERING) {
        c->node.name[0] = '\0';
        zkl__contender_finish(c, ZKL_OK, why);
    } else {
        zkl__contender_queue_again(c, why);
    }
}

/* --- create and delete ------------------------------------------------------------------------ */

struct zkl__op zkl__create_op(const struct zkl__contender *c)
{
    return (struct zkl__op){.kind = ZKL__OP_CREATE,
                            .dir = c->config.path,
                            .name = c->node.prefix,
                            .data = c->config.metadata,
                            .size = strlen(c->config.metadata),
                            .mode = ZKL__EPHEMERAL_SEQUENTIAL,
                            .acl = c->config.acl};
}

struct zkl__op zkl__delete_op(const struct zkl__contender *c)
{
    return (struct zkl__op){
        .kind = ZKL__OP_DELETE, .dir = c->config.path, .name = c->node.name, .version = -1};
}

/* A contender that waits for nobody needs the list only if its create was sent twice: the reply to
 * the create shows that its znode exists. */
void zkl__node_send_create(struct zkl__contender *c)
{
    if (c->state == ZKL__NEW) {
        zkl__contender_move(c, ZKL__CREATING, "asks for a place and the list together");
    } else if (zkl__node_unsure(&c->node)) {
        c->node.fate = ZKL__FATE_TWICE;
    }
    zkl__mark_send_read(c); /* before the create: contender.c */
    zkl__contender_send(c, ZKL__ROLE_CREATE, zkl__create_op(c));
    if (c->node.fate >= ZKL__FATE_TWICE ||
        (c->config.rule->waits_for && !zkl__peers_spares_list(c))) {
        zkl__contender_send_list(c);
    }
}

void zkl__node_send_stat(struct zkl__contender *c)
{
    if (zkl__node_known(&c->node) && !c->node.czxid && !zkl__node_unsure(&c->node) &&
        !(c->under_way & UNDER_WAY(ZKL__ROLE_STAT))) {
        zkl__contender_send_of_node(c, ZKL__ROLE_STAT, ZKL__OP_EXISTS, c->node.name);
    }
}

/* --- the reply to the create ------------------------------------------------------------------ */

/* Our prefix and a number. A damaged reply may have no name, an empty one, or another's. */
static bool is_created_name(const struct zkl__contender *c, const char *name)
{
    size_t length = strlen(c->node.prefix);
    return name && strncmp(name, c->node.prefix, length) == 0 && name[length] &&
           strlen(name) < ZKL__NAME_MAX;
}

/* Notes what the reply says of the znode. False: it does not name one of ours. */
static bool note_create(struct zkl__contender *c, const struct zkl__reply *reply)
{
    if (reply->rc == ZKL__RC_OK && !is_created_name(c, reply->name)) {
        node_doubt(&c->node); /* whether there is one, the list shows */
        zkl__core_trace(c->core, c,
                        "the create's reply names no node of ours: its fate is unknown");
        return false;
    }
    if (reply->rc == ZKL__RC_OK) {
        zkl__name_copy(c->node.name, reply->name);
        c->node.czxid = reply->stat.czxid;
        c->retry.pause = 0;
        zkl__core_trace(c->core, c, "our node is %s", c->node.name);
    } else if (reply->rc == ZKL__RC_UNKNOWN) {
        node_doubt(&c->node);
        zkl__core_trace(c->core, c, "fate of the create unknown");
    } else if (reply->rc == ZKL__RC_NONODE && zkl__node_unsure(&c->node)) {
        c->node.fate = ZKL__FATE_KNOWN; /* no directory: no earlier copy in it either */
    }
    return true;
}

void zkl__node_on_create(struct zkl__contender *c)
{
    const struct zkl__reply *reply = c->event->reply;
    const char *before;
    // NOLINTBEGIN(bugprone-branch-clone): the order of the tests counts
    if (!note_create(c, reply)) {
        zkl__contender_retry_later(c);
    } else if (c->state != ZKL__CREATING) {
        return; /* not wanted any more */
    } else if (reply->rc == ZKL__RC_NONODE) {
        directory_missing(c);
    } else if (reply->rc == ZKL__RC_NODEEXISTS && zkl__node_unsure(&c->node) && !c->multi) {
        /* Perhaps somebody saw our uuid in a znode of ours and made this one by hand. The refusal
         * is a committed write, so the list behind it shows ours. */
        c->node.fate = ZKL__FATE_LISTED;
    } else if (reply->rc != ZKL__RC_OK) {
        zkl__contender_fail_by_reply(c);
    } else if (c->under_way & UNDER_WAY(ZKL__ROLE_LIST)) {
        return; /* which shows who is before us */
    } else if (zkl__sequence_used_up(zkl__name_sequence(c->node.name)) ||
               c->node.fate >= ZKL__FATE_TWICE) {
        zkl__contender_move(c, ZKL__LISTING, ZKL__NO_LIST);
    } else if (!c->config.rule->waits_for) {
        zkl__predecessor_none(c);
    } else if ((before = zkl__peers_neighbour(c))) {
        zkl__predecessor_wait_for(c, before);
    } else {
        zkl__contender_move(c, ZKL__LISTING, ZKL__NO_LIST);
    }
    // NOLINTEND(bugprone-branch-clone)
}

/* --- lists, stats and checks that show it ----------------------------------------------------- */

/* The create was sent twice: keep the lowest node, delete what else carries our uuid. True when one
 * is left. */
static bool settle_twice(struct zkl__contender *c)
{
    const char *lowest, *other;
    zkl__list_mine(c, c->event->reply, &lowest, &other);
    if (!lowest) {
        zkl__node_removed(c);
        return false;
    }
    if (strcmp(lowest, c->node.name) != 0) {
        zkl__name_copy(c->node.name, lowest);
        c->node.czxid = 0;
    }
    if (!other || c->node.fate == ZKL__FATE_TWICE_STAYS) {
        c->node.fate =
            c->node.fate == ZKL__FATE_TWICE_STAYS ? ZKL__FATE_DUPLICATE_STAYS : ZKL__FATE_KNOWN;
        return true;
    }
    if (c->state == ZKL__CREATING) {
        zkl__contender_move(c, ZKL__LISTING, "the lost create was applied: its double is removed");
    }
    c->node.removes_duplicate = true;
    zkl__contender_send_of_node(c, ZKL__ROLE_DELETE, ZKL__OP_DELETE, other);
    zkl__contender_send_list(c);
    return false;
}

bool zkl__node_in_list(struct zkl__contender *c)
{
    if (c->node.fate >= ZKL__FATE_TWICE) {
        return settle_twice(c);
    }
    bool shown = zkl__list_has(c->event->reply, c->core->index, c->node.name);
    if (!shown) {
        zkl__node_removed(c);
    }
    return shown;
}

void zkl__node_on_stat(struct zkl__contender *c)
{
    if (c->state == ZKL__REMOVING && zkl__node_unsure(&c->node)) {
        cleanup_on_stat(c);
        return;
    }
    if (!zkl__contender_waits(c) || c->node.czxid || !zkl__node_known(&c->node)) {
        return;
    }
    if (c->event->reply->rc == ZKL__RC_OK) {
        if (c->event->reply->stat.ephemeral_owner != c->core->session_id) {
            /* carries our uuid and is not ours: a forgery, and our own node is elsewhere, or gone
             */
            zkl__contender_queue_again(c, "the node with our uuid is a stranger's");
            return;
        }
        c->node.czxid = c->event->reply->stat.czxid;
    } else if (c->event->reply->rc == ZKL__RC_NONODE) {
        zkl__node_removed(c);
    } else if (c->event->reply->rc == ZKL__RC_NOAUTH) {
        zkl__contender_fail(
            c, ZKL_EAUTH, c->event->reply->zk_code,
            "its access list hides our own znode from us, and so the token: let us read it");
    } else {
        zkl__contender_fail_by_reply(c);
    }
}

/* Once for each path: who contends there has the same credentials the next time. */
static void warn_of_read(const struct zkl__contender *c)
{
    if (!c->path_stats->warned_of_read) {
        c->path_stats->warned_of_read = true;
        zkl__core_warn(c->core, c,
                       "READ on our own znode %s is missing: the lock is held, but a removal by "
                       "hand is noticed late, "
                       "and nobody sees who holds. Let the access list of what is created "
                       "(zkl_acl) give READ to us",
                       c->node.name);
    }
}

/* A node that we may not read is there all the same: the leader looks for the session, then for the
 * node, then at its access list (PrepRequestProcessor.pRequest2Txn, OpCode.check), so NOAUTH says
 * that both are there. */
void zkl__node_on_check(struct zkl__contender *c)
{
    enum zkl__rc rc = c->event->reply->rc;
    bool replacing = c->replacement.state != ZKL__REPLACING_NOT;
    if (rc == ZKL__RC_NOAUTH && c->event->role == ZKL__ROLE_BEAT && c->state == ZKL__HELD &&
        !replacing) {
        warn_of_read(c);
    }
    if (rc == ZKL__RC_NONODE && zkl__node_known(&c->node) && !replacing) {
        if (zkl__contender_is_first(c)) {
            zkl__node_removed(c);
        }
    } else if (c->state == ZKL__LINGERING) {
        zkl__linger_on_check(c);
    } else if (c->state == ZKL__PROVING && c->event->role == ZKL__ROLE_PROVE && rc != ZKL__RC_OK &&
               rc != ZKL__RC_NOAUTH) {
        c->grant.proved = false;
        zkl__contender_fail_by_reply(c);
    }
}

/* --- until none is left ---------------------------------------------------------------------- */

/* The list sent with the delete says what is left. */
static void node_on_duplicate(struct zkl__node *node, enum zkl__rc rc)
{
    if (zkl__rc_decides(rc) && rc != ZKL__RC_OK && rc != ZKL__RC_NONODE) {
        /* it stands behind us: it can wait until we go */
        node->fate = zkl__node_unsure(node) ? ZKL__FATE_TWICE_STAYS : ZKL__FATE_DUPLICATE_STAYS;
    }
    node->removes_duplicate = false;
}

/* The list came. True: it shows all znodes of ours that are left. */
static bool node_find(struct zkl__contender *c, const struct zkl__reply *list)
{
    const char *lowest = NULL, *other;
    bool tells = c->node.fate == ZKL__FATE_LISTED;
    if (tells) {
        c->node.fate = ZKL__FATE_UNKNOWN;
    }
    if (tells && list->rc == ZKL__RC_OK && !zkl__node_known(&c->node)) {
        zkl__list_mine(c, list, &lowest, &other);
    } else if (!tells || list->rc != ZKL__RC_NONODE) {
        return false;
    }
    if (lowest) {
        zkl__name_copy(c->node.name, lowest);
    } else {
        c->node.fate = ZKL__FATE_KNOWN;
    }
    return true;
}

/* === the directory of the queue =============================================================== */

/* The directory of the queue is missing: it is created, part by part. */
static void directory_missing(struct zkl__contender *c)
{
    c->make_path =
        c->make_path ? c->make_path : zkl__copy(c->heap, c->config.path, strlen(c->config.path));
    if (c->make_path) {
        memcpy(c->make_path, c->config.path, strlen(c->config.path) + 1);
        zkl__contender_move(c, ZKL__MAKING, "no such directory");
    } else {
        zkl__contender_fail(c, ZKL_ENOMEM, 0, "out of memory");
    }
}

void zkl__directory_send_create(struct zkl__contender *c)
{
    if (!(c->under_way & UNDER_WAY(ZKL__ROLE_MAKE))) {
        /* Servers delete an empty container, and the mark with it. */
        zkl__contender_send(
            c, ZKL__ROLE_MAKE,
            (struct zkl__op){.kind = ZKL__OP_CREATE,
                             .dir = c->make_path,
                             .mode = c->config.mark ? ZKL__PERSISTENT : ZKL__CONTAINER,
                             .acl = c->config.acl});
    }
}

void zkl__directory_on_reply(struct zkl__contender *c)
{
    if (c->state != ZKL__MAKING) {
        return;
    }
    if (c->event->reply->rc == ZKL__RC_NONODE) {
        if (!zkl__path_shorten(c->make_path)) {
            zkl__contender_fail(c, ZKL_ENOENT, c->event->reply->zk_code,
                                "the chroot of the connect string does not exist");
            return;
        }
    } else if (c->event->reply->rc == ZKL__RC_OK || c->event->reply->rc == ZKL__RC_NODEEXISTS) {
        if (!zkl__path_lengthen(c->make_path, c->config.path)) {
            zkl__free(c->heap, c->make_path);
            c->make_path = NULL;
            zkl__contender_move(c, ZKL__CREATING, "the directory is there");
        }
    } else {
        zkl__contender_fail_by_reply(c);
    }
}

/* === the weaker znode of a downgrade ========================================================== */

/* A downgrade: a znode of a weaker kind replaces ours and keeps its number. */

/* out has ZKL__NAME_MAX bytes. */
static void make_name(const struct zkl__contender *c, char *out)
{
    const char *uuid = c->node.prefix + strlen("_c_");
    zkl__name_with_number(out, uuid, c->replacement.rule->tag, c->replacement.sequence);
}

void zkl__replacement_on_downgrade(struct zkl__contender *c)
{
    ZKL__ENSURE((c->state == ZKL__HELD || c->state == ZKL__LOST) &&
                c->replacement.state == ZKL__REPLACING_NOT && !c->config.revocable);
    if (c->state == ZKL__LOST) {
        return; /* the lease ended between the owner's look and this step */
    }
    zkl__linger_disarm(c, "downgraded");
    zkl__own_watch_stop(c); /* the transaction uses the watch up */
    c->replacement.state = ZKL__REPLACING;
    c->replacement.rule = c->event->rule;
    c->replacement.sequence = zkl__name_sequence(c->node.name);
    char name[ZKL__NAME_MAX];
    make_name(c, name);
    zkl__core_trace(c->core, c, "downgrades to %s", name);
}

/* --- the transaction ------------------------------------------------------------------------- */

/* As Curator's downgrade, but in one transaction. It is sent again after a lost reply. The delete
 * is first, so each refusal has one reason: NONODE that our znode is deleted already, NODEEXISTS
 * that it is there and another znode has the new name. */
static void send_replace(struct zkl__contender *c)
{
    c->out->parts[0] = zkl__delete_op(c);
    c->out->parts[1] = zkl__create_op(c);
    c->out->parts[1].name = c->out->replacement;
    c->out->parts[1].mode = ZKL__EPHEMERAL;
    zkl__contender_send(
        c, ZKL__ROLE_REPLACE,
        (struct zkl__op){.kind = ZKL__OP_MULTI, .parts = c->out->parts, .part_count = 2});
}

void zkl__replacement_send(struct zkl__contender *c)
{
    if (c->replacement.state == ZKL__REPLACING_NOT ||
        (c->under_way & UNDER_WAY(ZKL__ROLE_REPLACE))) {
        return;
    }
    make_name(c, c->out->replacement);
    if (c->replacement.state == ZKL__REPLACED_OR_REMOVED) {
        zkl__contender_send_of_node(c, ZKL__ROLE_REPLACE, ZKL__OP_EXISTS, c->out->replacement);
    } else {
        send_replace(c);
    }
}

/* --- its reply ------------------------------------------------------------------------------- */

static void replacement_done(struct zkl__contender *c)
{
    make_name(c, c->node.name);
    c->replacement.state = ZKL__REPLACING_NOT;
    c->config.rule = c->replacement.rule;
    c->retry.pause = 0;
    if (c->state == ZKL__HELD) {
        zkl__contender_notify(c, ZKL__DOWNGRADED, ZKL_OK, 0, "downgraded");
    }
}

/* Somebody made a znode of that name by hand, for the name is no secret. We hold as what we were.
 */
static void replacement_refused(struct zkl__contender *c)
{
    c->replacement.state = ZKL__REPLACING_NOT;
    if (c->state == ZKL__HELD) {
        zkl__contender_notify(c, ZKL__NOT_DOWNGRADED, ZKL_ECONFLICT, 0,
                              "another znode has the name");
    }
}

static void replacement_lost(struct zkl__contender *c)
{
    c->replacement.state = ZKL__REPLACING_NOT;
    c->node.name[0] = '\0';
    if (c->state == ZKL__HELD) {
        zkl__node_removed(c);
    }
}

void zkl__replacement_on_reply(struct zkl__contender *c)
{
    struct zkl__replacement *replacement = &c->replacement;
    const struct zkl__reply *reply = c->event->reply;
    enum zkl__rc rc = reply->rc;
    bool stats = replacement->state == ZKL__REPLACED_OR_REMOVED;
    bool perhaps = replacement->state == ZKL__REPLACED_PERHAPS;
    bool another = stats && rc == ZKL__RC_OK && !zkl__is_own(&reply->stat, c->core->session_id);
    if (rc == ZKL__RC_NODEEXISTS) {
        replacement_refused(c);
    } else if (rc == ZKL__RC_NONODE && perhaps && c->state == ZKL__HELD) {
        replacement->state = ZKL__REPLACED_OR_REMOVED;
    } else if ((rc == ZKL__RC_NONODE && !perhaps) || another) {
        replacement_lost(c);
    } else if (rc == ZKL__RC_OK || (stats && rc == ZKL__RC_NOAUTH)) {
        replacement_done(c);
    } else if (c->state != ZKL__HELD) {
        if (rc == ZKL__RC_UNKNOWN || replacement->state != ZKL__REPLACING) {
            node_doubt(&c->node); /* then the list shows which of the two exists */
        }
        replacement->state = ZKL__REPLACING_NOT;
    } else if (rc != ZKL__RC_UNKNOWN) {
        zkl__contender_retry_later(c);
    } else if (!stats) {
        replacement->state = ZKL__REPLACED_PERHAPS;
    }
}

/* If it was sent and its reply is lost, there are two names to look for. */
void zkl__replacement_forget(struct zkl__contender *c)
{
    if (c->replacement.state != ZKL__REPLACING_NOT &&
        !(c->under_way & UNDER_WAY(ZKL__ROLE_REPLACE))) {
        node_doubt(&c->node);
        c->replacement.state = ZKL__REPLACING_NOT;
    }
}

/* === a holder's watch on its own znode ======================================================== */

void zkl__own_watch_stop(struct zkl__contender *c)
{
    if (c->watches[ZKL__WATCHED_OWN].entry.link) {
        c->out->watches[ZKL__WATCHED_OWN] = ZKL__WATCH_FORGET;
    }
    c->own.armed = false;
}

static void send_own_watch(struct zkl__contender *c)
{
    struct zkl__watch *watch = &c->watches[ZKL__WATCHED_OWN];
    if (c->own.armed || (c->under_way & UNDER_WAY(ZKL__ROLE_OWN_WATCH)) ||
        (!watch->entry.link &&
         !zkl__path_put(c->heap, &c->own.path, &c->own.room, c->config.path, c->node.name))) {
        return; /* no memory: with the next heartbeat's answer, or never */
    }
    watch->entry.path = c->own.path;
    c->out->watches[ZKL__WATCHED_OWN] = ZKL__WATCH_ON;
    zkl__contender_send(
        c, ZKL__ROLE_OWN_WATCH,
        (struct zkl__op){
            .kind = ZKL__OP_GET, .dir = c->config.path, .name = c->node.name, .watch = true});
}

/* --- while it is held ------------------------------------------------------------------------ */

void zkl__own_watch_hold(struct zkl__contender *c)
{
    c->own.guard = ZKL__GUARD_LATER;
    c->own.guard_at = zkl__core_guard_at(c->core);
}

void zkl__own_watch_on_time(struct zkl__contender *c)
{
    if (c->own.guard == ZKL__GUARD_LATER && c->own.guard_at <= c->core->now) {
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
        c->replacement.state == ZKL__REPLACING_NOT) {
        send_own_watch(c);
    }
}

/* Is that Curator's request? A write of anything else is none. */
static bool is_revoke_request(const struct zkl__contender *c, const struct zkl__reply *reply)
{
    return c->config.revocable && reply->size == sizeof ZKL__REVOKE - 1 &&
           memcmp(reply->data, ZKL__REVOKE, reply->size) == 0 && reply->stat.mzxid > c->own.revoked;
}

/* One transaction can delete our znode and create another one under its name. Only the owner tells
 * the two apart. */
static bool shows_another(const struct zkl__contender *c)
{
    const struct zkl__reply *reply = c->event->reply;
    return reply->rc == ZKL__RC_OK && !zkl__is_own(&reply->stat, c->core->session_id);
}

static void on_reply_while_held(struct zkl__contender *c)
{
    const struct zkl__reply *reply = c->event->reply;
    if (reply->rc == ZKL__RC_NONODE || shows_another(c)) {
        zkl__node_removed(c);
    } else if (reply->rc == ZKL__RC_OK) {
        if (is_revoke_request(c, reply)) {
            c->own.revoked = reply->stat.mzxid;
            zkl__contender_notify(c, ZKL__REVOKED, ZKL_OK, 0, "asked to release");
        }
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
        zkl__contender_retry_later(c);
    }
}

/* --- its events and replies ------------------------------------------------------------------- */

void zkl__own_watch_on_event(struct zkl__contender *c)
{
    c->own.armed = false;
    if (c->event->watch == ZKL__WATCH_DELETED && zkl__contender_keeps(c)) {
        zkl__node_removed(c);
    }
}

void zkl__own_watch_on_reply(struct zkl__contender *c)
{
    c->own.armed = c->event->reply->rc == ZKL__RC_OK && !shows_another(c) &&
                   c->watches[ZKL__WATCHED_OWN].entry.link; /* the event may have been here first */
    if (zkl__contender_keeps(c)) {
        on_reply_while_held(c);
    }
    if (shows_another(c)) {
        c->out->watches[ZKL__WATCHED_OWN] = ZKL__WATCH_OFF; /* our delete will not use it up */
    }
}

/* === the end, until no znode of ours is left ================================================== */

/* The end of a contender, until no znode of ours is left. One transaction deletes the
 * znode and writes the release mark. A search finds znodes that a create made whose response was
 * lost. */

/* A request under way may create a znode of ours. */
static bool may_yet_make(const struct zkl__contender *c)
{
    return c->under_way & (UNDER_WAY(ZKL__ROLE_CREATE) | UNDER_WAY(ZKL__ROLE_REPLACE));
}

bool zkl__cleanup_done(const struct zkl__contender *c)
{
    return !zkl__node_known(&c->node) && !zkl__node_unsure(&c->node) && !may_yet_make(c);
}

/* --- the transaction ------------------------------------------------------------------------- */

static void send_delete(struct zkl__contender *c)
{
    struct zkl__op remove = zkl__delete_op(c), *parts = c->out->parts;
    if (zkl__mark_due(c)) {
        parts[0] = (struct zkl__op){.kind = ZKL__OP_SET,
                                    .dir = c->config.path,
                                    .data = c->node.name,
                                    .size = strlen(c->node.name),
                                    .version = -1};
        parts[1] = remove;
        remove = (struct zkl__op){.kind = ZKL__OP_MULTI, .parts = parts, .part_count = 2};
    }
    zkl__contender_send(c, ZKL__ROLE_DELETE, remove);
}

/* A write is the one barrier that no server can skip, for it holds a session's reads back until the
 * write before them is committed (CommitProcessor, pendingRequests): what was sent before it is in
 * the list behind it, or nowhere. */
static void send_search(struct zkl__contender *c)
{
    c->node.fate = ZKL__FATE_UNKNOWN;
    zkl__contender_send(
        c, ZKL__ROLE_SYNC_POINT,
        (struct zkl__op){.kind = ZKL__OP_CHECK, .dir = c->config.path, .version = -1});
    zkl__contender_send_list(c);
}

void zkl__cleanup_advance(struct zkl__contender *c)
{
    const uint32_t busy = UNDER_WAY(ZKL__ROLE_CREATE) | UNDER_WAY(ZKL__ROLE_LIST) |
                          UNDER_WAY(ZKL__ROLE_DELETE) | UNDER_WAY(ZKL__ROLE_SYNC_POINT);
    if (may_yet_make(c) || c->grant.stay_until > c->core->now) {
        return;
    }
    if (zkl__node_known(&c->node)) {
        if (!zkl__peers_delete_waits(c) && !(c->under_way & UNDER_WAY(ZKL__ROLE_DELETE))) {
            send_delete(c);
        }
    } else if (zkl__node_unsure(&c->node) && !(c->under_way & busy)) {
        send_search(c);
    }
}

/* --- the replies ------------------------------------------------------------------------------ */

/* DELETE is a permission on the parent (PrepRequestProcessor, OpCode.delete: checkACL of the
 * parent's record). What may be another one's, as our uuid in a name of unknown fate, is not warned
 * of. */
static void warn_of_delete(const struct zkl__contender *c)
{
    if (!zkl__node_unsure(&c->node) && !c->path_stats->warned_of_delete) {
        c->path_stats->warned_of_delete = true;
        zkl__core_warn(
            c->core, c,
            "DELETE on the directory is missing: our znode %s cannot be removed, and keeps its "
            "place until "
            "the session ends. Give DELETE on the directory to those who contend there (setAcl)",
            c->node.name);
    }
}

/* The delete is sent again until the znode is deleted or the session is over. */
static void on_refused(struct zkl__contender *c)
{
    enum zkl__rc rc = c->event->reply->rc;
    if (rc == ZKL__RC_NOAUTH) {
        warn_of_delete(c);
        c->node.stays = true;
    }
    zkl__contender_retry_later(c);
    if (rc == ZKL__RC_NOAUTH && zkl__node_unsure(&c->node) &&
        !(c->under_way & UNDER_WAY(ZKL__ROLE_STAT))) {
        zkl__contender_send_of_node(c, ZKL__ROLE_STAT, ZKL__OP_EXISTS, c->node.name);
    }
}

void zkl__cleanup_on_reply(struct zkl__contender *c)
{
    enum zkl__rc rc = c->event->reply->rc;
    if (c->node.removes_duplicate) {
        node_on_duplicate(&c->node, rc);
    } else if (rc == ZKL__RC_OK || rc == ZKL__RC_NONODE) {
        c->node.name[0] = '\0';
        c->mark.state = ZKL__MARK_UNKNOWN;
        c->retry.pause = 0;
    } else if (!zkl__mark_refused(c, c->event->reply) && rc != ZKL__RC_UNKNOWN) {
        on_refused(c);
    }
}

/* We may not delete it: perhaps it only carries our uuid, and is somebody else's. Without memory to
 * note that, it is deleted and read again. */
static void cleanup_on_stat(struct zkl__contender *c)
{
    if (c->event->reply->rc == ZKL__RC_OK && zkl__node_known(&c->node) &&
        c->event->reply->stat.ephemeral_owner != c->core->session_id &&
        zkl__name_set_put(&c->node.strangers, c->heap, c->node.name, 0)) {
        c->node.name[0] = '\0';
        c->retry.at = 0;
    }
}

/* --- search for what is left ------------------------------------------------------------------ */

void zkl__cleanup_on_sync_point(struct zkl__contender *c)
{
    if (zkl__rc_decides(c->event->reply->rc)) {
        c->node.fate = zkl__node_unsure(&c->node) ? ZKL__FATE_LISTED : c->node.fate;
    } else if (c->event->reply->rc != ZKL__RC_UNKNOWN) {
        zkl__contender_retry_later(c);
    }
}

void zkl__cleanup_on_list(struct zkl__contender *c)
{
    enum zkl__rc rc = c->event->reply->rc;
    if (!node_find(c, c->event->reply) && rc != ZKL__RC_OK && rc != ZKL__RC_NONODE &&
        rc != ZKL__RC_UNKNOWN) {
        zkl__contender_retry_later(c);
    }
}
