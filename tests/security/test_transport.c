/* TLS and SASL: a client library without them is refused with the remedy, never used in clear instead; one that has them (client_with_tls.c,
 * preloaded) is asked for them. */
#include <dlfcn.h>
#include <zookeeper/zookeeper_version.h>

#include "contest.h"
#include "on_servers.h"
#include "zookeeper_store.h"

#define FILES "ca.pem,cert.pem,key.pem,kanari"

static int lines;

static void on_log(const zkl_log_record *record, void *payload)
{
    lines++;
    CU_ASSERT_PTR_NULL(strstr(record->line, "kanari"));
}

static zkl_session_options asking(const char *tls, const zkl_sasl *sasl)
{
    zkl_session_options options = contest_options(4000, 500);
    options.log_fn = on_log;
    options.tls = tls;
    options.sasl = sasl;
    return options;
}

static int try_open(const zkl_session_options *options, zkl_error *err)
{
    zkl_session *session;
    int code = zkl_session_open(&session, ensemble_servers(server), options, err);
    if (code == ZKL_OK) {
        contest_once(session, "/transport");
        kit_close(session);
    }
    return code;
}

static void expect_env(const char *name, const char *value)
{
    const char *is = getenv(name);
    CU_ASSERT_PTR_NOT_NULL_FATAL(is);
    CU_ASSERT_STRING_EQUAL(is, value);
}

TEST(test_tls)
{
    zkl_session_options options = asking(FILES, NULL);
    zkl_error err;
    if (!dlsym(RTLD_DEFAULT, "zookeeper_init_ssl")) {
        CU_ASSERT_EQUAL(try_open(&options, &err), ZKL_EUNSUPPORTED);
        ASSERT_SAYS(err, "stunnel");
        return;
    }
    char file[] = "/tmp/transport-XXXXXX", word;
    int fd = mkstemp(file), before = dup(STDERR_FILENO);
    CU_ASSERT_FATAL(fd >= 0 && before >= 0);
    unlink(file);
    dup2(fd, STDERR_FILENO);
    int code = try_open(&options, &err);
    dup2(before, STDERR_FILENO);
    ASSERT_OK(code);
    CU_ASSERT_EQUAL(pread(fd, &word, 1, 0), 0); /* nothing on stderr, though that call takes no log callback */
    CU_ASSERT(lines > 1);
    close(before);
    close(fd);
    expect_env("SHIM_TLS", FILES);
}

/* Taken where the client library takes it, else refused with what it wants. */
TEST(test_ca_alone)
{
    zkl_session_options options = asking("ca.pem", NULL);
    zkl_error err = {0};
    CU_ASSERT(!zkl__zk_takes_ca_alone("3.8.0") && !zkl__zk_takes_ca_alone("3.9.10"));
    CU_ASSERT(zkl__zk_takes_ca_alone("3.10.0") && zkl__zk_takes_ca_alone("4.0.0"));
    CU_ASSERT(!zkl__zk_takes_ca_alone(""));
    int code = try_open(&options, &err);
    if (!dlsym(RTLD_DEFAULT, "zookeeper_init_ssl")) {
        CU_ASSERT_EQUAL(code, ZKL_EUNSUPPORTED);
    } else if (zkl__zk_takes_ca_alone(ZOO_VERSION)) {
        expect_env("SHIM_TLS", "ca.pem");
    } else {
        CU_ASSERT_EQUAL(code, ZKL_EINVAL);
        ASSERT_SAYS(err, ZOO_VERSION);
        ASSERT_SAYS(err, "ca.pem,cert.pem,key.pem");
    }
}

TEST(test_sasl)
{
    const zkl_sasl sasl = {.mechanisms = "GSSAPI", .host = "zk1.example"};
    zkl_session_options options = asking(NULL, &sasl);
    zkl_error err;
    if (!dlsym(RTLD_DEFAULT, "zookeeper_init_sasl")) {
        CU_ASSERT_EQUAL(try_open(&options, &err), ZKL_EUNSUPPORTED);
        ASSERT_SAYS(err, "Cyrus");
        return;
    }
    ASSERT_OK(try_open(&options, &err));
    expect_env("SHIM_SERVICE", "zookeeper");
    expect_env("SHIM_HOST", "zk1.example");
    expect_env("SHIM_MECHANISMS", "GSSAPI");
}

TEST(test_nonsense)
{
    const zkl_sasl whole = {.mechanisms = "GSSAPI", .host = "zk1.example"}, half = {.mechanisms = "GSSAPI"};
    const zkl_session_options bad[] = {asking(FILES, &whole), asking(NULL, &half), asking("", NULL)};
    for (int i = 0; i < 3; i++) {
        zkl_error err;
        CU_ASSERT_EQUAL(try_open(&bad[i], &err), ZKL_EINVAL);
        CU_ASSERT(err.text[0] != '\0');
    }
}

TESTS_ON_SERVERS("transport", (&(struct ensemble_options){.tick_ms = 500}))
