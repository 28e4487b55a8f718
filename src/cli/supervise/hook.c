#include "supervise/hook.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "supervise/execute.h"

#define NODE_MAX (ZKL_PATH_MAX + 64)

/* What zklock sends: the grant with "granted", the event alone afterwards. */
struct hook_event {
    char name[16];
    int64_t token;
    char node[NODE_MAX];
};

/* --- the process that runs the hooks --------------------------------------------------------- */

/* Standard output is CMD's: what a hook prints goes to standard error. */
static void become_program(const char *program, const struct hook_event *event,
                           const sigset_t *mask)
{
    const char *const argv[] = {program, NULL};
    char token[32];
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    snprintf(token, sizeof token, "%lld", (long long)event->token);
    setenv("ZKLOCK_EVENT", event->name, 1);
    setenv("ZKLOCK_NODE", event->node, 1);
    setenv("ZKLOCK_TOKEN", token, 1);
    sigprocmask(SIG_SETMASK, mask, NULL);
    int reason = execute(argv);
    cli_error("--hook %s: %s", program, strerror(reason));
    _exit(EXIT_CANNOT_EXECUTE);
}

static void run_program(const char *program, const struct hook_event *event, const sigset_t *mask)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        become_program(program, event, mask);
    }
    if (pid < 0) {
        cli_error("--hook %s: no process for %s: %s", program, event->name, strerror(errno));
        return;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (status != 0) {
        cli_error("--hook %s: %s %d at %s; what it prints stands here", program,
                  WIFSIGNALED(status) ? "killed by signal" : "exit code",
                  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), event->name);
    }
}

/* Ends when zklock has closed its side, or has died, and everything that was sent is done. */
static void run_all(const struct hook *hook, int socket, const char *path, const char *servers)
{
    struct hook_event event;
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    signal(SIGCHLD, SIG_DFL); /* were it ignored, no status would come */
    setpgid(0, 0);            /* what is typed on the terminal is for CMD */
    prctl(PR_SET_NAME, "zklock-hook");
    setenv("ZKLOCK_PATH", path, 1);
    setenv("ZKLOCK_SERVERS", servers, 1);
    while (recv(socket, &event, sizeof event, 0) == (ssize_t)sizeof event) {
        run_program(hook->program, &event, &before);
    }
    _exit(EXIT_SUCCESS);
}

/* --- zklock's side --------------------------------------------------------------------------- */

/* The first child ends at once, so that the second one is nobody's here: zklock kills and waits for
 * what is below it. */
static bool start(const struct hook *hook, int sockets[2], const char *path, const char *servers)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        close(sockets[0]);
        pid = fork();
        if (pid == 0) {
            run_all(hook, sockets[1], path, servers);
        }
        _exit(pid > 0 ? EXIT_SUCCESS : EXIT_FAILED);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

bool hook_open(struct hook *hook, const char *path, const char *servers)
{
    int sockets[2];
    hook->socket = -1;
    if (!hook->program) {
        return true;
    }
    int reason = execute_check(hook->program);
    if (reason != 0) {
        cli_error("--hook %s: %s; name a program that may be executed", hook->program,
                  strerror(reason));
        return false;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
        cli_error("--hook: %s", strerror(errno));
        return false;
    }
    bool started = start(hook, sockets, path, servers);
    close(sockets[1]);
    hook->socket = sockets[0];
    if (!started) {
        cli_error("--hook: no process can be started: %s", strerror(errno));
        hook_close(hook);
    }
    return started;
}

/* Never waits for a hook: an event that finds no room is dropped, and said. */
static void send_event(struct hook *hook, const char *name, const char *node, int64_t token)
{
    static struct hook_event event; /* node and token stay those of the grant */
    snprintf(event.name, sizeof event.name, "%s", name);
    if (node) {
        snprintf(event.node, sizeof event.node, "%s", node);
        event.token = token;
    }
    bool sent = send(hook->socket, &event, sizeof event, MSG_NOSIGNAL | MSG_DONTWAIT) ==
                (ssize_t)sizeof event;
    if (!sent && !hook->failed) {
        cli_error("--hook %s: %s is dropped: %s", hook->program, name,
                  errno == EAGAIN ? "too many events wait for a hook that has not ended; end that"
                  : errno == EPIPE
                      ? "the process that runs the hooks was killed; start zklock again"
                      : strerror(errno));
    }
    hook->failed = !sent;
}

void hook_granted(struct hook *hook, const char *node, int64_t token)
{
    if (hook->program) {
        hook->last = ZKL_STATE_HELD;
        send_event(hook, "granted", node, token);
    }
}

void hook_follow(struct hook *hook, zkl_state state)
{
    bool follows =
        hook->program && (hook->last == ZKL_STATE_HELD || hook->last == ZKL_STATE_JEOPARDY);
    if (!follows || state == hook->last) {
        return;
    }
    if (state == ZKL_STATE_JEOPARDY || state == ZKL_STATE_HELD || state == ZKL_STATE_LOST) {
        hook->last = state;
        send_event(hook,
                   state == ZKL_STATE_JEOPARDY ? "jeopardy"
                   : state == ZKL_STATE_HELD   ? "safe"
                                               : "lost",
                   NULL, 0);
    }
}

void hook_ended(struct hook *hook, bool lost)
{
    if (hook->program && (hook->last == ZKL_STATE_HELD || hook->last == ZKL_STATE_JEOPARDY)) {
        send_event(hook, lost ? "lost" : "released", NULL, 0);
    }
    hook->last = ZKL_STATE_IDLE;
}

void hook_close(struct hook *hook)
{
    if (hook->program && hook->socket >= 0) {
        close(hook->socket);
        hook->socket = -1;
    }
}
