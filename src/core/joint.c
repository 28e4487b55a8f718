#include "joint.h"
#include "contender_moves.h"

#include <string.h>

static void on_done(struct zkl__request *request, const struct zkl__reply *reply);

struct zkl__joint *zkl__joint_new(struct zkl__core *core, struct zkl__contender *const *members, size_t count)
{
    const zkl_heap *heap = members[0]->heap;
    struct zkl__joint *joint = zkl__zalloc(heap, sizeof *joint);
    if (!joint) {
        return NULL;
    }
    joint->parts = zkl__zalloc(heap, count * sizeof *joint->parts);
    joint->seats = zkl__zalloc(heap, count * sizeof *joint->seats);
    joint->dealt = zkl__zalloc(heap, count * sizeof *joint->dealt);
    joint->core = core;
    joint->request.done = on_done;
    joint->request.owner = joint;
    joint->alive = 1;
    if (!joint->parts || !joint->seats || !joint->dealt) {
        zkl__joint_free(joint, heap);
        return NULL;
    }
    joint->count = count;
    joint->alive += count;
    for (size_t i = 0; i < count; i++) {
        joint->seats[i] = members[i];
        members[i]->joint = joint;
        members[i]->seat = i;
    }
    return joint;
}

void zkl__joint_free(struct zkl__joint *joint, const zkl_heap *heap)
{
    if (--joint->alive == 0) {
        zkl__free(heap, joint->parts);
        zkl__free(heap, joint->seats);
        zkl__free(heap, joint->dealt);
        zkl__free(heap, joint);
    }
}

void zkl__joint_leave(struct zkl__contender *c)
{
    if (c->joint) {
        c->joint->seats[c->seat] = NULL;
        zkl__joint_free(c->joint, c->heap);
        c->joint = NULL;
    }
}

bool zkl__joint_holds_back(struct zkl__contender *c, enum zkl__role role)
{
    bool held_back = role == ZKL__ROLE_CREATE || (role == ZKL__ROLE_DELETE && c->joint->gathering) ||
                     (role == ZKL__ROLE_LIST && (c->held_back & UNDER_WAY(ZKL__ROLE_CREATE)));
    if (held_back) {
        c->held_back |= UNDER_WAY(role);
    }
    return held_back;
}

static void feed_reply(struct zkl__joint *joint, struct zkl__contender *c, enum zkl__role role,
                       const struct zkl__reply *reply)
{
    zkl__core_feed(
        joint->core, c,
        (struct zkl__contender_event){.kind = ZKL__CE_REPLY, .role = role, .reply = reply, .code = ZKL_ECONNECT});
}

/* What the answer of the transaction says to the owner of its i-th part. */
static struct zkl__reply deal(const struct zkl__reply *reply, size_t i)
{
    struct zkl__reply mine = {.rc = reply->rc, .zk_code = reply->zk_code};
    bool word = zkl__rc_answered(reply->rc) && reply->rc != ZKL__RC_NOTAPPLIED && i < reply->part_count;
    if (word && reply->rc == ZKL__RC_OK) {
        mine = reply->parts[i];
    } else if (word) {
        bool guilty = reply->parts[i].rc != ZKL__RC_OK && reply->parts[i].rc != ZKL__RC_ROLLEDBACK;
        mine.rc = guilty ? reply->parts[i].rc : ZKL__RC_NOTAPPLIED; /* the others' fault: once more */
        mine.zk_code = reply->parts[i].zk_code;
    }
    return mine;
}

static void on_done(struct zkl__request *request, const struct zkl__reply *reply)
{
    struct zkl__joint *joint = request->owner;
    enum zkl__role role = joint->under_way;
    size_t count = joint->dealt_count;
    joint->under_way = ZKL__ROLE_NONE;
    joint->alive++; /* stays while its members may go */
    for (size_t i = 0; i < count; i++) {
        joint->dealt[i]->in_flight--;
    }
    for (size_t i = 0; i < count; i++) {
        struct zkl__reply mine = deal(reply, i);
        feed_reply(joint, joint->dealt[i], role, &mine);
    }
    zkl__joint_free(joint, zkl__core_heap(joint->core));
}

static bool all_ask(const struct zkl__joint *joint, enum zkl__role role)
{
    bool some = false;
    for (size_t i = 0; i < joint->count; i++) {
        const struct zkl__contender *c = joint->seats[i];
        if (c && !(c->held_back & UNDER_WAY(role))) {
            return false;
        }
        some = some || c;
    }
    return some;
}

/* One transaction for all who ask; then the lists, which stand behind it. */
static void send_all(struct zkl__joint *joint, enum zkl__role role)
{
    size_t n = 0;
    for (size_t i = 0; i < joint->count; i++) {
        struct zkl__contender *c = joint->seats[i];
        if (c && (c->held_back & UNDER_WAY(role))) {
            c->held_back &= ~UNDER_WAY(role);
            c->in_flight++;
            joint->parts[n] = role == ZKL__ROLE_CREATE ? zkl__create_op(c) : zkl__delete_op(c);
            joint->dealt[n++] = c;
        }
    }
    joint->under_way = role;
    joint->dealt_count = n;
    struct zkl__op op = {.kind = ZKL__OP_MULTI, .parts = joint->parts, .part_count = n};
    int code = zkl__core_send(joint->core, NULL, &joint->request, ZKL__ROLE_NONE, &op);
    for (size_t i = 0; i < joint->count; i++) {
        struct zkl__contender *c = joint->seats[i];
        if (c && (c->held_back & UNDER_WAY(ZKL__ROLE_LIST))) {
            struct zkl__op list = {.kind = ZKL__OP_CHILDREN, .dir = c->config.path};
            c->held_back &= ~UNDER_WAY(ZKL__ROLE_LIST);
            if (zkl__core_send(joint->core, c, NULL, ZKL__ROLE_LIST, &list) != ZKL_OK) {
                const struct zkl__reply refusal = {.rc = ZKL__RC_UNSENT};
                feed_reply(joint, c, ZKL__ROLE_LIST, &refusal);
            }
        }
    }
    if (code != ZKL_OK) {
        const struct zkl__reply refusal = {.rc = ZKL__RC_UNSENT};
        on_done(&joint->request, &refusal);
    }
}

/* Not wanted any more before the others asked: it was never sent. */
static void withdraw(struct zkl__contender *c)
{
    const struct zkl__reply refusal = {.rc = ZKL__RC_UNSENT};
    uint32_t held_back = c->held_back;
    struct zkl__joint *joint = c->joint;
    c->held_back = 0;
    if (held_back & UNDER_WAY(ZKL__ROLE_LIST)) {
        feed_reply(joint, c, ZKL__ROLE_LIST, &refusal);
    }
    if (!c->buried && (held_back & UNDER_WAY(ZKL__ROLE_CREATE))) {
        feed_reply(joint, c, ZKL__ROLE_CREATE, &refusal);
    }
}

void zkl__joint_look(struct zkl__contender *c)
{
    struct zkl__joint *joint = c->joint;
    if (!zkl__contender_waits(c) && (c->held_back & UNDER_WAY(ZKL__ROLE_CREATE))) {
        withdraw(c);
    } else if (joint->under_way == ZKL__ROLE_NONE && c->held_back && all_ask(joint, ZKL__ROLE_CREATE)) {
        send_all(joint, ZKL__ROLE_CREATE);
    }
}

void zkl__joint_release(struct zkl__joint *joint)
{
    joint->alive++;
    joint->gathering = joint->under_way == ZKL__ROLE_NONE;
    for (size_t i = 0; i < joint->count; i++) {
        struct zkl__contender *c = joint->seats[i];
        if (c && (c->state == ZKL__HELD || c->state == ZKL__LOST)) {
            zkl__core_feed(joint->core, c, (struct zkl__contender_event){.kind = ZKL__CE_RELEASE});
        }
    }
    bool asked = false;
    for (size_t i = 0; joint->gathering && i < joint->count; i++) {
        asked = asked || (joint->seats[i] && (joint->seats[i]->held_back & UNDER_WAY(ZKL__ROLE_DELETE)));
    }
    joint->gathering = false;
    if (asked) {
        send_all(joint, ZKL__ROLE_DELETE);
    }
    zkl__joint_free(joint, zkl__core_heap(joint->core));
}
