/* prometheus.h - statistics as Prometheus reads them. */
#ifndef ZKL_SESSION_PROMETHEUS_H
#define ZKL_SESSION_PROMETHEUS_H

#include "stats.h"

/* As zkl_stats_write_prometheus. */
size_t zkl__stats_prometheus(const struct zkl__stats *stats, bool connected, const char *name,
                             char *out, size_t size);

#endif
