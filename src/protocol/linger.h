/* linger.h - a lock that lingers. Part of core_internal.h. */
#ifndef ZKL_PROTOCOL_LINGER_H
#define ZKL_PROTOCOL_LINGER_H

#include "contender.h"
#include "collections.h"

enum zkl__linger_state {
    ZKL__LINGER_OFF,       /* a release deletes the znode, unless it may gather */
    ZKL__LINGER_GATHERING, /* granted for one follower after the other, which delete their znodes */
    ZKL__LINGER_ARMED,     /* a list has shown our node alone, and its watch has not fired */
    ZKL__LINGER_YIELDING, /* another contender came, or the connection was lost: the release deletes
                             the znode */
    ZKL__LINGER_STATES
};

/* One contender's. */
struct zkl__linger {
    enum zkl__linger_state state;
    bool in_line;
    bool checks;      /* released, and a committed check was sent after that */
    bool lists_again; /* gathering: the list under way was asked for before the last delete */
    struct zkl__linger_view *view;
    struct zkl__link link; /* in line */
    int64_t until;         /* of a released one */
    int64_t serial;        /* grants on our node */
    zkl_acl *acl; /* a copy of config.acl from the first release on, when its owner may be freed */
};

/* What the contenders of a session in one queue share. */
struct zkl__linger_view {
    struct zkl__contender *keeper; /* gathering or armed; NULL: nobody */
    struct zkl__list line;
    bool used;      /* some contender has had config.linger */
    bool strangers; /* the last list has shown others than contenders of this session */
};

/* Aborts if its fields contradict each other. Between two steps. */
void zkl__linger_check(const struct zkl__contender *c);
/* Whether a move of its contender to another state concerns a lock that lingers, or may linger. */
static inline bool zkl__linger_cares(const struct zkl__linger *own)
{
    return own->state != ZKL__LINGER_OFF || own->in_line || own->view->keeper;
}
void zkl__linger_moved(struct zkl__contender *c, enum zkl__contender_state before);
/* The lock is released. True: its znode stays. */
bool zkl__linger_keep(struct zkl__contender *c);
/* At the end of a step: removes the watch when nobody needs it any more. */
void zkl__linger_stepped(struct zkl__contender *c);

/* --- before a create is sent ----------------------------------------------------------------- */

/* True: it waits in line, or was refused, and sends no create. */
bool zkl__linger_waits(struct zkl__contender *c);
/* The keeper now holds the lock for the owner of this contender. */
void zkl__linger_on_taken(struct zkl__contender *c);

/* --- the keeper ------------------------------------------------------------------------------ */

/* Whether the next list is to watch the queue. */
bool zkl__linger_list_watches(struct zkl__contender *c);
/* The list that showed nobody before us. */
void zkl__linger_listed(struct zkl__contender *c);
/* Gathering, and the reply to its own list. */
void zkl__linger_on_list(struct zkl__contender *c);
/* Released, and the reply to a check of its znode, which exists. */
void zkl__linger_on_check(struct zkl__contender *c);
/* Our znode is not as the list has shown it any more. */
void zkl__linger_disarm(struct zkl__contender *c, const char *why);
/* Released: grants it to the next one of this session, asks for what that needs, or ends it when
 * its time is over. */
void zkl__linger_on_time(struct zkl__contender *c);
int64_t zkl__linger_wake(const struct zkl__contender *c);
void zkl__linger_on_event(struct zkl__contender *c);
/* The connection is lost, a list has shown a contender of another session, or another one of this
 * session queues. */
void zkl__linger_on_yield(struct zkl__contender *c);
/* Released: the lease ended, or no lock object can be granted it any more. */
void zkl__linger_end(struct zkl__contender *c, const char *why);

#endif
