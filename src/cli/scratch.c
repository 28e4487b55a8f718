#include "scratch.h"

#include <errno.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool make_below(const char *parent, char *path, size_t size)
{
    int length = snprintf(path, size, "%s/zklock-sandbox-XXXXXX", parent);
    if (length < 0 || (size_t)length >= size) {
        errno = ENAMETOOLONG;
        return false;
    }
    return mkdtemp(path) != NULL;
}

bool scratch_make(char *path, size_t size)
{
    const char *wanted = getenv("TMPDIR");
    if (wanted && *wanted) {
        return make_below(wanted, path, size);
    }
    return make_below("/dev/shm", path, size) || make_below("/tmp", path, size);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    remove(path);
    return 0;
}

void scratch_remove(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
