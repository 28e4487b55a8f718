#include "metrics.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "contend.h"
#include "newfile.h"

#define EVERY_MS 10000

const char *metrics_file;
_Atomic unsigned metrics_stops;
static int64_t next_ms; /* CLOCK_MONOTONIC: when to write again */
static bool failed;     /* which was said */

/* CMD is stopped while there is lease left, so the session counts a release where the job met a
 * loss. */
static void put_stops(char *out, size_t size, const char *text)
{
    /* The session's own label, as it stands in the first sample. */
    const char *sample = strstr(text, "\nzklock_connected");
    const char *label = sample ? strchr(sample, '{') : NULL;
    const char *end = label ? strstr(label, "} ") : NULL;
    int length = end ? (int)(end + 1 - label) : 0;
    snprintf(
        out, size,
        "# HELP zklock_command_stops_total Runs of CMD that were stopped since the lock was lost, "
        "or about to be.\n"
        "# TYPE zklock_command_stops_total counter\nzklock_command_stops_total%.*s %u\n",
        length, length ? label : "", atomic_load(&metrics_stops));
}

/* It may grow between the two calls. Every line has the label session="LOCK", as files of several
 * locks are collected together. */
char *metrics_text(void)
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
        length = zkl_stats_write_prometheus(contend.session, contend.name, text, (size_t)room / 2);
    } while (length >= room / 2);
    if (length < 0) {
        free(text);
        errno = ENOMEM;
        return NULL;
    }
    put_stops(text + length, (size_t)(room - length), text);
    return text;
}

bool metrics_write(void)
{
    if (!metrics_file || !contend.session) {
        return true;
    }
    next_ms = now_ms() + EVERY_MS;
    char *text = metrics_text();
    bool written = text && newfile_write(metrics_file, text);
    if (!written && !failed) {
        cli_error("--metrics %s: %s", metrics_file, newfile_reason());
    }
    failed = !written;
    free(text);
    return written;
}

void metrics_write_due(void)
{
    if (metrics_timeout(-1) == 0) {
        metrics_write();
    }
}

int metrics_timeout(int timeout_ms)
{
    if (!metrics_file) {
        return timeout_ms;
    }
    int64_t left = next_ms - now_ms();
    left = left > 0 ? left : 0;
    return timeout_ms >= 0 && timeout_ms < left ? timeout_ms : (int)left;
}
