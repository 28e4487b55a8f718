/* pending.h - the operations that were handed to the store and not answered yet. */
#ifndef ZKL_PROTOCOL_PENDING_H
#define ZKL_PROTOCOL_PENDING_H

#include "machine.h"

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

#endif
