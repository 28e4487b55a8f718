#include "wire.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "wait.h"

#define FDS 1024 /* more than these tests ever have open */

/* --- the server ---------------------------------------------------------------------------------------------------------- */

/* A number of the server's answer to word; -1: none. */
static long ask_number(struct ensemble *server, const char *word, const char *name, int base)
{
    char *text = ensemble_ask(server, 0, word), *at = text ? strstr(text, name) : NULL;
    long value = at ? strtol(at + strlen(name), NULL, base) : -1;
    free(text);
    return value;
}

/* "cons" has a line for each connection; those without a session are our own questions. */
static bool count_packets(struct ensemble *server, struct wire *wire)
{
    char *text = ensemble_ask(server, 0, "cons"), *rest = text, *line;
    while (rest && (line = strsep(&rest, "\n"))) {
        const char *at = strstr(line, "sid=") ? strstr(line, "recved=") : NULL;
        long received, sent;
        if (at && sscanf(at, "recved=%ld,sent=%ld", &received, &sent) == 2) {
            wire->requests += received;
            wire->events += sent - received;
        }
    }
    free(text);
    return text != NULL;
}

long wire_counter(struct ensemble *server, const char *name)
{
    return ask_number(server, "mntr", name, 10);
}

bool wire_becomes(struct ensemble *server, const char *name, long value)
{
    int64_t end = now_ms() + SOON;
    while (wire_counter(server, name) != value) {
        if (!look_again(end)) {
            fprintf(stderr, "%s: %ld, not %ld\n", name, wire_counter(server, name), value);
            return false;
        }
    }
    return true;
}

/* --- the kernel ------------------------------------------------------------------------------------------------------------ */

/* The library's sockets are found among this process's by where they lead to. */
static void add_bytes(int fd, int port, struct wire *wire)
{
    struct sockaddr_in peer;
    struct tcp_info info;
    socklen_t size = sizeof peer;
    if (getpeername(fd, (struct sockaddr *)&peer, &size) != 0 || peer.sin_family != AF_INET ||
        ntohs(peer.sin_port) != port) {
        return;
    }
    size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0) {
        wire->bytes_out += (long)(info.tcpi_bytes_sent - info.tcpi_bytes_retrans);
        wire->bytes_in += (long)info.tcpi_bytes_received;
    }
}

bool wire_read(struct ensemble *server, struct wire *wire)
{
    *wire = (struct wire){.writes = ask_number(server, "srvr", "Zxid: 0x", 16)};
    for (int fd = 3; fd < FDS; fd++) {
        add_bytes(fd, ensemble_port(server, 0), wire);
    }
    return count_packets(server, wire) && wire->writes >= 0;
}

/* --- arithmetic --------------------------------------------------------------------------------------------------------------- */

struct wire wire_minus(struct wire after, struct wire before)
{
    return (struct wire){after.requests - before.requests, after.events - before.events, after.writes - before.writes,
                         after.bytes_out - before.bytes_out, after.bytes_in - before.bytes_in};
}

bool wire_same(struct wire a, struct wire b)
{
    return a.requests == b.requests && a.events == b.events && a.writes == b.writes && a.bytes_out == b.bytes_out &&
           a.bytes_in == b.bytes_in;
}
