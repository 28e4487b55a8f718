/* metrics.h - --metrics FILE: what the session counts, as text for Prometheus, in a file that the
 * node exporter collects. */
#ifndef CLI_METRICS_H
#define CLI_METRICS_H

#include <stdatomic.h>

#include <zklock/zklock.h>

struct metrics {
    const char *file; /* NULL: none wanted */
    const char *
        name; /* label session="..." on every line: files of several locks are collected together */
    int64_t next_ms;        /* CLOCK_MONOTONIC: when to write again */
    bool failed;            /* which was said */
    _Atomic unsigned stops; /* of CMD, for the lock's sake: exit code 120 */
};

/* What the session counts, and the stops, as text for Prometheus: malloced. NULL without memory.
 * Any thread may call it. */
char *metrics_text(const struct metrics *metrics, zkl_session *session);
/* Writes the file anew, whole or not at all. False when it could not; why is said the first time.
 */
bool metrics_write(struct metrics *metrics, zkl_session *session);
/* The same when it is time to. */
void metrics_look(struct metrics *metrics, zkl_session *session);
/* How long a poll may wait: timeout_ms (-1: for ever) or until it is time. */
int metrics_timeout(const struct metrics *metrics, int timeout_ms);

#endif
