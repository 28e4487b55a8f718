/* The holder behind an observer that follows a follower (observerMasterPort). What a client did is handed on twice, by two timers: the
 * observer answers the follower's ping, the follower the leader's. A relay between observer and follower is silent for five seconds in
 * one direction; then the holder acquires, and the follower is stopped before it has told the leader anything. The holder has to have
 * lost before the next one is granted.
 *
 * ZKLOCK_ROUNDS: how many times (1). */

#include "access_kit.h"
#include "contest.h"
#include "on_servers.h"
#include "proxy.h"

#define TICK 2000
#define TIMEOUT 20000
#define VOTERS 3
#define OBSERVER VOTERS
#define LONG 120000 /* ms: for servers that have to find each other again */
#define SILENT_MS 5000

static struct proxy *relays[VOTERS]; /* in front of each voter's port for observers */

static int relay_host(void)
{
    for (int i = 0; i < VOTERS; i++) {
        if (proxy_connections(relays[i]) > 0) {
            return i;
        }
    }
    return -1;
}

/* What comes from the observer is kept. */
static void relay_hold(bool on)
{
    for (int i = 0; i < VOTERS; i++) {
        proxy_hold(relays[i], PROXY_TO_SERVER, on);
    }
}

/* All on one port, each on a voter's host. Returns the voters' own port; 0: there is none. */
static int start_relays(void)
{
    struct proxy *unused = proxy_start_at("127.0.1.1", 0, "127.0.1.1:1");
    int target = unused ? proxy_port(unused) : 0;
    proxy_stop(unused);
    for (int i = 0; target && i < VOTERS; i++) {
        char host[16], address[32];
        snprintf(host, sizeof host, "127.0.1.%d", i + 1);
        snprintf(address, sizeof address, "%s:%d", host, target);
        relays[i] = proxy_start_at(host, i > 0 ? proxy_port(relays[0]) : 0, address);
        if (!relays[i]) {
            return 0;
        }
        proxy_pass_bytes(relays[i]);
    }
    return target;
}

static void show(int round, int64_t granted, int64_t lost, int64_t next)
{
    printf("\n    %2d: %s; lost after %6.3f s, the next one granted after %6.3f s: %s by %.3f s", round + 1,
           granted ? "acquired" : "not granted", granted ? (double)(lost - granted) / 1e9 : 0.0,
           granted ? (double)(next - granted) / 1e9 : 0.0, lost < next ? "in order" : "TWO HOLDERS",
           (double)(lost < next ? next - lost : lost - next) / 1e9);
    fflush(stdout);
}

static void stall_once(int round)
{
    struct waiter first = {.lock = NULL}, second = {.lock = NULL};
    int leader = ensemble_leader(server);
    zkl_session *session = contest_session(ensemble_address(server, OBSERVER), TIMEOUT, TICK);
    zkl_session *next_session = contest_session(ensemble_address(server, leader), TIMEOUT, TICK);
    zkl_lock *lock = contest_lock(session, "/observed", NULL), *next = contest_lock(next_session, "/observed", NULL);
    int master = relay_host();
    CU_ASSERT_FATAL(leader >= 0 && master >= 0 && master != leader);

    poll(NULL, 0, TIMEOUT / 2 - 100 + round * 617 % 1000);
    access_await_request(session); /* idle but for its own syncs, it has just sent one */
    poll(NULL, 0, 30); /* that is answered; and no longer: the observer's next answer to a ping would hand it on */
    relay_hold(true);
    poll(NULL, 0, SILENT_MS + 100);
    relay_hold(false);
    poll(NULL, 0, 50); /* what was kept is answered */
    waiter_start(&first, lock, ZKL_WAIT_FOREVER);
    (void)WITHIN(400, first.done);
    ensemble_freeze(server, master);
    waiter_start(&second, next, ZKL_WAIT_FOREVER);

    int64_t granted = 0, lost = 0, end = now_ms() + LONG;
    int64_t comes_back = end - LONG / 2; /* who was late, behind another master by now, holds for good */
    do {
        bool held = zkl_lock_is_held(lock);
        int64_t now = boot_ns();
        granted = granted || !held ? granted : now;
        if (granted && !lost && (!held || now_ms() > comes_back)) {
            lost = now;
            zkl_lock_release(lock, NULL); /* its session may live, behind another follower: then its znode stands */
        }
    } while ((!second.done || zkl_lock_is_held(lock)) && look_again(end));
    ASSERT_OK(waiter_end(&second));
    /* Not later than it was: the time of the call, and the milliseconds from then on, rounded down. */
    int64_t next_granted = second.began_ns + second.grant.queued_ms * MS;
    show(round, granted, lost, next_granted);
    CU_ASSERT(granted == 0 || lost < next_granted);

    ensemble_thaw(server, master);
    CU_ASSERT(ensemble_wait(server, LONG));
    CU_ASSERT(ensemble_ask_until(server, OBSERVER, "srvr", "Mode: observer", true, LONG));
    kit_release(next);
    ASSERT_OK(waiter_end(&first)); /* who was not granted before is now */
    if (!granted) {
        kit_release(lock);
    }
    zkl_lock_free(lock);
    zkl_lock_free(next);
    kit_close(session);
    kit_close(next_session);
}

TEST(test_stalled_observer)
{
    check_rounds(stall_once);
}

int main(int argc, char **argv)
{
    int target = start_relays();
    if (!target) {
        return 1;
    }
    const struct ensemble_options options = {.servers = VOTERS + 1,
                                             .observers = 1,
                                             .master_port = target,
                                             .observer_port = proxy_port(relays[0]),
                                             .tick_ms = TICK,
                                             .own_hosts = true,
                                             .extra = "syncLimit=10"};
    int failed = on_servers_main("observer master", &options, argc, argv);
    for (int i = 0; i < VOTERS; i++) {
        proxy_stop(relays[i]);
    }
    return failed;
}
