/* farewell.h - until no node of ours is left: the one transaction that deletes, announces and
 * clears, and the search for what a lost answer may have made. */
#ifndef ZKL_CORE_FAREWELL_H
#define ZKL_CORE_FAREWELL_H

#include <stdbool.h>

struct zkl__contender;
struct zkl__contender_actions;
struct zkl__contender_event;

/* Nothing of ours is left, as far as this session's answers say, nor can come any more. */
bool zkl__farewell_done(const struct zkl__contender *c);
void zkl__farewell_advance(struct zkl__contender *c, const struct zkl__contender_event *ev,
                           struct zkl__contender_actions *out);
void zkl__farewell_on_reply(struct zkl__contender *c, const struct zkl__contender_event *ev,
                            struct zkl__contender_actions *out);
void zkl__farewell_on_list(struct zkl__contender *c, const struct zkl__contender_event *ev,
                           struct zkl__contender_actions *out);
void zkl__farewell_on_stat(struct zkl__contender *c, const struct zkl__contender_event *ev,
                           struct zkl__contender_actions *out);
void zkl__farewell_on_barrier(struct zkl__contender *c, const struct zkl__contender_event *ev,
                              struct zkl__contender_actions *out);

#endif
