/* A candidate that stands again and again: in a thread of the session, and in the one thread of an event loop. */
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <zklock/testing.h>

#include "lock_kit.h"

#define PATH "/election"

static atomic_int leaders, most;

static void on_stand(zkl_lock *lock, zkl_state state, int64_t token, const zkl_error *err, void *payload)
{
    struct letter letter = {.from = lock, .code = (int)state, .grant = {.token = token}, .thread = pthread_self()};
    letter.granted = err->code != ZKL_OK;
    snprintf(letter.text, sizeof letter.text, "%s", err->code == ZKL_OK ? "" : zkl_error_name(err->code));
    mailbox_put(payload, letter);
}

static zkl_lock *candidate(zkl_session *session, const zkl_lock_options *options)
{
    zkl_lock *lock = NULL;
    CU_ASSERT_EQUAL_FATAL(zkl_election_new(&lock, session, PATH, options, NULL), ZKL_OK);
    return lock;
}

static void test_campaign_lead_lost_campaign(void)
{
    zkl_session_options options = kit_short();
    struct mailbox box = MAILBOX_INIT;
    kit_set_up(&options);
    zkl_lock *lock = candidate(one, NULL);
    CU_ASSERT_EQUAL(zkl_election_leave(lock, NULL), ZKL_ENOTWAITING);
    CU_ASSERT_EQUAL(zkl_election_stand(lock, on_stand, &box, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_election_stand(lock, on_stand, &box, NULL), ZKL_EDEADLK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, NULL), ZKL_EDEADLK);
    int64_t token = 0;
    for (int round = 0; round < 3; round++) {
        CU_ASSERT_TRUE(mailbox_wait(&box, 1));
        CU_ASSERT_EQUAL(box.letters[0].code, ZKL_STATE_HELD);
        CU_ASSERT_TRUE(box.letters[0].grant.token > token);
        token = box.letters[0].grant.token;
        CU_ASSERT_EQUAL(zkl_lock_token(lock), token);
        mailbox_clear(&box);
        if (round == 0) {
            kit_remove_node(lock); /* by an operator */
        } else if (round == 1) {
            CU_ASSERT_EQUAL(zkl_testing_expire(one, NULL), ZKL_OK);
        }
        if (round < 2) {
            CU_ASSERT_TRUE(EVENTUALLY(mailbox_count(&box) > 0 && box.letters[0].code != ZKL_STATE_JEOPARDY) ||
                           EVENTUALLY(mailbox_count(&box) > 1));
            size_t at = box.letters[0].code == ZKL_STATE_JEOPARDY;
            CU_ASSERT_EQUAL(box.letters[at].code, ZKL_STATE_LOST);
            CU_ASSERT_STRING_EQUAL(box.letters[at].text, "ZKL_ELOST");
            CU_ASSERT_EQUAL(box.letters[at].grant.token, token);
            CU_ASSERT_TRUE(mailbox_wait(&box, at + 2));
            box.letters[0] = box.letters[at + 1];
        }
    }
    CU_ASSERT_EQUAL(zkl_election_leave(lock, NULL), ZKL_OK);
    CU_ASSERT_TRUE(EVENTUALLY(mailbox_last(&box) == ZKL_STATE_IDLE));
    CU_ASSERT_TRUE(EVENTUALLY(kit_queue(two, PATH) == 0));
    CU_ASSERT_TRUE(EVENTUALLY(zkl_election_leave(lock, NULL) == ZKL_ENOTWAITING));
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 10000, NULL, NULL), ZKL_OK); /* an object as any other again */
    zkl_lock_free(lock);
    kit_tear_down();
}

/* Jeopardy, the loss by the clock, and back; the second candidate leads meanwhile, never beside the first. */
static void count_leaders(zkl_lock *lock, zkl_state state, int64_t token, const zkl_error *err, void *payload)
{
    if (state == ZKL_STATE_HELD && mailbox_last(payload) != ZKL_STATE_JEOPARDY) {
        int now = atomic_fetch_add(&leaders, 1) + 1;
        atomic_store(&most, now > atomic_load(&most) ? now : atomic_load(&most));
    } else if (state == ZKL_STATE_LOST) {
        atomic_fetch_sub(&leaders, 1);
    }
    on_stand(lock, state, token, err, payload);
}

static void test_cut(void)
{
    zkl_session_options options = kit_short();
    struct mailbox box = MAILBOX_INIT, other = MAILBOX_INIT;
    kit_set_up(&options);
    atomic_store(&leaders, 0);
    atomic_store(&most, 0);
    zkl_lock *lock = candidate(one, NULL), *rival = candidate(two, NULL);
    CU_ASSERT_EQUAL(zkl_election_stand(lock, count_leaders, &box, NULL), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(zkl_election_stand(rival, count_leaders, &other, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_testing_cut(one, NULL), ZKL_OK);
    CU_ASSERT_TRUE(EVENTUALLY(mailbox_last(&box) == ZKL_STATE_LOST));
    CU_ASSERT_EQUAL(zkl_testing_expire(one, NULL), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&other, 1));
    CU_ASSERT_EQUAL(zkl_testing_heal(one, NULL), ZKL_OK);
    CU_ASSERT_TRUE(EVENTUALLY(kit_queue(two, PATH) == 2));
    atomic_fetch_sub(&leaders, 1);
    CU_ASSERT_EQUAL(zkl_lock_release(rival, NULL), ZKL_OK); /* gives way, and stands again */
    CU_ASSERT_TRUE(EVENTUALLY(mailbox_last(&box) == ZKL_STATE_HELD));
    CU_ASSERT_TRUE(EVENTUALLY(kit_queue(two, PATH) == 2));
    atomic_fetch_sub(&leaders, 1);
    zkl_lock_free(lock); /* leads just now */
    CU_ASSERT_EQUAL(mailbox_last(&box), ZKL_STATE_IDLE);
    CU_ASSERT_TRUE(EVENTUALLY(mailbox_last(&other) == ZKL_STATE_HELD));
    CU_ASSERT_TRUE(atomic_load(&most) <= 1);
    zkl_session_close(two, 1000);
    CU_ASSERT_EQUAL(mailbox_last(&other), ZKL_STATE_IDLE);
    zkl_lock_free(rival);
    kit_close(one);
}

static void test_error_classes(void)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_stop stop = ZKL_STOP_INIT;
    kit_set_up(NULL);
    zkl_lock *lock = candidate(one, NULL);
    CU_ASSERT_EQUAL(zkl_testing_refuse(one, ZKL_EAUTH, 1, NULL), ZKL_OK); /* final */
    CU_ASSERT_EQUAL(zkl_election_stand(lock, on_stand, &box, NULL), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_STATE_IDLE);
    CU_ASSERT_STRING_EQUAL(box.letters[0].text, "ZKL_EAUTH");
    CU_ASSERT_TRUE(EVENTUALLY(zkl_election_leave(lock, NULL) == ZKL_ENOTWAITING));
    mailbox_clear(&box);
    CU_ASSERT_EQUAL(zkl_testing_refuse(one, ZKL_ELIMIT, 2, NULL), ZKL_OK); /* may pass: again, later */
    CU_ASSERT_TRUE(EVENTUALLY(zkl_election_stand(lock, on_stand, &box, NULL) == ZKL_OK));
    CU_ASSERT_TRUE(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_STATE_HELD);
    CU_ASSERT_EQUAL(zkl_election_leave(lock, NULL), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&box, 2));
    CU_ASSERT_EQUAL(box.letters[1].code, ZKL_STATE_IDLE);
    CU_ASSERT_FALSE(box.letters[1].granted); /* no error */
    CU_ASSERT_TRUE(EVENTUALLY(zkl_lock_set_stop(lock, &stop, NULL) == ZKL_OK));
    CU_ASSERT_TRUE(EVENTUALLY(zkl_election_stand(lock, on_stand, &box, NULL) == ZKL_OK));
    CU_ASSERT_TRUE(mailbox_wait(&box, 3));
    zkl_stop_raise(&stop);
    CU_ASSERT_TRUE(mailbox_wait(&box, 4));
    CU_ASSERT_EQUAL(box.letters[3].code, ZKL_STATE_IDLE);
    CU_ASSERT_STRING_EQUAL(box.letters[3].text, "ZKL_ECANCELED");
    CU_ASSERT_TRUE(EVENTUALLY(kit_queue(two, PATH) == 0)); /* it has resigned */
    CU_ASSERT_EQUAL(zkl_election_stand(lock, on_stand, &box, NULL), ZKL_ECANCELED);
    CU_ASSERT_EQUAL(zkl_election_stand(lock, NULL, NULL, NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_election_stand(NULL, on_stand, NULL, NULL), ZKL_EINVAL);
    zkl_lock_free(lock);
    CU_ASSERT_EQUAL(mailbox_count(&box), 4);
    kit_tear_down();
}

/* One thread polls and dispatches; a candidate frees itself in its last call. */
static void free_at_end(zkl_lock *lock, zkl_state state, int64_t token, const zkl_error *err, void *payload)
{
    on_stand(lock, state, token, err, payload);
    if (state == ZKL_STATE_HELD) {
        CU_ASSERT_EQUAL(zkl_election_leave(lock, NULL), ZKL_OK);
    } else if (state == ZKL_STATE_IDLE) {
        zkl_lock_free(lock);
    }
}

static void test_event_loop(void)
{
    zkl_session_options options = kit_dispatched();
    struct mailbox box = MAILBOX_INIT;
    one = kit_open(&options);
    two = kit_open(NULL);
    for (int i = 0; i < 10; i++) {
        CU_ASSERT_EQUAL(zkl_election_stand(candidate(one, NULL), free_at_end, &box, NULL), ZKL_OK);
    }
    while (mailbox_count(&box) < 20) {
        struct pollfd fd = {.fd = zkl_session_fd(one), .events = POLLIN};
        CU_ASSERT_EQUAL_FATAL(poll(&fd, 1, 10000), 1);
        CU_ASSERT_TRUE(zkl_session_dispatch(one) >= 0);
    }
    for (size_t i = 0; i < 20; i++) { /* one leads and leaves, then the next */
        CU_ASSERT_EQUAL(box.letters[i].code, i % 2 == 0 ? ZKL_STATE_HELD : ZKL_STATE_IDLE);
        CU_ASSERT_TRUE(pthread_equal(box.letters[i].thread, pthread_self()));
        CU_ASSERT_PTR_EQUAL(box.letters[i].from, box.letters[i & ~(size_t)1].from);
    }
    CU_ASSERT_TRUE(EVENTUALLY(kit_queue(two, PATH) == 0));
    kit_tear_down();
}

TESTS("election stand", T(test_campaign_lead_lost_campaign), T(test_cut), T(test_error_classes), T(test_event_loop))
