/* The heap of timers against a list that is searched from end to end. */
#include "check.h"
#include "dice.h"
#include "test_heap.h"
#include "timers.h"

#include <string.h>

#define MOST 120

static struct test_heap heap = TEST_HEAP_INIT;
static struct zkl__machine machines[MOST];
static bool in[MOST];      /* room was made for it */
static int64_t wake[MOST]; /* INT64_MAX: not set */

static int64_t earliest(void)
{
    int64_t next = INT64_MAX;
    for (int i = 0; i < MOST; i++) {
        next = in[i] && wake[i] < next ? wake[i] : next;
    }
    return next;
}

static void enter(struct zkl__timers *timers, const zkl_heap *h, int i)
{
    if (!in[i] && zkl__timers_reserve(timers, h)) {
        machines[i] = (struct zkl__machine){0};
        in[i] = true;
        wake[i] = INT64_MAX;
    }
}

static void leave(struct zkl__timers *timers, int i)
{
    if (in[i]) {
        zkl__timers_remove(timers, &machines[i]);
        in[i] = false;
        CU_ASSERT_EQUAL(machines[i].timer, 0);
    }
}

static void set(struct zkl__timers *timers, uint64_t *dice, int i, int64_t now)
{
    if (in[i]) {
        wake[i] = dice_once_in(dice, 5) ? INT64_MAX : now + dice_below(dice, 50);
        zkl__timers_set(timers, &machines[i], wake[i]);
        CU_ASSERT_EQUAL(machines[i].timer != 0, wake[i] != INT64_MAX);
    }
}

static void run_due(struct zkl__timers *timers, int64_t now)
{
    for (struct zkl__machine *c; (c = zkl__timers_due(timers, now));) {
        int i = (int)(c - machines);
        CU_ASSERT_TRUE(in[i]);
        CU_ASSERT_EQUAL(wake[i], earliest());
        CU_ASSERT(wake[i] <= now);
        CU_ASSERT_EQUAL(c->timer, 0);
        wake[i] = INT64_MAX;
    }
    CU_ASSERT(earliest() > now);
}

static void walk(uint64_t seed)
{
    uint64_t dice = seed;
    zkl_heap h = test_heap(&heap);
    struct zkl__timers timers = {0};
    int64_t now = 1000;
    memset(in, 0, sizeof in);
    test_heap_fail(&heap, dice_once_in(&dice, 3) ? dice_between(&dice, 1, 4) : 0, true);
    for (int step = 0; step < 4000; step++) {
        int i = (int)dice_below(&dice, MOST);
        switch (dice_below(&dice, 8)) {
        case 0:
            run_due(&timers, now += dice_below(&dice, 20));
            break;
        case 1:
            leave(&timers, i);
            break;
        case 2:
        case 3:
            enter(&timers, &h, i);
            break;
        default:
            set(&timers, &dice, i, now);
        }
        CU_ASSERT_EQUAL(zkl__timers_next(&timers), earliest());
    }
    for (int i = 0; i < MOST; i++) {
        leave(&timers, i);
    }
    CU_ASSERT_EQUAL(timers.count, 0);
    CU_ASSERT_EQUAL(timers.machines, 0);
    zkl__timers_deinit(&timers, &h);
    CU_ASSERT_EQUAL(test_heap_live(&heap), 0);
}

static void test_against_a_list(void)
{
    check_seeds(100, walk);
}

static void test_the_same_time_again(void)
{
    zkl_heap h = test_heap(&heap);
    struct zkl__timers timers = {0};
    struct zkl__machine c = {0};
    test_heap_fail(&heap, 0, false);
    CU_ASSERT_TRUE_FATAL(zkl__timers_reserve(&timers, &h));
    zkl__timers_set(&timers, &c, 5);
    zkl__timers_set(&timers, &c, 5);
    CU_ASSERT_EQUAL(timers.count, 1);
    CU_ASSERT_PTR_EQUAL(zkl__timers_due(&timers, 5), &c);
    zkl__timers_set(&timers, &c, 5); /* the same as the last time: it was taken out, so it is set */
    CU_ASSERT_EQUAL(timers.count, 1);
    CU_ASSERT_PTR_NULL(zkl__timers_due(&timers, 4));
    zkl__timers_remove(&timers, &c);
    CU_ASSERT_EQUAL(zkl__timers_next(&timers), INT64_MAX);
    zkl__timers_deinit(&timers, &h);
}

TESTS("timers", T(test_against_a_list), T(test_the_same_time_again))
