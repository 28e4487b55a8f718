/* semaphore.c - n permits, in Curator's layout (InterProcessSemaphoreV2): a queue in PATH/locks, whose head alone makes its permits' nodes in
 * PATH/leases, and waits there until no more than the limit stand, its own included.
 *
 * Why that is enough. A grant rests on a list of the leases that was read after our own were made: whoever is granted later made its
 * own later still, and so has ours in its list. The queue does not make it safe, it makes it fair, and keeps two that have a
 * part of what they want from waiting for each other for ever; so whoever loses its place in the queue takes its leases back.
 * A lease is a contender that waits for nobody: a lost reply never leaves two, and it is removed however things end. */
#include "place.h"

#include "contender_step.h"
#include "error.h"
#include "heap.h"
#include "name.h"
#include "path.h"

#include <zklock/semaphore.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_NS (200 * ZKL__MS) /* for what was not sent though connected */

static const struct zkl__rule queue_rule = {"lock-", ZKL__KIND_ANY};
static const struct zkl__rule lease_rule = {"lease-", 0};

struct zkl_semaphore {
    struct zkl__place place; /* first; its path is PATH */
    int limit;
    char *locks, *leases;
    char conflict[160];      /* words of the last ZKL_ECONFLICT */
    struct permits *permits; /* of the latest acquire; NULL: there is none any more */
    zkl_semaphore_state_fn state_fn;
    void *state_payload;
};

struct permit {
    struct permits *permits;
    struct zkl__contender *contender; /* NULL: not made yet, or given back */
    bool held;                        /* it has its node */
    int64_t token;
};

/* One acquire: its place in the queue, then its permits. */
struct permits {
    zkl_semaphore *semaphore;
    struct zkl__contender_config config; /* whom to tell; what to write on nodes */
    struct zkl__contender *place;        /* in the queue; NULL: let go */
    int64_t deadline;
    bool try_only;

    enum {
        ASKING,    /* for the limit, while we queue: who has no chance need not wait to hear it */
        SEARCHING, /* nobody has set one: is the path in use as something else? */
        QUEUED,    /* until we are the head; then the limit is looked at once more, and permits are made */
        AGREED,    /* until the permits are there; then the leases are to be read */
        READING,
        WAITING, /* for fewer leases */
        GRANTED
    } step;
    bool head;    /* the first in the queue */
    bool crowded; /* too many leases stand: read them with a watch */
    bool over;    /* failed: code, zk_code, why */
    bool again;   /* the place or a permit was lost before the grant */
    bool lost;    /* after it: told */
    bool told_jeopardy;
    int code, zk_code;
    const char *why;
    int32_t version; /* of PATH, whose data is empty */
    bool set;        /* the limit has to be written there */

    bool busy;
    struct zkl__request request;
    struct zkl__watch watch; /* of the leases */
    struct zkl__alarm alarm; /* to act after a step, and at the deadline */
    int left;                /* permits whose RELEASED is awaited */
    int count;
    struct permit permits[];
};

static zkl_session *session_of(const struct permits *p)
{
    return p->semaphore->place.session;
}

/* Acts then, or at the deadline, or when it was to act anyway: what comes first. */
static void wake_at(struct permits *p, int64_t at)
{
    at = at < p->deadline ? at : p->deadline;
    if (!p->alarm.set || at < p->alarm.at) {
        zkl__alarms_set(zkl__session_alarms(session_of(p)), &p->alarm, at);
    }
}

static void wake(struct permits *p)
{
    wake_at(p, 0);
}

/* The lowest of those that are held. */
static int64_t first_token(const struct permits *p)
{
    int64_t first = INT64_MAX;
    for (int i = 0; i < p->count; i++) {
        const struct permit *permit = &p->permits[i];
        first = permit->contender && permit->token < first ? permit->token : first;
    }
    return first;
}

static void tell(struct permits *p, enum zkl__outcome_kind kind, const char *why)
{
    struct zkl__outcome outcome = {
        .kind = kind, .code = p->code, .zk_code = p->zk_code, .why = why, .now = zkl__session_now(session_of(p))};
    outcome.token = kind == ZKL__GRANTED ? first_token(p) : 0;
    p->config.notify(p->config.owner, &outcome);
}

/* Noted inside a step, told after it. */
static void fail(struct permits *p, int code, int zk_code, const char *why)
{
    if (!p->over) {
        p->over = true;
        p->code = code;
        p->zk_code = zk_code;
        p->why = why;
    }
    wake(p);
}

/* --- what the contenders tell: inside a step ----------------------------------------------------------------------- */

static void on_place(void *owner, const struct zkl__outcome *outcome)
{
    struct permits *p = owner;
    switch (outcome->kind) {
    case ZKL__GRANTED:
        p->head = true;
        break;
    case ZKL__FAILED:
        p->place = NULL;
        fail(p, outcome->code, outcome->zk_code, outcome->why);
        break;
    case ZKL__LOSS:
        p->again = true;
        break;
    default:
        return;
    }
    wake(p);
}

static void on_permit(void *owner, const struct zkl__outcome *outcome)
{
    struct permit *permit = owner;
    struct permits *p = permit->permits;
    switch (outcome->kind) {
    case ZKL__GRANTED:
        permit->held = true;
        permit->token = outcome->token;
        wake(p);
        break;
    case ZKL__FAILED:
        permit->contender = NULL;
        fail(p, outcome->code, outcome->zk_code, outcome->why);
        break;
    case ZKL__LOSS:
        p->again = true;
        if (p->step == GRANTED && !p->lost) {
            p->lost = true;
            tell(p, ZKL__LOSS, outcome->why);
        }
        wake(p);
        break;
    case ZKL__JEOPARDY:
    case ZKL__SAFE:
        if (p->step == GRANTED && p->told_jeopardy != (outcome->kind == ZKL__JEOPARDY)) {
            p->told_jeopardy = outcome->kind == ZKL__JEOPARDY;
            tell(p, outcome->kind, outcome->why);
        }
        break;
    case ZKL__RELEASED:
        permit->contender = NULL;
        if (--p->left == 0) {
            tell(p, ZKL__RELEASED, "released");
        }
        break;
    default:
        break;
    }
}

/* --- making and taking back: outside a step ------------------------------------------------------------------------ */

static struct zkl__contender *contender_new(struct permits *p, const struct zkl__rule *rule, const char *path,
                                            void (*notify)(void *, const struct zkl__outcome *), void *owner)
{
    struct zkl__contender_config config = {.rule = rule,
                                           .path = path,
                                           .metadata = p->config.metadata,
                                           .acl = p->config.acl,
                                           .fail_on_expiry = p->config.fail_on_expiry,
                                           .notify = notify,
                                           .owner = owner};
    return zkl__contender_new(zkl__session_core(session_of(p)), &config);
}

static void let_go_one(struct permits *p, struct zkl__contender **contender)
{
    struct zkl__contender *gone = *contender;
    *contender = NULL;
    if (gone) {
        zkl__contender_let_go(zkl__session_core(session_of(p)), gone, zkl__session_now(session_of(p)));
    }
}

/* Everything it has in the core and with the alarms. */
static void take_back(struct permits *p)
{
    struct zkl__core *core = zkl__session_core(session_of(p));
    zkl__alarms_unset(zkl__session_alarms(session_of(p)), &p->alarm);
    zkl__request_forget(core, &p->request);
    zkl__watch_remove(core, &p->watch);
    p->busy = false;
    for (int i = 0; i < p->count; i++) {
        let_go_one(p, &p->permits[i].contender);
        p->permits[i].held = false;
    }
    let_go_one(p, &p->place);
    p->head = p->crowded = p->again = p->set = false;
    p->step = ASKING;
}

static void let_go(void *claim)
{
    struct permits *p = claim;
    take_back(p);
    if (p->semaphore->permits == p) {
        p->semaphore->permits = NULL;
    }
    zkl__free(zkl__session_heap(session_of(p)), p);
}

/* The last word of one that was never granted. */
static void end(struct permits *p)
{
    struct zkl__outcome outcome = {.kind = ZKL__FAILED,
                                   .code = p->code,
                                   .zk_code = p->zk_code,
                                   .why = p->why,
                                   .now = zkl__session_now(session_of(p))};
    struct zkl__contender_config config = p->config;
    let_go(p);
    config.notify(config.owner, &outcome);
}

static void stand_in_queue(struct permits *p)
{
    zkl__session_event(session_of(p), (struct zkl__event){.kind = ZKL__EV_START,
                                                          .contender = p->place,
                                                          .deadline = p->deadline,
                                                          .try_only = p->try_only});
}

static bool make_place(struct permits *p)
{
    p->place = contender_new(p, &queue_rule, p->semaphore->locks, on_place, p);
    return p->place != NULL;
}

/* What it waited for was lost: once more at the tail, or an end. */
static void begin_again(struct permits *p)
{
    take_back(p);
    if (p->config.fail_on_expiry) {
        fail(p, ZKL_ELOST, 0, "the session ended, or our nodes were removed by somebody");
    } else if (!make_place(p)) {
        fail(p, ZKL_ENOMEM, 0, "out of memory");
    } else {
        wake(p);
        stand_in_queue(p);
    }
}

static void make_permits(struct permits *p)
{
    for (int i = 0; i < p->count && !p->over; i++) {
        struct permit *permit = &p->permits[i];
        permit->permits = p;
        permit->contender = contender_new(p, &lease_rule, p->semaphore->leases, on_permit, permit);
        if (!permit->contender) {
            fail(p, ZKL_ENOMEM, 0, "out of memory");
            return;
        }
        zkl__session_event(
            session_of(p),
            (struct zkl__event){.kind = ZKL__EV_START, .contender = permit->contender, .deadline = INT64_MAX});
    }
}

/* --- the limit ----------------------------------------------------------------------------------------------------- */

/* Decimal text alone; 0: it is none. */
static int parse_limit(const char *data, size_t size)
{
    int limit = 0;
    for (size_t i = 0; i < size; i++) {
        if (data[i] < '0' || data[i] > '9' || limit > ZKL_PERMITS_MAX) {
            return 0;
        }
        limit = limit * 10 + (data[i] - '0');
    }
    return limit;
}

static void refuse(struct permits *p, int limit)
{
    zkl_semaphore *s = p->semaphore;
    if (limit > 0) {
        snprintf(s->conflict, sizeof s->conflict, "this contender's limit is %d, the path is in use with %d", s->limit,
                 limit);
    } else {
        snprintf(s->conflict, sizeof s->conflict, "the data of the path is no limit: is it a lock with recovery?");
    }
    fail(p, ZKL_ECONFLICT, 0, s->conflict);
}

/* True: nobody disagrees. */
static bool look_at_limit(struct permits *p, const struct zkl__reply *reply)
{
    p->set = reply->rc == ZKL__RC_OK && reply->size == 0;
    p->version = reply->stat.version;
    if (reply->rc == ZKL__RC_OK && reply->size > 0) {
        int limit = parse_limit(reply->data, reply->size);
        if (limit != p->semaphore->limit) {
            refuse(p, limit);
            return false;
        }
    } else if (reply->rc != ZKL__RC_OK && reply->rc != ZKL__RC_NONODE) {
        fail(p, zkl__rc_code(reply->rc), reply->zk_code, "the limit of the path cannot be read");
        return false;
    }
    return true;
}

static bool is_used_as_lock(const struct zkl__reply *reply)
{
    for (size_t i = 0; reply->rc == ZKL__RC_OK && i < reply->child_count; i++) {
        if (zkl__name_parse(reply->children[i]).kind != ZKL_KIND_FOREIGN) {
            return true;
        }
    }
    return false;
}

/* --- the leases ---------------------------------------------------------------------------------------------------- */

static bool has(const struct zkl__reply *list, const char *name)
{
    for (size_t i = 0; i < list->child_count; i++) {
        if (strcmp(list->children[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Ours are in the list, and held by the lease. */
static bool all_hold(const struct permits *p)
{
    const struct zkl__core *core = zkl__session_core(session_of(p));
    int64_t now = zkl__session_now(session_of(p));
    for (int i = 0; i < p->count; i++) {
        const struct zkl__contender *contender = p->permits[i].contender;
        if (contender && !zkl__contender_holds(core, contender, now)) {
            return false;
        }
    }
    return true;
}

static bool all_listed(const struct permits *p, const struct zkl__reply *list)
{
    for (int i = 0; i < p->count; i++) {
        if (!has(list, zkl__contender_node(p->permits[i].contender))) {
            return false;
        }
    }
    return true;
}

static void grant(struct permits *p)
{
    p->step = GRANTED;
    tell(p, ZKL__GRANTED, "granted");
}

static void decide(struct permits *p, const struct zkl__reply *list)
{
    int stand = 0;
    for (size_t i = 0; i < list->child_count; i++) {
        stand += zkl__name_parse(list->children[i]).kind == ZKL_KIND_LEASE;
    }
    zkl__core_trace(zkl__session_core(session_of(p)), p->place, "%d leases stand, the limit is %d", stand,
                    p->semaphore->limit);
    if (!all_listed(p, list) || !all_hold(p)) {
        p->again = true;
    } else if (stand <= p->semaphore->limit) {
        grant(p);
    } else if (p->try_only) {
        fail(p, ZKL_EBUSY, 0, "too few permits are free");
    } else {
        bool wait =
            p->crowded && p->step == READING; /* else not watched yet, or changed while it was read: once more */
        p->step = wait ? WAITING : AGREED;
        p->crowded = true;
    }
}

/* --- one operation after the other --------------------------------------------------------------------------------- */

/* The head's look at the limit, or its writing of it. */
static void on_limit(struct permits *p, const struct zkl__reply *reply)
{
    if (p->set) {
        p->set = false; /* written, by us or by somebody else: look again */
        if (reply->rc != ZKL__RC_OK && reply->rc != ZKL__RC_BADVERSION && reply->rc != ZKL__RC_NONODE) {
            fail(p, zkl__rc_code(reply->rc), reply->zk_code, "the limit cannot be written to the path");
        }
    } else if (look_at_limit(p, reply) && !p->set) {
        p->step = AGREED;
        p->again = reply->rc == ZKL__RC_NONODE; /* the directory was removed by somebody */
    }
}

static void answer(struct permits *p, const struct zkl__reply *reply)
{
    switch (p->step) {
    case ASKING:
        if (look_at_limit(p, reply)) {
            p->step = p->set ? SEARCHING : QUEUED;
            p->set = false; /* that is the head's business */
        }
        break;
    case SEARCHING:
        if (is_used_as_lock(reply)) {
            fail(p, ZKL_ECONFLICT, 0, "the path is in use as a lock or an election");
        }
        p->step = QUEUED;
        break;
    case QUEUED:
        on_limit(p, reply);
        break;
    case AGREED:
    case READING:
        if (reply->rc == ZKL__RC_OK) {
            decide(p, reply);
        } else if (reply->rc == ZKL__RC_NONODE) {
            p->again = true;
        } else {
            fail(p, zkl__rc_code(reply->rc), reply->zk_code, "the leases cannot be listed");
        }
        break;
    case WAITING:
    case GRANTED:
        break;
    }
}

static void on_done(struct zkl__request *request, const struct zkl__reply *reply)
{
    struct permits *p = request->owner;
    p->busy = false;
    if (zkl__rc_answered(reply->rc) && reply->rc != ZKL__RC_NOTAPPLIED) {
        wake(p);
        if (!p->over && !p->again) {
            answer(p, reply);
        }
        return;
    }
    p->step = p->step == READING ? AGREED : p->step;
    p->set = false; /* of unknown fate: the next look tells */
    wake_at(p, zkl__session_now(session_of(p)) + RETRY_NS);
}

static void on_fired(struct zkl__watch *watch, enum zkl__watch_event event)
{
    struct permits *p = watch->owner;
    (void)event;
    if (p->step == READING || p->step == WAITING) {
        p->step = AGREED;
        wake(p);
    }
}

static void ask(struct permits *p, struct zkl__op op)
{
    p->busy = true;
    zkl__session_event(session_of(p), (struct zkl__event){.kind = ZKL__EV_REQUEST, .request = &p->request, .op = &op});
}

static bool all_made(const struct permits *p)
{
    for (int i = 0; i < p->count; i++) {
        if (!p->permits[i].held) {
            return false;
        }
    }
    return true;
}

static void read_leases(struct permits *p)
{
    p->watch.path = p->semaphore->leases;
    if (p->crowded && zkl__watch_add(zkl__session_core(session_of(p)), &p->watch) != ZKL_OK) {
        fail(p, ZKL_ELIMIT, 0, "too many watches in this session");
        return;
    }
    p->step = READING;
    ask(p, (struct zkl__op){.kind = ZKL__OP_CHILDREN, .dir = p->semaphore->leases, .watch = p->crowded});
}

static void look_at_head(struct permits *p)
{
    const char *path = p->semaphore->place.path;
    char text[16];
    if (!p->permits[0].contender) {
        make_permits(p);
    }
    if (p->set) {
        snprintf(text, sizeof text, "%d", p->semaphore->limit);
        ask(p, (struct zkl__op){
                   .kind = ZKL__OP_SET, .dir = path, .data = text, .size = strlen(text), .version = p->version});
    } else {
        ask(p, (struct zkl__op){.kind = ZKL__OP_GET, .dir = path});
    }
}

static void go_on(struct permits *p)
{
    const char *path = p->semaphore->place.path;
    switch (p->step) {
    case ASKING:
        ask(p, (struct zkl__op){.kind = ZKL__OP_GET, .dir = path});
        break;
    case SEARCHING:
        ask(p, (struct zkl__op){.kind = ZKL__OP_CHILDREN, .dir = path});
        break;
    case QUEUED:
        if (p->head) {
            look_at_head(p);
        }
        break;
    case AGREED:
        if (all_made(p)) {
            read_leases(p);
        }
        break;
    case READING:
    case WAITING:
        break;
    case GRANTED:
        zkl__watch_remove(zkl__session_core(session_of(p)), &p->watch);
        let_go_one(p, &p->place);
        break;
    }
}

static void act(struct permits *p)
{
    bool late = zkl__session_now(session_of(p)) >= p->deadline;
    if (p->step == GRANTED) {
        go_on(p);
        return;
    }
    if (late) {
        fail(p, ZKL_ETIMEOUT, 0, "the time is up");
    }
    if (!p->over && p->again) {
        begin_again(p);
    }
    if (!p->over && !p->busy && zkl__core_connected(zkl__session_core(session_of(p)))) {
        go_on(p);
    }
    if (p->over) {
        end(p);
    } else {
        wake_at(p, p->deadline);
    }
}

static void ring(void *owner)
{
    zkl_session *session = session_of(owner);
    act(owner);
    zkl__session_arm(session);
}

/* --- as a claim of a place ----------------------------------------------------------------------------------------- */

/* A rule that brings a number with it. */
struct request {
    struct zkl__rule rule; /* first */
    int count;
};

static void *make(struct zkl__place *place, const struct zkl__contender_config *config)
{
    const struct request *request = (const struct request *)config->rule;
    const zkl_heap *heap = zkl__session_heap(place->session);
    struct permits *p = zkl__zalloc(heap, sizeof *p + (size_t)request->count * sizeof *p->permits);
    if (!p) {
        return NULL;
    }
    p->semaphore = (zkl_semaphore *)place;
    p->config = *config;
    p->count = request->count;
    p->request = (struct zkl__request){on_done, p};
    p->watch = (struct zkl__watch){.fired = on_fired, .owner = p};
    p->alarm = (struct zkl__alarm){.ring = ring, .owner = p};
    if (!make_place(p)) {
        zkl__free(heap, p);
        return NULL;
    }
    p->semaphore->permits = p;
    return p;
}

static void give_back_all(struct permits *p)
{
    let_go_one(p, &p->place);
    for (int i = 0; i < p->count; i++) {
        p->left += p->permits[i].contender != NULL;
    }
    bool none = p->left == 0;
    for (int i = 0; i < p->count; i++) {
        if (p->permits[i].contender) {
            zkl__session_event(session_of(p),
                               (struct zkl__event){.kind = ZKL__EV_RELEASE, .contender = p->permits[i].contender});
        }
    }
    if (none) {
        tell(p, ZKL__RELEASED, "nothing was left");
    }
}

static void on_event(void *claim, const struct zkl__event *event)
{
    struct permits *p = claim;
    switch (event->kind) {
    case ZKL__EV_START:
        p->deadline = event->deadline;
        p->try_only = event->try_only;
        wake_at(p, p->deadline);
        if (zkl__core_connected(zkl__session_core(session_of(p)))) {
            go_on(p);
        }
        stand_in_queue(p);
        break;
    case ZKL__EV_CANCEL:
        fail(p, event->code, 0,
             event->code == ZKL_ETIMEOUT  ? "the time is up"
             : event->code == ZKL_ECLOSED ? "the session is closed"
                                          : "cancelled");
        end(p);
        break;
    case ZKL__EV_RELEASE:
        give_back_all(p);
        break;
    default:
        break;
    }
}

static bool holds(const void *claim)
{
    const struct permits *p = claim;
    return p->step == GRANTED && !p->lost && all_hold(p);
}

static const struct zkl__claim_ops claims = {make, on_event, holds, let_go};

/* --- the object ---------------------------------------------------------------------------------------------------- */

static void tell_user(struct zkl__place *place, zkl_state state)
{
    zkl_semaphore *semaphore = (zkl_semaphore *)place;
    semaphore->state_fn(semaphore, state, semaphore->state_payload);
}

static void complete(struct zkl__place *place, zkl__any_fn done, void *payload, int code, const zkl_grant *grant_,
                     const zkl_error *err)
{
    ((zkl_permitted_fn)done)((zkl_semaphore *)place, code, grant_, err, payload);
}

static void session_changed(struct zkl__object *object, zkl_session_state state)
{
    zkl_semaphore *semaphore = (zkl_semaphore *)object;
    if (semaphore->permits && state == ZKL_SESSION_CONNECTED) {
        wake(semaphore->permits);
    }
}

static void destroy(struct zkl__place *place)
{
    const zkl_heap *heap = zkl__session_heap(place->session);
    zkl__free(heap, ((zkl_semaphore *)place)->locks);
    zkl__free(heap, ((zkl_semaphore *)place)->leases);
}

static const struct zkl__place_ops ops = {
    .object = {"semaphore", zkl__place_give_up, zkl__place_describe, session_changed},
    .tell = tell_user,
    .complete = complete,
    .claims = &claims,
    .destroy = destroy,
};

static int check_arguments(zkl_semaphore **out, const char *path, int limit, const zkl_semaphore_options *o,
                           zkl_error *err)
{
    char longest[ZKL_PATH_MAX + 1];
    if (!out) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "out is NULL");
    }
    if (o->size != sizeof *o) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL,
                         "options.size is %zu, not %zu: start from ZKL_SEMAPHORE_OPTIONS_INIT", o->size, sizeof *o);
    }
    int rc = zkl__range_check("limit", limit, 1, ZKL_PERMITS_MAX, err);
    if (rc == ZKL_OK) {
        rc = zkl__range_check("on_expiry", (int64_t)o->on_expiry, ZKL_ON_EXPIRY_REQUEUE, ZKL_ON_EXPIRY_FAIL, err);
    }
    if (rc == ZKL_OK) {
        rc = zkl__path_check(path, err);
    }
    if (rc == ZKL_OK && zkl__path_join(longest, sizeof longest, path, "leases") == 0) {
        rc = zkl__fail(err, ZKL_EINVAL, 0, NULL, "the path is too long for \"/leases\" behind it");
    }
    return rc;
}

static char *join(const zkl_heap *heap, const char *path, const char *name)
{
    char whole[ZKL_PATH_MAX + 1];
    size_t length = zkl__path_join(whole, sizeof whole, path, name);
    return zkl__copy(heap, whole, length);
}

int zkl_semaphore_new(zkl_semaphore **out, zkl_session *session, const char *path, int limit,
                      const zkl_semaphore_options *options, zkl_error *err)
{
    static const zkl_semaphore_options defaults = ZKL_SEMAPHORE_OPTIONS_INIT;
    const zkl_semaphore_options *o = options ? options : &defaults;
    int rc = check_arguments(out, path, limit, o, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    const struct zkl__place_config config = {
        .metadata = o->metadata,
        .acl = o->acl,
        .listens = o->state_fn != NULL,
        .fail_on_expiry = o->on_expiry == ZKL_ON_EXPIRY_FAIL,
        .release_timeout_ms = o->release_timeout_ms,
    };
    struct zkl__place *place;
    rc = zkl__place_new(&place, sizeof(zkl_semaphore), &ops, session, path, &config, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_semaphore *semaphore = (zkl_semaphore *)place;
    semaphore->limit = limit;
    semaphore->locks = join(zkl__session_heap(session), path, "locks");
    semaphore->leases = join(zkl__session_heap(session), path, "leases");
    semaphore->state_fn = o->state_fn;
    semaphore->state_payload = o->state_payload;
    if (!semaphore->locks || !semaphore->leases) {
        zkl__place_free(place);
        return zkl__fail(err, ZKL_ENOMEM, 0, path, "no memory");
    }
    *out = semaphore;
    return ZKL_OK;
}

void zkl_semaphore_free(zkl_semaphore *semaphore)
{
    zkl__place_free((struct zkl__place *)semaphore);
}

static int check_count(const zkl_semaphore *semaphore, int count, zkl_error *err)
{
    return semaphore ? zkl__range_check("count", count, 1, semaphore->limit, err)
                     : zkl__fail(err, ZKL_EINVAL, 0, NULL, "semaphore is NULL");
}

int zkl_semaphore_acquire(zkl_semaphore *semaphore, int count, int64_t timeout_ms, zkl_grant *grant_, zkl_error *err)
{
    const struct request request = {queue_rule, count};
    int rc = check_count(semaphore, count, err);
    return rc == ZKL_OK ? zkl__place_acquire(&semaphore->place, &request.rule, timeout_ms, grant_, err) : rc;
}

int zkl_semaphore_acquire_async(zkl_semaphore *semaphore, int count, int64_t timeout_ms, zkl_permitted_fn done,
                                void *payload, zkl_error *err)
{
    const struct request request = {queue_rule, count};
    int rc = check_count(semaphore, count, err);
    return rc == ZKL_OK
               ? zkl__place_acquire_async(&semaphore->place, &request.rule, timeout_ms, (zkl__any_fn)done, payload, err)
               : rc;
}

int zkl_semaphore_cancel(zkl_semaphore *semaphore)
{
    return zkl__place_cancel((struct zkl__place *)semaphore);
}

/* --- giving back --------------------------------------------------------------------------------------------------- */

static int count_held(const struct permits *p)
{
    int held = 0;
    for (int i = 0; i < p->count; i++) {
        held += p->permits[i].contender != NULL;
    }
    return held;
}

static struct permit *last_permit(struct permits *p)
{
    struct permit *last = NULL;
    for (int i = 0; i < p->count; i++) {
        struct permit *permit = &p->permits[i];
        last = permit->contender && (!last || permit->token > last->token) ? permit : last;
    }
    return last;
}

/* Inside. *all: there would be none left, so that is another matter. */
static int release_some(zkl_semaphore *semaphore, int count, bool *all, zkl_error *err)
{
    struct permits *p = semaphore->permits;
    zkl_state state = zkl__place_look(&semaphore->place).state;
    *all = state == ZKL_STATE_IDLE || state == ZKL_STATE_WAITING || count == count_held(p);
    if (*all) {
        return ZKL_OK;
    }
    if (count < 0 || count > count_held(p)) {
        return zkl__fail(err, ZKL_EINVAL, 0, semaphore->place.path, "count is %d, of %d permits held", count,
                         count_held(p));
    }
    while (count-- > 0) {
        let_go_one(p, &last_permit(p)->contender);
    }
    return state == ZKL_STATE_LOST ? zkl__fail(err, ZKL_ELOST, 0, semaphore->place.path, "lost while they were held")
                                   : ZKL_OK;
}

int zkl_semaphore_release(zkl_semaphore *semaphore, int count, zkl_error *err)
{
    bool all = count == 0;
    if (semaphore && !all) {
        zkl_session *session = semaphore->place.session;
        int rc = zkl__session_enter(session, false, err);
        if (rc != ZKL_OK) {
            return rc;
        }
        rc = release_some(semaphore, count, &all, err);
        zkl__session_leave(session);
        if (!all) {
            return rc;
        }
    }
    return zkl__place_release((struct zkl__place *)semaphore, err);
}

/* --- what is so now ------------------------------------------------------------------------------------------------ */

zkl_state zkl_semaphore_state(const zkl_semaphore *semaphore)
{
    return zkl__place_standing((const struct zkl__place *)semaphore).state;
}

bool zkl_semaphore_is_held(const zkl_semaphore *semaphore)
{
    zkl_state state = zkl_semaphore_state(semaphore);
    return state == ZKL_STATE_HELD || state == ZKL_STATE_JEOPARDY;
}

int64_t zkl_semaphore_remaining_ms(const zkl_semaphore *semaphore)
{
    return zkl__place_standing((const struct zkl__place *)semaphore).remaining_ns / ZKL__MS;
}

int64_t zkl_semaphore_token(const zkl_semaphore *semaphore)
{
    return zkl__place_standing((const struct zkl__place *)semaphore).token;
}

static int by_value(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

int zkl_semaphore_tokens(const zkl_semaphore *semaphore, int64_t *tokens, int room)
{
    int held = 0, put = 0;
    if (!semaphore || zkl__session_enter(semaphore->place.session, false, NULL) != ZKL_OK) {
        return 0;
    }
    zkl_session *session = semaphore->place.session;
    const struct permits *p = zkl__place_look(&semaphore->place).token ? semaphore->permits : NULL;
    for (int i = 0; p && i < p->count; i++) {
        if (p->permits[i].contender) {
            held++;
            if (put < room) {
                tokens[put++] = p->permits[i].token;
            }
        }
    }
    zkl__session_leave(session);
    if (put > 0) {
        qsort(tokens, (size_t)put, sizeof *tokens, by_value);
    }
    return held;
}

int zkl_semaphore_held(const zkl_semaphore *semaphore)
{
    return zkl_semaphore_tokens(semaphore, NULL, 0);
}

const char *zkl_semaphore_path(const zkl_semaphore *semaphore)
{
    return semaphore ? semaphore->place.path : "";
}

int zkl_semaphore_limit(const zkl_semaphore *semaphore)
{
    return semaphore ? semaphore->limit : 0;
}
