/* The library against a real server, behind a proxy that does to its requests what a script says: each of them in turn is lost, loses
 * its answer, ends the session, or is answered late; then all of it by chance, to many threads. Under the thread sanitizer, as all of
 * these tests.
 *
 * ZKLOCK_SECONDS: how long by chance (5). ZKLOCK_SEED. ZKLOCK_FATE and ZKLOCK_NTH: one request of the first test alone. */
#include <arpa/inet.h>

#include "contest.h"
#include "dice.h"
#include "handle_kit.h"
#include "on_servers.h"
#include "proxy.h"

#define PATH "/wire/a"
#define TICK 100 /* ms, of the server */
#define NTH_MAX 60
#define HEADER 16 /* bytes of an answer: xid, zxid, code */
#define STAT 68

struct play {
    enum proxy_fate fate;
    int nth; /* whose fate it is */
    char path[64];
    struct proxy *proxy;
    struct recorder *eye;
    zkl_lock *holder, *lock;
};

static atomic_int wrong;

static bool right(const struct play *play, bool so, const char *what, int code)
{
    static const char *const fates[] = {"serve", "cut before", "cut after", "expire before", "expire after", "hold"};
    if (!so) {
        fprintf(stderr, "%s request %d: %s (%s)\n", fates[play->fate], play->nth, what, zkl_error_name(code));
        wrong++;
    }
    return so;
}

static zkl_session *session_at(const char *servers)
{
    return contest_session(servers, 2000, TICK);
}

/* Keeps its locks when the process stands still for seconds. Only where it is closed: else its znodes last as long. */
static zkl_session *lasting_at(const char *servers)
{
    return contest_session(servers, 30000, TICK);
}

static struct proxy *proxy_with(struct proxy_script script)
{
    struct proxy *proxy = proxy_here();
    proxy_follow(proxy, script);
    return proxy;
}

static void close_at(zkl_session *session, struct proxy *proxy)
{
    kit_close(session);
    proxy_stop(proxy);
}

/* --- every request in turn ------------------------------------------------------------------------------------------- */

static enum proxy_fate fate_of_play(void *payload, int nth, int type)
{
    const struct play *play = payload;
    return nth == play->nth ? play->fate : PROXY_SERVE;
}

/* Waits behind somebody, is granted, holds for some heartbeats, releases. */
static void play_scene(struct play *p)
{
    struct waiter waiter;
    waiter_queue(&waiter, p->lock, SOON);
    zkl_lock_release(p->holder, NULL);
    int code = waiter_end(&waiter);
    if (code == ZKL_ELOST) { /* granted, and the session ended before its thread ran */
        code = zkl_lock_acquire(p->lock, SOON, NULL, NULL);
    }
    right(p, code == ZKL_OK, "acquire", code);
    int before = proxy_requests(p->proxy);
    bool beats = EVENTUALLY(!zkl_lock_is_held(p->lock) || proxy_requests(p->proxy) >= before + 2);
    right(p, beats, "no heartbeat", 0);
    code = zkl_lock_release(p->lock, NULL);
    right(p, code == ZKL_OK || code == ZKL_ELOST, "release", code);
}

/* True when the script's request came. */
static bool play_one(enum proxy_fate fate, int nth)
{
    struct play p = {.fate = fate, .nth = nth, .eye = queue_eye(ensemble_servers(server))};
    snprintf(p.path, sizeof p.path, "/wire/%d-%d", (int)fate, nth);
    p.proxy = proxy_with((struct proxy_script){.fate = fate_of_play, .payload = &p});
    zkl_session *rival = session_at(ensemble_servers(server)), *session = session_at(proxy_address(p.proxy));
    p.holder = contest_holder(rival, p.path);
    p.lock = contest_lock(session, p.path, NULL);
    play_scene(&p);
    zkl_lock_free(p.lock);
    int code = zkl_session_close(session, SOON);
    right(&p, code == ZKL_OK || code == ZKL_ETIMEOUT, "close", code);
    if (code == ZKL_OK) {
        right(&p, queue_length(p.eye, p.path) == 0, "closed, and its znode stands", 0);
    }
    bool came = proxy_requests(p.proxy) >= nth;
    proxy_stop(p.proxy);
    right(&p, queue_becomes(p.eye, p.path, 0), "orphan", 0);
    zkl_lock_free(p.holder);
    zkl_session_close(rival, SOON);
    recorder_free(p.eye);
    return came;
}

struct player {
    pthread_t thread;
    enum proxy_fate fate;
    int plays;
};

/* Until a request does not come. */
static void *run_player(void *arg)
{
    struct player *player = arg;
    while (player->plays < NTH_MAX && play_one(player->fate, ++player->plays)) {
    }
    return NULL;
}

TEST(test_every_request)
{
    struct player players[PROXY_FATES] = {0};
    int plays = 0;
    if (getenv("ZKLOCK_FATE")) {
        play_one((enum proxy_fate)check_setting("ZKLOCK_FATE", 0), (int)check_setting("ZKLOCK_NTH", 1));
        CU_ASSERT_EQUAL(wrong, 0);
        return;
    }
    for (int fate = 1; fate < PROXY_FATES; fate++) {
        players[fate].fate = (enum proxy_fate)fate;
        pthread_create(&players[fate].thread, NULL, run_player, &players[fate]);
    }
    for (int fate = 1; fate < PROXY_FATES; fate++) {
        pthread_join(players[fate].thread, NULL);
        CU_ASSERT(players[fate].plays < NTH_MAX);
        plays += players[fate].plays;
    }
    CU_ASSERT_EQUAL(wrong, 0);
    printf("%d plays; ", plays);
}

/* --- by chance ------------------------------------------------------------------------------------------------------- */

static struct {
    uint64_t dice; /* the proxy's thread alone throws it */
    atomic_bool off;
    atomic_long faults, grants, completed, accepted;
} chance;

static enum proxy_fate fate_by_chance(void *payload, int nth, int type)
{
    if (chance.off || !dice_once_in(&chance.dice, 40)) {
        return PROXY_SERVE;
    }
    chance.faults++;
    return (enum proxy_fate)dice_between(&chance.dice, 1, PROXY_FATES - 1);
}

struct contender {
    pthread_t thread;
    zkl_session *session;
    uint64_t dice;
    int64_t end;
};

static void on_acquired(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    chance.completed++;
    if (code == ZKL_OK) {
        chance.grants++;
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
            wrong++;
            break;
        }
        if (dice_once_in(&c->dice, 3)) {
            chance.accepted++;
            zkl_lock_acquire_async(lock, dice_below(&c->dice, 200), on_acquired, NULL, NULL);
            poll(NULL, 0, (int)dice_below(&c->dice, 20));
            zkl_lock_cancel(lock);
        } else if (zkl_lock_acquire(lock, dice_below(&c->dice, 300), NULL, NULL) == ZKL_OK) {
            chance.grants++;
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
    uint64_t seed = (uint64_t)check_setting("ZKLOCK_SEED", 1);
    struct contender contenders[6];
    zkl_session *sessions[3];
    chance.dice = seed;
    struct recorder *eye = queue_eye(ensemble_servers(server));
    struct proxy *proxy = proxy_with((struct proxy_script){.fate = fate_by_chance});
    for (int i = 0; i < 3; i++) {
        sessions[i] = session_at(proxy_address(proxy));
    }
    for (int i = 0; i < 6; i++) {
        contenders[i] = (struct contender){.session = sessions[i % 3],
                                           .dice = dice_at(seed, 3, (uint64_t)i),
                                           .end = now_ms() + 1000 * check_setting("ZKLOCK_SECONDS", 5)};
        pthread_create(&contenders[i].thread, NULL, run_contender, &contenders[i]);
    }
    for (int i = 0; i < 6; i++) {
        pthread_join(contenders[i].thread, NULL);
    }
    chance.off = true;
    CU_ASSERT(queue_becomes(eye, PATH, 0)); /* without a close: every place was given back */
    for (int i = 0; i < 3; i++) {
        kit_close(sessions[i]);
    }
    printf("%ld grants, %ld faults in %d requests; ", chance.grants, chance.faults, proxy_requests(proxy));
    proxy_stop(proxy);
    recorder_free(eye);
    CU_ASSERT_EQUAL(chance.accepted, chance.completed);
    CU_ASSERT(chance.grants > 0 && chance.faults > 0);
    CU_ASSERT_EQUAL(wrong, 0);
}

/* --- lies ------------------------------------------------------------------------------------------------------------ */

static atomic_bool lying;

static enum proxy_fate fate_of_lists(void *payload, int nth, int type)
{
    return type == PROXY_OP_CHILDREN && lying ? PROXY_LIE : PROXY_SERVE;
}

/* One name more than it has, as much as is left when the stat is cut off, which would be read as names. */
static void count_too_high(void *payload, int type, unsigned char *answer, size_t *size)
{
    if (type == PROXY_OP_CHILDREN && *size >= HEADER + 4 + STAT) {
        answer[HEADER + 3]++;
        *size -= STAT;
    }
}

static void on_members(zkl_group_observer *watcher, const char *const *ids, size_t count, void *payload)
{
    atomic_int *told = payload;
    for (size_t i = 0; i < count; i++) {
        *told += strcmp(ids[i], "a") == 0;
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
    zkl_group *group = NULL;
    zkl_group_observer *watcher = NULL;
    struct proxy *proxy = proxy_with((struct proxy_script){.fate = fate_of_lists, .lie = count_too_high});
    zkl_session *session = lasting_at(proxy_address(proxy));
    ASSERT_OK(zkl_group_new(&group, session, "/wire/group", "a", NULL, NULL));
    ASSERT_OK(zkl_group_join(group, SOON, NULL));
    lying = true;
    ASSERT_OK(zkl_group_observe(&watcher, session, "/wire/group", on_members, &told, NULL));
    list_everything(session);
    CU_ASSERT_EQUAL(told, 0);
    lying = false;
    contest_once(session, PATH);
    ASSERT_EVENTUALLY(told > 0);
    zkl_group_observer_free(watcher);
    zkl_group_free(group);
    close_at(session, proxy);
}

static void grant_no_time(void *payload, int type, unsigned char *answer, size_t *size)
{
    uint32_t granted = htonl((uint32_t) * (const int32_t *)payload);
    if (type == PROXY_OP_NONE && *size >= 8) {
        memcpy(answer + 4, &granted, sizeof granted);
    }
}

/* A server that grants no time, or less: the session is refused by its deadline. */
TEST(test_a_timeout_below_nothing)
{
    static int32_t timeouts[] = {INT32_MIN, -805306368, -1, 1};
    EACH_ROW (i, timeouts) {
        zkl_session *session = NULL;
        struct proxy *proxy = proxy_with((struct proxy_script){.lie = grant_no_time, .payload = &timeouts[i]});
        zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
        options.connect_timeout_ms = 500;
        int64_t began = now_ms();
        CU_ASSERT_NOT_EQUAL(zkl_session_open(&session, proxy_address(proxy), &options, NULL), ZKL_OK);
        CU_ASSERT(now_ms() - began < SOON);
        proxy_stop(proxy);
    }
}

#define EVENTS 1001

/* Watch events say that the session has ended, and that it is connected, so often that one comes while the client is at work on the
 * end. It is over after the first of these: another one is opened, and nobody waits for ever. */
TEST(test_an_end_that_is_none)
{
    enum { LENGTH, XID, ZXID, CODE = ZXID + 2, TYPE, STATE, PATH_LENGTH, WORDS, CONNECTED = 3, EXPIRED = -112 };
    static uint32_t events[EVENTS][WORDS];
    struct proxy *proxy = proxy_with((struct proxy_script){.fate = NULL});
    zkl_session *session = session_at(proxy_address(proxy));
    zkl_lock *lock = contest_lock(session, PATH, NULL);
    for (int i = 0; i < EVENTS; i++) {
        events[i][LENGTH] = htonl(sizeof events[i] - sizeof events[i][LENGTH]);
        events[i][XID] = events[i][ZXID] = events[i][ZXID + 1] = events[i][TYPE] = UINT32_MAX; /* -1 */
        events[i][STATE] = htonl((uint32_t)(i == 0 ? EXPIRED : CONNECTED));
    }
    for (int i = 0; i < 5; i++) {
        int code;
        while ((code = zkl_lock_acquire(lock, SOON, NULL, NULL)) == ZKL_ELOST) { /* before its thread ran */
        }
        ASSERT_OK(code);
        proxy_say(proxy, events, sizeof events);
        ASSERT_EVENTUALLY(zkl_lock_state(lock) == ZKL_STATE_LOST);
        CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);
    }
    zkl_lock_free(lock);
    close_at(session, proxy);
}

/* --- servers older than the client ---------------------------------------------------------------------------------- */

/* payload: the types that it does not know, up to a 0. */
static enum proxy_fate fate_by_age(void *payload, int nth, int type)
{
    for (const int *unknown = payload; *unknown != 0; unknown++) {
        if (type == *unknown) {
            return PROXY_UNIMPLEMENTED;
        }
    }
    return PROXY_SERVE;
}

static void unsupported(const char *what, int code, const zkl_error *err)
{
    static const struct play nothing = {.fate = PROXY_SERVE};
    if (!right(&nothing, code == ZKL_EUNSUPPORTED && strstr(err->text, "3.5"), what, code)) {
        fprintf(stderr, "  %s\n", err->text);
    }
}

/* Each recipe says by name what it misses; none waits for its deadline. */
TEST(test_a_server_of_3_4)
{
    static int unknown[] = {PROXY_OP_CREATE, PROXY_OP_CONTAINER, PROXY_OP_UNWATCH, 0};
    struct proxy *proxy = proxy_with((struct proxy_script){.fate = fate_by_age, .payload = unknown});
    zkl_session *session = lasting_at(proxy_address(proxy));
    zkl_group *group = NULL;
    zkl_double_barrier *barrier = NULL;
    zkl_error err;
    EACH_ROW (i, handle_recipes) {
        zkl_lock *lock = handle_make(&handle_recipes[i], session, "/3.4/lock", NULL);
        unsupported(handle_recipes[i].noun, zkl_lock_acquire(lock, SOON, NULL, &err), &err);
        zkl_lock_free(lock);
    }
    ASSERT_OK(zkl_group_new(&group, session, "/3.4/group", "a", NULL, NULL));
    unsupported("a group", zkl_group_join(group, SOON, &err), &err);
    zkl_group_free(group);
    ASSERT_OK(zkl_double_barrier_new(&barrier, session, "/3.4/barrier", 1, NULL));
    unsupported("a double barrier", zkl_double_barrier_enter(barrier, SOON, &err), &err);
    zkl_double_barrier_free(barrier);
    unsupported("a barrier", zkl_barrier_set(session, "/3.4/simple", SOON, &err), &err);
    close_at(session, proxy);
    CU_ASSERT_EQUAL(wrong, 0);
}

/* 3.5.0: directories become persistent, and a lock is handed over as ever. Then a server that cannot take a watch down. */
TEST(test_servers_without_containers_or_removal)
{
    static int ages[][2] = {{PROXY_OP_CONTAINER, 0}, {PROXY_OP_UNWATCH, 0}};
    EACH_ROW (i, ages) {
        char path[32];
        snprintf(path, sizeof path, "/old-%zu/lock", i);
        struct proxy *proxy = proxy_with((struct proxy_script){.fate = fate_by_age, .payload = ages[i]});
        zkl_session *first = lasting_at(proxy_address(proxy)), *second = lasting_at(proxy_address(proxy));
        zkl_lock *held = contest_holder(first, path), *next = contest_lock(second, path, NULL);
        CU_ASSERT_EQUAL(zkl_lock_acquire(next, 200, NULL, NULL), ZKL_ETIMEOUT); /* its watch is no use any more */
        kit_release(held);
        ASSERT_OK(zkl_lock_acquire(next, SOON, NULL, NULL));
        kit_release(next);
        zkl_lock_free(held);
        zkl_lock_free(next);
        kit_close(first);
        close_at(second, proxy);
    }
}

TESTS_ON_SERVERS("shell wire", (&(struct ensemble_options){.tick_ms = TICK}))
