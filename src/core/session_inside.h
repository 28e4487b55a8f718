/* session_inside.h - a session of the core, and what its files do for one another: session_step.c takes events, session_contenders.c
 * leads the contenders, session_answers.c knows what is under way, session_time.c keeps the lease. Nobody else includes this. */
#ifndef ZKL_CORE_SESSION_INSIDE_H
#define ZKL_CORE_SESSION_INSIDE_H

#include "contender_step.h"
#include "joint.h"
#include "local_queue.h"
#include "pending.h"
#include "session_step.h"
#include "stats.h"
#include "timers.h"
#include "watches.h"
#include "window.h"

struct zkl__core {
    struct zkl__core_config config;
    struct zkl__port port;
    int64_t now;

    bool connected, closing, ended;
    bool seal_off; /* the servers do not take our seal */
    int64_t connected_at;
    int broken;                        /* connections in a row that were lost at once */
    size_t set_again, set_again_bytes; /* watches, and their paths, that each of them began with */
    int64_t session_id;
    int64_t timeout;
    struct zkl__lease lease;
    bool jeopardy;
    int64_t beat_at;  /* next heartbeat, while somebody proves or holds */
    int64_t roles_at; /* when to read the servers' roles; INT64_MAX: read, or being read, or not wanted */
    int64_t guard_at; /* of the last one that began, or will begin, to watch its own node */
    int64_t proof_at; /* next sync, unless something that proves as much is sent before */
    int beats_under_way;

    struct zkl__pendings pendings;
    struct zkl__window window;
    size_t first_waiting, last_waiting; /* chain of operations that wait for room, index + 1 */
    size_t refused; /* chain of operations to be answered as unsent before the step ends, index + 1 */

    struct zkl__contender *contenders;
    struct zkl__contender *holders, *last_holder; /* proving or held; the next heartbeat is on the first's node */
    struct zkl__contender *dead;                  /* freed when the step ends */
    struct zkl__joint *unsettled;                 /* members of them stepped */
    struct zkl__contender *stirred;               /* others follow them */
    struct zkl__local_queue *unsent;              /* lists of them are to be sent */
    struct zkl__local_queues queues;
    unsigned numbers;
    unsigned held;
    struct zkl__timers timers;
    struct zkl__watches watches;
    uint64_t uuids;
    struct zkl__stats stats;
};

/* --- session_contenders.c ------------------------------------------------------------------------------------------ */

/* To every contender that is not gone. */
void zkl__contenders_feed(struct zkl__core *core, enum zkl__contender_event_kind kind);
/* Who waits fails with code; who holds releases. */
void zkl__contender_give_up(struct zkl__core *core, struct zkl__contender *c, int code);
/* The next heartbeat is on another one's node. */
void zkl__holders_rotate(struct zkl__core *core);
/* Its owner hears of the outcome; of nothing after FAILED or RELEASED. */
void zkl__owner_tell(struct zkl__contender *c, const struct zkl__outcome *outcome);
/* Out of every list, to be freed by bury. */
void zkl__contender_unlink(struct zkl__core *core, struct zkl__contender *c);
void zkl__contenders_bury(struct zkl__core *core);

/* --- session_answers.c --------------------------------------------------------------------------------------------- */

void zkl__core_answer(struct zkl__core *core, struct zkl__pending *p, const struct zkl__reply *reply);
/* Everything under way: nobody knows what became of it. */
void zkl__core_answer_unknown(struct zkl__core *core);
/* The core goes: without a word. */
void zkl__core_drop_waiting(struct zkl__core *core);
/* Until all that follows has followed. */
void zkl__core_settle(struct zkl__core *core);

/* --- session_time.c ------------------------------------------------------------------------------------------------ */

/* Enough lease to grant on. */
bool zkl__core_leased(const struct zkl__core *core);
void zkl__core_look_at_lease(struct zkl__core *core);
void zkl__core_look_at_time(struct zkl__core *core);
/* A new connection: how many hops does it have? Sent before anything else, so its answer comes before any grant. */
void zkl__core_find_hops(struct zkl__core *core);
void zkl__core_take_roles(struct zkl__core *core, const struct zkl__reply *reply);

#endif
