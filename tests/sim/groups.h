/* groups.h - what watches a path in the core's simulator: memberships (groups.c), lists of a group's members and observers of the
 * queues (views.c). */
#ifndef SIM_GROUPS_H
#define SIM_GROUPS_H

#include "membership.h"
#include "sim.h"

/* --- groups.c -------------------------------------------------------------------------------------------------------- */

/* NULL: no memory. Outside a step, as the next two. */
struct sim_member *sim_member_make(struct sim_attempt *attempt);
void sim_member_join(struct sim_attempt *attempt);
void sim_member_leave(struct sim_attempt *attempt);
/* Their core goes next. */
void sim_members_drop(struct sim_client *client);
/* For a digest: is that one, and without what does not count. */
bool sim_member_is(const struct sim_client *client, const void *memory);
void sim_member_plain(void *memory, const struct sim_plan *plan);
void sim_judge_members(struct sim *s, int client);

/* app.c; also inside a step. */
void sim_app_joined(struct sim_attempt *attempt);
void sim_app_left(struct sim_attempt *attempt);

/* --- views.c --------------------------------------------------------------------------------------------------------- */

/* In plans that want it each process watches each path: who is in its group, or who is first in its queue. No memory: it does not. */
void sim_views_begin(struct sim *s, int client);
void sim_views_end(struct sim *s, int client);
/* It asked for that itself: what the reply shows, no contender knows. */
bool sim_views_asked(const struct sim *s, int client, uint64_t id);
void sim_views_submit(struct sim *s, int client, const struct zkl__op *op);
/* After a step of its core. */
void sim_judge_views(struct sim *s, int client);
/* All has been quiet for so long that they show what is so; or it never is. */
bool sim_views_rest(const struct sim *s);

#endif
