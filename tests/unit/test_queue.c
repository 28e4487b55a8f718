/* zkl_queue_list. */
#include "lock_kit.h"

#include <string.h>
#include <unistd.h>

#define QUEUE "/locks/queue"
#define UUID "00000000-1111-4222-8333-444444444444"

/* A stranger puts a node there, by its whole name. */
static void put(const char *dir, const char *name, const char *data, const zkl_acl *acl)
{
    enum zkl__rc rc;
    struct zkl__op op = {.kind = ZKL__OP_CREATE,
                         .dir = dir,
                         .name = name,
                         .data = data,
                         .size = data ? strlen(data) : 0,
                         .mode = ZKL__PERSISTENT,
                         .acl = acl};
    CU_ASSERT_EQUAL(zkl__memory_meddle(PLACE, &op, &rc), ZKL_OK);
    CU_ASSERT_EQUAL(rc, ZKL__RC_OK);
}

static zkl_queue *list(const char *path)
{
    zkl_queue *queue = NULL;
    zkl_error err = {0};
    CU_ASSERT_EQUAL_FATAL(zkl_queue_list(&queue, one, path, 5000, &err), ZKL_OK);
    return queue;
}

static void test_empty(void)
{
    kit_set_up(NULL);
    zkl_queue *queue = list("/nowhere/at/all");
    CU_ASSERT_EQUAL(queue->count, 0);
    CU_ASSERT_EQUAL(queue->foreign, 0);
    zkl_queue_free(queue);
    zkl_queue_free(NULL);
    kit_tear_down();
}

static void test_holder_and_waiters(void)
{
    kit_set_up(NULL);
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.metadata = "the holder";
    zkl_lock *a = kit_lock(one, QUEUE, &options), *b = kit_lock(two, QUEUE, NULL);
    struct acquire waiting;
    char node[128], whoami[64];
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 10000, NULL, NULL), ZKL_OK);
    acquire_start(&waiting, b, ZKL_WAIT_FOREVER);
    CU_ASSERT(EVENTUALLY(kit_queue(one, QUEUE) == 2));
    zkl_queue *queue = list(QUEUE);
    const zkl_queue_entry *entries = queue->entries;
    zkl_lock_node(a, node, sizeof node);
    CU_ASSERT_STRING_EQUAL(entries[0].name, node);
    CU_ASSERT_EQUAL(entries[0].kind, ZKL_KIND_LOCK);
    CU_ASSERT_EQUAL(entries[0].sequence, 0);
    CU_ASSERT_EQUAL(entries[0].token, zkl_lock_token(a));
    CU_ASSERT_EQUAL(entries[0].session_id, zkl_session_id(one));
    CU_ASSERT(entries[0].created_ms > INT64_C(1500000000000));
    CU_ASSERT_STRING_EQUAL(entries[0].data, "the holder");
    CU_ASSERT_EQUAL(entries[0].data_size, 10);
    CU_ASSERT(entries[0].readable);
    CU_ASSERT_EQUAL(entries[1].session_id, zkl_session_id(two));
    CU_ASSERT_EQUAL(entries[1].sequence, 1);
    snprintf(whoami, sizeof whoami, ":%ld", (long)getpid());
    CU_ASSERT_PTR_NOT_NULL(strstr(entries[1].data, whoami)); /* host:pid, when nothing else is given */
    CU_ASSERT_EQUAL(queue->server_ms, entries[1].created_ms);
    zkl_queue_free(queue);
    zkl_lock_free(a);
    CU_ASSERT_EQUAL(acquire_join(&waiting), ZKL_OK);
    zkl_lock_free(b);
    kit_tear_down();
}

static void test_strangers_in_the_queue(void)
{
    static const char *const names[] = {
        "_c_" UUID "-__READ__0000000003", "00001111222233334444555566667777__lock__0000000001",
        "_c_" UUID "-latch-2147483647",   "_c_" UUID "-__WRIT__0000000003",
        "_c_" UUID "-lock--2147483648", /* after the wrap */
    };
    static const zkl_kind kinds[] = {ZKL_KIND_KAZOO, ZKL_KIND_READ, ZKL_KIND_WRITE, ZKL_KIND_LATCH};
    kit_set_up(NULL);
    put("/mixed", NULL, NULL, NULL);
    for (size_t i = 0; i < 4; i++) {
        put("/mixed", names[i], NULL, NULL);
    }
    put("/mixed", "readme", NULL, NULL);
    put("/mixed", "lock-", NULL, NULL);
    zkl_queue *queue = list("/mixed");
    CU_ASSERT_EQUAL_FATAL(queue->foreign, 2);
    bool first = strcmp(queue->foreign_names[0], "readme") == 0; /* in no order */
    CU_ASSERT_STRING_EQUAL(queue->foreign_names[!first], "readme");
    CU_ASSERT_STRING_EQUAL(queue->foreign_names[first], "lock-");
    CU_ASSERT_EQUAL_FATAL(queue->count, 4);
    for (size_t i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL(queue->entries[i].kind, kinds[i]);
    }
    CU_ASSERT_EQUAL(queue->entries[0].session_id, 0);
    zkl_queue_free(queue);
    put("/wrap", NULL, NULL, NULL);
    put("/wrap", names[4], NULL, NULL);
    put("/wrap", names[2], NULL, NULL);
    queue = list("/wrap");
    CU_ASSERT_EQUAL_FATAL(queue->count, 2);
    CU_ASSERT_EQUAL(queue->entries[0].sequence, INT32_MAX);
    CU_ASSERT_EQUAL(queue->entries[1].sequence, INT32_MIN);
    zkl_queue_free(queue);
    kit_tear_down();
}

static void test_entries_that_may_not_be_read(void)
{
    const zkl_acl nobody = {1, &(zkl_acl_entry){ZKL_PERM_READ, "digest", "x:y"}};
    char large[ZKL_DATA_MAX + 100];
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    kit_set_up(NULL);
    put("/shy", NULL, NULL, NULL);
    put("/shy", "_c_" UUID "-lock-0000000001", "secret", &nobody);
    put("/shy", "_c_" UUID "-lock-0000000002", large, NULL);
    zkl_queue *queue = list("/shy");
    CU_ASSERT_EQUAL_FATAL(queue->count, 2);
    CU_ASSERT_FALSE(queue->entries[0].readable);
    CU_ASSERT_PTR_NULL(queue->entries[0].data);
    CU_ASSERT_EQUAL(queue->entries[0].sequence, 1);
    CU_ASSERT_EQUAL(queue->entries[1].data_size, ZKL_DATA_MAX);
    CU_ASSERT_EQUAL(strlen(queue->entries[1].data), ZKL_DATA_MAX);
    zkl_queue_free(queue);
    put("/closed", NULL, NULL, &nobody);
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_queue_list(&queue, one, "/closed", 1000, &err), ZKL_EAUTH);
    CU_ASSERT_STRING_EQUAL(err.path, "/closed");
    kit_tear_down();
}

static void test_a_thousand_entries(void)
{
    char name[64];
    kit_set_up(NULL);
    put("/long", NULL, NULL, NULL);
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "_c_" UUID "-lock-%010d", (i * 7) % 1000);
        put("/long", name, "somebody waits here", NULL);
    }
    zkl_queue *queue = list("/long");
    CU_ASSERT_EQUAL_FATAL(queue->count, 1000);
    for (int i = 0; i < 1000; i++) {
        CU_ASSERT_EQUAL(queue->entries[i].sequence, i);
    }
    zkl_queue_free(queue);
    kit_tear_down();
}

struct lister {
    pthread_t thread;
    int code;
    size_t count;
};

static void *run_list(void *arg)
{
    struct lister *lister = arg;
    zkl_queue *queue = NULL;
    lister->code = zkl_queue_list(&queue, one, QUEUE, 10000, NULL);
    lister->count = queue ? queue->count : 0;
    zkl_queue_free(queue);
    return NULL;
}

static void test_connection_lost_meanwhile(void)
{
    kit_set_up(NULL);
    int64_t id = zkl_session_id(one);
    zkl_queue *queue = NULL;
    zkl_error err;
    zkl_lock *a = kit_lock(two, QUEUE, NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 10000, NULL, NULL), ZKL_OK);
    for (size_t half = 0; half < 2; half++) { /* the list, or the read behind it, is left without an answer */
        struct lister lister = {0};
        CU_ASSERT_EQUAL(zkl__memory_break(id, half, 1, 0), ZKL_OK);
        CU_ASSERT_EQUAL_FATAL(pthread_create(&lister.thread, NULL, run_list, &lister), 0);
        CU_ASSERT(EVENTUALLY(zkl_session_state(one) == ZKL_SESSION_SUSPENDED));
        CU_ASSERT_EQUAL(zkl__memory_resume(id), ZKL_OK);
        pthread_join(lister.thread, NULL);
        CU_ASSERT_EQUAL(lister.code, ZKL_OK);
        CU_ASSERT_EQUAL(lister.count, 1);
    }
    CU_ASSERT_EQUAL(zkl__memory_suspend(id), ZKL_OK);
    int64_t from = now_ms();
    CU_ASSERT_EQUAL(zkl_queue_list(&queue, one, QUEUE, 100, &err), ZKL_ETIMEOUT);
    CU_ASSERT(now_ms() - from >= 99);
    CU_ASSERT_EQUAL(zkl__memory_resume(id), ZKL_OK);
    zkl_lock_free(a);
    kit_tear_down();
}

static void test_bad_calls(void)
{
    kit_set_up(NULL);
    zkl_queue *queue = NULL;
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_queue_list(NULL, one, QUEUE, 0, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "out"));
    CU_ASSERT_EQUAL(zkl_queue_list(&queue, NULL, QUEUE, 0, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_queue_list(&queue, one, NULL, 0, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_queue_list(&queue, one, "locks", 0, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_queue_list(&queue, one, QUEUE, -7, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "-7"));
    CU_ASSERT_EQUAL(zkl_queue_list(&queue, one, "//", 0, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_queue_list(&queue, one, QUEUE, 0, &err), ZKL_ETIMEOUT);
    CU_ASSERT_PTR_NULL(queue);
    kit_tear_down();
}

TESTS("queue", T(test_empty), T(test_holder_and_waiters), T(test_strangers_in_the_queue),
      T(test_entries_that_may_not_be_read), T(test_a_thousand_entries), T(test_connection_lost_meanwhile),
      T(test_bad_calls))
