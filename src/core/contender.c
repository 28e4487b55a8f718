#include "contender_step.h"
#include "queue_list.h"

#include <string.h>

#define MILLISECOND INT64_C(1000000)
#define PATIENCE_LEAST (20 * MILLISECOND)
#define PATIENCE_MOST (2000 * MILLISECOND)

const struct zkl__rule zkl__rule_mutex = {"lock-", ZKL__KIND_ANY};

/* --- states -------------------------------------------------------------------------------------------------------- */

#define S(state) (1u << (state))

static const struct {
    const char *name;
    uint32_t next; /* where it may go from here */
} states[ZKL__CONTENDER_STATES] = {
    [ZKL__NEW] = {"new", S(ZKL__CREATING) | S(ZKL__REMOVING) | S(ZKL__GONE)},
    [ZKL__CREATING] = {"creating", S(ZKL__NEW) | S(ZKL__MAKING) | S(ZKL__LISTING) | S(ZKL__WATCHING) | S(ZKL__PROVING) |
                                       S(ZKL__REMOVING)},
    [ZKL__MAKING] = {"making", S(ZKL__NEW) | S(ZKL__CREATING) | S(ZKL__REMOVING)},
    [ZKL__LISTING] = {"listing", S(ZKL__NEW) | S(ZKL__WATCHING) | S(ZKL__PROVING) | S(ZKL__REMOVING)},
    [ZKL__WATCHING] = {"watching", S(ZKL__NEW) | S(ZKL__LISTING) | S(ZKL__REMOVING)},
    [ZKL__PROVING] = {"proving", S(ZKL__NEW) | S(ZKL__LISTING) | S(ZKL__HELD) | S(ZKL__REMOVING)},
    [ZKL__HELD] = {"held", S(ZKL__LOST) | S(ZKL__REMOVING)},
    [ZKL__LOST] = {"lost", S(ZKL__REMOVING)},
    [ZKL__REMOVING] = {"removing", S(ZKL__GONE)},
    [ZKL__GONE] = {"gone", 0},
};

const char *zkl__contender_state_name(enum zkl__contender_state state)
{
    return (unsigned)state < ZKL__CONTENDER_STATES ? states[state].name : "?";
}

bool zkl__contender_waits(const struct zkl__contender *c)
{
    return c->started && c->state < ZKL__HELD;
}

static bool sound(const struct zkl__contender *c)
{
    bool node = c->node[0] != '\0';
    switch (c->state) {
    case ZKL__NEW:
        return !node && !c->unsure && c->czxid == 0;
    case ZKL__LISTING:
        return node;
    case ZKL__WATCHING:
        return node && !c->doubled;
    case ZKL__PROVING:
        return node && !c->doubled && !c->unsure;
    case ZKL__HELD:
        return node && !c->unsure && c->czxid != 0;
    case ZKL__GONE:
        return !node && !c->unsure;
    default:
        return true;
    }
}

static void move(struct zkl__contender *c, enum zkl__contender_state state, const char *why)
{
    ZKL__ENSURE(states[c->state].next & S(state));
    zkl__core_trace(c->core, c, "%s -> %s: %s", states[c->state].name, states[state].name, why);
    c->state = state;
    ZKL__ENSURE(sound(c));
}

/* --- what it asks for ---------------------------------------------------------------------------------------------- */

#define UNDER_WAY(role) (1u << (role))

static void ask(struct zkl__contender *c, struct zkl__contender_actions *out, enum zkl__role role, struct zkl__op op)
{
    ZKL__ENSURE(out->op_count < (int)(sizeof out->ops / sizeof *out->ops));
    ZKL__ENSURE(!(c->under_way & UNDER_WAY(role)));
    c->under_way |= UNDER_WAY(role);
    out->ops[out->op_count].role = role;
    out->ops[out->op_count].op = op;
    out->op_count++;
}

static void ask_create(struct zkl__contender *c, struct zkl__contender_actions *out)
{
    ask(c, out, ZKL__ROLE_CREATE,
        (struct zkl__op){.kind = ZKL__OP_CREATE,
                         .dir = c->config.path,
                         .name = c->prefix,
                         .data = c->config.metadata,
                         .size = strlen(c->config.metadata),
                         .mode = ZKL__EPHEMERAL_SEQUENTIAL,
                         .acl = c->config.acl});
}

static void ask_list(struct zkl__contender *c, struct zkl__contender_actions *out)
{
    ask(c, out, ZKL__ROLE_LIST, (struct zkl__op){.kind = ZKL__OP_CHILDREN, .dir = c->config.path});
}

static void ask_node(struct zkl__contender *c, struct zkl__contender_actions *out, enum zkl__role role,
                     enum zkl__op_kind kind, const char *name)
{
    ask(c, out, role, (struct zkl__op){.kind = kind, .dir = c->config.path, .name = name, .version = -1});
}

static void tell(struct zkl__contender_actions *out, int64_t now, enum zkl__outcome_kind kind, int code, int zk_code,
                 const char *why)
{
    ZKL__ENSURE(!out->told);
    out->told = true;
    out->outcome = (struct zkl__outcome){.kind = kind, .code = code, .zk_code = zk_code, .why = why, .now = now};
}

/* --- moves that several events make -------------------------------------------------------------------------------- */

static void advance(struct zkl__contender *c, const struct zkl__contender_event *ev,
                    struct zkl__contender_actions *out);

static void put_off(struct zkl__contender *c, int64_t now)
{
    c->patience = c->patience ? c->patience * 2 : PATIENCE_LEAST;
    if (c->patience > PATIENCE_MOST) {
        c->patience = PATIENCE_MOST;
    }
    c->retry_at = now + c->patience;
}

/* A uuid belongs to one attempt in one session: so a name that carries it is ours, without a look at its owner. */
static void new_attempt(struct zkl__contender *c)
{
    zkl__core_uuid(c->core, c->uuid);
    zkl__name_prefix(c->prefix, c->uuid, c->config.rule->tag);
    c->node[0] = c->twin[0] = '\0';
    c->czxid = 0;
    c->unsure = c->doubled = c->armed = c->proved = false;
}

static void stop_watching(struct zkl__contender *c, struct zkl__contender_actions *out, enum zkl__watch_change how)
{
    if (c->watch.on) {
        out->watch = how;
    }
    c->armed = false;
}

/* Never granted: told at once; what is left of it is removed in the background. */
static void fail(struct zkl__contender *c, const struct zkl__contender_event *ev, struct zkl__contender_actions *out,
                 int code, int zk_code, const char *why)
{
    tell(out, ev->now, ZKL__FAILED, code, zk_code, why);
    stop_watching(c, out, ZKL__WATCH_OFF);
    c->started = false;
    c->retry_at = 0;
    move(c, ZKL__REMOVING, why);
    advance(c, ev, out);
}

/* The place is gone through no wish of ours: once more at the tail, or an end. */
static void queue_again(struct zkl__contender *c, const struct zkl__contender_event *ev,
                        struct zkl__contender_actions *out, const char *why)
{
    new_attempt(c);
    if (c->config.fail_on_expiry) {
        fail(c, ev, out, ZKL_ELOST, 0, why);
        return;
    }
    stop_watching(c, out, ZKL__WATCH_OFF);
    move(c, ZKL__NEW, why);
    advance(c, ev, out);
}

static void lose(struct zkl__contender *c, const struct zkl__contender_event *ev, struct zkl__contender_actions *out,
                 const char *why)
{
    tell(out, ev->now, ZKL__LOSS, ZKL_ELOST, 0, why);
    move(c, ZKL__LOST, why);
}

static void finish(struct zkl__contender *c, const struct zkl__contender_event *ev, struct zkl__contender_actions *out,
                   int code, const char *why)
{
    move(c, ZKL__GONE, why);
    if (c->releasing) {
        tell(out, ev->now, ZKL__RELEASED, code, 0, why);
    }
}

static void grant(struct zkl__contender *c, const struct zkl__contender_event *ev, struct zkl__contender_actions *out)
{
    move(c, ZKL__HELD, "nobody before us, and a lease");
    c->hold_until = c->config.max_hold > 0 ? ev->now + c->config.max_hold : INT64_MAX;
    tell(out, ev->now, ZKL__GRANTED, ZKL_OK, 0, "granted");
    out->outcome.token = c->czxid;
}

/* What an error of the server means to one who waits. */
static void fail_by_reply(struct zkl__contender *c, const struct zkl__contender_event *ev,
                          struct zkl__contender_actions *out)
{
    const struct zkl__reply *reply = ev->reply;
    switch (reply->rc) {
    case ZKL__RC_NOTAPPLIED:
        put_off(c, ev->now);
        break;
    case ZKL__RC_UNSENT:
        if (ev->code == ZKL_ENOMEM || ev->code == ZKL_ELIMIT) {
            fail(c, ev, out, ev->code, 0,
                 ev->code == ZKL_ENOMEM ? "out of memory" : "too many watches in this session");
        } else {
            put_off(c, ev->now);
        }
        break;
    case ZKL__RC_UNKNOWN:
        break; /* the connection went: `connected` comes, or `expired` */
    case ZKL__RC_NODEEXISTS:
        fail(c, ev, out, ZKL_EEXHAUSTED, reply->zk_code,
             "the directory has given out all its 2147483647 sequence numbers: remove it when it is empty");
        break;
    case ZKL__RC_EPHEMERALPARENT:
        fail(c, ev, out, ZKL_ECONFLICT, reply->zk_code,
             "a part of the path is an ephemeral znode, which has no children");
        break;
    default:
        fail(c, ev, out, zkl__rc_code(reply->rc), reply->zk_code,
             reply->rc == ZKL__RC_NOAUTH ? "the access list of the path does not permit it" : "the server refused it");
    }
}

/* --- removing ------------------------------------------------------------------------------------------------------ */

/* True when nothing of ours is left, as far as this session's answers say. */
static bool removed(const struct zkl__contender *c)
{
    return c->node[0] == '\0' && !c->unsure;
}

static void advance_removal(struct zkl__contender *c, struct zkl__contender_actions *out)
{
    const uint32_t busy = UNDER_WAY(ZKL__ROLE_CREATE) | UNDER_WAY(ZKL__ROLE_LIST) | UNDER_WAY(ZKL__ROLE_DELETE) |
                          UNDER_WAY(ZKL__ROLE_BARRIER);
    if (c->under_way & UNDER_WAY(ZKL__ROLE_CREATE)) {
        return;
    }
    if (c->node[0]) {
        if (!(c->under_way & UNDER_WAY(ZKL__ROLE_DELETE))) {
            ask_node(c, out, ZKL__ROLE_DELETE, ZKL__OP_DELETE, c->node);
        }
    } else if (c->unsure && !(c->under_way & busy)) {
        /* A write is the one barrier that no server can skip: what was sent before it is in the list behind it, or nowhere. */
        c->barrier_passed = false;
        ask(c, out, ZKL__ROLE_BARRIER, (struct zkl__op){.kind = ZKL__OP_CHECK, .dir = c->config.path, .version = -1});
        ask_list(c, out);
    }
}

/* --- what is next -------------------------------------------------------------------------------------------------- */

static void advance_waiting(struct zkl__contender *c, const struct zkl__contender_event *ev,
                            struct zkl__contender_actions *out)
{
    /* Before the look at the blocker: who is older than we are can only be said when our own czxid is known. */
    if (c->node[0] && !c->czxid && !c->doubled && !c->unsure && !(c->under_way & UNDER_WAY(ZKL__ROLE_STAT))) {
        ask_node(c, out, ZKL__ROLE_STAT, ZKL__OP_EXISTS, c->node);
    }
    switch (c->state) {
    case ZKL__NEW:
        if (!(c->under_way & UNDER_WAY(ZKL__ROLE_LIST))) { /* one of the last attempt: its answer comes first */
            move(c, ZKL__CREATING, "asks for a place and the list together");
            ask_create(c, out);
            ask_list(c, out);
        }
        break;
    case ZKL__CREATING:
        if (!(c->under_way & (UNDER_WAY(ZKL__ROLE_CREATE) | UNDER_WAY(ZKL__ROLE_LIST)))) {
            c->doubled = c->unsure;
            ask_create(c, out);
            ask_list(c, out);
        }
        break;
    case ZKL__MAKING:
        if (!(c->under_way & UNDER_WAY(ZKL__ROLE_MAKE))) {
            ask(c, out, ZKL__ROLE_MAKE,
                (struct zkl__op){
                    .kind = ZKL__OP_CREATE, .dir = c->make_path, .mode = ZKL__CONTAINER, .acl = c->config.acl});
        }
        break;
    case ZKL__LISTING:
        if (!(c->under_way & UNDER_WAY(ZKL__ROLE_LIST))) {
            ask_list(c, out);
        }
        break;
    case ZKL__WATCHING:
        if (!c->armed && !(c->under_way & UNDER_WAY(ZKL__ROLE_WATCH))) {
            const char *name = c->watch_path + strlen(c->config.path) + 1;
            if (!c->try_only) {
                out->watch = ZKL__WATCH_ON;
            }
            ask(c, out, ZKL__ROLE_WATCH,
                (struct zkl__op){.kind = c->blind ? ZKL__OP_EXISTS : ZKL__OP_GET,
                                 .dir = c->config.path,
                                 .name = name,
                                 .watch = !c->try_only});
        }
        break;
    case ZKL__PROVING:
        if (ev->leased && c->czxid) {
            grant(c, ev, out);
        } else if (!ev->leased && !c->proved) {
            c->proved = true;
            ask_node(c, out, ZKL__ROLE_PROVE, ZKL__OP_CHECK, c->node);
        }
        break;
    default:
        break;
    }
}

static void advance(struct zkl__contender *c, const struct zkl__contender_event *ev, struct zkl__contender_actions *out)
{
    if (c->state == ZKL__REMOVING && removed(c) && !(c->under_way & UNDER_WAY(ZKL__ROLE_CREATE))) {
        finish(c, ev, out, ZKL_OK, "nothing of ours is left");
        return;
    }
    if (!ev->connected || c->retry_at > ev->now) {
        return;
    }
    if (zkl__contender_waits(c)) {
        advance_waiting(c, ev, out);
    } else if (c->state == ZKL__REMOVING || (c->state == ZKL__LOST && c->discard)) {
        advance_removal(c, out);
    }
}

/* --- the list ------------------------------------------------------------------------------------------------------ */

static bool remember_blocker(struct zkl__contender *c, const char *name)
{
    size_t need = strlen(c->config.path) + strlen(name) + 2;
    if (need > c->watch_room) {
        char *grown = zkl__resize(c->heap, c->watch_path, need);
        if (!grown) {
            return false;
        }
        c->watch_path = grown;
        c->watch_room = need;
    }
    strcpy(c->watch_path, c->config.path);
    strcat(c->watch_path, "/");
    strcat(c->watch_path, name);
    return true;
}

static void wait_for(struct zkl__contender *c, const struct zkl__contender_event *ev,
                     struct zkl__contender_actions *out, const char *blocker)
{
    if (!remember_blocker(c, blocker)) {
        fail(c, ev, out, ZKL_ENOMEM, 0, "out of memory");
        return;
    }
    c->armed = c->blind = false;
    c->watch.path = c->watch_path;
    move(c, ZKL__WATCHING, c->watch_path + strlen(c->config.path) + 1);
    advance(c, ev, out);
}

/* The create was sent twice: keep the lowest node, delete what else carries our uuid. True when one is left. */
static bool settle_double(struct zkl__contender *c, const struct zkl__contender_event *ev,
                          struct zkl__contender_actions *out)
{
    const char *lowest, *other;
    zkl__list_mine(c, ev->reply, &lowest, &other);
    if (!lowest) {
        queue_again(c, ev, out, "our node was removed by somebody");
        return false;
    }
    if (strcmp(lowest, c->node) != 0) {
        strcpy(c->node, lowest);
        c->czxid = 0;
    }
    if (!other) {
        c->unsure = c->doubled = false;
        return true;
    }
    if (c->state == ZKL__CREATING) {
        move(c, ZKL__LISTING, "the lost create was applied: its double is removed");
    }
    strcpy(c->twin, other);
    ask_node(c, out, ZKL__ROLE_DELETE, ZKL__OP_DELETE, c->twin);
    ask_list(c, out);
    return false;
}

static void decide_by_list(struct zkl__contender *c, const struct zkl__contender_event *ev,
                           struct zkl__contender_actions *out)
{
    c->patience = 0;
    if (c->doubled) {
        if (!settle_double(c, ev, out)) {
            return;
        }
    } else if (!zkl__list_has(ev->reply, c->node)) {
        queue_again(c, ev, out, "our node was removed by somebody");
        return;
    }
    const char *blocker = zkl__list_blocker(c, ev->reply);
    if (blocker) {
        wait_for(c, ev, out, blocker);
    } else {
        c->proved = false;
        move(c, ZKL__PROVING, "nobody is before us");
        advance(c, ev, out);
    }
}

static void on_list_while_removing(struct zkl__contender *c, const struct zkl__contender_event *ev,
                                   struct zkl__contender_actions *out)
{
    if (ev->reply->rc == ZKL__RC_NONODE && c->barrier_passed) {
        c->unsure = false;
    } else if (ev->reply->rc == ZKL__RC_OK && c->barrier_passed && c->unsure && !c->node[0]) {
        const char *lowest, *other;
        zkl__list_mine(c, ev->reply, &lowest, &other);
        if (lowest) {
            strcpy(c->node, lowest);
        } else {
            c->unsure = false;
        }
    } else if (ev->reply->rc != ZKL__RC_OK && ev->reply->rc != ZKL__RC_NONODE && ev->reply->rc != ZKL__RC_UNKNOWN) {
        put_off(c, ev->now);
    }
    c->barrier_passed = false;
    advance(c, ev, out);
}

static void on_list(struct zkl__contender *c, const struct zkl__contender_event *ev, struct zkl__contender_actions *out)
{
    if (c->state == ZKL__REMOVING || c->state == ZKL__LOST) {
        on_list_while_removing(c, ev, out);
    } else if ((c->state != ZKL__CREATING && c->state != ZKL__LISTING) || !c->node[0]) {
        advance(c, ev,
                out); /* of the last attempt, or the create before it was not applied: the next was waiting for it */
    } else if (ev->reply->rc == ZKL__RC_OK) {
        decide_by_list(c, ev, out);
    } else if (ev->reply->rc == ZKL__RC_NONODE) {
        queue_again(c, ev, out, "the directory was removed by somebody");
    } else {
        if (c->state == ZKL__CREATING) {
            move(c, ZKL__LISTING, "we have a place, but no list");
        }
        fail_by_reply(c, ev, out);
    }
}

/* --- other answers ------------------------------------------------------------------------------------------------- */

static void on_create(struct zkl__contender *c, const struct zkl__contender_event *ev,
                      struct zkl__contender_actions *out)
{
    const struct zkl__reply *reply = ev->reply;
    if (reply->rc == ZKL__RC_OK) {
        if (strlen(reply->name) >= ZKL__NAME_MAX) {
            c->unsure = true; /* cannot be: treated as a lost reply */
            put_off(c, ev->now);
            return;
        }
        strcpy(c->node, reply->name);
        c->czxid = reply->stat.czxid;
        c->patience = 0;
        zkl__core_trace(c->core, c, "our node is %s", c->node);
    } else if (reply->rc == ZKL__RC_UNKNOWN) {
        c->unsure = true;
        zkl__core_trace(c->core, c, "fate of the create unknown");
    } else if (reply->rc == ZKL__RC_NONODE) {
        c->unsure = c->doubled = false; /* no directory: no earlier copy in it either */
    }
    if (c->state != ZKL__CREATING) {
        advance(c, ev, out); /* not wanted any more */
    } else if (reply->rc == ZKL__RC_NONODE) {
        c->make_path = c->make_path ? c->make_path : zkl__copy(c->heap, c->config.path, strlen(c->config.path));
        if (!c->make_path) {
            fail(c, ev, out, ZKL_ENOMEM, 0, "out of memory");
            return;
        }
        strcpy(c->make_path, c->config.path);
        move(c, ZKL__MAKING, "no such directory");
        advance(c, ev, out);
    } else if (reply->rc != ZKL__RC_OK) {
        fail_by_reply(c, ev, out);
    } else if (!(c->under_way & UNDER_WAY(ZKL__ROLE_LIST))) {
        move(c, ZKL__LISTING, "we have a place, but no list");
        advance(c, ev, out);
    }
}

static void on_make(struct zkl__contender *c, const struct zkl__contender_event *ev, struct zkl__contender_actions *out)
{
    if (c->state != ZKL__MAKING) {
        return;
    }
    size_t made = strlen(c->make_path);
    if (ev->reply->rc == ZKL__RC_NONODE) {
        char *slash = strrchr(c->make_path, '/');
        if (slash == c->make_path) {
            fail(c, ev, out, ZKL_ENOENT, ev->reply->zk_code, "the chroot of the connect string does not exist");
            return;
        }
        *slash = '\0';
    } else if (ev->reply->rc == ZKL__RC_OK || ev->reply->rc == ZKL__RC_NODEEXISTS) {
        if (c->config.path[made] == '\0') {
            move(c, ZKL__CREATING, "the directory is there");
        } else {
            size_t next = made + 1 + strcspn(c->config.path + made + 1, "/");
            memcpy(c->make_path, c->config.path, next);
            c->make_path[next] = '\0';
        }
    } else {
        fail_by_reply(c, ev, out);
        return;
    }
    advance(c, ev, out);
}

static void on_blocker(struct zkl__contender *c, const struct zkl__contender_event *ev,
                       struct zkl__contender_actions *out)
{
    if (c->state != ZKL__WATCHING) {
        return;
    }
    const char *name = c->watch_path + strlen(c->config.path) + 1;
    if (ev->reply->rc == ZKL__RC_OK) {
        if (zkl__list_forged(c, name, &ev->reply->stat)) {
            if (!zkl__list_ignore(c, name)) {
                fail(c, ev, out, ZKL_ENOMEM, 0, "out of memory");
                return;
            }
            stop_watching(c, out, ZKL__WATCH_OFF);
            move(c, ZKL__LISTING, "what is before us is no contender");
            advance(c, ev, out);
        } else if (c->try_only) {
            fail(c, ev, out, ZKL_EBUSY, 0, "somebody is before us");
        } else {
            c->armed = true;
        }
    } else if (ev->reply->rc == ZKL__RC_NONODE) {
        /* exists leaves a watch behind on a missing node, get does not */
        stop_watching(c, out, c->blind ? ZKL__WATCH_OFF : ZKL__WATCH_FORGET);
        move(c, ZKL__LISTING, "who was before us is gone already");
        advance(c, ev, out);
    } else if (ev->reply->rc == ZKL__RC_NOAUTH && !c->blind) {
        c->blind = true;
        advance(c, ev, out);
    } else {
        fail_by_reply(c, ev, out);
    }
}

static void on_stat(struct zkl__contender *c, const struct zkl__contender_event *ev, struct zkl__contender_actions *out)
{
    if (!zkl__contender_waits(c) || c->czxid || !c->node[0]) {
        return;
    }
    if (ev->reply->rc == ZKL__RC_OK) {
        if (ev->reply->stat.ephemeral_owner != ev->session_id) {
            /* carries our uuid and is not ours: a forgery, and our own node is elsewhere, or gone */
            queue_again(c, ev, out, "the node with our uuid is a stranger's");
            return;
        }
        c->czxid = ev->reply->stat.czxid;
        advance(c, ev, out);
    } else if (ev->reply->rc == ZKL__RC_NONODE) {
        queue_again(c, ev, out, "our node was removed by somebody");
    } else {
        fail_by_reply(c, ev, out);
    }
}

static void on_check(struct zkl__contender *c, const struct zkl__contender_event *ev,
                     struct zkl__contender_actions *out)
{
    enum zkl__rc rc = ev->reply->rc;
    if (rc == ZKL__RC_NONODE && c->node[0]) {
        if (c->state == ZKL__HELD) {
            c->node[0] = '\0';
            lose(c, ev, out, "our node was removed by somebody");
        } else if (c->state == ZKL__PROVING) {
            queue_again(c, ev, out, "our node was removed by somebody");
        }
    } else if (c->state == ZKL__PROVING && ev->role == ZKL__ROLE_PROVE && rc != ZKL__RC_OK) {
        c->proved = false;
        fail_by_reply(c, ev, out);
    } else {
        advance(c, ev, out);
    }
}

static void on_delete(struct zkl__contender *c, const struct zkl__contender_event *ev,
                      struct zkl__contender_actions *out)
{
    enum zkl__rc rc = ev->reply->rc;
    if (c->twin[0]) { /* of a double; the list sent with it says what is left */
        if (zkl__rc_answered(rc) && rc != ZKL__RC_OK && rc != ZKL__RC_NONODE && rc != ZKL__RC_NOTAPPLIED) {
            zkl__list_ignore(c, c->twin); /* it cannot be ours: ours we may delete */
        }
        c->twin[0] = '\0';
    } else if (rc == ZKL__RC_OK || rc == ZKL__RC_NONODE) {
        c->node[0] = '\0';
        c->patience = 0;
    } else if (rc != ZKL__RC_UNKNOWN) {
        put_off(c, ev->now); /* never forgotten: until it is gone, or the session is */
    }
    advance(c, ev, out);
}

static void on_reply(struct zkl__contender *c, const struct zkl__contender_event *ev,
                     struct zkl__contender_actions *out)
{
    c->under_way &= ~UNDER_WAY(ev->role);
    switch (ev->role) {
    case ZKL__ROLE_CREATE:
        on_create(c, ev, out);
        break;
    case ZKL__ROLE_LIST:
        on_list(c, ev, out);
        break;
    case ZKL__ROLE_WATCH:
        on_blocker(c, ev, out);
        break;
    case ZKL__ROLE_STAT:
        on_stat(c, ev, out);
        break;
    case ZKL__ROLE_PROVE:
    case ZKL__ROLE_BEAT:
        on_check(c, ev, out);
        break;
    case ZKL__ROLE_DELETE:
        on_delete(c, ev, out);
        break;
    case ZKL__ROLE_BARRIER:
        c->barrier_passed = zkl__rc_answered(ev->reply->rc) && ev->reply->rc != ZKL__RC_NOTAPPLIED;
        if (!c->barrier_passed && ev->reply->rc != ZKL__RC_UNKNOWN) {
            put_off(c, ev->now);
        }
        break;
    case ZKL__ROLE_MAKE:
        on_make(c, ev, out);
        break;
    case ZKL__ROLE_NONE:
    case ZKL__ROLES:
        break;
    }
}

/* --- events -------------------------------------------------------------------------------------------------------- */

static void on_connected(struct zkl__contender *c, const struct zkl__contender_event *ev,
                         struct zkl__contender_actions *out)
{
    c->retry_at = 0;
    c->twin[0] = '\0';
    if (c->state == ZKL__WATCHING || c->state == ZKL__PROVING || (c->state == ZKL__CREATING && c->node[0])) {
        stop_watching(c, out, ZKL__WATCH_FORGET);
        move(c, ZKL__LISTING, "connected again: look again");
    }
    advance(c, ev, out);
}

static void on_expired(struct zkl__contender *c, const struct zkl__contender_event *ev,
                       struct zkl__contender_actions *out)
{
    c->under_way = 0;
    c->retry_at = 0;
    if (zkl__contender_waits(c)) {
        if (c->state == ZKL__NEW) {
            return;
        }
        queue_again(c, ev, out, "the session ended");
        return;
    }
    c->node[0] = c->twin[0] = '\0';
    c->unsure = c->doubled = false;
    if (c->state == ZKL__HELD) {
        lose(c, ev, out, "the session ended");
    } else if (c->state == ZKL__REMOVING) {
        finish(c, ev, out, ZKL_ELOST, "the session ended");
    }
}

static void on_time(struct zkl__contender *c, const struct zkl__contender_event *ev, struct zkl__contender_actions *out)
{
    if (c->retry_at && c->retry_at <= ev->now) {
        c->retry_at = 0;
    }
    if (zkl__contender_waits(c) && c->deadline <= ev->now) {
        fail(c, ev, out, ZKL_ETIMEOUT, 0,
             ev->connected ? "the time is up" : "the time is up, and no server is reached");
    } else if (c->state == ZKL__HELD && c->hold_until <= ev->now) {
        c->discard = true;
        lose(c, ev, out, "held for longer than max_hold_ms");
        advance(c, ev, out);
    } else {
        advance(c, ev, out);
    }
}

static void on_release(struct zkl__contender *c, const struct zkl__contender_event *ev,
                       struct zkl__contender_actions *out)
{
    ZKL__ENSURE(c->state == ZKL__HELD || c->state == ZKL__LOST);
    c->releasing = true;
    move(c, ZKL__REMOVING, "released");
    advance(c, ev, out);
}

static void on_start(struct zkl__contender *c, const struct zkl__contender_event *ev,
                     struct zkl__contender_actions *out)
{
    ZKL__ENSURE(c->state == ZKL__NEW && !c->started);
    c->started = true;
    c->deadline = ev->deadline;
    c->try_only = ev->try_only;
    new_attempt(c);
    advance(c, ev, out);
}

void zkl__contender_step(struct zkl__contender *c, const struct zkl__contender_event *ev,
                         struct zkl__contender_actions *out)
{
    out->op_count = 0;
    out->watch = ZKL__WATCH_KEEP;
    out->told = false;
    switch (ev->kind) {
    case ZKL__CE_START:
        on_start(c, ev, out);
        break;
    case ZKL__CE_REPLY:
        on_reply(c, ev, out);
        break;
    case ZKL__CE_WATCH:
        c->armed = false;
        if (c->state == ZKL__WATCHING) {
            move(c, ZKL__LISTING, "who was before us went or changed");
            advance(c, ev, out);
        }
        break;
    case ZKL__CE_CONNECTED:
        on_connected(c, ev, out);
        break;
    case ZKL__CE_EXPIRED:
        on_expired(c, ev, out);
        break;
    case ZKL__CE_LAPSED:
        if (c->state == ZKL__HELD) {
            lose(c, ev, out, "the lease ended");
        }
        break;
    case ZKL__CE_TIME:
        on_time(c, ev, out);
        break;
    case ZKL__CE_CANCEL:
        if (zkl__contender_waits(c)) {
            fail(c, ev, out, ev->code, 0,
                 ev->code == ZKL_ECLOSED ? "the session is closed"
                 : ev->code == ZKL_EAUTH ? "the servers refuse our credentials"
                                         : "cancelled");
        }
        break;
    case ZKL__CE_RELEASE:
        on_release(c, ev, out);
        break;
    }
}

int64_t zkl__contender_wake(const struct zkl__contender *c)
{
    int64_t wake = c->retry_at ? c->retry_at : INT64_MAX;
    if (zkl__contender_waits(c) && c->deadline < wake) {
        wake = c->deadline;
    } else if (c->state == ZKL__HELD && c->hold_until < wake) {
        wake = c->hold_until;
    }
    return wake;
}

void zkl__contender_free(struct zkl__contender *c)
{
    const zkl_heap *heap = c->heap;
    for (size_t i = 0; i < c->ignored_count; i++) {
        zkl__free(heap, c->ignored[i]);
    }
    zkl__free(heap, c->ignored);
    zkl__free(heap, c->watch_path);
    zkl__free(heap, c->make_path);
    zkl__free(heap, (void *)(uintptr_t)c->config.path);
    zkl__free(heap, (void *)(uintptr_t)c->config.metadata);
    zkl__free(heap, c);
}
