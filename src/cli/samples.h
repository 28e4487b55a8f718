/* samples.h - times, and the one below which a share of them lies. */
#ifndef CLI_SAMPLES_H
#define CLI_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct samples {
    int64_t *all;
    size_t count, room;
};

/* False without memory. */
bool samples_add(struct samples *samples, int64_t value);
/* share: 0.5 is the median. Puts them in order. 0 when there are none. */
int64_t samples_at(struct samples *samples, double share);

#endif
