/* The stale follower: three server, the holder behind a follower, and only the link between that follower and the leader is cut. The
 * follower goes on answering pings and reads for up to syncLimit ticks, while the leader ends the holder's session and somebody else
 * is granted the lock. The holder has to know first.
 *
 * ZKLOCK_ROUNDS: how many cuts (1). ZKLOCK_CALM: for how many seconds a holder is watched without one (3). */
#include <inttypes.h>

#include "contest.h"
#include "cut.h"
#include "on_servers.h"

#define TICK 2000
#define TIMEOUT 4000
#define LONG 120000 /* ms: for servers that have to find each other again */

/* --- the scene --------------------------------------------------------------------------------------------------------- */

/* The holder behind a follower, whose number this returns; the next one behind the leader or behind the other follower. */
static int set_scene(struct queue_of *q, int round)
{
    int leader = ensemble_leader(server), follower = (leader + 1 + round % 2) % 3;
    CU_ASSERT_FATAL(leader >= 0);
    int other = round / 2 % 2 ? 3 - leader - follower : leader;
    const struct field field = {
        {ensemble_address(server, follower), ensemble_address(server, other)}, 2, TIMEOUT, TICK, 0};
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
        calm = calm && zkl_lock_state(q->locks[0]) == ZKL_STATE_HELD && !q->waiters[1].done;
    } while (look_again(end));
    return calm && heard_when(&q->heard, ZKL_STATE_JEOPARDY, 0) == 0 && heard_when(&q->heard, ZKL_STATE_LOST, 0) == 0;
}

static void end_scene(struct queue_of *q)
{
    zkl_lock_release(q->locks[0], NULL);
    waiter_end(&q->waiters[1]);
    queue_free(q);
}

/* Sets the scene and watches it for that time, anew when it was disturbed: a machine that stands still for a second does this to a lease of
 * two. The follower's number; -1: it is never calm. */
static int set_calm_scene(struct queue_of *q, int round, int64_t ms, int64_t *least)
{
    for (int i = 0; i < 5; i++) {
        int follower = set_scene(q, round);
        if (stays_calm(q, ms, least)) {
            return follower;
        }
        end_scene(q);
    }
    return -1;
}

TEST(test_calm)
{
    struct queue_of q;
    int seconds = (int)check_setting("ZKLOCK_CALM", 3);
    int64_t least;
    CU_ASSERT_FATAL(set_calm_scene(&q, 0, seconds * 1000, &least) >= 0);
    printf("%d s undisturbed, never less than %" PRId64 " ms of lease (%" PRId64 " expected); ", seconds, least,
           zkl_session_least_lease_ms(q.sessions[0]));
    end_scene(&q);
}

/* ns, all of CLOCK_BOOTTIME. */
struct times {
    int64_t cut, warned, held, lost, told, granted; /* held: it was last seen to hold, not before then */
};

/* Looks at everything until the next one is granted and the holder has lost. */
static struct times watch_it_happen(struct queue_of *q)
{
    struct times t = {.cut = boot_ns()};
    struct waiter *next = &q->waiters[1];
    int64_t end = now_ms() + LONG;
    do {
        int64_t before = boot_ns();
        bool held = zkl_lock_is_held(q->locks[0]);
        int64_t now = boot_ns();
        t.held = held ? before : t.held;
        t.lost = t.lost || held ? t.lost : now;
    } while ((!next->done || !t.lost) && look_again(end));
    CU_ASSERT_FATAL(next->done);
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

static void show(int round, const struct times *t)
{
    printf("\n    %2d: cut; %5" PRId64 " ms warned, %5" PRId64 " lost, %5" PRId64 " told, %5" PRId64
           " next granted: %5" PRId64 " ms later",
           round + 1, since(t, t->warned), since(t, t->lost), since(t, t->told), since(t, t->granted),
           (t->granted - t->lost) / MS);
    fflush(stdout);
}

/* A session that sends nothing but pings: its connection stands all the while, so a lock that trusts it has two holders. */
static struct recorder *open_idle(int which)
{
    struct zkl__store_config config = recorder_config(ensemble_address(server, which));
    config.timeout_ms = TIMEOUT;
    struct recorder *idle = recorder_open(&zkl__store_zookeeper, &config, NULL, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(recorder_nth(idle, RECORD_CONNECTED, 0, SOON));
    return idle;
}

/* Whether it was told in time, which a thread that stands still is not. */
static bool cut_once(int round)
{
    struct queue_of q;
    int64_t least;
    int follower = set_calm_scene(&q, round, round * 613 % 2000, &least); /* cuts fall on every part of a tick */
    CU_ASSERT_FATAL(follower >= 0);
    struct recorder *idle = open_idle(follower);
    CU_ASSERT_FATAL(cut_quorum_link(server, follower));
    struct times t = watch_it_happen(&q);
    CU_ASSERT(t.lost > 0 && t.held < t.granted);
    CU_ASSERT(t.warned > 0 && t.warned < t.told);
    CU_ASSERT_EQUAL(zkl_lock_state(q.locks[0]), ZKL_STATE_LOST);
    CU_ASSERT_EQUAL(recorder_count(idle, RECORD_SUSPENDED), 0); /* or else this was no test of anything */
    recorder_free(idle);
    show(round, &t);
    CU_ASSERT(cut_mend());
    CU_ASSERT(ensemble_wait(server, LONG));
    CU_ASSERT(ensemble_ask_until(server, follower, "srvr", "Mode: follower", true, LONG)); /* again */
    CU_ASSERT_EQUAL(zkl_lock_release(q.locks[0], NULL), ZKL_ELOST);
    kit_release(q.locks[1]);
    queue_free(&q);
    return t.told < t.granted;
}

static void cut(int round)
{
    CU_ASSERT(cut_once(round) || cut_once(round) || cut_once(round));
}

TEST(test_cut)
{
    check_rounds(cut);
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
