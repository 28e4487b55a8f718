/* contender SERVERS TICK_MS TIMEOUT_MS DIR NAME SEED PATH... (object.h, object_parse): one process of many that contend, through the public API, until it
 * gets SIGTERM: a thread for each path, so that several stand in one queue and hand over to each other. What it does and sees goes to DIR/NAME.history (history.h); while it holds, it writes to the resource (DIR/resource),
 * now and then without looking whether it still holds. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <zklock/zklock.h>

#include "dice.h"
#include "history.h"
#include "object.h"
#include "run_delay.h"
#include "wait.h"

#define PATHS_MAX 8
#define SHORT_HOLD 150 /* ms: max_hold_ms of one lock in two */
#define PATIENCE 60000 /* ms: a completion that has not come by then never comes */
#define LATE (5 * MS)  /* ns: what is worth a line */

static const char *process;
static int record = -1, resource = -1;
static atomic_int callback_delay = -1; /* run_delay_open of the session's one thread for callbacks; -1: not met yet */
static atomic_bool enough;
static zkl_session *session;
static int path_count;
static char **paths;

/* One contender: a thread, an object for each path, with and without max_hold_ms. */
struct client {
    char name[HISTORY_WORD];
    pthread_t thread;
    uint64_t dice;
    struct object objects[PATHS_MAX][2];
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int completions; /* of the acquire that is pending */
    int code;
    int64_t token;
    atomic_int told;
    int delay; /* run_delay_open of the thread */
    atomic_llong
        cancelled_delay; /* run_delay_ns of the callbacks' thread when the pending acquire was cancelled; -1: it was not */
};

static void note(const struct client *c, enum history_op op, const char *path, const char *result, int64_t token,
                 int64_t lease)
{
    history_write(record, &(struct history_line){.client = c->name,
                                                 .session = zkl_session_id(session),
                                                 .op = op,
                                                 .path = path,
                                                 .result = result,
                                                 .token = token,
                                                 .lease = lease});
}

static void give_up(const char *what, const zkl_error *err)
{
    fprintf(stderr, "%s: %s: %s\n", process, what, err ? err->text : strerror(errno));
    abort();
}

/* --- the end of an acquire ------------------------------------------------------------------------------------------- */

/* The lease is asked for after the time was read: it runs at least so long from then. */
static void note_done(const struct client *c, const struct object *o, int code, const zkl_grant *grant)
{
    int64_t now = boot_ns(), left = code == ZKL_OK ? object_remaining_ms(o) : 0;
    history_write(record, &(struct history_line){.at = now,
                                                 .client = c->name,
                                                 .session = zkl_session_id(session),
                                                 .op = HISTORY_done,
                                                 .path = o->path,
                                                 .result = zkl_error_name(code),
                                                 .token = code == ZKL_OK && grant ? grant->token : 0,
                                                 .lease = code == ZKL_OK ? now + left * MS : 0});
}

/* Before done: what the thread that brings it was kept from since then. */
static void note_starved(const struct client *c, const struct object *o, int delay, int64_t before)
{
    int64_t starved = run_delay_ns(delay) - before;
    if (starved > LATE) {
        note(c, HISTORY_starved, o->path, NULL, 0, starved);
    }
}

/* Of the thread that callbacks run on, which is this one. */
static int meet_callbacks(void)
{
    if (atomic_load(&callback_delay) < 0) {
        atomic_store(&callback_delay, run_delay_open());
    }
    return atomic_load(&callback_delay);
}

static int64_t callback_before; /* run_delay_ns when the last callback was over; its thread only */

static void on_done(struct object *o, int code, const zkl_grant *grant)
{
    struct client *c = o->payload;
    int delay = meet_callbacks();
    int64_t before = atomic_load(&c->cancelled_delay);
    if (before >= 0) {
        note_starved(c, o, delay, before);
    }
    note_done(c, o, code, grant);
    pthread_mutex_lock(&c->mutex);
    c->completions++;
    c->code = code;
    c->token = grant ? grant->token : 0;
    pthread_cond_signal(&c->cond);
    pthread_mutex_unlock(&c->mutex);
    callback_before = run_delay_ns(delay);
}

static void on_lost(struct object *o)
{
    struct client *c = o->payload;
    int delay = meet_callbacks();
    note_starved(c, o, delay, callback_before);
    note(c, HISTORY_told, o->path, NULL, 0, 0);
    atomic_fetch_add(&c->told, 1);
    callback_before = run_delay_ns(delay);
}

/* --- acquires -------------------------------------------------------------------------------------------------------- */

/* "1/3" */
static void note_asked(const struct client *c, const struct object *o, enum history_op op, int64_t deadline)
{
    char part[HISTORY_WORD];
    snprintf(part, sizeof part, "%d/%d", o->takes, o->of);
    note(c, op, o->path, part, 0, deadline);
}

static int acquire(struct client *c, struct object *o, int64_t timeout_ms)
{
    zkl_grant grant;
    zkl_error err;
    int64_t bound_ms =
        timeout_ms > 0 ? timeout_ms : 10000; /* a try waits for an answer no longer than connect_timeout_ms */
    int64_t deadline = boot_ns() + bound_ms * MS;
    note_asked(c, o, HISTORY_acquire, deadline);
    int64_t before = run_delay_ns(c->delay);
    if (timeout_ms > 0) { /* the line may have taken its time */
        int64_t left_ms = (deadline - boot_ns()) / MS;
        timeout_ms = left_ms > 1 ? left_ms : 1;
    }
    int code = object_acquire(o, timeout_ms, &grant, &err);
    note_starved(c, o, c->delay, before);
    note_done(c, o, code, &grant);
    c->token = code == ZKL_OK ? grant.token : 0;
    return code;
}

/* True when the completion is there. */
static bool completed(struct client *c, int64_t ms)
{
    struct timespec end;
    int64_t at = clock_ns(CLOCK_MONOTONIC) + ms * MS;
    end = (struct timespec){.tv_sec = at / 1000000000, .tv_nsec = at % 1000000000};
    pthread_mutex_lock(&c->mutex);
    while (c->completions == 0 && pthread_cond_clockwait(&c->cond, &c->mutex, CLOCK_MONOTONIC, &end) == 0) {
    }
    bool yes = c->completions > 0;
    pthread_mutex_unlock(&c->mutex);
    return yes;
}

/* An acquire without a deadline, which is cancelled if it takes too long. */
static int acquire_or_cancel(struct client *c, struct object *o, int64_t patience_ms)
{
    zkl_error err;
    int callbacks = atomic_load(&callback_delay);
    c->completions = 0;
    atomic_store(&c->cancelled_delay, -1);
    note_asked(c, o, HISTORY_acquire, 0);
    int code = object_acquire_async(o, &err);
    if (code != ZKL_OK) {
        note_done(c, o, code, NULL);
        return code;
    }
    if (!completed(c, patience_ms)) {
        atomic_store(&c->cancelled_delay, callbacks >= 0 ? run_delay_ns(callbacks) : -1);
        if (object_cancel(o) == ZKL_OK) {
            note(c, HISTORY_cancel, o->path, NULL, 0, 0);
        }
        if (!completed(c, PATIENCE)) {
            fprintf(stderr, "%s: a cancelled acquire does not complete\n", c->name);
            exit(1); /* the history says so */
        }
    }
    return c->code;
}

/* --- holding --------------------------------------------------------------------------------------------------------- */

/* One of several that hold at once cannot be told from them by its token: it says that it is there, and nothing is fenced. */
static void write_resource(struct client *c, const struct object *o, int64_t token, bool stays)
{
    char text[128];
    int length = snprintf(text, sizeof text, "%s %s %" PRId64 " %" PRIx64 " %s", c->name, o->path,
                          o->takes == o->of ? token : 0, (uint64_t)zkl_session_id(session), stays ? "stays" : "passes");
    while (send(resource, text, (size_t)length, 0) < 0) {
        if (errno != EINTR) {
            give_up("resource", NULL);
        }
    }
}

/* False when the holder sees that it is none any more. */
static bool look(struct client *c, const struct object *o)
{
    int64_t now = boot_ns(), left = object_remaining_ms(o);
    bool held = object_is_held(o);
    history_write(record, &(struct history_line){.at = held ? now : 0,
                                                 .client = c->name,
                                                 .session = zkl_session_id(session),
                                                 .op = held ? HISTORY_held : HISTORY_lost,
                                                 .path = o->path,
                                                 .lease = held ? now + left * MS : 0});
    return held;
}

/* A writer becomes a reader. */
static void downgrade(struct client *c, struct object *o)
{
    o->takes = 1;
    note_asked(c, o, HISTORY_downgrade, 0);
    zkl_rwlock_downgrade(o->as.rwlock, NULL);
}

/* Who holds for long does not let go when the lease runs out: it wants to know to the end how long it is told to hold. */
static void hold(struct client *c, struct object *o, int64_t token, int64_t ms)
{
    int64_t end = now_ms() + ms;
    bool careless = dice_once_in(&c->dice, 4), stubborn = ms > SHORT_HOLD, held = true, in_trouble = false;
    bool downgrades = o->kind == OBJECT_RWLOCK && o->takes == o->of && dice_once_in(&c->dice, 3);
    int64_t least = zkl_session_least_lease_ms(session) / 2;
    int before = atomic_load(&c->told);
    do {
        write_resource(c, o, token, stubborn);
        held = held && look(c, o);
        poll(NULL, 0, (int)dice_below(&c->dice, 20));
        if (downgrades && held) {
            downgrade(c, o);
            downgrades = false;
        }
        in_trouble = stubborn && held && object_remaining_ms(o) < least;
    } while ((((held || careless) && now_ms() < end) || in_trouble) && !atomic_load(&enough));
    if (careless) {
        write_resource(c, o, token, stubborn);
    }
    held = held && look(c, o);
    /* Whoever lost is told: looked for so many times, not so long, for we may have been stopped. */
    for (int i = 0; !held && atomic_load(&c->told) == before && i < 5000; i++) {
        poll(NULL, 0, 1);
    }
    note(c, HISTORY_release, o->path, NULL, token, 0);
    int code = object_release(o);
    note(c, HISTORY_released, o->path, zkl_error_name(code), token, 0);
}

/* Many short ones, and so many long ones that most faults hit a holder. */
static int64_t some_hold_ms(uint64_t *dice)
{
    if (dice_once_in(dice, 16)) {
        return dice_once_in(dice, 2) ? 8000 : dice_between(dice, 1500, 5000);
    }
    return dice_once_in(dice, 12) ? dice_between(dice, 200, 800) : dice_below(dice, 25);
}

/* One queue is crowded. */
static struct object *some_object(struct client *c)
{
    int64_t path = dice_once_in(&c->dice, 4) ? 0 : dice_below(&c->dice, path_count);
    struct object *o = &c->objects[path][dice_once_in(&c->dice, 5)];
    bool whole = o->kind == OBJECT_RWLOCK && dice_once_in(&c->dice, 3);
    o->takes = whole ? o->of : o->kind == OBJECT_RWLOCK ? 1 : (int)dice_between(&c->dice, 1, o->of);
    return o;
}

static void contend(struct client *c)
{
    struct object *o = some_object(c);
    int64_t way = dice_below(&c->dice, 4);
    int code = way == 0   ? acquire(c, o, 0)
               : way == 1 ? acquire_or_cancel(c, o, dice_between(&c->dice, 20, 4000))
                          : acquire(c, o, dice_between(&c->dice, 20, 3000));
    if (code == ZKL_OK) {
        hold(c, o, c->token, some_hold_ms(&c->dice));
    } else {
        poll(NULL, 0, (int)dice_below(&c->dice, 30)); /* tries, or there would be nothing but them */
    }
}

/* --- threads --------------------------------------------------------------------------------------------------------- */

static void *run_client(void *arg)
{
    struct client *c = arg;
    c->delay = run_delay_open();
    while (!atomic_load(&enough)) {
        contend(c);
    }
    return NULL;
}

/* What the machine alone does to a wait, in this process, all the time: that is not the library's. */
static void *run_control(void *arg)
{
    struct client *c = arg;
    while (!atomic_load(&enough)) {
        int64_t due = boot_ns() + 10 * MS;
        poll(NULL, 0, 10);
        int64_t now = boot_ns();
        if (now - due > LATE) {
            history_write(record,
                          &(struct history_line){.at = now, .client = c->name, .op = HISTORY_late, .lease = now - due});
        }
    }
    return NULL;
}

static void client_init(struct client *c, int number, uint64_t seed)
{
    snprintf(c->name, sizeof c->name, "%.30s.%d", process, number);
    c->dice = dice_at(seed, 1, (uint64_t)number);
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->cond, NULL);
    for (int i = 0; i < path_count; i++) {
        for (int j = 0; j < 2; j++) {
            struct object *o = &c->objects[i][j];
            struct object_options options = {
                .max_hold_ms = j ? SHORT_HOLD : 0,
                .on_expiry = dice_once_in(&c->dice, 3) ? ZKL_ON_EXPIRY_FAIL : ZKL_ON_EXPIRY_REQUEUE,
            };
            zkl_error err;
            *o = (struct object){.lost = on_lost, .done = on_done, .payload = c};
            if (object_new(o, session, paths[i], &options, &err) != ZKL_OK) {
                give_up(paths[i], &err);
            }
        }
    }
}

static void client_deinit(struct client *c)
{
    for (int i = 0; i < path_count; i++) {
        object_free(&c->objects[i][0]);
        object_free(&c->objects[i][1]);
    }
}

/* Servers may be down just now. */
static void open_session(const char *servers, int64_t tick_ms, int64_t timeout_ms)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_error err;
    int code;
    options.tick_ms = tick_ms;
    options.session_timeout_ms = timeout_ms;
    do {
        code = zkl_session_open(&session, servers, &options, &err);
    } while (code == ZKL_ECONNECT && !atomic_load(&enough));
    if (code == ZKL_ECONNECT) {
        exit(0);
    }
    if (code != ZKL_OK) {
        give_up("session", &err);
    }
}

static void find_resource(const char *dir)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%.90s/resource", dir);
    resource = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (connect(resource, (struct sockaddr *)&address, sizeof address) != 0) {
        give_up("resource", NULL);
    }
}

static void *wait_for_the_end(void *arg)
{
    int signal;
    sigwait(arg, &signal);
    atomic_store(&enough, true);
    return NULL;
}

int main(int argc, char **argv)
{
    static struct client clients[PATHS_MAX + 1];
    pthread_t waiter;
    sigset_t signals;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc < 8 || argc - 7 > PATHS_MAX) {
        fprintf(stderr, "usage: contender SERVERS TICK_MS TIMEOUT_MS DIR NAME SEED PATH...\n");
        return 2;
    }
    process = argv[5];
    uint64_t seed = strtoull(argv[6], NULL, 0);
    paths = argv + 7;
    path_count = argc - 7;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    pthread_create(&waiter, NULL, wait_for_the_end, &signals);
    record = history_open(argv[4], process);
    find_resource(argv[4]);
    open_session(argv[1], atoll(argv[2]), atoll(argv[3]));
    for (int i = 0; i <= path_count; i++) {
        client_init(&clients[i], i, seed);
        pthread_create(&clients[i].thread, NULL, i < path_count ? run_client : run_control, &clients[i]);
    }
    for (int i = 0; i <= path_count; i++) {
        pthread_join(clients[i].thread, NULL);
    }
    pthread_join(waiter, NULL);
    for (int i = 0; i <= path_count; i++) {
        client_deinit(&clients[i]);
    }
    int code = zkl_session_close(session, 10000);
    return code == ZKL_OK || code == ZKL_ETIMEOUT ? 0 : 1;
}
