/* contender.c - a contender: its states and moves, the mark of its release, its predecessor and
 * znodes that are no contenders, its own znode from the create to the delete, its grant, the lock
 * that lingers, what each state requests, and what each event and each reply means. */
#include "core_internal.h"

#include <stdio.h>
#include <string.h>

#define NO_LIST "we have a place, but no list"
#define EXHAUSTED \
    "the directory has given out all its 2147483647 sequence numbers: remove it when it is empty"

const struct zkl__rule zkl__rule_mutex = {"lock-", ZKL__KIND_ANY};

/* A line for the trace or, by its level, for an operator. */
#define say(c, level, ...) \
    zkl__core_say((c)->core, level, (c)->config.path, (c)->number, __VA_ARGS__)

/* --- states ---------------------------------------------------------------------------------- */

#define S(state) (1u << (state))
/* zkl__contender_keeps, zkl__contender_is_first */
#define KEEPS (S(ZKL__HELD) | S(ZKL__LINGERING))
#define FIRST (KEEPS | S(ZKL__PROVING))

static const struct {
    const char *name;
    uint32_t next; /* where it may go from here */
} states[] = {
    [ZKL__NEW] = {"new", S(ZKL__CREATING) | S(ZKL__REMOVING) | S(ZKL__ENDED)},
    [ZKL__CREATING] = {"creating", S(ZKL__NEW) | S(ZKL__MAKING) | S(ZKL__LISTING) |
                                       S(ZKL__WATCHING) | S(ZKL__PROVING) | S(ZKL__REMOVING)},
    [ZKL__MAKING] = {"making", S(ZKL__NEW) | S(ZKL__CREATING) | S(ZKL__REMOVING)},
    [ZKL__LISTING] = {"listing",
                      S(ZKL__NEW) | S(ZKL__WATCHING) | S(ZKL__PROVING) | S(ZKL__REMOVING)},
    [ZKL__WATCHING] = {"watching", S(ZKL__NEW) | S(ZKL__LISTING) | S(ZKL__WATCHING) |
                                       S(ZKL__PROVING) | S(ZKL__REMOVING)},
    [ZKL__PROVING] = {"proving", S(ZKL__NEW) | S(ZKL__LISTING) | S(ZKL__HELD) | S(ZKL__REMOVING)},
    [ZKL__HELD] = {"held", S(ZKL__LOST) | S(ZKL__LINGERING) | S(ZKL__REMOVING)},
    [ZKL__LOST] = {"lost", S(ZKL__REMOVING)},
    [ZKL__LINGERING] = {"lingering", S(ZKL__HELD) | S(ZKL__REMOVING) | S(ZKL__ENDED)},
    [ZKL__REMOVING] = {"removing", S(ZKL__ENDED)},
    [ZKL__ENDED] = {"gone", 0},
};

const char *zkl__contender_state_name(enum zkl__contender_state state)
{
    return states[state].name;
}

bool zkl__contender_waits(const struct zkl__contender *c)
{
    return c->started && c->state < ZKL__HELD;
}

/* Ends the inspection: no further batch of it is requested. */
static void inspection_drop(struct zkl__contender *c)
{
    zkl__free(c->heap, c->suspicion.inspection);
    c->suspicion.inspection = NULL;
    if (c->suspicion.state == ZKL__SUSPICION_INSPECTED) {
        c->suspicion.state = ZKL__SUSPICION_NONE;
    }
}

/* --- those of a lock that lingers --------------------------------------------------------------
 */

static const struct {
    const char *name;
    uint32_t next;
} linger_states[] = {
    [ZKL__LINGER_OFF] = {"bare",
                         S(ZKL__LINGER_GATHERING) | S(ZKL__LINGER_ARMED) | S(ZKL__LINGER_YIELDING)},
    [ZKL__LINGER_GATHERING] = {"gathering",
                               S(ZKL__LINGER_OFF) | S(ZKL__LINGER_ARMED) | S(ZKL__LINGER_YIELDING)},
    [ZKL__LINGER_ARMED] = {"armed", S(ZKL__LINGER_OFF) | S(ZKL__LINGER_YIELDING)},
    [ZKL__LINGER_YIELDING] = {"yielding", S(ZKL__LINGER_OFF)},
};

static bool is_keeper(const struct zkl__contender *c)
{
    return c->linger.state == ZKL__LINGER_GATHERING || c->linger.state == ZKL__LINGER_ARMED;
}

static void take_out_of_line(struct zkl__contender *c)
{
    c->linger.in_line = false;
    zkl__list_remove(&c->peer.queue->line, &c->linger.link);
}

static void move_linger(struct zkl__contender *c, enum zkl__linger_state state, const char *why)
{
    ZKL__ENSURE(linger_states[c->linger.state].next & S(state));
    say(c, ZKL_LOG_DEBUG, "linger: %s -> %s: %s", linger_states[c->linger.state].name,
        linger_states[state].name, why);
    c->linger.state = state;
    if (is_keeper(c)) {
        c->peer.queue->keeper = c;
    } else if (c->peer.queue->keeper == c) {
        c->peer.queue->keeper = NULL;
        /* Its line queues on the servers, in the order of the line: mail is read in the order in
         * which it is posted. */
        ZKL__EACH_LEAVING (struct zkl__contender, next, &c->peer.queue->line, linger.link) {
            take_out_of_line(next);
            zkl__contender_post(next, ZKL__EV_LOOK);
        }
    }
}

/* Its znode is in the queue, or its create was sent, and it still waits or holds. */
static bool is_queued(const struct zkl__contender *c)
{
    return c->state != ZKL__NEW && c->state != ZKL__REMOVING && c->state != ZKL__ENDED;
}

/* --- moves ----------------------------------------------------------------------------------- */

static void contender_move(struct zkl__contender *c, enum zkl__contender_state state,
                           const char *why)
{
    struct zkl__core *core = c->core;
    struct zkl__peer_queue *q = c->peer.queue;
    enum zkl__contender_state before = c->state;
    const uint32_t now = S(state), was = S(before);
    ZKL__ENSURE(states[before].next & now);
    say(c, ZKL_LOG_DEBUG, "%s -> %s: %s", states[before].name, states[state].name, why);
    c->state = state;
    zkl__stats_move(c, before);
    if (state != ZKL__WATCHING) {
        inspection_drop(c);
    }
    /* What it is to a lock that lingers. */
    if (c->linger.in_line && state != ZKL__NEW) {
        take_out_of_line(c);
    }
    if (c->linger.state != ZKL__LINGER_OFF && !zkl__contender_is_first(c)) {
        move_linger(c, ZKL__LINGER_OFF, states[state].name);
    }
    if (before == ZKL__NEW && is_queued(c) && q->keeper) {
        zkl__contender_post(q->keeper, ZKL__EV_YIELD);
    }
    if (q->keeper && q->keeper != c && q->keeper->state == ZKL__LINGERING &&
        (state == ZKL__WATCHING || !is_queued(c))) { /* what it waits for may be so now */
        zkl__contender_post(q->keeper, ZKL__EV_TIME);
    }
    /* What it is to its session. */
    if (now & FIRST && !(was & FIRST)) {
        if (!core->holders.first) {
            core->beat_at = core->now + zkl__lease_heartbeat(core->lease.timeout);
        }
        zkl__list_append(&core->holders, &c->holding);
    } else if (was & FIRST && !(now & FIRST)) {
        zkl__list_remove(&core->holders, &c->holding);
    }
    if (state == ZKL__PROVING) { /* no conflicting contender precedes it: what else does it need? */
        c->grant.proved = false;
        zkl__list_append(&core->provers, &c->proving);
    } else if (before == ZKL__PROVING) {
        zkl__list_remove(&core->provers, &c->proving);
    }
    core->held += (now & KEEPS ? 1u : 0u) - (was & KEEPS ? 1u : 0u);
    /* What each state says about our node. */
    const uint32_t without = S(ZKL__NEW) | S(ZKL__ENDED);
    ZKL__ENSURE(!(
        now & (zkl__node_known(&c->node) ? without : FIRST | S(ZKL__LISTING) | S(ZKL__WATCHING))));
    ZKL__ENSURE(!zkl__node_unsure(&c->node) || !(now & (without | FIRST)));
    ZKL__ENSURE(state != ZKL__WATCHING || c->node.fate < ZKL__FATE_TWICE);
    ZKL__ENSURE(!(now & (c->node.czxid ? S(ZKL__NEW) : KEEPS)));
}

/* --- outcomes -------------------------------------------------------------------------------- */

/* The one outcome of this step. */
static void report(struct zkl__contender *c, enum zkl__outcome_kind kind, int code, const char *why)
{
    ZKL__ENSURE(!c->out->why);
    *c->out = (struct zkl__outcome){
        .kind = kind, .code = code, .why = why, .path = c->config.path, .now = c->core->now};
}

/* Schedules a retry with exponential backoff, 20 ms to 2 s. */
static void contender_retry_later(struct zkl__contender *c)
{
    c->retry.pause = zkl__backoff(c->retry.pause, ZKL__PAUSE_LEAST / 10, ZKL__PAUSE_MOST);
    c->retry.at = c->core->now + c->retry.pause;
}

/* --- what it sends in a step ------------------------------------------------------------------ */

static void contender_send(struct zkl__contender *c, enum zkl__role role, struct zkl__op op)
{
    const struct zkl__reply refusal = {.rc = ZKL__RC_UNSENT,
                                       .unsent = op.watch ? c->watch_code : ZKL_OK};
    ZKL__ENSURE(!zkl__under_way(c, role));
    c->under_way |= UNDER_WAY(role);
    if (refusal.unsent != ZKL_OK) {
        zkl__contender_post_reply(c, role, &refusal);
    } else if (role == ZKL__ROLE_LIST && !c->multi) {
        zkl__peers_want_list(c);
    } else if (!(c->multi && zkl__multi_holds_back(c, role))) {
        c->listed_at = role == ZKL__ROLE_LIST ? c->core->now : c->listed_at;
        zkl__core_send(c->core, &c->machine, role, &op);
    }
}

/* Notes events of the path, before the request is sent that sets the watch. */
static void contender_watch(struct zkl__contender *c, enum zkl__watched watched)
{
    /* Who does not watch its own node lists instead, and without a watch on the queue no lock
     * lingers: these leave the room to the watches that nobody can wait without. */
    bool half = watched == ZKL__WATCHED_OWN || watched == ZKL__WATCHED_LINGER;
    int code = zkl__watch_add(c->core, &c->watches[watched], half);
    if (watched != ZKL__WATCHED_LINGER) { /* that one nobody misses */
        c->watch_code = code;
    }
}

/* Whether the next list is to watch the queue, for a lock that may linger. */
static bool linger_list_watches(struct zkl__contender *c)
{
    bool watch = c->config.linger > 0 &&
                 (zkl__contender_waits(c) || c->linger.state == ZKL__LINGER_GATHERING);
    if (watch) {
        contender_watch(c, ZKL__WATCHED_LINGER);
    }
    return watch;
}

/* The watch is set by the request that shows the predecessor still there: whatever happens to that
 * later fires it. */
static void contender_send_list(struct zkl__contender *c)
{
    struct zkl__op list = {.kind = ZKL__OP_CHILDREN, .dir = c->config.path};
    list.watch =
        c->predecessor.access != ZKL__ACCESS_GET && !c->try_only && zkl__contender_waits(c);
    if (list.watch) {
        contender_watch(c, ZKL__WATCHED_QUEUE);
    }
    c->predecessor.changed = false;
    list.watch = linger_list_watches(c) || list.watch;
    contender_send(c, ZKL__ROLE_LIST, list);
}

static void contender_send_of_node(struct zkl__contender *c, enum zkl__role role,
                                   enum zkl__op_kind kind, const char *name)
{
    contender_send(
        c, role,
        (struct zkl__op){.kind = kind, .dir = c->config.path, .name = name, .version = -1});
}

/* Stops watching it. forget: the server may keep the watches, they will be set again. */
static void predecessor_unwatch(struct zkl__contender *c, bool forget)
{
    struct zkl__watch *node = &c->watches[ZKL__WATCHED_PREDECESSOR];
    struct zkl__watch *queue = &c->watches[ZKL__WATCHED_QUEUE];
    if (forget) {
        zkl__watch_forget(c->core, node);
        zkl__watch_forget(c->core, queue);
    }
    zkl__watch_remove(c->core, node);
    zkl__watch_remove(c->core, queue);
    c->predecessor.armed = false;
}

/* --- moves that several events make ---------------------------------------------------------- */

/* The session ended, which deletes all its znodes. */
static void node_ended(struct zkl__node *node)
{
    node->name[0] = '\0';
    node->removes_duplicate = false;
    node->fate = ZKL__FATE_KNOWN;
}

/* No znode's, nor "any": what is to be written over it is refused. */
#define VERSION_UNREAD (-2)

/* It begins anew, with a new uuid. A uuid belongs to one attempt in one session, so a name that
 * carries it is ours, and nobody has to read its owner. */
static void new_attempt(struct zkl__contender *c)
{
    char uuid[ZKL__UUID_LENGTH + 1];
    uint64_t seed[2], words[2]; /* nobody else has the uuid that comes of these */
    memcpy(seed, c->core->config.seed, sizeof seed);
    c->core->uuids++;
    words[0] = zkl__next_mix(seed[0] ^ zkl__next_mix(c->core->uuids));
    words[1] = zkl__next_mix(seed[1] + c->core->uuids);
    zkl__uuid_format(uuid, (const uint8_t *)words);
    if (!c->config.revocable) {
        zkl__uuid_refuse_requests(uuid);
    }
    zkl__name_prefix(c->node.prefix, uuid, c->config.rule->tag);
    node_ended(&c->node);
    c->node.czxid = 0;
    c->predecessor.access = ZKL__ACCESS_GET;
    c->mark = (struct zkl__release_mark){
        .version = VERSION_UNREAD, .before = -1, .released = -1, .next = -1};
    c->conflict = (struct zkl__path_conflict){.stage = ZKL__CONFLICT_LISTS};
}

/* The contender leaves: decides whether the delete of its znode writes the mark. */
static void leave(struct zkl__contender *c);

/* It waits no more: the znodes that it has left are deleted in the background. */
static void contender_withdraw(struct zkl__contender *c, const char *why)
{
    predecessor_unwatch(c, false);
    leave(c);
    contender_move(c, ZKL__REMOVING, why);
}

/* It is never granted. Its owner is notified in this step, and its znodes are deleted in the
 * background. */
static void contender_fail(struct zkl__contender *c, int code, const char *why)
{
    report(c, ZKL__FAILED, code, why);
    contender_withdraw(c, why);
}

/* Our delete uses it up, or nothing has set it. */
static void own_watch_forget(struct zkl__contender *c)
{
    zkl__watch_forget(c->core, &c->watches[ZKL__WATCHED_OWN]);
}

static void grant_lose(struct zkl__contender *c, const char *why)
{
    report(c, ZKL__LOSS, ZKL_ELOST, why);
    own_watch_forget(c);
    contender_move(c, ZKL__LOST, why);
}

/* Nothing of ours is left. */
static void contender_finish(struct zkl__contender *c, int code, const char *why)
{
    contender_move(c, ZKL__ENDED, why);
    if (c->grant.end >= ZKL__GRANT_RELEASED) {
        report(c, ZKL__RELEASED, code, why);
    }
}

/* Our znode was deleted by somebody else, or with the session. The contender queues again at the
 * tail, or fails if config.fail_on_expiry says so. */
static void contender_queue_again(struct zkl__contender *c, const char *why)
{
    new_attempt(c);
    if (c->config.fail_on_expiry) {
        contender_fail(c, ZKL_ELOST, why);
        return;
    }
    predecessor_unwatch(c, false);
    contender_move(c, ZKL__NEW, why);
}

/* Somebody else deleted our znode. A holder loses the lock. A waiter queues again at the tail, or
 * fails if config.fail_on_expiry says so. */
static void node_removed(struct zkl__contender *c)
{
    const char *why = "our node was removed by somebody";
    if (!zkl__contender_keeps(c)) {
        contender_queue_again(c, why);
        return;
    }
    c->node.name[0] = '\0';
    if (c->state == ZKL__HELD) {
        grant_lose(c, why);
    } else {
        contender_finish(c, ZKL_OK, why);
    }
}

/* A contender that waits gets an error as the reply: it tries again, waits for the connection, or
 * fails. */
static void contender_fail_by_reply(struct zkl__contender *c)
{
    const struct zkl__reply *reply = c->event->reply;
    int code = reply->unsent ? reply->unsent : zkl__rc_code(reply->rc);
    const char *why = zkl__rc_why(reply->rc);
    if (reply->rc == ZKL__RC_UNKNOWN) {
        return; /* the connection went: `connected` comes, or `expired` */
    }
    if (reply->rc == ZKL__RC_NOTAPPLIED || reply->unsent == ZKL_ECONNECT) {
        contender_retry_later(c);
        return;
    }
    if (reply->rc == ZKL__RC_NODEEXISTS) {
        code = ZKL_EEXHAUSTED;
        why = EXHAUSTED;
    } else if (reply->unsent) {
        why = code == ZKL_EINVAL   ? "the path is too long under the session's chroot"
              : code == ZKL_ENOMEM ? "out of memory"
              : c->event->role == ZKL__ROLE_CREATE /* which sets no watch */
                  ? "the request is larger than the 1 MB that a server takes"
                  : "too many watches in this session";
    }
    contender_fail(c, code, why);
    c->out->zk_code = reply->zk_code;
}

/* === the mark of a release ==================================================================== */

/* Config.mark: whether the last holder released, for the options recover and
 * delay_after_crash_ms.
 *
 * Writing. A holder that releases deletes its znode and, in the same transaction, writes the name
 * of this znode into the data of the directory. Nothing is written at a grant. So the mark is there
 * exactly when the release was done. If the reply is lost, the transaction is sent again, and finds
 * the znode gone or does both. Every other end leaves no mark: a crash, also between two grants of
 * one session, an expired session, a removal by hand, a release after a loss, and a hold that was
 * longer than config.max_hold. A duplicate of the znode is deleted without a mark, because a later
 * holder may have ended since. Two contenders differ:
 *  - A contender that gives up while it is first writes the mark, too, if it knows that the last
 *    holder released. Otherwise no grant has reported the crash yet, and it writes none.
 *  - A holder that hands over inside its session writes none. Its follower holds while the holder's
 *    znode still stands, and somebody may remove the follower's by hand before that one is deleted.
 *    The mark of the follower's own release counts for both. A holder whose delete is under
 *    way with the mark hands over to nobody.
 *
 * Reading. A grant reports the unclean end of the last holder, or rests on its mark. So each mark
 * covers all holders before it. A contender concludes that the last holder released if one of these
 * is true:
 *  - The mark names the contender that was right before ours: a list has shown it there, and its
 *    znode was read after that. So nobody between the two was in the queue then or is later, and
 *    nobody between them held before, for that one stood.
 *  - The mark names the number right before ours, if no list has shown us anybody.
 *  - Our number is 0: nobody was before us in this directory.
 *  - The directory was read before our create: it had no children, and the last change of them was
 *    in the transaction that wrote the data last (pzxid, mzxid), which was a release or the create
 *    of the directory; and our number is the next one that the counter gave then (the number of
 *    creates of children: PrepRequestProcessor, pRequest2TxnCreate). So nobody queued in between.
 *    This one is for contenders that came and left while another one held.
 *  - The predecessor hands over in this session, and config.mark is set for it as well.
 *
 * Otherwise the grant is unclean, after config.delay. A contender concludes this only from a read
 * that was sent after the list that shows it first. An earlier one may be older than the release.
 * The delay begins with that read.
 *
 * Data that are neither empty nor a mark are somebody else's: the record of once, a semaphore's
 * limit. The acquire is refused by whichever read shows them. Each create has a read before it, so
 * no grant comes without one. No release writes over what came after the last read: the mark is
 * written to the version that this read has shown ("version" of a znode's stat, which each setData
 * raises and no change of a child does). No mark comes in between: whoever is before us writes it
 * with the delete of its znode, and the read that the grant rests on shows that it is done; who
 * hands over writes none, so its follower inherits the version. If the version is another one, the
 * znode is deleted without a mark, and the next acquire is refused, or its grant is unclean. A
 * transaction whose reply was lost meets its own mark, and then the delete alone finds no znode.
 *
 * Missing evidence means unclean. So these ends look like a crash, though they are none: of a
 * waiter that ends between the release of its predecessor and its own grant, of a session that ends
 * while its lock lingers or stays for config.least, of a holder without config.mark or of another
 * library, and of a holder that may not write the directory. So does whatever was in the directory
 * before the first use of config.mark. Contenders with and without a delay read and write the same
 * mark: a contender without one reports a crash immediately, and after its release nobody waits. */

#define OTHER_DATA                                                                             \
    "the data of the path is no release mark, but a semaphore's limit, a job's record (once) " \
    "or another program's: use another path, or clear the data if nobody needs it"

/* --- the evidence ---------------------------------------------------------------------------- */

/* It waits for this one. Only of what is known to be a contender: behind another child of the queue
 * somebody may hold. */
static void mark_behind(struct zkl__contender *c, const char *name)
{
    if (c->config.mark) {
        c->mark.state = ZKL__MARK_UNKNOWN;
        c->mark.before = zkl__name_sequence(name);
    }
}

static bool is_clean(const struct zkl__contender *c)
{
    const struct zkl__release_mark *mark = &c->mark;
    int32_t own = zkl__name_sequence(c->node.name);
    if (mark->state != ZKL__MARK_UNKNOWN || !zkl__node_known(&c->node)) {
        return mark->state == ZKL__MARK_CLEAN;
    }
    if (mark->before >= 0) {
        return mark->released == mark->before;
    }
    return own == 0 || mark->released == own - 1 || mark->next == own;
}

/* Reads the directory, beside the other requests of this step. */
static void mark_send_read(struct zkl__contender *c)
{
    if (c->config.mark && c->mark.state == ZKL__MARK_UNKNOWN &&
        !zkl__under_way(c, ZKL__ROLE_READ)) {
        contender_send_of_node(c, ZKL__ROLE_READ, ZKL__OP_GET, NULL);
    }
}

static void mark_on_read(struct zkl__contender *c)
{
    const struct zkl__reply *reply = c->event->reply;
    const struct zkl__stat *stat = &reply->stat;
    if (!zkl__contender_waits(c)) {
        return; /* it gave up */
    }
    if (reply->rc == ZKL__RC_OK) {
        /* The name of a contender, and nothing else. */
        char name[ZKL__NAME_LONGEST + 1] = "";
        if (reply->size > 0 && reply->size <= ZKL__NAME_LONGEST) { /* else data may be NULL */
            memcpy(name, reply->data, reply->size);
            name[reply->size] = '\0';
        }
        bool marks = strlen(name) == reply->size && zkl__name_contends(name);
        c->mark.released = marks ? zkl__name_sequence(name) : -1;
        c->mark.version = stat->version;
        if (reply->size > 0 && !marks) {
            contender_fail(c, ZKL_ECONFLICT, OTHER_DATA);
            return;
        }
        /* "cversion" counts creates and deletes (DataNode.copyStat): without children, half of
         * each. */
        if (stat->child_count == 0 && stat->pzxid == stat->mzxid) {
            c->mark.next = (int32_t)((uint32_t)stat->cversion / 2);
        }
    } else if (reply->rc == ZKL__RC_NONODE) {
        c->mark.version = 0; /* of what is made now */
    }
    if (c->state != ZKL__PROVING) {
        return;
    }
    bool delays = c->config.delay > 0;
    if (!zkl__rc_decides(reply->rc)) {
        contender_fail_by_reply(c);
    } else if (reply->rc == ZKL__RC_NONODE) {
        node_removed(c); /* with the directory */
    } else if (c->mark.state != ZKL__MARK_UNKNOWN || is_clean(c)) {
        return;
    } else if (delays && c->try_only) {
        contender_fail(c, ZKL_EBUSY,
                       "the last holder did not release, and delay_after_crash_ms begins");
    } else {
        c->mark.state = delays ? ZKL__MARK_DELAYS : ZKL__MARK_UNCLEAN;
        c->mark.until = c->core->now + c->config.delay;
        say(c, ZKL_LOG_DEBUG, "first, behind one that did not release%s",
            delays ? ": it waits" : "");
    }
}

/* --- with the znode's delete ----------------------------------------------------------------- */

static void leave(struct zkl__contender *c)
{
    if (c->node.fate == ZKL__FATE_DUPLICATE_STAYS) { /* is deleted now, too: a list will show it */
        c->node.fate = ZKL__FATE_UNKNOWN;
    }
    c->retry.at = 0; /* whatever was refused before has nothing to do with the delete */
    bool writes = zkl__contender_keeps(c) || (c->state == ZKL__PROVING && is_clean(c));
    c->mark.state = c->config.mark && writes ? ZKL__MARK_WRITES : ZKL__MARK_UNKNOWN;
}

/* The delete was not done, or its reply was lost. True: it was refused for the mark, and goes
 * without it, because a directory that may not be written must not keep the znode. The mark is the
 * first part. A part that is rolled back did not fail by itself. */
static bool mark_refused(struct zkl__contender *c, const struct zkl__reply *reply)
{
    enum zkl__rc rc = reply->part_count > 0 ? reply->parts[0].rc : reply->rc;
    bool refused = zkl__rc_decides(rc) && rc != ZKL__RC_ROLLEDBACK;
    if (c->config.mark && c->grant.end == ZKL__GRANT_HANDED_OVER) {
        /* The one that it handed over to may have ended since, while our znode stands. */
        c->grant.end = ZKL__GRANT_RELEASED;
    }
    if (c->mark.state != ZKL__MARK_WRITES || !refused) {
        return false;
    }
    if (rc == ZKL__RC_NOAUTH && !c->path_stats->warned_of_write) {
        c->path_stats->warned_of_write = true;
        say(c, ZKL_LOG_WARN,
            "a release could not write its mark into the directory, and looks like a "
            "crash to those who have recover or delay_after_crash_ms. Give WRITE on the "
            "directory to those who contend there (setAcl)");
    }
    c->mark.state = ZKL__MARK_UNKNOWN;
    return true;
}

static void contender_advance(struct zkl__contender *c);

/* === many znodes that may be forged =========================================================== */

/* Finds forged znodes among those before a contender, many at a time, nearest first.
 *
 * A client with CREATE on the queue can create thousands of persistent znodes with contenders'
 * names. A contender must know that a znode is forged before it ignores it, and the C client has no
 * request that returns the owners of several znodes. So after the first forged znode, each further
 * one is read by an exists of its own. A batch of them is sent together, and batches grow up to
 * 500: their replies take some milliseconds, far less than a heartbeat. The queue keeps the result
 * (queue.c): a later contender of the session inspects none of them again. */

#define BATCH_FIRST 8 /* two have been read alone */
#define BATCH_GROWTH 8
#define BATCH_MOST 500

/* From now on the contenders of this session in the queue pass it over, as far as it is forged for
 * them. False: no memory. */
static bool list_pass_over(struct zkl__contender *c, const char *name, const struct zkl__stat *stat)
{
    int64_t since = stat->ephemeral_owner == 0 ? ZKL__NEVER_A_CONTENDER : stat->czxid;
    struct zkl__name parsed = zkl__name_parse(name);
    if (parsed.kind == ZKL_KIND_READ && parsed.uuid) {
        return true;
    }
    return zkl__names_put(&c->peer.queue->forged, name, since);
}

/* --- whether there is one -------------------------------------------------------------------- */

/* Starts an inspection of this list, if the predecessor was forged. False: there is none. Without
 * memory, and while replies for an earlier inspection are due, predecessors are read one by one. */
static bool inspection_begin(struct zkl__contender *c)
{
    bool suspected = c->suspicion.state == ZKL__SUSPICION_ARISEN;
    inspection_drop(c);
    c->suspicion.state = ZKL__SUSPICION_NONE;
    if (!suspected || c->suspicion.due > 0) {
        return false;
    }
    const struct zkl__list_index *index = zkl__list_sorted(c, c->event->reply);
    if (!index) {
        return false;
    }
    size_t before = zkl__list_before(index, c->node.name), bytes = 0;
    for (size_t i = 0; i < before; i++) {
        bytes += strlen(index->entries[i].name) + 1;
    }
    struct zkl__inspection *inspection =
        zkl__zalloc(c->heap, sizeof *inspection + sizeof *inspection->candidates +
                                 before * sizeof *inspection->candidates->all + bytes);
    if (inspection) {
        struct zkl__children *candidates = (struct zkl__children *)(inspection + 1);
        char *names = (char *)&candidates->all[before];
        for (size_t i = before; i > 0; i--) {
            const struct zkl__list_entry *entry = &index->entries[i - 1];
            if (zkl__kind_conflicts(c, entry->name, entry->kind)) {
                candidates->all[candidates->count++].name = zkl__text_put(&names, entry->name);
            }
        }
        inspection->batch = BATCH_FIRST;
        inspection->candidates = candidates;
    }
    c->suspicion.inspection = inspection;
    return inspection;
}

/* --- what is known --------------------------------------------------------------------------- */

/* The nearest znode that is not excluded; NULL: none is left. */
static const struct zkl__child *inspection_nearest(const struct zkl__contender *c)
{
    struct zkl__inspection *inspection = c->suspicion.inspection;
    const struct zkl__children *candidates = inspection->candidates;
    while (inspection->nearest < candidates->count &&
           candidates->all[inspection->nearest].verdict == ZKL__CHILD_PERSISTENT) {
        inspection->nearest++;
    }
    return inspection->nearest < candidates->count ? &candidates->all[inspection->nearest] : NULL;
}

/* --- requests and replies -------------------------------------------------------------------- */

/* With the last reply that is due the batch is over. */
static void end_batch(struct zkl__contender *c)
{
    struct zkl__inspection *inspection = c->suspicion.inspection;
    if (--c->suspicion.due > 0) {
        return;
    }
    if (inspection && !inspection->broken) {
        inspection->batch = inspection->batch * BATCH_GROWTH < BATCH_MOST
                                ? inspection->batch * BATCH_GROWTH
                                : BATCH_MOST;
    }
    zkl__contender_post(c, ZKL__EV_INSPECTED);
}

/* The reply to the exists of this one. */
static void inspection_answered(struct zkl__contender *c, size_t which,
                                const struct zkl__reply *reply)
{
    struct zkl__inspection *inspection = c->suspicion.inspection;
    struct zkl__child *candidate = inspection ? &inspection->candidates->all[which] : NULL;
    bool unsent = reply->rc == ZKL__RC_UNSENT && reply->unsent != ZKL_EINVAL;
    if (!candidate) { /* dropped meanwhile */
    } else if (unsent || reply->rc == ZKL__RC_NOTAPPLIED || reply->rc == ZKL__RC_UNKNOWN) {
        inspection->broken = true;
    } else if (reply->rc == ZKL__RC_NONODE) {
        inspection->stale = true;
        candidate->verdict = ZKL__CHILD_PERSISTENT;
    } else if (reply->rc == ZKL__RC_OK && zkl__stat_forged(zkl__name_parse(candidate->name).kind,
                                                           &reply->stat, c->node.czxid)) {
        /* no memory: the next one reads it again */
        (void)list_pass_over(c, candidate->name, &reply->stat);
        candidate->verdict = ZKL__CHILD_PERSISTENT;
    } else { /* NOAUTH does not prove absence: the watch on it will say more */
        candidate->verdict = ZKL__CHILD_EPHEMERAL;
    }
    end_batch(c);
}

/* Sends the next batch, or the part of the last one that got no response, unless it is under way.
 * ZKL__EV_INSPECTED follows when the whole batch has responses. */
static void inspection_send(struct zkl__contender *c)
{
    struct zkl__inspection *inspection = c->suspicion.inspection;
    if (c->suspicion.due > 0) {
        return;
    }
    c->suspicion.due = 1; /* until all are sent */
    inspection->broken = false;
    const struct zkl__children *candidates = inspection->candidates;
    size_t i = zkl__children_unknown(candidates, inspection->nearest);
    for (size_t sent = 0; i < candidates->count && sent < inspection->batch; sent++) {
        const struct zkl__op op = {
            .kind = ZKL__OP_EXISTS, .dir = c->config.path, .name = candidates->all[i].name};
        c->suspicion.due++;
        zkl__core_send(c->core, &c->machine, ZKL__ROLES + (int)i, &op);
        i = zkl__children_unknown(candidates, i + 1);
    }
    end_batch(c);
}

/* === the predecessor ========================================================================== */

/* --- which znode it is ------------------------------------------------------------------------ */

/* The name of that child of the queue. */
static const char *predecessor_name(const struct zkl__contender *c)
{
    return c->watches[ZKL__WATCHED_PREDECESSOR].entry.path + strlen(c->config.path) + 1;
}

static void predecessor_wait_for(struct zkl__contender *c, const char *name)
{
    bool hidden =
        c->predecessor.access != ZKL__ACCESS_GET && strcmp(predecessor_name(c), name) == 0;
    if (hidden) { /* the one that may not be read: this list watches the queue */
        c->predecessor.armed = c->watches[ZKL__WATCHED_QUEUE].entry.link && !c->predecessor.changed;
        contender_move(c, ZKL__WATCHING, name);
        return;
    }
    predecessor_unwatch(c, false);
    c->predecessor.access = ZKL__ACCESS_GET;
    bool follows = zkl__peers_follow(c, name);
    if (!follows &&
        !zkl__watch_path(c->core, &c->watches[ZKL__WATCHED_PREDECESSOR], c->config.path, name)) {
        contender_fail(c, ZKL_ENOMEM, "out of memory");
        return;
    }
    contender_move(c, ZKL__WATCHING, name);
    if (follows) {
        mark_behind(c, name);
        if (c->try_only) {
            contender_fail(c, ZKL_EBUSY, "somebody is before us");
        }
    }
}

/* How many may be before us. A try fails behind any. */
static size_t limit_of(const struct zkl__contender *c)
{
    return c->config.max_ahead > 0 && !c->try_only ? c->config.max_ahead : SIZE_MAX;
}

static void report_position(struct zkl__contender *c, size_t follows)
{
    if (c->config.position && follows + 1 != c->predecessor.reported) {
        c->predecessor.reported = follows + 1;
        c->config.position(c->config.owner, follows);
    }
}

/* The contenders before ours are counted only if the owner wants the number: a queue may be long.
 */
static bool predecessor_position(struct zkl__contender *c, bool hidden)
{
    if (!c->config.position && limit_of(c) == SIZE_MAX) {
        return true;
    }
    const struct zkl__list_index *index = zkl__list_sorted(c, c->event->reply);
    size_t follows = 0, before = index ? zkl__list_before(index, c->node.name) : 0;
    for (size_t i = 0; i < before; i++) {
        follows += zkl__kind_conflicts(c, index->entries[i].name, index->entries[i].kind);
    }
    if (index && follows <= limit_of(c)) {
        report_position(c, follows);
        return true;
    }
    if (hidden) {
        return true;
    }
    /* More names are before us than max_ahead. Anybody may make names, so we refuse only when as
     * many znodes stand. Without memory, or while replies for an earlier inspection are due, it
     * lists again later. */
    c->waited = true;
    c->suspicion.state = ZKL__SUSPICION_ARISEN;
    if (inspection_begin(c)) {
        c->suspicion.inspection->batch = limit_of(c) < BATCH_MOST ? limit_of(c) + 1 : BATCH_MOST;
        c->suspicion.state = ZKL__SUSPICION_INSPECTED;
        predecessor_unwatch(c, false);
        c->predecessor.access = ZKL__ACCESS_GET;
        contender_move(c, ZKL__WATCHING, "max_ahead: which of those before us stand?");
        return false;
    }
    if (c->state != ZKL__LISTING) {
        contender_move(c, ZKL__LISTING, "max_ahead: no inspection yet");
    }
    contender_retry_later(c);
    return false;
}

/* There is no predecessor: the grant is next. */
static void predecessor_none(struct zkl__contender *c)
{
    predecessor_unwatch(c, false);
    c->predecessor.access = ZKL__ACCESS_GET;
    contender_move(c, ZKL__PROVING, "nobody is before us");
    contender_advance(c); /* the grant comes before what its list means to a lingering lock */
}

/* --- the request that watches it -------------------------------------------------------------- */

static void predecessor_look(struct zkl__contender *c)
{
    bool asked = zkl__under_way(c, ZKL__ROLE_WATCH);
    if (c->predecessor.access == ZKL__ACCESS_STAT && !asked) {
        contender_send_of_node(c, ZKL__ROLE_WATCH, ZKL__OP_EXISTS, predecessor_name(c));
    }
    bool gets = c->predecessor.access == ZKL__ACCESS_GET;
    if (c->predecessor.armed || (gets && asked)) {
        return;
    }
    if (gets) {
        struct zkl__op get = {.kind = ZKL__OP_GET,
                              .dir = c->config.path,
                              .name = predecessor_name(c),
                              .watch = !c->try_only};
        if (get.watch) {
            contender_watch(c, ZKL__WATCHED_PREDECESSOR);
        }
        contender_send(c, ZKL__ROLE_WATCH, get);
    } else if (!c->try_only) {
        contender_move(c, ZKL__LISTING, "who is before us may not be read: the queue is watched");
        contender_send_list(c);
    }
}

/* --- many that may be forged ----------------------------------------------------------------- */

/* The nearest ones of the inspection, until one stands, and until no more can stand than max_ahead.
 * Its list is good enough: no contender can have come before ours since. */
static void look_further(struct zkl__contender *c)
{
    const struct zkl__child *nearest = inspection_nearest(c);
    const struct zkl__children *candidates = c->suspicion.inspection->candidates;
    size_t most = candidates->count - zkl__children_count(candidates, ZKL__CHILD_PERSISTENT);
    /* One after the other. */
    bool watched = c->event->kind == ZKL__EV_REPLY && !c->try_only;
    c->suspicion.state = ZKL__SUSPICION_NONE;
    if (!nearest) {
        predecessor_none(c);
    } else if (nearest->verdict == ZKL__CHILD_EPHEMERAL && !watched && most <= limit_of(c)) {
        report_position(c, most);
        predecessor_wait_for(c, nearest->name);
    } else {
        c->suspicion.state = ZKL__SUSPICION_INSPECTED;
    }
}

/* --- the replies about it --------------------------------------------------------------------- */

/* To a get, for an exists leaves its watch on a missing node (DataTree: statNode adds the watch
 * before it looks whether the node is there, getData after that); or to the exists of a predecessor
 * that may not be read. */
static void predecessor_on_reply(struct zkl__contender *c)
{
    enum zkl__rc rc = c->event->reply->rc;
    const struct zkl__stat *stat = &c->event->reply->stat;
    struct zkl__inspection *inspection = c->suspicion.inspection;
    bool watching = c->state == ZKL__WATCHING;
    bool hidden =
        c->predecessor.access == ZKL__ACCESS_STAT && (watching || c->state == ZKL__LISTING);
    // NOLINTBEGIN(bugprone-branch-clone): the order of the tests counts
    if (!watching && !hidden) {
        return; /* it went meanwhile */
    } else if (rc == ZKL__RC_OK &&
               zkl__stat_forged(zkl__name_parse(predecessor_name(c)).kind, stat, c->node.czxid)) {
        /* The znode that we wanted to watch is no contender. */
        if (!list_pass_over(c, predecessor_name(c), stat)) {
            contender_fail(c, ZKL_ENOMEM, "out of memory");
        } else if (!watching) {
            c->suspicion.state = ZKL__SUSPICION_ARISEN; /* the list under way is read without it */
        } else if (inspection) {
            predecessor_unwatch(c, false);
            inspection->candidates->all[inspection->nearest].verdict = ZKL__CHILD_PERSISTENT;
            look_further(c);
        } else {
            predecessor_unwatch(c, false);
            c->suspicion.state = ZKL__SUSPICION_ARISEN; /* an inspection of the next list begins */
            contender_move(c, ZKL__LISTING, "what is before us is no contender");
        }
    } else if (rc == ZKL__RC_NONODE && watching) {
        if (!hidden) {
            predecessor_unwatch(c, true);
        }
        contender_move(c, ZKL__LISTING, "who was before us is gone already");
    } else if (!zkl__rc_decides(rc)) {
        contender_fail_by_reply(c);
    } else if (c->try_only && (rc == ZKL__RC_OK || (hidden && rc != ZKL__RC_NONODE))) {
        contender_fail(c, ZKL_EBUSY, "somebody is before us");
    } else if (hidden) {
        c->predecessor.access = ZKL__ACCESS_NONE; /* NOAUTH does not prove absence: it counts */
    } else if (rc == ZKL__RC_OK) {
        c->predecessor.armed = true;
        mark_behind(c, predecessor_name(c));
    } else if (rc == ZKL__RC_NOAUTH) {
        /* It may not be read. The exists goes before the list, so its answer is here when that is
         * read. The refused get has set no watch. */
        c->predecessor.access = ZKL__ACCESS_STAT;
        predecessor_unwatch(c, true);
    } else {
        contender_fail_by_reply(c);
    }
    // NOLINTEND(bugprone-branch-clone)
}

/* === is the path another recipe's? ============================================================ */

/* Refuses a lock at the path of a semaphore or of a partition.
 *
 * The list that a contender reads anyway shows the two directories of either. The names alone prove
 * nothing: a client that may only create could deny the lock for ever with two persistent znodes.
 * A semaphore of ours has its limit in the data of the path, and the stat of the list has the
 * length of these data: no request more, and nobody without WRITE can forge it. A partition, and a
 * semaphore of Curator's, write no data there. For these the contender asks whether a session owns
 * the newest znode in `members` or `leases`. A lock beside a semaphore is a mistake that is
 * reported, and endangers neither. */

#define A_SEMAPHORE "the path is in use as a semaphore, with locks and leases below"
#define A_PARTITION "the path is in use as a partition, with members and pieces below"

/* A contender that waited already was there before the semaphore, which finds it in a list of its
 * own and fails. */
static bool path_conflict_seen(struct zkl__contender *c)
{
    if (c->waited || c->conflict.stage == ZKL__CONFLICT_NONE) {
        return false;
    }
    const struct zkl__list_index *index = c->core->index;
    const char *directory = index ? index->user : zkl__list_user(c->event->reply);
    int32_t size = c->event->reply->stat.data_size;
    if (directory != c->conflict.directory) {
        c->conflict.stage = ZKL__CONFLICT_LISTS;
        c->conflict.directory = directory;
    }
    if (!directory) {
        return false;
    }
    if (strcmp(directory, "leases") == 0 && size > 0 && size <= ZKL__LIMIT_LONGEST) {
        contender_fail(c, ZKL_ECONFLICT, A_SEMAPHORE);
        return true;
    }
    if (c->state != ZKL__LISTING) {
        contender_move(c, ZKL__LISTING,
                       "the path has the directories of a semaphore or a partition");
    }
    return true;
}

/* What no session owns, or may not be read, is anybody's. */
static void path_conflict_on_reply(struct zkl__contender *c)
{
    const struct zkl__reply *reply = c->event->reply;
    bool lists = c->conflict.stage == ZKL__CONFLICT_LISTS,
         stats = c->conflict.stage == ZKL__CONFLICT_STATS;
    if (c->state != ZKL__LISTING || !c->conflict.directory || !(lists || stats)) {
    } else if (!zkl__rc_decides(reply->rc)) {
        contender_fail_by_reply(c);
    } else if (stats && reply->rc == ZKL__RC_OK && zkl__is_ephemeral(&reply->stat)) {
        bool semaphore = strcmp(c->conflict.directory, "leases") == 0;
        contender_fail(c, ZKL_ECONFLICT, semaphore ? A_SEMAPHORE : A_PARTITION);
    } else {
        char name[sizeof "members/" + ZKL__NAME_LONGEST];
        const char *newest = lists && reply->rc == ZKL__RC_OK ? zkl__list_last(reply) : NULL;
        if (newest) {
            snprintf(name, sizeof name, "%s/%s", c->conflict.directory, newest);
        }
        c->conflict.stage =
            newest && zkl__watch_path(c->core, &c->watches[ZKL__WATCHED_PREDECESSOR],
                                      c->config.path, name)
                ? ZKL__CONFLICT_STATS
                : ZKL__CONFLICT_NONE;
        /* When the inspection ends, the contender lists the queue again, for its predecessor may be
         * another one by now. */
    }
}

/* === the znode, and the fate of its create ==================================================== */

/* A create whose response was lost is sent again with the same uuid. So a name that carries the
 * uuid is ours, and a list behind a committed write shows all copies that were created. */

/* A response was lost. */
static void node_doubt(struct zkl__node *node)
{
    node->fate = zkl__node_unsure(node) ? node->fate : ZKL__FATE_UNKNOWN;
}

struct zkl__op zkl__create_op(const struct zkl__contender *c)
{
    return (struct zkl__op){.kind = ZKL__OP_CREATE,
                            .dir = c->config.path,
                            .name = c->node.prefix,
                            .data = c->config.metadata,
                            .size = strlen(c->config.metadata),
                            .mode = ZKL__EPHEMERAL_SEQUENTIAL,
                            .acl = c->config.acl};
}

struct zkl__op zkl__delete_op(const struct zkl__contender *c)
{
    return (struct zkl__op){
        .kind = ZKL__OP_DELETE, .dir = c->config.path, .name = c->node.name, .version = -1};
}

/* A contender that waits for nobody needs the list only if its create was sent twice: the reply to
 * the create shows that its znode exists. */
static void node_send_create(struct zkl__contender *c)
{
    if (c->state == ZKL__NEW) {
        contender_move(c, ZKL__CREATING, "asks for a place and the list together");
    } else if (zkl__node_unsure(&c->node)) {
        c->node.fate = ZKL__FATE_TWICE;
    }
    mark_send_read(c); /* before the create: see there */
    contender_send(c, ZKL__ROLE_CREATE, zkl__create_op(c));
    if (c->node.fate >= ZKL__FATE_TWICE ||
        (c->config.rule->waits_for && !zkl__peers_spares_list(c))) {
        contender_send_list(c);
    }
}

/* --- the reply to the create ------------------------------------------------------------------ */

static void node_on_create(struct zkl__contender *c)
{
    const struct zkl__reply *reply = c->event->reply;
    const char *before;
    size_t length = strlen(c->node.prefix);
    /* Our prefix and a number. A damaged reply may have no name, an empty one, or another's. */
    bool named = reply->name && strncmp(reply->name, c->node.prefix, length) == 0 &&
                 reply->name[length] && strlen(reply->name) < ZKL__NAME_MAX;
    if (reply->rc == ZKL__RC_OK && named) {
        zkl__name_copy(c->node.name, reply->name);
        c->node.czxid = reply->stat.czxid;
        c->retry.pause = 0;
        say(c, ZKL_LOG_DEBUG, "our node is %s", c->node.name);
    } else if (reply->rc == ZKL__RC_OK) {
        node_doubt(&c->node); /* whether there is one, the list shows */
        say(c, ZKL_LOG_DEBUG, "the create's reply names no node of ours: its fate is unknown");
    } else if (reply->rc == ZKL__RC_UNKNOWN) {
        node_doubt(&c->node);
        say(c, ZKL_LOG_DEBUG, "fate of the create unknown");
    } else if (reply->rc == ZKL__RC_NONODE && zkl__node_unsure(&c->node)) {
        c->node.fate = ZKL__FATE_KNOWN; /* no directory: no earlier copy in it either */
    }
    // NOLINTBEGIN(bugprone-branch-clone): the order of the tests counts
    if (reply->rc == ZKL__RC_OK && !named) {
        contender_retry_later(c);
    } else if (c->state != ZKL__CREATING) {
        return; /* not wanted any more */
    } else if (reply->rc == ZKL__RC_NONODE) {
        /* The directory of the queue is missing: it is created, part by part. */
        c->make_path = c->make_path ? c->make_path : zkl__copy_text(c->heap, c->config.path);
        if (c->make_path) {
            memcpy(c->make_path, c->config.path, strlen(c->config.path) + 1);
            contender_move(c, ZKL__MAKING, "no such directory");
        } else {
            contender_fail(c, ZKL_ENOMEM, "out of memory");
        }
    } else if (reply->rc == ZKL__RC_NODEEXISTS && zkl__node_unsure(&c->node) && !c->multi) {
        /* Perhaps somebody saw our uuid in a znode of ours and made this one by hand. The refusal
         * is a committed write, so the list behind it shows ours. */
        c->node.fate = ZKL__FATE_LISTED;
    } else if (reply->rc != ZKL__RC_OK) {
        contender_fail_by_reply(c);
    } else if (zkl__under_way(c, ZKL__ROLE_LIST)) {
        return; /* which shows who is before us */
    } else if (zkl__sequence_used_up(zkl__name_sequence(c->node.name)) ||
               c->node.fate >= ZKL__FATE_TWICE) {
        contender_move(c, ZKL__LISTING, NO_LIST);
    } else if (!c->config.rule->waits_for) {
        predecessor_none(c);
    } else if ((before = zkl__peers_neighbour(c))) {
        predecessor_wait_for(c, before);
    } else {
        contender_move(c, ZKL__LISTING, NO_LIST);
    }
    // NOLINTEND(bugprone-branch-clone)
}

static void directory_on_reply(struct zkl__contender *c)
{
    enum zkl__rc rc = c->event->reply->rc;
    if (c->state != ZKL__MAKING) {
        return;
    }
    if (rc == ZKL__RC_NONODE) {
        if (!zkl__path_shorten(c->make_path)) {
            contender_fail(c, ZKL_ENOENT, ZKL__NO_CHROOT);
            c->out->zk_code = c->event->reply->zk_code;
        }
    } else if (rc == ZKL__RC_OK || rc == ZKL__RC_NODEEXISTS) {
        if (!zkl__path_lengthen(c->make_path, c->config.path)) {
            zkl__free(c->heap, c->make_path);
            c->make_path = NULL;
            contender_move(c, ZKL__CREATING, "the directory is there");
        }
    } else {
        contender_fail_by_reply(c);
    }
}

/* --- lists, stats and checks that show it ----------------------------------------------------- */

/* Whether the list shows our znode and no other of ours. If not, this function has already acted on
 * it. */
static bool node_in_list(struct zkl__contender *c)
{
    const char *lowest, *other;
    if (c->node.fate < ZKL__FATE_TWICE) {
        bool shown = zkl__list_has(c->event->reply, c->core->index, c->node.name);
        if (!shown) {
            node_removed(c);
        }
        return shown;
    }
    /* The create was sent twice: keep the lowest node, delete what else carries our uuid. */
    zkl__list_mine(c, c->event->reply, &lowest, &other);
    if (!lowest) {
        node_removed(c);
        return false;
    }
    if (strcmp(lowest, c->node.name) != 0) {
        zkl__name_copy(c->node.name, lowest);
        c->node.czxid = 0;
    }
    if (!other || c->node.fate == ZKL__FATE_TWICE_STAYS) {
        c->node.fate =
            c->node.fate == ZKL__FATE_TWICE_STAYS ? ZKL__FATE_DUPLICATE_STAYS : ZKL__FATE_KNOWN;
        return true;
    }
    if (c->state == ZKL__CREATING) {
        contender_move(c, ZKL__LISTING, "the lost create was applied: its double is removed");
    }
    c->node.removes_duplicate = true;
    contender_send_of_node(c, ZKL__ROLE_DELETE, ZKL__OP_DELETE, other);
    contender_send_list(c);
    return false;
}

static void node_on_stat(struct zkl__contender *c)
{
    const struct zkl__reply *reply = c->event->reply;
    bool strange = reply->rc == ZKL__RC_OK && reply->stat.ephemeral_owner != c->core->session_id;
    if (!zkl__node_known(&c->node)) {
        return;
    }
    if (c->state == ZKL__REMOVING && zkl__node_unsure(&c->node)) {
        /* We may not delete it: perhaps it only carries our uuid, and is somebody else's. Without
         * memory to note that, it is deleted and read again. */
        if (strange && zkl__names_put(&c->peer.queue->forged, c->node.name, 0)) {
            c->node.name[0] = '\0';
            c->retry.at = 0;
        }
    } else if (!zkl__contender_waits(c) || c->node.czxid) {
        return;
    } else if (strange && !zkl__names_put(&c->peer.queue->forged, c->node.name, 0)) {
        contender_queue_again(c, "the node with our uuid is a stranger's");
    } else if (strange) {
        /* carries our uuid and is not ours: a forgery, and a list shows where our own is */
        predecessor_unwatch(c, false);
        c->node.fate = ZKL__FATE_TWICE;
        if (c->state != ZKL__LISTING) {
            contender_move(c, ZKL__LISTING, "the node with our uuid is a stranger's");
        }
    } else if (reply->rc == ZKL__RC_OK) {
        c->node.czxid = reply->stat.czxid;
    } else if (reply->rc == ZKL__RC_NONODE) {
        node_removed(c);
    } else if (reply->rc == ZKL__RC_NOAUTH) {
        contender_fail(
            c, ZKL_EAUTH,
            "its access list hides our own znode from us, and so the token: let us read it");
        c->out->zk_code = reply->zk_code;
    } else {
        contender_fail_by_reply(c);
    }
}

/* === the weaker znode of a downgrade ========================================================== */

/* A downgrade: a znode of a weaker kind replaces ours and keeps its number. */

/* out has ZKL__NAME_MAX bytes. */
static void make_name(const struct zkl__contender *c, char *out)
{
    const char *uuid = c->node.prefix + strlen("_c_");
    zkl__name_with_number(out, uuid, c->replacement.rule->tag, c->replacement.sequence);
}

/* As Curator's downgrade, but in one transaction. It is sent again after a lost reply. The delete
 * is first, so each refusal has one reason: NONODE that our znode is deleted already, NODEEXISTS
 * that it is there and another znode has the new name. */
static void replacement_send(struct zkl__contender *c)
{
    char name[ZKL__NAME_MAX];
    if (c->replacement.state == ZKL__REPLACING_NOT || zkl__under_way(c, ZKL__ROLE_REPLACE)) {
        return;
    }
    make_name(c, name);
    if (c->replacement.state == ZKL__REPLACED_OR_REMOVED) {
        contender_send_of_node(c, ZKL__ROLE_REPLACE, ZKL__OP_EXISTS, name);
        return;
    }
    struct zkl__op parts[] = {zkl__delete_op(c), zkl__create_op(c)};
    parts[1].name = name;
    parts[1].mode = ZKL__EPHEMERAL;
    contender_send(c, ZKL__ROLE_REPLACE,
                   (struct zkl__op){.kind = ZKL__OP_MULTI, .parts = parts, .part_count = 2});
}

static void replacement_on_reply(struct zkl__contender *c)
{
    struct zkl__replacement *replacement = &c->replacement;
    const struct zkl__reply *reply = c->event->reply;
    enum zkl__rc rc = reply->rc;
    bool held = c->state == ZKL__HELD;
    bool stats = replacement->state == ZKL__REPLACED_OR_REMOVED;
    bool perhaps = replacement->state == ZKL__REPLACED_PERHAPS;
    bool another = stats && rc == ZKL__RC_OK && !zkl__is_own(&reply->stat, c->core->session_id);
    if (rc == ZKL__RC_NODEEXISTS) {
        /* Somebody made a znode of that name by hand, for the name is no secret. We hold as what we
         * were. */
        replacement->state = ZKL__REPLACING_NOT;
        if (held) {
            report(c, ZKL__NOT_DOWNGRADED, ZKL_ECONFLICT, "another znode has the name");
        }
    } else if (rc == ZKL__RC_NONODE && perhaps && held) {
        replacement->state = ZKL__REPLACED_OR_REMOVED;
    } else if ((rc == ZKL__RC_NONODE && !perhaps) || another) {
        replacement->state = ZKL__REPLACING_NOT;
        c->node.name[0] = '\0';
        if (held) {
            node_removed(c);
        }
    } else if (rc == ZKL__RC_OK || (stats && rc == ZKL__RC_NOAUTH)) {
        make_name(c, c->node.name);
        replacement->state = ZKL__REPLACING_NOT;
        c->config.rule = replacement->rule;
        c->retry.pause = 0;
        if (held) {
            report(c, ZKL__DOWNGRADED, ZKL_OK, "downgraded");
        }
    } else if (!held) {
        if (rc == ZKL__RC_UNKNOWN || replacement->state != ZKL__REPLACING) {
            node_doubt(&c->node); /* then the list shows which of the two exists */
        }
        replacement->state = ZKL__REPLACING_NOT;
    } else if (rc != ZKL__RC_UNKNOWN) {
        contender_retry_later(c);
    } else if (!stats) {
        replacement->state = ZKL__REPLACED_PERHAPS;
    }
}

/* The downgrade is given up. If it was sent and its reply is lost, there are two names to look for.
 */
static void replacement_forget(struct zkl__contender *c)
{
    if (c->replacement.state != ZKL__REPLACING_NOT && !zkl__under_way(c, ZKL__ROLE_REPLACE)) {
        node_doubt(&c->node);
        c->replacement.state = ZKL__REPLACING_NOT;
    }
}

/* === a holder's watch on its own znode ======================================================== */

/* Sends the request that the watch of a holder needs. */
static void own_watch_advance(struct zkl__contender *c)
{
    struct zkl__watch *watch = &c->watches[ZKL__WATCHED_OWN];
    bool wanted =
        (c->config.revocable || c->own.guard_at == 0) && c->replacement.state == ZKL__REPLACING_NOT;
    if (!wanted || watch->entry.link || zkl__under_way(c, ZKL__ROLE_OWN_WATCH) ||
        !zkl__watch_path(c->core, watch, c->config.path, c->node.name)) {
        return; /* no memory: with the next heartbeat's answer, or never */
    }
    contender_watch(c, ZKL__WATCHED_OWN);
    contender_send(
        c, ZKL__ROLE_OWN_WATCH,
        (struct zkl__op){
            .kind = ZKL__OP_GET, .dir = c->config.path, .name = c->node.name, .watch = true});
}

/* Is that Curator's request? A write of anything else is none. */
bool zkl__contender_revoked(struct zkl__contender *c, const struct zkl__reply *reply)
{
    bool revoked = c->config.revocable && reply->size == sizeof ZKL__REVOKE - 1 &&
                   memcmp(reply->data, ZKL__REVOKE, reply->size) == 0 &&
                   reply->stat.mzxid > c->own.revoked;
    if (revoked) {
        c->own.revoked = reply->stat.mzxid;
    }
    return revoked;
}

static void own_watch_on_reply(struct zkl__contender *c)
{
    const struct zkl__reply *reply = c->event->reply;
    bool read = reply->rc == ZKL__RC_OK;
    /* One transaction can delete our znode and create another one under its name. Only the owner
     * tells the two apart. */
    bool another = read && !zkl__is_own(&reply->stat, c->core->session_id);
    if (another) { /* our delete will not use it up */
        zkl__watch_remove(c->core, &c->watches[ZKL__WATCHED_OWN]);
    } else if (!read) {
        own_watch_forget(c);
    }
    if (!zkl__contender_keeps(c) || reply->rc == ZKL__RC_UNKNOWN) {
    } else if (reply->rc == ZKL__RC_NONODE || another) {
        node_removed(c);
    } else if (read) {
        if (zkl__contender_revoked(c, reply)) {
            report(c, ZKL__REVOKED, ZKL_OK, "asked to release");
        }
    } else if (!c->config.revocable && reply->rc != ZKL__RC_NOTAPPLIED) {
        if (c->own.guard_at == 0) { /* it may not be read, or too much is watched: the heartbeats
                                       go round */
            c->own.guard_at = INT64_MAX;
        }
        say(c, ZKL_LOG_DEBUG,
            "our node is not watched (%s): a removal by hand is noticed by a heartbeat on it",
            zkl__rc_name(reply->rc));
    } else {
        contender_retry_later(c);
    }
}

/* === the end, until no znode of ours is left ================================================== */

/* One transaction deletes the znode and writes the release mark. A search finds znodes that a
 * create made whose response was lost. */

/* Under way, they may create a znode of ours. */
#define MAKES (UNDER_WAY(ZKL__ROLE_CREATE) | UNDER_WAY(ZKL__ROLE_REPLACE))

static void cleanup_advance(struct zkl__contender *c)
{
    const uint32_t busy =
        UNDER_WAY(ZKL__ROLE_LIST) | UNDER_WAY(ZKL__ROLE_DELETE) | UNDER_WAY(ZKL__ROLE_SYNC_POINT);
    if ((c->under_way & MAKES) ||
        (c->state == ZKL__REMOVING && c->grant.least_until > c->core->now)) {
        return;
    }
    if (zkl__node_known(&c->node)) {
        if (zkl__peers_delete_waits(c) || zkl__under_way(c, ZKL__ROLE_DELETE)) {
            return;
        }
        struct zkl__op remove = zkl__delete_op(c);
        if (c->mark.state == ZKL__MARK_WRITES && zkl__peers_hands_over(c)) {
            c->mark.state = ZKL__MARK_UNKNOWN;
        }
        const struct zkl__op parts[] = {{.kind = ZKL__OP_SET,
                                         .dir = c->config.path,
                                         .data = c->node.name,
                                         .size = strlen(c->node.name),
                                         .version = c->mark.version},
                                        remove};
        if (c->mark.state == ZKL__MARK_WRITES) {
            remove = (struct zkl__op){.kind = ZKL__OP_MULTI, .parts = parts, .part_count = 2};
        }
        contender_send(c, ZKL__ROLE_DELETE, remove);
    } else if (zkl__node_unsure(&c->node) && !(c->under_way & busy)) {
        /* A write is the one barrier that no server can skip, for it holds a session's reads back
         * until the write before them is committed (CommitProcessor, pendingRequests): what was
         * sent before it is in the list behind it, or nowhere. */
        c->node.fate = ZKL__FATE_UNKNOWN;
        contender_send_of_node(c, ZKL__ROLE_SYNC_POINT, ZKL__OP_CHECK, NULL);
        contender_send_list(c);
    }
}

static void cleanup_on_reply(struct zkl__contender *c)
{
    enum zkl__rc rc = c->event->reply->rc;
    bool unsure = zkl__node_unsure(&c->node);
    if (c->node.removes_duplicate) { /* the list sent with the delete says what is left */
        if (zkl__rc_decides(rc) && rc != ZKL__RC_OK && rc != ZKL__RC_NONODE) {
            /* it stands behind us: it can wait until we go */
            c->node.fate = unsure ? ZKL__FATE_TWICE_STAYS : ZKL__FATE_DUPLICATE_STAYS;
        }
        c->node.removes_duplicate = false;
    } else if (rc == ZKL__RC_OK || rc == ZKL__RC_NONODE) {
        c->node.name[0] = '\0';
        c->mark.state = ZKL__MARK_UNKNOWN;
        c->retry.pause = 0;
    } else if (rc == ZKL__RC_NOTEMPTY && zkl__names_put(&c->peer.queue->forged, c->node.name, 0)) {
        /* Ephemeral znodes have no children: it carries our uuid and is not ours. */
        c->node.name[0] = '\0';
        node_doubt(&c->node);
    } else if (!mark_refused(c, c->event->reply) && rc != ZKL__RC_UNKNOWN) {
        /* The delete is sent again until the znode is deleted or the session is over. */
        contender_retry_later(c);
        if (rc != ZKL__RC_NOAUTH) {
            return;
        }
        c->node.stays = true;
        /* DELETE is a permission on the parent (PrepRequestProcessor, OpCode.delete: checkACL of
         * the parent's record). What may be another one's, as our uuid in a name of unknown fate,
         * is not warned of. */
        if (unsure && !zkl__under_way(c, ZKL__ROLE_STAT)) {
            contender_send_of_node(c, ZKL__ROLE_STAT, ZKL__OP_EXISTS, c->node.name);
        } else if (!unsure && !c->path_stats->warned_of_delete) {
            c->path_stats->warned_of_delete = true;
            say(c, ZKL_LOG_WARN,
                "DELETE on the directory is missing: our znode %s cannot be removed, "
                "and keeps its place until "
                "the session ends. Give DELETE on the directory to those who contend "
                "there (setAcl)",
                c->node.name);
        }
    }
}

/* --- search for what is left ------------------------------------------------------------------ */

static void cleanup_on_sync_point(struct zkl__contender *c)
{
    if (zkl__rc_decides(c->event->reply->rc)) {
        c->node.fate = zkl__node_unsure(&c->node) ? ZKL__FATE_LISTED : c->node.fate;
    } else if (c->event->reply->rc != ZKL__RC_UNKNOWN) {
        contender_retry_later(c);
    }
}

static void cleanup_on_list(struct zkl__contender *c)
{
    enum zkl__rc rc = c->event->reply->rc;
    const char *lowest = NULL, *other;
    bool tells = c->node.fate == ZKL__FATE_LISTED;
    if (tells) {
        c->node.fate = ZKL__FATE_UNKNOWN;
    }
    if (tells && rc == ZKL__RC_OK && !zkl__node_known(&c->node)) {
        zkl__list_mine(c, c->event->reply, &lowest, &other);
    } else if (!tells || rc != ZKL__RC_NONODE) {
        if (rc != ZKL__RC_OK && rc != ZKL__RC_NONODE && rc != ZKL__RC_UNKNOWN) {
            contender_retry_later(c);
        }
        return;
    }
    /* It shows all znodes of ours that are left. */
    if (lowest) {
        zkl__name_copy(c->node.name, lowest);
    } else {
        c->node.fate = ZKL__FATE_KNOWN;
    }
}

/* === the grant ================================================================================ */

/* --- the gate -------------------------------------------------------------------------------- */

/* A response has shown our znode within this part of a heartbeat. A holder notices within one
 * heartbeat that somebody has deleted its znode by hand. */
static bool shown_within(const struct zkl__contender *c, int64_t parts)
{
    return c->core->now - c->shown_at <= zkl__lease_heartbeat(c->core->timeout) / parts;
}

static void notify_granted(struct zkl__contender *c)
{
    c->grant.least_until = c->config.least > 0 ? c->core->now + c->config.least : 0;
    c->grant.hold_until = c->config.max_hold > 0 ? c->core->now + c->config.max_hold : INT64_MAX;
    c->jeopardy_notified = false;
    report(c, ZKL__GRANTED, ZKL_OK, "granted");
    c->out->token = c->node.czxid;
    c->out->serial = ++c->linger.serial;
    c->out->contender = c->multi ? NULL : c;
    c->out->unclean = c->mark.state == ZKL__MARK_UNCLEAN;
}

#define GUARDS_MOST 4096 /* that begin in one heartbeat */
#define GUARD_SLOTS 64   /* moments in one heartbeat at which they do */

static void grant(struct zkl__contender *c)
{
    struct zkl__core *core = c->core;
    int64_t heartbeat = zkl__lease_heartbeat(core->timeout), slot = heartbeat / GUARD_SLOTS + 1;
    int64_t next = core->guard_at + heartbeat / GUARDS_MOST + 1, least = core->now + heartbeat;
    contender_move(c, ZKL__HELD, "nobody before us, and a lease");
    /* A holder begins to watch its own znode after its first heartbeat. Few begin at one moment. */
    core->guard_at = next > least ? next : least;
    c->own.guard_at = (core->guard_at / slot + 1) * slot;
    notify_granted(c);
}

/* --- the end of a hold ------------------------------------------------------------------------ */

/* The time at which max_hold_ms will have passed; INT64_MAX: there is nothing to wait for. */
static int64_t grant_wake(const struct zkl__contender *c)
{
    bool owed =
        c->state == ZKL__HELD || (c->state == ZKL__LOST && c->grant.end != ZKL__GRANT_OVERSTAYED);
    return owed ? c->grant.hold_until : INT64_MAX;
}

/* === a lock that lingers ====================================================================== */

/* A lock that lingers: after a release its znode stays for config.linger, and the next
 * contender of this session is granted without a request. Chubby's clients cache locks in this way.
 *
 * A list shows our znode alone in the queue, and sets a watch. From that list to the local grant,
 * all of this holds:
 *  - The znode exists. The session lives, by the lease, and a delete by hand would fire the watch,
 *    as a new contender would. "Watches are ordered with respect to other events" (What ZooKeeper
 *    Guarantees about Watches, in the Programmer's Guide).
 *  - No other contender waits that we know of. The watch has not fired, and no other contender of
 *    this session has sent a create here.
 *  - The connection is the same. The servers process an earlier holder's requests before those of
 *    the next one. On another connection they might process them later, so nothing lingers over a
 *    lost connection.
 *  - A response within the last heartbeat has shown the znode, as before each other grant
 *    (shown_within), and no write is under way. Otherwise one committed check is sent. Its response
 *    shows the znode, and comes behind the responses to all that the last holder sent.
 *
 * While the lock is armed, contenders of this session that may be granted it next wait in memory,
 * in line: their creates would fire the watch. When it is not armed any more they queue, in the
 * order of the line. One contender of a queue is the keeper. It is granted again and again, for one
 * owner after the other, with one token and a rising serial.
 *
 * When somebody else has disturbed the line, contenders of this session stand behind each other on
 * the servers. They become a line again when a list has shown nobody else: the holder does not
 * delete its znode at its release but gathers. It is granted for the owner of its follower, which
 * deletes its own znode, and for those behind that one in their order. So everybody is granted in
 * the order of the znodes, also before a contender of another session that has come meanwhile. New
 * contenders of this session wait in line, and none of these is granted until a list, sent behind
 * the last of these deletes, shows the keeper's znode alone. Then the lock is armed. */

/* Another contender of this session in the queue is so. */
static bool any_other(const struct zkl__contender *c,
                      bool (*is_so)(const struct zkl__contender *other))
{
    ZKL__EACH (struct zkl__contender, other, &c->peer.queue->contenders, peer.in_queue) {
        if (other != c && is_so(other)) {
            return true;
        }
    }
    return false;
}

/* --- before a create is sent ------------------------------------------------------------------ */

/* The znode of one would do for the other. A contender whose owner wants its position needs a znode
 * of its own in the list. */
static bool may_follow(const struct zkl__contender *keeper, const struct zkl__contender *c)
{
    return c->config.linger > 0 && !c->config.position && c->config.max_ahead == 0 &&
           keeper->config.rule == c->config.rule && keeper->config.mark == c->config.mark &&
           keeper->config.delay == c->config.delay &&
           strcmp(keeper->config.metadata, c->config.metadata) == 0 &&
           zkl__acl_same(keeper->config.acl, c->config.acl);
}

/* True: it waits in line, or was refused, and sends no create. */
static bool linger_waits(struct zkl__contender *c)
{
    struct zkl__peer_queue *q = c->peer.queue;
    struct zkl__contender *keeper = q->keeper;
    if (c->linger.in_line) {
        return true;
    }
    if (!keeper || !may_follow(keeper, c)) {
        return false;
    }
    if (c->try_only && (keeper->state != ZKL__LINGERING || q->line.first)) {
        contender_fail(c, ZKL_EBUSY, "somebody is before us");
        return true;
    }
    if (c->try_only && keeper->linger.state == ZKL__LINGER_GATHERING) {
        return false; /* a list of its own shows whether somebody is before it */
    }
    say(c, ZKL_LOG_DEBUG, "waits in line for #%u", keeper->number);
    c->linger.in_line = true;
    zkl__list_append(&q->line, &c->linger.link);
    if (keeper->state == ZKL__LINGERING) {
        zkl__contender_post(keeper, ZKL__EV_TIME);
    }
    return true;
}

/* --- arming ---------------------------------------------------------------------------------- */

/* This list shows our znode alone, and the queue is watched. */
static bool may_arm(const struct zkl__contender *c)
{
    const struct zkl__list_index *index = c->core->index; /* where any lock lingers */
    return index && index->count == 1 && c->watches[ZKL__WATCHED_LINGER].entry.link;
}

/* --- released, and kept ---------------------------------------------------------------------- */

/* It waits for the end of a znode, the keeper's for instance. The others that wait on the servers
 * will follow the keeper, or leave. */
static bool follows_nobody(const struct zkl__contender *c)
{
    return is_queued(c) && zkl__contender_waits(c) &&
           (c->multi || (c->state == ZKL__WATCHING && !c->peer.follows));
}

/* It will follow us, if it does not yet: its own list is under way. */
static bool comes_behind(const struct zkl__contender *c)
{
    return is_queued(c) && zkl__contender_waits(c) && !follows_nobody(c);
}

/* The lock is released. True: its znode stays. */
static bool linger_keep(struct zkl__contender *c)
{
    if (c->config.linger == 0 || !c->core->connected) {
        return false;
    }
    /* The release mark would name our znode, and those behind the follower's would miss the name of
     * that one. A keeper whose znode somebody has deleted by hand may not know that yet. */
    const struct zkl__contender *next = zkl__peers_first_follower(c);
    bool gathers = c->linger.state == ZKL__LINGER_OFF && !c->config.mark &&
                   !c->peer.queue->keeper && !c->peer.queue->strangers &&
                   (next ? may_follow(c, next) : any_other(c, comes_behind));
    if (!gathers && !is_keeper(c)) {
        return false;
    }
    /* Copies the access list, which the owner may free from now on. */
    if (c->config.acl && !c->linger.acl) {
        c->linger.acl = zkl__acl_copy(c->heap, c->config.acl);
        c->config.acl = c->linger.acl;
        if (!c->linger.acl) {
            return false;
        }
    }
    if (gathers) {
        move_linger(c, ZKL__LINGER_GATHERING, "those behind us are of this session");
    }
    c->linger.until = c->core->now + c->config.linger;
    c->linger.checks = false;
    report(c, ZKL__RELEASED, ZKL_OK, "released, and it lingers");
    contender_move(c, ZKL__LINGERING, "released, and it lingers");
    if (c->peer.queue->line.first || c->linger.state == ZKL__LINGER_GATHERING) {
        zkl__contender_post(c, ZKL__EV_TIME);
    }
    return true;
}

/* --- granted again ---------------------------------------------------------------------------- */

/* Its owner still waits. A step may bring a release before it brings the time. */
static bool is_wanted(const struct zkl__contender *c)
{
    return zkl__contender_waits(c) && c->core->now < c->deadline;
}

static void send_check(struct zkl__contender *c, bool released)
{
    if (!zkl__under_way(c, ZKL__ROLE_PROVE)) {
        c->linger.checks = released;
        contender_send_of_node(c, ZKL__ROLE_PROVE, ZKL__OP_CHECK, c->node.name);
    }
}

/* Nobody of this session stands behind us: the list goes behind the delete of the last one. */
static void send_list_of_keeper(struct zkl__contender *c)
{
    c->linger.lists_again = zkl__under_way(c, ZKL__ROLE_LIST);
    if (!c->linger.lists_again) {
        contender_send_list(c);
    }
}

/* Grants it, or sends the check that the grant still needs. Without a lease it waits for one. */
static void grant_or_check(struct zkl__contender *c, struct zkl__contender *next)
{
    bool checked =
        c->linger.checks && c->event->kind == ZKL__EV_REPLY && c->event->role == ZKL__ROLE_PROVE;
    bool proved = checked || (shown_within(c, 1) && c->core->writes == 0);
    if (!proved || !zkl__core_grants(c->core)) {
        if (!proved || !c->linger.checks) {
            send_check(c, true);
        }
        return;
    }
    /* The owner has this contender from now on, instead of the one that it made. */
    const struct zkl__contender_config own = c->config;
    c->config = next->config;
    c->config.metadata = own.metadata;
    c->config.acl = own.acl;
    c->since = next->since;
    if (next->linger.in_line) {
        take_out_of_line(next);
    } else {
        zkl__peers_replace(next, c);
    }
    next->started = false;
    next->config.notify = NULL;
    zkl__contender_post(next, ZKL__EV_TAKEN);
    contender_move(c, ZKL__HELD, "it lingered");
    c->mark.state = c->config.mark ? ZKL__MARK_CLEAN : ZKL__MARK_UNKNOWN;
    c->grant.end = ZKL__GRANT_KEPT;
    notify_granted(c);
    if (!shown_within(c, 2)) {
        send_check(c, false); /* for the next grant, which then waits for nothing */
    }
    if (c->linger.state == ZKL__LINGER_GATHERING && !c->peer.followers.first) {
        send_list_of_keeper(c);
    }
}

/* It lingers no more, and if it is released, it is deleted: somebody queues, the lease ended, or no
 * lock object can be granted it any more. */
static void linger_end(struct zkl__contender *c, enum zkl__linger_state state, const char *why)
{
    move_linger(c, state, why);
    if (c->state == ZKL__LINGERING) {
        own_watch_forget(c);
        leave(c);
        contender_move(c, ZKL__REMOVING, why);
    }
}

/* Each contender that waits is granted the lock or leaves, and both wake the keeper. */
static int64_t linger_wake(const struct zkl__contender *c)
{
    bool wanted = c->peer.queue->line.first || c->peer.followers.first;
    return c->state == ZKL__LINGERING && !wanted ? c->linger.until : INT64_MAX;
}

/* Released: grants it to the next one of this session, asks for what that needs, or ends it when
 * its time is over. */
static void linger_on_time(struct zkl__contender *c)
{
    bool gathers = c->linger.state == ZKL__LINGER_GATHERING;
    struct zkl__contender *next = NULL;
    if (gathers) {
        next = zkl__peers_first_follower(c);
    } else { /* the first in line */
        ZKL__EACH (struct zkl__contender, waiting, &c->peer.queue->line, linger.link) {
            if (is_wanted(waiting)) {
                next = waiting;
                break;
            }
        }
    }
    if (gathers && next && !may_follow(c, next)) {
        /* a znode of its own is what it waits with */
        linger_end(c, ZKL__LINGER_OFF, "another kind of contender is next");
    } else if (next && is_wanted(next)) {
        grant_or_check(c, next);
    } else if (linger_wake(c) <= c->core->now) {
        linger_end(c, ZKL__LINGER_OFF, "nobody wanted it");
    } else if (gathers && !next) {
        send_list_of_keeper(c);
    }
}

/* Gathering, and the reply to its own list. */
static void linger_on_list(struct zkl__contender *c)
{
    enum zkl__rc rc = c->event->reply->rc;
    if (rc == ZKL__RC_UNKNOWN) {
        return; /* the connection was lost, which has mail of its own */
    }
    if (rc == ZKL__RC_OK && !zkl__list_has(c->event->reply, c->core->index, c->node.name)) {
        node_removed(c);
    } else if (rc == ZKL__RC_OK && may_arm(c)) {
        move_linger(c, ZKL__LINGER_ARMED, "alone in the queue, which is watched");
        if (c->state == ZKL__LINGERING) {
            linger_on_time(c);
        }
    } else if (rc == ZKL__RC_OK && any_other(c, comes_behind) && !any_other(c, follows_nobody)) {
        return;
    } else if (rc == ZKL__RC_OK && c->linger.lists_again) {
        send_list_of_keeper(c);
    } else {
        linger_end(c, ZKL__LINGER_OFF,
                   "somebody else is in the queue, or nothing shows that nobody is");
    }
}

/* --- the next request ------------------------------------------------------------------------- */

static void advance_waiting(struct zkl__contender *c)
{
    bool lists = zkl__under_way(c, ZKL__ROLE_LIST);
    /* A contender that follows one of its own session, or waits for the list of its create, needs
     * no czxid yet. Each other one reads its own before it reads its predecessor: without it, it
     * cannot say whether that znode is older. */
    bool follows = c->state == ZKL__WATCHING && c->peer.follows;
    bool leased, shown, others;
    if (!follows && !(c->state == ZKL__CREATING && lists) && zkl__node_known(&c->node) &&
        !c->node.czxid && !zkl__node_unsure(&c->node) && !zkl__under_way(c, ZKL__ROLE_STAT)) {
        contender_send_of_node(c, ZKL__ROLE_STAT, ZKL__OP_EXISTS, c->node.name);
    }
    switch (c->state) {
    case ZKL__NEW:
        if (!lists && !linger_waits(c)) { /* one of the last attempt: its answer comes first */
            node_send_create(c);
        }
        break;
    case ZKL__CREATING:
        if (!lists && !zkl__under_way(c, ZKL__ROLE_CREATE)) {
            node_send_create(c);
        }
        break;
    case ZKL__MAKING:
        if (!zkl__under_way(c, ZKL__ROLE_MAKE)) {
            /* Servers delete an empty container, and the mark with it. */
            contender_send(
                c, ZKL__ROLE_MAKE,
                (struct zkl__op){.kind = ZKL__OP_CREATE,
                                 .dir = c->make_path,
                                 .mode = c->config.mark ? ZKL__PERSISTENT : ZKL__CONTAINER,
                                 .acl = c->config.acl});
        }
        break;
    case ZKL__LISTING:
        if (c->conflict.directory && c->conflict.stage != ZKL__CONFLICT_NONE) {
            bool conflict_lists = c->conflict.stage == ZKL__CONFLICT_LISTS;
            if (!zkl__under_way(c, ZKL__ROLE_CONFLICT)) {
                contender_send_of_node(
                    c, ZKL__ROLE_CONFLICT, conflict_lists ? ZKL__OP_CHILDREN : ZKL__OP_EXISTS,
                    conflict_lists ? c->conflict.directory : predecessor_name(c));
            }
        } else if (!lists) {
            contender_send_list(c);
            mark_send_read(c);
        }
        break;
    case ZKL__WATCHING:
        if (c->suspicion.state == ZKL__SUSPICION_INSPECTED) {
            inspection_send(c);
        } else if (!c->peer.follows) {
            predecessor_look(c);
        }
        break;
    default: /* ZKL__PROVING: the others do not wait */
        /* Somebody may delete our znode by hand, and another contender of this session may notice
         * that and be granted before us. So a response that shows our znode counts for one
         * heartbeat. A multi-contender has a rule of its own (multi.c, look_again). */
        shown = c->multi || shown_within(c, 1) ||
                (c->event->kind == ZKL__EV_REPLY && c->event->role == ZKL__ROLE_PROVE);
        leased = zkl__core_leased(c->core);
        others = !c->multi || c->multi->open; /* all its members are first */
        if (c->config.mark && c->mark.state != ZKL__MARK_UNCLEAN && !is_clean(c)) {
            mark_send_read(c); /* how did the last holder end? Or the delay is not over */
        } else if (c->node.czxid && others && leased && shown) {
            grant(c);
        } else if (!zkl__under_way(c, ZKL__ROLE_PROVE) && (leased ? !shown : !c->grant.proved)) {
            c->grant.proved = true;
            contender_send_of_node(c, ZKL__ROLE_PROVE, ZKL__OP_CHECK, c->node.name);
        }
        break;
    }
}

/* Sends what the state needs and is not under way, if there is a connection. Each step ends with
 * it. */
static void contender_advance(struct zkl__contender *c)
{
    /* No znode of ours is left, as far as the responses of this session say, and none can be
     * created any more. */
    if (c->state == ZKL__REMOVING && !zkl__node_known(&c->node) && !zkl__node_unsure(&c->node) &&
        !(c->under_way & MAKES)) {
        contender_finish(c, ZKL_OK, "nothing of ours is left");
        return;
    }
    if (!c->core->connected || c->retry.at > c->core->now) {
        return;
    }
    if (zkl__contender_waits(c)) {
        advance_waiting(c);
    } else if (c->state == ZKL__REMOVING ||
               (c->state == ZKL__LOST && c->grant.end == ZKL__GRANT_OVERSTAYED)) {
        cleanup_advance(c);
    } else if (zkl__contender_keeps(c)) {
        replacement_send(c);
        own_watch_advance(c);
    }
}

/* === what the replies mean ==================================================================== */

static void decide_by_list(struct zkl__contender *c)
{
    c->retry.pause = 0;
    if (!node_in_list(c)) {
        return;
    }
    if (zkl__sequence_used_up(zkl__name_sequence(c->node.name))) {
        contender_fail(c, ZKL_EEXHAUSTED, EXHAUSTED);
        return;
    }
    /* One that may not be read, if the list shows it still: then those between it and us need no
     * other look, for they have been found to be no contenders. */
    const char *before = c->predecessor.access == ZKL__ACCESS_NONE ? predecessor_name(c) : NULL;
    bool hidden = before && zkl__list_has(c->event->reply, c->core->index, before) &&
                  zkl__kind_conflicts(c, before, zkl__name_parse(before).kind);
    if (path_conflict_seen(c) || !predecessor_position(c, hidden)) {
        return;
    }
    before = hidden ? before : zkl__list_predecessor(c, c->event->reply, c->core->index);
    if (!before) {
        predecessor_none(c);
        if (may_arm(c) && !any_other(c, is_queued)) {
            move_linger(c, ZKL__LINGER_ARMED, "alone in the queue, which is watched");
        }
    } else {
        c->waited = true;
        /* Of two znodes with the same number the inspection may begin with another one. */
        before = !hidden && inspection_begin(c) ? inspection_nearest(c)->name : before;
        predecessor_wait_for(c, before);
    }
}

/* A node that we may not read is there all the same: the leader looks for the session, then for the
 * node, then at its access list (PrepRequestProcessor.pRequest2Txn, OpCode.check), so NOAUTH says
 * that both are there. */
static void node_on_check(struct zkl__contender *c)
{
    enum zkl__rc rc = c->event->reply->rc;
    bool replacing = c->replacement.state != ZKL__REPLACING_NOT;
    /* Once for each path: who contends there has the same credentials the next time. */
    if (rc == ZKL__RC_NOAUTH && c->event->role == ZKL__ROLE_BEAT && c->state == ZKL__HELD &&
        !replacing && !c->path_stats->warned_of_read) {
        c->path_stats->warned_of_read = true;
        say(c, ZKL_LOG_WARN,
            "READ on our own znode %s is missing: the lock is held, but a removal by "
            "hand is noticed late, "
            "and nobody sees who holds. Let the access list of what is created "
            "(zkl_acl) give READ to us",
            c->node.name);
    }
    if (rc == ZKL__RC_NONODE && zkl__node_known(&c->node) && !replacing) {
        if (zkl__contender_is_first(c)) {
            node_removed(c);
        }
    } else if (c->state == ZKL__LINGERING) {
        if (rc == ZKL__RC_OK || rc == ZKL__RC_NOAUTH) {
            linger_on_time(c);
        } else if (c->event->role == ZKL__ROLE_PROVE && rc != ZKL__RC_UNKNOWN) {
            linger_end(c, ZKL__LINGER_OFF, "nothing shows that it may be granted again");
        }
    } else if (c->state == ZKL__PROVING && c->event->role == ZKL__ROLE_PROVE && rc != ZKL__RC_OK &&
               rc != ZKL__RC_NOAUTH) {
        c->grant.proved = false;
        contender_fail_by_reply(c);
    }
}

static void on_list(struct zkl__contender *c)
{
    enum zkl__rc rc = c->event->reply->rc;
    if (c->state == ZKL__REMOVING || c->state == ZKL__LOST) {
        cleanup_on_list(c);
    } else if (c->linger.state == ZKL__LINGER_GATHERING) {
        linger_on_list(c);
    } else if (c->state == ZKL__CREATING && c->node.fate == ZKL__FATE_LISTED) {
        /* Another znode has the name that our create would have got: the list shows which ones are
         * ours. */
        c->node.fate = ZKL__FATE_TWICE;
        if (rc == ZKL__RC_OK) {
            decide_by_list(c);
        } else if (rc == ZKL__RC_NONODE) {
            node_removed(c); /* with the directory */
        } else {
            contender_fail_by_reply(c);
        }
    } else if ((c->state != ZKL__CREATING && c->state != ZKL__LISTING) ||
               !zkl__node_known(&c->node)) {
        return; /* of the last attempt, or the create before it was not applied: the next one
                   waited for it, and is sent below */
    } else if (rc == ZKL__RC_OK) {
        decide_by_list(c);
    } else if (rc == ZKL__RC_NONODE) {
        contender_queue_again(c, "the directory was removed by somebody");
    } else {
        if (c->state == ZKL__CREATING) {
            contender_move(c, ZKL__LISTING, NO_LIST);
        }
        contender_fail_by_reply(c);
    }
}

static void (*const on_reply[ZKL__ROLES])(struct zkl__contender *) = {
    [ZKL__ROLE_CREATE] = node_on_create,
    [ZKL__ROLE_LIST] = on_list,
    [ZKL__ROLE_WATCH] = predecessor_on_reply,
    [ZKL__ROLE_STAT] = node_on_stat,
    [ZKL__ROLE_PROVE] = node_on_check,
    [ZKL__ROLE_BEAT] = node_on_check,
    [ZKL__ROLE_DELETE] = cleanup_on_reply,
    [ZKL__ROLE_SYNC_POINT] = cleanup_on_sync_point,
    [ZKL__ROLE_MAKE] = directory_on_reply,
    [ZKL__ROLE_REPLACE] = replacement_on_reply,
    [ZKL__ROLE_READ] = mark_on_read,
    [ZKL__ROLE_OWN_WATCH] = own_watch_on_reply,
    [ZKL__ROLE_CONFLICT] = path_conflict_on_reply,
};

/* === its mail ================================================================================= */

/* What is posted to a contender, and the order in which it is read. */

/* All from START on: orders, and the time. */
#define ORDERS (~(ZKL__MAIL(ZKL__EV_START) - 1))

void zkl__contender_post(struct zkl__contender *c, enum zkl__event_kind kind)
{
    c->mail.kinds |= ZKL__MAIL(kind);
    zkl__core_post(&c->machine);
}

void zkl__contender_leave(struct zkl__contender *c)
{
    c->config.notify = NULL;
    if (c->state == ZKL__NEW && !c->started) {
        zkl__core_bury(&c->machine);
    } else {
        c->mail.code = ZKL_ECANCELED;
        zkl__contender_post(c, ZKL__EV_CLOSE);
    }
}

void zkl__contender_start(struct zkl__contender *c, int64_t deadline, bool try_only)
{
    c->deadline = deadline;
    c->try_only = try_only;
    zkl__contender_post(c, ZKL__EV_START);
}

void zkl__contender_post_reply(struct zkl__contender *c, enum zkl__role role,
                               const struct zkl__reply *reply)
{
    if (!zkl__rc_is_response(reply->rc)) {
        c->mail.ended |= UNDER_WAY(role);
        c->mail.unsent[role] = (signed char)reply->unsent;
    } else {
        ZKL__ENSURE(!c->mail.reply); /* a step brings one reply, and deals it out once */
        c->mail.role = role;
        c->mail.reply = reply;
    }
    zkl__contender_post(c, ZKL__EV_REPLY);
}

/* === events and the step ====================================================================== */

static void on_time(struct zkl__contender *c)
{
    if (c->retry.at <= c->core->now) {
        c->retry.at = 0;
    }
    if (c->grant.least_until <= c->core->now) {
        c->grant.least_until = 0;
    }
    if (c->mark.state == ZKL__MARK_DELAYS && c->mark.until <= c->core->now) {
        c->mark.state = ZKL__MARK_UNCLEAN;
    }
    if (zkl__contender_keeps(c) && c->own.guard_at <= c->core->now) {
        c->own.guard_at = 0;
    }
    if (zkl__contender_waits(c) && c->deadline <= c->core->now) {
        contender_fail(
            c, ZKL_ETIMEOUT,
            !c->core->connected ? "the time is up, and no server is reached"
            : c->mark.state == ZKL__MARK_DELAYS
                ? "the time is up before delay_after_crash_ms: the last holder did not release"
            : c->state == ZKL__PROVING && zkl__lease_doubted(&c->core->lease, c->core->now)
                ? "the time is up: no server was reached for a session timeout, and "
                  "nothing is granted until another one has passed"
                : "the time is up");
    } else if (c->state == ZKL__LINGERING) {
        linger_on_time(c);
    } else if (grant_wake(c) <= c->core->now) {
        /* max_hold_ms have passed: the znode is deleted, also if the owner had lost the lock before
         * and does not release it. */
        c->grant.end = ZKL__GRANT_OVERSTAYED;
        replacement_forget(c);
        if (c->state == ZKL__HELD) {
            grant_lose(c, "held for longer than max_hold_ms");
        }
    }
}

static void on_release(struct zkl__contender *c)
{
    ZKL__ENSURE(c->state == ZKL__HELD || c->state == ZKL__LOST);
    on_time(c); /* max_hold_ms may have passed */
    bool hands_over = c->state == ZKL__HELD && c->replacement.state == ZKL__REPLACING_NOT;
    c->grant.end = hands_over ? ZKL__GRANT_HANDED_OVER : ZKL__GRANT_RELEASED;
    if (hands_over && linger_keep(c)) {
        return;
    }
    if (hands_over && c->core->now < c->grant.least_until) {
        /* The owner is notified now, and does not wait for the delete. That hands the lock over to
         * nobody, because somebody may have deleted the znode by hand meanwhile. */
        c->grant.end = ZKL__GRANT_RELEASED;
        report(c, ZKL__RELEASED, ZKL_OK, "released, and its znode stays");
    } else {
        c->grant.least_until = 0;
    }
    leave(c);
    replacement_forget(c);
    own_watch_forget(c); /* our delete uses the watch up */
    contender_move(c, ZKL__REMOVING, "released");
}

const char *zkl__cancel_text(int code)
{
    return code == ZKL_ECLOSED    ? "the session is closed"
           : code == ZKL_EAUTH    ? "the servers refuse our credentials"
           : code == ZKL_ELOST    ? "one of our nodes was removed by somebody"
           : code == ZKL_ETIMEOUT ? "the time is up"
                                  : "cancelled";
}

static void read_event(struct zkl__contender *c)
{
    char name[ZKL__NAME_MAX];
    const struct zkl__inspection *inspection;
    switch (c->event->kind) {
    case ZKL__EV_START:
        ZKL__ENSURE(c->state == ZKL__NEW && !c->started);
        c->started = true;
        zkl__stats_move(c, ZKL__NEW);
        new_attempt(c);
        break;
    case ZKL__EV_REPLY:
        c->under_way &= ~UNDER_WAY(c->event->role);
        on_reply[c->event->role](c);
        break;
    case ZKL__EV_WATCH:
        if (c->state == ZKL__WATCHING) { /* else it went on by what else it read */
            c->predecessor.armed = false;
            contender_move(c, ZKL__LISTING, "who was before us went or changed");
        }
        break;
    case ZKL__EV_OWN_WATCH:
        if (c->event->watch == ZKL__WATCH_DELETED && zkl__contender_keeps(c)) {
            node_removed(c);
        }
        break;
    case ZKL__EV_QUEUE_WATCH:
        /* A child of the queue came or went. Of a predecessor that may not be read we know no more
         * than that the list has shown it. */
        if (c->state == ZKL__WATCHING && !c->peer.follows) {
            c->predecessor.armed = false;
            contender_move(c, ZKL__LISTING,
                           "the queue changed, and who is before us may not be read");
        } else if (c->state == ZKL__LISTING && zkl__under_way(c, ZKL__ROLE_LIST)) {
            c->predecessor.changed = true; /* a watch that another one of the session had set: ours
                                              comes with the list */
            contender_watch(c, ZKL__WATCHED_QUEUE);
        }
        break;
    case ZKL__EV_HANDED:
        /* Another contender of this session releases, and ours is next. It is granted without a
         * look at the gates, because may_hand_over (queue.c) has already asked for the same: the
         * predecessor waited for every kind that we wait for and held until its release, our czxid
         * is known, the session has a lease, and a list within a heartbeat showed our znode. */
        c->mark.state = c->config.mark ? ZKL__MARK_CLEAN : ZKL__MARK_UNKNOWN;
        c->mark.version = c->peer.follows->mark.version;
        contender_move(c, ZKL__PROVING, "released by another one of this session, and we are next");
        grant(c);
        break;
    case ZKL__EV_CONNECTED:
        c->retry.at = 0;
        c->node.removes_duplicate = false;
        c->predecessor.access = ZKL__ACCESS_GET;
        if (c->state == ZKL__WATCHING || c->state == ZKL__PROVING ||
            (c->state == ZKL__CREATING && zkl__node_known(&c->node))) {
            predecessor_unwatch(c, true);
            contender_move(c, ZKL__LISTING, "connected again: look again");
        }
        break;
    case ZKL__EV_EXPIRED:
        c->held_back = c->under_way = 0;
        c->retry.at = 0;
        if (c->state == ZKL__NEW) {
            break;
        }
        if (zkl__contender_waits(c)) {
            contender_queue_again(c, "the session ended");
            break;
        }
        node_ended(&c->node);
        c->replacement.state = ZKL__REPLACING_NOT;
        if (c->state == ZKL__HELD) {
            grant_lose(c, "the session ended");
        } else if (c->state == ZKL__REMOVING || c->state == ZKL__LINGERING) {
            contender_finish(c, ZKL_ELOST, "the session ended");
        }
        break;
    case ZKL__EV_LAPSED:
        if (c->state == ZKL__HELD) {
            grant_lose(c, "the lease ended");
        } else if (c->state == ZKL__LINGERING) {
            linger_end(c, ZKL__LINGER_OFF, "the lease ended");
        }
        break;
    case ZKL__EV_TIME:
        on_time(c);
        break;
    case ZKL__EV_TAKEN:
        if (c->state == ZKL__NEW) {
            contender_move(c, ZKL__ENDED, "the lock that lingers is its owner's");
        } else {
            contender_withdraw(c, "the lock that lingers is its owner's");
        }
        break;
    case ZKL__EV_LINGER_WATCH:
        /* The queue's list changed: somebody queues, most likely. A watch that another one of this
         * session had set may fire before the answer to our list; ours comes with that. */
        if (c->linger.state == ZKL__LINGER_ARMED) {
            linger_end(c, ZKL__LINGER_YIELDING, "the queue has changed");
        } else if (zkl__under_way(c, ZKL__ROLE_LIST)) {
            (void)linger_list_watches(c);
        }
        break;
    case ZKL__EV_YIELD:
        /* The connection is lost, a list has shown a contender of another session, or another one
         * of this session queues. What was sent on a lost connection may be done at any time while
         * our znode stands: nothing makes a holder of before that a keeper. */
        if (!c->core->connected && c->state != ZKL__LINGERING &&
            c->linger.state != ZKL__LINGER_YIELDING) {
            move_linger(c, ZKL__LINGER_YIELDING, "no server");
        } else if (is_keeper(c)) {
            linger_end(c, ZKL__LINGER_OFF, c->core->connected ? "another one queues" : "no server");
        }
        break;
    case ZKL__EV_INSPECTED:
        inspection = c->suspicion.inspection;
        if (c->suspicion.state != ZKL__SUSPICION_INSPECTED) {
            break;
        }
        if (zkl__children_count(inspection->candidates, ZKL__CHILD_EPHEMERAL) > limit_of(c)) {
            contender_fail(c, ZKL_EBUSY, "more are before us than max_ahead");
        } else if (inspection->broken) {
            contender_retry_later(c);
        } else if (inspection->stale) {
            c->suspicion.state = ZKL__SUSPICION_ARISEN;
            contender_move(c, ZKL__LISTING, "one of those before us is gone");
        } else {
            c->retry.pause = 0;
            look_further(c);
        }
        break;
    case ZKL__EV_LIST:
        if (c->state == ZKL__PROVING) {
            contender_move(c, ZKL__LISTING, "our list is older than the others'");
        }
        break;
    case ZKL__EV_CLOSE:
        c->config.linger = 0;
        if (c->core->closing) { /* nothing keeps its node any more */
            c->grant.least_until = 0;
        }
        if (c->state == ZKL__LINGERING) {
            linger_end(c, ZKL__LINGER_OFF, "nobody is to have it any more");
        } else if (c->state == ZKL__HELD || c->state == ZKL__LOST) {
            on_release(c);
        }
        /* fall through */
    case ZKL__EV_CANCEL:
        if (zkl__contender_waits(c)) {
            contender_fail(c, c->event->code, zkl__cancel_text(c->event->code));
        }
        break;
    case ZKL__EV_RELEASE:
        on_release(c);
        break;
    case ZKL__EV_DOWNGRADE:
        ZKL__ENSURE((c->state == ZKL__HELD || c->state == ZKL__LOST) &&
                    c->replacement.state == ZKL__REPLACING_NOT && !c->config.revocable);
        if (c->state == ZKL__LOST) {
            break; /* the lease ended between the owner's look and this step */
        }
        if (c->linger.state != ZKL__LINGER_OFF) {
            move_linger(c, ZKL__LINGER_OFF, "downgraded");
        }
        own_watch_forget(c); /* the transaction uses the watch up */
        c->replacement.state = ZKL__REPLACING;
        c->replacement.sequence = zkl__name_sequence(c->node.name);
        make_name(c, name);
        say(c, ZKL_LOG_DEBUG, "downgrades to %s", name);
        break;
    default: /* a look always comes to another event */
        break;
    }
}

/* === what a step changes for its session ====================================================== */

void zkl__owner_notify(struct zkl__contender_config *config, const struct zkl__outcome *outcome)
{
    void (*notify)(void *, const struct zkl__outcome *) = config->notify;
    if (outcome->kind == ZKL__FAILED || outcome->kind == ZKL__RELEASED) {
        config->notify = NULL; /* its last word */
    }
    if (notify) {
        notify(config->owner, outcome);
    }
}

static void step_and_carry_out(struct zkl__contender *c, const struct zkl__mail *event)
{
    struct zkl__core *core = c->core;
    struct zkl__outcome out;
    enum zkl__contender_state before;
    ZKL__ENSURE(!c->event);
    c->event = event;
    c->out = &out;
    c->watch_code = ZKL_OK;
    out.why = NULL;
    read_event(c);
    do { /* to send the next request may be a move, and the next state needs another one */
        before = c->state;
        contender_advance(c);
    } while (c->state != before);
    /* A contender that still waits for its list needs the watch which that list sets. The server
     * keeps it: our own delete uses it up. */
    bool lists = c->state == ZKL__CREATING || c->state == ZKL__MAKING || c->state == ZKL__LISTING;
    if (c->watches[ZKL__WATCHED_LINGER].entry.link && !lists && !is_keeper(c)) {
        if (zkl__node_known(&c->node) || zkl__node_unsure(&c->node)) {
            zkl__watch_forget(core, &c->watches[ZKL__WATCHED_LINGER]);
        }
        zkl__watch_remove(core, &c->watches[ZKL__WATCHED_LINGER]);
    }
    c->event = NULL;
    c->out = NULL;
    zkl__peers_stepped(c);
    if (out.why) { /* behind what was sent: whoever wakes up finds it done */
        zkl__owner_notify(&c->config, &out);
    }
}

/* --- its mail -------------------------------------------------------------------------------- */

static void read_mail(struct zkl__machine *machine)
{
    struct zkl__contender *c = (struct zkl__contender *)machine;
    char node[ZKL__NAME_MAX];
    bool leaving = zkl__peers_leaving(c);
    struct zkl__mail mail = c->mail;
    struct zkl__reply ended;
    c->mail = (struct zkl__mail){0};
    zkl__name_copy(node, c->node.name);
    while (mail.kinds) {
        mail.kind = (enum zkl__event_kind)__builtin_ctz(mail.kinds);
        bool replied = mail.kind == ZKL__EV_REPLY;
        if (replied && !mail.reply) {
            mail.role = (enum zkl__role)__builtin_ctz(mail.ended);
            mail.ended &= mail.ended - 1;
            ended = (struct zkl__reply){.unsent = mail.unsent[mail.role]};
            ended.rc = ended.unsent ? ZKL__RC_UNSENT : ZKL__RC_UNKNOWN;
            mail.reply = &ended;
        }
        if (!replied || !mail.ended) {
            mail.kinds &= ~ZKL__MAIL(mail.kind);
        }
        if (mail.kind == ZKL__EV_EXPIRED) {
            /* The rest was the old session's, but for what is to be seen here, on no server. */
            mail.kinds &= ZKL__MAIL(ZKL__EV_LOOK) | ORDERS;
        }
        if (mail.kind == ZKL__EV_LOOK && c->state != ZKL__ENDED) { /* as things stand now */
            mail.kind = c->peer.follows ? zkl__peers_check(c) : ZKL__EV_TIME;
        }
        if (c->state != ZKL__ENDED && mail.kind != ZKL__EV_LOOK) {
            step_and_carry_out(c, &mail);
        }
        mail.reply = replied ? NULL : mail.reply;
    }
    zkl__peers_notify_changes(c, node, leaving);
    /* When it is to be stepped next. */
    int64_t wake = INT64_MAX;
    if (c->state != ZKL__ENDED) { /* then nothing of it is read any more, and a time that has passed
                                     would ring for ever */
        wake = zkl__sooner(grant_wake(c), c->retry.at);
    }
    if (zkl__contender_waits(c)) {
        wake = zkl__sooner(wake, c->deadline);
        wake = c->mark.state == ZKL__MARK_DELAYS ? zkl__sooner(wake, c->mark.until) : wake;
    } else if (zkl__contender_keeps(c)) {
        wake = zkl__sooner(zkl__sooner(wake, c->own.guard_at), linger_wake(c));
    } else if (c->state == ZKL__REMOVING) {
        wake = zkl__sooner(wake, c->grant.least_until);
    }
    zkl__timers_set(&c->core->timers, &c->machine.timer, wake);
    /* What a lock that lingers says of its contender. */
    bool keeper = is_keeper(c);
    ZKL__ENSURE(keeper == (c->peer.queue->keeper == c));
    ZKL__ENSURE(!keeper || zkl__contender_is_first(c));
    ZKL__ENSURE(c->linger.state != ZKL__LINGER_ARMED || c->watches[ZKL__WATCHED_LINGER].entry.link);
    ZKL__ENSURE(c->state != ZKL__LINGERING || keeper);
    ZKL__ENSURE(!c->linger.in_line || c->state == ZKL__NEW);
    if (c->multi) { /* which acts when all members with mail were stepped */
        zkl__core_post(&c->multi->machine);
    }
    /* Its memory stays until no operation of its own is without a reply. */
    if (c->state == ZKL__ENDED && !c->machine.pending.first && !c->peer.list) {
        zkl__core_bury(&c->machine);
    }
}

/* --- replies and refusals of the session ------------------------------------------------------ */

static void on_contender_reply(struct zkl__machine *machine, int role, int64_t sent,
                               const struct zkl__reply *reply)
{
    struct zkl__contender *c = (struct zkl__contender *)machine;
    if (role >= ZKL__ROLES) {
        inspection_answered(c, (size_t)(role - ZKL__ROLES), reply);
        return;
    }
    if (role == ZKL__ROLE_LIST && zkl__peers_on_list(c, reply)) {
        return;
    }
    /* Such an answer says that our node was there; that of a check also where we may not read it
     * (see take_reply). */
    bool check = role == ZKL__ROLE_PROVE || role == ZKL__ROLE_BEAT;
    if ((reply->rc == ZKL__RC_OK && (role == ZKL__ROLE_CREATE || role == ZKL__ROLE_STAT)) ||
        (check && (reply->rc == ZKL__RC_OK || reply->rc == ZKL__RC_NOAUTH))) {
        c->shown_at = sent;
    }
    zkl__contender_post_reply(c, (enum zkl__role)role, reply);
}

/* Nothing is created for a contender that waits no more, neither its znode nor its directory. */
static bool still_wants(const struct zkl__machine *machine, int role)
{
    bool makes = role == ZKL__ROLE_CREATE || role == ZKL__ROLE_MAKE;
    return !makes || zkl__contender_waits((const struct zkl__contender *)machine);
}

static void on_order(struct zkl__machine *machine, const struct zkl__event *order)
{
    struct zkl__contender *c = (struct zkl__contender *)machine;
    switch (order->kind) {
    case ZKL__EV_START:
        zkl__contender_start(c, order->deadline, order->try_only);
        break;
    case ZKL__EV_LET_GO:
        zkl__contender_leave(c);
        break;
    case ZKL__EV_DOWNGRADE:
        c->replacement.rule = order->rule;
        /* fall through */
    default:
        c->mail.code = order->code;
        zkl__contender_post(c, order->kind);
    }
}

/* --- life ------------------------------------------------------------------------------------ */

static void free_contender(struct zkl__machine *machine)
{
    struct zkl__contender *c = (struct zkl__contender *)machine;
    struct zkl__core *core = c->core;
    const zkl_heap *heap = c->heap;
    ZKL__ENSURE(!c->peer.followers.first);
    for (int i = 0; i < ZKL__WATCHED; i++) {
        zkl__watch_forget(core, &c->watches[i]);
    }
    zkl__multi_leave(c);
    zkl__list_remove(&core->machines[ZKL__RANK_FIRST], &machine->in_session);
    zkl__peers_leave(c);
    inspection_drop(c);
    zkl__free(heap, c->watches[ZKL__WATCHED_PREDECESSOR].entry.path);
    zkl__free(heap, c->watches[ZKL__WATCHED_OWN].entry.path);
    zkl__free(heap, c->linger.acl);
    zkl__free(heap, c->make_path);
    zkl__free(heap, c->config.metadata);
    zkl__free(heap, c);
}

static const struct zkl__machine_ops contender_ops = {.rank = ZKL__RANK_FIRST,
                                                      .step = read_mail,
                                                      .answered = on_contender_reply,
                                                      .wants = still_wants,
                                                      .holds = zkl__contender_holds,
                                                      .order = on_order,
                                                      .free = free_contender};

struct zkl__contender *zkl__contender_new(struct zkl__core *core,
                                          const struct zkl__contender_config *config)
{
    const zkl_heap *heap = &core->config.heap;
    struct zkl__contender *c = zkl__zalloc(heap, sizeof *c);
    if (!c) {
        return NULL;
    }
    const char *metadata = config->metadata ? config->metadata : "";
    c->machine.ops = &contender_ops;
    c->machine.core = core;
    c->heap = heap;
    c->core = core;
    c->config = *config;
    c->config.metadata = zkl__copy_text(heap, metadata);
    zkl__list_append(&core->machines[ZKL__RANK_FIRST], &c->machine.in_session);
    bool joined = c->config.metadata && zkl__peers_join(c, config->path);
    if (!joined) {
        free_contender(&c->machine);
        return NULL;
    }
    c->config.path = c->peer.queue->path;
    c->path_stats = zkl__stats_path(&core->stats, heap, c->config.path);
    c->number = ++core->numbers;
    for (int i = 0; i < ZKL__WATCHED; i++) {
        c->watches[i].owner = c;
    }
    c->watches[ZKL__WATCHED_QUEUE].entry.path = c->config.path;
    c->watches[ZKL__WATCHED_LINGER].entry.path = c->config.path;
    return c;
}

const char *zkl__contender_node(const struct zkl__contender *contender)
{
    return contender->node.name;
}

bool zkl__contender_holds(const struct zkl__machine *machine, int64_t now)
{
    const struct zkl__contender *contender = (const struct zkl__contender *)machine;
    ZKL__ENSURE(zkl__core_settled(contender->core));
    return contender->state == ZKL__HELD && now < contender->core->lease.until &&
           now < contender->grant.hold_until;
}
