/* cmd_hold.c - a lock without a command: for scripts and units that bring their own. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "contend.h"
#include "options.h"
#include "queues.h"
#include "signals.h"

#define LOOK_MS 50

enum { OPTION_FOR = OPTION_FIRST_OWN };

static const struct poptOption options[] = {
    OPTIONS_WAIT,
    OPTION_DELAY_AFTER_CRASH,
    OPTION_VALUE("for", '\0', OPTION_FOR, "let go after this long", "DUR"),
    OPTION_END,
};

struct hold {
    struct contend contend;
    int64_t for_ms; /* -1: no limit */
};

static bool take(void *into, int option, const char *value)
{
    struct hold *hold = into;
    bool taken;
    bool fine = contend_take(&hold->contend, option, value, &taken);
    return taken ? fine : cli_take_duration("--for", value, &hold->for_ms);
}

static bool announce(const struct contend *contend)
{
    return queues_print_json(
        json_pack("{s:i, s:s, s:s, s:s, s:s, s:I, s:I}", "v", QUEUES_VERSION, "event", "granted",
                  "lock", contend->name, "path", contend->path, "node", contend->node, "token",
                  (json_int_t)contend->grant.token, "wait_ms",
                  (json_int_t)(clock_ms(CLOCK_MONOTONIC) - contend->begun_ms)));
}

/* What comes in is of no interest, its end is. */
static bool at_end(int fd)
{
    char ignored[4096];
    ssize_t got = read(fd, ignored, sizeof ignored);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

/* Holds until something ends it; the exit code. */
static int hold_on(struct hold *hold)
{
    struct contend *contend = &hold->contend;
    int64_t end_ms = hold->for_ms < 0 ? INT64_MAX : clock_ms(CLOCK_MONOTONIC) + hold->for_ms;
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                           {.fd = signals_fd(), .events = POLLIN},
                           {.fd = zkl_session_fd(contend->session), .events = POLLIN}};
    while (clock_ms(CLOCK_MONOTONIC) < end_ms) {
        bool ready = poll(fds, 3, LOOK_MS) > 0;
        contend_dispatch(contend);
        int number = signals_next();
        if (zkl_lock_state(contend->lock) == ZKL_STATE_LOST) { /* the release says why */
            return EXIT_LOST;
        }
        if (signals_is_end(number)) {
            return EXIT_SIGNAL + number;
        }
        if (ready && fds[0].revents && at_end(STDIN_FILENO)) {
            return EXIT_DONE;
        }
    }
    return EXIT_DONE;
}

static int acquire_and_hold(struct hold *hold)
{
    struct contend *contend = &hold->contend;
    if (!signals_catch()) {
        cli_error("cannot catch signals: %s", strerror(errno));
        return EXIT_FAILED;
    }
    int code = contend_open(contend);
    if (code == CLI_GO_ON) {
        code = contend_acquire(contend);
    }
    if (code == CLI_GO_ON) {
        code = announce(contend) ? hold_on(hold) : EXIT_FAILED;
        if (contend_release(contend) == ZKL_ELOST) {
            cli_error("\"%s\": %s", contend->name, contend->error.text);
            code = EXIT_LOST;
        }
    }
    contend_close(contend);
    return code;
}

static int run(const struct cli_command *self, int argc, const char **argv)
{
    struct hold hold = {
        .contend = {.wait_ms = ZKL_WAIT_FOREVER, .not_granted = EXIT_NOT_GRANTED},
        .for_ms = -1,
    };
    int count;
    const char **words;
    int code = cli_parse(self, argc, argv, take, &hold, &count, &words);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (count != 1) {
        return cli_usage("hold", "hold: which lock? One, please");
    }
    hold.contend.name = words[0];
    hold.contend.path = cli_lock_path(words[0]);
    code = hold.contend.path ? acquire_and_hold(&hold) : EXIT_FAILED;
    free(hold.contend.path);
    return code;
}

const struct cli_command cmd_hold = {
    .name = "hold",
    .run = run,
    .arguments = "LOCK",
    .summary = "hold LOCK without a command, until standard input ends",
    .examples = "  zklock hold --for 10m deploy          # nobody deploys for ten minutes\n"
                "  zklock hold -w 5s deploy </dev/tty    # until Ctrl-D\n",
    .notes = "Prints one JSON object when LOCK is granted: path, node, token. Lets go when "
             "standard input ends, on a\n"
             "signal, after --for, and ends with 120 when LOCK is lost.\n",
    .options = options,
};
