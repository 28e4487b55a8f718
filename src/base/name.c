#include "name.h"

#include "base.h"

#include <zklock/semaphore.h>

#include <stdio.h>
#include <string.h>

/* === contenders =============================================================================== */

#define DIGITS 10

static const struct tag {
    const char *text;
    zkl_kind kind;
} tags[] = {
    {"-lock-", ZKL_KIND_LOCK},   {"__lock__", ZKL_KIND_KAZOO}, {"__rlock__", ZKL_KIND_KAZOO_READ},
    {"__READ__", ZKL_KIND_READ}, {"__WRIT__", ZKL_KIND_WRITE}, {"-latch-", ZKL_KIND_LATCH},
    {"-lease-", ZKL_KIND_LEASE}, {"lock-", ZKL_KIND_LOCK},     {"latch-", ZKL_KIND_LATCH},
    {"-", ZKL_KIND_FOREIGN}, /* of a library that we do not know; the last, for it fits them all */
};

/* The number at the end: ten digits, or '-' and ten (the server prints an int32 with %010d; below
 * zero that is a sign and at least nine digits more). Returns where it begins, or NULL. */
static const char *number_of(const char *name, size_t length, int64_t *out)
{
    if (length < DIGITS) {
        return NULL;
    }
    const char *digits = name + length - DIGITS;
    int64_t value = 0;
    bool negative = digits[0] == '-'; /* -%09d: a short one has its sign among the ten */
    for (unsigned i = negative; i < DIGITS; i++) {
        unsigned digit = (unsigned char)digits[i] - (unsigned)'0';
        if (digit > 9) {
            return NULL;
        }
        value = value * 10 + digit;
    }
    if (negative) {
        *out = -value;
        return value > 0 ? digits : NULL; /* no server prints a zero with a sign */
    }
    /* eleven characters are a negative number only when it needs ten digits: otherwise the '-'
     * belongs to the tag ("lock-0000000001") */
    if (digits > name && digits[-1] == '-' && value >= 1000000000 &&
        value <= (int64_t)INT32_MAX + 1 && digits - 1 > name &&
        (digits[-2] == '-' || digits[-2] == '_')) {
        *out = -value;
        return digits - 1;
    }
    *out = value;
    return digits;
}

static bool is_uuid(const char *text)
{
    for (int i = 0; i < ZKL__UUID_LENGTH; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        char c = text[i];
        bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
        if (dash ? c != '-' : !hex) {
            return false;
        }
    }
    return true;
}

/* The tag before the number; NULL: it does not look like a contender. */
static const struct tag *tag_of(const char *name, const char *number)
{
    size_t head = (size_t)(number - name);
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        size_t length = strlen(tags[i].text);
        /* the tags without a dash in front are whole names: .NET's and Curator's bare "lock-" */
        bool whole = tags[i].text[0] != '-' && tags[i].text[0] != '_';
        if (head >= length && (!whole || head == length) &&
            memcmp(number - length, tags[i].text, length) == 0) {
            return &tags[i];
        }
    }
    return NULL;
}

bool zkl__name_looks(const char *name, size_t length)
{
    int64_t value;
    const char *number = number_of(name, length, &value);
    return number && tag_of(name, number);
}

struct zkl__name zkl__name_parse(const char *name)
{
    struct zkl__name parsed = {ZKL_KIND_FOREIGN, 0, NULL};
    int64_t value;
    size_t length = strlen(name);
    const char *number = length <= ZKL__NAME_LONGEST ? number_of(name, length, &value) : NULL;
    if (!number || value > INT32_MAX) {
        return parsed;
    }
    parsed.sequence = (int32_t)value;
    const struct tag *tag = tag_of(name, number);
    if (!tag || tag->kind == ZKL_KIND_FOREIGN) {
        return parsed;
    }
    parsed.kind = tag->kind;
    if (number - name > 3 + ZKL__UUID_LENGTH && memcmp(name, "_c_", 3) == 0 && is_uuid(name + 3) &&
        name[3 + ZKL__UUID_LENGTH] == '-') {
        parsed.uuid = name + 3;
    }
    return parsed;
}

bool zkl__name_contends(const char *name)
{
    return zkl__name_parse(name).kind != ZKL_KIND_FOREIGN;
}

int32_t zkl__name_sequence(const char *name)
{
    int64_t value;
    return number_of(name, strlen(name), &value) && value <= INT32_MAX ? (int32_t)value : 0;
}

int zkl__limit_parse(const char *data, size_t size)
{
    if (size > ZKL__LIMIT_LONGEST) {
        return 0; /* whatever it says: a lock at the path goes by the length alone */
    }
    int64_t limit = zkl__decimal_parse(data, size);
    return limit > 0 && limit <= ZKL_PERMITS_MAX ? (int)limit : 0;
}

void zkl__name_prefix(char *out, const char *uuid, const char *tag)
{
    static const size_t tag_at = 3 + ZKL__UUID_LENGTH + 1;
    memcpy(out, "_c_", 3); /* no printf: once for every acquire */
    memcpy(out + 3, uuid, ZKL__UUID_LENGTH);
    out[tag_at - 1] = '-';
    if (!zkl__text_copy(out + tag_at, ZKL__NAME_MAX - tag_at, tag)) {
        out[0] = '\0';
    }
}

void zkl__name_copy(char *out, const char *name)
{
    bool fits = zkl__text_copy(out, ZKL__NAME_MAX, name);
    (void)fits;
}

void zkl__name_with_number(char *out, const char *uuid, const char *tag, int32_t number)
{
    snprintf(out, ZKL__NAME_MAX, "_c_%.*s-%s%010d", ZKL__UUID_LENGTH, uuid, tag, (int)number);
}

void zkl__uuid_format(char *out, const uint8_t bytes[16])
{
    static const char hex[] = "0123456789abcdef";
    uint8_t uuid[16];
    memcpy(uuid, bytes, sizeof uuid);
    uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x40); /* version 4 */
    uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80); /* RFC 4122 */
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) {
            *out++ = '-';
        }
        *out++ = hex[uuid[i] >> 4];
        *out++ = hex[uuid[i] & 0x0f];
    }
    *out = '\0';
}

#define UUID_VERSION 14 /* where the digit stands */
/* A version that RFC 9562 keeps for later. Not 8, "for one's own uses": before 1.0 that said that
 * nobody else may write the znode, and whoever waited behind it took a write for its release. */
#define REFUSES_REQUESTS '9'

void zkl__uuid_refuse_requests(char *uuid)
{
    uuid[UUID_VERSION] = REFUSES_REQUESTS;
}

bool zkl__name_refuses_requests(const char *name)
{
    const char *uuid = zkl__name_parse(name).uuid;
    return uuid && uuid[UUID_VERSION] == REFUSES_REQUESTS;
}

/* === paths ==================================================================================== */

/* What PathUtils.validatePath of the server refuses; it counts UTF-16 units, so nothing beyond the
 * BMP passes. */
static bool refused_in_path(uint32_t point)
{
    return point < 0x20 || (point >= 0x7f && point <= 0x9f) ||
           (point >= 0xd800 && point <= 0xf8ff) || (point >= 0xfff0 && point <= 0xffff) ||
           point > 0xffff;
}

static bool is_component(const char *name, size_t length)
{
    return length > 0 && !(length == 1 && name[0] == '.') &&
           !(length == 2 && name[0] == '.' && name[1] == '.');
}

int zkl__path_check(const char *path, zkl_error *err)
{
    if (!path || path[0] == '\0') {
        return zkl__fail_at(err, ZKL_EINVAL, NULL,
                            "path: missing; give an absolute znode path such as /locks/backup");
    }
    if (path[0] != '/') {
        return zkl__fail_at(err, ZKL_EINVAL, path,
                            "path: must be absolute, that is, begin with '/'");
    }
    size_t length = strnlen(path, ZKL_PATH_MAX + 1);
    if (length > ZKL_PATH_MAX) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL, "path: longer than %d bytes", ZKL_PATH_MAX);
    }
    if (length == 1) {
        return zkl__fail_at(err, ZKL_EINVAL, path, "path: '/' itself cannot be a lock");
    }
    for (size_t at = 0, step; at < length; at += step) {
        uint32_t point;
        step = zkl__utf8_decode((const unsigned char *)path + at, &point);
        if (step == 0) {
            return zkl__fail_at(err, ZKL_EINVAL, path, "path: byte %zu is not valid UTF-8", at);
        }
        if (refused_in_path(point)) {
            return zkl__fail_at(err, ZKL_EINVAL, path,
                                "path: character U+%04X at byte %zu is not allowed in a znode path",
                                (unsigned)point, at);
        }
    }
    for (size_t at = 1, part; at <= length; at += part + 1) {
        const char *name = path + at;
        part = strcspn(name, "/");
        if (part == 0) {
            return zkl__fail_at(err, ZKL_EINVAL, path,
                                "path: empty component (two slashes, or one at the end)");
        }
        if (!is_component(name, part)) {
            return zkl__fail_at(err, ZKL_EINVAL, path, "path: '%.*s' is not allowed as a component",
                                (int)part, name);
        }
        if (zkl__name_looks(name, part)) {
            return zkl__fail_at(
                err, ZKL_EINVAL, path,
                "path: a component looks like a contender: '-' or a tag such as __READ__ "
                "before ten digits; choose another name for '%.*s'",
                (int)part, name);
        }
    }
    if (strncmp(path, "/zookeeper", 10) == 0 && (path[10] == '/' || path[10] == '\0')) {
        return zkl__fail_at(err, ZKL_EINVAL, path,
                            "path: /zookeeper belongs to the ensemble itself");
    }
    return ZKL_OK;
}

bool zkl__path_form(const char *path, bool sequential)
{
    if (path[0] != '/') {
        return false;
    }
    if (path[1] == '\0') {
        return true;
    }
    const char *name = path + 1;
    for (size_t length = strcspn(name, "/"); name[length] == '/'; length = strcspn(name, "/")) {
        if (!is_component(name, length)) {
            return false;
        }
        name += length + 1;
    }
    return (sequential && name[0] == '\0') || is_component(name, strlen(name));
}

size_t zkl__path_join(char *out, size_t size, const char *dir, const char *name)
{
    bool root = dir[0] == '/' && dir[1] == '\0';
    size_t head = name && root ? 0 : strlen(dir), tail = name ? strlen(name) : 0;
    size_t length = head + (name ? 1 + tail : 0);
    if (length >= size) {
        return 0;
    }
    memcpy(out, dir, head); /* no printf: once for every operation, and more */
    if (name) {
        out[head] = '/';
        memcpy(out + head + 1, name, tail);
    }
    out[length] = '\0';
    return length;
}

bool zkl__path_shorten(char *part)
{
    char *slash = strrchr(part, '/');
    if (slash == part) {
        return false;
    }
    *slash = '\0';
    return true;
}

bool zkl__path_lengthen(char *part, const char *path)
{
    size_t length = strlen(part);
    if (path[length] == '\0') {
        return false;
    }
    length += 1 + strcspn(path + length + 1, "/");
    memcpy(part, path, length);
    part[length] = '\0';
    return true;
}
