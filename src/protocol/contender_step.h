/* contender_step.h - the contender's fields and its step function, for the core alone: contender*.c
 * make the step, session_*.c feed it. */
#ifndef ZKL_PROTOCOL_CONTENDER_STEP_H
#define ZKL_PROTOCOL_CONTENDER_STEP_H

#include "announcement.h"
#include "contender.h"
#include "core.h"
#include "grant.h"
#include "inspection.h"
#include "list.h"
#include "linger.h"
#include "local_place.h"
#include "node.h"
#include "own_watch.h"
#include "path_conflict.h"
#include "predecessor.h"
#include "release_mark.h"
#include "replacement.h"

/* What an operation of a contender is for. At most one of each is under way. */
enum zkl__role {
    ZKL__ROLE_NONE,
    ZKL__ROLE_CREATE, /* our node */
    ZKL__ROLE_LIST,   /* of the queue */
    ZKL__ROLE_WATCH, /* get of the blocker, with a watch; exists, without one, if it may not be read
                      */
    ZKL__ROLE_OWN_WATCH, /* get of our own node, with a watch */
    ZKL__ROLE_STAT,      /* exists of our own node: its czxid, when the create's reply was lost */
    ZKL__ROLE_PROVE,     /* committed check of our node, for a lease to be granted on */
    ZKL__ROLE_BEAT,      /* the session's heartbeat, on our node */
    ZKL__ROLE_CONFIG,   /* of the ensemble's configuration, for the session: are there observers? */
    ZKL__ROLE_DELETE,   /* of our node, or of a double of it */
    ZKL__ROLE_BARRIER,  /* committed check of the directory: what was sent before is in the next
                           list, or nowhere */
    ZKL__ROLE_MAKE,     /* of the directory */
    ZKL__ROLE_SWAP,     /* our node for one of a weaker kind, in its place */
    ZKL__ROLE_READ,     /* of the directory: did the last holder release? */
    ZKL__ROLE_CONFLICT, /* who lives in the directories of a semaphore or a partition? */
    ZKL__ROLES
};
#define UNDER_WAY(role) (1u << (role))

/* What a contender acts on. All but the last two are mail, read in this order. Mail says no more
 * than "look": what there is to see is judged when it is read. */
enum zkl__contender_event_kind {
    ZKL__CE_TAKEN,       /* it waited in line: another contender holds for its owner */
    ZKL__CE_EXPIRED,     /* the session is over: what else there is, but for orders and time, is not
                            read */
    ZKL__CE_CONNECTED,   /* again, or on a new session */
    ZKL__CE_REPLY,       /* to operations of its own: role, reply */
    ZKL__CE_WATCH,       /* the predecessor changed or went: watch. As the next three in the order
                            of zkl__watched */
    ZKL__CE_OWN_WATCH,   /* our own node changed or went */
    ZKL__CE_QUEUE_WATCH, /* a child of the queue came or went */
    ZKL__CE_LINGER_WATCH, /* the same, of a lock that may linger */
    ZKL__CE_INSPECTED,    /* a batch of its inspection was answered */
    ZKL__CE_LIST,  /* first in its queue, but its list is old, or does not show it: once more */
    ZKL__CE_YIELD, /* it lingers, or may: the connection is lost, or another one queues */
    ZKL__CE_LOOK,  /* at what others change: the lease, the one it follows, the joint */
    ZKL__CE_START, /* an order, as all that follow */
    ZKL__CE_RELEASE,
    ZKL__CE_DOWNGRADE, /* rule */
    ZKL__CE_CANCEL,    /* code; means nothing to who does not wait */
    ZKL__CE_END,       /* code; who waits fails with it, who holds releases */
    ZKL__CE_TIME,      /* look at the time */
    ZKL__CE_LAPSED,    /* the lease ended */
    ZKL__CE_HANDED     /* the blocker, of this session, is leaving, and we are next */
};
#define ZKL__MAIL(kind) (1u << (kind))

struct zkl__mail {
    uint32_t kinds;
    uint32_t unknown; /* roles whose operation ended with its connection */
    uint32_t unsent;  /* roles whose operation could not be sent, */
    signed char why_unsent[ZKL__ROLES];
    enum zkl__role role; /* of reply, the one that a server gave in this step */
    const struct zkl__reply *reply;
    enum zkl__watch_event watch;
    int code;
    const struct zkl__rule *rule;
};

struct zkl__contender_event {
    enum zkl__contender_event_kind kind;
    int64_t now;
    bool connected;    /* the session, now */
    bool grant_waits;  /* the others of the joint are not first yet */
    bool delete_waits; /* that of who handed over to us comes first */
    int64_t session_id;
    int code;
    const struct zkl__rule *rule;
    enum zkl__watch_event watch;
    enum zkl__role role;
    const struct zkl__reply *reply;
    const struct zkl__list_index *index; /* of a list, or NULL */
};

/* What it watches, in the order of their events. */
enum zkl__watched {
    ZKL__WATCHED_PREDECESSOR,
    ZKL__WATCHED_OWN,
    ZKL__WATCHED_QUEUE,
    ZKL__WATCHED_LINGER,
    ZKL__WATCHED
};

/* What a contender wants of its session. Pointers live until its next step. */
struct zkl__contender_actions {
    struct zkl__contender_op {
        enum zkl__role role;
        struct zkl__op op;
    } ops[3];
    int op_count;
    struct zkl__op parts[3];         /* of the one multi among them */
    char replacement[ZKL__NAME_MAX]; /* the name in it of the znode that replaces ours */
    enum zkl__watch_change {
        ZKL__WATCH_KEEP,
        ZKL__WATCH_ON,     /* hear of the path, before the ops are sent */
        ZKL__WATCH_FORGET, /* hear no more; the server may keep its watch, it will be set again */
        ZKL__WATCH_OFF     /* hear no more, take it back from the server. Never of our own node: its
                              end uses the watch up */
    } watches[ZKL__WATCHED];
    bool inspect; /* send the next batch of its inspection */
    bool told;    /* outcome is set */
    struct zkl__outcome outcome;
};

struct zkl__contender {
    struct zkl__machine machine;         /* first */
    struct zkl__contender_config config; /* path and metadata are copies */
    const zkl_heap *heap;
    struct zkl__core *core;
    unsigned number; /* of the session's contenders: for traces */
    enum zkl__contender_state state;
    /* The step that it is in: what has come, and what it wants. NULL outside. */
    const struct zkl__contender_event *event;
    struct zkl__contender_actions *out;

    struct zkl__watch watches[ZKL__WATCHED]; /* paths of the ideas below */
    struct zkl__node node;
    struct zkl__replacement replacement;
    struct zkl__own_watch own;
    struct zkl__predecessor predecessor;
    struct zkl__suspicion suspicion;
    struct zkl__path_conflict conflict;
    struct zkl__announcement announcement;
    struct zkl__release_mark mark;
    struct zkl__grant grant;
    struct zkl__linger linger;
    struct zkl__local_place local;

    bool started, try_only;
    int64_t deadline;
    struct {
        int64_t at;    /* 0: nothing is put off */
        int64_t pause; /* the last one; longer each time */
    } retry;
    char *make_path;    /* the directory being made, cut to what is tried now */
    uint32_t under_way; /* bits of roles */
    int in_flight;      /* operations not answered yet: its memory stays until none is */

    /* the session's */
    struct zkl__link in_session;
    struct zkl__link holding; /* in the list of holders: proving, held and lingering */
    struct zkl__link proving;
    bool holder, jeopardy_told;
    struct zkl__joint *joint; /* NULL: alone */
    size_t seat;
    struct zkl__mail mail;
    uint32_t held_back; /* roles asked for that the joint has not sent yet */
    int64_t listed_at;  /* when its last list was sent */
    int64_t shown_at;   /* when what last showed our node was sent: its create, a list, a check */

    /* for statistics */
    struct zkl__path_stats *path_stats;
    int64_t since; /* asked for, then granted */
    bool requeued; /* in this step */
};

void zkl__contender_step(struct zkl__contender *contender, const struct zkl__contender_event *event,
                         struct zkl__contender_actions *out);
/* When it wants ZKL__CE_TIME; INT64_MAX: not. */
int64_t zkl__contender_wake(const struct zkl__contender *contender);
void zkl__contender_free(struct zkl__contender *contender);
bool zkl__contender_waits(const struct zkl__contender *contender);
/* It holds, or lingers: its node is there, and nobody else's turn. */
static inline bool zkl__contender_keeps(const struct zkl__contender *contender)
{
    return contender->state == ZKL__HELD || contender->state == ZKL__LINGERING;
}
/* Nothing but a lease is between it and its grant. */
bool zkl__contender_ready(const struct zkl__contender *contender, int64_t now);

/* contender_mail.c: its mail. */
/* Its owner listens no more, and it ends by itself. */
void zkl__contender_leave(struct zkl__contender *contender);
void zkl__contender_start(struct zkl__contender *contender, int64_t deadline, bool try_only);
void zkl__contender_post(struct zkl__contender *contender, enum zkl__contender_event_kind kind);
void zkl__contender_post_reply(struct zkl__contender *contender, enum zkl__role role,
                               const struct zkl__reply *reply);
void zkl__contender_post_refusal(struct zkl__contender *contender, enum zkl__role role, int code);
/* The next piece of it, as an event; false: there is no more. refusal: room for a reply. */
bool zkl__mail_next(struct zkl__mail *mail, struct zkl__contender_event *event,
                    struct zkl__reply *refusal);

#endif
