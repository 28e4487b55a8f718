/* metrics.h - --metrics FILE: what the session counts, as text for Prometheus, in a file that the
 * node exporter collects. */
#ifndef CLI_METRICS_H
#define CLI_METRICS_H

#include <stdatomic.h>
#include <stdbool.h>

extern const char *metrics_file;       /* NULL: none wanted */
extern _Atomic unsigned metrics_stops; /* of CMD, for the lock's sake: exit code 120 */

/* What the session counts, and the stops, as text for Prometheus: malloced. NULL without memory.
 * Any thread may call it. */
char *metrics_text(void);
/* Writes the file anew, whole or not at all. False when it could not; the first time with a
 * message.
 */
bool metrics_write(void);
/* The same when the next write is due. */
void metrics_write_due(void);
/* How long a poll may wait: timeout_ms (-1: for ever) or until the next write. */
int metrics_timeout(int timeout_ms);

#endif
