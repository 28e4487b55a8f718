/* What waits to be sent owns all that it points to, and what was never sent is not done. Built a second time with the address
 * sanitizer (security_owned). */
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <zklock/testing.h>
#include <zklock/zookeeper.h>

#include "lock_kit.h"
#include "store_client.h"

#define WINDOW 256 /* the first one of a session (requests.c) */

/* --- a heap that keeps what is freed, filled with GRAVE_BYTE: a read of it is of no use, and a write to it shows, without a sanitizer ---- */

#define GRAVE_BYTE 0xa5

struct grave {
    struct grave *next;
    size_t size;
    unsigned char bytes[];
};

static struct {
    pthread_mutex_t mutex;
    struct grave *first;
} graves = {PTHREAD_MUTEX_INITIALIZER, NULL};

static struct grave *grave_of(void *ptr)
{
    return (struct grave *)((unsigned char *)ptr - offsetof(struct grave, bytes));
}

static void *take(void *payload, size_t size)
{
    struct grave *block = malloc(sizeof *block + size);
    (void)payload;
    if (block) {
        block->size = size;
    }
    // cppcheck-suppress memleak ; bury finds the block again
    return block ? block->bytes : NULL;
}

static void bury(void *payload, void *ptr)
{
    (void)payload;
    if (ptr) {
        struct grave *block = grave_of(ptr);
        memset(block->bytes, GRAVE_BYTE, block->size);
        pthread_mutex_lock(&graves.mutex);
        block->next = graves.first;
        graves.first = block;
        pthread_mutex_unlock(&graves.mutex);
    }
}

static void *resize(void *payload, void *ptr, size_t size)
{
    void *out = take(payload, size);
    if (out && ptr) {
        size_t before = grave_of(ptr)->size;
        memcpy(out, ptr, before < size ? before : size);
        bury(payload, ptr);
    }
    return out;
}

static const zkl_heap grave_heap = {take, resize, bury, NULL};

/* Nobody wrote to what was freed. Frees it. */
static void graves_check(void)
{
    for (struct grave *block = graves.first, *next; block; block = next) {
        size_t i = 0;
        while (i < block->size && block->bytes[i] == GRAVE_BYTE) {
            i++;
        }
        CU_ASSERT_EQUAL(i, block->size);
        next = block->next;
        free(block);
    }
    graves.first = NULL;
}

/* --- sessions and locks ----------------------------------------------------------------------------------------------- */

/* Its user's list, which goes as soon as the user may free it. */
struct list {
    zkl_acl acl;
    zkl_acl_entry entry;
    char scheme[8], id[8];
};

/* A sanitizer wants to see malloc's own blocks. */
static const zkl_heap *heap(void)
{
    return SLOWLY ? NULL : &grave_heap;
}

static struct list *list_new(void)
{
    struct list *list = heap() ? heap()->alloc(NULL, sizeof *list) : malloc(sizeof *list);
    CU_ASSERT_PTR_NOT_NULL_FATAL(list);
    *list = (struct list){.scheme = "world", .id = "anyone"};
    list->entry = (zkl_acl_entry){ZKL_PERM_ALL, list->scheme, list->id};
    list->acl = (zkl_acl){1, &list->entry};
    return list;
}

static void list_free(struct list *list)
{
    heap() ? heap()->release(NULL, list) : free(list);
}

static void set_up(void)
{
    kit_set_up(SESSION_OPTIONS(.heap = heap()));
}

static void tear_down(void)
{
    kit_tear_down();
    graves_check();
}

/* All that waited before this has been sent, or dropped. */
static void pass_the_line(void)
{
    kit_free(kit_hold(one, "/locks/last", NULL));
}

/* How many znodes stand in dir; -1: there is no dir. */
static int count_children(const char *dir)
{
    struct client client;
    ASSERT_OK_FATAL(client_open_plain(&client, PLACE));
    const struct zkl__reply *reply = client_call(&client, op_read(ZKL__OP_CHILDREN, dir, false));
    int count = reply->rc == ZKL__RC_OK ? (int)reply->child_count : -1;
    client_close(&client);
    return count;
}

/* --- calls that end while their request waits ------------------------------------------------------------------------ */

struct ends {
    atomic_int all, unknown, unsent, timeouts;
};

static void on_end(int code, const zkl_error *err, void *payload)
{
    struct ends *ends = payload;
    ends->timeouts += code == ZKL_ETIMEOUT;
    ends->unknown += code != ZKL_OK && strstr(err->text, "it may be done, or not") != NULL;
    ends->unsent += code != ZKL_OK && strncmp(err->text, "not done", strlen("not done")) == 0;
    ends->all++; /* last */
}

/* From here on no response comes, and what is sent now waits for room behind these. */
static void fill_window(zkl_lock *lock, struct ends *ends)
{
    static const zkl_op op = {.kind = ZKL_OP_CHECK, .path = "/", .version = ZKL_ANY_VERSION};
    kit_delay(one, true);
    for (int i = 0; i < 2 * WINDOW; i++) {
        ASSERT_OK(zkl_lock_commit_async(lock, &op, 1, ZKL_WAIT_FOREVER, NULL, on_end, ends, NULL));
    }
}

/* Responses come again; all of those are back. */
static void drain_window(const struct ends *ends)
{
    kit_delay(one, false);
    pass_the_line();
    ASSERT_EVENTUALLY(ends->all == 2 * WINDOW);
}

static void make_node(zkl_lock *lock, const char *path)
{
    const zkl_op op = {.kind = ZKL_OP_CREATE, .path = path};
    ASSERT_OK_FATAL(zkl_lock_commit(lock, &op, 1, 10000, NULL, NULL));
}

static zkl_op create_in(const char *path, const struct list *list)
{
    return (zkl_op){.kind = ZKL_OP_CREATE,
                    .path = path,
                    .data = "data",
                    .size = 4,
                    .mode = ZKL_CREATE_PERSISTENT_SEQUENTIAL,
                    .acl = &list->acl};
}

/* The caller's list is on its stack, and so not copied by the call. */
TEST_BETWEEN(set_up(), test_a_blocking_commit_that_times_out, tear_down())
{
    struct ends ends = {0};
    zkl_error err;
    zkl_lock *lock = kit_hold(one, "/locks/owner", NULL);
    make_node(lock, "/made");
    fill_window(lock, &ends);
    struct list *list = list_new();
    const zkl_op op = create_in("/made/n-", list);
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, &op, 1, 20, NULL, &err), ZKL_ETIMEOUT);
    CU_ASSERT_NSTRING_EQUAL(err.text, "not done", strlen("not done"));
    list_free(list);
    drain_window(&ends);
    CU_ASSERT_EQUAL(count_children("/made"), 0);
}

TESTS("owned")
