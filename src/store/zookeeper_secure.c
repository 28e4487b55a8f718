/* zookeeper_secure.c - TLS and SASL of the client library, and the servers' certificates.
 *
 * The library has TLS and SASL or not, as it was built (Debian 12's has neither), and its header
 * shows only what that build has: so they are looked for by name, at run time, or when a static one
 * is linked. libzklock_st refuses both, for they would stop the caller's loop: the library's TLS
 * handshake waits without bound (zookeeper.c, init_ssl_for_socket), and its SASL may ask other
 * servers (zk_sasl.c).
 *
 * It says "error in ssl connect" for everything that goes wrong in a handshake, and never compares
 * the certificate with the server's name (init_ssl_for_socket). So one handshake of our own is made
 * with each server first, by the OpenSSL that the library is linked with. It goes with the lookup
 * of the server's name (zookeeper_addresses.c), on whose thread it may take its time. */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <zookeeper/zookeeper_version.h>

#include "zookeeper_store.h"

/* Not there in every client library, or in every process. */
#define MAYBE extern __attribute__((weak))

/* --- the client library's TLS and SASL ------------------------------------------------------- */

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

/* In a static client library that is a part of this one their names are hidden. */
MAYBE init_tls_fn zookeeper_init_ssl;
MAYBE init_sasl_fn zookeeper_init_sasl;

/* NULL: the client library has no such function. */
static init_tls_fn *find_tls(void)
{
    return zookeeper_init_ssl ? zookeeper_init_ssl
                              : (init_tls_fn *)dlsym(RTLD_DEFAULT, "zookeeper_init_ssl");
}

static init_sasl_fn *find_sasl(void)
{
    return zookeeper_init_sasl ? zookeeper_init_sasl
                               : (init_sasl_fn *)dlsym(RTLD_DEFAULT, "zookeeper_init_sasl");
}

bool zkl__zk_takes_ca_alone(const char *version)
{
    int major = 0, minor = 0;
    return sscanf(version, "%d.%d", &major, &minor) == 2 &&
           (major > 3 || (major == 3 && minor >= 10));
}

static int is_loaded(struct dl_phdr_info *info, size_t size, void *name)
{
    (void)size;
    return strstr(info->dlpi_name, name) != NULL;
}

int zkl__zk_secure_check(const struct zkl__store_config *config, zkl_error *err)
{
    /* The two client libraries export the same names: chance decides which one is called. The
     * blocking functions are in the threaded one alone. dlopen with RTLD_NOLOAD would open the file
     * to compare it with those that are loaded, at each start of the command. */
    const char *other = zkl__threadless ? "libzookeeper_mt.so.2" : "libzookeeper_st.so.2";
    if ((zkl__threadless && dlsym(RTLD_DEFAULT, "zoo_wget_children2")) ||
        dl_iterate_phdr(is_loaded, (void *)(uintptr_t)other)) {
        return zkl__fail_at(err, ZKL_EUNSUPPORTED, NULL,
                            "%s is in this process beside %s, with the same names: link one of "
                            "them, and one of libzklock and libzklock_st",
                            other, zkl__threadless ? "libzookeeper_st" : "libzookeeper_mt");
    }
    if (zkl__threadless && (config->tls || config->sasl)) {
        return zkl__fail_at(err, ZKL_EUNSUPPORTED, NULL,
                            "%s is not for libzklock_st, for it would stop the caller's loop: use "
                            "libzklock, or put stunnel in front of the servers (SECURITY.md)",
                            config->tls ? "tls" : "sasl");
    }
    if (config->tls && !find_tls()) {
        return zkl__fail_at(
            err, ZKL_EUNSUPPORTED, NULL,
            "the ZooKeeper client library linked here is built without TLS: use one built with "
            "OpenSSL, or put stunnel in front of the servers (SECURITY.md)");
    }
    if (config->tls && !strchr(config->tls, ',') && !zkl__zk_takes_ca_alone(ZOO_VERSION)) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL,
                            "tls is a CA alone, and the ZooKeeper client library (%s) wants a "
                            "certificate and a key beside it: \"ca.pem,cert.pem,key.pem\"",
                            ZOO_VERSION);
    }
    if (config->sasl && !find_sasl()) {
        return zkl__fail_at(
            err, ZKL_EUNSUPPORTED, NULL,
            "the ZooKeeper client library linked here is built without SASL: use one built with "
            "Cyrus SASL, or digest credentials over stunnel (SECURITY.md)");
    }
    return ZKL_OK;
}

zhandle_t *zkl__zk_init(const struct zkl__store *store, const char *list)
{
    int64_t wanted_ms = store->config.timeout_ms;
    int timeout_ms = wanted_ms < INT_MAX ? (int)wanted_ms : INT_MAX;
    void *ctx = (void *)(uintptr_t)store;
    const zkl_sasl *sasl = store->config.sasl;
    if (sasl) {
        struct sasl_params params = {sasl->service, sasl->host, sasl->mechanisms, sasl->callbacks};
        // cppcheck-suppress returnDanglingLifetime ; of params it copies the texts and keeps the
        // callbacks
        // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): zkl__zk_secure_check has found it
        return find_sasl()(list, zkl__zk_watcher, timeout_ms, NULL, ctx, ZOO_NO_LOG_CLIENTENV,
                           store->log_fn, &params);
    }
    if (!store->config.tls) {
        return zookeeper_init2(list, zkl__zk_watcher, timeout_ms, NULL, ctx, ZOO_NO_LOG_CLIENTENV,
                               store->log_fn);
    }
    /* This call takes no log callback: the library would write its first lines to stderr. Lines
     * that other sessions log meanwhile are dropped, for its level is one for all. */
    ZooLogLevel before = logLevel;
    zoo_set_debug_level((ZooLogLevel)0);
    // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): zkl__zk_secure_check has found it
    zhandle_t *zh = find_tls()(list, store->config.tls, zkl__zk_watcher, timeout_ms, NULL, ctx,
                               ZOO_NO_LOG_CLIENTENV);
    if (zh) {
        zoo_set_log_callback(zh, store->log_fn);
    }
    zoo_set_debug_level(before);
    return zh;
}

/* --- OpenSSL: openssl/ssl.h, x509_vfy.h and err.h -------------------------------------------- */

MAYBE const void *TLS_client_method(void);
MAYBE void *SSL_CTX_new(const void *method);
MAYBE void SSL_CTX_free(void *ctx);
MAYBE int SSL_CTX_load_verify_locations(void *ctx, const char *file, const char *folder);
MAYBE int SSL_CTX_set_default_verify_paths(void *ctx);
MAYBE int SSL_CTX_use_certificate_chain_file(void *ctx, const char *file);
MAYBE int SSL_CTX_use_PrivateKey_file(void *ctx, const char *file, int type);
MAYBE void SSL_CTX_set_default_passwd_cb_userdata(void *ctx, void *password);
MAYBE void SSL_CTX_set_verify(void *ctx, int mode, void *callback);
MAYBE void *SSL_new(void *ctx);
MAYBE void SSL_free(void *ssl);
MAYBE int SSL_set_fd(void *ssl, int fd);
MAYBE int SSL_set1_host(void *ssl, const char *host);
MAYBE void *SSL_get0_param(void *ssl);
MAYBE int X509_VERIFY_PARAM_set1_ip_asc(void *param, const char *address);
MAYBE void SSL_set_connect_state(void *ssl);
MAYBE int SSL_write(void *ssl, const void *data, int size);
MAYBE int SSL_read(void *ssl, void *data, int size);
MAYBE int SSL_get_error(const void *ssl, int result);
MAYBE long SSL_get_verify_result(const void *ssl);
MAYBE const char *X509_verify_cert_error_string(long code);
MAYBE unsigned long ERR_get_error(void);
MAYBE const char *ERR_reason_error_string(unsigned long code);
MAYBE void ERR_clear_error(void);

#define FILETYPE_PEM 1 /* SSL_FILETYPE_PEM, SSL_VERIFY_PEER, SSL_ERROR_..., X509_V_ERR_... */
#define VERIFY_PEER 1
#define WANT_READ 2
#define WANT_WRITE 3
#define HOSTNAME_MISMATCH 62
#define ADDRESS_MISMATCH 64
#define SYSTEM_ERROR 0x80000000UL /* ERR_SYSTEM_FLAG */

/* The text for the first error in this thread's queue. OpenSSL 3 has none for errors of the
 * system. */
static const char *reason(void)
{
    unsigned long code = ERR_get_error();
    if (code & SYSTEM_ERROR) {
        return strerror((int)(code & ~SYSTEM_ERROR));
    }
    const char *text = code ? ERR_reason_error_string(code) : NULL;
    return text ? text : "no reason is given";
}

/* --- a handshake with one server ------------------------------------------------------------- */

#define STEP_MS 1000      /* for a connect, and for what the server sends next */
#define HANDSHAKE_MS 3000 /* whatever it sends: less than one step more */
#define FILES_MAX 1024

/* "ca,certificate,key,password", of which only the first must be there. No retry helps when one of
 * the files is bad. */
static int load_files(void *ctx, char *files, zkl_error *err)
{
    char *last = NULL;
    const char *ca = strtok_r(files, ",", &last), *certificate = strtok_r(NULL, ",", &last);
    const char *key = strtok_r(NULL, ",", &last);
    char *password = strtok_r(NULL, ",", &last);
    ERR_clear_error();
    if (SSL_CTX_load_verify_locations(ctx, ca, NULL) != 1) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL,
                            "tls: the authorities in %.120s cannot be loaded: %s", ca ? ca : "",
                            reason());
    }
    SSL_CTX_set_default_verify_paths(ctx); /* as the client library does */
    SSL_CTX_set_verify(ctx, VERIFY_PEER, NULL);
    /* Without a password OpenSSL would ask for one on the terminal. */
    SSL_CTX_set_default_passwd_cb_userdata(ctx, password ? password : "");
    if (certificate && SSL_CTX_use_certificate_chain_file(ctx, certificate) != 1) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL,
                            "tls: the certificate %.120s cannot be loaded: %s", certificate,
                            reason());
    }
    if (key && SSL_CTX_use_PrivateKey_file(ctx, key, FILETYPE_PEM) != 1) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL, "tls: the key %.120s cannot be loaded: %s", key,
                            reason());
    }
    return ZKL_OK;
}

/* With TLS 1.3 a server refuses a certificate only after the handshake is over for the client. So a
 * four-letter command is sent, to which it responds even when it does not know it
 * (NettyServerCnxn.checkFourLetterWord). On a socket that blocks OpenSSL would wait for a whole
 * record, of which a server may send a byte from time to time. */
static enum zk_trust shake_hands(void *ssl, int fd, const struct zkl__server *server,
                                 zkl_error *why)
{
    char answer[64];
    int sent = 0, got;
    struct pollfd ready = {.fd = fd};
    int64_t end = zkl__clock_now() + HANDSHAKE_MS * ZKL__MS;
    ERR_clear_error();
    SSL_set_fd(ssl, fd);
    SSL_set_connect_state(ssl);
    do {
        sent = sent > 0 ? sent : SSL_write(ssl, "ruok", 4);
        got = sent > 0 ? SSL_read(ssl, answer, sizeof answer) : sent;
        int error = SSL_get_error(ssl, got);
        ready.events = error == WANT_READ ? POLLIN : error == WANT_WRITE ? POLLOUT : 0;
    } while (ready.events && zkl__clock_now() < end && poll(&ready, 1, STEP_MS));
    long verified = SSL_get_verify_result(ssl);
    if (got > 0) {
        zkl__fail_at(why, ZKL_ECONNECT, NULL,
                     "tls: servers beside %.80s:%s have shown no certificate yet", server->host,
                     server->port);
        return ZK_TRUSTED;
    }
    if (verified) {
        bool misnamed = verified == HOSTNAME_MISMATCH || verified == ADDRESS_MISMATCH;
        zkl__fail_at(
            why, ZKL_ECONNECT, NULL,
            misnamed
                ? "tls: the certificate of %.80s:%s is for another name: %s (tls_host, --tls-host)"
                : "tls: the certificate of %.80s:%s is not trusted: %s",
            server->host, server->port, X509_verify_cert_error_string(verified));
        return misnamed ? ZK_MISNAMED : ZK_UNTRUSTED;
    }
    if (!ready.events) {
        zkl__fail_at(why, ZKL_ECONNECT, NULL, "tls: %.80s:%s ends the handshake: %s", server->host,
                     server->port, reason());
        return ZK_UNTRUSTED;
    }
    return ZK_SILENT;
}

enum zk_trust zkl__zk_tls_judge(void *ctx, const char *name, const struct zkl__server *server,
                                const struct addrinfo *list, zkl_error *why)
{
    const struct timeval limit = {.tv_sec = STEP_MS / 1000};
    enum zk_trust trust = ZK_SILENT;
    zkl__fail_at(why, ZKL_ECONNECT, NULL, "tls: no connection to %.80s:%s", server->host,
                 server->port);
    for (const struct addrinfo *at = list; at && trust != ZK_MISNAMED; at = at->ai_next) {
        void *ssl = SSL_new(ctx);
        int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        if (ssl && connect(fd, at->ai_addr, at->ai_addrlen) == 0) {
            if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) != 1) {
                SSL_set1_host(ssl, name);
            }
            fcntl(fd, F_SETFL, O_NONBLOCK);
            enum zk_trust shown = shake_hands(ssl, fd, server, why);
            trust = shown > trust ? shown : trust;
        }
        SSL_free(ssl);
        if (fd >= 0) {
            close(fd);
        }
    }
    ERR_clear_error();
    return trust;
}

int zkl__zk_tls_load(void **out, const char *tls, zkl_error *err)
{
    char files[FILES_MAX];
    /* The first three are not in every OpenSSL, the last one is not in every part of a static one.
     */
    if (!tls || !TLS_client_method || !SSL_set1_host || !X509_VERIFY_PARAM_set1_ip_asc ||
        !X509_verify_cert_error_string) {
        return ZKL_OK;
    }
    if (!zkl__text_copy(files, sizeof files, tls)) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL, "tls: the names of the files are too long");
    }
    void *ctx = SSL_CTX_new(TLS_client_method());
    int code =
        ctx ? load_files(ctx, files, err) : zkl__fail_at(err, ZKL_ENOMEM, NULL, "out of memory");
    if (code == ZKL_OK) {
        SSL_CTX_set_default_passwd_cb_userdata(ctx, NULL);
        *out = ctx;
    } else {
        SSL_CTX_free(ctx);
    }
    ERR_clear_error();
    explicit_bzero(files, sizeof files);
    return code;
}

void zkl__zk_tls_unload(void *ctx)
{
    if (ctx) {
        SSL_CTX_free(ctx);
    }
}
