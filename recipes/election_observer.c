/* election_observer.c - who leads, for those who do not take part.
 *
 * The list is read; of the first candidate in it data and watch are taken in one get. Only while there is none is the list itself
 * watched, or, while there is no directory, its coming: so candidates that come and go behind the leader wake nobody. Whoever is first
 * stays so until its node goes, since numbers only rise. */
#include "agent.h"

#include "error.h"
#include "heap.h"
#include "name.h"
#include "name_set.h"

#include <zklock/election.h>

#include <string.h>

#define AGAIN_NS (2000 * ZKL__MS) /* when an access list hides the candidates, or no memory is left for them */

struct sight {
    zkl_leader leader; /* its strings follow */
    bool somebody;
};

struct zkl_election_observer {
    struct zkl__agent agent; /* first */
    enum { LIST, WATCH_LIST, WATCH_DIRECTORY, READ, READ_BLINDLY, SETTLED } step;
    char *first;                  /* name of the first candidate */
    struct zkl__name_set skipped; /* names that are no candidates': they live with no session */
    struct sight *seen, *shown;   /* NULL: nothing yet */
    zkl_leader_fn told;
    void *payload;
};

static const zkl_heap *heap_of(struct zkl_election_observer *observer)
{
    return zkl__session_heap(observer->agent.session);
}

/* --- what is seen -------------------------------------------------------------------------------------------------- */

static bool same(const struct sight *a, const struct sight *b)
{
    if (!a || !b || a->somebody != b->somebody) {
        return false;
    }
    const zkl_leader *x = &a->leader, *y = &b->leader;
    return !a->somebody || (x->token == y->token && x->readable == y->readable && strcmp(x->node, y->node) == 0 &&
                            x->value_size == y->value_size && memcmp(x->value, y->value, x->value_size) == 0);
}

/* Of reply NULL: nobody. */
static void see(struct zkl_election_observer *observer, const struct zkl__reply *reply, bool readable)
{
    const char *name = reply ? observer->first : "";
    size_t size = reply && readable ? reply->size : 0;
    size = size < ZKL_DATA_MAX ? size : ZKL_DATA_MAX;
    struct sight *sight = zkl__zalloc(heap_of(observer), sizeof *sight + strlen(name) + 1 + size + 1);
    if (!sight) {
        zkl__agent_put_off(&observer->agent, AGAIN_NS);
        return;
    }
    char *node = (char *)(sight + 1), *value = node + strlen(name) + 1;
    strcpy(node, name);
    if (size > 0) {
        memcpy(value, reply->data, size);
    }
    sight->somebody = reply != NULL;
    sight->leader = (zkl_leader){.node = node, .value = value, .value_size = size, .readable = readable};
    if (reply) {
        sight->leader.token = reply->stat.czxid;
        sight->leader.session_id = reply->stat.ephemeral_owner;
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

/* --- looking ------------------------------------------------------------------------------------------------------- */

static bool stands_before(const char *a, const char *b)
{
    return zkl__sequence_diff(zkl__name_sequence(a), zkl__name_sequence(b)) < 0;
}

static const char *find_first(const struct zkl_election_observer *observer, const struct zkl__reply *list)
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
        see(observer, NULL, true);
    }
}

static void on_first(struct zkl_election_observer *observer, const struct zkl__reply *reply)
{
    if (reply->rc == ZKL__RC_OK && reply->stat.ephemeral_owner == 0) {
        skip_first(observer);
        observer->step = LIST;
    } else if (reply->rc == ZKL__RC_OK) {
        see(observer, reply, observer->step == READ);
    } else if (reply->rc == ZKL__RC_NOAUTH && observer->step == READ) {
        observer->step = READ_BLINDLY;
    } else {
        observer->step = LIST;
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
            see(observer, NULL, true);
        } else {
            observer->step = LIST;
        }
        break;
    case READ:
    case READ_BLINDLY:
        on_first(observer, reply);
        break;
    case SETTLED:
        break;
    }
}

static void stir(struct zkl__agent *agent, bool session_over)
{
    struct zkl_election_observer *observer = (struct zkl_election_observer *)agent;
    (void)session_over;
    observer->step = LIST;
    skip_nobody(observer);
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
        op.kind = ZKL__OP_CHILDREN;
        break;
    case WATCH_DIRECTORY:
        op.kind = ZKL__OP_EXISTS;
        break;
    case READ:
    case READ_BLINDLY:
        op.kind = observer->step == READ ? ZKL__OP_GET : ZKL__OP_EXISTS;
        op.name = observer->first;
        break;
    case SETTLED:
        return;
    }
    zkl__agent_ask(agent, &op);
}

/* --- life ---------------------------------------------------------------------------------------------------------- */

static void destroy(struct zkl__agent *agent)
{
    struct zkl_election_observer *observer = (struct zkl_election_observer *)agent;
    zkl__free(heap_of(observer), observer->first);
    skip_nobody(observer);
    zkl__free(heap_of(observer), observer->seen);
    zkl__free(heap_of(observer), observer->shown);
}

static const struct zkl__agent_ops ops = {
    .object = {"election observer", zkl__agent_give_up, zkl__agent_describe, zkl__agent_session_changed},
    .act = act,
    .answer = answer,
    .stir = stir,
    .tell = tell,
    .destroy = destroy,
};

int zkl_election_observe(zkl_election_observer **out, zkl_session *session, const char *path, zkl_leader_fn told,
                         void *payload, zkl_error *err)
{
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
