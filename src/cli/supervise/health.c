#include "supervise/health.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "clock.h"
#include "supervise/process.h"

struct health health = {.every_ms = 10000, .fails = 3, .socket = -1, .state = HEALTH_GOOD};

/* --- the process that checks ----------------------------------------------------------------- */

struct checker {
    int socket, children;
    const sigset_t *mask; /* the signal mask of a check */
    bool alone;           /* zklock has ended */
};

static void become_check(const struct checker *checker)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* standard output is CMD's */
    sigprocmask(SIG_SETMASK, checker->mask, NULL);
    execl("/bin/sh", "sh", "-c", health.command, (char *)NULL);
    _exit(EXIT_CANNOT_EXECUTE);
}

/* Waits until the child or zklock has ended, or the time has come. */
static void wait_until(struct checker *checker, int64_t end_ms)
{
    struct pollfd fds[] = {{.fd = checker->socket, .events = POLLIN},
                           {.fd = checker->children, .events = POLLIN}};
    int64_t left_ms = end_ms - now_ms();
    poll(fds, 2, left_ms > 0 ? (int)left_ms : 0);
    checker->alone =
        checker->alone || fds[0].revents != 0; /* zklock sends nothing: this is its end */
    process_forget_children(checker->children);
}

static bool run_check(struct checker *checker, int64_t end_ms)
{
    int status = 0;
    pid_t ended = 0, pid = fork();
    if (pid == 0) {
        become_check(checker);
    }
    if (pid < 0) {
        return false;
    }
    setpgid(pid, pid);
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && !checker->alone && now_ms() < end_ms) {
        wait_until(checker, end_ms);
    }
    if (ended == 0) {
        kill(-pid, SIGKILL);
        waitpid(pid, &status, 0);
        return false;
    }
    return status == 0;
}

static void check_again_and_again(int socket, const sigset_t *before, void *payload)
{
    struct checker checker = {.socket = socket, .children = process_children(), .mask = before};
    int failed = 0;
    (void)payload;
    setpgid(0, 0); /* what is typed on the terminal is for CMD */
    process_close_standard_files();
    while (!checker.alone) {
        int64_t next_ms = now_ms() + health.every_ms;
        failed = run_check(&checker, next_ms) ? 0 : failed + (failed < health.fails);
        char state = failed == 0              ? HEALTH_GOOD
                     : failed == health.fails ? HEALTH_BAD
                                              : HEALTH_UNKNOWN;
        if (state != HEALTH_UNKNOWN) {
            /* A zklock that is stopped reads nothing; when it goes on, the next check's state is
             * there. */
            send(socket, &state, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        }
        while (!checker.alone && now_ms() < next_ms) {
            wait_until(&checker, next_ms);
        }
    }
    _exit(EXIT_SUCCESS);
}

/* --- zklock's side --------------------------------------------------------------------------- */

bool health_open(void)
{
    if (!health.command) {
        return true;
    }
    health.state = HEALTH_UNKNOWN;
    return process_start("zklock-health", &health.socket, check_again_and_again, NULL) > 0;
}

enum health_state health_update(void)
{
    char state;
    ssize_t size = -1;
    while (health.socket >= 0 && (size = recv(health.socket, &state, 1, MSG_DONTWAIT)) == 1) {
        health.state = (enum health_state)state;
    }
    if (health.socket >= 0 && size == 0) {
        health.state = HEALTH_UNWATCHED;
        health_close();
    }
    return health.state;
}

void health_close(void)
{
    if (health.socket >= 0) {
        close(health.socket);
        health.socket = -1;
    }
}
