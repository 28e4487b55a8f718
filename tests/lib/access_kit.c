#include "access_kit.h"

#include "check.h"
#include "wait.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const zkl_acl_entry not_to_be_read = {ZKL_PERM_ALL & ~ZKL_PERM_READ, "world", "anyone"};
const zkl_acl access_hidden = {1, &not_to_be_read};

/* --- kinds --------------------------------------------------------------------------------------------------------- */

static void *lock_make(zkl_session *session, const char *path, const zkl_acl *acl)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_lock *lock = NULL;
    options.acl = acl;
    CU_ASSERT_EQUAL_FATAL(zkl_lock_new(&lock, session, path, &options, NULL), ZKL_OK);
    return lock;
}

static int lock_acquire(void *lock, int64_t timeout_ms)
{
    return zkl_lock_acquire(lock, timeout_ms, NULL, NULL);
}

static int lock_release(void *lock)
{
    return zkl_lock_release(lock, NULL);
}

static void lock_free(void *lock)
{
    zkl_lock_free(lock);
}

static void *rwlock_make(zkl_session *session, const char *path, const zkl_acl *acl)
{
    zkl_rwlock_options options = ZKL_RWLOCK_OPTIONS_INIT;
    zkl_rwlock *lock = NULL;
    options.acl = acl;
    CU_ASSERT_EQUAL_FATAL(zkl_rwlock_new(&lock, session, path, &options, NULL), ZKL_OK);
    return lock;
}

static int rwlock_write(void *lock, int64_t timeout_ms)
{
    return zkl_rwlock_acquire(lock, ZKL_RW_WRITE, timeout_ms, NULL, NULL);
}

/* Writers and readers in turn, as they ask: each waits for the one before it. */
static int rwlock_either(void *lock, int64_t timeout_ms)
{
    static atomic_uint times;
    zkl_rwmode mode = atomic_fetch_add(&times, 1) % 2 == 0 ? ZKL_RW_WRITE : ZKL_RW_READ;
    return zkl_rwlock_acquire(lock, mode, timeout_ms, NULL, NULL);
}

static int rwlock_release(void *lock)
{
    return zkl_rwlock_release(lock, NULL);
}

static void rwlock_free(void *lock)
{
    zkl_rwlock_free(lock);
}

static void *semaphore_make(zkl_session *session, const char *path, const zkl_acl *acl)
{
    zkl_semaphore_options options = ZKL_SEMAPHORE_OPTIONS_INIT;
    zkl_semaphore *semaphore = NULL;
    options.acl = acl;
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_new(&semaphore, session, path, 1, &options, NULL), ZKL_OK);
    return semaphore;
}

static int semaphore_acquire(void *semaphore, int64_t timeout_ms)
{
    return zkl_semaphore_acquire(semaphore, 1, timeout_ms, NULL, NULL);
}

static int semaphore_release(void *semaphore)
{
    return zkl_semaphore_release(semaphore, 1, NULL);
}

static void semaphore_free(void *semaphore)
{
    zkl_semaphore_free(semaphore);
}

static void *election_make(zkl_session *session, const char *path, const zkl_acl *acl)
{
    zkl_election_options options = ZKL_ELECTION_OPTIONS_INIT;
    zkl_election *election = NULL;
    options.acl = acl;
    CU_ASSERT_EQUAL_FATAL(zkl_election_new(&election, session, path, &options, NULL), ZKL_OK);
    return election;
}

static int election_campaign(void *election, int64_t timeout_ms)
{
    return zkl_election_campaign(election, timeout_ms, NULL, NULL);
}

static int election_resign(void *election)
{
    return zkl_election_resign(election, NULL);
}

static void election_free(void *election)
{
    zkl_election_free(election);
}

#define OTHER "/access/other"

static void *multilock_make(zkl_session *session, const char *path, const zkl_acl *acl)
{
    zkl_multilock_options options = ZKL_MULTILOCK_OPTIONS_INIT;
    zkl_multilock *lock = NULL;
    const char *const paths[] = {path, OTHER};
    options.acl = acl;
    CU_ASSERT_EQUAL_FATAL(zkl_multilock_new(&lock, session, paths, 2, &options, NULL), ZKL_OK);
    return lock;
}

static int multilock_acquire(void *lock, int64_t timeout_ms)
{
    return zkl_multilock_acquire(lock, timeout_ms, NULL, NULL);
}

static int multilock_release(void *lock)
{
    return zkl_multilock_release(lock, NULL);
}

static void multilock_free(void *lock)
{
    zkl_multilock_free(lock);
}

const struct access_kind access_kinds[] = {
    {"lock", "/access/lock", "/access/lock", lock_make, lock_acquire, lock_release, lock_free},
    {"write lock", "/access/write", "/access/write", rwlock_make, rwlock_write, rwlock_release, rwlock_free},
    {"read/write lock", "/access/rw", "/access/rw", rwlock_make, rwlock_either, rwlock_release, rwlock_free},
    {"semaphore", "/access/semaphore", "/access/semaphore/locks", semaphore_make, semaphore_acquire, semaphore_release,
     semaphore_free},
    {"election", "/access/election", "/access/election", election_make, election_campaign, election_resign,
     election_free},
    {"multi-lock", "/access/multi", "/access/multi", multilock_make, multilock_acquire, multilock_release,
     multilock_free},
};
const int access_kind_count = sizeof access_kinds / sizeof *access_kinds;

/* --- sessions ------------------------------------------------------------------------------------------------------ */

static zkl_session *open_session(const char *servers, const char *auth, int64_t tick_ms)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_session *session = NULL;
    zkl_error err = {0};
    options.tick_ms = tick_ms;
    options.auth_scheme = auth ? "digest" : NULL;
    options.auth = auth;
    options.auth_size = auth ? strlen(auth) : 0;
    if (zkl_session_open(&session, servers, &options, &err) != ZKL_OK) {
        fprintf(stderr, "%s: %s\n", servers, err.text);
    }
    CU_ASSERT_PTR_NOT_NULL_FATAL(session);
    return session;
}

/* Persistent, and open to all. */
static void make_directories(zkl_session *session)
{
    static const char *const more[] = {OTHER, "/access/semaphore/locks", "/access/semaphore/leases"};
    for (int i = 0; i < access_kind_count; i++) {
        CU_ASSERT_EQUAL_FATAL(zkl_once_prepare(session, access_kinds[i].path, SOON, NULL), ZKL_OK);
    }
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        CU_ASSERT_EQUAL_FATAL(zkl_once_prepare(session, more[i], SOON, NULL), ZKL_OK);
    }
}

void access_begin(struct access *access, const char *servers, bool auth, int64_t tick_ms)
{
    static const char *const credentials[] = {"ann:first secret", "bob:second secret", "ann:first secret"};
    access->eye = open_session(servers, NULL, tick_ms);
    make_directories(access->eye);
    for (int i = 0; i < 3; i++) {
        access->sessions[i] = open_session(servers, auth ? credentials[i] : NULL, tick_ms);
    }
}

void access_end(struct access *access)
{
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(zkl_session_close(access->sessions[i], SOON), ZKL_OK);
    }
    CU_ASSERT_EQUAL(zkl_session_close(access->eye, SOON), ZKL_OK);
}

/* --- waiting ------------------------------------------------------------------------------------------------------- */

struct wait {
    const struct access_kind *kind;
    void *object;
    pthread_t thread;
    int code;
    int64_t ended_ns;
};

static void *wait_for_it(void *arg)
{
    struct wait *wait = arg;
    wait->code = wait->kind->acquire(wait->object, 2 * SOON);
    wait->ended_ns = boot_ns();
    return NULL;
}

uint64_t access_sent(zkl_session *session)
{
    zkl_stats stats = ZKL_STATS_INIT;
    CU_ASSERT_EQUAL(zkl_session_stats(session, &stats), ZKL_OK);
    return stats.requests;
}

static size_t queue_length(const struct access *access, const struct access_kind *kind)
{
    zkl_queue *queue = NULL;
    CU_ASSERT_EQUAL_FATAL(zkl_queue_list(&queue, access->eye, kind->queue, SOON, NULL), ZKL_OK);
    size_t length = queue->count;
    zkl_queue_free(queue);
    return length;
}

static bool all_answered(zkl_session *session)
{
    zkl_stats stats = ZKL_STATS_INIT;
    CU_ASSERT_EQUAL(zkl_session_stats(session, &stats), ZKL_OK);
    return stats.request.count + stats.unanswered == stats.requests;
}

/* Begins to wait, and returns when there is nothing more that it asks for: its watch is set. */
static void wait_begin(struct access *access, struct wait *wait, int number, size_t length)
{
    int64_t end = now_ms() + SOON;
    int calm = 0;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&wait->thread, NULL, wait_for_it, wait), 0);
    while (calm < 5 && look_again(end)) {
        bool stands = queue_length(access, wait->kind) == length;
        calm = stands && all_answered(access->sessions[number]) ? calm + 1 : 0;
    }
    CU_ASSERT_EQUAL_FATAL(calm, 5);
}

static int64_t wait_end(struct wait *wait, int64_t since_ns)
{
    CU_ASSERT_EQUAL(pthread_join(wait->thread, NULL), 0);
    CU_ASSERT_EQUAL(wait->code, ZKL_OK);
    return wait->ended_ns - since_ns;
}

int64_t access_hand_over(struct access *access, const struct access_kind *kind, const zkl_acl *acl)
{
    struct wait waits[3];
    int64_t took[3] = {0};
    bool holder_leaves_queue = strcmp(kind->path, kind->queue) != 0; /* a permit is held elsewhere */
    for (int i = 0; i < 3; i++) {
        waits[i] = (struct wait){.kind = kind, .object = kind->make(access->sessions[i], kind->path, acl)};
    }
    CU_ASSERT_EQUAL_FATAL(kind->acquire(waits[0].object, SOON), ZKL_OK);
    for (int i = 1; i < 3; i++) {
        wait_begin(access, &waits[i], i, (size_t)i + !holder_leaves_queue);
    }
    for (int i = 1; i < 3; i++) {
        int64_t since = boot_ns();
        CU_ASSERT_EQUAL(kind->release(waits[i - 1].object), ZKL_OK);
        took[i] = wait_end(&waits[i], since);
    }
    CU_ASSERT_EQUAL(kind->release(waits[2].object), ZKL_OK);
    for (int i = 0; i < 3; i++) {
        kind->free(waits[i].object);
    }
    return took[1] > took[2] ? took[1] : took[2];
}

uint64_t access_requests(struct access *access, const struct access_kind *kind, const zkl_acl *acl)
{
    void *holder = kind->make(access->sessions[0], kind->path, acl);
    void *other = kind->make(access->sessions[1], kind->path, acl);
    CU_ASSERT_EQUAL_FATAL(kind->acquire(holder, SOON), ZKL_OK);
    uint64_t before = access_sent(access->sessions[1]);
    CU_ASSERT_EQUAL(kind->acquire(other, 1000), ZKL_ETIMEOUT);
    uint64_t sent = access_sent(access->sessions[1]) - before;
    if (kind->acquire != rwlock_either) { /* whose third asks as the first did: two readers */
        CU_ASSERT_EQUAL(kind->acquire(other, 0), ZKL_EBUSY);
    }
    CU_ASSERT_EQUAL(kind->release(holder), ZKL_OK);
    kind->free(holder);
    kind->free(other);
    return sent;
}
