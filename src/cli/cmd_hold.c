/* cmd_hold.c - a lock without a command: for scripts and units that bring their own. */

#include "queues.h"
#include "runner.h"

#define LOOK_MS 50

static int64_t for_ms = -1; /* no limit */

static const struct cli_option options[] = {
    OPTIONS_WAIT,
    OPTION_DELAY_AFTER_CRASH,
    OPTION_DURATION("for", '\0', &for_ms, 0, CLI_LONGEST_MS, "let go after this long"),
    {.name = NULL},
};

/* Holds until something ends it; the exit code. */
static int hold_on(void)
{
    int64_t end_ms = for_ms < 0 ? INT64_MAX : now_ms() + for_ms;
    json_t *granted = json_pack("{s:i, s:s, s:s, s:s, s:s, s:I, s:I}", "v", QUEUES_VERSION, "event",
                                "granted", "lock", contend.name, "path", contend.paths[0], "node",
                                contend.node, "token", (json_int_t)contend.grant.token, "wait_ms",
                                (json_int_t)(now_ms() - contend.begun_ms));
    if (!queues_print_json(granted)) {
        return EXIT_FAILED;
    }
    while (now_ms() < end_ms) {
        /* In the background a read from the terminal would stop us. */
        pid_t foreground = tcgetpgrp(STDIN_FILENO);
        int input = foreground < 0 || foreground == getpgrp() ? STDIN_FILENO : -1;
        bool ready = contend_wait(input, true, LOOK_MS);
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
    return EXIT_DONE;
}

static int run(int count, const char **words)
{
    static const struct runner_policy policy = {.name = "hold", .held = hold_on};
    return runner_main(&policy, count, words);
}

const struct cli_command cmd_hold = {
    .name = "hold",
    .run = run,
    .arguments = "LOCK",
    .least = 1,
    .most = 1,
    .wanted = "which lock? One, please",
    .summary = "hold LOCK without a command, until standard input ends",
    .examples = "  zklock hold --for 10m deploy          # nobody deploys for ten minutes\n"
                "  zklock hold -w 5s deploy </dev/tty    # until Ctrl-D\n",
    .notes = "Prints one JSON object when LOCK is granted: path, node, token. Lets go when\n"
             "standard input ends, on a signal, after --for, and ends with 120 when LOCK is\n"
             "lost.\n",
    .options = options,
};
