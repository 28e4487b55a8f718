/* zkl__store_find: which servers strings are taken, and what is said about the others. */
#include "check.h"
#include "store.h"

TEST(test_zookeeper_strings)
{
    static const char *const good[] = {
        "localhost",
        "localhost:2181",
        "127.0.0.1:1",
        "a.example:2181,b.example:65535,c-3.example",
        "zk_1:2181/app",
        "zk1,zk2,zk3/app/locks",
        "host:2181/",
        "[::1]",
        "[::1]:2181",
        "[fe80::1]:2181,10.0.0.1:2181,[2001:db8::7]/chroot",
        "host/\xc3\xa9t\xc3\xa9",
    };
    EACH_ROW (i, good) {
        zkl_error err = {0};
        CU_ASSERT_PTR_EQUAL(zkl__store_find(good[i], &err), &zkl__store_zookeeper);
        CU_ASSERT_EQUAL(err.code, 0); /* untouched on success */
        if (err.code != 0) {
            printf("%s: %s\n", good[i], err.text);
        }
    }
}

TEST(test_without_port)
{
    static const struct {
        const char *servers, *portless; /* "": each has a port */
    } cases[] = {
        {"zk1:2181,zk2:2181/app", ""},
        {"zk1", "zk1"},
        {"zk1:2181,zk2,zk3/app", "zk2"},
        {"zk1:2181,[::1]/a:b", "[::1]"},
        {"[::1]:2181,[fe80::1]:1", ""},
        {"memory:a", ""},
        {"zk1:2181/a:b", ""},
        {"zk1/a:b", "zk1"},
    };
    EACH_ROW (i, cases) {
        size_t length = 0;
        const char *found = zkl__store_without_port(cases[i].servers, &length);
        CU_ASSERT_EQUAL(found ? length : 0, strlen(cases[i].portless));
        CU_ASSERT(!found || strncmp(found, cases[i].portless, length) == 0);
    }
}

TEST(test_memory_strings)
{
    CU_ASSERT_PTR_EQUAL(zkl__store_find("memory:a", NULL), &zkl__store_memory);
    CU_ASSERT_PTR_EQUAL(zkl__store_find("memory:any.name-you_like:2", NULL), &zkl__store_memory);
    CU_ASSERT_PTR_EQUAL(zkl__store_find("memory", NULL), &zkl__store_zookeeper); /* a host of that name */
}

/* Each with the words that its message must have. */
TEST(test_bad_strings)
{
    static const struct {
        const char *servers, *words;
    } bad[] = {
        {NULL, "missing"},
        {"", "missing"},
        {"/app", "no server before the chroot"},
        {"a,,b", "empty entry"},
        {",a", "empty entry"},
        {"a,", "empty entry"},
        {",", "empty entry"},
        {"a,/app", "empty entry"},
        {":2181", "no host"},
        {"host:", "port"},
        {"host:0", "port"},
        {"host:65536", "port"},
        {"host:123456", "port"},
        {"host:-1", "port"},
        {"host:+1", "port"},
        {"host:21x", "port"},
        {"host:0x10", "port"},
        {"host:2181:2182", "IPv6"},
        {"::1", "brackets"},
        {"[::1", "without ']'"},
        {"[]", "not an IPv6"},
        {"[::1]x", "follow"},
        {"[::1]:", "port"},
        {"[::1]:x", "port"},
        {"[fe80::1%eth0]:2181", "not an IPv6"},
        {"[127.0.0.1]:2181", "not an IPv6"},
        {"[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]", "not an IPv6"},
        {" host", "white space"},
        {"host ", "white space"},
        {"a, b", "white space"},
        {"a\tb", "white space"},
        {"host:2181/a b", "white space"},
        {"host\n", "control"},
        {"ho\x7fst", "control"},
        {"h\xc3\xb6st", "host name"},
        {"user@host", "host name"},
        {"http:2181//host", "chroot"},
        {"host]", "host name"},
        {"host/a//b", "chroot"},
        {"host/a/", "chroot"},
        {"host//", "chroot"},
        {"host/.", "chroot"},
        {"host/a/..", "chroot"},
        {"host/\xff", "chroot"},
        {"host/zookeeper", "chroot"},
        {"memory:", "needs a name"},
        {"memory:a/b", "chroot"},
        {"memory:a,b", "list"},
        {"memory:a b", "white space"},
    };
    EACH_ROW (i, bad) {
        zkl_error err = {0};
        const struct zkl__store_ops *ops = zkl__store_find(bad[i].servers, &err);
        CU_ASSERT_PTR_NULL(ops);
        CU_ASSERT_EQUAL(err.code, ZKL_EINVAL);
        ASSERT_SAYS(err, bad[i].words);
        CU_ASSERT_EQUAL(strncmp(err.text, "servers: ", 9), 0);
        if (ops || !strstr(err.text, bad[i].words)) {
            printf("'%s': '%s' instead of '%s'\n", bad[i].servers ? bad[i].servers : "(null)", err.text, bad[i].words);
        }
        CU_ASSERT_PTR_NULL(zkl__store_find(bad[i].servers, NULL));
    }
}

TEST(test_long_strings)
{
    static char text[4000];
    zkl_error err;
    memset(text, 'a', sizeof text - 1);
    CU_ASSERT_PTR_NULL(zkl__store_find(text, &err));
    ASSERT_SAYS(err, "too long");
    memcpy(text, "memory:", 7);
    CU_ASSERT_PTR_NULL(zkl__store_find(text, &err));
    ASSERT_SAYS(err, "longer");
    memcpy(text, "h:2181/", 7);
    CU_ASSERT_PTR_NULL(zkl__store_find(text, &err));
    ASSERT_SAYS(err, "longer");
    for (size_t i = 0; i + 1 < sizeof text; i++) {
        text[i] = i % 8 == 7 ? ',' : 'a';
    }
    text[sizeof text - 2] = 'a';
    CU_ASSERT_PTR_EQUAL(zkl__store_find(text, &err), &zkl__store_zookeeper);
}

TESTS("servers")
