/* What comes from the server is no answer: wrong lengths, half a frame, noise, a reset, instead of the welcome and in the middle of a
 * session. The client library drops the connection, and the session goes on.
 *
 * Not among them: a whole frame too short for its header, or for the watch event that it says it is (xid -1). The client library (3.8.0)
 * reads behind it, or frees what it never filled, and the process may die: nothing above it can help. */
#include "one_server.h"

static const struct {
    const char *name;
    const char *bytes;
    size_t size;
    bool reset; /* ends with RST instead of FIN */
} kinds[] = {
    {"a length of -1", "\xff\xff\xff\xff", 4, false},
    {"a length of 64 MiB",
     "\x04\0\0\0"
     "0123456789",
     14, false},
    {"half a frame",
     "\0\0\0\x25"
     "\0\0\0",
     7, false},
    {"half a length", "\0\0", 2, true},
    {"an answer to nothing", "\0\0\0\x10\x7f\xff\xff\xf0\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0", 20, false},
    {"text", "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", 47, false},
    {"a reset", "", 0, true},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void garble_next(struct proxy *proxy, int kind)
{
    proxy_garble_next(proxy, kinds[kind].bytes, kinds[kind].size, kinds[kind].reset);
}

TEST(test_instead_of_a_welcome)
{
    struct proxy *proxy = proxy_here();
    for (int kind = 0; kind < KINDS; kind++) {
        garble_next(proxy, kind);
        zkl_session *session = contest_session(proxy_address(proxy), 10000, TICK);
        ASSERT_EVENTUALLY(proxy_hits(proxy) == kind + 1);
        contest_once(session, "/garbage");
        kit_close(session);
    }
    proxy_stop(proxy);
}

TEST(test_in_the_middle_of_a_session)
{
    struct proxy *proxy;
    zkl_session *session = open_behind(&proxy);
    zkl_lock *lock = contest_holder(session, "/garbage");
    int64_t token = zkl_lock_token(lock);
    for (int kind = 0; kind < KINDS; kind++) {
        garble_next(proxy, kind); /* the next heartbeat's response */
        ASSERT_EVENTUALLY(proxy_hits(proxy) == kind + 1);
        zkl_queue *queue = NULL;
        ASSERT_EVENTUALLY(zkl_queue_list(&queue, session, "/garbage", 1000, NULL) == ZKL_OK);
        CU_ASSERT(queue && queue->count == 1);
        zkl_queue_free(queue);
        ASSERT_EVENTUALLY(zkl_lock_state(lock) != ZKL_STATE_JEOPARDY); /* the lease is renewed */
        CU_ASSERT_EQUAL(zkl_lock_token(lock), token);
        if (!zkl_lock_is_held(lock)) {
            fprintf(stderr, "\n    %s\n", kinds[kind].name);
            CU_FAIL("the lock is lost");
        }
    }
    kit_release(lock);
    zkl_lock_free(lock);
    close_behind(session, proxy);
}

TESTS_ON_ONE_SERVER("garbage")
