/* partition.c - pieces of work shared over members: a list of members that is watched, and a lock for each piece.
 *
 * An agent reads the members and watches them. All that decides runs in callbacks, which run one at a time: `reconcile` when the members
 * or our membership changed, `settle` for the one piece whose lock did. Both look at what is so and what is wanted, and do what
 * is missing, so that it does not matter what came first or was missed. What other threads look at is guarded by the mutex. */
#include "agent.h"
#include "place.h"

#include "error.h"
#include "heap.h"
#include "name.h"
#include "path.h"
#include "share.h"

#include <zklock/partition.h>

#include <string.h>

#define AGAIN_NS (2000 * ZKL__MS) /* what was refused is tried again */

/* A member is there as soon as its node is: waits for nobody. */
static const struct zkl__rule member_rule = {"lock-", 0};

struct piece {
    struct zkl__place place; /* first */
    zkl_partition *partition;
    const char *name; /* the end of its path */
    bool wanted;      /* by our share of the members we know */
    bool assigned;    /* told so; guarded */
    bool calling;     /* its user's function runs */
};

struct member {
    struct zkl__place place; /* first */
    zkl_partition *partition;
};

struct view {
    size_t count;
    const char *names[]; /* their text follows */
};

struct zkl_partition {
    struct zkl__agent agent; /* first */
    zkl_partition_options options;
    size_t count;
    struct piece **pieces;
    const char **names; /* of pieces */
    size_t *owners;     /* room for a result */
    struct member *member;
    struct view *view; /* what is acted upon */
    /* guarded: */
    struct view *news; /* NULL, or a newer one */
    bool running;
    bool stale;               /* the members are to be read */
    bool stirred;             /* since they were asked for */
    bool retry;               /* something was refused */
    char node[ZKL__NAME_MAX]; /* ours among the members, the last one */
    unsigned depth;           /* of callbacks, one inside the other */
    bool orphan;              /* freed from inside */
};

static bool holds(zkl_state state)
{
    return state == ZKL_STATE_HELD || state == ZKL_STATE_JEOPARDY;
}

static zkl_state state_of(const struct zkl__place *place)
{
    return zkl__place_standing(place).state;
}

static void nothing(void) {}

/* Looks again in a while. */
static void try_later(zkl_partition *partition)
{
    if (zkl__session_enter(partition->agent.session, false, NULL) == ZKL_OK) {
        partition->retry = true;
        if (!partition->agent.alarm.set) {
            zkl__agent_put_off(&partition->agent, AGAIN_NS);
        }
        zkl__session_leave(partition->agent.session);
    }
}

static void acquire(zkl_partition *partition, struct zkl__place *place, const struct zkl__rule *rule)
{
    int rc = zkl__place_acquire_async(place, rule, ZKL_WAIT_FOREVER, nothing, NULL, NULL);
    if (rc != ZKL_OK && rc != ZKL_ECLOSED && rc != ZKL_EFORKED) {
        try_later(partition);
    }
}

/* Was an acquire refused in a way that another one at once would be, too? */
static bool refused(int code)
{
    return code != ZKL_OK && code != ZKL_ECANCELED && code != ZKL_ELOST;
}

/* --- a piece ------------------------------------------------------------------------------------------------------- */

/* False: the user has freed it, and hears no more. */
static bool begin_call(struct piece *piece, bool assigned)
{
    zkl_partition *partition = piece->partition;
    zkl__session_enter(partition->agent.session, true, NULL);
    piece->assigned = assigned;
    bool listens = !partition->orphan;
    zkl__session_leave(partition->agent.session);
    piece->calling = listens;
    return listens;
}

static void assign(struct piece *piece, int64_t token)
{
    const zkl_partition_options *o = &piece->partition->options;
    if (begin_call(piece, true)) {
        o->assigned_fn(piece->partition, piece->name, token, o->payload);
        piece->calling = false;
    }
}

static void revoke(struct piece *piece, bool lost)
{
    const zkl_partition_options *o = &piece->partition->options;
    if (begin_call(piece, false)) {
        o->revoked_fn(piece->partition, piece->name, lost, o->payload);
        piece->calling = false;
    }
}

/* One thing that is missing. True: look again. */
static bool settle_once(struct piece *piece)
{
    struct zkl__standing now = zkl__place_standing(&piece->place);
    bool held = holds(now.state);
    if (piece->calling) {
        return false; /* whoever calls goes on afterwards */
    }
    if (piece->assigned) {
        bool ends = !held || !piece->wanted;
        if (ends) {
            revoke(piece, !held);
        }
        return ends;
    }
    if (now.state == ZKL_STATE_LOST || (held && !piece->wanted)) {
        zkl__place_release(&piece->place, NULL);
        return true;
    }
    if (held) {
        assign(piece, now.token);
        return true;
    }
    if (now.state == ZKL_STATE_WAITING && !piece->wanted) {
        zkl__place_cancel(&piece->place);
    } else if (now.state == ZKL_STATE_IDLE && piece->wanted && holds(state_of(&piece->partition->member->place))) {
        acquire(piece->partition, &piece->place, &zkl__rule_mutex);
    }
    return false;
}

static void settle(struct piece *piece)
{
    while (settle_once(piece)) {
    }
}

/* --- the shares ---------------------------------------------------------------------------------------------------- */

/* Our index in the view; ZKL__NOBODY: we are not in it. */
static size_t find_us(const zkl_partition *partition, const char *node)
{
    const struct view *view = partition->view;
    for (size_t i = 0; view && i < view->count; i++) {
        if (strcmp(view->names[i], node) == 0) {
            return i;
        }
    }
    return ZKL__NOBODY;
}

/* node NULL: we are no member, and want nothing. */
static void want(zkl_partition *partition, const char *node)
{
    size_t us = node ? find_us(partition, node) : ZKL__NOBODY;
    const struct view *view = partition->view;
    if (us != ZKL__NOBODY) {
        const struct zkl__share share = {view->names, view->count, partition->names, partition->count,
                                         partition->options.cap};
        if (!zkl__share_out(partition->owners, &share, zkl__session_heap(partition->agent.session))) {
            try_later(partition);
            return; /* as before */
        }
    }
    for (size_t i = 0; i < partition->count; i++) {
        partition->pieces[i]->wanted = us != ZKL__NOBODY && partition->owners[i] == us;
    }
}

/* What became of our membership, and of the others. Returns whether it runs. */
static bool look(zkl_partition *partition, struct zkl__standing *now)
{
    zkl_session *session = partition->agent.session;
    zkl__session_enter(session, true, NULL);
    *now = zkl__place_look(&partition->member->place);
    if (partition->news) {
        zkl__free(zkl__session_heap(session), partition->view);
        partition->view = partition->news;
        partition->news = NULL;
    }
    if (partition->running && holds(now->state) && strcmp(now->node, partition->node) != 0) {
        strcpy(partition->node, now->node);
        partition->stale = true;
        zkl__agent_wake(&partition->agent);
    }
    bool running = partition->running;
    zkl__session_leave(session);
    return running;
}

static void keep_membership(zkl_partition *partition, zkl_state state, bool running)
{
    struct zkl__place *place = &partition->member->place;
    if (state == ZKL_STATE_LOST || (holds(state) && !running)) {
        zkl__place_release(place, NULL);
    } else if (state == ZKL_STATE_WAITING && !running) {
        zkl__place_cancel(place);
    }
    if (running && (state == ZKL_STATE_IDLE || state == ZKL_STATE_LOST)) {
        acquire(partition, place, &member_rule);
    }
}

static void reconcile(zkl_partition *partition)
{
    struct zkl__standing now;
    bool running = look(partition, &now);
    keep_membership(partition, now.state, running);
    want(partition, running && holds(now.state) ? now.node : NULL);
    for (size_t i = 0; i < partition->count; i++) { /* first what goes: cap is never exceeded */
        if (!partition->pieces[i]->wanted) {
            settle(partition->pieces[i]);
        }
    }
    for (size_t i = 0; i < partition->count; i++) {
        settle(partition->pieces[i]);
    }
}

/* --- its end ------------------------------------------------------------------------------------------------------- */

/* Not inside. First what calls reconcile, then the pieces that it looks at. */
static void dismantle(zkl_partition *partition)
{
    zkl_session *session = partition->agent.session;
    if (zkl__session_enter(session, true, NULL) != ZKL_OK) {
        return; /* in a child of fork the parent's memory stays as it is */
    }
    partition->agent.freed = true;
    zkl__agent_stop(&partition->agent);
    zkl__callbacks_unpost(zkl__session_callbacks(session), &partition->agent.notice);
    zkl__session_leave(session);
    zkl__place_free(&partition->member->place);
    for (size_t i = 0; i < partition->count; i++) {
        zkl__place_free(&partition->pieces[i]->place);
    }
    zkl__agent_free(&partition->agent, false);
}

/* Around all that runs in callbacks. */
static void begin(zkl_partition *partition)
{
    zkl__session_enter(partition->agent.session, true, NULL);
    partition->depth++;
    zkl__session_leave(partition->agent.session);
}

static void end(zkl_partition *partition)
{
    zkl__session_enter(partition->agent.session, true, NULL);
    bool last = --partition->depth == 0 && partition->orphan;
    if (last) {
        partition->orphan = false; /* what is called from there does not come here again */
    }
    zkl__session_leave(partition->agent.session);
    if (last) {
        dismantle(partition);
    }
}

static void destroy(struct zkl__agent *agent)
{
    zkl_partition *partition = (zkl_partition *)agent;
    const zkl_heap *heap = zkl__session_heap(agent->session);
    zkl__free(heap, partition->pieces);
    zkl__free(heap, partition->names);
    zkl__free(heap, partition->owners);
    zkl__free(heap, partition->view);
    zkl__free(heap, partition->news);
}

/* --- what places and the agent tell -------------------------------------------------------------------------------- */

static void piece_told(struct zkl__place *place, zkl_state state)
{
    struct piece *piece = (struct piece *)place;
    zkl_partition *partition = piece->partition;
    (void)state;
    begin(partition);
    settle(piece);
    end(partition);
}

static void piece_completed(struct zkl__place *place, zkl__any_fn done, void *payload, int code, const zkl_grant *grant,
                            const zkl_error *err)
{
    (void)done, (void)payload, (void)grant, (void)err;
    if (refused(code)) {
        try_later(((struct piece *)place)->partition);
    } else {
        piece_told(place, ZKL_STATE_HELD);
    }
}

static void member_told(struct zkl__place *place, zkl_state state)
{
    zkl_partition *partition = ((struct member *)place)->partition;
    (void)state;
    begin(partition);
    reconcile(partition);
    end(partition);
}

static void member_completed(struct zkl__place *place, zkl__any_fn done, void *payload, int code,
                             const zkl_grant *grant, const zkl_error *err)
{
    (void)done, (void)payload, (void)grant, (void)err;
    if (refused(code)) {
        try_later(((struct member *)place)->partition);
    } else {
        member_told(place, ZKL_STATE_HELD);
    }
}

static void tell(struct zkl__agent *agent)
{
    zkl_partition *partition = (zkl_partition *)agent;
    begin(partition);
    reconcile(partition);
    end(partition);
}

static void act(struct zkl__agent *agent)
{
    zkl_partition *partition = (zkl_partition *)agent;
    const struct zkl__op list = {.kind = ZKL__OP_CHILDREN, .dir = partition->member->place.path, .watch = true};
    if (partition->retry) {
        partition->retry = false;
        zkl__agent_post(agent);
    }
    if (partition->running && partition->stale && holds(zkl__place_look(&partition->member->place).state)) {
        partition->stirred = false;
        zkl__agent_ask(agent, &list);
    }
}

static struct view *copy_view(const zkl_heap *heap, const struct zkl__reply *reply)
{
    size_t size = sizeof(struct view) + reply->child_count * sizeof(char *), text = size;
    for (size_t i = 0; i < reply->child_count; i++) {
        size += strlen(reply->children[i]) + 1;
    }
    struct view *view = zkl__zalloc(heap, size);
    for (size_t i = 0; view && i < reply->child_count; i++) {
        if (zkl__name_parse(reply->children[i]).kind != ZKL_KIND_FOREIGN) {
            char *name = (char *)view + text;
            strcpy(name, reply->children[i]);
            text += strlen(name) + 1;
            view->names[view->count++] = name;
        }
    }
    return view;
}

static void answer(struct zkl__agent *agent, const struct zkl__reply *reply)
{
    zkl_partition *partition = (zkl_partition *)agent;
    const zkl_heap *heap = zkl__session_heap(agent->session);
    struct view *view = reply->rc == ZKL__RC_OK ? copy_view(heap, reply) : NULL;
    if (!view) {
        zkl__agent_put_off(agent, AGAIN_NS);
        return;
    }
    zkl__free(heap, partition->news);
    partition->news = view;
    partition->stale = partition->stirred;
    zkl__agent_post(agent);
}

static void stir(struct zkl__agent *agent, bool session_over)
{
    zkl_partition *partition = (zkl_partition *)agent;
    (void)session_over; /* the places tell */
    partition->stale = partition->stirred = true;
}

/* The session is being closed: what is taken away is told. */
static bool give_up(struct zkl__object *object, int code)
{
    zkl_partition *partition = (zkl_partition *)object;
    if (code == ZKL_ECLOSED && partition->running) {
        partition->running = false;
        zkl__agent_post(&partition->agent);
    }
    return zkl__agent_give_up(object, code);
}

static const struct zkl__agent_ops agent_ops = {
    .object = {"partition", give_up, zkl__agent_describe, zkl__agent_session_changed},
    .act = act,
    .answer = answer,
    .stir = stir,
    .tell = tell,
    .destroy = destroy,
};

static const struct zkl__place_ops piece_ops = {
    .object = {.noun = "piece", .give_up = zkl__place_give_up, .describe = zkl__place_describe},
    .tell = piece_told,
    .complete = piece_completed,
};

static const struct zkl__place_ops member_ops = {
    .object = {.noun = "member", .give_up = zkl__place_give_up, .describe = zkl__place_describe},
    .tell = member_told,
    .complete = member_completed,
};

/* --- its beginning ------------------------------------------------------------------------------------------------- */

static int check_pieces(const char *const *pieces, size_t count, zkl_error *err)
{
    if (!pieces || count == 0 || count > ZKL_PARTITION_PIECES_MAX) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%zu pieces; from 1 to %d", pieces ? count : 0,
                         ZKL_PARTITION_PIECES_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        if (!pieces[i] || !*pieces[i] || strchr(pieces[i], '/')) {
            return zkl__fail(err, ZKL_EINVAL, 0, NULL, "piece %zu is not one component of a path", i);
        }
        for (size_t j = 0; j < i; j++) {
            if (strcmp(pieces[i], pieces[j]) == 0) {
                return zkl__fail(err, ZKL_EINVAL, 0, NULL, "pieces %zu and %zu are the same: %.80s", j, i, pieces[i]);
            }
        }
    }
    return ZKL_OK;
}

static int check(const char *const *pieces, size_t count, const zkl_partition_options *options, zkl_error *err)
{
    if (!options || options->size != sizeof *options) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "options: start from ZKL_PARTITION_OPTIONS_INIT");
    }
    if (!options->assigned_fn || !options->revoked_fn) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", options->assigned_fn ? "revoked_fn" : "assigned_fn");
    }
    return check_pieces(pieces, count, err);
}

/* A place at PATH/folder[/name]. */
static int make_place(struct zkl__place **out, size_t size, const struct zkl__place_ops *ops, zkl_session *session,
                      const char *path, const char *folder, const char *name, const zkl_partition_options *options,
                      zkl_error *err)
{
    char above[ZKL_PATH_MAX + 1], whole[ZKL_PATH_MAX + 1];
    const struct zkl__place_config config = {.metadata = options->metadata, .acl = options->acl, .listens = true};
    if (zkl__path_join(above, sizeof above, path, folder) == 0 ||
        zkl__path_join(whole, sizeof whole, above, name) == 0) {
        return zkl__fail(err, ZKL_EINVAL, 0, path, "too long with the names of its pieces");
    }
    return zkl__place_new(out, size, ops, session, whole, &config, err);
}

/* What has no partition yet. */
struct parts {
    struct piece **pieces;
    const char **names;
    size_t *owners;
    struct member *member;
    size_t count;
};

static int make_parts(struct parts *parts, zkl_session *session, const char *path, const char *const *pieces,
                      size_t count, const zkl_partition_options *options, zkl_error *err)
{
    const zkl_heap *heap = zkl__session_heap(session);
    parts->pieces = zkl__zalloc(heap, count * sizeof *parts->pieces);
    parts->names = zkl__zalloc(heap, count * sizeof *parts->names);
    parts->owners = zkl__zalloc(heap, count * sizeof *parts->owners);
    if (!parts->pieces || !parts->names || !parts->owners) {
        return zkl__fail(err, ZKL_ENOMEM, 0, path, "no memory");
    }
    struct zkl__place *place;
    int rc = make_place(&place, sizeof(struct member), &member_ops, session, path, "members", NULL, options, err);
    if (rc == ZKL_OK) {
        parts->member = (struct member *)place;
    }
    for (size_t i = 0; rc == ZKL_OK && i < count; i++) {
        rc = make_place(&place, sizeof(struct piece), &piece_ops, session, path, "pieces", pieces[i], options, err);
        if (rc == ZKL_OK) {
            parts->pieces[parts->count++] = (struct piece *)place;
            parts->names[i] = parts->pieces[i]->name = strrchr(place->path, '/') + 1;
        }
    }
    return rc;
}

static void free_parts(struct parts *parts, zkl_session *session)
{
    const zkl_heap *heap = zkl__session_heap(session);
    zkl__place_free((struct zkl__place *)parts->member);
    for (size_t i = 0; i < parts->count; i++) {
        zkl__place_free(&parts->pieces[i]->place);
    }
    zkl__free(heap, parts->pieces);
    zkl__free(heap, parts->names);
    zkl__free(heap, parts->owners);
}

/* Inside. */
static void assemble(zkl_partition *partition, const struct parts *parts, const zkl_partition_options *options)
{
    partition->options = *options;
    partition->options.metadata = NULL; /* the places have copies */
    partition->options.acl = NULL;
    partition->count = parts->count;
    partition->pieces = parts->pieces;
    partition->names = parts->names;
    partition->owners = parts->owners;
    partition->member = parts->member;
    partition->member->partition = partition;
    for (size_t i = 0; i < parts->count; i++) {
        partition->pieces[i]->partition = partition;
    }
}

int zkl_partition_new(zkl_partition **out, zkl_session *session, const char *path, const char *const *pieces,
                      size_t count, const zkl_partition_options *options, zkl_error *err)
{
    if (!out || !session) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", out ? "session" : "out");
    }
    int rc = check(pieces, count, options, err);
    rc = rc == ZKL_OK ? zkl__path_check(path, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    struct parts parts = {0};
    struct zkl__agent *agent;
    rc = make_parts(&parts, session, path, pieces, count, options, err);
    if (rc == ZKL_OK) {
        rc = zkl__agent_new(&agent, sizeof(zkl_partition), &agent_ops, session, path, true, err);
    }
    if (rc != ZKL_OK) {
        free_parts(&parts, session);
        return rc;
    }
    assemble((zkl_partition *)agent, &parts, options);
    *out = (zkl_partition *)agent;
    zkl__session_leave(session);
    return ZKL_OK;
}

/* --- calls --------------------------------------------------------------------------------------------------------- */

int zkl_partition_start(zkl_partition *partition, zkl_error *err)
{
    if (!partition) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "partition is NULL");
    }
    int rc = zkl__session_enter(partition->agent.session, false, err);
    if (rc == ZKL_OK) {
        if (!partition->running) {
            partition->running = true;
            partition->stale = true;
            zkl__agent_post(&partition->agent);
        }
        zkl__session_leave(partition->agent.session);
    }
    return rc;
}

int zkl_partition_stop(zkl_partition *partition, zkl_error *err)
{
    if (!partition) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "partition is NULL");
    }
    zkl_session *session = partition->agent.session;
    int rc = zkl__session_enter(session, true, err);
    if (rc == ZKL_OK) {
        partition->running = false;
        zkl__agent_unwatch(&partition->agent);
        zkl__agent_post(&partition->agent);
        zkl__callbacks_finish(zkl__session_callbacks(session), &partition->agent.notice);
        zkl__session_leave(session);
    }
    return rc;
}

void zkl_partition_free(zkl_partition *partition)
{
    if (!partition || zkl_partition_stop(partition, NULL) != ZKL_OK) {
        return;
    }
    zkl_session *session = partition->agent.session;
    zkl__session_enter(session, true, NULL);
    bool inside = partition->depth > 0 && zkl__callbacks_inside(zkl__session_callbacks(session), NULL);
    partition->orphan = inside; /* then the outermost callback does the rest */
    zkl__session_leave(session);
    if (!inside) {
        dismantle(partition);
    }
}

/* --- what is so now ------------------------------------------------------------------------------------------------ */

size_t zkl_partition_owned(const zkl_partition *partition, const char **names, size_t room)
{
    size_t owned = 0;
    if (!partition || zkl__session_enter(partition->agent.session, false, NULL) != ZKL_OK) {
        return 0;
    }
    for (size_t i = 0; i < partition->count; i++) {
        const struct piece *piece = partition->pieces[i];
        if (piece->assigned && holds(zkl__place_look(&piece->place).state)) {
            if (owned < room) {
                names[owned] = piece->name;
            }
            owned++;
        }
    }
    zkl__session_leave(partition->agent.session);
    return owned;
}

int64_t zkl_partition_token(const zkl_partition *partition, const char *name)
{
    int64_t token = 0;
    if (!partition || !name || zkl__session_enter(partition->agent.session, false, NULL) != ZKL_OK) {
        return 0;
    }
    for (size_t i = 0; i < partition->count; i++) {
        const struct piece *piece = partition->pieces[i];
        if (piece->assigned && strcmp(piece->name, name) == 0) {
            token = zkl__place_look(&piece->place).token;
        }
    }
    zkl__session_leave(partition->agent.session);
    return token;
}

bool zkl_partition_owns(const zkl_partition *partition, const char *piece)
{
    return zkl_partition_token(partition, piece) != 0;
}

const char *zkl_partition_path(const zkl_partition *partition)
{
    return partition ? partition->agent.path : "";
}
