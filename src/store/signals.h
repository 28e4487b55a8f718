/* signals.h - the mask that a store's threads inherit. The program's handlers are not to run on
 * them, but for those of the threads' own faults: blocked, such a signal ends the process without
 * the handler that the program (or a sanitizer) has for it. */
#ifndef ZKL_STORE_SIGNALS_H
#define ZKL_STORE_SIGNALS_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* For the calling thread, until it sets its mask to *before again. */
static inline void zkl__block_signals(sigset_t *before)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t program;
    sigfillset(&program);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        sigdelset(&program, faults[i]);
    }
    pthread_sigmask(SIG_SETMASK, &program, before);
}

/* False: there is no room for one. */
static inline bool zkl__start_thread(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t before;
    zkl__block_signals(&before);
    bool started = pthread_create(thread, NULL, run, arg) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

#endif
