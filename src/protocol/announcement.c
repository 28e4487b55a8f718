#include "contender_moves.h"

#include "lease.h"
#include "queue_list.h"

#define LIE "somebody is before us: a release was announced that was none"
#define BLOCK 8 /* sequence numbers that one forged announcement reaches, and the next one */

/* --- our own --------------------------------------------------------------------------------- */

bool zkl__announcement_seals(const struct zkl__contender *c)
{
    return c->config.announces && !c->config.revocable && !c->config.acl && !c->joint &&
           c->config.rule->waits_for == ZKL__KIND_ANY && zkl__core_seals(c->core);
}

void zkl__announcement_expect(struct zkl__contender *c)
{
    c->announcement.state = ZKL__ANNOUNCES_PERHAPS;
}

bool zkl__announcement_expected(const struct zkl__contender *c)
{
    return c->announcement.state != ZKL__ANNOUNCES_NOT;
}

/* Its followers here are told without the server. */
void zkl__announcement_release(struct zkl__contender *c)
{
    if (zkl__grant_hands_over(&c->grant) && zkl__node_sealed(&c->node) &&
        zkl__announcement_expected(c) && zkl__announcement_relied_on(c) &&
        !zkl__local_followed(&c->local)) {
        c->announcement.state = ZKL__ANNOUNCES;
    }
}

bool zkl__announcement_due(const struct zkl__contender *c)
{
    return c->announcement.state == ZKL__ANNOUNCES && !zkl__local_handed(&c->local);
}

/* Version 0: nobody, we included, has written our node before (PrepRequestProcessor,
 * checkAndIncVersion). */
struct zkl__op zkl__announcement_op(const struct zkl__contender *c)
{
    return (struct zkl__op){
        .kind = ZKL__OP_SET, .dir = c->config.path, .name = zkl__node_name(&c->node), .version = 0};
}

void zkl__announcement_made(struct zkl__contender *c)
{
    c->announcement.state = ZKL__ANNOUNCES_NOT;
}

bool zkl__announcement_refused(struct zkl__contender *c, enum zkl__rc rc)
{
    if (c->announcement.state != ZKL__ANNOUNCES || rc == ZKL__RC_UNKNOWN ||
        rc == ZKL__RC_NOTAPPLIED || rc == ZKL__RC_UNSENT) {
        return false;
    }
    c->announcement.state = ZKL__ANNOUNCES_NOT; /* it may not be written: then it just goes */
    if (rc == ZKL__RC_NOAUTH) {
        zkl__core_seal_off(c->core);
    }
    return true;
}

/* --- the predecessor's ----------------------------------------------------------------------- */

/* The word of one that held, and that waited for everybody before it. */
bool zkl__announcement_believed(const struct zkl__contender *c, const char *predecessor)
{
    zkl_kind kind = zkl__name_parse(predecessor).kind;
    return (kind == ZKL_KIND_LOCK || kind == ZKL_KIND_WRITE) && zkl__name_sealed(predecessor) &&
           zkl__core_seals(c->core) && !c->joint;
}

static enum zkl__evidence evidence_behind(const struct zkl__contender *c, const char *predecessor)
{
    uint32_t before = (uint32_t)zkl__name_sequence(predecessor);
    uint32_t own = (uint32_t)zkl__name_sequence(zkl__node_name(&c->node));
    return before / BLOCK == own / BLOCK ? ZKL__EVIDENCE_ANNOUNCEMENT : ZKL__EVIDENCE_AT_BORDER;
}

/* Our own watch would have fired before: "watches are ordered with respect to other events" (What
 * ZooKeeper Guarantees about Watches, in the Programmer's Guide). */
void zkl__announcement_heard(struct zkl__contender *c)
{
    c->announcement.evidence = evidence_behind(c, zkl__predecessor_name(c));
    c->shown_at = c->event->now;
    zkl__grant_prove(c, "who was before us announces its release");
}

void zkl__announcement_handed_on(struct zkl__contender *c, const struct zkl__contender *ahead)
{
    if (ahead->announcement.evidence != ZKL__EVIDENCE_LIST) {
        c->announcement.evidence = evidence_behind(c, zkl__node_name(&ahead->node));
    }
}

bool zkl__announcement_relied_on(const struct zkl__contender *c)
{
    return c->announcement.evidence != ZKL__EVIDENCE_AT_BORDER;
}

bool zkl__announcement_is_listed(const struct zkl__contender *c)
{
    return c->announcement.evidence == ZKL__EVIDENCE_LIST;
}

void zkl__announcement_listed(struct zkl__contender *c)
{
    c->announcement.evidence = ZKL__EVIDENCE_LIST;
}

/* --- while it is held ------------------------------------------------------------------------ */

static void check_later(struct zkl__contender *c)
{
    c->announcement.look_at = c->event->now + zkl__lease_heartbeat(zkl__core_timeout(c->core));
}

int64_t zkl__announcement_wake(const struct zkl__contender *c)
{
    return c->announcement.look_at ? c->announcement.look_at : INT64_MAX;
}

void zkl__announcement_on_time(struct zkl__contender *c)
{
    if (zkl__announcement_wake(c) > c->event->now) {
        return;
    }
    if (c->event->connected) {
        c->announcement.look_at = 0;
        if (!(c->under_way & UNDER_WAY(ZKL__ROLE_LIST))) { /* else one of linger.c's */
            zkl__ask_list(c);
        }
    } else {
        check_later(c);
    }
}

void zkl__announcement_hold(struct zkl__contender *c)
{
    if (c->announcement.evidence != ZKL__EVIDENCE_LIST) {
        check_later(c);
    }
    if (c->announcement.evidence == ZKL__EVIDENCE_AT_BORDER) {
        c->announcement.look_at = c->event->now;
        zkl__announcement_on_time(c);
    }
}

void zkl__announcement_on_list(struct zkl__contender *c)
{
    const char *before = c->event->reply->rc == ZKL__RC_OK
                             ? zkl__list_blocker(c, c->event->reply, c->event->index)
                             : NULL;
    if (before && zkl__suspected(c) && zkl__inspection_begin(c)) {
        zkl__inspection_go_on(c);
        c->out->inspect = true;
    } else if (c->event->reply->rc != ZKL__RC_OK || (before && !zkl__predecessor_set(c, before))) {
        check_later(c);
    } else if (before) {
        zkl__ask_node(c, ZKL__ROLE_WATCH, ZKL__OP_EXISTS, zkl__predecessor_name(c));
    } else {
        zkl__announcement_listed(c);
    }
}

void zkl__announcement_on_inspected(struct zkl__contender *c)
{
    bool seen = false;
    const char *nearest = zkl__inspection_nearest(c, &seen);
    zkl__inspection_pause(c);
    if (!nearest && !zkl__inspection_stale(c)) {
        zkl__announcement_listed(c);
    } else if (zkl__inspection_broken(c)) {
        check_later(c);
    } else if (zkl__inspection_stale(c)) {
        zkl__suspect(c, true);
        zkl__ask_list(c);
    } else if (seen) {
        zkl__grant_lose(c, LIE);
        return;
    } else {
        zkl__inspection_go_on(c);
        c->out->inspect = true;
        return;
    }
    zkl__inspection_drop(c);
}

void zkl__announcement_on_predecessor(struct zkl__contender *c)
{
    const char *name = zkl__predecessor_name(c);
    enum zkl__rc rc = c->event->reply->rc;
    bool forged = rc == ZKL__RC_OK && zkl__list_forged(c, name, &c->event->reply->stat);
    zkl__suspect(c, forged);
    if ((rc == ZKL__RC_OK && !forged) || rc == ZKL__RC_NOAUTH) {
        zkl__grant_lose(c, LIE);
    } else if (rc == ZKL__RC_NONODE ||
               (forged && zkl__list_pass_over(c, name, &c->event->reply->stat))) {
        zkl__ask_list(c);
    } else {
        check_later(c);
    }
}
