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

/* It may grow between the two calls. */
char *metrics_text(zkl_session *session, const char *name)
{
    char *text = NULL;
    int64_t room = 0;
    int64_t length = 0;
    do {
        room = length + 4096;
        char *larger = realloc(text, (size_t)room);
        if (!larger) {
            break;
        }
        text = larger;
        length = zkl_stats_write_prometheus(session, name, text, (size_t)room);
    } while (length >= room);
    if (length < 0 || length >= room) {
        free(text);
        errno = ENOMEM;
        return NULL;
    }
    return text;
}

bool metrics_write(struct metrics *metrics, zkl_session *session)
{
    if (!metrics->file || !session) {
        return true;
    }
    metrics->next_ms = clock_ms(CLOCK_MONOTONIC) + EVERY_MS;
    char *text = metrics_text(session, metrics->name);
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
