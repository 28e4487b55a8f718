/* verdict.h - what a history proves against the library. One rule for all recipes: a grant takes so much of what a path has, and at no time
 * may more be taken than there is (history.h, acquire). Two grants that cannot be together are in the order of their tokens.
 *
 * In O(n log n) but for those that hold at the same time: every grant has a token of its own, so that nothing has to be searched
 * for; a sweep over the events and one over the grants of each path see everything. */
#ifndef ZKL_CHAOS_VERDICT_H
#define ZKL_CHAOS_VERDICT_H

#include <stdio.h>

#include "history.h"

/* X(NAME, words) */
#define VERDICTS(X)                                                                                                    \
    X(DOUBLE_HOLD, "double-hold")       /* grants of one path that have no room beside each other overlap: */          \
                                        /* [grant, min(release, lost, lease end)] */                                   \
    X(TOKEN_ORDER, "token-order")       /* a grant's token is not above those of all it had to wait for */             \
    X(STALE_ACCEPTED, "stale-accepted") /* the resource took a write with a token below one it had taken */            \
    X(LATE_END, "late-end")             /* a wait, or a close, went on after its deadline */                           \
    X(NEVER_ENDED, "never-ended")       /* an acquire without a completion, also by the end of its session's close */  \
    X(ENDED_TWICE, "ended-twice")       /* a completion without an acquire, or of what was freed */                    \
    X(TOLD_LATE, "told-late")           /* a holder was told LOST long after it could see that it was lost */          \
    X(NOT_TOLD, "not-told")             /* a holder lost, released, and was not told LOST in between */                \
    X(RELEASED_LOST, "released-lost") /* a release said that the lease had covered a hold that was seen to be lost */  \
    X(ORPHAN, "orphan") /* a znode stands in a queue after everything, or its session's close, is over */              \
    X(STALE_COMMITTED, "stale-committed") /* a guarded transaction was carried out after one of a later grant */       \
    X(COMMIT_BELIED, "commit-belied")     /* what was answered to one is not what the ledger says */                   \
    X(CRASH_UNTOLD, "crash-untold")       /* the first grant after a holder was killed says nothing of it */           \
    X(UNHEARD, "unheard")                 /* a holder that was asked to give way did not hear it, and held for long */ \
    X(UNOWNED, "unowned")                 /* a piece has no owner though nothing was broken for long */                \
    X(WRONG_LIST, "wrong-list")           /* then, somebody was told last of others than those who are members */      \
    X(NOBODY_LOOKED, "nobody-looked")     /* a path was used, and nobody looked for orphans at its end */              \
    X(GARBLED, "garbled")                 /* what cannot have happened: the recorder is wrong, judge nothing */

enum verdict_kind {
#define VERDICT_ENUM(name, words) VERDICT_##name,
    VERDICTS(VERDICT_ENUM)
#undef VERDICT_ENUM
        VERDICT_COUNT
};

const char *verdict_name(int kind);

struct verdict {
    size_t found[VERDICT_COUNT];
    size_t waits, grants, losses, killed, writes, refused;
    size_t too_late; /* grants whose lease was over when the holder first looked */
    size_t shared;   /* grants that leave room for others */
    size_t handed;   /* grants while the one before, of the same process, was in its release: no server was asked */
    size_t unclean;  /* grants that tell of a crash */
    size_t heard;    /* requests to give way */
    size_t closes;   /* in the middle of things */
    size_t commits;  /* that were carried out */
    size_t listed;   /* times that somebody was told of a group's members */
    size_t excused;  /* overlaps while an assumption of the lease was broken */
    /* Without what the process was kept from: the longest that a wait went on after its deadline, and from a loss to word of it. */
    int64_t worst_end_ns, worst_told_ns;
};

struct verdict_options {
    int64_t
        slack_ns; /* how long after its deadline a wait may end, or a holder hear of a loss, besides what its process was
                         kept from running */
    FILE *words;  /* where violations are told; NULL: nowhere */
};

/* history: sorted. */
void verdict_judge(struct verdict *verdict, const struct history *history, const struct verdict_options *options);
/* How many violations of all kinds. */
size_t verdict_total(const struct verdict *verdict);

#endif
