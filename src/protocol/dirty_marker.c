#include "contender_moves.h"

#include <stdio.h>
#include <string.h>

bool zkl__marker_init(struct zkl__contender *c)
{
    c->marker.marks = c->config.mark ? zkl__zalloc(c->heap, sizeof *c->marker.marks) : NULL;
    return !c->config.mark || c->marker.marks;
}

void zkl__marker_free(struct zkl__contender *c)
{
    zkl__free(c->heap, c->marker.marks);
}

void zkl__marker_new_attempt(struct zkl__contender *c)
{
    struct zkl__marker *marker = &c->marker;
    if (marker->marks) {
        if (marker->state >= ZKL__MARKER_SENT) {
            memcpy(marker->marks->older, marker->marks->own, sizeof marker->marks->older);
        }
        snprintf(marker->marks->own, sizeof marker->marks->own, ZKL__MARK "%s",
                 zkl__node_uuid(&c->node));
    }
    marker->state = ZKL__MARKER_UNREAD;
}

bool zkl__marker_done(const struct zkl__contender *c)
{
    return !c->config.mark || c->marker.state == ZKL__MARKER_SET;
}

static struct zkl__op set_mark(const struct zkl__contender *c, const char *mark)
{
    return (struct zkl__op){.kind = ZKL__OP_SET,
                            .dir = c->config.path,
                            .data = mark,
                            .size = strlen(mark),
                            .version = -1};
}

void zkl__marker_ask(struct zkl__contender *c)
{
    bool read = c->marker.state != ZKL__MARKER_UNREAD;
    if (!read && !(c->under_way & UNDER_WAY(ZKL__ROLE_READ))) {
        zkl__ask(c, ZKL__ROLE_READ, (struct zkl__op){.kind = ZKL__OP_GET, .dir = c->config.path});
    } else if (read && !(c->under_way & UNDER_WAY(ZKL__ROLE_MARK))) {
        c->marker.state = ZKL__MARKER_SENT;
        zkl__ask_two(c, ZKL__ROLE_MARK, zkl__check_op(c), set_mark(c, c->marker.marks->own));
    }
}

static bool is_mark(const struct zkl__reply *reply, const char *mark, size_t length)
{
    return reply->size >= length && memcmp(reply->data, mark, length) == 0;
}

void zkl__marker_on_read(struct zkl__contender *c)
{
    const struct zkl__reply *reply = c->event->reply;
    const struct zkl__marks *marks = c->marker.marks;
    if (c->state != ZKL__PROVING) {
        return;
    }
    if (reply->rc != ZKL__RC_OK && reply->rc != ZKL__RC_NONODE) {
        zkl__contender_fail_by_reply(c);
        return;
    }
    /* No directory: our node is gone with it, which the check beside the mark will tell. */
    if (reply->rc == ZKL__RC_OK && !is_mark(reply, marks->own, strlen(marks->own)) &&
        !(marks->older[0] && is_mark(reply, marks->older, strlen(marks->older)))) {
        c->marker.unclean = is_mark(reply, ZKL__MARK, sizeof ZKL__MARK - 1);
    }
    c->marker.state = ZKL__MARKER_READ;
}

/* The mark is written in one transaction with a check of our znode. The check takes READ on that,
 * the mark WRITE on the directory (PrepRequestProcessor.pRequest2Txn), and the first one that is
 * refused says so in its part. */
static const char *why_forbidden(const struct zkl__reply *reply)
{
    bool check = reply->part_count > 0 && reply->parts[0].rc == ZKL__RC_NOAUTH;
    return check ? "recover needs READ on our own znode, which its access list refuses: let the "
                   "access list of what is created (zkl_acl) give READ to us"
                 : "recover marks the directory, whose access list refuses that: give WRITE on the "
                   "directory to those who contend there (setAcl)";
}

void zkl__marker_on_written(struct zkl__contender *c)
{
    enum zkl__rc rc = c->event->reply->rc;
    if (rc == ZKL__RC_OK && c->marker.state != ZKL__MARKER_CLEARS) {
        c->marker.state = ZKL__MARKER_SET;
    }
    if (c->state == ZKL__PROVING && rc == ZKL__RC_NONODE) {
        zkl__node_removed(c);
    } else if (c->state == ZKL__PROVING && rc == ZKL__RC_NOAUTH) {
        zkl__contender_fail(c, ZKL_EAUTH, c->event->reply->zk_code, why_forbidden(c->event->reply));
    } else if (c->state == ZKL__PROVING && rc != ZKL__RC_OK) {
        zkl__contender_fail_by_reply(c);
    }
}

/* --- with the node's delete ------------------------------------------------------------------ */

/* Who never held leaves things as they were. While our node stands, nobody behind us has marked. */
void zkl__marker_give_up(struct zkl__contender *c)
{
    bool clears = c->marker.state >= ZKL__MARKER_SENT && !c->marker.unclean;
    c->marker.state = clears ? ZKL__MARKER_CLEARS : ZKL__MARKER_UNREAD;
}

void zkl__marker_release(struct zkl__contender *c)
{
    bool clears = c->marker.state == ZKL__MARKER_SET && c->state == ZKL__HELD;
    c->marker.state = clears ? ZKL__MARKER_CLEARS : ZKL__MARKER_UNREAD;
}

bool zkl__marker_clears(const struct zkl__contender *c)
{
    return c->marker.state == ZKL__MARKER_CLEARS;
}

struct zkl__op zkl__marker_clear_op(const struct zkl__contender *c)
{
    return set_mark(c, "");
}

void zkl__marker_cleared(struct zkl__contender *c)
{
    c->marker.state = ZKL__MARKER_UNREAD;
}

void zkl__marker_refused(struct zkl__contender *c, enum zkl__rc rc)
{
    if (rc != ZKL__RC_NOTAPPLIED && rc != ZKL__RC_UNSENT) {
        c->marker.state = ZKL__MARKER_UNREAD;
    }
}
