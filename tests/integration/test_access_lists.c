/* Programs with different credentials in one open queue, on a real server; what each version tells of a znode that may not be
 * read stands at enum zkl__read_access. */
#include "access_kit.h"
#include "one_server.h"

#include <stdio.h>

#define ROUNDS 20
#define SECOND_NS INT64_C(1000000000)

/* What all but a quarter of the rounds need: a busy machine stands still in some. */
static int64_t most_need(struct access *access, const struct access_kind *kind)
{
    int64_t took[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        took[i] = access_hand_over(access, kind, NULL);
    }
    (void)median(took, ROUNDS);
    return took[ROUNDS * 3 / 4 - 1];
}

/* Within a second, and what the same hand-overs take on this machine when all may be read. */
TEST(test_hand_over)
{
    struct access open, closed;
    access_begin(&open, ensemble_servers(server), false, TICK);
    access_begin(&closed, ensemble_servers(server), true, TICK);
    for (int i = 0; i < access_kind_count; i++) {
        const struct access_kind *kind = &access_kinds[i];
        int64_t control = most_need(&open, kind);
        int64_t most = most_need(&closed, kind);
        fprintf(stderr, "%s: %d of %d, three quarters within %.1f ms (all readable: %.1f ms)\n", kind->name, 2 * ROUNDS,
                2 * ROUNDS, (double)most / 1e6, (double)control / 1e6);
        CU_ASSERT(most < control + SECOND_NS);
    }
    access_end(&open);
    access_end(&closed);
}

TESTS_ON_ONE_SERVER("access lists")
