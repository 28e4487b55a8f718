#include "supervise/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "supervise/cage.h"
#include "cli.h"
#include "clock.h"
#include "supervise/descendants.h"
#include "supervise/execute.h"
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

/* The keeper's own side. */
struct post {
    const struct keeper_command *command;
    struct keeper_page *page;
    int socket, children, timer;
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
};

static void tell(struct post *post, enum keeper_news news, int value)
{
    struct keeper_event event = {
        .news = news, .value = value, .pid = post->pid, .cause = post->cause};
    /* Never wait for a zklock that does not listen: it may be stopped, which is what we are here
     * for. */
    send(post->socket, &event, sizeof event, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Unless that would have to wait, for a reader that does not read. */
static bool can_say(void)
{
    struct pollfd said = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&said, 1, 0) == 1 && said.revents == POLLOUT;
}

static void say_who_is_beyond_us(const struct post *post, pid_t pid)
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
            (int)pid, name, post->command->argv[0]);
    }
}

/* The group, and whoever left it: a daemon that made itself a session is CMD's all the same. Once
 * CMD was waited for, the group's number may become somebody else's: from then on everybody is
 * addressed one by one. */
static void signal_everybody(struct post *post, int number)
{
    if (number == SIGKILL) {
        cage_kill(&post->cage);
    }
    if (post->pid > 0) {
        kill(-post->pid, number);
    }
    pid_t refused = descendants_signal(getpid(), post->pid, number).refused;
    if (refused && !*post->cage.folder && !post->beyond_us) {
        say_who_is_beyond_us(post, refused);
    }
    post->beyond_us = refused;
}

static void forward(struct post *post, int number)
{
    if (post->pid > 0) {
        kill(-post->pid, number);
    } else {
        descendants_signal(getpid(), 0, number);
    }
    if (post->stopped && signals_is_end(number)) {
        signal_everybody(post, SIGCONT); /* who is stopped cannot end */
    }
}

static void set_environment(const struct post *post, const struct order *order)
{
    char token[32];
    snprintf(token, sizeof token, "%lld", (long long)order->token);
    setenv("ZKLOCK_PATH", post->command->path, 1);
    setenv("ZKLOCK_NODE", order->node, 1);
    setenv("ZKLOCK_TOKEN", token, 1);
    setenv("ZKLOCK_SERVERS", post->command->servers, 1);
}

static void become_command(const struct post *post, const struct order *order, pid_t keeper,
                           int failure)
{
    setpgid(0, 0);
    if (post->command->terminal) {
        tcsetpgrp(STDIN_FILENO, getpid());
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper) {
        _exit(EXIT_FAILED);
    }
    cage_enter(&post->cage);
    set_environment(post, order);
    sigprocmask(SIG_SETMASK, &post->command->mask, NULL);
    int reason = execute((const char *const *)post->command->argv);
    _exit(write(failure, &reason, sizeof reason) == (ssize_t)sizeof reason ? EXIT_CANNOT_EXECUTE
                                                                           : EXIT_FAILED);
}

/* The end of the pipe without a word is the exec that closed it. Returns 0 or errno. */
static int start_command(struct post *post, const struct order *order)
{
    int failure[2];
    pid_t keeper = getpid();
    if (pipe2(failure, O_CLOEXEC) != 0) {
        return errno;
    }
    post->pid = fork();
    if (post->pid == 0) {
        become_command(post, order, keeper, failure[1]);
    }
    int reason = post->pid < 0 ? errno : 0;
    close(failure[1]);
    if (post->pid > 0) {
        setpgid(post->pid, post->pid);
        if (read(failure[0], &reason, sizeof reason) != (ssize_t)sizeof reason) {
            reason = 0;
        }
    }
    close(failure[0]);
    return reason;
}

static int64_t lease_kill_ns(const struct post *post)
{
    return atomic_load(&post->page->lease_end_ns) - KEEPER_MARGIN_MS * NS_PER_MS;
}

static void stop(struct post *post, enum keeper_cause cause)
{
    if (post->stopping) {
        return;
    }
    post->stopping = true;
    post->cause = cause;
    post->kill_ns = clock_ns(CLOCK_BOOTTIME) + post->grace_ns;
    signal_everybody(post, SIGTERM);
    signal_everybody(post, SIGCONT); /* who is stopped cannot end */
    tell(post, KEEPER_STOPPING, 0);
}

/* Does what is due and returns when to look again, never 0. The end of a lease that was renewed
 * meanwhile is not due. */
static int64_t enforce(struct post *post)
{
    int64_t now = clock_ns(CLOCK_BOOTTIME);
    int64_t lease_kill = lease_kill_ns(post);
    if (now >= lease_kill - post->grace_ns) {
        stop(post, KEEPER_BY_LEASE);
    }
    if (!post->stopping) {
        return lease_kill - post->grace_ns;
    }
    int64_t kill_ns = post->kill_ns < lease_kill ? post->kill_ns : lease_kill;
    if (now < kill_ns) {
        return kill_ns;
    }
    if (now >= lease_kill) {
        post->cause = KEEPER_BY_LEASE;
    }
    signal_everybody(post, SIGKILL);
    return now + (post->beyond_us ? KILL_IN_VAIN_NS : KILL_AGAIN_NS);
}

static void take_status(struct post *post, int status)
{
    post->stopped = WIFSTOPPED(status);
    if (WIFCONTINUED(status)) {
        return;
    }
    if (WIFSTOPPED(status)) {
        tell(post, KEEPER_SUSPENDED, WSTOPSIG(status));
        return;
    }
    post->pid = 0;
    post->status = status;
}

/* A subreaper without a child has no descendant at all: each of them would hang on one. */
static void reap(struct post *post)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
        if (pid == post->pid) {
            take_status(post, status);
        }
    }
    post->over = pid < 0 && errno == ECHILD;
    if (post->pid == 0 && !post->over && !post->lingering) {
        post->lingering = true;
        tell(post, KEEPER_LINGERING, post->status);
    }
}

/* CMD's end does not wait for that. */
static void say_that_zklock_is_gone(const struct post *post)
{
    if (can_say()) {
        cli_error("zklock has ended: stopping %s; its lock is free after the session timeout, "
                  "then run it again",
                  post->command->argv[0]);
    }
}

static void take_order(struct post *post)
{
    struct order order;
    ssize_t size = recv(post->socket, &order, sizeof order, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (size != (ssize_t)sizeof order) {
        post->zklock_is_gone = true;
        stop(post, KEEPER_BY_DEATH);
        say_that_zklock_is_gone(post);
    } else if (order.kind == ORDER_SIGNAL) {
        forward(post, order.number);
    } else if (order.kind == ORDER_STOP) {
        stop(post, KEEPER_BY_ORDER);
    }
}

/* Sleeps until a child ends, zklock says something, or the time: by a timer that counts like the
 * lease, which the machine's sleep does not stop. True when zklock is to be heard. */
static bool wait_until(struct post *post, int64_t when_ns)
{
    struct itimerspec at = {
        .it_value = {.tv_sec = when_ns / 1000000000LL, .tv_nsec = when_ns % 1000000000LL}};
    struct pollfd fds[] = {{.fd = post->children, .events = POLLIN},
                           {.fd = post->timer, .events = POLLIN},
                           {.fd = post->zklock_is_gone ? -1 : post->socket, .events = POLLIN}};
    struct signalfd_siginfo ignored;
    timerfd_settime(post->timer, TFD_TIMER_ABSTIME, &at, NULL);
    poll(fds, 3, -1);
    while (read(post->children, &ignored, sizeof ignored) > 0) {
    }
    return fds[2].revents != 0;
}

/* Reaps before it obeys: whom a signal is for depends on who is left. */
static void watch_over(struct post *post)
{
    while (!post->over) {
        bool heard = wait_until(post, enforce(post));
        reap(post);
        if (heard && !post->over) {
            take_order(post);
        }
    }
    tell(post, KEEPER_ENDED, post->status);
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
static bool wait_for_start(const struct post *post, struct order *order)
{
    ssize_t size;
    do {
        size = recv(post->socket, order, sizeof *order, 0);
    } while (size == (ssize_t)sizeof *order && order->kind != ORDER_START);
    return size == (ssize_t)sizeof *order;
}

/* One grant. */
static void keep(struct post *post, const struct order *order)
{
    post->over = post->lingering = post->stopping = post->stopped = false;
    post->beyond_us = 0;
    post->cause = KEEPER_BY_ITSELF;
    post->grace_ns = order->grace_ms * NS_PER_MS;
    if (clock_ns(CLOCK_BOOTTIME) >= lease_kill_ns(post)) {
        post->cause = KEEPER_BY_LEASE; /* somebody was frozen between the grant and here */
        tell(post, KEEPER_ENDED, 0);
        return;
    }
    int reason = start_command(post, order);
    if (!post->command->again) {
        let_go_of_standard_files();
    }
    tell(post, reason ? KEEPER_REFUSED : KEEPER_STARTED, reason);
    if (!reason) {
        watch_over(post);
    }
}

static void keeper_main(struct post *post)
{
    sigset_t all;
    sigset_t child;
    struct order order;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    signal(SIGCHLD, SIG_DFL); /* were it ignored, no status would come */
    setpgid(0, 0); /* what is typed on the terminal, and a stop of zklock's group, is not for us */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, "zklock-keeper");
    post->children = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    post->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
    if (post->children < 0 || post->timer < 0) {
        cli_error("the keeper process gets no descriptor: %s", strerror(errno));
        _exit(EXIT_FAILED); /* blind, it would not keep the lease */
    }
    cage_make(&post->cage);
    bool more = true;
    while (more && !post->zklock_is_gone && wait_for_start(post, &order)) {
        keep(post, &order);
        more = post->command->again;
    }
    cage_remove(&post->cage);
    _exit(EXIT_SUCCESS);
}

bool keeper_open(struct keeper *keeper, const struct keeper_command *command)
{
    int sockets[2];
    struct keeper_page *page =
        mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return false;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
        munmap(page, sizeof *page);
        return false;
    }
    atomic_init(&page->lease_end_ns, 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(sockets[0]);
        keeper_main(&(struct post){.command = command, .page = page, .socket = sockets[1]});
    }
    close(sockets[1]);
    *keeper = (struct keeper){.pid = pid, .socket = sockets[0], .page = page};
    if (pid < 0) {
        close(sockets[0]);
        munmap(page, sizeof *page);
    }
    return pid > 0;
}

/* Without MSG_DONTWAIT in flags it waits for a keeper that is stopped, and nobody else sees to the
 * lease then. */
static bool order(struct keeper *keeper, const struct order *order, int flags)
{
    return send(keeper->socket, order, sizeof *order, MSG_NOSIGNAL | flags) ==
           (ssize_t)sizeof *order;
}

void keeper_begin(struct keeper *keeper)
{
    atomic_store(&keeper->page->lease_end_ns, 0);
}

void keeper_lease(struct keeper *keeper, int64_t lease_end_ns)
{
    if (lease_end_ns > atomic_load(&keeper->page->lease_end_ns)) {
        atomic_store(&keeper->page->lease_end_ns, lease_end_ns);
    }
}

void keeper_lost(struct keeper *keeper)
{
    if (atomic_exchange(&keeper->page->lease_end_ns, 0) != 0) {
        order(keeper, &(struct order){.kind = ORDER_LOOK},
              MSG_DONTWAIT); /* no room: it has enough to wake up for */
    }
}

void keeper_start(struct keeper *keeper, const char *node, int64_t token, int64_t grace_ms)
{
    struct order start = {.kind = ORDER_START, .token = token, .grace_ms = grace_ms};
    snprintf(start.node, sizeof start.node, "%s", node);
    order(keeper, &start, 0);
}

void keeper_signal(struct keeper *keeper, int number)
{
    order(keeper, &(struct order){.kind = ORDER_SIGNAL, .number = number}, MSG_DONTWAIT);
}

bool keeper_stop(struct keeper *keeper)
{
    return order(keeper, &(struct order){.kind = ORDER_STOP}, MSG_DONTWAIT);
}

struct keeper_event keeper_next(struct keeper *keeper)
{
    struct keeper_event event;
    ssize_t size;
    do {
        /* A reset is told first: the keeper ended with an order unread. What it said before that is
         * still to come. */
        size = recv(keeper->socket, &event, sizeof event, 0);
    } while (size < 0 && (errno == EINTR || errno == ECONNRESET));
    if (size != (ssize_t)sizeof event) {
        event = (struct keeper_event){.news = KEEPER_DIED};
    }
    return event;
}

bool keeper_kill(const struct keeper *keeper, pid_t group)
{
    bool alive = descendants_signal(keeper->pid, 0, SIGKILL).alive > 0;
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

void keeper_close(struct keeper *keeper)
{
    close(keeper->socket);
    waitpid(keeper->pid, NULL, 0);
    munmap(keeper->page, sizeof *keeper->page);
}
