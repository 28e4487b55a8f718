/* Semaphores when leases run out, sessions end, operators remove nodes, memory is short, and the limit changes while they are used. */
#include "semaphore_kit.h"
#include "test_heap.h"

#include <string.h>

#include <zklock/testing.h>

static void on_state(zkl_lock *semaphore, zkl_state state, void *payload)
{
    mailbox_put(payload, (struct letter){.from = semaphore, .code = (int)state});
}

static void test_expiry_while_holding(void)
{
    struct mailbox states = MAILBOX_INIT;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.state_fn = on_state;
    options.payload = &states;
    zkl_lock *a = NULL;
    kit_set_up(NULL);
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_new(&a, one, POOL, 3, &options, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(a, 3, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT(mailbox_wait(&states, 1));
    CU_ASSERT_EQUAL(states.letters[0].code, ZKL_STATE_HELD);
    CU_ASSERT_EQUAL(zkl__memory_suspend(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT(mailbox_wait(&states, 2));
    CU_ASSERT_EQUAL(states.letters[1].code, ZKL_STATE_JEOPARDY); /* once, not once for each */
    CU_ASSERT_EQUAL(zkl_lock_state(a), ZKL_STATE_JEOPARDY);
    CU_ASSERT_EQUAL(zkl__memory_resume(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT(mailbox_wait(&states, 3));
    CU_ASSERT_EQUAL(states.letters[2].code, ZKL_STATE_HELD);
    CU_ASSERT_EQUAL(zkl__memory_expire(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT(EVENTUALLY(mailbox_last(&states) == ZKL_STATE_LOST));
    size_t told = mailbox_count(&states);
    CU_ASSERT_FALSE(zkl_lock_is_held(a));
    CU_ASSERT_EQUAL(zkl_semaphore_tokens(a, NULL, 0), 0);
    CU_ASSERT_EQUAL(zkl_lock_token(a), 0);
    CU_ASSERT_EQUAL(zkl_semaphore_release(a, 1, NULL), ZKL_ELOST);
    CU_ASSERT_EQUAL(zkl_semaphore_release(a, 0, NULL), ZKL_ELOST);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(a, 3, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT(mailbox_wait(&states, told + 1));
    zkl_lock_free(a);
    kit_tear_down();
}

static void test_an_operator_removes_nodes(void)
{
    zkl_session_options options = kit_short();
    struct mailbox box = MAILBOX_INIT;
    kit_set_up(&options);
    zkl_lock *a = pool_contender(one, 2), *b = pool_contender(two, 2);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(a, 2, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(pool_queued() == 0));
    CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(b, 2, 30000, on_permitted, &box, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(pool_leases() == 4));
    pool_remove_node(POOL "/leases", 3); /* of the head that waits: it begins again */
    CU_ASSERT(EVENTUALLY(pool_leases() == 4 && pool_queued() == 1));
    pool_remove_node(POOL "/locks", 0); /* its place in the queue: the same */
    CU_ASSERT(EVENTUALLY(pool_leases() == 4 && pool_queued() == 1));
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    pool_remove_node(POOL "/leases", 0); /* one that is held: all of it is lost */
    CU_ASSERT(EVENTUALLY(!zkl_lock_is_held(a)));
    CU_ASSERT_EQUAL(zkl_lock_state(a), ZKL_STATE_LOST);
    CU_ASSERT_EQUAL(zkl_semaphore_release(a, 0, NULL), ZKL_ELOST);
    CU_ASSERT(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_release(b, 0, NULL), ZKL_OK);
    zkl_lock_free(a);
    zkl_lock_free(b);
    kit_tear_down();
}

static void test_no_memory(void)
{
    struct test_heap heap = TEST_HEAP_INIT;
    zkl_heap functions = test_heap(&heap);
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.heap = &functions;
    one = kit_open(&options);
    for (long nth = 1; nth < 60; nth++) {
        zkl_lock *a = NULL;
        test_heap_fail(&heap, nth, false);
        int code = zkl_semaphore_new(&a, one, POOL, 2, NULL, NULL);
        if (code == ZKL_OK) {
            code = zkl_semaphore_acquire(a, 2, 5000, NULL, NULL);
        }
        test_heap_fail(&heap, 0, false);
        CU_ASSERT(code == ZKL_OK || code == ZKL_ENOMEM);
        zkl_lock_free(a);
        CU_ASSERT(EVENTUALLY(pool_leases() == 0 && pool_queued() == 0));
    }
    kit_close(one);
    CU_ASSERT_EQUAL(test_heap_live(&heap), 0);
}

static struct client reader;

static void set_up(void)
{
    kit_set_up(NULL);
    CU_ASSERT_EQUAL_FATAL(client_open_plain(&reader, PLACE), ZKL_OK);
}

static void tear_down(void)
{
    client_close(&reader);
    kit_tear_down();
}

/* The data of the path, and how often it was written. */
static bool limit_is(const char *text, int32_t version)
{
    const struct zkl__reply *reply = client_call(&reader, op_read(ZKL__OP_GET, POOL, false));
    return reply->rc == ZKL__RC_OK && reply->size == strlen(text) && memcmp(reply->data, text, reply->size) == 0 &&
           (version < 0 || reply->stat.version == version);
}

/* A holder of so many permits of as many. */
static zkl_lock *held(int limit)
{
    zkl_lock *holder = pool_contender(two, limit);
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_acquire(holder, limit, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(pool_queued() == 0));
    return holder;
}

static void on_done(int code, const zkl_error *err, void *payload)
{
    struct letter letter = {.code = code};
    snprintf(letter.text, sizeof letter.text, "%s", err->text);
    mailbox_put(payload, letter);
}

/* --- growing and shrinking ------------------------------------------------------------------------------------------- */

/* Whoever wants several makes them before it reads the leases, and the limit with them; and once more, with watches. */
static void test_growth_for_several(void)
{
    struct mailbox box = MAILBOX_INIT;
    set_up();
    zkl_lock *holder = held(2), *waiter = pool_contender(two, 0);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(waiter, 2, 30000, on_permitted, &box, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(pool_leases() == 4));
    CU_ASSERT_EQUAL(zkl_semaphore_resize(one, POOL, 4, 5000, NULL), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_OK);
    zkl_lock_free(waiter);
    zkl_lock_free(holder);
    tear_down();
}

static void test_holders_finish(void)
{
    struct mailbox box = MAILBOX_INIT;
    set_up();
    zkl_lock *holder = held(4), *waiter = pool_contender(one, 0), *late = pool_contender(one, 0);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(waiter, 1, 30000, on_permitted, &box, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(pool_leases() == 5)); /* the head: it knows the limit already */
    CU_ASSERT_EQUAL(zkl_semaphore_resize(one, POOL, 2, 5000, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_tokens(holder, NULL, 0), 4);
    CU_ASSERT_EQUAL(zkl_semaphore_release(holder, 2, NULL), ZKL_OK); /* three stand, below the limit of before */
    CU_ASSERT(EVENTUALLY(pool_leases() == 3));
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(late, 1, 100, NULL, NULL), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(late, 1, 0, NULL, NULL), ZKL_EBUSY);
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    CU_ASSERT(zkl_lock_is_held(holder));
    CU_ASSERT_EQUAL(zkl_semaphore_release(holder, 1, NULL), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_release(holder, 0, NULL), ZKL_OK);
    zkl_lock_free(holder);
    zkl_lock_free(waiter);
    zkl_lock_free(late);
    tear_down();
}

/* A lower limit that comes while a list of the leases is under way counts for that list. */
static void test_shrink_meanwhile(void)
{
    struct mailbox box = MAILBOX_INIT;
    set_up();
    zkl_lock *holder = held(4), *waiter = pool_contender(one, 0);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(waiter, 1, 30000, on_permitted, &box, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(pool_leases() == 5));
    for (int i = 0; i < 3; i++) { /* its looks are answered by now: it waits */
        CU_ASSERT_EQUAL(pool_leases(), 5);
    }
    CU_ASSERT_EQUAL(zkl__memory_hold(zkl_session_id(one), true), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_release(holder, 1, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(kit_queue(two, POOL "/leases") == 4));
    CU_ASSERT_EQUAL(zkl_semaphore_resize(two, POOL, 2, 5000, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__memory_hold(zkl_session_id(one), false), ZKL_OK); /* of the leases, then of the limit */
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(pool_leases(), 4);
    }
    CU_ASSERT_EQUAL(zkl_lock_state(waiter), ZKL_STATE_WAITING);
    CU_ASSERT_EQUAL(zkl_semaphore_release(holder, 2, NULL), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_OK);
    zkl_lock_free(holder);
    zkl_lock_free(waiter);
    tear_down();
}

/* Who insists on a limit is refused from then on, also while it waits; and who wants more than there are. */
static void test_who_does_not_fit_is_refused(void)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_error err;
    set_up();
    zkl_lock *holder = held(3), *insists = pool_contender(one, 3), *wants = pool_contender(one, 0);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(insists, 1, 30000, on_permitted, &box, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(pool_leases() == 4));
    CU_ASSERT_EQUAL(zkl_semaphore_resize(one, POOL, 2, 5000, NULL), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_ECONFLICT);
    CU_ASSERT_PTR_NOT_NULL(strstr(box.letters[0].text, "limit is 3, the path is in use with 2"));
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(wants, 3, 5000, NULL, &err), ZKL_ECONFLICT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "3 permits are wanted, the limit of the path is 2"));
    CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(wants, 2, 30000, on_permitted, &box, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(pool_leases() == 5));
    CU_ASSERT_EQUAL(zkl_semaphore_resize(one, POOL, 1, 5000, NULL), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 2));
    CU_ASSERT_EQUAL(box.letters[1].code, ZKL_ECONFLICT);
    CU_ASSERT(EVENTUALLY(pool_leases() == 3 && pool_queued() == 0)); /* and nothing of theirs is left */
    CU_ASSERT_EQUAL(zkl_semaphore_release(holder, 0, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_resize(one, POOL, 3, 5000, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(insists, 3, 5000, NULL, NULL), ZKL_OK);
    zkl_lock_free(holder);
    zkl_lock_free(insists);
    zkl_lock_free(wants);
    tear_down();
}

/* --- what the path says ---------------------------------------------------------------------------------------------- */

static void test_no_limit_there(void)
{
    zkl_error err;
    set_up();
    zkl_lock *adopts = pool_contender(one, 0);
    CU_ASSERT_EQUAL(zkl_semaphore_resize(one, POOL, 2, 5000, &err), ZKL_ENOENT);
    CU_ASSERT_STRING_EQUAL(err.path, POOL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "does not exist"));
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(adopts, 1, 5000, NULL, &err), ZKL_ECONFLICT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "nobody has set a limit"));
    CU_ASSERT(EVENTUALLY(pool_queued() == 0 && pool_leases() == 0));
    CU_ASSERT_EQUAL(zkl_semaphore_resize(one, POOL, 2, 5000, &err), ZKL_ECONFLICT); /* the acquire has made the path */
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "nobody has set a limit"));
    pool_meddle(ZKL__OP_SET, POOL, NULL, "2"); /* by hand */
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(adopts, 2, 5000, NULL, &err), ZKL_OK);
    zkl_lock_free(adopts);
    tear_down();
}

/* What is no limit is never overwritten, and nobody is granted by it. */
static void test_garbled_limit(void)
{
    static const char *const garbled[] = {"many", "-1", "0", "3 ", "0x3", "99999999999"};
    struct mailbox box = MAILBOX_INIT;
    zkl_error err;
    set_up();
    zkl_lock *holder = held(2), *head = pool_contender(one, 0), *adopts = pool_contender(one, 0);
    for (size_t i = 0; i < sizeof garbled / sizeof *garbled; i++) {
        CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(head, 1, 30000, on_permitted, &box, NULL), ZKL_OK);
        CU_ASSERT(EVENTUALLY(pool_leases() == 3));
        pool_meddle(ZKL__OP_SET, POOL, NULL, garbled[i]);
        CU_ASSERT(mailbox_wait(&box, i + 1)); /* also who waits already */
        CU_ASSERT_EQUAL(box.letters[i].code, ZKL_ECONFLICT);
        CU_ASSERT_PTR_NOT_NULL(strstr(box.letters[i].text, "is no limit"));
        CU_ASSERT_EQUAL(zkl_semaphore_acquire(adopts, 1, 5000, NULL, &err), ZKL_ECONFLICT);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "is no limit"));
        CU_ASSERT_EQUAL(zkl_semaphore_resize(one, POOL, 5, 5000, &err), ZKL_ECONFLICT);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "is no limit"));
        CU_ASSERT(limit_is(garbled[i], -1));
        pool_meddle(ZKL__OP_SET, POOL, NULL, "2");
    }
    CU_ASSERT(zkl_lock_is_held(holder));
    zkl_lock_free(holder);
    zkl_lock_free(head);
    zkl_lock_free(adopts);
    tear_down();
}

/* --- faults ---------------------------------------------------------------------------------------------------------- */

/* Its connection breaks there; then somebody else writes that, or nobody; then it is connected again. */
static int resize_through(size_t whole, size_t half, size_t lost, const char *first, const char *second)
{
    struct mailbox box = MAILBOX_INIT;
    zkl__memory_break(zkl_session_id(one), whole, half, lost);
    CU_ASSERT_EQUAL(zkl_semaphore_resize_async(one, POOL, 5, 20000, on_done, &box, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(zkl_session_state(one) == ZKL_SESSION_SUSPENDED));
    if (first) {
        pool_meddle(ZKL__OP_SET, POOL, NULL, first);
    }
    if (second) {
        pool_meddle(ZKL__OP_SET, POOL, NULL, second);
    }
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    CU_ASSERT_EQUAL(zkl__memory_resume(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 1));
    return box.letters[0].code;
}

static void test_lost_replies(void)
{
    static const struct {
        size_t whole, half, lost;
        const char *first, *second; /* written by others while it is cut off */
        const char *limit;          /* then */
        int32_t writes;             /* of all */
    } cases[] = {
        {0, 1, 0, NULL, NULL, "5", 1}, /* the read's */
        {0, 0, 1, NULL, NULL, "5", 1}, /* it never arrives */
        {1, 1, 0, NULL, NULL, "5", 1}, /* of the write, which is done: not once more */
        {1, 0, 1, NULL, NULL, "5", 1}, /* which is not */
        {1, 0, 1, "7", NULL, "5", 2},  /* another was faster: then once more */
        {1, 0, 1, "5", NULL, "5", 1},  /* with the same limit */
        {1, 1, 0, "7", NULL, "7", 2},  /* another was later, and it stands */
        {1, 1, 0, "7", "8", "8", 3},   /* two were */
        {1, 0, 1, "7", "8", "8", 2},   /* which nobody can tell from that */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set_up();
        CU_ASSERT_EQUAL(client_rc(&reader, op_create("/pools", "", ZKL__PERSISTENT)), ZKL__RC_OK);
        CU_ASSERT_EQUAL(client_rc(&reader, op_create(POOL, "3", ZKL__PERSISTENT)), ZKL__RC_OK);
        CU_ASSERT_EQUAL(resize_through(cases[i].whole, cases[i].half, cases[i].lost, cases[i].first, cases[i].second),
                        ZKL_OK);
        CU_ASSERT(limit_is(cases[i].limit, cases[i].writes));
        tear_down();
    }
}

/* Between the read and the write it becomes something else, which stays: a lock's directory, say. */
static void test_changed_meanwhile(void)
{
    struct mailbox box = MAILBOX_INIT;
    set_up();
    zkl_lock *holder = held(2);
    CU_ASSERT_EQUAL(zkl__memory_hold(zkl_session_id(one), true), ZKL_OK); /* read, and not told yet */
    CU_ASSERT_EQUAL(zkl_semaphore_resize_async(one, POOL, 5, 20000, on_done, &box, NULL), ZKL_OK);
    pool_meddle(ZKL__OP_SET, POOL, NULL, "host:1");
    CU_ASSERT_EQUAL(zkl__memory_hold(zkl_session_id(one), false), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_ECONFLICT);
    CU_ASSERT(limit_is("host:1", 2));
    zkl_lock_free(holder);
    tear_down();
}

/* Each finds the versions that the others write. */
struct resizer {
    zkl_session *session;
    int limit, failures;
    pthread_t thread;
};

enum { TURNS = 200 };

static void *resize_often(void *arg)
{
    struct resizer *resizer = arg;
    for (int i = 0; i < TURNS; i++) {
        resizer->failures += zkl_semaphore_resize(resizer->session, POOL, resizer->limit, 20000, NULL) != ZKL_OK;
    }
    return NULL;
}

static void test_at_the_same_time(void)
{
    set_up();
    zkl_lock *holder = held(2);
    struct resizer resizers[] = {{one, 3, 0, 0}, {two, 4, 0, 0}, {one, 6, 0, 0}};
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL_FATAL(pthread_create(&resizers[i].thread, NULL, resize_often, &resizers[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(resizers[i].thread, NULL);
        CU_ASSERT_EQUAL(resizers[i].failures, 0);
    }
    CU_ASSERT(limit_is("3", -1) || limit_is("4", -1) || limit_is("6", -1));
    const struct zkl__reply *reply = client_call(&reader, op_read(ZKL__OP_GET, POOL, false));
    CU_ASSERT_EQUAL(reply->stat.version, 3 * TURNS + 1); /* each once: and the first, by the holder */
    zkl_lock_free(holder);
    tear_down();
}

/* The servers refuse the write for now, and for good. */
static void test_resize_refused(void)
{
    zkl_error err;
    set_up();
    zkl_lock *holder = held(2);
    CU_ASSERT_EQUAL(zkl__memory_refuse(zkl_session_id(one), ZKL__RC_NOTAPPLIED, 3), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_resize(one, POOL, 4, 20000, &err), ZKL_OK);
    CU_ASSERT(limit_is("4", 2));
    CU_ASSERT_EQUAL(zkl__memory_refuse(zkl_session_id(one), ZKL__RC_QUOTA, 1), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_resize(one, POOL, 5, 20000, &err), zkl__rc_code(ZKL__RC_QUOTA));
    CU_ASSERT(limit_is("4", 2));
    CU_ASSERT_EQUAL(zkl__memory_refuse(zkl_session_id(one), ZKL__RC_NOTAPPLIED, 100), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_resize(one, POOL, 5, 100, &err), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(zkl__memory_refuse(zkl_session_id(one), ZKL__RC_OK, 0), ZKL_OK);
    zkl_lock_free(holder);
    tear_down();
}

/* --- without waiting ------------------------------------------------------------------------------------------------- */

static void test_ways_to_end(void)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_stop stop = ZKL_STOP_INIT;
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.stop = &stop;
    set_up();
    zkl_lock *holder = held(2);
    zkl_session *other = kit_open(&options);
    char path[] = POOL;
    CU_ASSERT_EQUAL(zkl_semaphore_resize_async(other, path, 3, 5000, on_done, &box, NULL), ZKL_OK);
    memset(path, 'x', sizeof path - 1); /* it was copied */
    CU_ASSERT(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_resize_async(other, POOL, 3, 5000, NULL, &box, NULL), ZKL_EINVAL); /* no done */
    CU_ASSERT_EQUAL(zkl_testing_delay(other, true, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_resize_async(other, POOL, 4, 20, on_done, &box, NULL), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 2));
    CU_ASSERT_EQUAL(box.letters[1].code, ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(zkl_semaphore_resize_async(other, POOL, 5, 20000, on_done, &box, NULL), ZKL_OK);
    zkl_stop_raise(&stop);
    CU_ASSERT(mailbox_wait(&box, 3));
    CU_ASSERT_EQUAL(box.letters[2].code, ZKL_ECANCELED);
    CU_ASSERT_EQUAL(zkl_semaphore_resize_async(other, POOL, 5, 20000, on_done, &box, NULL), ZKL_ECANCELED);
    CU_ASSERT_EQUAL(zkl_testing_delay(one, true, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_resize_async(one, POOL, 5, 20000, on_done, &box, NULL), ZKL_OK);
    (void)zkl_session_close(one, 10);
    CU_ASSERT_EQUAL(mailbox_count(&box), 4); /* before it returned */
    CU_ASSERT_EQUAL(box.letters[3].code, ZKL_ECLOSED);
    (void)zkl_session_close(other, 10);
    zkl_lock_free(holder);
    kit_close(two);
    client_close(&reader);
}

static void test_limits_that_are_none(void)
{
    static const int limits[] = {INT32_MIN, -1, 0, ZKL_PERMITS_MAX + 1, INT32_MAX};
    zkl_error err;
    set_up();
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        CU_ASSERT_EQUAL(zkl_semaphore_resize(one, POOL, limits[i], 5000, &err), ZKL_EINVAL);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "limit"));
        CU_ASSERT_EQUAL(zkl_semaphore_resize_async(one, POOL, limits[i], 5000, on_done, NULL, &err), ZKL_EINVAL);
    }
    tear_down();
}

TESTS("semaphore_faults", T(test_expiry_while_holding), T(test_an_operator_removes_nodes), T(test_no_memory),
      T(test_growth_for_several), T(test_holders_finish), T(test_shrink_meanwhile), T(test_who_does_not_fit_is_refused),
      T(test_no_limit_there), T(test_garbled_limit), T(test_lost_replies), T(test_changed_meanwhile),
      T(test_at_the_same_time), T(test_resize_refused), T(test_ways_to_end), T(test_limits_that_are_none))
