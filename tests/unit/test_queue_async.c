/* The functions for operators without a thread that waits: what they bring, and each way to end. */
#include <poll.h>
#include <string.h>
#include <zklock/testing.h>

#include "lock_kit.h"

#define QUEUE "/locks/queue"

/* What the calls write for their caller. */
struct results {
    zkl_queue *queue;
};

static void on_done(int code, const zkl_error *err, void *payload)
{
    struct letter letter = {.code = code, .thread = pthread_self()};
    snprintf(letter.text, sizeof letter.text, "%s", code == ZKL_OK ? "" : err->text);
    mailbox_put(payload, letter);
}

static char first[128]; /* the name of a holder's znode */

static int list(struct results *results, zkl_session *session, int64_t ms, zkl_done_fn done, void *box, zkl_error *err)
{
    return zkl_queue_list_async(&results->queue, session, QUEUE, ms, done, box, err);
}

static int revoke(struct results *results, zkl_session *session, int64_t ms, zkl_done_fn done, void *box,
                  zkl_error *err)
{
    (void)results;
    return zkl_queue_revoke_async(session, QUEUE, NULL, ms, done, box, err);
}

static int take_out(struct results *results, zkl_session *session, int64_t ms, zkl_done_fn done, void *box,
                    zkl_error *err)
{
    (void)results;
    return zkl_queue_remove_async(session, QUEUE, first, 0, ms, done, box, err);
}

typedef int (*call_fn)(struct results *results, zkl_session *session, int64_t ms, zkl_done_fn done, void *box,
                       zkl_error *err);
static const call_fn calls[] = {list, revoke, take_out};
#define CALLS (sizeof calls / sizeof *calls)

static void free_results(struct results *results)
{
    zkl_queue_free(results->queue);
    *results = (struct results){NULL};
}

static void give_way(zkl_lock *lock, void *payload)
{
    mailbox_put(payload, (struct letter){.from = lock});
}

/* Held by the second session, which gives way. */
static zkl_lock *hold(struct mailbox *requests)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.revoke_fn = give_way;
    options.payload = requests;
    zkl_lock *lock = kit_lock(two, QUEUE, &options);
    CU_ASSERT_EQUAL_FATAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_OK);
    zkl_lock_node(lock, first, sizeof first);
    return lock;
}

static void test_what_they_bring(void)
{
    struct mailbox box = MAILBOX_INIT, requests = MAILBOX_INIT;
    struct results results;
    char path[] = QUEUE, node[sizeof first];
    kit_set_up(NULL);
    zkl_lock *lock = hold(&requests);
    zkl_lock *next = kit_lock(one, QUEUE, NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire_async(next, ZKL_WAIT_FOREVER, on_acquired, &box, NULL), ZKL_OK);
    CU_ASSERT_TRUE(EVENTUALLY(kit_queue(one, QUEUE) == 2));
    CU_ASSERT_EQUAL(zkl_testing_delay(one, true, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_queue_list_async(&results.queue, one, path, 5000, on_done, &box, NULL), ZKL_OK);
    memset(path, 'x', sizeof path - 1); /* it was copied */
    CU_ASSERT_EQUAL(zkl_testing_delay(one, false, NULL), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL_FATAL(box.letters[0].code, ZKL_OK);
    CU_ASSERT_EQUAL(results.queue->count, 2);
    CU_ASSERT_STRING_EQUAL(results.queue->entries[0].name, first);
    CU_ASSERT_EQUAL(results.queue->entries[0].token, zkl_lock_token(lock));
    CU_ASSERT_TRUE(results.queue->entries[0].holds);
    CU_ASSERT_FALSE(results.queue->entries[1].holds);
    CU_ASSERT_EQUAL(revoke(&results, one, 5000, on_done, &box, NULL), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&box, 2));
    CU_ASSERT_EQUAL(box.letters[1].code, ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&requests, 1));
    strcpy(node, first);
    CU_ASSERT_EQUAL(zkl_testing_delay(one, true, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_queue_remove_async(one, QUEUE, node, zkl_lock_token(lock), 5000, on_done, &box, NULL), ZKL_OK);
    memset(node, 'x', sizeof node - 1);
    CU_ASSERT_EQUAL(zkl_testing_delay(one, false, NULL), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&box, 4)); /* and the next one is granted */
    CU_ASSERT_TRUE(zkl_lock_is_held(next));
    CU_ASSERT_EQUAL(take_out(&results, one, 5000, on_done, &box, NULL), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&box, 5));
    CU_ASSERT_EQUAL(box.letters[4].code, ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(zkl_queue_revoke_async(one, "/locks/none", NULL, 5000, on_done, &box, NULL), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&box, 6));
    CU_ASSERT_EQUAL(box.letters[5].code, ZKL_ENOTHELD);
    free_results(&results);
    zkl_lock_free(lock);
    zkl_lock_free(next);
    kit_tear_down();
}

/* Each of them once: the time, a stop token, a close. Nothing is written for the caller then. */
static void test_ways_to_end(void)
{
    for (size_t i = 0; i < CALLS; i++) {
        struct mailbox box = MAILBOX_INIT, requests = MAILBOX_INIT;
        struct results results = {(zkl_queue *)&box};
        zkl_stop stop = ZKL_STOP_INIT;
        zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
        options.stop = &stop;
        one = kit_open(&options);
        two = kit_open(NULL);
        zkl_lock *lock = hold(&requests);
        CU_ASSERT_EQUAL(zkl_testing_delay(one, true, NULL), ZKL_OK);
        CU_ASSERT_EQUAL(calls[i](&results, one, 20, on_done, &box, NULL), ZKL_OK);
        CU_ASSERT_TRUE(mailbox_wait(&box, 1));
        CU_ASSERT_EQUAL(calls[i](&results, one, ZKL_WAIT_FOREVER, on_done, &box, NULL), ZKL_OK);
        zkl_stop_raise(&stop);
        CU_ASSERT_TRUE(mailbox_wait(&box, 2));
        CU_ASSERT_EQUAL(calls[i](&results, one, 5000, on_done, &box, NULL), ZKL_ECANCELED);
        zkl_session_close(one, 10);
        one = kit_open(NULL);
        CU_ASSERT_EQUAL(zkl_testing_delay(one, true, NULL), ZKL_OK);
        CU_ASSERT_EQUAL(calls[i](&results, one, ZKL_WAIT_FOREVER, on_done, &box, NULL), ZKL_OK);
        zkl_session_close(one, 10);
        CU_ASSERT_EQUAL(mailbox_count(&box), 3); /* before it returned */
        CU_ASSERT_PTR_EQUAL(results.queue, calls[i] == list ? NULL : (zkl_queue *)&box);
        zkl_lock_free(lock);
        kit_close(two);
        static const int codes[] = {ZKL_ETIMEOUT, ZKL_ECANCELED, ZKL_ECLOSED};
        for (int j = 0; j < 3; j++) {
            CU_ASSERT_EQUAL(box.letters[j].code, codes[j]);
        }
    }
}

/* The connection goes at each request in turn, before or behind it. */
static void break_at(call_fn call, size_t whole, bool half, const int *allowed)
{
    struct mailbox box = MAILBOX_INIT, requests = MAILBOX_INIT;
    struct results results = {NULL};
    kit_set_up(NULL);
    zkl_lock *lock = hold(&requests);
    CU_ASSERT_EQUAL(zkl__memory_break(zkl_session_id(one), whole, half, !half), ZKL_OK);
    CU_ASSERT_EQUAL(call(&results, one, 10000, on_done, &box, NULL), ZKL_OK);
    CU_ASSERT_TRUE(EVENTUALLY(zkl_session_state(one) == ZKL_SESSION_SUSPENDED || mailbox_count(&box) == 1));
    (void)zkl__memory_break(zkl_session_id(one), 0, 0, 0); /* it may have asked less */
    (void)zkl__memory_resume(zkl_session_id(one));
    CU_ASSERT_TRUE(mailbox_wait(&box, 1));
    CU_ASSERT_TRUE(box.letters[0].code == allowed[0] || box.letters[0].code == allowed[1]);
    free_results(&results);
    if (call == take_out) {
        CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 0);
    }
    zkl_lock_free(lock);
    kit_tear_down();
    CU_ASSERT_EQUAL(mailbox_count(&box), 1);
}

static void test_cut_at_each_request(void)
{
    static const int fine[] = {ZKL_OK, ZKL_OK}, unsure[] = {ZKL_OK, ZKL_ECONNECT};
    for (size_t i = 0; i < CALLS; i++) {
        for (size_t whole = 0; whole < 4; whole++) {
            break_at(calls[i], whole, false, calls[i] == revoke ? unsure : fine);
            break_at(calls[i], whole, true, calls[i] == revoke ? unsure : fine);
        }
    }
}

/* A request whose fate is unknown is not made again: it would be a second one. */
static void test_revoke_is_sent_once(void)
{
    struct mailbox box = MAILBOX_INIT, requests = MAILBOX_INIT;
    kit_set_up(NULL);
    zkl_lock *lock = hold(&requests);
    CU_ASSERT_EQUAL(zkl__memory_break(zkl_session_id(one), 0, 1, 0), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_queue_revoke_async(one, QUEUE, first, 10000, on_done, &box, NULL), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_ECONNECT);
    CU_ASSERT_EQUAL(zkl__memory_resume(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&requests, 1));
    zkl_lock_free(lock);
    kit_tear_down();
}

/* A completion begins the next call; with dispatched callbacks nothing runs before. */
struct chain {
    struct results results;
    struct mailbox *box;
    int left;
};

static void on_link(int code, const zkl_error *err, void *payload)
{
    struct chain *chain = payload;
    CU_ASSERT_EQUAL(code, ZKL_OK);
    free_results(&chain->results);
    if (--chain->left > 0) {
        CU_ASSERT_EQUAL(list(&chain->results, one, 5000, on_link, chain, NULL), ZKL_OK);
    } else {
        on_done(code, err, chain->box);
    }
}

static void test_dispatched(void)
{
    struct mailbox box = MAILBOX_INIT, requests = MAILBOX_INIT;
    struct chain chain = {.box = &box, .left = 20};
    zkl_session_options options = kit_dispatched();
    one = kit_open(&options);
    two = kit_open(NULL);
    zkl_lock *lock = hold(&requests);
    CU_ASSERT_EQUAL(list(&chain.results, one, 5000, on_link, &chain, NULL), ZKL_OK);
    struct pollfd ready = {.fd = zkl_session_fd(one), .events = POLLIN};
    CU_ASSERT_EQUAL(poll(&ready, 1, 30000), 1);
    CU_ASSERT_EQUAL(chain.left, 20);
    CU_ASSERT_TRUE(EVENTUALLY(zkl_session_dispatch(one) >= 0 && mailbox_count(&box) == 1));
    zkl_lock_free(lock);
    kit_tear_down();
}

static void test_bad_calls(void)
{
    struct results results;
    struct mailbox box = MAILBOX_INIT;
    zkl_error err;
    kit_set_up(NULL);
    for (size_t i = 0; i < CALLS; i++) {
        strcpy(first, "x-lock-0000000001");
        CU_ASSERT_EQUAL(calls[i](&results, NULL, 10, on_done, &box, &err), ZKL_EINVAL);
        CU_ASSERT_EQUAL(calls[i](&results, one, -2, on_done, &box, &err), ZKL_EINVAL);
        CU_ASSERT_EQUAL(calls[i](&results, one, 10, NULL, NULL, &err), ZKL_EINVAL);
        CU_ASSERT_STRING_EQUAL(err.text, "done is NULL");
    }
    CU_ASSERT_EQUAL(zkl_queue_list_async(NULL, one, QUEUE, 10, on_done, &box, NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_queue_remove_async(one, QUEUE, "a/b", 0, 10, on_done, &box, NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    kit_tear_down();
}

TESTS("queue_async", T(test_what_they_bring), T(test_ways_to_end), T(test_cut_at_each_request),
      T(test_revoke_is_sent_once), T(test_dispatched), T(test_bad_calls))
