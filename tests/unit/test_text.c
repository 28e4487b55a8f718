/* Texts: what may be stored on a znode, and a line of a log for a terminal. */
#include "check.h"
#include "text.h"

#include <string.h>

#include <zklock/types.h>

static void expect_text(const char *text, const char *words)
{
    zkl_error err = {.code = 99};
    int code = zkl__text_check("metadata", text, &err);
    CU_ASSERT_EQUAL(code, words ? ZKL_EINVAL : ZKL_OK);
    CU_ASSERT_EQUAL(err.code, words ? ZKL_EINVAL : 99);
    CU_ASSERT(!words || (strncmp(err.text, "metadata: ", 10) == 0 && strstr(err.text, words)));
    CU_ASSERT_EQUAL(zkl__text_check("metadata", text, NULL), code);
}

static void test_texts(void)
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

static void test_escape(void)
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
static void test_bounded(void)
{
    char array[4];
    struct zkl__text text = zkl__text_in(array, sizeof array);
    CU_ASSERT_STRING_EQUAL(array, "");
    zkl__text_add(&text, "ab");
    zkl__text_add(&text, "");
    zkl__text_add(&text, "c");
    CU_ASSERT_STRING_EQUAL(array, "abc");
    CU_ASSERT_EQUAL(text.length, 3);
    CU_ASSERT(!text.too_long);
    zkl__text_add(&text, "d");
    CU_ASSERT(text.too_long);
    CU_ASSERT_STRING_EQUAL(array, "");
    zkl__text_add(&text, "e");
    CU_ASSERT(text.too_long);
    CU_ASSERT_STRING_EQUAL(array, "");
    CU_ASSERT(zkl__text_copy(array, sizeof array, "abc"));
    CU_ASSERT_STRING_EQUAL(array, "abc");
    CU_ASSERT(!zkl__text_copy(array, sizeof array, "abcd"));
    CU_ASSERT_STRING_EQUAL(array, "");
}

TESTS("text", T(test_bounded), T(test_texts), T(test_escape))
