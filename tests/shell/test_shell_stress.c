/* The threaded shell, which no simulator sees: threads that acquire, cancel, release, free and close at once, on the in-process store
 * with its faults, from callbacks too. Built with the thread sanitizer, deadlock detection on. What is asserted: nobody hangs, every
 * acquire that was accepted completes once, no znode is left, no block is out, and what the sanitizer says.
 *
 * ZKLOCK_SECONDS: how long (10). ZKLOCK_SEED: of the first round (1). */
#include <poll.h>

#include "dice.h"
#include "lock_kit.h"
#include "test_heap.h"

#define TREE "memory:stress"
#define ACTORS 6
#define SIDES 2
#define LOCKS 4
#define PATHS 2
#define ROUND_MS 150

/* A session of many threads, and locks of it. Its calls are for who holds the read lock: a closed session is no argument. */
struct side {
    zkl_session *session;
    pthread_rwlock_t rwlock;
    bool closed;
    zkl_lock *locks[LOCKS];
};

/* A lock that is freed by somebody else, while its owner waits for it. */
struct victim {
    _Atomic(zkl_lock *) lock;
    atomic_bool returned;
};

static struct {
    struct test_heap heap;
    struct side sides[SIDES];
    struct victim victims[ACTORS];
    atomic_bool stop;
    atomic_long accepted, completed, strange; /* asynchronous acquires; results that no call may have */
    atomic_long grants, expiries;
    uint64_t seed;
} stage = {.heap = TEST_HEAP_INIT};

struct actor {
    pthread_t thread;
    uint64_t dice;
    int number;
};

static const char *const paths[PATHS] = {"/stress/a", "/stress/deep/b"};

static void wonder(const char *what, int code)
{
    fprintf(stderr, "%s: %s\n", what, zkl_error_name(code));
    stage.strange++;
}

/* Whether an acquire may end so. */
static void expect(int code)
{
    switch (code) {
    case ZKL_OK:
        stage.grants++;
        break;
    case ZKL_ETIMEOUT:
    case ZKL_EBUSY:
    case ZKL_ECANCELED:
    case ZKL_ELOST:
    case ZKL_EDEADLK:
    case ZKL_ECLOSED:
    case ZKL_ECONNECT:
        break;
    default:
        wonder("an acquire ended", code);
    }
}

static void on_done(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    uint64_t dice = stage.seed ^ (uint64_t)stage.completed++;
    expect(code);
    if ((grant != NULL) != (code == ZKL_OK)) {
        wonder("grant without a grant", code);
    }
    if (code == ZKL_OK && dice_once_in(&dice, 2)) {
        zkl_lock_release(lock, NULL);
    }
}

static void on_change(zkl_lock *lock, zkl_state state, void *payload)
{
    uint64_t dice = stage.seed ^ (uint64_t)state ^ (uint64_t)stage.completed;
    if (zkl_lock_token(lock) < 0) {
        wonder("token in a callback", (int)state);
    }
    if (state == ZKL_STATE_LOST && dice_once_in(&dice, 2)) {
        zkl_lock_release(lock, NULL);
    }
}

static void on_session_change(zkl_session *session, zkl_connection_state state, void *payload)
{
    if (state == ZKL_SESSION_LOST) {
        stage.expiries++;
    }
}

/* --- locks ----------------------------------------------------------------------------------------------------------- */

static zkl_lock *some_lock(zkl_session *session, uint64_t *dice)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_lock *lock = NULL;
    options.recursive = dice_once_in(dice, 4);
    options.recover = dice_once_in(dice, 4);
    options.max_hold_ms = dice_once_in(dice, 3) ? dice_between(dice, 1, 10) : 0;
    options.release_timeout_ms = dice_once_in(dice, 2) ? 0 : 20;
    options.state_fn = dice_once_in(dice, 3) ? NULL : on_change;
    options.on_expiry = dice_once_in(dice, 2) ? ZKL_ON_EXPIRY_FAIL : ZKL_ON_EXPIRY_REQUEUE;
    int code = zkl_lock_new(&lock, session, paths[dice_below(dice, PATHS)], &options, NULL);
    if (code != ZKL_OK && code != ZKL_ECLOSED) {
        wonder("new", code);
    }
    return lock;
}

/* A lock of the side's session, if that is open. */
static zkl_lock *private_lock(struct side *side, uint64_t *dice)
{
    pthread_rwlock_rdlock(&side->rwlock);
    zkl_lock *lock = side->closed ? NULL : some_lock(side->session, dice);
    pthread_rwlock_unlock(&side->rwlock);
    return lock;
}

static void acquire_async_of(zkl_lock *lock, uint64_t *dice)
{
    int64_t timeout_ms = dice_once_in(dice, 3) ? ZKL_WAIT_FOREVER : dice_below(dice, 20);
    stage.accepted++;
    int code = zkl_lock_acquire_async(lock, timeout_ms, on_done, NULL, NULL);
    if (code != ZKL_OK) {
        stage.accepted--;
        if (code != ZKL_EDEADLK && code != ZKL_ECLOSED && code != ZKL_ELOST) { /* lost: held again, recursively */
            wonder("asynchronous acquire", code);
        }
    }
}

/* --- what actors do -------------------------------------------------------------------------------------------------- */

static void visit(const char *path, zkl_state state, int64_t token, void *payload)
{
    if (state == ZKL_STATE_IDLE || token < 0) {
        wonder("visited", (int)state);
    }
}

static void ask_session(struct side *side)
{
    pthread_rwlock_rdlock(&side->rwlock);
    if (!side->closed) {
        zkl_session_dispatch(side->session); /* or nothing: it has a thread for that */
        zkl_session_locks(side->session, visit, NULL);
        zkl_session_state(side->session);
        zkl_session_id(side->session);
    }
    pthread_rwlock_unlock(&side->rwlock);
}

static void ask_lock(const zkl_lock *lock)
{
    char name[64];
    zkl_lock_node(lock, name, sizeof name);
    zkl_lock_remaining_ms(lock);
    if (zkl_lock_is_held(lock) && zkl_lock_token(lock) < 0) {
        wonder("token", 0);
    }
}

static void acquire_and_release(zkl_lock *lock, uint64_t *dice)
{
    zkl_grant grant;
    zkl_error err;
    int code = zkl_lock_acquire(lock, dice_below(dice, 15), &grant, &err);
    expect(code);
    if (code == ZKL_OK && !dice_once_in(dice, 4)) {
        zkl_lock_release(lock, NULL); /* or somebody else does */
    }
}

/* Freed while its acquire is under way, or just over. */
static void free_early(struct side *side, uint64_t *dice)
{
    zkl_lock *lock = private_lock(side, dice);
    if (lock) {
        acquire_async_of(lock, dice);
        if (dice_once_in(dice, 2)) {
            poll(NULL, 0, (int)dice_below(dice, 3));
        }
        zkl_lock_free(lock);
    }
}

/* Freed by the reaper while this thread waits for it, if that takes it in time. */
static void be_victim(struct actor *actor, struct side *side)
{
    struct victim *victim = &stage.victims[actor->number];
    zkl_lock *lock = private_lock(side, &actor->dice);
    if (lock) {
        victim->returned = false;
        victim->lock = lock;
        expect(zkl_lock_acquire(lock, dice_below(&actor->dice, 30), NULL, NULL));
        victim->returned = true;
        zkl_lock *mine = atomic_exchange(&victim->lock, NULL);
        zkl_lock_free(mine);
    }
}

static void act(struct actor *actor)
{
    struct side *side = &stage.sides[dice_below(&actor->dice, SIDES)];
    zkl_lock *lock = side->locks[dice_below(&actor->dice, LOCKS)];
    switch (dice_below(&actor->dice, 9)) {
    case 0:
    case 1:
        acquire_and_release(lock, &actor->dice);
        break;
    case 2:
        acquire_async_of(lock, &actor->dice);
        break;
    case 3:
        zkl_lock_cancel(lock);
        break;
    case 4:
        zkl_lock_release(lock, NULL);
        break;
    case 5:
        ask_lock(lock);
        break;
    case 6:
        ask_session(side);
        break;
    case 7:
        free_early(side, &actor->dice);
        break;
    default:
        be_victim(actor, side);
    }
}

static void *run_actor(void *arg)
{
    struct actor *actor = arg;
    while (!stage.stop) {
        act(actor);
    }
    return NULL;
}

/* Takes locks from their owners once those are inside, and frees them. */
static void *run_reaper(void *arg)
{
    struct actor *actor = arg;
    while (!stage.stop) {
        struct victim *victim = &stage.victims[dice_below(&actor->dice, ACTORS)];
        zkl_lock *lock = atomic_exchange(&victim->lock, NULL);
        while (lock && zkl_lock_state(lock) == ZKL_STATE_IDLE && !victim->returned) {
            sched_yield();
        }
        zkl_lock_free(lock);
        poll(NULL, 0, 1);
    }
    return NULL;
}

/* --- faults ---------------------------------------------------------------------------------------------------------- */

static int64_t id_of(struct side *side)
{
    pthread_rwlock_rdlock(&side->rwlock);
    int64_t id = side->closed ? 0 : zkl_session_id(side->session);
    pthread_rwlock_unlock(&side->rwlock);
    return id;
}

static void harm(int64_t id, uint64_t *dice)
{
    switch (dice_below(dice, 6)) {
    case 0:
        zkl__memory_suspend(id);
        break;
    case 1:
        zkl__memory_expire(id);
        break;
    case 2:
        zkl__memory_suspend(id);
        zkl__memory_expire(id);
        break;
    case 3:
        zkl__memory_hold(id, true);
        break;
    default:
        zkl__memory_break(id, (size_t)dice_below(dice, 5), (size_t)dice_below(dice, 2), (size_t)dice_below(dice, 2));
    }
}

static void *run_nemesis(void *arg)
{
    struct actor *actor = arg;
    while (!stage.stop) {
        int64_t id = id_of(&stage.sides[dice_below(&actor->dice, SIDES)]);
        harm(id, &actor->dice);
        poll(NULL, 0, (int)dice_below(&actor->dice, 6));
        zkl__memory_break(id, 0, 0, 0);
        zkl__memory_hold(id, false);
        zkl__memory_resume(id);
        poll(NULL, 0, (int)dice_below(&actor->dice, 6));
    }
    return NULL;
}

/* --- rounds ---------------------------------------------------------------------------------------------------------- */

static void close_side(struct side *side)
{
    pthread_rwlock_wrlock(&side->rwlock);
    bool open = !side->closed;
    side->closed = true;
    pthread_rwlock_unlock(&side->rwlock);
    if (open) {
        int64_t id = zkl_session_id(side->session);
        int code = zkl_session_close(side->session, 3000);
        if (code == ZKL_ETIMEOUT) { /* its server did not answer: ends like any other session nobody hears of */
            zkl__memory_expire(id);
        }
        CU_ASSERT(code == ZKL_OK || code == ZKL_ETIMEOUT);
    }
}

static void open_side(struct side *side, zkl_heap *heap, uint64_t *dice)
{
    zkl_callbacks callbacks = dice_once_in(dice, 3) ? ZKL_CALLBACKS_DISPATCH : ZKL_CALLBACKS_THREAD;
    const zkl_session_options *options =
        SESSION_OPTIONS(.heap = heap, .state_fn = on_session_change, .callbacks = callbacks);
    pthread_rwlock_init(&side->rwlock, NULL);
    side->closed = false;
    ASSERT_OK_FATAL(zkl_session_open(&side->session, TREE, options, NULL));
    for (int i = 0; i < LOCKS; i++) {
        side->locks[i] = some_lock(side->session, dice);
        CU_ASSERT_PTR_NOT_NULL_FATAL(side->locks[i]);
    }
}

static void free_side(struct side *side)
{
    for (int i = 0; i < LOCKS; i++) {
        zkl_lock_free(side->locks[i]);
    }
}

static void run_round(uint64_t seed, zkl_heap *heap)
{
    struct actor actors[ACTORS + 2];
    uint64_t dice = seed;
    stage.seed = seed;
    stage.stop = false;
    for (int i = 0; i < SIDES; i++) {
        open_side(&stage.sides[i], heap, &dice);
    }
    for (int i = 0; i < ACTORS + 2; i++) {
        actors[i] = (struct actor){.dice = dice_at(seed, 1, (uint64_t)i), .number = i};
        pthread_create(&actors[i].thread, NULL,
                       i < ACTORS    ? run_actor
                       : i == ACTORS ? run_reaper
                                     : run_nemesis,
                       &actors[i]);
    }
    poll(NULL, 0, ROUND_MS / 2); /* its pace: something has to happen, whatever it is */
    if (dice_once_in(&dice, 2)) {
        close_side(&stage.sides[0]);
    }
    poll(NULL, 0, ROUND_MS / 2);
    stage.stop = true;
    for (int i = 0; i < ACTORS + 2; i++) {
        pthread_join(actors[i].thread, NULL);
    }
    for (int i = 0; i < SIDES; i++) { /* objects go before their session, or after it */
        bool before = dice_once_in(&dice, 2);
        if (before) {
            free_side(&stage.sides[i]);
        }
        close_side(&stage.sides[i]);
        if (!before) {
            free_side(&stage.sides[i]);
        }
        pthread_rwlock_destroy(&stage.sides[i].rwlock);
    }
}

TEST(test_stress)
{
    zkl_heap heap = test_heap(&stage.heap);
    zkl_session *eye; /* keeps the tree, and sees that the queues are empty */
    int64_t end = now_ms() + 1000 * check_setting("ZKLOCK_SECONDS", 10);
    uint64_t seed = (uint64_t)check_setting("ZKLOCK_SEED", 1), first = seed;
    ASSERT_OK_FATAL(zkl_session_open(&eye, TREE, SESSION_OPTIONS(.heap = &heap), NULL));
    do {
        run_round(dice_mix(seed), &heap);
        for (int i = 0; i < PATHS; i++) {
            ASSERT_EVENTUALLY(kit_queue(eye, paths[i]) == 0);
        }
        CU_ASSERT_EQUAL(stage.accepted, stage.completed);
        CU_ASSERT_EQUAL(stage.strange, 0);
        if (CU_get_number_of_failures() > 0) {
            fprintf(stderr, "round with seed %llu\n", (unsigned long long)seed);
            break;
        }
        seed++;
    } while (now_ms() < end);
    ASSERT_OK(zkl_session_close(eye, 10000));
    CU_ASSERT_EQUAL(test_heap_live(&stage.heap), 0);
    printf("%llu rounds, %ld grants, %ld asynchronous acquires, %ld expiries; ", (unsigned long long)(seed - first),
           stage.grants, stage.completed, stage.expiries);
    CU_ASSERT(stage.grants > 0 && stage.expiries > 0);
}

TESTS("shell stress")
