#include "contender_moves.h"

#include <string.h>

void zkl__replacement_on_downgrade(struct zkl__contender *c, const struct zkl__contender_event *ev,
                                   struct zkl__contender_actions *out)
{
    ZKL__ENSURE((c->state == ZKL__HELD || c->state == ZKL__LOST) &&
                !zkl__replacing(&c->replacement) && !c->config.revocable);
    if (c->state == ZKL__LOST) {
        return; /* the lease ended between the owner's look and this step */
    }
    c->config.rule = ev->rule;
    zkl__linger_disarm(c, "downgraded");
    zkl__own_watch_stop(c, out); /* the transaction uses the watch up */
    zkl__name_with_number(c->replacement.name, zkl__node_uuid(&c->node), ev->rule->tag,
                          zkl__name_parse(zkl__node_name(&c->node)).sequence);
    zkl__core_trace(c->core, c, "downgrades to %s", c->replacement.name);
    zkl__contender_advance(c, ev, out);
}

/* As Curator's downgrade, but in one transaction. Sent again after a lost reply: that the new node
 * exists already is as good as success. */
void zkl__replacement_ask(struct zkl__contender *c, struct zkl__contender_actions *out)
{
    if (zkl__replacing(&c->replacement) && !(c->under_way & UNDER_WAY(ZKL__ROLE_SWAP))) {
        struct zkl__op create = {.kind = ZKL__OP_CREATE,
                                 .dir = c->config.path,
                                 .name = c->replacement.name,
                                 .data = c->config.metadata,
                                 .size = strlen(c->config.metadata),
                                 .mode = ZKL__EPHEMERAL,
                                 .acl = c->config.acl};
        zkl__ask_two(c, out, ZKL__ROLE_SWAP, create, zkl__delete_op(c));
    }
}

void zkl__replacement_on_reply(struct zkl__contender *c, const struct zkl__contender_event *ev,
                               struct zkl__contender_actions *out)
{
    struct zkl__replacement *replacement = &c->replacement;
    enum zkl__rc rc = ev->reply->rc;
    if (rc == ZKL__RC_NODEEXISTS && replacement->state != ZKL__REPLACED_PERHAPS) {
        replacement->name[0] =
            '\0'; /* somebody made it by hand, for the name is no secret: we hold as what we were */
    } else if (rc == ZKL__RC_OK || rc == ZKL__RC_NODEEXISTS) {
        zkl__node_replaced(&c->node, replacement->name);
        replacement->name[0] = '\0';
        c->retry.pause = 0;
        if (c->state == ZKL__HELD) {
            zkl__contender_tell(out, ev->now, ZKL__DOWNGRADED, ZKL_OK, 0, "downgraded");
        }
    } else if (rc == ZKL__RC_NONODE) {
        replacement->name[0] = '\0';
        zkl__node_gone(&c->node);
        if (c->state == ZKL__HELD) {
            zkl__node_removed(c, ev, out);
        }
    } else if (c->state != ZKL__HELD) {
        replacement->name[0] = '\0';
        if (rc == ZKL__RC_UNKNOWN || replacement->state == ZKL__REPLACED_PERHAPS) {
            zkl__node_doubt(&c->node); /* then the list tells which of the two is there */
        }
    } else if (rc != ZKL__RC_UNKNOWN) {
        zkl__contender_put_off(c, ev->now);
    }
    if (!zkl__replacing(replacement)) {
        replacement->state = ZKL__REPLACING;
    } else if (rc == ZKL__RC_UNKNOWN) {
        replacement->state = ZKL__REPLACED_PERHAPS;
    }
    zkl__contender_advance(c, ev, out);
}

/* One that was sent and lost its answer leaves two names to look for. */
void zkl__replacement_forget(struct zkl__contender *c)
{
    if (zkl__replacing(&c->replacement) && !(c->under_way & UNDER_WAY(ZKL__ROLE_SWAP))) {
        zkl__node_doubt(&c->node);
        c->replacement.name[0] = '\0';
    }
}
