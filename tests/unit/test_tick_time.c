/* What session timeouts say of the servers' tickTime, and the lease that one leaves. */
#include "check.h"
#include "options.h"
#include "tick_time.h"

#define MS INT64_C(1000000)

static void test_lease_check(void)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_error err = {0};
    CU_ASSERT_EQUAL(zkl__lease_check(&options, 10000 * MS, ZKL__HOPS_ONE, &err), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__lease_check(&options, 1000 * MS, ZKL__HOPS_ONE, &err), ZKL_EINVAL);
    options.tick_ms = options.leader_pause_ms = ZKL__DAY_MS; /* the largest numbers: still an answer */
    CU_ASSERT_EQUAL(zkl__lease_check(&options, 1, ZKL__HOPS_ONE, &err), ZKL_EINVAL);
    options.tick_ms = 1;
    options.leader_pause_ms = 0;
    CU_ASSERT_EQUAL(zkl__lease_check(&options, 100 * MS, ZKL__HOPS_ONE, &err), ZKL_OK);
}

static void test_tick_of_timeout(void)
{
    CU_ASSERT_EQUAL(zkl__tick_of_timeout(4000, 8000), 4000);
    CU_ASSERT_EQUAL(zkl__tick_of_timeout(90000, 60000), 3000);
    CU_ASSERT_EQUAL(zkl__tick_of_timeout(10000, 10000), 0);
}

TESTS("tick_time", T(test_lease_check), T(test_tick_of_timeout))
