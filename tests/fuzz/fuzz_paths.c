/* Paths of locks and text for znodes, as a user types them or an environment has them. */
#include "fuzz.h"

#include "name.h"
#include "base.h"

/* The rules once more, said plainly. */
static bool is_utf8(const char *text, size_t length, bool path)
{
    for (size_t at = 0; at < length;) {
        int32_t point = fuzz_decode((const unsigned char *)text, length, &at);
        bool control = point < 0x20 || (point >= 0x7f && point <= 0x9f);
        if (point < 0 || (path && (control || (point >= 0xe000 && point <= 0xf8ff) || point >= 0xfff0))) {
            return false;
        }
    }
    return true;
}

/* A tag, and what a server prints with %010d. A sign that belongs to the number stands behind a tag. */
static bool is_contender(const char *component)
{
    static const char *const tags[] = {"-", "__lock__", "__rlock__", "__READ__", "__WRIT__"};
    size_t length = strlen(component);
    if (length < 10) {
        return false;
    }
    size_t head = length - 10;
    const char *number = component + head;
    bool negative = number[0] == '-';
    if (strspn(number + negative, "0123456789") != (negative ? 9 : 10) || strcmp(number, "-000000000") == 0) {
        return false;
    }
    if (!negative && (fuzz_ends_with(component, head, "--") || fuzz_ends_with(component, head, "_-")) &&
        strcmp(number, "1000000000") >= 0 && strcmp(number, "2147483648") <= 0) {
        head--;
    }
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        if (fuzz_ends_with(component, head, tags[i])) {
            return true;
        }
    }
    return false;
}

static bool is_path(const char *path)
{
    char copy[ZKL_PATH_MAX + 1];
    size_t length = strlen(path);
    if (length < 2 || length > ZKL_PATH_MAX || path[0] != '/' || !is_utf8(path, length, true)) {
        return false;
    }
    memcpy(copy, path, length + 1);
    char *rest = copy + 1;
    bool first = true;
    for (char *component = strsep(&rest, "/"); component; component = strsep(&rest, "/"), first = false) {
        if (component[0] == '\0' || strcmp(component, ".") == 0 || strcmp(component, "..") == 0 ||
            is_contender(component) || (first && strcmp(component, "zookeeper") == 0)) {
            return false;
        }
    }
    return true;
}

static void check_error(const zkl_error *err, int code)
{
    MUST(code == ZKL_EINVAL && err->code == code);
    MUST(err->text[0] != '\0' && fuzz_one_line(err->text, sizeof err->text));
    MUST(strnlen(err->path, sizeof err->path) < sizeof err->path);
}

static void check_path(const char *path)
{
    zkl_error err = {0};
    int code = zkl__path_check(path, &err);
    MUST((code == ZKL_OK) == is_path(path));
    MUST(code == zkl__path_check(path, NULL));
    if (code == ZKL_OK) {
        MUST(zkl__path_form(path, false) && zkl__path_form(path, true));
        MUST(err.code == 0 && err.text[0] == '\0');
    } else {
        check_error(&err, code);
    }
}

static void check_text(const char *text)
{
    zkl_error err = {0};
    size_t length = strlen(text);
    int code = zkl__text_check("text", text, &err);
    bool good = length <= ZKL_DATA_MAX && is_utf8(text, length, false) && strcmp(text, "__REVOKE__") != 0;
    MUST((code == ZKL_OK) == good);
    if (code != ZKL_OK) {
        check_error(&err, code);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    check_path(text);
    check_text(text);
    free(text);
    return 0;
}
