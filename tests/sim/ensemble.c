/* ensemble.c - the log: proposed by a leader, acknowledged by followers, committed, applied; the leader's session tracker. */
#include <stdio.h>

#include "sim.h"

static int majority(const struct sim *s)
{
    return s->voters / 2 + 1;
}

int64_t sim_committed_zxid(const struct sim *s)
{
    return s->committed ? s->log[s->committed - 1].zxid : 0;
}

int64_t sim_server_zxid(const struct sim *s, int server)
{
    int applied = s->servers[server].applied;
    return applied ? s->log[applied - 1].zxid : 0;
}

void sim_to_follower(struct sim *s, int server, struct sim_message *message)
{
    sim_channel_push(s, &s->servers[server].from_leader, SLOT_FROM_LEADER + server, message);
}

void sim_to_leader(struct sim *s, int server, struct sim_message *message)
{
    sim_channel_push(s, &s->servers[server].to_leader, SLOT_TO_LEADER + server, message);
}

static void tell_follower(struct sim *s, int server, enum sim_message_kind kind, int position)
{
    struct sim_message *message = sim_message_new(s, kind);
    message->position = position;
    sim_to_follower(s, server, message);
}

static void tell_followers(struct sim *s, enum sim_message_kind kind, int position)
{
    for (int i = 0; i < s->server_count; i++) {
        if (s->servers[s->leader].linked[i]) {
            tell_follower(s, i, kind, position);
        }
    }
}

/* --- sessions at the leader ----------------------------------------------------------------------------------------- */

/* ExpiryQueue.roundToNextInterval: (time / interval + 1) * interval, on the leader's own clock. */
static int64_t round_up(const struct sim *s, int64_t time)
{
    int64_t phase = s->servers[s->leader].phase;
    return ((time + phase) / s->tick + 1) * s->tick - phase;
}

static void arm_expiry(struct sim *s)
{
    int64_t deadline = SIM_NEVER, turn = SIM_NEVER;
    for (const struct sim_session *session = s->sessions; session < s->sessions + s->session_count; session++) {
        if (session->closing || session->ended) {
            continue;
        }
        deadline = sim_min(deadline, session->deadline);
        turn = sim_min(turn, session->taken ? session->turn : SIM_NEVER);
    }
    sim_arm(s, SLOT_EXPIRY, turn < SIM_NEVER ? turn : deadline);
}

void sim_leader_touch(struct sim *s, int index, int64_t timeout)
{
    struct sim_session *session = &s->sessions[index];
    if (session->closing || session->ended) {
        return; /* SessionTrackerImpl.touchSession: a closing session is not revived */
    }
    int64_t deadline = round_up(s, sim_now(s) + timeout);
    session->shortest = sim_min(session->shortest, timeout);
    if (deadline != session->deadline) {
        session->deadline = deadline;
        arm_expiry(s);
    }
}

/* --- proposing and committing --------------------------------------------------------------------------------------- */

static bool is_master_of(const struct sim *s, int master, int server)
{
    return sim_observes(s, server) && s->servers[server].master == master && s->servers[master].linked[server];
}

/* A follower hands on what the leader has committed (ObserverMaster.proposalCommitted). */
static void inform_observers(struct sim *s, int master, int position)
{
    for (int i = s->voters; i < s->server_count; i++) {
        if (is_master_of(s, master, i)) {
            tell_follower(s, i, SIM_MSG_COMMIT, position);
        }
    }
}

static void apply(struct sim *s, int server, int position)
{
    if (s->plan->batches && sim_server_reads_first(s, server, &s->log[position])) {
        sim_server_ends_batch(s, server);
    }
    s->servers[server].applied = position + 1;
    if (s->leader != server) {
        inform_observers(s, server, position);
    }
    const struct sim_txn *txn = &s->log[position];
    sim_server_fire(s, server, txn);
    if (txn->conn >= 0 && s->conns[txn->conn].server == server && s->conns[txn->conn].serial == txn->conn_serial) {
        sim_server_answer(s, txn);
    }
    if (txn->kind == SIM_TXN_CLOSE) {
        sim_server_close_conns(s, server, txn->session);
    }
}

static void commit_next(struct sim *s)
{
    int position = s->committed++;
    struct sim_txn *txn = &s->log[position];
    sim_tree_commit(s, txn);
    if (txn->kind == SIM_TXN_OPEN) {
        s->sessions[txn->session].committed = true;
    } else if (txn->kind == SIM_TXN_CLOSE) {
        s->sessions[txn->session].ended = true;
        s->sessions[txn->session].ended_position = position;
    }
    sim_judge_commit(s, position);
}

void sim_commit_all(struct sim *s)
{
    while (s->committed < s->proposed) {
        commit_next(s);
    }
}

static void answer_syncs(struct sim *s)
{
    int kept = 0;
    for (int i = 0; i < s->sync_count; i++) {
        const struct sim_waiting_sync *sync = &s->syncs[i];
        if (sync->position > s->committed) {
            s->syncs[kept++] = *sync;
        } else if (s->servers[s->leader].linked[sync->server]) {
            struct sim_message *message = sim_message_new(s, SIM_MSG_SYNCED);
            message->conn = sync->conn;
            message->conn_serial = sync->conn_serial;
            message->id = sync->id;
            sim_to_follower(s, sync->server, message);
        }
    }
    s->sync_count = kept;
}

static void try_commit(struct sim *s)
{
    while (s->committed < s->proposed && __builtin_popcount(s->log[s->committed].acks) >= majority(s)) {
        int position = s->committed;
        commit_next(s);
        tell_followers(s, SIM_MSG_COMMIT, position);
        apply(s, s->leader, position);
        answer_syncs(s); /* as Leader.tryToCommit: or a write overtakes the sync before it */
    }
    if (s->plan->batches) {
        sim_server_ends_batch(s, s->leader);
    }
}

static struct sim_txn *txn_new(struct sim *s, enum sim_txn_kind kind, int session)
{
    struct sim_txn *txn = &s->log[sim_next_of(&s->proposed, SIM_TXNS)];
    *txn = (struct sim_txn){.zxid = ++s->last_zxid,
                            .kind = kind,
                            .session = session,
                            .conn = -1,
                            .node = -1,
                            .parts = -1,
                            .first_effect = s->effect_count,
                            .acks = 1u << s->leader};
    return txn;
}

static void propose(struct sim *s, struct sim_txn *txn)
{
    txn->effect_count = s->effect_count - txn->first_effect;
    s->servers[s->leader].logged = s->proposed;
    tell_followers(s, SIM_MSG_PROPOSAL, s->proposed - 1);
    try_commit(s);
}

/* All or nothing; the answers of the parts are kept behind the request's own. */
static void do_multi(struct sim *s, struct sim_txn *txn, int parts, int count)
{
    txn->parts = parts;
    for (int i = 0; i < count; i++) {
        struct sim_part *part = &s->parts[parts + i];
        if (txn->rc == ZKL__RC_OK) {
            part->rc = sim_tree_do(s, part, txn->session, txn->zxid);
            txn->rc = part->rc;
        } else {
            part->rc = ZKL__RC_ROLLEDBACK;
        }
    }
    if (txn->rc != ZKL__RC_OK) {
        sim_tree_undo(s, txn->first_effect);
    }
}

static bool session_lives(const struct sim *s, int session)
{
    return !s->sessions[session].closing && !s->sessions[session].ended;
}

static void start_closing(struct sim *s, int session, int conn, uint32_t serial)
{
    if (!s->sessions[session].closing) {
        s->sessions[session].closing = true;
        s->sessions[session].decided = sim_now(s);
    }
    struct sim_txn *txn = txn_new(s, SIM_TXN_CLOSE, session);
    txn->conn = conn;
    txn->conn_serial = serial;
    sim_say(s, "leader", "closes session %d", session);
    sim_tree_close_session(s, session, txn->zxid);
    propose(s, txn);
    arm_expiry(s);
}

static void open_session(struct sim *s, int from, const struct sim_message *request)
{
    struct sim_session *session = &s->sessions[request->session];
    struct sim_txn *txn = txn_new(s, SIM_TXN_OPEN, request->session);
    txn->conn = request->conn;
    txn->conn_serial = request->conn_serial;
    session->owner = from;
    session->owner_serial = s->servers[from].link_serial;
    session->closing = false; /* it is tracked from the proposal on */
    sim_leader_touch(s, request->session, sim_granted_timeout(s, from));
    propose(s, txn);
}

/* PrepRequestProcessor.checkSession: the session must live, and speak through the server it was last seen at. */
static enum zkl__rc check_session(struct sim *s, int from, struct sim_txn *txn)
{
    struct sim_session *session = &s->sessions[txn->session];
    if (!session_lives(s, txn->session)) {
        return ZKL__RC_REFUSED;
    }

    if (session->owner < 0) {
        session->owner = from;
        session->owner_serial = s->servers[from].link_serial;
    }
    if (session->owner != from || session->owner_serial != s->servers[from].link_serial) {
        return ZKL__RC_NOTAPPLIED;
    }
    return ZKL__RC_OK;
}

void sim_leader_takes(struct sim *s, int from, const struct sim_message *request)
{
    if (request->kind == SIM_MSG_CONNECT) {
        open_session(s, from, request);
        return;
    }
    if (request->kind == SIM_MSG_CLOSE) {
        start_closing(s, request->session, request->conn, request->conn_serial);
        return;
    }
    struct sim_txn *txn = txn_new(s, SIM_TXN_OP, request->session);
    txn->conn = request->conn;
    txn->conn_serial = request->conn_serial;
    txn->rc = check_session(s, from, txn);
    struct sim_part part = request->part;
    if (txn->rc != ZKL__RC_OK) {
        txn->parts = -1;
    } else if (part.op == ZKL__OP_MULTI) {
        do_multi(s, txn, request->parts, request->part_count);
    } else {
        part.node = -1;
        txn->rc = sim_tree_do(s, &part, request->session, txn->zxid);
        txn->node = part.node;
    }
    sim_say(s, "leader", "%s %s of session %d: %s", zkl__op_name(part.op),
            part.path < 0 ? "" : s->paths[txn->node < 0 ? part.path : s->nodes[txn->node].path].text, request->session,
            zkl__rc_name(txn->rc));
    propose(s, txn);
}

/* Leader.processSync: answered at once when nothing is outstanding, else when the last proposal is committed. */
static void sim_leader_syncs(struct sim *s, int from, const struct sim_message *request)
{
    s->syncs[sim_next_of(&s->sync_count, SIM_SYNCS)] = (struct sim_waiting_sync){.position = s->proposed,
                                                                                 .server = from,
                                                                                 .conn = request->conn,
                                                                                 .conn_serial = request->conn_serial,
                                                                                 .id = request->id};
    answer_syncs(s);
}

int sim_leader_validates(struct sim *s, int from, int session)
{
    if (!session_lives(s, session)) {
        return -1;
    }
    sim_leader_touch(s, session, sim_granted_timeout(s, from));
    s->sessions[session].owner = from;
    s->sessions[session].owner_serial = s->servers[from].link_serial;
    return session;
}

/* ExpiryQueue.poll takes the sessions of one tick; where that takes no time, those of all ticks that are due. */
static void take_tick(struct sim *s)
{
    int64_t tick = s->plan->walk ? SIM_NEVER : sim_now(s);
    for (int i = 0; i < s->session_count; i++) {
        bool earlier = session_lives(s, i) && s->sessions[i].deadline < tick;
        tick = s->plan->walk && earlier ? s->sessions[i].deadline : tick;
    }
    for (int i = 0; i < s->session_count && tick <= sim_now(s); i++) {
        struct sim_session *session = &s->sessions[i];
        session->taken = session_lives(s, i) && session->deadline <= tick;
        session->turn = sim_now(s) + sim_plan_turn(s->plan, s->seed, i, s->steps);
    }
    s->taken_at = sim_now(s);
}

/* The lease rests on a leader that does not walk for longer, and on that a session is not heard by one that was replaced. */
static void note_assumptions(struct sim *s, const struct sim_session *session)
{
    int64_t most = s->plan->bounds ? sim_shorter_timeout(s) : s->plan->timeout;
    s->faults.beyond = s->faults.beyond || sim_now(s) - s->taken_at > most || session->strayed == s->epoch;
}

/* SessionTrackerImpl.run. */
void sim_leader_expires(struct sim *s)
{
    bool walks = false;
    for (int i = 0; i < s->session_count; i++) {
        walks = walks || (s->sessions[i].taken && session_lives(s, i));
    }
    if (!walks) {
        take_tick(s);
    }
    for (int i = 0; i < s->session_count; i++) {
        struct sim_session *session = &s->sessions[i];
        if (session->taken && session_lives(s, i) && session->turn <= sim_now(s)) {
            sim_say(s, "leader", "session %d expires", i);
            if (s->plan->walk) {
                note_assumptions(s, session);
            }
            start_closing(s, i, -1, 0);
        }
    }
    arm_expiry(s);
}

bool sim_stranger_writes(struct sim *s, const struct sim_part *part)
{
    if (s->leader < 0) {
        return false;
    }
    struct sim_txn *txn = txn_new(s, SIM_TXN_OP, SIM_STRANGER);
    struct sim_part copy = *part;
    copy.node = -1;
    txn->rc = sim_tree_do(s, &copy, SIM_STRANGER, txn->zxid);
    txn->node = copy.node;
    if (part->op == ZKL__OP_CREATE && txn->rc == ZKL__RC_OK) {
        s->nodes[copy.node].by_stranger = true;
    }
    sim_say(s, "stranger", "%s %s: %s", zkl__op_name(part->op), s->paths[part->path].text, zkl__rc_name(txn->rc));
    propose(s, txn);
    return txn->rc == ZKL__RC_OK;
}

void sim_stranger_deletes(struct sim *s, int path)
{
    sim_stranger_writes(s, &(struct sim_part){.op = ZKL__OP_DELETE, .path = path, .version = -1});
}

void sim_stranger_prepares(struct sim *s, int path, const void *data, uint32_t size)
{
    int parent = s->paths[path].parent;
    if (sim_node_at(s, parent, SIM_HEAD) < 0) {
        sim_stranger_prepares(s, parent, NULL, 0);
    }
    sim_stranger_writes(
        s, &(struct sim_part){.op = ZKL__OP_CREATE, .path = path, .mode = ZKL__PERSISTENT, .data = data, .size = size});
    s->nodes[s->paths[path].node].by_stranger = false;
}

void sim_stranger_closes(struct sim *s, int session)
{
    if (s->leader >= 0 && session_lives(s, session) && s->sessions[session].committed) {
        s->sessions[session].by_operator = true;
        start_closing(s, session, -1, 0);
    }
}

/* --- a follower's word at the leader -------------------------------------------------------------------------------- */

static void acked(struct sim *s, int server, int position)
{
    for (int i = s->committed; i <= position && i < s->proposed; i++) {
        s->log[i].acks |= 1u << server;
    }
    try_commit(s);
}

static void heard(struct sim *s, struct sim_touches touches)
{
    for (int i = 0; i < s->session_count; i++) {
        if (touches.all >> i & 1) {
            sim_leader_touch(s, i, touches.shorter >> i & 1 ? sim_shorter_timeout(s) : s->plan->timeout);
        }
    }
}

static void join(struct sim *s, int server)
{
    int master = sim_master_of(s, server);
    s->servers[master].linked[server] = true;
    tell_follower(s, server, SIM_MSG_JOINED, master == s->leader ? s->committed : s->servers[master].applied);
    for (int position = s->committed; position < s->proposed && master == s->leader; position++) {
        tell_follower(s, server, SIM_MSG_PROPOSAL, position);
    }
}

/* What an observer says to its master. Only the touches stay here. */
static void master_hears(struct sim *s, int master, int server, const struct sim_message *message)
{
    struct sim_server *follower = &s->servers[master];
    if (message->kind == SIM_MSG_JOIN) {
        join(s, server);
    } else if (message->kind == SIM_MSG_HEARD) {
        sim_touches_add(&follower->touched, message->touches);
    } else if (message->kind == SIM_MSG_FORWARD || message->kind == SIM_MSG_REVALIDATE) {
        sim_to_leader(s, master, sim_message_copy(s, message));
    }
}

void sim_leader_hears(struct sim *s, int server)
{
    struct sim_message *message = sim_channel_pop(s, &s->servers[server].to_leader, SLOT_TO_LEADER + server);
    int master = s->servers[server].master;
    if (master >= 0) {
        if (s->servers[master].role == SIM_FOLLOWING &&
            (s->servers[master].linked[server] || message->kind == SIM_MSG_JOIN)) {
            master_hears(s, master, server, message);
        }
        sim_message_free(s, message);
        return;
    }
    if (s->leader < 0 || (!s->servers[s->leader].linked[server] && message->kind != SIM_MSG_JOIN)) {
        sim_message_free(s, message); /* said to a leader that is none any more */
        return;
    }
    s->servers[s->leader].heard[server] = sim_now(s);
    struct sim_message *answer;
    switch (message->kind) {
    case SIM_MSG_JOIN:
        join(s, server);
        break;
    case SIM_MSG_ACK:
        acked(s, server, message->position);
        break;
    case SIM_MSG_HEARD:
        heard(s, message->touches);
        break;
    case SIM_MSG_FORWARD:
        message->kind = (enum sim_message_kind)message->event;
        if (message->kind == SIM_MSG_REQUEST && message->part.op == ZKL__OP_SYNC) {
            sim_leader_syncs(s, server, message);
        } else {
            sim_leader_takes(s, message->via, message);
        }
        break;
    case SIM_MSG_REVALIDATE:
        answer = sim_message_new(s, SIM_MSG_VALID);
        answer->session = sim_leader_validates(s, message->via, message->session);
        answer->conn = message->conn;
        answer->conn_serial = message->conn_serial;
        sim_to_follower(s, server, answer);
        break;
    default:
        assert(false && "a follower says no such thing");
    }
    sim_message_free(s, message);
}

/* --- the leader's word at a follower -------------------------------------------------------------------------------- */

static void ack(struct sim *s, int server)
{
    if (sim_observes(s, server)) {
        return;
    }
    struct sim_message *message = sim_message_new(s, SIM_MSG_ACK);
    message->position = s->servers[server].logged - 1;
    sim_to_leader(s, server, message);
}

static void take_ping(struct sim *s, int server)
{
    struct sim_server *follower = &s->servers[server];
    follower->answering = follower->touched;
    follower->touched = (struct sim_touches){0};
    int64_t preempted = sim_plan_preempted(s->plan, s->seed, server, s->steps);
    follower->is_answering = true;
    if (preempted == 0) {
        sim_follower_answers(s, server);
        return;
    }
    sim_arm(s, SLOT_ANSWER + server, sim_now(s) + preempted);
    sim_channel_hold(s, &follower->from_leader, SLOT_FROM_LEADER + server, preempted + 1);
}

void sim_follower_answers(struct sim *s, int server)
{
    struct sim_server *follower = &s->servers[server];
    sim_arm(s, SLOT_ANSWER + server, SIM_NEVER);
    follower->is_answering = false;
    struct sim_message *message = sim_message_new(s, SIM_MSG_HEARD);
    message->touches = follower->answering;
    sim_to_leader(s, server, message);
}

static void take_commit(struct sim *s, int server, int position)
{
    struct sim_server *it = &s->servers[server];
    if (sim_observes(s, server)) {
        it->logged = (int)sim_max(it->logged, position + 1); /* INFORM brings the transaction along */
    }

    if (position >= it->applied) {
        assert(position == it->applied && position < it->logged);
        apply(s, server, position);
    }
}

static void take_proposal(struct sim *s, int server, int position)
{
    struct sim_server *it = &s->servers[server];
    it->logged = (int)sim_max(it->logged, position + 1); /* who joins again may have it, and has said so */
    ack(s, server);
}

static bool is_of_batch(const struct sim *s, int server)
{
    const struct sim_channel *channel = &s->servers[server].from_leader;
    const struct sim_message *message = channel->head;
    bool is_kind = message && (message->kind == SIM_MSG_COMMIT || message->kind == SIM_MSG_PROPOSAL ||
                               (message->kind == SIM_MSG_SYNCED && s->conns[message->conn].server == server));
    return is_kind && channel->held_until <= sim_now(s) && message->due <= sim_now(s) + 4 * s->plan->delay;
}

static void take_one_of_batch(struct sim *s, int server, const struct sim_message *message)
{
    if (message->kind == SIM_MSG_COMMIT) {
        take_commit(s, server, message->position);
    } else if (message->kind == SIM_MSG_PROPOSAL) {
        take_proposal(s, server, message->position);
    } else {
        sim_server_answer_sync(s, message);
    }
}

/* CommitProcessor.run: as many committed transactions and answered syncs as have come, then the reads that wait behind
 * one of them (behind the leader's answer, a follower's sync stands in the same queue: FollowerZooKeeperServer.sync). Another thread
 * takes proposals meanwhile. */
static void take_batch(struct sim *s, int server)
{
    struct sim_channel *channel = &s->servers[server].from_leader;
    while (is_of_batch(s, server)) {
        struct sim_message *message = sim_channel_pop(s, channel, SLOT_FROM_LEADER + server);
        take_one_of_batch(s, server, message);
        sim_message_free(s, message);
    }
    sim_server_ends_batch(s, server);
}

void sim_follower_hears(struct sim *s, int server)
{
    struct sim_server *follower = &s->servers[server];
    if (follower->is_answering) {
        sim_follower_answers(s, server); /* one thread reads the leader and answers it, so first things first */
    }
    struct sim_message *message = sim_channel_pop(s, &follower->from_leader, SLOT_FROM_LEADER + server);
    follower->heard_leader = sim_now(s);
    if ((message->kind == SIM_MSG_SYNCED || message->kind == SIM_MSG_VALID) &&
        is_master_of(s, server, s->conns[message->conn].server)) {
        if (message->kind == SIM_MSG_VALID && message->session >= 0) {
            sim_server_heard(s, server, message->session,
                             s->conns[message->conn].server); /* ObserverMaster.revalidateLearnerSession */
        }
        sim_to_follower(s, s->conns[message->conn].server, sim_message_copy(s, message));
        sim_message_free(s, message);
        return;
    }
    switch (message->kind) {
    case SIM_MSG_JOINED:
        follower->role = SIM_FOLLOWING;
        follower->logged = (int)sim_max(follower->logged, message->position);

        sim_master_starts(s, server);
        /* Nobody watched: a server that looks for a leader has no clients. A master may be behind its observer. */
        if (!sim_observes(s, server) || follower->applied < message->position) {
            follower->applied = message->position;
        }
        ack(s, server);
        sim_say(s, "server", "%d follows %d", server, sim_master_of(s, server));
        break;
    case SIM_MSG_PROPOSAL:
        take_proposal(s, server, message->position);
        break;
    case SIM_MSG_COMMIT:
        take_commit(s, server, message->position);
        if (s->plan->batches) {
            take_batch(s, server);
        }
        break;
    case SIM_MSG_ASK:
        take_ping(s, server);
        break;
    case SIM_MSG_SYNCED:
        sim_server_answer_sync(s, message);
        if (s->plan->batches) {
            take_batch(s, server);
        }
        break;
    case SIM_MSG_VALID:
        sim_server_validated(s, message->conn, message->conn_serial, message->session);
        break;
    default:
        assert(false && "a leader says no such thing");
    }
    sim_message_free(s, message);
}
