#include "farewell.h"

#include "contender_moves.h"

#include "stats.h"

/* An operation under way may make a node of ours. */
static bool may_yet_make(const struct zkl__contender *c)
{
    return c->under_way & (UNDER_WAY(ZKL__ROLE_CREATE) | UNDER_WAY(ZKL__ROLE_SWAP));
}

bool zkl__farewell_done(const struct zkl__contender *c)
{
    return !zkl__node_known(&c->node) && !zkl__node_unsure(&c->node) && !may_yet_make(c);
}

/* --- the transaction ------------------------------------------------------------------------- */

static void ask_delete(struct zkl__contender *c)
{
    struct zkl__op remove = zkl__delete_op(c), *parts = c->out->parts;
    size_t count = 0;
    if (zkl__mark_due(c)) {
        parts[count++] = zkl__mark_op(c);
    }
    if (zkl__announcement_due(c)) {
        parts[count++] = zkl__announcement_op(c);
    }
    parts[count++] = remove;
    zkl__ask(c, ZKL__ROLE_DELETE,
             count == 1
                 ? remove
                 : (struct zkl__op){.kind = ZKL__OP_MULTI, .parts = parts, .part_count = count});
}

/* A write is the one barrier that no server can skip, for it holds a session's reads back until the
 * write before them is committed (CommitProcessor, pendingRequests): what was sent before it is in
 * the list behind it, or nowhere. */
static void ask_what_is_left(struct zkl__contender *c)
{
    zkl__node_search(&c->node);
    zkl__ask(c, ZKL__ROLE_BARRIER,
             (struct zkl__op){.kind = ZKL__OP_CHECK, .dir = c->config.path, .version = -1});
    zkl__ask_list(c);
}

void zkl__farewell_advance(struct zkl__contender *c)
{
    const uint32_t busy = UNDER_WAY(ZKL__ROLE_CREATE) | UNDER_WAY(ZKL__ROLE_LIST) |
                          UNDER_WAY(ZKL__ROLE_DELETE) | UNDER_WAY(ZKL__ROLE_BARRIER);
    if (may_yet_make(c) || zkl__grant_stays(&c->grant, c->event->now)) {
        return;
    }
    if (zkl__node_known(&c->node)) {
        if (!c->event->delete_waits && !(c->under_way & UNDER_WAY(ZKL__ROLE_DELETE))) {
            ask_delete(c);
        }
    } else if (zkl__node_unsure(&c->node) && !(c->under_way & busy)) {
        ask_what_is_left(c);
    }
}

/* --- its answers ----------------------------------------------------------------------------- */

/* DELETE is a permission on the parent (PrepRequestProcessor, OpCode.delete: checkACL of the
 * parent's record). What may be another one's, as our uuid in a name of unknown fate, is not warned
 * of. */
static void warn_of_delete(const struct zkl__contender *c)
{
    if (!zkl__node_unsure(&c->node) && !c->path_stats->told_delete) {
        c->path_stats->told_delete = true;
        zkl__core_warn(
            c->core, c,
            "DELETE on the directory is missing: our znode %s cannot be removed, and keeps its "
            "place until "
            "the session ends. Give DELETE on the directory to those who contend there (setAcl)",
            zkl__node_name(&c->node));
    }
}

/* Never forgotten: until it is gone, or the session is. */
static void on_refused(struct zkl__contender *c)
{
    enum zkl__rc rc = c->event->reply->rc;
    if (rc == ZKL__RC_NOAUTH) {
        warn_of_delete(c);
        zkl__node_keep(&c->node);
    }
    zkl__contender_put_off(c);
    if (rc == ZKL__RC_NOAUTH && zkl__node_unsure(&c->node) &&
        !(c->under_way & UNDER_WAY(ZKL__ROLE_STAT))) {
        zkl__ask_node(c, ZKL__ROLE_STAT, ZKL__OP_EXISTS, zkl__node_name(&c->node));
    }
}

void zkl__farewell_on_reply(struct zkl__contender *c)
{
    enum zkl__rc rc = c->event->reply->rc;
    if (zkl__node_removes_duplicate(&c->node)) {
        zkl__node_on_duplicate(&c->node, rc);
    } else if (rc == ZKL__RC_OK || rc == ZKL__RC_NONODE) {
        zkl__node_gone(&c->node);
        zkl__announcement_made(c);
        zkl__mark_written(c);
        c->retry.pause = 0;
    } else if (!zkl__mark_refused(c, c->event->reply) && rc != ZKL__RC_UNKNOWN &&
               !zkl__announcement_refused(c, rc)) {
        on_refused(c);
    }
}

/* We may not delete it: because it only carries our uuid, and is somebody else's? */
void zkl__farewell_on_stat(struct zkl__contender *c)
{
    if (c->event->reply->rc == ZKL__RC_OK && zkl__node_known(&c->node) &&
        c->event->reply->stat.ephemeral_owner != c->event->session_id && zkl__node_is_strange(c)) {
        c->retry.at = 0;
    }
}

/* --- what is left ---------------------------------------------------------------------------- */

void zkl__farewell_on_barrier(struct zkl__contender *c)
{
    bool passed =
        zkl__rc_answered(c->event->reply->rc) && c->event->reply->rc != ZKL__RC_NOTAPPLIED;
    if (passed) {
        zkl__node_found_by_list(&c->node);
    } else if (c->event->reply->rc != ZKL__RC_UNKNOWN) {
        zkl__contender_put_off(c);
    }
}

void zkl__farewell_on_list(struct zkl__contender *c)
{
    enum zkl__rc rc = c->event->reply->rc;
    if (!zkl__node_find(c, c->event->reply) && rc != ZKL__RC_OK && rc != ZKL__RC_NONODE &&
        rc != ZKL__RC_UNKNOWN) {
        zkl__contender_put_off(c);
    }
}
