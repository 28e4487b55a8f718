/* driver.h - what the benchmark's drivers in C are made of. A driver obeys one line protocol on
 * stdin and stdout; bench.py gives the orders and computes. curator/Driver.java and kazoo_driver.py
 * speak the same words:
 *
 *   run JOB CONTENDERS MS HOLD_US PATH   opens the contenders; answers "ready", or "skip WHY"
 *   go                                   every contender takes and gives back the lock for MS ms,
 * staying inside for HOLD_US; answers a line for each section (of very many, for the first ones),
 * facts, and "end": CONTENDER ASKED GRANTED RELEASED DONE   (ns, CLOCK_MONOTONIC: around acquire,
 * around release) fact NAME VALUE. Facts second_N (grants that ended in the second N of the job)
 * and grants_N (of contender N) count all sections; where they are missing, every section has its
 * line.
 *
 *   close                                closes the contenders; answers "closed"
 *
 * Jobs: sessions (a session for each contender), threads (one session for all), two (one session
 * for the first half of the contenders, and one for the other half), idle (opens, takes nothing),
 * and what a driver has of its own. What fails ends the program with words on stderr. */
#ifndef ZKL_BENCH_DRIVER_H
#define ZKL_BENCH_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct job {
    char name[32];
    int contenders;
    int64_t ms, hold_us;
    char path[256];
    const char *servers; /* argv[1] of the driver */
    const char *option;  /* argv[2], or NULL */
};

struct section {
    int64_t asked, granted, released, done; /* ns */
};

/* A lock as its users know it. */
struct driver {
    void *(*open)(const struct job *job, int number); /* a contender, ready to acquire */
    void (*acquire)(void *contender);
    void (*release)(void *contender);
    void (*close)(void *contender);
    long (*requests)(
        void *contender); /* sent so far, where no server counts them; NULL: a server does */
    bool threads;         /* several contenders can share a session */
    /* Jobs of its own: does the whole of `go`, or, with go = false, says whether it has that job.
     * NULL: none. */
    bool (*own)(const struct job *job, void **contenders, bool go);
};

int driver_main(int argc, char **argv, const struct driver *driver);

/* For jobs of a driver's own. */
int64_t now_ns(void);
void pause_us(int64_t us);
void print_section(int contender, const struct section *section);
void print_fact(const char *name, double value);
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
