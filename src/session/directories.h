/* directories.h - the directories above a znode, as a part of a procedure. Inside enter/leave. */
#ifndef ZKL_SESSION_DIRECTORIES_H
#define ZKL_SESSION_DIRECTORIES_H

#include "call.h"

struct zkl__directories {
    struct zkl__procedure *by; /* NULL: not begun, or ended */
    bool whole;
    struct zkl__single single;
    struct zkl__op op;
    enum zkl__rc rc;
    char above[ZKL_PATH_MAX + 1];
    char level[ZKL_PATH_MAX + 1]; /* the one that is being made */
};

/* Makes what is above path, containers, as far as it is missing: from below, since most often
 * nothing is. path: checked. */
void zkl__directories_begin(struct zkl__directories *directories, struct zkl__procedure *by,
                            const char *path);
/* For the procedure's advance. ZKL_OK: they are there. Else as zkl__run_advance, or the server's
 * refusal. */
int zkl__directories_advance(struct zkl__directories *directories, zkl_error *err);
/* For its end. Not begun: nothing. */
void zkl__directories_end(struct zkl__directories *directories);

#endif
