/* semaphore.c - an acquire of a semaphore: its states, its mail, its next request, and what the
 * replies mean. The data of the path is the limit that all its users agree on.
 *
 * Why a list of the leases is enough. A grant rests on a list of the leases that was read after our
 * own were made: whoever is granted later made its own later still, and so has ours in its list.
 * The queue does not make it safe. It makes it fair, and keeps two acquires that have a part of
 * their permits from waiting for each other for ever. So an acquire that loses its queue node
 * deletes its leases. A lease is a contender that waits for nobody: a lost reply never leaves two,
 * and it is deleted however the acquire ends.
 *
 * Why that is enough while the limit changes. A grant rests on a limit, too, that was in force
 * after our leases were made. Of all that hold at some moment take the one whose leases were made
 * last: its list shows all the others' leases, and its limit is no lower than their number. So
 * never more hold than a limit that was in force since the last of their leases was made: who made
 * its leases after the limit was lowered is judged by the lower one. No transaction could prove
 * more, since none can count children. The look at the limit is sent after the replies to our
 * creates, so the server that answers it has applied whatever came before these (ZooKeeper
 * Programmer's Guide, Consistency Guarantees: single system image). A look that set a watch is good
 * until that fires: the server tells a client of a change before it shows it newer data (the same
 * guide, ZooKeeper Watches). */
#include "core_internal.h"

#include <stdio.h>
#include <string.h>

#define LOOKS_MOST 16 /* under way: hides the round trip */

static const struct zkl__rule lease_rule = {"lease-", 0};

/* What its operations are for: numbers that no contender has. */
enum {
    ZKL__ROLE_SEMAPHORE = ZKL__ROLES,
    ZKL__ROLE_LIMIT, /* beside a list of the leases */
    ZKL__ROLE_LEASE  /* + which of the children */
};

#define EACH_PERMIT(permit, s)                                            \
    for (struct zkl__permit *permit = (struct zkl__permit *)(s)->permits; \
         (permit) < (s)->permits + (s)->config.count; (permit)++)

static void on_outcome(void *owner, const struct zkl__outcome *outcome);

/* --- states ---------------------------------------------------------------------------------- */

#define S(state) (1u << (ZKL__SEMAPHORE_##state))
#define ANEW (S(ASKING) | S(ENDED)) /* its queue node was lost, or it ends */

static const struct {
    const char *name;
    uint32_t next; /* where it may go from here */
} states[] = {
    [ZKL__SEMAPHORE_NEW] = {"new", ANEW},
    [ZKL__SEMAPHORE_ASKING] = {"asking", S(SEARCHING) | S(QUEUED) | ANEW},
    [ZKL__SEMAPHORE_SEARCHING] = {"searching", S(SEARCHED) | S(QUEUED) | ANEW},
    [ZKL__SEMAPHORE_SEARCHED] = {"searched", S(QUEUED) | ANEW},
    [ZKL__SEMAPHORE_QUEUED] = {"queued", S(MAKING) | ANEW},
    [ZKL__SEMAPHORE_MAKING] = {"making", S(READING) | S(HELD) | ANEW},
    [ZKL__SEMAPHORE_READING] = {"reading", S(MAKING) | S(SETTING) | S(JUDGING) | S(HELD) | ANEW},
    [ZKL__SEMAPHORE_SETTING] = {"setting", S(MAKING) | S(HELD) | ANEW},
    [ZKL__SEMAPHORE_JUDGING] = {"judging", S(MAKING) | S(WAITING) | S(HELD) | ANEW},
    [ZKL__SEMAPHORE_WAITING] = {"waiting", S(MAKING) | ANEW},
    [ZKL__SEMAPHORE_HELD] = {"held", S(LOST) | S(RELEASING) | S(ENDED)},
    [ZKL__SEMAPHORE_LOST] = {"lost", S(RELEASING) | S(ENDED)},
    [ZKL__SEMAPHORE_RELEASING] = {"releasing", S(ENDED)},
    [ZKL__SEMAPHORE_ENDED] = {"gone", 0},
};

static void move_to(struct zkl__semaphore *s, enum zkl__semaphore_state state, const char *why)
{
    ZKL__ENSURE(states[s->state].next & (1u << state));
    zkl__core_trace(s->core, s->config.path, s->number, "%s -> %s: %s", states[s->state].name,
                    states[state].name, why);
    s->state = state;
}

/* --- mail, and the outcomes for its owner ----------------------------------------------------- */

static void post(struct zkl__semaphore *s, enum zkl__event_kind kind)
{
    s->mail |= ZKL__MAIL(kind);
    zkl__core_post(&s->machine);
}

static void notify_owner(struct zkl__semaphore *s, enum zkl__outcome_kind kind, const char *why)
{
    const struct zkl__outcome outcome = {.kind = kind,
                                         .code = s->code,
                                         .zk_code = s->zk_code,
                                         .why = why,
                                         .now = s->core->now,
                                         .token =
                                             kind == ZKL__GRANTED ? zkl__semaphore_token(s) : 0};
    zkl__owner_notify(&s->config.contender, &outcome);
}

/* --- its contenders -------------------------------------------------------------------------- */

/* Its queue node or a lease. False: no memory. */
static bool make_contender(struct zkl__permit *permit, const struct zkl__rule *rule,
                           const char *path)
{
    struct zkl__semaphore *s = permit->semaphore;
    const struct zkl__contender_config *mine = &s->config.contender;
    const struct zkl__contender_config config = {.rule = rule,
                                                 .path = path,
                                                 .metadata = mine->metadata,
                                                 .acl = mine->acl,
                                                 .fail_on_expiry = mine->fail_on_expiry,
                                                 .notify = on_outcome,
                                                 .owner = permit};
    permit->contender = zkl__contender_new(s->core, &config);
    return permit->contender != NULL;
}

static void drop_contender(struct zkl__contender **contender)
{
    struct zkl__contender *gone = *contender;
    *contender = NULL;
    if (gone) {
        zkl__contender_leave(gone);
    }
}

static void drop_leases(struct zkl__semaphore *s)
{
    EACH_PERMIT (permit, s) {
        drop_contender(&permit->contender);
    }
    s->held = s->made = 0;
}

static void forget_looks(struct zkl__semaphore *s)
{
    zkl__core_forget(&s->machine);
    s->looks = 0;
}

/* It waits no more: gives up its queue node, its requests and its watches. */
static void stop_waiting(struct zkl__semaphore *s)
{
    forget_looks(s);
    s->busy = false;
    zkl__free(&s->core->config.heap, s->leases);
    s->leases = NULL;
    zkl__watch_remove(s->core, &s->watch);
    zkl__watch_remove(s->core, &s->limit_watch);
    drop_contender(&s->queue_node.contender);
    s->over_limit = false;
    s->limit = ZKL__LIMIT_UNREAD;
    s->retry_at = s->pause = 0;
    /* from AGAIN to WATCH */
    s->mail &= ~(ZKL__MAIL(ZKL__EV_OWN_WATCH) - ZKL__MAIL(ZKL__EV_AGAIN));
}

/* --- moves ----------------------------------------------------------------------------------- */

static void end_acquire(struct zkl__semaphore *s, const char *why)
{
    stop_waiting(s);
    drop_leases(s);
    move_to(s, ZKL__SEMAPHORE_ENDED, why);
    post(s, ZKL__EV_LOOK); /* to be freed */
}

static void fail_acquire(struct zkl__semaphore *s, int code, const char *why)
{
    s->code = code;
    end_acquire(s, why);
    notify_owner(s, ZKL__FAILED, why);
}

static void queue_again(struct zkl__semaphore *s)
{
    stop_waiting(s);
    drop_leases(s);
    if (s->config.contender.fail_on_expiry) {
        fail_acquire(s, ZKL_ELOST, "the session ended, or our nodes were removed by somebody");
    } else if (!make_contender(&s->queue_node, &zkl__rule_mutex, s->config.locks)) {
        fail_acquire(s, ZKL_ENOMEM, "out of memory");
    } else {
        move_to(s, ZKL__SEMAPHORE_ASKING, "our place or a lease of ours was lost");
        zkl__contender_start(s->queue_node.contender, s->deadline, s->try_only);
    }
}

static bool all_leased(const struct zkl__semaphore *s, int64_t now)
{
    EACH_PERMIT (permit, s) {
        const struct zkl__contender *lease = permit->contender;
        if (lease && !zkl__contender_holds(&lease->machine, now)) {
            return false;
        }
    }
    return true;
}

static void grant_permits(struct zkl__semaphore *s, const char *why)
{
    int64_t max_hold = s->config.contender.max_hold;
    move_to(s, ZKL__SEMAPHORE_HELD, why);
    stop_waiting(s);
    s->deadline = max_hold > 0 ? s->core->now + max_hold : INT64_MAX;
    notify_owner(s, ZKL__GRANTED, "granted");
    s->jeopardy = s->core->jeopardy; /* then its leases were notified before it was granted */
    if (s->jeopardy) {
        notify_owner(s, ZKL__JEOPARDY, "little of the lease was left at the grant");
    }
}

static void retry_later(struct zkl__semaphore *s)
{
    s->pause = zkl__backoff(s->pause, ZKL__PAUSE_LEAST, ZKL__PAUSE_MOST);
    s->retry_at = s->core->now + s->pause;
}

static void send_request(struct zkl__semaphore *s, struct zkl__op op)
{
    s->busy = true;
    zkl__core_send(s->core, &s->machine, ZKL__ROLE_SEMAPHORE, &op);
}

/* --- the limit of the path -------------------------------------------------------------------- */

static void refuse_limit(struct zkl__semaphore *s, int limit)
{
    char *words = s->config.conflict;
    if (limit == 0) {
        snprintf(words, ZKL__CONFLICT_MAX,
                 "the data of the path is no limit: is it a lock with recovery?");
    } else if (s->config.limit == 0) {
        snprintf(words, ZKL__CONFLICT_MAX, "%d permits are wanted, the limit of the path is %d",
                 s->config.count, limit);
    } else {
        snprintf(words, ZKL__CONFLICT_MAX,
                 "this contender's limit is %d, the path is in use with %d", s->config.limit,
                 limit);
    }
    fail_acquire(s, ZKL_ECONFLICT, words);
}

/* Agreed: there is one, and it is ours, or ours is what the path says. 0 in *limit: there is no
 * such znode. False: it has failed. */
static bool parse_limit(struct zkl__semaphore *s, const struct zkl__reply *reply, int *limit)
{
    *limit = reply->rc == ZKL__RC_OK ? ZKL__LIMIT_UNSET : 0;
    s->version = reply->stat.version;
    if (reply->rc == ZKL__RC_OK && reply->size > 0) {
        *limit = zkl__limit_parse(reply->data, reply->size);
        if (*limit == 0 || (s->config.limit > 0 && *limit != s->config.limit)) {
            refuse_limit(s, *limit);
            return false;
        }
    } else if (reply->rc != ZKL__RC_OK && reply->rc != ZKL__RC_NONODE) {
        s->zk_code = reply->zk_code;
        fail_acquire(s, zkl__rc_code(reply->rc), "the limit of the path cannot be read");
        return false;
    }
    return true;
}

/* The replies of ASKING, SEARCHING, SEARCHED and SETTING. */
static void on_limit_reply(struct zkl__semaphore *s, const struct zkl__reply *reply)
{
    int limit;
    const char *last;
    switch (s->state) {
    case ZKL__SEMAPHORE_ASKING:
        if (!parse_limit(s, reply, &limit)) {
            return;
        }
        /* The server may lag behind. That nobody has set a limit, or that it is too low for us, is
         * for the head to find. */
        if (limit == ZKL__LIMIT_UNSET) {
            move_to(s, ZKL__SEMAPHORE_SEARCHING, "nobody has set a limit");
        } else {
            move_to(s, ZKL__SEMAPHORE_QUEUED, "nobody disagrees with the limit");
        }
        break;
    case ZKL__SEMAPHORE_SEARCHING:
        last = reply->rc == ZKL__RC_OK ? zkl__list_last(reply) : NULL;
        /* A longer name is no contender's (zkl__name_parse). */
        if (last && zkl__text_copy(s->last, sizeof s->last, last)) {
            move_to(s, ZKL__SEMAPHORE_SEARCHED, "somebody may queue here for a lock");
        } else {
            move_to(s, ZKL__SEMAPHORE_QUEUED, "nobody queues here for a lock");
        }
        break;
    case ZKL__SEMAPHORE_SEARCHED:
        /* A znode without a session is nobody's, and would keep the semaphore out for ever. */
        if (reply->rc == ZKL__RC_OK && zkl__is_ephemeral(&reply->stat)) {
            fail_acquire(s, ZKL_ECONFLICT, "the path is in use as a lock or an election");
        } else {
            move_to(s, ZKL__SEMAPHORE_QUEUED, "nobody queues here for a lock");
        }
        break;
    default: /* SETTING */
        s->limit = ZKL__LIMIT_UNREAD;
        /* Our limit is in force since then. The list that was read before it is as good as one that
         * is read now, for our leases were in it. */
        if (reply->rc == ZKL__RC_OK && s->lease_count <= s->config.limit &&
            all_leased(s, s->core->now)) {
            grant_permits(s, "ours is the limit, and no more leases stand");
        } else if (reply->rc == ZKL__RC_OK || reply->rc == ZKL__RC_BADVERSION ||
                   reply->rc == ZKL__RC_NONODE) {
            move_to(s, ZKL__SEMAPHORE_MAKING, "written, by us or by somebody else");
        } else {
            s->zk_code = reply->zk_code;
            fail_acquire(s, zkl__rc_code(reply->rc), "the limit cannot be written to the path");
        }
    }
}

/* --- the leases, as the head reads them ------------------------------------------------------- */

static bool is_lease(const char *name)
{
    return zkl__name_parse(name).kind == ZKL_KIND_LEASE;
}

static void on_leases_listed(struct zkl__semaphore *s, const struct zkl__reply *list)
{
    if (list->rc == ZKL__RC_NONODE) {
        queue_again(s);
        return;
    }
    if (list->rc != ZKL__RC_OK) {
        s->zk_code = list->zk_code;
        fail_acquire(s, zkl__rc_code(list->rc), "the leases cannot be listed");
        return;
    }
    if (s->over_limit) { /* one of before may have fired meanwhile: the list has set it again */
        (void)zkl__watch_add(s->core, &s->watch, false);
    }
    bool ours = all_leased(s, s->core->now);
    /* To read the list once for each of few is less than to sort it. Without memory so are many. */
    struct zkl__list_index *index =
        s->config.count > 4 ? zkl__list_index_new(&s->core->config.heap, list, 0) : NULL;
    EACH_PERMIT (permit, s) {
        ours = ours && zkl__list_has(list, index, permit->contender->node.name);
    }
    zkl__free(&s->core->config.heap, index);
    s->lease_count = 0;
    ZKL__EACH_NAME (name, list) {
        s->lease_count += is_lease(name);
    }
    if (s->limit != ZKL__LIMIT_UNSET) {
        zkl__core_trace(s->core, s->config.path, s->number, "%d leases stand, the limit is %d",
                        s->lease_count, s->limit);
    }
    if (!ours) {
        queue_again(s);
    } else if (s->lease_count <= s->limit) {
        grant_permits(s, "no more leases than the limit");
    } else if (s->state != ZKL__SEMAPHORE_READING) {
        return; /* changed while it was read: once more */
    } else if (s->limit == ZKL__LIMIT_UNREAD) {
        retry_later(s);
        move_to(s, ZKL__SEMAPHORE_MAKING, "the limit could not be read");
    } else if (s->limit == ZKL__LIMIT_UNSET) {
        move_to(s, ZKL__SEMAPHORE_SETTING, "nobody has set a limit");
    } else if (!s->over_limit && !s->try_only) {
        s->over_limit = true;
        move_to(s, ZKL__SEMAPHORE_MAKING, "too many leases: once more, with watches");
    } else if (!zkl__children_renew(&s->core->config.heap, &s->leases, list, is_lease)) {
        fail_acquire(s, ZKL_ENOMEM, "out of memory");
    } else { /* of a lease that is still listed it keeps what it knows, and our own need no look */
        EACH_PERMIT (permit, s) {
            const char *own = permit->contender->node.name;
            zkl__children_find(s->leases, own)->verdict = ZKL__CHILD_EPHEMERAL;
        }
        forget_looks(s);
        move_to(s, ZKL__SEMAPHORE_JUDGING, "too many leases");
    }
}

/* With the limit beside them, unless a watch says that it is what it was. */
static void read_leases(struct zkl__semaphore *s)
{
    while (s->made < s->config.count && s->permits[s->made].contender->state == ZKL__HELD) {
        s->made++;
    }
    if (s->made < s->config.count) {
        return;
    }
    if (!s->limit_watch.entry.link) {
        s->limit = ZKL__LIMIT_UNREAD;
    }
    if (s->over_limit && (zkl__watch_add(s->core, &s->watch, false) != ZKL_OK ||
                          zkl__watch_add(s->core, &s->limit_watch, false) != ZKL_OK)) {
        fail_acquire(s, ZKL_ELIMIT, "too many watches in this session");
        return;
    }
    move_to(s, ZKL__SEMAPHORE_READING, "our leases are there");
    if (s->limit == ZKL__LIMIT_UNREAD) { /* first: its reply comes first */
        const struct zkl__op op = {
            .kind = ZKL__OP_GET, .dir = s->config.path, .watch = s->limit_watch.entry.link};
        zkl__core_send(s->core, &s->machine, ZKL__ROLE_LIMIT, &op);
    }
    send_request(s, (struct zkl__op){
                        .kind = ZKL__OP_CHILDREN, .dir = s->config.leases, .watch = s->over_limit});
}

/* --- which of them live ---------------------------------------------------------------------- */

/* A lease that lives with no session is nobody's permit, and would never be given back. */
static void judge_leases(struct zkl__semaphore *s)
{
    if (s->looks > 0) {
        return;
    }
    s->unanswered = false;
    size_t at = zkl__children_unknown(s->leases, 0);
    if (at < s->leases->count) {
        while (at < s->leases->count && s->looks < LOOKS_MOST && !s->unanswered) {
            const struct zkl__op op = {
                .kind = ZKL__OP_EXISTS, .dir = s->config.leases, .name = s->leases->all[at].name};
            s->looks++; /* before it can be refused */
            zkl__core_send(s->core, &s->machine, ZKL__ROLE_LEASE + (int)at, &op);
            at = zkl__children_unknown(s->leases, at + 1);
        }
        return;
    }
    size_t may_count = s->leases->count - zkl__children_count(s->leases, ZKL__CHILD_PERSISTENT);
    // NOLINTNEXTLINE(bugprone-branch-clone): the order of the tests counts
    if (!all_leased(s, s->core->now)) {
        queue_again(s);
    } else if (may_count <= (size_t)s->limit) {
        grant_permits(s, "few enough of the leases live with a session");
    } else if (s->try_only) {
        fail_acquire(s, ZKL_EBUSY, "too few permits are free");
    } else {
        move_to(s, ZKL__SEMAPHORE_WAITING, "too many leases live with a session");
    }
}

/* --- outcomes of its contenders, and replies -------------------------------------------------- */

/* Inside a step of its queue node or of a lease. What a holder has to know is no mail, and never
 * late. */
static void lose(struct zkl__semaphore *s, const char *why)
{
    if (s->state == ZKL__SEMAPHORE_HELD) {
        move_to(s, ZKL__SEMAPHORE_LOST, why);
        notify_owner(s, ZKL__LOSS, why);
    }
}

static void on_outcome(void *owner, const struct zkl__outcome *outcome)
{
    struct zkl__permit *permit = owner;
    struct zkl__semaphore *s = permit->semaphore;
    switch (outcome->kind) {
    case ZKL__GRANTED:
        post(s, ZKL__EV_LOOK);
        break;
    case ZKL__FAILED:
        permit->contender = NULL;
        s->held -= permit != &s->queue_node;
        s->code = outcome->code;
        s->zk_code = outcome->zk_code;
        s->why = outcome->why;
        post(s, ZKL__EV_FAILED);
        break;
    case ZKL__LOSS:
        if (zkl__semaphore_waits(s)) {
            post(s, ZKL__EV_AGAIN);
        }
        lose(s, outcome->why);
        break;
    case ZKL__JEOPARDY:
    case ZKL__SAFE:
        if (s->state == ZKL__SEMAPHORE_HELD && s->jeopardy != (outcome->kind == ZKL__JEOPARDY)) {
            s->jeopardy = outcome->kind == ZKL__JEOPARDY;
            notify_owner(s, outcome->kind, outcome->why);
        }
        break;
    case ZKL__RELEASED:
        permit->contender = NULL;
        s->held -= permit != &s->queue_node;
        post(s, ZKL__EV_LOOK);
        break;
    default:
        break;
    }
}

static void on_watch_fired(struct zkl__watch *watch, enum zkl__watch_event event)
{
    struct zkl__semaphore *s = watch->owner;
    (void)event;
    if (watch == &s->limit_watch) {
        s->limit = ZKL__LIMIT_UNREAD;
    }
    post(s, ZKL__EV_WATCH);
}

static void on_semaphore_reply(struct zkl__machine *machine, int role, int64_t sent,
                               const struct zkl__reply *reply)
{
    struct zkl__semaphore *s = (struct zkl__semaphore *)machine;
    (void)sent;
    reply = zkl__rc_decides(reply->rc) ? reply : NULL;
    if (role < ZKL__ROLE_LEASE) {
        s->busy = s->busy && role == ZKL__ROLE_LIMIT;
        s->reply = reply;
        post(s, role == ZKL__ROLE_LIMIT ? ZKL__EV_LIMIT : ZKL__EV_REPLY);
        return;
    }
    if (reply) {
        zkl__child_judge(&s->leases->all[role - ZKL__ROLE_LEASE], reply);
    }
    s->unanswered |= !reply;
    if (--s->looks == 0) { /* all looks at leases were answered, or were not */
        if (s->unanswered && s->state == ZKL__SEMAPHORE_JUDGING) {
            retry_later(s);
        }
        post(s, ZKL__EV_LOOK);
    }
}

/* --- its step --------------------------------------------------------------------------------- */

/* Asks for what its state needs. */
static void send_what_is_needed(struct zkl__semaphore *s)
{
    if (s->busy || !s->core->connected || s->core->now < s->retry_at) {
        return;
    }
    char text[16];
    switch (s->state) {
    case ZKL__SEMAPHORE_ASKING:
        send_request(s, (struct zkl__op){.kind = ZKL__OP_GET, .dir = s->config.path});
        break;
    case ZKL__SEMAPHORE_SEARCHING:
        send_request(s, (struct zkl__op){.kind = ZKL__OP_CHILDREN, .dir = s->config.path});
        break;
    case ZKL__SEMAPHORE_SEARCHED:
        send_request(
            s, (struct zkl__op){.kind = ZKL__OP_EXISTS, .dir = s->config.path, .name = s->last});
        break;
    case ZKL__SEMAPHORE_SETTING:
        send_request(
            s, (struct zkl__op){.kind = ZKL__OP_SET,
                                .dir = s->config.path,
                                .data = text,
                                .size = (size_t)snprintf(text, sizeof text, "%d", s->config.limit),
                                .version = s->version});
        break;
    case ZKL__SEMAPHORE_QUEUED:
        if (s->queue_node.contender->state != ZKL__HELD) {
            break;
        }
        move_to(s, ZKL__SEMAPHORE_MAKING, "we are the head");
        EACH_PERMIT (permit, s) {
            if (!make_contender(permit, &lease_rule, s->config.leases)) {
                fail_acquire(s, ZKL_ENOMEM, "out of memory");
                break;
            }
            s->held++;
            zkl__contender_start(permit->contender, INT64_MAX, false);
        }
        break;
    case ZKL__SEMAPHORE_MAKING:
        read_leases(s);
        break;
    case ZKL__SEMAPHORE_JUDGING:
        judge_leases(s);
        break;
    default:
        break;
    }
}

static void step_semaphore(struct zkl__machine *machine)
{
    struct zkl__semaphore *s = (struct zkl__semaphore *)machine;
    while (s->mail && s->state != ZKL__SEMAPHORE_ENDED) {
        enum zkl__event_kind kind = (enum zkl__event_kind)__builtin_ctz(s->mail);
        const struct zkl__reply *reply = s->reply;
        int limit;
        bool waits = zkl__semaphore_waits(s);
        s->mail &= s->mail - 1;
        switch (kind) {
        case ZKL__EV_FAILED:
            fail_acquire(s, s->code, s->why);
            break;
        case ZKL__EV_AGAIN:
            if (waits) {
                queue_again(s);
            }
            break;
        case ZKL__EV_LIMIT:
            /* Without a word of the server's it stays unread, which the reply with the leases
             * finds. */
            s->reply = NULL;
            if (!reply || !parse_limit(s, reply, &limit)) {
                break;
            }
            if (limit == 0) {
                queue_again(s); /* the directory was removed by somebody */
            } else if (limit == ZKL__LIMIT_UNSET && s->config.limit == 0) {
                fail_acquire(s, ZKL_ECONFLICT,
                             "nobody has set a limit: the data of the path is empty");
            } else if (limit > 0 && s->config.count > limit) {
                refuse_limit(s, limit);
            } else {
                s->limit = limit;
            }
            break;
        case ZKL__EV_REPLY:
            s->reply = NULL;
            if (!reply) { /* of unknown fate: the next list shows it */
                retry_later(s);
                if (s->state == ZKL__SEMAPHORE_SETTING) {
                    s->limit = ZKL__LIMIT_UNREAD;
                    move_to(s, ZKL__SEMAPHORE_MAKING, "nobody knows whether it was written");
                } else if (s->state == ZKL__SEMAPHORE_READING) {
                    move_to(s, ZKL__SEMAPHORE_MAKING, "the leases could not be read");
                }
                break;
            }
            s->pause = 0;
            if (s->state < ZKL__SEMAPHORE_QUEUED || s->state == ZKL__SEMAPHORE_SETTING) {
                on_limit_reply(s, reply);
            } else {
                on_leases_listed(s, reply);
            }
            break;
        case ZKL__EV_WATCH:
            /* There may be room now, so the next list sets no watch. The one under way does. */
            s->over_limit = s->over_limit && s->busy;
            if (s->state == ZKL__SEMAPHORE_READING || s->state == ZKL__SEMAPHORE_JUDGING ||
                s->state == ZKL__SEMAPHORE_WAITING) {
                move_to(s, ZKL__SEMAPHORE_MAKING, "the leases or the limit changed");
            }
            break;
        case ZKL__EV_TIME:
            if (s->core->now < s->deadline) {
                break;
            }
            if (waits) {
                fail_acquire(s, ZKL_ETIMEOUT, "the time is up");
                break;
            }
            s->deadline = INT64_MAX;
            drop_leases(s); /* also of an owner that lost before, and hangs */
            lose(s, "held for longer than max_hold_ms");
            break;
        default: /* LOOK: what it needs next is sent below */
            break;
        }
    }
    send_what_is_needed(s);
    if (s->state == ZKL__SEMAPHORE_RELEASING && s->held == 0) {
        end_acquire(s, "no lease of ours is left");
        notify_owner(s, ZKL__RELEASED, "released");
    }
    /* What each state implies for its contenders. A granted semaphore has all its leases. */
    bool waits = zkl__semaphore_waits(s), head = waits && s->state >= ZKL__SEMAPHORE_MAKING;
    ZKL__ENSURE(waits == (s->queue_node.contender != NULL));
    ZKL__ENSURE(!waits || s->held == (head ? s->config.count : 0));
    ZKL__ENSURE(waits || (!s->busy && s->looks == 0 && !s->leases));
    ZKL__ENSURE(head || (!s->watch.entry.link && !s->limit_watch.entry.link &&
                         s->limit == ZKL__LIMIT_UNREAD));
    if (s->state == ZKL__SEMAPHORE_HELD) {
        EACH_PERMIT (permit, s) {
            ZKL__ENSURE(!permit->contender || permit->contender->state == ZKL__HELD);
        }
    }
    bool runs = s->state != ZKL__SEMAPHORE_NEW && s->state != ZKL__SEMAPHORE_ENDED;
    bool soon = s->retry_at > s->core->now && s->retry_at < s->deadline;
    zkl__timers_set(&s->core->timers, &machine->timer,
                    !runs  ? INT64_MAX
                    : soon ? s->retry_at
                           : s->deadline);
    if (s->state == ZKL__SEMAPHORE_ENDED) {
        zkl__core_bury(machine);
    }
}

/* --- its life, and its orders ----------------------------------------------------------------- */

static void free_semaphore(struct zkl__machine *machine)
{
    struct zkl__semaphore *s = (struct zkl__semaphore *)machine;
    struct zkl__core *core = s->core;
    zkl__list_remove(&core->machines[ZKL__RANK_LAST], &machine->in_session);
    zkl__free(&core->config.heap, s->leases);
    zkl__free(&core->config.heap, s);
}

static void on_order(struct zkl__machine *machine, const struct zkl__event *order)
{
    struct zkl__semaphore *s = (struct zkl__semaphore *)machine;
    switch (order->kind) {
    case ZKL__EV_START:
        s->deadline = order->deadline;
        s->try_only = order->try_only;
        move_to(s, ZKL__SEMAPHORE_ASKING, "started");
        send_what_is_needed(s); /* before its queue node */
        zkl__contender_start(s->queue_node.contender, s->deadline, s->try_only);
        break;
    case ZKL__EV_CANCEL:
    case ZKL__EV_CLOSE:
        if (zkl__semaphore_waits(s)) {
            s->code = order->code;
            s->why = zkl__cancel_text(order->code);
            post(s, ZKL__EV_FAILED); /* after its queue node, which may know more */
        }
        if (order->kind == ZKL__EV_CANCEL) {
            break;
        }
        if (order->code == ZKL_EAUTH) { /* before its leases have told */
            lose(s, "the servers refuse our credentials");
        }
        /* fall through */
    case ZKL__EV_RELEASE:
        if (s->state != ZKL__SEMAPHORE_HELD && s->state != ZKL__SEMAPHORE_LOST) {
            break;
        }
        move_to(s, ZKL__SEMAPHORE_RELEASING, "released");
        s->deadline = INT64_MAX;
        EACH_PERMIT (permit, s) {
            if (permit->contender) {
                zkl__contender_post(permit->contender, ZKL__EV_RELEASE);
            }
        }
        break;
    case ZKL__EV_CONNECTED:
        s->retry_at = 0;
        break;
    case ZKL__EV_GIVE_BACK: /* the youngest ones first */
        for (int count = order->count; count > 0; count--) {
            struct zkl__contender **last = NULL;
            EACH_PERMIT (permit, s) {
                struct zkl__contender **lease = &permit->contender;
                last =
                    *lease && (!last || (*lease)->node.czxid > (*last)->node.czxid) ? lease : last;
            }
            if (last) {
                drop_contender(last);
                s->held--;
            }
        }
        break;
    case ZKL__EV_LET_GO:
        if (s->state != ZKL__SEMAPHORE_ENDED) {
            end_acquire(s, "its owner let go");
        }
        break;
    default: /* that the session has ended it learns by its contenders */
        break;
    }
    post(s, order->kind); /* its time, or no more than a look */
}

static bool holds_permits(const struct zkl__machine *machine, int64_t now)
{
    const struct zkl__semaphore *s = (const struct zkl__semaphore *)machine;
    return s->state == ZKL__SEMAPHORE_HELD && now < s->deadline && all_leased(s, now);
}

static const struct zkl__machine_ops ops = {.rank = ZKL__RANK_LAST,
                                            .step = step_semaphore,
                                            .answered = on_semaphore_reply,
                                            .holds = holds_permits,
                                            .order = on_order,
                                            .free = free_semaphore};

struct zkl__semaphore *zkl__semaphore_new(struct zkl__core *core,
                                          const struct zkl__semaphore_config *config)
{
    const zkl_heap *heap = &core->config.heap;
    struct zkl__semaphore *s =
        zkl__zalloc(heap, sizeof *s + (size_t)config->count * sizeof *s->permits);
    if (!s) {
        return NULL;
    }
    s->machine.ops = &ops;
    s->machine.core = core;
    s->core = core;
    s->config = *config;
    s->watch =
        (struct zkl__watch){.fired = on_watch_fired, .owner = s, .entry.path = config->leases};
    s->limit_watch =
        (struct zkl__watch){.fired = on_watch_fired, .owner = s, .entry.path = config->path};
    EACH_PERMIT (permit, s) {
        permit->semaphore = s;
    }
    zkl__list_prepend(&core->machines[ZKL__RANK_LAST], &s->machine.in_session);
    s->queue_node.semaphore = s;
    if (!make_contender(&s->queue_node, &zkl__rule_mutex, config->locks)) {
        free_semaphore(&s->machine);
        return NULL;
    }
    s->number = s->queue_node.contender->number;
    return s;
}

/* --- queries of the current state ------------------------------------------------------------- */

int64_t zkl__semaphore_token(const struct zkl__semaphore *s)
{
    int64_t first = INT64_MAX;
    EACH_PERMIT (permit, s) {
        const struct zkl__contender *lease = permit->contender;
        first = lease && lease->node.czxid < first ? lease->node.czxid : first;
    }
    return first;
}

const char *zkl__semaphore_queue_node(const struct zkl__semaphore *semaphore)
{
    const struct zkl__contender *contender = semaphore->queue_node.contender;
    return contender ? contender->node.name : "";
}

const char *zkl__semaphore_permit(const struct zkl__semaphore *semaphore, int index, int64_t *token)
{
    const struct zkl__contender *lease = semaphore->permits[index].contender;
    *token = lease ? lease->node.czxid : 0;
    return lease ? lease->node.name : NULL;
}

int zkl__semaphore_count(const struct zkl__semaphore *semaphore)
{
    return semaphore->config.count;
}

int zkl__semaphore_held(const struct zkl__semaphore *s)
{
    return s->held;
}
