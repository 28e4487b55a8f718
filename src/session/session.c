/* session.c - the session as its user sees it: callbacks, facts. */

#include "shell.h"

/* === the session ============================================================================== */

/* --- callbacks ------------------------------------------------------------------------------- */

int zkl_session_fd(zkl_session *session)
{
    int fd = -1;
    if (session && zkl__session_enter_even_closed(session, NULL) == ZKL_OK) {
        fd = zkl__callbacks_fd(&session->callbacks);
        zkl__session_leave(session);
    }
    return fd;
}

int zkl_session_dispatch(zkl_session *session)
{
    if (!session) {
        return ZKL_EINVAL;
    }
    if (zkl__session_forked(session)) {
        return ZKL_EFORKED;
    }
    zkl__session_retain(session); /* its last callback may run in the loop, and free it */
    zkl__loop_go_on();
    int rc = zkl__session_enter_even_closed(session, NULL);
    if (rc == ZKL_OK) {
        struct zkl__callbacks *callbacks = &session->callbacks;
        rc = callbacks->dispatched ? zkl__callbacks_dispatch(callbacks) : ZKL_EUNSUPPORTED;
        rc = rc >= 0 && callbacks->stop ? ZKL_ECLOSED : rc;
        zkl__session_leave(session);
    }
    if (rc != ZKL_EFORKED) { /* a callback forked: the child frees nothing */
        zkl__session_drop(session);
    }
    return rc;
}

/* --- facts: none of a closed session, nor in a child of fork --------------------------------- */

static int64_t fact(zkl_session *session, int64_t (*get)(const struct zkl__core *core),
                    int64_t unit)
{
    if (!session || zkl__session_enter(session, NULL) != ZKL_OK) {
        return 0;
    }
    int64_t value = get(session->core) / unit;
    zkl__session_leave(session);
    return value;
}

zkl_connection_state zkl_session_state(zkl_session *session)
{
    zkl_connection_state state = ZKL_SESSION_CLOSED;
    if (session && zkl__session_enter(session, NULL) == ZKL_OK) {
        state = session->status.state;
        zkl__session_leave(session);
    }
    return state;
}

int64_t zkl_session_id(zkl_session *session)
{
    return fact(session, zkl__core_session_id, 1);
}

int64_t zkl_session_timeout_ms(zkl_session *session)
{
    return fact(session, zkl__core_timeout, ZKL__MS);
}

int64_t zkl_session_least_lease_ms(zkl_session *session)
{
    return fact(session, zkl__core_least_lease, ZKL__MS);
}

int64_t zkl_session_low_lease_ms(zkl_session *session)
{
    int64_t low = fact(session, zkl__core_low_lease, ZKL__MS);
    return low > 0 ? low : 0;
}

/* === statistics =============================================================================== */

/* What has been counted, for the user. */

ZKL__SIZED(sized, zkl_stats, ZKL_STATS_INIT, watches, watches);

int zkl_session_stats(zkl_session *session, zkl_stats *stats)
{
    if (!session || !stats) {
        return ZKL_EINVAL;
    }
    int rc = zkl__session_enter_even_closed(session, NULL);
    if (rc == ZKL_OK) {
        rc = zkl__sized_give(stats, &zkl__core_stats(session->core)->all, &sized, NULL);
        zkl__session_leave(session);
    }
    return rc;
}

int zkl_session_path_stats(zkl_session *session, zkl_session_path_stats_fn visit, void *payload)
{
    if (!session || !visit) {
        return ZKL_EINVAL;
    }
    int count = zkl__session_enter_even_closed(session, NULL);
    if (count != ZKL_OK) {
        return count;
    }
    const struct zkl__stats *stats = zkl__core_stats(session->core);
    for (const struct zkl__path_stats *row = stats->paths; row; row = row->next) {
        visit(row->path, &row->counts, payload);
        count++;
    }
    if (stats->others.counts.waits > 0) {
        visit(NULL, &stats->others.counts, payload);
        count++;
    }
    zkl__session_leave(session);
    return count;
}

int64_t zkl_stats_write_prometheus(zkl_session *session, const char *name, char *out, size_t size)
{
    if (!session || (!out && size > 0)) {
        return ZKL_EINVAL;
    }
    int rc = zkl__session_enter_even_closed(session, NULL);
    if (rc != ZKL_OK) {
        return rc;
    }
    const struct zkl__core *core = session->core;
    size_t length =
        zkl__stats_prometheus(zkl__core_stats(core), zkl__core_connected(core), name, out, size);
    zkl__session_leave(session);
    return (int64_t)length;
}
