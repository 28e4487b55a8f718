/* server.c - a server as its clients meet it: channels, watches, connections, reads, the order of answers. A channel is ordered: a message is
 * read when its delay is over, after all before it, and not while the channel is held. */
#include "sim.h"

struct sim_message *sim_message_new(struct sim *s, enum sim_message_kind kind)
{
    struct sim_message *message = s->free_messages;
    if (message) {
        s->free_messages = message->next;
    } else {
        message = &s->messages[sim_next_of(&s->message_count, SIM_MESSAGES)];
    }
    *message =
        (struct sim_message){.kind = kind, .session = -1, .conn = -1, .via = -1, .path = -1, .node = -1, .parts = -1};
    return message;
}

struct sim_message *sim_message_copy(struct sim *s, const struct sim_message *message)
{
    struct sim_message *copy = sim_message_new(s, message->kind);
    *copy = *message;
    return copy;
}

void sim_message_free(struct sim *s, struct sim_message *message)
{
    message->next = s->free_messages;
    s->free_messages = message;
}

void sim_channel_rearm(struct sim *s, struct sim_channel *channel, int slot)
{
    sim_arm(s, slot, channel->head ? sim_max(channel->head->due, channel->held_until) : SIM_NEVER);
}

static void append(struct sim_channel *channel, struct sim_message *message)
{
    message->next = NULL;
    *(channel->tail ? &channel->tail->next : &channel->head) = message;
    channel->tail = message;
    channel->count++;
}

static struct sim_message *take_first(struct sim_channel *channel)
{
    struct sim_message *message = channel->head;
    channel->head = message->next;
    channel->tail = channel->head ? channel->tail : NULL;
    channel->count--;
    return message;
}

void sim_channel_push(struct sim *s, struct sim_channel *channel, int slot, struct sim_message *message)
{
    int64_t due = sim_now(s) + sim_plan_delay(s->plan, s->seed, slot, channel->sent++, s->quick);
    if (due <= channel->last_due) {
        due = channel->last_due + (s->plan->delay > 0);
    }
    channel->last_due = due;
    message->due = due;
    append(channel, message);
    if (channel->count == 1) {
        sim_channel_rearm(s, channel, slot);
    }
}

struct sim_message *sim_channel_pop(struct sim *s, struct sim_channel *channel, int slot)
{
    struct sim_message *message = take_first(channel);
    sim_channel_rearm(s, channel, slot);
    return message;
}

void sim_channel_cut(struct sim *s, struct sim_channel *channel, int slot, int keep)
{
    struct sim_channel all = *channel;
    channel->head = channel->tail = NULL;
    channel->count = 0;
    while (all.head) {
        struct sim_message *message = take_first(&all);
        if (channel->count < keep) {
            append(channel, message);
        } else {
            sim_message_free(s, message);
        }
    }
    sim_channel_rearm(s, channel, slot);
}

void sim_channel_hold(struct sim *s, struct sim_channel *channel, int slot, int64_t duration)
{
    channel->held_until = sim_max(channel->held_until, sim_now(s) + duration);

    sim_channel_rearm(s, channel, slot);
}

static struct sim_watch *find_watch(struct sim_watches *watches, int path)
{
    SIM_EACH (it, watches->all, watches->count) {
        if (it->path == path) {
            return it;
        }
    }
    return NULL;
}

static void watch_add(struct sim_watches *watches, int path, unsigned bits)
{
    struct sim_watch *watch = find_watch(watches, path);
    if (!watch) {
        watch = &watches->all[sim_next_of(&watches->count, SIM_WATCHES)];
        *watch = (struct sim_watch){.path = path};
    }
    watch->bits |= bits;
}

void sim_watch_set(struct sim_watches *watches, enum zkl__op_kind op, int path, enum zkl__rc rc, unsigned absent)
{
    if (rc == ZKL__RC_OK) {
        watch_add(watches, path, op == ZKL__OP_CHILDREN ? SIM_WATCH_CHILD : SIM_WATCH_DATA);
    } else if (rc == ZKL__RC_NONODE && op == ZKL__OP_EXISTS) {
        watch_add(watches, path, absent);
    }
}

unsigned sim_watch_take(struct sim_watches *watches, int path, unsigned bits)
{
    struct sim_watch *watch = find_watch(watches, path);
    unsigned had = watch ? watch->bits & bits : 0;
    if (had) {
        watch->bits &= ~bits;
    }
    if (had && !watch->bits) {
        *watch = watches->all[--watches->count];
    }
    return had;
}

static void send(struct sim *s, struct sim_conn *conn, struct sim_message *message)
{
    if (conn->client_open) {
        sim_channel_push(s, &conn->to_client, SLOT_TO_CLIENT + (int)(conn - s->conns), message);
    } else {
        sim_message_free(s, message);
    }
}

static void tell(struct sim *s, struct sim_conn *conn, int path, enum zkl__watch_event event, int64_t zxid)
{
    struct sim_message *message = sim_message_new(s, SIM_MSG_EVENT);
    message->path = path;
    message->event = (uint8_t)event;
    message->zxid = zxid;
    send(s, conn, message);
}

static void fire_effect(struct sim *s, struct sim_conn *conn, const struct sim_effect *effect, int64_t zxid)
{
    static const enum zkl__watch_event events[] = {
        [SIM_CREATED] = ZKL__WATCH_CREATED, [SIM_DELETED] = ZKL__WATCH_DELETED, [SIM_CHANGED] = ZKL__WATCH_CHANGED};
    struct sim_node *node = &s->nodes[effect->node];
    unsigned bits = effect->kind == SIM_DELETED ? SIM_WATCH_DATA | SIM_WATCH_CHILD : SIM_WATCH_DATA;
    /* What becomes of a node is told to who may read it. */
    if (sim_watch_take(&conn->watches, node->path, bits) &&
        (s->plan->rules == ZKL__RULES_NOTHING_NEEDS_READ || sim_node_readable(s, effect->node, conn->client))) {
        node->end_told += conn->session != node->owner; /* whose node it is may hear of it as well: that wakes nobody */
        tell(s, conn, node->path, events[effect->kind], zxid);
    }
    int parent = s->paths[node->path].parent;
    if (effect->kind != SIM_CHANGED && sim_watch_take(&conn->watches, parent, SIM_WATCH_CHILD)) {
        tell(s, conn, parent, ZKL__WATCH_CHILDREN, zxid);
    }
}

void sim_server_fire(struct sim *s, int server, const struct sim_txn *txn)
{
    SIM_EACH (conn, s->conns, s->conn_count) {
        bool watches = conn->server == server && conn->watches.count > 0;
        SIM_EACH (effect, &s->effects[txn->first_effect], watches ? txn->effect_count : 0) {
            fire_effect(s, conn, effect, txn->zxid);
        }
    }
}

/* DataTree.setWatches: what changed since the client last heard is told at once. One of the watch's bits. */
static void reset_watch(struct sim *s, struct sim_conn *conn, int path, unsigned bit, int64_t since)
{
    int64_t zxid = sim_server_zxid(s, conn->server);
    bool there = sim_node_at(s, path, zxid) >= 0, children = bit == SIM_WATCH_CHILD;
    if (bit != SIM_WATCH_EXIST && !there) {
        tell(s, conn, path, ZKL__WATCH_DELETED, zxid);
    } else if (bit == SIM_WATCH_EXIST && there) {
        tell(s, conn, path, ZKL__WATCH_CREATED, zxid);
    } else if (there && sim_tree_changed(s, path, zxid, children) > since) {
        tell(s, conn, path, children ? ZKL__WATCH_CHILDREN : ZKL__WATCH_CHANGED, zxid);
    } else {
        watch_add(&conn->watches, path, children ? SIM_WATCH_CHILD : SIM_WATCH_DATA);
    }
}

static void set_watches(struct sim *s, struct sim_conn *conn, int64_t since)
{
    static const unsigned bits[] = {SIM_WATCH_EXIST, SIM_WATCH_DATA, SIM_WATCH_CHILD};
    const struct sim_handle *handle = &s->clients[conn->client].handle;
    for (int i = 0; handle->conn == conn - s->conns && i < 3 * handle->watches.count; i++) {
        const struct sim_watch *watch = &handle->watches.all[i / 3];
        if (watch->bits & bits[i % 3]) {
            reset_watch(s, conn, watch->path, bits[i % 3], since);
        }
    }
}

/* --- connections ---------------------------------------------------------------------------------------------------- */

static void drop_pending(struct sim *s, struct sim_conn *conn)
{
    while (conn->pending.head) {
        sim_message_free(s, take_first(&conn->pending));
    }
}

int sim_conn_open(struct sim *s, int client, int server)
{
    /* An abandoned one may still have something to say to its server: it is used again last. */
    struct sim_conn *conn = NULL;
    SIM_EACH (it, s->conns, SIM_CONNS) {
        if (!it->client_open && (!it->server_open || !it->to_server.head)) {
            conn = it;
            break;
        }
        conn = !it->client_open && (!conn || it->serial < conn->serial) ? it : conn;
    }
    assert(conn);
    int index = (int)(conn - s->conns);
    const struct sim_client *of = &s->clients[client];
    s->conn_count = (int)sim_max(s->conn_count, index + 1);
    drop_pending(s, conn);
    sim_channel_cut(s, &conn->to_server, SLOT_TO_SERVER + index, 0);
    sim_channel_cut(s, &conn->to_client, SLOT_TO_CLIENT + index, 0);
    *conn = (struct sim_conn){.serial = ++s->conn_serial,
                              .client = client,
                              .server = server,
                              .session = -1,
                              .client_open = true,
                              .server_open = true,
                              .to_server = {.sent = conn->to_server.sent, .held_until = of->held_up_until},
                              .to_client = {.sent = conn->to_client.sent, .held_until = of->held_down_until}};
    return index;
}

void sim_conn_send(struct sim *s, int index, struct sim_message *message)
{
    struct sim_conn *conn = &s->conns[index];
    message->conn = index;
    message->conn_serial = conn->serial;
    sim_channel_push(s, &conn->to_server, SLOT_TO_SERVER + index, message);
}

void sim_conn_abandon(struct sim *s, int index, int keep)
{
    struct sim_conn *conn = &s->conns[index];
    conn->client_open = false;
    sim_channel_cut(s, &conn->to_client, SLOT_TO_CLIENT + index, 0);
    sim_channel_cut(s, &conn->to_server, SLOT_TO_SERVER + index, keep);
    if (conn->server_open) {
        sim_conn_send(s, index, sim_message_new(s, SIM_MSG_EOF));
    }
}

static void close_conn(struct sim *s, struct sim_conn *conn)
{
    if (!conn->server_open) {
        return;
    }
    conn->server_open = false;
    conn->watches.count = 0;
    drop_pending(s, conn);
    sim_channel_cut(s, &conn->to_server, SLOT_TO_SERVER + (int)(conn - s->conns), 0);
    send(s, conn, sim_message_new(s, SIM_MSG_EOF));
}

void sim_server_close_conns(struct sim *s, int server, int session)
{
    SIM_EACH (conn, s->conns, s->conn_count) {
        if (conn->server == server && (session < 0 || conn->session == session)) {
            close_conn(s, conn);
        }
    }
}

static void welcome(struct sim *s, struct sim_conn *conn, int session)
{
    struct sim_message *message = sim_message_new(s, SIM_MSG_WELCOME);
    message->session = session;
    message->timeout = sim_granted_timeout(s, conn->server);
    conn->session = session;
    send(s, conn, message);
}

void sim_server_validated(struct sim *s, const struct sim_message *message)
{
    struct sim_conn *conn = &s->conns[message->conn];
    if (conn->serial == message->conn_serial && conn->server_open) {
        welcome(s, conn, message->session);
    }
}

/* --- reads ---------------------------------------------------------------------------------------------------------- */

int sim_zk_code(enum zkl__rc rc)
{
    static const int codes[ZKL__RC_UNKNOWN + 1] = {
        [ZKL__RC_NONODE] = -101,     [ZKL__RC_NODEEXISTS] = -110, [ZKL__RC_NOTEMPTY] = -111,
        [ZKL__RC_BADVERSION] = -103, [ZKL__RC_NOAUTH] = -102,     [ZKL__RC_EPHEMERALPARENT] = -108,
        [ZKL__RC_NOWATCH] = -121,    [ZKL__RC_ROLLEDBACK] = -2,   [ZKL__RC_UNKNOWN] = -4,
    };
    return codes[rc];
}

/* What the oldest of the requests that wait reads. */
static enum zkl__rc read_tree(struct sim *s, struct sim_conn *conn, int *node)
{
    const struct sim_message *request = conn->pending.head;
    const struct sim_part *part = &request->part;
    if (request->rc != ZKL__RC_OK || part->op == ZKL__OP_SYNC) {
        return request->rc;
    }
    if (part->op == ZKL__OP_UNWATCH) {
        return sim_watch_take(&conn->watches, part->path, ~0u) ? ZKL__RC_OK : ZKL__RC_NOWATCH;
    }
    *node = sim_node_at(s, part->path, sim_server_zxid(s, conn->server));
    bool needed = part->op != ZKL__OP_EXISTS || s->plan->rules == ZKL__RULES_EXISTS_NEEDS_READ;
    bool hidden =
        *node >= 0 && ((s->paths[part->path].denied & ZKL_PERM_READ) || !sim_node_readable(s, *node, conn->client));
    enum zkl__rc rc = *node < 0 ? ZKL__RC_NONODE : hidden && needed ? ZKL__RC_NOAUTH : ZKL__RC_OK;
    if (request->watch) {
        sim_watch_set(&conn->watches, part->op, part->path, rc, SIM_WATCH_DATA); /* with the others */
    }
    return rc;
}

/* That request becomes its answer. */
static void reply(struct sim *s, struct sim_conn *conn, enum zkl__rc rc, int node, int parts)
{
    struct sim_message *message = take_first(&conn->pending);
    message->kind = SIM_MSG_REPLY;
    message->rc = rc;
    message->node = node;
    message->parts = parts;
    message->zxid = sim_server_zxid(s, conn->server);
    send(s, conn, message);
}

/* --- the order of answers: a read waits behind the session's own pending writes (CommitProcessor) ------------------- */

static void answer_reads(struct sim *s, struct sim_conn *conn)
{
    while (conn->pending.head && conn->pending.head->answered) {
        int node = -1;
        enum zkl__rc rc = read_tree(s, conn, &node);
        reply(s, conn, rc, node, -1);
    }
}

/* The connection's oldest write is applied here: its answer, then the reads behind it. */
void sim_server_answer(struct sim *s, const struct sim_txn *txn)
{
    struct sim_conn *conn = &s->conns[txn->conn];
    if (!conn->server_open) {
        return;
    }
    if (txn->rc == ZKL__RC_NOTAPPLIED) {
        close_conn(s, conn);
        return;
    }
    assert(conn->pending.head && !conn->pending.head->answered);
    if (txn->kind == SIM_TXN_OP) {
        reply(s, conn, txn->rc, txn->node, txn->parts);
    } else {
        sim_message_free(s, take_first(&conn->pending));
    }
    if (txn->kind == SIM_TXN_OPEN) {
        welcome(s, conn, txn->session);
    }
    if (!s->plan->batches) {
        answer_reads(s, conn);
    }
}

void sim_server_ends_batch(struct sim *s, int server)
{
    SIM_EACH (conn, s->conns, s->conn_count) {
        if (conn->server_open && conn->server == server) {
            answer_reads(s, conn);
        }
    }
}

/* Syncs are answered in their order. Several requests of a connection may have the id 0: those that the client has given up. */
void sim_server_answer_sync(struct sim *s, const struct sim_message *message)
{
    struct sim_conn *conn = &s->conns[message->conn];
    if (conn->serial != message->conn_serial || !conn->server_open) {
        return;
    }
    struct sim_message *request = conn->pending.head;
    while (request->kind != SIM_MSG_REQUEST || request->part.op != ZKL__OP_SYNC || request->answered) {
        request = request->next;
    }
    assert(request->id == message->id);
    if (!s->plan->batches) {
        request->answered = true;
        answer_reads(s, conn);
        return;
    }
    if (request != conn->pending.head) {
        answer_reads(s, conn); /* what stands before it ends the batch */
    }
    assert(request == conn->pending.head);
    reply(s, conn, ZKL__RC_OK, -1, -1);
}

/* --- requests ------------------------------------------------------------------------------------------------------- */

/* The later one counts (LearnerSessionTracker.touchSession: a map's put). */
void sim_touches_add(struct sim_touches *touches, struct sim_touches later)
{
    touches->all |= later.all;
    touches->shorter = (touches->shorter & ~later.all) | later.shorter;
}

void sim_server_heard(struct sim *s, int server, int session, int by)
{
    uint64_t bit = UINT64_C(1) << session;
    bool shorter = sim_granted_timeout(s, by) < s->plan->timeout;
    sim_touches_add(&s->servers[server].touched, (struct sim_touches){bit, shorter ? bit : 0});
}

/* To the leader: over the link, or here. A deposed leader keeps it for ever. */
static void hand_up(struct sim *s, int server, const struct sim_message *request)
{
    if (s->leader == server) {
        sim_leader_takes(s, server, request);
    } else if (s->servers[server].role == SIM_FOLLOWING) {
        struct sim_message *forward = sim_message_copy(s, request);
        forward->via = server;
        sim_to_leader(s, server, forward);
    }
}

static void take_request(struct sim *s, struct sim_conn *conn, struct sim_message *request)
{
    enum zkl__op_kind op = request->part.op;
    /* What was throttled is refused here. The kinds up to multi write. */
    bool up = request->kind != SIM_MSG_REQUEST ||
              (request->rc == ZKL__RC_OK &&
               (op <= ZKL__OP_MULTI || (op == ZKL__OP_SYNC && s->servers[conn->server].role == SIM_FOLLOWING)));
    request->answered = !up;
    append(&conn->pending, request);
    if (up) {
        hand_up(s, conn->server, request);
    } else {
        answer_reads(s, conn);
    }
}

int64_t sim_shorter_timeout(const struct sim *s)
{
    return sim_max(s->plan->timeout * 5 / 8, 4 * s->tick);
}

int64_t sim_granted_timeout(const struct sim *s, int server)
{
    return s->plan->bounds && server % 2 == 1 ? sim_shorter_timeout(s) : s->plan->timeout;
}

static void revalidate(struct sim *s, struct sim_conn *conn, struct sim_message *request)
{
    int server = conn->server, session = request->session;
    const struct sim_session *it = &s->sessions[session];
    if (s->servers[server].role == SIM_FOLLOWING) {
        request->kind = SIM_MSG_REVALIDATE;
        request->via = server;
        request->zxid = 0; /* the leader does not ask for it */
        sim_to_leader(s, server, request);
        return;
    }
    if (s->leader == server) {
        session = sim_leader_validates(s, server, session);
    } else if (it->ended && it->ended_position < s->servers[server].applied) {
        session = -1; /* who is deposed goes by what it has applied */
    }
    welcome(s, conn, session);
    sim_message_free(s, request);
}

static void take_connect(struct sim *s, struct sim_conn *conn, struct sim_message *request)
{
    bool serves = s->servers[conn->server].role >= SIM_FOLLOWING;
    if (!serves || request->zxid > sim_server_zxid(s, conn->server)) {
        close_conn(s, conn);
        sim_message_free(s, request);
        return;
    }
    if (request->session >= 0) {
        sim_server_close_conns(s, conn->server, request->session);
        revalidate(s, conn, request);
        return;
    }
    int64_t timeout = sim_granted_timeout(s, conn->server);
    request->session = sim_next_of(&s->session_count, SIM_SESSIONS);
    s->sessions[request->session] = (struct sim_session){.client = conn->client,
                                                         .timeout = timeout,
                                                         .shortest = timeout,
                                                         .deadline = SIM_NEVER,
                                                         .decided = SIM_NEVER,
                                                         .closing = true, /* not tracked before it is proposed */
                                                         .owner = -1};
    append(&conn->pending, request);
    hand_up(s, conn->server, request);
}

void sim_server_hears_client(struct sim *s, int index)
{
    struct sim_conn *conn = &s->conns[index];
    struct sim_message *message = sim_channel_pop(s, &conn->to_server, SLOT_TO_SERVER + index);
    if (!conn->server_open || message->kind == SIM_MSG_EOF) {
        sim_message_free(s, message);
        close_conn(s, conn);
        return;
    }
    if (message->kind == SIM_MSG_CONNECT) {
        take_connect(s, conn, message);
        return;
    }
    if (s->leader == conn->server) {
        sim_leader_touch(s, conn->session, sim_granted_timeout(s, conn->server));
    } else {
        sim_server_heard(s, conn->server, conn->session, conn->server);
        if (s->servers[conn->server].role == SIM_LEADING) {
            s->sessions[conn->session].strayed = s->epoch;
        }
    }
    message->session = conn->session;
    if (message->kind == SIM_MSG_REQUEST || message->kind == SIM_MSG_CLOSE) {
        take_request(s, conn, message);
        return;
    }
    if (message->kind == SIM_MSG_PING) {
        send(s, conn, sim_message_new(s, SIM_MSG_PONG));
    } else {
        set_watches(s, conn, message->zxid);
    }
    sim_message_free(s, message);
}
