#include "agent.h"

#include "error.h"
#include "heap.h"
#include "path.h"

#include <string.h>

void zkl__agent_stop(struct zkl__agent *agent)
{
    agent->ops->stop(agent);
}

void zkl__agent_unref(struct zkl__agent *agent)
{
    zkl_session *session = agent->session;
    const zkl_heap *heap = &session->heap;
    if (--agent->refs > 0) {
        return;
    }
    zkl__agent_stop(agent);
    zkl__session_remove(session, &agent->object);
    if (agent->ops->destroy) {
        agent->ops->destroy(agent);
    }
    zkl__free(heap, agent->seen);
    zkl__free(heap, agent->shown);
    zkl__free(heap, agent->path);
    zkl__free(heap, agent);
    zkl__session_drop(session);
}

void zkl__agent_wake(struct zkl__agent *agent, struct zkl__watcher *watcher)
{
    if (watcher->core) {
        zkl__session_event(agent->session,
                           (struct zkl__event){.kind = ZKL__EV_WAKE, .watcher = watcher});
    }
}

/* --- telling --------------------------------------------------------------------------------- */

void zkl__agent_post(struct zkl__agent *agent)
{
    if (!agent->freed) {
        zkl__callbacks_post(&agent->session->callbacks, &agent->notice);
    }
}

void zkl__agent_see(struct zkl__agent *agent, void *seen)
{
    zkl__free(&agent->session->heap, agent->seen);
    agent->seen = seen;
    zkl__agent_post(agent);
}

const void *zkl__agent_news(struct zkl__agent *agent, bool (*same)(const void *a, const void *b))
{
    const void *news = NULL;
    zkl__session_enter_even_closed(agent->session, NULL);
    if (agent->seen && !agent->freed && !(agent->shown && same(agent->seen, agent->shown))) {
        zkl__free(&agent->session->heap, agent->shown);
        news = agent->shown = agent->seen;
        agent->seen = NULL;
    }
    zkl__session_leave(agent->session);
    return news;
}

static void run_notice(void *owner)
{
    struct zkl__agent *agent = owner;
    zkl_session *session = agent->session;
    if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
        return;
    }
    agent->refs++;
    zkl__session_leave(session);
    agent->ops->tell(agent);
    if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
        return;
    }
    zkl__agent_unref(agent);
    zkl__session_leave(session);
}

/* --- life ------------------------------------------------------------------------------------ */

static int make(struct zkl__agent **out, size_t size, const struct zkl__agent_ops *ops,
                zkl_session *session, const char *path, bool tells, zkl_error *err)
{
    const zkl_heap *heap = &session->heap;
    if (tells && zkl__callbacks_want(&session->callbacks) != ZKL_OK) {
        return zkl__fail(err, ZKL_ELIMIT, 0, path, "no thread for callbacks");
    }
    struct zkl__agent *agent = zkl__zalloc(heap, size);
    char *copy = zkl__copy(heap, path, strlen(path));
    if (!agent || !copy) {
        zkl__free(heap, copy);
        zkl__free(heap, agent);
        return zkl__fail(err, ZKL_ENOMEM, 0, path, "no memory");
    }
    agent->object.ops = &ops->object;
    agent->ops = ops;
    agent->session = session;
    agent->path = copy;
    agent->refs = 1;
    agent->notice = (struct zkl__callback){.run = run_notice, .owner = agent};
    zkl__session_retain(session);
    zkl__session_add(session, &agent->object);
    *out = agent;
    return ZKL_OK;
}

int zkl__agent_new(struct zkl__agent **out, size_t size, const struct zkl__agent_ops *ops,
                   zkl_session *session, const char *path, bool tells, zkl_error *err)
{
    if (!session) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "session is NULL");
    }
    int rc = zkl__path_check(path, err);
    rc = rc == ZKL_OK ? zkl__session_enter(session, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    rc = make(out, size, ops, session, path, tells, err);
    if (rc != ZKL_OK) {
        zkl__session_leave(session);
    }
    return rc;
}

int zkl__agent_made(struct zkl__agent *agent, bool made, zkl_error *err)
{
    zkl_session *session = agent->session;
    int rc = made ? ZKL_OK : zkl__fail(err, ZKL_ENOMEM, 0, agent->path, "no memory");
    if (!made) {
        zkl__agent_unref(agent);
    }
    zkl__session_leave(session);
    return rc;
}

void zkl__agent_free(struct zkl__agent *agent, bool goes_on)
{
    zkl_session *session = agent->session;
    if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
        return; /* in a child of fork the parent's memory stays as it is */
    }
    agent->freed = true;
    if (!goes_on) {
        zkl__agent_stop(agent);
    }
    zkl__callbacks_unpost(&session->callbacks, &agent->notice);
    zkl__agent_unref(agent);
    zkl__session_leave(session);
}

/* --- as an object of the session ------------------------------------------------------------- */

bool zkl__agent_give_up(struct zkl__object *object, int code)
{
    if (code == ZKL_ECLOSED) {
        zkl__agent_stop((struct zkl__agent *)object);
    }
    return false;
}

int zkl__agent_describe(const struct zkl__object *object, zkl__visit_fn visit, void *payload)
{
    (void)object, (void)visit, (void)payload; /* stands in no queue */
    return 0;
}
