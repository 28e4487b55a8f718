/* main.c - the simulator as a program.
 *
 *   sim [--without INVARIANT] ..., of which no violation counts
 *   sim --seeds FROM COUNT     runs seeds FROM .. FROM + COUNT - 1, and says how many of what happened
 *   sim --seed N [--trace]     one seed; its story
 *   sim --plan FILE [--trace]  a plan kept as text
 *   sim --story FILE           its trace, shortened, for people and golden files
 *   sim --print N              the plan of a seed, as text
 *   sim --explore SERVERS CLIENTS ACQUIRES FAULTS [histories | lists | lingers | walks | semaphores [whole] | groups | watched]   every order of events, to the end;
 *       histories: again, to check the digests; lists: no release is announced; lingers: locks do, 100 ms;
 *       walks: the leader takes its time to expire a session
 *   sim --shrink N | FILE      a failing seed's or file's plan, with every line taken out that it does not need
 *
 * Exit code 0: nothing was violated. 1: something was; the line says seed, verdict and how to see it again. 2: usage. */
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "explore.h"
#include "run.h"
#include "shrink.h"

static volatile uint64_t seed_now;

/* A core that stops itself (a broken promise it noticed) or crashes: which seed it was. */
static void crashed(int signal_number)
{
    char line[80];
    int length =
        snprintf(line, sizeof line, "seed %llu: crash: signal %d\n", (unsigned long long)seed_now, signal_number);
    ssize_t written = write(STDOUT_FILENO, line, (size_t)length);
    _exit(written < 0 ? 3 : 1);
}

struct totals {
    uint64_t runs, steps, hash, grants, completions, losses, leases, events, off_lease;
    int64_t virtual_ns;
};

static void add(struct totals *t, const struct sim *s)
{
    t->runs++;
    t->steps += s->steps;
    t->hash = (t->hash ^ s->hash) * 0x100000001b3u;
    t->grants += (uint64_t)s->judge.grants;
    t->completions += (uint64_t)s->judge.completions;
    t->losses += (uint64_t)s->judge.losses;
    t->leases += (uint64_t)s->judge.leases_checked;
    t->events += (uint64_t)s->judge.events_told;
    t->off_lease += (uint64_t)s->judge.off_lease;
    t->virtual_ns += sim_now(s);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void report(const struct totals *t, double took)
{
    printf("%llu schedules, %llu steps, %llu grants, %llu completions, %llu losses, %llu leases checked, %llu watch "
           "events, "
           "%.1f days of virtual time\n",
           (unsigned long long)t->runs, (unsigned long long)t->steps, (unsigned long long)t->grants,
           (unsigned long long)t->completions, (unsigned long long)t->losses, (unsigned long long)t->leases,
           (unsigned long long)t->events, (double)t->virtual_ns / 86400e9);
    printf("%llu would-be violations with an assumption of the lease broken\n", (unsigned long long)t->off_lease);
    printf("trace hash %016llx\n", (unsigned long long)t->hash);
    fprintf(stderr, "%.1f s, %.0f schedules a second\n", took, (double)t->runs / took);
}

static int run_seeds(struct sim *s, uint64_t from, uint64_t count)
{
    static struct sim_plan plan;
    struct totals totals = {0};
    double began = seconds();
    for (uint64_t seed = from; seed < from + count; seed++) {
        seed_now = seed;
        sim_plan_roll(&plan, seed);
        sim_plan_roll_semaphores(&plan, seed);
        sim_plan_roll_groups(&plan, seed);
        if (!sim_run(s, &plan, seed, NULL)) {
            printf("seed %llu: %s\nsee it: sim --seed %llu --trace\nshrink it: sim --shrink %llu\n",
                   (unsigned long long)seed, s->judge.verdict, (unsigned long long)seed, (unsigned long long)seed);
            return 1;
        }
        add(&totals, s);
    }
    report(&totals, seconds() - began);
    return 0;
}

static bool read_plan(struct sim_plan *plan, uint64_t *seed, const char *what)
{
    if (what[strspn(what, "0123456789")] == '\0') {
        *seed = strtoull(what, NULL, 10);
        sim_plan_roll(plan, *seed);
        sim_plan_roll_semaphores(plan, *seed);
        sim_plan_roll_groups(plan, *seed);
        return true;
    }
    FILE *in = fopen(what, "r");
    if (!in) {
        perror(what);
        return false;
    }
    int line = sim_plan_read(plan, seed, in);
    fclose(in);
    if (line) {
        fprintf(stderr, "%s:%d: not a line of a plan\n", what, line);
    }
    return line == 0;
}

static int run_one(struct sim *s, const char *what, bool trace)
{
    static struct sim_plan plan;
    uint64_t seed;
    if (!read_plan(&plan, &seed, what)) {
        return 2;
    }
    bool fine = sim_run(s, &plan, seed, trace ? stdout : NULL);
    if (!s->story || !fine) {
        printf("%s: %s (%llu steps, hash %016llx)\n", what, fine ? "nothing violated" : s->judge.verdict,
               (unsigned long long)s->steps, (unsigned long long)s->hash);
    }
    return fine ? 0 : 1;
}

static int print_plan(const char *what)
{
    static struct sim_plan plan;
    uint64_t seed;
    if (!read_plan(&plan, &seed, what)) {
        return 2;
    }
    sim_plan_write(&plan, seed, stdout);
    return 0;
}

static int shrink(struct sim *s, const char *what)
{
    static struct sim_plan plan;
    uint64_t seed;
    if (!read_plan(&plan, &seed, what)) {
        return 2;
    }
    if (!sim_shrink(s, &plan, seed)) {
        fprintf(stderr, "%s violates nothing\n", what);
        return 2;
    }
    sim_run(s, &plan, seed, NULL);
    printf("# %s\n", s->judge.verdict);
    sim_plan_write(&plan, seed, stdout);
    return 0;
}

static void report_scope(const struct sim *s, const struct sim_scope *scope, const struct sim_explored *found)
{
    printf("%d servers, %d clients, %d acquires each, %d faults: %llu worlds, %llu runs, %llu steps, %d choices deep: "
           "%s\n",
           scope->servers, scope->clients, scope->acquires, scope->faults, (unsigned long long)found->worlds,
           (unsigned long long)found->runs, (unsigned long long)found->steps, found->depth,
           s->judge.failed ? s->judge.verdict
           : found->closed ? "closed, nothing violated"
                           : "not closed: no memory");
}

static int explore(struct sim *s, char **argv, const char *word)
{
    bool histories = strstr(word, "histories"), lingers = strstr(word, "lingers");
    struct sim_scope scope = {atoi(argv[2]), atoi(argv[3]), atoi(argv[4]), atoi(argv[5]),
                              .seals = strcmp(word, "lists") != 0};
    struct sim_explored found, by_history;
    double began = seconds();
    scope.lingers = lingers;
    scope.walks = strstr(word, "walks");
    scope.semaphores = strstr(word, "semaphores");
    scope.whole = strstr(word, "whole");
    scope.watchers = strstr(word, "watched") ? 2 : strstr(word, "groups") ? 1 : 0;
    sim_explore(s, &scope, stdout, &found);
    report_scope(s, &scope, &found);
    bool fine = found.closed;
    if (fine && histories) {
        scope.by_history = true;
        sim_explore(s, &scope, stdout, &by_history);
        report_scope(s, &scope, &by_history);
        fine = by_history.closed && by_history.digests == found.worlds;
        printf("by their digests these are %llu: %s\n", (unsigned long long)by_history.digests,
               fine ? "the same" : "the digest lacks something");
    }
    fprintf(stderr, "%.1f s\n", seconds() - began);
    return fine ? 0 : 1;
}

static int usage(void)
{
    fprintf(stderr, "usage: sim --seeds FROM COUNT | --seed N [--trace] | --plan FILE [--trace] | --story FILE | "
                    "--print N | --shrink N | --explore S C A F [histories | lists | lingers | walks | "
                    "semaphores [whole] | groups | watched]\n");
    return 2;
}

int main(int argc, char **argv)
{
    const char *without = NULL;
    if (argc > 3 && strcmp(argv[1], "--without") == 0) {
        without = argv[2];
        argc -= 2;
        argv += 2;
    }
    if (argc < 3) {
        return usage();
    }
    signal(SIGILL, crashed);
    signal(SIGTRAP, crashed);
    signal(SIGABRT, crashed);
    signal(SIGSEGV, crashed);
    struct sim *s = sim_new();
    s->without = without;
    int code = 2;
    bool trace = argc > 3 && strcmp(argv[3], "--trace") == 0;
    if (strcmp(argv[1], "--seeds") == 0 && argc == 4) {
        code = run_seeds(s, strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
    } else if (strcmp(argv[1], "--seed") == 0 || strcmp(argv[1], "--plan") == 0) {
        code = run_one(s, argv[2], trace);
    } else if (strcmp(argv[1], "--story") == 0) {
        s->story = true;
        code = run_one(s, argv[2], true);
    } else if (strcmp(argv[1], "--print") == 0) {
        code = print_plan(argv[2]);
    } else if (strcmp(argv[1], "--explore") == 0 && (argc == 6 || argc == 7)) {
        code = explore(s, argv, argc == 7 ? argv[6] : "");
    } else if (strcmp(argv[1], "--shrink") == 0) {
        code = shrink(s, argv[2]);
    } else {
        code = usage();
    }
    sim_free(s);
    return code;
}
