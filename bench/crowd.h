/* crowd.h - jobs of this library's driver of its own, most with thousands of locks. CONTENDERS is
 * how many; each prints facts:
 *
 * - waiters: that many queue for one lock, from 8 sessions in turn; then 100 grants, one after the
 *   other, as sections
 * - held: one session holds that many locks for MS ms
 * - pending: one session, one thread: that many acquires wait, told by eventfd; then all are
 *   granted
 * - wait: one holds, the others wait for MS ms, a session each
 * - relay: one session hands over to another that waits, and back, as the raw driver's event does
 * - yield: two sessions in turn acquire a lock that lingers unused in the other one
 *
 * Before what is to be counted on the server a job prints "count" and waits for a line; after it,
 * again. */
#ifndef ZKL_BENCH_CROWD_H
#define ZKL_BENCH_CROWD_H

#include "driver.h"

#include <zklock/zklock.h>

zkl_session *bench_session(const struct job *job, zkl_callbacks callbacks, const zkl_heap *heap);
zkl_lock *bench_lock(const struct job *job, zkl_session *session, const char *path);

bool crowd_is(const struct job *job);
void crowd_run(const struct job *job);

#endif
