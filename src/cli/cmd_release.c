/* cmd_release.c - an operator removes a holder that is stuck. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "contend.h"
#include "options.h"
#include "queues.h"

enum { OPTION_FORCE = OPTION_FIRST_OWN, OPTION_YES, OPTION_TOKEN };

static const struct poptOption options[] = {
    OPTION_FLAG("force", 'f', OPTION_FORCE, "required: it is removed from outside, not released"),
    OPTION_FLAG("yes", 'y', OPTION_YES, "do not ask; for scripts"),
    OPTION_VALUE("token", '\0', OPTION_TOKEN, "this contender, holding or waiting, as 'zklock ls' shows it", "TOKEN"),
    OPTION_END,
};

struct release {
    struct cli *cli;
    const char *name; /* LOCK as it was typed */
    bool force, yes;
    int64_t token; /* 0: whoever holds */
    char path[ZKL_PATH_MAX + 16];
    zkl_queue *queue;
};

static bool take(void *into, int option, const char *value)
{
    struct release *release = into;
    char *end;
    switch (option) {
    case OPTION_FORCE:
        release->force = true;
        return true;
    case OPTION_YES:
        release->yes = true;
        return true;
    default:
        release->token = strtoll(value, &end, 10);
        if (release->token <= 0 || *end) {
            cli_error("--token: '%s' is none; 'zklock ls' shows them", value);
        }
        return release->token > 0 && !*end;
    }
}

/* Index of the only one that is meant; the queue's count when there is none, SIZE_MAX when there are several. */
static size_t choose(const struct release *release)
{
    const zkl_queue *queue = release->queue;
    size_t chosen = queue->count;
    for (size_t i = 0; i < queue->count; i++) {
        bool meant = release->token ? queue->entries[i].token == release->token : queue->entries[i].holds;
        if (meant && chosen < queue->count) {
            return SIZE_MAX;
        }
        chosen = meant ? i : chosen;
    }
    return chosen;
}

static void show(const struct release *release, size_t index)
{
    const zkl_queue_entry *entry = &release->queue->entries[index];
    char age[32];
    char who[256];
    char session[32];
    queues_session(entry, session, sizeof session);
    queues_age(queues_age_ms(entry), age, sizeof age);
    queues_who(entry, who, sizeof who);
    const char *what = entry->holds ? "holds" : entry->forged ? "stray" : "waits";
    cli_line(stderr, CLI_FOLD, "%s", release->path);
    if (entry->readable) {
        cli_line(stderr, CLI_FOLD, "  who      %s, %s for %s", who, what, age);
        cli_line(stderr, CLI_FOLD, "  session  %s", session);
        cli_line(stderr, CLI_FOLD, "  token    %" PRId64, entry->token);
    } else {
        cli_line(stderr, CLI_FOLD, "  who      (not readable), %s", what);
    }
    cli_line(stderr, CLI_FOLD, "  znode    %s", entry->name);
}

/* No terminal, no answer: that must have been said with --yes. */
static bool ask_user(void)
{
    char answer[16] = "";
    fputs("The next in the queue is let in at once; this one is told with its next heartbeat, so for that\n"
          "moment both may be at work. Remove it? [y/N] ",
          stderr);
    bool said = fgets(answer, sizeof answer, stdin) != NULL;
    if (!said) {
        fputc('\n', stderr);
    }
    return said && (strcasecmp(answer, "y\n") == 0 || strcasecmp(answer, "yes\n") == 0);
}

static int remove_one(const struct release *release, zkl_session *session, size_t index)
{
    const zkl_queue_entry *entry = &release->queue->entries[index];
    zkl_error error;
    int result = zkl_queue_remove(session, release->path, entry->name, entry->token, QUEUES_LIST_MS, &error);
    if (result == ZKL_ENOTHELD) {
        cli_note(release->cli, "\"%s\": it has gone by itself meanwhile", release->name);
        return EXIT_NOBODY;
    }
    if (result != ZKL_OK) {
        return queues_complain(release->path, result, &error);
    }
    if (release->cli->json) {
        json_t *removed = json_pack("{s:i, s:s, s:s, s:o}", "v", QUEUES_VERSION, "event", "removed", "path",
                                    release->path, "contender", queues_entry_json(release->queue, index));
        return queues_print_json(removed) ? EXIT_DONE : EXIT_FAILED;
    }
    cli_note(release->cli, "\"%s\": removed", release->name);
    return EXIT_DONE;
}

/* The contender is in the list: show it, ask, remove it. */
static int consider(const struct release *release, zkl_session *session)
{
    size_t index = choose(release);
    if (index == release->queue->count) {
        cli_note(release->cli, release->token ? "\"%s\": no contender has this token" : "\"%s\": nobody holds it",
                 release->name);
        return EXIT_NOBODY;
    }
    if (index == SIZE_MAX) {
        queues_print(stderr, release->path, release->queue);
        cli_error("\"%s\" is held by several: say with --token which one to remove", release->name);
        return EXIT_FAILED;
    }
    if (!release->yes || !release->cli->quiet) {
        show(release, index);
    }
    if (!release->yes && !ask_user()) {
        cli_note(release->cli, "nothing was removed");
        return EXIT_NOBODY;
    }
    return remove_one(release, session, index);
}

/* Of a semaphore a token may be a waiter's, too. */
static int look_again(struct release *release, zkl_session *session, const char *path)
{
    size_t length = strlen(path);
    if (!release->token || choose(release) < release->queue->count || strcmp(release->path + length, "/leases") != 0) {
        return CLI_GO_ON;
    }
    zkl_queue_free(release->queue);
    strcpy(release->path + length, "/locks");
    return queues_list(&release->queue, session, release->path);
}

static int list_and_release(struct release *release, zkl_session *session, const char *path)
{
    int code = queues_list_holders(&release->queue, session, path, release->path, sizeof release->path);
    if (code == CLI_GO_ON) {
        code = look_again(release, session, path);
    }
    if (code == CLI_GO_ON) {
        code = consider(release, session);
        zkl_queue_free(release->queue);
    }
    return code;
}

static int connect_and_release(struct release *release)
{
    zkl_session *session;
    char *path = cli_lock_path(release->name);
    int code = path ? cli_connect(release->cli, QUEUES_LIST_MS, &session) : EXIT_FAILED;
    if (code == CLI_GO_ON) {
        code = list_and_release(release, session, path);
        zkl_session_close(session, QUEUES_LIST_MS);
    }
    free(path);
    return code;
}

static int run(struct cli *cli, const struct cli_command *self, int argc, const char **argv)
{
    struct release release = {.cli = cli};
    int count;
    const char **words;
    int code = cli_parse(cli, self, argc, argv, take, &release, &count, &words);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (count != 1) {
        return cli_usage("release", "release: which lock? One, please");
    }
    if (!release.force) {
        return cli_usage("release",
                         "release: a lock is released by its holder; --force removes the holder from outside");
    }
    if (!release.yes && !isatty(STDIN_FILENO)) {
        return cli_usage("release", "release: standard input is no terminal to ask on; --yes does without");
    }
    release.name = words[0];
    return connect_and_release(&release);
}

const struct cli_command cmd_release = {
    .name = "release",
    .run = run,
    .arguments = "LOCK",
    .summary = "remove a holder that is stuck: operators only",
    .examples = "  zklock release --force backup              # shows whom, asks\n"
                "  zklock release --force --yes backup        # for scripts\n"
                "  zklock release --force --token 4711 render # one of several\n",
    .notes = "The holder's znode is deleted: exactly the one that was shown. A zklock that\n"
             "held by it is told with its next heartbeat, stops its CMD and ends with 120;\n"
             "the next one does not wait for that. So for a moment two may be at work: where\n"
             "that matters, stop the holder itself. Its process is gone? Then its place is\n"
             "free after its session timeout, without this.\n\n"
             "Exit codes: 0 removed; 1 nothing was removed (nobody held it, or you said no);\n"
             "121 access refused; 122 no ensemble reached; 125 usage or own failure.\n",
    .options = options,
};
