#include "loop.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
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
    struct zkl__source *sources;
    struct zkl__alarms *alarms;
    struct zkl__visitor *visitors;
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
        loop.sources = NULL;
        loop.alarms = NULL;
        loop.visitors = NULL;
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

int zkl__loop_join(struct zkl__alarms *alarms)
{
    int rc = join();
    if (rc == ZKL_OK) {
        alarms->next = loop.alarms;
        loop.alarms = alarms;
    }
    return rc;
}

void zkl__loop_part(struct zkl__alarms *alarms)
{
    struct zkl__alarms **at = &loop.alarms;
    while (*at != alarms) {
        at = &(*at)->next;
    }
    *at = alarms->next;
    part();
}

void zkl__loop_invite(struct zkl__visitor *visitor)
{
    forget_the_parent();
    visitor->round = loop.round;
    visitor->next = loop.visitors;
    loop.visitors = visitor;
}

void zkl__loop_dismiss(struct zkl__visitor *visitor)
{
    struct zkl__visitor **at = &loop.visitors;
    while (*at && *at != visitor) {
        at = &(*at)->next;
    }
    if (*at) {
        *at = visitor->next;
    }
}

/* --- sources --------------------------------------------------------------------------------- */

int zkl__source_add(struct zkl__source *source)
{
    int rc = join();
    if (rc == ZKL_OK) {
        source->fd = -1;
        source->wanted = source->ready = 0;
        source->prev = NULL;
        source->next = loop.sources;
        if (source->next) {
            source->next->prev = source;
        }
        loop.sources = source;
        zkl__source_wake(source);
    }
    return rc;
}

void zkl__source_remove(struct zkl__source *source)
{
    assert(!loop.inside);
    zkl__source_drop(source);
    *(source->prev ? &source->prev->next : &loop.sources) = source->next;
    if (source->next) {
        source->next->prev = source->prev;
    }
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
    zkl__loop_arm(0);
}

/* --- turning --------------------------------------------------------------------------------- */

void zkl__loop_news(void)
{
    loop.news++;
}

void zkl__loop_arm(int64_t at)
{
    if (at >= loop.armed || loop.members == 0) {
        return; /* firing early does no harm */
    }
    loop.armed = at;
    at = at > 0 ? at : 1; /* 0 would disarm it */
    struct itimerspec when = {.it_value = {(time_t)(at / 1000000000), (long)(at % 1000000000)}};
    timerfd_settime(loop.timer, TFD_TIMER_ABSTIME, &when, NULL);
}

/* The first time at which a source wants to go on. */
static int64_t prepare(int64_t now)
{
    int64_t due = INT64_MAX;
    loop.inside = true;
    for (struct zkl__source *source = loop.sources; source; source = source->next) {
        source->due = source->prepare(source, now);
        due = source->due < due ? source->due : due;
    }
    loop.inside = false;
    return due;
}

static bool somebody_waits(void)
{
    for (struct zkl__visitor *visitor = loop.visitors; visitor; visitor = visitor->next) {
        if (visitor->waiting(visitor->owner)) {
            return true;
        }
    }
    return false;
}

/* True: the timer has fired. */
static bool collect(int timeout_ms)
{
    struct epoll_event events[EVENTS_MAX];
    uint64_t count;
    bool fired = false;
    int ready = epoll_wait(loop.epoll, events, EVENTS_MAX, timeout_ms);
    for (int i = 0; i < ready; i++) {
        struct zkl__source *source = events[i].data.ptr;
        if (source) {
            source->ready |= events[i].events;
        } else {
            fired = read(loop.timer, &count, sizeof count) > 0;
        }
    }
    if (fired) {
        loop.armed = INT64_MAX;
    }
    return fired;
}

static void go_on(void)
{
    int64_t now = zkl__clock_now();
    loop.inside = true;
    for (struct zkl__source *source = loop.sources; source; source = source->next) {
        uint32_t ready = source->ready;
        source->ready = 0;
        if (ready || source->due <= now) {
            source->due = INT64_MAX;
            source->go_on(source, ready);
        }
    }
    loop.inside = false;
}

/* Rings drop the mutex, and add and remove sources, but wait for nothing. */
static void ring(void)
{
    for (struct zkl__alarms *alarms = loop.alarms; alarms; alarms = alarms->next) {
        pthread_mutex_lock(alarms->mutex);
        zkl__alarms_ring(alarms);
        pthread_mutex_unlock(alarms->mutex);
    }
}

/* Everybody who waits once; who is visited may dismiss others, and turn the loop. */
static void visit(void)
{
    uint64_t round = ++loop.round;
    for (struct zkl__visitor *visitor = loop.visitors; visitor;) {
        bool run = visitor->round < round && visitor->waiting(visitor->owner);
        if (run) {
            visitor->round = round;
            visitor->run(visitor->owner);
        }
        visitor = run ? loop.visitors : visitor->next;
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
        zkl__loop_arm(due < deadline ? due : deadline);
    }
    bool fired = collect(sleep ? -1 : 0);
    go_on();
    if (fired) {
        ring();
    }
    visit();
    if (loop.armed == INT64_MAX && loop.members > 0) {
        zkl__loop_arm(prepare(zkl__clock_now())); /* the next turn may be the user's loop's */
    }
}

/* Behind it stands what the user's loop is to be woken for. */
void zkl__loop_go_on(void)
{
    assert(!loop.inside);
    if (loop.members == 0) {
        return;
    }
    bool fired = collect(0);
    go_on();
    if (fired) {
        ring();
    }
    zkl__loop_arm(prepare(zkl__clock_now()));
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
    zkl__loop_arm(0);
    return both;
}

/* === alarms =================================================================================== */

/* Alarms that the loop rings: thread.h without a thread. */

void zkl__alarms_arm(struct zkl__alarms *alarms, int64_t at)
{
    if (alarms->started) {
        zkl__loop_arm(at);
    }
}

/* --- pokes ----------------------------------------------------------------------------------- */

struct zkl__poke {
    struct zkl__source source;
    struct zkl__alarms *alarms;
};

static int64_t wait_for_poke(struct zkl__source *source, int64_t now)
{
    (void)source, (void)now;
    return INT64_MAX;
}

static void take_poke(struct zkl__source *source, uint32_t events)
{
    struct zkl__alarms *alarms = ((struct zkl__poke *)source)->alarms;
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
    struct zkl__poke *poke = calloc(1, sizeof *poke);
    int fd = poke ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    if (fd >= 0) {
        *poke = (struct zkl__poke){.source = {.prepare = wait_for_poke, .go_on = take_poke},
                                   .alarms = alarms};
        if (zkl__source_add(&poke->source) == ZKL_OK) {
            if (zkl__source_watch(&poke->source, fd, EPOLLIN)) {
                alarms->poked = poked;
                alarms->poke = poke;
                alarms->poke_fd = fd;
                return fd;
            }
            zkl__source_remove(&poke->source);
        }
        close(fd);
    }
    free(poke);
    return -1;
}

void zkl__alarms_close(struct zkl__alarms *alarms)
{
    if (alarms->poke_fd >= 0) {
        close(alarms->poke_fd);
    }
}

static void end_poke(struct zkl__alarms *alarms)
{
    if (alarms->poke) {
        zkl__source_remove(&alarms->poke->source);
        free(alarms->poke);
        alarms->poke = NULL;
    }
}

/* --- life ------------------------------------------------------------------------------------ */

int zkl__alarms_start(struct zkl__alarms *alarms, pthread_mutex_t *mutex)
{
    alarms->mutex = mutex;
    alarms->poke_fd = -1;
    int rc = zkl__loop_join(alarms);
    alarms->started = rc == ZKL_OK;
    return rc;
}

void zkl__alarms_stop(struct zkl__alarms *alarms)
{
    end_poke(alarms);
    if (alarms->started) {
        zkl__loop_part(alarms);
    }
    alarms->started = false;
    alarms->stop = true;
}

void zkl__alarms_retire(struct zkl__alarms *alarms, void (*left)(void *owner), void *owner)
{
    zkl__alarms_stop(alarms);
    left(owner);
}

/* === waiting ================================================================================== */

/* No other thread runs the session, so a caller that waits runs the loop. */

const bool zkl__threadless = true;

int zkl__signal_init(struct zkl__signal *signal)
{
    (void)signal;
    return ZKL_OK;
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
