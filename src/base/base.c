#include "base.h"

#include <zklock/version.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* === memory =================================================================================== */

void *zkl__zalloc(const zkl_heap *heap, size_t size)
{
    void *ptr = zkl__alloc(heap, size);
    if (ptr) {
        memset(ptr, 0, size);
    }
    return ptr;
}

char *zkl__copy(const zkl_heap *heap, const void *data, size_t size)
{
    char *copy = zkl__alloc(heap, size + 1);
    if (copy) {
        if (size > 0) {
            memcpy(copy, data, size);
        }
        copy[size] = '\0';
    }
    return copy;
}

char *zkl__copy_text(const zkl_heap *heap, const char *text)
{
    return zkl__copy(heap, text, strlen(text));
}

const char *zkl__text_put(char **end, const char *text)
{
    char *here = *end;
    size_t size = strlen(text) + 1;
    memcpy(here, text, size);
    *end += size;
    return here;
}

/* === errors =================================================================================== */

static const struct row {
    int code;
    zkl_class class;
    const char *name;
    const char *text;
} table[] = {
#define ROW(name, value, class, text) {name, class, #name, text},
    ZKL_ERRORS(ROW)
#undef ROW
        {0, ZKL_CLASS_FATAL, "ZKL_?", "unknown result"}, /* the last: of any other code */
};

static const struct row *row_of(int code)
{
    const struct row *last = table + sizeof table / sizeof *table - 1, *row = table;
    while (row < last && row->code != code) {
        row++;
    }
    return row;
}

const char *zkl_strerror(int code)
{
    return row_of(code)->text;
}

const char *zkl_error_name(int code)
{
    return row_of(code)->name;
}

zkl_class zkl_error_class(int code)
{
    return row_of(code)->class;
}

int(zkl__fail)(zkl_error *err, int code, int zk_code, const char *path, const char *format, ...)
{
    if (err) {
        char text[sizeof err->text];
        va_list args;
        err->code = code;
        err->zk_code = zk_code;
        memset(err->reserved, 0, sizeof err->reserved);
        snprintf(err->path, sizeof err->path, "%s", path ? path : "");
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        zkl__text_escape(err->text, sizeof err->text, text); /* it may name what others named */
    }
    return code;
}

/* === texts ==================================================================================== */

size_t zkl__utf8_decode(const unsigned char *s, uint32_t *out)
{
    if (s[0] < 0x80) {
        *out = s[0];
        return 1;
    }
    size_t length = (s[0] & 0xe0) == 0xc0   ? 2
                    : (s[0] & 0xf0) == 0xe0 ? 3
                    : (s[0] & 0xf8) == 0xf0 ? 4
                                            : 0;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t point = length == 2 ? s[0] & 0x1f : length == 3 ? s[0] & 0x0f : s[0] & 0x07;
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
        point = point << 6 | (s[i] & 0x3f);
    }
    if (length == 0 || point < least[length] || point > 0x10ffff ||
        (point >= 0xd800 && point <= 0xdfff)) {
        return 0;
    }
    *out = point;
    return length;
}

bool zkl__text_copy(char *array, size_t size, const char *text)
{
    size_t length = strnlen(text, size);
    bool fits = length < size;
    length = fits ? length : 0;
    memcpy(array, text, length);
    array[length] = '\0';
    return fits;
}

int zkl__text_check(const char *name, const char *text, zkl_error *err)
{
    size_t length = strnlen(text, ZKL_DATA_MAX + 1);
    if (length > ZKL_DATA_MAX) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL, "%s: longer than %d bytes", name, ZKL_DATA_MAX);
    }
    if (strcmp(text, ZKL__REVOKE) == 0) {
        return zkl__fail_at(
            err, ZKL_EINVAL, NULL,
            "%s: \"" ZKL__REVOKE "\" asks the holder to give way, in Curator's protocol", name);
    }
    const unsigned char *s = (const unsigned char *)text;
    while (*s) {
        uint32_t point;
        size_t step = zkl__utf8_decode(s, &point);
        if (step == 0) {
            return zkl__fail_at(err, ZKL_EINVAL, NULL, "%s: byte %zu is not valid UTF-8", name,
                                (size_t)(s - (const unsigned char *)text));
        }
        s += step;
    }
    return ZKL_OK;
}

/* Control characters of seven and eight bits, line separators, and characters that change the
 * direction of the text behind them. */
static bool moves_the_terminal(uint32_t point)
{
    return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x61c || point == 0x200e ||
           point == 0x200f || (point >= 0x2028 && point <= 0x202e) ||
           (point >= 0x2066 && point <= 0x2069);
}

void zkl__text_escape(char *out, size_t size, const char *text)
{
    size_t at = 0;
    const unsigned char *in = (const unsigned char *)text;
    while (*in) {
        uint32_t point;
        size_t length = zkl__utf8_decode(in, &point);
        bool plain = length > 0 && !moves_the_terminal(point);
        length += length == 0;
        if (at + (plain ? length : 4 * length) >= size) {
            break;
        }
        for (size_t i = 0; i < length; i++) {
            at += (size_t)snprintf(out + at, size - at, plain ? "%c" : "\\x%02x", in[i]);
        }
        in += length;
    }
    out[at] = '\0';
}

/* === time slots =============================================================================== */

/* A server may say anything: a time that far away is in no slot of ours, but must not overflow. */
#define MOST_MS (INT64_MAX / 4)

int64_t zkl__slot_of(int64_t time_ms, int64_t length_ms, int64_t phase_ms)
{
    time_ms = time_ms > MOST_MS ? MOST_MS : time_ms < -MOST_MS ? -MOST_MS : time_ms;
    int64_t since = time_ms - phase_ms + length_ms / 2;
    int64_t number = since > 0 ? since / length_ms : 0; /* a record cannot be negative */
    return number * length_ms + phase_ms;
}

int64_t zkl__decimal_parse(const void *data, size_t size)
{
    const char *text = data;
    int64_t value = 0;
    if (size > 18) {
        return -1;
    }
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return -1;
        }
        value = value * 10 + (text[i] - '0');
    }
    return value;
}

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

/* === the version ============================================================================== */

const char *zkl_version(void)
{
    return ZKL_VERSION;
}
