#include "memory_acl.h"

#include <string.h>

enum { SHA1_BYTES = 20, BASE64_CHARS = 28 }; /* 20 bytes are 28 characters, the padding one included */

static uint32_t rotate(uint32_t value, int by)
{
    return value << by | value >> (32 - by);
}

static void sha1_block(uint32_t state[5], const uint8_t block[64])
{
    uint32_t w[80] = {0};
    for (size_t i = 0; i < 16; i++) {
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    }
    for (size_t i = 16; i < 80; i++) {
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    for (int i = 0; i < 80; i++) {
        uint32_t mix = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                       : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                       : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                                : (b ^ c ^ d) + 0xca62c1d6;
        uint32_t next = rotate(a, 5) + mix + e + w[i];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    const uint32_t add[5] = {a, b, c, d, e};
    for (int i = 0; i < 5; i++) {
        state[i] += add[i];
    }
}

static void sha1(uint8_t out[SHA1_BYTES], const uint8_t *data, size_t size)
{
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    size_t left = size;
    for (; left >= 64; left -= 64, data += 64) {
        sha1_block(state, data);
    }
    uint8_t tail[128] = {0};
    size_t blocks = left < 56 ? 1 : 2;
    if (left > 0) {
        memcpy(tail, data, left);
    }
    tail[left] = 0x80;
    for (size_t i = 0; i < 8; i++) {
        tail[64 * blocks - 1 - i] = (uint8_t)((uint64_t)size * 8 >> (8 * i));
    }
    for (size_t i = 0; i < blocks; i++) {
        sha1_block(state, tail + 64 * i);
    }
    for (size_t i = 0; i < SHA1_BYTES; i++) {
        out[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
    }
}

static void base64(char out[BASE64_CHARS + 1], const uint8_t digest[SHA1_BYTES])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t padded[21] = {0};
    memcpy(padded, digest, SHA1_BYTES);
    for (size_t i = 0; i < 7; i++) {
        uint32_t group = (uint32_t)padded[3 * i] << 16 | (uint32_t)padded[3 * i + 1] << 8 | padded[3 * i + 2];
        for (size_t k = 0; k < 4; k++) {
            out[4 * i + k] = digits[group >> (18 - 6 * k) & 63];
        }
    }
    out[BASE64_CHARS - 1] = '=';
    out[BASE64_CHARS] = '\0';
}

char *zkl__memory_identity(const zkl_heap *heap, const void *auth, size_t size)
{
    const char *colon = size > 0 ? memchr(auth, ':', size) : NULL;
    size_t user = colon ? (size_t)(colon - (const char *)auth) : size;
    char *identity = zkl__zalloc(heap, user + 1 + BASE64_CHARS + 1);
    if (identity) {
        uint8_t digest[SHA1_BYTES];
        sha1(digest, auth, size);
        if (user > 0) {
            memcpy(identity, auth, user);
        }
        identity[user] = ':';
        base64(identity + user + 1, digest);
    }
    return identity;
}

static bool is_world(const zkl_acl_entry *entry)
{
    return strcmp(entry->scheme, "world") == 0 && strcmp(entry->id, "anyone") == 0;
}

/* "user:hash", as DigestAuthenticationProvider.isValid has it: two pieces when split at colons, empty ones at the end not counted. */
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
    zkl_acl_entry out = {entry->perms, entry->scheme ? entry->scheme : "", entry->id ? entry->id : ""};
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

bool zkl__memory_acl_permits(const zkl_acl *acl, const char *identity, int perm)
{
    if (!acl) {
        return true;
    }
    for (size_t i = 0; i < acl->count; i++) {
        const zkl_acl_entry *entry = &acl->entries[i];
        bool named = identity && strcmp(entry->scheme, "digest") == 0 && strcmp(entry->id, identity) == 0;
        if ((entry->perms & perm) != 0 && (named || is_world(entry))) {
            return true;
        }
    }
    return false;
}
