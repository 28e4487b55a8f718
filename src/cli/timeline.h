/* timeline.h - a queue over time: who waited, who held, as rows for a screen. */
#ifndef CLI_TIMELINE_H
#define CLI_TIMELINE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "history.h"

/* Stands in a row before the part that is drawn: TIMELINE_HOLDS, TIMELINE_WAITS and the like. */
#define TIMELINE_BEGIN '\1'
#define TIMELINE_HOLDS '#'
#define TIMELINE_WAITS '.'
#define TIMELINE_BLIND '?' /* nobody could look */

struct timeline {
    size_t columns, rows; /* of the screen; rows: for this queue */
    int64_t from_ms, to_ms;
};

/* Prints `rows` lines at most. */
void timeline_print(FILE *out, const struct history *history, const struct timeline *timeline);
/* "14:03:59", by the time zone here. */
void timeline_clock(int64_t time_ms, char *text, size_t size);

#endif
