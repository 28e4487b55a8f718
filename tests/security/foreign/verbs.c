#include "verbs.h"

#include "names.h"

#include "recorder.h"
#include "wait.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SANITIZER 99
#define ARGUMENTS_MAX 12

/* PATH stands for the path. watch goes on until it is interrupted: it is once it has printed something. */
static const char *const calls[][ARGUMENTS_MAX] = {
    {"ls", "PATH"},
    {"--json", "ls", "PATH"},
    {"check", "PATH"},
    {"--json", "watch", "PATH"},
    {"revoke", "-w", "100ms", "PATH"},
    {"run", "-n", "PATH", "--", "true"},
    {"run", "-n", "-j", "0", "PATH", "--", "true"},
    {"release", "--force", "--yes", "PATH"},
};
enum { CALLS = sizeof calls / sizeof *calls };

/* Each has the directories in which the foreign znodes are. */
static const struct {
    const char *path, *dirs[3];
} scenes[] = {{"/locks/plain", {"/locks/plain"}},
              {"/locks/semaphore", {"/locks/semaphore/locks", "/locks/semaphore/leases", "/locks/semaphore"}},
              {"/locks/partition", {"/locks/partition/members", "/locks/partition/pieces"}}};
enum { SCENES = sizeof scenes / sizeof *scenes, RUNS = SCENES * CALLS + 1, AT_ONCE = 4 };

struct run {
    pid_t pid;
    const char *path; /* an error names it, or what is below it */
    FILE *output;
    const char *argv[ARGUMENTS_MAX + 8];
    bool watches;
};

static void make(struct recorder *stranger, const char *dir, const char *name, enum zkl__create_mode mode, size_t size)
{
    static const char data[1000000] = "x";
    const struct zkl__op op = {
        .kind = ZKL__OP_CREATE, .dir = dir, .name = name, .mode = mode, .data = data, .size = size};
    recorder_do(stranger, &op);
}

/* Every third of the names, owned and not by turns; now and then one with a megabyte. */
static void populate(struct recorder *stranger)
{
    size_t count;
    const struct foreign_name *names = foreign_names(&count);
    make(stranger, "/locks", NULL, ZKL__PERSISTENT, 0);
    for (int scene = 0; scene < SCENES; scene++) {
        make(stranger, scenes[scene].path, NULL, ZKL__PERSISTENT, 0);
        for (int dir = 0; dir < 3 && scenes[scene].dirs[dir]; dir++) {
            make(stranger, scenes[scene].dirs[dir], NULL, ZKL__PERSISTENT, 0);
            for (size_t i = (size_t)dir; i < count; i += 3) {
                make(stranger, scenes[scene].dirs[dir], names[i].text, i % 2 ? ZKL__EPHEMERAL : ZKL__PERSISTENT,
                     i % 200 == 199 ? 1000000 : i % 3);
            }
        }
    }
}

static void fill_in(struct run *run, int number, const char *servers, const char *zklock)
{
    const char *const doctor[ARGUMENTS_MAX] = {"doctor"};
    const char *const *call = number < RUNS - 1 ? calls[number % CALLS] : doctor;
    size_t count = 0;
    run->path = number < RUNS - 1 ? scenes[number / CALLS].path : "/locks";
    run->argv[count++] = zklock;
    run->argv[count++] = "-s";
    run->argv[count++] = servers;
    run->argv[count++] = "--tick";
    run->argv[count++] = "500ms";
    for (int i = 0; call[i]; i++) {
        run->argv[count++] = strcmp(call[i], "PATH") == 0 ? run->path : call[i];
        run->watches = run->watches || strcmp(call[i], "watch") == 0;
    }
}

static void start(struct run *run)
{
    static const char *const environment[] = {"LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin",
                                              "ASAN_OPTIONS=detect_leaks=0:handle_abort=1:exitcode=99",
                                              "UBSAN_OPTIONS=print_stacktrace=1:exitcode=99", NULL};
    run->output = tmpfile();
    run->pid = run->output ? fork() : -1;
    if (run->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(fileno(run->output), 1);
        dup2(fileno(run->output), 2);
        close(0);
        open("/dev/null", O_RDONLY);
        execve(run->argv[0], (char *const *)(uintptr_t)run->argv, (char *const *)(uintptr_t)environment);
        _exit(127);
    }
}

static bool has_printed(const struct run *run)
{
    struct stat stat;
    return fstat(fileno(run->output), &stat) == 0 && stat.st_size > 0;
}

static bool names_path(struct run *run)
{
    char line[1000];
    rewind(run->output);
    while (fgets(line, sizeof line, run->output)) {
        if (strstr(line, run->path)) {
            return true;
        }
    }
    return false;
}

static void print(struct run *run, const char *what, int number)
{
    char line[1000];
    printf("zklock");
    for (int i = 1; run->argv[i]; i++) {
        printf(" %s", run->argv[i]);
    }
    printf(": %s %d\n", what, number);
    rewind(run->output);
    while (fgets(line, sizeof line, run->output)) {
        printf("  | %s", line);
    }
}

/* 1: it was bad. */
static int judge(struct run *run, int status, bool late)
{
    const char *what = NULL;
    int number = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
    if (late || !WIFEXITED(status)) {
        what = late ? "does not end" : "signal";
    } else if (number == SANITIZER || (number != 0 && !names_path(run))) {
        what = number == SANITIZER ? "sanitizer" : "an error that names no znode, exit code";
    }
    if (what) {
        print(run, what, number);
    }
    fclose(run->output);
    return what != NULL;
}

static int finish(struct run *run)
{
    int status = 0;
    bool interrupted = false;
    int64_t end = now_ms() + SOON;
    pid_t pid;
    while ((pid = waitpid(run->pid, &status, WNOHANG)) == 0 && look_again(end)) {
        if (run->watches && !interrupted && has_printed(run)) {
            kill(run->pid, SIGINT);
            interrupted = true;
        }
    }
    bool late = pid == 0;
    if (late) {
        kill(run->pid, SIGKILL);
        waitpid(run->pid, &status, 0);
    }
    return judge(run, status, late);
}

int verbs(const char *servers, const char *zklock)
{
    struct recorder *stranger = recorder_connect(&zkl__store_zookeeper, servers);
    struct run runs[RUNS] = {0};
    int bad = 0;
    int64_t began = now_ms();
    populate(stranger);
    for (int i = 0; i < RUNS + AT_ONCE; i++) {
        if (i >= AT_ONCE) {
            bad += finish(&runs[i - AT_ONCE]);
        }
        if (i < RUNS) {
            fill_in(&runs[i], i, servers, zklock);
            start(&runs[i]);
        }
    }
    recorder_free(stranger);
    printf("%d runs of the command, %d bad, %lld ms\n", RUNS, bad, (long long)(now_ms() - began));
    return bad;
}
