/* actors.c - users of the library in simulated processes: each opens a session, its threads take their turns with one recipe or another
 * (use_*.c), and it closes the session. Which recipe stands at which path is the seed's. */
#include "world.h"

#include "shell.h"

/* One more here changes what every seed means: the kept plans are then to be found anew, with the mutants. */
static use_fn *const recipes[SIM_RECIPES] = {
    [SIM_LOCK] = use_lock,           [SIM_RWLOCK] = use_rwlock,
    [SIM_SEMAPHORE] = use_semaphore, [SIM_MULTILOCK] = use_multilock,
    [SIM_ELECTION] = use_election,   [SIM_PARTITION] = use_partition,
    [SIM_GROUP] = use_group,         [SIM_ONCE] = use_once,
    [SIM_BARRIER] = use_barrier,     [SIM_DOUBLE_BARRIER] = use_double_barrier,
};

static struct actor {
    zkl_session *session;
    int threads_left;
    bool closed;
    int calls, code; /* back from a close that did not wait: how often, with what */
} actors[SIM_CLIENTS];

static use_fn *recipe_at(int path)
{
    use_fn *recipe = recipes[1 + dice_at(world->seed, 4242, path) % (SIM_RECIPES - 1)];
    return recipe == use_multilock && (path != 0 || world->plan->paths < 2) ? use_lock : recipe;
}

/* What stands at both paths must go together: a multi-lock is a lock at each. */
static use_fn *recipe_for(const struct sim_acquire *plan)
{
    int path = plan->path;
    if (plan->recipe) {
        return recipes[plan->recipe];
    }
    return path == 1 && recipe_at(0) == use_multilock ? use_lock : recipe_at(path);
}

/* --- the process ----------------------------------------------------------------------------------------------------- */

static void log_line(const zkl_log_record *record, void *payload)
{
    char who[16];
    snprintf(who, sizeof who, "%d", (int)(intptr_t)payload);
    sim_say(world, who, "%s", record->line);
}

static void open_session(int client)
{
    zkl_heap heap = sim_heap_api(&world->clients[client].heap);
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.session_timeout_ms = world->plan->timeout / SIM_MS;
    options.tick_ms = world->plan->tick / SIM_MS;
    options.leader_pause_ms = world->plan->pause / SIM_MS;
    options.connect_timeout_ms = world->plan->timeout * 4 / SIM_MS;
    options.observer_masters = world->plan->observers ? ZKL_OBSERVER_MASTERS_DETECT : ZKL_OBSERVER_MASTERS_NONE;
    options.heap = &heap;
    options.log_fn = world->trace ? log_line : NULL;
    options.log_payload = (void *)(intptr_t)client;
    options.log_level = ZKL_LOG_DEBUG;
    zkl_session *session;
    while (zkl_session_open(&session, "sim", &options, NULL) != ZKL_OK) {
        processes[client].threads = false;
        fiber_sleep(100 * SIM_MS);
    }
    actors[client].session = session;
    fiber_wake(&actors[client]);
    sim_say(world, "app", "%d has a session", client);
}

/* Without waiting: the last that the process is called back for. */

static void on_closed(int code, const zkl_error *err, void *payload)
{
    struct actor *actor = payload;
    int client = (int)(actor - actors);
    asyncs_close(client);
    actor->code = code;
    if (actor->calls++ > 0) {
        sim_fail(world, "completion", "the close of %d is called back twice", client);
    }
    fiber_wake(&actor->calls);
}

/* Its threads may take a moment more to end, with memory from the heap. */
static int close_async(int client, zkl_session *session)
{
    struct actor *actor = &actors[client];
    zkl_session_close_async(session, 5000, on_closed, actor, NULL); /* there always is a thread to call back on */
    while (actor->calls == 0) {
        fiber_wait(&actor->calls, INT64_MAX);
    }
    for (int i = 0; i < 100 && world->clients[client].heap.live != 0; i++) {
        fiber_sleep(100 * SIM_MS);
    }
    return actor->code;
}

static void close_session(int client)
{
    struct actor *actor = &actors[client];
    while (actor->threads_left > 0) {
        fiber_wait(&actor->threads_left, INT64_MAX);
    }
    while (!world->faults.healed) {
        int64_t left = world->plan->heal - sim_now(world);
        fiber_sleep(left > 0 ? left : world->plan->tick);
    }
    zkl_session *session = actor->session;
    actor->session = NULL;
    int code = world->plan->async && dice_at(world->seed, 4243, client) % 2 == 0 ? close_async(client, session)
                                                                                 : zkl_session_close(session, 5000);
    sim_say(world, "app", "%d closes its session: %s", client, zkl_error_name(code));
    asyncs_close(client);
    if (world->clients[client].heap.live != 0) {
        sim_fail(world, "memory", "client %d leaves %ld blocks behind", client, world->clients[client].heap.live);
    }
    actor->closed = true;
}

static void *live(void *arg)
{
    int number = (int)(intptr_t)arg;
    int client = number / SIM_THREADS, thread = number % SIM_THREADS;
    struct sim_thread *me = &world->threads[number];
    if (thread == 0) {
        open_session(client);
    }
    while (!actors[client].session) {
        fiber_wait(&actors[client], INT64_MAX);
    }
    int at = 0;
    SIM_EACH_ACQUIRE (world->plan, plan) {
        if (plan->client == client && plan->thread == thread && at++ >= me->next) {
            me->next = at; /* a process that starts again goes on behind it */
            struct turn turn = {.s = world,
                                .client = client,
                                .thread = thread,
                                .plan = plan,
                                .path = sim_plan_path(plan->path),
                                .session = actors[client].session,
                                .claims = {-1, -1, -1}};
            fiber_sleep(plan->after);
            sim_say(world, "app", "%d.%d wants %s", client, thread, turn.path);
            recipe_for(plan)(&turn);
        }
    }
    actors[client].threads_left--;
    fiber_wake(&actors[client].threads_left);
    if (thread == 0) {
        close_session(client);
    }
    return NULL;
}

static bool start(struct sim *s, int client)
{
    if (s->judge.failed || s->over) {
        return false;
    }
    actors[client] = (struct actor){.threads_left = SIM_THREADS};
    for (int thread = 0; thread < SIM_THREADS; thread++) {
        int number = client * SIM_THREADS + thread;
        fiber_start(client, SLOT_THREAD + number, live, (void *)(intptr_t)number);
    }
    return true;
}

/* The process is gone, and its memory with it. */
static void stop(struct sim *s, int client)
{
    claims_drop_all(client);
    fiber_drop(client);
    processes[client] = (struct process){.threads = false};
    actors[client].session = NULL;
    sim_heap_reset(&s->clients[client].heap);
}

static void due(struct sim *s, int slot)
{
    if (slot < SLOT_TIMER) {
        store_inbox_due(slot - SLOT_INBOX);
    } else {
        fiber_due(slot);
    }
}

static bool done(const struct sim *s)
{
    SIM_EACH (it, actors, s->client_count) {
        if (!it->closed) {
            return false;
        }
    }
    return true;
}

static void judge(struct sim *s)
{
    claims_check();
    entries_check();
    for (int client = 0; client < s->client_count; client++) {
        bool settled = actors[client].closed || s->clients[client].handle.state == SIM_HANDLE_CONNECTED;
        if (!s->faults.healed || !settled) {
            s->judge.unrest = sim_now(s);
        }
        if (actors[client].session) {
            sim_judge_lease(s, client, actors[client].session->core);
        }
    }
}

static void begin(struct sim *s)
{
    fiber_begin(s);
    claims_begin();
    onces_begin();
    memset(actors, 0, sizeof actors);
}

const struct sim_shell actors_shell = {begin, start, stop, due, store_event, done, judge};
