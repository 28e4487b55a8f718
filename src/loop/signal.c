/* signal.c - waiting where nobody else does the work: who waits turns the loop. */
#include "loop.h"

#include <zklock/error.h>

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

/* Who waits looks again after every turn: it is enough that no turn sleeps over this. */
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
