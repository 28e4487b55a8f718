/* The stale follower: three server, the holder behind a follower, and only the link between that follower and the leader is cut. The
 * follower goes on answering pings and reads for up to syncLimit ticks, while the leader ends the holder's session and somebody else
 * is granted the lock. The holder has to know first.
 *
 * ZKLOCK_ROUNDS: how many cuts (1). ZKLOCK_CALM: for how many seconds a holder is watched without one (3). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contest.h"
#include "cut.h"
#include "on_servers.h"
#include "store_client.h"

#define TICK 2000
#define TIMEOUT 4000
#define LONG 120000 /* ms: for servers that have to find each other again */

static int wish(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

/* --- a lock as it is often written ----------------------------------------------------------------------------------------- */

/* It holds while its connection is up and its znode can be read. Its own next one watches the znode on another server. */
struct naive {
    struct recorder *holder, *next;
    char path[64];
    uint64_t read;
    int64_t asked_ms, believed_ns; /* last good read */
};

static struct recorder *naive_session(int which)
{
    struct zkl__store_config config = recorder_config(ensemble_address(server, which));
    config.timeout_ms = TIMEOUT;
    struct recorder *session = recorder_open(&zkl__store_zookeeper, &config, NULL, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(session);
    CU_ASSERT_PTR_NOT_NULL_FATAL(recorder_nth(session, RECORD_CONNECTED, 0, SOON));
    return session;
}

static void naive_start(struct naive *naive, int which, int other)
{
    static int number;
    *naive = (struct naive){.holder = naive_session(which), .next = naive_session(other)};
    snprintf(naive->path, sizeof naive->path, "/naive-%d", ++number);
    struct zkl__op make = op_create(naive->path, NULL, ZKL__EPHEMERAL),
                   sync = op_read(ZKL__OP_SYNC, naive->path, false);
    struct zkl__op watch = op_read(ZKL__OP_GET, naive->path, true);
    CU_ASSERT_EQUAL(recorder_do(naive->holder, &make)->reply.rc, ZKL__RC_OK);
    recorder_do(naive->next, &sync);
    CU_ASSERT_EQUAL(recorder_do(naive->next, &watch)->reply.rc, ZKL__RC_OK);
}

/* Reads every 10 ms; to be called often. */
static void naive_look(struct naive *naive)
{
    const struct record *reply = naive->read ? recorder_reply(naive->holder, naive->read, 0) : NULL;
    if (reply && reply->reply.rc == ZKL__RC_OK) {
        naive->believed_ns = reply->at_ns;
    }
    if ((reply || !naive->read) && now_ms() >= naive->asked_ms + 10) {
        struct zkl__op get = op_read(ZKL__OP_GET, naive->path, false);
        naive->asked_ms = now_ms();
        naive->read = recorder_submit(naive->holder, &get, NULL);
    }
}

/* When the next one was told that the znode is gone; 0: not yet. */
static int64_t naive_granted(struct naive *naive)
{
    const struct record *gone = recorder_nth(naive->next, RECORD_WATCH, 0, 0);
    return gone ? gone->at_ns : 0;
}

/* For how long two of them believed to hold, ns; negative: never. */
static int64_t naive_end(struct naive *naive)
{
    int64_t both = naive->believed_ns - naive_granted(naive);
    recorder_close(naive->holder, 0);
    recorder_free(naive->holder);
    recorder_free(naive->next);
    return both;
}

/* --- ours -------------------------------------------------------------------------------------------------------------- */

/* The holder behind a follower, whose number this returns; the next one, *other, behind the leader or behind the other follower. */
static int set_scene(struct queue_of *q, int *other, int round)
{
    int leader = ensemble_leader(server), follower = (leader + 1 + round % 2) % 3;
    CU_ASSERT_FATAL(leader >= 0);
    *other = round / 2 % 2 ? 3 - leader - follower : leader;
    const struct field field = {
        {ensemble_address(server, follower), ensemble_address(server, *other)}, 2, TIMEOUT, TICK, 0};
    queue_up(q, &field, "/stale", 2);
    return follower;
}

/* Whether the holder is held, and nobody else, and nothing is told, for that time. *least is the least lease it had. */
static bool stays_calm(struct queue_of *q, int64_t ms, int64_t *least)
{
    int64_t end = now_ms() + ms;
    *least = INT64_MAX;
    bool calm = true;
    do {
        int64_t left = zkl_lock_remaining_ms(q->locks[0]);
        *least = left < *least ? left : *least;
        calm = calm && zkl_lock_state(q->locks[0]) == ZKL_STATE_HELD && !atomic_load(&q->waiters[1].done);
    } while (look_again(end));
    return calm && heard_count(&q->heard, ZKL_STATE_JEOPARDY) == 0 && heard_count(&q->heard, ZKL_STATE_LOST) == 0;
}

/* A machine that stands still for a second does this to a lease of two. */
#define TRIES 5

static void end_scene(struct queue_of *q)
{
    (void)zkl_lock_release(q->locks[0], NULL);
    (void)waiter_end(&q->waiters[1]);
    queue_free(q);
}

TEST(test_calm)
{
    struct queue_of q;
    int other, seconds = wish("ZKLOCK_CALM", 3);
    int64_t least;
    (void)set_scene(&q, &other, 0);
    bool calm = stays_calm(&q, seconds * 1000, &least);
    for (int i = 1; i < TRIES && !calm; i++) {
        end_scene(&q);
        (void)set_scene(&q, &other, 0);
        calm = stays_calm(&q, seconds * 1000, &least);
    }
    CU_ASSERT(calm);
    printf("%d s undisturbed, never less than %" PRId64 " ms of lease (%" PRId64 " expected); ", seconds, least,
           zkl_session_least_lease_ms(q.sessions[0]));
    end_scene(&q);
}

/* ns, all of CLOCK_BOOTTIME. */
struct times {
    /* silent: our session had no connection any more; held: it was last seen to hold, not before then */
    int64_t cut, warned, held, lost, told, granted, silent;
};

/* Looks at everything until both next ones are granted and the naive one has stopped believing. */
static struct times watch_it_happen(struct queue_of *q, struct naive *naive)
{
    struct times t = {.cut = boot_ns()};
    struct waiter *next = &q->waiters[1];
    int64_t end = now_ms() + LONG;
    bool more = true;
    do {
        int64_t before = boot_ns();
        bool held = zkl_lock_is_held(q->locks[0]);
        int64_t now = boot_ns();
        t.held = held ? before : t.held;
        t.lost = t.lost || held ? t.lost : now;
        t.silent = t.silent || zkl_session_state(q->sessions[0]) == ZKL_SESSION_CONNECTED ? t.silent : now;
        naive_look(naive);
        bool believes = now - naive->believed_ns < 2000 * MS;
        more = !atomic_load(&next->done) || !naive_granted(naive) || believes;
    } while (more && look_again(end));
    CU_ASSERT_FATAL(atomic_load(&next->done));
    ASSERT_OK(waiter_end(next));
    /* Not later than it was: the time of the call, and the milliseconds from then on, rounded down. */
    t.granted = next->began_ns + next->grant.queued_ms * MS;
    t.warned = heard_when(&q->heard, ZKL_STATE_JEOPARDY, 0);
    t.told = heard_when(&q->heard, ZKL_STATE_LOST, 0);
    return t;
}

static int64_t since(const struct times *t, int64_t at)
{
    return at ? (at - t->cut) / MS : -1;
}

static void show(int round, const struct times *t, int64_t naive_both)
{
    printf("\n    %2d: cut; %5" PRId64 " ms warned, %5" PRId64 " no connection, %5" PRId64 " lost, %5" PRId64
           " told, %5" PRId64 " next granted: %5" PRId64
           " ms later; a lock that reads its znode: two holders for %5" PRId64 " ms",
           round + 1, since(t, t->warned), since(t, t->silent), since(t, t->lost), since(t, t->told),
           since(t, t->granted), (t->granted - t->lost) / MS, naive_both / MS);
    fflush(stdout);
}

/* What has begun anew since the cut: the follower is one again. */
static void recover(int which)
{
    CU_ASSERT(cut_mend());
    CU_ASSERT(ensemble_wait(server, LONG));
    CU_ASSERT(ensemble_ask_until(server, which, "srvr", "Mode: follower", true, LONG));
}

/* Whether it was told in time, which a thread that stands still is not. */
static bool cut_once(int round)
{
    struct queue_of q;
    struct naive naive;
    int64_t least;
    int other, follower = set_scene(&q, &other, round);
    naive_start(&naive, follower, other);
    for (int i = 1; !stays_calm(&q, round * 613 % 2000, &least) && i < TRIES;
         i++) { /* cuts fall on every part of a tick */
        end_scene(&q);
        (void)naive_end(&naive);
        follower = set_scene(&q, &other, round);
        naive_start(&naive, follower, other);
    }
    CU_ASSERT_FATAL(cut_quorum_link(server, follower));
    struct times t = watch_it_happen(&q, &naive);
    CU_ASSERT(t.lost > 0 && t.held < t.granted);
    CU_ASSERT(t.warned > 0 && t.warned < t.told);
    CU_ASSERT_EQUAL(zkl_lock_state(q.locks[0]), ZKL_STATE_LOST);
    int64_t naive_both = naive_end(&naive);
    CU_ASSERT(naive_both > 0); /* or else this was no test of anything */
    show(round, &t, naive_both);
    recover(follower);
    CU_ASSERT_EQUAL(zkl_lock_release(q.locks[0], NULL), ZKL_ELOST);
    ASSERT_OK(zkl_lock_release(q.locks[1], NULL));
    queue_free(&q);
    return t.told < t.granted;
}

TEST(test_cut)
{
    int rounds = wish("ZKLOCK_ROUNDS", 1);
    for (int round = 0; round < rounds; round++) {
        CU_ASSERT(cut_once(round) || cut_once(round) || cut_once(round));
    }
    printf("\n  ");
}

int main(int argc, char **argv)
{
    if (!cut_prepare()) {
        printf("SKIPPED: this machine permits neither a network namespace nor a packet filter in one (root may)\n");
        return 77;
    }
    const struct ensemble_options options = {.servers = 3, .tick_ms = TICK, .own_hosts = true, .extra = "syncLimit=5"};
    return on_servers_main("stale follower", &options, argc, argv);
}
