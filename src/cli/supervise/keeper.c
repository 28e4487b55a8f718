/* keeper.c - the parent of CMD, and everybody below CMD, in a control group or one by one. */
#include <dirent.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/xattr.h>

#include "supervise/supervise.h"

#define KILL_AGAIN_NS (5 * NS_PER_MS)
#define ROUNDING_NS (10 * NS_PER_MS)
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
static pid_t own_group;               /* zklock's */
static _Atomic int64_t *lease_end_ns; /* CLOCK_BOOTTIME, on a page that both see */

/* --- a control group of CMD's own --------------------------------------------------------------
 */

/* Where this process may make one: below its own group, if that was delegated to it (a unit with
 * Delegate=yes, a user's session). What is in it cannot leave it but by its own right to write to
 * another group, however it forks; and it is killed as a whole, by the kernel, whoever it runs as:
 * also what sudo started. */

static struct {
    char folder[PATH_MAX];
    int procs, kill; /* descriptors; -1: there is none */
} cage = {.procs = -1, .kill = -1};

static int open_in_cage(const char *name)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", cage.folder, name);
    return open(path, O_WRONLY | O_CLOEXEC);
}

/* There may be none, and that is nobody's fault. */
static void cage_make(void)
{
    char line[PATH_MAX / 2] = "";
    const char *own = line + strlen("0::"), *mounted = "/sys/fs/cgroup";
    struct stat status;
    char mark[8];
    bool found = false;
    FILE *stream = fopen("/proc/self/cgroup", "re");
    while (stream && !found && fgets(line, sizeof line, stream)) {
        found = strncmp(line, "0::", strlen("0::")) == 0;
    }
    if (stream) {
        fclose(stream);
    }
    char *end = strchr(line, '\n');
    if (!found || !end) {
        return;
    }
    *end = '\0';
    /* Control groups of version 2 are mounted alone, or beside those of version 1. */
    if (access("/sys/fs/cgroup/cgroup.controllers", F_OK) != 0) {
        mounted = "/sys/fs/cgroup/unified";
    }
    snprintf(cage.folder, sizeof cage.folder, "%s%s", mounted, own);
    /* Ours to divide: root may everywhere, and must not where a service manager did not say so
     * (systemd marks what it delegates). */
    bool delegated =
        getxattr(cage.folder, "user.delegate", mark, sizeof mark) > 0 ||
        getxattr(cage.folder, "trusted.delegate", mark, sizeof mark) > 0 ||
        (geteuid() != 0 && stat(cage.folder, &status) == 0 && status.st_uid == geteuid());
    snprintf(cage.folder, sizeof cage.folder, "%s%s/zklock-%d", mounted, own, (int)getpid());
    if (delegated && mkdir(cage.folder, 0755) == 0) {
        cage.procs = open_in_cage("cgroup.procs");
        cage.kill = open_in_cage("cgroup.kill"); /* since Linux 5.14 */
        if (cage.procs < 0 || cage.kill < 0) {
            rmdir(cage.folder);
            cage.procs = cage.kill = -1; /* its end closes them, and an exec */
        }
    }
}

static void write_in_cage(int fd, const char *text)
{
    if (fd >= 0 && write(fd, text, strlen(text)) < 0) {
        /* Then it is as without a cage: one by one. */
    }
}

/* --- its descendants, one by one -------------------------------------------------------------- */

static struct process {
    pid_t pid, parent, group;
    bool ours;
    bool dead; /* and not waited for yet */
    char name[32];
} * processes;
static size_t process_count, capacity;

static bool add(struct process process)
{
    if (process_count == capacity) {
        size_t larger = capacity ? 2 * capacity : 256;
        struct process *rows = realloc(processes, larger * sizeof *rows);
        if (!rows) {
            return false;
        }
        processes = rows;
        capacity = larger;
    }
    processes[process_count++] = process;
    return true;
}

/* "PID (NAME) STATE PARENT GROUP ...": NAME may hold anything, so the last bracket counts. */
static bool read_process(const char *pid, struct process *row)
{
    char path[64];
    char line[512];
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file) {
        return false;
    }
    size_t size = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[size] = '\0';
    const char *name = strchr(line, '('), *rest = strrchr(line, ')');
    char state;
    if (!rest || sscanf(rest, ") %c %d %d", &state, &row->parent, &row->group) != 3) {
        return false;
    }
    row->pid = (pid_t)atoi(pid);
    row->ours = false;
    row->dead = state == 'Z' || state == 'X';
    snprintf(row->name, sizeof row->name, "%.*s", (int)(rest - name) - 1, name + 1);
    return true;
}

static bool read_processes(pid_t root)
{
    char text[64];
    struct process row;
    DIR *folder = opendir("/proc");
    bool fine = folder != NULL;
    process_count = 0;
    for (struct dirent *entry; fine && (entry = readdir(folder));) {
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            read_process(entry->d_name, &row)) {
            fine = add(row);
        }
    }
    if (folder) {
        closedir(folder);
    }
    /* A /proc that is mounted with hidepid shows neither a process of another user nor one that
     * hides its memory (PR_SET_DUMPABLE), but it lists the children of root. A child of a hidden
     * process becomes a child of root when that one is dead. */
    snprintf(text, sizeof text, "/proc/%d/task/%d/children", (int)root, (int)root);
    FILE *file = fopen(text, "re");
    while (file && fine && fscanf(file, "%20s", text) == 1) {
        pid_t pid = (pid_t)atoi(text);
        fine =
            read_process(text, &row) ||
            add((struct process){.pid = pid, .parent = root, .group = getpgid(pid), .name = "?"});
    }
    if (file) {
        fclose(file);
    }
    return fine;
}

/* Children may stand before their parents: goes over the table until nothing is added. */
static void mark(pid_t root)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < process_count; i++) {
            struct process *row = &processes[i];
            size_t parent = 0;
            while (parent < process_count && processes[parent].pid != row->parent) {
                parent++;
            }
            if (!row->ours &&
                (row->parent == root || (parent < process_count && processes[parent].ours))) {
                row->ours = changed = true;
            }
        }
    }
}

/* A group that is nobody else's can be killed as a whole: the kernel lets none of it fork
 * meanwhile. */
static bool is_ours(pid_t group)
{
    bool ours = true;
    for (size_t i = 0; ours && i < process_count; i++) {
        ours = processes[i].group != group || processes[i].ours;
    }
    return ours;
}

struct signalled {
    size_t alive; /* how many there were, without those that only wait to be waited for */
    /* One that may not be signalled, as it has become another user's (sudo); NULL: nobody. */
    const struct process *refused;
};

/* Sends a signal to every descendant of root that is not in process group skip (0: to all),
 * wherever they went: another group, another session, a second fork. Linux's /proc tells who they
 * are; one that forks meanwhile may be missed, so a killer repeats this until nobody is left. Those
 * of the group count in what it returns. */
static struct signalled descendants_signal(pid_t root, pid_t skip, int number)
{
    struct signalled signalled = {0};
    if (!read_processes(root)) {
        return signalled;
    }
    mark(root);
    for (size_t i = 0; i < process_count; i++) {
        const struct process *row = &processes[i];
        int meant = skip == 0 || row->group != skip ? number : 0;
        if (!row->ours) {
            continue;
        }
        signalled.alive += !row->dead;
        if (kill(row->pid, meant) != 0 && errno == EPERM && !row->dead) {
            signalled.refused = row;
        }
        if (meant == SIGKILL && row->group > 1 && is_ours(row->group)) {
            kill(-row->group, SIGKILL);
        }
    }
    return signalled;
}

/* --- the keeper's own side ------------------------------------------------------------------- */

static struct {
    int timer;
    int64_t grace_ns;
    pid_t pid;               /* CMD, and its process group; 0 once it was waited for */
    int status;              /* CMD's wait status */
    bool lingering;          /* CMD has ended, processes that it started have not */
    bool stopped;            /* CMD is, by a signal */
    bool zklock_ended;       /* no process reads our events any more */
    bool unstoppable;        /* a process of another user refuses our signals */
    enum keeper_cause cause; /* KEEPER_BY_ITSELF until TERM was sent */
    int64_t kill_ns;         /* of a stop: the end of its grace */
} supervisor;

static void send_event(enum keeper_news news, int value)
{
    struct keeper_event event = {
        .news = news, .value = value, .pid = supervisor.pid, .cause = supervisor.cause};
    /* Never wait for zklock to read: it may be stopped, and then the keeper must act alone. The end
     * must not be lost, and leaves nothing to act on. */
    int wait = news == KEEPER_ENDED ? 0 : MSG_DONTWAIT;
    send(process_socket, &event, sizeof event, MSG_NOSIGNAL | wait);
}

/* Signals CMD's group and its descendants outside of the group, such as a daemon with a session of
 * its own. Once CMD was waited for, the number of its group may be another process's: from then on
 * each process is signalled by itself. */
static void signal_all(int number)
{
    if (number == SIGKILL) {
        write_in_cage(cage.kill, "1");
    }
    if (supervisor.pid > 0) {
        kill(-supervisor.pid, number);
    }
    const struct process *refused = descendants_signal(getpid(), supervisor.pid, number).refused;
    if (refused && cage.kill < 0 && !supervisor.unstoppable) {
        cli_error("process %d (%s) under %s runs as another user and cannot be stopped: it may go "
                  "on beside the next holder; run zklock itself as that user (sudo zklock ...), or "
                  "in a unit with Delegate=yes",
                  (int)refused->pid, refused->name, supervised.argv[0]);
    }
    supervisor.unstoppable = refused != NULL;
}

/* Returns 0 or errno. vfork copies no page tables: the keeper waits for the exec anyway, and the
 * child writes the reason of a failure into the keeper's memory. */
static int start_command(const struct order *order)
{
    volatile int reason = 0;
    pid_t keeper = getpid();
    supervisor.pid = vfork();
    if (supervisor.pid == 0) {
        setpgid(0, 0);
        if (keeper_has_terminal && tcgetpgrp(STDIN_FILENO) == own_group) {
            tcsetpgrp(STDIN_FILENO, getpid());
        }
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != keeper) {
            _exit(EXIT_FAILED);
        }
        write_in_cage(cage.procs, "0");
        process_set_grant(order->node, order->token);
        sigprocmask(SIG_SETMASK, &process_mask, NULL);
        reason = execute(supervised.argv);
        _exit(EXIT_CANNOT_EXECUTE);
    }
    return supervisor.pid < 0 ? errno : reason;
}

static int64_t lease_kill_ns(void)
{
    return atomic_load(lease_end_ns) - KEEPER_MARGIN_MS * NS_PER_MS;
}

static void stop(enum keeper_cause cause)
{
    if (supervisor.cause != KEEPER_BY_ITSELF) {
        return;
    }
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
    if (supervisor.cause == KEEPER_BY_ITSELF) {
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

/* Whether no process is left. A subreaper without a child has no descendant: an orphan becomes its
 * child. */
static bool reap(void)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
        if (pid != supervisor.pid) {
            continue;
        }
        supervisor.stopped = WIFSTOPPED(status);
        if (supervisor.stopped) {
            send_event(KEEPER_SUSPENDED, WSTOPSIG(status));
        } else if (!WIFCONTINUED(status)) {
            supervisor.pid = 0;
            supervisor.status = status;
        }
    }
    bool over = pid < 0 && errno == ECHILD;
    if (supervisor.pid == 0 && !over && !supervisor.lingering) {
        supervisor.lingering = true;
        send_event(KEEPER_LINGERING, supervisor.status);
    }
    return over;
}

static void take_order(void)
{
    struct order order;
    ssize_t size = recv(process_socket, &order, sizeof order, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (size != (ssize_t)sizeof order) {
        supervisor.zklock_ended = true;
        stop(KEEPER_BY_DEATH);
        cli_error("zklock has ended: stopping %s; its lock is free after the session timeout, "
                  "then run it again",
                  supervised.argv[0]);
    } else if (order.kind == KEEPER_STOP) {
        stop(KEEPER_BY_ORDER);
    } else if (order.kind == KEEPER_SIGNAL) {
        if (supervisor.pid > 0) {
            kill(-supervisor.pid, order.number);
            if (getpgid(supervisor.pid) != supervisor.pid) { /* CMD has left its group */
                kill(supervisor.pid, order.number);
            }
        } else {
            descendants_signal(getpid(), 0, order.number);
        }
        if (supervisor.stopped && signals_is_end(order.number)) {
            signal_all(SIGCONT); /* a stopped process cannot end */
        }
    }
}

/* One grant. */
static void keep(const struct order *order)
{
    supervisor.lingering = supervisor.stopped = supervisor.unstoppable = false;
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
    if (reason) {
        return;
    }
    /* Sleeps until a child ends, zklock sends an order, or the time has come. The timer counts
     * while the machine sleeps, as the lease does. Reaps before it reads an order: which processes
     * a signal reaches depends on those that are left. */
    for (bool over = false; !over;) {
        int64_t when_ns = enforce();
        struct itimerspec at = {
            .it_value = {.tv_sec = when_ns / 1000000000LL, .tv_nsec = when_ns % 1000000000LL}};
        struct pollfd fds[] = {
            {.fd = process_children, .events = POLLIN},
            {.fd = supervisor.timer, .events = POLLIN},
            {.fd = supervisor.zklock_ended ? -1 : process_socket, .events = POLLIN}};
        timerfd_settime(supervisor.timer, TFD_TIMER_ABSTIME, &at, NULL);
        poll(fds, 3, -1);
        process_forget_children();
        over = reap();
        if (fds[2].revents && !over) {
            take_order();
        }
    }
    send_event(KEEPER_ENDED, supervisor.status);
}

static void keeper_main(void)
{
    struct order order;
    setpgid(0,
            0); /* signals of the terminal, and a stop of zklock's group, do not reach the keeper */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    health_close(); /* its process must see the end of zklock, not ours */
    supervisor.timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
    if (!process_open_children() || supervisor.timer < 0) {
        cli_error("the keeper process gets no descriptor: %s; raise the limit (ulimit -n)",
                  strerror(errno));
        _exit(EXIT_FAILED); /* blind, it would not keep the lease */
    }
    cli_contends = true;
    cage_make();
    process_set_lock(); /* before the grant, so that CMD starts sooner after it */
    /* Ignores signals for a CMD that has ended. A shorter message: zklock has ended. */
    while (!supervisor.zklock_ended &&
           recv(process_socket, &order, sizeof order, 0) == (ssize_t)sizeof order) {
        if (order.kind == KEEPER_START) {
            keep(&order);
            if (!supervised.again) {
                break;
            }
        }
    }
    if (cage.kill >= 0) {
        rmdir(cage.folder); /* nobody is left in it */
    }
    _exit(EXIT_SUCCESS);
}

/* --- zklock's side --------------------------------------------------------------------------- */

static pid_t keeper;
int keeper_socket = -1;

bool keeper_open(void)
{
    own_group = getpgrp();
    /* A job alone in the foreground gets the terminal, as a shell would give it; in a pipeline or a
     * script, which Ctrl-C ends as well, the terminal is shared. */
    keeper_has_terminal = own_group == getpid() && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) &&
                          tcgetpgrp(STDIN_FILENO) == own_group;
    lease_end_ns =
        mmap(NULL, sizeof *lease_end_ns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (lease_end_ns == MAP_FAILED) {
        cli_error("no memory: %s; raise the limit (ulimit -v)", strerror(errno));
        return false;
    }
    keeper = process_start("zklock-keeper", &keeper_socket, keeper_main);
    return keeper > 0;
}

bool keeper_orphaned(void)
{
    struct process row = {.parent = getppid()};
    char pid[16];
    bool found = true;
    while (found && row.parent > 0 && getpgid(row.parent) == own_group) {
        snprintf(pid, sizeof pid, "%d", (int)row.parent);
        found = read_process(pid, &row);
    }
    return !found || row.parent == 0 || getsid(row.parent) != getsid(0);
}

void keeper_lease(int64_t end_ns, int64_t doubt_ns)
{
    int64_t before_ns = atomic_load(lease_end_ns);
    bool shortened = end_ns + doubt_ns < before_ns - ROUNDING_NS;
    if (end_ns > before_ns || shortened) {
        atomic_store(lease_end_ns, end_ns);
    }
    if (shortened) {
        keeper_order(KEEPER_LOOK, 0); /* its timer may be too late now */
    }
}

bool keeper_order(enum keeper_order kind, int number)
{
    const struct order order = {.kind = kind, .number = number};
    if (kind == KEEPER_STOP || signals_is_end(number)) {
        kill(keeper, SIGCONT); /* who is stopped neither ends CMD nor sees its end */
    }
    return send(keeper_socket, &order, sizeof order, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
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
    /* Waits for a keeper that is stopped. Meanwhile nothing enforces the end of the lease. */
    send(keeper_socket, &start, sizeof start, MSG_NOSIGNAL);
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
        const struct process *refused = descendants_signal(getpid(), 0, SIGKILL).refused;
        if (refused && !reported) {
            reported = true;
            moment.tv_nsec = KILL_REFUSED_NS;
            cli_error("process %d runs as another user and cannot be stopped: waiting for its end",
                      (int)refused->pid);
        }
        nanosleep(&moment, NULL);
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
        }
    } while (pid == 0);
}

void keeper_close(void)
{
    close(keeper_socket);
    if (waitpid(keeper, NULL, WNOHANG) == 0) { /* not waited for by keeper_clear_up */
        kill(keeper, SIGCONT);
        waitpid(keeper, NULL, 0);
    }
}
