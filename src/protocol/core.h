/* core.h - machines, and the functions of their session that they call. session_*.c implement
 * these. The header is a layer below the machines, so that none of them depends on the session. */
#ifndef ZKL_PROTOCOL_CORE_H
#define ZKL_PROTOCOL_CORE_H

#include "collections.h"
#include "name.h"
#include "op.h"

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

enum zkl__rank { ZKL__RANK_FIRST, ZKL__RANK_LATER, ZKL__RANK_LAST, ZKL__RANK_ENDED, ZKL__RANKS };

struct zkl__machine_ops {
    enum zkl__rank rank;
    /* Takes its mail and acts on it. */
    void (*step)(struct zkl__core *core, struct zkl__machine *machine);
    /* The reply to an operation of its own, which was sent at that time, and lives until the
     * session's step is over. ZKL__RC_UNSENT: the operation could not be sent, and the reply lives
     * until this returns. The machine notes it and is posted. */
    void (*answered)(struct zkl__core *core, struct zkl__machine *machine, int role, int64_t sent,
                     const struct zkl__reply *reply);
    /* False: an operation that waits for room is not wanted any more. NULL: all are. */
    bool (*wants)(const struct zkl__machine *machine, int role);
    /* Its time has come: it is posted. NULL, as the next: it has no time of its own, or no end. */
    void (*due)(struct zkl__machine *machine);
    /* It has ended, and the step of its session is over. */
    void (*free)(struct zkl__core *core, struct zkl__machine *machine);
};

struct zkl__machine {
    struct zkl__timer timer; /* first */
    const struct zkl__machine_ops *ops;
    struct zkl__list *ready; /* the list of its rank while it has mail, or has ended; else NULL */
    struct zkl__link in_ready;
    size_t pending; /* the first of its operations under way, index + 1: see requests.c */
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

struct zkl__contender;

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
void zkl__core_post(struct zkl__core *core, struct zkl__machine *machine);
/* It has ended: freed when the step of the session is over. */
void zkl__core_bury(struct zkl__core *core, struct zkl__machine *machine);
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
/* When a holder of now is to begin to watch its own node: after its first heartbeat, and not many
 * at once. */
int64_t zkl__core_guard_at(struct zkl__core *core);
/* A uuid that nobody else has. */
void zkl__core_uuid(struct zkl__core *core, char out[ZKL__UUID_LENGTH + 1]);
/* A line of the trace: "path#number", and what. */
void zkl__core_trace_at(struct zkl__core *core, const char *path, unsigned number,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The same of a contender; "session" for contender NULL. */
void zkl__core_trace(struct zkl__core *core, const struct zkl__contender *contender,
                     const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same for an operator, who is to do something about it. */
void zkl__core_warn(struct zkl__core *core, const struct zkl__contender *contender,
                    const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Breaks of the protocol that must not go on: continuing may mean two holders. */
#define ZKL__ENSURE(condition) \
    do {                       \
        if (!(condition)) {    \
            __builtin_trap();  \
        }                      \
    } while (0)

#endif
