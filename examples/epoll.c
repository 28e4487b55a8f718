/* epoll - wait for a lock, hold it for a while and release it, in a loop of epoll's. Linked with
 * libzklock_st the process has one thread.
 *   example_epoll [SERVERS [PATH]]     "memory:" needs no server */
#include <zklock/zklock.h>

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define WORK_MS 50

static zkl_session *session;
static zkl_lock *lock;
static int work = -1; /* readable when the work is done */
static int code = ZKL_ETIMEOUT;
static bool done;

/* Both in zkl_session_dispatch. */
static void on_state(zkl_lock *held, zkl_state state, void *payload)
{
    (void)payload;
    printf("%s: %s\n", zkl_lock_path(held), zkl_state_name(state));
    done = done || state == ZKL_STATE_LOST; /* stop what rests on it */
}

static void on_acquired(zkl_lock *granted, int acquired, const zkl_grant *grant,
                        const zkl_error *err, void *payload)
{
    const struct itimerspec when = {.it_value = {.tv_nsec = WORK_MS * 1000000L}};
    (void)granted;
    (void)payload;
    code = acquired;
    if (acquired != ZKL_OK) {
        fprintf(stderr, "%s: %s\n", zkl_error_name(acquired), err->text);
        done = true;
        return;
    }
    printf("granted, with token %lld\n", (long long)grant->token);
    timerfd_settime(work, 0, &when, NULL);
}

static int begin(const char *servers, const char *path, zkl_error *err)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_lock_options lock_options = ZKL_LOCK_OPTIONS_INIT;
    options.callbacks = ZKL_CALLBACKS_DISPATCH;
    lock_options.release_timeout_ms = 0; /* the znode goes in the background */
    lock_options.state_fn = on_state;
    int rc = zkl_session_open(&session, servers, &options, err);
    rc = rc == ZKL_OK ? zkl_lock_new(&lock, session, path, &lock_options, err) : rc;
    return rc == ZKL_OK ? zkl_lock_acquire_async(lock, 30000, on_acquired, NULL, err) : rc;
}

static void watch(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

int main(int argc, char **argv)
{
    zkl_error err;
    struct epoll_event event;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    work = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (begin(argc > 1 ? argv[1] : "memory:example", argc > 2 ? argv[2] : "/examples/epoll",
              &err) != ZKL_OK) {
        fprintf(stderr, "%s: %s\n", zkl_error_name(err.code), err.text);
        return 1;
    }
    watch(epoll, zkl_session_fd(session));
    watch(epoll, work);
    while (!done) {
        if (epoll_wait(epoll, &event, 1, -1) == 1 && event.data.fd != work) {
            zkl_session_dispatch(session);
        } else if (code == ZKL_OK) {
            code = zkl_lock_release(lock, &err); /* ZKL_ELOST: the lease did not cover all of it */
            done = true;
        }
    }
    zkl_lock_free(lock);
    zkl_session_close(session, 5000);
    close(work);
    close(epoll);
    return code != ZKL_OK;
}
