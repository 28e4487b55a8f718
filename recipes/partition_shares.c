/* partition_shares.c - pieces of work shared over members: a list of members that is watched, and a
 * lock for each piece.
 *
 * An agent reads the members and watches them. All that decides runs in callbacks, which run one at
 * a time: `reconcile` when the members or our membership changed, `settle` for the one piece whose
 * lock did. Both look at what is so and what is wanted, and do what is missing, so that it does not
 * matter what came first or was missed. What other threads look at is guarded by the mutex. */
#include "partition_inside.h"

#include "backoff.h"
#include "heap.h"
#include "name.h"
#include "share.h"

#include <stdio.h>
#include <string.h>

/* What was refused is tried again. */
#define PATIENCE_LEAST (100 * ZKL__MS)
#define PATIENCE_MOST (5000 * ZKL__MS)

/* A member is there as soon as its node is: waits for nobody. */
static const struct zkl__rule member_rule = {"lock-", 0};

static void piece_completed(zkl_lock *place, int code, const zkl_grant *grant, const zkl_error *err,
                            void *payload);
static void member_completed(zkl_lock *place, int code, const zkl_grant *grant,
                             const zkl_error *err, void *payload);

/* --- what is refused ------------------------------------------------------------------------- */

/* Inside. Looks again in a while, each time a longer one. */
static void put_off(zkl_partition *partition)
{
    partition->patience = zkl__backoff(partition->patience, PATIENCE_LEAST, PATIENCE_MOST);
    zkl__agent_put_off(&partition->agent, partition->patience);
}

static void try_later(zkl_partition *partition)
{
    if (zkl__session_enter(partition->agent.session, NULL) == ZKL_OK) {
        partition->retry = true;
        if (!partition->agent.alarm.set) {
            put_off(partition);
        }
        zkl__session_leave(partition->agent.session);
    }
}

/* Inside. Said once, until it is not so any more. */
static void say(const zkl_partition *partition, const char *path, bool *said, int code,
                const char *what)
{
    if (!*said) {
        char text[ZKL_ERROR_TEXT_MAX + 160];
        snprintf(text, sizeof text, "refused: %s%s; it is tried again", what,
                 code == ZKL_EAUTH
                     ? ". Let this session read, create and delete there, or give it credentials"
                     : "");
        zkl__session_log(partition->agent.session, ZKL_LOG_WARN, "partition", path, text);
        *said = true;
    }
}

static void on_refused(zkl_partition *partition, const zkl_lock *place, bool *said,
                       const zkl_error *err)
{
    if (zkl__session_enter(partition->agent.session, NULL) == ZKL_OK) {
        say(partition, place->path, said, err->code, err->text);
        zkl__session_leave(partition->agent.session);
    }
    try_later(partition);
}

static void on_taken(zkl_partition *partition, const zkl_lock *place, bool *said)
{
    if (zkl__session_enter(partition->agent.session, NULL) == ZKL_OK) {
        if (*said) {
            zkl__session_log(partition->agent.session, ZKL_LOG_INFO, "partition", place->path,
                             "not refused any more");
        }
        *said = false;
        partition->patience = 0;
        zkl__session_leave(partition->agent.session);
    }
}

static void acquire(zkl_partition *partition, zkl_lock *place, zkl_acquired_fn done, bool *said)
{
    zkl_error err;
    int rc = zkl_lock_acquire_async(place, ZKL_WAIT_FOREVER, done, NULL, &err);
    if (rc != ZKL_OK && rc != ZKL_ECLOSED && rc != ZKL_EFORKED) {
        on_refused(partition, place, said, &err);
    }
}

/* Was an acquire refused in a way that another one at once would be, too? */
static bool refused(int code)
{
    return code != ZKL_OK && code != ZKL_ECANCELED && code != ZKL_ELOST;
}

/* --- a piece --------------------------------------------------------------------------------- */

/* False: the user has freed it, and hears no more. */
static bool begin_call(struct zkl__piece *piece, bool assigned)
{
    zkl_partition *partition = piece->partition;
    zkl__session_enter_even_closed(partition->agent.session, NULL);
    piece->assigned = assigned;
    bool listens = !partition->orphan;
    zkl__session_leave(partition->agent.session);
    piece->calling = listens;
    return listens;
}

static void assign(struct zkl__piece *piece, int64_t token)
{
    const zkl_partition_options *o = &piece->partition->options;
    if (begin_call(piece, true)) {
        o->assigned_fn(piece->partition, piece->name, token, o->payload);
        piece->calling = false;
    }
}

static void revoke(struct zkl__piece *piece, bool lost)
{
    const zkl_partition_options *o = &piece->partition->options;
    if (begin_call(piece, false)) {
        o->revoked_fn(piece->partition, piece->name, lost, o->payload);
        piece->calling = false;
    }
}

/* One thing that is missing. True: look again. */
static bool settle_once(struct zkl__piece *piece)
{
    struct zkl__standing now = zkl__lock_standing(&piece->place);
    bool held = zkl__state_holds(now.state);
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
        zkl_lock_release(&piece->place, NULL);
        return true;
    }
    if (held) {
        assign(piece, now.token);
        return true;
    }
    if (now.state == ZKL_STATE_WAITING && !piece->wanted) {
        zkl_lock_cancel(&piece->place);
    } else if (now.state == ZKL_STATE_IDLE && piece->wanted &&
               zkl_lock_is_held(&piece->partition->member->place)) {
        acquire(piece->partition, &piece->place, piece_completed, &piece->refused);
    }
    return false;
}

static void settle(struct zkl__piece *piece)
{
    while (settle_once(piece)) {
    }
}

/* --- the shares ------------------------------------------------------------------------------ */

/* Our index in the view; ZKL__NOBODY: we are not in it. */
static size_t find_us(const zkl_partition *partition, const char *node)
{
    const struct zkl__members *view = partition->view;
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
    const struct zkl__members *view = partition->view;
    if (us != ZKL__NOBODY) {
        const struct zkl__share share = {view->names, view->count, partition->names,
                                         partition->count, partition->options.cap};
        if (!zkl__share_out(partition->owners, &share,
                            zkl__session_heap(partition->agent.session))) {
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
    zkl__session_enter_even_closed(session, NULL);
    *now = zkl__lock_look(&partition->member->place);
    if (partition->news) {
        zkl__free(zkl__session_heap(session), partition->view);
        partition->view = partition->news;
        partition->news = NULL;
    }
    if (partition->running && zkl__state_holds(now->state) &&
        strcmp(now->node, partition->node) != 0) {
        strcpy(partition->node, now->node);
        partition->reading = ZKL__TO_LIST;
        zkl__agent_wake(&partition->agent);
    }
    bool running = partition->running;
    zkl__session_leave(session);
    return running;
}

static void keep_membership(zkl_partition *partition, zkl_state state, bool running)
{
    zkl_lock *place = &partition->member->place;
    if (state == ZKL_STATE_LOST || (zkl__state_holds(state) && !running)) {
        zkl_lock_release(place, NULL);
    } else if (state == ZKL_STATE_WAITING && !running) {
        zkl_lock_cancel(place);
    }
    if (running && (state == ZKL_STATE_IDLE || state == ZKL_STATE_LOST)) {
        acquire(partition, place, member_completed, &partition->member->refused);
    }
}

static void reconcile(zkl_partition *partition)
{
    struct zkl__standing now;
    bool running = look(partition, &now);
    keep_membership(partition, now.state, running);
    want(partition, running && zkl__state_holds(now.state) ? now.node : NULL);
    for (size_t i = 0; i < partition->count; i++) { /* first what goes: cap is never exceeded */
        if (!partition->pieces[i]->wanted) {
            settle(partition->pieces[i]);
        }
    }
    for (size_t i = 0; i < partition->count; i++) {
        settle(partition->pieces[i]);
    }
}

/* --- its end --------------------------------------------------------------------------------- */

/* First what calls reconcile, then the pieces that it looks at. */
void zkl__partition_dismantle(zkl_partition *partition)
{
    zkl_session *session = partition->agent.session;
    if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
        return; /* in a child of fork the parent's memory stays as it is */
    }
    partition->agent.freed = true;
    zkl__agent_stop(&partition->agent);
    zkl__callbacks_unpost(zkl__session_callbacks(session), &partition->agent.notice);
    zkl__session_leave(session);
    zkl_lock_free(&partition->member->place);
    for (size_t i = 0; i < partition->count; i++) {
        zkl_lock_free(&partition->pieces[i]->place);
    }
    zkl__agent_free(&partition->agent, false);
}

/* Around all that runs in callbacks. */
static void begin(zkl_partition *partition)
{
    zkl__session_enter_even_closed(partition->agent.session, NULL);
    partition->depth++;
    zkl__session_leave(partition->agent.session);
}

static void end(zkl_partition *partition)
{
    zkl__session_enter_even_closed(partition->agent.session, NULL);
    bool last = --partition->depth == 0 && partition->orphan;
    if (last) {
        partition->orphan = false; /* what is called from there does not come here again */
    }
    zkl__session_leave(partition->agent.session);
    if (last) {
        zkl__partition_dismantle(partition);
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

/* --- what places and the agent tell ---------------------------------------------------------- */

void zkl__piece_told(zkl_lock *place, zkl_state state, void *payload)
{
    struct zkl__piece *piece = (struct zkl__piece *)place;
    zkl_partition *partition = piece->partition;
    (void)state, (void)payload;
    begin(partition);
    settle(piece);
    end(partition);
}

static void piece_completed(zkl_lock *place, int code, const zkl_grant *grant, const zkl_error *err,
                            void *payload)
{
    struct zkl__piece *piece = (struct zkl__piece *)place;
    (void)payload, (void)grant;
    if (refused(code)) {
        on_refused(piece->partition, place, &piece->refused, err);
        return;
    }
    if (code == ZKL_OK) {
        on_taken(piece->partition, place, &piece->refused);
    }
    zkl__piece_told(place, ZKL_STATE_HELD, NULL);
}

void zkl__member_told(zkl_lock *place, zkl_state state, void *payload)
{
    zkl_partition *partition = ((struct zkl__member *)place)->partition;
    (void)state, (void)payload;
    begin(partition);
    reconcile(partition);
    end(partition);
}

static void member_completed(zkl_lock *place, int code, const zkl_grant *grant,
                             const zkl_error *err, void *payload)
{
    struct zkl__member *member = (struct zkl__member *)place;
    (void)payload, (void)grant;
    if (refused(code)) {
        on_refused(member->partition, place, &member->refused, err);
        return;
    }
    if (code == ZKL_OK) {
        on_taken(member->partition, place, &member->refused);
    }
    zkl__member_told(place, ZKL_STATE_HELD, NULL);
}

static void tell(struct zkl__agent *agent)
{
    zkl_partition *partition = (zkl_partition *)agent;
    begin(partition);
    reconcile(partition);
    end(partition);
}

static bool is_member(const char *name)
{
    return zkl__name_parse(name).kind != ZKL_KIND_FOREIGN;
}

/* NULL: no memory. */
static struct zkl__members *view_of_living(const zkl_heap *heap,
                                           const struct zkl__children *children)
{
    size_t size = sizeof(struct zkl__members) + children->count * sizeof(char *), text = size;
    for (size_t i = 0; i < children->count; i++) {
        size += strlen(children->all[i].name) + 1;
    }
    struct zkl__members *view = zkl__zalloc(heap, size);
    for (size_t i = 0; view && i < children->count; i++) {
        if (children->all[i].verdict == ZKL__CHILD_LIVES) {
            char *name = (char *)view + text;
            strcpy(name, children->all[i].name);
            text += strlen(name) + 1;
            view->names[view->count++] = name;
        }
    }
    return view;
}

/* All members are judged. */
static void take_view(zkl_partition *partition)
{
    const zkl_heap *heap = zkl__session_heap(partition->agent.session);
    struct zkl__members *view = view_of_living(heap, partition->jury.children);
    if (!view) {
        put_off(partition);
        return;
    }
    zkl__free(heap, partition->news);
    partition->news = view;
    partition->reading = ZKL__READ;
    zkl__agent_post(&partition->agent);
}

static void act(struct zkl__agent *agent)
{
    zkl_partition *partition = (zkl_partition *)agent;
    const struct zkl__op list = {
        .kind = ZKL__OP_CHILDREN, .dir = partition->member->place.path, .watch = true};
    if (partition->retry) {
        partition->retry = false;
        zkl__agent_post(agent);
    }
    if (!partition->running || !zkl__state_holds(zkl__lock_look(&partition->member->place).state)) {
        return;
    }
    if (partition->reading == ZKL__TO_LIST) {
        zkl__agent_ask(agent, &list);
    } else if (partition->reading == ZKL__TO_JUDGE && !zkl__jury_sit(&partition->jury)) {
        take_view(partition);
    }
}

static void answer(struct zkl__agent *agent, const struct zkl__reply *reply)
{
    zkl_partition *partition = (zkl_partition *)agent;
    if (reply->rc == ZKL__RC_OK && zkl__jury_take(&partition->jury, reply, is_member)) {
        partition->unread = false;
        partition->reading = ZKL__TO_JUDGE;
        return;
    }
    if (reply->rc != ZKL__RC_OK && reply->rc != ZKL__RC_NONODE) {
        say(partition, partition->member->place.path, &partition->unread, zkl__rc_code(reply->rc),
            "its members cannot be listed");
    }
    put_off(partition);
}

static void stir(struct zkl__agent *agent, bool session_over)
{
    zkl_partition *partition = (zkl_partition *)agent;
    (void)session_over; /* the places tell */
    partition->reading = ZKL__TO_LIST;
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

const struct zkl__agent_ops zkl__partition_ops = {
    .object = {"partition", give_up, zkl__agent_describe, zkl__agent_session_changed},
    .act = act,
    .answer = answer,
    .stir = stir,
    .tell = tell,
    .destroy = destroy,
};

const struct zkl__recipe zkl__piece_recipe = {
    .object = {.noun = "piece", .give_up = zkl__lock_give_up, .describe = zkl__lock_describe},
    .size = sizeof(struct zkl__piece),
    .rule = &zkl__rule_mutex,
    .internal = true,
};

const struct zkl__recipe zkl__member_recipe = {
    .object = {.noun = "member", .give_up = zkl__lock_give_up, .describe = zkl__lock_describe},
    .size = sizeof(struct zkl__member),
    .rule = &member_rule,
    .internal = true,
};
