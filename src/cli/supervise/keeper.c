#include "supervise/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "supervise/cage.h"
#include "cli.h"
#include "clock.h"
#include "supervise/descendants.h"
#include "supervise/process.h"
#include "signals.h"

#define KILL_AGAIN_NS (5 * NS_PER_MS)
#define KILL_IN_VAIN_NS (200 * NS_PER_MS) /* somebody may not be killed: wait for its own end */

enum order_kind { ORDER_START, ORDER_SIGNAL, ORDER_STOP, ORDER_LOOK };

struct order {
    enum order_kind kind;
    int number;
    int64_t token;
    int64_t grace_ms;
    char node[2048];
};

/* What both sides have. */
static struct keeper_command command;
static bool has_terminal;             /* CMD's group gets the terminal on standard input */
static _Atomic int64_t *lease_end_ns; /* CLOCK_BOOTTIME, on a page that both see */

/* --- the keeper's own side ------------------------------------------------------------------- */

static struct {
    int socket, children, timer;
    const sigset_t *mask; /* CMD's signal mask */
    int64_t grace_ns;
    pid_t pid;           /* CMD, and its process group; 0 once it was waited for */
    int status;          /* CMD's wait status */
    bool over;           /* nobody is left */
    bool lingering;      /* CMD is gone, others are not */
    bool stopping;       /* TERM went out */
    bool stopped;        /* CMD is, by a signal */
    bool zklock_is_gone; /* nobody hears us any more */
    pid_t beyond_us;     /* may not be signalled: it has become another user's. 0: nobody */
    struct cage cage;
    enum keeper_cause cause;
    int64_t kill_ns; /* of a stop: the end of its grace */
} post;

static void tell(enum keeper_news news, int value)
{
    struct keeper_event event = {
        .news = news, .value = value, .pid = post.pid, .cause = post.cause};
    /* Never wait for a zklock that does not listen: it may be stopped, which is what we are here
     * for. */
    send(post.socket, &event, sizeof event, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Unless that would have to wait, for a reader that does not read. */
static bool can_say(void)
{
    struct pollfd said = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&said, 1, 0) == 1 && said.revents == POLLOUT;
}

static void say_who_is_beyond_us(pid_t pid)
{
    char path[64];
    char name[64] = "?";
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    FILE *file = fopen(path, "re");
    if (file) {
        name[strcspn(fgets(name, sizeof name, file) ? name : "", "\n")] = '\0';
        fclose(file);
    }
    if (can_say()) {
        cli_error(
            "process %d (%s) under %s runs as another user and cannot be stopped: it may go on "
            "beside the next holder; "
            "run zklock itself as that user (sudo zklock ...), or in a unit with Delegate=yes",
            (int)pid, name, command.argv[0]);
    }
}

/* The group, and whoever left it: a daemon that made itself a session is CMD's all the same. Once
 * CMD was waited for, the group's number may become somebody else's: from then on everybody is
 * addressed one by one. */
static void signal_everybody(int number)
{
    if (number == SIGKILL) {
        cage_kill(&post.cage);
    }
    if (post.pid > 0) {
        kill(-post.pid, number);
    }
    pid_t refused = descendants_signal(getpid(), post.pid, number).refused;
    if (refused && !*post.cage.folder && !post.beyond_us) {
        say_who_is_beyond_us(refused);
    }
    post.beyond_us = refused;
}

static void forward(int number)
{
    if (post.pid > 0) {
        kill(-post.pid, number);
    } else {
        descendants_signal(getpid(), 0, number);
    }
    if (post.stopped && signals_is_end(number)) {
        signal_everybody(SIGCONT); /* who is stopped cannot end */
    }
}

static void set_environment(const struct order *order)
{
    setenv("ZKLOCK_PATH", command.path, 1);
    process_set_grant(order->node, order->token);
    setenv("ZKLOCK_SERVERS", cli.servers, 1);
}

static _Noreturn void become_command(const struct order *order, pid_t keeper,
                                     volatile int *reason)
{
    setpgid(0, 0);
    if (has_terminal) {
        tcsetpgrp(STDIN_FILENO, getpid());
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper) {
        _exit(EXIT_FAILED);
    }
    cage_enter(&post.cage);
    set_environment(order);
    sigprocmask(SIG_SETMASK, post.mask, NULL);
    *reason = execute((const char *const *)command.argv);
    _exit(EXIT_CANNOT_EXECUTE);
}

/* vfork: the keeper goes on when CMD was executed, which it waits for anyway, and the child's word
 * on a failure is in its memory. Nothing is copied. Returns 0 or errno. */
static int start_command(const struct order *order)
{
    volatile int reason = 0;
    pid_t keeper = getpid();
    post.pid = vfork();
    if (post.pid == 0) {
        become_command(order, keeper, &reason);
    }
    return post.pid < 0 ? errno : reason;
}

static int64_t lease_kill_ns(void)
{
    return atomic_load(lease_end_ns) - KEEPER_MARGIN_MS * NS_PER_MS;
}

static void stop(enum keeper_cause cause)
{
    if (post.stopping) {
        return;
    }
    post.stopping = true;
    post.cause = cause;
    post.kill_ns = clock_ns(CLOCK_BOOTTIME) + post.grace_ns;
    signal_everybody(SIGTERM);
    signal_everybody(SIGCONT); /* who is stopped cannot end */
    tell(KEEPER_STOPPING, 0);
}

/* Does what is due and returns when to look again, never 0. The end of a lease that was renewed
 * meanwhile is not due. */
static int64_t enforce(void)
{
    int64_t now = clock_ns(CLOCK_BOOTTIME);
    int64_t lease_kill = lease_kill_ns();
    if (now >= lease_kill - post.grace_ns) {
        stop(KEEPER_BY_LEASE);
    }
    if (!post.stopping) {
        return lease_kill - post.grace_ns;
    }
    int64_t kill_ns = post.kill_ns < lease_kill ? post.kill_ns : lease_kill;
    if (now < kill_ns) {
        return kill_ns;
    }
    if (now >= lease_kill) {
        post.cause = KEEPER_BY_LEASE;
    }
    signal_everybody(SIGKILL);
    return now + (post.beyond_us ? KILL_IN_VAIN_NS : KILL_AGAIN_NS);
}

static void take_status(int status)
{
    post.stopped = WIFSTOPPED(status);
    if (WIFCONTINUED(status)) {
        return;
    }
    if (WIFSTOPPED(status)) {
        tell(KEEPER_SUSPENDED, WSTOPSIG(status));
        return;
    }
    post.pid = 0;
    post.status = status;
}

/* A subreaper without a child has no descendant at all: each of them would hang on one. */
static void reap(void)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
        if (pid == post.pid) {
            take_status(status);
        }
    }
    post.over = pid < 0 && errno == ECHILD;
    if (post.pid == 0 && !post.over && !post.lingering) {
        post.lingering = true;
        tell(KEEPER_LINGERING, post.status);
    }
}

/* CMD's end does not wait for that. */
static void say_that_zklock_is_gone(void)
{
    if (can_say()) {
        cli_error("zklock has ended: stopping %s; its lock is free after the session timeout, "
                  "then run it again",
                  command.argv[0]);
    }
}

static void take_order(void)
{
    struct order order;
    ssize_t size = recv(post.socket, &order, sizeof order, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (size != (ssize_t)sizeof order) {
        post.zklock_is_gone = true;
        stop(KEEPER_BY_DEATH);
        say_that_zklock_is_gone();
    } else if (order.kind == ORDER_SIGNAL) {
        forward(order.number);
    } else if (order.kind == ORDER_STOP) {
        stop(KEEPER_BY_ORDER);
    }
}

/* Sleeps until a child ends, zklock says something, or the time: by a timer that counts like the
 * lease, which the machine's sleep does not stop. True when zklock is to be heard. */
static bool wait_until(int64_t when_ns)
{
    struct itimerspec at = {
        .it_value = {.tv_sec = when_ns / 1000000000LL, .tv_nsec = when_ns % 1000000000LL}};
    struct pollfd fds[] = {{.fd = post.children, .events = POLLIN},
                           {.fd = post.timer, .events = POLLIN},
                           {.fd = post.zklock_is_gone ? -1 : post.socket, .events = POLLIN}};
    timerfd_settime(post.timer, TFD_TIMER_ABSTIME, &at, NULL);
    poll(fds, 3, -1);
    process_forget_children(post.children);
    return fds[2].revents != 0;
}

/* Reaps before it obeys: whom a signal is for depends on who is left. */
static void watch_over(void)
{
    while (!post.over) {
        bool heard = wait_until(enforce());
        reap();
        if (heard && !post.over) {
            take_order();
        }
    }
    tell(KEEPER_ENDED, post.status);
}

/* What only CMD needs: a reader of its output must see the end when CMD is done with it. Standard
 * error stays. */
static void let_go_of_standard_files(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    close(null);
}

/* Signals for a CMD that is gone are nobody's. False when there will be no start: zklock is gone.
 */
static bool wait_for_start(struct order *order)
{
    ssize_t size;
    do {
        size = recv(post.socket, order, sizeof *order, 0);
    } while (size == (ssize_t)sizeof *order && order->kind != ORDER_START);
    return size == (ssize_t)sizeof *order;
}

/* One grant. */
static void keep(const struct order *order)
{
    post.over = post.lingering = post.stopping = post.stopped = false;
    post.beyond_us = 0;
    post.cause = KEEPER_BY_ITSELF;
    post.grace_ns = order->grace_ms * NS_PER_MS;
    if (clock_ns(CLOCK_BOOTTIME) >= lease_kill_ns()) {
        post.cause = KEEPER_BY_LEASE; /* somebody was frozen between the grant and here */
        tell(KEEPER_ENDED, 0);
        return;
    }
    int reason = start_command(order);
    if (!command.again) {
        let_go_of_standard_files();
    }
    tell(reason ? KEEPER_REFUSED : KEEPER_STARTED, reason);
    if (!reason) {
        watch_over();
    }
}

static void keeper_main(int socket, const sigset_t *before, void *payload)
{
    struct order order;
    (void)payload;
    setpgid(0, 0); /* what is typed on the terminal, and a stop of zklock's group, is not for us */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    post.socket = socket;
    post.mask = before;
    post.children = process_children();
    post.timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
    if (post.children < 0 || post.timer < 0) {
        cli_error("the keeper process gets no descriptor: %s", strerror(errno));
        _exit(EXIT_FAILED); /* blind, it would not keep the lease */
    }
    cage_make(&post.cage);
    bool more = true;
    while (more && !post.zklock_is_gone && wait_for_start(&order)) {
        keep(&order);
        more = command.again;
    }
    cage_remove(&post.cage);
    _exit(EXIT_SUCCESS);
}

/* --- zklock's side --------------------------------------------------------------------------- */

static pid_t keeper;
static int to_keeper = -1;

/* A job alone in the foreground gets the terminal, as a shell would give it; in a pipeline the
 * terminal is shared. */
static bool owns_terminal(void)
{
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

bool keeper_open(const struct keeper_command *given)
{
    command = *given;
    has_terminal = owns_terminal();
    lease_end_ns =
        mmap(NULL, sizeof *lease_end_ns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (lease_end_ns == MAP_FAILED) {
        return false;
    }
    keeper = process_start("zklock-keeper", &to_keeper, keeper_main, NULL);
    return keeper > 0;
}

bool keeper_has_terminal(void)
{
    return has_terminal;
}

int keeper_socket(void)
{
    return to_keeper;
}

/* Without MSG_DONTWAIT in flags it waits for a keeper that is stopped, and nobody else sees to the
 * lease then. */
static bool send_order(const struct order *order, int flags)
{
    return send(to_keeper, order, sizeof *order, MSG_NOSIGNAL | flags) == (ssize_t)sizeof *order;
}

void keeper_begin(void)
{
    atomic_store(lease_end_ns, 0);
}

void keeper_lease(int64_t end_ns)
{
    if (end_ns > atomic_load(lease_end_ns)) {
        atomic_store(lease_end_ns, end_ns);
    }
}

void keeper_lost(void)
{
    if (atomic_exchange(lease_end_ns, 0) != 0) {
        send_order(&(struct order){.kind = ORDER_LOOK},
                   MSG_DONTWAIT); /* no room: it has enough to wake up for */
    }
}

void keeper_start(const char *node, int64_t token, int64_t grace_ms)
{
    struct order start = {.kind = ORDER_START, .token = token, .grace_ms = grace_ms};
    snprintf(start.node, sizeof start.node, "%s", node);
    send_order(&start, 0);
}

void keeper_signal(int number)
{
    send_order(&(struct order){.kind = ORDER_SIGNAL, .number = number}, MSG_DONTWAIT);
}

bool keeper_stop(void)
{
    return send_order(&(struct order){.kind = ORDER_STOP}, MSG_DONTWAIT);
}

struct keeper_event keeper_next(void)
{
    struct keeper_event event;
    ssize_t size;
    do {
        /* A reset is told first: the keeper ended with an order unread. What it said before that is
         * still to come. */
        size = recv(to_keeper, &event, sizeof event, 0);
    } while (size < 0 && (errno == EINTR || errno == ECONNRESET));
    if (size != (ssize_t)sizeof event) {
        event = (struct keeper_event){.news = KEEPER_DIED};
    }
    return event;
}

bool keeper_kill(pid_t group)
{
    bool alive = descendants_signal(keeper, 0, SIGKILL).alive > 0;
    if (group > 0) {
        kill(-group, SIGKILL);
    }
    return alive;
}

void keeper_clear_up(pid_t group)
{
    struct timespec moment = {.tv_nsec = KILL_AGAIN_NS};
    bool said = false;
    pid_t pid;
    do {
        if (group > 0) {
            kill(-group, SIGKILL);
        }
        pid_t refused = descendants_signal(getpid(), 0, SIGKILL).refused;
        if (refused && !said) {
            said = true;
            moment.tv_nsec = KILL_IN_VAIN_NS;
            cli_error("process %d runs as another user and cannot be stopped: waiting for its end",
                      (int)refused);
        }
        nanosleep(&moment, NULL);
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
        }
    } while (pid == 0);
}

void keeper_close(void)
{
    close(to_keeper);
    waitpid(keeper, NULL, 0);
}
