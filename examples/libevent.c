/* libevent - wait for a lock, hold it, notice its loss and release it, in libevent's loop.
 *   example_libevent [SERVERS [PATH]]     "memory:" needs no server */
#include <zklock/zklock.h>

#include <event2/event.h>
#include <stdio.h>

static struct event_base *base;
static zkl_session *session;
static zkl_lock *lock;
static int failed = 1;

static void on_readable(evutil_socket_t fd, short what, void *payload)
{
    (void)fd;
    (void)what;
    (void)payload;
    zkl_session_dispatch(session);
}

static void on_work_done(evutil_socket_t fd, short what, void *payload)
{
    (void)fd;
    (void)what;
    (void)payload;
    failed =
        zkl_lock_release(lock, NULL) != ZKL_OK; /* ZKL_ELOST: the lease did not cover all of it */
    event_base_loopbreak(base);
}

/* Both in zkl_session_dispatch, so in the loop's thread. */
static void on_state(zkl_lock *held, zkl_state state, void *payload)
{
    (void)payload;
    printf("%s: %s\n", zkl_lock_path(held), zkl_state_name(state));
    if (state == ZKL_STATE_LOST) {
        event_base_loopbreak(base); /* stop what rests on it */
    }
}

static void on_acquired(zkl_lock *granted, int code, const zkl_grant *grant, const zkl_error *err,
                        void *payload)
{
    const struct timeval work = {0, 50000};
    (void)granted;
    (void)payload;
    if (code != ZKL_OK) {
        fprintf(stderr, "%s: %s\n", zkl_error_name(code), err->text);
        event_base_loopbreak(base);
        return;
    }
    printf("granted, with token %lld\n", (long long)grant->token);
    event_base_once(base, -1, EV_TIMEOUT, on_work_done, NULL, &work);
}

static int open_all(const char *servers, const char *path, zkl_error *err)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_lock_options lock_options = ZKL_LOCK_OPTIONS_INIT;
    options.callbacks = ZKL_CALLBACKS_DISPATCH;
    lock_options.release_timeout_ms =
        0; /* release does not block the loop: the znode goes in the background */
    lock_options.state_fn = on_state;
    int code = zkl_session_open(&session, servers, &options, err);
    return code == ZKL_OK ? zkl_lock_new(&lock, session, path, &lock_options, err) : code;
}

int main(int argc, char **argv)
{
    zkl_error err;
    base = event_base_new();
    if (open_all(argc > 1 ? argv[1] : "memory:example", argc > 2 ? argv[2] : "/examples/libevent",
                 &err) != ZKL_OK) {
        fprintf(stderr, "%s: %s\n", zkl_error_name(err.code), err.text);
        return 1;
    }
    struct event *readable =
        event_new(base, zkl_session_fd(session), EV_READ | EV_PERSIST, on_readable, NULL);
    event_add(readable, NULL);
    if (zkl_lock_acquire_async(lock, 30000, on_acquired, NULL, &err) == ZKL_OK) {
        event_base_dispatch(base);
    }
    event_free(readable);
    zkl_lock_free(lock);
    zkl_session_close(session, 5000);
    event_base_free(base);
    return failed;
}
