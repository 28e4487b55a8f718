/* relay.h - a listener whose clients talk to a server through a liar. It has no thread: its owner polls. */
#ifndef ZKL_SECURITY_RELAY_H
#define ZKL_SECURITY_RELAY_H

#include <poll.h>

#include "lies.h"

#define RELAY_LINKS 16
#define RELAY_FDS (1 + 2 * RELAY_LINKS)

struct relay_link;

struct relay {
    int listener, port, to_port;
    struct liar liar;
    struct relay_link *links[RELAY_LINKS];
    uint64_t link_count; /* so far */
    int64_t requests;    /* of the clients, so far */
};

/* False: no socket. to_port: the server's, on loopback. */
bool relay_open(struct relay *relay, int to_port);
void relay_close(struct relay *relay);
/* Fills fds, of which there are RELAY_FDS; then, after poll: reads and writes what can be. */
void relay_watch(const struct relay *relay, struct pollfd *fds);
void relay_step(struct relay *relay, const struct pollfd *fds);

#endif
