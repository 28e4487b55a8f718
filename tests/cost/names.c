/* names COUNT: that many names go into a set of names to be passed over, and each is looked for once; and as many pieces are shared out.
 * For ./growth, which counts the instructions of look_for_all, or of zkl__share_out. */
#include <stdio.h>

#include "collections.h"
#include "core_facts.h"
#include "share.h"

enum { MEMBERS = 3, MOST = 4000 };

/* What is counted: not static, so that it is a function of its own. */
int look_for_all(const struct zkl__map *set, char (*names)[32], int count);
int look_for_all(const struct zkl__map *set, char (*names)[32], int count)
{
    int found = 0;
    for (int i = 0; i < count; i++) {
        found += zkl__names_find(set, names[i]) != NULL;
    }
    return found;
}

int main(int argc, char **argv)
{
    static char names[MOST][32];
    static const char *pieces[MOST];
    static size_t owners[MOST];
    static const char *const members[MEMBERS] = {"a", "b", "c"};
    struct zkl__map set = {.heap = &plain_heap, .key = UINT64_C(0x0123456789abcdef)};
    int count = argc > 1 ? atoi(argv[1]) : 0;
    bool right = count <= MOST;
    for (int i = 0; right && i < count; i++) {
        snprintf(names[i], sizeof names[i], "x%d-lock--%09d", i, 1);
        pieces[i] = names[i];
        right = zkl__names_put(&set, names[i], 0);
    }
    const struct zkl__share share = {members, MEMBERS, pieces, (size_t)count, 0};
    right = right && look_for_all(&set, names, count) == count && zkl__share_out(owners, &share, &plain_heap);
    zkl__names_clear(&set);
    return right ? 0 : 1;
}
