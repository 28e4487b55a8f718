#include "sort.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct sorting {
    char *base;
    size_t size;
    int (*compare)(const void *one, const void *other, const void *context);
    const void *context;
};

static bool is_less(const struct sorting *s, size_t one, size_t other)
{
    return s->compare(s->base + one * s->size, s->base + other * s->size, s->context) < 0;
}

static void swap(const struct sorting *s, size_t one, size_t other)
{
    char *a = s->base + one * s->size, *b = s->base + other * s->size;
    for (size_t i = 0; i < s->size; i += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, a + i, sizeof word);
        memcpy(a + i, b + i, sizeof word);
        memcpy(b + i, &word, sizeof word);
    }
}

/* Below `at` the greatest stands on top already; from here on at `at`, too. */
static void sift(const struct sorting *s, size_t at, size_t count)
{
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && is_less(s, child, child + 1);
        if (!is_less(s, at, child)) {
            return;
        }
        swap(s, at, child);
    }
}

/* Heapsort. */
void zkl__sort(void *base, size_t count, size_t size,
               int (*compare)(const void *one, const void *other, const void *context),
               const void *context)
{
    const struct sorting s = {base, size, compare, context};
    for (size_t i = count / 2; i > 0; i--) {
        sift(&s, i - 1, count);
    }
    for (size_t left = count; left > 1; left--) {
        swap(&s, 0, left - 1);
        sift(&s, 0, left - 1);
    }
}
