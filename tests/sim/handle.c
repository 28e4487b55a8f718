/* handle.c - the client library and its store adapter, as store.h promises them: what it tells its core, in order, at once or later, as the
 * completion thread of the library would; its connections; and what the core asks of it. */

#include "core_internal.h"
#include "sim.h"
#include "invariants.h"

static struct sim_handle *handle_of(struct sim *s, int client)
{
    return &s->clients[client].handle;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names in no order at all: a HashSet has none. For explore.c, where equal worlds must be equal, in one. */
static size_t list_children(const struct sim *s, int path, int64_t zxid, const char **out)
{
    size_t count = 0;
    SIM_EACH_CHILD (s, node, path, zxid) {
        out[count++] = sim_node_name(s, node);
    }
    if (s->plan->delay == 0) {
        qsort(out, count, sizeof *out, by_name);
        return count;
    }
    for (size_t i = count; i > 1; i--) {
        size_t other = dice_at(s->seed, zxid, i) % i;
        const char *name = out[i - 1];
        out[i - 1] = out[other];
        out[other] = name;
    }
    return count;
}

/* Of one that failed, the parts before the culprit are rolled back with code 0, those behind it with -2. */
static void fill_parts(const struct sim *s, const struct sim_message *message, struct zkl__reply *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct sim_part *part = &s->parts[message->parts + (int)i];
        bool done = part->rc == ZKL__RC_OK && message->rc == ZKL__RC_OK;
        parts[i] = (struct zkl__reply){.rc = part->rc == ZKL__RC_OK && !done ? ZKL__RC_ROLLEDBACK : part->rc,
                                       .zk_code = sim_zk_code(part->rc)};
        if (done && part->op == ZKL__OP_CREATE) {
            parts[i].name = sim_node_name(s, part->node);
        } else if (done && part->op == ZKL__OP_SET) {
            sim_stat_at(s, part->node, message->zxid, &parts[i].stat);
        }
    }
}

/* A joint's contender lists for itself: of what it is told the others of its process in that queue learn nothing, nor it of theirs. */
static bool lists_apart(const struct zkl__core *core, const char *path)
{
    int count = 0;
    bool joint = false;
    if (!core) {
        return false;
    }
    ZKL__EACH (const struct zkl__contender, c, &core->machines[ZKL__RANK_FIRST], machine.in_session) {
        bool there = strcmp(c->config.path, path) == 0;
        count += there;
        joint = joint || (there && c->multi);
    }
    return joint && count > 1;
}

/* What the core has been told of a queue: all that had happened there up to zxid. */
static void note_shown(struct sim *s, int client, int path, int64_t zxid, bool list)
{
    struct sim_client *it = &s->clients[client];
    int queue = s->paths[path].queue, leases = s->paths[path].leases;
    if (queue >= 0 && !lists_apart(it->core, s->paths[path].text)) {
        it->shown_zxid[queue] = zxid;
        it->listed_zxid[queue] = list ? zxid : it->listed_zxid[queue];
    }
    if (list && leases >= 0) {
        it->leases_zxid[leases] = zxid;
    }
}

/* The reply is made of the tree as the server had it when it answered. */
static void tell_reply(struct sim *s, int client, const struct sim_message *message)
{
    /* each process's own: in shell/ its thread may be switched away while it reads them */
    static const char *all_children[SIM_CLIENTS][SIM_PATHS];
    static struct zkl__reply all_parts[SIM_CLIENTS][SIM_PARTS];
    const char **children = all_children[client];
    struct zkl__reply *parts = all_parts[client];
    struct zkl__reply reply = {.rc = message->rc, .zk_code = sim_zk_code(message->rc)};
    const struct sim_part *asked = &message->part;

    bool told = asked->op != ZKL__OP_DELETE && asked->op != ZKL__OP_CHECK;
    if (reply.rc == ZKL__RC_OK && message->node >= 0 && told) {
        sim_stat_at(s, message->node, message->zxid, &reply.stat);
        reply.name = asked->op == ZKL__OP_CREATE ? sim_node_name(s, message->node) : NULL;
        if (asked->op == ZKL__OP_GET) {
            const struct sim_value *value = sim_value_at(s, message->node, message->zxid);
            reply.data = value->data;
            reply.size = value->size;
        }
    }
    if (asked->op == ZKL__OP_CHILDREN && reply.rc == ZKL__RC_OK) {
        reply.children = children;
        reply.child_count = list_children(s, asked->path, message->zxid, children);
        note_shown(s, client, asked->path, message->zxid, true);
    }
    if (asked->op == ZKL__OP_MULTI && message->parts >= 0) {
        reply.part_count = message->part_count;
        reply.parts = parts;
        fill_parts(s, message, parts, reply.part_count);
    }
    sim_say(s, "reply", "%d: %s %s %s", client, op_name(asked->op), asked->path >= 0 ? s->paths[asked->path].text : "",
            zkl__rc_name(reply.rc));
    sim_core_event(s, client, (struct zkl__event){.kind = ZKL__EV_REPLY, .id = message->id, .reply = &reply});
}

static void tell(struct sim *s, int client, const struct sim_message *message)
{
    struct sim_handle *handle = handle_of(s, client);
    const struct zkl__core *core = s->clients[client].core;
    struct zkl__event event = {.kind = ZKL__EV_SUSPENDED};
    switch (message->kind) {
    case SIM_MSG_REPLY:
        tell_reply(s, client, message);
        return;
    case SIM_MSG_EVENT:
        sim_say(s, "watch", "%d: %s", client, s->paths[message->path].text);
        /* A watch outlives the contender that set it: an event that nobody in the core waits for tells the core nothing. */
        if (!core || zkl__map_find(&core->watches, s->paths[message->path].text)) {
            note_shown(s, client, s->paths[message->path].parent, message->zxid, false);
        }
        event.kind = ZKL__EV_WATCH;
        event.watch = (enum zkl__watch_event)message->event;
        event.path = s->paths[message->path].text;
        break;
    case SIM_MSG_WELCOME:
        handle->untold--;
        event.kind = message->session < 0 ? ZKL__EV_EXPIRED : ZKL__EV_CONNECTED;
        event.code = ZKL_ELOST;
        event.session_id = message->session + 1;
        event.timeout = message->zxid;
        if (message->session >= 0 && (message->watch || event.timeout < handle->shortest_told)) {
            handle->shortest_told = event.timeout;
        }
        event.fresh = message->watch;
        event.began = message->timeout;
        sim_say(s, "handle", "%d: %s", client, message->session < 0 ? "expired" : "connected");
        break;
    default:
        s->clients[client].suspended = true;
        sim_say(s, "handle", "%d: suspended", client);
        break;
    }
    sim_core_event(s, client, event);
}

/* Kinds in the inbox: REPLY, EVENT, WELCOME (connected or expired), EOF (suspended). */
static void put(struct sim *s, int client, struct sim_message *message)
{
    if (s->shell || s->plan->inbox_delay > 0) {
        sim_channel_push(s, &handle_of(s, client)->inbox, SLOT_INBOX + client, message);
        return;
    }
    tell(s, client, message);
    sim_message_free(s, message);
}

void sim_inbox_due(struct sim *s, int client)
{
    struct sim_message *message = sim_channel_pop(s, &handle_of(s, client)->inbox, SLOT_INBOX + client);
    tell(s, client, message);
    sim_message_free(s, message);
}

/* --- connecting ------------------------------------------------------------------------------------------------------ */

static void attempt(struct sim *s, int client)
{
    struct sim_handle *handle = handle_of(s, client);
    handle->conn = sim_conn_open(s, client, handle->server);
    handle->server = (handle->server + 1) % s->server_count;
    handle->state = SIM_HANDLE_CONNECTING;
    handle->began = sim_local(s, client, sim_now(s));
    handle->last_received = sim_now(s);
    struct sim_message *message = sim_message_new(s, SIM_MSG_CONNECT);
    message->session = handle->session;
    message->zxid = handle->last_zxid;
    message->timeout = s->plan->timeout;
    sim_conn_send(s, handle->conn, message);
    sim_arm(s, SLOT_LIBRARY + client, sim_now(s) + handle->timeout * 2 / 3);
}

void sim_handle_open(struct sim *s, int client)
{
    struct sim_handle *handle = handle_of(s, client);
    int server = (int)(dice_at(s->seed, SLOT_LIBRARY + client, s->clients[client].incarnation++) % s->server_count);
    *handle = (struct sim_handle){
        .state = SIM_HANDLE_WAITING, .conn = -1, .session = -1, .server = server, .timeout = s->plan->timeout};
    sim_arm(s, SLOT_LIBRARY + client, sim_now(s) + SIM_MS);
}

static struct sim_message *unknown_reply(struct sim *s, uint64_t id, enum zkl__op_kind op, int path)
{
    struct sim_message *message = sim_message_new(s, SIM_MSG_REPLY);
    message->id = id;
    message->rc = ZKL__RC_UNKNOWN;
    message->part.op = op;
    message->part.path = path;
    return message;
}

static struct sim_outstanding take_outstanding(struct sim_handle *handle)
{
    assert(handle->count > 0);
    handle->count--;
    return handle->outstanding[handle->first++ % SIM_OUTSTANDING];
}

void sim_handle_cut(struct sim *s, int client, int keep)
{
    struct sim_handle *handle = handle_of(s, client);
    bool connected = handle->state == SIM_HANDLE_CONNECTED;
    sim_conn_abandon(s, handle->conn, keep);
    handle->conn = -1;
    handle->state = SIM_HANDLE_WAITING;
    sim_arm(s, SLOT_LIBRARY + client, sim_now(s) + SIM_MS + handle->timeout / 60);
    if (!connected) {
        return;
    }
    put(s, client, sim_message_new(s, SIM_MSG_EOF));
    /* Those before the loss; the core submits nothing after `suspended`. */
    for (unsigned left = handle->count; left > 0; left--) {
        struct sim_outstanding each = take_outstanding(handle);
        if (each.id > 0) {
            put(s, client, unknown_reply(s, each.id, each.op, each.path));
        }
    }
}

void sim_handle_close(struct sim *s, int client)
{
    struct sim_handle *handle = handle_of(s, client);
    if (handle->conn >= 0) {
        if (handle->state == SIM_HANDLE_CONNECTED) {
            sim_conn_send(s, handle->conn, sim_message_new(s, SIM_MSG_CLOSE));
        }
        sim_conn_abandon(s, handle->conn, SIM_MESSAGES);
    }
    handle->conn = -1;
    handle->state = SIM_HANDLE_OFF;
    sim_channel_cut(s, &handle->inbox, SLOT_INBOX + client, 0);
    sim_arm(s, SLOT_LIBRARY + client, SIM_NEVER);
}

void sim_handle_due(struct sim *s, int client)
{
    struct sim_handle *handle = handle_of(s, client);
    int64_t silent = sim_now(s) - handle->last_received;
    int64_t patience = handle->timeout * 2 / 3;
    if (handle->state == SIM_HANDLE_WAITING) {
        attempt(s, client);
        return;
    }
    if (silent >= patience) {
        sim_say(s, "handle", "%d: nothing heard for too long", client);
        sim_handle_cut(s, client, SIM_MESSAGES);
        return;
    }
    if (handle->count == 0 && sim_now(s) - handle->last_sent >= handle->timeout / 3) {
        sim_conn_send(s, handle->conn, sim_message_new(s, SIM_MSG_PING));
        handle->last_sent = sim_now(s);
    }
    int64_t due = handle->last_received + patience;
    int64_t next_ping = handle->last_sent + handle->timeout / 3;
    sim_arm(s, SLOT_LIBRARY + client, next_ping > sim_now(s) && next_ping < due ? next_ping : due);
}

/* --- what a server says ---------------------------------------------------------------------------------------------- */

static void welcomed(struct sim *s, int client, struct sim_message *message)
{
    struct sim_handle *handle = handle_of(s, client);
    message->watch = handle->session < 0;
    handle->timeout = message->zxid = message->timeout;
    message->timeout = handle->began;
    handle->untold++;
    if (message->session < 0) {
        sim_conn_abandon(s, handle->conn, 0);
        handle->conn = -1;
        handle->state = SIM_HANDLE_OFF;
        sim_arm(s, SLOT_LIBRARY + client, SIM_NEVER);
        put(s, client, message);
        return;
    }
    handle->state = SIM_HANDLE_CONNECTED;
    handle->session = message->session;
    handle->last_sent = sim_now(s);
    sim_arm(s, SLOT_LIBRARY + client, sim_now(s) + handle->timeout / 3);
    if (handle->watches.count > 0) {
        struct sim_message *again = sim_message_new(s, SIM_MSG_SETWATCHES);
        again->zxid = handle->last_zxid;
        sim_conn_send(s, handle->conn, again);
    }
    put(s, client, message);
}

static void take_reply(struct sim *s, int client, struct sim_message *message)
{
    struct sim_handle *handle = handle_of(s, client);
    struct sim_outstanding asked = take_outstanding(handle);
    assert(asked.id == message->id || asked.id == 0);
    handle->last_zxid = sim_max(handle->last_zxid, message->zxid);
    /* A watch is registered here when the reply says that the server has it (zookeeper.c, activateWatcher). */
    if (asked.op == ZKL__OP_UNWATCH) {
        sim_watch_take(&handle->watches, asked.path, ~0u);
    } else if (asked.watch) {
        sim_watch_set(&handle->watches, asked.op, asked.path, message->rc, SIM_WATCH_EXIST);
    }
    if (message->rc == ZKL__RC_NOAUTH) {
        sim_judge_refused(s, client, asked.op, asked.path);
    }
    if (asked.id > 0) {
        put(s, client, message);
    } else {
        sim_message_free(s, message);
    }
}

static void take_event(struct sim *s, int client, struct sim_message *message)
{
    unsigned bits = SIM_WATCH_DATA | SIM_WATCH_EXIST;
    if (message->event == ZKL__WATCH_DELETED) {
        bits |= SIM_WATCH_CHILD;
    } else if (message->event == ZKL__WATCH_CHILDREN) {
        bits = SIM_WATCH_CHILD;
    }
    if (sim_watch_take(&handle_of(s, client)->watches, message->path, bits)) {
        put(s, client, message);
    } else {
        sim_message_free(s, message);
    }
}

void sim_client_hears_server(struct sim *s, int index)
{
    struct sim_conn *conn = &s->conns[index];
    int client = conn->client;
    struct sim_handle *handle = handle_of(s, client);
    /* Before it is read: a fault may want it never to arrive. */
    enum sim_message_kind kind = conn->to_client.head->kind;
    if (kind == SIM_MSG_REPLY || kind == SIM_MSG_WELCOME) {
        sim_faults_on(s, kind == SIM_MSG_REPLY ? SIM_ON_REPLY : SIM_ON_CONNECT, client);
        if (handle->conn != index || sim_now(s) < conn->to_client.held_until ||
            sim_now(s) < s->clients[client].paused_until) {
            return;
        }
    }
    struct sim_message *message = sim_channel_pop(s, &conn->to_client, SLOT_TO_CLIENT + index);
    handle->last_received = sim_now(s);
    switch (message->kind) {
    case SIM_MSG_REPLY:
        take_reply(s, client, message);
        return;
    case SIM_MSG_EVENT:
        take_event(s, client, message);
        return;
    case SIM_MSG_WELCOME:
        welcomed(s, client, message);
        return;
    case SIM_MSG_EOF:
        sim_handle_cut(s, client, 0);
        break;
    default:
        break; /* a pong says nothing */
    }
    sim_message_free(s, message);
}

/* --- what the core asks ---------------------------------------------------------------------------------------------- */

static const void *keep(struct sim *s, const void *data, size_t size)
{
    if (size == 0) {
        return NULL;
    }
    assert(size <= sizeof s->data - s->data_used);
    char *copy = s->data + s->data_used;
    s->data_used += (uint32_t)size;
    return memcpy(copy, data, size);
}

/* Of access lists only this much is simulated (another is an operator's, sim_path.denied): who may read the node. Ephemeral nodes
 * have those of app.c, which permit it to who made it, or to nobody. */
static enum sim_readers readers(const zkl_acl *acl)
{
    return !acl ? SIM_ANYBODY : acl->entries[0].perms & ZKL_PERM_READ ? SIM_OWN_PROCESS : SIM_NOBODY;
}

static struct sim_part part_of(struct sim *s, const struct zkl__op *op)
{
    return (struct sim_part){.op = op->kind,
                             .mode = op->mode,
                             .readers = readers(op->acl),
                             .path = op->dir ? sim_path_of(s, op->dir, op->name) : -1,
                             .node = -1,
                             .version = op->version,
                             .data = keep(s, op->data, op->size),
                             .size = (uint32_t)op->size};
}

static struct sim_message *request_of(struct sim *s, int client, uint64_t id, const struct zkl__op *op)
{
    struct sim_message *message = sim_message_new(s, SIM_MSG_REQUEST);
    message->id = id;
    message->part = part_of(s, op);
    message->watch = op->watch;
    if (op->kind == ZKL__OP_MULTI) {
        message->parts = s->part_count;
        message->part_count = (int)op->part_count;
        for (size_t i = 0; i < op->part_count; i++) {
            s->parts[sim_next_of(&s->part_count, SIM_PARTS)] = part_of(s, &op->parts[i]);
        }
    }
    if (s->clients[client].throttled > 0) {
        s->clients[client].throttled--;
        message->rc = ZKL__RC_NOTAPPLIED;
    }
    return message;
}

static void send(struct sim *s, int client, uint64_t id, struct sim_message *request)
{
    struct sim_handle *handle = handle_of(s, client);
    assert(handle->count < SIM_OUTSTANDING);
    const struct sim_part *last = request->part_count ? &s->parts[request->parts + request->part_count - 1] : NULL;
    handle->outstanding[(handle->first + handle->count++) % SIM_OUTSTANDING] =
        (struct sim_outstanding){.id = id,
                                 .op = request->part.op,
                                 .path = request->part.path,
                                 .deletes = last && last->op == ZKL__OP_DELETE ? last->path : -1,
                                 .watch = request->watch};
    handle->last_sent = sim_now(s);
    sim_conn_send(s, handle->conn, request);
}

/* The connection that the core believes in is gone already: the answer is UNKNOWN, told before the next `connected`. If there is a
 * new connection, the library sends it there all the same. */
static int submit_late(struct sim *s, int client, uint64_t id, const struct zkl__op *op)
{
    struct sim_handle *handle = handle_of(s, client);
    struct sim_message *request = request_of(s, client, id, op);
    struct sim_message **link = &handle->inbox.head;
    while (*link && (*link)->kind != SIM_MSG_WELCOME) {
        link = &(*link)->next;
    }
    struct sim_message *answer = unknown_reply(s, id, request->part.op, request->part.path);
    if (!*link) {
        put(s, client, answer);
    } else {
        answer->due = (*link)->due;
        answer->next = *link;
        *link = answer;
        handle->inbox.count++;
    }
    if (handle->state == SIM_HANDLE_CONNECTED) {
        request->id = 0;
        request->watch = false;
        send(s, client, 0, request);
    } else {
        sim_message_free(s, request);
    }
    return ZKL_OK;
}

static void tell_faults(struct sim *s, int client, const struct zkl__op *op)
{
    if (op->kind == ZKL__OP_MULTI) {
        sim_faults_on(s, SIM_ON_MULTI, client);
        tell_faults(s, client, &op->parts[0]);
    } else if (op->kind == ZKL__OP_CREATE && op->mode == ZKL__EPHEMERAL_SEQUENTIAL) {
        sim_faults_on(s, SIM_ON_CREATE, client);
    } else if (op->kind == ZKL__OP_DELETE) {
        sim_faults_on(s, SIM_ON_DELETE, client);
    }
}

static void say_op(struct sim *s, int client, const char *what, const struct zkl__op *op)
{
    sim_say(s, "submit", "%d: %s%s %s%s%s%s", client, what, op_name(op->kind), op->dir ? op->dir : "",
            op->name ? "/" : "", op->name ? op->name : "", op->watch ? " (watch)" : "");
    for (size_t i = 0; i < op->part_count; i++) {
        say_op(s, client, "  ", &op->parts[i]);
    }
}

int sim_handle_submit(struct sim *s, int client, uint64_t id, const struct zkl__op *op)
{
    struct sim_handle *handle = handle_of(s, client);
    sim_judge_submit(s, client, op);
    if (s->clients[client].refused > 0) {
        s->clients[client].refused--;
        return s->clients[client].refused % 2 ? ZKL_ELIMIT : ZKL_ENOMEM;
    }
    if (handle->untold > 0 || (handle->inbox.head && handle->state != SIM_HANDLE_CONNECTED)) {
        return submit_late(s, client, id, op);
    }
    if (handle->state != SIM_HANDLE_CONNECTED) {
        return ZKL_ECONNECT;
    }
    send(s, client, id, request_of(s, client, id, op));
    say_op(s, client, "", op);
    tell_faults(s, client, op);
    return ZKL_OK;
}
