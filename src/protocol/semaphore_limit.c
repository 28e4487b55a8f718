/* semaphore_limit.c - the limit that all users of a semaphore agree on: the data of its path. */
#include "semaphore_step.h"

#include "error.h"
#include "own.h"
#include "queue_list.h"
#include "text.h"

#include <stdio.h>

static void refuse(struct zkl__semaphore *s, int limit)
{
    char *words = s->config.conflict;
    if (limit == 0) {
        snprintf(words, ZKL__CONFLICT_MAX,
                 "the data of the path is no limit: is it a lock with recovery?");
    } else if (s->config.limit == 0) {
        snprintf(words, ZKL__CONFLICT_MAX, "%d permits are wanted, the limit of the path is %d",
                 s->config.count, limit);
    } else {
        snprintf(words, ZKL__CONFLICT_MAX,
                 "this contender's limit is %d, the path is in use with %d", s->config.limit,
                 limit);
    }
    zkl__semaphore_fail(s, ZKL_ECONFLICT, 0, words);
}

/* Agreed: there is one, and it is ours, or ours is what the path says. 0 in *limit: there is no
 * such znode. False: it has failed. */
static bool look_at_limit(struct zkl__semaphore *s, const struct zkl__reply *reply, int *limit)
{
    *limit = reply->rc == ZKL__RC_OK ? ZKL__LIMIT_UNSET : 0;
    s->version = reply->stat.version;
    if (reply->rc == ZKL__RC_OK && reply->size > 0) {
        *limit = zkl__limit_parse(reply->data, reply->size);
        if (*limit == 0 || (s->config.limit > 0 && *limit != s->config.limit)) {
            refuse(s, *limit);
            return false;
        }
    } else if (reply->rc != ZKL__RC_OK && reply->rc != ZKL__RC_NONODE) {
        zkl__semaphore_fail(s, zkl__rc_code(reply->rc), reply->zk_code,
                            "the limit of the path cannot be read");
        return false;
    }
    return true;
}

/* A server may lag behind: that nobody has set a limit, or that it is too low for us, is the head's
 * to say. */
static void on_asked(struct zkl__semaphore *s, const struct zkl__reply *reply)
{
    int limit;
    if (!look_at_limit(s, reply, &limit)) {
        return;
    }
    if (limit == ZKL__LIMIT_UNSET) { /* to write it is the head's business */
        zkl__semaphore_move(s, ZKL__SEMAPHORE_SEARCHING, "nobody has set a limit");
    } else {
        zkl__semaphore_move(s, ZKL__SEMAPHORE_QUEUED, "nobody disagrees with the limit");
    }
}

static void on_searched(struct zkl__semaphore *s, const struct zkl__reply *list)
{
    const char *last = list->rc == ZKL__RC_OK ? zkl__list_last(list) : NULL;
    /* A longer name is no contender's (zkl__name_parse). */
    if (last && zkl__text_copy(s->last, sizeof s->last, last)) {
        zkl__semaphore_move(s, ZKL__SEMAPHORE_SEARCHED, "somebody may queue here for a lock");
    } else {
        zkl__semaphore_move(s, ZKL__SEMAPHORE_QUEUED, "nobody queues here for a lock");
    }
}

/* One that lives with no session is nobody's, and would keep the semaphore out for ever. */
static void on_last(struct zkl__semaphore *s, const struct zkl__reply *reply)
{
    if (reply->rc == ZKL__RC_OK && zkl__lives(&reply->stat)) {
        zkl__semaphore_fail(s, ZKL_ECONFLICT, 0, "the path is in use as a lock or an election");
    } else {
        zkl__semaphore_move(s, ZKL__SEMAPHORE_QUEUED, "nobody queues here for a lock");
    }
}

/* --- the head's look ------------------------------------------------------------------------- */

void zkl__semaphore_read_limit(struct zkl__semaphore *s)
{
    if (s->limit != ZKL__LIMIT_UNREAD) {
        return;
    }
    const struct zkl__op op = {
        .kind = ZKL__OP_GET, .dir = s->config.path, .watch = s->limit_watch.on};
    zkl__core_send(s->core, &s->machine, ZKL__ROLE_LIMIT, &op);
}

/* Without a word of the server's it stays unread, which the reply with the leases finds. */
void zkl__semaphore_on_read_limit(struct zkl__semaphore *s)
{
    const struct zkl__reply *reply = s->limit_reply;
    int limit;
    s->limit_reply = NULL;
    if (!reply || !look_at_limit(s, reply, &limit)) {
        return;
    }
    if (limit == 0) {
        zkl__semaphore_again(s); /* the directory was removed by somebody */
    } else if (limit == ZKL__LIMIT_UNSET && s->config.limit == 0) {
        zkl__semaphore_fail(s, ZKL_ECONFLICT, 0,
                            "nobody has set a limit: the data of the path is empty");
    } else if (limit > 0 && s->config.count > limit) {
        refuse(s, limit);
    } else {
        s->limit = limit;
    }
}

/* Ours is in force since then, so the list that was read before is as good as one read now: ours
 * were in it. */
static void on_set(struct zkl__semaphore *s, const struct zkl__reply *reply)
{
    s->limit = ZKL__LIMIT_UNREAD;
    if (reply->rc == ZKL__RC_OK && s->stand <= s->config.limit &&
        zkl__semaphore_leased(s, zkl__core_now(s->core))) {
        zkl__semaphore_grant(s, "ours is the limit, and no more leases stand");
    } else if (reply->rc == ZKL__RC_OK || reply->rc == ZKL__RC_BADVERSION ||
               reply->rc == ZKL__RC_NONODE) {
        zkl__semaphore_move(s, ZKL__SEMAPHORE_MAKING, "written, by us or by somebody else");
    } else {
        zkl__semaphore_fail(s, zkl__rc_code(reply->rc), reply->zk_code,
                            "the limit cannot be written to the path");
    }
}

void zkl__semaphore_on_limit(struct zkl__semaphore *s, const struct zkl__reply *reply)
{
    static void (*const on[])(struct zkl__semaphore *, const struct zkl__reply *) = {
        [ZKL__SEMAPHORE_ASKING] = on_asked,
        [ZKL__SEMAPHORE_SEARCHING] = on_searched,
        [ZKL__SEMAPHORE_SEARCHED] = on_last,
        [ZKL__SEMAPHORE_SETTING] = on_set,
    };
    on[s->state](s, reply);
}

void zkl__semaphore_ask_limit(struct zkl__semaphore *s)
{
    struct zkl__op op = {.kind = ZKL__OP_GET, .dir = s->config.path};
    char text[16];
    if (s->state == ZKL__SEMAPHORE_SEARCHING) {
        op.kind = ZKL__OP_CHILDREN;
    } else if (s->state == ZKL__SEMAPHORE_SEARCHED) {
        op.kind = ZKL__OP_EXISTS;
        op.name = s->last;
    } else if (s->state == ZKL__SEMAPHORE_SETTING) {
        op.kind = ZKL__OP_SET;
        op.data = text;
        op.size = (size_t)snprintf(text, sizeof text, "%d", s->config.limit);
        op.version = s->version;
    }
    zkl__semaphore_ask(s, op);
}
