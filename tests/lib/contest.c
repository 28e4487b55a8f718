#include "contest.h"

#include "check.h"

static void must(const char *what, int code, const zkl_error *err)
{
    if (code != ZKL_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, zkl_error_name(code), err->text);
        abort();
    }
}

/* --- sessions and locks ---------------------------------------------------------------------------------------------- */

zkl_session_options contest_options(int64_t timeout_ms, int64_t tick_ms)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.session_timeout_ms = timeout_ms;
    options.tick_ms = tick_ms;
    options.connect_timeout_ms = SOON;
    return options;
}

zkl_session *contest_session(const char *servers, int64_t timeout_ms, int64_t tick_ms)
{
    zkl_session_options options = contest_options(timeout_ms, tick_ms);
    zkl_session *session;
    zkl_error err;
    must("session", zkl_session_open(&session, servers, &options, &err), &err);
    return session;
}

zkl_lock *contest_lock(zkl_session *session, const char *path, const zkl_lock_options *options)
{
    zkl_lock *lock;
    zkl_error err;
    must("lock", zkl_lock_new(&lock, session, path, options, &err), &err);
    return lock;
}

zkl_lock *contest_holder(zkl_session *session, const char *path)
{
    zkl_lock *lock = contest_lock(session, path, NULL);
    zkl_error err;
    must("acquire", zkl_lock_acquire(lock, SOON, NULL, &err), &err);
    return lock;
}

void contest_once(zkl_session *session, const char *path)
{
    zkl_lock *lock = contest_holder(session, path);
    kit_release(lock);
    zkl_lock_free(lock);
}

/* --- a thread that waits --------------------------------------------------------------------------------------------- */

static void *run_waiter(void *arg)
{
    struct waiter *waiter = arg;
    waiter->began_ns = boot_ns();
    waiter->code = zkl_lock_acquire(waiter->lock, waiter->timeout_ms, &waiter->grant, &waiter->err);
    waiter->ended_ns = boot_ns();
    waiter->done = true;
    return NULL;
}

void waiter_start(struct waiter *waiter, zkl_lock *lock, int64_t timeout_ms)
{
    *waiter = (struct waiter){.lock = lock, .timeout_ms = timeout_ms};
    if (pthread_create(&waiter->thread, NULL, run_waiter, waiter) != 0) {
        perror("waiter");
        abort();
    }
}

void waiter_queue(struct waiter *waiter, zkl_lock *lock, int64_t timeout_ms)
{
    waiter_start(waiter, lock, timeout_ms);
    if (!EVENTUALLY(zkl_lock_node(lock, NULL, 0) > 0 || waiter->done)) {
        fprintf(stderr, "waiter: no znode\n");
        abort();
    }
}

int waiter_end(struct waiter *waiter)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 2 * SOON / 1000;
    if (pthread_timedjoin_np(waiter->thread, NULL, &end) != 0) {
        fprintf(stderr, "waiter: its acquire does not return\n");
        abort();
    }
    return waiter->code;
}

/* --- what was heard -------------------------------------------------------------------------------------------------- */

static void heard_fn(zkl_lock *lock, zkl_state state, void *arg)
{
    struct heard *heard = arg;
    long long never = 0;
    atomic_compare_exchange_strong(&heard->first_ns[state], &never, boot_ns());
}

int64_t heard_when(struct heard *heard, zkl_state state, int64_t timeout_ms)
{
    (void)WITHIN(timeout_ms, heard->first_ns[state] > 0);
    return heard->first_ns[state];
}

/* --- the queue ------------------------------------------------------------------------------------------------------- */

struct recorder *queue_eye(const char *servers)
{
    return recorder_connect(&zkl__store_zookeeper, servers);
}

const struct zkl__reply *queue_look(struct recorder *eye, const char *path)
{
    static const struct zkl__reply nothing = {.rc = ZKL__RC_NONODE};
    struct zkl__op sync = {.kind = ZKL__OP_SYNC, .dir = "/"}, list = {.kind = ZKL__OP_CHILDREN, .dir = path};
    recorder_do(eye, &sync);
    const struct zkl__reply *reply = &recorder_do(eye, &list)->reply;
    return reply->rc == ZKL__RC_NONODE ? &nothing : reply;
}

size_t queue_length(struct recorder *eye, const char *path)
{
    return queue_look(eye, path)->child_count;
}

/* False as well when there is no answer; then after a pause, for each look is two requests. */
static bool has_length(struct recorder *eye, const char *path, size_t length)
{
    const struct zkl__reply *list = queue_look(eye, path);
    bool so = (list->rc == ZKL__RC_OK || list->rc == ZKL__RC_NONODE) && list->child_count == length;
    if (!so) {
        poll(NULL, 0, 20);
    }
    return so;
}

bool queue_becomes(struct recorder *eye, const char *path, size_t length)
{
    bool so = EVENTUALLY(has_length(eye, path, length));
    if (!so) {
        fprintf(stderr, "%s: %zu contenders, not %zu\n", path, queue_length(eye, path), length);
    }
    return so;
}

/* --- contenders in a known order ------------------------------------------------------------------------------------- */

/* One more. */
static void queue_join(struct queue_of *q)
{
    int i = q->count++;
    const struct field *field = &q->field;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    q->sessions[i] = contest_session(field->servers[i % field->count], field->timeout_ms, field->tick_ms);
    options.state_fn = i == 0 ? heard_fn : NULL;
    options.payload = &q->heard;
    q->locks[i] = contest_lock(q->sessions[i], q->path, &options);
    waiter_queue(&q->waiters[i], q->locks[i], i > 0 && field->wait_ms ? field->wait_ms : ZKL_WAIT_FOREVER);
    if (i == 0) {
        ASSERT_OK_FATAL(waiter_end(&q->waiters[0]));
    }
}

void queue_up(struct queue_of *q, const struct field *field, const char *path, int count)
{
    *q = (struct queue_of){.field = *field, .path = path};
    while (q->count < count) {
        queue_join(q);
    }
}

void queue_drain(struct queue_of *q)
{
    CU_ASSERT(zkl_lock_is_held(q->locks[0]));
    for (int i = 1; i < q->count; i++) {
        int64_t last = zkl_lock_token(q->locks[i - 1]);
        CU_ASSERT(!q->waiters[i].done);
        kit_release(q->locks[i - 1]);
        ASSERT_OK(waiter_end(&q->waiters[i]));
        CU_ASSERT(zkl_lock_is_held(q->locks[i]));
        CU_ASSERT(q->waiters[i].grant.token > last);
    }
    kit_release(q->locks[q->count - 1]);
    queue_free(q);
}

void queue_free(struct queue_of *q)
{
    for (int i = 0; i < q->count; i++) {
        zkl_lock_free(q->locks[i]);
        kit_close(q->sessions[i]);
    }
}
