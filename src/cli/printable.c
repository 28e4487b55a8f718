/* printable.c - text on its way to a terminal: without what could steer it, and as wide as fits. */
#include "cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#define LINE_MAX_BYTES 4096
#define INDENT 8 /* of the second line of one that is folded: nothing of ours begins there */

/* The character that text begins with: its bytes, 0 when they are not UTF-8. */
static size_t decode(const unsigned char *text, size_t size, uint32_t *point)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* what needs so many bytes */
    unsigned char first = text[0];
    size_t length = first < 0x80       ? 1
                    : first >> 5 == 6  ? 2
                    : first >> 4 == 14 ? 3
                    : first >> 3 == 30 ? 4
                                       : 0;
    if (length == 0 || length > size) {
        return 0;
    }
    uint32_t value = length == 1 ? first : first & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if (text[i] >> 6 != 2) {
            return 0;
        }
        value = value << 6 | (text[i] & 0x3f);
    }
    *point = value;
    return value < least[length] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)
               ? 0
               : length;
}

/* Controls, what makes text run the other way, and what is not seen at all: a name must not look
 * like another one. */
static bool deceives(uint32_t point)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0, 0x1f},        {0x7f, 0x9f},       {0xad, 0xad},     {0x34f, 0x34f},   {0x61c, 0x61c},
        {0x115f, 0x1160}, {0x17b4, 0x17b5},   {0x180b, 0x180f}, {0x200b, 0x200f}, {0x2028, 0x202e},
        {0x2060, 0x206f}, {0x3164, 0x3164},   {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xffa0, 0xffa0},
        {0xfff0, 0xfffb}, {0xe0000, 0xe0fff},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (point >= ranges[i].first && point <= ranges[i].last) {
            return true;
        }
    }
    return false;
}

void cli_printable(const char *text, size_t size, char *out, size_t out_size)
{
    size_t used = 0;
    for (size_t i = 0; i < size;) {
        uint32_t point = 0;
        size_t length = decode((const unsigned char *)text + i, size - i, &point);
        bool fine = length > 0 && !deceives(point);
        size_t room = fine ? length : 1;
        if (used + room >= out_size) {
            break;
        }
        memcpy(out + used, fine ? text + i : "?", room);
        used += room;
        i += length > 0 ? length : 1;
    }
    out[used] = '\0';
}

/* Columns that a terminal needs for a character. What the C library does not know may be newer than
 * it, and wide. */
static size_t width_of(uint32_t point)
{
    int width = wcwidth((wchar_t)point);
    return width >= 0 ? (size_t)width : point < 0x1100 ? 1 : 2;
}

/* Bytes of the characters at the beginning of text that fit into so many columns, and those that
 * combine with the last of them. */
static size_t fitting(const char *text, size_t columns)
{
    size_t at = 0;
    for (size_t used = 0, size = strlen(text); at < size;) {
        uint32_t point = '?';
        size_t length = decode((const unsigned char *)text + at, size - at, &point);
        used += width_of(point);
        if (used > columns) {
            break;
        }
        at += length > 0 ? length : 1;
    }
    return at;
}

void cli_cut(char *text, size_t columns)
{
    text[fitting(text, columns)] = '\0';
}

int cli_columns(int fd)
{
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

/* Where a line is best broken: behind its last space that fits, or where it must be. Never 0. */
static size_t break_at(const char *text, size_t columns)
{
    size_t fits = fitting(text, columns);
    size_t space = fits;
    if (!text[fits]) {
        return fits;
    }
    while (space > 0 && text[space] != ' ') {
        space--;
    }
    return space > 0 ? space : fits > 0 ? fits : strlen(text);
}

static void put_folded(FILE *out, const char *text, size_t columns)
{
    size_t indent = 0;
    size_t room = columns;
    do {
        size_t length = break_at(text, room);
        fprintf(out, "%*s%.*s\n", (int)indent, "", (int)length, text);
        text += length;
        text += *text == ' ';
        indent = columns > (size_t)2 * INDENT ? INDENT : 0;
        room = columns - indent;
    } while (*text);
}

bool cli_line(FILE *out, enum cli_long too_long, const char *format, ...)
{
    char raw[LINE_MAX_BYTES] = "";
    char text[LINE_MAX_BYTES] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(raw, sizeof raw, format, arguments);
    va_end(arguments);
    cli_printable(raw, strlen(raw), text, sizeof text);
    size_t columns = (size_t)cli_columns(fileno(out));
    if (!isatty(fileno(out))) {
        return fprintf(out, "%s\n", text) > 0;
    }
    if (too_long == CLI_CUT) {
        cli_cut(text, columns);
        return fprintf(out, "%s\n", text) > 0;
    }
    put_folded(out, text, columns);
    return !ferror(out);
}
