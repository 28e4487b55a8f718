/* cmd_check.c - is the lock held: for probes. */
#include <string.h>

#include "identity.h"
#include "queues.h"

static bool want_me;

static const struct cli_option options[] = {
    OPTION_FLAG("is-me", '\0', &want_me, "does a process of this user on this host hold it?"),
    {.name = NULL},
};

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

static bool print_holder(const char *path, const zkl_queue *queue)
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

static int check(zkl_session *session, const char *path)
{
    zkl_queue *queue;
    char at[ZKL_PATH_MAX + 16];
    int code = queues_list_holders(&queue, session, path, at, sizeof at);
    if (code == CLI_GO_ON) {
        bool held = queues_holder(queue) < queue->count && (!want_me || one_is_me(queue));
        code = !print_holder(path, queue) ? EXIT_FAILED : held ? EXIT_DONE : EXIT_NOBODY;
        zkl_queue_free(queue);
    }
    return code;
}

static int run(int count, const char **words)
{
    (void)count;
    return queues_act(words[0], check);
}

const struct cli_command cmd_check = {
    .name = "check",
    .run = run,
    .arguments = "LOCK",
    .least = 1,
    .most = 1,
    .wanted = "which lock? One, please",
    .summary = "exit 0 when somebody holds LOCK, 1 when nobody does",
    .examples = "  zklock check backup && echo busy\n"
                "  zklock -q check --is-me daemon     # a readiness probe\n",
    .notes = "--is-me goes by the host and user that a zklock writes on its znode, so not by\n"
             "what 'elect --value' publishes. Exit codes: 0 held; 1 not held (by this host\n"
             "and user); others as of 'zklock run'.\n",
    .options = options,
};
