/* One-shot watches, as the server keeps them and as the C client sets them again after a reconnect.
 */
#include "memory_session.h"
#include "memory_acl.h"

#include <string.h>

static struct zkl__memory_watch **bucket_of(struct zkl__memory_space *space, const char *path)
{
    return &space->watches[zkl__memory_hash(path, strlen(path)) % ZKL__MEMORY_WATCH_BUCKETS];
}

struct zkl__memory_watch *zkl__memory_watch_new(struct zkl__store *store, const char *path,
                                                enum zkl__memory_table table)
{
    size_t size = strlen(path) + 1;
    struct zkl__memory_watch *watch = zkl__zalloc(&store->heap, sizeof *watch + size);
    if (watch) {
        watch->item.kind = ZKL__TELL_WATCH;
        watch->store = store;
        watch->table = table;
        memcpy(watch->path, path, size);
    }
    return watch;
}

void zkl__memory_arm(struct zkl__memory_watch *watch)
{
    struct zkl__memory_watch **bucket = bucket_of(watch->store->space, watch->path);
    for (struct zkl__memory_watch *other = *bucket; other; other = other->next) {
        if (other->store == watch->store && other->table == watch->table &&
            strcmp(other->path, watch->path) == 0) {
            zkl__free(&watch->store->heap, watch);
            return;
        }
    }
    watch->next = *bucket;
    *bucket = watch;
}

static void tell(struct zkl__memory_watch *watch, enum zkl__watch_event event)
{
    watch->next = NULL;
    watch->event = event;
    zkl__memory_tell(watch->store, &watch->item);
}

/* The last thing put to the session is that this path is deleted. */
static bool just_told(const struct zkl__store *store, const char *path)
{
    const struct zkl__memory_item *tail = store->broken ? store->lost.tail : store->queue.tail;
    if (!tail || tail->kind != ZKL__TELL_WATCH) {
        return false;
    }
    const struct zkl__memory_watch *last = (const struct zkl__memory_watch *)tail;
    return last->event == ZKL__WATCH_DELETED && strcmp(last->path, path) == 0;
}

/* A watch that fires on a node which its session may not read is used up without a word
 * (WatchManager.triggerWatch). */
static bool may_know(const struct zkl__memory_watch *watch, const struct zkl__memory_node *node)
{
    return watch->store->space->rules == ZKL__RULES_NOTHING_NEEDS_READ ||
           zkl__memory_acl_permits(node->acl, &watch->store->who.ids, ZKL_PERM_READ);
}

static void trigger(struct zkl__memory_space *space, enum zkl__memory_table table,
                    enum zkl__watch_event event, const struct zkl__memory_node *node)
{
    struct zkl__memory_watch **at = bucket_of(space, node->path);
    while (*at) {
        struct zkl__memory_watch *watch = *at;
        if (watch->table != table || strcmp(watch->path, node->path) != 0) {
            at = &watch->next;
            continue;
        }
        *at = watch->next;
        bool again = table == ZKL__WATCHES_CHILD && event == ZKL__WATCH_DELETED &&
                     just_told(watch->store, node->path);
        if (again || !may_know(watch, node)) {
            zkl__free(&watch->store->heap, watch);
        } else {
            tell(watch, event);
        }
    }
}

/* Who watches data and children of a node hears of its end once (DataTree.deleteNode: "processed").
 */
void zkl__memory_fire(struct zkl__memory_space *space, enum zkl__watch_event event,
                      const struct zkl__memory_node *node)
{
    trigger(space, ZKL__WATCHES_DATA, event, node);
    if (event == ZKL__WATCH_DELETED) {
        trigger(space, ZKL__WATCHES_CHILD, event, node);
    }
    if (event != ZKL__WATCH_CHANGED) {
        trigger(space, ZKL__WATCHES_CHILD, ZKL__WATCH_CHILDREN, node->parent);
    }
}

/* Takes the session's watches out of one bucket and gives each to then(). */
static bool each_of(struct zkl__memory_watch **at, const struct zkl__store *store, const char *path,
                    void (*then)(struct zkl__memory_watch *watch))
{
    bool any = false;
    while (*at) {
        struct zkl__memory_watch *watch = *at;
        if (watch->store != store || (path && strcmp(watch->path, path) != 0)) {
            at = &watch->next;
            continue;
        }
        *at = watch->next;
        any = true;
        then(watch);
    }
    return any;
}

static void discard(struct zkl__memory_watch *watch)
{
    zkl__free(&watch->store->heap, watch);
}

bool zkl__memory_disarm(struct zkl__store *store, const char *path)
{
    if (path) {
        return each_of(bucket_of(store->space, path), store, path, discard);
    }
    bool any = false;
    for (size_t i = 0; i < ZKL__MEMORY_WATCH_BUCKETS; i++) {
        any |= each_of(&store->space->watches[i], store, NULL, discard);
    }
    return any;
}

/* A client registers a watch when the reply comes: "a lost reply = no watch". */
void zkl__memory_take_back(struct zkl__memory_watch *watch)
{
    struct zkl__store *store = watch->store;
    if (watch->number > store->sure_number) {
        discard(watch);
        return;
    }
    watch->next = store->aside;
    store->aside = watch;
}

void zkl__memory_lay_aside(struct zkl__store *store)
{
    for (size_t i = 0; i < ZKL__MEMORY_WATCH_BUCKETS; i++) {
        each_of(&store->space->watches[i], store, NULL, zkl__memory_take_back);
    }
}

/* What DataTree.setWatches makes of a watch, given the zxid of the last reply that the client saw.
 */
static bool missed(const struct zkl__memory_watch *watch, enum zkl__watch_event *event)
{
    const struct zkl__memory_node *node = zkl__memory_find(&watch->store->space->tree, watch->path);
    int64_t seen = watch->store->sure_zxid;
    if (watch->absent) {
        *event = ZKL__WATCH_CREATED;
        return node != NULL;
    }
    if (!node) {
        *event = ZKL__WATCH_DELETED;
        return true;
    }
    *event = watch->table == ZKL__WATCHES_CHILD ? ZKL__WATCH_CHILDREN : ZKL__WATCH_CHANGED;
    return (watch->table == ZKL__WATCHES_CHILD ? node->pzxid : node->stat.mzxid) > seen;
}

void zkl__memory_rearm(struct zkl__store *store)
{
    while (store->aside) {
        struct zkl__memory_watch *watch = store->aside;
        enum zkl__watch_event event;
        store->aside = watch->next;
        if (!missed(watch, &event)) {
            zkl__memory_arm(watch);
            continue;
        }
        if (event == ZKL__WATCH_DELETED) {
            /* The client drops its other watches of the path with the first notice. */
            each_of(&store->aside, store, watch->path, discard);
        }
        tell(watch, event);
    }
}

void zkl__memory_forget_aside(struct zkl__store *store)
{
    each_of(&store->aside, store, NULL, discard);
}
