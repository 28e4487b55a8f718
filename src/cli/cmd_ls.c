/* cmd_ls.c - who holds and who waits. */
#include <stdio.h>
#include <stdlib.h>

#include "session.h"
#include "options.h"
#include "queues.h"

static const struct poptOption options[] = {OPTION_END};

static int print(const char *path, const zkl_queue *queue, void *payload)
{
    (void)payload;
    if (!cli.json) {
        queues_print(stdout, path, queue);
        return CLI_GO_ON;
    }
    return queues_print_json(queues_json(path, queue)) ? CLI_GO_ON : EXIT_FAILED;
}

static int show_all(zkl_session *session)
{
    size_t count;
    int code = queues_visit_below(session, "/locks", print, queues_say_failure, NULL, &count);
    if (count == 0 && code == CLI_GO_ON) {
        cli_note("no lock below /locks is held or waited for");
    }
    return code;
}

/* One that fails stops none of the others; the first failure is the exit code. */
static int show_named(zkl_session *session, int count, const char **locks)
{
    int code = CLI_GO_ON;
    for (int i = 0; i < count; i++) {
        char *path = cli_lock_path(locks[i]);
        int own = path ? queues_visit(session, path, print, NULL) : EXIT_FAILED;
        code = code == CLI_GO_ON ? own : code;
        free(path);
    }
    return code;
}

/* Known before anything is connected. */
static bool are_locks(int count, const char **locks)
{
    bool fine = true;
    for (int i = 0; fine && i < count; i++) {
        char *path = cli_lock_path(locks[i]);
        fine = path != NULL;
        free(path);
    }
    return fine;
}

static int run(const struct cli_command *self, int argc, const char **argv)
{
    int count;
    const char **locks;
    zkl_session *session = NULL;
    int code = cli_parse(self, argc, argv, NULL, NULL, &count, &locks);
    if (code == CLI_GO_ON && !are_locks(count, locks)) {
        return EXIT_FAILED;
    }
    if (code == CLI_GO_ON) {
        code = cli_connect(QUEUES_LIST_MS, &session);
    }
    if (code != CLI_GO_ON) {
        return code;
    }
    code = count > 0 ? show_named(session, count, locks) : show_all(session);
    zkl_session_close(session, QUEUES_LIST_MS);
    return code == CLI_GO_ON ? EXIT_DONE : code;
}

const struct cli_command cmd_ls = {
    .name = "ls",
    .run = run,
    .arguments = "[LOCK...]",
    .summary = "holder and queue, in order",
    .examples = "  zklock ls              # every lock below /locks\n"
                "  zklock ls backup       # one of them, or those below it\n"
                "  zklock --json ls       # one object per lock and line\n",
    .notes =
        "Kinds: lock (zklock, Curator's InterProcessMutex, go-zookeeper), read, write, latch, "
        "lease, kazoo and\n"
        "kazoo-read. Who: HOST:PID (USER) of a zklock; other clients write what they like. Ages "
        "compare the\n"
        "servers' clock with the one here. Stray: a znode made by hand, which zklock goes past.\n"
        "What may not be listed is named, and the exit code is 121.\n",
    .options = options,
};
