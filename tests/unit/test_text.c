/* Texts from outside: paths and metadata, a line of a log for a terminal, identities of the
 * digest scheme, as ZooKeeper's own program makes them: java -cp "$(printf %s:
 * /usr/share/java/?*.jar)" org.apache.zookeeper.server.auth.DigestAuthenticationProvider
 * super:test */
#include "check.h"
#include "name.h"
#include "base.h"

static void good(const char *path)
{
    zkl_error err = {.code = 99};
    int code = zkl__path_check(path, &err);
    if (code != ZKL_OK) {
        fprintf(stderr, "%s: %s\n", path, err.text);
    }
    ASSERT_OK(code);
    CU_ASSERT_EQUAL(err.code, 99); /* left alone on success */
    ASSERT_OK(zkl__path_check(path, NULL));
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

TEST(test_good_paths)
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

TEST(test_form)
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

TEST(test_length)
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

TEST(test_reserved)
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

TEST(test_characters)
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

TEST(test_utf8)
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
    EACH_ROW (i, paths) {
        bad(paths[i], "byte 1 is not valid UTF-8");
    }
    bad("/ok/\xff", "byte 4 is not valid UTF-8");
}

TEST(test_form_alone)
{
    static const char *const fine[] = {"/", "/a", "/a/b", "/...", "/zookeeper", "/x-0000000001", "/a/.b"};
    static const char *const not_fine[] = {"", "a", "//", "/a//b", "/.", "/a/..", "/./b", "a/b", "/a/../b"};
    EACH_ROW (i, fine) {
        CU_ASSERT(zkl__path_form(fine[i], false));
        CU_ASSERT(zkl__path_form(fine[i], true));
    }
    EACH_ROW (i, not_fine) {
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

TEST(test_join)
{
    expect_join("/a", "b", "/a/b");
    expect_join("/", "b", "/b");
    expect_join("/a/b", NULL, "/a/b");
    expect_join("/", NULL, "/");
    expect_join("/a/b", "c-0000000001", "/a/b/c-0000000001");
}

static void expect_text(const char *text, const char *words)
{
    zkl_error err = {.code = 99};
    int code = zkl__text_check("metadata", text, &err);
    CU_ASSERT_EQUAL(code, words ? ZKL_EINVAL : ZKL_OK);
    CU_ASSERT_EQUAL(err.code, words ? ZKL_EINVAL : 99);
    CU_ASSERT(!words || (strncmp(err.text, "metadata: ", 10) == 0 && strstr(err.text, words)));
    CU_ASSERT_EQUAL(zkl__text_check("metadata", text, NULL), code);
}

TEST(test_texts)
{
    char text[ZKL_DATA_MAX + 2];
    expect_text("", NULL);
    expect_text("host:123", NULL);
    expect_text("two\nlines\t\x01 \xf0\x9f\x98\x80", NULL);
    expect_text("__REVOKE__", "Curator");
    expect_text("__REVOKE__ ", NULL);
    expect_text("a\xff", "byte 1 is not valid UTF-8");
    memset(text, 'a', sizeof text);
    text[ZKL_DATA_MAX] = '\0';
    expect_text(text, NULL);
    text[ZKL_DATA_MAX] = 'a';
    text[ZKL_DATA_MAX + 1] = '\0';
    expect_text(text, "longer than 4096 bytes");
}

static void expect_line(const char *text, size_t size, const char *expected)
{
    char out[64];
    zkl__text_escape(out, size, text);
    CU_ASSERT_STRING_EQUAL(out, expected);
}

TEST(test_escape)
{
    expect_line("plain text", 64, "plain text");
    expect_line("two\nlines\r", 64, "two\\x0alines\\x0d");
    expect_line("\x1b[31mred\x7f", 64, "\\x1b[31mred\\x7f");
    expect_line("gr\xc3\xbc\xc3\x9f", 64, "gr\xc3\xbc\xc3\x9f");
    expect_line("\xc2\x9b"
                "31m\xc2\xa0",
                64, "\\xc2\\x9b31m\xc2\xa0"); /* CSI in eight bits; a no-break space stays */
    expect_line("\xc2", 64, "\\xc2");         /* no UTF-8: a terminal of eight bits may take it for a control */
    expect_line("\x9b"
                "31m\xe2",
                64, "\\x9b31m\\xe2");
    expect_line("a\xe2\x80\xae"
                "b\xe2\x80\xa8",
                64, "a\\xe2\\x80\\xaeb\\xe2\\x80\\xa8"); /* right to left; line separator */
    expect_line("\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f", 64, "\\xd8\\x9c\\xe2\\x80\\x8e\\xe2\\x80\\x8f"); /* its marks */
    expect_line("\xe2\x81\xa6\xe2\x81\xa9", 64, "\\xe2\\x81\\xa6\\xe2\\x81\\xa9");                   /* its isolates */
    expect_line("\xe2\x80\x90\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa", 64,
                "\xe2\x80\x90\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa"); /* the neighbours of all these stay */
    expect_line("0123456789", 10, "012345678"); /* cut, never in the middle of an escape or a character */
    expect_line("0123\n56789", 8, "0123");
    expect_line("012\xc3\xbc", 5, "012");
    expect_line("", 64, "");
}

/* What does not fit leaves nothing, and is said. */
TEST(test_bounded)
{
    char array[4];
    CU_ASSERT(zkl__text_copy(array, sizeof array, "abc"));
    CU_ASSERT_STRING_EQUAL(array, "abc");
    CU_ASSERT(!zkl__text_copy(array, sizeof array, "abcd"));
    CU_ASSERT_STRING_EQUAL(array, "");
}

static void expect_identity(const char *credentials, const char *identity)
{
    char out[200];
    memset(out, 'x', sizeof out);
    zkl__digest_identity(out, credentials, strlen(credentials));
    CU_ASSERT_STRING_EQUAL(out, identity);
    CU_ASSERT(strlen(out) < strlen(credentials) + ZKL__DIGEST_ROOM);
}

TEST(test_identities)
{
    expect_identity("super:test", "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
    expect_identity("super:admin", "super:xQJmxLMiHGwaqBvst5y6rkB6HQs=");
    expect_identity("super:adminsecret", "super:GcMT0ijsx21yLyTWAWMqFV/azZE=");
    expect_identity("test:test", "test:V28q/NynI4JI3Rk54h0r8O5kMug=");
}

TEST(test_odd_identities)
{
    expect_identity("a:b:c", "a:cLzgnoJ6mP5qz3w+mwvPE2vDgu0="); /* the password has a colon */
    expect_identity(":x", ":57b19mLA2vMhI/edHul/TytWqWE=");
    expect_identity("nocolon", "nocolon:Ra+cHr2ZoHvBjtNArFGNGlVie4g=");
    expect_identity("", ":2jmj7l5rSw0yVb/vlWAYkK/YBwk="); /* sha1 of nothing */
}

/* Where the length of the text moves the end into another block of sha1. */
TEST(test_identities_of_every_length)
{
    static const struct {
        size_t length;
        const char *identity;
    } known[] = {
        {55, "u:9haYA/nqM3XxNMGh/CO/vVlsjwY="},  {56, "u:eKm7CCgUeLQmQ+V5LVuT4xJjoMU="},
        {63, "u:sQdk8WjMTdt5QpgMeLAFXjpmJ7A="},  {64, "u:7K8oxjW+CY7mhPaEGBOkb+TVrXk="},
        {65, "u:FsssIDYI1iPXWtq8GFTykQVSWOk="},  {119, "u:eROjM4Cbjd6sMd9w38guTS4bChA="},
        {120, "u:4r2/ZIbLbNo5/t3o8enVcP/bjBI="},
    };
    EACH_ROW (i, known) {
        char credentials[121] = "u:";
        memset(credentials + 2, 'p', known[i].length - 2);
        credentials[known[i].length] = '\0';
        expect_identity(credentials, known[i].identity);
    }
}

TESTS("text")
