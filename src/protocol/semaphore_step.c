/* semaphore_step.c - what an acquire of a semaphore does next: its states, its contenders, and the
 * order in which it reads its mail. */
#include "semaphore_step.h"

#include "backoff.h"

#define MILLISECOND INT64_C(1000000)
#define PATIENCE_LEAST (200 * MILLISECOND)
#define PATIENCE_MOST (2000 * MILLISECOND)

const struct zkl__rule zkl__semaphore_queue = {"lock-", ZKL__KIND_ANY};
static const struct zkl__rule lease_rule = {"lease-", 0};

/* --- states ---------------------------------------------------------------------------------- */

#define S(state) (1u << (ZKL__SEMAPHORE_##state))
#define ANEW (S(ASKING) | S(GONE)) /* its place was lost, or it ends */

static const struct {
    const char *name;
    uint32_t next; /* where it may go from here */
} states[ZKL__SEMAPHORE_STATES] = {
    [ZKL__SEMAPHORE_NEW] = {"new", ANEW},
    [ZKL__SEMAPHORE_ASKING] = {"asking", S(SEARCHING) | S(QUEUED) | ANEW},
    [ZKL__SEMAPHORE_SEARCHING] = {"searching", S(SEARCHED) | S(QUEUED) | ANEW},
    [ZKL__SEMAPHORE_SEARCHED] = {"searched", S(QUEUED) | ANEW},
    [ZKL__SEMAPHORE_QUEUED] = {"queued", S(MAKING) | ANEW},
    [ZKL__SEMAPHORE_MAKING] = {"making", S(READING) | S(HELD) | ANEW},
    [ZKL__SEMAPHORE_READING] = {"reading", S(MAKING) | S(SETTING) | S(JUDGING) | S(HELD) | ANEW},
    [ZKL__SEMAPHORE_SETTING] = {"setting", S(MAKING) | S(HELD) | ANEW},
    [ZKL__SEMAPHORE_JUDGING] = {"judging", S(MAKING) | S(WAITING) | S(HELD) | ANEW},
    [ZKL__SEMAPHORE_WAITING] = {"waiting", S(MAKING) | ANEW},
    [ZKL__SEMAPHORE_HELD] = {"held", S(LOST) | S(RELEASING) | S(GONE)},
    [ZKL__SEMAPHORE_LOST] = {"lost", S(RELEASING) | S(GONE)},
    [ZKL__SEMAPHORE_RELEASING] = {"releasing", S(GONE)},
    [ZKL__SEMAPHORE_GONE] = {"gone", 0},
};

/* What each state says about its contenders. Whoever is granted has all its leases. */
static void check_sound(const struct zkl__semaphore *s)
{
    bool head = s->state >= ZKL__SEMAPHORE_MAKING && zkl__semaphore_waits(s);
    ZKL__ENSURE(zkl__semaphore_waits(s) == (s->place != NULL));
    ZKL__ENSURE(zkl__semaphore_held(s) == (head                      ? s->config.count
                                           : zkl__semaphore_waits(s) ? 0
                                                                     : zkl__semaphore_held(s)));
    ZKL__ENSURE(zkl__semaphore_waits(s) ||
                (!s->busy && s->looks == 0 && !s->leases && !s->watch.on && !s->limit_watch.on));
    ZKL__ENSURE((!s->watch.on && !s->limit_watch.on && s->limit == ZKL__LIMIT_UNREAD) || head);
    for (int i = 0; i < s->config.count && s->state == ZKL__SEMAPHORE_HELD; i++) {
        const struct zkl__contender *lease = s->permits[i].contender;
        ZKL__ENSURE(!lease || (lease->state == ZKL__HELD &&
                               zkl__node_czxid(&lease->node) == s->permits[i].token));
    }
}

void zkl__semaphore_move(struct zkl__semaphore *s, enum zkl__semaphore_state state, const char *why)
{
    ZKL__ENSURE(states[s->state].next & (1u << state));
    zkl__core_trace_at(s->core, s->config.path, s->number, "%s -> %s: %s", states[s->state].name,
                       states[state].name, why);
    s->state = state;
}

/* --- its contenders -------------------------------------------------------------------------- */

static struct zkl__contender *contender_new(struct zkl__semaphore *s, const struct zkl__rule *rule,
                                            const char *path,
                                            void (*notify)(void *, const struct zkl__outcome *),
                                            void *owner)
{
    const struct zkl__contender_config *mine = &s->config.contender;
    const struct zkl__contender_config config = {.rule = rule,
                                                 .path = path,
                                                 .metadata = mine->metadata,
                                                 .acl = mine->acl,
                                                 .fail_on_expiry = mine->fail_on_expiry,
                                                 .notify = notify,
                                                 .owner = owner};
    return zkl__contender_new(s->core, &config);
}

bool zkl__semaphore_make_place(struct zkl__semaphore *s)
{
    s->place = contender_new(s, &zkl__semaphore_queue, s->config.locks, zkl__semaphore_on_place, s);
    return s->place != NULL;
}

static void make_leases(struct zkl__semaphore *s)
{
    for (int i = 0; i < s->config.count; i++) {
        struct zkl__permit *permit = &s->permits[i];
        permit->contender =
            contender_new(s, &lease_rule, s->config.leases, zkl__semaphore_on_lease, permit);
        if (!permit->contender) {
            zkl__semaphore_fail(s, ZKL_ENOMEM, 0, "out of memory");
            return;
        }
        zkl__contender_start(permit->contender, INT64_MAX, false);
    }
}

static void drop(struct zkl__contender **contender)
{
    struct zkl__contender *gone = *contender;
    *contender = NULL;
    if (gone) {
        zkl__contender_leave(gone);
    }
}

static void drop_leases(struct zkl__semaphore *s)
{
    for (int i = 0; i < s->config.count; i++) {
        drop(&s->permits[i].contender);
        s->permits[i].token = 0;
    }
}

/* What it waited with: nothing is asked, and nobody watches. */
static void stop_waiting(struct zkl__semaphore *s)
{
    zkl__semaphore_forget_leases(s);
    zkl__watch_remove(s->core, &s->watch);
    zkl__watch_remove(s->core, &s->limit_watch);
    drop(&s->place);
    s->crowded = false;
    s->limit = ZKL__LIMIT_UNREAD;
    s->retry_at = s->patience = 0;
    s->mail &= ~(1u << ZKL__SM_AGAIN | 1u << ZKL__SM_LIMIT | 1u << ZKL__SM_REPLY |
                 1u << ZKL__SM_WATCH | 1u << ZKL__SM_JUDGED);
}

/* --- moves ----------------------------------------------------------------------------------- */

void zkl__semaphore_end(struct zkl__semaphore *s, const char *why)
{
    stop_waiting(s);
    drop_leases(s);
    zkl__semaphore_move(s, ZKL__SEMAPHORE_GONE, why);
    zkl__semaphore_post(s, ZKL__SM_LOOK); /* to be freed */
}

void zkl__semaphore_fail(struct zkl__semaphore *s, int code, int zk_code, const char *why)
{
    s->code = code;
    s->zk_code = zk_code;
    zkl__semaphore_end(s, why);
    zkl__semaphore_tell(s, ZKL__FAILED, why);
}

void zkl__semaphore_again(struct zkl__semaphore *s)
{
    stop_waiting(s);
    drop_leases(s);
    if (s->config.contender.fail_on_expiry) {
        zkl__semaphore_fail(s, ZKL_ELOST, 0,
                            "the session ended, or our nodes were removed by somebody");
    } else if (!zkl__semaphore_make_place(s)) {
        zkl__semaphore_fail(s, ZKL_ENOMEM, 0, "out of memory");
    } else {
        zkl__semaphore_move(s, ZKL__SEMAPHORE_ASKING, "our place or a lease of ours was lost");
        zkl__contender_start(s->place, s->deadline, s->try_only);
    }
}

bool zkl__semaphore_leased(const struct zkl__semaphore *s, int64_t now)
{
    for (int i = 0; i < s->config.count; i++) {
        const struct zkl__contender *lease = s->permits[i].contender;
        if (lease && !zkl__contender_holds(s->core, lease, now)) {
            return false;
        }
    }
    return true;
}

/* Its leases were told before it was granted. */
static bool in_jeopardy(const struct zkl__semaphore *s)
{
    for (int i = 0; i < s->config.count; i++) {
        if (s->permits[i].contender && s->permits[i].contender->jeopardy_told) {
            return true;
        }
    }
    return false;
}

void zkl__semaphore_grant(struct zkl__semaphore *s, const char *why)
{
    int64_t max_hold = s->config.contender.max_hold;
    zkl__semaphore_move(s, ZKL__SEMAPHORE_HELD, why);
    stop_waiting(s);
    s->deadline = max_hold > 0 ? zkl__core_now(s->core) + max_hold : INT64_MAX;
    zkl__semaphore_tell(s, ZKL__GRANTED, "granted");
    s->jeopardy = in_jeopardy(s);
    if (s->jeopardy) {
        zkl__semaphore_tell(s, ZKL__JEOPARDY, "little of the lease was left at the grant");
    }
}

void zkl__semaphore_put_off(struct zkl__semaphore *s)
{
    s->patience = zkl__backoff(s->patience, PATIENCE_LEAST, PATIENCE_MOST);
    s->retry_at = zkl__core_now(s->core) + s->patience;
}

void zkl__semaphore_ask(struct zkl__semaphore *s, struct zkl__op op)
{
    s->busy = true;
    zkl__core_send(s->core, &s->machine, ZKL__ROLE_SEMAPHORE, &op);
}

static bool all_made(const struct zkl__semaphore *s)
{
    for (int i = 0; i < s->config.count; i++) {
        if (s->permits[i].token == 0) {
            return false;
        }
    }
    return true;
}

/* Asks for what its state needs. */
static void advance(struct zkl__semaphore *s)
{
    if (s->busy || !zkl__core_connected(s->core) || zkl__core_now(s->core) < s->retry_at) {
        return;
    }
    switch (s->state) {
    case ZKL__SEMAPHORE_ASKING:
    case ZKL__SEMAPHORE_SEARCHING:
    case ZKL__SEMAPHORE_SEARCHED:
    case ZKL__SEMAPHORE_SETTING:
        zkl__semaphore_ask_limit(s);
        break;
    case ZKL__SEMAPHORE_QUEUED:
        if (zkl__contender_state(s->place) == ZKL__HELD) {
            zkl__semaphore_move(s, ZKL__SEMAPHORE_MAKING, "we are the head");
            make_leases(s);
        }
        break;
    case ZKL__SEMAPHORE_MAKING:
        if (all_made(s)) {
            zkl__semaphore_read_leases(s);
        }
        break;
    case ZKL__SEMAPHORE_JUDGING:
        zkl__semaphore_judge(s);
        break;
    default:
        break;
    }
}

/* --- reading its mail ------------------------------------------------------------------------ */

static void on_failed(struct zkl__semaphore *s)
{
    zkl__semaphore_fail(s, s->code, s->zk_code, s->why);
}

static void on_again(struct zkl__semaphore *s)
{
    if (zkl__semaphore_waits(s)) {
        zkl__semaphore_again(s);
    }
}

/* Of unknown fate: the next look tells. */
static void on_no_answer(struct zkl__semaphore *s)
{
    zkl__semaphore_put_off(s);
    if (s->state == ZKL__SEMAPHORE_SETTING) {
        s->limit = ZKL__LIMIT_UNREAD;
        zkl__semaphore_move(s, ZKL__SEMAPHORE_MAKING, "nobody knows whether it was written");
    } else if (s->state == ZKL__SEMAPHORE_READING) {
        zkl__semaphore_move(s, ZKL__SEMAPHORE_MAKING, "the leases could not be read");
    }
}

static void on_reply(struct zkl__semaphore *s)
{
    if (!s->reply) {
        on_no_answer(s);
        return;
    }
    s->patience = 0;
    if (s->state < ZKL__SEMAPHORE_QUEUED || s->state == ZKL__SEMAPHORE_SETTING) {
        zkl__semaphore_on_limit(s, s->reply);
    } else {
        zkl__semaphore_on_leases(s, s->reply);
    }
    s->reply = NULL;
}

/* There may be room now, so the next list sets no watch; the one under way does what it does. */
static void on_watch(struct zkl__semaphore *s)
{
    s->crowded = s->crowded && s->busy;
    if (s->state == ZKL__SEMAPHORE_READING || s->state == ZKL__SEMAPHORE_JUDGING ||
        s->state == ZKL__SEMAPHORE_WAITING) {
        zkl__semaphore_move(s, ZKL__SEMAPHORE_MAKING, "the leases or the limit changed");
    }
}

static void on_connected(struct zkl__semaphore *s)
{
    s->retry_at = 0;
}

static void on_start(struct zkl__semaphore *s)
{
    zkl__semaphore_move(s, ZKL__SEMAPHORE_ASKING, "started");
    advance(s); /* what it asks goes before its place */
    zkl__contender_start(s->place, s->deadline, s->try_only);
}

static void on_release(struct zkl__semaphore *s)
{
    if (zkl__semaphore_waits(s)) {
        return;
    }
    zkl__semaphore_move(s, ZKL__SEMAPHORE_RELEASING, "released");
    s->deadline = INT64_MAX;
    if (zkl__semaphore_held(s) == 0) {
        zkl__semaphore_end(s, "nothing was left");
        zkl__semaphore_tell(s, ZKL__RELEASED, "nothing was left");
    }
    for (int i = 0; i < s->config.count; i++) {
        if (s->permits[i].contender) {
            zkl__contender_post(s->permits[i].contender, ZKL__CE_RELEASE);
        }
    }
}

static void on_cancel(struct zkl__semaphore *s)
{
    if (zkl__semaphore_waits(s)) {
        zkl__semaphore_fail(s, s->code, 0,
                            s->code == ZKL_ETIMEOUT  ? "the time is up"
                            : s->code == ZKL_ECLOSED ? "the session is closed"
                            : s->code == ZKL_EAUTH   ? "the servers refuse our credentials"
                                                     : "cancelled");
    }
}

static void on_end(struct zkl__semaphore *s)
{
    on_cancel(s);
    if (s->state == ZKL__SEMAPHORE_HELD || s->state == ZKL__SEMAPHORE_LOST) {
        on_release(s);
    }
}

static void on_time(struct zkl__semaphore *s)
{
    if (zkl__core_now(s->core) < s->deadline) {
        return;
    }
    if (zkl__semaphore_waits(s)) {
        zkl__semaphore_fail(s, ZKL_ETIMEOUT, 0, "the time is up");
        return;
    }
    s->deadline = INT64_MAX;
    drop_leases(s); /* also of an owner that lost before, and hangs */
    if (s->state == ZKL__SEMAPHORE_HELD) {
        zkl__semaphore_move(s, ZKL__SEMAPHORE_LOST, "held for longer than max_hold_ms");
        zkl__semaphore_tell(s, ZKL__LOSS, "held for longer than max_hold_ms");
    }
}

static int64_t wake(const struct zkl__semaphore *s)
{
    if (s->state == ZKL__SEMAPHORE_NEW || s->state == ZKL__SEMAPHORE_GONE) {
        return INT64_MAX;
    }
    bool soon = s->retry_at > zkl__core_now(s->core) && s->retry_at < s->deadline;
    return soon ? s->retry_at : s->deadline;
}

void zkl__semaphore_step(struct zkl__core *core, struct zkl__machine *machine)
{
    static void (*const read[ZKL__SM_KINDS])(struct zkl__semaphore *) = {
        [ZKL__SM_FAILED] = on_failed,
        [ZKL__SM_END] = on_end,
        [ZKL__SM_AGAIN] = on_again,
        [ZKL__SM_REPLY] = on_reply,
        [ZKL__SM_LIMIT] = zkl__semaphore_on_read_limit,
        [ZKL__SM_WATCH] = on_watch,
        [ZKL__SM_JUDGED] = zkl__semaphore_on_judged,
        [ZKL__SM_CONNECTED] = on_connected,
        [ZKL__SM_START] = on_start,
        [ZKL__SM_RELEASE] = on_release,
        [ZKL__SM_CANCEL] = on_cancel,
        [ZKL__SM_TIME] = on_time,
    };
    struct zkl__semaphore *s = (struct zkl__semaphore *)machine;
    while (s->mail && s->state != ZKL__SEMAPHORE_GONE) {
        int kind = __builtin_ctz(s->mail);
        s->mail &= s->mail - 1;
        if (read[kind]) {
            read[kind](s);
        }
    }
    advance(s);
    check_sound(s);
    zkl__timers_set(&core->timers, &machine->timer, wake(s));
    if (s->state == ZKL__SEMAPHORE_GONE) {
        zkl__core_bury(core, machine);
    }
}
