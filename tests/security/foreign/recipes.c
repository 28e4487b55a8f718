#include "recipes.h"

#include "wait.h"

#include <stdatomic.h>

/* --- one call without waiting, waited for ----------------------------------------------------------------------------- */

struct outcome {
    atomic_bool done;
    int code;
    zkl_error err;
};

static void on_done(int code, const zkl_error *err, void *payload)
{
    struct outcome *outcome = payload;
    outcome->code = code;
    outcome->err = *err;
    outcome->done = true;
}

static void on_acquired(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    on_done(code, err, payload);
}

/* rc: of the call itself. */
static int await(struct use *use, struct outcome *outcome, int rc)
{
    int64_t end = now_ms() + use->timeout_ms + SOON;
    while (rc == ZKL_OK && !outcome->done) {
        if (!look_again(end)) {
            return STUCK; /* it may be completed later */
        }
    }
    if (rc == ZKL_OK) {
        use->err = outcome->err;
        rc = outcome->code;
    }
    free(outcome);
    return rc;
}

/* CALL(use, zkl_barrier_set, (session, path, timeout)): the code of the call, or of its asynchronous form. */
#define ARGUMENTS(...) __VA_ARGS__
#define CALL(use, function, arguments)                                                                         \
    __extension__({                                                                                            \
        struct outcome *outcome_ = (use)->async ? calloc(1, sizeof *outcome_) : NULL;                          \
        outcome_ ? await(use, outcome_, function##_async(ARGUMENTS arguments, on_done, outcome_, &(use)->err)) \
                 : function(ARGUMENTS arguments, &(use)->err);                                                 \
    })

/* --- what is acquired -------------------------------------------------------------------------------------------------- */

static int acquire(struct use *use, zkl_lock *lock)
{
    struct outcome *outcome = use->async ? calloc(1, sizeof *outcome) : NULL;
    return outcome ? await(use, outcome, zkl_lock_acquire_async(lock, use->timeout_ms, on_acquired, outcome, &use->err))
                   : zkl_lock_acquire(lock, use->timeout_ms, NULL, &use->err);
}

static void on_revoke(zkl_lock *lock, void *payload) {}

static int use_lock(struct use *use, const struct recipe *recipe)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_lock *lock;
    options.recover = recipe->recover;
    options.revoke_fn = recipe->revocable ? on_revoke : NULL;
    options.linger_ms = recipe->linger_ms;
    options.delay_after_crash_ms = recipe->delay_ms;
    options.release_timeout_ms = use->patience_ms; /* of a downgrade, too */
    int code = recipe->make(&lock, use->session, use->path, &options, &use->err);
    if (code != ZKL_OK) {
        return code;
    }
    code = acquire(use, lock);
    if (code == STUCK) {
        return code;
    }
    if (code == ZKL_OK && recipe->verb) {
        code = recipe->verb(use, lock);
    }
    zkl_lock_release(lock, NULL);
    zkl_lock_free(lock);
    return code;
}

int recipe_use(const struct recipe *recipe, struct use *use)
{
    int code = recipe->run ? recipe->run(use) : ZKL_OK;
    return code == ZKL_OK && recipe->make ? use_lock(use, recipe) : code;
}

static int downgrade(struct use *use, zkl_lock *lock)
{
    return zkl_write_lock_downgrade(lock, &use->err);
}

static int make_multilock(zkl_lock **out, zkl_session *session, const char *path, const zkl_lock_options *options,
                          zkl_error *err)
{
    char other[512];
    const char *paths[] = {path, other};
    snprintf(other, sizeof other, "%s-other", path);
    return zkl_multilock_new(out, session, paths, 2, options, err);
}

static int make_semaphore(zkl_lock **out, zkl_session *session, const char *path, const zkl_lock_options *options,
                          zkl_error *err)
{
    return zkl_semaphore_new(out, session, path, 3, options, err);
}

/* Of as many permits as the path says. */
static int make_agreed(zkl_lock **out, zkl_session *session, const char *path, const zkl_lock_options *options,
                       zkl_error *err)
{
    return zkl_semaphore_new(out, session, path, 0, options, err);
}

static int use_resize(struct use *use)
{
    return CALL(use, zkl_semaphore_resize, (use->session, use->path, 4, use->patience_ms));
}

static int publish(struct use *use, zkl_lock *lock)
{
    return CALL(use, zkl_election_publish, (lock, "here I am", use->patience_ms));
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

static int prepare(struct use *use)
{
    int64_t last = 0, recorded = 0;
    int code = CALL(use, zkl_once_prepare, (use->session, use->path, use->patience_ms));
    return code == ZKL_OK
               ? CALL(use, zkl_once_last, (use->session, use->path, 1000, use->patience_ms, &last, &recorded))
               : code;
}

/* --- what is watched --------------------------------------------------------------------------------------------------- */

static void await_report(const struct use *use, const atomic_bool *reported)
{
    int64_t end = now_ms() + use->briefly_ms; /* an election without a leader reports nothing */
    while (!*reported && look_again(end)) {
    }
}

static void on_leader(zkl_election_observer *observer, const zkl_leader *leader, void *payload)
{
    bool whole = !leader || (strlen(leader->node) > 0 && strlen(leader->value) <= leader->value_size);
    *(atomic_bool *)payload = whole;
}

static int use_observer(struct use *use)
{
    zkl_election_observer *observer = NULL;
    atomic_bool reported = false;
    int code = zkl_election_observe(&observer, use->session, use->path, on_leader, &reported, &use->err);
    if (code == ZKL_OK) {
        await_report(use, &reported);
        zkl_election_observer_free(observer);
    }
    return code;
}

static void on_members(zkl_group_observer *watcher, const char *const *ids, size_t count, void *payload)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += strlen(ids[i]);
    }
    *(atomic_bool *)payload = bytes < count * 256 + 1;
}

static int use_group_watch(struct use *use)
{
    zkl_group_observer *watcher = NULL;
    atomic_bool reported = false;
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
    *(atomic_bool *)payload = piece[0] && token;
}

static void on_revoked(zkl_partition *partition, const char *piece, bool lost, void *payload) {}

static int use_partition(struct use *use)
{
    static const char *const pieces[] = {"a", "b", "c"};
    zkl_partition_options options = ZKL_PARTITION_OPTIONS_INIT;
    zkl_partition *partition = NULL;
    atomic_bool assigned = false;
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
        code = CALL(use, zkl_partition_stop, (partition));
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
    {"lock", true, 0, .make = zkl_lock_new},
    {"lock-recover", true, 0, .make = zkl_lock_new, .recover = true},
    {"lock-revocable", true, 0, .make = zkl_lock_new, .revocable = true},
    {"lock-linger", true, 0, .make = zkl_lock_new, .linger_ms = 1},
    {"lock-delay", true, 0, .make = zkl_lock_new, .delay_ms = 1},
    {"read", true, 0, .make = zkl_read_lock_new},
    {"write", true, 0, .make = zkl_write_lock_new, .verb = downgrade},
    {"multilock", true, 0, .make = make_multilock},
    {"election", true, 0, .make = zkl_election_new, .verb = publish},
    {"observer", false, 0, .run = use_observer},
    {"queue-list", true, 0, .run = use_queue_list},
    {"semaphore", true, 1, .make = make_semaphore},
    {"semaphore-agreed", true, 1, .make = make_agreed},
    {"resize", true, 1, .run = use_resize},
    {"once", true, 2, .run = prepare, .make = zkl_lock_new, .verb = look_and_record},
    {"partition", true, 3, .run = use_partition},
    {"group-watch", false, 4, .run = use_group_watch},
    {"group", true, 4, .run = use_group},
    {"double-barrier", true, 5, .run = use_double_barrier},
    {"barrier", true, 6, .run = use_barrier},
    {"queue-verbs", true, 7, .run = use_queue_verbs},
};
const int recipe_count = sizeof recipes / sizeof *recipes;
