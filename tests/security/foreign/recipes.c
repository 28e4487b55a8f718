#include "recipes.h"

#include "wait.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* --- one call without waiting, waited for ----------------------------------------------------------------------------- */

struct outcome {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool done;
    int code;
    zkl_error err;
};

static void on_done(int code, const zkl_error *err, void *payload)
{
    struct outcome *outcome = payload;
    pthread_mutex_lock(&outcome->mutex);
    outcome->done = true;
    outcome->code = code;
    outcome->err = *err;
    pthread_cond_signal(&outcome->cond);
    pthread_mutex_unlock(&outcome->mutex);
}

static void on_acquired(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    (void)lock;
    (void)grant;
    on_done(code, err, payload);
}

/* rc: of the call itself. */
static int await(struct use *use, struct outcome *outcome, int rc)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += (use->timeout_ms + SOON) / 1000;
    if (rc != ZKL_OK) {
        return rc;
    }
    pthread_mutex_lock(&outcome->mutex);
    while (!outcome->done && pthread_cond_timedwait(&outcome->cond, &outcome->mutex, &end) == 0) {
    }
    bool done = outcome->done;
    pthread_mutex_unlock(&outcome->mutex);
    if (!done) {
        return STUCK;
    }
    use->err = outcome->err;
    return outcome->code;
}

static struct outcome *outcome_new(void)
{
    struct outcome *outcome = calloc(1, sizeof *outcome);
    pthread_mutex_init(&outcome->mutex, NULL);
    pthread_cond_init(&outcome->cond, NULL);
    return outcome;
}

/* One that is stuck may be completed later. */
static int outcome_end(struct outcome *outcome, int code)
{
    if (code != STUCK) {
        free(outcome);
    }
    return code;
}

/* CALL(use, zkl_barrier_set, (session, path, timeout)): the code of the call, or of its asynchronous form. */
#define ARGUMENTS(...) __VA_ARGS__
#define CALL(use, function, arguments)                                                                                \
    __extension__({                                                                                                   \
        struct outcome *outcome_ = outcome_new();                                                                     \
        int code_ = (use)->async                                                                                      \
                        ? await(use, outcome_, function##_async(ARGUMENTS arguments, on_done, outcome_, &(use)->err)) \
                        : function(ARGUMENTS arguments, &(use)->err);                                                 \
        outcome_end(outcome_, code_);                                                                                 \
    })

/* --- what is acquired -------------------------------------------------------------------------------------------------- */

static int acquire(struct use *use, zkl_lock *lock)
{
    struct outcome *outcome = outcome_new();
    int code = use->async
                   ? await(use, outcome, zkl_lock_acquire_async(lock, use->timeout_ms, on_acquired, outcome, &use->err))
                   : zkl_lock_acquire(lock, use->timeout_ms, NULL, &use->err);
    return outcome_end(outcome, code);
}

/* Acquires, does the verb of the recipe's own, releases and frees. */
static int use_lock(struct use *use, int made, zkl_lock **made_lock, int (*verb)(struct use *, zkl_lock *))
{
    if (made != ZKL_OK) {
        return made;
    }
    zkl_lock *lock = *made_lock;
    int code = acquire(use, lock);
    if (code == STUCK) {
        return code;
    }
    if (code == ZKL_OK && verb) {
        code = verb(use, lock);
    }
    zkl_lock_release(lock, NULL);
    zkl_lock_free(lock);
    return code;
}

static int use_plain(struct use *use)
{
    zkl_lock *lock = NULL;
    return use_lock(use, zkl_lock_new(&lock, use->session, use->path, NULL, &use->err), &lock, NULL);
}

static int use_recover(struct use *use)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_lock *lock = NULL;
    options.recover = true;
    return use_lock(use, zkl_lock_new(&lock, use->session, use->path, &options, &use->err), &lock, NULL);
}

static void on_revoke(zkl_lock *lock, void *payload)
{
    (void)lock;
    (void)payload;
}

static int use_revocable(struct use *use)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_lock *lock = NULL;
    options.revoke_fn = on_revoke;
    return use_lock(use, zkl_lock_new(&lock, use->session, use->path, &options, &use->err), &lock, NULL);
}

static int use_linger(struct use *use)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_lock *lock = NULL;
    options.linger_ms = 1;
    return use_lock(use, zkl_lock_new(&lock, use->session, use->path, &options, &use->err), &lock, NULL);
}

static int use_delay(struct use *use)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_lock *lock = NULL;
    options.delay_after_crash_ms = 1;
    return use_lock(use, zkl_lock_new(&lock, use->session, use->path, &options, &use->err), &lock, NULL);
}

static int use_reader(struct use *use)
{
    zkl_lock *lock = NULL;
    return use_lock(use, zkl_read_lock_new(&lock, use->session, use->path, NULL, &use->err), &lock, NULL);
}

static int downgrade(struct use *use, zkl_lock *lock)
{
    return zkl_write_lock_downgrade(lock, &use->err);
}

static int use_writer(struct use *use)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_lock *lock = NULL;
    options.release_timeout_ms = use->patience_ms; /* of the downgrade, too */
    return use_lock(use, zkl_write_lock_new(&lock, use->session, use->path, &options, &use->err), &lock, downgrade);
}

static int use_multilock(struct use *use)
{
    char other[512];
    const char *paths[] = {use->path, other};
    zkl_lock *lock = NULL;
    snprintf(other, sizeof other, "%s-other", use->path);
    return use_lock(use, zkl_multilock_new(&lock, use->session, paths, 2, NULL, &use->err), &lock, NULL);
}

static int use_semaphore(struct use *use)
{
    zkl_lock *lock = NULL;
    return use_lock(use, zkl_semaphore_new(&lock, use->session, use->path, 2, NULL, &use->err), &lock, NULL);
}

static int use_agreed(struct use *use)
{
    zkl_lock *lock = NULL;
    return use_lock(use, zkl_semaphore_new(&lock, use->session, use->path, 0, NULL, &use->err), &lock, NULL);
}

static int use_resize(struct use *use)
{
    return CALL(use, zkl_semaphore_resize, (use->session, use->path, 3, use->patience_ms));
}

static int publish(struct use *use, zkl_lock *lock)
{
    return CALL(use, zkl_election_publish, (lock, "here I am", use->patience_ms));
}

static int use_election(struct use *use)
{
    zkl_lock *lock = NULL;
    return use_lock(use, zkl_election_new(&lock, use->session, use->path, NULL, &use->err), &lock, publish);
}

static int look_and_record(struct use *use, zkl_lock *lock)
{
    zkl_once_slot slot = {0};
    int code = CALL(use, zkl_once_look, (lock, 1000, 0, use->patience_ms, &slot));
    if (code == ZKL_OK && !slot.done) {
        code = CALL(use, zkl_once_record, (lock, &slot, use->patience_ms));
    }
    return code;
}

static int use_once(struct use *use)
{
    zkl_lock *lock = NULL;
    int64_t last = 0, recorded = 0;
    int code = CALL(use, zkl_once_prepare, (use->session, use->path, use->patience_ms));
    if (code == ZKL_OK) {
        code = CALL(use, zkl_once_last, (use->session, use->path, 1000, use->patience_ms, &last, &recorded));
    }
    return code == ZKL_OK
               ? use_lock(use, zkl_lock_new(&lock, use->session, use->path, NULL, &use->err), &lock, look_and_record)
               : code;
}

/* --- what is watched --------------------------------------------------------------------------------------------------- */

static void await_report(const struct use *use, const bool *reported)
{
    int64_t end = now_ms() + use->briefly_ms; /* an election without a leader reports nothing */
    while (!__atomic_load_n(reported, __ATOMIC_ACQUIRE) && look_again(end)) {
    }
}

static void on_leader(zkl_election_observer *observer, const zkl_leader *leader, void *payload)
{
    (void)observer;
    bool whole = !leader || (strlen(leader->node) > 0 && strlen(leader->value) <= leader->value_size);
    __atomic_store_n((bool *)payload, whole, __ATOMIC_RELEASE);
}

static int use_observer(struct use *use)
{
    zkl_election_observer *observer = NULL;
    bool reported = false;
    int code = zkl_election_observe(&observer, use->session, use->path, on_leader, &reported, &use->err);
    if (code == ZKL_OK) {
        await_report(use, &reported);
        zkl_election_observer_free(observer);
    }
    return code;
}

static void on_members(zkl_group_observer *watcher, const char *const *ids, size_t count, void *payload)
{
    (void)watcher;
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += strlen(ids[i]);
    }
    __atomic_store_n((bool *)payload, bytes < count * 256 + 1, __ATOMIC_RELEASE);
}

static int use_group_watch(struct use *use)
{
    zkl_group_observer *watcher = NULL;
    bool reported = false;
    int code = zkl_group_observe(&watcher, use->session, use->path, on_members, &reported, &use->err);
    if (code == ZKL_OK) {
        await_report(use, &reported);
        zkl_group_observer_free(watcher);
    }
    return code;
}

static int use_group(struct use *use)
{
    zkl_group *group = NULL;
    zkl_members *members = NULL;
    int code = zkl_group_new(&group, use->session, use->path, "me", NULL, &use->err);
    if (code != ZKL_OK) {
        return code;
    }
    code = CALL(use, zkl_group_join, (group, use->patience_ms));
    if (code == ZKL_OK) {
        code = CALL(use, zkl_group_list, (&members, use->session, use->path, use->patience_ms));
        bool found = false;
        for (size_t i = 0; code == ZKL_OK && members && i < members->count; i++) {
            found = found || strcmp(members->members[i].id, "me") == 0;
        }
        code = code == ZKL_OK && !found ? ZKL_ENOENT : code;
        zkl_members_free(members);
    }
    if (code == ZKL_OK) {
        code = CALL(use, zkl_group_update, (group, "other data", use->patience_ms));
    }
    zkl_group_leave(group, NULL);
    zkl_group_free(group);
    return code;
}

static void on_assigned(zkl_partition *partition, const char *piece, int64_t token, void *payload)
{
    (void)partition;
    __atomic_store_n((bool *)payload, piece[0] && token, __ATOMIC_RELEASE);
}

static void on_revoked(zkl_partition *partition, const char *piece, bool lost, void *payload)
{
    (void)partition;
    (void)piece;
    (void)lost;
    (void)payload;
}

static int use_partition(struct use *use)
{
    static const char *const pieces[] = {"a", "b", "c"};
    zkl_partition_options options = ZKL_PARTITION_OPTIONS_INIT;
    zkl_partition *partition = NULL;
    bool assigned = false;
    options.assigned_fn = on_assigned;
    options.revoked_fn = on_revoked;
    options.payload = &assigned;
    int code = zkl_partition_new(&partition, use->session, use->path, pieces, 3, &options, &use->err);
    if (code != ZKL_OK) {
        return code;
    }
    code = zkl_partition_start(partition, &use->err);
    if (code == ZKL_OK) {
        await_report(use, &assigned);
        code = use->async ? CALL(use, zkl_partition_stop, (partition)) : zkl_partition_stop(partition, &use->err);
    }
    zkl_partition_free(partition);
    return code;
}

/* --- barriers ---------------------------------------------------------------------------------------------------------- */

/* The lift of a barrier deletes its znode, so that is one beside the foreign ones. */
static int use_barrier(struct use *use)
{
    char path[512];
    snprintf(path, sizeof path, "%s/gate", use->path);
    int code = CALL(use, zkl_barrier_set, (use->session, path, use->patience_ms));
    if (code == ZKL_OK) {
        code = CALL(use, zkl_barrier_wait, (use->session, path, use->briefly_ms));
        code = code == ZKL_ETIMEOUT ? ZKL_OK : code;
    }
    return code == ZKL_OK ? CALL(use, zkl_barrier_lift, (use->session, path, use->patience_ms)) : code;
}

static int use_double_barrier(struct use *use)
{
    zkl_double_barrier *barrier = NULL;
    int code = zkl_double_barrier_new(&barrier, use->session, use->path, 2, &use->err);
    if (code != ZKL_OK) {
        return code;
    }
    code = CALL(use, zkl_double_barrier_enter, (barrier, use->briefly_ms));
    if (code == ZKL_OK) {
        code = CALL(use, zkl_double_barrier_leave, (barrier, use->briefly_ms));
    }
    if (code != STUCK) {
        zkl_double_barrier_free(barrier);
    }
    return code;
}

/* --- queues ------------------------------------------------------------------------------------------------------------ */

static int use_queue_list(struct use *use)
{
    zkl_queue *queue = NULL;
    int code = CALL(use, zkl_queue_list, (&queue, use->session, use->path, use->patience_ms));
    for (size_t i = 0; code == ZKL_OK && queue && i < queue->count; i++) {
        const zkl_queue_entry *entry = &queue->entries[i];
        code = entry->kind <= ZKL_KIND_KAZOO_READ && strlen(entry->name) < 256 &&
                       (!entry->readable || strlen(entry->data) <= entry->data_size)
                   ? ZKL_OK
                   : ZKL_EINVAL;
    }
    zkl_queue_free(queue);
    return code;
}

/* The first in the queue, and one of no name that is there. */
static int use_queue_verbs(struct use *use)
{
    zkl_queue *queue = NULL;
    int code = CALL(use, zkl_queue_list, (&queue, use->session, use->path, use->patience_ms));
    if (code == ZKL_OK && queue && queue->count > 0) {
        code = CALL(use, zkl_queue_revoke, (use->session, use->path, queue->entries[0].name, use->patience_ms));
        code = code == ZKL_EAUTH ? ZKL_OK : code;
    }
    if (code == ZKL_OK && queue && queue->count > 0) {
        code = CALL(use, zkl_queue_remove,
                    (use->session, use->path, queue->entries[0].name, queue->entries[0].token, use->patience_ms));
    }
    zkl_queue_free(queue);
    if (code == ZKL_OK) {
        code = CALL(use, zkl_queue_revoke, (use->session, use->path, NULL, use->patience_ms));
        code = code == ZKL_EAUTH || code == ZKL_ENOTHELD ? ZKL_OK : code;
    }
    return code;
}

const struct recipe recipes[] = {
    {"lock", true, 0, use_plain},
    {"lock-recover", true, 0, use_recover},
    {"lock-revocable", true, 0, use_revocable},
    {"lock-linger", true, 0, use_linger},
    {"lock-delay", true, 0, use_delay},
    {"read", true, 0, use_reader},
    {"write", true, 0, use_writer},
    {"multilock", true, 0, use_multilock},
    {"election", true, 0, use_election},
    {"observer", false, 0, use_observer},
    {"queue-list", true, 0, use_queue_list},
    {"semaphore", true, 1, use_semaphore},
    {"semaphore-agreed", true, 1, use_agreed},
    {"resize", true, 1, use_resize},
    {"once", true, 2, use_once},
    {"partition", true, 3, use_partition},
    {"group-watch", false, 4, use_group_watch},
    {"group", true, 4, use_group},
    {"double-barrier", true, 5, use_double_barrier},
    {"barrier", true, 6, use_barrier},
    {"queue-verbs", true, 7, use_queue_verbs},
};
const int recipe_count = sizeof recipes / sizeof *recipes;
