/* cmd_run.c - queue, run CMD while holding, release. */
#include "runner.h"

static bool take_recipe(zkl_recipe recipe)
{
    if (contend.recipe != ZKL_RECIPE_LOCK && contend.recipe != recipe) {
        cli_error("run: -r, -j and --and exclude each other");
        return false;
    }
    contend.recipe = recipe;
    return true;
}

static bool take_shared(const char *value)
{
    (void)value;
    return take_recipe(ZKL_RECIPE_READ_LOCK);
}

static bool take_slots(const char *value)
{
    return take_recipe(ZKL_RECIPE_SEMAPHORE) &&
           cli_take_number("-j", value, 0, ZKL_PERMITS_MAX, &contend.limit);
}

/* The first of the paths is LOCK's, which comes behind the options. */
static bool take_another(const char *value)
{
    if (!take_recipe(ZKL_RECIPE_MULTILOCK)) {
        return false;
    }
    contend.path_count = contend.path_count ? contend.path_count : 1;
    if (contend.path_count == ZKL_MULTILOCK_MAX) {
        cli_error("run: --and: more than %d LOCKs", ZKL_MULTILOCK_MAX);
        return false;
    }
    const char *path = cli_lock_path(value);
    contend.paths[contend.path_count++] = path;
    return path != NULL;
}

static const struct cli_option options[] = {
    OPTIONS_WAIT,
    OPTION_MAX_RUN,
    OPTIONS_JOB,
    OPTION_TAKEN("shared", 'r', NULL, take_shared,
                 "as one of many readers: only those without -r are kept out"),
    OPTION_TAKEN("slots", 'j', "K", take_slots,
                 "as one of K at a time; all who use LOCK say the same K, or 0"),
    OPTION_TAKEN("and", 'a', "LOCK2", take_another,
                 "this LOCK too, all or none; may be said again"),
    OPTION_FLAG("revocable", '\0', &contend.revocable,
                "stop CMD and release when 'zklock revoke' asks for it"),
    OPTION_DELAY_AFTER_CRASH,
    {.name = NULL},
};

static int run(int count, const char **words)
{
    static const struct runner_policy policy = {.name = "run"};
    bool other = contend.recipe != ZKL_RECIPE_LOCK;
    if (other && (contend.revocable || contend.delay_ms > 0)) {
        return cli_usage("run", "run: %s goes with none of -r, -j and --and",
                         contend.revocable ? "--revocable" : "--delay-after-crash");
    }
    return runner_main(&policy, count, words);
}

const struct cli_command cmd_run = {
    .name = "run",
    .run = run,
    .arguments = "LOCK [--] CMD [ARG...]",
    .least = 1,
    .most = CLI_ANY_NUMBER,
    .wanted = "which lock?",
    .summary = "queue, run CMD while holding LOCK, release",
    .examples = "  zklock run backup -- pg_dump shop           # one host at a time, in order\n"
                "  zklock run -n nightly -- ./job              # if one is at it, do not: 124\n"
                "  zklock run -w 5m -E 0 report -- ./report    # give up after 5 minutes, with 0\n"
                "  zklock run -c 'dump | gzip >f.gz' backup    # with the shell\n"
                "  zklock run -r catalog -- ./read-it          # beside readers, not a writer\n"
                "  zklock run -j 3 render -- ./frame           # three at a time\n"
                "  zklock run --and disk backup -- ./both      # both, or wait for both\n",
    .notes = "CMD is stopped before anybody else can be granted LOCK, whatever happens to the\n"
             "network or to zklock. It is sent TERM, and KILL after the grace. LOCK is\n"
             "released when CMD and everything it started has ended. Nothing after LOCK is\n"
             "taken as an option of zklock. A LOCK is used with -j or without, not both. With\n"
             "--and it queues for all at once, so that those who name the same LOCKs in\n"
             "another order never wait for each other; while one is missing, CMD does not run\n"
             "and the others are kept. With --revocable everybody who may write below LOCK\n"
             "can have CMD stopped, by 'zklock revoke LOCK'.\n\n"
             "CMD finds ZKLOCK_PATH, ZKLOCK_NODE, ZKLOCK_TOKEN (rises with every grant: let\n"
             "the resource refuse older ones) and ZKLOCK_SERVERS. TERM INT HUP QUIT USR1 USR2\n"
             "CONT WINCH reach its whole process group; no KILL follows a TERM that you\n"
             "send.\n\n" CLI_EXIT_CODES,
    .options = options,
};
