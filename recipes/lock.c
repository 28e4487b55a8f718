/* lock.c - the handle of every recipe: its options, its memory, the end of its waits, and its
 * current state. And the recipes that are no more than a rule: the plain lock, which the first
 * contender in the queue holds, the read/write lock, and several locks as one. */
#include "handle.h"
#include "name.h"
#include "options.h"

#include <zklock/multilock.h>
#include <zklock/rwlock.h>

#include <stdio.h>
#include <string.h>

/* === the lock ================================================================================= */

/* --- options --------------------------------------------------------------------------------- */

ZKL__SIZED(sized, zkl_lock_options, ZKL_LOCK_OPTIONS_INIT, payload, delay_after_crash_ms);

#define R(recipe) (1u << ZKL_RECIPE_##recipe)

/* Each option with the most that it may be, and the recipes that have it. */
static int check_options(const struct zkl__recipe *recipe, const zkl_lock_options *o,
                         zkl_error *err)
{
    const struct {
        const char *name;
        int64_t value, most;
        unsigned recipes;
    } options[] = {
        {"recursive", o->recursive, 1, ~R(SEMAPHORE)},
        {"recover", o->recover, 1, R(LOCK) | R(ELECTION)},
        {"revoke_fn", o->revoke_fn != NULL, 1, ~R(SEMAPHORE)},
        {"on_expiry", (int64_t)o->on_expiry, ZKL_ON_EXPIRY_FAIL, ~0U},
        {"max_ahead", o->max_ahead, INT32_MAX, ~(R(MULTILOCK) | R(SEMAPHORE))},
        {"position_fn", o->position_fn != NULL, 1, ~(R(MULTILOCK) | R(SEMAPHORE))},
        {"max_hold_ms", o->max_hold_ms, 10000 * ZKL__DAY_MS, ~0U},
        {"release_timeout_ms", o->release_timeout_ms, ZKL__DAY_MS, ~0U},
        {"linger_ms", o->linger_ms, ZKL__DAY_MS, R(LOCK) | R(WRITE_LOCK)},
        {"hold_at_least_ms", o->hold_at_least_ms, ZKL__DAY_MS, R(LOCK)},
        {"delay_after_crash_ms", o->delay_after_crash_ms, ZKL__DAY_MS, R(LOCK) | R(ELECTION)},
    };
    int rc = o->metadata ? zkl__text_check("metadata", o->metadata, err) : ZKL_OK;
    rc = rc == ZKL_OK ? zkl__acl_check(o->acl, err) : rc;
    for (size_t i = 0; rc == ZKL_OK && i < sizeof options / sizeof *options; i++) {
        if (options[i].value != 0 && !(options[i].recipes & 1u << recipe->id)) {
            return zkl__fail_at(err, ZKL_EINVAL, NULL,
                                "the option %s does not apply to the recipe \"%s\"",
                                options[i].name, recipe->noun);
        }
        rc = zkl__range_check(options[i].name, options[i].value, 0, options[i].most, err);
    }
    if (rc != ZKL_OK) {
        return rc;
    }
    if (o->linger_ms != 0 && o->revoke_fn) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL,
                            "the options linger_ms and revoke_fn exclude each other: a lock that "
                            "lingers is not deleted at its release");
    }
    /* A lingering lock is given up as soon as another session queues. */
    if (o->hold_at_least_ms != 0 && o->linger_ms != 0) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL,
                            "the options hold_at_least_ms and linger_ms exclude each other");
    }
    if (o->max_hold_ms > 0 && o->hold_at_least_ms > o->max_hold_ms) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL,
                            "hold_at_least_ms is %lld, more than max_hold_ms, which is %lld",
                            (long long)o->hold_at_least_ms, (long long)o->max_hold_ms);
    }
    return ZKL_OK;
}

/* --- memory ---------------------------------------------------------------------------------- */

static void destroy(struct zkl__object *object)
{
    const zkl_lock *lock = (const zkl_lock *)object;
    const zkl_heap *heap = &object->session->heap;
    zkl__free(heap, lock->options.metadata);
    zkl__free(heap, lock->options.acl);
    zkl__free(heap, lock->paths);
}

static void stop(struct zkl__object *object)
{
    zkl__lock_give_up((zkl_lock *)object, ZKL_ECLOSED);
}

static bool is_waiting(const struct zkl__object *object)
{
    return zkl__lock_status_locked((const zkl_lock *)object).state == ZKL_STATE_WAITING;
}

static const struct zkl__object_ops lock_ops = {
    .stop = stop, .is_waiting = is_waiting, .destroy = destroy};

int zkl__lock_make(zkl_lock **out, const struct zkl__recipe *recipe, zkl_session *session,
                   const char *const *paths, size_t count, const zkl_lock_options *options,
                   zkl_error *err)
{
    zkl_lock_options own;
    ZKL__CLEAR(out);
    if (!out || !session) {
        return zkl__fail_null(err, out ? "session" : "out");
    }
    int rc = zkl__sized_take(&own, options, &sized, err);
    size_t size = count * sizeof(char *); /* the paths are one block */
    for (size_t i = 0; rc == ZKL_OK && i < count; i++) {
        rc = zkl__path_check(paths[i], err);
        for (size_t j = 0; rc == ZKL_OK && j < i; j++) {
            if (strcmp(paths[i], paths[j]) == 0) { /* a contender would wait for itself */
                rc = zkl__fail_at(err, ZKL_EINVAL, paths[i], "paths: %.200s is there twice",
                                  paths[i]);
            }
        }
        size += rc == ZKL_OK ? strlen(paths[i]) + 1 : 0;
    }
    rc = rc == ZKL_OK ? check_options(recipe, &own, err) : rc;
    rc = rc == ZKL_OK ? zkl__session_enter(session, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    const zkl_heap *heap = &session->heap;
    zkl_lock *lock = NULL;
    bool made = false;
    if (own.state_fn || own.revoke_fn || own.position_fn) {
        rc = zkl__session_want_callbacks(session, paths[0], err);
    }
    if (rc == ZKL_OK) {
        lock = zkl__zalloc(heap, recipe->size);
    }
    if (lock) {
        lock->object = (struct zkl__object){.ops = &lock_ops,
                                            .session = session,
                                            .stop = own.stop,
                                            .refs = 1,
                                            .notice = {.run = zkl__lock_run_notice, .owner = lock}};
        zkl__session_retain(session);
        zkl__list_prepend(&session->objects, &lock->object.link);
        lock->session = session;
        lock->recipe = recipe;
        lock->paths = zkl__alloc(heap, size);
        char *end = lock->paths ? (char *)(lock->paths + count) : NULL;
        for (; end && lock->path_count < count; lock->path_count++) {
            lock->paths[lock->path_count] = zkl__text_put(&end, paths[lock->path_count]);
        }
        lock->options = own;
        lock->options.metadata = own.metadata ? zkl__copy_text(heap, own.metadata) : NULL;
        lock->options.acl = own.acl ? zkl__acl_copy(heap, own.acl) : NULL;
        made = lock->paths && !own.metadata == !lock->options.metadata &&
               !own.acl == !lock->options.acl &&
               (own.linger_ms == 0 || zkl__peers_enroll(session->core, paths[0], NULL));
    }
    if (made) {
        lock->path = lock->paths[0];
        *out = lock;
    } else if (rc == ZKL_OK) {
        rc = zkl__fail_at(err, ZKL_ENOMEM, paths[0], "no memory");
    }
    if (lock && !made) {
        zkl__object_unref(&lock->object);
    }
    zkl__session_leave(session);
    return rc;
}

void zkl_lock_free(zkl_lock *lock)
{
    if (!lock || !zkl__session_enter_if_ours(lock->session)) {
        return; /* in a child of fork the parent's memory stays as it is */
    }
    zkl_session *session = lock->session;
    /* First nothing new begins, then what is under way ends, then its callbacks run, and only then
     * the memory goes: each step may call the user, who may use this lock until its last callback.
     */
    lock->object.freed = true;
    zkl__lock_give_up(lock, ZKL_ECANCELED);
    ZKL__EACH (zkl_cancel, cancel, &lock->sections, link) {
        zkl__stops_end(&cancel->stops); /* the lock's token need not live longer than the lock */
    }
    if (lock->options.linger_ms > 0) {
        zkl__session_event(session,
                           (struct zkl__event){.kind = ZKL__EV_LINGER_STOP, .path = lock->path});
    }
    zkl__campaign_finish(lock);
    /* The completions, but for one that this very thread runs. When one of them forks, no other
     * runs in the child. */
    struct zkl__link *at = lock->completions.first;
    while (at && !zkl__session_forked(session)) {
        struct zkl__completion *completion = (struct zkl__completion *)at;
        if (zkl__callbacks_inside(&session->callbacks, &completion->callback)) {
            at = at->next;
        } else {
            zkl__callbacks_finish(&session->callbacks, &completion->callback);
            at = lock->completions.first;
        }
    }
    zkl__calls_finish(&lock->object);
    if (!zkl__session_forked(session)) { /* else a callback forked, and this is the child */
        zkl__callbacks_unpost(&session->callbacks, &lock->object.notice);
        zkl__object_unref(&lock->object);
    }
    zkl__session_leave(session);
}

/* === checks, and the end of waits ============================================================= */

int zkl__lock_check(const zkl_lock *lock, const struct zkl__recipe *recipe, zkl_error *err)
{
    if (!lock) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL, "lock is NULL; the recipe needed is \"%s\"",
                            recipe->noun);
    }
    return lock->recipe == recipe
               ? ZKL_OK
               : zkl__fail_at(err, ZKL_EINVAL, lock->path,
                              "this function is for the recipe \"%s\", the lock's recipe is \"%s\"",
                              recipe->noun, lock->recipe->noun);
}

int zkl__lock_check_held(const zkl_lock *lock, struct zkl__lock_status *held, const char *before,
                         zkl_error *err)
{
    *held = zkl__lock_status_locked(lock);
    if (held->state == ZKL_STATE_LOST) {
        return zkl__fail_at(err, ZKL_ELOST, lock->path, "%sthe lock was lost", before);
    }
    return held->token != 0
               ? ZKL_OK
               : zkl__fail_at(err, ZKL_ENOTHELD, lock->path, "%sthe lock is not held", before);
}

int zkl__lock_enter(zkl_lock *lock, int64_t timeout_ms, zkl_error *err)
{
    if (!lock) {
        return zkl__fail_null(err, "lock");
    }
    int rc = zkl__timeout_check(timeout_ms, err);
    return rc == ZKL_OK ? zkl__session_enter(lock->session, err) : rc;
}

int zkl_lock_cancel(zkl_lock *lock)
{
    if (!lock) {
        return ZKL_EINVAL;
    }
    zkl_session *session = lock->session;
    int rc = zkl__session_enter(session, NULL);
    if (rc != ZKL_OK) {
        return rc;
    }
    bool ends = zkl__section_cancel(lock);
    if (lock->acquisition && !lock->acquisition->settled) {
        zkl__acquisition_cancel(lock->acquisition, ZKL_ECANCELED);
        ends = true;
    } else if (!lock->acquisition) { /* a campaign may be between two acquires */
        ends = zkl__campaign_end(lock, ZKL_ECANCELED, "cancelled") || ends;
    }
    ends = zkl__calls_end(&lock->object, false) || ends;
    zkl__session_leave(session);
    return ends ? ZKL_OK : ZKL_ENOTWAITING;
}

int zkl_lock_set_stop(zkl_lock *lock, zkl_stop *stop, zkl_error *err)
{
    int rc = zkl__lock_enter(lock, 0, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    if (lock->acquisition || lock->sections.first || lock->campaign) {
        rc = zkl__fail_at(
            err, ZKL_EDEADLK, lock->path,
            "this object stands for election, an acquire of it is pending, or it holds "
            "the lock");
    } else {
        lock->object.stop = stop;
    }
    zkl__session_leave(lock->session);
    return rc;
}

/* --- queries of the current state ------------------------------------------------------------ */

struct zkl__lock_status zkl__lock_status_locked(const zkl_lock *lock)
{
    struct zkl__lock_status now = {.state = ZKL_STATE_IDLE};
    const struct zkl__acquisition *acquisition = lock->acquisition;
    if (!acquisition) {
        return now;
    }
    if (acquisition->machine && !lock->recipe->several && !lock->recipe->make) {
        zkl__name_copy(now.node,
                       zkl__contender_node((struct zkl__contender *)acquisition->machine));
    }
    if (!acquisition->granted || !zkl__acquisition_holds(acquisition)) {
        now.state = acquisition->granted ? ZKL_STATE_LOST : ZKL_STATE_WAITING;
        return now;
    }
    int64_t lease = zkl__core_facts(lock->session->core).lease_until,
            max_hold_ms = lock->options.max_hold_ms,
            most = acquisition->settled_at + max_hold_ms * ZKL__MS;
    now.state = acquisition->jeopardy ? ZKL_STATE_JEOPARDY : ZKL_STATE_HELD;
    now.token = acquisition->token;
    now.serial = acquisition->serial;
    now.until = max_hold_ms > 0 && most < lease ? most : lease;
    return now;
}

struct zkl__lock_status zkl__lock_status(const zkl_lock *lock)
{
    struct zkl__lock_status now = {.state = ZKL_STATE_IDLE};
    if (lock && zkl__session_enter(lock->session, NULL) == ZKL_OK) {
        now = zkl__lock_status_locked(lock);
        zkl__session_leave(lock->session);
    }
    return now;
}

size_t zkl__lock_nodes(const zkl_lock *lock, struct zkl__held_node *nodes, size_t room)
{
    const struct zkl__acquisition *acquisition = lock->acquisition;
    const struct zkl__machine *machine = acquisition ? acquisition->machine : NULL;
    if (!machine) {
        return 0;
    }
    if (lock->recipe->nodes) {
        return lock->recipe->nodes(lock, (const struct zkl__semaphore *)machine, nodes, room);
    }
    for (size_t i = 0; i < lock->path_count && i < room; i++) {
        nodes[i].dir = lock->paths[i];
        nodes[i].name = lock->recipe->several
                            ? zkl__multi_node((const struct zkl__multi *)machine, i)
                            : zkl__contender_node((const struct zkl__contender *)machine);
    }
    return lock->path_count;
}

bool zkl_lock_is_held(const zkl_lock *lock)
{
    return zkl__lock_status(lock).token != 0;
}

zkl_state zkl_lock_state(const zkl_lock *lock)
{
    return zkl__lock_status(lock).state;
}

int64_t zkl_lock_remaining_ms(const zkl_lock *lock)
{
    return zkl__session_left(zkl__lock_status(lock).until) / ZKL__MS;
}

int64_t zkl_lock_token(const zkl_lock *lock)
{
    return zkl__lock_status(lock).token;
}

zkl_recipe zkl_lock_recipe(const zkl_lock *lock)
{
    return lock ? lock->recipe->id : ZKL_RECIPE_LOCK;
}

int zkl_path_check(const char *path, zkl_error *err)
{
    return zkl__path_check(path, err);
}

const char *zkl_lock_path(const zkl_lock *lock)
{
    return lock ? lock->path : "";
}

/* The name relative to the lock's path: a semaphore's znodes have a directory in between. */
size_t zkl_lock_node(const zkl_lock *lock, char *name, size_t size)
{
    struct zkl__held_node first;
    char node[ZKL__NAME_MAX + 8] = "";
    if (lock && zkl__session_enter(lock->session, NULL) == ZKL_OK) {
        if (zkl__lock_nodes(lock, &first, 1) > 0 && first.name[0]) {
            const char *directory = first.dir + strlen(lock->path); /* "", or "/locks" */
            snprintf(node, sizeof node, "%s%s%s", *directory ? directory + 1 : "",
                     *directory ? "/" : "", first.name);
        }
        zkl__session_leave(lock->session);
    }
    return (size_t)snprintf(name, size, "%s", node);
}

const char *zkl_state_name(zkl_state state)
{
    static const char *const names[] = {"idle", "waiting", "held", "jeopardy", "lost"};
    return (unsigned)state < sizeof names / sizeof *names ? names[state] : "?";
}

/* --- all locks of a session ------------------------------------------------------------------ */

int zkl_session_locks(zkl_session *session, zkl_session_locks_fn visit, void *payload)
{
    int count = session && visit ? zkl__session_enter(session, NULL) : ZKL_EINVAL;
    if (count != ZKL_OK) {
        return count;
    }
    ZKL__EACH (struct zkl__object, object, &session->objects, link) {
        if (object->ops != &lock_ops) {
            continue; /* no lock */
        }
        const zkl_lock *lock = (const zkl_lock *)object;
        struct zkl__lock_status now = zkl__lock_status_locked(lock);
        for (size_t i = 0; now.state != ZKL_STATE_IDLE && i < lock->path_count; i++) {
            visit(lock->paths[i], now.state, now.token, payload);
            count++;
        }
    }
    zkl__session_leave(session);
    return count;
}

/* === the recipes ============================================================================== */

/* --- the plain lock -------------------------------------------------------------------------- */

const struct zkl__recipe zkl__plain_lock = {
    .noun = "lock",
    .id = ZKL_RECIPE_LOCK,
    .size = sizeof(zkl_lock),
    .rule = &zkl__rule_mutex,
};

int zkl_lock_new(zkl_lock **out, zkl_session *session, const char *path,
                 const zkl_lock_options *options, zkl_error *err)
{
    return zkl__lock_make(out, &zkl__plain_lock, session, &path, 1, options, err);
}

/* --- several locks, all or none: one contender in several queues ----------------------------- */

static const struct zkl__recipe multilock = {
    .noun = "multi-lock",
    .id = ZKL_RECIPE_MULTILOCK,
    .size = sizeof(zkl_lock),
    .rule = &zkl__rule_mutex,
    .several = true,
};

int zkl_multilock_new(zkl_lock **out, zkl_session *session, const char *const *paths, size_t count,
                      const zkl_lock_options *options, zkl_error *err)
{
    ZKL__CLEAR(out);
    if (!paths || count == 0) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL, "paths: at least one is needed");
    }
    if (count > ZKL_MULTILOCK_MAX) {
        return zkl__fail_at(err, ZKL_ELIMIT, NULL, "paths: %zu are more than %d", count,
                            ZKL_MULTILOCK_MAX);
    }
    return zkl__lock_make(out, &multilock, session, paths, count, options, err);
}

const char *zkl_multilock_path(const zkl_lock *lock, size_t index)
{
    bool has = lock && lock->recipe == &multilock && index < lock->path_count;
    return has ? lock->paths[index] : NULL;
}

/* --- the read/write lock: a reader waits for all but readers, a writer for everything -------- */

static const struct zkl__rule writer = {"__WRIT__", ZKL__KIND_ANY};
static const struct zkl__rule reader = {"__READ__", ZKL__KIND_ANY & ~ZKL__KIND_READERS};

static const struct zkl__recipe read_lock = {
    .noun = "read lock",
    .id = ZKL_RECIPE_READ_LOCK,
    .size = sizeof(zkl_lock),
    .rule = &reader,
};

static const struct zkl__recipe write_lock = {
    .noun = "write lock",
    .id = ZKL_RECIPE_WRITE_LOCK,
    .size = sizeof(zkl_lock),
    .rule = &writer,
};

int zkl_read_lock_new(zkl_lock **out, zkl_session *session, const char *path,
                      const zkl_lock_options *options, zkl_error *err)
{
    return zkl__lock_make(out, &read_lock, session, &path, 1, options, err);
}

int zkl_write_lock_new(zkl_lock **out, zkl_session *session, const char *path,
                       const zkl_lock_options *options, zkl_error *err)
{
    return zkl__lock_make(out, &write_lock, session, &path, 1, options, err);
}

/* --- from a writer to a reader --------------------------------------------------------------- */

static int downgrade(zkl_lock *lock, zkl_error *err)
{
    struct zkl__acquisition *acquisition = lock->acquisition;
    if (!acquisition || !acquisition->granted) {
        return zkl__lock_not_granted(lock, err);
    }
    if (!zkl__acquisition_holds(acquisition)) {
        return zkl__fail_at(err, ZKL_ELOST, lock->path, "lost while it was held: %s",
                            acquisition->why);
    }
    if (acquisition->rule != &reader && acquisition->depth > 1) {
        return zkl__fail_at(err, ZKL_EDEADLK, lock->path,
                            "acquired %u times: all but one must be released first",
                            acquisition->depth);
    }
    acquisition->refs++;
    if (acquisition->rule != &reader) {
        acquisition->rule = &reader;
        acquisition->downgraded = false;
        zkl__acquisition_event(acquisition,
                               (struct zkl__event){.kind = ZKL__EV_DOWNGRADE, .rule = &reader});
    }
    /* Until the server has released the write side or refused that, the lock is lost, or the time
     * is up. */
    int64_t deadline = zkl__session_deadline(lock->options.release_timeout_ms);
    while (!acquisition->downgraded && acquisition->rule == &reader &&
           zkl__acquisition_holds(acquisition) &&
           zkl__session_wait(lock->session, &acquisition->changed, deadline)) {
    }
    int rc = ZKL_OK;
    if (!zkl__acquisition_holds(acquisition)) {
        rc = zkl__fail_at(err, ZKL_ELOST, lock->path, "lost or released meanwhile: %s",
                          acquisition->why);
    } else if (acquisition->rule != &reader) {
        rc = zkl__fail_at(
            err, ZKL_ECONFLICT, lock->path,
            "still a write lock: another znode has the name that the reader's would get");
    } else if (!acquisition->downgraded) {
        rc = zkl__fail_at(err, ZKL_ETIMEOUT, lock->path,
                          "the servers have not answered yet; it goes on");
    }
    zkl__acquisition_unref(acquisition);
    return rc;
}

int zkl_write_lock_downgrade(zkl_lock *lock, zkl_error *err)
{
    int rc = zkl__lock_check(lock, &write_lock, err);
    if (rc == ZKL_OK && lock->options.revoke_fn) {
        rc = zkl__fail_at(err, ZKL_EINVAL, lock->path,
                          "a write lock with the option revoke_fn cannot be downgraded");
    }
    rc = rc == ZKL_OK ? zkl__session_enter(lock->session, err) : rc;
    if (rc == ZKL_OK) {
        zkl_session *session = lock->session;
        rc = downgrade(lock, err);
        zkl__session_leave(session);
    }
    return rc;
}
