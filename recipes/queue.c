/* queue.c - the list of a queue and the list of a group's members; and for operators, the removal
 * of a contender, and the request to a holder to release. */
#include "call.h"
#include "children.h"
#include "name.h"
#include "options.h"

#include <zklock/group.h>
#include <zklock/lock.h>
#include <zklock/queue.h>

#include <string.h>

/* The children of a path. The caller gets a pointer to the first member. */
struct snapshot {
    union {
        zkl_queue queue;
        zkl_members members;
    } public;
    zkl_heap heap;
    struct zkl__children *names;
    bool failed;               /* no memory for some data */
    zkl_queue_entry entries[]; /* one for each name; name NULL: no contender's, or deleted before it
                                  was read. As many members follow, or the names of no contenders */
};

struct queue_call {
    struct zkl__call call; /* first */
    zkl_queue **out;
    zkl_members **members;
    struct snapshot *snapshot;
    char given[ZKL__NAME_LONGEST + 1]; /* the name of a contender's znode; "": none was given */
    int64_t token;                     /* of that znode; 0: any */
    struct zkl__removal removal;
    const char *node; /* the znode of the holder that should release */
    bool refuses;
};

void zkl_queue_free(zkl_queue *queue)
{
    struct snapshot *snapshot = (struct snapshot *)queue;
    if (!queue) {
        return;
    }
    zkl_heap heap = snapshot->heap;
    for (size_t i = 0; i < snapshot->names->count; i++) {
        zkl__free(&heap, snapshot->entries[i].data);
    }
    zkl__free(&heap, snapshot->names);
    zkl__free(&heap, snapshot);
}

/* --- the list of a queue --------------------------------------------------------------------- */

/* Of the list. Without memory there is no snapshot. */
static void make_snapshot(struct queue_call *q)
{
    const zkl_heap *heap = &q->call.session->heap;
    struct zkl__children *names = q->call.children;
    struct snapshot *snapshot =
        names ? zkl__zalloc(heap, sizeof *snapshot +
                                      names->count * (sizeof(zkl_queue_entry) + sizeof(zkl_member)))
              : NULL;
    q->snapshot = snapshot;
    if (!snapshot) {
        return;
    }
    snapshot->heap = *heap;
    snapshot->names = names;
    q->call.children = NULL;
    if (q->members) {
        return;
    }
    zkl_queue *public = &snapshot->public.queue;
    const char **foreign = (const char **)(snapshot->entries + names->count);
    public->foreign_names = foreign;
    for (size_t i = 0; i < names->count; i++) {
        if (!zkl__name_contends(names->all[i].name)) {
            foreign[public->foreign++] = names->all[i].name;
            names->all[i].verdict = ZKL__CHILD_PERSISTENT; /* it is not read */
        }
    }
}

static void take_entry(struct zkl__call *call, const struct zkl__reply *reply)
{
    struct snapshot *snapshot = ((struct queue_call *)call)->snapshot;
    struct zkl__child *child = call->child;
    struct zkl__name name = zkl__name_parse(child->name);
    zkl_queue_entry *entry = &snapshot->entries[child - snapshot->names->all];
    bool there = reply->rc == ZKL__RC_OK;
    if (reply->rc == ZKL__RC_NOAUTH) {
        child->verdict = ZKL__CHILD_UNKNOWN; /* exists is to be sent */
    }
    if (reply->rc == ZKL__RC_NONODE) {
        entry->name = NULL;
        return;
    }
    *entry = (zkl_queue_entry){.name = child->name,
                               .kind = name.kind,
                               .sequence = name.sequence,
                               .readable = there && call->op.kind == ZKL__OP_GET};
    if (there) {
        entry->token = reply->stat.czxid;
        entry->session_id = reply->stat.ephemeral_owner;
        entry->created_ms = reply->stat.ctime_ms;
    }
    if (entry->readable) {
        entry->data_size = reply->size < ZKL_DATA_MAX ? reply->size : ZKL_DATA_MAX;
        entry->data = zkl__copy(&snapshot->heap, reply->data, entry->data_size);
        snapshot->failed |= !entry->data;
    }
}

/* By sequence number. A downgraded reader of Curator has its writer's number: those by name. */
static int compare_entries(const void *left, const void *right)
{
    const zkl_queue_entry *a = left, *b = right;
    if (!a->name || !b->name) {
        return (a->name == NULL) - (b->name == NULL); /* deleted ones last */
    }
    int32_t diff = zkl__sequence_diff(a->sequence, b->sequence);
    return diff ? (diff > 0) - (diff < 0) : strcmp(a->name, b->name);
}

/* When a reply is lost, the request is sent again. The call's answer is that of the list. */
static int read_children(struct queue_call *q)
{
    struct zkl__part *it = &q->call.part;
    CALL_BEGIN(it);
    AWAIT(it, {.kind = ZKL__OP_CHILDREN});
    make_snapshot(q);
    if (q->snapshot) {
        AWAIT_CHILDREN(it, q->snapshot->names, take_entry, {.kind = ZKL__OP_GET});
        /* Contenders pass over a znode that may not be read, too, when it is no session's. */
        AWAIT_CHILDREN(it, q->snapshot->names, take_entry, {.kind = ZKL__OP_EXISTS});
    }
    CALL_END(it);
}

/* Of what was read. */
static int make_queue(struct queue_call *q)
{
    struct snapshot *snapshot = q->snapshot;
    CHECK_REPLY(&q->call, "its children may not be listed");
    if (!snapshot || snapshot->failed) {
        FAIL(&q->call, ZKL_ENOMEM, "no memory for the queue");
    }
    zkl_queue *public = &snapshot->public.queue;
    public->entries = snapshot->entries;
    /* Numbers go round, and anybody makes names: in no order that qsort may rely on. */
    zkl__sort(snapshot->entries, snapshot->names->count, sizeof *snapshot->entries,
              compare_entries);
    while (public->count < snapshot->names->count && snapshot->entries[public->count].name) {
        int64_t created_ms = snapshot->entries[public->count++].created_ms;
        public->server_ms = created_ms > public->server_ms ? created_ms : public->server_ms;
    }
    zkl__queue_judge(snapshot->entries, public->count, &q->call.answer.stat);
    return ZKL_OK;
}

static int run_list(struct zkl__call *call)
{
    struct queue_call *q = (struct queue_call *)call;
    CALL_BEGIN(call);
    AWAIT_CALL(call, read_children(q));
    AWAIT_CALL(call, make_queue(q));
    *q->out = &q->snapshot->public.queue;
    q->snapshot = NULL;
    CALL_END(call);
}

static int end(struct zkl__call *call, int rc)
{
    zkl_queue_free((zkl_queue *)((struct queue_call *)call)->snapshot);
    return rc;
}

int zkl_queue_list_async(zkl_queue **out, zkl_session *session, const char *path,
                         int64_t timeout_ms, zkl_done_fn done, void *payload, zkl_error *err)
{
    struct queue_call given = {.call = {.run = run_list, .end = end}, .out = out};
    ZKL__CLEAR(out);
    if (!out) {
        return zkl__fail_null(err, "out");
    }
    given.call.any_path = path && strcmp(path, "/") == 0; /* it is no queue, but may be listed */
    return zkl__call_go(&given, sizeof given, session, path, timeout_ms, done, payload, err);
}

int zkl_queue_list(zkl_queue **out, zkl_session *session, const char *path, int64_t timeout_ms,
                   zkl_error *err)
{
    return zkl_queue_list_async(out, session, path, timeout_ms, zkl__caller_waits, NULL, err);
}

/* --- the list of a group's members ------------------------------------------------------------ */

/* Reads only: when a reply is lost, the request is sent again. */
static int run_members(struct zkl__call *call)
{
    struct queue_call *q = (struct queue_call *)call;
    const char *contender = NULL;
    CALL_BEGIN(call);
    AWAIT_CALL(call, read_children(q));
    CHECK_REPLY(call, "its members may not be listed");
    size_t count = q->snapshot ? q->snapshot->names->count : 0;
    for (size_t i = 0; i < count; i++) {
        const zkl_queue_entry *entry = &q->snapshot->entries[i];
        zkl_members *public = &q->snapshot->public.members;
        if (!entry->name || q->snapshot->names->all[i].verdict == ZKL__CHILD_PERSISTENT) {
            continue; /* it was deleted before the read, or is no member */
        }
        contender = entry->readable && zkl__name_parse(entry->name).uuid ? entry->name : contender;
        zkl_member *members = (zkl_member *)(q->snapshot->entries + count);
        members[public->count++] = (zkl_member){.id = entry->name,
                                                .data = entry->data,
                                                .data_size = entry->data_size,
                                                .token = entry->token,
                                                .session_id = entry->session_id,
                                                .readable = entry->readable};
        public->members = members;
    }
    if (contender) {
        FAIL(call, ZKL_ECONFLICT, "the path is in use as a lock or an election: %.80s", contender);
    }
    if (!q->snapshot || q->snapshot->failed) {
        FAIL(call, ZKL_ENOMEM, "no memory for the members");
    }
    *q->members = &q->snapshot->public.members;
    q->snapshot = NULL;
    CALL_END(call);
}

void zkl_members_free(zkl_members *members)
{
    zkl_queue_free((zkl_queue *)members);
}

int zkl_group_list_async(zkl_members **out, zkl_session *session, const char *path,
                         int64_t timeout_ms, zkl_done_fn done, void *payload, zkl_error *err)
{
    struct queue_call given = {.call = {.run = run_members, .end = end}, .members = out};
    ZKL__CLEAR(out);
    if (!out) {
        return zkl__fail_null(err, "out");
    }
    return zkl__call_go(&given, sizeof given, session, path, timeout_ms, done, payload, err);
}

int zkl_group_list(zkl_members **out, zkl_session *session, const char *path, int64_t timeout_ms,
                   zkl_error *err)
{
    return zkl_group_list_async(out, session, path, timeout_ms, zkl__caller_waits, NULL, err);
}

static int take_node(struct queue_call *q, const char *path, const char *node, zkl_error *err)
{
    return !strchr(node, '/') && zkl__name_contends(node) &&
                   zkl__text_copy(q->given, sizeof q->given, node)
               ? ZKL_OK
               : zkl__fail_at(err, ZKL_EINVAL, path, "node is not the name of a contender's znode");
}

/* --- the removal of a contender -------------------------------------------------------------- */

#define NO_SUCH "no such contender: it released, or left the queue"

static int run_remove(struct zkl__call *call)
{
    struct queue_call *q = (struct queue_call *)call;
    CALL_BEGIN(call);
    q->removal = (struct zkl__removal){.name = q->given, .czxid = q->token};
    AWAIT_CALL(call, zkl__remove(call, &q->removal));
    if (call->answer.rc == ZKL__RC_NONODE) {
        FAIL(call, ZKL_ENOTHELD, NO_SUCH);
    }
    if (call->answer.rc == ZKL__RC_NOAUTH && q->token == 0) {
        /* Since ZooKeeper 3.8.4 and 3.9.2 exists needs READ, and delete does not. Without a token
         * any znode of this name may be deleted. After a lost reply, the second copy finds no
         * znode. */
        AWAIT(call, {.kind = ZKL__OP_DELETE, .name = q->given, .version = -1});
    }
    if (call->answer.rc == ZKL__RC_NOTEMPTY) {
        FAIL_REPLY(
            call, ZKL_EINVAL,
            "it has children, so it is no contender's: delete it with 'deleteall' of zkCli.sh");
    }
    CHECK_REPLY(call, "the contender's znode may not be removed");
    CALL_END(call);
}

int zkl_queue_remove_async(zkl_session *session, const char *path, const char *node, int64_t token,
                           int64_t timeout_ms, zkl_done_fn done, void *payload, zkl_error *err)
{
    struct queue_call given = {.call = {.run = run_remove}, .token = token};
    if (!node) {
        return zkl__fail_null(err, "node");
    }
    if (token < 0) {
        return zkl__fail_at(err, ZKL_EINVAL, path, "token is %lld", (long long)token);
    }
    int rc = take_node(&given, path, node, err);
    return rc == ZKL_OK
               ? zkl__call_go(&given, sizeof given, session, path, timeout_ms, done, payload, err)
               : rc;
}

int zkl_queue_remove(zkl_session *session, const char *path, const char *node, int64_t token,
                     int64_t timeout_ms, zkl_error *err)
{
    return zkl_queue_remove_async(session, path, node, token, timeout_ms, zkl__caller_waits, NULL,
                                  err);
}

/* --- the request to release ------------------------------------------------------------------ */

/* The contender has the holder's side of it (protocol/contender.h, revocable). */
static int run_revoke(struct zkl__call *call)
{
    struct queue_call *q = (struct queue_call *)call;
    const struct zkl__answer *answer = &call->answer;
    CALL_BEGIN(call);
    q->node = q->given;
    if (!q->given[0]) {
        AWAIT_CALL(call, read_children(q));
        AWAIT_CALL(call, make_queue(q));
        const zkl_queue *queue = &q->snapshot->public.queue;
        size_t i = 0;
        // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): make_queue has made it
        while (i < queue->count && !queue->entries[i].holds) {
            i++;
        }
        if (i == queue->count) {
            FAIL(call, ZKL_ENOTHELD, "nobody holds it or waits for it");
        }
        q->node = queue->entries[i].name;
    }
    q->refuses = zkl__name_refuses_requests(q->node);
    /* Sent once, because a second copy would be a second request. When the reply is lost, the error
     * says so. A holder that refuses requests is not written to. A check then says whether the
     * znode exists. */
    for (;;) {
        AWAIT_ONCE(call, NULL,
                   {.kind = q->refuses ? ZKL__OP_CHECK : ZKL__OP_SET,
                    .name = q->node,
                    .data = ZKL__REVOKE,
                    .size = sizeof ZKL__REVOKE - 1,
                    .version = -1});
        if (answer->rc != ZKL__RC_UNSENT) {
            break;
        }
        AWAIT(call, {.kind = ZKL__OP_EXISTS}); /* until there is a connection */
    }
    if (answer->rc == ZKL__RC_NONODE) {
        FAIL(call, ZKL_ENOTHELD, NO_SUCH);
    }
    if (answer->rc == ZKL__RC_NOAUTH || (answer->rc == ZKL__RC_OK && q->refuses)) {
        FAIL_REPLY(call, ZKL_EAUTH,
                   "the request may not be written: the holder does not listen (it has "
                   "no revoke_fn), or the access list of its znode does not permit "
                   "it");
    }
    CHECK_REPLY(call, "the request may not be written");
    CALL_END(call);
}

int zkl_queue_revoke_async(zkl_session *session, const char *path, const char *node,
                           int64_t timeout_ms, zkl_done_fn done, void *payload, zkl_error *err)
{
    struct queue_call given = {.call = {.run = run_revoke, .end = end}};
    int rc = node ? take_node(&given, path, node, err) : ZKL_OK;
    return rc == ZKL_OK
               ? zkl__call_go(&given, sizeof given, session, path, timeout_ms, done, payload, err)
               : rc;
}

int zkl_queue_revoke(zkl_session *session, const char *path, const char *node, int64_t timeout_ms,
                     zkl_error *err)
{
    return zkl_queue_revoke_async(session, path, node, timeout_ms, zkl__caller_waits, NULL, err);
}
