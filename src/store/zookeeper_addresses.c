/* zookeeper_addresses.c - the servers' names into addresses, and how a session comes to its first
 * connection at one of them.
 *
 * The library is given addresses, never names. It would resolve names on its I/O thread whenever it
 * has no connection, and while a name server is silent (a network that is cut often takes it along)
 * the library could neither connect nor be closed, and would spin on memory it never set when the
 * name server says no. Here each name is resolved on a thread of its own, for which nothing waits.
 * It may outlive its store, so its memory is not from the session's heap. Nor does one name wait
 * for another: the name of a server that is down may take longer to fail than a caller can wait.
 *
 * A first connection takes one attempt after the other, each with a handle of its own. The library
 * gives a server two thirds of the session timeout to respond, and a server that accepts the
 * connection and sends nothing (stopped, or behind a firewall that drops packets) uses up all of
 * it. One stamp before zookeeper_init would count that time against the first lease. So an attempt
 * ends after a limit of ours: the address that it hung at is left out for the rest of the round,
 * and the next attempt has a new handle and a new stamp. When every address has been left out, a
 * new round begins with twice the limit, up to what the library would wait. Addresses that refuse
 * are passed over by the library itself.
 *
 * A handle that is given up may still get a session: zookeeper_close ends it, and nothing was made
 * in it. Once there is a session to keep, its handle stays: only the library can move it to another
 * server. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "zookeeper_store.h"

#define LIMIT_LEAST (200 * ZKL__MS)
#define LIMIT_FIRST_MOST (1000 * ZKL__MS)

/* --- lists of addresses, separated by commas ------------------------------------------------- */

static bool has_entry(const char *list, const char *entry, size_t length)
{
    while (*list) {
        size_t each = strcspn(list, ",");
        if (each == length && memcmp(list, entry, length) == 0) {
            return true;
        }
        list += each + (list[each] == ',');
    }
    return false;
}

static void append_entry(char *list, const char *entry, size_t length)
{
    size_t used = strlen(list);
    if (used > 0) {
        list[used++] = ',';
    }
    memcpy(list + used, entry, length);
    list[used + length] = '\0';
}

/* A list of an even number of addresses has the first of them again behind the others
 * (ZOOKEEPER-2466). */
static void make_odd(char *list)
{
    size_t count = *list != '\0';
    for (const char *at = list; (at = strchr(at, ',')); at++) {
        count++;
    }
    if (count > 0 && count % 2 == 0) {
        append_entry(list, list, strcspn(list, ","));
    }
}

/* The addresses but for one, each once; an odd number of them. out: room for all and one more. */
static void remaining(char *out, const char *all, const char *left_out)
{
    *out = '\0';
    for (const char *at = all; *at;) {
        size_t length = strcspn(at, ",");
        if (!has_entry(left_out, at, length) && !has_entry(out, at, length)) {
            append_entry(out, at, length);
        }
        at += length + (at[length] == ',');
    }
    make_odd(out);
}

/* --- names ----------------------------------------------------------------------------------- */

/* A server's addresses, the caller's to free; NULL: none. May wait for a name server. */
static struct addrinfo *look_up(const struct zkl__server *server, int flags)
{
    struct addrinfo hints = {.ai_flags = flags, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int rc = getaddrinfo(server->host, server->port, &hints, &list);
    if ((rc == EAI_BADFLAGS || rc == EAI_ADDRFAMILY) && flags == AI_ADDRCONFIG) {
        hints.ai_flags = 0; /* as the library does */
        rc = getaddrinfo(server->host, server->port, &hints, &list);
    }
    return rc == 0 ? list : NULL;
}

static void add_addresses(struct zk_names *names, struct addrinfo *list)
{
    for (const struct addrinfo *at = list; at && names->found_count < ZK_ADDRESSES_MAX;
         at = at->ai_next) {
        char host[NI_MAXHOST], port[NI_MAXSERV];
        if (getnameinfo(at->ai_addr, at->ai_addrlen, host, sizeof host, port, sizeof port,
                        NI_NUMERICHOST | NI_NUMERICSERV) == 0) {
            char *found = names->found[names->found_count];
            names->found_count +=
                snprintf(found, ZK_ADDRESS_MAX, "%s:%s", host, port) < ZK_ADDRESS_MAX;
        }
    }
    if (list) {
        freeaddrinfo(list);
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Makes the found addresses the list, sorted, so that two results can be compared. If none was
 * found, the list stays as it is: a name server that fails removes no server. */
static void publish(struct zk_names *names)
{
    if (names->found_count == 0) {
        return;
    }
    qsort(names->found, names->found_count, ZK_ADDRESS_MAX, by_text);
    names->list[0] = names->why[0] = '\0';
    for (size_t i = 0; i < names->found_count; i++) {
        size_t length = strlen(names->found[i]);
        if (!has_entry(names->list, names->found[i], length)) {
            append_entry(names->list, names->found[i], length);
        }
    }
    make_odd(names->list);
}

int zkl__zk_names_new(struct zk_names **out, const struct zkl__store_config *config, zkl_error *err)
{
    const char *servers = config->servers, *tls_host = config->tls_host;
    size_t size = strlen(servers) + 1, host_size = tls_host ? strlen(tls_host) + 1 : 0;
    struct zk_names *names = malloc(sizeof *names + size + host_size);
    if (!names) {
        return zkl__fail_at(err, ZKL_ENOMEM, NULL, "out of memory");
    }
    /* Not its arrays: most of their pages are never used. */
    memset(names, 0, offsetof(struct zk_names, found));
    names->list[0] = '\0';
    int code = zkl__zk_tls_load(&names->tls, config->tls, err);
    if (code != ZKL_OK) {
        free(names);
        return code;
    }
    memcpy(names->servers, servers, size);
    if (tls_host) {
        names->tls_host = memcpy(names->servers + size, tls_host, host_size);
    }
    names->holders = 1;
    names->numeric = true;
    names->checked = !names->tls;
    snprintf(names->why, sizeof names->why, "%s",
             names->checked ? "no name server says where that is"
                            : "tls: no server has shown a certificate yet");
    pthread_mutex_init(&names->mutex, NULL);
    zkl__signal_init(&names->answered);
    for (const char *at = servers; at && names->numeric;) {
        struct zkl__server server = zkl__server_at(&at);
        size_t before = names->found_count;
        add_addresses(names, look_up(&server, AI_NUMERICHOST));
        names->numeric = names->found_count > before;
    }
    if (names->numeric && names->checked) {
        publish(names);
    }
    *out = names;
    return ZKL_OK;
}

/* A holder has done: its name has been resolved, or cannot be (NULL). These addresses need not wait
 * for the other names if there is no complete list yet, but for every server's certificate. */
static void settle(struct zk_names *names, struct addrinfo *list)
{
    pthread_mutex_lock(&names->mutex);
    add_addresses(names, list);
    names->holders--;
    bool all = names->holders <= 1;
    names->checked = names->checked || (all && names->trust == ZK_TRUSTED);
    if (names->checked && (all || !names->complete)) {
        publish(names);
    }
    if (names->holders == 1) {
        names->complete = names->list[0] != '\0';
        zkl__signal_raise(&names->answered);
    }
    bool last = names->holders == 0;
    pthread_mutex_unlock(&names->mutex);
    if (last) {
        zkl__zk_tls_unload(names->tls);
        zkl__signal_deinit(&names->answered);
        pthread_mutex_destroy(&names->mutex);
        free(names);
    }
}

void zkl__zk_names_drop(struct zk_names *names)
{
    if (names) {
        settle(names, NULL);
    }
}

struct lookup {
    struct zk_names *names;
    struct zkl__server server;
    bool check; /* the certificate */
};

static void *resolve(void *arg)
{
    struct lookup *lookup = arg;
    struct zk_names *names = lookup->names;
    struct addrinfo *list = look_up(&lookup->server, AI_ADDRCONFIG);
    if (lookup->check) {
        zkl_error why;
        const char *name = names->tls_host ? names->tls_host : lookup->server.host;
        enum zk_trust trust = zkl__zk_tls_judge(names->tls, name, &lookup->server, list, &why);
        pthread_mutex_lock(&names->mutex);
        if (trust > names->trust) {
            names->trust = trust;
            memcpy(names->why, why.text, sizeof names->why);
        }
        pthread_mutex_unlock(&names->mutex);
    }
    settle(names, list);
    free(lookup);
    return NULL;
}

/* On threads of their own, or, where there are none, here and now; no memory or no thread: not at
 * all. */
void zkl__zk_names_resolve(struct zk_names *names)
{
    pthread_mutex_lock(&names->mutex);
    /* Without threads the caller waits for each name: resolve once. */
    bool check = !names->checked;
    bool known = !check && (names->numeric || (zkl__threadless && names->list[0] != '\0'));
    bool begin = !known && names->holders == 1;
    names->holders++;
    if (begin) {
        names->found_count = 0;
        names->trust = ZK_UNCHECKED;
    }
    pthread_mutex_unlock(&names->mutex);
    for (const char *at = names->servers; begin && at;) {
        struct zkl__server server = zkl__server_at(&at);
        struct lookup *lookup = malloc(sizeof *lookup);
        pthread_mutex_lock(&names->mutex);
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): we are one of its holders until the end
        names->holders++;
        pthread_mutex_unlock(&names->mutex);
        if (lookup) {
            *lookup = (struct lookup){names, server, check};
        }
        if (!lookup || !zkl__zk_apart(resolve, lookup)) {
            free(lookup);
            settle(names, NULL);
        }
    }
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): we are one of its holders until the end
    settle(names, NULL);
}

bool zkl__zk_names_wait(struct zk_names *names, int64_t timeout_ms)
{
    int64_t until = zkl__clock_now() + timeout_ms * ZKL__MS;
    pthread_mutex_lock(&names->mutex);
    while (names->holders > 1 && zkl__clock_now() < until) {
        zkl__signal_wait(&names->answered, &names->mutex, until);
    }
    bool answered = names->holders == 1;
    pthread_mutex_unlock(&names->mutex);
    return answered;
}

void zkl__zk_names_why(struct zk_names *names, char *text, size_t size)
{
    pthread_mutex_lock(&names->mutex);
    snprintf(text, size, "%s", names->why);
    pthread_mutex_unlock(&names->mutex);
}

/* --- handles --------------------------------------------------------------------------------- */

/* A list that the store has from now on in the place of the one before. False: no memory. */
static bool keep(const struct zkl__store *store, char **to, const char *list)
{
    char *copy = zkl__copy_text(&store->heap, list);
    if (copy) {
        zkl__free(&store->heap, *to);
        *to = copy;
    }
    return copy != NULL;
}

/* A handle for these addresses. 0, or errno is why not. With the mutex held, at which events wait.
 */
static int start(struct zkl__store *store, const char *list)
{
    int64_t began = zkl__clock_now();
    char *given = zkl__copy_text(&store->heap, list);
    errno = ENOMEM;
    zhandle_t *zh = given ? zkl__zk_init_hidden(store, list) : NULL;
    if (!zh) {
        int error = errno;
        zkl__free(&store->heap, given);
        return error;
    }
    zkl__free(&store->heap, store->given);
    store->given = given;
    store->zh = zh;
    store->began_ns = began;
    /* ZOOKEEPER-1998: else it parses all addresses in every iteration of its loop. */
    zoo_set_servers_resolution_delay(zh, -1);
    if (store->limit_ns == 0) { /* an eighth of the timeout */
        store->limit_ns =
            zkl__backoff(store->config.timeout_ms * ZKL__MS / 16, LIMIT_LEAST, LIMIT_FIRST_MOST);
    }
    store->attempt_ns = began + store->limit_ns;
    return 0;
}

/* The addresses are for a first handle; or for the one there is, only without a connection: the
 * library closes the socket of its attempt to connect in this thread, without an event. It takes no
 * care of its I/O thread then (ZOOKEEPER-4699), which at worst misprints a log line, or waits in
 * poll for that socket, a third of the timeout: a request wakes it. 0, or errno is why not. */
static int give(struct zkl__store *store)
{
    const char *list = store->addresses;
    if (!store->zh) {
        return start(store, list);
    }
    if (zoo_set_servers(store->zh, list) != ZOK) {
        return errno;
    }
    if (store->fresh_reported) { /* else the response would show that credentials were accepted */
        zkl__zk_probe(store);
    }
    return keep(store, &store->given, list) ? 0 : ENOMEM;
}

int zkl__zk_take_addresses(struct zkl__store *store, zkl_error *err)
{
    struct zk_names *names = store->names;
    const char *list = names->list;
    pthread_mutex_lock(&names->mutex);
    /* An attempt at a first connection leaves out addresses on purpose. */
    bool known = *list == '\0' ||
                 (store->zh && strcmp(list, store->ever ? store->given : store->addresses) == 0);
    bool kept = !known && keep(store, &store->addresses, list);
    pthread_mutex_unlock(&names->mutex);
    int error = known ? 0 : kept ? give(store) : ENOMEM;
    switch (error) { /* the next tick tries again */
    case 0:
        return ZKL_OK;
    case ENOMEM:
        return zkl__fail_at(err, ZKL_ENOMEM, NULL, "out of memory");
    case EMFILE:
    case ENFILE:
        return zkl__fail_at(
            err, ZKL_ELIMIT, NULL,
            "no file descriptor is left for a connection: raise the limit (ulimit -n)");
    case EAGAIN:
        return zkl__fail_at(err, ZKL_ELIMIT, NULL,
                            "no thread is left for a connection: raise the limit (ulimit -u)");
    default:
        return zkl__fail_at(err, ZKL_EINVAL, NULL, "servers: the client library refuses %s",
                            store->addresses);
    }
}

/* --- attempts -------------------------------------------------------------------------------- */

/* Replaces a handle that hung by one for the addresses that are not left out. False: there is no
 * memory, descriptor or thread, so the store keeps the handle. */
static bool begin_next(struct zkl__store *store)
{
    char address[ZK_ADDRESS_MAX], list[ZK_LIST_MAX];
    zhandle_t *given_up = store->zh;
    size_t length = 0;
    /* The address that the attempt is at now, as the list has it: the library puts brackets around
     * those of IPv6, into one buffer for all handles of the process (ZOOKEEPER-4810), so what it
     * says may be none. */
    for (const char *at = zoo_get_current_server(given_up); *at && length < sizeof address - 1;
         at++) {
        address[length] = *at;
        length += *at != '[' && *at != ']';
    }
    if (!has_entry(store->given, address, length)) {
        length = strcspn(store->given, ",");
        memcpy(address, store->given, length);
    }
    address[length] = '\0';
    remaining(list, store->given, address);
    if (!*list) {
        remaining(list, store->addresses, "");
        store->limit_ns =
            zkl__backoff(store->limit_ns, 0, store->config.timeout_ms * ZKL__MS * 2 / 3);
    }
    if (start(store, list) != 0) {
        return false;
    }
    zkl__zk_part_from(store, given_up);
    return true;
}

int64_t zkl__zk_attempt_next(struct zkl__store *store, int64_t now)
{
    if (store->ever || !store->zh) {
        return INT64_MAX;
    }
    /* Every address refuses: the library rests before it tries them again, and a new attempt has a
     * newer stamp. */
    int64_t rests = store->began_ns + store->limit_ns / 4;
    bool refused = now >= rests && zoo_state(store->zh) == ZOO_NOTCONNECTED_STATE;
    if (now < store->attempt_ns && !refused) {
        return now < rests ? rests : store->attempt_ns;
    }
    if (store->inside || store->parting + store->unclosed_count >= ZK_PARTING_MOST ||
        !begin_next(store)) {
        store->attempt_ns = now + store->limit_ns;
    }
    return store->attempt_ns;
}
