/* place_inside.h - what the files of place share: a place's turns, completions and notices. Everything inside enter/leave. */
#ifndef ZKL_RECIPES_PLACE_INSIDE_H
#define ZKL_RECIPES_PLACE_INSIDE_H

#include "place.h"

#include "error.h"

/* One acquire and what came of it, until its release. Guarded by the session's mutex, as everything here. */
struct zkl__turn {
    struct zkl__place *place;
    const struct zkl__rule *rule;
    struct zkl__contender *contender; /* or: */
    struct zkl__joint *joint;         /* or: */
    void *claim;                      /* all NULL after the last word, or when it was let go */
    struct zkl__signal changed;
    unsigned refs;  /* the place while it is its turn, threads and completions that look at it */
    unsigned depth; /* acquires not yet released */
    bool settled;   /* the acquire has its result: */
    bool granted, jeopardy, released;
    bool downgraded; /* no downgrade is under way */
    bool unclean;
    int code, zk_code;
    const char *why;
    int64_t token;
    int64_t asked_at, settled_at, deadline;
    struct zkl__completion *completion; /* of the acquire that began it; NULL: a thread waits */
};

/* The one call of the user for an asynchronous acquire. */
struct zkl__completion {
    struct zkl__callback callback;
    struct zkl__turn *turn;
    struct zkl__completion *next;
    bool again; /* of a lock held already */
    zkl__any_fn done;
    void *payload;
};

/* place.c */
int64_t zkl__place_max_hold(const struct zkl__place *place);                        /* ns */
int zkl__place_enter(struct zkl__place *place, int64_t timeout_ms, zkl_error *err); /* for an acquire; not inside */

/* place_notice.c */
void zkl__place_note(struct zkl__place *place, zkl_state state);
void zkl__place_note_revoked(struct zkl__place *place);
void zkl__place_run_notes(void *place); /* not inside: of place->notice */
void zkl__place_tell_end(struct zkl__place *place);

/* place_turn.c */

/* A turn that is not started yet, or the one that is held already and counts; with a reference for the caller. */
int zkl__turn_begin(struct zkl__turn **out, struct zkl__place *place, const struct zkl__rule *rule, zkl_error *err);
void zkl__turn_start(struct zkl__turn *turn, int64_t timeout_ms);
void zkl__turn_await(struct zkl__turn *turn);
/* What one acquire came to, for its caller: who looks at the clock once more, since he may have slept since the grant. */
int zkl__turn_conclude(struct zkl__turn *turn, bool again, zkl_grant *grant, zkl_error *err);
bool zkl__turn_holds(const struct zkl__turn *turn);
/* A step for what the turn has in the core. */
void zkl__turn_event(struct zkl__turn *turn, struct zkl__event event);
void zkl__turn_cancel(struct zkl__turn *turn, int code);
/* The place is idle again; what was held goes in the background. */
void zkl__turn_drop(struct zkl__place *place);
/* The same, but waits for the server's word as long as the options say, and until the deadline at most. */
void zkl__turn_hand_back(struct zkl__place *place, int64_t deadline);
void zkl__turn_unref(struct zkl__turn *turn);

/* place_async.c: runs, or waits for, the completions that are owed, but for those that this very thread is running. */
void zkl__place_finish(struct zkl__place *place);

#endif
