/* cmd_ls.c - two commands: ls prints the holders and waiters of locks; a monitoring probe runs
 * check to learn whether a lock is held. */
#include "queues.h"

static int print(const char *path, const zkl_queue *queue)
{
    if (!cli.json) {
        queues_print(stdout, path, queue);
        return CLI_GO_ON;
    }
    return queues_print_json(queues_json(path, queue)) ? CLI_GO_ON : EXIT_FAILED;
}

static int run_ls(const char **locks)
{
    size_t used = 1;
    int code = queues_paths(locks) ? cli_connect(CLI_CALL_MS, NULL) : EXIT_FAILED;
    if (code != CLI_GO_ON) {
        return code;
    }
    if (!*locks) {
        code = queues_visit_all(print, queues_say_failure, NULL, &used);
    }
    if (used == 0 && code == CLI_GO_ON) {
        cli_note("no lock below /locks is held or waited for");
    }
    /* One that fails stops none of the others; the first failure is the exit code. */
    for (; *locks; locks++) {
        int own = queues_visit(*locks, print);
        code = code == CLI_GO_ON ? own : code;
    }
    zkl_session_close(cli_session, CLI_CALL_MS);
    return code;
}

const struct cli_command cmd_ls = {
    .name = "ls",
    .run = run_ls,
    .arguments = "[LOCK...]",
    .summary = "holder and queue, in order",
    .examples = "  zklock ls              # every lock below /locks\n"
                "  zklock ls backup       # one of them, or those below it\n"
                "  zklock --json ls       # one object per lock and line\n",
    .notes = "Kinds: lock (zklock, Curator's InterProcessMutex, go-zookeeper), read, write,\n"
             "latch, lease, kazoo and kazoo-read. Who: HOST:PID (USER) of a zklock; other\n"
             "clients write what they like. Ages compare the servers' clock with the one\n"
             "here. Stray: a znode made by hand, which zklock goes past. What may not be\n"
             "listed is named, and the exit code is 121.\n",
};

/* --- check ------------------------------------------------------------------------------------ */

static bool want_me;

static const struct cli_option check_options[] = {
    OPTION_FLAG("is-me", '\0', &want_me, "does a process of this user on this host hold it?"),
    {0},
};

static int check(const char *path)
{
    zkl_queue *queue;
    char at[ZKL_PATH_MAX + 16];
    struct identity own, theirs;
    const char *text = identity_own();
    bool held = false, known = identity_parse(&own, text, strlen(text));
    int code = queues_list_holders(&queue, path, at, sizeof at);
    if (code != CLI_GO_ON) {
        return code;
    }
    /* --is-me: one of those who hold it together, where several may. */
    for (size_t i = 0; !held && i < queue->count; i++) {
        const zkl_queue_entry *entry = &queue->entries[i];
        held =
            entry->holds &&
            (!want_me ||
             (entry->readable && known && identity_parse(&theirs, entry->data, entry->data_size) &&
              strcmp(own.host, theirs.host) == 0 && strcmp(own.user, theirs.user) == 0));
    }
    size_t holder = queues_holder(queue);
    bool printed = !cli.json || queues_print_json(queues_json(path, queue));
    if (!cli.json && !cli.quiet && holder == queue->count) {
        cli_line(stdout, CLI_FOLD, "%s is free", path);
    } else if (!cli.json && !cli.quiet) {
        cli_line(stdout, CLI_FOLD, "%s is held by %s", path,
                 queues_who(&queue->entries[holder]).bytes);
    }
    zkl_queue_free(queue);
    return !printed ? EXIT_FAILED : held ? EXIT_DONE : EXIT_NOBODY;
}

static int run_check(const char **words)
{
    return queues_act(words[0], check);
}

const struct cli_command cmd_check = {
    .name = "check",
    .run = run_check,
    .arguments = "LOCK",
    .wanted = "which lock? One, please",
    .summary = "exit 0 when somebody holds LOCK, 1 when nobody does",
    .examples = "  zklock check backup && echo busy\n"
                "  zklock -q check --is-me daemon     # a readiness probe\n",
    .notes = "--is-me goes by the host and user that a zklock writes on its znode, so not by\n"
             "what 'elect --value' publishes. Exit codes: 0 held; 1 not held (by this host\n"
             "and user); others as of 'zklock run'.\n",
    .options = check_options,
};
