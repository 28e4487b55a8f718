/* digest.h - one number for all that a world of explore.c can still do: equal for worlds whose futures are equal.
 *
 * By default everything counts. What does not count, or not by its value, is listed here with the reason why no rule can tell the
 * difference. explore.c checks it: by histories, which leave nothing out, it comes to no world that it does not come to by
 * digests (`sim --explore ... histories`).
 *
 *  addresses   Memory of a core is read as a graph from the core on (Iosif's heap canonicalization): a pointer is the number of its block in
 *              the order of the walk. Nothing in the core compares or hashes an address.
 *  statistics  Of the core: counted, never read by a step. That the sums agree is checked at each step, of what the step adds.
 *  text        Behind the NUL of a name.
 *  zxids       By their order among those that something may still be compared with: births and writes of living nodes, tokens, and the tail
 *              of the log that not every server has applied. A later transaction is after all of them. Of what a client has last
 *              seen, by which of them it has seen.
 *  ids         Of operations: a reply names the slot of the core's table whose use it is, or none. Uses only grow.
 *  labels      Indices of messages, nodes, paths, connections: a path is its text, a node its path and birth, a connection its client
 *              and its place among that client's connections.
 *  the past    The log that every server has applied; nodes that no server shows and nothing names; connections closed at both ends;
 *              acquires that are over; the judge's counts.
 *  the room    of sim.h, which is much larger than these worlds. */
#ifndef SIM_DIGEST_H
#define SIM_DIGEST_H

#include "sim.h"

uint64_t sim_digest(const struct sim *s);

static inline uint64_t sim_blend(uint64_t hash, uint64_t value)
{
    return dice_mix(hash ^ (value + 0x9e3779b97f4a7c15u + (hash << 6)));
}
/* Of a core and all that is reached from it; rank: the zxids' order. digest_core.c */
uint64_t sim_digest_core(const struct sim *s, int client, uint64_t (*rank)(int64_t zxid));
/* The use of a slot that an operation's id names. */
uint64_t sim_digest_id(const struct sim *s, int client, uint64_t id);

#endif
