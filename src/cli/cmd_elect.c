/* cmd_elect.c - for daemons: run CMD while leader, stop it on loss, stand again. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "supervise/health.h"
#include "http.h"
#include "notify.h"
#include "runner.h"

#define EVERY_LEAST_MS 100
#define PAUSE_MAX_MS \
    60000 /* between failures; and a CMD that ran for longer fails as if for the first time */

enum {
    OPTION_ONCE = RUNNER_FIRST_OWN,
    OPTION_VALUE_TEXT,
    OPTION_NOTIFY,
    OPTION_BACKOFF,
    OPTION_HEALTH,
    OPTION_EVERY,
    OPTION_FAILS,
    OPTION_LISTEN
};

static const struct poptOption options[] = {
    OPTION_FLAG("once", '\0', OPTION_ONCE, "one term: end when it ends, however it ends"),
    OPTION_VALUE("value", '\0', OPTION_VALUE_TEXT, "what the candidate publishes (HOST:PID (USER))",
                 "TEXT"),
    OPTION_VALUE("backoff", '\0', OPTION_BACKOFF,
                 "pause after CMD failed; doubles up to 1m while it fails (1s)", "DUR"),
    OPTION_FLAG("notify", '\0', OPTION_NOTIFY,
                "tell systemd: READY=1, STATUS=, STOPPING=1, WATCHDOG=1"),
    OPTION_VALUE("health", '\0', OPTION_HEALTH,
                 "resign and stay out while this command of the shell fails", "CMD"),
    OPTION_VALUE("every", '\0', OPTION_EVERY,
                 "pause between two health checks, and the time each may take (10s)", "DUR"),
    OPTION_VALUE("fails", '\0', OPTION_FAILS,
                 "failed checks in a row that make the host unhealthy (3)", "N"),
    OPTION_VALUE("listen", '\0', OPTION_LISTEN, "answer /healthz, /leader and /metrics by HTTP",
                 "[ADDR:]PORT"),
    OPTION_DELAY_AFTER_CRASH,
    OPTIONS_JOB,
    OPTION_END,
};

struct elect {
    struct runner runner; /* first */
    struct notify notify;
    struct health health;
    struct http http;
    bool once;
    bool timed;         /* --every or --fails was given */
    int64_t backoff_ms; /* the first pause */
    int64_t pause_ms;   /* the last one; 0: none yet */
};

static bool take_backoff(struct elect *elect, const char *value)
{
    if (!cli_take_duration("--backoff", value, &elect->backoff_ms)) {
        return false;
    }
    if (elect->backoff_ms > INT32_MAX) {
        cli_error("--backoff: '%s' is out of range", value);
        return false;
    }
    return true;
}

static bool take_every(struct elect *elect, const char *value)
{
    int64_t *every_ms = &elect->health.every_ms;
    if (!cli_take_duration("--every", value, every_ms)) {
        return false;
    }
    if (*every_ms < EVERY_LEAST_MS || *every_ms > INT32_MAX) {
        cli_error("--every: '%s' is out of range; %dms to 24d is possible", value, EVERY_LEAST_MS);
        return false;
    }
    return true;
}

static bool take_health(struct elect *elect, int option, const char *value)
{
    switch (option) {
    case OPTION_HEALTH:
        elect->health.command = value;
        elect->runner.contend.health = &elect->health;
        if (!*value) {
            cli_error("--health: which command?");
        }
        return *value;
    case OPTION_EVERY:
        elect->timed = true;
        return take_every(elect, value);
    default:
        elect->timed = true;
        return cli_take_number("--fails", value, 1, 1000, &elect->health.fails);
    }
}

static bool take(void *into, int option, const char *value)
{
    struct elect *elect = into;
    bool taken;
    bool fine = runner_take(&elect->runner, option, value, &taken);
    if (taken) {
        return fine;
    }
    switch (option) {
    case OPTION_ONCE:
        elect->once = true;
        return true;
    case OPTION_VALUE_TEXT:
        elect->runner.contend.metadata = value;
        return true;
    case OPTION_BACKOFF:
        return take_backoff(elect, value);
    case OPTION_HEALTH:
    case OPTION_EVERY:
    case OPTION_FAILS:
        return take_health(elect, option, value);
    case OPTION_LISTEN:
        elect->http.address = value;
        return http_check(value);
    default:
        elect->runner.contend.notify = &elect->notify;
        return notify_open(&elect->notify);
    }
}

/* The process that checks is started before there is a session, whose descriptors it must not have.
 */
static int taken(struct runner *runner)
{
    struct elect *elect = (struct elect *)runner;
    if (elect->timed && !elect->health.command) {
        return cli_usage("elect", "elect: --every and --fails are for --health, which is missing");
    }
    if (!health_open(&elect->health)) {
        cli_error("--health: no process can be started: %s", strerror(errno));
        return EXIT_FAILED;
    }
    return CLI_GO_ON;
}

/* Out of the queue until a check succeeds. */
static int stay_out(struct elect *elect)
{
    struct contend *contend = &elect->runner.contend;
    if (contend_is_healthy(contend)) {
        return CLI_GO_ON;
    }
    http_stands(&elect->http, HTTP_UNHEALTHY);
    notify_say(contend->notify, "STATUS=not healthy: out of the queue");
    return contend_await_health(contend);
}

static void stand(struct elect *elect)
{
    http_stands(&elect->http, HTTP_QUEUED);
    notify_say(elect->runner.contend.notify, "STATUS=waiting");
}

static int opened(struct runner *runner)
{
    struct elect *elect = (struct elect *)runner;
    if (!http_open(&elect->http, &runner->contend)) {
        return EXIT_FAILED;
    }
    notify_say(runner->contend.notify, "READY=1\nSTATUS=waiting");
    int code = stay_out(elect);
    if (code == CLI_GO_ON) {
        stand(elect);
    }
    return code;
}

static void closing(struct runner *runner)
{
    struct elect *elect = (struct elect *)runner;
    http_close(&elect->http);
    health_close(&elect->health);
}

static int granted(struct runner *runner)
{
    const struct contend *contend = &runner->contend;
    char since[40];
    time_t now = time(NULL);
    struct tm utc;
    strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    notify_say(contend->notify, "STATUS=leader since %s, token %" PRId64, since,
               contend->grant.token);
    http_stands(&((struct elect *)runner)->http, HTTP_LEADING);
    cli_note("\"%s\": leader, token %" PRId64, contend->name, contend->grant.token);
    return CLI_GO_ON;
}

/* As systemd counts: exit 0, or killed by HUP, INT or TERM, is an end in good order. */
static bool failed(const struct job *job)
{
    if (!WIFSIGNALED(job->status)) {
        return WEXITSTATUS(job->status) != 0;
    }
    int number = WTERMSIG(job->status);
    return number != SIGHUP && number != SIGINT && number != SIGTERM;
}

/* Out of the queue, so that another host may lead meanwhile. */
static int pause_and_stand_again(struct elect *elect, int code)
{
    struct contend *contend = &elect->runner.contend;
    bool first =
        elect->pause_ms == 0 || elect->runner.ended_ms - elect->runner.granted_ms > PAUSE_MAX_MS;
    int64_t pause_ms = first ? elect->backoff_ms : 2 * elect->pause_ms;
    elect->pause_ms = pause_ms < PAUSE_MAX_MS || first ? pause_ms : PAUSE_MAX_MS;
    cli_note("\"%s\": %s failed (%d): standing again in %.1f s", contend->name,
             elect->runner.job.name, code, (double)elect->pause_ms / 1000);
    http_stands(&elect->http, HTTP_PAUSED);
    notify_say(contend->notify, "STATUS=CMD failed (%d), stands again in %.1f s", code,
               (double)elect->pause_ms / 1000);
    return contend_pause(contend, elect->pause_ms);
}

/* Lost, or not healthy: stand again. CMD failed: after a pause. It ended in good order, was told to
 * end, or cannot be run: end. */
static int next(struct runner *runner, int code)
{
    struct elect *elect = (struct elect *)runner;
    const struct job *job = &runner->job;
    bool left = !runner->contend.signal &&
                runner->contend.result == ZKL_ECANCELED; /* the queue, unhealthy */
    bool again = job->lost || job->stop == JOB_UNHEALTHY || left;
    bool ends = !left &&
                (elect->once || job->told || job->unkept || (!again && !(job->ran && failed(job))));
    if (!ends) {
        code = again ? CLI_GO_ON : pause_and_stand_again(elect, code);
        code = code == CLI_GO_ON ? stay_out(elect) : code;
    }
    if (code == CLI_GO_ON) {
        stand(elect);
    } else {
        http_stands(&elect->http, HTTP_ENDING);
        notify_say(runner->contend.notify, "STOPPING=1\nSTATUS=ending");
    }
    return code;
}

/* From a terminal HUP means that it is gone. To a daemon it says: read your configuration again. */
static bool has_terminal(void)
{
    int terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal >= 0) {
        close(terminal);
    }
    return terminal >= 0;
}

static int elect_command(const struct cli_command *self, int argc, const char **argv)
{
    struct elect elect = {.notify = {.socket = -1},
                          .health = {.every_ms = 10000, .fails = 3, .socket = -1},
                          .backoff_ms = 1000};
    runner_init(&elect.runner, self->name);
    elect.runner.what = "election";
    elect.runner.contend.recipe = ZKL_RECIPE_ELECTION;
    elect.runner.contend.reloads = !has_terminal();
    elect.runner.job.again = true;
    elect.runner.taken = taken;
    elect.runner.opened = opened;
    elect.runner.closing = closing;
    elect.runner.granted = granted;
    elect.runner.next = next;
    return runner_main(&elect.runner, self, argc, argv, take, &elect);
}

const struct cli_command cmd_elect = {
    .name = "elect",
    .run = elect_command,
    .arguments = "ELECTION [--] CMD [ARG...]",
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
             "                              code. While waiting: 128+n at once\n"
             "  HUP to us                   CMD gets it. While waiting it is ignored, unless\n"
             "                              our terminal is gone: then 129\n"
             "  CMD cannot be run           resigns and ends, 126 or 127\n"
             "  --once                      ends with the term: CMD's code, 120 when lost\n\n"
             "--notify sends READY=1 when the session is there and the candidate stands (a\n"
             "standby that waits is a service that is up), its place in the queue or since\n"
             "when it leads as STATUS=, WATCHDOG=1 (WatchdogSec=) as long as it can act on a\n"
             "loss, and takes NOTIFY_SOCKET and WATCHDOG_* out of CMD's environment;\n"
             "without --notify CMD keeps them and may speak for itself (NotifyAccess=all).\n"
             "--health CMD runs in /bin/sh every --every. After --fails failures in a row CMD\n"
             "is stopped, the candidate resigns, and stands again when a check succeeds. A\n"
             "check that takes longer than --every has failed.\n\n"
             "--listen answers GET by HTTP, on 127.0.0.1 unless ADDR says otherwise:\n"
             "/leader (200 when this candidate leads, else 503; JSON says who leads),\n"
             "/healthz (200 when it leads or queues, else 503), /metrics (Prometheus).\n"
             "Anybody who reaches the port may read them. Port 0: any free port.\n\n"
             "'zklock ls ELECTION' shows leader and candidates; Curator's LeaderLatch stands\n"
             "in the same queue. CMD's environment, signals and exit codes: 'zklock run -h'.\n",
    .options = options,
};
