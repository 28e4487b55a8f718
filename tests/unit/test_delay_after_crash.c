/* Locks with the option delay_after_crash_ms, as their users see them. On the in-process store. */
#include "lock_kit.h"

#include <string.h>

#define PATH "/job"
#define LONG INT64_C(3600000) /* ms: longer than any test */
#define SHORT 50

static zkl_lock *careful_at(zkl_session *session, const char *path, int64_t delay_ms)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.delay_after_crash_ms = delay_ms;
    return kit_lock(session, path, &options);
}

static zkl_lock *careful(zkl_session *session, int64_t delay_ms)
{
    return careful_at(session, PATH, delay_ms);
}

static void crash(zkl_session *session)
{
    CU_ASSERT_EQUAL(zkl__memory_expire(zkl_session_id(session)), ZKL_OK);
    CU_ASSERT(EVENTUALLY(zkl_session_state(session) == ZKL_SESSION_CONNECTED));
}

/* With a delay of an hour: whoever is granted has waited for nothing. */
static bool is_granted_at_once(zkl_session *session)
{
    zkl_lock *lock = careful(session, LONG);
    int code = zkl_lock_acquire(lock, 10000, NULL, NULL);
    if (code == ZKL_OK) {
        CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    }
    zkl_lock_free(lock);
    return code == ZKL_OK;
}

static bool is_delayed(zkl_session *session)
{
    zkl_lock *lock = careful(session, LONG);
    zkl_error err = {.text = ""};
    int code = zkl_lock_acquire(lock, 0, NULL, &err);
    bool says = strstr(err.text, "delay_after_crash_ms");
    zkl_lock_free(lock);
    return code == ZKL_EBUSY && says;
}

/* The first one at a path, the same again, another session, one behind the other. */
static void test_clean(void)
{
    kit_set_up(NULL);
    for (int i = 0; i < 3; i++) {
        CU_ASSERT(is_granted_at_once(one));
        CU_ASSERT(is_granted_at_once(two));
    }
    zkl_lock *first = careful(one, LONG), *second = careful(two, LONG), *third = careful(one, LONG);
    struct acquire waits, behind;
    CU_ASSERT_EQUAL(zkl_lock_acquire(first, 5000, NULL, NULL), ZKL_OK);
    acquire_start(&waits, second, 10000);
    CU_ASSERT(EVENTUALLY(kit_queue(one, PATH) == 2));
    acquire_start(&behind, third, 10000);
    CU_ASSERT(EVENTUALLY(kit_queue(one, PATH) == 3));
    CU_ASSERT_EQUAL(zkl_lock_release(first, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(acquire_join(&waits), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(second, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(acquire_join(&behind), ZKL_OK);
    zkl_lock_free(first);
    zkl_lock_free(second);
    zkl_lock_free(third); /* held: that is a release */
    CU_ASSERT(EVENTUALLY(kit_queue(two, PATH) == 0));
    CU_ASSERT(is_granted_at_once(two));
    kit_tear_down();
}

/* A session that is closed releases. */
static void test_closed(void)
{
    zkl_session *session = kit_open(NULL), *other = kit_open(NULL);
    zkl_lock *lock = careful(session, LONG);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_OK);
    kit_close(session);
    zkl_lock_free(lock);
    CU_ASSERT(is_granted_at_once(other));
    kit_close(other);
}

/* Who comes and goes while another one holds is no holder. */
static void test_tries_beside(void)
{
    kit_set_up(NULL);
    zkl_lock *lock = careful(one, LONG), *tries = careful(two, LONG);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(tries, 0, NULL, NULL), ZKL_EBUSY);
    CU_ASSERT_EQUAL(zkl_lock_acquire(tries, 50, NULL, NULL), ZKL_ETIMEOUT);
    CU_ASSERT(EVENTUALLY(kit_queue(one, PATH) == 1));
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    CU_ASSERT(is_granted_at_once(two));
    zkl_lock_free(lock);
    zkl_lock_free(tries);
    kit_tear_down();
}

/* One waits, or one comes later: each waits for so long, and the next one after that does not. */
static void test_crash(void)
{
    for (int later = 0; later < 2; later++) {
        kit_set_up(NULL);
        zkl_lock *first = careful(one, SHORT), *second = careful(two, SHORT);
        struct acquire waits;
        CU_ASSERT_EQUAL(zkl_lock_acquire(first, 5000, NULL, NULL), ZKL_OK);
        if (!later) {
            acquire_start(&waits, second, 10000);
            CU_ASSERT(EVENTUALLY(kit_queue(one, PATH) == 2));
        }
        int64_t before = now_ms();
        crash(one);
        if (later) {
            acquire_start(&waits, second, 10000);
        }
        CU_ASSERT_EQUAL(acquire_join(&waits), ZKL_OK);
        CU_ASSERT(now_ms() - before >= SHORT);
        CU_ASSERT_EQUAL(zkl_lock_release(second, NULL), ZKL_OK);
        CU_ASSERT(is_granted_at_once(two));
        zkl_lock_free(first);
        zkl_lock_free(second);
        kit_tear_down();
    }
}

/* The grant after the delay reports the crash; so does one without a delay, with the option recover. */
static void test_crash_is_reported(void)
{
    for (int recovers = 0; recovers < 2; recovers++) {
        kit_set_up(NULL);
        zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
        zkl_grant grant = {0};
        options.recover = recovers;
        options.delay_after_crash_ms = SHORT;
        zkl_lock *lock = kit_lock(one, PATH, &options), *next = kit_lock(two, PATH, &options);
        options.delay_after_crash_ms = 0;
        options.recover = true;
        zkl_lock *eager = kit_lock(two, PATH, &options);
        CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, &grant, NULL), ZKL_OK);
        CU_ASSERT_FALSE(grant.unclean);
        crash(one);
        CU_ASSERT_EQUAL(zkl_lock_acquire(next, 10000, &grant, NULL), ZKL_OK);
        CU_ASSERT_TRUE(grant.unclean);
        CU_ASSERT_EQUAL(zkl_lock_release(next, NULL), ZKL_OK);
        CU_ASSERT_EQUAL(zkl_lock_acquire(next, 10000, &grant, NULL), ZKL_OK);
        CU_ASSERT_FALSE(grant.unclean);
        crash(two);
        CU_ASSERT_EQUAL(zkl_lock_acquire(eager, 10000, &grant, NULL), ZKL_OK);
        CU_ASSERT_TRUE(grant.unclean);
        zkl_lock_free(lock);
        zkl_lock_free(next);
        zkl_lock_free(eager);
        kit_tear_down();
    }
}

/* Until one has waited: who gives up, and who crashes while it waits, leaves things as they are. */
static void test_crash_is_remembered(void)
{
    kit_set_up(NULL);
    zkl_lock *first = careful(one, SHORT), *second = careful(two, LONG);
    zkl_error err = {.text = ""};
    CU_ASSERT_EQUAL(zkl_lock_acquire(first, 5000, NULL, NULL), ZKL_OK);
    crash(one);
    for (int64_t timeout = 50; !strstr(err.text, "delay_after_crash_ms") && timeout < LONG; timeout *= 2) {
        CU_ASSERT_EQUAL(zkl_lock_acquire(second, timeout, NULL, &err), ZKL_ETIMEOUT); /* first only after a while */
    }
    CU_ASSERT(EVENTUALLY(kit_queue(one, PATH) == 0));
    CU_ASSERT(is_delayed(one));
    CU_ASSERT(is_delayed(two));
    struct acquire waits;
    acquire_start(&waits, second, LONG);
    CU_ASSERT(EVENTUALLY(kit_queue(one, PATH) == 1));
    crash(two); /* it queues again, and waits again */
    CU_ASSERT(EVENTUALLY(kit_queue(one, PATH) == 1));
    CU_ASSERT(EVENTUALLY(zkl_lock_state(second) == ZKL_STATE_WAITING));
    zkl_lock_cancel(second);
    CU_ASSERT_EQUAL(acquire_join(&waits), ZKL_ECANCELED);
    CU_ASSERT(EVENTUALLY(kit_queue(one, PATH) == 0));
    CU_ASSERT_EQUAL(zkl_lock_release(first, NULL), ZKL_ELOST);
    CU_ASSERT_EQUAL(zkl_lock_acquire(first, 10000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(first, NULL), ZKL_OK);
    CU_ASSERT(is_granted_at_once(two));
    zkl_lock_free(first);
    zkl_lock_free(second);
    kit_tear_down();
}

/* Not by its owner: by hand, by max_hold_ms, after a loss while the session lives. */
static void test_other_ends(void)
{
    for (int way = 0; way < 3; way++) {
        zkl_session_options brief = kit_short();
        kit_set_up(NULL);
        zkl_session *holder = kit_open(way == 2 ? &brief : NULL); /* its lease is to end; the others' is not */
        zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
        options.delay_after_crash_ms = LONG;
        options.max_hold_ms = way == 1 ? 1 : 0;
        zkl_lock *lock = kit_lock(holder, PATH, &options);
        CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_OK);
        if (way == 0) {
            kit_remove_node(lock);
        } else if (way == 2) {
            int64_t id = zkl_session_id(holder);
            CU_ASSERT_EQUAL(zkl__memory_suspend(id), ZKL_OK);
            CU_ASSERT(EVENTUALLY(zkl_lock_state(lock) == ZKL_STATE_LOST));
            CU_ASSERT_EQUAL(zkl__memory_resume(id), ZKL_OK);
            CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);
        }
        CU_ASSERT(EVENTUALLY(kit_queue(two, PATH) == 0));
        CU_ASSERT(is_delayed(two));
        zkl_lock_free(lock);
        kit_close(holder);
        kit_tear_down();
    }
}

static void meddle(struct zkl__op op)
{
    enum zkl__rc rc;
    CU_ASSERT_EQUAL(zkl__memory_meddle("kit", &op, &rc), ZKL_OK);
    CU_ASSERT_EQUAL(rc, ZKL__RC_OK);
}

/* The reply to the release is lost, done or not. */
static void test_lost_reply(void)
{
    for (int done = 0; done < 2; done++) {
        kit_set_up(NULL);
        zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
        options.delay_after_crash_ms = LONG;
        options.release_timeout_ms = 1; /* no reply comes */
        zkl_lock *lock = kit_lock(one, PATH, &options);
        int64_t id = zkl_session_id(one);
        CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_OK);
        CU_ASSERT_EQUAL(zkl__memory_break(id, 0, (size_t)done, (size_t)!done), ZKL_OK);
        (void)zkl_lock_release(lock, NULL);
        CU_ASSERT_EQUAL(zkl__memory_resume(id), ZKL_OK);
        CU_ASSERT(EVENTUALLY(kit_queue(two, PATH) == 0));
        CU_ASSERT(is_granted_at_once(two));
        zkl_lock_free(lock);
        kit_tear_down();
    }
}

/* The directory may not be written: the lock is released all the same, and that looks like a crash. */
static void test_no_write(void)
{
    static const zkl_acl_entry entry = {ZKL_PERM_ALL & ~ZKL_PERM_WRITE, "world", "anyone"};
    static const zkl_acl acl = {1, &entry};
    kit_set_up(NULL);
    meddle((struct zkl__op){.kind = ZKL__OP_CREATE, .dir = PATH, .mode = ZKL__PERSISTENT, .acl = &acl});
    zkl_lock *lock = careful(one, SHORT);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_OK); /* the first one at all */
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(kit_queue(two, PATH), 0);
    CU_ASSERT(is_delayed(two));
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 10000, NULL, NULL), ZKL_OK);
    zkl_lock_free(lock);
    kit_tear_down();
}

/* One without the option releases without a word; somebody writes something else. */
static void test_mixed(void)
{
    kit_set_up(NULL);
    CU_ASSERT(is_granted_at_once(one));
    zkl_lock *plain = kit_lock(one, PATH, NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(plain, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(plain, NULL), ZKL_OK);
    zkl_lock_free(plain);
    CU_ASSERT(is_delayed(two));
    kit_tear_down();
    kit_set_up(NULL);
    CU_ASSERT(is_granted_at_once(one));
    meddle((struct zkl__op){.kind = ZKL__OP_SET, .dir = PATH, .data = "x", .size = 1, .version = -1});
    CU_ASSERT(is_delayed(two));
    kit_tear_down();
}

/* Servers remove empty containers with all that they know. */
static void test_persistent(void)
{
    kit_set_up(NULL);
    zkl_lock *lock = careful(one, LONG);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_OK);
    crash(one);
    CU_ASSERT_EQUAL(zkl__memory_reap("kit"), ZKL_OK);
    CU_ASSERT(is_delayed(two));
    zkl_lock_free(lock);
    kit_tear_down();
}

/* A lock that lingers, or stays for its least time, was released: its end is clean. With the option recover, too. */
static void test_with_other_options(void)
{
    for (int way = 0; way < 4; way++) {
        kit_set_up(NULL);
        zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
        zkl_grant grant;
        options.recover = way >= 2;
        options.delay_after_crash_ms = options.recover ? 0 : LONG;
        options.linger_ms = way % 2 == 0 ? 1000 : 0;
        options.hold_at_least_ms = way % 2 == 1 ? SHORT : 0;
        zkl_lock *lock = kit_lock(one, PATH, &options), *plain = kit_lock(one, PATH, NULL);
        if (options.recover) { /* one that leaves no mark */
            CU_ASSERT_EQUAL(zkl_lock_acquire(plain, 5000, NULL, NULL), ZKL_OK);
            CU_ASSERT_EQUAL(zkl_lock_release(plain, NULL), ZKL_OK);
        }
        for (int i = 0; i < 2; i++) {
            CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, &grant, NULL), ZKL_OK);
            CU_ASSERT_EQUAL(grant.unclean, options.recover && i == 0);
            CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
        }
        CU_ASSERT(is_granted_at_once(two));
        CU_ASSERT(is_granted_at_once(one));
        zkl_lock_free(lock);
        zkl_lock_free(plain);
        kit_tear_down();
    }
}

static void test_election(void)
{
    kit_set_up(NULL);
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.delay_after_crash_ms = SHORT;
    zkl_lock *first = NULL, *second = NULL;
    CU_ASSERT_EQUAL_FATAL(zkl_election_new(&first, one, PATH, &options, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_election_new(&second, two, PATH, &options, NULL), ZKL_OK);
    struct acquire waits;
    CU_ASSERT_EQUAL(zkl_lock_acquire(first, 5000, NULL, NULL), ZKL_OK);
    acquire_start(&waits, second, 10000);
    CU_ASSERT(EVENTUALLY(kit_queue(one, PATH) == 2));
    int64_t before = now_ms();
    crash(one);
    CU_ASSERT_EQUAL(acquire_join(&waits), ZKL_OK);
    CU_ASSERT(now_ms() - before >= SHORT);
    CU_ASSERT_EQUAL(zkl_lock_release(second, NULL), ZKL_OK);
    CU_ASSERT(is_granted_at_once(one));
    zkl_lock_free(first);
    zkl_lock_free(second);
    kit_tear_down();
}

static void refuse(int code, const zkl_error *err, const char *word)
{
    CU_ASSERT_EQUAL(code, ZKL_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err->text, "delay_after_crash_ms"));
    CU_ASSERT_PTR_NOT_NULL(strstr(err->text, word));
}

static void test_refused_by_name(void)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    const char *const paths[] = {"/a", "/b"};
    zkl_lock *lock = NULL;
    zkl_error err;
    zkl_session *session = kit_open(NULL);
    options.delay_after_crash_ms = -1;
    refuse(zkl_lock_new(&lock, session, PATH, &options, &err), &err, "-1");
    options.delay_after_crash_ms = 25 * LONG;
    refuse(zkl_lock_new(&lock, session, PATH, &options, &err), &err, "90000000");
    options.delay_after_crash_ms = SHORT;
    refuse(zkl_semaphore_new(&lock, session, PATH, 1, &options, &err), &err, "semaphore");
    refuse(zkl_write_lock_new(&lock, session, PATH, &options, &err), &err, "write");
    refuse(zkl_read_lock_new(&lock, session, PATH, &options, &err), &err, "read");
    refuse(zkl_multilock_new(&lock, session, paths, 2, &options, &err), &err, "lock");
    kit_close(session);
}

TESTS("delay after a crash", T(test_clean), T(test_closed), T(test_tries_beside), T(test_crash),
      T(test_crash_is_reported), T(test_crash_is_remembered), T(test_other_ends), T(test_lost_reply), T(test_no_write),
      T(test_mixed), T(test_persistent), T(test_with_other_options), T(test_election), T(test_refused_by_name))
