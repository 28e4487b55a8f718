/* lock_verbs.c - what every recipe's lock does when its user asks: acquire, cancel, release, and
 * how it stands. */
#include "lock_internal.h"
#include "call.h"
#include "section.h"

#include "name.h"
#include "path.h"

#include <zklock/multilock.h>

#include <stdio.h>
#include <string.h>

int zkl__lock_check(const zkl_lock *lock, const struct zkl__recipe *recipe, zkl_error *err)
{
    if (!lock) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "lock is NULL; the recipe needed is \"%s\"",
                         recipe->object.noun);
    }
    return lock->recipe == recipe
               ? ZKL_OK
               : zkl__fail(err, ZKL_EINVAL, 0, lock->path,
                           "this function is for the recipe \"%s\", the lock's recipe is \"%s\"",
                           recipe->object.noun, lock->recipe->object.noun);
}

int zkl__lock_enter(zkl_lock *lock, int64_t timeout_ms, zkl_error *err)
{
    if (!lock) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "lock is NULL");
    }
    int rc = zkl__timeout_check(timeout_ms, err);
    return rc == ZKL_OK ? zkl__session_enter(lock->session, err) : rc;
}

/* Who is granted a lock that lingers again and again waits for nothing, and has to hear of those
 * that queue. */
static void hear_of_the_queue(const zkl_lock *lock)
{
    if (lock && lock->options.linger_ms > 0 && !zkl__session_forked(lock->session)) {
        zkl__loop_go_on();
    }
}

int zkl__lock_acquire(zkl_lock *lock, int count, int64_t timeout_ms, zkl_grant *grant,
                      zkl_error *err)
{
    hear_of_the_queue(lock);
    int rc = zkl__lock_enter(lock, timeout_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = lock->session;
    struct zkl__acquisition *acquisition;
    rc = zkl__acquisition_begin(&acquisition, lock, count, err);
    if (rc == ZKL_OK) {
        bool again = acquisition->granted;
        if (!again) {
            zkl__acquisition_start(acquisition, timeout_ms);
        }
        zkl__acquisition_await(acquisition);
        rc = zkl__acquisition_conclude(acquisition, again, grant, err);
        zkl__acquisition_unref(acquisition);
    }
    zkl__session_leave(session);
    return rc;
}

int zkl_lock_acquire(zkl_lock *lock, int64_t timeout_ms, zkl_grant *grant, zkl_error *err)
{
    return zkl__lock_acquire(lock, 1, timeout_ms, grant, err);
}

static int cancel_acquire(zkl_lock *lock)
{
    int rc = zkl__session_enter(lock->session, NULL);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = lock->session;
    rc = ZKL_ENOTWAITING;
    if (lock->acquisition && !lock->acquisition->settled) {
        zkl__acquisition_cancel(lock->acquisition, ZKL_ECANCELED);
        rc = ZKL_OK;
    }
    if (zkl__calls_cancel(session, &lock->object) > 0) {
        rc = ZKL_OK;
    }
    zkl__session_leave(session);
    return rc;
}

int zkl_lock_cancel(zkl_lock *lock)
{
    if (!lock) {
        return ZKL_EINVAL;
    }
    bool runs = zkl__section_cancel(
        lock); /* first: what is pending becomes what runs, not the other way round */
    int rc = cancel_acquire(lock);
    return rc == ZKL_ENOTWAITING && runs ? ZKL_OK : rc;
}

int zkl_lock_set_stop(zkl_lock *lock, zkl_stop *stop, zkl_error *err)
{
    if (!lock) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "lock is NULL");
    }
    int rc = zkl__session_enter(lock->session, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    if (lock->acquisition || lock->listeners) {
        rc = zkl__fail(err, ZKL_EDEADLK, 0, lock->path,
                       "an acquire of this object is pending, or it holds the lock");
    } else {
        lock->options.stop = stop;
    }
    zkl__session_leave(lock->session);
    return rc;
}

int zkl__lock_not_granted(const zkl_lock *lock, zkl_error *err)
{
    return zkl__fail(err, ZKL_ENOTHELD, 0, lock->path,
                     lock->acquisition ? "still waiting; cancel it" : "never granted, or released");
}

int zkl_lock_release(zkl_lock *lock, zkl_error *err)
{
    return zkl__lock_release_grant(lock, NULL, INT64_MAX, err);
}

static bool is_of(const struct zkl__acquisition *acquisition, const zkl_grant *grant)
{
    return acquisition->token == grant->token && acquisition->serial == grant->serial;
}

int zkl__lock_release_grant(zkl_lock *lock, const zkl_grant *grant, int64_t deadline,
                            zkl_error *err)
{
    if (!lock) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "lock is NULL");
    }
    int rc = zkl__session_enter(lock->session, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = lock->session;
    struct zkl__acquisition *acquisition = lock->acquisition;
    if (!acquisition || !acquisition->granted || (grant && !is_of(acquisition, grant))) {
        rc = zkl__lock_not_granted(lock, err);
    } else {
        if (!zkl__acquisition_holds(acquisition)) {
            rc = zkl__fail(err, ZKL_ELOST, 0, lock->path, "lost while it was held: %s",
                           acquisition->why);
        }
        if (--acquisition->depth == 0) {
            zkl__acquisition_hand_back(lock, deadline);
        }
    }
    zkl__session_leave(session);
    return rc;
}

bool zkl__lock_give_up(struct zkl__object *object, int code)
{
    zkl_lock *lock = (zkl_lock *)object;
    if (!lock->acquisition) {
        return false;
    }
    if (lock->acquisition->settled) {
        lock->acquisition->code = code; /* for whom the grant has not reached yet */
        lock->acquisition->why = "given up before the grant could be used";
        zkl__acquisition_drop(lock);
    } else {
        zkl__acquisition_cancel(lock->acquisition, code);
    }
    return true;
}

/* --- what is so now -------------------------------------------------------------------------- */

int64_t zkl__lock_max_hold(const zkl_lock *lock)
{
    return lock->options.max_hold_ms * ZKL__MS;
}

struct zkl__standing zkl__lock_look(const zkl_lock *lock)
{
    struct zkl__standing now = {.state = ZKL_STATE_IDLE};
    const struct zkl__acquisition *acquisition = lock->acquisition;
    if (!acquisition) {
        return now;
    }
    if (acquisition->contender) {
        zkl__name_copy(now.node, zkl__contender_node(acquisition->contender));
    }
    if (!acquisition->granted || !zkl__acquisition_holds(acquisition)) {
        now.state = acquisition->granted ? ZKL_STATE_LOST : ZKL_STATE_WAITING;
        return now;
    }
    int64_t until = zkl__core_lease_until(zkl__session_core(lock->session));
    if (lock->options.max_hold_ms > 0 &&
        acquisition->settled_at + zkl__lock_max_hold(lock) < until) {
        until = acquisition->settled_at + zkl__lock_max_hold(lock);
    }
    now.state = acquisition->jeopardy ? ZKL_STATE_JEOPARDY : ZKL_STATE_HELD;
    now.token = acquisition->token;
    now.serial = acquisition->serial;
    now.until = until;
    return now;
}

struct zkl__standing zkl__lock_standing(const zkl_lock *lock)
{
    struct zkl__standing now = {.state = ZKL_STATE_IDLE};
    if (lock && zkl__session_enter(lock->session, NULL) == ZKL_OK) {
        zkl_session *session = lock->session;
        now = zkl__lock_look(lock);
        zkl__session_leave(session);
    }
    return now;
}

size_t zkl__lock_nodes(const zkl_lock *lock, struct zkl__held_node *nodes, size_t room)
{
    const struct zkl__acquisition *acquisition = lock->acquisition;
    if (acquisition && acquisition->semaphore) {
        return lock->recipe->semaphore->nodes(lock, acquisition->semaphore, nodes, room);
    }
    if (!acquisition || (!acquisition->contender && !acquisition->joint)) {
        return 0;
    }
    for (size_t i = 0; i < lock->path_count && i < room; i++) {
        nodes[i].dir = lock->paths[i];
        nodes[i].name = acquisition->joint ? zkl__joint_node(acquisition->joint, i)
                                           : zkl__contender_node(acquisition->contender);
    }
    return lock->path_count;
}

bool zkl_lock_is_held(const zkl_lock *lock)
{
    return zkl__state_holds(zkl__lock_standing(lock).state);
}

zkl_state zkl_lock_state(const zkl_lock *lock)
{
    return zkl__lock_standing(lock).state;
}

int64_t zkl_lock_remaining_ms(const zkl_lock *lock)
{
    int64_t until = zkl__lock_standing(lock).until;
    return until > 0 ? zkl__session_left(lock->session, until) / ZKL__MS : 0;
}

int64_t zkl_lock_token(const zkl_lock *lock)
{
    return zkl__lock_standing(lock).token;
}

zkl_recipe zkl_lock_recipe(const zkl_lock *lock)
{
    return lock ? lock->recipe->id : ZKL_RECIPE_LOCK;
}

const char *zkl_lock_path(const zkl_lock *lock)
{
    return lock ? lock->path : "";
}

/* Below its lock's path: a semaphore's znodes have a directory between. */
static void write_node(const char *path, const struct zkl__held_node *node,
                       char out[ZKL__NAME_MAX + 8])
{
    size_t above = strlen(path), below = strlen(node->dir);
    const char *folder = below > above ? node->dir + above + 1 : "";
    snprintf(out, ZKL__NAME_MAX + 8, "%s%s%s", node->name[0] ? folder : "",
             node->name[0] && *folder ? "/" : "", node->name);
}

size_t zkl_lock_node(const zkl_lock *lock, char *name, size_t size)
{
    struct zkl__held_node first;
    char node[ZKL__NAME_MAX + 8] = "";
    if (lock && zkl__session_enter(lock->session, NULL) == ZKL_OK) {
        if (zkl__lock_nodes(lock, &first, 1) > 0) {
            write_node(lock->path, &first, node);
        }
        zkl__session_leave(lock->session);
    }
    size_t length = strlen(node);
    if (size > 0) {
        size_t fits = length < size ? length : size - 1;
        memcpy(name, node, fits);
        name[fits] = '\0';
    }
    return length;
}

const char *zkl_state_name(zkl_state state)
{
    static const char *const names[] = {"idle", "waiting", "held", "jeopardy", "lost"};
    return (unsigned)state < sizeof names / sizeof *names ? names[state] : "?";
}

/* --- all of a session's ---------------------------------------------------------------------- */

int zkl__lock_describe(const struct zkl__object *object, zkl__visit_fn visit, void *payload)
{
    const zkl_lock *lock = (const zkl_lock *)object;
    struct zkl__standing now = zkl__lock_look(lock);
    size_t count = now.state == ZKL_STATE_IDLE ? 0 : lock->path_count;
    for (size_t i = 0; i < count; i++) {
        visit(lock->paths[i], now.state, now.token, payload);
    }
    return (int)count;
}

int zkl_session_locks(zkl_session *session, zkl_session_locks_fn visit, void *payload)
{
    int count = session && visit ? zkl__session_enter(session, NULL) : ZKL_EINVAL;
    if (count != ZKL_OK) {
        return count;
    }
    for (struct zkl__object *object = zkl__session_objects(session); object;
         object = object->next) {
        count += object->ops->describe(object, visit, payload);
    }
    zkl__session_leave(session);
    return count;
}
