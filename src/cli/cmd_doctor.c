/* cmd_doctor.c - checks the servers, the session, the client library and the locks. */
#include "queues.h"

#define ASK_MS 2000

static struct {
    int problems;
    int serving; /* servers that say they belong to a quorum, or need none */
    size_t queues, contenders;
} found;

/* One finding: a line, or a JSON object. */
__attribute__((format(printf, 3, 4))) static void find(bool fine, const char *subject,
                                                       const char *format, ...)
{
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    found.problems += !fine;
    if (cli.json) {
        queues_print_json(
            json_pack("{s:s, s:b, s:s}", "subject", subject, "ok", fine, "text", text));
    } else if (!fine || !cli.quiet) {
        cli_line(stdout, CLI_FOLD, "%-4s %s: %s", fine ? "ok" : "BAD", subject, text);
    }
}

/* Copies the value of "KEY: value" or "key=value" up to the end of its line; false when it is not
 * there. */
static bool value_of(const char *answer, const char *key, char *value, size_t size)
{
    const char *line = strstr(answer, key);
    if (line) {
        line += strlen(key);
        cli_printable(line, strcspn(line, ",\r\n"), value, size);
    }
    return line != NULL;
}

/* A tickTime that is longer than --tick makes leases unsound. The server's own word ("conf") is
 * better evidence than a probe. */
static void examine_tick(const char *server, const char *host, const char *port)
{
    int64_t tick_ms = 0;
    char address[300], text[32];
    snprintf(address, sizeof address, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
    /* false: not allowed there, as 4lw.commands.whitelist has srvr alone by default */
    const char *answer = ask(host, port, "conf", ASK_MS);
    bool asked = answer && value_of(answer, "tickTime=", text, sizeof text);
    if (asked) {
        tick_ms = strtol(text, NULL, 10);
    }
    if (!asked && !cli_probe_tick(address, &tick_ms)) {
        find(false, server, "tickTime not verified: %s", cli_failure.text);
    } else if (tick_ms == 0) {
        find(false, server,
             "tickTime not verified: it sets minSessionTimeout or maxSessionTimeout, so its "
             "sessions do not show it; allow conf in its 4lw.commands.whitelist");
    } else if (tick_ms > cli.tick_ms) {
        find(false, server,
             "tickTime is %" PRId64 "ms, and --tick says %" PRId64
             "ms: leases are unsound; use --tick %" PRId64 "ms, or ZKLOCK_TICK=%" PRId64 "ms",
             tick_ms, cli.tick_ms, tick_ms, tick_ms);
    } else {
        find(true, server, "tickTime is %" PRId64 "ms%s", tick_ms,
             asked ? "" : ", as the timeouts of two probe sessions show");
    }
}

/* "host", "host:port", "[IPv6]" or "[IPv6]:port"; what is none of these does not resolve. */
static void examine_server(const char *server)
{
    char host[256], version[64], mode[32];
    bool bracket = *server == '[';
    size_t length = strcspn(server + bracket, bracket ? "]" : ":");
    const char *port = server + bracket + length;
    port += bracket && *port == ']';
    port = *port == ':' ? port + 1 : "2181";
    snprintf(host, sizeof host, "%.*s", (int)length, server + bracket);
    int64_t begin_ns = clock_ns(CLOCK_MONOTONIC);
    const char *answer = ask(host, port, "srvr", ASK_MS);
    if (!answer) {
        find(false, server, "%s; start it, or correct --servers or a firewall", ask_why);
        return;
    }
    double ms = (double)(clock_ns(CLOCK_MONOTONIC) - begin_ns) / 1e6;
    if (value_of(answer, "Zookeeper version: ", version, sizeof version) &&
        value_of(answer, "Mode: ", mode, sizeof mode)) {
        int major, minor;
        found.serving++;
        version[strcspn(version, "-")] = '\0'; /* the build's number follows */
        /* Servers know create2, by which contenders learn their tokens, since 3.5.0
         * (ZooDefs.OpCode). */
        if (sscanf(version, "%d.%d", &major, &minor) == 2 &&
            (major < 3 || (major == 3 && minor < 5))) {
            find(false, server,
                 "%s, %s: too old, it refuses every lock; upgrade it to ZooKeeper 3.5.0 or later",
                 version, mode);
        } else {
            find(true, server, "%s, %s, answers in %.1fms", version, mode, ms);
        }
        if (strcmp(mode, "observer") == 0) {
            find(true, server,
                 "an observer. Where a follower has an observerMasterPort, its requests reach the "
                 "leader by two hops: see the assumptions in docs/lease.md");
        }
        examine_tick(server, host, port);
    } else if (strstr(answer, "not currently serving")) {
        find(false, server,
             "it runs and serves nobody: no quorum; start the other servers, look at their logs");
    } else if (strstr(answer, "whitelist")) {
        find(true, server,
             "answers in %.1fms; its 4lw.commands.whitelist does not let us ask for more", ms);
        examine_tick(server, host, port);
    } else {
        find(false, server, "what answers there is no ZooKeeper");
    }
}

static int examine_queue(const char *path, const zkl_queue *queue)
{
    unsigned kinds = 0; /* a bit for each */
    found.queues++;
    found.contenders += queue->count;
    for (size_t i = 0; i < queue->count; i++) {
        kinds |= 1u << queue->entries[i].kind;
    }
    bool locks = kinds & 1u << ZKL_KIND_LOCK;
    /* Harmless among ours; but Curator's mutex gives its znode the same name, and does not see
     * readers; and kazoo's sees its own alone. */
    if (locks && kinds & 1u << ZKL_KIND_READ) {
        find(true, path,
             "readers and plain locks in one queue: Curator's InterProcessMutex does not see "
             "readers, so use its InterProcessReadWriteLock there");
    }
    if (locks && kinds & 1u << ZKL_KIND_KAZOO) {
        find(true, path,
             "kazoo's locks and others in one queue: kazoo sees only its own, unless its Lock is "
             "made with extra_lock_patterns=[\"lock-\"], and Curator never sees kazoo's");
    }
    for (size_t i = 0; i < queue->count; i++) {
        const zkl_queue_entry *entry = &queue->entries[i];
        if (entry->forged) {
            find(false, path,
                 "%s %s: zklock goes past it, Curator and kazoo wait for it; 'zklock release "
                 "--force --token %" PRId64 " LOCK' removes it",
                 entry->name,
                 entry->session_id ? "was made by hand, with a number that is not its turn"
                                   : "is no session's",
                 entry->token);
        } else if (!entry->readable) {
            find(false, path,
                 "%s is not readable: its access list hides who made it; zklock behind it watches "
                 "the whole queue instead",
                 entry->name);
        }
    }
    return CLI_GO_ON;
}

static void examine_strays(const char *path, const char *const *names, size_t count)
{
    size_t strays = 0;
    for (size_t i = 0; i < count; i++) {
        strays += strcmp(names[i], "keeps-the-record") != 0; /* zklock/once.h */
    }
    if (strays > 0) {
        find(false, path,
             "%zu znodes that are no contenders: they do not block the lock, and keep its "
             "directory from being reaped; delete them with zkCli.sh if nobody needs them",
             strays);
    }
}

static int examine_failure(const char *path, int result)
{
    if (result == ZKL_EAUTH) {
        find(false, path, "its children may not be listed: what is below is not known%s",
             cli_remedy(ZKL_EAUTH));
    } else {
        find(false, path, "%s", cli_failure.text);
    }
    return CLI_GO_ON;
}

/* The client library may be static, and its names hidden. It is asked for no server: these files
 * are not there, and nobody listens at that port. */
static const char *built_in(const char *tls, const zkl_sasl *sasl)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_session *session;
    options.connect_timeout_ms = 1;
    options.tls = tls;
    options.sasl = sasl;
    switch (zkl_session_open(&session, "127.0.0.1:1", &options, NULL)) {
    case ZKL_EUNSUPPORTED:
        return "not built in";
    case ZKL_ELIMIT:
    case ZKL_ENOMEM:
        return "not known to be built in";
    default:
        return "built in";
    }
}

static int run(const char **words)
{
    const zkl_sasl sasl = {.mechanisms = "ANONYMOUS", .host = ""};
    size_t used;
    (void)words;
    if (strncmp(cli.servers, "memory:", strlen("memory:")) == 0) {
        cli_error("%s is inside this process: there is no server to be asked; -s says where they "
                  "are",
                  cli.servers);
        return EXIT_FAILED;
    }
    find(true, "client library", "TLS %s, SASL %s", built_in("none,none,none", NULL),
         built_in(NULL, &sasl));
    for (const char *at = cli.servers; *at && *at != '/';) {
        char server[512];
        size_t length = strcspn(at, ",/");
        snprintf(server, sizeof server, "%.*s", (int)length, at);
        examine_server(server);
        at += length + strspn(at + length, ",");
    }
    fflush(stdout);
    int code = cli_connect(CLI_CALL_MS, NULL);
    if (code == EXIT_UNREACHABLE && found.serving > 0) {
        find(false, "session",
             "none, though %d of the servers say that they serve: they demand TLS or SASL, or "
             "their leader commits nothing and needs a restart (ZooKeeper 3.8.0 at times does "
             "after all servers paused)",
             found.serving);
    }
    if (code != CLI_GO_ON) {
        return code;
    }
    int64_t granted_ms = zkl_session_timeout_ms(cli_session);
    find(true, "session", "timeout %" PRId64 "ms%s; a holder's lease is %" PRId64 "ms at the least",
         granted_ms, granted_ms == cli.session_timeout_ms ? "" : ", not what was asked for",
         zkl_session_least_lease_ms(cli_session));
    queues_visit_all(examine_queue, examine_failure, examine_strays, &used);
    find(true, "/locks", "%zu locks in use, %zu contenders%s", found.queues, found.contenders,
         used > found.queues ? ", as far as they may be listed" : "");
    zkl_session_close(cli_session, CLI_CALL_MS);
    return found.problems > 0 ? EXIT_PROBLEM : EXIT_DONE;
}

const struct cli_command cmd_doctor = {
    .name = "doctor",
    .run = run,
    .arguments = "",
    .wanted = "takes no words",
    .summary = "are servers, session and locks as they should be",
    .examples = "  zklock doctor                       # exit code 1 when something is bad\n"
                "  zklock -q doctor                    # only what is bad\n"
                "  zklock -s zk1:2181,zk2:2181 doctor\n",
    .notes = "Sends srvr to each server, and conf where it is allowed; else two sessions show\n"
             "its tickTime, by the bounds of their timeouts. Opens a session, and lists the\n"
             "locks below /locks for znodes that should not be there. What cannot be\n"
             "verified is BAD as well.\n",
};
