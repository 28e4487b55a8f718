/* testing - a service's own unit test: what does it do when the lock is in danger, and when it is
 * lost? It needs no server and takes two seconds.
 *   example_testing
 *
 * The service is `struct biller`: it bills customers one by one while it holds the lock. In
 * jeopardy it begins no other customer; after a loss it has to stop, and says which was the last
 * one that the lock covered. */
#include <zklock/testing.h>
#include <zklock/zklock.h>

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

/* --- the service: knows nothing of tests ------------------------------------------------------ */

struct biller {
    zkl_lock *lock;
    atomic_int state; /* a zkl_state, as the lock's callback reported it */
    int billed;
};

static void on_state(zkl_lock *lock, zkl_state state, void *payload)
{
    (void)lock;
    struct biller *biller = payload;
    atomic_store(&biller->state, (int)state);
}

/* False: not now (in jeopardy), or not any more (lost). */
static bool bill_one(struct biller *biller)
{
    if (atomic_load(&biller->state) != ZKL_STATE_HELD || !zkl_lock_is_held(biller->lock)) {
        return false;
    }
    biller->billed++; /* the database would be given zkl_lock_token here */
    return true;
}

/* --- its unit test ---------------------------------------------------------------------------- */

static int failures;

static void expect(bool so, const char *what)
{
    printf("%s: %s\n", so ? "ok" : "FAILED", what);
    failures += !so;
}

/* Waits for the callback: ten seconds at most, for a machine that is busy. */
static bool becomes(struct biller *biller, zkl_state state)
{
    for (int i = 0; i < 10000 && atomic_load(&biller->state) != (int)state; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return atomic_load(&biller->state) == (int)state;
}

static void rehearse(zkl_session *session, struct biller *biller)
{
    expect(zkl_lock_acquire(biller->lock, 30000, NULL, NULL) == ZKL_OK &&
               becomes(biller, ZKL_STATE_HELD),
           "granted");
    expect(bill_one(biller), "bills while it holds");

    zkl_testing_cut(session, NULL);
    expect(becomes(biller, ZKL_STATE_JEOPARDY) || becomes(biller, ZKL_STATE_LOST),
           "told of the danger");
    expect(!bill_one(biller), "bills nobody in jeopardy");
    expect(becomes(biller, ZKL_STATE_LOST), "told of the loss");
    expect(!bill_one(biller), "bills nobody after a loss");

    zkl_testing_heal(session, NULL);
    expect(zkl_lock_release(biller->lock, NULL) == ZKL_ELOST, "the release says that it was lost");
    expect(zkl_lock_acquire(biller->lock, 30000, NULL, NULL) == ZKL_OK &&
               becomes(biller, ZKL_STATE_HELD),
           "granted again");
    expect(bill_one(biller) && biller->billed == 2, "goes on");
    expect(zkl_lock_release(biller->lock, NULL) == ZKL_OK, "released");

    zkl_error err;
    zkl_testing_refuse(session, ZKL_EAUTH, 1, NULL);
    expect(zkl_lock_acquire(biller->lock, 30000, NULL, &err) == ZKL_EAUTH,
           "an access list refuses");
}

int main(void)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_session *session;
    zkl_error err;
    options.session_timeout_ms =
        2000; /* 300 would do, but not on a machine that is busy with other things */
    options.tick_ms = 100;
    options.leader_pause_ms = 20;
    if (zkl_session_open(&session, "memory:testing", &options, &err) != ZKL_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    struct biller biller = {0};
    zkl_lock_options lock_options = ZKL_LOCK_OPTIONS_INIT;
    lock_options.state_fn = on_state;
    lock_options.payload = &biller;
    if (zkl_lock_new(&biller.lock, session, "/locks/billing", &lock_options, &err) != ZKL_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    rehearse(session, &biller);
    zkl_lock_free(biller.lock);
    zkl_session_close(session, 1000);
    return failures > 0;
}
