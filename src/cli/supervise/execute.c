#include "supervise/execute.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int check_file(const char *file)
{
    struct stat status;
    if (stat(file, &status) != 0) {
        return errno;
    }
    return !S_ISREG(status.st_mode) ? EACCES : access(file, X_OK) == 0 ? 0 : errno;
}

static bool is_file(const char *file)
{
    struct stat status;
    return stat(file, &status) == 0 && S_ISREG(status.st_mode);
}

/* ENOENT when it is in no folder of PATH that may be looked into. */
static int check_in_path(const char *name)
{
    const char *rest = getenv("PATH");
    int reason = ENOENT;
    while (reason != 0 && rest && *rest) {
        char file[PATH_MAX];
        size_t length = strcspn(rest, ":");
        int written =
            snprintf(file, sizeof file, "%.*s%s%s", (int)length, rest, length > 0 ? "/" : "", name);
        if (written > 0 && (size_t)written < sizeof file && is_file(file)) {
            reason = check_file(file);
        }
        rest += length + (rest[length] == ':');
    }
    return reason;
}

int execute_check(const char *name)
{
    return strchr(name, '/') ? check_file(name) : check_in_path(name);
}

/* execvp() says EACCES of a command that is nowhere when PATH has a folder that must not be looked
 * into. */
int execute(const char *const *argv)
{
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    int reason = errno;
    bool nowhere = reason == EACCES && !strchr(argv[0], '/') && check_in_path(argv[0]) == ENOENT;
    return nowhere ? ENOENT : reason;
}
