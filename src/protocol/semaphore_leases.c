/* semaphore_leases.c - the leases of a semaphore, as its head reads them.
 *
 * Why that is enough. A grant rests on a list of the leases that was read after our own were made:
 * whoever is granted later made its own later still, and so has ours in its list. The queue does
 * not make it safe, it makes it fair, and keeps two that have a part of what they want from waiting
 * for each other for ever; so whoever loses its place in the queue takes its leases back. A lease
 * is a contender that waits for nobody: a lost reply never leaves two, and it is removed however
 * things end.
 *
 * Why that is enough while the limit changes. A grant rests on a limit, too, that was in force
 * after our leases were made. Of all that hold at some moment take the one whose leases were made
 * last: its list shows all the others' leases, and its limit is no lower than their number. So
 * never more hold than a limit that was in force since the last of their leases was made: who made
 * its leases after the limit was lowered is judged by the lower one. No transaction could prove
 * more, since none can count children. The look at the limit is sent after the replies to our
 * creates, so the server that answers it has applied whatever came before these (ZooKeeper
 * Programmer's Guide, Consistency Guarantees: single system image). A look that set a watch is good
 * until that fires: the server tells a client of a change before it shows it newer data (the same
 * guide, ZooKeeper Watches). */
#include "semaphore_step.h"

#include "error.h"
#include "name.h"

#include <string.h>

#define LOOKS_MOST 16 /* under way: hides the round trip */

static bool has(const struct zkl__reply *list, const char *name)
{
    for (size_t i = 0; i < list->child_count; i++) {
        if (strcmp(list->children[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static bool all_listed(const struct zkl__semaphore *s, const struct zkl__reply *list)
{
    for (int i = 0; i < s->config.count; i++) {
        if (!has(list, zkl__contender_node(s->permits[i].contender))) {
            return false;
        }
    }
    return true;
}

static bool is_lease(const char *name)
{
    return zkl__name_parse(name).kind == ZKL_KIND_LEASE;
}

static void forget_looks(struct zkl__semaphore *s)
{
    zkl__core_forget(s->core, &s->machine);
    s->looks = 0;
    s->unanswered = false;
}

void zkl__semaphore_forget_leases(struct zkl__semaphore *s)
{
    forget_looks(s);
    s->busy = false;
    zkl__free(zkl__core_heap(s->core), s->leases);
    s->leases = NULL;
}

/* What was under way for the list before is forgotten, what lives stays known. */
static void take(struct zkl__semaphore *s, const struct zkl__reply *list)
{
    if (!zkl__children_renew(zkl__core_heap(s->core), &s->leases, list, is_lease)) {
        zkl__semaphore_fail(s, ZKL_ENOMEM, 0, "out of memory");
        return;
    }
    for (int i = 0; i < s->config.count; i++) { /* our own need no look */
        const char *own = zkl__contender_node(s->permits[i].contender);
        zkl__children_find(s->leases, own)->verdict = ZKL__CHILD_LIVES;
    }
    forget_looks(s);
    zkl__semaphore_move(s, ZKL__SEMAPHORE_JUDGING, "too many leases");
}

static void decide(struct zkl__semaphore *s, const struct zkl__reply *list)
{
    s->stand = 0;
    for (size_t i = 0; i < list->child_count; i++) {
        s->stand += is_lease(list->children[i]);
    }
    if (s->limit != ZKL__LIMIT_UNSET) {
        zkl__core_trace_at(s->core, s->config.path, s->number, "%d leases stand, the limit is %d",
                           s->stand, s->limit);
    }
    if (!all_listed(s, list) || !zkl__semaphore_leased(s, zkl__core_now(s->core))) {
        zkl__semaphore_again(s);
    } else if (s->stand <= s->limit) {
        zkl__semaphore_grant(s, "no more leases than the limit");
    } else if (s->state != ZKL__SEMAPHORE_READING) {
        return; /* changed while it was read: once more */
    } else if (s->limit == ZKL__LIMIT_UNREAD) {
        zkl__semaphore_put_off(s);
        zkl__semaphore_move(s, ZKL__SEMAPHORE_MAKING, "the limit could not be read");
    } else if (s->limit == ZKL__LIMIT_UNSET) {
        zkl__semaphore_move(s, ZKL__SEMAPHORE_SETTING, "nobody has set a limit");
    } else if (!s->crowded && !s->try_only) {
        s->crowded = true;
        zkl__semaphore_move(s, ZKL__SEMAPHORE_MAKING, "too many leases: once more, with watches");
    } else {
        take(s, list);
    }
}

void zkl__semaphore_on_leases(struct zkl__semaphore *s, const struct zkl__reply *reply)
{
    if (reply->rc == ZKL__RC_OK) {
        if (s->crowded) { /* one of before may have fired meanwhile: the list has set it again */
            (void)zkl__watch_add(s->core, &s->watch);
        }
        decide(s, reply);
    } else if (reply->rc == ZKL__RC_NONODE) {
        zkl__semaphore_again(s);
    } else {
        zkl__semaphore_fail(s, zkl__rc_code(reply->rc), reply->zk_code,
                            "the leases cannot be listed");
    }
}

void zkl__semaphore_read_leases(struct zkl__semaphore *s)
{
    if (!s->limit_watch.on) {
        s->limit = ZKL__LIMIT_UNREAD;
    }
    if (s->crowded && (zkl__watch_add(s->core, &s->watch) != ZKL_OK ||
                       zkl__watch_add(s->core, &s->limit_watch) != ZKL_OK)) {
        zkl__semaphore_fail(s, ZKL_ELIMIT, 0, "too many watches in this session");
        return;
    }
    zkl__semaphore_move(s, ZKL__SEMAPHORE_READING, "our leases are there");
    zkl__semaphore_read_limit(s); /* first: its reply comes first */
    zkl__semaphore_ask(
        s,
        (struct zkl__op){.kind = ZKL__OP_CHILDREN, .dir = s->config.leases, .watch = s->crowded});
}

/* --- which of them live ---------------------------------------------------------------------- */

void zkl__semaphore_on_look(struct zkl__semaphore *s, size_t which, const struct zkl__reply *reply)
{
    if (reply) {
        zkl__child_judge(&s->leases->all[which], reply);
    }
    s->unanswered = s->unanswered || !reply;
    s->looks--;
}

void zkl__semaphore_on_judged(struct zkl__semaphore *s)
{
    if (s->unanswered && s->state == ZKL__SEMAPHORE_JUDGING) {
        zkl__semaphore_put_off(s);
    }
    s->unanswered = false;
}

static bool send_looks(struct zkl__semaphore *s)
{
    size_t at = zkl__children_unknown(s->leases, 0);
    bool some = at < s->leases->count;
    while (at < s->leases->count && s->looks < LOOKS_MOST && !s->unanswered) {
        const struct zkl__op op = {
            .kind = ZKL__OP_EXISTS, .dir = s->config.leases, .name = s->leases->all[at].name};
        s->looks++; /* before it can be refused */
        zkl__core_send(s->core, &s->machine, ZKL__ROLE_LEASE + (int)at, &op);
        at = zkl__children_unknown(s->leases, at + 1);
    }
    return some;
}

/* A lease that lives with no session is nobody's permit, and would never be given back. */
void zkl__semaphore_judge(struct zkl__semaphore *s)
{
    if (s->looks > 0 || send_looks(s)) {
        return;
    }
    size_t stand = zkl__children_standing(s->leases);
    // NOLINTNEXTLINE(bugprone-branch-clone): the order of the tests counts
    if (!zkl__semaphore_leased(s, zkl__core_now(s->core))) {
        zkl__semaphore_again(s);
    } else if (stand <= (size_t)s->limit) {
        zkl__semaphore_grant(s, "few enough of the leases live with a session");
    } else if (s->try_only) {
        zkl__semaphore_fail(s, ZKL_EBUSY, 0, "too few permits are free");
    } else {
        zkl__semaphore_move(s, ZKL__SEMAPHORE_WAITING, "too many leases live with a session");
    }
}
