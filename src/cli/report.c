#include "report.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "cli.h"
#include "identity.h"
#include "newfile.h"

#define REPORT_VERSION 1

static bool complain(const char *file)
{
    cli_error("--report %s: %s", file, newfile_reason());
    return false;
}

bool report_check(const char *file)
{
    return newfile_check(file) || complain(file);
}

static json_t *number(bool known, int64_t value)
{
    return known ? json_integer(value) : json_null();
}

static json_t *child(const struct report *report)
{
    bool killed = WIFSIGNALED(report->status);
    return json_pack("{s:o, s:o}", "exit",
                     number(report->ran && !killed, WEXITSTATUS(report->status)), "signal",
                     number(report->ran && killed, WTERMSIG(report->status)));
}

static void add_circumstances(json_t *object, const struct report *report)
{
    char who[512];
    struct identity own;
    bool granted = report->node != NULL;
    identity_own(&own);
    identity_format(&own, who, sizeof who);
    json_object_set_new(object, "who", json_string(who));
    json_object_set_new(object, "queued_at_ms", number(true, report->queued_at_ms));
    json_object_set_new(object, "granted_at_ms", number(granted, report->granted_at_ms));
    json_object_set_new(object, "ended_at_ms", number(granted, report->ended_at_ms));
    json_object_set_new(object, "reason",
                        report->reason ? json_string(report->reason) : json_null());
}

bool report_write(const struct report *report, const char *file)
{
    bool granted = report->node != NULL;
    json_t *object = json_pack(
        "{s:i, s:s, s:i, s:s, s:s?, s:s?, s:o, s:o, s:I, s:o}", "v", REPORT_VERSION, "outcome",
        report->outcome, "exit_code", report->exit_code, "lock", report->lock, "path", report->path,
        "node", report->node, "token", number(granted, report->token), "child", child(report),
        "wait_ms", (json_int_t)report->wait_ms, "held_ms", number(granted, report->held_ms));
    add_circumstances(object, report);
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    char *line = NULL;
    bool made = text && asprintf(&line, "%s\n", text) > 0;
    errno = made ? 0 : ENOMEM;
    bool written = (made && newfile_write(file, line)) || complain(file);
    free(made ? line : NULL);
    free(text);
    json_decref(object);
    return written;
}
