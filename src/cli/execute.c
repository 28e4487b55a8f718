#include "execute.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_in_path(const char *name)
{
    const char *rest = getenv("PATH");
    while (rest && *rest) {
        char file[PATH_MAX];
        struct stat status;
        size_t length = strcspn(rest, ":");
        int written = snprintf(file, sizeof file, "%.*s%s%s", (int)length, rest, length > 0 ? "/" : "", name);
        if (written > 0 && (size_t)written < sizeof file && stat(file, &status) == 0 && S_ISREG(status.st_mode)) {
            return true;
        }
        rest += length + (rest[length] == ':');
    }
    return false;
}

/* execvp() says EACCES of a command that is nowhere when PATH has a folder that must not be looked into. */
int execute(const char *const *argv)
{
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    int reason = errno;
    return reason == EACCES && !strchr(argv[0], '/') && !is_in_path(argv[0]) ? ENOENT : reason;
}
