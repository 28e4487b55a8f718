/* What waits to be sent owns all that it points to, and what was never sent is not done. Built a second time with the address
 * sanitizer (security_owned). */

#include "lock_kit.h"

#define WINDOW 256 /* the first one of a session (session_step.c) */

static void count_end(int code, const zkl_error *err, void *ends)
{
    (*(atomic_int *)ends)++;
}

/* From here on no response comes, and what is sent now waits for room behind these. */
static void fill_window(zkl_lock *lock, atomic_int *ends)
{
    static const zkl_op op = {.kind = ZKL_OP_CHECK, .path = "/", .version = ZKL_ANY_VERSION};
    kit_delay(one, true);
    for (int i = 0; i < 2 * WINDOW; i++) {
        ASSERT_OK(zkl_lock_commit_async(lock, &op, 1, ZKL_WAIT_FOREVER, NULL, count_end, ends, NULL));
    }
}

/* Its user's list, which goes as soon as the user may free it. */
struct list {
    zkl_acl acl;
    zkl_acl_entry entry;
    char scheme[8], id[8];
};

static struct list *list_new(void)
{
    struct list *list = malloc(sizeof *list);
    CU_ASSERT_PTR_NOT_NULL_FATAL(list);
    *list = (struct list){.scheme = "world", .id = "anyone"};
    list->entry = (zkl_acl_entry){ZKL_PERM_ALL, list->scheme, list->id};
    list->acl = (zkl_acl){1, &list->entry};
    return list;
}

/* A call that ends while its request waits. The caller's list is its own, and so not copied by the call. */
TEST_WITH_SESSIONS(test_a_blocking_commit_that_times_out)
{
    atomic_int ends = 0;
    zkl_error err;
    zkl_lock *lock = kit_hold(one, "/locks/owner", NULL);
    kit_must_write(ZKL__OP_CREATE, "/made", NULL, NULL);
    fill_window(lock, &ends);
    struct list *list = list_new();
    const zkl_op op = {
        .kind = ZKL_OP_CREATE, .path = "/made/n-", .mode = ZKL_CREATE_PERSISTENT_SEQUENTIAL, .acl = &list->acl};
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, &op, 1, 20, NULL, &err), ZKL_ETIMEOUT);
    CU_ASSERT_NSTRING_EQUAL(err.text, "not done", strlen("not done"));
    free(list);
    kit_delay(one, false);
    kit_free(kit_hold(one, "/locks/last", NULL)); /* all that waited before this has been sent, or dropped */
    ASSERT_EVENTUALLY(ends == 2 * WINDOW);
    CU_ASSERT_EQUAL(kit_children(two, "/made"), 0);
}

TESTS("owned")
