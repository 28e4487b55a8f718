/* Partitions, on the in-process store: what zklock/partition.h promises. */
#include "lock_kit.h"

#define PATH "/work"

static const char *const topics[] = {"topic-0", "topic-1", "topic-2", "topic-3", "topic-4",
                                     "topic-5", "topic-6", "topic-7", "topic-8", "topic-9"};

/* Whose each piece is at a time: sim, invariants `exclusion` and `token`. */
static struct worker {
    zkl_session *session;
    zkl_partition *partition;
    atomic_size_t assigned, revoked, lost; /* how often */
} workers[4];

static void on_assigned(zkl_partition *partition, const char *piece, int64_t token, void *payload)
{
    struct worker *worker = payload;
    CU_ASSERT(token > 0);
    worker->assigned++;
}

static void on_revoked(zkl_partition *partition, const char *piece, bool lost, void *payload)
{
    struct worker *worker = payload;
    worker->lost += lost;
    worker->revoked++;
}

#define start(partition) ASSERT_OK_FATAL(zkl_partition_start(partition, NULL))
#define stop_async(partition, box) ASSERT_OK(zkl_partition_stop_async(partition, on_stopped, box, NULL))

static void hire(size_t number, size_t count, size_t cap, const zkl_session_options *options)
{
    struct worker *worker = &workers[number];
    const zkl_partition_options o = {
        .size = sizeof o, .cap = cap, .assigned_fn = on_assigned, .revoked_fn = on_revoked, .payload = worker};
    worker->session = kit_open(options);
    worker->assigned = worker->revoked = worker->lost = 0;
    ASSERT_OK_FATAL(zkl_partition_new(&worker->partition, worker->session, PATH, topics, count, &o, NULL));
    start(worker->partition);
}

static void fire(size_t number)
{
    zkl_partition_free(workers[number].partition);
    kit_close(workers[number].session);
    CU_ASSERT_EQUAL(workers[number].assigned, workers[number].revoked);
}

static size_t owned_by(size_t number)
{
    return zkl_partition_owned(workers[number].partition, NULL, 0);
}

#define await_owned(number, count) ASSERT_EVENTUALLY(owned_by(number) == (count))

/* Worker 0 has so many, all of them. */
static void hire_alone(size_t count)
{
    hire(0, count, 0, NULL);
    await_owned(0, count);
}

/* Do workers first to last own all, and evenly? */
static bool balanced(size_t first, size_t last, size_t count)
{
    size_t sum = 0, members = last - first + 1;
    for (size_t i = first; i <= last; i++) {
        size_t owned = owned_by(i);
        if (owned != count / members && owned != count / members + 1) {
            return false;
        }
        sum += owned;
    }
    return sum == count;
}

/* --- one ----------------------------------------------------------------------------------------------------------- */

TEST(test_alone)
{
    const char *names[8];
    hire(0, 6, 4, NULL);
    zkl_partition *partition = workers[0].partition;
    await_owned(0, 4); /* two wait for somebody else */
    start(partition);
    CU_ASSERT_EQUAL(zkl_partition_owned(partition, names, 3), 4);
    for (int i = 0; i < 3; i++) {
        CU_ASSERT(zkl_partition_owns(partition, names[i]));
    }
    CU_ASSERT_FALSE(zkl_partition_owns(partition, "topic-7"));
    CU_ASSERT_EQUAL(kit_queue(workers[0].session, PATH "/members"), 1);
    ASSERT_OK(zkl_partition_stop(partition, NULL));
    CU_ASSERT_EQUAL(workers[0].revoked, 4);
    CU_ASSERT_EQUAL(workers[0].lost, 0);
    CU_ASSERT_EQUAL(owned_by(0), 0);
    kit_await_queue(workers[0].session, PATH "/members", 0);
    ASSERT_OK(zkl_partition_stop(partition, NULL));
    start(partition);
    await_owned(0, 4);
    fire(0);
}

/* --- many ---------------------------------------------------------------------------------------------------------- */

TEST(test_join_and_leave)
{
    EACH_ROW (i, workers) {
        hire(i, 10, 0, NULL);
        ASSERT_EVENTUALLY(balanced(0, i, 10));
    }
    for (int i = 0; i < 3; i++) {
        fire(i);
        ASSERT_EVENTUALLY(balanced(i + 1, 3, 10));
    }
    CU_ASSERT_EQUAL(workers[3].lost, 0);
    fire(3);
}

/* --- trouble ------------------------------------------------------------------------------------------------------- */

/* The servers are silent: at the end of the lease, not later, everything is revoked. Afterwards it joins again by itself. */
TEST(test_the_end_of_the_lease)
{
    const zkl_session_options options = kit_ends_soon();
    hire(0, 10, 0, &options);
    hire(1, 10, 0, NULL); /* whose lease does not end meanwhile */
    ASSERT_EVENTUALLY(balanced(0, 1, 10));
    int64_t id = zkl_session_id(workers[0].session);
    ASSERT_OK(zkl__memory_suspend(id));
    CU_ASSERT_EQUAL(owned_by(0), 5);
    await_owned(0, 0);
    ASSERT_EVENTUALLY(workers[0].lost == 5);
    CU_ASSERT_EQUAL(owned_by(1), 5);
    ASSERT_OK(zkl__memory_expire(id));
    await_owned(1, 10);
    ASSERT_OK(zkl__memory_resume(id));
    ASSERT_EVENTUALLY(balanced(0, 1, 10));
    fire(0);
    fire(1);
}

/* A raised stop token ends waits, and no partition: it joins again as if there were none. */
TEST(test_raised_stop_token)
{
    zkl_stop token = {.raised = 0};
    hire(0, 4, 0, SESSION_OPTIONS(.stop = &token));
    await_owned(0, 4);
    zkl_stop_raise(&token);
    kit_expire(workers[0].session);
    ASSERT_EVENTUALLY(workers[0].assigned == 8);
    fire(0);
}

/* What lives with no session works on nothing, whatever its name. */
TEST(test_strays_are_no_members)
{
    char name[64];
    hire_alone(10);
    for (int i = 0; i < 9; i++) {
        snprintf(name, sizeof name, "_c_0000000%d-1111-4222-8333-444444444444-lock-000000010%d", i, i);
        kit_must_write(ZKL__OP_CREATE, PATH "/members", name, NULL);
    }
    hire(1, 10, 0, NULL); /* whoever saw them has seen the strays, too */
    ASSERT_EVENTUALLY(balanced(0, 1, 10));
    CU_ASSERT_EQUAL(workers[0].revoked, 5);
    fire(1);
    await_owned(0, 10);
    fire(0);
}

/* Who wants the lock at a partition's path is told so, while a member lives. */
TEST_WITH_SESSIONS(test_a_partition_is_no_lock)
{
    zkl_error err;
    zkl_lock *lock = kit_lock(one, PATH, NULL);
    hire_alone(2);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, &err), ZKL_ECONFLICT);
    ASSERT_SAYS(err, "in use as a partition");
    CU_ASSERT_EQUAL(owned_by(0), 2);
    fire(0);
    kit_acquire(lock);
    kit_release(lock);
}

static const char *const by_hand[] = {PATH "/pieces/topic-0", PATH "/pieces/topic-1"};

/* For how many of these does the worker queue? */
static size_t waits_for(int number)
{
    zkl_session *session = workers[number].session;
    size_t count = 0;
    EACH_ROW (i, by_hand) {
        zkl_queue *queue;
        ASSERT_OK_FATAL(zkl_queue_list(&queue, session, by_hand[i], ZKL_WAIT_FOREVER, NULL));
        for (size_t at = 0; at < queue->count; at++) {
            count += queue->entries[at].session_id == zkl_session_id(session);
        }
        zkl_queue_free(queue);
    }
    return count;
}

/* Somebody else holds two pieces by hand. A member queues for those that it should have, until another one should. They are
 * assigned when they are let go. */
TEST_WITH_SESSIONS(test_pieces_that_are_held)
{
    zkl_lock *locks[] = {kit_hold(one, by_hand[0], NULL), kit_hold(one, by_hand[1], NULL)};
    hire(0, 2, 0, NULL);
    ASSERT_EVENTUALLY(waits_for(0) == 2);
    hire(1, 2, 0, NULL);
    ASSERT_EVENTUALLY(waits_for(0) == 1 && waits_for(1) == 1);
    EACH_ROW (i, locks) {
        kit_release(locks[i]);
    }
    ASSERT_EVENTUALLY(balanced(0, 1, 2));
    fire(0);
    fire(1);
}

TEST(test_close_without_stop)
{
    hire_alone(4);
    kit_close(workers[0].session);
    CU_ASSERT_EQUAL(workers[0].lost, 4);
    CU_ASSERT_EQUAL(owned_by(0), 0);
    ASSERT_OK(zkl_partition_stop(workers[0].partition, NULL));
    zkl_partition_free(workers[0].partition);
}

/* --- from inside --------------------------------------------------------------------------------------------------- */

static struct inside {
    zkl_session *session;
    size_t assigned;
    atomic_size_t revoked;
    bool frees, held;
    atomic_bool done;
} inside;

static struct mailbox inside_box = MAILBOX_INIT;

static void on_stopped_inside(int code, const zkl_error *err, void *payload)
{
    mailbox_put(&inside_box, (struct letter){.code = code, .granted = inside.revoked != inside.assigned});
}

static void inside_assigned(zkl_partition *partition, const char *piece, int64_t token, void *payload)
{
    inside.assigned++;
    inside.held = zkl_partition_owns(partition, piece);
    if (inside.assigned == 3) {
        if (inside.frees) {
            ASSERT_OK(
                zkl_partition_commit_async(partition, piece, NULL, 0, 20000, NULL, on_stopped_inside, NULL, NULL));
            zkl_partition_free(partition);
            CU_ASSERT_EQUAL(mailbox_count(&inside_box), 1); /* no callback starts after the free */
        } else {
            zkl_partition_stop(partition, NULL);
        }
        inside.done = true;
    }
}

static void inside_revoked(zkl_partition *partition, const char *piece, bool lost, void *payload)
{
    CU_ASSERT_FALSE(lost);
    CU_ASSERT_FALSE(zkl_partition_owns(partition, piece));
    CU_ASSERT(!inside.frees || zkl_partition_start(partition, NULL) == ZKL_ECANCELED);
    CU_ASSERT(!inside.frees || zkl_partition_stop_async(partition, on_stopped_inside, NULL, NULL) == ZKL_ECANCELED);
    inside.revoked++;
}

static zkl_partition *start_inside(zkl_partition_assigned_fn assigned_fn, bool frees)
{
    const zkl_partition_options o = {.size = sizeof o, .assigned_fn = assigned_fn, .revoked_fn = inside_revoked};
    zkl_partition *partition;
    inside = (struct inside){.session = kit_open(NULL), .frees = frees};
    ASSERT_OK_FATAL(zkl_partition_new(&partition, inside.session, PATH, topics, 8, &o, NULL));
    start(partition);
    return partition;
}

TEST(test_stop_and_free_from_a_callback)
{
    for (int frees = 0; frees < 2; frees++) {
        zkl_partition *partition = start_inside(inside_assigned, frees);
        ASSERT_EVENTUALLY(inside.done);
        /* the one that it was called from is told when its call has returned; after free it is not */
        ASSERT_EVENTUALLY(inside.revoked == (frees ? 2 : 3));
        kit_await_queue(inside.session, PATH "/members", 0);
        kit_await_queue(inside.session, PATH "/pieces/topic-0", 0);
        if (!frees) {
            zkl_partition_free(partition);
        }
        kit_close(inside.session);
        CU_ASSERT(inside.held);
        CU_ASSERT_EQUAL(inside.assigned, 3);
        CU_ASSERT_EQUAL(inside.revoked, frees ? 2 : 3);
    }
}

/* --- a stop that nobody waits for -------------------------------------------------------------------------------------- */

/* code; granted: something was owned yet. */
static void on_stopped(int code, const zkl_error *err, void *payload)
{
    mailbox_put(payload, (struct letter){.code = code, .granted = workers[0].assigned != workers[0].revoked});
}

static void expect_stop(struct mailbox *box, size_t nth, int code, bool owns)
{
    CU_ASSERT_EQUAL_FATAL(mailbox_code(box, nth), code);
    CU_ASSERT_EQUAL(box->letters[nth - 1].granted, owns);
}

TEST(test_stop_without_waiting)
{
    struct mailbox box = MAILBOX_INIT;
    hire(0, 8, 0, NULL);
    hire(1, 8, 0, NULL);
    zkl_partition *partition = workers[0].partition;
    ASSERT_EVENTUALLY(owned_by(0) == 4 && owned_by(1) == 4);
    stop_async(partition, &box);
    expect_stop(&box, 1, ZKL_OK, false);
    CU_ASSERT_EQUAL(workers[0].lost, 0);
    await_owned(1, 8);
    stop_async(partition, &box); /* it has stopped */
    expect_stop(&box, 2, ZKL_OK, false);
    start(partition);
    ASSERT_EVENTUALLY(owned_by(0) == 4 && owned_by(1) == 4);
    fire(0);
    fire(1);
    CU_ASSERT_EQUAL(mailbox_count(&box), 2);
}

#define DISPATCHED(condition) ASSERT_EVENTUALLY((zkl_session_dispatch(workers[0].session), condition))

/* Nobody calls back but dispatch, and what ends the partition. */
TEST(test_ways_a_stop_ends)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_session_options options = kit_dispatched();
    hire(0, 6, 0, &options);
    zkl_partition *partition = workers[0].partition;
    DISPATCHED(owned_by(0) == 6);
    stop_async(partition, &box);
    start(partition); /* before anything was revoked */
    DISPATCHED(mailbox_count(&box) == 1);
    expect_stop(&box, 1, ZKL_ECANCELED, true);
    hire(1, 6, 0, NULL); /* it still hears of others */
    DISPATCHED(owned_by(0) == 3 && owned_by(1) == 3);
    fire(1);
    stop_async(partition, &box);
    DISPATCHED(mailbox_count(&box) == 2);
    expect_stop(&box, 2, ZKL_OK, false);
    start(partition);
    DISPATCHED(owned_by(0) == 6);
    stop_async(partition, &box);
    zkl_partition_free(partition);
    CU_ASSERT_EQUAL(mailbox_count(&box), 3); /* before it returned */
    expect_stop(&box, 3, ZKL_OK, false);
    kit_close(workers[0].session);

    hire_alone(6);
    stop_async(workers[0].partition, &box);
    kit_close(workers[0].session);
    CU_ASSERT_EQUAL_FATAL(mailbox_count(&box), 4);
    CU_ASSERT(box.letters[3].code == ZKL_OK || box.letters[3].code == ZKL_ECLOSED);
    CU_ASSERT_EQUAL(workers[0].revoked, 6);
    zkl_partition_free(workers[0].partition);
    CU_ASSERT_EQUAL(mailbox_count(&box), 4);
}

/* From its own callback: the piece that this is about is revoked, too, before done. */
static void assigned_stops(zkl_partition *partition, const char *piece, int64_t token, void *payload)
{
    if (++inside.assigned == 3) {
        ASSERT_OK(zkl_partition_stop_async(partition, on_stopped_inside, NULL, NULL));
        ASSERT_OK(zkl_partition_stop(partition, NULL)); /* the others */
        CU_ASSERT_EQUAL(inside.revoked, 2);
    }
}

TEST(test_stop_async_from_a_callback)
{
    mailbox_clear(&inside_box);
    zkl_partition *partition = start_inside(assigned_stops, false);
    expect_stop(&inside_box, 1, ZKL_OK, false);
    zkl_partition_free(partition);
    kit_close(inside.session);
    CU_ASSERT_EQUAL(inside.assigned, 3);
    CU_ASSERT_EQUAL(inside.revoked, 3);
}

#define BOTH .assigned_fn = on_assigned, .revoked_fn = on_revoked

TEST_WITH_SESSIONS(test_bad_pieces)
{
    const struct {
        const char *pieces[3];
        size_t count;
        zkl_partition_options options;
        const char *words;
    } cases[] = {{{"a"}, 1, {.revoked_fn = on_revoked}, "assigned_fn"},
                 {{"a"}, 1, {.assigned_fn = on_assigned}, "revoked_fn"},
                 {{"a"}, 1, {BOTH, .margin_ms = -1}, "margin_ms"},
                 {{"a"}, 1, {BOTH, .margin_ms = zkl_session_least_lease_ms(one)}, "margin_ms"},
                 {{"a"}, 0, {BOTH}, ""},
                 {{"a", "b", "a"}, 3, {BOTH}, ""},
                 {{"a/b"}, 1, {BOTH}, ""},
                 {{""}, 1, {BOTH}, ""},
                 {{".."}, 1, {BOTH}, ""}};
    EACH_ROW (i, cases) {
        zkl_partition_options options = cases[i].options;
        zkl_partition *partition = NULL;
        zkl_error err;
        options.size = sizeof options;
        CU_ASSERT_EQUAL(zkl_partition_new(&partition, one, PATH, cases[i].pieces, cases[i].count, &options, &err),
                        ZKL_EINVAL);
        ASSERT_SAYS(err, cases[i].words);
        CU_ASSERT_PTR_NULL(partition);
    }
}

/* --- refused -------------------------------------------------------------------------------------------------------------- */

static struct {
    atomic_int refused, taken, strange;
    char path[64]; /* the last that was refused */
} heard;

static void on_log(const zkl_log_record *record, void *payload)
{
    if (strcmp(record->source, "partition") != 0) {
        return;
    }
    if (record->level == ZKL_LOG_WARN && strncmp(record->text, "refused: ", 9) == 0) {
        bool remedy = strstr(record->text, "Let this session read, create and delete there") != NULL;
        heard.strange += !remedy || strncmp(record->path, PATH "/", 6) != 0;
        snprintf(heard.path, sizeof heard.path, "%s", record->path);
        heard.refused++;
    } else {
        heard.taken += record->level == ZKL_LOG_INFO;
    }
}

static void add_failures(const char *path, const zkl_contender_stats *stats, void *payload)
{
    *(uint64_t *)payload += path && strncmp(path, PATH "/", strlen(PATH) + 1) == 0 ? stats->failures : 0;
}

static uint64_t failures(zkl_session *session)
{
    uint64_t count = 0;
    zkl_session_path_stats(session, add_failures, &count);
    return count;
}

/* Nobody may make anything at path, until it is removed: the user hears of it, and it is tried again, ever later. However often it is tried
 * in between, each place is said once. */
static void refuse_at(const char *path, int places)
{
    static const zkl_acl_entry read_only = {ZKL_PERM_READ, "world", "anyone"};
    static const zkl_acl acl = {.count = 1, .entries = &read_only};
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_session *keeper = kit_open(NULL);
    memset(&heard, 0, sizeof heard);
    options.log_fn = on_log;
    options.log_level = ZKL_LOG_INFO;
    kit_must_write(ZKL__OP_CREATE, PATH, NULL, NULL);
    kit_create(path, NULL, NULL, &acl);
    int64_t begin = now_ms();
    hire(0, 3, 0, &options);
    /* At 0, 100, 300, 700 and 1500 ms, and once or twice more when the membership is told: not all at once. */
    ASSERT_EVENTUALLY(failures(workers[0].session) >= 5 * (uint64_t)places);
    CU_ASSERT(now_ms() - begin >= 100);
    CU_ASSERT_EQUAL(heard.refused, places);
    CU_ASSERT_EQUAL(workers[0].assigned, 0);
    kit_must_write(ZKL__OP_DELETE, path, NULL, NULL);
    await_owned(0, 3);
    ASSERT_EVENTUALLY(heard.taken == places);
    CU_ASSERT_EQUAL(heard.refused, places);
    CU_ASSERT_EQUAL(heard.strange, 0);
    fire(0);
    kit_close(keeper);
}

TEST(test_refused)
{
    refuse_at(PATH "/members", 1);
    CU_ASSERT_STRING_EQUAL(heard.path, PATH "/members");
    refuse_at(PATH "/pieces", 3);
    CU_ASSERT_EQUAL(strncmp(heard.path, PATH "/pieces/", strlen(PATH "/pieces/")), 0);
}

TESTS("partition")
