/* name_set.h - names that were found to be nobody's place, and are passed over from then on. Few: they are looked for one by one. */
#ifndef ZKL_CORE_NAME_SET_H
#define ZKL_CORE_NAME_SET_H

#include "heap.h"

#include <stdbool.h>

struct zkl__name_set {
    char **names;
    size_t count;
};

bool zkl__name_set_has(const struct zkl__name_set *set, const char *name);
/* Copies it. False: no memory. */
bool zkl__name_set_add(struct zkl__name_set *set, const zkl_heap *heap, const char *name);
void zkl__name_set_clear(struct zkl__name_set *set, const zkl_heap *heap);

#endif
