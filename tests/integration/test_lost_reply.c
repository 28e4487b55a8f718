/* A create that the server did, and whose answer was lost with the connection: however it goes on, exactly one znode is in the queue
 * for one who waits or holds, and none for one who gave up. */
#include "one_server.h"

/* Somebody holds the lock; we are behind a proxy. */
struct scene {
    const char *path;
    zkl_session *other, *session;
    struct proxy *proxy;
    zkl_lock *holder, *lock;
    struct waiter waiter;
};

static struct scene set_scene(const char *path, bool held)
{
    struct scene s = {.path = path, .other = open_one()};
    s.session = open_behind(&s.proxy);
    s.holder = contest_holder(s.other, path); /* and so the directory is there: the first create is ours */
    if (!held) {
        kit_release(s.holder);
    }
    s.lock = contest_lock(s.session, path, NULL);
    return s;
}

static void clear_scene(struct scene *s)
{
    zkl_lock_free(s->lock);
    zkl_lock_free(s->holder);
    CU_ASSERT(queue_becomes(eye, s->path, 0));
    close_behind(s->session, s->proxy);
    kit_close(s->other);
}

/* Starts to wait; returns when the server has made a node that nobody was told of, and the connection is gone and stays away. */
static void lose_create(struct scene *s, int64_t timeout_ms)
{
    long hits = proxy_hits(s->proxy);
    proxy_order_next(s->proxy, PROXY_OP_CREATE, PROXY_CUT_AFTER);
    proxy_refuse(s->proxy, true); /* the next connection; this one lasts until the reply is lost */
    waiter_start(&s->waiter, s->lock, timeout_ms);
    ASSERT_EVENTUALLY(proxy_hits(s->proxy) == hits + 1);
}

/* The one node that is there besides the holder's is the one that the lock says is its own, and the token is its czxid. */
static void check_single(const struct scene *s, size_t length)
{
    char node[128] = "";
    CU_ASSERT(queue_becomes(eye, s->path, length));
    CU_ASSERT(zkl_lock_node(s->lock, node, sizeof node) > 0);
    struct zkl__op exists = {.kind = ZKL__OP_EXISTS, .dir = s->path, .name = node};
    const struct zkl__reply *reply = &recorder_do(eye, &exists)->reply;
    CU_ASSERT_EQUAL(reply->rc, ZKL__RC_OK);
    CU_ASSERT(!zkl_lock_is_held(s->lock) || reply->stat.czxid == zkl_lock_token(s->lock));
}

/* The place of the lost create is kept: who came after it stays behind. */
TEST(test_keeps_its_place)
{
    struct scene s = set_scene("/keeps", true);
    struct waiter second;
    lose_create(&s, ZKL_WAIT_FOREVER);
    zkl_lock *late = contest_lock(s.other, s.path, NULL);
    waiter_queue(&second, late, ZKL_WAIT_FOREVER);
    proxy_refuse(s.proxy, false);
    ASSERT_EVENTUALLY(zkl_lock_node(s.lock, NULL, 0) != 0);
    check_single(&s, 3);
    kit_release(s.holder);
    ASSERT_OK(waiter_end(&s.waiter));
    CU_ASSERT(!second.done);
    kit_release(s.lock);
    ASSERT_OK(waiter_end(&second));
    zkl_lock_free(late);
    clear_scene(&s);
}

/* Nobody is before us but our own ghost. */
TEST(test_own_ghost_is_no_holder)
{
    struct scene s = set_scene("/ghost", false);
    lose_create(&s, ZKL_WAIT_FOREVER);
    proxy_refuse(s.proxy, false);
    ASSERT_OK(waiter_end(&s.waiter));
    check_single(&s, 1);
    clear_scene(&s);
}

/* The connection is away for so long that the session ends: the ghost goes with it, and a new session has one node. */
TEST(test_session_ends_meanwhile)
{
    struct scene s = set_scene("/ends", true);
    lose_create(&s, ZKL_WAIT_FOREVER);
    CU_ASSERT(queue_becomes(eye, s.path, 1));
    proxy_refuse(s.proxy, false);
    ASSERT_EVENTUALLY(zkl_lock_node(s.lock, NULL, 0) != 0);
    check_single(&s, 2);
    kit_release(s.holder);
    ASSERT_OK(waiter_end(&s.waiter));
    check_single(&s, 1);
    clear_scene(&s);
}

/* A release whose answer is lost: released all the same, and told once the server can be asked again. */
TEST(test_lost_release)
{
    struct scene s = set_scene("/release", false);
    ASSERT_OK(zkl_lock_acquire(s.lock, SOON, NULL, NULL));
    proxy_order_next(s.proxy, PROXY_OP_DELETE, PROXY_CUT_AFTER);
    kit_release(s.lock);
    CU_ASSERT(queue_becomes(eye, s.path, 0));
    ASSERT_OK(zkl_lock_acquire(s.lock, SOON, NULL, NULL));
    check_single(&s, 1);
    clear_scene(&s);
}

TESTS_ON_ONE_SERVER("lost replies")
