/* From every state a contender can be in, every way it can end: one completion, and nothing left. */
#include "script.h"

#include <string.h>

/* --- the ways into each state: `me` is in it afterwards, with whatever is under way ---------------------------------- */

static void contend(int64_t deadline, bool fail_on_expiry)
{
    struct zkl__contender_config config = script_config(&me, "/q");
    config.fail_on_expiry = fail_on_expiry;
    script_contend(&me, &config);
    script_start(&me, deadline, false);
}

static void blocked(void)
{
    script_connect();
    script_put(SCRIPT_BLOCKER, SCRIPT_STRANGER);
    script.next_sequence = 1;
}

static void into_new(int64_t deadline, bool fail)
{
    contend(deadline, fail);
}

static void into_creating(int64_t deadline, bool fail)
{
    script_connect();
    contend(deadline, fail);
}

static void into_creating_again(int64_t deadline, bool fail)
{
    into_creating(deadline, fail);
    script_suspend(3);
    script_connect();
}

static void into_doubt(int64_t deadline, bool fail)
{
    into_creating(deadline, fail);
    script_suspend(3);
}

static void into_making(int64_t deadline, bool fail)
{
    script_remove("/q");
    script_connect();
    script_answer_all();
    contend(deadline, fail);
    script_answer();
}

static void into_watching(int64_t deadline, bool fail)
{
    blocked();
    contend(deadline, fail);
    script_answer_all();
}

static void into_watching_unanswered(int64_t deadline, bool fail)
{
    blocked();
    script_answer_all();
    contend(deadline, fail);
    script_answer();
    script_answer();
}

static void into_listing(int64_t deadline, bool fail)
{
    into_watching(deadline, fail);
    script_suspend(0);
    script_connect();
}

static void into_listing_with_a_double(int64_t deadline, bool fail)
{
    into_creating_again(deadline, fail);
    script_answer();
    script_answer();
}

static void into_listing_without_czxid(int64_t deadline, bool fail)
{
    blocked();
    contend(deadline, fail);
    script_suspend(3);
    script_connect();
    for (int i = 0; i < 4; i++) {
        script_answer();
    }
}

/* No answer for so long that the lease is over; then all at once. */
static void into_proving(int64_t deadline, bool fail)
{
    script_connect();
    script_wait(12000 * MS);
    contend(deadline == INT64_MAX ? deadline : script.now + 500 * MS, fail);
    while (script.op_count > 1) {
        script_answer();
    }
    script_answer();
}

static void into_held(int64_t deadline, bool fail)
{
    script_connect();
    contend(deadline, fail);
    script_answer_all();
}

static void into_held_suspended(int64_t deadline, bool fail)
{
    into_held(deadline, fail);
    script_suspend(0);
}

static void into_lost(int64_t deadline, bool fail)
{
    into_held(deadline, fail);
    script_wait(12000 * MS);
}

static void into_removing(int64_t deadline, bool fail)
{
    into_held(deadline, fail);
    script_release(&me);
}

static const struct way {
    const char *state;
    bool waits;
    void (*go)(int64_t deadline, bool fail_on_expiry);
} ways[] = {
    {"new", true, into_new},
    {"creating", true, into_creating},
    {"creating", true, into_creating_again},
    {"creating", true, into_doubt},
    {"making", true, into_making},
    {"watching", true, into_watching},
    {"watching", true, into_watching_unanswered},
    {"listing", true, into_listing},
    {"listing", true, into_listing_with_a_double},
    {"watching", true, into_listing_without_czxid},
    {"proving", true, into_proving},
    {"held", false, into_held},
    {"held", false, into_held_suspended},
    {"lost", false, into_lost},
    {"removing", false, into_removing},
};
#define WAYS ((int)(sizeof ways / sizeof *ways))

/* How the world goes on after the end came. */
static const struct aftermath {
    const char *name;
    bool suspended;
    int done; /* of what is under way when the connection goes */
    bool expired;
} aftermaths[] = {
    {"all is well", false, 0, false},
    {"connection lost, nothing done", true, 0, false},
    {"connection lost, one done", true, 1, false},
    {"connection lost, all done", true, 99, false},
    {"connection lost, then expired", true, 1, true},
    {"expired", false, 0, true},
};
#define AFTERMATHS ((int)(sizeof aftermaths / sizeof *aftermaths))

static void live_through(const struct aftermath *after)
{
    if (after->suspended && script.connected) {
        script_suspend(after->done);
    }
    if (after->expired && script.session_id) {
        script_expire();
    }
    if (!script.connected) {
        script_connect();
    }
    script_run(8000 * MS);
}

static void finish(const char *what, int way, int after, unsigned failures)
{
    CU_ASSERT_EQUAL(script_ours(), 0);
    CU_ASSERT_TRUE(zkl__core_idle(script.core));
    /* a watch whose taking back was lost with the connection lasts as long as its node */
    CU_ASSERT(script.watch_count <= 1);
    if (script_find(SCRIPT_BLOCKER)) {
        script_remove(SCRIPT_BLOCKER);
    }
    CU_ASSERT_EQUAL(script.watch_count, 0);
    script_deinit();
    if (CU_get_number_of_failures() != failures) {
        fprintf(stderr, "\n    %s, way %d into %s, %s\n", what, way, ways[way].state, aftermaths[after].name);
    }
}

static void run(const char *what, bool waiting_too, bool held_too, int64_t patience, bool fail_on_expiry,
                void (*end)(void))
{
    for (int way = 0; way < WAYS; way++) {
        for (int after = 0; after < AFTERMATHS; after++) {
            unsigned failures = CU_get_number_of_failures();
            if (!(ways[way].waits ? waiting_too : held_too)) {
                continue;
            }
            script_init();
            ways[way].go(patience ? script.now + patience : INT64_MAX, fail_on_expiry);
            STATE(&me, ways[way].state);
            end();
            live_through(&aftermaths[after]);
            CU_ASSERT_EQUAL(me.granted + me.failed, 1);
            finish(what, way, after, failures);
        }
    }
}

/* --- the ends ------------------------------------------------------------------------------------------------------ */

static void cancel(void)
{
    script_cancel(&me);
    CU_ASSERT_EQUAL(me.failed, 1);
    CU_ASSERT_EQUAL(me.code, ZKL_ECANCELED);
}
static void test_cancel(void)
{
    run("cancel", true, false, 0, false, cancel);
}

static void pass_deadline(void)
{
    script_wait(600 * MS);
    CU_ASSERT_EQUAL(me.failed, 1);
    CU_ASSERT_EQUAL(me.code, ZKL_ETIMEOUT);
}
static void test_deadline(void)
{
    run("deadline", true, false, 500 * MS, false, pass_deadline);
}

static void release(void)
{
    if (me.contender && strcmp(script_state(&me), "removing") != 0) {
        script_release(&me);
    }
    CU_ASSERT_EQUAL(me.granted, 1);
}
static void test_release(void)
{
    run("release", false, true, 0, false, release);
}

static void let_go(void)
{
    bool told = me.granted;
    script_let_go(&me);
    me.granted = told;
    me.failed = !told;
}
static void test_let_go(void)
{
    run("let go", true, true, 0, false, let_go);
}

static void close_session(void)
{
    bool waited = me.granted == 0;
    script_close();
    CU_ASSERT_EQUAL(me.failed, waited);
    CU_ASSERT_EQUAL(me.code, waited ? ZKL_ECLOSED : me.code);
}
static void test_close(void)
{
    run("close", true, true, 0, false, close_session);
}

static void refuse_credentials(void)
{
    bool waited = me.granted == 0;
    script_end(ZKL_EAUTH);
    CU_ASSERT_EQUAL(script.state, ZKL_SESSION_CLOSED);
    CU_ASSERT_EQUAL(me.failed, waited);
    CU_ASSERT_EQUAL(me.code, waited ? ZKL_EAUTH : me.code);
    CU_ASSERT_PTR_NULL(me.contender);
}
static void test_refused_credentials(void)
{
    run("refused credentials", true, true, 0, false, refuse_credentials);
}

static void expire(void)
{
    const char *state = script_state(&me);
    bool is_new = strcmp(state, "new") == 0, is_lost = strcmp(state, "lost") == 0, is_held = strcmp(state, "held") == 0;
    bool waited = me.granted == 0;
    script_expire();
    CU_ASSERT_EQUAL(script.state, ZKL_SESSION_LOST);
    if (waited && !is_new) {
        CU_ASSERT_EQUAL(me.code, ZKL_ELOST);
        CU_ASSERT_EQUAL(me.failed, 1);
    } else if (is_new) {
        script_cancel(&me);
    } else {
        CU_ASSERT_EQUAL(me.lost, is_lost || is_held);
        release();
    }
}
static void test_expiry_fails(void)
{
    run("expiry, to fail", true, true, 0, true, expire);
}

/* Queued again, at the tail, under another uuid; granted when its turn comes. */
static void expire_and_wait(void)
{
    char before[SCRIPT_PATH];
    strcpy(before, script_our_path());
    script_expire();
    STATE(&me, "new");
    CU_ASSERT_EQUAL(me.failed, 0);
    if (script_find(SCRIPT_BLOCKER)) {
        script_remove(SCRIPT_BLOCKER);
    }
    script_connect();
    OPS("create list");
    script_run(8000 * MS);
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT(strncmp(before, script_our_path(), 40) != 0);
    release();
}
static void test_expiry_queues_again(void)
{
    run("expiry, to queue again", true, false, 0, false, expire_and_wait);
}

/* Nothing ends at all: it is granted, whatever the connection did. */
static void wait_on(void)
{
    for (int i = 0; i < 5; i++) {
        if (script.connected) {
            script_suspend(i);
        }
        script_wait(50 * MS);
        script_connect();
        if (script_find(SCRIPT_BLOCKER)) {
            script_remove(SCRIPT_BLOCKER);
        }
    }
    script_run(2 * script.timeout);
    CU_ASSERT_EQUAL(me.granted, 1);
    release();
}
static void test_granted_in_the_end(void)
{
    run("nothing", true, false, 0, false, wait_on);
}

TESTS("contender ends", T(test_cancel), T(test_deadline), T(test_release), T(test_let_go), T(test_close),
      T(test_refused_credentials), T(test_expiry_fails), T(test_expiry_queues_again), T(test_granted_in_the_end))
