#include "machine.h"

static bool take_out(struct zkl__ready *ready, struct zkl__machine *machine, enum zkl__rank rank)
{
    struct zkl__machine *before = NULL, *at = ready->first[rank];
    while (at && at != machine) {
        before = at;
        at = at->next;
    }
    if (at) {
        *(before ? &before->next : &ready->first[rank]) = at->next;
        ready->last[rank] = at->next ? ready->last[rank] : before;
        at->next = NULL;
        at->ready = false;
    }
    return at;
}

void zkl__ready_remove(struct zkl__ready *ready, struct zkl__machine *machine)
{
    for (int rank = 0; machine->ready && rank < ZKL__RANKS; rank++) {
        (void)take_out(ready, machine, (enum zkl__rank)rank);
    }
}
