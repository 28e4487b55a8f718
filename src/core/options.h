/* options.h - the options of a session: checked, copied, put into words. */
#ifndef ZKL_CORE_OPTIONS_H
#define ZKL_CORE_OPTIONS_H

#include "lease.h"

#include <zklock/session.h>

#define ZKL__DAY_MS INT64_C(86400000)

/* ZKL_OK, or ZKL_EINVAL with the name, the value and the range in err. */
int zkl__range_check(const char *name, int64_t value, int64_t least, int64_t most, zkl_error *err);
/* As a call takes it: from ZKL_WAIT_FOREVER on. */
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

/* ZKL_OK, or ZKL_EINVAL with the numbers: a session of this timeout (ns) would leave its holders
 * next to no lease. */
int zkl__lease_check(const zkl_session_options *options, int64_t timeout, enum zkl__hops hops,
                     zkl_error *err);

/* What bounds on session timeouts tell about the tickTime. ZooKeeperServer.setMinSessionTimeout and
 * setMaxSessionTimeout (ZooKeeper 3.8): they are 2 and 20 ticks unless they are configured. */
/* low_ms, high_ms: what a server made of asked_low_ms, and of a day. A lower bound that does not
 * exceed what was asked does not show. 0: the bounds are not those of one tickTime. */
int64_t zkl__tick_of_bounds(int64_t asked_low_ms, int64_t low_ms, int64_t high_ms);
/* The tickTime by which a server changed one timeout to another; 0: it did not change it, which
 * tells nothing. */
int64_t zkl__tick_of_timeout(int64_t asked_ms, int64_t negotiated_ms);

/* text as one line into out: control characters (those of eight bits, line separators and turns of
 * direction too) and what is no UTF-8 as \xNN. A log may end on a terminal. Cut to size, between
 * two characters. */
void zkl__text_escape(char *out, size_t size, const char *text);

#endif
