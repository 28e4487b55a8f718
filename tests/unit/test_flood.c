/* Thousands of forged places before a lock: what that costs, and that it leaves everything as it was. */

#include "lock_kit.h"

#define PATH "/flood"
#define FORGED 1500
#define AT_ONCE 500 /* requests under way */

static void forge(int from, int to)
{
    kit_write(ZKL__OP_CREATE, PATH, NULL, NULL); /* if it is not there */
    for (int i = from; i < to; i++) {
        char name[40];
        snprintf(name, sizeof name, "x-lock-%010d", i);
        kit_must_write(ZKL__OP_CREATE, PATH, name, NULL);
    }
}

/* Somebody real stands among them, at any place: nobody goes past it, and when it is gone the others are no hindrance. */
TEST(test_a_holder_among_them)
{
    for (int at = 5; at < FORGED; at += 331) {
        kit_set_up(NULL);
        forge(0, at);
        zkl_lock *holder = kit_hold(two, PATH, NULL), *lock = kit_lock(one, PATH, NULL);
        forge(at + 1, FORGED);
        struct acquire acquire;
        uint64_t before = kit_requests(one);
        acquire_start(&acquire, lock, 20000);
        ASSERT_EVENTUALLY(kit_requests(one) - before >= (uint64_t)(FORGED - at)); /* it has come as far as the holder */
        CU_ASSERT(kit_held_for(holder, 50));
        CU_ASSERT_FALSE(zkl_lock_is_held(lock));
        CU_ASSERT(kit_requests(one) - before <= (uint64_t)(FORGED - at) + AT_ONCE + 10); /* nearest first */
        kit_release(holder);
        ASSERT_OK(acquire_join(&acquire));
        kit_release(lock);
        kit_tear_down();
    }
}

/* Acquires it, and gives somebody else the name that its downgrade will make. */
static const char *take_name_as_reader(zkl_lock *writer)
{
    static char reader[ZKL_PATH_MAX + 1];
    char name[ZKL_PATH_MAX + 1];
    kit_acquire(writer);
    CU_ASSERT(zkl_lock_node(writer, name, sizeof name) > 0);
    char *kind = strstr(name, "__WRIT__");
    CU_ASSERT_PTR_NOT_NULL_FATAL(kind);
    snprintf(reader, sizeof reader, "%.*s__READ__%s", (int)(kind - name), name, kind + strlen("__WRIT__"));
    kit_must_write(ZKL__OP_CREATE, PATH, reader, NULL);
    return reader;
}

/* A downgrade makes a name that does not come from the counter: a forgery had it before, was seen to be one, and is gone. */
TEST_WITH_SESSIONS(test_a_reader_with_a_name_that_was_forged)
{
    struct acquire acquire;
    zkl_lock *writer = kit_make(ZKL_RECIPE_WRITE_LOCK, two, PATH, NULL);
    zkl_lock *next = kit_make(ZKL_RECIPE_WRITE_LOCK, one, PATH, NULL);
    const char *reader = take_name_as_reader(writer);
    kit_must_write(ZKL__OP_CREATE, PATH, "x-lock-0000000001", NULL);
    acquire_start(&acquire, next, 20000);
    ASSERT_EVENTUALLY(kit_requests(one) >= 5); /* it has looked at both, and watches the writer */
    CU_ASSERT(kit_held_for(writer, 50));
    kit_must_write(ZKL__OP_DELETE, PATH, reader, NULL);
    uint64_t before = kit_requests(one);
    ASSERT_OK(zkl_write_lock_downgrade(writer, NULL));
    ASSERT_EVENTUALLY(kit_requests(one) > before); /* it sees the reader */
    CU_ASSERT(kit_held_for(writer, 100));
    CU_ASSERT_FALSE(zkl_lock_is_held(next));
    kit_release(writer);
    ASSERT_OK(acquire_join(&acquire));
    kit_release(next);
}

/* The name that a downgrade makes is somebody's already: that znode is not taken for ours, and not deleted; the holder stays a writer. */
TEST_WITH_SESSIONS(test_a_downgrade_to_a_name_that_is_taken)
{
    zkl_lock *writer = kit_make(ZKL_RECIPE_WRITE_LOCK, two, PATH, NULL);
    zkl_lock *next = kit_make(ZKL_RECIPE_READ_LOCK, one, PATH, NULL);
    const char *reader = take_name_as_reader(writer);
    for (int i = 0; i < 2; i++) {
        zkl_error err;
        CU_ASSERT_EQUAL(zkl_write_lock_downgrade(writer, &err), ZKL_ECONFLICT);
        ASSERT_SAYS(err, "still a write lock");
        CU_ASSERT(zkl_lock_is_held(writer));
        CU_ASSERT_EQUAL(zkl_lock_acquire(next, 0, NULL, NULL), ZKL_EBUSY);
    }
    kit_release(writer);
    kit_acquire(next); /* nothing of the writer's is left */
    kit_release(next);
    kit_must_write(ZKL__OP_DELETE, PATH, reader, NULL); /* it stands */
}

TESTS("flood")
