#include <dirent.h>
#include <dlfcn.h>
#include <endian.h>
#include <netdb.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/xattr.h>

#include "cli.h"

/* --- SASL ------------------------------------------------------------------------------------- */

/* Of sasl/sasl.h, whose library comes with a ZooKeeper client library that has SASL, and is not
 * needed to build this one. */
enum {
    SASL_OK = 0,
    SASL_FAIL = -1,
    SASL_CB_USER = 0x4001,
    SASL_CB_AUTHNAME = 0x4002,
    SASL_CB_PASS = 0x4004
};

struct sasl_callback {
    unsigned long id;
    void (*function)(void); /* each of another type, by id */
    void *context;
};

struct sasl_secret {
    unsigned long length;
    unsigned char data[1];
};

#define PART_MAX 256

/* One process, one identity. */
static struct {
    char user[PART_MAX], service[PART_MAX], host[PART_MAX];
    union {
        struct sasl_secret head;
        unsigned char bytes[sizeof(struct sasl_secret) + PART_MAX];
    } password;
} account;

static int give_user(void *context, int id, const char **result, unsigned *length)
{
    (void)context;
    /* Whom to act as is left open: the servers take the authenticated user. */
    *result = id == SASL_CB_AUTHNAME ? account.user : "";
    if (length) {
        *length = (unsigned)strlen(*result);
    }
    return SASL_OK;
}

static int give_password(void *connection, void *context, int id, struct sasl_secret **secret)
{
    (void)connection;
    (void)context;
    (void)id;
    *secret = &account.password.head;
    return account.password.head.length > 0 ? SASL_OK : SASL_FAIL;
}

static const struct sasl_callback callbacks[] = {
    {SASL_CB_USER, (void (*)(void))give_user, NULL},
    {SASL_CB_AUTHNAME, (void (*)(void))give_user, NULL},
    {SASL_CB_PASS, (void (*)(void))give_password, NULL},
    {0, NULL, NULL},
};

/* --- the session ------------------------------------------------------------------------------ */

#define AUTH_MAX 4096

/* Of one connection; the secret until that has been opened. */
static struct {
    char secret[AUTH_MAX];
    zkl_sasl sasl;
    zkl_session_options options;
} own;

int cli_exit_code(int zkl_code)
{
    switch (zkl_code) {
    case ZKL_OK:
        return CLI_GO_ON;
    case ZKL_EBUSY:
        return EXIT_NOT_GRANTED;
    case ZKL_ETIMEOUT: /* of a request; of a wait with -w: contend_acquire */
    case ZKL_ECONNECT:
    case ZKL_ELOST: /* of a session while waiting */
        return EXIT_UNREACHABLE;
    case ZKL_EAUTH:
        return EXIT_DENIED;
    default:
        return EXIT_FAILED;
    }
}

/* A file's access list, little-endian (linux/posix_acl_xattr.h). */
struct acl_entry {
    uint16_t tag, permissions;
    uint32_t id;
};
enum { ACL_USER = 0x02, ACL_GROUP_OBJ = 0x04, ACL_GROUP = 0x08, ACL_OTHER = 0x20 };
#define ACL_ENTRIES_MAX 8 /* a list of more lists others */

/* systemd 254 and later give a credential (LoadCredential=) to the user of a unit by an access
 * list: root owns the file, and the list's mask stands in the mode as the group's permissions
 * (exec-credential.c, write_credential). Only the list says that nobody else may read it. */
static bool lists_only_us(int fd)
{
    struct {
        uint32_t version;
        struct acl_entry entries[ACL_ENTRIES_MAX];
    } list;
    ssize_t size = fgetxattr(fd, "system.posix_acl_access", &list, sizeof list);
    size_t header = sizeof list.version;
    size_t count = size > (ssize_t)header ? ((size_t)size - header) / sizeof *list.entries : 0;
    bool only_us = count > 0;
    for (size_t i = 0; i < count; i++) {
        uint16_t tag = le16toh(list.entries[i].tag);
        uint32_t id = le32toh(list.entries[i].id);
        bool ours = tag == ACL_USER && (id == 0 || id == geteuid());
        bool of_others = (tag & (ACL_USER | ACL_GROUP_OBJ | ACL_GROUP | ACL_OTHER)) && !ours;
        only_us = only_us && !(of_others && list.entries[i].permissions != 0);
    }
    return only_us;
}

bool cli_hide_secret(void)
{
    struct stat secret;
    if (!cli.auth_file) {
        return true;
    }
    /* No core dump has it, and nobody of the same user reads the memory or the descriptors of
     * zklock or its keeper. An exec ends this. */
    prctl(PR_SET_DUMPABLE, 0);
    DIR *folder = stat(cli.auth_file, &secret) == 0 ? opendir("/proc/self/fd")
                                                    : NULL; /* no file: said when it is read */
    bool hidden = true;
    for (struct dirent *entry; folder && hidden && (entry = readdir(folder));) {
        struct stat status;
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] != '.' && fd != dirfd(folder) && fstat(fd, &status) == 0 &&
            status.st_dev == secret.st_dev && status.st_ino == secret.st_ino) {
            hidden = fd > STDERR_FILENO && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
            if (fd <= STDERR_FILENO) {
                cli_error("--auth-file %s: that is descriptor %d, which CMD gets as well; use "
                          "another one (3<FILE), or a file",
                          cli.auth_file, fd);
            }
        }
    }
    if (folder) {
        closedir(folder);
    }
    return hidden;
}

/* The file's one line: "SCHEME:CREDENTIALS". */
static bool take_secret(const char *file)
{
    struct stat status;
    size_t length = 0;
    ssize_t got = 0;
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    bool trusted = false;
    if (fd < 0 || fstat(fd, &status) != 0) {
        got = -1;
    } else if ((status.st_mode & (S_IRWXG | S_IRWXO)) && !lists_only_us(fd)) {
        cli_error("--auth-file %s: others can read it; chmod 600 it, and change the secret", file);
    } else if (status.st_uid != 0 && status.st_uid != geteuid()) {
        cli_error("--auth-file %s: it belongs to user %u, who chooses what it says; chown it to "
                  "root or to user %u",
                  file, (unsigned)status.st_uid, (unsigned)geteuid());
    } else {
        trusted = true;
    }
    /* A pipe (--auth-file /dev/fd/3) gives what it has, bit by bit. */
    while (trusted && length < AUTH_MAX &&
           (got = read(fd, own.secret + length, AUTH_MAX - length)) > 0) {
        length += (size_t)got;
    }
    if (got < 0) {
        cli_error("--auth-file %s: %s", file, strerror(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
    if (!trusted || got < 0) {
        return false;
    }
    if (length == AUTH_MAX) {
        cli_error("--auth-file %s: longer than the %d bytes that credentials may have", file,
                  AUTH_MAX - 1);
        return false;
    }
    own.secret[length] = '\0';
    if (strlen(own.secret) < length) {
        cli_error("--auth-file %s: a NUL byte is in it; a secret is text", file);
        return false;
    }
    char *end = own.secret + strcspn(own.secret, "\r\n");
    if (end[strspn(end, "\r\n")]) {
        cli_error("--auth-file %s: more than one line; a session has one SCHEME:CREDENTIALS", file);
        return false;
    }
    *end = '\0';
    char *colon = strchr(own.secret, ':');
    if (!colon || colon == own.secret || !colon[1]) {
        cli_error("--auth-file %s: want one line, SCHEME:CREDENTIALS, as in digest:user:password",
                  file);
        return false;
    }
    *colon = '\0';
    own.options.auth_scheme = own.secret;
    own.options.auth = colon + 1;
    own.options.auth_size = strlen(colon + 1);
    return true;
}

/* Without --verbose only what a contender lacks: the rest is said by the command's own words and
 * exit code. */
static void on_log(const zkl_log_record *record, void *payload)
{
    static const char *const names[] = {"", "error", "warning", "info", "debug"};
    (void)payload;
    if (!cli.verbose && (cli.quiet || record->level != ZKL_LOG_WARN || record->contender == 0)) {
        return;
    }
    cli_line(stderr, CLI_FOLD, "zklock: [%s] %s", names[record->level], record->line);
}

/* What --auth-file says is then SASL's: "sasl:USER:PASSWORD". */
static bool take_sasl(void)
{
    zkl_session_options *options = &own.options;
    int (*begin)(const struct sasl_callback *);
    begin = (__typeof__(begin))dlsym(RTLD_DEFAULT, "sasl_client_init");
    if (options->auth_scheme && strcmp(options->auth_scheme, "sasl") != 0) {
        cli_error("--auth-file %s: with --sasl it has one line, sasl:USER:PASSWORD", cli.auth_file);
        return false;
    }
    /* --sasl-server [SERVICE/]HOST. By default what Java's servers have: DIGEST-MD5 knows them all
     * by one name (SecurityUtils.createSaslServer, "zk-sasl-md5"), Kerberos the first one by its
     * own. */
    bool digest = strcmp(cli.sasl, "DIGEST-MD5") == 0;
    const char *given = cli.sasl_server, *slash = given ? strchr(given, '/') : NULL;
    const char *host = slash ? slash + 1 : given ? given : digest ? "zk-sasl-md5" : cli.servers;
    size_t service = slash ? (size_t)(slash - given) : 0;
    size_t length = given || digest ? strlen(host) : strcspn(host, ":,/");
    if (length == 0 || length >= PART_MAX || service >= PART_MAX || (slash && service == 0)) {
        cli_error("--sasl-server: write [SERVICE/]HOST, as in zookeeper/zk.example.org");
        return false;
    }
    memcpy(account.host, host, length);
    memcpy(account.service, given ? given : "", service);
    const char *secret = options->auth, *colon = secret ? strchr(secret, ':') : NULL;
    if (secret) {
        size_t user = colon ? (size_t)(colon - secret) : 0;
        length = colon ? strlen(colon + 1) : 0;
        if (user == 0 || length == 0 || user >= PART_MAX || length >= PART_MAX) {
            cli_error("--auth-file %s: want one line, sasl:USER:PASSWORD, each of %d bytes at most",
                      cli.auth_file, PART_MAX - 1);
            return false;
        }
        memcpy(account.user, secret, user);
        memcpy(account.password.bytes + offsetof(struct sasl_secret, data), colon + 1, length + 1);
        account.password.head.length = length;
    }
    if (begin && begin(NULL) != SASL_OK) { /* without it the session is refused, with the remedy */
        cli_error(
            "--sasl %s: Cyrus SASL does not start; are its plug-ins installed (libsasl2-modules)?",
            cli.sasl);
        return false;
    }
    own.sasl = (zkl_sasl){.mechanisms = cli.sasl,
                          .service = account.service[0] ? account.service : NULL,
                          .host = account.host,
                          .callbacks = callbacks};
    options->sasl = &own.sasl;
    options->auth_scheme = options->auth = NULL;
    options->auth_size = 0;
    return true;
}

/* The session options that the global options mean. Wipe the secret when they have been used. */
static bool take_options(int64_t connect_timeout_ms)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    if (cli.tls_host && !cli.tls) {
        cli_error("--tls-host is for --tls, which is missing");
        return false;
    }
    if (cli.sasl_server && !cli.sasl) {
        cli_error("--sasl-server is for --sasl, which is missing");
        return false;
    }
    options.session_timeout_ms = cli.session_timeout_ms;
    options.tick_ms = cli.tick_ms;
    options.leader_pause_ms = cli.leader_pause_ms;
    options.observer_masters = strcmp(cli.observer_masters, "none") == 0 ? ZKL_OBSERVER_MASTERS_NONE
                               : strcmp(cli.observer_masters, "some") == 0
                                   ? ZKL_OBSERVER_MASTERS_SOME
                                   : ZKL_OBSERVER_MASTERS_DETECT;
    options.connect_timeout_ms = connect_timeout_ms;
    options.tls = cli.tls;
    options.tls_host = cli.tls_host;
    options.callbacks = ZKL_CALLBACKS_DISPATCH;
    options.log_fn = on_log;
    options.log_level = cli.verbose ? options.log_level : ZKL_LOG_WARN;
    own.options = options;
    if (cli.auth_file) {
        prctl(PR_SET_DUMPABLE, 0); /* as in cli_hide_secret, which is for those who start a CMD */
    }
    return (!cli.auth_file || take_secret(cli.auth_file)) && (!cli.sasl || take_sasl());
}

zkl_session *cli_session;

int cli_connect(int64_t connect_timeout_ms, zkl_done_fn done)
{
    int code = EXIT_FAILED;
    if (take_options(connect_timeout_ms)) {
        signals_end_at_once = !done;
        int result = done ? zkl_session_open_async(&cli_session, cli.servers, &own.options, done,
                                                   NULL, &cli_failure)
                          : zkl_session_open(&cli_session, cli.servers, &own.options, &cli_failure);
        signals_end_at_once = false;
        if (result != ZKL_OK) {
            cli_error("%s%s", cli_failure.text, cli_remedy(result));
        }
        code = cli_exit_code(result);
    }
    explicit_bzero(own.secret, sizeof own.secret);
    return code;
}

/* --- the tickTime of a server ---------------------------------------------------------------- */

#define PROBE_MS 5000     /* until it is connected */
#define PROBE_LOW_MS 1000 /* a client that gives up sooner may never be connected */

/* What the server makes of this timeout; false with an error. The session holds nothing, so it
 * needs no lease. */
static bool negotiate(const char *server, int64_t asked_ms, int64_t *granted_ms)
{
    zkl_session *session;
    own.options.session_timeout_ms = asked_ms;
    own.options.tick_ms = 1;
    own.options.leader_pause_ms = 0;
    bool opened = zkl_session_open(&session, server, &own.options, &cli_failure) == ZKL_OK;
    if (opened) {
        *granted_ms = zkl_session_timeout_ms(session);
        zkl_session_close(session, PROBE_LOW_MS);
    }
    return opened;
}

bool cli_probe_tick(const char *server, int64_t *tick_ms)
{
    int64_t asked_ms = cli.tick_ms > PROBE_LOW_MS ? cli.tick_ms : PROBE_LOW_MS, low_ms, high_ms;
    *tick_ms = 0;
    cli_failure.text[0] = '\0';
    bool opened = take_options(PROBE_MS) && negotiate(server, asked_ms, &low_ms) &&
                  negotiate(server, CLI_DAY_MS, &high_ms);
    explicit_bzero(own.secret, sizeof own.secret);
    if (opened && high_ms < CLI_DAY_MS) {
        /* Unless they are configured, the bounds of a server's timeouts are 2 and 20 ticks
         * (ZooKeeperServer.setMinSessionTimeout and setMaxSessionTimeout, ZooKeeper 3.8). low_ms
         * and high_ms are what it granted to requests for asked_ms and for a day. If low_ms is
         * asked_ms, the lower bound is not above that. Else no tickTime has both bounds. */
        int64_t tick = high_ms / 20;
        bool agree = low_ms > asked_ms ? low_ms == 2 * tick : 2 * tick <= asked_ms;
        *tick_ms = agree ? tick : 0;
    }
    return opened;
}

/* --- four-letter commands --------------------------------------------------------------------- */

const char *ask_why;

const char *ask(const char *host, const char *port, const char *question, int timeout_ms)
{
    static char answer[4096];
    struct timeval patience = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000L};
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    int fd = -1, failed = getaddrinfo(host, port, &hints, &found);
    if (failed) {
        ask_why = gai_strerror(failed);
        return NULL;
    }
    for (struct addrinfo *address = found; address && fd < 0; address = address->ai_next) {
        fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0 ||
                        connect(fd, address->ai_addr, address->ai_addrlen) != 0)) {
            int reason = errno == EINPROGRESS ? ETIMEDOUT : errno; /* as socket(7) has it */
            close(fd);
            fd = -1;
            errno = reason;
        }
        ask_why = strerror(errno);
    }
    freeaddrinfo(found);
    if (fd < 0) {
        return NULL;
    }
    size_t got = 0;
    ssize_t piece = send(fd, question, strlen(question), MSG_NOSIGNAL);
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    int64_t end = now_ms() + timeout_ms, left;
    while (piece > 0 && got + 1 < sizeof answer && (left = end - now_ms()) > 0 &&
           poll(&readable, 1, (int)left) == 1) {
        piece = recv(fd, answer + got, sizeof answer - 1 - got, MSG_DONTWAIT);
        got += piece > 0 ? (size_t)piece : 0;
    }
    answer[got] = '\0';
    close(fd);
    ask_why = got > 0 || piece > 0 ? "no response"
                                   : "closes the connection: it wants TLS, or has as many from "
                                     "this host as its maxClientCnxns permits";
    return piece == 0 && got > 0 ? answer : NULL;
}
