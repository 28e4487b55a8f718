/* Read/write locks, semaphores, multi-locks and the options of a lock on one real server: what their transactions do there, who is
 * woken, and what happens when an answer is lost. */
#include <stdlib.h>
#include <string.h>

#include <zklock/zookeeper.h>

#include "holder.h"
#include "one_server.h"

/* --- read/write lock ------------------------------------------------------------------------------------------------- */

static zkl_lock *make_reader(zkl_session *session, const char *path)
{
    zkl_lock *lock = NULL;
    CU_ASSERT_EQUAL_FATAL(zkl_read_lock_new(&lock, session, path, NULL, NULL), ZKL_OK);
    return lock;
}

static zkl_lock *make_writer(zkl_session *session, const char *path)
{
    zkl_lock *lock = NULL;
    CU_ASSERT_EQUAL_FATAL(zkl_write_lock_new(&lock, session, path, NULL, NULL), ZKL_OK);
    return lock;
}

static void check_downgrade(zkl_session *session, const char *path, struct proxy *proxy)
{
    zkl_session *other = open_one();
    zkl_lock *lock = make_writer(session, path), *reader = make_reader(other, path), *writer = make_writer(other, path);
    CU_ASSERT_EQUAL_FATAL(zkl_lock_acquire(lock, SOON, NULL, NULL), ZKL_OK);
    int64_t token = zkl_lock_token(lock);
    CU_ASSERT_EQUAL(zkl_lock_acquire(reader, 0, NULL, NULL), ZKL_EBUSY);
    if (proxy) {
        proxy_lose_next(proxy, PROXY_OP_MULTI);
    }
    int code = zkl_write_lock_downgrade(lock, NULL);
    CU_ASSERT(code == ZKL_OK || (proxy && code == ZKL_ETIMEOUT));
    CU_ASSERT_EQUAL(zkl_lock_acquire(reader, SOON, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(queue_length(eye, path), 2); /* one znode each */
    CU_ASSERT_EQUAL(zkl_lock_acquire(writer, 0, NULL, NULL), ZKL_EBUSY);
    CU_ASSERT_EQUAL(zkl_lock_token(lock), token);
    CU_ASSERT_EQUAL(zkl_lock_release(reader, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(writer, 0, NULL, NULL), ZKL_EBUSY);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(writer, SOON, NULL, NULL), ZKL_OK);
    zkl_lock_free(writer);
    CU_ASSERT(queue_becomes(eye, path, 0));
    zkl_lock_free(lock);
    zkl_lock_free(reader);
    close_one(other);
}

static void test_downgrade(void)
{
    zkl_session *session = open_one();
    check_downgrade(session, "/rw", NULL);
    close_one(session);
}

static void test_downgrade_with_a_lost_answer(void)
{
    struct proxy *proxy;
    zkl_session *session = open_behind(&proxy);
    check_downgrade(session, "/rw-lost", proxy);
    close_behind(session, proxy);
}

/* --- wake-ups: what each session was told by its watches, by its own count ------------------------------------------- */

#define CROWD 6

static zkl_session *crowd[CROWD];
static uint64_t heard[CROWD];

static uint64_t watches(zkl_session *session)
{
    zkl_stats stats = ZKL_STATS_INIT;
    CU_ASSERT_EQUAL(zkl_session_stats(session, &stats), ZKL_OK);
    return stats.watches;
}

/* Since the last call, one digit a session. */
static const char *wake_ups(void)
{
    static char digits[CROWD + 1];
    for (int i = 0; i < CROWD; i++) {
        uint64_t now = watches(crowd[i]);
        digits[i] = (char)('0' + (now - heard[i] < 9 ? now - heard[i] : 9));
        heard[i] = now;
    }
    return digits;
}

/* Long sessions: who holds watches its own znode after the first heartbeat, and would hear of its end. */
static void crowd_begin(void)
{
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = contest_session(ensemble_servers(server), TIMEOUT_MAX, TICK);
    }
    wake_ups();
}

static void crowd_end(void)
{
    for (int i = 0; i < CROWD; i++) {
        close_one(crowd[i]);
    }
}

static void on_rw(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    (void)lock, (void)grant, (void)err;
    atomic_fetch_add((atomic_int *)payload, code == ZKL_OK);
}

static bool soon(atomic_int *count, int want)
{
    for (int64_t end = now_ms() + SOON; atomic_load(count) < want;) {
        if (!look_again(end)) {
            return false;
        }
    }
    return true;
}

/* A writer, three readers, two writers. */
static void test_wake_ups_of_readers_and_writers(void)
{
    static const bool reads[CROWD] = {false, true, true, true, false, false};
    zkl_lock *locks[CROWD];
    atomic_int granted = 0;
    crowd_begin();
    for (int i = 0; i < CROWD; i++) {
        locks[i] = (reads[i] ? make_reader : make_writer)(crowd[i], "/rw-wake");
        CU_ASSERT_EQUAL(zkl_lock_acquire_async(locks[i], SOON, on_rw, &granted, NULL), ZKL_OK);
        CU_ASSERT(queue_becomes(eye, "/rw-wake", (size_t)i + 1));
    }
    CU_ASSERT(soon(&granted, 1));
    zkl_lock_release(locks[0], NULL);
    CU_ASSERT(soon(&granted, 4));
    CU_ASSERT_STRING_EQUAL(wake_ups(), "011100");
    zkl_lock_release(locks[1], NULL);
    zkl_lock_release(locks[2], NULL);
    CU_ASSERT(queue_becomes(eye, "/rw-wake", 3));
    zkl_lock_release(locks[3], NULL);
    CU_ASSERT(soon(&granted, 5));
    /* The writer watched the last of them. The readers had watched their own places, too, to be able to believe an announced release;
     * each hears of its own end. */
    CU_ASSERT_STRING_EQUAL(wake_ups(), "011110");
    zkl_lock_release(locks[4], NULL);
    CU_ASSERT(soon(&granted, 6));
    CU_ASSERT_STRING_EQUAL(wake_ups(), "000001");
    for (int i = 0; i < CROWD; i++) {
        zkl_lock_free(locks[i]);
    }
    crowd_end();
}

static void on_permit(zkl_lock *semaphore, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    (void)semaphore, (void)grant, (void)err;
    atomic_fetch_add((atomic_int *)payload, code == ZKL_OK);
}

/* Each who waits has one watch: the head of the queue on the permits, the others on the place before theirs. The head has one on the
 * limit besides. */
static bool watch_who_wait(int waiting)
{
    char line[32];
    snprintf(line, sizeof line, "zk_watch_count\t%d\n", waiting + 1);
    return ensemble_ask_until(server, 0, "mntr", line, true, SOON);
}

/* Two hold, four wait: a release wakes the head, and its place the one behind it. */
static void test_wake_ups_of_a_semaphore(void)
{
    zkl_lock *semaphores[CROWD];
    atomic_int granted = 0;
    crowd_begin();
    for (int i = 0; i < CROWD; i++) {
        CU_ASSERT_EQUAL_FATAL(zkl_semaphore_new(&semaphores[i], crowd[i], "/permits-wake", 2, NULL, NULL), ZKL_OK);
        CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(semaphores[i], 1, SOON, on_permit, &granted, NULL), ZKL_OK);
        CU_ASSERT(i < 2 ? soon(&granted, i + 1) : queue_becomes(eye, "/permits-wake/locks", (size_t)i - 1));
    }
    CU_ASSERT(watch_who_wait(4));
    wake_ups();
    zkl_semaphore_release(semaphores[0], 1, NULL);
    CU_ASSERT(soon(&granted, 3));
    CU_ASSERT(queue_becomes(eye, "/permits-wake/locks", 3) && watch_who_wait(3));
    CU_ASSERT_STRING_EQUAL(wake_ups(), "001100");
    zkl_semaphore_release(semaphores[1], 1, NULL);
    CU_ASSERT(soon(&granted, 4));
    CU_ASSERT(queue_becomes(eye, "/permits-wake/locks", 2) && watch_who_wait(2));
    CU_ASSERT_STRING_EQUAL(wake_ups(), "000110");
    for (int i = 0; i < CROWD; i++) {
        zkl_lock_free(semaphores[i]);
    }
    crowd_end();
}

/* One session has lost a reply meanwhile, and another one may only read. */
static void check_resizes(struct proxy *proxy, zkl_session *behind)
{
    static const zkl_acl_entry entry = {ZKL_PERM_ALL & ~ZKL_PERM_WRITE, "world", "anyone"};
    static const zkl_acl acl = {1, &entry};
    const zkl_op op = {.kind = ZKL_OP_CREATE, .path = "/only-read", .data = "3", .size = 1, .acl = &acl};
    zkl_lock *lock = contest_holder(crowd[0], "/resizer");
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, &op, 1, SOON, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_resize(crowd[0], "/only-read", 4, SOON, &err), ZKL_EAUTH);
    CU_ASSERT_EQUAL(zkl_semaphore_resize(crowd[0], "/nowhere", 4, SOON, &err), ZKL_ENOENT);
    zkl_lock_free(lock);
    proxy_lose_next(proxy, PROXY_OP_SET);
    CU_ASSERT_EQUAL(zkl_semaphore_resize(behind, "/resized", 3, SOON, &err), ZKL_OK);
}

/* Two of two are held, two wait: a third and a fourth are granted at once, and with a limit of one the next waits for all of them. */
static void test_semaphore_resized(void)
{
    struct proxy *proxy;
    zkl_session *behind = open_behind(&proxy);
    zkl_lock *semaphores[CROWD];
    zkl_data *limit;
    atomic_int granted = 0;
    crowd_begin();
    for (int i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL_FATAL(zkl_semaphore_new(&semaphores[i], crowd[i], "/resized", i == 0 ? 2 : 0, NULL, NULL),
                              ZKL_OK);
        CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(semaphores[i], 1, SOON, on_permit, &granted, NULL), ZKL_OK);
        CU_ASSERT(i < 2 ? soon(&granted, i + 1) : queue_becomes(eye, "/resized/locks", (size_t)i - 1));
    }
    check_resizes(proxy, behind);
    CU_ASSERT(soon(&granted, 3));
    CU_ASSERT_EQUAL(zkl_semaphore_resize(crowd[5], "/resized", 4, SOON, NULL), ZKL_OK);
    CU_ASSERT(soon(&granted, 4));
    CU_ASSERT_EQUAL(zkl_semaphore_resize(crowd[5], "/resized", 1, SOON, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_new(&semaphores[4], crowd[4], "/resized", 0, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(semaphores[4], 1, SOON, on_permit, &granted, NULL), ZKL_OK);
    for (int i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL(atomic_load(&granted), 4);
        CU_ASSERT(zkl_lock_is_held(semaphores[i]));
        CU_ASSERT_EQUAL(zkl_semaphore_release(semaphores[i], 0, NULL), ZKL_OK);
    }
    CU_ASSERT(soon(&granted, 5));
    zkl_lock *lock = contest_holder(crowd[0], "/resizer");
    CU_ASSERT_EQUAL_FATAL(zkl_lock_read(&limit, lock, "/resized", true, SOON, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(limit->version, 4); /* each resize once, and the first limit */
    zkl_data_free(limit);
    zkl_lock_free(lock);
    for (int i = 0; i < 5; i++) {
        zkl_lock_free(semaphores[i]);
    }
    crowd_end();
    close_behind(behind, proxy);
}

/* --- multi-lock ------------------------------------------------------------------------------------------------------ */

static const char *const ab[] = {"/multi/a", "/multi/b"}, *const ba[] = {"/multi/b", "/multi/a"};
static atomic_int inside, overlaps, grants;

struct mover {
    zkl_session *session;
    const char *const *paths;
};

static zkl_lock *multilock(zkl_session *session, const char *const *paths)
{
    zkl_lock *lock = NULL;
    CU_ASSERT_EQUAL_FATAL(zkl_multilock_new(&lock, session, paths, 2, NULL, NULL), ZKL_OK);
    return lock;
}

static void *move(void *arg)
{
    const struct mover *mover = arg;
    zkl_lock *lock = multilock(mover->session, mover->paths);
    for (int i = 0; i < 25 && zkl_lock_acquire(lock, SOON, NULL, NULL) == ZKL_OK; i++) {
        atomic_fetch_add(&overlaps, atomic_fetch_add(&inside, 1) > 0);
        atomic_fetch_add(&grants, 1);
        atomic_fetch_sub(&inside, 1);
        zkl_lock_release(lock, NULL);
    }
    zkl_lock_free(lock);
    return NULL;
}

static void test_multilocks_in_any_order(void)
{
    zkl_session *sessions[2] = {open_one(), open_one()};
    struct mover movers[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        movers[i] = (struct mover){sessions[i % 2], i / 2 ? ab : ba};
        pthread_create(&threads[i], NULL, move, &movers[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    CU_ASSERT_EQUAL(atomic_load(&grants), 100);
    CU_ASSERT_EQUAL(atomic_load(&overlaps), 0);
    CU_ASSERT(queue_becomes(eye, ab[0], 0) && queue_becomes(eye, ab[1], 0));
    close_one(sessions[0]);
    close_one(sessions[1]);
}

/* The answer of the transaction that queues is lost, then of the one that releases. */
static void test_multilock_with_lost_answers(void)
{
    struct proxy *proxy;
    zkl_session *session = open_behind(&proxy);
    zkl_lock *lock = multilock(session, ab);
    proxy_lose_next(proxy, PROXY_OP_MULTI);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, SOON, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(proxy_hits(proxy), 1);
    CU_ASSERT_EQUAL(queue_length(eye, ab[0]), 1);
    CU_ASSERT_EQUAL(queue_length(eye, ab[1]), 1);
    proxy_lose_next(proxy, PROXY_OP_MULTI);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    CU_ASSERT(queue_becomes(eye, ab[0], 0) && queue_becomes(eye, ab[1], 0));
    zkl_lock_free(lock);
    close_behind(session, proxy);
}

static void test_multilock_of_which_one_is_gone(void)
{
    zkl_session *session = open_one();
    zkl_lock *lock = multilock(session, ab);
    zkl_queue *queue = NULL;
    CU_ASSERT_EQUAL_FATAL(zkl_lock_acquire(lock, SOON, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_queue_list(&queue, session, ab[1], SOON, NULL), ZKL_OK);
    CU_ASSERT_TRUE(queue_remove(eye, ab[1], queue->entries[0].name));
    zkl_queue_free(queue);
    zkl_lock_release(lock, NULL); /* the transaction fails whole: one by one, then */
    CU_ASSERT(queue_becomes(eye, ab[0], 0) && queue_becomes(eye, ab[1], 0));
    zkl_lock_free(lock);
    close_one(session);
}

/* --- recover --------------------------------------------------------------------------------------------------------- */

static bool unclean(zkl_session *session)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_grant grant = {0};
    options.recover = true;
    zkl_lock *lock = contest_lock(session, "/recover", &options);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, SOON, &grant, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    zkl_lock_free(lock);
    return grant.unclean;
}

static zkl_lock *make_recoverable(const char *servers)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.recover = true;
    return contest_lock(contest_session(servers, TIMEOUT, TICK), "/recover", &options);
}

static void test_crash(void)
{
    zkl_session *session = open_one();
    CU_ASSERT_FALSE(unclean(session));
    CU_ASSERT_FALSE(unclean(session));
    holder_kill(holder_start(ensemble_servers(server)));
    CU_ASSERT(queue_becomes(eye, "/recover", 0)); /* nobody is queued as it goes */
    CU_ASSERT_TRUE(unclean(session));
    CU_ASSERT_FALSE(unclean(session));
    close_one(session);
}

/* --- revocation ------------------------------------------------------------------------------------------------------ */

static void on_revoke(zkl_lock *lock, void *payload)
{
    atomic_fetch_add((atomic_int *)payload, 1);
    zkl_lock_release(lock, NULL);
}

static void test_revocation(void)
{
    zkl_session *session = open_one(), *other = open_one();
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    atomic_int asked = 0;
    struct waiter waiter;
    options.revoke_fn = on_revoke;
    options.payload = &asked;
    zkl_lock *lock = contest_lock(session, "/revoke", &options), *next = contest_lock(other, "/revoke", NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, SOON, NULL, NULL), ZKL_OK);
    waiter_queue(&waiter, next, SOON);
    CU_ASSERT_EQUAL(zkl_queue_revoke(other, "/revoke", NULL, SOON, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(waiter_end(&waiter), ZKL_OK);
    CU_ASSERT_EQUAL(atomic_load(&asked), 1);
    zkl_lock_free(next);
    CU_ASSERT_EQUAL(zkl_queue_revoke(other, "/revoke", NULL, SOON, NULL), ZKL_ENOTHELD);
    zkl_lock_free(lock);
    close_one(session);
    close_one(other);
}

/* --- the guarded transaction ----------------------------------------------------------------------------------------- */

static void test_commit(void)
{
    zkl_session *session = open_one();
    zkl_lock *lock = contest_holder(session, "/commit");
    zkl_op_result results[3];
    zkl_error err;
    zkl_op ops[] = {{.kind = ZKL_OP_CREATE, .path = "/record", .data = "x", .size = 1},
                    {.kind = ZKL_OP_CREATE, .path = "/record-", .mode = ZKL_CREATE_EPHEMERAL_SEQUENTIAL},
                    {.kind = ZKL_OP_SET, .path = "/record", .data = "yy", .size = 2, .version = 0}};
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, ops, 3, ZKL_WAIT_FOREVER, results, NULL), ZKL_OK);
    CU_ASSERT_STRING_EQUAL(results[0].path, "/record");
    CU_ASSERT_EQUAL(strncmp(results[1].path, "/record-0", 9), 0);
    CU_ASSERT_EQUAL(results[2].version, 1);
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, ops, 3, ZKL_WAIT_FOREVER, results, &err), ZKL_ECONFLICT); /* it exists */
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "operation 0: node exists"));
    CU_ASSERT_EQUAL(results[0].code, ZKL_ECONFLICT);
    CU_ASSERT_EQUAL(results[1].code, ZKL_ECANCELED);
    CU_ASSERT_EQUAL(results[2].code, ZKL_ECANCELED);
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, &ops[2], 1, ZKL_WAIT_FOREVER, results, &err),
                    ZKL_ECONFLICT); /* another version */
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "bad version"));
    zkl_op wrong = {.kind = ZKL_OP_DELETE, .path = "/record/not-there", .version = ZKL_ANY_VERSION};
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, &wrong, 1, ZKL_WAIT_FOREVER, results, &err), ZKL_ENOENT);
    char node[128];
    zkl_lock_node(lock, node, sizeof node);
    CU_ASSERT_TRUE(queue_remove(eye, "/commit", node));
    ops[2].version = ZKL_ANY_VERSION;
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, &ops[2], 1, ZKL_WAIT_FOREVER, results, &err), ZKL_ELOST);
    CU_ASSERT_EQUAL(results[0].code, ZKL_ECANCELED);
    zkl_lock_free(lock);
    close_one(session);
}

static void test_commit_with_a_lost_answer(void)
{
    struct proxy *proxy;
    zkl_session *session = open_behind(&proxy);
    zkl_lock *lock = contest_holder(session, "/commit");
    const zkl_op op = {.kind = ZKL_OP_CREATE, .path = "/lost-record"};
    zkl_error err;
    proxy_lose_next(proxy, PROXY_OP_MULTI);
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, &op, 1, ZKL_WAIT_FOREVER, NULL, &err), ZKL_ECONNECT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "may be done, or not"));
    int code = ZKL_ECONNECT;
    for (int64_t end = now_ms() + SOON; code == ZKL_ECONNECT && look_again(end);) {
        code = zkl_lock_commit(lock, &op, 1, ZKL_WAIT_FOREVER, NULL, &err);
    }
    CU_ASSERT_EQUAL(code, ZKL_ECONFLICT); /* it was done */
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    zkl_lock_free(lock);
    close_behind(session, proxy);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        T(test_downgrade),
        T(test_downgrade_with_a_lost_answer),
        T(test_wake_ups_of_readers_and_writers),
        T(test_wake_ups_of_a_semaphore),
        T(test_semaphore_resized),
        T(test_multilocks_in_any_order),
        T(test_multilock_with_lost_answers),
        T(test_multilock_of_which_one_is_gone),
        T(test_crash),
        T(test_revocation),
        T(test_commit),
        T(test_commit_with_a_lost_answer),
    };
    holder_main(argc, argv, make_recoverable);
    return one_server_main("recipes on a real server", cases, (int)(sizeof cases / sizeof *cases), argc, argv);
}
