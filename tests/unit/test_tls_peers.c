/* zkl__zk_tls_judge with the OpenSSL of this machine, loaded before the program as it is where the client library is linked with it: servers
 * that go on without an end, are silent, or are right; and files that cannot be loaded. */
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include "lock_kit.h"
#include "zookeeper_store.h"

#define LIBRARIES "libssl.so.3:libcrypto.so.3"
#define PERIOD_MS 100 /* of a byte: well within the second that a silent server gets */
#define BYTES 120     /* until the server has enough */

#define MAYBE extern __attribute__((weak))
MAYBE const void *TLS_server_method(void);
MAYBE void *SSL_CTX_new(const void *method);
MAYBE void SSL_CTX_free(void *ctx);
MAYBE int SSL_CTX_use_certificate_chain_file(void *ctx, const char *file);
MAYBE int SSL_CTX_use_PrivateKey_file(void *ctx, const char *file, int type);
MAYBE void SSL_CTX_set_default_passwd_cb_userdata(void *ctx, void *password);
MAYBE void *SSL_new(void *ctx);
MAYBE void SSL_free(void *ssl);
MAYBE int SSL_set_fd(void *ssl, int fd);
MAYBE int SSL_accept(void *ssl);
MAYBE int SSL_read(void *ssl, void *data, int size);
MAYBE int SSL_write(void *ssl, const void *data, int size);

static char work[] = "/tmp/tls-peers-XXXXXX", hosts[32];

/* --- a server that takes one connection ------------------------------------------------------------------------------- */

static int listener, bytes_sent;
static bool served;

/* The head of a record of 16 kB, then a byte from time to time. */
static void trickle(int fd)
{
    send(fd, "\x16\x03\x03\x40\x00\x02\x00\x3f\xfc", 9, MSG_NOSIGNAL);
    for (bytes_sent = 0; bytes_sent < BYTES && send(fd, "", 1, MSG_NOSIGNAL) == 1; bytes_sent++) {
        poll(NULL, 0, PERIOD_MS);
    }
}

static void hang_up(int fd) {}

/* As a server of ZooKeeper's, whose key has a password. */
static void serve(int fd)
{
    char request[4];
    void *ctx = SSL_CTX_new(TLS_server_method()), *ssl;
    SSL_CTX_set_default_passwd_cb_userdata(ctx, (void *)(uintptr_t) "kanari");
    CU_ASSERT_EQUAL(SSL_CTX_use_certificate_chain_file(ctx, "cert.pem"), 1);
    CU_ASSERT_EQUAL(SSL_CTX_use_PrivateKey_file(ctx, "key.pem", 1), 1);
    ssl = SSL_new(ctx);
    SSL_set_fd(ssl, fd);
    served = SSL_accept(ssl) == 1 && SSL_read(ssl, request, sizeof request) == 4 && SSL_write(ssl, "imok", 4) == 4;
    SSL_free(ssl);
    SSL_CTX_free(ctx);
}

static void *accept_one(void *arg)
{
    int fd = accept(listener, NULL, NULL);
    (*(void (**)(int))arg)(fd);
    close(fd);
    return NULL;
}

/* --- the check -------------------------------------------------------------------------------------------------------- */

/* The server, which is named twice, does that with one connection, and leaves the other in the queue; NULL: both. Until there is a list, there
 * are words for why there is none. */
static zkl_error check(const char *tls, void (*server)(int fd))
{
    char servers[2 * sizeof hosts];
    const struct zkl__store_config config = {.servers = servers, .tls = tls, .tls_host = "localhost"};
    struct zk_names *names;
    pthread_t thread;
    zkl_error err = {0};
    listener = kit_listen(hosts, sizeof hosts);
    snprintf(servers, sizeof servers, "%s,%s", hosts, hosts);
    CU_ASSERT_FATAL(!server || pthread_create(&thread, NULL, accept_one, &server) == 0);
    if (zkl__zk_names_new(&names, &config, &err) == ZKL_OK) {
        zkl__zk_names_resolve(names);
        for (int i = 0; i < 2000 && !zkl__zk_names_wait(names, 10); i++) {
            zkl__zk_names_why(names, err.text, sizeof err.text);
            CU_ASSERT(err.text[0] != '\0' || zkl__zk_names_wait(names, 0));
        }
        CU_ASSERT_TRUE(zkl__zk_names_wait(names, 0));
        zkl__zk_names_why(names, err.text, sizeof err.text);
        CU_ASSERT_EQUAL(names->list[0] == '\0', err.text[0] != '\0');
        zkl__zk_names_drop(names);
    }
    if (server) {
        pthread_join(thread, NULL);
    }
    close(listener);
    return err;
}

#define ATTEMPTS 30

/* On a machine that is slow this server, too, may be silent for a second: then it is tried again. */
static zkl_error check_prompt(const char *tls, void (*server)(int fd))
{
    zkl_error err;
    int attempt = 0;
    do {
        err = check(tls, server);
    } while (strstr(err.text, "no connection to") && ++attempt < ATTEMPTS);
    return err;
}

TEST(test_trusted)
{
    zkl_error err = check_prompt("cert.pem,cert.pem,key.pem,kanari", serve);
    CU_ASSERT_STRING_EQUAL(err.text, "");
    CU_ASSERT_TRUE(served);
}

TEST(test_trickle)
{
    zkl_error err = check("cert.pem", trickle);
    ASSERT_SAYS(err, "no connection to 127.0.0.1:");
    CU_ASSERT(bytes_sent < BYTES);
}

/* Found by its name: only its being there is asked for. */
void zookeeper_init_ssl(void);
void zookeeper_init_ssl(void) {}

TEST(test_silent)
{
    char servers[96];
    zkl_error err;
    int64_t began;
    int attempt = 0;
    bool in_time = check_setting("ZKLOCK_TEST_SLOWNESS", 1) == 1; /* memcheck takes a second for the handshake alone */
    do { /* a machine that is slow has asked nobody yet, or takes the second in which a server is given up */
        listener = kit_listen(hosts, sizeof hosts); /* nobody waits there since the last time */
        snprintf(servers, sizeof servers, "%s,%s,%s", hosts, hosts, hosts);
        began = zkl__clock_now();
        zkl_session_open(&one, servers,
                         SESSION_OPTIONS(.tls = "cert.pem,cert.pem,key.pem,kanari", .connect_timeout_ms = 500), &err);
        close(listener);
    } while (in_time &&
             (zkl__clock_now() - began > 900 * ZKL__MS ||
              !strstr(err.text, "within 500 ms: tls: no server has shown a certificate yet")) &&
             ++attempt < ATTEMPTS);
    CU_ASSERT(attempt < ATTEMPTS);
}

TEST(test_ends)
{
    zkl_error err = check_prompt("cert.pem", hang_up);
    ASSERT_SAYS(err, "ends the handshake: ");
}

/* Whoever runs the test would be asked for it; where there is no terminal, standard input, which has it. */
TEST(test_password)
{
    int input[2], before = dup(STDIN_FILENO);
    CU_ASSERT_FATAL(pipe(input) == 0 && write(input[1], "kanari\n", 7) == 7);
    close(input[1]);
    dup2(input[0], STDIN_FILENO);
    zkl_error none = check("cert.pem,cert.pem,key.pem", NULL), wrong = check("cert.pem,cert.pem,key.pem,canary", NULL);
    dup2(before, STDIN_FILENO);
    close(input[0]);
    close(before);
    CU_ASSERT_EQUAL(none.code, ZKL_EINVAL);
    ASSERT_SAYS(none, "the key key.pem cannot be loaded: ");
    CU_ASSERT_EQUAL(wrong.code, ZKL_EINVAL);
    ASSERT_SAYS(wrong, "the key key.pem cannot be loaded: ");
}

TEST(test_no_file)
{
    zkl_error err = check("absent.pem", NULL);
    CU_ASSERT_EQUAL(err.code, ZKL_EINVAL);
    ASSERT_SAYS(err, "absent.pem cannot be loaded: No such file or directory");
}

int main(int argc, char **argv)
{
    if (!getenv("LD_PRELOAD")) {
        setenv("LD_PRELOAD", LIBRARIES, 1);
        setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 0);
        setsid(); /* OpenSSL finds no terminal */
        execv("/proc/self/exe", argv);
    }
    unsetenv("LD_PRELOAD");
    signal(SIGPIPE, SIG_IGN); /* the session's threads block it */
    if (!TLS_server_method || !mkdtemp(work) || chdir(work) != 0 ||
        system(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -passout pass:kanari -keyout key.pem "
            "-out cert.pem -subj /CN=localhost 2>/dev/null") != 0) {
        printf("skipped: there is no OpenSSL 3\n");
        return 77;
    }
    int code = check_main("tls_peers", argc, argv);
    return system("rm -r \"$PWD\"") == 0 ? code : 1;
}
