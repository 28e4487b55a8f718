/* The lock, on the in-process store: what zklock/lock.h promises, promise by promise. */
#include "lock_kit.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define QUEUE "/locks/test"

/* --- acquire and release ------------------------------------------------------------------------------------------- */

static void test_acquire_and_release(void)
{
    kit_set_up(NULL);
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    char node[128] = "x";
    zkl_grant grant = {.token = -1};
    CU_ASSERT_STRING_EQUAL(zkl_lock_path(lock), QUEUE);
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
    CU_ASSERT_EQUAL(zkl_lock_node(lock, node, sizeof node), 0);
    CU_ASSERT_STRING_EQUAL(node, "");
    CU_ASSERT_EQUAL_FATAL(zkl_lock_acquire(lock, 5000, &grant, NULL), ZKL_OK);
    CU_ASSERT(zkl_lock_is_held(lock));
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_HELD);
    CU_ASSERT(grant.token > 0);
    CU_ASSERT(grant.queued_ms >= 0 && grant.queued_ms < 5000);
    CU_ASSERT_FALSE(grant.unclean);
    CU_ASSERT_EQUAL(zkl_lock_token(lock), grant.token);
    CU_ASSERT(zkl_lock_remaining_ms(lock) > 5000 && zkl_lock_remaining_ms(lock) <= 10000);
    CU_ASSERT_EQUAL(zkl_lock_node(lock, node, sizeof node), strlen(node));
    CU_ASSERT_EQUAL(strncmp(node, "_c_", 3), 0);
    CU_ASSERT_EQUAL(zkl_lock_node(lock, node, 4), 40 + 5 + 10); /* as snprintf: the length it has */
    CU_ASSERT_STRING_EQUAL(node, "_c_");
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 1);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 0); /* release waited for the server's word */
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
    CU_ASSERT_EQUAL(zkl_lock_token(lock), 0);
    CU_ASSERT_EQUAL(zkl_lock_remaining_ms(lock), 0);
    int64_t before = grant.token;
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, ZKL_WAIT_FOREVER, &grant, NULL), ZKL_OK);
    CU_ASSERT(grant.token > before);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    zkl_lock_free(lock);
    zkl_lock_free(NULL);
    kit_tear_down();
}

#define CROWD 12

static void test_first_come_first_served(void)
{
    kit_set_up(NULL);
    zkl_lock *holder = kit_lock(one, QUEUE, NULL);
    zkl_lock *locks[CROWD];
    struct acquire acquires[CROWD];
    CU_ASSERT_EQUAL_FATAL(zkl_lock_acquire(holder, 5000, NULL, NULL), ZKL_OK);
    for (int i = 0; i < CROWD; i++) {
        locks[i] = kit_lock(i % 3 ? one : two, QUEUE, NULL);
        acquire_start(&acquires[i], locks[i], 20000);
        CU_ASSERT_FATAL(EVENTUALLY(kit_queue(one, QUEUE) == (size_t)i + 2));
    }
    int64_t token = zkl_lock_token(holder);
    CU_ASSERT_EQUAL(zkl_lock_release(holder, NULL), ZKL_OK);
    for (int i = 0; i < CROWD; i++) {
        CU_ASSERT_EQUAL(acquire_join(&acquires[i]), ZKL_OK);
        CU_ASSERT(acquires[i].grant.token > token);
        token = acquires[i].grant.token;
        for (int j = 0; j < CROWD; j++) {
            CU_ASSERT_EQUAL(zkl_lock_is_held(locks[j]), j == i);
        }
        CU_ASSERT_EQUAL(zkl_lock_release(locks[i], NULL), ZKL_OK);
    }
    for (int i = 0; i < CROWD; i++) {
        zkl_lock_free(locks[i]);
    }
    zkl_lock_free(holder);
    kit_tear_down();
}

static atomic_int inside, overlaps, turns;
static int64_t last_token; /* guarded by the lock under test */

static void *work(void *arg)
{
    zkl_lock *lock = kit_lock(arg, QUEUE, NULL);
    for (int i = 0; i < 60; i++) {
        zkl_grant grant;
        if (zkl_lock_acquire(lock, 30000, &grant, NULL) != ZKL_OK) {
            break;
        }
        overlaps += atomic_fetch_add(&inside, 1) != 0;
        overlaps += grant.token <= last_token;
        last_token = grant.token;
        turns++;
        atomic_fetch_sub(&inside, 1);
        if (zkl_lock_release(lock, NULL) != ZKL_OK) {
            break;
        }
    }
    zkl_lock_free(lock);
    return NULL;
}

static void test_one_at_a_time(void)
{
    pthread_t threads[8];
    kit_set_up(NULL);
    inside = overlaps = turns = 0;
    last_token = 0;
    for (int i = 0; i < 8; i++) {
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, work, i % 2 ? one : two), 0);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
    }
    CU_ASSERT_EQUAL(overlaps, 0);
    CU_ASSERT_EQUAL(turns, 8 * 60);
    CU_ASSERT_EQUAL(kit_queue(one, QUEUE), 0);
    kit_tear_down();
}

static void test_locks_of_other_paths_do_not_meet(void)
{
    kit_set_up(NULL);
    zkl_lock *a = kit_lock(one, QUEUE, NULL), *b = kit_lock(one, QUEUE "/deeper", NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 0, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(b, 0, NULL, NULL), ZKL_OK);
    zkl_lock_free(a);
    zkl_lock_free(b);
    kit_tear_down();
}

/* --- one object, several calls ------------------------------------------------------------------------------------- */

static void test_a_second_acquire(void)
{
    kit_set_up(NULL);
    zkl_lock *a = kit_lock(one, QUEUE, NULL), *b = kit_lock(two, QUEUE, NULL);
    struct acquire waiting;
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 10000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 1000, NULL, &err), ZKL_EDEADLK);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "recursive"));
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 0, NULL, NULL), ZKL_EDEADLK);
    acquire_start(&waiting, b, ZKL_WAIT_FOREVER);
    CU_ASSERT(EVENTUALLY(zkl_lock_state(b) == ZKL_STATE_WAITING));
    CU_ASSERT_EQUAL(zkl_lock_acquire(b, 1000, NULL, &err), ZKL_EDEADLK);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "pending"));
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(acquire_join(&waiting), ZKL_OK);
    zkl_lock_free(a);
    zkl_lock_free(b);
    kit_tear_down();
}

static void test_recursion(void)
{
    kit_set_up(NULL);
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.recursive = true;
    zkl_lock *a = kit_lock(one, QUEUE, &options), *b = kit_lock(two, QUEUE, NULL);
    zkl_grant first, second;
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 10000, &first, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 0, &second, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(second.token, first.token);
    CU_ASSERT_EQUAL(second.queued_ms, 0);
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 1);
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_OK);
    CU_ASSERT(zkl_lock_is_held(a));
    CU_ASSERT_EQUAL(zkl_lock_acquire(b, 0, NULL, NULL), ZKL_EBUSY);
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(zkl_lock_acquire(b, 10000, NULL, NULL), ZKL_OK);
    struct acquire waiting; /* a pending one is not a held one */
    acquire_start(&waiting, a, ZKL_WAIT_FOREVER);
    CU_ASSERT(EVENTUALLY(zkl_lock_state(a) == ZKL_STATE_WAITING));
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 1000, NULL, NULL), ZKL_EDEADLK);
    CU_ASSERT_EQUAL(zkl_lock_cancel(a), ZKL_OK);
    CU_ASSERT_EQUAL(acquire_join(&waiting), ZKL_ECANCELED);
    zkl_lock_free(a);
    zkl_lock_free(b);
    kit_tear_down();
}

static void test_release_without_holding(void)
{
    kit_set_up(NULL);
    zkl_lock *a = kit_lock(one, QUEUE, NULL), *b = kit_lock(two, QUEUE, NULL);
    struct acquire waiting;
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_release(b, &err), ZKL_ENOTHELD);
    CU_ASSERT_STRING_EQUAL(err.path, QUEUE);
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 10000, NULL, NULL), ZKL_OK);
    acquire_start(&waiting, b, ZKL_WAIT_FOREVER);
    CU_ASSERT(EVENTUALLY(zkl_lock_state(b) == ZKL_STATE_WAITING));
    CU_ASSERT_EQUAL(zkl_lock_release(b, &err), ZKL_ENOTHELD);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "waiting"));
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(acquire_join(&waiting), ZKL_OK);
    zkl_lock_free(a);
    zkl_lock_free(b);
    kit_tear_down();
}

static void test_release_waits_only_so_long(void)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    kit_set_up(NULL);
    int64_t id = zkl_session_id(one);
    for (options.release_timeout_ms = 0; options.release_timeout_ms <= 60; options.release_timeout_ms += 60) {
        zkl_lock *lock = kit_lock(one, QUEUE, &options);
        CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 10000, NULL, NULL), ZKL_OK);
        CU_ASSERT_EQUAL(zkl__memory_hold(id, true), ZKL_OK);
        int64_t from = now_ms();
        CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
        CU_ASSERT(now_ms() - from >= options.release_timeout_ms - 1);
        CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
        struct acquire again; /* its old node may still be there */
        acquire_start(&again, lock, 5000);
        CU_ASSERT(EVENTUALLY(zkl_lock_state(lock) == ZKL_STATE_WAITING));
        CU_ASSERT_EQUAL(zkl__memory_hold(id, false), ZKL_OK);
        CU_ASSERT_EQUAL(acquire_join(&again), ZKL_OK);
        CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 1);
        zkl_lock_free(lock);
    }
    kit_tear_down();
}

static void test_free_while_waiting_and_held(void)
{
    kit_set_up(NULL);
    zkl_lock *a = kit_lock(one, QUEUE, NULL), *b = kit_lock(two, QUEUE, NULL), *c = kit_lock(two, QUEUE, NULL);
    struct acquire waiting, next;
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 10000, NULL, NULL), ZKL_OK);
    acquire_start(&waiting, b, ZKL_WAIT_FOREVER);
    CU_ASSERT(EVENTUALLY(kit_queue(one, QUEUE) == 2));
    acquire_start(&next, c, ZKL_WAIT_FOREVER);
    CU_ASSERT(EVENTUALLY(kit_queue(one, QUEUE) == 3));
    zkl_lock_free(b);
    CU_ASSERT_EQUAL(acquire_join(&waiting), ZKL_ECANCELED);
    CU_ASSERT(EVENTUALLY(kit_queue(one, QUEUE) == 2));
    zkl_lock_free(a);
    CU_ASSERT_EQUAL(acquire_join(&next), ZKL_OK);
    zkl_lock_free(c);
    CU_ASSERT(EVENTUALLY(kit_queue(one, QUEUE) == 0));
    kit_tear_down();
}

struct visits {
    int waiting, held;
    int64_t token;
};

static void visit(const char *path, zkl_state state, int64_t token, void *payload)
{
    struct visits *visits = payload;
    CU_ASSERT_STRING_EQUAL(path, QUEUE);
    visits->waiting += state == ZKL_STATE_WAITING;
    visits->held += state == ZKL_STATE_HELD;
    visits->token += token;
}

static void test_locks_of_a_session(void)
{
    kit_set_up(NULL);
    zkl_lock *a = kit_lock(one, QUEUE, NULL), *b = kit_lock(one, QUEUE, NULL), *idle = kit_lock(one, QUEUE, NULL);
    struct acquire waiting;
    struct visits visits = {0};
    CU_ASSERT_EQUAL(zkl_session_locks(one, visit, &visits), 0);
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 10000, NULL, NULL), ZKL_OK);
    acquire_start(&waiting, b, ZKL_WAIT_FOREVER);
    CU_ASSERT(EVENTUALLY(kit_queue(two, QUEUE) == 2));
    CU_ASSERT_EQUAL(zkl_session_locks(one, visit, &visits), 2);
    CU_ASSERT_EQUAL(visits.waiting, 1);
    CU_ASSERT_EQUAL(visits.held, 1);
    CU_ASSERT_EQUAL(visits.token, zkl_lock_token(a));
    CU_ASSERT_EQUAL(zkl_session_locks(two, visit, &visits), 0);
    CU_ASSERT_EQUAL(zkl_lock_cancel(b), ZKL_OK);
    CU_ASSERT_EQUAL(acquire_join(&waiting), ZKL_ECANCELED);
    CU_ASSERT_EQUAL(zkl_session_locks(one, visit, &visits), 1);
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_session_locks(one, visit, &visits), 0);
    CU_ASSERT_EQUAL(zkl_session_locks(one, NULL, NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_session_locks(NULL, visit, NULL), ZKL_EINVAL);
    zkl_lock_free(a);
    zkl_lock_free(b);
    zkl_lock_free(idle);
    kit_tear_down();
}

/* --- arguments ----------------------------------------------------------------------------------------------------- */

static void expect_refusal(zkl_session *session, const char *path, const zkl_lock_options *options, int code,
                           const char *word)
{
    zkl_lock *lock = (zkl_lock *)&session;
    zkl_error err = {0};
    int got = zkl_lock_new(&lock, session, path, options, &err);
    CU_ASSERT_EQUAL(got, code);
    CU_ASSERT_EQUAL(err.code, code);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, word));
    if (got != code || !strstr(err.text, word)) {
        fprintf(stderr, "\n%s: %s: \"%s\", no \"%s\" in it\n", path ? path : "NULL", zkl_error_name(got), err.text,
                word);
    }
    CU_ASSERT_PTR_NULL(lock);
}

static void test_bad_paths(void)
{
    char longest[ZKL_PATH_MAX + 3];
    memset(longest, 'a', sizeof longest);
    longest[0] = '/';
    longest[sizeof longest - 1] = '\0';
    kit_set_up(NULL);
    expect_refusal(one, NULL, NULL, ZKL_EINVAL, "path");
    expect_refusal(one, "", NULL, ZKL_EINVAL, "path");
    expect_refusal(one, "relative", NULL, ZKL_EINVAL, "absolute");
    expect_refusal(one, "/", NULL, ZKL_EINVAL, "path");
    expect_refusal(one, "/a/../b", NULL, ZKL_EINVAL, "..");
    expect_refusal(one, "/a/./b", NULL, ZKL_EINVAL, "component");
    expect_refusal(one, "/a//b", NULL, ZKL_EINVAL, "empty");
    expect_refusal(one, "/a/", NULL, ZKL_EINVAL, "empty");
    expect_refusal(one, "/a\nb", NULL, ZKL_EINVAL, "U+000A");
    expect_refusal(one, "/a\xff", NULL, ZKL_EINVAL, "UTF-8");
    expect_refusal(one, "/zookeeper/x", NULL, ZKL_EINVAL, "zookeeper");
    expect_refusal(one, "/a-0123456789", NULL, ZKL_EINVAL, "contender");
    expect_refusal(one, longest, NULL, ZKL_EINVAL, "longer");
    kit_tear_down();
}

static void test_bad_options(void)
{
    const zkl_lock_options good = ZKL_LOCK_OPTIONS_INIT;
    zkl_lock_options bad;
    char text[ZKL_DATA_MAX + 2];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    kit_set_up(NULL);
    expect_refusal(NULL, QUEUE, NULL, ZKL_EINVAL, "session");
    CU_ASSERT_EQUAL(zkl_lock_new(NULL, one, QUEUE, NULL, NULL), ZKL_EINVAL);
    bad = good;
    bad.size = 8;
    expect_refusal(one, QUEUE, &bad, ZKL_EINVAL, "size");
    bad = good;
    bad.metadata = text;
    expect_refusal(one, QUEUE, &bad, ZKL_EINVAL, "metadata");
    bad.metadata = "\xc3(";
    expect_refusal(one, QUEUE, &bad, ZKL_EINVAL, "UTF-8");
    bad.metadata = "__REVOKE__";
    expect_refusal(one, QUEUE, &bad, ZKL_EINVAL, "REVOKE");
    bad = good;
    bad.max_hold_ms = -1;
    expect_refusal(one, QUEUE, &bad, ZKL_EINVAL, "max_hold_ms is -1");
    bad = good;
    bad.release_timeout_ms = -1;
    expect_refusal(one, QUEUE, &bad, ZKL_EINVAL, "release_timeout_ms is -1");
    bad = good;
    bad.on_expiry = (zkl_on_expiry)7;
    expect_refusal(one, QUEUE, &bad, ZKL_EINVAL, "on_expiry is 7");
    bad = good;
    bad.acl = &(zkl_acl){0, NULL};
    expect_refusal(one, QUEUE, &bad, ZKL_EINVAL, "acl");
    bad.acl = &(zkl_acl){1, &(zkl_acl_entry){ZKL_PERM_ALL, NULL, "x"}};
    expect_refusal(one, QUEUE, &bad, ZKL_EINVAL, "scheme");
    bad.acl = &(zkl_acl){1, &(zkl_acl_entry){32, "world", "anyone"}};
    expect_refusal(one, QUEUE, &bad, ZKL_EINVAL, "32");
    kit_tear_down();
}

static void test_bad_calls(void)
{
    kit_set_up(NULL);
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_acquire(NULL, 0, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, -2, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "timeout_ms is -2"));
    CU_ASSERT_EQUAL(zkl_lock_acquire_async(lock, 0, NULL, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "done"));
    CU_ASSERT_EQUAL(zkl_lock_acquire_async(NULL, 0, on_acquired, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_lock_cancel(NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_lock_release(NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_lock_state(NULL), ZKL_STATE_IDLE);
    CU_ASSERT_FALSE(zkl_lock_is_held(NULL));
    CU_ASSERT_EQUAL(zkl_lock_token(NULL), 0);
    CU_ASSERT_EQUAL(zkl_lock_remaining_ms(NULL), 0);
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
    CU_ASSERT_STRING_EQUAL(zkl_state_name(ZKL_STATE_IDLE), "idle");
    CU_ASSERT_STRING_EQUAL(zkl_state_name(ZKL_STATE_LOST), "lost");
    CU_ASSERT_STRING_EQUAL(zkl_state_name((zkl_state)99), "?");
    zkl_lock_free(lock);
    kit_tear_down();
}

static void test_access_refused(void)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.auth_scheme = "digest";
    options.auth = "me:secret";
    options.auth_size = 9;
    kit_set_up(NULL);
    zkl_session *mine = kit_open(&options); /* what it creates is its own alone */
    zkl_lock *owner = kit_lock(mine, "/private/door", NULL), *stranger = kit_lock(one, "/private/door", NULL);
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_acquire(owner, 10000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(stranger, 1000, NULL, &err), ZKL_EAUTH);
    CU_ASSERT_STRING_EQUAL(err.path, "/private/door");
    CU_ASSERT(err.zk_code != 0);
    zkl_lock_free(owner);
    zkl_lock_free(stranger);
    kit_close(mine);
    kit_tear_down();
}

TESTS("lock", T(test_acquire_and_release), T(test_first_come_first_served), T(test_one_at_a_time),
      T(test_locks_of_other_paths_do_not_meet), T(test_a_second_acquire), T(test_recursion),
      T(test_release_without_holding), T(test_release_waits_only_so_long), T(test_free_while_waiting_and_held),
      T(test_locks_of_a_session), T(test_bad_paths), T(test_bad_options), T(test_bad_calls), T(test_access_refused))
