#include "driver.h"

#include <pthread.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* That are printed, of one run: a lock that lingers is granted some hundred thousand times a
 * second, and bench.py reads a line for each. All of them are counted, by the second in which they
 * end. */
#define MOST_SECTIONS 100000
#define MOST_SECONDS 100 /* the last one has all later ones */
#define SECOND_NS INT64_C(1000000000)

static int64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * SECOND_NS + now.tv_nsec;
}

int64_t now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
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

void *allocate(int count, size_t size)
{
    void *memory = calloc((size_t)count, size);
    if (!memory) {
        die("no memory for %d x %zu bytes", count, size);
    }
    return memory;
}

void print_section(int contender, const struct section *s)
{
    printf("%d %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", contender, s->asked, s->granted,
           s->released, s->done);
}

void print_fact(const char *name, double value)
{
    printf("fact %s %.17g\n", name, value);
}

static pthread_barrier_t start;
static atomic_int sections_done; /* of all contenders */

struct turns {
    const struct job *job;
    void *contender;
    pthread_t thread;
    struct section *sections;
    int count;                  /* of the sections to be printed */
    long seconds[MOST_SECONDS]; /* grants that ended in each second of the job */
};

static void *take_turns(void *arg)
{
    struct turns *turns = arg;
    struct section section;
    pthread_barrier_wait(&start);
    int64_t begin = now_ns();
    do {
        section.asked = now_ns();
        while (!driver.acquire(turns->contender)) {
            pause_us(atoi(turns->job->option) * INT64_C(1000));
        }
        section.granted = now_ns();
        pause_us(turns->job->hold_us);
        section.released = now_ns();
        driver.release(turns->contender);
        section.done = now_ns();
        int64_t second = (section.done - begin) / SECOND_NS;
        turns->seconds[second < MOST_SECONDS ? second : MOST_SECONDS - 1]++;
        if (atomic_fetch_add(&sections_done, 1) < MOST_SECTIONS) {
            turns->sections[turns->count++] = section;
        }
    } while (section.done - begin < turns->job->ms * 1000000);
    return NULL;
}

static void contend(const struct job *job, void **contenders)
{
    struct turns *all = allocate(job->contenders, sizeof *all);
    long seconds[MOST_SECONDS] = {0};
    char name[32];
    int64_t cpu_before = read_clock(CLOCK_PROCESS_CPUTIME_ID);
    pthread_barrier_init(&start, NULL, (unsigned)job->contenders);
    atomic_store(&sections_done, 0);
    for (int i = 0; i < job->contenders; i++) {
        all[i] = (struct turns){.job = job, .contender = contenders[i]};
        all[i].sections = allocate(MOST_SECTIONS, sizeof *all[i].sections);
        if (pthread_create(&all[i].thread, NULL, take_turns, &all[i]) != 0) {
            die("no thread for contender %d", i);
        }
    }
    for (int i = 0; i < job->contenders; i++) {
        pthread_join(all[i].thread, NULL);
    }
    print_fact("client_cpu_ns", (double)(read_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu_before));
    for (int i = 0; i < job->contenders; i++) {
        long grants = 0;
        for (int k = 0; k < all[i].count; k++) {
            print_section(i, &all[i].sections[k]);
        }
        for (int second = 0; second < MOST_SECONDS; second++) {
            seconds[second] += all[i].seconds[second];
            grants += all[i].seconds[second];
        }
        snprintf(name, sizeof name, "grants_%d", i);
        print_fact(name, (double)grants);
        free(all[i].sections);
    }
    for (int second = 0; second < job->ms / 1000; second++) {
        snprintf(name, sizeof name, "second_%d", second);
        print_fact(name, (double)seconds[second]);
    }
    pthread_barrier_destroy(&start);
    free(all);
}

int main(int argc, char **argv)
{
    char line[512];
    void **contenders = NULL;
    const struct own_job *own = NULL;
    struct job job = {.servers = argc > 1 ? argv[1] : NULL, .option = argc > 2 ? argv[2] : NULL};
    if (!job.servers) {
        die("usage: %s SERVERS [OPTION]   (orders on stdin: see bench/driver.h)", argv[0]);
    }
    if (argc > 3 && driver.command) {
        return driver.command(argv);
    }
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "run %31s %d %" SCNd64 " %" SCNd64 " %255s", job.name, &job.contenders,
                   &job.ms, &job.hold_us, job.path) == 5) {
            for (own = driver.own; own && strcmp(own->name, job.name) != 0;) {
                own = own[1].name ? own + 1 : NULL;
            }
            contenders = allocate(job.contenders, sizeof *contenders);
            for (int i = 0; i < job.contenders && !(own && own->alone); i++) {
                contenders[i] = driver.open(&job, i);
            }
            printf("ready\n");
        } else if (strcmp(line, "go\n") == 0 && contenders) {
            if (own) {
                own->run(&job, contenders);
            } else {
                contend(&job, contenders);
            }
            printf("end\n");
        } else if (strcmp(line, "close\n") == 0 && contenders) {
            for (int i = 0; i < job.contenders && !(own && own->alone); i++) {
                driver.close(contenders[i]);
            }
            free(contenders);
            contenders = NULL;
            printf("closed\n");
        } else {
            die("not an order: %s", line);
        }
        fflush(stdout);
    }
    return 0;
}
