/* partition.c - a partition as its user sees it: made of its pieces and its member, started,
 * stopped, asked what it owns. */
#include "partition_inside.h"

#include "error.h"
#include "heap.h"
#include "path.h"
#include "sized.h"

#include <zklock/zookeeper.h>

#include <string.h>

static int check_pieces(const char *const *pieces, size_t count, zkl_error *err)
{
    if (!pieces || count == 0 || count > ZKL_PARTITION_PIECES_MAX) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%zu pieces; from 1 to %d", pieces ? count : 0,
                         ZKL_PARTITION_PIECES_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        if (!pieces[i] || !*pieces[i] || strchr(pieces[i], '/')) {
            return zkl__fail(err, ZKL_EINVAL, 0, NULL, "piece %zu is not one component of a path",
                             i);
        }
    }
    return ZKL_OK;
}

ZKL__SIZED(sized, zkl_partition_options, ZKL_PARTITION_OPTIONS_INIT, acl, state_fn);

/* A longer one than the lease can be would never let a piece be assigned. */
static int check_margin(const zkl_partition_options *options, const zkl_session *session,
                        zkl_error *err)
{
    return zkl__range_check("margin_ms", options->margin_ms, 0,
                            zkl__session_settings(session)->options.session_timeout_ms - 1, err);
}

static int check(const char *const *pieces, size_t count, const zkl_partition_options *options,
                 zkl_error *err)
{
    if (!options->assigned_fn || !options->revoked_fn) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL",
                         options->assigned_fn ? "revoked_fn" : "assigned_fn");
    }
    return check_pieces(pieces, count, err);
}

/* A place at PATH/folder[/name]. */
static int make_place(zkl_lock **out, const struct zkl__recipe *recipe, zkl_lock_state_fn told,
                      zkl_session *session, const char *path, const char *folder, const char *name,
                      const zkl_partition_options *options, zkl_error *err)
{
    char above[ZKL_PATH_MAX + 1], whole[ZKL_PATH_MAX + 1];
    const char *const paths[] = {whole};
    zkl_lock_options own = ZKL_LOCK_OPTIONS_INIT;
    own.metadata = options->metadata;
    own.acl = options->acl;
    own.release_timeout_ms = 0;
    own.state_fn = told;
    if (zkl__path_join(above, sizeof above, path, folder) == 0 ||
        zkl__path_join(whole, sizeof whole, above, name) == 0) {
        return zkl__fail(err, ZKL_EINVAL, 0, path, "too long with the names of its pieces");
    }
    return zkl__lock_make(out, recipe, session, paths, 1, &own, err);
}

/* What has no partition yet. */
struct parts {
    struct zkl__piece **pieces;
    const char **names;
    size_t *owners;
    struct zkl__name_set index; /* of names */
    struct zkl__member *member;
    size_t count;
};

static int add_to_index(struct parts *parts, const zkl_heap *heap, const char *name, size_t at,
                        zkl_error *err)
{
    const int64_t *same = zkl__name_set_find(&parts->index, name);
    if (same) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "pieces %zu and %zu are the same: %.80s",
                         (size_t)*same, at, name);
    }
    return zkl__name_set_put(&parts->index, heap, name, (int64_t)at)
               ? ZKL_OK
               : zkl__fail(err, ZKL_ENOMEM, 0, NULL, "no memory");
}

static int make_parts(struct parts *parts, zkl_session *session, const char *path,
                      const char *const *pieces, size_t count, const zkl_partition_options *options,
                      zkl_error *err)
{
    const zkl_heap *heap = zkl__session_heap(session);
    parts->pieces = zkl__zalloc(heap, count * sizeof *parts->pieces);
    parts->names = zkl__zalloc(heap, count * sizeof *parts->names);
    parts->owners = zkl__zalloc(heap, count * sizeof *parts->owners);
    if (!parts->pieces || !parts->names || !parts->owners) {
        return zkl__fail(err, ZKL_ENOMEM, 0, path, "no memory");
    }
    zkl_lock *place;
    int rc = make_place(&place, &zkl__member_recipe, zkl__member_told, session, path, "members",
                        NULL, options, err);
    if (rc == ZKL_OK) {
        parts->member = (struct zkl__member *)place;
    }
    for (size_t i = 0; rc == ZKL_OK && i < count; i++) {
        rc = add_to_index(parts, heap, pieces[i], i, err);
        if (rc == ZKL_OK) {
            rc = make_place(&place, &zkl__piece_recipe, zkl__piece_told, session, path, "pieces",
                            pieces[i], options, err);
        }
        if (rc == ZKL_OK) {
            parts->pieces[parts->count++] = (struct zkl__piece *)place;
            parts->names[i] = parts->pieces[i]->name = strrchr(place->path, '/') + 1;
        }
    }
    return rc;
}

static void free_parts(struct parts *parts, zkl_session *session)
{
    const zkl_heap *heap = zkl__session_heap(session);
    zkl_lock_free((zkl_lock *)parts->member);
    for (size_t i = 0; i < parts->count; i++) {
        zkl_lock_free(&parts->pieces[i]->place);
    }
    zkl__free(heap, parts->pieces);
    zkl__free(heap, parts->names);
    zkl__free(heap, parts->owners);
    zkl__name_set_clear(&parts->index, heap);
}

/* Inside. */
static void assemble(zkl_partition *partition, const struct parts *parts,
                     const zkl_partition_options *options)
{
    partition->options = *options;
    partition->options.metadata = NULL; /* the places have copies */
    partition->options.acl = NULL;
    partition->count = parts->count;
    partition->pieces = parts->pieces;
    partition->names = parts->names;
    partition->index = parts->index;
    partition->owners = parts->owners;
    partition->member = parts->member;
    partition->member->partition = partition;
    for (size_t i = 0; i < parts->count; i++) {
        partition->pieces[i]->partition = partition;
    }
}

int zkl_partition_new(zkl_partition **out, zkl_session *session, const char *path,
                      const char *const *pieces, size_t count, const zkl_partition_options *options,
                      zkl_error *err)
{
    ZKL__CLEAR(out);
    if (!out || !session) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", out ? "session" : "out");
    }
    zkl_partition_options o;
    int rc = zkl__sized_take(&o, options, &sized, err);
    rc = rc == ZKL_OK ? check(pieces, count, &o, err) : rc;
    rc = rc == ZKL_OK ? check_margin(&o, session, err) : rc;
    rc = rc == ZKL_OK ? zkl__path_check(path, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    struct parts parts = {0};
    struct zkl__agent *agent;
    rc = make_parts(&parts, session, path, pieces, count, &o, err);
    if (rc == ZKL_OK) {
        rc = zkl__agent_new(&agent, sizeof(zkl_partition), &zkl__partition_ops, session, path, true,
                            err);
    }
    if (rc != ZKL_OK) {
        free_parts(&parts, session);
        return rc;
    }
    bool made = zkl__partition_list((zkl_partition *)agent, parts.member->place.path);
    if (made) {
        assemble((zkl_partition *)agent, &parts, &o);
        *out = (zkl_partition *)agent;
    }
    rc = zkl__agent_made(agent, made, err);
    if (rc != ZKL_OK) {
        free_parts(&parts, session);
    }
    return rc;
}

/* --- calls ----------------------------------------------------------------------------------- */

int zkl_partition_start(zkl_partition *partition, zkl_error *err)
{
    if (!partition) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "partition is NULL");
    }
    int rc = zkl__session_enter(partition->agent.session, err);
    if (rc == ZKL_OK) {
        if (partition->life != ZKL__PARTITION_RUNNING) {
            zkl__partition_live(partition, ZKL__PARTITION_RUNNING);
            zkl__member_list_renew(&partition->list);
            zkl__calls_poke(partition->agent.session, &partition->agent.object);
            zkl__agent_post(&partition->agent);
        }
        zkl__session_leave(partition->agent.session);
    }
    return rc;
}

/* Inside. What it has is revoked in callbacks, which follow. */
static void begin_stop(zkl_partition *partition)
{
    if (partition->life == ZKL__PARTITION_RUNNING) {
        zkl__partition_live(partition, ZKL__PARTITION_STOPPING);
    }
    if (partition->list.watcher.core) {
        zkl__watcher_unwatch(&partition->list.watcher);
    }
    zkl__agent_post(&partition->agent);
}

int zkl_partition_stop(zkl_partition *partition, zkl_error *err)
{
    if (!partition) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "partition is NULL");
    }
    zkl_session *session = partition->agent.session;
    int rc = zkl__session_enter_even_closed(session, err);
    if (rc == ZKL_OK) {
        begin_stop(partition);
        zkl__callbacks_finish(zkl__session_callbacks(session), &partition->agent.notice);
        zkl__session_leave(session);
    }
    return rc;
}

/* --- a stop that nobody waits for ------------------------------------------------------------ */

struct stopping {
    struct zkl__call call; /* first */
    zkl_partition *partition;
};

static int run_stop(struct zkl__call *call)
{
    zkl_partition *partition = ((struct stopping *)call)->partition;
    CALL_BEGIN(call);
    begin_stop(partition);
    AWAIT_UNTIL(call, partition->life == ZKL__PARTITION_IDLE ||
                          partition->life == ZKL__PARTITION_RUNNING);
    if (partition->life == ZKL__PARTITION_RUNNING) {
        RETURN(call,
               zkl__fail(call->err, ZKL_ECANCELED, 0, NULL, "it was started again meanwhile"));
    }
    CALL_END(call);
}

/* Its free stops it, too. */
static int conclude_stop(struct zkl__call *call, int rc)
{
    const zkl_partition *partition = ((struct stopping *)call)->partition;
    return rc == ZKL_ECANCELED && partition->life == ZKL__PARTITION_IDLE ? ZKL_OK : rc;
}

static int bind_stop(struct zkl__call *call, zkl_error *err)
{
    zkl_partition *partition = ((struct stopping *)call)->partition;
    (void)err;
    call->owner = &partition->agent.object;
    partition->agent.refs++;
    return ZKL_OK;
}

static void end_stop(struct zkl__call *call)
{
    zkl__agent_unref(&((struct stopping *)call)->partition->agent);
}

int zkl_partition_stop_async(zkl_partition *partition, zkl_done_fn done, void *payload,
                             zkl_error *err)
{
    static const struct zkl__call_kind kind = {
        sizeof(struct stopping), run_stop, conclude_stop, bind_stop, end_stop, true};
    const struct stopping given = {.partition = partition};
    if (!partition) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "partition is NULL");
    }
    return zkl__call_go(&kind, &given, partition->agent.session, partition->agent.path,
                        ZKL_WAIT_FOREVER, &(struct zkl__later){done, payload}, err);
}

/* Inside, after a stop. Its user says by the free that the work has ended. */
static void end_all_work(zkl_partition *partition)
{
    for (size_t i = 0; i < partition->count; i++) {
        if (partition->pieces[i]->work == ZKL__WORK_ENDS) {
            zkl__piece_end_work(partition->pieces[i]);
        }
    }
    if (partition->depth == 0 && partition->life == ZKL__PARTITION_UNWINDING) {
        zkl__partition_live(partition, ZKL__PARTITION_IDLE);
    }
}

void zkl_partition_free(zkl_partition *partition)
{
    if (!partition || zkl_partition_stop(partition, NULL) != ZKL_OK) {
        return;
    }
    zkl_session *session = partition->agent.session;
    zkl__session_enter_even_closed(session, NULL);
    end_all_work(partition);
    zkl__calls_end(session, &partition->agent.object, ZKL_ECANCELED);
    zkl__calls_deliver(session, &partition->agent.object);
    bool inside =
        partition->depth > 0 && zkl__callbacks_inside(zkl__session_callbacks(session), NULL);
    partition->orphan = inside; /* then the outermost callback does the rest */
    zkl__session_leave(session);
    if (!inside) {
        zkl__partition_dismantle(partition);
    }
}

/* --- the answer to revoked ------------------------------------------------------------------- */

static struct zkl__piece *find_piece(const zkl_partition *partition, const char *name)
{
    const int64_t *at = zkl__name_set_find(&partition->index, name);
    return at ? partition->pieces[*at] : NULL;
}

/* ZKL_EINVAL: there is no such piece. */
static int take_piece(struct zkl__piece **piece, const zkl_partition *partition, const char *name,
                      zkl_error *err)
{
    if (!partition || !name) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", partition ? "piece" : "partition");
    }
    *piece = find_piece(partition, name);
    return *piece ? ZKL_OK
                  : zkl__fail(err, ZKL_EINVAL, 0, partition->agent.path,
                              "no piece of this partition: %.80s", name);
}

int zkl_partition_done(zkl_partition *partition, const char *name, zkl_error *err)
{
    struct zkl__piece *piece;
    int rc = take_piece(&piece, partition, name, err);
    rc = rc == ZKL_OK ? zkl__session_enter_even_closed(partition->agent.session, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    if (!partition->options.done_later || piece->work != ZKL__WORK_ENDS) {
        rc = zkl__fail(err, ZKL_ENOTHELD, 0, partition->agent.path,
                       partition->options.done_later
                           ? "revoked was not called for %.80s, or is answered"
                           : "without the option done_later the return of revoked answers: %.80s",
                       name);
    } else {
        zkl__piece_end_work(piece);
        zkl__agent_post(&partition->agent);
    }
    zkl__session_leave(partition->agent.session);
    return rc;
}

/* --- what is so now -------------------------------------------------------------------------- */

size_t zkl_partition_owned(const zkl_partition *partition, const char **names, size_t room)
{
    size_t owned = 0;
    if (!partition || zkl__session_enter(partition->agent.session, NULL) != ZKL_OK) {
        return 0;
    }
    for (size_t i = 0; i < partition->count; i++) {
        const struct zkl__piece *piece = partition->pieces[i];
        if (piece->work == ZKL__WORK_RUNS &&
            zkl__state_holds(zkl__lock_look(&piece->place).state)) {
            if (owned < room) {
                names[owned] = piece->name;
            }
            owned++;
        }
    }
    zkl__session_leave(partition->agent.session);
    return owned;
}

/* How the lock of a piece stands, while there is work on it. */
static struct zkl__standing standing_of(const zkl_partition *partition, const char *name,
                                        enum zkl__work *work)
{
    struct zkl__standing now = {.state = ZKL_STATE_IDLE};
    *work = ZKL__WORK_NONE;
    const struct zkl__piece *piece = partition && name ? find_piece(partition, name) : NULL;
    if (piece && zkl__session_enter(partition->agent.session, NULL) == ZKL_OK) {
        *work = piece->work;
        now = *work == ZKL__WORK_NONE ? now : zkl__lock_look(&piece->place);
        zkl__session_leave(partition->agent.session);
    }
    return now;
}

int64_t zkl_partition_remaining_ms(const zkl_partition *partition, const char *name)
{
    enum zkl__work work;
    int64_t until = standing_of(partition, name, &work).until;
    return until > 0 ? zkl__session_left(partition->agent.session, until) / ZKL__MS : 0;
}

bool zkl_partition_owns(const zkl_partition *partition, const char *piece)
{
    enum zkl__work work;
    struct zkl__standing now = standing_of(partition, piece, &work);
    return work == ZKL__WORK_RUNS && zkl__state_holds(now.state);
}

/* --- a transaction under a piece's lock ------------------------------------------------------ */

/* The lock of a piece that there is work on. */
static int take_lock(zkl_lock **lock, zkl_partition *partition, const char *name,
                     int64_t timeout_ms, zkl_error *err)
{
    struct zkl__piece *piece;
    int rc = take_piece(&piece, partition, name, err);
    rc = rc == ZKL_OK ? zkl__timeout_check(timeout_ms, err) : rc;
    rc = rc == ZKL_OK ? zkl__session_enter(partition->agent.session, err) : rc;
    if (rc == ZKL_OK) {
        *lock = &piece->place;
        if (piece->work == ZKL__WORK_NONE) {
            rc = zkl__fail(err, ZKL_ENOTHELD, 0, piece->place.path,
                           "not done: the piece is not assigned to this member");
        }
        zkl__session_leave(partition->agent.session);
    }
    return rc;
}

int zkl_partition_commit(zkl_partition *partition, const char *piece, const zkl_op *ops,
                         size_t count, int64_t timeout_ms, zkl_op_result *results, zkl_error *err)
{
    zkl_lock *lock;
    int rc = take_lock(&lock, partition, piece, timeout_ms, err);
    return rc == ZKL_OK ? zkl_lock_commit(lock, ops, count, timeout_ms, results, err) : rc;
}

int zkl_partition_commit_async(zkl_partition *partition, const char *piece, const zkl_op *ops,
                               size_t count, int64_t timeout_ms, zkl_op_result *results,
                               zkl_done_fn done, void *payload, zkl_error *err)
{
    zkl_lock *lock;
    int rc = take_lock(&lock, partition, piece, timeout_ms, err);
    return rc == ZKL_OK
               ? zkl_lock_commit_async(lock, ops, count, timeout_ms, results, done, payload, err)
               : rc;
}
