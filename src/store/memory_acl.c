#include "memory_acl.h"

#include "digest.h"

#include <string.h>

char *zkl__memory_identity(const zkl_heap *heap, const void *auth, size_t size)
{
    char *identity = zkl__alloc(heap, size + ZKL__DIGEST_ROOM);
    if (identity) {
        zkl__digest_identity(identity, auth, size);
    }
    return identity;
}

static bool is_world(const zkl_acl_entry *entry)
{
    return strcmp(entry->scheme, "world") == 0 && strcmp(entry->id, "anyone") == 0;
}

/* "user:hash", as DigestAuthenticationProvider.isValid has it: two pieces when split at colons,
 * empty ones at the end not counted. */
static bool is_digest_id(const char *id)
{
    size_t length = strlen(id), colons = 0;
    while (length > 0 && id[length - 1] == ':') {
        length--;
    }
    for (size_t i = 0; i < length; i++) {
        colons += id[i] == ':';
    }
    return colons == 1;
}

static bool entry_valid(const zkl_acl_entry *entry, const char *identity)
{
    if (!entry->scheme || !entry->id) {
        return false;
    }
    if (strcmp(entry->scheme, "digest") == 0) {
        return is_digest_id(entry->id);
    }
    return is_world(entry) || (strcmp(entry->scheme, "auth") == 0 && identity);
}

bool zkl__memory_acl_valid(const zkl_acl *acl, const char *identity)
{
    for (size_t i = 0; i < acl->count; i++) {
        if (!entry_valid(&acl->entries[i], identity)) {
            return false;
        }
    }
    return acl->count > 0;
}

/* The entry as it is stored. */
static zkl_acl_entry resolve(const zkl_acl_entry *entry, const char *identity)
{
    zkl_acl_entry out = {entry->perms, entry->scheme ? entry->scheme : "",
                         entry->id ? entry->id : ""};
    if (identity && strcmp(out.scheme, "auth") == 0) {
        out.scheme = "digest";
        out.id = identity;
    }
    return out;
}

static const char *put(char **room, const char *text)
{
    size_t size = strlen(text) + 1;
    char *at = memcpy(*room, text, size);
    *room += size;
    return at;
}

zkl_acl *zkl__memory_acl_copy(const zkl_heap *heap, const zkl_acl *acl, const char *identity)
{
    size_t size = sizeof(zkl_acl) + acl->count * sizeof(zkl_acl_entry);
    for (size_t i = 0; i < acl->count; i++) {
        zkl_acl_entry entry = resolve(&acl->entries[i], identity);
        size += strlen(entry.scheme) + strlen(entry.id) + 2;
    }
    zkl_acl *copy = zkl__zalloc(heap, size);
    if (!copy) {
        return NULL;
    }
    zkl_acl_entry *entries = (zkl_acl_entry *)(copy + 1);
    char *room = (char *)(entries + acl->count);
    for (size_t i = 0; i < acl->count; i++) {
        zkl_acl_entry entry = resolve(&acl->entries[i], identity);
        entries[i].perms = entry.perms;
        entries[i].scheme = put(&room, entry.scheme);
        entries[i].id = put(&room, entry.id);
    }
    copy->count = acl->count;
    copy->entries = entries;
    return copy;
}

static bool names(const zkl_acl_entry *entry, const char *identity)
{
    return identity && strcmp(entry->scheme, "digest") == 0 && strcmp(entry->id, identity) == 0;
}

bool zkl__memory_acl_permits(const zkl_acl *acl, const struct zkl__memory_ids *ids, int perm)
{
    if (!acl) {
        return true;
    }
    for (size_t i = 0; i < acl->count; i++) {
        const zkl_acl_entry *entry = &acl->entries[i];
        if ((entry->perms & perm) != 0 &&
            (is_world(entry) || names(entry, ids->auth) || names(entry, ids->seal))) {
            return true;
        }
    }
    return false;
}
