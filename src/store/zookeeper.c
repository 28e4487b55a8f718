/* zookeeper.c - the store that is a ZooKeeper ensemble, through its C client library: an operation
 * on its way into a zoo_a* call, its completion, its reply to the session; what the library logs
 * meanwhile; events, open, housekeeping, close.
 *
 * Defects and limits of that library, and what is done about each. No other file knows of them.
 * Seen with 3.8.0, and not repaired in 3.9 or 3.10 where no version is named. Tests are those of
 * tests/integration unless another folder is named.
 *
 * Addresses
 *  - ZOOKEEPER-2466: of an even number of addresses it never tries every other one. An odd number
 *    is given (remaining). Test: fuzz_servers.
 *  - It resolves names on its I/O thread, and spins when that fails. It is given addresses
 *    (zookeeper_addresses.c). Test: test_store_names.c.
 *  - ZOOKEEPER-1998: it parses all addresses in every iteration of its loop. Switched off
 *    (start). No test: only speed suffers.
 *  - ZOOKEEPER-4699, repaired in 3.9.4: zoo_set_servers takes no care of the I/O thread. Called
 *    only without a connection (zkl__zk_take_addresses). Test: test_server_moves.
 *  - ZOOKEEPER-4810: zoo_get_current_server shares one buffer. What is no address of ours is not
 *    believed (begin_next). No test: a race in the library.
 *  - A server that is silent holds an attempt for two thirds of the timeout. An attempt has a limit
 *    of ours (zkl__zk_attempt_next). Test: test_frozen_server.
 * Connections
 *  - ZOOKEEPER-800: zoo_add_auth is refused without a connection, and cuts a request in two that is
 *    half sent. Called first of all on the first connection (on_connected). Test:
 *    test_auth_after_reconnect.
 *  - It does not report a loss when its socket is closed from outside its I/O thread. A loss
 *    precedes every connection (on_connected). Test: test_cuts_under_load.
 *  - It reports whatever state a server puts into a watch event, also behind the end of the
 *    session. That is ignored (zkl__zk_watcher). Test: test_garbage.c.
 *  - ZOOKEEPER-4537, a server of 3.6.0 to 3.8.0: it sleeps on a committed write; and the library
 *    sends no ping while it waits for a response. A request is sent (store_tick). Test:
 *    test_stalled_answer.
 *  - ZOOKEEPER-706: it sets all watches again in one packet. Their bytes are limited
 *    (watch_bytes_max). Test: unit_tables.
 *  - Its socket and its pipe stay open in programs that are started. They are found and marked
 *    (zkl__zk_init_hidden, zkl__zk_hide_socket). Test:
 *    test_nothing_is_inherited.
 *  - Its signal mask is the caller's (zkl__signals_hold). Test: test_signals.
 *  - It aborts the program when a thread cannot be started. Two are started before, and ended
 *    (has_threads). Test: unit_limits.
 * Operations
 *  - Its blocking calls have no time limit, and its read-only mode makes up responses. Neither is
 *    used. Test: test_never_blocks.c.
 *  - ZOOKEEPER-2894, ZOOKEEPER-3868: at a loss or a close, completions come late or never. The
 *    table of operations is ours (struct zk_op). Test: test_close_with_500_outstanding.
 *  - It aborts on the response to a container in a multi, frees foreign memory for a bad path
 *    in one, or on a dead handle; its chroot is unsafe there. Refused before, and paths have
 *    the chroot (zkl__store_check, path_make, send_multi). Tests: test_refused_parts,
 *    tests/conformance.
 *  - It takes a list that ends too early for a whole one. As if throttled (is_whole). Test:
 *    test_garbage.c.
 *  - It calls every distinct watcher for every session event. There is one (zkl__zk_watcher). Test:
 *    tests/cost.
 *  - Its log callback has no context. Each store has one of its own (zkl__zk_log_open). Test:
 *    fuzz_log.
 * The end
 *  - It closes with responses unread, which resets the connection, so the server drops its
 *    closeSession. All is read before (drain). Test: test_busy of test_close.c.
 *  - zookeeper_close takes up to 4.5 s and does not report whether the server responded. It runs
 *    on a thread of its own, which looks for the response (close_and_confirm). Tests:
 *    test_slow_goodbye, test_goodbye_without_an_answer.
 * Security
 *  - A failure of SASL ends its I/O thread without an event (store_tick); its TLS never
 *    compares the server's name, and names no cause (zkl__zk_tls_judge). Test:
 *    tests/unit/test_tls_peers.c, tests/security/soak_secure.sh.
 *  - Repaired in 3.10: its TLS takes no authority alone (zkl__zk_takes_ca_alone). Test:
 *    tests/security/test_transport.c. */
#include <arpa/inet.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "zookeeper_store.h"

#define REFRESH_NS (1000 * ZKL__MS)
#define RESOLVE_NS (5000 * ZKL__MS)
#define NAMES_WAIT_MS 200
#define NUDGE_NS (100 * ZKL__MS)
#define SENT_PATH_MAX (ZKL_PATH_MAX + ZKL__STORE_PATH) /* a chroot, and a path */
#define SEQUENCE_DIGITS 11                             /* "-2147483647" */

/* --- ZooKeeper's codes, and what they say about an operation ---------------------------------- */

/* KeeperException.Code.QUOTAEXCEEDED. The header of 3.8 has no name for it (later ones say
 * ZQUOTAEXCEEDED), its servers send it. */
#define QUOTA_EXCEEDED (-125)
/* SESSIONCLOSEDREQUIRESASLAUTH. The header of 3.4 has no name for it. */
#define CREDENTIALS_DEMANDED (-124)

static const struct {
    int zk_code;
    enum zkl__rc rc;
} codes[] = {
    {ZOK, ZKL__RC_OK},
    {ZNONODE, ZKL__RC_NONODE},
    {ZNODEEXISTS, ZKL__RC_NODEEXISTS},
    {ZNOTEMPTY, ZKL__RC_NOTEMPTY},
    {ZBADVERSION, ZKL__RC_BADVERSION},
    {ZNOAUTH, ZKL__RC_NOAUTH},
    {ZINVALIDACL, ZKL__RC_INVALIDACL},
    {ZNOCHILDRENFOREPHEMERALS, ZKL__RC_EPHEMERALPARENT},
    {ZNOWATCHER, ZKL__RC_NOWATCH},
    {ZEPHEMERALONLOCALSESSION, ZKL__RC_LOCAL},
    {QUOTA_EXCEEDED, ZKL__RC_QUOTA},
    /* UnimplementedRequestProcessor, which also closes the connection. */
    {ZUNIMPLEMENTED, ZKL__RC_UNIMPLEMENTED},
    /* The server reports: not done. */
    {ZSESSIONMOVED, ZKL__RC_NOTAPPLIED},
    {ZTHROTTLEDOP, ZKL__RC_NOTAPPLIED},
    /* Not from a server. The library makes these up when a connection or a session ends, and they
     * say nothing about what the server did: after ZOPERATIONTIMEOUT the operation may even be done
     * later, and an op failed with ZCLOSING is still sent. */
    {ZSYSTEMERROR, ZKL__RC_UNKNOWN},
    {ZRUNTIMEINCONSISTENCY, ZKL__RC_UNKNOWN},
    {ZCONNECTIONLOSS, ZKL__RC_UNKNOWN},
    {ZOPERATIONTIMEOUT, ZKL__RC_UNKNOWN},
    {ZSESSIONEXPIRED, ZKL__RC_UNKNOWN},
    {ZAUTHFAILED, ZKL__RC_UNKNOWN},
    {ZCLOSING, ZKL__RC_UNKNOWN},
    /* From a server, in place of any response (AuthenticationHelper). */
    {CREDENTIALS_DEMANDED, ZKL__RC_UNKNOWN},
};

static enum zkl__rc rc_of(int zk_code)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (codes[i].zk_code == zk_code) {
            return codes[i].rc;
        }
    }
    return ZKL__RC_REFUSED;
}

int zkl__store_code(enum zkl__rc rc)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes && codes[i].rc < ZKL__RC_REFUSED; i++) {
        if (codes[i].rc == rc) {
            return codes[i].zk_code;
        }
    }
    return rc == ZKL__RC_ROLLEDBACK ? ZRUNTIMEINCONSISTENCY
           : rc == ZKL__RC_REFUSED  ? ZBADARGUMENTS
                                    : ZOK;
}

/* --- the table of operations; with the mutex held -------------------------------------------- */

static void op_free(struct zk_op *op)
{
    const zkl_heap *heap = &op->store->heap;
    for (size_t i = 0; op->parts && i < op->part_count; i++) {
        zkl__free(heap, op->parts[i].path);
        zkl__free(heap, op->parts[i].acl.data);
    }
    zkl__free(heap, op->parts);
    zkl__free(heap, op);
}

static void op_remove(struct zk_op *op)
{
    struct zkl__store *store = op->store;
    zkl__list_remove(op->replied ? &store->replied : &store->waiting, &op->link);
    store->op_count--;
    zkl__signal_raise(&store->changed);
}

static void op_mark_replied(struct zk_op *op)
{
    zkl__list_remove(&op->store->waiting, &op->link);
    zkl__list_append(&op->store->replied, &op->link);
    op->replied = true;
}

/* --- between the library and the session ----------------------------------------------------- */

/* At the end of every callback of the library's, on its completion thread, which has set `inside`.
 * Behind it nothing of the store is touched. */
static void leave(struct zkl__store *store)
{
    pthread_mutex_lock(&store->mutex);
    store->inside = false;
    if (store->phase == ZK_CLOSED) {
        zkl__signal_raise(&store->changed);
    }
    pthread_mutex_unlock(&store->mutex);
}

static void on_lost(struct zkl__store *store, enum zkl__end end);

/* The server demands credentials that this session has not sent, and has closed it. */
static void end_if_refused(struct zkl__store *store, int zk_code)
{
    if (zk_code != CREDENTIALS_DEMANDED) {
        return;
    }
    pthread_mutex_lock(&store->mutex);
    store->inside = true;
    bool over = store->end != ZKL__END_NONE;
    pthread_mutex_unlock(&store->mutex);
    if (!over) {
        on_lost(store, ZKL__END_AUTH);
    }
}

/* The library has completed an op; const in its prototypes only. */
static void op_done(const void *data, int zk_code, struct zkl__reply reply)
{
    struct zk_op *op = (struct zk_op *)(uintptr_t)data;
    struct zkl__store *store = op->store;
    reply.zk_code = zk_code;
    reply.rc = rc_of(zk_code);
    end_if_refused(store, zk_code);
    pthread_mutex_lock(&store->mutex);
    store->inside = true;
    bool tell = !op->replied && store->phase != ZK_CLOSED;
    op_remove(op);
    if (store->linked && zkl__rc_is_response(reply.rc)) {
        /* A server closes the connection after it has answered ZUNIMPLEMENTED. So this answer does
         * not prove that a close will reach the server: the close sends a probe first. */
        store->answered_ns = zk_code == ZUNIMPLEMENTED ? 0 : op->sent_ns;
    }
    if (op->container && zk_code == ZUNIMPLEMENTED) {
        /* A server before 3.5.1 (ZooDefs.OpCode): done again, it becomes a persistent node. */
        store->no_containers = true;
        reply.rc = ZKL__RC_NOTAPPLIED;
    }
    pthread_mutex_unlock(&store->mutex);
    if (tell) {
        store->events.reply(store->ctx, op->id, &reply);
    }
    op_free(op);
    leave(store);
}

/* --- completions, on the library's completion thread ----------------------------------------- */

static struct zkl__stat stat_of(const struct Stat *stat)
{
    struct zkl__stat out = {0};
    if (stat) {
        out = (struct zkl__stat){.czxid = stat->czxid,
                                 .mzxid = stat->mzxid,
                                 .pzxid = stat->pzxid,
                                 .ctime_ms = stat->ctime,
                                 .mtime_ms = stat->mtime,
                                 .ephemeral_owner = stat->ephemeralOwner,
                                 .version = stat->version,
                                 .cversion = stat->cversion,
                                 .child_count = stat->numChildren,
                                 .data_size = stat->dataLength};
    }
    return out;
}

/* The name alone: so no chroot is in it. */
static const char *name_of(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path;
}

static void created(int rc, const char *path, const struct Stat *stat, const void *data)
{
    op_done(data, rc, (struct zkl__reply){.name = name_of(path), .stat = stat_of(stat)});
}

static void done(int rc, const void *data)
{
    op_done(data, rc, (struct zkl__reply){0});
}

static void synced(int rc, const char *path, const void *data)
{
    (void)path;
    done(rc, data);
}

static void stat_came(int rc, const struct Stat *stat, const void *data)
{
    op_done(data, rc, (struct zkl__reply){.stat = stat_of(stat)});
}

static void data_came(int rc, const char *value, int length, const struct Stat *stat,
                      const void *data)
{
    struct zkl__reply reply = {.stat = stat_of(stat)};
    if (value && length > 0) {
        reply.data = value;
        reply.size = (size_t)length;
    }
    op_done(data, rc, reply);
}

static void children_came(int rc, const struct String_vector *names, const struct Stat *stat,
                          const void *data)
{
    struct zkl__reply reply = {.stat = stat_of(stat)};
    /* The library takes a reply that ends too early for a whole one: the names that are missing are
     * NULL. Then as if the server had put it off: it is sent again later. */
    for (int32_t i = 0; rc == ZOK && names && i < names->count; i++) {
        rc = names->data[i] ? ZOK : ZTHROTTLEDOP;
    }
    if (rc == ZOK && names && names->count > 0) {
        reply.children = (const char *const *)names->data;
        reply.child_count = (size_t)names->count;
    }
    op_done(data, rc, reply);
}

/* A failed multi has the reason at one part; the others have ZRUNTIMEINCONSISTENCY or ZOK. */
static void multi_done(int zk_code, const void *data)
{
    const struct zk_op *op = data;
    struct zkl__reply reply = {0};
    enum zkl__rc rc = rc_of(zk_code);
    bool failed = rc != ZKL__RC_OK && zkl__rc_is_response(rc);
    for (size_t i = 0; i < op->part_count; i++) {
        struct zkl__reply *part = &op->replies[i];
        part->zk_code = op->results[i].err;
        part->rc = rc;
        if (failed && (part->zk_code == ZOK || part->zk_code == ZRUNTIMEINCONSISTENCY)) {
            part->rc = ZKL__RC_ROLLEDBACK;
        } else if (failed) {
            part->rc = rc_of(part->zk_code);
        }
        if (part->rc == ZKL__RC_OK) {
            part->name = op->zoo[i].type == ZOO_CREATE_OP ? name_of(op->parts[i].path) : NULL;
            part->stat = stat_of(&op->parts[i].stat);
        }
    }
    if (op->kind == ZKL__OP_MULTI) {
        reply.parts = op->replies;
        reply.part_count = op->part_count;
    }
    op_done(op, zk_code, reply);
}

/* --- sending --------------------------------------------------------------------------------- */

/* The strings stay the caller's: the library serialises them before its call returns. */
static bool acl_make(struct ACL_vector *out, const struct zkl__store *store,
                     const struct zkl__op *op)
{
    const zkl_acl *acl = op->acl ? op->acl : store->config.acl;
    out->count = (int32_t)acl->count;
    out->data = zkl__zalloc(&store->heap, acl->count * sizeof *out->data + 1);
    for (size_t i = 0; out->data && i < acl->count; i++) {
        const zkl_acl_entry *entry = &acl->entries[i];
        struct Id id = {(char *)(uintptr_t)entry->scheme, (char *)(uintptr_t)entry->id};
        out->data[i] = (struct ACL){entry->perms, id};
    }
    return out->data != NULL;
}

/* The path under the chroot, unless it is outside of it. Its form was checked before the chroot
 * goes in front, for a path that is not absolute would leave it; and the library, given a bad path
 * as a part of a multi, frees what is ours. */
static void path_make(const struct zkl__store *store, char out[SENT_PATH_MAX],
                      const struct zkl__op *op)
{
    size_t chroot_length = op->outside ? 0 : strlen(store->chroot);
    char *inner = out + chroot_length;
    memcpy(out, store->chroot, chroot_length);
    zkl__store_path(inner, op);
    if (chroot_length > 0 && strcmp(inner, "/") == 0 && !zkl__store_is_sequential(op)) {
        *inner = '\0'; /* the chroot itself has no slash at its end */
    }
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

/* On a dead handle the library frees pointers it never had, when a multi has several parts: the
 * state is looked at here, as late as can be, and the core uses single ones. */
static int send_multi(struct zk_op *to, const struct zkl__op *parts, size_t count)
{
    struct zkl__store *store = to->store;
    to->parts = zkl__zalloc(&store->heap, count * (sizeof *to->parts + sizeof *to->zoo +
                                                   sizeof *to->results + sizeof *to->replies));
    if (!to->parts) {
        return ZSYSTEMERROR;
    }
    to->part_count = count;
    to->zoo = (zoo_op_t *)(to->parts + count);
    to->results = (zoo_op_result_t *)(to->zoo + count);
    to->replies = (struct zkl__reply *)(to->results + count);
    for (size_t i = 0; i < count; i++) {
        struct zk_part *part = &to->parts[i];
        zoo_op_t *zoo = &to->zoo[i];
        const struct zkl__op *op = &parts[i];
        char path[SENT_PATH_MAX + SEQUENCE_DIGITS] = "";
        path_make(store, path, op);
        size_t size = strlen(path) + SEQUENCE_DIGITS;
        part->path = zkl__copy(&store->heap, path, size);
        if (!part->path || (op->kind == ZKL__OP_CREATE && !acl_make(&part->acl, store, op))) {
            return ZSYSTEMERROR;
        }
        if (op->kind == ZKL__OP_DELETE) {
            zoo_delete_op_init(zoo, part->path, op->version);
        } else if (op->kind == ZKL__OP_SET) {
            zoo_set_op_init(zoo, part->path, data_of(op), (int)op->size, op->version, &part->stat);
        } else if (op->kind == ZKL__OP_CHECK) {
            zoo_check_op_init(zoo, part->path, op->version);
        } else {
            zoo_create_op_init(zoo, part->path, data_of(op), (int)op->size, &part->acl,
                               mode_of(store, op->mode), part->path, (int)size + 1);
        }
    }
    return zoo_state(store->zh) != ZOO_CONNECTED_STATE
               ? ZINVALIDSTATE
               : zoo_amulti(store->zh, (int)count, to->zoo, to->results, multi_done, to);
}

static int send_one(struct zk_op *to, const struct zkl__op *op)
{
    struct zkl__store *store = to->store;
    zhandle_t *zh = store->zh;
    watcher_fn watcher = op->watch ? zkl__zk_watcher : NULL;
    struct ACL_vector acl;
    char path[SENT_PATH_MAX];
    int mode, rc;
    if (op->kind == ZKL__OP_MULTI) {
        return send_multi(to, op->parts, op->part_count);
    }
    path_make(store, path, op);
    switch (op->kind) {
    case ZKL__OP_CREATE:
        if (!acl_make(&acl, store, op)) {
            return ZSYSTEMERROR;
        }
        mode = mode_of(store, op->mode);
        to->container = mode == ZOO_CONTAINER;
        rc = zoo_acreate2(zh, path, data_of(op), (int)op->size, &acl, mode, created, to);
        zkl__free(&store->heap, acl.data);
        return rc;
    case ZKL__OP_DELETE:
        return zoo_adelete(zh, path, op->version, done, to);
    case ZKL__OP_SET:
        return zoo_aset(zh, path, data_of(op), (int)op->size, op->version, stat_came, to);
    case ZKL__OP_CHECK:
        return send_multi(to, op, 1);
    case ZKL__OP_SYNC:
        return zoo_async(zh, path, synced, to);
    case ZKL__OP_CHILDREN:
        return zoo_awget_children2(zh, path, watcher, store, children_came, to);
    case ZKL__OP_GET:
        return zoo_awget(zh, path, watcher, store, data_came, to);
    case ZKL__OP_EXISTS:
        return zoo_awexists(zh, path, watcher, store, stat_came, to);
    case ZKL__OP_UNWATCH:
        /* The library declares a pointer to the function type, which is itself a pointer, and then
         * uses the argument as the function. */
        return zoo_aremove_all_watches(zh, path, ZWATCHTYPE_ANY, 0,
                                       (void_completion_t *)(uintptr_t)done, to);
    default:
        return ZBADARGUMENTS;
    }
}

static int store_submit(struct zkl__store *store, uint64_t id, const struct zkl__op *op)
{
    int code = zkl__store_check(op, store->part_bytes), rc = ZOK;
    if (code != ZKL_OK) {
        return code;
    }
    struct zk_op *to = zkl__zalloc(&store->heap, sizeof *to);
    if (!to) {
        return ZKL_ENOMEM;
    }
    *to = (struct zk_op){.store = store, .id = id, .sent_ns = zkl__clock_now(), .kind = op->kind};
    pthread_mutex_lock(&store->mutex);
    zkl__list_append(&store->waiting, &to->link);
    store->op_count++;
    if (store->phase != ZK_OPEN || !store->up) {
        code = ZKL_ECONNECT;
    } else if (store->op_count > zkl__store_zookeeper.ops_max) {
        code = ZKL_ELIMIT;
    } else if ((rc = send_one(to, op)) != ZOK) {
        bool lost = rc == ZINVALIDSTATE || is_unrecoverable(store->zh) != ZOK;
        code = lost ? ZKL_ECONNECT : rc == ZBADARGUMENTS ? ZKL_EINVAL : ZKL_ENOMEM;
    }
    if (rc == ZMARSHALLINGERROR) {
        /* no memory half way: the library may keep it, and complete it later */
        op_mark_replied(to);
    } else if (code != ZKL_OK) {
        op_remove(to);
        op_free(to);
    }
    pthread_mutex_unlock(&store->mutex);
    return code;
}

/* --- the library's log ----------------------------------------------------------------------- */

#define LOG_LINE_MAX 480
#define LOG_SLOTS 32

static _Atomic(struct zkl__store *) slots[LOG_SLOTS];
static struct zkl__store muted; /* in the slot of a store that is closed: its log level is none */
static atomic_uint logging[LOG_SLOTS]; /* threads that are at it */

/* Some of the library's lines end in a newline of their own; server addresses and the like come
 * from outside. */
static void copy_line(char *out, size_t size, const char *words)
{
    size_t length = 0;
    for (; length < size - 1 && words[length]; length++) {
        unsigned char byte = (unsigned char)words[length];
        out[length] = (char)(byte < 0x20 || byte == 0x7f ? ' ' : byte);
    }
    while (length > 0 && out[length - 1] == ' ') {
        length--;
    }
    out[length] = '\0';
}

/* May run with the library's locks held, on its threads and in our calls of it. */
static void log_line(int slot, const char *message)
{
    /* before the look: mute sees either us, or that we have seen it */
    atomic_fetch_add(&logging[slot], 1);
    struct zkl__store *store = atomic_load(&slots[slot]);
    if (store && message) {
        char line[LOG_LINE_MAX];
        /* "2026-01-31 12:00:00,000:123(0x7f):ZOO_WARN@function@123: words". The client library
         * calls every lost connection an error and reports its connecting as information: one level
         * lower than it says, so that an alarm on errors rings for losses alone. */
        const char *mark = strstr(message, ":ZOO_");
        const char *words = mark ? strstr(mark, ": ") : NULL;
        words = words ? words + 2 : message;
        zkl_log_level level = ZKL_LOG_DEBUG;
        if (strstr(message, ":ZOO_ERROR@")) {
            level = ZKL_LOG_WARN;
        } else if (strstr(message, ":ZOO_WARN@")) {
            level = ZKL_LOG_INFO;
        }
        /* The line after this one only has a number. "Starting SASL negotiation: generic failure
         * SASL(-1): generic failure: GSSAPI Error: Unspecified GSS failure.  Minor code may provide
         * more information (Server ... not found in Kerberos database)": what is worth a person's
         * time is at the end. */
        if (store->config.sasl && level == ZKL_LOG_WARN && strstr(words, "SASL negotiation")) {
            static const char *const prefixes[] = {
                "SASL negotiation: ", "generic failure: ", "GSSAPI Error: ", "more information "};
            const char *cause = words;
            for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
                const char *found = strstr(cause, prefixes[i]);
                cause = found ? found + strlen(prefixes[i]) : cause;
            }
            pthread_mutex_lock(&store->complaint_mutex);
            copy_line(store->complaint, sizeof store->complaint, cause);
            pthread_mutex_unlock(&store->complaint_mutex);
        }
        if (level <= store->config.log_level) {
            copy_line(line, sizeof line, words);
            store->events.log(store->ctx, level, line);
        }
    }
    atomic_fetch_sub(&logging[slot], 1);
}

/* clang-format off */
#define LOG_FUNCTIONS(X) \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) \
    X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)
/* clang-format on */

#define LOG_FUNCTION(n)                      \
    static void log_##n(const char *message) \
    {                                        \
        log_line(n, message);                \
    }
LOG_FUNCTIONS(LOG_FUNCTION)

#define LOG_NAME(n) log_##n,
static const log_callback_fn functions[LOG_SLOTS] = {LOG_FUNCTIONS(LOG_NAME)};

/* Never no callback at all: the library would write to stderr. */
static void log_nothing(const char *message)
{
    (void)message;
}

void zkl__zk_log_open(struct zkl__store *store)
{
    store->log_slot = -1;
    store->log_fn = log_nothing;
    for (int i = 0; i < LOG_SLOTS; i++) {
        struct zkl__store *none = NULL;
        if (atomic_compare_exchange_strong(&slots[i], &none, store)) {
            store->log_slot = i;
            store->log_fn = functions[i];
            return;
        }
    }
}

void zkl__zk_log_mute(struct zkl__store *store)
{
    if (store->log_slot >= 0) {
        atomic_store(&slots[store->log_slot], &muted);
        while (atomic_load(&logging[store->log_slot]) > 0) {
            sched_yield(); /* for the time of one line */
        }
    }
}

void zkl__zk_log_close(struct zkl__store *store)
{
    if (store->log_slot >= 0) {
        atomic_store(&slots[store->log_slot], NULL);
    }
}

/* --- events, on the library's completion thread ---------------------------------------------- */

/* Drops the mutex. up: from now on the session is connected. */
static void unlock_and_report(struct zkl__store *store, bool up)
{
    struct zkl__connection connection = {.session_id = zoo_client_id(store->zh)->client_id,
                                         .timeout_ms = store->timeout_ms,
                                         .fresh = !store->fresh_reported,
                                         .began_ns = store->began_ns};
    store->up = store->up || up;
    store->fresh_reported = store->fresh_reported || up;
    zkl__signal_raise(&store->changed);
    pthread_mutex_unlock(&store->mutex);
    if (up) {
        store->events.connected(store->ctx, &connection);
    }
}

static void probed(int rc, const struct Stat *stat, const void *data)
{
    struct zkl__store *store = (struct zkl__store *)(uintptr_t)data;
    (void)stat;
    end_if_refused(store, rc);
    pthread_mutex_lock(&store->mutex);
    store->inside = true;
    store->probe_count--;
    bool answered = zkl__rc_is_response(rc_of(rc)) && store->linked;
    store->drained = answered ? store->phase == ZK_CLOSING : store->drained;
    unlock_and_report(store, answered && store->phase == ZK_OPEN && !store->up);
    leave(store);
}

bool zkl__zk_goodbye(struct zk_goodbye *goodbye, const void *bytes, size_t size)
{
    const unsigned char *at = bytes, *end = at + size;
    while (at < end) {
        if (goodbye->skip > 0) {
            size_t here = (size_t)(end - at) < goodbye->skip ? (size_t)(end - at) : goodbye->skip;
            goodbye->skip -= here;
            at += here;
            continue;
        }
        goodbye->head[goodbye->have++] = *at++;
        if (goodbye->have == sizeof goodbye->head) {
            uint32_t length;
            memcpy(&length, goodbye->head, sizeof length);
            length = ntohl(length);
            /* A header without a body. Events, pings and credentials have negative numbers. */
            if (length == 16 && goodbye->head[4] < 0x80) {
                return true;
            }
            goodbye->have = 0;
            goodbye->skip = length < 4 ? SIZE_MAX : length - 4;
        }
    }
    return false;
}

void zkl__zk_probe(struct zkl__store *store)
{
    store->probe_count += zoo_aexists(store->zh, "/", 0, probed, store) == ZOK;
}

/* A connection or, when it has ended, the session is lost. The library queues this event before the
 * responses that it makes up for pending operations. Nothing waits for them: an op that is
 * submitted while the connection breaks is kept for the next one. */
static void on_lost(struct zkl__store *store, enum zkl__end end)
{
    pthread_mutex_lock(&store->mutex);
    bool was_up = store->up, tell = store->phase != ZK_CLOSED && store->end == ZKL__END_NONE;
    store->linked = store->up = store->drained = false;
    store->answered_ns = store->resolve_ns = 0;
    if (store->end == ZKL__END_NONE) { /* the store reports only the first end of its session */
        store->end = end;
    }
    zkl__signal_raise(&store->changed);
    pthread_mutex_unlock(&store->mutex);
    if (tell && end != ZKL__END_NONE) {
        store->events.expired(store->ctx, end);
    } else if (tell && was_up) {
        store->events.suspended(store->ctx);
    }
    /* Ops in the list are freed on this thread only, or after it was joined; a reply moves them, so
     * the first is looked at anew. */
    struct zkl__reply reply = {.rc = ZKL__RC_UNKNOWN};
    struct zk_op *op;
    do {
        uint64_t id = 0;
        pthread_mutex_lock(&store->mutex);
        op = (struct zk_op *)store->waiting.first;
        if (op) {
            id = op->id;
            op_mark_replied(op);
            zkl__signal_raise(&store->changed);
        }
        tell = op && store->phase != ZK_CLOSED;
        pthread_mutex_unlock(&store->mutex);
        if (tell) {
            store->events.reply(store->ctx, id, &reply);
        }
    } while (op);
}

/* First the loss of the connection before: the library does not report it when its socket is closed
 * from outside its I/O thread (a full pipe, zoo_set_servers).
 *
 * Credentials go out before anybody can submit, for the library puts them in front of its queue,
 * which would cut a request in two that is half sent. Not in open: the library refuses them
 * whenever its last attempt to connect has just failed (ZOOKEEPER-800). From then on it sends them
 * itself, first of all, on every connection. A probe is sent behind them, and its response shows
 * that they were accepted. */
static void on_connected(struct zkl__store *store)
{
    const struct zkl__store_config *config = &store->config;
    on_lost(store, ZKL__END_NONE);
    pthread_mutex_lock(&store->mutex);
    zkl__zk_hide_socket(store);
    /* The session may not be reported before its second connection, which may have got a longer
     * timeout from a server with other bounds. A touch by the first server may still shorten it. */
    int64_t timeout_ms = zoo_recv_timeout(store->zh);
    if (!store->ever || timeout_ms < store->timeout_ms) {
        store->timeout_ms = timeout_ms;
    }
    store->linked = true;
    store->ever = true;
    bool proven = !config->auth_scheme || store->fresh_reported;
    if (store->phase == ZK_OPEN && !proven) {
        /* Refused, it is lost already: with the next one. */
        store->auth_given =
            store->auth_given || zoo_add_auth(store->zh, config->auth_scheme, config->auth,
                                              (int)config->auth_size, NULL, NULL) == ZOK;
        if (store->auth_given) {
            zkl__zk_probe(store);
        }
    }
    unlock_and_report(store, store->phase == ZK_OPEN && proven);
}

/* One function and one context for all watches of a handle: the library calls every distinct pair
 * for every session event, and finds them by a linear search with a lock held. It passes on
 * whatever state a server puts into a watch event (deliverWatchers), also one behind the end of the
 * session: that is no news. Nor is what comes of a handle that was given up. */
void zkl__zk_watcher(zhandle_t *zh, int type, int state, const char *path, void *ctx)
{
    struct zkl__store *store = ctx;
    pthread_mutex_lock(&store->mutex);
    bool ours = zh == store->zh, over = store->end != ZKL__END_NONE,
         tell = store->phase != ZK_CLOSED;
    store->inside = store->inside || ours;
    pthread_mutex_unlock(&store->mutex);
    if (!ours) {
        return;
    }
    bool session = !over && type == ZOO_SESSION_EVENT;
    if (session && state == ZOO_CONNECTED_STATE) {
        on_connected(store);
    } else if (session) {
        on_lost(store, state == ZOO_AUTH_FAILED_STATE       ? ZKL__END_AUTH
                       : state == ZOO_EXPIRED_SESSION_STATE ? ZKL__END_EXPIRED
                                                            : ZKL__END_NONE);
    } else if (!over && tell && path && strncmp(path, store->chroot, strlen(store->chroot)) == 0) {
        enum zkl__watch_event event = ZKL__WATCH_CHANGED;
        if (type == ZOO_CREATED_EVENT) {
            event = ZKL__WATCH_CREATED;
        } else if (type == ZOO_DELETED_EVENT) {
            event = ZKL__WATCH_DELETED;
        } else if (type == ZOO_CHILD_EVENT) {
            event = ZKL__WATCH_CHILDREN;
        }
        path += strlen(store->chroot);
        store->events.watch(store->ctx, event, *path == '\0' ? "/" : path);
    }
    leave(store);
}

/* --- open ------------------------------------------------------------------------------------ */

void zkl__zk_free(struct zkl__store *store)
{
    zkl_heap heap = store->heap;
    zkl__zk_drive_end(store);
    zkl__zk_log_close(store);
    /* What the library never completed. */
    while (store->waiting.first || store->replied.first) {
        struct zk_op *op =
            (struct zk_op *)(store->waiting.first ? store->waiting.first : store->replied.first);
        op_remove(op);
        op_free(op);
    }
    zkl__zk_names_drop(store->names);
    zkl__free(&heap, store->addresses);
    zkl__free(&heap, store->given);
    zkl__signal_deinit(&store->changed);
    pthread_mutex_destroy(&store->mutex);
    pthread_mutex_destroy(&store->complaint_mutex);
    zkl__free(&heap, store);
}

static const zkl_acl_entry anyone = {ZKL_PERM_ALL, "world", "anyone"};
static const zkl_acl open_to_all = {1, &anyone};

static int store_open(struct zkl__store **out, const struct zkl__store_config *config,
                      const struct zkl__store_events *events, void *ctx, zkl_error *err)
{
    int code = zkl__zk_secure_check(config, err);
    if (code != ZKL_OK) {
        return code;
    }
    /* A server shows its certificate when it likes, and who begins with SASL may ask others. */
    if (config->at_once && (config->tls || config->sasl)) {
        return ZKL_EBUSY;
    }
    struct zkl__store *store = zkl__zalloc(&config->heap, sizeof *store);
    if (!store) {
        return zkl__fail_at(err, ZKL_ENOMEM, NULL, "out of memory");
    }
    store->heap = config->heap;
    store->events = *events;
    store->ctx = ctx;
    store->config = *config;
    if (!config->acl) {
        store->config.acl = config->auth_scheme ? &zkl__store_creator_only : &open_to_all;
    }
    store->chroot = config->servers + strcspn(config->servers, "/");
    store->chroot += strcmp(store->chroot, "/") == 0;
    store->part_bytes = strlen(store->chroot) + zkl__acl_size(store->config.acl);
    pthread_mutex_init(&store->complaint_mutex, NULL);
    pthread_mutex_init(&store->mutex, NULL);
    zkl__signal_init(&store->changed);
    zkl__zk_log_open(store);
    code = zkl__zk_names_new(&store->names, config, err);
    if (code == ZKL_OK && config->at_once && !store->names->numeric) {
        code = ZKL_EBUSY;
    }
    if (code == ZKL_OK && (code = zkl__zk_drive_start(store)) != ZKL_OK) {
        zkl__fail_at(err, code, NULL, "%s", zkl_strerror(code));
    }
    if (code != ZKL_OK) {
        zkl__zk_free(store);
        return code;
    }
    /* A name server that does not respond soon is left to tick, and with TLS a server. */
    int hosts = (int)strcspn(config->servers, "/");
    zkl__zk_names_resolve(store->names);
    bool answered = zkl__zk_names_wait(store->names, NAMES_WAIT_MS);
    /* Events wait at the mutex until *out is written. */
    pthread_mutex_lock(&store->mutex);
    code = zkl__zk_take_addresses(store, err);
    if (code == ZKL_OK && answered && !store->zh) {
        char why[ZKL_ERROR_TEXT_MAX];
        zkl__zk_names_why(store->names, why, sizeof why);
        code = config->tls
                   ? zkl__fail_at(err, ZKL_ECONNECT, NULL, "%s", why)
                   : zkl__fail_at(err, ZKL_ECONNECT, NULL, "no server name of %.*s resolves", hosts,
                                  config->servers);
    }
    if (code == ZKL_OK) {
        *out = store;
    }
    pthread_mutex_unlock(&store->mutex);
    if (code != ZKL_OK) {
        zkl__zk_free(store);
    }
    return code;
}

/* --- housekeeping ---------------------------------------------------------------------------- */

static int64_t store_tick(struct zkl__store *store, int64_t now)
{
    int64_t next = INT64_MAX;
    bool without = false; /* an address, for a while */
    pthread_mutex_lock(&store->mutex);
    bool open = store->phase == ZK_OPEN && store->end == ZKL__END_NONE;
    /* The library does not report that SASL failed: it sets the state of the handle, and its I/O
     * thread ends (zk_sasl.c, zoo_sasl_mark_failed). */
    bool failed =
        open && store->config.sasl && store->zh && zoo_state(store->zh) == ZOO_AUTH_FAILED_STATE;
    if (open && !failed && !store->linked) {
        /* Servers may have moved to other addresses while we were connected to one: ask, when the
         * connection is lost, and again. */
        if (now >= store->resolve_ns) {
            without = store->resolve_ns > 0 && !store->zh;
            zkl__zk_names_resolve(store->names);
            store->resolve_ns = now + (store->zh ? RESOLVE_NS : REFRESH_NS);
        }
        bool answered = zkl__zk_names_wait(store->names, 0);
        if (answered || !store->zh) {
            (void)zkl__zk_take_addresses(store, NULL); /* what fails now is tried again */
        }
        int64_t attempt = zkl__zk_attempt_next(store, now);
        next = now + (answered ? REFRESH_NS : NUDGE_NS);
        next = attempt < next ? attempt : next;
    } else if (open && !failed && store->waiting.first) {
        /* ZOOKEEPER-4537: a server may commit a write and then sleep on it until it gets another
         * request; and the library sends no pings while it waits for a response. So send a request.
         */
        int64_t sent = ((struct zk_op *)store->waiting.first)->sent_ns;
        int64_t since = sent > store->nudge_ns ? sent : store->nudge_ns;
        if (now - since >= NUDGE_NS) {
            zkl__zk_probe(store);
            since = store->nudge_ns = now;
        }
        next = since + NUDGE_NS;
    }
    pthread_mutex_unlock(&store->mutex);
    if (without) {
        char why[ZKL_ERROR_TEXT_MAX];
        zkl__zk_names_why(store->names, why, sizeof why);
        if (why[0]) { /* else the list came meanwhile */
            store->events.log(store->ctx, ZKL_LOG_WARN, why);
        }
    }
    if (failed) {
        on_lost(store, ZKL__END_AUTH);
    }
    return next;
}

static void store_complaint(struct zkl__store *store, char *text, size_t size)
{
    pthread_mutex_lock(&store->mutex);
    bool known = store->addresses != NULL;
    pthread_mutex_unlock(&store->mutex);
    if (!known) {
        zkl__zk_names_why(store->names, text, size);
        return;
    }
    pthread_mutex_lock(&store->complaint_mutex);
    snprintf(text, size, "%s", store->complaint);
    pthread_mutex_unlock(&store->complaint_mutex);
}

/* --- close ----------------------------------------------------------------------------------- */

/* Until every response was read: a socket that is closed with responses unread resets the
 * connection, the server then drops the library's closeSession, and the session with its znodes
 * lives on for its whole timeout. Sends a probe, unless nothing is on its way. Sends it again,
 * after twice the time each: more often than the network responds, a response would always be on
 * its way. False: responses are still to be read, and there is time; again at *wake. */
static bool drain(struct zkl__store *store, int64_t deadline, int64_t *wake)
{
    int64_t now = zkl__clock_now();
    if (store->phase == ZK_OPEN) {
        store->phase = ZK_CLOSING;
        store->drain_ns = store->probe_ns = now;
        /* The last request was sent a moment ago and has its response, so no ping is on its way
         * either: the library sends one when it has sent nothing for a third of the session timeout
         * (zookeeper_interest). */
        store->drained = store->linked && store->op_count == 0 && store->answered_ns > 0 &&
                         now - store->answered_ns < zoo_recv_timeout(store->zh) * ZKL__MS / 6;
    }
    bool all = store->drained && !store->waiting.first && store->probe_count == 0;
    if (!store->ever || store->end != ZKL__END_NONE || all || now >= deadline) {
        store->all_read = all;
        store->close_code = store->end == ZKL__END_EXPIRED ? ZKL_OK
                            : store->linked                ? ZKL_ETIMEOUT
                                                           : ZKL_ECONNECT;
        return true;
    }
    if (store->linked && now >= store->probe_ns) {
        zkl__zk_probe(store);
        int64_t pause = now - store->drain_ns;
        store->probe_ns = now + (pause > NUDGE_NS ? pause : NUDGE_NS);
    }
    *wake = now + NUDGE_NS < deadline ? now + NUDGE_NS : deadline;
    return false;
}

static int store_close(struct zkl__store *store, int64_t timeout_ms, int64_t *again_ms)
{
    bool limited = timeout_ms >= 0 && timeout_ms <= INT64_MAX / ZKL__MS / 2, parted = false;
    int64_t deadline = limited ? zkl__clock_now() + timeout_ms * ZKL__MS : INT64_MAX, wake;
    pthread_mutex_lock(&store->mutex);
    while (!parted) {
        if (store->phase == ZK_CLOSED || drain(store, deadline, &wake)) {
            store->phase = ZK_CLOSED;
            wake = deadline;
            pthread_mutex_unlock(&store->mutex);
            parted = zkl__zk_part(store, deadline);
            pthread_mutex_lock(&store->mutex);
        }
        if (!parted && again_ms && zkl__threadless) {
            int64_t left = wake - zkl__clock_now();
            *again_ms = wake == INT64_MAX ? ZKL_WAIT_FOREVER : left > 0 ? left / ZKL__MS + 1 : 1;
            pthread_mutex_unlock(&store->mutex);
            return ZKL_OK;
        }
        if (!parted) {
            zkl__signal_wait(&store->changed, &store->mutex, wake);
        }
    }
    int code = store->all_read && store->confirmed ? ZKL_OK : store->close_code;
    bool orphaned = store->orphaned = store->parting > 0;
    code = orphaned && code == ZKL_OK ? ZKL_ETIMEOUT : code; /* the heap is in use */
    pthread_mutex_unlock(&store->mutex);
    if (!orphaned) {
        zkl__zk_free(store);
    }
    return code;
}

const struct zkl__store_ops zkl__store_zookeeper = {
    .has_observers = true,
    .watch_bytes_max = 700000, /* ZOOKEEPER-706: all watches are set again in one packet, and the
                                  server takes 1 MB */
    .ops_max = 10000,
    .open = store_open,
    .submit = store_submit,
    .tick = store_tick,
    .close = store_close,
    .complaint = store_complaint,
};
