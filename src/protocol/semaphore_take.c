/* semaphore_take.c - a permit and the end of its place in one transaction: two round trips, five
 * requests.
 *
 *   get PATH, create in PATH/locks, list of PATH/locks, exists PATH/leases         (sent together)
 *   multi: check PATH at the version read, create the lease, set PATH/leases, delete our lock node
 *
 * It is sent by the head alone, when the stat of PATH/leases shows room. Otherwise, and when a
 * server refuses it, the head makes its leases first and reads them (semaphore_leases.c). So it
 * does for several permits, each of which has a token of its own: the creates of one transaction
 * would share one.
 *
 * Why that is enough. The reply to a write has the stat of the znode as the transaction leaves it,
 * with the number of its children (DataTree.setData, DataNode.copyStat; a server applies the parts
 * of a transaction in their order). So the set of PATH/leases, which stands behind our create,
 * counts all that stood when ours was made: a list could say no more. Children that are no leases
 * count, too, which is on the safe side. The check says that the limit was in force then. So what
 * semaphore_leases.c says of a grant holds: of all that hold at some moment take the one whose
 * leases were made last.
 *
 * Why that is fair. The exists is answered when we are the head: it is sent behind the list that
 * says so, and a server answers a session's requests in order (ZooKeeper Programmer's Guide,
 * Consistency Guarantees: sequential consistency). The head before us made its leases before it
 * gave up its place. So only a client outside the queue can take the room that we saw: one of
 * Curator's whose session ended in the middle of its acquire, say. When more stand than the limit,
 * the leases are read and judged as a head does. If that many live, ours is taken back and we queue
 * again: two that wait beyond the limit without a place would wait for each other for ever.
 *
 * Why the set does no harm. It replaces empty data by empty data, at the version that was read with
 * the size. So data of others stays, and nobody's write is undone.
 *
 * Why no further. One round trip: leases made before we know that we are the head take permits from
 * a head that counts them, Curator's too. Four requests: the list of PATH/locks says that we are
 * the head; without the get nobody knows the limit, nor the version to check; without the exists
 * our place would be given up for a lease beyond the limit. A multi carries no reads, and the
 * client library sends no multiRead.
 *
 * A lost reply. A barrier and a list of the leases tell what became of the transaction (farewell.c
 * says why). The lease is not made once more before that: we may have no place any more. */
#include "semaphore_step.h"

#include "local_queue.h"
#include "name.h"
#include "queue_list.h"
#include "stats.h"

/* --- whether ---------------------------------------------------------------------------------- */

static bool may_take(const struct zkl__semaphore *s)
{
    return s->config.count == 1 && !s->take.refused && !s->place->path_stats->no_take;
}

static void send_look(struct zkl__semaphore *s)
{
    s->take.look = ZKL__TAKE_ASKED;
    zkl__core_send(s->core, &s->machine, ZKL__ROLE_FOLDER,
                   &(struct zkl__op){.kind = ZKL__OP_EXISTS, .dir = s->config.leases});
}

void zkl__semaphore_look_ahead(struct zkl__semaphore *s)
{
    bool queues = s->state >= ZKL__SEMAPHORE_ASKING && s->state <= ZKL__SEMAPHORE_QUEUED;
    if (queues && s->take.look == ZKL__TAKE_UNSEEN && zkl__core_connected(s->core) &&
        zkl__contender_state(s->place) == ZKL__CREATING && zkl__local_list_sent(s->place) &&
        may_take(s)) {
        send_look(s);
    }
}

/* What it says counts if we are the head by now. */
void zkl__semaphore_on_folder(struct zkl__semaphore *s, const struct zkl__reply *reply)
{
    bool queued = zkl__semaphore_waits(s) && s->place;
    bool head = queued && (zkl__contender_state(s->place) == ZKL__PROVING ||
                           zkl__contender_state(s->place) == ZKL__HELD);
    s->take.look = ZKL__TAKE_TOO_EARLY;
    if (head && !reply) {
        zkl__semaphore_put_off(s);
    } else if (head && reply->rc == ZKL__RC_OK) {
        s->take.look = ZKL__TAKE_SEEN;
        s->take.folder = reply->stat;
    } else if (head) {
        s->take.refused = true; /* there is none yet, or we may not read it */
    }
    zkl__semaphore_post(s, ZKL__SM_LOOK);
}

static bool fits(const struct zkl__semaphore *s)
{
    return s->take.folder.child_count + s->config.count <= s->take.limit;
}

/* --- the transaction -------------------------------------------------------------------------- */

static bool hold_create(void *owner, int role)
{
    struct zkl__permit *permit = owner;
    struct zkl__take *take = &permit->semaphore->take;
    take->asked = take->asked || role == ZKL__ROLE_CREATE;
    return role == ZKL__ROLE_CREATE;
}

static void begin(struct zkl__semaphore *s)
{
    zkl__semaphore_move(s, ZKL__SEMAPHORE_TAKING, "we are the head, and there is room");
    if (zkl__semaphore_make_leases(s)) {
        s->take.lease = s->permits[0].contender;
        s->take.lease->config.holds_back = hold_create;
    }
}

void zkl__semaphore_go_on_as_head(struct zkl__semaphore *s)
{
    if (!may_take(s) || s->take.limit == 0 || s->take.sent || zkl__local_delete_waits(s->place)) {
        zkl__semaphore_move(s, ZKL__SEMAPHORE_MAKING, "we are the head");
        zkl__semaphore_make_leases(s);
    } else if (s->take.look == ZKL__TAKE_UNSEEN || s->take.look == ZKL__TAKE_TOO_EARLY) {
        send_look(s);
    } else if (s->take.look == ZKL__TAKE_SEEN && fits(s) && s->take.folder.data_size == 0) {
        begin(s);
    } else if (s->take.look == ZKL__TAKE_SEEN) {
        s->crowded = !fits(s) && !s->try_only;
        zkl__semaphore_move(s, ZKL__SEMAPHORE_MAKING, "we are the head, and there is no room");
        zkl__semaphore_make_leases(s);
    }
}

enum { CHECK, CREATE, SET, DELETE, PARTS };

void zkl__semaphore_send_take(struct zkl__semaphore *s)
{
    if (s->take.sent || !s->take.asked) {
        return;
    }
    const struct zkl__op parts[PARTS] = {
        [CHECK] = {.kind = ZKL__OP_CHECK, .dir = s->config.path, .version = s->take.limit_version},
        [CREATE] = zkl__create_op(s->take.lease),
        [SET] = {.kind = ZKL__OP_SET, .dir = s->config.leases, .version = s->take.folder.version},
        [DELETE] = zkl__delete_op(s->place)};
    s->take.sent = true;
    s->take.sent_at = zkl__core_now(s->core);
    s->take.request = (struct zkl__request){.done = zkl__semaphore_on_take, .owner = s};
    zkl__core_request(
        s->core, &s->take.request,
        &(struct zkl__op){.kind = ZKL__OP_MULTI, .parts = parts, .part_count = PARTS});
}

/* --- what became of it ------------------------------------------------------------------------ */

/* To the create of the lease. Of one that has begun anew in another session it says nothing. */
static void deal(struct zkl__semaphore *s, enum zkl__rc rc, const char *name, int64_t czxid)
{
    struct zkl__contender *lease = s->take.lease;
    s->take.lease = NULL;
    if (!lease) {
        return;
    }
    lease->config.holds_back = NULL;
    if (!s->take.asked) {
        return;
    }
    s->take.asked = false;
    s->take.told =
        (struct zkl__reply){.rc = zkl__contender_state(lease) == ZKL__NEW ? ZKL__RC_NOTAPPLIED : rc,
                            .name = name,
                            .stat.czxid = czxid};
    lease->shown_at = rc == ZKL__RC_OK ? s->take.sent_at : lease->shown_at;
    lease->in_flight--;
    zkl__contender_post_reply(lease, ZKL__ROLE_CREATE, &s->take.told);
}

void zkl__semaphore_forget_take(struct zkl__semaphore *s)
{
    if (!s->take.sent) { /* else its reply comes */
        deal(s, s->state == ZKL__SEMAPHORE_FINDING ? ZKL__RC_UNKNOWN : ZKL__RC_NOTAPPLIED, NULL, 0);
    }
}

static enum zkl__take_fate judge(const struct zkl__reply *reply)
{
    bool whole = reply->part_count == PARTS;
    if (reply->rc == ZKL__RC_OK) {
        return whole && reply->parts[CREATE].name ? ZKL__TAKE_DONE : ZKL__TAKE_UNKNOWN;
    }
    if (!zkl__rc_answered(reply->rc) && reply->rc != ZKL__RC_UNSENT) {
        return ZKL__TAKE_UNKNOWN;
    }
    if (whole && reply->parts[DELETE].rc == ZKL__RC_NONODE) {
        return ZKL__TAKE_NO_PLACE;
    }
    return reply->rc == ZKL__RC_NOTAPPLIED ? ZKL__TAKE_LATER : ZKL__TAKE_REFUSED;
}

/* All its parts have one zxid: that of the set is the one the lease is born with. */
static void deal_done(struct zkl__semaphore *s, const struct zkl__reply *reply)
{
    const struct zkl__stat *stat = &reply->parts[SET].stat;
    s->take.stand = stat->child_count;
    deal(s, ZKL__RC_OK, reply->parts[CREATE].name, stat->mzxid);
}

void zkl__semaphore_on_take(struct zkl__request *request, const struct zkl__reply *reply)
{
    struct zkl__semaphore *s = request->owner;
    s->take.sent = false;
    s->take.fate = judge(reply);
    if (s->take.fate == ZKL__TAKE_DONE) {
        deal_done(s, reply);
    } else if (s->take.fate != ZKL__TAKE_UNKNOWN) {
        deal(s, ZKL__RC_NOTAPPLIED, NULL, 0);
    } else if (s->state != ZKL__SEMAPHORE_TAKING) {
        deal(s, ZKL__RC_UNKNOWN, NULL, 0);
    }
    if (reply->rc == ZKL__RC_NOAUTH) {
        s->take.path_stats->no_take = true;
    }
    zkl__semaphore_post(s, ZKL__SM_TAKEN);
}

/* --- the place -------------------------------------------------------------------------------- */

static bool hold_delete(void *owner, int role)
{
    struct zkl__semaphore *s = owner;
    s->take.owed = s->take.owed || role == ZKL__ROLE_DELETE;
    return role == ZKL__ROLE_DELETE;
}

/* Its node went with the transaction. It asks for that all the same: those of this session that
 * follow it are handed the lock then. */
static void leave_place(struct zkl__semaphore *s)
{
    s->take.place = s->place;
    s->place->config.holds_back = hold_delete;
    s->place = NULL;
    zkl__contender_leave(s->take.place);
    zkl__semaphore_post(s, ZKL__SM_LOOK); /* behind its step */
}

/* It has made its step. */
void zkl__semaphore_settle_place(struct zkl__semaphore *s)
{
    static const struct zkl__reply done = {.rc = ZKL__RC_OK};
    struct zkl__contender *place = s->take.place;
    if (!place) {
        return;
    }
    s->take.place = NULL;
    place->config.holds_back = NULL;
    if (s->take.owed) {
        s->take.owed = false;
        place->in_flight--;
        zkl__contender_post_reply(place, ZKL__ROLE_DELETE, &done);
    }
}

/* --- what follows ----------------------------------------------------------------------------- */

static void make_them_first(struct zkl__semaphore *s, const char *why)
{
    s->take.refused = true;
    zkl__semaphore_drop_leases(s);
    zkl__semaphore_move(s, ZKL__SEMAPHORE_MAKING, why);
    zkl__semaphore_make_leases(s);
}

void zkl__semaphore_on_taken(struct zkl__semaphore *s)
{
    if (s->state != ZKL__SEMAPHORE_TAKING) {
        return;
    }
    switch (s->take.fate) {
    case ZKL__TAKE_DONE:
        s->patience = 0;
        zkl__semaphore_move(s, ZKL__SEMAPHORE_TAKEN, "our leases are there, and our place is not");
        leave_place(s);
        break;
    case ZKL__TAKE_NO_PLACE:
        zkl__semaphore_again(s);
        break;
    case ZKL__TAKE_LATER:
        zkl__semaphore_drop_leases(s);
        zkl__semaphore_put_off(s);
        s->take.look = ZKL__TAKE_UNSEEN;
        zkl__semaphore_move(s, ZKL__SEMAPHORE_QUEUED, "the servers put it off");
        break;
    case ZKL__TAKE_REFUSED:
        make_them_first(s, "it was refused");
        break;
    case ZKL__TAKE_UNKNOWN:
        zkl__semaphore_move(s, ZKL__SEMAPHORE_FINDING, "fate of the transaction unknown");
        break;
    }
}

/* Its leases are all held. */
void zkl__semaphore_judge_take(struct zkl__semaphore *s)
{
    zkl__core_trace_at(s->core, s->config.path, s->number, "%d leases stand, the limit is %d",
                       s->take.stand, s->take.limit);
    if (!zkl__semaphore_leased(s, zkl__core_now(s->core))) {
        zkl__semaphore_again(s);
    } else if (s->take.stand <= s->take.limit) {
        zkl__semaphore_grant(s, "no more leases than the limit");
    } else {
        zkl__semaphore_move(s, ZKL__SEMAPHORE_MAKING, "too many stand: which of them live?");
        zkl__semaphore_post(s, ZKL__SM_LOOK);
    }
}

/* --- of unknown fate -------------------------------------------------------------------------- */

void zkl__semaphore_find_take(struct zkl__semaphore *s)
{
    s->take.passed = false;
    zkl__core_send(
        s->core, &s->machine, ZKL__ROLE_BEHIND,
        &(struct zkl__op){.kind = ZKL__OP_CHECK, .dir = s->config.leases, .version = -1});
    zkl__semaphore_ask(s, (struct zkl__op){.kind = ZKL__OP_CHILDREN, .dir = s->config.leases});
}

void zkl__semaphore_on_found(struct zkl__semaphore *s, const struct zkl__reply *list)
{
    if (!s->take.passed) {
        zkl__semaphore_put_off(s);
        return;
    }
    if (list->rc != ZKL__RC_OK && list->rc != ZKL__RC_NONODE) {
        zkl__semaphore_on_leases(s, list);
        return;
    }
    const char *lowest = NULL, *other;
    if (list->rc == ZKL__RC_OK) {
        zkl__list_mine(s->take.lease, list, &lowest, &other);
    }
    deal(s, lowest ? ZKL__RC_OK : ZKL__RC_NOTAPPLIED, lowest, 0);
    if (lowest) {
        zkl__semaphore_move(s, ZKL__SEMAPHORE_MAKING, "the transaction was applied");
        leave_place(s);
    } else {
        make_them_first(s, "the transaction was not applied");
    }
}
