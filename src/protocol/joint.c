/* joint.c - a multi-contender: contenders in several queues, its members. One transaction creates
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
#include "session_step.h"

#include <string.h>

/* --- life ------------------------------------------------------------------------------------ */

static void free_joint(struct zkl__joint *joint)
{
    const zkl_heap *heap = &joint->core->config.heap;
    zkl__free(heap, joint->parts);
    zkl__free(heap, joint->seats);
    zkl__free(heap, joint->dealt);
    zkl__free(heap, joint->replies);
    zkl__free(heap, joint);
}

static void joint_unref(struct zkl__joint *joint)
{
    if (--joint->refs == 0) {
        free_joint(joint);
    }
}

void zkl__joint_disown(struct zkl__joint *joint)
{
    if (joint->notify) {
        joint->notify = NULL;
        joint_unref(joint);
    }
}

void zkl__joint_leave(struct zkl__contender *c)
{
    if (c->joint) {
        c->joint->seats[c->seat] = NULL;
        joint_unref(c->joint);
        c->joint = NULL;
    }
}

static void on_done(struct zkl__request *request, const struct zkl__reply *reply);
static void on_outcome(void *owner, const struct zkl__outcome *outcome);
static void settle(struct zkl__core *core, struct zkl__machine *machine);

static const struct zkl__machine_ops joint_ops = {.rank = ZKL__RANK_LATER, .step = settle};

static struct zkl__joint *make(struct zkl__core *core, size_t count)
{
    const zkl_heap *heap = &core->config.heap;
    struct zkl__joint *joint = zkl__zalloc(heap, sizeof *joint);
    if (!joint) {
        return NULL;
    }
    joint->machine.ops = &joint_ops;
    joint->core = core;
    joint->count = count;
    joint->refs = 1;
    joint->request = (struct zkl__request){.done = on_done, .owner = joint};
    joint->parts = zkl__zalloc(heap, count * sizeof *joint->parts);
    joint->seats = zkl__zalloc(heap, count * sizeof *joint->seats);
    joint->dealt = zkl__zalloc(heap, count * sizeof *joint->dealt);
    joint->replies = zkl__zalloc(heap, count * sizeof *joint->replies);
    if (!joint->parts || !joint->seats || !joint->dealt || !joint->replies) {
        free_joint(joint);
        return NULL;
    }
    return joint;
}

struct zkl__joint *zkl__joint_new(struct zkl__core *core,
                                  const struct zkl__contender_config *config,
                                  const char *const *paths, size_t count)
{
    struct zkl__joint *joint = make(core, count);
    if (!joint) {
        return NULL;
    }
    struct zkl__contender_config member = *config;
    member.notify = on_outcome;
    member.owner = joint;
    joint->notify = config->notify;
    joint->owner = config->owner;
    for (size_t i = 0; i < count; i++) {
        member.path = paths[i];
        struct zkl__contender *c = zkl__contender_new(core, &member);
        if (!c) {
            zkl__session_step(core, &(struct zkl__event){.kind = ZKL__EV_LET_GO, .joint = joint});
            return NULL;
        }
        c->joint = joint;
        c->seat = (unsigned)i;
        joint->seats[i] = c;
        joint->refs++;
    }
    return joint;
}

void zkl__joint_end(struct zkl__joint *joint)
{
    if (joint->granted == joint->count && joint->released == 0) {
        zkl__joint_release(joint); /* read first, so one transaction takes all places */
    }
    for (size_t i = 0; i < joint->count; i++) {
        if (joint->seats[i]) {
            zkl__contender_leave(joint->seats[i]);
        }
    }
    zkl__joint_disown(joint);
}

bool zkl__joint_holds(const struct zkl__core *core, const struct zkl__joint *joint, int64_t now)
{
    for (size_t i = 0; i < joint->count; i++) {
        if (!joint->seats[i] || !zkl__contender_holds(core, joint->seats[i], now)) {
            return false;
        }
    }
    return true;
}

const char *zkl__joint_node(const struct zkl__joint *joint, size_t seat)
{
    return joint->seats[seat] ? zkl__contender_node(joint->seats[seat]) : "";
}

/* --- what the owner is told ------------------------------------------------------------------ */

static void tell(struct zkl__joint *joint, const struct zkl__outcome *outcome)
{
    if (joint->notify) {
        joint->notify(joint->owner, outcome);
    }
}

static void tell_last(struct zkl__joint *joint, const struct zkl__outcome *outcome)
{
    if (joint->notify) {
        joint->notify(joint->owner, outcome);
        joint->notify = NULL;
        joint_unref(joint); /* not the last: the member that tells it is one */
    }
}

/* Inside a step of a member. No member is downgraded. */
static void on_outcome(void *owner, const struct zkl__outcome *outcome)
{
    struct zkl__joint *joint = owner;
    struct zkl__outcome last = *outcome;
    bool jeopardy = outcome->kind == ZKL__JEOPARDY;
    switch (outcome->kind) {
    case ZKL__GRANTED:
        if (++joint->granted == joint->count) {
            tell(joint, outcome);
        }
        break;
    case ZKL__FAILED:
        if (!joint->failed) {
            joint->failed = true;
            tell_last(joint, outcome);
        }
        break;
    case ZKL__JEOPARDY:
    case ZKL__SAFE:
        if (joint->jeopardy != jeopardy && !joint->lost) {
            joint->jeopardy = jeopardy;
            tell(joint, outcome);
        }
        break;
    case ZKL__LOSS:
        if (!joint->lost) {
            joint->lost = true;
            tell(joint, outcome);
        }
        break;
    case ZKL__RELEASED:
        joint->code = outcome->code != ZKL_OK ? outcome->code : joint->code;
        last.code = joint->code;
        if (++joint->released == joint->count) {
            tell_last(joint, &last);
        }
        break;
    default: /* REVOKED */
        tell(joint, outcome);
    }
}

/* --- the transaction ------------------------------------------------------------------------- */

static bool asks(const struct zkl__contender *c, enum zkl__role role)
{
    return c && (c->held_back & UNDER_WAY(role));
}

bool zkl__joint_holds_back(struct zkl__contender *c, enum zkl__role role)
{
    bool held_back = role == ZKL__ROLE_CREATE ||
                     (role == ZKL__ROLE_DELETE && c->joint->gathering) ||
                     (role == ZKL__ROLE_LIST && asks(c, ZKL__ROLE_CREATE));
    if (held_back) {
        c->held_back |= UNDER_WAY(role);
    }
    return held_back;
}

/* What the answer of the transaction says to the owner of its i-th part. False: that it failed
 * through another's fault. */
static bool deal(struct zkl__reply *mine, const struct zkl__reply *reply, size_t i)
{
    *mine =
        (struct zkl__reply){.rc = reply->rc, .zk_code = reply->zk_code, .unsent = reply->unsent};
    if (!zkl__rc_answered(reply->rc) || reply->rc == ZKL__RC_NOTAPPLIED || i >= reply->part_count) {
        return true;
    }
    if (reply->rc == ZKL__RC_OK) {
        *mine = reply->parts[i];
        return true;
    }
    mine->rc = reply->parts[i].rc;
    mine->zk_code = reply->parts[i].zk_code;
    return mine->rc != ZKL__RC_OK && mine->rc != ZKL__RC_ROLLEDBACK;
}

static void on_done(struct zkl__request *request, const struct zkl__reply *reply)
{
    struct zkl__joint *joint = request->owner;
    enum zkl__role role = joint->under_way;
    joint->under_way = ZKL__ROLE_NONE;
    for (size_t i = 0; i < joint->dealt_count; i++) {
        struct zkl__contender *c = joint->dealt[i];
        struct zkl__reply *mine = &joint->replies[i];
        c->in_flight--;
        if (deal(mine, reply, i)) {
            zkl__contender_post_reply(c, role, mine);
        } else if (role == ZKL__ROLE_CREATE) {
            c->held_back |= UNDER_WAY(role); /* once more as soon as the other asks */
        } else {
            *mine = (struct zkl__reply){.rc = ZKL__RC_NOTAPPLIED};
            zkl__contender_post_reply(c, role, mine);
        }
    }
    zkl__joint_post(joint);
}

static void send_lists(struct zkl__joint *joint)
{
    for (size_t i = 0; i < joint->count; i++) {
        struct zkl__contender *c = joint->seats[i];
        if (asks(c, ZKL__ROLE_LIST)) {
            struct zkl__op list = {.kind = ZKL__OP_CHILDREN, .dir = c->config.path};
            c->held_back &= ~UNDER_WAY(ZKL__ROLE_LIST);
            c->in_flight++;
            c->listed_at = joint->core->now;
            zkl__core_send(joint->core, &c->machine, ZKL__ROLE_LIST, &list);
        }
    }
}

/* One transaction for all who ask; then the lists, which stand behind it. */
static void send_all(struct zkl__joint *joint, enum zkl__role role)
{
    size_t n = 0;
    for (size_t i = 0; i < joint->count; i++) {
        struct zkl__contender *c = joint->seats[i];
        if (asks(c, role)) {
            c->held_back &= ~UNDER_WAY(role);
            c->in_flight++;
            joint->parts[n] = role == ZKL__ROLE_CREATE ? zkl__create_op(c) : zkl__delete_op(c);
            joint->dealt[n++] = c;
        }
    }
    joint->under_way = role;
    joint->dealt_count = n;
    struct zkl__op op = {.kind = ZKL__OP_MULTI, .parts = joint->parts, .part_count = n};
    zkl__core_request(joint->core, &joint->request, &op);
    send_lists(joint);
}

/* --- what follows from the members' steps ---------------------------------------------------- */

/* Not wanted any more before the others asked: it was never sent. */
static void withdraw(struct zkl__contender *c)
{
    uint32_t held_back = c->held_back;
    c->held_back = 0;
    if (held_back & UNDER_WAY(ZKL__ROLE_LIST)) {
        zkl__contender_post_refusal(c, ZKL__ROLE_LIST, ZKL_ECONNECT);
    }
    zkl__contender_post_refusal(c, ZKL__ROLE_CREATE, ZKL_ECONNECT);
}

static void give_up(struct zkl__joint *joint)
{
    for (size_t i = 0; i < joint->count; i++) {
        struct zkl__contender *c = joint->seats[i];
        if (c && zkl__contender_waits(c)) {
            c->mail.code = ZKL_ECANCELED;
            zkl__contender_post(c, ZKL__CE_CANCEL);
        }
        if (asks(c, ZKL__ROLE_CREATE)) {
            withdraw(c);
        }
    }
}

/* Some have a place of a transaction that others have no place of. */
static bool broken(const struct zkl__joint *joint)
{
    bool asked = false, placed = false;
    int64_t czxid = 0;
    for (size_t i = 0; i < joint->count && joint->under_way == ZKL__ROLE_NONE; i++) {
        const struct zkl__contender *c = joint->seats[i];
        if (!c || !zkl__contender_waits(c)) {
            continue;
        }
        /* Of a transaction that was sent twice somebody removed part of the first copy: places of
         * both are no order, and might wait for another joint's crosswise. */
        bool known = zkl__node_certain(&c->node);
        if (known && czxid && c->node.czxid != czxid) {
            return true;
        }
        czxid = known ? c->node.czxid : czxid;
        asked = asked || asks(c, ZKL__ROLE_CREATE);
        placed = placed || zkl__node_known(&c->node);
    }
    return asked && placed;
}

static bool all_ask(const struct zkl__joint *joint)
{
    bool all = joint->under_way == ZKL__ROLE_NONE;
    for (size_t i = 0; i < joint->count; i++) {
        all = all && asks(joint->seats[i], ZKL__ROLE_CREATE);
    }
    return all;
}

static bool all_ready(const struct zkl__joint *joint)
{
    int64_t now = joint->core->now;
    bool all = zkl__core_grants(joint->core);
    for (size_t i = 0; i < joint->count; i++) {
        all = all && joint->seats[i] && zkl__contender_ready(joint->seats[i], now);
    }
    return all;
}

static void post_all(struct zkl__joint *joint, enum zkl__contender_event_kind kind)
{
    for (size_t i = 0; i < joint->count; i++) {
        if (joint->seats[i]) {
            zkl__contender_post(joint->seats[i], kind);
        }
    }
}

/* A place that was first long ago may have been removed by somebody since. So all lists must be as
 * young as the youngest was when all were first for the first time. True when some are not: they
 * look again. */
static bool look_again(struct zkl__joint *joint)
{
    bool old = false;
    if (joint->listed_at == 0) {
        for (size_t i = 0; i < joint->count; i++) {
            int64_t at = joint->seats[i]->listed_at;
            joint->listed_at = at > joint->listed_at ? at : joint->listed_at;
        }
    }
    for (size_t i = 0; i < joint->count; i++) {
        struct zkl__contender *c = joint->seats[i];
        if (c && c->listed_at < joint->listed_at) {
            old = true;
            zkl__contender_post(c, ZKL__CE_LIST);
        }
    }
    return old;
}

/* The members that held ask for their deletes: one transaction for all of these. */
static void gather(struct zkl__joint *joint)
{
    bool asked = false;
    for (size_t i = 0; i < joint->count; i++) {
        asked = asked || asks(joint->seats[i], ZKL__ROLE_DELETE);
    }
    joint->gathering = false;
    if (asked) {
        send_all(joint, ZKL__ROLE_DELETE);
    }
}

static void settle(struct zkl__core *core, struct zkl__machine *machine)
{
    struct zkl__joint *joint = (struct zkl__joint *)machine;
    (void)core;
    joint->open = false; /* whoever could be granted has been */
    if (joint->gathering) {
        gather(joint);
    } else if (!joint->failed && broken(joint)) {
        zkl__joint_cancel(joint, ZKL_ELOST);
    } else if (joint->failed) {
        give_up(joint);
    } else if (all_ask(joint)) {
        send_all(joint, ZKL__ROLE_CREATE);
    } else if (all_ready(joint) && !look_again(joint)) {
        joint->open = true;
        post_all(joint, ZKL__CE_LOOK);
    }
    joint_unref(joint);
}

void zkl__joint_post(struct zkl__joint *joint)
{
    joint->refs += !joint->machine.ready;
    zkl__core_post(joint->core, &joint->machine);
}

void zkl__joint_start(struct zkl__joint *joint, int64_t deadline, bool try_only)
{
    for (size_t i = 0; i < joint->count; i++) {
        if (joint->seats[i]) {
            zkl__contender_start(joint->seats[i], deadline, try_only);
        }
    }
}

void zkl__joint_cancel(struct zkl__joint *joint, int code)
{
    for (size_t i = 0; i < joint->count; i++) {
        if (joint->seats[i]) {
            joint->seats[i]->mail.code = code;
        }
    }
    post_all(joint, ZKL__CE_CANCEL);
}

void zkl__joint_release(struct zkl__joint *joint)
{
    joint->gathering = joint->under_way == ZKL__ROLE_NONE;
    for (size_t i = 0; i < joint->count; i++) {
        struct zkl__contender *c = joint->seats[i];
        if (c && (c->state == ZKL__HELD || c->state == ZKL__LOST)) {
            zkl__contender_post(c, ZKL__CE_RELEASE);
        }
    }
    zkl__joint_post(joint);
}
