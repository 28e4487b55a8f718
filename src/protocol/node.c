#include "contender_moves.h"

#include "farewell.h"
#include "local_queue.h"
#include "queue_list.h"
#include "stats.h"

#include <string.h>

/* --- what is known of it --------------------------------------------------------------------- */

void zkl__node_new_attempt(struct zkl__contender *c)
{
    struct zkl__node *node = &c->node;
    zkl__core_uuid(c->core, node->uuid);
    node->name[0] = '\0';
    node->removes_duplicate = false;
    node->czxid = 0;
    node->fate = ZKL__FATE_KNOWN;
    node->stays = false;
}

void zkl__node_doubt(struct zkl__node *node)
{
    node->fate = zkl__node_unsure(node) ? node->fate : ZKL__FATE_UNKNOWN;
}

void zkl__node_keep(struct zkl__node *node)
{
    node->stays = true;
}

void zkl__node_gone(struct zkl__node *node)
{
    node->name[0] = '\0';
}

void zkl__node_replaced(struct zkl__node *node, const char *name)
{
    zkl__name_copy(node->name, name);
}

void zkl__node_free(struct zkl__contender *c)
{
    zkl__name_set_clear(&c->node.strangers, c->heap);
}

void zkl__node_on_connected(struct zkl__node *node)
{
    node->removes_duplicate = false;
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

/* --- what it is made and deleted by ---------------------------------------------------------- */

struct zkl__op zkl__create_op(const struct zkl__contender *c)
{
    return (struct zkl__op){.kind = ZKL__OP_CREATE,
                            .dir = c->config.path,
                            .name = c->node.prefix,
                            .data = c->config.metadata,
                            .size = strlen(c->config.metadata),
                            .mode = ZKL__EPHEMERAL_SEQUENTIAL,
                            .acl = c->node.sealed ? zkl__core_seal(c->core) : c->config.acl};
}

struct zkl__op zkl__delete_op(const struct zkl__contender *c)
{
    return (struct zkl__op){
        .kind = ZKL__OP_DELETE, .dir = c->config.path, .name = c->node.name, .version = -1};
}

/* Now, not when the attempt began: the session it is made in may have another identity, or none. */
static void name_place(struct zkl__contender *c)
{
    c->node.sealed = zkl__announcement_seals(c);
    if (c->node.sealed) {
        zkl__uuid_seal(c->node.uuid);
    }
    zkl__name_prefix(c->node.prefix, c->node.uuid, c->config.rule->tag);
}

/* Who waits for nobody needs the list only to find what it sent twice: that its node is there, the
 * create's answer says. */
void zkl__node_ask(struct zkl__contender *c)
{
    if (c->state == ZKL__NEW) {
        name_place(c);
        zkl__contender_move(c, ZKL__CREATING, "asks for a place and the list together");
    } else if (zkl__node_unsure(&c->node)) {
        c->node.fate = ZKL__FATE_TWICE;
    }
    zkl__mark_ask(c); /* before the create: release_mark.h */
    zkl__ask(c, ZKL__ROLE_CREATE, zkl__create_op(c));
    if (zkl__node_twice(&c->node) || (c->config.rule->waits_for && !zkl__local_spares_list(c))) {
        zkl__ask_list(c);
    }
}

void zkl__node_ask_czxid(struct zkl__contender *c)
{
    if (zkl__node_known(&c->node) && !c->node.czxid && !zkl__node_unsure(&c->node) &&
        !(c->under_way & UNDER_WAY(ZKL__ROLE_STAT))) {
        zkl__ask_node(c, ZKL__ROLE_STAT, ZKL__OP_EXISTS, c->node.name);
    }
}

/* --- the answer to its create ---------------------------------------------------------------- */

/* Our prefix and a number. A damaged reply may have no name, an empty one, or another's. */
static bool is_created_name(const struct zkl__contender *c, const char *name)
{
    size_t length = strlen(c->node.prefix);
    return name && strncmp(name, c->node.prefix, length) == 0 && name[length] &&
           strlen(name) < ZKL__NAME_MAX;
}

/* The server refused this copy of the create, and says nothing of an earlier one whose answer was
 * lost: that may have been applied, by a server that took the seal. So the uuid stays, and the list
 * behind the next create shows what carries it. */
static void create_unsealed(struct zkl__contender *c)
{
    c->node.sealed = false;
    zkl__uuid_unseal(c->node.uuid);
    zkl__name_prefix(c->node.prefix, c->node.uuid, c->config.rule->tag);
    zkl__core_trace(c->core, c, "the servers take no seal: again without one");
}

/* What it says of the node. False: there is none by a name that we could use. */
static bool note_create(struct zkl__contender *c, const struct zkl__reply *reply)
{
    if (reply->rc == ZKL__RC_OK && !is_created_name(c, reply->name)) {
        zkl__node_doubt(&c->node); /* whether there is one, the list shows */
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
        zkl__node_doubt(&c->node);
        zkl__core_trace(c->core, c, "fate of the create unknown");
    } else if (reply->rc == ZKL__RC_NONODE && zkl__node_unsure(&c->node)) {
        c->node.fate = ZKL__FATE_KNOWN; /* no directory: no earlier copy in it either */
    }
    return true;
}

static void list(struct zkl__contender *c)
{
    zkl__contender_move(c, ZKL__LISTING, "we have a place, but no list");
}

void zkl__node_on_create(struct zkl__contender *c)
{
    const struct zkl__reply *reply = c->event->reply;
    const char *before;
    if (!note_create(c, reply)) {
        zkl__contender_put_off(c);
    } else if (c->state != ZKL__CREATING) {
        return; /* not wanted any more */
    } else if (reply->rc == ZKL__RC_NONODE) {
        zkl__directory_missing(c);
    } else if (reply->rc == ZKL__RC_INVALIDACL && c->node.sealed) {
        zkl__core_seal_off(c->core); /* no digest scheme there (PrepRequestProcessor, fixupACL): as
                                        the others do it */
        create_unsealed(c);
    } else if (reply->rc != ZKL__RC_OK) {
        zkl__contender_fail_by_reply(c);
    } else if (c->under_way & UNDER_WAY(ZKL__ROLE_LIST)) {
        return; /* which shows who is before us */
    } else if (zkl__sequence_used_up(zkl__name_sequence(c->node.name)) ||
               zkl__node_twice(&c->node)) {
        list(c);
    } else if (!c->config.rule->waits_for) {
        zkl__predecessor_none(c);
    } else if ((before = zkl__local_neighbour(c))) {
        zkl__predecessor_wait_for(c, before);
    } else {
        list(c);
    }
}

/* --- what shows it later --------------------------------------------------------------------- */

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
    zkl__ask_node(c, ZKL__ROLE_DELETE, ZKL__OP_DELETE, other);
    zkl__ask_list(c);
    return false;
}

bool zkl__node_in_list(struct zkl__contender *c)
{
    if (zkl__node_twice(&c->node)) {
        return settle_twice(c);
    }
    bool shown = zkl__list_has(c->event->reply, c->event->index, c->node.name);
    if (!shown) {
        zkl__node_removed(c);
    }
    return shown;
}

void zkl__node_on_stat(struct zkl__contender *c)
{
    if (c->state == ZKL__REMOVING && zkl__node_unsure(&c->node)) {
        zkl__farewell_on_stat(c);
        return;
    }
    if (!zkl__contender_waits(c) || c->node.czxid || !zkl__node_known(&c->node)) {
        return;
    }
    if (c->event->reply->rc == ZKL__RC_OK) {
        if (c->event->reply->stat.ephemeral_owner != c->event->session_id) {
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
    if (!c->path_stats->told_read) {
        c->path_stats->told_read = true;
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
    bool replacing = zkl__replacing(&c->replacement);
    if (rc == ZKL__RC_NOAUTH && c->event->role == ZKL__ROLE_BEAT && c->state == ZKL__HELD &&
        !replacing) {
        warn_of_read(c);
    }
    if (rc == ZKL__RC_NONODE && zkl__node_known(&c->node) && !replacing) {
        if (zkl__contender_keeps(c) || c->state == ZKL__PROVING) {
            zkl__node_removed(c);
        }
    } else if (c->state == ZKL__LINGERING) {
        zkl__linger_on_check(c);
    } else if (c->state == ZKL__PROVING && c->event->role == ZKL__ROLE_PROVE && rc != ZKL__RC_OK &&
               rc != ZKL__RC_NOAUTH) {
        zkl__grant_unproved(c);
        zkl__contender_fail_by_reply(c);
    }
}

/* --- until none is left ---------------------------------------------------------------------- */

/* The list sent with the delete says what is left. */
void zkl__node_on_duplicate(struct zkl__node *node, enum zkl__rc rc)
{
    if (zkl__rc_answered(rc) && rc != ZKL__RC_OK && rc != ZKL__RC_NONODE &&
        rc != ZKL__RC_NOTAPPLIED) {
        /* it stands behind us: it can wait until we go */
        node->fate = zkl__node_unsure(node) ? ZKL__FATE_TWICE_STAYS : ZKL__FATE_DUPLICATE_STAYS;
    }
    node->removes_duplicate = false;
}

bool zkl__node_is_strange(struct zkl__contender *c)
{
    bool noted = zkl__name_set_add(&c->node.strangers, c->heap, c->node.name);
    if (noted) {
        zkl__node_gone(&c->node);
    }
    return noted;
}

void zkl__node_search(struct zkl__node *node)
{
    node->fate = ZKL__FATE_UNKNOWN;
}

void zkl__node_found_by_list(struct zkl__node *node)
{
    if (zkl__node_unsure(node)) {
        node->fate = ZKL__FATE_LISTED;
    }
}

bool zkl__node_find(struct zkl__contender *c, const struct zkl__reply *list)
{
    const char *lowest = NULL, *other;
    bool tells = c->node.fate == ZKL__FATE_LISTED;
    if (tells) {
        zkl__node_search(&c->node);
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
