/* cmd_sandbox.c - a throw-away ZooKeeper: started, used, gone. */
#include <errno.h>
#include <limits.h>
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
#include "supervise/execute.h"
#include "supervise/guardian.h"
#include "options.h"
#include "queues.h"

#define SETTINGS_MAX 32
#define ORPHAN_MS 5000 /* CMD may take this long to end when our parent is gone */

enum { OPTION_RESPAWN = OPTION_FIRST_OWN };

static const struct poptOption options[] = {
    OPTION_VALUE("number", 'n', 'n', "how many servers: 1 or 3 (1)", "N"),
    OPTION_VALUE("config", 'C', 'C', "a further line for zoo.cfg; may be repeated", "KEY=VALUE"),
    OPTION_VALUE("respawn", '\0', OPTION_RESPAWN, "start a server that died again, after DUR",
                 "DUR"),
    OPTION_END,
};

struct sandbox {
    struct ensemble_spec spec;
    const char *settings[SETTINGS_MAX + 1];
    int settings_count;
    char java[PATH_MAX];
    struct guardian guardian;
    struct guardian_report report;
    sigset_t inherited; /* the signal mask CMD gets back */
    int signals;        /* signalfd */
    int parent;         /* pidfd of whoever started us; -1: nobody to watch */
    pid_t child;        /* CMD; 0: none */
};

/* That a server serves shows in its answer to srvr. */
static bool forbids_srvr(const char *setting)
{
    static const char key[] = "4lw.commands.whitelist";
    size_t length = strcspn(setting, " \t=:");
    if (length != sizeof key - 1 || memcmp(setting, key, length) != 0) {
        return false;
    }
    return !strchr(setting + length, '*') && !strstr(setting + length, "srvr");
}

static bool take(void *into, int option, const char *value)
{
    struct sandbox *sandbox = into;
    if (option == 'n') {
        if (strcmp(value, "1") != 0 && strcmp(value, "3") != 0) {
            cli_error("-n: '%s': a sandbox has 1 server or 3", value);
            return false;
        }
        sandbox->spec.servers = value[0] - '0';
        return true;
    }
    if (option == 'C') {
        if (sandbox->settings_count == SETTINGS_MAX || !strchr(value, '=')) {
            cli_error("-C: '%s': want KEY=VALUE, %d times at most", value, SETTINGS_MAX);
            return false;
        }
        if (forbids_srvr(value)) {
            cli_error("-C: '%s': the sandbox itself needs srvr; add it to the list", value);
            return false;
        }
        sandbox->settings[sandbox->settings_count++] = value;
        return true;
    }
    return cli_take_duration("--respawn", value, &sandbox->spec.respawn_ms);
}

static bool find_in_path(const char *name, char *found, size_t size)
{
    const char *rest = getenv("PATH");
    while (rest && *rest) {
        size_t length = strcspn(rest, ":");
        snprintf(found, size, "%.*s/%s", (int)length, rest, name);
        if (length > 0 && access(found, X_OK) == 0) {
            return true;
        }
        rest += length + (rest[length] == ':');
    }
    return false;
}

static bool find_java(char *found, size_t size)
{
    const char *home = getenv("JAVA_HOME");
    if (home && *home) {
        snprintf(found, size, "%s/bin/java", home);
        if (access(found, X_OK) == 0) {
            return true;
        }
    }
    if (find_in_path("java", found, size)) {
        return true;
    }
    cli_error(
        "sandbox: no java in $JAVA_HOME or $PATH; on Debian: apt-get install default-jre-headless");
    return false;
}

static bool have_jar(const char *folder, const char *name, const char *package)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (access(path, R_OK) == 0) {
        return true;
    }
    cli_error("sandbox: %s: %s; on Debian: apt-get install %s", path, strerror(errno), package);
    return false;
}

/* Everything the servers need, looked for before anything is started. */
static bool find_parts(struct sandbox *sandbox)
{
    const char *jars = getenv("ZKLOCK_SANDBOX_JARS");
    sandbox->spec.jars = jars && *jars ? jars : "/usr/share/java";
    sandbox->spec.java = sandbox->java;
    sandbox->spec.settings = sandbox->settings;
    sandbox->spec.tick_ms = cli.tick_ms;
    return find_java(sandbox->java, sizeof sandbox->java) &&
           have_jar(sandbox->spec.jars, "zookeeper.jar", "zookeeper") &&
           have_jar(sandbox->spec.jars, "slf4j-nop.jar", "libslf4j-java");
}

static void catch_signals(struct sandbox *sandbox)
{
    sigset_t wanted;
    sigemptyset(&wanted);
    const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        sigaddset(&wanted, numbers[i]);
    }
    sigprocmask(SIG_BLOCK, &wanted, &sandbox->inherited);
    signal(SIGCHLD, SIG_DFL); /* were it ignored, as it was by whoever started us, no child's end
                                 would be told */
    sandbox->signals = signalfd(-1, &wanted, SFD_CLOEXEC);
}

enum event { EVENT_SIGNAL, EVENT_CHILD, EVENT_ORPHANED, EVENT_GUARDIAN, EVENT_TIME };

/* Waits for the next thing of interest. EVENT_SIGNAL fills *signal. */
static enum event next_event(struct sandbox *sandbox, int timeout_ms,
                             struct signalfd_siginfo *signal)
{
    struct pollfd fds[] = {{.fd = sandbox->signals, .events = POLLIN},
                           {.fd = sandbox->guardian.reports, .events = POLLIN},
                           {.fd = sandbox->parent, .events = POLLIN}};
    while (poll(fds, 3, timeout_ms) < 0) {
    }
    if (fds[0].revents &&
        read(sandbox->signals, signal, sizeof *signal) == (ssize_t)sizeof *signal) {
        return signal->ssi_signo == SIGCHLD ? EVENT_CHILD : EVENT_SIGNAL;
    }
    if (fds[1].revents) {
        return EVENT_GUARDIAN;
    }
    return fds[2].revents ? EVENT_ORPHANED : EVENT_TIME;
}

/* The last lines of a server's log are among it. */
static void complain(char *problem)
{
    cli_error("sandbox: %s", strsep(&problem, "\n"));
    for (char *line; (line = strsep(&problem, "\n"));) {
        cli_line(stderr, CLI_FOLD, "%s", line);
    }
}

/* CLI_GO_ON once the servers serve, else the exit code. */
static int wait_serving(struct sandbox *sandbox)
{
    struct signalfd_siginfo signal;
    for (;;) {
        switch (next_event(sandbox, -1, &signal)) {
        case EVENT_SIGNAL:
            return EXIT_SIGNAL + (int)signal.ssi_signo;
        case EVENT_ORPHANED:
            return EXIT_SIGNAL + SIGHUP;
        case EVENT_GUARDIAN:
            if (read(sandbox->guardian.reports, &sandbox->report, sizeof sandbox->report) !=
                (ssize_t)sizeof sandbox->report) {
                cli_error("sandbox: the guardian process ended while starting the servers");
                return EXIT_FAILED;
            }
            if (!sandbox->report.serving) {
                complain(sandbox->report.problem);
                return EXIT_FAILED;
            }
            return CLI_GO_ON;
        default:
            break;
        }
    }
}

/* What tests of failures need: whom to stop and where to look. */
static void set_environment(const struct sandbox *sandbox)
{
    const struct guardian_report *report = &sandbox->report;
    char tick[32];
    char pids[64] = "";
    size_t used = 0;
    for (int i = 0; i < ENSEMBLE_MAX && report->pids[i] > 0; i++) {
        used += (size_t)snprintf(pids + used, sizeof pids - used, "%s%d", i ? " " : "",
                                 (int)report->pids[i]);
    }
    snprintf(tick, sizeof tick, "%lldms", (long long)sandbox->spec.tick_ms);
    setenv("ZKLOCK_SERVERS", report->servers, 1);
    setenv("ZKLOCK_TICK", tick, 1);
    setenv("ZKLOCK_SANDBOX_PIDS", pids, 1);
    setenv("ZKLOCK_SANDBOX_DIR", report->folder, 1);
}

static void become_command(const struct sandbox *sandbox, const char **argv, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {
        _exit(EXIT_FAILED);
    }
    set_environment(sandbox);
    sigprocmask(SIG_SETMASK, &sandbox->inherited, NULL);
    int reason = execute((const char *const *)argv);
    cli_error("sandbox: %s: %s", argv[0], strerror(reason));
    _exit(reason == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE);
}

/* One typed on a terminal reached CMD by itself: it is of our process group. */
static void forward(const struct sandbox *sandbox, const struct signalfd_siginfo *signal)
{
    if (signal->ssi_code != SI_KERNEL) {
        kill(sandbox->child, (int)signal->ssi_signo);
    }
}

static int exit_code_of(int status)
{
    return WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Waits for CMD. Whoever started us may vanish meanwhile: CMD is told, given a moment, and killed.
 */
static int wait_command(struct sandbox *sandbox)
{
    struct signalfd_siginfo signal;
    int status = 0;
    int timeout_ms = -1;
    for (;;) {
        switch (next_event(sandbox, timeout_ms, &signal)) {
        case EVENT_SIGNAL:
            forward(sandbox, &signal);
            break;
        case EVENT_CHILD:
            if (waitpid(sandbox->child, &status, WNOHANG) == sandbox->child) {
                return exit_code_of(status);
            }
            break;
        case EVENT_ORPHANED:
            kill(sandbox->child, SIGTERM);
            sandbox->parent = -1;
            timeout_ms = ORPHAN_MS;
            break;
        case EVENT_GUARDIAN:
            cli_error("sandbox: the guardian process was killed, and the servers with it");
            sandbox->guardian.reports = -1;
            break;
        case EVENT_TIME:
            kill(sandbox->child, SIGKILL);
            break;
        }
    }
}

static int run_command(struct sandbox *sandbox, const char **argv)
{
    pid_t self = getpid();
    sandbox->child = fork();
    if (sandbox->child < 0) {
        cli_error("sandbox: cannot start %s: %s", argv[0], strerror(errno));
        return EXIT_FAILED;
    }
    if (sandbox->child == 0) {
        become_command(sandbox, argv, self);
    }
    return wait_command(sandbox);
}

static bool say_where(const struct sandbox *sandbox)
{
    if (cli.json) {
        json_t *pids = json_array();
        for (int i = 0; i < ENSEMBLE_MAX && sandbox->report.pids[i] > 0; i++) {
            json_array_append_new(pids, json_integer(sandbox->report.pids[i]));
        }
        return queues_print_json(json_pack("{s:i, s:s, s:o, s:s}", "v", QUEUES_VERSION, "servers",
                                           sandbox->report.servers, "pids", pids, "folder",
                                           sandbox->report.folder));
    }
    return printf("ZKLOCK_SERVERS=%s\n", sandbox->report.servers) > 0 && fflush(stdout) == 0;
}

/* Without CMD: says where the servers are, and waits for the end. */
static int stand_by(struct sandbox *sandbox)
{
    struct signalfd_siginfo signal;
    if (!say_where(sandbox)) {
        return EXIT_FAILED; /* main says why */
    }
    for (;;) {
        switch (next_event(sandbox, -1, &signal)) {
        case EVENT_SIGNAL:
            return EXIT_SIGNAL + (int)signal.ssi_signo;
        case EVENT_ORPHANED:
            return EXIT_SIGNAL + SIGHUP;
        case EVENT_GUARDIAN:
            cli_error("sandbox: the guardian process was killed, and the servers with it");
            return EXIT_FAILED;
        default:
            break;
        }
    }
}

static int serve(struct sandbox *sandbox, const char **command)
{
    int64_t begin_ms = clock_ms(CLOCK_MONOTONIC);
    if (!guardian_start(&sandbox->guardian, &sandbox->spec)) {
        cli_error("sandbox: cannot start a process: %s", strerror(errno));
        return EXIT_FAILED;
    }
    int code = wait_serving(sandbox);
    if (code == CLI_GO_ON) {
        cli_detail("%s up after %lld ms, in %s", sandbox->report.servers,
                   (long long)(clock_ms(CLOCK_MONOTONIC) - begin_ms), sandbox->report.folder);
        code = command ? run_command(sandbox, command) : stand_by(sandbox);
    }
    guardian_stop(&sandbox->guardian, sandbox->report.folder);
    return code;
}

static int run(const struct cli_command *self, int argc, const char **argv)
{
    struct sandbox sandbox = {.spec = {.servers = 1, .respawn_ms = -1}};
    int count;
    const char **rest;
    sandbox.parent =
        (int)syscall(SYS_pidfd_open, getppid(), 0); /* glibc has a function for it from 2.36 on */
    int code = cli_parse(self, argc, argv, take, &sandbox, &count, &rest);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (!find_parts(&sandbox)) {
        return EXIT_FAILED;
    }
    catch_signals(&sandbox);
    return serve(&sandbox, count > 0 ? rest : NULL);
}

const struct cli_command cmd_sandbox = {
    .name = "sandbox",
    .run = run,
    .arguments = "[-- CMD [ARG...]]",
    .summary = "throw-away ZooKeeper on free loopback ports",
    .examples = "  zklock sandbox -- zklock run demo -- date   # CMD finds it by $ZKLOCK_SERVERS\n"
                "  zklock sandbox -n 3                         # an ensemble, until Ctrl-C\n"
                "  zklock --tick 500ms sandbox -- make check   # quick expiry for tests\n",
    .notes =
        "Starts real ZooKeeper from Debian's packages (zookeeper, libslf4j-java), prints "
        "ZKLOCK_SERVERS=... and\n"
        "waits; with CMD, runs it and ends with its exit code. Servers and data are gone "
        "afterwards, however it ends:\n"
        "on signals, when its parent dies, when it is killed with -9. Data lies below $TMPDIR, "
        "else in memory.\n\n"
        "CMD also finds ZKLOCK_SANDBOX_PIDS (the servers' process ids) and ZKLOCK_SANDBOX_DIR.\n"
        "$ZKLOCK_SANDBOX_JARS names another folder of zookeeper.jar and slf4j-nop.jar.\n",
    .options = options,
};
