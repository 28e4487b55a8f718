/* names COUNT: that many names go into a set of names to be passed over, and each is looked for once. For ./growth, which counts the
 * instructions of look_for_all. */
#include <stdio.h>
#include <stdlib.h>

#include "name_set.h"
#include "plain_heap.h"

/* What is counted: not static, so that it is a function of its own. */
int look_for_all(const struct zkl__name_set *set, char (*names)[32], int count);
int look_for_all(const struct zkl__name_set *set, char (*names)[32], int count)
{
    int found = 0;
    for (int i = 0; i < count; i++) {
        found += zkl__name_set_has(set, names[i]);
    }
    return found;
}

int main(int argc, char **argv)
{
    struct zkl__name_set set = {.key = UINT64_C(0x0123456789abcdef)};
    int count = argc > 1 ? atoi(argv[1]) : 0;
    char(*names)[32] = calloc((size_t)count + 1, sizeof *names);
    bool kept = names;
    for (int i = 0; kept && i < count; i++) {
        snprintf(names[i], sizeof names[i], "x%d-lock--%09d", i, 1);
        kept = zkl__name_set_add(&set, &plain_heap, names[i]);
    }
    bool right = kept && look_for_all(&set, names, count) == count;
    zkl__name_set_clear(&set, &plain_heap);
    free(names);
    return right ? 0 : 1;
}
