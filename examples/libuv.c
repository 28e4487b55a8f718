/* libuv - a hundred locks waited for, held and released in one thread, by libuv's loop.
 *   example_libuv [SERVERS]     "memory:" needs no server */
#include <zklock/zklock.h>

#include <stdio.h>
#include <uv.h>

#define LOCKS 100
#define WORK_MS 20

struct job {
    zkl_lock *lock;
    uv_timer_t work;
};

static zkl_session *session;
static uv_poll_t poll_handle;
static struct job jobs[LOCKS];
static int left = LOCKS, failed;

static void end_one(struct job *job)
{
    uv_close((uv_handle_t *)&job->work, NULL);
    if (--left == 0) {
        uv_poll_stop(&poll_handle); /* nothing else keeps the loop alive */
        uv_close((uv_handle_t *)&poll_handle, NULL);
    }
}

static void on_work_done(uv_timer_t *timer)
{
    struct job *job = timer->data;
    failed += zkl_lock_release(job->lock, NULL) !=
              ZKL_OK; /* with release_timeout_ms 0: does not block the loop */
    end_one(job);
}

/* In zkl_session_dispatch, so in the loop's thread. */
static void on_acquired(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err,
                        void *payload)
{
    struct job *job = payload;
    (void)grant;
    if (code != ZKL_OK) {
        fprintf(stderr, "%s: %s: %s\n", zkl_lock_path(lock), zkl_error_name(code), err->text);
        failed++;
        end_one(job);
        return;
    }
    uv_timer_start(&job->work, on_work_done, WORK_MS, 0);
}

static void on_readable(uv_poll_t *handle, int status, int events)
{
    (void)handle;
    (void)events;
    if (status == 0) {
        zkl_session_dispatch(session);
    }
}

static int begin(struct job *job, int number)
{
    char path[64];
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.release_timeout_ms = 0; /* the znode goes in the background */
    snprintf(path, sizeof path, "/examples/libuv/%d", number);
    uv_timer_init(uv_default_loop(), &job->work);
    job->work.data = job;
    int code = zkl_lock_new(&job->lock, session, path, &options, NULL);
    if (code == ZKL_OK) {
        code = zkl_lock_acquire_async(job->lock, 30000, on_acquired, job, NULL);
    }
    return code;
}

int main(int argc, char **argv)
{
    zkl_error err;
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.callbacks = ZKL_CALLBACKS_DISPATCH;
    if (zkl_session_open(&session, argc > 1 ? argv[1] : "memory:example", &options, &err) !=
        ZKL_OK) {
        fprintf(stderr, "%s: %s\n", zkl_error_name(err.code), err.text);
        return 1;
    }
    uv_poll_init(uv_default_loop(), &poll_handle, zkl_session_fd(session));
    uv_poll_start(&poll_handle, UV_READABLE, on_readable);
    for (int i = 0; i < LOCKS; i++) {
        if (begin(&jobs[i], i) != ZKL_OK) {
            failed++;
            end_one(&jobs[i]);
        }
    }
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    uv_loop_close(uv_default_loop());
    printf("%d locks held in one thread, %d failed\n", LOCKS, failed);
    for (int i = 0; i < LOCKS; i++) {
        zkl_lock_free(jobs[i].lock);
    }
    zkl_session_close(session, 5000);
    return failed > 0;
}
