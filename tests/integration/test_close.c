/* The end of a session whose server is silent, slow or restarted. One that holds and waits for many locks: unit_close. */
#include <arpa/inet.h>
#include <signal.h>
#include <sys/stat.h>

#include "one_server.h"

#define CROWD 40

/* Whether the server knows the session, or a node of its, still. Its answer goes on with connections: one that it has not closed yet names
 * a session that has ended. */
static bool server_knows(int64_t session_id)
{
    char id[32];
    snprintf(id, sizeof id, "0x%llx", (unsigned long long)session_id);
    char *answer = ensemble_ask(server, 0, "dump");
    CU_ASSERT_PTR_NOT_NULL_FATAL(answer);
    const char *found = strstr(answer, id), *connections = strstr(answer, "Connections dump:");
    bool knows = found && (!connections || found < connections);
    free(answer);
    return knows;
}

static size_t threads(void)
{
    struct stat tasks = {.st_nlink = 0};
    ASSERT_OK(stat("/proc/self/task", &tasks));
    return tasks.st_nlink;
}

/* A frozen server gives no word: close returns by its time, and says so; late is the machine, too, but not each time. Its locks go with
 * the session, and every thread ends, with or without the server. */
TEST(test_frozen)
{
    enum { ROUNDS = 15, WAIT = 400 };
    int64_t late = INT64_MAX;
    size_t before = threads();
    for (int i = 0; i < ROUNDS && late >= 20; i++) {
        zkl_session *session = open_one();
        zkl_lock *lock = contest_holder(session, "/frozen");
        ensemble_freeze(server, 0);
        int64_t began = now_ms();
        CU_ASSERT_EQUAL(zkl_session_close(session, WAIT), ZKL_ETIMEOUT);
        late = now_ms() - began - WAIT;
        ensemble_thaw(server, 0);
        zkl_lock_free(lock);
        CU_ASSERT(queue_becomes(eye, "/frozen", 0));
    }
    printf("late by %lld ms; ", (long long)late);
    CU_ASSERT(late < 20);
    ASSERT_EVENTUALLY(threads() <= before);
}

/* The servers have ended the session, and the next one is not there yet: nothing of ours is left, which is all that close asks. */
TEST(test_lost)
{
    struct proxy *proxy;
    zkl_session *session = open_behind(&proxy);
    zkl_lock *lock = contest_holder(session, "/lost");
    int64_t id = zkl_session_id(session);
    proxy_down(proxy);
    ASSERT_EVENTUALLY(!server_knows(id));
    int64_t again = 0, end = now_ms() + 2 * SOON;
    do { /* on one connection the end is told: on another one, if the client gave that up on a busy machine */
        if (now_ms() >= again) {
            proxy_refuse_after(proxy, 1);
            again = now_ms() + 10000;
        }
    } while (zkl_session_state(session) != ZKL_SESSION_LOST && look_again(end));
    CU_ASSERT_EQUAL(zkl_session_state(session), ZKL_SESSION_LOST);
    kit_close(session);
    CU_ASSERT_EQUAL(queue_length(eye, "/lost"), 0);
    zkl_lock_free(lock);
    proxy_stop(proxy);
}

/* Broken just before, there is no goodbye, and the client library is as quick as if it had been answered. */
TEST(test_broken_just_before)
{
    for (int i = 0; i < 20; i++) {
        struct proxy *proxy;
        zkl_session *session = open_behind(&proxy);
        int64_t id = zkl_session_id(session);
        proxy_down(proxy);
        CU_ASSERT(zkl_session_close(session, 300) != ZKL_OK || !server_knows(id));
        proxy_stop(proxy);
    }
}

static int64_t signalled = INT64_MAX;

static void on_alarm(int number)
{
    signalled = now_ms();
}

/* The client library waits 1.5 s for the server's word. A slow disk or a long way takes longer, and close has been given more time. A
 * signal is not kept waiting by that. */
TEST(test_slow_goodbye)
{
    struct proxy *proxy = proxy_here();
    zkl_session *session = contest_session(proxy_address(proxy), SOON, TICK);
    proxy_delay(proxy, 2600);
    signal(SIGALRM, on_alarm);
    alarm(2);
    kit_close(session);
    CU_ASSERT(signalled < now_ms() - 200);
    proxy_stop(proxy);
}

static void *run_close(void *session)
{
    return (void *)(intptr_t)zkl_session_close(session, SOON);
}

/* Another connection of the process to the same server ends while the session is closed, without a response: it was made later, so it is
 * not the session's. */
TEST(test_beside_another_connection)
{
    struct proxy *proxy;
    pthread_t thread;
    void *code = NULL;
    zkl_session *session = open_behind(&proxy);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)proxy_port(proxy)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CU_ASSERT_EQUAL_FATAL(connect(other, (struct sockaddr *)&address, sizeof address), 0);
    long closes = proxy_count(proxy, PROXY_OP_CLOSE);
    proxy_delay(proxy, 300);
    pthread_create(&thread, NULL, run_close, session);
    ASSERT_EVENTUALLY(proxy_count(proxy, PROXY_OP_CLOSE) != closes);
    close(other);
    pthread_join(thread, &code);
    ASSERT_OK((intptr_t)code);
    proxy_stop(proxy);
}

/* Who has just been answered knows that nothing is on its way. A busy machine answers late, so one try of several will do. */
TEST(test_asks_nothing_more)
{
    long asked = 1;
    for (int i = 0; i < 8 && asked > 0; i++) {
        struct proxy *proxy;
        zkl_session *session = open_behind(&proxy);
        contest_once(session, "/asks");
        asked = -proxy_count(proxy, PROXY_OP_EXISTS);
        kit_close(session);
        asked += proxy_count(proxy, PROXY_OP_EXISTS);
        proxy_stop(proxy);
    }
    CU_ASSERT_EQUAL(asked, 0);
}

/* All connect to the restarted server in the same moment: which of the process's sockets is whose has to be found out without the others'. */
TEST(test_many_that_reconnected_at_once)
{
    zkl_session *sessions[CROWD];
    for (int i = 0; i < CROWD; i++) {
        sessions[i] = contest_session(ensemble_address(server, 0), SOON, TICK);
    }
    ensemble_kill(server, 0);
    for (int i = 0; i < CROWD; i++) {
        ASSERT_EVENTUALLY(zkl_session_state(sessions[i]) == ZKL_SESSION_SUSPENDED);
    }
    CU_ASSERT(ensemble_restart(server, 0) && ensemble_wait(server, 4 * SOON));
    for (int i = 0; i < CROWD; i++) {
        ASSERT_EVENTUALLY(zkl_session_state(sessions[i]) == ZKL_SESSION_CONNECTED);
    }
    pthread_t threads[CROWD];
    for (int i = 0; i < CROWD; i += 2) {
        kit_close(sessions[i]);
    }
    for (int i = 1; i < CROWD; i += 2) {
        pthread_create(&threads[i], NULL, run_close, sessions[i]);
    }
    for (int i = 1; i < CROWD; i += 2) {
        void *code = NULL;
        pthread_join(threads[i], &code);
        ASSERT_OK((intptr_t)code);
    }
}

TESTS_ON_ONE_SERVER("close")
