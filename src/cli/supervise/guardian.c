#include <dirent.h>
#include <ftw.h>
#include <limits.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "supervise/supervise.h"

#define MAIN_CLASS "org.apache.zookeeper.server.quorum.QuorumPeerMain"
#define ANSWER_MS 500
#define START_TRIES 3
#define START_MS 60000
#define PROBE_MS 10

enum { PORT_CLIENT, PORT_QUORUM, PORT_ELECTION, PORTS };

struct guardian_order guardian_order = {.servers = 1, .respawn_ms = -1};

static struct server {
    int ports[PORTS];
    int64_t died_ms; /* CLOCK_MONOTONIC */
} servers[GUARDIAN_SERVERS_MAX];
static int refused; /* errno, when the servers could not even be begun */
/* In the guardian its own state, where pid 0 means that the server does not run; in
 * `zklock sandbox` the last report that it received. */
struct guardian_report guardian_report;

/* --- a server -------------------------------------------------------------------------------- */

/* Binds a socket to each port and keeps it: nobody else is given that port then, now or when a
 * follower begins to lead, and a server may bind it as well, for both say SO_REUSEADDR and only one
 * listens. */
static bool pick_ports(void)
{
    static int sockets[GUARDIAN_SERVERS_MAX * PORTS], bound;
    int wanted = guardian_order.servers * PORTS, on = 1;
    bool fine = true;
    while (bound > 0) {
        close(sockets[--bound]);
    }
    while (fine && bound < wanted) {
        struct sockaddr_in address = {.sin_family = AF_INET};
        socklen_t size = sizeof address;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        fine = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
               bind(fd, (struct sockaddr *)&address, size) == 0 &&
               getsockname(fd, (struct sockaddr *)&address, &size) == 0;
        servers[bound / PORTS].ports[bound % PORTS] = ntohs(address.sin_port);
        sockets[bound++] = fd;
    }
    return fine;
}

/* A file of the server's folder, until the next call; "": the folder. */
static const char *path_of(int index, const char *name)
{
    static char path[GUARDIAN_PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%d/%s", guardian_report.folder, index + 1, name);
    return path;
}

static bool write_config(int index)
{
    char id[16];
    bool made = mkdir(path_of(index, ""), 0700) == 0 || errno == EEXIST;
    FILE *config = made ? fopen(path_of(index, "zoo.cfg"), "we") : NULL;
    if (!config) {
        return false;
    }
    /* Its own folder, in which it runs: Java reads this file as Latin-1 with escapes, so most paths
     * would be another one. Sessions of a minute whatever the tick; no fsync, nobody keeps this
     * data; no web server. */
    fprintf(config,
            "dataDir=../%d\nclientPort=%d\nclientPortAddress=127.0.0.1\ntickTime=%lld\n"
            "maxSessionTimeout=60000\nmaxClientCnxns=0\nforceSync=no\n"
            "admin.enableServer=false\n4lw.commands.whitelist=*\n",
            index + 1, servers[index].ports[PORT_CLIENT], (long long)cli.tick_ms);
    for (int i = 0; guardian_order.servers > 1 && i < guardian_order.servers; i++) {
        const int *ports = servers[i].ports;
        fprintf(config, "server.%d=127.0.0.1:%d:%d\n", i + 1, ports[PORT_QUORUM],
                ports[PORT_ELECTION]);
    }
    if (guardian_order.servers > 1) {
        fputs("initLimit=20\nsyncLimit=5\nstandaloneEnabled=false\nquorumListenOnAllIPs=false\n",
              config);
    }
    for (const char **setting = guardian_order.settings; *setting; setting++) {
        fprintf(config, "%s\n", *setting);
    }
    bool written = !ferror(config);
    written = fclose(config) == 0 && written;
    snprintf(id, sizeof id, "%d", index + 1);
    return written && newfile_write(path_of(index, "myid"), id, "\n");
}

/* Everything that a server writes stays in its folder, and it dies with the guardian. */
static bool start_server(int index, bool loud)
{
    pid_t self = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        char temporary[GUARDIAN_PATH_MAX + 64], class_path[2 * GUARDIAN_PATH_MAX];
        snprintf(class_path, sizeof class_path, "%s/zookeeper.jar:%s/slf4j-%s.jar",
                 guardian_order.jars, guardian_order.jars, loud ? "simple" : "nop");
        snprintf(temporary, sizeof temporary, "-Djava.io.tmpdir=%s", path_of(index, ""));
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != self || chdir(path_of(index, "")) != 0) {
            _exit(EXIT_FAILURE);
        }
        int log = open("log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        dup2(log, STDOUT_FILENO);
        dup2(log, STDERR_FILENO);
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        /* Small and quick to start; no hsperfdata file outside the folder; logs of 1 MB instead of
         * 64. */
        execlp(guardian_order.java, guardian_order.java, "-Xms16m", "-Xmx256m", "-XX:+UseSerialGC",
               "-XX:-UsePerfData", "-XX:TieredStopAtLevel=1", "-Dzookeeper.preAllocSize=1024",
               temporary, "-cp", class_path, MAIN_CLASS, "zoo.cfg", (char *)NULL);
        _exit(EXIT_FAILURE);
    }
    guardian_report.pids[index] = pid > 0 ? pid : 0;
    return pid > 0;
}

/* --- all of them ----------------------------------------------------------------------------- */

/* Kills them and waits for their end. */
static void stop_servers(void)
{
    for (int i = 0; i < guardian_order.servers; i++) {
        if (guardian_report.pids[i] > 0) {
            kill(guardian_report.pids[i], SIGKILL);
            waitpid(guardian_report.pids[i], NULL, 0);
            guardian_report.pids[i] = 0;
        }
    }
}

/* Notes servers that ended. Returns how many run. */
static int reap(void)
{
    int running = 0;
    for (int i = 0; i < guardian_order.servers; i++) {
        if (guardian_report.pids[i] > 0 &&
            waitpid(guardian_report.pids[i], NULL, WNOHANG) == guardian_report.pids[i]) {
            guardian_report.pids[i] = 0;
            servers[i].died_ms = now_ms();
        }
        running += guardian_report.pids[i] > 0;
    }
    return running;
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

/* Somebody else's server may sit on the port. Four-letter commands would tell, too, but the user
 * may have forbidden them (-C). */
static bool is_ours(int index)
{
    char path[64], wanted[64], target[64];
    int port = servers[index].ports[PORT_CLIENT];
    bool ours = false;
    unsigned long inode = listening_inode("/proc/net/tcp6", port);
    inode = inode ? inode : listening_inode("/proc/net/tcp", port);
    snprintf(path, sizeof path, "/proc/%d/fd", (int)guardian_report.pids[index]);
    snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    DIR *folder = inode ? opendir(path) : NULL;
    for (struct dirent *entry; folder && !ours && (entry = readdir(folder));) {
        ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
        ours = length > 0 && (size_t)length == strlen(wanted) &&
               memcmp(target, wanted, (size_t)length) == 0;
    }
    if (folder) {
        closedir(folder);
    }
    return ours;
}

/* True once every server serves: it is ours by its socket, and of three one leads and two follow.
 * Not every server that accepts a question answers it: one that starts may forget it. */
static bool serve(void)
{
    int leaders = 0;
    int followers = 0;
    for (int i = 0; i < guardian_order.servers; i++) {
        char port[16];
        snprintf(port, sizeof port, "%d", servers[i].ports[PORT_CLIENT]);
        /* Asked first: where nobody listens yet, that is sooner known. */
        const char *answer = ask("127.0.0.1", port, "srvr", ANSWER_MS);
        if (!answer || !is_ours(i)) {
            return false;
        }
        leaders += strstr(answer, "Mode: leader") || strstr(answer, "Mode: standalone");
        followers += strstr(answer, "Mode: follower") != NULL;
    }
    return leaders == 1 && followers == guardian_order.servers - 1;
}

/* --- their directory ------------------------------------------------------------------------- */

static bool make_below(const char *parent)
{
    char absolute[PATH_MAX]; /* CMD may work in another directory */
    int length =
        snprintf(guardian_report.folder, sizeof guardian_report.folder, "%s/zklock-sandbox-XXXXXX",
                 realpath(parent, absolute) ? absolute : parent);
    if (length < 0 || (size_t)length >= sizeof guardian_report.folder) {
        errno = ENAMETOOLONG;
        return false;
    }
    return mkdtemp(guardian_report.folder) != NULL;
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
static void remove_folder(void)
{
    nftw(guardian_report.folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* --- the guardian ---------------------------------------------------------------------------- */

enum start { STARTED, ABANDONED, FAILED, SILENT };

static enum start wait_serving(void)
{
    int64_t deadline = now_ms() + START_MS;
    while (!serve()) {
        if (reap() < guardian_order.servers) {
            return FAILED;
        }
        if (now_ms() > deadline) {
            return SILENT;
        }
        if (!process_sleep(PROBE_MS)) {
            return ABANDONED;
        }
    }
    return STARTED;
}

/* Somebody may take a port by its number: then a server ends, and others are tried. The last try
 * logs to folder/N/log, whose end goes into the message. */
static enum start start(void)
{
    enum start result = FAILED;
    for (int i = 1; i <= START_TRIES && result == FAILED && !refused; i++) {
        bool begun = pick_ports();
        for (int server = 0; begun && server < guardian_order.servers; server++) {
            begun = write_config(server) && start_server(server, i == START_TRIES);
        }
        if (begun) {
            result = wait_serving();
        } else {
            refused = errno;
        }
        if (result == FAILED) {
            stop_servers();
        }
    }
    return result;
}

static void report_problem(enum start started)
{
    char *problem = guardian_report.problem;
    size_t got = 0, size = sizeof guardian_report.problem;
    char words[768];
    if (started == SILENT) {
        snprintf(problem, size,
                 "the servers run, and do not serve within %d s; is it a setting of -C?",
                 START_MS / 1000);
        return;
    }
    if (refused) {
        snprintf(problem, size, "no server can be started in %s: %s; TMPDIR says where",
                 guardian_report.folder, strerror(refused));
        return;
    }
    /* The last whole lines of the first server's log. */
    FILE *log = fopen(path_of(0, "log"), "re");
    if (log) {
        bool cut = fseek(log, 1 - (long)sizeof words, SEEK_END) == 0;
        while (cut && !feof(log) && fgetc(log) != '\n') {
        }
        got = fread(words, 1, sizeof words - 1, log);
        got -= got > 0 && words[got - 1] == '\n';
        fclose(log);
    }
    words[got] = '\0';
    snprintf(problem, size, "the server did not start (%d tries)%s%s", START_TRIES,
             got > 0 ? "; it said:\n" : "", words);
}

static void guard_main(void)
{
    setsid();
    /* Nothing of the caller's may stay open here: a reader of its output must see the end when the
     * caller ends. The socket is 3 from now on. */
    int null = open("/dev/null", O_RDWR), high = fcntl(process_socket, F_DUPFD, 4);
    if (null < 0 || high < 0) {
        _exit(EXIT_FAILURE);
    }
    for (int fd = 0; fd <= 2; fd++) {
        dup2(null, fd);
    }
    process_socket = dup2(high, 3);
    fcntl(process_socket, F_SETFD, FD_CLOEXEC);
    /* glibc has a function for it from 2.34 on, musl has none. */
    syscall(SYS_close_range, 4, ~0U, 0);
    if (!process_open_children()) {
        _exit(EXIT_FAILURE);
    }
    /* A directory for us alone below $TMPDIR, else /dev/shm (memory), else /tmp. */
    const char *wanted = getenv("TMPDIR");
    bool made =
        wanted && *wanted ? make_below(wanted) : make_below("/dev/shm") || make_below("/tmp");
    enum start started = FAILED;
    if (!made) {
        snprintf(guardian_report.problem, sizeof guardian_report.problem,
                 "no temporary directory: %s; set TMPDIR", strerror(errno));
        guardian_report.folder[0] = '\0';
    } else if ((started = start()) == STARTED) {
        size_t used = 0, size = sizeof guardian_report.servers;
        for (int i = 0; i < guardian_order.servers; i++) {
            used += (size_t)snprintf(guardian_report.servers + used, size - used, "%s127.0.0.1:%d",
                                     i ? "," : "", servers[i].ports[PORT_CLIENT]);
        }
    } else if (started != ABANDONED) {
        report_problem(started);
    }
    send(process_socket, &guardian_report, sizeof guardian_report,
         MSG_NOSIGNAL); /* nobody may be there any more */
    int64_t respawn_ms = guardian_order.respawn_ms;
    while (started == STARTED && process_sleep(respawn_ms >= 0 ? 20 : -1)) {
        reap();
        for (int i = 0; respawn_ms >= 0 && i < guardian_order.servers; i++) {
            if (guardian_report.pids[i] == 0 && now_ms() - servers[i].died_ms >= respawn_ms) {
                start_server(i, false);
            }
        }
    }
    stop_servers();
    remove_folder();
    _exit(EXIT_SUCCESS);
}

/* --- the sandbox's side ---------------------------------------------------------------------- */

static pid_t guardian;
int guardian_socket = -1;

bool guardian_start(void)
{
    guardian = process_start("zklock-guard", &guardian_socket, guard_main);
    return guardian > 0;
}

void guardian_stop(void)
{
    int status = 0;
    close(guardian_socket);
    waitpid(guardian, &status, 0);
    if (WIFSIGNALED(status) && *guardian_report.folder) {
        remove_folder();
    }
}
