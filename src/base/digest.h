/* digest.h - the identity that servers make of credentials of the digest scheme. */
#ifndef ZKL_BASE_DIGEST_H
#define ZKL_BASE_DIGEST_H

#include <stddef.h>

#define ZKL__DIGEST_ROOM 30 /* a colon, 28 digits of base64, a NUL */

/* "user:base64(sha1(user:password))" of "user:password"; without a colon all of it is the user.
 * out: size + ZKL__DIGEST_ROOM bytes. */
void zkl__digest_identity(char *out, const void *credentials, size_t size);

#endif
