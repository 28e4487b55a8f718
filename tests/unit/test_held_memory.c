/* How much memory a held lock takes: what its session has asked its allocator for, whatever the allocator adds. */
#include "shell.h"
#include "lock_kit.h"
#include "memory_store.h"
#include "test_heap.h"
#include "core_internal.h"

#define LOCKS 2000
#define MOST 2000 /* bytes for each of them */
/* The in-process server's own record of a watch. libzookeeper has one, too, but not in the session's allocator. */
#define OWN_NODE "/held/memory/0000000/_c_00000000-0000-0000-0000-000000000000-lock-0000000000"
#define WATCH_OF_THE_SERVER (sizeof(struct zkl__memory_watch) + sizeof OWN_NODE)

static struct test_heap counted = TEST_HEAP_INIT;

/* A heartbeat after its grant each has a watch on its own znode, which takes memory, too. So do the requests that set these
 * watches, but only until their responses. */
static bool all_rest(zkl_session *session, long *now)
{
    pthread_mutex_lock(&session->mutex);
    bool all = session->core->watches.count >= LOCKS && !session->core->sent.first && !session->core->waiting.first;
    *now = test_heap_bytes(&counted);
    pthread_mutex_unlock(&session->mutex);
    return all;
}

TEST(test_bytes_of_a_held_lock)
{
    zkl_heap heap = test_heap(&counted);
    static zkl_lock *locks[LOCKS];
    /* The in-process server keeps its znodes in the memory of the session that makes it. They do not count. */
    zkl_session *server = kit_open(NULL), *session = kit_open(SESSION_OPTIONS(.heap = &heap));
    long before = test_heap_bytes(&counted);
    EACH_ROW (i, locks) {
        char path[32];
        snprintf(path, sizeof path, "/held/memory/%07zu", i);
        locks[i] = kit_hold(session, path, NULL);
    }
    long now = 0;
    ASSERT_EVENTUALLY(all_rest(session, &now));
    double each = (double)(now - before) / LOCKS - (double)WATCH_OF_THE_SERVER;
    printf("bytes of a held lock: %.0f\n", each);
    CU_ASSERT(each <= MOST);
    EACH_ROW (i, locks) {
        kit_free(locks[i]);
    }
    kit_close(session);
    kit_close(server);
    CU_ASSERT_EQUAL(test_heap_bytes(&counted), 0);
}

TESTS("held_memory")
