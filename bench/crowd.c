#include "crowd.h"

#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SESSIONS 8
#define HAND_OVERS 100

zkl_session *bench_session(const struct job *job, zkl_callbacks callbacks, const zkl_heap *heap)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_session *session;
    zkl_error err;
    options.callbacks = callbacks;
    options.heap = heap;
    if (zkl_session_open(&session, job->servers, &options, &err) != ZKL_OK) {
        die("zklock: %s", err.text);
    }
    return session;
}

/* Option "linger": a lock lingers for longer than any job lasts. */
zkl_lock *bench_lock(const struct job *job, zkl_session *session, const char *path)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_lock *lock;
    zkl_error err;
    options.linger_ms = job->option && strcmp(job->option, "linger") == 0 ? 60000 : 0;
    if (zkl_lock_new(&lock, session, path, &options, &err) != ZKL_OK) {
        die("zklock: %s", err.text);
    }
    return lock;
}

/* --- what this process uses
 * ------------------------------------------------------------------------------------------- */

/* A number of /proc/self/status: "Threads:", "VmRSS:" (kB). */
static double status(const char *field)
{
    char line[128];
    double value = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, field, strlen(field)) == 0) {
            value = atof(line + strlen(field));
        }
    }
    if (file) {
        fclose(file);
    }
    return value;
}

static atomic_llong heap_bytes;

static void *heap_alloc(void *payload, size_t size)
{
    void *ptr = malloc(size);
    (void)payload;
    atomic_fetch_add(&heap_bytes, (long long)malloc_usable_size(ptr));
    return ptr;
}

static void *heap_resize(void *payload, void *ptr, size_t size)
{
    long long before = (long long)malloc_usable_size(ptr);
    void *moved = realloc(ptr, size);
    (void)payload;
    atomic_fetch_add(&heap_bytes, moved ? (long long)malloc_usable_size(moved) - before : 0);
    return moved;
}

static void heap_release(void *payload, void *ptr)
{
    (void)payload;
    atomic_fetch_sub(&heap_bytes, (long long)malloc_usable_size(ptr));
    free(ptr);
}

static const zkl_heap counting_heap = {heap_alloc, heap_resize, heap_release, NULL};

/* --- many locks
 * ------------------------------------------------------------------------------------------------------------
 */

struct member {
    zkl_lock *lock;
    struct section section;
};

static atomic_int granted_count;
static sem_t grants; /* one for each grant of run_waiters */

static void on_granted(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err,
                       void *payload)
{
    struct member *m = payload;
    (void)lock;
    (void)grant;
    if (code == ZKL_ECANCELED || code == ZKL_ECLOSED) {
        return; /* the end of a job */
    }
    if (code != ZKL_OK) {
        die("zklock: acquire: %s", err->text);
    }
    m->section.granted = now_ns();
    atomic_fetch_add(&granted_count, 1);
    sem_post(&grants);
}

static void ask(const struct job *job, struct member *m, zkl_session *session, const char *path)
{
    zkl_error err;
    m->lock = bench_lock(job, session, path);
    m->section.asked = now_ns();
    if (zkl_lock_acquire_async(m->lock, ZKL_WAIT_FOREVER, on_granted, m, &err) != ZKL_OK) {
        die("zklock: %s", err.text);
    }
}

static void give(struct member *m)
{
    zkl_error err;
    m->section.released = now_ns();
    if (zkl_lock_release(m->lock, &err) != ZKL_OK) {
        die("zklock: release: %s", err.text);
    }
    m->section.done = now_ns();
}

/* bench.py looks at the server's counters. */
static void let_count(void)
{
    char line[16];
    printf("count\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) {
        exit(0);
    }
}

static struct member *members_new(const struct job *job)
{
    struct member *members = calloc((size_t)job->contenders, sizeof *members);
    if (!members) {
        die("no memory for %d locks", job->contenders);
    }
    atomic_store(&granted_count, 0);
    return members;
}

static void members_free(struct member *members, int count)
{
    for (int i = 0; i < count; i++) {
        zkl_lock_free(members[i].lock);
    }
    free(members);
}

/* --- jobs
 * --------------------------------------------------------------------------------------------------------------------
 */

/* One after the other, each from another session than the one before it. */
static void run_waiters(const struct job *job)
{
    struct member *members = members_new(job);
    zkl_session *sessions[SESSIONS];
    int last = job->contenders - 1 < HAND_OVERS ? job->contenders - 1 : HAND_OVERS;
    sem_init(&grants, 0, 0);
    for (int i = 0; i < SESSIONS; i++) {
        sessions[i] = bench_session(job, ZKL_CALLBACKS_THREAD, NULL);
    }
    for (int i = 0; i < job->contenders; i++) {
        ask(job, &members[i], sessions[i % SESSIONS], job->path);
        while (zkl_lock_node(members[i].lock, NULL, 0) == 0) {
            pause_us(20);
        }
    }
    let_count(); /* bench.py waits until every watch is set */
    for (int i = 0; i < last; i++) {
        sem_wait(&grants);
        pause_us(job->hold_us);
        give(&members[i]);
        print_section(i, &members[i].section);
    }
    sem_wait(&grants);
    members[last].section.released = members[last].section.done = members[last].section.granted;
    print_section(last, &members[last].section);
    print_fact("hand_over_count", last);
    let_count();
    for (int i = 0; i < SESSIONS; i++) {
        zkl_session_close(sessions[i], 60000);
    }
    members_free(members, job->contenders);
}

static void ask_all(const struct job *job, struct member *members, zkl_session *session)
{
    for (int i = 0; i < job->contenders; i++) {
        char path[300];
        snprintf(path, sizeof path, "%s/%d", job->path, i);
        ask(job, &members[i], session, path);
    }
}

static void await_granted(int count)
{
    while (atomic_load(&granted_count) < count) {
        pause_us(1000);
    }
}

static void run_held(const struct job *job)
{
    struct member *members = members_new(job);
    zkl_session *session = bench_session(job, ZKL_CALLBACKS_THREAD, &counting_heap);
    long long heap_before = atomic_load(&heap_bytes);
    double rss_before = status("VmRSS:"), threads;
    ask(job, &members[0], session, job->path); /* the callback thread starts with it */
    await_granted(1);
    give(&members[0]);
    zkl_lock_free(members[0].lock);
    members[0] = (struct member){0};
    atomic_store(&granted_count, 0);
    threads = status("Threads:");
    int64_t began = now_ns();
    ask_all(job, members, session);
    await_granted(job->contenders);
    print_fact("granted_ms", (double)(now_ns() - began) / 1e6);
    print_fact("threads_before", threads);
    print_fact("threads", status("Threads:"));
    let_count(); /* bench.py waits until the requests that follow the grants are done */
    print_fact("heap_bytes_each",
               (double)(atomic_load(&heap_bytes) - heap_before) / job->contenders);
    print_fact("rss_bytes_each", (status("VmRSS:") - rss_before) * 1024 / job->contenders);
    pause_us(job->ms * 1000);
    let_count();
    zkl_session_close(session, 60000);
    members_free(members, job->contenders);
}

static void run_pending(const struct job *job)
{
    struct member *holders = members_new(job), *members = members_new(job);
    zkl_session *other = bench_session(job, ZKL_CALLBACKS_THREAD, NULL);
    zkl_session *session = bench_session(job, ZKL_CALLBACKS_DISPATCH, NULL);
    struct pollfd fd = {.fd = zkl_session_fd(session), .events = POLLIN};
    ask_all(job, holders, other);
    await_granted(job->contenders);
    atomic_store(&granted_count, 0);
    print_fact("threads_before", status("Threads:"));
    ask_all(job, members, session);
    for (int i = 0; i < job->contenders; i++) {
        while (zkl_lock_node(members[i].lock, NULL, 0) == 0) {
            zkl_session_dispatch(session); /* who was refused says so */
            pause_us(100);
        }
    }
    print_fact("threads", status("Threads:"));
    int64_t began = now_ns();
    zkl_session_close(other, 60000); /* gives all of them back */
    while (atomic_load(&granted_count) < job->contenders && poll(&fd, 1, 60000) == 1) {
        zkl_session_dispatch(session);
    }
    print_fact("granted", atomic_load(&granted_count));
    print_fact("granted_ms", (double)(now_ns() - began) / 1e6);
    zkl_session_close(session, 60000);
    members_free(holders, job->contenders);
    members_free(members, job->contenders);
}

/* A holder, and so many who wait: what do they send? */
static void run_wait(const struct job *job)
{
    struct member *members = members_new(job), holder = {0};
    zkl_session **sessions = calloc((size_t)job->contenders, sizeof *sessions);
    zkl_session *session = bench_session(job, ZKL_CALLBACKS_THREAD, NULL);
    sem_init(&grants, 0, 0);
    ask(job, &holder, session, job->path);
    sem_wait(&grants);
    for (int i = 0; i < job->contenders - 1; i++) {
        sessions[i] = bench_session(job, ZKL_CALLBACKS_THREAD, NULL);
        ask(job, &members[i], sessions[i], job->path);
    }
    let_count();
    pause_us(job->ms * 1000);
    let_count();
    for (int i = 0; i < job->contenders - 1; i++) {
        zkl_lock_free(members[i].lock);
        zkl_session_close(sessions[i], 60000);
    }
    zkl_lock_free(holder.lock);
    zkl_session_close(session, 60000);
    free(sessions);
    free(members);
}

struct runner {
    zkl_lock *lock;
    struct section section;
    pthread_t thread;
};

static void *run_acquire(void *arg)
{
    struct runner *r = arg;
    zkl_error err;
    if (zkl_lock_acquire(r->lock, ZKL_WAIT_FOREVER, NULL, &err) != ZKL_OK) {
        die("zklock: acquire: %s", err.text);
    }
    r->section.granted = now_ns();
    return NULL;
}

/* Two sessions with a handle each on the job's lock; the first one holds it. */
struct pair {
    zkl_session *sessions[2];
    struct runner runners[2];
    int64_t end; /* of the job */
};

static struct pair pair_begin(const struct job *job)
{
    struct pair pair = {.end = now_ns() + job->ms * 1000000};
    for (int i = 0; i < 2; i++) {
        pair.sessions[i] = bench_session(job, ZKL_CALLBACKS_THREAD, NULL);
        pair.runners[i].lock = bench_lock(job, pair.sessions[i], job->path);
    }
    run_acquire(&pair.runners[0]);
    return pair;
}

static void pair_end(struct pair *pair)
{
    for (int i = 0; i < 2; i++) {
        zkl_lock_free(pair->runners[i].lock);
        zkl_session_close(pair->sessions[i], 60000);
    }
}

/* One session hands the lock to the other, which waits in a blocking call, and back; who has
 * released asks again only after that. As the raw driver's jobs: ASKED is the release call. */
static void run_relay(const struct job *job)
{
    struct pair pair = pair_begin(job);
    for (int round = 0; now_ns() < pair.end; round++) {
        struct runner *holder = &pair.runners[round % 2], *next = &pair.runners[(round + 1) % 2];
        if (pthread_create(&next->thread, NULL, run_acquire, next) != 0) {
            die("no thread");
        }
        while (zkl_lock_node(next->lock, NULL, 0) == 0) {
            pause_us(100);
        }
        pause_us(job->hold_us); /* its watch */
        next->section.asked = now_ns();
        zkl_lock_release(holder->lock, NULL);
        pthread_join(next->thread, NULL);
        next->section.released = next->section.done = now_ns();
        print_section(0, &next->section);
    }
    pair_end(&pair);
}

static void release_or_die(zkl_lock *lock)
{
    zkl_error err;
    if (zkl_lock_release(lock, &err) != ZKL_OK) {
        die("zklock: release: %s", err.text);
    }
}

/* The lock lingers in one session, which does not use it. The other session acquires it, and it
 * lingers there. ASKED is the call of acquire. */
static void run_yield(const struct job *job)
{
    struct pair pair = pair_begin(job);
    release_or_die(pair.runners[0].lock);
    for (int round = 1; now_ns() < pair.end; round++) {
        struct runner *next = &pair.runners[round % 2];
        pause_us(job->hold_us);
        next->section.asked = now_ns();
        run_acquire(next);
        next->section.released = next->section.done = next->section.granted;
        release_or_die(next->lock);
        print_section(0, &next->section);
    }
    pair_end(&pair);
}

static const struct {
    const char *name;
    void (*run)(const struct job *job);
} jobs[] = {{"waiters", run_waiters}, {"held", run_held},   {"pending", run_pending},
            {"wait", run_wait},       {"relay", run_relay}, {"yield", run_yield}};

bool crowd_is(const struct job *job)
{
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        if (strcmp(job->name, jobs[i].name) == 0) {
            return true;
        }
    }
    return false;
}

void crowd_run(const struct job *job)
{
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        if (strcmp(job->name, jobs[i].name) == 0) {
            jobs[i].run(job);
        }
    }
}
