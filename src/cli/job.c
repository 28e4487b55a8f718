
#include "runner.h"

#define REFRESH_MS 50  /* how often the keeper's page is written */
#define LATE_MS 100    /* which a busy machine may add to that */
#define LINGER_MS 1000 /* descendants that end sooner are not mentioned */
#define NEVER INT64_MAX

struct job job = {.grace_ms = JOB_UNSET, .max_run_ms = JOB_UNSET};

static struct own {
    bool over;            /* CMD and its descendants have ended */
    bool told;            /* that they are stopped for the lock's sake */
    pid_t group;          /* CMD's; 0: not known, or ended */
    pid_t former;         /* the same, also when it has ended */
    bool lends_terminal;  /* CMD's group has it, or had it when CMD was stopped */
    bool wants_terminal;  /* CMD is stopped until it has it */
    bool suspended;       /* by Ctrl-Z, until the shell lets this job go on */
    int64_t lease_end_ns; /* CLOCK_BOOTTIME, as last written for the keeper */
    int64_t stop_ms;      /* CLOCK_MONOTONIC, of max_run_ms */
    int64_t linger_ms;    /* CLOCK_MONOTONIC: when to mention descendants that have not ended */
} own;

static int64_t grace_ms; /* CMD's: job.grace_ms, or what the session leaves */

static void give_terminal(void)
{
    if (own.lends_terminal && own.group > 0) {
        tcsetpgrp(job.terminal, own.group);
    }
}

/* From CMD's group, or from nobody. Another one has it when the user has put this job into the
 * background: a shell without its terminal would end. */
static void take_terminal(void)
{
    pid_t has = tcgetpgrp(job.terminal);
    bool nobody = has > 0 && kill(-has, 0) != 0 && errno == ESRCH;
    if (own.lends_terminal && (nobody || has == own.former)) {
        tcsetpgrp(job.terminal, getpgrp());
    }
}

static bool in_foreground(void)
{
    return tcgetpgrp(job.terminal) == getpgrp();
}

/* CMD was stopped because it wants the terminal. In a pipeline it gets it now, as ssh that prompts
 * for a password. In the background it gets it when the user brings the job to the foreground,
 * which no signal reports. */
static void lend_terminal(void)
{
    if (own.wants_terminal && own.group > 0 && in_foreground()) {
        own.wants_terminal = false;
        own.lends_terminal = true;
        give_terminal();
        kill(-own.group, SIGCONT);
    }
}

int job_prepare(void)
{
    if (access("/proc/self/stat", R_OK) != 0) {
        cli_error("/proc cannot be read: %s; mount it, for it shows the processes that CMD starts",
                  strerror(errno));
        return EXIT_FAILED;
    }
    /* What is forked later does not pass the credentials' descriptor on. */
    if (!cli_hide_secret() || !health_open() || !hook_open() || !keeper_open()) {
        return EXIT_FAILED;
    }
    job.terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* if the keeper is killed, its children become ours */
    return CLI_GO_ON;
}

/* What the session leaves CMD of its lease. */
static int64_t room_ms(void)
{
    return zkl_session_least_lease_ms(cli_session) - KEEPER_MARGIN_MS - REFRESH_MS - LATE_MS;
}

/* False: the grace does not fit. */
static bool fit(void)
{
    int64_t most_ms = room_ms();
    grace_ms = job.grace_ms == JOB_UNSET ? most_ms / 2 : job.grace_ms;
    return grace_ms <= most_ms && most_ms > 0;
}

int job_fit(void)
{
    if (fit()) {
        return CLI_GO_ON;
    }
    if (job.grace_ms == JOB_UNSET) {
        cli_error("this session of %" PRId64
                  "ms leaves CMD no time to end within its lease; lengthen --session-timeout",
                  zkl_session_timeout_ms(cli_session));
        return EXIT_FAILED;
    }
    cli_error("--grace %" PRId64 "ms does not fit: this session of %" PRId64
              "ms leaves a lease of %" PRId64 "ms, of which CMD can be given %" PRId64
              "ms; shorten --grace or lengthen --session-timeout",
              job.grace_ms, zkl_session_timeout_ms(cli_session),
              zkl_session_least_lease_ms(cli_session), room_ms() > 0 ? room_ms() : 0);
    return EXIT_FAILED;
}

void job_begin(void)
{
    job.ran = job.lost = job.proved = job.stop_requested = job.overruled = false;
    own = (struct own){.lends_terminal = keeper_has_terminal};
    job.stop = JOB_NOT_STOPPED;
    job.status = job.code = 0;
    keeper_no_lease();
}

/* The clock is read before the lease, so the end that the keeper gets is never later than the true
 * one. A machine that stalls between the two makes that end too early, by the time that the second
 * reading of the clock shows. Returns the time that is left. */
static int64_t refresh_lease(void)
{
    int64_t now = clock_ns(CLOCK_BOOTTIME);
    int64_t left_ms = zkl_lock_remaining_ms(contend.lock);
    int64_t stalled = clock_ns(CLOCK_BOOTTIME) - now;
    zkl_state state = zkl_lock_state(contend.lock);
    hook_follow(state);
    if (state == ZKL_STATE_LOST) {
        keeper_no_lease();
    } else if (left_ms > 0) {
        own.lease_end_ns = now + left_ms * NS_PER_MS;
        keeper_lease(own.lease_end_ns, stalled);
    }
    return left_ms;
}

static void on_stopping(enum keeper_cause cause)
{
    int64_t left_ms = zkl_lock_remaining_ms(contend.lock);
    if (cause == KEEPER_BY_LEASE && own.told) {
        return;
    }
    own.told = cause == KEEPER_BY_LEASE;
    if (cause == KEEPER_BY_ORDER && job.stop == JOB_REVOKED) {
        cli_error("\"%s\": another client requests the lock: stopping %s", contend.name, job.name);
    } else if (cause == KEEPER_BY_ORDER && job.stop == JOB_UNHEALTHY) {
        cli_error("\"%s\": --health failed: stopping %s", contend.name, job.name);
    } else if (cause == KEEPER_BY_ORDER) {
        cli_error("\"%s\": %s ran for %.1f s (--max-run): stopping it", contend.name, job.name,
                  (double)job.max_run_ms / 1000);
    } else if (left_ms > 0) {
        cli_error("\"%s\": no response from the servers, the lease ends in %" PRId64
                  "ms: stopping %s; 'zklock doctor' asks each server",
                  contend.name, left_ms, job.name);
    } else {
        cli_error("\"%s\" is lost: killing %s; run it again, for it did not end", contend.name,
                  job.name);
    }
}

/* Ctrl-Z has stopped CMD, which has the terminal, or has come to us alone: both stop, so that the
 * shell sees a stopped job. The lease runs on meanwhile. Where no shell could let it go on, as
 * below ssh -t, the kernel stops no job, and this one does not stop either. */
static void suspend(void)
{
    own.suspended = !keeper_orphaned();
    if (!own.suspended) {
        keeper_order(KEEPER_SIGNAL, SIGCONT);
        return;
    }
    keeper_order(KEEPER_SIGNAL, SIGTSTP);
    cli_note("\"%s\" will be lost unless this job goes on within %" PRId64 "ms", contend.name,
             zkl_lock_remaining_ms(contend.lock));
    take_terminal();
    signals_catch_stop(false);
    raise(SIGTSTP);
    signals_catch_stop(true);
}

/* SIGSTOP is meant for CMD alone: zklock goes on, and the lock stays held. */
static void on_suspended(int number)
{
    const char *lock = contend.name;
    if (number == SIGTTIN || number == SIGTTOU) {
        own.wants_terminal = true;
        lend_terminal();
        if (own.wants_terminal) {
            cli_note("%s was stopped: it wants the terminal, and gets it when this job is in the "
                     "foreground",
                     job.name);
        }
    } else if (number == SIGSTOP) {
        take_terminal(); /* so that Ctrl-C works; CMD has it again when it wants it */
        cli_note("%s was stopped by SIGSTOP: \"%s\" stays held; kill -CONT -%d lets it go on",
                 job.name, lock, (int)own.group);
    } else if (own.lends_terminal && !own.suspended) {
        own.suspended = true;
        kill(0, SIGTSTP); /* to all of this job; for zklock that is suspend */
    }
}

static void on_event(void)
{
    struct keeper_event event = keeper_next();
    bool killed = WIFSIGNALED(event.value);
    int number = WTERMSIG(event.value);
    switch (event.news) {
    case KEEPER_STARTED:
        job.ran = true;
        own.group = own.former = event.pid;
        break;
    case KEEPER_REFUSED:
        cli_error("%s: %s%s", *job.name ? job.name : "\"\"", strerror(event.value),
                  *job.name == '-' ? "; options of ours come before LOCK" : "");
        job.code = event.value == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE;
        own.over = true;
        break;
    case KEEPER_SUSPENDED:
        on_suspended(event.value);
        break;
    case KEEPER_STOPPING:
        on_stopping(event.cause);
        break;
    case KEEPER_LINGERING:
        own.group = 0; /* waited for: the number may become another process's */
        own.linger_ms = now_ms() + LINGER_MS;
        break;
    case KEEPER_ENDED:
        if (event.cause == KEEPER_BY_ITSELF && !job.lost && killed && number == SIGKILL) {
            /* Neither zklock nor the keeper sent that KILL. The kernel does when memory runs out.
             */
            cli_note("\"%s\": somebody killed %s (SIGKILL); 'journalctl -k' shows a lack of memory",
                     contend.name, job.name);
        }
        own.group = 0;
        signals_interrupted |= own.lends_terminal && killed && number == SIGINT;
        job.status = event.value;
        job.lost = job.lost || event.cause == KEEPER_BY_LEASE;
        job.code = killed ? EXIT_SIGNAL + number : WEXITSTATUS(job.status);
        own.over = true;
        break;
    case KEEPER_DIED: /* CMD with it. Its other descendants are zklock's children now. */
        cli_error("\"%s\": the keeper process was killed, %s %s; run it again ('journalctl -k' "
                  "shows a lack of memory)",
                  contend.name, job.ran ? "and with it" : "before it started", job.name);
        keeper_clear_up(own.group);
        job.status = SIGKILL;
        job.code = EXIT_FAILED;
        job.unkept = true;
        own.over = true;
        break;
    }
}

/* A grant may come with a lease that is old: it may become too short for the grace before its next
 * renewal, and the keeper would then stop CMD. Heartbeats renew it. A long --grace leaves no room
 * for slow responses: after a third of the session timeout, when heartbeats have done all they can,
 * the lease as it is must do. And a server that came back while we were in line may have granted a
 * shorter session: then the grace is another, or fits no more. */
static bool wait_for_room(void)
{
    int64_t enough_ms = now_ms() + zkl_session_timeout_ms(cli_session) / 3;
    int code = CLI_GO_ON;
    while (code == CLI_GO_ON) {
        health_update(); /* its news end each wait until they are read; watch looks at them */
        bool fits = fit(), enough = now_ms() >= enough_ms;
        int64_t left_ms = refresh_lease(), wanted_ms = grace_ms + KEEPER_MARGIN_MS + LATE_MS;
        if (zkl_lock_state(contend.lock) == ZKL_STATE_LOST) {
            cli_error("\"%s\" was lost before %s could start", contend.name, job.name);
            job.lost = true;
            return false;
        }
        if (fits && left_ms >= wanted_ms &&
            (enough || zkl_session_low_lease_ms(cli_session) >= wanted_ms)) {
            return true;
        }
        code = !fits && enough ? job_fit() : contend_wait_or_end(now_ms() + REFRESH_MS);
    }
    job.code = code;
    job.stop_requested = contend.signal != 0;
    return false;
}

static void watch(void)
{
    int64_t now = now_ms();
    own.stop_ms = job.max_run_ms == JOB_UNSET ? NEVER : now + job.max_run_ms;
    own.linger_ms = NEVER;
    signals_catch_stop(true);
    keeper_start(contend.node, contend.grant.token, grace_ms);
    struct pollfd more = {.fd = keeper_socket, .events = POLLIN};
    while (!own.over) {
        contend_wait(keeper_socket, now_ms() + REFRESH_MS);
        int64_t left_ms = refresh_lease();
        /* All of them: who was stopped must not kill a group that has ended since, for its number
         * may be another's. */
        while (!own.over && poll(&more, 1, 0) > 0) {
            on_event();
        }
        /* The keeper does so, unless it is stopped, even before it could report that CMD runs. Then
         * it cannot report this cause, nor if this kill comes first. */
        if (left_ms < KEEPER_MARGIN_MS / 2 && !own.over && keeper_kill(own.group)) {
            job.lost = true;
            on_stopping(KEEPER_BY_LEASE);
        }
        for (int number; (number = signals_next()) != 0;) {
            if (number == SIGTSTP) {
                suspend();
                continue;
            }
            own.suspended = own.suspended && number != SIGCONT;
            if (number == SIGCONT && in_foreground()) {
                give_terminal(); /* after Ctrl-Z and fg */
            }
            if (!job.stop_requested &&
                (number == SIGTERM || number == SIGINT || number == SIGQUIT)) {
                job.stop_requested = true;
                notify_send("STOPPING=1\nSTATUS=stopping CMD");
            }
            keeper_order(KEEPER_SIGNAL, number);
        }
        now = now_ms();
        lend_terminal();
        enum job_stop reason = health_update() != HEALTH_GOOD ? JOB_UNHEALTHY
                               : contend.revoked              ? JOB_REVOKED
                               : now >= own.stop_ms           ? JOB_TOO_LONG
                                                              : JOB_NOT_STOPPED;
        if (job.stop == JOB_NOT_STOPPED && reason != JOB_NOT_STOPPED &&
            keeper_order(KEEPER_STOP, 0)) {
            job.stop = reason; /* else the keeper is stopped: the order is sent again */
        }
        if (now >= own.linger_ms) {
            own.linger_ms = NEVER;
            cli_note(
                "%s has ended, processes it left behind have not: \"%s\" is held until they end",
                job.name, contend.name);
        }
    }
    signals_catch_stop(false);
    take_terminal();
}

int job_run(int (*ended)(void))
{
    hook_granted(contend.node, contend.grant.token);
    if (wait_for_room()) {
        watch();
    }
    int code = ended ? ended() : CLI_GO_ON;
    job.overruled = code != CLI_GO_ON;
    job.code = job.overruled ? code : job.code;
    /* A late release, because zklock was stopped after CMD's end, is no loss. A loss before the end
     * of the lease is one: somebody removed the znode. It is none if the servers confirmed the lock
     * after CMD's end. */
    bool in_time = clock_ns(CLOCK_BOOTTIME) < own.lease_end_ns;
    bool lost = contend_release() == ZKL_ELOST;
    if (lost && (job.lost || (in_time && !job.proved))) {
        job.lost = true;
        cli_error("\"%s\": %s", contend.name, contend.error.text);
    }
    if (job.lost) {
        atomic_fetch_add(&metrics_stops, 1);
        job.code = EXIT_LOST;
    }
    hook_ended(job.lost);
    return job.code;
}
