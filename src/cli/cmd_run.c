/* cmd_run.c - queue, run CMD while holding, release. */
#include <stdlib.h>

#include "runner.h"

enum { OPTION_REVOCABLE = RUNNER_FIRST_OWN };

static const struct poptOption options[] = {
    OPTIONS_RUNNER,
    OPTION_FLAG("shared", 'r', 'r', "as one of many readers: only those without -r are kept out"),
    OPTION_VALUE("slots", 'j', 'j', "as one of K at a time; all who use LOCK say the same K, or 0",
                 "K"),
    OPTION_VALUE("and", 'a', 'a', "this LOCK too, all or none; may be said again", "LOCK"),
    OPTION_FLAG("revocable", '\0', OPTION_REVOCABLE,
                "stop CMD and release when 'zklock revoke' asks for it"),
    OPTION_DELAY_AFTER_CRASH,
    OPTION_END,
};

static bool take_another(struct contend *contend, const char *name)
{
    if (contend->more_count == ZKL_MULTILOCK_MAX - 1) {
        cli_error("run: --and: more than %d LOCKs", ZKL_MULTILOCK_MAX);
        return false;
    }
    char *path = cli_lock_path(name);
    if (path) {
        contend->more[contend->more_count++] = path;
    }
    return path != NULL;
}

static bool take(void *into, int option, const char *value)
{
    struct runner *runner = into;
    bool taken;
    bool fine = runner_take(runner, option, value, &taken);
    if (taken) {
        return fine;
    }
    if (option == OPTION_REVOCABLE) {
        runner->contend.revocable = true;
        return true;
    }
    struct contend *contend = &runner->contend;
    zkl_recipe recipe = option == 'r'   ? ZKL_RECIPE_READ_LOCK
                        : option == 'j' ? ZKL_RECIPE_SEMAPHORE
                                        : ZKL_RECIPE_MULTILOCK;
    if (contend->recipe != ZKL_RECIPE_LOCK && contend->recipe != recipe) {
        cli_error("run: -r, -j and --and exclude each other");
        return false;
    }
    contend->recipe = recipe;
    if (option == 'a') {
        return take_another(contend, value);
    }
    return option == 'r' || cli_take_number("-j", value, 0, ZKL_PERMITS_MAX, &contend->limit);
}

static int check(struct runner *runner)
{
    if (runner->contend.revocable && runner->contend.recipe != ZKL_RECIPE_LOCK) {
        return cli_usage("run", "run: --revocable goes with none of -r, -j and --and");
    }
    if (runner->contend.delay_ms > 0 && runner->contend.recipe != ZKL_RECIPE_LOCK) {
        return cli_usage("run", "run: --delay-after-crash goes with none of -r, -j and --and");
    }
    return CLI_GO_ON;
}

static int run_command(const struct cli_command *self, int argc, const char **argv)
{
    struct runner runner;
    runner_init(&runner, self->name);
    runner.taken = check;
    int code = runner_main(&runner, self, argc, argv, take, &runner);
    for (size_t i = 0; i < runner.contend.more_count; i++) {
        free((char *)(uintptr_t)runner.contend.more[i]);
    }
    return code;
}

const struct cli_command cmd_run = {
    .name = "run",
    .run = run_command,
    .arguments = "LOCK [--] CMD [ARG...]",
    .summary = "queue, run CMD while holding LOCK, release",
    .examples = "  zklock run backup -- pg_dump shop           # one host at a time, in order\n"
                "  zklock run -n nightly -- ./job              # if one is at it, do not: 124\n"
                "  zklock run -w 5m -E 0 report -- ./report    # give up after 5 minutes, with 0\n"
                "  zklock run -c 'dump | gzip >f.gz' backup    # with the shell\n"
                "  zklock run -r catalog -- ./read-it          # beside readers, not a writer\n"
                "  zklock run -j 3 render -- ./frame           # three at a time\n"
                "  zklock run --and disk backup -- ./both      # both, or wait for both\n",
    .notes =
        "CMD is stopped before anybody else can be granted LOCK, whatever happens to the network "
        "or to zklock. It is\n"
        "sent TERM, and KILL after the grace. LOCK is released when CMD and everything it started "
        "is gone. Nothing\n"
        "after LOCK is taken as an option of zklock. A LOCK is used with -j or without, not both.\n"
        "With --and it queues for all at once, so that those who name the same LOCKs in another "
        "order never wait for\n"
        "each other; while one is missing, CMD does not run and the others are kept.\n"
        "With --revocable everybody who may write below LOCK can have CMD stopped, by 'zklock "
        "revoke LOCK'.\n\n"
        "CMD finds ZKLOCK_PATH, ZKLOCK_NODE, ZKLOCK_TOKEN (rises with every grant: let the "
        "resource refuse older\n"
        "ones) and ZKLOCK_SERVERS. TERM INT HUP QUIT USR1 USR2 CONT WINCH reach its whole process "
        "group.\n\n" CLI_EXIT_CODES,
    .options = options,
};
