/* Which nodes of a queue are places, and which hold. */
#include "check.h"
#include "queue_order.h"

#include <string.h>

#define MAX 6

/* What is known of the entries: number, czxid (0: not readable), session, kind; and what is expected: 'h' holds, 'w' waits, 'f' forged. */
struct situation {
    const char *about;
    int32_t creates; /* of the directory, ever */
    size_t count;
    struct {
        int32_t number;
        int64_t czxid, session;
        zkl_kind kind;
        char expected;
    } all[MAX];
};

static void judge(const struct situation *s)
{
    zkl_queue_entry entries[MAX];
    memset(entries, 0, sizeof entries);
    const struct zkl__stat directory = {.cversion = 2 * s->creates - (int32_t)s->count,
                                        .child_count = (int32_t)s->count};
    for (size_t i = 0; i < s->count; i++) {
        entries[i] = (zkl_queue_entry){.kind = s->all[i].kind,
                                       .sequence = s->all[i].number,
                                       .token = s->all[i].czxid,
                                       .session_id = s->all[i].session,
                                       .readable = s->all[i].czxid != 0};
    }
    zkl__queue_judge(entries, s->count, &directory);
    for (size_t i = 0; i < s->count; i++) {
        char got = entries[i].forged ? 'f' : entries[i].holds ? 'h' : 'w';
        CU_ASSERT_EQUAL(got, s->all[i].expected);
        CU_ASSERT_FALSE(entries[i].forged && entries[i].holds);
        if (got != s->all[i].expected) {
            fprintf(stderr, "\n%s: entry %zu: %c\n", s->about, i, got);
        }
    }
}

#define LOCK ZKL_KIND_LOCK
#define READ ZKL_KIND_READ
#define WRITE ZKL_KIND_WRITE
#define LEASE ZKL_KIND_LEASE

static const struct situation situations[] = {
    {"nobody", 0, 0, {{0}}},
    {"holder, waiters", 9, 3, {{3, 30, 1, LOCK, 'h'}, {4, 40, 1, LOCK, 'w'}, {7, 70, 2, LOCK, 'w'}}},
    {"no session's first", 9, 2, {{3, 30, 0, LOCK, 'f'}, {4, 40, 1, LOCK, 'h'}}},
    {"made later, with a lower number", 12, 2, {{5, 110, 6, LOCK, 'f'}, {10, 100, 1, LOCK, 'h'}}},
    {"two of these", 13, 3, {{1, 120, 6, LOCK, 'f'}, {5, 110, 6, LOCK, 'f'}, {10, 100, 1, LOCK, 'h'}}},
    {"made early, with a number nobody has", 6, 2, {{5, 60, 1, LOCK, 'h'}, {2000000000, 50, 6, LOCK, 'f'}}},
    {"the same, alone", 6, 1, {{2000000000, 50, 6, LOCK, 'f'}}},
    {"nothing known of the first: contenders wait", 9, 2, {{3, 0, 0, LOCK, 'h'}, {4, 40, 1, LOCK, 'w'}}},
    {"readers, then a writer, then a reader",
     9,
     4,
     {{1, 10, 1, READ, 'h'}, {2, 20, 2, READ, 'h'}, {3, 30, 3, WRITE, 'w'}, {4, 40, 4, READ, 'w'}}},
    {"a downgraded reader in its writer's place", 9, 2, {{3, 99, 1, READ, 'h'}, {4, 40, 2, WRITE, 'w'}}},
    {"a writer before readers", 9, 2, {{1, 10, 1, WRITE, 'h'}, {2, 20, 2, READ, 'w'}}},
    {"no session's between readers", 9, 3, {{1, 10, 1, READ, 'h'}, {2, 20, 0, LOCK, 'f'}, {3, 30, 1, READ, 'h'}}},
    {"permits have no order", 9, 3, {{1, 30, 1, LEASE, 'h'}, {2, 20, 2, LEASE, 'h'}, {99, 10, 0, LEASE, 'f'}}},
};

static void test_situations(void)
{
    for (size_t i = 0; i < sizeof situations / sizeof *situations; i++) {
        judge(&situations[i]);
    }
}

/* What contenders themselves go by. */
static void test_forged(void)
{
    const struct zkl__stat place = {.czxid = 50, .ephemeral_owner = 1}, persistent = {.czxid = 50};
    CU_ASSERT_FALSE(zkl__stat_forged(LOCK, &place, 60));
    CU_ASSERT_TRUE(zkl__stat_forged(LOCK, &place, 40));
    CU_ASSERT_FALSE(zkl__stat_forged(READ, &place, 40));
    CU_ASSERT_FALSE(zkl__stat_forged(LOCK, &place, 0));
    CU_ASSERT_TRUE(zkl__stat_forged(LOCK, &persistent, 60));
    CU_ASSERT_TRUE(zkl__stat_forged(READ, &persistent, 0));
}

TESTS("queue order", T(test_situations), T(test_forged))
