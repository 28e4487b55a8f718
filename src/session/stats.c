/* stats.c - what has been counted, for the user. */
#include "shell.h"

#include "error.h"
#include "prometheus.h"
#include "sized.h"
#include "stats.h"

#include <zklock/stats.h>

ZKL__SIZED(sized, zkl_stats, ZKL_STATS_INIT, watches, watches);

int zkl_session_stats(zkl_session *session, zkl_stats *stats)
{
    if (!session || !stats) {
        return ZKL_EINVAL;
    }
    int rc = zkl__session_enter_even_closed(session, NULL);
    if (rc == ZKL_OK) {
        rc =
            zkl__sized_give(stats, &zkl__core_stats(zkl__session_core(session))->all, &sized, NULL);
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
    const struct zkl__stats *stats = zkl__core_stats(zkl__session_core(session));
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
    const struct zkl__core *core = zkl__session_core(session);
    size_t length =
        zkl__stats_prometheus(zkl__core_stats(core), zkl__core_connected(core), name, out, size);
    zkl__session_leave(session);
    return (int64_t)length;
}
