/* cmd_sandbox.c - a throw-away ZooKeeper for one command. */
#include <limits.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

#include "queues.h"
#include "supervise/supervise.h"

#define ORPHAN_MS 5000 /* CMD may take this long to end when our parent has ended */

static int settings_count;

static struct {
    int signals; /* signalfd */
    int parent;  /* pidfd of the process that started us; -1: none */
    pid_t child; /* CMD; 0: none */
} sandbox;

static bool take_servers(const char *value)
{
    if (strcmp(value, "1") != 0 && strcmp(value, "3") != 0) {
        cli_error("-n: '%s': a sandbox has 1 server or 3", value);
        return false;
    }
    guardian_order.servers = value[0] - '0';
    return true;
}

static bool sets(const char *setting, const char *key)
{
    size_t length = strcspn(setting, " \t=:");
    return length == strlen(key) && memcmp(setting, key, length) == 0;
}

static bool take_setting(const char *value)
{
    if (settings_count == GUARDIAN_SETTINGS_MAX || !strchr(value, '=')) {
        cli_error("-C: '%s': want KEY=VALUE, %d times at most", value, GUARDIAN_SETTINGS_MAX);
        return false;
    }
    if (sets(value, "tickTime")) {
        cli_error("-C: '%s': CMD's zklock must know it, too; use zklock --tick DUR sandbox", value);
        return false;
    }
    if (sets(value, "4lw.commands.whitelist") && !strchr(value, '*') && !strstr(value, "srvr")) {
        cli_error("-C: '%s': the sandbox itself needs srvr; add it to the list", value);
        return false;
    }
    guardian_order.settings[settings_count++] = value;
    return true;
}

static const struct cli_option options[] = {
    OPTION_TAKEN("number", 'n', "N", take_servers, "how many servers: 1 or 3 (1)"),
    OPTION_TAKEN("config", 'C', "KEY=VALUE", take_setting,
                 "a further line for zoo.cfg; may be repeated"),
    OPTION_DURATION("respawn", '\0', &guardian_order.respawn_ms, 0, CLI_LONGEST_MS,
                    "start a server that died again, after DUR"),
    {0},
};

/* --- what the servers need, looked for before anything is started ----------------------------- */

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

static bool find_parts(void)
{
    static char java[PATH_MAX + sizeof "/bin/java"], absolute[PATH_MAX];
    char absolute_home[PATH_MAX];
    const char *home = getenv("JAVA_HOME"), *jars = getenv("ZKLOCK_SANDBOX_JARS");
    /* Servers work in another directory. What is not there is named by have_jar(). */
    home = home && *home ? realpath(home, absolute_home) : NULL;
    snprintf(java, sizeof java, "%s/bin/java", home ? home : "");
    guardian_order.java = home && access(java, X_OK) == 0 ? java : "java";
    jars = jars && *jars ? jars : "/usr/share/java";
    guardian_order.jars = realpath(jars, absolute) ? absolute : jars;
    if (execute_check(guardian_order.java) != 0) {
        cli_error("sandbox: no java in $JAVA_HOME or $PATH; on Debian: apt-get install "
                  "default-jre-headless");
        return false;
    }
    return have_jar(guardian_order.jars, "zookeeper.jar", "zookeeper") &&
           have_jar(guardian_order.jars, "slf4j-nop.jar", "libslf4j-java");
}

/* --- CMD ------------------------------------------------------------------------------------- */

static bool start_command(const char **argv)
{
    pid_t self = getpid();
    sandbox.child = fork();
    if (sandbox.child == 0) {
        char pids[64] = "";
        size_t used = 0;
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != self) {
            _exit(EXIT_FAILED);
        }
        /* What tests of failures need: whom to stop and where to look. */
        for (int i = 0; i < guardian_order.servers; i++) {
            used += (size_t)snprintf(pids + used, sizeof pids - used, "%s%d", i ? " " : "",
                                     (int)guardian_report.pids[i]);
        }
        process_set_servers(guardian_report.servers);
        setenv("ZKLOCK_SANDBOX_PIDS", pids, 1);
        setenv("ZKLOCK_SANDBOX_DIR", guardian_report.folder, 1);
        sigprocmask(SIG_SETMASK, &process_mask, NULL);
        int reason = execute((const char *const *)argv);
        cli_error("sandbox: %s: %s", argv[0], strerror(reason));
        _exit(reason == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE);
    }
    if (sandbox.child < 0) {
        cli_error("sandbox: cannot start %s: %s", argv[0], strerror(errno));
    }
    return sandbox.child > 0;
}

/* --- what happens meanwhile ---------------------------------------------------------------------
 */

/* One typed on a terminal reached CMD by itself: it is of our process group. */
static int on_signal(void)
{
    struct signalfd_siginfo signal;
    int status = 0;
    if (read(sandbox.signals, &signal, sizeof signal) != (ssize_t)sizeof signal) {
        return CLI_GO_ON;
    }
    if (signal.ssi_signo == SIGCHLD) {
        if (sandbox.child == 0 || waitpid(sandbox.child, &status, WNOHANG) != sandbox.child) {
            return CLI_GO_ON;
        }
        return WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
    }
    if (sandbox.child == 0) {
        return EXIT_SIGNAL + (int)signal.ssi_signo;
    }
    signals_interrupted |= signal.ssi_signo == SIGINT && signal.ssi_code == SI_KERNEL;
    if (signal.ssi_code != SI_KERNEL) {
        kill(sandbox.child, (int)signal.ssi_signo);
    }
    return CLI_GO_ON;
}

/* Until the servers serve (`starting`); else until CMD, or whatever ends a sandbox without one. */
static int wait_for(bool starting)
{
    int timeout_ms = -1, code = CLI_GO_ON;
    while (code == CLI_GO_ON) {
        struct pollfd fds[] = {{.fd = sandbox.signals, .events = POLLIN},
                               {.fd = guardian_socket, .events = POLLIN},
                               {.fd = sandbox.parent, .events = POLLIN}};
        int ready = poll(fds, 3, timeout_ms);
        if (ready > 0 && fds[0].revents) {
            code = on_signal();
        } else if (ready > 0 && fds[1].revents && starting) {
            return CLI_GO_ON;
        } else if (ready > 0 && fds[1].revents) { /* its report was read: it has died */
            cli_error("sandbox: the guardian process was killed, and the servers with it");
            guardian_socket = -1;
            code = sandbox.child ? CLI_GO_ON : EXIT_FAILED;
        } else if (ready > 0 && !sandbox.child) { /* our parent has ended */
            code = EXIT_SIGNAL + SIGHUP;
        } else if (ready > 0) { /* CMD gets TERM, some time, and KILL */
            sandbox.parent = -1;
            timeout_ms = ORPHAN_MS;
            kill(sandbox.child, SIGTERM);
        } else if (ready == 0) {
            kill(sandbox.child, SIGKILL);
        }
    }
    return code;
}

/* --- from the beginning to the end ------------------------------------------------------------ */

static bool print_servers(void)
{
    if (cli.json) {
        json_t *pids = json_array();
        for (int i = 0; i < guardian_order.servers; i++) {
            json_array_append_new(pids, json_integer(guardian_report.pids[i]));
        }
        return queues_print_json(json_pack("{s:s, s:o, s:s}", "servers", guardian_report.servers,
                                           "pids", pids, "folder", guardian_report.folder));
    }
    return printf("ZKLOCK_SERVERS=%s\n", guardian_report.servers) > 0 && cli_flush();
}

static int run(const char **words)
{
    const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD};
    int64_t begin_ms = now_ms();
    sigset_t wanted;
    sandbox.parent =
        (int)syscall(SYS_pidfd_open, getppid(), 0); /* glibc has a function for it from 2.36 on */
    if (!find_parts()) {
        return EXIT_FAILED;
    }
    sigemptyset(&wanted);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        sigaddset(&wanted, numbers[i]);
    }
    sigprocmask(SIG_BLOCK, &wanted, &process_mask);
    signal(SIGCHLD, SIG_DFL); /* were it ignored, as it was by whoever started us, no child's end
                                 would be told */
    sandbox.signals = signalfd(-1, &wanted, SFD_CLOEXEC);
    if (!guardian_start()) {
        return EXIT_FAILED;
    }
    int code = wait_for(true);
    if (code == CLI_GO_ON && read(guardian_socket, &guardian_report, sizeof guardian_report) !=
                                 (ssize_t)sizeof guardian_report) {
        cli_error("sandbox: the guardian process ended while starting the servers");
        code = EXIT_FAILED;
    } else if (code == CLI_GO_ON && !*guardian_report.servers) {
        char *rest = guardian_report.problem; /* the last lines of a server's log are among it */
        cli_error("sandbox: %s", strsep(&rest, "\n"));
        for (char *line; (line = strsep(&rest, "\n"));) {
            cli_line(stderr, CLI_FOLD, "%s", line);
        }
        code = EXIT_FAILED;
    }
    if (code == CLI_GO_ON) {
        cli_detail("%s up after %lld ms, in %s", guardian_report.servers,
                   (long long)(now_ms() - begin_ms), guardian_report.folder);
        bool begun = *words ? start_command(words) : print_servers();
        code = begun ? wait_for(false) : EXIT_FAILED;
    }
    guardian_stop();
    return code;
}

const struct cli_command cmd_sandbox = {
    .name = "sandbox",
    .run = run,
    .arguments = "[-- CMD [ARG...]]",
    .summary = "throw-away ZooKeeper on free loopback ports",
    .examples = "  zklock sandbox -- zklock run demo -- date   # CMD finds it by $ZKLOCK_SERVERS\n"
                "  zklock sandbox -n 3                         # an ensemble, until Ctrl-C\n"
                "  zklock --tick 500ms sandbox -- make check   # quick expiry for tests\n",
    .notes = "Starts real ZooKeeper from Debian's packages (zookeeper, libslf4j-java), prints\n"
             "ZKLOCK_SERVERS=... and waits; with CMD, runs it and ends with its exit code.\n"
             "Servers and data are removed afterwards, however it ends: on signals, when its\n"
             "parent dies, when it is killed with -9. Data lies below $TMPDIR, else in\n"
             "memory.\n\n"
             "CMD also finds ZKLOCK_SANDBOX_PIDS (the servers' process ids) and\n"
             "ZKLOCK_SANDBOX_DIR. $ZKLOCK_SANDBOX_JARS names another folder of zookeeper.jar\n"
             "and slf4j-nop.jar.\n",
    .options = options,
};
