/* core.h - everything a session decides, as one step function: connections, lease, heartbeat,
 * replies, deletion of znodes. The shell (src/session) brings events and the time, and carries out
 * what the core wants of its port. The simulator does the same with a simulated ensemble, so both
 * run this object code. The machines of the core come first, with what their session does for them:
 * session_step.c implements that, and no machine depends on these.
 *
 * A step admits one event, then drains the mail that comes of it. The clock goes first, and last:
 * the end of a lease is a phase of each step, in which whoever holds reads that it has lost, before
 * anything else happens. Only the last phase frees.
 *
 * One call at a time, under the owner's mutex. Nothing here blocks. Functions of the port, notify
 * functions and the done and fired functions of requests and watches are called inside a step: they
 * note, signal, submit to the store; only their owners' code after the step may step again. */
#ifndef ZKL_PROTOCOL_CORE_H
#define ZKL_PROTOCOL_CORE_H

#include "collections.h"
#include "lease.h"
#include "name.h"
#include "op.h"

#include <zklock/session.h>
#include <zklock/stats.h>

/* === contenders =============================================================================== */

/* One contender in one queue: the protocol of every queue recipe, as a step function.
 *
 * A contender is one ephemeral sequential znode. Its create is sent together with a list of the
 * queue. It watches the one znode that its rule names, and is granted when a list shows no
 * conflicting contender before it and the session has a lease. A recipe is a rule. There is no
 * clock, thread, socket or random number in here: events carry the time and the uuid, actions are
 * operations for the store and outcomes for the owner.
 *
 * Life: new -> (start) -> waiting states -> held -> (release) -> removing -> gone; or, after the
 * release, lingering -> held, for another owner. The owner of a contender that is
 * cancelled, timed out or failed is notified in that step, and the contender goes on deleting its
 * znode by itself. */

struct zkl__contender; /* its fields: core_internal.h, for the core alone */

/* What makes a queue recipe: the tag in a znode's name, and the kinds of contender that must go
 * first. A contender waits for the nearest znode before its own of such a kind. If there is none,
 * it is first. */
struct zkl__rule {
    const char *tag;    /* "lock-": behind the uuid, before the ten digits */
    uint32_t waits_for; /* ZKL__KIND bits */
};

/* Nobody of any kind may be before us. */
extern const struct zkl__rule zkl__rule_mutex;

enum zkl__contender_state {
    ZKL__NEW,      /* not started, or waiting for a connection to start on */
    ZKL__CREATING, /* create and list are on their way */
    ZKL__MAKING,   /* the directory is being made */
    ZKL__LISTING,  /* our node is there; who is before us? */
    ZKL__WATCHING, /* somebody is: watched, or about to be */
    ZKL__PROVING,  /* nobody is: waiting for a lease */
    ZKL__HELD,
    ZKL__LOST,      /* was held; the node may still be there */
    ZKL__LINGERING, /* released, and kept for the next owner */
    ZKL__REMOVING,  /* not wanted any more: until no node of ours is left */
    ZKL__ENDED,
};
const char *zkl__contender_state_name(enum zkl__contender_state state); /* for tests */

enum zkl__outcome_kind {
    ZKL__GRANTED,
    ZKL__FAILED,   /* last word: never granted. The owner forgets the contender */
    ZKL__JEOPARDY, /* held, but no response renews the lease */
    ZKL__SAFE,     /* held, and the lease is renewed again */
    ZKL__LOSS,     /* was held. Reported once; the owner still has to release it */
    ZKL__RELEASED, /* last word after a release: no node is left, or the session is over. The owner
                      forgets the contender */
    ZKL__DOWNGRADED,    /* held: its node is of the weaker kind now */
    ZKL__REVOKED,       /* held, config.revocable: another client requests that we release */
    ZKL__NOT_DOWNGRADED /* held as before: somebody else's znode has the name */
};
struct zkl__outcome {
    enum zkl__outcome_kind kind;
    int code;                         /* FAILED: why. RELEASED: ZKL_OK when the server confirmed */
    int zk_code;                      /* ZooKeeper's number if it was its word */
    const char *why;                  /* static text */
    const char *path;                 /* FAILED, of a multi-contender: whose queue it was */
    int64_t token;                    /* GRANTED, as the next three */
    int64_t serial;                   /* how many grants this node has had, this one included */
    struct zkl__contender *contender; /* that holds: another one than the owner made, when that
                                         one's lock had lingered. NULL: no contender's grant */
    bool unclean; /* with config.mark: nothing shows that the last holder released */
    int64_t now;
};

struct zkl__contender_config {
    const struct zkl__rule *rule;
    const char *path;     /* of the queue; copied */
    const char *metadata; /* copied */
    const zkl_acl *acl;   /* kept by the owner until its last word; NULL: the store's default */
    bool fail_on_expiry;
    bool mark;      /* a release writes a mark into the directory, so that the next holder learns of
                       a crash: contender.c. The directory is made persistent. Not for a
                       multi-contender, and only with a rule that waits for every kind */
    bool revocable; /* REVOKED is wanted: our node is watched while it is held */
    int64_t max_hold; /* ns; 0: none */
    int64_t linger;   /* ns that the node stays after a release; 0: none. Not with revocable */
    int64_t least; /* ns from the grant on that the node stays, also when it is released earlier; 0:
                      none. Not with linger or a multi-contender */
    int64_t delay; /* ns that it waits when it is first, unless the last holder released; 0: none.
                      Only with mark */
    size_t max_ahead; /* fails with ZKL_EBUSY rather than queue behind more; 0: no limit */
    /* Called inside the step, as notify, when a list that is read anyway shows another number of
     * contenders before ours that must go first. NULL: nobody wants to know. */
    void (*position)(void *owner, size_t follows);
    /* Called inside the step, under the session's mutex: note and signal, call nothing of the core.
     * NULL: nobody listens. */
    void (*notify)(void *owner, const struct zkl__outcome *outcome);
    void *owner;
};

/* === machines that are ready ================================================================== */

/* A machine decides something: a contender, a queue's list, a membership. The session steps one
 * machine at a time, of those that have mail. A step enters no other machine: it sends operations,
 * notes facts, and posts mail.
 *
 * Mail waits with its machine; this queue says which machine is next. A machine of the later rank
 * acts on what others have done: one list for all contenders that want one, one transaction for all
 * znodes of a multi-contender. So it is stepped when no machine of the first rank is ready. A
 * machine of the last rank is stepped when none of these is: an acquire of a semaphore, whose
 * contenders' lists are sent by then. A machine that has ended is freed when the step of its
 * session is over. */

struct zkl__core;
struct zkl__machine;
struct zkl__event;

enum zkl__rank { ZKL__RANK_FIRST, ZKL__RANK_LATER, ZKL__RANK_LAST, ZKL__RANK_ENDED, ZKL__RANKS };

struct zkl__machine_ops {
    enum zkl__rank rank;
    /* Takes its mail and acts on it. */
    void (*step)(struct zkl__machine *machine);
    /* The reply to an operation of its own, which was sent at that time, and lives until the
     * session's step is over. ZKL__RC_UNSENT: the operation could not be sent, and the reply lives
     * until this returns. The machine notes it and is posted. */
    void (*answered)(struct zkl__machine *machine, int role, int64_t sent,
                     const struct zkl__reply *reply);
    /* False: an operation that waits for room is not wanted any more. NULL: all are. */
    bool (*wants)(const struct zkl__machine *machine, int role);
    /* Held at this time, by the lease. NULL, as the next ones: nobody asks. */
    bool (*holds)(const struct zkl__machine *machine, int64_t now);
    /* An order of its owner: ZKL__EV_START, CANCEL, RELEASE, LET_GO, or one for its kind alone; or
     * ZKL__EV_TIME: its time has come. If it is one of its session's: ZKL__EV_CONNECTED, EXPIRED or
     * CLOSE, too. NULL, as the next one: it has neither an owner who gives orders nor a time of its
     * own, or no end. */
    void (*order)(struct zkl__machine *machine, const struct zkl__event *order);
    /* It has ended, and the step of its session is over. */
    void (*free)(struct zkl__machine *machine);
};

struct zkl__machine {
    struct zkl__timer timer; /* first */
    const struct zkl__machine_ops *ops;
    struct zkl__core *core;
    struct zkl__list *ready; /* the list of its rank while it has mail, or has ended; else NULL */
    struct zkl__link in_ready;
    struct zkl__link in_session; /* of a contender, a watcher, a semaphore */
    struct zkl__list pending;    /* its operations without a reply: struct zkl__pending */
};

/* It is not to be stepped. */
static inline void zkl__machine_unready(struct zkl__machine *machine)
{
    if (machine->ready) {
        zkl__list_remove(machine->ready, &machine->in_ready);
        machine->ready = NULL;
    }
}

/* === what their session does for them ========================================================= */

/* The owner's memory, untouched until done is called (inside a step; it may not step). */
struct zkl__request {
    struct zkl__machine machine; /* core's: first */
    int unsent;                  /* core's */
    void (*done)(struct zkl__request *request, const struct zkl__reply *reply);
    void *owner;
};

/* Reports the next change of a path, once. The owner's memory; out of the table before fired is
 * called. The watch itself is set by a get, exists or children op with watch = true on the same
 * path. Told also when the session ends (event ZKL__WATCH_CHANGED): look again. */
struct zkl__watch {
    struct zkl__map_entry entry; /* first: its path is the owner's to set, the rest is core's */
    void (*fired)(struct zkl__watch *watch, enum zkl__watch_event event);
    void *owner;
};

/* --- machines and operations ----------------------------------------------------------------- */

/* Its mail is read before the step of the session is over. */
void zkl__core_post(struct zkl__machine *machine);
/* It has ended: freed when the step of the session is over. */
void zkl__core_bury(struct zkl__machine *machine);
/* A reply comes; that it could not be sent is told before this returns. owner NULL: the session
 * itself. */
void zkl__core_send(struct zkl__core *core, struct zkl__machine *owner, int role,
                    const struct zkl__op *op);
/* The same for a request. Its done is called in either case, never before this returns. */
void zkl__core_request(struct zkl__core *core, struct zkl__request *request,
                       const struct zkl__op *op);

/* --- facts ----------------------------------------------------------------------------------- */

/* Enough lease to grant on. */
bool zkl__core_leased(const struct zkl__core *core);
/* Connected, and with a lease to grant on. */
bool zkl__core_grants(const struct zkl__core *core);
/* A line about what path and number say; path NULL: the session. */
void zkl__core_say(const struct zkl__core *core, zkl_log_level level, const char *path,
                   unsigned number, const char *format, ...) __attribute__((format(printf, 5, 6)));
/* For the trace. */
#define zkl__core_trace(core, path, number, ...) \
    zkl__core_say(core, ZKL_LOG_DEBUG, path, number, __VA_ARGS__)
/* About the session, for an operator, who is to do something about it. */
#define zkl__core_warn(core, ...) zkl__core_say(core, ZKL_LOG_WARN, NULL, 0, __VA_ARGS__)

/* Breaks of the protocol that must not go on: continuing may mean two holders. */
#define ZKL__ENSURE(condition) \
    do {                       \
        if (!(condition)) {    \
            __builtin_trap();  \
        }                      \
    } while (0)

/* === a session, as the shell uses it ========================================================== */

/* The functions of the shell that the core calls. */
struct zkl__port {
    void *ctx;
    /* As zkl__store_ops.submit. */
    int (*submit)(void *ctx, uint64_t id, const struct zkl__op *op);
    /* The session changed: notify the user, wake the threads that wait for it. LOST: this store is
     * finished, open a new one. CLOSED: the same, but for good. code: why, ZKL_OK for a good
     * change. */
    void (*state)(void *ctx, zkl_connection_state state, int code);
    /* ZKL_LOG_DEBUG: one decision with its reason, for logs and golden traces. ZKL_LOG_WARN: what
     * an operator has to know. number: of the contender at path. path NULL: it is about the
     * session. NULL: nobody reads it. */
    void (*log)(void *ctx, zkl_log_level level, const char *path, unsigned number,
                const char *what);
    zkl_log_level log_level; /* nobody reads what is beyond */
};

/* Whether an observer may follow a follower, which makes two hops of one (lease.h). */
enum zkl__observer_masters {
    ZKL__MASTERS_NONE,
    ZKL__MASTERS_SOME,
    ZKL__MASTERS_ASK /* on each connection: there are none where the configuration lists no observer
                      */
};

struct zkl__core_config {
    zkl_heap heap;
    int64_t tick_ns;  /* T */
    int64_t pause_ns; /* P */
    enum zkl__observer_masters masters;
    size_t watch_bytes_max;
    size_t ops_max;
    uint64_t names_key; /* random: so that nobody can choose names that meet in a table */
    uint8_t seed[16];   /* uuids are made from it: never the same twice in the world */
    /* For the simulator, whose queues are short: of the contenders in a queue so many may send a
     * create alone as this part of them (queue.c); 0: an eighth. */
    size_t unlisted_part;
};

/* NULL: no memory. */
struct zkl__core *zkl__core_new(const struct zkl__core_config *config,
                                const struct zkl__port *port);
/* Only when idle, or when the store is closed: whatever is left is dropped without a word. */
void zkl__core_free(struct zkl__core *core);

/* --- events ---------------------------------------------------------------------------------- */

/* What a session admits, and the mail that its machines post. A machine reads its mail in this
 * order. Mail says no more than "look": what there is to see is judged when it is read. Behind each
 * kind stands what goes with it. */
enum zkl__event_kind {
    /* a semaphore's mail */
    ZKL__EV_FAILED, /* its queue node or a lease, or it is cancelled */
    ZKL__EV_AGAIN,  /* its queue node or a lease was lost before the grant */
    ZKL__EV_LIMIT,  /* a reply: the limit that goes with a list of the leases */
    /* a contender's */
    ZKL__EV_LAPSED, /* the lease ended */
    ZKL__EV_TAKEN,  /* it waited in line: another contender holds for its owner */
    /* what comes from the servers; to a machine: what concerns it */
    ZKL__EV_EXPIRED, /* code: ZKL_ELOST, or ZKL_EAUTH: for good. Behind it a contender reads nothing
                        but a look, orders and the time */
    ZKL__EV_CONNECTED, /* session_id, timeout (ns), fresh, began */
    ZKL__EV_REPLY,     /* id, reply */
    ZKL__EV_WATCH,     /* watch, path. To a contender: the predecessor changed or went. As the next
                          three in the order of zkl__watched */
    /* a contender's mail */
    ZKL__EV_OWN_WATCH,    /* its own node changed or went */
    ZKL__EV_QUEUE_WATCH,  /* a child of the queue came or went */
    ZKL__EV_LINGER_WATCH, /* the same, of a lock that may linger */
    ZKL__EV_INSPECTED,    /* a batch of its inspection was answered */
    ZKL__EV_LIST,         /* it is first in its queue, but its list is old or does not show it: it
                             lists again */
    ZKL__EV_YIELD,        /* it lingers, or may: the connection is lost, or another one queues */
    ZKL__EV_LOOK, /* at what others change: the lease, the one it follows, the multi-contender; a
                     semaphore at its contenders */
    /* orders, to a contender, a multi-contender or a semaphore */
    ZKL__EV_START,     /* deadline, try_only */
    ZKL__EV_RELEASE,   /* held or lost. RELEASED follows when no node is left */
    ZKL__EV_DOWNGRADE, /* contender: held; rule: a weaker one. Keeps its number and its token;
                          DOWNGRADED or NOT_DOWNGRADED follows */
    ZKL__EV_CANCEL,    /* code: what its FAILED says. Means nothing to who does not wait */
    ZKL__EV_CLOSE,  /* everything pending fails with ZKL_ECLOSED, everything held is released; see
                       zkl__core_idle. To a machine: it alone, with code */
    ZKL__EV_TIME,   /* nothing but the time */
    ZKL__EV_HANDED, /* contender: the predecessor, of this session, is leaving, and it is next */
    /* no mail */
    ZKL__EV_LET_GO,    /* an order: its owner listens no more. A new one is dropped, a waiting one
                          cancelled, a held one released, by itself */
    ZKL__EV_GIVE_BACK, /* semaphore: held; count of its permits, the latest ones, but not all */
    ZKL__EV_SUSPENDED,
    ZKL__EV_LINGER_STOP, /* path: a lock object that was enrolled there is freed. Behind the last
                            one nobody can be granted what lingers: it is deleted now */
    ZKL__EV_REQUEST, /* request, op: submits it, or answers ZKL__RC_UNSENT before the step ends */
    ZKL__EV_WAKE     /* watcher: it acts, whatever pause it made */
};

struct zkl__event {
    enum zkl__event_kind kind;
    int64_t now;                  /* CLOCK_BOOTTIME, ns; never less than in the step before */
    struct zkl__machine *machine; /* a contender, multi-contender, semaphore or watcher */
    int64_t deadline;             /* INT64_MAX: none */
    bool try_only;                /* fail with ZKL_EBUSY instead of waiting for another */
    int code, count;
    const struct zkl__rule *rule;
    int64_t session_id, timeout, began;
    bool fresh;
    uint64_t id;
    const struct zkl__reply *reply;
    enum zkl__watch_event watch;
    const char *path;
    struct zkl__request *request;
    const struct zkl__op *op;
};

void zkl__session_step(struct zkl__core *core, const struct zkl__event *event);

/* When the next ZKL__EV_TIME is due, CLOCK_BOOTTIME ns; INT64_MAX: none is wanted. */
int64_t zkl__core_next(const struct zkl__core *core);

/* --- contenders ------------------------------------------------------------------------------ */

/* The core owns it; the owner may use it until it is notified of FAILED or RELEASED, or lets go.
 * NULL: no memory. */
struct zkl__contender *zkl__contender_new(struct zkl__core *core,
                                          const struct zkl__contender_config *config);
/* Name of its node, "" while there is none. */
const char *zkl__contender_node(const struct zkl__contender *contender);
/* config.revocable: whether the reply, to a read of its node, has a request to release of which
 * neither REVOKED nor this has notified the owner before. */
bool zkl__contender_revoked(struct zkl__contender *contender, const struct zkl__reply *reply);

/* A contender in several queues at once: it has a znode in all of them or in none. One transaction
 * creates the znodes, and one deletes them as far as that is possible. To its owner it is one
 * contender, with the same outcomes: GRANTED when it is first everywhere, FAILED as soon as it
 * cannot be, LOSS with the first znode lost. config: without path and mark. The paths differ. NULL:
 * no memory. */
struct zkl__multi *zkl__multi_new(struct zkl__core *core,
                                  const struct zkl__contender_config *config,
                                  const char *const *paths, size_t count);
/* As the functions of a contender. */
const char *zkl__multi_node(const struct zkl__multi *multi, size_t member);

/* --- acquires of a semaphore ------------------------------------------------------------------ */

/* One acquire of a semaphore, in Curator's layout (InterProcessSemaphoreV2): a queue
 * node in PATH/locks, and when that is first, a lease in PATH/leases for each permit.
 *
 * It is a machine made of contenders: its queue node, and its leases, which wait for nobody. To its
 * owner it is one contender, with the same outcomes: GRANTED with the lowest token when its leases
 * are among no more than the limit, FAILED as soon as it cannot be, LOSS with the first lease lost.
 * The core owns it until its owner is notified of FAILED or RELEASED, or lets go. */

#define ZKL__CONFLICT_MAX 160

struct zkl__semaphore_config {
    const char *path, *locks, *leases; /* the owner's, as what follows, until the last word */
    char *conflict;                    /* ZKL__CONFLICT_MAX bytes for the words of ZKL_ECONFLICT */
    int limit;                         /* 0: what the path says */
    int count;
    struct zkl__contender_config contender; /* the owner, and the data of the znodes */
};

/* NULL: no memory. */
struct zkl__semaphore *zkl__semaphore_new(struct zkl__core *core,
                                          const struct zkl__semaphore_config *config);

/* Its node in the queue; "" while there is none. */
const char *zkl__semaphore_queue_node(const struct zkl__semaphore *semaphore);
/* The node of that permit, of so many that were asked for, and its token, once it is granted; NULL:
 * it has none yet, or none any more. */
const char *zkl__semaphore_permit(const struct zkl__semaphore *semaphore, int index,
                                  int64_t *token);
int zkl__semaphore_count(const struct zkl__semaphore *semaphore);
/* How many of these have one, or are about to; and the lowest token. */
int zkl__semaphore_held(const struct zkl__semaphore *semaphore);
int64_t zkl__semaphore_token(const struct zkl__semaphore *semaphore);

/* --- locks that linger ------------------------------------------------------------------------ */

/* A membership whose znode this is gets its queue, which keeps a list of them. member NULL: a lock
 * object of which the lock may linger at this path is made, which ends with ZKL__EV_LINGER_STOP.
 * NULL: no memory. */
struct zkl__peer_queue *zkl__peers_enroll(struct zkl__core *core, const char *path,
                                          struct zkl__link *member);
void zkl__peers_resign(struct zkl__core *core, struct zkl__peer_queue *queue,
                       struct zkl__link *member);

/* --- requests and watches: single operations of recipes that are not queues ------------------ */

/* The owner waits no longer: done will not be called, the memory may go. False: it was never sent,
 * and never will be. */
bool zkl__request_forget(struct zkl__request *request);

/* ZKL_OK, also when it is on already; or ZKL_ELIMIT when the session would watch more bytes of
 * paths than it may. half: than half of these. */
int zkl__watch_add(struct zkl__core *core, struct zkl__watch *watch, bool half);
/* Nothing happens if it is off already. */
void zkl__watch_forget(struct zkl__core *core, struct zkl__watch *watch);
/* The same, and takes the watch back from the server when nobody else here watches the path. */
void zkl__watch_remove(struct zkl__core *core, struct zkl__watch *watch);

/* --- what is counted, in the units of zklock/stats.h ------------------------------------------ */

/* The contenders of one path. Lives as long as the core. */
struct zkl__path_stats {
    zkl_contender_stats counts;
    char *path; /* NULL: of all that had no row of their own */
    bool warned_of_delete, warned_of_write,
        warned_of_read; /* an operator was warned that we lack this permission: once for a path */
    struct zkl__path_stats *next;
};

struct zkl__stats {
    zkl_stats all;                 /* contenders, lease_slack_min_us */
    struct zkl__path_stats *paths; /* the latest first, the others last */
    size_t path_count;
    struct zkl__path_stats others;
};

/* Upper bound of a bucket; 0: the last one has none. */
uint64_t zkl__histogram_bound_us(size_t bucket);

/* --- facts ----------------------------------------------------------------------------------- */

struct zkl__core_facts {
    int64_t now;
    bool connected;
    int64_t session_id; /* 0: it has none */
    int64_t timeout;    /* ns, 0 before the first connection */
    int64_t lease_until;
    enum zkl__hops hops;
    const struct zkl__stats *stats; /* what has been counted; lives as long as the core */
};
struct zkl__core_facts zkl__core_facts(const struct zkl__core *core);
/* What the lease has left at the least, while the servers answer immediately; ns. */
int64_t zkl__core_least_lease(const struct zkl__core *core);
/* What the lease will have left before it grows next, while the servers answer; ns. Not positive:
 * nothing, or not known yet. */
int64_t zkl__core_low_lease(const struct zkl__core *core);
/* After ZKL__EV_CLOSE: nothing of ours is left on the server, as far as its replies say, but znodes
 * that it refuses to delete before the session ends; and no operation is outstanding. */
bool zkl__core_idle(const struct zkl__core *core);

#endif
