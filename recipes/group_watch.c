/* group_watch.c - who is in a group, told on every change of it: protocol/member_list.h finds out.
 */
#include "agent.h"
#include "member_list.h"

#include "error.h"
#include "name.h"

#include <zklock/group.h>

#include <string.h>

struct zkl_group_observer {
    struct zkl__agent agent; /* first */
    struct zkl__member_list list;
    bool warned; /* that the path is a lock's */
    zkl_group_changed_fn changed;
    void *payload;
};

static bool same(const void *some, const void *others)
{
    const struct zkl__names *a = some, *b = others;
    bool so = a->count == b->count;
    for (size_t i = 0; so && i < a->count; i++) {
        so = strcmp(a->all[i], b->all[i]) == 0;
    }
    return so;
}

/* Inside a step. */
static void show(void *owner, struct zkl__names *ids)
{
    struct zkl_group_observer *watcher = owner;
    for (size_t i = 0; i < ids->count && !watcher->warned; i++) {
        watcher->warned = zkl__name_has_uuid(ids->all[i]);
        if (watcher->warned) {
            zkl__session_log(watcher->agent.session, ZKL_LOG_WARN, "group", watcher->agent.path,
                             "the path is in use as a lock or an election, too: whoever queues is "
                             "shown as a member");
        }
    }
    zkl__agent_see(&watcher->agent, ids);
}

static void tell(struct zkl__agent *agent)
{
    struct zkl_group_observer *watcher = (struct zkl_group_observer *)agent;
    const struct zkl__names *news = zkl__agent_news(agent, same);
    if (news) {
        watcher->changed(watcher, news->all, news->count, watcher->payload);
    }
}

static void stop(struct zkl__agent *agent)
{
    zkl__member_list_end(&((struct zkl_group_observer *)agent)->list);
}

static const struct zkl__agent_ops ops = {
    .object = {"group observer", zkl__agent_give_up, zkl__agent_describe},
    .tell = tell,
    .stop = stop,
};

int zkl_group_observe(zkl_group_observer **out, zkl_session *session, const char *path,
                      zkl_group_changed_fn changed, void *payload, zkl_error *err)
{
    ZKL__CLEAR(out);
    if (!out || !changed) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", out ? "changed" : "out");
    }
    struct zkl__agent *agent;
    int rc = zkl__agent_new(&agent, sizeof(zkl_group_observer), &ops, session, path, true, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_group_observer *watcher = (zkl_group_observer *)agent;
    watcher->changed = changed;
    watcher->payload = payload;
    watcher->list.dir = agent->path;
    watcher->list.show = show;
    bool made = zkl__member_list_begin(&watcher->list, zkl__session_core(session), watcher);
    if (made) {
        *out = watcher; /* before changed can be called with it */
        zkl__agent_wake(agent, &watcher->list.watcher);
    }
    return zkl__agent_made(agent, made, err);
}

void zkl_group_observer_free(zkl_group_observer *watcher)
{
    if (watcher) {
        zkl__agent_free(&watcher->agent, false);
    }
}
