/* cmd_ls.c - who holds and who waits. */

#include "session.h"
#include "queues.h"

static const struct cli_option options[] = {{.name = NULL}};

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
static int show_named(zkl_session *session, char **paths)
{
    int code = CLI_GO_ON;
    for (; *paths; paths++) {
        int own = queues_visit(session, *paths, print, NULL);
        code = code == CLI_GO_ON ? own : code;
    }
    return code;
}

static int run(int count, const char **locks)
{
    zkl_session *session;
    char **paths = queues_paths(count, locks);
    int code = paths ? cli_connect(QUEUES_LIST_MS, &session) : EXIT_FAILED;
    if (code == CLI_GO_ON) {
        code = count > 0 ? show_named(session, paths) : show_all(session);
        zkl_session_close(session, QUEUES_LIST_MS);
    }
    return code;
}

const struct cli_command cmd_ls = {
    .name = "ls",
    .run = run,
    .arguments = "[LOCK...]",
    .most = CLI_ANY_NUMBER,
    .summary = "holder and queue, in order",
    .examples = "  zklock ls              # every lock below /locks\n"
                "  zklock ls backup       # one of them, or those below it\n"
                "  zklock --json ls       # one object per lock and line\n",
    .notes = "Kinds: lock (zklock, Curator's InterProcessMutex, go-zookeeper), read, write,\n"
             "latch, lease, kazoo and kazoo-read. Who: HOST:PID (USER) of a zklock; other\n"
             "clients write what they like. Ages compare the servers' clock with the one\n"
             "here. Stray: a znode made by hand, which zklock goes past. What may not be\n"
             "listed is named, and the exit code is 121.\n",
    .options = options,
};
