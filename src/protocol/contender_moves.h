/* contender_moves.h - what the files of a contender use of contender.c (states, events) and of
 * contender_ask.c (what is asked next). */
#ifndef ZKL_PROTOCOL_CONTENDER_MOVES_H
#define ZKL_PROTOCOL_CONTENDER_MOVES_H

#include "contender_step.h"

#define EXHAUSTED \
    "the directory has given out all its 2147483647 sequence numbers: remove it when it is empty"

/* contender.c: moves that several events make. */

void zkl__contender_move(struct zkl__contender *c, enum zkl__contender_state state,
                         const char *why);
/* The one outcome of this step. */
void zkl__contender_tell(struct zkl__contender *c, enum zkl__outcome_kind kind, int code,
                         int zk_code, const char *why);
/* Later once more: a little later each time. */
void zkl__contender_put_off(struct zkl__contender *c);
/* It waits no more: what is left of it is removed in the background. */
void zkl__contender_withdraw(struct zkl__contender *c, const char *why);
/* Never granted: told at once; what is left of it is removed in the background. */
void zkl__contender_fail(struct zkl__contender *c, int code, int zk_code, const char *why);
/* What an error of the server means to one who waits. */
void zkl__contender_fail_by_reply(struct zkl__contender *c);
/* The place is gone through no wish of ours: once more at the tail, or an end. */
void zkl__contender_queue_again(struct zkl__contender *c, const char *why);
/* Nothing of ours is left. */
void zkl__contender_finish(struct zkl__contender *c, int code, const char *why);

/* contender_ask.c */

/* Sends what the state needs and is not under way, if there is a connection. Each step ends with
 * it. */
void zkl__contender_advance(struct zkl__contender *c);
void zkl__ask(struct zkl__contender *c, enum zkl__role role, struct zkl__op op);
void zkl__ask_list(struct zkl__contender *c);
void zkl__ask_node(struct zkl__contender *c, enum zkl__role role, enum zkl__op_kind kind,
                   const char *name);
/* The path of a child of the queue, into a buffer that grows. False: no memory. */
bool zkl__child_path(const struct zkl__contender *c, char **path, size_t *room, const char *name);

/* directory.c: the directory of the queue is missing, and made. */
void zkl__directory_missing(struct zkl__contender *c);
void zkl__directory_ask(struct zkl__contender *c);
void zkl__directory_on_reply(struct zkl__contender *c);

/* contender_answer.c */
void zkl__contender_on_reply(struct zkl__contender *c);

#endif
