/* The table of watches against a list that is searched from end to end. */
#include "check.h"
#include "dice.h"
#include "test_heap.h"
#include "session_inside.h"

#include <string.h>

#define WATCHES 300
#define PATHS 60

static struct test_heap heap = TEST_HEAP_INIT;
static struct zkl__watch watches[WATCHES];
static bool on[WATCHES];
static char paths[PATHS][64];

static size_t bytes_on(void)
{
    size_t bytes = 0;
    for (int i = 0; i < WATCHES; i++) {
        bytes += on[i] ? strlen(watches[i].path) : 0;
    }
    return bytes;
}

static int waiting_for(const char *path)
{
    int count = 0;
    for (int i = 0; i < WATCHES; i++) {
        count += on[i] && strcmp(watches[i].path, path) == 0;
    }
    return count;
}

static void take(struct zkl__watches *table, const char *path)
{
    int expected = waiting_for(path);
    for (struct zkl__watch *w = zkl__watches_take(table, path); w; w = w->next, expected--) {
        CU_ASSERT_STRING_EQUAL(w->path, path);
        CU_ASSERT_FALSE(w->on);
        CU_ASSERT_TRUE(on[w - watches]);
        on[w - watches] = false;
    }
    CU_ASSERT_EQUAL(expected, 0);
}

static void add(struct zkl__watches *table, uint64_t *dice, int i, size_t most)
{
    size_t before = bytes_on();
    if (!on[i]) {
        watches[i].path = paths[dice_below(dice, PATHS)];
    }
    bool fits = on[i] || most == 0 || before + strlen(watches[i].path) <= most;
    CU_ASSERT_EQUAL(zkl__watches_add(table, &watches[i], most), fits ? ZKL_OK : ZKL_ELIMIT);
    on[i] = fits;
    CU_ASSERT_EQUAL(watches[i].on, fits);
}

static void walk(uint64_t seed)
{
    uint64_t dice = seed;
    zkl_heap h = test_heap(&heap);
    struct zkl__watches table = {0};
    memset(watches, 0, sizeof watches);
    memset(on, 0, sizeof on);
    test_heap_fail(&heap, 0, false);
    CU_ASSERT_TRUE_FATAL(zkl__watches_init(&table, &h));
    if (dice_once_in(&dice, 4)) {
        test_heap_fail(&heap, 1, true); /* no memory to grow: longer chains, and that is all */
    }
    size_t most = dice_once_in(&dice, 2) ? 0 : (size_t)dice_below(&dice, 3000);
    for (int step = 0; step < 2000; step++) {
        int i = (int)dice_below(&dice, WATCHES);
        const char *path = paths[dice_below(&dice, PATHS)];
        switch (dice_below(&dice, 10)) {
        case 0:
        case 1:
            take(&table, path);
            break;
        case 2:
        case 3:
            zkl__watches_remove(&table, &watches[i]);
            on[i] = false;
            CU_ASSERT_FALSE(watches[i].on);
            break;
        default:
            add(&table, &dice, i, most);
        }
        CU_ASSERT_EQUAL(zkl__watches_any(&table, path), waiting_for(path) > 0);
        CU_ASSERT_EQUAL(table.bytes, bytes_on());
    }
    for (struct zkl__watch *w; (w = zkl__watches_take_any(&table));) {
        CU_ASSERT_TRUE(on[w - watches] && !w->on);
        on[w - watches] = false;
    }
    CU_ASSERT_EQUAL(bytes_on(), 0);
    CU_ASSERT_EQUAL(table.count, 0);
    zkl__watches_deinit(&table, &h);
    CU_ASSERT_EQUAL(test_heap_live(&heap), 0);
}

static void test_against_a_list(void)
{
    for (int i = 0; i < PATHS; i++) {
        snprintf(paths[i], sizeof paths[i], "/q/%.*s%d", i % 20, "aaaaaaaaaaaaaaaaaaaaaaa", i);
    }
    check_seeds(100, walk);
}

static void test_limit(void)
{
    zkl_heap h = test_heap(&heap);
    struct zkl__watches table = {0};
    struct zkl__watch one = {.path = "/12345"}, two = {.path = "/123"};
    CU_ASSERT_TRUE_FATAL(zkl__watches_init(&table, &h));
    CU_ASSERT_EQUAL(zkl__watches_add(&table, &one, 5), ZKL_ELIMIT);
    CU_ASSERT_FALSE(one.on);
    CU_ASSERT_EQUAL(zkl__watches_add(&table, &one, 6), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__watches_add(&table, &one, 6), ZKL_OK); /* on already */
    CU_ASSERT_EQUAL(zkl__watches_add(&table, &two, 9), ZKL_ELIMIT);
    CU_ASSERT_EQUAL(zkl__watches_add(&table, &two, 10), ZKL_OK);
    zkl__watches_deinit(&table, &h);
}

/* Two paths of one hash (FNV-1a of 32 bits): told apart nevertheless. */
static void test_one_hash(void)
{
    zkl_heap h = test_heap(&heap);
    struct zkl__watches table = {0};
    struct zkl__watch one = {.path = "/q/tbhekt"}, two = {.path = "/q/ovedks"};
    CU_ASSERT_TRUE_FATAL(zkl__watches_init(&table, &h));
    CU_ASSERT_EQUAL(zkl__watches_add(&table, &one, 0), ZKL_OK);
    CU_ASSERT_FALSE(zkl__watches_any(&table, two.path));
    CU_ASSERT_EQUAL(zkl__watches_add(&table, &two, 0), ZKL_OK);
    CU_ASSERT_EQUAL(one.hash, two.hash);
    CU_ASSERT_PTR_EQUAL(zkl__watches_take(&table, one.path), &one);
    CU_ASSERT_TRUE(two.on);
    zkl__watches_remove(&table, &two);
    zkl__watches_deinit(&table, &h);
}

static void test_no_memory(void)
{
    zkl_heap h = test_heap(&heap);
    struct zkl__watches table = {0};
    test_heap_fail(&heap, 1, false);
    CU_ASSERT_FALSE(zkl__watches_init(&table, &h));
    CU_ASSERT_EQUAL(test_heap_live(&heap), 0);
    test_heap_fail(&heap, 0, false);
}

TESTS("watches", T(test_against_a_list), T(test_limit), T(test_one_hash), T(test_no_memory))
