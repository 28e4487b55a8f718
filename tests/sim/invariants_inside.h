/* invariants_inside.h - what the parts of the judge share: invariants.c (sessions, steps, the end), invariants_grant.c (who is granted,
 * what is told), invariants_crash.c (what is known about the last holder). */
#ifndef SIM_INVARIANTS_INSIDE_H
#define SIM_INVARIANTS_INSIDE_H

#include "invariants.h"

/* Of those that rest on the lease: without its assumptions they are only counted. */
#define fail_by_lease(s, fail)      \
    do {                            \
        if ((s)->faults.beyond) {   \
            (s)->judge.off_lease++; \
        } else {                    \
            fail;                   \
        }                           \
    } while (0)

/* Its core knows it still. attempt may be NULL. */
bool sim_attempt_exists(const struct sim_attempt *attempt);
bool sim_attempt_queues_at(const struct sim_attempt *attempt, int path);
/* Name of its node in the queue of that seat. */
const char *sim_attempt_node(const struct sim_attempt *attempt, int seat);
/* What this thread is at; NULL: nothing. */
struct sim_attempt *sim_attempt_of(struct sim *s, int client, int thread);
/* Since when what this client sends arrives in time and is answered; SIM_NEVER: it does not. */
int64_t sim_calm_since(const struct sim *s, int client);
int64_t sim_round_trip(const struct sim *s);
/* So much time has passed since then, and at least a round trip in calm. */
bool sim_is_overdue(const struct sim *s, int client, int64_t since, int64_t duration);
/* Nothing excuses that a holder loses. */
bool sim_judge_healthy(const struct sim *s, int client);

/* Servers that grant different timeouts: the session ends before its client can know (an assumption of the lease). */
bool sim_shortened_untold(const struct sim *s, int client);

/* invariants_linger.c: the first grant on its node; NULL: a process that crashed had it. */
const struct sim_attempt *sim_first_of(const struct sim *s, const struct sim_attempt *attempt);
/* Of a grant on a node that was granted before; after each step. */
void sim_judge_again(struct sim *s, struct sim_attempt *attempt, int path, int node);
/* At a grant, in a plan of SIM_LINES. */
void sim_judge_apart(struct sim *s, const struct sim_attempt *attempt);

/* invariants_crash.c: at a grant; of one that waits; at a grant that says so. */
void sim_judge_delayed(struct sim *s, const struct sim_attempt *attempt);

/* semaphores.c: after each step; at a grant; is that its place or a lease of its; whether a stranger who removed that node hit this attempt. */
void sim_judge_permits(struct sim *s);
void sim_judge_room(struct sim *s, struct sim_attempt *attempt);
void sim_judge_permits_granted(struct sim *s, struct sim_attempt *attempt, int64_t token);
bool sim_semaphore_has(const struct sim_attempt *attempt, const char *node);
bool sim_semaphore_hit(const struct sim *s, const struct sim_attempt *attempt, int node);

/* A fault of this kind has struck in this run. */
bool sim_struck(const struct sim *s, enum sim_fault_kind kind);
/* One by which requests are refused, and sent again later. */
bool sim_is_hindered(const struct sim *s);

#endif
