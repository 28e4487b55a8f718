/* client_with_tls.c - what a client library that is built with TLS and SASL has more, to be preloaded: it notes what it was asked for in
 * the environment, and connects in clear. */
#include <stdlib.h>

#include <zookeeper/zookeeper.h>

zhandle_t *zookeeper_init_ssl(const char *host, const char *cert, watcher_fn fn, int recv_timeout,
                              const clientid_t *clientid, void *context, int flags);
zhandle_t *zookeeper_init_sasl(const char *host, watcher_fn fn, int recv_timeout, const clientid_t *clientid,
                               void *context, int flags, log_callback_fn log_callback, const char *const *params);

zhandle_t *zookeeper_init_ssl(const char *host, const char *cert, watcher_fn fn, int recv_timeout,
                              const clientid_t *clientid, void *context, int flags)
{
    setenv("SHIM_TLS", cert, 1);
    return zookeeper_init(host, fn, recv_timeout, clientid, context, flags);
}

zhandle_t *zookeeper_init_sasl(const char *host, watcher_fn fn, int recv_timeout, const clientid_t *clientid,
                               void *context, int flags, log_callback_fn log_callback, const char *const *params)
{
    setenv("SHIM_SERVICE", params[0], 1);
    setenv("SHIM_HOST", params[1], 1);
    setenv("SHIM_MECHANISMS", params[2], 1);
    return zookeeper_init2(host, fn, recv_timeout, clientid, context, flags, log_callback);
}
