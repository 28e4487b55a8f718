/* semaphore.c - permits, in Curator's layout (InterProcessSemaphoreV2): a queue in PATH/locks,
 * whose head alone creates the nodes of its permits in PATH/leases, and waits there until no more
 * than the limit exist, its own included. An acquire is a machine of the core
 * (protocol/semaphore.c). */

#include "handle.h"
#include "name.h"
#include "collections.h"

#include <zklock/semaphore.h>

#include <stdio.h>
#include <string.h>

/* === the limit ================================================================================ */

/* Changes the limit of a semaphore that is in use: reads the data of the path, and writes the limit
 * at the version that was read. Waiters and later contenders read the new
 * limit (protocol/semaphore.c).
 *
 * When the response to a write is lost, the next read decides by the version. Our write can only
 * have made the version that follows the one we had read:
 *  - The version is the same: the write was not carried out, or this server lags. Write again.
 *  - The version is the next one: the write was ours if the limit is ours, else another client's.
 *    In the second case write again.
 *  - The version is a later one: others have written since, and one of the writes may have been
 *    ours. They may have seen our limit, so writing again would undo a later decision. Done. */

struct resize {
    struct zkl__call call; /* first */
    int limit;
    char text[16];   /* the limit, as it is stored */
    int32_t version; /* of the data that was read before the last write */
    bool unknown;    /* a write at that version was sent, and its reply was lost */
    int64_t pause;   /* the last one */
};

static int run(struct zkl__call *call)
{
    struct resize *resize = (struct resize *)call;
    const struct zkl__answer *answer = &call->answer;
    /* After a read. */
    int64_t later = (int64_t)answer->stat.version - resize->version;
    int stored = zkl__limit_parse(answer->data, answer->size); /* 0: the data is none */
    CALL_BEGIN(call);
    snprintf(resize->text, sizeof resize->text, "%d", resize->limit);
    call->doubt = "it may be done, or not: ";
    call->unsent = "";
    for (;;) {
        AWAIT(call, {.kind = ZKL__OP_GET});
        if (answer->rc == ZKL__RC_NONODE) {
            FAIL_REPLY(call, ZKL_ENOENT, "there is no semaphore: the path does not exist");
        }
        CHECK_REPLY(call, "the limit of the path cannot be read");
        /* After a write whose reply was lost. */
        if (resize->unknown && (later > 1 || (later == 1 && stored == resize->limit))) {
            return ZKL_OK;
        }
        if (stored == 0) {
            FAIL(call, ZKL_ECONFLICT,
                 answer->size == 0 ? "nobody has set a limit: the data of the path is empty"
                                   : "the data of the path is no limit: is it a lock with "
                                     "recovery?");
        }
        resize->unknown = resize->unknown && answer->stat.version == resize->version;
        resize->version = answer->stat.version;
        call->unsent = resize->unknown ? NULL : "";
        AWAIT_ONCE(call, NULL,
                   {.kind = ZKL__OP_SET,
                    .data = resize->text,
                    .size = strlen(resize->text),
                    .version = resize->version});
        switch (answer->rc) {
        case ZKL__RC_OK:
            return ZKL_OK;
        case ZKL__RC_UNKNOWN: /* the next read shows what became of it */
            resize->unknown = true;
            call->unsent = NULL;
            break;
        case ZKL__RC_NOTAPPLIED:
            zkl__call_pause(call, &resize->pause);
            break;
        case ZKL__RC_UNSENT:
        case ZKL__RC_BADVERSION: /* others have written since the read */
        case ZKL__RC_NONODE:
            break;
        default:
            REFUSED(call, "the limit cannot be written to the path");
        }
    }
    CALL_END(call);
}

int zkl_semaphore_resize_async(zkl_session *session, const char *path, int limit,
                               int64_t timeout_ms, zkl_done_fn done, void *payload, zkl_error *err)
{
    struct resize given = {.call = {.run = run}, .limit = limit};
    int rc = zkl__range_check("limit", limit, 1, ZKL_PERMITS_MAX, err);
    return rc == ZKL_OK
               ? zkl__call_go(&given, sizeof given, session, path, timeout_ms, done, payload, err)
               : rc;
}

int zkl_semaphore_resize(zkl_session *session, const char *path, int limit, int64_t timeout_ms,
                         zkl_error *err)
{
    return zkl_semaphore_resize_async(session, path, limit, timeout_ms, zkl__caller_waits, NULL,
                                      err);
}

/* === the semaphore ============================================================================ */

enum { PATH, LOCKS, LEASES }; /* its paths: an acquire is of the first one */

struct semaphore {
    zkl_lock lock; /* first */
    int limit;
    char conflict[ZKL__CONFLICT_MAX]; /* text of the last ZKL_ECONFLICT */
};

static struct zkl__semaphore *make(zkl_lock *lock, int count,
                                   const struct zkl__contender_config *config)
{
    struct semaphore *it = (struct semaphore *)lock;
    const struct zkl__semaphore_config whole = {.path = lock->path,
                                                .locks = lock->paths[LOCKS],
                                                .leases = lock->paths[LEASES],
                                                .conflict = it->conflict,
                                                .limit = it->limit,
                                                .count = count,
                                                .contender = *config};
    return zkl__semaphore_new(lock->session->core, &whole);
}

/* The node of the first permit comes first. */
static size_t nodes(const zkl_lock *lock, const struct zkl__semaphore *semaphore,
                    struct zkl__held_node *nodes, size_t room)
{
    int64_t first = zkl__semaphore_token(semaphore), token;
    size_t count = 0, others = 0;
    const char *queued = zkl__semaphore_queue_node(semaphore);
    if (queued[0]) {
        nodes[0] = (struct zkl__held_node){lock->paths[LOCKS], queued};
        return 1;
    }
    for (int i = 0; i < zkl__semaphore_count(semaphore); i++) {
        const char *name = zkl__semaphore_permit(semaphore, i, &token);
        if (name) {
            size_t at = token == first ? 0 : ++others;
            if (at < room) {
                nodes[at] = (struct zkl__held_node){lock->paths[LEASES], name};
            }
            count++;
        }
    }
    return count;
}

static const struct zkl__recipe semaphore = {
    .noun = "semaphore",
    .id = ZKL_RECIPE_SEMAPHORE,
    .size = sizeof(struct semaphore),
    .rule = &zkl__rule_mutex,
    .make = make,
    .nodes = nodes,
};

int zkl_semaphore_new(zkl_lock **out, zkl_session *session, const char *path, int limit,
                      const zkl_lock_options *options, zkl_error *err)
{
    char locks[ZKL_PATH_MAX + 1], leases[ZKL_PATH_MAX + 1];
    const char *const paths[] = {[PATH] = path, [LOCKS] = locks, [LEASES] = leases};
    ZKL__CLEAR(out);
    int rc = zkl__range_check("limit", limit, 0, ZKL_PERMITS_MAX, err);
    rc = rc == ZKL_OK ? zkl__path_check(path, err) : rc;
    if (rc == ZKL_OK && zkl__path_join(leases, sizeof leases, path, "leases") == 0) {
        rc = zkl__fail_at(err, ZKL_EINVAL, NULL, "the path is too long for \"/leases\" behind it");
    }
    if (rc == ZKL_OK) {
        zkl__path_join(locks, sizeof locks, path, "locks");
        rc = zkl__lock_make(out, &semaphore, session, paths, 3, options, err);
    }
    if (rc == ZKL_OK) {
        ((struct semaphore *)*out)->limit = limit;
        (*out)->path_count = 1;
    }
    return rc;
}

static int check_count(const zkl_lock *lock, int count, zkl_error *err)
{
    int rc = zkl__lock_check(lock, &semaphore, err);
    int limit = rc == ZKL_OK ? ((const struct semaphore *)lock)->limit : 0;
    return rc == ZKL_OK
               ? zkl__range_check("count", count, 1, limit > 0 ? limit : ZKL_PERMITS_MAX, err)
               : rc;
}

int zkl_semaphore_acquire(zkl_lock *lock, int count, int64_t timeout_ms, zkl_grant *grant,
                          zkl_error *err)
{
    int rc = check_count(lock, count, err);
    return rc == ZKL_OK ? zkl__lock_acquire(lock, count, timeout_ms, grant, err) : rc;
}

int zkl_semaphore_acquire_async(zkl_lock *lock, int count, int64_t timeout_ms, zkl_acquired_fn done,
                                void *payload, zkl_error *err)
{
    int rc = check_count(lock, count, err);
    return rc == ZKL_OK ? zkl__lock_acquire_async(lock, count, timeout_ms, done, payload, err) : rc;
}

/* --- release of some permits ----------------------------------------------------------------- */

int zkl_semaphore_release(zkl_lock *lock, int count, zkl_error *err)
{
    int rc = zkl__lock_check(lock, &semaphore, err);
    if (rc != ZKL_OK || count == 0) {
        return rc == ZKL_OK ? zkl_lock_release(lock, err) : rc;
    }
    zkl_session *session = lock->session;
    rc = zkl__session_enter(session, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    const struct zkl__acquisition *granted = lock->acquisition;
    granted = granted && granted->granted ? granted : NULL;
    struct zkl__machine *it = granted ? granted->machine : NULL;
    zkl_state state = zkl__lock_status_locked(lock).state;
    int held = it ? zkl__semaphore_held((struct zkl__semaphore *)it) : 0;
    /* No permit would be left: this grant is released, and not a later one. */
    bool all = granted && (count == held || held == 0);
    // cppcheck-suppress nullPointerRedundantCheck ; all says that it is not NULL
    zkl_grant whole = {.token = all ? granted->token : 0, .serial = all ? granted->serial : 0};
    if (!granted) {
        rc = zkl__lock_not_granted(lock, err);
    } else if (!all && (count < 0 || count > held)) {
        rc = zkl__fail_at(err, ZKL_EINVAL, lock->path, "count is %d, of %d permits held", count,
                          held);
    } else if (!all) {
        zkl__session_event(
            session, (struct zkl__event){.kind = ZKL__EV_GIVE_BACK, .machine = it, .count = count});
        rc = state == ZKL_STATE_LOST
                 ? zkl__fail_at(err, ZKL_ELOST, lock->path, "lost while they were held")
                 : ZKL_OK;
    }
    zkl__session_leave(session);
    return all ? zkl__lock_release_grant(lock, &whole, INT64_MAX, zkl__caller_waits, NULL, err)
               : rc;
}

/* --- queries of the current state ------------------------------------------------------------- */

static int by_value(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

int zkl_semaphore_tokens(const zkl_lock *lock, int64_t *tokens, int room)
{
    int held = 0, put = 0;
    if (zkl__lock_check(lock, &semaphore, NULL) != ZKL_OK ||
        zkl__session_enter(lock->session, NULL) != ZKL_OK) {
        return 0;
    }
    const struct zkl__semaphore *it =
        zkl__lock_status_locked(lock).token
            ? (const struct zkl__semaphore *)lock->acquisition->machine
            : NULL;
    for (int i = 0; it && i < zkl__semaphore_count(it); i++) {
        int64_t token;
        if (zkl__semaphore_permit(it, i, &token)) {
            held++;
            if (put < room) {
                tokens[put++] = token;
            }
        }
    }
    zkl__session_leave(lock->session);
    zkl__sort(tokens, (size_t)put, sizeof *tokens, by_value);
    return held;
}
