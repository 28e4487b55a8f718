/* zookeeper_secure.c - TLS and SASL. The library has each of them or not, as it was built (Debian
 * 12's has neither), and its header shows only what that build has: so they are looked for by name,
 * at run time, or when a static one is linked. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <zookeeper/zookeeper_version.h>

#include "error.h"
#include "zookeeper_store.h"

#define INIT_TLS "zookeeper_init_ssl"
#define INIT_SASL "zookeeper_init_sasl"

/* Exported, and in no header that is installed. */
extern ZooLogLevel logLevel;

/* zoo_sasl_params_t */
struct sasl_params {
    const char *service, *host, *mechlist;
    const void *callbacks;
};

typedef zhandle_t *init_tls_fn(const char *host, const char *cert, watcher_fn fn, int recv_timeout,
                               const clientid_t *clientid, void *context, int flags);
typedef zhandle_t *init_sasl_fn(const char *host, watcher_fn fn, int recv_timeout,
                                const clientid_t *clientid, void *context, int flags,
                                log_callback_fn log_callback, struct sasl_params *params);

/* In a static client library that is a part of this one their names are nobody else's to see. */
extern init_tls_fn zookeeper_init_ssl __attribute__((weak));
extern init_sasl_fn zookeeper_init_sasl __attribute__((weak));

static init_tls_fn *find_tls(void)
{
    init_tls_fn *init = zookeeper_init_ssl;
    void *found = init ? NULL : dlsym(RTLD_DEFAULT, INIT_TLS);
    if (found) {
        memcpy(&init, &found, sizeof init);
    }
    return init;
}

static init_sasl_fn *find_sasl(void)
{
    init_sasl_fn *init = zookeeper_init_sasl;
    void *found = init ? NULL : dlsym(RTLD_DEFAULT, INIT_SASL);
    if (found) {
        memcpy(&init, &found, sizeof init);
    }
    return init;
}

bool zkl__zk_takes_ca_alone(const char *version)
{
    int major = 0, minor = 0;
    return sscanf(version, "%d.%d", &major, &minor) == 2 &&
           (major > 3 || (major == 3 && minor >= 10));
}

/* The two client libraries export the same names: which one answers to them is chance. */
static bool other_is_loaded(void)
{
    void *other = dlopen("libzookeeper_st.so.2", RTLD_LAZY | RTLD_NOLOAD);
    if (other) {
        dlclose(other);
    }
    return other != NULL;
}

int zkl__zk_secure_check(const struct zkl__store_config *config, zkl_error *err)
{
    if (other_is_loaded()) {
        return zkl__fail(err, ZKL_EUNSUPPORTED, 0, NULL,
                         "libzookeeper_st.so.2 is in this process beside libzookeeper_mt, with the "
                         "same names: link one of them, and one of libzklock and libzklock_st");
    }
    if (config->tls && !find_tls()) {
        return zkl__fail(err, ZKL_EUNSUPPORTED, 0, NULL,
                         "the ZooKeeper client library linked here is built without TLS: use one "
                         "built with OpenSSL, or "
                         "put stunnel in front of the servers (SECURITY.md)");
    }
    if (config->tls && !strchr(config->tls, ',') && !zkl__zk_takes_ca_alone(ZOO_VERSION)) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL,
                         "tls is a CA alone, and the ZooKeeper client library (%s) wants a "
                         "certificate and a key "
                         "beside it: \"ca.pem,cert.pem,key.pem\"",
                         ZOO_VERSION);
    }
    if (config->sasl && !find_sasl()) {
        return zkl__fail(err, ZKL_EUNSUPPORTED, 0, NULL,
                         "the ZooKeeper client library linked here is built without SASL: use one "
                         "built with Cyrus "
                         "SASL, or digest credentials over stunnel (SECURITY.md)");
    }
    return ZKL_OK;
}

bool zkl__zk_sasl_failed(const struct zkl__store *store)
{
    return store->sasl && store->zh && !store->ended &&
           zoo_state(store->zh) == ZOO_AUTH_FAILED_STATE;
}

/* This call takes no log callback: the library would write its first lines to stderr. Lines that
 * other sessions log meanwhile are dropped, for its level is one for all. */
static zhandle_t *init_tls(const struct zkl__store *store, int timeout_ms)
{
    init_tls_fn *init = find_tls();
    ZooLogLevel before = logLevel;
    zoo_set_debug_level((ZooLogLevel)0);
    // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): zkl__zk_secure_check has found it
    zhandle_t *zh = init(store->given, store->tls, zkl__zk_watcher, timeout_ms, NULL,
                         (void *)(uintptr_t)store, ZOO_NO_LOG_CLIENTENV);
    if (zh) {
        zoo_set_log_callback(zh, store->log_fn);
    }
    zoo_set_debug_level(before);
    return zh;
}

static zhandle_t *init_sasl(const struct zkl__store *store, int timeout_ms)
{
    init_sasl_fn *init = find_sasl();
    struct sasl_params params = {store->sasl->service, store->sasl->host, store->sasl->mechanisms,
                                 store->sasl->callbacks};
    // cppcheck-suppress returnDanglingLifetime ; of params it copies the texts and keeps the
    // callbacks
    // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): zkl__zk_secure_check has found it
    return init(store->given, zkl__zk_watcher, timeout_ms, NULL, (void *)(uintptr_t)store,
                ZOO_NO_LOG_CLIENTENV, store->log_fn, &params);
}

zhandle_t *zkl__zk_init(const struct zkl__store *store, int timeout_ms)
{
    if (store->tls) {
        return init_tls(store, timeout_ms);
    }
    if (store->sasl) {
        return init_sasl(store, timeout_ms);
    }
    return zookeeper_init2(store->given, zkl__zk_watcher, timeout_ms, NULL,
                           (void *)(uintptr_t)store, ZOO_NO_LOG_CLIENTENV, store->log_fn);
}
