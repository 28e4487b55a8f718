/* bench_zklock SERVERS [linger]: this library. Jobs with thousands of locks are in crowd.c. */
#include "crowd.h"

#include <stdlib.h>
#include <string.h>

struct contender {
    zkl_session *session;
    bool own_session;
    zkl_lock *lock;
};

static zkl_session *shared; /* jobs threads and two: of the contender before */

static bool needs_session(const struct job *job, int number)
{
    if (strcmp(job->name, "two") == 0) {
        return number == 0 || number == (job->contenders + 1) / 2;
    }
    return strcmp(job->name, "threads") != 0 || number == 0;
}

static void zklock_acquire(void *contender)
{
    zkl_error err;
    if (zkl_lock_acquire(((struct contender *)contender)->lock, ZKL_WAIT_FOREVER, NULL, &err) !=
        ZKL_OK) {
        die("zklock: acquire: %s", err.text);
    }
}

static void zklock_release(void *contender)
{
    zkl_error err;
    if (zkl_lock_release(((struct contender *)contender)->lock, &err) != ZKL_OK) {
        die("zklock: release: %s", err.text);
    }
}

static void *zklock_open(const struct job *job, int number)
{
    struct contender *c = calloc(1, sizeof *c);
    if (!c || crowd_is(job)) {
        return c; /* opens what it needs itself */
    }
    c->own_session = needs_session(job, number);
    c->session = c->own_session ? bench_session(job, ZKL_CALLBACKS_THREAD, NULL) : shared;
    shared = c->session;
    c->lock = bench_lock(job, c->session, job->path);
    return c;
}

/* A shared session is closed while others' locks of it are still there: they answer
 * ZKL_ECLOSED, and may be freed. */
static void zklock_close(void *contender)
{
    struct contender *c = contender;
    zkl_lock_free(c->lock);
    zkl_session_close(c->own_session ? c->session : NULL, 10000);
    free(c);
}

static bool zklock_own(const struct job *job, void **contenders, bool go)
{
    (void)contenders;
    if (go && crowd_is(job)) {
        crowd_run(job);
    }
    return crowd_is(job);
}

int main(int argc, char **argv)
{
    static const struct driver driver = {.open = zklock_open,
                                         .acquire = zklock_acquire,
                                         .release = zklock_release,
                                         .close = zklock_close,
                                         .threads = true,
                                         .own = zklock_own};
    return driver_main(argc, argv, &driver);
}
