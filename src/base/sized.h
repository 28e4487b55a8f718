/* sized.h - structs of the caller's that begin with their size, so that a program and a library of
 * different releases understand each other. docs/packaging.md has the rule for who adds a member.
 */
#ifndef ZKL_BASE_SIZED_H
#define ZKL_BASE_SIZED_H

#include <zklock/error.h>

#include <stddef.h>

/* What the library knows of such a struct. Its first member is `size_t size`. */
struct zkl__sized {
    const char *name;     /* "zkl_lock_options" */
    const char *init;     /* "ZKL_LOCK_OPTIONS_INIT" */
    size_t first, size;   /* of the first release that had it; of this one */
    const void *defaults; /* what init sets */
};

#define ZKL__END_OF(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))

/* Defines a struct zkl__sized. first: the last member that the first release had; last: the last of
 * all. A struct that ended in padding could grow without its size telling. */
#define ZKL__SIZED(variable, type, init, first, last)                                  \
    _Static_assert(sizeof(type) == ZKL__END_OF(type, last),                            \
                   #type " ends with padding, not with " #last);                       \
    static const type variable##_defaults = init;                                      \
    static const struct zkl__sized variable = {#type, #init, ZKL__END_OF(type, first), \
                                               sizeof(type), &variable##_defaults}

/* Options into own: those that given has, which may be of an older program (shorter: it lacks the
 * last ones) or of a newer one (longer: what this library does not know must be zero), and the
 * defaults for the others. given NULL: defaults. ZKL_OK, or ZKL_EINVAL with the struct, the sizes
 * and the remedy in err. */
int zkl__sized_take(void *own, const void *given, const struct zkl__sized *kind, zkl_error *err);

/* An answer into the caller's struct, as much as it has room for; what it has beyond is zeroed.
 * ZKL_OK, ZKL_EINVAL. */
int zkl__sized_give(void *caller, const void *own, const struct zkl__sized *kind, zkl_error *err);

#endif
