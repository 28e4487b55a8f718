#include "chosen.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contend.h"
#include "options.h"
#include "queues.h"

bool chosen_take_token(struct chosen *chosen, const char *value)
{
    char *end;
    chosen->token = strtoll(value, &end, 10);
    bool fine = chosen->token > 0 && !*end;
    if (!fine) {
        cli_error("--token: '%s' is none; 'zklock ls' shows them", value);
    }
    return fine;
}

/* Sets entry when it is only one; returns how many are meant. */
static size_t choose(struct chosen *chosen)
{
    size_t meant = 0;
    for (size_t i = 0; i < chosen->queue->count; i++) {
        const zkl_queue_entry *entry = &chosen->queue->entries[i];
        if (chosen->token ? entry->token == chosen->token : entry->holds) {
            chosen->entry = entry;
            meant++;
        }
    }
    return meant;
}

static void forget(struct chosen *chosen)
{
    if (chosen->queue) {
        zkl_queue_free(chosen->queue);
    }
    chosen->queue = NULL;
    chosen->entry = NULL;
}

/* Of a semaphore a token may be a waiter's, too. */
static int look_again(struct chosen *chosen, zkl_session *session, const char *path)
{
    size_t length = strlen(path);
    if (!chosen->token || choose(chosen) > 0 || strcmp(chosen->path + length, "/leases") != 0) {
        return CLI_GO_ON;
    }
    forget(chosen);
    snprintf(chosen->path + length, sizeof chosen->path - length, "/locks");
    return queues_list(&chosen->queue, session, chosen->path);
}

static int find(struct chosen *chosen, zkl_session *session, const char *path)
{
    int code =
        queues_list_holders(&chosen->queue, session, path, chosen->path, sizeof chosen->path);
    if (code == CLI_GO_ON) {
        code = look_again(chosen, session, path);
    }
    size_t meant = code == CLI_GO_ON ? choose(chosen) : 1;
    if (meant == 0) {
        cli_note(chosen->cli,
                 chosen->token ? "\"%s\": no contender has this token" : "\"%s\": nobody holds it",
                 chosen->name);
        return EXIT_NOBODY;
    }
    if (meant > 1) {
        queues_print(stderr, chosen->path, chosen->queue);
        cli_error("\"%s\" is held by several: say with --token which one to %s", chosen->name,
                  chosen->verb);
        return EXIT_FAILED;
    }
    return code;
}

void chosen_show(const struct chosen *chosen)
{
    const zkl_queue_entry *entry = chosen->entry;
    char age[32];
    char who[256];
    char session[32];
    queues_session(entry, session, sizeof session);
    queues_age(queues_age_ms(entry), age, sizeof age);
    queues_who(entry, who, sizeof who);
    const char *what = entry->holds ? "holds" : entry->forged ? "stray" : "waits";
    cli_line(stderr, CLI_FOLD, "%s", chosen->path);
    if (entry->readable) {
        cli_line(stderr, CLI_FOLD, "  who      %s, %s for %s", who, what, age);
        cli_line(stderr, CLI_FOLD, "  session  %s", session);
        cli_line(stderr, CLI_FOLD, "  token    %" PRId64, entry->token);
    } else {
        cli_line(stderr, CLI_FOLD, "  who      (not readable), %s", what);
    }
    cli_line(stderr, CLI_FOLD, "  znode    %s", entry->name);
}

int chosen_act(struct chosen *chosen, int (*act)(const struct chosen *chosen, zkl_session *session))
{
    zkl_session *session;
    char *path = cli_lock_path(chosen->name);
    int code = path ? cli_connect(chosen->cli, QUEUES_LIST_MS, &session) : EXIT_FAILED;
    if (code == CLI_GO_ON) {
        code = find(chosen, session, path);
        code = code == CLI_GO_ON ? act(chosen, session) : code;
        forget(chosen);
        zkl_session_close(session, QUEUES_LIST_MS);
    }
    free(path);
    return code;
}
