/* The in-process store: spaces by name, sessions, and what each is told. */
#include "memory_session.h"
#include "error.h"
#include "memory_acl.h"

#include <string.h>
#include <time.h>

#define PREFIX "memory:"
#define SWEEP_NS (60 * INT64_C(1000000000)) /* znode.container.checkIntervalMs of the server */
#define LEAST_TIMEOUT_MS 100

/* Every space of the process. sessions: how many there ever were; zxid: the highest of the spaces
 * that are gone. */
static struct {
    pthread_mutex_t mutex;
    struct zkl__memory_space *spaces;
    int64_t sessions;
    int64_t zxid;
} registry = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static const char *plain_name(const char *servers)
{
    return strncmp(servers, PREFIX, strlen(PREFIX)) == 0 ? servers + strlen(PREFIX) : servers;
}

/* --- queues ---------------------------------------------------------------------------------- */

void zkl__memory_push(struct zkl__memory_queue *queue, struct zkl__memory_item *item)
{
    item->next = NULL;
    if (queue->tail) {
        queue->tail->next = item;
    } else {
        queue->head = item;
    }
    queue->tail = item;
}

struct zkl__memory_item *zkl__memory_pop(struct zkl__memory_queue *queue)
{
    struct zkl__memory_item *item = queue->head;
    if (item) {
        queue->head = item->next;
        queue->tail = queue->head ? queue->tail : NULL;
    }
    return item;
}

void zkl__memory_queue_free(const zkl_heap *heap, struct zkl__memory_queue *queue)
{
    for (struct zkl__memory_item *item = zkl__memory_pop(queue); item;
         item = zkl__memory_pop(queue)) {
        zkl__free(heap, item);
    }
}

struct zkl__memory_notice *zkl__memory_notice_new(const struct zkl__store *store,
                                                  enum zkl__memory_item_kind kind)
{
    struct zkl__memory_notice *notice = zkl__zalloc(&store->heap, sizeof *notice);
    if (notice) {
        notice->item.kind = kind;
        notice->connection.session_id = store->who.session_id;
        notice->connection.timeout_ms = store->timeout_ms;
    }
    return notice;
}

void zkl__memory_tell(struct zkl__store *store, struct zkl__memory_item *item)
{
    if (store->broken) {
        zkl__memory_push(&store->lost, item);
        return;
    }
    if (item->kind == ZKL__TELL_REPLY) {
        const struct zkl__memory_reply *reply = (const struct zkl__memory_reply *)item;
        store->sure_number = reply->number;
        store->sure_zxid = reply->zxid;
    }
    zkl__memory_push(&store->queue, item);
    zkl__memory_voice_wake(store);
}

/* --- delivery -------------------------------------------------------------------------------- */

static void call(const struct zkl__store *store, const struct zkl__memory_item *item)
{
    const struct zkl__memory_notice *notice = (const struct zkl__memory_notice *)item;
    const struct zkl__memory_reply *reply = (const struct zkl__memory_reply *)item;
    const struct zkl__memory_watch *watch = (const struct zkl__memory_watch *)item;
    switch (item->kind) {
    case ZKL__TELL_CONNECTED:
        store->events.connected(store->ctx, &notice->connection);
        break;
    case ZKL__TELL_SUSPENDED:
        store->events.suspended(store->ctx);
        break;
    case ZKL__TELL_EXPIRED:
        store->events.expired(store->ctx, notice->end);
        break;
    case ZKL__TELL_REPLY:
        store->events.reply(store->ctx, reply->id, &reply->reply);
        break;
    case ZKL__TELL_WATCH:
        store->events.watch(store->ctx, watch->event, watch->path);
        break;
    }
}

/* NULL: none may be told. */
static struct zkl__memory_item *next_item(struct zkl__store *store)
{
    if (store->closing || store->held || !store->queue.head) {
        return NULL;
    }
    struct zkl__memory_item *item = zkl__memory_pop(&store->queue);
    if (item->kind == ZKL__TELL_REPLY) {
        const struct zkl__memory_reply *reply = (const struct zkl__memory_reply *)item;
        store->outstanding--;
        if (reply->reply.rc != ZKL__RC_UNKNOWN) {
            store->told_number = reply->number;
            store->told_zxid = reply->zxid;
        }
    }
    return item;
}

bool zkl__memory_tell_next(struct zkl__store *store)
{
    struct zkl__memory_item *item = next_item(store);
    if (item) {
        pthread_mutex_unlock(&store->space->mutex);
        call(store, item);
        zkl__free(&store->heap, item);
        pthread_mutex_lock(&store->space->mutex);
    }
    return item != NULL;
}

/* --- spaces ---------------------------------------------------------------------------------- */

static void space_free(struct zkl__memory_space *space)
{
    zkl_heap heap = space->tree.heap;
    zkl__memory_tree_deinit(&space->tree);
    pthread_mutex_destroy(&space->mutex);
    zkl__free(&heap, space->name);
    zkl__free(&heap, space);
}

static struct zkl__memory_space *space_new(const zkl_heap *heap, const char *name)
{
    struct zkl__memory_space *space = zkl__zalloc(heap, sizeof *space);
    if (!space) {
        return NULL;
    }
    space->name = zkl__copy(heap, name, strlen(name));
    pthread_mutex_init(&space->mutex, NULL);
    if (!zkl__memory_tree_init(&space->tree, heap, registry.zxid) || !space->name) {
        space_free(space);
        return NULL;
    }
    space->next = registry.spaces;
    registry.spaces = space;
    return space;
}

/* With the registry locked. */
static struct zkl__memory_space *space_named(const char *name)
{
    struct zkl__memory_space *space = registry.spaces;
    while (space && strcmp(space->name, name) != 0) {
        space = space->next;
    }
    return space;
}

/* False: no memory. */
static bool space_join(struct zkl__store *store, const char *name)
{
    pthread_mutex_lock(&registry.mutex);
    struct zkl__memory_space *space = space_named(name);
    space = space ? space : space_new(&store->heap, name);
    if (space) {
        pthread_mutex_lock(&space->mutex);
        store->who.session_id = (INT64_C(1) << 48) + ++registry.sessions;
        store->space = space;
        store->next = space->sessions;
        space->sessions = store;
        space->tree.zxid++;
        pthread_mutex_unlock(&space->mutex);
    }
    pthread_mutex_unlock(&registry.mutex);
    return space != NULL;
}

static void space_part(struct zkl__store *store)
{
    struct zkl__memory_space *space = store->space;
    pthread_mutex_lock(&registry.mutex);
    pthread_mutex_lock(&space->mutex);
    struct zkl__store **at = &space->sessions;
    while (*at != store) {
        at = &(*at)->next;
    }
    *at = store->next;
    bool last = !space->sessions;
    if (last) {
        struct zkl__memory_space **place = &registry.spaces;
        while (*place != space) {
            place = &(*place)->next;
        }
        *place = space->next;
        registry.zxid = space->tree.zxid > registry.zxid ? space->tree.zxid : registry.zxid;
    }
    pthread_mutex_unlock(&space->mutex);
    pthread_mutex_unlock(&registry.mutex);
    if (last) {
        space_free(space);
    }
}

struct zkl__store *zkl__memory_enter(int64_t session_id)
{
    pthread_mutex_lock(&registry.mutex);
    for (struct zkl__memory_space *space = registry.spaces; space; space = space->next) {
        pthread_mutex_lock(&space->mutex);
        for (struct zkl__store *store = space->sessions; store; store = store->next) {
            if (store->who.session_id == session_id) {
                return store;
            }
        }
        pthread_mutex_unlock(&space->mutex);
    }
    pthread_mutex_unlock(&registry.mutex);
    return NULL;
}

struct zkl__memory_space *zkl__memory_enter_name(const char *name)
{
    pthread_mutex_lock(&registry.mutex);
    struct zkl__memory_space *space = space_named(plain_name(name));
    if (space) {
        pthread_mutex_lock(&space->mutex);
    } else {
        pthread_mutex_unlock(&registry.mutex);
    }
    return space;
}

void zkl__memory_leave(struct zkl__memory_space *space)
{
    pthread_mutex_unlock(&space->mutex);
    pthread_mutex_unlock(&registry.mutex);
}

/* --- open and close -------------------------------------------------------------------------- */

static void store_free(struct zkl__store *store)
{
    zkl_heap heap = store->heap;
    zkl__memory_plan_drop(store);
    zkl__memory_forget_aside(store);
    zkl__memory_queue_free(&heap, &store->queue);
    zkl__memory_queue_free(&heap, &store->lost);
    zkl__free(&heap, store->last_words);
    zkl__free(&heap, store->identity);
    zkl__free(&heap, store->seal);
    zkl__free(&heap, store->acl);
    zkl__free(&heap, store);
}

static const zkl_acl_entry creator_entry = {ZKL_PERM_ALL, "auth", ""};
static const zkl_acl creator_only = {1, &creator_entry};

static int take_credentials(struct zkl__store *store, const struct zkl__store_config *config)
{
    if (config->auth_scheme && strcmp(config->auth_scheme, "digest") == 0) {
        store->identity = zkl__memory_identity(&store->heap, config->auth, config->auth_size);
        if (!store->identity) {
            return ZKL_ENOMEM;
        }
    }
    if (config->seal) {
        store->seal = zkl__memory_identity(&store->heap, config->seal, strlen(config->seal));
        if (!store->seal) {
            return ZKL_ENOMEM;
        }
    }
    if (config->acl) {
        store->acl = zkl__memory_acl_copy(&store->heap, config->acl, NULL);
        if (!store->acl) {
            return ZKL_ENOMEM;
        }
    }
    store->who.ids = (struct zkl__memory_ids){store->identity, store->seal};
    store->who.acl = store->acl ? store->acl : store->identity ? &creator_only : NULL;
    return ZKL_OK;
}

static int64_t boottime_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* What the session is told first. A scheme that the server does not know ends it, as there. */
static int greet(struct zkl__store *store, const struct zkl__store_config *config)
{
    struct zkl__memory_notice *hello = zkl__memory_notice_new(store, ZKL__TELL_CONNECTED);
    if (!hello) {
        return ZKL_ENOMEM;
    }
    hello->connection.fresh = true;
    hello->connection.began_ns = boottime_ns();
    zkl__memory_push(&store->queue, &hello->item);
    if (config->auth_scheme && !store->identity) {
        struct zkl__memory_notice *refusal = zkl__memory_notice_new(store, ZKL__TELL_EXPIRED);
        if (!refusal) {
            return ZKL_ENOMEM;
        }
        refusal->end = ZKL__END_AUTH;
        zkl__memory_push(&store->queue, &refusal->item);
        store->link = ZKL__LINK_OVER;
        store->ended = true;
    }
    return ZKL_OK;
}

static int store_start(struct zkl__store *store, const struct zkl__store_config *config)
{
    int code = take_credentials(store, config);
    if (code == ZKL_OK && !space_join(store, plain_name(config->servers))) {
        code = ZKL_ENOMEM;
    }
    if (code != ZKL_OK) {
        return code;
    }
    pthread_mutex_lock(&store->space->mutex); /* its id is known already */
    code = greet(store, config);
    pthread_mutex_unlock(&store->space->mutex);
    if (code == ZKL_OK) {
        code = zkl__memory_voice_start(store);
    }
    if (code != ZKL_OK) {
        space_part(store);
    }
    return code;
}

static int memory_open(struct zkl__store **out, const struct zkl__store_config *config,
                       const struct zkl__store_events *events, void *ctx, zkl_error *err)
{
    struct zkl__store *store = zkl__zalloc(&config->heap, sizeof *store);
    int code = ZKL_ENOMEM;
    if (store) {
        store->heap = config->heap;
        store->events = *events;
        store->ctx = ctx;
        store->timeout_ms =
            config->timeout_ms > LEAST_TIMEOUT_MS ? config->timeout_ms : LEAST_TIMEOUT_MS;
        code = store_start(store, config);
    }
    if (code != ZKL_OK) {
        if (store) {
            store_free(store);
        }
        return zkl__fail(err, code, 0, NULL, "%s: %s", config->servers,
                         code == ZKL_ELIMIT ? "no thread could be started" : "out of memory");
    }
    *out = store;
    return ZKL_OK;
}

static int memory_close(struct zkl__store *store, int64_t timeout_ms)
{
    (void)timeout_ms; /* nothing here takes time but a callback under way, which is waited for in
                         any case */
    pthread_mutex_lock(&store->space->mutex);
    bool unreachable = store->link == ZKL__LINK_DOWN && !store->ended;
    if (!store->ended) {
        zkl__memory_end(store);
    }
    store->link = ZKL__LINK_OVER;
    store->closing = true;
    zkl__memory_voice_wake(store);
    pthread_mutex_unlock(&store->space->mutex);
    zkl__memory_voice_end(store);
    space_part(store);
    store_free(store);
    return unreachable ? ZKL_ECONNECT : ZKL_OK;
}

/* --- operations ------------------------------------------------------------------------------ */

static int accept_op(struct zkl__store *store, uint64_t id, const struct zkl__op *op)
{
    if (store->link != ZKL__LINK_UP) {
        return ZKL_ECONNECT;
    }
    if (store->outstanding >= ZKL__MEMORY_OPS) {
        return ZKL_ELIMIT;
    }
    enum zkl__memory_fate fate = zkl__memory_fate(store, op);
    bool refused = store->refusals > 0 && zkl__memory_writes(op);
    bool was_broken = store->broken;
    store->broken = was_broken || fate == ZKL__FATE_HALF || fate == ZKL__FATE_LOST;
    struct zkl__memory_reply *reply = NULL;
    int code = ZKL_OK;
    if (fate == ZKL__FATE_LOST) {
        reply = zkl__memory_reply_new(store, id, 0);
        code = reply ? ZKL_OK : ZKL_ENOMEM;
    } else {
        code = refused ? zkl__memory_refused(&reply, store, id, op)
                       : zkl__memory_perform(&reply, store, id, op);
    }
    if (code != ZKL_OK) {
        store->broken = was_broken;
        return code;
    }
    store->refusals -= refused && fate != ZKL__FATE_LOST;
    reply->zxid = store->space->tree.zxid;
    store->numbers++;
    store->outstanding++;
    zkl__memory_tell(store, &reply->item);
    zkl__memory_fated(store, fate);
    return ZKL_OK;
}

static int memory_submit(struct zkl__store *store, uint64_t id, const struct zkl__op *op)
{
    if (!zkl__memory_op_valid(op)) {
        return ZKL_EINVAL;
    }
    /* A server drops the connection of a client that sends more (jute.maxbuffer). */
    if (zkl__memory_op_size(op) > ZKL__MEMORY_REQUEST) {
        return ZKL_ELIMIT;
    }
    pthread_mutex_lock(&store->space->mutex);
    int code = accept_op(store, id, op);
    pthread_mutex_unlock(&store->space->mutex);
    return code;
}

static int64_t memory_tick(struct zkl__store *store, int64_t now_ns)
{
    struct zkl__memory_space *space = store->space;
    pthread_mutex_lock(&space->mutex);
    if (space->sweep_ns != 0 && now_ns >= space->sweep_ns) {
        zkl__memory_sweep(space);
    }
    if (now_ns >= space->sweep_ns) {
        space->sweep_ns = now_ns + SWEEP_NS;
    }
    int64_t next = space->sweep_ns;
    pthread_mutex_unlock(&space->mutex);
    return next;
}

const struct zkl__store_ops zkl__store_memory = {
    .name = "memory",
    .watch_bytes_max = 700000,
    .ops_max = ZKL__MEMORY_OPS,
    .open = memory_open,
    .submit = memory_submit,
    .tick = memory_tick,
    .close = memory_close,
};
