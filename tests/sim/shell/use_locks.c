/* use_locks.c - whatever stands in a queue and holds: lock, read/write lock, semaphore, multi-lock. */
#include "base.h"
#include "world.h"

/* --- lock: with guarded transactions, and asked to give way ------------------------------------------------------------ */

static const char guarded[] = "/locks"; /* what the holders of /locks/a write; it is there while anybody queues */

static void on_lock(zkl_lock *lock, zkl_state state, void *payload)
{
    zkl_lock_is_held(lock); /* a callback may call anything */
}

static void on_revoke(zkl_lock *lock, void *payload)
{
    struct turn *turn = payload;
    turn->asked = true;
    turn_told(turn, "is asked to give way", ZKL_OK);
}

/* Does our node ask for it, and nobody has told us, though all is quiet? */
static void check_asked(const struct turn *turn, const zkl_lock *lock)
{
    char name[ZKL__NAME_MAX];
    int64_t now = sim_committed_zxid(world);
    bool deaf = world->plan->hides[turn->client] == SIM_NOBODY; /* who may not read its node hears of no request */
    if (!turn->listens || deaf || turn->asked || zkl_lock_node(lock, name, sizeof name) == 0 ||
        !is_quiet_for(2 * world->tick)) {
        return;
    }
    const struct sim_value *value =
        sim_value_at(world, sim_node_at(world, sim_path_of(world, turn->path, name), now), now);
    if (value->size == strlen(ZKL__REVOKE) && memcmp(value->data, ZKL__REVOKE, value->size) == 0) {
        sim_fail_of(turn, "revoked", "was asked to give way, and is not told");
    }
}

static void commit(struct turn *turn, zkl_lock *lock)
{
    char text[20] = {0};
    snprintf(text, sizeof text, "%llx", (unsigned long long)zkl_lock_token(lock));
    const zkl_op op = {.kind = ZKL_OP_SET, .path = guarded, .data = text, .size = strlen(text) + 1, .version = -1};
    turn_told(turn, "commit", EITHER(turn, "commit", zkl_lock_commit, lock, &op, 1, ZKL_WAIT_FOREVER, NULL));
    int64_t token = past_fall(guarded, 16, false); /* whatever an operator does */
    if (token >= 0) {
        sim_fail(world, "guard", "a write under token %llx came after one under a newer", (unsigned long long)token);
    }
}

/* Calls that nobody waits for: the release of the lock comes before them, or the close. */
static void read_and_commit(struct turn *turn, zkl_lock *lock)
{
    LET_BE(turn, "read", zkl_lock_read, &turn->async->data, lock, guarded, true, turn_short_timeout(turn));
    LET_BE(turn, "check", zkl_lock_commit, lock, NULL, 0, ZKL_WAIT_FOREVER, NULL);
}

/* What operators do, but for harm: the znode is nobody's. */
static void look_around(struct turn *turn)
{
    static const char node[] = "_c_00000000-0000-0000-0000-000000000000-lock-2147483646";
    int64_t timeout = turn_short_timeout(turn);
    zkl_session *session = turn->session;
    LET_BE(turn, "list", zkl_queue_list, &turn->async->queue, session, turn->path, timeout);
    LET_BE(turn, "list above", zkl_queue_list, &turn->async->queue, session, guarded, timeout);
    LET_BE(turn, "revoke", zkl_queue_revoke, session, turn->path, NULL, timeout);
    struct async_call *remove = turn_async(turn, "remove");
    if (remove) {
        int code = async_wait(turn, remove,
                              zkl_queue_remove_async(session, turn->path, node, 1, timeout, async_done, remove, NULL));
        if (code == ZKL_OK) {
            sim_fail_of(turn, "outcome", "has removed what is nobody's");
        }
    }
}

static void hold_lock(struct turn *turn, zkl_lock *lock)
{
    for (int i = 0; i < 8 && !turn->asked; i++) {
        if (turn->plan->path == 0 && i % (turn->plan->linger > 0 ? 8 : 2) == 0) {
            commit(turn, lock);
        }
        fiber_sleep(turn->plan->hold / 8);
    }
    check_asked(turn, lock);
}

/* One acquire. False: it was not granted, or is to be freed as it is. */
static bool lock_once(struct turn *turn, zkl_lock *lock)
{
    zkl_grant grant;
    if (turn_acquire(turn, "acquire", lock, &grant) != ZKL_OK) {
        return false;
    }
    turn->serial = grant.serial;
    turn_claim(turn, grant.token, lock);
    hold_lock(turn, lock);
    turn_drop(turn);
    read_and_commit(turn, lock);
    turn_release(turn, lock, "release");
    return !turn_frees(turn);
}

void use_lock(struct turn *turn)
{
    bool lingers = turn->plan->linger > 0;
    zkl_lock *lock;
    turn->listens = turn->thread < 2 && !lingers;
    zkl_lock_options options = turn_options(turn);
    options.recover = turn->plan->mark;
    options.hold_at_least_ms = turn->plan->least > 0 && !lingers ? turn->plan->least / SIM_MS + 1 : 0;
    options.delay_after_crash_ms = turn->plan->delay / SIM_MS;
    options.linger_ms = lingers ? turn->plan->linger / SIM_MS + 1 : 0;
    options.release_timeout_ms = turn->plan->eager ? 0 : 1000;
    options.state_fn = turn->thread == 0 ? on_lock : NULL;
    options.revoke_fn = turn->listens ? on_revoke : NULL;
    options.payload = turn;
    if (zkl_lock_new(&lock, turn->session, turn->path, &options, NULL) != ZKL_OK) {
        return;
    }
    if (turn_dice(turn, 1, 4) == 0) {
        turn_told(turn, "asks the first to give way", zkl_queue_revoke(turn->session, turn->path, NULL, 500, NULL));
    }
    look_around(turn);
    bool more = lock_once(turn, lock);
    for (int i = 0; more && lingers && i < 2; i++) {
        fiber_sleep(turn_dice(turn, 4 + i, turn->plan->linger * 2));
        more = lock_once(turn, lock);
    }
    zkl_lock_free(lock);
}

/* --- read/write lock ---------------------------------------------------------------------------------------------------- */

static int claim_rwlock(struct turn *turn, zkl_lock *lock, bool shared)
{
    struct claim claim = turn_claim_of(turn, turn->plan->path, zkl_lock_token(lock), lock);
    claim.shared = shared;
    return claim.token ? claim_make(claim) : -1;
}

/* A writer that was downgraded may not become one again: two of them would wait for each other. */
static void downgrade(struct turn *turn, zkl_lock *lock)
{
    turn_drop(turn); /* from here on others may read */
    turn_told(turn, "downgrade", zkl_write_lock_downgrade(lock, NULL));
    turn->claims[0] = claim_rwlock(turn, lock, true);
    int code = turn_told(turn, "upgrade", zkl_lock_acquire(lock, 0, NULL, NULL));
    if (code != ZKL_EDEADLK && code != ZKL_ELOST) {
        sim_fail_of(turn, "outcome", "reads, asks to write, and gets %s", zkl_error_name(code));
    }
}

static void hold_rwlock(struct turn *turn, zkl_lock *lock, bool read)
{
    turn->claims[0] = claim_rwlock(turn, lock, read);
    fiber_sleep(turn->plan->hold / 2);
    if (turn->plan->eager && !read) {
        downgrade(turn, lock);
    }
    fiber_sleep(turn->plan->hold / 2);
    turn_drop(turn);
}

void use_rwlock(struct turn *turn)
{
    zkl_lock *lock = NULL;
    zkl_grant grant;
    zkl_lock_options options = turn_options(turn);
    bool read = turn_dice(turn, 2, 2);
    options.recursive = turn->thread > 0 || read;
    if ((read ? zkl_read_lock_new : zkl_write_lock_new)(&lock, turn->session, turn->path, &options, NULL) != ZKL_OK) {
        return;
    }
    if (turn_acquire(turn, "acquire", lock, &grant) == ZKL_OK) {
        hold_rwlock(turn, lock, read);
        turn_release(turn, lock, "release");
    }
    zkl_lock_free(lock);
}

/* --- semaphore ---------------------------------------------------------------------------------------------------------- */

static void resize(struct turn *turn)
{
    int limit = 1 + (int)turn_dice(turn, 10, SIM_RESIZED_MOST);
    int64_t before = sim_committed_zxid(world);
    int code = turn_told(turn, "resize",
                         turn_back(turn, zkl_semaphore_resize(turn->session, turn->path, limit,
                                                              turn_within(turn, turn_short_timeout(turn)), NULL)));
    int most = sim_semaphore_limit(world, sim_path_of(world, turn->path, NULL), before, sim_committed_zxid(world));
    bool fits = code == ZKL_OK || code == ZKL_ENOENT || code == ZKL_ECONFLICT || code == ZKL_ETIMEOUT;
    if (!fits && world->plan->fault_count == 0) {
        sim_fail_of(turn, "outcome", "resize fails with %s, and nothing here explains it", zkl_error_name(code));
    } else if (code == ZKL_OK && most < limit && world->plan->fault_count == 0) {
        sim_fail_of(turn, "outcome", "the limit has never been %d", limit);
    }
}

/* The list on which the grant rests shows our own lease; when nobody else of this process has asked for another one since. */
static void check_lease(const struct turn *turn, int64_t token)
{
    int node = past_node_of(token);
    if (node >= 0 && processes[turn->client].semaphores[turn->plan->path] == 1 &&
        world->nodes[node].dzxid <= world->clients[turn->client].leases_zxid[turn->plan->path]) {
        sim_fail_of(turn, "token", "is granted, and the list it was shown last lacks its lease");
    }
}

static int claim_permits(const struct turn *turn, zkl_lock *semaphore, int count, int64_t token)
{
    int64_t tokens[SIM_LIMIT] = {0};
    int held = zkl_semaphore_tokens(semaphore, tokens, SIM_LIMIT); /* 0: it has lost them meanwhile */
    struct claim claim = turn_claim_of(turn, turn->plan->path, token, semaphore);
    claim.count = count;
    claim.permits = held > 0 ? tokens[held - 1] : token;
    claim.limit =
        sim_semaphore_limit(world, sim_path_of(world, turn->path, NULL), claim.permits, sim_committed_zxid(world));
    return claim_make(claim);
}

void use_semaphore(struct turn *turn)
{
    zkl_lock *semaphore;
    zkl_grant grant;
    zkl_lock_options options = turn_options(turn);
    int count = 1 + (int)turn_dice(turn, 3, SIM_LIMIT);
    /* With dice of its own: the other seeds stay what they were. */
    bool resized = dice_at(world->seed, 0x4e512f, turn->plan->path) % 4 == 0;
    int limit = resized && turn_dice(turn, 8, 4) > 0 ? 0 : SIM_LIMIT;
    if (resized && turn_dice(turn, 9, 3) == 0) {
        resize(turn);
    }
    if (zkl_semaphore_new(&semaphore, turn->session, turn->path, limit, &options, NULL) != ZKL_OK) {
        return;
    }
    processes[turn->client].semaphores[turn->plan->path]++;
    int code =
        turn_back(turn, zkl_semaphore_acquire(semaphore, count, turn_within(turn, turn_timeout(turn)), &grant, NULL));
    if (resized && code == ZKL_ECONFLICT) {
        turn_told(turn, "acquire", code);
    } else if (turn_got(turn, "acquire", code) == ZKL_OK) {
        check_lease(turn, grant.token);
        turn->claims[0] = claim_permits(turn, semaphore, count, grant.token);
        turn_hold(turn);
        turn_drop(turn);
        if (!turn_frees(turn)) {
            turn_told(turn, "release", zkl_semaphore_release(semaphore, count, NULL));
        }
    }
    zkl_lock_free(semaphore);
    processes[turn->client].semaphores[turn->plan->path]--;
}

/* --- multi-lock --------------------------------------------------------------------------------------------------------- */

void use_multilock(struct turn *turn)
{
    zkl_lock *lock;
    zkl_grant grant;
    zkl_lock_options options = turn_options(turn);
    const char *paths[] = {sim_plan_path(0), sim_plan_path(1)};
    if (zkl_multilock_new(&lock, turn->session, paths, 2, &options, NULL) != ZKL_OK) {
        return;
    }
    if (turn_acquire(turn, "acquire", lock, &grant) == ZKL_OK) {
        for (int i = 0; i < 2; i++) {
            turn->claims[i] = claim_make(turn_claim_of(turn, i, grant.token, lock));
        }
        turn_hold(turn);
        turn_drop(turn);
        turn_release(turn, lock, "release");
    }
    zkl_lock_free(lock);
}
