/* A partition whose user answers later (done_later): what is under way stays ours until it is answered, and delays nothing
 * else; and what its user learns of a piece's lease. */
#include "lock_kit.h"

#define PATH "/later"
#define PIECES 8
#define MEMBERS 2

static const char *const names[PIECES] = {"a", "b", "c", "d", "e", "f", "g", "h"};

/* Guarded by mutex. */
static struct work {
    bool runs, ends; /* assigned; revoked, and to be answered */
    bool lost;
    int state; /* the last one told; -1: none */
} works[MEMBERS][PIECES];
static struct {
    int assigned, revoked;
} seen[MEMBERS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static zkl_session *sessions[MEMBERS];
static zkl_partition *members[MEMBERS];

static int index_of(const char *name)
{
    return name[0] - 'a';
}

static void on_assigned(zkl_partition *partition, const char *name, int64_t token, void *payload)
{
    int me = *(int *)payload;
    pthread_mutex_lock(&mutex);
    works[me][index_of(name)] = (struct work){.runs = true, .state = -1};
    seen[me].assigned++;
    pthread_mutex_unlock(&mutex);
}

static void on_revoked(zkl_partition *partition, const char *name, bool lost, void *payload)
{
    int me = *(int *)payload;
    struct work *work = &works[me][index_of(name)];
    pthread_mutex_lock(&mutex);
    work->runs = false;
    work->ends = true;
    work->lost = lost;
    seen[me].revoked++;
    pthread_mutex_unlock(&mutex);
}

static void on_state(zkl_partition *partition, const char *name, zkl_state state, void *payload)
{
    pthread_mutex_lock(&mutex);
    works[*(int *)payload][index_of(name)].state = (int)state;
    pthread_mutex_unlock(&mutex);
}

static struct work look_at(int member, size_t index)
{
    pthread_mutex_lock(&mutex);
    struct work work = works[member][index];
    pthread_mutex_unlock(&mutex);
    return work;
}

static int how_many(int member, bool ends)
{
    int count = 0;
    EACH_ROW (i, names) {
        struct work work = look_at(member, i);
        count += ends ? work.ends : work.runs;
    }
    return count;
}

#define await_runs(member, count) ASSERT_EVENTUALLY(how_many(member, false) == (count))
#define await_ends(member, count) ASSERT_EVENTUALLY(how_many(member, true) == (count))

static int told(int member, zkl_state state)
{
    int count = 0;
    EACH_ROW (i, names) {
        count += look_at(member, i).state == (int)state;
    }
    return count;
}

/* What owes nothing any more stays as it is. Returns how many it answered. */
static int answer(int member, int most)
{
    int count = 0;
    for (int i = 0; i < PIECES && count < most; i++) {
        if (look_at(member, i).ends) {
            pthread_mutex_lock(&mutex);
            works[member][i].ends = false;
            pthread_mutex_unlock(&mutex);
            ASSERT_OK(zkl_partition_done(members[member], names[i], NULL));
            count++;
        }
    }
    return count;
}

static void join_with(int member, const zkl_session_options *session, int64_t margin_ms)
{
    static int numbers[MEMBERS];
    const zkl_partition_options options = {.size = sizeof options,
                                           .margin_ms = margin_ms,
                                           .assigned_fn = on_assigned,
                                           .revoked_fn = on_revoked,
                                           .state_fn = on_state,
                                           .done_later = true,
                                           .payload = &numbers[member]};
    numbers[member] = member;
    sessions[member] = kit_open(session);
    ASSERT_OK_FATAL(zkl_partition_new(&members[member], sessions[member], PATH, names, PIECES, &options, NULL));
    ASSERT_OK_FATAL(zkl_partition_start(members[member], NULL));
}

/* The first member, alone; timeout_ms: of its session, 0: the default. */
static void begin(int64_t timeout_ms, int64_t margin_ms)
{
    zkl_session_options options = kit_short();
    options.session_timeout_ms = timeout_ms;
    memset(works, 0, sizeof works);
    memset(seen, 0, sizeof seen);
    join_with(0, timeout_ms ? &options : NULL, margin_ms);
    await_runs(0, PIECES);
}

/* As kit_short's, long enough for a machine that stands still, short enough to see its lease end. */
#define ENDS_SOON 8000

/* So many are owed, and no more. */
static void answer_all(int count)
{
    CU_ASSERT_EQUAL(answer(0, PIECES), count);
}

static void leave(int member)
{
    zkl_partition_stop(members[member], NULL);
    answer(member, PIECES); /* the free would, too, and unheard */
    zkl_partition_free(members[member]);
    kit_close(sessions[member]);
    CU_ASSERT_EQUAL(seen[member].assigned, seen[member].revoked);
}

/* --- passed on by the answer ------------------------------------------------------------------------------------------ */

static void check_still_ours(size_t index)
{
    const char *name = names[index];
    const zkl_op set = {.kind = ZKL_OP_CREATE, .path = PATH "/written", .version = ZKL_ANY_VERSION};
    const zkl_op unset = {.kind = ZKL_OP_DELETE, .path = PATH "/written", .version = ZKL_ANY_VERSION};
    CU_ASSERT_FALSE(zkl_partition_owns(members[0], name));
    CU_ASSERT(zkl_partition_remaining_ms(members[0], name) > 0);
    ASSERT_OK(zkl_partition_commit(members[0], name, &set, 1, 5000, NULL, NULL));
    ASSERT_OK(zkl_partition_commit(members[0], name, &unset, 1, 5000, NULL, NULL));
    CU_ASSERT_EQUAL(zkl_partition_commit(members[1], name, &set, 1, 5000, NULL, NULL), ZKL_ENOTHELD);
}

TEST(test_passed_on_by_the_answer)
{
    begin(0, 0);
    join_with(1, NULL, 0);
    await_ends(0, PIECES / 2);
    EACH_ROW (i, names) {
        if (look_at(0, i).ends) {
            check_still_ours(i);
        }
    }
    CU_ASSERT_EQUAL(zkl_partition_owned(members[0], NULL, 0), PIECES / 2);
    CU_ASSERT_EQUAL(how_many(1, false), 0);
    CU_ASSERT_EQUAL(answer(0, 1), 1);
    await_runs(1, 1); /* the others delay it not */
    CU_ASSERT_EQUAL(how_many(0, true), PIECES / 2 - 1);
    answer_all(PIECES / 2 - 1);
    await_runs(1, PIECES / 2);
    EACH_ROW (i, names) {
        CU_ASSERT_EQUAL(zkl_partition_done(members[0], names[i], NULL), ZKL_ENOTHELD); /* owed no more, or never */
    }
    CU_ASSERT_EQUAL(zkl_partition_done(members[0], "nobody's", NULL), ZKL_EINVAL);
    leave(0);
    leave(1);
}

/* --- a lease that becomes short, and ends --------------------------------------------------------------------------------- */

/* Revoked while the lease still runs; again assigned, with other tokens, when it is renewed. */
TEST(test_margin)
{
    begin(ENDS_SOON, 3500);
    kit_suspend(sessions[0]);
    await_ends(0, PIECES);
    EACH_ROW (i, names) {
        CU_ASSERT_FALSE(look_at(0, i).lost);
    }
    CU_ASSERT_EQUAL(answer(0, 3), 3); /* in time */
    ASSERT_EVENTUALLY(told(0, ZKL_STATE_LOST) == PIECES - 3);
    EACH_ROW (i, names) {
        CU_ASSERT_EQUAL(zkl_partition_remaining_ms(members[0], names[i]), 0);
    }
    kit_resume(sessions[0]);
    await_runs(0, 3);
    answer_all(PIECES - 3);
    await_runs(0, PIECES);
    leave(0);
}

/* A short break: jeopardy, and held again. Nothing is revoked. */
TEST(test_jeopardy_and_back)
{
    begin(ENDS_SOON, 0);
    kit_suspend(sessions[0]);
    ASSERT_EVENTUALLY(told(0, ZKL_STATE_JEOPARDY) == PIECES);
    kit_resume(sessions[0]);
    ASSERT_EVENTUALLY(told(0, ZKL_STATE_HELD) == PIECES);
    CU_ASSERT_EQUAL(seen[0].revoked, 0);
    kit_suspend(sessions[0]);
    await_ends(0, PIECES);
    CU_ASSERT(look_at(0, 0).lost);
    CU_ASSERT_EQUAL(told(0, ZKL_STATE_LOST), 0); /* revoked has said so */
    kit_resume(sessions[0]);
    answer_all(PIECES);
    await_runs(0, PIECES);
    leave(0);
}

/* Eight pieces are being ended, and nobody answers: a lock of the same session is told of its loss all the same, and before
 * any piece was answered. */
TEST(test_no_stall)
{
    struct mailbox box = MAILBOX_INIT;
    begin(ENDS_SOON / 2, 0);
    zkl_lock *lock = kit_hold(sessions[0], "/beside", STATES_TO(&box));
    ASSERT_OK(zkl_partition_stop(members[0], NULL));
    CU_ASSERT_EQUAL(how_many(0, true), PIECES);
    kit_suspend(sessions[0]);
    ASSERT_EVENTUALLY(mailbox_last(&box) == ZKL_STATE_LOST);
    CU_ASSERT_EQUAL(how_many(0, true), PIECES);
    kit_resume(sessions[0]);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);
    answer_all(PIECES);
    kit_free(lock);
    leave(0);
}

/* --- cap, stop, free, close ----------------------------------------------------------------------------------------------- */

static void on_stopped(int code, const zkl_error *err, void *payload)
{
    mailbox_put(payload, (struct letter){.code = code, .granted = how_many(0, true) > 0});
}

TEST(test_ends_of_a_partition)
{
    struct mailbox box = MAILBOX_INIT;
    begin(0, 0);
    ASSERT_OK(zkl_partition_stop_async(members[0], on_stopped, &box, NULL));
    await_ends(0, PIECES);
    CU_ASSERT_EQUAL(kit_queue(sessions[0], PATH "/pieces/a"), 1);
    CU_ASSERT_EQUAL(answer(0, PIECES - 1), PIECES - 1);
    kit_await_queue(sessions[0], PATH "/pieces/a", 0);
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    answer_all(1);
    ASSERT_OK_FATAL(mailbox_code(&box, 1));
    CU_ASSERT_FALSE(box.letters[0].granted);
    ASSERT_OK(zkl_partition_start(members[0], NULL));
    await_runs(0, PIECES);
    ASSERT_OK(zkl_partition_stop(members[0], NULL)); /* returns, and eight are owed */
    CU_ASSERT_EQUAL(how_many(0, true), PIECES);
    ASSERT_OK(zkl_partition_stop_async(members[0], on_stopped, &box, NULL));
    zkl_partition_free(members[0]); /* answers */
    CU_ASSERT_EQUAL_FATAL(mailbox_count(&box), 2);
    ASSERT_OK(box.letters[1].code);
    kit_await_queue(sessions[0], PATH "/pieces/h", 0);
    kit_close(sessions[0]);
}

/* --- answered from inside, and by a thread; and with the option missing ---------------------------------------------------- */

static atomic_int answered, bad_answers;

static void answers_at_once(zkl_partition *partition, const char *name, bool lost, void *payload)
{
    bad_answers += zkl_partition_done(partition, name, NULL) != ZKL_OK;
    bad_answers += zkl_partition_done(partition, name, NULL) != ZKL_ENOTHELD;
    bad_answers += zkl_partition_remaining_ms(partition, name) > 0;
    answered++;
}

static void needs_no_answer(zkl_partition *partition, const char *name, bool lost, void *payload)
{
    bad_answers += zkl_partition_done(partition, name, NULL) != ZKL_ENOTHELD;
    bad_answers += zkl_partition_remaining_ms(partition, name) == 0; /* until this has returned */
    answered++;
}

TEST_WITH_SESSIONS(test_answered_from_inside)
{
    for (int later = 0; later < 2; later++) {
        const zkl_partition_options options = {.size = sizeof options,
                                               .assigned_fn = ignore_assigned,
                                               .revoked_fn = later ? answers_at_once : needs_no_answer,
                                               .done_later = later};
        zkl_partition *partition = NULL;
        answered = bad_answers = 0;
        ASSERT_OK_FATAL(zkl_partition_new(&partition, one, PATH, names, PIECES, &options, NULL));
        for (int round = 1; round <= 3; round++) {
            ASSERT_OK(zkl_partition_start(partition, NULL));
            ASSERT_EVENTUALLY(zkl_partition_owned(partition, NULL, 0) == PIECES);
            ASSERT_OK(zkl_partition_stop(partition, NULL));
            CU_ASSERT_EQUAL(answered, round * PIECES);
        }
        CU_ASSERT_EQUAL(bad_answers, 0);
        zkl_partition_free(partition);
    }
}

TESTS("partition, answered later")
