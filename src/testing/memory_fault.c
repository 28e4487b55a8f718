/* Lost connections, ended sessions, meddling strangers: what tests do to the in-process store. */
#include "memory.h"
#include "memory_store.h"

/* --- sessions and trees by name -------------------------------------------------------------- */

static void leave(struct zkl__memory_space *space)
{
    pthread_mutex_unlock(&space->mutex);
    pthread_mutex_unlock(&zkl__memory_registry.mutex);
}

/* Finds and locks a session whose connection is in this state (ZKL__LINK_OVER: up or down); NULL
 * and nothing locked: *code says why not. */
static struct zkl__store *enter(int64_t session_id, enum zkl__memory_link wanted, int *code)
{
    *code = ZKL_ENOENT;
    pthread_mutex_lock(&zkl__memory_registry.mutex);
    ZKL__EACH (struct zkl__memory_space, space, &zkl__memory_registry.spaces, link) {
        pthread_mutex_lock(&space->mutex);
        ZKL__EACH (struct zkl__store, store, &space->sessions, link) {
            if (store->session_id == session_id && store->link_state != ZKL__LINK_OVER) {
                bool fits = wanted == ZKL__LINK_OVER || store->link_state == wanted;
                *code = fits ? ZKL_OK : ZKL_EINVAL;
                if (fits) {
                    return store;
                }
            }
        }
        pthread_mutex_unlock(&space->mutex);
    }
    pthread_mutex_unlock(&zkl__memory_registry.mutex);
    return NULL;
}

/* Finds and locks a tree; NULL and nothing locked: there is none. */
static struct zkl__memory_space *enter_tree(const char *servers)
{
    pthread_mutex_lock(&zkl__memory_registry.mutex);
    struct zkl__memory_space *space = zkl__memory_find_space(servers);
    if (space) {
        pthread_mutex_lock(&space->mutex);
    } else {
        pthread_mutex_unlock(&zkl__memory_registry.mutex);
    }
    return space;
}

/* --- hooks on a session ---------------------------------------------------------------------- */

int zkl__memory_suspend(int64_t session_id)
{
    int code;
    struct zkl__store *store = enter(session_id, ZKL__LINK_UP, &code);
    if (store) {
        struct zkl__memory_notice *suspension = zkl__memory_notice_new(store, ZKL__ITEM_SUSPENDED);
        code = suspension ? ZKL_OK : ZKL_ENOMEM;
        if (suspension) {
            zkl__memory_go_down(store, suspension, true);
        }
        leave(store->space);
    }
    return code;
}

/* The notice is of the connection, or of the end that the server tells on it. Then the watches fire
 * of what changed meanwhile: what DataTree.setWatches makes of each, given the zxid of the last
 * reply that the client saw. */
static void reconnect(struct zkl__store *store, struct zkl__memory_notice *notice)
{
    store->link_state = store->ended ? ZKL__LINK_OVER : ZKL__LINK_UP;
    zkl__memory_enqueue(store, &notice->item);
    struct zkl__link *at = store->watches.first;
    while (at) {
        struct zkl__memory_watch *watch = ZKL__OWNER(at, struct zkl__memory_watch, of_session);
        const struct zkl__memory_node *node = zkl__memory_find(store->space, watch->path);
        bool children = watch->table == ZKL__WATCHES_CHILD;
        at = at->next;
        if (watch->absent && node) {
            zkl__memory_fire(watch, ZKL__WATCH_CREATED);
        } else if (!watch->absent && !node) {
            zkl__memory_fire(watch, ZKL__WATCH_DELETED);
            /* The client drops its other watches of the path with the first notice. */
            zkl__memory_unwatch(store, watch->path);
            at = store->watches.first;
        } else if (!watch->absent &&
                   (children ? node->stat.pzxid : node->stat.mzxid) > store->sure.zxid) {
            zkl__memory_fire(watch, children ? ZKL__WATCH_CHILDREN : ZKL__WATCH_CHANGED);
        }
    }
}

int zkl__memory_resume(int64_t session_id)
{
    int code;
    struct zkl__store *store = enter(session_id, ZKL__LINK_DOWN, &code);
    if (store) {
        struct zkl__memory_notice *notice =
            zkl__memory_notice_new(store, store->ended ? ZKL__ITEM_EXPIRED : ZKL__ITEM_CONNECTED);
        code = notice ? ZKL_OK : ZKL_ENOMEM;
        if (notice) {
            reconnect(store, notice);
        }
        leave(store->space);
    }
    return code;
}

bool zkl__memory_is_cut(int64_t session_id)
{
    int code;
    struct zkl__store *store = enter(session_id, ZKL__LINK_DOWN, &code);
    if (store) {
        leave(store->space);
    }
    return store != NULL;
}

int zkl__memory_expire(int64_t session_id)
{
    int code;
    struct zkl__store *store = enter(session_id, ZKL__LINK_OVER, &code);
    if (!store) {
        return code;
    }
    if (store->ended) {
        code = ZKL_ENOENT;
    } else if (store->link_state == ZKL__LINK_DOWN) {
        zkl__memory_end(store);
    } else {
        struct zkl__memory_notice *end = zkl__memory_notice_new(store, ZKL__ITEM_EXPIRED);
        struct zkl__memory_notice *suspension = zkl__memory_notice_new(store, ZKL__ITEM_SUSPENDED);
        if (end && suspension) {
            zkl__memory_go_down(store, suspension, true);
            zkl__memory_end(store);
            reconnect(store, end);
        } else {
            zkl__free(&store->heap, end);
            zkl__free(&store->heap, suspension);
            code = ZKL_ENOMEM;
        }
    }
    leave(store->space);
    return code;
}

int zkl__memory_hold(int64_t session_id, bool on)
{
    int code;
    struct zkl__store *store = enter(session_id, ZKL__LINK_UP, &code);
    if (store) {
        store->held = on;
        zkl__memory_wake(store);
        leave(store->space);
    }
    return code;
}

static int set_plan(int64_t session_id, struct zkl__memory_plan plan)
{
    int code;
    struct zkl__store *store = enter(session_id, ZKL__LINK_UP, &code);
    if (store && store->faults.broken) {
        code = ZKL_EINVAL;
    } else if (store) {
        store->faults.plan = plan;
    }
    if (store) {
        leave(store->space);
    }
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
    int code;
    struct zkl__store *store = enter(session_id, ZKL__LINK_OVER, &code);
    if (store) {
        store->faults.refusals = count;
        store->faults.refusal = rc;
        leave(store->space);
    }
    return code;
}

/* --- hooks on a tree ------------------------------------------------------------------------- */

int zkl__memory_reap(const char *servers)
{
    struct zkl__memory_space *space = enter_tree(servers);
    if (!space) {
        return ZKL_ENOENT;
    }
    zkl__memory_delete_nodes(space, ZKL__MEMORY_CONTAINER_OWNER);
    leave(space);
    return ZKL_OK;
}

int zkl__memory_set_rules(const char *servers, enum zkl__memory_rules rules)
{
    struct zkl__memory_space *space = enter_tree(servers);
    if (!space) {
        return ZKL_ENOENT;
    }
    space->rules = rules;
    leave(space);
    return ZKL_OK;
}

int zkl__memory_set_counter(const char *servers, const char *path, int32_t creates)
{
    struct zkl__memory_space *space = enter_tree(servers);
    if (!space) {
        return ZKL_ENOENT;
    }
    struct zkl__memory_node *node = zkl__memory_find(space, path);
    if (node) {
        node->stat.cversion = creates;
    }
    leave(space);
    return node ? ZKL_OK : ZKL_ENOENT;
}

int zkl__memory_meddle(const char *servers, const struct zkl__op *op, enum zkl__rc *rc)
{
    struct zkl__memory_space *space = enter_tree(servers);
    if (!space) {
        return ZKL_ENOENT;
    }
    struct zkl__store stranger = {.space = space, .heap = space->heap};
    struct zkl__memory_reply *reply = zkl__memory_perform(&stranger, op);
    if (reply) {
        *rc = reply->reply.rc;
        zkl__free(&stranger.heap, reply);
    }
    leave(space);
    return reply ? ZKL_OK : ZKL_ENOMEM;
}
