/* workout.h - what has to hold under every configuration of the servers: contenders acquire, release
 * and hand over, one at a time, in the order of the queue, with tokens that rise. */
#ifndef ZKL_CONFIGURATIONS_WORKOUT_H
#define ZKL_CONFIGURATIONS_WORKOUT_H

#include "check.h"
#include "contest.h"
#include "ensemble.h"
#include "store_client.h"

struct ensemble *begin(const struct ensemble_options *options);

/* A queue of six, and four threads that acquire ten times each. */
void workout(const struct field *field, const char *path);

/* A counter of server i, zk_NAME of mntr, is not 0: its configuration is in force. */
bool counted(struct ensemble *e, int i, const char *counter);

/* The result of a test, for docs/compatibility.md: printed if nothing has failed in it.
 * Ends with "HOLDS|configuration|what". */
void holds(const char *configuration, const char *what);

#endif
