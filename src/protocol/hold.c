/* hold.c - a lock while it is held: the grant and the mark of a release. */

#include "core_internal.h"
#include "lease.h"

#include <string.h>

/* === the mark of a release ==================================================================== */

/* Config.mark: whether the last holder released, for the options recover and
 * delay_after_crash_ms.
 *
 * Writing. A holder that releases deletes its znode and, in the same transaction, writes the name
 * of this znode into the data of the directory. Nothing is written at a grant. So the mark is there
 * exactly when the release was done. If the reply is lost, the transaction is sent again, and finds
 * the znode gone or does both. Every other end leaves no mark: a crash, also between two grants of
 * one session, an expired session, a removal by hand, a release after a loss, and a hold that was
 * longer than config.max_hold. A duplicate of the znode is deleted without a mark, because a later
 * holder may have ended since. Two contenders differ:
 *  - A contender that gives up while it is first writes the mark, too, if it knows that the last
 *    holder released. Otherwise no grant has reported the crash yet, and it writes none.
 *  - A holder that hands over inside its session writes none. Its follower holds while the holder's
 *    znode still stands, and somebody may remove the follower's by hand before that one is deleted.
 *    The mark of the follower's own release counts for both. A holder whose delete is under
 *    way with the mark hands over to nobody.
 *
 * Reading. A grant reports the unclean end of the last holder, or rests on its mark. So each mark
 * covers all holders before it. A contender concludes that the last holder released if one of these
 * is true:
 *  - The mark names the contender that was right before ours: a list has shown it there, and its
 *    znode was read after that. So nobody between the two was in the queue then or is later, and
 *    nobody between them held before, for that one stood.
 *  - The mark names the number right before ours, if no list has shown us anybody.
 *  - Our number is 0: nobody was before us in this directory.
 *  - The directory was read before our create: it had no children, and the last change of them was
 *    in the transaction that wrote the data last (pzxid, mzxid), which was a release or the create
 *    of the directory; and our number is the next one that the counter gave then (the number of
 *    creates of children: PrepRequestProcessor, pRequest2TxnCreate). So nobody queued in between.
 *    This one is for contenders that came and left while another one held.
 *  - The predecessor hands over in this session, and config.mark is set for it as well.
 *
 * Otherwise the grant is unclean, after config.delay. A contender concludes this only from a read
 * that was sent after the list that shows it first. An earlier one may be older than the release.
 * The delay begins with that read.
 *
 * Missing evidence means unclean. So these ends look like a crash, though they are none: of a
 * waiter that ends between the release of its predecessor and its own grant, of a session that ends
 * while its lock lingers or stays for config.least, of a holder without config.mark or of another
 * library, and of a holder that may not write the directory. So does whatever was in the directory
 * before the first use of config.mark. Contenders with and without a delay read and write the same
 * mark: a contender without one reports a crash immediately, and after its release nobody waits. */

/* --- the evidence ---------------------------------------------------------------------------- */

void zkl__mark_behind(struct zkl__contender *c, const char *name)
{
    if (c->config.mark) {
        c->mark.state = ZKL__MARK_UNKNOWN;
        c->mark.before = zkl__name_sequence(name);
    }
}

void zkl__mark_clean(struct zkl__contender *c)
{
    c->mark.state = c->config.mark ? ZKL__MARK_CLEAN : ZKL__MARK_UNKNOWN;
}

static bool is_clean(const struct zkl__contender *c)
{
    const struct zkl__release_mark *mark = &c->mark;
    int32_t own = zkl__name_sequence(c->node.name);
    if (mark->state != ZKL__MARK_UNKNOWN || !zkl__node_known(&c->node)) {
        return mark->state == ZKL__MARK_CLEAN;
    }
    if (mark->before >= 0) {
        return mark->released == mark->before;
    }
    return own == 0 || mark->released == own - 1 || mark->next == own;
}

void zkl__mark_send_read(struct zkl__contender *c)
{
    if (c->config.mark && c->mark.state == ZKL__MARK_UNKNOWN &&
        !(c->under_way & UNDER_WAY(ZKL__ROLE_READ))) {
        zkl__contender_send(c, ZKL__ROLE_READ,
                            (struct zkl__op){.kind = ZKL__OP_GET, .dir = c->config.path});
    }
}

/* The name of a contender, and nothing else; -1: it is none. */
static int32_t number_in(const struct zkl__reply *reply)
{
    char name[ZKL__NAME_LONGEST + 1];
    if (reply->size == 0 || reply->size > ZKL__NAME_LONGEST) {
        return -1;
    }
    memcpy(name, reply->data, reply->size);
    name[reply->size] = '\0';
    return strlen(name) == reply->size && zkl__name_contends(name) ? zkl__name_sequence(name) : -1;
}

static void note_mark(struct zkl__release_mark *mark, const struct zkl__reply *reply)
{
    const struct zkl__stat *stat = &reply->stat;
    bool rests = stat->child_count == 0 && stat->pzxid == stat->mzxid;
    mark->released = number_in(reply);
    /* "cversion" counts creates and deletes (DataNode.copyStat): without children, half of each. */
    mark->next = rests ? (int32_t)((uint32_t)stat->cversion / 2) : mark->next;
}

static void conclude_unclean(struct zkl__contender *c)
{
    bool delays = c->config.delay > 0;
    if (delays && c->try_only) {
        zkl__contender_fail(c, ZKL_EBUSY, 0,
                            "the last holder did not release, and delay_after_crash_ms begins");
        return;
    }
    c->mark.state = delays ? ZKL__MARK_DELAYS : ZKL__MARK_UNCLEAN;
    c->mark.until = c->core->now + c->config.delay;
    zkl__core_trace(c->core, c, "first, behind one that did not release%s",
                    delays ? ": it waits" : "");
}

void zkl__mark_on_read(struct zkl__contender *c)
{
    enum zkl__rc rc = c->event->reply->rc;
    bool first = c->state == ZKL__PROVING;
    if (rc == ZKL__RC_OK) {
        note_mark(&c->mark, c->event->reply);
    }
    if (first && !zkl__rc_decides(rc)) {
        zkl__contender_fail_by_reply(c);
        return;
    }
    if (first && rc == ZKL__RC_NONODE) {
        zkl__node_removed(c); /* with the directory */
        return;
    }
    if (first && c->mark.state == ZKL__MARK_UNKNOWN && !is_clean(c)) {
        conclude_unclean(c);
    }
}

/* --- the delay ------------------------------------------------------------------------------- */

int64_t zkl__mark_wake(const struct zkl__contender *c)
{
    return c->mark.state == ZKL__MARK_DELAYS ? c->mark.until : INT64_MAX;
}

void zkl__mark_on_time(struct zkl__contender *c)
{
    if (zkl__mark_wake(c) <= c->core->now) {
        c->mark.state = ZKL__MARK_UNCLEAN;
    }
}

/* --- with the znode's delete ----------------------------------------------------------------- */

void zkl__mark_leave(struct zkl__contender *c)
{
    bool writes = zkl__contender_keeps(c) || (c->state == ZKL__PROVING && is_clean(c));
    c->mark.state = c->config.mark && writes ? ZKL__MARK_WRITES : ZKL__MARK_UNKNOWN;
}

bool zkl__mark_due(struct zkl__contender *c)
{
    if (c->mark.state == ZKL__MARK_WRITES && zkl__peers_hands_over(c)) {
        c->mark.state = ZKL__MARK_UNKNOWN;
    }
    return c->mark.state == ZKL__MARK_WRITES;
}

static void warn_of_mark(const struct zkl__contender *c)
{
    if (!c->path_stats->warned_of_write) {
        c->path_stats->warned_of_write = true;
        zkl__core_warn(c->core, c,
                       "a release could not write its mark into the directory, and looks like a "
                       "crash to those who have recover or delay_after_crash_ms. Give WRITE on the "
                       "directory to those who contend there (setAcl)");
    }
}

/* The mark is the first part. A part that is rolled back did not fail by itself. */
bool zkl__mark_refused(struct zkl__contender *c, const struct zkl__reply *reply)
{
    enum zkl__rc rc = reply->part_count > 0 ? reply->parts[0].rc : reply->rc;
    bool refused = zkl__rc_decides(rc) && rc != ZKL__RC_ROLLEDBACK;
    if (c->config.mark && c->grant.end == ZKL__GRANT_HANDED_OVER) {
        /* The one that it handed over to may have ended since, while our znode stands. */
        c->grant.end = ZKL__GRANT_RELEASED;
    }
    if (c->mark.state != ZKL__MARK_WRITES || !refused) {
        return false;
    }
    if (rc == ZKL__RC_NOAUTH) {
        warn_of_mark(c);
    }
    c->mark.state = ZKL__MARK_UNKNOWN;
    return true;
}

/* === the grant ================================================================================ */

/* --- the gate -------------------------------------------------------------------------------- */

/* Why it is not granted yet. */
enum gate {
    GATE_MARK = 1,   /* how the last holder ended is not known, or the delay is not over */
    GATE_TOKEN = 2,  /* the czxid of our znode is not known */
    GATE_OTHERS = 4, /* another contender of the multi-contender is not first yet */
    GATE_LEASE = 8,  /* the session has no lease */
    GATE_SHOWN = 16  /* no response within a heartbeat has shown our znode */
};

bool zkl__contender_shown_within(const struct zkl__contender *c, int64_t parts)
{
    return c->core->now - c->shown_at <= zkl__lease_heartbeat(c->core->timeout) / parts;
}

/* Somebody may delete our znode by hand, and another contender of this session may notice that and
 * be granted before us. So a response that shows our znode counts for one heartbeat. A
 * multi-contender has a rule of its own (multi.c, look_again). */
static bool is_shown(const struct zkl__contender *c)
{
    return c->multi || zkl__contender_shown_within(c, 1) ||
           (c->event->kind == ZKL__CE_REPLY && c->event->role == ZKL__ROLE_PROVE);
}

static unsigned own_closed_gates(const struct zkl__contender *c)
{
    bool mark = !c->config.mark || c->mark.state == ZKL__MARK_UNCLEAN || is_clean(c);
    return (mark ? 0u : GATE_MARK) | (c->node.czxid ? 0u : GATE_TOKEN);
}

static unsigned closed_gates(const struct zkl__contender *c)
{
    return own_closed_gates(c) | (c->multi && !c->multi->open ? GATE_OTHERS : 0u) |
           (zkl__core_leased(c->core) ? 0u : GATE_LEASE) | (is_shown(c) ? 0u : GATE_SHOWN);
}

bool zkl__contender_ready(const struct zkl__contender *c, int64_t now)
{
    return c->state == ZKL__PROVING && c->retry.at <= now && !own_closed_gates(c);
}

void zkl__grant_prove(struct zkl__contender *c, const char *why)
{
    c->grant.proved = false;
    zkl__contender_move(c, ZKL__PROVING, why);
}

void zkl__grant_advance(struct zkl__contender *c)
{
    unsigned shut = closed_gates(c);
    if (!shut) {
        zkl__grant_give(c);
    } else if (shut & GATE_MARK) {
        zkl__mark_send_read(c);
    } else if (!(c->under_way & UNDER_WAY(ZKL__ROLE_PROVE)) &&
               (shut & GATE_LEASE ? !c->grant.proved : shut & GATE_SHOWN)) {
        c->grant.proved = true;
        zkl__contender_send_of_node(c, ZKL__ROLE_PROVE, ZKL__OP_CHECK, c->node.name);
    }
}

static void notify_granted(struct zkl__contender *c)
{
    c->grant.least_until = c->config.least > 0 ? c->core->now + c->config.least : 0;
    c->grant.hold_until = c->config.max_hold > 0 ? c->core->now + c->config.max_hold : INT64_MAX;
    zkl__contender_notify(c, ZKL__GRANTED, ZKL_OK, 0, "granted");
    c->out->outcome.token = c->node.czxid;
    c->out->outcome.serial = ++c->linger.serial;
    c->out->outcome.contender = c;
    c->out->outcome.unclean = c->mark.state == ZKL__MARK_UNCLEAN;
}

void zkl__grant_give(struct zkl__contender *c)
{
    zkl__contender_move(c, ZKL__HELD, "nobody before us, and a lease");
    zkl__own_watch_hold(c);
    notify_granted(c);
}

void zkl__grant_again(struct zkl__contender *c)
{
    zkl__contender_move(c, ZKL__HELD, "it lingered");
    zkl__mark_clean(c);
    c->grant.end = ZKL__GRANT_KEPT;
    notify_granted(c);
}

/* --- the end of a hold ------------------------------------------------------------------------ */

int64_t zkl__grant_wake(const struct zkl__contender *c)
{
    bool owed =
        c->state == ZKL__HELD || (c->state == ZKL__LOST && c->grant.end != ZKL__GRANT_OVERSTAYED);
    return owed ? c->grant.hold_until : INT64_MAX;
}

void zkl__grant_overstay(struct zkl__contender *c)
{
    c->grant.end = ZKL__GRANT_OVERSTAYED;
    zkl__replacement_forget(c);
    if (c->state == ZKL__HELD) {
        zkl__grant_lose(c, "held for longer than max_hold_ms");
    }
}

void zkl__grant_lose(struct zkl__contender *c, const char *why)
{
    zkl__contender_notify(c, ZKL__LOSS, ZKL_ELOST, 0, why);
    zkl__own_watch_stop(c);
    zkl__contender_move(c, ZKL__LOST, why);
}

/* The owner is notified now, and does not wait for the delete. That hands the lock over to nobody,
 * because somebody may have deleted the znode by hand meanwhile. */
static void keep_znode(struct zkl__contender *c)
{
    c->grant.end = ZKL__GRANT_RELEASED;
    c->grant.stay_until = c->grant.least_until;
    zkl__contender_notify(c, ZKL__RELEASED, ZKL_OK, 0, "released, and its znode stays");
}

void zkl__grant_on_release(struct zkl__contender *c)
{
    ZKL__ENSURE(c->state == ZKL__HELD || c->state == ZKL__LOST);
    bool hands_over = c->state == ZKL__HELD && c->replacement.state == ZKL__REPLACING_NOT;
    c->grant.end = hands_over ? ZKL__GRANT_HANDED_OVER : ZKL__GRANT_RELEASED;
    if (hands_over && zkl__linger_keep(c)) {
        return;
    }
    if (hands_over && c->core->now < c->grant.least_until) {
        keep_znode(c);
    }
    zkl__mark_leave(c);
    zkl__replacement_forget(c);
    zkl__node_remember_duplicate(&c->node);
    zkl__own_watch_stop(c); /* our delete uses the watch up */
    zkl__contender_move(c, ZKL__REMOVING, "released");
}
