/* statistics.c - what has been counted, for the user: as numbers, and as text. */
#include "shell.h"

#include <zklock/version.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* === numbers ================================================================================== */

ZKL__SIZED(sized, zkl_stats, ZKL_STATS_INIT, watches, watches);

int zkl_session_stats(zkl_session *session, zkl_stats *stats)
{
    if (!session || !stats) {
        return ZKL_EINVAL;
    }
    if (!zkl__session_enter_if_ours(session)) {
        return ZKL_EFORKED;
    }
    int rc = zkl__sized_give(stats, &zkl__core_facts(session->core).stats->all, &sized, NULL);
    zkl__session_leave(session);
    return rc;
}

int zkl_session_path_stats(zkl_session *session, zkl_session_path_stats_fn visit, void *payload)
{
    if (!session || !visit) {
        return ZKL_EINVAL;
    }
    int count = 0;
    if (!zkl__session_enter_if_ours(session)) {
        return ZKL_EFORKED;
    }
    const struct zkl__stats *stats = zkl__core_facts(session->core).stats;
    for (const struct zkl__path_stats *row = stats->paths; row; row = row->next) {
        if (row->path || row->counts.waits > 0) {
            visit(row->path, &row->counts, payload);
            count++;
        }
    }
    zkl__session_leave(session);
    return count;
}

/* === text ===================================================================================== */

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
    type = strcmp(type, "seconds") == 0 ? "counter" : type;
    put(text, "# HELP zklock_%s %s\n# TYPE zklock_%s %s\n", name, help, name, type);
}

/* more: one label besides the session's, or "". */
static void put_sample(struct text *text, const char *name, const char *type, const char *more,
                       uint64_t value)
{
    const char *comma = text->session[0] && more[0] ? "," : "";
    bool any = text->session[0] || more[0];
    put(text, "zklock_%s%s%s%s%s%s ", name, any ? "{" : "", text->session, comma, more,
        any ? "}" : "");
    if (strcmp(type, "seconds") == 0) {
        put(text, "%" PRIu64 ".%06" PRIu64 "\n", value / 1000000, value % 1000000);
    } else {
        put(text, "%" PRIu64 "\n", value);
    }
}

static void put_total(struct text *text, const char *name, const char *type, const char *help,
                      uint64_t value)
{
    put_head(text, name, type, help);
    put_sample(text, name, type, "", value);
}

/* All samples of a name stand together, behind its head. offset: of a count. */
static void put_paths(struct text *text, const struct zkl__stats *stats, const char *name,
                      const char *type, const char *help, size_t offset)
{
    put_head(text, name, type, help);
    for (const struct zkl__path_stats *row = stats->paths; row; row = row->next) {
        char path[LABEL_MAX];
        uint64_t value;
        if (row->path || row->counts.waits > 0) {
            label(path, sizeof path, "path", row->path ? row->path : "other");
            memcpy(&value, (const char *)&row->counts + offset, sizeof value);
            put_sample(text, name, type, path, value);
        }
    }
}

static void put_histogram(struct text *text, const char *name, const char *help,
                          const zkl_histogram *histogram)
{
    uint64_t below = 0;
    char whole[64];
    put_head(text, name, "histogram", help);
    snprintf(whole, sizeof whole, "%s_bucket", name);
    for (size_t i = 0; i < ZKL_HISTOGRAM_BUCKETS; i++) {
        uint64_t bound = zkl__histogram_bound_us(i);
        char le[48] = "le=\"+Inf\"";
        if (bound > 0) {
            snprintf(le, sizeof le, "le=\"%" PRIu64 ".%06" PRIu64 "\"", bound / 1000000,
                     bound % 1000000);
        }
        below += histogram->buckets[i];
        put_sample(text, whole, "counter", le, below);
    }
    snprintf(whole, sizeof whole, "%s_sum", name);
    put_sample(text, whole, "seconds", "", histogram->sum_us);
    snprintf(whole, sizeof whole, "%s_count", name);
    put_sample(text, whole, "counter", "", histogram->count);
}

int64_t zkl_stats_write_prometheus(zkl_session *session, const char *name, char *out, size_t size)
{
    if (!session || (!out && size > 0)) {
        return ZKL_EINVAL;
    }
    if (!zkl__session_enter_if_ours(session)) {
        return ZKL_EFORKED;
    }
    const struct zkl__stats *stats = zkl__core_facts(session->core).stats;
    const zkl_stats *all = &stats->all;
    struct text text = {.out = out, .size = size};
    if (name) {
        label(text.session, sizeof text.session, "session", name);
    }
    put_total(&text, "connected", "gauge", "1 while the session talks to a server.",
              zkl__core_facts(session->core).connected);
#define OF_SESSION(field, type, metric, help) put_total(&text, metric, type, help, all->field);
#define OF_CONTENDERS(field, type, metric, help) \
    put_total(&text, metric, type, help, all->contenders.field);
#define OF_PATHS(field, type, metric, help) \
    put_paths(&text, stats, "path_" metric, type, help, offsetof(zkl_contender_stats, field));
    ZKL_SESSION_STATS(OF_SESSION)
    ZKL_CONTENDER_STATS(OF_CONTENDERS)
    put_histogram(&text, "wait_seconds", "From acquire to grant.", &all->wait);
    put_histogram(&text, "hold_seconds", "From grant to release or loss.", &all->hold);
    put_histogram(&text, "request_seconds", "From a request to its response.", &all->request);
    put_histogram(&text, "lease_slack_seconds",
                  "What was left of a holder's lease when it was renewed or ended.", &all->slack);
    ZKL_CONTENDER_STATS(OF_PATHS)
    put_head(&text, "build_info", "gauge", "1; the label is the library's version.");
    put_sample(&text, "build_info", "gauge", "version=\"" ZKL_VERSION "\"", 1);
    zkl__session_leave(session);
    return (int64_t)text.length;
}
