/* libzklock_st with a real server: one thread, hand-over, loss, and the end of a session. */
#include "st_kit.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "on_servers.h"
#include "proxy.h"

#define TICK 500
#define TIMEOUT 10000 /* its lease outlasts some seconds in which a test stands still */
#define SHORT 4000    /* it is to end */
#define PATH "/locks/st"

static zkl_session *open_for(const char *servers, zkl_callbacks callbacks, int64_t timeout_ms)
{
    zkl_session *session = NULL;
    const zkl_session_options *options =
        SESSION_OPTIONS(.session_timeout_ms = timeout_ms, .tick_ms = TICK, .callbacks = callbacks);
    ASSERT_OK_FATAL(zkl_session_open(&session, servers, options, NULL));
    return session;
}

static zkl_session *open_at(const char *servers, zkl_callbacks callbacks)
{
    return open_for(servers, callbacks, TIMEOUT);
}

static zkl_session *open_here(void)
{
    return open_at(ensemble_servers(server), ZKL_CALLBACKS_THREAD);
}

/* --- another process ------------------------------------------------------------------------------------------------ */

/* In the child: holds the lock, says so, waits until another process queues behind it, looks at that one's threads, releases. */
static int hold_until_somebody_waits(int said, pid_t other)
{
    char path[64];
    zkl_session *session = open_here();
    zkl_lock *lock = kit_lock(session, PATH, NULL);
    int code = zkl_lock_acquire(lock, 10000, NULL, NULL);
    bool told = write(said, "x", 1) == 1;
    bool queued = EVENTUALLY(kit_queue(session, PATH) == 2);
    snprintf(path, sizeof path, "/proc/%ld/task", (long)other);
    bool alone = kit_entries(path) == 1 && kit_entries("/proc/self/task") == 1;
    code = code == ZKL_OK ? zkl_lock_release(lock, NULL) : code;
    kit_free(lock);
    int closed = zkl_session_close(session, 10000);
    return code == ZKL_OK && told && queued && alone && closed == ZKL_OK ? 0 : 1;
}

TEST(test_hand_over_between_processes)
{
    int pipes[2];
    char byte;
    pid_t here = getpid();
    CU_ASSERT_EQUAL_FATAL(pipe(pipes), 0);
    CU_ASSERT_EQUAL(kit_entries("/proc/self/task"), 1);
    pid_t child = fork();
    if (child == 0) {
        _exit(hold_until_somebody_waits(pipes[1], here));
    }
    zkl_session *session = open_here();
    zkl_lock *lock = kit_lock(session, PATH, NULL);
    CU_ASSERT_EQUAL(read(pipes[0], &byte, 1), 1);
    ASSERT_OK(zkl_lock_acquire(lock, 30000, NULL, NULL));
    kit_await(child);
    kit_free(lock);
    kit_close(session);
    close(pipes[0]);
    close(pipes[1]);
}

/* --- lost connections ----------------------------------------------------------------------------------------------- */

static zkl_lock *held_by_cut;

/* Both may be told in one turn of the loop, if the test stood still meanwhile: what counts is how it is at the grant. */
static void on_acquired_behind(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    CU_ASSERT_FALSE(zkl_lock_is_held(held_by_cut));
    on_acquired(lock, code, grant, err, payload);
}

/* While it has no server its lease ends, and another is granted, in this order; then it has a new session. */
TEST(test_loss_by_expiry)
{
    struct proxy *proxy = proxy_here();
    struct mailbox box = MAILBOX_INIT, granted = MAILBOX_INIT;
    zkl_session *cut = open_for(proxy_address(proxy), ZKL_CALLBACKS_THREAD, SHORT), *other = open_here();
    zkl_lock *lock = held_by_cut = kit_hold(cut, PATH, STATES_TO(&box));
    zkl_lock *next = kit_lock(other, PATH, NULL);
    kit_acquire_async(next, on_acquired_behind, &granted);
    int64_t before = zkl_session_id(cut);
    proxy_down(proxy);
    ASSERT_EVENTUALLY(mailbox_last(&box) == ZKL_STATE_LOST);
    kit_await_letters(&granted, 1);
    CU_ASSERT_FALSE(zkl_lock_is_held(lock));
    proxy_refuse(proxy, false);
    ASSERT_EVENTUALLY(zkl_session_state(cut) == ZKL_SESSION_CONNECTED && zkl_session_id(cut) != before);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);
    kit_free(lock);
    kit_free(next);
    kit_close(cut);
    kit_close(other);
    proxy_stop(proxy);
}

/* Dispatches for longer than a session lives that nobody hears of. How often that was. */
static int turns_of_a_timeout(zkl_session *session)
{
    int64_t until = now_ms() + TIMEOUT + 2000;
    int turns = 0;
    while (now_ms() < until && dispatch_once(session)) {
        turns++;
    }
    CU_ASSERT(now_ms() >= until);
    return turns;
}

/* A connection that goes is made again, and the lock stays held: by a loop of the user's, which sleeps on the descriptor alone. */
TEST(test_dispatch_through_an_interruption)
{
    struct proxy *proxy = proxy_here();
    struct mailbox box = MAILBOX_INIT;
    zkl_session *session = open_at(proxy_address(proxy), ZKL_CALLBACKS_DISPATCH);
    zkl_lock *lock = kit_lock(session, PATH, NULL);
    kit_acquire_async(lock, on_acquired, &box);
    CU_ASSERT(DISPATCHED(session, mailbox_count(&box) == 1));
    proxy_cut(proxy);
    CU_ASSERT(DISPATCHED(session, zkl_session_state(session) == ZKL_SESSION_SUSPENDED));
    CU_ASSERT(DISPATCHED(session, zkl_session_state(session) == ZKL_SESSION_CONNECTED));
    CU_ASSERT(DISPATCHED(session, zkl_lock_state(lock) == ZKL_STATE_HELD));
    CU_ASSERT(turns_of_a_timeout(session) < 400); /* pings and heartbeats, and no more */
    CU_ASSERT(zkl_lock_is_held(lock));
    kit_free(lock);
    kit_close(session);
    proxy_stop(proxy);
}

/* One that holds nothing lives by the client library's pings, for which the descriptor wakes the loop. */
TEST(test_an_idle_session_lives)
{
    zkl_session *session = open_here();
    int64_t id = zkl_session_id(session);
    CU_ASSERT(zkl_session_fd(session) >= 0);
    CU_ASSERT_EQUAL(kit_queue(session, PATH), 0); /* behind it, and before the next turn, no time must be forgotten */
    turns_of_a_timeout(session);
    CU_ASSERT_EQUAL(kit_queue(session, PATH), 0);
    CU_ASSERT_EQUAL(zkl_session_id(session), id);
    kit_close(session);
}

/* A program that computes after the opening, and then begins its loop: the client library gives a connection up that it has not
 * been called for in two thirds of the session's timeout, and it says so from inside its next call. */
TEST(test_a_descriptor_after_a_long_computation)
{
    zkl_session *session = open_for(ensemble_servers(server), ZKL_CALLBACKS_DISPATCH, 4 * TICK);
    int64_t until = now_ms() + 3 * TICK;
    while (now_ms() < until) {
    }
    CU_ASSERT(zkl_session_fd(session) >= 0);
    CU_ASSERT(DISPATCHED(session,
                         kit_stats(session).suspensions > 0)); /* a slow machine is connected again in the same call */
    CU_ASSERT(DISPATCHED(session, zkl_session_state(session) == ZKL_SESSION_CONNECTED));
    kit_close(session);
}

/* In the child: answers a ConnectRequest with a session that can only be read, and nothing else. */
static _Noreturn void serve_readonly(int listener)
{
    static const unsigned char session[] = {[3] = 37, [10] = 7, [11] = 208, [19] = 1, [23] = 16, [40] = 1};
    char request[512];
    for (;;) {
        int client = accept(listener, NULL, NULL);
        if (recv(client, request, sizeof request, 0) > 0 && memcmp(request, "isro", 4) != 0) {
            send(client, session, sizeof session, MSG_NOSIGNAL);
        }
    }
}

/* Something else than ZooKeeper is at an address. The client library looks for a better server then, with a connection of its own
 * and without a limit of time. */
TEST(test_a_server_that_offers_reading_alone)
{
    char servers[128];
    int listener = kit_listen(servers, sizeof servers);
    pid_t child = fork();
    if (child == 0) {
        serve_readonly(listener);
    }
    close(listener);
    zkl_session *session = NULL;
    const zkl_session_options *options = SESSION_OPTIONS(.connect_timeout_ms = 1000);
    CU_ASSERT_EQUAL(zkl_session_open(&session, servers, options, NULL), ZKL_ECONNECT);
    snprintf(servers + strlen(servers), sizeof servers - strlen(servers), ",%s", ensemble_servers(server));
    kit_close(open_at(servers, ZKL_CALLBACKS_THREAD));
    kill(child, SIGKILL);
    CU_ASSERT_EQUAL(waitpid(child, NULL, 0), child);
}

/* --- the end -------------------------------------------------------------------------------------------------------- */

/* The server is silent: close says so when its time is up, where the client library would wait for 1.5 s more. */
TEST(test_close_without_an_answer)
{
    struct proxy *proxy = proxy_here();
    int64_t least = INT64_MAX;
    for (int i = 0; i < 3; i++) {
        zkl_session *session = open_at(proxy_address(proxy), ZKL_CALLBACKS_THREAD);
        proxy_hold(proxy, PROXY_TO_CLIENT, true);
        int64_t from = now_ms();
        CU_ASSERT_EQUAL(zkl_session_close(session, 100), ZKL_ETIMEOUT);
        least = now_ms() - from < least ? now_ms() - from : least;
        proxy_hold(proxy, PROXY_TO_CLIENT, false);
    }
    CU_ASSERT(least < 1500); /* the least of three */
    proxy_stop(proxy);
}

/* However long the server takes: nothing is left behind the last callback. */
TEST(test_close_without_a_limit)
{
    struct proxy *proxy = proxy_here();
    struct mailbox box = MAILBOX_INIT;
    size_t fds = kit_entries("/proc/self/fd");
    zkl_session *session = open_at(proxy_address(proxy), ZKL_CALLBACKS_DISPATCH);
    proxy_delay(proxy, 300);
    ASSERT_OK(zkl_session_close_async(session, ZKL_WAIT_FOREVER, on_ended, &box, NULL));
    (void)DISPATCHED(session, mailbox_count(&box) == 1); /* the last turn says that it is closed */
    ASSERT_OK(mailbox_code(&box, 1));
    ASSERT_EVENTUALLY(kit_entries("/proc/self/fd") == fds);
    proxy_stop(proxy);
}

TEST(test_refused_by_name)
{
    zkl_session *session = NULL;
    const zkl_sasl sasl = {.mechanisms = "DIGEST-MD5", .host = "zk"};
    const zkl_session_options *const refused[] = {SESSION_OPTIONS(.tls = "ca.pem,cert.pem,key.pem"),
                                                  SESSION_OPTIONS(.sasl = &sasl)};
    EACH_ROW (i, refused) {
        zkl_error err;
        CU_ASSERT_EQUAL(zkl_session_open(&session, ensemble_servers(server), refused[i], &err), ZKL_EUNSUPPORTED);
        ASSERT_SAYS(err, i == 0 ? "tls is not for libzklock_st" : "sasl is not for libzklock_st");
    }
}

/* A name is resolved at the opening; an address that refuses is passed by. */
TEST(test_names_and_addresses)
{
    char servers[128];
    const char *port = strrchr(ensemble_address(server, 0), ':');
    snprintf(servers, sizeof servers, "127.0.0.1:1,localhost%s", port);
    size_t fds = kit_entries("/proc/self/fd");
    zkl_session *session = open_at(servers, ZKL_CALLBACKS_THREAD);
    ASSERT_EVENTUALLY(kit_entries("/proc/self/task") == 1); /* a proxy's that was joined may still be listed */
    kit_close(session);                                     /* the server has confirmed: nothing is left */
    CU_ASSERT_EQUAL(kit_entries("/proc/self/fd"), fds);
}

TESTS_ON_SERVERS("st", (&(struct ensemble_options){.tick_ms = TICK}))
