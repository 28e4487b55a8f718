/* history.c */
#include "history.h"

#include "digest.h"

static uint64_t message_hash(const struct sim_message *m)
{
    uint64_t hash = sim_blend((uint64_t)m->kind, (uint64_t)m->rc);
    hash = sim_blend(hash, (uint64_t)m->session << 32 ^ (uint64_t)(uint32_t)m->position);
    hash = sim_blend(hash, (uint64_t)m->path << 32 ^ (uint64_t)(uint32_t)m->node);
    hash = sim_blend(hash, m->id ^ (uint64_t)m->zxid);
    hash = sim_blend(hash, m->touches.all ^ m->touches.shorter << 16 ^ (uint64_t)m->event << 32);
    hash = sim_blend(hash, (uint64_t)m->part.op << 40 ^ (uint64_t)m->part.path << 8 ^ (uint64_t)m->watch);
    return sim_blend(hash, m->conn_serial);
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

void sim_history_event(struct sim_history *h, const struct sim *s, int slot)
{
    const struct sim_message *message;
    uint64_t *history = &h->processes[process_of(s, slot, &message)];
    if (slot < SLOT_TO_CLIENT) {
        uint64_t *of_conn = &h->conns[slot];
        *of_conn = sim_blend(*of_conn, message_hash(message) ^ (uint64_t)sim_server_zxid(s, s->conns[slot].server));
        *of_conn = sim_blend(*of_conn, (uint64_t)sim_now(s));
        if (!is_write(message)) {
            return;
        }
    }
    *history = sim_blend(*history, (uint64_t)slot << 48 ^ (uint64_t)s->clock.due[slot]);
    if (message) {
        *history = sim_blend(*history, message_hash(message));
    }
}

void sim_history_fault(struct sim_history *h, const struct sim *s, int client, int kind, bool at_leader)
{
    uint64_t *of_client = &h->processes[SIM_SERVERS + client];
    uint64_t *of_leader = &h->processes[s->leader < 0 ? 0 : s->leader];
    *of_client = sim_blend(*of_client, (uint64_t)kind + 1000);
    *of_leader = at_leader ? sim_blend(*of_leader, (uint64_t)kind + 2000) : *of_leader;
}

uint64_t sim_history_hash(const struct sim_history *h, const struct sim *s)
{
    uint64_t hash = (uint64_t)sim_now(s);
    for (int i = 0; i < SIM_SERVERS + SIM_CLIENTS; i++) {
        hash = sim_blend(hash, h->processes[i]);
    }
    for (int i = 0; i < SIM_CONNS; i++) {
        hash = sim_blend(hash, h->conns[i]);
    }
    for (int i = 0; i < s->plan->paths; i++) { /* what the judge remembers */
        hash = sim_blend(hash, (uint64_t)s->judge.last_token[i] ^ (uint64_t)s->judge.held[i] << 60);
    }
    return hash;
}
