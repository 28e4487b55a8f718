/* Every call with a timeout returns in time: without a server, with one that hangs from the n-th answer on, with one whose connection goes there,
 * and with one that refuses. Late by no more than a plain timed wait of a thread that begins with it, as often as not. */
#include "lock_kit.h"

#include <string.h>
#include <time.h>

#define WAIT 60 /* ms */
#define TRIES 5 /* the best of them counts: others run on this machine too */
#define HOUR INT64_C(3600000)
#define JOB "/late/job"
#define BAR "/late/bar"

static struct things {
    zkl_lock *lock, *job;
    zkl_lock *rwlock;
    zkl_lock *semaphore;
    zkl_lock *multilock;
    zkl_lock *election;
    zkl_group *group;
    zkl_double_barrier *barrier;
    zkl_once_slot slot;
} t;

/* --- the calls: what comes before, in health, and what is timed ------------------------------------------------------- */

static int nothing(void)
{
    return ZKL_OK;
}

static int section(const zkl_cancel *cancel, int64_t token, void *payload)
{
    (void)cancel, (void)token, (void)payload;
    return 1; /* nothing is recorded */
}

static int lock_acquire(void)
{
    return zkl_lock_acquire(t.lock, WAIT, NULL, NULL);
}
static int with_lock(void)
{
    return zkl_with_lock(t.lock, WAIT, 0, section, NULL, NULL, NULL);
}
static int rwlock_acquire(void)
{
    return zkl_lock_acquire(t.rwlock, WAIT, NULL, NULL);
}
static int semaphore_acquire(void)
{
    return zkl_semaphore_acquire(t.semaphore, 2, WAIT, NULL, NULL);
}
static int multilock_acquire(void)
{
    return zkl_lock_acquire(t.multilock, WAIT, NULL, NULL);
}
static int campaign(void)
{
    return zkl_lock_acquire(t.election, WAIT, NULL, NULL);
}
static int lead(void)
{
    return zkl_lock_acquire(t.election, 10000, NULL, NULL);
}
static int publish(void)
{
    return zkl_election_publish(t.election, "x", WAIT, NULL);
}
static int group_join(void)
{
    return zkl_group_join(t.group, WAIT, NULL);
}
static int member(void)
{
    return zkl_group_join(t.group, 10000, NULL);
}
static int group_update(void)
{
    return zkl_group_update(t.group, "x", WAIT, NULL);
}
static int group_list(void)
{
    zkl_members *members = NULL;
    int rc = zkl_group_list(&members, one, "/late/group", WAIT, NULL);
    zkl_members_free(members);
    return rc;
}
static int barrier_set(void)
{
    return zkl_barrier_set(one, BAR, WAIT, NULL);
}
static int barrier_up(void)
{
    return zkl_barrier_set(one, BAR, 10000, NULL);
}
static int barrier_lift(void)
{
    return zkl_barrier_lift(one, BAR, WAIT, NULL);
}
static int barrier_wait(void)
{
    return zkl_barrier_wait(one, BAR, WAIT, NULL);
}
/* Its directory: so that the few answers before a loss are those of a member that is in already, and gives up. */
/* The directory is there, and nobody in it. */
static int place_of_double(void)
{
    zkl_lock *lock = kit_lock(one, "/late/both", NULL);
    int rc = zkl_lock_acquire(lock, 10000, NULL, NULL);
    rc = rc == ZKL_OK ? zkl_lock_release(lock, NULL) : rc;
    zkl_lock_free(lock);
    return rc;
}
static int double_enter(void)
{
    return zkl_double_barrier_enter(t.barrier, WAIT, NULL);
}
static int entered(void)
{
    return zkl_double_barrier_enter(t.barrier, 10000, NULL);
}
static int double_leave(void)
{
    return zkl_double_barrier_leave(t.barrier, WAIT, NULL);
}
static int once_prepare(void)
{
    return zkl_once_prepare(one, JOB, WAIT, NULL);
}
static int once_run(void)
{
    return zkl_once_run(t.job, HOUR, 0, WAIT, section, NULL, NULL, NULL, NULL);
}
static int job_held(void)
{
    int rc = zkl_once_prepare(one, JOB, 10000, NULL);
    return rc == ZKL_OK ? zkl_lock_acquire(t.job, 10000, NULL, NULL) : rc;
}
static int once_look(void)
{
    return zkl_once_look(t.job, HOUR, 0, WAIT, &t.slot, NULL);
}
static int slot_seen(void)
{
    int rc = job_held();
    return rc == ZKL_OK ? zkl_once_look(t.job, HOUR, 0, 10000, &t.slot, NULL) : rc;
}
static int once_record(void)
{
    return zkl_once_record(t.job, &t.slot, WAIT, NULL);
}
static int once_last(void)
{
    int64_t last_ms, recorded_ms;
    return zkl_once_last(one, JOB, HOUR, WAIT, &last_ms, &recorded_ms, NULL);
}
static int queue_list(void)
{
    zkl_queue *queue = NULL;
    int rc = zkl_queue_list(&queue, one, JOB, WAIT, NULL);
    zkl_queue_free(queue);
    return rc;
}
static int revoke(void)
{
    return zkl_queue_revoke(one, JOB, NULL, WAIT, NULL);
}
static int queue_remove(void)
{
    char node[128];
    zkl_lock_node(t.job, node, sizeof node);
    return zkl_queue_remove(one, JOB, node, 0, WAIT, NULL);
}

static const struct call {
    const char *name;
    int (*before)(void);
    int (*timed)(void);
} calls[] = {
    {"lock_acquire", nothing, lock_acquire},
    {"with_lock", nothing, with_lock},
    {"rwlock_acquire", nothing, rwlock_acquire},
    {"semaphore_acquire", nothing, semaphore_acquire},
    {"multilock_acquire", nothing, multilock_acquire},
    {"campaign", nothing, campaign},
    {"publish", lead, publish},
    {"group_join", nothing, group_join},
    {"group_update", member, group_update},
    {"group_list", member, group_list},
    {"barrier_set", nothing, barrier_set},
    {"barrier_lift", barrier_up, barrier_lift},
    {"barrier_wait", barrier_up, barrier_wait},
    {"double_barrier_enter", place_of_double, double_enter},
    {"double_barrier_leave", entered, double_leave},
    {"once_prepare", nothing, once_prepare},
    {"once_run", nothing, once_run},
    {"once_look", job_held, once_look},
    {"once_record", slot_seen, once_record},
    {"once_last", job_held, once_last},
    {"queue_list", job_held, queue_list},
    {"revoke", job_held, revoke},
    {"queue_remove", job_held, queue_remove},
};
#define CALLS (sizeof calls / sizeof *calls)

/* --- the world ------------------------------------------------------------------------------------------------------- */

static void begin(const struct call *call)
{
    const char *paths[2] = {"/late/m1", "/late/m2"};
    zkl_lock_options at_once = ZKL_LOCK_OPTIONS_INIT;
    at_once.release_timeout_ms = 0; /* a release has a time of its own */
    t = (struct things){.lock = NULL};
    kit_set_up(NULL);
    t.lock = kit_lock(one, "/late/lock", &at_once);
    t.job = kit_lock(one, JOB, &at_once);
    CU_ASSERT_EQUAL_FATAL(zkl_read_lock_new(&t.rwlock, one, "/late/rw", NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_new(&t.semaphore, one, "/late/sem", 2, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_multilock_new(&t.multilock, one, paths, 2, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_election_new(&t.election, one, "/late/lead", NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_group_new(&t.group, one, "/late/group", "me", NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_double_barrier_new(&t.barrier, one, "/late/both", 1, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(call->before(), ZKL_OK);
}

static void end(void)
{
    (void)zkl__memory_hold(zkl_session_id(one), false);
    (void)zkl__memory_break(zkl_session_id(one), 0, 0, 0);
    (void)zkl__memory_resume(zkl_session_id(one));
    CU_ASSERT(EVENTUALLY(zkl_session_state(one) == ZKL_SESSION_CONNECTED));
    zkl_lock_free(t.lock);
    zkl_lock_free(t.job);
    zkl_lock_free(t.rwlock);
    zkl_lock_free(t.semaphore);
    zkl_lock_free(t.multilock);
    zkl_lock_free(t.election);
    zkl_group_free(t.group);
    zkl_double_barrier_free(t.barrier);
    kit_tear_down();
}

/* --- the control ----------------------------------------------------------------------------------------------------- */

struct control {
    pthread_t thread;
    pthread_cond_t cond;
    pthread_mutex_t mutex;
    int64_t took_ms;
};

static void *run_control(void *arg)
{
    struct control *control = arg;
    struct timespec until;
    int64_t began = now_ms();
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += WAIT * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&control->mutex);
    while (pthread_cond_timedwait(&control->cond, &control->mutex, &until) == 0) {
    }
    pthread_mutex_unlock(&control->mutex);
    control->took_ms = now_ms() - began;
    return NULL;
}

/* How much longer the call took than the control, in ms. */
static int64_t excess(const struct call *call)
{
    struct control control = {.took_ms = 0};
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&control.cond, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&control.mutex, NULL);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&control.thread, NULL, run_control, &control), 0);
    int64_t began = now_ms();
    (void)call->timed();
    int64_t took = now_ms() - began;
    pthread_join(control.thread, NULL);
    pthread_cond_destroy(&control.cond);
    pthread_mutex_destroy(&control.mutex);
    return took - control.took_ms;
}

/* In each of the worlds that spoil makes: less than half of the wait over the control's, in one of the tries. */
static void in_time(const char *world, void (*spoil)(int64_t session_id, size_t answers), size_t answers)
{
    for (size_t i = 0; i < CALLS; i++) {
        int64_t least = INT64_MAX;
        for (int try = 0; try < TRIES && least > WAIT / 2; try++) {
            begin(&calls[i]);
            spoil(zkl_session_id(one), answers);
            int64_t late = excess(&calls[i]);
            least = late < least ? late : least;
            end();
        }
        if (least > WAIT / 2) {
            printf("(%s, %s after %zu: %lld ms more) ", calls[i].name, world, answers, (long long)least);
        }
        CU_ASSERT(least <= WAIT / 2);
    }
}

/* --- tests ----------------------------------------------------------------------------------------------------------- */

static void suspend(int64_t session_id, size_t answers)
{
    (void)answers;
    CU_ASSERT_EQUAL(zkl__memory_suspend(session_id), ZKL_OK);
}

static void hang(int64_t session_id, size_t answers)
{
    (void)answers;
    CU_ASSERT_EQUAL(zkl__memory_hold(session_id, true), ZKL_OK);
}

static void lose(int64_t session_id, size_t answers)
{
    CU_ASSERT_EQUAL(zkl__memory_break(session_id, answers, 1, 0), ZKL_OK);
}

static void test_without_a_server(void)
{
    in_time("suspended", suspend, 0);
}

static void test_with_a_server_that_hangs(void)
{
    in_time("hung", hang, 0);
}

static void test_lost_in_the_middle(void)
{
    for (size_t answers = 0; answers < 5; answers++) {
        in_time("lost", lose, answers);
    }
}

TESTS("deadlines", T(test_without_a_server), T(test_with_a_server_that_hangs), T(test_lost_in_the_middle))
