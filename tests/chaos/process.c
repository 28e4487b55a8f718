#include "process.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "wait.h"

struct process process = {.record = -1, .resource = -1};

void process_give_up(const char *what, const zkl_error *err)
{
    fprintf(stderr, "%s: %s: %s\n", process.name, what, err ? err->text : strerror(errno));
    abort();
}

zkl_session *process_open_session(int64_t connect_timeout_ms)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_session *session = NULL;
    zkl_error err;
    int code;
    options.tick_ms = process.tick_ms;
    options.session_timeout_ms = process.timeout_ms;
    options.connect_timeout_ms = connect_timeout_ms;
    do {
        code = zkl_session_open(&session, process.servers, &options, &err);
    } while (code == ZKL_ECONNECT && !atomic_load(&process.enough));
    if (code != ZKL_OK && code != ZKL_ECONNECT) {
        process_give_up("session", &err);
    }
    return code == ZKL_OK ? session : NULL;
}

bool process_calm(void)
{
    return atomic_load(&process.page->calm);
}

void process_settled(enum page_part part)
{
    atomic_fetch_or(&process.page->settled[process.number], part);
}

void process_note(const struct object *o, const struct history_line *line)
{
    for (int i = 0; i < o->path_count; i++) {
        struct history_line part = *line;
        char name[HISTORY_WORD];
        snprintf(name, sizeof name, i == 0 ? "%.40s" : "%.40s+%d", line->client, i);
        part.client = name;
        part.path = o->paths[i];
        history_write(process.record, &part);
    }
}

void process_note_done(const struct object *o, struct history_line line, int code, const zkl_grant *grant)
{
    if (code == ZKL_OK && grant && grant->unclean) {
        line.op = HISTORY_unclean;
        process_note(o, &line);
    }
    line.at = boot_ns();
    line.op = HISTORY_done;
    line.result = zkl_error_name(code);
    line.token = code == ZKL_OK && grant ? grant->token : 0;
    line.lease = code == ZKL_OK ? line.at + zkl_lock_remaining_ms(o->lock) * MS : 0;
    process_note(o, &line);
}

void process_write(const struct object *o, const char *client, int64_t session, int64_t token, bool stays)
{
    for (int i = 0; i < o->path_count; i++) {
        char text[128];
        int length = snprintf(text, sizeof text, "%s %s %" PRId64 " %" PRIx64 " %s", client, o->paths[i],
                              o->takes == o->of ? token : 0, (uint64_t)session, stays ? "stays" : "passes");
        while (send(process.resource, text, (size_t)length, 0) < 0) {
            if (errno != EINTR) {
                process_give_up("resource", NULL);
            }
        }
    }
}
