#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "notify.h"
#include "options.h"
#include "signals.h"

#define REFRESH_MS 50  /* how often the keeper's page is written */
#define LATE_MS 100    /* what a busy machine may add to that */
#define LINGER_MS 1000 /* who lingers for less need not be mentioned */
#define NEVER INT64_MAX

/* A job alone in the foreground gets the terminal, as a shell would give it; in a pipeline the
 * terminal is shared. */
static bool owns_terminal(void)
{
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void terminal_to(const struct job *job, pid_t group)
{
    sigset_t blocked;
    sigset_t before;
    if (!job->lends_terminal || group <= 0) {
        return;
    }
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTTOU); /* or we would be stopped for it */
    sigprocmask(SIG_BLOCK, &blocked, &before);
    tcsetpgrp(job->terminal, group);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

static bool in_foreground(const struct job *job)
{
    return job->terminal >= 0 && tcgetpgrp(job->terminal) == getpgrp();
}

/* CMD was stopped since it wants the terminal. In a pipeline it can have it now, as ssh that asks
 * for a password; in the background when somebody brings us to the foreground, of which no signal
 * tells. */
static void lend_terminal(struct job *job)
{
    if (job->wants_terminal && job->group > 0 && in_foreground(job)) {
        job->wants_terminal = false;
        job->lends_terminal = true;
        terminal_to(job, job->group);
        kill(-job->group, SIGCONT);
    }
}

bool job_prepare(struct job *job, const char *path)
{
    if (!hook_open(&job->hook, path, cli.servers)) {
        return false;
    }
    job->keeper_command = (struct keeper_command){.argv = job->command,
                                                  .path = path,
                                                  .servers = cli.servers,
                                                  .terminal = owns_terminal(),
                                                  .again = job->again};
    sigprocmask(SIG_SETMASK, NULL, &job->keeper_command.mask);
    if (!cli_hide_secret()) {
        return false;
    }
    if (!keeper_open(&job->keeper, &job->keeper_command)) {
        cli_error("cannot start a process: %s; raise the limit (ulimit -u, TasksMax= of the unit)",
                  strerror(errno));
        return false;
    }
    job->terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* should the keeper be killed, its children come to us */
    return true;
}

int job_fit(struct job *job, struct contend *contend)
{
    int64_t least_ms = zkl_session_least_lease_ms(contend->session);
    int64_t room_ms = least_ms - KEEPER_MARGIN_MS - REFRESH_MS - LATE_MS;
    job->contend = contend;
    if (job->grace_ms == JOB_UNSET && room_ms > 0) {
        job->grace_ms = room_ms / 2;
    }
    if (job->grace_ms <= room_ms && room_ms > 0) {
        return CLI_GO_ON;
    }
    cli_error("--grace %" PRId64 "ms does not fit: this session of %" PRId64
              "ms leaves a lease of %" PRId64 "ms, of which CMD can be given %" PRId64
              "ms; shorten --grace or lengthen --session-timeout",
              job->grace_ms, zkl_session_timeout_ms(contend->session), least_ms,
              room_ms > 0 ? room_ms : 0);
    return EXIT_FAILED;
}

void job_begin(struct job *job)
{
    job->ran = job->lost = job->proved = job->told = job->over = job->wants_terminal = false;
    job->lends_terminal = job->keeper_command.terminal;
    job->stop = JOB_NOT_STOPPED;
    job->status = job->code = 0;
    job->group = 0;
    job->lease_end_ns = 0;
    keeper_begin(&job->keeper);
}

/* The clock is read first, so the end that is written is never later than the true one. Returns
 * what is left. */
static int64_t refresh_lease(struct job *job)
{
    int64_t now = clock_ns(CLOCK_BOOTTIME);
    int64_t left_ms = zkl_lock_remaining_ms(job->contend->lock);
    zkl_state state = zkl_lock_state(job->contend->lock);
    hook_follow(&job->hook, state);
    if (state == ZKL_STATE_LOST) {
        keeper_lost(&job->keeper);
    } else if (left_ms > 0) {
        job->lease_end_ns = now + left_ms * NS_PER_MS;
        keeper_lease(&job->keeper, job->lease_end_ns);
    }
    if (left_ms < KEEPER_MARGIN_MS / 2 && job->ran && !job->over) {
        /* The keeper has done so, unless somebody stopped it; then it will not know why they died.
         */
        job->lost = keeper_kill(&job->keeper, job->group) || job->lost;
    }
    return left_ms;
}

static void on_stopping(const struct job *job, enum keeper_cause cause)
{
    int64_t left_ms = zkl_lock_remaining_ms(job->contend->lock);
    if (cause == KEEPER_BY_ORDER && job->stop == JOB_REVOKED) {
        cli_error("\"%s\": another client requests the lock: stopping %s", job->contend->name,
                  job->name);
    } else if (cause == KEEPER_BY_ORDER && job->stop == JOB_UNHEALTHY) {
        cli_error("\"%s\": --health failed: stopping %s", job->contend->name, job->name);
    } else if (cause == KEEPER_BY_ORDER) {
        cli_error("\"%s\": %s ran for %.1f s (--max-run): stopping it", job->contend->name,
                  job->name, (double)job->max_run_ms / 1000);
    } else if (left_ms > 0) {
        cli_error("\"%s\": no response from the servers, the lease ends in %" PRId64
                  "ms: stopping %s; 'zklock doctor' asks each server",
                  job->contend->name, left_ms, job->name);
    } else {
        cli_error("\"%s\" is lost: killing %s; run it again, for it did not end",
                  job->contend->name, job->name);
    }
}

static void on_refused(struct job *job, int reason)
{
    cli_error("%s: %s%s", *job->name ? job->name : "\"\"", strerror(reason),
              *job->name == '-' ? "; options of ours come before LOCK" : "");
    job->code = reason == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE;
    job->over = true;
}

/* Nobody of us sent that KILL. The kernel does, without a word here, when memory runs out. */
static void tell_kill(const struct job *job, const struct keeper_event *event)
{
    if (event->cause == KEEPER_BY_ITSELF && !job->lost && WIFSIGNALED(event->value) &&
        WTERMSIG(event->value) == SIGKILL) {
        cli_note("\"%s\": somebody killed %s (SIGKILL); 'journalctl -k' tells of a lack of memory",
                 job->contend->name, job->name);
    }
}

static void on_ended(struct job *job, const struct keeper_event *event)
{
    tell_kill(job, event);
    job->group = 0;
    job->status = event->value;
    job->lost = job->lost || event->cause == KEEPER_BY_LEASE;
    job->code =
        WIFSIGNALED(job->status) ? EXIT_SIGNAL + WTERMSIG(job->status) : WEXITSTATUS(job->status);
    job->over = true;
}

/* Nobody should kill the keeper. CMD died with it; who is left is ours now. */
static void on_died(struct job *job)
{
    cli_error("\"%s\": the keeper process was killed, and %s with it; run it again ('journalctl "
              "-k' tells of a lack of "
              "memory)",
              job->contend->name, job->name);
    keeper_clear_up(job->group);
    job->status = SIGKILL;
    job->code = EXIT_FAILED;
    job->unkept = true;
    job->over = true;
}

/* Ctrl-Z stopped CMD: take the terminal back and stop as well, so that the shell sees a stopped
 * job. The lease does not wait for it. A SIGSTOP is somebody's who wants CMD to pause, not us: the
 * lock stays held. */
static void on_suspended(struct job *job, int number)
{
    const char *lock = job->contend->name;
    if (number == SIGTTIN || number == SIGTTOU) {
        job->wants_terminal = true;
        lend_terminal(job);
        if (job->wants_terminal) {
            cli_note("%s was stopped: it wants the terminal, and gets it when this job is in the "
                     "foreground",
                     job->name);
        }
    } else if (number == SIGSTOP) {
        terminal_to(job, getpgrp()); /* so that Ctrl-C works; CMD has it again when it wants it */
        cli_note("%s was stopped by SIGSTOP: \"%s\" stays held; kill -CONT -%d lets it go on",
                 job->name, lock, (int)job->group);
    } else if (job->lends_terminal) {
        cli_note("\"%s\" will be lost unless this job goes on within %" PRId64 "ms", lock,
                 zkl_lock_remaining_ms(job->contend->lock));
        terminal_to(job, getpgrp());
        kill(0, SIGTSTP);
    }
}

static void on_event(struct job *job)
{
    struct keeper_event event = keeper_next(&job->keeper);
    switch (event.news) {
    case KEEPER_STARTED:
        job->ran = true;
        job->group = event.pid;
        break;
    case KEEPER_REFUSED:
        on_refused(job, event.value);
        break;
    case KEEPER_SUSPENDED:
        on_suspended(job, event.value);
        break;
    case KEEPER_STOPPING:
        on_stopping(job, event.cause);
        break;
    case KEEPER_LINGERING:
        job->group = 0; /* waited for: the number may become somebody else's */
        job->linger_ms = clock_ms(CLOCK_MONOTONIC) + LINGER_MS;
        break;
    case KEEPER_ENDED:
        on_ended(job, &event);
        break;
    case KEEPER_DIED:
        on_died(job);
        break;
    }
}

static void on_signals(struct job *job)
{
    int number;
    while ((number = signals_next()) != 0) {
        if (number == SIGCONT && in_foreground(job)) {
            terminal_to(job, job->group); /* after Ctrl-Z and fg */
        }
        if (!job->told && (number == SIGTERM || number == SIGINT || number == SIGQUIT)) {
            job->told = true;
            notify_say(job->contend->notify, "STOPPING=1\nSTATUS=stopping CMD");
        }
        keeper_signal(&job->keeper, number);
    }
}

static enum job_stop why_stop(const struct job *job, int64_t now_ms)
{
    return !contend_is_healthy(job->contend) ? JOB_UNHEALTHY
           : job->contend->revoked           ? JOB_REVOKED
           : now_ms >= job->stop_ms          ? JOB_TOO_LONG
                                             : JOB_NOT_STOPPED;
}

static void on_time(struct job *job)
{
    int64_t now = clock_ms(CLOCK_MONOTONIC);
    lend_terminal(job);
    metrics_look(&job->contend->metrics, job->contend->session);
    if (job->stop == JOB_NOT_STOPPED) {
        enum job_stop reason = why_stop(job, now);
        bool stopped = reason != JOB_NOT_STOPPED && keeper_stop(&job->keeper);
        job->stop =
            stopped ? reason : JOB_NOT_STOPPED; /* a keeper that is stopped is asked again */
    }
    if (now >= job->linger_ms) {
        job->linger_ms = NEVER;
        cli_note("%s has ended, processes it left behind have not: \"%s\" is held until they end",
                 job->name, job->contend->name);
    }
}

static void wait_once(struct job *job, bool started)
{
    struct pollfd fds[] = {{.fd = job->keeper.socket, .events = POLLIN},
                           {.fd = zkl_session_fd(job->contend->session), .events = POLLIN},
                           {.fd = started ? signals_fd() : -1, .events = POLLIN}};
    poll(fds, 3, REFRESH_MS);
    if (fds[0].revents) {
        on_event(job);
    }
    contend_dispatch(job->contend);
}

/* A grant may come with a lease that is old, or young and long in coming: too much of it may be
 * gone before its next renewal, and the keeper would then stop CMD. Heartbeats renew it. A long
 * --grace leaves no room for slow responses: then what is left now has to do after a third of the
 * session timeout, when the heartbeats have done all they can. */
static bool has_room(struct job *job, int64_t begun_ms)
{
    zkl_session *session = job->contend->session;
    int64_t wanted_ms = job->grace_ms + KEEPER_MARGIN_MS + LATE_MS;
    int64_t waited_ms = clock_ms(CLOCK_MONOTONIC) - begun_ms;
    return refresh_lease(job) >= wanted_ms && (zkl_session_low_lease_ms(session) >= wanted_ms ||
                                               waited_ms >= zkl_session_timeout_ms(session) / 3);
}

static bool wait_for_room(struct job *job)
{
    int64_t begun_ms = clock_ms(CLOCK_MONOTONIC);
    while (!job->over && !has_room(job, begun_ms)) {
        if (zkl_lock_state(job->contend->lock) == ZKL_STATE_LOST) {
            cli_error("\"%s\" was lost before %s could start", job->contend->name, job->name);
            job->lost = true;
            return false;
        }
        wait_once(job, false);
    }
    return !job->over;
}

static void watch(struct job *job)
{
    int64_t now = clock_ms(CLOCK_MONOTONIC);
    job->stop_ms = job->max_run_ms == JOB_UNSET ? NEVER : now + job->max_run_ms;
    job->linger_ms = NEVER;
    keeper_start(&job->keeper, job->contend->node, job->contend->grant.token, job->grace_ms);
    while (!job->over) {
        wait_once(job, true);
        refresh_lease(job);
        on_signals(job);
        on_time(job);
    }
    terminal_to(job, getpgrp());
}

/* Gives the lock back and decides whether it was ours to the end. Back late, because we were
 * stopped after CMD's end, is no loss; lost with time on the lease is: somebody removed our znode.
 * Unless the servers said since that it stood. */
static void give_back(struct job *job)
{
    bool in_time = clock_ns(CLOCK_BOOTTIME) < job->lease_end_ns;
    bool lost = contend_release(job->contend) == ZKL_ELOST;
    if (lost && (job->lost || (in_time && !job->proved))) {
        job->lost = true;
        cli_error("\"%s\": %s", job->contend->name, job->contend->error.text);
    }
    if (job->lost) {
        atomic_fetch_add(&job->contend->metrics.stops, 1);
        job->code = EXIT_LOST;
    }
}

int job_run(struct job *job)
{
    hook_granted(&job->hook, job->contend->node, job->contend->grant.token);
    if (wait_for_room(job)) {
        watch(job);
    }
    int code = job->before_release ? job->before_release(job) : CLI_GO_ON;
    job->code = code == CLI_GO_ON ? job->code : code;
    give_back(job);
    hook_ended(&job->hook, job->lost);
    return job->code;
}

void job_close(struct job *job)
{
    keeper_close(&job->keeper);
    hook_close(&job->hook);
    if (job->terminal >= 0) {
        close(job->terminal);
    }
}
