/* How much memory a held lock takes: what its session has asked its allocator for, whatever the allocator adds. */
#include "shell.h"
#include "lock_kit.h"
#include "memory_session.h"
#include "core_internal.h"

#include <stdatomic.h>
#include <stddef.h>

#define LOCKS 2000
#define MOST 2048 /* bytes for each of them */
/* The in-process server's own record of a watch. libzookeeper has one, too, but not in the session's allocator. */
#define OWN_NODE "/held/memory/0000000/_c_00000000-0000-0000-0000-000000000000-lock-0000000000"
#define WATCH_OF_THE_SERVER (sizeof(struct zkl__memory_watch) + sizeof OWN_NODE)

/* --- an allocator that counts bytes ------------------------------------------------------------------------------------ */

union block {
    size_t size;
    max_align_t aligned;
};

static atomic_llong bytes;

static void *heap_resize(void *payload, void *ptr, size_t size)
{
    union block *old = ptr ? (union block *)ptr - 1 : NULL;
    size_t before = old ? old->size : 0;
    union block *block = realloc(old, sizeof *block + size);
    (void)payload;
    if (!block) {
        return NULL;
    }
    block->size = size;
    atomic_fetch_add(&bytes, (long long)size - (long long)before);
    return block + 1;
}

static void *heap_alloc(void *payload, size_t size)
{
    return heap_resize(payload, NULL, size);
}

static void heap_release(void *payload, void *ptr)
{
    union block *block = ptr ? (union block *)ptr - 1 : NULL;
    (void)payload;
    if (block) {
        atomic_fetch_sub(&bytes, (long long)block->size);
        free(block);
    }
}

/* --- the bound --------------------------------------------------------------------------------------------------------- */

/* A heartbeat after its grant each has a watch on its own znode, which takes memory, too. So do the requests that set these
 * watches, but only until their responses. */
static bool all_rest(zkl_session *session, long long *now)
{
    pthread_mutex_lock(&session->mutex);
    bool all = session->core->watches.map.count >= LOCKS && session->core->pendings.on_count == 0;
    *now = atomic_load(&bytes);
    pthread_mutex_unlock(&session->mutex);
    return all;
}

static void expect_granted(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    (void)lock, (void)grant, (void)err, (void)payload;
    CU_ASSERT_EQUAL(code, ZKL_OK);
}

/* They are acquired together: the room of their requests must not stay. */
TEST(test_bytes_of_a_held_lock)
{
    static const zkl_heap heap = {heap_alloc, heap_resize, heap_release, NULL};
    static zkl_lock *locks[LOCKS];
    /* The in-process server keeps its znodes in the memory of the session that makes it. They do not count. */
    zkl_session *server = kit_open(NULL), *session = kit_open(SESSION_OPTIONS(.heap = &heap));
    long long before = atomic_load(&bytes);
    for (int i = 0; i < LOCKS; i++) {
        char path[32];
        snprintf(path, sizeof path, "/held/memory/%07d", i);
        locks[i] = kit_lock(session, path, NULL);
        ASSERT_OK(zkl_lock_acquire_async(locks[i], ZKL_WAIT_FOREVER, expect_granted, NULL, NULL));
    }
    long long now = 0;
    ASSERT_EVENTUALLY(all_rest(session, &now));
    double each = (double)(now - before) / LOCKS - (double)WATCH_OF_THE_SERVER;
    printf("bytes of a held lock: %.0f\n", each);
    CU_ASSERT(each <= MOST);
    for (int i = 0; i < LOCKS; i++) {
        kit_free(locks[i]);
    }
    kit_close(session);
    kit_close(server);
    CU_ASSERT_EQUAL(atomic_load(&bytes), 0);
}

TESTS("held_memory")
