/* cmd_check.c - is the lock held: for probes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"
#include "identity.h"
#include "options.h"
#include "queues.h"

enum { OPTION_IS_ME = OPTION_FIRST_OWN };

static const struct poptOption options[] = {
    OPTION_FLAG("is-me", '\0', OPTION_IS_ME, "does a process of this user on this host hold it?"),
    OPTION_END,
};

static bool take(void *into, int option, const char *value)
{
    (void)option;
    (void)value;
    *(bool *)into = true;
    return true;
}

static bool is_me(const zkl_queue_entry *holder)
{
    struct identity own;
    struct identity theirs;
    identity_own(&own);
    return holder->readable && identity_parse(&theirs, holder->data, holder->data_size) &&
           strcmp(own.host, theirs.host) == 0 && strcmp(own.user, theirs.user) == 0;
}

/* One of those who hold it together, where several may. */
static bool one_is_me(const zkl_queue *queue)
{
    bool mine = false;
    for (size_t i = 0; !mine && i < queue->count; i++) {
        mine = queue->entries[i].holds && is_me(&queue->entries[i]);
    }
    return mine;
}

static bool say(const char *path, const zkl_queue *queue)
{
    if (cli.json) {
        return queues_print_json(queues_json(path, queue));
    }
    if (cli.quiet) {
        return true;
    }
    size_t holder = queues_holder(queue);
    if (holder == queue->count) {
        return cli_line(stdout, CLI_FOLD, "%s is free", path);
    }
    char who[256];
    queues_who(&queue->entries[holder], who, sizeof who);
    return cli_line(stdout, CLI_FOLD, "%s is held by %s", path, who);
}

static int check(const char *path, bool want_me)
{
    zkl_queue *queue;
    zkl_session *session;
    char at[ZKL_PATH_MAX + 16];
    int code = cli_connect(QUEUES_LIST_MS, &session);
    if (code != CLI_GO_ON) {
        return code;
    }
    code = queues_list_holders(&queue, session, path, at, sizeof at);
    if (code == CLI_GO_ON) {
        bool held = queues_holder(queue) < queue->count && (!want_me || one_is_me(queue));
        code = !say(path, queue) ? EXIT_FAILED : held ? EXIT_DONE : EXIT_NOBODY;
        zkl_queue_free(queue);
    }
    zkl_session_close(session, QUEUES_LIST_MS);
    return code;
}

static int run(const struct cli_command *self, int argc, const char **argv)
{
    int count;
    const char **words;
    bool want_me = false;
    int code = cli_parse(self, argc, argv, take, &want_me, &count, &words);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (count != 1) {
        return cli_usage("check", "check: which lock? One, please");
    }
    char *path = cli_lock_path(words[0]);
    code = path ? check(path, want_me) : EXIT_FAILED;
    free(path);
    return code;
}

const struct cli_command cmd_check = {
    .name = "check",
    .run = run,
    .arguments = "LOCK",
    .summary = "exit 0 when somebody holds LOCK, 1 when nobody does",
    .examples = "  zklock check backup && echo busy\n"
                "  zklock -q check --is-me daemon     # a readiness probe\n",
    .notes = "--is-me goes by the host and user that a zklock writes on its znode, so not by what "
             "'elect --value'\n"
             "publishes. Exit codes: 0 held; 1 not held (by this host and user); others as of "
             "'zklock run'.\n",
    .options = options,
};
