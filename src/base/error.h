/* error.h - filling a zkl_error. */
#ifndef ZKL_BASE_ERROR_H
#define ZKL_BASE_ERROR_H

#include <zklock/error.h>

/* Fills err (may be NULL) and returns code, so that a failing branch is one line. path may be NULL.
 */
int zkl__fail(zkl_error *err, int code, int zk_code, const char *path, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

static inline int zkl__fail_code(int done, int code)
{
    (void)done;
    return code;
}

/* The same; an analyzer that does not look into the function sees what it returns. */
#define zkl__fail(err, code, ...) zkl__fail_code(zkl__fail(err, code, __VA_ARGS__), code)

/* First of all in whatever makes something: who cleans up after a failure frees what out says, and
 * NULL is fine everywhere. */
#define ZKL__CLEAR(out) ((out) ? (void)(*(out) = NULL) : (void)0)

#endif
