#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/timerfd.h>

#include "supervise/supervise.h"

#define KILL_AGAIN_NS (5 * NS_PER_MS)
#define KILL_REFUSED_NS (200 * NS_PER_MS) /* a process refuses the signal: wait for its own end */

struct order {
    enum keeper_order kind;
    int number;
    int64_t token;
    int64_t grace_ms;
    char node[2048];
};

/* What both sides have. */
bool keeper_has_terminal;
static _Atomic int64_t *lease_end_ns; /* CLOCK_BOOTTIME, on a page that both see */

/* --- the keeper's own side ------------------------------------------------------------------- */

static struct {
    int socket, children, timer;
    const sigset_t *mask; /* CMD's signal mask */
    int64_t grace_ns;
    pid_t pid;         /* CMD, and its process group; 0 once it was waited for */
    int status;        /* CMD's wait status */
    bool over;         /* no process is left */
    bool lingering;    /* CMD has ended, processes that it started have not */
    bool stopping;     /* TERM was sent */
    bool stopped;      /* CMD is, by a signal */
    bool zklock_ended; /* no process reads our events any more */
    pid_t unstoppable; /* a process of another user, which refuses our signals. 0: none */
    enum keeper_cause cause;
    int64_t kill_ns; /* of a stop: the end of its grace */
} supervisor;

static void send_event(enum keeper_news news, int value)
{
    struct keeper_event event = {
        .news = news, .value = value, .pid = supervisor.pid, .cause = supervisor.cause};
    /* Never wait for zklock to read: it may be stopped, and then the keeper must act alone. */
    send(supervisor.socket, &event, sizeof event, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* False: a write to standard error would block. */
static bool can_write_error(void)
{
    struct pollfd error_output = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&error_output, 1, 0) == 1 && error_output.revents == POLLOUT;
}

static void report_unstoppable(pid_t pid)
{
    char path[64];
    char name[64] = "?";
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    FILE *file = fopen(path, "re");
    if (file) {
        name[strcspn(fgets(name, sizeof name, file) ? name : "", "\n")] = '\0';
        fclose(file);
    }
    if (can_write_error()) {
        cli_error(
            "process %d (%s) under %s runs as another user and cannot be stopped: it may go on "
            "beside the next holder; "
            "run zklock itself as that user (sudo zklock ...), or in a unit with Delegate=yes",
            (int)pid, name, supervised.argv[0]);
    }
}

/* Signals CMD's group and its descendants outside of the group, such as a daemon with a session of
 * its own. Once CMD was waited for, the number of its group may be another process's: from then on
 * each process is signalled by itself. */
static void signal_all(int number)
{
    if (number == SIGKILL) {
        cage_kill();
    }
    if (supervisor.pid > 0) {
        kill(-supervisor.pid, number);
    }
    pid_t refused = descendants_signal(getpid(), supervisor.pid, number).refused;
    if (refused && !cage_is_made() && !supervisor.unstoppable) {
        report_unstoppable(refused);
    }
    supervisor.unstoppable = refused;
}

static void forward(int number)
{
    if (supervisor.pid > 0) {
        kill(-supervisor.pid, number);
    } else {
        descendants_signal(getpid(), 0, number);
    }
    if (supervisor.stopped && signals_is_end(number)) {
        signal_all(SIGCONT); /* a stopped process cannot end */
    }
}

static _Noreturn void become_command(const struct order *order, pid_t keeper, volatile int *reason)
{
    setpgid(0, 0);
    if (keeper_has_terminal) {
        tcsetpgrp(STDIN_FILENO, getpid());
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper) {
        _exit(EXIT_FAILED);
    }
    cage_enter();
    process_set_lock();
    process_set_grant(order->node, order->token);
    sigprocmask(SIG_SETMASK, supervisor.mask, NULL);
    *reason = execute(supervised.argv);
    _exit(EXIT_CANNOT_EXECUTE);
}

/* Returns 0 or errno. vfork copies no page tables: the keeper waits for the exec anyway, and the
 * child writes the reason of a failure into the keeper's memory. */
static int start_command(const struct order *order)
{
    volatile int reason = 0;
    pid_t keeper = getpid();
    supervisor.pid = vfork();
    if (supervisor.pid == 0) {
        become_command(order, keeper, &reason);
    }
    return supervisor.pid < 0 ? errno : reason;
}

static int64_t lease_kill_ns(void)
{
    return atomic_load(lease_end_ns) - KEEPER_MARGIN_MS * NS_PER_MS;
}

static void stop(enum keeper_cause cause)
{
    if (supervisor.stopping) {
        return;
    }
    supervisor.stopping = true;
    supervisor.cause = cause;
    supervisor.kill_ns = clock_ns(CLOCK_BOOTTIME) + supervisor.grace_ns;
    signal_all(SIGTERM);
    signal_all(SIGCONT); /* a stopped process cannot end */
    send_event(KEEPER_STOPPING, 0);
}

/* Sends TERM and KILL when they are due. Returns when it must be called again, never 0. A lease
 * that was renewed meanwhile does not end yet. */
static int64_t enforce(void)
{
    int64_t now = clock_ns(CLOCK_BOOTTIME);
    int64_t lease_kill = lease_kill_ns();
    if (now >= lease_kill - supervisor.grace_ns) {
        stop(KEEPER_BY_LEASE);
    }
    if (!supervisor.stopping) {
        return lease_kill - supervisor.grace_ns;
    }
    int64_t kill_ns = supervisor.kill_ns < lease_kill ? supervisor.kill_ns : lease_kill;
    if (now < kill_ns) {
        return kill_ns;
    }
    if (now >= lease_kill) {
        supervisor.cause = KEEPER_BY_LEASE;
    }
    signal_all(SIGKILL);
    return now + (supervisor.unstoppable ? KILL_REFUSED_NS : KILL_AGAIN_NS);
}

static void take_status(int status)
{
    supervisor.stopped = WIFSTOPPED(status);
    if (supervisor.stopped) {
        send_event(KEEPER_SUSPENDED, WSTOPSIG(status));
    } else if (!WIFCONTINUED(status)) {
        supervisor.pid = 0;
        supervisor.status = status;
    }
}

/* A subreaper without a child has no descendant: an orphan becomes its child. */
static void reap(void)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
        if (pid == supervisor.pid) {
            take_status(status);
        }
    }
    supervisor.over = pid < 0 && errno == ECHILD;
    if (supervisor.pid == 0 && !supervisor.over && !supervisor.lingering) {
        supervisor.lingering = true;
        send_event(KEEPER_LINGERING, supervisor.status);
    }
}

static void take_order(void)
{
    struct order order;
    ssize_t size = recv(supervisor.socket, &order, sizeof order, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (size != (ssize_t)sizeof order) {
        supervisor.zklock_ended = true;
        stop(KEEPER_BY_DEATH);
        if (can_write_error()) { /* does not delay CMD's end */
            cli_error("zklock has ended: stopping %s; its lock is free after the session timeout, "
                      "then run it again",
                      supervised.argv[0]);
        }
    } else if (order.kind == KEEPER_SIGNAL) {
        forward(order.number);
    } else if (order.kind == KEEPER_STOP) {
        stop(KEEPER_BY_ORDER);
    }
}

/* Sleeps until a child ends, zklock sends an order, or the time has come. The timer counts while
 * the machine sleeps, as the lease does. True: there is an order to read. */
static bool wait_until(int64_t when_ns)
{
    struct itimerspec at = {
        .it_value = {.tv_sec = when_ns / 1000000000LL, .tv_nsec = when_ns % 1000000000LL}};
    struct pollfd fds[] = {
        {.fd = supervisor.children, .events = POLLIN},
        {.fd = supervisor.timer, .events = POLLIN},
        {.fd = supervisor.zklock_ended ? -1 : supervisor.socket, .events = POLLIN}};
    timerfd_settime(supervisor.timer, TFD_TIMER_ABSTIME, &at, NULL);
    poll(fds, 3, -1);
    process_forget_children(supervisor.children);
    return fds[2].revents != 0;
}

/* Reaps before it reads an order: which processes a signal reaches depends on those that are left.
 */
static void watch_over(void)
{
    while (!supervisor.over) {
        bool has_order = wait_until(enforce());
        reap();
        if (has_order && !supervisor.over) {
            take_order();
        }
    }
    send_event(KEEPER_ENDED, supervisor.status);
}

/* Ignores signals for a CMD that has ended. False: zklock has ended, so there will be no start. */
static bool wait_for_start(struct order *order)
{
    ssize_t size;
    do {
        size = recv(supervisor.socket, order, sizeof *order, 0);
    } while (size == (ssize_t)sizeof *order && order->kind != KEEPER_START);
    return size == (ssize_t)sizeof *order;
}

/* One grant. */
static void keep(const struct order *order)
{
    supervisor.over = supervisor.lingering = supervisor.stopping = supervisor.stopped = false;
    supervisor.unstoppable = 0;
    supervisor.cause = KEEPER_BY_ITSELF;
    supervisor.grace_ns = order->grace_ms * NS_PER_MS;
    if (clock_ns(CLOCK_BOOTTIME) >= lease_kill_ns()) {
        supervisor.cause = KEEPER_BY_LEASE; /* zklock or the keeper was frozen since the grant */
        send_event(KEEPER_ENDED, 0);
        return;
    }
    int reason = start_command(order);
    if (!supervised.again) {
        process_close_standard_files();
    }
    send_event(reason ? KEEPER_REFUSED : KEEPER_STARTED, reason);
    if (!reason) {
        watch_over();
    }
}

static void keeper_main(int socket, const sigset_t *before)
{
    struct order order;
    setpgid(0,
            0); /* signals of the terminal, and a stop of zklock's group, do not reach the keeper */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    health_close(); /* its process must see the end of zklock, not ours */
    supervisor.socket = socket;
    supervisor.mask = before;
    supervisor.children = process_children();
    supervisor.timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
    if (supervisor.children < 0 || supervisor.timer < 0) {
        cli_error("the keeper process gets no descriptor: %s; raise the limit (ulimit -n)",
                  strerror(errno));
        _exit(EXIT_FAILED); /* blind, it would not keep the lease */
    }
    cage_make();
    bool more = true;
    while (more && !supervisor.zklock_ended && wait_for_start(&order)) {
        keep(&order);
        more = supervised.again;
    }
    cage_remove();
    _exit(EXIT_SUCCESS);
}

/* --- zklock's side --------------------------------------------------------------------------- */

static pid_t keeper;
int keeper_socket = -1;

bool keeper_open(void)
{
    /* A job alone in the foreground gets the terminal, as a shell would give it; in a pipeline the
     * terminal is shared. */
    keeper_has_terminal =
        isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
    lease_end_ns =
        mmap(NULL, sizeof *lease_end_ns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (lease_end_ns == MAP_FAILED) {
        cli_error("no memory: %s; raise the limit (ulimit -v)", strerror(errno));
        return false;
    }
    keeper = process_start("zklock-keeper", &keeper_socket, keeper_main);
    return keeper > 0;
}

/* Without MSG_DONTWAIT in flags it waits for a keeper that is stopped. Meanwhile nothing enforces
 * the end of the lease. */
static bool send_order(const struct order *order, int flags)
{
    return send(keeper_socket, order, sizeof *order, MSG_NOSIGNAL | flags) ==
           (ssize_t)sizeof *order;
}

void keeper_lease(int64_t end_ns)
{
    if (end_ns > atomic_load(lease_end_ns)) {
        atomic_store(lease_end_ns, end_ns);
    }
}

bool keeper_order(enum keeper_order kind, int number)
{
    return send_order(&(struct order){.kind = kind, .number = number}, MSG_DONTWAIT);
}

void keeper_no_lease(void)
{
    if (atomic_exchange(lease_end_ns, 0) != 0) {
        keeper_order(KEEPER_LOOK, 0); /* a full socket wakes the keeper as well */
    }
}

void keeper_start(const char *node, int64_t token, int64_t grace_ms)
{
    struct order start = {.kind = KEEPER_START, .token = token, .grace_ms = grace_ms};
    snprintf(start.node, sizeof start.node, "%s", node);
    send_order(&start, 0);
}

struct keeper_event keeper_next(void)
{
    struct keeper_event event;
    ssize_t size;
    do {
        /* ECONNRESET comes first: the keeper ended with an order unread. The events that it sent
         * before follow. */
        size = recv(keeper_socket, &event, sizeof event, 0);
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
    bool reported = false;
    pid_t pid;
    do {
        if (group > 0) {
            kill(-group, SIGKILL);
        }
        pid_t refused = descendants_signal(getpid(), 0, SIGKILL).refused;
        if (refused && !reported) {
            reported = true;
            moment.tv_nsec = KILL_REFUSED_NS;
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
    close(keeper_socket);
    waitpid(keeper, NULL, 0);
}
