#include "loop.h"

#include <assert.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* === the loop ================================================================================= */

#define EVENTS_MAX 16

static struct {
    pid_t pid;
    int epoll, timer; /* while there are members */
    int64_t armed;    /* when the timer fires */
    size_t members;
    uint64_t news;
    uint64_t round; /* of visits */
    bool inside;    /* sources go on, or alarms ring: nothing that waits may be called */
    struct zkl__list sources, alarms, visitors;
    struct zkl__link *next_alarms; /* which ring next, while alarms ring */
} loop;

/* --- members --------------------------------------------------------------------------------- */

static bool add_descriptor(int epoll, int fd, uint32_t events, struct zkl__source *source)
{
    struct epoll_event event = {.events = events, .data.ptr = source};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void close_all(void)
{
    if (loop.epoll >= 0) {
        close(loop.epoll);
    }
    if (loop.timer >= 0) {
        close(loop.timer);
    }
    loop.epoll = loop.timer = -1;
}

/* In a child of fork the loop's members are memory that nobody goes on with. Its descriptors stay
 * open until exec: the child may have closed them, and opened files of its own that now have their
 * numbers. */
static void forget_the_parent(void)
{
    if (loop.pid != getpid()) {
        loop.pid = getpid();
        loop.epoll = loop.timer = -1;
        loop.members = 0;
        loop.inside = false;
        loop.sources = loop.alarms = loop.visitors = (struct zkl__list){.first = NULL};
        loop.next_alarms = NULL;
    }
}

static int join(void)
{
    forget_the_parent();
    if (loop.members == 0) {
        loop.epoll = epoll_create1(EPOLL_CLOEXEC);
        loop.timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
        loop.armed = INT64_MAX;
        if (loop.epoll < 0 || loop.timer < 0 ||
            !add_descriptor(loop.epoll, loop.timer, EPOLLIN, NULL)) {
            close_all();
            return ZKL_ELIMIT;
        }
    }
    loop.members++;
    return ZKL_OK;
}

static void part(void)
{
    if (--loop.members == 0) {
        close_all();
    }
}

void zkl__loop_invite(struct zkl__visitor *visitor)
{
    forget_the_parent();
    visitor->round = loop.round;
    zkl__list_prepend(&loop.visitors, &visitor->link);
}

void zkl__loop_dismiss(struct zkl__visitor *visitor)
{
    if (visitor->run) { /* else it was never invited */
        zkl__list_remove(&loop.visitors, &visitor->link);
    }
}

/* Wakes the loop by then. */
static void arm(int64_t at)
{
    if (loop.members > 0) {
        zkl__timerfd_arm(loop.timer, &loop.armed, at);
    }
}

/* --- sources --------------------------------------------------------------------------------- */

int zkl__source_add(struct zkl__source *source)
{
    int rc = join();
    if (rc == ZKL_OK) {
        source->fd = -1;
        source->wanted = source->ready = 0;
        zkl__list_prepend(&loop.sources, &source->link);
        zkl__source_wake(source);
    }
    return rc;
}

void zkl__source_remove(struct zkl__source *source)
{
    assert(!loop.inside);
    zkl__source_drop(source);
    zkl__list_remove(&loop.sources, &source->link);
    part();
}

bool zkl__source_watch(struct zkl__source *source, int fd, uint32_t events)
{
    if (source->fd < 0) {
        source->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        source->wanted = events;
        if (source->fd >= 0 && !add_descriptor(loop.epoll, source->fd, events, source)) {
            zkl__source_drop(source);
        }
    } else if (source->wanted != events) {
        struct epoll_event event = {.events = events, .data.ptr = source};
        source->wanted = events;
        epoll_ctl(loop.epoll, EPOLL_CTL_MOD, source->fd, &event);
    }
    return source->fd >= 0;
}

/* A child of fork may have the connection, too, and epoll goes by that, not by the descriptor. */
void zkl__source_drop(struct zkl__source *source)
{
    if (source->fd >= 0) {
        epoll_ctl(loop.epoll, EPOLL_CTL_DEL, source->fd, NULL);
        close(source->fd);
    }
    source->fd = -1;
    source->wanted = source->ready = 0;
}

void zkl__source_wake(struct zkl__source *source)
{
    source->due = 0;
    arm(0);
}

/* --- turning --------------------------------------------------------------------------------- */

void zkl__loop_news(void)
{
    loop.news++;
}

/* The first time at which a source wants to go on. */
static int64_t prepare(int64_t now)
{
    int64_t due = INT64_MAX;
    loop.inside = true;
    ZKL__EACH (struct zkl__source, source, &loop.sources, link) {
        source->due = source->prepare(source, now);
        due = source->due < due ? source->due : due;
    }
    loop.inside = false;
    return due;
}

static bool somebody_waits(void)
{
    ZKL__EACH (struct zkl__visitor, visitor, &loop.visitors, link) {
        if (visitor->waiting(visitor->owner)) {
            return true;
        }
    }
    return false;
}

static void go_on(int timeout_ms)
{
    struct epoll_event events[EVENTS_MAX];
    uint64_t count;
    bool fired = false;
    int found = epoll_wait(loop.epoll, events, EVENTS_MAX, timeout_ms);
    for (int i = 0; i < found; i++) {
        struct zkl__source *source = events[i].data.ptr;
        if (source) {
            source->ready |= events[i].events;
        } else if (read(loop.timer, &count, sizeof count) > 0) {
            loop.armed = INT64_MAX;
            fired = true;
        }
    }
    int64_t now = zkl__clock_now();
    loop.inside = true;
    ZKL__EACH (struct zkl__source, source, &loop.sources, link) {
        uint32_t ready = source->ready;
        source->ready = 0;
        if (ready || source->due <= now) {
            source->due = INT64_MAX;
            source->go_on(source, ready);
        }
    }
    loop.inside = false;
    if (fired) {
        /* Rings drop the mutex, and add and remove sources and alarms, but wait for nothing. */
        for (loop.next_alarms = loop.alarms.first; loop.next_alarms;) {
            struct zkl__alarms *alarms = ZKL__OWNER(loop.next_alarms, struct zkl__alarms, link);
            loop.next_alarms = loop.next_alarms->next;
            pthread_mutex_lock(alarms->mutex);
            zkl__alarms_ring(alarms);
            pthread_mutex_unlock(alarms->mutex);
        }
    }
}

/* Everybody who waits once; who is visited may dismiss others, and turn the loop. */
static void visit(void)
{
    uint64_t round = ++loop.round;
    struct zkl__visitor *visitor = ZKL__OWNER(loop.visitors.first, struct zkl__visitor, link);
    while (visitor) {
        bool run = visitor->round < round && visitor->waiting(visitor->owner);
        if (run) {
            visitor->round = round;
            visitor->run(visitor->owner);
        }
        visitor =
            ZKL__OWNER(run ? loop.visitors.first : visitor->link.next, struct zkl__visitor, link);
    }
}

void zkl__loop_turn(int64_t deadline)
{
    assert(!loop.inside);
    if (loop.members == 0) {
        return;
    }
    uint64_t news = loop.news;
    int64_t now = zkl__clock_now();
    int64_t due = prepare(now);
    bool sleep = loop.news == news && due > now && deadline > now && !somebody_waits();
    if (sleep) {
        arm(due < deadline ? due : deadline);
    }
    go_on(sleep ? -1 : 0);
    visit();
    if (loop.armed == INT64_MAX && loop.members > 0) {
        arm(prepare(zkl__clock_now())); /* the next turn may be the user's loop's */
    }
}

/* Behind it stands what the user's loop is to be woken for. */
void zkl__loop_go_on(void)
{
    assert(!loop.inside);
    if (loop.members == 0) {
        return;
    }
    go_on(0);
    arm(prepare(zkl__clock_now()));
}

int zkl__loop_descriptor(int fd)
{
    int both = epoll_create1(EPOLL_CLOEXEC);
    if (both >= 0 && (!add_descriptor(both, fd, EPOLLIN, NULL) || loop.members == 0 ||
                      !add_descriptor(both, loop.epoll, EPOLLIN, NULL))) {
        close(both);
        return -1;
    }
    /* What is due is seen to in the first turn, and not here: sources call back, and whoever asks
     * for a descriptor has the mutex of a session. */
    arm(0);
    return both;
}

/* === alarms =================================================================================== */

/* Alarms that the loop rings: thread.h without a thread. */

void zkl__alarms_arm(struct zkl__alarms *alarms, int64_t at)
{
    if (alarms->started) {
        arm(at);
    }
}

/* --- pokes ----------------------------------------------------------------------------------- */

static int64_t wait_for_poke(struct zkl__source *source, int64_t now)
{
    (void)source, (void)now;
    return INT64_MAX;
}

static void take_poke(struct zkl__source *source, uint32_t events)
{
    struct zkl__alarms *alarms = (struct zkl__alarms *)source;
    eventfd_t count;
    if (events && eventfd_read(alarms->poke_fd, &count) == 0) {
        pthread_mutex_lock(alarms->mutex);
        zkl__alarms_set(alarms, alarms->poked, 0);
        pthread_mutex_unlock(alarms->mutex);
        zkl__loop_news();
    }
}

int zkl__alarms_poke_descriptor(struct zkl__alarms *alarms, struct zkl__alarm *poked)
{
    if (alarms->poke_fd >= 0 || alarms->stop) {
        return alarms->poke_fd;
    }
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) {
        return -1;
    }
    alarms->poke = (struct zkl__source){.prepare = wait_for_poke, .go_on = take_poke};
    bool added = zkl__source_add(&alarms->poke) == ZKL_OK;
    if (added && zkl__source_watch(&alarms->poke, fd, EPOLLIN)) {
        alarms->poked = poked;
        alarms->poke_fd = fd;
        return fd;
    }
    if (added) {
        zkl__source_remove(&alarms->poke);
    }
    close(fd);
    return -1;
}

/* --- life ------------------------------------------------------------------------------------ */

int zkl__alarms_start(struct zkl__alarms *alarms, pthread_mutex_t *mutex)
{
    alarms->mutex = mutex;
    alarms->poke_fd = -1;
    int rc = join();
    alarms->started = rc == ZKL_OK;
    if (alarms->started) {
        zkl__list_prepend(&loop.alarms, &alarms->link);
        arm(zkl__timers_next(&alarms->timers));
    }
    return rc;
}

void zkl__alarms_stop(struct zkl__alarms *alarms)
{
    if (alarms->poke_fd >= 0) {
        zkl__source_remove(&alarms->poke);
    }
    if (alarms->started) {
        if (loop.next_alarms == &alarms->link) {
            loop.next_alarms = alarms->link.next;
        }
        zkl__list_remove(&loop.alarms, &alarms->link);
        part();
    }
    alarms->started = false;
    alarms->stop = true;
}

void zkl__alarms_join(struct zkl__alarms *alarms)
{
    (void)alarms;
}

void zkl__alarms_retire(struct zkl__alarms *alarms, void (*left)(void *owner), void *owner)
{
    zkl__alarms_stop(alarms);
    left(owner);
}

/* === waiting ================================================================================== */

/* No other thread runs the session, so a caller that waits runs the loop. */

const bool zkl__threadless = true;

void zkl__signal_init(struct zkl__signal *signal)
{
    (void)signal;
}

void zkl__signal_deinit(struct zkl__signal *signal)
{
    (void)signal;
}

/* A waiting caller checks its condition after each turn of the loop, so it suffices that the next
 * turn does not block. */
void zkl__signal_raise(struct zkl__signal *signal)
{
    (void)signal;
    zkl__loop_news();
}

void zkl__signal_wait(struct zkl__signal *signal, pthread_mutex_t *mutex, int64_t deadline)
{
    (void)signal;
    if (deadline <= zkl__clock_now()) {
        return;
    }
    pthread_mutex_unlock(mutex);
    zkl__loop_turn(deadline);
    pthread_mutex_lock(mutex);
}
