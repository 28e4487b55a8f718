/* The ZooKeeper store and a name service that fails, is silent, or changes its mind. The program has a name service of its own:
 * getaddrinfo below stands before the C library's. */
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>

#include "on_servers.h"
#include "proxy.h"
#include "store_client.h"
#include "wait.h"

#define NAME "zk.test"

/* --- the name service ---------------------------------------------------------------------------------------------- */

static pthread_mutex_t names_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t names_changed = PTHREAD_COND_INITIALIZER;
static char names_answer[64]; /* address of NAME; empty: there is none */
static bool names_silent;
static int names_waiting;

static void names_set(const char *answer, bool silent)
{
    pthread_mutex_lock(&names_mutex);
    snprintf(names_answer, sizeof names_answer, "%s", answer);
    names_silent = silent;
    pthread_cond_broadcast(&names_changed);
    while (!silent && names_waiting > 0) {
        pthread_cond_wait(&names_changed, &names_mutex);
    }
    pthread_mutex_unlock(&names_mutex);
}

static bool names_look_up(char answer[64])
{
    pthread_mutex_lock(&names_mutex);
    names_waiting++;
    while (names_silent) {
        pthread_cond_wait(&names_changed, &names_mutex);
    }
    names_waiting--;
    pthread_cond_broadcast(&names_changed);
    snprintf(answer, 64, "%s", names_answer);
    pthread_mutex_unlock(&names_mutex);
    return answer[0] != '\0';
}

typedef int (*resolver)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    char answer[64];
    resolver real = (resolver)dlsym(RTLD_NEXT, "getaddrinfo");
    if (name && strcmp(name, NAME) == 0) {
        if (hints->ai_flags & AI_NUMERICHOST) {
            return EAI_NONAME;
        }
        if (!names_look_up(answer)) {
            return EAI_AGAIN;
        }
        name = answer;
    }
    return real(name, service, hints, out);
}

/* --- tests --------------------------------------------------------------------------------------------------------- */

static struct recorder *open_named(const struct proxy *proxy)
{
    char servers[64];
    snprintf(servers, sizeof servers, NAME ":%d", proxy_port(proxy));
    struct zkl__store_config config = recorder_config(servers);
    config.timeout_ms = 60000;
    return recorder_open(&zkl__store_zookeeper, &config, NULL, NULL);
}

/* open does not wait for a name server that is silent, nor does close. The session begins when it speaks. */
TEST(test_silent_at_open)
{
    struct proxy *proxy = proxy_here();
    names_set("127.0.0.1", true);
    int64_t began = now_ms();
    struct recorder *r = open_named(proxy), *closed = open_named(proxy);
    CU_ASSERT_EQUAL(recorder_close(closed, SOON), ZKL_ECONNECT);
    int64_t took = now_ms() - began;
    CU_ASSERT_EQUAL(recorder_count(r, RECORD_CONNECTED), 0);
    names_set("127.0.0.1", false);
    CU_ASSERT_PTR_NOT_NULL(recorder_nth(r, RECORD_CONNECTED, 0, SOON));
    printf("(two open, one closed: %lld ms) ", (long long)took);
    CU_ASSERT(took < 20000);
    ASSERT_OK(recorder_close(r, SOON));
    recorder_free(closed);
    recorder_free(r);
    proxy_stop(proxy);
}

/* Who waits for the session is told that it is the name server that is silent. */
TEST(test_silence_is_named)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_session *session;
    zkl_error err;
    options.connect_timeout_ms = 500;
    names_set("", true);
    CU_ASSERT_EQUAL(zkl_session_open(&session, NAME ":1", &options, &err), ZKL_ECONNECT);
    ASSERT_SAYS(err, "no name server says where that is");
    names_set("", false);
}

/* The name of a server that is down is asked for in vain, for as long as the name service likes: the others are known, and do. */
TEST(test_one_name_silent)
{
    struct proxy *proxy = proxy_here();
    char servers[128];
    snprintf(servers, sizeof servers, NAME ":%d,localhost:%d", proxy_port(proxy), proxy_port(proxy));
    names_set("", true);
    struct recorder *r = recorder_connect(&zkl__store_zookeeper, servers);
    ASSERT_OK(recorder_close(r, SOON));
    recorder_free(r);
    names_set("", false);
    proxy_stop(proxy);
}

/* A cut network takes the name server along: ticks and close do not hang, and the servers known are found again without it. */
TEST(test_silent_while_suspended)
{
    struct proxy *proxy = proxy_here();
    names_set("127.0.0.1", false);
    struct recorder *r = open_named(proxy);
    CU_ASSERT_PTR_NOT_NULL_FATAL(recorder_nth(r, RECORD_CONNECTED, 0, SOON));
    names_set("", true);
    for (size_t nth = 0; nth < 3; nth++) {
        proxy_down(proxy);
        CU_ASSERT_PTR_NOT_NULL(recorder_nth(r, RECORD_SUSPENDED, nth, SOON));
        proxy_refuse(proxy, false);
        CU_ASSERT_PTR_NOT_NULL(recorder_nth(r, RECORD_CONNECTED, nth + 1, SOON));
    }
    proxy_down(proxy);
    CU_ASSERT_PTR_NOT_NULL(recorder_nth(r, RECORD_SUSPENDED, 3, SOON));
    int64_t began = now_ms();
    CU_ASSERT_EQUAL(recorder_close(r, 100), ZKL_ECONNECT);
    int64_t took = now_ms() - began;
    printf("(close 100: %lld ms) ", (long long)took);
    CU_ASSERT(took < 20000);
    recorder_free(r);
    names_set("", false);
    proxy_stop(proxy);
}

/* The server behind the name gets another address while we are connected: the session goes on there. */
TEST(test_server_moves)
{
    struct proxy *old = proxy_here();
    struct proxy *new = proxy_start_at("127.0.0.2", proxy_port(old), ensemble_address(server, 0));
    CU_ASSERT_PTR_NOT_NULL_FATAL(new);
    names_set("127.0.0.1", false);
    struct recorder *r = open_named(old);
    const struct record *first = recorder_nth(r, RECORD_CONNECTED, 0, SOON);
    CU_ASSERT_PTR_NOT_NULL_FATAL(first);
    names_set("127.0.0.2", false);
    proxy_stop(old);
    const struct record *again = recorder_nth(r, RECORD_CONNECTED, 1, SOON);
    CU_ASSERT(again && again->connection.session_id == first->connection.session_id);
    ASSERT_EVENTUALLY(proxy_connections(new) == 1);
    ASSERT_OK(recorder_close(r, SOON));
    recorder_free(r);
    proxy_stop(new);
}

TESTS_ON_SERVERS("store_names", NULL)
