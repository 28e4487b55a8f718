/* main.c - the recipes in the simulator.
 *
 *   sim_recipes --seeds FROM COUNT
 *   sim_recipes --seed N [--trace]
 *   sim_recipes --plan FILE [--trace]
 *   sim_recipes --story FILE
 *   sim_recipes --shrink N */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "run.h"
#include "shrink.h"
#include "world.h"

static volatile uint64_t seed_now;

static void crashed(int number)
{
    char line[80];
    int length = snprintf(line, sizeof line, "seed %llu: crash: signal %d\n", (unsigned long long)seed_now, number);
    ssize_t written = write(STDOUT_FILENO, line, (size_t)length);
    _exit(written < 0 ? 3 : 1);
}

static int run_seeds(struct sim *s, uint64_t from, uint64_t count)
{
    static struct sim_plan plan;
    uint64_t hash = 0, steps = 0, grants = 0, completions = 0;
    for (uint64_t seed = from; seed < from + count; seed++) {
        seed_now = seed;
        sim_plan_roll(&plan, seed);
        if (!sim_run(s, &plan, seed, NULL)) {
            printf("seed %llu: %s\nsee it: sim_recipes --seed %llu --trace\n", (unsigned long long)seed,
                   s->judge.verdict, (unsigned long long)seed);
            return 1;
        }
        hash = (hash ^ s->hash) * 0x100000001b3u;
        steps += s->steps;
        grants += (uint64_t)s->judge.grants;
        completions += (uint64_t)s->judge.completions;
    }
    printf("%llu schedules, %llu steps, %llu grants, %llu completions\ntrace hash %016llx\n", (unsigned long long)count,
           (unsigned long long)steps, (unsigned long long)grants, (unsigned long long)completions,
           (unsigned long long)hash);
    return 0;
}

static bool read_plan(struct sim_plan *plan, uint64_t *seed, const char *what)
{
    if (what[strspn(what, "0123456789")] == '\0') {
        *seed = strtoull(what, NULL, 10);
        sim_plan_roll(plan, *seed);
        return true;
    }
    FILE *in = fopen(what, "r");
    int line = in ? sim_plan_read(plan, seed, in) : -1;
    if (in) {
        fclose(in);
    }
    return line == 0;
}

int main(int argc, char **argv)
{
    static struct sim_plan plan;
    const char *without = NULL;
    if (argc > 3 && strcmp(argv[1], "--without") == 0) {
        without = argv[2];
        argc -= 2;
        argv += 2;
    }
    if (argc < 3) {
        fprintf(stderr, "usage: sim_recipes --seeds FROM COUNT | --seed N | --plan FILE | --story FILE | "
                        "--shrink N [--trace]\n");
        return 2;
    }
    signal(SIGABRT, crashed);
    signal(SIGILL, crashed);
    signal(SIGTRAP, crashed);
    signal(SIGSEGV, crashed);
    struct sim *s = sim_new();
    s->shell = &actors_shell;
    s->without = without;
    if (strcmp(argv[1], "--seeds") == 0 && argc == 4) {
        return run_seeds(s, strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
    }
    uint64_t seed;
    if (!read_plan(&plan, &seed, argv[2])) {
        return 2;
    }
    seed_now = seed;
    bool trace = argc > 3;
    if (strcmp(argv[1], "--shrink") == 0 && sim_shrink(s, &plan, seed)) {
        sim_plan_write(&plan, seed, stdout);
        return 0;
    }
    s->story = strcmp(argv[1], "--story") == 0;
    bool fine = sim_run(s, &plan, seed, trace || s->story ? stdout : NULL);
    if (!s->story || !fine) {
        printf("%s: %s (%llu steps, hash %016llx)\n", argv[2], fine ? "nothing violated" : s->judge.verdict,
               (unsigned long long)s->steps, (unsigned long long)s->hash);
    }
    return fine ? 0 : 1;
}
