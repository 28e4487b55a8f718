/* lease.h - how long the session surely lives: arithmetic only, on stamps of CLOCK_BOOTTIME in ns.
 *
 * What a server tells a client proves little: a follower that has lost its leader goes on answering pings and reads. A
 * follower notes a client's activity and passes it on with its answer to the leader's next ping, at most every half tick
 * T/2. So a chain on one connection is needed:
 *   a: any operation, sent at s_a, answered;
 *   b: a write or sync, sent at least T/2 + P after a's answer, answered;
 *   c: a committed write, sent after b's answer, answered.
 * b's answer follows, on the leader's ordered stream to the follower, a ping that the leader sent after a; the follower answered that
 * ping, with a's activity in it, before it forwarded c; the leader took that answer before c, and checked that the session
 * was alive when it took c. So the leader had then heard of activity not older than s_a, and the session lives at least until
 * s_a + timeout, less clock drift. P is how long the leader may be frozen. No bound on any network delay is used. */
#ifndef ZKL_CORE_LEASE_H
#define ZKL_CORE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#define ZKL__LEASE_LINKS 64

enum zkl__proof {
    ZKL__PROOF_ANSWER, /* any word of the server's: an a */
    ZKL__PROOF_SYNC,   /* an a and a b */
    ZKL__PROOF_COMMIT  /* a committed write: a, b and c */
};

struct zkl__lease {
    int64_t timeout; /* of the session, negotiated */
    int64_t gap;     /* T/2 + P */
    int64_t root;    /* newest moment of which a chain proved that the leader heard of it */
    int64_t until;   /* the session lives until then at least; 0: nothing is known */
    struct zkl__lease_link {
        int64_t root;     /* s_a */
        int64_t answered; /* when the link's own answer was here */
    } a[ZKL__LEASE_LINKS], b[ZKL__LEASE_LINKS];
    unsigned a_count, b_count; /* ever pushed */
};

/* A fresh session: it was made by a committed transaction that the connect, begun at began, asked for. */
void zkl__lease_begin(struct zkl__lease *lease, int64_t timeout, int64_t gap, int64_t began);
/* Another connection: the chain starts again; what was proved stays proved. */
void zkl__lease_reconnect(struct zkl__lease *lease, int64_t timeout);
/* The session is over. */
void zkl__lease_end(struct zkl__lease *lease);
/* An operation of this connection was answered. sent: stamp from before it was handed to the client library; answered: from after the
 * answer was here. Answers come in the order of sending. Returns true when the lease grew. */
bool zkl__lease_answer(struct zkl__lease *lease, enum zkl__proof proof, int64_t sent, int64_t answered);

/* Interval of the heartbeat while something is held, and of the sync when nothing is. */
int64_t zkl__lease_heartbeat(int64_t timeout);
int64_t zkl__lease_keepalive(int64_t timeout);
/* Lease left at the least, just before the next answer, while heartbeats are answered at once. Not positive: the session timeout is too
 * short for this tick. */
int64_t zkl__lease_least(int64_t timeout, int64_t gap);

#endif
