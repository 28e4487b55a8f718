/* name.h - names of znodes: of contenders, and paths. */
#ifndef ZKL_BASE_NAME_H
#define ZKL_BASE_NAME_H

#include <zklock/queue.h>

/* === contenders =============================================================================== */

/* Names of contenders: ours, Curator's, go-zookeeper's, kazoo's; and their order.
 *
 * Names come from the network: parsing is bounded by the name's own end and never fails, a name
 * that is nobody's is ZKL_KIND_FOREIGN. Numbers are one counter per directory for all prefixes, so
 * any two compare. */

#define ZKL__UUID_LENGTH \
    36 /* dashed, lower case: Curator needs the dashes, go-zookeeper panics on shorter ones */
#define ZKL__NAME_LONGEST                                                                      \
    255 /* bytes: a longer name is nobody's. No library's contender has one, and it may be too \
           long to ask about */
#define ZKL__NAME_MAX 64 /* "_c_" uuid "-__READ__" and eleven digits, with room */

/* Kinds, as a set of bits. */
#define ZKL__KIND(kind) (1u << (kind))
/* Every kind of contender: foreign children are none. */
#define ZKL__KIND_ANY (~ZKL__KIND(ZKL_KIND_FOREIGN))
/* Contenders that hold beside each other, of every library. */
#define ZKL__KIND_READERS (ZKL__KIND(ZKL_KIND_READ) | ZKL__KIND(ZKL_KIND_KAZOO_READ))

struct zkl__name {
    zkl_kind kind;
    int32_t sequence;
    const char *uuid; /* 36 characters inside the name, or NULL: not of the form _c_<uuid>- */
};

struct zkl__name zkl__name_parse(const char *name);
/* Does it look like a contender: a number behind a tag, or behind '-' as those of libraries that we
 * do not know? Nobody waits for the latter, but no path and no id of ours may look so. The name
 * need not end in NUL. */
bool zkl__name_looks(const char *name, size_t length);
/* Is it a contender's, of whichever library? */
bool zkl__name_contends(const char *name);
/* The number alone; 0 when there is none. */
int32_t zkl__name_sequence(const char *name);

#define ZKL__LIMIT_LONGEST 5 /* bytes: of ZKL_PERMITS_MAX */

/* The limit of a semaphore, as the data of its path says it: decimal text alone; 0: it is none.
 * data: not ended by 0. */
int zkl__limit_parse(const char *data, size_t size);

/* "_c_<uuid>-<tag>" into out (ZKL__NAME_MAX bytes). uuid has ZKL__UUID_LENGTH characters. */
void zkl__name_prefix(char *out, const char *uuid, const char *tag);

/* The name of a znode of ours, into out (ZKL__NAME_MAX bytes). A longer one is none of ours, as
 * none is: out is "". */
void zkl__name_copy(char *out, const char *name);

/* "_c_<uuid>-<tag><number>" as the server would have named it: for a znode that replaces ours.
 * uuid: the first ZKL__UUID_LENGTH characters count. */
void zkl__name_with_number(char *out, const char *uuid, const char *tag, int32_t number);

/* Serial arithmetic of 32 bits (RFC 1982): the sign of a - b, right also across the wrap while both
 * stand within 2^31. */
static inline int32_t zkl__sequence_diff(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a - (uint32_t)b);
}

/* The directory's counter sticks at 2147483647: from there on several nodes may have that number,
 * or, when requests follow each other closely, a negative one, and so nobody can say who is first.
 * Only a number below it is a position. */
static inline bool zkl__sequence_used_up(int32_t sequence)
{
    return sequence < 0 || sequence == INT32_MAX;
}

/* A version-4 uuid from 16 bytes, into out (37 bytes). */
void zkl__uuid_format(char *out, const uint8_t bytes[16]);

/* The uuid of a contender that does not listen to requests to release says so, by its version.
 * Other libraries' are of version 4. */
void zkl__uuid_refuse_requests(char *uuid);
/* Whether it is the name of such a contender. */
bool zkl__name_refuses_requests(const char *name);

/* === paths ==================================================================================== */

/* Znode paths checked before they are sent: stricter than the C client, as strict as the
 * server. */

/* ZKL_OK, or ZKL_EINVAL with the reason in err: absolute, no empty, "." or ".." component, no
 * trailing slash, valid UTF-8 without control characters and what the server refuses (U+F000 to
 * U+F8FF, U+FFF0 to U+FFFF, beyond the BMP), at most ZKL_PATH_MAX bytes, not "/", not under
 * /zookeeper, no component that looks like a contender (zkl__name_looks). */
int zkl__path_check(const char *path, zkl_error *err);

/* The form alone, as the C client asks for it and the server too: absolute, no empty, "." or ".."
 * component, no slash at the end, unless a sequence number is to follow. "/" is fine. */
bool zkl__path_form(const char *path, bool sequential);

/* dir and name (may be NULL) as one path into out. Returns its length, or 0 when it does not fit.
 */
size_t zkl__path_join(char *out, size_t size, const char *dir, const char *name);

/* For who makes directories. part: the beginning of a path, of whole components. One component
 * less; false: there is only one. */
bool zkl__path_shorten(char *part);
/* One component of path more; false: it is all of path. */
bool zkl__path_lengthen(char *part, const char *path);

#endif
