/* zookeeper_servers.c - the connect string: chroot off, an odd number of addresses. */
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "error.h"
#include "zookeeper_store.h"

#define HOST_MAX 256
#define DEFAULT_PORT "2181"

struct entry {
    char host[HOST_MAX];
    char port[8];
};

static bool copy_part(char *out, size_t size, const char *from, size_t length)
{
    if (length == 0 || length >= size) {
        return false;
    }
    memcpy(out, from, length);
    out[length] = '\0';
    return true;
}

/* "host:port", "host", "[::1]:port" or "[::1]" (zkl__store_find has looked at it) into two halves. The library wants a port
 * and no brackets. */
static bool entry_parse(struct entry *entry, const char *text, size_t length)
{
    const char *end = text + length;
    const char *bracket = length > 0 && *text == '[' ? memchr(text, ']', length) : NULL;
    const char *host = bracket ? text + 1 : text;
    const char *colon = bracket ? memchr(bracket, ':', (size_t)(end - bracket)) : memrchr(text, ':', length);
    const char *host_end = bracket ? bracket : colon ? colon : end;
    const char *port = colon ? colon + 1 : DEFAULT_PORT;
    size_t port_length = colon ? (size_t)(end - port) : strlen(DEFAULT_PORT);
    return copy_part(entry->host, sizeof entry->host, host, (size_t)(host_end - host)) &&
           copy_part(entry->port, sizeof entry->port, port, port_length);
}

/* As the library asks, so that the count is the same; the first address goes into numeric if there is none in it yet. */
static size_t entry_resolve(const struct entry *entry, struct entry *numeric)
{
    struct addrinfo hints = {
        .ai_flags = AI_ADDRCONFIG, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_protocol = IPPROTO_TCP};
    struct addrinfo *list = NULL;
    int rc = getaddrinfo(entry->host, entry->port, &hints, &list);
    if (rc == EAI_BADFLAGS || rc == EAI_ADDRFAMILY) {
        hints.ai_flags = 0;
        rc = getaddrinfo(entry->host, entry->port, &hints, &list);
    }
    if (rc != 0) {
        return 0;
    }
    size_t count = 0;
    for (const struct addrinfo *at = list; at; at = at->ai_next) {
        if (at->ai_family != AF_INET && at->ai_family != AF_INET6) {
            continue;
        }
        count++;
        if (numeric->host[0] == '\0' &&
            getnameinfo(at->ai_addr, at->ai_addrlen, numeric->host, sizeof numeric->host, numeric->port,
                        sizeof numeric->port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
            numeric->host[0] = '\0';
        }
    }
    freeaddrinfo(list);
    return count;
}

static void append(char *out, size_t size, const struct entry *entry)
{
    size_t length = strlen(out);
    snprintf(out + length, size - length, "%s%s:%s", length ? "," : "", entry->host, entry->port);
}

/* What make_list learns about the entries. */
struct tally {
    size_t addresses;
    struct entry odd;     /* the first entry with an odd number of addresses, if any */
    struct entry numeric; /* the first address of all */
};

static bool make_list(char *out, size_t size, const char *text, size_t length, struct tally *tally)
{
    const char *end = text + length;
    for (const char *at = text; at <= end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        size_t part = (size_t)((comma ? comma : end) - at);
        struct entry entry;
        if (!entry_parse(&entry, at, part)) {
            return false;
        }
        size_t count = entry_resolve(&entry, &tally->numeric);
        if (count % 2 == 1 && tally->odd.host[0] == '\0') {
            tally->odd = entry;
        }
        tally->addresses += count;
        append(out, size, &entry);
        at += part + 1;
    }
    return true;
}

/* ZOOKEEPER-2466: the library moves its cursor twice per failed attempt, so of an even number of addresses it tries every other one
 * only, for ever. A repeated entry makes the number odd; a name with several addresses counts as many. */
static void make_odd(char *out, size_t size, const struct tally *tally)
{
    if (tally->addresses % 2 == 0) {
        append(out, size, tally->odd.host[0] ? &tally->odd : &tally->numeric);
    }
}

static int copy_chroot(char **chroot, const zkl_heap *heap, const char *from)
{
    size_t length = strlen(from);
    while (length > 0 && from[length - 1] == '/') {
        length--;
    }
    *chroot = zkl__copy(heap, from, length);
    return *chroot ? ZKL_OK : ZKL_ENOMEM;
}

int zkl__zk_servers(char **hosts, char **chroot, const zkl_heap *heap, const char *servers, zkl_error *err)
{
    size_t length = strcspn(servers, "/");
    size_t size = 6 * length + HOST_MAX + 16; /* each entry may gain a port */
    char *list = zkl__zalloc(heap, size);
    if (!list || copy_chroot(chroot, heap, servers + length) != ZKL_OK) {
        zkl__free(heap, list);
        return zkl__fail(err, ZKL_ENOMEM, 0, NULL, "out of memory");
    }
    struct tally tally = {0};
    int code = ZKL_OK;
    if (!make_list(list, size, servers, length, &tally)) {
        code = zkl__fail(err, ZKL_EINVAL, 0, NULL, "servers: not of the form host:port[,host:port...][/chroot]");
    } else if (tally.addresses == 0) {
        code = zkl__fail(err, ZKL_ECONNECT, 0, NULL, "no server name of %.*s resolves", (int)length, servers);
    }
    if (code != ZKL_OK) {
        zkl__free(heap, list);
        return code;
    }
    make_odd(list, size, &tally);
    *hosts = list;
    return ZKL_OK;
}
