/* Statistics: what is counted, in virtual time; their text for Prometheus; the public functions. */
#include "lock_kit.h"
#include "script.h"

static const zkl_stats *all(void)
{
    return &script.core->stats.all;
}

static const zkl_contender_stats *sums(void)
{
    return &all()->contenders;
}

/* --- what is counted ------------------------------------------------------------------------------------------------- */

TEST_BETWEEN(script_begin(), test_a_grant, script_deinit())
{
    script_acquire(&me);
    CU_ASSERT_EQUAL(sums()->waits, 1);
    CU_ASSERT_EQUAL(sums()->waiting, 1);
    script.now += 3 * MS;
    script_answer_granted(&me);
    CU_ASSERT_EQUAL(sums()->grants, 1);
    CU_ASSERT_EQUAL(sums()->waiting, 0);
    CU_ASSERT_EQUAL(sums()->held, 1);
    CU_ASSERT_EQUAL(all()->wait.count, 1);
    CU_ASSERT_EQUAL(all()->wait.sum_us, 3000);
    script_run(5000 * MS);
    script_release(&me);
    CU_ASSERT_EQUAL(sums()->releases, 1);
    CU_ASSERT_EQUAL(sums()->losses, 0);
    CU_ASSERT_EQUAL(sums()->held, 0);
    CU_ASSERT_EQUAL(all()->hold.sum_us, 5000000);
    CU_ASSERT_EQUAL(sums()->hold_us, 5000000);
    CU_ASSERT_EQUAL(sums()->removing, 1); /* until the server has said so */
    script_answer_all();
    CU_ASSERT_EQUAL(sums()->removing, 0);
    CU_ASSERT(all()->heartbeats > 0);
    CU_ASSERT(all()->requests > all()->heartbeats);
    CU_ASSERT_EQUAL(all()->request.count, all()->requests);
    CU_ASSERT(all()->lease_slack_min_us > 0);
    CU_ASSERT(all()->lease_slack_min_us < script.timeout / 1000);
    CU_ASSERT(all()->slack.count > 0);
    CU_ASSERT(all()->slack.count <= all()->requests);
    CU_ASSERT_EQUAL(all()->slack.buckets[0], 0); /* no lease was near its end */
}

TEST_BETWEEN(script_begin(), test_waits_that_end_otherwise, script_deinit())
{
    script_put("/q/_c_aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa-lock-0000000000", SCRIPT_STRANGER);
    CU_ASSERT_FATAL(script_contend(&me, NULL));
    script_start(&me, script.now + 100 * MS, false);
    script_run(200 * MS);
    CU_ASSERT_EQUAL(me.code, ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(sums()->timeouts, 1);
    CU_ASSERT_FATAL(script_contend(&me, NULL));
    script_start(&me, INT64_MAX, true);
    script_answer_all();
    CU_ASSERT_EQUAL(sums()->busy, 1);
    script_acquire(&me);
    script_answer_all();
    script_cancel(&me);
    CU_ASSERT_EQUAL(sums()->cancels, 1);
    script_answer_all();
    script_acquire(&me);
    script_answer_with(ZKL__RC_NOAUTH);
    script_answer_all();
    CU_ASSERT_EQUAL(me.code, ZKL_EAUTH);
    CU_ASSERT_EQUAL(sums()->failures, 1);
    CU_ASSERT_EQUAL(sums()->waits, 4);
    CU_ASSERT_EQUAL(sums()->waiting, 0);
    CU_ASSERT_EQUAL(sums()->removing, 0);
    CU_ASSERT_EQUAL(all()->wait.count, 0);
}

TEST_BETWEEN(script_begin(), test_losses, script_deinit())
{
    script_acquire(&me);
    script_answer_all();
    script_acquire(&you);
    script_answer_all();
    script_expire();
    CU_ASSERT_EQUAL(me.lost, 1);
    CU_ASSERT_EQUAL(sums()->losses, 1);
    CU_ASSERT_EQUAL(sums()->requeues, 1);
    CU_ASSERT_EQUAL(all()->expiries, 1);
    CU_ASSERT_EQUAL(all()->sessions, 1);
    script_connect();
    script_answer_all();
    CU_ASSERT_EQUAL(all()->sessions, 2);
    CU_ASSERT_EQUAL(you.granted, 1);
    script_release(&me); /* what was lost is not released */
    CU_ASSERT_EQUAL(sums()->releases, 0);
    script_wait(60000 * MS); /* nobody answers: the lease of the other one ends */
    CU_ASSERT_EQUAL(you.lost, 1);
    CU_ASSERT_EQUAL(sums()->losses, 2);
    CU_ASSERT_EQUAL(all()->lease_slack_min_us, 0);
    CU_ASSERT_EQUAL(all()->slack.buckets[0], 1); /* the lease that ran out */
    CU_ASSERT_EQUAL(sums()->held, 0);
}

/* But its row, if it has one. */
TEST_BETWEEN(script_begin(), test_nothing_stays_of_a_path, script_deinit())
{
    long live = 0;
    for (int i = 0; i <= ZKL_STATS_PATHS_MAX; i++) {
        char path[40];
        live = test_heap_live(&script.heap);
        snprintf(path, sizeof path, "/%d", i);
        script_enter(&me, CONTENDER_CONFIG(.path = path));
        script_answer_granted(&me);
        script_release(&me);
        script_answer_all();
    }
    CU_ASSERT_EQUAL(test_heap_live(&script.heap), live);
}

TEST(test_no_memory_for_a_row)
{
    struct zkl__stats stats;
    struct test_heap counter = TEST_HEAP_INIT;
    zkl_heap heap = test_heap(&counter);
    for (long nth = 1; nth <= 2; nth++) {
        zkl__stats_init(&stats);
        test_heap_fail(&counter, nth, false);
        CU_ASSERT_PTR_EQUAL(zkl__stats_path(&stats, &heap, "/a"), &stats.others);
        zkl__stats_deinit(&stats, &heap);
        CU_ASSERT_EQUAL(test_heap_live(&counter), 0);
    }
}

TEST(test_histogram)
{
    zkl_histogram h = {0};
    const struct {
        int64_t ns;
        size_t bucket;
    } cases[] = {
        {-5, 0},         {0, 0},           {128000, 0},
        {129000, 1},     {256000, 1},      {257000, 2},
        {1000 * MS, 13}, {60000 * MS, 19}, {INT64_C(2147483648) * 1000, 24},
        {INT64_MAX, 25},
    };
    EACH_ROW (i, cases) {
        uint64_t before = h.buckets[cases[i].bucket];
        zkl__histogram_add(&h, cases[i].ns);
        CU_ASSERT_EQUAL(h.buckets[cases[i].bucket], before + 1);
        CU_ASSERT_EQUAL(h.count, i + 1);
    }
    CU_ASSERT_EQUAL(zkl__histogram_bound_us(ZKL_HISTOGRAM_BUCKETS - 1), 0);
}

/* --- the public functions, and the text ------------------------------------------------------------------------------ */

static char text[200000];

static bool has_line(const char *line)
{
    char wanted[400];
    snprintf(wanted, sizeof wanted, "\n%s\n", line);
    return strstr(text, wanted) != NULL;
}

static void use(zkl_session *session, const char *path)
{
    zkl_lock *lock = kit_hold(session, path, NULL);
    kit_release(lock);
    kit_free(lock);
}

struct rows {
    int count, unnamed;
    uint64_t waits;
};

static void visit(const char *path, const zkl_contender_stats *stats, void *payload)
{
    struct rows *rows = payload;
    rows->count++;
    rows->unnamed += path == NULL;
    rows->waits += stats->waits;
    CU_ASSERT(stats_sound(stats));
}

TEST_WITH_SESSIONS(test_of_a_session)
{
    use(one, "/one");
    use(one, "/one");
    zkl_stats stats = kit_stats(one);
    CU_ASSERT_EQUAL(stats.size, sizeof stats);
    CU_ASSERT_EQUAL(stats.contenders.grants, 2);
    CU_ASSERT_EQUAL(stats.contenders.releases, 2);
    CU_ASSERT_EQUAL(stats.sessions, 1);
    CU_ASSERT(stats.requests >= 6);
    struct rows rows = {0};
    CU_ASSERT_EQUAL(zkl_session_path_stats(one, visit, &rows), 1);
    CU_ASSERT_EQUAL(rows.waits, 2);
    CU_ASSERT_EQUAL(zkl_stats_write_prometheus(one, NULL, NULL, 5), ZKL_EINVAL);
}

TEST_WITH_SESSIONS(test_many_paths)
{
    for (int i = 0; i < ZKL_STATS_PATHS_MAX + 6; i++) {
        char path[40];
        snprintf(path, sizeof path, "/many/%d", i);
        use(one, path);
    }
    struct rows rows = {0};
    CU_ASSERT_EQUAL(zkl_session_path_stats(one, visit, &rows), ZKL_STATS_PATHS_MAX + 1);
    CU_ASSERT_EQUAL(rows.unnamed, 1);
    CU_ASSERT_EQUAL(rows.waits, ZKL_STATS_PATHS_MAX + 6);
    CU_ASSERT(zkl_stats_write_prometheus(one, NULL, text, sizeof text) < (int64_t)sizeof text);
    CU_ASSERT(has_line("zklock_path_grants_total{path=\"/many/0\"} 1"));
    CU_ASSERT(has_line("zklock_path_grants_total{path=\"other\"} 6"));
    CU_ASSERT_PTR_NULL(strstr(text, "/many/64"));
}

TEST_WITH_SESSIONS(test_prometheus)
{
    use(one, "/say \"hi\"\\there");
    int64_t length = zkl_stats_write_prometheus(one, "ma\"in\n", text, sizeof text);
    CU_ASSERT_EQUAL(length, (int64_t)strlen(text));
    CU_ASSERT_EQUAL(text[length - 1], '\n');
    CU_ASSERT(has_line("zklock_connected{session=\"ma\\\"in\\\\x0a\"} 1"));
    CU_ASSERT(has_line("zklock_path_grants_total{session=\"ma\\\"in\\\\x0a\",path=\"/say \\\"hi\\\"\\\\there\"} 1"));
    length = zkl_stats_write_prometheus(one, NULL, text, sizeof text);
    CU_ASSERT(has_line("zklock_connected 1"));
    CU_ASSERT(has_line("zklock_grants_total 1"));
    CU_ASSERT(has_line("zklock_wait_seconds_bucket{le=\"+Inf\"} 1"));
    CU_ASSERT(has_line("zklock_wait_seconds_count 1"));
    char small[32];
    CU_ASSERT_EQUAL(zkl_stats_write_prometheus(one, NULL, NULL, 0), length);
    CU_ASSERT_EQUAL(zkl_stats_write_prometheus(one, NULL, small, sizeof small), length);
    CU_ASSERT_STRING_EQUAL(small, "# HELP zklock_connected 1 while");
}

TESTS("stats")
