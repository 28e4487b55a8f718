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
    FILE *to, *from; /* the server */
    char name[512];  /* of the lock, in base64 */
    char lease[32];
    char key[512]; /* what the server made for us in the queue, in base64 */
    char reply[4096];
};

/* The body of the reply is in c->reply. */
static void post(struct client *c, const char *path, const char *json)
{
    char line[1024];
    size_t length = 0;
    fprintf(c->to, "POST %s HTTP/1.1\r\nHost: etcd\r\nContent-Length: %zu\r\n\r\n%s", path,
            strlen(json), json);
    fflush(c->to);
    do {
        if (!fgets(line, sizeof line, c->from)) {
            die("etcd: %s: the connection is closed", path);
        }
        sscanf(line, "Content-Length: %zu", &length);
    } while (strcmp(line, "\r\n") != 0);
    if (length >= sizeof c->reply || fread(c->reply, 1, length, c->from) != length) {
        die("etcd: %s: no reply, or too long a one", path);
    }
    c->reply[length] = '\0';
    if (strstr(c->reply, "\"error\":")) {
        die("etcd: %s: %s", path, c->reply);
    }
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

static bool etcd_acquire(void *contender)
{
    struct client *c = contender;
    char json[1024];
    snprintf(json, sizeof json, "{\"name\":\"%s\",\"lease\":\"%s\"}", c->name, c->lease);
    post(c, "/v3/lock/lock", json);
    copy_field(c->key, sizeof c->key, c->reply, "\"key\":\"");
    return true;
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
    struct client *c = allocate(1, sizeof *c);
    struct sockaddr_in address = {.sin_family = AF_INET};
    int port = 0, one = 1;
    char host[64] = "";
    (void)number;
    if (sscanf(job->servers, "%63[^:]:%d", host, &port) != 2 ||
        inet_pton(AF_INET, host, &address.sin_addr) != 1) {
        die("usage: bench_etcd ADDRESS:PORT");
    }
    address.sin_port = htons((uint16_t)port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        die("etcd: %s: no connection", job->servers);
    }
    c->to = fdopen(fd, "w");
    c->from = fdopen(dup(fd), "r");
    /* The path's letters are digits of base64 already; their number has to be a multiple of 4. */
    snprintf(c->name, sizeof c->name, "%sAAAA", job->path);
    c->name[strlen(c->name) / 4 * 4] = '\0';
    post(c, "/v3/lease/grant", "{\"TTL\":\"60\"}");
    copy_field(c->lease, sizeof c->lease, c->reply, "\"ID\":\"");
    return c;
}

static void etcd_close(void *contender)
{
    struct client *c = contender;
    char json[64];
    snprintf(json, sizeof json, "{\"ID\":\"%s\"}", c->lease);
    post(c, "/v3/lease/revoke", json);
    fclose(c->to);
    fclose(c->from);
    free(c);
}

const struct driver driver = {
    .open = etcd_open, .acquire = etcd_acquire, .release = etcd_release, .close = etcd_close};
