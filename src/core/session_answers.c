/* session_answers.c - operations under way: sent, answered once whatever happens, and what each answer proves for the lease. */
#include "session_inside.h"

static bool proves_much(enum zkl__op_kind kind)
{
    return kind == ZKL__OP_CREATE || kind == ZKL__OP_DELETE || kind == ZKL__OP_SET || kind == ZKL__OP_CHECK ||
           kind == ZKL__OP_MULTI || kind == ZKL__OP_SYNC;
}

static void refuse(struct zkl__core *core, struct zkl__pending *p, int code)
{
    p->refused = code;
    p->next = core->refused;
    core->refused = (size_t)(p - core->pendings.slots) + 1;
    if (p->contender) {
        p->contender->unsent |= 1u << p->role;
    }
}

static void submit(struct zkl__core *core, struct zkl__pending *p, const struct zkl__op *op)
{
    p->sent = core->now;
    int code = core->port.submit(core->port.ctx, zkl__pending_id(&core->pendings, p), op);
    if (code != ZKL_OK) {
        refuse(core, p, code);
        return;
    }
    if (p->counted) {
        zkl__window_sent(&core->window);
    }
    core->stats.all.requests++;
    core->stats.all.heartbeats += p->role == ZKL__ROLE_BEAT;
    if (proves_much(op->kind)) {
        core->proof_at = core->now + zkl__lease_keepalive(core->lease.timeout, core->lease.hops);
    }
}

/* --- waiting for room ----------------------------------------------------------------------------------------------- */

static void wait_for_room(struct zkl__core *core, struct zkl__pending *p, const struct zkl__op *op)
{
    size_t at = (size_t)(p - core->pendings.slots) + 1;
    p->waiting = zkl__op_copy(&core->config.heap, op);
    if (!p->waiting) {
        refuse(core, p, ZKL_ENOMEM);
        return;
    }
    p->next = 0;
    *(core->last_waiting ? &core->pendings.slots[core->last_waiting - 1].next : &core->first_waiting) = at;
    core->last_waiting = at;
}

static struct zkl__pending *first_waiting(struct zkl__core *core, struct zkl__op **op)
{
    struct zkl__pending *p = &core->pendings.slots[core->first_waiting - 1];
    core->first_waiting = p->next;
    core->last_waiting = core->first_waiting ? core->last_waiting : 0;
    *op = p->waiting;
    p->waiting = NULL;
    return p;
}

/* A place that is not wanted any more is not made. */
static bool is_stale(const struct zkl__pending *p)
{
    return p->contender && p->role == ZKL__ROLE_CREATE && !zkl__contender_waits(p->contender);
}

/* In the order in which they were asked for. */
static void send_waiting(struct zkl__core *core)
{
    while (core->first_waiting && core->connected && zkl__window_has_room(&core->window)) {
        struct zkl__op *op;
        struct zkl__pending *p = first_waiting(core, &op);
        if (is_stale(p)) {
            refuse(core, p, ZKL_ECONNECT);
        } else {
            submit(core, p, op);
        }
        zkl__free(&core->config.heap, op);
    }
}

static void refuse_waiting(struct zkl__core *core)
{
    while (core->first_waiting) {
        struct zkl__op *op;
        refuse(core, first_waiting(core, &op), ZKL_ECONNECT);
        zkl__free(&core->config.heap, op);
    }
}

void zkl__core_drop_waiting(struct zkl__core *core)
{
    while (core->first_waiting) {
        struct zkl__op *op;
        (void)first_waiting(core, &op);
        zkl__free(&core->config.heap, op);
    }
}

/* Sends op for a contender, a request, or (neither) the session itself. What cannot be sent is answered before the step ends, so
 * that nobody is called back from inside its own call. Heartbeats and keep-alives go before all that waits for room: none of it is about
 * a node that they look at. ZKL_OK, or ZKL_ENOMEM: there will be no answer at all. */
int zkl__core_send(struct zkl__core *core, struct zkl__contender *contender, struct zkl__request *request,
                   enum zkl__role role, const struct zkl__op *op)
{
    struct zkl__pending *p = zkl__pending_take(&core->pendings);
    if (!p) {
        return ZKL_ENOMEM;
    }
    p->kind = op->kind;
    p->role = role;
    p->contender = contender;
    p->request = request;
    p->sent = core->now;
    p->refused = ZKL_OK;
    p->waiting = NULL;
    p->counted = role != ZKL__ROLE_BEAT && (contender || request || op->kind != ZKL__OP_SYNC);
    if (contender) {
        contender->in_flight++;
        contender->listed_at = role == ZKL__ROLE_LIST ? core->now : contender->listed_at;
    }
    if (!core->connected) {
        refuse(core, p, ZKL_ECONNECT);
    } else if (p->counted && (core->first_waiting || !zkl__window_has_room(&core->window))) {
        wait_for_room(core, p, op);
    } else {
        submit(core, p, op);
    }
    return ZKL_OK;
}

static enum zkl__proof proof_of(enum zkl__op_kind kind, enum zkl__rc rc)
{
    /* A check that is refused for the node's access list is a transaction of a living session, too (OpCode.error): who may not read
     * its own node lives by it. */
    bool done = rc == ZKL__RC_OK || (rc == ZKL__RC_NOAUTH && kind == ZKL__OP_CHECK);
    if (!done || !proves_much(kind)) {
        return ZKL__PROOF_ANSWER;
    }
    return kind == ZKL__OP_SYNC ? ZKL__PROOF_SYNC : ZKL__PROOF_COMMIT;
}

/* asker: is told by the answer itself. */
static void prove(struct zkl__core *core, const struct zkl__contender *asker, enum zkl__op_kind kind, int64_t sent,
                  enum zkl__rc rc)
{
    int64_t left = core->lease.until - core->now;
    if (!zkl__lease_answer(&core->lease, proof_of(kind, rc), sent, core->now)) {
        return;
    }
    if (core->held > 0) {
        zkl__stats_slack(&core->stats, left);
    }
    for (struct zkl__contender *c = core->holders, *next; c; c = next) {
        next = c->next_holder;
        if (c->state == ZKL__PROVING && zkl__core_leased(core) && c != asker) {
            zkl__core_feed(core, c, (struct zkl__contender_event){.kind = ZKL__CE_TIME});
        }
    }
}

/* Such an answer says that our node was there; that of a check also where we may not read it (see proof_of). */
static bool shows_node(enum zkl__role role, enum zkl__rc rc)
{
    bool check = role == ZKL__ROLE_PROVE || role == ZKL__ROLE_BEAT;
    bool other = role == ZKL__ROLE_CREATE || role == ZKL__ROLE_STAT || role == ZKL__ROLE_MARK;
    return rc == ZKL__RC_OK ? check || other : rc == ZKL__RC_NOAUTH && check;
}

void zkl__core_answer(struct zkl__core *core, struct zkl__pending *p, const struct zkl__reply *reply)
{
    struct zkl__pending was = *p;
    zkl__pending_drop(&core->pendings, p);
    if (was.counted && was.refused == ZKL_OK) {
        zkl__window_ended(&core->window, zkl__rc_answered(reply->rc), was.sent, core->now,
                          zkl__lease_heartbeat(core->timeout));
    }
    if (was.role == ZKL__ROLE_BEAT) {
        core->beats_under_way--;
    }
    if (was.contender) {
        was.contender->unsent &= ~(1u << was.role);
        if (shows_node(was.role, reply->rc)) {
            was.contender->shown_at = was.sent;
        }
    }
    if (zkl__rc_answered(reply->rc)) {
        zkl__histogram_add(&core->stats.all.request, core->now - was.sent);
        prove(core, was.role == ZKL__ROLE_PROVE ? was.contender : NULL, was.kind, was.sent, reply->rc);
    } else if (reply->rc == ZKL__RC_UNKNOWN) {
        core->stats.all.unanswered++;
    }
    if (was.contender && was.role == ZKL__ROLE_LIST) {
        zkl__local_note_list(&core->queues, was.contender->queue, reply);
    }
    if (was.contender && was.role == ZKL__ROLE_LIST && !was.contender->joint) {
        zkl__local_answer_list(core, was.contender, reply);
    } else if (was.contender) {
        was.contender->in_flight--;
        zkl__core_feed(core, was.contender,
                       (struct zkl__contender_event){.kind = ZKL__CE_REPLY, .role = was.role, .reply = reply});
    } else if (was.role == ZKL__ROLE_CONFIG) {
        zkl__core_take_roles(core, reply);
    } else if (was.request) {
        was.request->done(was.request, reply);
    }
}

static void answer_refused(struct zkl__core *core)
{
    while (core->refused) {
        struct zkl__pending *p = &core->pendings.slots[core->refused - 1];
        const struct zkl__reply reply = {.rc = ZKL__RC_UNSENT, .unsent = p->refused};
        core->refused = p->next;
        zkl__core_answer(core, p, &reply);
    }
}

static bool settle_joint(struct zkl__core *core)
{
    struct zkl__joint *joint = core->unsettled;
    if (joint) {
        core->unsettled = joint->next;
        joint->unsettled = false;
        zkl__joint_settle(joint);
        zkl__joint_unref(joint);
    }
    return joint;
}

void zkl__core_settle(struct zkl__core *core)
{
    send_waiting(core);
    answer_refused(core); /* first: who follows another asks whether its delete was sent */
    while (zkl__local_settle(core) || settle_joint(core)) {
        answer_refused(core);
    }
}

void zkl__core_answer_unknown(struct zkl__core *core)
{
    const struct zkl__reply reply = {.rc = ZKL__RC_UNKNOWN};
    refuse_waiting(core);
    answer_refused(core);
    for (size_t i = 0; i < core->pendings.room; i++) {
        if (core->pendings.slots[i].on) {
            zkl__core_answer(core, &core->pendings.slots[i], &reply);
        }
    }
}

void zkl__request_forget(struct zkl__core *core, struct zkl__request *request)
{
    for (size_t i = 0; i < core->pendings.room; i++) {
        if (core->pendings.slots[i].request == request) {
            core->pendings.slots[i].request = NULL;
        }
    }
}
