/* driver.h - what the benchmark's drivers in C are made of. A driver obeys one line protocol on
 * stdin and stdout; bench.py gives the orders and computes. curator/Driver.java and kazoo_driver.py
 * speak the same words:
 *
 *   run JOB CONTENDERS MS HOLD_US PATH   opens the contenders; answers "ready"
 *   go                                   every contender acquires and releases the lock for MS ms,
 *                                        and holds it for HOLD_US each time; answers a line for
 *                                        each section (of very many, for the first ones), facts,
 *                                        and "end"
 *   close                                closes the contenders; answers "closed"
 *
 * A section's line is CONTENDER ASKED GRANTED RELEASED DONE (ns, CLOCK_MONOTONIC: around acquire,
 * around release). Other facts are "fact NAME VALUE". Facts second_N (grants that ended in the
 * second N of the job) and grants_N (of contender N) count all sections; where they are missing,
 * every section has its line.
 *
 * Jobs: sessions (a session for each contender), and what a driver has of its own. What fails ends
 * the program with words on stderr. */
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

/* A job that is not taking turns: does the whole of `go`. */
struct own_job {
    const char *name;
    void (*run)(const struct job *job, void **contenders);
    bool alone; /* opens what it needs itself: there are no contenders */
};

/* A lock as its users know it. Each driver defines one. */
extern const struct driver {
    void *(*open)(const struct job *job, int number); /* a contender, ready to acquire */
    bool (*acquire)(void *contender); /* false: not granted, to be tried again after OPTION ms */
    void (*release)(void *contender);
    void (*close)(void *contender);
    const struct own_job *own;   /* up to one without a name; NULL: none */
    int (*command)(char **argv); /* with more than two arguments, instead of orders; or NULL */
} driver;

int64_t now_ns(void);
void pause_us(int64_t us);
void *allocate(int count, size_t size); /* zeroed; never NULL */
void print_section(int contender, const struct section *section);
void print_fact(const char *name, double value);
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
