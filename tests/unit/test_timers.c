/* The heap of timers against a list that is searched from end to end. */
#include "check.h"
#include "dice.h"
#include "timers.h"

#include <string.h>

#define MOST 120

static struct zkl__timer all[MOST];
static int64_t wake[MOST]; /* INT64_MAX: not set */

static int64_t earliest(void)
{
    int64_t next = INT64_MAX;
    for (int i = 0; i < MOST; i++) {
        next = wake[i] < next ? wake[i] : next;
    }
    return next;
}

static void set(struct zkl__timers *timers, int i, int64_t at)
{
    wake[i] = at;
    zkl__timers_set(timers, &all[i], at);
    CU_ASSERT_EQUAL(all[i].set, at != INT64_MAX);
}

static void run_due(struct zkl__timers *timers, int64_t now)
{
    for (struct zkl__timer *due; (due = zkl__timers_due(timers, now));) {
        int i = (int)(due - all);
        CU_ASSERT_EQUAL(wake[i], earliest());
        CU_ASSERT(wake[i] <= now);
        CU_ASSERT_FALSE(due->set);
        wake[i] = INT64_MAX;
    }
    CU_ASSERT(earliest() > now);
}

static void walk(uint64_t seed)
{
    uint64_t dice = seed;
    struct zkl__timers timers = {0};
    int64_t now = 1000;
    memset(all, 0, sizeof all);
    for (int i = 0; i < MOST; i++) {
        wake[i] = INT64_MAX;
    }
    for (int step = 0; step < 4000; step++) {
        int i = (int)dice_below(&dice, MOST);
        if (dice_once_in(&dice, 8)) {
            run_due(&timers, now += dice_below(&dice, 20));
        } else {
            set(&timers, i, dice_once_in(&dice, 5) ? INT64_MAX : now + dice_below(&dice, 50));
        }
        CU_ASSERT_EQUAL(zkl__timers_next(&timers), earliest());
    }
    for (int i = 0; i < MOST; i++) {
        set(&timers, i, INT64_MAX);
    }
    CU_ASSERT_EQUAL(timers.count, 0);
    CU_ASSERT_PTR_NULL(timers.root);
}

static void test_against_a_list(void)
{
    check_seeds(100, walk);
}

static void test_the_same_time_again(void)
{
    struct zkl__timers timers = {0};
    struct zkl__timer c = {0};
    zkl__timers_set(&timers, &c, 5);
    zkl__timers_set(&timers, &c, 5);
    CU_ASSERT_EQUAL(timers.count, 1);
    CU_ASSERT_PTR_EQUAL(zkl__timers_due(&timers, 5), &c);
    zkl__timers_set(&timers, &c, 5); /* the same as the last time: it was taken out, so it is set */
    CU_ASSERT_EQUAL(timers.count, 1);
    CU_ASSERT_PTR_NULL(zkl__timers_due(&timers, 4));
    zkl__timers_set(&timers, &c, INT64_MAX);
    CU_ASSERT_EQUAL(zkl__timers_next(&timers), INT64_MAX);
}

TESTS("timers", T(test_against_a_list), T(test_the_same_time_again))
