/* Lost connections, ended sessions, meddling strangers: what tests do to the in-process store. */
#include "memory.h"
#include "memory_session.h"

/* --- hooks on a session ---------------------------------------------------------------------- */

/* Enters a session whose connection is in this state; NULL: *code says why not. */
static struct zkl__store *enter(int64_t session_id, enum zkl__memory_link wanted, int *code)
{
    struct zkl__store *store = zkl__memory_enter(session_id);
    *code = !store || store->link_state == ZKL__LINK_OVER ? ZKL_ENOENT
            : store->link_state != wanted                 ? ZKL_EINVAL
                                                          : ZKL_OK;
    if (store && *code != ZKL_OK) {
        zkl__memory_leave(store->space);
        store = NULL;
    }
    return store;
}

int zkl__memory_suspend(int64_t session_id)
{
    int code;
    struct zkl__store *store = enter(session_id, ZKL__LINK_UP, &code);
    if (!store) {
        return code;
    }
    struct zkl__memory_notice *suspension = zkl__memory_notice_new(store, ZKL__TELL_SUSPENDED);
    if (suspension) {
        zkl__memory_go_down(store, suspension, true);
    }
    zkl__memory_leave(store->space);
    return suspension ? ZKL_OK : ZKL_ENOMEM;
}

/* The notice is of the connection, or of the end that the server tells on it. */
static void reconnect(struct zkl__store *store, struct zkl__memory_notice *notice)
{
    store->link_state = store->ended ? ZKL__LINK_OVER : ZKL__LINK_UP;
    zkl__memory_tell(store, &notice->item);
    zkl__memory_tell_missed(store);
}

int zkl__memory_resume(int64_t session_id)
{
    int code;
    struct zkl__store *store = enter(session_id, ZKL__LINK_DOWN, &code);
    if (!store) {
        return code;
    }
    struct zkl__memory_notice *notice =
        zkl__memory_notice_new(store, store->ended ? ZKL__TELL_EXPIRED : ZKL__TELL_CONNECTED);
    if (notice) {
        reconnect(store, notice);
    }
    zkl__memory_leave(store->space);
    return notice ? ZKL_OK : ZKL_ENOMEM;
}

bool zkl__memory_is_cut(int64_t session_id)
{
    int code;
    struct zkl__store *store = enter(session_id, ZKL__LINK_DOWN, &code);
    if (store) {
        zkl__memory_leave(store->space);
    }
    return store != NULL;
}

static int expire(struct zkl__store *store)
{
    if (store->link_state == ZKL__LINK_DOWN) {
        zkl__memory_end(store);
        return ZKL_OK;
    }
    struct zkl__memory_notice *end = zkl__memory_notice_new(store, ZKL__TELL_EXPIRED);
    struct zkl__memory_notice *suspension = zkl__memory_notice_new(store, ZKL__TELL_SUSPENDED);
    if (!end || !suspension) {
        zkl__free(&store->heap, end);
        zkl__free(&store->heap, suspension);
        return ZKL_ENOMEM;
    }
    zkl__memory_go_down(store, suspension, true);
    zkl__memory_end(store);
    reconnect(store, end);
    return ZKL_OK;
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
    struct zkl__store *store = enter(session_id, ZKL__LINK_UP, &code);
    if (store) {
        store->held = on;
        zkl__memory_voice_wake(store);
        zkl__memory_leave(store->space);
    }
    return code;
}

static int set_plan(int64_t session_id, struct zkl__memory_plan plan)
{
    int code;
    struct zkl__store *store = enter(session_id, ZKL__LINK_UP, &code);
    if (!store) {
        return code;
    }
    if (store->broken) {
        code = ZKL_EINVAL;
    } else {
        store->plan = plan;
    }
    zkl__memory_leave(store->space);
    return code;
}

int zkl__memory_break(int64_t session_id, size_t whole, size_t half, size_t lost)
{
    return set_plan(session_id,
                    (struct zkl__memory_plan){.whole = whole, .half = half, .lost = lost});
}

int zkl__memory_lose_reply(int64_t session_id)
{
    return set_plan(session_id, (struct zkl__memory_plan){.write = true, .half = 1});
}

int zkl__memory_refuse(int64_t session_id, enum zkl__rc rc, size_t count)
{
    struct zkl__store *store = zkl__memory_enter(session_id);
    if (!store) {
        return ZKL_ENOENT;
    }
    bool over = store->link_state == ZKL__LINK_OVER;
    store->refusals = count;
    store->refusal = rc;
    zkl__memory_leave(store->space);
    return over ? ZKL_ENOENT : ZKL_OK;
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
    bool ephemeral = op->kind == ZKL__OP_CREATE &&
                     (op->mode == ZKL__EPHEMERAL || op->mode == ZKL__EPHEMERAL_SEQUENTIAL);
    bool single =
        op->kind == ZKL__OP_CHECK || (zkl__memory_writes(op) && op->kind != ZKL__OP_MULTI);
    if (ephemeral || !single || zkl__store_check(op, 0) != ZKL_OK) {
        return ZKL_EINVAL;
    }
    struct zkl__memory_space *space = zkl__memory_enter_name(name);
    if (!space) {
        return ZKL_ENOENT;
    }
    struct zkl__store stranger = {.space = space, .heap = space->tree.heap};
    struct zkl__memory_reply *reply = zkl__memory_perform(&stranger, 0, op, ZKL__RC_OK);
    if (reply) {
        *rc = reply->reply.rc;
        zkl__free(&stranger.heap, reply);
    }
    zkl__memory_leave(space);
    return reply ? ZKL_OK : ZKL_ENOMEM;
}
