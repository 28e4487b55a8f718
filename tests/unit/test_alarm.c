/* The library's own threads: alarms and signals. Their names, and which signals they take: unit_session. */
#include "thread.h"
#include "lock_kit.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct zkl__alarms alarms;

static void set_locked(struct zkl__alarm *alarm, int64_t in_ms)
{
    zkl__alarms_set(&alarms, alarm, in_ms == INT64_MAX ? in_ms : zkl__clock_now() + in_ms * ZKL__MS);
}

static void set(struct zkl__alarm *alarm, int64_t in_ms)
{
    pthread_mutex_lock(&mutex);
    set_locked(alarm, in_ms);
    pthread_mutex_unlock(&mutex);
}

static void ring(void *owner)
{
    mailbox_put(owner, (struct letter){.code = (int)(zkl__clock_now() / ZKL__MS)});
}

TEST(test_alarms_ring_in_their_order)
{
    struct mailbox late = MAILBOX_INIT, early = MAILBOX_INIT, never = MAILBOX_INIT;
    struct zkl__alarm a = {.ring = ring, .owner = &late}, b = {.ring = ring, .owner = &early},
                      c = {.ring = ring, .owner = &never}, d = {.ring = ring, .owner = &never};
    int64_t from = zkl__clock_now() / ZKL__MS;
    alarms = (struct zkl__alarms){.fd = -1};
    ASSERT_OK_FATAL(zkl__alarms_start(&alarms, &mutex));
    set(&d, 3600000); /* one that is left when all is stopped */
    pthread_mutex_lock(&mutex);
    set_locked(&a, 60);
    set_locked(&b, 3600000);
    set_locked(&b, 30); /* moved forward: the thread sleeps for later already */
    set_locked(&c, 20);
    set_locked(&c, INT64_MAX); /* taken back */
    pthread_mutex_unlock(&mutex);
    kit_await_letters(&late, 1);
    CU_ASSERT_EQUAL(mailbox_count(&early), 1);
    CU_ASSERT_EQUAL(mailbox_count(&never), 0);
    CU_ASSERT(late.letters[0].code - (int)from >= 59);
    CU_ASSERT(early.letters[0].code - (int)from >= 29);
    CU_ASSERT(early.letters[0].code <= late.letters[0].code); /* the same when the thread is late for both */
    set(&b, -5);                                              /* in the past: now */
    kit_await_letters(&early, 2);
    zkl__alarms_stop(&alarms);
    set(&b, 0); /* nobody is there any more */
    CU_ASSERT_EQUAL(mailbox_count(&early), 2);
    zkl__alarms_join(&alarms);
}

static void *raise_later(void *arg)
{
    pthread_mutex_lock(&mutex);
    zkl__signal_raise(arg);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

TEST(test_signals)
{
    struct zkl__signal signal;
    pthread_t thread;
    zkl__signal_init(&signal);
    int64_t from = zkl__clock_now(), until = from + 30 * ZKL__MS;
    pthread_mutex_lock(&mutex);
    while (zkl__clock_now() < until) {
        zkl__signal_wait(&signal, &mutex, until);
    }
    CU_ASSERT(zkl__clock_now() - from >= 30 * ZKL__MS);
    zkl__signal_wait(&signal, &mutex, 0);         /* long ago: returns */
    zkl__signal_wait(&signal, &mutex, INT64_MIN); /* even then */
    ASSERT_OK_FATAL(zkl__thread_start(&thread, raise_later, &signal));
    zkl__signal_wait(&signal, &mutex, INT64_MAX);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
    zkl__signal_deinit(&signal);
}

TESTS("alarm")
