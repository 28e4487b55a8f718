/* linger.h - a lock that lingers: after a release its znode stays for config.linger, and the next
 * contender of this session is granted without a request. Chubby's clients cache locks in this way.
 *
 * A list shows our znode alone in the queue, and sets a watch. From that list to the local grant,
 * all of this holds:
 *  - The znode exists. The session lives, by the lease, and a delete by hand would fire the watch,
 *    as a new contender would. "Watches are ordered with respect to other events" (What ZooKeeper
 *    Guarantees about Watches, in the Programmer's Guide).
 *  - No other contender waits that we know of. The watch has not fired, and no other contender of
 *    this session has sent a create here.
 *  - The connection is the same. The servers process an earlier holder's requests before those of
 *    the next one. On another connection they might process them later, so nothing lingers over a
 *    lost connection.
 *  - A response within the last heartbeat has shown the znode, as before each other grant
 * (grant.c). Otherwise the znode is deleted, and the next contender queues as usual. That costs one
 * write more, and no round trip, because delete and create are sent together.
 *
 * While the lock is armed, contenders of this session that may be granted it next wait in memory,
 * in line: their creates would fire the watch. When it is not armed any more they queue, in the
 * order of the line. One contender of a queue is the keeper. It is granted again and again, for one
 * owner after the other, with one token and a rising serial. */
#ifndef ZKL_PROTOCOL_LINGER_H
#define ZKL_PROTOCOL_LINGER_H

#include <zklock/types.h>

struct zkl__contender;
struct zkl__contender_actions;
struct zkl__contender_event;
struct zkl__core;
enum zkl__contender_state;

enum zkl__linger_state {
    ZKL__LINGER_BARE,     /* not lingering: a release deletes the znode */
    ZKL__LINGER_ARMED,    /* proving or held: a list has shown our node alone, and its watch has not
                             fired */
    ZKL__LINGER_IDLE,     /* the same, but released */
    ZKL__LINGER_YIELDING, /* another contender came: the release deletes the znode */
    ZKL__LINGER_STATES
};

/* One contender's. */
struct zkl__linger {
    enum zkl__linger_state state;
    enum zkl__linger_line { ZKL__LINE_NOT, ZKL__LINE_WAITS, ZKL__LINE_TAKEN } line;
    struct zkl__linger_view *view;
    struct zkl__contender *next; /* in line */
    int64_t until;               /* IDLE */
    int64_t serial;              /* grants on our node */
    zkl_acl *acl; /* a copy of config.acl from the first release on, when its owner may be freed */
};

/* What the contenders of a session in one queue share. */
struct zkl__linger_view {
    struct zkl__contender *keeper;       /* armed or idle; NULL: nobody */
    struct zkl__contender *first, *last; /* in line */
};

/* A lock object of which the lock may linger at this path is made; NULL: no memory. When it is
 * freed, whether it was the last one there: then nobody can be granted what lingers. */
struct zkl__local_queue;
struct zkl__local_queue *zkl__linger_enroll(struct zkl__core *core, const char *path);
bool zkl__linger_resign(struct zkl__core *core, struct zkl__local_queue *queue);

void zkl__linger_join(struct zkl__contender *c, struct zkl__linger_view *view);
void zkl__linger_free(struct zkl__contender *c);
/* Aborts if its fields contradict each other. Between two steps. */
void zkl__linger_check_all(const struct zkl__contender *c);
static inline void zkl__linger_check(const struct zkl__contender *c, const struct zkl__linger *own)
{
    if (own->state != ZKL__LINGER_BARE || own->line != ZKL__LINE_NOT) {
        zkl__linger_check_all(c);
    }
}
/* Whether a move of its contender to another state concerns a lock that lingers, or may linger. */
static inline bool zkl__linger_cares(const struct zkl__linger *own)
{
    return own->state != ZKL__LINGER_BARE || own->line != ZKL__LINE_NOT || own->view->keeper;
}
void zkl__linger_moved(struct zkl__contender *c, enum zkl__contender_state before);
/* Its contender begins anew. */
void zkl__linger_new_attempt(struct zkl__contender *c);
/* At the end of a step: removes the watch when nobody needs it any more. */
void zkl__linger_stepped(struct zkl__contender *c, struct zkl__contender_actions *out);
/* Armed or idle: it must be notified when the connection is lost. */
bool zkl__linger_rests(const struct zkl__contender *c);

/* --- before a create is sent ----------------------------------------------------------------- */

/* True: it waits in line, or was refused, and sends no create. */
bool zkl__linger_waits(struct zkl__contender *c, const struct zkl__contender_event *ev,
                       struct zkl__contender_actions *out);
/* It waits for another contender of its session, which may be over with the lock in a microsecond.
 */
bool zkl__linger_in_line(const struct zkl__contender *c);
/* The keeper now holds the lock for the owner of this contender. */
void zkl__linger_on_taken(struct zkl__contender *c, const struct zkl__contender_event *ev,
                          struct zkl__contender_actions *out);

/* --- the keeper ------------------------------------------------------------------------------ */

/* Whether the next list is to watch the queue. */
bool zkl__linger_list_watches(struct zkl__contender *c, struct zkl__contender_actions *out);
/* The list that showed nobody before us. */
void zkl__linger_listed(struct zkl__contender *c, const struct zkl__contender_event *ev);
/* Released: true when it stays. */
bool zkl__linger_keep(struct zkl__contender *c, const struct zkl__contender_event *ev,
                      struct zkl__contender_actions *out);
/* The number of this grant on our node, from 1. */
int64_t zkl__linger_count(struct zkl__contender *c);
/* A release deletes the znode from now on. */
void zkl__linger_forbid(struct zkl__contender *c);
/* Our znode is not as the list has shown it any more. */
void zkl__linger_disarm(struct zkl__contender *c, const char *why);
/* Idle: grants it to the next in line, or ends it when its time is over. */
void zkl__linger_on_time(struct zkl__contender *c, const struct zkl__contender_event *ev,
                         struct zkl__contender_actions *out);
int64_t zkl__linger_wake(const struct zkl__contender *c);
void zkl__linger_on_event(struct zkl__contender *c, const struct zkl__contender_event *ev,
                          struct zkl__contender_actions *out);
/* The connection is lost, or another contender of this session queues. */
void zkl__linger_on_yield(struct zkl__contender *c, const struct zkl__contender_event *ev,
                          struct zkl__contender_actions *out);
/* Idle: the lease ended, or no lock object can be granted it any more. */
void zkl__linger_end(struct zkl__contender *c, const struct zkl__contender_event *ev,
                     struct zkl__contender_actions *out, const char *why);

#endif
