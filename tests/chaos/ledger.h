/* ledger.h - guarded transactions: each makes a znode in the ledger of its lock, whose name says under which grant. The servers number them,
 * so the list of the ledger is the order in which they were committed, those without an answer too. */
#ifndef ZKL_CHAOS_LEDGER_H
#define ZKL_CHAOS_LEDGER_H

#include "object.h"

/* One grant's. */
struct ledger {
    const struct object *lock;
    int64_t token;
    int count; /* of transactions so far */
};

/* One more, held or not. */
void ledger_commit(struct ledger *ledger, const char *client);

#endif
