/* Paths are checked before they are sent, and what is wrong is said in words. */
#include "check.h"
#include "path.h"

#include <string.h>

#include <zklock/types.h>

static void good(const char *path)
{
    zkl_error err = {.code = 99};
    int code = zkl__path_check(path, &err);
    if (code != ZKL_OK) {
        fprintf(stderr, "%s: %s\n", path, err.text);
    }
    CU_ASSERT_EQUAL(code, ZKL_OK);
    CU_ASSERT_EQUAL(err.code, 99); /* left alone on success */
    CU_ASSERT_EQUAL(zkl__path_check(path, NULL), ZKL_OK);
}

static void bad(const char *path, const char *words)
{
    zkl_error err;
    memset(&err, 'x', sizeof err);
    CU_ASSERT_EQUAL(zkl__path_check(path, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(err.code, ZKL_EINVAL);
    CU_ASSERT_EQUAL(err.zk_code, 0);
    CU_ASSERT_EQUAL(strncmp(err.text, "path: ", 6), 0);
    if (!strstr(err.text, words)) {
        fprintf(stderr, "%s: '%s', not '%s'\n", path ? path : "NULL", err.text, words);
        CU_FAIL("other words");
    }
    CU_ASSERT_EQUAL(zkl__path_check(path, NULL), ZKL_EINVAL);
}

static void test_good_paths(void)
{
    good("/a");
    good("/locks/backup");
    good("/a/b/c/d/e/f");
    good("/...");
    good("/.a/..b/c.");
    good("/a b/c-d_e:f@g");
    good("/zookeeper2");
    good("/a/zookeeper");
    good("/zookeepers/x");
    good("/ n\xc3\xa4me/\xe2\x82\xac");
    good("/a~"); /* the last before DEL */
}

static void test_form(void)
{
    bad(NULL, "missing");
    bad("", "missing");
    bad("a", "absolute");
    bad("locks/backup", "absolute");
    bad("/", "'/' itself");
    bad("//", "empty component");
    bad("/a/", "empty component");
    bad("/a//b", "empty component");
    bad("//a", "empty component");
    bad("/.", "'.' is not allowed");
    bad("/..", "'..' is not allowed");
    bad("/a/.", "'.' is not allowed");
    bad("/a/../b", "'..' is not allowed");
    bad("/./b", "'.' is not allowed");
}

static void test_length(void)
{
    char path[ZKL_PATH_MAX + 10];
    memset(path, 'a', sizeof path);
    path[0] = '/';
    path[ZKL_PATH_MAX] = '\0';
    good(path);
    path[ZKL_PATH_MAX] = 'a';
    path[ZKL_PATH_MAX + 1] = '\0';
    bad(path, "longer than 1024 bytes");
    char *far = malloc(1 << 20);
    memset(far, 'a', 1 << 20);
    far[0] = '/';
    far[(1 << 20) - 1] = '\0';
    bad(far, "longer than 1024 bytes");
    free(far);
}

static void test_reserved(void)
{
    bad("/zookeeper", "ensemble itself");
    bad("/zookeeper/quota", "ensemble itself");
    bad("/locks/x-0000000001", "looks like a contender");
    bad("/-0000000001", "looks like a contender");
    bad("/x-0123456789/y", "looks like a contender");
    bad("/x-9999999999", "looks like a contender");
    bad("/x--000000001", "looks like a contender");
    bad("/lock-0000000001", "looks like a contender");
    /* as every library's: the tags of foreign children and those of paths are the same */
    bad("/locks/__READ__0000000001", "looks like a contender");
    bad("/locks/0f8fad5b__WRIT__0000000001/leases", "looks like a contender");
    bad("/x__lock__2147483647", "looks like a contender");
    bad("/x__rlock__-000000001", "choose another name for 'x__rlock__-000000001'");
    good("/x-012345678");
    good("/x-01234567890");
    good("/x-012345678a");
    good("/x-0123 56789");
    good("/x0123456789");
    good("/0123456789");
}

static void test_characters(void)
{
    char path[16];
    for (int c = 1; c < 0x20; c++) {
        char words[64];
        snprintf(path, sizeof path, "/a%cb", c);
        snprintf(words, sizeof words, "U+%04X at byte 2", (unsigned)c);
        bad(path, words);
    }
    bad("/\x7f", "U+007F at byte 1");
    bad("/\xc2\x80", "U+0080 at byte 1");
    bad("/\xc2\x9f", "U+009F at byte 1");
    good("/\xc2\xa0");
    good("/\xed\x9f\xbf"); /* U+D7FF */
    bad("/\xee\x80\x80", "U+E000");
    bad("/\xef\xa3\xbf", "U+F8FF");
    good("/\xef\xa4\x80"); /* U+F900 */
    good("/\xef\xbf\xaf"); /* U+FFEF */
    bad("/\xef\xbf\xb0", "U+FFF0");
    bad("/\xef\xbf\xbf", "U+FFFF");
    bad("/\xf0\x90\x80\x80", "U+10000"); /* two units of UTF-16, both refused by the server */
    bad("/\xf4\x8f\xbf\xbf", "U+10FFFF");
}

static void test_utf8(void)
{
    static const char *const paths[] = {
        "/\x80", /* continuation alone */
        "/\xbf",
        "/\xc3", /* cut */
        "/\xe2\x82",
        "/\xf0\x9f\x98",
        "/\xc3/",
        "/\xe2\x82/",
        "/\xc0\xaf", /* '/' in two bytes */
        "/\xc1\xbf",
        "/\xe0\x80\xaf",
        "/\xe0\x9f\xbf",
        "/\xf0\x80\x80\xaf",
        "/\xf0\x8f\xbf\xbf",
        "/\xed\xa0\x80", /* surrogates */
        "/\xed\xbf\xbf",
        "/\xf4\x90\x80\x80", /* beyond U+10FFFF */
        "/\xf5\x80\x80\x80",
        "/\xf8\x88\x80\x80\x80",
        "/\xfe",
        "/\xff",
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        bad(paths[i], "byte 1 is not valid UTF-8");
    }
    bad("/ok/\xff", "byte 4 is not valid UTF-8");
}

static void test_form_alone(void)
{
    static const char *const fine[] = {"/", "/a", "/a/b", "/...", "/zookeeper", "/x-0000000001", "/a/.b"};
    static const char *const not_fine[] = {"", "a", "//", "/a//b", "/.", "/a/..", "/./b", "a/b", "/a/../b"};
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
        CU_ASSERT(zkl__path_form(fine[i], false));
        CU_ASSERT(zkl__path_form(fine[i], true));
    }
    for (size_t i = 0; i < sizeof not_fine / sizeof *not_fine; i++) {
        CU_ASSERT(!zkl__path_form(not_fine[i], false));
        CU_ASSERT(!zkl__path_form(not_fine[i], true));
    }
    CU_ASSERT(!zkl__path_form("/a/", false));
    CU_ASSERT(zkl__path_form("/a/", true)); /* a number follows */
}

static void expect_join(const char *dir, const char *name, const char *path)
{
    size_t length = strlen(path);
    for (size_t size = 0; size <= length + 3; size++) {
        char *out = malloc(size + 1);
        out[size] = '!';
        size_t joined = zkl__path_join(out, size, dir, name);
        CU_ASSERT_EQUAL(joined, size > length ? length : 0);
        CU_ASSERT(size <= length || strcmp(out, path) == 0);
        CU_ASSERT_EQUAL(out[size], '!');
        free(out);
    }
}

static void test_join(void)
{
    expect_join("/a", "b", "/a/b");
    expect_join("/", "b", "/b");
    expect_join("/a/b", NULL, "/a/b");
    expect_join("/", NULL, "/");
    expect_join("/a/b", "c-0000000001", "/a/b/c-0000000001");
}

TESTS("paths", T(test_good_paths), T(test_form), T(test_form_alone), T(test_length), T(test_reserved),
      T(test_characters), T(test_utf8), T(test_join))
