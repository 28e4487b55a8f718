/* ledgers.h - where guarded transactions go (ledger.h), a directory for each of the locks: made before, read when all is over. */
#ifndef ZKL_CHAOS_LEDGERS_H
#define ZKL_CHAOS_LEDGERS_H

#include "arena.h"

void ledgers_make(struct arena *a);
/* Writes into the history what was committed, in that order. */
void ledgers_read(struct arena *a);

#endif
