/* cmd_resize.c - an operator gives a semaphore another limit, while it is used. */

#include <zklock/semaphore.h>

#include "queues.h"

static const struct cli_option options[] = {{.name = NULL}};

static const char *name; /* LOCK as it was typed */
static int limit;

static int print_limit(const char *path)
{
    if (!cli.json) {
        cli_note("\"%s\": %d at a time from now on", name, limit);
        return EXIT_DONE;
    }
    json_t *resized = json_pack("{s:i, s:s, s:s, s:i}", "v", QUEUES_VERSION, "event", "resized",
                                "path", path, "limit", limit);
    return queues_print_json(resized) ? EXIT_DONE : EXIT_FAILED;
}

static int resize(zkl_session *session, const char *path)
{
    zkl_error error;
    int result = zkl_semaphore_resize(session, path, limit, QUEUES_LIST_MS, &error);
    if (result == ZKL_OK) {
        return print_limit(path);
    }
    if (result == ZKL_ENOENT || result == ZKL_ECONFLICT) {
        cli_error("\"%s\": %s; the first 'zklock run -j K' sets a limit", name, error.text);
        return EXIT_NOBODY;
    }
    return queues_complain(path, result, &error);
}

static int run(int count, const char **words)
{
    (void)count;
    name = words[0];
    bool fine = cli_take_number("K", words[1], 1, ZKL_PERMITS_MAX, &limit);
    return fine ? queues_act(name, resize) : EXIT_FAILED;
}

const struct cli_command cmd_resize = {
    .name = "resize",
    .run = run,
    .arguments = "LOCK K",
    .least = 2,
    .most = 2,
    .wanted = "which lock, and how many at a time? LOCK K, please",
    .summary = "let K run at a time from now on, where 'run -j' is used",
    .examples = "  zklock resize builds 8     # grants four waiters more, if K was 4\n"
                "  zklock resize builds 2     # jobs that run finish\n",
    .notes = "For 'zklock run -j 0 LOCK', which goes by what LOCK says. A 'run' with another\n"
             "-j is refused from then on: give all of them 0. The limit goes when nobody has\n"
             "used LOCK for a while, unless somebody made it as a persistent znode with the\n"
             "limit as its data. Needs WRITE on it. Exit codes: 0 it is so; 1 LOCK has no\n"
             "limit; 121 access refused; 122 no ensemble reached; 125 usage or own failure.\n",
    .options = options,
};
