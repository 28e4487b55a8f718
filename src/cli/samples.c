#include "samples.h"

#include <stdlib.h>

bool samples_add(struct samples *samples, int64_t value)
{
    if (samples->count == samples->room) {
        size_t room = samples->room ? 2 * samples->room : 1024;
        int64_t *all = realloc(samples->all, room * sizeof *all);
        if (!all) {
            return false;
        }
        samples->all = all;
        samples->room = room;
    }
    samples->all[samples->count++] = value;
    return true;
}

static int compare(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

int64_t samples_at(struct samples *samples, double share)
{
    if (samples->count == 0) {
        return 0;
    }
    qsort(samples->all, samples->count, sizeof *samples->all, compare);
    size_t index = (size_t)(share * (double)samples->count);
    return samples->all[index < samples->count ? index : samples->count - 1];
}
