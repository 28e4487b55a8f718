/* Functions that run under a grant: the flag that tells them to stop, a grant that is replaced meanwhile, an election's terms, and a close,
 * which waits for them. */
#include "lock_kit.h"

#include <poll.h>

#define QUEUE "/locks/test"

struct section {
    bool raised, readable;
    int64_t remaining_ms;
    int (*harm)(int64_t session_id); /* not NULL: what to do to session one, then wait for the flag */
    int runs;
};

static bool readable(const zkl_cancel *cancel, int timeout_ms)
{
    struct pollfd poller = {.fd = zkl_cancel_fd(cancel), .events = POLLIN};
    return poll(&poller, 1, timeout_ms) == 1;
}

static int run_section(const zkl_cancel *cancel, int64_t token, void *payload)
{
    struct section *section = payload;
    section->runs++;
    CU_ASSERT_FALSE(readable(cancel, 0));
    if (section->harm) {
        ASSERT_OK(section->harm(zkl_session_id(one)));
        section->readable = readable(cancel, 30000);
        section->raised = zkl_cancel_raised(cancel);
    }
    section->remaining_ms = zkl_cancel_remaining_ms(cancel);
    return 42;
}

/* What is so for a lock of every recipe: unit_handle. */
TEST_WITH_SESSIONS(test_with_lock)
{
    zkl_lock *lock = kit_lock(one, QUEUE, NULL), *other = kit_hold(two, QUEUE, NULL);
    struct section section = {0};
    int result = -1;
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 50, 0, run_section, &section, &result, NULL), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(result, -1);
    CU_ASSERT_EQUAL(section.runs, 0);
    kit_release(other);
    ASSERT_OK(zkl_with_lock(lock, 10000, 100, run_section, &section, NULL, NULL));
    CU_ASSERT(section.remaining_ms > 3000);
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
}

/* Also by a third of the least lease, which is unknown until the session is connected. */
TEST(test_with_lock_raises_the_flag_before_the_lease_ends)
{
    for (int64_t margin_ms = 0; margin_ms <= 5000; margin_ms += 5000) {
        struct mailbox opened = MAILBOX_INIT;
        const zkl_session_options *options = SESSION_OPTIONS(.tick_ms = 100, .leader_pause_ms = 20);
        ASSERT_OK_FATAL(zkl_session_open_async(&one, PLACE, options, on_ended, &opened, NULL));
        zkl_lock *lock = kit_lock(one, QUEUE, NULL);
        struct section section = {.harm = zkl__memory_suspend};
        ASSERT_OK(zkl_with_lock(lock, 10000, margin_ms, run_section, &section, NULL, NULL));
        CU_ASSERT(section.readable && section.raised);
        CU_ASSERT(section.remaining_ms > 0 && section.remaining_ms <= 5000); /* still protected: in time to end */
        kit_resume(one);
        kit_free(lock);
        kit_close(one);
    }
}

/* Much sooner than its lease ends, which is for a minute. */
TEST(test_with_lock_raises_the_flag_on_loss)
{
    kit_set_up(SESSION_OPTIONS(.session_timeout_ms = 60000));
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    struct section section = {.harm = zkl__memory_expire};
    int result = -1;
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 10000, 0, run_section, &section, &result, NULL), ZKL_ELOST);
    CU_ASSERT_EQUAL(result, 42);
    CU_ASSERT(section.readable && section.raised);
    CU_ASSERT_EQUAL(section.remaining_ms, 0);
    kit_tear_down();
}

/* --- the grant while the section runs: what is so for every recipe is in unit_handle --------------------------------- */

/* All grants of a lingering znode have one token: only the serial tells them apart. */
TEST_WITH_SESSIONS(test_with_lock_that_lingers_is_replaced)
{
    const zkl_lock_options *lingers = LOCK_OPTIONS(.linger_ms = 60000);
    struct handle_replaced replaced = {.lock = kit_hold(one, QUEUE, lingers), .rival = kit_lock(one, QUEUE, lingers)};
    kit_release(replaced.lock);
    CU_ASSERT_EQUAL(zkl_with_lock(replaced.lock, 10000, 0, handle_replace, &replaced, NULL, NULL), ZKL_ELOST);
    CU_ASSERT_EQUAL(replaced.second.token, replaced.first);
    CU_ASSERT_TRUE(zkl_lock_is_held(replaced.lock));
    kit_release(replaced.lock);
}

static int release_once(const zkl_cancel *cancel, int64_t token, void *payload)
{
    kit_release(payload);
    CU_ASSERT_FALSE(zkl_cancel_raised(cancel));
    return 0;
}

/* Of two acquires one is released in the section, the other by it: the hold covers it to its end. */
TEST_WITH_SESSIONS(test_with_a_recursive_lock_released_once)
{
    zkl_lock *lock = kit_hold(one, QUEUE, LOCK_OPTIONS(.recursive = true));
    ASSERT_OK(zkl_with_lock(lock, 10000, 0, release_once, lock, NULL, NULL));
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
}

static int downgrade(const zkl_cancel *cancel, int64_t token, void *payload)
{
    ASSERT_OK(zkl_write_lock_downgrade(payload, NULL));
    CU_ASSERT_EQUAL(zkl_lock_token(payload), token);
    CU_ASSERT_FALSE(zkl_cancel_raised(cancel));
    return 0;
}

/* The znode is another one then, but the grant is the same. */
TEST_WITH_SESSIONS(test_with_a_write_lock_that_is_downgraded)
{
    zkl_lock *lock = kit_make(ZKL_RECIPE_WRITE_LOCK, one, QUEUE, NULL);
    ASSERT_OK(zkl_with_lock(lock, 10000, 0, downgrade, lock, NULL, NULL));
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
}

/* --- terms --------------------------------------------------------------------------------------------------------------- */

static zkl_lock *candidate(zkl_session *session)
{
    return kit_make(ZKL_RECIPE_ELECTION, session, QUEUE, NULL);
}

struct term {
    atomic_int terms;
    int last;     /* the term that ends the run */
    int64_t harm; /* session to expire in the first term */
    bool waits;   /* until the flag is raised */
    bool raised, readable, led;
    zkl_lock *election;
    int64_t tokens[8];
};

static int lead(const zkl_cancel *cancel, int64_t token, void *payload)
{
    struct term *term = payload;
    int number = ++term->terms;
    term->tokens[number - 1] = token;
    term->led = zkl_lock_is_held(term->election);
    CU_ASSERT_FALSE(zkl_cancel_raised(cancel));
    CU_ASSERT(zkl_cancel_remaining_ms(cancel) > 0);
    if (term->harm && number == 1) {
        ASSERT_OK(zkl__memory_expire(term->harm));
    }
    if (term->waits || (term->harm && number == 1)) {
        term->readable = readable(cancel, 10000);
        term->raised = zkl_cancel_raised(cancel);
    }
    return number == term->last ? 42 : 0;
}

TEST_WITH_SESSIONS(test_run)
{
    zkl_lock *a = candidate(one);
    struct term term = {.last = 3, .election = a};
    int result = 0;
    ASSERT_OK(zkl_election_run(a, 0, lead, &term, &result, NULL));
    CU_ASSERT_EQUAL(result, 42);
    CU_ASSERT_EQUAL(term.terms, 3);
    CU_ASSERT(term.led);
    CU_ASSERT(term.tokens[0] < term.tokens[1] && term.tokens[1] < term.tokens[2]);
    CU_ASSERT_EQUAL(zkl_lock_state(a), ZKL_STATE_IDLE);
    CU_ASSERT_EQUAL(kit_queue(one, QUEUE), 0);
    /* lost in the first term: told, and stands again */
    struct term lost = {.last = 2, .election = a, .harm = zkl_session_id(one)};
    ASSERT_OK(zkl_election_run(a, 0, lead, &lost, &result, NULL));
    CU_ASSERT_EQUAL(lost.terms, 2);
    CU_ASSERT(lost.raised && lost.readable);
    CU_ASSERT_EQUAL(zkl_election_run(a, 100000, lead, &lost, &result, NULL), ZKL_EINVAL);
}

struct runner {
    pthread_t thread;
    struct term term;
    int code;
};

static void *run(void *arg)
{
    struct runner *runner = arg;
    runner->code = zkl_election_run(runner->term.election, 0, lead, &runner->term, NULL, NULL);
    return NULL;
}

TEST_WITH_SESSIONS(test_cancel_ends_a_run)
{
    struct runner leads = {.term = {.waits = true, .election = candidate(one)}};
    struct runner waits = {.term = {.waits = true, .election = candidate(two)}};
    kit_start_thread(&leads.thread, run, &leads);
    ASSERT_EVENTUALLY(leads.term.terms == 1);
    kit_start_thread(&waits.thread, run, &waits);
    kit_await_queue(one, QUEUE, 2);
    CU_ASSERT_EQUAL(zkl_election_run(waits.term.election, 0, lead, &waits.term, NULL, NULL), ZKL_EDEADLK);
    ASSERT_OK(zkl_lock_cancel(waits.term.election));
    pthread_join(waits.thread, NULL);
    CU_ASSERT_EQUAL(waits.code, ZKL_ECANCELED);
    CU_ASSERT_EQUAL(waits.term.terms, 0);
    ASSERT_OK(zkl_lock_cancel(leads.term.election));
    pthread_join(leads.thread, NULL);
    CU_ASSERT_EQUAL(leads.code, ZKL_ECANCELED);
    CU_ASSERT(leads.term.raised);
    CU_ASSERT_EQUAL(zkl_lock_cancel(leads.term.election), ZKL_ENOTWAITING); /* nothing is remembered */
    kit_acquire(leads.term.election);
}

/* --- close --------------------------------------------------------------------------------------------------------------- */

struct work {
    pthread_t thread;
    zkl_section_fn section;
    zkl_lock *lock, *other;
    zkl_group *group;
    atomic_bool runs, ended, go;
    int code, result, inner, joined;
};

static void *run_work(void *arg)
{
    struct work *work = arg;
    work->code = zkl_lock_recipe(work->lock) == ZKL_RECIPE_ELECTION
                     ? zkl_election_run(work->lock, 0, work->section, work, &work->result, NULL)
                     : zkl_with_lock(work->lock, ZKL_WAIT_FOREVER, 0, work->section, work, &work->result, NULL);
    return NULL;
}

/* Both sessions are open; runs with this lock of the first. */
static void start(struct work *work, zkl_lock *lock, zkl_section_fn section)
{
    work->lock = lock;
    work->section = section;
    kit_start_thread(&work->thread, run_work, work);
    ASSERT_EVENTUALLY(atomic_load(&work->runs));
}

/* Session one is closed by then. */
static int finish(struct work *work)
{
    ASSERT_OK(pthread_join(work->thread, NULL));
    kit_free(work->lock);
    kit_free(work->other);
    kit_close(two);
    return work->code;
}

/* Told by its flag, it still holds, and says when it has ended. */
static int end_when_told(const zkl_cancel *cancel, int64_t token, void *payload)
{
    struct work *work = payload;
    atomic_store(&work->runs, true);
    ASSERT_EVENTUALLY(zkl_cancel_raised(cancel) && atomic_load(&work->go));
    CU_ASSERT(zkl_cancel_remaining_ms(cancel) > 0);
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 1);
    atomic_store(&work->ended, true);
    return 7;
}

/* A cancel reaches it before it has begun to wait, too. */
TEST_WITH_SESSIONS(test_cancel_ends_a_section_that_begins)
{
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    kit_hold(two, QUEUE, NULL);
    for (int round = 0; round < 100; round++) {
        struct work work = {.lock = lock, .section = end_when_told};
        kit_start_thread(&work.thread, run_work, &work);
        while (zkl_lock_cancel(lock) != ZKL_OK) {
        }
        pthread_join(work.thread, NULL);
        CU_ASSERT_EQUAL(work.code, ZKL_ECANCELED);
    }
}

static int lead_until_told(const zkl_cancel *cancel, int64_t token, void *payload)
{
    end_when_told(cancel, token, payload);
    return 0; /* would stand again */
}

TEST(test_close_waits_for_a_term)
{
    struct work work = {.go = true};
    kit_set_up(NULL);
    start(&work, candidate(one), lead_until_told);
    ASSERT_OK(zkl_session_close(one, 10000));
    CU_ASSERT(atomic_load(&work.ended));
    CU_ASSERT_EQUAL(finish(&work), ZKL_ECLOSED);
}

/* A section that waits for another lock, and to be a group's member, for as long as it takes. */
static int acquire_inside(const zkl_cancel *cancel, int64_t token, void *payload)
{
    struct work *work = payload;
    atomic_store(&work->runs, true);
    work->inner = zkl_lock_acquire(work->other, ZKL_WAIT_FOREVER, NULL, NULL);
    work->joined = zkl_group_join(work->group, ZKL_WAIT_FOREVER, NULL);
    return 0;
}

TEST(test_a_section_that_waits)
{
    struct work work = {0};
    zkl_group *member;
    kit_set_up(NULL);
    zkl_lock *holder = kit_hold(two, QUEUE "/other", NULL);
    work.other = kit_lock(one, QUEUE "/other", NULL);
    ASSERT_OK(zkl_group_new(&member, two, QUEUE "/group", "id", NULL, NULL));
    ASSERT_OK(zkl_group_join(member, 10000, NULL));
    ASSERT_OK(zkl_group_new(&work.group, one, QUEUE "/group", "id", NULL, NULL));
    start(&work, kit_lock(one, QUEUE, NULL), acquire_inside);
    ASSERT_OK(zkl_session_close(one, 10000));
    zkl_group_free(work.group);
    zkl_group_free(member);
    kit_free(holder);
    ASSERT_OK(finish(&work));
    CU_ASSERT_EQUAL(work.inner, ZKL_ECLOSED);
    CU_ASSERT_EQUAL(work.joined, ZKL_ECLOSED);
}

static int close_inside(const zkl_cancel *cancel, int64_t token, void *payload)
{
    struct work *work = payload;
    work->inner = zkl_session_close(one, 1000);
    CU_ASSERT_FALSE(zkl_cancel_raised(cancel));
    atomic_store(&work->runs, true);
    return 0;
}

TEST_WITH_SESSIONS(test_close_in_a_section)
{
    struct work work = {0};
    start(&work, kit_lock(one, QUEUE, NULL), close_inside);
    ASSERT_OK(pthread_join(work.thread, NULL));
    ASSERT_OK(work.code);
    CU_ASSERT_EQUAL(work.inner, ZKL_EDEADLK);
}

static int end_when_it_likes(const zkl_cancel *cancel, int64_t token, void *payload)
{
    struct work *work = payload;
    atomic_store(&work->runs, true);
    ASSERT_EVENTUALLY(atomic_load(&work->go));
    CU_ASSERT(zkl_cancel_raised(cancel));
    CU_ASSERT_EQUAL(zkl_cancel_remaining_ms(cancel), 0);
    return 0;
}

/* Close is bounded all the same, and what runs on finds its memory. */
TEST(test_a_section_that_does_not_end)
{
    struct work work = {0};
    kit_set_up(NULL);
    start(&work, kit_lock(one, QUEUE, NULL), end_when_it_likes);
    zkl_session_close(one, 50);
    kit_await_queue(two, QUEUE, 0);
    atomic_store(&work.go, true);
    CU_ASSERT_EQUAL(finish(&work), ZKL_ECLOSED);
}

/* Nobody waits for the close; it waits for the section all the same. */
TEST(test_close_async_waits_for_a_section)
{
    struct work work = {0};
    struct mailbox box = MAILBOX_INIT;
    kit_set_up(NULL);
    start(&work, kit_lock(one, QUEUE, NULL), end_when_told);
    ASSERT_OK(zkl_session_close_async(one, 10000, on_ended, &box, NULL));
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    atomic_store(&work.go, true);
    ASSERT_OK(mailbox_code(&box, 1));
    CU_ASSERT(atomic_load(&work.ended));
    ASSERT_OK(finish(&work));
    CU_ASSERT_EQUAL(work.result, 7);
}

TESTS("sections")
