/* election_observer.c - who leads, told on every change of it: protocol/observer.h finds out. */
#include "agent.h"
#include "observer.h"

#include "error.h"
#include "heap.h"

#include <zklock/election.h>

#include <string.h>

struct sight {
    zkl_leader leader; /* its strings follow */
    bool somebody;
};

struct zkl_election_observer {
    struct zkl__agent agent; /* first */
    struct zkl__observer machine;
    zkl_election_changed_fn told;
    void *payload;
};

static bool same(const void *some, const void *other)
{
    const struct sight *a = some, *b = other;
    const zkl_leader *x = &a->leader, *y = &b->leader;
    return a->somebody == b->somebody && x->token == y->token && x->readable == y->readable &&
           strcmp(x->node, y->node) == 0 && x->value_size == y->value_size &&
           memcmp(x->value, y->value, x->value_size) == 0;
}

/* Inside a step. */
static bool show(void *owner, const struct zkl__leader *leader)
{
    struct zkl_election_observer *observer = owner;
    const char *name = leader->node ? leader->node : "";
    size_t size = leader->size < ZKL_DATA_MAX ? leader->size : ZKL_DATA_MAX;
    struct sight *sight = zkl__zalloc(zkl__session_heap(observer->agent.session),
                                      sizeof *sight + strlen(name) + 1 + size + 1);
    if (!sight) {
        return false;
    }
    char *value = (char *)(sight + 1);
    const char *node = zkl__text_put(&value, name);
    if (size > 0) {
        memcpy(value, leader->data, size);
    }
    sight->somebody = leader->node;
    sight->leader = (zkl_leader){.node = node,
                                 .token = leader->stat.czxid,
                                 .session_id = leader->stat.ephemeral_owner,
                                 .value = value,
                                 .value_size = size,
                                 .readable = leader->readable};
    zkl__agent_see(&observer->agent, sight);
    return true;
}

static void tell(struct zkl__agent *agent)
{
    struct zkl_election_observer *observer = (struct zkl_election_observer *)agent;
    const struct sight *news = zkl__agent_news(agent, same);
    if (news) {
        observer->told(observer, news->somebody ? &news->leader : NULL, observer->payload);
    }
}

static void stop(struct zkl__agent *agent)
{
    zkl__observer_end(&((struct zkl_election_observer *)agent)->machine);
}

static const struct zkl__agent_ops ops = {
    .object = {"election observer", zkl__agent_give_up, zkl__agent_describe},
    .tell = tell,
    .stop = stop,
};

int zkl_election_observe(zkl_election_observer **out, zkl_session *session, const char *path,
                         zkl_election_changed_fn told, void *payload, zkl_error *err)
{
    ZKL__CLEAR(out);
    if (!out || !told) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", out ? "told" : "out");
    }
    struct zkl__agent *agent;
    int rc = zkl__agent_new(&agent, sizeof(zkl_election_observer), &ops, session, path, true, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_election_observer *observer = (zkl_election_observer *)agent;
    observer->told = told;
    observer->payload = payload;
    observer->machine.dir = agent->path;
    observer->machine.show = show;
    bool made = zkl__observer_begin(&observer->machine, zkl__session_core(session), observer);
    if (made) {
        *out = observer; /* before told can be called with it */
        zkl__agent_wake(agent, &observer->machine.watcher);
    }
    return zkl__agent_made(agent, made, err);
}

void zkl_election_observer_free(zkl_election_observer *observer)
{
    if (observer) {
        zkl__agent_free(&observer->agent, false);
    }
}
