#include "supervise/guardian.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ask.h"
#include "clock.h"

/* --- the servers ------------------------------------------------------------------------------ */

#define MAIN_CLASS "org.apache.zookeeper.server.quorum.QuorumPeerMain"
#define ANSWER_MS 500

struct ensemble_server {
    pid_t pid; /* 0: not running */
    int client_port, quorum_port, election_port;
    int64_t died_ms; /* CLOCK_MONOTONIC */
};

struct ensemble {
    const struct ensemble_spec *spec;
    char folder[ENSEMBLE_PATH_MAX];
    struct ensemble_server servers[ENSEMBLE_MAX];
};

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* Binds count sockets at once, so that the ports differ, and lets them go. Somebody may take one
 * before its server does: then that server ends, and the caller begins again. */
static bool pick_ports(int *ports, int count)
{
    int sockets[3 * ENSEMBLE_MAX];
    int bound = 0;
    for (; bound < count; bound++) {
        struct sockaddr_in address = loopback(0);
        socklen_t size = sizeof address;
        sockets[bound] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (sockets[bound] < 0) {
            break;
        }
        if (bind(sockets[bound], (struct sockaddr *)&address, size) != 0 ||
            getsockname(sockets[bound], (struct sockaddr *)&address, &size) != 0) {
            close(sockets[bound]);
            break;
        }
        ports[bound] = ntohs(address.sin_port);
    }
    for (int i = 0; i < bound; i++) {
        close(sockets[i]);
    }
    return bound == count;
}

static bool assign_ports(struct ensemble *ensemble)
{
    int ports[3 * ENSEMBLE_MAX] = {0};
    if (!pick_ports(ports, 3 * ensemble->spec->servers)) {
        return false;
    }
    const int *next = ports;
    for (int i = 0; i < ensemble->spec->servers; i++) {
        struct ensemble_server *server = &ensemble->servers[i];
        server->client_port = *next++;
        server->quorum_port = *next++;
        server->election_port = *next++;
    }
    return true;
}

static void write_settings(const struct ensemble *ensemble, int index, FILE *file)
{
    const struct ensemble_spec *spec = ensemble->spec;
    fprintf(file, "dataDir=%s/%d\nclientPort=%d\nclientPortAddress=127.0.0.1\n", ensemble->folder,
            index + 1, ensemble->servers[index].client_port);
    /* Sessions of a minute whatever the tick; no fsync, nobody keeps this data; no web server. */
    fprintf(file,
            "tickTime=%lld\nmaxSessionTimeout=60000\nmaxClientCnxns=0\nforceSync=no\nadmin."
            "enableServer=false\n",
            (long long)spec->tick_ms);
    fputs("4lw.commands.whitelist=*\n", file);
    for (int i = 0; spec->servers > 1 && i < spec->servers; i++) {
        fprintf(file, "server.%d=127.0.0.1:%d:%d\n", i + 1, ensemble->servers[i].quorum_port,
                ensemble->servers[i].election_port);
    }
    if (spec->servers > 1) {
        fputs("initLimit=20\nsyncLimit=5\nstandaloneEnabled=false\nquorumListenOnAllIPs=false\n",
              file);
    }
    for (int i = 0; spec->settings && spec->settings[i]; i++) {
        fprintf(file, "%s\n", spec->settings[i]);
    }
}

static FILE *create_file(const struct ensemble *ensemble, int index, const char *name)
{
    char path[ENSEMBLE_PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%d/%s", ensemble->folder, index + 1, name);
    return fopen(path, "we");
}

static bool write_config(const struct ensemble *ensemble, int index)
{
    char path[ENSEMBLE_PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%d", ensemble->folder, index + 1);
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return false;
    }
    FILE *config = create_file(ensemble, index, "zoo.cfg");
    FILE *id = create_file(ensemble, index, "myid");
    if (config) {
        write_settings(ensemble, index, config);
    }
    if (id) {
        fprintf(id, "%d\n", index + 1);
    }
    bool written = config && id && !ferror(config) && !ferror(id);
    written = (!config || fclose(config) == 0) && written;
    return (!id || fclose(id) == 0) && written;
}

/* In the child: becomes the server. Everything it writes stays in its folder, and it dies with the
 * guardian. */
static void become_server(const struct ensemble *ensemble, int index, bool loud, pid_t guardian)
{
    const struct ensemble_spec *spec = ensemble->spec;
    char folder[ENSEMBLE_PATH_MAX + 32];
    char class_path[2 * ENSEMBLE_PATH_MAX];
    char temporary[ENSEMBLE_PATH_MAX + 64];
    snprintf(folder, sizeof folder, "%s/%d", ensemble->folder, index + 1);
    snprintf(class_path, sizeof class_path, "%s/zookeeper.jar:%s/slf4j-%s.jar", spec->jars,
             spec->jars, loud ? "simple" : "nop");
    snprintf(temporary, sizeof temporary, "-Djava.io.tmpdir=%s", folder);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != guardian || chdir(folder) != 0) {
        _exit(EXIT_FAILURE);
    }
    int log = open("log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* Small and quick to start; no hsperfdata file outside the folder; logs of 1 MB instead of 64.
     */
    execlp(spec->java, spec->java, "-Xms16m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:-UsePerfData",
           "-XX:TieredStopAtLevel=1", "-Dzookeeper.preAllocSize=1024", temporary, "-cp", class_path,
           MAIN_CLASS, "zoo.cfg", (char *)NULL);
    _exit(EXIT_FAILURE);
}

static bool start_server(struct ensemble *ensemble, int index, bool loud)
{
    pid_t guardian = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        become_server(ensemble, index, loud, guardian);
    }
    ensemble->servers[index].pid = pid > 0 ? pid : 0;
    return pid > 0;
}

/* Kills them and waits for their end. */
static void ensemble_stop(struct ensemble *ensemble)
{
    for (int i = 0; i < ensemble->spec->servers; i++) {
        if (ensemble->servers[i].pid > 0) {
            kill(ensemble->servers[i].pid, SIGKILL);
        }
    }
    for (int i = 0; i < ensemble->spec->servers; i++) {
        if (ensemble->servers[i].pid > 0) {
            waitpid(ensemble->servers[i].pid, NULL, 0);
            ensemble->servers[i].pid = 0;
        }
    }
}

/* Picks ports, writes the configuration below folder, starts the servers. False, with errno, when
 * it cannot. loud: they log to folder/N/log. */
static bool ensemble_start(struct ensemble *ensemble, const struct ensemble_spec *spec,
                           const char *folder, bool loud)
{
    *ensemble = (struct ensemble){.spec = spec};
    snprintf(ensemble->folder, sizeof ensemble->folder, "%s", folder);
    if (!assign_ports(ensemble)) {
        return false;
    }
    for (int i = 0; i < spec->servers; i++) {
        if (!write_config(ensemble, i) || !start_server(ensemble, i, loud)) {
            int reason = errno;
            ensemble_stop(ensemble);
            errno = reason;
            return false;
        }
    }
    return true;
}

/* Not every server that accepts a question answers it: one that starts may forget it. */
static bool ask_server(const struct ensemble_server *server, const char *question, char *answer,
                       size_t size)
{
    const char *why;
    char port[16];
    snprintf(port, sizeof port, "%d", server->client_port);
    return ask("127.0.0.1", port, question, ANSWER_MS, answer, size, &why);
}

/* The inode of the socket that listens at port, by one of the tables in /proc/net; 0: none. */
static unsigned long listening_inode(const char *table, int port)
{
    char line[512];
    unsigned long found = 0;
    FILE *file = fopen(table, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        unsigned at, state;
        unsigned long inode;
        if (sscanf(line, " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %*u %*u %lu", &at,
                   &state, &inode) == 3 &&
            at == (unsigned)port && state == 0x0a) { /* TCP_LISTEN */
            found = inode;
        }
    }
    if (file) {
        fclose(file);
    }
    return found;
}

static bool has_open(pid_t pid, unsigned long inode)
{
    char path[64];
    char wanted[64];
    char target[64];
    bool has = false;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && !has && (entry = readdir(folder));) {
        ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
        has = length > 0 && (size_t)length == strlen(wanted) &&
              memcmp(target, wanted, (size_t)length) == 0;
    }
    if (folder) {
        closedir(folder);
    }
    return has;
}

/* Somebody else's server may sit on the port. Four-letter commands would tell, too, but the user
 * may have forbidden them (-C). */
static bool is_ours(const struct ensemble *ensemble, int index)
{
    const struct ensemble_server *server = &ensemble->servers[index];
    unsigned long inode = listening_inode("/proc/net/tcp6", server->client_port);
    inode = inode ? inode : listening_inode("/proc/net/tcp", server->client_port);
    return inode && has_open(server->pid, inode);
}

/* True once every server serves: it is ours by its socket, and of three one leads and two follow.
 */
static bool ensemble_serves(const struct ensemble *ensemble)
{
    int leaders = 0;
    int followers = 0;
    for (int i = 0; i < ensemble->spec->servers; i++) {
        char answer[4096];
        if (!is_ours(ensemble, i) ||
            !ask_server(&ensemble->servers[i], "srvr", answer, sizeof answer)) {
            return false;
        }
        leaders += strstr(answer, "Mode: leader") || strstr(answer, "Mode: standalone");
        followers += strstr(answer, "Mode: follower") != NULL;
    }
    return leaders == 1 && followers == ensemble->spec->servers - 1;
}

/* Notes servers that ended. Returns how many run. */
static int ensemble_reap(struct ensemble *ensemble)
{
    int running = 0;
    for (int i = 0; i < ensemble->spec->servers; i++) {
        struct ensemble_server *server = &ensemble->servers[i];
        if (server->pid > 0 && waitpid(server->pid, NULL, WNOHANG) == server->pid) {
            server->pid = 0;
            server->died_ms = clock_ms(CLOCK_MONOTONIC);
        }
        running += server->pid > 0;
    }
    return running;
}

/* Starts again whom respawn_ms says. */
static void ensemble_respawn(struct ensemble *ensemble)
{
    for (int i = 0; ensemble->spec->respawn_ms >= 0 && i < ensemble->spec->servers; i++) {
        struct ensemble_server *server = &ensemble->servers[i];
        if (server->pid == 0 &&
            clock_ms(CLOCK_MONOTONIC) - server->died_ms >= ensemble->spec->respawn_ms) {
            start_server(ensemble, i, false);
        }
    }
}

/* --- the guardian ----------------------------------------------------------------------------- */

#define START_TRIES 3
#define START_MS 60000
#define PROBE_MS 10

static bool make_below(const char *parent, char *path, size_t size)
{
    int length = snprintf(path, size, "%s/zklock-sandbox-XXXXXX", parent);
    if (length < 0 || (size_t)length >= size) {
        errno = ENAMETOOLONG;
        return false;
    }
    return mkdtemp(path) != NULL;
}

/* A directory for us alone below $TMPDIR, else /dev/shm (memory), else /tmp. False, with errno. */
static bool make_folder(char *path, size_t size)
{
    const char *wanted = getenv("TMPDIR");
    if (wanted && *wanted) {
        return make_below(wanted, path, size);
    }
    return make_below("/dev/shm", path, size) || make_below("/tmp", path, size);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    remove(path);
    return 0;
}

/* With everything in it, as far as it can be removed. */
static void remove_folder(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* The guardian's own side. */
struct guard {
    struct pollfd wake[2]; /* the lifeline, children */
    struct ensemble ensemble;
    char folder[ENSEMBLE_PATH_MAX];
    int refused; /* errno, when the servers could not even be begun */
};

enum start { STARTED, ABANDONED, FAILED, SILENT };

/* Sleeps until the time, a child's end, or the end of `zklock sandbox`: false then. */
static bool sleep_on(struct guard *guard, int timeout_ms)
{
    struct signalfd_siginfo ignored;
    poll(guard->wake, 2, timeout_ms);
    while (read(guard->wake[1].fd, &ignored, sizeof ignored) > 0) {
    }
    return guard->wake[0].revents == 0;
}

static enum start wait_serving(struct guard *guard)
{
    int64_t deadline = clock_ms(CLOCK_MONOTONIC) + START_MS;
    while (!ensemble_serves(&guard->ensemble)) {
        if (ensemble_reap(&guard->ensemble) < guard->ensemble.spec->servers) {
            return FAILED;
        }
        if (clock_ms(CLOCK_MONOTONIC) > deadline) {
            return SILENT;
        }
        if (!sleep_on(guard, PROBE_MS)) {
            return ABANDONED;
        }
    }
    return STARTED;
}

/* A port may be taken between its choice and its use: then a server ends, and others are tried. The
 * last try writes a log, whose end goes into the message. */
static enum start start(struct guard *guard, const struct ensemble_spec *spec)
{
    enum start result = FAILED;
    for (int i = 1; i <= START_TRIES && result == FAILED; i++) {
        if (!ensemble_start(&guard->ensemble, spec, guard->folder, i == START_TRIES)) {
            guard->refused = errno;
            return FAILED;
        }
        result = wait_serving(guard);
        if (result == FAILED || result == SILENT) {
            ensemble_stop(&guard->ensemble);
        }
    }
    return result;
}

/* The last whole lines of the first server's log. */
static void read_log(const struct guard *guard, char *text, size_t size)
{
    char path[ENSEMBLE_PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/1/log", guard->folder);
    FILE *file = fopen(path, "re");
    size_t got = 0;
    if (file) {
        fseek(file, 0, SEEK_END);
        long length = ftell(file);
        fseek(file, length >= (long)size ? length - (long)size + 1 : 0, SEEK_SET);
        if (length >= (long)size) {
            while (!feof(file) && fgetc(file) != '\n') {
            }
        }
        got = fread(text, 1, size - 1, file);
        fclose(file);
    }
    got -= got > 0 && text[got - 1] == '\n';
    text[got] = '\0';
}

static void report_serving(const struct guard *guard, struct guardian_report *report)
{
    report->serving = true;
    size_t used = 0;
    for (int i = 0; i < guard->ensemble.spec->servers; i++) {
        const struct ensemble_server *server = &guard->ensemble.servers[i];
        report->pids[i] = server->pid;
        used += (size_t)snprintf(report->servers + used, sizeof report->servers - used,
                                 "%s127.0.0.1:%d", i ? "," : "", server->client_port);
    }
}

static void report_problem(const struct guard *guard, enum start started, char *problem,
                           size_t size)
{
    char words[768];
    if (started == SILENT) {
        snprintf(problem, size,
                 "the servers run, and do not serve within %d s; is it a setting of -C?",
                 START_MS / 1000);
        return;
    }
    if (guard->refused) {
        snprintf(problem, size, "no server can be started in %s: %s; TMPDIR says where",
                 guard->folder, strerror(guard->refused));
        return;
    }
    read_log(guard, words, sizeof words);
    snprintf(problem, size, "the server did not start (%d tries)%s%s", START_TRIES,
             *words ? "; it said:\n" : "", words);
}

static void report(const struct guard *guard, enum start started, int fd)
{
    struct guardian_report report = {.serving = false};
    memcpy(report.folder, guard->folder, sizeof report.folder);
    if (started == STARTED) {
        report_serving(guard, &report);
    } else {
        report_problem(guard, started, report.problem, sizeof report.problem);
    }
    _Static_assert(sizeof report <= 4096, "one write to a pipe is whole up to PIPE_BUF");
    if (write(fd, &report, sizeof report) < 0) {
        /* The other side is gone, which the lifeline tells too. */
    }
}

static void watch_over(struct guard *guard)
{
    do {
        ensemble_reap(&guard->ensemble);
        ensemble_respawn(&guard->ensemble);
    } while (sleep_on(guard, guard->ensemble.spec->respawn_ms >= 0 ? 20 : -1));
}

/* Nothing of the caller's may stay open here: a reader of its output must see the end when the
 * caller ends. */
static void keep_only(int *lifeline, int *reports)
{
    int null = open("/dev/null", O_RDWR);
    int first = fcntl(*lifeline, F_DUPFD, 16);
    int second = fcntl(*reports, F_DUPFD, 16);
    for (int fd = 0; fd <= 2; fd++) {
        dup2(null, fd);
    }
    *lifeline = dup2(first, 3);
    *reports = dup2(second, 4);
    fcntl(3, F_SETFD, FD_CLOEXEC);
    fcntl(4, F_SETFD, FD_CLOEXEC);
    /* glibc has a function for it from 2.34 on, musl has none. */
    syscall(SYS_close_range, 5, ~0U, 0);
}

static void guard_main(const struct ensemble_spec *spec, int lifeline, int reports)
{
    struct guard guard = {.folder = ""};
    sigset_t all;
    sigset_t children;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    setsid();
    prctl(PR_SET_NAME, "zklock-guard");
    keep_only(&lifeline, &reports);
    guard.wake[0] = (struct pollfd){.fd = lifeline, .events = POLLIN};
    guard.wake[1] = (struct pollfd){.fd = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK),
                                    .events = POLLIN};
    if (!make_folder(guard.folder, sizeof guard.folder)) {
        struct guardian_report refused = {.serving = false};
        snprintf(refused.problem, sizeof refused.problem, "no temporary directory: %s; set TMPDIR",
                 strerror(errno));
        _exit(write(reports, &refused, sizeof refused) < 0);
    }
    enum start started = start(&guard, spec);
    if (started != ABANDONED) {
        report(&guard, started, reports);
    }
    if (started == STARTED) {
        watch_over(&guard);
    }
    ensemble_stop(&guard.ensemble);
    remove_folder(guard.folder);
    _exit(EXIT_SUCCESS);
}

bool guardian_start(struct guardian *guardian, const struct ensemble_spec *spec)
{
    int lifeline[2];
    int reports[2];
    if (pipe2(lifeline, O_CLOEXEC) != 0) {
        return false;
    }
    if (pipe2(reports, O_CLOEXEC) != 0) {
        close(lifeline[0]);
        close(lifeline[1]);
        return false;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(lifeline[1]);
        close(reports[0]);
        guard_main(spec, lifeline[0], reports[1]);
    }
    close(lifeline[0]);
    close(reports[1]);
    *guardian = (struct guardian){.pid = pid, .lifeline = lifeline[1], .reports = reports[0]};
    return pid > 0;
}

void guardian_stop(struct guardian *guardian, const char *folder)
{
    int status = 0;
    close(guardian->lifeline);
    close(guardian->reports);
    waitpid(guardian->pid, &status, 0);
    if (WIFSIGNALED(status) && folder && *folder) {
        remove_folder(folder);
    }
}
