/* once_status.h - did the job run? What is recorded of it, and who is at it now. */
#ifndef CLI_ONCE_STATUS_H
#define CLI_ONCE_STATUS_H

#include "cli.h"

/* length_ms 0: the slots are not known. Returns the exit code: 0 when the last slot whose round
 * time is past is recorded, or any is where the slots are not known; 1 when not. */
int once_status(struct cli *cli, const char *job, int64_t length_ms, int64_t phase_ms);

#endif
