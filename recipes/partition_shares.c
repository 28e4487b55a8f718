/* partition_shares.c - pieces of work shared over members: a list of members that is watched, and a
 * lock for each piece.
 *
 * An agent reads the members and watches them. All that decides runs in callbacks, which run one at
 * a time: `reconcile` when the members or our membership changed, `settle` for the one piece whose
 * lock did. Both look at what is so and what is wanted, and do what is missing, so that it does not
 * matter what came first or was missed. What other threads look at is guarded by the mutex. */
#include "partition_inside.h"

#include "heap.h"
#include "name.h"
#include "share.h"

#include <stdio.h>
#include <string.h>

/* A member is there as soon as its node is: waits for nobody. */
static const struct zkl__rule member_rule = {"lock-", 0};

static void member_completed(zkl_lock *place, int code, const zkl_grant *grant,
                             const zkl_error *err, void *payload);

/* --- what is refused ------------------------------------------------------------------------- */

void zkl__partition_try_later(zkl_partition *partition)
{
    if (zkl__session_enter(partition->agent.session, NULL) == ZKL_OK) {
        if (!partition->retry.alarm.timer.set) {
            zkl__retry_later(partition->agent.session, &partition->retry);
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
    zkl__partition_try_later(partition);
}

static void on_taken(zkl_partition *partition, const zkl_lock *place, bool *said)
{
    if (zkl__session_enter(partition->agent.session, NULL) == ZKL_OK) {
        if (*said) {
            zkl__session_log(partition->agent.session, ZKL_LOG_INFO, "partition", place->path,
                             "not refused any more");
        }
        *said = false;
        partition->retry.pause = 0;
        zkl__session_leave(partition->agent.session);
    }
}

void zkl__partition_acquire(zkl_partition *partition, zkl_lock *place, zkl_acquired_fn done,
                            bool *said)
{
    zkl_error err;
    int rc = zkl_lock_acquire_async(place, ZKL_WAIT_FOREVER, done, NULL, &err);
    if (rc != ZKL_OK && rc != ZKL_ECLOSED && rc != ZKL_EFORKED) {
        on_refused(partition, place, said, &err);
    }
}

/* Notes the result of an acquire. False: the server refused it, and would refuse the next one, too.
 */
static bool note_result(zkl_partition *partition, const zkl_lock *place, bool *said, int code,
                        const zkl_error *err)
{
    if (code == ZKL_OK) {
        on_taken(partition, place, said);
    } else if (code != ZKL_ECANCELED && code != ZKL_ELOST) {
        on_refused(partition, place, said, err);
        return false;
    }
    return true;
}

/* --- the lease becomes short ----------------------------------------------------------------- */

static int64_t lease_until(const void *owner)
{
    const zkl_partition *partition = owner;
    return partition->running > 0
               ? zkl__core_lease_until(zkl__session_core(partition->agent.session))
               : INT64_MAX;
}

static void watch_lease(zkl_partition *partition)
{
    if (partition->options.margin_ms > 0 &&
        zkl__session_enter(partition->agent.session, NULL) == ZKL_OK) {
        partition->margin.ns = partition->options.margin_ms * ZKL__MS;
        zkl__margin_watch(&partition->margin);
        zkl__session_leave(partition->agent.session);
    }
}

/* --- the shares ------------------------------------------------------------------------------ */

/* Our index in the view; ZKL__NOBODY: we are not in it. */
static size_t find_us(const zkl_partition *partition, const char *node)
{
    const struct zkl__names *view = partition->view;
    for (size_t i = 0; view && i < view->count; i++) {
        if (strcmp(view->all[i], node) == 0) {
            return i;
        }
    }
    return ZKL__NOBODY;
}

/* node NULL: we are no member, and want nothing. */
static void want(zkl_partition *partition, const char *node)
{
    size_t us = node ? find_us(partition, node) : ZKL__NOBODY;
    const struct zkl__names *view = partition->view;
    if (us != ZKL__NOBODY) {
        const struct zkl__share share = {view->all, view->count, partition->names, partition->count,
                                         partition->options.cap};
        if (!zkl__share_out(partition->owners, &share,
                            zkl__session_heap(partition->agent.session))) {
            zkl__partition_try_later(partition);
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
    if (partition->life == ZKL__PARTITION_RUNNING && zkl__state_holds(now->state) &&
        strcmp(now->node, partition->node) != 0) {
        zkl__name_copy(partition->node, now->node);
        zkl__member_list_renew(&partition->list);
        zkl__agent_wake(&partition->agent, &partition->list.watcher);
    }
    bool running = partition->life == ZKL__PARTITION_RUNNING;
    if (partition->life == ZKL__PARTITION_STOPPING) {
        zkl__partition_live(partition, ZKL__PARTITION_UNWINDING);
    }
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
        zkl__partition_acquire(partition, place, member_completed, &partition->member->refused);
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
            zkl__piece_settle(partition->pieces[i]);
        }
    }
    for (size_t i = 0; i < partition->count; i++) {
        zkl__piece_settle(partition->pieces[i]);
    }
    watch_lease(partition);
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
    zkl__margin_stop(&partition->margin);
    zkl__callbacks_unpost(zkl__session_callbacks(session), &partition->agent.notice);
    zkl__session_leave(session);
    zkl_lock_free(&partition->member->place);
    for (size_t i = 0; i < partition->count; i++) {
        zkl_lock_free(&partition->pieces[i]->place);
    }
    zkl__agent_free(&partition->agent, false);
}

void zkl__partition_live(zkl_partition *partition, enum zkl__partition_life life)
{
    static const enum zkl__partition_life before[] = {
        [ZKL__PARTITION_STOPPING] = ZKL__PARTITION_RUNNING,
        [ZKL__PARTITION_UNWINDING] = ZKL__PARTITION_STOPPING,
        [ZKL__PARTITION_IDLE] = ZKL__PARTITION_UNWINDING,
    };
    ZKL__ENSURE(life == ZKL__PARTITION_RUNNING || before[life] == partition->life);
    partition->life = life;
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
    bool outermost = --partition->depth == 0, last = outermost && partition->orphan;
    if (outermost && partition->life == ZKL__PARTITION_UNWINDING && partition->busy == 0) {
        zkl__partition_live(partition, ZKL__PARTITION_IDLE);
        zkl__calls_poke(partition->agent.session, &partition->agent.object);
    }
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
    zkl__name_set_clear(&partition->index, heap);
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
    zkl__piece_settle(piece);
    watch_lease(partition);
    end(partition);
}

void zkl__piece_completed(zkl_lock *place, int code, const zkl_grant *grant, const zkl_error *err,
                          void *payload)
{
    struct zkl__piece *piece = (struct zkl__piece *)place;
    (void)payload, (void)grant;
    if (note_result(piece->partition, place, &piece->refused, code, err)) {
        zkl__piece_told(place, ZKL_STATE_HELD, NULL);
    }
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
    if (note_result(member->partition, place, &member->refused, code, err)) {
        zkl__member_told(place, ZKL_STATE_HELD, NULL);
    }
}

static void tell(struct zkl__agent *agent)
{
    zkl_partition *partition = (zkl_partition *)agent;
    begin(partition);
    reconcile(partition);
    end(partition);
}

/* --- the list of the members ----------------------------------------------------------------- */

/* Inside a step, as the next two. */
static void show(void *owner, struct zkl__names *members)
{
    zkl_partition *partition = owner;
    zkl__free(zkl__session_heap(partition->agent.session), partition->news);
    partition->news = members;
    partition->unread = false;
    zkl__agent_post(&partition->agent);
}

static void unlisted(void *owner, enum zkl__rc rc)
{
    zkl_partition *partition = owner;
    say(partition, partition->list.dir, &partition->unread, zkl__rc_code(rc),
        "its members cannot be listed");
}

static bool takes_part(void *owner)
{
    const zkl_partition *partition = owner;
    return partition->life == ZKL__PARTITION_RUNNING &&
           zkl__state_holds(zkl__lock_look(&partition->member->place).state);
}

static void look_again(void *owner)
{
    zkl__agent_post(&((zkl_partition *)owner)->agent);
}

bool zkl__partition_list(zkl_partition *partition, const char *members)
{
    partition->retry.alarm.ring = look_again;
    partition->retry.alarm.owner = partition;
    partition->margin = (struct zkl__margin){.session = partition->agent.session,
                                             .until = lease_until,
                                             .reached = look_again,
                                             .owner = partition};
    partition->list = (struct zkl__member_list){.dir = members,
                                                .counts = zkl__name_contends,
                                                .wanted = takes_part,
                                                .show = show,
                                                .refused = unlisted};
    return zkl__member_list_begin(&partition->list, zkl__session_core(partition->agent.session),
                                  partition);
}

static void stop(struct zkl__agent *agent)
{
    zkl_partition *partition = (zkl_partition *)agent;
    zkl__member_list_end(&partition->list);
    zkl__retry_stop(agent->session, &partition->retry);
}

/* The session is being closed: what is taken away is told. */
static bool give_up(struct zkl__object *object, int code)
{
    zkl_partition *partition = (zkl_partition *)object;
    if (code == ZKL_ECLOSED && partition->life == ZKL__PARTITION_RUNNING) {
        zkl__partition_live(partition, ZKL__PARTITION_STOPPING);
        zkl__agent_post(&partition->agent);
    }
    return zkl__agent_give_up(object, code);
}

const struct zkl__agent_ops zkl__partition_ops = {
    .object = {"partition", give_up, zkl__agent_describe},
    .tell = tell,
    .stop = stop,
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
