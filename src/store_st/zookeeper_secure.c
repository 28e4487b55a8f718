/* zookeeper_secure.c - what of security would stop the loop is refused: the library's TLS handshake
 * waits without bound (zookeeper.c, init_ssl_for_socket), and its SASL may ask other servers
 * (zk_sasl.c). */
#include <dlfcn.h>

#include "error.h"
#include "zookeeper_store.h"

/* The two client libraries export the same names: which one answers to them is chance. The blocking
 * functions are in the threaded one alone. */
static bool other_is_loaded(void)
{
    void *other = dlopen("libzookeeper_mt.so.2", RTLD_LAZY | RTLD_NOLOAD);
    if (other) {
        dlclose(other);
    }
    return other || dlsym(RTLD_DEFAULT, "zoo_wget_children2");
}

int zkl__zk_secure_check(const struct zkl__store_config *config, zkl_error *err)
{
    if (other_is_loaded()) {
        return zkl__fail(err, ZKL_EUNSUPPORTED, 0, NULL,
                         "libzookeeper_mt.so.2 is in this process beside libzookeeper_st, with the "
                         "same names: link one of them, and one of libzklock and libzklock_st");
    }
    if (config->tls || config->sasl) {
        return zkl__fail(err, ZKL_EUNSUPPORTED, 0, NULL,
                         "%s is not for libzklock_st, for it would stop the caller's loop: use "
                         "libzklock, or put stunnel in front of the servers (SECURITY.md)",
                         config->tls ? "tls" : "sasl");
    }
    return ZKL_OK;
}

bool zkl__zk_sasl_failed(const struct zkl__store *store)
{
    (void)store;
    return false;
}

int zkl__zk_tls_check(const struct zkl__store *store, zkl_error *err)
{
    (void)store, (void)err;
    return ZKL_OK; /* there is none */
}

/* It makes no pipe, and its socket is hidden when the loop first sees it. */
zhandle_t *zkl__zk_init_hidden(const struct zkl__store *store, int timeout_ms)
{
    return zookeeper_init2(store->given, zkl__zk_watcher, timeout_ms, NULL,
                           (void *)(uintptr_t)store, ZOO_NO_LOG_CLIENTENV, store->log_fn);
}

void zkl__zk_hide_socket(struct zkl__store *store)
{
    (void)store;
}
