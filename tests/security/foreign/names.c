#include "names.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define UUID "0f8fad5b-d9cb-469f-a165-70867728950e"

/* Every tag that zkl__name_parse honours, and what ends like one. Alone in a directory, the first ones stand for all. */
static const char *const tags[] = {"-lock-",  "__READ__", "-lease-", "__lock__", "__rlock__", "__WRIT__",
                                   "-latch-", "lock-",    "latch-",  "-",        "__"};
enum { TAGS = sizeof tags / sizeof *tags, ALONE_BY_NUMBER = 2, ALONE_BY_LENGTH = 4 };

static const char *const heads[] = {"", "_c_" UUID, "_c_" UUID "-",
                                    "_c_0f8fad5b-d9cb-469f-a165-70867728950", /* cut short */
                                    "_c_"};
enum { HEADS = sizeof heads / sizeof *heads };

static const char *const numbers[] = {"0000000001", "0000000000",  "000000001",   "00000000001", "",
                                      "-000000001", "-0000000001", "-2147483648", "2147483646",  "2147483647",
                                      "2147483648", "4294967295",  "9999999999",  "000000000x",  "+000000001"};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static const int lengths[] = {1, 9, 10, 11, 36, 63, 64, 65, 127, 128, 254, 255};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

/* What recipes put beside their contenders, and what is no contender at all. The last ones no server takes. */
static const char *const others[] = {"ready",
                                     "__party__",
                                     "__REVOKE__",
                                     "mark",
                                     "...",
                                     ".hidden-lock-0000000001",
                                     "a.b",
                                     "%n%s%s-lock-0000000001",
                                     "schl\xc3\xbcssel-lock-0000000001",
                                     "\xe2\x82\xac__READ__0000000001",
                                     "\xf0\x9f\x94\x92-lease-0000000001",
                                     "\xff\xfe-lock-0000000001",
                                     "a\x1b[2J-lock-0000000001",
                                     "a\nb-lock-0000000001",
                                     "a\x1b[2J__READ__0000000001",
                                     "\x01"};
enum { OTHERS = sizeof others / sizeof *others };

static struct foreign_name names[NAMES_MAX];
static size_t count;

static void add(const char *text, enum decides decides)
{
    if (count < NAMES_MAX) {
        snprintf(names[count].text, sizeof names[count].text, "%s", text);
        names[count++].decides = decides;
    }
}

/* 'a' as often as it takes, then tag and number; or their end, where there is no room for all. */
static void add_of_length(int tag, int length)
{
    char end[32], text[NAME_BYTES];
    int size = snprintf(end, sizeof end, "%s0000000001", tags[tag]);
    memset(text, 'a', sizeof text);
    if (size <= length) {
        memcpy(text + length - size, end, (size_t)size);
    } else {
        memcpy(text, end + size - length, (size_t)length);
    }
    text[length] = '\0';
    bool alone = (length >= 63 && length <= 65) || length == 255;
    add(text, alone && tag < ALONE_BY_LENGTH ? DECIDES_EVERYWHERE : DECIDES_NOT);
}

static void fill(void)
{
    char text[NAME_BYTES];
    for (int tag = 0; tag < TAGS; tag++) {
        for (int head = 0; head < HEADS; head++) {
            for (int number = 0; number < NUMBERS; number++) {
                snprintf(text, sizeof text, "%s%s%s", heads[head], tags[tag], numbers[number]);
                add(text, head == 0 && tag < ALONE_BY_NUMBER ? DECIDES_IN_QUEUES : DECIDES_NOT);
            }
        }
        for (int i = 0; i < LENGTHS; i++) {
            add_of_length(tag, lengths[i]);
        }
    }
    for (int i = 0; i < OTHERS; i++) {
        add(others[i], strchr(others[i], '\x1b') ? DECIDES_EVERYWHERE : DECIDES_NOT); /* in the text of an error */
    }
}

const struct foreign_name *foreign_names(size_t *out)
{
    if (count == 0) {
        fill();
    }
    *out = count;
    return names;
}
