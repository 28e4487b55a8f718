/* lease.h - how long the session surely lives: arithmetic only, on stamps of CLOCK_BOOTTIME in ns.
 *
 * A server's response proves little: a follower that has lost its leader goes on answering pings
 * and reads. A follower notes the activity of its clients. It passes the notes on with its answer
 * to the leader's next ping, which the leader sends every half tick, T/2. So the proof is a chain
 * on one connection: a: any operation, sent at s_a, answered; b: a write or sync, sent at least T/2
 * + P after a's answer, answered; c: a committed write, sent after b's answer, answered. The leader
 * sent a ping after a and before b's answer, on the same ordered stream. The follower answered that
 * ping, with a's activity in it, before it forwarded c. The leader took that answer before c, and
 * found the session alive when it took c. So the leader had then heard of activity not older than
 * s_a, and the session lives at least until s_a + timeout, less clock drift. P is how long the
 * leader may be frozen. The proof needs no bound on any network delay.
 *
 * A leader that has begun to expire a session goes on to serve it for a while, and begins that only
 * if it has noted no activity for a timeout (SessionTrackerImpl.run). So a chain counts if it is
 * complete before the timeout of the one before it has passed. One that is late leaves the session
 * in doubt, until a write that is sent a timeout later: as long as the leader may take at most.
 *
 * An observer may follow a follower (observerMasterPort). Then there are two hops, and each has a
 * timer of its own. The chain above proves only that the follower has noted a, so it needs a second
 * stage behind it: c: a write or sync, sent after b's answer, answered: the follower noted a before
 * it forwarded c; d: a write or sync, sent at least T/2 + P after c's answer, answered; e: a
 * committed write, sent after d's answer, answered. docs/lease.md has the proof step by step, with
 * the classes of ZooKeeper's that each step rests on. */
#ifndef ZKL_PROTOCOL_LEASE_H
#define ZKL_PROTOCOL_LEASE_H

#include <zklock/session.h>

#define ZKL__LEASE_LINKS 64

enum zkl__proof {
    ZKL__PROOF_RESPONSE, /* any word of the server's: an a */
    ZKL__PROOF_SYNC,     /* an a and a b */
    ZKL__PROOF_COMMIT    /* a committed write: a, b and c */
};

/* From a session's connection to its leader: how many servers hand on what they noted. */
enum zkl__hops {
    ZKL__HOPS_ONE =
        1, /* a follower, or an observer that follows the leader; the leader itself counts as one */
    ZKL__HOPS_TWO = 2 /* an observer may follow a follower */
};

#define ZKL__LEASE_RINGS 4 /* links a, b, c and d; the last one, c or e, is not kept */

struct zkl__lease_ring {
    struct zkl__lease_link {
        int64_t root;     /* s_a */
        int64_t answered; /* when the link's own answer was here */
    } links[ZKL__LEASE_LINKS];
    unsigned count; /* ever pushed */
};

struct zkl__lease {
    int64_t timeout; /* of the session, the shortest that any of its connections negotiated */
    int64_t gap;     /* T/2 + P */
    int64_t root;    /* newest moment of which a chain proved that the leader heard of it */
    int64_t until;   /* the session lives until then at least; 0: nothing is known */
    int64_t touched; /* newest moment of which a chain showed that this connection's leader heard of
                        it; a committed write shows that it was the leader */
    int64_t doubt;   /* only a write sent from then on proves that the session lives; 0: any */
    enum zkl__hops hops;
    struct zkl__lease_ring rings[ZKL__LEASE_RINGS];
};

/* A fresh session: it was made by a committed transaction that the connect, begun at began, asked
 * for. */
void zkl__lease_begin(struct zkl__lease *lease, int64_t timeout, int64_t gap, int64_t began);
/* Another connection, known at now. What was proved stays proved. The server asked the leader to
 * revalidate the session, and the leader touched it then (Leader.revalidateSession): so the
 * connection itself is the link before the last one, for every operation that was answered on an
 * earlier connection. */
void zkl__lease_reconnect(struct zkl__lease *lease, int64_t timeout, int64_t now);
/* The leader may have begun to expire the session, and not have come to it yet: no grant before a
 * committed write that was sent later than that can last. */
bool zkl__lease_doubted(const struct zkl__lease *lease, int64_t now);
/* An operation of this connection was answered. sent: stamp from before it was handed to the client
 * library; answered: from after the answer was here. Answers come in the order of sending. Returns
 * true when the lease grew. */
bool zkl__lease_response(struct zkl__lease *lease, enum zkl__proof proof, int64_t sent,
                         int64_t answered);

/* Interval of the heartbeat while something is held, and of the sync when nothing is. */
int64_t zkl__lease_heartbeat(int64_t timeout);
int64_t zkl__lease_keepalive(const struct zkl__lease *lease);
/* Lease left at the least, just before the next answer, while heartbeats are answered immediately.
 * Not positive: the session timeout is too short for this tick. */
int64_t zkl__lease_least(int64_t timeout, int64_t gap, enum zkl__hops hops);
/* What will be left just before the lease grows next, if heartbeats go out from now on and are
 * answered immediately. Less than the least lease while the chain of a young connection is not
 * complete. Not positive: the lease ends before, and may be in doubt when it grows. */
int64_t zkl__lease_low(const struct zkl__lease *lease, int64_t now);

/* === the tickTime of the servers ============================================================== */

/* ZKL_OK, or ZKL_EINVAL if a session with this timeout (ns) leaves its holders less than a tenth of
 * it as lease. The text names the numbers and a timeout that is enough. */
int zkl__lease_check(const zkl_session_options *options, int64_t timeout, enum zkl__hops hops,
                     zkl_error *err);

/* A server's bounds on session timeouts are 2 and 20 ticks unless they are configured
 * (ZooKeeperServer.setMinSessionTimeout and setMaxSessionTimeout, ZooKeeper 3.8).
 * This is the tickTime that explains why a server granted negotiated_ms to a request for asked_ms.
 * 0: the two are equal, so the tickTime is unknown. */
int64_t zkl__tick_of_timeout(int64_t asked_ms, int64_t negotiated_ms);

#endif
