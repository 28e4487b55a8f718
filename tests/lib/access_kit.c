#include "access_kit.h"

#include "check.h"
#include "wait.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define LOOK_MS 1000 /* longer than any backoff lasts that has begun a moment ago */
/* A heartbeat, a keep-alive and the watch on a znode of its own may fall into the time of one alone. */
#define PERIODIC 3

static const zkl_acl_entry not_to_be_read = {ZKL_PERM_ALL & ~ZKL_PERM_READ, "world", "anyone"};
const zkl_acl access_hidden = {1, &not_to_be_read};

/* --- kinds --------------------------------------------------------------------------------------------------------- */

static zkl_lock *make(int (*new)(zkl_lock **, zkl_session *, const char *, const zkl_lock_options *, zkl_error *),
                      zkl_session *session, const char *path, const zkl_acl *acl)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_lock *lock = NULL;
    options.acl = acl;
    ASSERT_OK_FATAL(new (&lock, session, path, &options, NULL));
    return lock;
}

static zkl_lock *make_lock(zkl_session *session, const char *path, const zkl_acl *acl)
{
    return make(zkl_lock_new, session, path, acl);
}

static zkl_lock *make_writer(zkl_session *session, const char *path, const zkl_acl *acl)
{
    return make(zkl_write_lock_new, session, path, acl);
}

/* Writers and readers in turn: each waits for the one before it. */
static zkl_lock *make_either(zkl_session *session, const char *path, const zkl_acl *acl)
{
    static atomic_uint times;
    bool write = atomic_fetch_add(&times, 1) % 2 == 0;
    return make(write ? zkl_write_lock_new : zkl_read_lock_new, session, path, acl);
}

static zkl_lock *make_candidate(zkl_session *session, const char *path, const zkl_acl *acl)
{
    return make(zkl_election_new, session, path, acl);
}

static int one_permit(zkl_lock **out, zkl_session *session, const char *path, const zkl_lock_options *options,
                      zkl_error *err)
{
    return zkl_semaphore_new(out, session, path, 1, options, err);
}

static zkl_lock *make_semaphore(zkl_session *session, const char *path, const zkl_acl *acl)
{
    return make(one_permit, session, path, acl);
}

#define OTHER "/access/other"

static int both_paths(zkl_lock **out, zkl_session *session, const char *path, const zkl_lock_options *options,
                      zkl_error *err)
{
    const char *const paths[] = {path, OTHER};
    return zkl_multilock_new(out, session, paths, 2, options, err);
}

static zkl_lock *make_multilock(zkl_session *session, const char *path, const zkl_acl *acl)
{
    return make(both_paths, session, path, acl);
}

const struct access_kind access_kinds[] = {
    {"lock", "/access/lock", "/access/lock", make_lock},
    {"write lock", "/access/write", "/access/write", make_writer},
    {"read/write lock", "/access/rw", "/access/rw", make_either},
    {"semaphore", "/access/semaphore", "/access/semaphore/locks", make_semaphore},
    {"election", "/access/election", "/access/election", make_candidate},
    {"multi-lock", "/access/multi", "/access/multi", make_multilock},
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
        ASSERT_OK_FATAL(zkl_once_prepare(session, access_kinds[i].path, SOON, NULL));
    }
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        ASSERT_OK_FATAL(zkl_once_prepare(session, more[i], SOON, NULL));
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
        ASSERT_OK(zkl_session_close(access->sessions[i], SOON));
    }
    ASSERT_OK(zkl_session_close(access->eye, SOON));
}

/* --- waiting ------------------------------------------------------------------------------------------------------- */

struct wait {
    const struct access_kind *kind;
    zkl_lock *lock;
    pthread_t thread;
    int code;
    int64_t ended_ns;
};

static void *wait_for_it(void *arg)
{
    struct wait *wait = arg;
    wait->code = zkl_lock_acquire(wait->lock, 2 * SOON, NULL, NULL);
    wait->ended_ns = boot_ns();
    return NULL;
}

uint64_t access_sent(zkl_session *session)
{
    zkl_stats stats = ZKL_STATS_INIT;
    ASSERT_OK(zkl_session_stats(session, &stats));
    return stats.requests;
}

static size_t queue_length(const struct access *access, const struct access_kind *kind)
{
    zkl_queue *queue = NULL;
    ASSERT_OK_FATAL(zkl_queue_list(&queue, access->eye, kind->queue, SOON, NULL));
    size_t length = queue->count;
    zkl_queue_free(queue);
    return length;
}

static bool all_answered(zkl_session *session)
{
    zkl_stats stats = ZKL_STATS_INIT;
    ASSERT_OK(zkl_session_stats(session, &stats));
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
    ASSERT_OK(wait->code);
    return wait->ended_ns - since_ns;
}

int64_t access_hand_over(struct access *access, const struct access_kind *kind, const zkl_acl *acl)
{
    struct wait waits[3];
    int64_t took[3] = {0};
    bool holder_leaves_queue = strcmp(kind->path, kind->queue) != 0; /* a permit is held elsewhere */
    for (int i = 0; i < 3; i++) {
        waits[i] = (struct wait){.kind = kind, .lock = kind->make(access->sessions[i], kind->path, acl)};
    }
    ASSERT_OK_FATAL(zkl_lock_acquire(waits[0].lock, SOON, NULL, NULL));
    for (int i = 1; i < 3; i++) {
        wait_begin(access, &waits[i], i, (size_t)i + !holder_leaves_queue);
    }
    for (int i = 1; i < 3; i++) {
        int64_t since = boot_ns();
        ASSERT_OK(zkl_lock_release(waits[i - 1].lock, NULL));
        took[i] = wait_end(&waits[i], since);
    }
    ASSERT_OK(zkl_lock_release(waits[2].lock, NULL));
    for (int i = 0; i < 3; i++) {
        zkl_lock_free(waits[i].lock);
    }
    return took[1] > took[2] ? took[1] : took[2];
}

uint64_t access_requests(struct access *access, const struct access_kind *kind, const zkl_acl *acl)
{
    bool holder_leaves_queue = strcmp(kind->path, kind->queue) != 0;
    zkl_session *holds = access->sessions[0], *waits = access->sessions[1];
    zkl_lock *holder = kind->make(holds, kind->path, acl);
    struct wait wait = {.kind = kind, .lock = kind->make(waits, kind->path, acl)};
    ASSERT_OK_FATAL(zkl_lock_acquire(holder, SOON, NULL, NULL));
    wait_begin(access, &wait, 1, 1 + !holder_leaves_queue);
    uint64_t sent = access_sent(waits), usual = access_sent(holds);
    poll(NULL, 0, LOOK_MS);
    sent = access_sent(waits) - sent;
    usual = access_sent(holds) - usual;
    zkl_lock_cancel(wait.lock);
    CU_ASSERT_EQUAL(pthread_join(wait.thread, NULL), 0);
    CU_ASSERT_EQUAL(wait.code, ZKL_ECANCELED);
    CU_ASSERT_EQUAL(zkl_lock_acquire(wait.lock, 0, NULL, NULL), ZKL_EBUSY);
    ASSERT_OK(zkl_lock_release(holder, NULL));
    zkl_lock_free(holder);
    zkl_lock_free(wait.lock);
    return sent > usual + PERIODIC ? sent - usual : 0;
}
