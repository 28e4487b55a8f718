/* zklock/export.h - which symbols the shared library shows. */
#ifndef ZKLOCK_EXPORT_H
#define ZKLOCK_EXPORT_H

#if defined(__GNUC__)
#define ZKL_API __attribute__((visibility("default")))
#else
#define ZKL_API
#endif

#endif
