/* zklock/error.h - results: one code per thing that can go wrong, by name. */
#ifndef ZKLOCK_ERROR_H
#define ZKLOCK_ERROR_H

#include <zklock/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What to do about a code. */
typedef enum zkl_class {
    ZKL_CLASS_OK,     /* nothing */
    ZKL_CLASS_RETRY,  /* the same call may succeed later */
    ZKL_CLASS_LOST,   /* protection ended: what ran under the lock was not (wholly) covered */
    ZKL_CLASS_CALLER, /* the call was wrong: fix the program or its input */
    ZKL_CLASS_FATAL   /* this session or process cannot go on with it */
} zkl_class;

/* X(name, value, class, text): the one table; enum, names and texts are made from it. */
#define ZKL_ERRORS(X)                                                                       \
    X(ZKL_OK, 0, ZKL_CLASS_OK, "success")                                                   \
    X(ZKL_ETIMEOUT, -1, ZKL_CLASS_RETRY, "not granted within the time given")               \
    X(ZKL_EBUSY, -2, ZKL_CLASS_RETRY, "somebody else is before us")                         \
    X(ZKL_ECANCELED, -3, ZKL_CLASS_RETRY, "cancelled")                                      \
    X(ZKL_ELOST, -4, ZKL_CLASS_LOST, "the lock or its session was lost")                    \
    X(ZKL_EDEADLK, -5, ZKL_CLASS_CALLER, "this object already waits for or holds the lock") \
    X(ZKL_ENOTHELD, -6, ZKL_CLASS_CALLER, "the lock is not held")                           \
    X(ZKL_ENOTWAITING, -7, ZKL_CLASS_CALLER, "nothing is waiting")                          \
    X(ZKL_ECONNECT, -8, ZKL_CLASS_RETRY, "no server reached")                               \
    X(ZKL_EAUTH, -9, ZKL_CLASS_FATAL, "authentication or access control refused it")        \
    X(ZKL_ENOENT, -10, ZKL_CLASS_CALLER,                                                    \
      "the chroot of the connect string, or the path, does not exist")                      \
    X(ZKL_ECONFLICT, -11, ZKL_CLASS_CALLER, "the path is used as something else")           \
    X(ZKL_EEXHAUSTED, -12, ZKL_CLASS_FATAL, "the sequence numbers of the path are used up") \
    X(ZKL_ELIMIT, -13, ZKL_CLASS_RETRY, "a limit of the client or the server is reached")   \
    X(ZKL_EFORKED, -14, ZKL_CLASS_FATAL, "the session belongs to the parent process")       \
    X(ZKL_EINVAL, -15, ZKL_CLASS_CALLER, "invalid argument")                                \
    X(ZKL_ENOMEM, -16, ZKL_CLASS_RETRY, "out of memory")                                    \
    X(ZKL_ECLOSED, -17, ZKL_CLASS_CALLER, "the session is closed")                          \
    X(ZKL_EUNSUPPORTED, -18, ZKL_CLASS_FATAL,                                               \
      "not supported by this build, client library or server")

/* clang-format off */
enum zkl_result {
#define ZKL_ERRORS_ENUM(name, value, class, text) name = (value),
    ZKL_ERRORS(ZKL_ERRORS_ENUM)
#undef ZKL_ERRORS_ENUM
    ZKL_RESULT_END = 1 /* no result; keeps the list open at its end */
};
/* clang-format on */

#define ZKL_ERROR_TEXT_MAX 256
#define ZKL_ERROR_PATH_MAX 1025

/* What went wrong, for a person. The caller's own struct: calls fill it on failure and leave it
 * alone on success. A NULL zkl_error * is fine everywhere. No part of it is ever a secret. */
typedef struct zkl_error {
    int code;    /* ZKL_E... */
    int zk_code; /* ZooKeeper's own code (Z... of zookeeper.h), 0 when ZooKeeper reported none */
    char path[ZKL_ERROR_PATH_MAX]; /* the znode concerned; empty when none is */
    char text[ZKL_ERROR_TEXT_MAX]; /* one line: what, and what to do about it */
    long long reserved[2];         /* zero */
} zkl_error;

/* Text of a code ("not granted within the time given"). Never NULL; static. Any thread. */
ZKL_API const char *zkl_strerror(int code);
/* Name of a code ("ZKL_ETIMEOUT"); "ZKL_?" for a number that is none. Static. Any thread. */
ZKL_API const char *zkl_error_name(int code);
/* Class of a code; ZKL_CLASS_FATAL for a number that is none. Any thread. */
ZKL_API zkl_class zkl_error_class(int code);

#ifdef __cplusplus
}
#endif
#endif
