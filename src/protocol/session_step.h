/* session_step.h - everything a session decides, as one step function: connections, lease,
 * heartbeat, replies, deletion of znodes. The shell (src/session) brings events and the time, and
 * carries out what the core wants of its port. The simulator does the same with a simulated
 * ensemble, so both run this object code.
 *
 * A step admits one event, then drains the mail that comes of it (core.h). The clock goes first:
 * the end of a lease is no mail, which could be read late, but a phase of each step. Only the last
 * phase frees.
 *
 * One call at a time, under the owner's mutex. Nothing here blocks. Functions of the port, notify
 * functions and the done and fired functions of requests and watches are called inside a step: they
 * note, signal, submit to the store; only their owners' code after the step may step again. */
#ifndef ZKL_PROTOCOL_SESSION_STEP_H
#define ZKL_PROTOCOL_SESSION_STEP_H

#include "contender.h"
#include "core.h"
#include "lease.h"

#include <zklock/session.h>

/* The functions of the shell that the core calls. */
struct zkl__port {
    void *ctx;
    /* As zkl__store_ops.submit. */
    int (*submit)(void *ctx, uint64_t id, const struct zkl__op *op);
    /* The session changed: notify the user, wake the threads that wait for it. LOST: this store is
     * finished, open a new one. CLOSED: the same, but for good. code: why, ZKL_OK for a good
     * change. */
    void (*state)(void *ctx, zkl_connection_state state, int code);
    /* One decision with its reason, for logs and golden traces; NULL: nobody reads them. who:
     * "session", or "path#number". */
    void (*trace)(void *ctx, const char *who, const char *what);
    /* What an operator has to know; NULL: nobody reads it. who: as of trace. */
    void (*warn)(void *ctx, const char *who, const char *what);
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
     * create alone as this part of them (peers.c); 0: an eighth. */
    size_t unlisted_part;
};

/* NULL: no memory. */
struct zkl__core *zkl__core_new(const struct zkl__core_config *config,
                                const struct zkl__port *port);
/* Only when idle, or when the store is closed: whatever is left is dropped without a word. */
void zkl__core_free(struct zkl__core *core);

/* --- events ---------------------------------------------------------------------------------- */

enum zkl__event_kind {
    ZKL__EV_CONNECTED, /* session_id, timeout (ns), fresh, began */
    ZKL__EV_SUSPENDED,
    ZKL__EV_EXPIRED,     /* code: ZKL_ELOST, or ZKL_EAUTH: for good */
    ZKL__EV_REPLY,       /* id, reply */
    ZKL__EV_WATCH,       /* watch, path */
    ZKL__EV_TIME,        /* nothing but the time */
    ZKL__EV_START,       /* contender, multi-contender or semaphore, deadline, try_only */
    ZKL__EV_CANCEL,      /* one of these, code: what its FAILED says */
    ZKL__EV_RELEASE,     /* one of these: held or lost. RELEASED follows when no node is left */
    ZKL__EV_LET_GO,      /* one of these: its owner listens no more. A new one is dropped, a waiting
                            one cancelled, a held one released, by itself */
    ZKL__EV_GIVE_BACK,   /* semaphore: held; count of its permits, the latest ones, but not all */
    ZKL__EV_LINGER_STOP, /* path: what lingers there is deleted now */
    ZKL__EV_DOWNGRADE,   /* contender: held; rule: a weaker one. Keeps its number and its token;
                            DOWNGRADED or NOT_DOWNGRADED follows */
    ZKL__EV_REQUEST, /* request, op: submits it, or answers ZKL__RC_UNSENT before the step ends */
    ZKL__EV_CLOSE,   /* everything pending fails with ZKL_ECLOSED, everything held is released; see
               zkl__core_idle */
    ZKL__EV_WAKE     /* watcher: it acts, whatever pause it made */
};

struct zkl__multi;
struct zkl__semaphore;
struct zkl__event {
    enum zkl__event_kind kind;
    int64_t now;                      /* CLOCK_BOOTTIME, ns; never less than in the step before */
    struct zkl__contender *contender; /* or: */
    struct zkl__multi *multi;         /* or: */
    struct zkl__semaphore *semaphore;
    struct zkl__watcher *watcher;
    int64_t deadline; /* INT64_MAX: none */
    bool try_only;    /* fail with ZKL_EBUSY instead of waiting for another */
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
/* Held at this time, by the lease. One of the three is not NULL. */
bool zkl__core_holds(const struct zkl__core *core, const struct zkl__contender *contender,
                     const struct zkl__multi *multi, const struct zkl__semaphore *semaphore,
                     int64_t now);

enum zkl__contender_state zkl__contender_state(const struct zkl__contender *contender);
/* Name of its node, "" while there is none. */
const char *zkl__contender_node(const struct zkl__contender *contender);
/* Held, by the lease: false from its end on. */
bool zkl__contender_holds(const struct zkl__core *core, const struct zkl__contender *contender,
                          int64_t now);

/* A contender in several queues at once: it has a znode in all of them or in none. One transaction
 * creates the znodes, and one deletes them as far as that is possible. To its owner it is one
 * contender, with the same outcomes: GRANTED when it is first everywhere, FAILED as soon as it
 * cannot be, LOSS with the first znode lost. config: without path and mark. The paths differ. NULL:
 * no memory. */
struct zkl__multi *zkl__multi_new(struct zkl__core *core,
                                  const struct zkl__contender_config *config,
                                  const char *const *paths, size_t count);
/* As the functions of a contender. */
bool zkl__multi_holds(const struct zkl__core *core, const struct zkl__multi *multi, int64_t now);
const char *zkl__multi_node(const struct zkl__multi *multi, size_t member);

/* --- locks that linger ------------------------------------------------------------------------ */

/* A lock object of which the lock may linger at this path is made; NULL: no memory. When it is
 * freed, whether it was the last one there: then nobody can be granted what lingers. */
struct zkl__peer_queue *zkl__linger_enroll(struct zkl__core *core, const char *path);
bool zkl__linger_resign(struct zkl__core *core, struct zkl__peer_queue *queue);

/* --- requests and watches: single operations of recipes that are not queues ------------------ */

/* The owner waits no longer: done will not be called, the memory may go. False: it was never sent,
 * and never will be. */
bool zkl__request_forget(struct zkl__core *core, struct zkl__request *request);

/* ZKL_OK, or ZKL_ELIMIT when the session watches too many bytes of paths, or ZKL_ENOMEM. On
 * already: ZKL_OK. */
int zkl__watch_add(struct zkl__core *core, struct zkl__watch *watch);
/* Forgets it; takes the watch back from the server when nobody else here watches the path. Off
 * already: nothing. */
void zkl__watch_remove(struct zkl__core *core, struct zkl__watch *watch);

/* --- facts ----------------------------------------------------------------------------------- */

int64_t zkl__core_now(const struct zkl__core *core);
int64_t zkl__core_session_id(const struct zkl__core *core); /* 0: it has none */
int64_t zkl__core_timeout(const struct zkl__core *core);    /* ns, 0 before the first connection */
/* What has been counted; lives as long as the core. */
struct zkl__stats;
const struct zkl__stats *zkl__core_stats(const struct zkl__core *core);
bool zkl__core_connected(const struct zkl__core *core);
int64_t zkl__core_lease_until(const struct zkl__core *core);
int64_t zkl__core_least_lease(const struct zkl__core *core);
enum zkl__hops zkl__core_hops(const struct zkl__core *core);
/* What the lease will have left before it grows next, while the servers answer; ns. Not positive:
 * nothing, or not known yet. */
int64_t zkl__core_low_lease(const struct zkl__core *core);
/* After ZKL__EV_CLOSE: nothing of ours is left on the server, as far as its replies say, but znodes
 * that it refuses to delete before the session ends; and no operation is outstanding. */
bool zkl__core_idle(const struct zkl__core *core);
#endif
