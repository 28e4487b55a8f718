/* bench_zklock SERVERS [linger]: this library. CONTENDERS is how many locks a job has. Its own
 * jobs:
 *
 * - threads: one session for all; two: one for the first half of the contenders, and one for the
 *   other half; mutex: as threads, with one lock object behind a mutex of the process
 * - relay: one session hands over to another that waits, and back, as the raw driver's event does
 * - yield: two sessions in turn acquire a lock that lingers unused in the other one
 * - waiters: that many queue for one lock, from 8 sessions in turn; then 100 grants, one after the
 *   other, as sections
 * - held: one session holds that many locks for MS ms
 * - pending: one session, one thread: that many acquires wait, told by eventfd; then all are
 *   granted
 * - wait: one holds, the others wait for MS ms, a session each
 *
 * Before what is to be counted on the server the last four print "count" and wait for a line; after
 * it, again. */
#include "driver.h"

#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <zklock/zklock.h>

#define SESSIONS 8
#define HAND_OVERS 100

struct member {
    zkl_session *session; /* NULL: another member's */
    zkl_lock *lock;
    pthread_mutex_t *mutex; /* around it; or NULL */
    pthread_t thread;
    struct section section;
};

static void check(int code, const char *what, const zkl_error *err)
{
    if (code != ZKL_OK) {
        die("zklock: %s: %s", what, err->text);
    }
}

static zkl_session *open_session(const struct job *job, zkl_callbacks callbacks,
                                 const zkl_heap *heap)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_session *session;
    zkl_error err;
    options.callbacks = callbacks;
    options.heap = heap;
    check(zkl_session_open(&session, job->servers, &options, &err), "open", &err);
    return session;
}

/* Option "linger": a lock lingers for longer than any job lasts. */
static zkl_lock *new_lock(const struct job *job, zkl_session *session, const char *path)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_lock *lock;
    zkl_error err;
    options.linger_ms = job->option && strcmp(job->option, "linger") == 0 ? 60000 : 0;
    check(zkl_lock_new(&lock, session, path, &options, &err), "lock", &err);
    return lock;
}

/* --- contenders that take turns -------------------------------------------------------------- */

static bool zklock_acquire(void *contender)
{
    struct member *m = contender;
    zkl_error err;
    if (m->mutex) {
        pthread_mutex_lock(m->mutex);
    }
    check(zkl_lock_acquire(m->lock, ZKL_WAIT_FOREVER, NULL, &err), "acquire", &err);
    return true;
}

static void zklock_release(void *contender)
{
    struct member *m = contender;
    zkl_error err;
    check(zkl_lock_release(m->lock, &err), "release", &err);
    if (m->mutex) {
        pthread_mutex_unlock(m->mutex);
    }
}

static void *zklock_open(const struct job *job, int number)
{
    static zkl_session *session; /* the one of the contender before, too */
    static zkl_lock *lock;
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    struct member *m = allocate(1, sizeof *m);
    bool one_lock = strcmp(job->name, "mutex") == 0, two = strcmp(job->name, "two") == 0;
    bool shared = one_lock || two || strcmp(job->name, "threads") == 0;
    if (!shared || number == 0 || (two && number == (job->contenders + 1) / 2)) {
        session = m->session = open_session(job, ZKL_CALLBACKS_THREAD, NULL);
    }
    if (!one_lock || number == 0) {
        lock = new_lock(job, session, job->path);
    }
    m->lock = lock;
    m->mutex = one_lock ? &mutex : NULL;
    return m;
}

/* A shared session is closed while others' locks of it are still there: they answer
 * ZKL_ECLOSED, and may be freed. */
static void zklock_close(void *contender)
{
    struct member *m = contender;
    if (!m->mutex || m->session) {
        zkl_lock_free(m->lock);
    }
    zkl_session_close(m->session, 60000);
    free(m);
}

static void *acquire_now(void *member)
{
    zklock_acquire(member);
    ((struct member *)member)->section.granted = now_ns();
    return NULL;
}

/* relay: the next one waits in a blocking call, and who has released asks again only after that. As
 * the raw driver's jobs: ASKED is the release call. yield: the other one has released, and the lock
 * lingers there. ASKED is the call of acquire. */
static void run_pair(const struct job *job, void **contenders)
{
    bool relay = strcmp(job->name, "relay") == 0;
    int64_t end = now_ns() + job->ms * 1000000;
    zklock_acquire(contenders[0]);
    if (!relay) {
        zklock_release(contenders[0]);
    }
    for (int round = 0; now_ns() < end; round++) {
        struct member *next = contenders[(round + 1) % 2];
        if (relay) {
            if (pthread_create(&next->thread, NULL, acquire_now, next) != 0) {
                die("no thread");
            }
            while (zkl_lock_node(next->lock, NULL, 0) == 0) {
                pause_us(100);
            }
        }
        pause_us(job->hold_us); /* relay: its watch */
        next->section.asked = now_ns();
        if (relay) {
            zklock_release(contenders[round % 2]);
            pthread_join(next->thread, NULL);
        } else {
            acquire_now(next);
            zklock_release(next);
        }
        next->section.released = next->section.done = now_ns();
        print_section(0, &next->section);
    }
}

/* --- what this process uses ------------------------------------------------------------------ */

static double threads(void)
{
    struct stat tasks = {0};
    stat("/proc/self/task", &tasks);
    return (double)tasks.st_nlink - 2; /* a directory for each */
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

/* --- many locks ------------------------------------------------------------------------------ */

static sem_t grants; /* one for each */

static void on_granted(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err,
                       void *payload)
{
    struct member *m = payload;
    (void)lock;
    (void)grant;
    if (code == ZKL_ECANCELED || code == ZKL_ECLOSED) {
        return; /* the end of a job */
    }
    check(code, "acquire", err);
    m->section.granted = now_ns();
    sem_post(&grants);
}

static void await_grants(int count)
{
    while (count-- > 0) {
        sem_wait(&grants);
    }
}

static void ask(const struct job *job, struct member *m, zkl_session *session, const char *path)
{
    zkl_error err;
    m->lock = new_lock(job, session, path);
    m->section.asked = now_ns();
    check(zkl_lock_acquire_async(m->lock, ZKL_WAIT_FOREVER, on_granted, m, &err), "ask", &err);
}

/* A lock each, from that member on. */
static void ask_all(const struct job *job, struct member *members, int from, zkl_session *session)
{
    for (int i = from; i < job->contenders; i++) {
        char path[300];
        snprintf(path, sizeof path, "%s/%d", job->path, i);
        ask(job, &members[i], session, path);
    }
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

static struct member *new_members(const struct job *job)
{
    sem_init(&grants, 0, 0);
    return allocate(job->contenders, sizeof(struct member));
}

static void free_members(struct member *members, int count)
{
    for (int i = 0; i < count; i++) {
        zkl_lock_free(members[i].lock);
        zkl_session_close(members[i].session, 60000);
    }
    free(members);
}

/* One after the other, each from another session than the one before it. */
static void run_waiters(const struct job *job, void **contenders)
{
    struct member *members = new_members(job);
    int last = job->contenders - 1 < HAND_OVERS ? job->contenders - 1 : HAND_OVERS;
    (void)contenders;
    for (int i = 0; i < job->contenders; i++) {
        if (i < SESSIONS) {
            members[i].session = open_session(job, ZKL_CALLBACKS_THREAD, NULL);
        }
        ask(job, &members[i], members[i % SESSIONS].session, job->path);
        while (zkl_lock_node(members[i].lock, NULL, 0) == 0) {
            pause_us(20);
        }
    }
    let_count(); /* bench.py waits until every watch is set */
    for (int i = 0; i <= last; i++) {
        struct section *section = &members[i].section;
        await_grants(1);
        if (i < last) {
            pause_us(job->hold_us);
            section->released = now_ns();
            zklock_release(&members[i]);
            section->done = now_ns();
        } else {
            section->released = section->done = section->granted;
        }
        print_section(i, section);
    }
    let_count();
    free_members(members, job->contenders);
}

static void run_held(const struct job *job, void **contenders)
{
    static const zkl_heap counting_heap = {heap_alloc, heap_resize, heap_release, NULL};
    struct member *members = new_members(job);
    zkl_session *session = open_session(job, ZKL_CALLBACKS_THREAD, &counting_heap);
    long long heap_before = atomic_load(&heap_bytes);
    (void)contenders;
    members[0].session = session;
    ask(job, &members[0], session, job->path); /* the callback thread starts with it */
    await_grants(1);
    double threads_before = threads();
    ask_all(job, members, 1, session);
    await_grants(job->contenders - 1);
    print_fact("threads_added", threads() - threads_before);
    let_count(); /* bench.py waits until the requests that follow the grants are done */
    print_fact("heap_bytes_each",
               (double)(atomic_load(&heap_bytes) - heap_before) / job->contenders);
    pause_us(job->ms * 1000);
    let_count();
    free_members(members, job->contenders);
}

static void run_pending(const struct job *job, void **contenders)
{
    struct member *holders = new_members(job), *members = new_members(job);
    zkl_session *session = open_session(job, ZKL_CALLBACKS_DISPATCH, NULL);
    struct pollfd fd = {.fd = zkl_session_fd(session), .events = POLLIN};
    int granted = 0;
    (void)contenders;
    holders[0].session = open_session(job, ZKL_CALLBACKS_THREAD, NULL);
    members[0].session = session;
    ask_all(job, holders, 0, holders[0].session);
    await_grants(job->contenders);
    double threads_before = threads();
    ask_all(job, members, 0, session);
    print_fact("threads_added", threads() - threads_before);
    free_members(holders, job->contenders); /* releases all of them */
    while (granted < job->contenders && poll(&fd, 1, 60000) == 1) {
        zkl_session_dispatch(session);
        sem_getvalue(&grants, &granted);
    }
    if (granted < job->contenders) {
        die("zklock: %d of %d granted", granted, job->contenders);
    }
    free_members(members, job->contenders);
}

/* A holder, and so many who wait: what do they send? */
static void run_wait(const struct job *job, void **contenders)
{
    struct member *members = new_members(job);
    (void)contenders;
    for (int i = 0; i < job->contenders; i++) {
        members[i].session = open_session(job, ZKL_CALLBACKS_THREAD, NULL);
        ask(job, &members[i], members[i].session, job->path);
        if (i == 0) {
            await_grants(1);
        }
    }
    let_count();
    pause_us(job->ms * 1000);
    let_count();
    free_members(members, job->contenders);
}

const struct driver driver = {
    .open = zklock_open,
    .acquire = zklock_acquire,
    .release = zklock_release,
    .close = zklock_close,
    .own = (const struct own_job[]){{"relay", run_pair, false},
                                    {"yield", run_pair, false},
                                    {"waiters", run_waiters, true},
                                    {"held", run_held, true},
                                    {"pending", run_pending, true},
                                    {"wait", run_wait, true},
                                    {NULL, NULL, false}},
};
