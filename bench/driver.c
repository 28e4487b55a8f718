#include "driver.h"

#include <pthread.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINE 512
/* That are printed, of one run: a lock that lingers is granted some hundred thousand times a
 * second, and bench.py reads a line for each. All of them are counted, by the second in which they
 * end. */
#define MOST_SECTIONS 100000
#define SECOND INT64_C(1000000000) /* ns */

int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void pause_us(int64_t us)
{
    if (us > 0) {
        nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
    }
}

void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

void print_section(int contender, const struct section *s)
{
    printf("%d %lld %lld %lld %lld\n", contender, (long long)s->asked, (long long)s->granted,
           (long long)s->released, (long long)s->done);
}

void print_fact(const char *name, double value)
{
    printf("fact %s %.17g\n", name, value);
}

/* --- one contender
 * ------------------------------------------------------------------------------------------------------
 */

struct turn {
    const struct driver *driver;
    const struct job *job;
    void *contender;
    pthread_barrier_t *start;
    atomic_int *all; /* sections of all contenders */
    pthread_t thread;
    struct section *sections;
    size_t count, room;
    long *seconds; /* grants that ended in each second of the job; the last entry has later ones */
    long grants;
};

static size_t seconds_of(const struct job *job)
{
    return (size_t)(job->ms / 1000);
}

static void note(struct turn *turn, const struct section *section)
{
    if (turn->count == turn->room) {
        turn->room = turn->room ? 2 * turn->room : 4096;
        turn->sections = realloc(turn->sections, turn->room * sizeof *turn->sections);
        if (!turn->sections) {
            die("no memory for sections");
        }
    }
    turn->sections[turn->count++] = *section;
}

static void *take_turns(void *arg)
{
    struct turn *turn = arg;
    pthread_barrier_wait(turn->start);
    int64_t begin = now_ns(), end = begin + turn->job->ms * 1000000;
    do {
        struct section section = {.asked = now_ns()};
        turn->driver->acquire(turn->contender);
        section.granted = now_ns();
        pause_us(turn->job->hold_us);
        section.released = now_ns();
        turn->driver->release(turn->contender);
        section.done = now_ns();
        size_t second = (size_t)((section.done - begin) / SECOND), last = seconds_of(turn->job);
        turn->seconds[second < last ? second : last]++;
        turn->grants++;
        if (atomic_fetch_add(turn->all, 1) < MOST_SECTIONS) {
            note(turn, &section);
        }
    } while (now_ns() < end);
    return NULL;
}

/* How many grants ended in each whole second, and how many each contender had. */
static void print_counts(const struct job *job, const struct turn *turns)
{
    char name[32];
    for (size_t second = 0; second < seconds_of(job); second++) {
        long grants = 0;
        for (int i = 0; i < job->contenders; i++) {
            grants += turns[i].seconds[second];
        }
        snprintf(name, sizeof name, "second_%zu", second);
        print_fact(name, (double)grants);
    }
    for (int i = 0; i < job->contenders; i++) {
        snprintf(name, sizeof name, "grants_%d", i);
        print_fact(name, (double)turns[i].grants);
    }
}

static void contend(const struct driver *driver, const struct job *job, void **contenders)
{
    struct turn *turns = calloc((size_t)job->contenders, sizeof *turns);
    pthread_barrier_t start;
    atomic_int all = 0;
    long requests = 0;
    pthread_barrier_init(&start, NULL, (unsigned)job->contenders);
    for (int i = 0; i < job->contenders; i++) {
        requests -= driver->requests ? driver->requests(contenders[i]) : 0;
        turns[i] = (struct turn){
            .driver = driver, .job = job, .contender = contenders[i], .start = &start, .all = &all};
        turns[i].seconds = calloc(seconds_of(job) + 1, sizeof *turns[i].seconds);
        if (!turns[i].seconds) {
            die("no memory for counts");
        }
        if (pthread_create(&turns[i].thread, NULL, take_turns, &turns[i]) != 0) {
            die("no thread for contender %d", i);
        }
    }
    for (int i = 0; i < job->contenders; i++) {
        pthread_join(turns[i].thread, NULL);
    }
    for (int i = 0; i < job->contenders; i++) {
        requests += driver->requests ? driver->requests(contenders[i]) : 0;
        for (size_t k = 0; k < turns[i].count; k++) {
            print_section(i, &turns[i].sections[k]);
        }
        free(turns[i].sections);
    }
    print_counts(job, turns);
    for (int i = 0; i < job->contenders; i++) {
        free(turns[i].seconds);
    }
    if (driver->requests) {
        print_fact("requests", (double)requests);
    }
    pthread_barrier_destroy(&start);
    free(turns);
}

/* --- orders
 * -----------------------------------------------------------------------------------------------------------------
 */

static bool is(const struct job *job, const char *name)
{
    return strcmp(job->name, name) == 0;
}

static bool has(const struct driver *driver, const struct job *job)
{
    return is(job, "sessions") || is(job, "idle") ||
           ((is(job, "threads") || is(job, "two")) && driver->threads) ||
           (driver->own && driver->own(job, NULL, false));
}

static void carry_out(const struct driver *driver, const struct job *job, void **contenders)
{
    if (is(job, "idle")) {
        pause_us(job->ms * 1000);
    } else if (!driver->own || !driver->own(job, contenders, true)) {
        contend(driver, job, contenders);
    }
    printf("end\n");
}

static void **open_all(const struct driver *driver, const struct job *job)
{
    void **contenders = calloc((size_t)job->contenders, sizeof *contenders);
    for (int i = 0; contenders && i < job->contenders; i++) {
        contenders[i] = driver->open(job, i);
    }
    if (!contenders) {
        die("no memory for contenders");
    }
    printf("ready\n");
    return contenders;
}

static void close_all(const struct driver *driver, const struct job *job, void **contenders)
{
    for (int i = 0; i < job->contenders; i++) {
        driver->close(contenders[i]);
    }
    free(contenders);
    printf("closed\n");
}

int driver_main(int argc, char **argv, const struct driver *driver)
{
    char line[LINE];
    void **contenders = NULL;
    struct job job = {.servers = argc > 1 ? argv[1] : NULL, .option = argc > 2 ? argv[2] : NULL};
    if (!job.servers) {
        die("usage: %s SERVERS [OPTION]   (orders on stdin: see bench/driver.h)", argv[0]);
    }
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "run %31s %d %" SCNd64 " %" SCNd64 " %255s", job.name, &job.contenders,
                   &job.ms, &job.hold_us, job.path) == 5) {
            if (has(driver, &job)) {
                contenders = open_all(driver, &job);
            } else {
                printf("skip no such job here: %s\n", job.name);
            }
        } else if (strcmp(line, "go\n") == 0 && contenders) {
            carry_out(driver, &job, contenders);
        } else if (strcmp(line, "close\n") == 0 && contenders) {
            close_all(driver, &job, contenders);
            contenders = NULL;
        } else {
            die("not an order: %s", line);
        }
        fflush(stdout);
    }
    return 0;
}
