/* turn.c - what all turns share; and calls without waiting: each is called back exactly once, before its session's close has been, and never when
 * it was refused (invariant `completion`). What the library writes for such a call is kept here, since the user of an object may be gone by
 * then. */
#include "world.h"

enum { CALLS = 512 }; /* of a process, in its life */
static struct async_call calls[SIM_CLIENTS][CALLS];

struct async_call *turn_async(struct turn *turn, const char *what)
{
    int client = turn->client;
    if (!world->plan->async || turn_dice(turn, 100 + turn->asyncs++, 2) != 0) {
        return NULL;
    }
    struct async_call *call = &calls[client][sim_next_of(&processes[client].calls, CALLS)];
    *call = (struct async_call){.s = turn->s, .client = client, .thread = turn->thread, .what = what};
    return call;
}

/* --- called back ------------------------------------------------------------------------------------------------------ */

void async_done(int code, const zkl_error *err, void *payload)
{
    struct async_call *call = payload;
    sim_say(world, "app", "%d.%d is called back for %s: %s", call->client, call->thread, call->what,
            zkl_error_name(code));
    if (call->refused || call->times > 0 || processes[call->client].closed) {
        sim_fail_of(call, "completion", "%s is called back %s", call->what,
                    call->times > 0 ? "twice"
                    : call->refused ? "though it was refused"
                                    : "when the close of its session has been");
    }
    if (err && code != ZKL_OK && err->code != code) {
        sim_fail(world, "completion", "%s ends with %s, and its text is of %s", call->what, zkl_error_name(code),
                 zkl_error_name(err->code));
    }
    call->times++;
    call->code = code;
    sim_hash(world, code + 78);
    fiber_wake(call);
}

static void async_acquired(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    struct async_call *call = payload;
    if (grant) {
        call->grant = *grant;
    }
    async_done(code, err, payload);
}

void async_let_be(struct async_call *call, int rc)
{
    if (rc != ZKL_OK) {
        call->refused = true;
        if (call->times > 0) {
            sim_fail_of(call, "completion", "%s is refused, and was called back", call->what);
        }
    }
}

int async_wait(struct turn *turn, struct async_call *call, int rc)
{
    turn->due = SIM_NEVER; /* callbacks come one after the other, and some block */
    async_let_be(call, rc);
    if (rc != ZKL_OK) {
        return rc;
    }
    while (call->times == 0) {
        fiber_wait(call, INT64_MAX);
    }
    return call->code;
}

/* --- the close -------------------------------------------------------------------------------------------------------- */

void asyncs_close(int client)
{
    SIM_EACH (call, calls[client], processes[client].calls) {
        if (!call->refused && call->times != 1) {
            sim_fail_of(call, "completion", "%s was not called back before the close of its session", call->what);
        }
        zkl_queue_free(call->queue);
        zkl_data_free(call->data);
        call->queue = NULL;
        call->data = NULL;
    }
    processes[client].closed = true;
}

int64_t turn_dice(const struct turn *turn, unsigned what, int64_t bound)
{
    uint64_t roll = dice_at(world->seed, 7000u + (turn->plan - world->plan->acquires), what);
    return (roll >> 1) % bound;
}

int turn_told(const struct turn *turn, const char *what, int code)
{
    sim_say(world, "app", "%d.%d %s: %s", turn->client, turn->thread, what, zkl_error_name(code));
    sim_hash(world, code + 77);
    world->judge.unrest = sim_now(world);
    return code;
}

static bool fits(const struct turn *turn, int code)
{
    const struct sim_plan *plan = world->plan;
    switch (code) {
    case ZKL_OK:
        return true;
    case ZKL_ETIMEOUT: /* of a try: the bound of its wait for a server */
        return turn->plan->timeout >= 0 || turn->plan->try_only;
    case ZKL_EBUSY:
        return turn->plan->try_only;
    case ZKL_ELOST: /* also: granted, and lost before the thread could be told */
        return turn->plan->fail_on_expiry || plan->fault_count > 0 || plan->slow_once_in > 0;
    case ZKL_EAUTH: /* who may not read its own node can do without most of it, not of everything */
        return plan->fault_count > 0 || plan->hides[turn->client] == SIM_NOBODY;
    case ZKL_ENOMEM:
    case ZKL_ELIMIT:
    case ZKL_EEXHAUSTED:
    case ZKL_ECONFLICT:
        return plan->fault_count > 0 || plan->sequence > 0;
    default:
        return false;
    }
}

int turn_got(const struct turn *turn, const char *what, int code)
{
    turn_told(turn, what, code);
    world->judge.completions++;
    if (!fits(turn, code)) {
        sim_fail_of(turn, "outcome", "%s fails with %s, and nothing here explains it", what, zkl_error_name(code));
    }
    return code;
}

int64_t turn_within(struct turn *turn, int64_t timeout_ms)
{
    int64_t ns = timeout_ms * SIM_MS;
    turn->due = timeout_ms > 0 ? sim_now(world) + ns + ns / 500 : SIM_NEVER; /* 0: a try waits for the server */
    return timeout_ms;
}

int turn_back(struct turn *turn, int code)
{
    int64_t due = sim_max(turn->due, world->clients[turn->client].paused_until);
    if (due != SIM_NEVER && sim_now(world) > due + 50 * SIM_MS) {
        sim_fail_of(turn, "bounded", "a call with a timeout is back %.3f ms late, with %s",
                    (double)(sim_now(world) - due) / 1e6, zkl_error_name(code));
    }
    return code;
}

static int64_t ms(int64_t ns)
{
    return ns < 0 ? ZKL_WAIT_FOREVER : ns / SIM_MS + 1;
}

int64_t turn_timeout(const struct turn *turn)
{
    return turn->plan->try_only ? 0 : ms(turn->plan->timeout);
}

int64_t turn_short_timeout(const struct turn *turn)
{
    return ms(turn->plan->timeout < 0 ? 2 * world->plan->timeout : turn->plan->timeout);
}

static bool lock_holds(const void *lock)
{
    return zkl_lock_is_held(lock);
}

struct claim turn_claim_of(const struct turn *turn, int resource, int64_t token, const void *lock)
{
    return (struct claim){.client = turn->client,
                          .thread = turn->thread,
                          .resource = resource,
                          .count = 1,
                          .limit = 1,
                          .object = lock,
                          .holds = lock_holds,
                          .token = token,
                          .serial = turn->serial};
}

void turn_claim(struct turn *turn, int64_t token, const void *lock)
{
    turn->claims[0] = claim_make(turn_claim_of(turn, turn->plan->path, token, lock));
}

void turn_drop(struct turn *turn)
{
    for (int i = 0; i < PIECES; i++) {
        claim_drop(turn->claims[i]);
        turn->claims[i] = -1;
    }
}

int turn_acquire(struct turn *turn, const char *what, zkl_lock *lock, zkl_grant *grant)
{
    int64_t timeout = turn_within(turn, turn_timeout(turn));
    struct async_call *call = turn_async(turn, "acquire");
    int code = call ? async_wait(turn, call, zkl_lock_acquire_async(lock, timeout, async_acquired, call, NULL))
                    : zkl_lock_acquire(lock, timeout, grant, NULL);
    if (call) {
        *grant = call->grant;
    }
    return turn_got(turn, what, turn_back(turn, code));
}

void turn_release(struct turn *turn, zkl_lock *lock, const char *what)
{
    if (!turn_frees(turn)) {
        int code = EITHER(turn, "release", zkl_lock_release, lock);
        turn_told(turn, what, code == ZKL_ENOMEM ? zkl_lock_release(lock, NULL) : code); /* which needs none */
    }
}

zkl_lock_options turn_options(const struct turn *turn)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.on_expiry = turn->plan->fail_on_expiry ? ZKL_ON_EXPIRY_FAIL : ZKL_ON_EXPIRY_REQUEUE;
    options.acl = sim_acl_of(world, turn->client);
    return options;
}

void turn_hold(struct turn *turn)
{
    fiber_sleep(turn->plan->hold);
}

bool turn_frees(const struct turn *turn)
{
    return turn->plan->ending == SIM_END_LET_GO;
}

int64_t turn_seen(const struct turn *turn)
{
    return world->clients[turn->client].handle.last_zxid;
}

/* --- quiet ------------------------------------------------------------------------------------------------------------ */

/* Then a lease may end again and again, and nobody gets anywhere: a session in doubt needs a timeout in which each chain is complete in
 * time. A chain is three round trips of six packets each and the gap between two of them, behind an observer's master it is five; and PCT
 * delays a packet by up to eight times the usual. */
static bool is_slow(void)
{
    const struct sim_plan *plan = world->plan;
    int64_t chain = 3 * 6 * 8 * plan->delay + plan->tick / 2 + plan->pause;
    return plan->slow_once_in > 0 || (plan->scheduler == SIM_PCT && (plan->observers > 0 || chain > plan->timeout));
}

bool is_quiet_for(int64_t ns)
{
    return world->faults.healed && !is_slow() && sim_now(world) - world->judge.unrest > ns;
}

int64_t quiet_time(void)
{
    return 2 * world->plan->timeout + 5 * SIM_SECOND; /* what was refused is tried again after two seconds */
}

bool is_quiet(void)
{
    return is_quiet_for(quiet_time());
}

bool await_quiet(void)
{
    int64_t limit = sim_now(world) + world->plan->heal + 4 * quiet_time();
    if (is_slow()) {
        return false;
    }
    world->judge.unrest = sim_now(world); /* what we have just asked for shows nowhere yet */
    while (!is_quiet() && sim_now(world) < limit) {
        fiber_sleep(quiet_time() / 8);
    }
    return is_quiet();
}
