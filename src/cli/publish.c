/* publish.c - reports the state of a lock: in files for Prometheus, to the service manager, over
 * HTTP. */
#include <dlfcn.h>
#include <limits.h>
#include <microhttpd.h>
#include <netdb.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/un.h>

#include "runner.h"

/* --- --metrics FILE --------------------------------------------------------------------------- */

#define EVERY_MS 10000

const char *metrics_file;
_Atomic unsigned metrics_stops;
static int64_t next_ms;   /* CLOCK_MONOTONIC: when to write again */
static bool write_failed; /* which was said */

/* What the session counts, and the stops, as text for Prometheus: malloced. NULL without memory.
 * Any thread may call it. */
static char *metrics_text(void)
{
    char *text = NULL;
    int64_t room = 0;
    int64_t length = 0;
    /* It may grow between the two calls. Every line has the label session="LOCK", as files of
     * several locks are collected together. */
    do {
        room = 2 * length + 8192; /* the stops repeat the label */
        free(text);
        text = malloc((size_t)room);
        if (!text) {
            return NULL; /* errno: ENOMEM */
        }
        length = zkl_stats_write_prometheus(cli_session, contend.name, text, (size_t)room / 2);
    } while (length >= room / 2);
    /* CMD is stopped while there is lease left, so the session counts a release where the job met a
     * loss. The session's own label is as it stands in the first sample; LOCK may have a brace. */
    const char *label = strstr(text, "{session=");
    const char *end = label ? memrchr(label, '}', strcspn(label, "\n")) : NULL;
    snprintf(
        text + length, (size_t)(room - length),
        "# HELP zklock_command_stops_total Runs of CMD that were stopped since the lock was lost, "
        "or about to be.\n"
        "# TYPE zklock_command_stops_total counter\nzklock_command_stops_total%.*s %u\n",
        end ? (int)(end + 1 - label) : 0, label, atomic_load(&metrics_stops));
    return text;
}

bool metrics_write(void)
{
    if (!metrics_file || !cli_session) {
        return true;
    }
    next_ms = now_ms() + EVERY_MS;
    char *text = metrics_text();
    bool written = text && newfile_write(metrics_file, text, "");
    if (!written && !write_failed) {
        cli_error("--metrics %s: %s", metrics_file, newfile_reason());
    }
    write_failed = !written;
    free(text);
    return written;
}

/* --- the service manager ---------------------------------------------------------------------- */

/* A service manager that does not listen must not keep us from the lease. */
#define SEND_US 100000

int notify_socket = -1;

static struct {
    struct sockaddr_un to;
    socklen_t to_size;
    /* Of the watchdog: */
    int64_t every_ms; /* half of what it allows; 0: there is none */
    int64_t said_ms;  /* CLOCK_MONOTONIC, as the next one */
    int64_t moved_ms; /* when the session was last seen to do something by itself */
    uint64_t requests;
} notify;

bool notify_open(void)
{
    if (notify_socket >= 0) {
        return true; /* --notify twice: the variables are gone */
    }
    struct timeval patience = {.tv_usec = SEND_US};
    const char *name = getenv("NOTIFY_SOCKET");
    /* As sd_watchdog_enabled(3): what is not for this process, or no number, is not for us. */
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    char *end = NULL;
    bool ours = !pid || strtoll(pid, NULL, 10) == (long long)getpid();
    int64_t allowed_us = usec ? strtoll(usec, &end, 10) : 0;
    notify.every_ms = ours && end && !*end && allowed_us > 0 ? allowed_us / 2000 + 1 : 0;
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    if (!name || !*name) {
        return true; /* started by hand */
    }
    /* An abstract address begins with a zero where a name has '@', and ends with its last
     * character. */
    size_t length = strlen(name);
    if ((name[0] != '/' && name[0] != '@') || length < 2 || length >= sizeof notify.to.sun_path) {
        cli_error(
            "--notify: $NOTIFY_SOCKET is '%s': want an absolute path or @NAME, %zu bytes at most",
            name, sizeof notify.to.sun_path - 1);
        return false;
    }
    notify.to.sun_family = AF_UNIX;
    memcpy(notify.to.sun_path, name, length);
    notify.to_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    if (name[0] == '@') {
        notify.to.sun_path[0] = '\0';
    } else {
        notify.to_size++;
    }
    unsetenv("NOTIFY_SOCKET");
    notify_socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (notify_socket < 0 ||
        setsockopt(notify_socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0) {
        cli_error("--notify: %s", strerror(errno));
        return false;
    }
    return true;
}

int publish_timeout(int64_t end_ms)
{
    int64_t left_ms = (metrics_file && next_ms < end_ms ? next_ms : end_ms) - now_ms();
    if (notify_socket >= 0 && notify.every_ms > 0) {
        int64_t due_ms = notify.said_ms + notify.every_ms - now_ms();
        due_ms = due_ms > 100 ? due_ms : 100; /* it may have been withheld: no hurry */
        left_ms = due_ms < left_ms ? due_ms : left_ms;
    }
    return left_ms > INT_MAX ? INT_MAX /* 24 days */ : left_ms > 0 ? (int)left_ms : 0;
}

void publish_due(void)
{
    int64_t now = now_ms();
    if (metrics_file && now >= next_ms) {
        metrics_write();
    }
    if (notify_socket < 0 || notify.every_ms == 0 || now - notify.said_ms < notify.every_ms) {
        return;
    }
    /* Both calls lock the session's mutex. If a thread never unlocks it, no message is sent
     * either, and the watchdog of the service manager ends the process. */
    zkl_stats stats = ZKL_STATS_INIT;
    bool connected = zkl_session_state(cli_session) == ZKL_SESSION_CONNECTED;
    if (zkl_session_stats(cli_session, &stats) != ZKL_OK || !connected ||
        stats.requests != notify.requests) {
        notify.requests = stats.requests;
        notify.moved_ms = now;
    }
    if (now - notify.moved_ms <= zkl_session_timeout_ms(cli_session)) {
        notify.said_ms = now;
        notify_send("WATCHDOG=1");
    }
}

void notify_send(const char *format, ...)
{
    char text[512];
    va_list arguments;
    if (notify_socket < 0) {
        return;
    }
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    size_t length = size < 0 ? 0 : (size_t)size < sizeof text ? (size_t)size : sizeof text - 1;
    sendto(notify_socket, text, length, MSG_NOSIGNAL, (const struct sockaddr *)&notify.to,
           notify.to_size);
}

/* --- HTTP ------------------------------------------------------------------------------------- */

#define LOOPBACK "127.0.0.1"
#define CONNECTIONS_MAX 2048
#define CONNECTION_BYTES 8192 /* a longer request is refused */
#define IDLE_SECONDS 10

/* libmicrohttpd, loaded when there is something to be served: it brings a TLS library and seven
 * more along, and with them every start of the command took 2 ms more. */
/* clang-format off */
#define HTTP_FUNCTIONS(X) \
    X(start_daemon) X(stop_daemon) X(create_response_from_buffer) X(destroy_response) \
    X(add_response_header) X(queue_response)
#define HTTP_POINTER(name) static __typeof__(MHD_##name) *http_##name;
#define HTTP_LOAD(name) \
    http_##name = whole ? (__typeof__(MHD_##name) *)dlsym(library, "MHD_" #name) : NULL; \
    whole = http_##name != NULL;
/* clang-format on */
HTTP_FUNCTIONS(HTTP_POINTER)

_Atomic enum http_state http_standing;

static struct {
    const char *given; /* NULL: nobody listens, and every function does nothing */
    struct sockaddr_storage address;
    socklen_t address_size;
    struct MHD_Daemon *daemon;
    zkl_election_observer *observer;
    pthread_mutex_t mutex; /* over what follows */
    bool known;            /* who leads */
    char leader_node[256], leader_value[ZKL_DATA_MAX + 1];
    int64_t leader_token; /* 0: nobody stands */
} http = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* --- the address ----------------------------------------------------------------------------- */

/* Numbers only: a name server must not delay an election. */
bool http_take_address(const char *value)
{
    char host[64] = LOOPBACK;
    const char *colon = strrchr(value, ':');
    const char *port = colon ? colon + 1 : value;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV},
                    *found;
    if (colon) {
        bool brackets = value[0] == '[' && colon > value + 1 && colon[-1] == ']';
        snprintf(host, sizeof host, "%.*s", (int)(colon - value) - 2 * brackets, value + brackets);
    }
    char *end;
    long number = strtol(port, &end, 10);
    if (!*host || end == port || *end || number < 0 || number > 65535 ||
        getaddrinfo(host, port, &hints, &found) != 0) {
        cli_error("--listen: '%s' is no address: want PORT, ADDR:PORT or [ADDR]:PORT, in numbers",
                  value);
        return false;
    }
    memcpy(&http.address, found->ai_addr, found->ai_addrlen);
    http.address_size = found->ai_addrlen;
    freeaddrinfo(found);
    http.given = value;
    return true;
}

/* --- answers --------------------------------------------------------------------------------- */

static enum MHD_Result reply(struct MHD_Connection *connection, unsigned status, const char *type,
                             char *text)
{
    struct MHD_Response *response =
        http_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(text);
        return MHD_NO;
    }
    http_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    http_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED) {
        http_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    }
    enum MHD_Result result = http_queue_response(connection, status, response);
    http_destroy_response(response);
    return result;
}

static enum MHD_Result reply_json(struct MHD_Connection *connection, unsigned status,
                                  json_t *object)
{
    char *text = queues_json_text(object);
    return text ? reply(connection, status, "application/json", text) : MHD_NO;
}

static enum MHD_Result reply_error(struct MHD_Connection *connection, unsigned status,
                                   const char *why)
{
    return reply_json(connection, status, json_pack("{s:s}", "error", why));
}

/* Called for a request's head, for each part of its body, and at its end, which is when it is
 * answered: a body is read and forgotten. */
static enum MHD_Result answer(void *closure, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *body,
                              size_t *body_size, void **state)
{
    static char begun;
    (void)closure;
    (void)version;
    (void)body;
    if (!*state || *body_size > 0) {
        *state = &begun;
        *body_size = 0;
        return MHD_YES;
    }
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        return reply_error(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
                           "only GET and HEAD are answered");
    }
    /* By the lease, not by what was published last: a zklock that is stopped publishes nothing. */
    enum http_state standing = http_standing;
    int64_t remaining_ms = zkl_lock_remaining_ms(contend.lock);
    bool leads = standing == HTTP_LEADING && remaining_ms > 0;
    if (strcmp(url, "/leader") == 0) {
        int64_t token = zkl_lock_token(contend.lock);
        leads = leads && token > 0;
        pthread_mutex_lock(&http.mutex);
        json_t *leader = http.leader_token == 0
                             ? json_null()
                             : json_pack("{s:s, s:s, s:I}", "node", http.leader_node, "value",
                                         http.leader_value, "token", (json_int_t)http.leader_token);
        json_t *object = json_pack("{s:s, s:b, s:I, s:I, s:b, s:o}", "election", contend.paths[0],
                                   "leads", leads, "token", (json_int_t)(leads ? token : 0),
                                   "remaining_ms", (json_int_t)(leads ? remaining_ms : 0), "known",
                                   http.known, "leader", leader);
        pthread_mutex_unlock(&http.mutex);
        return reply_json(connection, leads ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, object);
    }
    if (strcmp(url, "/healthz") == 0) { /* well is who leads, or queues on a connection */
        static const char *const words[] = {"queued", "leading", "paused", "unhealthy", "ending"};
        bool connected = zkl_session_state(cli_session) == ZKL_SESSION_CONNECTED;
        bool takes_part = leads || (connected && standing == HTTP_QUEUED);
        return reply_json(connection, takes_part ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
                          json_pack("{s:b, s:s, s:b}", "takes_part", takes_part, "state",
                                    words[standing], "connected", connected));
    }
    if (strcmp(url, "/metrics") == 0) {
        char *text = metrics_text();
        return text ? reply(connection, MHD_HTTP_OK, "text/plain; version=0.0.4", text)
                    : reply_error(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory");
    }
    return reply_error(connection, MHD_HTTP_NOT_FOUND, "there are /healthz, /leader and /metrics");
}

/* --- who leads ------------------------------------------------------------------------------- */

static void on_leader(zkl_election_observer *observer, const zkl_leader *leader, void *payload)
{
    (void)payload;
    (void)observer;
    pthread_mutex_lock(&http.mutex);
    http.known = true;
    http.leader_token = leader ? leader->token : 0;
    if (leader) {
        snprintf(http.leader_node, sizeof http.leader_node, "%s", leader->node);
        cli_printable(leader->value ? leader->value : "", leader->value_size, http.leader_value,
                      sizeof http.leader_value);
    }
    pthread_mutex_unlock(&http.mutex);
}

/* --- life ------------------------------------------------------------------------------------ */

bool http_open(void)
{
    struct sockaddr *address = (struct sockaddr *)&http.address;
    sigset_t all, before;
    char port[8] = "0";
    int one = 1;
    if (!http.given) {
        return true;
    }
    /* It is loaded for ever, unless it is not there, or has not all of these. */
    void *library = dlopen(HTTP_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    bool whole = library != NULL;
    HTTP_FUNCTIONS(HTTP_LOAD)
    if (!whole) {
        cli_error("--listen %s: %s (Debian: libmicrohttpd12)", http.given, dlerror());
        return false;
    }
    /* We open the socket, as libmicrohttpd 1.0 cleans up before it returns, and leaves the errno of
     * that. */
    int listener = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener >= 0) { /* else errno has the reason */
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one); /* if it is one */
    }
    if (listener < 0 || bind(listener, address, http.address_size) != 0 ||
        listen(listener, SOMAXCONN) != 0) {
        cli_error("--listen %s: %s", http.given, strerror(errno));
        return false;
    }
    /* Half of the descriptors are for the rest of us: a session that reconnects needs one. */
    struct rlimit files;
    rlim_t most = CONNECTIONS_MAX;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur / 2 < most) {
        most = files.rlim_cur / 2;
    }
    /* The thread of libmicrohttpd must take no signal: they are for the loops of this program.
     * libmicrohttpd logs nothing without MHD_USE_ERROR_LOG, and a client whose request is wrong
     * gets an error as the response. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    http.daemon = http_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, answer, NULL,
                                    MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT,
                                    (unsigned)most, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                                    (size_t)CONNECTION_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
                                    (unsigned)IDLE_SECONDS, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!http.daemon) { /* by version, it has closed the socket or not: the command ends now */
        cli_error("--listen %s: the HTTP library refuses it", http.given);
        return false;
    }
    /* For port 0 the kernel has chosen one. */
    if (getsockname(listener, address, &http.address_size) == 0) {
        getnameinfo(address, http.address_size, NULL, 0, port, sizeof port, NI_NUMERICSERV);
    }
    cli_note("\"%s\": listening on port %s", contend.name, port);
    if (zkl_election_observe(&http.observer, cli_session, contend.paths[0], on_leader, NULL,
                             &cli_failure) != ZKL_OK) {
        cli_error("\"%s\": who leads cannot be observed: %s", contend.name, cli_failure.text);
        return false;
    }
    return true;
}

void http_close(void)
{
    if (http.daemon) {
        zkl_election_observer_free(http.observer);
        http_stop_daemon(http.daemon);
    }
}
