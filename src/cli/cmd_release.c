/* cmd_release.c - an operator removes a holder that is stuck. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "queues.h"

static bool force, yes;

static const struct cli_option options[] = {
    OPTION_FLAG("force", 'f', &force, "required: it is removed from outside, not released"),
    OPTION_FLAG("yes", 'y', &yes, "do not ask; for scripts"),
    OPTION_TAKEN("token", '\0', "TOKEN", chosen_take_token,
                 "this contender, holding or waiting, as 'zklock ls' shows it"),
    {.name = NULL},
};

/* Without a terminal nobody can confirm: --yes must be given. */
static bool confirm_removal(void)
{
    char answer[16] = "";
    fputs("The next contender in the queue is granted immediately. This one notices with its next\n"
          "heartbeat, so for a moment both may be at work. Remove it? [y/N] ",
          stderr);
    bool responded = fgets(answer, sizeof answer, stdin) != NULL;
    if (!responded) {
        fputc('\n', stderr);
    }
    return responded && (strcasecmp(answer, "y\n") == 0 || strcasecmp(answer, "yes\n") == 0);
}

static int remove_it(zkl_session *session)
{
    const zkl_queue_entry *entry = chosen.entry;
    zkl_error error;
    int result =
        zkl_queue_remove(session, chosen.path, entry->name, entry->token, QUEUES_LIST_MS, &error);
    if (result == ZKL_ENOTHELD) {
        cli_note("\"%s\": it has ended by itself meanwhile", chosen.name);
        return EXIT_NOBODY;
    }
    if (result != ZKL_OK) {
        return queues_complain(chosen.path, result, &error);
    }
    if (cli.json) {
        json_t *contender =
            queues_entry_json(chosen.queue, (size_t)(entry - chosen.queue->entries));
        json_t *removed = json_pack("{s:i, s:s, s:s, s:o}", "v", QUEUES_VERSION, "event", "removed",
                                    "path", chosen.path, "contender", contender);
        return queues_print_json(removed) ? EXIT_DONE : EXIT_FAILED;
    }
    cli_note("\"%s\": removed", chosen.name);
    return EXIT_DONE;
}

static int find_and_remove(zkl_session *session, const char *path)
{
    int code = chosen_find(session, path, "remove");
    if (code != CLI_GO_ON) {
        return code;
    }
    if (!yes || !cli.quiet) {
        chosen_show();
    }
    if (!yes && !confirm_removal()) {
        cli_note("nothing was removed");
        return EXIT_NOBODY;
    }
    return remove_it(session);
}

static int run(int count, const char **words)
{
    (void)count;
    if (!force) {
        return cli_usage(
            "release",
            "release: a lock is released by its holder; --force removes the holder from outside");
    }
    if (!yes && !isatty(STDIN_FILENO)) {
        return cli_usage("release",
                         "release: standard input is no terminal to ask on; --yes does without");
    }
    chosen.name = words[0];
    return queues_act(chosen.name, find_and_remove);
}

const struct cli_command cmd_release = {
    .name = "release",
    .run = run,
    .arguments = "LOCK",
    .least = 1,
    .most = 1,
    .wanted = "which lock? One, please",
    .summary = "remove a holder that is stuck: operators only",
    .examples = "  zklock release --force backup              # shows whom, asks\n"
                "  zklock release --force --yes backup        # for scripts\n"
                "  zklock release --force --token 4711 render # one of several\n",
    .notes = "The holder's znode is deleted: exactly the one that was shown. A zklock that\n"
             "held by it notices with its next heartbeat, stops its CMD and ends with 120;\n"
             "the next contender does not wait for that. So for a moment two may be at work:\n"
             "where that matters, stop the holder itself. If its process has ended already,\n"
             "the lock is free after its session timeout, without this.\n\n"
             "Exit codes: 0 removed; 1 nothing was removed (nobody held it, or you said no);\n"
             "121 access refused; 122 no ensemble reached; 125 usage or own failure.\n",
    .options = options,
};
