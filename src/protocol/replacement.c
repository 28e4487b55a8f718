#include "contender_moves.h"

#include <string.h>

/* out has ZKL__NAME_MAX bytes. */
static void make_name(const struct zkl__contender *c, char *out)
{
    zkl__name_with_number(out, zkl__node_uuid(&c->node), c->config.rule->tag,
                          c->replacement.sequence);
}

void zkl__replacement_on_downgrade(struct zkl__contender *c)
{
    ZKL__ENSURE((c->state == ZKL__HELD || c->state == ZKL__LOST) &&
                !zkl__replacing(&c->replacement) && !c->config.revocable);
    if (c->state == ZKL__LOST) {
        return; /* the lease ended between the owner's look and this step */
    }
    c->config.rule = c->event->rule;
    zkl__linger_disarm(c, "downgraded");
    zkl__own_watch_stop(c); /* the transaction uses the watch up */
    c->replacement.state = ZKL__REPLACING;
    c->replacement.sequence = zkl__name_sequence(zkl__node_name(&c->node));
    char name[ZKL__NAME_MAX];
    make_name(c, name);
    zkl__core_trace(c->core, c, "downgrades to %s", name);
}

/* As Curator's downgrade, but in one transaction. Sent again after a lost reply: that the new node
 * exists already is as good as success. */
void zkl__replacement_ask(struct zkl__contender *c)
{
    if (zkl__replacing(&c->replacement) && !(c->under_way & UNDER_WAY(ZKL__ROLE_SWAP))) {
        make_name(c, c->out->replacement);
        c->out->parts[0] = (struct zkl__op){.kind = ZKL__OP_CREATE,
                                            .dir = c->config.path,
                                            .name = c->out->replacement,
                                            .data = c->config.metadata,
                                            .size = strlen(c->config.metadata),
                                            .mode = ZKL__EPHEMERAL,
                                            .acl = c->config.acl};
        c->out->parts[1] = zkl__delete_op(c);
        zkl__ask(c, ZKL__ROLE_SWAP,
                 (struct zkl__op){.kind = ZKL__OP_MULTI, .parts = c->out->parts, .part_count = 2});
    }
}

void zkl__replacement_on_reply(struct zkl__contender *c)
{
    struct zkl__replacement *replacement = &c->replacement;
    enum zkl__rc rc = c->event->reply->rc;
    if (rc == ZKL__RC_NODEEXISTS && replacement->state != ZKL__REPLACED_PERHAPS) {
        /* somebody made it by hand, for the name is no secret: we hold as what we were */
        replacement->state = ZKL__REPLACING_NOT;
    } else if (rc == ZKL__RC_OK || rc == ZKL__RC_NODEEXISTS) {
        char name[ZKL__NAME_MAX];
        make_name(c, name);
        zkl__node_replaced(&c->node, name);
        replacement->state = ZKL__REPLACING_NOT;
        c->retry.pause = 0;
        if (c->state == ZKL__HELD) {
            zkl__contender_tell(c, ZKL__DOWNGRADED, ZKL_OK, 0, "downgraded");
        }
    } else if (rc == ZKL__RC_NONODE) {
        replacement->state = ZKL__REPLACING_NOT;
        zkl__node_gone(&c->node);
        if (c->state == ZKL__HELD) {
            zkl__node_removed(c);
        }
    } else if (c->state != ZKL__HELD) {
        if (rc == ZKL__RC_UNKNOWN || replacement->state == ZKL__REPLACED_PERHAPS) {
            zkl__node_doubt(&c->node); /* then the list tells which of the two is there */
        }
        replacement->state = ZKL__REPLACING_NOT;
    } else if (rc == ZKL__RC_UNKNOWN) {
        replacement->state = ZKL__REPLACED_PERHAPS;
    } else {
        zkl__contender_put_off(c);
    }
}

/* One that was sent and lost its answer leaves two names to look for. */
void zkl__replacement_forget(struct zkl__contender *c)
{
    if (zkl__replacing(&c->replacement) && !(c->under_way & UNDER_WAY(ZKL__ROLE_SWAP))) {
        zkl__node_doubt(&c->node);
        c->replacement.state = ZKL__REPLACING_NOT;
    }
}
