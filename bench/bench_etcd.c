/* bench_etcd HOST:PORT: etcd's own lock service (v3lock), which queues contenders as ZooKeeper's
 * recipe does. Debian packages no client library of etcd for C, so requests go by the JSON gateway
 * of the server, on one connection for each contender. */
#include "driver.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct client {
    int fd;
    char name[512]; /* of the lock, in base64 */
    char lease[32];
    char key[512]; /* what the server made for us in the queue, in base64 */
    char reply[4096];
    long requests;
};

static void to_base64(char *out, const char *text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i += 3) {
        unsigned bits = (unsigned)(unsigned char)text[i] << 16;
        bits |= i + 1 < length ? (unsigned)(unsigned char)text[i + 1] << 8 : 0;
        bits |= i + 2 < length ? (unsigned)(unsigned char)text[i + 2] : 0;
        *out++ = digits[bits >> 18];
        *out++ = digits[bits >> 12 & 63];
        *out++ = i + 1 < length ? digits[bits >> 6 & 63] : '=';
        *out++ = i + 2 < length ? digits[bits & 63] : '=';
    }
    *out = '\0';
}

/* The body of the reply, once all of it has come. */
static const char *whole_body(const char *reply)
{
    const char *body = strstr(reply, "\r\n\r\n"), *length = strstr(reply, "Content-Length: ");
    if (!body || !length || length > body || strlen(body + 4) < strtoul(length + 16, NULL, 10)) {
        return NULL;
    }
    return body + 4;
}

static const char *post(struct client *c, const char *path, const char *json)
{
    char request[2048];
    const char *body = NULL;
    int length = snprintf(request, sizeof request,
                          "POST %s HTTP/1.1\r\nHost: etcd\r\nContent-Length: %zu\r\n\r\n%s", path,
                          strlen(json), json);
    if (write(c->fd, request, (size_t)length) != length) {
        die("etcd: %s: the connection is closed", path);
    }
    for (size_t used = 0; !body; body = whole_body(c->reply)) {
        ssize_t got = read(c->fd, c->reply + used, sizeof c->reply - 1 - used);
        if (got <= 0) {
            die("etcd: %s: no reply, or too long a one", path);
        }
        used += (size_t)got;
        c->reply[used] = '\0';
    }
    if (strncmp(c->reply, "HTTP/1.1 200", 12) != 0) {
        die("etcd: %s: %s", path, c->reply);
    }
    c->requests++;
    return body;
}

static void copy_field(char *to, size_t size, const char *body, const char *field)
{
    const char *at = strstr(body, field);
    if (!at) {
        die("etcd: no %s in %s", field, body);
    }
    at += strlen(field);
    snprintf(to, size, "%.*s", (int)strcspn(at, "\""), at);
}

static void etcd_acquire(void *contender)
{
    struct client *c = contender;
    char json[1024];
    snprintf(json, sizeof json, "{\"name\":\"%s\",\"lease\":\"%s\"}", c->name, c->lease);
    copy_field(c->key, sizeof c->key, post(c, "/v3/lock/lock", json), "\"key\":\"");
}

static void etcd_release(void *contender)
{
    struct client *c = contender;
    char json[1024];
    snprintf(json, sizeof json, "{\"key\":\"%s\"}", c->key);
    post(c, "/v3/lock/unlock", json);
}

static void *etcd_open(const struct job *job, int number)
{
    struct client *c = calloc(1, sizeof *c);
    struct sockaddr_in address = {.sin_family = AF_INET};
    int port = 0, one = 1;
    char host[64] = "";
    (void)number;
    if (!c || sscanf(job->servers, "%63[^:]:%d", host, &port) != 2 ||
        inet_pton(AF_INET, host, &address.sin_addr) != 1) {
        die("usage: bench_etcd ADDRESS:PORT");
    }
    address.sin_port = htons((uint16_t)port);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address) != 0) {
        die("etcd: %s: no connection", job->servers);
    }
    to_base64(c->name, job->path);
    copy_field(c->lease, sizeof c->lease, post(c, "/v3/lease/grant", "{\"TTL\":\"60\"}"),
               "\"ID\":\"");
    return c;
}

static void etcd_close(void *contender)
{
    struct client *c = contender;
    char json[64];
    snprintf(json, sizeof json, "{\"ID\":\"%s\"}", c->lease);
    post(c, "/v3/lease/revoke", json);
    close(c->fd);
    free(c);
}

static long etcd_requests(void *contender)
{
    return ((struct client *)contender)->requests;
}

int main(int argc, char **argv)
{
    static const struct driver driver = {.open = etcd_open,
                                         .acquire = etcd_acquire,
                                         .release = etcd_release,
                                         .close = etcd_close,
                                         .requests = etcd_requests};
    return driver_main(argc, argv, &driver);
}
