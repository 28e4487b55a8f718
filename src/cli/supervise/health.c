#include "supervise/health.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "cli.h"

/* The side of the process that checks. */
struct checker {
    const struct health *health;
    int socket, children;
    sigset_t mask; /* the signal mask of a check */
    bool alone;    /* zklock is gone */
};

static void become_check(const struct checker *checker)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(null, STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* standard output is CMD's */
    sigprocmask(SIG_SETMASK, &checker->mask, NULL);
    execl("/bin/sh", "sh", "-c", checker->health->command, (char *)NULL);
    _exit(EXIT_CANNOT_EXECUTE);
}

/* Waits until the child has ended, zklock is gone or the time has come. */
static void wait_until(struct checker *checker, int64_t end_ms)
{
    struct pollfd fds[] = {{.fd = checker->socket, .events = POLLIN},
                           {.fd = checker->children, .events = POLLIN}};
    struct signalfd_siginfo info;
    int64_t left_ms = end_ms - clock_ms(CLOCK_MONOTONIC);
    poll(fds, 2, left_ms > 0 ? (int)left_ms : 0);
    checker->alone =
        checker->alone || fds[0].revents != 0; /* zklock sends nothing: this is its end */
    if (fds[1].revents) {
        (void)!read(checker->children, &info, sizeof info);
    }
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
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && !checker->alone &&
           clock_ms(CLOCK_MONOTONIC) < end_ms) {
        wait_until(checker, end_ms);
    }
    if (ended == 0) {
        kill(-pid, SIGKILL);
        waitpid(pid, &status, 0);
        return false;
    }
    return status == 0;
}

static void check_again_and_again(struct checker *checker)
{
    int failed = 0;
    while (!checker->alone) {
        int64_t next_ms = clock_ms(CLOCK_MONOTONIC) + checker->health->every_ms;
        failed = run_check(checker, next_ms) ? 0 : failed + 1;
        failed = failed > checker->health->fails ? checker->health->fails : failed;
        char state = failed == 0                        ? HEALTH_GOOD
                     : failed == checker->health->fails ? HEALTH_BAD
                                                        : HEALTH_UNKNOWN;
        if (state != HEALTH_UNKNOWN) {
            /* A zklock that is stopped reads nothing; when it goes on, the next check's state is
             * there. */
            send(checker->socket, &state, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        }
        while (!checker->alone && clock_ms(CLOCK_MONOTONIC) < next_ms) {
            wait_until(checker, next_ms);
        }
    }
    _exit(EXIT_SUCCESS);
}

static void checker_main(struct checker *checker)
{
    sigset_t all, child;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &checker->mask);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    signal(SIGCHLD, SIG_DFL); /* were it ignored, no status would come */
    setpgid(0, 0);            /* what is typed on the terminal is for CMD */
    prctl(PR_SET_NAME, "zklock-health");
    checker->children = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    check_again_and_again(checker);
}

bool health_open(struct health *health)
{
    int sockets[2];
    health->socket = -1;
    health->state = health->command ? HEALTH_UNKNOWN : HEALTH_GOOD;
    if (!health->command) {
        return true;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
        return false;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(sockets[0]);
        checker_main(&(struct checker){.health = health, .socket = sockets[1]});
    }
    close(sockets[1]);
    health->socket = sockets[0];
    return pid > 0;
}

enum health_state health_look(struct health *health)
{
    char state;
    ssize_t size = -1;
    while (health->socket >= 0 && (size = recv(health->socket, &state, 1, MSG_DONTWAIT)) == 1) {
        health->state = (enum health_state)state;
    }
    if (health->socket >= 0 && size == 0) {
        health->state = HEALTH_UNWATCHED;
        close(health->socket);
        health->socket = -1;
    }
    return health->state;
}

void health_close(struct health *health)
{
    if (health->socket >= 0) {
        close(health->socket);
        health->socket = -1;
    }
}
