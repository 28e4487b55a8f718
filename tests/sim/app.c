/* app.c - threads of an application: acquire, hold, release, one after the other, as the plan says. They stand where the
 * recipes' public functions stand: one contender per acquire (two, of a joint), one completion, a release whatever happened. */
#include <assert.h>

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

static struct sim_thread *thread_of(struct sim *s, const struct sim_attempt *attempt)
{
    return &s->clients[attempt->client].threads[attempt->thread];
}

static struct sim_attempt *partner_of(struct sim *s, const struct sim_attempt *attempt)
{
    return attempt->partner < 0 ? NULL : &s->attempts[attempt->partner];
}

static const struct sim_acquire *next_of(const struct sim *s, int client, int thread)
{
    int wanted = s->clients[client].threads[thread].next;
    for (int i = 0; i < s->plan->acquire_count; i++) {
        const struct sim_acquire *each = &s->plan->acquires[i];
        if (each->client == client && each->thread == thread && wanted-- == 0) {
            return each;
        }
    }
    return NULL;
}

static void go_on(struct sim *s, int client, int thread)
{
    struct sim_thread *it = &s->clients[client].threads[thread];
    it->attempt = -1;
    if (it->joint) {
        zkl_heap heap = sim_heap_api(&s->clients[client].heap);
        zkl__joint_free(it->joint, &heap);
        it->joint = NULL;
    }
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

/* Inside a step: note it, and let the thread act later. */
static void notify(void *owner, const struct zkl__outcome *outcome)
{
    sim_judge_outcome(owner, outcome);
}

static bool is_current(struct sim *s, const struct sim_attempt *attempt)
{
    int index = thread_of(s, attempt)->attempt;
    return index >= 0 && (&s->attempts[index] == attempt || s->attempts[index].partner == (int)(attempt - s->attempts));
}

static void over(struct sim *s, struct sim_attempt *attempt)
{
    const struct sim_attempt *partner = partner_of(s, attempt);
    attempt->state = SIM_OVER;
    attempt->contender = NULL;
    if (!is_current(s, attempt)) {
        return;
    }
    if (partner && partner->state != SIM_OVER) {
        thread_in(s, attempt->client, attempt->thread, 0); /* all or nothing: the other is given up */
    } else {
        go_on(s, attempt->client, attempt->thread);
    }
}

static void granted(struct sim *s, struct sim_attempt *attempt, int64_t token)
{
    const struct sim_attempt *partner = partner_of(s, attempt);
    attempt->state = SIM_HOLDING;
    attempt->granted = sim_now(s);
    attempt->token = token;
    if (!partner || partner->state == SIM_HOLDING) {
        int64_t hold = attempt->plan->hold;
        thread_in(s, attempt->client, attempt->thread, attempt->plan->downgrade ? hold / 2 : hold);
    }
}

/* Called by the judge when it has looked at an outcome. */
void sim_app_outcome(struct sim_attempt *attempt, const struct zkl__outcome *outcome)
{
    struct sim *s = attempt->s;
    switch (outcome->kind) {
    case ZKL__GRANTED:
        granted(s, attempt, outcome->token);
        break;
    case ZKL__FAILED:
    case ZKL__RELEASED:
        over(s, attempt);
        break;
    case ZKL__LOSS:
        if (!attempt->asking) {
            attempt->state = SIM_LOST;
            thread_in(s, attempt->client, attempt->thread, attempt->plan->hold / 4);
        }
        break;
    case ZKL__JEOPARDY:
    case ZKL__SAFE:
        attempt->jeopardy = outcome->kind == ZKL__JEOPARDY;
        break;
    case ZKL__DOWNGRADED:
    case ZKL__REVOKED:
        break;
    }
}

/* --- starting -------------------------------------------------------------------------------------------------------- */

static struct sim_attempt *attempt_new(struct sim *s, int client, int thread, const struct sim_acquire *plan, int path)
{
    struct sim_attempt *attempt = &s->attempts[s->attempt_count];
    int64_t now = sim_local(s, client, sim_now(s));
    *attempt = (struct sim_attempt){.s = s,
                                    .state = SIM_PENDING,
                                    .client = client,
                                    .thread = thread,
                                    .plan = plan,
                                    .path = path,
                                    .partner = -1,
                                    .shared = plan->kind == SIM_READ,
                                    .node = -1,
                                    .session = -1,
                                    .deadline = plan->timeout < 0 ? INT64_MAX : now + plan->timeout};
    struct zkl__contender_config config = {.rule = rules[plan->kind],
                                           .path = sim_plan_path(path),
                                           .metadata = "host:1",
                                           .fail_on_expiry = plan->fail_on_expiry,
                                           .mark = plan->mark,
                                           .max_hold = plan->max_hold,
                                           .notify = notify,
                                           .owner = attempt};
    attempt->contender = zkl__contender_new(s->clients[client].core, &config);
    if (!attempt->contender) {
        return NULL;
    }
    s->attempt_count++;
    return attempt;
}

static void drop_new(struct sim *s, struct sim_attempt *attempt)
{
    int64_t now = sim_local(s, attempt->client, sim_now(s));
    zkl__contender_let_go(s->clients[attempt->client].core, attempt->contender, now);
    attempt->contender = NULL;
    attempt->state = SIM_OVER;
}

/* The other half of a joint. False: no memory. */
static bool pair(struct sim *s, struct sim_attempt *first)
{
    struct sim_attempt *second = attempt_new(s, first->client, first->thread, first->plan, first->path + 1);
    if (!second) {
        return false;
    }
    struct zkl__contender *members[] = {first->contender, second->contender};
    struct zkl__joint *joint = zkl__joint_new(s->clients[first->client].core, members, 2);
    if (!joint) {
        drop_new(s, second);
        return false;
    }
    thread_of(s, first)->joint = joint;
    first->partner = (int)(second - s->attempts);
    second->partner = (int)(first - s->attempts);
    return true;
}

static void ask(struct sim *s, struct sim_attempt *attempt)
{
    if (attempt->contender) {
        sim_say(s, "app", "%d.%d asks for %s", attempt->client, attempt->thread, sim_plan_path(attempt->path));
        sim_core_event(s, attempt->client,
                       (struct zkl__event){.kind = ZKL__EV_START,
                                           .contender = attempt->contender,
                                           .deadline = attempt->deadline,
                                           .try_only = attempt->plan->try_only});
    }
}

static void start(struct sim *s, int client, int thread)
{
    const struct sim_acquire *plan = next_of(s, client, thread);
    if (!plan) {
        return;
    }
    if (s->attempt_count + 2 > SIM_ATTEMPTS) {
        s->overflow = true;
        return;
    }
    struct sim_attempt *attempt = attempt_new(s, client, thread, plan, plan->path);
    if (attempt && plan->joint && !pair(s, attempt)) {
        drop_new(s, attempt);
        attempt = NULL;
    }
    if (!attempt) {
        thread_in(s, client, thread, SIM_MS); /* no memory: the caller would be told, and tries again */
        return;
    }
    s->clients[client].threads[thread].attempt = (int)(attempt - s->attempts);
    s->clients[client].threads[thread].next++;
    thread_in(s, client, thread, plan->cancel);
    ask(s, attempt);
    if (attempt->partner >= 0) {
        ask(s, partner_of(s, attempt));
    }
}

/* --- ending ---------------------------------------------------------------------------------------------------------- */

static void let_go(struct sim *s, struct sim_attempt *attempt)
{
    struct zkl__contender *contender = attempt->contender;
    bool held = attempt->state == SIM_HOLDING;
    attempt->state = SIM_LEFT;
    sim_say(s, "app", "%d.%d lets go", attempt->client, attempt->thread);
    s->stepping = true;
    zkl__contender_let_go(s->clients[attempt->client].core, contender, sim_local(s, attempt->client, sim_now(s)));
    s->stepping = false;
    attempt->contender = NULL;
    if (held) {
        sim_judge_left(s, attempt);
    }
    go_on(s, attempt->client, attempt->thread);
    /* the step that let_go is, is over: what follows every step */
    sim_core_event(s, attempt->client, (struct zkl__event){.kind = ZKL__EV_TIME});
}

static void cancel(struct sim *s, struct sim_attempt *attempt)
{
    if (!attempt->canceled) {
        attempt->canceled = true;
        sim_say(s, "app", "%d.%d cancels", attempt->client, attempt->thread);
        sim_core_event(
            s, attempt->client,
            (struct zkl__event){.kind = ZKL__EV_CANCEL, .contender = attempt->contender, .code = ZKL_ECANCELED});
    }
}

static bool to_release(struct sim *s, struct sim_attempt *attempt)
{
    if (!attempt || (attempt->state != SIM_HOLDING && attempt->state != SIM_LOST)) {
        return false;
    }
    if (attempt->state == SIM_HOLDING) {
        sim_judge_left(s, attempt);
    }
    attempt->state = SIM_RELEASING;
    attempt->asking = true;
    return true;
}

static void release(struct sim *s, struct sim_attempt *attempt)
{
    int client = attempt->client;
    struct sim_attempt *partner = partner_of(s, attempt);
    struct zkl__event event = {.kind = ZKL__EV_RELEASE, .contender = attempt->contender};
    to_release(s, attempt);
    sim_say(s, "app", "%d.%d releases", client, attempt->thread);
    if (to_release(s, partner)) {
        event.kind = ZKL__EV_RELEASE_JOINT;
        event.joint = thread_of(s, attempt)->joint;
        sim_core_event(s, client, event);
        partner->asking = false;
    } else {
        if (attempt->plan->eager && (!partner || partner->state == SIM_OVER)) {
            go_on(s, client, attempt->thread);
        }
        sim_core_event(s, client, event);
    }
    attempt->asking = false;
    sim_faults_on(s, SIM_ON_RELEASE, client);
}

static void downgrade(struct sim *s, struct sim_attempt *attempt)
{
    attempt->shared = true;
    attempt->asking = true;
    thread_in(s, attempt->client, attempt->thread, attempt->plan->hold / 2);
    sim_say(s, "app", "%d.%d becomes a reader", attempt->client, attempt->thread);
    sim_core_event(s, attempt->client,
                   (struct zkl__event){.kind = ZKL__EV_DOWNGRADE, .contender = attempt->contender, .rule = &rule_read});
    attempt->asking = false;
}

/* True when something was done. */
static bool act(struct sim *s, struct sim_attempt *attempt)
{
    if (!attempt || attempt->state == SIM_OVER || attempt->state == SIM_LEFT || attempt->state == SIM_RELEASING) {
        return false;
    }
    const struct sim_client *client = &s->clients[attempt->client];
    if (attempt->plan->ending == SIM_END_LET_GO) {
        let_go(s, attempt);
    } else if (attempt->state == SIM_PENDING) {
        cancel(s, attempt);
    } else if (attempt->state == SIM_HOLDING && attempt->plan->downgrade && !attempt->shared &&
               zkl__contender_holds(client->core, attempt->contender, sim_local(s, attempt->client, sim_now(s)))) {
        downgrade(s, attempt);
    } else {
        release(s, attempt);
    }
    return true;
}

/* Of a joint the waiting one first: then the other is released, alone, or both are, together. */
void sim_thread_due(struct sim *s, int client, int thread)
{
    thread_in(s, client, thread, -1);
    if (s->clients[client].process != SIM_RUNNING) {
        return;
    }
    int index = s->clients[client].threads[thread].attempt;
    if (index < 0) {
        start(s, client, thread);
        return;
    }
    struct sim_attempt *first = &s->attempts[index];
    struct sim_attempt *second = partner_of(s, first);
    if (second && second->state == SIM_PENDING && first->state != SIM_PENDING) {
        act(s, second);
    } else if (!act(s, first)) {
        act(s, second);
    }
}

/* The process is gone: whatever its threads did, nobody hears of it. */
void sim_app_crashed(struct sim *s, int client)
{
    for (int i = 0; i < s->attempt_count; i++) {
        struct sim_attempt *attempt = &s->attempts[i];
        if (attempt->client == client && attempt->state != SIM_OVER) {
            if (attempt->state == SIM_HOLDING) {
                sim_judge_crashed(s, attempt);
                sim_judge_left(s, attempt);
            }
            attempt->state = SIM_OVER;
            attempt->contender = NULL;
        }
    }
    for (int thread = 0; thread < SIM_THREADS; thread++) {
        go_on(s, client, thread);
        thread_in(s, client, thread, -1);
    }
}

bool sim_app_done(const struct sim *s)
{
    for (int i = 0; i < s->attempt_count; i++) {
        if (s->attempts[i].state != SIM_OVER && s->attempts[i].state != SIM_LEFT) {
            return false;
        }
    }
    for (int client = 0; client < s->client_count; client++) {
        for (int thread = 0; thread < SIM_THREADS; thread++) {
            if (next_of(s, client, thread)) {
                return false;
            }
        }
    }
    return true;
}
