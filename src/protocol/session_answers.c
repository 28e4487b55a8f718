/* session_answers.c - operations under way: sent, answered once whatever happens, and what each
 * answer proves for the lease. */
#include "session_inside.h"

static bool proves_much(enum zkl__op_kind kind)
{
    return kind == ZKL__OP_CREATE || kind == ZKL__OP_DELETE || kind == ZKL__OP_SET ||
           kind == ZKL__OP_CHECK || kind == ZKL__OP_MULTI || kind == ZKL__OP_SYNC;
}

static void tell_refused(struct zkl__core *core, struct zkl__machine *owner, int role, int code)
{
    if (owner) {
        owner->ops->refused(core, owner, role, code);
    } else if (role == ZKL__ROLE_CONFIG) {
        const struct zkl__reply reply = {.rc = ZKL__RC_UNSENT, .unsent = code};
        zkl__core_take_roles(core, &reply);
    }
}

/* Not of a contender, whose roles are its own. */
static bool is_users_write(const struct zkl__pending *p)
{
    return p->role == ZKL__ROLE_NONE && (p->kind == ZKL__OP_CREATE || p->kind == ZKL__OP_SET ||
                                         p->kind == ZKL__OP_DELETE || p->kind == ZKL__OP_MULTI);
}

static void drop(struct zkl__core *core, struct zkl__pending *p)
{
    core->writes -= is_users_write(p);
    zkl__pending_drop(&core->pendings, p);
}

static void refuse(struct zkl__core *core, struct zkl__pending *p, int code)
{
    struct zkl__machine *owner = p->owner;
    int role = p->role;
    drop(core, p);
    tell_refused(core, owner, role, code);
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
    core->beats_under_way += p->role == ZKL__ROLE_BEAT;
    if (proves_much(op->kind)) {
        core->proof_at = core->now + zkl__lease_keepalive(core->lease.timeout, core->lease.gap,
                                                          core->lease.hops);
    }
}

/* --- waiting for room ------------------------------------------------------------------------ */

static void wait_for_room(struct zkl__core *core, struct zkl__pending *p, const struct zkl__op *op)
{
    size_t at = (size_t)(p - core->pendings.slots) + 1;
    p->waiting = zkl__op_copy(&core->config.heap, op);
    if (!p->waiting) {
        refuse(core, p, ZKL_ENOMEM);
        return;
    }
    p->next = 0;
    *(core->last_waiting ? &core->pendings.slots[core->last_waiting - 1].next
                         : &core->first_waiting) = at;
    core->last_waiting = at;
}

/* *op NULL: its owner has ended. */
static struct zkl__pending *first_waiting(struct zkl__core *core, struct zkl__op **op)
{
    struct zkl__pending *p = &core->pendings.slots[core->first_waiting - 1];
    core->first_waiting = p->next;
    core->last_waiting = core->first_waiting ? core->last_waiting : 0;
    *op = p->waiting;
    p->waiting = NULL;
    return p;
}

static bool is_stale(const struct zkl__pending *p)
{
    return p->owner && p->owner->ops->wants && !p->owner->ops->wants(p->owner, p->role);
}

/* In the order in which they were asked for. */
void zkl__core_send_waiting(struct zkl__core *core)
{
    while (core->first_waiting && core->connected && zkl__window_has_room(&core->window)) {
        struct zkl__op *op;
        struct zkl__pending *p = first_waiting(core, &op);
        if (!op || is_stale(p)) {
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

/* Heartbeats and keep-alives go before all that waits for room: none of it is about a node that
 * they look at. */
void zkl__core_send(struct zkl__core *core, struct zkl__machine *owner, int role,
                    const struct zkl__op *op)
{
    struct zkl__pending *p = zkl__pending_take(&core->pendings);
    if (!p) {
        tell_refused(core, owner, role, ZKL_ENOMEM);
        return;
    }
    p->kind = op->kind;
    p->role = role;
    zkl__pending_own(&core->pendings, p, owner);
    p->sent = core->now;
    p->waiting = NULL;
    core->writes += is_users_write(p);
    p->counted = role != ZKL__ROLE_BEAT && (owner || op->kind != ZKL__OP_SYNC);
    if (!core->connected) {
        refuse(core, p, ZKL_ECONNECT);
    } else if (p->counted && (core->first_waiting || !zkl__window_has_room(&core->window))) {
        wait_for_room(core, p, op);
    } else {
        submit(core, p, op);
    }
}

static enum zkl__proof proof_of(enum zkl__op_kind kind, enum zkl__rc rc)
{
    /* A check that is refused for the node's access list is a transaction of a living session, too
     * (OpCode.error): who may not read its own node lives by it. */
    bool done = rc == ZKL__RC_OK || (rc == ZKL__RC_NOAUTH && kind == ZKL__OP_CHECK);
    if (!done || !proves_much(kind)) {
        return ZKL__PROOF_ANSWER;
    }
    return kind == ZKL__OP_SYNC ? ZKL__PROOF_SYNC : ZKL__PROOF_COMMIT;
}

/* The lease is a fact that others read. asker: reads it with the answer itself. */
static void prove(struct zkl__core *core, const struct zkl__machine *asker, enum zkl__op_kind kind,
                  int64_t sent, enum zkl__rc rc)
{
    int64_t left = core->lease.until - core->now;
    if (!zkl__lease_answer(&core->lease, proof_of(kind, rc), sent, core->now)) {
        return;
    }
    if (core->held > 0) {
        zkl__stats_slack(&core->stats, left);
    }
    bool leased = core->provers.first && zkl__core_leased(core);
    for (struct zkl__link *at = core->provers.first; at && leased; at = at->next) {
        struct zkl__contender *c = ZKL__OWNER(at, struct zkl__contender, proving);
        if (&c->machine != asker) {
            zkl__contender_post(c, ZKL__CE_LOOK);
        } else if (c->state == ZKL__LINGERING && &c->machine != asker) {
            zkl__contender_post(c, ZKL__CE_TIME);
        }
    }
}

void zkl__core_answer(struct zkl__core *core, struct zkl__pending *p,
                      const struct zkl__reply *reply)
{
    struct zkl__pending was = *p;
    drop(core, p);
    if (was.counted) {
        zkl__window_ended(&core->window, zkl__rc_answered(reply->rc), was.sent, core->now,
                          zkl__lease_heartbeat(core->timeout));
    }
    core->beats_under_way -= was.role == ZKL__ROLE_BEAT;
    if (zkl__rc_answered(reply->rc)) {
        zkl__histogram_add(&core->stats.all.request, core->now - was.sent);
        prove(core, was.role == ZKL__ROLE_PROVE ? was.owner : NULL, was.kind, was.sent, reply->rc);
    } else if (reply->rc == ZKL__RC_UNKNOWN) {
        core->stats.all.unanswered++;
    }
    if (was.owner) {
        was.owner->ops->answered(core, was.owner, was.role, was.sent, reply);
    } else if (was.role == ZKL__ROLE_CONFIG) {
        zkl__core_take_roles(core, reply);
    }
}

void zkl__core_answer_unknown(struct zkl__core *core)
{
    const struct zkl__reply reply = {.rc = ZKL__RC_UNKNOWN};
    refuse_waiting(core);
    for (size_t i = 0; i < core->pendings.room; i++) {
        if (core->pendings.slots[i].on) {
            zkl__core_answer(core, &core->pendings.slots[i], &reply);
        }
    }
}

bool zkl__core_forget(struct zkl__core *core, struct zkl__machine *owner)
{
    bool sent = false;
    while (owner->pending > 0) {
        struct zkl__pending *p = &core->pendings.slots[owner->pending - 1];
        sent = sent || !p->waiting;
        zkl__free(&core->config.heap, p->waiting);
        p->waiting = NULL;
        zkl__pending_disown(&core->pendings, p);
    }
    return sent;
}

bool zkl__core_writes(const struct zkl__core *core)
{
    return core->writes > 0;
}

/* --- requests -------------------------------------------------------------------------------- */

static void request_answered(struct zkl__core *core, struct zkl__machine *machine, int role,
                             int64_t sent, const struct zkl__reply *reply)
{
    struct zkl__request *request = (struct zkl__request *)machine;
    (void)core;
    (void)role;
    (void)sent;
    request->done(request, reply);
}

static void request_refused(struct zkl__core *core, struct zkl__machine *machine, int role,
                            int code)
{
    (void)role;
    ((struct zkl__request *)machine)->unsent = code;
    zkl__core_post(core, machine); /* not now: its owner may be about to ask for more */
}

static void tell_unsent(struct zkl__core *core, struct zkl__machine *machine)
{
    struct zkl__request *request = (struct zkl__request *)machine;
    const struct zkl__reply reply = {.rc = ZKL__RC_UNSENT, .unsent = request->unsent};
    (void)core;
    request->done(request, &reply);
}

static const struct zkl__machine_ops request_ops = {.rank = ZKL__RANK_FIRST,
                                                    .step = tell_unsent,
                                                    .answered = request_answered,
                                                    .refused = request_refused};

void zkl__core_request(struct zkl__core *core, struct zkl__request *request,
                       const struct zkl__op *op)
{
    request->machine = (struct zkl__machine){.ops = &request_ops};
    zkl__core_send(core, &request->machine, ZKL__ROLE_NONE, op);
}

bool zkl__request_forget(struct zkl__core *core, struct zkl__request *request)
{
    zkl__ready_remove(&core->ready, &request->machine);
    return zkl__core_forget(core, &request->machine);
}
