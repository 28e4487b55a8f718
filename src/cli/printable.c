/* printable.c - text on its way to a terminal: without what could steer it, and as wide as fits. */
#include "cli.h"

#include <string.h>
#include <sys/ioctl.h>

/* The character that text begins with: its bytes, 0 when they are not UTF-8. */
static size_t decode(const unsigned char *text, size_t size, uint32_t *point)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* what needs so many bytes */
    unsigned char first = text[0];
    size_t length = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
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
    return value < least[length] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000) ? 0 : length;
}

/* Controls, and what makes text run the other way: a name must not look like another one. */
static bool steers(uint32_t point)
{
    return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x61c || point == 0x200e || point == 0x200f ||
           (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
}

void cli_printable(const char *text, size_t size, char *out, size_t out_size)
{
    size_t used = 0;
    for (size_t i = 0; i < size;) {
        uint32_t point = 0;
        size_t length = decode((const unsigned char *)text + i, size - i, &point);
        bool fine = length > 0 && !steers(point);
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

void cli_cut(char *text, size_t columns)
{
    size_t count = 0;
    for (; *text; text++) {
        bool begins = ((unsigned char)*text >> 6) != 2;
        if (begins && count == columns) {
            *text = '\0';
            return;
        }
        count += begins;
    }
}

int cli_columns(int fd)
{
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}
