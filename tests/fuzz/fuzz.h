/* fuzz.h - what the fuzz targets share. A target is one file that defines LLVMFuzzerTestOneInput: linked with libFuzzer it is
 * searched for inputs that break it (scripts/soak fuzz), linked with replay.c it takes the inputs of corpus/ (ctest -L fuzz).
 *
 * A target does not only look for crashes: what a parser says about its input is held against a second, plain way to say the
 * same. */
#ifndef ZKL_FUZZ_FUZZ_H
#define ZKL_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                             \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                \
        }                                                                           \
    } while (0)

/* The input as a string in a block of its own size, so that a sanitizer sees a step beyond its end. Freed by the caller. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    MUST(text);
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    return text;
}

/* Whether a person can be shown it: ended, one line, nothing that steers a terminal. */
static inline bool fuzz_one_line(const char *text, size_t room)
{
    size_t length = strnlen(text, room);
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) {
            return false;
        }
    }
    return length < room;
}

static inline bool fuzz_ends_with(const char *text, size_t length, const char *end)
{
    size_t size = strlen(end);
    return length >= size && memcmp(text + length - size, end, size) == 0;
}

/* One code point, or -1; *at goes on. A plain decoder, to hold the library's against. */
static inline int32_t fuzz_decode(const unsigned char *text, size_t size, size_t *at)
{
    static const struct {
        unsigned char from, to;
        int more;
        int32_t least;
    } leads[] = {{0x00, 0x7f, 0, 0}, {0xc0, 0xdf, 1, 0x80}, {0xe0, 0xef, 2, 0x800}, {0xf0, 0xf7, 3, 0x10000}};
    for (size_t i = 0; i < sizeof leads / sizeof *leads; i++) {
        unsigned char lead = text[*at];
        if (lead < leads[i].from || lead > leads[i].to) {
            continue;
        }
        int32_t point = leads[i].more == 0 ? lead : lead & (0x3f >> leads[i].more);
        (*at)++;
        for (int k = 0; k < leads[i].more; k++, (*at)++) {
            if (*at >= size || text[*at] < 0x80 || text[*at] > 0xbf) {
                return -1;
            }
            point = point * 64 + (text[*at] - 0x80);
        }
        bool surrogate = point >= 0xd800 && point <= 0xdfff;
        return point < leads[i].least || surrogate || point > 0x10ffff ? -1 : point;
    }
    return -1;
}

#endif
