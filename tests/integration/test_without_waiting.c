/* Calls that nobody waits for, on one real server: what they bring, and what becomes of them when an answer is lost. */
#include <stdatomic.h>
#include <string.h>

#include <zklock/zookeeper.h>

#include "one_server.h"
#include "recorder.h"
#include "wait.h"

#define PENDING 1

/* The code of the last completion; PENDING: it has not come. */
struct outcome {
    atomic_int code, count;
};

static void on_done(int code, const zkl_error *err, void *payload)
{
    struct outcome *outcome = payload;
    (void)err;
    atomic_fetch_add(&outcome->count, 1);
    atomic_store(&outcome->code, code);
}

/* Of a call that was begun with this code. */
static int end_of(int begun, struct outcome *outcome)
{
    int64_t end = now_ms() + SOON;
    CU_ASSERT_EQUAL_FATAL(begun, ZKL_OK);
    while (atomic_load(&outcome->code) == PENDING && look_again(end)) {
    }
    CU_ASSERT_EQUAL(atomic_exchange(&outcome->count, 0), 1);
    return atomic_exchange(&outcome->code, PENDING);
}

/* --- operators ------------------------------------------------------------------------------------------------------- */

static void on_revoke(zkl_lock *lock, void *payload)
{
    (void)lock;
    atomic_fetch_add((atomic_int *)payload, 1);
}

static void check_queue(zkl_session *session, const char *path, struct proxy *proxy)
{
    struct outcome outcome = {PENDING, 0};
    atomic_int requests = 0;
    zkl_session *other = open_one();
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_queue *queue = NULL;
    options.revoke_fn = on_revoke;
    options.payload = &requests;
    zkl_lock *lock = contest_lock(other, path, &options);
    CU_ASSERT_EQUAL_FATAL(zkl_lock_acquire(lock, SOON, NULL, NULL), ZKL_OK);
    int code = zkl_queue_list_async(&queue, session, path, SOON, on_done, &outcome, NULL);
    CU_ASSERT_EQUAL(end_of(code, &outcome), ZKL_OK);
    CU_ASSERT_FATAL(queue && queue->count == 1);
    CU_ASSERT_EQUAL(queue->entries[0].token, zkl_lock_token(lock));
    code = zkl_queue_revoke_async(session, path, NULL, SOON, on_done, &outcome, NULL);
    CU_ASSERT_EQUAL(end_of(code, &outcome), ZKL_OK);
    int64_t end = now_ms() + SOON;
    while (atomic_load(&requests) == 0 && look_again(end)) {
    }
    CU_ASSERT_EQUAL(atomic_load(&requests), 1);
    if (proxy) {
        proxy_lose_next(proxy, PROXY_OP_DELETE);
    }
    code = zkl_queue_remove_async(session, path, queue->entries[0].name, queue->entries[0].token, SOON, on_done,
                                  &outcome, NULL);
    CU_ASSERT_EQUAL(end_of(code, &outcome), ZKL_OK);
    CU_ASSERT(queue_becomes(eye, path, 0));
    zkl_queue_free(queue);
    zkl_lock_free(lock);
    close_one(other);
}

static void test_queue(void)
{
    zkl_session *session = open_one();
    check_queue(session, "/later/queue", NULL);
    close_one(session);
}

static void test_queue_with_a_lost_answer(void)
{
    struct proxy *proxy;
    zkl_session *session = open_behind(&proxy);
    check_queue(session, "/later/lost", proxy);
    close_behind(session, proxy);
}

/* --- groups ---------------------------------------------------------------------------------------------------------- */

static size_t count_members(zkl_session *session, const char *path, const char *data)
{
    struct outcome outcome = {PENDING, 0};
    zkl_members *members = NULL;
    int code = zkl_group_list_async(&members, session, path, SOON, on_done, &outcome, NULL);
    CU_ASSERT_EQUAL_FATAL(end_of(code, &outcome), ZKL_OK);
    size_t count = members->count;
    for (size_t i = 0; i < count; i++) {
        CU_ASSERT_STRING_EQUAL(members->members[i].data, data);
    }
    zkl_members_free(members);
    return count;
}

/* proxy: of each request that changes something, the answer is lost. */
static void check_group(zkl_session *session, const char *path, struct proxy *proxy)
{
    struct outcome outcome = {PENDING, 0};
    zkl_session *other = open_one();
    zkl_group_options options = ZKL_GROUP_OPTIONS_INIT;
    zkl_group *group = NULL;
    options.data = "before";
    options.leave_timeout_ms = SOON;
    CU_ASSERT_EQUAL_FATAL(zkl_group_new(&group, session, path, "me", &options, NULL), ZKL_OK);
    if (proxy) {
        proxy_lose_next(proxy, PROXY_OP_CREATE);
    }
    CU_ASSERT_EQUAL(end_of(zkl_group_join_async(group, SOON, on_done, &outcome, NULL), &outcome), ZKL_OK);
    CU_ASSERT_EQUAL(count_members(other, path, "before"), 1);
    if (proxy) {
        proxy_lose_next(proxy, PROXY_OP_SET);
    }
    CU_ASSERT_EQUAL(end_of(zkl_group_update_async(group, "after", SOON, on_done, &outcome, NULL), &outcome), ZKL_OK);
    CU_ASSERT_EQUAL(count_members(other, path, "after"), 1);
    if (proxy) {
        proxy_lose_next(proxy, PROXY_OP_DELETE);
    }
    CU_ASSERT_EQUAL(end_of(zkl_group_leave_async(group, on_done, &outcome, NULL), &outcome), ZKL_OK);
    CU_ASSERT_EQUAL(count_members(other, path, ""), 0);
    zkl_group_free(group);
    close_one(other);
}

static void test_group(void)
{
    zkl_session *session = open_one();
    check_group(session, "/later/group", NULL);
    close_one(session);
}

static void test_group_with_lost_answers(void)
{
    struct proxy *proxy;
    zkl_session *session = open_behind(&proxy);
    check_group(session, "/later/lost-group", proxy);
    close_behind(session, proxy);
}

/* --- partitions ------------------------------------------------------------------------------------------------------ */

static void on_assigned(zkl_partition *partition, const char *piece, int64_t token, void *payload)
{
    (void)partition, (void)piece, (void)token;
    atomic_fetch_add((atomic_int *)payload, 1);
}

static void on_revoked(zkl_partition *partition, const char *piece, bool lost, void *payload)
{
    (void)partition, (void)piece, (void)lost;
    atomic_fetch_sub((atomic_int *)payload, 1);
}

static zkl_partition *start_partition(zkl_session *session, atomic_int *owned)
{
    static const char *const pieces[] = {"a", "b", "c", "d"};
    zkl_partition_options options = ZKL_PARTITION_OPTIONS_INIT;
    zkl_partition *partition = NULL;
    options.assigned_fn = on_assigned;
    options.revoked_fn = on_revoked;
    options.payload = owned;
    CU_ASSERT_EQUAL_FATAL(zkl_partition_new(&partition, session, "/later/work", pieces, 4, &options, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_partition_start(partition, NULL), ZKL_OK);
    return partition;
}

static bool becomes(atomic_int *owned, int count)
{
    int64_t end = now_ms() + SOON;
    while (atomic_load(owned) != count && look_again(end)) {
    }
    return atomic_load(owned) == count;
}

/* Done when the last piece is revoked, and then the other one takes them over. */
static void test_partition(void)
{
    struct outcome outcome = {PENDING, 0};
    atomic_int mine = 0, others = 0;
    zkl_session *session = open_one(), *other = open_one();
    zkl_partition *first = start_partition(session, &mine), *second = start_partition(other, &others);
    CU_ASSERT(becomes(&mine, 2) && becomes(&others, 2));
    CU_ASSERT_EQUAL(end_of(zkl_partition_stop_async(first, on_done, &outcome, NULL), &outcome), ZKL_OK);
    CU_ASSERT_EQUAL(atomic_load(&mine), 0);
    CU_ASSERT(becomes(&others, 4));
    CU_ASSERT_EQUAL(end_of(zkl_partition_stop_async(second, on_done, &outcome, NULL), &outcome), ZKL_OK);
    CU_ASSERT_EQUAL(atomic_load(&others), 0);
    zkl_partition_free(first);
    zkl_partition_free(second);
    close_one(session);
    close_one(other);
}

/* --- pieces that are answered later ------------------------------------------------------------------------------------ */

#define PIECES 4

static const char *const names[PIECES] = {"a", "b", "c", "d"};

/* A member that notes what it is told, and answers when the test says so. */
struct later {
    zkl_partition *partition;
    atomic_int runs[PIECES], ends[PIECES], lost[PIECES];
};

static void later_assigned(zkl_partition *partition, const char *piece, int64_t token, void *payload)
{
    (void)partition, (void)token;
    atomic_fetch_add(&((struct later *)payload)->runs[piece[0] - 'a'], 1);
}

static void later_revoked(zkl_partition *partition, const char *piece, bool lost, void *payload)
{
    struct later *later = payload;
    (void)partition, (void)lost;
    atomic_fetch_sub(&later->runs[piece[0] - 'a'], 1);
    atomic_fetch_add(&later->ends[piece[0] - 'a'], 1);
}

static void later_state(zkl_partition *partition, const char *piece, zkl_state state, void *payload)
{
    (void)partition;
    atomic_fetch_add(&((struct later *)payload)->lost[piece[0] - 'a'], state == ZKL_STATE_LOST);
}

static int sum(atomic_int *counts)
{
    int sum = 0;
    for (int i = 0; i < PIECES; i++) {
        sum += atomic_load(&counts[i]);
    }
    return sum;
}

static bool comes_to(atomic_int *counts, int count)
{
    int64_t end = now_ms() + SOON;
    while (sum(counts) != count && look_again(end)) {
    }
    return sum(counts) == count;
}

static void start_later(struct later *later, zkl_session *session)
{
    zkl_partition_options options = ZKL_PARTITION_OPTIONS_INIT;
    options.assigned_fn = later_assigned;
    options.revoked_fn = later_revoked;
    options.state_fn = later_state;
    options.done_later = true;
    options.payload = later;
    CU_ASSERT_EQUAL_FATAL(
        zkl_partition_new(&later->partition, session, "/later/answers", names, PIECES, &options, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_partition_start(later->partition, NULL), ZKL_OK);
}

static int commit_under(struct later *later, int piece, zkl_op_kind kind)
{
    const zkl_op op = {.kind = kind, .path = "/later/written", .version = ZKL_ANY_VERSION};
    return zkl_partition_commit(later->partition, names[piece], &op, 1, SOON, NULL, NULL);
}

/* Each piece is passed on by its own answer; until then its owner writes under its lock. */
static void test_answered_one_by_one(void)
{
    struct later first = {NULL}, second = {NULL};
    zkl_session *session = open_one(), *other = open_one();
    start_later(&first, session);
    CU_ASSERT_FATAL(comes_to(first.runs, PIECES));
    start_later(&second, other);
    CU_ASSERT_FATAL(comes_to(first.ends, PIECES / 2));
    for (int i = 0, passed_on = 0; i < PIECES; i++) {
        if (first.ends[i]) {
            CU_ASSERT_EQUAL(commit_under(&first, i, ZKL_OP_CREATE), ZKL_OK);
            CU_ASSERT_EQUAL(commit_under(&first, i, ZKL_OP_DELETE), ZKL_OK);
            CU_ASSERT_EQUAL(commit_under(&second, i, ZKL_OP_CREATE), ZKL_ENOTHELD);
            CU_ASSERT_EQUAL(sum(second.runs), passed_on);
            CU_ASSERT_EQUAL(zkl_partition_done(first.partition, names[i], NULL), ZKL_OK);
            CU_ASSERT(comes_to(second.runs, ++passed_on));
            CU_ASSERT_EQUAL(commit_under(&first, i, ZKL_OP_CREATE), ZKL_ENOTHELD);
        }
    }
    zkl_partition_free(first.partition);
    CU_ASSERT(comes_to(second.runs, PIECES));
    zkl_partition_free(second.partition);
    close_one(session);
    close_one(other);
}

static void on_lost(zkl_lock *lock, zkl_state state, void *payload)
{
    (void)lock;
    atomic_fetch_add((atomic_int *)payload, state == ZKL_STATE_LOST);
}

/* All pieces are being ended, and nobody answers: the server falls silent, and a lock of the same session is told of its loss
 * while all of them are owed, and so are they. */
static void test_pieces_delay_no_loss(void)
{
    struct proxy *proxy;
    struct later later = {NULL};
    atomic_int lost = 0;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_session *session = open_behind(&proxy);
    options.state_fn = on_lost;
    options.payload = &lost;
    zkl_lock *lock = contest_lock(session, "/later/beside", &options);
    CU_ASSERT_EQUAL_FATAL(zkl_lock_acquire(lock, SOON, NULL, NULL), ZKL_OK);
    start_later(&later, session);
    CU_ASSERT_FATAL(comes_to(later.runs, PIECES));
    CU_ASSERT_EQUAL(zkl_partition_stop(later.partition, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(sum(later.ends), PIECES);
    proxy_hold(proxy, PROXY_TO_CLIENT, true);
    CU_ASSERT(becomes(&lost, 1));
    CU_ASSERT(comes_to(later.lost, PIECES));
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);
    proxy_hold(proxy, PROXY_TO_CLIENT, false);
    zkl_lock_free(lock);
    zkl_partition_free(later.partition); /* answers */
    close_behind(session, proxy);
}

TESTS_ON_ONE_SERVER("without waiting", T(test_queue), T(test_queue_with_a_lost_answer), T(test_group),
                    T(test_group_with_lost_answers), T(test_partition), T(test_answered_one_by_one),
                    T(test_pieces_delay_no_loss))
