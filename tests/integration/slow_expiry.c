/* A leader that takes seconds to expire the sessions of one tick, since its log is slow. A waiter is silent for as long as a session lasts.
 * Its link is back while the leader expires the sessions of its tick, among which it is: so it is revalidated, and its writes are committed.
 * At its grant the link is cut again. It has to have lost before the next one is granted.
 *
 * ZKLOCK_ROUNDS: how many times (1). */
#include <arpa/inet.h>
#include <sys/resource.h>

#include "access_kit.h"
#include "contest.h"
#include "on_servers.h"
#include "proxy.h"

#define TICK 500
#define TIMEOUT 4000
#define CROWD 2500 /* sessions that expire with the waiter's */
#define LONG 120000

static int crowd[CROWD];

/* --- sessions that nobody keeps alive ------------------------------------------------------------------------------- */

static void dial(int *fd, int which)
{
    const char *address = ensemble_address(server, which);
    char host[32];
    snprintf(host, sizeof host, "%.*s", (int)strcspn(address, ":"), address);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)ensemble_port(server, which))};
    inet_pton(AF_INET, host, &to.sin_addr);
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CU_ASSERT_FATAL(*fd >= 0 && connect(*fd, (struct sockaddr *)&to, sizeof to) == 0);
    /* ConnectRequest: version, last zxid, timeout, session, password, read-only. */
    unsigned char request[4 + 45] = {
        [3] = 45, [4 + 12 + 2] = TIMEOUT >> 8, [4 + 12 + 3] = TIMEOUT & 255, [4 + 24 + 3] = 16};
    CU_ASSERT_EQUAL(write(*fd, request, sizeof request), (ssize_t)sizeof request);
}

/* False: the server has closed the connection, as it may while its log is slow. */
static bool await_session(int fd)
{
    unsigned char response[4 + 37];
    return recv(fd, response, sizeof response, MSG_WAITALL) == (ssize_t)sizeof response;
}

/* All at once, so that they expire in one tick. */
static void ping(int count)
{
    static const unsigned char ping[] = {0, 0, 0, 8, 255, 255, 255, 254, 0, 0, 0, 11};
    for (int i = 0; i < count; i++) {
        CU_ASSERT_EQUAL(send(crowd[i], ping, sizeof ping, MSG_NOSIGNAL), (ssize_t)sizeof ping);
    }
}

static void gather(int which)
{
    for (int i = 0; i < CROWD; i++) {
        dial(&crowd[i], which);
        if (i % 100 == 99) {
            for (int k = i - 99; k <= i; k++) {
                while (!await_session(crowd[k])) {
                    close(crowd[k]);
                    dial(&crowd[k], which);
                }
            }
            ping(i + 1); /* keeps the others alive */
        }
    }
}

/* How many of them the servers have expired: these are closed. */
static int expired(void)
{
    int count = 0;
    for (int i = 0; i < CROWD; i++) {
        char rest[4096];
        ssize_t got = 1;
        while (crowd[i] >= 0 && (got = recv(crowd[i], rest, sizeof rest, MSG_DONTWAIT)) > 0) {
        }
        if (crowd[i] >= 0 && got == 0) {
            close(crowd[i]);
            crowd[i] = -1;
        }
        count += crowd[i] < 0;
    }
    return count;
}

/* --- the scene ------------------------------------------------------------------------------------------------------ */

static void once(int round)
{
    int leader = ensemble_leader(server);
    CU_ASSERT_FATAL(leader >= 0);
    struct proxy *link = proxy_start(ensemble_address(server, leader));
    struct queue_of q; /* one that releases, the waiter, the next one */
    const struct field field = {{ensemble_address(server, (leader + 1) % 3), proxy_address(link)}, 2, TIMEOUT, TICK, 0};
    queue_up(&q, &field, "/slow", 3);
    const zkl_lock *lock = q.locks[1];
    gather(leader);
    access_await_request(q.sessions[1]);
    ping(CROWD); /* in the same tick */
    proxy_silence(link, true);
    kit_release(q.locks[0]);
    int64_t end = now_ms() + LONG, granted = 0, lost = 0, after = 0;
    int at_return;
    while ((at_return = expired()) == 0 && look_again(end)) {
    }
    proxy_silence(link, false);
    int64_t back_ms = now_ms();
    do {
        bool held = zkl_lock_is_held(lock);
        int64_t now = boot_ns();
        if (held && !granted) {
            granted = now;
            proxy_silence(link, true);
        }
        lost = held ? 0 : lost ? lost : now;
        after = after || !q.waiters[2].done ? after : now;
    } while ((!after || !lost) && look_again(end));
    printf("\n    %2d: back when %d of %d had expired, %s; %s", round + 1, at_return, CROWD,
           granted ? "granted" : "not granted", granted && lost >= after ? "TWO HOLDERS" : "in order");
    if (granted) {
        printf(" by %.3f s", (double)(lost < after ? after - lost : lost - after) / 1e9);
    }
    fflush(stdout);
    while (expired() < CROWD && look_again(end)) {
    }
    printf("; all expired after %.1f s", (double)(now_ms() - back_ms) / 1e3);
    CU_ASSERT(!granted || lost < after || now_ms() - back_ms > TIMEOUT); /* then an assumption does not hold */
    proxy_silence(link, false);
    ASSERT_OK(waiter_end(&q.waiters[2]));
    kit_release(q.locks[2]);
    waiter_end(&q.waiters[1]);
    queue_free(&q);
    proxy_stop(link);
}

TEST(test_slow_expiry)
{
    check_rounds(once);
}

int main(int argc, char **argv)
{
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_max < CROWD + 200) {
        return 77;
    }
    setenv("LD_PRELOAD", SLOW_LOG, 1); /* of the servers */
    const struct ensemble_options options = {.servers = 3, .tick_ms = TICK, .logs = true};
    return on_servers_main("slow expiry", &options, argc, argv);
}
