/* app.c - threads of an application: acquire, hold, release, one after the other, as the plan says. They stand where the
 * recipes' public functions stand: one contender per acquire, or one joint of two, one completion, a release whatever happened. */

#include "invariants.h"
#include "sim.h"

/* As Curator names them; a reader goes beside readers. */
static const struct zkl__rule rule_read = {"__READ__",
                                           ZKL__KIND_ANY & ~ZKL__KIND(ZKL_KIND_READ) & ~ZKL__KIND(ZKL_KIND_KAZOO_READ)};
static const struct zkl__rule rule_write = {"__WRIT__", ZKL__KIND_ANY};
static const struct zkl__rule *const rules[SIM_KINDS] = {&zkl__rule_mutex, &rule_read, &rule_write};

static void thread_in(struct sim *s, int client, int thread, int64_t delay)
{
    sim_arm(s, SLOT_THREAD + client * SIM_THREADS + thread, delay < 0 ? SIM_NEVER : sim_now(s) + delay);
}

static const struct sim_acquire *next_of(const struct sim *s, int client, int thread)
{
    int wanted = s->threads[client * SIM_THREADS + thread].next;
    SIM_EACH_ACQUIRE (s->plan, each) {
        if (each->client == client && each->thread == thread && wanted-- == 0) {
            return each;
        }
    }
    return NULL;
}

static void go_on(struct sim *s, int client, int thread)
{
    struct sim_thread *it = &s->threads[client * SIM_THREADS + thread];
    it->attempt = NULL;
    const struct sim_acquire *next = next_of(s, client, thread);
    thread_in(s, client, thread, next ? next->after : -1);
}

void sim_app_start(struct sim *s, int client)
{
    for (int thread = 0; thread < SIM_THREADS; thread++) {
        go_on(s, client, thread);
    }
}

/* --- outcomes -------------------------------------------------------------------------------------------------------- */

/* Nothing of it is to be used any more. */
static void end(struct sim_attempt *attempt, enum sim_attempt_state state)
{
    attempt->state = state;
    attempt->contender = NULL;
    attempt->joint = NULL;
    attempt->semaphore = NULL;
}

static void over(struct sim *s, struct sim_attempt *attempt)
{
    end(attempt, SIM_OVER);
    attempt->ended = sim_now(s);
    if (s->threads[attempt->client * SIM_THREADS + attempt->thread].attempt == attempt) {
        go_on(s, attempt->client, attempt->thread);
    }
}

/* Called by the judge when it has looked at an outcome, inside a step: the thread acts later. */
void sim_app_outcome(struct sim_attempt *attempt, const struct zkl__outcome *outcome)
{
    struct sim *s = attempt->s;
    switch (outcome->kind) {
    case ZKL__GRANTED:
        attempt->state = SIM_HOLDING;
        attempt->granted = sim_now(s);
        attempt->token = outcome->token;
        thread_in(s, attempt->client, attempt->thread, attempt->plan->hold / (attempt->plan->downgrade ? 2 : 1));
        break;
    case ZKL__FAILED:
    case ZKL__RELEASED:
        over(s, attempt);
        break;
    case ZKL__LOSS:
        attempt->lost = true;
        if (!attempt->asking) {
            attempt->state = SIM_LOST;
            /* Whoever overran max_hold is at it for long: its node goes without it. */
            thread_in(s, attempt->client, attempt->thread,
                      attempt->plan->hold / 4 + (attempt->plan->max_hold ? s->plan->timeout : 0));
        }
        break;
    case ZKL__JEOPARDY:
    case ZKL__SAFE:
        attempt->jeopardy = outcome->kind == ZKL__JEOPARDY;
        break;
    default:
        break;
    }
}

static struct zkl__machine *machine_of(const struct sim_attempt *attempt)
{
    void *contender = attempt->contender, *joint = attempt->joint;
    return joint ? joint : contender ? contender : (void *)attempt->semaphore;
}

static void tell_core(struct sim *s, struct sim_attempt *attempt, struct zkl__event event)
{
    event.machine = machine_of(attempt);
    attempt->asking = true;
    sim_core_event(s, attempt->client, event);
    attempt->asking = false;
}

/* What the simulated servers make of it: sim_readers. */
static const zkl_acl_entry own_entry = {ZKL_PERM_ALL, "digest", "the:process's own"};
static const zkl_acl_entry nobodys_entry = {ZKL_PERM_ALL & ~ZKL_PERM_READ, "world", "anyone"};
static const zkl_acl acls[] = {[SIM_OWN_PROCESS] = {1, &own_entry}, [SIM_NOBODY] = {1, &nobodys_entry}};

const zkl_acl *sim_acl_of(const struct sim *s, int client)
{
    enum sim_readers readers = s->plan->hides[client];
    return readers == SIM_ANYBODY ? NULL : &acls[readers];
}

/* --- starting -------------------------------------------------------------------------------------------------------- */

/* False: no memory. */
static bool make(struct sim *s, struct sim_attempt *attempt)
{
    const struct sim_acquire *plan = attempt->plan;
    struct zkl__core *core = s->clients[attempt->client].core;
    struct zkl__contender_config config = {.rule = rules[plan->kind],
                                           .metadata = "host:1",
                                           .acl = sim_acl_of(s, attempt->client),
                                           .fail_on_expiry = plan->fail_on_expiry,
                                           .notify = sim_judge_outcome,
                                           .owner = attempt};
    if (plan->recipe == SIM_SEMAPHORE) {
        attempt->semaphore = sim_semaphore_make(attempt, &config);
        return attempt->semaphore;
    }
    if (plan->joint) {
        const char *paths[] = {sim_plan_path(plan->path), sim_plan_path(plan->path + 1)};
        attempt->joint = zkl__multi_new(core, &config, paths, 2);
        return attempt->joint;
    }
    config.path = sim_plan_path(plan->path);
    config.mark = plan->mark || plan->delay > 0;
    config.max_hold = plan->max_hold;
    config.linger = plan->linger;
    config.least = plan->least;
    config.delay = plan->delay;
    attempt->contender = zkl__contender_new(core, &config);
    return attempt->contender;
}

static void start(struct sim *s, int client, int thread)
{
    const struct sim_acquire *plan = next_of(s, client, thread);
    struct sim_attempt *attempt = &s->attempts[s->attempt_count];
    int64_t now = sim_local(s, client, sim_now(s));
    *attempt = (struct sim_attempt){.s = s,
                                    .state = SIM_PENDING,
                                    .client = client,
                                    .thread = thread,
                                    .plan = plan,
                                    .path = plan->path,
                                    .seats = plan->recipe == SIM_SEMAPHORE ? 0 : 1 + plan->joint,
                                    .shared = plan->kind == SIM_READ,
                                    .node = {-1, -1},
                                    .session = -1,
                                    .deadline = plan->timeout < 0 ? INT64_MAX : now + plan->timeout};
    if (!make(s, attempt)) {
        thread_in(s, client, thread, SIM_MS); /* no memory: the caller would be told, and tries again */
        return;
    }
    s->attempt_count++;
    s->threads[client * SIM_THREADS + thread].attempt = attempt;
    s->threads[client * SIM_THREADS + thread].next++;
    s->judge.stays = s->judge.stays || plan->linger > 0 || plan->least > 0;
    thread_in(s, client, thread, plan->cancel);
    sim_say(s, "app", "%d.%d asks for %s%s%s", client, thread, sim_plan_path(plan->path), plan->joint ? " and " : "",
            plan->joint ? sim_plan_path(plan->path + 1) : "");
    tell_core(s, attempt,
              (struct zkl__event){.kind = ZKL__EV_START, .deadline = attempt->deadline, .try_only = plan->try_only});
}

/* --- ending ---------------------------------------------------------------------------------------------------------- */

static void let_go(struct sim *s, struct sim_attempt *attempt)
{
    attempt->let_go = attempt->state == SIM_HOLDING;
    attempt->state = SIM_LEFT;
    sim_say(s, "app", "%d.%d lets go", attempt->client, attempt->thread);
    tell_core(s, attempt, (struct zkl__event){.kind = ZKL__EV_LET_GO});
    end(attempt, SIM_LEFT);
    go_on(s, attempt->client, attempt->thread);
}

static void cancel(struct sim *s, struct sim_attempt *attempt)
{
    attempt->canceled = true;
    sim_say(s, "app", "%d.%d cancels", attempt->client, attempt->thread);
    tell_core(s, attempt, (struct zkl__event){.kind = ZKL__EV_CANCEL, .code = ZKL_ECANCELED});
}

static void release(struct sim *s, struct sim_attempt *attempt)
{
    attempt->let_go = attempt->state == SIM_HOLDING;
    attempt->state = SIM_RELEASING;
    sim_say(s, "app", "%d.%d releases", attempt->client, attempt->thread);
    if (attempt->plan->eager) {
        go_on(s, attempt->client, attempt->thread);
    }
    tell_core(s, attempt, (struct zkl__event){.kind = ZKL__EV_RELEASE});
    sim_faults_on(s, SIM_ON_RELEASE, attempt->client);
}

static void downgrade(struct sim *s, struct sim_attempt *attempt)
{
    attempt->shared = true;
    thread_in(s, attempt->client, attempt->thread, attempt->plan->hold / 2);
    sim_say(s, "app", "%d.%d becomes a reader", attempt->client, attempt->thread);
    tell_core(s, attempt, (struct zkl__event){.kind = ZKL__EV_DOWNGRADE, .rule = &rule_read});
}

bool sim_attempt_holds(const struct sim *s, const struct sim_attempt *attempt)
{
    int64_t now = sim_local(s, attempt->client, sim_now(s));
    return attempt->state == SIM_HOLDING && s->clients[attempt->client].core &&
           machine_of(attempt)->ops->holds(machine_of(attempt), now);
}

void sim_thread_due(struct sim *s, int number)
{
    int client = number / SIM_THREADS, thread = number % SIM_THREADS;
    thread_in(s, client, thread, -1);
    struct sim_attempt *attempt = s->threads[number].attempt;
    if (!attempt) {
        start(s, client, thread);
    } else if (attempt->state >= SIM_RELEASING) {
        return;
    } else if (attempt->plan->ending == SIM_END_LET_GO) {
        let_go(s, attempt);
    } else if (attempt->state == SIM_PENDING) {
        cancel(s, attempt);
    } else if (attempt->plan->downgrade && !attempt->shared && sim_attempt_holds(s, attempt)) {
        downgrade(s, attempt);
    } else {
        release(s, attempt);
    }
}

/* The process is gone: whatever its threads did, nobody hears of it. */
void sim_app_crashed(struct sim *s, int client)
{
    SIM_EACH_ATTEMPT (s, attempt) {
        if (attempt->client == client) {
            end(attempt, SIM_OVER);
        }
    }
    for (int thread = 0; thread < SIM_THREADS; thread++) {
        go_on(s, client, thread);
        thread_in(s, client, thread, -1);
    }
}

bool sim_app_done(const struct sim *s)
{
    if (s->attempt_count < s->plan->acquire_count) {
        return false;
    }
    SIM_EACH_ATTEMPT (s, it) {
        if (it->state < SIM_LEFT) {
            return false;
        }
    }
    return true;
}
