/* Slots: pure arithmetic. */
#include "check.h"
#include "share.h"

#include <string.h>

#define MINUTE INT64_C(60000)

static void test_round_times_are_in_the_middle(void)
{
    CU_ASSERT_EQUAL(zkl__slot_of(10 * MINUTE, 10 * MINUTE, 0), 10 * MINUTE);
    CU_ASSERT_EQUAL(zkl__slot_of(10 * MINUTE - 1, 10 * MINUTE, 0), 10 * MINUTE);
    CU_ASSERT_EQUAL(zkl__slot_of(10 * MINUTE + 299, 10 * MINUTE, 0), 10 * MINUTE);
    CU_ASSERT_EQUAL(zkl__slot_of(5 * MINUTE, 10 * MINUTE, 0), 10 * MINUTE);
    CU_ASSERT_EQUAL(zkl__slot_of(5 * MINUTE - 1, 10 * MINUTE, 0), 0);
    CU_ASSERT_EQUAL(zkl__slot_of(13 * MINUTE, 10 * MINUTE, 3 * MINUTE), 13 * MINUTE);
    CU_ASSERT_EQUAL(zkl__slot_of(-MINUTE, 10 * MINUTE, 0), 0);
    CU_ASSERT_EQUAL(zkl__slot_of(-7 * MINUTE, 10 * MINUTE, 0), -10 * MINUTE);
}

/* Two daemons whose clocks differ by 300 ms either way, 100 slots: one run for each, none skipped, none doubled. */
static void test_two_daemons_with_different_clocks(void)
{
    for (int skew = -300; skew <= 300; skew += 50) {
        int64_t last = INT64_MIN;
        int runs = 0;
        for (int slot = 1; slot <= 100; slot++) {
            int64_t fires[2] = {slot * MINUTE, slot * MINUTE + skew};
            for (int host = 0; host < 2; host++) {
                int64_t due = zkl__slot_of(fires[(host + slot) % 2], MINUTE, 0);
                runs += due > last;
                last = due > last ? due : last;
            }
            CU_ASSERT_EQUAL(last, slot * MINUTE);
        }
        CU_ASSERT_EQUAL(runs, 100);
    }
}

static void test_records(void)
{
    int64_t value = 1;
    CU_ASSERT(zkl__slot_parse("", 0, &value) && value == INT64_MIN);
    CU_ASSERT(zkl__slot_parse("1795177931365", 13, &value) && value == 1795177931365);
    CU_ASSERT(!zkl__slot_parse("10 ", 3, &value));
    CU_ASSERT(!zkl__slot_parse("-1", 2, &value));
    CU_ASSERT(!zkl__slot_parse("held by", 7, &value));
    CU_ASSERT(!zkl__slot_parse("99999999999999999999", 20, &value));
}

/* A server may say anything about when a znode was made. */
static void test_no_calendar_has_it(void)
{
    CU_ASSERT(zkl__slot_of(INT64_MAX, MINUTE, 0) > 0);
    CU_ASSERT(zkl__slot_of(INT64_MIN, MINUTE, 0) < 0);
    CU_ASSERT(zkl__slot_of(INT64_MAX, MINUTE, MINUTE - 1) > 0);
    CU_ASSERT(zkl__slot_of(INT64_MIN, 1, 0) < 0);
}

/* A server may say what it likes: nothing overflows (undefined behaviour sanitizer). */
static void test_any_time(void)
{
    static const int64_t times[] = {INT64_MIN, INT64_MIN + 1, -1, 0, INT64_MAX - 1, INT64_MAX};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        int64_t slot = zkl__slot_of(times[i], 10 * MINUTE, 3 * MINUTE);
        CU_ASSERT_EQUAL((slot - 3 * MINUTE) % (10 * MINUTE), 0);
        CU_ASSERT(times[i] > 0 ? slot > 0 : slot <= 3 * MINUTE);
    }
}

TESTS("slot", T(test_round_times_are_in_the_middle), T(test_any_time), T(test_two_daemons_with_different_clocks),
      T(test_records), T(test_no_calendar_has_it))
