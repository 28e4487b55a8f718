#include "report.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "cli.h"

#define REPORT_VERSION 1

static bool complain(const char *file)
{
    cli_error("--report %s: %s", file, strerror(errno));
    return false;
}

bool report_check(const char *file)
{
    FILE *stream = fopen(file, "we");
    return stream && fclose(stream) == 0 ? true : complain(file);
}

static json_t *number(bool known, int64_t value)
{
    return known ? json_integer(value) : json_null();
}

static json_t *child(const struct report *report)
{
    bool killed = WIFSIGNALED(report->status);
    return json_pack("{s:o, s:o}", "exit", number(report->ran && !killed, WEXITSTATUS(report->status)), "signal",
                     number(report->ran && killed, WTERMSIG(report->status)));
}

bool report_write(const struct report *report, const char *file)
{
    bool granted = report->node != NULL;
    json_t *object =
        json_pack("{s:i, s:s, s:i, s:s, s:s?, s:s?, s:o, s:o, s:I, s:o}", "v", REPORT_VERSION, "outcome",
                  report->outcome, "exit_code", report->exit_code, "lock", report->lock, "path", report->path, "node",
                  report->node, "token", number(granted, report->token), "child", child(report), "wait_ms",
                  (json_int_t)report->wait_ms, "held_ms", number(granted, report->held_ms));
    FILE *stream = fopen(file, "we");
    bool written = stream && object && json_dumpf(object, stream, JSON_COMPACT | JSON_ENSURE_ASCII) == 0 &&
                   fputc('\n', stream) != EOF;
    written = stream && fclose(stream) == 0 && written;
    json_decref(object);
    return written ? true : complain(file);
}
