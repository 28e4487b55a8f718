/* cmd_resize.c - an operator gives a semaphore another limit, while it is used. */
#include <stdlib.h>

#include <zklock/semaphore.h>

#include "session.h"
#include "options.h"
#include "queues.h"

static const struct poptOption options[] = {OPTION_END};

static int tell(const char *name, const char *path, int limit)
{
    if (!cli.json) {
        cli_note("\"%s\": %d at a time from now on", name, limit);
        return EXIT_DONE;
    }
    json_t *told = json_pack("{s:i, s:s, s:s, s:i}", "v", QUEUES_VERSION, "event", "resized",
                             "path", path, "limit", limit);
    return queues_print_json(told) ? EXIT_DONE : EXIT_FAILED;
}

static int resize(const char *name, const char *path, int limit)
{
    zkl_session *session;
    zkl_error error;
    int code = cli_connect(QUEUES_LIST_MS, &session);
    if (code != CLI_GO_ON) {
        return code;
    }
    int result = zkl_semaphore_resize(session, path, limit, QUEUES_LIST_MS, &error);
    if (result == ZKL_OK) {
        code = tell(name, path, limit);
    } else if (result == ZKL_ENOENT || result == ZKL_ECONFLICT) {
        cli_error("\"%s\": %s; the first 'zklock run -j K' sets a limit", name, error.text);
        code = EXIT_NOBODY;
    } else {
        code = queues_complain(path, result, &error);
    }
    zkl_session_close(session, QUEUES_LIST_MS);
    return code;
}

static int run(const struct cli_command *self, int argc, const char **argv)
{
    int count, limit;
    const char **words;
    int code = cli_parse(self, argc, argv, NULL, NULL, &count, &words);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (count != 2) {
        return cli_usage("resize", "resize: which lock, and how many at a time? LOCK K, please");
    }
    char *path = cli_lock_path(words[0]);
    bool fine = path && cli_take_number("K", words[1], 1, ZKL_PERMITS_MAX, &limit);
    code = fine ? resize(words[0], path, limit) : EXIT_FAILED;
    free(path);
    return code;
}

const struct cli_command cmd_resize = {
    .name = "resize",
    .run = run,
    .arguments = "LOCK K",
    .summary = "let K run at a time from now on, where 'run -j' is used",
    .examples = "  zklock resize builds 8     # grants four waiters more, if K was 4\n"
                "  zklock resize builds 2     # jobs that run finish\n",
    .notes = "For 'zklock run -j 0 LOCK', which goes by what LOCK says. A 'run' with another -j is "
             "refused from\n"
             "then on: give all of them 0. The limit goes when nobody has used LOCK for a while, "
             "unless somebody\n"
             "made it as a persistent znode with the limit as its data. Needs WRITE on it.\n"
             "Exit codes: 0 it is so; 1 LOCK has no limit; 121 access refused; 122 no ensemble "
             "reached; 125 usage\n"
             "or own failure.\n",
    .options = options,
};
