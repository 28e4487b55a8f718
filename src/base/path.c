#include "path.h"
#include "error.h"
#include "name.h"
#include "text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <zklock/types.h>

/* What PathUtils.validatePath of the server refuses; it counts UTF-16 units, so nothing beyond the
 * BMP passes. */
static bool refused_in_path(uint32_t point)
{
    return point < 0x20 || (point >= 0x7f && point <= 0x9f) ||
           (point >= 0xd800 && point <= 0xf8ff) || (point >= 0xfff0 && point <= 0xffff) ||
           point > 0xffff;
}

static int check_characters(const char *path, zkl_error *err)
{
    const unsigned char *s = (const unsigned char *)path;
    while (*s) {
        uint32_t point;
        size_t length = zkl__utf8_decode(s, &point);
        size_t at = (size_t)(s - (const unsigned char *)path);
        if (length == 0) {
            return zkl__fail(err, ZKL_EINVAL, 0, path, "path: byte %zu is not valid UTF-8", at);
        }
        if (refused_in_path(point)) {
            return zkl__fail(err, ZKL_EINVAL, 0, path,
                             "path: character U+%04X at byte %zu is not allowed in a znode path",
                             (unsigned)point, at);
        }
        s += length;
    }
    return ZKL_OK;
}

static bool is_component(const char *name, size_t length)
{
    return length > 0 && !(length == 1 && name[0] == '.') &&
           !(length == 2 && name[0] == '.' && name[1] == '.');
}

static int check_component(const char *path, const char *name, size_t length, zkl_error *err)
{
    if (length == 0) {
        return zkl__fail(err, ZKL_EINVAL, 0, path,
                         "path: empty component (two slashes, or one at the end)");
    }
    if (!is_component(name, length)) {
        return zkl__fail(err, ZKL_EINVAL, 0, path, "path: '%.*s' is not allowed as a component",
                         (int)length, name);
    }
    if (zkl__name_looks(name, length)) {
        return zkl__fail(err, ZKL_EINVAL, 0, path,
                         "path: a component looks like a contender: '-' or a tag such as __READ__ "
                         "before ten digits; choose another name for '%.*s'",
                         (int)length, name);
    }
    return ZKL_OK;
}

int zkl__path_check(const char *path, zkl_error *err)
{
    if (!path || path[0] == '\0') {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL,
                         "path: missing; give an absolute znode path such as /locks/backup");
    }
    if (path[0] != '/') {
        return zkl__fail(err, ZKL_EINVAL, 0, path,
                         "path: must be absolute, that is, begin with '/'");
    }
    size_t length = strnlen(path, ZKL_PATH_MAX + 1);
    if (length > ZKL_PATH_MAX) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "path: longer than %d bytes", ZKL_PATH_MAX);
    }
    if (length == 1) {
        return zkl__fail(err, ZKL_EINVAL, 0, path, "path: '/' itself cannot be a lock");
    }
    int code = check_characters(path, err);
    for (const char *name = path + 1; code == ZKL_OK;) {
        size_t part = strcspn(name, "/");
        code = check_component(path, name, part, err);
        if (name[part] == '\0') {
            break;
        }
        name += part + 1;
    }
    if (code == ZKL_OK && strncmp(path, "/zookeeper", 10) == 0 &&
        (path[10] == '/' || path[10] == '\0')) {
        return zkl__fail(err, ZKL_EINVAL, 0, path,
                         "path: /zookeeper belongs to the ensemble itself");
    }
    return code;
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
    int length =
        name ? snprintf(out, size, "%s/%s", root ? "" : dir, name) : snprintf(out, size, "%s", dir);
    return (size_t)length >= size ? 0 : (size_t)length;
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

uint32_t zkl__path_hash(const char *path)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *path; path++) {
        hash = (hash ^ (uint8_t)*path) * 16777619u;
    }
    return hash;
}
