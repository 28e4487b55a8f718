#include "text.h"

#include "error.h"

#include <stdio.h>
#include <string.h>

#include <zklock/types.h>

size_t zkl__utf8_decode(const unsigned char *s, uint32_t *out)
{
    if (s[0] < 0x80) {
        *out = s[0];
        return 1;
    }
    size_t length = (s[0] & 0xe0) == 0xc0   ? 2
                    : (s[0] & 0xf0) == 0xe0 ? 3
                    : (s[0] & 0xf8) == 0xf0 ? 4
                                            : 0;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t point = length == 2 ? s[0] & 0x1f : length == 3 ? s[0] & 0x0f : s[0] & 0x07;
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
        point = point << 6 | (s[i] & 0x3f);
    }
    if (length == 0 || point < least[length] || point > 0x10ffff ||
        (point >= 0xd800 && point <= 0xdfff)) {
        return 0;
    }
    *out = point;
    return length;
}

struct zkl__text zkl__text_in(char *array, size_t size)
{
    array[0] = '\0';
    return (struct zkl__text){.bytes = array, .size = size};
}

void zkl__text_add(struct zkl__text *text, const char *piece)
{
    size_t room = text->size - text->length, length = strnlen(piece, room);
    text->too_long = text->too_long || length == room;
    if (text->too_long) {
        text->length = 0;
    } else {
        memcpy(text->bytes + text->length, piece, length);
        text->length += length;
    }
    text->bytes[text->length] = '\0';
}

bool zkl__text_copy(char *array, size_t size, const char *text)
{
    struct zkl__text copy = zkl__text_in(array, size);
    zkl__text_add(&copy, text);
    return !copy.too_long;
}

int zkl__text_check(const char *name, const char *text, zkl_error *err)
{
    size_t length = strnlen(text, ZKL_DATA_MAX + 1);
    if (length > ZKL_DATA_MAX) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s: longer than %d bytes", name, ZKL_DATA_MAX);
    }
    if (strcmp(text, ZKL__REVOKE) == 0) {
        return zkl__fail(
            err, ZKL_EINVAL, 0, NULL,
            "%s: \"" ZKL__REVOKE "\" asks the holder to give way, in Curator's protocol", name);
    }
    const unsigned char *s = (const unsigned char *)text;
    while (*s) {
        uint32_t point;
        size_t step = zkl__utf8_decode(s, &point);
        if (step == 0) {
            return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s: byte %zu is not valid UTF-8", name,
                             (size_t)(s - (const unsigned char *)text));
        }
        s += step;
    }
    return ZKL_OK;
}

/* Control characters of seven and eight bits, line separators, and characters that change the
 * direction of the text behind them. */
static bool moves_the_terminal(uint32_t point)
{
    return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x61c || point == 0x200e ||
           point == 0x200f || (point >= 0x2028 && point <= 0x202e) ||
           (point >= 0x2066 && point <= 0x2069);
}

void zkl__text_escape(char *out, size_t size, const char *text)
{
    size_t at = 0;
    const unsigned char *in = (const unsigned char *)text;
    while (*in) {
        uint32_t point;
        size_t length = zkl__utf8_decode(in, &point);
        bool plain = length > 0 && !moves_the_terminal(point);
        length += length == 0;
        if (at + (plain ? length : 4 * length) >= size) {
            break;
        }
        for (size_t i = 0; i < length; i++) {
            at += (size_t)snprintf(out + at, size - at, plain ? "%c" : "\\x%02x", in[i]);
        }
        in += length;
    }
    out[at] = '\0';
}
