/* prometheus.c - statistics as Prometheus reads them: all samples of a name stand together, behind
 * its HELP and TYPE. */
#include "stats.h"
#include "text.h"

#include <zklock/version.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LABEL_MAX                                                                                 \
    (2 * 4 * ZKL_PATH_MAX) /* every byte escaped for terminals, every backslash of that once more \
                            */

struct text {
    char *out;
    size_t size, length;
    char session[LABEL_MAX]; /* "session=\"name\"", or nothing */
};

__attribute__((format(printf, 2, 3))) static void put(struct text *text, const char *format, ...)
{
    size_t room = text->length < text->size ? text->size - text->length : 0;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(room ? text->out + text->length : NULL, room, format, args);
    va_end(args);
    text->length += length > 0 ? (size_t)length : 0;
}

/* name="value", in which backslash and quote are escaped; what moves a terminal or is no UTF-8 has
 * become \xNN before. */
static void label(char *out, size_t size, const char *name, const char *value)
{
    char plain[4 * ZKL_PATH_MAX];
    zkl__text_escape(plain, sizeof plain, value);
    size_t at = (size_t)snprintf(out, size, "%s=\"", name);
    for (const char *in = plain; *in && at + 4 < size; in++) {
        if (*in == '\\' || *in == '"') {
            out[at++] = '\\';
        }
        out[at++] = *in;
    }
    snprintf(out + at, size - at, "\"");
}

static void put_head(struct text *text, const char *name, const char *type, const char *help)
{
    put(text, "# HELP zklock_%s %s\n# TYPE zklock_%s %s\n", name, help, name, type);
}

/* The name of a sample with its labels; more: one label besides the session's, or "". */
static void put_name(struct text *text, const char *name, const char *suffix, const char *more)
{
    const char *comma = text->session[0] && more[0] ? "," : "";
    bool any = text->session[0] || more[0];
    put(text, "zklock_%s%s%s%s%s%s%s ", name, suffix, any ? "{" : "", text->session, comma, more,
        any ? "}" : "");
}

static void put_seconds(struct text *text, uint64_t us)
{
    put(text, "%" PRIu64 ".%06" PRIu64 "\n", us / 1000000, us % 1000000);
}

/* --- tables of what there is ----------------------------------------------------------------- */

enum unit { NUMBER, MICROSECONDS };

struct metric {
    const char *name, *type, *help;
    size_t offset; /* of an uint64_t */
    enum unit unit;
};

#define COUNTER(name, field, help)                                          \
    {                                                                       \
        name, "counter", help, offsetof(zkl_contender_stats, field), NUMBER \
    }
#define GAUGE(name, field, help)                                          \
    {                                                                     \
        name, "gauge", help, offsetof(zkl_contender_stats, field), NUMBER \
    }
#define TIME(name, field, help)                                                   \
    {                                                                             \
        name, "counter", help, offsetof(zkl_contender_stats, field), MICROSECONDS \
    }
static const struct metric contender_metrics[] = {
    COUNTER("waits_total", waits, "Acquires begun."),
    COUNTER("grants_total", grants, "Acquires that ended with a grant."),
    COUNTER("wait_timeouts_total", timeouts, "Acquires that ended by their deadline."),
    COUNTER("wait_busy_total", busy, "Tries that found somebody before them."),
    COUNTER("wait_cancels_total", cancels, "Acquires that were cancelled."),
    COUNTER("wait_failures_total", failures, "Acquires that ended by any other error."),
    COUNTER("requeues_total", requeues, "Times that a waiter had to go to the tail again."),
    COUNTER("releases_total", releases, "Holds that were protected up to their release."),
    COUNTER("losses_total", losses, "Holds whose protection ended before their release."),
    TIME("waited_seconds_total", wait_us, "Time from acquire to grant, of all grants together."),
    TIME("held_seconds_total", hold_us,
         "Time from grant to release or loss, of all ended holds together."),
    GAUGE("waiting", waiting, "Acquires that wait now."),
    GAUGE("held", held, "Grants that are held now."),
    GAUGE("removing", removing, "Contenders given up whose znodes may still be there."),
};

#define OF_SESSION(name, field, help)                             \
    {                                                             \
        name, "counter", help, offsetof(zkl_stats, field), NUMBER \
    }
static const struct metric session_metrics[] = {
    OF_SESSION("sessions_total", sessions,
               "Sessions that the servers gave us, one after the other."),
    OF_SESSION("session_expiries_total", expiries, "Sessions that the servers ended."),
    OF_SESSION("suspensions_total", suspensions, "Connections lost."),
    OF_SESSION("reconnects_total", reconnects, "Connections made again within a session."),
    OF_SESSION("requests_total", requests, "Requests sent to the servers."),
    OF_SESSION("heartbeats_total", heartbeats, "Heartbeats sent for holders."),
    OF_SESSION("requests_unanswered_total", unanswered,
               "Requests whose connection went before the answer came."),
    OF_SESSION("watch_events_total", watches, "Events that a watch told."),
};

static void put_sample(struct text *text, const char *name, const char *more,
                       const struct metric *metric, const void *counts)
{
    uint64_t value;
    memcpy(&value, (const char *)counts + metric->offset, sizeof value);
    put_name(text, name, "", more);
    if (metric->unit == MICROSECONDS) {
        put_seconds(text, value);
    } else {
        put(text, "%" PRIu64 "\n", value);
    }
}

static void put_metrics(struct text *text, const struct metric *metrics, size_t count,
                        const void *counts)
{
    for (size_t i = 0; i < count; i++) {
        put_head(text, metrics[i].name, metrics[i].type, metrics[i].help);
        put_sample(text, metrics[i].name, "", &metrics[i], counts);
    }
}

static void put_paths(struct text *text, const struct metric *metric,
                      const struct zkl__stats *stats)
{
    char name[64], path[LABEL_MAX];
    snprintf(name, sizeof name, "path_%s", metric->name);
    put_head(text, name, metric->type, metric->help);
    for (const struct zkl__path_stats *row = stats->paths; row; row = row->next) {
        label(path, sizeof path, "path", row->path);
        put_sample(text, name, path, metric, &row->counts);
    }
    if (stats->others.counts.waits > 0) {
        put_sample(text, name, "path=\"other\"", metric, &stats->others.counts);
    }
}

static void put_histogram(struct text *text, const char *name, const char *help,
                          const zkl_histogram *histogram)
{
    uint64_t below = 0;
    put_head(text, name, "histogram", help);
    for (size_t i = 0; i < ZKL_HISTOGRAM_BUCKETS; i++) {
        uint64_t bound = zkl__histogram_bound_us(i);
        char le[48] = "le=\"+Inf\"";
        if (bound > 0) {
            snprintf(le, sizeof le, "le=\"%" PRIu64 ".%06" PRIu64 "\"", bound / 1000000,
                     bound % 1000000);
        }
        below += histogram->buckets[i];
        put_name(text, name, "_bucket", le);
        put(text, "%" PRIu64 "\n", below);
    }
    put_name(text, name, "_sum", "");
    put_seconds(text, histogram->sum_us);
    put_name(text, name, "_count", "");
    put(text, "%" PRIu64 "\n", histogram->count);
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

size_t zkl__stats_prometheus(const struct zkl__stats *stats, bool connected, const char *name,
                             char *out, size_t size)
{
    const zkl_stats *all = &stats->all;
    struct text text = {.out = out, .size = size};
    if (name) {
        label(text.session, sizeof text.session, "session", name);
    }
    put_head(&text, "connected", "gauge", "1 while the session talks to a server.");
    put_name(&text, "connected", "", "");
    put(&text, "%d\n", connected);
    put_metrics(&text, session_metrics, COUNT(session_metrics), all);
    put_metrics(&text, contender_metrics, COUNT(contender_metrics), &all->contenders);
    put_histogram(&text, "wait_seconds", "From acquire to grant.", &all->wait);
    put_histogram(&text, "hold_seconds", "From grant to release or loss.", &all->hold);
    put_histogram(&text, "request_seconds", "From a request to its answer.", &all->request);
    put_histogram(&text, "lease_slack_seconds",
                  "What was left of a holder's lease when it was renewed or ended.", &all->slack);
    for (size_t i = 0; i < COUNT(contender_metrics); i++) {
        put_paths(&text, &contender_metrics[i], stats);
    }
    put_head(&text, "build_info", "gauge", "1; the label is the library's version.");
    put_name(&text, "build_info", "", "version=\"" ZKL_VERSION "\"");
    put(&text, "1\n");
    return text.length;
}
