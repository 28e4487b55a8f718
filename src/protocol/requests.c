/* requests.c - the operations of a session: sent as soon as there is room for them, answered once
 * whatever happens, and what each answer proves for the lease; and the session's watches. */

#include "core_internal.h"

#include <string.h>

/* === operations under way ===================================================================== */

#define ROOM_LEAST 16
#define ROOM_KEPT 256

struct zkl__pending *zkl__pending_take(struct zkl__pendings *pendings)
{
    if (pendings->free == 0) {
        size_t room = pendings->room ? pendings->room * 2 : ROOM_LEAST;
        struct zkl__pending *grown =
            zkl__resize(pendings->heap, pendings->slots, room * sizeof *grown);
        if (!grown) {
            return NULL;
        }
        memset(grown + pendings->room, 0, (room - pendings->room) * sizeof *grown);
        for (size_t i = pendings->room; i < room; i++) {
            grown[i].next = pendings->free;
            pendings->free = i + 1;
        }
        pendings->slots = grown;
        pendings->room = room;
    }
    struct zkl__pending *p = &pendings->slots[pendings->free - 1];
    pendings->free = p->next;
    p->on = true;
    p->use = ++pendings->uses;
    pendings->on_count++;
    return p;
}

static void disown(struct zkl__pendings *pendings, struct zkl__pending *p)
{
    if (!p->owner) {
        return;
    }
    *(p->prev_owned ? &pendings->slots[p->prev_owned - 1].next_owned : &p->owner->pending) =
        p->next_owned;
    if (p->next_owned) {
        pendings->slots[p->next_owned - 1].prev_owned = p->prev_owned;
    }
    p->owner = NULL;
}

void zkl__pending_drop(struct zkl__pendings *pendings, struct zkl__pending *p)
{
    disown(pendings, p);
    p->on = false;
    p->next = pendings->free;
    pendings->free = (size_t)(p - pendings->slots) + 1;
    pendings->on_count--;
}

void zkl__pendings_shrink(struct zkl__pendings *pendings)
{
    if (pendings->on_count == 0 && pendings->room > ROOM_KEPT) {
        zkl__free(pendings->heap, pendings->slots);
        pendings->slots = NULL;
        pendings->room = pendings->free = 0;
    }
}

struct zkl__pending *zkl__pending_find(const struct zkl__pendings *pendings, uint64_t id)
{
    size_t slot = (size_t)(id & UINT32_MAX);
    if (slot >= pendings->room || !pendings->slots[slot].on ||
        pendings->slots[slot].use != id >> 32) {
        return NULL;
    }
    return &pendings->slots[slot];
}

/* === room for operations ====================================================================== */

#define FIRST 256
#define LEAST 32 /* a server that is slow by itself, or far away, gets no faster by less */
#define PART 8   /* of a heartbeat: what the answers may take */

void zkl__window_init(struct zkl__window *window, size_t most)
{
    *window = (struct zkl__window){.size = most && most < FIRST ? most : FIRST, .most = most};
}

static bool has_room(const struct zkl__window *window)
{
    return window->under_way < window->size;
}

void zkl__window_ended(struct zkl__window *window, bool answered, int64_t sent, int64_t now,
                       int64_t heartbeat)
{
    bool used = 2 * window->under_way > window->size; /* else its size is not what is measured */
    window->under_way--;
    if (!answered || !used) {
        return;
    }
    if (now - sent <= heartbeat / PART) {
        window->credit++;
        if ((!window->slowed || window->credit >= window->size) &&
            (window->most == 0 || window->size < window->most)) {
            window->size++;
            window->credit = 0;
        }
    } else if (sent >= window->slowed_at && window->size > LEAST) {
        /* Once for all that was under way together. */
        window->size = window->size / 2 > LEAST ? window->size / 2 : LEAST;
        window->slowed = true;
        window->slowed_at = now;
        window->credit = 0;
    }
}

/* === what is sent ============================================================================= */

static bool proves_much(enum zkl__op_kind kind)
{
    return zkl__op_commits(kind) || kind == ZKL__OP_SYNC;
}

static void deliver(struct zkl__core *core, struct zkl__machine *owner, int role, int64_t sent,
                    const struct zkl__reply *reply)
{
    if (owner) {
        owner->ops->answered(core, owner, role, sent, reply);
    } else if (role == ZKL__ROLE_CONFIG) {
        zkl__core_take_roles(core, reply);
    }
}

static void report_refusal(struct zkl__core *core, struct zkl__machine *owner, int role, int code)
{
    const struct zkl__reply reply = {.rc = ZKL__RC_UNSENT, .unsent = code};
    deliver(core, owner, role, 0, &reply);
}

/* A write. Not of a contender, whose roles are its own. */
static bool is_users_write(const struct zkl__pending *p)
{
    return p->role == ZKL__ROLE_NONE && zkl__op_commits(p->kind) && p->kind != ZKL__OP_CHECK;
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
    report_refusal(core, owner, role, code);
}

static void submit(struct zkl__core *core, struct zkl__pending *p, const struct zkl__op *op)
{
    p->sent = core->now;
    uint64_t id = (uint64_t)p->use << 32 | (uint64_t)(p - core->pendings.slots);
    int code = core->port.submit(core->port.ctx, id, op);
    if (code != ZKL_OK) {
        refuse(core, p, code);
        return;
    }
    core->window.under_way += p->counted;
    core->stats.all.requests++;
    core->stats.all.heartbeats += p->role == ZKL__ROLE_BEAT;
    core->beats_under_way += p->role == ZKL__ROLE_BEAT;
    if (proves_much(op->kind)) {
        core->proof_at = core->now + zkl__lease_keepalive(core->lease.timeout, core->lease.gap,
                                                          core->lease.hops);
    }
}

void zkl__core_send_waiting(struct zkl__core *core)
{
    while (core->first_waiting && (!core->connected || has_room(&core->window))) {
        struct zkl__pending *p = &core->pendings.slots[core->first_waiting - 1];
        struct zkl__op *op = p->waiting; /* NULL: its owner has ended */
        p->waiting = NULL;
        core->first_waiting = p->next;
        core->last_waiting = core->first_waiting ? core->last_waiting : 0;
        const struct zkl__machine *owner = p->owner;
        bool wanted = !owner || !owner->ops->wants || owner->ops->wants(owner, p->role);
        if (!core->connected || !op || !wanted) {
            refuse(core, p, ZKL_ECONNECT);
        } else {
            submit(core, p, op);
        }
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
        report_refusal(core, owner, role, ZKL_ENOMEM);
        return;
    }
    p->kind = op->kind;
    p->role = role;
    size_t at = (size_t)(p - core->pendings.slots) + 1;
    p->owner = owner; /* until it is dropped or disowned, its machine knows it */
    if (owner) {
        p->prev_owned = 0;
        p->next_owned = owner->pending;
        if (p->next_owned) {
            core->pendings.slots[p->next_owned - 1].prev_owned = at;
        }
        owner->pending = at;
    }
    core->writes += is_users_write(p);
    p->counted = role != ZKL__ROLE_BEAT && (owner || op->kind != ZKL__OP_SYNC);
    if (!core->connected) {
        refuse(core, p, ZKL_ECONNECT);
        return;
    }
    if (!p->counted || (!core->first_waiting && has_room(&core->window))) {
        submit(core, p, op);
        return;
    }
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

/* The lease is a fact that others read. asker: reads it with the answer itself. */
static void prove(struct zkl__core *core, const struct zkl__machine *asker, enum zkl__op_kind kind,
                  int64_t sent, enum zkl__rc rc)
{
    int64_t left = core->lease.until - core->now;
    enum zkl__proof proof = ZKL__PROOF_RESPONSE;
    /* A check that is refused for the node's access list is a transaction of a living session, too
     * (OpCode.error): who may not read its own node lives by it. */
    bool done = rc == ZKL__RC_OK || (rc == ZKL__RC_NOAUTH && kind == ZKL__OP_CHECK);
    if (done && proves_much(kind)) {
        proof = kind == ZKL__OP_SYNC ? ZKL__PROOF_SYNC : ZKL__PROOF_COMMIT;
    }
    if (!zkl__lease_response(&core->lease, proof, sent, core->now)) {
        return;
    }
    if (core->held > 0) {
        zkl__stats_slack(&core->stats, left);
    }
    if (!core->provers.first || !zkl__core_leased(core)) {
        return;
    }
    ZKL__EACH (struct zkl__contender, c, &core->provers, proving) {
        if (&c->machine != asker) {
            zkl__contender_post(c, ZKL__CE_LOOK);
        }
    }
}

static void take_reply(struct zkl__core *core, struct zkl__pending *p,
                       const struct zkl__reply *reply)
{
    struct zkl__pending was = *p;
    drop(core, p);
    if (was.counted) {
        zkl__window_ended(&core->window, zkl__rc_is_response(reply->rc), was.sent, core->now,
                          zkl__lease_heartbeat(core->timeout));
    }
    core->beats_under_way -= was.role == ZKL__ROLE_BEAT;
    if (zkl__rc_is_response(reply->rc)) {
        zkl__histogram_add(&core->stats.all.request, core->now - was.sent);
        prove(core, was.role == ZKL__ROLE_PROVE ? was.owner : NULL, was.kind, was.sent, reply->rc);
    } else if (reply->rc == ZKL__RC_UNKNOWN) {
        core->stats.all.unanswered++;
    }
    deliver(core, was.owner, was.role, was.sent, reply);
}

void zkl__core_take_reply(struct zkl__core *core, uint64_t id, const struct zkl__reply *reply)
{
    struct zkl__pending *p = zkl__pending_find(&core->pendings, id);
    if (p) {
        take_reply(core, p, reply);
    }
}

void zkl__core_end_unknown(struct zkl__core *core)
{
    const struct zkl__reply reply = {.rc = ZKL__RC_UNKNOWN};
    zkl__core_send_waiting(core);
    for (size_t i = 0; i < core->pendings.room; i++) {
        if (core->pendings.slots[i].on) {
            take_reply(core, &core->pendings.slots[i], &reply);
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
        disown(&core->pendings, p);
    }
    return sent;
}

/* --- requests -------------------------------------------------------------------------------- */

static void request_answered(struct zkl__core *core, struct zkl__machine *machine, int role,
                             int64_t sent, const struct zkl__reply *reply)
{
    struct zkl__request *request = (struct zkl__request *)machine;
    (void)role, (void)sent;
    if (reply->rc == ZKL__RC_UNSENT) {
        request->unsent = reply->unsent;
        zkl__core_post(core, machine); /* not now: its owner may be about to ask for more */
    } else {
        request->done(request, reply);
    }
}

static void report_unsent(struct zkl__core *core, struct zkl__machine *machine)
{
    struct zkl__request *request = (struct zkl__request *)machine;
    const struct zkl__reply reply = {.rc = ZKL__RC_UNSENT, .unsent = request->unsent};
    (void)core;
    request->done(request, &reply);
}

static const struct zkl__machine_ops request_ops = {
    .rank = ZKL__RANK_FIRST, .step = report_unsent, .answered = request_answered};

void zkl__core_request(struct zkl__core *core, struct zkl__request *request,
                       const struct zkl__op *op)
{
    request->machine = (struct zkl__machine){.ops = &request_ops};
    zkl__core_send(core, &request->machine, ZKL__ROLE_NONE, op);
}

bool zkl__request_forget(struct zkl__core *core, struct zkl__request *request)
{
    zkl__machine_unready(&request->machine);
    return zkl__core_forget(core, &request->machine);
}

/* === watches ================================================================================== */

bool zkl__path_put(const zkl_heap *heap, char **path, size_t *room, const char *dir,
                   const char *name)
{
    size_t need = strlen(dir) + (name ? strlen(name) : 0) + 2;
    if (need > *room) {
        char *grown = zkl__resize(heap, *path, need);
        if (!grown) {
            return false;
        }
        *path = grown;
        *room = need;
    }
    return zkl__path_join(*path, *room, dir, name) > 0;
}

int zkl__watches_add(struct zkl__watches *watches, struct zkl__watch *watch, size_t bytes_max)
{
    if (watch->entry.link) {
        return ZKL_OK;
    }
    size_t length = strlen(watch->entry.path);
    if (bytes_max && watches->bytes + length > bytes_max) {
        return ZKL_ELIMIT;
    }
    zkl__map_add(&watches->map, &watch->entry);
    watches->bytes += length;
    return ZKL_OK;
}

void zkl__watches_remove(struct zkl__watches *watches, struct zkl__watch *watch)
{
    if (watch->entry.link) {
        zkl__map_remove(&watches->map, &watch->entry);
        watches->bytes -= strlen(watch->entry.path);
    }
}

struct zkl__watch *zkl__watches_take(struct zkl__watches *watches, const char *path)
{
    struct zkl__map_entry *taken = NULL, *entry;
    while ((entry = zkl__map_find(&watches->map, path))) {
        zkl__watches_remove(watches, (struct zkl__watch *)entry);
        entry->next = taken;
        taken = entry;
    }
    return (struct zkl__watch *)taken;
}

int zkl__watch_add(struct zkl__core *core, struct zkl__watch *watch)
{
    return zkl__watches_add(&core->watches, watch, core->config.watch_bytes_max);
}

void zkl__watch_remove(struct zkl__core *core, struct zkl__watch *watch)
{
    if (!watch->entry.link) {
        return;
    }
    zkl__watches_remove(&core->watches, watch);
    if (core->connected && !zkl__map_find(&core->watches.map, watch->entry.path)) {
        struct zkl__op op = {.kind = ZKL__OP_UNWATCH, .dir = watch->entry.path};
        zkl__core_send(core, NULL, ZKL__ROLE_NONE,
                       &op); /* if not: it stays until it fires or the session ends */
    }
}
