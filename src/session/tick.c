/* tick.c - what the servers' bounds on session timeouts tell about their tickTime. */
#include "inside.h"

#include "error.h"
#include "tick_time.h"

#define LOW_MS 1000 /* a client that gives up sooner may never be connected */
#define CLOSE_MS 1000

/* What the servers make of this timeout. The session holds nothing, so it needs no lease. */
static int negotiate(const char *servers, zkl_session_options *options, int64_t timeout_ms,
                     int64_t *negotiated_ms, zkl_error *err)
{
    zkl_session *session;
    options->session_timeout_ms = timeout_ms;
    options->tick_ms = 1;
    options->leader_pause_ms = 0;
    int rc = zkl_session_open(&session, servers, options, err);
    if (rc == ZKL_OK) {
        *negotiated_ms = zkl_session_timeout_ms(session);
        zkl_session_close(session, CLOSE_MS);
    }
    return rc;
}

int zkl_session_probe_tick(const char *servers, const zkl_session_options *options,
                           int64_t *tick_ms, zkl_error *err)
{
    zkl_session_options o;
    int64_t low_ms, high_ms;
    if (!servers || !tick_ms) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", servers ? "tick_ms" : "servers");
    }
    *tick_ms = 0;
    int rc = zkl__session_options_take(&o, options, err);
    rc = rc == ZKL_OK ? zkl__range_check("tick_ms", o.tick_ms, 1, ZKL__DAY_MS, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    int64_t asked_ms = o.tick_ms > LOW_MS ? o.tick_ms : LOW_MS;
    o.callbacks = ZKL_CALLBACKS_DISPATCH;
    o.state_fn = NULL;
    rc = negotiate(servers, &o, asked_ms, &low_ms, err);
    rc = rc == ZKL_OK ? negotiate(servers, &o, ZKL__DAY_MS, &high_ms, err) : rc;
    if (rc == ZKL_OK) {
        *tick_ms = zkl__tick_of_bounds(asked_ms, low_ms, high_ms);
    }
    return rc;
}
