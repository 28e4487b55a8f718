/* scratch.h - a temporary directory, and its end. */
#ifndef CLI_SCRATCH_H
#define CLI_SCRATCH_H

#include <stddef.h>

/* Makes a directory for us alone below $TMPDIR, else /dev/shm (memory), else /tmp. False, with
 * errno, when it cannot. */
_Bool scratch_make(char *path, size_t size);
/* Removes it with everything in it, as far as it can be removed. */
void scratch_remove(const char *path);

#endif
