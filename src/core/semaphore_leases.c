/* semaphore_leases.c - the leases of a semaphore, as its head reads them.
 *
 * Why that is enough. A grant rests on a list of the leases that was read after our own were made:
 * whoever is granted later made its own later still, and so has ours in its list. The queue does
 * not make it safe, it makes it fair, and keeps two that have a part of what they want from waiting
 * for each other for ever; so whoever loses its place in the queue takes its leases back. A lease
 * is a contender that waits for nobody: a lost reply never leaves two, and it is removed however
 * things end. */
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
    const zkl_heap *heap = zkl__core_heap(s->core);
    struct zkl__children *fresh = zkl__children_copy(heap, list, s->leases, is_lease);
    if (!fresh) {
        zkl__semaphore_fail(s, ZKL_ENOMEM, 0, "out of memory");
        return;
    }
    forget_looks(s);
    zkl__free(heap, s->leases);
    s->leases = fresh;
    zkl__semaphore_move(s, ZKL__SEMAPHORE_JUDGING, "too many leases");
}

static void decide(struct zkl__semaphore *s, const struct zkl__reply *list)
{
    int stand = 0;
    for (size_t i = 0; i < list->child_count; i++) {
        stand += is_lease(list->children[i]);
    }
    zkl__core_trace_at(s->core, s->config.path, s->number, "%d leases stand, the limit is %d",
                       stand, s->config.limit);
    if (!all_listed(s, list) || !zkl__semaphore_leased(s, zkl__core_now(s->core))) {
        zkl__semaphore_again(s);
    } else if (stand <= s->config.limit) {
        zkl__semaphore_grant(s, "no more leases than the limit");
    } else if (!s->crowded && !s->try_only) {
        s->crowded = true;
        zkl__semaphore_move(s, ZKL__SEMAPHORE_MAKING, "too many leases: once more, with a watch");
    } else if (s->state == ZKL__SEMAPHORE_READING) { /* else changed while it was read: once more */
        take(s, list);
    }
}

void zkl__semaphore_on_leases(struct zkl__semaphore *s, const struct zkl__reply *reply)
{
    if (reply->rc == ZKL__RC_OK) {
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
    if (s->crowded && zkl__watch_add(s->core, &s->watch) != ZKL_OK) {
        zkl__semaphore_fail(s, ZKL_ELIMIT, 0, "too many watches in this session");
        return;
    }
    zkl__semaphore_move(s, ZKL__SEMAPHORE_READING, "our leases are there");
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
    size_t todo[LOOKS_MOST], count = 0;
    size_t at = zkl__children_unknown(s->leases, 0);
    for (; at < s->leases->count && count < LOOKS_MOST;
         at = zkl__children_unknown(s->leases, at + 1)) {
        todo[count++] = at;
    }
    s->looks = count; /* before the first can be refused */
    for (size_t i = 0; i < count; i++) {
        const struct zkl__op op = {
            .kind = ZKL__OP_EXISTS, .dir = s->config.leases, .name = s->leases->all[todo[i]].name};
        zkl__core_send(s->core, &s->machine, ZKL__ROLE_LEASE + (int)todo[i], &op);
    }
    return count > 0;
}

/* A lease that lives with no session is nobody's permit, and would never be given back. */
void zkl__semaphore_judge(struct zkl__semaphore *s)
{
    if (s->looks > 0 || send_looks(s)) {
        return;
    }
    size_t stand = zkl__children_standing(s->leases);
    if (!zkl__semaphore_leased(s, zkl__core_now(s->core))) {
        zkl__semaphore_again(s);
    } else if (stand <= (size_t)s->config.limit) {
        zkl__semaphore_grant(s, "few enough of the leases live with a session");
    } else if (s->try_only) {
        zkl__semaphore_fail(s, ZKL_EBUSY, 0, "too few permits are free");
    } else {
        zkl__semaphore_move(s, ZKL__SEMAPHORE_WAITING, "too many leases live with a session");
    }
}
