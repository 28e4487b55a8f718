/* zookeeper_tls.c - the servers' certificates, before the client library connects.
 *
 * That library says "error in ssl connect" for everything that goes wrong in a handshake, and never
 * compares the certificate with the server's name (zookeeper.c, init_ssl_for_socket). So one
 * handshake of our own is made with each server first, by the OpenSSL that the library is linked
 * with: found by name, as there is none in Debian's. */
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "error.h"
#include "text.h"
#include "zookeeper_store.h"

#define STEP_MS 1000 /* for each connect, read and write */
#define PART_MAX 1024
#define FILETYPE_PEM \
    1 /* SSL_FILETYPE_PEM, SSL_VERIFY_PEER, X509_V_ERR_...: openssl/ssl.h and x509_vfy.h */
#define VERIFY_PEER 1
#define HOSTNAME_MISMATCH 62
#define ADDRESS_MISMATCH 64

struct openssl {
    const void *(*TLS_client_method)(void);
    void *(*SSL_CTX_new)(const void *method);
    void (*SSL_CTX_free)(void *ctx);
    int (*SSL_CTX_load_verify_locations)(void *ctx, const char *file, const char *folder);
    int (*SSL_CTX_set_default_verify_paths)(void *ctx);
    int (*SSL_CTX_use_certificate_chain_file)(void *ctx, const char *file);
    int (*SSL_CTX_use_PrivateKey_file)(void *ctx, const char *file, int type);
    void (*SSL_CTX_set_default_passwd_cb_userdata)(void *ctx, void *password);
    void (*SSL_CTX_set_verify)(void *ctx, int mode, void *callback);
    void *(*SSL_new)(void *ctx);
    void (*SSL_free)(void *ssl);
    int (*SSL_set_fd)(void *ssl, int fd);
    int (*SSL_set1_host)(void *ssl, const char *host);
    void *(*SSL_get0_param)(void *ssl);
    int (*X509_VERIFY_PARAM_set1_ip_asc)(void *param, const char *address);
    int (*SSL_connect)(void *ssl);
    int (*SSL_write)(void *ssl, const void *data, int size);
    int (*SSL_read)(void *ssl, void *data, int size);
    long (*SSL_get_verify_result)(const void *ssl);
    const char *(*X509_verify_cert_error_string)(long code);
    unsigned long (*ERR_get_error)(void);
    const char *(*ERR_reason_error_string)(unsigned long code);
    void (*ERR_clear_error)(void);
};

#define FIND(name)                            \
    {                                         \
#name, offsetof(struct openssl, name) \
    }

/* False: it is not there, or another library took its place. */
static bool find_openssl(struct openssl *openssl)
{
    static const struct {
        const char *name;
        size_t offset;
    } names[] = {FIND(TLS_client_method),
                 FIND(SSL_CTX_new),
                 FIND(SSL_CTX_free),
                 FIND(SSL_CTX_load_verify_locations),
                 FIND(SSL_CTX_set_default_verify_paths),
                 FIND(SSL_CTX_use_certificate_chain_file),
                 FIND(SSL_CTX_use_PrivateKey_file),
                 FIND(SSL_CTX_set_default_passwd_cb_userdata),
                 FIND(SSL_CTX_set_verify),
                 FIND(SSL_new),
                 FIND(SSL_free),
                 FIND(SSL_set_fd),
                 FIND(SSL_set1_host),
                 FIND(SSL_get0_param),
                 FIND(X509_VERIFY_PARAM_set1_ip_asc),
                 FIND(SSL_connect),
                 FIND(SSL_write),
                 FIND(SSL_read),
                 FIND(SSL_get_verify_result),
                 FIND(X509_verify_cert_error_string),
                 FIND(ERR_get_error),
                 FIND(ERR_reason_error_string),
                 FIND(ERR_clear_error)};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *found = dlsym(RTLD_DEFAULT, names[i].name);
        if (!found) {
            return false;
        }
        memcpy((char *)openssl + names[i].offset, &found, sizeof found);
    }
    return true;
}

/* "ca,certificate,key,password": what is not there is NULL. */
struct files {
    char text[PART_MAX];
    const char *ca, *certificate, *key, *password;
};

static bool split_files(struct files *files, const char *tls)
{
    char *last = NULL;
    if (!zkl__text_copy(files->text, sizeof files->text, tls)) {
        return false;
    }
    files->ca = strtok_r(files->text, ",", &last);
    files->certificate = strtok_r(NULL, ",", &last);
    files->key = strtok_r(NULL, ",", &last);
    files->password = strtok_r(NULL, ",", &last);
    return files->ca != NULL;
}

/* OpenSSL's words for what went wrong last in this thread, and forgets it. */
static const char *reason(const struct openssl *openssl)
{
    unsigned long code = openssl->ERR_get_error();
    const char *text = code ? openssl->ERR_reason_error_string(code) : NULL;
    openssl->ERR_clear_error();
    return text ? text : "no reason is given";
}

/* The files of the options. No retry helps when one of them is bad. */
static int load_files(const struct openssl *openssl, void *ctx, const struct files *files,
                      zkl_error *err)
{
    openssl->ERR_clear_error();
    if (openssl->SSL_CTX_load_verify_locations(ctx, files->ca, NULL) != 1) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL,
                         "tls: the authorities in %.120s cannot be loaded: %s", files->ca,
                         reason(openssl));
    }
    openssl->SSL_CTX_set_default_verify_paths(ctx); /* as the client library does */
    openssl->SSL_CTX_set_verify(ctx, VERIFY_PEER, NULL);
    openssl->SSL_CTX_set_default_passwd_cb_userdata(ctx, (void *)(uintptr_t)files->password);
    if (files->certificate &&
        openssl->SSL_CTX_use_certificate_chain_file(ctx, files->certificate) != 1) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL,
                         "tls: the certificate %.120s cannot be loaded: %s", files->certificate,
                         reason(openssl));
    }
    if (files->key && openssl->SSL_CTX_use_PrivateKey_file(ctx, files->key, FILETYPE_PEM) != 1) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "tls: the key %.120s cannot be loaded: %s",
                         files->key, reason(openssl));
    }
    return ZKL_OK;
}

/* A socket that is connected, whose calls end after a while; -1. */
static int dial(const struct addrinfo *at)
{
    const struct timeval limit = {.tv_sec = STEP_MS / 1000, .tv_usec = STEP_MS % 1000 * 1000L};
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(fd, at->ai_addr, at->ai_addrlen) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void expect_name(const struct openssl *openssl, void *ssl, const char *host,
                        const struct zkl__store *store)
{
    const char *name = store->tls_host ? store->tls_host : host;
    bool numeric = false;
    if (*name) {
        numeric = openssl->X509_VERIFY_PARAM_set1_ip_asc(openssl->SSL_get0_param(ssl), name) == 1;
    }
    if (*name && !numeric) {
        openssl->SSL_set1_host(ssl, name);
    }
}

/* The later, the worse. */
enum look { UNREACHED, TRUSTED, DISTRUSTED, REJECTED, MISNAMED };

/* With TLS 1.3 a server refuses a certificate only after the handshake is over for the client. So
 * it is sent a word, which it answers even when it does not know it
 * (NettyServerCnxn.checkFourLetterWord). */
static enum look shake_hands(const struct openssl *openssl, void *ssl, const char **why)
{
    char answer[64];
    errno = 0;
    openssl->ERR_clear_error();
    if (openssl->SSL_connect(ssl) == 1 && openssl->SSL_write(ssl, "ruok", 4) == 4 &&
        openssl->SSL_read(ssl, answer, sizeof answer) > 0) {
        return TRUSTED;
    }
    bool silent = errno == EAGAIN || errno == EINPROGRESS;
    long verified = openssl->SSL_get_verify_result(ssl);
    *why = verified ? openssl->X509_verify_cert_error_string(verified) : reason(openssl);
    openssl->ERR_clear_error();
    if (verified == HOSTNAME_MISMATCH || verified == ADDRESS_MISMATCH) {
        return MISNAMED;
    }
    return verified ? DISTRUSTED : silent ? UNREACHED : REJECTED;
}

static enum look look_at(const struct zkl__store *store, const struct openssl *openssl, void *ctx,
                         const char *host, const struct addrinfo *at, const char **why)
{
    enum look look = UNREACHED;
    int fd = dial(at);
    void *ssl = fd < 0 ? NULL : openssl->SSL_new(ctx);
    if (ssl) {
        expect_name(openssl, ssl, host, store);
        openssl->SSL_set_fd(ssl, fd);
        look = shake_hands(openssl, ssl, why);
        openssl->SSL_free(ssl);
    }
    if (fd >= 0) {
        close(fd);
    }
    return look;
}

static int say(enum look look, const char *host, const char *port, const char *why, zkl_error *err)
{
    switch (look) {
    case DISTRUSTED:
        return zkl__fail(err, ZKL_ECONNECT, 0, NULL,
                         "tls: the certificate of %.80s:%s is not trusted: %s", host, port, why);
    case MISNAMED:
        return zkl__fail(
            err, ZKL_ECONNECT, 0, NULL,
            "tls: the certificate of %.80s:%s is for another name: %s (tls_host, --tls-host)", host,
            port, why);
    case REJECTED:
        return zkl__fail(err, ZKL_ECONNECT, 0, NULL, "tls: %.80s:%s ends the handshake: %s", host,
                         port, why);
    default:
        return zkl__fail(err, ZKL_ECONNECT, 0, NULL, "tls: no connection to %.80s:%s", host, port);
    }
}

/* One entry of the list, at all its addresses. What is worse counts. */
static enum look look_at_server(const struct zkl__store *store, const struct openssl *openssl,
                                void *ctx, const char *host, const char *port, const char **why)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list = NULL;
    enum look worst = UNREACHED;
    if (getaddrinfo(host, port, &hints, &list) != 0) {
        return UNREACHED;
    }
    for (const struct addrinfo *at = list; at; at = at->ai_next) {
        enum look look = look_at(store, openssl, ctx, host, at, why);
        worst = look > worst ? look : worst;
    }
    freeaddrinfo(list);
    return worst;
}

static int look_at_all(const struct zkl__store *store, const struct openssl *openssl, void *ctx,
                       zkl_error *err)
{
    char host[256], port[8];
    int code = ZKL_ECONNECT;
    bool trusted = false;
    zkl_error failed = {.code = ZKL_OK};
    for (const char *at = store->hosts;
         zkl__zk_next_server(&at, host, sizeof host, port, sizeof port);) {
        const char *why = "";
        enum look look = look_at_server(store, openssl, ctx, host, port, &why);
        if (look == TRUSTED) {
            trusted = true;
            continue;
        }
        if (look != UNREACHED || failed.code == ZKL_OK) {
            code = say(look, host, port, why, &failed);
        }
        if (look == MISNAMED) { /* the library would take it for the server it is not */
            trusted = false;
            break;
        }
    }
    if (trusted) {
        return ZKL_OK;
    }
    return zkl__fail(err, code, 0, NULL, "%s", failed.text);
}

int zkl__zk_tls_check(const struct zkl__store *store, zkl_error *err)
{
    struct openssl openssl;
    struct files files;
    if (!store->tls || !find_openssl(&openssl)) {
        return ZKL_OK;
    }
    if (!split_files(&files, store->tls)) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "tls: the names of the files are too long");
    }
    void *ctx = openssl.SSL_CTX_new(openssl.TLS_client_method());
    int code = ctx ? load_files(&openssl, ctx, &files, err)
                   : zkl__fail(err, ZKL_ENOMEM, 0, NULL, "out of memory");
    if (code == ZKL_OK) {
        code = look_at_all(store, &openssl, ctx, err);
    }
    if (ctx) {
        openssl.SSL_CTX_free(ctx);
    }
    explicit_bzero(&files, sizeof files);
    return code;
}
