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
 *    (grant.c), and no write is under way. Otherwise one committed check is sent. Its response
 * shows the znode, and comes behind the responses to all that the last holder sent.
 *
 * While the lock is armed, contenders of this session that may be granted it next wait in memory,
 * in line: their creates would fire the watch. When it is not armed any more they queue, in the
 * order of the line. One contender of a queue is the keeper. It is granted again and again, for one
 * owner after the other, with one token and a rising serial.
 *
 * When somebody else has disturbed the line, contenders of this session stand behind each other on
 * the servers. They become a line again when a list has shown nobody else: the holder does not
 * delete its znode at its release but gathers. It is granted for the owner of its follower, which
 * deletes its own znode, and for those behind that one in their order. So everybody is granted in
 * the order of the znodes, also before a contender of another session that has come meanwhile. New
 * contenders of this session wait in line, and none of these is granted until a list, sent behind
 * the last of these deletes, shows the keeper's znode alone. Then the lock is armed. */
#ifndef ZKL_PROTOCOL_LINGER_H
#define ZKL_PROTOCOL_LINGER_H

#include <zklock/types.h>

struct zkl__contender;
struct zkl__core;
enum zkl__contender_state;

enum zkl__linger_state {
    ZKL__LINGER_BARE,      /* a release deletes the znode, unless it may gather */
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
    struct zkl__contender *next; /* in line */
    int64_t until;               /* of a released one */
    int64_t serial;              /* grants on our node */
    zkl_acl *acl; /* a copy of config.acl from the first release on, when its owner may be freed */
};

/* What the contenders of a session in one queue share. */
struct zkl__linger_view {
    struct zkl__contender *keeper;       /* gathering or armed; NULL: nobody */
    struct zkl__contender *first, *last; /* in line */
    bool used;                           /* some contender has had config.linger */
    bool strangers; /* the last list has shown others than contenders of this session */
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
    if (own->state != ZKL__LINGER_BARE || own->in_line) {
        zkl__linger_check_all(c);
    }
}
/* Whether a move of its contender to another state concerns a lock that lingers, or may linger. */
static inline bool zkl__linger_cares(const struct zkl__linger *own)
{
    return own->state != ZKL__LINGER_BARE || own->in_line || own->view->keeper;
}
static inline bool zkl__linger_gathers(const struct zkl__linger *own)
{
    return own->state == ZKL__LINGER_GATHERING;
}
void zkl__linger_moved(struct zkl__contender *c, enum zkl__contender_state before);
/* Its contender begins anew. */
void zkl__linger_new_attempt(struct zkl__contender *c);
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
/* A list of the queue, whoever sent it, shows contenders that are not of this session, or none. */
void zkl__linger_note_list(struct zkl__linger_view *view, bool strangers);
/* Gathering, and the reply to its own list. */
void zkl__linger_on_list(struct zkl__contender *c);
/* Released, and the reply to a check of its znode, which exists. */
void zkl__linger_on_check(struct zkl__contender *c);
/* Released: true when it stays. */
bool zkl__linger_keep(struct zkl__contender *c);
/* The number of this grant on our node, from 1. */
int64_t zkl__linger_count(struct zkl__contender *c);
/* A release deletes the znode from now on. */
void zkl__linger_forbid(struct zkl__contender *c);
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
