#include "seal.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* Everybody may do what may be done to an open znode but write it; who deletes it is the
 * directory's affair. Nobody may change this list, for to administer is to write. */
static void make_list(struct zkl__seal *seal)
{
    seal->entries[0] =
        (zkl_acl_entry){ZKL_PERM_READ | ZKL_PERM_CREATE | ZKL_PERM_DELETE, "world", "anyone"};
    seal->entries[1] = (zkl_acl_entry){ZKL_PERM_WRITE, "digest", seal->identity};
    seal->acl = (zkl_acl){2, seal->entries};
}

bool zkl__seal_make(struct zkl__seal *seal, const zkl_session_options *options)
{
    uint8_t secret[ZKL__SEAL_DIGITS / 2];
    if (options->auth_scheme || options->tls || options->sasl || options->acl) {
        return true;
    }
    if (getrandom(secret, sizeof secret, 0) != sizeof secret) {
        return false;
    }
    size_t at = strlen(ZKL__SEAL_USER), room = sizeof seal->credentials;
    memcpy(seal->credentials, ZKL__SEAL_USER, at);
    for (size_t i = 0; i < sizeof secret; i++) {
        at += (size_t)snprintf(seal->credentials + at, room - at, "%02x", secret[i]);
    }
    explicit_bzero(secret, sizeof secret);
    zkl__digest_identity(seal->identity, seal->credentials, strlen(seal->credentials));
    make_list(seal);
    seal->on = true;
    return true;
}

void zkl__seal_wipe(struct zkl__seal *seal)
{
    explicit_bzero(seal->credentials, sizeof seal->credentials);
}
