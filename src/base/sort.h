/* sort.h - one sort: in place, without memory, and never slow, since names are anybody's. */
#ifndef ZKL_BASE_SORT_H
#define ZKL_BASE_SORT_H

#include <stddef.h>

/* The smallest first. size: of each, a multiple of 8. compare: less than, equal to, or greater than
 * 0, as for qsort, which may ask for memory by itself. */
void zkl__sort(void *base, size_t count, size_t size,
               int (*compare)(const void *one, const void *other, const void *context),
               const void *context);

#endif
