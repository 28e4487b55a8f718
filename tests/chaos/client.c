#include "contender.h"

#include <zklock/zookeeper.h>

#include "dice.h"

#define ASK_TIMEOUT 1000 /* ms */
#define SHORT_HOLD 150   /* ms: max_hold_ms of one lock in two */
#define PATIENCE 60000   /* ms: a completion that has not come by then never comes */

static atomic_int callback_delay = -1; /* run_delay_open of the session's one thread for callbacks; -1: not met yet */

/* --- the end of an acquire ------------------------------------------------------------------------------------------- */

/* Of the thread that callbacks run on, which is this one. */
static int meet_callbacks(void)
{
    if (callback_delay < 0) {
        callback_delay = run_delay_open();
    }
    return callback_delay;
}

static int64_t callback_before; /* run_delay_ns when the last callback was over; its thread only */

static void on_done(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    struct object *o = payload;
    struct client *c = o->owner;
    int delay = meet_callbacks();
    int64_t before = c->cancelled_delay;
    if (before >= 0) {
        object_note_starved(o, delay, before);
    }
    object_note_done(o, code, grant, err);
    c->code = code;
    c->token = grant ? grant->token : 0;
    c->completed = true;
    callback_before = run_delay_ns(delay);
}

static void on_state(zkl_lock *lock, zkl_state state, void *payload)
{
    struct object *o = payload;
    struct client *c = o->owner;
    if (state != ZKL_STATE_LOST) {
        return;
    }
    int delay = meet_callbacks();
    object_note_starved(o, delay, callback_before);
    object_note(o, HISTORY_told, NULL, 0, 0);
    c->told++;
    callback_before = run_delay_ns(delay);
}

static void on_asked(zkl_lock *lock, void *payload)
{
    struct object *o = payload;
    struct client *c = o->owner;
    object_note(o, HISTORY_heard, NULL, zkl_lock_token(lock), 0);
    c->asked = true;
}

/* --- acquires -------------------------------------------------------------------------------------------------------- */

static int acquire(struct client *c, struct object *o, int64_t timeout_ms)
{
    zkl_grant grant;
    zkl_error err;
    int64_t bound_ms =
        timeout_ms > 0 ? timeout_ms : 10000; /* a try waits for an answer no longer than connect_timeout_ms */
    int64_t deadline = boot_ns() + bound_ms * MS;
    object_note_part(o, HISTORY_acquire, deadline);
    int64_t before = run_delay_ns(c->delay);
    if (timeout_ms > 0) { /* the line may have taken its time */
        int64_t left_ms = (deadline - boot_ns()) / MS;
        timeout_ms = left_ms > 1 ? left_ms : 1;
    }
    int code = object_acquire(o, timeout_ms, &grant, &err);
    object_note_starved(o, c->delay, before);
    object_note_done(o, code, &grant, &err);
    c->token = code == ZKL_OK ? grant.token : 0;
    return code;
}

/* An acquire without a deadline, which is cancelled if it takes too long. */
static int acquire_or_cancel(struct client *c, struct object *o, int64_t patience_ms)
{
    zkl_error err;
    int callbacks = callback_delay;
    c->completed = false;
    c->cancelled_delay = -1;
    object_note_part(o, HISTORY_acquire, 0);
    int code = object_acquire_async(o, on_done, &err);
    if (code != ZKL_OK) {
        object_note_done(o, code, NULL, &err);
        return code;
    }
    if (!WITHIN(patience_ms, c->completed)) {
        c->cancelled_delay = callbacks >= 0 ? run_delay_ns(callbacks) : -1;
        if (zkl_lock_cancel(o->lock) == ZKL_OK) {
            object_note(o, HISTORY_cancel, NULL, 0, 0);
        }
        if (!WITHIN(PATIENCE, c->completed)) {
            fprintf(stderr, "%s: a cancelled acquire does not complete\n", c->name);
            exit(1); /* the history says so */
        }
    }
    return c->code;
}

/* --- guarded transactions: each makes a znode in the ledger of its lock, whose name says under which grant. The servers number them, so the
 * list of the ledger is the order in which they were committed, those without an answer too ---------------------------------------------- */

/* One grant's. */
struct ledger {
    const struct object *lock;
    int64_t token;
    int count; /* of transactions so far */
};

/* One more, held or not. */
static void ledger_commit(struct ledger *ledger)
{
    char path[128];
    zkl_op op = {.kind = ZKL_OP_CREATE, .path = path, .mode = ZKL_CREATE_PERSISTENT_SEQUENTIAL};
    int number = ledger->count++;
    snprintf(path, sizeof path, "%s/ledger%s/%" PRIx64 ".%d-", process.root, strrchr(ledger->lock->paths[0], '/'),
             (uint64_t)ledger->token, number);
    struct history_line line = object_line(ledger->lock, HISTORY_commit);
    line.at = boot_ns();
    line.result = zkl_error_name(zkl_lock_commit(ledger->lock->lock, &op, 1, ZKL_WAIT_FOREVER, NULL, NULL));
    line.token = ledger->token;
    line.lease = number;
    object_write_line(ledger->lock, &line);
}

/* --- holding --------------------------------------------------------------------------------------------------------- */

/* False when the holder sees that it is none any more. */
static bool look(const struct object *o)
{
    bool held = object_note_held(o);
    if (!held) {
        object_note(o, HISTORY_lost, NULL, 0, 0);
    }
    return held;
}

/* Who holds for long does not let go when the lease runs out: it wants to know to the end how long it is told to hold. */
static void hold(struct client *c, struct object *o, int64_t token, int64_t ms)
{
    int64_t end = now_ms() + ms;
    bool careless = dice_once_in(&c->dice, 4), stubborn = ms > SHORT_HOLD, held = true, in_trouble = false;
    bool downgrades = o->kind == OBJECT_RWLOCK && o->takes == o->of && dice_once_in(&c->dice, 3);
    int64_t least = zkl_session_least_lease_ms(process.session) / 2;
    int before = c->told;
    struct ledger ledger = {.lock = o, .token = token};
    bool commits = o->kind == OBJECT_LOCK && dice_once_in(&c->dice, stubborn ? 3 : 12);
    bool gives_way = dice_once_in(&c->dice, 2);
    c->asked = false;
    do {
        object_write(o, token, stubborn);
        held = held && look(o);
        poll(NULL, 0, (int)dice_below(&c->dice, 20));
        if (downgrades && held) {
            o->takes = 1; /* of a reader */
            object_note_part(o, HISTORY_downgrade, 0);
            zkl_write_lock_downgrade(o->lock, NULL);
            downgrades = false;
        }
        if (commits && dice_once_in(&c->dice, 4)) {
            ledger_commit(&ledger);
        }
        end = gives_way && c->asked ? 0 : end;
        in_trouble = stubborn && held && zkl_lock_remaining_ms(o->lock) < least;
    } while ((((held || careless) && now_ms() < end) || in_trouble) && !process.enough);
    if (careless) {
        object_write(o, token, stubborn);
    }
    held = held && look(o);
    /* Whoever lost is told: looked for so many times, not so long, for we may have been stopped. */
    for (int i = 0; !held && c->told == before && i < 5000; i++) {
        poll(NULL, 0, 1);
    }
    object_release(o, token);
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
    int64_t path = dice_once_in(&c->dice, 4) ? 0 : dice_below(&c->dice, process.word_count);
    struct object *o = &c->objects[path][dice_once_in(&c->dice, 5)];
    object_roll(o, &c->dice);
    return o;
}

/* Asks the holder to give way. */
static void ask(const struct object *o)
{
    const int64_t hears_ms =
        process.timeout_ms + 2 * process.tick_ms; /* who holds then has been heard by the servers since */
    zkl_queue *queue;
    if (zkl_queue_list(&queue, process.session, o->paths[0], ASK_TIMEOUT, NULL) != ZKL_OK) {
        return;
    }
    if (queue->count > 0) {
        struct history_line line = object_line(o, HISTORY_asked);
        line.at = boot_ns();
        int code = zkl_queue_revoke(process.session, o->paths[0], queue->entries[0].name, ASK_TIMEOUT, NULL);
        line.result = zkl_error_name(code);
        line.token = queue->entries[0].token;
        line.lease = boot_ns() + hears_ms * MS;
        object_write_line(o, &line);
    }
    zkl_queue_free(queue);
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
        if (o->recovers) {
            ask(o);
        }
        poll(NULL, 0, (int)dice_below(&c->dice, 30)); /* tries, or there would be nothing but them */
    }
}

/* --- life ------------------------------------------------------------------------------------------------------------ */

void *client_run(void *client)
{
    struct client *c = client;
    c->delay = run_delay_open();
    while (!process.enough) {
        contend(c);
    }
    return NULL;
}

void client_init(struct client *c, int number, uint64_t seed)
{
    snprintf(c->name, sizeof c->name, "%.30s.%d", process.name, number);
    c->dice = dice_at(seed, 1, (uint64_t)number);
    for (int i = 0; i < process.word_count; i++) {
        for (int j = 0; j < 2; j++) {
            struct object *o = &c->objects[i][j];
            zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
            zkl_error err;
            options.max_hold_ms = j ? SHORT_HOLD : 0;
            options.on_expiry = dice_once_in(&c->dice, 3) ? ZKL_ON_EXPIRY_FAIL : ZKL_ON_EXPIRY_REQUEUE;
            options.state_fn = on_state;
            options.revoke_fn = on_asked;
            *o = (struct object){.client = c->name, .owner = c};
            if (object_new(o, process.session, process.words[i], &options, &err) != ZKL_OK) {
                process_give_up(process.words[i], &err);
            }
        }
    }
}

void client_deinit(struct client *c)
{
    for (int i = 0; i < process.word_count; i++) {
        object_free(&c->objects[i][0]);
        object_free(&c->objects[i][1]);
    }
}
