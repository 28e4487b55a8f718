/* make_parents.h - the directories above a znode. */
#ifndef ZKL_SESSION_MAKE_PARENTS_H
#define ZKL_SESSION_MAKE_PARENTS_H

#include "call.h"

struct zkl__parents {
    int line;
    struct zkl__call *call;
    char above[ZKL_PATH_MAX + 1];
    char level[ZKL_PATH_MAX + 1]; /* the one that is being made */
};

/* To be awaited: makes what is above path, containers, as far as it is missing. path: checked. */
int zkl__make_parents(struct zkl__parents *it, struct zkl__call *call, const char *path);

#endif
