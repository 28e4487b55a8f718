/* zookeeper_submit.c - operations into zoo_a* calls. */
#include <string.h>
#include <time.h>

#include "name.h"
#include "path.h"
#include "zookeeper_store.h"

/* A chroot, a path of a queue, and any contender of it, whoever named that one. */
#define SENT_PATH_MAX (2 * ZKL_PATH_MAX + ZKL__NAME_LONGEST + 3)
#define SEQUENCE_DIGITS 11 /* "-2147483647" */
/* The server drops the connection for a request of 1 MB, and would for each retry. */
#define REQUEST_BYTES_MAX 1000000

/* --- access lists ---------------------------------------------------------------------------- */

/* The server knows a seal for credentials and would put it where a list says "auth", which nobody
 * could enter once the session is gone. So that entry goes as one that every server refuses, at the
 * same place among its checks: a digest without a user. */
static const zkl_acl_entry invalid = {ZKL_PERM_ALL, "digest", ""};

/* The strings stay the caller's: the library serialises them before its call returns. */
static bool acl_make(struct ACL_vector *out, const struct zkl__store *store, const zkl_acl *acl)
{
    out->count = (int32_t)acl->count;
    out->data = zkl__zalloc(&store->heap, acl->count * sizeof *out->data + 1);
    for (size_t i = 0; out->data && i < acl->count; i++) {
        bool refused = store->sealed && strcmp(acl->entries[i].scheme, "auth") == 0;
        const zkl_acl_entry *entry = refused ? &invalid : &acl->entries[i];
        out->data[i].perms = entry->perms;
        out->data[i].id.scheme = (char *)(uintptr_t)entry->scheme;
        out->data[i].id.id = (char *)(uintptr_t)entry->id;
    }
    return out->data != NULL;
}

int zkl__zk_acl_copy(struct zkl__store *store, const zkl_acl *acl)
{
    struct ACL_vector made;
    if (!acl_make(&made, store, acl)) {
        return ZKL_ENOMEM;
    }
    store->acl = made;
    store->own_acl = true;
    bool whole = true;
    for (int32_t i = 0; i < made.count; i++) {
        struct Id *id = &made.data[i].id;
        id->scheme = zkl__copy(&store->heap, id->scheme, strlen(id->scheme));
        id->id = zkl__copy(&store->heap, id->id, strlen(id->id));
        whole = whole && id->scheme && id->id;
    }
    return whole ? ZKL_OK : ZKL_ENOMEM;
}

void zkl__zk_acl_free(struct zkl__store *store)
{
    for (int32_t i = 0; store->own_acl && i < store->acl.count; i++) {
        zkl__free(&store->heap, store->acl.data[i].id.scheme);
        zkl__free(&store->heap, store->acl.data[i].id.id);
    }
    if (store->own_acl) {
        zkl__free(&store->heap, store->acl.data);
    }
}

/* --- sending --------------------------------------------------------------------------------- */

static bool is_sequential(const struct zkl__op *op)
{
    return op->kind == ZKL__OP_CREATE &&
           (op->mode == ZKL__EPHEMERAL_SEQUENTIAL || op->mode == ZKL__PERSISTENT_SEQUENTIAL);
}

/* dir and name under the chroot, unless they are outside of it; false when too long or of a bad
 * form. The form is checked before the chroot goes in front, for a path that is not absolute would
 * leave it; and the library, given a bad path as a part of a multi, frees what is ours. */
static bool path_make(const struct zkl__store *store, char out[SENT_PATH_MAX],
                      const struct zkl__op *op)
{
    size_t chroot_length = op->outside ? 0 : store->chroot_length;
    char *inner = out + chroot_length;
    size_t length = chroot_length < SENT_PATH_MAX && op->dir
                        ? zkl__path_join(inner, SENT_PATH_MAX - chroot_length, op->dir, op->name)
                        : 0;
    if (length == 0 || !zkl__path_form(inner, is_sequential(op))) {
        return false;
    }
    memcpy(out, store->chroot, chroot_length);
    if (chroot_length > 0 && length == 1 && !is_sequential(op)) {
        *inner = '\0'; /* the chroot itself has no slash at its end */
    }
    return true;
}

static int mode_of(const struct zkl__store *store, enum zkl__create_mode mode)
{
    switch (mode) {
    case ZKL__EPHEMERAL:
        return ZOO_EPHEMERAL;
    case ZKL__EPHEMERAL_SEQUENTIAL:
        return ZOO_EPHEMERAL_SEQUENTIAL;
    case ZKL__PERSISTENT_SEQUENTIAL:
        return ZOO_PERSISTENT_SEQUENTIAL;
    case ZKL__CONTAINER:
        return store->no_containers ? ZOO_PERSISTENT : ZOO_CONTAINER;
    case ZKL__PERSISTENT:
        break;
    }
    return ZOO_PERSISTENT;
}

static const char *data_of(const struct zkl__op *op)
{
    return op->data ? op->data : "";
}

/* The functions below return ZOK when the library took the op, else its code. */

static int send_create(struct zk_op *to, const struct zkl__op *op, const char *path)
{
    struct zkl__store *store = to->store;
    struct ACL_vector acl = store->acl;
    if (op->acl && !acl_make(&acl, store, op->acl)) {
        return ZSYSTEMERROR;
    }
    int mode = mode_of(store, op->mode);
    to->container = mode == ZOO_CONTAINER;
    int rc =
        zoo_acreate2(store->zh, path, data_of(op), (int)op->size, &acl, mode, zkl__zk_created, to);
    if (op->acl) {
        zkl__free(&store->heap, acl.data);
    }
    return rc;
}

static bool part_make(struct zk_op *to, size_t i, zoo_op_t *zoo, struct ACL_vector *acl,
                      const struct zkl__op *op)
{
    struct zkl__store *store = to->store;
    struct zk_part *part = &to->parts[i];
    char path[SENT_PATH_MAX];
    if (!path_make(store, path, op) ||
        !(part->path = zkl__copy(&store->heap, path, strlen(path)))) {
        return false;
    }
    part->kind = op->kind;
    if (op->kind == ZKL__OP_DELETE) {
        zoo_delete_op_init(zoo, part->path, op->version);
    } else if (op->kind == ZKL__OP_SET) {
        zoo_set_op_init(zoo, part->path, data_of(op), (int)op->size, op->version, &part->stat);
    } else if (op->kind == ZKL__OP_CHECK) {
        zoo_check_op_init(zoo, part->path, op->version);
    } else {
        size_t size = strlen(path) + SEQUENCE_DIGITS + 1;
        part->made = zkl__zalloc(&store->heap, size);
        if (!part->made || (op->acl && !acl_make(acl, store, op->acl))) {
            return false;
        }
        zoo_create_op_init(zoo, part->path, data_of(op), (int)op->size, op->acl ? acl : &store->acl,
                           mode_of(store, op->mode), part->made, (int)size);
    }
    return true;
}

static bool multi_alloc(struct zk_op *to, size_t count)
{
    const zkl_heap *heap = &to->store->heap;
    to->part_count = count;
    to->parts = zkl__zalloc(heap, count * sizeof *to->parts);
    to->results = zkl__zalloc(heap, count * sizeof *to->results);
    to->replies = zkl__zalloc(heap, count * sizeof *to->replies);
    return to->parts && to->results && to->replies;
}

/* On a dead handle the library frees pointers it never had, when a multi has several parts: the
 * state is looked at here, as late as can be, and the core uses single ones. */
static int send_multi(struct zk_op *to, const struct zkl__op *parts, size_t count)
{
    struct zkl__store *store = to->store;
    const zkl_heap *heap = &store->heap;
    zoo_op_t *zoo = zkl__zalloc(heap, count * sizeof *zoo);
    struct ACL_vector *acls = zkl__zalloc(heap, count * sizeof *acls);
    bool made = zoo && acls && multi_alloc(to, count);
    for (size_t i = 0; made && i < count; i++) {
        made = part_make(to, i, &zoo[i], &acls[i], &parts[i]);
    }
    int rc = ZSYSTEMERROR;
    if (made) {
        rc = zoo_state(store->zh) != ZOO_CONNECTED_STATE
                 ? ZINVALIDSTATE
                 : zoo_amulti(store->zh, (int)count, zoo, to->results, zkl__zk_multi_done, to);
    }
    for (size_t i = 0; acls && i < count; i++) {
        zkl__free(heap, acls[i].data);
    }
    zkl__free(heap, acls);
    zkl__free(heap, zoo);
    return rc;
}

/* The library declares a pointer to the function type, which is itself a pointer, and then uses the
 * argument as the function. */
static int send_unwatch(struct zk_op *to, const char *path)
{
    void_completion_t *function = (void_completion_t *)(uintptr_t)zkl__zk_done;
    return zoo_aremove_all_watches(to->store->zh, path, ZWATCHTYPE_ANY, 0, function, to);
}

static int send_one(struct zk_op *to, const struct zkl__op *op, const char *path)
{
    zhandle_t *zh = to->store->zh;
    watcher_fn watcher = op->watch ? zkl__zk_watcher : NULL;
    void *ctx = to->store;
    switch (op->kind) {
    case ZKL__OP_CREATE:
        return send_create(to, op, path);
    case ZKL__OP_DELETE:
        return zoo_adelete(zh, path, op->version, zkl__zk_done, to);
    case ZKL__OP_SET:
        return zoo_aset(zh, path, data_of(op), (int)op->size, op->version, zkl__zk_stat_came, to);
    case ZKL__OP_CHECK:
        return send_multi(to, op, 1);
    case ZKL__OP_MULTI:
        return send_multi(to, op->parts, op->part_count);
    case ZKL__OP_SYNC:
        return zoo_async(zh, path, zkl__zk_synced, to);
    case ZKL__OP_CHILDREN:
        return zoo_awget_children2(zh, path, watcher, ctx, zkl__zk_children_came, to);
    case ZKL__OP_GET:
        return zoo_awget(zh, path, watcher, ctx, zkl__zk_data_came, to);
    case ZKL__OP_EXISTS:
        return zoo_awexists(zh, path, watcher, ctx, zkl__zk_stat_came, to);
    case ZKL__OP_UNWATCH:
        return send_unwatch(to, path);
    case ZKL__OP_NONE:
        break;
    }
    return ZBADARGUMENTS;
}

#define PART_BYTES 64 /* lengths, flags, header */

static size_t acl_bytes(const struct zkl__store *store, const struct zkl__op *op)
{
    size_t bytes = 0;
    for (size_t i = 0; op->acl && i < op->acl->count; i++) {
        bytes += strlen(op->acl->entries[i].scheme) + strlen(op->acl->entries[i].id) + 12;
    }
    for (int32_t i = 0; !op->acl && i < store->acl.count; i++) {
        bytes += strlen(store->acl.data[i].id.scheme) + strlen(store->acl.data[i].id.id) + 12;
    }
    return bytes;
}

/* ZKL_OK when op can be sent as it is; *bytes grows by what it takes. A container in a multi would
 * abort the process: the library takes the answer apart as another kind than the server sends. */
static int part_check(const struct zkl__store *store, const struct zkl__op *part, size_t *bytes)
{
    char path[SENT_PATH_MAX];
    bool create = part->kind == ZKL__OP_CREATE;
    if ((create && part->mode == ZKL__CONTAINER) ||
        (!create && part->kind != ZKL__OP_DELETE && part->kind != ZKL__OP_SET &&
         part->kind != ZKL__OP_CHECK)) {
        return ZKL_EUNSUPPORTED;
    }
    if (!path_make(store, path, part)) {
        return ZKL_EINVAL;
    }
    *bytes += part->size + strlen(path) + PART_BYTES + (create ? acl_bytes(store, part) : 0);
    return ZKL_OK;
}

static int op_check(const struct zkl__store *store, const struct zkl__op *op)
{
    size_t bytes = op->size;
    for (size_t i = 0; op->kind == ZKL__OP_MULTI && i < op->part_count; i++) {
        int code = part_check(store, &op->parts[i], &bytes);
        if (code != ZKL_OK) {
            return code;
        }
    }
    if (op->kind == ZKL__OP_MULTI && op->part_count == 0) {
        return ZKL_EINVAL;
    }
    return bytes <= REQUEST_BYTES_MAX ? ZKL_OK : ZKL_ELIMIT;
}

static int64_t boottime_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* With the mutex held. */
static int submit_locked(struct zkl__store *store, struct zk_op *to, const struct zkl__op *op)
{
    char path[SENT_PATH_MAX] = "/";
    if (op->kind != ZKL__OP_MULTI && !path_make(store, path, op)) {
        return ZKL_EINVAL;
    }
    zkl__zk_op_add(store, to);
    int rc = send_one(to, op, path);
    if (rc == ZOK) {
        return ZKL_OK;
    }
    if (rc == ZMARSHALLINGERROR) {
        zkl__zk_op_mark_told(
            to); /* no memory half way: the library may keep it, and complete it later */
    } else {
        zkl__zk_op_remove(to);
    }
    return zkl__zk_refusal(rc, is_unrecoverable(store->zh) != ZOK);
}

int zkl__zk_submit(struct zkl__store *store, uint64_t id, const struct zkl__op *op)
{
    int code = op_check(store, op);
    if (code != ZKL_OK) {
        return code;
    }
    struct zk_op *to = zkl__zalloc(&store->heap, sizeof *to);
    if (!to) {
        return ZKL_ENOMEM;
    }
    *to = (struct zk_op){.store = store, .id = id, .sent_ns = boottime_ns(), .kind = op->kind};
    pthread_mutex_lock(&store->mutex);
    if (store->phase != ZK_OPEN || !store->up) {
        code = ZKL_ECONNECT;
    } else if (store->op_count >= zkl__store_zookeeper.ops_max) {
        code = ZKL_ELIMIT;
    } else {
        code = submit_locked(store, to, op);
    }
    bool kept = to->told || code == ZKL_OK;
    pthread_mutex_unlock(&store->mutex);
    if (!kept) {
        zkl__zk_op_free(to);
    }
    return code;
}
