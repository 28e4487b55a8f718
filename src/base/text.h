/* text.h - texts: UTF-8, what may be stored on a znode, and what may be shown on a terminal. */
#ifndef ZKL_BASE_TEXT_H
#define ZKL_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zklock/error.h>

/* One code point of strict UTF-8 (no overlong form, no surrogate) of a text that ends in NUL; its
 * length, or 0. */
size_t zkl__utf8_decode(const unsigned char *s, uint32_t *out);

/* What Curator (LockInternals.REVOKE_MESSAGE) writes on a holder's znode to ask it to give way. */
#define ZKL__REVOKE "__REVOKE__"

/* A text in an array of fixed size, put together piece by piece: for whatever comes from a server
 * or from another client. A piece that does not fit leaves the text empty, and it stays so. */
struct zkl__text {
    char *bytes; /* the array; ends in NUL */
    size_t size; /* of the array */
    size_t length;
    bool too_long;
};
struct zkl__text zkl__text_in(char *array, size_t size);
void zkl__text_add(struct zkl__text *text, const char *piece);

/* Copies one text into an array of size bytes. False: it does not fit, and the array has "". What
 * that means is the caller's to say, so the compiler refuses one that does not look. */
__attribute__((warn_unused_result)) bool zkl__text_copy(char *array, size_t size, const char *text);

/* The rules for text that is stored on a znode: UTF-8, at most ZKL_DATA_MAX bytes, not ZKL__REVOKE.
 * name: what the text is called where it is refused. */
int zkl__text_check(const char *name, const char *text, zkl_error *err);

/* Writes text into out as one line, because a log may be shown on a terminal. Control characters of
 * seven and eight bits, line separators, changes of direction and bytes that are no UTF-8 become
 * \xNN. Cut to size, between two characters. */
void zkl__text_escape(char *out, size_t size, const char *text);

#endif
