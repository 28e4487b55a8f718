/* joint.h - several contenders, each in a queue of its own, that are made by one transaction and removed by one.
 *
 * One transaction gives the same order in every queue, so two joints can never wait for each other crosswise, and nobody has to
 * sort names. Each member goes on by itself afterwards. The contenders know nothing of it: what they ask for is held back here
 * until all have asked, and the answer of the transaction is dealt out as if it were theirs. */
#ifndef ZKL_CORE_JOINT_H
#define ZKL_CORE_JOINT_H

#include "contender_step.h"

struct zkl__joint {
    struct zkl__request request;
    struct zkl__core *core;
    size_t count, alive; /* alive: members not buried, and the owner */
    bool gathering;      /* deletes are held back until all have asked */
    enum zkl__role under_way;
    struct zkl__op *parts;
    struct zkl__contender **seats; /* NULL: gone */
    struct zkl__contender **dealt; /* whose the parts under way are */
    size_t dealt_count;
};

/* For session_step.c: true when the op is held back and will be sent, or refused, by the joint. */
bool zkl__joint_holds_back(struct zkl__contender *c, enum zkl__role role);
/* After each step of a member. */
void zkl__joint_look(struct zkl__contender *c);
void zkl__joint_release(struct zkl__joint *joint);
/* The member is buried. */
void zkl__joint_leave(struct zkl__contender *c);

#endif
