/* options.h - the options of a session: checks, a copy, and what follows from them. */
#ifndef ZKL_PROTOCOL_OPTIONS_H
#define ZKL_PROTOCOL_OPTIONS_H

#include "lease.h"

#include <zklock/session.h>

#define ZKL__DAY_MS INT64_C(86400000)

/* ZKL_OK, or ZKL_EINVAL with the name, the value and the range in err. */
int zkl__range_check(const char *name, int64_t value, int64_t least, int64_t most, zkl_error *err);
/* The timeout of a call: ZKL_WAIT_FOREVER (-1) or more. */
int zkl__timeout_check(int64_t timeout_ms, zkl_error *err);
int zkl__options_check(const zkl_session_options *options, zkl_error *err);

/* Everything zkl_session_open was given, owned. */
struct zkl__settings {
    zkl_session_options options; /* its pointers to strings and lists point to the copies below */
    char *servers;
    char *scheme;
    char *auth;
    zkl_acl *acl;
    char *tls, *tls_host;
    zkl_sasl *sasl;
};
/* One block: free it with zkl__free. NULL when there is no memory. */
zkl_sasl *zkl__sasl_copy(const zkl_heap *heap, const zkl_sasl *sasl);
/* A secret text, wiped and freed. NULL is fine. */
void zkl__secret_free(const zkl_heap *heap, char *text);

/* False: no memory; free it nevertheless. */
bool zkl__settings_copy(struct zkl__settings *settings, const zkl_heap *heap, const char *servers,
                        const zkl_session_options *options);
void zkl__settings_free(struct zkl__settings *settings,
                        const zkl_heap *heap); /* wipes the credentials */

/* ZKL_OK, or ZKL_EINVAL if a session with this timeout (ns) leaves its holders less than a tenth of
 * it as lease. The text names the numbers and a timeout that is enough. */
int zkl__lease_check(const zkl_session_options *options, int64_t timeout, enum zkl__hops hops,
                     zkl_error *err);

/* A server's bounds on session timeouts reveal its tickTime: they are 2 and 20 ticks unless they
 * are configured (ZooKeeperServer.setMinSessionTimeout and setMaxSessionTimeout, ZooKeeper 3.8). */
/* low_ms and high_ms are the timeouts that a server granted to requests for asked_low_ms and for a
 * day. If low_ms is asked_low_ms, the lower bound is not above that. Returns the tickTime, or 0: no
 * tickTime has both bounds. */
int64_t zkl__tick_of_bounds(int64_t asked_low_ms, int64_t low_ms, int64_t high_ms);
/* The tickTime that explains why a server granted negotiated_ms to a request for asked_ms. 0: the
 * two are equal, so the tickTime is unknown. */
int64_t zkl__tick_of_timeout(int64_t asked_ms, int64_t negotiated_ms);

/* Writes text into out as one line, because a log may be shown on a terminal. Control characters of
 * seven and eight bits, line separators, changes of direction and bytes that are no UTF-8 become
 * \xNN. Cut to size, between two characters. */
void zkl__text_escape(char *out, size_t size, const char *text);

#endif
