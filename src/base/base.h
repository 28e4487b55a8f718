/* base.h - what everything stands on: memory, errors, texts, time slots, access lists. */
#ifndef ZKL_BASE_BASE_H
#define ZKL_BASE_BASE_H

#include <zklock/types.h>

/* === memory =================================================================================== */

/* The allocator everything inside uses; never malloc by name. */

static inline void *zkl__alloc(const zkl_heap *heap, size_t size)
{
    return heap->alloc(heap->payload, size);
}
static inline void *zkl__resize(const zkl_heap *heap, void *ptr, size_t size)
{
    return heap->resize(heap->payload, ptr, size);
}
/* NULL: nothing. What was handed out as const is freed, too. */
static inline void zkl__free(const zkl_heap *heap, const void *ptr)
{
    if (ptr) {
        heap->release(heap->payload, (void *)(uintptr_t)ptr);
    }
}

/* Zeroed; NULL when there is no memory. */
void *zkl__zalloc(const zkl_heap *heap, size_t size);
/* Copy of size bytes with a NUL behind; NULL when there is no memory. */
char *zkl__copy(const zkl_heap *heap, const void *data, size_t size);
char *zkl__copy_text(const zkl_heap *heap, const char *text);
/* For one block with several texts in it: copies text to *end, moves *end behind it, returns the
 * copy. */
const char *zkl__text_put(char **end, const char *text);

/* === errors =================================================================================== */

/* Filling a zkl_error. */

/* Fills err (may be NULL) and returns code, so that a failing branch is one line. path may be NULL.
 */
int zkl__fail(zkl_error *err, int code, int zk_code, const char *path, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

static inline int zkl__fail_code(int done, int code)
{
    (void)done;
    return code;
}

/* The same; an analyzer that does not look into the function sees what it returns. */
#define zkl__fail(err, code, ...) zkl__fail_code(zkl__fail(err, code, __VA_ARGS__), code)

/* The same for what no server has said. */
#define zkl__fail_at(err, code, ...) zkl__fail(err, code, 0, __VA_ARGS__)
/* The same for an object that its user frees. */
#define zkl__fail_freed(err, path) \
    zkl__fail(err, ZKL_ECANCELED, 0, path, "the object is being freed")
/* For an argument that has this name. */
#define zkl__fail_null(err, name) zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", name)

/* First of all in whatever makes something: who cleans up after a failure frees what out says, and
 * NULL is fine everywhere. */
#define ZKL__CLEAR(out) ((out) ? (void)(*(out) = NULL) : (void)0)

/* === texts ==================================================================================== */

/* Texts: UTF-8, what may be stored on a znode, and what may be shown on a terminal. */

/* One code point of strict UTF-8 (no overlong form, no surrogate) of a text that ends in NUL; its
 * length, or 0. */
size_t zkl__utf8_decode(const unsigned char *s, uint32_t *out);

/* What Curator (LockInternals.REVOKE_MESSAGE) writes on a holder's znode to ask it to give way. */
#define ZKL__REVOKE "__REVOKE__"

/* Copies a text, which may come from a server or from another client, into an array of size bytes.
 * False: it does not fit, and the array has "". What that means is the caller's to say, so the
 * compiler refuses one that does not look. */
__attribute__((warn_unused_result)) bool zkl__text_copy(char *array, size_t size, const char *text);

/* The rules for text that is stored on a znode: UTF-8, at most ZKL_DATA_MAX bytes, not ZKL__REVOKE.
 * name: what the text is called where it is refused. */
int zkl__text_check(const char *name, const char *text, zkl_error *err);

/* Writes text into out as one line, because a log may be shown on a terminal. Control characters of
 * seven and eight bits, line separators, changes of direction and bytes that are no UTF-8 become
 * \xNN. Cut to size, between two characters. */
void zkl__text_escape(char *out, size_t size, const char *text);

/* === time slots =============================================================================== */

/* The arithmetic of time slots, for jobs that run once in each.
 *
 * A slot is named by its round time, which is a multiple of its length, plus the phase. It reaches
 * half a length to each side of the round time. Cron starts a job at a round time, a little earlier
 * or later on each host, and all these starts fall into one slot. */

/* Round time, ms since 1970, of the slot that time_ms is in; what is before the first one is in its
 * slot. length_ms > 0; 0 <= phase_ms < length_ms. */
int64_t zkl__slot_of(int64_t time_ms, int64_t length_ms, int64_t phase_ms);

/* The number of which data is the decimal text; 0: there is no data. -1: it is something else, or
 * has more than 18 digits. data: not ended by 0. */
int64_t zkl__decimal_parse(const void *data, size_t size);

/* === access lists ============================================================================= */

/* Copies of access lists. */

/* ZKL_OK, or ZKL_EINVAL with words in err: entries, each with permissions, scheme and id. NULL is
 * fine. */
int zkl__acl_check(const zkl_acl *acl, zkl_error *err);
/* NULL is the default. */
bool zkl__acl_same(const zkl_acl *one, const zkl_acl *other);
/* One block: free it with zkl__free. NULL when there is no memory. */
zkl_acl *zkl__acl_copy(const zkl_heap *heap, const zkl_acl *acl);
/* The same in a block of the caller's, aligned as malloc's; how many bytes it takes: whole
 * pointers, so that another copy may follow. */
size_t zkl__acl_size(const zkl_acl *acl);
zkl_acl *zkl__acl_put(void *block, const zkl_acl *acl);

/* === identities =============================================================================== */

/* The identity that servers make of credentials of the digest scheme. */

#define ZKL__DIGEST_ROOM 30 /* a colon, 28 digits of base64, a NUL */

/* "user:base64(sha1(user:password))" of "user:password"; without a colon all of it is the user.
 * out: size + ZKL__DIGEST_ROOM bytes. */
void zkl__digest_identity(char *out, const void *credentials, size_t size);

#endif
