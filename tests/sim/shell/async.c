/* async.c - calls without waiting: each is called back exactly once, before its session's close has been, and never when it was refused
 * (invariant `completion`). What the library writes for such a call is kept here, since the user of an object may be gone by then. */
#include <string.h>

#include "turn.h"

enum { CALLS = 512 }; /* of a process, in its life */
enum stage { NONE, BEGUN, REFUSED };
struct async_call {
    struct sim *s;
    int client, thread;
    const char *what;
    enum stage stage;
    int times; /* it was called back */
    int code;
    struct async_written written;
};
static struct async_call calls[SIM_CLIENTS][CALLS];
static int counts[SIM_CLIENTS];
static bool closed[SIM_CLIENTS]; /* nothing may come any more */

void asyncs_begin(void)
{
    for (int client = 0; client < SIM_CLIENTS; client++) {
        asyncs_forget(client);
    }
}

void asyncs_forget(int client)
{
    memset(calls[client], 0, counts[client] * sizeof calls[client][0]);
    counts[client] = 0;
    closed[client] = false;
}

static struct async_call *begin_call(struct sim *s, int client, int thread, const char *what)
{
    if (counts[client] == CALLS) {
        return NULL;
    }
    struct async_call *call = &calls[client][counts[client]++];
    *call = (struct async_call){.s = s, .client = client, .thread = thread, .what = what, .stage = BEGUN};
    return call;
}

bool turn_is_async(struct turn *turn)
{
    return turn->s->plan->async && turn_dice(turn, 100 + turn->asyncs++, 2) == 0;
}

struct async_call *turn_async(struct turn *turn, const char *what)
{
    return turn_is_async(turn) ? begin_call(turn->s, turn->client, turn->thread, what) : NULL;
}

struct async_written *async_writes(struct async_call *call)
{
    return &call->written;
}

/* --- called back ------------------------------------------------------------------------------------------------------ */

static void free_written(struct async_call *call)
{
    zkl_queue_free(call->written.queue);
    zkl_queue_free(call->written.above);
    zkl_data_free(call->written.data);
    call->written.queue = NULL;
    call->written.above = NULL;
    call->written.data = NULL;
}

void async_done(int code, const zkl_error *err, void *payload)
{
    struct async_call *call = payload;
    sim_say(call->s, "app", "%d.%d is called back for %s: %s", call->client, call->thread, call->what,
            zkl_error_name(code));
    if (call->stage != BEGUN || call->times > 0 || closed[call->client]) {
        sim_fail(call->s, "completion", "%d.%d: %s is called back %s", call->client, call->thread, call->what,
                 call->times > 0          ? "twice"
                 : call->stage == REFUSED ? "though it was refused"
                                          : "when the close of its session has been");
    }
    if (err && code != ZKL_OK && err->code != code) {
        sim_fail(call->s, "completion", "%s ends with %s, and its text is of %s", call->what, zkl_error_name(code),
                 zkl_error_name(err->code));
    }
    call->times++;
    call->code = code;
    sim_hash(call->s, (uint64_t)code + 78);
    fiber_wake(call);
}

void async_acquired(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    struct async_call *call = payload;
    (void)lock;
    if (grant) {
        call->written.grant = *grant;
    }
    async_done(code, err, payload);
}

static void note_begin(struct async_call *call, int rc)
{
    if (rc != ZKL_OK) {
        call->stage = REFUSED;
        if (call->times > 0) {
            sim_fail(call->s, "completion", "%d.%d: %s is refused, and was called back", call->client, call->thread,
                     call->what);
        }
    }
}

int async_wait(struct turn *turn, struct async_call *call, int rc)
{
    turn->due = SIM_NEVER; /* callbacks come one after the other, and some block */
    note_begin(call, rc);
    if (rc != ZKL_OK) {
        return rc;
    }
    while (call->times == 0) {
        fiber_wait(call, INT64_MAX);
    }
    free_written(call);
    return call->code;
}

void async_let_be(struct async_call *call, int rc)
{
    note_begin(call, rc);
}

/* --- the close -------------------------------------------------------------------------------------------------------- */

void asyncs_close(struct sim *s, int client)
{
    for (int i = 0; i < counts[client]; i++) {
        struct async_call *call = &calls[client][i];
        if (call->stage == BEGUN && call->times != 1) {
            sim_fail(s, "completion", "%d.%d: %s was not called back before the close of its session", client,
                     call->thread, call->what);
        }
        free_written(call);
    }
    closed[client] = true;
}
