/* Which adapter a servers string means, and whether the string is one. */
#include "store.h"
#include "acl.h"
#include "base.h"
#include "name.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY "memory:"
#define NAME_LONGEST 255 /* of a memory: NAME, for no reason but to have a limit */
#define DIGITS "0123456789"
#define HOST_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS ".-_"

struct zkl__server zkl__server_at(const char **at)
{
    const char *entry = *at, *end = entry + strcspn(entry, ",/");
    const char *bracket = *entry == '[' ? memchr(entry, ']', (size_t)(end - entry)) : NULL;
    const char *host = bracket ? entry + 1 : entry, *rest = bracket ? bracket : entry;
    const char *colon = memchr(rest, ':', (size_t)(end - rest));
    const char *host_end = bracket ? bracket : colon ? colon : end;
    struct zkl__server server = {
        .entry = entry, .length = (size_t)(end - entry), .port = "2181", .has_port = colon};
    snprintf(server.host, sizeof server.host, "%.*s", (int)(host_end - host), host);
    if (colon) {
        snprintf(server.port, sizeof server.port, "%.*s", (int)(end - colon) - 1, colon + 1);
    }
    *at = *end == ',' ? end + 1 : NULL;
    return server;
}

/* --- checks ---------------------------------------------------------------------------------- */

static int bad(zkl_error *err, const struct zkl__server *server, const char *what)
{
    return zkl__fail_at(err, ZKL_EINVAL, NULL, "servers: '%.*s': %s",
                        (int)(server->length < 100 ? server->length : 100), server->entry, what);
}

static bool is_port(const char *port)
{
    long value = strtol(port, NULL, 10);
    return strlen(port) <= 5 && strspn(port, DIGITS) == strlen(port) && value >= 1 &&
           value <= 65535;
}

static int check_address(const struct zkl__server *server, zkl_error *err)
{
    struct in6_addr parsed;
    const char *bracket = memchr(server->entry, ']', server->length);
    if (!bracket) {
        return bad(err, server, "'[' without ']'");
    }
    if (inet_pton(AF_INET6, server->host, &parsed) != 1) {
        return bad(err, server, "not an IPv6 address between the brackets");
    }
    if (!strchr(":,/", bracket[1])) {
        return bad(err, server, "only ':port' may follow ']'");
    }
    return ZKL_OK;
}

/* A host name or an IPv4 address; the resolver decides. */
static int check_host(const struct zkl__server *server, zkl_error *err)
{
    size_t length = strlen(server->host);
    if (length > ZKL__HOST_LONGEST) {
        return bad(err, server, "the host name is too long");
    }
    if (server->has_port && memchr(server->entry + length + 1, ':', server->length - length - 1)) {
        return bad(err, server,
                   "more than one ':'; an IPv6 address stands in brackets, as in [::1]:2181");
    }
    if (length == 0) {
        return bad(err, server, "no host before the port");
    }
    if (strspn(server->host, HOST_CHARS) < length) {
        return bad(err, server, "a host name has letters, digits, '.', '-' and '_' only");
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
        if (server.length == 0) {
            return zkl__fail_at(err, ZKL_EINVAL, NULL,
                                "servers: an empty entry (a comma too many)");
        }
        int code = *server.entry == '[' ? check_address(&server, err) : check_host(&server, err);
        if (code == ZKL_OK && server.has_port && !is_port(server.port)) {
            code = bad(err, &server, "the port must be a number from 1 to 65535");
        }
        if (code != ZKL_OK) {
            return code;
        }
    }
    return ZKL_OK;
}

static int check_zookeeper(const char *servers, zkl_error *err)
{
    const char *chroot = servers + strcspn(servers, "/");
    zkl_error inner = {0};
    int code = check_hosts(servers, err);
    /* "/" alone is no chroot. */
    if (code != ZKL_OK || chroot[0] == '\0' || strcmp(chroot, "/") == 0) {
        return code;
    }
    code = zkl__path_check(chroot, &inner);
    return code == ZKL_OK
               ? ZKL_OK
               : zkl__fail_at(err, code, inner.path, "servers: bad chroot: %.200s", inner.text);
}

static int check_memory(const char *name, zkl_error *err)
{
    size_t length = strlen(name);
    if (length == 0) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL,
                            "servers: memory: needs a name, as in memory:test");
    }
    if (length > NAME_LONGEST) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL,
                            "servers: the name after memory: is longer than %d bytes",
                            NAME_LONGEST);
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
    for (const char *at = servers; at;) { /* "memory:NAME" looks as if it had one */
        struct zkl__server server = zkl__server_at(&at);
        if (!server.has_port) {
            *length = server.length;
            return server.entry;
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

static const zkl_acl_entry creator = {ZKL_PERM_ALL, "auth", ""};
const zkl_acl zkl__store_creator_only = {1, &creator};
