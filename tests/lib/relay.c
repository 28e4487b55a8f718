#include "relay.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HOSTS = 5, PAIRS = 16, LOOK_MS = 2 };

struct relay {
    pthread_t thread;
    int hosts, port, target;
    int listeners[HOSTS];
    int pairs[PAIRS][2]; /* whoever connected, and the server; -1: free */
    atomic_int host;
    atomic_bool hold, over;
};

static struct sockaddr_in address_of(int host, int port)
{
    char text[24];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    snprintf(text, sizeof text, "127.0.1.%d", host + 1);
    inet_pton(AF_INET, text, &address.sin_addr);
    return address;
}

static int socket_at(int host, int port, int *bound)
{
    struct sockaddr_in address = address_of(host, port);
    socklen_t length = sizeof address;
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 8) != 0) {
        close(fd);
        return -1;
    }
    getsockname(fd, (struct sockaddr *)&address, &length);
    *bound = ntohs(address.sin_port);
    return fd;
}

static void close_pair(int pair[2])
{
    close(pair[0]);
    close(pair[1]);
    pair[0] = pair[1] = -1;
}

static void take_connection(struct relay *relay, int host)
{
    int fd = accept4(relay->listeners[host], NULL, NULL, SOCK_CLOEXEC), one = 1;
    int to = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = address_of(host, relay->target);
    for (int i = 0; fd >= 0 && i < PAIRS; i++) {
        if (relay->pairs[i][0] < 0 && connect(to, (struct sockaddr *)&address, sizeof address) == 0) {
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            relay->pairs[i][0] = fd;
            relay->pairs[i][1] = to;
            atomic_store(&relay->host, host);
            return;
        }
    }
    close(fd);
    close(to);
}

/* False: that side has closed. */
static bool hand_on(int from, int to)
{
    char bytes[65536];
    ssize_t got = recv(from, bytes, sizeof bytes, 0);
    for (ssize_t done = 0, sent; got > 0 && done < got; done += sent) {
        sent = send(to, bytes + done, (size_t)(got - done), MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
    }
    return got > 0;
}

static void *run(void *arg)
{
    struct relay *relay = arg;
    while (!atomic_load(&relay->over)) {
        struct pollfd fds[HOSTS + 2 * PAIRS];
        for (int i = 0; i < relay->hosts; i++) {
            fds[i] = (struct pollfd){relay->listeners[i], POLLIN, 0};
        }
        for (int i = 0; i < 2 * PAIRS; i++) {
            bool held = i % 2 == 0 && atomic_load(&relay->hold);
            fds[relay->hosts + i] = (struct pollfd){held ? -1 : relay->pairs[i / 2][i % 2], POLLIN, 0};
        }
        poll(fds, (nfds_t)(relay->hosts + 2 * PAIRS), LOOK_MS);
        for (int i = 0; i < 2 * PAIRS; i++) {
            int *pair = relay->pairs[i / 2];
            if (fds[relay->hosts + i].revents && pair[0] >= 0 && !hand_on(pair[i % 2], pair[1 - i % 2])) {
                close_pair(pair);
            }
        }
        for (int i = 0; i < relay->hosts; i++) {
            if (fds[i].revents) {
                take_connection(relay, i);
            }
        }
    }
    return NULL;
}

struct relay *relay_start(int hosts)
{
    struct relay *relay = calloc(1, sizeof *relay);
    relay->hosts = hosts;
    atomic_init(&relay->host, -1);
    int target = socket_at(0, 0, &relay->target);
    bool ok = target >= 0 && hosts <= HOSTS;
    for (int i = 0; ok && i < hosts; i++) {
        relay->listeners[i] = socket_at(i, relay->port, &relay->port);
        ok = relay->listeners[i] >= 0;
    }
    close(target);
    for (int i = 0; i < PAIRS; i++) {
        relay->pairs[i][0] = relay->pairs[i][1] = -1;
    }
    if (!ok || pthread_create(&relay->thread, NULL, run, relay) != 0) {
        fprintf(stderr, "relay: no port, or no thread\n");
        free(relay);
        return NULL;
    }
    return relay;
}

void relay_stop(struct relay *relay)
{
    atomic_store(&relay->over, true);
    pthread_join(relay->thread, NULL);
    for (int i = 0; i < relay->hosts; i++) {
        close(relay->listeners[i]);
    }
    for (int i = 0; i < PAIRS; i++) {
        if (relay->pairs[i][0] >= 0) {
            close_pair(relay->pairs[i]);
        }
    }
    free(relay);
}

int relay_port(const struct relay *relay)
{
    return relay->port;
}

int relay_target(const struct relay *relay)
{
    return relay->target;
}

void relay_hold(struct relay *relay, bool on)
{
    atomic_store(&relay->hold, on);
}

int relay_host(const struct relay *relay)
{
    return atomic_load(&relay->host);
}
