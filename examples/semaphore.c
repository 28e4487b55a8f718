/* semaphore - at most two workers at a time, over all processes that use the path; the last one
 * acquires both permits.
 *   example_semaphore [SERVERS [PATH]]     "memory:" needs no server */
#include <zklock/zklock.h>

#include <pthread.h>
#include <stdio.h>

#define LIMIT 2
#define WORKERS 4

struct worker {
    pthread_t thread;
    zkl_session *session;
    const char *path;
    int number;
    int permits;
    int failed;
};

static int work(const struct worker *worker, zkl_lock *semaphore)
{
    zkl_grant grant;
    zkl_error err;
    if (zkl_semaphore_acquire(semaphore, worker->permits, 30000, &grant, &err) != ZKL_OK) {
        fprintf(stderr, "worker %d: %s: %s\n", worker->number, zkl_error_name(err.code), err.text);
        return 1;
    }
    printf("worker %d: %d of %d permits, token %lld\n", worker->number,
           zkl_semaphore_tokens(semaphore, NULL, 0), LIMIT, (long long)grant.token);
    /* Long work calls zkl_lock_is_held now and then, and stops when that is false. */
    return zkl_semaphore_release(semaphore, 0, NULL) != ZKL_OK;
}

static void *run(void *arg)
{
    struct worker *worker = arg;
    zkl_lock *semaphore;
    worker->failed = 1;
    if (zkl_semaphore_new(&semaphore, worker->session, worker->path, LIMIT, NULL, NULL) == ZKL_OK) {
        worker->failed = work(worker, semaphore);
        zkl_lock_free(semaphore);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const char *servers = argc > 1 ? argv[1] : "memory:example";
    const char *path = argc > 2 ? argv[2] : "/examples/workers";
    struct worker workers[WORKERS];
    zkl_session *session;
    zkl_error err;
    int failed = 0;
    if (zkl_session_open(&session, servers, NULL, &err) != ZKL_OK) {
        fprintf(stderr, "%s: %s\n", zkl_error_name(err.code), err.text);
        return 1;
    }
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){
            .session = session, .path = path, .number = i, .permits = i == WORKERS - 1 ? LIMIT : 1};
        if (pthread_create(&workers[i].thread, NULL, run, &workers[i]) != 0) {
            return 1;
        }
    }
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        failed += workers[i].failed;
    }
    zkl_session_close(session, 5000);
    return failed != 0;
}
