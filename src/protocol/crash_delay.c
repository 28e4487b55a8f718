#include "crash_delay.h"

#include "contender_moves.h"
#include "stats.h"

#include <string.h>

/* --- the evidence ---------------------------------------------------------------------------- */

void zkl__delay_new_attempt(struct zkl__contender *c)
{
    c->grant.delay = (struct zkl__crash_delay){.before = -1, .released = -1, .next = -1};
}

void zkl__delay_behind(struct zkl__contender *c, const char *name)
{
    struct zkl__crash_delay *delay = &c->grant.delay;
    if (c->config.delay > 0) {
        delay->state = ZKL__DELAY_UNKNOWN;
        delay->before = zkl__name_sequence(name);
    }
}

void zkl__delay_none(struct zkl__contender *c)
{
    if (c->config.delay > 0) {
        c->grant.delay.state = ZKL__DELAY_OVER;
    }
}

static bool is_clean(const struct zkl__contender *c)
{
    const struct zkl__crash_delay *delay = &c->grant.delay;
    int32_t own = zkl__name_sequence(zkl__node_name(&c->node));
    if (!zkl__node_known(&c->node)) {
        return false;
    }
    if (delay->before >= 0) {
        return delay->released == delay->before;
    }
    return own == 0 || delay->released == own - 1 || delay->next == own;
}

bool zkl__delay_over(const struct zkl__contender *c)
{
    return c->config.delay == 0 || c->grant.delay.state == ZKL__DELAY_OVER || is_clean(c);
}

void zkl__delay_ask(struct zkl__contender *c)
{
    if (c->config.delay > 0 && c->grant.delay.state == ZKL__DELAY_UNKNOWN &&
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

static void note(struct zkl__crash_delay *delay, const struct zkl__reply *reply)
{
    const struct zkl__stat *stat = &reply->stat;
    bool rests = stat->child_count == 0 && stat->pzxid == stat->mzxid;
    delay->released = number_in(reply);
    /* "cversion" counts creates and deletes (DataNode.copyStat): without children, half of each. */
    delay->next = rests ? (int32_t)((uint32_t)stat->cversion / 2) : delay->next;
}

static void begin(struct zkl__contender *c)
{
    struct zkl__crash_delay *delay = &c->grant.delay;
    if (c->try_only) {
        zkl__contender_fail(c, ZKL_EBUSY, 0,
                            "the last holder did not release, and delay_after_crash_ms begins");
        return;
    }
    delay->state = ZKL__DELAY_RUNS;
    delay->until = c->event->now + c->config.delay;
    zkl__core_trace(c->core, c, "first, behind one that did not release: it waits");
}

/* What is read while we wait for a list, or for somebody, may be older than the end of who was
 * before us. It can prove a clean end, and not the contrary. */
void zkl__delay_on_read(struct zkl__contender *c)
{
    const struct zkl__reply *reply = c->event->reply;
    if (reply->rc == ZKL__RC_OK) {
        note(&c->grant.delay, reply);
    }
    if (c->state == ZKL__PROVING && !zkl__rc_answered(reply->rc)) {
        zkl__contender_fail_by_reply(c);
        return;
    }
    if (c->state == ZKL__PROVING && reply->rc == ZKL__RC_NOTAPPLIED) {
        zkl__contender_put_off(c, c->event->now);
    } else if (c->state == ZKL__PROVING && c->grant.delay.state == ZKL__DELAY_UNKNOWN &&
               !is_clean(c)) {
        begin(c);
    }
}

/* --- the time -------------------------------------------------------------------------------- */

bool zkl__delay_runs(const struct zkl__contender *c)
{
    return c->grant.delay.state == ZKL__DELAY_RUNS;
}

int64_t zkl__delay_wake(const struct zkl__contender *c)
{
    return zkl__delay_runs(c) ? c->grant.delay.until : INT64_MAX;
}

void zkl__delay_on_time(struct zkl__contender *c, int64_t now)
{
    if (zkl__delay_wake(c) <= now) {
        c->grant.delay.state = ZKL__DELAY_OVER;
    }
}

/* --- with the znode's delete ----------------------------------------------------------------- */

void zkl__delay_leave(struct zkl__contender *c)
{
    bool first = c->state == ZKL__PROVING || zkl__contender_keeps(c);
    c->grant.delay.state =
        first && c->config.delay > 0 && zkl__delay_over(c) ? ZKL__DELAY_MARKS : ZKL__DELAY_UNKNOWN;
}

bool zkl__delay_marks(const struct zkl__contender *c)
{
    return c->grant.delay.state == ZKL__DELAY_MARKS;
}

struct zkl__op zkl__delay_mark_op(const struct zkl__contender *c)
{
    const char *name = zkl__node_name(&c->node);
    return (struct zkl__op){.kind = ZKL__OP_SET,
                            .dir = c->config.path,
                            .data = name,
                            .size = strlen(name),
                            .version = -1};
}

void zkl__delay_marked(struct zkl__contender *c)
{
    c->grant.delay.state = ZKL__DELAY_UNKNOWN;
}

static void warn(const struct zkl__contender *c)
{
    if (!c->path_stats->told_write) {
        c->path_stats->told_write = true;
        zkl__core_warn(c->core, c,
                       "a release could not write its mark into the directory, and looks like a "
                       "crash to those who have delay_after_crash_ms. Give WRITE on the directory "
                       "to those who contend there (setAcl)");
    }
}

bool zkl__delay_refused(struct zkl__contender *c, enum zkl__rc rc)
{
    bool refused = zkl__rc_answered(rc) && rc != ZKL__RC_NOTAPPLIED;
    if (!zkl__delay_marks(c) || (!refused && !zkl__local_followed(&c->local))) {
        return false;
    }
    if (rc == ZKL__RC_NOAUTH) {
        warn(c);
    }
    /* Whoever was handed the lock may have ended since, while our znode stands. */
    c->grant.end = zkl__grant_hands_over(&c->grant) ? ZKL__GRANT_RELEASED : c->grant.end;
    zkl__delay_marked(c);
    return refused;
}
