/* run.c - one run: the plan until its application is done, the quiet after it, the close of everything. */
#include "run.h"

#include "invariants.h"

void sim_reset(struct sim *s, const struct sim_plan *plan, uint64_t seed)
{
    memset((char *)s + offsetof(struct sim, plan), 0, sizeof *s - offsetof(struct sim, plan));
    s->plan = plan;
    s->seed = seed;
    s->hash = 0xcbf29ce484222325u;
    s->server_count = plan->servers;
    s->voters = plan->servers - plan->observers;
    s->tick = plan->tick;
    s->leader = -1;
    s->value_count = SIM_NODES;
    s->client_count = plan->clients;
    sim_clock_init(&s->clock, seed);
    for (int i = 0; i < s->client_count; i++) {
        struct sim_client *it = &s->clients[i];
        *it = (struct sim_client){.process = SIM_STOPPED,
                                  .clock_ppm = plan->ppm[i],
                                  .clock_base = dice_at(seed, SLOT_TIMER + i, 0) % (1000 * SIM_SECOND) + 1,
                                  .handle.conn = -1,
                                  .connected_at = SIM_NEVER,
                                  .heap = it->heap};
        sim_heap_reset(&it->heap);
    }
}

/* Queues whose counter is nearly used up. */
static void use_up_sequence(struct sim *s)
{
    for (int i = 0; i < s->plan->paths && s->plan->sequence; i++) {
        int path = sim_path_of(s, sim_plan_path(i), NULL);
        sim_stranger_prepares(s, path, NULL, 0);
        s->nodes[s->paths[path].node].cversion = s->plan->sequence;
    }
}

/* What the core reads to learn of observers. */
static void make_config(struct sim *s)
{
    static const char text[] = "server.1=a:2888:3888:participant\nserver.4=b:2888:3888:observer\nversion=0";
    if (s->plan->observers) {
        sim_stranger_prepares(s, sim_path_of(s, "/zookeeper", "config"), text, sizeof text - 1);
    }
}

/* What happens in the slots from that one on. */
static const struct {
    int first;
    void (*happen)(struct sim *s, int index);
} events[] = {
    {SLOT_TO_SERVER, sim_server_hears_client},
    {SLOT_TO_CLIENT, sim_client_hears_server},
    {SLOT_TO_LEADER, sim_leader_hears},
    {SLOT_FROM_LEADER, sim_follower_hears},
    {SLOT_TICK, sim_server_ticks},
    {SLOT_ANSWER, sim_follower_answers},
    {SLOT_LIBRARY, sim_handle_due},
    {SLOT_INBOX, sim_inbox_due},
    {SLOT_TIMER, sim_timer_due},
    {SLOT_PROCESS, sim_process_due},
    {SLOT_THREAD, sim_thread_due},
    {SLOT_PING, sim_master_pings},
    {SLOTS, NULL},
};
static int event_of[SLOTS]; /* sim_new */

static void happen(struct sim *s, int slot)
{
    bool of_shell = (slot >= SLOT_INBOX && slot < SLOT_PROCESS) || (slot >= SLOT_THREAD && slot < SLOT_PING);
    if (s->shell && of_shell) {
        s->shell->due(s, slot);
    } else if (slot == SLOT_EXPIRY) {
        sim_leader_expires(s);
    } else if (slot == SLOT_ELECTION) {
        sim_election(s);
    } else if (slot == SLOT_FAULT) {
        sim_faults_due(s);
    } else {
        events[event_of[slot]].happen(s, slot - events[event_of[slot]].first);
    }
}

bool sim_step_slot(struct sim *s, int slot)
{
    int64_t due = s->clock.due[slot];
    if (due == SIM_NEVER || s->judge.failed) {
        return false;
    }
    s->clock.now = due;
    s->steps++;
    sim_hash(s, due * 256 + slot);
    happen(s, slot);
    if (s->shell) {
        s->shell->judge(s);
    }
    return true;
}

bool sim_step(struct sim *s)
{
    return sim_step_slot(s, sim_clock_next(&s->clock));
}

/* Nothing of the application is left on the servers, and only living processes have sessions. */
static bool quiet(const struct sim *s)
{
    SIM_EACH_NODE (s, it) {
        if (it->owner > SIM_STRANGER && it->dzxid > sim_committed_zxid(s)) {
            return false;
        }
    }
    return true;
}

static bool run_until(struct sim *s, bool (*done)(const struct sim *s), int64_t limit)
{
    while (!done(s)) {
        if (sim_now(s) > limit || !sim_step(s)) {
            return false;
        }
    }
    return true;
}

static bool app_done(const struct sim *s)
{
    return s->faults.healed && (s->shell ? s->shell->done(s) : sim_app_done(s));
}

static bool all_closed(const struct sim *s)
{
    for (int client = 0; client < s->client_count; client++) {
        if (s->clients[client].process != SIM_STOPPED) {
            return false;
        }
    }
    return true;
}

static void close_all(struct sim *s)
{
    if (s->shell) {
        return; /* its actors have closed already */
    }
    for (int client = 0; client < s->client_count && !s->judge.failed; client++) {
        sim_clock_set(&s->clock, SLOT_PROCESS + client, SIM_NEVER); /* whoever has not started yet need not */
        sim_process_close(s, client);
    }
    if (!run_until(s, all_closed, sim_now(s) + 20 * s->plan->timeout)) {
        sim_fail(s, "liveness", "a session does not close");
    }
}

void sim_begin(struct sim *s, const struct sim_plan *plan, uint64_t seed, FILE *trace)
{
    s->trace = trace;
    sim_reset(s, plan, seed);
    if (s->shell) {
        s->shell->begin(s);
    }
    sim_ensemble_start(s);
    use_up_sequence(s);
    sim_semaphores_begin(s);
    make_config(s);
    for (int client = 0; client < s->client_count; client++) {
        sim_process_start(s, client);
    }
    sim_faults_arm(s);
}

void sim_abandon(struct sim *s)
{
    for (int client = 0; client < s->client_count; client++) {
        sim_process_free(s, client);
    }
}

void sim_finish(struct sim *s, bool in_time)
{
    s->over = true;
    if (in_time) {
        /* The sessions of the dead need their timeout; what the living left behind must go much sooner, but may wait for a
         * reconnect. */
        run_until(s, quiet, sim_now(s) + 4 * s->plan->timeout + 20 * s->tick);
    }
    sim_judge_end(s, in_time);
    if (!s->judge.failed) {
        close_all(s);
    }
    sim_abandon(s);
}

bool sim_run(struct sim *s, const struct sim_plan *plan, uint64_t seed, FILE *trace)
{
    int64_t quiet = s->shell ? 300 * (2 * plan->timeout + 5 * SIM_SECOND) : 0; /* its threads wait for it */
    int64_t limit = 60 * plan->timeout + quiet;
    bool slow = plan->slow_once_in > 0 || plan->scheduler == SIM_PCT;
    sim_begin(s, plan, seed, trace);
    bool done = run_until(s, app_done, plan->heal + limit);
    /* A grant needs a lease, and a lease needs three round trips (five behind an observer's master) that end within the session
     * timeout. Some networks here hardly ever answer as fast as that: then all that still waits is granted on a network that does. */
    if (!done && slow && !s->judge.failed) {
        s->quick = true;
        sim_say(s, "network", "no packet is slow any more");
        done = run_until(s, app_done, sim_now(s) + limit);
    }
    sim_finish(s, done);
    return !s->judge.failed;
}

struct sim *sim_new(void)
{
    struct sim *s = calloc(1, sizeof *s);
    for (int i = 0; s && i < SIM_CLIENTS; i++) {
        sim_heap_init(&s->clients[i].heap);
    }
    for (int slot = 1; slot < SLOTS; slot++) {
        event_of[slot] = event_of[slot - 1] + (events[event_of[slot - 1] + 1].first == slot);
    }
    return s;
}

void sim_free(struct sim *s)
{
    for (int i = 0; i < SIM_CLIENTS; i++) {
        sim_heap_deinit(&s->clients[i].heap);
    }
    free(s);
}
