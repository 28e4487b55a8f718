/* Which adapter a servers string means, and whether the string is one. */
#include "store.h"
#include "acl.h"
#include "base.h"
#include "name.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY "memory:"
#define NAME_MAX_BYTES \
    255 /* of a host, a DNS name's limit; of a memory: NAME, for no reason but to have one */
#define DIGITS "0123456789"
#define HOST_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS ".-_"

struct zkl__server zkl__server_at(const char **at)
{
    const char *entry = *at, *end = entry + strcspn(entry, ",/");
    const char *bracket = *entry == '[' ? memchr(entry, ']', (size_t)(end - entry)) : NULL;
    const char *host = bracket ? entry + 1 : entry, *rest = bracket ? bracket : entry;
    const char *colon = memchr(rest, ':', (size_t)(end - rest));
    const char *host_end = bracket ? bracket : colon ? colon : end;
    *at = *end == ',' ? end + 1 : NULL;
    return (struct zkl__server){
        .entry = {entry, (size_t)(end - entry)},
        .host = {host, (size_t)(host_end - host)},
        .port = {colon ? colon + 1 : NULL, colon ? (size_t)(end - colon) - 1 : 0}};
}

/* --- checks ---------------------------------------------------------------------------------- */

static int bad(zkl_error *err, struct zkl__slice entry, const char *what)
{
    return zkl__fail_at(err, ZKL_EINVAL, NULL, "servers: '%.*s': %s",
                        (int)(entry.length < 100 ? entry.length : 100), entry.text, what);
}

static bool is_port(struct zkl__slice port)
{
    long value = strtol(port.text, NULL, 10);
    return port.length <= 5 && strspn(port.text, DIGITS) == port.length && value >= 1 &&
           value <= 65535;
}

static int check_address(const struct zkl__server *server, zkl_error *err)
{
    char address[INET6_ADDRSTRLEN] = "";
    struct in6_addr parsed;
    const char *behind = server->host.text + server->host.length;
    if (*behind != ']') {
        return bad(err, server->entry, "'[' without ']'");
    }
    if (server->host.length < sizeof address) {
        memcpy(address, server->host.text, server->host.length);
    }
    if (inet_pton(AF_INET6, address, &parsed) != 1) {
        return bad(err, server->entry, "not an IPv6 address between the brackets");
    }
    if (!strchr(":,/", behind[1])) {
        return bad(err, server->entry, "only ':port' may follow ']'");
    }
    return ZKL_OK;
}

/* A host name or an IPv4 address; the resolver decides. */
static int check_host(const struct zkl__server *server, zkl_error *err)
{
    if (server->port.text && memchr(server->port.text, ':', server->port.length)) {
        return bad(err, server->entry,
                   "more than one ':'; an IPv6 address stands in brackets, as in [::1]:2181");
    }
    if (server->host.length == 0) {
        return bad(err, server->entry, "no host before the port");
    }
    if (server->host.length > NAME_MAX_BYTES) {
        return bad(err, server->entry, "the host name is too long");
    }
    if (strspn(server->host.text, HOST_CHARS) < server->host.length) {
        return bad(err, server->entry, "a host name has letters, digits, '.', '-' and '_' only");
    }
    return ZKL_OK;
}

static int check_hosts(const char *servers, zkl_error *err)
{
    if (*servers == '/') {
        return zkl__fail_at(err, ZKL_EINVAL, NULL,
                            "servers: no server before the chroot; give host:port");
    }
    for (const char *at = servers; at;) {
        struct zkl__server server = zkl__server_at(&at);
        if (server.entry.length == 0) {
            return zkl__fail_at(err, ZKL_EINVAL, NULL,
                                "servers: an empty entry (a comma too many)");
        }
        int code =
            *server.entry.text == '[' ? check_address(&server, err) : check_host(&server, err);
        if (code == ZKL_OK && server.port.text && !is_port(server.port)) {
            code = bad(err, server.entry, "the port must be a number from 1 to 65535");
        }
        if (code != ZKL_OK) {
            return code;
        }
    }
    return ZKL_OK;
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
    return zkl__fail_at(err, code, inner.path, "servers: bad chroot: %.200s", inner.text);
}

static int check_zookeeper(const char *servers, zkl_error *err)
{
    int code = check_hosts(servers, err);
    return code == ZKL_OK ? check_chroot(servers + strcspn(servers, "/"), err) : code;
}

static int check_memory(const char *name, zkl_error *err)
{
    size_t length = strlen(name);
    if (length == 0) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL,
                            "servers: memory: needs a name, as in memory:test");
    }
    if (length > NAME_MAX_BYTES) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL,
                            "servers: the name after memory: is longer than %d bytes",
                            NAME_MAX_BYTES);
    }
    if (strpbrk(name, "/,")) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL,
                            "servers: memory: has neither a chroot nor a list; no '/' or ','");
    }
    return ZKL_OK;
}

const struct zkl__store_ops *zkl__store_find(const char *servers, zkl_error *err)
{
    if (!servers || servers[0] == '\0') {
        zkl__fail_at(err, ZKL_EINVAL, NULL,
                     "servers: missing; give host:port[,host:port...][/chroot]");
        return NULL;
    }
    for (const char *c = servers; *c; c++) {
        if ((unsigned char)*c <= ' ' || *c == 0x7f) {
            zkl__fail_at(err, ZKL_EINVAL, NULL,
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
    bool memory = strncmp(servers, MEMORY, strlen(MEMORY)) == 0;
    for (const char *at = memory ? NULL : servers; at;) {
        struct zkl__server server = zkl__server_at(&at);
        if (!server.port.text) {
            *length = server.entry.length;
            return server.entry.text;
        }
    }
    return NULL;
}

/* --- operations ------------------------------------------------------------------------------ */

/* A server drops the connection for a request of 1 MB (jute.maxbuffer), and would for each retry.
 */
#define REQUEST_BYTES_MAX 1000000
#define PART_BYTES 64 /* lengths, flags, header */

bool zkl__store_is_sequential(const struct zkl__op *op)
{
    return op->kind == ZKL__OP_CREATE &&
           (op->mode == ZKL__EPHEMERAL_SEQUENTIAL || op->mode == ZKL__PERSISTENT_SEQUENTIAL);
}

bool zkl__store_path(char *out, const struct zkl__op *op)
{
    return op->dir && zkl__path_join(out, ZKL__STORE_PATH, op->dir, op->name) > 0 &&
           zkl__path_form(out, zkl__store_is_sequential(op));
}

/* A container in a multi would abort the process: the C client decodes the response as another kind
 * than the server sends. */
static bool is_part(const struct zkl__op *op)
{
    return op->kind == ZKL__OP_DELETE || op->kind == ZKL__OP_SET || op->kind == ZKL__OP_CHECK ||
           (op->kind == ZKL__OP_CREATE && op->mode != ZKL__CONTAINER);
}

int zkl__store_check(const struct zkl__op *op, size_t part_bytes)
{
    bool multi = op->kind == ZKL__OP_MULTI;
    const struct zkl__op *parts = multi ? op->parts : op;
    size_t count = multi ? op->part_count : 1, bytes = 0;
    for (size_t i = 0; i < count; i++) {
        char path[ZKL__STORE_PATH];
        if (multi && !is_part(&parts[i])) {
            return ZKL_EUNSUPPORTED;
        }
        if (!zkl__store_path(path, &parts[i])) {
            return ZKL_EINVAL;
        }
        bytes += parts[i].size + strlen(path) + PART_BYTES + part_bytes;
        bytes += parts[i].acl ? zkl__acl_size(parts[i].acl) : 0;
    }
    if (count == 0 || op->kind == ZKL__OP_NONE || op->kind > ZKL__OP_UNWATCH) {
        return ZKL_EINVAL;
    }
    return bytes <= REQUEST_BYTES_MAX ? ZKL_OK : ZKL_ELIMIT;
}

int64_t zkl__store_now(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static const zkl_acl_entry creator = {ZKL_PERM_ALL, "auth", ""};
const zkl_acl zkl__store_creator_only = {1, &creator};
