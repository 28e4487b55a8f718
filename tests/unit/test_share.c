/* Shares: pure arithmetic. */
#include "check.h"
#include "share.h"
#include "test_heap.h"

#include "dice.h"
#include "plain_heap.h"

#include <string.h>

#define PIECES 100
#define MEMBERS 40

static char names[MEMBERS + PIECES][48];
static const char *all[MEMBERS], *pieces[PIECES];

static void name_them(uint64_t seed)
{
    for (size_t i = 0; i < MEMBERS; i++) {
        all[i] = names[i];
        snprintf(names[i], sizeof names[i], "_c_%016llx-lock-%010zu", (unsigned long long)dice_next(&seed), i);
    }
    for (size_t i = 0; i < PIECES; i++) {
        pieces[i] = names[MEMBERS + i];
        snprintf(names[MEMBERS + i], sizeof names[0], "topic-%zu", i);
    }
}

static void share_out(size_t *owners, const char *const *members, size_t count, size_t cap)
{
    const struct zkl__share share = {members, count, pieces, PIECES, cap};
    CU_ASSERT(zkl__share_out(owners, &share, &plain_heap));
}

static size_t load_of(const size_t *owners, size_t member)
{
    size_t load = 0;
    for (size_t i = 0; i < PIECES; i++) {
        load += owners[i] == member;
    }
    return load;
}

static void test_even(void)
{
    size_t owners[PIECES];
    name_them(1);
    for (size_t count = 1; count <= MEMBERS; count++) {
        share_out(owners, all, count, 0);
        size_t sum = 0;
        for (size_t m = 0; m < count; m++) {
            size_t load = load_of(owners, m);
            CU_ASSERT(load == PIECES / count || load == PIECES / count + 1);
            sum += load;
        }
        CU_ASSERT_EQUAL(sum, PIECES);
    }
}

static void test_capped(void)
{
    size_t owners[PIECES];
    name_them(2);
    for (size_t count = 1; count <= 10; count++) {
        share_out(owners, all, count, 20);
        for (size_t m = 0; m < count; m++) {
            CU_ASSERT(load_of(owners, m) <= 20);
        }
        CU_ASSERT_EQUAL(load_of(owners, ZKL__NOBODY), count < 5 ? PIECES - 20 * count : 0);
    }
}

static void test_nobody(void)
{
    size_t owners[PIECES];
    name_them(3);
    share_out(owners, all, 0, 0);
    CU_ASSERT_EQUAL(load_of(owners, ZKL__NOBODY), PIECES);
    const struct zkl__share none = {all, 3, pieces, 0, 0};
    CU_ASSERT(zkl__share_out(owners, &none, &plain_heap));
}

static void shuffle(const char **list, size_t count, uint64_t *seed)
{
    for (size_t i = count; i > 1; i--) {
        size_t j = (size_t)dice_below(seed, (int64_t)i);
        const char *name = list[i - 1];
        list[i - 1] = list[j];
        list[j] = name;
    }
}

/* The server lists members in any order, and members may name the pieces in any order. */
static void test_the_order_of_names_does_not_matter(void)
{
    uint64_t seed = 4;
    size_t owners[PIECES], again[PIECES];
    name_them(4);
    for (int round = 0; round < 20; round++) {
        const char *before[PIECES], *owner[PIECES];
        share_out(owners, all, 7, 20);
        for (size_t i = 0; i < PIECES; i++) {
            before[i] = pieces[i];
            owner[i] = all[owners[i]];
        }
        shuffle(all, 7, &seed);
        shuffle(pieces, PIECES, &seed);
        share_out(again, all, 7, 20);
        for (size_t i = 0; i < PIECES; i++) {
            size_t j = 0;
            while (pieces[j] != before[i]) {
                j++;
            }
            CU_ASSERT_PTR_EQUAL(all[again[j]], owner[i]);
        }
    }
}

/* How many pieces change hands when the members become after, beyond those that must: those of who left, or those for who came. */
static size_t moved(const char *const *before, size_t before_count, const char *const *after, size_t after_count)
{
    size_t old[PIECES], new[PIECES], count = 0;
    share_out(old, before, before_count, 0);
    share_out(new, after, after_count, 0);
    for (size_t i = 0; i < PIECES; i++) {
        count += strcmp(before[old[i]], after[new[i]]) != 0;
    }
    return count;
}

static void test_little_moves(void)
{
    size_t leave = 0, join = 0, half = 0;
    for (uint64_t seed = 0; seed < 50; seed++) {
        name_them(100 + seed);
        leave += moved(all, 10, all + 1, 9);
        join += moved(all, 10, all, 11);
        half += moved(all, 10, all + 5, 5);
    }
    printf("of 100 move: %.1f when one of ten leaves (10 must), %.1f when one joins (9), %.1f when five leave (50); ",
           (double)leave / 50, (double)join / 50, (double)half / 50);
    CU_ASSERT(leave < 25 * 50);
    CU_ASSERT(join < 25 * 50);
    CU_ASSERT(half < 65 * 50);
}

/* Names whose hashes are the same: whoever knows them in another order comes to the same end. */
static void test_equal_hashes(void)
{
    static const char *const members[] = {"8yn0iYCKYHlIj4-BwPqk", "GReLUrM4wMqfg9yzV3KQ"};
    static const char *const topics[] = {"gMPflVXtwGDXbIhP73TX", "LtHf1prlU1bCeYZEdqWf", "7mohtcOFVz", "c1E51sSEyx"};
    static const char *const members_again[] = {"GReLUrM4wMqfg9yzV3KQ", "8yn0iYCKYHlIj4-BwPqk"};
    static const char *const topics_again[] = {"c1E51sSEyx", "7mohtcOFVz", "LtHf1prlU1bCeYZEdqWf",
                                               "gMPflVXtwGDXbIhP73TX"};
    size_t owners[4], again[4];
    CU_ASSERT_TRUE(zkl__share_out(owners, &(struct zkl__share){members, 2, topics, 4, 0}, &plain_heap));
    CU_ASSERT_TRUE(zkl__share_out(again, &(struct zkl__share){members_again, 2, topics_again, 4, 0}, &plain_heap));
    for (size_t i = 0; i < 4; i++) {
        CU_ASSERT_STRING_EQUAL(members[owners[i]], members_again[again[3 - i]]);
    }
}

static void test_no_memory(void)
{
    struct test_heap counter = TEST_HEAP_INIT;
    const zkl_heap poor = test_heap(&counter);
    size_t owners[PIECES];
    const struct zkl__share share = {all, 3, pieces, PIECES, 0};
    for (long nth = 1; nth <= 3; nth++) {
        test_heap_fail(&counter, nth, false);
        CU_ASSERT_FALSE(zkl__share_out(owners, &share, &poor));
        CU_ASSERT_EQUAL(owners[0], ZKL__NOBODY);
    }
    test_heap_fail(&counter, 0, false);
    CU_ASSERT_TRUE(zkl__share_out(owners, &share, &poor));
    /* more pairs than there are addresses */
    const struct zkl__share huge = {all, SIZE_MAX / 16, pieces, PIECES, 0};
    CU_ASSERT_FALSE(zkl__share_out(owners, &huge, &poor));
    CU_ASSERT_EQUAL(test_heap_live(&counter), 0);
}

TESTS("share", T(test_even), T(test_capped), T(test_nobody), T(test_the_order_of_names_does_not_matter),
      T(test_little_moves), T(test_equal_hashes), T(test_no_memory))
