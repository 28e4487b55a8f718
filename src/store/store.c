/* Which adapter a servers string means, and whether the string is one. */
#include "store.h"
#include "error.h"
#include "path.h"

#include <arpa/inet.h>
#include <string.h>

#define MEMORY "memory:"
#define NAME_MAX_BYTES \
    255 /* of a host, a DNS name's limit; of a memory: NAME, for no reason but to have one */

/* A part of the servers string: text that ends by length. */
struct slice {
    const char *text;
    size_t length;
};

static const char *find_char(struct slice in, char wanted)
{
    return in.length > 0 ? memchr(in.text, wanted, in.length) : NULL;
}

static int bad(zkl_error *err, struct slice entry, const char *what)
{
    return zkl__fail(err, ZKL_EINVAL, 0, NULL, "servers: '%.*s': %s",
                     (int)(entry.length < 100 ? entry.length : 100), entry.text, what);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}
static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int check_port(struct slice entry, struct slice port, zkl_error *err)
{
    long value = 0;
    bool digits = port.length > 0 && port.length <= 5;
    for (size_t i = 0; digits && i < port.length; i++) {
        digits = is_digit(port.text[i]);
        value = value * 10 + (port.text[i] - '0');
    }
    return digits && value >= 1 && value <= 65535
               ? ZKL_OK
               : bad(err, entry, "the port must be a number from 1 to 65535");
}

/* A host name or an IPv4 address; the resolver has the last word. */
static int check_host(struct slice entry, struct slice host, zkl_error *err)
{
    if (host.length == 0) {
        return bad(err, entry, "no host before the port");
    }
    if (host.length > NAME_MAX_BYTES) {
        return bad(err, entry, "the host name is too long");
    }
    for (size_t i = 0; i < host.length; i++) {
        char c = host.text[i];
        if (!is_digit(c) && !is_letter(c) && c != '.' && c != '-' && c != '_') {
            return bad(err, entry, "a host name has letters, digits, '.', '-' and '_' only");
        }
    }
    return ZKL_OK;
}

/* entry begins with '['. */
static int check_bracketed(struct slice entry, zkl_error *err)
{
    char address[INET6_ADDRSTRLEN] = "";
    struct in6_addr parsed;
    const char *end = find_char(entry, ']');
    if (!end) {
        return bad(err, entry, "'[' without ']'");
    }
    size_t length = (size_t)(end - entry.text) - 1;
    if (length < sizeof address) {
        memcpy(address, entry.text + 1, length);
    }
    if (inet_pton(AF_INET6, address, &parsed) != 1) {
        return bad(err, entry, "not an IPv6 address between the brackets");
    }
    struct slice rest = {end + 1, entry.length - length - 2};
    if (rest.length > 0 && rest.text[0] != ':') {
        return bad(err, entry, "only ':port' may follow ']'");
    }
    return rest.length == 0
               ? ZKL_OK
               : check_port(entry, (struct slice){rest.text + 1, rest.length - 1}, err);
}

/* host, host:port, [IPv6] or [IPv6]:port. Without a port: 2181. */
static int check_server(struct slice entry, zkl_error *err)
{
    if (entry.length == 0) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "servers: an empty entry (a comma too many)");
    }
    if (entry.text[0] == '[') {
        return check_bracketed(entry, err);
    }
    const char *colon = find_char(entry, ':');
    if (!colon) {
        return check_host(entry, entry, err);
    }
    struct slice host = {entry.text, (size_t)(colon - entry.text)};
    struct slice port = {colon + 1, entry.length - host.length - 1};
    if (find_char(port, ':')) {
        return bad(err, entry,
                   "more than one ':'; an IPv6 address stands in brackets, as in [::1]:2181");
    }
    int code = check_host(entry, host, err);
    return code == ZKL_OK ? check_port(entry, port, err) : code;
}

static int check_hosts(struct slice hosts, zkl_error *err)
{
    if (hosts.length == 0) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL,
                         "servers: no server before the chroot; give host:port");
    }
    const char *comma;
    while ((comma = find_char(hosts, ',')) != NULL) {
        struct slice entry = {hosts.text, (size_t)(comma - hosts.text)};
        int code = check_server(entry, err);
        if (code != ZKL_OK) {
            return code;
        }
        hosts = (struct slice){comma + 1, hosts.length - entry.length - 1};
    }
    return check_server(hosts, err);
}

/* "/" alone is no chroot. */
static int check_chroot(const char *chroot, zkl_error *err)
{
    if (chroot[0] == '\0' || strcmp(chroot, "/") == 0) {
        return ZKL_OK;
    }
    zkl_error inner = {0};
    int code = zkl__path_check(chroot, &inner);
    if (code == ZKL_OK) {
        return ZKL_OK;
    }
    return zkl__fail(err, code, 0, inner.path, "servers: bad chroot: %.200s", inner.text);
}

static int check_zookeeper(const char *servers, zkl_error *err)
{
    size_t length = strcspn(servers, "/");
    int code = check_hosts((struct slice){servers, length}, err);
    return code == ZKL_OK ? check_chroot(servers + length, err) : code;
}

static int check_memory(const char *name, zkl_error *err)
{
    size_t length = strlen(name);
    if (length == 0) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL,
                         "servers: memory: needs a name, as in memory:test");
    }
    if (length > NAME_MAX_BYTES) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL,
                         "servers: the name after memory: is longer than %d bytes", NAME_MAX_BYTES);
    }
    if (strpbrk(name, "/,")) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL,
                         "servers: memory: has neither a chroot nor a list; no '/' or ','");
    }
    return ZKL_OK;
}

const struct zkl__store_ops *zkl__store_find(const char *servers, zkl_error *err)
{
    if (!servers || servers[0] == '\0') {
        zkl__fail(err, ZKL_EINVAL, 0, NULL,
                  "servers: missing; give host:port[,host:port...][/chroot]");
        return NULL;
    }
    for (const char *c = servers; *c; c++) {
        if ((unsigned char)*c <= ' ' || *c == 0x7f) {
            zkl__fail(err, ZKL_EINVAL, 0, NULL,
                      "servers: white space or a control character at byte %zu",
                      (size_t)(c - servers));
            return NULL;
        }
    }
    if (strncmp(servers, MEMORY, strlen(MEMORY)) == 0) {
        return check_memory(servers + strlen(MEMORY), err) == ZKL_OK ? &zkl__store_memory : NULL;
    }
    return check_zookeeper(servers, err) == ZKL_OK ? &zkl__store_zookeeper : NULL;
}

const char *zkl__store_without_port(const char *servers, size_t *length)
{
    if (strncmp(servers, MEMORY, strlen(MEMORY)) == 0) {
        return NULL;
    }
    for (const char *entry = servers; *entry && *entry != '/';) {
        const char *bracket = entry[0] == '[' ? strchr(entry, ']') : NULL;
        const char *host_end = bracket ? bracket : entry;
        *length = strcspn(entry, ",/");
        if (!find_char((struct slice){host_end, *length - (size_t)(host_end - entry)}, ':')) {
            return entry;
        }
        entry += *length + (entry[*length] == ',' ? 1 : 0);
    }
    return NULL;
}
