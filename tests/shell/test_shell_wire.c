/* The library against a server that speaks the protocol on a socket and does what a script says: each of its requests in turn is lost, loses
 * its answer, ends the session, or is answered late; then all of it by chance, to many threads. Under the thread sanitizer, as all of
 * these tests.
 *
 * ZKLOCK_SECONDS: how long by chance (5). ZKLOCK_SEED. ZKLOCK_FATE and ZKLOCK_NTH: one request of the first test alone. */
#include <stdatomic.h>
#include <string.h>

#include "check.h"
#include "dice.h"
#include "fake.h"
#include "wait.h"

#include <pthread.h>

#include <zklock/zklock.h>

#define PATH "/wire/a"
#define PLAYERS 4
#define NTH_MAX 60

static atomic_int wrong;

static bool right(bool so, const char *what, int fate, int nth, int code)
{
    static const char *const fates[] = {"serve", "cut before", "cut after", "expire before", "expire after", "hold"};
    if (!so) {
        fprintf(stderr, "%s request %d: %s (%s)\n", fates[fate], nth, what, zkl_error_name(code));
        atomic_fetch_add(&wrong, 1);
    }
    return so;
}

static zkl_session *session_at(const char *servers)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_session *session;
    zkl_error err;
    options.session_timeout_ms = 2000;
    options.tick_ms = 100;
    options.leader_pause_ms = 20;
    options.connect_timeout_ms = SOON;
    if (zkl_session_open(&session, servers, &options, &err) != ZKL_OK) {
        fprintf(stderr, "%s: %s\n", servers, err.text);
        return NULL;
    }
    return session;
}

static size_t queue_length(zkl_session *eye, const char *path)
{
    zkl_queue *queue;
    if (zkl_queue_list(&queue, eye, path, SOON, NULL) != ZKL_OK) {
        return 999;
    }
    size_t count = queue->count + queue->foreign;
    zkl_queue_free(queue);
    return count;
}

static bool queue_becomes(zkl_session *eye, const char *path, size_t count)
{
    int64_t end = now_ms() + SOON;
    while (queue_length(eye, path) != count) {
        if (!look_again(end)) {
            return false;
        }
    }
    return true;
}

/* --- every request in turn ------------------------------------------------------------------------------------------- */

struct play {
    enum fake_fate fate;
    int nth; /* whose fate it is */
    struct fake *fake;
    zkl_session *eye, *session;
    zkl_lock *holder, *lock;
    pthread_t waiter;
    atomic_bool waited;
    int code;
};

static enum fake_fate fate_of_play(void *payload, int nth, int type)
{
    const struct play *play = payload;
    (void)type;
    return nth == play->nth ? play->fate : FAKE_SERVE;
}

static void *wait_for_lock(void *arg)
{
    struct play *play = arg;
    play->code = zkl_lock_acquire(play->lock, SOON, NULL, NULL);
    if (play->code == ZKL_ELOST) { /* granted, and the session ended before this thread ran */
        play->code = zkl_lock_acquire(play->lock, SOON, NULL, NULL);
    }
    atomic_store(&play->waited, true);
    return NULL;
}

/* Waits behind somebody, is granted, holds for some heartbeats, releases. */
static void play_scene(struct play *p)
{
    pthread_create(&p->waiter, NULL, wait_for_lock, p);
    right(queue_becomes(p->eye, PATH, 2), "does not queue", (int)p->fate, p->nth, 0);
    zkl_lock_release(p->holder, NULL);
    pthread_join(p->waiter, NULL);
    right(p->code == ZKL_OK, "acquire", (int)p->fate, p->nth, p->code);
    int before = fake_requests(p->fake);
    int64_t end = now_ms() + SOON;
    while (zkl_lock_is_held(p->lock) && fake_requests(p->fake) < before + 2 && look_again(end)) {
    }
    right(now_ms() < end, "no heartbeat", (int)p->fate, p->nth, 0);
    int code = zkl_lock_release(p->lock, NULL);
    right(code == ZKL_OK || code == ZKL_ELOST, "release", (int)p->fate, p->nth, code);
}

/* True when the script's request came. */
static bool play_one(enum fake_fate fate, int nth)
{
    char tree[64];
    struct play p = {.fate = fate, .nth = nth};
    snprintf(tree, sizeof tree, "memory:wire-%d-%d", (int)fate, nth);
    p.eye = session_at(tree);
    p.fake = fake_start(tree, fate_of_play, &p);
    p.session = session_at(fake_address(p.fake));
    if (right(p.eye && p.session, "open", (int)fate, nth, ZKL_ECONNECT) &&
        right(zkl_lock_new(&p.holder, p.eye, PATH, NULL, NULL) == ZKL_OK &&
                  zkl_lock_acquire(p.holder, SOON, NULL, NULL) == ZKL_OK &&
                  zkl_lock_new(&p.lock, p.session, PATH, NULL, NULL) == ZKL_OK,
              "begin", (int)fate, nth, ZKL_ENOMEM)) {
        play_scene(&p);
    }
    zkl_lock_free(p.lock);
    int code = zkl_session_close(p.session, SOON);
    right(code == ZKL_OK || code == ZKL_ETIMEOUT, "close", (int)fate, nth, code);
    if (code == ZKL_OK) {
        right(queue_length(p.eye, PATH) == 0, "closed, and its znode stands", (int)fate, nth, 0);
    }
    bool came = fake_requests(p.fake) >= nth;
    fake_stop(p.fake);
    right(queue_becomes(p.eye, PATH, 0), "orphan", (int)fate, nth, 0);
    zkl_lock_free(p.holder);
    zkl_session_close(p.eye, SOON);
    return came;
}

static struct {
    atomic_int next; /* number of the play */
    atomic_bool over[FAKE_FATES];
    atomic_int played;
} program;

static void *run_player(void *arg)
{
    (void)arg;
    for (int i = atomic_fetch_add(&program.next, 1); i < (FAKE_FATES - 1) * NTH_MAX;
         i = atomic_fetch_add(&program.next, 1)) {
        int fate = 1 + i % (FAKE_FATES - 1), nth = 1 + i / (FAKE_FATES - 1);
        if (!atomic_load(&program.over[fate])) {
            if (!play_one((enum fake_fate)fate, nth)) {
                atomic_store(&program.over[fate], true);
            }
            atomic_fetch_add(&program.played, 1);
        }
    }
    return NULL;
}

static long number_of(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

TEST(test_every_request)
{
    pthread_t players[PLAYERS];
    if (getenv("ZKLOCK_FATE")) {
        play_one((enum fake_fate)number_of("ZKLOCK_FATE", 0), (int)number_of("ZKLOCK_NTH", 1));
        CU_ASSERT_EQUAL(atomic_load(&wrong), 0);
        return;
    }
    for (int i = 0; i < PLAYERS; i++) {
        pthread_create(&players[i], NULL, run_player, NULL);
    }
    for (int i = 0; i < PLAYERS; i++) {
        pthread_join(players[i], NULL);
    }
    for (int fate = 1; fate < FAKE_FATES; fate++) {
        CU_ASSERT(atomic_load(&program.over[fate]));
    }
    CU_ASSERT_EQUAL(atomic_load(&wrong), 0);
    printf("%d plays; ", atomic_load(&program.played));
}

/* --- by chance ------------------------------------------------------------------------------------------------------- */

struct chance {
    uint64_t dice;
    atomic_bool off;
    atomic_long faults, grants, completed, accepted;
};

/* On the server's thread alone. */
static enum fake_fate fate_by_chance(void *payload, int nth, int type)
{
    struct chance *chance = payload;
    (void)nth;
    (void)type;
    if (atomic_load(&chance->off) || !dice_once_in(&chance->dice, 40)) {
        return FAKE_SERVE;
    }
    atomic_fetch_add(&chance->faults, 1);
    return (enum fake_fate)dice_between(&chance->dice, 1, FAKE_FATES - 1);
}

struct contender {
    pthread_t thread;
    struct chance *chance;
    zkl_session *session;
    uint64_t dice;
    int64_t end;
};

static void on_acquired(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    struct chance *chance = payload;
    (void)grant;
    (void)err;
    atomic_fetch_add(&chance->completed, 1);
    if (code == ZKL_OK) {
        atomic_fetch_add(&chance->grants, 1);
        zkl_lock_release(lock, NULL);
    }
}

static void *run_contender(void *arg)
{
    struct contender *c = arg;
    while (now_ms() < c->end) {
        zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
        zkl_lock *lock;
        options.release_timeout_ms = dice_once_in(&c->dice, 2) ? 0 : 50;
        if (zkl_lock_new(&lock, c->session, PATH, &options, NULL) != ZKL_OK) {
            atomic_fetch_add(&wrong, 1);
            break;
        }
        if (dice_once_in(&c->dice, 3)) {
            atomic_fetch_add(&c->chance->accepted, 1);
            zkl_lock_acquire_async(lock, dice_below(&c->dice, 200), on_acquired, c->chance, NULL);
            poll(NULL, 0, (int)dice_below(&c->dice, 20));
            zkl_lock_cancel(lock);
        } else if (zkl_lock_acquire(lock, dice_below(&c->dice, 300), NULL, NULL) == ZKL_OK) {
            atomic_fetch_add(&c->chance->grants, 1);
            if (dice_once_in(&c->dice, 2)) {
                zkl_lock_release(lock, NULL);
            }
        }
        zkl_lock_free(lock);
    }
    return NULL;
}

TEST(test_by_chance)
{
    uint64_t seed = (uint64_t)number_of("ZKLOCK_SEED", 1);
    struct chance chance = {.dice = seed};
    struct contender contenders[6];
    zkl_session *sessions[3], *eye = session_at("memory:chance");
    struct fake *fake = fake_start("memory:chance", fate_by_chance, &chance);
    for (int i = 0; i < 3; i++) {
        sessions[i] = session_at(fake_address(fake));
        CU_ASSERT_PTR_NOT_NULL_FATAL(sessions[i]);
    }
    for (int i = 0; i < 6; i++) {
        contenders[i] = (struct contender){.chance = &chance,
                                           .session = sessions[i % 3],
                                           .dice = dice_at(seed, 3, (uint64_t)i),
                                           .end = now_ms() + 1000 * number_of("ZKLOCK_SECONDS", 5)};
        pthread_create(&contenders[i].thread, NULL, run_contender, &contenders[i]);
    }
    for (int i = 0; i < 6; i++) {
        pthread_join(contenders[i].thread, NULL);
    }
    atomic_store(&chance.off, true);
    CU_ASSERT(queue_becomes(eye, PATH, 0)); /* without a close: every place was given back */
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(zkl_session_close(sessions[i], SOON));
    }
    printf("%ld grants, %ld faults in %d requests; ", atomic_load(&chance.grants), atomic_load(&chance.faults),
           fake_requests(fake));
    fake_stop(fake);
    ASSERT_OK(zkl_session_close(eye, SOON));
    CU_ASSERT_EQUAL(atomic_load(&chance.accepted), atomic_load(&chance.completed));
    CU_ASSERT(atomic_load(&chance.grants) > 0 && atomic_load(&chance.faults) > 0);
    CU_ASSERT_EQUAL(atomic_load(&wrong), 0);
}

/* --- lies ------------------------------------------------------------------------------------------------------------ */

static atomic_bool lying;

static enum fake_fate fate_of_lists(void *payload, int nth, int type)
{
    (void)payload;
    (void)nth;
    return type == 12 /* children */ && atomic_load(&lying) ? FAKE_COUNT_TOO_HIGH : FAKE_SERVE;
}

static void on_members(zkl_group_observer *watcher, const char *const *ids, size_t count, void *payload)
{
    atomic_int *told = payload;
    (void)watcher;
    for (size_t i = 0; i < count; i++) {
        atomic_fetch_add(told, strcmp(ids[i], "a") == 0);
    }
}

/* Whatever lists children gets an error, and no name that is not there. */
static void list_everything(zkl_session *session)
{
    zkl_lock *lock = NULL;
    zkl_queue *queue = NULL;
    zkl_members *members = NULL;
    zkl_double_barrier *barrier = NULL;
    ASSERT_OK(zkl_lock_new(&lock, session, PATH, NULL, NULL));
    CU_ASSERT_NOT_EQUAL(zkl_lock_acquire(lock, 300, NULL, NULL), ZKL_OK);
    zkl_lock_free(lock);
    CU_ASSERT_NOT_EQUAL(zkl_queue_list(&queue, session, PATH, 300, NULL), ZKL_OK);
    CU_ASSERT_NOT_EQUAL(zkl_group_list(&members, session, "/wire/group", 300, NULL), ZKL_OK);
    ASSERT_OK(zkl_double_barrier_new(&barrier, session, "/wire/barrier", 1, NULL));
    CU_ASSERT_NOT_EQUAL(zkl_double_barrier_enter(barrier, 300, NULL), ZKL_OK);
    zkl_double_barrier_free(barrier);
}

TEST(test_a_count_too_high)
{
    atomic_int told = 0;
    zkl_lock *lock = NULL;
    zkl_group *group = NULL;
    zkl_group_observer *watcher = NULL;
    struct fake *fake = fake_start("memory:lists", fate_of_lists, NULL);
    zkl_session *session = session_at(fake_address(fake));
    ASSERT_OK(zkl_group_new(&group, session, "/wire/group", "a", NULL, NULL));
    ASSERT_OK(zkl_group_join(group, SOON, NULL));
    atomic_store(&lying, true);
    ASSERT_OK(zkl_group_observe(&watcher, session, "/wire/group", on_members, &told, NULL));
    list_everything(session);
    CU_ASSERT_EQUAL(atomic_load(&told), 0);
    atomic_store(&lying, false);
    ASSERT_OK(zkl_lock_new(&lock, session, PATH, NULL, NULL));
    ASSERT_OK(zkl_lock_acquire(lock, SOON, NULL, NULL));
    for (int64_t end = now_ms() + SOON; atomic_load(&told) == 0 && look_again(end);) {
    }
    CU_ASSERT(atomic_load(&told) > 0);
    zkl_lock_free(lock);
    zkl_group_observer_free(watcher);
    zkl_group_free(group);
    ASSERT_OK(zkl_session_close(session, SOON));
    fake_stop(fake);
}

/* A server that grants no time, or less: the session is refused by its deadline. */
TEST(test_a_timeout_below_nothing)
{
    static const int32_t timeouts[] = {INT32_MIN, -805306368, -1, 1};
    for (size_t i = 0; i < sizeof timeouts / sizeof *timeouts; i++) {
        zkl_session *session = NULL;
        struct fake *fake = fake_start("memory:timeouts", fate_of_lists, NULL);
        zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
        options.connect_timeout_ms = 500;
        fake_set_timeout(fake, timeouts[i]);
        int64_t began = now_ms();
        CU_ASSERT_NOT_EQUAL(zkl_session_open(&session, fake_address(fake), &options, NULL), ZKL_OK);
        CU_ASSERT(now_ms() - began < SOON);
        fake_stop(fake);
    }
}

static enum fake_fate fate_of_an_end(void *payload, int nth, int type)
{
    (void)payload;
    (void)nth;
    (void)type;
    return atomic_exchange(&lying, false) ? FAKE_SAYS_EXPIRED : FAKE_SERVE;
}

/* A server that says in watch events that the session has ended, and that it is connected. It is over after the first of these: another one
 * is opened, and nobody waits for ever. */
TEST(test_an_end_that_is_none)
{
    struct fake *fake = fake_start("memory:ends", fate_of_an_end, NULL);
    zkl_session *session = session_at(fake_address(fake));
    zkl_lock *lock = NULL;
    ASSERT_OK(zkl_lock_new(&lock, session, PATH, NULL, NULL));
    for (int i = 0; i < 5; i++) {
        zkl_queue *queue = NULL;
        ASSERT_OK(zkl_lock_acquire(lock, SOON, NULL, NULL));
        atomic_store(&lying, true);
        zkl_queue_list(&queue, session, PATH, 300, NULL);
        zkl_queue_free(queue);
        for (int64_t end = now_ms() + SOON; zkl_lock_state(lock) != ZKL_STATE_LOST && look_again(end);) {
        }
        CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);
    }
    zkl_lock_free(lock);
    ASSERT_OK(zkl_session_close(session, SOON));
    fake_stop(fake);
}

/* --- servers older than the client ---------------------------------------------------------------------------------- */

enum { REMOVE_WATCHES = 18, CREATE_CONTAINER = 19, CREATE_2 = 15 }; /* ZooDefs.OpCode */

/* 3.4 has none of the three; 3.5.0 no containers. */
static enum fake_fate fate_in_3_4(void *payload, int nth, int type)
{
    (void)payload;
    (void)nth;
    return type == CREATE_2 || type == CREATE_CONTAINER || type == REMOVE_WATCHES ? FAKE_UNIMPLEMENTED : FAKE_SERVE;
}

static enum fake_fate fate_in_3_5_0(void *payload, int nth, int type)
{
    (void)payload;
    (void)nth;
    return type == CREATE_CONTAINER ? FAKE_UNIMPLEMENTED : FAKE_SERVE;
}

static enum fake_fate fate_without_removal(void *payload, int nth, int type)
{
    (void)payload;
    (void)nth;
    return type == REMOVE_WATCHES ? FAKE_UNIMPLEMENTED : FAKE_SERVE;
}

/* A session at a fake server of that age, and whoever looks past it. */
static struct fake *old_server(const char *tree, fake_fate_fn fate_fn, zkl_session **session)
{
    struct fake *fake = fake_start(tree, fate_fn, NULL);
    *session = session_at(fake_address(fake));
    CU_ASSERT_PTR_NOT_NULL_FATAL(*session);
    return fake;
}

static void unsupported(const char *what, int code, const zkl_error *err)
{
    if (!right(code == ZKL_EUNSUPPORTED && strstr(err->text, "3.5"), what, FAKE_SERVE, 0, code)) {
        fprintf(stderr, "  %s\n", err->text);
    }
}

/* Each recipe says by name what it misses; none waits for its deadline. */
TEST(test_a_server_of_3_4)
{
    zkl_session *session;
    struct fake *fake = old_server("memory:3.4", fate_in_3_4, &session);
    zkl_group *group = NULL;
    zkl_double_barrier *barrier = NULL;
    zkl_error err;
    const char *paths[] = {PATH "/one", PATH "/two"};
    zkl_lock *locks[5] = {NULL};
    ASSERT_OK(zkl_lock_new(&locks[0], session, PATH, NULL, NULL));
    ASSERT_OK(zkl_read_lock_new(&locks[1], session, PATH, NULL, NULL));
    ASSERT_OK(zkl_multilock_new(&locks[2], session, paths, 2, NULL, NULL));
    ASSERT_OK(zkl_semaphore_new(&locks[3], session, "/wire/semaphore", 2, NULL, NULL));
    ASSERT_OK(zkl_election_new(&locks[4], session, "/wire/election", NULL, NULL));
    for (size_t i = 0; i < sizeof locks / sizeof *locks; i++) {
        unsupported("a lock", zkl_lock_acquire(locks[i], SOON, NULL, &err), &err);
        zkl_lock_free(locks[i]);
    }
    ASSERT_OK(zkl_group_new(&group, session, "/wire/group", "a", NULL, NULL));
    unsupported("a group", zkl_group_join(group, SOON, &err), &err);
    zkl_group_free(group);
    ASSERT_OK(zkl_double_barrier_new(&barrier, session, "/wire/barrier", 1, NULL));
    unsupported("a double barrier", zkl_double_barrier_enter(barrier, SOON, &err), &err);
    zkl_double_barrier_free(barrier);
    unsupported("a barrier", zkl_barrier_set(session, "/wire/simple", SOON, &err), &err);
    ASSERT_OK(zkl_session_close(session, SOON));
    fake_stop(fake);
    CU_ASSERT_EQUAL(atomic_load(&wrong), 0);
}

/* Directories become persistent, and a lock is handed over as ever. Then a server that cannot take a watch down. */
TEST(test_servers_without_containers_or_removal)
{
    static const fake_fate_fn ages[] = {fate_in_3_5_0, fate_without_removal};
    for (size_t i = 0; i < sizeof ages / sizeof *ages; i++) {
        char tree[32];
        snprintf(tree, sizeof tree, "memory:old-%zu", i);
        zkl_session *sessions[2];
        zkl_lock *locks[2] = {NULL};
        struct fake *fake = old_server(tree, ages[i], &sessions[0]);
        sessions[1] = session_at(fake_address(fake));
        for (int k = 0; k < 2; k++) {
            ASSERT_OK(zkl_lock_new(&locks[k], sessions[k], PATH, NULL, NULL));
        }
        ASSERT_OK(zkl_lock_acquire(locks[0], SOON, NULL, NULL));
        CU_ASSERT_EQUAL(zkl_lock_acquire(locks[1], 200, NULL, NULL), ZKL_ETIMEOUT); /* its watch is no use any more */
        ASSERT_OK(zkl_lock_release(locks[0], NULL));
        ASSERT_OK(zkl_lock_acquire(locks[1], SOON, NULL, NULL));
        ASSERT_OK(zkl_lock_release(locks[1], NULL));
        for (int k = 0; k < 2; k++) {
            zkl_lock_free(locks[k]);
            ASSERT_OK(zkl_session_close(sessions[k], SOON));
        }
        fake_stop(fake);
    }
}

/* --- a server that takes no seal, met at a reconnect ------------------------------------------------------------------- */

#define CROWD 200

static enum fake_fate fate_of_the_50th(void *payload, int nth, int type)
{
    struct fake *const *fake = payload;
    (void)type;
    if (nth == 50) {
        fake_refuse_auth(*fake);
    }
    return nth == 50 ? FAKE_CUT_BEFORE : FAKE_SERVE;
}

static void on_crowd(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    (void)grant;
    (void)err;
    if (code == ZKL_OK) {
        zkl_lock_release(lock, NULL);
    }
    atomic_fetch_add((atomic_int *)payload, 1);
}

/* Many requests are under way again when it says so: the session goes on without a seal, and they end. */
static void refuse_the_seal(int round)
{
    char tree[64], path[64];
    atomic_int ended = 0;
    zkl_lock *locks[CROWD] = {NULL};
    struct fake *fake = NULL;
    snprintf(tree, sizeof tree, "memory:seal-%d", round);
    fake = fake_start(tree, fate_of_the_50th, &fake);
    zkl_session *session = session_at(fake_address(fake));
    for (int i = 0; i < CROWD; i++) {
        snprintf(path, sizeof path, "%s/%d", PATH, i);
        ASSERT_OK(zkl_lock_new(&locks[i], session, path, NULL, NULL));
        ASSERT_OK(zkl_lock_acquire_async(locks[i], 2 * SOON, on_crowd, &ended, NULL));
    }
    for (int64_t end = now_ms() + SOON; atomic_load(&ended) < CROWD && look_again(end);) {
    }
    CU_ASSERT_EQUAL_FATAL(atomic_load(&ended), CROWD); /* else close would not end either */
    for (int i = 0; i < CROWD; i++) {
        zkl_lock_free(locks[i]);
    }
    ASSERT_OK(zkl_session_close(session, SOON));
    fake_stop(fake);
}

TEST(test_a_seal_refused_at_a_reconnect)
{
    for (int round = 0; round < 5; round++) {
        refuse_the_seal(round);
    }
}

TESTS("shell wire")
