/* invariants.h - what must hold after every step, whatever the network does. The names are printed with a failure.
 *
 *  exclusion   leases of two holders of one lock never overlap, by the holders' own clocks; no more permits of a semaphore are held than
 *              its limit
 *  lease       what a core believes of its session's life never exceeds what the leader's tracker gives it
 *  token       rises from grant to grant of a path (of a lock that lingers its serial does), so nobody is passed over who is granted later; and is the
 *              czxid of a node that is there and is the grantee's
 *  linger      a lock that lingers is granted again only to its own session, while it was told of nobody else in the queue since, on the
 *              connection on which it was first, in order; it goes when its time is over, or when somebody queues
 *  line        without faults, contenders of one session that wait for a lock that lingers are granted on one znode after a few grants, as
 *              long as no other session waits
 *  mark        the first one granted after the end of a holder that did not release is told; and nobody is told where all release
 *  final       a grant whose lease has ended never comes back
 *  told        a core that holds wakes up by the end of its lease; after that nobody believes to hold
 *  removed     a holder whose node an operator deletes is told so within a heartbeat of each lock of its session; where nothing but
 *              operators disturbs, within one heartbeat
 *  max-hold    a node is gone once its holder has held it for max_hold
 *  least       a node stands for the least time after its grant, unless its holder lost, its session ended, or an operator took it
 *  delay       nobody is granted within the delay after the end of a holder that did not release; and nobody waits for it where all do
 *  jeopardy    told exactly while no server is connected, or little of the lease is left; and then that it is safe again
 *  room        who waits for permits of a semaphore while there are enough, since leases went or the limit grew, is granted
 *  healthy     on a network without faults nobody loses
 *  bounded     an acquire ends by its deadline; a core that waits wakes up by then
 *  outcome     one completion per acquire; outcomes in the order that contender.h allows; codes that fit the plan
 *  order       who was handed over to inside its session deletes its node after the other's
 *  foreign     nobody but a stranger deletes a node that is not of its own session
 *  orphan      when all is over and all faults are healed, no node of a living session is left; and nothing is watched by a
 *              session in which nobody waits, unless it lost a connection or could not send
 *  memory      a core that was freed has left nothing
 *  liveness    after healing every acquire ends
 *  wakeups     without faults and cancels a node's deletion wakes one waiter at most
 *  storm       a run stays within its room; and what the servers refused for an access list is not asked for again without a pause: less
 *              than 20 times in a second for each thread of a process
 *
 * Exceptions, as the manual prints them: an operator who deletes a node or closes a session; a leader that stood still for
 * longer than leader_pause_ms, or servers that grant different timeouts and end a session by the shorter one before its client
 * has heard of it (then violations of exclusion, lease and token are counted, not failed). */
#ifndef SIM_INVARIANTS_H
#define SIM_INVARIANTS_H

#include "sim.h"

void sim_judge_submit(struct sim *s, int client, const struct zkl__op *op);
/* The servers refuse it for an access list. */
void sim_judge_refused(struct sim *s, int client, enum zkl__op_kind op, int path);
void sim_judge_before(struct sim *s, int client);
/* next: when its core wants to wake up. */
void sim_judge_step(struct sim *s, int client, int64_t next, bool timer);
/* What this core of the client's believes of its session. */
void sim_judge_lease(struct sim *s, int client, const struct zkl__core *core);
void sim_judge_outcome(void *attempt, const struct zkl__outcome *outcome);
/* For so long from now on, whatever is sent may be late. */
void sim_judge_disturbed(struct sim *s, int64_t duration);
/* What this client's core is told. */
void sim_judge_connection(struct sim *s, int client, enum zkl__event_kind kind);
void sim_judge_freed(struct sim *s, int client);
void sim_judge_end(struct sim *s, bool in_time);
void sim_app_outcome(struct sim_attempt *attempt, const struct zkl__outcome *outcome);

/* client: -1, or whose thread it is about. */
void sim_fail_at(struct sim *s, int client, int thread, const char *invariant, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
#define sim_fail(s, ...) sim_fail_at(s, -1, 0, __VA_ARGS__)
/* Of an attempt, a turn or a call. */
#define sim_fail_of(it, ...) sim_fail_at((it)->s, (it)->client, (it)->thread, __VA_ARGS__)

/* --- what the parts of the judge share ------------------------------------------------------------------------------ */

/* Of those that rest on the lease: without its assumptions they are only counted. */
#define fail_by_lease(s, fail)      \
    do {                            \
        if ((s)->faults.beyond) {   \
            (s)->judge.off_lease++; \
        } else {                    \
            fail;                   \
        }                           \
    } while (0)

/* Name of its node in the queue of that seat. */
const char *sim_attempt_node(const struct sim_attempt *attempt, int seat);
/* What the threads of this client are at, one after the other; -1: of all clients. last: NULL, or the one before. */
static inline struct sim_attempt *sim_next_current(const struct sim *s, int client, const struct sim_attempt *last)
{
    int at = last ? last->client * SIM_THREADS + last->thread + 1 : client < 0 ? 0 : client * SIM_THREADS;
    int end = (client < 0 ? s->client_count : client + 1) * SIM_THREADS;
    while (at < end && !s->threads[at].attempt) {
        at++;
    }
    return at < end ? s->threads[at].attempt : NULL;
}
#define SIM_EACH_CURRENT(s, client, it) \
    for (struct sim_attempt *it = sim_next_current(s, client, NULL); it; it = sim_next_current(s, client, it))

/* Since when what this client sends arrives in time and is answered; SIM_NEVER: it does not. */
int64_t sim_calm_since(const struct sim *s, int client);
int64_t sim_round_trip(const struct sim *s);

/* Whoever stands in the queue of that node at that zxid, before that number, of_others: and is another session's; -1: nobody. */
int sim_ahead(const struct sim *s, int own, int64_t zxid, int64_t number, bool of_others);

/* invariants_grant.c: of one that waits. */
void sim_judge_delayed(struct sim *s, const struct sim_attempt *attempt);

/* A fault of this kind has struck in this run. */
bool sim_struck(const struct sim *s, enum sim_fault_kind kind);
/* One by which requests are refused, and sent again later. */
bool sim_is_hindered(const struct sim *s);

#endif
