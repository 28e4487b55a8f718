#include "metrics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "clock.h"
#include "newfile.h"

#define EVERY_MS 10000

/* CMD is stopped while there is lease left, so the session counts a release where the job met a
 * loss. */
static int put_stops(char *out, size_t size, const struct metrics *metrics, const char *text)
{
    /* The session's own label, as it stands in the first sample. */
    const char *sample = strstr(text, "\nzklock_connected");
    const char *label = sample ? strchr(sample, '{') : NULL;
    const char *end = label ? strstr(label, "} ") : NULL;
    int length = end ? (int)(end + 1 - label) : 0;
    return snprintf(
        out, size,
        "# HELP zklock_command_stops_total Runs of CMD that were stopped since the lock was lost, "
        "or about to be.\n"
        "# TYPE zklock_command_stops_total counter\nzklock_command_stops_total%.*s %u\n",
        length, length ? label : "", atomic_load(&metrics->stops));
}

/* It may grow between the two calls. */
char *metrics_text(const struct metrics *metrics, zkl_session *session)
{
    char *text = NULL;
    int64_t room = 0;
    int64_t length = 0;
    do {
        room = 2 * length + 8192; /* the stops repeat the label */
        char *larger = realloc(text, (size_t)room);
        if (!larger) {
            free(text);
            return NULL; /* errno: ENOMEM */
        }
        text = larger;
        length = zkl_stats_write_prometheus(session, metrics->name, text, (size_t)room / 2);
    } while (length >= room / 2);
    if (length < 0 || length >= room / 2) {
        free(text);
        errno = ENOMEM;
        return NULL;
    }
    put_stops(text + length, (size_t)(room - length), metrics, text);
    return text;
}

bool metrics_write(struct metrics *metrics, zkl_session *session)
{
    if (!metrics->file || !session) {
        return true;
    }
    metrics->next_ms = clock_ms(CLOCK_MONOTONIC) + EVERY_MS;
    char *text = metrics_text(metrics, session);
    bool written = text && newfile_write(metrics->file, text);
    if (!written && !metrics->failed) {
        cli_error("--metrics %s: %s", metrics->file, newfile_reason());
    }
    metrics->failed = !written;
    free(text);
    return written;
}

void metrics_look(struct metrics *metrics, zkl_session *session)
{
    if (metrics_timeout(metrics, -1) == 0) {
        metrics_write(metrics, session);
    }
}

int metrics_timeout(const struct metrics *metrics, int timeout_ms)
{
    if (!metrics->file) {
        return timeout_ms;
    }
    int64_t left = metrics->next_ms - clock_ms(CLOCK_MONOTONIC);
    left = left > 0 ? left : 0;
    return timeout_ms >= 0 && timeout_ms < left ? timeout_ms : (int)left;
}
