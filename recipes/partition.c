/* partition.c - a partition as its user sees it: made of its pieces and its member, started,
 * stopped, asked what it owns. */
#include "partition_inside.h"

#include "error.h"
#include "heap.h"
#include "path.h"
#include "sized.h"

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
        for (size_t j = 0; j < i; j++) {
            if (strcmp(pieces[i], pieces[j]) == 0) {
                return zkl__fail(err, ZKL_EINVAL, 0, NULL, "pieces %zu and %zu are the same: %.80s",
                                 j, i, pieces[i]);
            }
        }
    }
    return ZKL_OK;
}

ZKL__SIZED(sized, zkl_partition_options, ZKL_PARTITION_OPTIONS_INIT, acl, acl);

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
    struct zkl__member *member;
    size_t count;
};

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
        rc = make_place(&place, &zkl__piece_recipe, zkl__piece_told, session, path, "pieces",
                        pieces[i], options, err);
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
    assemble((zkl_partition *)agent, &parts, &o);
    zkl__agent_impanel(agent, &((zkl_partition *)agent)->jury, parts.member->place.path);
    *out = (zkl_partition *)agent;
    zkl__session_leave(session);
    return ZKL_OK;
}

/* --- calls ----------------------------------------------------------------------------------- */

int zkl_partition_start(zkl_partition *partition, zkl_error *err)
{
    if (!partition) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "partition is NULL");
    }
    int rc = zkl__session_enter(partition->agent.session, err);
    if (rc == ZKL_OK) {
        if (!partition->running) {
            partition->running = true;
            partition->reading = ZKL__TO_LIST;
            zkl__agent_post(&partition->agent);
        }
        zkl__session_leave(partition->agent.session);
    }
    return rc;
}

int zkl_partition_stop(zkl_partition *partition, zkl_error *err)
{
    if (!partition) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "partition is NULL");
    }
    zkl_session *session = partition->agent.session;
    int rc = zkl__session_enter_even_closed(session, err);
    if (rc == ZKL_OK) {
        partition->running = false;
        zkl__agent_unwatch(&partition->agent);
        zkl__agent_post(&partition->agent);
        zkl__callbacks_finish(zkl__session_callbacks(session), &partition->agent.notice);
        zkl__session_leave(session);
    }
    return rc;
}

void zkl_partition_free(zkl_partition *partition)
{
    if (!partition || zkl_partition_stop(partition, NULL) != ZKL_OK) {
        return;
    }
    zkl_session *session = partition->agent.session;
    zkl__session_enter_even_closed(session, NULL);
    bool inside =
        partition->depth > 0 && zkl__callbacks_inside(zkl__session_callbacks(session), NULL);
    partition->orphan = inside; /* then the outermost callback does the rest */
    zkl__session_leave(session);
    if (!inside) {
        zkl__partition_dismantle(partition);
    }
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
        if (piece->assigned && zkl__state_holds(zkl__lock_look(&piece->place).state)) {
            if (owned < room) {
                names[owned] = piece->name;
            }
            owned++;
        }
    }
    zkl__session_leave(partition->agent.session);
    return owned;
}

int64_t zkl_partition_token(const zkl_partition *partition, const char *name)
{
    int64_t token = 0;
    if (!partition || !name || zkl__session_enter(partition->agent.session, NULL) != ZKL_OK) {
        return 0;
    }
    for (size_t i = 0; i < partition->count; i++) {
        const struct zkl__piece *piece = partition->pieces[i];
        if (piece->assigned && strcmp(piece->name, name) == 0) {
            token = zkl__lock_look(&piece->place).token;
        }
    }
    zkl__session_leave(partition->agent.session);
    return token;
}

bool zkl_partition_owns(const zkl_partition *partition, const char *piece)
{
    return zkl_partition_token(partition, piece) != 0;
}

const char *zkl_partition_path(const zkl_partition *partition)
{
    return partition ? partition->agent.path : "";
}
