#include "duration.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#define LONGEST_MS (100LL * 366 * 24 * 3600 * 1000)

static const struct {
    const char *name;
    int64_t ms;
} units[] = {{"ms", 1}, {"s", 1000}, {"", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};

static int64_t unit_ms(const char *name)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(units[i].name, name) == 0) {
            return units[i].ms;
        }
    }
    return 0;
}

/* Digits after the point, as thousandths; finer ones are dropped. */
static int64_t thousandths(const char **text)
{
    int64_t value = 0;
    int64_t weight = 100;
    for (; isdigit((unsigned char)**text); (*text)++) {
        value += (**text - '0') * weight;
        weight /= 10;
    }
    return value;
}

bool duration_parse(const char *text, int64_t *ms)
{
    int64_t whole = 0;
    int64_t fraction = 0;
    if (!isdigit((unsigned char)*text)) {
        return false;
    }
    for (; isdigit((unsigned char)*text); text++) {
        whole = whole * 10 + (*text - '0');
        if (whole > LONGEST_MS) {
            return false;
        }
    }
    if (*text == '.') {
        text++;
        if (!isdigit((unsigned char)*text)) {
            return false;
        }
        fraction = thousandths(&text);
    }
    int64_t unit = unit_ms(text);
    if (unit == 0 || whole > LONGEST_MS / unit) {
        return false;
    }
    *ms = whole * unit + fraction * unit / 1000;
    return true;
}
