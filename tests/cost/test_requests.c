/* What each operation costs: requests, events, writes, bytes and trips, as the server and the kernel count them, against the table in
 * docs/scaling.md. Exact: who makes something cheaper changes the page, who makes it dearer had better have a reason. */
#include <linux/tcp.h>
#include <netinet/in.h>

#include "contest.h"
#include "handle_kit.h"
#include "on_servers.h"
#include "proxy.h"

#define FDS 1024 /* more than these tests ever have open */
#define TICK 500
#define LONG 60000 /* session timeout: nothing periodic happens in the time that an operation takes */
#define SHORT 12000
#define TRIES 8
#define MORE 10
#define TRIP_MS 25 /* on the way to or from the server, while trips are counted; twice as long at each new try: */
#define TRIP_DOUBLINGS 6

/* Two sessions: straight to the server while packets are counted, through a slow proxy while trips are. */
static zkl_session *near, *far;
static struct proxy *slow_proxy;
static struct pair {
    zkl_session *near, *far;
} straight, slow;

/* --- what an operation costs, counted by others than the library: requests, events and writes by the server, bytes by the kernel ---------- */

struct wire {
    long requests;  /* that the server received */
    long events;    /* that it sent: of its packets, those that answer none */
    long writes;    /* its zxid: transactions, refused ones included */
    long bytes_out; /* that this process sent to the server, and */
    long bytes_in;  /* received from it; TCP payload */
};

/* A number of the server's answer to word; -1: none. */
static long ask_number(const char *word, const char *name, int base)
{
    char *text = ensemble_ask(server, 0, word), *at = text ? strstr(text, name) : NULL;
    long value = at ? strtol(at + strlen(name), NULL, base) : -1;
    free(text);
    return value;
}

/* "cons" has a line for each connection; those without a session are our own questions. */
static bool count_packets(struct wire *wire)
{
    char *text = ensemble_ask(server, 0, "cons"), *rest = text, *line;
    while (rest && (line = strsep(&rest, "\n"))) {
        const char *at = strstr(line, "sid=") ? strstr(line, "recved=") : NULL;
        long received, sent;
        if (at && sscanf(at, "recved=%ld,sent=%ld", &received, &sent) == 2) {
            wire->requests += received;
            wire->events += sent - received;
        }
    }
    free(text);
    return text != NULL;
}

/* A number of the server's mntr: "zk_watch_count\t"; -1: none. */
static long wire_counter(const char *name)
{
    return ask_number("mntr", name, 10);
}

static void ephemerals_are(long count)
{
    ASSERT_EVENTUALLY(wire_counter("zk_ephemerals_count\t") == count);
}

static void watches_are(long count)
{
    ASSERT_EVENTUALLY(wire_counter("zk_watch_count\t") == count);
}

/* The library's sockets are found among this process's by where they lead to. */
static void add_bytes(int fd, int port, struct wire *wire)
{
    struct sockaddr_in peer;
    struct tcp_info info;
    socklen_t size = sizeof peer;
    if (getpeername(fd, (struct sockaddr *)&peer, &size) != 0 || peer.sin_family != AF_INET ||
        ntohs(peer.sin_port) != port) {
        return;
    }
    size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0) {
        wire->bytes_out += (long)(info.tcpi_bytes_sent - info.tcpi_bytes_retrans);
        wire->bytes_in += (long)info.tcpi_bytes_received;
    }
}

/* As it stands, for the sessions that are open; the server has no clients but those of this process. False: the server does not answer. */
static bool wire_read(struct wire *wire)
{
    *wire = (struct wire){.writes = ask_number("srvr", "Zxid: 0x", 16)};
    for (int fd = 3; fd < FDS; fd++) {
        add_bytes(fd, ensemble_port(server, 0), wire);
    }
    return count_packets(wire) && wire->writes >= 0;
}

static struct wire wire_minus(struct wire after, struct wire before)
{
    return (struct wire){after.requests - before.requests, after.events - before.events, after.writes - before.writes,
                         after.bytes_out - before.bytes_out, after.bytes_in - before.bytes_in};
}

static bool wire_same(struct wire a, struct wire b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/* --- contenders ---------------------------------------------------------------------------------------------------------- */

/* The position is told of what is read anyway: so no row may differ with it. */
static void no_position(zkl_lock *which, size_t ahead, void *payload) {}

static const zkl_lock_options options = {
    .size = sizeof options, .metadata = "cost", .release_timeout_ms = SOON, .position_fn = no_position};
static zkl_lock *lock, *second;
static struct waiter waiter;

static zkl_lock *lock_at(zkl_session *session, const char *path)
{
    return contest_lock(session, path, &options);
}

static void acquire(zkl_lock *which)
{
    ASSERT_OK_FATAL(zkl_lock_acquire(which, SOON, NULL, NULL));
}

static void release(zkl_lock *which)
{
    ASSERT_OK_FATAL(zkl_lock_release(which, NULL));
}

/* --- operations: what comes before, what is counted, what comes after ------------------------------------------------------ */

static void free_before(void)
{
    lock = lock_at(near, "/cost/lock");
}
static void lock_acquire(void)
{
    acquire(lock);
}
static void lock_release(void)
{
    release(lock);
}
static void lock_free(void)
{
    zkl_lock_free(lock);
    zkl_lock_free(second);
    lock = second = NULL;
}
static void release_and_free(void)
{
    release(lock);
    lock_free();
}

/* No directory yet: another one each time. */
static void nowhere_before(void)
{
    static char path[] = "/cost/new-a";
    path[sizeof path - 2]++;
    lock = lock_at(near, path);
}

/* It lingers, and is wanted again. */
static void lingering_before(void)
{
    zkl_lock_options o = options;
    o.position_fn = NULL;
    o.linger_ms = LONG;

    lock = contest_lock(near, "/cost/lingering", &o);
    acquire(lock);
}
static void release_and_acquire(void)
{
    zkl_grant grant;
    release(lock);
    ASSERT_OK_FATAL(zkl_lock_acquire(lock, SOON, &grant, NULL));
    CU_ASSERT_EQUAL(grant.serial, 2);
}

/* The directory is there, and its last holder has released. */
static zkl_lock *careful_at(zkl_session *session)
{
    zkl_lock_options o = options;
    o.recover = true;
    o.delay_after_crash_ms = LONG;
    return contest_lock(session, "/cost/care", &o);
}
static void careful_before(void)
{
    lock = careful_at(near);
    acquire(lock);
    release(lock);
}

static void rival_before(zkl_session *holders)
{
    second = lock_at(holders, "/cost/lock");
    acquire(second);
    free_before();
}
static void far_holder_before(void)
{
    rival_before(far);
}
static void lock_try(void)
{
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, NULL), ZKL_EBUSY);
    ephemerals_are(1); /* the background's */
}
static void lock_queue(void)
{
    waiter_start(&waiter, lock, SOON);
    watches_are(1); /* on the node before ours */
}
static void queued_before(void)
{
    far_holder_before();
    lock_queue();
}
static void careful_queued_before(void)
{
    careful_before();
    second = careful_at(far);
    acquire(second);
    lock_queue();
}
static void queued_near_before(void)
{
    rival_before(near);
    waiter_queue(&waiter, lock, SOON);
}
static void lock_hand_over(void)
{
    release(second);
    ASSERT_OK(waiter_end(&waiter));
}
static void hand_over_and_free(void)
{
    lock_hand_over();
    release_and_free();
}

/* More of the other session behind us. */
static struct waiter more[MORE];
static void long_queue_before(void)
{
    far_holder_before();
    lock_queue();
    for (int i = 0; i < MORE; i++) {
        waiter_start(&more[i], lock_at(far, "/cost/lock"), SOON);
        ephemerals_are(3 + i); /* one session: they follow each other, unwatched */
    }
}
static void long_queue_after(void)
{
    for (int i = 0; i < MORE; i++) {
        zkl_lock_cancel(more[i].lock);
        waiter_end(&more[i]);
        zkl_lock_free(more[i].lock);
    }
    watches_are(0);
    release_and_free();
    ephemerals_are(0);
}

static void lock_cancel(void)
{
    zkl_lock_cancel(lock);
    CU_ASSERT_EQUAL(waiter_end(&waiter), ZKL_ECANCELED);
    ephemerals_are(1);
}
static void rival_after(void)
{
    release(second);
    lock_free();
}
static void rival_after_cancel(void)
{
    watches_are(0);
    rival_after();
}

/* --- other recipes ------------------------------------------------------------------------------------------------------------ */

struct operation {
    const char *name; /* in the page */
    void (*before)(void), (*act)(void), (*after)(void);
    zkl_recipe recipe; /* what made_before makes */
    const char *path;
};
static const struct operation *operation; /* the one that is counted */

static void made_before(void)
{
    zkl_lock_options o = options;
    o.position_fn = NULL;
    lock = handle_make(&handle_recipes[operation->recipe], near, operation->path, &o);
}

/* --- the table -------------------------------------------------------------------------------------------------------------- */

static const struct operation operations[] = {
    {"acquire, free lock", free_before, lock_acquire, .after = release_and_free},
    {"acquire, no directory yet", nowhere_before, lock_acquire, .after = release_and_free},
    {"release", free_before, lock_release, .after = lock_free},
    {"release and acquire, lingering", lingering_before, release_and_acquire, .after = release_and_free},
    {"acquire, after a release (mark)", careful_before, lock_acquire, .after = release_and_free},
    {"release (mark)", careful_before, lock_release, .after = lock_free},
    {"try, held by another", far_holder_before, lock_try, .after = rival_after},
    {"queue behind one", far_holder_before, lock_queue, .after = hand_over_and_free},
    {"hand-over, another session", queued_before, lock_hand_over, .after = release_and_free},
    {"hand-over, another session (mark)", careful_queued_before, lock_hand_over, .after = release_and_free},
    {"hand-over, same session", queued_near_before, lock_hand_over, .after = release_and_free},
    {"hand-over, 10 more waiting", long_queue_before, lock_hand_over, .after = long_queue_after},
    {"cancel", queued_before, lock_cancel, .after = rival_after_cancel},
    {"read lock", made_before, lock_acquire, release_and_free, ZKL_RECIPE_READ_LOCK, "/cost/rwlock"},
    {"write lock", made_before, lock_acquire, release_and_free, ZKL_RECIPE_WRITE_LOCK, "/cost/rwlock"},
    {"semaphore, a permit", made_before, lock_acquire, release_and_free, ZKL_RECIPE_SEMAPHORE, "/cost/semaphore"},
    {"semaphore, release", made_before, lock_release, lock_free, ZKL_RECIPE_SEMAPHORE, "/cost/semaphore"},
    {"election, campaign", made_before, lock_acquire, release_and_free, ZKL_RECIPE_ELECTION, "/cost/election"},
    {"multi-lock of two", made_before, lock_acquire, release_and_free, ZKL_RECIPE_MULTILOCK, "/cost/one"},
    {"multi-lock of two, release", made_before, lock_release, lock_free, ZKL_RECIPE_MULTILOCK, "/cost/one"},
};

/* Answers that nobody waits for are on their way for a moment yet. */
static struct wire settled(void)
{
    struct wire wire, again = {.requests = -1};
    int64_t end = now_ms() + SOON;
    do {
        wire = again;
        CU_ASSERT_FATAL(wire_read(&again));
    } while (!wire_same(wire, again) && look_again(end));
    return again;
}

static void prepare(const struct pair *pair)
{
    near = pair->near;
    far = pair->far;
    operation->before();
    if (operation->act == lock_release) {
        acquire(lock);
    }
}

static struct wire count_once(void)
{
    prepare(&straight);
    struct wire before = settled();
    operation->act();
    struct wire after = settled();
    operation->after();
    return wire_minus(after, before);
}

static long trips_once(int trip_ms)
{
    prepare(&slow);
    proxy_delay(slow_proxy, trip_ms);
    int64_t began = now_ms();
    operation->act();
    int64_t ended = now_ms();
    proxy_delay(slow_proxy, 0);
    operation->after();
    return (long)((ended - began) / trip_ms);
}

struct cost {
    struct wire wire;
    long trips;
};

/* The page's line of that name. */
static struct cost expected(const char *name)
{
    struct cost cost = {.trips = -1};
    struct wire *w = &cost.wire;
    char line[512];
    size_t length = strlen(name);
    FILE *page = fopen(PAGE, "r");
    while (page && fgets(line, sizeof line, page)) {
        if (strncmp(line, "| ", 2) == 0 && strncmp(line + 2, name, length) == 0 &&
            sscanf(line + 2 + length, " | %ld | %ld | %ld | %ld | %ld | %ld |", &w->requests, &w->events, &w->writes,
                   &w->bytes_out, &w->bytes_in, &cost.trips) == 6) {
            break;
        }
    }
    if (page) {
        fclose(page);
    }
    return cost;
}

/* Trips are counted by the time that they take, of which the machine's own is no part: on one that is busy for longer than a trip, a
 * trip that takes longer still. */
static long count_trips(long expected)
{
    long trips = -1;
    for (int doublings = 0; doublings <= TRIP_DOUBLINGS && trips != expected; doublings++) {
        trips = trips_once(TRIP_MS << doublings);
    }
    return trips;
}

/* Several tries: a ping in between. */
static void check_operation(void)
{
    struct cost should = expected(operation->name);
    struct wire wire = count_once();
    long trips = count_trips(should.trips);
    for (int i = 1; i < TRIES && !wire_same(wire, should.wire); i++) {
        wire = count_once();
    }
    bool same = wire_same(wire, should.wire) && trips == should.trips;
    printf("%s| %s | %ld | %ld | %ld | %ld | %ld | %ld |\n", same ? "" : PAGE " says otherwise:\n", operation->name,
           wire.requests, wire.events, wire.writes, wire.bytes_out, wire.bytes_in, trips);
    CU_ASSERT(same);
}

static struct pair open_pair(const char *servers)
{
    return (struct pair){contest_session(servers, LONG, TICK), contest_session(servers, LONG, TICK)};
}

static void close_pair(struct pair pair)
{
    zkl_session_close(pair.near, SOON);
    zkl_session_close(pair.far, SOON);
}

TEST(test_operations)
{
    slow_proxy = proxy_here();
    straight = open_pair(ensemble_servers(server));
    slow = open_pair(proxy_address(slow_proxy));
    printf("\n");
    for (operation = operations; operation < operations + sizeof operations / sizeof *operations; operation++) {
        check_operation();
    }
    close_pair(straight);
    close_pair(slow);
    proxy_stop(slow_proxy);
}

/* --- as time goes by --------------------------------------------------------------------------------------------------------- */

/* What passed a proxy, and what the session behind it has sent and had no reply to: that may not have passed yet. */
struct passed {
    long all, writes, unanswered;
};

/* All but exists, which nobody asks here except the adapter, of a server that has not answered for 100 ms: that is the machine's affair. */
static struct passed passed(struct proxy *proxy, zkl_session *session)
{
    zkl_stats stats = ZKL_STATS_INIT;
    ASSERT_OK(zkl_session_stats(session, &stats));
    return (struct passed){.all = proxy_requests(proxy) + proxy_count(proxy, PROXY_OP_PING) -
                                  proxy_count(proxy, PROXY_OP_EXISTS),
                           .writes = proxy_count(proxy, PROXY_OP_MULTI) + proxy_count(proxy, PROXY_OP_CREATE),
                           .unanswered = (long)stats.unanswered};
}

/* How many more of these than before. */
static struct passed passed_since(struct passed before, struct proxy *proxy, zkl_session *session)
{
    struct passed now = passed(proxy, session);
    return (struct passed){now.all - before.all, now.writes - before.writes, before.unanswered};
}

/* For one session timeout: a heartbeat each twelfth of it while held, which takes the place of the syncs; a sync each sixth and nothing
 * written while waiting. One more of each, for where the time was cut. */
TEST(test_time)
{
    struct proxy *holder = proxy_here(), *other = proxy_here();
    zkl_session *holders = contest_session(proxy_address(holder), SHORT, TICK);
    zkl_session *others = contest_session(proxy_address(other), SHORT, TICK);
    second = lock_at(holders, "/cost/lock");
    acquire(second);
    lock = lock_at(others, "/cost/lock");
    waiter_queue(&waiter, lock, SOON);
    /* Not exactly two: on a busy machine the holder has been watching its own node, too. */
    ASSERT_EVENTUALLY(wire_counter("zk_watch_count\t") >= 2);
    int64_t began = now_ms();
    struct passed held = passed(holder, holders), waited = passed(other, others);
    poll(NULL, 0, SHORT);
    held = passed_since(held, holder, holders);
    waited = passed_since(waited, other, others);
    long late = (long)((now_ms() - began - SHORT) * 12 / SHORT); /* twelfths, on a busy machine */
    printf("\n    in a session timeout: held %ld requests, %ld heartbeats; waited %ld requests, %ld writes\n", held.all,
           held.writes, waited.all, waited.writes);
    CU_ASSERT(held.writes <= 12 + 1 + late + held.unanswered && held.all <= 12 + 2 + late + held.unanswered);
    /* The servers' roles, once in a connection; a watch on our own node, once in a hold that outlasts its first heartbeat. */
    CU_ASSERT_EQUAL(proxy_count(holder, PROXY_OP_GET), 2);
    CU_ASSERT(waited.all <= 6 + 1 + late + waited.unanswered && waited.writes == 0);
    hand_over_and_free();
    zkl_session_close(holders, SOON);
    zkl_session_close(others, SOON);
    proxy_stop(holder);
    proxy_stop(other);
}

TESTS_ON_SERVERS("what it costs", (&(struct ensemble_options){.tick_ms = TICK}))
