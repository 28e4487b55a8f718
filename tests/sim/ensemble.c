/* ensemble.c - the log: proposed by a leader, acknowledged by followers, committed, applied; the leader's session tracker. */
#include "sim.h"

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

static bool lives(const struct sim_session *session)
{
    return !session->closing && !session->ended;
}

static void arm_expiry(struct sim *s)
{
    int64_t deadline = SIM_NEVER, turn = SIM_NEVER;
    SIM_EACH (session, s->sessions, s->session_count) {
        if (lives(session)) {
            deadline = sim_min(deadline, session->deadline);
            turn = sim_min(turn, session->taken ? session->turn : SIM_NEVER);
        }
    }
    sim_arm(s, SLOT_EXPIRY, turn < SIM_NEVER ? turn : deadline);
}

void sim_leader_touch(struct sim *s, int index, int64_t timeout)
{
    struct sim_session *session = &s->sessions[index];
    if (!lives(session)) {
        return; /* SessionTrackerImpl.touchSession: a closing session is not revived */
    }
    /* ExpiryQueue.roundToNextInterval: (time / interval + 1) * interval, on the leader's own clock. */
    int64_t phase = s->servers[s->leader].phase;
    int64_t deadline = ((sim_now(s) + timeout + phase) / s->tick + 1) * s->tick - phase;
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

static void apply(struct sim *s, int server, int position)
{
    const struct sim_txn *txn = &s->log[position];
    const struct sim_conn *conn = txn->conn < 0 ? NULL : &s->conns[txn->conn];
    bool here = conn && conn->server == server && conn->serial == txn->conn_serial;
    if (s->plan->batches && here && conn->pending.head && conn->pending.head->answered) {
        sim_server_ends_batch(s, server); /* its session reads before it, and has not been answered */
    }
    s->servers[server].applied = position + 1;
    /* A follower hands on what the leader has committed (ObserverMaster.proposalCommitted). */
    for (int i = s->voters; i < s->server_count && s->leader != server; i++) {
        if (is_master_of(s, server, i)) {
            tell_follower(s, i, SIM_MSG_COMMIT, position);
        }
    }
    sim_server_fire(s, server, txn);
    if (here) {
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
    while (s->committed < s->proposed && 2 * __builtin_popcount(s->log[s->committed].acks) > s->voters) {
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

/* request: who is to be answered; NULL: nobody. */
static struct sim_txn *txn_new(struct sim *s, enum sim_txn_kind kind, int session, const struct sim_message *request)
{
    struct sim_txn *txn = &s->log[sim_next_of(&s->proposed, SIM_TXNS)];
    *txn = (struct sim_txn){.zxid = ++s->last_zxid,
                            .kind = kind,
                            .session = session,
                            .conn = request ? request->conn : -1,
                            .conn_serial = request ? request->conn_serial : 0,
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

static void do_one(struct sim *s, struct sim_txn *txn, struct sim_part part)
{
    part.node = -1;
    txn->rc = sim_tree_do(s, &part, txn->session, txn->zxid);
    txn->node = part.node;
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

static void start_closing(struct sim *s, int session, const struct sim_message *request)
{
    if (!s->sessions[session].closing) {
        s->sessions[session].closing = true;
        s->sessions[session].decided = sim_now(s);
    }
    struct sim_txn *txn = txn_new(s, SIM_TXN_CLOSE, session, request);
    sim_say(s, "leader", "closes session %d", session);
    sim_tree_close_session(s, session, txn->zxid);
    propose(s, txn);
    arm_expiry(s);
}

static void open_session(struct sim *s, int from, const struct sim_message *request)
{
    struct sim_session *session = &s->sessions[request->session];
    struct sim_txn *txn = txn_new(s, SIM_TXN_OPEN, request->session, request);
    session->owner = from;
    session->owner_serial = s->servers[from].link_serial;
    session->closing = false; /* it is tracked from the proposal on */
    sim_leader_touch(s, request->session, sim_granted_timeout(s, from));
    propose(s, txn);
}

/* PrepRequestProcessor.checkSession: the session must live, and speak through the server it was last seen at. */
static enum zkl__rc check_session(const struct sim *s, int from, const struct sim_session *session)
{
    if (!lives(session)) {
        return ZKL__RC_REFUSED;
    }
    if (session->owner_serial != s->servers[from].link_serial) {
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
        start_closing(s, request->session, request);
        return;
    }
    struct sim_txn *txn = txn_new(s, SIM_TXN_OP, request->session, request);
    txn->rc = check_session(s, from, &s->sessions[request->session]);
    const struct sim_part part = request->part;
    if (txn->rc == ZKL__RC_OK && part.op == ZKL__OP_MULTI) {
        do_multi(s, txn, request->parts, request->part_count);
    } else if (txn->rc == ZKL__RC_OK) {
        do_one(s, txn, part);
    }
    sim_say(s, "leader", "%s %s of session %d: %s", op_name(part.op),
            part.path < 0 ? "" : s->paths[txn->node < 0 ? part.path : s->nodes[txn->node].path].text, request->session,
            zkl__rc_name(txn->rc));
    propose(s, txn);
}

int sim_leader_validates(struct sim *s, int from, int session)
{
    if (!lives(&s->sessions[session])) {
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
    SIM_EACH (session, s->sessions, s->session_count) {
        bool earlier = lives(session) && session->deadline < tick;
        tick = s->plan->walk && earlier ? session->deadline : tick;
    }
    for (int i = 0; i < s->session_count && tick <= sim_now(s); i++) {
        struct sim_session *session = &s->sessions[i];
        session->taken = lives(session) && session->deadline <= tick;
        session->turn = sim_now(s) + sim_plan_turn(s->plan, s->seed, i, s->steps);
    }
    s->taken_at = sim_now(s);
}

/* SessionTrackerImpl.run. */
void sim_leader_expires(struct sim *s)
{
    bool walks = false;
    SIM_EACH (session, s->sessions, s->session_count) {
        walks = walks || (session->taken && lives(session));
    }
    if (!walks) {
        take_tick(s);
    }
    for (int i = 0; i < s->session_count; i++) {
        struct sim_session *session = &s->sessions[i];
        if (session->taken && lives(session) && session->turn <= sim_now(s)) {
            sim_say(s, "leader", "session %d expires", i);
            if (s->plan->walk) {
                /* The lease rests on a leader that does not walk for longer, and on that a session is not heard by one that
                 * was replaced. */
                int64_t most = s->plan->bounds ? sim_shorter_timeout(s) : s->plan->timeout;
                s->faults.beyond = s->faults.beyond || sim_now(s) - s->taken_at > most || session->strayed == s->epoch;
            }
            start_closing(s, i, NULL);
        }
    }
    arm_expiry(s);
}

void sim_stranger_writes(struct sim *s, const struct sim_part *part)
{
    if (s->leader < 0) {
        return;
    }
    struct sim_txn *txn = txn_new(s, SIM_TXN_OP, SIM_STRANGER, NULL);
    do_one(s, txn, *part);
    if (part->op == ZKL__OP_CREATE && txn->rc == ZKL__RC_OK) {
        s->nodes[txn->node].by_stranger = true;
    }
    sim_say(s, "stranger", "%s %s: %s", op_name(part->op), s->paths[part->path].text, zkl__rc_name(txn->rc));
    propose(s, txn);
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
    if (s->leader >= 0 && lives(&s->sessions[session]) && s->sessions[session].committed) {
        s->sessions[session].by_operator = true;
        start_closing(s, session, NULL);
    }
}

/* --- a follower's word at the leader -------------------------------------------------------------------------------- */

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
    } else {
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
    switch (message->kind) {
    case SIM_MSG_JOIN:
        join(s, server);
        break;
    case SIM_MSG_ACK:
        for (int i = s->committed; i <= message->position && i < s->proposed; i++) {
            s->log[i].acks |= 1u << server;
        }
        try_commit(s);
        break;
    case SIM_MSG_HEARD:
        for (int i = 0; i < s->session_count; i++) {
            if (message->touches.all >> i & 1) {
                bool shorter = message->touches.shorter >> i & 1;
                sim_leader_touch(s, i, shorter ? sim_shorter_timeout(s) : s->plan->timeout);
            }
        }
        break;
    case SIM_MSG_CONNECT:
    case SIM_MSG_REQUEST:
    case SIM_MSG_CLOSE:
        if (message->kind == SIM_MSG_REQUEST && message->part.op == ZKL__OP_SYNC) {
            /* Leader.processSync: answered at once when nothing is outstanding, else when the last proposal is committed. */
            s->syncs[sim_next_of(&s->sync_count, SIM_SYNCS)] =
                (struct sim_waiting_sync){.position = s->proposed,
                                          .server = server,
                                          .conn = message->conn,
                                          .conn_serial = message->conn_serial,
                                          .id = message->id};
            answer_syncs(s);
        } else {
            sim_leader_takes(s, message->via, message);
        }
        break;
    case SIM_MSG_REVALIDATE:
        message->kind = SIM_MSG_VALID;
        message->session = sim_leader_validates(s, message->via, message->session);
        sim_to_follower(s, server, message);
        return;
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
    struct sim_message *message = sim_message_new(s, SIM_MSG_HEARD);
    message->touches = follower->answering;
    sim_to_leader(s, server, message);
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
    struct sim_server *it = &s->servers[server];
    if (message->kind == SIM_MSG_SYNCED) {
        sim_server_answer_sync(s, message);
        return;
    }
    if (message->kind == SIM_MSG_PROPOSAL || sim_observes(s, server)) { /* INFORM brings the transaction along */
        it->logged = (int)sim_max(it->logged, message->position + 1); /* who joins again may have it, and has said so */
    }
    if (message->kind == SIM_MSG_PROPOSAL) {
        ack(s, server);
    } else if (message->position >= it->applied) {
        assert(message->position == it->applied && it->applied < it->logged);
        apply(s, server, message->position);
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
    if (s->clock.due[SLOT_ANSWER + server] != SIM_NEVER) {
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
        sim_to_follower(s, s->conns[message->conn].server, message);
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
    case SIM_MSG_COMMIT:
    case SIM_MSG_SYNCED:
        take_one_of_batch(s, server, message);
        if (s->plan->batches && message->kind != SIM_MSG_PROPOSAL) {
            take_batch(s, server);
        }
        break;
    case SIM_MSG_ASK:
        take_ping(s, server);
        break;
    case SIM_MSG_VALID:
        sim_server_validated(s, message);
        break;
    default:
        assert(false && "a leader says no such thing");
    }
    sim_message_free(s, message);
}
