/* fields.h - where the fields of a reply are. */
#ifndef ZKL_SECURITY_FIELDS_H
#define ZKL_SECURITY_FIELDS_H

#include "lies.h"

#define FIELDS_MAX 512

struct field {
    enum { FIELD_INT, FIELD_LONG, FIELD_BOOL, FIELD_TEXT } form; /* a text has its length in front */
    enum lie lie;                                                /* what changing it is */
    size_t at, size;
};

struct fields {
    struct field all[FIELDS_MAX];
    size_t count;
    size_t list_at, list_end; /* a list of names, from its count to its end; both 0: none */
    int32_t err;
};

void fields_find(struct fields *fields, const struct frame *frame);

#endif
