/* Close, with functions of the user's that run under a grant: they are told first, and waited for. */
#include "lock_kit.h"

#include <stdatomic.h>

#define QUEUE "/sections"

struct work {
    pthread_t thread;
    zkl_section_fn section;
    zkl_lock *lock, *other;
    zkl_lock *election;
    atomic_bool runs, ended, go;
    int code, result, inner;
};

static void *run_work(void *arg)
{
    struct work *work = arg;
    work->code = work->election
                     ? zkl_election_run(work->election, 0, work->section, work, &work->result, NULL)
                     : zkl_with_lock(work->lock, ZKL_WAIT_FOREVER, 0, work->section, work, &work->result, NULL);
    return NULL;
}

static void start(struct work *work, zkl_section_fn section)
{
    work->section = section;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&work->thread, NULL, run_work, work), 0);
    CU_ASSERT(EVENTUALLY(atomic_load(&work->runs)));
}

static int finish(struct work *work)
{
    CU_ASSERT_EQUAL(pthread_join(work->thread, NULL), 0);
    return work->code;
}

/* Told by its flag, it still holds, and says when it has ended. */
static int end_when_told(const zkl_cancel *cancel, int64_t token, void *payload)
{
    struct work *work = payload;
    (void)token;
    atomic_store(&work->runs, true);
    CU_ASSERT(EVENTUALLY(zkl_cancel_raised(cancel)));
    CU_ASSERT(zkl_cancel_remaining_ms(cancel) > 0);
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 1);
    atomic_store(&work->ended, true);
    return 7;
}

static void test_close_waits_for_a_section(void)
{
    struct work work = {0};
    kit_set_up(NULL);
    work.lock = kit_lock(one, QUEUE, NULL);
    start(&work, end_when_told);
    CU_ASSERT_EQUAL(zkl_session_close(one, 10000), ZKL_OK);
    CU_ASSERT(atomic_load(&work.ended));
    CU_ASSERT_EQUAL(finish(&work), ZKL_OK);
    CU_ASSERT_EQUAL(work.result, 7);
    zkl_lock_free(work.lock);
    kit_close(two);
}

static int lead_until_told(const zkl_cancel *cancel, int64_t token, void *payload)
{
    end_when_told(cancel, token, payload);
    return 0; /* would stand again */
}

static void test_close_waits_for_a_term(void)
{
    struct work work = {0};
    kit_set_up(NULL);
    CU_ASSERT_EQUAL_FATAL(zkl_election_new(&work.election, one, QUEUE, NULL, NULL), ZKL_OK);
    start(&work, lead_until_told);
    CU_ASSERT_EQUAL(zkl_session_close(one, 10000), ZKL_OK);
    CU_ASSERT(atomic_load(&work.ended));
    CU_ASSERT_EQUAL(finish(&work), ZKL_ECLOSED);
    zkl_lock_free(work.election);
    kit_close(two);
}

/* A section that waits for another lock, for as long as it takes. */
static int acquire_inside(const zkl_cancel *cancel, int64_t token, void *payload)
{
    struct work *work = payload;
    (void)cancel, (void)token;
    atomic_store(&work->runs, true);
    work->inner = zkl_lock_acquire(work->other, ZKL_WAIT_FOREVER, NULL, NULL);
    return 0;
}

static void test_a_section_that_waits_for_another_lock(void)
{
    struct work work = {0};
    kit_set_up(NULL);
    zkl_lock *holder = kit_lock(two, QUEUE "/other", NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(holder, 10000, NULL, NULL), ZKL_OK);
    work.lock = kit_lock(one, QUEUE, NULL);
    work.other = kit_lock(one, QUEUE "/other", NULL);
    start(&work, acquire_inside);
    CU_ASSERT_EQUAL(zkl_session_close(one, ZKL_WAIT_FOREVER), ZKL_OK);
    CU_ASSERT_EQUAL(finish(&work), ZKL_OK);
    CU_ASSERT_EQUAL(work.inner, ZKL_ECLOSED);
    zkl_lock_free(work.lock);
    zkl_lock_free(work.other);
    zkl_lock_free(holder);
    kit_close(two);
}

static int close_inside(const zkl_cancel *cancel, int64_t token, void *payload)
{
    struct work *work = payload;
    (void)token;
    work->inner = zkl_session_close(one, 1000);
    CU_ASSERT_FALSE(zkl_cancel_raised(cancel));
    atomic_store(&work->runs, true);
    return 0;
}

static void test_close_in_a_section(void)
{
    struct work work = {0};
    kit_set_up(NULL);
    work.lock = kit_lock(one, QUEUE, NULL);
    start(&work, close_inside);
    CU_ASSERT_EQUAL(finish(&work), ZKL_OK);
    CU_ASSERT_EQUAL(work.inner, ZKL_EDEADLK);
    zkl_lock_free(work.lock);
    kit_tear_down();
}

static int end_when_it_likes(const zkl_cancel *cancel, int64_t token, void *payload)
{
    struct work *work = payload;
    (void)token;
    atomic_store(&work->runs, true);
    CU_ASSERT(EVENTUALLY(atomic_load(&work->go)));
    CU_ASSERT(zkl_cancel_raised(cancel));
    CU_ASSERT_EQUAL(zkl_cancel_remaining_ms(cancel), 0);
    return 0;
}

static int end_when_it_likes_in_time(const zkl_cancel *cancel, int64_t token, void *payload)
{
    struct work *work = payload;
    (void)token;
    atomic_store(&work->runs, true);
    CU_ASSERT(EVENTUALLY(zkl_cancel_raised(cancel) && atomic_load(&work->go)));
    CU_ASSERT(zkl_cancel_remaining_ms(cancel) > 0);
    atomic_store(&work->ended, true);
    return 0;
}

/* Close is bounded all the same, and what runs on finds its memory. */
static void test_a_section_that_does_not_end(void)
{
    struct work work = {0};
    kit_set_up(NULL);
    work.lock = kit_lock(one, QUEUE, NULL);
    start(&work, end_when_it_likes);
    (void)zkl_session_close(one, 50);
    CU_ASSERT(EVENTUALLY(kit_queue(two, QUEUE) == 0));
    atomic_store(&work.go, true);
    CU_ASSERT_EQUAL(finish(&work), ZKL_ECLOSED);
    zkl_lock_free(work.lock);
    kit_close(two);
}

static void on_closed(int code, const zkl_error *err, void *payload)
{
    (void)err;
    mailbox_put(payload, (struct letter){.code = code});
}

/* Nobody waits for the close; it waits for the section all the same. */
static void test_close_async_waits_for_a_section(void)
{
    struct work work = {0};
    struct mailbox box = MAILBOX_INIT;
    kit_set_up(NULL);
    work.lock = kit_lock(one, QUEUE, NULL);
    start(&work, end_when_it_likes_in_time);
    CU_ASSERT_EQUAL(zkl_session_close_async(one, 10000, on_closed, &box, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    atomic_store(&work.go, true);
    CU_ASSERT(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(mailbox_last(&box), ZKL_OK);
    CU_ASSERT(atomic_load(&work.ended));
    CU_ASSERT_EQUAL(finish(&work), ZKL_OK);
    zkl_lock_free(work.lock);
    kit_close(two);
}

TESTS("close and sections", T(test_close_waits_for_a_section), T(test_close_waits_for_a_term),
      T(test_a_section_that_waits_for_another_lock), T(test_close_in_a_section), T(test_a_section_that_does_not_end),
      T(test_close_async_waits_for_a_section))
