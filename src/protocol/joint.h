/* joint.h - a multi-contender: contenders in several queues, its members. One transaction creates
 * all their znodes, and one deletes them.
 *
 * One transaction gives the same order in every queue. So two multi-contenders never wait for each
 * other, and nobody has to sort names. A request of a member waits here until all members have sent
 * theirs. The response of the transaction is then passed to each as its own. No member is granted
 * before all are first, and when one fails, the others are given up. A member whose znode was
 * deleted by somebody else does not queue again, because it would have another position than the
 * others: the multi-contender fails. The end of a session is different. It deletes all znodes, and
 * all members queue again. */
#ifndef ZKL_PROTOCOL_JOINT_H
#define ZKL_PROTOCOL_JOINT_H

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
    struct zkl__contender **dealt; /* the owners of the parts under way */
    struct zkl__reply *replies;    /* the response of each of them, until its mail is read */
    size_t dealt_count;
    bool gathering; /* deletes wait until all members have sent theirs */

    /* what the owner was notified of, and what is due */
    size_t granted, released;
    bool failed, lost, jeopardy;
    int code;          /* of RELEASED */
    bool open;         /* all are first: members may be granted */
    int64_t listed_at; /* the time of the newest list when all were first for the first time; 0: not
                          yet */
};

/* For session_*.c. */

/* True: the operation waits here, and the multi-contender will send or refuse it. */
bool zkl__joint_holds_back(struct zkl__contender *c, enum zkl__role role);
/* A member was stepped. The multi-contender acts when all members with mail were stepped. */
void zkl__joint_post(struct zkl__joint *joint);
/* To all members. */
void zkl__joint_start(struct zkl__joint *joint, int64_t deadline, bool try_only);
void zkl__joint_cancel(struct zkl__joint *joint, int code);
void zkl__joint_release(struct zkl__joint *joint);
/* The owner takes no more outcomes: the multi-contender ends by itself. */
void zkl__joint_end(struct zkl__joint *joint);
/* The member is freed. */
void zkl__joint_leave(struct zkl__contender *c);
void zkl__joint_unref(struct zkl__joint *joint);
/* The core is freed before the owner had its last outcome: there will be none. */
void zkl__joint_disown(struct zkl__joint *joint);

#endif
