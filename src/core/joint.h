/* joint.h - contenders in several queues that stand and fall together: made by one transaction,
 * removed by one.
 *
 * One transaction gives the same order in every queue, so two joints can never wait for each other
 * crosswise, and nobody has to sort names. What the members ask for is held back here until all
 * have asked, and the answer of the transaction is dealt out as if it were theirs. Nobody is
 * granted before all are first; when one fails, the others are given up. A member whose place went
 * by itself is not made anew, since it would stand at another place than the others: the joint
 * fails. The end of a session is no such thing: there all places go, and all queue again. */
#ifndef ZKL_CORE_JOINT_H
#define ZKL_CORE_JOINT_H

#include "contender_step.h"

struct zkl__joint {
    struct zkl__machine machine; /* first. Its step follows those of its members */
    struct zkl__core *core;
    /* The owner's, until its last word. */
    void (*notify)(void *owner, const struct zkl__outcome *outcome);
    void *owner;
    size_t count, refs; /* refs: the owner until its last word, members not freed, the core while it
                           is ready */
    struct zkl__contender **seats; /* NULL: freed */

    /* the transaction */
    struct zkl__request request;
    enum zkl__role under_way; /* ZKL__ROLE_NONE: none is */
    struct zkl__op *parts;
    struct zkl__contender **dealt; /* whose the parts under way are */
    struct zkl__reply *replies;    /* what each of these is told: until its mail is read */
    size_t dealt_count;
    bool gathering; /* deletes are held back until all have asked */

    /* what the owner was told, and what it is owed */
    size_t granted, released;
    bool failed, lost, jeopardy;
    int code;          /* of RELEASED */
    bool open;         /* all are first: grants may be given */
    int64_t listed_at; /* the youngest list when all were first for the first time; 0: they have not
                          been */
};

/* For session_*.c. */

/* True when the op is held back and will be sent, or refused, by the joint. */
bool zkl__joint_holds_back(struct zkl__contender *c, enum zkl__role role);
/* A member made a step: what follows for the others follows when all have made theirs. */
void zkl__joint_post(struct zkl__joint *joint);
/* To all members. */
void zkl__joint_start(struct zkl__joint *joint, int64_t deadline, bool try_only);
void zkl__joint_cancel(struct zkl__joint *joint, int code);
void zkl__joint_release(struct zkl__joint *joint);
/* Its owner listens no more, and it ends by itself. */
void zkl__joint_end(struct zkl__joint *joint);
/* The member is freed. */
void zkl__joint_leave(struct zkl__contender *c);
void zkl__joint_unref(struct zkl__joint *joint);
/* The core goes before the owner had its last word: there will be none. */
void zkl__joint_disown(struct zkl__joint *joint);

#endif
