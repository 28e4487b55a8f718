/* Programs with different credentials in one open queue, on a real server; what each version tells of a znode that may not be
 * read stands at enum zkl__sight. */
#include "access_kit.h"
#include "one_server.h"

#include <stdio.h>
#include <string.h>

#define ROUNDS 20
#define FEW 200 /* requests of an observer in a second: a loop without backoff sends thousands */
#define SECOND_NS INT64_C(1000000000)

static int64_t slowest(struct access *access, const struct access_kind *kind)
{
    int64_t most = 0;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t took = access_hand_over(access, kind, NULL);
        most = took > most ? took : most;
    }
    return most;
}

/* Within a second, and what the same hand-overs take on this machine when all may be read. */
static void test_hand_over(void)
{
    struct access open, closed;
    access_begin(&open, ensemble_servers(server), false, TICK);
    access_begin(&closed, ensemble_servers(server), true, TICK);
    for (int i = 0; i < access_kind_count; i++) {
        const struct access_kind *kind = &access_kinds[i];
        int64_t control = slowest(&open, kind);
        int64_t most = slowest(&closed, kind);
        fprintf(stderr, "%s: %d of %d, slowest after %.1f ms (all readable: %.1f ms)\n", kind->name, 2 * ROUNDS,
                2 * ROUNDS, (double)most / 1e6, (double)control / 1e6);
        CU_ASSERT(most < control + SECOND_NS);
    }
    access_end(&open);
    access_end(&closed);
}

static void test_nothing_repeated(void)
{
    struct access closed;
    access_begin(&closed, ensemble_servers(server), true, TICK);
    for (int i = 0; i < access_kind_count; i++) {
        CU_ASSERT_EQUAL(access_requests(&closed, &access_kinds[i], NULL), 0);
    }
    access_end(&closed);
}

/* --- observers ----------------------------------------------------------------------------------------------------- */

struct seen {
    atomic_int calls;
    atomic_bool leads;
};

static void on_leader(zkl_election_observer *observer, const zkl_leader *leader, void *payload)
{
    struct seen *seen = payload;
    (void)observer;
    CU_ASSERT(!leader || !leader->readable);
    atomic_store(&seen->leads, leader != NULL);
    atomic_fetch_add(&seen->calls, 1);
}

/* The first wait in vain ends the test: each takes long. */
static void is_told(struct seen *seen, bool leads, int calls)
{
    int64_t end = now_ms() + SOON;
    while (atomic_load(&seen->calls) < calls && look_again(end)) {
    }
    if (atomic_load(&seen->leads) != leads || atomic_load(&seen->calls) != calls) {
        fprintf(stderr, "call %d says that %s leads, and is to be call %d, that %s does\n", atomic_load(&seen->calls),
                atomic_load(&seen->leads) ? "somebody" : "nobody", calls, leads ? "somebody" : "nobody");
        CU_FAIL_FATAL("the observer");
    }
}

static const struct access_kind *kind_named(const char *name)
{
    const struct access_kind *kind = access_kinds;
    while (strcmp(kind->name, name) != 0) {
        kind++;
    }
    return kind;
}

static void test_observer(void)
{
    const struct access_kind *kind = kind_named("election");
    struct access closed;
    struct seen seen = {0};
    zkl_election_observer *observer = NULL;
    access_begin(&closed, ensemble_servers(server), true, TICK);
    zkl_lock *leader = kind->make(closed.sessions[0], kind->path, NULL);
    zkl_lock *other = kind->make(closed.sessions[2], kind->path, NULL);
    CU_ASSERT_EQUAL_FATAL(zkl_lock_acquire(leader, SOON, NULL, NULL), ZKL_OK);
    uint64_t before = access_sent(closed.sessions[1]);
    CU_ASSERT_EQUAL_FATAL(zkl_election_observe(&observer, closed.sessions[1], kind->path, on_leader, &seen, NULL),
                          ZKL_OK);
    is_told(&seen, true, 1);
    CU_ASSERT_EQUAL(zkl_lock_acquire(other, 1000, NULL, NULL),
                    ZKL_ETIMEOUT); /* a second, in which somebody comes and goes behind it */
    uint64_t sent = access_sent(closed.sessions[1]) - before;
    fprintf(stderr, "observer: %llu requests in the first second\n", (unsigned long long)sent);
    CU_ASSERT(sent < FEW);
    CU_ASSERT(queue_becomes(eye, kind->path,
                            1)); /* the other one's znode is deleted behind its call, and would lead for a moment */
    for (int round = 0; round < ROUNDS; round++) {
        CU_ASSERT_EQUAL_FATAL(zkl_lock_release(leader, NULL), ZKL_OK);
        is_told(&seen, false, 2 * round + 2);
        CU_ASSERT_EQUAL_FATAL(zkl_lock_acquire(leader, SOON, NULL, NULL), ZKL_OK);
        is_told(&seen, true, 2 * round + 3);
    }
    zkl_election_observer_free(observer);
    zkl_lock_free(leader);
    zkl_lock_free(other);
    access_end(&closed);
}

/* --- our own znode --------------------------------------------------------------------------------------------------- */

/* Held beyond what its session lives without a proof. */
static void test_own_hidden(void)
{
    zkl_session *session = open_one();
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_lock *lock = NULL, *open = contest_holder(session, "/own");
    options.acl = &access_hidden;
    zkl_lock_free(open);
    CU_ASSERT_EQUAL_FATAL(zkl_lock_new(&lock, session, "/own", &options, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_lock_acquire(lock, SOON, NULL, NULL), ZKL_OK);
    int64_t end = now_ms() + 2 * TIMEOUT, least = TIMEOUT;
    while (zkl_lock_is_held(lock) && look_again(end)) {
        int64_t left = zkl_lock_remaining_ms(lock);
        least = left < least ? left : least;
    }
    fprintf(stderr, "held for %d ms, at least %lld ms of lease left\n", 2 * TIMEOUT, (long long)least);
    CU_ASSERT(zkl_lock_is_held(lock));
    char node[128];
    zkl_lock_node(lock, node, sizeof node);
    CU_ASSERT(queue_remove(eye, "/own", node)); /* and a removal by hand is noticed all the same */
    int64_t soon = now_ms() + SOON;
    while (zkl_lock_is_held(lock) && look_again(soon)) {
    }
    CU_ASSERT_FALSE(zkl_lock_is_held(lock));
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);
    zkl_lock_free(lock);
    close_one(session);
}

/* --- the command ----------------------------------------------------------------------------------------------------- */

/* What it prints, and its exit code. */
static int command(char *out, size_t size, const char *before, const char *arguments)
{
    char line[512];
    snprintf(line, sizeof line, "%s'%s' -s %s --tick %dms %s 2>&1", before, ZKLOCK_COMMAND, ensemble_servers(server),
             TICK, arguments);
    FILE *pipe = popen(line, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(pipe);
    size_t length = fread(out, 1, size - 1, pipe);
    out[length] = '\0';
    return pclose(pipe);
}

/* Not readable, instead of numbers that mean nothing (an age of half a million hours). */
static void test_command(void)
{
    static const char row[] = "holds  -                -  -                   lock        (not readable)";
    static const char hidden[] = "\"token\":null,\"session\":null,\"created\":null,\"created_ms\":null,\"age_ms\":null,"
                                 "\"readable\":false,\"identity\":null";
    static char out[65536];
    struct access closed;
    access_begin(&closed, ensemble_servers(server), true, TICK);
    CU_ASSERT_EQUAL_FATAL(zkl_once_prepare(closed.eye, "/locks/access", SOON, NULL), ZKL_OK);
    const struct access_kind *kind = kind_named("lock");
    zkl_lock *holder = kind->make(closed.sessions[0], "/locks/access", NULL);
    CU_ASSERT_EQUAL_FATAL(zkl_lock_acquire(holder, SOON, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(command(out, sizeof out, "", "ls /locks/access"), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(out, row));
    CU_ASSERT_EQUAL(command(out, sizeof out, "", "--json ls /locks/access"), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(out, hidden));
    out[0] = '\0';
    for (int seconds = 1; seconds <= 64 && !strstr(out, hidden); seconds *= 2) { /* on a busy machine it takes longer */
        char timeout[32];
        snprintf(timeout, sizeof timeout, "timeout -s INT %d ", seconds);
        (void)command(out, sizeof out, timeout, "watch /locks/access");
    }
    CU_ASSERT_PTR_NOT_NULL(strstr(out, hidden));
    (void)command(out, sizeof out, "", "doctor");
    CU_ASSERT_PTR_NOT_NULL(strstr(out, "is not readable"));
    CU_ASSERT_EQUAL(zkl_lock_release(holder, NULL), ZKL_OK);
    zkl_lock_free(holder);
    access_end(&closed);
}

TESTS_ON_ONE_SERVER("access lists", T(test_hand_over), T(test_nothing_repeated), T(test_observer), T(test_own_hidden),
                    T(test_command))
