/* stop - work for as long as this process leads, until it is told to end. A stop token ends both:
 * the wait for the lock, and the work, whose cancel flag is raised (as it is when the lease runs
 * low or the lock is lost).
 *   example_stop [SERVERS]     "memory:" needs no server */
#include <zklock/zklock.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>

struct leader {
    const char *name;
    zkl_lock *lock;
    zkl_stop stop; /* sticky: raised before the wait has begun, it is heard, too */
    sem_t leads;
    pthread_t thread;
};

static int work(const zkl_cancel *cancel, int64_t token, void *payload)
{
    struct leader *leader = payload;
    const struct timespec step = {.tv_nsec = 1000000};
    printf("%s leads, with token %lld\n", leader->name, (long long)token);
    sem_post(&leader->leads);
    while (!zkl_cancel_raised(cancel)) {
        nanosleep(&step, NULL); /* its work, a step at a time */
    }
    return 0;
}

static void *lead(void *arg)
{
    struct leader *leader = arg;
    zkl_error err;
    int rc = zkl_with_lock(leader->lock, ZKL_WAIT_FOREVER, 0, work, leader, NULL, &err);
    printf("%s ends: %s\n", leader->name, rc == ZKL_OK ? "it had led" : err.text);
    return NULL;
}

static bool begin(struct leader *leader, zkl_session *session)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.stop = &leader->stop;
    sem_init(&leader->leads, 0, 0);
    return zkl_lock_new(&leader->lock, session, "/jobs/report", &options, NULL) == ZKL_OK &&
           pthread_create(&leader->thread, NULL, lead, leader) == 0;
}

static void end(struct leader *leader)
{
    zkl_stop_raise(&leader->stop);
    pthread_join(leader->thread, NULL);
    zkl_lock_free(leader->lock);
    sem_destroy(&leader->leads);
}

int main(int argc, char **argv)
{
    struct leader one = {.name = "one"}, two = {.name = "two"}, three = {.name = "three"};
    zkl_session *session;
    if (zkl_session_open(&session, argc > 1 ? argv[1] : "memory:stop", NULL, NULL) != ZKL_OK ||
        !begin(&one, session)) {
        return 1;
    }
    sem_wait(&one.leads);
    if (!begin(&two, session) || !begin(&three, session)) { /* they wait */
        return 1;
    }
    end(&two); /* ends its wait */
    end(&one); /* ends its work, and three leads */
    sem_wait(&three.leads);
    end(&three);
    zkl_session_close(session, 5000);
    return 0;
}
