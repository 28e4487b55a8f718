/* cmd_elect.c - for daemons: run CMD while leader, stop it on loss, stand again. */

#include "runner.h"

/* The longest pause between failures. A CMD that ran for longer fails as if for the first time. */
#define PAUSE_MAX_MS 60000
#define LONGEST_MS (24 * CLI_DAY_MS) /* that poll takes */

static bool once;
static int64_t backoff_ms = 1000; /* the first pause */
static int64_t pause_ms;          /* the last one; 0: none yet */

static bool take_notify(const char *value)
{
    (void)value;
    return notify_open();
}

static const struct cli_option options[] = {
    OPTION_FLAG("once", '\0', &once, "one term: end when it ends, however it ends"),
    OPTION_TEXT("value", '\0', "TEXT", &contend.metadata,
                "what the candidate publishes (HOST:PID (USER))"),
    OPTION_DURATION("backoff", '\0', &backoff_ms, 0, LONGEST_MS,
                    "pause after CMD failed; doubles up to 1m while it fails (1s)"),
    OPTION_TAKEN("notify", '\0', NULL, take_notify,
                 "notify systemd: READY=1, STATUS=, STOPPING=1, WATCHDOG=1"),
    OPTION_TEXT("health", '\0', "CMD", &health.command,
                "resign and stay out while this command of the shell fails"),
    OPTION_DURATION("every", '\0', &health.every_ms, 100, LONGEST_MS,
                    "time from one health check to the next, and the most each may take (10s)"),
    OPTION_NUMBER("fails", '\0', "N", &health.fails, 1, 1000,
                  "failed checks in a row that make the host unhealthy (3)"),
    OPTION_TAKEN("listen", '\0', "[ADDR:]PORT", http_take_address,
                 "answer /healthz, /leader and /metrics by HTTP"),
    OPTION_DELAY_AFTER_CRASH,
    OPTIONS_JOB,
    {0},
};

/* Out of the queue until a check succeeds; then in it. */
static int campaign(void)
{
    bool said = false;
    int code = CLI_GO_ON;
    if (health_update() != HEALTH_GOOD) {
        http_standing = HTTP_UNHEALTHY;
        notify_send("STATUS=not healthy: out of the queue");
    }
    while (code == CLI_GO_ON && health_update() != HEALTH_GOOD) {
        if (health.state == HEALTH_BAD && !said) {
            cli_note("\"%s\": --health failed: out of the queue until it succeeds", contend.name);
            said = true;
        }
        if (health.state == HEALTH_UNWATCHED) {
            cli_error("\"%s\": the process that runs --health was killed", contend.name);
            return EXIT_FAILED;
        }
        code = contend_wait_or_end(INT64_MAX);
    }
    if (code == CLI_GO_ON) {
        cli_forget_words();
        http_standing = HTTP_QUEUED;
        notify_send("STATUS=waiting");
    }
    return code;
}

static int opened(void)
{
    if (!http_open()) {
        return EXIT_FAILED;
    }
    notify_send("READY=1\nSTATUS=waiting");
    return campaign();
}

static int granted(void)
{
    notify_send("STATUS=leader since %s, token %" PRId64,
                queues_utc(clock_ms(CLOCK_REALTIME)).bytes, contend.grant.token);
    http_standing = HTTP_LEADING;
    cli_note("\"%s\": leader, token %" PRId64, contend.name, contend.grant.token);
    return CLI_GO_ON;
}

/* Leadership lost, or host not healthy: stand again. CMD failed: stand again after a pause. CMD
 * ended in good order, was asked to stop, or cannot be run: end. */
static int next(int code)
{
    /* As systemd counts: exit 0, or killed by HUP, INT or TERM, is an end in good order. */
    int number = WTERMSIG(job.status);
    bool failed = WIFSIGNALED(job.status)
                      ? number != SIGHUP && number != SIGINT && number != SIGTERM
                      : WEXITSTATUS(job.status) != 0;
    bool left = !contend.signal && contend.result == ZKL_ECANCELED; /* the queue, unhealthy */
    bool again = job.lost || job.stop == JOB_UNHEALTHY || left;
    bool pauses = !again && job.ran && failed;
    bool ends = !left && (once || job.stop_requested || job.unkept || !(again || pauses));
    if (!ends && pauses) {
        /* Out of the queue, so that another host may lead meanwhile. */
        bool first = pause_ms == 0 || runner.ended_ms - runner.granted_ms > PAUSE_MAX_MS;
        int64_t most_ms = backoff_ms > PAUSE_MAX_MS ? backoff_ms : PAUSE_MAX_MS;
        int64_t next_ms = first ? backoff_ms : 2 * pause_ms;
        pause_ms = next_ms < most_ms ? next_ms : most_ms;
        cli_note("\"%s\": %s failed (%d): standing again in %.1f s", contend.name, job.name, code,
                 (double)pause_ms / 1000);
        http_standing = HTTP_PAUSED;
        notify_send("STATUS=CMD failed (%d), stands again in %.1f s", code,
                    (double)pause_ms / 1000);
        int64_t end_ms = now_ms() + pause_ms;
        code = CLI_GO_ON;
        while (code == CLI_GO_ON && now_ms() < end_ms) {
            code = contend_wait_or_end(end_ms);
        }
    } else if (!ends) {
        code = CLI_GO_ON;
    }
    if (!ends) {
        job_begin(); /* what ends it from now on is not the end of this term */
        cli_forget_words();
        runner.granted_ms = 0;
        contend.begun_ms = now_ms();
    }
    if (!ends && code == CLI_GO_ON) {
        code = campaign();
    }
    if (code != CLI_GO_ON) {
        http_standing = HTTP_ENDING;
        notify_send("STOPPING=1\nSTATUS=ending");
    }
    return code;
}

static int run(const char **words)
{
    static const struct runner_policy policy = {
        .name = "elect", .opened = opened, .granted = granted, .next = next};
    contend.recipe = ZKL_RECIPE_ELECTION;
    if (!health.command && (health.every_ms > 0 || health.fails > 0)) {
        return cli_usage("elect", "elect: --every and --fails are for --health, which is missing");
    }
    if (health.command && !*health.command) {
        cli_error("--health: which command?");
        return EXIT_FAILED;
    }
    health.every_ms = health.every_ms ? health.every_ms : 10000;
    health.fails = health.fails ? health.fails : 3;
    return runner_main(&policy, words);
}

const struct cli_command cmd_elect = {
    .name = "elect",
    .run = run,
    .arguments = "ELECTION [--] CMD [ARG...]",
    .wanted = "which election?",
    .summary = "for daemons: run CMD while leader, stand again after a loss",
    .examples = "  zklock elect scheduler -- ./scheduler             # on every host\n"
                "  zklock elect --notify scheduler -- ./scheduler    # systemd, Type=notify\n"
                "  zklock elect --health ./ok --listen 9470 scheduler -- ./scheduler\n"
                "  zklock elect --once --value db3 master -- ./lead  # one term\n",
    .notes = "CMD is stopped before anybody else can lead, as by 'zklock run'. Then:\n\n"
             "  leadership was lost         stands again, at the end of the queue\n"
             "  CMD failed                  resigns, stands again after the back-off\n"
             "  CMD ended in good order     resigns and ends with CMD's code: exit 0, or\n"
             "                              killed by HUP, INT or TERM\n"
             "  TERM, INT or QUIT to us     CMD gets it; when it has ended, ends with its\n"
             "                              code. While waiting: 128+n\n"
             "  HUP to us                   CMD gets it. While waiting it is ignored, unless\n"
             "                              our terminal has closed: then 129\n"
             "  CMD cannot be run           resigns and ends, 126 or 127\n"
             "  --once                      ends with the term: CMD's code, 120 when lost\n\n"
             "--notify sends READY=1 when the session is there (a standby, or one that is not\n"
             "healthy yet, is a service that is up), its place in the queue or since\n"
             "when it leads as STATUS=, WATCHDOG=1 (WatchdogSec=) as long as it can act on a\n"
             "loss, and takes NOTIFY_SOCKET and WATCHDOG_* out of CMD's environment; without\n"
             "--notify CMD keeps them and may speak for itself (NotifyAccess=all). --health\n"
             "CMD runs in /bin/sh every --every. After --fails failures in a row CMD is\n"
             "stopped, the candidate resigns, and stands again when a check succeeds. A check\n"
             "that takes longer than --every has failed.\n\n"
             "--listen answers GET by HTTP, on 127.0.0.1 unless ADDR says otherwise: /leader\n"
             "(200 when this candidate leads, else 503; JSON says who leads), /healthz (200\n"
             "when it leads or queues, else 503), /metrics (Prometheus). Anybody who reaches\n"
             "the port may read them. Port 0: any free port.\n\n"
             "'zklock ls ELECTION' shows leader and candidates; Curator's LeaderLatch stands\n"
             "in the same queue. CMD's environment, signals and exit codes: 'zklock run -h'.\n",
    .options = options,
};
