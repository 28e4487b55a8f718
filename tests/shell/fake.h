/* fake.h - a server that speaks ZooKeeper's protocol on a socket, and does to any request what a script says. Behind it stands the
 * in-process store, so that sequences, watches and ephemeral nodes are as they should be. One thread of its own. */
#ifndef ZKL_SHELL_FAKE_H
#define ZKL_SHELL_FAKE_H

#include <stdbool.h>
#include <stdint.h>

enum fake_fate {
    FAKE_SERVE,
    FAKE_CUT_BEFORE,    /* the request is lost, with its connection */
    FAKE_CUT_AFTER,     /* it is done, and its answer is lost with the connection */
    FAKE_EXPIRE_BEFORE, /* the session ends in its stead */
    FAKE_EXPIRE_AFTER,  /* it is done, and the session ends in its answer's stead */
    FAKE_HOLD,          /* its answer, and everything behind it, watch events too, comes 100 ms later */
    FAKE_FATES,
    FAKE_COUNT_TOO_HIGH = FAKE_FATES, /* a lie: its list of children says one name more than it has */
    FAKE_SAYS_EXPIRED, /* a lie: before its answer, that the session has ended, and then, again and again, that it is connected */
    FAKE_UNIMPLEMENTED /* an older server (UnimplementedRequestProcessor): refused, and the connection cut */
};

/* nth request (from 1) of all, pings and connects not counted, of that type (as on the wire). On the server's thread. */
typedef enum fake_fate (*fake_fate_fn)(void *payload, int nth, int type);

struct fake;

/* tree: "memory:NAME". */
struct fake *fake_start(const char *tree, fake_fate_fn fate_fn, void *payload);
void fake_stop(struct fake *fake);
/* A lie: the session timeout that the server says it grants from now on. */
void fake_set_timeout(struct fake *fake, int32_t timeout_ms);
/* From now on it refuses every identity. */
void fake_refuse_auth(struct fake *fake);
const char *fake_address(const struct fake *fake); /* "127.0.0.1:20001" */
int fake_requests(struct fake *fake);              /* so far */

#endif
