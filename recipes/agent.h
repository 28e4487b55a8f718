/* agent.h - an object that acts by itself: one operation after the other, a watch on one path, a
 * callback of its user's. What observers and members are made of.
 *
 * What happens is told inside a step, where nothing may be asked: it is noted, and `act` follows
 * after the step, on the alarms' thread. A recipe is a struct that begins with a zkl__agent, and
 * the functions below. Everything inside enter/leave unless it says not. */
#ifndef ZKL_RECIPES_AGENT_H
#define ZKL_RECIPES_AGENT_H

#include "jury.h"

struct zkl__agent;
struct zkl__agent_ops {
    struct zkl__object_ops object; /* noun, and the zkl__agent_ functions at the end */
    /* Connected, and nothing under way: asks for the next thing, or for nothing. */
    void (*act)(struct zkl__agent *agent);
    /* Inside a step: the server's word on what was asked, but for "try again" (ZKL__RC_NOTAPPLIED),
     * which is no answer. `act` follows. */
    void (*answer)(struct zkl__agent *agent, const struct zkl__reply *reply);
    /* Inside a step: what was watched changed, or the session is over. `act` follows. Never between
     * a question and its answer, unless the session is over. */
    void (*stir)(struct zkl__agent *agent, bool session_over);
    /* Not inside: calls the user, if there is something to say. */
    void (*tell)(struct zkl__agent *agent);
    /* The last of it: frees what the recipe allocated, but not the agent. */
    void (*destroy)(struct zkl__agent *agent);
};

struct zkl__agent {
    struct zkl__object object; /* first */
    const struct zkl__agent_ops *ops;
    zkl_session *session;
    char *path;
    unsigned refs; /* the user's handle, a callback that runs, and what the recipe adds */
    bool freed;    /* the handle is gone */
    bool stopped;  /* acts no more */
    bool busy;     /* the request is under way */
    bool missed;   /* and what is watched changed meanwhile */
    struct zkl__request request;
    struct zkl__watch watch;
    char *watch_path;
    size_t watch_room;
    struct zkl__alarm alarm;
    struct zkl__callback notice;
    struct zkl__signal changed; /* for threads that wait for something of it */
    struct zkl__jury *jury;     /* the recipe's own, if it counts children; else NULL */
};

/* Not inside. Checks path (ZKL_EINVAL), enters the session, makes memory of size bytes, zeroed,
 * with the agent at its beginning. On ZKL_OK the caller is inside, and leaves when it has filled in
 * the rest and called zkl__agent_wake. Errors: as zkl_lock_new. */
int zkl__agent_new(struct zkl__agent **out, size_t size, const struct zkl__agent_ops *ops,
                   zkl_session *session, const char *path, bool tells, zkl_error *err);
/* Not inside. The handle goes: no callback afterwards. Stops it, unless it has something to do
 * still (it keeps a reference of its own). */
void zkl__agent_free(struct zkl__agent *agent, bool goes_on);
void zkl__agent_unref(struct zkl__agent *agent);

/* Acts as soon as it can. */
void zkl__agent_wake(struct zkl__agent *agent);
/* The same, later: ns from now. */
void zkl__agent_put_off(struct zkl__agent *agent, int64_t ns);
/* From act: sends op; with op->watch, hears of a change of its path. At most one thing is watched:
 * what was before is not, any more. */
void zkl__agent_ask(struct zkl__agent *agent, const struct zkl__op *op);
/* From the constructor: the agent counts the children of dir that live with a session (core/own.h).
 * `act` follows when those of the last list are judged. The jury ends with the agent. */
void zkl__agent_impanel(struct zkl__agent *agent, struct zkl__jury *jury, const char *dir);
/* From act: watches nothing. */
void zkl__agent_unwatch(struct zkl__agent *agent);
/* Has something to tell. */
void zkl__agent_post(struct zkl__agent *agent);
/* Acts no more. */
void zkl__agent_stop(struct zkl__agent *agent);

/* For zkl__object_ops. */
bool zkl__agent_give_up(struct zkl__object *object, int code);
int zkl__agent_describe(const struct zkl__object *object, zkl__visit_fn visit, void *payload);
void zkl__agent_session_changed(struct zkl__object *object, zkl_session_state state);

#endif
