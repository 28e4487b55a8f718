/* A membership against a model of one name on a server, with answers that are lost, creates that come late, other sessions. */
#include "check.h"
#include "core_internal.h"
#include "dice.h"

#define PATH "/clubs/test"
#define STRAY 0
#define SEEDS 3000
#define STEPS 300

static struct zkl__core core;

static struct world {
    uint64_t seed, rolls;
    struct zkl__membership m;
    char make_path[sizeof PATH];
    bool directory, above;
    bool present; /* the name is there: */
    int64_t owner;
    int32_t version;
    char data[16];
    bool watched, fired;
    bool late; /* a create of ours is still on its way */
    size_t foreign, creates;
} w;

static struct zkl__peer_queue queue; /* has no rival */

static void note(void *owner) {}

static uint64_t roll(uint64_t sides)
{
    return dice_at(w.seed, 1, w.rolls++) % sides;
}

static void change(void)
{
    w.fired = w.fired || w.watched;
    w.watched = false;
}

static void put(int64_t owner, const char *data)
{
    w.present = true;
    w.owner = owner;
    w.version = 0;
    snprintf(w.data, sizeof w.data, "%s", data);
    w.creates += owner == core.session_id;
    change();
}

static void drop(void)
{
    w.present = false;
    change();
}

/* What was sent earlier comes before a write that is committed, or never. */
static void settle_late(void)
{
    if (w.late && w.directory && !w.present && roll(2)) {
        put(core.session_id, "late");
    }
    w.late = false;
}

/* --- the server ---------------------------------------------------------------------------------------------------- */

static enum zkl__rc create(const struct zkl__op *op)
{
    if (!op->name) {
        bool leaf = strcmp(op->dir, PATH) == 0, *made = leaf ? &w.directory : &w.above;
        if (leaf && !w.above) {
            return ZKL__RC_NONODE;
        }
        bool was = *made;
        *made = true;
        return was ? ZKL__RC_NODEEXISTS : ZKL__RC_OK;
    }
    if (!w.directory) {
        return ZKL__RC_NONODE;
    }
    if (w.present) {
        return ZKL__RC_NODEEXISTS;
    }
    put(core.session_id, op->data);
    return ZKL__RC_OK;
}

/* By name and version alone, as a server does. */
static enum zkl__rc erase_or_set(const struct zkl__op *op)
{
    if (!w.present || op->version != w.version) {
        return w.present ? ZKL__RC_BADVERSION : ZKL__RC_NONODE;
    }
    w.foreign += w.owner != core.session_id;
    if (op->kind == ZKL__OP_DELETE) {
        drop();
        return ZKL__RC_OK;
    }
    w.version++;
    snprintf(w.data, sizeof w.data, "%.*s", (int)op->size, (const char *)op->data);
    change();
    return ZKL__RC_OK;
}

/* A write that fails is committed as well. */
static enum zkl__rc apply(const struct zkl__op *op, bool refused)
{
    if (op->kind != ZKL__OP_GET && op->kind != ZKL__OP_EXISTS) {
        settle_late();
    }
    if (refused) {
        return ZKL__RC_NOAUTH;
    }
    switch (op->kind) {
    case ZKL__OP_CREATE:
        return create(op);
    case ZKL__OP_DELETE:
    case ZKL__OP_SET:
        return erase_or_set(op);
    case ZKL__OP_CHECK:
        return w.directory ? ZKL__RC_OK : ZKL__RC_NONODE;
    default:
        w.watched = op->watch && w.present;
        return w.present ? ZKL__RC_OK : ZKL__RC_NONODE;
    }
}

static void answer(const struct zkl__op *op)
{
    struct zkl__reply reply = {.rc = apply(op, roll(12) == 0)};
    reply.stat.ephemeral_owner = w.owner;
    reply.stat.version = w.version;
    if (reply.rc == ZKL__RC_OK && op->kind == ZKL__OP_GET) {
        reply.data = w.data;
        reply.size = strlen(w.data);
    }
    zkl__membership_ops.answered(&w.m.watcher, &reply);
}

/* One operation, if there is one to be sent. */
static bool step(bool faults)
{
    struct zkl__op op;
    bool sends = zkl__membership_ops.next(&w.m.watcher, &op);
    w.watched = w.watched && w.m.wanted;
    if (!sends) {
        return false;
    }
    switch (faults ? roll(8) : 7) {
    case 0: /* its answer is lost */
        apply(&op, false);
        break;
    case 1: /* it is lost */
        break;
    case 2: /* a create comes later, or never */
        w.late = w.late || (op.kind == ZKL__OP_CREATE && op.name);
        break;
    default:
        answer(&op);
    }
    return true;
}

/* --- everybody else, and time -------------------------------------------------------------------------------------- */

static void disturb(void)
{
    switch (roll(12)) {
    case 0:
        if (w.directory && !w.present) {
            put(roll(4) ? 7 : STRAY, "other");
        }
        break;
    case 1:
        if (w.present && w.owner != core.session_id) {
            drop();
        }
        break;
    case 2: /* an operator. What nobody could have told us before we delete it is no fault of ours */
        if (w.present && (w.watched || w.m.node != ZKL__MEMBER_STANDS)) {
            drop();
        }
        break;
    case 3: /* the session ends; its node may stay for a while */
        core.session_id++;
        w.late = w.watched = w.fired = false;
        zkl__membership_ops.changed(&w.m.watcher, true);
        break;
    case 4:
        if (w.late && w.directory && !w.present) {
            put(core.session_id, "late");
            w.late = false;
        }
        break;
    case 5:
        if (!w.present) { /* the reaper of containers */
            w.directory = false;
            w.above = roll(2);
        }
        break;
    default:
        break;
    }
}

static void want(void)
{
    static const char *const texts[] = {"", "one", "two"};
    if (roll(6) == 0) {
        (w.m.wanted ? zkl__membership_leave : zkl__membership_join)(&w.m);
    } else if (w.m.wanted && roll(10) == 0) {
        w.m.data = texts[roll(3)];
        w.m.stale = true;
    }
}

static void notice(void)
{
    if (w.fired) {
        w.fired = false;
        zkl__membership_ops.changed(&w.m.watcher, false);
    }
}

/* Without faults, until nothing is sent any more. A refusal is followed by another try. */
static void calm_down(void)
{
    int quiet = 0;
    if (w.present && w.owner == STRAY) { /* would be asked about again and again */
        drop();
        notice();
    }
    for (int i = 0; i < 200 && quiet < 3; i++) {
        quiet = step(false) ? 0 : quiet + 1;
        notice();
    }
    CU_ASSERT_EQUAL(quiet, 3);
}

static void begin(uint64_t seed)
{
    memset(&w, 0, sizeof w);
    w.seed = seed;
    core = (struct zkl__core){.session_id = 100};
    w.m = (struct zkl__membership){.watcher.core = &core,
                                   .queue = &queue,
                                   .note = note,
                                   .path = PATH,
                                   .id = "me",
                                   .data = "",
                                   .make_path = w.make_path};
}

/* Nobody else's is deleted; whoever is in is there once; whoever has left has left nothing, and nothing comes after it. */
TEST(test_at_random)
{
    size_t members = 0, waiting = 0, creates = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        begin(seed);
        for (int i = 0; i < STEPS; i++) {
            disturb();
            notice();
            want();
            step(true);
            notice();
        }
        if (!w.m.wanted) {
            zkl__membership_join(&w.m);
        }
        calm_down();
        bool ours = w.present && w.owner == core.session_id;
        CU_ASSERT_EQUAL(zkl__member_settled(&w.m), ours);
        CU_ASSERT(!ours || strcmp(w.data, w.m.data) == 0);
        CU_ASSERT_TRUE(w.present);
        members += ours;
        waiting += !ours;
        zkl__membership_leave(&w.m);
        calm_down();
        CU_ASSERT_EQUAL(w.m.node, ZKL__MEMBER_NONE);
        CU_ASSERT_FALSE(w.present && w.owner == core.session_id);
        CU_ASSERT_FALSE(w.late);
        CU_ASSERT_EQUAL(w.foreign, 0);
        creates += w.creates;
    }
    CU_ASSERT(members > SEEDS / 2 && waiting > 0 && creates > SEEDS); /* the seeds do not all come to the same */
}

/* The delete is refused; before it is sent again, an operator removes the node, and somebody else takes the name. */
TEST(test_another_one_behind_a_refused_delete)
{
    struct zkl__op op;
    begin(0);
    w.directory = w.above = true;
    zkl__membership_join(&w.m);
    calm_down();
    CU_ASSERT_TRUE(zkl__member_settled(&w.m));
    zkl__membership_leave(&w.m);
    CU_ASSERT_TRUE_FATAL(zkl__membership_ops.next(&w.m.watcher, &op));
    CU_ASSERT_EQUAL(op.kind, ZKL__OP_DELETE);
    const struct zkl__reply reply = {.rc = ZKL__RC_NOAUTH};
    w.m.watcher.retry_at = 0;
    zkl__membership_ops.answered(&w.m.watcher, &reply);
    CU_ASSERT(w.m.watcher.retry_at > 0);
    drop();
    put(7, "other");
    w.watched = w.fired = false;
    calm_down();
    CU_ASSERT_EQUAL(w.foreign, 0);
    CU_ASSERT_EQUAL(w.m.node, ZKL__MEMBER_NONE);
}

TESTS("membership")
