/* digest.c - of the simulated servers, channels and client libraries; of the cores see digest_core.c. */
#include "digest.h"

#include <string.h>

#include "semaphore_step.h"
#include "session_inside.h"

enum { BIRTHS = SIM_NODES + SIM_VALUES + SIM_ATTEMPTS + SIM_TXNS, NOTHING = 0x4e6f6e65 };

/* --- zxids: by their order --------------------------------------------------------------------------------------------- */

static int64_t known[BIRTHS]; /* rising */
static int known_count;
static int base;          /* position that every server has applied */
static int64_t base_zxid; /* of the last one before it */

static void know(int64_t zxid)
{
    int at = known_count;
    while (at > 0 && known[at - 1] > zxid) {
        at--;
    }
    if (zxid <= 0 || (at > 0 && known[at - 1] == zxid)) {
        return;
    }
    memmove(&known[at + 1], &known[at], (size_t)(known_count++ - at) * sizeof known[0]);
    known[at] = zxid;
}

static uint64_t rank(int64_t zxid)
{
    uint64_t count = 0;
    for (int i = 0; i < known_count && known[i] <= zxid; i++) {
        count += 2 - (known[i] == zxid); /* between two of them is neither */
    }
    return zxid == SIM_NEVER ? NOTHING : count;
}

static bool shows(const struct sim_node *node)
{
    return node->dzxid > base_zxid;
}

/* What the k-th reply on its way to a client answers; NULL: it has given that connection up. */
static const struct sim_outstanding *asked(const struct sim_handle *handle, unsigned k)
{
    return k < handle->count ? &handle->outstanding[(handle->first + k) % SIM_OUTSTANDING] : NULL;
}

static void know_replies(const struct sim *s, const struct sim_handle *handle)
{
    unsigned next = 0;
    const struct sim_message *m = handle->conn < 0 ? NULL : s->conns[handle->conn].to_client.head;
    for (; m; m = m->next) {
        const struct sim_outstanding *request = m->kind == SIM_MSG_REPLY ? asked(handle, next++) : NULL;
        if (m->node >= 0) {
            know(s->nodes[m->node].czxid);
        }
        for (int i = 0; request && m->parts >= 0 && i < request->part_count; i++) {
            int node = s->parts[m->parts + i].node;
            know(node < 0 ? 0 : s->nodes[node].czxid);
        }
    }
}

static void know_nodes(const struct sim *s)
{
    for (int i = 0; i < s->node_count; i++) {
        if (shows(&s->nodes[i])) {
            know(s->nodes[i].czxid);
            for (int v = s->nodes[i].value; v >= 0; v = s->values[v].older) {
                know(s->values[v].zxid);
            }
        }
    }
}

static void know_clients(const struct sim *s)
{
    for (int client = 0; client < s->client_count; client++) {
        const struct zkl__core *core = s->clients[client].core;
        for (const struct zkl__contender *c = core ? zkl__contenders_first(core) : NULL; c;
             c = zkl__contenders_after(c)) {
            know(c->node.czxid);
            know(c->own.revoked);
        }
        for (const struct zkl__semaphore *it = core ? core->semaphores : NULL; it; it = it->next) {
            for (int i = 0; i < it->config.count; i++) {
                know(it->permits[i].token);
            }
        }
        know_replies(s, &s->clients[client].handle);
    }
    for (int i = 0; i < s->attempt_count; i++) {
        bool counts = s->attempts[i].state != SIM_OVER && s->attempts[i].state != SIM_LEFT;
        know(counts ? s->attempts[i].token : 0);
        know(counts ? s->attempts[i].last_lease : 0);
    }
    for (int path = 0; path < s->plan->paths; path++) {
        know(s->judge.last_token[path]);
        know(s->judge.last_exclusive[path]);
    }
}

static void know_all(const struct sim *s)
{
    base = s->committed;
    for (int i = 0; i < s->server_count; i++) {
        base = s->servers[i].applied < base ? s->servers[i].applied : base;
    }
    base_zxid = base ? s->log[base - 1].zxid : 0;
    known_count = 0;
    know_nodes(s);
    know_clients(s);
    for (int i = base; i < s->proposed; i++) {
        know(s->log[i].zxid);
    }
}

/* What a client has last seen is compared with changes of what it watches, and with what a server has applied. */
static uint64_t seen(const struct sim *s, int client, int64_t zxid)
{
    const struct sim_handle *handle = &s->clients[client].handle;
    uint64_t hash = zxid > 0;
    for (int i = base; i < s->proposed; i++) {
        hash += s->log[i].zxid <= zxid ? 2 : 0;
    }
    for (int i = 0; i < handle->watch_count; i++) {
        int path = handle->watches[i].path, newest = s->paths[path].node;
        bool there = sim_node_at(s, path, SIM_HEAD) >= 0;
        bool children = handle->watches[i].bits & SIM_WATCH_CHILD;
        bool changed =
            there ? sim_tree_changed(s, path, SIM_HEAD, children) > zxid : newest >= 0 && s->nodes[newest].dzxid > zxid;
        hash = sim_blend(hash, (uint64_t)there << 1 | changed);
    }
    return hash;
}

/* --- labels ------------------------------------------------------------------------------------------------------------ */

static uint64_t bytes_hash(uint64_t hash, const void *data, size_t size)
{
    const char *at = data;
    for (; size > 0; at += 8) {
        uint64_t word = 0;
        size_t now = size < 8 ? size : 8;
        memcpy(&word, at, now);
        hash = sim_blend(hash, word);
        size -= now;
    }
    return hash;
}

static uint64_t path_hash(const struct sim *s, int path)
{
    return path < 0 ? NOTHING : bytes_hash(1, s->paths[path].text, strlen(s->paths[path].text));
}

static uint64_t node_hash(const struct sim *s, int node)
{
    return node < 0 ? NOTHING : sim_blend(path_hash(s, s->nodes[node].path), rank(s->nodes[node].czxid));
}

static bool closed(const struct sim_conn *conn)
{
    return !conn->used || (!conn->client_open && !conn->server_open && !conn->to_server.head);
}

static uint64_t conn_hash(const struct sim *s, int index, uint32_t serial)
{
    if (index < 0 || s->conns[index].serial != serial || closed(&s->conns[index])) {
        return NOTHING;
    }
    uint64_t older = 0;
    for (int i = 0; i < SIM_CONNS; i++) {
        const struct sim_conn *each = &s->conns[i];
        older += !closed(each) && each->client == s->conns[index].client && each->serial < serial;
    }
    return (uint64_t)s->conns[index].client << 8 | older;
}

/* --- messages ---------------------------------------------------------------------------------------------------------- */

static uint64_t part_hash(const struct sim *s, const struct sim_part *part)
{
    uint64_t hash =
        sim_blend((uint64_t)part->op << 32 | (uint64_t)part->mode << 16 | (uint64_t)part->readers << 1 | part->sealed,
                  (uint64_t)part->rc);
    hash = sim_blend(hash, path_hash(s, part->path));
    hash = sim_blend(hash, node_hash(s, part->node));
    return bytes_hash(sim_blend(hash, (uint64_t)part->version << 32 ^ part->size), part->data, part->size);
}

static uint64_t message_hash(const struct sim *s, int client, const struct sim_message *m)
{
    uint64_t hash = sim_blend((uint64_t)m->kind << 32 | (uint64_t)m->rc, (uint64_t)m->zk_code);
    hash =
        sim_blend(hash, (uint64_t)m->session << 32 ^ (uint64_t)m->event << 2 ^ (uint64_t)m->watch << 1 ^ m->answered);
    hash = sim_blend(hash, (uint64_t)m->due);
    hash = sim_blend(hash, (uint64_t)(m->position - base) ^ m->touches.all << 32 ^ m->touches.shorter << 48);
    hash = sim_blend(hash, conn_hash(s, m->conn, m->conn_serial));
    hash = sim_blend(hash, sim_blend(path_hash(s, m->path), node_hash(s, m->node)));
    if (client < 0 && m->conn >= 0) {
        client = s->conns[m->conn].client;
    }
    hash = sim_blend(hash, client < 0 ? 0 : sim_blend(sim_digest_id(s, client, m->id), seen(s, client, m->zxid)));
    hash = sim_blend(hash, (uint64_t)m->timeout);
    hash = sim_blend(hash, part_hash(s, &m->part));
    for (int i = 0; m->parts >= 0 && i < m->part_count; i++) {
        hash = sim_blend(hash, part_hash(s, &s->parts[m->parts + i]));
    }
    return hash;
}

static uint64_t channel_hash(const struct sim *s, int client, const struct sim_channel *channel)
{
    uint64_t hash = (uint64_t)channel->held_until;
    for (const struct sim_message *m = channel->head; m; m = m->next) {
        hash = sim_blend(hash, message_hash(s, client, m));
    }
    return hash;
}

/* What a stat says that a core reads, but for zxids. */
static uint64_t stat_hash(const struct sim *s, uint64_t hash, int node, int64_t zxid)
{
    struct zkl__stat stat;
    sim_stat_at(s, node, zxid, &stat);
    return sim_blend(sim_blend(hash, (uint64_t)stat.child_count),
                     (uint64_t)stat.version << 32 ^ (uint64_t)stat.data_size);
}

/* A reply is made when it is read, of the tree as it was: so what was asked shows what it will say. */
static uint64_t content_hash(const struct sim *s, const struct sim_outstanding *request, const struct sim_message *m)
{
    uint64_t hash = sim_blend((uint64_t)request->op, path_hash(s, request->path));
    if (request->op == ZKL__OP_CHILDREN && request->path >= 0) {
        for (int child = s->paths[request->path].first_child; child >= 0; child = s->paths[child].sibling) {
            hash += sim_node_at(s, child, m->zxid) >= 0 ? path_hash(s, child) : 0;
        }
    }
    if (request->op == ZKL__OP_GET && m->node >= 0) {
        uint32_t size;
        int32_t version;
        const void *data = sim_tree_data(s, m->node, m->zxid, &size, &version);
        hash = bytes_hash(sim_blend(hash, (uint64_t)version), data, size);
    }
    if (m->node >= 0) {
        hash = sim_blend(hash, (uint64_t)s->nodes[m->node].owner);
        hash = request->op == ZKL__OP_EXISTS ? stat_hash(s, hash, m->node, m->zxid) : hash;
    }
    for (int i = 0; request->op == ZKL__OP_MULTI && m->parts >= 0 && i < request->part_count; i++) {
        const struct sim_part *part = &s->parts[m->parts + i];
        hash = sim_blend(hash, part_hash(s, part));
        hash = part->op == ZKL__OP_SET && m->rc == ZKL__RC_OK ? stat_hash(s, hash, part->node, m->zxid) : hash;
    }
    return hash;
}

static uint64_t replies_hash(const struct sim *s, const struct sim_handle *handle)
{
    uint64_t hash = 0;
    unsigned next = 0;
    const struct sim_message *m = handle->conn < 0 ? NULL : s->conns[handle->conn].to_client.head;
    for (; m; m = m->next) {
        const struct sim_outstanding *request = m->kind == SIM_MSG_REPLY ? asked(handle, next++) : NULL;
        hash = request ? sim_blend(hash, content_hash(s, request, m)) : hash;
    }
    return hash;
}

/* --- the parts of a world ---------------------------------------------------------------------------------------------- */

static uint64_t tree_hash(const struct sim *s)
{
    uint64_t sum = 0;
    bool woke_two = false;
    for (int i = 0; i < s->node_count; i++) {
        const struct sim_node *n = &s->nodes[i];
        woke_two = woke_two || n->end_told > 1;
        if (!shows(n)) {
            continue;
        }
        uint64_t hash = sim_blend(node_hash(s, i), rank(n->dzxid));
        hash = sim_blend(hash, (uint64_t)n->owner << 8 ^ (uint64_t)n->readers << 4 ^ (uint64_t)n->sealed << 3 ^
                                   (uint64_t)n->container << 2 ^ (uint64_t)n->by_stranger << 1 ^ n->taken);
        hash = sim_blend(hash, (uint64_t)n->cversion);
        hash = sim_blend(hash, n->head_zxid > sim_committed_zxid(s) ? (uint64_t)n->head_cversion : NOTHING);
        hash = sim_blend(hash, (uint64_t)n->end_told);
        hash = bytes_hash(hash, n->data, n->size);
        for (int v = n->value; v >= 0; v = s->values[v].older) {
            hash = sim_blend(hash, rank(s->values[v].zxid) << 32 ^ (uint64_t)s->values[v].version);
            hash = bytes_hash(hash, s->values[v].data, s->values[v].size);
        }
        sum += hash; /* in no order: their births are in it */
    }
    return sum + woke_two;
}

static uint64_t log_hash(const struct sim *s)
{
    uint64_t hash = (uint64_t)(s->committed - base);
    for (int i = base; i < s->proposed; i++) {
        const struct sim_txn *txn = &s->log[i];
        hash = sim_blend(hash, (uint64_t)txn->kind << 32 | (uint64_t)txn->rc);
        hash = sim_blend(hash, (uint64_t)txn->zk_code << 32 ^ (uint64_t)txn->session);
        hash = sim_blend(hash, conn_hash(s, txn->conn, txn->conn_serial));
        hash = sim_blend(hash, sim_blend(node_hash(s, txn->node), txn->acks));
        for (int k = 0; k < txn->effect_count; k++) {
            const struct sim_effect *effect = &s->effects[txn->first_effect + k];
            hash = sim_blend(
                hash, sim_blend((uint64_t)effect->kind << 32 ^ (uint64_t)effect->cversion, node_hash(s, effect->node)));
        }
    }
    for (int i = 0; i < s->sync_count; i++) {
        const struct sim_waiting_sync *sync = &s->syncs[i];
        hash = sim_blend(hash, (uint64_t)(sync->position - base) << 8 ^ (uint64_t)sync->server);
        hash = sim_blend(hash, conn_hash(s, sync->conn, sync->conn_serial));
        hash = sim_blend(hash, sim_digest_id(s, s->conns[sync->conn].client, sync->id));
    }
    return hash;
}

static uint64_t server_hash(const struct sim *s, int server)
{
    const struct sim_server *it = &s->servers[server];
    uint64_t hash = sim_blend((uint64_t)it->role, (uint64_t)(it->logged - base) << 32 ^ (uint64_t)(it->applied - base));
    hash = sim_blend(hash, (uint64_t)it->paused_until);
    hash = sim_blend(hash, (uint64_t)it->isolated_until);
    hash = sim_blend(hash, (uint64_t)it->down_until);
    hash = sim_blend(hash, (uint64_t)it->heard_leader);
    for (int i = 0; i < s->server_count; i++) {
        hash = sim_blend(hash, (uint64_t)it->heard[i] << 1 ^ it->linked[i]);
    }
    hash = sim_blend(hash, it->link_serial);
    hash = sim_blend(hash, it->touched.all ^ it->touched.shorter << 32);
    hash = sim_blend(hash, it->is_answering ? it->answering.all ^ it->answering.shorter << 32 : NOTHING);
    hash = sim_blend(hash, channel_hash(s, -1, &it->to_leader));
    return sim_blend(hash, channel_hash(s, -1, &it->from_leader));
}

static uint64_t session_hash(const struct sim *s, int session)
{
    const struct sim_session *it = &s->sessions[session];
    uint64_t hash = (uint64_t)it->client << 8 | (uint64_t)it->closing << 3 | (uint64_t)it->committed << 2 |
                    (uint64_t)it->ended << 1 | it->by_operator;
    hash = sim_blend(hash, (uint64_t)it->timeout);
    hash = sim_blend(hash, (uint64_t)it->deadline);
    hash = sim_blend(hash, it->taken ? (uint64_t)it->turn : NOTHING);
    hash = sim_blend(hash, (uint64_t)it->decided);
    hash = sim_blend(hash, it->ended && it->ended_position >= base ? (uint64_t)(it->ended_position - base) : NOTHING);
    return sim_blend(hash, (uint64_t)it->owner << 32 ^ it->owner_serial);
}

static uint64_t one_conn_hash(const struct sim *s, int index)
{
    const struct sim_conn *conn = &s->conns[index];
    uint64_t watches = 0;
    uint64_t hash = conn_hash(s, index, conn->serial);
    hash = sim_blend(hash, (uint64_t)conn->server << 32 ^ (uint64_t)conn->session);
    hash = sim_blend(hash, (uint64_t)conn->client_open << 2 | (uint64_t)conn->server_open << 1 | conn->welcomed);
    hash = sim_blend(hash, channel_hash(s, conn->client, &conn->to_server));
    hash = sim_blend(hash, channel_hash(s, conn->client, &conn->to_client));
    hash = sim_blend(hash, (uint64_t)s->clock.due[SLOT_TO_SERVER + index]);
    hash = sim_blend(hash, (uint64_t)s->clock.due[SLOT_TO_CLIENT + index]);
    for (const struct sim_message *m = conn->pending; m; m = m->next) {
        hash = sim_blend(hash, message_hash(s, conn->client, m));
    }
    for (int i = 0; i < conn->watch_count; i++) {
        watches += sim_blend(path_hash(s, conn->watches[i].path), conn->watches[i].bits);
    }
    return sim_blend(hash, watches);
}

static uint64_t handle_hash(const struct sim *s, int client)
{
    const struct sim_handle *it = &s->clients[client].handle;
    uint64_t hash = (uint64_t)it->state << 32 ^ (uint64_t)it->server << 1 ^ it->ever_connected;
    hash = sim_blend(hash, it->conn < 0 ? NOTHING : conn_hash(s, it->conn, s->conns[it->conn].serial));
    hash = sim_blend(hash, (uint64_t)it->session << 32 ^ (it->connections - it->connections_told));
    hash = sim_blend(hash, seen(s, client, it->last_zxid));
    hash = sim_blend(hash, (uint64_t)it->last_received);
    hash = sim_blend(hash, (uint64_t)it->last_sent);
    hash = sim_blend(hash, (uint64_t)it->began);
    for (int i = 0; i < it->watch_count; i++) {
        hash = sim_blend(hash, sim_blend(path_hash(s, it->watches[i].path), it->watches[i].bits));
    }
    for (unsigned i = 0; i < it->count; i++) {
        const struct sim_outstanding *each = &it->outstanding[(it->first + i) % SIM_OUTSTANDING];
        hash = sim_blend(hash, sim_digest_id(s, client, each->id));
        hash = sim_blend(hash, sim_blend((uint64_t)each->op << 32 ^ (uint64_t)each->part_count << 1 ^ each->watch,
                                         path_hash(s, each->path)));
        hash = sim_blend(hash, each->op == ZKL__OP_MULTI ? path_hash(s, each->deletes) : NOTHING);
    }
    hash = sim_blend(hash, replies_hash(s, it));
    return sim_blend(hash, channel_hash(s, client, &it->inbox));
}

/* Its node went: was that before the last list it had? The judge asks. */
static int list_was_later(const struct sim *s, const struct sim_attempt *attempt)
{
    const char *name = attempt->contender ? zkl__contender_node(attempt->contender) : "";
    for (int node = s->node_count - 1; name[0] && node >= 0; node--) {
        if (strcmp(sim_path_name(&s->paths[s->nodes[node].path]), name) == 0) {
            const struct sim_client *client = &s->clients[attempt->client];
            int64_t gone = s->nodes[node].dzxid;
            return (gone <= client->listed_zxid[attempt->path]) + (gone <= client->shown_zxid[attempt->path]);
        }
    }
    return 0;
}

/* What the judge remembers of an acquire of a semaphore; of its nodes, which had gone before the last list that showed them. */
static uint64_t permits_hash(const struct sim *s, const struct sim_attempt *it)
{
    int64_t shown = s->clients[it->client].leases_zxid[it->path], token;
    uint64_t hash = sim_blend(rank(it->last_lease), (uint64_t)it->limit);
    hash = sim_blend(hash, (uint64_t)it->room_since);
    for (int i = 0; i < zkl__semaphore_count(it->semaphore); i++) {
        const char *name = zkl__semaphore_permit(it->semaphore, i, &token);
        for (int node = s->node_count - 1; name && name[0] && node >= 0; node--) {
            if (strcmp(sim_path_name(&s->paths[s->nodes[node].path]), name) == 0) {
                hash = sim_blend(hash, s->nodes[node].dzxid <= shown);
                break;
            }
        }
    }
    return hash;
}

static uint64_t attempt_hash(const struct sim *s, const struct sim_attempt *it)
{
    if (it->state == SIM_OVER || it->state == SIM_LEFT) {
        return (uint64_t)it->state;
    }
    uint64_t hash = sim_blend((uint64_t)it->state, (uint64_t)(it->plan - s->plan->acquires));
    hash = sim_blend(hash, (uint64_t)(it->contender != NULL) << 1 | (it->joint != NULL));
    hash = it->semaphore ? sim_blend(hash, permits_hash(s, it)) : hash;
    for (int seat = 0; seat < it->seats; seat++) {
        bool there = it->node[seat] >= 0 && shows(&s->nodes[it->node[seat]]);
        hash = sim_blend(hash, there ? node_hash(s, it->node[seat]) : (uint64_t)it->node[seat] >> 63);
    }
    hash = sim_blend(hash, (uint64_t)it->session << 8 ^ (uint64_t)it->shared << 5 ^ (uint64_t)it->jeopardy << 4 ^
                               (uint64_t)it->lapsed << 3 ^ (uint64_t)it->canceled << 2 ^ (uint64_t)it->exempt << 1 ^
                               (it->granted > 0));
    hash = sim_blend(hash, (uint64_t)it->deadline);
    hash = sim_blend(hash, (uint64_t)list_was_later(s, it));
    return sim_blend(hash, rank(it->token));
}

static uint64_t client_hash(const struct sim *s, int client)
{
    const struct sim_client *it = &s->clients[client];
    uint64_t hash = sim_blend((uint64_t)it->process << 32 | (uint64_t)it->incarnation, (uint64_t)it->heap.live);
    hash = sim_blend(hash, (uint64_t)it->paused_until);
    hash = sim_blend(hash, sim_blend((uint64_t)it->held_up_until, (uint64_t)it->held_down_until));
    hash = sim_blend(hash, (uint64_t)it->throttled << 32 ^ (uint64_t)it->refused << 1 ^ it->suspended);
    hash = sim_blend(hash, (uint64_t)it->last_step);
    for (int thread = 0; thread < SIM_THREADS; thread++) {
        int attempt = it->threads[thread].attempt;
        hash = sim_blend(hash, (uint64_t)it->threads[thread].next);
        hash = sim_blend(hash, attempt < 0 ? NOTHING : attempt_hash(s, &s->attempts[attempt]));
    }
    for (int i = 0; i < s->attempt_count; i++) { /* a thread may have gone on */
        hash = s->attempts[i].client == client ? sim_blend(hash, attempt_hash(s, &s->attempts[i])) : hash;
    }
    hash = sim_blend(hash, handle_hash(s, client));
    return sim_blend(hash, it->core ? sim_digest_core(s, client, rank) : NOTHING);
}

static uint64_t judge_hash(const struct sim *s)
{
    uint64_t hash = (uint64_t)s->faults.stranger << 1 | (s->faults.struck != 0);
    for (int path = 0; path < s->plan->paths; path++) {
        hash = sim_blend(hash, rank(s->judge.last_token[path]));
        hash = sim_blend(hash, rank(s->judge.last_exclusive[path]));
        hash = sim_blend(hash, (uint64_t)s->judge.held[path] << 1);
    }
    return hash;
}

uint64_t sim_digest(const struct sim *s)
{
    know_all(s);
    uint64_t hash = sim_blend((uint64_t)sim_now(s), (uint64_t)s->leader << 32 ^ (uint64_t)s->epoch);
    for (int slot = SLOT_TO_LEADER; slot < SLOTS; slot++) {
        hash = sim_blend(hash, (uint64_t)s->clock.due[slot]);
    }
    hash = sim_blend(hash, tree_hash(s));
    hash = sim_blend(hash, log_hash(s));
    for (int server = 0; server < s->server_count; server++) {
        hash = sim_blend(hash, server_hash(s, server));
    }
    for (int session = 0; session < s->session_count; session++) {
        hash = sim_blend(hash, session_hash(s, session));
    }
    uint64_t conns = 0;
    for (int i = 0; i < SIM_CONNS; i++) {
        conns += closed(&s->conns[i]) ? 0 : one_conn_hash(s, i);
    }
    hash = sim_blend(hash, conns);
    for (int client = 0; client < s->client_count; client++) {
        hash = sim_blend(hash, client_hash(s, client));
    }
    return sim_blend(hash, judge_hash(s));
}
