/* watcher.c - watchers of a path, and the three machines that are such: a membership, the list of a
 * group's members, the observer of an election. */
#include "core_internal.h"

#include <string.h>

/* === a watcher ================================================================================ */

/* Of looks, + the number: none that the session or a contender has. */
#define ROLE_LOOK ZKL__ROLES

/* It acts after a pause, each time a longer one until it sends nothing any more: after what was
 * refused, was put off by the server, or was not sent though connected (a limit was reached, or no
 * memory). */
static void retry_later(struct zkl__watcher *w)
{
    w->pause = zkl__backoff(w->pause, ZKL__PAUSE_LEAST, ZKL__PAUSE_MOST);
    w->retry_at = w->core->now + w->pause;
    zkl__timers_set(&w->core->timers, &w->machine.timer, w->retry_at);
}

void zkl__watcher_wake(struct zkl__watcher *w)
{
    w->retry_at = 0;
    zkl__timers_set(&w->core->timers, &w->machine.timer, INT64_MAX);
    zkl__core_post(&w->machine);
}

/* Its time, its owner's order, or what happens to the session. */
static void on_watcher_order(struct zkl__machine *machine, const struct zkl__event *order)
{
    struct zkl__watcher *w = (struct zkl__watcher *)machine;
    if (order->kind == ZKL__EV_EXPIRED) {
        w->ops->changed(w, true);
    } else if (order->kind != ZKL__EV_CLOSE) {
        zkl__watcher_wake(w);
    }
}

/* --- what it sends --------------------------------------------------------------------------- */

void zkl__watcher_unwatch(struct zkl__watcher *w)
{
    zkl__watch_remove(w->core, &w->watch);
}

static void send_operation(struct zkl__watcher *w, const struct zkl__op *op)
{
    if (op->watch) { /* at most one thing is watched */
        int rc = ZKL_ENOMEM;
        zkl__watcher_unwatch(w);
        if (zkl__watch_path(w->core, &w->watch, op->dir, op->name)) {
            rc = zkl__watch_add(w->core, &w->watch, false);
        }
        if (rc == ZKL_ELIMIT && !w->over_limit) {
            zkl__core_warn(
                w->core,
                "this session has reached its limit of %zu bytes of watched paths: an "
                "observer or a member waits for room. Use another session for some of the "
                "paths. It waits to watch %s",
                w->core->config.watch_bytes_max, w->watch.entry.path);
        }
        w->over_limit = rc == ZKL_ELIMIT;
        if (rc != ZKL_OK) { /* no memory, or too many watches */
            retry_later(w);
            return;
        }
    }
    w->busy = true;
    zkl__core_send(w->core, &w->machine, ZKL__ROLE_NONE, op);
}

static void step_watcher(struct zkl__machine *machine)
{
    struct zkl__core *core = machine->core;
    struct zkl__watcher *w = (struct zkl__watcher *)machine;
    struct zkl__op op;
    bool sends = false;
    while (core->connected && !w->busy && w->retry_at == 0 && w->ops->next(w, &op)) {
        sends = true;
        if (w->look < 0) {
            send_operation(w, &op);
        } else {
            w->looks++;
            zkl__core_send(core, machine, ROLE_LOOK + w->look, &op);
        }
    }
    bool idle = core->connected && !w->busy && w->looks == 0 && w->retry_at == 0;
    w->pause = idle ? 0 : w->pause; /* what was refused before has come to its end */
    if (idle && !sends && w->ops->rests) {
        w->ops->rests(w);
    }
}

/* --- what it hears --------------------------------------------------------------------------- */

static void on_watcher_reply(struct zkl__machine *machine, int role, int64_t sent,
                             const struct zkl__reply *reply)
{
    struct zkl__watcher *w = (struct zkl__watcher *)machine;
    bool decides = zkl__rc_decides(reply->rc);
    (void)sent;
    if (role >= ROLE_LOOK) {
        w->looks--;
        if (decides || reply->unsent == ZKL_EINVAL) { /* no request has room for its path */
            w->ops->looked(w, role - ROLE_LOOK, reply);
        } else if (w->retry_at == 0) {
            retry_later(w); /* or when it is connected again */
        }
        zkl__core_post(machine);
        return;
    }
    w->busy = false;
    if (decides) {
        if (w->looks > 0) {
            zkl__core_forget(machine);
            w->looks = 0;
        }
        zkl__watcher_wake(w);
        w->ops->answered(w, reply); /* may put it off */
    } else {
        retry_later(w);
    }
    if (w->missed) {
        w->missed = false;
        zkl__watcher_wake(w);
        w->ops->changed(w, false);
    }
}

static void on_fired(struct zkl__watch *fired, enum zkl__watch_event event)
{
    struct zkl__watcher *w = fired->owner;
    (void)event;
    if (w->busy) { /* the reply may settle it, and then nothing would be watched any more */
        w->missed = true;
        return;
    }
    zkl__watcher_wake(w);
    w->ops->changed(w, false);
}

/* --- life ------------------------------------------------------------------------------------ */

static const struct zkl__machine_ops machine_ops = {.rank = ZKL__RANK_LATER,
                                                    .step = step_watcher,
                                                    .answered = on_watcher_reply,
                                                    .order = on_watcher_order};

void zkl__watcher_begin(struct zkl__watcher *w, struct zkl__core *core,
                        const struct zkl__watcher_ops *ops, void *owner)
{
    w->machine.ops = &machine_ops;
    w->machine.core = core;
    w->ops = ops;
    w->owner = owner;
    w->core = core;
    w->look = -1;
    w->watch = (struct zkl__watch){.fired = on_fired, .owner = w};
    zkl__list_prepend(&core->machines[ZKL__RANK_LATER], &w->machine.in_session);
}

void zkl__watcher_end(struct zkl__watcher *w)
{
    struct zkl__core *core = w->core;
    if (!core) {
        return;
    }
    w->ops->end(w);
    zkl__watcher_unwatch(w);
    zkl__core_forget(&w->machine);
    zkl__machine_unready(&w->machine);
    zkl__timers_set(&core->timers, &w->machine.timer, INT64_MAX);
    zkl__list_remove(&core->machines[ZKL__RANK_LATER], &w->machine.in_session);
    zkl__free(&core->config.heap, w->watch.entry.path);
    *w = (struct zkl__watcher){.owner = w->owner};
}

/* To a state that may follow. */
static void move(struct zkl__watcher *w, unsigned state, const char *why)
{
    ZKL__ENSURE(w->ops->next_states[w->state] & (1u << state));
    w->state = state;
    zkl__core_trace(w->core, w->dir, 0, "%s", why);
}

/* === a membership =========================================================================== */

/* --- states ---------------------------------------------------------------------------------- */

#define N(node) (1u << (ZKL__MEMBER_##node))

/* Where it may go from here; to NONE from everywhere, when the session is over. */
static const uint32_t next_nodes[] = {
    [ZKL__MEMBER_NONE] = N(NONE) | N(ASKED),
    [ZKL__MEMBER_ASKED] = N(NONE) | N(STANDS) | N(UNSURE),
    [ZKL__MEMBER_STANDS] = N(NONE) | N(STANDS) | N(DELETING) | N(UNSURE),
    [ZKL__MEMBER_DELETING] = N(NONE) | N(UNSURE),
    [ZKL__MEMBER_UNSURE] = N(NONE) | N(STANDS) | N(UNSURE) | N(SYNCED),
    [ZKL__MEMBER_SYNCED] = N(NONE) | N(STANDS) | N(UNSURE),
};

static void move_node(struct zkl__membership *m, enum zkl__member_node node)
{
    ZKL__ENSURE(next_nodes[m->node] & (1u << node));
    m->node = node;
}

/* A settled membership has a node. A create and a delete are never under way together. Only a
 * membership that leaves deletes. */
static void check_member(const struct zkl__membership *m)
{
    ZKL__ENSURE(!m->wanted || m->step != ZKL__MEMBER_SETTLED || m->node == ZKL__MEMBER_STANDS ||
                m->node == ZKL__MEMBER_DELETING);
    ZKL__ENSURE((m->node == ZKL__MEMBER_DELETING) == (m->doing == ZKL__OP_DELETE));
    ZKL__ENSURE(m->node != ZKL__MEMBER_ASKED || m->doing == ZKL__OP_CREATE);
    ZKL__ENSURE(m->wanted || !m->joined);
}

/* --- what its user wants --------------------------------------------------------------------- */

void zkl__membership_join(struct zkl__membership *m)
{
    m->code = ZKL_OK;
    m->step = ZKL__MEMBER_CREATE;
    m->wanted = true;
    check_member(m);
}

/* Names are all that a delete knows: what changed may be another's by now. What was passed before
 * says nothing of creates sent since. */
static void doubt(struct zkl__membership *m)
{
    if (m->node == ZKL__MEMBER_SYNCED || (m->node == ZKL__MEMBER_STANDS && m->changed)) {
        move_node(m, ZKL__MEMBER_UNSURE);
    }
}

void zkl__membership_leave(struct zkl__membership *m)
{
    m->wanted = m->joined = false;
    doubt(m);
    check_member(m);
}

/* --- what is sent ---------------------------------------------------------------------------- */

static bool send_op(struct zkl__membership *m, struct zkl__op *out, struct zkl__op op)
{
    m->doing = op.kind;
    *out = op;
    out->dir = op.dir ? op.dir : m->path;
    out->version = op.kind == ZKL__OP_CHECK ? -1 : m->version;
    return true;
}

static bool next_of_member(struct zkl__watcher *watcher, struct zkl__op *op)
{
    struct zkl__membership *m = (struct zkl__membership *)watcher;
    m->doing = ZKL__OP_NONE;
    /* No answer: done or not, and if it was, the name is free for anybody. */
    if (m->node == ZKL__MEMBER_ASKED || m->node == ZKL__MEMBER_DELETING) {
        move_node(m, ZKL__MEMBER_UNSURE);
    }
    check_member(m);
    if (!m->wanted) {
        zkl__watcher_unwatch(watcher);
        switch (m->node) {
        case ZKL__MEMBER_STANDS:
            move_node(m, ZKL__MEMBER_DELETING);
            return send_op(m, op, (struct zkl__op){.kind = ZKL__OP_DELETE, .name = m->id});
        case ZKL__MEMBER_UNSURE:
            return send_op(m, op, (struct zkl__op){.kind = ZKL__OP_CHECK});
        case ZKL__MEMBER_SYNCED:
            return send_op(m, op, (struct zkl__op){.kind = ZKL__OP_EXISTS, .name = m->id});
        default:
            return false;
        }
    }
    bool looks = m->step == ZKL__MEMBER_LOOK;
    switch (m->step) {
    case ZKL__MEMBER_CREATE:
        if (zkl__member_stands(m)) { /* of a leave that was not answered yet */
            looks = true;
            break;
        }
        if (zkl__membership_has_rival(m, true)) {
            return false;
        }
        move_node(m, m->node == ZKL__MEMBER_NONE ? ZKL__MEMBER_ASKED : ZKL__MEMBER_UNSURE);
        return send_op(m, op,
                       (struct zkl__op){.kind = ZKL__OP_CREATE,
                                        .name = m->id,
                                        .data = m->data,
                                        .size = strlen(m->data),
                                        .mode = ZKL__EPHEMERAL,
                                        .acl = m->acl});
    case ZKL__MEMBER_MAKE:
        return send_op(m, op,
                       (struct zkl__op){.kind = ZKL__OP_CREATE,
                                        .dir = m->make_path,
                                        .mode = ZKL__CONTAINER,
                                        .acl = m->acl});
    case ZKL__MEMBER_SETTLED:
        if (m->stale) {
            m->step = ZKL__MEMBER_LOOK; /* whatever comes of it */
            return send_op(
                m, op,
                (struct zkl__op){
                    .kind = ZKL__OP_SET, .name = m->id, .data = m->data, .size = strlen(m->data)});
        }
        break;
    default:
        break;
    }
    return looks &&
           send_op(m, op, (struct zkl__op){.kind = ZKL__OP_GET, .name = m->id, .watch = true});
}

/* --- what the answers mean ------------------------------------------------------------------- */

static void refuse_member(struct zkl__membership *m, int code, int zk_code, const char *why)
{
    m->code = code;
    m->zk_code = zk_code;
    m->why = why;
    if (m->wanted) { /* who leaves goes on */
        retry_later(&m->watcher);
    }
}

static void refuse_member_by_reply(struct zkl__membership *m, const struct zkl__reply *reply)
{
    refuse_member(m, zkl__rc_code(reply->rc), reply->zk_code, zkl__rc_why(reply->rc));
}

static void on_member_created(struct zkl__membership *m, const struct zkl__reply *reply)
{
    if (reply->rc == ZKL__RC_OK) {
        move_node(m, ZKL__MEMBER_STANDS);
        m->version = 0;
        m->stale = m->changed = false;
        m->joined |= m->wanted;
        m->step = ZKL__MEMBER_LOOK;
        return;
    }
    if (m->node == ZKL__MEMBER_ASKED || reply->rc == ZKL__RC_NONODE) {
        move_node(m, ZKL__MEMBER_NONE); /* no directory: nothing of ours in it either */
    }
    switch (reply->rc) {
    case ZKL__RC_NODEEXISTS:
        m->step = ZKL__MEMBER_LOOK;
        break;
    case ZKL__RC_NONODE:
        memcpy(m->make_path, m->path, strlen(m->path) + 1);
        m->step = ZKL__MEMBER_MAKE;
        break;
    default:
        refuse_member_by_reply(m, reply);
    }
}

static void on_member_look(struct zkl__membership *m, const struct zkl__reply *reply, bool ours)
{
    bool stands = reply->rc == ZKL__RC_OK;
    if (!stands && reply->rc != ZKL__RC_NONODE) {
        refuse_member_by_reply(m, reply);
        return;
    }
    m->changed = false;
    if (ours && m->node != ZKL__MEMBER_NONE) {
        move_node(m, ZKL__MEMBER_STANDS);
        m->version = reply->stat.version;
        size_t size = strlen(m->data); /* data may be NULL where there is none */
        m->stale = reply->size != size || (size > 0 && memcmp(reply->data, m->data, size) != 0);
        m->step = ZKL__MEMBER_SETTLED;
        m->joined |= m->wanted;
    } else {
        if (m->node == ZKL__MEMBER_STANDS) {
            move_node(m, ZKL__MEMBER_NONE);
        }
        if (stands && !zkl__is_ephemeral(&reply->stat)) {
            refuse_member(m, ZKL_ECONFLICT, 0,
                          "a znode of that name is there, and lives with no session");
            return;
        }
        m->step = stands ? ZKL__MEMBER_WAIT : ZKL__MEMBER_CREATE;
    }
}

static void on_member_reply(struct zkl__watcher *watcher, const struct zkl__reply *reply)
{
    struct zkl__membership *m = (struct zkl__membership *)watcher;
    enum zkl__op_kind doing = m->doing;
    bool done = reply->rc == ZKL__RC_OK, missing = reply->rc == ZKL__RC_NONODE;
    bool differs = reply->rc == ZKL__RC_BADVERSION;
    bool ours = done && zkl__is_own(&reply->stat, watcher->core->session_id);
    m->doing = ZKL__OP_NONE;
    switch (doing) {
    case ZKL__OP_CREATE:
        if (m->node != ZKL__MEMBER_NONE) { /* else the directory's */
            on_member_created(m, reply);
        } else if (missing && !zkl__path_shorten(m->make_path)) {
            refuse_member(m, ZKL_ENOENT, reply->zk_code, ZKL__NO_CHROOT);
        } else if (!missing && !done && reply->rc != ZKL__RC_NODEEXISTS) {
            refuse_member_by_reply(m, reply);
        } else if (!missing && !zkl__path_lengthen(m->make_path, m->path)) {
            m->step = ZKL__MEMBER_CREATE;
        }
        break;
    case ZKL__OP_GET:
        on_member_look(m, reply, ours);
        break;
    case ZKL__OP_SET:
        if (!done && !missing && !differs) { /* changed by others: looked at next */
            refuse_member_by_reply(m, reply);
        }
        break;
    case ZKL__OP_CHECK:
        move_node(m, ZKL__MEMBER_SYNCED);
        break;
    case ZKL__OP_EXISTS:
        /* Behind the barrier: what is not there now will not come. */
        if (done || missing) {
            move_node(m, ours ? ZKL__MEMBER_STANDS : ZKL__MEMBER_NONE);
            m->version = reply->stat.version;
        } else {
            retry_later(watcher);
        }
        break;
    case ZKL__OP_DELETE:
        /* What has our name now may be somebody else's, and names are all that a delete knows.
         * ZooKeeper has no check of an owner, so when the version differs: a committed write,
         * behind which no earlier delete of ours comes any more (a server answers reads behind what
         * it has committed for the same session); then a look at whose it is. */
        if (done || missing) {
            move_node(m, ZKL__MEMBER_NONE);
            break;
        }
        move_node(m, ZKL__MEMBER_UNSURE); /* written, or another one, or so when it is sent again */
        if (!differs) { /* refused, never forgotten: until it is gone, or the session is */
            retry_later(watcher);
        }
        break;
    default:
        break;
    }
    check_member(m);
    m->note(watcher->owner);
}

/* --- what is noticed ------------------------------------------------------------------------- */

/* When the session is over, its znodes are deleted, and nothing that it sent comes any more. */
static void on_member_change(struct zkl__watcher *watcher, bool session_over)
{
    struct zkl__membership *m = (struct zkl__membership *)watcher;
    if (session_over) {
        m->node = ZKL__MEMBER_NONE;
        m->doing = ZKL__OP_NONE;
    }
    m->step = session_over ? ZKL__MEMBER_CREATE : ZKL__MEMBER_LOOK;
    m->changed = !session_over;
    if (!m->wanted) {
        doubt(m);
    }
    check_member(m);
    m->note(watcher->owner);
}

bool zkl__membership_has_rival(const struct zkl__membership *m, bool leaving)
{
    ZKL__EACH (const struct zkl__membership, other, &m->queue->members, peer) {
        bool is_one = leaving ? !other->wanted && other->node != ZKL__MEMBER_NONE : other->wanted;
        if (is_one && other != m) {
            return true;
        }
    }
    return false;
}

static void on_member_rests(struct zkl__watcher *watcher)
{
    struct zkl__membership *m = (struct zkl__membership *)watcher;
    if (!m->wanted) {
        ZKL__EACH (struct zkl__membership, other, &m->queue->members, peer) {
            if (other->wanted) {
                zkl__watcher_wake(&other->watcher);
            }
        }
    }
    m->rests(watcher->owner);
}

static void end_member(struct zkl__watcher *watcher)
{
    struct zkl__membership *m = (struct zkl__membership *)watcher;
    zkl__peers_resign(watcher->core, m->queue, &m->peer);
    m->queue = NULL;
}

const struct zkl__watcher_ops zkl__membership_ops = {.next = next_of_member,
                                                     .answered = on_member_reply,
                                                     .changed = on_member_change,
                                                     .rests = on_member_rests,
                                                     .end = end_member};

/* === the members of a group ================================================================= */

#define S(state) (1u << (ZKL__LIST_##state))

/* Where it may go from here; to STALE from everywhere, when something changed. */
static const uint32_t list_states[] = {
    [ZKL__LIST_STALE] = S(STALE) | S(MISSING) | S(LOOKS),
    [ZKL__LIST_MISSING] = S(STALE) | S(LOOKS),
    [ZKL__LIST_LOOKS] = S(STALE) | S(SHOWN),
    [ZKL__LIST_SHOWN] = S(STALE),
};

/* --- what is sent ---------------------------------------------------------------------------- */

static bool next_of_list(struct zkl__watcher *watcher, struct zkl__op *op)
{
    struct zkl__member_list *list = (struct zkl__member_list *)watcher;
    struct zkl__children *children = list->children;
    watcher->look = -1;
    *op = (struct zkl__op){.kind = ZKL__OP_CHILDREN, .dir = watcher->dir, .watch = true};
    if (watcher->state == ZKL__LIST_SHOWN || (list->wanted && !list->wanted(watcher->owner))) {
        return false;
    }
    if (watcher->state == ZKL__LIST_MISSING) {
        op->kind = ZKL__OP_EXISTS;
    }
    if (watcher->state != ZKL__LIST_LOOKS) {
        return true;
    }
    /* Children whose read got no reply are read again when no read is under way. */
    list->looked = zkl__children_unknown(children, watcher->looks > 0 ? list->looked : 0);
    if (list->looked < children->count && watcher->looks < ZKL__LOOKS_MOST) {
        watcher->look = (int)list->looked;
        *op = (struct zkl__op){
            .kind = ZKL__OP_EXISTS, .dir = watcher->dir, .name = children->all[list->looked].name};
        list->looked++;
        return true;
    }
    if (watcher->looks == 0) { /* all are judged */
        struct zkl__names *members = zkl__children_names(&watcher->core->config.heap, children);
        if (members) {
            move(watcher, ZKL__LIST_SHOWN, "each child was looked at: shown");
            list->show(watcher->owner, members);
        } else {
            retry_later(watcher);
        }
    }
    return false;
}

/* --- what the replies mean ------------------------------------------------------------------- */

static void on_list_reply(struct zkl__watcher *watcher, const struct zkl__reply *reply)
{
    struct zkl__member_list *list = (struct zkl__member_list *)watcher;
    bool missing = reply->rc == ZKL__RC_NONODE, lists = watcher->state == ZKL__LIST_STALE;
    if (!missing && reply->rc != ZKL__RC_OK) {
        retry_later(watcher);
        if (list->refused) {
            list->refused(watcher->owner, reply->rc);
        }
    } else if (missing && lists) {
        move(watcher, ZKL__LIST_MISSING, "nothing there: its making is watched");
    } else if (!missing && !lists) {
        move(watcher, ZKL__LIST_STALE, "made meanwhile");
    } else if (zkl__children_renew(&watcher->core->config.heap, &list->children, reply,
                                   list->counts)) {
        move(watcher, ZKL__LIST_LOOKS, missing ? "still nothing there: nobody" : "listed");
    } else {
        retry_later(watcher);
    }
}

static void on_list_look(struct zkl__watcher *watcher, int look, const struct zkl__reply *reply)
{
    struct zkl__member_list *list = (struct zkl__member_list *)watcher;
    zkl__child_judge(&list->children->all[look], reply);
}

static void on_list_change(struct zkl__watcher *watcher, bool session_over)
{
    move(watcher, ZKL__LIST_STALE,
         session_over ? "the session is over: look again" : "changed: look again");
}

/* --- life ------------------------------------------------------------------------------------ */

static void end_list(struct zkl__watcher *watcher)
{
    struct zkl__member_list *list = (struct zkl__member_list *)watcher;
    zkl__free(&watcher->core->config.heap, list->children);
    list->children = NULL;
}

const struct zkl__watcher_ops zkl__member_list_ops = {.next_states = list_states,
                                                      .next = next_of_list,
                                                      .answered = on_list_reply,
                                                      .looked = on_list_look,
                                                      .changed = on_list_change,
                                                      .end = end_list};

void zkl__member_list_renew(struct zkl__member_list *list)
{
    if (list->watcher.core) {
        list->watcher.missed = list->watcher.busy;
        move(&list->watcher, ZKL__LIST_STALE, "to be listed");
    }
}

/* === the observer of an election ============================================================ */

#undef S
#define S(state) (1u << (ZKL__OBSERVER_##state))

/* Where it may go from here; to STALE from everywhere, when something changed. */
static const uint32_t observer_states[] = {
    [ZKL__OBSERVER_STALE] = S(STALE) | S(MISSING) | S(EMPTY) | S(READS),
    [ZKL__OBSERVER_MISSING] = S(STALE) | S(SHOWN),
    [ZKL__OBSERVER_EMPTY] = S(STALE) | S(MISSING) | S(READS) | S(SHOWN),
    [ZKL__OBSERVER_READS] = S(STALE) | S(READS) | S(REFUSED) | S(SHOWN),
    [ZKL__OBSERVER_REFUSED] = S(STALE) | S(READS) | S(HIDDEN),
    [ZKL__OBSERVER_HIDDEN] = S(STALE) | S(SHOWN_HIDDEN),
    [ZKL__OBSERVER_SHOWN] = S(STALE),
    [ZKL__OBSERVER_SHOWN_HIDDEN] = S(STALE) | S(HIDDEN),
};

/* --- what is sent ---------------------------------------------------------------------------- */

static bool next_of_observer(struct zkl__watcher *watcher, struct zkl__op *op)
{
    struct zkl__observer *o = (struct zkl__observer *)watcher;
    *op = (struct zkl__op){.kind = ZKL__OP_CHILDREN, .dir = watcher->dir, .watch = true};
    switch (watcher->state) {
    case ZKL__OBSERVER_STALE:
        zkl__watcher_unwatch(watcher);
        op->watch = false;
        return true;
    case ZKL__OBSERVER_EMPTY:
    case ZKL__OBSERVER_HIDDEN:
        return true;
    case ZKL__OBSERVER_MISSING:
        op->kind = ZKL__OP_EXISTS;
        return true;
    case ZKL__OBSERVER_READS:
        op->kind = ZKL__OP_GET;
        op->name = o->first->name;
        return true;
    case ZKL__OBSERVER_REFUSED:
        zkl__watcher_unwatch(watcher); /* the refused get has set none */
        op->kind = ZKL__OP_EXISTS;
        op->name = o->first->name;
        op->watch = false;
        return true;
    default:
        return false;
    }
}

/* --- what is seen ---------------------------------------------------------------------------- */

static void show(struct zkl__observer *o, const struct zkl__leader *leader, const char *why)
{
    if (!o->show(o->watcher.owner, leader)) {
        retry_later(&o->watcher);
        return;
    }
    bool hidden = leader->node && !leader->readable;
    move(&o->watcher, hidden ? ZKL__OBSERVER_SHOWN_HIDDEN : ZKL__OBSERVER_SHOWN, why);
}

static bool may_lead(const char *name)
{
    struct zkl__name parsed = zkl__name_parse(name);
    return parsed.kind != ZKL_KIND_FOREIGN && !zkl__sequence_used_up(parsed.sequence);
}

static bool stands_before(const char *a, const char *b)
{
    int32_t diff = zkl__sequence_diff(zkl__name_sequence(a), zkl__name_sequence(b));
    return diff < 0 || (diff == 0 && strcmp(a, b) < 0); /* a forged one may have its number */
}

static int compare_order(const void *one, const void *other)
{
    const struct zkl__child *const *a = one, *const *b = other;
    return stands_before((*b)->name, (*a)->name) - stands_before((*a)->name, (*b)->name);
}

/* True: one of the children may be. */
static bool find_first(struct zkl__observer *o)
{
    o->first = NULL;
    for (size_t i = 0; o->children && i < o->children->count; i++) {
        struct zkl__child *child = &o->children->all[i];
        if (child->verdict != ZKL__CHILD_PERSISTENT &&
            (!o->first || stands_before(child->name, o->first->name))) {
            o->first = child;
        }
    }
    return o->first;
}

/* --- what the replies mean ------------------------------------------------------------------- */

/* The next one of the list is first then: a candidate that came after the list stands behind each
 * that the server had numbered before. Behind one that is no candidate may be thousands, so the
 * list is sorted once. */
static void skip_first(struct zkl__observer *o)
{
    size_t count = o->children->count;
    o->first->verdict = ZKL__CHILD_PERSISTENT;
    if (!o->order) {
        o->order = zkl__alloc(&o->watcher.core->config.heap, count * sizeof *o->order);
        if (!o->order) {
            retry_later(&o->watcher);
            return;
        }
        for (size_t i = 0; i < count; i++) {
            o->order[i] = &o->children->all[i];
        }
        zkl__sort(o->order, count, sizeof *o->order, compare_order);
        o->next = 0;
    }
    while (o->next < count && o->order[o->next]->verdict == ZKL__CHILD_PERSISTENT) {
        o->next++;
    }
    if (o->next < count) {
        o->first = o->order[o->next];
        move(&o->watcher, ZKL__OBSERVER_READS, "no session owns it: the next is read");
    } else {
        move(&o->watcher, ZKL__OBSERVER_STALE, "the first lives with no session: no candidate");
    }
}

static void on_observer_reply(struct zkl__watcher *watcher, const struct zkl__reply *reply)
{
    struct zkl__observer *o = (struct zkl__observer *)watcher;
    bool of_first =
        watcher->state == ZKL__OBSERVER_READS || watcher->state == ZKL__OBSERVER_REFUSED;
    bool done = reply->rc == ZKL__RC_OK, missing = reply->rc == ZKL__RC_NONODE;
    bool lists = !of_first && watcher->state != ZKL__OBSERVER_MISSING;
    const struct zkl__leader nobody = {.node = NULL};
    if (lists) {
        zkl__free(&watcher->core->config.heap, o->order);
        o->order = NULL;
    }
    /* NOAUTH to a read shows that the znode exists; to a list it shows nothing. */
    if ((!done && !missing && !(of_first && reply->rc == ZKL__RC_NOAUTH)) ||
        (lists &&
         !zkl__children_renew(&watcher->core->config.heap, &o->children, reply, may_lead))) {
        retry_later(watcher);
        return;
    }
    switch (watcher->state) {
    case ZKL__OBSERVER_STALE:
    case ZKL__OBSERVER_EMPTY:
        if (missing) {
            move(watcher, ZKL__OBSERVER_MISSING, "nothing there: its making is watched");
        } else if (find_first(o)) {
            move(watcher, ZKL__OBSERVER_READS, "listed: the first is read");
        } else if (watcher->state == ZKL__OBSERVER_STALE) {
            move(watcher, ZKL__OBSERVER_EMPTY, "no candidate: the list is watched");
        } else {
            show(o, &nobody, "still no candidate: nobody leads");
        }
        break;
    case ZKL__OBSERVER_MISSING:
        if (missing) {
            show(o, &nobody, "still nothing there: nobody leads");
        } else {
            move(watcher, ZKL__OBSERVER_STALE, "made meanwhile");
        }
        break;
    case ZKL__OBSERVER_READS:
        if (missing) {
            move(watcher, ZKL__OBSERVER_STALE, "the first was deleted");
        } else if (!done) {
            move(watcher, ZKL__OBSERVER_REFUSED, "the first may not be read");
        } else if (!zkl__is_ephemeral(&reply->stat)) {
            skip_first(o);
        } else {
            show(o,
                 &(struct zkl__leader){.node = o->first->name,
                                       .readable = true,
                                       .stat = reply->stat,
                                       .data = reply->data,
                                       .size = reply->size},
                 "the first leads");
        }
        break;
    case ZKL__OBSERVER_REFUSED:
        /* A stat that is refused, too, says nothing: it counts as a candidate. */
        if (missing) {
            move(watcher, ZKL__OBSERVER_STALE, "the first was deleted");
        } else if (done && !zkl__is_ephemeral(&reply->stat)) {
            skip_first(o);
        } else {
            o->stat = reply->stat;
            zkl__child_judge(o->first, reply);
            move(watcher, ZKL__OBSERVER_HIDDEN, "the first is hidden: the list is watched");
        }
        break;
    default:
        /* The list is watched from here on. Another one may be first by now: then all begins anew.
         */
        if (find_first(o) && o->first->verdict == ZKL__CHILD_EPHEMERAL &&
            o->first->czxid == o->stat.czxid) {
            show(o, &(struct zkl__leader){.node = o->first->name, .stat = o->stat},
                 "the hidden one leads");
        } else {
            move(watcher, ZKL__OBSERVER_STALE, "the hidden one is not the first any more");
        }
    }
}

/* Somebody came or went behind a hidden one, most likely: what was refused is not asked again. */
static void on_observer_change(struct zkl__watcher *watcher, bool session_over)
{
    if (watcher->state == ZKL__OBSERVER_SHOWN_HIDDEN && !session_over) {
        move(watcher, ZKL__OBSERVER_HIDDEN, "the list changed: is the hidden one still the first?");
    } else {
        move(watcher, ZKL__OBSERVER_STALE,
             session_over ? "the session is over: look again" : "changed: look again");
    }
}

/* --- life ------------------------------------------------------------------------------------ */

static void end_observer(struct zkl__watcher *watcher)
{
    struct zkl__observer *o = (struct zkl__observer *)watcher;
    zkl__free(&watcher->core->config.heap, o->children);
    zkl__free(&watcher->core->config.heap, o->order);
    o->children = NULL;
    o->order = NULL;
}

const struct zkl__watcher_ops zkl__observer_ops = {.next_states = observer_states,
                                                   .next = next_of_observer,
                                                   .answered = on_observer_reply,
                                                   .changed = on_observer_change,
                                                   .end = end_observer};
