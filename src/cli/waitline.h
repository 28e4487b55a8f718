/* waitline.h - who is before us, on a terminal and to the service manager: waiting for "backup": 2
 * ahead; held by db3:4121 (deploy) for 00:02:13 */
#ifndef CLI_WAITLINE_H
#define CLI_WAITLINE_H

#include "contend.h"

struct waitline {
    bool terminal; /* standard error is one, and not -q */
    bool wanted;   /* there, or by contend->notify */
    bool shown;
    int64_t next_ms; /* CLOCK_MONOTONIC */
};

void waitline_init(struct waitline *line, const struct contend *contend);
/* For poll: milliseconds until it is due; -1: never. */
int waitline_timeout(const struct waitline *line);
/* Shows it if it is due. */
void waitline_show(struct waitline *line, const struct contend *contend);
/* Wipes it from the screen. */
void waitline_clear(struct waitline *line);

#endif
