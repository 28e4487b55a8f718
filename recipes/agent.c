#include "agent.h"

#include "error.h"
#include "heap.h"
#include "path.h"

#include <string.h>

/* For what was not sent though connected (a limit was reached, or no memory), and for what the
 * server put off. */
#define RETRY_NS (200 * ZKL__MS)

/* --- memory ---------------------------------------------------------------------------------- */

void zkl__agent_unref(struct zkl__agent *agent)
{
    zkl_session *session = agent->session;
    const zkl_heap *heap = zkl__session_heap(session);
    if (--agent->refs > 0) {
        return;
    }
    zkl__agent_stop(agent);
    zkl__session_remove(session, &agent->object);
    agent->ops->destroy(agent);
    zkl__signal_deinit(&agent->changed);
    zkl__free(heap, agent->watch_path);
    zkl__free(heap, agent->path);
    zkl__free(heap, agent);
    zkl__session_drop(session);
}

/* --- acting ---------------------------------------------------------------------------------- */

void zkl__agent_wake(struct zkl__agent *agent)
{
    if (!agent->stopped) {
        zkl__alarms_set(zkl__session_alarms(agent->session), &agent->alarm, 0);
    }
}

void zkl__agent_put_off(struct zkl__agent *agent, int64_t ns)
{
    if (!agent->stopped) {
        zkl__alarms_set(zkl__session_alarms(agent->session), &agent->alarm,
                        zkl__session_now(agent->session) + ns);
    }
}

static void ring(void *owner)
{
    struct zkl__agent *agent = owner;
    zkl_session *session = agent->session;
    if (!agent->busy && !agent->stopped && zkl__core_connected(zkl__session_core(session))) {
        agent->refs++;
        agent->ops->act(agent);
        zkl__agent_unref(agent);
    }
    zkl__session_arm(session);
}

static void on_done(struct zkl__request *request, const struct zkl__reply *reply)
{
    struct zkl__agent *agent = request->owner;
    agent->busy = false;
    if (zkl__rc_answered(reply->rc) && reply->rc != ZKL__RC_NOTAPPLIED) {
        zkl__agent_wake(agent);
        agent->ops->answer(agent, reply); /* may put it off */
    } else {
        zkl__agent_put_off(agent, RETRY_NS); /* or when it is connected again */
    }
    if (agent->missed) {
        agent->missed = false;
        zkl__agent_wake(agent);
        agent->ops->stir(agent, false);
    }
}

static void on_fired(struct zkl__watch *watch, enum zkl__watch_event event)
{
    struct zkl__agent *agent = watch->owner;
    (void)event;
    if (agent->busy) {
        agent->missed =
            true; /* the answer may settle it, and then nothing would be watched any more */
        return;
    }
    zkl__agent_wake(agent);
    agent->ops->stir(agent, false);
}

void zkl__agent_unwatch(struct zkl__agent *agent)
{
    zkl__watch_remove(zkl__session_core(agent->session), &agent->watch);
}

/* False: no memory, or too many watches. */
static bool watch(struct zkl__agent *agent, const struct zkl__op *op)
{
    size_t need = strlen(op->dir) + (op->name ? strlen(op->name) : 0) + 2;
    if (need > agent->watch_room) {
        char *grown = zkl__resize(zkl__session_heap(agent->session), agent->watch_path, need);
        if (!grown) {
            return false;
        }
        agent->watch_path = grown;
        agent->watch_room = need;
    }
    strcpy(agent->watch_path, op->dir);
    if (op->name) {
        strcat(agent->watch_path, "/");
        strcat(agent->watch_path, op->name);
    }
    agent->watch.path = agent->watch_path;
    return zkl__watch_add(zkl__session_core(agent->session), &agent->watch) == ZKL_OK;
}

void zkl__agent_ask(struct zkl__agent *agent, const struct zkl__op *op)
{
    if (op->watch) {
        zkl__agent_unwatch(agent);
        if (!watch(agent, op)) {
            zkl__agent_put_off(agent, RETRY_NS);
            return;
        }
    }
    agent->busy = true;
    zkl__session_event(
        agent->session,
        (struct zkl__event){.kind = ZKL__EV_REQUEST, .request = &agent->request, .op = op});
}

static void on_judged(void *owner, bool answered)
{
    struct zkl__agent *agent = owner;
    if (answered) {
        zkl__agent_wake(agent);
    } else if (!agent->alarm.set) {
        zkl__agent_put_off(agent, RETRY_NS); /* or when it is connected again */
    }
}

void zkl__agent_impanel(struct zkl__agent *agent, struct zkl__jury *jury, const char *dir)
{
    *jury = (struct zkl__jury){
        .session = agent->session, .dir = dir, .done = on_judged, .owner = agent};
    agent->jury = jury;
}

void zkl__agent_stop(struct zkl__agent *agent)
{
    if (agent->stopped) {
        return;
    }
    if (agent->jury) {
        zkl__jury_dismiss(agent->jury);
    }
    agent->stopped = true;
    zkl__alarms_unset(zkl__session_alarms(agent->session), &agent->alarm);
    zkl__request_forget(zkl__session_core(agent->session), &agent->request);
    zkl__agent_unwatch(agent);
    agent->busy = agent->missed = false;
}

/* --- telling --------------------------------------------------------------------------------- */

void zkl__agent_post(struct zkl__agent *agent)
{
    if (!agent->freed) {
        zkl__callbacks_post(zkl__session_callbacks(agent->session), &agent->notice);
    }
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
    const zkl_heap *heap = zkl__session_heap(session);
    if (tells && zkl__callbacks_want(zkl__session_callbacks(session)) != ZKL_OK) {
        return zkl__fail(err, ZKL_ELIMIT, 0, path, "no thread for callbacks");
    }
    struct zkl__agent *agent = zkl__zalloc(heap, size);
    char *copy = zkl__copy(heap, path, strlen(path));
    if (!agent || !copy || zkl__signal_init(&agent->changed) != ZKL_OK) {
        zkl__free(heap, copy);
        zkl__free(heap, agent);
        return zkl__fail(err, ZKL_ENOMEM, 0, path, "no memory");
    }
    agent->object.ops = &ops->object;
    agent->ops = ops;
    agent->session = session;
    agent->path = copy;
    agent->refs = 1;
    agent->request = (struct zkl__request){.done = on_done, .owner = agent};
    agent->watch = (struct zkl__watch){.fired = on_fired, .owner = agent};
    agent->alarm = (struct zkl__alarm){.ring = ring, .owner = agent};
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
    zkl__callbacks_unpost(zkl__session_callbacks(session), &agent->notice);
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

void zkl__agent_session_changed(struct zkl__object *object, zkl_session_state state)
{
    struct zkl__agent *agent = (struct zkl__agent *)object;
    if (agent->stopped) {
        return;
    }
    if (state == ZKL_SESSION_LOST) {
        agent->ops->stir(agent, true);
    } else if (state == ZKL_SESSION_CONNECTED) {
        zkl__agent_wake(agent);
    }
}
