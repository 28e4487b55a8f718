/* zookeeper_servers.c - the connect string: chroot off, names into addresses, an odd number of
 * them.
 *
 * The library is given addresses, never names. It would resolve names on its I/O thread whenever it
 * has no connection, and while a name server is silent (a network that is cut often takes it along)
 * the library could neither connect nor be closed, and would spin on memory it never set when the
 * name server says no. Here each name is resolved on a thread of its own, that nobody waits for: it
 * may outlive the store that asked, so what it uses is not from the session's heap. Nor does one
 * name wait for another: that of a server that is down may be asked for in vain for longer than
 * anybody has. */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "error.h"
#include "text.h"
#include "zookeeper_store.h"

#define HOST_MAX 256
#define DEFAULT_PORT "2181"
#define ADDRESS_MAX 96 /* "fe80::...%interface:65535" */
#define ADDRESSES_MAX 255
#define LIST_MAX ((ADDRESSES_MAX + 1) * (ADDRESS_MAX + 1))

struct entry {
    char host[HOST_MAX];
    char port[8];
};

struct addresses {
    size_t count;
    char text[ADDRESSES_MAX][ADDRESS_MAX];
};

struct zk_names {
    pthread_mutex_t mutex;
    pthread_cond_t answered;
    int holders;   /* the store, and each thread while it asks */
    size_t asking; /* threads that are at it, and who starts them */
    bool numeric;  /* addresses already: the answer is for ever */
    bool complete; /* the list is an answer to all names, not only to those that were quick */
    struct addresses found; /* since all were asked last */
    char list[LIST_MAX];    /* the last answer, as the library wants it; empty: none yet, or no name
                               resolves */
    char hosts[];
};

/* --- parsing --------------------------------------------------------------------------------- */

static bool copy_part(char *out, size_t size, const char *from, size_t length)
{
    if (length == 0 || length >= size) {
        return false;
    }
    memcpy(out, from, length);
    out[length] = '\0';
    return true;
}

/* "host:port", "host", "[::1]:port" or "[::1]" (zkl__store_find has looked at it) into two halves.
 * The library wants a port and no brackets. */
static bool entry_parse(struct entry *entry, const char *text, size_t length)
{
    const char *end = text + length;
    const char *bracket = length > 0 && *text == '[' ? memchr(text, ']', length) : NULL;
    const char *host = bracket ? text + 1 : text;
    const char *colon =
        bracket ? memchr(bracket, ':', (size_t)(end - bracket)) : memrchr(text, ':', length);
    const char *host_end = bracket ? bracket : colon ? colon : end;
    const char *port = colon ? colon + 1 : DEFAULT_PORT;
    size_t port_length = colon ? (size_t)(end - port) : strlen(DEFAULT_PORT);
    return copy_part(entry->host, sizeof entry->host, host, (size_t)(host_end - host)) &&
           copy_part(entry->port, sizeof entry->port, port, port_length);
}

/* The entry at *at, which goes behind it; false at the end or when it is none. */
static bool entry_next(struct entry *entry, const char **at)
{
    size_t length = strcspn(*at, ",");
    bool ok = entry_parse(entry, *at, length);
    *at += length + ((*at)[length] == ',');
    return ok;
}

bool zkl__zk_next_server(const char **at, char *host, size_t host_size, char *port,
                         size_t port_size)
{
    struct entry entry;
    if (!**at || !entry_next(&entry, at)) {
        return false;
    }
    return copy_part(host, host_size, entry.host, strlen(entry.host)) &&
           copy_part(port, port_size, entry.port, strlen(entry.port));
}

int zkl__zk_split(char **hosts, char **chroot, const zkl_heap *heap, const char *servers,
                  zkl_error *err)
{
    size_t length = strcspn(servers, "/"), chroot_length = strlen(servers + length);
    while (chroot_length > 0 && servers[length + chroot_length - 1] == '/') {
        chroot_length--;
    }
    *hosts = zkl__copy(heap, servers, length);
    *chroot = zkl__copy(heap, servers + length, chroot_length);
    if (!*hosts || !*chroot) {
        return zkl__fail(err, ZKL_ENOMEM, 0, NULL, "out of memory");
    }
    const char *at = *hosts;
    do {
        struct entry entry;
        if (!entry_next(&entry, &at)) {
            return zkl__fail(err, ZKL_EINVAL, 0, NULL,
                             "servers: not of the form host:port[,host:port...][/chroot]");
        }
    } while (*at);
    return ZKL_OK;
}

/* --- resolving ------------------------------------------------------------------------------- */

static void add_address(struct addresses *addresses, const struct addrinfo *info)
{
    char host[NI_MAXHOST], port[NI_MAXSERV], text[sizeof host + sizeof port + 1];
    if (addresses->count == ADDRESSES_MAX ||
        (info->ai_family != AF_INET && info->ai_family != AF_INET6) ||
        getnameinfo(info->ai_addr, info->ai_addrlen, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return;
    }
    snprintf(text, sizeof text, "%s:%s", host, port);
    addresses->count += zkl__text_copy(addresses->text[addresses->count], ADDRESS_MAX, text);
}

static void resolve_entry(struct addresses *addresses, const struct entry *entry, int flags)
{
    struct addrinfo hints = {.ai_flags = flags, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int rc = getaddrinfo(entry->host, entry->port, &hints, &list);
    if ((rc == EAI_BADFLAGS || rc == EAI_ADDRFAMILY) && flags == AI_ADDRCONFIG) {
        hints.ai_flags = 0; /* as the library does */
        rc = getaddrinfo(entry->host, entry->port, &hints, &list);
    }
    if (rc == 0) {
        for (const struct addrinfo *at = list; at; at = at->ai_next) {
            add_address(addresses, at);
        }
        freeaddrinfo(list);
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* In order and each once, so that two answers can be compared. */
static void tidy(struct addresses *addresses)
{
    size_t kept = 0;
    qsort(addresses->text, addresses->count, ADDRESS_MAX, by_text);
    for (size_t i = 0; i < addresses->count; i++) {
        if (kept == 0 || strcmp(addresses->text[i], addresses->text[kept - 1]) != 0) {
            memmove(addresses->text[kept++], addresses->text[i], ADDRESS_MAX);
        }
    }
    addresses->count = kept;
}

/* ZOOKEEPER-2466: the library moves its cursor twice per failed attempt, so of an even number of
 * addresses it tries every other one only, for ever. The first one is repeated then. */
static void join_odd(char list[LIST_MAX], const struct addresses *addresses)
{
    size_t entries = addresses->count + (addresses->count % 2 == 0);
    struct zkl__text text = zkl__text_in(list, LIST_MAX);
    for (size_t i = 0; i < entries; i++) {
        zkl__text_add(&text, i ? "," : "");
        zkl__text_add(&text, addresses->text[i % addresses->count]);
    }
}

/* What was found becomes the list. When nothing was, what was known stays so: a name server that
 * fails makes no server go away. */
static void publish(struct zk_names *names)
{
    tidy(&names->found);
    if (names->found.count > 0) {
        join_odd(names->list, &names->found);
    }
}

/* False: one of the hosts is a name. */
static bool find_addresses(struct zk_names *names)
{
    for (const char *at = names->hosts; *at;) {
        struct entry entry;
        size_t before = names->found.count;
        if (entry_next(&entry, &at)) {
            resolve_entry(&names->found, &entry, AI_NUMERICHOST);
        }
        if (names->found.count == before) {
            return false;
        }
    }
    return true;
}

/* --- asking ---------------------------------------------------------------------------------- */

struct zk_names *zkl__zk_names_new(const char *hosts)
{
    size_t size = strlen(hosts) + 1;
    struct zk_names *names = calloc(1, sizeof *names + size);
    pthread_condattr_t attr;
    if (names) {
        memcpy(names->hosts, hosts, size);
        names->holders = 1;
        pthread_mutex_init(&names->mutex, NULL);
        pthread_condattr_init(&attr);
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        pthread_cond_init(&names->answered, &attr);
        pthread_condattr_destroy(&attr);
        names->numeric = find_addresses(names);
        if (names->numeric) {
            publish(names);
        }
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

struct question {
    struct zk_names *names;
    struct entry entry;
};

/* One name has been asked for. Those that are known need not wait for the others if nothing better
 * is. */
static void settle(struct zk_names *names)
{
    names->asking--;
    if (names->asking == 0) {
        publish(names);
        names->complete = names->list[0] != '\0';
        pthread_cond_broadcast(&names->answered);
    } else if (!names->complete) {
        publish(names);
    }
}

static void *ask(void *arg)
{
    struct question *question = arg;
    struct zk_names *names = question->names;
    struct addresses *mine = calloc(1, sizeof *mine);
    if (mine) {
        resolve_entry(mine, &question->entry, AI_ADDRCONFIG);
    }
    pthread_mutex_lock(&names->mutex);
    for (size_t i = 0; mine && i < mine->count && names->found.count < ADDRESSES_MAX; i++) {
        memcpy(names->found.text[names->found.count++], mine->text[i], ADDRESS_MAX);
    }
    settle(names);
    pthread_mutex_unlock(&names->mutex);
    free(mine);
    free(question);
    zkl__zk_names_drop(names);
    return NULL;
}

static void ask_apart(struct zk_names *names, const struct entry *entry)
{
    struct question *question = malloc(sizeof *question);
    if (!question) {
        return;
    }
    *question = (struct question){.names = names, .entry = *entry};
    pthread_mutex_lock(&names->mutex);
    names->asking++;
    names->holders++;
    pthread_mutex_unlock(&names->mutex);
    if (!zkl__zk_apart(ask, question)) {
        pthread_mutex_lock(&names->mutex);
        names->asking--;
        names->holders--;
        pthread_mutex_unlock(&names->mutex);
        free(question);
    }
}

/* True: the caller is the one to ask, and counts as one of those who do. Where it would wait for
 * the answer itself, once is enough. */
static bool begin_asking(struct zk_names *names)
{
    pthread_mutex_lock(&names->mutex);
    bool begin =
        !names->numeric && names->asking == 0 && !(zkl__zk_apart_is_here && names->list[0] != '\0');
    if (begin) {
        names->asking = 1;
        names->found.count = 0;
    }
    pthread_mutex_unlock(&names->mutex);
    return begin;
}

void zkl__zk_names_ask(struct zk_names *names)
{
    if (!begin_asking(names)) {
        return;
    }
    for (const char *at = names->hosts; *at;) {
        struct entry entry;
        if (entry_next(&entry, &at)) {
            ask_apart(names, &entry);
        }
    }
    pthread_mutex_lock(&names->mutex);
    settle(names);
    pthread_mutex_unlock(&names->mutex);
}

bool zkl__zk_names_wait(struct zk_names *names, int64_t timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&names->mutex);
    while (names->asking > 0 &&
           pthread_cond_timedwait(&names->answered, &names->mutex, &until) == 0) {
    }
    bool answered = names->asking == 0;
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
