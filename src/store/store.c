/* Which adapter a servers string means, and whether the string is one. */
#include "store.h"

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

static int check_hosts(const char *servers, zkl_error *err)
{
    if (*servers == '/') {
        return zkl__fail_at(err, ZKL_EINVAL, NULL,
                            "servers: no server before the chroot; give host:port");
    }
    for (const char *at = servers; at;) {
        struct zkl__server server = zkl__server_at(&at);
        const char *bracket = memchr(server.entry, ']', server.length);
        size_t length = strlen(server.host), port_length = strlen(server.port);
        struct in6_addr parsed;
        if (server.length == 0) {
            return zkl__fail_at(err, ZKL_EINVAL, NULL,
                                "servers: an empty entry (a comma too many)");
        }
        if (*server.entry == '[') {
            if (!bracket) {
                return bad(err, &server, "'[' without ']'");
            }
            if (inet_pton(AF_INET6, server.host, &parsed) != 1) {
                return bad(err, &server, "not an IPv6 address between the brackets");
            }
            if (!strchr(":,/", bracket[1])) {
                return bad(err, &server, "only ':port' may follow ']'");
            }
        } else { /* a host name or an IPv4 address; the resolver decides */
            if (length > ZKL__HOST_LONGEST) {
                return bad(err, &server, "the host name is too long");
            }
            if (server.has_port &&
                memchr(server.entry + length + 1, ':', server.length - length - 1)) {
                return bad(
                    err, &server,
                    "more than one ':'; an IPv6 address stands in brackets, as in [::1]:2181");
            }
            if (length == 0) {
                return bad(err, &server, "no host before the port");
            }
            if (strspn(server.host, HOST_CHARS) < length) {
                return bad(err, &server, "a host name has letters, digits, '.', '-' and '_' only");
            }
        }
        long port = strtol(server.port, NULL, 10);
        if (port_length > 5 || strspn(server.port, DIGITS) < port_length || port < 1 ||
            port > 65535) {
            return bad(err, &server, "the port must be a number from 1 to 65535");
        }
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
        const char *name = servers + strlen(MEMORY);
        if (*name == '\0') {
            zkl__fail_at(err, ZKL_EINVAL, NULL, "servers: memory: needs a name, as in memory:test");
            return NULL;
        }
        if (strlen(name) > NAME_LONGEST) {
            zkl__fail_at(err, ZKL_EINVAL, NULL,
                         "servers: the name after memory: is longer than %d bytes", NAME_LONGEST);
            return NULL;
        }
        if (strpbrk(name, "/,")) {
            zkl__fail_at(err, ZKL_EINVAL, NULL,
                         "servers: memory: has neither a chroot nor a list; no '/' or ','");
            return NULL;
        }
        return &zkl__store_memory;
    }
    const char *chroot = servers + strcspn(servers, "/");
    zkl_error inner = {0};
    if (check_hosts(servers, err) != ZKL_OK) {
        return NULL;
    }
    /* "/" alone is no chroot. */
    if (*chroot != '\0' && strcmp(chroot, "/") != 0 && zkl__path_check(chroot, &inner) != ZKL_OK) {
        zkl__fail_at(err, inner.code, inner.path, "servers: bad chroot: %.200s", inner.text);
        return NULL;
    }
    return &zkl__store_zookeeper;
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

int zkl__store_check(const struct zkl__op *op, size_t part_bytes)
{
    bool multi = op->kind == ZKL__OP_MULTI;
    const struct zkl__op *parts = multi ? op->parts : op;
    size_t count = multi ? op->part_count : 1, bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const struct zkl__op *part = &parts[i];
        char path[ZKL__STORE_PATH];
        /* A container in a multi would abort the process: the C client decodes the response as
         * another kind than the server sends. */
        if (multi && part->kind != ZKL__OP_DELETE && part->kind != ZKL__OP_SET &&
            part->kind != ZKL__OP_CHECK &&
            (part->kind != ZKL__OP_CREATE || part->mode == ZKL__CONTAINER)) {
            return ZKL_EUNSUPPORTED;
        }
        if (!zkl__store_path(path, part)) {
            return ZKL_EINVAL;
        }
        bytes += part->size + strlen(path) + PART_BYTES + part_bytes;
        bytes += part->acl ? zkl__acl_size(part->acl) : 0;
    }
    if (count == 0 || op->kind == ZKL__OP_NONE || op->kind > ZKL__OP_UNWATCH) {
        return ZKL_EINVAL;
    }
    return bytes <= REQUEST_BYTES_MAX ? ZKL_OK : ZKL_ELIMIT;
}

static const zkl_acl_entry creator = {ZKL_PERM_ALL, "auth", ""};
const zkl_acl zkl__store_creator_only = {1, &creator};
