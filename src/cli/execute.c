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

static int check_file(const char *file)
{
    struct stat status;
    if (stat(file, &status) != 0) {
        return errno;
    }
    return !S_ISREG(status.st_mode) ? EACCES : access(file, X_OK) == 0 ? 0 : errno;
}

int execute_check(const char *name)
{
    const char *rest = getenv("PATH");
    int reason = strchr(name, '/') ? check_file(name) : ENOENT;
    while (*name && !strchr(name, '/') && reason != 0 && rest && *rest) {
        char file[PATH_MAX];
        size_t length = strcspn(rest, ":");
        int written = snprintf(file, sizeof file, "%.*s%s%s", (int)length, rest, length > 0 ? "/" : "", name);
        int found = written > 0 && (size_t)written < sizeof file ? check_file(file) : ENAMETOOLONG;
        reason = found == 0 || found == EACCES ? found : reason;
        rest += length + (rest[length] == ':');
    }
    return reason;
}

/* execvp() says EACCES of a command that is nowhere when PATH has a folder that must not be looked into. */
int execute(const char *const *argv)
{
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    int reason = errno;
    return reason == EACCES && !strchr(argv[0], '/') && !is_in_path(argv[0]) ? ENOENT : reason;
}
