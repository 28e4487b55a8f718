/* core.h - what those that decide, the machines, ask of their session. Below them, so that none of
 * them depends on it: session_*.c and drain.c answer. */
#ifndef ZKL_PROTOCOL_CORE_H
#define ZKL_PROTOCOL_CORE_H

#include "machine.h"
#include "name.h"

struct zkl__contender;
struct zkl__core;

/* The owner's memory, untouched until done is called (inside a step; it may not step). */
struct zkl__request {
    struct zkl__machine machine; /* core's: first */
    int unsent;                  /* core's */
    void (*done)(struct zkl__request *request, const struct zkl__reply *reply);
    void *owner;
};

/* A wish to hear once that a path changed. The owner's memory; out of the table before fired is
 * called. The watch itself is set by a get, exists or children op with watch = true on the same
 * path. Told also when the session ends (event ZKL__WATCH_CHANGED): look again. */
struct zkl__watch {
    void (*fired)(struct zkl__watch *watch, enum zkl__watch_event event);
    void *owner;
    const char *path; /* the owner's memory */
    /* core's */
    struct zkl__watch *next;
    uint32_t hash;
    bool on;
};

/* --- machines and operations ----------------------------------------------------------------- */

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

/* --- facts ----------------------------------------------------------------------------------- */

const zkl_heap *zkl__core_heap(const struct zkl__core *core);
int64_t zkl__core_now(const struct zkl__core *core);
int64_t zkl__core_session_id(const struct zkl__core *core); /* 0: it has none */
/* Enough lease to grant on. */
bool zkl__core_leased(const struct zkl__core *core);
/* No server was reached for a session timeout (zkl__lease_doubted). */
bool zkl__core_doubted(const struct zkl__core *core);
/* Connected, and with a lease to grant on. */
bool zkl__core_grants(const struct zkl__core *core);
/* A transaction or write of the user's is under way, or waits for room. */
bool zkl__core_writes(const struct zkl__core *core);
/* When a holder of now is to begin to watch its own node: after its first heartbeat, and not many
 * at once. */
int64_t zkl__core_guard_at(struct zkl__core *core);
/* The access list of sealed nodes. */
const zkl_acl *zkl__core_seal(const struct zkl__core *core);
/* Whether nodes may be sealed from now on; off: the servers do not take the list, or not our
 * identity. */
bool zkl__core_seals(const struct zkl__core *core);
void zkl__core_seal_off(struct zkl__core *core);
int64_t zkl__core_timeout(const struct zkl__core *core); /* ns, 0 before the first connection */
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
