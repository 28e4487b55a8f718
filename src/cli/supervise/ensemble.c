#include "supervise/ensemble.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ask.h"
#include "clock.h"

#define MAIN_CLASS "org.apache.zookeeper.server.quorum.QuorumPeerMain"
#define ANSWER_MS 500

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

bool ensemble_start(struct ensemble *ensemble, const struct ensemble_spec *spec, const char *folder,
                    bool loud)
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

bool ensemble_serves(const struct ensemble *ensemble)
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

int ensemble_reap(struct ensemble *ensemble)
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

void ensemble_respawn(struct ensemble *ensemble)
{
    for (int i = 0; ensemble->spec->respawn_ms >= 0 && i < ensemble->spec->servers; i++) {
        struct ensemble_server *server = &ensemble->servers[i];
        if (server->pid == 0 &&
            clock_ms(CLOCK_MONOTONIC) - server->died_ms >= ensemble->spec->respawn_ms) {
            start_server(ensemble, i, false);
        }
    }
}

void ensemble_stop(struct ensemble *ensemble)
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
