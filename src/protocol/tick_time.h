/* tick_time.h - the tickTime of the servers: what session timeouts reveal of it, and what lease it
 * leaves. */
#ifndef ZKL_PROTOCOL_TICK_TIME_H
#define ZKL_PROTOCOL_TICK_TIME_H

#include "lease.h"

#include <zklock/session.h>

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
