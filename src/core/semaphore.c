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
    [ZKL__SEMAPHORE_QUEUED] = {"queued", S(AGREEING) | ANEW},
    [ZKL__SEMAPHORE_AGREEING] = {"agreeing", S(SETTING) | S(MAKING) | ANEW},
    [ZKL__SEMAPHORE_SETTING] = {"setting", S(AGREEING) | ANEW},
    [ZKL__SEMAPHORE_MAKING] = {"making", S(READING) | S(HELD) | ANEW},
    [ZKL__SEMAPHORE_READING] = {"reading", S(MAKING) | S(JUDGING) | S(HELD) | ANEW},
    [ZKL__SEMAPHORE_JUDGING] = {"judging", S(MAKING) | S(WAITING) | S(HELD) | ANEW},
    [ZKL__SEMAPHORE_WAITING] = {"waiting", S(MAKING) | ANEW},
    [ZKL__SEMAPHORE_HELD] = {"held", S(LOST) | S(RELEASING) | S(GONE)},
    [ZKL__SEMAPHORE_LOST] = {"lost", S(RELEASING) | S(GONE)},
    [ZKL__SEMAPHORE_RELEASING] = {"releasing", S(GONE)},
    [ZKL__SEMAPHORE_GONE] = {"gone", 0},
};

static bool waits(const struct zkl__semaphore *s)
{
    return s->state < ZKL__SEMAPHORE_HELD;
}

static int leases(const struct zkl__semaphore *s)
{
    int count = 0;
    for (int i = 0; i < s->config.count; i++) {
        count += s->permits[i].contender != NULL;
    }
    return count;
}

/* What each state says about its contenders. Whoever is granted has all its leases. */
static void check_sound(const struct zkl__semaphore *s)
{
    bool head = s->state >= ZKL__SEMAPHORE_AGREEING && waits(s);
    ZKL__ENSURE((s->place != NULL) == waits(s));
    ZKL__ENSURE(leases(s) == (head ? s->config.count : waits(s) ? 0 : leases(s)));
    ZKL__ENSURE(waits(s) || (!s->busy && s->looks == 0 && !s->leases && !s->watch.on));
    ZKL__ENSURE(!s->watch.on || s->state >= ZKL__SEMAPHORE_MAKING);
    for (int i = 0; i < s->config.count && s->state == ZKL__SEMAPHORE_HELD; i++) {
        const struct zkl__contender *lease = s->permits[i].contender;
        ZKL__ENSURE(!lease || (lease->state == ZKL__HELD && lease->czxid == s->permits[i].token));
    }
}

void zkl__semaphore_move(struct zkl__semaphore *s, enum zkl__semaphore_state state, const char *why)
{
    ZKL__ENSURE(states[s->state].next & (1u << state));
    zkl__core_trace_at(s->core, s->config.path, s->number, "%s -> %s: %s", states[s->state].name,
                       states[state].name, why);
    s->state = state;
}

/* --- what the owner is told ------------------------------------------------------------------ */

int64_t zkl__semaphore_token(const struct zkl__semaphore *s)
{
    int64_t first = INT64_MAX;
    for (int i = 0; i < s->config.count; i++) {
        const struct zkl__permit *permit = &s->permits[i];
        first = permit->contender && permit->token < first ? permit->token : first;
    }
    return first;
}

static void tell(struct zkl__semaphore *s, enum zkl__outcome_kind kind, const char *why)
{
    void (*notify)(void *, const struct zkl__outcome *) = s->config.contender.notify;
    const struct zkl__outcome outcome = {.kind = kind,
                                         .code = s->code,
                                         .zk_code = s->zk_code,
                                         .why = why,
                                         .now = zkl__core_now(s->core),
                                         .token =
                                             kind == ZKL__GRANTED ? zkl__semaphore_token(s) : 0};
    if (kind == ZKL__FAILED || kind == ZKL__RELEASED) {
        s->config.contender.notify = NULL; /* its last word */
    }
    if (notify) {
        notify(s->config.contender.owner, &outcome);
    }
}

/* --- mail ------------------------------------------------------------------------------------ */

static void post(struct zkl__semaphore *s, enum zkl__semaphore_mail kind)
{
    s->mail |= 1u << kind;
    zkl__core_post(s->core, &s->machine);
}

void zkl__semaphores_post(struct zkl__core *core, enum zkl__contender_event_kind kind, int code)
{
    for (struct zkl__semaphore *s = core->semaphores; s; s = s->next) {
        s->code = kind == ZKL__CE_END && waits(s) ? code : s->code;
        post(s, kind == ZKL__CE_END ? ZKL__SM_END : ZKL__SM_CONNECTED);
    }
}

void zkl__semaphore_start(struct zkl__semaphore *s, int64_t deadline, bool try_only)
{
    s->deadline = deadline;
    s->try_only = try_only;
    post(s, ZKL__SM_START);
}

void zkl__semaphore_cancel(struct zkl__semaphore *s, int code)
{
    s->code = waits(s) ? code : s->code;
    post(s, ZKL__SM_CANCEL);
}

void zkl__semaphore_release(struct zkl__semaphore *s)
{
    post(s, ZKL__SM_RELEASE);
}

static void post_failed(struct zkl__semaphore *s, const struct zkl__outcome *outcome)
{
    s->code = outcome->code;
    s->zk_code = outcome->zk_code;
    s->why = outcome->why;
    post(s, ZKL__SM_FAILED);
}

/* Inside a step of its place. */
static void on_place(void *owner, const struct zkl__outcome *outcome)
{
    struct zkl__semaphore *s = owner;
    switch (outcome->kind) {
    case ZKL__GRANTED:
        post(s, ZKL__SM_LOOK);
        break;
    case ZKL__FAILED:
        s->place = NULL;
        post_failed(s, outcome);
        break;
    case ZKL__LOSS:
        post(s, ZKL__SM_AGAIN);
        break;
    case ZKL__RELEASED: /* by the core, when the session is over for good */
        s->place = NULL;
        break;
    default:
        break;
    }
}

static void end(struct zkl__semaphore *s, const char *why);

static void on_lease_released(struct zkl__semaphore *s, struct zkl__permit *permit)
{
    permit->contender = NULL;
    if (s->state == ZKL__SEMAPHORE_RELEASING && leases(s) == 0) {
        end(s, "no lease of ours is left");
        tell(s, ZKL__RELEASED, "released");
    }
}

static void on_lease_lost(struct zkl__semaphore *s, const struct zkl__outcome *outcome)
{
    if (s->state == ZKL__SEMAPHORE_HELD) {
        zkl__semaphore_move(s, ZKL__SEMAPHORE_LOST, outcome->why);
        tell(s, ZKL__LOSS, outcome->why);
    } else if (waits(s)) {
        post(s, ZKL__SM_AGAIN);
    }
}

/* Inside a step of a lease. What a holder has to know is no mail, and never late. */
static void on_lease(void *owner, const struct zkl__outcome *outcome)
{
    struct zkl__permit *permit = owner;
    struct zkl__semaphore *s = permit->semaphore;
    switch (outcome->kind) {
    case ZKL__GRANTED:
        permit->token = outcome->token;
        post(s, ZKL__SM_LOOK);
        break;
    case ZKL__FAILED:
        permit->contender = NULL;
        post_failed(s, outcome);
        break;
    case ZKL__LOSS:
        on_lease_lost(s, outcome);
        break;
    case ZKL__JEOPARDY:
    case ZKL__SAFE:
        if (s->state == ZKL__SEMAPHORE_HELD && s->jeopardy != (outcome->kind == ZKL__JEOPARDY)) {
            s->jeopardy = outcome->kind == ZKL__JEOPARDY;
            tell(s, outcome->kind, outcome->why);
        }
        break;
    case ZKL__RELEASED:
        on_lease_released(s, permit);
        break;
    default:
        break;
    }
}

static void on_fired(struct zkl__watch *watch, enum zkl__watch_event event)
{
    (void)event;
    post(watch->owner, ZKL__SM_WATCH);
}

static void answered(struct zkl__core *core, struct zkl__machine *machine, int role, int64_t sent,
                     const struct zkl__reply *reply)
{
    struct zkl__semaphore *s = (struct zkl__semaphore *)machine;
    (void)core, (void)sent;
    /* "Try again" is no answer. */
    reply = zkl__rc_answered(reply->rc) && reply->rc != ZKL__RC_NOTAPPLIED ? reply : NULL;
    if (role == ZKL__ROLE_SEMAPHORE) {
        s->busy = false;
        s->reply = reply;
        post(s, ZKL__SM_REPLY);
        return;
    }
    zkl__semaphore_on_look(s, (size_t)(role - ZKL__ROLE_LEASE), reply);
    if (s->looks == 0) {
        post(s, ZKL__SM_JUDGED);
    }
}

static void refused(struct zkl__core *core, struct zkl__machine *machine, int role, int code)
{
    const struct zkl__reply unsent = {.rc = ZKL__RC_UNSENT, .unsent = code};
    answered(core, machine, role, 0, &unsent);
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

static bool make_place(struct zkl__semaphore *s)
{
    s->place = contender_new(s, &zkl__semaphore_queue, s->config.locks, on_place, s);
    return s->place != NULL;
}

static void make_leases(struct zkl__semaphore *s)
{
    zkl__semaphore_move(s, ZKL__SEMAPHORE_AGREEING, "we are the head");
    for (int i = 0; i < s->config.count; i++) {
        struct zkl__permit *permit = &s->permits[i];
        permit->contender = contender_new(s, &lease_rule, s->config.leases, on_lease, permit);
        if (!permit->contender) {
            zkl__semaphore_fail(s, ZKL_ENOMEM, 0, "out of memory");
            return;
        }
        zkl__contender_start(permit->contender, INT64_MAX, false);
    }
    post(s, ZKL__SM_LOOK); /* behind their steps */
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
    drop(&s->place);
    s->crowded = false;
    s->retry_at = s->patience = 0;
    s->mail &=
        ~(1u << ZKL__SM_AGAIN | 1u << ZKL__SM_REPLY | 1u << ZKL__SM_WATCH | 1u << ZKL__SM_JUDGED);
}

/* --- moves ----------------------------------------------------------------------------------- */

static void end(struct zkl__semaphore *s, const char *why)
{
    stop_waiting(s);
    drop_leases(s);
    zkl__semaphore_move(s, ZKL__SEMAPHORE_GONE, why);
    post(s, ZKL__SM_LOOK); /* to be freed */
}

void zkl__semaphore_fail(struct zkl__semaphore *s, int code, int zk_code, const char *why)
{
    s->code = code;
    s->zk_code = zk_code;
    end(s, why);
    tell(s, ZKL__FAILED, why);
}

void zkl__semaphore_again(struct zkl__semaphore *s)
{
    stop_waiting(s);
    drop_leases(s);
    if (s->config.contender.fail_on_expiry) {
        zkl__semaphore_fail(s, ZKL_ELOST, 0,
                            "the session ended, or our nodes were removed by somebody");
    } else if (!make_place(s)) {
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
    tell(s, ZKL__GRANTED, "granted");
    s->jeopardy = in_jeopardy(s);
    if (s->jeopardy) {
        tell(s, ZKL__JEOPARDY, "little of the lease was left at the grant");
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
    case ZKL__SEMAPHORE_AGREEING:
    case ZKL__SEMAPHORE_SETTING:
        zkl__semaphore_ask_limit(s);
        break;
    case ZKL__SEMAPHORE_QUEUED:
        if (zkl__contender_state(s->place) == ZKL__HELD) {
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
    if (waits(s)) {
        zkl__semaphore_again(s);
    }
}

/* Of unknown fate: the next look tells. */
static void on_no_answer(struct zkl__semaphore *s)
{
    zkl__semaphore_put_off(s);
    if (s->state == ZKL__SEMAPHORE_SETTING) {
        zkl__semaphore_move(s, ZKL__SEMAPHORE_AGREEING, "nobody knows whether it was written");
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
    if (s->state < ZKL__SEMAPHORE_MAKING) {
        zkl__semaphore_on_limit(s, s->reply);
    } else {
        zkl__semaphore_on_leases(s, s->reply);
    }
    s->reply = NULL;
}

static void on_watch(struct zkl__semaphore *s)
{
    if (s->state == ZKL__SEMAPHORE_READING || s->state == ZKL__SEMAPHORE_JUDGING ||
        s->state == ZKL__SEMAPHORE_WAITING) {
        zkl__semaphore_move(s, ZKL__SEMAPHORE_MAKING, "the leases changed");
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
    if (waits(s)) {
        return;
    }
    zkl__semaphore_move(s, ZKL__SEMAPHORE_RELEASING, "released");
    s->deadline = INT64_MAX;
    if (leases(s) == 0) {
        end(s, "nothing was left");
        tell(s, ZKL__RELEASED, "nothing was left");
    }
    for (int i = 0; i < s->config.count; i++) {
        if (s->permits[i].contender) {
            zkl__contender_post(s->permits[i].contender, ZKL__CE_RELEASE);
        }
    }
}

static void on_cancel(struct zkl__semaphore *s)
{
    if (waits(s)) {
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
    if (waits(s)) {
        zkl__semaphore_fail(s, ZKL_ETIMEOUT, 0, "the time is up");
        return;
    }
    s->deadline = INT64_MAX;
    drop_leases(s); /* also of an owner that lost before, and hangs */
    if (s->state == ZKL__SEMAPHORE_HELD) {
        zkl__semaphore_move(s, ZKL__SEMAPHORE_LOST, "held for longer than max_hold_ms");
        tell(s, ZKL__LOSS, "held for longer than max_hold_ms");
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

static void step(struct zkl__core *core, struct zkl__machine *machine)
{
    static void (*const read[ZKL__SM_KINDS])(struct zkl__semaphore *) = {
        [ZKL__SM_FAILED] = on_failed,       [ZKL__SM_END] = on_end,
        [ZKL__SM_AGAIN] = on_again,         [ZKL__SM_REPLY] = on_reply,
        [ZKL__SM_WATCH] = on_watch,         [ZKL__SM_JUDGED] = zkl__semaphore_on_judged,
        [ZKL__SM_CONNECTED] = on_connected, [ZKL__SM_START] = on_start,
        [ZKL__SM_RELEASE] = on_release,     [ZKL__SM_CANCEL] = on_cancel,
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
    zkl__timers_set(&core->timers, machine, wake(s));
    if (s->state == ZKL__SEMAPHORE_GONE) {
        zkl__core_bury(core, machine);
    }
}

/* --- life ------------------------------------------------------------------------------------ */

static void due(struct zkl__machine *machine)
{
    post((struct zkl__semaphore *)machine, ZKL__SM_TIME);
}

static void release_memory(struct zkl__core *core, struct zkl__machine *machine)
{
    struct zkl__semaphore *s = (struct zkl__semaphore *)machine;
    zkl__watches_remove(&core->watches, &s->watch);
    zkl__timers_remove(&core->timers, machine);
    *(s->prev ? &s->prev->next : &core->semaphores) = s->next;
    if (s->next) {
        s->next->prev = s->prev;
    }
    zkl__free(zkl__core_heap(core), s->leases);
    zkl__free(zkl__core_heap(core), s);
}

static const struct zkl__machine_ops ops = {.rank = ZKL__RANK_LATER,
                                            .step = step,
                                            .answered = answered,
                                            .refused = refused,
                                            .due = due,
                                            .free = release_memory};

void zkl__semaphores_drop(struct zkl__core *core)
{
    while (core->semaphores) {
        release_memory(core, &core->semaphores->machine);
    }
}

struct zkl__semaphore *zkl__semaphore_new(struct zkl__core *core,
                                          const struct zkl__semaphore_config *config)
{
    const zkl_heap *heap = zkl__core_heap(core);
    struct zkl__semaphore *s =
        zkl__zalloc(heap, sizeof *s + (size_t)config->count * sizeof *s->permits);
    if (!s) {
        return NULL;
    }
    s->machine.ops = &ops;
    s->core = core;
    s->config = *config;
    s->watch = (struct zkl__watch){.fired = on_fired, .owner = s, .path = config->leases};
    for (int i = 0; i < config->count; i++) {
        s->permits[i].semaphore = s;
    }
    if (!zkl__timers_reserve(&core->timers, heap)) {
        zkl__free(heap, s);
        return NULL;
    }
    s->next = core->semaphores;
    if (s->next) {
        s->next->prev = s;
    }
    core->semaphores = s;
    if (!make_place(s)) {
        release_memory(core, &s->machine);
        return NULL;
    }
    s->number = s->place->number;
    return s;
}

void zkl__semaphore_let_go(struct zkl__core *core, struct zkl__semaphore *semaphore, int64_t now)
{
    zkl__core_begin(core, now);
    semaphore->config.contender.notify = NULL;
    end(semaphore, "its owner let go");
    zkl__core_finish(core);
}

/* --- what is so now -------------------------------------------------------------------------- */

bool zkl__semaphore_holds(const struct zkl__core *core, const struct zkl__semaphore *semaphore,
                          int64_t now)
{
    ZKL__ENSURE(zkl__core_settled(core));
    return semaphore->state == ZKL__SEMAPHORE_HELD && now < semaphore->deadline &&
           zkl__semaphore_leased(semaphore, now);
}

bool zkl__semaphore_granted(const struct zkl__semaphore *semaphore)
{
    return semaphore->state == ZKL__SEMAPHORE_HELD || semaphore->state == ZKL__SEMAPHORE_LOST;
}

const char *zkl__semaphore_place(const struct zkl__semaphore *semaphore)
{
    return semaphore->place ? zkl__contender_node(semaphore->place) : "";
}

const char *zkl__semaphore_permit(const struct zkl__semaphore *semaphore, int index, int64_t *token)
{
    const struct zkl__permit *permit = &semaphore->permits[index];
    *token = permit->token;
    return permit->contender ? zkl__contender_node(permit->contender) : NULL;
}

int zkl__semaphore_count(const struct zkl__semaphore *semaphore)
{
    return semaphore->config.count;
}

int zkl__semaphore_held(const struct zkl__semaphore *semaphore)
{
    return leases(semaphore);
}

static struct zkl__permit *last_permit(struct zkl__semaphore *s)
{
    struct zkl__permit *last = NULL;
    for (int i = 0; i < s->config.count; i++) {
        struct zkl__permit *permit = &s->permits[i];
        last = permit->contender && (!last || permit->token > last->token) ? permit : last;
    }
    return last;
}

void zkl__semaphore_give_back(struct zkl__core *core, struct zkl__semaphore *semaphore, int count,
                              int64_t now)
{
    zkl__core_begin(core, now);
    while (count-- > 0) {
        drop(&last_permit(semaphore)->contender);
    }
    zkl__core_finish(core);
}
