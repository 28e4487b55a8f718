/* What comes from the server is no answer: wrong lengths, half a frame, noise, a reset, instead of the welcome and in the middle of a
 * session. The client library drops the connection, and the session goes on.
 *
 * Not among them: a whole frame too short for its header, or for the watch event that it says it is (xid -1). The client library (3.8.0)
 * reads behind it, or frees what it never filled, and the process may die: nothing above it can help. */
#include <arpa/inet.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "contest.h"
#include "ensemble.h"

#define TICK 500
#define TIMEOUT 10000

static const struct {
    const char *name;
    const char *bytes;
    size_t size;
    bool reset; /* ends with RST instead of FIN */
} kinds[] = {
    {"a length of -1", "\xff\xff\xff\xff", 4, false},
    {"a length of 64 MiB",
     "\x04\0\0\0"
     "0123456789",
     14, false},
    {"half a frame",
     "\0\0\0\x25"
     "\0\0\0",
     7, false},
    {"half a length", "\0\0", 2, true},
    {"an answer to nothing", "\0\0\0\x10\x7f\xff\xff\xf0\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0", 20, false},
    {"text", "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", 47, false},
    {"a reset", "", 0, true},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static struct ensemble *server;

/* --- a server between, that is honest until told otherwise ------------------------------------------------------------- */

static struct {
    int listener, port;
    pthread_t thread;
    atomic_int poison;   /* this kind, once, to the connection there is or the next one; -1: none */
    atomic_int poisoned; /* how often so far */
    atomic_bool stop;
} between;

static int dial(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool pass_on(int from, int to)
{
    char bytes[65536];
    ssize_t got = read(from, bytes, sizeof bytes);
    for (ssize_t at = 0; at < got;) {
        ssize_t put = send(to, bytes + at, (size_t)(got - at), MSG_NOSIGNAL);
        if (put <= 0) {
            return false;
        }
        at += put;
    }
    return got > 0;
}

static void poison(int client, int kind)
{
    const struct linger hard = {1, 0};
    if (kinds[kind].size > 0) {
        (void)!send(client, kinds[kind].bytes, kinds[kind].size, MSG_NOSIGNAL);
    }
    if (kinds[kind].reset) {
        setsockopt(client, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    }
    atomic_fetch_add(&between.poisoned, 1);
}

static void serve(int client)
{
    int real = dial(ensemble_port(server, 0));
    struct pollfd ends[] = {{.fd = client, .events = POLLIN}, {.fd = real, .events = POLLIN}};
    bool on = real >= 0;
    while (on && !atomic_load(&between.stop)) {
        int kind = atomic_load(&between.poison);
        /* instead of an answer: only when something was asked */
        if (poll(ends, 2, 10) > 0 && kind >= 0 && ends[0].revents) {
            atomic_store(&between.poison, -1);
            poison(client, kind);
            break;
        }
        on = (!ends[0].revents || pass_on(client, real)) && (!ends[1].revents || pass_on(real, client));
    }
    close(client);
    close(real);
}

static void *run(void *arg)
{
    (void)arg;
    while (!atomic_load(&between.stop)) {
        struct pollfd door = {.fd = between.listener, .events = POLLIN};
        if (poll(&door, 1, 10) > 0) {
            serve(accept(between.listener, NULL, NULL));
        }
    }
    return NULL;
}

static bool between_start(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    atomic_store(&between.poison, -1);
    between.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = bind(between.listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(between.listener, 8) == 0 &&
              getsockname(between.listener, (struct sockaddr *)&at, &size) == 0;
    between.port = ntohs(at.sin_port);
    return ok && pthread_create(&between.thread, NULL, run, NULL) == 0;
}

static void between_stop(void)
{
    atomic_store(&between.stop, true);
    pthread_join(between.thread, NULL);
    close(between.listener);
}

/* --- tests --------------------------------------------------------------------------------------------------------------- */

static zkl_session *open_between(void)
{
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%d", between.port);
    return contest_session(address, TIMEOUT, TICK);
}

static bool was_poisoned(int times)
{
    int64_t end_ms = now_ms() + SOON;
    while (atomic_load(&between.poisoned) < times && look_again(end_ms)) {
    }
    return atomic_load(&between.poisoned) >= times;
}

static void test_instead_of_a_welcome(void)
{
    for (int kind = 0; kind < KINDS; kind++) {
        int before = atomic_load(&between.poisoned);
        atomic_store(&between.poison, kind);
        zkl_session *session = open_between(); /* ends the program when there is none in time */
        CU_ASSERT(was_poisoned(before + 1));
        zkl_lock *lock = contest_holder(session, "/garbage");
        CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
        zkl_lock_free(lock);
        CU_ASSERT_EQUAL(zkl_session_close(session, SOON), ZKL_OK);
    }
}

static void test_in_the_middle_of_a_session(void)
{
    zkl_session *session = open_between();
    zkl_lock *lock = contest_holder(session, "/garbage");
    int64_t token = zkl_lock_token(lock);
    for (int kind = 0; kind < KINDS; kind++) {
        int before = atomic_load(&between.poisoned);
        atomic_store(&between.poison, kind); /* the next heartbeat's answer */
        CU_ASSERT(was_poisoned(before + 1));
        int64_t end_ms = now_ms() + SOON;
        zkl_queue *queue = NULL;
        while (zkl_queue_list(&queue, session, "/garbage", 1000, NULL) != ZKL_OK && look_again(end_ms)) {
        }
        CU_ASSERT(queue && queue->count == 1);
        zkl_queue_free(queue);
        while (zkl_lock_state(lock) == ZKL_STATE_JEOPARDY && look_again(end_ms)) { /* the lease is renewed */
        }
        CU_ASSERT(zkl_lock_is_held(lock));
        CU_ASSERT_EQUAL(zkl_lock_token(lock), token);
        if (!zkl_lock_is_held(lock)) {
            fprintf(stderr, "\n    %s\n", kinds[kind].name);
        }
    }
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    zkl_lock_free(lock);
    CU_ASSERT_EQUAL(zkl_session_close(session, SOON), ZKL_OK);
}

static const struct check_case cases[] = {T(test_instead_of_a_welcome), T(test_in_the_middle_of_a_session)};

int main(int argc, char **argv)
{
    if (!ensemble_available()) {
        return 77;
    }
    server = ensemble_start(&(struct ensemble_options){.tick_ms = TICK});
    if (!server || !between_start()) {
        ensemble_stop(server);
        return 1;
    }
    int code = check_main("garbage", cases, (int)(sizeof cases / sizeof *cases), argc, argv);
    between_stop();
    ensemble_stop(server);
    return code;
}
