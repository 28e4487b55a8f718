/* acl.h - access lists, and the identities in them. */
#ifndef ZKL_BASE_ACL_H
#define ZKL_BASE_ACL_H

#include "base.h"

/* === access lists ============================================================================= */

/* Copies of access lists. */

/* ZKL_OK, or ZKL_EINVAL with words in err: entries, each with permissions, scheme and id. NULL is
 * fine. */
int zkl__acl_check(const zkl_acl *acl, zkl_error *err);
/* NULL is the default. */
bool zkl__acl_same(const zkl_acl *one, const zkl_acl *other);
/* One block: free it with zkl__free. NULL when there is no memory. */
zkl_acl *zkl__acl_copy(const zkl_heap *heap, const zkl_acl *acl);
/* The same in a block of the caller's, aligned as malloc's; how many bytes it takes: whole
 * pointers, so that another copy may follow. */
size_t zkl__acl_size(const zkl_acl *acl);
zkl_acl *zkl__acl_put(void *block, const zkl_acl *acl);

/* === identities =============================================================================== */

/* The identity that servers make of credentials of the digest scheme. */

#define ZKL__DIGEST_ROOM 30 /* a colon, 28 digits of base64, a NUL */

/* "user:base64(sha1(user:password))" of "user:password"; without a colon all of it is the user.
 * out: size + ZKL__DIGEST_ROOM bytes. */
void zkl__digest_identity(char *out, const void *credentials, size_t size);

#endif
