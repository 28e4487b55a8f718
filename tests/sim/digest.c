/* digest.c - one number for all that a world of explore.c can still do: equal for worlds whose futures are equal.
 *
 * By default everything counts. What does not count, or not by its value, is listed here with the reason why no rule can tell the
 * difference.
 *
 *  addresses   Memory of a core is read as a graph from the core on (Iosif's heap canonicalization): a pointer is the number of its block in
 *              the order of the walk. Nothing in the core compares or hashes an address.
 *  statistics  Of the core: counted, never read by a step. That the sums agree is checked at each step, of what the step adds.
 *  text        Behind the NUL of a name.
 *  zxids       By their order among those that something may still be compared with: births and writes of living nodes, tokens, and the tail
 *              of the log that not every server has applied. A later transaction is after all of them. Of what a client has last
 *              seen, by which of them it has seen.
 *  ids         Of operations: a reply names the slot of the core's table whose use it is, or none. Uses only grow.
 *  labels      Indices of messages, nodes, paths, connections: a path is its text, a node its path and birth, a connection its client
 *              and its place among that client's connections.
 *  the past    The log that every server has applied; nodes that no server shows and nothing names; connections closed at both ends;
 *              acquires that are over; the judge's counts.
 *  the room    of sim.h, which is much larger than these worlds.
 *  the same    What is so in each of these worlds: no pauses, held channels, preemption, elections, access lists of readers, shorter
 *              timeouts, inboxes, joints, readers, dirty markers (and so no multi), deadlines, cancels. */

#include "run.h"
#include "core_internal.h"

enum { BIRTHS = SIM_NODES + SIM_VALUES + SIM_ACQUIRES + SIM_TXNS, NOTHING = 0x4e6f6e65 };

static uint64_t blend(uint64_t hash, uint64_t value)
{
    return dice_mix(hash ^ (value + 0x9e3779b97f4a7c15u + (hash << 6)));
}

static uint64_t bytes_hash(const void *data, size_t size)
{
    const char *at = data;
    uint64_t hash = size, word = 0;
    for (; size >= sizeof word; size -= sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = blend(hash, word);
        at += sizeof word;
    }
    word = 0;
    memcpy(&word, at, size);
    return size ? blend(hash, word) : hash;
}
/* Of these values, in this order. */
#define HASH(...) bytes_hash((const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}))

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

static void know_all(const struct sim *s)
{
    base = s->committed;
    SIM_EACH (server, s->servers, s->server_count) {
        base = (int)sim_min(base, server->applied);
    }
    base_zxid = base ? s->log[base - 1].zxid : 0;
    known_count = 0;
    SIM_EACH_NODE (s, node) {
        for (int v = shows(node) ? node->value : -1; v >= 0; v = s->values[v].older) {
            know(s->values[v].zxid);
        }
    }
    SIM_EACH (txn, &s->log[base], s->proposed - base) {
        know(txn->zxid);
    }
    SIM_EACH (client, s->clients, s->client_count) {
        ZKL__EACH (const struct zkl__contender, c, &client->core->machines[ZKL__RANK_FIRST], machine.in_session) {
            know(c->node.czxid);
            know(c->own.revoked);
        }
        int conn = client->handle.conn;
        for (const struct sim_message *m = conn < 0 ? NULL : s->conns[conn].to_client.head; m; m = m->next) {
            know(m->node < 0 ? 0 : s->nodes[m->node].czxid);
        }
    }
    SIM_EACH_ATTEMPT (s, it) {
        if (it->state < SIM_LEFT) {
            know(it->token);
            know(it->last_lease);
        }
    }
    SIM_EACH (granted, s->judge.granted, s->plan->paths) {
        know(granted->token);
        know(granted->exclusive);
    }
}

/* What a client has last seen is compared with changes of what it watches, and with what a server has applied. */
static uint64_t seen(const struct sim *s, int client, int64_t zxid)
{
    const struct sim_watches *watches = &s->clients[client].handle.watches;
    uint64_t hash = zxid > 0;
    SIM_EACH (txn, &s->log[base], s->proposed - base) {
        hash += txn->zxid <= zxid ? 2 : 0;
    }
    SIM_EACH (watch, watches->all, watches->count) {
        int newest = s->paths[watch->path].node;
        bool there = sim_node_at(s, watch->path, SIM_HEAD) >= 0;
        bool children = watch->bits & SIM_WATCH_CHILD;
        bool changed = there ? sim_tree_changed(s, watch->path, SIM_HEAD, children) > zxid
                             : newest >= 0 && s->nodes[newest].dzxid > zxid;
        hash = HASH(hash, there, changed);
    }
    return hash;
}

/* --- cores: memory as a graph, every byte of it but what stands above ----------------------------------------------------- */

enum { BLOCKS = 512 };

struct walk {
    const struct sim *s;
    const struct sim_heap *heap;
    const struct zkl__core *core;
    uint32_t blocks[BLOCKS]; /* in the order in which they were met */
    uint32_t count;
};

static uint64_t scratch[8192];

/* Blocks of a walk are few, and most pointers lead to the latest: a search from the end. */
static uint64_t number_of(struct walk *w, uint32_t block)
{
    for (uint32_t i = w->count; i > 0; i--) {
        if (w->blocks[i - 1] == block) {
            return i;
        }
    }
    if (w->count == BLOCKS) {
        __builtin_trap();
    }
    w->blocks[w->count++] = block;
    return w->count;
}

static void end_text(char *text, size_t room)
{
    size_t length = strnlen(text, room);
    memset(text + length, 0, room - length);
}

/* A copy of that block without what does not count. */
static void make_plain(const struct zkl__core *core, const void *block, void *copy)
{
    if (block == core) {
        struct zkl__core *plain = copy;
        memset(&plain->stats, 0, sizeof plain->stats);
        plain->connected_at = plain->broken = 0; /* for a warning only, as the next ones */
        plain->set_again = plain->set_again_bytes = 0;
        plain->ids = 0;
    }
    ZKL__EACH (const struct zkl__pending, p, &core->sent, link) {
        if (block == p) {
            ((struct zkl__pending *)copy)->id = 1;
        }
    }
    ZKL__EACH (const struct zkl__contender, c, &core->machines[ZKL__RANK_FIRST], machine.in_session) {
        if (block == c) {
            struct zkl__contender *plain = copy;
            plain->path_stats = NULL;
            plain->since = 0;
            plain->node.czxid = rank(c->node.czxid);
            plain->own.revoked = rank(c->own.revoked);
            end_text(plain->node.prefix, sizeof plain->node.prefix);
            end_text(plain->node.name, sizeof plain->node.name);
        }
    }
    ZKL__EACH (const struct zkl__semaphore, it, &core->machines[ZKL__RANK_LAST], machine.in_session) {
        struct zkl__semaphore *plain = copy;
        struct zkl__children *leases = copy; /* the list that it judges */
        if (block == it) {
            end_text(plain->last, sizeof plain->last);
        } else if (block == it->leases) {
            leases->czxid = rank(leases->czxid);
            SIM_EACH (child, leases->all, leases->count) {
                child->czxid = 0; /* noted for groups */
            }
        }
    }
}

/* The application's acquire that an address is in; NULL: none. */
static const struct sim_attempt *find_attempt(const struct sim *s, uint64_t word)
{
    uint64_t at = word - (uintptr_t)s->attempts;
    return at < sizeof s->attempts ? &s->attempts[at / sizeof s->attempts[0]] : NULL;
}

static uint64_t block_hash(struct walk *w, uint32_t block)
{
    size_t size;
    const void *data = sim_heap_block(w->heap, block, &size);
    if (size > sizeof scratch) {
        __builtin_trap();
    }
    scratch[size / 8] = 0;
    memcpy(scratch, data, size);
    make_plain(w->core, data, scratch);
    uint64_t hash = size;
    for (size_t i = 0; i < (size + 7) / 8;
         i++) { /* a word in its place: most are nothing, and none waits for another */
        uint64_t word = scratch[i];
        uint32_t offset;
        if (word == 0) {
            continue;
        }
        int32_t to = sim_heap_find(w->heap, word, &offset);
        const struct sim_attempt *attempt = find_attempt(w->s, word);
        if (to >= 0) {
            word = UINT64_C(0xadd) << 48 | number_of(w, to) << 24 | offset;
        } else if (attempt) {
            word = UINT64_C(0xacc) << 48 | (attempt->plan - w->s->plan->acquires);
        }
        hash += dice_mix(word + i * 0x9e3779b97f4a7c15u);
    }
    return hash;
}

static uint64_t core_hash(const struct sim *s, int client)
{
    struct walk w = {.s = s, .heap = &s->clients[client].heap, .core = s->clients[client].core};
    uint32_t offset;
    uint64_t hash = number_of(&w, sim_heap_find(w.heap, (uintptr_t)w.core, &offset));
    for (uint32_t i = 0; i < w.count; i++) {
        hash = blend(hash, block_hash(&w, w.blocks[i]));
    }
    SIM_EACH_ATTEMPT (s, attempt) { /* where the application's pointers lead */
        const void *mine = attempt->contender ? (const void *)attempt->contender : attempt->semaphore;
        if (attempt->client == client && mine) {
            hash = blend(hash, number_of(&w, sim_heap_find(w.heap, (uintptr_t)mine, &offset)));
        }
    }
    return hash;
}

/* Which one of the operations that were sent an id names. */
static uint64_t id_hash(const struct sim *s, int client, uint64_t id)
{
    uint64_t at = 2;
    ZKL__EACH (const struct zkl__pending, p, &s->clients[client].core->sent, link) {
        if (p->id == id) {
            return at;
        }
        at++;
    }
    return id != 0;
}

/* --- labels ------------------------------------------------------------------------------------------------------------ */

static uint64_t path_hash(const struct sim *s, int path)
{
    return path < 0 ? NOTHING : bytes_hash(s->paths[path].text, strlen(s->paths[path].text));
}

static uint64_t node_hash(const struct sim *s, int node)
{
    return node < 0 ? NOTHING : HASH(path_hash(s, s->nodes[node].path), rank(s->nodes[node].czxid));
}

static bool closed(const struct sim_conn *conn)
{
    return !conn->client_open && !conn->server_open && !conn->to_server.head;
}

static uint64_t conn_hash(const struct sim *s, int index, uint32_t serial)
{
    if (index < 0 || s->conns[index].serial != serial || closed(&s->conns[index])) {
        return NOTHING;
    }
    uint64_t older = 0;
    SIM_EACH (each, s->conns, s->conn_count) {
        older += !closed(each) && each->client == s->conns[index].client && each->serial < serial;
    }
    return HASH(s->conns[index].client, older);
}

/* In no order: connections come and go in any. */
static uint64_t watches_hash(const struct sim *s, const struct sim_watches *watches)
{
    uint64_t sum = 0;
    SIM_EACH (watch, watches->all, watches->count) {
        sum += HASH(path_hash(s, watch->path), watch->bits);
    }
    return sum;
}

/* --- messages ---------------------------------------------------------------------------------------------------------- */

/* What a stat says that a core reads, but for zxids. */
static uint64_t stat_hash(const struct sim *s, int node, int64_t zxid)
{
    struct zkl__stat stat;
    sim_stat_at(s, node, zxid, &stat);
    return HASH(stat.child_count, stat.version, stat.data_size);
}

/* A reply is made when it is read, of the tree as it was: so what was asked shows what it will say. */
static uint64_t content_hash(const struct sim *s, const struct sim_message *m)
{
    const struct sim_part *request = &m->part;
    uint64_t hash = 0;
    if (request->op == ZKL__OP_CHILDREN) {
        SIM_EACH_CHILD (s, node, request->path, m->zxid) {
            hash += path_hash(s, s->nodes[node].path);
        }
    }
    if (request->op == ZKL__OP_GET && m->node >= 0) {
        const struct sim_value *value = sim_value_at(s, m->node, m->zxid);
        hash = HASH(hash, value->version, bytes_hash(value->data, value->size));
    }
    if (m->node >= 0) {
        hash = HASH(hash, s->nodes[m->node].owner,
                    request->op == ZKL__OP_EXISTS ? stat_hash(s, m->node, m->zxid) : NOTHING);
    }
    return hash;
}

static uint64_t message_hash(const struct sim *s, int client, const struct sim_message *m)
{
    const struct sim_part *part = &m->part;
    assert(part->op != ZKL__OP_MULTI);
    client = client < 0 && m->conn >= 0 ? s->conns[m->conn].client : client;
    uint64_t hash = HASH(m->kind, m->rc, m->session, m->event, m->watch, m->answered, m->due, m->position - base,
                         m->touches.all, conn_hash(s, m->conn, m->conn_serial), path_hash(s, m->path),
                         node_hash(s, m->node), part->op, part->mode, part->rc, path_hash(s, part->path),
                         node_hash(s, part->node), part->version, bytes_hash(part->data, part->size));
    hash = client < 0 ? hash : HASH(hash, id_hash(s, client, m->id), seen(s, client, m->zxid));
    return m->kind == SIM_MSG_REPLY ? HASH(hash, content_hash(s, m)) : hash;
}

static uint64_t channel_hash(const struct sim *s, int client, const struct sim_channel *channel)
{
    uint64_t hash = 0;
    for (const struct sim_message *m = channel->head; m; m = m->next) {
        hash = blend(hash, message_hash(s, client, m));
    }
    return hash;
}

/* --- the parts of a world ---------------------------------------------------------------------------------------------- */

static uint64_t tree_hash(const struct sim *s)
{
    uint64_t sum = 0;
    bool woke_two = false;
    SIM_EACH_NODE (s, n) {
        woke_two = woke_two || n->end_told > 1;
        if (!shows(n)) {
            continue;
        }
        uint64_t hash =
            HASH(node_hash(s, (int)(n - s->nodes)), rank(n->dzxid), n->owner, n->container, n->taken, n->cversion,
                 n->head_zxid > sim_committed_zxid(s) ? n->head_cversion : NOTHING, n->end_told);
        for (int v = n->value; v >= 0; v = s->values[v].older) {
            hash = HASH(hash, rank(s->values[v].zxid), s->values[v].version,
                        bytes_hash(s->values[v].data, s->values[v].size));
        }
        sum += hash; /* in no order: their births are in it */
    }
    return sum + woke_two;
}

static uint64_t log_hash(const struct sim *s)
{
    uint64_t hash = s->committed - base;
    SIM_EACH (txn, &s->log[base], s->proposed - base) {
        hash = HASH(hash, txn->kind, txn->rc, txn->session, conn_hash(s, txn->conn, txn->conn_serial),
                    node_hash(s, txn->node), txn->acks);
        SIM_EACH (effect, &s->effects[txn->first_effect], txn->effect_count) {
            hash = HASH(hash, effect->kind, effect->cversion, node_hash(s, effect->node));
        }
    }
    SIM_EACH (sync, s->syncs, s->sync_count) {
        hash = HASH(hash, sync->position - base, sync->server, conn_hash(s, sync->conn, sync->conn_serial),
                    id_hash(s, s->conns[sync->conn].client, sync->id));
    }
    return hash;
}

static uint64_t server_hash(const struct sim *s, const struct sim_server *it)
{
    uint64_t heard = 0;
    for (int i = 0; i < s->server_count; i++) {
        heard = HASH(heard, it->heard[i], it->linked[i]);
    }
    return HASH(heard, it->role, it->logged - base, it->applied - base, it->heard_leader, it->touched.all,
                channel_hash(s, -1, &it->to_leader), channel_hash(s, -1, &it->from_leader));
}

static uint64_t session_hash(const struct sim_session *it)
{
    return HASH(it->client, it->closing, it->committed, it->ended, it->by_operator, it->deadline,
                it->taken ? it->turn : NOTHING, it->decided,
                it->ended && it->ended_position >= base ? it->ended_position - base : NOTHING, it->owner);
}

static uint64_t one_conn_hash(const struct sim *s, const struct sim_conn *conn)
{
    int index = (int)(conn - s->conns);
    return HASH(conn_hash(s, index, conn->serial), conn->server, conn->session, conn->client_open, conn->server_open,
                channel_hash(s, conn->client, &conn->to_server), channel_hash(s, conn->client, &conn->to_client),
                channel_hash(s, conn->client, &conn->pending), s->clock.due[SLOT_TO_SERVER + index],
                s->clock.due[SLOT_TO_CLIENT + index], watches_hash(s, &conn->watches));
}

static uint64_t handle_hash(const struct sim *s, int client)
{
    const struct sim_handle *it = &s->clients[client].handle;
    uint64_t hash =
        HASH(it->state, it->server, it->conn < 0 ? NOTHING : conn_hash(s, it->conn, s->conns[it->conn].serial),
             it->session, seen(s, client, it->last_zxid), it->last_received, it->last_sent, it->began);
    SIM_EACH (watch, it->watches.all, it->watches.count) {
        hash = HASH(hash, path_hash(s, watch->path), watch->bits);
    }
    for (unsigned i = 0; i < it->count; i++) {
        const struct sim_outstanding *each = &it->outstanding[(it->first + i) % SIM_OUTSTANDING];
        hash = HASH(hash, id_hash(s, client, each->id), each->op, each->watch, path_hash(s, each->path));
    }
    return hash;
}

/* When the last node of this name went; SIM_NEVER: it has not, or there is none. */
static int64_t went_at(const struct sim *s, const char *name)
{
    for (int node = s->node_count - 1; name && name[0] && node >= 0; node--) {
        if (strcmp(sim_node_name(s, node), name) == 0) {
            return s->nodes[node].dzxid;
        }
    }
    return SIM_NEVER;
}

/* Its node went: was that before the last list it had? The judge asks. */
static int list_was_later(const struct sim *s, const struct sim_attempt *attempt)
{
    const struct sim_client *client = &s->clients[attempt->client];
    int64_t gone = went_at(s, attempt->contender ? zkl__contender_node(attempt->contender) : NULL);
    return (gone <= client->listed_zxid[attempt->path]) + (gone <= client->shown_zxid[attempt->path]);
}

/* What the judge remembers of an acquire of a semaphore; of its nodes, which had gone before the last list that showed them. */
static uint64_t permits_hash(const struct sim *s, const struct sim_attempt *it)
{
    int64_t shown = s->clients[it->client].leases_zxid[it->path], token;
    uint64_t hash = HASH(rank(it->last_lease), it->limit, it->room_since);
    for (int i = 0; i < zkl__semaphore_count(it->semaphore); i++) {
        hash = HASH(hash, went_at(s, zkl__semaphore_permit(it->semaphore, i, &token)) <= shown);
    }
    return hash;
}

static uint64_t attempt_hash(const struct sim *s, const struct sim_attempt *it)
{
    if (it->state >= SIM_LEFT) {
        return it->state;
    }
    uint64_t hash = HASH(it->state, it->plan - s->plan->acquires, it->contender != NULL,
                         it->semaphore ? permits_hash(s, it) : NOTHING, it->session, it->jeopardy, it->lapsed,
                         it->exempt, it->granted > 0, list_was_later(s, it), rank(it->token));
    for (int seat = 0; seat < it->seats; seat++) {
        bool there = it->node[seat] >= 0 && shows(&s->nodes[it->node[seat]]);
        hash = HASH(hash, there ? node_hash(s, it->node[seat]) : it->node[seat] < 0);
    }
    return hash;
}

static uint64_t client_hash(const struct sim *s, int client)
{
    const struct sim_client *it = &s->clients[client];
    uint64_t hash = HASH(it->incarnation, it->heap.live, it->suspended, it->last_step, handle_hash(s, client),
                         core_hash(s, client));
    SIM_EACH (thread, &s->threads[client * SIM_THREADS], SIM_THREADS) {
        hash = HASH(hash, thread->next, thread->attempt != NULL);
    }
    SIM_EACH_ATTEMPT (s, attempt) { /* a thread may have gone on */
        hash = attempt->client == client ? blend(hash, attempt_hash(s, attempt)) : hash;
    }
    return hash;
}

static uint64_t judge_hash(const struct sim *s)
{
    uint64_t hash = HASH(s->faults.stranger, s->faults.struck != 0);
    SIM_EACH (granted, s->judge.granted, s->plan->paths) {
        hash = HASH(hash, rank(granted->token), rank(granted->exclusive));
    }
    return hash;
}

uint64_t sim_digest(const struct sim *s)
{
    know_all(s);
    uint64_t hash = HASH(sim_now(s), tree_hash(s), log_hash(s), judge_hash(s)), conns = 0;
    SIM_EACH (due, &s->clock.due[SLOT_TO_LEADER], SLOTS - SLOT_TO_LEADER) {
        hash = blend(hash, *due);
    }
    SIM_EACH (server, s->servers, s->server_count) {
        hash = blend(hash, server_hash(s, server));
    }
    SIM_EACH (session, s->sessions, s->session_count) {
        hash = blend(hash, session_hash(session));
    }
    SIM_EACH (conn, s->conns, s->conn_count) {
        conns += closed(conn) ? 0 : one_conn_hash(s, conn);
    }
    for (int client = 0; client < s->client_count; client++) {
        hash = blend(hash, client_hash(s, client));
    }
    return blend(hash, conns);
}
