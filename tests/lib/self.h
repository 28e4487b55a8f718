/* self.h - the program that runs, to start it once more. */
#ifndef SELF_H
#define SELF_H

#include <limits.h>
#include <unistd.h>

/* Its file's name, static. To execute /proc/self/exe is not the same under valgrind, which would start itself. */
static inline const char *self_path(void)
{
    static char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    return path;
}

#endif
