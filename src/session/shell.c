/* shell.c - what recipes stand on: the mutex, the clock, waiting, the session's objects. */

#include "call.h"
#include "shell.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

/* === which process this is ==================================================================== */

/* A page that the kernel clears in every child of fork (madvise(2), MADV_WIPEONFORK,
 * Linux 4.14), whichever function has made it. pthread_atfork does not see _Fork and clone. Where
 * there is no such page (valgrind, an old kernel), getpid. */

static uint64_t *page; /* NULL: there is none */
static uint64_t latest;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_page(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *made = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) {
        return;
    }
    if (madvise(made, size, MADV_WIPEONFORK) != 0) {
        munmap(made, size);
        return;
    }
    page = made;
}

uint64_t zkl__process(void)
{
    pthread_once(&once, make_page);
    uint64_t known = zkl__process_known();
    if (known == 0) {
        uint64_t fresh = __atomic_add_fetch(&latest, 1, __ATOMIC_RELAXED);
        bool first = __atomic_compare_exchange_n(page, &known, fresh, false, __ATOMIC_RELAXED,
                                                 __ATOMIC_RELAXED);
        known = first ? fresh : known;
    }
    return known;
}

/* 0 in a child where nobody has asked. */
uint64_t zkl__process_known(void)
{
    return page ? __atomic_load_n(page, __ATOMIC_RELAXED) : (uint64_t)getpid();
}

/* === the shell ================================================================================ */

#define PAUSE_LEAST (100 * ZKL__MS)
#define PAUSE_MOST (5000 * ZKL__MS)

bool zkl__session_forked(const zkl_session *session)
{
    return zkl__process_known() != session->process;
}

int zkl__session_enter_even_closed(zkl_session *session, zkl_error *err)
{
    /* In a child of fork the mutex may be held by a thread that does not exist there: it is not
     * even looked at. */
    if (zkl__session_forked(session)) {
        return zkl__fail_at(err, ZKL_EFORKED, NULL,
                            "the session was opened by process %ld: open one in this process",
                            (long)session->pid);
    }
    zkl__cancel_hold();
    zkl__session_retain(session);
    pthread_mutex_lock(&session->mutex);
    return ZKL_OK;
}

int zkl__session_enter(zkl_session *session, zkl_error *err)
{
    int rc = zkl__session_enter_even_closed(session, err);
    if (rc != ZKL_OK || (!session->status.closing && session->status.state != ZKL_SESSION_CLOSED)) {
        return rc;
    }
    const char *why = session->status.closing ? "zkl_session_close was called"
                                              : zkl_strerror(session->status.why);
    zkl__session_leave(session);
    return zkl__fail_at(err, ZKL_ECLOSED, NULL, "the session is closed: %s", why);
}

void zkl__session_leave(zkl_session *session)
{
    /* When a callback forked since enter, the child has no mutex, and the timer is the parent's,
     * too. */
    if (!zkl__session_forked(session)) {
        zkl__session_arm(session);
        pthread_mutex_unlock(&session->mutex);
        zkl__session_drop(session);
    }
    zkl__cancel_allow();
}

int zkl__session_want_callbacks(zkl_session *session, const char *path, zkl_error *err)
{
    return zkl__callbacks_want(&session->callbacks) == ZKL_OK
               ? ZKL_OK
               : zkl__fail_at(err, ZKL_ELIMIT, path, "no thread for callbacks");
}

void zkl__session_retain(zkl_session *session)
{
    atomic_fetch_add(&session->refs, 1);
}

void zkl__session_drop(zkl_session *session)
{
    if (atomic_fetch_sub(&session->refs, 1) == 1) {
        zkl__session_free(session);
    }
}

void zkl__session_arm(zkl_session *session)
{
    zkl__alarms_set(&session->alarms, &session->core_alarm, zkl__core_next(session->core));
}

int64_t zkl__session_deadline(int64_t timeout_ms)
{
    int64_t now = zkl__clock_now();
    bool never = timeout_ms < 0 || timeout_ms > (INT64_MAX - now) / ZKL__MS;
    return never ? INT64_MAX : now + timeout_ms * ZKL__MS;
}

int64_t zkl__session_left(int64_t until)
{
    int64_t now = zkl__clock_now();
    return until > now ? until - now : 0;
}

bool zkl__session_holds(const zkl_session *session, const struct zkl__contender *contender,
                        const struct zkl__multi *multi, const struct zkl__semaphore *semaphore)
{
    return zkl__core_holds(session->core, contender, multi, semaphore, zkl__clock_now());
}

void zkl__session_event(zkl_session *session, struct zkl__event event)
{
    event.now =
        zkl__clock_now(); /* read inside the mutex: no step is earlier than the one before */
    zkl__session_step(session->core, &event);
    if (session->status.closing) {
        zkl__session_poke_close(session); /* it waits for the core to be idle */
    }
}

bool zkl__out_of_descriptors(void)
{
    int fd = eventfd(0, EFD_CLOEXEC);
    if (fd < 0) {
        return errno == EMFILE || errno == ENFILE;
    }
    close(fd);
    return false;
}

/* --- waiting --------------------------------------------------------------------------------- */

bool zkl__session_wait(zkl_session *session, struct zkl__signal *signal, int64_t deadline)
{
    if (session->status.closed || zkl__clock_now() >= deadline) {
        return false;
    }
    struct zkl__sleeper me = {.signal = signal};
    zkl__list_prepend(&session->sleepers, &me.link);
    zkl__session_arm(session);
    zkl__signal_wait(signal, &session->mutex, deadline);
    zkl__list_remove(&session->sleepers, &me.link);
    return !session->status.closed && zkl__clock_now() < deadline;
}

void zkl__session_wake(zkl_session *session)
{
    ZKL__EACH (struct zkl__sleeper, sleeper, &session->sleepers, link) {
        zkl__signal_raise(sleeper->signal);
    }
}

/* --- being called at a time ------------------------------------------------------------------ */

void zkl__retry_later(zkl_session *session, struct zkl__retry *retry)
{
    retry->pause = zkl__backoff(retry->pause, PAUSE_LEAST, PAUSE_MOST);
    zkl__alarms_set(&session->alarms, &retry->alarm, zkl__clock_now() + retry->pause);
}

static void look(void *owner)
{
    struct zkl__margin *margin = owner;
    int64_t until = margin->until(margin->owner);
    if (zkl__session_left(until) <= margin->ns) {
        margin->reached(margin->owner);
    } else {
        zkl__alarms_set(&margin->session->alarms, &margin->alarm,
                        until < INT64_MAX ? until - margin->ns : until);
    }
}

void zkl__margin_watch(struct zkl__margin *margin)
{
    margin->alarm.ring = look;
    margin->alarm.owner = margin;
    look(margin);
}

/* --- tasks ----------------------------------------------------------------------------------- */

int zkl__session_task_begin(zkl_session *session, struct zkl__task *task, zkl_error *err)
{
    if (session->status.stopping || session->status.closing) {
        return zkl__fail_at(err, ZKL_ECLOSED, NULL, "the session is being closed");
    }
    task->thread = pthread_self();
    zkl__list_prepend(&session->tasks, &task->link);
    return ZKL_OK;
}

void zkl__session_task_end(zkl_session *session, struct zkl__task *task)
{
    zkl__list_remove(&session->tasks, &task->link);
    zkl__session_poke_close(session); /* it may wait for the last one */
}

void zkl__session_stop_tasks(zkl_session *session)
{
    session->status.stopping = true;
    ZKL__EACH (struct zkl__task, task, &session->tasks, link) {
        task->stop(task);
    }
    zkl__session_wake(session);
    zkl__calls_poke(session, NULL);
}

bool zkl__session_in_task(const zkl_session *session)
{
    ZKL__EACH (struct zkl__task, task, &session->tasks, link) {
        if (pthread_equal(task->thread, pthread_self())) {
            return true;
        }
    }
    return false;
}
