/* permits.c - one acquire of a semaphore: what its contenders tell, its nodes made and taken back,
 * and all of it as the claim of a lock. */
#include "permits.h"

#include "error.h"
#include "heap.h"

const struct zkl__rule zkl__permits_queue = {"lock-", ZKL__KIND_ANY};
static const struct zkl__rule lease_rule = {"lease-", 0};

/* Acts then, or at the deadline, or when it was to act anyway: what comes first. */
void zkl__permits_wake_at(struct zkl__permits *p, int64_t at)
{
    at = at < p->deadline ? at : p->deadline;
    if (!p->alarm.set || at < p->alarm.at) {
        zkl__alarms_set(zkl__session_alarms(zkl__permits_session(p)), &p->alarm, at);
    }
}

void zkl__permits_wake(struct zkl__permits *p)
{
    zkl__permits_wake_at(p, 0);
}

/* The lowest of those that are held. */
static int64_t first_token(const struct zkl__permits *p)
{
    int64_t first = INT64_MAX;
    for (int i = 0; i < p->count; i++) {
        const struct zkl__permit *permit = &p->permits[i];
        first = permit->contender && permit->token < first ? permit->token : first;
    }
    return first;
}

void zkl__permits_tell(struct zkl__permits *p, enum zkl__outcome_kind kind, const char *why)
{
    struct zkl__outcome outcome = {.kind = kind,
                                   .code = p->code,
                                   .zk_code = p->zk_code,
                                   .why = why,
                                   .now = zkl__session_now(zkl__permits_session(p))};
    outcome.token = kind == ZKL__GRANTED ? first_token(p) : 0;
    p->config.notify(p->config.owner, &outcome);
}

void zkl__permits_fail(struct zkl__permits *p, int code, int zk_code, const char *why)
{
    if (!p->over) {
        p->over = true;
        p->code = code;
        p->zk_code = zk_code;
        p->why = why;
    }
    zkl__permits_wake(p);
}

/* --- what the contenders tell: inside a step ------------------------------------------------- */

static void on_place(void *owner, const struct zkl__outcome *outcome)
{
    struct zkl__permits *p = owner;
    switch (outcome->kind) {
    case ZKL__GRANTED:
        p->head = true;
        break;
    case ZKL__FAILED:
        p->place = NULL;
        zkl__permits_fail(p, outcome->code, outcome->zk_code, outcome->why);
        break;
    case ZKL__LOSS:
        p->again = true;
        break;
    case ZKL__RELEASED: /* by the core, when the session is over for good */
        p->place = NULL;
        return;
    default:
        return;
    }
    zkl__permits_wake(p);
}

static void on_permit(void *owner, const struct zkl__outcome *outcome)
{
    struct zkl__permit *permit = owner;
    struct zkl__permits *p = permit->permits;
    switch (outcome->kind) {
    case ZKL__GRANTED:
        permit->held = true;
        permit->token = outcome->token;
        zkl__permits_wake(p);
        break;
    case ZKL__FAILED:
        permit->contender = NULL;
        zkl__permits_fail(p, outcome->code, outcome->zk_code, outcome->why);
        break;
    case ZKL__LOSS:
        p->again = true;
        if (p->step == GRANTED && !p->lost) {
            p->lost = true;
            zkl__permits_tell(p, ZKL__LOSS, outcome->why);
        }
        zkl__permits_wake(p);
        break;
    case ZKL__JEOPARDY:
    case ZKL__SAFE:
        if (p->step == GRANTED && p->told_jeopardy != (outcome->kind == ZKL__JEOPARDY)) {
            p->told_jeopardy = outcome->kind == ZKL__JEOPARDY;
            zkl__permits_tell(p, outcome->kind, outcome->why);
        }
        break;
    case ZKL__RELEASED:
        permit->contender = NULL;
        if (--p->left == 0) {
            zkl__permits_tell(p, ZKL__RELEASED, "released");
        }
        break;
    default:
        break;
    }
}

/* --- making and taking back: outside a step -------------------------------------------------- */

static struct zkl__contender *contender_new(struct zkl__permits *p, const struct zkl__rule *rule,
                                            const char *path,
                                            void (*notify)(void *, const struct zkl__outcome *),
                                            void *owner)
{
    struct zkl__contender_config config = {.rule = rule,
                                           .path = path,
                                           .metadata = p->config.metadata,
                                           .acl = p->config.acl,
                                           .fail_on_expiry = p->config.fail_on_expiry,
                                           .notify = notify,
                                           .owner = owner};
    return zkl__contender_new(zkl__session_core(zkl__permits_session(p)), &config);
}

void zkl__permits_drop(struct zkl__permits *p, struct zkl__contender **contender)
{
    struct zkl__contender *gone = *contender;
    *contender = NULL;
    if (gone) {
        zkl__contender_let_go(zkl__session_core(zkl__permits_session(p)), gone,
                              zkl__session_now(zkl__permits_session(p)));
    }
}

/* Everything it has in the core and with the alarms. */
static void take_back(struct zkl__permits *p)
{
    struct zkl__core *core = zkl__session_core(zkl__permits_session(p));
    zkl__alarms_unset(zkl__session_alarms(zkl__permits_session(p)), &p->alarm);
    zkl__request_forget(core, &p->request);
    zkl__watch_remove(core, &p->watch);
    zkl__jury_dismiss(&p->jury);
    p->busy = false;
    for (int i = 0; i < p->count; i++) {
        zkl__permits_drop(p, &p->permits[i].contender);
        p->permits[i].held = false;
    }
    zkl__permits_drop(p, &p->place);
    p->head = p->crowded = p->again = p->set = false;
    p->step = ASKING;
}

static void let_go(void *claim)
{
    struct zkl__permits *p = claim;
    take_back(p);
    if (p->semaphore->permits == p) {
        p->semaphore->permits = NULL;
    }
    zkl__free(zkl__session_heap(zkl__permits_session(p)), p);
}

void zkl__permits_end(struct zkl__permits *p)
{
    struct zkl__outcome outcome = {.kind = ZKL__FAILED,
                                   .code = p->code,
                                   .zk_code = p->zk_code,
                                   .why = p->why,
                                   .now = zkl__session_now(zkl__permits_session(p))};
    struct zkl__contender_config config = p->config;
    let_go(p);
    config.notify(config.owner, &outcome);
}

static void stand_in_queue(struct zkl__permits *p)
{
    zkl__session_event(zkl__permits_session(p), (struct zkl__event){.kind = ZKL__EV_START,
                                                                    .contender = p->place,
                                                                    .deadline = p->deadline,
                                                                    .try_only = p->try_only});
}

static bool make_place(struct zkl__permits *p)
{
    p->place = contender_new(p, &zkl__permits_queue, p->semaphore->locks, on_place, p);
    return p->place != NULL;
}

void zkl__permits_begin_again(struct zkl__permits *p)
{
    take_back(p);
    if (p->config.fail_on_expiry) {
        zkl__permits_fail(p, ZKL_ELOST, 0,
                          "the session ended, or our nodes were removed by somebody");
    } else if (!make_place(p)) {
        zkl__permits_fail(p, ZKL_ENOMEM, 0, "out of memory");
    } else {
        zkl__permits_wake(p);
        stand_in_queue(p);
    }
}

void zkl__permits_make(struct zkl__permits *p)
{
    for (int i = 0; i < p->count && !p->over; i++) {
        struct zkl__permit *permit = &p->permits[i];
        permit->permits = p;
        permit->contender = contender_new(p, &lease_rule, p->semaphore->leases, on_permit, permit);
        if (!permit->contender) {
            zkl__permits_fail(p, ZKL_ENOMEM, 0, "out of memory");
            return;
        }
        zkl__session_event(zkl__permits_session(p),
                           (struct zkl__event){.kind = ZKL__EV_START,
                                               .contender = permit->contender,
                                               .deadline = INT64_MAX});
    }
}

/* Held by the lease. */
bool zkl__permits_hold(const struct zkl__permits *p)
{
    const struct zkl__core *core = zkl__session_core(zkl__permits_session(p));
    int64_t now = zkl__session_now(zkl__permits_session(p));
    for (int i = 0; i < p->count; i++) {
        const struct zkl__contender *contender = p->permits[i].contender;
        if (contender && !zkl__contender_holds(core, contender, now)) {
            return false;
        }
    }
    return true;
}

/* --- as the claim of a lock ------------------------------------------------------------------ */

static void *make(zkl_lock *lock, int count, const struct zkl__contender_config *config)
{
    const zkl_heap *heap = zkl__session_heap(lock->session);
    struct zkl__permits *p = zkl__zalloc(heap, sizeof *p + (size_t)count * sizeof *p->permits);
    if (!p) {
        return NULL;
    }
    p->semaphore = (struct zkl__semaphore *)lock;
    p->config = *config;
    p->count = count;
    p->request = (struct zkl__request){.done = zkl__permits_on_done, .owner = p};
    p->watch = (struct zkl__watch){.fired = zkl__permits_on_fired, .owner = p};
    p->alarm = (struct zkl__alarm){.ring = zkl__permits_ring, .owner = p};
    p->jury = (struct zkl__jury){.session = lock->session,
                                 .dir = p->semaphore->leases,
                                 .done = zkl__permits_on_judged,
                                 .owner = p};
    if (!make_place(p)) {
        zkl__free(heap, p);
        return NULL;
    }
    p->semaphore->permits = p;
    return p;
}

void zkl__permits_lose(struct zkl__permits *p)
{
    for (int i = 0; i < p->count; i++) {
        zkl__permits_drop(
            p, &p->permits[i].contender); /* also of an owner that lost before, and hangs */
    }
    if (!p->lost) {
        p->lost = true;
        zkl__permits_tell(p, ZKL__LOSS, "held for longer than max_hold_ms");
    }
}

static void give_back_all(struct zkl__permits *p)
{
    zkl__permits_drop(p, &p->place);
    for (int i = 0; i < p->count; i++) {
        p->left += p->permits[i].contender != NULL;
    }
    bool none = p->left == 0;
    for (int i = 0; i < p->count; i++) {
        if (p->permits[i].contender) {
            zkl__session_event(
                zkl__permits_session(p),
                (struct zkl__event){.kind = ZKL__EV_RELEASE, .contender = p->permits[i].contender});
        }
    }
    if (none) {
        zkl__permits_tell(p, ZKL__RELEASED, "nothing was left");
    }
}

static void on_event(void *claim, const struct zkl__event *event)
{
    struct zkl__permits *p = claim;
    switch (event->kind) {
    case ZKL__EV_START:
        p->deadline = event->deadline;
        p->try_only = event->try_only;
        zkl__permits_wake_at(p, p->deadline);
        if (zkl__core_connected(zkl__session_core(zkl__permits_session(p)))) {
            zkl__permits_go_on(p);
        }
        stand_in_queue(p);
        break;
    case ZKL__EV_CANCEL:
        zkl__permits_fail(p, event->code, 0,
                          event->code == ZKL_ETIMEOUT  ? "the time is up"
                          : event->code == ZKL_ECLOSED ? "the session is closed"
                                                       : "cancelled");
        zkl__permits_end(p);
        break;
    case ZKL__EV_RELEASE:
        give_back_all(p);
        break;
    default:
        break;
    }
}

static bool holds(const void *claim)
{
    const struct zkl__permits *p = claim;
    bool over = zkl__session_now(zkl__permits_session(p)) >= p->deadline;
    return p->step == GRANTED && !p->lost && !over && zkl__permits_hold(p);
}

/* The first permit's before all others. */
static size_t nodes(const void *claim, struct zkl__held_node *nodes, size_t room)
{
    const struct zkl__permits *p = claim;
    size_t count = 0, others = 0;
    int64_t first = first_token(p);
    if (p->step != GRANTED) {
        nodes[0] = (struct zkl__held_node){p->semaphore->locks,
                                           p->place ? zkl__contender_node(p->place) : ""};
        return 1;
    }
    for (int i = 0; i < p->count; i++) {
        const struct zkl__permit *permit = &p->permits[i];
        if (permit->contender) {
            size_t at = permit->token == first ? 0 : ++others;
            if (at < room) {
                nodes[at] = (struct zkl__held_node){p->semaphore->leases,
                                                    zkl__contender_node(permit->contender)};
            }
            count++;
        }
    }
    return count;
}

const struct zkl__claim_ops zkl__permits_claims = {make, on_event, holds, let_go, nodes};
