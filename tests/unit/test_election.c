/* Elections, on the in-process store: what zklock/election.h promises. */
#include "lock_kit.h"

#include "dice.h"
#include "test_heap.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define PLACE_OF_IT "/services/leader"

static zkl_lock *candidate(zkl_session *session, const char *value)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_lock *election = NULL;
    options.metadata = value;
    CU_ASSERT_EQUAL_FATAL(zkl_election_new(&election, session, PLACE_OF_IT, &options, NULL), ZKL_OK);
    return election;
}

/* --- campaigns ----------------------------------------------------------------------------------------------------- */

static void test_campaign_and_resign(void)
{
    kit_set_up(NULL);
    zkl_lock *a = candidate(one, "a:1"), *b = candidate(two, "b:1");
    zkl_grant grant;
    char node[128];
    zkl_error err;
    CU_ASSERT_STRING_EQUAL(zkl_lock_path(a), PLACE_OF_IT);
    CU_ASSERT_FALSE(zkl_lock_is_held(a));
    CU_ASSERT_EQUAL(zkl_lock_release(a, &err), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL_FATAL(zkl_lock_acquire(a, 5000, &grant, NULL), ZKL_OK);
    CU_ASSERT(zkl_lock_is_held(a));
    CU_ASSERT_EQUAL(zkl_lock_state(a), ZKL_STATE_HELD);
    CU_ASSERT(grant.token > 0);
    CU_ASSERT_EQUAL(zkl_lock_token(a), grant.token);
    CU_ASSERT(zkl_lock_remaining_ms(a) > 5000);
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 0, NULL, NULL), ZKL_EDEADLK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(b, 0, NULL, NULL), ZKL_EBUSY);
    CU_ASSERT_EQUAL(zkl_lock_acquire(b, 50, NULL, NULL), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(kit_queue(two, PLACE_OF_IT), 1);
    CU_ASSERT_EQUAL(zkl_lock_cancel(b), ZKL_ENOTWAITING);
    /* Curator's LeaderLatch, byte for byte */
    CU_ASSERT_EQUAL(zkl_lock_node(a, node, sizeof node), 3 + 36 + 1 + 6 + 10);
    CU_ASSERT_EQUAL(strncmp(node, "_c_", 3), 0);
    CU_ASSERT_EQUAL(strncmp(node + 39, "-latch-", 7), 0);
    zkl_queue *queue;
    CU_ASSERT_EQUAL_FATAL(zkl_queue_list(&queue, two, PLACE_OF_IT, 5000, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(queue->count, 1);
    CU_ASSERT_EQUAL(queue->entries[0].kind, ZKL_KIND_LATCH);
    CU_ASSERT_STRING_EQUAL(queue->entries[0].data, "a:1");
    CU_ASSERT_EQUAL(queue->entries[0].token, grant.token);
    zkl_queue_free(queue);
    int64_t before = grant.token;
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_OK);
    CU_ASSERT_FALSE(zkl_lock_is_held(a));
    CU_ASSERT_EQUAL(zkl_lock_acquire(b, 5000, &grant, NULL), ZKL_OK);
    CU_ASSERT(grant.token > before);
    zkl_lock_free(a);
    zkl_lock_free(b);
    CU_ASSERT_EQUAL(kit_queue(two, PLACE_OF_IT), 0);
    zkl_lock_free(NULL);
    kit_tear_down();
}

static void on_elected(zkl_lock *election, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    (void)err;
    mailbox_put(payload, (struct letter){.from = election, .code = code, .granted = grant != NULL});
}

static void on_state(zkl_lock *election, zkl_state state, void *payload)
{
    mailbox_put(payload, (struct letter){.from = election, .code = (int)state});
}

static void test_asynchronous(void)
{
    struct mailbox box = MAILBOX_INIT, states = MAILBOX_INIT;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.state_fn = on_state;
    options.payload = &states;
    kit_set_up(NULL);
    zkl_lock *a = NULL, *b = candidate(two, NULL);
    CU_ASSERT_EQUAL_FATAL(zkl_election_new(&a, one, PLACE_OF_IT, &options, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire_async(a, 5000, on_elected, &box, NULL), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_OK);
    CU_ASSERT(box.letters[0].granted);
    CU_ASSERT(mailbox_wait(&states, 1));
    CU_ASSERT_EQUAL(states.letters[0].code, ZKL_STATE_HELD);
    CU_ASSERT_EQUAL(zkl_lock_acquire_async(b, ZKL_WAIT_FOREVER, on_elected, &box, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_state(b), ZKL_STATE_WAITING);
    CU_ASSERT_EQUAL(zkl_lock_cancel(b), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 2));
    CU_ASSERT_EQUAL(box.letters[1].code, ZKL_ECANCELED);
    CU_ASSERT_EQUAL(zkl__memory_expire(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT(EVENTUALLY(mailbox_last(&states) == ZKL_STATE_LOST)); /* in jeopardy first, if that is told in time */
    CU_ASSERT_FALSE(zkl_lock_is_held(a));
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_ELOST);
    zkl_lock_free(a);
    zkl_lock_free(b);
    kit_tear_down();
}

/* --- observers ----------------------------------------------------------------------------------------------------- */

static void on_leader(zkl_election_observer *observer, const zkl_leader *leader, void *payload)
{
    struct letter letter = {.from = observer, .granted = leader != NULL};
    if (leader) {
        CU_ASSERT(leader->session_id != 0);
        CU_ASSERT_EQUAL(strlen(leader->value), leader->value_size);
        letter.grant.token = leader->token;
        snprintf(letter.text, sizeof letter.text, "%s", leader->value);
    }
    mailbox_put(payload, letter);
}

static zkl_election_observer *observe(zkl_session *session, struct mailbox *box)
{
    zkl_election_observer *observer = NULL;
    CU_ASSERT_EQUAL_FATAL(zkl_election_observe(&observer, session, PLACE_OF_IT, on_leader, box, NULL), ZKL_OK);
    return observer;
}

/* The nth thing told, from 1. */
static const char *news(struct mailbox *box, size_t nth)
{
    if (!mailbox_wait(box, nth)) {
        return "nothing was told";
    }
    return box->letters[nth - 1].granted ? box->letters[nth - 1].text : "nobody";
}

static void test_observe(void)
{
    struct mailbox box = MAILBOX_INIT;
    kit_set_up(NULL);
    zkl_election_observer *observer = observe(two, &box);
    CU_ASSERT_STRING_EQUAL(news(&box, 1), "nobody"); /* there is no directory yet */
    zkl_lock *a = candidate(one, "a"), *b = candidate(two, "b");
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_STRING_EQUAL(news(&box, 2), "a");
    CU_ASSERT_EQUAL(box.letters[1].grant.token, zkl_lock_token(a));
    CU_ASSERT_EQUAL(zkl_election_publish(b, "x", 1000, NULL), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(zkl_election_publish(a, "a, ready", 10000, NULL), ZKL_OK);
    CU_ASSERT_STRING_EQUAL(news(&box, 3), "a, ready");
    struct mailbox done = MAILBOX_INIT;
    CU_ASSERT_EQUAL(zkl_lock_acquire_async(b, 5000, on_elected, &done, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(kit_queue(one, PLACE_OF_IT) == 2));
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_OK);
    CU_ASSERT_STRING_EQUAL(news(&box, 4), "b");
    CU_ASSERT(mailbox_wait(&done, 1));
    CU_ASSERT_EQUAL(zkl_lock_release(b, NULL), ZKL_OK);
    CU_ASSERT_STRING_EQUAL(news(&box, 5), "nobody"); /* the list is empty */
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_STRING_EQUAL(news(&box, 6), "a, ready"); /* what was published last */
    zkl_election_observer_free(observer);
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_OK);
    observer = observe(one, &box);
    CU_ASSERT_STRING_EQUAL(news(&box, 7), "nobody");
    CU_ASSERT_EQUAL(zkl__memory_reap(PLACE), ZKL_OK); /* the directory goes, and comes again */
    CU_ASSERT_EQUAL(zkl_lock_acquire(b, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_STRING_EQUAL(news(&box, 8), "b");
    CU_ASSERT_EQUAL(mailbox_count(&box), 8);
    zkl_election_observer_free(observer);
    zkl_election_observer_free(NULL);
    zkl_lock_free(a);
    zkl_lock_free(b);
    kit_tear_down();
}

static void test_observer_in_trouble(void)
{
    struct mailbox box = MAILBOX_INIT;
    kit_set_up(NULL);
    zkl_lock *a = candidate(one, "a"), *b = candidate(one, "b");
    CU_ASSERT_EQUAL(zkl__memory_break(zkl_session_id(two), 1, 1, 1), ZKL_OK); /* in the middle of its first look */
    zkl_election_observer *observer = observe(two, &box);
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(zkl__memory_resume(zkl_session_id(two)) == ZKL_OK));
    CU_ASSERT(EVENTUALLY(mailbox_count(&box) > 0 && strcmp(news(&box, mailbox_count(&box)), "a") == 0));
    size_t told = mailbox_count(&box);
    /* away while the leader changes */
    CU_ASSERT_EQUAL(zkl__memory_suspend(zkl_session_id(two)), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(b, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__memory_resume(zkl_session_id(two)), ZKL_OK);
    CU_ASSERT_STRING_EQUAL(news(&box, told + 1), "b");
    /* its own session ends: nothing is told, nothing is missed afterwards */
    CU_ASSERT_EQUAL(zkl__memory_expire(zkl_session_id(two)), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_election_publish(b, "b2", 5000, NULL), ZKL_OK);
    CU_ASSERT_STRING_EQUAL(news(&box, told + 2), "b2");
    /* the leader's session ends */
    CU_ASSERT_EQUAL(zkl__memory_expire(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT_STRING_EQUAL(news(&box, told + 3), "nobody");
    CU_ASSERT_EQUAL(mailbox_count(&box), told + 3);
    zkl_election_observer_free(observer);
    zkl_lock_free(a);
    zkl_lock_free(b);
    kit_tear_down();
}

/* What was put there by hand is no candidate; what stands behind the leader wakes nobody. */
static void test_observer_and_strangers(void)
{
    struct mailbox box = MAILBOX_INIT;
    enum zkl__rc rc;
    kit_set_up(NULL);
    zkl_lock *a = candidate(one, "a");
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_OK);
    const char *names[] = {"latch-0000000000", "something"};
    for (int i = 0; i < 2; i++) {
        struct zkl__op op = {.kind = ZKL__OP_CREATE, .dir = PLACE_OF_IT, .name = names[i], .mode = ZKL__PERSISTENT};
        CU_ASSERT_EQUAL(zkl__memory_meddle(PLACE, &op, &rc), ZKL_OK);
        CU_ASSERT_EQUAL(rc, i == 0 ? ZKL__RC_OK : ZKL__RC_OK);
    }
    zkl_election_observer *observer = observe(two, &box);
    CU_ASSERT_STRING_EQUAL(news(&box, 1), "nobody");
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_STRING_EQUAL(news(&box, 2), "a");
    zkl_lock *others[5];
    struct mailbox done = MAILBOX_INIT;
    for (int i = 0; i < 5; i++) {
        others[i] = candidate(two, "other");
        CU_ASSERT_EQUAL(zkl_lock_acquire_async(others[i], 5000, on_elected, &done, NULL), ZKL_OK);
    }
    CU_ASSERT(EVENTUALLY(kit_queue(one, PLACE_OF_IT) == 7));
    for (int i = 0; i < 5; i++) {
        zkl_lock_free(others[i]);
    }
    /* an operator removes the leader's node */
    char node[128];
    zkl_lock_node(a, node, sizeof node);
    struct zkl__op op = {.kind = ZKL__OP_DELETE, .dir = PLACE_OF_IT, .name = node, .version = -1};
    CU_ASSERT_EQUAL(zkl__memory_meddle(PLACE, &op, &rc), ZKL_OK);
    CU_ASSERT_STRING_EQUAL(news(&box, 3), "nobody");
    CU_ASSERT_EQUAL(mailbox_count(&box), 3);
    CU_ASSERT(EVENTUALLY(!zkl_lock_is_held(a)));
    CU_ASSERT_EQUAL(zkl_election_publish(a, "x", 1000, NULL), ZKL_ENOTHELD);
    zkl_election_observer_free(observer);
    zkl_lock_free(a);
    kit_tear_down();
}

static void free_observer(zkl_election_observer *observer, const zkl_leader *leader, void *payload)
{
    (void)leader;
    zkl_election_observer_free(observer);
    mailbox_put(payload, (struct letter){.from = observer});
}

static void test_free_and_close(void)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_election_observer *observer;
    zkl_error err;
    kit_set_up(NULL);
    CU_ASSERT_EQUAL(zkl_election_observe(&observer, one, PLACE_OF_IT, free_observer, &box, NULL), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 1));
    observer = observe(two, &box);
    CU_ASSERT(mailbox_wait(&box, 2));
    zkl_lock *a = candidate(two, NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 5000, NULL, NULL), ZKL_OK);
    kit_tear_down();
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 1000, NULL, &err), ZKL_ECLOSED);
    CU_ASSERT_EQUAL(zkl_election_run(a, 0, NULL, NULL, NULL, &err), ZKL_EINVAL);
    zkl_lock_free(a); /* after the close of what they were made from */
    zkl_election_observer_free(observer);
}

/* --- at most one leader, by lease ---------------------------------------------------------------------------------- */

#define CANDIDATES 6

static zkl_lock *crowd[CANDIDATES];
static atomic_bool over;
static atomic_int terms;

static void *stand(void *arg)
{
    zkl_lock *election = arg;
    uint64_t dice = (uintptr_t)arg;
    while (!over) {
        zkl_grant grant;
        if (zkl_lock_acquire(election, 200, &grant, NULL) == ZKL_OK) {
            terms++;
            for (int64_t spins = dice_below(&dice, 3); spins > 0 && zkl_lock_is_held(election); spins--) {
                nanosleep(&(struct timespec){0, 1000000}, NULL);
            }
            zkl_lock_release(election, NULL);
        }
    }
    return NULL;
}

/* One leads, then another, then the first is seen in the same term still: two leaders. */
static void look_for_two(void)
{
    for (int i = 0; i < CANDIDATES; i++) {
        int64_t token = zkl_lock_token(crowd[i]);
        for (int j = 0; token != 0 && j < CANDIDATES; j++) {
            if (j != i && zkl_lock_is_held(crowd[j])) {
                CU_ASSERT_NOT_EQUAL(zkl_lock_token(crowd[i]), token);
            }
        }
    }
}

static void test_never_two_leaders(void)
{
    pthread_t threads[CANDIDATES];
    struct storm storm;
    struct mailbox box = MAILBOX_INIT;
    over = false;
    terms = 0;
    storm_begin(&storm, 4711, 4);
    zkl_session *watcher = kit_open(NULL);
    zkl_election_observer *observer = observe(watcher, &box);
    for (int i = 0; i < CANDIDATES; i++) {
        crowd[i] = candidate(storm.sessions[i % STORM_SESSIONS], "x");
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, stand, crowd[i]), 0);
    }
    int64_t until = now_ms() + 3000;
    while (now_ms() < until) {
        storm_blow(&storm);
        for (int i = 0; i < 20; i++) {
            look_for_two();
        }
        nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
    over = true;
    for (int i = 0; i < CANDIDATES; i++) {
        pthread_join(threads[i], NULL);
        zkl_lock_free(crowd[i]);
    }
    storm_calm(&storm);
    CU_ASSERT(EVENTUALLY(kit_queue(watcher, PLACE_OF_IT) == 0)); /* nothing is left */
    CU_ASSERT(terms > 5);
    CU_ASSERT(mailbox_count(&box) > 3);
    storm_end(&storm);
    zkl_election_observer_free(observer);
    kit_close(watcher);
}

static void test_no_memory(void)
{
    struct test_heap heap = TEST_HEAP_INIT;
    struct mailbox box = MAILBOX_INIT;
    zkl_heap functions = test_heap(&heap);
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.heap = &functions;
    one = kit_open(&options);
    for (long nth = 1; nth < 40; nth++) {
        zkl_lock *a = NULL;
        zkl_election_observer *observer = NULL;
        test_heap_fail(&heap, nth, false);
        int code = zkl_election_observe(&observer, one, PLACE_OF_IT, on_leader, &box, NULL);
        CU_ASSERT(code == ZKL_OK || code == ZKL_ENOMEM);
        code = zkl_election_new(&a, one, PLACE_OF_IT, NULL, NULL);
        if (code == ZKL_OK) {
            code = zkl_lock_acquire(a, 5000, NULL, NULL);
        }
        CU_ASSERT(code == ZKL_OK || code == ZKL_ENOMEM);
        if (code == ZKL_OK) {
            code = zkl_election_publish(a, "x", 5000, NULL);
            CU_ASSERT(code == ZKL_OK || code == ZKL_ENOMEM);
        }
        test_heap_fail(&heap, 0, false);
        zkl_lock_free(a);
        zkl_election_observer_free(observer);
        CU_ASSERT(EVENTUALLY(kit_queue(one, PLACE_OF_IT) == 0));
    }
    kit_close(one);
    CU_ASSERT_EQUAL(test_heap_live(&heap), 0);
}

static void test_bad_calls(void)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_lock *election = NULL;
    zkl_election_observer *observer = NULL;
    struct mailbox box = MAILBOX_INIT;
    zkl_error err;
    kit_set_up(NULL);
    options.size = 1;
    CU_ASSERT_EQUAL(zkl_election_new(&election, one, PLACE_OF_IT, &options, &err), ZKL_EINVAL);
    options.size = sizeof options;
    options.metadata = "__REVOKE__";
    CU_ASSERT_EQUAL(zkl_election_new(&election, one, PLACE_OF_IT, &options, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_EQUAL(strstr(err.text, "metadata: "), err.text);
    options.metadata = NULL;
    options.release_timeout_ms = -1;
    CU_ASSERT_EQUAL(zkl_election_new(&election, one, PLACE_OF_IT, &options, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "release_timeout_ms"));
    CU_ASSERT_EQUAL(zkl_election_new(&election, one, "no/path", NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_election_new(NULL, one, PLACE_OF_IT, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_election_new(&election, NULL, PLACE_OF_IT, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NULL(election);
    CU_ASSERT_EQUAL(zkl_election_observe(&observer, one, "x", on_leader, &box, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_election_observe(&observer, one, PLACE_OF_IT, NULL, &box, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_election_observe(&observer, NULL, PLACE_OF_IT, on_leader, &box, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NULL(observer);
    CU_ASSERT_EQUAL(zkl_lock_acquire(NULL, 0, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_lock_cancel(NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_election_publish(NULL, "x", 0, &err), ZKL_EINVAL);
    CU_ASSERT_FALSE(zkl_lock_is_held(NULL));
    kit_tear_down();
}

TESTS("election", T(test_campaign_and_resign), T(test_asynchronous), T(test_observe), T(test_observer_in_trouble),
      T(test_observer_and_strangers), T(test_free_and_close), T(test_never_two_leaders), T(test_no_memory),
      T(test_bad_calls))
