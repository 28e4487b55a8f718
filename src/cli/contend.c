#include "contend.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "identity.h"
#include "notify.h"
#include "options.h"
#include "queues.h"
#include "signals.h"

/* --- who is before us ------------------------------------------------------------------------- */

struct waitline {
    bool terminal; /* standard error is one, and not -q */
    bool wanted;   /* there, or by contend->notify */
    bool shown;
    int64_t next_ms; /* CLOCK_MONOTONIC */
};

#define FIRST_MS 1000 /* who waits less does not want to know */
#define NEXT_MS 5000
#define LIST_MS 1000
#define DAYS_MS (INT64_C(86400000) * 100000)

static void waitline_init(struct waitline *line, const struct contend *contend)
{
    bool terminal = !cli.quiet && isatty(STDERR_FILENO);
    *line = (struct waitline){
        .terminal = terminal,
        .wanted = terminal || contend->notify,
        .next_ms = clock_ms(CLOCK_MONOTONIC) + FIRST_MS,
    };
}

static int waitline_timeout(const struct waitline *line)
{
    int64_t left = line->next_ms - clock_ms(CLOCK_MONOTONIC);
    return !line->wanted ? -1 : left > 0 ? (int)left : 0;
}

/* Our place in the queue: one session, one contender. Its end when we are not in it yet. */
static size_t position(const zkl_queue *queue, int64_t session_id)
{
    size_t i = 0;
    while (i < queue->count && queue->entries[i].session_id != session_id) {
        i++;
    }
    return i;
}

/* One line, however narrow the terminal is: what wraps cannot be wiped. */
__attribute__((format(printf, 2, 3))) static void print(struct waitline *line, const char *format,
                                                        ...)
{
    char text[1024];
    va_list arguments;
    if (!line->terminal) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    cli_cut(text, (size_t)cli_columns(STDERR_FILENO) - 1);
    fprintf(stderr, "\r\033[K%s", text);
    line->shown = true;
}

/* Times are the server's: the newest znode's and the holder's. Ours has waited since, which our own
 * clock knows. */
static void print_holder(struct waitline *line, const struct contend *contend, const char *name,
                         const zkl_queue *queue, size_t ahead)
{
    size_t first = queues_holder(queue);
    const zkl_queue_entry *holder = &queue->entries[first < queue->count ? first : 0];
    char who[128];
    char age[32];
    queues_who(holder, who, sizeof who);
    int64_t since_ms;
    if (ahead >= queue->count ||
        __builtin_sub_overflow(queue->entries[ahead].created_ms, holder->created_ms, &since_ms) ||
        since_ms > DAYS_MS) {
        since_ms = 0; /* a server may say anything */
    }
    queues_age(since_ms + clock_ms(CLOCK_MONOTONIC) - contend->begun_ms, age, sizeof age);
    print(line, "zklock: waiting for \"%s\": %zu ahead; held by %s for %s", name, ahead, who, age);
}

static void show_queue(struct waitline *line, const struct contend *contend, const char *name,
                       const zkl_queue *queue, size_t ahead)
{
    notify_say(contend->notify, "STATUS=waiting, %zu ahead", ahead);
    if (contend->recipe == ZKL_RECIPE_SEMAPHORE && contend->limit == 0) {
        print(line, "zklock: waiting for \"%s\": %zu ahead", contend->name, ahead);
    } else if (contend->recipe == ZKL_RECIPE_SEMAPHORE) {
        print(line, "zklock: waiting for \"%s\": %zu ahead; %d at a time", contend->name, ahead,
              contend->limit);
    } else if (ahead > 0) {
        print_holder(line, contend, name, queue, ahead);
    } else {
        print(line, "zklock: waiting for \"%s\": nobody ahead", contend->name);
    }
}

static void show_silence(struct waitline *line, const struct contend *contend)
{
    notify_say(contend->notify, "STATUS=waiting, no server answers");
    print(line, "zklock: waiting for \"%s\": no server answers", contend->name);
}

/* Of several, the first at which somebody is ahead; false: nobody is ahead at this one, and there
 * are more. */
static bool show_one(struct waitline *line, const struct contend *contend, size_t number)
{
    char room[ZKL_PATH_MAX + 16];
    zkl_queue *queue;
    bool is_last = number == contend->more_count;
    bool below = contend->recipe == ZKL_RECIPE_SEMAPHORE;
    snprintf(room, sizeof room, "%s%s", number == 0 ? contend->path : contend->more[number - 1],
             below ? "/locks" : "");
    if (zkl_queue_list(&queue, contend->session, room, LIST_MS, NULL) != ZKL_OK) {
        show_silence(line, contend);
        return true;
    }
    size_t ahead = position(queue, zkl_session_id(contend->session));
    bool show = is_last || (ahead > 0 && ahead < queue->count);
    if (show) {
        show_queue(line, contend, number == 0 ? contend->name : room, queue, ahead);
    }
    zkl_queue_free(queue);
    return show;
}

static void waitline_show(struct waitline *line, const struct contend *contend)
{
    size_t number = 0;
    if (!line->wanted || waitline_timeout(line) > 0) {
        return;
    }
    line->next_ms = clock_ms(CLOCK_MONOTONIC) + NEXT_MS;
    while (!show_one(line, contend, number)) {
        number++;
    }
}

static void waitline_clear(struct waitline *line)
{
    if (line->shown) {
        fputs("\r\033[K", stderr);
        line->shown = false;
    }
}

/* --- the lock --------------------------------------------------------------------------------- */

#define CONNECT_MS 10000
#define LEAVE_MS 2000 /* for the server's word that our znode is gone */

static int64_t elapsed_ms(const struct contend *contend)
{
    return clock_ms(CLOCK_MONOTONIC) - contend->begun_ms;
}

int contend_complain(const struct contend *contend, int result, const zkl_error *error)
{
    cli_error("\"%s\": %s%s", contend->name, error->text, cli_remedy(result));
    return cli_exit_code(result);
}

static void on_decided(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *error,
                       void *payload)
{
    struct contend *contend = payload;
    (void)lock;
    contend->decided = true;
    contend->result = code;
    if (grant) {
        contend->grant = *grant;
    }
    if (error) {
        contend->error = *error;
    }
}

static void on_revoked(zkl_lock *lock, void *payload)
{
    (void)lock;
    ((struct contend *)payload)->revoked = true;
}

static int make_by_recipe(struct contend *contend, const zkl_lock_options *options,
                          zkl_error *error)
{
    const char *paths[ZKL_MULTILOCK_MAX] = {contend->path};
    switch (contend->recipe) {
    case ZKL_RECIPE_READ_LOCK:
        return zkl_read_lock_new(&contend->lock, contend->session, contend->path, options, error);
    case ZKL_RECIPE_SEMAPHORE:
        return zkl_semaphore_new(&contend->lock, contend->session, contend->path, contend->limit,
                                 options, error);
    case ZKL_RECIPE_ELECTION:
        return zkl_election_new(&contend->lock, contend->session, contend->path, options, error);
    case ZKL_RECIPE_MULTILOCK:
        memcpy(paths + 1, contend->more, contend->more_count * sizeof *paths);
        return zkl_multilock_new(&contend->lock, contend->session, paths, 1 + contend->more_count,
                                 options, error);
    default:
        return zkl_lock_new(&contend->lock, contend->session, contend->path, options, error);
    }
}

static int make_lock(struct contend *contend)
{
    char who[512];
    struct identity own;
    zkl_error error;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.revoke_fn = contend->revocable ? on_revoked : NULL;
    options.delay_after_crash_ms = contend->delay_ms;
    options.payload = contend;
    identity_own(&own);
    identity_format(&own, who, sizeof who);
    options.metadata = contend->metadata ? contend->metadata : who;
    int result = make_by_recipe(contend, &options, &error);
    return result == ZKL_OK ? CLI_GO_ON : contend_complain(contend, result, &error);
}

const char *contend_twice(const struct contend *contend)
{
    for (size_t i = 0; i < contend->more_count; i++) {
        bool twice = strcmp(contend->more[i], contend->path) == 0;
        for (size_t j = 0; !twice && j < i; j++) {
            twice = strcmp(contend->more[i], contend->more[j]) == 0;
        }
        if (twice) {
            return contend->more[i];
        }
    }
    return NULL;
}

bool contend_take(struct contend *contend, int option, const char *value, bool *taken)
{
    *taken = true;
    switch (option) {
    case 'w':
        return cli_take_duration("--wait", value, &contend->wait_ms);
    case 'n':
        contend->wait_ms = 0;
        return true;
    case 'E':
        return cli_take_number("-E", value, 0, 255, &contend->not_granted);
    case OPTION_DELAY:
        return cli_take_duration("--delay-after-crash", value, &contend->delay_ms);
    default:
        *taken = false;
        return true;
    }
}

int contend_open(struct contend *contend)
{
    contend->begun_ms = clock_ms(CLOCK_MONOTONIC);
    bool brief = contend->wait_ms > 0 && contend->wait_ms < CONNECT_MS;
    int code = cli_connect(brief ? contend->wait_ms : CONNECT_MS, &contend->session);
    contend->metrics.name = contend->name;
    if (code == CLI_GO_ON && strncmp(cli.servers, "memory:", 7) == 0) {
        cli_note("%s is inside this process: nobody else is kept out", cli.servers);
    }
    if (code == CLI_GO_ON && !metrics_write(&contend->metrics, contend->session)) {
        return EXIT_FAILED;
    }
    return code == CLI_GO_ON ? make_lock(contend) : code;
}

void contend_dispatch(struct contend *contend)
{
    zkl_session_dispatch(contend->session);
    metrics_look(&contend->metrics, contend->session);
    notify_alive(contend->notify, contend->session);
}

static bool is_end(const struct contend *contend, int number)
{
    return signals_is_end(number) && !(number == SIGHUP && contend->reloads);
}

/* Waits for callbacks, a signal or the time. Returns the signal, 0 for none. */
static int wait_once(struct contend *contend, int timeout_ms)
{
    struct pollfd fds[] = {
        {.fd = zkl_session_fd(contend->session), .events = POLLIN},
        {.fd = signals_fd(), .events = POLLIN},
        {.fd = contend->health ? contend->health->socket : -1, .events = POLLIN}};
    timeout_ms = notify_patience(contend->notify, metrics_timeout(&contend->metrics, timeout_ms));
    poll(fds, 3, timeout_ms);
    contend_dispatch(contend);
    return signals_next();
}

bool contend_is_healthy(struct contend *contend)
{
    return !contend->health || health_look(contend->health) == HEALTH_GOOD;
}

/* A signal, or a host that is not healthy, ends the wait: leave the queue, and see to it that we
 * have left. */
static void leave(struct contend *contend)
{
    int64_t deadline = clock_ms(CLOCK_MONOTONIC) + LEAVE_MS;
    zkl_lock_cancel(contend->lock);
    while (!contend->decided && clock_ms(CLOCK_MONOTONIC) < deadline) {
        wait_once(contend, 50);
    }
    if (contend->decided && contend->result == ZKL_OK) {
        zkl_lock_release(contend->lock, NULL); /* granted in the same moment */
    }
}

static void wait_decided(struct contend *contend)
{
    struct waitline line;
    waitline_init(&line, contend);
    while (!contend->decided && !contend->signal && contend_is_healthy(contend)) {
        int number = wait_once(contend, waitline_timeout(&line));
        contend->signal = is_end(contend, number) ? number : 0;
        if (!contend->decided) {
            waitline_show(&line, contend);
        }
    }
    waitline_clear(&line);
}

static const char *why_busy(const struct contend *contend)
{
    return contend->recipe == ZKL_RECIPE_SEMAPHORE ? ": no slot is free"
           : contend->recipe == ZKL_RECIPE_MULTILOCK
               ? " by somebody else, or one of those that --and names"
               : " by somebody else";
}

/* Nobody holds it, and 'zklock ls' shows nothing. */
static bool is_delayed(const struct contend *contend)
{
    return (contend->result == ZKL_EBUSY || contend->result == ZKL_ETIMEOUT) &&
           strstr(contend->error.text, "delay_after_crash_ms");
}

static int not_granted(struct contend *contend)
{
    if (is_delayed(contend)) {
        cli_note("\"%s\" was not granted: its last holder did not release, and "
                 "--delay-after-crash is not over",
                 contend->name);
        return contend->not_granted;
    }
    if (contend->result == ZKL_EBUSY) {
        cli_note("\"%s\" is held%s; 'zklock ls %s' shows by whom", contend->name, why_busy(contend),
                 contend->name);
        return contend->not_granted;
    }
    if (contend->result == ZKL_ETIMEOUT) {
        double waited_s = (double)contend->wait_ms / 1000;
        if (zkl_session_get_state(contend->session) == ZKL_SESSION_CONNECTED) {
            cli_note("\"%s\" was not granted in %.1f s; 'zklock ls %s' shows who holds it",
                     contend->name, waited_s, contend->name);
        } else {
            cli_note("\"%s\" was not granted in %.1f s: no response from the servers; 'zklock "
                     "doctor' asks each",
                     contend->name, waited_s);
        }
        return contend->not_granted;
    }
    return contend_complain(contend, contend->result, &contend->error);
}

int contend_acquire(struct contend *contend)
{
    zkl_error error;
    int64_t left = contend->wait_ms;
    if (left > 0) {
        left -= elapsed_ms(contend);
        left = left > 0 ? left : 1;
    }
    int result = zkl_lock_acquire_async(contend->lock, left, on_decided, contend, &error);
    if (result != ZKL_OK) {
        return contend_complain(contend, result, &error);
    }
    wait_decided(contend);
    if (contend->signal) {
        leave(contend);
        return EXIT_SIGNAL + contend->signal;
    }
    if (!contend->decided) {
        leave(contend);
        contend->result = ZKL_ECANCELED;
        return EXIT_NOT_GRANTED;
    }
    if (contend->result != ZKL_OK) {
        return not_granted(contend);
    }
    int length = snprintf(contend->node, sizeof contend->node, "%s/", contend->path);
    zkl_lock_node(contend->lock, contend->node + length, sizeof contend->node - (size_t)length);
    metrics_write(&contend->metrics, contend->session);
    return CLI_GO_ON;
}

void contend_begin(struct contend *contend)
{
    contend->begun_ms = clock_ms(CLOCK_MONOTONIC);
    contend->decided = false;
    contend->result = ZKL_OK;
    contend->grant = (zkl_grant){.token = 0};
    contend->node[0] = '\0';
    contend->revoked = false;
}

int contend_pause(struct contend *contend, int64_t pause_ms)
{
    int64_t end_ms = clock_ms(CLOCK_MONOTONIC) + pause_ms;
    int64_t left_ms;
    while ((left_ms = end_ms - clock_ms(CLOCK_MONOTONIC)) > 0) {
        int number = wait_once(contend, (int)left_ms);
        if (is_end(contend, number)) {
            contend->signal = number;
            return EXIT_SIGNAL + number;
        }
    }
    return CLI_GO_ON;
}

int contend_await_health(struct contend *contend)
{
    bool said = false;
    while (!contend_is_healthy(contend)) {
        if (contend->health->state == HEALTH_BAD && !said) {
            cli_note("\"%s\": --health failed: out of the queue until it succeeds", contend->name);
            said = true;
        }
        if (contend->health->state == HEALTH_UNWATCHED) {
            cli_error("\"%s\": the process that runs --health was killed", contend->name);
            return EXIT_FAILED;
        }
        int number = wait_once(contend, -1);
        if (is_end(contend, number)) {
            contend->signal = number;
            return EXIT_SIGNAL + number;
        }
    }
    return CLI_GO_ON;
}

int contend_release(struct contend *contend)
{
    return zkl_lock_release(contend->lock, &contend->error);
}

void contend_close(struct contend *contend)
{
    metrics_write(&contend->metrics, contend->session);
    if (contend->session && zkl_session_close(contend->session, LEAVE_MS) != ZKL_OK) {
        cli_detail(
            "the servers did not confirm the end; what is left goes with the session timeout");
    }
    zkl_lock_free(contend->lock);
}
