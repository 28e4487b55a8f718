/* contender_ask.c - what a contender asks of the store next, in each state. */
#include "contender_moves.h"

#include <string.h>

/* --- what it asks for ------------------------------------------------------------------------ */

void zkl__ask(struct zkl__contender *c, struct zkl__contender_actions *out, enum zkl__role role,
              struct zkl__op op)
{
    ZKL__ENSURE(out->op_count < (int)(sizeof out->ops / sizeof *out->ops));
    ZKL__ENSURE(!(c->under_way & UNDER_WAY(role)));
    c->under_way |= UNDER_WAY(role);
    out->ops[out->op_count].role = role;
    out->ops[out->op_count].op = op;
    out->op_count++;
}

struct zkl__op zkl__create_op(const struct zkl__contender *c)
{
    return (struct zkl__op){.kind = ZKL__OP_CREATE,
                            .dir = c->config.path,
                            .name = c->prefix,
                            .data = c->config.metadata,
                            .size = strlen(c->config.metadata),
                            .mode = ZKL__EPHEMERAL_SEQUENTIAL,
                            .acl = c->sealed ? zkl__core_seal(c->core) : c->config.acl};
}

struct zkl__op zkl__delete_op(const struct zkl__contender *c)
{
    return (struct zkl__op){
        .kind = ZKL__OP_DELETE, .dir = c->config.path, .name = c->node, .version = -1};
}

/* The watch is set by the request that shows the predecessor still there: whatever happens to that
 * later fires it. */
void zkl__ask_list(struct zkl__contender *c, struct zkl__contender_actions *out)
{
    bool watch = c->sight != ZKL__SIGHT_READ && !c->try_only && zkl__contender_waits(c);
    out->queue_watch = watch ? ZKL__WATCH_ON : out->queue_watch;
    c->changed = false;
    zkl__ask(c, out, ZKL__ROLE_LIST,
             (struct zkl__op){.kind = ZKL__OP_CHILDREN, .dir = c->config.path, .watch = watch});
}

void zkl__ask_node(struct zkl__contender *c, struct zkl__contender_actions *out,
                   enum zkl__role role, enum zkl__op_kind kind, const char *name)
{
    zkl__ask(c, out, role,
             (struct zkl__op){.kind = kind, .dir = c->config.path, .name = name, .version = -1});
}

/* The path of a child of the queue, into a buffer that grows. False: no memory. */
static bool child_path(const struct zkl__contender *c, char **path, size_t *room, const char *name)
{
    size_t need = strlen(c->config.path) + strlen(name) + 2;
    if (need > *room) {
        char *grown = zkl__resize(c->heap, *path, need);
        if (!grown) {
            return false;
        }
        *path = grown;
        *room = need;
    }
    strcpy(*path, c->config.path);
    strcat(*path, "/");
    strcat(*path, name);
    return true;
}

bool zkl__contender_watch(struct zkl__contender *c, const char *name)
{
    bool done = child_path(c, &c->watch_path, &c->watch_room, name);
    c->watch.path = c->watch_path;
    return done;
}

const char *zkl__contender_watched(const struct zkl__contender *c)
{
    return c->watch_path + strlen(c->config.path) + 1;
}

static void ask_two(struct zkl__contender *c, struct zkl__contender_actions *out,
                    enum zkl__role role, struct zkl__op first, struct zkl__op second)
{
    out->parts[0] = first;
    out->parts[1] = second;
    zkl__ask(c, out, role,
             (struct zkl__op){.kind = ZKL__OP_MULTI, .parts = out->parts, .part_count = 2});
}

static struct zkl__op set_mark(const struct zkl__contender *c, const char *mark)
{
    return (struct zkl__op){.kind = ZKL__OP_SET,
                            .dir = c->config.path,
                            .data = mark,
                            .size = strlen(mark),
                            .version = -1};
}

/* Version 0: nobody, we included, has written our node before. */
static struct zkl__op announcement(const struct zkl__contender *c)
{
    return (struct zkl__op){
        .kind = ZKL__OP_SET, .dir = c->config.path, .name = c->node, .version = 0};
}

/* --- removing -------------------------------------------------------------------------------- */

/* True when nothing of ours is left, as far as this session's answers say. */
static bool removed(const struct zkl__contender *c)
{
    return c->node[0] == '\0' && !c->unsure;
}

/* An operation under way may make a node of ours. */
static bool may_yet_make(const struct zkl__contender *c)
{
    return c->under_way & (UNDER_WAY(ZKL__ROLE_CREATE) | UNDER_WAY(ZKL__ROLE_SWAP));
}

static void advance_removal(struct zkl__contender *c, const struct zkl__contender_event *ev,
                            struct zkl__contender_actions *out)
{
    const uint32_t busy = UNDER_WAY(ZKL__ROLE_CREATE) | UNDER_WAY(ZKL__ROLE_LIST) |
                          UNDER_WAY(ZKL__ROLE_DELETE) | UNDER_WAY(ZKL__ROLE_BARRIER);
    if (may_yet_make(c)) {
        return;
    }
    if (c->node[0]) {
        if (ev->delete_waits || (c->under_way & UNDER_WAY(ZKL__ROLE_DELETE))) {
            return;
        }
        if (c->clear) {
            ask_two(c, out, ZKL__ROLE_DELETE, zkl__delete_op(c), set_mark(c, ""));
        } else if (c->announce && !c->handed) {
            ask_two(c, out, ZKL__ROLE_DELETE, announcement(c), zkl__delete_op(c));
        } else {
            zkl__ask(c, out, ZKL__ROLE_DELETE, zkl__delete_op(c));
        }
    } else if (c->unsure && !(c->under_way & busy)) {
        /* A write is the one barrier that no server can skip: what was sent before it is in the
         * list behind it, or nowhere. */
        c->barrier_passed = false;
        zkl__ask(c, out, ZKL__ROLE_BARRIER,
                 (struct zkl__op){.kind = ZKL__OP_CHECK, .dir = c->config.path, .version = -1});
        zkl__ask_list(c, out);
    }
}

/* Sets the watch on our own node. */
static void watch_own_node(struct zkl__contender *c, struct zkl__contender_actions *out)
{
    if (c->own_armed || (c->under_way & UNDER_WAY(ZKL__ROLE_OWN_WATCH)) ||
        (!c->own_watch.on && !child_path(c, &c->own_path, &c->own_room, c->node))) {
        return; /* no memory: with the next heartbeat's answer, or never */
    }
    c->own_watch.path = c->own_path;
    out->own_watch = ZKL__WATCH_ON;
    zkl__ask(c, out, ZKL__ROLE_OWN_WATCH,
             (struct zkl__op){
                 .kind = ZKL__OP_GET, .dir = c->config.path, .name = c->node, .watch = true});
}

/* --- what is next ---------------------------------------------------------------------------- */

/* In the place of our node one of another kind, as Curator's downgrade does, but in one
 * transaction. Sent again after a lost reply: that the new node exists already is as good as
 * success. */
static void advance_swap(struct zkl__contender *c, struct zkl__contender_actions *out)
{
    if (c->swap[0] && !(c->under_way & UNDER_WAY(ZKL__ROLE_SWAP))) {
        struct zkl__op create = {.kind = ZKL__OP_CREATE,
                                 .dir = c->config.path,
                                 .name = c->swap,
                                 .data = c->config.metadata,
                                 .size = strlen(c->config.metadata),
                                 .mode = ZKL__EPHEMERAL,
                                 .acl = c->config.acl};
        ask_two(c, out, ZKL__ROLE_SWAP, create, zkl__delete_op(c));
    }
}

/* True when the mark is set, or none is wanted. */
static bool advance_mark(struct zkl__contender *c, struct zkl__contender_actions *out)
{
    if (!c->config.mark || c->marked) {
        return true;
    }
    if (!c->was_read && !(c->under_way & UNDER_WAY(ZKL__ROLE_READ))) {
        zkl__ask(c, out, ZKL__ROLE_READ,
                 (struct zkl__op){.kind = ZKL__OP_GET, .dir = c->config.path});
    } else if (c->was_read && !(c->under_way & UNDER_WAY(ZKL__ROLE_MARK))) {
        struct zkl__op check = {
            .kind = ZKL__OP_CHECK, .dir = c->config.path, .name = c->node, .version = -1};
        c->mark_sent = true;
        ask_two(c, out, ZKL__ROLE_MARK, check, set_mark(c, c->marks->own));
    }
    return false;
}

/* Somebody may remove our node by hand, and others of this session learn of that and are granted
 * before us: so what shows it is not to be older than a heartbeat, within which a holder would
 * learn of it, too. A multi-contender has a rule of its own (joint.c, look_again). */
static bool is_shown(const struct zkl__contender *c, const struct zkl__contender_event *ev)
{
    return c->joint || ev->now - c->shown_at <= zkl__lease_heartbeat(zkl__core_timeout(c->core)) ||
           (ev->kind == ZKL__CE_REPLY && ev->role == ZKL__ROLE_PROVE);
}

static void advance_proving(struct zkl__contender *c, const struct zkl__contender_event *ev,
                            struct zkl__contender_actions *out)
{
    if (!advance_mark(c, out)) {
        return;
    }
    bool shown = is_shown(c, ev);
    bool leased = zkl__core_leased(c->core);
    if (leased && c->czxid && !ev->grant_waits && shown) {
        zkl__contender_grant(c, ev, out);
    } else if (!(c->under_way & UNDER_WAY(ZKL__ROLE_PROVE)) && (leased ? !shown : !c->proved)) {
        c->proved = true;
        zkl__ask_node(c, out, ZKL__ROLE_PROVE, ZKL__OP_CHECK, c->node);
    }
}

/* Now, not when the attempt began: the session it is made in may have another identity, or none. */
static void name_place(struct zkl__contender *c)
{
    c->sealed = c->config.announces && !c->config.revocable && !c->config.mark && !c->config.acl &&
                !c->joint && c->config.rule->waits_for == ZKL__KIND_ANY && zkl__core_seals(c->core);
    if (c->sealed) {
        zkl__uuid_seal(c->uuid);
    }
    zkl__name_prefix(c->prefix, c->uuid, c->config.rule->tag);
}

/* Who waits for nobody needs the list only to find what it sent twice: that its node is there, the
 * create's answer says. */
static void ask_place(struct zkl__contender *c, struct zkl__contender_actions *out)
{
    zkl__ask(c, out, ZKL__ROLE_CREATE, zkl__create_op(c));
    if (c->config.rule->waits_for || c->doubled) {
        zkl__ask_list(c, out);
    }
}

static void watch_predecessor(struct zkl__contender *c, struct zkl__contender_actions *out)
{
    if (!c->try_only) {
        out->watch = ZKL__WATCH_ON;
        if (c->believed) {
            watch_own_node(
                c, out); /* before the other one, whose answer says that both watches are set */
        }
    }
    struct zkl__op get = {
        .kind = ZKL__OP_GET, .dir = c->config.path, .name = zkl__contender_watched(c)};
    get.watch = !c->try_only;
    zkl__ask(c, out, ZKL__ROLE_WATCH, get);
}

static void look_at_predecessor(struct zkl__contender *c, struct zkl__contender_actions *out)
{
    bool asked = c->under_way & UNDER_WAY(ZKL__ROLE_WATCH);
    if (c->sight == ZKL__SIGHT_STAT && !asked) {
        zkl__ask_node(c, out, ZKL__ROLE_WATCH, ZKL__OP_EXISTS, zkl__contender_watched(c));
        asked = true;
    }
    if (c->sight == ZKL__SIGHT_READ && !c->armed && !asked) {
        watch_predecessor(c, out);
    } else if (c->sight != ZKL__SIGHT_READ && !c->armed && !c->try_only) {
        zkl__contender_move(c, ZKL__LISTING,
                            "who is before us may not be read: the queue is watched");
        zkl__ask_list(c, out);
    }
}

static void look_at_folders(struct zkl__contender *c, struct zkl__contender_actions *out)
{
    if (c->under_way & UNDER_WAY(ZKL__ROLE_FOLDERS)) {
        return;
    }
    const char *first = c->partition ? "members" : "locks",
               *second = c->partition ? "pieces" : "leases";
    if (c->folders == ZKL__FOLDERS_LIMIT) {
        zkl__ask(c, out, ZKL__ROLE_FOLDERS,
                 (struct zkl__op){.kind = ZKL__OP_GET, .dir = c->config.path});
    } else if (c->folders == ZKL__FOLDERS_LOCKS || c->folders == ZKL__FOLDERS_LEASES) {
        zkl__ask_node(c, out, ZKL__ROLE_FOLDERS, ZKL__OP_CHILDREN,
                      c->folders == ZKL__FOLDERS_LOCKS ? first : second);
    } else {
        zkl__ask_node(c, out, ZKL__ROLE_FOLDERS, ZKL__OP_EXISTS, zkl__contender_watched(c));
    }
}

static bool looks_at_folders(const struct zkl__contender *c)
{
    return c->folders != ZKL__FOLDERS_UNSEEN && c->folders != ZKL__FOLDERS_EMPTY;
}

static void advance_waiting(struct zkl__contender *c, const struct zkl__contender_event *ev,
                            struct zkl__contender_actions *out)
{
    /* Before the look at the blocker: who is older than we are can only be said when our own czxid
     * is known. */
    if (c->node[0] && !c->czxid && !c->doubled && !c->unsure &&
        !(c->under_way & UNDER_WAY(ZKL__ROLE_STAT))) {
        zkl__ask_node(c, out, ZKL__ROLE_STAT, ZKL__OP_EXISTS, c->node);
    }
    switch (c->state) {
    case ZKL__NEW:
        if (!(c->under_way &
              UNDER_WAY(ZKL__ROLE_LIST))) { /* one of the last attempt: its answer comes first */
            name_place(c);
            zkl__contender_move(c, ZKL__CREATING, "asks for a place and the list together");
            ask_place(c, out);
        }
        break;
    case ZKL__CREATING:
        if (!(c->under_way & (UNDER_WAY(ZKL__ROLE_CREATE) | UNDER_WAY(ZKL__ROLE_LIST)))) {
            c->doubled = c->unsure;
            ask_place(c, out);
        }
        break;
    case ZKL__MAKING:
        if (!(c->under_way & UNDER_WAY(ZKL__ROLE_MAKE))) {
            zkl__ask(c, out, ZKL__ROLE_MAKE,
                     (struct zkl__op){.kind = ZKL__OP_CREATE,
                                      .dir = c->make_path,
                                      .mode = c->config.mark ? ZKL__PERSISTENT : ZKL__CONTAINER,
                                      .acl = c->config.acl});
        }
        break;
    case ZKL__LISTING:
        if (looks_at_folders(c)) {
            look_at_folders(c, out);
        } else if (!(c->under_way & UNDER_WAY(ZKL__ROLE_LIST))) {
            zkl__ask_list(c, out);
        }
        break;
    case ZKL__WATCHING:
        if (c->inspects) {
            out->inspect = true;
        } else if (!c->ahead) {
            look_at_predecessor(c, out);
        }
        break;
    default: /* ZKL__PROVING: the others do not wait */
        advance_proving(c, ev, out);
        break;
    }
}

void zkl__contender_advance(struct zkl__contender *c, const struct zkl__contender_event *ev,
                            struct zkl__contender_actions *out)
{
    if (c->state == ZKL__REMOVING && removed(c) && !may_yet_make(c)) {
        zkl__contender_finish(c, ev, out, ZKL_OK, "nothing of ours is left");
        return;
    }
    if (!ev->connected || c->retry_at > ev->now) {
        return;
    }
    if (zkl__contender_waits(c)) {
        advance_waiting(c, ev, out);
    } else if (c->state == ZKL__REMOVING || (c->state == ZKL__LOST && c->discard)) {
        advance_removal(c, ev, out);
    } else if (c->state == ZKL__HELD) {
        advance_swap(c, out);
        if ((c->config.revocable || c->guards) && !c->swap[0]) {
            watch_own_node(c, out);
        }
    }
}
