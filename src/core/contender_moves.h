/* contender_moves.h - what contender.c (events), contender_ask.c (what is asked next) and
 * contender_answer.c (what answers mean) use of each other. */
#ifndef ZKL_CORE_CONTENDER_MOVES_H
#define ZKL_CORE_CONTENDER_MOVES_H

#include "contender_step.h"

#define EXHAUSTED \
    "the directory has given out all its 2147483647 sequence numbers: remove it when it is empty"

/* contender.c: moves that several events make. */

void zkl__contender_move(struct zkl__contender *c, enum zkl__contender_state state,
                         const char *why);
/* The one outcome of this step. */
void zkl__contender_tell(struct zkl__contender_actions *out, int64_t now,
                         enum zkl__outcome_kind kind, int code, int zk_code, const char *why);
/* Later once more: a little later each time. */
void zkl__contender_put_off(struct zkl__contender *c, int64_t now);
void zkl__contender_stop_watching(struct zkl__contender *c, struct zkl__contender_actions *out,
                                  enum zkl__watch_change how);
/* That on our own node. */
void zkl__contender_stop_own_watch(struct zkl__contender *c, struct zkl__contender_actions *out);
/* Never granted: told at once; what is left of it is removed in the background. */
void zkl__contender_fail(struct zkl__contender *c, const struct zkl__contender_event *ev,
                         struct zkl__contender_actions *out, int code, int zk_code,
                         const char *why);
/* What an error of the server means to one who waits. */
void zkl__contender_fail_by_reply(struct zkl__contender *c, const struct zkl__contender_event *ev,
                                  struct zkl__contender_actions *out);
/* A uuid belongs to one attempt in one session: so a name that carries it is ours, without a look
 * at its owner. */
void zkl__contender_new_attempt(struct zkl__contender *c);
/* The place is gone through no wish of ours: once more at the tail, or an end. */
void zkl__contender_queue_again(struct zkl__contender *c, const struct zkl__contender_event *ev,
                                struct zkl__contender_actions *out, const char *why);
void zkl__contender_grant(struct zkl__contender *c, const struct zkl__contender_event *ev,
                          struct zkl__contender_actions *out);
/* Granted on the word of whoever was before us: a list shows whether we are first, within a
 * heartbeat. */
void zkl__contender_look_later(struct zkl__contender *c, const struct zkl__contender_event *ev);
void zkl__contender_lose(struct zkl__contender *c, const struct zkl__contender_event *ev,
                         struct zkl__contender_actions *out, const char *why);
/* Our node is gone through no wish of ours. Held: lost. Else: once more at the tail, or an end. */
void zkl__contender_node_removed(struct zkl__contender *c, const struct zkl__contender_event *ev,
                                 struct zkl__contender_actions *out);
/* Nothing of ours is left. */
void zkl__contender_finish(struct zkl__contender *c, const struct zkl__contender_event *ev,
                           struct zkl__contender_actions *out, int code, const char *why);

/* contender_ask.c */

/* The watch will be on this child of the queue. False: no memory. */
bool zkl__contender_watch(struct zkl__contender *c, const char *name);
/* Which child that is. */
const char *zkl__contender_watched(const struct zkl__contender *c);
/* Asks for what the state needs and is not under way, if there is a connection. */
void zkl__contender_advance(struct zkl__contender *c, const struct zkl__contender_event *ev,
                            struct zkl__contender_actions *out);
void zkl__ask(struct zkl__contender *c, struct zkl__contender_actions *out, enum zkl__role role,
              struct zkl__op op);
void zkl__ask_list(struct zkl__contender *c, struct zkl__contender_actions *out);
void zkl__ask_node(struct zkl__contender *c, struct zkl__contender_actions *out,
                   enum zkl__role role, enum zkl__op_kind kind, const char *name);

/* contender_answer.c */

void zkl__contender_on_inspected(struct zkl__contender *c, const struct zkl__contender_event *ev,
                                 struct zkl__contender_actions *out);
void zkl__contender_on_reply(struct zkl__contender *c, const struct zkl__contender_event *ev,
                             struct zkl__contender_actions *out);

#endif
