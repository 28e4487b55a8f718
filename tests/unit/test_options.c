/* What is pure about options: checks and copies. */
#include "acl.h"
#include "check.h"
#include "options.h"
#include "test_heap.h"

#include <string.h>

static void test_acl_copy(void)
{
    struct test_heap counter = TEST_HEAP_INIT;
    zkl_heap heap = test_heap(&counter);
    const zkl_acl_entry entries[] = {{ZKL_PERM_ALL, "digest", "me:hash"}, {ZKL_PERM_READ, "world", "anyone"}};
    zkl_acl *copy = zkl__acl_copy(&heap, &(zkl_acl){2, entries});
    CU_ASSERT_PTR_NOT_NULL_FATAL(copy);
    CU_ASSERT_EQUAL(copy->count, 2);
    CU_ASSERT_EQUAL(copy->entries[1].perms, ZKL_PERM_READ);
    CU_ASSERT_STRING_EQUAL(copy->entries[0].scheme, "digest");
    CU_ASSERT_STRING_EQUAL(copy->entries[0].id, "me:hash");
    CU_ASSERT_STRING_EQUAL(copy->entries[1].id, "anyone");
    CU_ASSERT(copy->entries[0].id != entries[0].id);
    zkl__free(&heap, copy);
    CU_ASSERT_EQUAL(test_heap_live(&counter), 0);
}

static void test_acl_check(void)
{
    const zkl_acl_entry good = {ZKL_PERM_ALL, "digest", "me:hash"};
    const zkl_acl_entry bad[] = {
        {ZKL_PERM_ALL, NULL, "me:hash"}, {ZKL_PERM_ALL, "digest", NULL},          {ZKL_PERM_ALL, "", "me:hash"},
        {0, "digest", "me:hash"},        {ZKL_PERM_ALL + 1, "digest", "me:hash"},
    };
    CU_ASSERT_EQUAL(zkl__acl_check(NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__acl_check(&(zkl_acl){1, &good}, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__acl_check(&(zkl_acl){0, &good}, NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl__acl_check(&(zkl_acl){101, &good}, NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl__acl_check(&(zkl_acl){1, NULL}, NULL), ZKL_EINVAL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const zkl_acl_entry both[] = {good, bad[i]};
        zkl_error err = {0};
        CU_ASSERT_EQUAL(zkl__acl_check(&(zkl_acl){2, both}, &err), ZKL_EINVAL);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "acl entry 1")); /* which one */
    }
}

static void expect_bad(zkl_session_options options, const char *named)
{
    zkl_error err = {0};
    CU_ASSERT_EQUAL(zkl__options_check(&options, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, named));
}

static void test_credentials_and_heap_are_whole_or_none(void)
{
    struct test_heap counter = TEST_HEAP_INIT;
    const zkl_session_options good = ZKL_SESSION_OPTIONS_INIT;
    zkl_session_options options = good;
    options.auth_scheme = "digest";
    expect_bad(options, "auth");
    options = good;
    options.auth = "me:secret";
    expect_bad(options, "auth");
    options.auth_scheme = "";
    expect_bad(options, "auth");
    options.auth_scheme = "digest";
    expect_bad(options, "auth_size");
    options.auth_size = 9;
    CU_ASSERT_EQUAL(zkl__options_check(&options, NULL), ZKL_OK);
    for (int lacking = 0; lacking < 3; lacking++) {
        zkl_heap heap = test_heap(&counter);
        heap.alloc = lacking == 0 ? NULL : heap.alloc;
        heap.resize = lacking == 1 ? NULL : heap.resize;
        heap.release = lacking == 2 ? NULL : heap.release;
        options = good;
        options.heap = &heap;
        expect_bad(options, "heap");
    }
}

static void test_numbers_have_their_range(void)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.tick_ms = 0;
    expect_bad(options, "tick_ms is 0; 1 to 86400000 is possible");
    options.tick_ms = ZKL__DAY_MS + 1;
    expect_bad(options, "tick_ms");
}

static void test_transport_is_of_one_kind_and_whole(void)
{
    const zkl_sasl whole = {.mechanisms = "GSSAPI", .host = "zoo"};
    const zkl_sasl lacking[] = {{.host = "zoo"}, {.mechanisms = "GSSAPI"}};
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.sasl = &whole;
    CU_ASSERT_EQUAL(zkl__options_check(&options, NULL), ZKL_OK);
    options.tls = "ca.pem,cert.pem,key.pem";
    expect_bad(options, "tls and sasl");
    options.sasl = NULL;
    CU_ASSERT_EQUAL(zkl__options_check(&options, NULL), ZKL_OK);
    options.tls = "ca.pem";
    CU_ASSERT_EQUAL(zkl__options_check(&options, NULL), ZKL_OK);
    options.tls = "";
    expect_bad(options, "\"ca.pem[,cert.pem,key.pem]\"");
    options.tls = ",cert.pem,key.pem";
    expect_bad(options, "\"ca.pem[,cert.pem,key.pem]\"");
    options.tls = NULL;
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++) {
        options.sasl = &lacking[i];
        expect_bad(options, "its mechanisms or its host");
    }
}

/* However many allocations there are, each fails once: nothing is left, and the last round, in which none fails, has copied
 * everything. Returns how many there were. */
static long copy_without_memory(const zkl_session_options *options)
{
    struct test_heap counter = TEST_HEAP_INIT;
    zkl_heap heap = test_heap(&counter);
    bool copied = false;
    long nth = 0;
    while (!copied && nth < 20) {
        struct zkl__settings settings = {.servers = NULL};
        test_heap_fail(&counter, ++nth, false);
        copied = zkl__settings_copy(&settings, &heap, "memory:x", options);
        zkl__settings_free(&settings, &heap);
        CU_ASSERT_EQUAL(test_heap_live(&counter), 0);
    }
    return nth - 1;
}

static void test_settings_are_copies(void)
{
    struct test_heap counter = TEST_HEAP_INIT;
    zkl_heap heap = test_heap(&counter);
    char scheme[] = "digest", secret[] = "me\0secret", servers[] = "memory:x", tls[] = "a,b,c,secret", host[] = "zoo";
    const zkl_acl_entry entry = {ZKL_PERM_ALL, "auth", ""};
    const zkl_acl acl = {1, &entry};
    zkl_sasl sasl = {.mechanisms = "GSSAPI", .host = host};
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.auth_scheme = scheme;
    options.auth = secret;
    options.auth_size = 9;
    options.acl = &acl;
    options.tls = tls;
    options.sasl = &sasl;
    struct zkl__settings settings = {.servers = NULL};
    CU_ASSERT_FATAL(zkl__settings_copy(&settings, &heap, servers, &options));
    CU_ASSERT_STRING_EQUAL(settings.servers, "memory:x");
    CU_ASSERT(settings.options.auth_scheme != scheme);
    CU_ASSERT_EQUAL(memcmp(settings.options.auth, secret, 9), 0);
    CU_ASSERT_STRING_EQUAL(settings.options.acl->entries[0].scheme, "auth");
    CU_ASSERT_STRING_EQUAL(settings.options.tls, tls);
    CU_ASSERT(settings.options.tls != tls);
    CU_ASSERT_STRING_EQUAL(settings.options.sasl->host, "zoo");
    CU_ASSERT(settings.options.sasl->host != host);
    CU_ASSERT_STRING_EQUAL(settings.options.sasl->service, "zookeeper"); /* unless it is given */
    zkl__settings_free(&settings, &heap);
    CU_ASSERT_EQUAL(copy_without_memory(&options), 6);
    sasl.service = "zk";
    CU_ASSERT(zkl__settings_copy(&settings, &heap, servers, &options));
    CU_ASSERT_STRING_EQUAL(settings.options.sasl->service, "zk");
    zkl__settings_free(&settings, &heap);
    CU_ASSERT_EQUAL(test_heap_live(&counter), 0);
}

TESTS("options", T(test_acl_copy), T(test_acl_check), T(test_credentials_and_heap_are_whole_or_none),
      T(test_numbers_have_their_range), T(test_transport_is_of_one_kind_and_whole), T(test_settings_are_copies))
