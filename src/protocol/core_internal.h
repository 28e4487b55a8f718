/* core_internal.h - a session of the core from inside: the contender, its parts, the session, and
 * what their files use of each other. For src/protocol alone. */
#ifndef ZKL_PROTOCOL_CORE_INTERNAL_H
#define ZKL_PROTOCOL_CORE_INTERNAL_H

#include "watcher.h"

/* ns: the pauses before something is tried again. A contender's first one is a tenth. */
#define ZKL__PAUSE_LEAST INT64_C(200000000)
#define ZKL__PAUSE_MOST INT64_C(2000000000)

/* === the znode, and the fate of its create ==================================================== */

/* The fate of the creates that we sent. From UNKNOWN on a znode of ours may exist that `name` is
 * not.
 */
enum zkl__fate {
    ZKL__FATE_KNOWN,
    ZKL__FATE_DUPLICATE_STAYS, /* we may not delete the duplicate now: it is deleted with our znode
                                */
    ZKL__FATE_UNKNOWN,         /* a response was lost */
    ZKL__FATE_LISTED, /* the same, and a list is under way behind a committed write: it decides */
    ZKL__FATE_TWICE,  /* the create was sent again: two znodes may exist */
    ZKL__FATE_TWICE_STAYS /* two exist, and we may not delete the second one */
};

struct zkl__node {
    char prefix[ZKL__NAME_MAX]; /* "_c_<uuid>-<tag>" */
    char name[ZKL__NAME_MAX];   /* "": none is known */
    int64_t czxid;              /* 0: not known */
    enum zkl__fate fate;
    bool stays;             /* we may not delete it: the end of the session does */
    bool removes_duplicate; /* the delete under way is of a second znode of ours */
};

static inline bool zkl__node_known(const struct zkl__node *node)
{
    return node->name[0] != '\0';
}

/* A znode of ours may exist whose name we do not know. */
static inline bool zkl__node_unsure(const struct zkl__node *node)
{
    return node->fate >= ZKL__FATE_UNKNOWN;
}

/* It is known that ours exists, and that it is the only one. */
static inline bool zkl__node_certain(const struct zkl__node *node)
{
    return node->czxid && !zkl__node_unsure(node);
}

struct zkl__op zkl__create_op(const struct zkl__contender *c);
struct zkl__op zkl__delete_op(const struct zkl__contender *c);

/* === the weaker znode of a downgrade ========================================================== */

/* The name of the znode that replaces ours has our uuid, our number, and the tag of the weaker
 * rule. */
struct zkl__replacement {
    enum zkl__replacing {
        ZKL__REPLACING_NOT,
        ZKL__REPLACING,
        ZKL__REPLACED_PERHAPS,   /* a response was lost: the replacement may be done */
        ZKL__REPLACED_OR_REMOVED /* our znode is deleted: by the replacement if the new one is ours,
                                    else by somebody else */
    } state;
    int32_t sequence; /* our number: our znode may be deleted before the response is here */
    const struct zkl__rule *rule; /* config.rule when the replacement is done */
};

/* === a holder's watch on its own znode ======================================================== */

struct zkl__own_watch {
    int64_t guard_at; /* it is wanted from then on; 0: now; INT64_MAX: not, for it was refused */
    int64_t revoked;  /* mzxid of the last request that the owner was notified of */
};

/* === the predecessor ========================================================================== */

/* What the predecessor's access list permits. Since the fix of CVE-2024-23944 a server sends a
 * watch event only to a session that may READ the znode, and uses up the watch in any case
 * (WatchManager, NIOServerCnxn.process). Since ZOOKEEPER-2590 exists needs READ, too
 * (FinalRequestProcessor). So a contender that may not get its predecessor watches the children of
 * the queue instead, which every contender may list. */
enum zkl__read_access {
    ZKL__ACCESS_GET,  /* nothing was refused: send a get with a watch */
    ZKL__ACCESS_STAT, /* the get was refused: send an exists, whose stat shows whether it is a
                        contender at all */
    ZKL__ACCESS_NONE  /* the exists was refused, too: it counts as a contender */
};

struct zkl__predecessor {
    enum zkl__read_access access;
    bool armed; /* the watch is set: on the predecessor, or on the queue's children if it may not be
                   read */
    bool changed;    /* the queue changed while a list with a watch on it was under way */
    size_t reported; /* 1 + the queue position that the owner was last notified of; 0: none */
};

/* === many znodes that may be forged =========================================================== */

struct zkl__inspection {
    size_t nearest, batch;
    bool broken; /* the server did not respond to a request of the last batch */
    bool stale;  /* one of the znodes was deleted, and another may have replaced it, as in a
                    downgrade of a writer: a new list is needed */
    struct zkl__children *candidates; /* nearest first, behind it. PERSISTENT: excluded, whatever it
                                         is. EPHEMERAL: it stands, as far as we may know */
};

struct zkl__suspicion {
    enum {
        ZKL__SUSPICION_NONE,
        ZKL__SUSPICION_ARISEN, /* the predecessor was forged: the next list starts an inspection */
        ZKL__SUSPICION_INSPECTED /* a batch is wanted, or under way */
    } state;
    unsigned due; /* replies, to its requests or to those of an inspection before it */
    struct zkl__inspection *inspection; /* of all that stand before it; NULL: it did not meet two
                                           forged ones */
};

/* === is the path another recipe's? ============================================================ */

struct zkl__path_conflict {
    enum {
        ZKL__CONFLICT_LISTS, /* the directory, if there is one, is listed, */
        ZKL__CONFLICT_STATS, /* and the newest znode in it read */
        ZKL__CONFLICT_NONE   /* nobody lives there: the directories do not matter */
    } stage;
    const char *directory; /* see zkl__list_user */
};

/* === the mark of a release ==================================================================== */

struct zkl__release_mark {
    enum zkl__release_mark_state {
        ZKL__MARK_UNKNOWN, /* whether the last holder released */
        ZKL__MARK_CLEAN,   /* it did */
        ZKL__MARK_DELAYS,  /* nothing shows that it did, and config.delay is not over */
        ZKL__MARK_UNCLEAN, /* nothing shows that it did, and config.delay is over */
        ZKL__MARK_WRITES   /* the delete of our znode writes the mark */
    } state;
    int32_t before;   /* number of the contender that was right before ours; -1: none was */
    int32_t released; /* number in the last mark that was read; -1: none */
    int32_t next;     /* that the counter gave when the queue was empty, since a release; -1 */
    int32_t version;  /* of the data that were read last: nobody writes before our mark */
    int64_t until;    /* DELAYS */
};

/* === the grant ================================================================================ */

struct zkl__grant {
    int64_t hold_until;  /* by max_hold_ms; INT64_MAX: no limit */
    int64_t least_until; /* its node stays until then, also when it is released earlier; 0: no */
    enum zkl__grant_end {
        ZKL__GRANT_KEPT,
        ZKL__GRANT_OVERSTAYED, /* max_hold_ms passed: delete the znode before the owner releases */
        ZKL__GRANT_RELEASED,   /* the owner must still be notified that the release is done */
        ZKL__GRANT_HANDED_OVER /* the same, and it was held until the release: the follower in this
                                  session may be granted as soon as the delete is sent */
    } end;
    bool proved; /* the check that renews the lease for this grant was sent */
};

/* === a lock that lingers ====================================================================== */

enum zkl__linger_state {
    ZKL__LINGER_OFF,       /* a release deletes the znode, unless it may gather */
    ZKL__LINGER_GATHERING, /* granted for one follower after the other, which delete their znodes */
    ZKL__LINGER_ARMED,     /* a list has shown our node alone, and its watch has not fired */
    ZKL__LINGER_YIELDING, /* another contender came, or the connection was lost: the release deletes
                             the znode */
};

/* One contender's. */
struct zkl__linger {
    enum zkl__linger_state state;
    bool in_line;
    bool checks;           /* released, and a committed check was sent after that */
    bool lists_again;      /* gathering: the list under way was asked for before the last delete */
    struct zkl__link link; /* in line */
    int64_t until;         /* of a released one */
    int64_t serial;        /* grants on our node */
    zkl_acl *acl; /* a copy of config.acl from the first release on, when its owner may be freed */
};

/* === among those of its session =============================================================== */

struct zkl__peer {
    struct zkl__peer_queue *queue;
    struct zkl__link in_queue;
    uint64_t list;                  /* number of the list it waits for; 0: none */
    struct zkl__contender *follows; /* whom it follows: the predecessor is its node. NULL:
                                     nobody here */
    struct zkl__link following;     /* among the followers of that one */
    struct zkl__list followers;     /* the latest first */
    bool handed;                    /* granted before the node of `follows` is gone */
    bool moved;                     /* the node of `follows` went, or is another one */
    unsigned cleared;               /* held_up + 1 of the queue when all that handed over before it
                                     were found leaving; 0: never */
};

/* === the contender ============================================================================ */

/* What an operation of a contender is for. At most one of each is under way. */
enum zkl__role {
    ZKL__ROLE_NONE,
    ZKL__ROLE_CREATE, /* our node */
    ZKL__ROLE_LIST,   /* of the queue */
    ZKL__ROLE_WATCH,  /* get of the predecessor, with a watch; exists, without one, if it may not be
                       * read
                       */
    ZKL__ROLE_OWN_WATCH, /* get of our own node, with a watch */
    ZKL__ROLE_STAT,      /* exists of our own node: its czxid, when the create's reply was lost */
    ZKL__ROLE_PROVE,     /* committed check of our node, for a lease to be granted on */
    ZKL__ROLE_BEAT,      /* the session's heartbeat, on our node */
    ZKL__ROLE_CONFIG, /* of the ensemble's configuration, for the session: are there observers? */
    ZKL__ROLE_DELETE, /* of our node, or of a duplicate of it */
    ZKL__ROLE_SYNC_POINT, /* committed check of the directory: what was sent before is in the next
                          list, or nowhere */
    ZKL__ROLE_MAKE,       /* of the directory */
    ZKL__ROLE_REPLACE,  /* replaces our node by one of a weaker kind, or reads whose that one is */
    ZKL__ROLE_READ,     /* of the directory: did the last holder release? */
    ZKL__ROLE_CONFLICT, /* who lives in the directories of a semaphore or a partition? */
    ZKL__ROLES
};
#define UNDER_WAY(role) (1u << (role))

/* A kind of mail as a bit. */
#define ZKL__MAIL(kind) (1u << (kind))

struct zkl__mail {
    uint32_t kinds;
    enum zkl__event_kind kind; /* the one that is acted on */
    uint32_t ended; /* roles whose operation ended with its connection, or could not be sent: */
    signed char unsent[ZKL__ROLES]; /* why, ZKL_E...; 0: it was sent */
    enum zkl__role role;            /* of reply, the one that a server gave in this step */
    const struct zkl__reply *reply;
    enum zkl__watch_event watch;
    int code;
};

/* What it watches, in the order of their events. */
enum zkl__watched {
    ZKL__WATCHED_PREDECESSOR,
    ZKL__WATCHED_OWN,
    ZKL__WATCHED_QUEUE,
    ZKL__WATCHED_LINGER,
    ZKL__WATCHED
};

struct zkl__contender {
    struct zkl__machine machine;         /* first */
    struct zkl__contender_config config; /* path and metadata are copies */
    const zkl_heap *heap;
    struct zkl__core *core;
    unsigned number; /* of the session's contenders: for traces */
    enum zkl__contender_state state;
    /* The step that it is in: what has come, and what comes of it. NULL outside. */
    const struct zkl__mail *event;
    struct zkl__outcome *out; /* its why is NULL: none yet */
    int watch_code; /* why the watch of the request that is sent next could not be set; ZKL_OK: it
                       could */

    struct zkl__watch watches[ZKL__WATCHED]; /* the paths of the first two are its own */
    struct zkl__node node;
    struct zkl__replacement replacement;
    struct zkl__own_watch own;
    struct zkl__predecessor predecessor;
    struct zkl__suspicion suspicion;
    struct zkl__path_conflict conflict;
    struct zkl__release_mark mark;
    struct zkl__grant grant;
    struct zkl__linger linger;
    struct zkl__peer peer;

    bool started, try_only;
    bool waited; /* it has had a predecessor: no semaphore was at the path before it (queue.c) */
    bool jeopardy_notified;
    uint32_t under_way; /* bits of roles */
    int64_t deadline;
    struct {
        int64_t at;    /* 0: nothing is put off */
        int64_t pause; /* the last one; longer each time */
    } retry;
    char *make_path; /* the directory being made, cut to what is tried now */

    /* the session's */
    struct zkl__link holding; /* in the list of holders: proving, held and lingering */
    struct zkl__link proving;
    struct zkl__multi *multi; /* NULL: alone */
    struct zkl__link in_multi;
    struct zkl__mail mail;
    uint32_t held_back; /* roles of requests that the multi-contender has not sent yet */
    int64_t listed_at;  /* when its last list was sent */
    int64_t shown_at;   /* when what last showed our node was sent: its create, a list, a check */

    /* for statistics */
    struct zkl__path_stats *path_stats;
    int64_t since; /* when its acquire began, then when it was granted */
};

/* at 0: no time. */
static inline int64_t zkl__sooner(int64_t wake, int64_t at)
{
    return at && at < wake ? at : wake;
}

static inline bool zkl__under_way(const struct zkl__contender *c, enum zkl__role role)
{
    return c->under_way & UNDER_WAY(role);
}
bool zkl__contender_waits(const struct zkl__contender *contender);
/* It holds, or lingers: its node is there, and nobody else's turn. */
static inline bool zkl__contender_keeps(const struct zkl__contender *contender)
{
    return contender->state == ZKL__HELD || contender->state == ZKL__LINGERING;
}
/* No conflicting contender precedes it, as far as it has read: it is next, or keeps the lock. The
 * session's heartbeats go to the znodes of these. */
static inline bool zkl__contender_is_first(const struct zkl__contender *contender)
{
    return contender->state == ZKL__PROVING || zkl__contender_keeps(contender);
}

/* contender.c: its mail. */
/* Its owner listens no more, and it ends by itself. */
void zkl__contender_leave(struct zkl__contender *contender);
void zkl__contender_start(struct zkl__contender *contender, int64_t deadline, bool try_only);
void zkl__contender_post(struct zkl__contender *contender, enum zkl__event_kind kind);
/* Of ZKL__RC_UNKNOWN and ZKL__RC_UNSENT no more is kept than that, and why. */
void zkl__contender_post_reply(struct zkl__contender *contender, enum zkl__role role,
                               const struct zkl__reply *reply);

/* === what its files use of each other ========================================================= */

/* Why a contender or a semaphore fails by an order with this code. */
const char *zkl__cancel_text(int code);

/* === the list of a queue ====================================================================== */

/* The contenders of a list in the order of their numbers, if many contenders read the list. */
struct zkl__list_index {
    int32_t base;
    const char *user; /* see zkl__list_user */
    size_t count;
    size_t own; /* of these: with an owner */
    struct zkl__list_entry {
        const char *name;
        struct zkl__contender *owner; /* of this session, when it was sorted; NULL: none is */
        int32_t position;             /* number less base */
        zkl_kind kind;
        size_t same_from; /* the first of the entries right before it that are of its kind, too */
    } entries[];
};
/* base: the number of a contender that reads it. NULL: no memory. */
struct zkl__list_index *zkl__list_index_new(const zkl_heap *heap, const struct zkl__reply *list,
                                            int32_t base);
/* That of the list of c's queue that this step brought, with the owners; made if nobody has made it
 * before. NULL: no memory. */
struct zkl__list_index *zkl__list_sorted(const struct zkl__contender *c,
                                         const struct zkl__reply *list);

/* Below, index may be NULL. */
bool zkl__list_has(const struct zkl__reply *list, struct zkl__list_index *index, const char *name);

/* The contender, or lease, with the highest number; NULL: there is none. */
const char *zkl__list_last(const struct zkl__reply *list);

/* Of the nodes that carry our uuid the lowest, and
 * another one; NULL where there is none. */
void zkl__list_mine(const struct zkl__contender *c, const struct zkl__reply *list,
                    const char **lowest, const char **other);

/* The nearest contender before us of a kind that must go first; NULL: we are admitted. */
const char *zkl__list_predecessor(const struct zkl__contender *c, const struct zkl__reply *list,
                                  const struct zkl__list_index *index);
/* How many entries stand before that number. Not of NULL. */
size_t zkl__list_before(const struct zkl__list_index *index, const char *name);
/* "leases" for a path that also has "locks", a semaphore's (Curator's InterProcessSemaphoreV2);
 * "members" for one that also has "pieces", a partition's; else NULL. */
const char *zkl__list_user(const struct zkl__reply *list);

/* Instead of a czxid: forged, whoever reads it. */
#define ZKL__NEVER_A_CONTENDER INT64_MAX

/* Of a kind that must go first, and not known as forged.
 *
 * Numbers of a directory do not come twice, so what was made by hand at one stays forged for all
 * who stand behind it and are older. But a writer that is downgraded makes a reader's name by
 * itself, of its uuid and number: such a name may be a forgery now and a reader's later, so it is
 * looked at each time. */
bool zkl__kind_conflicts(const struct zkl__contender *c, const char *name, zkl_kind kind);

/* === the contenders of a session in one queue ================================================= */

/* Names that idle queues remember, in all. */
#define ZKL__REMEMBERED_MOST 65536

struct zkl__peer_queue {
    struct zkl__machine machine; /* first. Its step sends the list that contenders want */
    struct zkl__map_entry entry;
    struct zkl__list contenders; /* in the order in which they were made */
    unsigned count;              /* of these */
    unsigned unlisted;           /* creates without a list, since the last list was sent */
    uint64_t lists;              /* ever sent */
    unsigned lists_under_way;
    unsigned held_up; /* how often a delete that was under way has not been carried out */
    bool urgent;      /* one of the contenders that want a list may be first */
    bool lingers;     /* some contender has had config.linger */
    bool strangers;   /* the last list has shown others than contenders of this session */
    int64_t czxid;    /* of the directory, as its last list says */
    /* Forged znodes and their czxids, ZKL__NEVER_A_CONTENDER for those that no session owns: see
     * zkl__stat_forged. They are kept while the session has no contender here, so that
     * its later contenders do not read them again. */
    struct zkl__map forged;
    struct zkl__contender *keeper; /* gathering or armed; NULL: nobody */
    struct zkl__list line;         /* waits for it */
    size_t lingerers;              /* lock objects whose locks may linger here */
    struct zkl__list members;      /* memberships whose znode this path is */
    char path[];
};

void zkl__peer_queues_deinit(struct zkl__core *core);

/* From its making to its burial. False: no memory. Who did not join may leave. */
bool zkl__peers_join(struct zkl__contender *c, const char *path);
void zkl__peers_leave(struct zkl__contender *c);

/* The latest one that follows c; NULL: nobody does. */
static inline struct zkl__contender *zkl__peers_first_follower(const struct zkl__contender *c)
{
    return ZKL__OWNER(c->peer.followers.first, struct zkl__contender, peer.following);
}
/* c waits for the znode of that name. True: a contender of this session owns it, so c follows that
 * one and watches nothing on the server. */
bool zkl__peers_follow(struct zkl__contender *c, const char *name);
/* Its create needs no list, for others of this session stand before it, and lists of theirs follow.
 */
bool zkl__peers_spares_list(struct zkl__contender *c);
/* The znode before c's by its number, if this session owns it; NULL: only a list can show that one.
 */
const char *zkl__peers_neighbour(struct zkl__contender *c);
/* c is granted instead of its follower, which deletes its znode: whoever follows that one follows c
 * now. */
void zkl__peers_replace(struct zkl__contender *follower, struct zkl__contender *c);
/* It does not wait for another here any more, if it did. */
void zkl__peers_unfollow(struct zkl__contender *c);
/* c acted on an event. */
void zkl__peers_stepped(struct zkl__contender *c);
/* The delete of its node is on its way. */
bool zkl__peers_leaving(const struct zkl__contender *c);
/* c has read its mail: its followers get mail if its znode, or that it is leaving, was another
 * before. */
void zkl__peers_notify_changes(struct zkl__contender *c, const char *node, bool leaving);
/* c, which follows another, looks at that one: what it comes to. ZKL__EV_LOOK: nothing new. */
enum zkl__event_kind zkl__peers_check(struct zkl__contender *c);
/* Whether the delete of its znode, sent now, hands over to a follower. */
bool zkl__peers_hands_over(const struct zkl__contender *c);
/* One it was handed over from, at any remove, is still there, and the delete of that one's node is
 * not on its way. Those before a contender that was cleared are not looked at again, unless a
 * delete of this queue has come to nothing since. */
bool zkl__peers_delete_waits(struct zkl__contender *c);

/* c wants a list. It is sent when no machine has mail, or when the one under way has its reply. */
void zkl__peers_want_list(struct zkl__contender *c);
/* The reply to the list that was sent for c. False: it is c's alone, which is a multi-contender's.
 */
bool zkl__peers_on_list(struct zkl__contender *c, const struct zkl__reply *reply);

/* === the multi-contender ====================================================================== */

struct zkl__multi {
    struct zkl__machine machine; /* first. Its step follows those of its members */
    struct zkl__core *core;
    struct zkl__contender_config config; /* notify and owner: the owner's, until its last word */
    size_t count;
    struct zkl__list members; /* that are not freed */

    /* the transaction */
    struct zkl__request request;
    enum zkl__role under_way; /* ZKL__ROLE_NONE: none is */
    struct zkl__op *parts;
    size_t dealt_count;
    bool gathering; /* deletes wait until all members have sent theirs */

    /* what the owner was notified of, and what is due */
    size_t granted, released;
    bool failed, lost, jeopardy;
    int code;          /* of RELEASED */
    bool open;         /* all are first: members may be granted */
    int64_t listed_at; /* the time of the newest list when all were first for the first time; 0: not
                          yet */
    struct {
        struct zkl__contender *member; /* the owner of this part of the transaction */
        struct zkl__reply reply;       /* its part of the response, until its mail is read */
    } dealt[];                         /* the parts stand behind them */
};

/* For session_*.c. */

/* True: the operation waits here, and the multi-contender will send or refuse it. */
bool zkl__multi_holds_back(struct zkl__contender *c, enum zkl__role role);
/* The member is freed. */
void zkl__multi_leave(struct zkl__contender *c);

/* === operations under way ===================================================================== */

/* An operation that has no reply yet. */
struct zkl__pending {
    struct zkl__link link; /* in the core's list of those sent, or of those that wait for room */
    struct zkl__link in_owner; /* in its owner's */
    uint64_t id;               /* rises from one that is sent to the next; 0: it waits for room */
    enum zkl__op_kind kind;
    int role;                   /* what for: the owner's number */
    struct zkl__machine *owner; /* NULL: the session itself, or nobody any more */
    int64_t sent;
    struct zkl__op *waiting; /* a copy, until there is room to send it */
    bool counted;            /* in the window */
};

/* === room for operations ====================================================================== */

/* How many operations of a session may be under way, so that its heartbeats are never
 * far behind them.
 *
 * The client library and the server keep the order in which a session sends. A session that
 * acquires 20,000 locks together would send its heartbeats behind 40,000 requests. The latency of
 * the responses shows the length of that line: the window grows while they come within an eighth of
 * a heartbeat, and halves when they do not (additive increase, multiplicative decrease).
 */

struct zkl__window {
    size_t size, most; /* most 0: no limit */
    size_t under_way;
    size_t credit; /* replies in time since it last grew */
    bool slowed;   /* it has been too large once: from then on it grows by one for a whole window of
                      replies */
    int64_t slowed_at;
};

void zkl__window_init(struct zkl__window *window, size_t most);
/* answered: the server replied; otherwise nothing is learned. heartbeat: their interval. */
void zkl__window_ended(struct zkl__window *window, bool answered, int64_t sent, int64_t now,
                       int64_t heartbeat);

/* === watches ================================================================================== */

/* It is to watch dir/name, in memory of its own. Not while it is set. False: no memory. */
bool zkl__watch_path(struct zkl__core *core, struct zkl__watch *watch, const char *dir,
                     const char *name);

/* === the session ============================================================================== */

struct zkl__core {
    struct zkl__core_config config;
    struct zkl__port port;
    int64_t now;

    bool connected, closing, ended;
    bool stepping;
    zkl_connection_state state; /* reported when all machines have handled the event */
    int state_code;             /* the reason, for the report; ZKL_OK: it was made */
    int64_t connected_at;
    int broken;                        /* connections in a row that were lost immediately */
    size_t set_again, set_again_bytes; /* watches, and their paths, that each of them began with */
    int64_t session_id;
    int64_t timeout;
    struct zkl__lease lease;
    bool jeopardy;
    int64_t beat_at;  /* next heartbeat, while somebody proves or holds */
    int64_t roles_at; /* when to read the servers' roles; INT64_MAX: read, or being read, or not
                         wanted */
    int64_t guard_at; /* of the last one that began, or will begin, to watch its own node */
    int64_t proof_at; /* next sync, unless something that proves as much is sent before */
    int beats_under_way;

    struct zkl__list sent, waiting; /* of struct zkl__pending: what was handed to the store, in this
                                       order, and what waits for room */
    uint64_t ids;                   /* of the last one that was sent */
    struct zkl__window window;

    struct zkl__list ready[ZKL__RANKS]; /* machines, in the order in which they became so */
    /* What hears of its connections and its end. ZKL__RANK_FIRST: contenders, in the order of their
     * acquires, so that they send their creates in this order on a new connection. LATER: watchers;
     * LAST: semaphores; of these the latest first. */
    struct zkl__list machines[ZKL__RANKS];
    struct zkl__list holders; /* proving, held or lingering; the next heartbeat is on the first's
                                 node */
    struct zkl__list provers; /* those that are proving, in the same order */
    struct zkl__map queues;   /* of struct zkl__peer_queue */
    size_t remembered;        /* forged names of queues without a contender */
    struct zkl__list_index
        *index; /* of the list that this step's event brought; NULL: none, or for few */
    unsigned numbers;
    unsigned held; /* or lingering */
    size_t writes; /* of the user's, under way or waiting for room */
    struct zkl__timers timers;
    struct zkl__map watches; /* that are set, by path */
    size_t watch_bytes; /* of all their paths. After a reconnect the client library sets all watches
                           again in one packet, and a server closes the connection if that is too
                           long */
    uint64_t uuids;
    struct zkl__stats stats;
};

/* --- the drain -------------------------------------------------------------------------------- */

/* Whether all events have had their effect on what a caller reads now: no machine has mail, or it
 * is called in a step. */
bool zkl__core_settled(const struct zkl__core *core);

/* --- its contenders --------------------------------------------------------------------------- */

/* Held, by the lease: false from its end on. */
bool zkl__contender_holds(const struct zkl__machine *machine, int64_t now);
/* Notifies the owner of the outcome; of none after FAILED or RELEASED. */
void zkl__owner_notify(struct zkl__contender_config *config, const struct zkl__outcome *outcome);

/* --- queue.c --------------------------------------------------------------------------- */

/* What lingers at this path ends. */
void zkl__core_stop_lingering(struct zkl__core *core, const char *path);

/* --- its operations --------------------------------------------------------------------------- */

/* The machine needs no replies any more. Its operations that wait for room are never sent. True:
 * others were sent and have no reply yet. */
bool zkl__core_forget(struct zkl__machine *owner);

/* === counting ================================================================================= */

void zkl__stats_init(struct zkl__stats *stats);
void zkl__stats_deinit(struct zkl__stats *stats, const zkl_heap *heap);
/* The row of a path; that of the others when there are too many, or no memory. */
struct zkl__path_stats *zkl__stats_path(struct zkl__stats *stats, const zkl_heap *heap,
                                        const char *path);

/* A contender has moved, or (NEW, and before, too) is started. */
void zkl__stats_move(struct zkl__contender *contender, enum zkl__contender_state before);
void zkl__histogram_add(zkl_histogram *histogram, int64_t ns);

/* === the semaphore =========================================================================== */

enum zkl__semaphore_state {
    ZKL__SEMAPHORE_NEW,
    ZKL__SEMAPHORE_ASKING,    /* for the limit, while it queues: an acquire of more permits than
                                 that need not wait to fail */
    ZKL__SEMAPHORE_SEARCHING, /* nobody has set one: is the path in use as something else? */
    ZKL__SEMAPHORE_SEARCHED,  /* the last contender there: does it live with a session? */
    ZKL__SEMAPHORE_QUEUED,    /* until it is the head */
    ZKL__SEMAPHORE_MAKING, /* until its leases are there; then all are to be read, with the limit */
    ZKL__SEMAPHORE_READING,
    ZKL__SEMAPHORE_SETTING, /* nobody has set a limit: ours is written */
    ZKL__SEMAPHORE_JUDGING, /* too many stand: which of them live with a session? */
    ZKL__SEMAPHORE_WAITING, /* for fewer leases, or a higher limit */
    ZKL__SEMAPHORE_HELD,
    ZKL__SEMAPHORE_LOST,      /* was held; its owner is notified */
    ZKL__SEMAPHORE_RELEASING, /* until no lease is left */
    ZKL__SEMAPHORE_ENDED,
};

/* Of the path, as its head has read it since its own leases stand: from 1 on, or */
enum { ZKL__LIMIT_UNREAD = 0, ZKL__LIMIT_UNSET = -1 };

struct zkl__permit {
    struct zkl__semaphore *semaphore;
    struct zkl__contender *contender; /* NULL: not made yet, or given back */
};

struct zkl__semaphore {
    struct zkl__machine machine; /* first. Its step follows those of its contenders */
    struct zkl__core *core;
    struct zkl__semaphore_config config;
    unsigned number; /* for traces: that of its first contender */
    enum zkl__semaphore_state state;

    uint32_t mail; /* bits */
    int code, zk_code;
    const char *why;
    const struct zkl__reply *reply; /* NULL: the request got no reply */

    struct zkl__permit queue_node; /* in the queue; its contender NULL: let go */
    int64_t deadline;              /* of the acquire; once granted, of the hold */
    bool try_only;
    bool jeopardy; /* its owner was notified of it */
    /* Whom SEARCHING found: of any library, so the name may be longer than ours. */
    char last[ZKL__NAME_LONGEST + 1];
    int limit;               /* ZKL__LIMIT_UNREAD, ... */
    int32_t version;         /* of PATH, whose data is empty */
    bool busy;               /* its one operation is under way */
    bool over_limit;         /* too many leases stand: read both with watches */
    struct zkl__watch watch; /* of the leases */
    struct zkl__watch limit_watch;
    int lease_count;              /* leases, by the last list */
    struct zkl__children *leases; /* of the last list that was judged; NULL: none was */
    size_t looks;                 /* at leases, under way */
    bool unanswered;              /* one of these */
    int64_t retry_at, pause;      /* nothing is sent before; the last pause */
    int held;                     /* permits that have a contender */
    int made; /* the contenders of so many permits, from the first one on, stand as leases */
    struct zkl__permit permits[]; /* config.count */
};

static inline bool zkl__semaphore_waits(const struct zkl__semaphore *s)
{
    return s->state < ZKL__SEMAPHORE_HELD;
}

#endif
