/* contender_step.h - the contender's fields and its step function, for the core alone: contender*.c
 * make the step, session_*.c feed it. */
#ifndef ZKL_CORE_CONTENDER_STEP_H
#define ZKL_CORE_CONTENDER_STEP_H

#include "contender.h"
#include "machine.h"
#include "name_set.h"
#include "session_step.h"

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
    ZKL__ROLE_CONFIG,  /* of the ensemble's configuration, for the session: are there observers? */
    ZKL__ROLE_DELETE,  /* of our node, or of a double of it */
    ZKL__ROLE_BARRIER, /* committed check of the directory: what was sent before is in the next
                          list, or nowhere */
    ZKL__ROLE_MAKE,    /* of the directory */
    ZKL__ROLE_SWAP,    /* our node for one of a weaker kind, in its place */
    ZKL__ROLE_READ,    /* of the directory's data: did the last holder release? */
    ZKL__ROLE_MARK,    /* of the directory: we hold, and have not released */
    ZKL__ROLE_FOLDERS, /* is the path a semaphore's? its data, then the folders that semaphores have
                        */
    ZKL__ROLES
};
#define UNDER_WAY(role) (1u << (role))

/* Whether the path is a semaphore's or a partition's: asked only where the list shows both of its
 * folders. Folders alone say nothing: anybody can leave two empty znodes behind, which would deny
 * the lock for ever. */
enum zkl__folders {
    ZKL__FOLDERS_UNSEEN,
    ZKL__FOLDERS_LIMIT,  /* does its limit stand in the data of the path? */
    ZKL__FOLDERS_LOCKS,  /* who is the last in the one, */
    ZKL__FOLDERS_WAITER, /* and lives with a session? */
    ZKL__FOLDERS_LEASES, /* in the other? */
    ZKL__FOLDERS_LEASE,
    ZKL__FOLDERS_EMPTY /* no: they do not matter */
};

/* What a contender acts on. All but the last two are mail, read in this order. Mail says no more
 * than "look": what there is to see is judged when it is read. */
enum zkl__contender_event_kind {
    ZKL__CE_EXPIRED,     /* the session is over: what else there is, but for orders and time, is not
                            read */
    ZKL__CE_CONNECTED,   /* again, or on a new session */
    ZKL__CE_REPLY,       /* to operations of its own: role, reply */
    ZKL__CE_WATCH,       /* the blocker changed or went: watch */
    ZKL__CE_OWN_WATCH,   /* our own node changed or went */
    ZKL__CE_QUEUE_WATCH, /* a child of the queue came or went */
    ZKL__CE_INSPECTED,   /* a batch of its inspection was answered */
    ZKL__CE_LIST,  /* first in its queue, but its list is old, or does not show it: once more */
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

#define ZKL__MARK "held by "
#define ZKL__MARK_MAX (sizeof ZKL__MARK + ZKL__UUID_LENGTH)

/* What a contender wants of its session. Pointers live until its next step. */
struct zkl__contender_actions {
    struct zkl__contender_op {
        enum zkl__role role;
        struct zkl__op op;
    } ops[3];
    int op_count;
    struct zkl__op parts[2]; /* of the one multi among them */
    enum zkl__watch_change {
        ZKL__WATCH_KEEP,
        ZKL__WATCH_ON,     /* hear of contender->watch.path, before the ops are sent */
        ZKL__WATCH_FORGET, /* hear no more; the server may keep its watch, it will be set again */
        ZKL__WATCH_OFF     /* hear no more, take it back from the server */
    } watch;
    enum zkl__watch_change
        own_watch; /* the same for our own node; never OFF: its end uses the watch up */
    enum zkl__watch_change queue_watch; /* the same for the queue's children */
    bool inspect;                       /* send the next batch of contender->inspection */
    bool told;                          /* outcome is set */
    struct zkl__outcome outcome;
};

/* What the predecessor's access list lets us know. Since the fix of CVE-2024-23944 a server sends a
 * watch event only to a session that may READ the znode, and uses the watch up all the same
 * (WatchManager, NIOServerCnxn.process); since ZOOKEEPER-2590 exists needs READ, too
 * (FinalRequestProcessor). So a predecessor that refuses a get is not watched: the children of the
 * queue are, which every contender may list. */
enum zkl__sight {
    ZKL__SIGHT_READ, /* nothing refused: a get with a watch */
    ZKL__SIGHT_STAT, /* get is refused; an exists tells whether it is a contender at all, where that
                        is permitted */
    ZKL__SIGHT_NOTHING /* it counts as a contender */
};

/* Of who holds, on the directory. */
struct zkl__marks {
    char own[ZKL__MARK_MAX];   /* of this attempt */
    char older[ZKL__MARK_MAX]; /* of an attempt of ours that never came to hold */
};

struct zkl__contender {
    struct zkl__machine machine;         /* first */
    struct zkl__contender_config config; /* path and metadata are copies */
    const zkl_heap *heap;
    struct zkl__core *core; /* for uuids and traces only */
    unsigned number;        /* of the session's contenders: for traces */
    enum zkl__contender_state state;

    /* this attempt */
    char uuid[ZKL__UUID_LENGTH + 1];
    char prefix[ZKL__NAME_MAX]; /* "_c_<uuid>-<tag>" */
    char node[ZKL__NAME_MAX];   /* name of our node; "": none is known */
    char twin[ZKL__NAME_MAX];   /* double of it that is being deleted; "": none */
    char swap[ZKL__NAME_MAX];   /* node that is to take its place; "": none */
    bool swap_unsure;           /* and may have taken it: an answer was lost */
    int64_t czxid;              /* 0: not known */
    bool unsure;                /* a create of ours has an unknown fate */
    bool doubled;               /* it was sent again: there may be two nodes */
    bool twin_stays;            /* we may not delete the double now: it goes when our node goes */
    bool delete_refused;        /* by the access list: our node goes with the session */
    bool barrier_passed;        /* the list under way stands behind a committed write */
    uint32_t under_way;         /* bits of roles */
    int in_flight;              /* operations not answered yet: its memory stays until none is */

    /* waiting */
    bool started, try_only;
    bool proved; /* the check that a grant may need was sent */
    enum zkl__sight sight;
    enum zkl__folders folders;
    bool partition; /* the folders are a partition's */
    bool changed;   /* the queue, while a list of it was under way that watches it */
    bool armed;     /* the watch is set: on the blocker, or on the queue's children if it may not be
                       read */
    bool own_armed; /* that on our own node is, too */
    int64_t deadline;
    int64_t retry_at;               /* 0: nothing is put off */
    int64_t patience;               /* of the last putting-off */
    char *make_path;                /* the directory being made, cut to what is tried now */
    struct zkl__name_set strangers; /* names that carry our uuid and are not ours */
    struct zkl__inspection
        *inspection; /* of all that stand before it; NULL: it did not meet two forged ones */
    bool inspects;   /* a batch of it is wanted, or under way */
    bool suspicious; /* who was before us was forged: the next list is for an inspection */
    struct zkl__watch watch;       /* path: the blocker */
    struct zkl__watch own_watch;   /* path: our own node; also while held, if config.revocable */
    struct zkl__watch queue_watch; /* path: the queue */
    char *watch_path, *own_path;
    size_t watch_room, own_room;

    /* Announced release. Who held until its release and has reason to think that somebody waits
     * deletes its node and, in the same transaction before that, writes it; so the one watch on it
     * says "changed" instead of "deleted", and who waits knows without a list that the one before
     * it held and is through, and so is first. Sound, because:
     *  - nobody else can write that node: its access list gives that to a random identity of its
     * session alone (sealed; the name says so);
     *  - its session does not write it before, nor ever a second node of the same contender, or
     * what is revocable or marked;
     *  - who waits would have heard, on the same ordered connection, if its own node had been
     * removed before that (own_armed);
     *  - who was handed the lock by another one of its session does not announce before that one's
     * node is known to be gone (handed);
     *  - a reader's end says nothing: others may read beside it. Only who waited for everybody is
     * believed (believed). Who may create nodes in the queue could still lie, with a node and an
     * identity of its own: so who still holds after a heartbeat looks once at a list, as it would
     * have noticed by then if somebody had removed its node. In a session with credentials, which
     * has no seal and whose queues are mostly its own kind's, nobody is believed. */
    bool sealed;      /* our node */
    bool believed;    /* the blocker, if it announces its release */
    bool unlisted;    /* granted, or about to be, on the word of the blocker: no list has shown us
                         first */
    bool waited;      /* for somebody: others may well be waiting for us */
    bool announce;    /* our node's delete */
    int64_t guard_at; /* when to begin to watch our own node; 0: it is watched, or not to be */
    bool guards; /* it is: so that a removal by hand is observed at once, however many the session
                    holds */
    int64_t look_at; /* when to ask for a list that does; 0: no need, or it is under way */

    /* held */
    int64_t hold_until;
    int64_t revoked; /* mzxid of the last request told */
    bool discard;    /* lost, and the node is to go without waiting for the owner */
    bool releasing;  /* RELEASED is owed */
    bool clear;      /* the node's delete takes the directory's mark away with it */
    bool hands_over; /* it held until its release: who is next may start as soon as the delete is on
                        its way */

    /* config.mark: whoever holds writes its mark on the directory, and takes it away when it
     * releases */
    bool was_read, mark_sent, marked, unclean;
    struct zkl__marks *marks; /* NULL without */

    /* the session's */
    struct zkl__contender *next, *prev;               /* all */
    struct zkl__contender *next_holder, *prev_holder; /* proving and held */
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

    /* local_queue.c's */
    struct zkl__local_queue *queue;
    struct zkl__contender *next_local, *prev_local; /* in this queue */
    uint64_t list;                                  /* number of the list it waits for; 0: none */
    struct zkl__contender *ahead; /* whom it follows: the blocker is its node. NULL: nobody here */
    struct zkl__contender *behind, *next_behind; /* who follows it */
    bool requeued;                               /* in this step: for statistics */
    bool handed;                                 /* granted before the node of `ahead` is gone */
    bool ahead_moved;                            /* the node of `ahead` went, or is another one */
};

void zkl__contender_step(struct zkl__contender *contender, const struct zkl__contender_event *event,
                         struct zkl__contender_actions *out);
/* When it wants ZKL__CE_TIME; INT64_MAX: not. */
int64_t zkl__contender_wake(const struct zkl__contender *contender);
void zkl__contender_free(struct zkl__contender *contender);
bool zkl__contender_waits(const struct zkl__contender *contender);
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

/* What it would ask for. */
struct zkl__op zkl__create_op(const struct zkl__contender *c);
struct zkl__op zkl__delete_op(const struct zkl__contender *c);

/* --- what those that decide ask of their session --------------------------------------------- */

/* Its mail is read before the step of the session is over. */
void zkl__core_post(struct zkl__core *core, struct zkl__machine *machine);
/* It has ended: freed when the step of the session is over. */
void zkl__core_bury(struct zkl__core *core, struct zkl__machine *machine);
/* A reply comes, or `refused` is called before this returns. owner NULL: the session itself. */
void zkl__core_send(struct zkl__core *core, struct zkl__machine *owner, int role,
                    const struct zkl__op *op);
/* The same for a request. Its done is called in either case, never before this returns. */
void zkl__core_request(struct zkl__core *core, struct zkl__request *request,
                       const struct zkl__op *op);
const zkl_heap *zkl__core_heap(const struct zkl__core *core);
int64_t zkl__core_now(const struct zkl__core *core);
/* Enough lease to grant on. */
bool zkl__core_leased(const struct zkl__core *core);
/* Connected, and with a lease to grant on. */
bool zkl__core_grants(const struct zkl__core *core);
/* When a holder of now is to begin to watch its own node: after its first heartbeat, and not many
 * at once. */
int64_t zkl__core_guard_at(struct zkl__core *core);
/* The access list of sealed nodes. */
const zkl_acl *zkl__core_seal(const struct zkl__core *core);
/* Whether nodes may be sealed from now on; off: the servers do not take the list, or not our
 * identity. */
bool zkl__core_seals(const struct zkl__core *core);
void zkl__core_seal_off(struct zkl__core *core);
/* Breaks of the protocol that must not go on: continuing may mean two holders. */
#define ZKL__ENSURE(condition) \
    do {                       \
        if (!(condition)) {    \
            __builtin_trap();  \
        }                      \
    } while (0)

#endif
