#include <limits.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#include "supervise/supervise.h"

struct supervised supervised;
int process_socket, process_children;
sigset_t process_mask;

pid_t process_start(const char *name, int *socket, void (*run)(void))
{
    int sockets[2];
    signal(SIGCHLD, SIG_DFL); /* were it ignored, no status would come, here as there */
    bool connected = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0;
    pid_t pid = connected ? fork() : -1;
    if (pid == 0) {
        sigset_t all;
        close(sockets[0]);
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, &process_mask);
        prctl(PR_SET_NAME, name);
        process_socket = sockets[1];
        run();
    }
    if (pid < 0) {
        cli_error("%s: cannot start this process: %s; raise the limit (ulimit -n for files, ulimit "
                  "-u and TasksMax= of the unit for processes)",
                  name, strerror(errno));
        return -1;
    }
    close(sockets[1]);
    *socket = sockets[0];
    return pid;
}

void process_close_standard_files(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    close(null);
}

bool process_open_children(void)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    process_children = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    return process_children >= 0;
}

void process_forget_children(void)
{
    struct signalfd_siginfo ignored;
    while (read(process_children, &ignored, sizeof ignored) > 0) {
    }
}

bool process_sleep(int timeout_ms)
{
    struct pollfd wake[] = {{.fd = process_socket, .events = POLLIN},
                            {.fd = process_children, .events = POLLIN}};
    poll(wake, 2, timeout_ms);
    process_forget_children();
    return wake[0].revents == 0;
}

void process_set_servers(const char *servers)
{
    char tick[32];
    snprintf(tick, sizeof tick, "%lldms", (long long)cli.tick_ms);
    setenv("ZKLOCK_SERVERS", servers, 1);
    setenv("ZKLOCK_TICK", tick, 1);
}

void process_set_lock(void)
{
    process_set_servers(cli.servers);
    setenv("ZKLOCK_PATH", supervised.path, 1);
    setenv("ZKLOCK_OBSERVER_MASTERS", cli.observer_masters, 1);
}

void process_set_grant(const char *node, int64_t token)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)token);
    setenv("ZKLOCK_NODE", node, 1);
    setenv("ZKLOCK_TOKEN", text, 1);
}

int execute_check(const char *name)
{
    struct stat status;
    const char *rest = getenv("PATH");
    int reason = ENOENT;
    rest = rest ? rest : "/bin:/usr/bin"; /* as execvp */
    if (strchr(name, '/')) {
        reason = stat(name, &status) != 0 ? errno : !S_ISREG(status.st_mode) ? EACCES : 0;
        return reason || access(name, X_OK) == 0 ? reason : errno;
    }
    for (bool more = true; reason != 0 && more;) { /* an empty one is the current directory */
        char file[PATH_MAX];
        size_t length = strcspn(rest, ":");
        int written =
            snprintf(file, sizeof file, "%.*s%s%s", (int)length, rest, length > 0 ? "/" : "", name);
        if (written > 0 && (size_t)written < sizeof file && stat(file, &status) == 0 &&
            S_ISREG(status.st_mode)) {
            reason = access(file, X_OK) == 0 ? 0 : errno;
        }
        more = rest[length] == ':';
        rest += length + more;
    }
    return reason;
}

/* execvp() says EACCES of a command that is nowhere when PATH has a folder that must not be looked
 * into. */
int execute(const char *const *argv)
{
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    int reason = errno;
    bool nowhere = reason == EACCES && !strchr(argv[0], '/') && execute_check(argv[0]) == ENOENT;
    return nowhere ? ENOENT : reason;
}
