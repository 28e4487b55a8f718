/* options.h - the options of a session: checks, and a copy. */
#ifndef ZKL_BASE_OPTIONS_H
#define ZKL_BASE_OPTIONS_H

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

/* False: no memory; free it nevertheless. */
bool zkl__settings_copy(struct zkl__settings *settings, const zkl_heap *heap, const char *servers,
                        const zkl_session_options *options);
void zkl__settings_free(struct zkl__settings *settings,
                        const zkl_heap *heap); /* wipes the credentials */

#endif
