/* memory_acl.h - access lists of the in-process store: world, auth, digest. */
#ifndef ZKL_STORE_MEMORY_ACL_H
#define ZKL_STORE_MEMORY_ACL_H

#include "heap.h"

/* "user:base64(sha1(user:password))" from "user:password", as the digest scheme has it; NULL: no
 * memory. */
char *zkl__memory_identity(const zkl_heap *heap, const void *auth, size_t size);

/* Whether a server takes it from a session with this identity (NULL: none): not empty, known
 * schemes only. */
bool zkl__memory_acl_valid(const zkl_acl *acl, const char *identity);

/* One block of memory. With an identity, entries of scheme "auth" become it, as they do in a znode.
 * NULL: no memory. */
zkl_acl *zkl__memory_acl_copy(const zkl_heap *heap, const zkl_acl *acl, const char *identity);

/* What a session may say it is; NULL: none. */
struct zkl__memory_ids {
    const char *auth; /* by its credentials: what entries of scheme "auth" mean */
    const char *seal;
};

/* Whether any entry gives perm to one of ids. acl NULL: open to all. */
bool zkl__memory_acl_permits(const zkl_acl *acl, const struct zkl__memory_ids *ids, int perm);

#endif
