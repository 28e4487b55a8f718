#include "ensemble.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "wait.h"

#define SERVERS_MAX 7
#define TEXT_MAX 512
#define INSTALLED_JARS "/usr/share/java"

struct server {
    pid_t pid;
    char host[16], client_host[16];
    bool observes;
    int client_port, quorum_port, election_port;
    char address[32];
    char dir[TEXT_MAX];
    char jars[TEXT_MAX]; /* the folder of the version that it runs */
};

struct ensemble {
    struct ensemble_options options;
    int count;
    char dir[TEXT_MAX / 2];
    char servers_text[TEXT_MAX];
    struct server servers[SERVERS_MAX];
};

static bool has_jar(const char *jars, const char *name)
{
    char path[TEXT_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", jars, name);
    return access(path, R_OK) == 0;
}

static const char *default_jars(void)
{
    const char *jars = getenv("ZKLOCK_TEST_JARS");
    return jars && *jars ? jars : INSTALLED_JARS;
}

static bool jars_complete(const char *jars)
{
    return has_jar(jars, "zookeeper.jar") && has_jar(jars, "zookeeper-jute.jar") && has_jar(jars, "slf4j-nop.jar");
}

bool ensemble_available(void)
{
    if (access("/usr/bin/java", X_OK) != 0) {
        return false;
    }
    if (!jars_complete(default_jars()) && getenv("ZKLOCK_TEST_JARS")) {
        fprintf(stderr, "ZKLOCK_TEST_JARS: %s: no server's jars in it\n", default_jars());
        exit(1); /* a developer who names a version does not want its tests skipped */
    }
    return jars_complete(default_jars());
}

/* --- files and ports ----------------------------------------------------------------------------------------------- */

union address {
    struct sockaddr any;
    struct sockaddr_in ip4;
    struct sockaddr_in6 ip6;
};

static socklen_t make_address(union address *address, const char *host, int port)
{
    memset(address, 0, sizeof *address);
    if (strchr(host, ':')) {
        address->ip6.sin6_family = AF_INET6;
        address->ip6.sin6_port = htons((uint16_t)port);
        inet_pton(AF_INET6, host, &address->ip6.sin6_addr);
        return sizeof address->ip6;
    }
    address->ip4.sin_family = AF_INET;
    address->ip4.sin_port = htons((uint16_t)port);
    inet_pton(AF_INET, host, &address->ip4.sin_addr);
    return sizeof address->ip4;
}

/* Below the range from which the kernel takes ports for outgoing connections. */
static int free_port(const char *host)
{
    static unsigned next;
    union address address;
    for (int tries = 0; tries < 1000; tries++) {
        int port = 12000 + (int)(((unsigned)getpid() * 97U + next++) % 18000U);
        socklen_t length = make_address(&address, host, port);
        int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int one = 1;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        bool taken = bind(fd, &address.any, length) != 0;
        close(fd);
        if (!taken) {
            return port;
        }
    }
    return 0;
}

static FILE *create_file(const char *dir, const char *name)
{
    char path[TEXT_MAX + 16];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "we");
    if (!file) {
        perror(path);
    }
    return file;
}

static int remove_entry(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    return remove(path);
}

static void remove_tree(const char *dir)
{
    nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Data of test programs that died: theirs is the pid in the name. */
static void remove_orphans(const char *parent)
{
    DIR *dir = opendir(parent);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        int pid = 0;
        char path[TEXT_MAX];
        if (sscanf(entry->d_name, "zklock-test-%d-", &pid) == 1 && pid > 0 && kill(pid, 0) != 0 && errno == ESRCH) {
            snprintf(path, sizeof path, "%s/%s", parent, entry->d_name);
            remove_tree(path);
        }
    }
    if (dir) {
        closedir(dir);
    }
}

static bool configure(struct ensemble *e, int index)
{
    const struct ensemble_options *o = &e->options;
    struct server *s = &e->servers[index];
    FILE *file = mkdir(s->dir, 0700) == 0 ? create_file(s->dir, "myid") : NULL;
    if (!file || fprintf(file, "%d\n", index + 1) < 0 || fclose(file) != 0 ||
        !(file = create_file(s->dir, "zoo.cfg"))) {
        return false;
    }
    fprintf(file,
            "tickTime=%d\ndataDir=%s\nclientPort=%d\nclientPortAddress=%s\nadmin.enableServer=false\n"
            "4lw.commands.whitelist=*\nmaxClientCnxns=0\nforceSync=no\nminSessionTimeout=%d\n"
            "maxSessionTimeout=60000\ninitLimit=20\nsyncLimit=4\n%s\n",
            o->tick_ms, s->dir, s->client_port, s->client_host, 2 * o->tick_ms, o->extra ? o->extra : "");
    for (int i = 0; e->count > 1 && i < e->count; i++) {
        const struct server *other = &e->servers[i];
        fprintf(file, "server.%d=%s:%d:%d%s\n", i + 1, other->host, other->quorum_port, other->election_port,
                other->observes ? ":observer" : "");
    }
    if (o->master_port) {
        fprintf(file, "observerMasterPort=%d\n", s->observes ? o->observer_port : o->master_port);
    }
    if (s->observes) {
        fputs("peerType=observer\n", file);
    }
    if (e->count > 1) {
        fputs("standaloneEnabled=false\nquorumListenOnAllIPs=false\n", file);
    }
    return fclose(file) == 0;
}

/* --- processes ----------------------------------------------------------------------------------------------------- */

static void become_server(const struct server *s, const char *argument, bool logs, pid_t parent)
{
    char config[TEXT_MAX + 16], log[TEXT_MAX + 16], class_path[3 * TEXT_MAX + 64];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1);
    }
    snprintf(config, sizeof config, "%s/zoo.cfg", s->dir);
    snprintf(log, sizeof log, "%s/output", s->dir);
    /* Debian's zookeeper.jar names Jute by its installed path: for another version, its own comes first. Without it the path is that of
     * the sandbox, whose classes are archived. */
    snprintf(class_path, sizeof class_path, "%s/zookeeper-jute.jar:%s/zookeeper.jar:%s/slf4j-%s.jar", s->jars, s->jars,
             s->jars, logs ? "simple" : "nop");
    const char *path = strcmp(s->jars, INSTALLED_JARS) == 0 ? strchr(class_path, ':') + 1 : class_path;
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    int in = open("/dev/null", O_RDONLY);
    dup2(in, 0);
    dup2(out, 1);
    dup2(out, 2);
    syscall(SYS_close_range, 3, ~0U, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execl("/usr/bin/java", "java", "-Xmx192m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-XX:TieredStopAtLevel=1",
          "-Dzookeeper.preAllocSize=1024", argument, "-cp", path, "org.apache.zookeeper.server.quorum.QuorumPeerMain",
          config, (char *)NULL);
    _exit(127);
}

bool ensemble_restart(struct ensemble *e, int i)
{
    struct server *s = &e->servers[i];
    pid_t parent = getpid();
    s->pid = fork();
    if (s->pid == 0) {
        become_server(s, e->options.java ? e->options.java : "-Dzklock.test=true", e->options.logs, parent);
    }
    if (s->pid < 0) {
        perror("fork");
        s->pid = 0;
    }
    return s->pid > 0;
}

bool ensemble_restart_with_jars(struct ensemble *e, int i, const char *jars)
{
    if (!jars_complete(jars)) {
        fprintf(stderr, "ensemble: no server's jars in %s\n", jars);
        return false;
    }
    snprintf(e->servers[i].jars, sizeof e->servers[i].jars, "%.500s", jars);
    return ensemble_restart(e, i);
}

void ensemble_kill(struct ensemble *e, int i)
{
    struct server *s = &e->servers[i];
    if (s->pid > 0) {
        kill(s->pid, SIGKILL);
        waitpid(s->pid, NULL, 0);
        s->pid = 0;
    }
}

void ensemble_freeze(struct ensemble *e, int i)
{
    if (e->servers[i].pid > 0) {
        kill(e->servers[i].pid, SIGSTOP);
        waitpid(e->servers[i].pid, NULL, WUNTRACED);
    }
}

void ensemble_thaw(struct ensemble *e, int i)
{
    if (e->servers[i].pid > 0) {
        kill(e->servers[i].pid, SIGCONT);
    }
}

/* --- questions ----------------------------------------------------------------------------------------------------- */

static int dial(const struct server *s, time_t seconds)
{
    union address address;
    struct timeval limit = {.tv_sec = seconds};
    socklen_t length = make_address(&address, s->client_host, s->client_port);
    int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(fd, &address.any, length) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static char *ask_within(struct ensemble *e, int i, const char *word, time_t seconds)
{
    int fd = dial(&e->servers[i], seconds);
    if (fd < 0) {
        return NULL;
    }
    size_t size = 0;
    char *text = NULL;
    FILE *stream = fdopen(fd, "r");
    bool whole = send(fd, word, strlen(word), MSG_NOSIGNAL) > 0 && getdelim(&text, &size, '\0', stream) > 0 &&
                 !ferror(stream); /* half an answer is none */
    fclose(stream);
    if (!whole) {
        free(text);
        return NULL;
    }
    return text;
}

char *ensemble_ask(struct ensemble *e, int i, const char *word)
{
    return ask_within(e, i, word, 20);
}

/* A server that has just begun to listen may forget whom it has accepted: so it is soon asked again. */
static bool answers_with(struct ensemble *e, int i, const char *word, const char *text, bool want)
{
    char *answer = ask_within(e, i, word, 1);
    bool found = answer && (strstr(answer, text) != NULL) == want;
    free(answer);
    if (!found) {
        poll(NULL, 0, 10); /* it cannot tell us when it is so */
    }
    return found;
}

bool ensemble_ask_until(struct ensemble *e, int i, const char *word, const char *text, bool want, int64_t timeout_ms)
{
    return WITHIN(timeout_ms, answers_with(e, i, word, text, want));
}

int ensemble_version(struct ensemble *e, int i)
{
    int major = 0, minor = 0, patch = 0;
    char *answer = ensemble_ask(e, i, "srvr");
    sscanf(answer ? answer : "", "Zookeeper version: %d.%d.%d", &major, &minor, &patch);
    free(answer);
    return (major * 100 + minor) * 100 + patch;
}

int ensemble_leader(struct ensemble *e)
{
    for (int i = 0; i < e->count; i++) {
        char *answer = e->servers[i].pid > 0 ? ensemble_ask(e, i, "srvr") : NULL;
        bool leads = answer && (strstr(answer, "Mode: leader") || strstr(answer, "Mode: standalone"));
        free(answer);
        if (leads) {
            return i;
        }
    }
    return -1;
}

static bool all_serve(struct ensemble *e)
{
    bool all = true;
    for (int i = 0; i < e->count; i++) {
        all = all && (e->servers[i].pid == 0 || answers_with(e, i, "srvr", "Mode: ", true));
    }
    return all && ensemble_leader(e) >= 0;
}

bool ensemble_wait(struct ensemble *e, int64_t timeout_ms)
{
    bool served = WITHIN(timeout_ms, all_serve(e));
    if (!served) {
        fprintf(stderr, "ensemble: no service after %lld ms\n", (long long)timeout_ms);
    }
    return served;
}

/* --- whole --------------------------------------------------------------------------------------------------------- */

static void lay_out(struct ensemble *e)
{
    const struct ensemble_options *o = &e->options;
    size_t length = 0;
    for (int i = 0; i < e->count; i++) {
        struct server *s = &e->servers[i];
        char host[16];
        snprintf(host, sizeof host, o->own_hosts ? "127.0.1.%d" : "127.0.0.1", i + 1);
        strcpy(s->host, host);
        strcpy(s->client_host, o->ipv6 ? "::1" : host);
        s->observes = i >= e->count - o->observers;
        s->client_port = free_port(s->client_host);
        s->quorum_port = free_port(host);
        s->election_port = free_port(host);
        snprintf(s->address, sizeof s->address, o->ipv6 ? "[%s]:%d" : "%s:%d", s->client_host, s->client_port);
        snprintf(s->dir, sizeof s->dir, "%.200s/%d", e->dir, i + 1);
        snprintf(s->jars, sizeof s->jars, "%.500s", default_jars());
        length += (size_t)snprintf(e->servers_text + length, sizeof e->servers_text - length, "%s%.31s", i ? "," : "",
                                   s->address);
    }
}

struct ensemble *ensemble_start(const struct ensemble_options *options)
{
    struct ensemble *e = calloc(1, sizeof *e);
    struct ensemble_options *o = &e->options;
    *o = options ? *options : *o;
    o->tick_ms = o->tick_ms > 0 ? o->tick_ms : 500;
    e->count = o->servers > 0 && o->servers <= SERVERS_MAX ? o->servers : 1;
    const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    remove_orphans(parent);
    snprintf(e->dir, sizeof e->dir, "%s/zklock-test-%d-XXXXXX", parent, (int)getpid());
    if (!mkdtemp(e->dir)) {
        perror(e->dir);
        free(e);
        return NULL;
    }
    lay_out(e);
    bool ok = true;
    for (int i = 0; ok && i < e->count; i++) {
        ok = configure(e, i) && ensemble_restart(e, i);
    }
    if (!ok || !ensemble_wait(e, 60000)) {
        ensemble_stop(e);
        return NULL;
    }
    return e;
}

void ensemble_stop(struct ensemble *e)
{
    if (e) {
        for (int i = 0; i < e->count; i++) {
            ensemble_kill(e, i);
        }
        remove_tree(e->dir);
        free(e);
    }
}

int ensemble_size(const struct ensemble *e)
{
    return e->count;
}
const char *ensemble_servers(const struct ensemble *e)
{
    return e->servers_text;
}
const char *ensemble_address(const struct ensemble *e, int i)
{
    return e->servers[i].address;
}
int ensemble_port(const struct ensemble *e, int i)
{
    return e->servers[i].client_port;
}
int ensemble_quorum_port(const struct ensemble *e, int i)
{
    return e->servers[i].quorum_port;
}
int ensemble_election_port(const struct ensemble *e, int i)
{
    return e->servers[i].election_port;
}
int ensemble_pid(const struct ensemble *e, int i)
{
    return e->servers[i].pid;
}
