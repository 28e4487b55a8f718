/* sustained.c - how many grants threads of one session make each second, for many seconds.
 *
 *   sustained SERVERS THREADS LINGER_MS MODE [SECONDS [HOLD_US]]
 *
 * One session, one path, a lock object for each thread, nothing to do while it is held, or a wait
 * of HOLD_US. MODE:
 * - cold: all threads begin together
 * - warm: the first thread has acquired and released the lock before
 * - disturbed: once a second another session acquires and releases it
 * - stopped: about once a second another process queues, is stopped for 100 ms, and releases
 * - mutex: one lock object behind a mutex of the process, for all threads
 *
 * Prints a number for each second, after one second that does not count, and their mean. */
#include <zklock/zklock.h>

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATH "/bench/sustained"
#define THREADS_MOST 64

static const char *servers;
static int64_t linger_ms, hold_us;
static bool one_lock;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool enough;
static struct worker {
    pthread_t thread;
    zkl_lock *lock;
    _Alignas(64) atomic_long grants;
} workers[THREADS_MOST];

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

static void sleep_ns(int64_t ns)
{
    struct timespec left = {ns / 1000000000, ns % 1000000000};
    while (nanosleep(&left, &left) != 0) {
    }
}

static zkl_session *open_session(void)
{
    zkl_session *session;
    zkl_error err;
    if (zkl_session_open(&session, servers, NULL, &err) != ZKL_OK) {
        die("open: %s", err.text);
    }
    return session;
}

static zkl_lock *new_lock(zkl_session *session)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_lock *lock;
    zkl_error err;
    options.linger_ms = linger_ms;
    if (zkl_lock_new(&lock, session, PATH, &options, &err) != ZKL_OK) {
        die("lock: %s", err.text);
    }
    return lock;
}

static void acquire(zkl_lock *lock)
{
    zkl_error err;
    if (zkl_lock_acquire(lock, ZKL_WAIT_FOREVER, NULL, &err) != ZKL_OK) {
        die("acquire: %s", err.text);
    }
}

static void release(zkl_lock *lock)
{
    zkl_error err;
    if (zkl_lock_release(lock, &err) != ZKL_OK) {
        die("release: %s", err.text);
    }
}

static void *work(void *arg)
{
    struct worker *me = arg;
    while (!atomic_load_explicit(&enough, memory_order_relaxed)) {
        if (one_lock) {
            pthread_mutex_lock(&mutex);
        }
        acquire(me->lock);
        if (hold_us > 0) {
            sleep_ns(hold_us * 1000);
        }
        release(me->lock);
        if (one_lock) {
            pthread_mutex_unlock(&mutex);
        }
        atomic_fetch_add_explicit(&me->grants, 1, memory_order_relaxed);
    }
    return NULL;
}

static long grants_of(int threads)
{
    long sum = 0;
    for (int i = 0; i < threads; i++) {
        sum += atomic_load(&workers[i].grants);
    }
    return sum;
}

/* --- who disturbs ---------------------------------------------------------------------------- */

static void *disturb(void *arg)
{
    zkl_session *session = open_session();
    linger_ms = 0;
    zkl_lock *lock = new_lock(session);
    (void)arg;
    while (!atomic_load(&enough)) {
        acquire(lock);
        release(lock);
        sleep_ns(1000000000);
    }
    zkl_lock_free(lock);
    zkl_session_close(session, 5000);
    return NULL;
}

static void on_acquired(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err,
                        void *payload)
{
    (void)lock, (void)code, (void)grant, (void)err;
    atomic_store((atomic_bool *)payload, true);
}

static volatile sig_atomic_t ended;

static void on_term(int number)
{
    (void)number;
    ended = 1;
}

/* Its own process, made before this one has threads. It stops itself when it has queued. */
static pid_t stopped_process(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        linger_ms = 0;
        signal(SIGTERM, on_term);
        zkl_session *session = open_session();
        zkl_lock *lock = new_lock(session);
        while (!ended) {
            atomic_bool acquired = false;
            zkl_lock_acquire_async(lock, ZKL_WAIT_FOREVER, on_acquired, &acquired, NULL);
            sleep_ns(1000000);
            raise(SIGSTOP);
            while (!atomic_load(&acquired)) {
                sleep_ns(1000000);
            }
            release(lock);
            sleep_ns(900000000);
        }
        zkl_lock_free(lock);
        exit(zkl_session_close(session, 5000) == ZKL_OK ? 0 : 1);
    }
    return pid;
}

static void *stop_and_go(void *arg)
{
    pid_t pid = *(pid_t *)arg;
    int status = 0;
    do {
        waitpid(pid, &status, WUNTRACED);
        sleep_ns(100000000);
        kill(pid, atomic_load(&enough) ? SIGTERM : SIGCONT);
        kill(pid, SIGCONT);
    } while (WIFSTOPPED(status));
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        die("usage: sustained SERVERS THREADS LINGER_MS cold|warm|disturbed|stopped|mutex "
            "[SECONDS [HOLD_US]]");
    }
    servers = argv[1];
    int threads = atoi(argv[2]), seconds = argc > 5 ? atoi(argv[5]) : 10;
    linger_ms = atoll(argv[3]);
    const char *mode = argv[4];
    hold_us = argc > 6 ? atoll(argv[6]) : 0;
    one_lock = strcmp(mode, "mutex") == 0;
    bool disturbed = strcmp(mode, "disturbed") == 0, stopped = strcmp(mode, "stopped") == 0;
    if (threads < 1 || threads > THREADS_MOST) {
        die("THREADS: 1 to %d", THREADS_MOST);
    }
    pid_t pid = stopped ? stopped_process() : 0;
    zkl_session *session = open_session();
    for (int i = 0; i < threads; i++) {
        workers[i].lock = one_lock && i > 0 ? workers[0].lock : new_lock(session);
    }
    if (strcmp(mode, "warm") == 0) {
        acquire(workers[0].lock);
        release(workers[0].lock);
    }
    for (int i = 0; i < threads; i++) {
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    pthread_t other;
    if (disturbed || stopped) {
        pthread_create(&other, NULL, disturbed ? disturb : stop_and_go, &pid);
    }
    sleep_ns(1000000000);
    long first = grants_of(threads), before = first;
    for (int i = 0; i < seconds; i++) {
        sleep_ns(1000000000);
        long now = grants_of(threads);
        printf("%ld ", now - before);
        fflush(stdout);
        before = now;
    }
    printf("\n%s: %d threads, linger_ms %lld: %ld grants a second for %d seconds\n", mode, threads,
           (long long)atoll(argv[3]), (before - first) / seconds, seconds);
    atomic_store(&enough, true);
    for (int i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    if (disturbed || stopped) {
        pthread_join(other, NULL);
    }
    for (int i = 0; i < (one_lock ? 1 : threads); i++) {
        zkl_lock_free(workers[i].lock);
    }
    zkl_session_close(session, 5000);
    return 0;
}
