/* The lease: never longer than an independent reckoning over all operations allows, and hardly shorter. What keeps it in a session, who is
 * told that it runs out, what may be granted on it. */
#include "dice.h"
#include "script.h"

#define S INT64_C(1000000000)
#define TIMEOUT (10 * S)
#define GAP (1500 * MS)
#define COVERED (TIMEOUT - TIMEOUT / 1000)
#define START (100 * S)
#define WALK \
    (TIMEOUT + TIMEOUT / 1000) /* how long the leader may take to expire one tick's sessions, by a fast clock */

static struct zkl__lease lease;

static void begin(void)
{
    zkl__lease_begin(&lease, TIMEOUT, GAP, START);
}

static bool sync_at(int64_t sent, int64_t answered)
{
    return zkl__lease_response(&lease, ZKL__PROOF_SYNC, sent, answered);
}
static bool commit_at(int64_t sent, int64_t answered)
{
    return zkl__lease_response(&lease, ZKL__PROOF_COMMIT, sent, answered);
}
static bool read_at(int64_t sent, int64_t answered)
{
    return zkl__lease_response(&lease, ZKL__PROOF_RESPONSE, sent, answered);
}

/* Nobody heard of the session for its timeout, so the leader may have begun to expire the sessions of its tick (SessionTrackerImpl.run).
 * What it does for the session before it comes to it proves nothing, by one ns. */
TEST(test_doubt_ends)
{
    for (int early = 0; early < 2; early++) {
        int64_t first = START + 50 * S, at = first;
        begin();
        commit_at(first - 2 * S, first - 2 * S);
        commit_at(first - S / 4, first - S / 4);
        commit_at(first, first); /* the first chain is complete */
        for (at = first + S; at < first + WALK - early; at += S) {
            CU_ASSERT_FALSE(commit_at(at, at));
        }
        at = first + WALK - early;
        CU_ASSERT_EQUAL(commit_at(at, at + S), !early);
        CU_ASSERT_EQUAL(zkl__lease_doubted(&lease, at + S), early);
    }
}

/* When an idle session sends the next sync (session_step.c). */
static int64_t next_sync(int64_t sent, int64_t answered)
{
    int64_t usual = sent + zkl__lease_keepalive(&lease);
    return usual > answered ? usual : answered;
}

/* Syncs alone keep the session out of doubt: the leader that answers them notes the touches, and the write behind them shows that it
 * was the leader. So it is with any gap, and if the servers take a quarter of the timeout for a response now and then. */
TEST(test_idle)
{
    static const int64_t gaps[] = {GAP, TIMEOUT / 4, TIMEOUT * 6 / 10};
    for (int i = 0; i < 6; i++) {
        int64_t gap = gaps[i / 2], now = START;
        zkl__lease_begin(&lease, TIMEOUT, gap, START);
        lease.hops = i % 2 ? ZKL__HOPS_TWO : ZKL__HOPS_ONE;
        if (zkl__lease_least(TIMEOUT, gap, lease.hops) < TIMEOUT / 10) {
            continue;
        }
        int syncs = 0;
        for (; now < START + 1000 * TIMEOUT; syncs++) {
            int64_t answered = now + (i == 0 && syncs % 7 == 0 ? TIMEOUT / 4 : 50 * MS);
            CU_ASSERT_FALSE(sync_at(now, answered));
            CU_ASSERT_FALSE_FATAL(zkl__lease_doubted(&lease, answered));
            now = next_sync(now, answered);
        }
        CU_ASSERT(syncs < (i == 0 ? 7 : 13) * 1000);
        CU_ASSERT(lease.until < now);
        CU_ASSERT_TRUE(commit_at(now, now + 50 * MS));
        CU_ASSERT(lease.until > now + TIMEOUT / 10);
    }
}

/* A new connection counts as a touch if it is there in time, and its first chain is complete as soon as a holder's. */
TEST(test_reconnect_in_time)
{
    for (int late = 0; late < 2; late++) {
        int64_t now, back = START + COVERED - 1 + late;
        begin();
        for (now = START; now < START + 5 * S; now += S) {
            read_at(now, now);
        }
        zkl__lease_reconnect(&lease, TIMEOUT, back);
        CU_ASSERT_EQUAL(zkl__lease_doubted(&lease, back), late);
        for (now = back; !sync_at(now, now) && lease.touched < back;) {
            now = next_sync(now, now);
        }
        CU_ASSERT(now <= back + TIMEOUT * 2 / 3); /* no commit has shown that this one leads */
        CU_ASSERT_EQUAL(zkl__lease_doubted(&lease, now), late);
        CU_ASSERT_EQUAL(commit_at(now, now), !late);
    }
}

/* A leader that another one has replaced answers reads and syncs and revalidates sessions for half a timeout, as docs/lease.md assumes.
 * The new leader has given the session a timeout from its own beginning on, and no touch reaches it. So it may have begun to expire the
 * session a timeout after its beginning, however newly the old one has heard of it. */
TEST(test_replaced_leader)
{
    for (int reconnects = 0; reconnects < 2; reconnects++) {
        int64_t replaced = START + 50 * S, now, last = replaced + TIMEOUT / 2 - 10 * MS;
        begin();
        for (now = START; now <= replaced; now += S) {
            commit_at(now, now + MS);
        }
        for (; now < last; now += S / 2) {
            sync_at(now, now + MS);
        }
        if (reconnects) {
            zkl__lease_reconnect(&lease, TIMEOUT, last); /* another follower of the old leader */
            CU_ASSERT_FALSE(zkl__lease_doubted(&lease, last));
        }
        /* The new leader takes the sessions of the tick to expire them, and then revalidates this one. */
        int64_t back = replaced + TIMEOUT + S;
        zkl__lease_reconnect(&lease, TIMEOUT, back);
        CU_ASSERT_TRUE(zkl__lease_doubted(&lease, back));
        commit_at(back + MS, back + 2 * MS);
        CU_ASSERT(lease.until <= replaced + TIMEOUT);
    }
}

/* --- against a reckoning that keeps everything and tries every chain ----------------------------------------------- */

#define OPS_MOST 600

struct naive {
    struct {
        enum zkl__proof proof;
        int64_t sent, answered;
        int64_t root[4]; /* newest moment of which it is the link a, b, c or d; 0: of none */
    } ops[OPS_MOST];
    int count, first; /* first: of this connection */
    enum zkl__hops hops;
    int64_t timeout, best_root, until;
    int64_t touched; /* newest root that a chain has ended with, whatever its last link */
    int64_t broken;  /* when the last one ended that came too late for the touch before it; 0: none did */
};

static int64_t reach(int64_t root, int64_t timeout)
{
    return root + timeout - timeout / 1000;
}

/* The newest root of all links of a kind that were answered by then. */
static int64_t newest_link(const struct naive *n, int link, int64_t by)
{
    int64_t newest = 0;
    for (int i = n->first; i < n->count; i++) {
        if (n->ops[i].answered <= by && n->ops[i].root[link] > newest) {
            newest = n->ops[i].root[link];
        }
    }
    return newest;
}

static void naive_touch(struct naive *n, int64_t root, int64_t by)
{
    n->broken = by >= reach(n->touched, n->timeout) ? by : n->broken;
    n->touched = root > n->touched ? root : n->touched;
}

static void naive_answer(struct naive *n, enum zkl__proof proof, int64_t sent, int64_t answered)
{
    int64_t roots[4] = {sent};
    for (int link = 1; link < 4 && proof != ZKL__PROOF_RESPONSE; link++) {
        roots[link] = newest_link(n, link - 1, link == 2 ? sent : sent - GAP);
    }
    int64_t root = proof != ZKL__PROOF_RESPONSE ? newest_link(n, n->hops == ZKL__HOPS_ONE ? 1 : 3, sent) : 0;
    naive_touch(n, root, root ? answered : 0);
    bool walked = !n->broken || sent >= n->broken + n->timeout + n->timeout / 1000;
    root = proof == ZKL__PROOF_COMMIT && walked ? root : 0;
    n->best_root = root > n->best_root ? root : n->best_root;
    n->until = root && reach(root, n->timeout) > n->until ? reach(root, n->timeout) : n->until;
    n->ops[n->count].proof = proof;
    n->ops[n->count].sent = sent;
    n->ops[n->count].answered = answered;
    memcpy(n->ops[n->count++].root, roots, sizeof roots);
}

static void naive_reconnect(struct naive *n, int64_t timeout, int64_t now)
{
    int64_t known = 0;
    for (int i = n->first; i < n->count; i++) {
        known = n->ops[i].root[0] > known ? n->ops[i].root[0] : known;
    }
    n->first = n->count;
    naive_touch(n, known, now);
    if (known) {
        n->ops[n->count].answered = now;
        n->ops[n->count].root[0] = n->ops[n->count].root[2] = 0;
        n->ops[n->count].root[1] = n->ops[n->count].root[3] = known;
        n->count++;
    }
    if (reach(n->best_root, timeout) < n->until) {
        n->until = reach(n->best_root, timeout);
    }
    n->timeout = timeout < n->timeout ? timeout : n->timeout;
}

static int64_t some_time(uint64_t *dice, bool slow)
{
    switch (dice_below(dice, slow ? 6 : 5)) {
    case 0:
        return dice_below(dice, 3);
    case 1:
        return dice_below(dice, 10 * MS);
    case 2:
        return dice_below(dice, 100 * MS);
    case 3:
        return dice_below(dice, GAP);
    case 4:
        return GAP / 16 + dice_below(dice, 5) - 2;
    default:
        return dice_below(dice, 8 * S);
    }
}

/* Operations in the order of their answers, each sent after the one before it was sent. slow: answers may take longer than the
 * rings reach back; then only the upper bound holds. */
static void compare(uint64_t seed, bool slow)
{
    static struct naive n;
    uint64_t dice = seed;
    int64_t sent = START, answered = START;
    n = (struct naive){.timeout = TIMEOUT, .best_root = START, .touched = START, .until = START + COVERED};
    begin();
    n.hops = lease.hops = seed % 2 ? ZKL__HOPS_ONE : ZKL__HOPS_TWO;
    int ops = (int)dice_between(&dice, 20, OPS_MOST / 2);
    for (int i = 0; i < ops; i++) {
        if (dice_once_in(&dice, 60)) {
            int64_t timeout = dice_between(&dice, 4, 20) * S;
            sent = answered;
            naive_reconnect(&n, timeout, answered);
            zkl__lease_reconnect(&lease, timeout, answered);
        }
        enum zkl__proof proof = (enum zkl__proof)dice_below(&dice, 3);
        sent += some_time(&dice, slow);
        int64_t earliest = sent > answered ? sent : answered;
        answered = slow ? earliest + some_time(&dice, true)
                        : (earliest > sent + GAP ? earliest : earliest + dice_below(&dice, 50 * MS));
        naive_answer(&n, proof, sent, answered);
        int64_t before = lease.until;
        bool grew = zkl__lease_response(&lease, proof, sent, answered);
        CU_ASSERT_EQUAL(grew, lease.until > before);
        bool sound = lease.until <= n.until;
        bool near = slow || lease.doubt > 0 || lease.until >= n.until - GAP / 16 - 2;
        if (!sound || !near) {
            fprintf(stderr, "seed %llu, operation %d: %lld, all chains give %lld\n", (unsigned long long)seed, i,
                    (long long)lease.until, (long long)n.until);
        }
        CU_ASSERT_TRUE_FATAL(sound && near);
    }
}

TEST(test_against_all_chains)
{
    for (uint64_t seed = 1; seed <= 1500; seed++) {
        compare(seed, false);
        compare(seed, true);
    }
}

/* A server's word. */
TEST(test_intervals_of_no_timeout)
{
    for (int64_t timeout = -12 * S; timeout <= 0; timeout += 12 * S) {
        CU_ASSERT(zkl__lease_heartbeat(timeout) > 0);
        CU_ASSERT(zkl__lease_keepalive(&(struct zkl__lease){.timeout = timeout}) > 0);
    }
}

/* What is left before the lease grows is never less than was foretold, from the first answer on. */
TEST(test_low_lease)
{
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        uint64_t dice = seed;
        int64_t timeout = dice_between(&dice, 8, 40) * S, beat = zkl__lease_heartbeat(timeout), now = START,
                low = INT64_MIN;
        zkl__lease_begin(&lease, timeout, GAP, now - dice_below(&dice, timeout));
        lease.hops = seed % 2 ? ZKL__HOPS_ONE : ZKL__HOPS_TWO;
        int silent = (int)dice_below(&dice, 8);
        for (int n = 0; n < 60; n++) {
            int64_t left = lease.until - now;
            if (silent > 0) { /* an idle session: some answers, no heartbeats yet */
                silent--;
                read_at(now, now);
                low = zkl__lease_low(&lease, now);
            } else if (sync_at(now, now) || commit_at(now, now)) {
                CU_ASSERT_FATAL(low <= 0 || left >= low);
                low = zkl__lease_low(&lease, now);
            }
            now += dice_between(&dice, beat / 2, beat);
        }
        CU_ASSERT_FATAL(low >= zkl__lease_least(timeout, GAP, lease.hops) - GAP / 16);
    }
}

/* --- of a session ------------------------------------------------------------------------------------------------------ */

/* The reply that would renew a lease comes when it has ended, and nobody woke before: lost is final. */
TEST_IN_SCRIPT(test_a_reply_behind_the_end)
{
    script_hold(&me);
    int64_t until = script.core->lease.until;
    while (script.now < until - 1000 * MS) {
        script_wait(200 * MS);
        while (script.op_count > 0) { /* shows that a server is there, and proves nothing */
            script_answer_with(ZKL__RC_NOTAPPLIED);
        }
    }
    script_reconnect(0);
    script_answer_until(ZKL__OP_CHECK);
    CU_ASSERT_EQUAL(me.lost, 0);
    script.now = until + 1;
    script_answer_all();
    CU_ASSERT(script.core->lease.until > until);
    CU_ASSERT_EQUAL(me.lost, 1);
    script_release(&me);
}

/* Its time may be up before: then it is told why it was not granted. */
TEST_IN_SCRIPT(test_time_is_up_in_doubt)
{
    script_wait(20000 * MS);
    script_contend(&me, NULL);
    script_start(&me, script.now + 5000 * MS, false);
    script_answer_all();
    script_run(5000 * MS);
    CU_ASSERT_EQUAL(me.code, ZKL_ETIMEOUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(me.why, "no server was reached for a session timeout"));
}

/* A connect that took its time has used up much of the first lease: no grant that would be in jeopardy before it is renewed. */
TEST(test_young_grant)
{
    for (int64_t took = 0; took < 10000; took += 500) {
        script_init();
        script.connecting = took * MS;
        script_connect();
        script_acquire(&me);
        script_answer_all();
        script_run(6000 * MS + (took < 7500 ? 0 : script.timeout)); /* its first chain is late then: in doubt */
        CU_ASSERT_EQUAL(me.granted, 1);
        CU_ASSERT_EQUAL(me.jeopardy + me.lost, 0);
        script_finish();
    }
}

#define CONFIG "/zookeeper/config"
#define VOTERS "server.1=h:2888:3888:participant;2181\nversion=0"
#define OBSERVERS "server.4=h:2888:3888:observer;2181\nversion=0"

static enum zkl__hops hops_with(const char *config, bool hidden)
{
    script_init_masters(ZKL__MASTERS_ASK);
    if (config) {
        struct zkl__memory_node *node = script_put(CONFIG, 0);
        script_write(CONFIG, config);
        if (hidden) {
            script_forbid(node, ZKL_PERM_READ);
        }
    }
    script_connect();
    CU_ASSERT_EQUAL(script.core->lease.hops, ZKL__HOPS_TWO); /* until it is known */
    script_answer();
    enum zkl__hops hops = script.core->lease.hops;
    int warnings = script.warnings;
    script_finish();
    CU_ASSERT_EQUAL(warnings, hidden);
    return hops;
}

TEST(test_hops)
{
    CU_ASSERT_EQUAL(hops_with(VOTERS, false), ZKL__HOPS_ONE);
    CU_ASSERT_EQUAL(hops_with(NULL, false), ZKL__HOPS_ONE); /* servers before 3.5 */
    CU_ASSERT_EQUAL(hops_with("", false), ZKL__HOPS_ONE);   /* one server alone */
    CU_ASSERT_EQUAL(hops_with(OBSERVERS, false), ZKL__HOPS_TWO);
    CU_ASSERT_EQUAL(hops_with(VOTERS, true), ZKL__HOPS_TWO);
}

/* The first thing on each connection; once more when the server did not apply it; never when the owner knows. */
TEST(test_roles_are_read_first)
{
    script_init_masters(ZKL__MASTERS_ASK);
    script_connect();
    OPS("get sync");
    script_answer_with(ZKL__RC_NOTAPPLIED);
    script_answer_all();
    script_wait(script.timeout / 12);
    OPS("get sync");
    script_answer_all();
    CU_ASSERT_EQUAL(script.core->lease.hops, ZKL__HOPS_ONE);
    script_put(CONFIG, 0);
    script_write(CONFIG, OBSERVERS);
    script_reconnect(0);
    OPS("get sync");
    script_answer_all();
    CU_ASSERT_EQUAL(script.core->lease.hops, ZKL__HOPS_TWO);
    script_finish();
    for (int some = 0; some < 2; some++) {
        script_init_masters(some ? ZKL__MASTERS_SOME : ZKL__MASTERS_NONE);
        script_connect();
        OPS("sync");
        script_answer_all();
        CU_ASSERT_EQUAL(script.core->lease.hops, some ? ZKL__HOPS_TWO : ZKL__HOPS_ONE);
        script_finish();
    }
}

/* Two hops leave nothing of four seconds: no grant, and a word about it. */
TEST(test_two_hops_and_a_short_timeout)
{
    script_init_masters(ZKL__MASTERS_ASK);
    script_put(CONFIG, 0);
    script_write(CONFIG, OBSERVERS);
    script.timeout = 4000 * MS;
    script_connect();
    script_acquire(&me);
    script_run(20000 * MS);
    CU_ASSERT_EQUAL(me.granted, 0);
    CU_ASSERT_EQUAL(script.warnings, 1);
    script_finish();
}

/* Connections that are lost within a second, one after the other, while something is watched: an operator hears of it once, until one
 * lasts. Without watches, or with longer connections, there is nothing to say. */
TEST_IN_SCRIPT(test_broken_by_watches)
{
    for (int i = 0; i < 20; i++) {
        script_reconnect(0);
    }
    CU_ASSERT_EQUAL(script.warnings, 0);
    script_put(SCRIPT_BLOCKER, SCRIPT_STRANGER);
    script_acquire(&me);
    script_answer_all();
    for (int i = 0; i < 20; i++) {
        script_run(1000 * MS);
        script_reconnect(0);
    }
    CU_ASSERT_EQUAL(script.warnings, 0);
    for (int round = 1; round <= 2; round++) {
        for (int i = 0; i < 20; i++) {
            CU_ASSERT_EQUAL(script.warnings, round - (i < 5));
            script_reconnect(0);
        }
        CU_ASSERT_PTR_NOT_NULL(strstr(script.warned, "jute.maxbuffer"));
        script_run(1000 * MS);
        script_reconnect(0);
    }
    script_answer_all();
}

TESTS("lease")
