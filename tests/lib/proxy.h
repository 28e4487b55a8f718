/* proxy.h - a TCP proxy in front of one ZooKeeper server, which understands the framing and can misbehave on demand.
 *
 * One thread of its own. All functions: any thread, at once. Frames are handled whole. */
#ifndef ZKL_TESTS_PROXY_H
#define ZKL_TESTS_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proxy;

/* Types of requests, as on the wire. */
enum proxy_op {
    PROXY_OP_NONE = 0,
    PROXY_OP_DELETE = 2,
    PROXY_OP_EXISTS = 3,
    PROXY_OP_GET = 4,
    PROXY_OP_SET = 5,
    PROXY_OP_SYNC = 9,
    PROXY_OP_PING = 11,
    PROXY_OP_CHILDREN = 12, /* getChildren2 */
    PROXY_OP_MULTI = 14,
    PROXY_OP_CREATE = 15, /* create2 */
    PROXY_OP_UNWATCH = 18,
    PROXY_OP_CONTAINER = 19,
    PROXY_OP_CLOSE = -11
};

enum proxy_way { PROXY_TO_SERVER, PROXY_TO_CLIENT };

/* What becomes of a request. */
enum proxy_fate {
    PROXY_SERVE,
    PROXY_CUT_BEFORE,    /* the request is lost, with its connection */
    PROXY_CUT_AFTER,     /* it is done, and its answer is lost with the connection */
    PROXY_EXPIRE_BEFORE, /* the session ends in its stead */
    PROXY_EXPIRE_AFTER,  /* it is done, and the session ends in its answer's stead */
    PROXY_HOLD_ANSWER,   /* its answer, and everything behind it, watch events too, comes 100 ms later */
    PROXY_FATES,
    PROXY_STALL = PROXY_FATES, /* the same, until the client sends another request (ZOOKEEPER-4537) */
    PROXY_UNIMPLEMENTED,       /* an older server (UnimplementedRequestProcessor): refused, and the connection cut */
    PROXY_LIE                  /* the script's lie is told */
};

/* By the proxy's thread. */
struct proxy_script {
    /* nth request (from 1) of all, pings and connects not counted, of that type. NULL: served. */
    enum proxy_fate (*fate)(void *payload, int nth, int type);
    /* Changes the answer to a request of that type (none: a connect), which may become shorter. NULL: no lies; else every connect
     * has one. */
    void (*lie)(void *payload, int type, unsigned char *answer, size_t *size);
    void *payload;
};

/* address: "127.0.0.1:2181". */
struct proxy *proxy_start(const char *address);
/* The same, listening on a loopback address and port of the caller's choice; port 0 is any. */
struct proxy *proxy_start_at(const char *host, int port, const char *address);
/* In front of another protocol: bytes are passed on as they come, and only hold, delay, cut and refuse have a meaning. Before the first
 * connection. */
void proxy_pass_bytes(struct proxy *p);
void proxy_stop(struct proxy *p);
const char *proxy_address(const struct proxy *p); /* "127.0.0.1:20001" */
int proxy_port(const struct proxy *p);

/* Frames of that way are kept, in order, until switched off again: a network that is silent. */
void proxy_hold(struct proxy *p, enum proxy_way way, bool on);
/* The same of both ways. */
void proxy_silence(struct proxy *p, bool on);
/* Every frame of both ways takes that long, but for those of a side that closes the connection: they arrive at its end. */
void proxy_delay(struct proxy *p, int64_t ms);
/* Closes every connection; later ones are accepted. */
void proxy_cut(struct proxy *p);
/* While on, a connection is closed as soon as it is accepted. */
void proxy_refuse(struct proxy *p, bool on);
/* Closes every connection, and refuses until proxy_refuse ends that. */
void proxy_down(struct proxy *p);
/* The same as proxy_refuse, once so many more connections were let through. */
void proxy_refuse_after(struct proxy *p, int connections);

/* What becomes of the next request of that type. */
void proxy_order_next(struct proxy *p, enum proxy_op op, enum proxy_fate fate);

/* Instead of passing on what a client sends next (the request for a session, too), the proxy responds with these bytes, and the
 * connection ends, with RST when reset is set. bytes: until it is done (proxy_hits). */
void proxy_garble_next(struct proxy *p, const char *bytes, size_t size, bool reset);

/* Before the first connection. */
void proxy_follow(struct proxy *p, struct proxy_script script);
/* The clients are told so, now. */
void proxy_say(struct proxy *p, const void *bytes, size_t size);
/* Requests so far, as the script counts them. */
int proxy_requests(struct proxy *p);

/* How many requests of that type came from clients so far. */
long proxy_count(struct proxy *p, enum proxy_op op);
/* How many answers were lost, stalled or garbled as ordered so far. */
long proxy_hits(struct proxy *p);
/* Connections open. */
int proxy_connections(struct proxy *p);

#endif
