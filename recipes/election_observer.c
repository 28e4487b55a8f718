/* election_observer.c - who leads, for those who do not take part.
 *
 * The list is read; of the first candidate in it data and watch are taken in one get. Only while
 * there is none is the list itself watched, or, while there is no directory, its coming: so
 * candidates that come and go behind the leader wake nobody. Whoever is first stays so until its
 * node goes, since numbers only rise.
 *
 * A first candidate that may not be read is not watched: servers keep its events from us (see enum
 * zkl__sight in predecessor.h). The list is, by the request that shows it still first. */
#include "agent.h"

#include "error.h"
#include "heap.h"
#include "name.h"
#include "name_set.h"

#include <zklock/election.h>

#include <string.h>

#define AGAIN_NS \
    (2000 * ZKL__MS) /* when an access list hides the candidates, or no memory is left for them */

struct sight {
    zkl_leader leader; /* its strings follow */
    bool somebody;
};

struct zkl_election_observer {
    struct zkl__agent agent; /* first */
    enum { LIST, WATCH_LIST, WATCH_DIRECTORY, READ, STAT_HIDDEN, WATCH_HIDDEN, SETTLED } step;
    char *first;                  /* name of the first candidate */
    bool hidden;                  /* it may not be read */
    struct zkl__stat stat;        /* of the hidden one, as far as the server tells it; 0 */
    struct zkl__name_set skipped; /* names that are no candidates': they live with no session */
    struct sight *seen, *shown;   /* NULL: nothing yet */
    zkl_leader_fn told;
    void *payload;
};

static const zkl_heap *heap_of(struct zkl_election_observer *observer)
{
    return zkl__session_heap(observer->agent.session);
}

/* --- what is seen ---------------------------------------------------------------------------- */

static bool same(const struct sight *a, const struct sight *b)
{
    if (!a || !b || a->somebody != b->somebody) {
        return false;
    }
    const zkl_leader *x = &a->leader, *y = &b->leader;
    return !a->somebody ||
           (x->token == y->token && x->readable == y->readable && strcmp(x->node, y->node) == 0 &&
            x->value_size == y->value_size && memcmp(x->value, y->value, x->value_size) == 0);
}

/* Of reply NULL: nobody, or, if it is hidden, the first without its value. */
static void see(struct zkl_election_observer *observer, const struct zkl__reply *reply)
{
    bool somebody = reply || observer->hidden;
    const char *name = somebody ? observer->first : "";
    size_t size = reply ? reply->size : 0;
    size = size < ZKL_DATA_MAX ? size : ZKL_DATA_MAX;
    struct sight *sight =
        zkl__zalloc(heap_of(observer), sizeof *sight + strlen(name) + 1 + size + 1);
    if (!sight) {
        zkl__agent_put_off(&observer->agent, AGAIN_NS);
        return;
    }
    char *node = (char *)(sight + 1), *value = node + strlen(name) + 1;
    strcpy(node, name);
    if (size > 0) {
        memcpy(value, reply->data, size);
    }
    sight->somebody = somebody;
    sight->leader = (zkl_leader){
        .node = node, .value = value, .value_size = size, .readable = !observer->hidden};
    if (somebody) {
        const struct zkl__stat *stat = reply ? &reply->stat : &observer->stat;
        sight->leader.token = stat->czxid;
        sight->leader.session_id = stat->ephemeral_owner;
    }
    zkl__free(heap_of(observer), observer->seen);
    observer->seen = sight;
    observer->step = SETTLED;
    zkl__agent_post(&observer->agent);
}

static void tell(struct zkl__agent *agent)
{
    struct zkl_election_observer *observer = (struct zkl_election_observer *)agent;
    struct sight *news = NULL;
    zkl__session_enter_even_closed(agent->session, NULL);
    if (observer->seen && !agent->freed && !same(observer->seen, observer->shown)) {
        zkl__free(heap_of(observer), observer->shown);
        news = observer->shown = observer->seen;
        observer->seen = NULL;
    }
    zkl__session_leave(agent->session);
    if (news) {
        observer->told(observer, news->somebody ? &news->leader : NULL, observer->payload);
    }
}

/* --- looking --------------------------------------------------------------------------------- */

static bool stands_before(const char *a, const char *b)
{
    return zkl__sequence_diff(zkl__name_sequence(a), zkl__name_sequence(b)) < 0;
}

static const char *find_first(const struct zkl_election_observer *observer,
                              const struct zkl__reply *list)
{
    const char *first = NULL;
    for (size_t i = 0; i < list->child_count; i++) {
        const char *name = list->children[i];
        struct zkl__name parsed = zkl__name_parse(name);
        bool skip = parsed.kind == ZKL_KIND_FOREIGN || zkl__sequence_used_up(parsed.sequence) ||
                    zkl__name_set_has(&observer->skipped, name);
        if (!skip && (!first || stands_before(name, first))) {
            first = name;
        }
    }
    return first;
}

static void skip_nobody(struct zkl_election_observer *observer)
{
    zkl__name_set_clear(&observer->skipped, heap_of(observer));
}

/* Not "up to its number": a true candidate that comes meanwhile may stand before a forged one. */
static void skip_first(struct zkl_election_observer *observer)
{
    if (!zkl__name_set_add(&observer->skipped, heap_of(observer), observer->first)) {
        zkl__agent_put_off(&observer->agent, AGAIN_NS);
    }
}

static void start_anew(struct zkl_election_observer *observer)
{
    observer->step = LIST;
    observer->hidden = false;
    observer->stat = (struct zkl__stat){0};
    skip_nobody(observer);
}

static void on_list(struct zkl_election_observer *observer, const struct zkl__reply *reply)
{
    if (reply->rc == ZKL__RC_NONODE) {
        observer->step = WATCH_DIRECTORY;
        return;
    }
    if (reply->rc != ZKL__RC_OK) {
        zkl__agent_put_off(&observer->agent, AGAIN_NS);
        return;
    }
    const char *first = find_first(observer, reply);
    if (first) {
        zkl__free(heap_of(observer), observer->first);
        observer->first = zkl__copy(heap_of(observer), first, strlen(first));
        observer->step = observer->first ? READ : LIST;
    } else if (observer->step == LIST) {
        observer->step = WATCH_LIST;
    } else {
        see(observer, NULL);
    }
}

/* The list is watched from here on. Another one may be first by now: then all begins anew. */
static void on_list_of_hidden(struct zkl_election_observer *observer,
                              const struct zkl__reply *reply)
{
    const char *first = reply->rc == ZKL__RC_OK ? find_first(observer, reply) : NULL;
    if (reply->rc != ZKL__RC_OK && reply->rc != ZKL__RC_NONODE) {
        zkl__agent_put_off(&observer->agent, AGAIN_NS);
    } else if (first && strcmp(first, observer->first) == 0) {
        see(observer, NULL);
    } else {
        start_anew(observer);
    }
}

/* A stat that is refused, too, says nothing: it counts as a candidate. */
static void on_stat_of_hidden(struct zkl_election_observer *observer,
                              const struct zkl__reply *reply)
{
    if (reply->rc == ZKL__RC_NONODE) {
        start_anew(observer);
    } else if (reply->rc == ZKL__RC_OK && reply->stat.ephemeral_owner == 0) {
        observer->hidden = false;
        observer->step = LIST;
        skip_first(observer);
    } else if (reply->rc == ZKL__RC_OK || reply->rc == ZKL__RC_NOAUTH) {
        observer->stat = reply->stat;
        observer->step = WATCH_HIDDEN;
    } else {
        zkl__agent_put_off(&observer->agent, AGAIN_NS);
    }
}

static void on_first(struct zkl_election_observer *observer, const struct zkl__reply *reply)
{
    if (reply->rc == ZKL__RC_OK && reply->stat.ephemeral_owner == 0) {
        skip_first(observer);
        observer->step = LIST;
    } else if (reply->rc == ZKL__RC_OK) {
        see(observer, reply);
    } else if (reply->rc == ZKL__RC_NOAUTH) {
        observer->hidden = true;
        observer->step = STAT_HIDDEN;
    } else {
        observer->step = LIST;
        if (reply->rc != ZKL__RC_NONODE) {
            zkl__agent_put_off(&observer->agent, AGAIN_NS); /* refused: not without a pause */
        }
    }
}

static void answer(struct zkl__agent *agent, const struct zkl__reply *reply)
{
    struct zkl_election_observer *observer = (struct zkl_election_observer *)agent;
    switch (observer->step) {
    case LIST:
    case WATCH_LIST:
        on_list(observer, reply);
        break;
    case WATCH_DIRECTORY:
        if (reply->rc == ZKL__RC_NONODE) {
            see(observer, NULL);
        } else {
            observer->step = LIST;
            if (reply->rc != ZKL__RC_OK) {
                zkl__agent_put_off(agent, AGAIN_NS);
            }
        }
        break;
    case READ:
        on_first(observer, reply);
        break;
    case STAT_HIDDEN:
        on_stat_of_hidden(observer, reply);
        break;
    case WATCH_HIDDEN:
        on_list_of_hidden(observer, reply);
        break;
    case SETTLED:
        break;
    }
}

/* Somebody came or went behind a hidden one, most likely: what was refused is not asked again. */
static void stir(struct zkl__agent *agent, bool session_over)
{
    struct zkl_election_observer *observer = (struct zkl_election_observer *)agent;
    if (observer->hidden && observer->step == SETTLED && !session_over) {
        observer->step = WATCH_HIDDEN;
    } else {
        start_anew(observer);
    }
}

static void act(struct zkl__agent *agent)
{
    struct zkl_election_observer *observer = (struct zkl_election_observer *)agent;
    struct zkl__op op = {.dir = agent->path, .watch = true};
    switch (observer->step) {
    case LIST:
        zkl__agent_unwatch(agent);
        op.kind = ZKL__OP_CHILDREN;
        op.watch = false;
        break;
    case WATCH_LIST:
    case WATCH_HIDDEN:
        op.kind = ZKL__OP_CHILDREN;
        break;
    case WATCH_DIRECTORY:
        op.kind = ZKL__OP_EXISTS;
        break;
    case READ:
        op.kind = ZKL__OP_GET;
        op.name = observer->first;
        break;
    case STAT_HIDDEN:
        zkl__agent_unwatch(agent); /* the refused get has set none */
        op.kind = ZKL__OP_EXISTS;
        op.name = observer->first;
        op.watch = false;
        break;
    case SETTLED:
        return;
    }
    zkl__agent_ask(agent, &op);
}

/* --- life ------------------------------------------------------------------------------------ */

static void destroy(struct zkl__agent *agent)
{
    struct zkl_election_observer *observer = (struct zkl_election_observer *)agent;
    zkl__free(heap_of(observer), observer->first);
    skip_nobody(observer);
    zkl__free(heap_of(observer), observer->seen);
    zkl__free(heap_of(observer), observer->shown);
}

static const struct zkl__agent_ops ops = {
    .object = {"election observer", zkl__agent_give_up, zkl__agent_describe,
               zkl__agent_session_changed},
    .act = act,
    .answer = answer,
    .stir = stir,
    .tell = tell,
    .destroy = destroy,
};

int zkl_election_observe(zkl_election_observer **out, zkl_session *session, const char *path,
                         zkl_leader_fn told, void *payload, zkl_error *err)
{
    ZKL__CLEAR(out);
    if (!out || !told) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", out ? "told" : "out");
    }
    struct zkl__agent *agent;
    int rc = zkl__agent_new(&agent, sizeof(zkl_election_observer), &ops, session, path, true, err);
    if (rc == ZKL_OK) {
        zkl_election_observer *observer = (zkl_election_observer *)agent;
        observer->told = told;
        observer->payload = payload;
        *out = observer; /* before told can be called with it */
        zkl__agent_wake(agent);
        zkl__session_leave(session);
    }
    return rc;
}

void zkl_election_observer_free(zkl_election_observer *observer)
{
    if (observer) {
        zkl__agent_free(&observer->agent, false);
    }
}
