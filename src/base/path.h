/* path.h - znode paths checked before they are sent: stricter than the C client, as strict as the
 * server. */
#ifndef ZKL_BASE_PATH_H
#define ZKL_BASE_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zklock/error.h>

/* ZKL_OK, or ZKL_EINVAL with the reason in err: absolute, no empty, "." or ".." component, no
 * trailing slash, valid UTF-8 without control characters and what the server refuses (U+F000 to
 * U+F8FF, U+FFF0 to U+FFFF, beyond the BMP), at most ZKL_PATH_MAX bytes, not "/", not under
 * /zookeeper, no component that looks like a contender (zkl__name_looks). */
int zkl__path_check(const char *path, zkl_error *err);

/* The form alone, as the C client asks for it and the server too: absolute, no empty, "." or ".."
 * component, no slash at the end, unless a sequence number is to follow. "/" is fine. */
bool zkl__path_form(const char *path, bool sequential);

/* dir and name (may be NULL) as one path into out. Returns its length, or 0 when it does not fit.
 */
size_t zkl__path_join(char *out, size_t size, const char *dir, const char *name);

/* For who makes directories. part: the beginning of a path, of whole components. One component
 * less; false: there is only one. */
bool zkl__path_shorten(char *part);
/* One component of path more; false: it is all of path. */
bool zkl__path_lengthen(char *part, const char *path);

uint32_t zkl__path_hash(const char *path);

#endif
