/* session_answers.c - operations under way: sent, answered once whatever happens, and what each answer proves for the lease. */
#include "session_inside.h"

static bool proves_much(enum zkl__op_kind kind)
{
    return kind == ZKL__OP_CREATE || kind == ZKL__OP_DELETE || kind == ZKL__OP_SET || kind == ZKL__OP_CHECK ||
           kind == ZKL__OP_MULTI || kind == ZKL__OP_SYNC;
}

/* Sends op for a contender, a request, or (neither) the session itself. What cannot be sent is answered before the step ends, so
 * that nobody is called back from inside its own call. ZKL_OK, or ZKL_ENOMEM: there will be no answer at all. */
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
    if (contender) {
        contender->in_flight++;
        contender->listed_at = role == ZKL__ROLE_LIST ? core->now : contender->listed_at;
    }
    bool full = core->config.ops_max && core->pendings.on_count > core->config.ops_max;
    p->refused = !core->connected || full ? ZKL_ECONNECT
                                          : core->port.submit(core->port.ctx, zkl__pending_id(&core->pendings, p), op);
    if (p->refused != ZKL_OK) {
        p->next = core->refused;
        core->refused = (size_t)(p - core->pendings.slots) + 1;
        if (contender) {
            contender->unsent |= 1u << role;
        }
        return ZKL_OK;
    }
    core->stats.all.requests++;
    core->stats.all.heartbeats += role == ZKL__ROLE_BEAT;
    if (proves_much(op->kind)) {
        core->proof_at = core->now + zkl__lease_keepalive(core->lease.timeout, core->lease.hops);
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
    answer_refused(core); /* first: who follows another asks whether its delete was sent */
    while (zkl__local_settle(core) || settle_joint(core)) {
        answer_refused(core);
    }
}

void zkl__core_answer_unknown(struct zkl__core *core)
{
    const struct zkl__reply reply = {.rc = ZKL__RC_UNKNOWN};
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
