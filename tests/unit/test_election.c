/* Elections, on the in-process store: what zklock/election.h promises. zkl_election_run: unit_section. */
#include "lock_kit.h"

#define PATH "/services/leader"

static zkl_lock *candidate(zkl_session *session, const char *value)
{
    return kit_make(ZKL_RECIPE_ELECTION, session, PATH, LOCK_OPTIONS(.metadata = value));
}

/* --- observers ----------------------------------------------------------------------------------------------------- */

static zkl_election_observer *observe(zkl_session *session, struct mailbox *box)
{
    zkl_election_observer *observer;
    ASSERT_OK_FATAL(zkl_election_observe(&observer, session, PATH, on_leader, box, NULL));
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

#define TOLD(nth, text) CU_ASSERT_STRING_EQUAL(news(&box, nth), text)

TEST_WITH_SESSIONS(test_observe)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_election_observer *observer = observe(two, &box);
    TOLD(1, "nobody"); /* there is no directory yet */
    zkl_lock *a = candidate(one, "a"), *b = candidate(two, "b");
    kit_acquire(a);
    TOLD(2, "a");
    CU_ASSERT_EQUAL(box.letters[1].grant.token, zkl_lock_token(a));
    ASSERT_OK(zkl_election_publish(a, "a, ready", 10000, NULL));
    TOLD(3, "a, ready");
    struct mailbox done = MAILBOX_INIT;
    ASSERT_OK(zkl_lock_acquire_async(b, 5000, on_acquired, &done, NULL));
    kit_await_queue(one, PATH, 2);
    kit_release(a);
    TOLD(4, "b");
    CU_ASSERT(mailbox_wait(&done, 1));
    kit_release(b);
    TOLD(5, "nobody"); /* the list is empty */
    kit_acquire(a);
    TOLD(6, "a, ready"); /* what was published last */
    zkl_election_observer_free(observer);
    kit_release(a);
    observer = observe(one, &box);
    TOLD(7, "nobody");
    ASSERT_OK(zkl__memory_reap(PLACE)); /* the directory goes, and comes again */
    kit_acquire(b);
    TOLD(8, "b");
    CU_ASSERT_EQUAL(mailbox_count(&box), 8);
    zkl_election_observer_free(observer);
}

/* What was put there by hand is no candidate; what stands behind the leader wakes nobody. */
TEST_WITH_SESSIONS(test_observer_and_strangers)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *a = candidate(one, "a");
    kit_acquire(a);
    kit_release(a);
    kit_must_write(ZKL__OP_CREATE, PATH, "latch-0000000000", NULL);
    kit_must_write(ZKL__OP_CREATE, PATH, "something", NULL);
    zkl_election_observer *observer = observe(two, &box);
    TOLD(1, "nobody");
    kit_acquire(a);
    TOLD(2, "a");
    zkl_lock *others[5];
    struct mailbox done = MAILBOX_INIT;
    for (int i = 0; i < 5; i++) {
        others[i] = candidate(two, "other");
        ASSERT_OK(zkl_lock_acquire_async(others[i], 5000, on_acquired, &done, NULL));
    }
    kit_await_queue(one, PATH, 7);
    for (int i = 0; i < 5; i++) {
        kit_free(others[i]);
    }
    /* an operator removes the leader's node */
    kit_remove_node(a);
    TOLD(3, "nobody");
    CU_ASSERT_EQUAL(mailbox_count(&box), 3);
    ASSERT_EVENTUALLY(!zkl_lock_is_held(a));
    CU_ASSERT_EQUAL(zkl_election_publish(a, "x", 1000, NULL), ZKL_ENOTHELD);
    zkl_election_observer_free(observer);
}

static void forge(enum zkl__op_kind kind, int many)
{
    for (int i = 0; i < many; i++) {
        char name[40];
        snprintf(name, sizeof name, "%s-latch-%010d", i % 2 ? "a" : "b", i);
        kit_must_write(kind, PATH, name, NULL);
    }
}

/* Each of them is read once, and not listed once more. */
TEST_WITH_SESSIONS(test_observer_behind_forgeries)
{
    enum { FORGED = 300 };
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *a = candidate(one, "a"), *b = candidate(one, "b");
    kit_acquire(a);
    kit_release(a);
    forge(ZKL__OP_CREATE, FORGED);
    kit_acquire(a);
    uint64_t before = kit_requests(two);
    zkl_election_observer *observer = observe(two, &box);
    TOLD(1, "a");
    CU_ASSERT(kit_requests(two) - before < 2 * FORGED + 20); /* a get and an unwatch of each */
    struct mailbox done = MAILBOX_INIT;
    ASSERT_OK(zkl_lock_acquire_async(b, 5000, on_acquired, &done, NULL));
    ASSERT_EVENTUALLY(kit_queue(one, PATH) == FORGED + 2);
    kit_release(a);
    TOLD(2, "b");
    CU_ASSERT_EQUAL(mailbox_code(&done, 1), ZKL_OK);
    zkl_election_observer_free(observer);
}

/* Of two that were read none is left: another one stands before the next leader. */
TEST_WITH_SESSIONS(test_observer_behind_another_forgery)
{
    struct mailbox box = MAILBOX_INIT;
    static struct mailbox done = MAILBOX_INIT; /* c still waits when the test is over, and is told then */
    zkl_lock *a = candidate(one, "a");
    kit_acquire(a);
    kit_release(a);
    forge(ZKL__OP_CREATE, 2);
    kit_acquire(a);
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(zkl_lock_acquire_async(candidate(one, i ? "c" : "b"), 5000, on_acquired, &done, NULL));
        ASSERT_EVENTUALLY(kit_queue(one, PATH) == (size_t)i + 4);
    }
    zkl_election_observer *observer = observe(two, &box);
    TOLD(1, "a");
    forge(ZKL__OP_DELETE, 2);
    forge(ZKL__OP_CREATE, 1);
    kit_release(a);
    TOLD(2, "b");
    zkl_election_observer_free(observer);
}

static void free_observer(zkl_election_observer *observer, const zkl_leader *leader, void *payload)
{
    zkl_election_observer_free(observer);
    mailbox_put(payload, (struct letter){.from = observer});
}

static void on_stand(zkl_lock *lock, zkl_state state, int64_t token, const zkl_error *err, void *payload)
{
    struct letter letter = {.from = lock, .code = (int)state, .grant = {.token = token}, .thread = pthread_self()};
    letter.granted = err->code != ZKL_OK;
    snprintf(letter.text, sizeof letter.text, "%s", err->code == ZKL_OK ? "" : zkl_error_name(err->code));
    mailbox_put(payload, letter);
}

TEST(test_free_and_close)
{
    struct mailbox box = MAILBOX_INIT, ended = MAILBOX_INIT;
    zkl_election_observer *observer;
    kit_set_up(NULL);
    ASSERT_OK(zkl_election_observe(&observer, one, PATH, free_observer, &box, NULL));
    CU_ASSERT(mailbox_wait(&box, 1));
    observer = observe(two, &box);
    CU_ASSERT(mailbox_wait(&box, 2));
    zkl_lock *a = candidate(two, NULL);
    kit_acquire(a);
    kit_close(one);
    /* between two acquires */
    ASSERT_OK(zkl_testing_refuse(two, ZKL_ELIMIT, 1, NULL));
    zkl_lock *b = candidate(two, NULL);
    ASSERT_OK(zkl_election_stand(b, on_stand, &ended, NULL));
    CU_ASSERT(kit_held_for(a, 50));
    kit_close(two);
    CU_ASSERT_STRING_EQUAL(ended.letters[0].text, "ZKL_ECLOSED");
    kit_free(b);
    kit_free(a); /* after the close of what they were made from */
    zkl_election_observer_free(observer);
}

/* --- again and again -------------------------------------------------------------------------------------------------- */

TEST_WITH_SESSIONS(test_campaign_lead_lost_campaign)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *lock = candidate(one, NULL);
    CU_ASSERT_EQUAL(zkl_election_leave(lock, NULL), ZKL_ENOTWAITING);
    ASSERT_OK(zkl_election_stand(lock, on_stand, &box, NULL));
    CU_ASSERT_EQUAL(zkl_election_stand(lock, on_stand, &box, NULL), ZKL_EDEADLK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, NULL), ZKL_EDEADLK);
    int64_t token = 0;
    for (int round = 0; round < 3; round++) {
        CU_ASSERT_EQUAL(mailbox_code(&box, 1), ZKL_STATE_HELD);
        CU_ASSERT_TRUE(box.letters[0].grant.token > token);
        token = box.letters[0].grant.token;
        CU_ASSERT_EQUAL(zkl_lock_token(lock), token);
        mailbox_clear(&box);
        if (round == 0) {
            kit_remove_node(lock); /* by an operator */
        } else if (round == 1) {
            ASSERT_OK(zkl_testing_expire(one, NULL));
        }
        if (round < 2) {
            ASSERT_EVENTUALLY(mailbox_count(&box) > 1 ||
                              (mailbox_count(&box) > 0 && box.letters[0].code != ZKL_STATE_JEOPARDY));
            size_t at = box.letters[0].code == ZKL_STATE_JEOPARDY;
            CU_ASSERT_EQUAL(box.letters[at].code, ZKL_STATE_LOST);
            CU_ASSERT_STRING_EQUAL(box.letters[at].text, "ZKL_ELOST");
            CU_ASSERT_EQUAL(box.letters[at].grant.token, token);
            CU_ASSERT_TRUE(mailbox_wait(&box, at + 2));
            box.letters[0] = box.letters[at + 1];
        }
    }
    ASSERT_OK(zkl_election_leave(lock, NULL));
    ASSERT_EVENTUALLY(mailbox_last(&box) == ZKL_STATE_IDLE);
    kit_await_queue(two, PATH, 0);
    ASSERT_EVENTUALLY(zkl_election_leave(lock, NULL) == ZKL_ENOTWAITING);
    kit_acquire(lock); /* an object as any other again */
}

/* Jeopardy, the loss by the clock, and back; the second candidate leads meanwhile. That it is never beside the first: sim, invariant
 * `exclusion`. */
TEST(test_cut)
{
    struct mailbox box = MAILBOX_INIT, other = MAILBOX_INIT;
    const zkl_session_options options = kit_short();
    one = kit_open(&options);
    two = kit_open(NULL);
    zkl_lock *lock = candidate(one, NULL), *rival = candidate(two, NULL);
    ASSERT_OK(zkl_election_stand(lock, on_stand, &box, NULL));
    CU_ASSERT_TRUE(mailbox_wait(&box, 1));
    ASSERT_OK(zkl_election_stand(rival, on_stand, &other, NULL));
    ASSERT_OK(zkl_testing_cut(one, NULL));
    ASSERT_EVENTUALLY(mailbox_last(&box) == ZKL_STATE_LOST);
    ASSERT_OK(zkl_testing_expire(one, NULL));
    CU_ASSERT_TRUE(mailbox_wait(&other, 1));
    ASSERT_OK(zkl_testing_heal(one, NULL));
    kit_await_queue(two, PATH, 2);
    kit_release(rival); /* gives way, and stands again */
    ASSERT_EVENTUALLY(mailbox_last(&box) == ZKL_STATE_HELD);
    kit_await_queue(two, PATH, 2);
    kit_free(lock); /* leads just now */
    CU_ASSERT_EQUAL(mailbox_last(&box), ZKL_STATE_IDLE);
    ASSERT_EVENTUALLY(mailbox_last(&other) == ZKL_STATE_HELD);
    zkl_session_close(two, 1000);
    CU_ASSERT_EQUAL(mailbox_last(&other), ZKL_STATE_IDLE);
    kit_free(rival);
    kit_close(one);
}

TEST_WITH_SESSIONS(test_error_classes)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_stop stop = ZKL_STOP_INIT;
    zkl_lock *lock = candidate(one, NULL);
    ASSERT_OK(zkl_testing_refuse(one, ZKL_EAUTH, 1, NULL)); /* final */
    ASSERT_OK(zkl_election_stand(lock, on_stand, &box, NULL));
    CU_ASSERT_EQUAL(mailbox_code(&box, 1), ZKL_STATE_IDLE);
    CU_ASSERT_STRING_EQUAL(box.letters[0].text, "ZKL_EAUTH");
    ASSERT_EVENTUALLY(zkl_election_leave(lock, NULL) == ZKL_ENOTWAITING);
    mailbox_clear(&box);
    ASSERT_OK(zkl_testing_refuse(one, ZKL_ELIMIT, 2, NULL)); /* may pass: again, later */
    ASSERT_EVENTUALLY(zkl_election_stand(lock, on_stand, &box, NULL) == ZKL_OK);
    CU_ASSERT_EQUAL(mailbox_code(&box, 1), ZKL_STATE_HELD);
    ASSERT_OK(zkl_election_leave(lock, NULL));
    CU_ASSERT_EQUAL(mailbox_code(&box, 2), ZKL_STATE_IDLE);
    CU_ASSERT_FALSE(box.letters[1].granted); /* no error */
    ASSERT_EVENTUALLY(zkl_lock_set_stop(lock, &stop, NULL) == ZKL_OK);
    ASSERT_EVENTUALLY(zkl_election_stand(lock, on_stand, &box, NULL) == ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&box, 3));
    zkl_stop_raise(&stop);
    CU_ASSERT_EQUAL(mailbox_code(&box, 4), ZKL_STATE_IDLE);
    CU_ASSERT_STRING_EQUAL(box.letters[3].text, "ZKL_ECANCELED");
    kit_await_queue(two, PATH, 0); /* it has resigned */
    CU_ASSERT_EQUAL(zkl_election_stand(lock, on_stand, &box, NULL), ZKL_ECANCELED);
    kit_free(lock);
    CU_ASSERT_EQUAL(mailbox_count(&box), 4);
}

static void *publish(void *lock)
{
    CU_ASSERT_EQUAL(zkl_election_publish(lock, "x", 5000, NULL), ZKL_ECANCELED);
    return NULL;
}

TEST_WITH_SESSIONS(test_a_free_ends_a_publish)
{
    pthread_t thread;
    zkl_lock *lock = candidate(one, NULL);
    kit_acquire(lock);
    kit_delay(one, true);
    uint64_t before = kit_requests(one);
    kit_start_thread(&thread, publish, lock);
    ASSERT_EVENTUALLY(kit_requests(one) > before);
    kit_free(lock);
    pthread_join(thread, NULL);
    kit_delay(one, false);
}

static char published[5];

static void on_published(int code, const zkl_error *err, void *value)
{
    ASSERT_OK(code);
    strcat(published, value);
}

/* The servers put off the first one, which is then written again: the others wait for it. */
TEST_WITH_SESSIONS_OF(kit_dispatched, test_the_last_that_is_published_stays)
{
    char values[4][2] = {"1", "2", "3", "4"};
    zkl_queue *queue = NULL;
    zkl_lock *lock = candidate(one, NULL);
    kit_acquire(lock);
    kit_suspend(one);
    ASSERT_OK(zkl__memory_refuse(zkl_session_id(one), ZKL__RC_NOTAPPLIED, 1));
    for (int i = 0; i < 4; i++) {
        ASSERT_OK(zkl_election_publish_async(lock, values[i], 10000, on_published, values[i], NULL));
    }
    kit_resume(one);
    ASSERT_EVENTUALLY(zkl_session_dispatch(one) >= 0 && strlen(published) == 4);
    CU_ASSERT_STRING_EQUAL(published, "1234");
    for (int term = 0; term < 2; term++) {
        ASSERT_OK_FATAL(zkl_queue_list(&queue, two, PATH, 10000, NULL));
        CU_ASSERT_STRING_EQUAL(queue->entries[0].data, "4");
        zkl_queue_free(queue);
        kit_release(lock);
        kit_acquire(lock);
    }
}

static void stand_again(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    CU_ASSERT_EQUAL(code, ZKL_ECANCELED);
    CU_ASSERT_EQUAL(zkl_election_stand(lock, on_stand, payload, NULL), ZKL_ECANCELED);
}

/* What a free calls back stands no more: the memory would go while it campaigns. */
TEST_WITH_SESSIONS_OF(kit_dispatched, test_no_campaign_of_what_is_freed)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *leader = candidate(two, NULL), *lock = candidate(one, NULL);
    kit_acquire(leader);
    ASSERT_OK(zkl_lock_acquire_async(lock, ZKL_WAIT_FOREVER, stand_again, &box, NULL));
    kit_free(lock);
    CU_ASSERT_EQUAL(zkl_session_dispatch(one), 0);
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
}

/* Between two acquires, too. */
TEST_WITH_SESSIONS_OF(kit_dispatched, test_a_candidate_keeps_its_stop_token)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_stop stop = ZKL_STOP_INIT;
    zkl_lock *lock = candidate(one, NULL);
    ASSERT_OK(zkl_election_stand(lock, on_stand, &box, NULL));
    CU_ASSERT_EQUAL(zkl_lock_set_stop(lock, &stop, NULL), ZKL_EDEADLK);
    ASSERT_OK(zkl_lock_cancel(lock)); /* and its last call */
    CU_ASSERT_EQUAL(zkl_session_dispatch(one), 1);
    CU_ASSERT_STRING_EQUAL(box.letters[0].text, "ZKL_ECANCELED");
}

static void free_in_term(zkl_lock *lock, zkl_state state, int64_t token, const zkl_error *err, void *payload)
{
    if (state == ZKL_STATE_HELD) {
        kit_free(lock);
        CU_ASSERT_EQUAL(mailbox_count(payload), 0);
    }
    on_stand(lock, state, token, err, payload);
}

/* The last call follows when this one has returned. */
TEST_WITH_SESSIONS(test_a_leader_frees_itself)
{
    struct mailbox box = MAILBOX_INIT;
    ASSERT_OK(zkl_election_stand(candidate(one, NULL), free_in_term, &box, NULL));
    CU_ASSERT_EQUAL(mailbox_code(&box, 1), ZKL_STATE_HELD);
    CU_ASSERT_EQUAL(mailbox_code(&box, 2), ZKL_STATE_IDLE);
    kit_await_queue(two, PATH, 0);
}

/* One thread polls and dispatches; a candidate frees itself in its last call. */
static void free_at_end(zkl_lock *lock, zkl_state state, int64_t token, const zkl_error *err, void *payload)
{
    on_stand(lock, state, token, err, payload);
    if (state == ZKL_STATE_HELD) {
        ASSERT_OK(zkl_election_leave(lock, NULL));
    } else if (state == ZKL_STATE_IDLE) {
        kit_free(lock);
    }
}

TEST_WITH_SESSIONS_OF(kit_dispatched, test_event_loop)
{
    struct mailbox box = MAILBOX_INIT;
    for (int i = 0; i < 10; i++) {
        ASSERT_OK(zkl_election_stand(candidate(one, NULL), free_at_end, &box, NULL));
    }
    while (mailbox_count(&box) < 20) {
        CU_ASSERT_FATAL(kit_readable(one, 10000));
        CU_ASSERT_TRUE(zkl_session_dispatch(one) >= 0);
    }
    for (size_t i = 0; i < 20; i++) { /* one leads and leaves, then the next */
        CU_ASSERT_EQUAL(box.letters[i].code, i % 2 == 0 ? ZKL_STATE_HELD : ZKL_STATE_IDLE);
        CU_ASSERT_TRUE(pthread_equal(box.letters[i].thread, pthread_self()));
        CU_ASSERT_PTR_EQUAL(box.letters[i].from, box.letters[i & ~(size_t)1].from);
    }
    kit_await_queue(two, PATH, 0);
}

TESTS("election")
