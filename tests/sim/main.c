/* main.c - both simulators as programs: `sim`, and with shell/ `sim_recipes`.
 *
 *   sim [--without INVARIANT] ..., of which no violation counts
 *   sim --seeds FROM COUNT     runs seeds FROM .. FROM + COUNT - 1, and says how many of what happened
 *   sim --seed N [--trace]     one seed; its story
 *   sim --plan FILE [--trace]  a plan kept as text. ./shrink makes one that fails small
 *   sim --story FILE           its trace, shortened, for people and golden files
 *   sim --print N              the plan of a seed, as text
 *   sim --explore SERVERS CLIENTS ACQUIRES FAULTS [WORDS]   every order of events, to the end (not of sim_recipes).
 *       WORDS: explore.c
 *
 * Exit code 0: nothing was violated. 1: something was; the line says seed, verdict and how to see it again. 2: usage. */
#include <signal.h>
#include <unistd.h>

#include "run.h"

extern const struct sim_shell actors_shell __attribute__((weak));

static volatile uint64_t seed_now;
static struct sim_plan plan; /* what it runs */

/* A core that stops itself (a broken promise it noticed) or crashes: which seed it was. */
static void crashed(int signal_number)
{
    char line[80];
    int length = snprintf(line, sizeof line, "seed %" PRIu64 ": crash: signal %d\n", seed_now, signal_number);
    ssize_t written = write(STDOUT_FILENO, line, length);
    _exit(written < 0 ? 3 : 1);
}

static int run_seeds(struct sim *s, uint64_t from, uint64_t count)
{
    uint64_t hash = 0, steps = 0, grants = 0, completions = 0, losses = 0, off_lease = 0;
    for (uint64_t seed = from; seed < from + count; seed++) {
        seed_now = seed;
        sim_plan_roll(&plan, seed, s->shell);
        if (!sim_run(s, &plan, seed, NULL)) {
            printf("seed %" PRIu64 ": %s\nsee it: --seed %" PRIu64 " --trace\nmake it small: tests/sim/shrink\n", seed,
                   s->judge.verdict, seed);
            return 1;
        }
        hash = (hash ^ s->hash) * 0x100000001b3u;
        steps += s->steps;
        grants += s->judge.grants;
        completions += s->judge.completions;
        losses += s->judge.losses;
        off_lease += s->judge.off_lease;
    }
    printf("%" PRIu64 " schedules, %" PRIu64 " steps, %" PRIu64 " grants, %" PRIu64 " completions, %" PRIu64
           " losses, %" PRIu64 " would-be violations with an assumption of the lease broken\ntrace hash %016" PRIx64
           "\n",
           count, steps, grants, completions, losses, off_lease, hash);
    return 0;
}

/* Of a seed, or of a file. */
static bool read_plan(const struct sim *s, const char *what)
{
    uint64_t seed = strtoull(what, NULL, 10);
    if (what[strspn(what, "0123456789")] == '\0') {
        sim_plan_roll(&plan, seed, s->shell);
        seed_now = seed;
        return true;
    }
    FILE *in = fopen(what, "r");
    if (!in) {
        perror(what);
        return false;
    }
    int line = sim_plan_read(&plan, &seed, in);
    fclose(in);
    seed_now = seed;
    if (line) {
        fprintf(stderr, "%s:%d: not a line of a plan\n", what, line);
    }
    return line == 0;
}

static int run_one(struct sim *s, const char *what, bool trace)
{
    bool fine = sim_run(s, &plan, seed_now, trace ? stdout : NULL);
    if (!s->story || !fine) {
        printf("%s: %s (%" PRIu64 " steps, hash %016" PRIx64 ")\n", what, fine ? "nothing violated" : s->judge.verdict,
               s->steps, s->hash);
    }
    return fine ? 0 : 1;
}

static int usage(void)
{
    fprintf(stderr,
            "usage: sim [--without INVARIANT] --seeds FROM COUNT | --seed N [--trace] | --plan FILE [--trace] | "
            "--story FILE | --print N | --explore S C A F [WORDS]\n");
    return 2;
}

int main(int argc, char **argv)
{
    struct sim *s = sim_new();
    s->shell = &actors_shell;
    if (argc > 3 && strcmp(argv[1], "--without") == 0) {
        s->without = argv[2];
        argc -= 2;
        argv += 2;
    }
    signal(SIGILL, crashed);
    signal(SIGTRAP, crashed);
    signal(SIGABRT, crashed);
    signal(SIGSEGV, crashed);
    const char *command = argc < 3 ? "" : argv[1];
    s->story = strcmp(command, "--story") == 0;
    int code;
    if (strcmp(command, "--seeds") == 0 && argc == 4) {
        code = run_seeds(s, strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
    } else if (strcmp(command, "--seed") == 0 || strcmp(command, "--plan") == 0 || s->story) {
        code = read_plan(s, argv[2]) ? run_one(s, argv[2], argc > 3 || s->story) : 2;
    } else if (strcmp(command, "--print") == 0 && read_plan(s, argv[2])) {
        sim_plan_write(&plan, seed_now, stdout);
        code = 0;
    } else if (strcmp(command, "--explore") == 0 && argc >= 6 && !s->shell) {
        code = sim_explore(s, argv + 2, argc == 7 ? argv[6] : "");
    } else {
        code = usage();
    }
    sim_free(s);
    return code;
}
