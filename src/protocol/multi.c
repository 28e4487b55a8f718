/* multi.c - a multi-contender: contenders in several queues, its members. One transaction creates
 * all their znodes, and one deletes them.
 *
 * One transaction gives the same order in every queue. So two multi-contenders never wait for each
 * other, and nobody has to sort names. A request of a member waits here until all members have sent
 * theirs. The response of the transaction is then passed to each as its own. No member is granted
 * before all are first, and when one fails, the others are given up. A member whose znode was
 * deleted by somebody else does not queue again, because it would have another position than the
 * others: the multi-contender fails. The end of a session is different. It deletes all znodes, and
 * all members queue again. */
#include "core_internal.h"

#include <string.h>

/* --- life ------------------------------------------------------------------------------------ */

static void free_multi(struct zkl__machine *machine)
{
    zkl__free(&machine->core->config.heap, machine);
}

/* Its owner has had the last word, and no member is left. */
static void bury_if_unused(struct zkl__multi *multi)
{
    if (!multi->config.notify && !multi->members.first) {
        zkl__core_bury(&multi->machine);
    }
}

void zkl__multi_leave(struct zkl__contender *c)
{
    if (c->multi) {
        zkl__list_remove(&c->multi->members, &c->in_multi);
        bury_if_unused(c->multi);
        c->multi = NULL;
    }
}

static bool holds_all(const struct zkl__machine *machine, int64_t now)
{
    const struct zkl__multi *multi = (const struct zkl__multi *)machine;
    size_t held = 0;
    ZKL__EACH (const struct zkl__contender, c, &multi->members, in_multi) {
        held += zkl__contender_holds(&c->machine, now);
    }
    return held == multi->count;
}

const char *zkl__multi_node(const struct zkl__multi *multi, size_t member)
{
    ZKL__EACH (const struct zkl__contender, c, &multi->members, in_multi) {
        if (member-- == 0) {
            return c->node.name;
        }
    }
    return "";
}

/* --- reports to the owner -------------------------------------------------------------------- */

/* Inside a step of a member. No member is downgraded. */
static void on_outcome(void *owner, const struct zkl__outcome *outcome)
{
    struct zkl__multi *multi = owner;
    struct zkl__outcome own = *outcome;
    bool jeopardy = outcome->kind == ZKL__JEOPARDY, news = true;
    switch (outcome->kind) {
    case ZKL__GRANTED:
        news = ++multi->granted == multi->count;
        break;
    case ZKL__FAILED:
        multi->failed = true; /* of the first one: there is no word after that */
        break;
    case ZKL__JEOPARDY:
    case ZKL__SAFE:
        news = multi->jeopardy != jeopardy && !multi->lost;
        multi->jeopardy = jeopardy;
        break;
    case ZKL__LOSS:
        news = !multi->lost;
        multi->lost = true;
        break;
    case ZKL__RELEASED:
        multi->code = outcome->code != ZKL_OK ? outcome->code : multi->code;
        own.code = multi->code;
        news = ++multi->released == multi->count;
        break;
    default: /* REVOKED */
        break;
    }
    if (news) {
        zkl__owner_notify(&multi->config, &own);
    }
}

/* --- the transaction ------------------------------------------------------------------------- */

static bool is_held_back(const struct zkl__contender *c, enum zkl__role role)
{
    return c->held_back & UNDER_WAY(role);
}

bool zkl__multi_holds_back(struct zkl__contender *c, enum zkl__role role)
{
    bool held_back = role == ZKL__ROLE_CREATE ||
                     (role == ZKL__ROLE_DELETE && c->multi->gathering) ||
                     (role == ZKL__ROLE_LIST && is_held_back(c, ZKL__ROLE_CREATE));
    if (held_back) {
        c->held_back |= UNDER_WAY(role);
    }
    return held_back;
}

static void on_done(struct zkl__request *request, const struct zkl__reply *reply)
{
    struct zkl__multi *multi = request->owner;
    enum zkl__role role = multi->under_way;
    multi->under_way = ZKL__ROLE_NONE;
    for (size_t i = 0; i < multi->dealt_count; i++) {
        struct zkl__contender *c = multi->dealt[i].member;
        struct zkl__reply *mine = &multi->dealt[i].reply;
        const struct zkl__reply *part =
            zkl__rc_decides(reply->rc) && i < reply->part_count ? &reply->parts[i] : NULL;
        *mine = part ? *part : *reply;
        if (part && reply->rc != ZKL__RC_OK &&
            (part->rc == ZKL__RC_OK || part->rc == ZKL__RC_ROLLEDBACK)) {
            /* The transaction failed because of another part. */
            if (role == ZKL__ROLE_CREATE) {
                /* Sent again when the other member requests its create, too. */
                c->held_back |= UNDER_WAY(role);
                continue;
            }
            *mine = (struct zkl__reply){.rc = ZKL__RC_NOTAPPLIED};
        }
        zkl__contender_post_reply(c, role, mine);
    }
    zkl__core_post(&multi->machine);
}

/* One transaction for all members that want this request, then their lists, which come behind it.
 */
static void send_all(struct zkl__multi *multi, enum zkl__role role)
{
    size_t n = 0;
    ZKL__EACH (struct zkl__contender, c, &multi->members, in_multi) {
        if (is_held_back(c, role)) {
            c->held_back &= ~UNDER_WAY(role);
            multi->parts[n] = role == ZKL__ROLE_CREATE ? zkl__create_op(c) : zkl__delete_op(c);
            multi->dealt[n++].member = c;
        }
    }
    if (n == 0) {
        return;
    }
    multi->under_way = role;
    multi->listed_at = 0;
    multi->dealt_count = n;
    struct zkl__op op = {.kind = ZKL__OP_MULTI, .parts = multi->parts, .part_count = n};
    zkl__core_request(multi->core, &multi->request, &op);
    ZKL__EACH (struct zkl__contender, c, &multi->members, in_multi) {
        if (is_held_back(c, ZKL__ROLE_LIST)) {
            struct zkl__op list = {.kind = ZKL__OP_CHILDREN, .dir = c->config.path};
            c->held_back &= ~UNDER_WAY(ZKL__ROLE_LIST);
            c->listed_at = multi->core->now;
            zkl__core_send(multi->core, &c->machine, ZKL__ROLE_LIST, &list);
        }
    }
}

/* --- what follows from the members' steps ---------------------------------------------------- */

/* Somebody may have deleted a znode since a list showed it first. So all lists must be as young as
 * the youngest was when all members were first for the first time. True: some are older, and these
 * members list again. */
static bool look_again(struct zkl__multi *multi)
{
    bool old = false, first = multi->listed_at == 0;
    ZKL__EACH (const struct zkl__contender, c, &multi->members, in_multi) {
        if (first && c->listed_at > multi->listed_at) {
            multi->listed_at = c->listed_at;
        }
    }
    ZKL__EACH (struct zkl__contender, c, &multi->members, in_multi) {
        if (c->listed_at < multi->listed_at) {
            old = true;
            zkl__contender_post(c, ZKL__EV_LIST);
        }
    }
    return old;
}

/* To its members. */
static void on_order(struct zkl__machine *machine, const struct zkl__event *order)
{
    struct zkl__multi *multi = (struct zkl__multi *)machine;
    static const struct zkl__event release = {.kind = ZKL__EV_RELEASE};
    bool releases = order->kind == ZKL__EV_RELEASE, ends = order->kind == ZKL__EV_LET_GO;
    if (ends && multi->granted == multi->count && multi->released == 0) {
        on_order(machine, &release); /* read first, so one transaction deletes all znodes */
    }
    if (releases) {
        multi->gathering = multi->under_way == ZKL__ROLE_NONE;
        zkl__core_post(machine);
    }
    ZKL__EACH (struct zkl__contender, c, &multi->members, in_multi) {
        if (!releases || c->state == ZKL__HELD || c->state == ZKL__LOST) {
            c->machine.ops->order(&c->machine, order);
        }
    }
    if (ends) {
        multi->failed = true; /* what it held back is refused */
        multi->config.notify = NULL;
        bury_if_unused(multi);
    }
}

static void step_multi(struct zkl__machine *machine)
{
    static const struct zkl__reply unsent = {.rc = ZKL__RC_UNSENT, .unsent = ZKL_ECONNECT};
    struct zkl__multi *multi = (struct zkl__multi *)machine;
    multi->open = false; /* whoever could be granted has been */
    /* Have some members a znode of a transaction of which others have none? */
    bool idle = multi->under_way == ZKL__ROLE_NONE, asked = false, placed = false, apart = false;
    size_t held_back = 0, ready = 0;
    int64_t czxid = 0;
    ZKL__EACH (const struct zkl__contender, c, &multi->members, in_multi) {
        held_back += is_held_back(c, ZKL__ROLE_CREATE);
        /* Nothing but a lease is between it and its grant. */
        ready += c->state == ZKL__PROVING && c->retry.at <= multi->core->now && c->node.czxid;
        if (zkl__contender_waits(c)) {
            /* The transaction was sent twice, and somebody deleted a part of the first copy. Znodes
             * of both copies are in no common order: they and another multi-contender's might wait
             * for each other. */
            bool known = zkl__node_certain(&c->node);
            apart |= known && czxid && c->node.czxid != czxid;
            czxid = known ? c->node.czxid : czxid;
            asked |= is_held_back(c, ZKL__ROLE_CREATE);
            placed |= zkl__node_known(&c->node);
        }
    }
    if (multi->gathering) {
        multi->gathering = false;
        send_all(multi, ZKL__ROLE_DELETE); /* of the members that held */
    } else if (multi->failed) {
        ZKL__EACH (struct zkl__contender, c, &multi->members, in_multi) {
            if (zkl__contender_waits(c)) {
                c->mail.code = ZKL_ECANCELED;
                zkl__contender_post(c, ZKL__EV_CANCEL);
            }
            if (is_held_back(c, ZKL__ROLE_CREATE)) {
                /* Not wanted any more before the others asked: it was never sent. */
                if (is_held_back(c, ZKL__ROLE_LIST)) {
                    zkl__contender_post_reply(c, ZKL__ROLE_LIST, &unsent);
                }
                zkl__contender_post_reply(c, ZKL__ROLE_CREATE, &unsent);
                c->held_back = 0;
            }
        }
    } else if (idle && (apart || (asked && placed))) {
        on_order(machine, &(struct zkl__event){.kind = ZKL__EV_CANCEL, .code = ZKL_ELOST});
    } else if (idle && held_back == multi->count) {
        send_all(multi, ZKL__ROLE_CREATE);
    } else if (ready == multi->count && zkl__core_grants(multi->core) && !look_again(multi)) {
        multi->open = true;
        ZKL__EACH (struct zkl__contender, c, &multi->members, in_multi) {
            zkl__contender_post(c, ZKL__EV_LOOK);
        }
    }
}

static const struct zkl__machine_ops multi_ops = {.rank = ZKL__RANK_LATER,
                                                  .step = step_multi,
                                                  .holds = holds_all,
                                                  .order = on_order,
                                                  .free = free_multi};

struct zkl__multi *zkl__multi_new(struct zkl__core *core,
                                  const struct zkl__contender_config *config,
                                  const char *const *paths, size_t count)
{
    struct zkl__multi *multi = zkl__zalloc(
        &core->config.heap, sizeof *multi + count * (sizeof *multi->dealt + sizeof *multi->parts));
    if (!multi) {
        return NULL;
    }
    multi->machine.ops = &multi_ops;
    multi->machine.core = core;
    multi->core = core;
    multi->config = *config;
    multi->count = count;
    multi->request = (struct zkl__request){.done = on_done, .owner = multi};
    multi->parts = (struct zkl__op *)&multi->dealt[count];
    struct zkl__contender_config member = *config;
    member.notify = on_outcome;
    member.owner = multi;
    for (size_t i = 0; i < count; i++) {
        member.path = paths[i];
        struct zkl__contender *c = zkl__contender_new(core, &member);
        if (!c) {
            zkl__session_step(
                core, &(struct zkl__event){.kind = ZKL__EV_LET_GO, .machine = &multi->machine});
            return NULL;
        }
        c->multi = multi;
        zkl__list_append(&multi->members, &c->in_multi);
    }
    return multi;
}
