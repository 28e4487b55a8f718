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
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base.h"
#include "zookeeper_store.h"

#define ADDRESS_MAX 96 /* "fe80::...%interface:65535" */
#define ADDRESSES_MAX 255
#define LIST_MAX ((ADDRESSES_MAX + 1) * (ADDRESS_MAX + 1))
#define LIMIT_LEAST (200 * MS)
#define LIMIT_FIRST_MOST (1000 * MS)
#define PARTING_MOST 8 /* handles that are being closed: a blocked SSL_connect may hold one up */

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

/* The addresses that are not left out, each once; an odd number of them (ZOOKEEPER-2466). out: room
 * for all and one more. */
static void remaining(char *out, const char *all, const char *left_out)
{
    size_t count = 0;
    *out = '\0';
    for (const char *at = all; *at;) {
        size_t length = strcspn(at, ",");
        if (!has_entry(left_out, at, length) && !has_entry(out, at, length)) {
            append_entry(out, at, length);
            count++;
        }
        at += length + (at[length] == ',');
    }
    if (count > 0 && count % 2 == 0) {
        append_entry(out, out, strcspn(out, ","));
    }
}

bool zkl__zk_split(char **hosts, char **chroot, const zkl_heap *heap, const char *servers)
{
    size_t length = strcspn(servers, "/"), end = strlen(servers);
    while (end > length && servers[end - 1] == '/') {
        end--;
    }
    *hosts = zkl__copy(heap, servers, length);
    *chroot = zkl__copy(heap, servers + length, end - length);
    return *hosts && *chroot;
}

/* --- names ----------------------------------------------------------------------------------- */

struct zk_names {
    pthread_mutex_t mutex;
    pthread_cond_t answered;
    int holders;      /* the store, and each thread while it resolves a name */
    size_t resolving; /* threads that are at it, and who starts them */
    bool numeric;     /* addresses already: the list never changes */
    bool complete; /* the list has the addresses of all names, not only of those that were quick */
    size_t found_count; /* since the last resolution of all names began */
    char found[ADDRESSES_MAX][ADDRESS_MAX];
    char list[LIST_MAX]; /* the last result, in the library's form; empty: none yet, or no name
                            resolves */
    char hosts[];
};

struct zk_server zkl__zk_server_at(const char **at)
{
    struct zkl__server from = zkl__server_at(at);
    struct zk_server to = {.port = "2181"};
    snprintf(to.host, sizeof to.host, "%.*s", (int)from.host.length, from.host.text);
    if (from.port.text) {
        snprintf(to.port, sizeof to.port, "%.*s", (int)from.port.length, from.port.text);
    }
    return to;
}

struct addrinfo *zkl__zk_look_up(const struct zk_server *server, int flags)
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
    for (const struct addrinfo *at = list; at && names->found_count < ADDRESSES_MAX;
         at = at->ai_next) {
        char host[NI_MAXHOST], port[NI_MAXSERV], text[sizeof host + sizeof port + 1];
        if (getnameinfo(at->ai_addr, at->ai_addrlen, host, sizeof host, port, sizeof port,
                        NI_NUMERICHOST | NI_NUMERICSERV) == 0) {
            snprintf(text, sizeof text, "%s:%s", host, port);
            names->found_count +=
                zkl__text_copy(names->found[names->found_count], ADDRESS_MAX, text);
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
    char all[LIST_MAX] = "";
    qsort(names->found, names->found_count, ADDRESS_MAX, by_text);
    for (size_t i = 0; i < names->found_count; i++) {
        append_entry(all, names->found[i], strlen(names->found[i]));
    }
    if (names->found_count > 0) {
        remaining(names->list, all, "");
    }
}

struct zk_names *zkl__zk_names_new(const char *hosts)
{
    size_t size = strlen(hosts) + 1;
    struct zk_names *names = calloc(1, sizeof *names + size);
    if (!names) {
        return NULL;
    }
    memcpy(names->hosts, hosts, size);
    names->holders = 1;
    names->numeric = true;
    pthread_mutex_init(&names->mutex, NULL);
    zkl__zk_cond_init(&names->answered);
    for (const char *at = hosts; at && names->numeric;) {
        struct zk_server server = zkl__zk_server_at(&at);
        size_t before = names->found_count;
        add_addresses(names, zkl__zk_look_up(&server, AI_NUMERICHOST));
        names->numeric = names->found_count > before;
    }
    if (names->numeric) {
        publish(names);
    }
    return names;
}

void zkl__zk_names_drop(struct zk_names *names)
{
    if (!names) {
        return;
    }
    pthread_mutex_lock(&names->mutex);
    bool last = --names->holders == 0;
    pthread_mutex_unlock(&names->mutex);
    if (last) {
        pthread_cond_destroy(&names->answered);
        pthread_mutex_destroy(&names->mutex);
        free(names);
    }
}

/* One name has been resolved. Its addresses need not wait for the other names if there is no
 * complete list yet. */
static void settle(struct zk_names *names)
{
    names->resolving--;
    if (names->resolving == 0 || !names->complete) {
        publish(names);
    }
    if (names->resolving == 0) {
        names->complete = names->list[0] != '\0';
        pthread_cond_broadcast(&names->answered);
    }
}

struct lookup {
    struct zk_names *names;
    struct zk_server server;
};

static void *resolve(void *arg)
{
    struct lookup lookup = *(struct lookup *)arg;
    struct zk_names *names = lookup.names;
    free(arg);
    struct addrinfo *list = zkl__zk_look_up(&lookup.server, AI_ADDRCONFIG);
    pthread_mutex_lock(&names->mutex);
    add_addresses(names, list);
    settle(names);
    pthread_mutex_unlock(&names->mutex);
    zkl__zk_names_drop(names);
    return NULL;
}

/* On a thread of its own, or, where there is none, here and now; no memory or no thread: not at
 * all. */
static void resolve_apart(struct zk_names *names, struct zk_server server)
{
    struct lookup *lookup = malloc(sizeof *lookup);
    pthread_mutex_lock(&names->mutex);
    names->resolving++;
    names->holders++;
    pthread_mutex_unlock(&names->mutex);
    if (lookup) {
        *lookup = (struct lookup){names, server};
    }
    if (!lookup || !zkl__zk_apart(resolve, lookup)) {
        pthread_mutex_lock(&names->mutex);
        names->resolving--;
        names->holders--;
        pthread_mutex_unlock(&names->mutex);
        free(lookup);
    }
}

void zkl__zk_names_resolve(struct zk_names *names)
{
    pthread_mutex_lock(&names->mutex);
    /* Without threads the caller waits for each name: resolve once. */
    bool known = names->numeric || (!zkl__zk_has_threads && names->list[0] != '\0');
    bool begin = !known && names->resolving == 0;
    if (begin) {
        names->resolving = 1;
        names->found_count = 0;
    }
    pthread_mutex_unlock(&names->mutex);
    if (!begin) {
        return;
    }
    for (const char *at = names->hosts; at;) {
        resolve_apart(names, zkl__zk_server_at(&at));
    }
    pthread_mutex_lock(&names->mutex);
    settle(names);
    pthread_mutex_unlock(&names->mutex);
}

bool zkl__zk_names_wait(struct zk_names *names, int64_t timeout_ms)
{
    int64_t until = zkl__store_now(CLOCK_MONOTONIC) + timeout_ms * MS;
    pthread_mutex_lock(&names->mutex);
    while (names->resolving > 0 && zkl__store_now(CLOCK_MONOTONIC) < until) {
        zkl__zk_cond_wait(&names->answered, &names->mutex, until);
    }
    bool answered = names->resolving == 0;
    pthread_mutex_unlock(&names->mutex);
    return answered;
}

int zkl__zk_names_list(char **list, struct zk_names *names, const zkl_heap *heap)
{
    pthread_mutex_lock(&names->mutex);
    bool known = names->list[0] != '\0';
    *list = known ? zkl__copy(heap, names->list, strlen(names->list)) : NULL;
    pthread_mutex_unlock(&names->mutex);
    return known && !*list ? ZKL_ENOMEM : ZKL_OK;
}

/* --- attempts -------------------------------------------------------------------------------- */

/* The address that the attempt is at now, as the list has it: the library puts brackets around
 * those of IPv6, into one buffer for all handles of the process (ZOOKEEPER-4810), so what it says
 * may be none. */
static void current_address(char out[ADDRESS_MAX], const struct zkl__store *store)
{
    size_t length = 0;
    for (const char *at = zoo_get_current_server(store->zh); *at && length < ADDRESS_MAX - 1;
         at++) {
        out[length] = *at;
        length += *at != '[' && *at != ']';
    }
    if (!has_entry(store->given, out, length)) {
        length = strcspn(store->given, ",");
        memcpy(out, store->given, length);
    }
    out[length] = '\0';
}

/* The list for the next attempt, which the caller owns; NULL: no memory. */
static char *next_list(struct zkl__store *store)
{
    char address[ADDRESS_MAX];
    size_t known = store->left_out ? strlen(store->left_out) : 0;
    size_t room = strlen(store->addresses) + known + (size_t)2 * ADDRESS_MAX;
    char *left_out = zkl__zalloc(&store->heap, room), *list = zkl__zalloc(&store->heap, room);
    if (!left_out || !list) {
        zkl__free(&store->heap, left_out);
        zkl__free(&store->heap, list);
        return NULL;
    }
    current_address(address, store);
    memcpy(left_out, known ? store->left_out : "", known);
    append_entry(left_out, address, strlen(address));
    remaining(list, store->addresses, left_out);
    if (!*list) {
        *left_out = '\0';
        remaining(list, store->addresses, left_out);
        int64_t most = store->config.timeout_ms * MS * 2 / 3;
        store->limit_ns = 2 * store->limit_ns < most ? 2 * store->limit_ns : most;
    }
    zkl__free(&store->heap, store->left_out);
    store->left_out = left_out;
    return list;
}

void zkl__zk_attempt_begins(struct zkl__store *store)
{
    if (store->limit_ns == 0) {
        int64_t limit = store->config.timeout_ms * MS / 8;
        limit = limit > LIMIT_LEAST ? limit : LIMIT_LEAST;
        store->limit_ns = limit < LIMIT_FIRST_MOST ? limit : LIMIT_FIRST_MOST;
    }
    store->attempt_ns = store->began_ns + store->limit_ns;
}

/* A handle that hung is replaced by the one for list. False: it is kept, for want of memory,
 * descriptors or threads. */
static bool replace_handle(struct zkl__store *store, char *list)
{
    struct zk_parting *parting = zkl__zalloc(&store->heap, sizeof *parting);
    char *given = store->given;
    if (!parting) {
        return false;
    }
    *parting = (struct zk_parting){store, store->zh};
    store->given = list;
    if (zkl__zk_start(store) != ZKL_OK) {
        store->given = given;
        zkl__free(&store->heap, parting);
        return false;
    }
    zkl__free(&store->heap, given);
    zkl__zk_part_from(parting);
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
    char *list = store->inside || store->parting >= PARTING_MOST ? NULL : next_list(store);
    if (!list || !replace_handle(store, list)) {
        zkl__free(&store->heap, list);
        store->attempt_ns = now + store->limit_ns;
    }
    return store->attempt_ns;
}
