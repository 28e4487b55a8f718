/* zklock/version.h - the version, at compile time and at run time. */
#ifndef ZKLOCK_VERSION_H
#define ZKLOCK_VERSION_H

#include <zklock/export.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZKL_VERSION_MAJOR 1
#define ZKL_VERSION_MINOR 0
#define ZKL_VERSION_PATCH 0
#define ZKL_VERSION "1.0.0"

/* Version of the library that is linked, in the form of ZKL_VERSION. Static. */
ZKL_API const char *zkl_version(void);

#ifdef __cplusplus
}
#endif
#endif
