/* runner.c - a lock, from the words of the command line to the report. */
#include "runner.h"

#define LEAVE_MS 2000 /* for the server's response that our znode is deleted */

struct contend contend = {
    .path_count = 1, .limit = -1, .wait_ms = ZKL_WAIT_FOREVER, .not_granted = EXIT_NOT_GRANTED};
static const struct runner_policy *policy;

/* --- who is before us, on a terminal and to the service manager:
 * waiting for "backup": 2 ahead; held by db3:4121 (deploy) for 00:02:13 */

#define FIRST_MS 1000 /* a shorter wait shows nothing */
#define NEXT_MS 5000
#define EACH_MS 200 /* or so much for each in the queue: to list it takes a request for each */
#define LIST_MS 1000
#define WIPE "\r\033[K"

static struct {
    bool terminal; /* standard error is one, and not -q */
    bool shown;
    int64_t next_ms; /* CLOCK_MONOTONIC; INT64_MAX: nobody wants it */
} progress;

/* Cut to the width of the terminal: a line that wraps cannot be wiped. */
__attribute__((format(printf, 2, 3))) static void print(const char *name, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    if (!progress.terminal) {
        return;
    }
    int length = snprintf(text, sizeof text, WIPE "zklock: waiting for \"%.900s\": ", name);
    va_start(arguments, format);
    vsnprintf(text + length, sizeof text - (size_t)length, format, arguments);
    va_end(arguments);
    cli_cut(text + strlen(WIPE), cli_columns(STDERR_FILENO) - 1);
    progress.shown |= cli_write(STDERR_FILENO, text);
}

/* Shows it if it is due: of several locks the first at which a contender is ahead, or the last. */
static void show_line(void)
{
    if (now_ms() < progress.next_ms) {
        return;
    }
    progress.next_ms = now_ms() + NEXT_MS;
    char path[ZKL_PATH_MAX + 16];
    zkl_queue *queue = NULL;
    size_t i = 0, ahead = 0;
    for (bool last = false; !last; i++) {
        zkl_queue_free(queue);
        snprintf(path, sizeof path, "%s%s", contend.paths[i],
                 contend.recipe == ZKL_RECIPE_SEMAPHORE ? "/locks" : "");
        if (zkl_queue_list(&queue, cli_session, path, LIST_MS, NULL) != ZKL_OK) {
            bool connected = zkl_session_state(cli_session) == ZKL_SESSION_CONNECTED;
            const char *why =
                connected ? "the queue could not be listed in a second" : "no server responds";
            notify_send("STATUS=waiting, %s", why);
            print(contend.name, "%s", why);
            return;
        }
        int64_t pause_ms = (int64_t)queue->count * EACH_MS;
        if (pause_ms > NEXT_MS) {
            progress.next_ms = now_ms() + pause_ms;
        }
        /* Our position: one session has one contender. The queue's length: we are not in it. */
        int64_t own = zkl_session_id(cli_session);
        ahead = 0;
        while (ahead < queue->count && queue->entries[ahead].session_id != own) {
            ahead++;
        }
        last = i + 1 == contend.path_count || (ahead > 0 && ahead < queue->count);
    }
    notify_send("STATUS=waiting, %zu ahead", ahead);
    if (contend.recipe == ZKL_RECIPE_SEMAPHORE && contend.limit == 0) {
        print(contend.name, "%zu ahead", ahead);
    } else if (contend.recipe == ZKL_RECIPE_SEMAPHORE) {
        print(contend.name, "%zu ahead; %d at a time", ahead, contend.limit);
    } else if (ahead == 0) {
        print(contend.name, "nobody ahead");
    } else {
        /* The age of the holder's znode when ours was created, by the server's times, and the time
         * since by our own clock. */
        size_t first = queues_holder(queue);
        const zkl_queue_entry *holder = &queue->entries[first < queue->count ? first : 0];
        int64_t since_ms;
        if (ahead >= queue->count ||
            __builtin_sub_overflow(queue->entries[ahead].created_ms, holder->created_ms,
                                   &since_ms) ||
            since_ms > CLI_LONGEST_MS) {
            since_ms = 0; /* the server's times may be nonsense */
        }
        print(i == 1 ? contend.name : path, "%zu ahead; held by %s for %s", ahead,
              queues_who(holder).bytes, queues_age(since_ms + now_ms() - contend.begun_ms).bytes);
    }
    zkl_queue_free(queue);
}

/* --- the lock -------------------------------------------------------------------------------- */

/* Reports why a call for this lock failed, and what to do about it. Returns the exit code, or
 * CLI_GO_ON if it has not failed. */
static int complain_unless_ok(int result)
{
    if (result != ZKL_OK) {
        const char *one_of_them =
            contend.path_count > 1 && *cli_failure.path ? cli_failure.path : NULL;
        cli_error("\"%s\": %s%s", one_of_them ? one_of_them : contend.name, cli_failure.text,
                  cli_remedy(result));
    }
    return cli_exit_code(result);
}

static void on_decided(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *error,
                       void *payload)
{
    (void)lock;
    (void)payload;
    contend.decided = true;
    contend.result = code;
    if (grant) {
        contend.grant = *grant;
    }
    if (error) {
        contend.error = *error;
    }
}

static void on_revoked(zkl_lock *lock, void *payload)
{
    (void)lock;
    (void)payload;
    contend.revoked = true;
}

static int make_lock(void)
{
    const char *path = contend.paths[0];
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.revoke_fn = contend.revocable ? on_revoked : NULL;
    options.delay_after_crash_ms = contend.delay_ms;
    options.metadata = contend.metadata ? contend.metadata : identity_own();
    switch (contend.recipe) {
    case ZKL_RECIPE_READ_LOCK:
        return zkl_read_lock_new(&contend.lock, cli_session, path, &options, &cli_failure);
    case ZKL_RECIPE_SEMAPHORE:
        return zkl_semaphore_new(&contend.lock, cli_session, path, contend.limit, &options,
                                 &cli_failure);
    case ZKL_RECIPE_ELECTION:
        return zkl_election_new(&contend.lock, cli_session, path, &options, &cli_failure);
    case ZKL_RECIPE_MULTILOCK:
        return zkl_multilock_new(&contend.lock, cli_session, contend.paths, contend.path_count,
                                 &options, &cli_failure);
    default:
        return zkl_lock_new(&contend.lock, cli_session, path, &options, &cli_failure);
    }
}

bool contend_wait(int fd, int64_t end_ms)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN},
                           {.fd = zkl_session_fd(cli_session), .events = POLLIN},
                           {.fd = signals_pipe[0], .events = POLLIN},
                           {.fd = fd < 0 ? health.socket : -1, .events = POLLIN}};
    bool ready = poll(fds, 4, publish_timeout(end_ms)) > 0 && fds[0].revents;
    zkl_session_dispatch(cli_session);
    publish_due();
    return ready;
}

int contend_wait_or_end(int64_t end_ms)
{
    contend_wait(-1, end_ms);
    int number = signals_next();
    /* From a terminal HUP means that the terminal has closed; to a daemon: read the configuration
     * again. */
    if (!signals_is_end(number) || (number == SIGHUP && policy->next && job.terminal < 0)) {
        return CLI_GO_ON;
    }
    contend.signal = number;
    return EXIT_SIGNAL + number;
}

static bool answered;

void contend_answered(int code, const zkl_error *error, void *payload)
{
    (void)code, (void)payload;
    answered = true;
    cli_failure = *error;
}

int contend_await(int begun)
{
    int code = complain_unless_ok(begun);
    if (code != CLI_GO_ON) {
        return code;
    }
    for (answered = false; code == CLI_GO_ON && !answered;) {
        code = contend_wait_or_end(INT64_MAX);
    }
    return code == CLI_GO_ON ? complain_unless_ok(cli_failure.code) : code;
}

/* Begins to queue: contend.decided will be true. */
static int contend_ask(void)
{
    if (!policy->held) {
        job_begin();
    }
    int64_t left = contend.wait_ms;
    if (left > 0) {
        left -= now_ms() - contend.begun_ms;
        left = left > 0 ? left : 1;
    }
    return zkl_lock_acquire_async(contend.lock, left, on_decided, NULL, &cli_failure);
}

/* Not contend_answered's: after a grant it may come while another call's answer is awaited. */
static bool session_answered;

static void on_session(int code, const zkl_error *error, void *payload)
{
    (void)code, (void)payload;
    session_answered = true;
    cli_failure = *error;
}

/* Opens the session. Where the policy has nothing to do when the session is opened, the acquire
 * begins at once: the library sends its create together with the session's first requests, which
 * saves a round trip. Nor does a grant wait for the session's answer: it shows that there is a
 * chroot, and a lease that is long enough (zkl__core_leased). */
static int contend_open(void)
{
    bool granted = false;
    bool brief = contend.wait_ms > 0 && contend.wait_ms < CLI_CALL_MS;
    int64_t most_ms = brief ? contend.wait_ms : CLI_CALL_MS;
    contend.begun_ms = now_ms();
    int code = cli_connect(most_ms, on_session);
    int64_t end_ms = now_ms() + 1 + most_ms;
    if (code == CLI_GO_ON && strncmp(cli.servers, "memory:", 7) == 0) {
        cli_note("%s is inside this process: nobody else is kept out", cli.servers);
    }
    code = code == CLI_GO_ON && !metrics_write() ? EXIT_FAILED : code;
    if (code == CLI_GO_ON) {
        int result = make_lock();
        result = result == ZKL_OK && !policy->opened ? contend_ask() : result;
        /* A session that is closed already: its answer says why. */
        code = complain_unless_ok(result == ZKL_ECLOSED ? ZKL_OK : result);
    }
    while (code == CLI_GO_ON && !session_answered && !granted && now_ms() < end_ms) {
        code = contend_wait_or_end(end_ms);
        granted = contend.decided && contend.result == ZKL_OK;
    }
    if (code != CLI_GO_ON) {
        return code;
    }
    if (!session_answered && !granted) {
        zkl_session_close(cli_session, 0); /* the answer says why there is no connection */
        cli_session = NULL;
        cli_failure.code = ZKL_ECONNECT;
    }
    if (cli_failure.code != ZKL_OK) {
        cli_error("%s%s", cli_failure.text, cli_remedy(cli_failure.code));
        contend.result = cli_failure.code;
    }
    return cli_exit_code(cli_failure.code);
}

static void report_not_granted(void)
{
    const char *name = contend.name;
    double waited_s = (double)contend.wait_ms / 1000;
    bool connected = zkl_session_state(cli_session) == ZKL_SESSION_CONNECTED;
    if (connected && contend.delay_ms > 0) {
        cli_note("\"%s\" was not granted: it is held, or its last holder did not release and "
                 "--delay-after-crash is not over; 'zklock ls %s' shows whether it is held",
                 name, name);
    } else if (contend.result == ZKL_EBUSY) {
        cli_note("\"%s\" is held%s; 'zklock ls %s' shows by whom", name,
                 contend.recipe == ZKL_RECIPE_SEMAPHORE ? ": no slot is free"
                 : contend.recipe == ZKL_RECIPE_MULTILOCK
                     ? " by somebody else, or one of those that --and names"
                     : " by somebody else",
                 name);
    } else if (connected) {
        cli_note("\"%s\" was not granted in %.1f s; 'zklock ls %s' shows who holds it", name,
                 waited_s, name);
    } else {
        cli_note("\"%s\" was not granted in %.1f s: no response from the servers; 'zklock doctor' "
                 "asks each",
                 name, waited_s);
    }
}

/* Another client holds it, or did until the time was up. With silent servers a try knows nothing.
 */
static bool contend_is_busy(void)
{
    return contend.result == ZKL_EBUSY || (contend.result == ZKL_ETIMEOUT && contend.wait_ms > 0);
}

static int contend_acquire(void)
{
    /* Who has nothing to do when the session is opened asked then, and queues once. */
    int code = policy->opened ? complain_unless_ok(contend_ask()) : CLI_GO_ON;
    if (code != CLI_GO_ON) {
        return code;
    }
    progress.terminal = !cli.quiet && isatty(STDERR_FILENO);
    progress.next_ms = progress.terminal || notify_socket >= 0 ? now_ms() + FIRST_MS : INT64_MAX;
    while (!contend.decided && code == CLI_GO_ON && health_update() == HEALTH_GOOD) {
        code = contend_wait_or_end(progress.next_ms);
        if (!contend.decided) {
            show_line();
        }
    }
    if (progress.shown) {
        cli_write(STDERR_FILENO, WIPE);
    }
    progress.shown = false;
    if (contend.signal || !contend.decided) {
        /* A signal, or a host that is not healthy, ends the wait: leave the queue, and wait until
         * the znode is deleted. */
        int64_t deadline = now_ms() + LEAVE_MS;
        zkl_lock_cancel(contend.lock);
        while (!contend.decided && now_ms() < deadline) {
            contend_wait_or_end(deadline);
        }
        if (contend.decided && contend.result == ZKL_OK) {
            zkl_lock_release(contend.lock, NULL); /* granted in the same moment */
        }
        contend.result = ZKL_ECANCELED;
        return contend.signal ? EXIT_SIGNAL + contend.signal : EXIT_NOT_GRANTED;
    }
    if (contend_is_busy()) {
        report_not_granted();
        return contend.not_granted;
    }
    cli_failure = contend.error;
    code = complain_unless_ok(contend.result);
    if (code != CLI_GO_ON) {
        return code;
    }
    int length = snprintf(contend.node, sizeof contend.node, "%s/", contend.paths[0]);
    zkl_lock_node(contend.lock, contend.node + length, sizeof contend.node - (size_t)length);
    metrics_write();
    return CLI_GO_ON;
}

int contend_release(void)
{
    return zkl_lock_release(contend.lock, &contend.error);
}

struct runner runner;

bool runner_take_try(const char *value)
{
    (void)value;
    contend.wait_ms = 0;
    return true;
}

/* --- the report ------------------------------------------------------------------------------ */

static int complain_of_report(void)
{
    cli_error("--report %s: %s", runner.report_file, newfile_reason());
    return EXIT_FAILED;
}

static const char *outcome(int code)
{
    if (contend.signal) { /* of elect: in the pause after a term, too */
        return "signal";
    }
    if (job.lost || (job.overruled && code == EXIT_LOST)) {
        return "lost";
    }
    if (job.ran && !job.overruled && !job.unkept) { /* the exit code is CMD's own */
        return job.stop == JOB_REVOKED ? "revoked" : "ran";
    }
    if (runner.skipped) {
        return runner.skipped;
    }
    if (contend_is_busy()) {
        return "busy";
    }
    return code == EXIT_UNREACHABLE ? "unreachable" : code == EXIT_DENIED ? "denied" : "error";
}

/* One JSON object, for wrappers that must not guess from an exit code. */
static int write_report(int code)
{
    int64_t offset_ms =
        clock_ms(CLOCK_REALTIME) - now_ms(); /* to ms since 1970, by the clock here */
    bool granted = runner.granted_ms > 0, killed = WIFSIGNALED(job.status);
    bool ended_well =
        job.ran && !job.lost && !job.unkept && !job.overruled && job.stop == JOB_NOT_STOPPED;
    json_t *object = json_pack(
        "{s:s, s:i, s:s, s:s, s:s?, s:o?, s:{s:o?, s:o?}, s:I, s:o?, s:s, s:I, s:o?, s:o?, s:s?}",
        "outcome", outcome(code), "exit_code", code, "lock", contend.name, "path", contend.paths[0],
        "node", granted ? contend.node : NULL, "token", queues_number(granted, contend.grant.token),
        "child", "exit", queues_number(job.ran && !killed, WEXITSTATUS(job.status)), "signal",
        queues_number(job.ran && killed, WTERMSIG(job.status)), "wait_ms",
        (json_int_t)((granted ? runner.granted_ms : now_ms()) - contend.begun_ms), "held_ms",
        queues_number(granted, runner.ended_ms - runner.granted_ms), "who", identity_own(),
        "queued_at_ms", (json_int_t)(offset_ms + contend.begun_ms), "granted_at_ms",
        queues_number(granted, offset_ms + runner.granted_ms), "ended_at_ms",
        queues_number(granted, offset_ms + runner.ended_ms), "reason",
        ended_well || runner.skipped || !*cli_last_words ? NULL : cli_last_words);
    char *text = queues_json_text(object);
    errno = ENOMEM;
    if (!text || !newfile_write(runner.report_file, text, "\n")) {
        complain_of_report();
        code = code == EXIT_DONE ? EXIT_FAILED : code; /* CMD's own, or what was lost, says more */
    }
    free(text);
    return code;
}

/* --- from the words to the release ----------------------------------------------------------- */

static int queue_and_run(void)
{
    int code = contend_acquire();
    if (code != CLI_GO_ON) {
        return code;
    }
    runner.granted_ms = now_ms();
    cli_detail("\"%s\": granted after %" PRId64 "ms, token %" PRId64 ", znode %s", contend.name,
               runner.granted_ms - contend.begun_ms, contend.grant.token, contend.node);
    code = policy->granted ? policy->granted() : CLI_GO_ON;
    if (code != CLI_GO_ON) {
        contend_release();
    } else if (!policy->held) {
        code = job_run(policy->ended);
    } else {
        code = policy->held();
        if (contend_release() == ZKL_ELOST) { /* it was not ours to the end */
            cli_error("\"%s\": %s", contend.name, contend.error.text);
            code = EXIT_LOST;
        }
    }
    runner.ended_ms = now_ms();
    cli_detail("\"%s\": given back after %" PRId64 "ms, exit code %d", contend.name,
               runner.ended_ms - runner.granted_ms, code);
    return code;
}

static int open_and_queue(void)
{
    int code = contend_open();
    if (code == CLI_GO_ON && !policy->held) {
        code = job_fit();
    }
    if (code == CLI_GO_ON && policy->opened) {
        code = policy->opened();
    }
    while (code == CLI_GO_ON) {
        code = queue_and_run();
        code = policy->next ? policy->next(code) : code;
        if (code == CLI_GO_ON) { /* the next acquire begins without the results of this one */
            contend.decided = false;
            contend.result = ZKL_OK;
            contend.grant = (zkl_grant){0};
            contend.node[0] = '\0';
            contend.revoked = false;
        }
    }
    return code;
}

int runner_main(const struct runner_policy *own, const char **words)
{
    static const char *shell[] = {"/bin/sh", "-c", NULL, NULL};
    bool dashes = words[1] && strcmp(words[1], "--") == 0;
    const char **command = words + 1 + dashes;
    policy = own;
    if (!policy->held && runner.shell && *command) {
        return cli_usage(policy->name, "%s: '%s': -c STRING takes the place of CMD", policy->name,
                         *command);
    }
    if (!policy->held && !runner.shell && !*command) {
        return cli_usage(policy->name, "%s: which command?", policy->name);
    }
    shell[2] = runner.shell;
    supervised.argv = runner.shell ? shell : command;
    supervised.again = policy->next != NULL;
    job.name = runner.shell ? runner.shell : *command;
    contend.name = words[0];
    supervised.path = contend.paths[0] = cli_lock_path(contend.name);
    if (!contend.paths[0]) {
        return EXIT_FAILED;
    }
    for (size_t i = 1; i < contend.path_count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (strcmp(contend.paths[i], contend.paths[j]) == 0) {
                cli_error("%s: '%s' is named twice", policy->name, contend.paths[i]);
                return EXIT_FAILED;
            }
        }
    }
    if (runner.report_file && !newfile_check(runner.report_file)) {
        return complain_of_report();
    }
    contend.begun_ms = now_ms(); /* for a report of what fails before there is a session */
    /* The keeper comes first: it must know nothing of a session, its threads or its connection. */
    int code = policy->held ? CLI_GO_ON : job_prepare();
    code = code == CLI_GO_ON ? signals_catch() : code;
    if (code == CLI_GO_ON) {
        cli_contends = true;
        code = open_and_queue();
        http_close();
        health_close();
        metrics_write();
        if (cli_session && zkl_session_close(cli_session, LEAVE_MS) != ZKL_OK) {
            cli_detail(
                "the servers did not confirm the end; what is left goes with the session timeout");
        }
        zkl_lock_free(contend.lock);
        if (!policy->held) {
            keeper_close();
        }
        /* What is left to say may wait for its reader, until a signal ends that. */
        cli_contends = contend.signal || job.stop_requested;
        signals_end_at_once = true;
    }
    code = runner.report_file ? write_report(code) : code;
    cli_tell_unread();
    return code;
}
