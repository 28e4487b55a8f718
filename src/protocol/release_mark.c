#include "release_mark.h"

#include "contender_moves.h"
#include "local_queue.h"
#include "stats.h"

#include <string.h>

/* --- the evidence ---------------------------------------------------------------------------- */

void zkl__mark_new_attempt(struct zkl__contender *c)
{
    c->mark = (struct zkl__release_mark){.before = -1, .released = -1, .next = -1};
}

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
    int32_t own = zkl__name_sequence(zkl__node_name(&c->node));
    if (mark->state != ZKL__MARK_UNKNOWN || !zkl__node_known(&c->node)) {
        return mark->state == ZKL__MARK_CLEAN;
    }
    if (mark->before >= 0) {
        return mark->released == mark->before;
    }
    return own == 0 || mark->released == own - 1 || mark->next == own;
}

bool zkl__mark_permits(const struct zkl__contender *c)
{
    return !c->config.mark || zkl__mark_unclean(&c->mark) || is_clean(c);
}

void zkl__mark_ask(struct zkl__contender *c)
{
    if (c->config.mark && c->mark.state == ZKL__MARK_UNKNOWN &&
        !(c->under_way & UNDER_WAY(ZKL__ROLE_READ))) {
        zkl__ask(c, ZKL__ROLE_READ, (struct zkl__op){.kind = ZKL__OP_GET, .dir = c->config.path});
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

static void note(struct zkl__release_mark *mark, const struct zkl__reply *reply)
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
    if (!zkl__announcement_is_listed(c)) {
        zkl__contender_move(c, ZKL__LISTING, "the announced release left no mark");
        return;
    }
    if (delays && c->try_only) {
        zkl__contender_fail(c, ZKL_EBUSY, 0,
                            "the last holder did not release, and delay_after_crash_ms begins");
        return;
    }
    c->mark.state = delays ? ZKL__MARK_DELAYS : ZKL__MARK_UNCLEAN;
    c->mark.until = c->event->now + c->config.delay;
    zkl__core_trace(c->core, c, "first, behind one that did not release%s",
                    delays ? ": it waits" : "");
}

void zkl__mark_on_read(struct zkl__contender *c)
{
    enum zkl__rc rc = c->event->reply->rc;
    bool first = c->state == ZKL__PROVING;
    if (rc == ZKL__RC_OK) {
        note(&c->mark, c->event->reply);
    }
    if (first && (!zkl__rc_answered(rc) || rc == ZKL__RC_NOTAPPLIED)) {
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
    return zkl__mark_delays(&c->mark) ? c->mark.until : INT64_MAX;
}

void zkl__mark_on_time(struct zkl__contender *c)
{
    if (zkl__mark_wake(c) <= c->event->now) {
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
    if (c->mark.state == ZKL__MARK_WRITES && zkl__local_hands_over(c)) {
        c->mark.state = ZKL__MARK_UNKNOWN;
    }
    return c->mark.state == ZKL__MARK_WRITES;
}

struct zkl__op zkl__mark_op(const struct zkl__contender *c)
{
    const char *name = zkl__node_name(&c->node);
    return (struct zkl__op){.kind = ZKL__OP_SET,
                            .dir = c->config.path,
                            .data = name,
                            .size = strlen(name),
                            .version = -1};
}

void zkl__mark_written(struct zkl__contender *c)
{
    c->mark.state = ZKL__MARK_UNKNOWN;
}

static void warn(const struct zkl__contender *c)
{
    if (!c->path_stats->told_write) {
        c->path_stats->told_write = true;
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
    bool refused = zkl__rc_answered(rc) && rc != ZKL__RC_NOTAPPLIED && rc != ZKL__RC_ROLLEDBACK;
    if (c->config.mark && zkl__grant_hands_over(&c->grant)) {
        /* The one that it handed over to may have ended since, while our znode stands. */
        c->grant.end = ZKL__GRANT_RELEASED;
    }
    if (c->mark.state != ZKL__MARK_WRITES || !refused) {
        return false;
    }
    if (rc == ZKL__RC_NOAUTH) {
        warn(c);
    }
    zkl__mark_written(c);
    return true;
}
