/* options.h - what callers give: structs that begin with their size, and the options of a session.
 */
#ifndef ZKL_BASE_OPTIONS_H
#define ZKL_BASE_OPTIONS_H

#include <zklock/session.h>

/* === structs with a size ====================================================================== */

/* Structs of the caller's that begin with their size, so that a program and a library of
 * different releases understand each other. docs/packaging.md has the rule for who adds a member.
 */

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

/* === the options of a session ================================================================= */

/* The options of a session: checks, and a copy. */

#define ZKL__DAY_MS INT64_C(86400000)

/* ZKL_OK, or ZKL_EINVAL with the name, the value and the range in err. */
int zkl__range_check(const char *name, int64_t value, int64_t least, int64_t most, zkl_error *err);
/* The timeout of a call: ZKL_WAIT_FOREVER (-1) or more. */
int zkl__timeout_check(int64_t timeout_ms, zkl_error *err);
int zkl__options_check(const zkl_session_options *options, zkl_error *err);

/* Everything zkl_session_open was given, owned. */
struct zkl__settings {
    zkl_session_options options; /* its strings and lists are copies */
    const char *servers;
};

/* False: no memory; free it nevertheless. */
bool zkl__settings_copy(struct zkl__settings *settings, const zkl_heap *heap, const char *servers,
                        const zkl_session_options *options);
/* The credentials, and tls, which may have a password: nobody reads them any more. */
void zkl__settings_wipe(const struct zkl__settings *settings);
void zkl__settings_free(struct zkl__settings *settings,
                        const zkl_heap *heap); /* wipes the credentials */

#endif
