/* names.h - the names that others may give to their znodes in a directory of ours: every tag, number and length that some code decides by. */
#ifndef ZKL_TESTS_FOREIGN_NAMES_H
#define ZKL_TESTS_FOREIGN_NAMES_H

#include <stddef.h>

enum { NAMES_MAX = 1000, NAME_BYTES = 256 };

/* Alone in its directory it may take another way through the code than among others: by its number in a queue, by its length
 * wherever a name is copied. */
enum decides { DECIDES_NOT, DECIDES_IN_QUEUES, DECIDES_EVERYWHERE };

struct foreign_name {
    char text[NAME_BYTES];
    enum decides decides;
};

/* Not from two threads the first time. */
const struct foreign_name *foreign_names(size_t *count);

#endif
