#include "supervise/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

#define START_TRIES 3
#define START_MS 60000
#define PROBE_MS 10

static bool make_below(const char *parent, char *path, size_t size)
{
    int length = snprintf(path, size, "%s/zklock-sandbox-XXXXXX", parent);
    if (length < 0 || (size_t)length >= size) {
        errno = ENAMETOOLONG;
        return false;
    }
    return mkdtemp(path) != NULL;
}

/* A directory for us alone below $TMPDIR, else /dev/shm (memory), else /tmp. False, with errno. */
static bool make_folder(char *path, size_t size)
{
    const char *wanted = getenv("TMPDIR");
    if (wanted && *wanted) {
        return make_below(wanted, path, size);
    }
    return make_below("/dev/shm", path, size) || make_below("/tmp", path, size);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    remove(path);
    return 0;
}

/* With everything in it, as far as it can be removed. */
static void remove_folder(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* The guardian's own side. */
struct guard {
    struct pollfd wake[2]; /* the lifeline, children */
    struct ensemble ensemble;
    char folder[ENSEMBLE_PATH_MAX];
    int refused; /* errno, when the servers could not even be begun */
};

enum start { STARTED, ABANDONED, FAILED, SILENT };

/* Sleeps until the time, a child's end, or the end of `zklock sandbox`: false then. */
static bool sleep_on(struct guard *guard, int timeout_ms)
{
    struct signalfd_siginfo ignored;
    poll(guard->wake, 2, timeout_ms);
    while (read(guard->wake[1].fd, &ignored, sizeof ignored) > 0) {
    }
    return guard->wake[0].revents == 0;
}

static enum start wait_serving(struct guard *guard)
{
    int64_t deadline = clock_ms(CLOCK_MONOTONIC) + START_MS;
    while (!ensemble_serves(&guard->ensemble)) {
        if (ensemble_reap(&guard->ensemble) < guard->ensemble.spec->servers) {
            return FAILED;
        }
        if (clock_ms(CLOCK_MONOTONIC) > deadline) {
            return SILENT;
        }
        if (!sleep_on(guard, PROBE_MS)) {
            return ABANDONED;
        }
    }
    return STARTED;
}

/* A port may be taken between its choice and its use: then a server ends, and others are tried. The
 * last try writes a log, whose end goes into the message. */
static enum start start(struct guard *guard, const struct ensemble_spec *spec)
{
    enum start result = FAILED;
    for (int i = 1; i <= START_TRIES && result == FAILED; i++) {
        if (!ensemble_start(&guard->ensemble, spec, guard->folder, i == START_TRIES)) {
            guard->refused = errno;
            return FAILED;
        }
        result = wait_serving(guard);
        if (result == FAILED || result == SILENT) {
            ensemble_stop(&guard->ensemble);
        }
    }
    return result;
}

/* The last whole lines of the first server's log. */
static void read_log(const struct guard *guard, char *text, size_t size)
{
    char path[ENSEMBLE_PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/1/log", guard->folder);
    FILE *file = fopen(path, "re");
    size_t got = 0;
    if (file) {
        fseek(file, 0, SEEK_END);
        long length = ftell(file);
        fseek(file, length >= (long)size ? length - (long)size + 1 : 0, SEEK_SET);
        if (length >= (long)size) {
            while (!feof(file) && fgetc(file) != '\n') {
            }
        }
        got = fread(text, 1, size - 1, file);
        fclose(file);
    }
    got -= got > 0 && text[got - 1] == '\n';
    text[got] = '\0';
}

static void report_serving(const struct guard *guard, struct guardian_report *report)
{
    report->serving = true;
    size_t used = 0;
    for (int i = 0; i < guard->ensemble.spec->servers; i++) {
        const struct ensemble_server *server = &guard->ensemble.servers[i];
        report->pids[i] = server->pid;
        used += (size_t)snprintf(report->servers + used, sizeof report->servers - used,
                                 "%s127.0.0.1:%d", i ? "," : "", server->client_port);
    }
}

static void report_problem(const struct guard *guard, enum start started, char *problem,
                           size_t size)
{
    char words[768];
    if (started == SILENT) {
        snprintf(problem, size,
                 "the servers run, and do not serve within %d s; is it a setting of -C?",
                 START_MS / 1000);
        return;
    }
    if (guard->refused) {
        snprintf(problem, size, "no server can be started in %s: %s; TMPDIR says where",
                 guard->folder, strerror(guard->refused));
        return;
    }
    read_log(guard, words, sizeof words);
    snprintf(problem, size, "the server did not start (%d tries)%s%s", START_TRIES,
             *words ? "; it said:\n" : "", words);
}

static void report(const struct guard *guard, enum start started, int fd)
{
    struct guardian_report report = {.serving = false};
    memcpy(report.folder, guard->folder, sizeof report.folder);
    if (started == STARTED) {
        report_serving(guard, &report);
    } else {
        report_problem(guard, started, report.problem, sizeof report.problem);
    }
    _Static_assert(sizeof report <= 4096, "one write to a pipe is whole up to PIPE_BUF");
    if (write(fd, &report, sizeof report) < 0) {
        /* The other side is gone, which the lifeline tells too. */
    }
}

static void watch_over(struct guard *guard)
{
    do {
        ensemble_reap(&guard->ensemble);
        ensemble_respawn(&guard->ensemble);
    } while (sleep_on(guard, guard->ensemble.spec->respawn_ms >= 0 ? 20 : -1));
}

/* Nothing of the caller's may stay open here: a reader of its output must see the end when the
 * caller ends. */
static void keep_only(int *lifeline, int *reports)
{
    int null = open("/dev/null", O_RDWR);
    int first = fcntl(*lifeline, F_DUPFD, 16);
    int second = fcntl(*reports, F_DUPFD, 16);
    for (int fd = 0; fd <= 2; fd++) {
        dup2(null, fd);
    }
    *lifeline = dup2(first, 3);
    *reports = dup2(second, 4);
    fcntl(3, F_SETFD, FD_CLOEXEC);
    fcntl(4, F_SETFD, FD_CLOEXEC);
    /* glibc has a function for it from 2.34 on, musl has none. */
    syscall(SYS_close_range, 5, ~0U, 0);
}

static void guard_main(const struct ensemble_spec *spec, int lifeline, int reports)
{
    struct guard guard = {.folder = ""};
    sigset_t all;
    sigset_t children;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    setsid();
    prctl(PR_SET_NAME, "zklock-guard");
    keep_only(&lifeline, &reports);
    guard.wake[0] = (struct pollfd){.fd = lifeline, .events = POLLIN};
    guard.wake[1] = (struct pollfd){.fd = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK),
                                    .events = POLLIN};
    if (!make_folder(guard.folder, sizeof guard.folder)) {
        struct guardian_report refused = {.serving = false};
        snprintf(refused.problem, sizeof refused.problem, "no temporary directory: %s; set TMPDIR",
                 strerror(errno));
        _exit(write(reports, &refused, sizeof refused) < 0);
    }
    enum start started = start(&guard, spec);
    if (started != ABANDONED) {
        report(&guard, started, reports);
    }
    if (started == STARTED) {
        watch_over(&guard);
    }
    ensemble_stop(&guard.ensemble);
    remove_folder(guard.folder);
    _exit(EXIT_SUCCESS);
}

bool guardian_start(struct guardian *guardian, const struct ensemble_spec *spec)
{
    int lifeline[2];
    int reports[2];
    if (pipe2(lifeline, O_CLOEXEC) != 0) {
        return false;
    }
    if (pipe2(reports, O_CLOEXEC) != 0) {
        close(lifeline[0]);
        close(lifeline[1]);
        return false;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(lifeline[1]);
        close(reports[0]);
        guard_main(spec, lifeline[0], reports[1]);
    }
    close(lifeline[0]);
    close(reports[1]);
    *guardian = (struct guardian){.pid = pid, .lifeline = lifeline[1], .reports = reports[0]};
    return pid > 0;
}

void guardian_stop(struct guardian *guardian, const char *folder)
{
    int status = 0;
    close(guardian->lifeline);
    close(guardian->reports);
    waitpid(guardian->pid, &status, 0);
    if (WIFSIGNALED(status) && folder && *folder) {
        remove_folder(folder);
    }
}
