#include "access_kit.h"

#include "check.h"
#include "contest.h"

#define LOOK_MS 1000 /* longer than any backoff lasts that has begun a moment ago */
/* A heartbeat, a keep-alive and the watch on a znode of its own may fall into the time of one alone. */
#define PERIODIC 3

static const zkl_acl_entry not_to_be_read = {ZKL_PERM_ALL & ~ZKL_PERM_READ, "world", "anyone"};
const zkl_acl access_hidden = {1, &not_to_be_read};

/* --- kinds --------------------------------------------------------------------------------------------------------- */

const struct access_kind access_kinds[] = {
    {"lock", "/access/lock", "/access/lock", &handle_recipes[ZKL_RECIPE_LOCK]},
    {"write lock", "/access/write", "/access/write", &handle_recipes[ZKL_RECIPE_WRITE_LOCK]},
    {"read/write lock", "/access/rw", "/access/rw", NULL},
    {"semaphore", "/access/semaphore", "/access/semaphore/locks", &handle_recipes[ZKL_RECIPE_SEMAPHORE]},
    {"election", "/access/election", "/access/election", &handle_recipes[ZKL_RECIPE_ELECTION]},
    {"multi-lock", "/access/multi", "/access/multi", &handle_recipes[ZKL_RECIPE_MULTILOCK]},
};

zkl_lock *access_make(const struct access_kind *kind, zkl_session *session, const char *path, const zkl_acl *acl)
{
    static atomic_uint times;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    const struct handle_recipe *recipe = kind->recipe;
    options.acl = acl;
    if (!recipe) {
        bool write = times++ % 2 == 0;
        recipe = &handle_recipes[write ? ZKL_RECIPE_WRITE_LOCK : ZKL_RECIPE_READ_LOCK];
    }
    return handle_make(recipe, session, path, &options);
}

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

void access_begin(struct access *access, const char *servers, bool auth, int64_t tick_ms)
{
    static const char *const credentials[] = {"ann:first secret", "bob:second secret", "ann:first secret"};
    access->eye = open_session(servers, NULL, tick_ms);
    EACH_ROW (i, access_kinds) { /* persistent, and open to all */
        ASSERT_OK_FATAL(zkl_once_prepare(access->eye, access_kinds[i].queue, SOON, NULL));
    }
    ASSERT_OK_FATAL(zkl_once_prepare(access->eye, "/access/semaphore/leases", SOON, NULL));
    ASSERT_OK_FATAL(zkl_once_prepare(access->eye, "/access/multi-other", SOON, NULL));
    for (int i = 0; i < 3; i++) {
        access->sessions[i] = open_session(servers, auth ? credentials[i] : NULL, tick_ms);
    }
}

void access_end(struct access *access)
{
    for (int i = 0; i < 3; i++) {
        kit_close(access->sessions[i]);
    }
    kit_close(access->eye);
}

/* --- waiting ------------------------------------------------------------------------------------------------------- */

uint64_t access_sent(zkl_session *session)
{
    return kit_stats(session).requests;
}

void access_await_request(zkl_session *session)
{
    uint64_t before = access_sent(session);
    ASSERT_EVENTUALLY(access_sent(session) != before);
}

static size_t queued(const struct access *access, const struct access_kind *kind)
{
    zkl_queue *queue;
    ASSERT_OK_FATAL(zkl_queue_list(&queue, access->eye, kind->queue, SOON, NULL));
    size_t length = queue->count;
    zkl_queue_free(queue);
    return length;
}

static bool all_answered(zkl_session *session)
{
    zkl_stats stats = kit_stats(session);
    return stats.request.count + stats.unanswered == stats.requests;
}

/* Begins to wait, in that session, and returns when there is nothing more that it asks for: its watch is set. */
static void wait_begin(struct access *access, const struct access_kind *kind, struct waiter *waiter, zkl_lock *lock,
                       int number)
{
    bool holder_stays = strcmp(kind->path, kind->queue) == 0; /* a permit is held elsewhere */
    size_t length = (size_t)number + holder_stays;
    int64_t end = now_ms() + SOON;
    int calm = 0;
    waiter_start(waiter, lock, 2 * SOON);
    while (calm < 5 && look_again(end)) {
        bool stands = queued(access, kind) == length;
        calm = stands && all_answered(access->sessions[number]) ? calm + 1 : 0;
    }
    CU_ASSERT_EQUAL_FATAL(calm, 5);
}

int64_t access_hand_over(struct access *access, const struct access_kind *kind, const zkl_acl *acl)
{
    zkl_lock *locks[3];
    struct waiter waits[3];
    int64_t took[3] = {0};
    for (int i = 0; i < 3; i++) {
        locks[i] = access_make(kind, access->sessions[i], kind->path, acl);
    }
    ASSERT_OK_FATAL(zkl_lock_acquire(locks[0], SOON, NULL, NULL));
    for (int i = 1; i < 3; i++) {
        wait_begin(access, kind, &waits[i], locks[i], i);
    }
    for (int i = 1; i < 3; i++) {
        int64_t since = boot_ns();
        kit_release(locks[i - 1]);
        ASSERT_OK(waiter_end(&waits[i]));
        took[i] = waits[i].ended_ns - since;
    }
    kit_release(locks[2]);
    for (int i = 0; i < 3; i++) {
        zkl_lock_free(locks[i]);
    }
    return took[1] > took[2] ? took[1] : took[2];
}

uint64_t access_requests(struct access *access, const struct access_kind *kind, const zkl_acl *acl)
{
    zkl_session *holds = access->sessions[0], *waits = access->sessions[1];
    zkl_lock *holder = access_make(kind, holds, kind->path, acl), *lock = access_make(kind, waits, kind->path, acl);
    struct waiter waiter;
    ASSERT_OK_FATAL(zkl_lock_acquire(holder, SOON, NULL, NULL));
    wait_begin(access, kind, &waiter, lock, 1);
    uint64_t sent = access_sent(waits), usual = access_sent(holds);
    poll(NULL, 0, LOOK_MS);
    sent = access_sent(waits) - sent;
    usual = access_sent(holds) - usual;
    zkl_lock_cancel(lock);
    CU_ASSERT_EQUAL(waiter_end(&waiter), ZKL_ECANCELED);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, NULL), ZKL_EBUSY);
    kit_release(holder);
    zkl_lock_free(holder);
    zkl_lock_free(lock);
    return sent > usual + PERIODIC ? sent - usual : 0;
}
