/* zkl_election_run, on the in-process store: terms, the flag in each, and what ends them. */
#include "lock_kit.h"

#include <poll.h>
#include <stdatomic.h>

#define PLACE_OF_IT "/services/leader"

static zkl_lock *candidate(zkl_session *session)
{
    zkl_lock *election = NULL;
    CU_ASSERT_EQUAL_FATAL(zkl_election_new(&election, session, PLACE_OF_IT, NULL, NULL), ZKL_OK);
    return election;
}

struct term {
    atomic_int terms, overlaps, inside;
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
    term->overlaps += atomic_fetch_add(&term->inside, 1) != 0;
    term->tokens[number - 1] = token;
    term->led = zkl_lock_is_held(term->election);
    CU_ASSERT_FALSE(zkl_cancel_raised(cancel));
    CU_ASSERT(zkl_cancel_remaining_ms(cancel) > 0);
    if (term->harm && number == 1) {
        CU_ASSERT_EQUAL(zkl__memory_expire(term->harm), ZKL_OK);
    }
    if (term->waits || (term->harm && number == 1)) {
        struct pollfd poller = {.fd = zkl_cancel_fd(cancel), .events = POLLIN};
        term->readable = poll(&poller, 1, 10000) == 1;
        term->raised = zkl_cancel_raised(cancel);
    }
    atomic_fetch_sub(&term->inside, 1);
    return number == term->last ? 42 : 0;
}

static void test_run(void)
{
    kit_set_up(NULL);
    zkl_lock *a = candidate(one);
    struct term term = {.last = 3, .election = a};
    int result = 0;
    CU_ASSERT_EQUAL(zkl_election_run(a, 0, lead, &term, &result, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(result, 42);
    CU_ASSERT_EQUAL(term.terms, 3);
    CU_ASSERT(term.led);
    CU_ASSERT(term.tokens[0] < term.tokens[1] && term.tokens[1] < term.tokens[2]);
    CU_ASSERT_EQUAL(zkl_lock_state(a), ZKL_STATE_IDLE);
    CU_ASSERT_EQUAL(kit_queue(one, PLACE_OF_IT), 0);
    /* lost in the first term: told, and stands again */
    struct term lost = {.last = 2, .election = a, .harm = zkl_session_id(one)};
    CU_ASSERT_EQUAL(zkl_election_run(a, 0, lead, &lost, &result, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(lost.terms, 2);
    CU_ASSERT(lost.raised);
    CU_ASSERT(lost.readable);
    CU_ASSERT_EQUAL(lost.overlaps, 0);
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_election_run(a, 100000, lead, &lost, &result, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_election_run(NULL, 0, lead, NULL, NULL, &err), ZKL_EINVAL);
    zkl_lock_free(a);
    kit_tear_down();
}

struct runner {
    pthread_t thread;
    struct term term;
    int code;
    zkl_error err;
};

static void *run(void *arg)
{
    struct runner *runner = arg;
    runner->code = zkl_election_run(runner->term.election, 0, lead, &runner->term, NULL, &runner->err);
    return NULL;
}

static void test_cancel_ends_a_run(void)
{
    kit_set_up(NULL);
    struct runner leads = {.term = {.waits = true, .election = candidate(one)}};
    struct runner waits = {.term = {.waits = true, .election = candidate(two)}};
    CU_ASSERT_EQUAL_FATAL(pthread_create(&leads.thread, NULL, run, &leads), 0);
    CU_ASSERT(EVENTUALLY(leads.term.terms == 1));
    CU_ASSERT_EQUAL_FATAL(pthread_create(&waits.thread, NULL, run, &waits), 0);
    CU_ASSERT(EVENTUALLY(kit_queue(one, PLACE_OF_IT) == 2));
    CU_ASSERT_EQUAL(zkl_election_run(waits.term.election, 0, lead, &waits.term, NULL, NULL), ZKL_EDEADLK);
    CU_ASSERT_EQUAL(zkl_lock_cancel(waits.term.election), ZKL_OK);
    pthread_join(waits.thread, NULL);
    CU_ASSERT_EQUAL(waits.code, ZKL_ECANCELED);
    CU_ASSERT_EQUAL(waits.term.terms, 0);
    CU_ASSERT_EQUAL(zkl_lock_cancel(leads.term.election), ZKL_OK);
    pthread_join(leads.thread, NULL);
    CU_ASSERT_EQUAL(leads.code, ZKL_ECANCELED);
    CU_ASSERT(leads.term.raised);
    CU_ASSERT_EQUAL(zkl_lock_cancel(leads.term.election), ZKL_ENOTWAITING); /* nothing is remembered */
    CU_ASSERT_EQUAL(zkl_lock_acquire(leads.term.election, 5000, NULL, NULL), ZKL_OK);
    zkl_lock_free(leads.term.election);
    zkl_lock_free(waits.term.election);
    kit_tear_down();
}

/* The session is closed over the leader's head: the flag is raised, and no campaign follows. */
static void test_close_ends_a_run(void)
{
    kit_set_up(NULL);
    struct runner leads = {.term = {.waits = true, .election = candidate(one)}};
    CU_ASSERT_EQUAL_FATAL(pthread_create(&leads.thread, NULL, run, &leads), 0);
    CU_ASSERT(EVENTUALLY(leads.term.terms == 1));
    kit_tear_down();
    pthread_join(leads.thread, NULL);
    CU_ASSERT_EQUAL(leads.code, ZKL_ECLOSED);
    CU_ASSERT(leads.term.raised);
    zkl_lock_free(leads.term.election);
}

struct replaced {
    zkl_lock *election, *rival;
    int terms;
    int64_t second;
};

static int lead_and_lead_again(const zkl_cancel *cancel, int64_t token, void *payload)
{
    struct replaced *replaced = payload;
    zkl_grant grant;
    replaced->terms++;
    CU_ASSERT_EQUAL(zkl_lock_release(replaced->election, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(replaced->rival, 10000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(replaced->rival, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(replaced->election, 10000, &grant, NULL), ZKL_OK);
    CU_ASSERT(grant.token > token && zkl_cancel_raised(cancel));
    replaced->second = grant.token;
    return 42;
}

/* Somebody else resigns and leads again with the same object: that term is not the run's. */
static void test_a_term_that_is_replaced(void)
{
    kit_set_up(NULL);
    struct replaced replaced = {candidate(one), candidate(two), 0, 0};
    int result = 0;
    CU_ASSERT_EQUAL(zkl_election_run(replaced.election, 0, lead_and_lead_again, &replaced, &result, NULL), ZKL_ELOST);
    CU_ASSERT_EQUAL(result, 42);
    CU_ASSERT_EQUAL(replaced.terms, 1);
    CU_ASSERT_EQUAL(zkl_lock_token(replaced.election), replaced.second);
    CU_ASSERT_EQUAL(zkl_lock_release(replaced.election, NULL), ZKL_OK);
    zkl_lock_free(replaced.election);
    zkl_lock_free(replaced.rival);
    kit_tear_down();
}

TESTS("election run", T(test_run), T(test_a_term_that_is_replaced), T(test_cancel_ends_a_run), T(test_close_ends_a_run))
