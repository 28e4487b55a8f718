/* plan.c - plans made from seeds, and the slowness of the network. */
#include "plan.h"

#include "sim.h"

const char *sim_plan_path(int path)
{
    static const char *const paths[] = {"/locks/a", "/locks/b", "/c"};
    return paths[path];
}

/* --- delays ---------------------------------------------------------------------------------------------------------- */

/* PCT (Burckhardt and others, 2010) in a world with time: each channel has a priority, and the delays of one class are small
 * beside the next one's, so that what the fast ones do happens before what the slow ones do; at a few random
 * places of each channel the priority changes. */
static int64_t pct_delay(const struct sim_plan *plan, uint64_t seed, int slot, uint32_t count, uint64_t roll)
{
    uint64_t rank = dice_at(seed, slot + 1000, count / 24) % 4;
    int64_t unit = plan->delay >> 3;
    return (unit << (2 * rank)) + roll % (unit + 1);
}

int64_t sim_plan_delay(const struct sim_plan *plan, uint64_t seed, int slot, uint32_t count, bool quick)
{
    uint64_t roll = dice_at(seed, slot, count);
    if (plan->delay == 0) {
        return 0; /* explore.c: order is all, time is nothing */
    }
    if (slot >= SLOT_INBOX && slot < SLOT_TIMER) {
        return plan->inbox_delay ? roll % plan->inbox_delay : 0;
    }
    if (!quick && plan->slow_once_in && (roll >> 40) % plan->slow_once_in == 0) {
        return roll % plan->slow;
    }
    if (!quick && plan->scheduler == SIM_PCT) {
        return pct_delay(plan, seed, slot, count, roll);
    }
    return plan->delay / 2 + roll % plan->delay;
}

int64_t sim_plan_preempted(const struct sim_plan *plan, uint64_t seed, int server, uint64_t count)
{
    uint64_t roll = dice_at(seed, SLOT_ANSWER + server, count);
    return plan->preempt && (roll >> 40) % 4 == 0 ? roll % plan->preempt : 0;
}

int64_t sim_plan_turn(const struct sim_plan *plan, uint64_t seed, int session, uint64_t count)
{
    if (plan->delay == 0) {
        return plan->walk; /* explore.c: at the latest then */
    }
    return dice_at(seed, SLOT_EXPIRY + ((uint64_t)session << 32), count) % (plan->walk + 1);
}

/* --- rolling --------------------------------------------------------------------------------------------------------- */

static void roll_world(struct sim_plan *plan, uint64_t *dice)
{
    static const int64_t ticks[] = {200, 500, 2000};
    static const int64_t factors[] = {4, 5, 5, 8, 12};
    static const int servers[] = {1, 3, 3, 3, 3, 3, 3, 5};
    plan->servers = servers[dice_below(dice, 8)];
    plan->clients = (int)dice_between(dice, 2, dice_once_in(dice, 4) ? 5 : 3);
    plan->paths = dice_once_in(dice, 4) ? 2 : 1;
    plan->tick = ticks[dice_below(dice, 3)] * SIM_MS;
    plan->timeout = plan->tick * factors[dice_below(dice, 5)];
    plan->pause = plan->tick / 4;
    plan->scheduler = dice_once_in(dice, 3) ? SIM_PCT : SIM_UNIFORM;
    plan->delay = plan->tick / (dice_once_in(dice, 4) ? 40 : 1000);
    if (dice_once_in(dice, 3)) {
        plan->slow_once_in = (int)dice_between(dice, 10, 100);
        plan->slow = plan->tick * dice_between(dice, 1, 4) / 4;
    }
    plan->inbox_delay = dice_once_in(dice, 4) ? plan->delay * dice_between(dice, 1, 8) : 0;
    plan->preempt = dice_once_in(dice, 4) ? plan->tick / 2 : 0;
    plan->ping_late = dice_once_in(dice, 3) ? plan->pause : 0;
    plan->late = dice_once_in(dice, 2) ? plan->tick / 100 : 0;
    bool drift = dice_once_in(dice, 2);
    for (int i = 0; i < plan->clients; i++) {
        plan->ppm[i] = drift ? dice_between(dice, -1, 1) * 999 : 0;
    }
    plan->readers = dice_once_in(dice, 4);
    plan->marks = dice_once_in(dice, 6);
    plan->sequence = dice_once_in(dice, 40) ? INT32_MAX - (int)dice_below(dice, 4) : 0;
}

static int64_t roll_time(const struct sim_plan *plan, uint64_t *dice)
{
    const int64_t below[] = {0, plan->delay * 8, plan->tick, plan->timeout * 3 / 2};
    int64_t most = below[dice_below(dice, 4)];
    return most ? dice_below(dice, most) : 0;
}

static void make_mutex(struct sim_acquire *it)
{
    it->kind = SIM_MUTEX;
    it->mark = it->downgrade = it->joint = false;
}

static void roll_acquire(struct sim_plan *plan, uint64_t *dice, int client, int thread, bool crowd)
{
    struct sim_acquire *it = &plan->acquires[plan->acquire_count++];
    *it = (struct sim_acquire){.client = client, .thread = thread, .timeout = -1, .cancel = -1};
    it->path = (int)dice_below(dice, plan->paths);
    it->after = crowd ? dice_below(dice, plan->delay * 8) : roll_time(plan, dice);
    it->hold = crowd && dice_once_in(dice, 2) ? dice_below(dice, plan->delay * 8) : roll_time(plan, dice);
    if (dice_once_in(dice, 3)) {
        it->timeout = 1 + roll_time(plan, dice) * 2;
    }
    if (dice_once_in(dice, 8)) {
        it->cancel = roll_time(plan, dice);
    }
    if (dice_once_in(dice, 16)) {
        it->max_hold = 1 + roll_time(plan, dice);
    }
    it->try_only = dice_once_in(dice, 10);
    it->fail_on_expiry = dice_once_in(dice, 4);
    it->eager = dice_once_in(dice, 2);
    it->ending = dice_once_in(dice, 12) ? SIM_END_LET_GO : SIM_END_RELEASE;
    if (plan->readers) {
        it->kind = dice_once_in(dice, 2) ? SIM_READ : SIM_WRITE;
        it->downgrade = it->kind == SIM_WRITE && dice_once_in(dice, 3);
    }
    it->joint = plan->paths > 1 && it->path == 0 && it->ending == SIM_END_RELEASE && dice_once_in(dice, 3);
    it->downgrade = it->downgrade && !it->joint;
    it->mark = plan->marks && it->kind == SIM_MUTEX && !it->joint;
}

static void roll_application(struct sim_plan *plan, uint64_t *dice)
{
    bool crowd = dice_once_in(dice, 3); /* threads of a session hand over to each other */
    for (int client = 0; client < plan->clients; client++) {
        int threads = crowd || dice_once_in(dice, 3) ? (int)dice_between(dice, 2, SIM_THREADS) : 1;
        for (int thread = 0; thread < threads; thread++) {
            int count = (int)dice_between(dice, 1, crowd ? 3 : 2);
            for (int i = 0; i < count; i++) {
                roll_acquire(plan, dice, client, thread, crowd);
            }
        }
    }
}

/* How often something happens in a run, about: for the n of "the n-th time". */
static int64_t roll_count(uint64_t *dice, enum sim_trigger trigger)
{
    static const int64_t usual[SIM_TRIGGERS] = {
        [SIM_ON_SUBMIT] = 120, [SIM_ON_CREATE] = 8, [SIM_ON_DELETE] = 6,  [SIM_ON_COMMIT] = 80, [SIM_ON_MAKE] = 3,
        [SIM_ON_REPLY] = 120,  [SIM_ON_GRANT] = 5,  [SIM_ON_RELEASE] = 5, [SIM_ON_CONNECT] = 6,
    };
    return 1 + dice_below(dice, dice_once_in(dice, 2) ? usual[trigger] : usual[trigger] / 4 + 1);
}

static int64_t roll_value(const struct sim_plan *plan, uint64_t *dice, enum sim_fault_kind kind)
{
    int64_t most;
    switch (kind) {
    case SIM_PAUSE_LEADER:
        return dice_once_in(dice, 2) ? plan->pause : 1 + dice_below(dice, plan->pause);
    case SIM_PAUSE_SERVER:
    case SIM_HOLD_FROM_LEADER:
    case SIM_HOLD_TO_LEADER:
    case SIM_ISOLATE:
        most = plan->tick * (dice_once_in(dice, 2) ? 8 : 2);
        break;
    case SIM_KILL_SERVER:
    case SIM_KILL_LEADER:
        most = plan->timeout;
        break;
    case SIM_HOLD_UP:
    case SIM_HOLD_DOWN:
    case SIM_PAUSE_CLIENT:
    case SIM_CRASH:
        most = dice_once_in(dice, 2) ? plan->timeout * 2 : plan->timeout / 2;
        break;
    case SIM_DENY:
        most = 15;
        break;
    case SIM_NO_MEMORY:
        most = dice_once_in(dice, 2) ? 1 : 8;
        break;
    case SIM_THROTTLE:
    case SIM_REFUSE:
        most = 4;
        break;
    default:
        return dice_below(dice, 8);
    }
    return 1 + dice_below(dice, most);
}

static enum sim_trigger roll_trigger(uint64_t *dice)
{
    return dice_once_in(dice, 3) ? SIM_AT : (enum sim_trigger)dice_between(dice, SIM_ON_SUBMIT, SIM_ROLLED - 1);
}

static void roll_fault(struct sim_plan *plan, uint64_t *dice, enum sim_fault_kind kind)
{
    struct sim_fault *it = &plan->faults[plan->fault_count++];
    it->kind = kind;
    it->trigger = roll_trigger(dice);
    it->when = it->trigger == SIM_AT ? roll_time(plan, dice) * 2 + dice_below(dice, plan->tick)
                                     : roll_count(dice, it->trigger);
    bool whoever = it->trigger != SIM_AT && it->trigger != SIM_ON_COMMIT && dice_once_in(dice, 2);
    it->target = whoever ? -1 : (int)dice_below(dice, 60); /* of as many as there are */
    it->value = roll_value(plan, dice, kind);
}

/* Swarm testing: each seed knows a few kinds of fault only, and so meets combinations that an even mix drowns. */
static void roll_faults(struct sim_plan *plan, uint64_t *dice)
{
    enum sim_fault_kind kinds[4];
    int known = (int)dice_below(dice, 5);
    for (int i = 0; i < known; i++) {
        kinds[i] = (enum sim_fault_kind)dice_below(dice, SIM_ROLLED_KINDS);
    }
    int count = known ? (int)dice_between(dice, 1, 6) : 0;
    for (int i = 0; i < count; i++) {
        roll_fault(plan, dice, kinds[dice_below(dice, known)]);
    }
    if (known && dice_once_in(dice, 32)) { /* outside what the manual assumes: exclusion is only counted */
        roll_fault(plan, dice, SIM_PAUSE_LEADER);
        plan->faults[plan->fault_count - 1].value = plan->pause + dice_below(dice, plan->timeout);
    }
}

static int64_t roll_linger(const struct sim_plan *plan, uint64_t *dice)
{
    const int64_t most[] = {0, plan->delay * 16, plan->tick};
    int64_t chosen = dice_below(dice, 6);
    return chosen ? 1 + dice_below(dice, chosen < 3 ? most[chosen] : plan->timeout * 3) : 0;
}

/* Threads come back soon, again and again. */
static void roll_more(struct sim_plan *plan, uint64_t *dice)
{
    int first = plan->acquire_count, more = (int)dice_between(dice, 0, 12);
    for (int i = 0; i < more && plan->acquire_count < SIM_ACQUIRES; i++) {
        plan->acquires[plan->acquire_count++] = plan->acquires[dice_below(dice, first)];
    }
    SIM_EACH_ACQUIRE (plan, it) {
        it->after = dice_once_in(dice, 2) ? dice_below(dice, plan->delay * 4) : it->after;
        it->hold = dice_once_in(dice, 3) ? dice_below(dice, plan->delay * 4) : it->hold;
        it->ending = dice_once_in(dice, 2) ? SIM_END_RELEASE : it->ending;
    }
}

static void roll_lingering(struct sim_plan *plan, uint64_t *dice)
{
    roll_more(plan, dice);
    SIM_EACH_ACQUIRE (plan, it) {
        int64_t linger = roll_linger(plan, dice);
        it->linger = it->kind != SIM_READ && !it->mark && !it->joint ? linger : 0;
    }
}

static void roll_least(struct sim_plan *plan, uint64_t *dice)
{
    SIM_EACH_ACQUIRE (plan, it) {
        int64_t least = 1 + dice_below(dice, plan->timeout * 2);
        bool may = it->kind == SIM_MUTEX && !it->mark && !it->joint && !dice_once_in(dice, 4);
        it->least = may ? least : 0;
        it->max_hold = may && it->max_hold < least ? 0 : it->max_hold;
    }
}

/* Nobody gives up, and nothing goes wrong. */
static void calm_down(struct sim_plan *plan)
{
    plan->fault_count = 0;
    plan->sequence = 0;
    memset(plan->hides, 0, sizeof plan->hides);
    SIM_EACH_ACQUIRE (plan, it) {
        it->timeout = it->cancel = -1;
        it->max_hold = 0;
        it->try_only = false;
    }
}

/* Mutexes alone, all with the same delay. */
static void roll_delays(struct sim_plan *plan, uint64_t *dice)
{
    int64_t delay = 1 + dice_below(dice, dice_once_in(dice, 3) ? plan->tick : plan->timeout * 3 / 2);
    bool lingers = dice_once_in(dice, 4);
    if (dice_once_in(dice, 2)) {
        roll_more(plan, dice);
    }
    SIM_EACH_ACQUIRE (plan, it) {
        make_mutex(it);
        it->delay = delay;
        it->least = dice_once_in(dice, 4) ? it->least : 0;
        it->linger = lingers && it->least == 0 ? roll_linger(plan, dice) : 0;
    }
    if (dice_once_in(dice, 3)) {
        calm_down(plan);
    }
}

/* Most report crashes. In half of these plans they wait after a crash, in a third some do neither. */
static void roll_marks(struct sim_plan *plan, uint64_t *dice)
{
    roll_delays(plan, dice);
    bool waits = dice_once_in(dice, 2), mixed = dice_once_in(dice, 3);
    SIM_EACH_ACQUIRE (plan, it) {
        it->mark = !mixed || !dice_once_in(dice, 3);
        it->delay = waits && it->mark ? it->delay : 0;
    }
}

static void add_silence(struct sim_plan *plan, uint64_t *dice, enum sim_trigger trigger, int64_t when)
{
    static const enum sim_fault_kind kinds[] = {SIM_HOLD_UP, SIM_HOLD_DOWN, SIM_PAUSE_CLIENT, SIM_ISOLATE};
    plan->faults[plan->fault_count++] =
        (struct sim_fault){.trigger = trigger,
                           .when = when,
                           .kind = kinds[dice_below(dice, 4)],
                           .target = (int)dice_below(dice, 60),
                           .value = plan->timeout / 2 + dice_below(dice, plan->timeout / 2 + 2 * plan->tick)};
}

/* The leader takes up to a session timeout to expire the sessions of a tick. A client is silent for about as long as its session
 * lasts, and once more as soon as it is granted. */
static void roll_walking(struct sim_plan *plan, uint64_t *dice)
{
    plan->walk = dice_once_in(dice, 2) ? plan->timeout : 1 + dice_below(dice, 2 * plan->tick);
    for (int count = (int)dice_between(dice, 1, 4); count > 0; count--) {
        add_silence(plan, dice, SIM_AT, dice_below(dice, plan->timeout * 2));
    }
    if (dice_once_in(dice, 2)) {
        add_silence(plan, dice, SIM_ON_GRANT, dice_between(dice, 1, 4));
        plan->faults[plan->fault_count - 1].target = -1;
    }
}

/* Threads of one session acquire a lock that lingers, again and again; another session may come between. Nothing goes wrong. */
static void roll_lines(struct sim_plan *plan, uint64_t *dice)
{
    calm_down(plan);
    plan->clients = 2;
    plan->paths = 1;
    plan->acquire_count = 0;
    int threads = (int)dice_between(dice, 2, SIM_THREADS), others = (int)dice_between(dice, 0, 4);
    int64_t span = plan->delay << dice_below(dice, 6);
    for (int i = 0; i < threads * 16 + others; i++) {
        bool other = i >= threads * 16;
        plan->acquires[plan->acquire_count++] =
            (struct sim_acquire){.client = other,
                                 .thread = other ? 0 : i % threads,
                                 .timeout = -1,
                                 .cancel = -1,
                                 .after = dice_below(dice, other ? plan->timeout : span),
                                 .hold = dice_once_in(dice, 2) ? 0 : dice_below(dice, span),
                                 .eager = true,
                                 .linger = other ? 0 : plan->timeout * 4};
    }
}

/* Few processes, and most of what their threads acquire is one mutex. */
static void roll_crowds(struct sim_plan *plan, uint64_t *dice)
{
    plan->unlisted = (int)dice_between(dice, 1, 3);
    roll_more(plan, dice);
    plan->clients = (int)sim_min(plan->clients, dice_between(dice, 1, 3));
    SIM_EACH_ACQUIRE (plan, it) {
        it->client %= plan->clients;
        if (!dice_once_in(dice, 4)) {
            it->path = 0;
            it->try_only = false;
            make_mutex(it);
        }
    }
}

/* For the core's simulator: in some plans a path is a semaphore, and in some of these its limit changes. With dice of their own: the other seeds
 * stay what they were. */
static void roll_semaphores(struct sim_plan *plan, uint64_t seed)
{
    uint64_t dice = dice_mix(seed + 0x5ff8);
    if (dice % 8 != 0 || (seed >= SIM_LINES && seed < SIM_CROWDS)) {
        return;
    }
    int path = (int)dice_below(&dice, plan->paths);
    SIM_EACH_ACQUIRE (plan, it) {
        it->joint = false;
        if (it->path == path) {
            it->recipe = SIM_SEMAPHORE;
            make_mutex(it);
        }
    }
    dice = dice_mix(seed + 0x4e512e);
    for (int count = dice_once_in(&dice, 3) ? (int)dice_between(&dice, 1, 4) : 0; count > 0; count--) {
        struct sim_fault *it = &plan->faults[plan->fault_count++];
        *it = (struct sim_fault){.trigger = roll_trigger(&dice), .kind = SIM_RESIZE, .target = path};
        it->when = it->trigger == SIM_AT ? roll_time(plan, &dice) : roll_count(&dice, it->trigger);
        it->value = dice_between(&dice, 1, SIM_RESIZED_MOST);
    }
}

/* What the seeds from one on and before another have besides; each with dice of its own. */
static const struct {
    uint64_t from, before, salt;
    void (*roll)(struct sim_plan *plan, uint64_t *dice);
} ranges[] = {
    {SIM_LINGERING, SIM_LEAST, 0x11e6e4, roll_lingering}, {SIM_LEAST, SIM_WALKING, 0x1ea57, roll_least},
    {SIM_DELAYS, SIM_WALKING, 0xde1a7, roll_delays},      {SIM_WALKING, SIM_LINES, 0x3a1c, roll_walking},
    {SIM_LINES, SIM_MARKS, 0x11e5, roll_lines},           {SIM_MARKS, SIM_CROWDS, 0x1ea57, roll_least},
    {SIM_MARKS, SIM_CROWDS, 0xde1a7, roll_marks},         {SIM_CROWDS, UINT64_MAX, 0xc40d, roll_crowds},
};

void sim_plan_roll(struct sim_plan *plan, uint64_t seed, bool shell)
{
    uint64_t dice = dice_mix(seed + 0x5eed),
             own; /* what came later has dice of its own: the other seeds stay what they were */
    *plan = (struct sim_plan){.servers = 0};
    roll_world(plan, &dice);
    roll_application(plan, &dice);
    own = dice_mix(seed + 0x0b5e);
    if (plan->servers == 3 && dice_once_in(&own, 6)) {
        plan->observers = (int)dice_between(&own, 1, 2);
        plan->servers += plan->observers;
        plan->masters = !dice_once_in(&own, 4);
        plan->timeout = plan->tick * 12; /* a chain of five round trips, in networks that are as slow as this */
    }
    roll_faults(plan, &dice);
    own = dice_mix(seed + 0x70c4);
    if (plan->fault_count > 0 && dice_once_in(&own, 64)) {
        plan->faults[plan->fault_count++] = (struct sim_fault){.trigger = SIM_AT,
                                                               .when = dice_below(&own, plan->timeout * 2),
                                                               .kind = SIM_LOSE_TOUCH,
                                                               .target = (int)dice_below(&own, plan->servers)};
    }
    /* Contenders with different credentials in one open queue. */
    own = dice_mix(seed + 0xacce55);
    bool closed = dice_once_in(&own, 4);
    plan->rules = (enum zkl__memory_rules)dice_below(&own, 3);
    for (int i = 0; i < plan->clients; i++) {
        bool open = !closed || dice_once_in(&own, 3);
        plan->hides[i] = open ? SIM_ANYBODY : dice_once_in(&own, 6) ? SIM_NOBODY : SIM_OWN_PROCESS;
    }
    plan->bounds = dice_mix(seed + 0xb0d5) % 8 == 0;
    plan->batches = dice_mix(seed + 0xba7c4) % 8 == 0;
    plan->skew = dice_mix(seed + 0x5e3) % 4 == 0 ? 3 * SIM_SECOND : 0;
    SIM_EACH (it, ranges, sizeof ranges / sizeof ranges[0]) {
        if (seed >= it->from && seed < it->before) {
            own = dice_mix(seed + it->salt);
            it->roll(plan, &own);
        }
    }
    plan->async = dice_mix(seed + 0xdc7) % 2 == 0; /* of no seed that a mutant names */
    if (!shell) {
        roll_semaphores(plan, seed);
    }
    plan->heal = plan->fault_count ? plan->timeout * 4 : 0;
}
