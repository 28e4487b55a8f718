/* directories.h - the directories above a znode. Inside enter/leave. */
#ifndef ZKL_SESSION_DIRECTORIES_H
#define ZKL_SESSION_DIRECTORIES_H

#include "await.h"

struct zkl__directories {
    int line;
    struct zkl__call *call;
    char above[ZKL_PATH_MAX + 1];
    char level[ZKL_PATH_MAX + 1]; /* the one that is being made */
};

/* To be awaited: makes what is above path, containers, as far as it is missing. path: checked. */
int zkl__directories_make(struct zkl__directories *it, struct zkl__call *call, const char *path);

#endif
