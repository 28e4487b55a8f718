/* mutate.c - programs that use the library or the command through a server that lies.
 *
 *   mutate [--seed N] [--runs N] [--jobs N] DRIVERS COMMAND [PROGRAM...]
 *
 * Each run has a seed: the same seed tells the same lies about the same replies. How many replies there
 * are is a matter of time. Without PROGRAM, all of them run.
 *
 * First, one run of each program without lies shows what it needs. A run with lies is good when
 * the program ends by itself, in time, with a code that it may end with, without a report of the
 * sanitizers, and with at most 64 MB above the quiet run. Two holders are good only after a lie about
 * what decides that. A lie that the client library does not survive (SECURITY.md) excuses a crash; a
 * crash in the client library after another lie is reported. */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contest.h"
#include "dice.h"
#include "ensemble.h"
#include "relay.h"

#define JOBS_MAX 64
#define DEADLINE_MS 60000 /* the slowest program's own deadlines add up to 20 s */
#define MEMORY_KB (64 * 1024)
#define OUTPUT_MAX 200000

static const char *const programs[] = {"lock",    "rwlock", "semaphore", "multilock", "election", "group", "partition",
                                       "barrier", "once",   "queue",     "run",       "ls",       "doctor"};
enum { PROGRAMS = sizeof programs / sizeof *programs, LIBRARY_PROGRAMS = 10 };

struct run {
    int program;
    uint64_t seed;
    bool quiet;
    pid_t pid; /* 0: none */
    FILE *output;
    struct relay relay;
    int64_t began_ms, end_ms;
    bool late;
};

static struct {
    struct ensemble *server;
    const char *drivers, *command;
    int64_t base_kb[PROGRAMS];
    int done[PROGRAMS], grants[PROGRAMS], bad, client_library, two_holders;
    int64_t most_kb[PROGRAMS], most_requests[PROGRAMS], most_ms[PROGRAMS];
    int told[LIES];
} all;

/* --- one run --------------------------------------------------------------------------------------------------------- */

static void become_program(const struct run *run)
{
    static const char *const environment[] = {
        "LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin",
        "ASAN_OPTIONS=detect_leaks=0:handle_abort=1:handle_sigill=1:quarantine_size_mb=4:allocator_may_return_null=1:"
        "max_allocation_size_mb=512:exitcode=99",
        "UBSAN_OPTIONS=print_stacktrace=1:exitcode=99", NULL};
    char liar[32], path[64];
    snprintf(liar, sizeof liar, "127.0.0.1:%d", run->relay.port);
    /* Not with ten digits at the end: that is the name of a contender, and no lock's. */
    snprintf(path, sizeof path, "/mutate/%llu-%s", (unsigned long long)run->seed, programs[run->program]);
    const char *library[] = {all.drivers, programs[run->program], liar, ensemble_servers(all.server), path, NULL};
    const char *job[] = {
        all.command, "-s",   liar, "--session-timeout", "2s", "--tick", "100ms", "run", "-w", "700ms", path,
        "--",        "true", NULL};
    const char *other[] = {
        all.command, "-s", liar, "--session-timeout", "2s", "--tick", "100ms", programs[run->program], NULL};
    const char *const *argv = run->program < LIBRARY_PROGRAMS              ? library
                              : strcmp(programs[run->program], "run") == 0 ? job
                                                                           : other;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    dup2(fileno(run->output), 1);
    dup2(fileno(run->output), 2);
    close(0);
    open("/dev/null", O_RDONLY);
    syscall(SYS_close_range, 3, ~0U, 0);
    execve(argv[0], (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)environment);
    _exit(127);
}

static bool run_start(struct run *run, int program, uint64_t seed, bool quiet)
{
    *run = (struct run){.program = program, .seed = seed, .quiet = quiet, .output = tmpfile()};
    if (!run->output || !relay_open(&run->relay, ensemble_port(all.server, 0))) {
        return false;
    }
    fcntl(fileno(run->output), F_SETFL, O_APPEND);
    setvbuf(run->output, NULL, _IOLBF, 0);
    liar_begin(&run->relay.liar, dice_mix(seed * PROGRAMS + (uint64_t)program), run->output);
    if (quiet) {
        run->relay.liar.one_in = 0;
    }
    run->began_ms = now_ms();
    run->end_ms = run->began_ms + DEADLINE_MS;
    run->pid = fork();
    if (run->pid == 0) {
        become_program(run);
    }
    return run->pid > 0;
}

/* To be freed. */
static char *output_of(struct run *run)
{
    char *text = calloc(1, OUTPUT_MAX + 1);
    fflush(run->output);
    (void)!pread(fileno(run->output), text, OUTPUT_MAX, 0);
    return text;
}

/* The first place of the report's stack that is neither the C library's nor the sanitizer's. */
static bool crashed_in_client_library(const char *output)
{
    if (strstr(output, "zookeeper.c:") && strstr(output, "Assertion `")) {
        return true;
    }
    for (const char *at = output; (at = strstr(at, "\n    #")); at++) {
        const char *end = strchr(at + 1, '\n');
        char line[512];
        snprintf(line, sizeof line, "%.*s", end ? (int)(end - at) : 500, at + 1);
        if (strstr(line, "libzookeeper_mt")) {
            return true;
        }
        if (strstr(line, "/src/") || strstr(line, "/recipes/") || strstr(line, "/tests/")) {
            if (!strstr(line, "sanitizer") && !strstr(line, "asan") && !strstr(line, "csu")) {
                return false;
            }
        }
    }
    return false;
}

static bool has_report(const char *output)
{
    return strstr(output, "ERROR: AddressSanitizer") || strstr(output, "runtime error:");
}

/* What is wrong with the run; NULL: nothing. */
static const char *verdict(const struct run *run, const char *output, int status, const struct rusage *usage)
{
    bool command = run->program >= LIBRARY_PROGRAMS;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    bool ended = code == 0 || (command && (code == 1 || (code >= 120 && code <= 125)));
    if (run->late) {
        return "did not end in time";
    }
    if (has_report(output) || !ended) {
        if (crashed_in_client_library(output) || run->relay.liar.excuse) {
            all.client_library++;
            return run->relay.liar.excuse ? NULL : "crashed in the client library, by a lie that is not known for it";
        }
        return "crashed";
    }
    if (!run->quiet && usage->ru_maxrss > all.base_kb[run->program] + MEMORY_KB) {
        return "used more memory than it may";
    }
    if (strstr(output, "two holders")) {
        all.two_holders++;
        return run->relay.liar.decisive ? NULL : "two held, and nobody had lied about what decides that";
    }
    return NULL;
}

static void note_most(int64_t *most, int64_t value)
{
    *most = value > *most ? value : *most;
}

static void run_end(struct run *run, int status, const struct rusage *usage)
{
    char *output = output_of(run);
    const char *wrong = verdict(run, output, status, usage);
    const char *line = strstr(output, " grants in ");
    while (line && line > output && line[-1] != '\n') {
        line--;
    }
    all.grants[run->program] += line ? atoi(line) : WIFEXITED(status) && WEXITSTATUS(status) == 0;
    all.done[run->program]++;
    note_most(&all.most_kb[run->program], usage->ru_maxrss);
    note_most(&all.most_requests[run->program], run->relay.requests);
    note_most(&all.most_ms[run->program], now_ms() - run->began_ms);
    if (run->quiet) {
        all.base_kb[run->program] = usage->ru_maxrss;
    }
    for (int i = 0; i < LIES; i++) {
        all.told[i] += run->relay.liar.told[i];
    }
    if (wrong) {
        printf("%s --seed %llu: %s (%s, %ld KB, status %d)\n%s\n", programs[run->program],
               (unsigned long long)run->seed, wrong, run->relay.liar.excuse ? run->relay.liar.excuse : "-",
               usage->ru_maxrss, status, output);
    }
    all.bad += wrong != NULL;
    free(output);
    kill(-run->pid, SIGKILL); /* what it left behind of its own */
    relay_close(&run->relay);
    fclose(run->output);
    run->pid = 0;
}

/* --- many ------------------------------------------------------------------------------------------------------------ */

static void look_at(struct run *run)
{
    int status;
    struct rusage usage;
    run->late = now_ms() >= run->end_ms;
    if (run->late) {
        kill(-run->pid, SIGKILL);
    }
    if (wait4(run->pid, &status, run->late ? 0 : WNOHANG, &usage) == run->pid) {
        run_end(run, status, &usage);
    }
}

static void turn(struct run *runs, int jobs)
{
    static struct pollfd fds[JOBS_MAX * RELAY_FDS];
    for (int i = 0; i < jobs; i++) {
        if (runs[i].pid) {
            relay_watch(&runs[i].relay, &fds[i * RELAY_FDS]);
        } else {
            for (int j = 0; j < RELAY_FDS; j++) {
                fds[i * RELAY_FDS + j] = (struct pollfd){.fd = -1};
            }
        }
    }
    poll(fds, (nfds_t)(jobs * RELAY_FDS), 5);
    for (int i = 0; i < jobs; i++) {
        if (runs[i].pid) {
            relay_step(&runs[i].relay, &fds[i * RELAY_FDS]);
            look_at(&runs[i]);
        }
    }
}

/* Runs count runs for each wanted program; with quiet, one. */
static void run_all(const bool *wanted, uint64_t seed, int count, int jobs, bool quiet)
{
    static struct run runs[JOBS_MAX];
    int64_t next = 0, running = 1;
    while (next < (int64_t)count * PROGRAMS || running > 0) {
        for (int i = 0; i < jobs; i++) {
            while (!runs[i].pid && next < (int64_t)count * PROGRAMS) {
                int program = (int)(next % PROGRAMS);
                uint64_t of_run = seed + (uint64_t)(next / PROGRAMS);
                next++;
                if (wanted[program] && !run_start(&runs[i], program, of_run, quiet)) {
                    fprintf(stderr, "mutate: no run could be started\n");
                    exit(2);
                }
            }
        }
        turn(runs, jobs);
        running = 0;
        for (int i = 0; i < jobs; i++) {
            running += runs[i].pid != 0;
        }
    }
}

/* What there is to see for the command: a holder, and a waiter behind it, for as long as mutate runs. */
static void hold_something(struct waiter *waiter)
{
    zkl_session *session = contest_session(ensemble_servers(all.server), 10000, 100);
    contest_holder(session, "/locks/held");
    waiter_queue(waiter, contest_lock(session, "/locks/held", NULL), ZKL_WAIT_FOREVER);
}

static int report(const bool *wanted, int count)
{
    for (int i = 0; i < PROGRAMS; i++) {
        if (wanted[i]) {
            printf("%-10s %d runs, %d grants, at most %lld KB above the quiet run, %lld requests, %.1f s\n",
                   programs[i], all.done[i], all.grants[i], (long long)(all.most_kb[i] - all.base_kb[i]),
                   (long long)all.most_requests[i], (double)all.most_ms[i] / 1000);
        }
    }
    for (int i = 1; i < LIES; i++) {
        printf("%s %d%s", lie_name((enum lie)i), all.told[i], i + 1 < LIES ? ", " : " lies\n");
    }
    printf("%d ended by the client library's own faults, %d with two holders after a lie that a client cannot see\n",
           all.client_library, all.two_holders);
    printf("%d of %d runs for each program were bad\n", all.bad, count);
    return all.bad ? 1 : 0;
}

/* A program that is granted nothing without lies shows nothing: on a machine that is too busy for its deadlines, it runs again. */
static bool run_quietly(const bool *wanted, uint64_t seed, int jobs)
{
    bool missing = true, again[PROGRAMS];
    memcpy(again, wanted, sizeof again);
    for (int tries = 0; missing && tries < 20 && all.bad == 0; tries++) {
        run_all(again, seed, 1, jobs, true);
        missing = false;
        for (int i = 0; i < PROGRAMS; i++) {
            again[i] = wanted[i] && all.grants[i] == 0;
            missing = missing || again[i];
        }
    }
    printf("requests without lies:");
    for (int i = 0; i < PROGRAMS; i++) {
        if (again[i]) {
            fprintf(stderr, "mutate: %s does nothing without lies\n", programs[i]);
        }
        printf(" %lld", (long long)all.most_requests[i]);
        all.done[i] = all.grants[i] = 0;
    }
    printf("\n");
    return !missing && all.bad == 0;
}

static int program_of(const char *name)
{
    for (int i = 0; i < PROGRAMS; i++) {
        if (strcmp(programs[i], name) == 0) {
            return i;
        }
    }
    fprintf(stderr, "mutate: no program %s\n", name);
    exit(2);
}

struct plan {
    uint64_t seed;
    int count, jobs;
    bool wanted[PROGRAMS];
};

static void take_arguments(struct plan *plan, int argc, char **argv)
{
    int at = 1;
    *plan = (struct plan){.seed = 1, .count = 1, .jobs = 24};
    for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
        if (strcmp(argv[at], "--seed") == 0) {
            plan->seed = strtoull(argv[at + 1], NULL, 10);
        } else if (strcmp(argv[at], "--runs") == 0) {
            plan->count = atoi(argv[at + 1]);
        } else if (strcmp(argv[at], "--jobs") == 0) {
            plan->jobs = atoi(argv[at + 1]) < JOBS_MAX ? atoi(argv[at + 1]) : JOBS_MAX;
        } else {
            break;
        }
    }
    if (argc - at < 2) {
        fprintf(stderr, "mutate [--seed N] [--runs N] [--jobs N] DRIVERS COMMAND [PROGRAM...]\n");
        exit(2);
    }
    all.drivers = argv[at++];
    all.command = argv[at++];
    for (int i = 0; i < PROGRAMS; i++) {
        plan->wanted[i] = at == argc;
    }
    for (int i = at; i < argc; i++) {
        plan->wanted[program_of(argv[i])] = true;
    }
}

int main(int argc, char **argv)
{
    static struct waiter waiter;
    struct plan plan;
    take_arguments(&plan, argc, argv);
    if (!ensemble_available()) {
        return 77;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    all.server = ensemble_start(&(struct ensemble_options){.tick_ms = 100});
    if (!all.server) {
        return 1;
    }
    hold_something(&waiter);
    bool work = run_quietly(plan.wanted, plan.seed, plan.jobs);
    if (work) {
        run_all(plan.wanted, plan.seed, plan.count, plan.jobs, false);
    }
    int code = report(plan.wanted, plan.count);
    ensemble_stop(all.server);
    return work ? code : 1;
}
