/* memory.c - the in-process store: spaces by name, sessions, and the events that each gets.
 *
 * "memory:NAME" opens a session with the tree of that name, which all sessions of the process
 * share. A tree lives from the first session's open until the last one is closed: then all its
 * znodes are deleted, persistent ones too. Its memory comes from the heap of the session that made
 * it, which must therefore outlive the others; tests give all of them the same one. zxids never
 * restart within a process, so a fencing token rises across trees of one name, too.
 *
 * It responds as a standalone ZooKeeper 3.8 does, with the same order of checks. These are all
 * differences:
 *  - sessions end by close or by zkl__memory_expire only; the requested timeout is granted (100 ms
 *    at least);
 *  - the schemes of access lists are world, auth and digest; every other one is
 *    ZKL__RC_INVALIDACL. There is no quota;
 *  - the characters of a path are not checked (the core has), its form is;
 *  - a counter at its end sticks, as the server's does when no create is under way at that moment;
 *    names below zero, which the server gives to creates that wait in its pipeline just then,
 *    never come;
 *  - while a connection is suspended, submit returns ZKL_ECONNECT; nothing waits for the
 *    reconnect. */
#include "memory_store.h"
#include "acl.h"
#include "base.h"

#include <string.h>

#define SWEEP_NS (60 * INT64_C(1000000000)) /* znode.container.checkIntervalMs of the server */
#define LEAST_TIMEOUT_MS 100

struct zkl__memory_registry zkl__memory_registry = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void lock_registry(void)
{
    pthread_mutex_lock(&zkl__memory_registry.mutex);
}

static void unlock_registry(void)
{
    pthread_mutex_unlock(&zkl__memory_registry.mutex);
}

/* The trees are the parent's, with mutexes that its threads may hold. */
static void forget_spaces(void)
{
    zkl__memory_registry.spaces = (struct zkl__list){0};
    unlock_registry();
}

__attribute__((constructor)) static void begin_registry(void)
{
    pthread_atfork(lock_registry, unlock_registry, forget_spaces);
}

/* --- events of a session --------------------------------------------------------------------- */

struct zkl__memory_notice *zkl__memory_notice_new(const struct zkl__store *store,
                                                  enum zkl__memory_item_kind kind)
{
    struct zkl__memory_notice *notice = zkl__zalloc(&store->heap, sizeof *notice);
    if (notice) {
        notice->item.kind = kind;
        notice->end = ZKL__END_EXPIRED;
        notice->connection.session_id = store->who.session_id;
        notice->connection.timeout_ms = store->timeout_ms;
    }
    return notice;
}

void zkl__memory_enqueue(struct zkl__store *store, struct zkl__memory_item *item)
{
    zkl__list_append(store->faults.broken ? &store->faults.lost : &store->queue, &item->link);
    zkl__memory_notifier_wake(store);
}

static void free_items(const zkl_heap *heap, struct zkl__list *list)
{
    while (list->first) {
        struct zkl__link *item = list->first;
        zkl__list_remove(list, item);
        zkl__free(heap, item);
    }
}

bool zkl__memory_was_answered(const struct zkl__memory_item *item)
{
    return item->kind == ZKL__ITEM_REPLY &&
           ((const struct zkl__memory_reply *)item)->reply.rc != ZKL__RC_UNKNOWN;
}

bool zkl__memory_deliver_next(struct zkl__store *store)
{
    struct zkl__memory_item *item = (struct zkl__memory_item *)store->queue.first;
    if (!item || store->closing || store->held) {
        return false;
    }
    zkl__list_remove(&store->queue, &item->link);
    store->outstanding -= item->kind == ZKL__ITEM_REPLY;
    if (zkl__memory_was_answered(item)) {
        store->told = ((struct zkl__memory_reply *)item)->seen;
    }
    pthread_mutex_unlock(&store->space->mutex);
    const struct zkl__memory_notice *notice = (const struct zkl__memory_notice *)item;
    const struct zkl__memory_reply *reply = (const struct zkl__memory_reply *)item;
    const struct zkl__memory_watch *watch = (const struct zkl__memory_watch *)item;
    switch (item->kind) {
    case ZKL__ITEM_CONNECTED:
        store->events.connected(store->ctx, &notice->connection);
        break;
    case ZKL__ITEM_SUSPENDED:
        store->events.suspended(store->ctx);
        break;
    case ZKL__ITEM_EXPIRED:
        store->events.expired(store->ctx, notice->end);
        break;
    case ZKL__ITEM_REPLY:
        store->events.reply(store->ctx, reply->id, &reply->reply);
        break;
    case ZKL__ITEM_WATCH:
        store->events.watch(store->ctx, watch->event, watch->path);
        break;
    }
    zkl__free(&store->heap, item);
    pthread_mutex_lock(&store->space->mutex);
    return true;
}

/* --- spaces ---------------------------------------------------------------------------------- */

static void space_free(struct zkl__memory_space *space)
{
    zkl_heap heap = space->heap;
    zkl__memory_space_deinit(space);
    zkl__free(&heap, space->servers);
    zkl__free(&heap, space);
}

struct zkl__memory_space *zkl__memory_find_space(const char *servers)
{
    struct zkl__link *at = zkl__memory_registry.spaces.first;
    while (at && strcmp(((struct zkl__memory_space *)at)->servers, servers) != 0) {
        at = at->next;
    }
    return (struct zkl__memory_space *)at;
}

/* Sets store->space, unless there is no memory. */
static void space_join(struct zkl__store *store, const char *servers)
{
    lock_registry();
    struct zkl__memory_space *space = zkl__memory_find_space(servers);
    if (!space && (space = zkl__zalloc(&store->heap, sizeof *space))) {
        space->servers = zkl__copy_text(&store->heap, servers);
        if (zkl__memory_space_init(space, &store->heap, zkl__memory_registry.zxid) &&
            space->servers) {
            zkl__list_append(&zkl__memory_registry.spaces, &space->link);
        } else {
            space_free(space);
            space = NULL;
        }
    }
    if (space) {
        pthread_mutex_lock(&space->mutex);
        store->who.session_id = (INT64_C(1) << 48) + ++zkl__memory_registry.sessions;
        store->space = space;
        zkl__list_append(&space->sessions, &store->link);
        space->zxid++;
        pthread_mutex_unlock(&space->mutex);
    }
    unlock_registry();
}

/* --- open and close -------------------------------------------------------------------------- */

static void store_free(struct zkl__store *store)
{
    struct zkl__memory_space *space = store->space;
    zkl_heap heap = store->heap;
    if (space) {
        lock_registry();
        pthread_mutex_lock(&space->mutex);
        zkl__list_remove(&space->sessions, &store->link);
        bool last = !space->sessions.first;
        if (last) {
            zkl__list_remove(&zkl__memory_registry.spaces, &space->link);
            if (space->zxid > zkl__memory_registry.zxid) {
                zkl__memory_registry.zxid = space->zxid;
            }
        }
        pthread_mutex_unlock(&space->mutex);
        unlock_registry();
        if (last) {
            space_free(space);
        }
    }
    free_items(&heap, &store->queue);
    free_items(&heap, &store->faults.lost);
    zkl__free(&heap, store->who.auth);
    zkl__free(&heap, store);
}

static int memory_open(struct zkl__store **out, const struct zkl__store_config *config,
                       const struct zkl__store_events *events, void *ctx, zkl_error *err)
{
    struct zkl__store *store = zkl__zalloc(&config->heap, sizeof *store);
    int64_t timeout_ms = config->timeout_ms;
    int code = ZKL_ENOMEM;
    bool digest = config->auth_scheme && strcmp(config->auth_scheme, "digest") == 0;
    if (store) {
        struct zkl__memory_who *who = &store->who;
        store->heap = config->heap;
        store->events = *events;
        store->ctx = ctx;
        store->timeout_ms = timeout_ms > LEAST_TIMEOUT_MS ? timeout_ms : LEAST_TIMEOUT_MS;
        if (digest) {
            who->auth = zkl__alloc(&store->heap, config->auth_size + ZKL__DIGEST_ROOM);
        }
        if (who->auth) {
            zkl__digest_identity(who->auth, config->auth, config->auth_size);
        }
        who->acl = config->acl ? config->acl : who->auth ? &zkl__store_creator_only : NULL;
        if (who->auth || !digest) {
            space_join(store, config->servers);
        }
    }
    if (store && store->space) {
        /* A scheme that the server does not know ends the session, as there. */
        bool refused = config->auth_scheme && !digest;
        struct zkl__memory_notice *hello = zkl__memory_notice_new(store, ZKL__ITEM_CONNECTED);
        struct zkl__memory_notice *refusal =
            refused ? zkl__memory_notice_new(store, ZKL__ITEM_EXPIRED) : NULL;
        pthread_mutex_lock(&store->space->mutex); /* its id is known already */
        if (hello) {
            hello->connection.fresh = true;
            hello->connection.began_ns = zkl__clock_now();
            zkl__memory_enqueue(store, &hello->item);
        }
        if (refusal) {
            refusal->end = ZKL__END_AUTH;
            zkl__memory_enqueue(store, &refusal->item);
            store->link_state = ZKL__LINK_OVER;
            store->ended = true;
        }
        pthread_mutex_unlock(&store->space->mutex);
        code = hello && (refusal || !refused) ? zkl__memory_notifier_start(store) : ZKL_ENOMEM;
    }
    if (code == ZKL_OK) {
        *out = store;
        return ZKL_OK;
    }
    if (store) {
        store_free(store);
    }
    return zkl__fail_at(err, code, NULL, "%s: %s", config->servers,
                        code == ZKL_ELIMIT ? "no thread could be started" : "out of memory");
}

static int memory_close(struct zkl__store *store, int64_t timeout_ms, int64_t *again_ms)
{
    (void)timeout_ms, (void)again_ms; /* nothing here takes time but a callback under way, which is
                         waited for in any case */
    pthread_mutex_lock(&store->space->mutex);
    bool unreachable = store->link_state == ZKL__LINK_DOWN && !store->ended;
    if (!store->ended) {
        zkl__memory_end(store);
    }
    store->link_state = ZKL__LINK_OVER;
    store->closing = true;
    zkl__memory_notifier_wake(store);
    pthread_mutex_unlock(&store->space->mutex);
    zkl__memory_notifier_end(store);
    store_free(store);
    return unreachable ? ZKL_ECONNECT : ZKL_OK;
}

/* --- operations ------------------------------------------------------------------------------ */

int zkl__memory_take_reply(struct zkl__store *store, uint64_t id, struct zkl__memory_reply *reply)
{
    if (!reply) {
        return ZKL_ENOMEM;
    }
    reply->id = id;
    reply->seen.zxid = store->space->zxid;
    store->numbers++;
    store->outstanding++;
    zkl__memory_enqueue(store, &reply->item);
    return ZKL_OK;
}

static int memory_submit(struct zkl__store *store, uint64_t id, const struct zkl__op *op)
{
    int code = zkl__store_check(op, 0);
    if (code != ZKL_OK) {
        return code;
    }
    pthread_mutex_lock(&store->space->mutex);
    if (store->link_state != ZKL__LINK_UP) {
        code = ZKL_ECONNECT;
    } else if (store->outstanding >= zkl__store_memory.ops_max) {
        code = ZKL_ELIMIT;
    } else if (store->faults.accept) {
        code = store->faults.accept(store, id, op);
    } else {
        code = zkl__memory_take_reply(store, id, zkl__memory_perform(store, op));
    }
    pthread_mutex_unlock(&store->space->mutex);
    return code;
}

static int64_t memory_tick(struct zkl__store *store, int64_t now_ns)
{
    struct zkl__memory_space *space = store->space;
    pthread_mutex_lock(&space->mutex);
    if (now_ns >= space->sweep_ns) {
        if (space->sweep_ns != 0) {
            zkl__memory_delete_nodes(space, ZKL__MEMORY_CONTAINER_OWNER);
        }
        space->sweep_ns = now_ns + SWEEP_NS;
    }
    int64_t next = space->sweep_ns;
    pthread_mutex_unlock(&space->mutex);
    return next;
}

const struct zkl__store_ops zkl__store_memory = {
    .name = "memory",
    .watch_bytes_max = 700000,
    .ops_max = 10000,
    .open = memory_open,
    .submit = memory_submit,
    .tick = memory_tick,
    .close = memory_close,
};
