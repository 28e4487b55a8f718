#include "contender.h"

#include "dice.h"

#define GUESTS 3
#define CONNECT 3000 /* ms */
/* ms more than a close is given: four threads of the session's end in it, and each has its own place on a run queue, which nobody sees. The
 * client library's own waits, 1500 and 3000, are longer. */
#define CLOSE_SLACK 1000
#define CLOSE_WELL 5000 /* ms: a close that has time */

/* One thing that a visit asks for. */
struct guest {
    char name[HISTORY_WORD];
    struct object object;
    atomic_llong session_id; /* the session itself goes with its close and its last object */
    atomic_bool granted;
    atomic_llong token;
};

struct visit {
    zkl_session *session;
    int64_t session_id;
    atomic_bool lost; /* the servers ended the session */
    uint64_t dice;
    struct guest guests[GUESTS];
    int count;
    zkl_lock *fence;
    int delay; /* run_delay_open of the thread */
};

static void on_done(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    struct object *o = payload;
    struct guest *g = o->owner;
    object_note_done(o, code, grant, err);
    g->token = grant ? grant->token : 0;
    g->granted = code == ZKL_OK;
}

static void on_state(zkl_lock *lock, zkl_state state, void *payload)
{
    if (state == ZKL_STATE_LOST) {
        object_note(payload, HISTORY_told, NULL, 0, 0);
    }
}

static void on_asked(zkl_lock *lock, void *payload)
{
    struct guest *g = ((struct object *)payload)->owner;
    object_note(payload, HISTORY_heard, NULL, g->token, 0);
}

static void on_session_state(zkl_session *session, zkl_connection_state state, void *payload)
{
    struct visit *v = payload;
    if (state == ZKL_SESSION_LOST) {
        v->lost = true;
    }
}

/* --- a visit --------------------------------------------------------------------------------------------------------- */

static void ask(struct visit *v, int number)
{
    struct guest *g = &v->guests[number];
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    const char *word = process.words[dice_below(&v->dice, process.word_count)];
    zkl_error err;
    *g = (struct guest){.session_id = zkl_session_id(v->session)};
    snprintf(g->name, sizeof g->name, "%.30s.g%d", process.name, number);
    options.state_fn = on_state;
    options.revoke_fn = on_asked;
    g->object = (struct object){.client = g->name, .session_id = &g->session_id, .owner = g};
    if (object_new(&g->object, v->session, word, &options, &err) != ZKL_OK) {
        process_give_up(word, &err);
    }
    object_roll(&g->object, &v->dice);
    object_note_part(&g->object, HISTORY_acquire, 0);
    int code = object_acquire_async(&g->object, on_done, &err);
    if (code != ZKL_OK) {
        on_done(g->object.lock, code, NULL, &err, &g->object);
    }
}

/* It says how long it is told to hold, and never that it has lost. */
static void hold(struct guest *g, zkl_session *session)
{
    g->session_id = zkl_session_id(session);
    if (object_note_held(&g->object)) {
        object_write(&g->object, g->token, false);
    }
}

static void stay(struct visit *v, int64_t ms)
{
    int64_t end = now_ms() + ms;
    do {
        for (int i = 0; i < v->count; i++) {
            if (v->guests[i].granted) {
                hold(&v->guests[i], v->session);
            }
        }
        poll(NULL, 0, (int)dice_below(&v->dice, 20));
    } while (now_ms() < end && !process.enough);
}

/* --- its end --------------------------------------------------------------------------------------------------------- */

/* With all that it has and waits for. */
static int close_session(struct visit *v, int64_t timeout_ms)
{
    int64_t before = run_delay_ns(v->delay);
    v->session_id = zkl_session_id(v->session);
    for (int i = 0; i < v->count; i++) {
        object_note(&v->guests[i].object, HISTORY_close, NULL, 0, boot_ns() + (timeout_ms + CLOSE_SLACK) * MS);
    }
    int code = zkl_session_close(v->session, timeout_ms);
    for (int i = 0; i < v->count; i++) {
        object_note_starved(&v->guests[i].object, v->delay, before);
        object_note(&v->guests[i].object, HISTORY_closed, zkl_error_name(code), 0, 0);
    }
    return code;
}

/* What stands of that session in the queues of a path; -1: cannot be seen just now. A list shows at least what was committed before a
 * write of the session that asks, so one is made first. */
static int64_t count_remains(struct visit *v, const char *path, const char *below)
{
    char name[2 * HISTORY_WORD];
    zkl_queue *queue;
    int64_t count = 0;
    snprintf(name, sizeof name, "%s%s", path, below);
    if (zkl_lock_acquire(v->fence, CONNECT, NULL, NULL) != ZKL_OK) {
        return -1;
    }
    int code = zkl_queue_list(&queue, process.session, name, CONNECT, NULL);
    for (size_t i = 0; code == ZKL_OK && i < queue->count; i++) {
        count += queue->entries[i].session_id == v->session_id ? 1 : 0;
    }
    if (code == ZKL_OK) {
        zkl_queue_free(queue);
    }
    zkl_lock_release(v->fence, NULL);
    return code == ZKL_OK ? count : -1;
}

/* The servers confirmed the close, so nothing of the session is left. A session that they ended is another matter: a leader that was deposed
 * and does not know it yet says so, too, and the znodes stand until the next leader ends the session. */
static void look_for_remains(struct visit *v)
{
    for (int i = 0; i < v->count; i++) {
        const struct object *o = &v->guests[i].object;
        const char *below[2] = {"", NULL};
        if (o->kind == OBJECT_SEMAPHORE) {
            below[0] = "/locks";
            below[1] = "/leases";
        }
        for (int j = 0; j < 2 && below[j]; j++) {
            int64_t count = count_remains(v, o->paths[0], below[j]);
            if (count >= 0) {
                object_note(o, HISTORY_remains, NULL, count, 0);
            }
        }
    }
}

/* Releases first, or frees, or just closes. */
static void leave(struct visit *v)
{
    int64_t way = dice_below(&v->dice, 3);
    for (int i = 0; way == 0 && i < v->count; i++) {
        if (v->guests[i].granted) {
            object_release(&v->guests[i].object, v->guests[i].token);
        }
    }
    for (int i = 0; way <= 1 && i < v->count; i++) {
        struct object *o = &v->guests[i].object;
        object_note(o, HISTORY_free, NULL, 0, 0);
        object_free(o);
        object_note(o, HISTORY_freed, NULL, 0, 0);
    }
    static const int64_t patience_ms[] = {0, 1, 20, 300, CLOSE_WELL, CLOSE_WELL};
    int64_t patient_ms = patience_ms[dice_below(&v->dice, sizeof patience_ms / sizeof *patience_ms)];
    if (close_session(v, patient_ms) == ZKL_OK && v->session_id != 0 && !v->lost) {
        look_for_remains(v);
    }
    for (int i = 0; way == 2 && i < v->count; i++) {
        object_free(&v->guests[i].object);
    }
}

static void visit(struct visit *v)
{
    v->lost = false;
    v->session = process_open_session(CONNECT, on_session_state, v);
    if (!v->session) {
        return;
    }
    v->count = (int)dice_between(&v->dice, 1, GUESTS);
    for (int i = 0; i < v->count; i++) {
        ask(v, i);
    }
    stay(v, dice_below(&v->dice, dice_once_in(&v->dice, 4) ? 6000 : 1000));
    leave(v);
}

void *guest_run(void *seed)
{
    struct visit v = {.dice = *(uint64_t *)seed, .delay = run_delay_open()};
    char path[2 * HISTORY_WORD];
    zkl_error err;
    snprintf(path, sizeof path, "%s/fence/%.30s", process.root, process.name);
    if (zkl_lock_new(&v.fence, process.session, path, NULL, &err) != ZKL_OK) {
        process_give_up(path, &err);
    }
    while (!process.enough) {
        visit(&v);
    }
    zkl_lock_free(v.fence);
    return NULL;
}
