/* helpers.c - the processes that run what the user gave: elect --health, and --hook. */

#include "supervise/supervise.h"

/* --- --health --------------------------------------------------------------------------------- */

struct health health = {.socket = -1, .state = HEALTH_GOOD};

/* --- the process that checks ----------------------------------------------------------------- */

static bool alone; /* zklock has ended */

/* What checks leave behind becomes ours, and is waited for: zklock waits for no child. */
static void reap(void)
{
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

/* Waits until the child or zklock has ended, or the time has come. */
static void wait_until(int64_t end_ms)
{
    int64_t left_ms = end_ms - now_ms();
    alone = !process_sleep(left_ms > 0 ? (int)left_ms : 0);
}

/* A check may have become another user's process, which refuses to be killed, or wait in the kernel
 * for a disk that does not respond. Nobody waits for that one any longer than for any other, and
 * there is no second one beside it. */
static bool run_check(int64_t end_ms)
{
    static pid_t unkilled; /* its group; 0: nobody */
    int status = 0;
    while (unkilled > 0 && (kill(-unkilled, 0) == 0 || errno == EPERM)) {
        if (alone || now_ms() >= end_ms) {
            return false;
        }
        wait_until(end_ms);
        reap();
    }
    pid_t ended = 0, pid = fork();
    unkilled = 0;
    if (pid == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(STDERR_FILENO, STDOUT_FILENO); /* standard output is CMD's */
        sigprocmask(SIG_SETMASK, &process_mask, NULL);
        execl("/bin/sh", "sh", "-c", health.command, (char *)NULL);
        _exit(EXIT_CANNOT_EXECUTE);
    }
    if (pid < 0) {
        return false;
    }
    setpgid(pid, pid);
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && !alone && now_ms() < end_ms) {
        wait_until(end_ms);
    }
    if (ended == 0) {
        kill(-pid, SIGKILL);
        unkilled = pid;
        return false;
    }
    return status == 0;
}

static void check_again_and_again(void)
{
    int failed = 0;
    process_open_children();
    setpgid(0, 0); /* what is typed on the terminal is for CMD */
    process_close_standard_files();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    while (!alone) {
        reap();
        int64_t next_ms = now_ms() + health.every_ms;
        failed = run_check(next_ms) ? 0 : failed + (failed < health.fails);
        char state = failed == 0              ? HEALTH_GOOD
                     : failed == health.fails ? HEALTH_BAD
                                              : HEALTH_UNKNOWN;
        if (state != HEALTH_UNKNOWN) {
            /* A zklock that is stopped reads nothing; when it goes on, the next check's state is
             * there. */
            send(process_socket, &state, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        }
        while (!alone && now_ms() < next_ms) {
            wait_until(next_ms);
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
    return process_start("zklock-health", &health.socket, check_again_and_again) > 0;
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

/* --- --hook ----------------------------------------------------------------------------------- */

#define NODE_MAX (ZKL_PATH_MAX + 64)

/* What zklock sends: the grant with "granted", the event alone afterwards. */
struct hook_event {
    char name[16];
    int64_t token;
    char node[NODE_MAX];
};

const char *hook_program;
static int to_process;            /* its end is ours */
static struct hook_event current; /* node and token are those of the grant */
static zkl_state last_state;      /* the one that was last reported */
static bool dropped;              /* an event could not be sent, which was said */

/* --- the process that runs the hooks --------------------------------------------------------- */

static void run_program(const struct hook_event *event)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        const char *const argv[] = {hook_program, NULL};
        dup2(STDERR_FILENO, STDOUT_FILENO); /* standard output is CMD's */
        setenv("ZKLOCK_EVENT", event->name, 1);
        process_set_grant(event->node, event->token);
        sigprocmask(SIG_SETMASK, &process_mask, NULL);
        int reason = execute(argv);
        cli_error("--hook %s: %s", hook_program, strerror(reason));
        _exit(EXIT_CANNOT_EXECUTE);
    }
    if (pid < 0) {
        cli_error("--hook %s: no process for %s: %s", hook_program, event->name, strerror(errno));
        return;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (status != 0) {
        cli_error("--hook %s: %s %d at %s; what it prints stands here", hook_program,
                  WIFSIGNALED(status) ? "killed by signal" : "exit code",
                  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), event->name);
    }
}

/* The first process ends immediately, so that the second one is not our child: zklock kills and
 * waits for what is below it. That one ends when zklock has closed its side, or has died, and
 * everything that was sent is done. */
static void run_all(void)
{
    struct hook_event event;
    pid_t pid = fork();
    if (pid < 0) {
        cli_error("--hook: no process can be started: %s", strerror(errno));
    }
    if (pid != 0) {
        _exit(pid < 0);
    }
    health_close(); /* its process must see the end of zklock, not ours */
    process_close_standard_files();
    setpgid(0, 0); /* what is typed on the terminal is for CMD */
    process_set_lock();
    while (recv(process_socket, &event, sizeof event, 0) == (ssize_t)sizeof event) {
        run_program(&event);
    }
    _exit(EXIT_SUCCESS);
}

/* --- zklock's side --------------------------------------------------------------------------- */

bool hook_open(void)
{
    int status = 0;
    if (!hook_program) {
        return true;
    }
    int reason = execute_check(hook_program);
    if (reason != 0) {
        cli_error("--hook %s: %s; name a program that may be executed", hook_program,
                  strerror(reason));
        return false;
    }
    pid_t pid = process_start("zklock-hook", &to_process, run_all);
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* Never waits for a hook: an event that finds no room is dropped, and said. */
static void send_event(const char *name)
{
    snprintf(current.name, sizeof current.name, "%s", name);
    bool sent = send(to_process, &current, sizeof current, MSG_NOSIGNAL | MSG_DONTWAIT) ==
                (ssize_t)sizeof current;
    if (!sent && !dropped) {
        cli_error("--hook %s: %s is dropped: %s", hook_program, name,
                  errno == EAGAIN ? "too many events wait for a hook that has not ended; end that"
                  : errno == EPIPE
                      ? "the process that runs the hooks was killed; start zklock again"
                      : strerror(errno));
    }
    dropped = !sent;
}

void hook_granted(const char *node, int64_t token)
{
    if (hook_program) {
        last_state = ZKL_STATE_HELD;
        snprintf(current.node, sizeof current.node, "%s", node);
        current.token = token;
        send_event("granted");
    }
}

/* It was granted, and no end of that was reported. */
static bool follows(void)
{
    return hook_program && (last_state == ZKL_STATE_HELD || last_state == ZKL_STATE_JEOPARDY);
}

void hook_follow(zkl_state state)
{
    const char *name = state == ZKL_STATE_JEOPARDY ? "jeopardy"
                       : state == ZKL_STATE_HELD   ? "safe"
                       : state == ZKL_STATE_LOST   ? "lost"
                                                   : NULL;
    if (follows() && state != last_state && name) {
        last_state = state;
        send_event(name);
    }
}

void hook_ended(bool lost)
{
    if (follows()) {
        send_event(lost ? "lost" : "released");
    }
    last_state = ZKL_STATE_IDLE;
}
