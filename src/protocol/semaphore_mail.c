/* semaphore_mail.c - what an acquire of a semaphore hears, from its owner, its session, its
 * contenders and the servers, and what it tells its owner. */
#include "semaphore_step.h"

void zkl__semaphore_tell(struct zkl__semaphore *s, enum zkl__outcome_kind kind, const char *why)
{
    void (*notify)(void *, const struct zkl__outcome *) = s->config.contender.notify;
    const struct zkl__outcome outcome = {.kind = kind,
                                         .code = s->code,
                                         .zk_code = s->zk_code,
                                         .why = why,
                                         .now = zkl__core_now(s->core),
                                         .token =
                                             kind == ZKL__GRANTED ? zkl__semaphore_token(s) : 0};
    if (kind == ZKL__FAILED || kind == ZKL__RELEASED) {
        s->config.contender.notify = NULL; /* its last word */
    }
    if (notify) {
        notify(s->config.contender.owner, &outcome);
    }
}

/* --- mail ------------------------------------------------------------------------------------ */

void zkl__semaphore_post(struct zkl__semaphore *s, enum zkl__semaphore_mail kind)
{
    s->mail |= 1u << kind;
    zkl__core_post(s->core, &s->machine);
}

void zkl__semaphores_post(struct zkl__core *core, enum zkl__contender_event_kind kind, int code)
{
    for (struct zkl__semaphore *s = core->semaphores; s; s = s->next) {
        s->code = kind == ZKL__CE_END && zkl__semaphore_waits(s) ? code : s->code;
        zkl__semaphore_post(s, kind == ZKL__CE_END ? ZKL__SM_END : ZKL__SM_CONNECTED);
    }
}

void zkl__semaphore_start(struct zkl__semaphore *s, int64_t deadline, bool try_only)
{
    s->deadline = deadline;
    s->try_only = try_only;
    zkl__semaphore_post(s, ZKL__SM_START);
}

void zkl__semaphore_cancel(struct zkl__semaphore *s, int code)
{
    s->code = zkl__semaphore_waits(s) ? code : s->code;
    zkl__semaphore_post(s, ZKL__SM_CANCEL);
}

void zkl__semaphore_release(struct zkl__semaphore *s)
{
    zkl__semaphore_post(s, ZKL__SM_RELEASE);
}

static void post_failed(struct zkl__semaphore *s, const struct zkl__outcome *outcome)
{
    s->code = outcome->code;
    s->zk_code = outcome->zk_code;
    s->why = outcome->why;
    zkl__semaphore_post(s, ZKL__SM_FAILED);
}

/* Inside a step of its place. */
void zkl__semaphore_on_place(void *owner, const struct zkl__outcome *outcome)
{
    struct zkl__semaphore *s = owner;
    switch (outcome->kind) {
    case ZKL__GRANTED:
        zkl__semaphore_post(s, ZKL__SM_LOOK);
        break;
    case ZKL__FAILED:
        s->place = NULL;
        post_failed(s, outcome);
        break;
    case ZKL__LOSS:
        zkl__semaphore_post(s, ZKL__SM_AGAIN);
        break;
    case ZKL__RELEASED: /* by the core, when the session is over for good */
        s->place = NULL;
        break;
    default:
        break;
    }
}

static void on_lease_released(struct zkl__semaphore *s, struct zkl__permit *permit)
{
    permit->contender = NULL;
    if (s->state == ZKL__SEMAPHORE_RELEASING && zkl__semaphore_held(s) == 0) {
        zkl__semaphore_end(s, "no lease of ours is left");
        zkl__semaphore_tell(s, ZKL__RELEASED, "released");
    }
}

static void on_lease_lost(struct zkl__semaphore *s, const struct zkl__outcome *outcome)
{
    if (s->state == ZKL__SEMAPHORE_HELD) {
        zkl__semaphore_move(s, ZKL__SEMAPHORE_LOST, outcome->why);
        zkl__semaphore_tell(s, ZKL__LOSS, outcome->why);
    } else if (zkl__semaphore_waits(s)) {
        zkl__semaphore_post(s, ZKL__SM_AGAIN);
    }
}

/* Inside a step of a lease. What a holder has to know is no mail, and never late. */
void zkl__semaphore_on_lease(void *owner, const struct zkl__outcome *outcome)
{
    struct zkl__permit *permit = owner;
    struct zkl__semaphore *s = permit->semaphore;
    switch (outcome->kind) {
    case ZKL__GRANTED:
        permit->token = outcome->token;
        zkl__semaphore_post(s, ZKL__SM_LOOK);
        break;
    case ZKL__FAILED:
        permit->contender = NULL;
        post_failed(s, outcome);
        break;
    case ZKL__LOSS:
        on_lease_lost(s, outcome);
        break;
    case ZKL__JEOPARDY:
    case ZKL__SAFE:
        if (s->state == ZKL__SEMAPHORE_HELD && s->jeopardy != (outcome->kind == ZKL__JEOPARDY)) {
            s->jeopardy = outcome->kind == ZKL__JEOPARDY;
            zkl__semaphore_tell(s, outcome->kind, outcome->why);
        }
        break;
    case ZKL__RELEASED:
        on_lease_released(s, permit);
        break;
    default:
        break;
    }
}

void zkl__semaphore_on_fired(struct zkl__watch *watch, enum zkl__watch_event event)
{
    struct zkl__semaphore *s = watch->owner;
    (void)event;
    if (watch == &s->limit_watch) {
        s->limit = ZKL__LIMIT_UNREAD;
    }
    zkl__semaphore_post(s, ZKL__SM_WATCH);
}

void zkl__semaphore_answered(struct zkl__core *core, struct zkl__machine *machine, int role,
                             int64_t sent, const struct zkl__reply *reply)
{
    struct zkl__semaphore *s = (struct zkl__semaphore *)machine;
    (void)core, (void)sent;
    /* "Try again" is no answer. */
    reply = zkl__rc_answered(reply->rc) && reply->rc != ZKL__RC_NOTAPPLIED ? reply : NULL;
    if (role == ZKL__ROLE_SEMAPHORE) {
        s->busy = false;
        s->reply = reply;
        zkl__semaphore_post(s, ZKL__SM_REPLY);
        return;
    }
    if (role == ZKL__ROLE_LIMIT) {
        s->limit_reply = reply;
        zkl__semaphore_post(s, ZKL__SM_LIMIT);
        return;
    }
    zkl__semaphore_on_look(s, (size_t)(role - ZKL__ROLE_LEASE), reply);
    if (s->looks == 0) {
        zkl__semaphore_post(s, ZKL__SM_JUDGED);
    }
}

void zkl__semaphore_refused(struct zkl__core *core, struct zkl__machine *machine, int role,
                            int code)
{
    const struct zkl__reply unsent = {.rc = ZKL__RC_UNSENT, .unsent = code};
    zkl__semaphore_answered(core, machine, role, 0, &unsent);
}
