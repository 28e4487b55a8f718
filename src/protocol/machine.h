/* machine.h - what decides is a machine. The session steps one machine at a time, whichever has
 * mail. A step enters no other machine: it sends, it notes, and it posts mail.
 *
 * Mail waits with its machine; this queue says which machine is next. A machine of the later rank
 * acts on what others have done (one list for all that asked, one transaction for all places of a
 * multi-contender), so it is stepped when no machine of the first rank is ready; and one of the
 * last rank, when none of these is (an acquire of a semaphore, whose contenders' lists are sent
 * then). A machine that has ended waits until the step of its session is over, and is freed then.
 */
#ifndef ZKL_PROTOCOL_MACHINE_H
#define ZKL_PROTOCOL_MACHINE_H

#include "op.h"
#include "timers.h"

struct zkl__core;
struct zkl__machine;

enum zkl__rank { ZKL__RANK_FIRST, ZKL__RANK_LATER, ZKL__RANK_LAST, ZKL__RANK_ENDED, ZKL__RANKS };

struct zkl__machine_ops {
    enum zkl__rank rank;
    /* Takes its mail and acts on it. */
    void (*step)(struct zkl__core *core, struct zkl__machine *machine);
    /* An operation of its own, sent at that time, was answered; or it could not be sent. The
     * machine notes that and is posted. The reply lives until the session's step is over. */
    void (*answered)(struct zkl__core *core, struct zkl__machine *machine, int role, int64_t sent,
                     const struct zkl__reply *reply);
    void (*refused)(struct zkl__core *core, struct zkl__machine *machine, int role, int code);
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
    struct zkl__machine *next; /* ready, too */
    bool ready;
    size_t pending; /* the first of its operations under way, index + 1: see pending.h */
};

/* The machines that are ready, in the order in which they became so. */
struct zkl__ready {
    struct zkl__machine *first[ZKL__RANKS], *last[ZKL__RANKS];
};

/* Ready already: nothing. */
static inline void zkl__ready_put(struct zkl__ready *ready, struct zkl__machine *machine,
                                  enum zkl__rank rank)
{
    if (!machine->ready) {
        machine->ready = true;
        machine->next = NULL;
        *(ready->last[rank] ? &ready->last[rank]->next : &ready->first[rank]) = machine;
        ready->last[rank] = machine;
    }
}

/* The next one of that rank, not ready any more; NULL: none is. */
static inline struct zkl__machine *zkl__ready_take(struct zkl__ready *ready, enum zkl__rank rank)
{
    struct zkl__machine *machine = ready->first[rank];
    if (machine) {
        ready->first[rank] = machine->next;
        ready->last[rank] = machine->next ? ready->last[rank] : NULL;
        machine->next = NULL;
        machine->ready = false;
    }
    return machine;
}

/* No machine is ready to be stepped. */
static inline bool zkl__ready_none(const struct zkl__ready *ready)
{
    return !ready->first[ZKL__RANK_FIRST] && !ready->first[ZKL__RANK_LATER] &&
           !ready->first[ZKL__RANK_LAST];
}

/* It is not to be stepped. */
void zkl__ready_remove(struct zkl__ready *ready, struct zkl__machine *machine);

#endif
