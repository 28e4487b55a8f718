#include "sized.h"

#include "error.h"

#include <zklock/version.h>

#include <stdbool.h>
#include <string.h>

#define MOST                                                                                       \
    4096 /* more than any release will ever have: the size was not set, and nothing of that length \
            can be read */

static int check(size_t size, const struct zkl__sized *kind, zkl_error *err)
{
    /* Each member behind the first release's is as long as a pointer, or several of that: so a size
     * between two of these ends inside a member, and no release had it. */
    bool whole = (size - kind->first) % sizeof(void *) == 0;
    if (size >= kind->first && size <= MOST && whole) {
        return ZKL_OK;
    }
    return zkl__fail(err, ZKL_EINVAL, 0, NULL,
                     "%s.size is %zu, and %zu in libzklock %s: start from %s", kind->name, size,
                     kind->size, ZKL_VERSION, kind->init);
}

int zkl__sized_take(void *own, const void *given, const struct zkl__sized *kind, zkl_error *err)
{
    size_t size = given ? *(const size_t *)given : kind->size;
    int rc = check(size, kind, err);
    for (size_t i = kind->size; rc == ZKL_OK && given && i < size; i++) {
        if (((const unsigned char *)given)[i] != 0) {
            rc = zkl__fail(err, ZKL_EINVAL, 0, NULL,
                           "%s of %zu bytes sets an option that libzklock %s, with %zu, does not "
                           "have: leave it out, or "
                           "install the libzklock that the program was built with",
                           kind->name, size, ZKL_VERSION, kind->size);
        }
    }
    if (rc == ZKL_OK) {
        memcpy(own, kind->defaults, kind->size);
        if (given) {
            memcpy(own, given, size < kind->size ? size : kind->size);
        }
        *(size_t *)own = kind->size;
    }
    return rc;
}

int zkl__sized_give(void *caller, const void *own, const struct zkl__sized *kind, zkl_error *err)
{
    size_t size = *(const size_t *)caller;
    int rc = check(size, kind, err);
    if (rc == ZKL_OK) {
        memset(caller, 0, size);
        memcpy(caller, own, size < kind->size ? size : kind->size);
        *(size_t *)caller = size;
    }
    return rc;
}
