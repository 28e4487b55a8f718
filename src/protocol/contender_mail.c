/* contender_mail.c - what is posted to a contender, and the order in which it is read. */
#include "contender_step.h"

/* All from START on: orders, and the time. */
#define ORDERS (~(ZKL__MAIL(ZKL__CE_START) - 1))

void zkl__contender_post(struct zkl__contender *c, enum zkl__contender_event_kind kind)
{
    c->mail.kinds |= ZKL__MAIL(kind);
    zkl__core_post(c->core, &c->machine);
}

void zkl__contender_leave(struct zkl__contender *c)
{
    c->config.notify = NULL;
    if (c->state == ZKL__NEW && !c->started) {
        zkl__core_bury(c->core, &c->machine);
    } else {
        c->mail.code = ZKL_ECANCELED;
        zkl__contender_post(c, ZKL__CE_END);
    }
}

void zkl__contender_start(struct zkl__contender *c, int64_t deadline, bool try_only)
{
    c->deadline = deadline;
    c->try_only = try_only;
    zkl__contender_post(c, ZKL__CE_START);
}

void zkl__contender_post_reply(struct zkl__contender *c, enum zkl__role role,
                               const struct zkl__reply *reply)
{
    if (reply->rc == ZKL__RC_UNKNOWN) {
        c->mail.unknown |= UNDER_WAY(role);
    } else {
        ZKL__ENSURE(!c->mail.reply); /* a step brings one reply, and deals it out once */
        c->mail.role = role;
        c->mail.reply = reply;
    }
    zkl__contender_post(c, ZKL__CE_REPLY);
}

void zkl__contender_post_refusal(struct zkl__contender *c, enum zkl__role role, int code)
{
    c->mail.unsent |= UNDER_WAY(role);
    c->mail.why_unsent[role] = (signed char)code;
    zkl__contender_post(c, ZKL__CE_REPLY);
}

/* --- reading --------------------------------------------------------------------------------- */

static enum zkl__role take_role(uint32_t *roles)
{
    enum zkl__role role = (enum zkl__role)__builtin_ctz(*roles);
    *roles &= *roles - 1;
    return role;
}

static void next_reply(struct zkl__mail *mail, struct zkl__contender_event *event,
                       struct zkl__reply *refusal)
{
    static const struct zkl__reply unknown = {.rc = ZKL__RC_UNKNOWN};
    if (mail->reply) {
        event->role = mail->role;
        event->reply = mail->reply;
        mail->reply = NULL;
    } else if (mail->unknown) {
        event->role = take_role(&mail->unknown);
        event->reply = &unknown;
    } else {
        event->role = take_role(&mail->unsent);
        *refusal =
            (struct zkl__reply){.rc = ZKL__RC_UNSENT, .unsent = mail->why_unsent[event->role]};
        event->reply = refusal;
    }
}

bool zkl__mail_next(struct zkl__mail *mail, struct zkl__contender_event *event,
                    struct zkl__reply *refusal)
{
    if (mail->kinds == 0) {
        return false;
    }
    *event = (struct zkl__contender_event){
        .kind = (enum zkl__contender_event_kind)__builtin_ctz(mail->kinds),
        .watch = mail->watch,
        .code = mail->code,
        .rule = mail->rule};
    if (event->kind == ZKL__CE_REPLY) {
        next_reply(mail, event, refusal);
    }
    if (event->kind != ZKL__CE_REPLY || !(mail->reply || mail->unknown || mail->unsent)) {
        mail->kinds &= ~ZKL__MAIL(event->kind);
    }
    if (event->kind == ZKL__CE_EXPIRED) {
        /* The rest was the old session's, but for what is to be seen here, on no server. */
        mail->kinds &= ZKL__MAIL(ZKL__CE_LOOK) | ORDERS;
    }
    return true;
}
