/* jute.h - ZooKeeper's bytes: big-endian numbers, strings and buffers with their length before them. */
#ifndef ZKL_SHELL_JUTE_H
#define ZKL_SHELL_JUTE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is read: text of it is used where it lies, so a frame has one more byte at its end. */
struct jute_in {
    char *at, *end;
    bool bad;
};

static inline uint64_t jute_get(struct jute_in *in, size_t size)
{
    uint64_t value = 0;
    if (in->bad || (size_t)(in->end - in->at) < size) {
        in->bad = true;
        return 0;
    }
    for (size_t i = 0; i < size; i++) {
        value = value << 8 | (uint8_t)*in->at++;
    }
    return value;
}

static inline int32_t jute_int(struct jute_in *in)
{
    return (int32_t)(uint32_t)jute_get(in, 4);
}
static inline int64_t jute_long(struct jute_in *in)
{
    return (int64_t)jute_get(in, 8);
}
static inline bool jute_bool(struct jute_in *in)
{
    return jute_get(in, 1) != 0;
}

/* Bytes with their length before them. */
static inline const char *jute_bytes(struct jute_in *in, size_t *size)
{
    int32_t length = jute_int(in);
    const char *bytes = in->at;
    *size = length > 0 ? (size_t)length : 0;
    if (in->bad || (size_t)(in->end - in->at) < *size) {
        in->bad = true;
        *size = 0;
    }
    in->at += *size;
    return bytes;
}

/* A copy, to be freed. */
static inline char *jute_text(struct jute_in *in)
{
    size_t size;
    const char *bytes = jute_bytes(in, &size);
    return strndup(bytes, size);
}

struct jute_out {
    char *bytes;
    size_t used, size;
};

static inline void jute_put(struct jute_out *out, const void *bytes, size_t size)
{
    if (out->used + size > out->size) {
        out->size = 2 * (out->used + size);
        out->bytes = realloc(out->bytes, out->size);
        if (!out->bytes) {
            abort();
        }
    }
    if (size > 0) {
        memcpy(out->bytes + out->used, bytes, size);
    }
    out->used += size;
}

static inline void jute_put_number(struct jute_out *out, uint64_t value, size_t size)
{
    char bytes[8];
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (char)(uint8_t)(value >> (8 * (size - 1 - i)));
    }
    jute_put(out, bytes, size);
}

static inline void jute_put_int(struct jute_out *out, int32_t value)
{
    jute_put_number(out, (uint32_t)value, 4);
}
static inline void jute_put_long(struct jute_out *out, int64_t value)
{
    jute_put_number(out, (uint64_t)value, 8);
}
static inline void jute_put_bytes(struct jute_out *out, const void *bytes, size_t size)
{
    jute_put_int(out, (int32_t)size);
    jute_put(out, bytes, size);
}

/* A frame: its length goes to where it begins when it is whole. */
static inline size_t jute_begin(struct jute_out *out)
{
    jute_put_int(out, 0);
    return out->used;
}
static inline void jute_end(struct jute_out *out, size_t begin)
{
    struct jute_out length = {.bytes = out->bytes + begin - 4, .size = 4};
    jute_put_int(&length, (int32_t)(out->used - begin));
}

#endif
