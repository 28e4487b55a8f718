/* permits_step.c - what one acquire of a semaphore does next: the limit agreed on, the head's
 * permits made, the leases read.
 *
 * Why that is enough. A grant rests on a list of the leases that was read after our own were made:
 * whoever is granted later made its own later still, and so has ours in its list. The queue does
 * not make it safe, it makes it fair, and keeps two that have a part of what they want from waiting
 * for each other for ever; so whoever loses its place in the queue takes its leases back. A lease
 * is a contender that waits for nobody: a lost reply never leaves two, and it is removed however
 * things end. */
#include "permits.h"

#include "error.h"
#include "name.h"
#include "own.h"
#include "queue_list.h"

#include <stdio.h>
#include <string.h>

#define RETRY_NS (200 * ZKL__MS) /* for what was not sent though connected */

/* --- the limit ------------------------------------------------------------------------------- */

static void refuse(struct zkl__permits *p, int limit)
{
    struct zkl__semaphore *s = p->semaphore;
    if (limit > 0) {
        snprintf(s->conflict, sizeof s->conflict,
                 "this contender's limit is %d, the path is in use with %d", s->limit, limit);
    } else {
        snprintf(s->conflict, sizeof s->conflict,
                 "the data of the path is no limit: is it a lock with recovery?");
    }
    zkl__permits_fail(p, ZKL_ECONFLICT, 0, s->conflict);
}

/* True: nobody disagrees. */
static bool look_at_limit(struct zkl__permits *p, const struct zkl__reply *reply)
{
    p->set = reply->rc == ZKL__RC_OK && reply->size == 0;
    p->version = reply->stat.version;
    if (reply->rc == ZKL__RC_OK && reply->size > 0) {
        int limit = zkl__limit_parse(reply->data, reply->size);
        if (limit != p->semaphore->limit) {
            refuse(p, limit);
            return false;
        }
    } else if (reply->rc != ZKL__RC_OK && reply->rc != ZKL__RC_NONODE) {
        zkl__permits_fail(p, zkl__rc_code(reply->rc), reply->zk_code,
                          "the limit of the path cannot be read");
        return false;
    }
    return true;
}

/* True: somebody may queue there for a lock. */
static bool find_contender(struct zkl__permits *p, const struct zkl__reply *list)
{
    const char *last = list->rc == ZKL__RC_OK ? zkl__list_last(list) : NULL;
    if (last) {
        strcpy(p->last, last);
    }
    return last != NULL;
}

/* --- the leases ------------------------------------------------------------------------------ */

static bool has(const struct zkl__reply *list, const char *name)
{
    for (size_t i = 0; i < list->child_count; i++) {
        if (strcmp(list->children[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static bool all_listed(const struct zkl__permits *p, const struct zkl__reply *list)
{
    for (int i = 0; i < p->count; i++) {
        if (!has(list, zkl__contender_node(p->permits[i].contender))) {
            return false;
        }
    }
    return true;
}

static void grant(struct zkl__permits *p)
{
    int64_t max_hold = p->config.max_hold;
    p->step = GRANTED;
    p->deadline = max_hold > 0 ? zkl__session_now(zkl__permits_session(p)) + max_hold : INT64_MAX;
    zkl__permits_tell(p, ZKL__GRANTED, "granted");
}

static bool is_lease(const char *name)
{
    return zkl__name_parse(name).kind == ZKL_KIND_LEASE;
}

static void decide(struct zkl__permits *p, const struct zkl__reply *list)
{
    int stand = 0;
    for (size_t i = 0; i < list->child_count; i++) {
        stand += is_lease(list->children[i]);
    }
    zkl__core_trace(zkl__session_core(zkl__permits_session(p)), p->place,
                    "%d leases stand, the limit is %d", stand, p->semaphore->limit);
    if (!all_listed(p, list) || !zkl__permits_hold(p)) {
        p->again = true;
    } else if (stand <= p->semaphore->limit) {
        grant(p);
    } else if (!p->crowded && !p->try_only) {
        p->crowded = true; /* not watched yet: once more */
        p->step = AGREED;
    } else if (p->step == READING) { /* else changed while it was read: once more */
        p->step = zkl__jury_take(&p->jury, list, is_lease) ? JUDGING : AGREED;
        if (p->step == AGREED) {
            zkl__permits_fail(p, ZKL_ENOMEM, 0, "out of memory");
        }
    }
}

/* Outside a step. A lease that lives with no session is nobody's permit, and would never be given
 * back. */
static void judge(struct zkl__permits *p)
{
    if (zkl__jury_sit(&p->jury)) {
        return;
    }
    size_t stand = zkl__children_standing(p->jury.children);
    if (!zkl__permits_hold(p)) {
        p->again = true;
        zkl__permits_wake(p);
    } else if (stand <= (size_t)p->semaphore->limit) {
        grant(p);
        zkl__permits_wake(p);
    } else if (p->try_only) {
        zkl__permits_fail(p, ZKL_EBUSY, 0, "too few permits are free");
    } else {
        p->step = WAITING;
    }
}

void zkl__permits_on_judged(void *owner, bool answered)
{
    struct zkl__permits *p = owner;
    zkl__permits_wake_at(p, answered ? 0 : zkl__session_now(zkl__permits_session(p)) + RETRY_NS);
}

/* --- one operation after the other ----------------------------------------------------------- */

/* The head's look at the limit, or its writing of it. */
static void on_limit(struct zkl__permits *p, const struct zkl__reply *reply)
{
    if (p->set) {
        p->set = false; /* written, by us or by somebody else: look again */
        if (reply->rc != ZKL__RC_OK && reply->rc != ZKL__RC_BADVERSION &&
            reply->rc != ZKL__RC_NONODE) {
            zkl__permits_fail(p, zkl__rc_code(reply->rc), reply->zk_code,
                              "the limit cannot be written to the path");
        }
    } else if (look_at_limit(p, reply) && !p->set) {
        p->step = AGREED;
        p->again = reply->rc == ZKL__RC_NONODE; /* the directory was removed by somebody */
    }
}

static void answer(struct zkl__permits *p, const struct zkl__reply *reply)
{
    switch (p->step) {
    case ASKING:
        if (look_at_limit(p, reply)) {
            p->step = p->set ? SEARCHING : QUEUED;
            p->set = false; /* that is the head's business */
        }
        break;
    case SEARCHING:
        p->step = find_contender(p, reply) ? SEARCHED : QUEUED;
        break;
    case SEARCHED: /* one that lives with no session is nobody's, and would keep the semaphore out
                      for ever */
        if (reply->rc == ZKL__RC_OK && zkl__lives(&reply->stat)) {
            zkl__permits_fail(p, ZKL_ECONFLICT, 0, "the path is in use as a lock or an election");
        }
        p->step = QUEUED;
        break;
    case QUEUED:
        on_limit(p, reply);
        break;
    case AGREED:
    case READING:
        if (reply->rc == ZKL__RC_OK) {
            decide(p, reply);
        } else if (reply->rc == ZKL__RC_NONODE) {
            p->again = true;
        } else {
            zkl__permits_fail(p, zkl__rc_code(reply->rc), reply->zk_code,
                              "the leases cannot be listed");
        }
        break;
    case JUDGING:
    case WAITING:
    case GRANTED:
        break;
    }
}

void zkl__permits_on_done(struct zkl__request *request, const struct zkl__reply *reply)
{
    struct zkl__permits *p = request->owner;
    p->busy = false;
    if (zkl__rc_answered(reply->rc) && reply->rc != ZKL__RC_NOTAPPLIED) {
        zkl__permits_wake(p);
        if (!p->over && !p->again) {
            answer(p, reply);
        }
        return;
    }
    p->step = p->step == READING ? AGREED : p->step;
    p->set = false; /* of unknown fate: the next look tells */
    zkl__permits_wake_at(p, zkl__session_now(zkl__permits_session(p)) + RETRY_NS);
}

void zkl__permits_on_fired(struct zkl__watch *watch, enum zkl__watch_event event)
{
    struct zkl__permits *p = watch->owner;
    (void)event;
    if (p->step == READING || p->step == JUDGING || p->step == WAITING) {
        p->step = AGREED;
        zkl__permits_wake(p);
    }
}

static void ask(struct zkl__permits *p, struct zkl__op op)
{
    p->busy = true;
    zkl__session_event(
        zkl__permits_session(p),
        (struct zkl__event){.kind = ZKL__EV_REQUEST, .request = &p->request, .op = &op});
}

static bool all_made(const struct zkl__permits *p)
{
    for (int i = 0; i < p->count; i++) {
        if (!p->permits[i].held) {
            return false;
        }
    }
    return true;
}

static void read_leases(struct zkl__permits *p)
{
    p->watch.path = p->semaphore->leases;
    if (p->crowded &&
        zkl__watch_add(zkl__session_core(zkl__permits_session(p)), &p->watch) != ZKL_OK) {
        zkl__permits_fail(p, ZKL_ELIMIT, 0, "too many watches in this session");
        return;
    }
    p->step = READING;
    ask(p, (struct zkl__op){
               .kind = ZKL__OP_CHILDREN, .dir = p->semaphore->leases, .watch = p->crowded});
}

static void look_at_head(struct zkl__permits *p)
{
    const char *path = p->semaphore->lock.path;
    char text[16];
    if (!p->permits[0].contender) {
        zkl__permits_make(p);
    }
    if (p->set) {
        snprintf(text, sizeof text, "%d", p->semaphore->limit);
        ask(p, (struct zkl__op){.kind = ZKL__OP_SET,
                                .dir = path,
                                .data = text,
                                .size = strlen(text),
                                .version = p->version});
    } else {
        ask(p, (struct zkl__op){.kind = ZKL__OP_GET, .dir = path});
    }
}

void zkl__permits_go_on(struct zkl__permits *p)
{
    const char *path = p->semaphore->lock.path;
    switch (p->step) {
    case ASKING:
        ask(p, (struct zkl__op){.kind = ZKL__OP_GET, .dir = path});
        break;
    case SEARCHING:
        ask(p, (struct zkl__op){.kind = ZKL__OP_CHILDREN, .dir = path});
        break;
    case SEARCHED:
        ask(p, (struct zkl__op){.kind = ZKL__OP_EXISTS, .dir = path, .name = p->last});
        break;
    case QUEUED:
        if (p->head) {
            look_at_head(p);
        }
        break;
    case AGREED:
        if (all_made(p)) {
            read_leases(p);
        }
        break;
    case JUDGING:
        judge(p);
        break;
    case READING:
    case WAITING:
        break;
    case GRANTED:
        zkl__jury_dismiss(&p->jury);
        zkl__watch_remove(zkl__session_core(zkl__permits_session(p)), &p->watch);
        zkl__permits_drop(p, &p->place);
        break;
    }
}

static void act(struct zkl__permits *p)
{
    bool late = zkl__session_now(zkl__permits_session(p)) >= p->deadline;
    if (p->step == GRANTED) {
        zkl__permits_go_on(p);
        if (late) {
            zkl__permits_lose(p);
        } else if (p->deadline < INT64_MAX) {
            zkl__permits_wake_at(p, p->deadline);
        }
        return;
    }
    if (late) {
        zkl__permits_fail(p, ZKL_ETIMEOUT, 0, "the time is up");
    }
    if (!p->over && p->again) {
        zkl__permits_begin_again(p);
    }
    if (!p->over && !p->busy && zkl__core_connected(zkl__session_core(zkl__permits_session(p)))) {
        zkl__permits_go_on(p);
    }
    if (p->over) {
        zkl__permits_end(p);
    } else {
        zkl__permits_wake_at(p, p->deadline);
    }
}

void zkl__permits_ring(void *owner)
{
    zkl_session *session = zkl__permits_session(owner);
    act(owner);
    zkl__session_arm(session);
}
