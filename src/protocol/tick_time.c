#include "tick_time.h"

#include "error.h"
#include "options.h"

#define MS INT64_C(1000000)

int zkl__lease_check(const zkl_session_options *options, int64_t timeout, enum zkl__hops hops,
                     zkl_error *err)
{
    int64_t gap = options->tick_ms * MS / 2 + options->leader_pause_ms * MS;
    int64_t enough = timeout;
    while (zkl__lease_least(enough, gap, hops) < enough / 10) {
        enough += 100 * MS;
    }
    if (enough == timeout) {
        return ZKL_OK;
    }
    return zkl__fail(err, ZKL_EINVAL, 0, NULL,
                     "the session timeout of %lld ms (negotiated) leaves no lease with tick_ms "
                     "%lld and leader_pause_ms "
                     "%lld%s; %lld ms would do%s",
                     (long long)(timeout / MS), (long long)options->tick_ms,
                     (long long)options->leader_pause_ms,
                     hops == ZKL__HOPS_TWO ? " where an observer may follow a follower" : "",
                     (long long)((enough + MS - 1) / MS),
                     hops == ZKL__HOPS_TWO ? ", or observer_masters -1 (--observer-masters none) "
                                             "if no server has an observerMasterPort"
                                           : "");
}

int64_t zkl__tick_of_timeout(int64_t asked_ms, int64_t negotiated_ms)
{
    return negotiated_ms > asked_ms   ? negotiated_ms / 2
           : negotiated_ms < asked_ms ? negotiated_ms / 20
                                      : 0;
}
