/* alarm.c - alarms that the loop rings: alarm.h without the thread. */
#include "alarm.h"

#include "loop.h"

#include <zklock/error.h>

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

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
