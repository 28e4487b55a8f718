/* seal.h - an identity that is this session's own and nobody else's, and the access list with which
 * only it may write a znode. */
#ifndef ZKL_SESSION_SEAL_H
#define ZKL_SESSION_SEAL_H

#include "digest.h"

#include <zklock/session.h>

#define ZKL__SEAL_USER "zklock:" /* what audit logs of the servers show */
#define ZKL__SEAL_DIGITS 32      /* hexadecimal: 128 random bits */

struct zkl__seal {
    bool on;
    char credentials[sizeof ZKL__SEAL_USER + ZKL__SEAL_DIGITS]; /* of the digest scheme */
    char identity[sizeof ZKL__SEAL_USER + ZKL__SEAL_DIGITS + ZKL__DIGEST_ROOM];
    zkl_acl_entry entries[2];
    zkl_acl acl; /* points into it: not to be moved */
};

/* Off where the user says who may do what: with credentials, a transport that brings them, or an
 * access list of his. False: the kernel has no random bytes. */
bool zkl__seal_make(struct zkl__seal *seal, const zkl_session_options *options);
void zkl__seal_wipe(struct zkl__seal *seal);

#endif
