#include "wish.h"

#include <stdio.h>
#include <string.h>

#define LIST_MS 2000

struct wish_kind {
    const char *queue; /* below the path */
    int (*make)(struct wish *wish, zkl_session *session, const char *path, const char *metadata, zkl_error *error);
    int (*acquire)(struct wish *wish, int64_t timeout_ms, zkl_error *error);
    int (*cancel)(void *object);
    int (*release)(void *object, zkl_error *error);
    zkl_state (*state)(const void *object);
    int64_t (*remaining_ms)(const void *object);
    void (*free)(void *object);
};

/* What differs by nothing but the type. */
#define WISH_COMMON(name, type)                                                                                 \
    typedef type name##_object;                                                                                 \
    static void name##_decided(name##_object *object, int code, const zkl_grant *grant, const zkl_error *error, \
                               void *payload)                                                                   \
    {                                                                                                           \
        struct wish *wish = payload;                                                                            \
        (void)object;                                                                                           \
        wish->decided(code, grant, error, wish->payload);                                                       \
    }                                                                                                           \
    static int name##_cancel(void *object)                                                                      \
    {                                                                                                           \
        return type##_cancel(object);                                                                           \
    }                                                                                                           \
    static zkl_state name##_state(const void *object)                                                           \
    {                                                                                                           \
        return type##_state(object);                                                                            \
    }                                                                                                           \
    static int64_t name##_remaining_ms(const void *object)                                                      \
    {                                                                                                           \
        return type##_remaining_ms(object);                                                                     \
    }                                                                                                           \
    static void name##_free(void *object)                                                                       \
    {                                                                                                           \
        type##_free(object);                                                                                    \
    }

WISH_COMMON(lock, zkl_lock)
WISH_COMMON(several, zkl_multilock)
WISH_COMMON(read, zkl_rwlock)
WISH_COMMON(slot, zkl_semaphore)
WISH_COMMON(leader, zkl_election)

/* --- a lock ----------------------------------------------------------------------------------------------------------- */

static int lock_make(struct wish *wish, zkl_session *session, const char *path, const char *metadata, zkl_error *error)
{
    zkl_lock *lock;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.metadata = metadata;
    options.revoke_fn = wish->revoke_fn;
    options.revoke_payload = wish->payload;
    int result = zkl_lock_new(&lock, session, path, &options, error);
    wish->object = result == ZKL_OK ? lock : NULL;
    return result;
}

static int lock_acquire(struct wish *wish, int64_t timeout_ms, zkl_error *error)
{
    return zkl_lock_acquire_async(wish->object, timeout_ms, lock_decided, wish, error);
}

static int lock_release(void *object, zkl_error *error)
{
    return zkl_lock_release(object, error);
}

const struct wish_kind wish_lock = {"",           lock_make,  lock_acquire,      lock_cancel,
                                    lock_release, lock_state, lock_remaining_ms, lock_free};

/* --- several, all or none ----------------------------------------------------------------------------------------------- */

static int several_make(struct wish *wish, zkl_session *session, const char *path, const char *metadata,
                        zkl_error *error)
{
    zkl_multilock *lock;
    zkl_multilock_options options = ZKL_MULTILOCK_OPTIONS_INIT;
    const char *paths[ZKL_MULTILOCK_MAX] = {path};
    memcpy(paths + 1, wish->more, wish->more_count * sizeof *paths);
    options.metadata = metadata;
    int result = zkl_multilock_new(&lock, session, paths, 1 + wish->more_count, &options, error);
    wish->object = result == ZKL_OK ? lock : NULL;
    return result;
}

static int several_acquire(struct wish *wish, int64_t timeout_ms, zkl_error *error)
{
    return zkl_multilock_acquire_async(wish->object, timeout_ms, several_decided, wish, error);
}

static int several_release(void *object, zkl_error *error)
{
    return zkl_multilock_release(object, error);
}

const struct wish_kind wish_several = {
    "",          several_make, several_acquire, several_cancel, several_release, several_state, several_remaining_ms,
    several_free};

const char *wish_twice(const struct wish *wish, const char *path)
{
    for (size_t i = 0; i < wish->more_count; i++) {
        bool twice = strcmp(wish->more[i], path) == 0;
        for (size_t j = 0; !twice && j < i; j++) {
            twice = strcmp(wish->more[i], wish->more[j]) == 0;
        }
        if (twice) {
            return wish->more[i];
        }
    }
    return NULL;
}

/* --- a reader's share --------------------------------------------------------------------------------------------------- */

static int read_make(struct wish *wish, zkl_session *session, const char *path, const char *metadata, zkl_error *error)
{
    zkl_rwlock *lock;
    zkl_rwlock_options options = ZKL_RWLOCK_OPTIONS_INIT;
    options.metadata = metadata;
    int result = zkl_rwlock_new(&lock, session, path, &options, error);
    wish->object = result == ZKL_OK ? lock : NULL;
    return result;
}

static int read_acquire(struct wish *wish, int64_t timeout_ms, zkl_error *error)
{
    return zkl_rwlock_acquire_async(wish->object, ZKL_RW_READ, timeout_ms, read_decided, wish, error);
}

static int read_release(void *object, zkl_error *error)
{
    return zkl_rwlock_release(object, error);
}

const struct wish_kind wish_read = {"",           read_make,  read_acquire,      read_cancel,
                                    read_release, read_state, read_remaining_ms, read_free};

/* --- a slot ------------------------------------------------------------------------------------------------------------- */

static int slot_make(struct wish *wish, zkl_session *session, const char *path, const char *metadata, zkl_error *error)
{
    zkl_semaphore *semaphore;
    zkl_semaphore_options options = ZKL_SEMAPHORE_OPTIONS_INIT;
    options.metadata = metadata;
    int result = zkl_semaphore_new(&semaphore, session, path, wish->limit, &options, error);
    wish->object = result == ZKL_OK ? semaphore : NULL;
    return result;
}

static int slot_acquire(struct wish *wish, int64_t timeout_ms, zkl_error *error)
{
    return zkl_semaphore_acquire_async(wish->object, 1, timeout_ms, slot_decided, wish, error);
}

static int slot_release(void *object, zkl_error *error)
{
    return zkl_semaphore_release(object, 0, error);
}

const struct wish_kind wish_slot = {"/locks",     slot_make,  slot_acquire,      slot_cancel,
                                    slot_release, slot_state, slot_remaining_ms, slot_free};

/* --- leadership ----------------------------------------------------------------------------------------------------------- */

static int leader_make(struct wish *wish, zkl_session *session, const char *path, const char *metadata,
                       zkl_error *error)
{
    zkl_election *election;
    zkl_election_options options = ZKL_ELECTION_OPTIONS_INIT;
    options.value = metadata;
    int result = zkl_election_new(&election, session, path, &options, error);
    wish->object = result == ZKL_OK ? election : NULL;
    return result;
}

static int leader_acquire(struct wish *wish, int64_t timeout_ms, zkl_error *error)
{
    return zkl_election_campaign_async(wish->object, timeout_ms, leader_decided, wish, error);
}

static int leader_release(void *object, zkl_error *error)
{
    return zkl_election_resign(object, error);
}

const struct wish_kind wish_leader = {"",           leader_make,         leader_acquire, leader_cancel, leader_release,
                                      leader_state, leader_remaining_ms, leader_free};

/* A semaphore does not say what its znode is called: it is the one with its token. */
static void slot_node(const zkl_semaphore *semaphore, zkl_session *session, char *path, size_t size)
{
    char leases[ZKL_PATH_MAX + 16];
    zkl_queue *queue;
    snprintf(leases, sizeof leases, "%s/leases", zkl_semaphore_path(semaphore));
    snprintf(path, size, "%s", leases);
    if (zkl_queue_list(&queue, session, leases, LIST_MS, NULL) != ZKL_OK) {
        return;
    }
    for (size_t i = 0; i < queue->count; i++) {
        if (queue->entries[i].token == zkl_semaphore_token(semaphore)) {
            snprintf(path, size, "%s/%s", leases, queue->entries[i].name);
        }
    }
    zkl_queue_free(queue);
}

/* --- all of them ---------------------------------------------------------------------------------------------------------- */

int wish_make(struct wish *wish, zkl_session *session, const char *path, const char *metadata, zkl_error *error)
{
    return wish->kind->make(wish, session, path, metadata, error);
}

int wish_acquire(struct wish *wish, int64_t timeout_ms, zkl_error *error)
{
    return wish->kind->acquire(wish, timeout_ms, error);
}

int wish_cancel(struct wish *wish)
{
    return wish->kind->cancel(wish->object);
}

int wish_release(struct wish *wish, zkl_error *error)
{
    return wish->kind->release(wish->object, error);
}

zkl_state wish_state(const struct wish *wish)
{
    return wish->kind->state(wish->object);
}

int64_t wish_remaining_ms(const struct wish *wish)
{
    return wish->kind->remaining_ms(wish->object);
}

void wish_free(struct wish *wish)
{
    if (wish->object) {
        wish->kind->free(wish->object);
    }
}

void wish_node(const struct wish *wish, zkl_session *session, char *path, size_t size)
{
    char name[256];
    if (wish->kind == &wish_slot) {
        slot_node(wish->object, session, path, size);
    } else if (wish->kind == &wish_several) {
        zkl_multilock_node(wish->object, 0, name, sizeof name);
        snprintf(path, size, "%s/%s", zkl_multilock_path(wish->object, 0), name);
    } else if (wish->kind == &wish_read) {
        zkl_rwlock_node(wish->object, name, sizeof name);
        snprintf(path, size, "%s/%s", zkl_rwlock_path(wish->object), name);
    } else if (wish->kind == &wish_leader) {
        zkl_election_node(wish->object, name, sizeof name);
        snprintf(path, size, "%s/%s", zkl_election_path(wish->object), name);
    } else {
        zkl_lock_node(wish->object, name, sizeof name);
        snprintf(path, size, "%s/%s", zkl_lock_path(wish->object), name);
    }
}

const char *wish_queue(const struct wish *wish, const char *path, char *room, size_t size)
{
    snprintf(room, size, "%s%s", path, wish->kind->queue);
    return room;
}
