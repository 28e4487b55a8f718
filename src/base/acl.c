#include "acl.h"

#include <string.h>

/* === access lists ============================================================================= */

#define ENTRIES_MAX 100

int zkl__acl_check(const zkl_acl *acl, zkl_error *err)
{
    if (!acl) {
        return ZKL_OK;
    }
    if (acl->count < 1 || acl->count > ENTRIES_MAX || !acl->entries) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL, "acl has %zu entries; 1 to %d are possible",
                            acl->count, ENTRIES_MAX);
    }
    for (size_t i = 0; i < acl->count; i++) {
        const zkl_acl_entry *entry = &acl->entries[i];
        if (!entry->scheme || !entry->id || !entry->scheme[0]) {
            return zkl__fail_at(err, ZKL_EINVAL, NULL, "acl entry %zu has no scheme or no id", i);
        }
        if (entry->perms < 1 || entry->perms > ZKL_PERM_ALL) {
            return zkl__fail_at(err, ZKL_EINVAL, NULL,
                                "acl entry %zu has permissions %d; 1 to %d are possible", i,
                                entry->perms, ZKL_PERM_ALL);
        }
    }
    return ZKL_OK;
}

bool zkl__acl_same(const zkl_acl *one, const zkl_acl *other)
{
    if (!one || !other || one->count != other->count) {
        return one == other;
    }
    for (size_t i = 0; i < one->count; i++) {
        const zkl_acl_entry *a = &one->entries[i], *b = &other->entries[i];
        if (a->perms != b->perms || strcmp(a->scheme, b->scheme) != 0 ||
            strcmp(a->id, b->id) != 0) {
            return false;
        }
    }
    return true;
}

size_t zkl__acl_size(const zkl_acl *acl)
{
    size_t size = sizeof *acl + acl->count * sizeof *acl->entries;
    for (size_t i = 0; i < acl->count; i++) {
        size += strlen(acl->entries[i].scheme) + strlen(acl->entries[i].id) + 2;
    }
    return (size + sizeof(void *) - 1) / sizeof(void *) * sizeof(void *);
}

zkl_acl *zkl__acl_put(void *block, const zkl_acl *acl)
{
    zkl_acl *copy = block;
    zkl_acl_entry *entries = (zkl_acl_entry *)(copy + 1);
    char *end = (char *)(entries + acl->count);
    for (size_t i = 0; i < acl->count; i++) {
        entries[i].perms = acl->entries[i].perms;
        entries[i].scheme = zkl__text_put(&end, acl->entries[i].scheme);
        entries[i].id = zkl__text_put(&end, acl->entries[i].id);
    }
    *copy = (zkl_acl){.count = acl->count, .entries = entries};
    return copy;
}

zkl_acl *zkl__acl_copy(const zkl_heap *heap, const zkl_acl *acl)
{
    void *block = zkl__alloc(heap, zkl__acl_size(acl));
    return block ? zkl__acl_put(block, acl) : NULL;
}

/* === identities =============================================================================== */

static uint32_t rotate(uint32_t value, int by)
{
    return value << by | value >> (32 - by);
}

static void sha1_block(uint32_t state[5], const uint8_t block[64])
{
    uint32_t w[80] = {0};
    for (size_t i = 0; i < 16; i++) {
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
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
    explicit_bzero(w, sizeof w); /* a password is in it */
}

void zkl__digest_identity(char *out, const void *credentials, size_t size)
{
    const char *colon = size > 0 ? memchr(credentials, ':', size) : NULL;
    size_t user = colon ? (size_t)(colon - (const char *)credentials) : size;
    if (user > 0) {
        memcpy(out, credentials, user);
    }
    out += user;
    *out++ = ':';
    /* SHA-1 */
    const uint8_t *data = credentials;
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
    explicit_bzero(tail, sizeof tail);
    /* base64: 20 bytes are 28 characters, the padding one included */
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t digest[21] = {0};
    for (size_t i = 0; i < 20; i++) {
        digest[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
    }
    for (size_t i = 0; i < 7; i++) {
        uint32_t group =
            (uint32_t)digest[3 * i] << 16 | (uint32_t)digest[3 * i + 1] << 8 | digest[3 * i + 2];
        for (size_t k = 0; k < 4; k++) {
            out[4 * i + k] = digits[group >> (18 - 6 * k) & 63];
        }
    }
    out[27] = '=';
    out[28] = '\0';
}
