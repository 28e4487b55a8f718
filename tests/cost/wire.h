/* wire.h - what an operation costs, counted by others than the library: requests, events and writes by the server, bytes by the kernel. */
#ifndef ZKL_TESTS_WIRE_H
#define ZKL_TESTS_WIRE_H

#include <stdbool.h>

#include "ensemble.h"

struct wire {
    long requests;  /* that the server received */
    long events;    /* that it sent: of its packets, those that answer none */
    long writes;    /* its zxid: transactions, refused ones included */
    long bytes_out; /* that this process sent to the server, and */
    long bytes_in;  /* received from it; TCP payload */
};

/* As it stands, for the sessions that are open; the server has no clients but those of this process. False: the server does not answer. */
bool wire_read(struct ensemble *server, struct wire *wire);
struct wire wire_minus(struct wire after, struct wire before);
bool wire_same(struct wire left, struct wire right);

/* A number of the server's mntr: "zk_watch_count\t"; -1: none. */
long wire_counter(struct ensemble *server, const char *name);
/* Waits for it; false at the deadline. */
bool wire_becomes(struct ensemble *server, const char *name, long value);

#endif
