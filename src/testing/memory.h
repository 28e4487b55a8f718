/* memory.h - how tests make the in-process store (src/store/memory.c) fail.
 *
 * All: any thread, callbacks of a store included. ZKL_OK, ZKL_ENOENT (no such session
 * or tree, or the session is over), ZKL_EINVAL (not in this state), ZKL_ENOMEM (nothing happened).
 */
#ifndef ZKL_TESTING_MEMORY_H
#define ZKL_TESTING_MEMORY_H

#include "store.h"

/* The connection is lost now: replies and watch events not told yet are lost with it. The watches
 * are set again at resume, as the C client does it: what changed meanwhile is told then, a node
 * deleted and made again as CHANGED. */
int zkl__memory_suspend(int64_t session_id);
/* `connected`, or `expired` if the session was ended meanwhile. */
int zkl__memory_resume(int64_t session_id);
/* Suspended, and not resumed yet. */
bool zkl__memory_is_cut(int64_t session_id);
/* The server ends the session now. Told at once (suspended, unknown replies, expired) when
 * connected, at resume when not: a client learns of its session's end from a server only. */
int zkl__memory_expire(int64_t session_id);
/* Nothing is told, though operations are applied, until the hold ends (with false, or with the
 * connection). */
int zkl__memory_hold(int64_t session_id, bool on);
/* Plans a loss in the middle of things: the next `whole` operations are answered as ever, the
 * `half` ones behind them are applied but their replies are lost, the `lost` ones behind those
 * never arrive; then, as submit of the last one ends, the connection is suspended. All zero: takes
 * the plan back. */
int zkl__memory_break(int64_t session_id, size_t whole, size_t half, size_t lost);
/* The same for the next write: applied, its reply lost, the connection with it. */
int zkl__memory_lose_reply(int64_t session_id);
/* The next count writes are refused with this rc, and nothing is done; 0: none any more. Connected
 * or not. */
int zkl__memory_refuse(int64_t session_id, enum zkl__rc rc, size_t count);

/* Removes empty containers, as the server does once a minute and tick does here. */
int zkl__memory_reap(const char *servers);
/* Sets how many children path ever had: where its sequence goes on. */
int zkl__memory_set_counter(const char *servers, const char *path, int32_t creates);
/* What a session learns of a znode that it may not READ. */
int zkl__memory_set_rules(const char *servers, enum zkl__memory_rules rules);
/* A stranger, without a session or an identity, does one valid write or check, not ephemeral: what
 * became of it is in *rc. */
int zkl__memory_meddle(const char *servers, const struct zkl__op *op, enum zkl__rc *rc);

#endif
