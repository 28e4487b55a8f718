/* Lost connections, ended sessions, meddling strangers: what tests do to the in-process store. */
#include "memory_session.h"

#include <string.h>

static const struct zkl__memory_item *last_connected(const struct zkl__memory_queue *queue)
{
    const struct zkl__memory_item *last = NULL;
    for (const struct zkl__memory_item *item = queue->head; item; item = item->next) {
        last = item->kind == ZKL__TELL_CONNECTED ? item : last;
    }
    return last;
}

static bool was_answered(const struct zkl__memory_item *item)
{
    return item->kind == ZKL__TELL_REPLY &&
           ((const struct zkl__memory_reply *)item)->reply.rc != ZKL__RC_UNKNOWN;
}

/* Takes what came on this connection and has not been told into the lost queue, before what was
 * lost already. */
static void reclaim(struct zkl__store *store)
{
    struct zkl__memory_queue stay = {0}, taken = {0};
    const struct zkl__memory_item *earlier =
        last_connected(&store->queue); /* up to here: of earlier connections */
    store->sure_number = store->told_number;
    store->sure_zxid = store->told_zxid;
    for (struct zkl__memory_item *item = zkl__memory_pop(&store->queue); item;
         item = zkl__memory_pop(&store->queue)) {
        bool of_this = !earlier && (was_answered(item) || item->kind == ZKL__TELL_WATCH);
        if (was_answered(item) && !of_this) {
            store->sure_number = ((const struct zkl__memory_reply *)item)->number;
            store->sure_zxid = ((const struct zkl__memory_reply *)item)->zxid;
        }
        zkl__memory_push(of_this ? &taken : &stay, item);
        earlier = item == earlier ? NULL : earlier;
    }
    for (struct zkl__memory_item *item = zkl__memory_pop(&store->lost); item;
         item = zkl__memory_pop(&store->lost)) {
        zkl__memory_push(&taken, item);
    }
    store->queue = stay;
    store->lost = taken;
}

static void make_unknown(struct zkl__memory_reply *reply)
{
    memset(&reply->reply, 0, sizeof reply->reply);
    reply->reply.rc = ZKL__RC_UNKNOWN;
}

/* The connection is gone: `suspended`, then a reply for each operation without one. */
static void go_down(struct zkl__store *store, struct zkl__memory_notice *suspension)
{
    store->link = ZKL__LINK_DOWN;
    store->held = false;
    store->broken = false;
    zkl__memory_plan_drop(store);
    zkl__memory_lay_aside(store);
    zkl__memory_push(&store->queue, &suspension->item);
    for (struct zkl__memory_item *item = zkl__memory_pop(&store->lost); item;
         item = zkl__memory_pop(&store->lost)) {
        if (item->kind == ZKL__TELL_REPLY) {
            make_unknown((struct zkl__memory_reply *)item);
            zkl__memory_push(&store->queue, item);
        } else {
            zkl__memory_take_back((struct zkl__memory_watch *)item);
        }
    }
    zkl__memory_voice_wake(store);
}

/* --- plans ----------------------------------------------------------------------------------- */

void zkl__memory_plan_drop(struct zkl__store *store)
{
    zkl__free(&store->heap, store->plan.suspension);
    memset(&store->plan, 0, sizeof store->plan);
}

enum zkl__memory_fate zkl__memory_fate(const struct zkl__store *store, const struct zkl__op *op)
{
    const struct zkl__memory_plan *plan = &store->plan;
    if (!plan->on || (plan->create && !zkl__memory_creates(op))) {
        return ZKL__FATE_FREE;
    }
    if (plan->whole > 0) {
        return ZKL__FATE_WHOLE;
    }
    return plan->half > 0 ? ZKL__FATE_HALF : ZKL__FATE_LOST;
}

void zkl__memory_fated(struct zkl__store *store, enum zkl__memory_fate fate)
{
    struct zkl__memory_plan *plan = &store->plan;
    if (fate == ZKL__FATE_FREE) {
        return;
    }
    *(fate == ZKL__FATE_WHOLE  ? &plan->whole
      : fate == ZKL__FATE_HALF ? &plan->half
                               : &plan->lost) -= 1;
    if (plan->whole + plan->half + plan->lost == 0) {
        struct zkl__memory_notice *suspension = plan->suspension;
        plan->suspension = NULL;
        go_down(store, suspension);
    }
}

static int set_plan(struct zkl__store *store, struct zkl__memory_plan plan)
{
    struct zkl__memory_notice *suspension = zkl__memory_notice_new(store, ZKL__TELL_SUSPENDED);
    if (!suspension) {
        return ZKL_ENOMEM;
    }
    zkl__memory_plan_drop(store);
    store->plan = plan;
    store->plan.on = true;
    store->plan.suspension = suspension;
    return ZKL_OK;
}

/* --- hooks on a session ---------------------------------------------------------------------- */

/* Enters a session whose connection is up; *code says why not. */
static struct zkl__store *enter_up(int64_t session_id, int *code)
{
    struct zkl__store *store = zkl__memory_enter(session_id);
    *code = ZKL_OK;
    if (!store || store->link == ZKL__LINK_OVER) {
        *code = ZKL_ENOENT;
    } else if (store->link == ZKL__LINK_DOWN) {
        *code = ZKL_EINVAL;
    }
    if (store && *code != ZKL_OK) {
        zkl__memory_leave(store->space);
        store = NULL;
    }
    return store;
}

int zkl__memory_suspend(int64_t session_id)
{
    int code;
    struct zkl__store *store = enter_up(session_id, &code);
    if (!store) {
        return code;
    }
    struct zkl__memory_notice *suspension = zkl__memory_notice_new(store, ZKL__TELL_SUSPENDED);
    if (suspension) {
        reclaim(store);
        go_down(store, suspension);
    }
    zkl__memory_leave(store->space);
    return suspension ? ZKL_OK : ZKL_ENOMEM;
}

static int reconnect(struct zkl__store *store)
{
    if (store->ended) {
        store->link = ZKL__LINK_OVER;
        zkl__memory_tell(store, &store->last_words->item);
        store->last_words = NULL;
        return ZKL_OK;
    }
    struct zkl__memory_notice *hello = zkl__memory_notice_new(store, ZKL__TELL_CONNECTED);
    if (!hello) {
        return ZKL_ENOMEM;
    }
    store->link = ZKL__LINK_UP;
    zkl__memory_tell(store, &hello->item);
    zkl__memory_rearm(store);
    return ZKL_OK;
}

int zkl__memory_resume(int64_t session_id)
{
    struct zkl__store *store = zkl__memory_enter(session_id);
    if (!store) {
        return ZKL_ENOENT;
    }
    int code = store->link == ZKL__LINK_OVER ? ZKL_ENOENT
               : store->link == ZKL__LINK_UP ? ZKL_EINVAL
                                             : ZKL_OK;
    if (code == ZKL_OK) {
        code = reconnect(store);
    }
    zkl__memory_leave(store->space);
    return code;
}

bool zkl__memory_is_cut(int64_t session_id)
{
    struct zkl__store *store = zkl__memory_enter(session_id);
    bool cut = store && store->link == ZKL__LINK_DOWN;
    if (store) {
        zkl__memory_leave(store->space);
    }
    return cut;
}

static int expire(struct zkl__store *store)
{
    struct zkl__memory_notice *last_words = zkl__memory_notice_new(store, ZKL__TELL_EXPIRED);
    struct zkl__memory_notice *suspension = NULL;
    if (store->link == ZKL__LINK_UP) {
        suspension = zkl__memory_notice_new(store, ZKL__TELL_SUSPENDED);
    }
    if (!last_words || (store->link == ZKL__LINK_UP && !suspension)) {
        zkl__free(&store->heap, last_words);
        zkl__free(&store->heap, suspension);
        return ZKL_ENOMEM;
    }
    if (suspension) {
        reclaim(store);
        go_down(store, suspension);
    }
    zkl__memory_end(store);
    zkl__memory_forget_aside(store);
    store->last_words = last_words;
    return suspension ? reconnect(store) : ZKL_OK;
}

int zkl__memory_expire(int64_t session_id)
{
    struct zkl__store *store = zkl__memory_enter(session_id);
    if (!store) {
        return ZKL_ENOENT;
    }
    int code = store->ended ? ZKL_ENOENT : expire(store);
    zkl__memory_leave(store->space);
    return code;
}

int zkl__memory_hold(int64_t session_id, bool on)
{
    int code;
    struct zkl__store *store = enter_up(session_id, &code);
    if (store) {
        store->held = on;
        zkl__memory_voice_wake(store);
        zkl__memory_leave(store->space);
    }
    return code;
}

int zkl__memory_break(int64_t session_id, size_t whole, size_t half, size_t lost)
{
    int code;
    struct zkl__store *store = enter_up(session_id, &code);
    if (!store) {
        return code;
    }
    if (store->broken) {
        code = ZKL_EINVAL;
    } else if (whole + half + lost == 0) {
        zkl__memory_plan_drop(store);
    } else {
        code =
            set_plan(store, (struct zkl__memory_plan){.whole = whole, .half = half, .lost = lost});
    }
    zkl__memory_leave(store->space);
    return code;
}

int zkl__memory_lose_create(int64_t session_id)
{
    int code;
    struct zkl__store *store = enter_up(session_id, &code);
    if (!store) {
        return code;
    }
    code = store->broken ? ZKL_EINVAL
                         : set_plan(store, (struct zkl__memory_plan){.create = true, .half = 1});
    zkl__memory_leave(store->space);
    return code;
}

int zkl__memory_refuse(int64_t session_id, enum zkl__rc rc, size_t count)
{
    struct zkl__store *store = zkl__memory_enter(session_id);
    if (!store) {
        return ZKL_ENOENT;
    }
    int code = store->link == ZKL__LINK_OVER ? ZKL_ENOENT : ZKL_OK;
    if (code == ZKL_OK) {
        store->refusals = count;
        store->refusal = rc;
    }
    zkl__memory_leave(store->space);
    return code;
}

/* --- hooks on a tree ------------------------------------------------------------------------- */

int zkl__memory_reap(const char *name)
{
    struct zkl__memory_space *space = zkl__memory_enter_name(name);
    if (!space) {
        return ZKL_ENOENT;
    }
    zkl__memory_sweep(space);
    zkl__memory_leave(space);
    return ZKL_OK;
}

int zkl__memory_set_rules(const char *name, enum zkl__memory_rules rules)
{
    struct zkl__memory_space *space = zkl__memory_enter_name(name);
    if (!space) {
        return ZKL_ENOENT;
    }
    space->rules = rules;
    zkl__memory_leave(space);
    return ZKL_OK;
}

int zkl__memory_set_counter(const char *name, const char *path, int32_t creates)
{
    struct zkl__memory_space *space = zkl__memory_enter_name(name);
    if (!space) {
        return ZKL_ENOENT;
    }
    struct zkl__memory_node *node = zkl__memory_find(&space->tree, path);
    if (node) {
        node->creates = creates;
    }
    zkl__memory_leave(space);
    return node ? ZKL_OK : ZKL_ENOENT;
}

int zkl__memory_meddle(const char *name, const struct zkl__op *op, enum zkl__rc *rc)
{
    static const struct zkl__memory_who stranger = {0};
    bool ephemeral = op->kind == ZKL__OP_CREATE &&
                     (op->mode == ZKL__EPHEMERAL || op->mode == ZKL__EPHEMERAL_SEQUENTIAL);
    struct zkl__memory_space *space = ephemeral ? NULL : zkl__memory_enter_name(name);
    if (!space) {
        return ephemeral ? ZKL_EINVAL : ZKL_ENOENT;
    }
    struct zkl__memory_change change;
    int code = zkl__memory_write(space, &stranger, op, 1, &change);
    if (code == ZKL_OK) {
        *rc = change.rc;
        zkl__memory_drop(&change, &space->tree);
    }
    zkl__memory_leave(space);
    return code;
}
