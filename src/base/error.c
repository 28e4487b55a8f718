#include "error.h"

#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    int code;
    zkl_class class;
    const char *name;
    const char *text;
} table[] = {
#define ROW(name, value, class, text) {name, class, #name, text},
    ZKL_ERRORS(ROW)
#undef ROW
};

#define TABLE_COUNT (sizeof table / sizeof *table)

static size_t row_of(int code)
{
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        if (table[i].code == code) {
            return i;
        }
    }
    return TABLE_COUNT;
}

const char *zkl_strerror(int code)
{
    size_t row = row_of(code);
    return row < TABLE_COUNT ? table[row].text : "unknown result";
}

const char *zkl_error_name(int code)
{
    size_t row = row_of(code);
    return row < TABLE_COUNT ? table[row].name : "ZKL_?";
}

zkl_class zkl_error_class(int code)
{
    size_t row = row_of(code);
    return row < TABLE_COUNT ? table[row].class : ZKL_CLASS_FATAL;
}

int(zkl__fail)(zkl_error *err, int code, int zk_code, const char *path, const char *format, ...)
{
    if (err) {
        char text[sizeof err->text];
        va_list args;
        err->code = code;
        err->zk_code = zk_code;
        memset(err->reserved, 0, sizeof err->reserved);
        snprintf(err->path, sizeof err->path, "%s", path ? path : "");
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        zkl__text_escape(err->text, sizeof err->text, text); /* it may name what others named */
    }
    return code;
}
