#include "core_internal.h"

/* After what was refused, was put off by the server, or was not sent though connected (a limit was
 * reached, or no memory). */
#define PAUSE_LEAST INT64_C(200000000) /* ns */
#define PAUSE_MOST INT64_C(2000000000)

/* Of looks, + the number: none that the session or a contender has. */
#define ROLE_LOOK ZKL__ROLES

void zkl__watcher_retry(struct zkl__watcher *w)
{
    w->pause = zkl__backoff(w->pause, PAUSE_LEAST, PAUSE_MOST);
    w->retry_at = w->core->now + w->pause;
    zkl__timers_set(&w->core->timers, &w->machine.timer, w->retry_at);
}

void zkl__watcher_wake(struct zkl__watcher *w)
{
    w->retry_at = 0;
    zkl__timers_set(&w->core->timers, &w->machine.timer, INT64_MAX);
    zkl__core_post(w->core, &w->machine);
}

static void on_watcher_due(struct zkl__machine *machine)
{
    zkl__watcher_wake((struct zkl__watcher *)machine);
}

/* --- what it sends --------------------------------------------------------------------------- */

void zkl__watcher_unwatch(struct zkl__watcher *w)
{
    zkl__watch_remove(w->core, &w->watch);
}

/* False: no memory, or too many watches. */
static bool set_watch(struct zkl__watcher *w, const struct zkl__op *op)
{
    if (!zkl__path_put(&w->core->config.heap, &w->path, &w->room, op->dir, op->name)) {
        return false;
    }
    w->watch.entry.path = w->path;
    int rc = zkl__watch_add(w->core, &w->watch);
    if (rc == ZKL_ELIMIT && !w->over_limit) {
        zkl__core_warn(w->core, NULL,
                       "this session has reached its limit of %zu bytes of watched paths: an "
                       "observer or a member waits for room. Use another session for some of the "
                       "paths. It waits to watch %s",
                       w->core->config.watch_bytes_max, w->path);
    }
    w->over_limit = rc == ZKL_ELIMIT;
    return rc == ZKL_OK;
}

static void send_operation(struct zkl__watcher *w, const struct zkl__op *op)
{
    if (op->watch) { /* at most one thing is watched */
        zkl__watcher_unwatch(w);
        if (!set_watch(w, op)) {
            zkl__watcher_retry(w);
            return;
        }
    }
    w->busy = true;
    zkl__core_send(w->core, &w->machine, ZKL__ROLE_NONE, op);
}

static void step_watcher(struct zkl__core *core, struct zkl__machine *machine)
{
    struct zkl__watcher *w = (struct zkl__watcher *)machine;
    struct zkl__op op;
    int look = -1;
    bool sends = false;
    while (core->connected && !w->busy && w->retry_at == 0 && w->ops->next(w, &op, &look)) {
        sends = true;
        if (look < 0) {
            send_operation(w, &op);
        } else {
            w->looks++;
            zkl__core_send(core, machine, ROLE_LOOK + look, &op);
        }
        look = -1;
    }
    bool idle = core->connected && !w->busy && w->looks == 0 && w->retry_at == 0;
    w->pause = idle ? 0 : w->pause; /* what was refused before has come to its end */
    if (idle && !sends && w->ops->rests) {
        w->ops->rests(w);
    }
}

/* --- what it hears --------------------------------------------------------------------------- */

static void on_watcher_reply(struct zkl__core *core, struct zkl__machine *machine, int role,
                             int64_t sent, const struct zkl__reply *reply)
{
    struct zkl__watcher *w = (struct zkl__watcher *)machine;
    bool decides = zkl__rc_decides(reply->rc);
    (void)sent;
    if (role >= ROLE_LOOK) {
        w->looks--;
        if (decides) {
            w->ops->looked(w, role - ROLE_LOOK, reply);
        } else if (w->retry_at == 0) {
            zkl__watcher_retry(w); /* or when it is connected again */
        }
        zkl__core_post(core, machine);
        return;
    }
    w->busy = false;
    if (decides) {
        if (w->looks > 0) {
            zkl__core_forget(core, machine);
            w->looks = 0;
        }
        zkl__watcher_wake(w);
        w->ops->answered(w, reply); /* may put it off */
    } else {
        zkl__watcher_retry(w);
    }
    if (w->missed) {
        w->missed = false;
        zkl__watcher_wake(w);
        w->ops->changed(w, false);
    }
}

static void on_fired(struct zkl__watch *fired, enum zkl__watch_event event)
{
    struct zkl__watcher *w = fired->owner;
    (void)event;
    if (w->busy) { /* the reply may settle it, and then nothing would be watched any more */
        w->missed = true;
        return;
    }
    zkl__watcher_wake(w);
    w->ops->changed(w, false);
}

/* --- life ------------------------------------------------------------------------------------ */

static const struct zkl__machine_ops machine_ops = {.rank = ZKL__RANK_LATER,
                                                    .step = step_watcher,
                                                    .answered = on_watcher_reply,
                                                    .due = on_watcher_due};

void zkl__watcher_begin(struct zkl__watcher *w, struct zkl__core *core,
                        const struct zkl__watcher_ops *ops, void *owner)
{
    core->machines++;
    w->machine.ops = &machine_ops;
    w->ops = ops;
    w->owner = owner;
    w->core = core;
    w->watch = (struct zkl__watch){.fired = on_fired, .owner = w};
    zkl__list_prepend(&core->watchers, &w->in_session);
}

void zkl__watcher_end(struct zkl__watcher *w)
{
    struct zkl__core *core = w->core;
    if (!core) {
        return;
    }
    zkl__watcher_unwatch(w);
    zkl__core_forget(core, &w->machine);
    zkl__machine_unready(&w->machine);
    zkl__timers_set(&core->timers, &w->machine.timer, INT64_MAX);
    core->machines--;
    zkl__list_remove(&core->watchers, &w->in_session);
    zkl__free(&core->config.heap, w->path);
    *w = (struct zkl__watcher){.owner = w->owner};
}
