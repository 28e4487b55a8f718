/* cmd_run.c - two commands that queue, hold and release: run with a CMD, hold without one, for
 * scripts and units that bring their own. */
#include "runner.h"

static bool shared;

/* The first of the paths is LOCK's, which comes behind the options. */
static bool take_another(const char *value)
{
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
    OPTION_FLAG("shared", 'r', &shared,
                "as one of many readers: only those without -r are kept out"),
    OPTION_NUMBER("slots", 'j', "K", &contend.limit, 0, ZKL_PERMITS_MAX,
                  "as one of K at a time; all who use LOCK say the same K, or 0"),
    OPTION_TAKEN("and", 'a', "LOCK2", take_another,
                 "this LOCK too, all or none; may be said again"),
    OPTION_FLAG("revocable", '\0', &contend.revocable,
                "stop CMD and release when 'zklock revoke' asks for it"),
    OPTION_DELAY_AFTER_CRASH,
    {0},
};

static int run(const char **words)
{
    static const struct runner_policy policy = {.name = "run"};
    bool slots = contend.limit >= 0, several = contend.path_count > 1;
    if (shared + slots + several > 1) {
        cli_error("run: -r, -j and --and exclude each other");
        return EXIT_FAILED;
    }
    contend.recipe = shared    ? ZKL_RECIPE_READ_LOCK
                     : slots   ? ZKL_RECIPE_SEMAPHORE
                     : several ? ZKL_RECIPE_MULTILOCK
                               : ZKL_RECIPE_LOCK;
    if (contend.recipe != ZKL_RECIPE_LOCK && (contend.revocable || contend.delay_ms > 0)) {
        return cli_usage("run", "run: %s goes with none of -r, -j and --and",
                         contend.revocable ? "--revocable" : "--delay-after-crash");
    }
    return runner_main(&policy, words);
}

const struct cli_command cmd_run = {
    .name = "run",
    .run = run,
    .arguments = "LOCK [--] CMD [ARG...]",
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

/* --- hold ------------------------------------------------------------------------------------- */

#define LOOK_MS 50

static int64_t for_ms = -1; /* no limit */

static const struct cli_option hold_options[] = {
    OPTIONS_WAIT,
    OPTION_DELAY_AFTER_CRASH,
    OPTION_DURATION("for", '\0', &for_ms, 0, CLI_LONGEST_MS, "let go after this long"),
    {0},
};

/* Holds until something ends it; the exit code. */
static int hold_on(void)
{
    int64_t end_ms = for_ms < 0 ? INT64_MAX : now_ms() + for_ms;
    for (bool told = false;;) {
        /* Who reads it may be late, or a terminal stopped by Ctrl-S: that does not keep us. */
        if (!told && cli_takes(STDOUT_FILENO)) {
            told = queues_print_json(json_pack(
                "{s:s, s:s, s:s, s:s, s:I, s:I}", "event", "granted", "lock", contend.name, "path",
                contend.paths[0], "node", contend.node, "token", (json_int_t)contend.grant.token,
                "wait_ms", (json_int_t)(runner.granted_ms - contend.begun_ms)));
            if (!told) {
                return EXIT_FAILED;
            }
        }
        if (now_ms() >= end_ms) {
            return EXIT_DONE;
        }
        /* In the background a read from the terminal would stop us. */
        pid_t foreground = tcgetpgrp(STDIN_FILENO);
        int input = foreground < 0 || foreground == getpgrp() ? STDIN_FILENO : -1;
        bool ready = contend_wait(input, now_ms() + LOOK_MS);
        int number = signals_next();
        if (zkl_lock_state(contend.lock) == ZKL_STATE_LOST) { /* the release says why */
            return EXIT_LOST;
        }
        if (signals_is_end(number)) {
            return EXIT_SIGNAL + number;
        }
        char ignored[4096]; /* only the end of the input matters */
        ssize_t got = ready ? read(STDIN_FILENO, ignored, sizeof ignored) : 1;
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
            return EXIT_DONE;
        }
    }
}

static int run_hold(const char **words)
{
    static const struct runner_policy policy = {.name = "hold", .held = hold_on};
    return runner_main(&policy, words);
}

const struct cli_command cmd_hold = {
    .name = "hold",
    .run = run_hold,
    .arguments = "LOCK",
    .wanted = "which lock? One, please",
    .summary = "hold LOCK without a command, until standard input ends",
    .examples = "  zklock hold --for 10m deploy          # nobody deploys for ten minutes\n"
                "  zklock hold -w 5s deploy </dev/tty    # until Ctrl-D\n",
    .notes = "Prints one JSON object when LOCK is granted: path, node, token. Lets go when\n"
             "standard input ends, on a signal, after --for, and ends with 120 when LOCK\n"
             "is lost. Under cron, nohup and 'ssh -n' standard input ends at once.\n",
    .options = hold_options,
};
