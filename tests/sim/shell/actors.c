/* actors.c - users of the library in simulated processes: each opens a session, its threads acquire and release with one recipe or
 * another, and it closes the session. Which recipe stands at which path is the seed's. */
#include "world.h"

#include <string.h>

#include <zklock/zklock.h>

#include "shell.h"

enum recipe { LOCK, RWLOCK, SEMAPHORE, ELECTION, MULTILOCK, RECIPES };
enum { LIMIT = 2 };

static struct actor {
    zkl_session *session;
    int threads_left;
    bool opened, closed;
} actors[SIM_CLIENTS];

static enum recipe recipe_at(const struct sim *s, int path)
{
    enum recipe recipe = (enum recipe)(dice_at(s->seed, 4242, (uint64_t)path) % RECIPES);
    return recipe == MULTILOCK && (path != 0 || s->plan->paths < 2) ? LOCK : recipe;
}

/* What stands at both paths must go together: a multi-lock is a lock at each. */
static enum recipe recipe_for(const struct sim *s, int path)
{
    return path == 1 && recipe_at(s, 0) == MULTILOCK ? LOCK : recipe_at(s, path);
}

static int64_t ms(int64_t ns)
{
    return ns < 0 ? ZKL_WAIT_FOREVER : ns / SIM_MS + 1;
}

/* --- one thread ------------------------------------------------------------------------------------------------------ */

struct turn {
    struct sim *s;
    int client, thread;
    const struct sim_acquire *plan;
    int claims[2];
};

static bool fits(const struct turn *turn, int code)
{
    const struct sim *s = turn->s;
    switch (code) {
    case ZKL_OK:
        return true;
    case ZKL_ETIMEOUT:
        return turn->plan->timeout >= 0 && !turn->plan->try_only;
    case ZKL_EBUSY:
        return turn->plan->try_only;
    case ZKL_ELOST: /* also: granted, and lost before the thread could be told */
        return turn->plan->fail_on_expiry || s->plan->fault_count > 0 || s->plan->slow_once_in > 0;
    case ZKL_EAUTH:
    case ZKL_ENOMEM:
    case ZKL_ELIMIT:
    case ZKL_EEXHAUSTED:
    case ZKL_ECONFLICT:
        return s->plan->fault_count > 0 || s->plan->sequence > 0;
    default:
        return false;
    }
}

static void told(const struct turn *turn, const char *what, int code)
{
    sim_say(turn->s, "app", "%d.%d %s: %s", turn->client, turn->thread, what, zkl_error_name(code));
    sim_hash(turn->s, (uint64_t)code + 77);
}

static int got(struct turn *turn, int code)
{
    told(turn, "acquire", code);
    turn->s->judge.completions++;
    if (code == ZKL_ETIMEOUT && turn->plan->try_only) {
        return code; /* the bound of a try's wait for a server */
    }
    if (!fits(turn, code)) {
        sim_fail(turn->s, "outcome", "%d.%d: acquire fails with %s, and nothing here explains it", turn->client,
                 turn->thread, zkl_error_name(code));
    }
    return code;
}

static int64_t timeout_of(const struct turn *turn)
{
    return turn->plan->try_only ? 0 : ms(turn->plan->timeout);
}

static struct claim claim_of(const struct turn *turn, const zkl_grant *grant)
{
    return (struct claim){.client = turn->client,
                          .thread = turn->thread,
                          .path = turn->plan->path,
                          .count = 1,
                          .limit = 1,
                          .token = grant->token};
}

static void hold(struct turn *turn)
{
    fiber_sleep(turn->plan->hold);
}

static void drop_claims(struct turn *turn)
{
    claim_drop(turn->claims[0]);
    claim_drop(turn->claims[1]);
}

static bool frees(const struct turn *turn)
{
    return turn->plan->ending == SIM_END_LET_GO;
}

static void on_lock(zkl_lock *lock, zkl_state state, void *payload)
{
    (void)payload;
    (void)state;
    zkl_lock_is_held(lock); /* a callback may call anything */
}

static bool lock_holds(const void *lock)
{
    return zkl_lock_is_held(lock);
}

static void use_lock(struct turn *turn, zkl_session *session)
{
    zkl_lock *lock;
    zkl_grant grant;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.recover = turn->plan->mark;
    options.release_timeout_ms = turn->plan->eager ? 0 : 1000;
    options.on_expiry = turn->plan->fail_on_expiry ? ZKL_ON_EXPIRY_FAIL : ZKL_ON_EXPIRY_REQUEUE;
    options.state_fn = turn->thread == 0 ? on_lock : NULL;
    if (zkl_lock_new(&lock, session, sim_plan_path(turn->plan->path), &options, NULL) != ZKL_OK) {
        return;
    }
    if (got(turn, zkl_lock_acquire(lock, timeout_of(turn), &grant, NULL)) == ZKL_OK) {
        struct claim claim = claim_of(turn, &grant);
        claim.object = lock;
        claim.holds = lock_holds;
        turn->claims[0] = claim_make(turn->s, &claim);
        hold(turn);
        drop_claims(turn);
        if (!frees(turn)) {
            told(turn, "release", zkl_lock_release(lock, NULL));
        }
    }
    zkl_lock_free(lock);
}

static bool rwlock_holds(const void *lock)
{
    return zkl_rwlock_is_held(lock);
}

static void use_rwlock(struct turn *turn, zkl_session *session)
{
    zkl_rwlock *lock;
    zkl_grant grant;
    zkl_rwlock_options options = ZKL_RWLOCK_OPTIONS_INIT;
    bool read = dice_at(turn->s->seed, (uint64_t)turn->client, (uint64_t)turn->thread) % 2;
    options.on_expiry = turn->plan->fail_on_expiry ? ZKL_ON_EXPIRY_FAIL : ZKL_ON_EXPIRY_REQUEUE;
    if (zkl_rwlock_new(&lock, session, sim_plan_path(turn->plan->path), &options, NULL) != ZKL_OK) {
        return;
    }
    zkl_rwmode mode = read ? ZKL_RW_READ : ZKL_RW_WRITE;
    if (got(turn, zkl_rwlock_acquire(lock, mode, timeout_of(turn), &grant, NULL)) == ZKL_OK) {
        struct claim claim = claim_of(turn, &grant);
        claim.object = lock;
        claim.holds = rwlock_holds;
        claim.shared = read;
        turn->claims[0] = claim_make(turn->s, &claim);
        fiber_sleep(turn->plan->hold / 2);
        if (!read && turn->plan->eager) {
            drop_claims(turn); /* from here on others may read */
            told(turn, "downgrade", zkl_rwlock_downgrade(lock, NULL));
        }
        fiber_sleep(turn->plan->hold / 2);
        drop_claims(turn);
        if (!frees(turn)) {
            told(turn, "release", zkl_rwlock_release(lock, NULL));
        }
    }
    zkl_rwlock_free(lock);
}

static bool semaphore_holds(const void *semaphore)
{
    return zkl_semaphore_is_held(semaphore);
}

static void use_semaphore(struct turn *turn, zkl_session *session)
{
    zkl_semaphore *semaphore;
    zkl_grant grant;
    zkl_semaphore_options options = ZKL_SEMAPHORE_OPTIONS_INIT;
    int count = 1 + (int)(dice_at(turn->s->seed, (uint64_t)turn->client, 5) % LIMIT);
    options.on_expiry = turn->plan->fail_on_expiry ? ZKL_ON_EXPIRY_FAIL : ZKL_ON_EXPIRY_REQUEUE;
    if (zkl_semaphore_new(&semaphore, session, sim_plan_path(turn->plan->path), LIMIT, &options, NULL) != ZKL_OK) {
        return;
    }
    if (got(turn, zkl_semaphore_acquire(semaphore, count, timeout_of(turn), &grant, NULL)) == ZKL_OK) {
        struct claim claim = claim_of(turn, &grant);
        claim.object = semaphore;
        claim.holds = semaphore_holds;
        claim.count = count;
        claim.limit = LIMIT;
        turn->claims[0] = claim_make(turn->s, &claim);
        hold(turn);
        drop_claims(turn);
        if (!frees(turn)) {
            told(turn, "release", zkl_semaphore_release(semaphore, count, NULL));
        }
    }
    zkl_semaphore_free(semaphore);
}

static bool election_holds(const void *election)
{
    return zkl_election_is_leader(election);
}

static void use_election(struct turn *turn, zkl_session *session)
{
    zkl_election *election;
    zkl_grant grant;
    zkl_election_options options = ZKL_ELECTION_OPTIONS_INIT;
    options.on_expiry = turn->plan->fail_on_expiry ? ZKL_ON_EXPIRY_FAIL : ZKL_ON_EXPIRY_REQUEUE;
    if (zkl_election_new(&election, session, sim_plan_path(turn->plan->path), &options, NULL) != ZKL_OK) {
        return;
    }
    if (got(turn, zkl_election_campaign(election, timeout_of(turn), &grant, NULL)) == ZKL_OK) {
        struct claim claim = claim_of(turn, &grant);
        claim.object = election;
        claim.holds = election_holds;
        turn->claims[0] = claim_make(turn->s, &claim);
        if (turn->plan->eager) {
            told(turn, "publish", zkl_election_publish(election, "other", 500, NULL));
        }
        hold(turn);
        drop_claims(turn);
        if (!frees(turn)) {
            told(turn, "resign", zkl_election_resign(election, NULL));
        }
    }
    zkl_election_free(election);
}

static bool multilock_holds(const void *lock)
{
    return zkl_multilock_is_held(lock);
}

static void use_multilock(struct turn *turn, zkl_session *session)
{
    zkl_multilock *lock;
    zkl_grant grant;
    zkl_multilock_options options = ZKL_MULTILOCK_OPTIONS_INIT;
    const char *paths[] = {sim_plan_path(0), sim_plan_path(1)};
    options.on_expiry = turn->plan->fail_on_expiry ? ZKL_ON_EXPIRY_FAIL : ZKL_ON_EXPIRY_REQUEUE;
    if (zkl_multilock_new(&lock, session, paths, 2, &options, NULL) != ZKL_OK) {
        return;
    }
    if (got(turn, zkl_multilock_acquire(lock, timeout_of(turn), &grant, NULL)) == ZKL_OK) {
        struct claim claim = claim_of(turn, &grant);
        claim.object = lock;
        claim.holds = multilock_holds;
        for (int i = 0; i < 2; i++) {
            claim.path = i;
            turn->claims[i] = claim_make(turn->s, &claim);
        }
        hold(turn);
        drop_claims(turn);
        if (!frees(turn)) {
            told(turn, "release", zkl_multilock_release(lock, NULL));
        }
    }
    zkl_multilock_free(lock);
}

/* --- the process ----------------------------------------------------------------------------------------------------- */

static void take_turn(struct turn *turn, zkl_session *session)
{
    static void (*const uses[RECIPES])(struct turn *, zkl_session *) = {use_lock, use_rwlock, use_semaphore,
                                                                        use_election, use_multilock};
    turn->claims[0] = turn->claims[1] = -1;
    fiber_sleep(turn->plan->after);
    sim_say(turn->s, "app", "%d.%d wants %s", turn->client, turn->thread, sim_plan_path(turn->plan->path));
    uses[recipe_for(turn->s, turn->plan->path)](turn, session);
}

static void log_line(const zkl_log_record *record, void *payload)
{
    char who[16];
    snprintf(who, sizeof who, "%d", (int)(intptr_t)payload);
    sim_say(fiber_world(), who, "%s", record->line);
}

static void open_session(struct sim *s, int client)
{
    zkl_heap heap = sim_heap_api(&s->clients[client].heap);
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.session_timeout_ms = s->plan->timeout / SIM_MS;
    options.tick_ms = s->plan->tick / SIM_MS;
    options.leader_pause_ms = s->plan->pause / SIM_MS;
    options.connect_timeout_ms = s->plan->timeout * 4 / SIM_MS;
    options.heap = &heap;
    options.log_fn = s->trace ? log_line : NULL;
    options.log_payload = (void *)(intptr_t)client;
    options.log_level = ZKL_LOG_DEBUG;
    while (zkl_session_open(&actors[client].session, "sim", &options, NULL) != ZKL_OK) {
        threads_forget(client);
        fiber_sleep(100 * SIM_MS);
    }
    actors[client].opened = true;
    fiber_wake(&actors[client]);
    sim_say(s, "app", "%d has a session", client);
}

static void close_session(struct sim *s, int client)
{
    struct actor *actor = &actors[client];
    while (actor->threads_left > 0) {
        fiber_wait(&actor->threads_left, INT64_MAX);
    }
    while (!s->faults.healed) {
        fiber_sleep(s->plan->heal - sim_now(s) > 0 ? s->plan->heal - sim_now(s) : s->plan->tick);
    }
    zkl_session *session = actor->session;
    actor->session = NULL;
    int code = zkl_session_close(session, 5000);
    sim_say(s, "app", "%d closes its session: %s", client, zkl_error_name(code));
    actor->closed = true;
}

static void live(void *arg)
{
    int number = (int)(intptr_t)arg;
    int client = number / SIM_THREADS, thread = number % SIM_THREADS;
    struct sim *s = fiber_world();
    struct sim_thread *me = &s->clients[client].threads[thread];
    if (thread == 0) {
        open_session(s, client);
    }
    while (!actors[client].opened) {
        fiber_wait(&actors[client], INT64_MAX);
    }
    int at = 0;
    for (int i = 0; i < s->plan->acquire_count; i++) {
        const struct sim_acquire *plan = &s->plan->acquires[i];
        if (plan->client == client && plan->thread == thread && at++ >= me->next) {
            me->next = at; /* a process that starts again goes on behind it */
            struct turn turn = {.s = s, .client = client, .thread = thread, .plan = plan};
            take_turn(&turn, actors[client].session);
        }
    }
    actors[client].threads_left--;
    fiber_wake(&actors[client].threads_left);
    if (thread == 0) {
        close_session(s, client);
    }
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
    threads_forget(client);
    store_forget(client);
    actors[client].session = NULL;
    sim_heap_reset(&s->clients[client].heap);
}

static void due(struct sim *s, int slot)
{
    if (slot < SLOT_TIMER) {
        store_inbox_due(s, slot - SLOT_INBOX);
    } else {
        fiber_due(slot);
    }
}

static bool done(const struct sim *s)
{
    for (int client = 0; client < s->client_count; client++) {
        if (!actors[client].closed) {
            return false;
        }
    }
    return true;
}

static void judge(struct sim *s)
{
    claims_check(s);
    for (int client = 0; client < s->client_count; client++) {
        if (actors[client].session && actors[client].opened) {
            sim_judge_lease(s, client, zkl__session_core(actors[client].session));
        }
    }
}

static void begin(struct sim *s)
{
    fiber_begin(s);
    threads_begin();
    claims_begin();
    memset(actors, 0, sizeof actors);
    for (int client = 0; client < SIM_CLIENTS; client++) {
        store_forget(client);
    }
}

const struct sim_shell actors_shell = {begin, start, stop, due, store_event, done, judge};
