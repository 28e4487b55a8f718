/* explore.c - depth first, each world once. */
#include "explore.h"

#include <string.h>

#include "invariants.h"

enum { DEPTH = 4096, OPTIONS = SLOTS + 4 * SIM_CLIENTS };

struct explorer {
    struct sim *s;
    struct sim_plan plan;
    int faults;                                  /* allowed */
    int faults_left;                             /* in this run */
    uint64_t history[SIM_SERVERS + SIM_CLIENTS]; /* of a server: its writes, for their order shows */
    uint64_t conn_history[SIM_CONNS];            /* what it read for whom, at which zxid */
    struct {
        short taken, count;
    } choices[DEPTH];
    int depth; /* choices made in this run */
    int known; /* of them, given by the last run */
    uint64_t *seen;
    uint64_t room;
    uint64_t limit;
    struct sim_explored *out;
};

/* --- worlds ---------------------------------------------------------------------------------------------------------- */

static uint64_t blend(uint64_t hash, uint64_t value)
{
    return dice_mix(hash ^ (value + 0x9e3779b97f4a7c15u + (hash << 6)));
}

static uint64_t message_hash(const struct sim_message *m)
{
    uint64_t hash = blend((uint64_t)m->kind, (uint64_t)m->rc);
    hash = blend(hash, (uint64_t)m->session << 32 ^ (uint64_t)(uint32_t)m->position);
    hash = blend(hash, (uint64_t)m->path << 32 ^ (uint64_t)(uint32_t)m->node);
    hash = blend(hash, m->id ^ (uint64_t)m->zxid);
    hash = blend(hash, m->sessions ^ (uint64_t)m->event << 32);
    hash = blend(hash, (uint64_t)m->part.op << 40 ^ (uint64_t)m->part.path << 8 ^ (uint64_t)m->watch);
    return blend(hash, m->conn_serial);
}

/* The process that an event belongs to, and the message it is about. */
static int process_of(const struct sim *s, int slot, const struct sim_message **message)
{
    *message = NULL;
    if (slot < SLOT_TO_CLIENT) {
        *message = s->conns[slot].to_server.head;
        return s->conns[slot].server;
    }
    if (slot < SLOT_TO_LEADER) {
        *message = s->conns[slot - SLOT_TO_CLIENT].to_client.head;
        return SIM_SERVERS + s->conns[slot - SLOT_TO_CLIENT].client;
    }
    if (slot < SLOT_FROM_LEADER) {
        *message = s->servers[slot - SLOT_TO_LEADER].to_leader.head;
        return s->leader < 0 ? 0 : s->leader;
    }
    if (slot < SLOT_TICK) {
        *message = s->servers[slot - SLOT_FROM_LEADER].from_leader.head;
    }
    if (slot < SLOT_EXPIRY) {
        return (slot - SLOT_FROM_LEADER) % SIM_SERVERS;
    }
    if (slot < SLOT_LIBRARY) {
        return s->leader < 0 ? 0 : s->leader;
    }
    return SIM_SERVERS +
           (slot < SLOT_THREAD ? (slot - SLOT_LIBRARY) % SIM_CLIENTS : (slot - SLOT_THREAD) / SIM_THREADS);
}

static bool is_write(const struct sim_message *message)
{
    enum zkl__op_kind op = message->part.op;
    bool reads = op == ZKL__OP_SYNC || op == ZKL__OP_CHILDREN || op == ZKL__OP_GET || op == ZKL__OP_EXISTS ||
                 op == ZKL__OP_UNWATCH;
    return message->kind != SIM_MSG_PING && message->kind != SIM_MSG_SETWATCHES &&
           !(message->kind == SIM_MSG_REQUEST && reads);
}

static void note_event(struct explorer *e, int slot)
{
    const struct sim_message *message;
    uint64_t *history = &e->history[process_of(e->s, slot, &message)];
    if (slot < SLOT_TO_CLIENT) {
        uint64_t *of_conn = &e->conn_history[slot];
        *of_conn = blend(*of_conn, message_hash(message) ^ (uint64_t)sim_server_zxid(e->s, e->s->conns[slot].server));
        *of_conn = blend(*of_conn, (uint64_t)sim_now(e->s));
        if (!is_write(message)) {
            return;
        }
    }
    *history = blend(*history, (uint64_t)slot << 48 ^ (uint64_t)e->s->clock.due[slot]);
    if (message) {
        *history = blend(*history, message_hash(message));
    }
}

static uint64_t world_hash(const struct explorer *e)
{
    uint64_t hash = blend((uint64_t)e->faults_left, (uint64_t)sim_now(e->s));
    for (int i = 0; i < SIM_SERVERS + SIM_CLIENTS; i++) {
        hash = blend(hash, e->history[i]);
    }
    for (int i = 0; i < SIM_CONNS; i++) {
        hash = blend(hash, e->conn_history[i]);
    }
    for (int i = 0; i < e->plan.paths; i++) { /* what the judge remembers */
        hash = blend(hash, (uint64_t)e->s->judge.last_token[i] ^ (uint64_t)e->s->judge.held[i] << 60);
    }
    return hash ? hash : 1;
}

/* True when it is new. */
static bool visit(struct explorer *e)
{
    uint64_t hash = world_hash(e);
    uint64_t at = hash % e->room;
    while (e->seen[at]) {
        if (e->seen[at] == hash) {
            return false;
        }
        at = (at + 1) % e->room;
    }
    e->seen[at] = hash;
    e->out->worlds++;
    return true;
}

/* --- what can happen ------------------------------------------------------------------------------------------------- */

/* Between servers only a commit, or what stands behind one, shows in more than one order. */
static bool is_inner(const struct sim *s, int slot)
{
    if (slot >= SLOT_TO_LEADER && slot < SLOT_FROM_LEADER) {
        enum sim_message_kind kind = s->servers[slot - SLOT_TO_LEADER].to_leader.head->kind;
        return kind == SIM_MSG_ACK || kind == SIM_MSG_HEARD;
    }
    if (slot >= SLOT_FROM_LEADER && slot < SLOT_TICK) {
        enum sim_message_kind kind = s->servers[slot - SLOT_FROM_LEADER].from_leader.head->kind;
        return kind == SIM_MSG_PROPOSAL || kind == SIM_MSG_ASK;
    }
    return false;
}

/* The client has not begun to connect for the first time, or no server has read that it wants a session. */
static bool is_unheard(const struct sim *s, int client)
{
    const struct sim_handle *handle = &s->clients[client].handle;
    const struct sim_message *first = handle->conn < 0 ? NULL : s->conns[handle->conn].to_server.head;
    return s->clients[client].incarnation == 1 && !handle->ever_connected &&
           (handle->state == SIM_HANDLE_WAITING || (first && first->kind == SIM_MSG_CONNECT));
}

/* Clients of one server are alike, so they get their sessions in one order only: every other is the same world under other names. */
static bool is_renamed(const struct sim *s, int slot)
{
    bool reads = slot < SLOT_TO_CLIENT;
    bool begins = slot >= SLOT_LIBRARY && slot < SLOT_INBOX;
    if (s->server_count > 1 || !(reads || begins)) {
        return false;
    }
    int client = reads ? s->conns[slot].client : slot - SLOT_LIBRARY;
    for (int lower = 0; lower < client && is_unheard(s, client); lower++) {
        if (is_unheard(s, lower)) {
            return true;
        }
    }
    return false;
}

/* The slots that are due at the earliest time. */
static int enabled(const struct sim *s, int *options)
{
    int64_t due = s->clock.due[sim_clock_next(&s->clock)];
    int count = 0;
    for (int slot = 0; slot < SLOTS; slot++) {
        if (s->clock.due[slot] == due && !is_renamed(s, slot)) {
            if (is_inner(s, slot)) {
                options[0] = slot;
                return 1;
            }
            options[count++] = slot;
        }
    }
    return count;
}

enum { CUT, CUT_AND_LOSE, CLOSE, DELETE, KINDS };

static int node_of(const struct sim *s, int session)
{
    for (int node = 0; node < s->node_count; node++) {
        if (s->nodes[node].owner == session && s->nodes[node].dzxid == SIM_NEVER) {
            return node;
        }
    }
    return -1;
}

/* One that would do nothing, or the same as another, is left out. */
static bool tells(const struct sim *s, const struct sim_handle *handle, int kind)
{
    return kind == CUT_AND_LOSE ? s->conns[handle->conn].to_server.count > 0
           : kind == DELETE     ? node_of(s, handle->session) >= 0
                                : true;
}

static int add_faults(const struct explorer *e, int *options, int count)
{
    for (int client = 0; e->faults_left > 0 && client < e->plan.clients; client++) {
        const struct sim_handle *handle = &e->s->clients[client].handle;
        for (int kind = 0; kind < KINDS && handle->state == SIM_HANDLE_CONNECTED; kind++) {
            if (tells(e->s, handle, kind)) {
                options[count++] = SLOTS + KINDS * client + kind;
            }
        }
    }
    return count;
}

static void strike(struct explorer *e, int option)
{
    struct sim *s = e->s;
    int client = option / KINDS;
    int session = s->clients[client].handle.session;
    e->faults_left--;
    s->faults.struck = 1;
    e->history[SIM_SERVERS + client] = blend(e->history[SIM_SERVERS + client], (uint64_t)option + 1000);
    sim_say(s, "fault", "%d of client %d", option % KINDS, client);
    if (option % KINDS == CUT || option % KINDS == CUT_AND_LOSE) {
        sim_handle_cut(s, client, option % KINDS == CUT ? SIM_MESSAGES : 0);
        return;
    }
    s->faults.stranger = true;
    if (option % KINDS == CLOSE) {
        sim_stranger_closes(s, session);
    } else {
        int path = s->nodes[node_of(s, session)].path;
        sim_stranger_writes(s, &(struct sim_part){.op = ZKL__OP_DELETE, .path = path, .version = -1});
    }
    uint64_t *history = &e->history[s->leader < 0 ? 0 : s->leader];
    *history = blend(*history, (uint64_t)option + 2000);
}

/* --- one run --------------------------------------------------------------------------------------------------------- */

/* The next choice: as in the last run, or the first one there is. */
static int choose(struct explorer *e, int count)
{
    if (e->depth == DEPTH) {
        sim_fail(e->s, "storm", "too many choices");
        return 0;
    }
    if (e->depth >= e->known) {
        e->choices[e->depth].taken = 0;
        e->choices[e->depth].count = (short)count;
    }
    return e->choices[e->depth++].taken;
}

/* True: went to an end. False: came to a world that was seen before. */
static bool run(struct explorer *e)
{
    struct sim *s = e->s;
    int options[OPTIONS];
    while (!sim_app_done(s) && !s->judge.failed) {
        int count = add_faults(e, options, enabled(s, options));
        int option = options[0];
        if (count > 1) {
            bool fresh = e->depth >= e->known;
            if (fresh && !visit(e)) {
                return false;
            }
            option = options[choose(e, count)];
        }
        if (option >= SLOTS) {
            strike(e, option - SLOTS);
            continue;
        }
        note_event(e, option);
        e->out->steps++;
        if (!sim_step_slot(s, option)) {
            break;
        }
        if (sim_now(s) > 20 * e->plan.timeout) {
            sim_fail(s, "liveness", "not all acquires have ended");
        }
    }
    return true;
}

static void plan_world(struct sim_plan *plan, int servers, int clients, int acquires)
{
    *plan = (struct sim_plan){.servers = servers,
                              .clients = clients,
                              .paths = 1,
                              .tick = 1000 * SIM_MS,
                              .timeout = 4000 * SIM_MS,
                              .pause = 250 * SIM_MS,
                              .sequence = 1}; /* the directory is there */
    for (int client = 0; client < clients; client++) {
        for (int i = 0; i < acquires; i++) {
            plan->acquires[plan->acquire_count++] = (struct sim_acquire){.client = client, .timeout = -1, .cancel = -1};
        }
    }
}

/* The last choice that has another answer. False: all were tried. */
static bool next_path(struct explorer *e)
{
    while (e->depth > 0) {
        e->depth--;
        if (e->choices[e->depth].taken + 1 < e->choices[e->depth].count) {
            e->choices[e->depth].taken++;
            e->known = e->depth + 1;
            return true;
        }
    }
    return false;
}

bool sim_explore(struct sim *s, int servers, int clients, int acquires, int faults, uint64_t limit, FILE *trace,
                 struct sim_explored *out)
{
    static struct explorer explorer;
    struct explorer *e = &explorer;
    *out = (struct sim_explored){.worlds = 0};
    *e = (struct explorer){.s = s, .faults = faults, .limit = limit, .out = out, .room = limit * 2 + 64};
    plan_world(&e->plan, servers, clients, acquires);
    e->seen = calloc(e->room, sizeof *e->seen);
    bool more = e->seen, fine = true;
    while (more && fine && out->worlds < limit) {
        e->depth = 0;
        e->faults_left = faults;
        memset(e->history, 0, sizeof e->history);
        memset(e->conn_history, 0, sizeof e->conn_history);
        sim_begin(s, &e->plan, 1, NULL);
        if (run(e)) {
            sim_finish(s, !s->judge.failed);
            fine = !s->judge.failed;
        } else {
            sim_abandon(s);
        }
        out->runs++;
        out->depth = e->depth > out->depth ? e->depth : out->depth;
        if (fine) {
            more = next_path(e);
        }
    }
    out->closed = fine && !more;
    if (!fine && trace) { /* once more, told */
        e->known = e->depth;
        e->depth = 0;
        e->faults_left = faults;
        sim_begin(s, &e->plan, 1, trace);
        run(e);
        sim_finish(s, !s->judge.failed);
    }
    free(e->seen);
    return fine;
}
