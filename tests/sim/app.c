/* app.c - threads of an application: acquire, hold, release, one after the other, as the plan says. They stand where the
 * recipes' public functions stand: one contender per acquire, one completion, a release whatever happened. */
#include <assert.h>

#include "invariants.h"
#include "sim.h"

static int slot_of(int client, int thread)
{
    return SLOT_THREAD + client * SIM_THREADS + thread;
}

static void thread_in(struct sim *s, int client, int thread, int64_t delay)
{
    sim_arm(s, slot_of(client, thread), delay < 0 ? SIM_NEVER : sim_now(s) + delay);
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
    const struct sim_acquire *next = next_of(s, client, thread);
    thread_in(s, client, thread, next ? next->after : -1);
}

void sim_app_start(struct sim *s, int client)
{
    for (int thread = 0; thread < SIM_THREADS; thread++) {
        go_on(s, client, thread);
    }
}

/* Inside a step: note it, and let the thread act later. */
static void notify(void *owner, const struct zkl__outcome *outcome)
{
    struct sim_attempt *attempt = owner;
    sim_judge_outcome(attempt, outcome);
}

static void over(struct sim *s, struct sim_attempt *attempt)
{
    attempt->contender = NULL;
    struct sim_thread *thread = &s->clients[attempt->client].threads[attempt->thread];
    if (thread->attempt >= 0 && &s->attempts[thread->attempt] == attempt) {
        go_on(s, attempt->client, attempt->thread);
    }
}

/* Called by the judge when it has looked at an outcome. */
void sim_app_outcome(struct sim_attempt *attempt, const struct zkl__outcome *outcome)
{
    struct sim *s = attempt->s;
    const struct sim_acquire *plan = attempt->plan;
    switch (outcome->kind) {
    case ZKL__GRANTED:
        attempt->state = SIM_HOLDING;
        attempt->granted = sim_now(s);
        attempt->token = outcome->token;
        thread_in(s, attempt->client, attempt->thread, plan->hold);
        break;
    case ZKL__FAILED:
    case ZKL__RELEASED:
        attempt->state = SIM_OVER;
        over(s, attempt);
        break;
    case ZKL__LOSS:
        if (attempt->asking) {
            break;
        }
        attempt->state = SIM_LOST;
        thread_in(s, attempt->client, attempt->thread, plan->hold / 4);
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

static void start(struct sim *s, int client, int thread)
{
    const struct sim_acquire *plan = next_of(s, client, thread);
    if (!plan) {
        return;
    }
    if (s->attempt_count == SIM_ATTEMPTS) {
        s->overflow = true;
        return;
    }
    struct sim_attempt *attempt = &s->attempts[s->attempt_count];
    int64_t now = sim_local(s, client, sim_now(s));
    *attempt = (struct sim_attempt){.s = s,
                                    .state = SIM_PENDING,
                                    .client = client,
                                    .thread = thread,
                                    .plan = plan,
                                    .path = plan->path,
                                    .node = -1,
                                    .session = -1,
                                    .started = sim_now(s),
                                    .deadline = plan->timeout < 0 ? INT64_MAX : now + plan->timeout,
                                    .last_state = ZKL__NEW};
    struct zkl__contender_config config = {.rule = &zkl__rule_mutex,
                                           .path = sim_plan_path(plan->path),
                                           .metadata = "host:1",
                                           .fail_on_expiry = plan->fail_on_expiry,
                                           .max_hold = plan->max_hold,
                                           .notify = notify,
                                           .owner = attempt};
    attempt->contender = zkl__contender_new(s->clients[client].core, &config);
    if (!attempt->contender) {
        thread_in(s, client, thread, SIM_MS); /* no memory: the caller would be told, and tries again */
        return;
    }
    s->clients[client].threads[thread].attempt = s->attempt_count++;
    s->clients[client].threads[thread].next++;
    thread_in(s, client, thread, plan->cancel);
    sim_say(s, "app", "%d.%d asks for %s", client, thread, sim_plan_path(plan->path));
    sim_core_event(s, client,
                   (struct zkl__event){.kind = ZKL__EV_START,
                                       .contender = attempt->contender,
                                       .deadline = attempt->deadline,
                                       .try_only = plan->try_only});
}

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

static void release(struct sim *s, struct sim_attempt *attempt)
{
    int client = attempt->client;
    bool eager = attempt->plan->eager;
    if (attempt->state == SIM_HOLDING) {
        sim_judge_left(s, attempt);
    }
    attempt->state = SIM_RELEASING;
    sim_say(s, "app", "%d.%d releases", client, attempt->thread);
    if (eager) {
        go_on(s, client, attempt->thread);
    }
    attempt->asking = true;
    sim_core_event(s, client, (struct zkl__event){.kind = ZKL__EV_RELEASE, .contender = attempt->contender});
    attempt->asking = false;
    sim_faults_on(s, SIM_ON_RELEASE, client);
}

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
    struct sim_attempt *attempt = &s->attempts[index];
    switch (attempt->state) {
    case SIM_PENDING:
        if (attempt->plan->ending == SIM_END_LET_GO) {
            let_go(s, attempt);
        } else if (!attempt->canceled) {
            attempt->canceled = true;
            sim_say(s, "app", "%d.%d cancels", client, thread);
            sim_core_event(
                s, client,
                (struct zkl__event){.kind = ZKL__EV_CANCEL, .contender = attempt->contender, .code = ZKL_ECANCELED});
        }
        break;
    case SIM_HOLDING:
    case SIM_LOST:
        if (attempt->plan->ending == SIM_END_LET_GO) {
            let_go(s, attempt);
        } else {
            release(s, attempt);
        }
        break;
    case SIM_RELEASING:
    case SIM_LEFT:
    case SIM_OVER:
        break;
    }
}

/* The process is gone: whatever its threads did, nobody hears of it. */
void sim_app_crashed(struct sim *s, int client)
{
    for (int i = 0; i < s->attempt_count; i++) {
        struct sim_attempt *attempt = &s->attempts[i];
        if (attempt->client == client && attempt->state != SIM_OVER) {
            if (attempt->state == SIM_HOLDING) {
                sim_judge_left(s, attempt);
            }
            attempt->state = SIM_OVER;
            attempt->contender = NULL;
        }
    }
    for (int thread = 0; thread < SIM_THREADS; thread++) {
        s->clients[client].threads[thread].attempt = -1;
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
