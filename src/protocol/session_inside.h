/* session_inside.h - a session of the core, and what its files do for one another: session_step.c
 * takes events, leads the contenders and steps whoever has mail, requests.c knows what is under
 * way, session_time.c keeps the lease. Besides these only a machine that looks at its session
 * includes this (semaphore.c). */
#ifndef ZKL_PROTOCOL_SESSION_INSIDE_H
#define ZKL_PROTOCOL_SESSION_INSIDE_H

#include "contender_inside.h"
#include "core.h"
#include "session_step.h"
#include "stats.h"
#include "watcher.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* === operations under way ===================================================================== */

/* The operations that were handed to the store and not answered yet. */

struct zkl__pending {
    uint32_t uses; /* of this slot: an id names slot and use, so a late reply finds nothing */
    bool on;
    enum zkl__op_kind kind;
    int role;                   /* what for: the owner's number */
    struct zkl__machine *owner; /* NULL: the session itself, or nobody any more */
    int64_t sent;
    struct zkl__op *waiting; /* a copy, until there is room to send it; NULL: sent */
    bool counted;            /* in the window */
    size_t next;             /* in the chain it is in, index + 1. The next two: of its owner's */
    size_t next_owned, prev_owned;
};

struct zkl__pendings {
    const zkl_heap *heap;
    struct zkl__pending *slots;
    size_t room, on_count;
    size_t free; /* chain, index + 1 */
};

/* NULL: no memory. What is taken moves with the next take: keep ids, not pointers. */
struct zkl__pending *zkl__pending_take(struct zkl__pendings *pendings);
/* owner: as of the field. Until it is dropped or disowned, its machine knows it. */
void zkl__pending_own(struct zkl__pendings *pendings, struct zkl__pending *pending,
                      struct zkl__machine *owner);
void zkl__pending_disown(struct zkl__pendings *pendings, struct zkl__pending *pending);
void zkl__pending_drop(struct zkl__pendings *pendings, struct zkl__pending *pending);
uint64_t zkl__pending_id(const struct zkl__pendings *pendings, const struct zkl__pending *pending);
/* NULL: answered already, or never asked. */
struct zkl__pending *zkl__pending_find(const struct zkl__pendings *pendings, uint64_t id);

/* === room for operations ====================================================================== */

/* How many operations of a session may be under way, so that its heartbeats are never
 * far behind them.
 *
 * What a session sends is carried out in its order, by the client library and by the server. So
 * whoever asks for 20,000 locks at once would send its own heartbeats behind 40,000 requests. The
 * latency of the answers says how long that line is: the window grows while they come within an
 * eighth of a heartbeat, and halves when they do not (additive increase, multiplicative decrease).
 */

struct zkl__window {
    size_t size, most; /* most 0: no limit */
    size_t under_way;
    size_t credit; /* answers in time since it last grew */
    bool slowed;   /* it has been too large once: from then on it grows by one for a whole window of
                      answers */
    int64_t slowed_at;
};

void zkl__window_init(struct zkl__window *window, size_t most);
bool zkl__window_has_room(const struct zkl__window *window);
void zkl__window_sent(struct zkl__window *window);
/* answered: by the server; else nothing is learned. heartbeat: their interval. */
void zkl__window_ended(struct zkl__window *window, bool answered, int64_t sent, int64_t now,
                       int64_t heartbeat);

/* === watches ================================================================================== */

/* Which watches are set on which paths: a hash table that links the owners' own
 * structs, so adding one needs no memory. */

struct zkl__watches {
    const zkl_heap *heap;
    struct zkl__watch **buckets;
    size_t bucket_count;
    size_t count;
    size_t bytes; /* of all paths. After a reconnect the client library sets all watches again in
                     one packet, and a server closes the connection if that is too long */
};

bool zkl__watches_init(struct zkl__watches *watches, const zkl_heap *heap);
void zkl__watches_deinit(struct zkl__watches *watches, const zkl_heap *heap);
/* ZKL_OK, also when watch is in the table already. ZKL_ELIMIT: with it the paths would have more
 * than bytes_max bytes (0: no limit). */
int zkl__watches_add(struct zkl__watches *watches, struct zkl__watch *watch, size_t bytes_max);
void zkl__watches_remove(struct zkl__watches *watches, struct zkl__watch *watch);
/* Takes all watches of path out of the table. They are chained by next. */
struct zkl__watch *zkl__watches_take(struct zkl__watches *watches, const char *path);
/* Takes one watch of any path out of the table. NULL: the table is empty. */
struct zkl__watch *zkl__watches_take_any(struct zkl__watches *watches);
bool zkl__watches_any(const struct zkl__watches *watches, const char *path);

/* === the session ============================================================================== */

struct zkl__core {
    struct zkl__core_config config;
    struct zkl__port port;
    int64_t now;

    bool connected, closing, ended;
    bool stepping;
    bool owes_state; /* to the port: told when everybody has acted on it */
    zkl_connection_state state;
    int state_code;
    bool seal_off; /* the servers do not take our seal */
    int64_t connected_at;
    int broken;                        /* connections in a row that were lost at once */
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

    struct zkl__pendings pendings;
    struct zkl__window window;
    size_t first_waiting, last_waiting; /* chain of operations that wait for room, index + 1 */

    struct zkl__ready ready;
    struct zkl__list contenders; /* in the order of their acquires */
    struct zkl__semaphore *semaphores;
    struct zkl__watcher *watchers;
    struct zkl__list holders; /* proving, held or lingering; the next heartbeat is on the first's
                                 node */
    struct zkl__list provers; /* those that are proving, in the same order */
    struct zkl__local_queues queues;
    struct zkl__list_index
        *index; /* of the list that this step's event brought; NULL: none, or for few */
    unsigned numbers;
    unsigned held;    /* or lingering */
    unsigned granted; /* held, and not lingering; of these */
    unsigned warned;  /* were told that they are in jeopardy */
    size_t writes;    /* of the user's, under way or waiting for room */
    struct zkl__timers timers;
    size_t machines; /* that may have a timer */
    struct zkl__watches watches;
    uint64_t uuids;
    struct zkl__stats stats;
};

/* --- the drain -------------------------------------------------------------------------------- */

/* What is read now is what has become of all events: nobody has mail, or we are asked inside a
 * step. */
bool zkl__core_settled(const struct zkl__core *core);

/* --- its contenders --------------------------------------------------------------------------- */

/* In the order of their acquires; NULL: there are no more. */
struct zkl__contender *zkl__contenders_first(const struct zkl__core *core);
struct zkl__contender *zkl__contenders_after(const struct zkl__contender *c);
/* The lease ended: not by mail. */
void zkl__contender_lapse(struct zkl__core *core, struct zkl__contender *c);
/* NULL: nobody proves, holds or lingers. */
struct zkl__contender *zkl__holders_first(const struct zkl__core *core);
struct zkl__contender *zkl__holders_after(const struct zkl__contender *c);
/* The next heartbeat is on another one's node. */
void zkl__holders_rotate(struct zkl__core *core);
/* Its owner hears of the outcome; of nothing after FAILED or RELEASED. */
void zkl__owner_tell(struct zkl__contender *c, const struct zkl__outcome *outcome);

/* --- local_queue.c --------------------------------------------------------------------------- */

/* What lingers at this path ends. */
void zkl__core_stop_lingering(struct zkl__core *core, const char *path);

/* --- semaphore.c ----------------------------------------------------------------------------- */

/* To all of them: ZKL__CE_CONNECTED, or ZKL__CE_END with its code. */
void zkl__semaphores_post(struct zkl__core *core, enum zkl__contender_event_kind kind, int code);
void zkl__semaphore_start(struct zkl__semaphore *semaphore, int64_t deadline, bool try_only);
void zkl__semaphore_cancel(struct zkl__semaphore *semaphore, int code);
void zkl__semaphore_release(struct zkl__semaphore *semaphore);
bool zkl__semaphore_holds(const struct zkl__core *core, const struct zkl__semaphore *semaphore,
                          int64_t now);
/* Its owner is told nothing any more; then it lets go. */
void zkl__semaphore_silence(struct zkl__semaphore *semaphore);
void zkl__semaphore_let_go(struct zkl__semaphore *semaphore);
void zkl__semaphore_give_back(struct zkl__semaphore *semaphore, int count);
/* The core goes: all of them. */
void zkl__semaphores_drop(struct zkl__core *core);

/* --- watcher.c ------------------------------------------------------------------------------- */

/* All of them act. */
void zkl__watchers_wake(struct zkl__core *core);
/* All of them hear that the session is over. */
void zkl__watchers_over(struct zkl__core *core);

/* --- its operations --------------------------------------------------------------------------- */

/* What becomes of this machine's operations is nobody's concern any more: those that wait for room
 * are never sent. True: others were sent, and are not answered. */
bool zkl__core_forget(struct zkl__core *core, struct zkl__machine *owner);

/* --- session_time.c -------------------------------------------------------------------------- */

/* Whoever holds beyond the end of the lease has lost; jeopardy is told. */
void zkl__core_look_at_lease(struct zkl__core *core); /* while somebody holds */
static inline void zkl__core_end_lapsed_leases(struct zkl__core *core)
{
    if (core->held > 0) {
        zkl__core_look_at_lease(core);
    } else {
        core->jeopardy =
            false; /* that was the last holder's: the next one is warned in its own time */
    }
}
/* True when some were due. */
bool zkl__core_post_due_timers(struct zkl__core *core);
/* Heartbeat, keep-alive and roles, as far as they are due. */
void zkl__core_keep_alive(struct zkl__core *core);
/* A new connection: how many hops does it have? Sent before anything else, so its answer comes
 * before any grant. */
void zkl__core_find_hops(struct zkl__core *core);
void zkl__core_take_roles(struct zkl__core *core, const struct zkl__reply *reply);

#endif
