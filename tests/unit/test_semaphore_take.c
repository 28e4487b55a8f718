/* A permit taken in one transaction, on the in-process store: what it may write, and what becomes of it when something goes wrong. */
#include "semaphore_kit.h"

#include <string.h>

#define LEASES POOL "/leases"

static struct client reader;

static void set_up(void)
{
    kit_set_up(NULL);
    CU_ASSERT_EQUAL_FATAL(client_open_plain(&reader, PLACE), ZKL_OK);
    zkl_lock *first = pool_contender(two, 2); /* makes the directories, and sets the limit */
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_acquire(first, 1, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_release(first, 0, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(pool_queued() == 0));
    zkl_lock_free(first);
}

static void tear_down(void)
{
    client_close(&reader);
    kit_tear_down();
}

/* How often the znode of the leases was written: each transaction writes it once. */
static int32_t writes(void)
{
    return client_call(&reader, op_read(ZKL__OP_GET, LEASES, false))->stat.version;
}

static void test_one_transaction(void)
{
    set_up();
    zkl_lock *a = pool_contender(one, 2), *b = pool_contender(two, 0), *c = pool_contender(one, 2);
    zkl_grant first, second;
    CU_ASSERT_EQUAL(writes(), 0);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(a, 1, 5000, &first, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(writes(), 1);
    CU_ASSERT_EQUAL(pool_queued(), 0); /* by now: its place went with the transaction */
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(b, 1, 0, &second, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(writes(), 2);
    CU_ASSERT(second.token > first.token);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(c, 1, 0, NULL, NULL), ZKL_EBUSY);
    CU_ASSERT_EQUAL(writes(), 2); /* no room: not even tried */
    CU_ASSERT(EVENTUALLY(pool_queued() == 0 && pool_leases() == 2));
    zkl_lock_free(a);
    zkl_lock_free(b);
    zkl_lock_free(c);
    tear_down();
}

/* Permits of one acquire have a token each, which the creates of one transaction would share. */
static void test_several_have_tokens_of_their_own(void)
{
    int64_t tokens[2];
    set_up();
    zkl_lock *a = pool_contender(one, 2);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(a, 2, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_tokens(a, tokens, 2), 2);
    CU_ASSERT(tokens[0] < tokens[1]);
    CU_ASSERT_EQUAL(writes(), 0);
    zkl_lock_free(a);
    tear_down();
}

static void test_data_of_others_stays(void)
{
    set_up();
    zkl_lock *a = pool_contender(one, 2);
    pool_meddle(ZKL__OP_SET, LEASES, NULL, "a note");
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(a, 1, 5000, NULL, NULL), ZKL_OK);
    const struct zkl__reply *reply = client_call(&reader, op_read(ZKL__OP_GET, LEASES, false));
    CU_ASSERT_EQUAL(reply->size, 6);
    CU_ASSERT_EQUAL(memcmp(reply->data, "a note", 6), 0);
    zkl_lock_free(a);
    tear_down();
}

/* Who may create and delete leases, and not write their directory, has its permits all the same. */
static void test_without_permission(void)
{
    static const zkl_acl_entry entry = {ZKL_PERM_ALL & ~ZKL_PERM_WRITE, "world", "anyone"};
    const zkl_acl acl = {1, &entry};
    static const char *const folders[] = {"/closed", "/closed/locks", "/closed/leases"};
    zkl_lock *a;
    set_up();
    for (int i = 0; i < 3; i++) {
        struct zkl__op op = op_create(folders[i], i == 0 ? "2" : "", ZKL__PERSISTENT);
        op.acl = &acl;
        CU_ASSERT_EQUAL(client_rc(&reader, op), ZKL__RC_OK);
    }
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_new(&a, one, "/closed", 2, NULL, NULL), ZKL_OK);
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(zkl_semaphore_acquire(a, 1, 5000, NULL, NULL), ZKL_OK);
        CU_ASSERT_EQUAL(kit_queue(two, "/closed/leases"), 1);
        CU_ASSERT_EQUAL(zkl_semaphore_release(a, 0, NULL), ZKL_OK);
    }
    CU_ASSERT(EVENTUALLY(kit_queue(two, "/closed/locks") == 0 && kit_queue(two, "/closed/leases") == 0));
    zkl_lock_free(a);
    tear_down();
}

/* An acquire whose connection breaks behind so many whole and half of its round trips. */
static zkl_lock *acquire_broken(struct mailbox *box, size_t whole, size_t half)
{
    zkl_lock *lock = pool_contender(one, 2);
    zkl__memory_break(zkl_session_id(one), whole, half, half == 0);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(lock, 1, 20000, on_permitted, box, NULL), ZKL_OK);
    return lock;
}

/* What is left of the plan goes with the connection. */
static void connect_again(void)
{
    zkl__memory_suspend(zkl_session_id(one));
    CU_ASSERT_EQUAL(zkl__memory_resume(zkl_session_id(one)), ZKL_OK);
}

/* Whatever reply is lost, wherever the connection breaks: one lease, no place, and its position kept. */
static void test_lost_replies(void)
{
    set_up();
    for (size_t whole = 0; whole < 9; whole++) {
        for (size_t half = 0; half < 3; half++) {
            struct mailbox box = MAILBOX_INIT;
            zkl_lock *a = acquire_broken(&box, whole, half);
            CU_ASSERT(EVENTUALLY(mailbox_count(&box) == 1 || zkl__memory_resume(zkl_session_id(one)) == ZKL_OK));
            CU_ASSERT(mailbox_wait(&box, 1));
            CU_ASSERT_EQUAL(box.letters[0].code, ZKL_OK);
            connect_again();
            CU_ASSERT(EVENTUALLY(kit_queue(two, LEASES) == 1 && kit_queue(two, POOL "/locks") == 0));
            CU_ASSERT(zkl_lock_is_held(a));
            CU_ASSERT_EQUAL(zkl_semaphore_release(a, 0, NULL), ZKL_OK);
            CU_ASSERT(EVENTUALLY(kit_queue(two, LEASES) == 0));
            zkl_lock_free(a);
        }
    }
    tear_down();
}

/* The same, and nobody wants it any more when the connection is back. */
static void test_lost_and_given_up(void)
{
    set_up();
    for (size_t whole = 0; whole < 9; whole++) {
        for (size_t half = 0; half < 3; half++) {
            struct mailbox box = MAILBOX_INIT;
            zkl_lock *a = acquire_broken(&box, whole, half);
            zkl_lock_free(a);
            CU_ASSERT(mailbox_wait(&box, 1));
            connect_again();
            CU_ASSERT(EVENTUALLY(kit_queue(two, LEASES) == 0 && kit_queue(two, POOL "/locks") == 0));
        }
    }
    tear_down();
}

TESTS("semaphore_take", T(test_one_transaction), T(test_several_have_tokens_of_their_own), T(test_data_of_others_stays),
      T(test_without_permission), T(test_lost_replies), T(test_lost_and_given_up))
