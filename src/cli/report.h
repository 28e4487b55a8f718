/* report.h - --report FILE: what happened, as one JSON object, for wrappers that must not guess
 * from an exit code. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <stdbool.h>
#include <stdint.h>

struct report {
    const char *outcome; /* ran, revoked, done, busy, lost, unreachable, denied, signal, error */
    const char *lock;    /* as it was typed */
    const char *path;
    const char *node; /* NULL: never granted; then no token, no times of holding */
    int64_t token;
    int64_t queued_at_ms; /* this and the next two: ms since 1970, by the clock here */
    int64_t granted_at_ms, ended_at_ms;
    int64_t wait_ms;
    int64_t held_ms;
    bool ran; /* CMD did; status is its wait status */
    int status;
    int exit_code;
    const char *reason; /* why it did not end well; NULL: it did */
};

/* Tries whether the file can be written: that is better known before the wait. Says why not. */
bool report_check(const char *file);
/* Says why not, too. */
bool report_write(const struct report *report, const char *file);

#endif
